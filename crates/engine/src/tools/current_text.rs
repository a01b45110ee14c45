//! The current text of a file whose change was refused because it was not read, or changed since.

use super::ToolCx;
use agent_host::workspace::CheckedPath;
use agent_protocol::Object;
use agent_protocol::envelope::{ErrorCode, Failure};

const READ_LINES: u64 = 500;

/// Adds the current text of the file to a failure of its lock that does not show all that changed. Either counts as a
/// read, so that the change can be sent again immediately. Not if Read would need permission for the file. `is_edit`: only a
/// part of the file was to be replaced.
pub(super) fn with_current_text(
    mut failure: Failure,
    cx: &ToolCx,
    checked_path: &CheckedPath,
    is_edit: bool,
) -> Failure {
    if !matches!(failure.code, ErrorCode::NotRead | ErrorCode::Conflict) {
        return failure;
    }
    let path = checked_path.path();
    if cx.hidden_files.hidden_reason("Read", path.relative()).is_some() {
        cx.workspace.forget_snapshot(path);
        failure.data = Object::new();
        failure.hint.get_or_insert_with(|| "Read it, then send the change again".to_owned());
        return failure;
    }
    let may_retry = || is_edit || cx.workspace.is_fully_shown(path);
    if failure.code == ErrorCode::Conflict && cx.workspace.snapshot(path).is_some() && may_retry() {
        let hint = "what changed is below, which counts as reading it: send the change again, adjusted if needed";
        return failure.with_hint(hint);
    }
    let stop = || cx.cancel.is_cancelled();
    let from = if is_edit { 1 } else { cx.workspace.first_unshown_line(path) };
    let from = i64::try_from(from).unwrap_or(1);
    // (It records the snapshot.)
    let Ok(page) = cx.workspace.read_page(checked_path, from, READ_LINES, &stop) else {
        return failure;
    };
    let hint = if may_retry() {
        "its text is below, which counts as reading it: send the change again, adjusted if needed"
            .to_owned()
    } else if page.lines.n_cut > 0 {
        "lines over 2,000 characters are cut: use Edit".to_owned()
    } else {
        let next = page.start_line.saturating_add_unsigned(page.lines.count);
        format!("Read the rest, from start_line {next}, then Write again, or use Edit")
    };
    failure.hint.get_or_insert(hint);
    failure.data.insert("content".to_owned(), page.lines.content.into());
    failure
}
