//! The modes of vi in the input field, with the most common commands.

use super::composer::{Composer, Motion};
use super::keys::{Key, KeyAction, KeyCode};

#[derive(Debug, Default)]
pub(super) struct ViState {
    pub(super) is_normal: bool,
    operator: Option<char>,
    pending_command: Option<char>,
    count: usize,
    /// The yanked text consists of whole lines.
    is_linewise: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ViOutcome {
    Handled,
    Unhandled,
    Perform(KeyAction),
}

impl ViState {
    pub(super) fn handle_key(&mut self, key: Key, composer: &mut Composer) -> ViOutcome {
        if key.code == KeyCode::Esc && !self.is_normal {
            self.is_normal = true;
            let at = composer.cursor();
            if at > line_start(composer.text(), at) {
                composer.move_cursor(Motion::Left);
            }
            return ViOutcome::Handled;
        }
        if !self.is_normal {
            return ViOutcome::Unhandled;
        }
        if key.code == KeyCode::Esc {
            let had_begun =
                self.operator.is_some() || self.pending_command.is_some() || self.count > 0;
            self.reset_command();
            return if had_begun { ViOutcome::Handled } else { ViOutcome::Unhandled };
        }
        if key == Key::ctrl('r') {
            composer.redo();
            return ViOutcome::Handled;
        }
        let Some(char) = key.typed_char() else { return ViOutcome::Unhandled };
        let outcome = self.run_command(char, composer);
        // In normal mode the cursor is on a character, not after the last one of a line.
        let (text, at) = (composer.text(), composer.cursor());
        if self.is_normal && at == line_end(text, at) && at > line_start(text, at) {
            composer.move_cursor(Motion::Left);
        }
        outcome
    }

    fn reset_command(&mut self) {
        *self = Self { is_normal: true, is_linewise: self.is_linewise, ..Self::default() };
    }

    fn enter_insert_mode(&mut self) -> ViOutcome {
        *self = Self { is_linewise: self.is_linewise, ..Self::default() };
        ViOutcome::Handled
    }

    /// The deleted text is available to `p`.
    fn cut(&mut self, composer: &mut Composer, from: usize, to: usize) {
        if from < to {
            self.is_linewise = false;
            composer.copy_to_kill_buffer(from, to);
            composer.replace(from, to, "");
        }
    }

    /// `before`: before the cursor, otherwise behind it.
    fn put_yanked(&self, composer: &mut Composer, before: bool) {
        let (text, at) = (composer.text(), composer.cursor());
        match (self.is_linewise, before) {
            (true, true) => {
                let start = line_start(text, at);
                composer.yank_line(start, before);
                composer.set_cursor(start);
            }
            (true, false) => {
                let end = line_end(text, at);
                composer.yank_line(end, before);
                composer.set_cursor(end + 1);
            }
            (false, _) => {
                let from = if before { at } else { next_char(text, at).min(line_end(text, at)) };
                composer.set_cursor(from);
                composer.yank();
                if composer.cursor() > from {
                    composer.move_cursor(Motion::Left);
                }
            }
        }
    }

    fn run_command(&mut self, char: char, composer: &mut Composer) -> ViOutcome {
        if let Some(awaits) = self.pending_command.take() {
            match awaits {
                'r' => {
                    let at = composer.cursor();
                    let end = next_char(composer.text(), at);
                    if end > at {
                        composer.replace(at, end, &char.to_string());
                        composer.move_cursor(Motion::Left);
                    }
                }
                _ if char == 'g' => self.apply_motion(0, composer),
                _ => {}
            }
            self.reset_command();
            return ViOutcome::Handled;
        }
        if let Some(digit) = char.to_digit(10).filter(|digit| *digit > 0 || self.count > 0) {
            self.count = (self.count * 10 + digit as usize).min(999);
            return ViOutcome::Handled;
        }
        let count = self.count.max(1);
        let (text, at) = (composer.text().to_owned(), composer.cursor());
        if let Some(to) = motion_target(char, &text, at, count, self.operator) {
            let changes = self.operator == Some('c');
            self.apply_motion(to, composer);
            if changes {
                return self.enter_insert_mode();
            }
            self.reset_command();
            return ViOutcome::Handled;
        }
        match (char, self.operator) {
            ('d' | 'c' | 'y', None) => {
                self.operator = Some(char);
                return ViOutcome::Handled;
            }
            (line, Some(operator)) if line == operator => {
                let from = line_start(&text, at);
                let end = line_end(&text, at);
                composer.copy_to_kill_buffer(from, end);
                self.is_linewise = true;
                match operator {
                    // The line break, or the one before the last line, is deleted, too.
                    'd' if end == text.len() => {
                        composer.replace(from.saturating_sub(1), end, "");
                        composer.set_cursor(line_start(composer.text(), composer.cursor()));
                    }
                    'd' => composer.replace(from, end + 1, ""),
                    'c' => {
                        composer.replace(from, end, "");
                        return self.enter_insert_mode();
                    }
                    _ => {}
                }
            }
            ('g' | 'r', _) => {
                self.pending_command = Some(char);
                return ViOutcome::Handled;
            }
            ('i' | 'a' | 'I' | 'A' | 'o' | 'O' | 'C' | 'S', None) => {
                let (start, end) = (line_start(&text, at), line_end(&text, at));
                match char {
                    'a' => composer.set_cursor(next_char(&text, at).min(end)),
                    'I' | 'O' => composer.set_cursor(start),
                    'A' | 'o' => composer.set_cursor(end),
                    'C' => self.cut(composer, at, end),
                    'S' => self.cut(composer, start, end),
                    _ => {}
                }
                if char == 'o' || char == 'O' {
                    composer.insert_text("\n");
                }
                if char == 'O' {
                    composer.move_cursor(Motion::Left);
                }
                return self.enter_insert_mode();
            }
            ('x' | 'X', None) => {
                let motion = if char == 'x' { 'l' } else { 'h' };
                let to = motion_target(motion, &text, at, count, None).unwrap_or(at);
                self.cut(composer, at.min(to), at.max(to));
            }
            ('D', None) => self.cut(composer, at, line_end(&text, at)),
            ('p' | 'P', None) => self.put_yanked(composer, char == 'P'),
            ('u', None) => composer.undo(),
            ('j' | 'k', None) => {
                self.reset_command();
                let action = if char == 'j' { KeyAction::Down } else { KeyAction::Up };
                return ViOutcome::Perform(action);
            }
            // Other letters have no effect.
            _ => {}
        }
        self.reset_command();
        ViOutcome::Handled
    }

    /// Applies a pending operator up to `to`.
    fn apply_motion(&mut self, to: usize, composer: &mut Composer) {
        let at = composer.cursor();
        let (from, end) = (at.min(to), at.max(to));
        match self.operator {
            None => composer.set_cursor(to),
            Some('y') => {
                self.is_linewise = false;
                composer.copy_to_kill_buffer(from, end);
                composer.set_cursor(from);
            }
            Some(_) => self.cut(composer, from, end),
        }
    }
}

fn motion_target(
    char: char,
    text: &str,
    at: usize,
    count: usize,
    operator: Option<char>,
) -> Option<usize> {
    let repeated = |step: &dyn Fn(usize) -> usize| (0..count).fold(at, |at, _| step(at));
    Some(match char {
        'h' => repeated(&|at| previous_char(text, at).max(line_start(text, at))),
        'l' | ' ' => repeated(&|at| next_char(text, at).min(line_end(text, at))),
        '0' | '^' => line_start(text, at),
        '$' => line_end(text, at),
        // `cw` does not change the space after the word.
        'w' if operator == Some('c') => word_end(text, at),
        'w' | 'W' => repeated(&|at| word_start(text, at)),
        'e' => {
            let end = repeated(&|at| word_end(text, next_char(text, at)));
            if operator.is_some() { end } else { previous_char(text, end) }
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

fn next_char(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(0, char::len_utf8)
}

fn previous_char(text: &str, at: usize) -> usize {
    at - text[..at].chars().next_back().map_or(0, char::len_utf8)
}

/// Words, punctuation and blanks have different classes.
fn char_class(char: char) -> u8 {
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
        left |= char_class(char) != char_class(first);
        if left && char_class(char) != 0 {
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
    let end = word.find(|char| char_class(char) != char_class(first)).unwrap_or(word.len());
    at + blank + end
}

fn word_back(text: &str, at: usize) -> usize {
    let before = text[..at].trim_end();
    let Some(last) = before.chars().next_back() else { return 0 };
    before.trim_end_matches(|char| char_class(char) == char_class(last)).len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `⎋` in the keys is Esc.
    fn check(text: &str, keys: &str, expected: &str) {
        let mut vi = ViState::default();
        let mut composer = Composer::default();
        composer.insert_text(text);
        for char in keys.chars() {
            let code = if char == '⎋' { KeyCode::Esc } else { KeyCode::Char(char) };
            if vi.handle_key(Key::plain(code), &mut composer) == ViOutcome::Unhandled {
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
