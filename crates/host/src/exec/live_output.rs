//! Passes the latest output of a running command to a watcher at intervals.

use std::time::Duration;

use tokio::time::Instant;

/// Receives the last lines of the output.
pub type OutputListener<'a> = Box<dyn FnMut(&str) + Send + 'a>;

/// Shorter commands are not watched.
const FIRST: Duration = Duration::from_millis(200);
/// A command that has written nothing is reported once, after this time.
const SILENT: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);
const MAX_LINES: usize = 10;
const MAX_BYTES: usize = 2 * 1024;

pub(super) struct LiveOutput<'a> {
    watcher: OutputListener<'a>,
    tail: Vec<u8>,
    has_new_output: bool,
    next: Instant,
    silent: Option<Instant>,
}

impl<'a> LiveOutput<'a> {
    pub(super) fn new(watcher: OutputListener<'a>) -> Self {
        let now = Instant::now();
        let (next, silent) = (now + FIRST, Some(now + SILENT));
        Self { watcher, tail: Vec::new(), has_new_output: false, next, silent }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        self.has_new_output = true;
        self.tail.extend_from_slice(&piece[piece.len().saturating_sub(MAX_BYTES)..]);
        self.tail.drain(..self.tail.len().saturating_sub(MAX_BYTES));
    }

    pub(super) fn next_notification(&self) -> Option<Instant> {
        if self.has_new_output { Some(self.next) } else { self.silent }
    }

    pub(super) fn notify_watcher(&mut self) {
        (self.watcher)(&last_lines(&self.tail));
        self.has_new_output = false;
        self.silent = None;
        self.next = Instant::now() + PAUSE;
    }
}

/// The first of several lines is complete.
fn last_lines(tail: &[u8]) -> String {
    let text = String::from_utf8_lossy(tail);
    let text = text.trim_end_matches('\n');
    let lines: Vec<&str> = text.split('\n').collect();
    let is_first_cut = tail.len() >= MAX_BYTES && lines.len() > 1;
    let first = lines.len().saturating_sub(MAX_LINES).max(usize::from(is_first_cut));
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
        let long = format!("{}\nx\ny", "a".repeat(MAX_BYTES - 4));
        assert_eq!(last_lines(long.as_bytes()), "x\ny");
        let one = "a".repeat(MAX_BYTES);
        assert_eq!(last_lines(one.as_bytes()), one);
    }
}
