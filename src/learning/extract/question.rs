//! What rules do not see, as a question for a light model: a prompt as data, and an answer that is accepted or not.

use serde::Deserialize;
use serde_json::Value;

use super::super::chain::main_command;
use super::super::command::{head, simple_commands};
use super::super::evidence::{is_circumstance, telling_line};
use super::super::item::{Condition, FailurePattern, Item, Origin, Scope};
use super::super::refuse;
use super::super::trace::{Attempt, ExecutionTrace};
use super::{Try, error_type};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::prompt::{Prompt, prompt};
use crate::protocol::recall::ItemKind;
use crate::protocol::reflection::{MemoryItem, MemoryKind};
use crate::protocol::shorten;

/// What a model is told of its business.
pub const EXTRACT: Prompt = prompt!("learning/extract.md");
/// So many items of one answer are looked at.
const MAX_ITEMS: usize = 2;
/// How much of one output is shown.
const OUTPUT_BYTES: usize = 600;

/// A question to a light model, for the purpose `learn`.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The trace that it is about.
    pub trace: String,
    /// What it is asked; the system prompt is [`EXTRACT`].
    pub text: String,
}

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    items: Vec<MemoryItem>,
}

/// A question about a trace that ended well; none where there is nothing that could be told in a sentence: work
/// that was wrong, and then was right.
pub(super) fn of(trace: &ExecutionTrace) -> Option<Question> {
    let (success, failures) = trace.attempts.split_last()?;
    let last = failures.iter().rev().find(|attempt| !attempt.success)?;
    let is_command = matches!(last.code, Some(ErrorCode::CommandFailed | ErrorCode::Timeout));
    let speaks = last.error.as_deref().unwrap_or_default().lines().skip(1).any(is_circumstance);
    if !is_command || !speaks {
        return None;
    }
    let mut text = String::new();
    for attempt in failures.iter().chain([success]) {
        text.push_str(&told(attempt));
    }
    Some(Question { trace: trace.id.clone(), text })
}

fn told(attempt: &Attempt) -> String {
    let Some(call) = Try::of(attempt) else { return String::new() };
    let mut text = String::new();
    let between = attempt.context.get("between").and_then(Value::as_array);
    for call in between.into_iter().flatten() {
        text.push_str(&format!(
            "in between: {} {}\n",
            call["tool"].as_str().unwrap_or_default(),
            shorten(&call["input"].to_string(), 200)
        ));
    }
    let input = shorten(&serde_json::to_string(call.input).unwrap_or_default(), 400);
    text.push_str(&format!("{}. {} {input}\n", attempt.index, call.tool));
    match &attempt.error {
        Some(error) => {
            let from = error.ceil_char_boundary(error.len().saturating_sub(OUTPUT_BYTES));
            text.push_str(&format!("failed: {}\n", &error[from..]));
        }
        None => text.push_str("worked\n"),
    }
    text
}

/// What of a model's answer is kept: items with their evidence, and what was refused, with the reason.
pub fn accept(
    answer: &str,
    trace: &ExecutionTrace,
    task: &str,
) -> (Vec<Item>, Vec<(String, String)>) {
    let (mut items, mut refused) = (Vec::new(), Vec::new());
    let json = answer.find('{').zip(answer.rfind('}')).and_then(|(from, to)| answer.get(from..=to));
    let parsed: Option<Answer> = json.and_then(|json| serde_json::from_str(json).ok());
    for said in parsed.map(|answer| answer.items).unwrap_or_default().into_iter().take(MAX_ITEMS) {
        match refuse::why(&said.text, task) {
            Some(why) => refused.push((said.text, why)),
            None => items.extend(item(trace, said)),
        }
    }
    (items, refused)
}

fn item(trace: &ExecutionTrace, said: MemoryItem) -> Option<Item> {
    let (success, failures) = trace.attempts.split_last()?;
    let failure = failures.iter().rev().find(|attempt| !attempt.success)?;
    let bad = Try::of(failure)?;
    let kind = match said.kind {
        MemoryKind::Rule => ItemKind::Rule,
        MemoryKind::Pattern => ItemKind::Pattern,
    };
    let scope = Scope::Project(trace.project.clone());
    let text = said.text.trim().to_owned();
    let command_head = bad.command().and_then(|line| {
        let commands = simple_commands(line);
        main_command(&commands).map(|simple| head(simple.program()).join(" "))
    });
    Some(Item {
        id: Item::id_of(&scope, kind, &text),
        scope,
        kind,
        tags: said.tags,
        failure: Some(FailurePattern {
            skill: trace.skill_id.clone(),
            condition: format!("{} fails: {}", bad.tool, bad.signature().unwrap_or_default()),
            error_type: error_type(failure).to_owned(),
            suggested_fix: Some(text.clone()),
            when: Condition {
                tool: "Bash".to_owned(),
                code: failure.code,
                signature: bad.signature(),
                command_head,
                ..Condition::default()
            },
            fix: None,
        }),
        text,
        because: failure.error.as_deref().and_then(telling_line).map(|line| shorten(line, 120)),
        evidence: vec![trace.session.clone()],
        origin: Origin::Trace,
        frequency: 1,
        // A model's words: the success is the trace's, not yet that of the advice.
        wins: 0,
        losses: 0,
        created_at_ms: success.timestamp_ms,
        last_occurred_ms: success.timestamp_ms,
    })
}
