//! An answer as it streams: Markdown cut into blocks that do not change any more, and their look.
//!
//! A whole answer goes the same way as one that arrives letter by letter, so both look the same.

mod page;
mod table;

use ratatui::text::{Line, Span};

use super::cells::Look;
use super::highlight::{Language, Open};
use super::text::{behind, clean};
use super::theme::Part;
use page::prose;

/// More text without an end of a block is cut here: what a frame costs has a limit.
const MAX_OPEN: usize = 16 * 1024;
/// A whole text is taken in parts of so many bytes.
const PART: usize = 64 * 1024;
/// Columns before code.
const CODE: &str = "  ";

/// The whole text.
pub(super) fn render(text: &str, look: Look) -> Vec<Line<'static>> {
    let mut stream = Stream::default();
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (part, behind) = rest.split_at(rest.floor_char_boundary(rest.len().min(PART)));
        stream.push(part);
        lines.extend(stream.take_finished(look));
        rest = behind;
    }
    lines.extend(stream.finish(look));
    lines
}

/// A text that is still being written.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// What is not finished yet.
    open: String,
    /// So many of its bytes have been looked at, and belong to one block.
    seen: usize,
    /// The block code fence that is open.
    fence: Option<Fence>,
    /// A fence inside the open block (in a list).
    inner: Option<String>,
    /// The open block ended in a blank line.
    is_after_blank: bool,
    /// Something was finished before: a blank line separates what follows.
    has_begun: bool,
}

#[derive(Debug)]
struct Fence {
    mark: String,
    language: Option<Language>,
    open: Open,
    is_first: bool,
}

impl Stream {
    /// More of it.
    pub(super) fn push(&mut self, text: &str) {
        self.open.push_str(text);
    }

    /// Nothing is there that was not taken.
    pub(super) fn is_empty(&self) -> bool {
        self.open.trim().is_empty()
    }

    /// The lines that will not change any more; each is given once.
    pub(super) fn take_finished(&mut self, look: Look) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        while let Some(length) = self.open[self.seen..].find('\n') {
            let line = self.open[self.seen..self.seen + length].to_owned();
            self.line(&line, length + 1, look, &mut lines);
        }
        while self.open.len() > MAX_OPEN {
            let reach = self.open.floor_char_boundary(MAX_OPEN);
            let end = self.open[..reach].rfind(['\n', ' ']).map_or(reach, |at| at + 1);
            let end = self.seen.max(end);
            if self.fence.is_some() {
                let part = self.open[..end].to_owned();
                self.code(&part, look, &mut lines);
                self.open.drain(..end);
                self.seen = 0;
            } else {
                self.block(end, look, &mut lines);
            }
        }
        lines
    }

    /// What is left, as it is: the text is over.
    pub(super) fn finish(&mut self, look: Look) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if self.fence.take().is_some() {
            let rest = std::mem::take(&mut self.open);
            self.code(&rest, look, &mut lines);
        } else {
            self.block(self.open.len(), look, &mut lines);
        }
        *self = Self::default();
        lines
    }

    /// What is not finished, as it looks now.
    pub(super) fn tail(&self, look: Look) -> Vec<Line<'static>> {
        if self.is_empty() {
            return Vec::new();
        }
        if let Some(fence) = &self.fence {
            return vec![code_line(&self.open, fence, look).0];
        }
        let text = self.open.trim_end();
        let mut lines = if text.trim_start().starts_with('|') {
            // The columns of a table are known when it is whole; until then it would jump.
            let quiet = look.theme.style(Part::Quiet);
            let rows = text.lines().map(|row| Line::styled(clean(row).into_owned(), quiet));
            rows.collect()
        } else {
            prose(&closed(text), look)
        };
        if self.has_begun {
            lines.insert(0, Line::default());
        }
        lines
    }

    /// Takes one complete line.
    fn line(&mut self, line: &str, length: usize, look: Look, lines: &mut Vec<Line<'static>>) {
        let trimmed = line.trim();
        if let Some(fence) = &self.fence {
            if trimmed.starts_with(fence.mark.as_str())
                && trimmed.trim_start_matches(['`', '~']).is_empty()
            {
                self.fence = None;
                self.has_begun = true;
            } else {
                self.code(line, look, lines);
            }
            self.open.drain(..length);
            return;
        }
        if let Some(mark) = &self.inner {
            if trimmed.starts_with(mark.as_str()) {
                self.inner = None;
            }
            self.seen += length;
            return;
        }
        let indent = line.len() - line.trim_start().len();
        let goes_on = is_list(&self.open) && indent >= 2;
        if self.is_after_blank && !trimmed.is_empty() && !goes_on {
            self.block(self.seen, look, lines);
        }
        if let Some(mark) = fence_of(trimmed) {
            if goes_on {
                self.inner = Some(mark);
                self.seen += length;
                self.is_after_blank = false;
                return;
            }
            self.block(self.seen, look, lines);
            let info = trimmed.trim_start_matches(['`', '~']).trim();
            let language = info.split([' ', ',', '{']).next().unwrap_or_default();
            let language = Language::named(language);
            self.fence = Some(Fence { mark, language, open: Open::Nothing, is_first: true });
            self.open.drain(..length);
            self.seen = 0;
            return;
        }
        self.is_after_blank = trimmed.is_empty();
        self.seen += length;
    }

    /// So many bytes are a block.
    fn block(&mut self, end: usize, look: Look, lines: &mut Vec<Line<'static>>) {
        let text: String = self.open.drain(..end).collect();
        self.seen = 0;
        self.is_after_blank = false;
        self.inner = None;
        let block = prose(&text, look);
        if block.is_empty() {
            return;
        }
        if self.has_begun {
            lines.push(Line::default());
        }
        self.has_begun = true;
        lines.extend(block);
    }

    fn code(&mut self, text: &str, look: Look, lines: &mut Vec<Line<'static>>) {
        let has_begun = self.has_begun;
        let Some(fence) = &mut self.fence else {
            lines.extend(text.lines().map(|line| {
                let fence = Fence {
                    mark: String::new(),
                    language: None,
                    open: Open::Nothing,
                    is_first: false,
                };
                code_line(line, &fence, look).0
            }));
            return;
        };
        if std::mem::take(&mut fence.is_first) && has_begun {
            lines.push(Line::default());
        }
        let (line, open) = code_line(text, fence, look);
        fence.open = open;
        lines.push(line);
    }
}

fn code_line(text: &str, fence: &Fence, look: Look) -> (Line<'static>, Open) {
    let text = clean(text);
    let (spans, open) = match fence.language {
        Some(language) => language.line(&text, fence.open, look.theme),
        None => (vec![Span::raw(text.into_owned())], Open::Nothing),
    };
    (behind(Span::raw(CODE), spans), open)
}

/// The mark of the code fence that this line opens.
fn fence_of(trimmed: &str) -> Option<String> {
    let mark = trimmed.chars().next().filter(|char| matches!(char, '`' | '~'))?;
    let length = trimmed.chars().take_while(|char| *char == mark).count();
    // A line of inline code is no fence.
    let is_fence = length >= 3 && !trimmed[length..].contains('`');
    is_fence.then(|| mark.to_string().repeat(length))
}

fn is_list(text: &str) -> bool {
    let text = text.trim_start();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text.starts_with("- ")
        || text.starts_with("* ")
        || text.starts_with("+ ")
        || (1..=9).contains(&digits) && text[digits..].starts_with(['.', ')'])
}

/// The text with what is open in its last paragraph closed, so that it looks as it will.
fn closed(text: &str) -> String {
    let last = text.rsplit("\n\n").next().unwrap_or(text);
    let mut text = text.to_owned();
    if last.matches('`').count() % 2 == 1 {
        text.push('`');
    }
    if last.matches("**").count() % 2 == 1 {
        text.truncate(text.trim_end_matches('*').len().max(text.len() - 2));
        text.push_str("**");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::theme::{Background, Depth, Theme};
    use super::*;

    fn look(width: usize) -> Look {
        Look { width, theme: Theme::new(Depth::None, Background::Dark) }
    }

    fn shown(lines: &[Line<'_>]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    const ALL: &str = "# Title\n\nSome *text* with `code`, **bold** and [a link](http://x.y).\n\
        Second line.\n\n- one\n- two\n  - three is a longer item that has to be wrapped somewhere\n\n\
        1. first\n\n   more of it\n\n2. second\n\n```rust\nfn main() {\n\n    let x = 1;\n}\n```\n\n\
        > quoted words\n\n| a | number |\n|---|---:|\n| x | 12 |\n| long cell | 3 |\n\n---\nend";

    #[test]
    fn an_answer_has_its_shape() {
        insta::assert_snapshot!(shown(&render(ALL, look(44))));
    }

    #[test]
    fn a_table_fits_a_narrow_screen() {
        insta::assert_snapshot!(shown(&render(
            "| file | what is wrong with it |\n|---|---|\n| src/a.rs | the sum is never returned |\n",
            look(24)
        )));
    }

    #[test]
    fn however_it_is_cut_it_looks_the_same() {
        let whole = shown(&render(ALL, look(60)));
        for n in [1, 2, 3, 5, 7, 11, 40] {
            let mut stream = Stream::default();
            let mut lines = Vec::new();
            let chars: Vec<char> = ALL.chars().collect();
            for part in chars.chunks(n) {
                stream.push(&part.iter().collect::<String>());
                lines.extend(stream.take_finished(look(60)));
                stream.tail(look(60));
            }
            lines.extend(stream.finish(look(60)));
            assert_eq!(shown(&lines), whole, "parts of {n}");
        }
    }

    #[test]
    fn code_is_given_line_by_line() {
        let mut stream = Stream::default();
        stream.push("Look:\n```sh\necho a\necho b");
        assert_eq!(shown(&stream.take_finished(look(40))), "Look:\n\n  echo a\n");
        assert_eq!(shown(&stream.tail(look(40))), "  echo b\n");
    }

    #[test]
    fn a_line_of_ten_megabytes_costs_no_more_than_its_size() {
        let text = "word ".repeat(2_000_000);
        let mut stream = Stream::default();
        let mut n_lines = 0;
        for part in text.as_bytes().chunks(64 * 1024) {
            stream.push(&String::from_utf8_lossy(part));
            n_lines += stream.take_finished(look(80)).len();
            assert!(stream.open.len() <= 128 * 1024);
        }
        n_lines += stream.finish(look(80)).len();
        assert!(n_lines >= 125_000, "{n_lines}");
    }

    #[test]
    fn what_is_open_is_shown_as_it_will_be() {
        assert_eq!(closed("a **bo"), "a **bo**");
        assert_eq!(closed("run `x"), "run `x`");
        assert_eq!(closed("done **b** and"), "done **b** and");
    }
}
