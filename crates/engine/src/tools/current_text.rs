//! The current text of a file whose change was refused because it was not read, or changed since.

use std::io::Read as _;
use std::ops::Range;

use super::{ToolCx, nearest_passage};
use agent_host::workspace::{ProjectPath, Text, plain};
use agent_protocol::Object;
use agent_protocol::envelope::{ErrorCode, Failure};

const READ_LINES: u64 = 500;
/// Around a passage that was to be replaced.
const CONTEXT_LINES: usize = 10;
const MAX_PASSAGE_LINES: usize = 100;
/// In a larger file the passages are not looked for.
const MAX_SEARCHED_BYTES: u64 = 32 * 1024 * 1024;

/// Adds lines of the file to a failure of its lock that does not show all that changed: those around the passages of an
/// edit, otherwise those that were not shown. They count as a read, so that the change can be sent again immediately. Not
/// if Read would need permission for the file.
pub(super) fn show_current_text(
    mut failure: Failure,
    cx: &ToolCx,
    path: &ProjectPath,
    passages: &[&str],
) -> Failure {
    if !matches!(failure.code, ErrorCode::NotRead | ErrorCode::Conflict) {
        return failure;
    }
    if cx.hidden_files.hidden_reason("Read", path.relative()).is_some() {
        cx.workspace.forget_snapshot(path);
        failure.data = Object::new();
        failure.hint.get_or_insert_with(|| "Read it, then send the change again".to_owned());
        return failure;
    }
    let is_edit = !passages.is_empty();
    let may_retry = || is_edit || cx.workspace.is_fully_shown(path);
    if failure.code == ErrorCode::Conflict && cx.workspace.snapshot(path).is_some() && may_retry() {
        let hint = "what changed is below, which counts as reading it: send the change again, adjusted if needed";
        return failure.with_hint(hint);
    }
    let stop = || cx.cancel.is_cancelled();
    let (from, n_lines) = if is_edit {
        let place = lines_around(cx, path, passages).unwrap_or(1..2 + CONTEXT_LINES);
        (place.start, place.len() as u64)
    } else {
        (usize::try_from(cx.workspace.first_unshown_line(path)).unwrap_or(1), READ_LINES)
    };
    let from = i64::try_from(from).unwrap_or(1);
    // (It records the snapshot.)
    let Ok(page) = cx.workspace.read_page(path, from, n_lines, &stop) else {
        return failure;
    };
    let next = page.start_line.saturating_add_unsigned(page.lines.count);
    let hint = if page.lines.count == 0 {
        "the file is empty, which counts as reading it: Write it, or adjust the change".to_owned()
    } else if may_retry() {
        let total = page.total_lines.map_or(String::new(), |total| format!(" of {total}"));
        format!(
            "lines {from}-{}{total} are below, which counts as reading them: send the change again, adjusted if needed",
            next - 1
        )
    } else if page.lines.n_cut > 0 {
        "lines over 2,000 characters are cut: use Edit".to_owned()
    } else {
        format!("Read the rest, from start_line {next}, then Write again, or use Edit")
    };
    failure.hint.get_or_insert(hint);
    failure.data.insert("content".to_owned(), page.lines.content.into());
    failure
}

/// The lines of the file with these passages, or with what is most similar to them, and some around; of distant ones the
/// first.
fn lines_around(cx: &ToolCx, path: &ProjectPath, passages: &[&str]) -> Option<Range<usize>> {
    let mut bytes = Vec::new();
    let (file, _) = cx.workspace.open_file(path).ok()?;
    file.take(MAX_SEARCHED_BYTES).read_to_end(&mut bytes).ok()?;
    let text = Text::decode(bytes, path.relative()).ok()?;
    let places = passages.iter().filter_map(|passage| {
        let passage = plain(passage);
        let passage = passage.trim_end_matches('\n');
        let Some(at) = text.plain().find(passage).filter(|_| !passage.is_empty()) else {
            return nearest_passage::find_nearest_lines(text.plain(), passage);
        };
        let first = text.plain()[..at].matches('\n').count() + 1;
        Some(first..first + passage.split('\n').count())
    });
    let join = |all: Range<usize>, place: Range<usize>| {
        let joined = all.start.min(place.start)..all.end.max(place.end);
        if joined.len() <= MAX_PASSAGE_LINES { joined } else { all }
    };
    let Range { start, end } = places.reduce(join)?;
    let end = end.min(start + MAX_PASSAGE_LINES) + CONTEXT_LINES;
    Some(start.saturating_sub(CONTEXT_LINES).max(1)..end)
}
