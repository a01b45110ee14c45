//! A question to the person at the terminal.

use std::io::{BufRead as _, IsTerminal as _};

use crate::app::OpenError;
use crate::ui;

/// The person says yes. Where nobody can be asked that is an error: `about` is what would have been asked, and the
/// command's `--yes` answers it.
pub(super) fn is_agreed(question: &str, about: &str) -> Result<bool, OpenError> {
    if !std::io::stdin().is_terminal() {
        return Err(OpenError::Usage(format!(
            "nobody can be asked {about}; --yes says so beforehand"
        )));
    }
    ui::tell(&format!("{question} [y/N]"));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| OpenError::Usage(format!("standard input: {error}")))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
