//! What a running command wrote last, told now and then to who watches it.

use std::time::Duration;

use tokio::time::Instant;

/// Told the last lines that a command wrote.
pub type Watcher<'a> = Box<dyn FnMut(&str) + Send + 'a>;

/// Who is done sooner is not watched.
const FIRST: Duration = Duration::from_millis(200);
/// Nobody reads more often.
const PAUSE: Duration = Duration::from_millis(100);
/// So much of the output is shown.
const MOST_LINES: usize = 10;
const MOST_BYTES: usize = 2 * 1024;

/// What was written last, and when that is told next.
pub(super) struct Live<'a> {
    watcher: Watcher<'a>,
    tail: Vec<u8>,
    has_news: bool,
    next: Instant,
}

impl<'a> Live<'a> {
    pub(super) fn new(watcher: Watcher<'a>) -> Self {
        Self { watcher, tail: Vec::new(), has_news: false, next: Instant::now() + FIRST }
    }

    /// It wrote this.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.has_news = true;
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(MOST_BYTES)..]);
        self.tail.drain(..self.tail.len().saturating_sub(MOST_BYTES));
    }

    /// When there is something to tell, if there is.
    pub(super) fn due(&self) -> Option<Instant> {
        self.has_news.then_some(self.next)
    }

    /// Tells it.
    pub(super) fn tell(&mut self) {
        (self.watcher)(&last_lines(&self.tail));
        self.has_news = false;
        self.next = Instant::now() + PAUSE;
    }
}

/// The last lines, the first of them whole where there are several.
fn last_lines(tail: &[u8]) -> String {
    let text = String::from_utf8_lossy(tail);
    let text = text.trim_end_matches('\n');
    let is_cut = tail.len() >= MOST_BYTES;
    let lines: Vec<&str> = text.split('\n').collect();
    let n_wanted = lines.len().min(MOST_LINES);
    let first =
        if is_cut && n_wanted == lines.len() && n_wanted > 1 { 1 } else { lines.len() - n_wanted };
    lines[first..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_output_shows_the_last_lines() {
        assert_eq!(last_lines(b"a\nb\n"), "a\nb");
        let many: String = (1..=30).map(|n| format!("{n}\n")).collect();
        assert_eq!(last_lines(many.as_bytes()).lines().next(), Some("21"));
        let long = format!("{}\nx\ny", "a".repeat(MOST_BYTES - 4));
        assert_eq!(last_lines(long.as_bytes()), "x\ny");
        let one = "a".repeat(MOST_BYTES);
        assert_eq!(last_lines(one.as_bytes()), one);
    }
}
