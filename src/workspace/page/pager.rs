//! Lines out of a stream of UTF-8, only the wanted ones kept, and of those only their beginnings.

/// Lines are shown up to this many characters.
const MAX_CHARACTERS: usize = 2000;
/// Enough bytes for them.
const MAX_BYTES: usize = MAX_CHARACTERS * 4 + 4;

/// One line, without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// At most 2,000 characters of it.
    pub text: &'a str,
    /// How many characters it has, where that is more.
    pub cut_of: Option<u64>,
}

/// Lines one after the other: one text and where each of them ends in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// Each line with a `\n` behind it.
    text: String,
    ends: Vec<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    /// Where its `\n` stands.
    at: usize,
    cut_of: Option<u64>,
}

impl Lines {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// How long the text of all of them is, with one byte for each end.
    pub fn n_bytes(&self) -> usize {
        self.text.len()
    }

    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The lines in their order.
    pub fn iter(&self) -> impl Iterator<Item = Line<'_>> {
        let mut begin = 0;
        self.ends.iter().map(move |end| {
            let text = &self.text[begin..end.at];
            begin = end.at + 1;
            Line { text, cut_of: end.cut_of }
        })
    }

    fn new(bytes: Vec<u8>, ends: Vec<End>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self { text, ends },
            Err(error) => {
                let mut lines = Self::default();
                let mut begin = 0;
                for End { at, cut_of } in ends {
                    lines.text.push_str(&String::from_utf8_lossy(&error.as_bytes()[begin..at]));
                    lines.ends.push(End { at: lines.text.len(), cut_of });
                    lines.text.push('\n');
                    begin = at + 1;
                }
                lines
            }
        }
    }
}

pub(super) struct Pager {
    end: u8,
    /// The first line that is wanted, and the first that is not any more.
    wanted: std::ops::Range<u64>,
    /// Go on to the end of the file, to count its lines.
    count_all: bool,
    /// The number of the current line, from 1.
    number: u64,
    /// The lines so far, each with a `\n` behind it, and the beginning of the current one.
    kept: Vec<u8>,
    ends: Vec<End>,
    /// Where the current line begins in `kept`.
    begin: usize,
    /// The current line so far: bytes, and of a long one those that begin a character.
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
            kept: Vec::new(),
            ends: Vec::new(),
            begin: 0,
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
            text = self.take(text);
        }
        true
    }

    /// Takes wanted lines, up to the last of them or the end of the text. Gives the rest.
    fn take<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let mut begin = 0;
        for end in memchr::memchr_iter(self.end, text) {
            self.extend(&text[begin..end]);
            self.end_line();
            begin = end + 1;
            if self.number >= self.wanted.end {
                return &text[begin..];
            }
        }
        self.extend(&text[begin..]);
        &[]
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

    pub(super) fn into_lines(self) -> Lines {
        Lines::new(self.kept, self.ends)
    }

    /// More of a wanted line.
    fn extend(&mut self, part: &[u8]) {
        let n_before = self.n_bytes;
        self.n_bytes += part.len() as u64;
        self.last_byte = part.last().copied().unwrap_or(self.last_byte);
        // A line of so few bytes has no more characters: they are not counted.
        if is_long(self.n_bytes) {
            if !is_long(n_before) {
                self.n_characters = n_characters(&self.kept[self.begin..]);
            }
            self.n_characters += n_characters(part);
        }
        let room = MAX_BYTES - (self.kept.len() - self.begin);
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self) {
        if self.wanted.contains(&self.number) {
            let cut_of = self.cut_current();
            self.ends.push(End { at: self.kept.len(), cut_of });
            self.kept.push(b'\n');
            self.begin = self.kept.len();
        }
        self.number += 1;
        (self.n_bytes, self.n_characters, self.last_byte) = (0, 0, 0);
    }

    /// Takes from the current line what is not shown of it: how many characters it has, if it is cut.
    fn cut_current(&mut self) -> Option<u64> {
        let mut n_characters = self.n_characters;
        if self.end == b'\n' && self.last_byte == b'\r' {
            n_characters = n_characters.saturating_sub(1);
            if (self.kept.len() - self.begin) as u64 == self.n_bytes {
                self.kept.pop();
            }
        }
        if n_characters <= MAX_CHARACTERS as u64 {
            return None;
        }
        let line = self.kept.split_off(self.begin);
        let shown = String::from_utf8_lossy(&line);
        let end = shown.char_indices().nth(MAX_CHARACTERS).map_or(shown.len(), |(end, _)| end);
        self.kept.extend_from_slice(&shown.as_bytes()[..end]);
        Some(n_characters)
    }
}

fn is_long(n_bytes: u64) -> bool {
    n_bytes > MAX_CHARACTERS as u64
}

/// How many of these bytes begin a character.
fn n_characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64
}
