//! The viewer of the whole conversation on the full screen: scrolling, searching, cells in brief or
//! in full. Only visible cells are laid out, very long ones once; heights are measured once per
//! width.

use std::collections::{BTreeMap, HashSet};

use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::cells::{Cell, CellGroup, Detail, RenderOptions};
use super::keys::{Key, KeyCode};
use super::markdown;
use super::text::{prefix_line, truncate, wrap};
use super::theme::StyleRole;

/// In bytes; only this part of the streamed text is laid out.
const MAX_STREAMED_BYTES: usize = 32 * 1024;
/// The layout of a cell with at least this number of rows is stored.
const LONG_CELL_ROWS: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Viewer {
    /// In rows, with the blank one before the cell; and the basis of the measurement.
    heights: Vec<usize>,
    render_options: Option<RenderOptions>,
    /// Leading cells that were complete at the last measurement.
    n_complete: usize,
    long_cells: BTreeMap<usize, Vec<Line<'static>>>,
    /// The first visible row of the conversation.
    top: usize,
    /// The value of `top` at which the end is visible.
    last_top: usize,
    follows_end: bool,
    selected: usize,
    /// Cells whose detail differs from the others.
    toggled: HashSet<usize>,
    all_full: bool,
    search: Option<Search>,
    has_details: bool,
}

#[derive(Debug, Default)]
struct Search {
    query: String,
    is_typing: bool,
    matching_cells: Vec<usize>,
    /// A cell and one of its rows.
    position: Option<(usize, usize)>,
}

/// A cell for each line.
#[derive(Debug)]
pub(super) struct PageViewer {
    pub(super) cells: Vec<Cell>,
    pub(super) viewer: Viewer,
}

impl PageViewer {
    pub(super) fn new(page: Cell, at_end: bool) -> Self {
        let cells = page.into_page_lines();
        let viewer = Viewer { has_details: false, ..Viewer::at_end(cells.len(), true) };
        let viewer =
            if at_end { viewer } else { Viewer { follows_end: false, selected: 0, ..viewer } };
        Self { cells, viewer }
    }
}

impl Viewer {
    pub(super) fn at_end(n_cells: usize, all_full: bool) -> Self {
        let selected = n_cells.saturating_sub(1);
        Self { follows_end: true, selected, all_full, has_details: true, ..Self::default() }
    }

    fn detail(&self, at: usize) -> Detail {
        if self.all_full == self.toggled.contains(&at) { Detail::Brief } else { Detail::Full }
    }

    /// A blank row, and the lines wrapped to the screen.
    fn rows(&self, cells: &[Cell], at: usize, options: RenderOptions) -> Vec<Line<'static>> {
        let mut rows = Vec::new();
        let is_text = |cell: &Cell| cell.group() == CellGroup::Text;
        if at > 0 && (is_text(&cells[at]) || is_text(&cells[at - 1])) {
            rows.push(Line::default());
        }
        let lines = cells[at].lines(options, self.detail(at));
        rows.extend(wrap_lines(lines, options.width));
        rows
    }

    /// The last cells may still change and are measured each time.
    fn measure(&mut self, cells: &[Cell], options: RenderOptions) {
        if self.render_options != Some(options) {
            self.invalidate_from(0);
            self.render_options = Some(options);
        }
        // Cells that were running at the last measurement may have ended.
        let last = self.heights.len().saturating_sub(1);
        // What the model received is added to the note before it.
        let is_open = matches!(cells.get(last), Some(Cell::Kernel(_)));
        let n_unchanged = if is_open { last } else { cells.len() };
        self.invalidate_from(self.n_complete.min(n_unchanged));
        self.n_complete = cells.iter().position(|cell| !cell.is_done()).unwrap_or(cells.len());
        for at in self.heights.len()..cells.len() {
            let rows = self.rows(cells, at, options);
            self.heights.push(rows.len());
            if rows.len() > LONG_CELL_ROWS {
                self.long_cells.insert(at, rows);
            }
        }
    }

    fn invalidate_from(&mut self, from: usize) {
        self.n_complete = self.n_complete.min(from);
        self.heights.truncate(from);
        self.long_cells.split_off(&from);
    }

    pub(super) fn draw(
        &mut self,
        cells: &[Cell],
        streamed_text: &str,
        options: RenderOptions,
        height: usize,
    ) -> Vec<Line<'static>> {
        let inner = RenderOptions { width: options.width.saturating_sub(2).max(1), ..options };
        self.measure(cells, inner);
        self.selected = self.selected.min(cells.len().saturating_sub(1));
        let mut end = Vec::new();
        if !streamed_text.is_empty() {
            // Of a very long answer only the end is laid out until it is complete.
            let from = streamed_text
                .ceil_char_boundary(streamed_text.len().saturating_sub(MAX_STREAMED_BYTES));
            end.push(Line::default());
            end.extend(wrap_lines(markdown::render(&streamed_text[from..], inner), inner.width));
        }
        let total = self.heights.iter().sum::<usize>() + end.len();
        self.last_top = total.saturating_sub(height);
        if self.follows_end {
            self.top = self.last_top;
        }
        self.top = self.top.min(self.last_top);
        let mut rows = Vec::with_capacity(height);
        let mut row = 0;
        let bar = options.span("▌ ", StyleRole::User);
        for (at, cell_height) in self.heights.iter().enumerate() {
            if row + cell_height > self.top && rows.len() < height {
                let (skip, room) = (self.top.saturating_sub(row), height - rows.len());
                let lines: Vec<_> = match self.long_cells.get(&at) {
                    Some(lines) => lines.iter().skip(skip).take(room).cloned().collect(),
                    None => self.rows(cells, at, inner).into_iter().skip(skip).take(room).collect(),
                };
                for line in lines {
                    let is_marked = at == self.selected && !line.spans.is_empty();
                    let mark = if is_marked { bar.clone() } else { "  ".into() };
                    rows.push(self.highlight_search(prefix_line(mark, line.spans), options));
                }
            }
            row += cell_height;
            if rows.len() >= height {
                break;
            }
        }
        let skip = self.top.saturating_sub(row);
        let rest = end.into_iter().skip(skip).take(height.saturating_sub(rows.len()));
        rows.extend(rest.map(|line| prefix_line("  ".into(), line.spans)));
        rows
    }

    fn highlight_search(&self, line: Line<'static>, options: RenderOptions) -> Line<'static> {
        let query = self.search.as_ref().map(|search| search.query.to_lowercase());
        let Some(query) = query.filter(|query| !query.is_empty()) else { return line };
        let spans = line.spans.into_iter().flat_map(|span| {
            let lower = span.content.to_lowercase();
            // If lower case changes the number of bytes, nothing is highlighted.
            let at = (lower.len() == span.content.len()).then(|| lower.find(&query)).flatten();
            let Some(at) = at.filter(|at| {
                span.content.is_char_boundary(*at)
                    && span.content.is_char_boundary(at + query.len())
            }) else {
                return vec![span];
            };
            let (before, rest) = span.content.split_at(at);
            let (found, after) = rest.split_at(query.len());
            let style = options.style(StyleRole::Warn).add_modifier(Modifier::REVERSED);
            vec![
                Span::styled(before.to_owned(), span.style),
                Span::styled(found.to_owned(), style),
                Span::styled(after.to_owned(), span.style),
            ]
        });
        spans.collect()
    }

    pub(super) fn status_line(
        &self,
        n_cells: usize,
        is_asked: bool,
        options: RenderOptions,
    ) -> Line<'static> {
        let quiet = options.style(StyleRole::Quiet);
        if let Some(search) = self.search.as_ref().filter(|search| search.is_typing) {
            return Line::from(format!("/{}▏", search.query));
        }
        let found = self.search.as_ref().map_or_else(String::new, |search| {
            let places = match search.matching_cells.len() {
                0 => "nowhere".to_owned(),
                1 => "in 1 place".to_owned(),
                n => format!("in {n} places, n next"),
            };
            format!("“{}” {places} · ", search.query)
        });
        // The key that closes the viewer is never cut off.
        let waits = if is_asked { "a question waits · " } else { "" };
        let details = if self.has_details { "Enter open · a all · " } else { "" };
        let text = format!(
            "{}/{n_cells} · {waits}{found}q close · ↑↓ move · {details}/ search",
            self.selected + 1
        );
        Line::styled(truncate(&text, options.width), quiet)
    }

    /// True if the key closes the viewer.
    pub(super) fn handle_key(&mut self, key: Key, cells: &[Cell], height: usize) -> bool {
        if let Some(search) = self.search.as_mut().filter(|search| search.is_typing) {
            match (key.code, key.typed_char()) {
                (_, Some(char)) => search.query.push(char),
                (KeyCode::Backspace, _) => {
                    search.query.pop();
                }
                (KeyCode::Enter, _) => {
                    let query = search.query.to_lowercase();
                    search.is_typing = false;
                    let fits = |at: &usize| {
                        !query.is_empty() && cells[*at].text().to_lowercase().contains(&query)
                    };
                    search.matching_cells = (0..cells.len()).filter(fits).collect();
                    search.position = None;
                    self.show_next_match(true, cells, height);
                }
                (KeyCode::Esc, _) => self.search = None,
                _ => {}
            }
            return false;
        }
        let page = height.saturating_sub(2).max(1);
        match (key.code, key.ctrl) {
            (KeyCode::Char('q') | KeyCode::Esc, false) | (KeyCode::Char('c' | 't'), true) => {
                return true;
            }
            (KeyCode::Up | KeyCode::Char('k'), false) | (KeyCode::Char('p'), true) => {
                self.select(-1);
            }
            (KeyCode::Down | KeyCode::Char('j'), false) | (KeyCode::Char('n'), true) => {
                self.select(1);
            }
            (KeyCode::PageUp | KeyCode::Char('b'), _) => self.scroll_up(page),
            (KeyCode::PageDown | KeyCode::Char(' ' | 'f'), _) => self.scroll_down(page),
            (KeyCode::Char('u'), _) => self.scroll_up(page / 2),
            (KeyCode::Char('d'), _) => self.scroll_down(page / 2),
            (KeyCode::Home | KeyCode::Char('g'), _) => {
                (self.top, self.selected, self.follows_end) = (0, 0, false);
            }
            (KeyCode::End | KeyCode::Char('G'), _) => {
                (self.selected, self.follows_end) = (cells.len().saturating_sub(1), true);
            }
            (KeyCode::Enter, _) => {
                self.toggle(self.selected);
                self.follows_end = false;
            }
            (KeyCode::Char('a'), false) => {
                self.all_full = !self.all_full;
                self.toggled.clear();
                self.invalidate_from(0);
            }
            (KeyCode::Char('/'), _) => {
                self.search = Some(Search { is_typing: true, ..Search::default() });
            }
            (KeyCode::Char('n'), false) => self.show_next_match(true, cells, height),
            (KeyCode::Char('N'), false) => self.show_next_match(false, cells, height),
            _ => {}
        }
        false
    }

    fn scroll_up(&mut self, rows: usize) {
        self.top = self.top.saturating_sub(rows);
        self.follows_end = false;
        self.selected = self.cell_at(self.top);
    }

    fn scroll_down(&mut self, rows: usize) {
        self.top += rows;
        self.follows_end = self.top >= self.last_top;
        self.selected = self.cell_at(self.top);
    }

    fn cell_at(&self, row: usize) -> usize {
        let mut end = 0;
        let at = self.heights.iter().position(|height| {
            end += height;
            end > row
        });
        at.unwrap_or(self.heights.len().saturating_sub(1))
    }

    fn select(&mut self, by: isize) {
        self.selected =
            self.selected.saturating_add_signed(by).min(self.heights.len().saturating_sub(1));
        self.show_selected();
    }

    fn show_selected(&mut self) {
        self.top = self.heights.iter().take(self.selected).sum();
        self.follows_end = false;
    }

    /// The match is in the same cell, or in the next one that contains the text.
    fn show_next_match(&mut self, forward: bool, cells: &[Cell], height: usize) {
        let Some(search) = &self.search else { return };
        let next = |from: usize, among: &[usize]| {
            let mut among = among.iter().copied();
            if forward { among.find(|at| *at > from) } else { among.rev().find(|at| *at < from) }
        };
        let here = search.position.filter(|(cell, _)| *cell == self.selected);
        let end_of = |among: &[usize]| {
            let end = if forward { among.first() } else { among.last() };
            end.copied()
        };
        let matching = &search.matching_cells;
        let cell = next(self.selected, matching).or_else(|| end_of(matching));
        let in_same =
            here.and_then(|(cell, row)| Some((cell, next(row, &self.matching_rows(cells, cell))?)));
        let at = in_same.or_else(|| {
            let cell = cell?;
            let mut rows = self.matching_rows(cells, cell);
            if rows.is_empty() && self.detail(cell) == Detail::Brief {
                self.toggle(cell);
                rows = self.matching_rows(cells, cell);
            }
            // (A match in a wrapped text is in no row.)
            Some((cell, end_of(&rows).unwrap_or(0)))
        });
        let (Some((cell, row)), Some(options)) = (at, self.render_options) else { return };
        self.measure(cells, options);
        self.selected = cell;
        self.show_selected();
        self.top += row.saturating_sub(height / 3);
        if let Some(search) = &mut self.search {
            search.position = at;
        }
    }

    fn matching_rows(&self, cells: &[Cell], at: usize) -> Vec<usize> {
        let (Some(search), Some(options)) = (&self.search, self.render_options) else {
            return Vec::new();
        };
        let query = search.query.to_lowercase();
        let matches = |rows: &[Line<'_>]| {
            let fits = |n: &usize| rows[*n].to_string().to_lowercase().contains(&query);
            (0..rows.len()).filter(fits).collect()
        };
        match self.long_cells.get(&at) {
            Some(rows) => matches(rows),
            None => matches(&self.rows(cells, at, options)),
        }
    }

    fn toggle(&mut self, at: usize) {
        if !self.toggled.remove(&at) {
            self.toggled.insert(at);
        }
        self.invalidate_from(at);
    }
}

/// Lines of code and addresses may be wider than the screen.
fn wrap_lines(lines: Vec<Line<'static>>, columns: usize) -> Vec<Line<'static>> {
    let fitted = lines.into_iter().flat_map(|line| {
        let style = line.style;
        let rows = wrap(&line.spans, columns, false).into_iter();
        rows.map(move |spans| Line::from(spans).style(style))
    });
    fitted.collect()
}
