//! Files with which people extend the agent: their discovery and parsing.
//!
//! `app/` decides what they mean for a session.

pub mod commands;
pub mod folders;
pub mod front_matter;
pub mod roles;
pub mod skills;

use agent_protocol::custom_command::CustomCommand;
use agent_protocol::one_line;
use front_matter::FrontMatter;

/// Limit of the name of a skill or role, in characters.
const MAX_NAME: usize = 64;

/// From the front matter, else the first line of the text.
fn one_line_description(matter: &FrontMatter, text: &str) -> String {
    let first_line = || {
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        line.trim_start_matches('#').to_owned()
    };
    let description = matter.text("description").filter(|it| !it.trim().is_empty());
    one_line(&description.unwrap_or_else(first_line))
}

fn custom_command(
    name: String,
    description: String,
    matter: &FrontMatter,
    text: &str,
) -> CustomCommand {
    // YAML reads `[file]` as a list.
    let listed = || Some(format!("[{}]", matter.list("argument-hint")?.join(", ")));
    let hint = matter.text("argument-hint").or_else(listed).unwrap_or_default();
    CustomCommand {
        name,
        description,
        argument_hint: one_line(&hint),
        parameters: matter.list("arguments").unwrap_or_default(),
        text: text.trim().to_owned(),
        ..CustomCommand::default()
    }
}

pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.chars().count() > MAX_NAME || name.chars().any(char::is_control) {
        return Err(format!("its name is not one line of at most {MAX_NAME} characters"));
    }
    Ok(())
}

/// Without blanks, which separate a command from its arguments.
fn is_command_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_alphanumeric() || "-_.:".contains(letter);
    !name.is_empty() && name.chars().all(is_letter)
}
