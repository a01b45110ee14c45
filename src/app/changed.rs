//! What changed on disk while a session lay still.

use crate::protocol::event::{Body, Event};
use crate::protocol::prompt::{Prompt, Prompts, prompt};
use crate::record::{self, LastSeen};
use crate::workspace::{FileStat, Workspace};

/// So many files are named; more are counted.
const MOST_NAMES: usize = 20;

/// What the model is told of files that are no longer as the session saw them; `None` where there are none,
/// or where it was told of them before.
pub(super) fn told(prompts: &Prompts, workspace: &Workspace, live: &[&Event]) -> Option<String> {
    const CHANGED: Prompt = prompt!("feedback/changed_since.md");
    let seen = record::files_seen(live.iter().copied());
    let changed: Vec<Changed> =
        seen.into_iter().filter_map(|(path, seen)| change(workspace, path, &seen)).collect();
    if changed.is_empty() {
        return None;
    }
    let names: Vec<&str> =
        changed.iter().take(MOST_NAMES).map(|changed| changed.shown.as_str()).collect();
    let mut names = names.join(", ");
    if let more @ 1.. = changed.len().saturating_sub(MOST_NAMES) {
        names.push_str(&format!(", and {more} more"));
    }
    let text = prompts.text(CHANGED).replace("{{files}}", &names).trim_end().to_owned();
    // What was told before the newest of these changes was about another one.
    let newest = changed.iter().filter_map(|changed| changed.mtime_ms).max();
    let is_told = live.iter().any(|event| match &event.body {
        Body::Feedback { text: told } if *told == text => {
            newest.is_none_or(|newest| record::milliseconds(&event.header.ts) >= Some(newest))
        }
        _ => false,
    });
    (!is_told).then_some(text)
}

/// A file that is not as it was seen.
struct Changed {
    /// Its path, and what happened to it.
    shown: String,
    /// When it was changed; `None` where it is gone.
    mtime_ms: Option<i64>,
}

fn change(workspace: &Workspace, path: String, seen: &LastSeen) -> Option<Changed> {
    // What may no longer be looked at is not told of.
    let resolved = workspace.resolve(&path).ok()?;
    let Ok(data) = workspace.metadata(&resolved) else {
        return Some(Changed { shown: format!("{path} (gone)"), mtime_ms: None });
    };
    let stat = FileStat::of(&data);
    let is_as_seen = match *seen {
        LastSeen::Read { mtime_ms, size } => (stat.mtime_ms(), stat.size) == (mtime_ms, size),
        LastSeen::Written { at_ms } => stat.mtime_ms() <= at_ms,
    };
    (!is_as_seen).then(|| Changed { shown: path, mtime_ms: Some(stat.mtime_ms()) })
}
