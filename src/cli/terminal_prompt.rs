//! Questions at the terminal.

use std::io::{BufRead as _, IsTerminal as _};

use crate::app::OpenError;

/// Without a terminal this is an error: `about` says what needs confirmation, and that `--yes`
/// confirms it.
pub(super) fn confirm(question: &str, about: &str) -> Result<bool, OpenError> {
    if !std::io::stdin().is_terminal() {
        return Err(OpenError::Usage(format!(
            "there is no terminal to ask {about}; confirm with --yes"
        )));
    }
    agent_ui::print_notice(&format!("{question} [y/N]"));
    Ok(matches!(read_answer()?.as_str(), "y" | "Y" | "yes"))
}

pub(super) fn choose(question: &str, choices: &[String]) -> Result<usize, OpenError> {
    let lines = choices.iter().enumerate();
    let lines: String = lines.map(|(n, choice)| format!("{:>3}  {choice}\n", n + 1)).collect();
    agent_ui::print_notice(&format!("{question}:\n{lines}which one? [1-{}]", choices.len()));
    let answer = read_answer()?;
    let picked = answer.parse().ok().filter(|n| (1..=choices.len()).contains(n));
    let nothing = || {
        OpenError::Usage(format!(
            "{answer:?}: nothing was done; run it again and enter a number from 1 to {}",
            choices.len()
        ))
    };
    picked.map(|n: usize| n - 1).ok_or_else(nothing)
}

fn read_answer() -> Result<String, OpenError> {
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| OpenError::Usage(format!("standard input: {error}")))?;
    Ok(answer.trim().to_owned())
}
