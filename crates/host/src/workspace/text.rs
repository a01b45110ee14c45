//! The text of a file for editing: with `\n` line ends, converted back to the file's own when written.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;

use serde::Serialize;
use similar::ChangeTag;

use super::charset::{Charset, GUESSED_FROM, SNIFFED, binary_kind};
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::line_diff::LineDiff;

/// The line ends of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LineEnding {
    Lf,
    CrLf,
    /// `\r`, without any `\n` in the file.
    Cr,
    Mixed,
    /// A single line without an end.
    None,
}

impl LineEnding {
    /// `lf` includes the `\n` of `\r\n`.
    pub(super) fn of_counts(lf: u64, crlf: u64, cr: u64) -> Self {
        match (lf, crlf) {
            (0, _) if cr == 0 => Self::None,
            (0, _) => Self::Cr,
            (_, 0) => Self::Lf,
            _ if lf == crlf => Self::CrLf,
            _ => Self::Mixed,
        }
    }
}

/// A whole file as text.
#[derive(Clone, Debug)]
pub struct Text {
    charset: Charset,
    ending: LineEnding,
    /// The most frequent line end; `None` in a file of one line.
    dominant: Option<&'static str>,
    /// Decoded text without BOM, with the file's line ends.
    raw: String,
    /// The text with `\n` line ends, if it differs from `raw`.
    plain: Option<String>,
    /// Offsets in `plain` of `\n` that are `\r\n` in `raw`.
    crlf: Vec<usize>,
}

impl Text {
    /// Decodes bytes. `path` is only for the message.
    pub fn decode(bytes: Vec<u8>, path: &str) -> Result<Self, Failure> {
        let head = &bytes[..bytes.len().min(SNIFFED)];
        let (charset, raw) = if let Some((charset, _)) = Charset::of_bom(head) {
            (charset, charset.decode(&bytes))
        } else if head.contains(&0) {
            return Err(binary_failure(head, path));
        } else {
            match String::from_utf8(bytes) {
                Ok(text) => (Charset::UTF_8, Some(text)),
                Err(error) => {
                    let bytes = error.into_bytes();
                    let from = bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or(0);
                    let sample = &bytes[from..bytes.len().min(from + GUESSED_FROM)];
                    let charset = Charset::guess(sample);
                    (charset, charset.decode(&bytes))
                }
            }
        };
        match raw {
            Some(raw) => Ok(Self::new(charset, raw)),
            None => {
                let name = charset.name();
                let message = format!("{path} contains bytes that are not text in {name}");
                let hint = "it was not touched; a change here would damage them. Convert it with a command";
                Err(Failure::new(ErrorCode::Encoding, message).with_hint(hint).with_path(path))
            }
        }
    }

    fn new(charset: Charset, raw: String) -> Self {
        let count = |byte| memchr::memchr_iter(byte, raw.as_bytes()).count();
        let (lf, cr) = (count(b'\n'), count(b'\r'));
        let n_crlf = if cr > 0 { raw.matches("\r\n").count() } else { 0 };
        let lone_cr = if lf == 0 { cr } else { 0 };
        let ending = LineEnding::of_counts(lf as u64, n_crlf as u64, lone_cr as u64);
        let dominant = match ending {
            LineEnding::Lf => Some("\n"),
            LineEnding::CrLf => Some("\r\n"),
            LineEnding::Cr => Some("\r"),
            LineEnding::Mixed => Some(if n_crlf * 2 > lf { "\r\n" } else { "\n" }),
            LineEnding::None => None,
        };
        let mut crlf = Vec::with_capacity(n_crlf);
        let plain = match ending {
            LineEnding::Cr => Some(raw.replace('\r', "\n")),
            LineEnding::CrLf | LineEnding::Mixed => {
                let mut plain = String::with_capacity(raw.len());
                for part in raw.split_inclusive("\r\n") {
                    match part.strip_suffix("\r\n") {
                        Some(line) => {
                            plain.push_str(line);
                            crlf.push(plain.len());
                            plain.push('\n');
                        }
                        None => plain.push_str(part),
                    }
                }
                Some(plain)
            }
            LineEnding::Lf | LineEnding::None => None,
        };
        Self { charset, ending, dominant, raw, plain, crlf }
    }

    /// The text with `\n` line ends, for matching and display.
    pub fn plain(&self) -> &str {
        self.plain.as_deref().unwrap_or(&self.raw)
    }

    /// Like [`Text::plain`].
    pub fn into_plain(self) -> String {
        self.plain.unwrap_or(self.raw)
    }

    /// The encoding of the file.
    pub fn charset(&self) -> Charset {
        self.charset
    }

    /// Whether both texts result in the same file.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.charset == other.charset && self.raw == other.raw
    }

    /// Replaces ranges of [`Text::plain`], sorted and disjoint. All other bytes are unchanged.
    #[must_use]
    pub fn splice(&self, edits: &[(Range<usize>, &str)]) -> Self {
        let added: usize = edits.iter().map(|(_, text)| text.len()).sum();
        let mut new = String::with_capacity(self.raw.len() + added);
        let mut at = 0;
        for (range, text) in edits {
            new.push_str(&self.raw[at..self.raw_offset(range.start)]);
            at = self.raw_offset(range.end);
            let replaced = &self.raw[self.raw_offset(range.start)..at];
            new.push_str(&self.with_line_ends_of(replaced, &self.plain()[range.clone()], text));
        }
        new.push_str(&self.raw[at..]);
        Self::new(self.charset, new)
    }

    /// A new text in the same encoding and with the same line ends; if these are mixed, unchanged lines keep theirs.
    #[must_use]
    pub fn rewrite(&self, content: &str) -> Self {
        if self.ending == LineEnding::None {
            return Self::new(self.charset, content.to_owned());
        }
        let new = self.with_line_ends_of(&self.raw, self.plain(), content);
        Self::new(self.charset, new.into_owned())
    }

    /// `raw` is the old text in the file. Mixed line ends become those of the unchanged or replaced lines.
    fn with_line_ends_of<'a>(&self, raw: &str, old: &str, new: &'a str) -> Cow<'a, str> {
        let new = plain(new);
        if self.ending != LineEnding::Mixed {
            return match self.dominant {
                None | Some("\n") => new,
                Some(end) => Cow::Owned(new.replace('\n', end)),
            };
        }
        let own: Vec<&str> = raw.split_inclusive('\n').collect();
        let end_of = |line: &str| match line.strip_suffix('\n')? {
            line if line.ends_with('\r') => Some("\r\n"),
            _ => Some("\n"),
        };
        let mut text = String::new();
        let mut free = VecDeque::new();
        let diff = LineDiff::from_texts(old, &new);
        for change in diff.changes() {
            match (change.tag(), change.old_index()) {
                (ChangeTag::Delete, line) => free.extend(line.and_then(|line| end_of(own[line]))),
                (ChangeTag::Equal, Some(line)) => {
                    free.clear();
                    text.push_str(own[line]);
                }
                (ChangeTag::Equal, None) | (ChangeTag::Insert, _) => {
                    match change.value().strip_suffix('\n') {
                        None => text.push_str(change.value()),
                        Some(line) => {
                            text.push_str(line);
                            text.push_str(free.pop_front().or(self.dominant).unwrap_or("\n"));
                        }
                    }
                }
            }
        }
        Cow::Owned(text)
    }

    /// The bytes of the file. `ENCODING` if the file's encoding lacks a character.
    pub fn to_bytes(&self, path: &str) -> Result<Vec<u8>, Failure> {
        self.charset.encode(&self.raw).map_err(|character| {
            let name = self.charset.name();
            let message = format!("{path} is in {name}, which has no {character:?}");
            Failure::new(ErrorCode::Encoding, message)
                .with_hint(
                    "use other characters, or convert the file to UTF-8 first, with a command",
                )
                .with_path(path)
        })
    }

    fn raw_offset(&self, plain: usize) -> usize {
        plain + self.crlf.partition_point(|at| *at < plain)
    }
}

/// Converts line ends to `\n`. A lone `\r` in text of the model is not a line end.
pub fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\r') { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// `BINARY_FILE`, with the format guessed from the first bytes.
pub(super) fn binary_failure(head: &[u8], path: &str) -> Failure {
    let kind = binary_kind(head);
    Failure::new(ErrorCode::BinaryFile, format!("{path} is not text but {kind}"))
        .with_hint("look at it with a command that knows the format")
        .with_data("kind", kind)
        .with_path(path)
}
