//! Yes-or-no questions at the terminal.

use std::io::{BufRead as _, IsTerminal as _};

use crate::app::OpenError;
use crate::ui;

/// Whether the user agrees. Without a terminal this is an error: `about` says what needs confirmation, and
/// that `--yes` confirms it.
pub(super) fn is_agreed(question: &str, about: &str) -> Result<bool, OpenError> {
    if !std::io::stdin().is_terminal() {
        return Err(OpenError::Usage(format!(
            "there is no terminal to ask {about}; confirm with --yes"
        )));
    }
    ui::tell(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| OpenError::Usage(format!("standard input: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
