//! Makes foreign text safe to display: output of programs, records and file names without anything that a
//! terminal would act on.

use std::borrow::Cow;

/// Width of a tab.
const TAB: &str = "    ";

/// For a terminal: removes escape sequences, shows other control characters as text, replaces tabs by blanks,
/// and names marks that reorder or hide text.
pub fn clean(text: &str) -> Cow<'_, str> {
    without(text, needs_cleaning)
}

/// For a file, which may be displayed later: the same, but keeps tabs and marks that belong to the text.
pub fn without_controls(text: &str) -> Cow<'_, str> {
    without(text, |char| char.is_control() && !matches!(char, '\n' | '\t'))
}

fn without(text: &str, is_unwanted: fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(is_unwanted) {
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
            char if !is_unwanted(char) => out.push(char),
            '\t' => out.push_str(TAB),
            // A line end of `\r\n`.
            '\r' if rest.starts_with('\n') => {}
            '\0'..='\u{1f}' => out.push(char::from_u32(0x2400 + u32::from(char)).unwrap_or('?')),
            '\u{7f}' => out.push('␡'),
            char => out.push_str(&format!("<U+{:04X}>", u32::from(char))),
        }
    }
    Cow::Owned(out)
}

/// The character controls a terminal, or hides or reorders text; line breaks excepted.
pub fn needs_cleaning(char: char) -> bool {
    // Controls; then zero width, direction, separators and tags, which hide or reorder text. (Joiners and
    // variation selectors are part of scripts and emoji.)
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
    // ESC and a letter, or one character that means both.
    let is_short = !text.starts_with('\u{1b}');
    let kind = if is_short { b'[' } else { bytes.get(1).copied().unwrap_or(0) };
    let body = 2.min(bytes.len());
    let end = match kind {
        b'[' => bytes[body..].iter().position(|byte| !(0x20..=0x3f).contains(byte)),
        b']' | b'P' | b'_' | b'^' | b'X' => {
            // An unterminated string does not hide all of the text after it.
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
        // The final byte belongs to the sequence; anything else terminates it early.
        body + at + usize::from((0x40..=0x7e).contains(&last))
    });
    text.ceil_char_boundary(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_sequences_are_removed() {
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
    fn control_characters_are_removed_from_file_text() {
        for (text, expected) in [
            ("plain é\t中\n", "plain é\t中\n"),
            ("a\x1b[31mred\x1b[0m\r\n", "ared\n"),
            ("10%\r50%\x08", "10%␍50%␈"),
            ("a\u{9b}31mb\u{85}c\x7f", "ab<U+0085>c␡"),
            ("\u{feff}x\u{202e}y", "\u{feff}x\u{202e}y"),
        ] {
            assert_eq!(without_controls(text), expected, "{text:?}");
        }
    }
}
