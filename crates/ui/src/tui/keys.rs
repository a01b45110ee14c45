//! Keys and their names, and the map from keys to actions.

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;

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

/// An action's name in the configuration is that of the variant, its description for the user the comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum KeyAction {
    /// send the message; while the agent works, after the current tool
    Send,
    /// a new line in the message (so does `\` at its end and Enter)
    NewLine,
    /// stop the agent; close a list or viewer; twice: an earlier turn
    Escape,
    /// clear the message; stop the agent; twice: quit
    Cancel,
    /// quit if the message is empty; else delete the next character
    EndOfInput,
    /// the whole conversation, everything in full
    Transcript,
    /// the next permission mode
    NextMode,
    /// show or hide the todo list
    ToggleTodos,
    /// write the message in $VISUAL, $EDITOR or vi
    Editor,
    /// search the messages sent before
    SearchHistory,
    /// complete; go to the question that waits; while the agent works: send after this turn
    Complete,
    /// redraw the screen
    Redraw,
    /// suspend the program; `fg` brings it back
    Suspend,
    /// leave; the session goes on in the background (`/detach`)
    Detach,
    /// a line up; on the first line an earlier message
    Up,
    /// a line down; on the last line a later message
    Down,
    /// a character to the left
    Left,
    /// a character to the right
    Right,
    /// a word to the left
    WordLeft,
    /// a word to the right
    WordRight,
    /// to the beginning of the line
    LineStart,
    /// to the end of the line
    LineEnd,
    /// delete the character before
    DeleteBack,
    /// delete the next character
    DeleteForward,
    /// delete the word before
    DeleteWordBack,
    /// delete the next word
    DeleteWordForward,
    /// delete to the beginning of the line
    DeleteToStart,
    /// delete to the end of the line
    DeleteToEnd,
    /// insert the last deleted text
    Yank,
    /// undo
    Undo,
}

impl KeyAction {
    fn default_keys(self) -> impl Iterator<Item = Key> {
        let keys = match self {
            Self::Send => "enter",
            Self::NewLine => "alt-enter shift-enter ctrl-j",
            Self::Escape => "esc",
            Self::Cancel => "ctrl-c",
            Self::EndOfInput => "ctrl-d",
            Self::Transcript => "ctrl-t",
            Self::NextMode => "shift-tab",
            Self::ToggleTodos => "alt-p",
            Self::Editor => "ctrl-g",
            Self::SearchHistory => "ctrl-r",
            Self::Complete => "tab",
            Self::Redraw => "ctrl-l",
            Self::Suspend => "ctrl-z",
            Self::Detach => "ctrl-\\",
            Self::Up => "up ctrl-p",
            Self::Down => "down ctrl-n",
            Self::Left => "left ctrl-b",
            Self::Right => "right ctrl-f",
            Self::WordLeft => "alt-b alt-left ctrl-left",
            Self::WordRight => "alt-f alt-right ctrl-right",
            Self::LineStart => "ctrl-a home",
            Self::LineEnd => "ctrl-e end",
            Self::DeleteBack => "backspace ctrl-h",
            Self::DeleteForward => "delete",
            Self::DeleteWordBack => "ctrl-w alt-backspace ctrl-backspace",
            Self::DeleteWordForward => "alt-d alt-delete ctrl-delete",
            Self::DeleteToStart => "ctrl-u",
            Self::DeleteToEnd => "ctrl-k",
            Self::Yank => "ctrl-y",
            Self::Undo => "ctrl-_ ctrl-x",
        };
        keys.split(' ').filter_map(|key| Key::parse(key).ok())
    }

    fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn description(self) -> String {
        let value = self.to_possible_value();
        value.and_then(|value| Some(value.get_help()?.to_string())).unwrap_or_default()
    }
}

/// The map from keys to actions.
#[derive(Clone, Debug)]
pub struct Keymap(BTreeMap<Key, KeyAction>);

impl Default for Keymap {
    fn default() -> Self {
        let actions = KeyAction::value_variants().iter().copied();
        let keys = |action: KeyAction| action.default_keys().map(move |key| (key, action));
        Self(actions.flat_map(keys).collect())
    }
}

impl Keymap {
    /// Creates the default map, and replaces the keys of the actions in `own`.
    pub fn new(own: &BTreeMap<String, Vec<String>>) -> Result<Self, String> {
        let actions = KeyAction::value_variants();
        let Self(mut map) = Self::default();
        let mut configured = Vec::new();
        for (name, keys) in own {
            let Ok(action) = KeyAction::from_str(name, false) else {
                let names: Vec<String> = actions.iter().map(|action| action.name()).collect();
                let hint = agent_protocol::most_similar(name, names.iter().map(String::as_str))
                    .map_or_else(String::new, |near| format!("; did you mean {near}?"));
                return Err(format!("ui.keys.{name}: there is no such action{hint}"));
            };
            map.retain(|_, bound| *bound != action);
            for key in keys {
                let key = Key::parse(key).map_err(|reason| format!("ui.keys.{name}: {reason}"))?;
                configured.push((key, action));
            }
        }
        // A configured key overrides its default action.
        map.extend(configured);
        Ok(Self(map))
    }

    /// Shift changes nothing where it has no action of its own.
    pub(super) fn action(&self, key: Key) -> Option<KeyAction> {
        let is_char = matches!(key.code, KeyCode::Char(_));
        let without_shift = Key { shift: key.shift && is_char, ..key };
        self.0.get(&key).or_else(|| self.0.get(&without_shift)).copied()
    }

    /// The keys of this action, the default ones first.
    fn keys_of(&self, action: KeyAction) -> Vec<Key> {
        let mut keys: Vec<Key> = action.default_keys().collect();
        keys.retain(|key| self.action(*key) == Some(action));
        for (key, _) in self.0.iter().filter(|(_, of)| **of == action) {
            if !keys.contains(key) {
                keys.push(*key);
            }
        }
        keys
    }

    /// The first key of this action; empty if there is none.
    pub(super) fn key_for(&self, action: KeyAction) -> String {
        self.keys_of(action).first().map_or_else(String::new, |key| key.to_string())
    }

    /// All actions: keys, name, description.
    pub fn rows(&self) -> Vec<(String, String, String)> {
        let rows = KeyAction::value_variants().iter().map(|action| {
            let keys: Vec<String> = self.keys_of(*action).iter().map(Key::to_string).collect();
            (keys.join(", "), action.name(), action.description())
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
        for action in KeyAction::value_variants() {
            for key in action.default_keys() {
                assert_eq!(seen.insert(key, *action), None, "{key} twice");
            }
        }
        assert_eq!(seen.len(), 48);
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
