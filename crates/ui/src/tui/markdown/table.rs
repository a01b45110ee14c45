//! Renders tables of Markdown within the available width.

use pulldown_cmark::Alignment;
use ratatui::text::{Line, Span};

use crate::tui::cells::RenderOptions;
use crate::tui::text::{longest_word, width, wrap};
use crate::tui::theme::StyleRole;

pub(super) struct Table {
    pub(super) alignments: Vec<Alignment>,
    /// Includes the header.
    pub(super) rows: Vec<Vec<Vec<Span<'static>>>>,
}

/// The widths that the rows need.
struct ColumnWidths {
    /// Of the widest cell of each column.
    cells: Vec<usize>,
    /// Of the longest word of each column.
    words: Vec<usize>,
}

impl ColumnWidths {
    /// The widths of the columns on a screen; `None` if a word would have to be broken.
    fn fit(&self, screen_width: usize) -> Option<Vec<usize>> {
        let between = width(BETWEEN) * self.cells.len().saturating_sub(1);
        let room = screen_width.saturating_sub(between);
        let mut widths: Vec<usize> = self.cells.iter().map(|column| *column.min(&room)).collect();
        // The widest column is narrowed first.
        while widths.iter().sum::<usize>() > room {
            let columns =
                widths.iter_mut().zip(&self.words).filter(|(width, word)| **width > **word);
            *columns.max_by_key(|(width, _)| **width)?.0 -= 1;
        }
        Some(widths)
    }
}

const BETWEEN: &str = " │ ";

impl Table {
    /// Columns are as wide as required, or as space permits. Rows that do not fit get one line per field.
    pub(super) fn lines(&self, options: RenderOptions) -> Vec<Line<'static>> {
        let widths = self.required_widths().fit(options.width).unwrap_or_default();
        let n_columns = widths.len();
        let quiet = options.style(StyleRole::Quiet);
        let mut lines = Vec::new();
        let first = usize::from(widths.is_empty());
        for (n, row) in self.rows.iter().enumerate().skip(first) {
            let fits = |(cell, width): (&Vec<Span<'_>>, &usize)| longest_word(cell) <= *width;
            if widths.is_empty() || !row.iter().zip(&widths).all(fits) {
                lines.extend(self.record_lines(row, options));
                continue;
            }
            let cells: Vec<Vec<Vec<Span<'static>>>> = (0..n_columns)
                .map(|at| wrap(row.get(at).map_or(&[][..], Vec::as_slice), widths[at], false))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(1);
            for line in 0..height {
                let mut spans = Vec::new();
                for (at, cell) in cells.iter().enumerate() {
                    if at > 0 {
                        spans.push(Span::styled(BETWEEN, quiet));
                    }
                    let text = cell.get(line).cloned().unwrap_or_default();
                    let used: usize = text.iter().map(|span| width(&span.content)).sum();
                    let free = widths[at].saturating_sub(used);
                    let before = match self.alignments.get(at) {
                        Some(Alignment::Right) => free,
                        Some(Alignment::Center) => free / 2,
                        Some(Alignment::Left | Alignment::None) | None => 0,
                    };
                    let bold = options.style(StyleRole::Strong);
                    let text = text.into_iter().map(|span| {
                        let style = if n == 0 { span.style.patch(bold) } else { span.style };
                        Span::styled(span.content, style)
                    });
                    spans.push(Span::raw(" ".repeat(before)));
                    spans.extend(text);
                    if at + 1 < n_columns {
                        spans.push(Span::raw(" ".repeat(free - before)));
                    }
                }
                lines.push(Line::from(spans));
            }
            if n == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(Line::styled(rules.join("─┼─"), quiet));
            }
        }
        lines
    }

    fn required_widths(&self) -> ColumnWidths {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let needed = |measure: fn(&[Span<'_>]) -> usize| {
            let columns = (0..n_columns).map(|at| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.map(|cell| measure(cell)).max().unwrap_or(0).max(1)
            });
            columns.collect()
        };
        let cell_width = |cell: &[Span<'_>]| cell.iter().map(|span| width(&span.content)).sum();
        ColumnWidths { cells: needed(cell_width), words: needed(longest_word) }
    }

    fn record_lines(
        &self,
        row: &[Vec<Span<'static>>],
        options: RenderOptions,
    ) -> Vec<Line<'static>> {
        let head = self.rows.first();
        let lines = row.iter().enumerate().flat_map(|(at, cell)| {
            let name = head.and_then(|head| head.get(at)).into_iter().flatten();
            let name: String = name.map(|span| &*span.content).collect();
            let mark = Span::raw(if at == 0 { "• " } else { "  " });
            let mut spans = vec![options.span(format!("{name}: "), StyleRole::Strong)];
            spans.extend(cell.iter().cloned());
            options.wrap_prose(&mark, &Span::raw("  "), &spans)
        });
        lines.collect()
    }
}
