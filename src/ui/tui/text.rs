//! Text for a terminal: made harmless, measured, and wrapped.

use std::borrow::Cow;

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

/// Columns of a tab.
const TAB: &str = "    ";

/// The text with nothing in it that a terminal would act on: escape sequences are left out, other control
/// characters shown as what they are, tabs made spaces, and marks that turn or hide text named.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(needs_cleaning) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(char) = rest.chars().next() {
        if char == '\u{1b}' || char == '\u{9b}' {
            rest = &rest[sequence(rest)..];
            continue;
        }
        rest = &rest[char.len_utf8()..];
        match char {
            '\n' => out.push('\n'),
            '\t' => out.push_str(TAB),
            // The end of a line as some systems write it.
            '\r' if rest.starts_with('\n') => {}
            '\0'..='\u{1f}' => out.push(char::from_u32(0x2400 + u32::from(char)).unwrap_or('?')),
            '\u{7f}' => out.push('␡'),
            char if needs_cleaning(char) => out.push_str(&format!("<U+{:04X}>", u32::from(char))),
            char => out.push(char),
        }
    }
    Cow::Owned(out)
}

/// What a command wrote, as its last state: of a line that was written over, what was written last.
pub(super) fn settled(output: &str) -> Cow<'_, str> {
    if !output.contains(['\r', '\u{8}']) {
        return clean(output);
    }
    let lines = output.split_inclusive('\n').map(|line| {
        let end = line.trim_end_matches(['\n', '\r']);
        let last = end.rsplit('\r').find(|part| !part.is_empty()).unwrap_or_default();
        let line_end = if line.ends_with('\n') { "\n" } else { "" };
        format!("{}{line_end}", last.replace('\u{8}', ""))
    });
    Cow::Owned(clean(&lines.collect::<String>()).into_owned())
}

fn needs_cleaning(char: char) -> bool {
    // Controls; then zero width, direction, separators and tags: they hide or turn what a person reads.
    // (Joiners and variation selectors belong to scripts and emoji.)
    char != '\n'
        && matches!(
            char,
            '\0'..='\u{1f}'
                | '\u{7f}'..='\u{9f}'
                | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Bytes of the escape sequence at the start of the text.
fn sequence(text: &str) -> usize {
    let bytes = text.as_bytes();
    // Either ESC and a letter, or one character that says both.
    let is_short = !text.starts_with('\u{1b}');
    let kind = if is_short { b'[' } else { bytes.get(1).copied().unwrap_or(0) };
    let body = 2.min(bytes.len());
    let end = match kind {
        b'[' => bytes[body..].iter().position(|byte| !(0x20..=0x3f).contains(byte)),
        b']' | b'P' | b'_' | b'^' | b'X' => {
            // A string without an end is not allowed to swallow the text behind it.
            let reach = &bytes[body..bytes.len().min(body + 4096)];
            let end = reach.iter().position(|byte| *byte == 7 || *byte == 0x1b || *byte == b'\n');
            return match end.map(|at| (at, reach[at])) {
                Some((at, 7)) => body + at + 1,
                Some((at, 0x1b)) if bytes.get(body + at + 1) == Some(&b'\\') => body + at + 2,
                _ => text.ceil_char_boundary(2),
            };
        }
        _ => return text.ceil_char_boundary(if kind.is_ascii_graphic() { 2 } else { 1 }),
    };
    let end = end.map_or(text.len(), |at| {
        let last = bytes[body + at];
        // The final byte belongs to the sequence; anything else broke it off.
        body + at + usize::from((0x40..=0x7e).contains(&last))
    });
    text.ceil_char_boundary(end)
}

/// Columns of a text.
pub(super) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// At most so many columns of a text; what is cut ends in `…`.
pub(super) fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    // Looking at the whole of a very long line only to cut it would cost as much as showing it.
    if text.len() <= columns * 4 && width(text) <= columns {
        return Cow::Borrowed(text);
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
    Cow::Owned(out)
}

/// Breaks a styled line into lines of at most so many columns: between words where that is possible,
/// between wide characters, else anywhere. Spaces at a break go away.
pub(super) fn wrap(spans: &[Span<'static>], columns: usize) -> Vec<Vec<Span<'static>>> {
    let columns = columns.max(1);
    let total: usize = spans.iter().map(|span| width(&span.content)).sum();
    if total <= columns {
        return vec![spans.to_vec()];
    }
    let mut lines = Vec::new();
    let mut line: Vec<(&str, Style)> = Vec::new();
    let mut used = 0;
    // Where the line may be broken: so many pieces of it, and their columns.
    let mut break_at: Option<(usize, usize)> = None;
    for span in spans {
        for piece in span.content.graphemes(true) {
            let columns_of = width(piece);
            if line.last().is_some_and(|(before, _)| breaks_between(before, piece)) {
                break_at = Some((line.len(), used));
            }
            if used + columns_of > columns {
                if piece == " " {
                    break_at = Some((line.len(), used));
                    continue;
                }
                let (keep, _) = break_at.filter(|(n, _)| *n > 0).unwrap_or((line.len(), used));
                let mut rest = line.split_off(keep);
                while line.last().is_some_and(|(text, _)| *text == " ") {
                    line.pop();
                }
                let blank = rest.iter().take_while(|(text, _)| *text == " ").count();
                rest.drain(..blank);
                lines.push(joined(&line));
                line = rest;
                used = line.iter().map(|(text, _)| width(text)).sum();
                break_at = None;
            }
            if piece == " " && line.is_empty() && !lines.is_empty() {
                continue;
            }
            line.push((piece, span.style));
            used += columns_of;
        }
    }
    lines.push(joined(&line));
    lines
}

/// A line may end between these two: at a blank, and beside a wide character, but for punctuation that does not
/// begin or end a line in Chinese and Japanese (W3C, Requirements for Chinese Text Layout, 3.1.2).
fn breaks_between(before: &str, piece: &str) -> bool {
    const NOT_FIRST: &str = "，。、；：！？）〕】》〉」』］｝”’…％ー";
    const NOT_LAST: &str = "（〔【《〈「『［｛“‘";
    before == " "
        || (width(before) > 1 || width(piece) > 1)
            && !NOT_FIRST.contains(piece)
            && !NOT_LAST.contains(before)
}

fn joined(pieces: &[(&str, Style)]) -> Vec<Span<'static>> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    for (text, style) in pieces {
        match spans.last_mut() {
            Some(last) if last.style == *style => last.content.to_mut().push_str(text),
            _ => spans.push(Span::styled((*text).to_owned(), *style)),
        }
    }
    spans
}

/// Wraps a styled line behind a prefix; the lines after the first stand behind another of the same width.
pub(super) fn hang(
    first: &Span<'static>,
    rest: &Span<'static>,
    spans: &[Span<'static>],
    columns: usize,
) -> Vec<Line<'static>> {
    let room = columns.saturating_sub(width(&first.content)).max(1);
    let lines = wrap(spans, room).into_iter().enumerate().map(|(n, line)| {
        let prefix = if n == 0 { first } else { rest };
        behind(prefix.clone(), line)
    });
    lines.collect()
}

/// A line that begins with this mark.
pub(super) fn behind(
    mark: Span<'static>,
    spans: impl IntoIterator<Item = Span<'static>>,
) -> Line<'static> {
    std::iter::once(mark).chain(spans).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_acts_on_is_left() {
        for (text, expected) in [
            ("plain é 中 👩‍👩‍👧", "plain é 中 👩‍👩‍👧"),
            ("a\x1b[31mred\x1b[0m b", "ared b"),
            ("t\x1b]0;evil\x07itle", "title"),
            ("t\x1b]0;evil\x1b\\itle", "title"),
            ("open\x1b]52;c;abc\nnext", "open52;c;abc\nnext"),
            ("\x1bPq\x1b\\x\x1bcy\x1b", "xy"),
            ("\x1b[", ""),
            ("\x1b[31\u{e9}x", "éx"),
            ("a\u{9b}31mb", "ab"),
            ("bell\x07 nul\0 del\x7f", "bell␇ nul␀ del␡"),
            ("a\tb\r\nc", "a    b\nc"),
            ("rm \u{202e}txt.exe", "rm <U+202E>txt.exe"),
            ("a\u{200b}b\u{feff}", "a<U+200B>b<U+FEFF>"),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_line_that_was_written_over_shows_its_end() {
        assert_eq!(settled("10%\r50%\r100%\ndone\n"), "100%\ndone\n");
        assert_eq!(settled("a\r\nb\r\n"), "a\nb\n");
        assert_eq!(settled("\x1b[32mok\x1b[0m\n"), "ok\n");
    }

    fn wrapped(text: &str, columns: usize) -> Vec<String> {
        let lines = wrap(&[Span::raw(text.to_owned())], columns);
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
    fn no_wrapped_line_is_too_wide_and_no_word_is_lost() {
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
