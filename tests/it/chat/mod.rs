//! The chat, driven as by a user: in a pseudo-terminal and in tmux.

mod approvals;
mod background;
mod bad_input;
mod cells;
mod commands;
mod composer;
mod directives;
mod docs;
mod gnu_screen;
mod hidden_text;
mod manners;
mod pages;
mod planning;
pub(crate) mod pty;
mod queue;
mod requests;
mod session_commands;
mod settings;
mod shape;
mod spending;
mod steering;
mod tasks;
mod tmux;

use crate::support::Test;
pub(crate) use pty::Pty;

impl Pty {
    /// The chat with the test's script.
    pub(crate) fn chat(test: &Test, args: &[&str]) -> Self {
        let mut all = vec!["--model", "script:../script"];
        all.extend(args);
        Self::start(test, &all, 24, 80, "xterm-256color")
    }

    /// The program with these arguments in the test's project.
    pub(crate) fn start(test: &Test, args: &[&str], rows: u16, cols: u16, term: &str) -> Self {
        Self::spawn(&test.command(args), rows, cols, term)
    }
}
