//! Extracts the requested lines from a stream of UTF-8, with their numbers; long lines are shortened.

const MAX_CHARACTERS: usize = 2000;
const MAX_BYTES: usize = MAX_CHARACTERS * 4 + 4;
/// Size limit of a page in bytes; the page ends at a whole line.
const PAGE_BYTES: usize = 48 * 1024;
const NUMBER_WIDTH: usize = "1234 | ".len();
const TYPICAL_LINE_BYTES: usize = 40;

/// Lines for display, each with its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NumberedLines {
    /// `NUMBER | ` and the line, separated by `\n`.
    pub content: String,
    pub count: u64,
    pub n_cut: u64,
}

pub(super) struct Pager {
    end: u8,
    requested: std::ops::Range<u64>,
    number: u64,
    /// Added to the displayed number: lines may be counted from the end of the file.
    pub(super) offset: i64,
    /// The numbered lines so far, each with `\n`, and the requested part of the current line.
    kept: Vec<u8>,
    /// Number of lines in `kept`, and of the shortened lines among them.
    count: u64,
    n_cut: u64,
    room: usize,
    /// Offset in `kept` of the current line, and of its text after the number.
    begin: usize,
    text: usize,
    /// Length of the current line so far: bytes, and for a long line characters.
    n_bytes: u64,
    n_characters: u64,
    last_byte: u8,
}

impl Pager {
    pub(super) fn new(end: u8, first: u64, limit: u64) -> Self {
        Self {
            end,
            requested: first..first.saturating_add(limit),
            number: 1,
            offset: 0,
            kept: Vec::new(),
            count: 0,
            n_cut: 0,
            room: PAGE_BYTES,
            begin: 0,
            text: 0,
            n_bytes: 0,
            n_characters: 0,
            last_byte: 0,
        }
    }

    pub(super) fn feed(&mut self, mut text: &[u8]) -> bool {
        while !text.is_empty() {
            if self.number >= self.requested.end {
                return false;
            }
            if self.number < self.requested.start {
                text = self.skip_lines(text, self.requested.start - self.number);
                continue;
            }
            text = self.take_lines(text);
        }
        true
    }

    /// Ends at the last requested line or at the end of the text. Returns the rest.
    fn take_lines<'a>(&mut self, text: &'a [u8]) -> &'a [u8] {
        let n_lines = usize::try_from(self.requested.end - self.number).unwrap_or(usize::MAX);
        self.kept.reserve(
            n_lines.saturating_mul(TYPICAL_LINE_BYTES).min(2 * text.len()).min(PAGE_BYTES),
        );
        let mut begin = 0;
        for end in memchr::memchr_iter(self.end, text) {
            let line = &text[begin..end];
            if self.n_bytes == 0 && !is_long(line.len() as u64) {
                self.push_whole_line(line);
            } else {
                self.extend_line(line);
                self.end_line();
            }
            begin = end + 1;
            if self.number >= self.requested.end {
                return &text[begin..];
            }
        }
        self.extend_line(&text[begin..]);
        &[]
    }

    fn skip_lines<'a>(&mut self, text: &'a [u8], most: u64) -> &'a [u8] {
        let n = memchr::memchr_iter(self.end, text).count() as u64;
        let last = usize::try_from(n.min(most)).unwrap_or(usize::MAX).checked_sub(1);
        let Some(last) = last.and_then(|last| memchr::memchr_iter(self.end, text).nth(last)) else {
            self.n_bytes += text.len() as u64;
            return &[];
        };
        self.number += n.min(most);
        let rest = &text[last + 1..];
        self.n_bytes = if n < most { rest.len() as u64 } else { 0 };
        if n < most { &[] } else { rest }
    }

    /// Text after the last line end is a line too.
    pub(super) fn finish(&mut self) {
        if self.n_bytes > 0 {
            self.end_line();
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.number - 1
    }

    pub(super) fn into_lines(self) -> NumberedLines {
        let Self { mut kept, count, n_cut, .. } = self;
        kept.pop();
        // For a large file only the beginning was checked to be text.
        let content = String::from_utf8(kept)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        NumberedLines { content, count, n_cut }
    }

    fn push_whole_line(&mut self, line: &[u8]) {
        let line = match line {
            [line @ .., b'\r'] if self.end == b'\n' => line,
            line => line,
        };
        self.begin_line();
        self.kept.extend_from_slice(line);
        self.keep_line(None);
    }

    fn begin_line(&mut self) {
        self.begin = self.kept.len();
        push_number(&mut self.kept, i64::try_from(self.number).unwrap_or(i64::MAX) + self.offset);
        self.text = self.kept.len();
    }

    fn extend_line(&mut self, part: &[u8]) {
        let Some(last_byte) = part.last() else { return };
        if self.n_bytes == 0 {
            self.begin_line();
        }
        let n_before = self.n_bytes;
        self.n_bytes += part.len() as u64;
        self.last_byte = *last_byte;
        // A line of so few bytes cannot have too many characters.
        if is_long(self.n_bytes) {
            if !is_long(n_before) {
                self.n_characters = n_characters(&self.kept[self.text..]);
            }
            self.n_characters += n_characters(part);
        }
        let room = MAX_BYTES - (self.kept.len() - self.text);
        self.kept.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn end_line(&mut self) {
        if self.requested.contains(&self.number) {
            let cut_of = self.cut_current();
            self.keep_line(cut_of);
        } else {
            self.number += 1;
        }
        (self.n_bytes, self.n_characters, self.last_byte) = (0, 0, 0);
    }

    fn keep_line(&mut self, cut_of: Option<u64>) {
        let size = NUMBER_WIDTH + self.kept.len() - self.text + "\n".len();
        if size > self.room && self.count > 0 {
            self.kept.truncate(self.begin);
            self.requested.end = self.number;
        } else {
            if let Some(n) = cut_of {
                let mark = format!("… [cut: {MAX_CHARACTERS} of {n} characters]");
                self.kept.extend_from_slice(mark.as_bytes());
                self.n_cut += 1;
            }
            self.kept.push(b'\n');
            self.room = self.room.saturating_sub(size);
            self.count += 1;
        }
        self.number += 1;
    }

    /// Returns the number of characters if the line was too long.
    fn cut_current(&mut self) -> Option<u64> {
        let mut n_characters = self.n_characters;
        if self.end == b'\n' && self.last_byte == b'\r' {
            n_characters = n_characters.saturating_sub(1);
            if (self.kept.len() - self.text) as u64 == self.n_bytes {
                self.kept.pop();
            }
        }
        if n_characters <= MAX_CHARACTERS as u64 {
            return None;
        }
        let line = self.kept.split_off(self.text);
        let shown = String::from_utf8_lossy(&line);
        let end = shown.char_indices().nth(MAX_CHARACTERS).map_or(shown.len(), |(end, _)| end);
        self.kept.extend_from_slice(&shown.as_bytes()[..end]);
        Some(n_characters)
    }
}

/// `write!` would take a third of the time of a small Read.
fn push_number(kept: &mut Vec<u8>, number: i64) {
    let mut digits = *b"                     | ";
    let mut at = digits.len() - " | ".len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b"0123456789"[usize::try_from(rest % 10).unwrap_or_default()];
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    kept.extend_from_slice(&digits[at..]);
}

fn is_long(n_bytes: u64) -> bool {
    n_bytes > MAX_CHARACTERS as u64
}

fn n_characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64
}
