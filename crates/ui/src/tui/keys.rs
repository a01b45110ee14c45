//! Keys and their names, and the map from keys to actions.

use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) code: KeyCode,
    pub(super) ctrl: bool,
    pub(super) alt: bool,
    /// False if Shift is part of the character.
    pub(super) shift: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum KeyCode {
    Char(char),
    Enter,
    Tab,
    Backspace,
    Esc,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
    PageUp,
    PageDown,
    Delete,
    Insert,
    F(u8),
}

/// The configuration names these keys like the variants, in lower case.
const NAMED_KEYS: [KeyCode; 14] = {
    use KeyCode::{
        Backspace, Delete, Down, End, Enter, Esc, Home, Insert, Left, PageDown, PageUp, Right, Tab,
        Up,
    };
    [Enter, Tab, Backspace, Esc, Left, Right, Up, Down, Home, End, PageUp, PageDown, Delete, Insert]
};

impl Key {
    pub(super) const fn plain(code: KeyCode) -> Self {
        Self { code, ctrl: false, alt: false, shift: false }
    }

    pub(super) const fn ctrl(char: char) -> Self {
        Self { code: KeyCode::Char(char), ctrl: true, alt: false, shift: false }
    }

    pub(super) fn typed_char(self) -> Option<char> {
        match self.code {
            KeyCode::Char(char) if !self.ctrl && !self.alt => Some(char),
            _ => None,
        }
    }

    /// For example `ctrl-t`, `alt-enter`, `f1`, `?`.
    fn parse(text: &str) -> Result<Self, String> {
        let mut key = Self::plain(KeyCode::Esc);
        let mut rest = text.trim();
        loop {
            let lower = rest.to_lowercase();
            let (held, length) = match lower.as_str() {
                word if word.starts_with("ctrl-") && word.len() > 5 => (&mut key.ctrl, 5),
                word if word.starts_with("alt-") && word.len() > 4 => (&mut key.alt, 4),
                word if word.starts_with("shift-") && word.len() > 6 => (&mut key.shift, 6),
                _ => break,
            };
            *held = true;
            rest = &rest[length..];
        }
        let mut chars = rest.chars();
        key.code = match (chars.next(), chars.next()) {
            (Some(char), None) if key.ctrl => KeyCode::Char(char.to_ascii_lowercase()),
            (Some(char), None) => KeyCode::Char(char),
            _ => {
                let lower = rest.to_lowercase();
                let function = lower.strip_prefix('f').and_then(|n| n.parse::<u8>().ok());
                let function = function.filter(|n| (1..=35).contains(n)).map(KeyCode::F);
                let space = (lower == "space").then_some(KeyCode::Char(' '));
                let named =
                    NAMED_KEYS.iter().find(|code| format!("{code:?}").to_lowercase() == lower);
                named.copied().or(function).or(space).ok_or_else(|| {
                    format!("{text:?} is not a key; write it like ctrl-t, alt-enter, f1 or ?")
                })?
            }
        };
        Ok(key)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (held, name) in [(self.ctrl, "Ctrl-"), (self.alt, "Alt-"), (self.shift, "Shift-")] {
            if held {
                f.write_str(name)?;
            }
        }
        match self.code {
            KeyCode::Char(' ') => f.write_str("Space"),
            KeyCode::Char(char) if self.ctrl || self.alt => write!(f, "{}", char.to_uppercase()),
            KeyCode::Char(char) => write!(f, "{char}"),
            KeyCode::F(n) => write!(f, "F{n}"),
            code => write!(f, "{code:?}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyAction {
    Send,
    NewLine,
    Escape,
    Cancel,
    EndOfInput,
    Transcript,
    NextMode,
    Editor,
    SearchHistory,
    Redraw,
    Suspend,
    Detach,
    ToggleTodos,
    Complete,
    Up,
    Down,
    Left,
    Right,
    WordLeft,
    WordRight,
    LineStart,
    LineEnd,
    DeleteBack,
    DeleteForward,
    DeleteWordBack,
    DeleteWordForward,
    DeleteToStart,
    DeleteToEnd,
    Yank,
    Undo,
    Redo,
}

struct Binding {
    action: KeyAction,
    /// The name in the configuration.
    name: &'static str,
    keys: &'static [&'static str],
    description: &'static str,
}

const fn binding(
    action: KeyAction,
    name: &'static str,
    keys: &'static [&'static str],
    description: &'static str,
) -> Binding {
    Binding { action, name, keys, description }
}

/// All actions with their default keys and descriptions.
const BINDINGS: &[Binding] = {
    use KeyAction::{
        Cancel, Complete, DeleteBack, DeleteForward, DeleteToEnd, DeleteToStart, DeleteWordBack,
        DeleteWordForward, Detach, Down, Editor, EndOfInput, Escape, Left, LineEnd, LineStart,
        NewLine, NextMode, Redo, Redraw, Right, SearchHistory, Send, Suspend, ToggleTodos,
        Transcript, Undo, Up, WordLeft, WordRight, Yank,
    };
    &[
        binding(
            Send,
            "send",
            &["enter"],
            "send the message; while the agent works, after the current tool",
        ),
        binding(
            NewLine,
            "new-line",
            &["alt-enter", "shift-enter", "ctrl-j"],
            "a new line in the message (so does `\\` at its end and Enter)",
        ),
        binding(
            Escape,
            "escape",
            &["esc"],
            "stop the agent; close a list or viewer; twice: an earlier turn",
        ),
        binding(Cancel, "cancel", &["ctrl-c"], "clear the message; stop the agent; twice: quit"),
        binding(
            EndOfInput,
            "end-of-input",
            &["ctrl-d"],
            "quit if the message is empty; else delete the next character",
        ),
        binding(
            Transcript,
            "transcript",
            &["ctrl-t"],
            "the whole conversation, everything in full",
        ),
        binding(NextMode, "next-mode", &["shift-tab"], "the next permission mode"),
        binding(ToggleTodos, "toggle-todos", &["alt-p"], "show or hide the todo list"),
        binding(Editor, "editor", &["ctrl-g"], "write the message in $VISUAL, $EDITOR or vi"),
        binding(SearchHistory, "search-history", &["ctrl-r"], "search the messages sent before"),
        binding(
            Complete,
            "complete",
            &["tab"],
            "complete; go to the question that waits; while the agent works: send after this turn",
        ),
        binding(Redraw, "redraw", &["ctrl-l"], "redraw the screen"),
        binding(Suspend, "suspend", &["ctrl-z"], "suspend the program; `fg` brings it back"),
        binding(
            Detach,
            "detach",
            &["ctrl-\\"],
            "leave; the session goes on in the background (`/detach`)",
        ),
        binding(Up, "up", &["up", "ctrl-p"], "a line up; on the first line an earlier message"),
        binding(Down, "down", &["down", "ctrl-n"], "a line down; on the last line a later message"),
        binding(Left, "left", &["left", "ctrl-b"], "a character to the left"),
        binding(Right, "right", &["right", "ctrl-f"], "a character to the right"),
        binding(WordLeft, "word-left", &["alt-b", "alt-left", "ctrl-left"], "a word to the left"),
        binding(
            WordRight,
            "word-right",
            &["alt-f", "alt-right", "ctrl-right"],
            "a word to the right",
        ),
        binding(LineStart, "line-start", &["ctrl-a", "home"], "to the beginning of the line"),
        binding(LineEnd, "line-end", &["ctrl-e", "end"], "to the end of the line"),
        binding(DeleteBack, "delete-back", &["backspace", "ctrl-h"], "delete the character before"),
        binding(DeleteForward, "delete-forward", &["delete"], "delete the next character"),
        binding(
            DeleteWordBack,
            "delete-word-back",
            &["ctrl-w", "alt-backspace", "ctrl-backspace"],
            "delete the word before",
        ),
        binding(
            DeleteWordForward,
            "delete-word-forward",
            &["alt-d", "alt-delete", "ctrl-delete"],
            "delete the next word",
        ),
        binding(
            DeleteToStart,
            "delete-to-start",
            &["ctrl-u"],
            "delete to the beginning of the line",
        ),
        binding(DeleteToEnd, "delete-to-end", &["ctrl-k"], "delete to the end of the line"),
        binding(Yank, "yank", &["ctrl-y"], "insert the last deleted text"),
        binding(Undo, "undo", &["ctrl-_", "ctrl-x"], "undo"),
        binding(Redo, "redo", &["alt-_", "alt-x"], "undo the undo"),
    ]
};

/// The map from keys to actions.
#[derive(Clone, Debug)]
pub struct Keymap(BTreeMap<Key, KeyAction>);

impl Binding {
    fn default_keys(&self) -> impl Iterator<Item = Key> {
        self.keys.iter().filter_map(|key| Key::parse(key).ok())
    }
}

impl Default for Keymap {
    fn default() -> Self {
        let keys =
            |binding: &'static Binding| binding.default_keys().map(|key| (key, binding.action));
        Self(BINDINGS.iter().flat_map(keys).collect())
    }
}

impl Keymap {
    /// Creates the default map, and replaces the keys of the actions in `own`.
    pub fn new(own: &BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        for (name, keys) in own {
            if !BINDINGS.iter().any(|binding| binding.name == name) {
                let names = BINDINGS.iter().map(|binding| binding.name);
                let hint = agent_protocol::most_similar(name, names)
                    .map_or_else(String::new, |near| format!("; did you mean {near}?"));
                return Err(format!("ui.keys.{name}: there is no such action{hint}"));
            }
            for key in keys {
                Key::parse(key).map_err(|reason| format!("ui.keys.{name}: {reason}"))?;
            }
        }
        let Self(mut map) = Self::default();
        for binding in BINDINGS.iter().filter(|binding| own.contains_key(binding.name)) {
            map.retain(|_, action| *action != binding.action);
        }
        // A configured key overrides its default action.
        map.extend(BINDINGS.iter().flat_map(|binding| {
            let keys = own.get(binding.name).into_iter().flatten();
            keys.filter_map(|key| Some((Key::parse(key).ok()?, binding.action)))
        }));
        Ok(Self(map))
    }

    /// Shift changes nothing where it has no action of its own.
    pub(super) fn action(&self, key: Key) -> Option<KeyAction> {
        let is_char = matches!(key.code, KeyCode::Char(_));
        let without_shift = Key { shift: key.shift && is_char, ..key };
        self.0.get(&key).or_else(|| self.0.get(&without_shift)).copied()
    }

    /// The first key of this action; empty if there is none.
    pub(super) fn key_for(&self, action: KeyAction) -> String {
        let binding = BINDINGS.iter().find(|binding| binding.action == action);
        let default = binding
            .and_then(|binding| binding.default_keys().next())
            .filter(|key| self.action(*key) == Some(action));
        let any = || self.0.iter().find(|(_, of)| **of == action).map(|(key, _)| *key);
        default.or_else(any).map_or_else(String::new, |key| key.to_string())
    }

    /// All actions with their keys and descriptions.
    pub fn rows(&self) -> Vec<(String, &'static str, &'static str)> {
        let rows = BINDINGS.iter().map(|binding| {
            let mut keys: Vec<Key> = binding.default_keys().collect();
            keys.retain(|key| self.action(*key) == Some(binding.action));
            let more = self.0.iter().filter(|(_, action)| **action == binding.action);
            for (key, _) in more {
                if !keys.contains(key) {
                    keys.push(*key);
                }
            }
            let keys: Vec<String> = keys.iter().map(Key::to_string).collect();
            (keys.join(", "), binding.name, binding.description)
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_names_round_trip() {
        for (text, shown) in [
            ("ctrl-t", "Ctrl-T"),
            ("Alt-Enter", "Alt-Enter"),
            ("f5", "F5"),
            ("?", "?"),
            ("ctrl-_", "Ctrl-_"),
            ("-", "-"),
            ("shift-tab", "Shift-Tab"),
        ] {
            assert_eq!(Key::parse(text).map(|key| key.to_string()), Ok(shown.to_owned()), "{text}");
        }
        assert!(Key::parse("hyper-x").is_err());
    }

    #[test]
    fn default_keys_parse_and_are_unique() {
        let mut seen = BTreeMap::new();
        for binding in BINDINGS {
            for key in binding.keys {
                let parsed = Key::parse(key);
                assert!(parsed.is_ok(), "{key}");
                assert_eq!(seen.insert(parsed.ok(), binding.name), None, "{key} twice");
            }
        }
    }

    #[test]
    fn configured_keys_replace_the_defaults_of_an_action() {
        let own = BTreeMap::from([("transcript".to_owned(), vec!["f2".to_owned()])]);
        let map = Keymap::new(&own).expect("a map");
        assert_eq!(map.action(Key::plain(KeyCode::F(2))), Some(KeyAction::Transcript));
        assert_eq!(map.action(Key::ctrl('t')), None);
        let wrong = BTreeMap::from([("transcripts".to_owned(), vec![])]);
        assert!(
            Keymap::new(&wrong).is_err_and(|reason| reason.contains("did you mean transcript?"))
        );
    }
}
