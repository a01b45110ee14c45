//! Renders one block of Markdown to lines.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::table::Table;
use super::{Fence, code_line};
use crate::tui::cells::RenderOptions;
use crate::tui::highlight::{Language, OpenConstruct};
use crate::tui::text::{prefix_line, width};
use crate::tui::theme::StyleRole;
use agent_protocol::terminal_escape::escape_prose;

pub(super) struct RenderedBlock {
    pub(super) lines: Vec<Line<'static>>,
    /// The next number of an ordered list.
    pub(super) number: Option<u64>,
}

/// `first_number`: that of an ordered list.
pub(super) fn render_block(
    text: &str,
    first_number: Option<u64>,
    options: RenderOptions,
) -> RenderedBlock {
    let text = escape_prose(text);
    let extensions =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let mut block = BlockRenderer {
        options,
        first_number,
        number: None,
        lines: Vec::new(),
        spans: Vec::new(),
        styles: vec![options.style(StyleRole::Text)],
        prefixes: Vec::new(),
        lists: Vec::new(),
        link: None,
        link_from: 0,
        code: None,
        table: None,
    };
    for event in Parser::new_ext(&text, extensions) {
        block.handle_event(event);
    }
    block.flush_line();
    RenderedBlock { lines: block.lines, number: block.number }
}

struct Prefix {
    first: Option<Span<'static>>,
    rest: Span<'static>,
}

struct BlockRenderer {
    options: RenderOptions,
    first_number: Option<u64>,
    number: Option<u64>,
    lines: Vec<Line<'static>>,
    spans: Vec<Span<'static>>,
    styles: Vec<Style>,
    prefixes: Vec<Prefix>,
    lists: Vec<Option<u64>>,
    link: Option<String>,
    link_from: usize,
    code: Option<Fence>,
    table: Option<Table>,
}

impl BlockRenderer {
    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn handle_event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => self.end_tag(tag),
            Event::Text(text) => self.push_text(&text),
            Event::Code(code) => {
                let is_colored = self.options.theme.is_colored();
                let code = if is_colored { code.into_string() } else { format!("`{code}`") };
                self.spans.push(self.options.span(code, StyleRole::Code));
            }
            Event::SoftBreak => self.push_span(" "),
            Event::HardBreak => self.flush_line(),
            Event::Rule => {
                self.separate_block();
                let rule = "─".repeat(self.options.width.min(40));
                self.lines.push(Line::styled(rule, self.options.style(StyleRole::Quiet)));
            }
            Event::TaskListMarker(done) => {
                // The checkbox replaces the item's mark.
                let mark = Span::raw(if done { "☑ " } else { "☐ " });
                if let Some(item) = self.prefixes.last_mut() {
                    item.first = Some(mark);
                }
            }
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => {
                for (n, line) in text.lines().enumerate() {
                    if n > 0 {
                        self.flush_line();
                    }
                    self.push_span(line);
                }
                if text.ends_with('\n') {
                    self.flush_line();
                }
            }
        }
    }

    fn push_span(&mut self, text: &str) {
        self.spans.push(Span::styled(text.to_owned(), self.style()));
    }

    fn push_text(&mut self, text: &str) {
        let Some(fence) = &mut self.code else { return self.push_span(text) };
        for line in text.lines() {
            let (line, open) = code_line(line, fence, self.options);
            fence.open = open;
            let prefix: String = self.prefixes.iter().map(|prefix| &*prefix.rest.content).collect();
            self.lines.push(prefix_line(Span::raw(prefix), line.spans));
        }
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.separate_block(),
            Tag::Heading { level, .. } => {
                self.separate_block();
                let style = self.options.style(StyleRole::Strong);
                let style = match level {
                    HeadingLevel::H1 => style.add_modifier(Modifier::UNDERLINED),
                    _ => style,
                };
                self.styles.push(style);
            }
            Tag::BlockQuote(_) => {
                self.separate_block();
                let bar = self.options.span("│ ", StyleRole::Quiet);
                self.prefixes.push(Prefix { first: None, rest: bar });
                self.styles.push(self.style().patch(self.options.style(StyleRole::Quiet)));
            }
            Tag::CodeBlock(kind) => {
                self.flush_line();
                if self.lists.is_empty() {
                    self.separate_block();
                }
                let language = match kind {
                    CodeBlockKind::Fenced(info) => Language::from_name(&info),
                    CodeBlockKind::Indented => None,
                };
                let (mark, open) = (String::new(), OpenConstruct::Nothing);
                self.code = Some(Fence { mark, language, open, is_first: false });
            }
            Tag::List(first) => {
                self.flush_line();
                if self.lists.is_empty() {
                    self.separate_block();
                }
                // A continued list continues its numbering.
                let first = first.map(|first| {
                    self.first_number.filter(|_| self.lists.is_empty()).unwrap_or(first)
                });
                self.lists.push(first);
            }
            Tag::Item => {
                let is_outer = self.lists.len() == 1;
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        let this = *number;
                        *number = this.saturating_add(1);
                        if is_outer {
                            self.number = Some(*number);
                        }
                        format!("{this}. ")
                    }
                    Some(None) | None => "• ".to_owned(),
                };
                let rest = Span::raw(" ".repeat(width(&mark)));
                let first = self.options.span(mark, StyleRole::Quiet);
                self.prefixes.push(Prefix { first: Some(first), rest });
            }
            Tag::Emphasis => self.styles.push(self.style().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(self.style().add_modifier(Modifier::BOLD)),
            Tag::Strikethrough => {
                self.styles.push(self.style().add_modifier(Modifier::CROSSED_OUT));
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.link = Some(dest_url.into_string());
                self.link_from = self.spans.len();
                self.styles.push(self.options.style(StyleRole::Link));
            }
            Tag::Table(alignments) => {
                self.separate_block();
                self.table = Some(Table { alignments, rows: Vec::new() });
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.rows.push(Vec::new());
                }
            }
            // (Other elements are not enabled.)
            _ => {}
        }
    }

    fn end_tag(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.flush_line(),
            TagEnd::Heading(_) => {
                self.flush_line();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.flush_line();
                self.prefixes.pop();
                self.styles.pop();
            }
            TagEnd::CodeBlock => self.code = None,
            TagEnd::List(_) => {
                self.flush_line();
                self.lists.pop();
            }
            TagEnd::Item => {
                self.flush_line();
                // An item without text still has its mark.
                if let Some(Prefix { first: Some(mark), .. }) = self.prefixes.pop() {
                    self.lines.push(Line::from(mark));
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                if let Some(url) = self.link.take() {
                    let text: String =
                        self.spans[self.link_from..].iter().map(|span| &*span.content).collect();
                    if !url.is_empty() && text != url && format!("mailto:{text}") != url {
                        self.spans.push(self.options.span(format!(" ({url})"), StyleRole::Quiet));
                    }
                }
            }
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.spans);
                if let Some(row) = self.table.as_mut().and_then(|table| table.rows.last_mut()) {
                    row.push(cell);
                }
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    self.lines.extend(table.lines(self.options));
                }
            }
            _ => {}
        }
    }

    /// Lists contain no blank lines.
    fn separate_block(&mut self) {
        self.flush_line();
        if !self.lines.is_empty() && self.lists.is_empty() {
            self.lines.push(Line::default());
        }
    }

    fn flush_line(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        let spans = std::mem::take(&mut self.spans);
        let mut first = String::new();
        let mut rest = String::new();
        let mut style = Style::default();
        for prefix in &mut self.prefixes {
            style = prefix.first.as_ref().unwrap_or(&prefix.rest).style;
            rest.push_str(&prefix.rest.content);
            match prefix.first.take() {
                Some(mark) => first.push_str(&mark.content),
                None => first.push_str(&prefix.rest.content),
            }
        }
        let (first, rest) = (Span::styled(first, style), Span::styled(rest, style));
        self.lines.extend(self.options.wrap_prose(&first, &rest, &spans));
    }
}
