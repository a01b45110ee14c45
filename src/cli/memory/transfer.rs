//! Exports and imports lessons as lines of JSON.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::{MemoryProjectArgs, ProjectMemory, ScopeArgs};
use crate::app::{self, OpenError};
use agent_learning::lesson::{Lesson, Origin, Scope};
use agent_learning::lesson_filter;
use agent_protocol::reflection::find_widening_word;

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// The file; `-` reads standard input
    file: PathBuf,
    /// Import lessons of other projects as lessons of this one
    #[arg(long)]
    here: bool,
    #[command(flatten)]
    project_args: MemoryProjectArgs,
}

pub(super) fn export(range: &ScopeArgs) -> Result<String, OpenError> {
    let memory = ProjectMemory::open(&range.project_args)?;
    let items = memory.store.lessons(&memory.scopes(range))?;
    let line = |item: &Lesson| format!("{}\n", serde_json::to_string(item).unwrap_or_default());
    Ok(items.iter().map(line).collect())
}

pub(super) fn import(args: &ImportArgs) -> Result<String, OpenError> {
    let memory = ProjectMemory::open(&args.project_args)?;
    let from = args.file.display().to_string();
    let text = if from == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(&args.file)
    };
    let text = text.map_err(|error| OpenError::Usage(format!("{from}: {error}")))?;
    let masker = app::build_masker(&memory.config, &[])?;
    let (mut items, mut n_left_out) = (Vec::new(), 0);
    // Everything is parsed before anything is stored.
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let read = || -> serde_json::Result<Lesson> {
            let mut value: Value = serde_json::from_str(line)?;
            masker.mask_value(&mut value);
            serde_json::from_value(value)
        };
        let mut item = read().map_err(|error| {
            let hint = "nothing was imported; use the output of `agent memory export`";
            OpenError::Usage(format!("{from}:{}: is not a lesson: {error}; {hint}", n + 1))
        })?;
        if let Err(why) = check_imported(&memory, &mut item) {
            agent_ui::print_notice(&format!("{from}:{}: left out: {why}", n + 1));
            n_left_out += 1;
            continue;
        }
        // Ids are typed and are part of an index: letters, digits and few other characters.
        if item.id.is_empty()
            || !item.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            item.id = Lesson::compute_id(&item.scope, item.kind, &[&item.text]);
        }
        if args.here && item.scope != Scope::User {
            item = item.with_scope(memory.scope());
        }
        items.push(item);
    }
    let n_new = memory.store.import(&items)?;
    let n_items = items.len() + n_left_out;
    let left_out = if n_left_out > 0 { format!(", {n_left_out} left out") } else { String::new() };
    Ok(format!("imported {n_new} of {n_items} lessons{left_out}; the others existed already\n"))
}

/// Checks the lesson like one of a model, and resets its confidence: the kernel applies its fix
/// only after it has helped here.
fn check_imported(memory: &ProjectMemory, lesson: &mut Lesson) -> Result<(), String> {
    lesson.text = memory.check_text(&lesson.text).map_err(|error| error.to_string())?;
    let mut texts = Vec::new();
    if let Some(failure) = &lesson.failure {
        let input = failure.fix.clone().map(Value::Object).unwrap_or_default();
        collect_strings(&input, &mut texts);
    }
    for text in &texts {
        if let Some(why) = lesson_filter::rejection_reason(text) {
            return Err(format!("{text:?}: {why}"));
        }
    }
    if lesson.text.contains(['<', '>']) {
        return Err("the text contains markup".to_owned());
    }
    if let Some(word) = find_widening_word(&lesson.text.to_lowercase()) {
        return Err(format!("it mentions {word:?}; only the user widens permissions"));
    }
    if lesson.origin == Origin::User {
        lesson.origin = Origin::Distilled;
    }
    (lesson.frequency, lesson.recalled, lesson.helped, lesson.hurt) = (1, 0, 0, 0);
    lesson.sources.clear();
    Ok(())
}

fn collect_strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| collect_strings(value, found)),
        Value::Object(values) => {
            for (name, value) in values {
                found.push(name.clone());
                collect_strings(value, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
