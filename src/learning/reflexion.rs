//! What reflections wanted to be remembered: kept only where their patch helped, each with the failure it came from.

use super::evidence::as_condition;
use super::extract::error_type;
use super::fold::{Harvest, Said};
use super::item::{Condition, FailurePattern, Item, Origin, Scope};
use super::leads::led_by;
use super::pattern;
use super::refuse;
use super::trace::{Attempt, ExecutionTrace, telling};
use crate::protocol::command::simple_commands;
use crate::protocol::recall::ItemKind;
use crate::protocol::reflection::{MemoryItem, MemoryKind};
use crate::protocol::{Object, shorten};
use serde_json::Value;

use super::chain::main_command;
use super::command::head;

/// What is kept of a turn's reflections, and what was refused: text and reason.
pub fn items(harvest: &Harvest) -> (Vec<Item>, Vec<(String, String)>) {
    let (mut items, mut refused) = (Vec::<Item>::new(), Vec::new());
    for said in &harvest.reflections {
        let helped = helped(harvest, said);
        for memory in &said.reflection.memory_to_write {
            let text = memory.text.trim();
            let Some((trace, failure)) = helped else {
                refused
                    .push((text.to_owned(), "what failed was not made good after it".to_owned()));
                continue;
            };
            if let Some(why) = refuse::why(text, &harvest.task) {
                refused.push((text.to_owned(), why));
                continue;
            }
            let item = item(trace, failure, said, memory);
            // The patch and the cause are kept too.
            let all = serde_json::to_string(&item).unwrap_or_default();
            if refuse::holds_secret(&all) {
                refused.push((text.to_owned(), refuse::SECRET.to_owned()));
            } else if !items.iter().any(|known| known.text == text) {
                items.push(item);
            }
        }
    }
    (items, refused)
}

/// The trace whose failure the reflection was asked about, and that failure, where it was made good later.
fn helped<'a>(harvest: &'a Harvest, said: &Said) -> Option<(&'a ExecutionTrace, &'a Attempt)> {
    let about = said.about.as_deref()?;
    let is_it = |attempt: &&Attempt| call_of(attempt) == Some(about);
    let of_trace = |trace: &'a ExecutionTrace| {
        trace.attempts.iter().find(is_it).map(|failure| (trace, failure))
    };
    harvest.traces.iter().filter(|trace| trace.final_success).find_map(of_trace)
}

/// A reflection on one of this trace's failures has said what is worth keeping of it.
pub(super) fn has_spoken(harvest: &Harvest, trace: &ExecutionTrace) -> bool {
    let calls = trace.attempts.iter().filter_map(call_of);
    let is_about = |said: &Said, call: &str| {
        said.about.as_deref() == Some(call) && !said.reflection.memory_to_write.is_empty()
    };
    calls.into_iter().any(|call| harvest.reflections.iter().any(|said| is_about(said, call)))
}

/// What kind of item a model's word becomes.
pub(super) fn kind_of(kind: MemoryKind) -> ItemKind {
    match kind {
        MemoryKind::Rule => ItemKind::Rule,
        MemoryKind::Pattern => ItemKind::Pattern,
    }
}

/// When a model's word is told: on a failure like this one. What helped is told in its words alone.
pub(super) fn failure_of(
    trace: &ExecutionTrace,
    failed: &Attempt,
    suggested_fix: Option<String>,
) -> FailurePattern {
    let empty = Object::new();
    let input = failed.context.get("input").and_then(Value::as_object).unwrap_or(&empty);
    let argument = |name: &str| input.get(name).and_then(Value::as_str);
    let command_head = argument("command").and_then(|line| {
        let commands = simple_commands(line);
        main_command(&commands).map(|simple| head(simple.program()).join(" "))
    });
    let tool = failed.context.get("tool").and_then(Value::as_str).unwrap_or_default();
    let exit_code = failed.context.get("exit_code").and_then(Value::as_i64);
    let error = failed.error.as_deref().unwrap_or_default();
    FailurePattern {
        skill: trace.skill_id.clone(),
        condition: shorten(&format!("{tool}: {}", telling(error)), 160),
        error_type: error_type(failed).to_owned(),
        suggested_fix,
        when: Condition {
            tool: tool.to_owned(),
            code: failed.code,
            signature: Some(as_condition(telling(error))).filter(|piece| piece.len() >= 4),
            command_head,
            file_kind: argument("path").and_then(pattern::kind_of).map(str::to_owned),
            // A program that is missing is missing on machines of this kind.
            platform: matches!(exit_code, Some(126 | 127)).then(|| std::env::consts::OS.to_owned()),
            ..Condition::default()
        },
        fix: None,
        led_by: led_by(failed),
    }
}

fn call_of(attempt: &Attempt) -> Option<&str> {
    attempt.context.get("call").and_then(Value::as_str)
}

fn item(trace: &ExecutionTrace, failure: &Attempt, said: &Said, memory: &MemoryItem) -> Item {
    let scope = Scope::Project(trace.project.clone());
    let kind = kind_of(memory.kind);
    let text = memory.text.trim().to_owned();
    // The patch is what the model was told, and helped.
    let patch = shorten(said.reflection.patch_prompt.trim(), 300);
    let patch = Some(patch).filter(|patch| !patch.is_empty());
    Item {
        id: Item::id_of(&scope, kind, &text),
        scope,
        kind,
        text,
        tags: memory.tags.clone(),
        failure: Some(failure_of(trace, failure, patch)),
        because: Some(shorten(&said.reflection.root_cause.text, 160))
            .filter(|text| !text.is_empty()),
        evidence: vec![trace.session.clone()],
        origin: Origin::Reflection,
        frequency: 1,
        wins: 1,
        losses: 0,
        created_at_ms: failure.timestamp_ms,
        last_occurred_ms: failure.timestamp_ms,
    }
}
