//! Writes the terminal's screen: the scrollback is printed once and scrolls by itself; below it is
//! a small live area, of which only changes are written.
//!
//! All positions are relative to the start of the live area, so that the terminal is never queried.
//! While nothing is typed, the cursor rests there: when the terminal rewraps its lines after a
//! resize, the cursor moves with its text, and marks the live area.

use std::ops::Range;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::text::{find_addresses, width};
use agent_protocol::terminal_escape::escape_prose;

#[derive(Debug, Default)]
pub(super) struct LiveArea {
    pub(super) lines: Vec<Line<'static>>,
    /// Row and column; `None`: hidden, at the beginning.
    pub(super) cursor: Option<(usize, usize)>,
}

#[derive(Debug)]
pub(super) struct Screen {
    columns: usize,
    rows: Vec<Vec<Cell>>,
    cursor: (usize, usize),
    position: AreaPosition,
    is_stale: bool,
    shows_cursor: bool,
    pub(super) features: TerminalFeatures,
}

/// What a terminal can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TerminalFeatures {
    /// It rewraps long lines when it becomes narrower.
    pub(super) reflows: bool,
    /// Addresses in the scrollback are hyperlinks (OSC 8).
    pub(super) has_hyperlinks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AreaPosition {
    Below,
    /// The alternate screen: row 0 is its top.
    Whole,
}

const BEGIN_SYNC: &str = "\x1b[?2026h";
const END_SYNC: &str = "\x1b[?2026l";

impl Screen {
    /// The area starts at the cursor, which is at the beginning of a line.
    pub(super) fn inline(columns: usize, features: TerminalFeatures) -> Self {
        let columns = columns.max(1);
        Self {
            columns,
            rows: Vec::new(),
            cursor: (0, 0),
            position: AreaPosition::Below,
            is_stale: true,
            shows_cursor: true,
            features,
        }
    }

    pub(super) fn full(columns: usize) -> Self {
        Self { position: AreaPosition::Whole, ..Self::inline(columns, TerminalFeatures::default()) }
    }

    /// Another program may have written to the terminal, too.
    pub(super) fn resize(&mut self, columns: usize) {
        let columns = columns.max(1);
        if self.position == AreaPosition::Below && self.features.reflows && columns < self.columns {
            let (row, column) = self.cursor;
            let above =
                self.rows.iter().take(row).map(|row| used_columns(row).div_ceil(columns).max(1));
            self.cursor.0 = above.sum::<usize>() + column / columns;
        }
        self.columns = columns;
        self.is_stale = true;
    }

    /// The next frame rewrites everything below the scrollback.
    pub(super) fn invalidate(&mut self) {
        self.is_stale = true;
        self.shows_cursor = true;
    }

    pub(super) fn render_frame(&mut self, history: &[Line<'_>], live: &LiveArea) -> Vec<u8> {
        let n_there = self.count_shown_lines(history);
        let history = &history[n_there..];
        let rows = self.render_rows(&live.lines);
        let target = live.cursor.unwrap_or((0, 0));
        let is_same = history.is_empty() && !self.is_stale && rows == self.rows[n_there..];
        if n_there == 0 && is_same && target == self.cursor {
            return Vec::new();
        }
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(BEGIN_SYNC.as_bytes());
        if self.shows_cursor {
            out.extend_from_slice(b"\x1b[?25l");
        }
        if n_there > 0 {
            self.move_cursor(&mut out, (n_there, 0));
            self.rows.drain(..n_there);
            self.cursor = (0, 0);
        }
        if !is_same {
            if self.is_stale || !history.is_empty() {
                self.write_all(&mut out, history, &rows);
            } else {
                self.write_changes(&mut out, &rows);
            }
        }
        self.move_cursor(&mut out, target);
        self.shows_cursor = live.cursor.is_some();
        if self.shows_cursor {
            out.extend_from_slice(b"\x1b[?25h");
        }
        out.extend_from_slice(END_SYNC.as_bytes());
        self.rows = rows;
        self.is_stale = false;
        out
    }

    /// The new scrollback lines that the live area already shows at its beginning: they stay there.
    fn count_shown_lines(&self, history: &[Line<'_>]) -> usize {
        if self.is_stale || self.position == AreaPosition::Whole {
            return 0;
        }
        let is_there = |(line, row): &(&Line<'_>, &Vec<Cell>)| {
            line.width() <= self.columns
                && self.hyperlinks(line).is_empty()
                && self.render_rows(std::slice::from_ref(*line))[0] == **row
        };
        // One row of the live area has to remain, for the cursor to rest in.
        let rows = &self.rows[..self.rows.len().saturating_sub(1)];
        history.iter().zip(rows).take_while(is_there).count()
    }

    /// Where the hyperlinks of a line begin and end, and the sequences there.
    fn hyperlinks(&self, line: &Line<'_>) -> Vec<(usize, String)> {
        if !self.features.has_hyperlinks {
            return Vec::new();
        }
        let text: String = line.spans.iter().map(shown_text).collect();
        let mut addresses = find_addresses(&text);
        // One that fills the line to its end may be cut.
        addresses.retain(|address| address.end < text.len() || line.width() != self.columns);
        let sequence = |address: &str| format!("\x1b]8;;{address}\x1b\\");
        let ends =
            |at: Range<usize>| [(at.start, sequence(&text[at.clone()])), (at.end, sequence(""))];
        addresses.into_iter().flat_map(ends).collect()
    }

    /// Moves the cursor to the start of the area.
    pub(super) fn erase_live_area(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.move_cursor(&mut out, (0, 0));
        out.extend_from_slice(b"\x1b[0m\x1b[J\x1b[?25h");
        self.rows.clear();
        self.is_stale = true;
        self.shows_cursor = true;
        out
    }

    /// Writes over the existing content.
    fn write_all(&mut self, out: &mut Vec<u8>, history: &[Line<'_>], rows: &[Vec<Cell>]) {
        self.move_cursor(out, (0, 0));
        // Some terminals copy a screen that is erased from the first cell on to the scrollback.
        out.extend_from_slice(b" \x1b[J\r\x1b[K");
        for line in history {
            write_line(out, line, &self.hyperlinks(line));
            out.extend_from_slice(b"\r\n");
        }
        // A row that is too long because the terminal just became narrower is cut, not wrapped.
        out.extend_from_slice(b"\x1b[?7l");
        for (n, row) in rows.iter().enumerate() {
            if n > 0 {
                out.extend_from_slice(b"\r\n");
            }
            write_cells(out, row, 0, used_columns(row));
        }
        self.cursor =
            (rows.len().saturating_sub(1), rows.last().map_or(0, |row| used_columns(row)));
        out.extend_from_slice(b"\x1b[?7h");
    }

    fn write_changes(&mut self, out: &mut Vec<u8>, rows: &[Vec<Cell>]) {
        out.extend_from_slice(b"\x1b[?7l");
        self.insert_rows(out, rows);
        let n_before = self.rows.len();
        for (n, row) in rows.iter().enumerate() {
            if n >= n_before {
                // A new row: after the last one, where the screen may have to scroll.
                self.move_cursor(out, (n - 1, 0));
                out.extend_from_slice(b"\r\n\x1b[K");
                self.cursor = (n, 0);
                write_cells(out, row, 0, used_columns(row));
                self.cursor.1 = used_columns(row);
                continue;
            }
            let before = std::mem::take(&mut self.rows[n]);
            let Some(first) = (0..self.columns).find(|at| before.get(*at) != row.get(*at)) else {
                continue;
            };
            let (was, is) = (used_columns(&before), used_columns(row));
            let last =
                (0..self.columns).rfind(|at| before.get(*at) != row.get(*at)).unwrap_or(first);
            // A wide character is written from its first column on.
            let start = wide_start(row, first).min(wide_start(&before, first)).min(is);
            let end = is.min(last + 1).max(start);
            self.move_cursor(out, (n, start));
            write_cells(out, row, start, end);
            self.cursor.1 = end;
            if was > is {
                self.move_cursor(out, (n, is));
                if is < self.columns {
                    out.extend_from_slice(b"\x1b[K");
                }
            }
        }
        if rows.len() < n_before {
            let last = rows.len().saturating_sub(1);
            let end = rows.last().map_or(0, |row| used_columns(row));
            self.move_cursor(out, (last, end.min(self.columns - 1)));
            // If the row is full, its last character is written again.
            out.extend_from_slice(b"\x1b[J");
            if let Some(row) = rows.last().filter(|_| end >= self.columns) {
                write_cells(out, row, wide_start(row, self.columns - 1), end);
            }
        }
        out.extend_from_slice(b"\x1b[?7h");
    }

    /// Moves unchanged rows down instead of rewriting them.
    fn insert_rows(&mut self, out: &mut Vec<u8>, rows: &[Vec<Cell>]) {
        let n_before = self.rows.len();
        let pairs = self.rows.iter().rev().zip(rows.iter().rev());
        let n_same = pairs.take_while(|(before, row)| before == row).count();
        let n_more = rows.len().saturating_sub(n_before);
        if self.position == AreaPosition::Whole || n_more == 0 || n_same == 0 {
            return;
        }
        // After the last row, where the screen may have to scroll, to make space.
        self.move_cursor(out, (n_before - 1, 0));
        self.move_cursor(out, (n_before - 1 + n_more, 0));
        self.move_cursor(out, (n_before - n_same, 0));
        out.extend(format!("\x1b[{n_more}L").bytes());
        let at = n_before - n_same;
        self.rows.splice(at..at, std::iter::repeat_n(Vec::new(), n_more));
    }

    fn move_cursor(&mut self, out: &mut Vec<u8>, (row, column): (usize, usize)) {
        if self.position == AreaPosition::Whole {
            out.extend(format!("\x1b[{};{}H", row + 1, column + 1).bytes());
        } else {
            let (from, _) = self.cursor;
            match row.cmp(&from) {
                std::cmp::Ordering::Less => out.extend(format!("\x1b[{}A", from - row).bytes()),
                // Line feeds scroll if rows are missing; "down" would stop at the last row.
                std::cmp::Ordering::Greater => out.extend(std::iter::repeat_n(b'\n', row - from)),
                std::cmp::Ordering::Equal => {}
            }
            match column {
                0 => out.push(b'\r'),
                column => out.extend(format!("\x1b[{}G", column + 1).bytes()),
            }
        }
        self.cursor = (row, column);
    }

    fn render_rows(&self, lines: &[Line<'_>]) -> Vec<Vec<Cell>> {
        let columns = u16::try_from(self.columns).unwrap_or(u16::MAX);
        let rows = lines.iter().map(|line| {
            let mut buffer = Buffer::empty(Rect::new(0, 0, columns, 1));
            buffer.set_line(0, 0, line, columns);
            let mut cells = buffer.content;
            let end = used_columns(&cells);
            cells.truncate(end);
            cells
        });
        rows.collect()
    }
}

/// The number of columns up to the last non-blank one.
fn used_columns(row: &[Cell]) -> usize {
    let last = row.iter().rposition(|cell| !is_blank(cell));
    last.map_or(0, |at| at + width(row[at].symbol()).max(1))
}

fn is_blank(cell: &Cell) -> bool {
    cell.symbol() == " " && !cell.modifier.contains(Modifier::REVERSED) && cell.bg == Color::Reset
}

/// The first column of the character that covers this one.
fn wide_start(row: &[Cell], at: usize) -> usize {
    let before = at.checked_sub(1).and_then(|before| row.get(before));
    if before.is_some_and(|cell| width(cell.symbol()) > 1) { at - 1 } else { at }
}

/// A text that was not escaped must not act on the terminal either, nor take more rows.
fn shown_text(span: &Span<'_>) -> String {
    escape_prose(&span.content).replace('\n', " ")
}

fn write_line(out: &mut Vec<u8>, line: &Line<'_>, hyperlinks: &[(usize, String)]) {
    let mut hyperlinks = hyperlinks.iter().peekable();
    let mut from = 0;
    for span in &line.spans {
        let style = line.style.patch(span.style);
        let is_styled = style != Style::default();
        if is_styled {
            out.extend(sgr_sequence(style.fg, style.bg, style.add_modifier).bytes());
        }
        let text = shown_text(span);
        let mut n_written = 0;
        while let Some((at, sequence)) = hyperlinks.next_if(|(at, _)| *at <= from + text.len()) {
            out.extend_from_slice(&text.as_bytes()[n_written..at - from]);
            out.extend_from_slice(sequence.as_bytes());
            n_written = at - from;
        }
        out.extend_from_slice(&text.as_bytes()[n_written..]);
        from += text.len();
        if is_styled {
            out.extend_from_slice(b"\x1b[0m");
        }
    }
}

fn write_cells(out: &mut Vec<u8>, row: &[Cell], from: usize, to: usize) {
    let plain = Cell::default();
    let mut style = (plain.fg, plain.bg, plain.modifier);
    let mut at = from;
    while let Some(cell) = row.get(at).filter(|_| at < to) {
        let now = (cell.fg, cell.bg, cell.modifier);
        if now != style {
            out.extend_from_slice(b"\x1b[0m");
            if now != (plain.fg, plain.bg, plain.modifier) {
                out.extend(sgr_sequence(Some(cell.fg), Some(cell.bg), cell.modifier).bytes());
            }
            style = now;
        }
        out.extend_from_slice(cell.symbol().as_bytes());
        at += width(cell.symbol()).max(1);
    }
    if style != (plain.fg, plain.bg, plain.modifier) {
        out.extend_from_slice(b"\x1b[0m");
    }
}

/// The sequence changes the default style to this one.
fn sgr_sequence(fg: Option<Color>, bg: Option<Color>, modifier: Modifier) -> String {
    const MODIFIERS: [(Modifier, &str); 6] = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::CROSSED_OUT, "9"),
    ];
    let set = MODIFIERS.iter().filter(|(single, _)| modifier.contains(*single));
    let mut codes: Vec<String> = set.map(|(_, code)| (*code).to_owned()).collect();
    codes.extend(fg.and_then(|color| color_code(color, 30)));
    codes.extend(bg.and_then(|color| color_code(color, 40)));
    if codes.is_empty() { String::new() } else { format!("\x1b[{}m", codes.join(";")) }
}

fn color_code(color: Color, base: usize) -> Option<String> {
    use Color::{Black, Blue, Cyan, DarkGray, Gray, Green, Indexed, Magenta, Red, Rgb, Yellow};
    // (Themes name no other colours.)
    const NAMED: [Color; 9] = [Black, Red, Green, Yellow, Blue, Magenta, Cyan, Gray, DarkGray];
    Some(match color {
        Rgb(red, green, blue) => format!("{};2;{red};{green};{blue}", base + 8),
        Indexed(index) => format!("{};5;{index}", base + 8),
        named => match NAMED.iter().position(|color| *color == named)? {
            8 => (base + 60).to_string(),
            at => (base + at).to_string(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct TestTerminal {
        parser: vt100::Parser,
        screen: Screen,
        columns: u16,
    }

    impl TestTerminal {
        fn new(rows: u16, columns: u16) -> Self {
            let screen = Screen::inline(usize::from(columns), TerminalFeatures::default());
            Self { parser: vt100::Parser::new(rows, columns, 10_000), screen, columns }
        }

        fn frame(&mut self, history: &[&str], live: &[&str], cursor: Option<(usize, usize)>) {
            let raw = |text: &&str| Line::raw((*text).to_owned());
            let history: Vec<Line<'_>> = history.iter().map(raw).collect();
            let live = LiveArea { lines: live.iter().map(raw).collect(), cursor };
            let bytes = self.screen.render_frame(&history, &live);
            self.parser.process(&bytes);
        }

        /// Starts with the scrollback; trailing blank rows are left out.
        fn all(&mut self) -> Vec<String> {
            let screen = self.parser.screen_mut();
            screen.set_scrollback(usize::MAX);
            let n_back = screen.scrollback();
            let mut rows = Vec::new();
            let (height, columns) = screen.size();
            for back in (0..=n_back).rev() {
                screen.set_scrollback(back);
                let mut shown = screen.rows(0, columns);
                if back > 0 {
                    rows.extend(shown.next());
                } else {
                    rows.extend(shown.take(usize::from(height)));
                }
            }
            while rows.last().is_some_and(String::is_empty) {
                rows.pop();
            }
            rows
        }
    }

    #[test]
    fn history_scrolls_up_above_the_live_area() {
        let mut terminal = TestTerminal::new(10, 30);
        let mut expected = Vec::new();
        for n in 0..300 {
            let line = format!("line {n}");
            let more = ["live", "area", "three"];
            terminal.frame(&[&line], &more[..=(n % 3)], Some((0, 2)));
            expected.push(line);
        }
        terminal.frame(&[], &["› ", "status"], Some((0, 2)));
        expected.extend(["›".to_owned(), "status".to_owned()]);
        let shown: Vec<String> =
            terminal.all().iter().map(|row| row.trim_end().to_owned()).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn only_changed_cells_are_written() {
        let mut terminal = TestTerminal::new(10, 40);
        terminal.frame(&["first"], &["the answer so far", "› ", "12 s"], Some((1, 2)));
        let live = |text: &str, time: &str| LiveArea {
            lines: vec![Line::raw(text.to_owned()), Line::raw("› "), Line::raw(time.to_owned())],
            cursor: Some((1, 2)),
        };
        let bytes = terminal.screen.render_frame(&[], &live("the answer so far and", "12 s"));
        assert!(bytes.len() < 70, "{}", String::from_utf8_lossy(&bytes));
        terminal.parser.process(&bytes);
        assert!(
            terminal.screen.render_frame(&[], &live("the answer so far and", "12 s")).is_empty()
        );
        let bytes = terminal.screen.render_frame(&[], &live("the", "1 s"));
        terminal.parser.process(&bytes);
        assert_eq!(terminal.all(), ["first", "the", "›", "1 s"]);
    }

    #[test]
    fn displayed_lines_become_history_without_a_rewrite() {
        let mut terminal = TestTerminal::new(6, 40);
        for n in 0..20 {
            let words = format!("paragraph {n} of many, a long one");
            terminal.frame(&[], &[&words, "", "› ", "1 s"], None);
            let raw = |text: &str| Line::raw(text.to_owned());
            let live = LiveArea { lines: vec![raw(""), raw("› "), raw("1 s")], cursor: None };
            let bytes = terminal.screen.render_frame(&[raw(&words)], &live);
            assert!(bytes.len() < 60, "{}", String::from_utf8_lossy(&bytes));
            terminal.parser.process(&bytes);
        }
        let expected: Vec<String> = (0..20)
            .map(|n| format!("paragraph {n} of many, a long one"))
            .chain([String::new(), "›".into(), "1 s".into()])
            .collect();
        assert_eq!(terminal.all(), expected);
    }

    #[test]
    fn lines_below_growing_text_are_scrolled_and_not_rewritten() {
        let mut terminal = TestTerminal::new(8, 40);
        terminal.frame(&["first", "second", "third"], &["", "› ", "a long status line"], None);
        let mut lines = Vec::new();
        for n in 0..4 {
            lines.push(Line::raw(format!("line {n}")));
            let footer = ["", "› ", "a long status line"].map(|text| Line::raw(text.to_owned()));
            let live =
                LiveArea { lines: lines.iter().cloned().chain(footer).collect(), cursor: None };
            let bytes = terminal.screen.render_frame(&[], &live);
            assert!(!String::from_utf8_lossy(&bytes).contains("status"), "{n}");
            terminal.parser.process(&bytes);
        }
        let expected =
            ["first", "second", "third", "line 0", "line 1", "line 2", "line 3", "", "›"];
        assert_eq!(terminal.all()[..9], expected);
        assert_eq!(terminal.all()[9..], ["a long status line"]);
    }

    #[test]
    fn wide_characters_are_replaced_as_a_whole() {
        let mut terminal = TestTerminal::new(5, 20);
        for live in ["a中文b", "a中x", "中中中", "a b", "ab中", "", "xy中文"] {
            terminal.frame(&[], &[live, "end"], None);
            let rows = terminal.all();
            assert_eq!((rows[0].as_str(), rows[1].as_str()), (live, "end"));
        }
    }

    #[test]
    fn history_line_of_exact_screen_width_is_complete() {
        let mut terminal = TestTerminal::new(6, 10);
        terminal.frame(&[], &["live one", "live two", "live three"], None);
        terminal.frame(&["0123456789", "01234567890123", "x"], &["l"], None);
        assert_eq!(terminal.all(), ["0123456789", "0123456789", "0123", "x", "l"]);
    }

    #[test]
    fn live_area_is_found_after_a_resize() {
        let mut terminal = TestTerminal::new(12, 40);
        for n in 0..100 {
            // A terminal that truncates lines does not move the cursor.
            terminal.columns = 20 + (n * 7) % 30;
            let (height, _) = terminal.parser.screen().size();
            terminal.parser.screen_mut().set_size(height, terminal.columns);
            terminal.screen.resize(usize::from(terminal.columns));
            terminal.frame(&[&format!("line {n}")], &["live", "area"], Some((1, 3)));
        }
        let shown = terminal.all();
        let expected: Vec<String> =
            (0..100).map(|n| format!("line {n}")).chain(["live".into(), "area".into()]).collect();
        assert_eq!(shown, expected);
    }
}
