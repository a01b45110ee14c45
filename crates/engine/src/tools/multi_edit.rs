//! MultiEdit: several replacements in one file, all or none.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::change::{ChangeDraft, ExistingFile, Replacement, with_current_text};
use super::file_tool::FileTool;
use super::{Tool, ToolCx, embedded_spec};
use agent_host::workspace::ProjectPath;
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    path: String,
    edits: Vec<SingleEdit>,
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Deserialize, Serialize)]
struct SingleEdit {
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

/// The tool.
pub(super) fn tool() -> impl Tool {
    let spec = embedded_spec("MultiEdit", embedded::MULTI_EDIT);
    FileTool::new_writer(
        spec,
        |args: &Args| &args.path,
        |args, cx, checked_path| {
            let done = edit_all(args, cx, cx.workspace.existing_file(checked_path)?);
            let passages: Vec<&str> =
                args.edits.iter().map(|one| one.old_string.as_str()).collect();
            done.map_err(|failure| with_current_text(failure, cx, checked_path, &passages))
        },
    )
}

fn edit_all(args: &Args, cx: &ToolCx, path: ProjectPath) -> Result<Report, Failure> {
    let workspace = &cx.workspace;
    workspace.check_writable(&path)?;
    let existing = ExistingFile::open(workspace, path, cx.expected_snapshot.as_ref())?;
    let at = existing.path.relative();
    let mut places = Vec::new();
    for (index, one) in args.edits.iter().enumerate() {
        let replacement = Replacement {
            old: &one.old_string,
            new: &one.new_string,
            replace_all: one.replace_all,
        };
        let found = replacement.find_ranges(existing.text.plain(), at).map_err(|failure| {
            let message = format!("edits[{index}]: {}; nothing was changed", failure.message);
            Failure { message, ..failure }.with_data("failed_index", index)
        })?;
        places.extend(found.into_iter().map(|place| (place, index)));
    }
    places.sort_by_key(|(place, index)| (place.start, *index));
    for pair in places.windows(2) {
        let [(first, i), (second, j)] = pair else { continue };
        if second.start < first.end {
            let (i, j) = (i.min(j), i.max(j));
            let message = format!("edits[{i}] and edits[{j}] overlap; nothing was changed");
            return Err(Failure::new(ErrorCode::InvalidParam, message)
                .with_hint("make one edit of the two")
                .with_data("overlapping", json!([i, j]))
                .with_data("failed_index", *j)
                .with_path(at));
        }
    }
    let n = places.len();
    let edits: Vec<_> = places
        .into_iter()
        .map(|(place, index)| (place, args.edits[index].new_string.as_str()))
        .collect();
    let draft = ChangeDraft::from_edits(existing, &edits, cx.diff_size)?;
    let mut report = draft.apply_and_report(workspace, args.dry_run, &cx.cancel, "Edited")?;
    report.data.insert("replacements".to_owned(), n.into());
    Ok(report)
}

#[cfg(test)]
mod tests;
