//! The modes of vi in the input field, with the most common commands.

use super::composer::{Composer, Motion};
use super::keys::{Code, Key, KeyAction};

/// The mode, and an incomplete command.
#[derive(Debug, Default)]
pub(super) struct Vi {
    is_normal: bool,
    operator: Option<char>,
    awaits: Option<char>,
    count: usize,
    /// What was deleted or copied last are whole lines.
    keeps_lines: bool,
}

/// The result of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was a command of vi.
    Taken,
    /// It was not a command of vi.
    Other,
    /// The action to perform, as by the key map.
    Do(KeyAction),
}

impl Vi {
    /// Normal mode is active.
    pub(super) fn is_normal(&self) -> bool {
        self.is_normal
    }

    /// The message was sent: starts in insert mode again.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: Key, composer: &mut Composer) -> Outcome {
        if key.code == Code::Esc && !self.is_normal {
            self.is_normal = true;
            let at = composer.cursor();
            if at > line_start(composer.text(), at) {
                composer.go(Motion::Left);
            }
            return Outcome::Taken;
        }
        if !self.is_normal {
            return Outcome::Other;
        }
        if key.code == Code::Esc {
            let had_begun = self.operator.is_some() || self.awaits.is_some() || self.count > 0;
            self.begin();
            return if had_begun { Outcome::Taken } else { Outcome::Other };
        }
        if key == Key::ctrl('r') {
            composer.redo();
            return Outcome::Taken;
        }
        let Some(char) = key.typed() else { return Outcome::Other };
        let outcome = self.command(char, composer);
        // In normal mode the cursor is on a character, not after the last one of a line.
        let (text, at) = (composer.text(), composer.cursor());
        if self.is_normal && at == line_end(text, at) && at > line_start(text, at) {
            composer.go(Motion::Left);
        }
        outcome
    }

    fn begin(&mut self) {
        *self = Self { is_normal: true, keeps_lines: self.keeps_lines, ..Self::default() };
    }

    fn insert(&mut self) -> Outcome {
        *self = Self { keeps_lines: self.keeps_lines, ..Self::default() };
        Outcome::Taken
    }

    /// Deletes these bytes, and keeps them for `p`.
    fn cut(&mut self, composer: &mut Composer, from: usize, to: usize) {
        if from < to {
            self.keeps_lines = false;
            composer.keep(from, to);
            composer.replace(from, to, "");
        }
    }

    /// Inserts what was deleted or copied last, before the cursor or behind it.
    fn put(&self, composer: &mut Composer, before: bool) {
        let (text, at) = (composer.text(), composer.cursor());
        match (self.keeps_lines, before) {
            (true, true) => {
                let start = line_start(text, at);
                composer.yank_line(start, before);
                composer.go_to(start);
            }
            (true, false) => {
                let end = line_end(text, at);
                composer.yank_line(end, before);
                composer.go_to(end + 1);
            }
            (false, _) => {
                let from = if before { at } else { next(text, at).min(line_end(text, at)) };
                composer.go_to(from);
                composer.yank();
                if composer.cursor() > from {
                    composer.go(Motion::Left);
                }
            }
        }
    }

    fn command(&mut self, char: char, composer: &mut Composer) -> Outcome {
        if let Some(awaits) = self.awaits.take() {
            match awaits {
                'r' => {
                    let at = composer.cursor();
                    let end = next(composer.text(), at);
                    if end > at {
                        composer.replace(at, end, &char.to_string());
                        composer.go(Motion::Left);
                    }
                }
                _ if char == 'g' => self.over(0, composer),
                _ => {}
            }
            self.begin();
            return Outcome::Taken;
        }
        if let Some(digit) = char.to_digit(10).filter(|digit| *digit > 0 || self.count > 0) {
            self.count = (self.count * 10 + digit as usize).min(999);
            return Outcome::Taken;
        }
        let count = self.count.max(1);
        let (text, at) = (composer.text().to_owned(), composer.cursor());
        if let Some(to) = target(char, &text, at, count, self.operator) {
            let changes = self.operator == Some('c');
            self.over(to, composer);
            if changes {
                return self.insert();
            }
            self.begin();
            return Outcome::Taken;
        }
        match (char, self.operator) {
            ('d' | 'c' | 'y', None) => {
                self.operator = Some(char);
                return Outcome::Taken;
            }
            (line, Some(operator)) if line == operator => {
                let from = line_start(&text, at);
                let end = line_end(&text, at);
                composer.keep(from, end);
                self.keeps_lines = true;
                match operator {
                    // With its line break, or the one before the last line.
                    'd' if end == text.len() => {
                        composer.replace(from.saturating_sub(1), end, "");
                        composer.go_to(line_start(composer.text(), composer.cursor()));
                    }
                    'd' => composer.replace(from, end + 1, ""),
                    'c' => {
                        composer.replace(from, end, "");
                        return self.insert();
                    }
                    _ => {}
                }
            }
            ('g' | 'r', _) => {
                self.awaits = Some(char);
                return Outcome::Taken;
            }
            ('i', None) => return self.insert(),
            ('a', None) => {
                composer.go_to(next(&text, at).min(line_end(&text, at)));
                return self.insert();
            }
            ('I', None) => {
                composer.go_to(line_start(&text, at));
                return self.insert();
            }
            ('A', None) => {
                composer.go_to(line_end(&text, at));
                return self.insert();
            }
            ('o', None) => {
                composer.go_to(line_end(&text, at));
                composer.insert_text("\n");
                return self.insert();
            }
            ('O', None) => {
                composer.go_to(line_start(&text, at));
                composer.insert_text("\n");
                composer.go(Motion::Left);
                return self.insert();
            }
            ('x' | 'X', None) => {
                let motion = if char == 'x' { 'l' } else { 'h' };
                let to = target(motion, &text, at, count, None).unwrap_or(at);
                self.cut(composer, at.min(to), at.max(to));
            }
            ('D', None) => self.cut(composer, at, line_end(&text, at)),
            ('C', None) => {
                self.cut(composer, at, line_end(&text, at));
                return self.insert();
            }
            ('S', None) => {
                self.cut(composer, line_start(&text, at), line_end(&text, at));
                return self.insert();
            }
            ('p' | 'P', None) => self.put(composer, char == 'P'),
            ('u', None) => composer.undo(),
            ('j', None) => {
                self.begin();
                return Outcome::Do(KeyAction::Down);
            }
            ('k', None) => {
                self.begin();
                return Outcome::Do(KeyAction::Up);
            }
            // Other letters have no effect.
            _ => {}
        }
        self.begin();
        Outcome::Taken
    }

    /// Moves the cursor, or applies the pending operator up to the target.
    fn over(&mut self, to: usize, composer: &mut Composer) {
        let at = composer.cursor();
        let (from, end) = (at.min(to), at.max(to));
        match self.operator {
            None => composer.go_to(to),
            Some('y') => {
                self.keeps_lines = false;
                composer.keep(from, end);
                composer.go_to(from);
            }
            Some(_) => self.cut(composer, from, end),
        }
    }
}

/// The target of a motion.
fn target(
    char: char,
    text: &str,
    at: usize,
    count: usize,
    operator: Option<char>,
) -> Option<usize> {
    let repeated = |step: &dyn Fn(usize) -> usize| (0..count).fold(at, |at, _| step(at));
    Some(match char {
        'h' => repeated(&|at| previous(text, at).max(line_start(text, at))),
        'l' | ' ' => repeated(&|at| next(text, at).min(line_end(text, at))),
        '0' | '^' => line_start(text, at),
        '$' => line_end(text, at),
        // `cw` does not change the space after the word.
        'w' if operator == Some('c') => word_end(text, at),
        'w' | 'W' => repeated(&|at| word_start(text, at)),
        'e' => {
            let end = repeated(&|at| word_end(text, next(text, at)));
            if operator.is_some() { end } else { previous(text, end) }
        }
        'b' | 'B' => repeated(&|at| word_back(text, at)),
        'G' => text.len(),
        _ => return None,
    })
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |at| at + 1)
}

fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end)
}

fn next(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(0, char::len_utf8)
}

fn previous(text: &str, at: usize) -> usize {
    at - text[..at].chars().next_back().map_or(0, char::len_utf8)
}

/// Distinguishes words, punctuation and blanks.
fn class(char: char) -> u8 {
    if char.is_whitespace() {
        0
    } else if char.is_alphanumeric() || char == '_' {
        1
    } else {
        2
    }
}

fn word_start(text: &str, at: usize) -> usize {
    let mut chars = text[at..].char_indices().peekable();
    let Some((_, first)) = chars.peek().copied() else { return at };
    let mut left = false;
    for (offset, char) in chars {
        left |= class(char) != class(first);
        if left && class(char) != 0 {
            return at + offset;
        }
    }
    text.len()
}

fn word_end(text: &str, at: usize) -> usize {
    let rest = &text[at..];
    let blank = rest.len() - rest.trim_start().len();
    let word = &rest[blank..];
    let Some(first) = word.chars().next() else { return text.len() };
    let end = word.find(|char| class(char) != class(first)).unwrap_or(word.len());
    at + blank + end
}

fn word_back(text: &str, at: usize) -> usize {
    let before = text[..at].trim_end();
    let Some(last) = before.chars().next_back() else { return 0 };
    before.trim_end_matches(|char| class(char) == class(last)).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types the keys after `text`; `⎋` is Esc.
    fn check(text: &str, keys: &str, expected: &str) {
        let mut vi = Vi::default();
        let mut composer = Composer::default();
        composer.insert_text(text);
        for char in keys.chars() {
            let code = if char == '⎋' { Code::Esc } else { Code::Char(char) };
            if vi.key(Key::plain(code), &mut composer) == Outcome::Other {
                composer.insert(char);
            }
        }
        let (before, after) = composer.text().split_at(composer.cursor());
        assert_eq!(format!("{before}|{after}"), expected, "{text:?} {keys}");
    }

    #[test]
    fn vi_commands_behave_as_in_vi() {
        for (text, keys, expected) in [
            ("one two", "⎋0x", "|ne two"),
            ("one two", "⎋0dw", "|two"),
            ("one two", "⎋0cwsix⎋", "si|x two"),
            ("one two three", "⎋02dw", "|three"),
            ("one two", "⎋bD", "one| "),
            ("one two", "⎋0$x", "one t|w"),
            ("one two", "⎋0$rZ", "one tw|Z"),
            ("ab", "⎋0xp", "b|a"),
            ("one\ntwo", "⎋ggyyp", "one\n|one\ntwo"),
            ("one\ntwo", "⎋yyggP", "|two\none\ntwo"),
            ("one", "⎋yypu0x", "|ne"),
            ("one", "⎋yyPu0x", "|ne"),
            ("one\ntwo", "⎋dd", "|one"),
            ("one\ntwo", "⎋ggddp", "two\n|one"),
            ("a b", "⎋ddione", "one|"),
            ("one\ntwo", "⎋ggOzero⎋", "zer|o\none\ntwo"),
            ("one", "⎋ione ", "onone |e"),
            ("one", "⎋A more", "one more|"),
            ("abc", "⎋0rx", "|xbc"),
            ("one two", "⎋0yw$p", "one twoone| "),
            ("one two", "⎋dbu", "one tw|o"),
            ("a-b c", "⎋0wdw", "a|b c"),
            ("one two", "⎋0e", "on|e two"),
        ] {
            check(text, keys, expected);
        }
    }
}
