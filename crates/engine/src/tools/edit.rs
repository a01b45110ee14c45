//! Edit: replaces one exact text in a file.

use serde::{Deserialize, Serialize};

use super::change::{Draft, Existing, Replacement, with_current_text};
use super::file_tool::FileTool;
use super::{Tool, ToolCx, spec};
use agent_host::workspace::ProjectPath;
use agent_protocol::embedded;
use agent_protocol::envelope::{Failure, Report};

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
    let spec = spec("Edit", embedded::EDIT);
    FileTool::changing(
        spec,
        |args: &Args| &args.path,
        |args, cx, checked_path| {
            let done = edit(args, cx, cx.workspace.file(checked_path)?);
            done.map_err(|failure| {
                with_current_text(failure, cx, checked_path, &[&args.old_string])
            })
        },
    )
}

fn edit(args: &Args, cx: &ToolCx, path: ProjectPath) -> Result<Report, Failure> {
    let workspace = &cx.workspace;
    workspace.check_writable(&path)?;
    let existing = Existing::open(workspace, path, cx.seen.as_ref())?;
    let replacement =
        Replacement { old: &args.old_string, new: &args.new_string, all: args.replace_all };
    let places = replacement.places(existing.text.plain(), existing.path.relative())?;
    let n = places.len();
    let edits: Vec<_> = places.into_iter().map(|range| (range, args.new_string.as_str())).collect();
    let draft = Draft::editing(existing, &edits, cx.diff)?;
    let mut report = draft.report(workspace, args.dry_run, &cx.cancel, "Edited")?;
    report.data.insert("replacements".to_owned(), n.into());
    Ok(report)
}

#[cfg(test)]
mod tests;
