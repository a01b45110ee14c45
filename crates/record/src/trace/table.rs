//! Tables of plain text: columns of equal width, in at most 80 columns if the cells are short enough.

#[derive(Debug, Default)]
pub(super) struct Table(Vec<Vec<String>>);

impl Table {
    pub(super) fn new(head: &[&str]) -> Self {
        Self(vec![head.iter().map(|cell| (*cell).to_owned()).collect()])
    }

    pub(super) fn add_row(&mut self, cells: Vec<String>) {
        self.0.push(cells);
    }

    /// The first `n_left` columns are aligned left, the others right; the first column is at least this wide.
    pub(super) fn render(&self, n_left: usize, first: usize) -> String {
        let n_columns = self.0.iter().map(Vec::len).max().unwrap_or_default();
        let cells = |column: usize| self.0.iter().filter_map(move |row| row.get(column));
        let mut widths: Vec<usize> = (0..n_columns)
            .map(|column| cells(column).map(|cell| cell.chars().count()).max().unwrap_or_default())
            .collect();
        if let Some(width) = widths.first_mut() {
            *width = first.max(*width);
        }
        let mut text = String::new();
        for row in &self.0 {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column < n_left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Formats milliseconds: `0.3 s`, `12m 05s`, `3h 07m`.
pub(super) fn format_duration(ms: u64) -> String {
    let seconds = ms / 1000;
    if seconds < 60 {
        return format!("{seconds}.{} s", ms % 1000 / 100);
    }
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    if minutes < 60 {
        return format!("{minutes}m {seconds:02}s");
    }
    format!("{}h {:02}m", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["tool", "calls"]);
        table.add_row(vec!["Read".to_owned(), "12".to_owned()]);
        assert_eq!(table.render(1, 6), "tool    calls\nRead       12\n");
        assert_eq!(table.render(2, 0), "tool  calls\nRead  12\n");
    }

    #[test]
    fn durations_have_two_units() {
        let cases = [(0, "0.0 s"), (1234, "1.2 s"), (65_000, "1m 05s"), (3_725_000, "1h 02m")];
        for (ms, expected) in cases {
            assert_eq!(format_duration(ms), expected);
        }
    }
}
