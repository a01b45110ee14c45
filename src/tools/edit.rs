//! Edit: one exact replacement.

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::change::{Draft, Existing, Replacement, edited};
use super::file_tool::FileTool;
use super::{Tool, spec};
use crate::protocol::envelope::{Failure, Report};
use crate::workspace::{Snapshot, Workspace};

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
    #[serde(default)]
    dry_run: bool,
}

/// The tool.
pub(super) fn tool() -> impl Tool {
    let spec = spec(
        "Edit",
        include_str!("../../prompts/tools/edit.md"),
        include_str!("../../prompts/tools/edit.json"),
    );
    FileTool::changing(
        spec,
        |args: &Args| &args.path,
        |args, cx| edit(&cx.workspace, args, cx.seen.as_ref(), &cx.cancel),
    )
}

fn edit(
    workspace: &Workspace,
    args: &Args,
    seen: Option<&Snapshot>,
    cancel: &CancellationToken,
) -> Result<Report, Failure> {
    let path = workspace.file(&args.path)?;
    workspace.check_writable(&path)?;
    let existing = Existing::open(workspace, path, seen)?;
    let replacement =
        Replacement { old: &args.old_string, new: &args.new_string, all: args.replace_all };
    let places = replacement.places(existing.text.plain(), existing.path.relative())?;
    let n = places.len();
    let edits: Vec<_> = places.into_iter().map(|place| (place, args.new_string.as_str())).collect();
    let draft = Draft::editing(existing, &edits)?;
    let mut report = draft.report(workspace, args.dry_run, cancel, &edited(n))?;
    report.data.insert("replacements".to_owned(), n.into());
    Ok(report)
}

#[cfg(test)]
mod tests;
