//! The input field: a text of several lines with a cursor, undo, and folded pastes.
//!
//! A text that begins with `!` or `/` is a command, and only the user may start one; directives are
//! read only in the user's own words. Therefore the origin of every character is recorded. Text
//! that was not typed here is never a command, even if it is moved to the beginning or begins
//! inside a fold.

use std::collections::HashSet;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation as _;

use super::text::width;
use agent_protocol::directives::UserInput;
use agent_protocol::dropped_path::parse_dropped_path;
use agent_protocol::terminal_escape::escape_for_file;

/// Lines and bytes; a larger paste is folded.
const FOLD_LINES: usize = 8;
const FOLD_BYTES: usize = 1000;
/// Lines and bytes; a larger recalled message is folded.
const RECALL_LINES: usize = 24;
const RECALL_BYTES: usize = 4000;
/// Bytes of a line that are visible on any screen.
const SHOWN_BYTES: usize = 200;
const MAX_UNDO: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// Typed, pasted as one short line, or a new line in the editor: may start a command.
    Typed,
    /// The user's words from another place: a recalled message, words of the command line.
    UserText,
    /// Pasted, or perhaps pasted.
    Pasted,
}

/// A text with the origin of each byte. Control characters are not permitted, so that the message
/// is what was displayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AttributedText {
    text: String,
    origins: Vec<Origin>,
}

impl AttributedText {
    pub(super) fn typed(text: &str) -> Self {
        Self::new(text, Origin::Typed)
    }

    pub(super) fn from_user(text: &str) -> Self {
        Self::new(text, Origin::UserText)
    }

    /// The pastes of an earlier message are unknown: a single line counts as the user's words.
    pub(super) fn from_history(text: &str) -> Self {
        let is_line = !text.trim_end().contains('\n');
        Self::new(text, if is_line { Origin::UserText } else { Origin::Pasted })
    }

    /// The message is either a command or words.
    pub(super) fn from_message(text: &str) -> Self {
        Self::from_history(text).with_typed_first_line(is_command(text))
    }

    fn with_typed_first_line(mut self, is_command: bool) -> Self {
        if is_command {
            let end = self.text.find('\n').unwrap_or(self.text.len());
            self.origins[..end].fill(Origin::Typed);
        }
        self
    }

    fn new(text: &str, origin: Origin) -> Self {
        let text = escape_for_file(text).into_owned();
        Self { origins: vec![origin; text.len()], text }
    }

    fn slice(&self, from: usize, to: usize) -> Self {
        Self { text: self.text[from..to].to_owned(), origins: self.origins[from..to].to_vec() }
    }

    fn splice(&mut self, from: usize, to: usize, with: &Self) {
        self.text.replace_range(from..to, &with.text);
        self.origins.splice(from..to, with.origins.iter().copied());
    }

    fn is_command(&self) -> bool {
        is_command(&self.text) && self.origins[0] == Origin::Typed
    }
}

#[derive(Debug, Default)]
pub(super) struct Composer {
    content: AttributedText,
    /// In bytes, at a grapheme boundary.
    cursor: usize,
    /// Placeholder and text of each.
    pastes: Vec<(String, String)>,
    n_pastes: usize,
    undo: Vec<(AttributedText, usize)>,
    /// Two steps of the same kind of typing are undone together.
    last_typing: Option<TypingKind>,
    kill_buffer: AttributedText,
    /// The desired column while the cursor moves up and down.
    column: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypingKind {
    Word,
    Space,
    Deleting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Composer {
    pub(super) fn text(&self) -> &str {
        &self.content.text
    }

    pub(super) fn content(&self) -> &AttributedText {
        &self.content
    }

    pub(super) fn cursor(&self) -> usize {
        self.cursor
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text().is_empty()
    }

    pub(super) fn is_command(&self) -> bool {
        self.content.is_command()
    }

    pub(super) fn is_shell(&self) -> bool {
        self.is_command() && self.text().starts_with('!')
    }

    pub(super) fn looks_like_command(&self) -> bool {
        !self.is_command() && is_command(self.text().trim_start_matches(' '))
    }

    /// Unfolds pastes. A message that is not a command does not begin like one.
    pub(super) fn message_text(&self) -> String {
        self.to_user_input().text
    }

    pub(super) fn to_user_input(&self) -> UserInput {
        let mut input = UserInput::default();
        let mut at = 0;
        let next = |from: usize| {
            let found = self.pastes.iter().filter_map(|(word, paste)| {
                Some((from + self.text()[from..].find(word)?, word, paste))
            });
            found.min_by_key(|(at, ..)| *at)
        };
        while let Some((fold, word, paste)) = next(at) {
            self.push_part(at..fold, &mut input);
            input.push_pasted(paste);
            at = fold + word.len();
        }
        self.push_part(at..self.text().len(), &mut input);
        if self.is_command() || !is_command(&input.text) {
            return input;
        }
        // A leading space makes a message of any text.
        let shifted = input.pasted.into_iter().map(|range| range.start + 1..range.end + 1);
        let (text, pasted) = (format!(" {}", input.text), shifted.collect());
        UserInput { text, pasted, ..UserInput::default() }
    }

    fn push_part(&self, part: Range<usize>, input: &mut UserInput) {
        let mut at = part.start;
        for run in self.content.origins[part].chunk_by(|a, b| a == b) {
            let text = &self.text()[at..at + run.len()];
            at += run.len();
            match run[0] {
                Origin::Pasted => input.push_pasted(text),
                Origin::Typed | Origin::UserText => input.text.push_str(text),
            }
        }
    }

    pub(super) fn take_message(&mut self) -> String {
        let message = self.message_text();
        let killed = std::mem::take(&mut self.kill_buffer);
        *self = Self { kill_buffer: killed, ..Self::default() };
        message
    }

    pub(super) fn set_text(&mut self, text: AttributedText) {
        self.push_undo_step(None);
        self.content = text;
        self.cursor = self.text().len();
    }

    /// Unchanged lines keep their origin.
    pub(super) fn set_edited(&mut self, text: &str) {
        let draft = self.to_user_input();
        let line = text.lines().next().unwrap_or_default();
        let is_new = !draft.text.contains(line);
        let is_same = draft.text.starts_with(line) && is_command(&draft.text);
        let mut edited = AttributedText::from_user(text);
        let pasted: HashSet<&str> =
            draft.pasted.iter().flat_map(|range| draft.text[range.clone()].lines()).collect();
        let mut at = 0;
        for line in edited.text.clone().split_inclusive('\n') {
            if pasted.contains(line.trim_end_matches('\n')) {
                edited.origins[at..at + line.len()].fill(Origin::Pasted);
            }
            at += line.len();
        }
        self.set_text(edited.with_typed_first_line(is_command(text) && (is_new || is_same)));
    }

    /// A long message is folded like a paste. The beginning of a command stays visible.
    pub(super) fn set_folded(&mut self, text: &AttributedText) {
        let n_bytes = text.text.len();
        if text.text.lines().count() <= RECALL_LINES && n_bytes <= RECALL_BYTES {
            return self.set_text(text.clone());
        }
        let line = text.text.lines().next().unwrap_or_default();
        let end = if text.is_command() { line.floor_char_boundary(SHOWN_BYTES) } else { 0 };
        self.set_text(text.slice(0, end));
        self.insert_folded(&text.slice(end, n_bytes).text);
    }

    /// The message was not sent.
    pub(super) fn prepend_message(&mut self, message: &UserInput) {
        let has_draft = !self.is_empty();
        self.set_cursor(0);
        let mut at = 0;
        for pasted in &message.pasted {
            self.insert_with_origin(&message.text[at..pasted.start], Origin::UserText);
            self.insert_with_origin(&message.text[pasted.clone()], Origin::Pasted);
            at = pasted.end;
        }
        self.insert_with_origin(&message.text[at..], Origin::UserText);
        if has_draft {
            self.insert_with_origin("\n", Origin::UserText);
        }
        self.set_cursor(usize::MAX);
    }

    /// Folds a large paste.
    fn insert_with_origin(&mut self, text: &str, origin: Origin) {
        if text.is_empty() {
            return;
        }
        let is_large = text.len() > FOLD_BYTES || text.lines().count() > FOLD_LINES;
        if origin == Origin::Pasted && is_large {
            return self.insert_folded(text);
        }
        self.replace_with(self.cursor, self.cursor, &AttributedText::new(text, origin));
    }

    pub(super) fn insert(&mut self, char: char) {
        let typing = if char.is_whitespace() { TypingKind::Space } else { TypingKind::Word };
        let text = AttributedText::typed(char.encode_utf8(&mut [0; 4]));
        self.apply_change(Some(typing), self.cursor, self.cursor, &text);
    }

    /// Several lines cannot be commands, since their beginnings are hard to see; nor can a file that
    /// the user dropped.
    pub(super) fn paste(&mut self, text: &str) {
        let is_seen = parse_dropped_path(text).is_none()
            && text.lines().count() <= 1
            && text.len() <= SHOWN_BYTES;
        self.insert_with_origin(text, if is_seen { Origin::Typed } else { Origin::Pasted });
    }

    fn insert_folded(&mut self, text: &str) {
        let text = escape_for_file(text).into_owned();
        let n_lines = text.lines().count();
        self.n_pastes += 1;
        let size = if n_lines > 1 {
            format!("{n_lines} lines")
        } else {
            format!("{} characters", text.chars().count())
        };
        let word = format!("[paste {}: {size}]", self.n_pastes);
        self.replace_with(self.cursor, self.cursor, &AttributedText::new(&word, Origin::Pasted));
        self.pastes.push((word, text));
    }

    /// More than one deleted character can be yanked.
    pub(super) fn delete(&mut self, motion: Motion) {
        let mut to = self.motion_target(motion);
        if motion == Motion::LineEnd && to == self.cursor {
            // At the end of a line: its line break.
            to = (to + 1).min(self.text().len());
        }
        let (from, to) = (self.cursor.min(to), self.cursor.max(to));
        if from == to {
            return;
        }
        let is_one = matches!(motion, Motion::Left | Motion::Right);
        if !is_one {
            self.kill_buffer = self.content.slice(from, to);
        }
        let typing = is_one.then_some(TypingKind::Deleting);
        self.apply_change(typing, from, to, &AttributedText::default());
    }

    /// `from` and `to` in bytes; the text counts as the user's.
    pub(super) fn replace(&mut self, from: usize, to: usize, text: &str) {
        self.replace_with(from, to, &AttributedText::typed(text));
    }

    /// One undo step; `from` and `to` in bytes.
    pub(super) fn replace_with(&mut self, from: usize, to: usize, text: &AttributedText) {
        self.apply_change(None, from, to, text);
    }

    pub(super) fn yank(&mut self) {
        let killed = self.kill_buffer.clone();
        self.replace_with(self.cursor, self.cursor, &killed);
    }

    pub(super) fn kill_all(&mut self) {
        let message = self.take_message();
        self.kill_buffer = AttributedText::from_message(&message);
    }

    pub(super) fn move_cursor(&mut self, motion: Motion) {
        self.set_cursor(self.motion_target(motion));
    }

    pub(super) fn set_cursor(&mut self, at: usize) {
        self.cursor = self.text().floor_char_boundary(at.min(self.text().len()));
        self.last_typing = None;
        self.column = None;
    }

    /// False if there is no such row.
    pub(super) fn move_row(&mut self, down: bool, columns: usize) -> bool {
        let rows = self.rows(columns);
        let at = self.row_of_cursor(&rows);
        let to = if down { at + 1 } else { at.wrapping_sub(1) };
        let Some(row) = rows.get(to).copied() else { return false };
        let column =
            self.column.unwrap_or_else(|| width(&self.text()[rows[at].start..self.cursor]));
        let mut cursor = row.start;
        let mut used = 0;
        for part in self.text()[row.start..row.end].graphemes(true) {
            used += width(part);
            if used > column {
                break;
            }
            cursor += part.len();
        }
        self.cursor = cursor;
        self.last_typing = None;
        self.column = Some(column);
        true
    }

    pub(super) fn undo(&mut self) {
        if let Some(step) = self.undo.pop() {
            self.last_typing = None;
            (self.content, self.cursor) = step;
        }
    }

    /// The rows cover every byte except line breaks.
    pub(super) fn rows(&self, columns: usize) -> Vec<Row> {
        let columns = columns.max(1);
        let mut rows = Vec::new();
        let mut start = 0;
        for line in self.text().split('\n') {
            let mut row = start;
            let mut used = 0;
            let mut word = None;
            for (at, part) in line.grapheme_indices(true) {
                let part_width = width(part);
                if used + part_width > columns {
                    // Between words, unless one word fills the row.
                    let end = word.filter(|end| *end > row).unwrap_or(start + at);
                    rows.push(Row { start: row, end });
                    row = end;
                    used = width(&self.text()[end..start + at]);
                    word = None;
                }
                used += part_width;
                if part == " " {
                    word = Some(start + at + 1);
                }
            }
            rows.push(Row { start: row, end: start + line.len() });
            start += line.len() + 1;
        }
        rows
    }

    pub(super) fn row_of_cursor(&self, rows: &[Row]) -> usize {
        rows.iter().rposition(|row| row.start <= self.cursor).unwrap_or(0)
    }

    /// `@name` or `@"name with blanks"`: the start in bytes, and the name.
    pub(super) fn mention(&self) -> Option<(usize, &str)> {
        let before = &self.text()[..self.cursor];
        let at = before.rfind('@')?;
        let is_start = before[..at].chars().next_back().is_none_or(char::is_whitespace);
        let word = &before[at + 1..];
        let (name, ends): (_, fn(char) -> bool) = match word.strip_prefix('"') {
            Some(name) => (name, |char| char == '"' || char == '\n'),
            None => (word, char::is_whitespace),
        };
        (is_start && !name.contains(ends)).then_some((at, name))
    }

    fn motion_target(&self, motion: Motion) -> usize {
        let (before, after) = self.text().split_at(self.cursor);
        let mut folds = self.pastes.iter().map(|(word, _)| word.as_str());
        match motion {
            Motion::Left => {
                let fold = folds.find(|word| before.ends_with(word));
                let part = fold.or_else(|| before.graphemes(true).next_back());
                self.cursor - part.map_or(0, str::len)
            }
            Motion::Right => {
                let fold = folds.find(|word| after.starts_with(word));
                self.cursor + fold.or_else(|| after.graphemes(true).next()).map_or(0, str::len)
            }
            Motion::WordLeft => {
                let end = before.trim_end_matches(|c: char| !is_word_char(c));
                end.trim_end_matches(is_word_char).len()
            }
            Motion::WordRight => {
                let rest = after.trim_start_matches(|c: char| !is_word_char(c));
                self.text().len() - rest.trim_start_matches(is_word_char).len()
            }
            Motion::LineStart => before.rfind('\n').map_or(0, |at| at + 1),
            Motion::LineEnd => after.find('\n').map_or(self.text().len(), |at| self.cursor + at),
        }
    }

    fn apply_change(
        &mut self,
        typing: Option<TypingKind>,
        from: usize,
        to: usize,
        text: &AttributedText,
    ) {
        self.push_undo_step(typing);
        self.content.splice(from, to, text);
        self.cursor = from + text.text.len();
        self.snap_cursor_to_grapheme();
    }

    fn push_undo_step(&mut self, typing: Option<TypingKind>) {
        // A space after a word belongs to its step.
        let continues = match (self.last_typing, typing) {
            (Some(TypingKind::Word), Some(TypingKind::Space)) => true,
            (last, typing) => typing.is_some() && last == typing,
        };
        if !continues {
            self.undo.push((self.content.clone(), self.cursor));
            if self.undo.len() > MAX_UNDO {
                self.undo.remove(0);
            }
        }
        self.last_typing = typing;
        self.column = None;
    }

    /// Inserted characters may combine with adjacent ones.
    fn snap_cursor_to_grapheme(&mut self) {
        let near = self.text().floor_char_boundary(self.cursor.saturating_sub(64));
        let mut starts = self.text()[near..].grapheme_indices(true).map(|(at, _)| near + at);
        self.cursor = starts.find(|at| *at >= self.cursor).unwrap_or(self.text().len());
    }
}

/// A path is no command.
fn is_command(text: &str) -> bool {
    let name = text.strip_prefix('/').and_then(|rest| rest.split(char::is_whitespace).next());
    text.starts_with('!') || name.is_some_and(|name| !name.contains('/'))
}

fn is_word_char(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composer(text: &str) -> Composer {
        let mut composer = Composer::default();
        composer.replace(0, 0, text);
        composer
    }

    #[test]
    fn deleted_words_and_lines_can_be_yanked_and_undone() {
        let mut it = composer("one two\nthree four");
        it.delete(Motion::WordLeft);
        assert_eq!(it.text(), "one two\nthree ");
        it.delete(Motion::LineStart);
        assert_eq!(it.text(), "one two\n");
        it.yank();
        assert_eq!(it.text(), "one two\nthree ");
        it.undo();
        it.undo();
        it.undo();
        assert_eq!(it.text(), "one two\nthree four");
        it.set_cursor(0);
        it.delete(Motion::LineEnd);
        it.delete(Motion::LineEnd);
        assert_eq!(it.text(), "three four");
    }

    #[test]
    fn typing_is_undone_word_by_word() {
        let mut it = Composer::default();
        for char in "fix the bug".chars() {
            it.insert(char);
        }
        it.undo();
        assert_eq!(it.text(), "fix the ");
        it.undo();
        assert_eq!(it.text(), "fix ");
    }

    #[test]
    fn large_paste_is_a_single_token_and_sent_whole() {
        let paste = "line\n".repeat(120);
        let mut it = composer("see ");
        it.paste(&paste);
        it.replace(it.cursor(), it.cursor(), " and mend it");
        assert_eq!(it.text(), "see [paste 1: 120 lines] and mend it");
        assert_eq!(it.message_text(), format!("see {paste} and mend it"));
        for _ in 0.." and mend it".len() {
            it.delete(Motion::Left);
        }
        it.delete(Motion::Left);
        assert_eq!(it.text(), "see ");
    }

    #[test]
    fn only_typed_or_visible_text_starts_a_command() {
        let long = format!("!{}", "line\n".repeat(30));
        let check = |put: &dyn Fn(&mut Composer), text: &str, begins: &str| {
            let mut it = Composer::default();
            put(&mut it);
            assert_eq!(it.text(), text);
            assert!(it.message_text().starts_with(begins), "{:?}", it.message_text());
        };
        check(&|it| it.paste("!ls\n"), "!ls\n", "!ls");
        check(&|it| it.paste("!ls\nrm x"), "!ls\nrm x", " !ls");
        check(&|it| it.paste(&long), "[paste 1: 30 lines]", " !line");
        check(&|it| it.paste(&format!("!{:300}", "ls")), &format!("!{:300}", "ls"), " !ls");
        // A paste after a typed `!`; a paste whose preceding text was deleted.
        let after = |it: &mut Composer| {
            it.insert('!');
            it.paste("/a\nb");
        };
        check(&after, "!/a\nb", "!/a");
        let deleted = |it: &mut Composer| {
            it.insert('x');
            it.paste(&long);
            it.set_cursor(1);
            it.delete(Motion::Left);
        };
        check(&deleted, "[paste 1: 30 lines]", " !line");
        let words = |text: &str| {
            let words = AttributedText::from_user(text);
            move |it: &mut Composer| it.set_folded(&words)
        };
        check(&words("/usr/bin/x is slow"), "/usr/bin/x is slow", "/usr/bin/x is");
        check(&words("/mode full"), "/mode full", " /mode full");
        check(&words(&long), "[paste 1: 30 lines]", " !line");
        // A message sent as a command returns as one, with its sign shown.
        let earlier = |text: &str| {
            let earlier = AttributedText::from_message(text);
            move |it: &mut Composer| it.set_folded(&earlier)
        };
        check(&earlier(&long), "!line[paste 1: 30 lines]", "!line\nline\n");
        check(&earlier(" !ls"), " !ls", " !ls");
        // Nothing is executed that was not visible.
        let shown = "!echo a␛]0;;touch x␇ b␍";
        check(&|it| it.paste("!echo a\x1b]0;;touch x\x07 b\r"), shown, shown);
    }

    /// Restored text stays text, and typed text stays typed, however the text before it is removed.
    #[test]
    fn text_moved_to_the_start_keeps_its_kind() {
        const WORDS: &str = "please fix\n !cd;touch x\n!cd\nthanks";
        let words = || {
            let mut it = Composer::default();
            it.set_folded(&AttributedText::from_user(WORDS));
            it
        };
        let check = |it: &Composer, text: &str, is_command: bool| {
            assert_eq!((it.text(), it.is_command()), (text, is_command));
            assert_eq!(it.looks_like_command(), !is_command);
            assert_eq!(
                it.message_text().starts_with(['!', '/']),
                is_command,
                "{:?}",
                it.message_text()
            );
        };
        // All text before it is deleted: at once, in parts, or in an editor.
        let mut it = words();
        let at = WORDS.len() - "!cd\nthanks".len();
        it.replace(0, at, "");
        check(&it, "!cd\nthanks", false);
        let mut it = words();
        it.set_cursor(0);
        while !it.text().starts_with('!') {
            it.delete(Motion::Right);
        }
        check(&it, "!cd;touch x\n!cd\nthanks", false);
        for edited in ["!cd;touch x\n!cd\nthanks", "!cd\nand this", "!cd"] {
            let mut it = words();
            it.set_edited(edited);
            check(&it, edited, false);
        }
        // Killed and yanked.
        let mut it = words();
        it.set_cursor(at);
        it.delete(Motion::LineEnd);
        it.replace(0, it.text().len(), "");
        it.yank();
        check(&it, "!cd", false);
        // A sign typed at the start by the user counts.
        it.set_cursor(0);
        it.delete(Motion::Right);
        it.insert('!');
        check(&it, "!cd", true);
        it.undo();
        it.undo();
        check(&it, "!cd", false);
        // Typed text is a command once it is at the start, and returns as one.
        let mut it = composer("look\n!ls");
        it.set_cursor(0);
        it.delete(Motion::LineEnd);
        it.delete(Motion::LineEnd);
        check(&it, "!ls", true);
        it.kill_all();
        it.yank();
        check(&it, "!ls", true);
        it.set_edited("!ls -l");
        check(&it, "!ls -l", true);
        it.set_edited("!ls");
        check(&it, "!ls", true);
        it.set_edited("/diff");
        check(&it, "/diff", true);
        it.set_text(AttributedText::from_message("/pin this\n!cd"));
        check(&it, "/pin this\n!cd", true);
        it.replace(0, "/pin this\n".len(), "");
        check(&it, "!cd", false);
        it.set_text(AttributedText::typed("/diff"));
        it.prepend_message(&"!not mine".into());
        check(&it, "!not mine\n/diff", false);
        it.set_cursor(0);
        it.delete(Motion::LineEnd);
        it.delete(Motion::LineEnd);
        check(&it, "/diff", true);
    }

    #[test]
    fn cursor_is_never_inside_a_grapheme() {
        let mut it = composer("a👩‍👩‍👧é中");
        it.move_cursor(Motion::Left);
        it.move_cursor(Motion::Left);
        it.delete(Motion::Left);
        assert_eq!(it.text(), "aé中");
        it.set_cursor(usize::MAX);
        it.delete(Motion::Left);
        assert_eq!(it.text(), "aé");
    }

    #[test]
    fn rows_cover_the_text_and_the_cursor_moves_between_them() {
        let mut it = composer("one two three\n\n中文中文中");
        let rows = it.rows(8);
        let shown: Vec<&str> = rows.iter().map(|row| &it.text()[row.start..row.end]).collect();
        assert_eq!(shown, ["one two ", "three", "", "中文中文", "中"]);
        assert!(it.move_row(false, 8) && it.move_row(false, 8) && it.move_row(false, 8));
        assert_eq!(&it.text()[it.cursor()..=it.cursor()], "r");
        assert!(it.move_row(false, 8) && !it.move_row(false, 8));
        assert!(it.move_row(true, 8));
        assert_eq!(it.row_of_cursor(&it.rows(8)), 1);
    }

    #[test]
    fn mention_is_a_word_starting_with_its_mark() {
        assert_eq!(composer("look at @src/a").mention(), Some((8, "src/a")));
        assert_eq!(composer("me@example").mention(), None);
        assert_eq!(composer("@a b").mention(), None);
        assert_eq!(composer("@\"a b").mention(), Some((0, "a b")));
        assert_eq!(composer("@\"a b\"").mention(), None);
    }
}
