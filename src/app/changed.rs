//! What changed on disk while a session lay still.

use crate::protocol::event::{Body, Event};
use crate::protocol::prompt::{Prompt, Prompts, prompt};
use crate::record::{self, LastSeen};
use crate::workspace::{FileStat, Workspace};

/// So many files are named; more are counted.
const MOST_NAMES: usize = 20;

/// What the model is told of files that are no longer as the session saw them; `None` where there are none,
/// or where it was told before.
pub(super) fn told(prompts: &Prompts, workspace: &Workspace, live: &[&Event]) -> Option<String> {
    const CHANGED: Prompt = prompt!("feedback/changed_since.md");
    let seen = record::files_seen(live.iter().copied());
    let changed: Vec<String> =
        seen.into_iter().filter_map(|(path, seen)| change(workspace, path, &seen)).collect();
    if changed.is_empty() {
        return None;
    }
    let mut names = changed[..changed.len().min(MOST_NAMES)].join(", ");
    if let more @ 1.. = changed.len().saturating_sub(MOST_NAMES) {
        names.push_str(&format!(", and {more} more"));
    }
    let text = prompts.text(CHANGED).replace("{{files}}", &names).trim_end().to_owned();
    let last = live.iter().rev().find_map(|event| match &event.body {
        Body::Feedback { text } => Some(text),
        _ => None,
    });
    (last != Some(&text)).then_some(text)
}

/// The file and what happened to it, where it is not as it was seen.
fn change(workspace: &Workspace, path: String, seen: &LastSeen) -> Option<String> {
    // What may no longer be looked at is not told of.
    let resolved = workspace.resolve(&path).ok()?;
    let Ok(data) = workspace.metadata(&resolved) else { return Some(format!("{path} (gone)")) };
    let stat = FileStat::of(&data);
    let is_as_seen = match *seen {
        LastSeen::Read { mtime_ms, size } => (stat.mtime_ms(), stat.size) == (mtime_ms, size),
        LastSeen::Written { at_ms } => stat.mtime_ms() <= at_ms,
    };
    (!is_as_seen).then_some(path)
}
