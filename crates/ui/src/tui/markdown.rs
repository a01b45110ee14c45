//! Renders streamed Markdown: splits the text into blocks that do not change any more.
//!
//! A complete text is rendered in the same way as a streamed one, so that both look the same.

mod block;
mod table;

use ratatui::text::{Line, Span};

use super::cells::RenderOptions;
use super::highlight::{Language, OpenConstruct};
use super::text::prefix_line;
use super::theme::StyleRole;
use agent_protocol::terminal_escape::escape_prose;
use block::{RenderedBlock, render_block};

/// Limits the cost of a frame.
const MAX_OPEN_BYTES: usize = 16 * 1024;
const PART_BYTES: usize = 64 * 1024;
/// Of a table that streams: more than the live area shows.
const LIVE_ROWS: usize = 32;
const CODE_INDENT: &str = "  ";

pub(super) fn render(text: &str, options: RenderOptions) -> Vec<Line<'static>> {
    let mut stream = MarkdownStream::default();
    let mut lines = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (part, remaining) = rest.split_at(rest.floor_char_boundary(rest.len().min(PART_BYTES)));
        stream.push(part);
        lines.extend(stream.take_finished(options));
        rest = remaining;
    }
    lines.extend(stream.finish(options));
    lines
}

#[derive(Debug, Default)]
pub(super) struct MarkdownStream {
    unfinished: String,
    /// Bytes of `unfinished` that belong to one block.
    n_scanned: usize,
    fence: Option<Fence>,
    /// Inside the open block (in a list).
    inner_fence: Option<String>,
    is_after_blank: bool,
    /// A blank line separates the next block from finished ones.
    has_begun: bool,
    /// The list that the open block continues.
    partial_list: Option<PartialList>,
}

#[derive(Debug)]
struct PartialList {
    /// Of the items.
    mark: char,
    /// The next one.
    number: Option<u64>,
    is_loose: bool,
}

#[derive(Debug)]
struct Fence {
    mark: String,
    language: Option<Language>,
    open: OpenConstruct,
    is_first: bool,
}

impl Fence {
    fn is_closed_by(&self, trimmed: &str) -> bool {
        trimmed.starts_with(self.mark.as_str()) && trimmed.trim_start_matches(['`', '~']).is_empty()
    }
}

impl MarkdownStream {
    pub(super) fn push(&mut self, text: &str) {
        self.unfinished.push_str(text);
    }

    /// Takes the lines that do not change any more.
    pub(super) fn take_finished(&mut self, options: RenderOptions) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        while let Some(length) = self.unfinished[self.n_scanned..].find('\n') {
            let line = self.unfinished[self.n_scanned..self.n_scanned + length].to_owned();
            self.process_line(&line, length + 1, options, &mut lines);
        }
        let is_in_fence = self.fence.is_some() || self.inner_fence.is_some();
        if self.n_scanned > 0 && !is_in_fence && self.is_block_complete() {
            self.finish_block(self.n_scanned, options, &mut lines);
        }
        while self.unfinished.len() > MAX_OPEN_BYTES {
            let reach = self.unfinished.floor_char_boundary(MAX_OPEN_BYTES);
            let end = self.unfinished[..reach].rfind(['\n', ' ']).map_or(reach, |at| at + 1);
            let head = if self.n_scanned > 0 { table_head(&self.unfinished) } else { None };
            let end = match &head {
                // The last row stays: the rest of the table has at least one.
                Some(head) => {
                    let last = self.unfinished[..self.n_scanned - 1].rfind('\n').map(|at| at + 1);
                    last.filter(|last| *last > head.len()).unwrap_or(self.n_scanned)
                }
                None => self.n_scanned.max(end),
            };
            if self.fence.is_some() {
                let part = self.unfinished[..end].to_owned();
                self.push_code_line(&part, options, &mut lines);
                self.unfinished.drain(..end);
                self.n_scanned = 0;
            } else {
                self.finish_block(end, options, &mut lines);
                // Further rows of a long table are a table of their own.
                self.unfinished.insert_str(0, &head.unwrap_or_default());
            }
        }
        lines
    }

    /// Called at the end of the text.
    pub(super) fn finish(&mut self, options: RenderOptions) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if let Some(fence) = &self.fence {
            // The closing fence may be the end of the text, without a line break.
            let is_end = fence.is_closed_by(self.unfinished.trim());
            let rest = std::mem::take(&mut self.unfinished);
            for line in rest.lines().filter(|_| !is_end) {
                self.push_code_line(line, options, &mut lines);
            }
        } else {
            self.finish_block(self.unfinished.len(), options, &mut lines);
        }
        *self = Self::default();
        lines
    }

    pub(super) fn tail(&self, options: RenderOptions) -> Vec<Line<'static>> {
        if self.unfinished.trim().is_empty() {
            return Vec::new();
        }
        if let Some(fence) = &self.fence {
            // A complete or incomplete closing fence.
            let is_mark = fence.mark.starts_with(self.unfinished.trim());
            if is_mark || fence.is_closed_by(self.unfinished.trim()) {
                return Vec::new();
            }
            return vec![code_line(&self.unfinished, fence, options).0];
        }
        let text = strip_incomplete_mark(self.unfinished.trim_end());
        let is_row = text.trim_start().starts_with('|');
        let (mut lines, is_joined) = if is_row && text.lines().count() < 3 {
            // A table is recognised at its third line.
            let quiet = options.style(StyleRole::Quiet);
            let head = text.lines().next().map(|row| escape_prose(row).into_owned());
            (head.into_iter().map(|row| Line::styled(row, quiet)).collect(), false)
        } else {
            let (from, _) = text.rmatch_indices('\n').nth(LIVE_ROWS).unwrap_or_default();
            let head = table_head(&text[..from]);
            let rows = head.map(|head| head + &text[from + 1..]);
            let text = close_inline_markup(rows.as_deref().unwrap_or(text));
            let (block, is_joined) = self.render_open_block(&text, options);
            (block.lines, is_joined)
        };
        if self.has_begun && !is_joined && !lines.is_empty() {
            lines.insert(0, Line::default());
        }
        lines
    }

    /// The next line cannot change the block.
    fn is_block_complete(&self) -> bool {
        let (block, line) = self.unfinished.split_at(self.n_scanned);
        match list_item_mark(block) {
            // An item may continue after a blank line.
            Some(mark) => {
                let is_outer = line.starts_with(|char: char| !char.is_whitespace());
                let is_item =
                    || list_item_mark(line) == Some(mark) && line.contains(char::is_whitespace);
                is_outer && (self.is_after_blank || is_item())
            }
            None => self.is_after_blank,
        }
    }

    /// The flag tells whether the block continues the finished part without a blank line.
    fn render_open_block(&self, text: &str, options: RenderOptions) -> (RenderedBlock, bool) {
        let list = self.partial_list.as_ref();
        match list.filter(|list| list_item_mark(text) == Some(list.mark)) {
            Some(list) => (render_block(text, list.number, options), !list.is_loose),
            None => (render_block(text, None, options), false),
        }
    }

    fn process_line(
        &mut self,
        line: &str,
        length: usize,
        options: RenderOptions,
        lines: &mut Vec<Line<'static>>,
    ) {
        let trimmed = line.trim();
        if let Some(fence) = &self.fence {
            if fence.is_closed_by(trimmed) {
                self.fence = None;
                self.has_begun = true;
            } else {
                self.push_code_line(line, options, lines);
            }
            self.unfinished.drain(..length);
            return;
        }
        if let Some(mark) = &self.inner_fence {
            if trimmed.starts_with(mark.as_str()) {
                self.inner_fence = None;
            }
            self.n_scanned += length;
            return;
        }
        let indent = line.len() - line.trim_start().len();
        let list_mark = list_item_mark(&self.unfinished);
        let continues = list_mark.is_some() && indent >= 2;
        let is_next_item = indent < 2 && list_mark.is_some() && list_item_mark(line) == list_mark;
        if (self.is_after_blank && !continues || is_next_item) && !trimmed.is_empty() {
            self.finish_block(self.n_scanned, options, lines);
        }
        if let Some(mark) = opening_fence(trimmed) {
            if continues {
                self.inner_fence = Some(mark);
                self.n_scanned += length;
                self.is_after_blank = false;
                return;
            }
            self.finish_block(self.n_scanned, options, lines);
            let info = trimmed.trim_start_matches(['`', '~']).trim();
            let language = info.split([' ', ',', '{']).next().unwrap_or_default();
            let language = Language::from_name(language);
            let open = OpenConstruct::Nothing;
            self.fence = Some(Fence { mark, language, open, is_first: true });
            self.unfinished.drain(..length);
            self.n_scanned = 0;
            return;
        }
        self.is_after_blank = trimmed.is_empty();
        self.n_scanned += length;
    }

    /// Renders the first `end` bytes as a block, or a part of one.
    fn finish_block(&mut self, end: usize, options: RenderOptions, lines: &mut Vec<Line<'static>>) {
        let text: String = self.unfinished.drain(..end).collect();
        let is_loose = std::mem::take(&mut self.is_after_blank);
        self.n_scanned = 0;
        self.inner_fence = None;
        let (block, is_joined) = self.render_open_block(&text, options);
        if block.lines.is_empty() {
            return;
        }
        if self.has_begun && !is_joined {
            lines.push(Line::default());
        }
        self.has_begun = true;
        lines.extend(block.lines);
        let number = block.number;
        self.partial_list =
            list_item_mark(&text).map(|mark| PartialList { mark, number, is_loose });
    }

    fn push_code_line(
        &mut self,
        text: &str,
        options: RenderOptions,
        lines: &mut Vec<Line<'static>>,
    ) {
        let has_begun = self.has_begun;
        let Some(fence) = &mut self.fence else { return };
        if std::mem::take(&mut fence.is_first) && has_begun {
            lines.push(Line::default());
        }
        let (line, open) = code_line(text, fence, options);
        fence.open = open;
        lines.push(line);
    }
}

fn code_line(text: &str, fence: &Fence, options: RenderOptions) -> (Line<'static>, OpenConstruct) {
    let text = escape_prose(text);
    let (spans, open) = match fence.language {
        Some(language) => language.highlight_line(&text, fence.open, options.theme),
        None => (vec![Span::raw(text.into_owned())], OpenConstruct::Nothing),
    };
    (prefix_line(Span::raw(CODE_INDENT), spans), open)
}

fn opening_fence(trimmed: &str) -> Option<String> {
    let mark = trimmed.chars().next().filter(|char| matches!(char, '`' | '~'))?;
    let length = trimmed.chars().take_while(|char| *char == mark).count();
    // Inline code is no fence.
    let is_fence = length >= 3 && !trimmed[length..].contains('`');
    is_fence.then(|| mark.to_string().repeat(length))
}

/// The source of the header; `None`: it is no table.
fn table_head(text: &str) -> Option<String> {
    let mut lines = text.split_inclusive('\n');
    let (head, rule) = (lines.next()?, lines.next()?);
    let is_rule = rule.contains('-') && rule.chars().all(|char| "|:- \t\r\n".contains(char));
    (head.starts_with('|') && is_rule).then(|| format!("{head}{rule}"))
}

/// `-`, `*`, `+`, or the character after the number.
fn list_item_mark(text: &str) -> Option<char> {
    let text = text.trim_start();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let mark = text[digits..].chars().next()?;
    let is_mark = match digits {
        0 => matches!(mark, '-' | '*' | '+'),
        1..=9 => matches!(mark, '.' | ')'),
        _ => false,
    };
    let next = text[digits..].chars().nth(1);
    (is_mark && next.is_none_or(char::is_whitespace)).then_some(mark)
}

/// An incomplete mark would look like the end of the previous item.
fn strip_incomplete_mark(text: &str) -> &str {
    let last = text.rfind('\n').map_or(0, |at| at + 1);
    let line = text[last..].trim();
    let is_mark = matches!(line, "-" | "*" | "+" | "**" | "|")
        || line.trim_end_matches(['.', ')']).bytes().all(|byte| byte.is_ascii_digit());
    if last > 0 && is_mark { &text[..last] } else { text }
}

/// Open markup in the last paragraph should look as it will be.
fn close_inline_markup(text: &str) -> String {
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
    use super::super::theme::{Background, ColorDepth, Theme};
    use super::*;

    fn options(width: usize) -> RenderOptions {
        RenderOptions { width, theme: Theme::new(ColorDepth::None, Background::Dark) }
    }

    fn shown(lines: &[Line<'_>]) -> String {
        lines.iter().map(|line| format!("{line}\n")).collect()
    }

    const ALL: &str = "# Title\n\nSome *text* with `code`, **bold** and [a link](http://x.y).\n\
        Second line.\n\n- one\n- two\n  - three is a longer item that has to be wrapped somewhere\n\n\
        1. first\n\n   more of it\n\n2. second\n\n```rust\nfn main() {\n\n    let x = 1;\n}\n```\n\n\
        > quoted words\n\n| a | number |\n|---|---:|\n| x | 12 |\n| long cell | 3 |\n\n---\nend";

    #[test]
    fn markdown_elements_are_rendered() {
        insta::assert_snapshot!(shown(&render(ALL, options(44))));
    }

    #[test]
    fn table_fits_a_narrow_screen() {
        insta::assert_snapshot!(shown(&render(
            "| file | what is wrong with it |\n|---|---|\n| src/a.rs | the sum is never returned |\n",
            options(24)
        )));
    }

    #[test]
    fn streamed_markdown_equals_the_whole() {
        let whole = shown(&render(ALL, options(60)));
        for n in [1, 2, 3, 5, 7, 11, 40] {
            let mut stream = MarkdownStream::default();
            let mut lines = Vec::new();
            let chars: Vec<char> = ALL.chars().collect();
            for part in chars.chunks(n) {
                stream.push(&part.iter().collect::<String>());
                lines.extend(stream.take_finished(options(60)));
                stream.tail(options(60));
            }
            lines.extend(stream.finish(options(60)));
            assert_eq!(shown(&lines), whole, "parts of {n}");
        }
    }

    #[test]
    fn closing_code_fence_is_never_shown() {
        for text in
            ["```rust\nlet x = 1;\n```", "```rust\nlet x = 1;\n```\n", "~~~\nlet x = 1;\n~~~"]
        {
            assert_eq!(shown(&render(text, options(60))), "  let x = 1;\n", "{text}");
            for end in 1..=text.len() {
                let (given, open) = streamed(&text[..end], 60);
                let shown = format!("{given}{open}");
                assert!(!shown.contains("  `") && !shown.contains("  ~"), "{shown}");
            }
        }
        assert_eq!(shown(&render("```\nnot over", options(60))), "  not over\n");
    }

    /// The lines of a text that is streamed character by character, and the open rest.
    fn streamed(text: &str, columns: usize) -> (String, String) {
        let mut stream = MarkdownStream::default();
        let mut lines = Vec::new();
        for char in text.chars() {
            stream.push(&char.to_string());
            lines.extend(stream.take_finished(options(columns)));
        }
        (shown(&lines), shown(&stream.tail(options(columns))))
    }

    #[test]
    fn list_items_are_emitted_one_by_one() {
        let (given, open) =
            streamed("Things:\n\n1. one\n   more\n1. two\n   - inner\n1. three\n4", 40);
        assert_eq!(given, "Things:\n\n1. one more\n2. two\n   • inner\n");
        assert_eq!(open, "3. three\n");
        // A number alone does not continue the previous item, and a different marker starts a new
        // list.
        assert_eq!(streamed("- a\n- b\n-", 40), ("• a\n".into(), "• b\n".into()));
        assert_eq!(streamed("- a\n\n* b\n* c\n", 40).0, "• a\n\n• b\n");
        // Items separated by blank lines stay separated, and the numbering continues.
        assert_eq!(shown(&render("1. a\n\n1. b\n", options(40))), "1. a\n\n2. b\n");
    }

    #[test]
    fn very_long_table_is_printed_as_several() {
        let row = |n: usize| format!("| row {n} | {} | what row {n} is |\n", n * n);
        let rows: String = (1..=900).map(row).collect();
        let table = format!("| name | square | what |\n|---|---:|---|\n{rows}\nEnd of");
        let (given, open) = streamed(&table, 60);
        assert_eq!(open, "\nEnd of\n");
        for n in 1..=900 {
            assert_eq!(given.matches(&format!(" │ what row {n} is\n")).count(), 1, "{n}");
        }
        assert_eq!(given.matches("name ").count(), 3, "{given}");
    }

    #[test]
    fn rest_of_a_very_long_table_has_a_row() {
        let row = |n: usize| format!("| row {n} | what row {n} is, in many words |\n");
        let mut table = "| name | what |\n|---|---|\n".to_owned();
        for n in 1..=400 {
            table.push_str(&row(n));
            let whole = shown(&render(&table, options(60)));
            let last = whole.lines().next_back().unwrap_or_default();
            assert!(last.starts_with(&format!("row {n} ")), "{n}: {last}");
        }
    }

    #[test]
    fn no_word_of_a_table_is_broken() {
        let head = "| file | what |\n|---|---|\n";
        let url = "https://example.org/a/very/long/address/of/a/page.html";
        for (width, row, expected) in [
            (24, "src/a.rs | the sum is wrong", "src/a.rs │ the sum is\n         │ wrong\n"),
            (
                24,
                "a/longer/path.rs | interchangeable",
                "• file: a/longer/path.rs\n  what: interchangeable\n",
            ),
            (30, &format!("a | {url} here"), &format!("• file: a\n  what:\n  {url}\n  here\n")),
        ] {
            let table = shown(&render(&format!("{head}| {row} |\n"), options(width)));
            assert!(table.ends_with(expected), "{table}");
        }
    }

    #[test]
    fn code_is_emitted_line_by_line() {
        let mut stream = MarkdownStream::default();
        stream.push("Look:\n```sh\necho a\necho b");
        assert_eq!(shown(&stream.take_finished(options(40))), "Look:\n\n  echo a\n");
        assert_eq!(shown(&stream.tail(options(40))), "  echo b\n");
    }

    #[test]
    fn ten_megabyte_line_is_streamed_with_bounded_memory() {
        let text = "word ".repeat(2_000_000);
        let mut stream = MarkdownStream::default();
        let mut n_lines = 0;
        for part in text.as_bytes().chunks(64 * 1024) {
            stream.push(&String::from_utf8_lossy(part));
            n_lines += stream.take_finished(options(80)).len();
            assert!(stream.unfinished.len() <= 128 * 1024);
        }
        n_lines += stream.finish(options(80)).len();
        assert!(n_lines >= 125_000, "{n_lines}");
    }

    #[test]
    fn open_inline_markup_is_closed_for_display() {
        assert_eq!(close_inline_markup("a **bo"), "a **bo**");
        assert_eq!(close_inline_markup("run `x"), "run `x`");
        assert_eq!(close_inline_markup("done **b** and"), "done **b** and");
    }
}
