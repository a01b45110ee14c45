//! Lines out of a stream of UTF-8, each behind its number: only the wanted ones, and of those only their
//! beginnings.

/// Lines are shown up to this many characters.
const MAX_CHARACTERS: usize = 2000;
/// Enough bytes for them.
const MAX_BYTES: usize = MAX_CHARACTERS * 4 + 4;
/// A page of more bytes ends earlier, at a whole line: cut in its middle it would be of little use.
const PAGE_BYTES: usize = 48 * 1024;
/// `1234 | `
const NUMBER: usize = "1234 | ".len();
/// How many bytes most lines have, with their numbers.
const USUAL: usize = 40;

/// Lines as they are shown, each behind its number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// `NUMBER | ` and the line, with `\n` between two.
    pub content: String,
    /// How many there are.
    pub count: u64,
    /// How many of them are longer than what is shown.
    pub n_cut: u64,
}

pub(super) struct Pager {
    end: u8,
    /// The first line that is wanted, and the first that is not any more.
    wanted: std::ops::Range<u64>,
    /// Go on to the end of the file, to count its lines.
    count_all: bool,
    /// The number of the current line, from 1.
    number: u64,
    /// What is added to it where it is shown: lines may be counted from the file's end.
    offset: i64,
    /// The lines so far, each with its number before it and a `\n` behind it, and the current one as far
    /// as it is wanted.
    kept: Vec<u8>,
    /// How many lines that are, and how many of them are cut.
    count: u64,
    n_cut: u64,
    /// How many more bytes the page has room for.
    room: usize,
    /// Where the current line begins in `kept`, and where its text does, behind the number.
    begin: usize,
    text: usize,
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

    /// Lines are shown as if the first of the text were this one.
    pub(super) fn numbered_from(self, first: i64) -> Self {
        Self { offset: first.saturating_sub(1), ..self }
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
        // Room for lines of a usual length, at once.
        let n_wanted = usize::try_from(self.wanted.end - self.number).unwrap_or(usize::MAX);
        self.kept.reserve(n_wanted.saturating_mul(USUAL).min(2 * text.len()).min(PAGE_BYTES));
        let mut begin = 0;
        for end in memchr::memchr_iter(self.end, text) {
            let line = &text[begin..end];
            if self.n_bytes == 0 && !is_long(line.len() as u64) {
                self.whole_line(line);
            } else {
                self.extend(line);
                self.end_line();
            }
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
        let Self { mut kept, count, n_cut, .. } = self;
        kept.pop();
        // Of a large file only the beginning is known to be text.
        let content = String::from_utf8(kept)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Lines { content, count, n_cut }
    }

    /// A wanted line that came in one piece and is shown whole, as nearly all are.
    fn whole_line(&mut self, line: &[u8]) {
        let line = match line {
            [line @ .., b'\r'] if self.end == b'\n' => line,
            line => line,
        };
        self.begin_line();
        self.kept.extend_from_slice(line);
        self.keep_line(None);
    }

    /// The current line is wanted: its number comes first.
    fn begin_line(&mut self) {
        self.begin = self.kept.len();
        push_number(&mut self.kept, i64::try_from(self.number).unwrap_or(i64::MAX) + self.offset);
        self.text = self.kept.len();
    }

    /// More of a wanted line.
    fn extend(&mut self, part: &[u8]) {
        let Some(last_byte) = part.last() else { return };
        if self.n_bytes == 0 {
            self.begin_line();
        }
        let n_before = self.n_bytes;
        self.n_bytes += part.len() as u64;
        self.last_byte = *last_byte;
        // A line of so few bytes has no more characters: they are not counted.
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
        if self.wanted.contains(&self.number) {
            let cut_of = self.cut_current();
            self.keep_line(cut_of);
        } else {
            self.number += 1;
        }
        (self.n_bytes, self.n_characters, self.last_byte) = (0, 0, 0);
    }

    /// What stands in `kept` behind `text` is shown of the current line, if the page has room for it.
    fn keep_line(&mut self, cut_of: Option<u64>) {
        let size = NUMBER + self.kept.len() - self.text + "\n".len();
        if size > self.room && self.count > 0 {
            self.kept.truncate(self.begin);
            self.wanted.end = self.number;
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

    /// Takes from the current line what is not shown of it: how many characters it has, if it is cut.
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

/// `NUMBER | `. (Formatting machinery would take a third of the time of a small Read.)
fn push_number(kept: &mut Vec<u8>, number: i64) {
    // Nearly all numbers: no loop, and as many bytes as the compiler knows of.
    if let Ok(number @ 1..=9999) = u16::try_from(number) {
        let digit = |unit: u16| match number {
            number if number < unit => b' ',
            number => b'0' + (number / unit % 10).to_le_bytes()[0],
        };
        let shown = [digit(1000), digit(100), digit(10), digit(1), b' ', b'|', b' '];
        let n_blanks =
            usize::from(number < 1000) + usize::from(number < 100) + usize::from(number < 10);
        kept.extend_from_slice(&shown[n_blanks..]);
        return;
    }
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

/// How many of these bytes begin a character.
fn n_characters(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte & 0xC0 != 0x80).count() as u64
}
