//! The progress of a long command on standard error: a bar in a terminal, else a line for each
//! step.

use std::io::{self, IsTerminal as _};

use super::write_text;
use agent_protocol::shorten;
use agent_protocol::terminal_escape::escape_prose;

/// In columns; also limits the text behind the bar.
const WIDTH: usize = 24;
const MAX_TEXT: usize = 60;

/// A progress bar. Dropping it removes the bar.
#[derive(Debug)]
pub struct ProgressBar {
    total: usize,
    is_terminal: bool,
}

impl ProgressBar {
    /// Creates a bar of `total` steps.
    pub fn new(total: usize) -> Self {
        Self { total, is_terminal: io::stderr().is_terminal() }
    }

    /// Reports that a step has ended. In a terminal the line is shown only if it `matters`.
    pub fn finish_step(&self, n_done: usize, line: &str, matters: bool) {
        if matters || !self.is_terminal {
            let count = format!("{n_done}/{}", self.total);
            self.clear();
            write_text(
                &mut io::stderr(),
                format!("{count} {}\n", escape_prose(line).replace('\n', " ")),
            );
        }
        self.draw(n_done, line);
    }

    /// Draws the bar.
    pub fn draw(&self, n_done: usize, text: &str) {
        if self.is_terminal {
            let full = (n_done * WIDTH).checked_div(self.total).unwrap_or(WIDTH);
            let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH.saturating_sub(full)));
            let text = shorten(&escape_prose(text).replace('\n', " "), MAX_TEXT);
            let line = format!("\r\x1b[2K{bar} {n_done}/{} {text}", self.total);
            write_text(&mut io::stderr(), line);
        }
    }

    fn clear(&self) {
        if self.is_terminal {
            write_text(&mut io::stderr(), "\r\x1b[2K");
        }
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        self.clear();
    }
}
