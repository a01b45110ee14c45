//! What changed on disk while a session lay still.

use crate::protocol::event::{Body, ChangedFile, Event};
use crate::protocol::prompt::{Prompt, Prompts, prompt};
use crate::record::{self, LastSeen};
use crate::workspace::{FileStat, Workspace};

/// So many files are named; more are counted.
const MOST_NAMES: usize = 20;

/// What the model is told of files that are no longer as the session saw them; `None` where there are none,
/// or where it was told of just these before.
pub(super) fn told(prompts: &Prompts, workspace: &Workspace, live: &[&Event]) -> Option<Body> {
    const CHANGED: Prompt = prompt!("feedback/changed_since.md");
    let seen = record::files_seen(live.iter().copied());
    let files: Vec<ChangedFile> =
        seen.into_iter().filter_map(|(path, seen)| change(workspace, path, &seen)).collect();
    let told_last = live.iter().rev().find_map(|event| match &event.body {
        Body::Feedback { files, .. } if !files.is_empty() => Some(files),
        _ => None,
    });
    if files.is_empty() || told_last == Some(&files) {
        return None;
    }
    let name = |file: &ChangedFile| match file.mtime_ms {
        Some(_) => file.path.clone(),
        None => format!("{} (gone)", file.path),
    };
    let mut names = files.iter().take(MOST_NAMES).map(name).collect::<Vec<_>>().join(", ");
    if let more @ 1.. = files.len().saturating_sub(MOST_NAMES) {
        names.push_str(&format!(", and {more} more"));
    }
    let text = prompts.text(CHANGED).replace("{{files}}", &names).trim_end().to_owned();
    Some(Body::Feedback { text, files })
}

fn change(workspace: &Workspace, path: String, seen: &LastSeen) -> Option<ChangedFile> {
    // What may no longer be looked at is not told of.
    let resolved = workspace.resolve(&path).ok()?;
    let Ok(data) = workspace.metadata(&resolved) else {
        return Some(ChangedFile { path, mtime_ms: None, size: 0 });
    };
    let stat = FileStat::of(&data);
    let (mtime_ms, size) = (stat.mtime_ms(), stat.size);
    let is_as_seen = match *seen {
        LastSeen::Read { mtime_ms: then, size: bytes } => (mtime_ms, size) == (then, bytes),
        LastSeen::Written { at_ms } => mtime_ms <= at_ms,
    };
    (!is_as_seen).then_some(ChangedFile { path, mtime_ms: Some(mtime_ms), size })
}
