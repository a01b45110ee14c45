//! Limits the size of what is shown: what the model receives of a result. Lines of a file end with the last one that
//! fits; the complete value of every other field is kept in a file that Read and Grep can open.

use std::ops::Range;

use serde_json::Value;

use crate::tools::describe_lines;
use agent_host::workspace::{CutLines, SpillFolder};
use agent_protocol::Object;
use agent_protocol::envelope::{Failure, Report};

/// Output limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimits {
    /// Limit: lines of a text.
    pub max_lines: usize,
    /// Limit: bytes of a text.
    pub max_bytes: usize,
}

/// Number of lines at each end of a shortened text.
const END_LINES: usize = 40;
pub(super) const MIN_RESULT_BYTES: usize = 1024;

/// The approximate size of a result.
pub(super) fn outcome_size(outcome: &Result<Report, Failure>) -> usize {
    let (Ok(Report { data, .. }) | Err(Failure { data, .. })) = outcome;
    data.values().map(value_size).sum()
}

/// The size limit for each result so that all fit into `room`: what small ones do not need is shared by the
/// large ones.
pub(super) fn fair_share(sizes: &[usize], mut room: usize) -> usize {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable();
    for (at, size) in sizes.iter().enumerate() {
        let share = room / (sizes.len() - at);
        if *size > share {
            return share.max(MIN_RESULT_BYTES);
        }
        room -= size;
    }
    usize::MAX
}

pub(super) fn append_note(outcome: &mut Result<Report, Failure>, note: &str) {
    match outcome {
        Ok(report) => report.text.push_str(note),
        Err(failure) => failure.append_note(note),
    }
}

pub(super) fn append_notes(outcome: &mut Result<Report, Failure>, notes: Vec<String>) {
    for note in notes {
        append_note(outcome, &format!(" Note: {note}."));
    }
}

/// Shortens every field of `data` that is too large. Returns which lines of a file were cut.
pub(super) fn limit_output(
    mut outcome: Result<Report, Failure>,
    tool: &str,
    limits: &OutputLimits,
    spill: &SpillFolder,
) -> (Result<Report, Failure>, Option<CutLines>) {
    let (Ok(Report { path, data, stats, .. }) | Err(Failure { path, data, stats, .. })) =
        &mut outcome;
    let before = path.as_deref().map(|path| describe_lines(path, data)).unwrap_or_default();
    let is_file = path.is_some();
    let Some((note, cut)) = shorten_fields(data, stats, (tool, is_file), limits, spill) else {
        return (outcome, None);
    };
    if let Some(cut) = &cut {
        describe_cut(&mut outcome, &before, cut);
    }
    append_note(&mut outcome, &note);
    if let Ok(report) = &mut outcome {
        report.partial = true;
    }
    (outcome, cut)
}

/// `before`: how the text described the lines.
fn describe_cut(outcome: &mut Result<Report, Failure>, before: &str, cut: &CutLines) {
    let (first, last, next) = (cut.lines.start, cut.end - 1, cut.end);
    match outcome {
        Ok(Report { path, data, text, .. }) => {
            data.insert("end_line".to_owned(), last.into());
            let now = describe_lines(path.as_deref().unwrap_or_default(), data);
            *text = text.replacen(before, &now, 1);
        }
        Err(Failure { hint, text, .. }) => {
            let now = format!(
                "its lines {first}-{last} are below, which counts as reading them: read on from start_line {next} if \
                 the change needs more, then send it again"
            );
            if let Some(before) = hint.replace(now.clone()) {
                *text = text.replacen(&before, &now, 1);
            }
        }
    }
}

/// The note about fields that were cut, and the lines of a file that were; `None` if all fields fit. `stats` has the
/// sizes of fields of which `data` contains only a part: `stdout_lines`, `stdout_bytes`.
fn shorten_fields(
    data: &mut Object,
    stats: &Object,
    (tool, is_file): (&str, bool),
    limits: &OutputLimits,
    spill: &SpillFolder,
) -> Option<(String, Option<CutLines>)> {
    // The fields share the room: what small ones do not need is left to the large ones.
    let sizes: Vec<usize> = data.values().map(value_size).collect();
    let share = fair_share(&sizes, limits.max_bytes);
    let limits = &OutputLimits { max_bytes: limits.max_bytes.min(share), ..*limits };
    let too_large = data.iter().filter(|(_, value)| is_too_large(value, limits));
    let fields: Vec<String> = too_large.map(|(name, _)| name.clone()).collect();
    if fields.is_empty() {
        return None;
    }
    // The complete output of a command may already be on disk.
    let kept = data.contains_key("full_output");
    let mut whole = String::new();
    let mut cut = None;
    for name in &fields {
        let Some(value) = data.get_mut(name) else { continue };
        let text = value_as_lines(value);
        if is_file
            && name == "content"
            && let Some(lines) = line_numbers(&text)
        {
            let shown = first_lines(&text, limits);
            let end = line_numbers(shown).map_or(lines.end, |shown| shown.end);
            cut = Some(CutLines { lines, end });
            *value = shown.into();
            continue;
        }
        if fields.len() > 1 {
            whole.push_str(&format!("== {name} ==\n"));
        }
        whole.push_str(&text);
        if !whole.ends_with('\n') {
            whole.push('\n');
        }
        let stat = |unit: &str| stats.get(&format!("{name}_{unit}")).and_then(Value::as_u64);
        let whole = stat("lines").zip(stat("bytes"));
        *value = match value {
            // The first items of a list are the most relevant or newest.
            Value::Array(items) => {
                let mut room = limits.max_bytes;
                let shown = items.iter().take(limits.max_lines).take_while(|item| {
                    let size = value_size(item);
                    let fits = size <= room;
                    room = room.saturating_sub(size);
                    fits
                });
                shown.cloned().collect()
            }
            _ => excerpt(&text, whole, (END_LINES, limits.max_bytes)).into(),
        };
    }
    data.insert("truncated".to_owned(), true.into());
    // (The tool has named the path.)
    if kept {
        return Some((" Use Read or Grep with that path.".to_owned(), cut));
    }
    if whole.is_empty() {
        return Some((String::new(), cut));
    }
    let lines = whole.lines().count();
    let note = match spill.write(tool, &whole) {
        Ok(path) => {
            let message = format!(
                " Output too large, cut: all {lines} lines in {path} (use Read or Grep with that path)."
            );
            data.insert("full_output".to_owned(), path.into());
            message
        }
        Err(error) => format!(
            " Output too large, cut: {lines} lines; the whole of it could not be kept ({error})."
        ),
    };
    Some((note, cut))
}

/// The numbers of the lines of a file, as Read shows them.
pub(super) fn line_numbers(content: &str) -> Option<Range<i64>> {
    let number = |line: &str| line.split_once(" | ")?.0.parse::<i64>().ok();
    Some(number(content.lines().next()?)?..number(content.lines().next_back()?)? + 1)
}

/// As many whole lines as fit, at least one.
fn first_lines<'a>(text: &'a str, limits: &OutputLimits) -> &'a str {
    let room = end_of_lines(text, limits.max_lines).min(limits.max_bytes);
    let fitting = &text[..text.floor_char_boundary(room)];
    let end = fitting.rfind('\n').or_else(|| text.find('\n')).unwrap_or(text.len());
    &text[..end]
}

fn is_too_large(value: &Value, limits: &OutputLimits) -> bool {
    match value {
        Value::String(text) => {
            text.len() > limits.max_bytes || count_lines(text) > limits.max_lines
        }
        Value::Array(items) => {
            items.len() > limits.max_lines
                || items.iter().map(value_size).sum::<usize>() > limits.max_bytes
        }
        // (It is cut as the text that it is shown as.)
        Value::Object(_) => value.to_string().len() > limits.max_bytes,
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn count_lines(text: &str) -> usize {
    let is_begun = !text.is_empty() && !text.ends_with('\n');
    memchr::memchr_iter(b'\n', text.as_bytes()).count() + usize::from(is_begun)
}

fn value_size(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 1,
        Value::Array(items) => items.iter().map(value_size).sum(),
        Value::Object(fields) => fields.values().map(value_size).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 6,
    }
}

/// A field as plain lines: a text unchanged, a list with one item per line, a match as `file:line: text`, an object as
/// JSON with a field per line.
fn value_as_lines(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(|item| item_as_line(item) + "\n").collect(),
        Value::Object(_) => serde_json::to_string_pretty(value).unwrap_or_default(),
        other => other.to_string(),
    }
}

fn item_as_line(item: &Value) -> String {
    match (item, &item["file"], &item["line"], &item["text"]) {
        (Value::String(text), ..) => text.clone(),
        (_, Value::String(file), Value::Number(line), Value::String(text)) => {
            format!("{file}:{line}: {text}")
        }
        _ => item.to_string(),
    }
}

/// The head and the tail of a text, by whole lines if they fit and never within a character. `whole`: the lines and
/// bytes of the text if `text` already lacks its middle. `n_lines`: at each end.
fn excerpt(text: &str, whole: Option<(u64, u64)>, (n_lines, max_bytes): (usize, usize)) -> String {
    let room = max_bytes / 2;
    let head_end = text.floor_char_boundary(end_of_lines(text, n_lines).min(room));
    let rest = &text[head_end..];
    let tail_start = start_of_last_lines(rest, n_lines);
    let tail_start = rest.ceil_char_boundary(tail_start.max(rest.len().saturating_sub(room)));
    let hidden = &rest[..tail_start];
    if hidden.is_empty() {
        return text.to_owned();
    }
    let (before, after) = (&text[..head_end], &rest[tail_start..]);
    let shown_lines = (before.lines().count() + after.lines().count()) as u64;
    let (lines, bytes) = match whole {
        Some((lines, bytes)) if bytes > text.len() as u64 => {
            let shown_bytes = (before.len() + after.len()) as u64;
            (lines.saturating_sub(shown_lines), bytes.saturating_sub(shown_bytes))
        }
        _ => (hidden.lines().count() as u64, hidden.len() as u64),
    };
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    format!("{before}{gap}… {lines} lines, {bytes} bytes not shown …\n{after}")
}

fn end_of_lines(text: &str, n_lines: usize) -> usize {
    text.match_indices('\n').nth(n_lines - 1).map_or(text.len(), |(at, _)| at + 1)
}

fn start_of_last_lines(text: &str, n_lines: usize) -> usize {
    let body = text.strip_suffix('\n').unwrap_or(text);
    body.rmatch_indices('\n').nth(n_lines - 1).map_or(0, |(at, _)| at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: OutputLimits = OutputLimits { max_lines: 6, max_bytes: 40 };
    const ENDS: (usize, usize) = (2, SMALL.max_bytes);

    #[test]
    fn head_and_tail_are_whole_lines() {
        let text = "1\n2\n3\n4\n5\n6\n7\n";
        assert_eq!(excerpt(text, None, ENDS), "1\n2\n… 3 lines, 6 bytes not shown …\n6\n7\n");
    }

    #[test]
    fn excerpt_keeps_the_tail_of_long_lines_and_splits_no_character() {
        let text = format!("{}error", "é".repeat(50));
        let shown = excerpt(&text, None, ENDS);
        assert!(shown.starts_with('é') && shown.ends_with("error"), "{shown}");
        assert!(shown.contains("not shown"));
    }

    #[test]
    fn lines_that_the_text_lacks_are_counted() {
        let text = "1\n2\n3\n[… 186 bytes left out …]\n98\n99\n100\n";
        let shown = excerpt(text, Some((100, 292)), ENDS);
        assert_eq!(shown, "1\n2\n… 96 lines, 281 bytes not shown …\n99\n100\n");
    }

    #[test]
    fn large_results_share_the_remaining_limit() {
        assert_eq!(fair_share(&[100, 200], 1000), usize::MAX);
        assert_eq!(fair_share(&[100, 90_000, 80_000], 50_100), 25_000);
        assert_eq!(fair_share(&[60_000, 10, 20_000], 50_010), 30_000);
        assert_eq!(fair_share(&[90_000; 100], 50_000), MIN_RESULT_BYTES);
        assert_eq!(fair_share(&[], 0), usize::MAX);
    }

    #[test]
    fn fields_of_one_result_share_its_limit() {
        let mut data = Object::new();
        for name in ["stderr", "stdout"] {
            data.insert(name.to_owned(), "a line\n".repeat(4300).into());
        }
        data.insert("exit_code".to_owned(), 1.into());
        let limits = OutputLimits { max_lines: 2000, max_bytes: 40_000 };
        let (stats, spill) = (Object::new(), SpillFolder::temporary(&[]));
        assert!(shorten_fields(&mut data, &stats, ("Bash", false), &limits, &spill).is_some());
        let shown: usize = data.values().map(value_size).sum();
        assert!(shown < 40_000, "{shown}");
        assert!(data["stdout"].as_str().is_some_and(|shown| shown.ends_with("a line\n")));
    }

    #[test]
    fn output_within_limits_is_not_truncated() {
        assert_eq!(excerpt("1\n2\n3", None, ENDS), "1\n2\n3");
        assert!(!is_too_large(&"1\n2\n3\n4\n5\n6\n".into(), &SMALL));
        assert!(is_too_large(&"1\n2\n3\n4\n5\n6\n7\n".into(), &SMALL));
    }
}
