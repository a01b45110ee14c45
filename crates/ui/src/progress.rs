//! The progress of a long command on standard error: a bar in a terminal, else a line for each step.

use std::io::{self, IsTerminal as _};

use super::put;
use agent_protocol::shorten;
use agent_protocol::visible::prose;

/// Width of the bar, and limit of the text behind it.
const WIDTH: usize = 24;
const MAX_TEXT: usize = 60;

/// The progress. Dropping it removes the bar.
#[derive(Debug)]
pub struct Progress {
    total: usize,
    is_terminal: bool,
}

impl Progress {
    /// Of this many steps.
    pub fn new(total: usize) -> Self {
        Self { total, is_terminal: io::stderr().is_terminal() }
    }

    /// A step has ended. In a terminal the line is shown only if it `matters`.
    pub fn step(&self, n_done: usize, line: &str, matters: bool) {
        if matters || !self.is_terminal {
            let count = format!("{n_done}/{}", self.total);
            self.clear();
            put(&mut io::stderr(), &format!("{count} {}\n", prose(line).replace('\n', " ")));
        }
        self.bar(n_done, line);
    }

    /// Draws the bar.
    pub fn bar(&self, n_done: usize, text: &str) {
        if self.is_terminal {
            let full = (n_done * WIDTH).checked_div(self.total).unwrap_or(WIDTH);
            let bar = format!("{}{}", "█".repeat(full), "░".repeat(WIDTH.saturating_sub(full)));
            let text = shorten(&prose(text).replace('\n', " "), MAX_TEXT);
            let line = format!("\r\x1b[2K{bar} {n_done}/{} {text}", self.total);
            put(&mut io::stderr(), &line);
        }
    }

    fn clear(&self) {
        if self.is_terminal {
            put(&mut io::stderr(), "\r\x1b[2K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
