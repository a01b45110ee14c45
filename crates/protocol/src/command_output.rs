//! The output of commands as a terminal displays it. Only output may be formatted: whatever else is shown is
//! shown whole, with [`terminal_escape`](super::terminal_escape).

use std::borrow::Cow;

use unicode_width::UnicodeWidthChar as _;

use super::terminal_escape::escape_prose;

/// Limit: the length of a line that is extended by moving the cursor.
const MAX_COLUMNS: usize = 1000;

const CONTROLS: [char; 4] = ['\r', '\u{8}', '\u{1b}', '\u{9b}'];

/// The output as a terminal shows it.
pub fn render_output(output: &str) -> Cow<'_, str> {
    match plain_output(output) {
        Cow::Borrowed(text) => escape_prose(text),
        Cow::Owned(text) => Cow::Owned(escape_prose(&text).into_owned()),
    }
}

/// Applies escape sequences, carriage returns and backspaces within each line. Line ends and other lines are kept.
pub fn plain_output(output: &str) -> Cow<'_, str> {
    if !output.contains(CONTROLS) {
        return Cow::Borrowed(output);
    }
    let mut out = String::with_capacity(output.len());
    for line in output.split_inclusive('\n') {
        let text = line.trim_end_matches(['\r', '\n']);
        if text.contains(CONTROLS) {
            out.push_str(&TerminalLine::of(text).text());
        } else {
            out.push_str(text);
        }
        out.push_str(
            ["\r\n", "\n"].into_iter().find(|end| line.ends_with(end)).unwrap_or_default(),
        );
    }
    Cow::Owned(out)
}

/// The cursor is between `before` and `after`.
#[derive(Debug, Default)]
struct TerminalLine {
    before: String,
    /// In reverse order.
    after: Vec<char>,
}

impl TerminalLine {
    fn of(mut rest: &str) -> Self {
        let mut row = Self::default();
        while let Some(char) = rest.chars().next() {
            let mut size = char.len_utf8();
            match char {
                '\u{1b}' | '\u{9b}' => {
                    size = escape_sequence_length(rest);
                    row.apply_escape_sequence(&rest[..size]);
                }
                '\r' => row.move_left(usize::MAX),
                '\u{8}' => row.move_left(1),
                char => row.write_char(char),
            }
            rest = &rest[size..];
        }
        row
    }

    /// Overwrites the characters at the cursor.
    fn write_char(&mut self, char: char) {
        self.before.push(char);
        let mut covered = 0;
        while covered < columns(char) {
            let Some(old) = self.after.pop() else { break };
            covered += columns(old);
            self.drop_combining_marks();
        }
        // The other half of a wide character becomes blank.
        let n_blank = covered.saturating_sub(columns(char));
        self.after.extend(std::iter::repeat_n(' ', n_blank));
    }

    fn drop_combining_marks(&mut self) {
        while self.after.last().is_some_and(|char| columns(*char) == 0) {
            self.after.pop();
        }
    }

    fn move_left(&mut self, most: usize) {
        for _ in 0..most {
            while let Some(char) = self.before.pop() {
                self.after.push(char);
                if columns(char) > 0 {
                    break;
                }
            }
            if self.before.is_empty() {
                return;
            }
        }
    }

    fn move_right(&mut self, n_columns: usize) {
        let mut passed = 0;
        while passed < n_columns {
            let char = match self.after.pop() {
                Some(char) => char,
                None if self.before.len() < MAX_COLUMNS => ' ',
                None => break,
            };
            passed += columns(char);
            self.before.push(char);
        }
    }

    /// Only sequences that move the cursor within the line or erase text have an effect.
    fn apply_escape_sequence(&mut self, sequence: &str) {
        let Some(control) = sequence.strip_prefix("\u{1b}[").or(sequence.strip_prefix('\u{9b}'))
        else {
            return;
        };
        let digits = control.trim_end_matches(|c: char| !c.is_ascii_digit());
        let number = digits.parse::<usize>().unwrap_or(0);
        match control.as_bytes().last() {
            Some(b'C') => self.move_right(number.max(1)),
            Some(b'D') => self.move_left(number.max(1)),
            Some(b'G') => {
                self.move_left(usize::MAX);
                self.move_right(number.saturating_sub(1));
            }
            Some(b'K') => {
                if number != 1 {
                    self.after.clear();
                }
                if number == 1 || number == 2 {
                    let erased = self.before.chars().map(columns).sum();
                    self.before = " ".repeat(erased);
                }
            }
            _ => {}
        }
    }

    fn text(mut self) -> String {
        self.before.extend(self.after.drain(..).rev());
        // Erased text leaves blanks.
        self.before.truncate(self.before.trim_end_matches(' ').len());
        self.before
    }
}

fn columns(char: char) -> usize {
    match char {
        '\t' => 4,
        char => char.width().unwrap_or(0),
    }
}

/// Length in bytes of the sequence at the start of the text.
fn escape_sequence_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    // ESC and a letter, or one character that means both.
    let is_short = !text.starts_with('\u{1b}');
    let kind = if is_short { b'[' } else { bytes.get(1).copied().unwrap_or(0) };
    let body = 2.min(bytes.len());
    let end = match kind {
        b'[' => bytes[body..].iter().position(|byte| !(0x20..=0x3f).contains(byte)),
        // Such as the choice of a character set.
        0x20..=0x2f => bytes[body..].iter().position(|byte| !(0x20..=0x2f).contains(byte)),
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
        body + at + usize::from((0x30..=0x7e).contains(&last))
    });
    text.ceil_char_boundary(end)
}

/// The first line that mentions an error, the exception of the last Python traceback, otherwise the first.
pub fn error_line(output: &str) -> &str {
    const ERRORS: [&str; 6] = ["error", "fatal", "exception", "failed", "错误", "失败"];
    if let Some(at) = output.rfind("Traceback (most recent call last)") {
        let frames = output[at..].lines().skip(1);
        let mut exceptions = frames.filter(|line| !line.starts_with([' ', '\t']));
        if let Some(line) = exceptions.find(|line| !line.trim().is_empty()) {
            return line.trim();
        }
    }
    let mut lines = output.lines().map(str::trim).filter(|line| !line.is_empty());
    let mentions_error = |line: &&str| {
        let line = line.to_lowercase();
        ERRORS.iter().any(|word| line.contains(word))
    };
    lines.clone().find(mentions_error).or_else(|| lines.next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn error_line_is_found_in_the_output_of_many_programs() {
        for (output, expected) in [
            (
                "bash: line 1: pytest: command not found\n",
                "bash: line 1: pytest: command not found",
            ),
            (
                "usage: x [-h]\nx: error: no such option: --fast\n",
                "x: error: no such option: --fast",
            ),
            (
                "Traceback (most recent call last):\n  File \"a.py\"\nUnicodeDecodeError: 'utf-8' codec\n",
                "UnicodeDecodeError: 'utf-8' codec",
            ),
            (
                "Traceback (most recent call last):\n  File \"a.py\"\nAssertionError: 100.0 != 180\n\nFAILED (failures=1)\n",
                "AssertionError: 100.0 != 180",
            ),
            ("npm warn old\nnpm error code ERESOLVE\nnpm error x\n", "npm error code ERESOLVE"),
            ("plain words\nmore\n", "plain words"),
            ("", ""),
        ] {
            assert_eq!(error_line(output), expected);
        }
    }

    fn check(output: &str, expected: &str) {
        assert_eq!(render_output(output), expected, "{output:?}");
    }

    #[test]
    fn formatting_is_removed() {
        check("\x1b[32mok\x1b[0m\n", "ok\n");
        check("t\x1b]0;title\x07ext\x1b]8;;url\x1b\\link", "textlink");
        // `tput sgr0`.
        check("a\x1b(B\x1b[mb\x1b[1;31mc\u{9b}md", "abcd");
        check("\x1bPq\x1b\\x\x1bcy\x1b", "xy");
        check("\x1b[31\u{e9}x \x1b[", "éx");
        check("\u{1b}7\u{1b}=a\x07", "a␇");
    }

    #[test]
    fn lines_without_controls_are_kept() {
        let output = "\x1b[1mbold\x1b[0m\ta \r\n\tb  \r\n1%\r9%\r\nc\r";
        assert_eq!(plain_output(output), "bold\ta\r\n\tb  \r\n9%\r\nc");
    }

    #[test]
    fn unterminated_strings_hide_nothing() {
        check("open\x1b]52;c;abc\nnext", "open52;c;abc\nnext");
        check("\x1bPall of this", "all of this");
    }

    #[test]
    fn only_overwritten_text_disappears() {
        check("10%\r50%\r100%\ndone\n", "100%\ndone\n");
        check("a\r\nb\r\n", "a\nb\n");
        check("rm -rf all\rls", "ls -rf all");
        check("long line\r\x1b[Kend", "end");
        check("long line\x1b[2K\x1b[1Gend", "end");
        check("ab\x08\x08cd\x08e", "ce");
        check("N\x08NA\x08A", "NA");
        check("abc\r\x1b[1CX\x1b[9Dy", "yXc");
        check("中文\rx", "x 文");
        check("e\u{301}f\rab", "ab");
        check("abc\x1b[1Kd", "   d");
    }

    proptest! {
        /// Without a return or a sequence that moves the cursor, only sequences disappear.
        #[test]
        fn text_between_sequences_is_shown(parts in prop::collection::vec("[a-zé中 ]{0,5}", 0..8)) {
            let sequences = ["\x1b[1;32m", "\x1b]0;t\x07", "\x1b(B", "\x1bM", "\x1b_x\x1b\\"];
            let output: String = parts.iter().zip(sequences.iter().cycle())
                .map(|(part, sequence)| format!("{part}{sequence}"))
                .collect();
            let text = parts.iter().take(8).map(String::as_str).collect::<String>();
            let displayed = render_output(&output);
            prop_assert_eq!(displayed.trim_end(), text.trim_end());
        }

        #[test]
        fn any_output_is_displayed_without_controls(output in "(\x1b\\[[0-9]{0,3}[A-K]|\\PC|.){0,40}") {
            prop_assert!(!render_output(&output).chars().any(|char| char.is_control() && char != '\n'));
        }
    }
}
