//! Files with which people extend the agent: their discovery and parsing.
//!
//! It knows the files only. What they mean for a session is decided in `app/`.

pub mod commands;
pub mod folders;
pub mod front_matter;
pub mod roles;
pub mod skills;

use front_matter::FrontMatter;

/// A description in one line: of the front matter, else the first line of the text.
fn one_line_description(matter: &FrontMatter, text: &str) -> String {
    let first_line = || {
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        line.trim_start_matches('#').to_owned()
    };
    let description = matter.text("description").filter(|it| !it.trim().is_empty());
    let description = description.unwrap_or_else(first_line);
    description.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The arguments for display: a text, or a list as YAML reads `[file]`.
fn argument_hint(matter: &FrontMatter) -> String {
    let listed = || {
        let words = matter.list("argument-hint")?;
        Some(format!("[{}]", words.join(", ")))
    };
    let hint = matter.text("argument-hint").or_else(listed).unwrap_or_default();
    hint.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The name of a command: without blanks, which separate it from its arguments.
fn is_command_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || "-_.:".contains(letter);
    !name.is_empty() && name.chars().all(is_letter)
}
