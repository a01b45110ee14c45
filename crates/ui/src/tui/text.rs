//! Measures and wraps text for a terminal.

use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// In columns.
pub(super) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// A cut text ends with `…`.
pub(super) fn truncate(text: &str, columns: usize) -> String {
    // Measuring all of a very long line would cost as much as displaying it.
    if text.len() <= columns * 4 && width(text) <= columns {
        return text.to_owned();
    }
    let mut used = 0;
    let mut out = String::new();
    for part in text.graphemes(true) {
        let part_width = width(part);
        if used + part_width + 1 > columns {
            break;
        }
        used += part_width;
        out.push_str(part);
    }
    if columns > 0 {
        out.push('…');
    }
    out
}

/// Breaks lines at line breaks, between words if possible, between wide characters, else anywhere.
/// Spaces at a break are dropped. `keeps_addresses`: one that is longer than a line is not broken.
pub(super) fn wrap(
    spans: &[Span<'static>],
    columns: usize,
    keeps_addresses: bool,
) -> Vec<Vec<Span<'static>>> {
    let columns = columns.max(1);
    let total: usize = spans.iter().map(|span| width(&span.content)).sum();
    if total <= columns && !spans.iter().any(|span| span.content.contains('\n')) {
        return vec![spans.to_vec()];
    }
    let mut lines = Vec::new();
    let mut line: Vec<(&str, Style)> = Vec::new();
    let mut used = 0;
    // The last possible break: the number of pieces before it, and their width.
    let mut break_at: Option<(usize, usize)> = None;
    // The line continues one that was too long.
    let mut is_continued = false;
    let mut is_address = false;
    for span in spans {
        for piece in span.content.graphemes(true) {
            if piece.ends_with('\n') {
                lines.push(merge_spans(&std::mem::take(&mut line)));
                (used, break_at, is_continued, is_address) = (0, None, false, false);
                continue;
            }
            let columns_of = width(piece);
            if line.last().is_some_and(|(before, _)| can_break_between(before, piece)) {
                break_at = Some((line.len(), used));
            }
            if used + columns_of > columns {
                if piece == " " {
                    break_at = Some((line.len(), used));
                    continue;
                }
                let break_before = break_at.filter(|(n, _)| *n > 0);
                is_address &= break_before.is_none();
                let may_overflow = keeps_addresses && break_before.is_none();
                let is_scheme =
                    |end: &[(&str, Style)]| matches!(end, [(":", _), ("/", _), ("/", _)]);
                is_address = is_address || may_overflow && line.windows(3).any(is_scheme);
                if is_address {
                    line.push((piece, span.style));
                    used += columns_of;
                    continue;
                }
                let (keep, _) = break_before.unwrap_or((line.len(), used));
                let mut rest = line.split_off(keep);
                while line.last().is_some_and(|(text, _)| *text == " ") {
                    line.pop();
                }
                let blank = rest.iter().take_while(|(text, _)| *text == " ").count();
                rest.drain(..blank);
                lines.push(merge_spans(&line));
                line = rest;
                used = line.iter().map(|(text, _)| width(text)).sum();
                (break_at, is_continued) = (None, true);
            }
            if piece == " " && line.is_empty() && is_continued {
                continue;
            }
            line.push((piece, span.style));
            used += columns_of;
        }
    }
    lines.push(merge_spans(&line));
    lines
}

/// A line may break at a blank, and next to a wide character, except for punctuation that must not
/// begin or end a line in Chinese and Japanese (W3C, Requirements for Chinese Text Layout, 3.1.2).
fn can_break_between(before: &str, piece: &str) -> bool {
    const NOT_FIRST: &str = "，。、；：！？）〕】》〉」』］｝”’…％ー";
    const NOT_LAST: &str = "（〔【《〈「『［｛“‘";
    before == " "
        || (width(before) > 1 || width(piece) > 1)
            && !NOT_FIRST.contains(piece)
            && !NOT_LAST.contains(before)
}

/// The addresses of pages that a text names in full. One before `…` is cut; before a letter that is not ASCII, it
/// may go on.
pub(super) fn find_addresses(text: &str) -> Vec<Range<usize>> {
    let is_outside = |char: char| !char.is_ascii_graphic() || "<>\"`|\\^{}".contains(char);
    let is_punctuation = |char| ".,;:!?'*]".contains(char);
    let mut addresses: Vec<Range<usize>> = Vec::new();
    for (at, separator) in text.match_indices("://") {
        let scheme = ["http", "https"].into_iter().find(|scheme| text[..at].ends_with(scheme));
        let Some(start) = scheme.map(|scheme| at - scheme.len()) else { continue };
        let rest = &text[start..];
        let length = rest.find(is_outside).unwrap_or(rest.len());
        let next = rest[length..].chars().next().unwrap_or(' ');
        let is_cut = next == '…' || !next.is_ascii() && next.is_alphanumeric();
        let is_inside = addresses.last().is_some_and(|last| last.end > start);
        let mut address = rest[..length].trim_end_matches(is_punctuation);
        // Brackets around it.
        let count = |mark: char| address.matches(mark).count();
        for _ in 0..count(')').saturating_sub(count('(')) {
            address = address.strip_suffix(')').unwrap_or(address);
        }
        let end = start + address.trim_end_matches(is_punctuation).len();
        if !is_cut && !is_inside && end > at + separator.len() {
            addresses.push(start..end);
        }
    }
    addresses
}

/// The columns of the longest part that [`wrap`] does not break if there is room.
pub(super) fn longest_word(spans: &[Span<'_>]) -> usize {
    let (mut longest, mut current, mut before) = (0, 0, "");
    for piece in spans.iter().flat_map(|span| span.content.graphemes(true)) {
        if piece == " " || can_break_between(before, piece) {
            current = 0;
        }
        current += if piece == " " { 0 } else { width(piece) };
        longest = longest.max(current);
        before = piece;
    }
    longest
}

fn merge_spans(pieces: &[(&str, Style)]) -> Vec<Span<'static>> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (text, style) in pieces {
        match spans.last_mut() {
            Some(last) if last.style == *style => last.content.to_mut().push_str(text),
            _ => spans.push(Span::styled((*text).to_owned(), *style)),
        }
    }
    spans
}

/// Further lines get another prefix.
pub(super) fn wrap_with_prefixes(
    first: &Span<'static>,
    rest: &Span<'static>,
    spans: &[Span<'static>],
    columns: usize,
    keeps_addresses: bool,
) -> Vec<Line<'static>> {
    let prefix = width(&first.content).max(width(&rest.content));
    let room = columns.saturating_sub(prefix).max(1);
    let lines = wrap(spans, room, keeps_addresses).into_iter().enumerate().map(|(n, line)| {
        let prefix = if n == 0 { first } else { rest };
        prefix_line(prefix.clone(), line)
    });
    lines.collect()
}

pub(super) fn prefix_line(
    mark: Span<'static>,
    spans: impl IntoIterator<Item = Span<'static>>,
) -> Line<'static> {
    std::iter::once(mark).chain(spans).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, columns: usize) -> Vec<String> {
        let lines = wrap(&[Span::raw(text.to_owned())], columns, true);
        lines.iter().map(|line| line.iter().map(|span| &*span.content).collect()).collect()
    }

    #[test]
    fn lines_break_between_words_and_wide_characters() {
        assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
        assert_eq!(wrapped("one two   three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        assert_eq!(wrapped("中文字符换行", 5), ["中文", "字符", "换行"]);
        assert_eq!(wrapped("see 中文字", 6), ["see 中", "文字"]);
        assert_eq!(wrapped("中文字符，换行。", 8), ["中文字", "符，换", "行。"]);
        assert_eq!(wrapped("中文（换行）", 6), ["中文", "（换", "行）"]);
        assert_eq!(wrapped("", 4), [""]);
        assert_eq!(wrapped("a word abcdefghijkl", 6), ["a word", "abcdef", "ghijkl"]);
    }

    #[test]
    fn line_breaks_in_a_text_are_kept() {
        assert_eq!(wrapped("one\n  two\r\n\nthree four", 10), ["one", "  two", "", "three four"]);
        assert_eq!(wrapped("one two three\nfour", 8), ["one two", "three", "four"]);
    }

    #[test]
    fn address_is_found_and_not_broken() {
        fn found(text: &str) -> Vec<&str> {
            find_addresses(text).into_iter().map(|at| &text[at]).collect()
        }
        assert_eq!(
            found("see (https://x.y/a_(b)), http://z:1."),
            ["https://x.y/a_(b)", "http://z:1"]
        );
        assert_eq!(found("见https://x.y/?a=http://b。"), ["https://x.y/?a=http://b"]);
        assert_eq!(found("https://cut.example/pa… https:// http: https://x.y/Übung"), [""; 0]);
        assert_eq!(
            wrapped("read (https://x.y/long/path) and more words", 12),
            ["read", "(https://x.y/long/path)", "and more", "words"]
        );
    }

    #[test]
    fn wider_prefix_of_further_lines_loses_no_text() {
        let (first, rest) = (Span::raw(""), Span::raw("  "));
        let text = [Span::raw("abcdefghijkl")];
        let lines = wrap_with_prefixes(&first, &rest, &text, 6, false);
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["abcd", "  efgh", "  ijkl"]);
    }

    #[test]
    fn wrapped_lines_fit_and_keep_every_word() {
        let text = "Lorem ipsum 中文字 dolor-sit amet, 👩‍👩‍👧 consectetur x adipiscing";
        for columns in 1..40 {
            let lines = wrapped(text, columns);
            let all: String = lines.concat();
            assert_eq!(all.replace(' ', ""), text.replace(' ', ""), "{columns}");
            if columns > 1 {
                assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:?}");
            }
        }
    }
}
