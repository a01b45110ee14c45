//! Decodes the terminal's input: keys, pastes, focus changes, and responses to queries.
//!
//! Terminals respond late, split sequences, and deviate from standards; unknown sequences are
//! dropped completely, so that they never become text in a message.

use std::time::{Duration, Instant};

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
    /// The start of a sequence that counted as a key, since nothing followed it in time.
    cut_sequence: Option<(Vec<u8>, Instant)>,
    /// The buffer begins with such a sequence.
    is_late: bool,
    /// The buffer is text that arrived faster than anybody types.
    is_burst: bool,
}

const PASTE_END: &[u8] = b"\x1b[201~";
/// In bytes.
const MAX_SEQUENCE: usize = 4096;
/// An escape may be the start of a sequence for this time.
const ESCAPE_TIMEOUT: Duration = Duration::from_millis(25);
/// The parts of a sequence, in particular of a response, may arrive with such pauses.
const SEQUENCE_TIMEOUT: Duration = Duration::from_secs(1);
/// More bytes at once were not typed, however late they arrive.
const MAX_TYPED: usize = 64;
/// The parts of lines that are pasted without brackets may arrive with such pauses.
const PASTE_TIMEOUT: Duration = Duration::from_millis(100);

/// The number of decoded bytes, and their input; `None` if they are incomplete.
type DecodeStep = Option<(usize, Option<TerminalInput>)>;

impl Decoder {
    pub(super) fn feed(&mut self, bytes: &[u8], at: Instant) -> Vec<TerminalInput> {
        if let Some((start, cut_at)) = self.cut_sequence.take()
            && at.duration_since(cut_at) <= SEQUENCE_TIMEOUT
            && is_continued_sequence(&[&start, bytes].concat())
        {
            self.buffer = start;
            self.is_late = true;
        }
        let is_text = bytes.iter().all(|byte| !byte.is_ascii_control() || b"\r\n\t".contains(byte));
        let is_typed = bytes.len() == 1 && !has_lines(&self.buffer);
        let mut inputs = if is_text && !is_typed { Vec::new() } else { self.end_burst() };
        let is_fast = bytes.len() > MAX_TYPED
            || bytes.len() > 1 && bytes.iter().any(|byte| b"\r\n".contains(byte));
        let starts_burst = self.buffer.is_empty() && self.paste.is_none() && is_fast;
        self.is_burst = is_text && (self.is_burst || starts_burst);
        self.buffer.extend_from_slice(bytes);
        if !self.is_burst {
            inputs.extend(self.decode_buffer(false));
        }
        inputs
    }

    /// What waits for more input is complete: call this after a pause of [`Self::patience`].
    pub(super) fn flush(&mut self, at: Instant) -> Vec<TerminalInput> {
        if self.is_burst {
            return self.end_burst();
        }
        if self.may_be_key() {
            self.cut_sequence = Some((self.buffer.clone(), at));
        }
        self.decode_buffer(true)
    }

    /// `None` if nothing waits for more input.
    pub(super) fn patience(&self) -> Option<Duration> {
        let is_waiting = !self.buffer.is_empty() && self.paste.is_none();
        is_waiting.then_some(if self.is_burst && has_lines(&self.buffer) {
            PASTE_TIMEOUT
        } else if self.is_burst || self.may_be_key() {
            ESCAPE_TIMEOUT
        } else {
            SEQUENCE_TIMEOUT
        })
    }

    /// Lines that arrive at once are a paste in a terminal without bracketed paste: their ends are
    /// no Enter.
    fn end_burst(&mut self) -> Vec<TerminalInput> {
        let is_paste = has_lines(&self.buffer) || self.buffer.len() > MAX_SEQUENCE;
        if std::mem::take(&mut self.is_burst) && is_paste {
            return vec![paste_input(&std::mem::take(&mut self.buffer))];
        }
        self.decode_buffer(false)
    }

    /// Longer sequences are not sent by a key with Alt.
    fn may_be_key(&self) -> bool {
        matches!(self.buffer[..], [0x1b] | [0x1b, _])
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
                    // The escape was a key already.
                    let is_late = std::mem::take(&mut self.is_late);
                    let is_key = matches!(typed, Some(TerminalInput::Key(_)));
                    found.extend(typed.filter(|_| !(is_late && is_key)));
                    if is_paste {
                        self.paste = Some(Vec::new());
                    }
                }
                // The sequence was never completed.
                None if is_all => {
                    self.buffer.clear();
                    self.is_late = false;
                }
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
        Some(paste_input(&paste))
    }
}

/// Terminals send line breaks of a paste as the key Enter.
fn paste_input(text: &[u8]) -> TerminalInput {
    let text = String::from_utf8_lossy(text);
    TerminalInput::Paste(text.replace("\r\n", "\n").replace('\r', "\n"))
}

/// Text precedes a line break, and follows it.
fn has_lines(text: &[u8]) -> bool {
    text.trim_ascii().iter().any(|byte| b"\r\n".contains(byte))
}

/// Whether these bytes, of which the first counted as a key, are a sequence rather than text that
/// was typed after that key.
fn is_continued_sequence(bytes: &[u8]) -> bool {
    match bytes {
        [_, b'[', b'A'..=b'Z']
        | [_, b'[', b'0'..=b'?', ..]
        | [_, b']' | b'P', b'!' | b'0'..=b'9' | b'>', ..] => true,
        [_, b'O', letter] => lettered_key(*letter).is_some(),
        _ => false,
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
    let Some(end) = rest.iter().position(|byte| !(0x20..=0x3f).contains(byte)) else {
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
    // Another sequence begins before the end of this one.
    if !(0x40..=0x7e).contains(&rest[end]) {
        return Some((end + 2, None));
    }
    let text = std::str::from_utf8(&rest[..end]).unwrap_or_default();
    let typed = match rest[end] {
        // A response.
        _ if text.starts_with(['<', '=', '>', '?']) => None,
        b'I' if text.is_empty() => Some(TerminalInput::Focus(true)),
        b'O' if text.is_empty() => Some(TerminalInput::Focus(false)),
        last => decode_key_sequence(text, last).map(TerminalInput::Key),
    };
    Some((end + 3, typed))
}

/// `number:shifted:base;modifiers:event;character`, of which every part may be missing.
fn decode_key_sequence(text: &str, last: u8) -> Option<Key> {
    let mut fields = [[0_u32; 3]; 3];
    for (field, numbers) in fields.iter_mut().zip(text.split(';')) {
        for (number, digits) in field.iter_mut().zip(numbers.split(':')) {
            *number = digits.parse().unwrap_or(0);
        }
    }
    let [[number, shifted, base], [modifiers, event, _], [character, ..]] = fields;
    let held = modifiers.saturating_sub(1);
    let [mut shift, alt, mut ctrl] = [1, 2, 4].map(|bit| held & bit != 0);
    // With Super, Hyper or Meta a key is the desktop's; the third event is the release of a key.
    if held & 0b11_1000 != 0 || event == 3 {
        return None;
    }
    let is_letter = |number| char::from_u32(number).is_some_and(char::is_alphabetic);
    let code = match last {
        b'Z' => {
            shift = true;
            KeyCode::Tab
        }
        b'~' => numbered_key(number, character)?,
        // On a layout without Latin letters, shortcuts are those of the key's place.
        b'u' if (alt || ctrl) && number > 127 && base < 128 && is_letter(base) => key_code(base)?,
        // Ctrl-I, Ctrl-M and Ctrl-[, as without the kitty protocol.
        b'u' if ctrl && !shift && matches!(number, 0x5b | 0x69 | 0x6d) => {
            ctrl = false;
            key_code(number & 0x1f)?
        }
        b'u' if shift && shifted != 0 && !(ctrl && is_letter(number)) => {
            shift = false;
            key_code(shifted)?
        }
        b'u' => key_code(number)?,
        letter => lettered_key(letter)?,
    };
    Some(normalize_key(Key { code, ctrl, alt, shift }))
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
        23..=26 => function(number - 12),
        28..=29 => function(number - 13),
        31..=34 => function(number - 14),
        27 => key_code(character),
        _ => None,
    }
}

/// Terminals encode Ctrl or Shift with a character in several ways.
fn normalize_key(key: Key) -> Key {
    let code = match key.code {
        KeyCode::Char(char) if key.ctrl => KeyCode::Char(char.to_ascii_lowercase()),
        KeyCode::Char(char) if key.shift => KeyCode::Char(char.to_ascii_uppercase()),
        code => code,
    };
    Key { code, shift: key.shift && (key.ctrl || !matches!(code, KeyCode::Char(_))), ..key }
}

fn key_code(number: u32) -> Option<KeyCode> {
    use KeyCode::{Delete, Down, End, Home, Insert, Left, PageDown, PageUp, Right, Up};
    Some(match number {
        13 => KeyCode::Enter,
        9 => KeyCode::Tab,
        27 => KeyCode::Esc,
        127 | 8 => KeyCode::Backspace,
        // The private characters are keys of the kitty protocol: here the keypad.
        57399..=57416 => {
            let typed = b"0123456789./*-+\r=,"[(number - 57399) as usize];
            return key_code(typed.into());
        }
        57417..=57426 => {
            let keys = [Left, Right, Up, Down, PageUp, PageDown, Home, End, Insert, Delete];
            keys[(number - 57417) as usize]
        }
        57376..=57398 => KeyCode::F(u8::try_from(number - 57376).ok()? + 13),
        // Keys for media, locks and modifiers.
        0xe000..=0xf8ff => return None,
        _ => KeyCode::Char(char::from_u32(number).filter(|char| !char.is_control())?),
    })
}

/// `ESC O letter`; old terminals put the modifiers before the letter.
fn decode_ss3(rest: &[u8], is_all: bool) -> DecodeStep {
    let n_digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let Some(&letter) = rest.get(n_digits) else {
        let alone = key_input(Key { alt: true, ..Key::plain(KeyCode::Char('O')) });
        return (is_all && rest.is_empty()).then_some((2, alone));
    };
    let key = match letter {
        b'M' => Some(Key::plain(KeyCode::Enter)),
        b'R' => Some(Key::plain(KeyCode::F(3))),
        // The keypad.
        b'j'..=b'y' => Some(Key::plain(KeyCode::Char(char::from(letter - 0x40)))),
        _ => {
            let modifiers = String::from_utf8_lossy(&rest[..n_digits]);
            decode_key_sequence(&format!("1;{modifiers}"), letter)
        }
    };
    Some((3 + n_digits, key.map(TerminalInput::Key)))
}

/// BEL or ST ends the sequence.
fn decode_string_sequence(kind: u8, rest: &[u8]) -> DecodeStep {
    let end = rest.iter().enumerate().find_map(|(at, byte)| match byte {
        0x07 => Some((at, at + 1)),
        0x1b if rest.get(at + 1) == Some(&b'\\') => Some((at, at + 2)),
        0x1b if rest.len() == at + 1 => None,
        // A key: the sequence was not completed.
        0..0x20 => Some((0, at)),
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

/// For example `rgb:1e1e/1e1e/2e2e`, of which the first two digits of a part count.
fn is_light(color: &str) -> Option<bool> {
    let parts = color.strip_prefix("rgb:")?.split('/');
    let parts = parts.map(|part| u32::from_str_radix(part.get(..2)?, 16).ok());
    let [red, green, blue] = parts.collect::<Option<Vec<u32>>>()?[..] else { return None };
    Some(299 * red + 587 * green + 114 * blue > 127_500)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(bytes: &[u8]) -> String {
        let mut decoder = Decoder::default();
        let at = Instant::now();
        let mut typed = decoder.feed(bytes, at);
        typed.extend(decoder.flush(at));
        typed.extend(decoder.flush(at));
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
            // Responses, one of them not completed.
            (b"\x1b[?1;2S\x1b[?2026;2$yx\x1b[1;5\x1b[A\x1b]11;rgb:00\x03", "x Up Ctrl-C"),
            // The keypad, and keys without text.
            (
                b"\x1b[57414u\x1b[57417u\x1b[57400u\x1b[57401;129u\x1b[57413;5u",
                "Enter Left 1 2 Ctrl-+",
            ),
            (b"\x1bOp\x1bOk\x1bOM\x1bO5D", "0 + Enter Ctrl-Left"),
            (b"a\x1b[57438u\x1b[57361u\x1b[57441;2u\x1b[106;9u\x1b[1;9D\x1b[97;1:3ub", "a b"),
            (
                b"\x1b[127;5u\x1b[127;2u\x1b[127;3u\x1b[3;5~",
                "Ctrl-Backspace Shift-Backspace Alt-Backspace Ctrl-Delete",
            ),
            (b"\x1b[57376u\x1b[24;2~\x1b[25~\x1b[34~\x1b[1;5P", "F13 Shift-F12 F13 F20 Ctrl-F1"),
            // Other layouts: Russian, Dvorak, German, shifted characters.
            (b"\x1b[1089::99;5u\x1b[99::105;5u\x1b[252::91;5u", "Ctrl-C Ctrl-C Ctrl-Ü"),
            (
                b"\x1b[45:95;6u\x1b[45:95;4u\x1b[99:67;6u\x1b[27;6;67~",
                "Ctrl-_ Alt-_ Ctrl-Shift-C Ctrl-Shift-C",
            ),
            (b"\x1b[91;5u\x1b[109;5u\x1b[105;6u", "Esc Enter Ctrl-Shift-I"),
        ] {
            assert_eq!(keys(bytes), expected, "{:?}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn key_decoding_does_not_depend_on_how_bytes_are_split() {
        let bytes = "é\x1b[1;5Cx\x1b[200~one\x1b[Atwo\x1b[201~\x1b]11;rgb:00/00/00\x1b\\中";
        let at = Instant::now();
        let whole = Decoder::default().feed(bytes.as_bytes(), at);
        for n in 1..7 {
            let mut decoder = Decoder::default();
            let parts = bytes.as_bytes().chunks(n).flat_map(|part| decoder.feed(part, at));
            assert_eq!(parts.collect::<Vec<_>>(), whole, "parts of {n}");
        }
    }

    /// Plays parts that arrive with pauses, and shows what each of them leads to; `|` is a pause of
    /// the decoder's own patience, a part `…` one of two seconds.
    fn played(parts: &[&str]) -> String {
        let mut decoder = Decoder::default();
        let mut at = Instant::now();
        let mut shown = Vec::new();
        for part in parts {
            let inputs = match *part {
                "|" => {
                    at += decoder.patience().unwrap_or_default();
                    decoder.flush(at)
                }
                "…" => {
                    at += Duration::from_secs(2);
                    Vec::new()
                }
                part => decoder.feed(part.as_bytes(), at),
            };
            shown.extend(inputs.into_iter().map(|typed| match typed {
                TerminalInput::Key(key) => key.to_string(),
                other => format!("{other:?}"),
            }));
        }
        shown.join(" ")
    }

    #[test]
    fn the_late_rest_of_a_sequence_is_no_text_and_no_key() {
        for (parts, expected) in [
            (&["\x1b", "|", "[A", "x"][..], "Esc x"),
            (&["\x1b", "|", "OPx"], "Esc O P x"),
            (&["\x1b", "|", "OP", "x"], "Esc x"),
            (&["\x1b", "|", "[1;", "5C", "x"], "Esc x"),
            (&["\x1b", "|", "]11;rgb:ffff", "/ffff/ffff\x07", "x"], "Esc LightBackground(true) x"),
            (&["\x1b", "|", "P>|kitty\x1b\\x"], "Esc TerminalName(\"kitty\") x"),
            (&["\x1b", "|", "[?62;", "|", "x"], "Esc x"),
            // Text after Esc.
            (&["\x1b", "|", "O", "[", "x"], "Esc O [ x"),
            (&["\x1b", "|", "…", "[A"], "Esc [ A"),
            (&["\x1b", "|", "[one] see"], "Esc [ o n e ] Space s e e"),
        ] {
            assert_eq!(played(parts), expected, "{parts:?}");
        }
        // An incomplete response waits for a second.
        let mut decoder = Decoder::default();
        decoder.feed(b"\x1b[?62;", Instant::now());
        assert_eq!(decoder.patience(), Some(SEQUENCE_TIMEOUT));
        decoder.feed(b"22c\x1b", Instant::now());
        assert_eq!(decoder.patience(), Some(ESCAPE_TIMEOUT));
    }

    #[test]
    fn lines_that_arrive_at_once_are_a_paste() {
        let long = "o".repeat(100);
        let paste = |text: &str| format!("{:?}", TerminalInput::Paste(text.to_owned()));
        for (parts, expected) in [
            (&["one\rtwo", "|"][..], paste("one\ntwo")),
            (&["one\r\n\ttwo\r\n", "|"], paste("one\n\ttwo\n")),
            (&["one\r", "two\rth", "ree\r", "|", "\r"], paste("one\ntwo\nthree\n") + " Enter"),
            (&[&long, "\rtwo", "|"], paste(&(long.clone() + "\ntwo"))),
            (&["on", "\r", "two", "|"], "o n Enter t w o".to_owned()),
            (&["on", "|", "\r", "t", "|"], "o n Enter t".to_owned()),
            // Typed: the end of a message, and keys that arrive late.
            (&["one\r", "|"], "o n e Enter".to_owned()),
            (&[&long, "|", "\r"], "o ".repeat(100) + "Enter"),
            (&["one\r", "t", "|"], "o n e Enter t".to_owned()),
            (&["\rone", "|"], "Enter o n e".to_owned()),
            (&["o", "\r", "t"], "o Enter t".to_owned()),
            (&["one\r\x1b[Atwo"], "o n e Enter Up t w o".to_owned()),
        ] {
            assert_eq!(played(parts), expected, "{parts:?}");
        }
    }
}
