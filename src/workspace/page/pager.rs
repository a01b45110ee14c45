//! Lines out of a stream of UTF-8, only the wanted ones kept, and of those only their beginnings.

/// Lines are shown up to this many characters.
const MAX_CHARACTERS: usize = 2000;
/// Enough bytes for them.
const MAX_BYTES: usize = MAX_CHARACTERS * 4 + 4;

/// One line, without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// At most 2,000 characters of it.
    pub text: String,
    /// How many characters it has, where that is more.
    pub cut_of: Option<u64>,
}

pub(super) struct Pager {
    end: u8,
    /// The first line that is wanted, and the first that is not any more.
    wanted: std::ops::Range<u64>,
    /// Go on to the end of the file, to count its lines.
    count_all: bool,
    /// The number of the current line, from 1.
    number: u64,
    lines: Vec<Line>,
    current: Vec<u8>,
    /// The current line so far: bytes, and those that begin a character.
    n_bytes: u64,
    n_characters: u64,
    last_byte: u8,
}

impl Pager {
    pub(super) fn new(end: u8, first: u64, limit: u64, count_all: bool) -> Self {
        Self {
            end,
            wanted: first..first.saturating_add(limit),
            count_all,
            number: 1,
            lines: Vec::new(),
            current: Vec::new(),
            n_bytes: 0,
            n_characters: 0,
            last_byte: 0,
        }
    }

    /// Takes more text; false where no more is needed.
    pub(super) fn feed(&mut self, mut text: &[u8]) -> bool {
        while !text.is_empty() {
            if self.number >= self.wanted.end {
                if self.count_all {
                    self.pass(text, u64::MAX);
                }
                return self.count_all;
            }
            if self.number < self.wanted.start {
                text = self.pass(text, self.wanted.start - self.number);
                continue;
            }
            let end = memchr::memchr(self.end, text);
            self.extend(&text[..end.unwrap_or(text.len())]);
            let Some(end) = end else { return true };
            self.end_line();
            text = &text[end + 1..];
        }
        true
    }

    /// Passes so many line ends, or all of the text, without looking at the lines. Gives the rest.
    fn pass<'a>(&mut self, text: &'a [u8], wanted: u64) -> &'a [u8] {
        let n = memchr::memchr_iter(self.end, text).count() as u64;
        let last = usize::try_from(n.min(wanted)).unwrap_or(usize::MAX).checked_sub(1);
        let Some(last) = last.and_then(|last| memchr::memchr_iter(self.end, text).nth(last)) else {
            self.n_bytes += text.len() as u64;
            return &[];
        };
        self.number += n.min(wanted);
        let rest = &text[last + 1..];
        self.n_bytes = if n < wanted { rest.len() as u64 } else { 0 };
        if n < wanted { &[] } else { rest }
    }

    /// The text is over: what stands after the last line end is a line too.
    pub(super) fn finish(&mut self) {
        if self.n_bytes > 0 {
            self.end_line();
        }
    }

    /// How many lines there were.
    pub(super) fn total(&self) -> u64 {
        self.number - 1
    }

    pub(super) fn into_lines(self) -> Vec<Line> {
        self.lines
    }

    fn extend(&mut self, part: &[u8]) {
        self.n_bytes += part.len() as u64;
        self.last_byte = part.last().copied().unwrap_or(self.last_byte);
        if self.wanted.contains(&self.number) {
            let room = MAX_BYTES - self.current.len();
            self.current.extend_from_slice(&part[..part.len().min(room)]);
            let begins = part.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
            self.n_characters += begins as u64;
        }
    }

    fn end_line(&mut self) {
        if self.wanted.contains(&self.number) {
            let line = self.current_line();
            self.lines.push(line);
        }
        self.number += 1;
        self.current.clear();
        (self.n_bytes, self.n_characters, self.last_byte) = (0, 0, 0);
    }

    fn current_line(&self) -> Line {
        let mut n_characters = self.n_characters;
        let mut bytes = self.current.as_slice();
        if self.end == b'\n' && self.last_byte == b'\r' {
            n_characters -= 1;
            if bytes.len() as u64 == self.n_bytes {
                bytes = &bytes[..bytes.len() - 1];
            }
        }
        let text = String::from_utf8_lossy(bytes);
        if n_characters <= MAX_CHARACTERS as u64 {
            return Line { text: text.into_owned(), cut_of: None };
        }
        let text = text.chars().take(MAX_CHARACTERS).collect();
        Line { text, cut_of: Some(n_characters) }
    }
}
