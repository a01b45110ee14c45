//! Recognizes a paste of several lines in a terminal without bracketed paste: its text arrives
//! faster than anybody types, and its line breaks are no Enter.

use std::time::Duration;

use super::{TerminalInput, paste_input};
use crate::tui::keys::{Key, KeyCode};

/// The end of a line may be the end of a message, or that of a pasted line.
const LINE_TIMEOUT: Duration = Duration::from_millis(25);
/// The parts of a paste of several lines may arrive with such pauses.
const PASTE_TIMEOUT: Duration = Duration::from_millis(100);

const LINE_BREAKS: [char; 2] = ['\r', '\n'];

#[derive(Debug, Default)]
pub(super) struct Burst {
    /// Text with a line break.
    held: Vec<Key>,
    held_text: String,
    /// Several keys arrived at once, and no pause since.
    is_open: bool,
    /// The text before the held line break was passed on.
    follows_text: bool,
    is_paste: bool,
}

impl Burst {
    pub(super) fn group(&mut self, inputs: Vec<TerminalInput>) -> Vec<TerminalInput> {
        self.is_open |= inputs.iter().filter_map(text_key).count() > 1;
        if !self.is_open {
            return inputs;
        }
        let mut grouped = Vec::new();
        for input in inputs {
            if let Some((key, char)) = text_key(&input) {
                self.held.push(key);
                self.held_text.push(char);
            } else {
                grouped.append(&mut self.release());
                self.follows_text = false;
                grouped.push(input);
            }
        }
        if !self.is_paste && !self.held_text.contains(LINE_BREAKS) {
            self.follows_text |= !self.held.is_empty();
            grouped.append(&mut self.release());
        }
        self.is_paste = self.is_paste || self.is_held_paste();
        grouped
    }

    /// Call this after a pause of [`Self::patience`].
    pub(super) fn close(&mut self) -> Vec<TerminalInput> {
        let inputs = self.release();
        *self = Self::default();
        inputs
    }

    /// `None` if there is no burst.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.is_open.then_some(if self.is_paste { PASTE_TIMEOUT } else { LINE_TIMEOUT })
    }

    fn release(&mut self) -> Vec<TerminalInput> {
        let is_paste = std::mem::take(&mut self.is_paste) || self.is_held_paste();
        let keys = std::mem::take(&mut self.held);
        let text = std::mem::take(&mut self.held_text);
        if is_paste {
            return vec![paste_input(&text)];
        }
        keys.into_iter().map(TerminalInput::Key).collect()
    }

    /// Text precedes a line break, and follows it.
    fn is_held_paste(&self) -> bool {
        let text = self.held_text.trim_end_matches(LINE_BREAKS);
        let text = if self.follows_text { text } else { text.trim_start_matches(LINE_BREAKS) };
        text.contains(LINE_BREAKS)
    }
}

/// The key and its character, if a paste may contain it.
fn text_key(input: &TerminalInput) -> Option<(Key, char)> {
    let TerminalInput::Key(key) = *input else { return None };
    let char = match key.code {
        KeyCode::Enter if key == Key::plain(key.code) => '\r',
        KeyCode::Tab if key == Key::plain(key.code) => '\t',
        _ if key == Key::ctrl('j') => '\n',
        _ => key.typed_char()?,
    };
    Some((key, char))
}
