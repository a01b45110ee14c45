//! The current text of a file whose change was refused because it was not read, or changed since.

use serde_json::Value;

use super::ToolCx;
use agent_host::workspace::{CheckedPath, ProjectPath, Text, plain};
use agent_protocol::Object;
use agent_protocol::envelope::{ErrorCode, Failure};

/// Adds the current text of the file to a failure of its lock; that counts as a read, so that the change can
/// be sent again immediately. Not if Read would need permission for the file. `passages`: the texts to be
/// replaced; none if the whole file was.
pub(super) fn with_current_text(
    mut failure: Failure,
    cx: &ToolCx,
    checked_path: &CheckedPath,
    passages: &[&str],
) -> Failure {
    let is_conflict = match failure.code {
        ErrorCode::NotRead => false,
        ErrorCode::Conflict => true,
        _ => return failure,
    };
    let path = checked_path.path();
    if cx.hidden_files.hidden_reason("Read", path.relative()).is_some() {
        failure.data = Object::new();
        failure.hint.get_or_insert_with(|| "Read it, then send the change again".to_owned());
        return failure;
    }
    let stop = || cx.cancel.is_cancelled();
    let from = if passages.is_empty() { cx.workspace.first_unshown_line(path) } else { 1 };
    let from = i64::try_from(from).unwrap_or(1);
    // (It records the snapshot.)
    let Ok(mut page) = cx.workspace.read_page(checked_path, from, READ_LINES, &stop) else {
        return failure;
    };
    if is_conflict
        && page.more
        && let Some((from, limit)) = lines_around(cx, path, passages, &failure)
    {
        cx.workspace.mark_unshown(path, None);
        match cx.workspace.read_page(checked_path, from, limit, &stop) {
            Ok(around) => page = around,
            Err(_) => return failure,
        }
    }
    let hint = if !passages.is_empty() || cx.workspace.is_fully_shown(path) {
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

const READ_LINES: u64 = 500;
/// The number of lines that are shown before and after a passage.
const CONTEXT_LINES: usize = 10;

/// The lines around the first passage that the file contains, or else around the first change in the diff: the first
/// line and the number of lines.
fn lines_around(
    cx: &ToolCx,
    path: &ProjectPath,
    passages: &[&str],
    failure: &Failure,
) -> Option<(i64, u64)> {
    if passages.is_empty() {
        return None;
    }
    let snapshot = cx.workspace.snapshot(path)?;
    let content = cx.workspace.read_unchanged(path, Some(&snapshot)).ok()?;
    let text = Text::decode(content.bytes, path.relative()).ok()?;
    let newlines = |text: &str| memchr::memchr_iter(b'\n', text.as_bytes()).count();
    let passage = passages.iter().find_map(|passage| {
        let passage = plain(passage);
        let at = text.plain().find(&*passage)?;
        Some((newlines(&text.plain()[..at]) + 1, newlines(&passage) + 1))
    });
    let diff = failure.data.get("diff_preview").and_then(Value::as_str);
    let (first, n) = passage.or_else(|| first_hunk(diff?))?;
    let from = first.saturating_sub(CONTEXT_LINES).max(1);
    Some((i64::try_from(from).ok()?, (first - from + n + CONTEXT_LINES) as u64))
}

/// The first line of a diff's first hunk in the new text, and how many lines it has there.
fn first_hunk(diff: &str) -> Option<(usize, usize)> {
    let head = diff.lines().find_map(|line| line.strip_prefix("@@ -"))?;
    let (_, new) = head.strip_suffix(" @@")?.split_once(" +")?;
    let (first, n) = new.split_once(',').unwrap_or((new, "1"));
    Some((first.parse::<usize>().ok()?.max(1), n.parse().ok()?))
}
