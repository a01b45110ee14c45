//! Write: creates or replaces a whole file.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::change::{ChangeDraft, ExistingFile, NewContent, with_current_text};
use super::file_tool::FileTool;
use super::files::json_object;
use super::{Tool, ToolCx, embedded_spec};
use agent_host::workspace::{Diff, ProjectPath, plain};
use agent_protocol::embedded;
use agent_protocol::envelope::{ErrorCode, Failure, Report};

#[derive(Debug, Deserialize, Serialize)]
struct Args {
    path: String,
    content: String,
    #[serde(default)]
    dry_run: bool,
}

/// The tool.
pub(super) fn tool() -> impl Tool {
    let spec = embedded_spec("Write", embedded::WRITE);
    FileTool::new_writer(
        spec,
        |args: &Args| &args.path,
        |args, cx, checked_path| {
            let done = write_file(args, cx, checked_path.path().clone());
            done.map_err(|failure| with_current_text(failure, cx, checked_path, &[]))
        },
    )
}

fn write_file(args: &Args, cx: &ToolCx, path: ProjectPath) -> Result<Report, Failure> {
    let workspace = &cx.workspace;
    workspace.check_writable(&path)?;
    if !workspace.exists(&path) {
        if let Some(seen) = &cx.expected_snapshot {
            return Err(workspace.deletion_conflict(&path, seen));
        }
        let content = plain(&args.content);
        let names = ("/dev/null", format!("b/{}", path.relative()));
        let draft = ChangeDraft {
            diff: Diff::after_lines(0, "", &content, (names.0, &names.1), cx.diff_size),
            path,
            old_snapshot: None,
            new_content: NewContent::Whole(args.content.clone().into_bytes()),
            changed_lines: Vec::new(),
        };
        let mut report = draft.apply_and_report(workspace, args.dry_run, &cx.cancel, "Created")?;
        report.data.insert("operation".to_owned(), "create".into());
        return Ok(report);
    }
    let existing = ExistingFile::open(workspace, path, cx.expected_snapshot.as_ref())?;
    let new = existing.text.rewrite(&args.content);
    if new.is_same_as(&existing.text) || plain(&args.content) == existing.text.plain() {
        return Ok(Report {
            data: json_object(
                json!({ "applied": false, "operation": "update", "diff_preview": "" }),
            ),
            text: format!("{} has this content already: unchanged.", existing.path.relative()),
            stats: json_object(json!({ "bytes_written": 0, "lines_added": 0, "lines_removed": 0 })),
            path: Some(existing.path.relative().to_owned()),
            partial: false,
        });
    }
    if cx.expected_snapshot.is_some() && !workspace.is_fully_shown(&existing.path) {
        let at = existing.path.relative();
        let first = workspace.first_unshown_line(&existing.path);
        let message = format!("line {first} of {at} was not shown: Write needs all lines");
        return Err(Failure::new(ErrorCode::NotRead, message).with_path(at));
    }
    let draft = ChangeDraft::from_text(existing, new, cx.diff_size)?;
    let mut report = draft.apply_and_report(workspace, args.dry_run, &cx.cancel, "Updated")?;
    report.data.insert("operation".to_owned(), "update".into());
    Ok(report)
}

#[cfg(test)]
mod tests;
