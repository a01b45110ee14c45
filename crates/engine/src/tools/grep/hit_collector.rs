//! Converts matches of one file to lines, shortened if they are too long.

use std::io;
use std::ops::Range;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch};
use serde_json::{Value, json};

/// A longer line is cut around its match.
const MAX_CHARACTERS: usize = 500;
const BEFORE_MATCH: usize = 100;
const MAX_LINES: usize = 50;

pub(super) struct Hit {
    pub(super) line: u64,
    text: String,
    before: Vec<String>,
    after: Vec<String>,
}

impl Hit {
    pub(super) fn to_row(&self, file: &str) -> Value {
        let mut row = json!({ "file": file, "line": self.line, "text": self.text });
        for (name, lines) in [("before", &self.before), ("after", &self.after)] {
            if !lines.is_empty() {
                row[name] = json!(lines);
            }
        }
        row
    }
}

/// Receives the matches of one file from the searcher.
pub(super) struct HitCollector<'a> {
    matcher: &'a RegexMatcher,
    limit: usize,
    first_only: bool,
    pub(super) hits: Vec<Hit>,
    pub(super) n_hits: u64,
    pub(super) matched_lines: u64,
    /// Offset of a NUL byte.
    pub(super) binary_at: Option<u64>,
    before: Vec<String>,
    /// The last match was kept: the following lines are its context.
    last_kept: bool,
}

impl<'a> HitCollector<'a> {
    pub(super) fn new(matcher: &'a RegexMatcher, limit: usize, first_only: bool) -> Self {
        Self {
            matcher,
            limit,
            first_only,
            hits: Vec::new(),
            n_hits: 0,
            matched_lines: 0,
            binary_at: None,
            before: Vec::new(),
            last_kept: false,
        }
    }

    fn match_text(&mut self, found: &SinkMatch<'_>) -> String {
        let mut lines: Vec<String> = Vec::new();
        for (index, line) in found.lines().enumerate() {
            if index == MAX_LINES {
                lines.push("…".to_owned());
                break;
            }
            let line = strip_line_end(line);
            // A match over several lines has no position in a single one.
            let at = self.matcher.find(line).ok().flatten();
            lines.push(cut_around_match(line, at.map_or(0..0, |at| at.start()..at.end())));
        }
        lines.join("\n")
    }
}

impl Sink for &mut HitCollector<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.n_hits += 1;
        self.matched_lines += found.lines().count() as u64;
        self.last_kept = self.hits.len() < self.limit;
        if self.last_kept {
            let text = self.match_text(found);
            self.hits.push(Hit {
                line: found.line_number().unwrap_or(0),
                text,
                before: std::mem::take(&mut self.before),
                after: Vec::new(),
            });
        }
        Ok(!self.first_only)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let has_room = self.hits.len() < self.limit;
        let line = strip_line_end(context.bytes());
        match context.kind() {
            SinkContextKind::Before if has_room => {
                let line = cut_around_match(line, 0..0);
                self.before.push(line);
            }
            SinkContextKind::After if self.last_kept => {
                let line = cut_around_match(line, 0..0);
                if let Some(hit) = self.hits.last_mut() {
                    hit.after.push(line);
                }
            }
            SinkContextKind::Before | SinkContextKind::After | SinkContextKind::Other => {}
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.before.clear();
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        self.binary_at = finish.binary_byte_offset();
        Ok(())
    }
}

fn strip_line_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The line, or the part of it around the match.
fn cut_around_match(line: &[u8], found: Range<usize>) -> String {
    // A character has at most four bytes: most of a very long line is not decoded.
    let reach = MAX_CHARACTERS * 4;
    if line.len() <= reach {
        let text = String::from_utf8_lossy(line);
        if text.chars().count() <= MAX_CHARACTERS {
            return text.into_owned();
        }
    }
    let start = found.start.min(line.len());
    let ahead = &line[start..line.len().min(start + reach)];
    let ahead: Vec<char> = String::from_utf8_lossy(ahead).chars().take(MAX_CHARACTERS).collect();
    let mut from = start.saturating_sub(reach);
    while from > 0 && from < start && line[from] & 0xC0 == 0x80 {
        from += 1;
    }
    let before: Vec<char> = String::from_utf8_lossy(&line[from..start]).chars().collect();
    // Near the line's end there is more room before the match.
    let n_before = BEFORE_MATCH.max(MAX_CHARACTERS - ahead.len()).min(before.len());
    let n_after = (MAX_CHARACTERS - n_before).min(ahead.len());
    let mut text = String::new();
    if from > 0 || n_before < before.len() {
        text.push('…');
    }
    text.extend(&before[before.len() - n_before..]);
    text.extend(&ahead[..n_after]);
    if n_after < ahead.len() || line.len() > start + reach {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_truncated_around_the_match() {
        let line = format!("{}needle{}", "a".repeat(3000), "ä".repeat(3000));
        let text = cut_around_match(line.as_bytes(), 3000..3006);
        assert_eq!(text.chars().count(), 502);
        assert!(text.starts_with("…aaa") && text.ends_with("ä…"));
        assert_eq!(text.find("needle"), Some('…'.len_utf8() + 100));
    }

    #[test]
    fn match_at_the_end_of_a_long_line_keeps_the_text_before() {
        let line = format!("{}needle", "a".repeat(600));
        let text = cut_around_match(line.as_bytes(), 600..606);
        assert_eq!(text, format!("…{}needle", "a".repeat(494)));
    }

    #[test]
    fn line_of_500_characters_is_not_truncated() {
        let line = "ä".repeat(500);
        assert_eq!(cut_around_match(line.as_bytes(), 0..0), line);
    }
}
