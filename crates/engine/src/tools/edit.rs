//! Edit: replaces one exact text in a file.

use serde::{Deserialize, Serialize};

use super::change::{ChangeDraft, ExistingFile, Replacement, with_current_text};
use super::file_tool::FileTool;
use super::{Tool, ToolCx, embedded_spec};
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
    let spec = embedded_spec("Edit", embedded::EDIT);
    FileTool::new_writer(
        spec,
        |args: &Args| &args.path,
        |args, cx, checked_path| {
            let done = edit(args, cx, cx.workspace.existing_file(checked_path)?);
            done.map_err(|failure| {
                with_current_text(failure, cx, checked_path, &[&args.old_string])
            })
        },
    )
}

fn edit(args: &Args, cx: &ToolCx, path: ProjectPath) -> Result<Report, Failure> {
    let workspace = &cx.workspace;
    workspace.check_writable(&path)?;
    let existing = ExistingFile::open(workspace, path, cx.expected_snapshot.as_ref())?;
    let replacement =
        Replacement { old: &args.old_string, new: &args.new_string, replace_all: args.replace_all };
    let places = replacement.find_ranges(existing.text.plain(), existing.path.relative())?;
    let n = places.len();
    let edits: Vec<_> = places.into_iter().map(|range| (range, args.new_string.as_str())).collect();
    let draft = ChangeDraft::from_edits(existing, &edits, cx.diff_size)?;
    let mut report = draft.apply_and_report(workspace, args.dry_run, &cx.cancel, "Edited")?;
    report.data.insert("replacements".to_owned(), n.into());
    Ok(report)
}

#[cfg(test)]
mod tests;
