//! Files with which people extend the agent: their discovery and parsing.
//!
//! `app/` decides what they mean for a session.

pub mod commands;
pub mod folders;
pub mod front_matter;
pub mod roles;
pub mod skills;

use agent_protocol::one_line;
use front_matter::FrontMatter;

/// From the front matter, else the first line of the text.
fn one_line_description(matter: &FrontMatter, text: &str) -> String {
    let first_line = || {
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        line.trim_start_matches('#').to_owned()
    };
    let description = matter.text("description").filter(|it| !it.trim().is_empty());
    let description = description.unwrap_or_else(first_line);
    one_line(&description)
}

/// YAML reads `[file]` as a list.
fn argument_hint(matter: &FrontMatter) -> String {
    let listed = || {
        let words = matter.list("argument-hint")?;
        Some(format!("[{}]", words.join(", ")))
    };
    let hint = matter.text("argument-hint").or_else(listed).unwrap_or_default();
    one_line(&hint)
}

/// Without blanks, which separate a command from its arguments.
fn is_command_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || "-_.:".contains(letter);
    !name.is_empty() && name.chars().all(is_letter)
}
