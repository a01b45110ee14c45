//! Items as lines of JSON: for a copy, a colleague, another machine.

use std::io::Read as _;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::{Memory, Place, Range};
use crate::app::{self, OpenError};
use crate::learning::item::{Item, Origin, Scope};
use crate::learning::refuse;
use crate::ui;

#[derive(Debug, Args)]
pub(in crate::cli) struct ExportArgs {
    #[command(flatten)]
    range: Range,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ImportArgs {
    /// The file; `-` reads standard input
    file: PathBuf,
    /// What held in some project holds in this one
    #[arg(long)]
    here: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) fn export(args: &ExportArgs) -> Result<String, OpenError> {
    let memory = Memory::open(&args.range.place)?;
    let items = memory.store.every_item(&memory.scopes(&args.range))?;
    Ok(items
        .iter()
        .map(|item| format!("{}\n", serde_json::to_string(item).unwrap_or_default()))
        .collect())
}

pub(super) fn import(args: &ImportArgs) -> Result<String, OpenError> {
    let mut memory = Memory::open(&args.place)?;
    let from = args.file.display().to_string();
    let text = if from == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(&args.file)
    };
    let text = text.map_err(|error| OpenError::Usage(format!("{from}: {error}")))?;
    let masker = app::masker(&memory.config, &[])?;
    let (mut items, mut n_left_out) = (Vec::new(), 0);
    // Everything is read before anything is written.
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let read = || -> serde_json::Result<Item> {
            let mut value: Value = serde_json::from_str(line)?;
            masker.mask_value(&mut value);
            serde_json::from_value(value)
        };
        let mut item = read().map_err(|error| {
            let hint = "nothing was taken in; give what `agent memory export` has written";
            OpenError::Usage(format!("{from}:{}: is no item: {error}; {hint}", n + 1))
        })?;
        if let Err(why) = examine(&memory, &mut item) {
            ui::tell(&format!("{from}:{}: left out: {why}", n + 1));
            n_left_out += 1;
            continue;
        }
        // An id is typed and stands in an index: letters, digits and little else.
        if item.id.is_empty()
            || !item.id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            item.id = Item::id_of(&item.scope, item.kind, &item.text);
        }
        if args.here && item.scope != Scope::User {
            item.scope = memory.scope();
            item.id = Item::id_of(&item.scope, item.kind, &item.text);
        }
        items.push(item);
    }
    let n_new = memory.store.import(&items)?;
    let n_items = items.len() + n_left_out;
    let left_out = if n_left_out > 0 { format!(", {n_left_out} left out") } else { String::new() };
    Ok(format!("took in {n_new} of {n_items} items{left_out}; the others were there already\n"))
}

/// Somebody else's word: what a session may not teach a file may not either, and how often it helped there says
/// nothing of here: a fix is offered until it has helped, and not made.
fn examine(memory: &Memory, item: &mut Item) -> Result<(), String> {
    item.text = memory.text(&item.text).map_err(|error| error.to_string())?;
    item.tags.topic = item.tags.topic.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut said = vec![item.text.clone(), item.tags.topic.clone()];
    said.extend(item.tags.pattern.clone());
    if let Some(failure) = &item.failure {
        said.extend(failure.suggested_fix.clone());
        let fix = serde_json::to_value(&failure.fix).unwrap_or_default();
        strings(&fix, &mut said);
    }
    // What is not said needs no look.
    said.retain(|text| !text.is_empty());
    if let Some(why) = said.iter().find_map(|text| wrong(text)) {
        return Err(why);
    }
    item.because.take_if(|because| wrong(because).is_some());
    if item.origin == Origin::User {
        item.origin = Origin::Trace;
    }
    (item.frequency, item.wins, item.losses) = (1, 0, 0);
    Ok(())
}

/// Why this is not taken in from elsewhere. A mark of an element could end the frame in which a model is shown it.
fn wrong(text: &str) -> Option<String> {
    let mark = if text.contains('<') { Some("`<`") } else { None };
    let mark = mark.or_else(|| text.contains(char::is_control).then_some("a line break"));
    let why = mark.map(|mark| format!("{text:?} holds {mark}"));
    why.or_else(|| refuse::why(text, ""))
}

/// All that a value says, names included.
fn strings(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) => found.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| strings(value, found)),
        Value::Object(values) => {
            for (name, value) in values {
                found.push(name.clone());
                strings(value, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
