//! Reports files that changed on disk since the session last ran.

use agent_host::workspace::{FileStat, Workspace};
use agent_protocol::event::{ChangedFile, Event, EventBody};
use agent_protocol::prompt::{Prompt, Prompts};
use agent_record::LastFileAccess;

/// Further files are only counted.
const MAX_NAMES: usize = 20;

/// The message to the model about files that changed since the session saw them; `None` if there are none, or
/// if it was already notified of exactly these.
pub(super) fn changed_files_notice(
    prompts: &Prompts,
    workspace: &Workspace,
    live: &[&Event],
) -> Option<EventBody> {
    const CHANGED: Prompt = Prompt::named("feedback/changed_since.md");
    let seen = agent_record::last_file_accesses(live.iter().copied());
    let files: Vec<ChangedFile> =
        seen.into_iter().filter_map(|(path, seen)| changed_file(workspace, path, &seen)).collect();
    let last_notice = live.iter().rev().find_map(|event| match &event.body {
        EventBody::Feedback { files, .. } if !files.is_empty() => Some(files),
        _ => None,
    });
    if files.is_empty() || last_notice == Some(&files) {
        return None;
    }
    let name = |file: &ChangedFile| match file.mtime_ms {
        Some(_) => file.path.clone(),
        None => format!("{} (gone)", file.path),
    };
    let mut names = files.iter().take(MAX_NAMES).map(name).collect::<Vec<_>>().join(", ");
    if let more @ 1.. = files.len().saturating_sub(MAX_NAMES) {
        names.push_str(&format!(", and {more} more"));
    }
    let text = prompts.text(CHANGED).replace("{{files}}", &names).trim_end().to_owned();
    Some(EventBody::Feedback { text, files })
}

fn changed_file(workspace: &Workspace, path: String, seen: &LastFileAccess) -> Option<ChangedFile> {
    // Files that may not be shown now are not reported.
    let resolved = workspace.resolve(&path).ok()?;
    let Ok(data) = workspace.metadata(&resolved) else {
        return Some(ChangedFile { path, mtime_ms: None, size: 0 });
    };
    let stat = FileStat::of(&data);
    let (mtime_ms, size) = (stat.mtime_ms(), stat.size);
    let is_as_seen = match *seen {
        LastFileAccess::Read { mtime_ms: then, size: bytes } => (mtime_ms, size) == (then, bytes),
        LastFileAccess::Written { at_ms } => mtime_ms <= at_ms,
    };
    (!is_as_seen).then_some(ChangedFile { path, mtime_ms: Some(mtime_ms), size })
}
