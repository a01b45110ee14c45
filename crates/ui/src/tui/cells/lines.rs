//! Building blocks of cells: a title, a text after a mark, a command, an output, a diff.

use std::borrow::Cow;

use ratatui::text::{Line, Span};

use super::{Detail, RenderOptions};
use crate::tui::highlight::{Language, OpenConstruct};
use crate::tui::text::{truncate, width};
use crate::tui::theme::StyleRole;
use agent_protocol::command_output::render_output;
use agent_protocol::pluralize;
use agent_protocol::terminal_escape::{escape_literal, escape_literal_line, escape_prose};

/// For example `✓ Edit src/a.rs  +3 −1`: the subject is shortened first.
pub(in crate::tui) fn title_line(
    (mark, role): (&str, StyleRole),
    tool: &str,
    subject: &str,
    how: &str,
    options: RenderOptions,
) -> Line<'static> {
    let mut spans = vec![options.span(mark.to_owned(), role)];
    let mut used = width(mark);
    if !tool.is_empty() {
        let gap = if subject.is_empty() { "" } else { " " };
        used += width(tool) + gap.len();
        spans.push(options.span(format!("{}{gap}", escape_literal_line(tool)), StyleRole::Tool));
    }
    let how = truncate(how, options.width.saturating_sub(used + 2));
    let room =
        options.width.saturating_sub(used + if how.is_empty() { 0 } else { width(&how) + 2 });
    spans.push(Span::raw(truncate(&first_line(subject), room)));
    if !how.is_empty() {
        let role =
            if matches!(role, StyleRole::Bad | StyleRole::Warn) { role } else { StyleRole::Quiet };
        spans.push(options.span(format!("  {how}"), role));
    }
    Line::from(spans)
}

/// Lines in [`Detail::Brief`].
const SHELL_LINES: usize = 40;
const OUTPUT_LINES: usize = 4;

/// What [`Detail::Brief`] shows of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// The last lines of a command's output.
    Output,
    /// More of them: the user's command.
    Shell,
    /// The first lines: the answer of an MCP server.
    Answer,
}

/// A title and the telling part of a failure: beside it, or below if both do not fit.
pub(super) fn failure_lines(
    mark: (&str, StyleRole),
    (tool, subject, how): (&str, &str, &str),
    telling: &str,
    options: RenderOptions,
    detail: Detail,
) -> Vec<Line<'static>> {
    const MOST: usize = 2;
    let telling = escape_prose(telling).replace('\n', " ");
    let whole = format!("{how}  {telling}");
    // A third of the line is enough for a long subject.
    let subject_room = width(&first_line(subject)).min(options.width / 3);
    let used = width(mark.0) + width(tool) + 1 + subject_room + 2;
    if telling.is_empty() || used + width(whole.trim()) <= options.width {
        return vec![title_line(mark, tool, subject, whole.trim(), options)];
    }
    let mut lines = vec![title_line(mark, tool, subject, how, options)];
    let mut below = options.indent("  ", &[options.span(telling, mark.1)]);
    if detail == Detail::Brief && below.len() > MOST {
        below.truncate(MOST);
        below[MOST - 1].spans.push(options.span("…", mark.1));
    }
    lines.append(&mut below);
    lines
}

fn first_line(text: &str) -> String {
    let text = escape_literal(text);
    match text.trim().split_once('\n') {
        Some((first, _)) => format!("{} …", first.trim_end()),
        None => text.trim().to_owned(),
    }
}

pub(super) fn prefixed_lines(
    mark: &str,
    role: StyleRole,
    text: &str,
    options: RenderOptions,
) -> Vec<Line<'static>> {
    let first = options.span(mark.to_owned(), role);
    let rest = Span::raw(" ".repeat(width(mark)));
    let lines = text.split('\n').enumerate().flat_map(|(n, line)| {
        let mark = if n == 0 { &first } else { &rest };
        options.wrap_prose(mark, &rest, &[options.span(line.to_owned(), role)])
    });
    lines.collect()
}

/// The limits in [`Detail::Brief`]: lines at the beginning and the end, and the size of a line.
const FIRST_LINES: usize = 8;
const LAST_LINES: usize = 4;
const LINE_BYTES: usize = 1000;

/// In [`Detail::Brief`], the middle of a long message and the end of a long line are only counted.
pub(super) fn message_lines(
    text: &str,
    options: RenderOptions,
    detail: Detail,
) -> Vec<Line<'static>> {
    let style = options.style(StyleRole::Prompt);
    let mark = Span::styled("› ", style.patch(options.style(StyleRole::User)));
    let indent = Span::styled("  ", style);
    let n_lines = count_lines(text).max(1);
    // A few more lines are shown instead of being counted.
    let is_folded = detail == Detail::Brief && n_lines > FIRST_LINES + LAST_LINES + 2;
    let n_first = if is_folded { FIRST_LINES } else { n_lines };
    let mut lines = Vec::new();
    let mut add = |line: &str, style| {
        let whole = line.len();
        let kept = if detail == Detail::Brief { LINE_BYTES } else { whole };
        let (line, rest) = line.split_at(line.floor_char_boundary(kept.min(whole)));
        let mut line = escape_prose(line).into_owned();
        if !rest.is_empty() {
            line.push_str(&format!(" … {} more characters", rest.chars().count()));
        }
        let prefix = if lines.is_empty() { &mark } else { &indent };
        lines.extend(options.wrap_prose(prefix, &indent, &[Span::styled(line, style)]));
    };
    let text = if text.is_empty() { "\n" } else { text };
    text.lines().take(n_first).for_each(|line| add(line, style));
    if is_folded {
        let n_more = n_lines - FIRST_LINES - LAST_LINES;
        add(&format!("… {n_more} more lines"), style.patch(options.style(StyleRole::Quiet)));
        let last: Vec<&str> = text.lines().rev().take(LAST_LINES).collect();
        last.into_iter().rev().for_each(|line| add(line, style));
    }
    fill_background(&mut lines, options);
    lines
}

/// Lines that end with a background get it up to the end of the widest. Not further: full lines would be wrapped
/// when the terminal becomes narrower.
fn fill_background(lines: &mut [Line<'static>], options: RenderOptions) {
    let widest = lines.iter().map(Line::width).max().unwrap_or(0).min(options.width);
    for line in lines {
        let style = line.spans.last().map(|span| span.style).filter(|style| style.bg.is_some());
        let room = widest.saturating_sub(line.width());
        line.spans.extend(style.map(|style| Span::styled(" ".repeat(room), style)));
    }
}

pub(super) fn command_lines(command: &str, options: RenderOptions) -> Vec<Line<'static>> {
    let mut open = OpenConstruct::Nothing;
    let mut lines = Vec::new();
    for line in escape_literal(command).trim_end().split('\n') {
        let (spans, next) = match Language::from_name("sh") {
            Some(shell) => shell.highlight_line(line, open, options.theme),
            None => (vec![Span::raw(line.to_owned())], OpenConstruct::Nothing),
        };
        open = next;
        lines.extend(options.indent("    ", &spans));
    }
    lines
}

pub(super) fn count_lines(text: &str) -> usize {
    let is_begun = !text.is_empty() && !text.ends_with('\n');
    memchr::memchr_iter(b'\n', text.as_bytes()).count() + usize::from(is_begun)
}

/// The parts of an error without addresses: what happened, what to do, and the rest, such as the words of a server.
pub(in crate::tui) fn error_parts(message: &str) -> Vec<String> {
    // `URL: what happened`, `what happened (URL)`.
    let after_address = message.split_once(": ").filter(|_| message.starts_with("http"));
    let mut text = after_address.map_or(message, |(_, text)| text).to_owned();
    while let Some(at) = text.find(" (http")
        && let Some(length) = text[at..].find(')')
    {
        text.replace_range(at..=at + length, "");
    }
    // The words of a server may contain semicolons.
    let quote = text.find("; \"").unwrap_or(text.len());
    let words = text[quote..].strip_prefix("; ");
    text[..quote].splitn(3, "; ").chain(words).map(str::to_owned).collect()
}

/// The text is not the output of a command.
pub(super) fn text_lines(text: &str, options: RenderOptions) -> Vec<Line<'static>> {
    indented_lines(&escape_prose(text), options)
}

fn indented_lines(text: &str, options: RenderOptions) -> Vec<Line<'static>> {
    if text.trim().is_empty() {
        return Vec::new();
    }
    let lines = text.trim_end().split('\n');
    let lines = lines.map(|line| [options.span(line.to_owned(), StyleRole::Quiet)]);
    lines.flat_map(|line| options.indent("    ", &line)).collect()
}

/// A part of a text, or all of it. `left_out`: lines that are missing in the text.
pub(super) fn folded_lines(
    text: &str,
    left_out: usize,
    fold: Fold,
    options: RenderOptions,
    detail: Detail,
) -> Vec<Line<'static>> {
    let show = if fold == Fold::Answer { escape_prose } else { render_output };
    if detail == Detail::Full {
        return indented_lines(&show(text), options);
    }
    let text = text.trim_end();
    if text.is_empty() {
        return Vec::new();
    }
    let most = if fold == Fold::Shell { SHELL_LINES } else { OUTPUT_LINES };
    let n_lines = count_lines(text) + left_out;
    // A single additional line is shown instead of being counted.
    let shown = if n_lines <= most + 1 { n_lines } else { most };
    let more = (n_lines > shown).then(|| format!("    … {} more lines", n_lines - shown));
    let more = more.map(|more| options.cut_line(&more, StyleRole::Quiet));
    if fold == Fold::Answer {
        let first = text.split('\n').take(shown).map(|line| quiet_line(line, show, options));
        return first.chain(more).collect();
    }
    more.into_iter().chain(last_lines(text, shown, options)).collect()
}

/// The last lines of a running command's output.
pub(super) fn live_output_lines(tail: &str, options: RenderOptions) -> Vec<Line<'static>> {
    const MOST: usize = 3;
    let tail = tail.trim_end();
    let is_more = memchr::memchr_iter(b'\n', tail.as_bytes()).nth(MOST - 1).is_some();
    let more = is_more.then(|| Line::styled("    …", options.style(StyleRole::Quiet)));
    let lines = if tail.is_empty() { Vec::new() } else { last_lines(tail, MOST, options) };
    more.into_iter().chain(lines).collect()
}

fn last_lines(text: &str, n_lines: usize, options: RenderOptions) -> Vec<Line<'static>> {
    let last: Vec<&str> = text.rsplit('\n').take(n_lines).collect();
    last.into_iter().rev().map(|line| quiet_line(line, render_output, options)).collect()
}

fn quiet_line(line: &str, show: fn(&str) -> Cow<'_, str>, options: RenderOptions) -> Line<'static> {
    // Only the part of a line that can be displayed is processed.
    let end = line.floor_char_boundary(line.len().min(64 * 1024));
    let line = show(&line[..end]);
    let room = options.width.saturating_sub(4).max(1);
    Line::styled(format!("    {}", truncate(&line, room)), options.style(StyleRole::Quiet))
}

/// `n_changed` includes changed lines that are missing in `diff`.
pub(super) fn diff_lines(
    diff: &str,
    n_changed: usize,
    most: usize,
    options: RenderOptions,
    detail: Detail,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let (mut rows, mut n_seen, mut n_shown) = (0, 0, 0);
    let (mut old, mut new) = (0, 0);
    // (A `\r` ends no line: it is shown.)
    for line in diff.split_terminator('\n') {
        if line.starts_with("--- ") && old == 0 || line.starts_with("+++ ") && new == 0 {
            continue;
        }
        if line.starts_with("@@") {
            let is_first = old == 0 && new == 0;
            (old, new) = hunk_starts(line);
            if !is_first {
                lines.push(Line::styled("       ⋮", options.style(StyleRole::Quiet)));
            }
            continue;
        }
        let (mark, text) = line.split_at(line.ceil_char_boundary(1.min(line.len())));
        let is_change = usize::from(mark == "+" || mark == "-");
        (rows, n_seen) = (rows + 1, n_seen + is_change);
        if rows > most && detail == Detail::Brief {
            continue;
        }
        n_shown += is_change;
        let (number, role) = match mark {
            "+" => (new, StyleRole::Added),
            "-" => (old, StyleRole::Removed),
            _ => (new, StyleRole::Quiet),
        };
        old += usize::from(mark != "+");
        new += usize::from(mark != "-");
        let style = options.style(role);
        let text = escape_prose(text);
        let number = if mark == "\\" { String::new() } else { number.to_string() };
        let first = Span::styled(format!("  {number:>5} {mark} "), style);
        let rest = Span::raw(" ".repeat(width(&first.content)));
        if detail == Detail::Full {
            lines.extend(options.wrap(&first, &rest, &[Span::styled(text.into_owned(), style)]));
        } else {
            let room = options.width.saturating_sub(width(&first.content)).max(1);
            let text = truncate(&text, room);
            lines.push(Line::from(vec![first, Span::styled(text, style)]));
        }
    }
    fill_background(&mut lines, options);
    let more = match n_seen.max(n_changed) - n_shown {
        0 if detail == Detail::Brief && rows > most => format!("{} more lines", rows - most),
        0 => return lines,
        n => pluralize(n as u64, "more changed line"),
    };
    lines.push(Line::styled(format!("    … {more}"), options.style(StyleRole::Quiet)));
    lines
}

/// For example `@@ -12,3 +14,4 @@`.
fn hunk_starts(line: &str) -> (usize, usize) {
    let number = |mark: char| {
        let from = line.split_once(mark)?.1;
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        from[..end].parse::<usize>().ok()
    };
    (number('-').unwrap_or(1), number('+').unwrap_or(1))
}

/// `0.4 s`, `12 s`, `3 min 20 s`.
pub(in crate::tui) fn format_millis(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        10_000..60_000 => format!("{} s", ms / 1000),
        _ => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
    }
}

/// The same without fractions, for a clock that runs.
pub(in crate::tui) fn format_seconds(seconds: u64) -> String {
    if seconds < 60 { format!("{seconds} s") } else { format_millis(seconds * 1000) }
}

/// `950`, `12.3k`, `1.2M`.
pub(in crate::tui) fn format_count(n: u64) -> String {
    match n {
        0..1000 => n.to_string(),
        1000..1_000_000 => format!("{}.{}k", n / 1000, n % 1000 / 100),
        _ => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}
