//! Decodes the terminal's input: keys, pastes, focus changes, and responses to queries.
//!
//! Terminals respond late, split sequences, and deviate from standards; unknown sequences are
//! dropped completely, so that they never become text in a message.

use super::keys::{Key, KeyCode};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TerminalInput {
    Key(Key),
    Paste(String),
    Focus(bool),
    LightBackground(bool),
    TerminalName(String),
}

#[derive(Debug, Default)]
pub(super) struct Decoder {
    buffer: Vec<u8>,
    /// The text so far, inside a bracketed paste.
    paste: Option<Vec<u8>>,
}

const PASTE_END: &[u8] = b"\x1b[201~";
/// In bytes.
const MAX_SEQUENCE: usize = 4096;

/// The number of decoded bytes, and their input; `None` if they are incomplete.
type DecodeStep = Option<(usize, Option<TerminalInput>)>;

impl Decoder {
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<TerminalInput> {
        self.buffer.extend_from_slice(bytes);
        self.decode_buffer(false)
    }

    /// Incomplete sequences count as complete: call this after a pause of the input.
    pub(super) fn flush(&mut self) -> Vec<TerminalInput> {
        self.decode_buffer(true)
    }

    pub(super) fn has_incomplete_sequence(&self) -> bool {
        !self.buffer.is_empty() && self.paste.is_none()
    }

    fn decode_buffer(&mut self, is_all: bool) -> Vec<TerminalInput> {
        let mut found = Vec::new();
        loop {
            if self.paste.is_some() {
                match self.take_paste() {
                    Some(paste) => found.push(paste),
                    None => return found,
                }
            }
            if self.buffer.is_empty() {
                return found;
            }
            match decode_next(&self.buffer, is_all) {
                Some((n, typed)) => {
                    let is_paste = self.buffer[..n] == *b"\x1b[200~";
                    self.buffer.drain(..n);
                    found.extend(typed);
                    if is_paste {
                        self.paste = Some(Vec::new());
                    }
                }
                // The sequence was never completed.
                None if is_all => self.buffer.clear(),
                None => return found,
            }
        }
    }

    /// Returns the paste at its end.
    fn take_paste(&mut self) -> Option<TerminalInput> {
        let paste = self.paste.as_mut()?;
        let from = paste.len().saturating_sub(PASTE_END.len());
        paste.append(&mut self.buffer);
        let end = paste[from..].windows(PASTE_END.len()).position(|part| part == PASTE_END)?;
        let mut paste = self.paste.take()?;
        self.buffer = paste.split_off(from + end + PASTE_END.len());
        paste.truncate(from + end);
        // Terminals send line breaks of a paste as the key Enter.
        let text = String::from_utf8_lossy(&paste).replace("\r\n", "\n").replace('\r', "\n");
        Some(TerminalInput::Paste(text))
    }
}

fn decode_next(bytes: &[u8], is_all: bool) -> DecodeStep {
    match bytes {
        [0x1b] if is_all => Some((1, key_input(Key::plain(KeyCode::Esc)))),
        [0x1b] => None,
        [0x1b, b'[', rest @ ..] => decode_csi(rest, is_all),
        [0x1b, b'O', rest @ ..] => decode_ss3(rest, is_all),
        [0x1b, kind @ (b']' | b'P' | b'_' | b'^' | b'X'), rest @ ..] => {
            // Alt with this character, or the start of a string sequence.
            match rest {
                [] if is_all => decode_alt_key(&bytes[1..], is_all),
                [] => None,
                rest => decode_string_sequence(*kind, rest),
            }
        }
        [0x1b, 0x1b, ..] => Some((1, key_input(Key::plain(KeyCode::Esc)))),
        [0x1b, rest @ ..] => decode_alt_key(rest, is_all),
        _ => decode_char(bytes, is_all),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "it stands where bytes may also be no key")]
fn key_input(key: Key) -> Option<TerminalInput> {
    Some(TerminalInput::Key(key))
}

/// An escape before a key means Alt.
fn decode_alt_key(rest: &[u8], is_all: bool) -> DecodeStep {
    let (n, typed) = decode_char(rest, is_all)?;
    let with_alt = |typed| match typed {
        TerminalInput::Key(key) => TerminalInput::Key(Key { alt: true, ..key }),
        other => other,
    };
    Some((n + 1, typed.map(with_alt)))
}

fn decode_char(bytes: &[u8], is_all: bool) -> DecodeStep {
    let first = *bytes.first()?;
    let code = match first {
        b'\r' => Key::plain(KeyCode::Enter),
        b'\t' => Key::plain(KeyCode::Tab),
        0x7f => Key::plain(KeyCode::Backspace),
        0 => Key::ctrl(' '),
        0x1c..=0x1f => Key::ctrl(char::from(first - 0x1c + b'\\')),
        1..=0x1a => Key::ctrl(char::from(first - 1 + b'a')),
        0x20..=0x7e => Key::plain(KeyCode::Char(char::from(first))),
        _ => return decode_multibyte_char(bytes, is_all),
    };
    Some((1, key_input(code)))
}

fn decode_multibyte_char(bytes: &[u8], is_all: bool) -> DecodeStep {
    let length = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        // Invalid UTF-8 is dropped.
        _ => return Some((1, None)),
    };
    let there = &bytes[..bytes.len().min(length)];
    match std::str::from_utf8(there) {
        Ok(text) => {
            let key = text.chars().next().map(|char| Key::plain(KeyCode::Char(char)));
            Some((length, key.map(TerminalInput::Key)))
        }
        Err(error) if error.error_len().is_none() && !is_all => None,
        Err(_) => Some((1, None)),
    }
}

/// `ESC [ parameters final`
fn decode_csi(rest: &[u8], is_all: bool) -> DecodeStep {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        if rest.is_empty() && is_all {
            let key = Key { alt: true, ..Key::plain(KeyCode::Char('[')) };
            return Some((2, key_input(key)));
        }
        return (rest.len() > MAX_SEQUENCE).then(|| (rest.len() + 2, None));
    };
    // The Linux console sends ESC [ [ A for F1.
    if rest[0] == b'[' {
        let letter = *rest.get(1)?;
        let typed = (b'A'..=b'E').contains(&letter).then(|| KeyCode::F(letter - b'A' + 1));
        return Some((4, typed.map(|code| TerminalInput::Key(Key::plain(code)))));
    }
    let took = end + 3;
    let text = std::str::from_utf8(&rest[..end]).unwrap_or_default();
    let numbers: Vec<u32> = text
        .split(';')
        .map(|part| part.split(':').next().and_then(|n| n.parse().ok()).unwrap_or(0))
        .collect();
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
    let with_modifiers = |code: KeyCode| {
        let bits = number(1).saturating_sub(1);
        key_input(Key { code, shift: bits & 1 != 0, alt: bits & 2 != 0, ctrl: bits & 4 != 0 })
    };
    let typed = match rest[end] {
        b'Z' => key_input(Key { shift: true, ..Key::plain(KeyCode::Tab) }),
        b'I' if text.is_empty() => Some(TerminalInput::Focus(true)),
        b'O' if text.is_empty() => Some(TerminalInput::Focus(false)),
        b'~' => numbered_key(number(0), number(2)).and_then(with_modifiers),
        b'u' if !text.starts_with('?') => key_code(number(0)).and_then(with_modifiers),
        letter => lettered_key(letter).and_then(with_modifiers),
    };
    Some((took, typed.map(normalize_key)))
}

/// The key with this letter in a CSI or SS3 sequence. (In CSI, `R` is a response: it is not F3.)
fn lettered_key(letter: u8) -> Option<KeyCode> {
    Some(match letter {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'P' | b'Q' | b'S' => KeyCode::F(letter - b'P' + 1),
        _ => return None,
    })
}

/// `ESC [ number ~`; number 27 is followed by the code of a character.
fn numbered_key(number: u32, character: u32) -> Option<KeyCode> {
    let function = |n: u32| u8::try_from(n).ok().map(KeyCode::F);
    match number {
        1 | 7 => Some(KeyCode::Home),
        2 => Some(KeyCode::Insert),
        3 => Some(KeyCode::Delete),
        4 | 8 => Some(KeyCode::End),
        5 => Some(KeyCode::PageUp),
        6 => Some(KeyCode::PageDown),
        11..=15 => function(number - 10),
        17..=21 => function(number - 11),
        23..=24 => function(number - 12),
        27 => key_code(character),
        _ => None,
    }
}

/// Terminals encode Ctrl with a letter in several ways.
fn normalize_key(typed: TerminalInput) -> TerminalInput {
    match typed {
        TerminalInput::Key(Key { code: KeyCode::Char(char), ctrl, alt, shift }) => {
            let shifted = shift && !ctrl && char.is_ascii_lowercase();
            let char = if shifted { char.to_ascii_uppercase() } else { char };
            TerminalInput::Key(Key { code: KeyCode::Char(char), ctrl, alt, shift: shift && ctrl })
        }
        other => other,
    }
}

fn key_code(number: u32) -> Option<KeyCode> {
    Some(match number {
        13 => KeyCode::Enter,
        9 => KeyCode::Tab,
        27 => KeyCode::Esc,
        127 | 8 => KeyCode::Backspace,
        _ => KeyCode::Char(char::from_u32(number).filter(|char| !char.is_control())?),
    })
}

/// `ESC O letter`
fn decode_ss3(rest: &[u8], is_all: bool) -> DecodeStep {
    let Some(&letter) = rest.first() else {
        let alone = key_input(Key { alt: true, ..Key::plain(KeyCode::Char('O')) });
        return is_all.then_some((2, alone));
    };
    let code = match letter {
        b'M' => Some(KeyCode::Enter),
        b'R' => Some(KeyCode::F(3)),
        _ => lettered_key(letter),
    };
    Some((3, code.map(Key::plain).map(TerminalInput::Key)))
}

/// BEL or ST ends the sequence.
fn decode_string_sequence(kind: u8, rest: &[u8]) -> DecodeStep {
    let end = rest.iter().enumerate().find_map(|(at, byte)| match byte {
        0x07 => Some((at, at + 1)),
        0x1b if rest.get(at + 1) == Some(&b'\\') => Some((at, at + 2)),
        _ => None,
    });
    let Some((end, after)) = end else {
        return (rest.len() > MAX_SEQUENCE).then(|| (rest.len() + 2, None));
    };
    let text = String::from_utf8_lossy(&rest[..end]);
    let typed = match kind {
        b']' => text.strip_prefix("11;").and_then(is_light).map(TerminalInput::LightBackground),
        b'P' => text.strip_prefix(">|").map(|name| TerminalInput::TerminalName(name.to_owned())),
        _ => None,
    };
    Some((after + 2, typed))
}

/// For example `rgb:1e1e/1e1e/2e2e`.
fn is_light(color: &str) -> Option<bool> {
    let parts: Vec<f32> = color
        .strip_prefix("rgb:")?
        .split('/')
        .filter_map(|part| {
            let value = u16::from_str_radix(part, 16).ok()?;
            let max = (1_u32 << (4 * part.len())) - 1;
            #[expect(clippy::cast_precision_loss, reason = "of at most 16 bits")]
            let max = max as f32;
            Some(f32::from(value) / max)
        })
        .collect();
    let [red, green, blue] = parts[..] else { return None };
    Some(0.299 * red + 0.587 * green + 0.114 * blue > 0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> String {
        let mut decoder = Decoder::default();
        let mut typed = decoder.feed(bytes);
        typed.extend(decoder.flush());
        let shown = typed.iter().map(|typed| match typed {
            TerminalInput::Key(key) => key.to_string(),
            other => format!("{other:?}"),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn bytes_are_decoded_to_keys() {
        for (bytes, expected) in [
            (&b"a\xc3\xa9\xe4\xb8\xad"[..], "a é 中"),
            (b"\x1b", "Esc"),
            (b"\x1b\x1b[A", "Esc Up"),
            (b"\x1ba", "Alt-A"),
            (b"\x1b\r", "Alt-Enter"),
            (b"\x03\x1f\x00", "Ctrl-C Ctrl-_ Ctrl-Space"),
            (b"\x1b[1;5C\x1b[3~\x1bOP\x1b[Z", "Ctrl-Right Delete F1 Shift-Tab"),
            (b"\x1b[13;2u\x1b[99;5u\x1b[27;5;13~", "Shift-Enter Ctrl-C Ctrl-Enter"),
            (b"\x1b[I\x1b[O", "Focus(true) Focus(false)"),
            (b"\x1b[200~a\rb\x1b[201~c", "Paste(\"a\\nb\") c"),
            (b"\x1b]11;rgb:ffff/ffff/ffff\x07x", "LightBackground(true) x"),
            (b"\x1b]11;rgb:10/10/10\x1b\\", "LightBackground(false)"),
            (b"\x1bP>|XTerm(388)\x1b\\", "TerminalName(\"XTerm(388)\")"),
            (b"\x1b[?62;4c\x1b[?1u", ""),
            (b"\xff\xfeok", "o k"),
            (b"\x1b[<35;1;2M", ""),
        ] {
            assert_eq!(keys(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn key_decoding_does_not_depend_on_how_bytes_are_split() {
        let bytes = "é\x1b[1;5Cx\x1b[200~one\x1b[Atwo\x1b[201~\x1b]11;rgb:00/00/00\x1b\\中";
        let whole = Decoder::default().feed(bytes.as_bytes());
        for n in 1..7 {
            let mut decoder = Decoder::default();
            let parts = bytes.as_bytes().chunks(n).flat_map(|part| decoder.feed(part));
            assert_eq!(parts.collect::<Vec<_>>(), whole, "parts of {n}");
        }
    }
}
