//! Renders tables of Markdown within the available width.

use pulldown_cmark::Alignment;
use ratatui::text::{Line, Span};

use crate::tui::cells::RenderOptions;
use crate::tui::text::{width, wrap};
use crate::tui::theme::StyleRole;

/// May contain only further rows of a table.
pub(super) struct Table {
    pub(super) alignments: Vec<Alignment>,
    /// Includes the header.
    pub(super) rows: Vec<Vec<Vec<Span<'static>>>>,
    /// Set if not all rows are known.
    pub(super) columns: Option<Vec<usize>>,
    pub(super) is_header_printed: bool,
}

impl Table {
    /// Columns are as wide as required, or as space permits; narrow screens get one line per field.
    pub(super) fn lines(&self, options: RenderOptions) -> Vec<Line<'static>> {
        const BETWEEN: &str = " │ ";
        let mut widths = self.columns.clone().unwrap_or_else(|| self.required_widths());
        let n_columns = widths.len();
        if n_columns == 0 {
            return Vec::new();
        }
        let room = options.width.saturating_sub(3 * (n_columns - 1));
        if room < 6 * n_columns && widths.iter().sum::<usize>() > room {
            return self.to_field_lines(options);
        }
        // The widest column is narrowed first.
        while widths.iter().sum::<usize>() > room {
            let over = widths.iter().sum::<usize>() - room;
            let mut sorted = widths.clone();
            sorted.sort_unstable();
            let widest = sorted[n_columns - 1];
            let second = sorted.iter().rev().find(|w| **w < widest).copied().unwrap_or(0);
            let at = widths.iter().position(|w| *w == widest).unwrap_or(0);
            widths[at] -= over.min((widest - second).max(1)).min(widest - 1);
        }
        let quiet = options.style(StyleRole::Quiet);
        let mut lines = Vec::new();
        let first = usize::from(self.is_header_printed);
        for (n, row) in self.rows.iter().enumerate().skip(first) {
            let cells: Vec<Vec<Vec<Span<'static>>>> = (0..n_columns)
                .map(|at| wrap(row.get(at).map_or(&[][..], Vec::as_slice), widths[at]))
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
                // The last column has no following one: its rule ends with the widest cell.
                let needed = self.required_widths();
                let rules = widths.iter().enumerate().map(|(at, width)| {
                    let is_last = at + 1 == n_columns;
                    "─".repeat(if is_last { needed[at].min(*width) } else { *width })
                });
                let rules: Vec<String> = rules.collect();
                lines.push(Line::styled(rules.join("─┼─"), quiet));
            }
        }
        lines
    }

    pub(super) fn required_widths(&self) -> Vec<usize> {
        let n_columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell_width = |cell: &Vec<Span<'_>>| cell.iter().map(|s| width(&s.content)).sum();
        let needed = (0..n_columns).map(|at| {
            let cells = self.rows.iter().filter_map(|row| row.get(at));
            cells.map(cell_width).max().unwrap_or(0).max(1)
        });
        needed.collect()
    }

    fn to_field_lines(&self, options: RenderOptions) -> Vec<Line<'static>> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let bold = options.style(StyleRole::Strong);
        let mut lines = Vec::new();
        for row in rows {
            for (at, cell) in row.iter().enumerate() {
                let name: String =
                    head.get(at).into_iter().flatten().map(|span| &*span.content).collect();
                let mark = Span::raw(if at == 0 { "• " } else { "  " });
                let mut spans = vec![Span::styled(format!("{name}: "), bold)];
                spans.extend(cell.iter().cloned());
                lines.extend(options.wrap(&mark, &Span::raw("  "), &spans));
            }
        }
        lines
    }
}
