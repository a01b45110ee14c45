//! The commands of the chat: one line each, in the order in which they are offered.

use crate::protocol::directives::UserInput;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Says what there is.
    Help,
    /// Says which model answers, or takes another.
    Model,
    /// Says how freely the agent may act, or changes it.
    Mode,
    /// Lists the permission rules, or removes one of this session.
    Permissions,
    /// Shows the plan.
    Plan,
    /// Undoes what a turn changed.
    Undo,
    /// Takes the latest undo back.
    Redo,
    /// Goes back to what was before a turn.
    Rewind,
    /// Shows what the session changed.
    Diff,
    /// Lists the sessions of this project.
    Sessions,
    /// Resumes another session.
    Resume,
    /// Summarises the older part of the conversation.
    Compact,
    /// Shows how much of the window each layer takes.
    Context,
    /// Pins words of the user's.
    Pin,
    /// Shows the pins.
    Pins,
    /// Takes a pin away.
    Unpin,
    /// Shows what is remembered of earlier sessions, or forgets one thing.
    Memory,
    /// Begins a new session.
    Clear,
    /// Shows what happened, step by step.
    Trace,
    /// Shows tokens and money.
    Cost,
    /// Copies the last answer.
    Copy,
    /// Writes the conversation to a file.
    Export,
    /// Shows the configuration.
    Config,
    /// Changes the colours.
    Theme,
    /// Shows the keys.
    Keys,
    /// Checks what works here.
    Doctor,
    /// Ends the chat.
    Quit,
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// What it does.
    pub deed: Deed,
    /// Its name, without the slash.
    pub name: &'static str,
    /// What may stand behind it.
    pub args: &'static str,
    /// One line for people.
    pub what: &'static str,
}

const fn command(
    deed: Deed,
    name: &'static str,
    args: &'static str,
    what: &'static str,
) -> Command {
    Command { deed, name, args, what }
}

/// Every command.
pub const COMMANDS: &[Command] = &[
    command(Deed::Help, "help", "", "what there is, and the most useful keys"),
    command(Deed::Model, "model", "[PROVIDER/MODEL]", "which model answers, or another"),
    command(Deed::Mode, "mode", "[MODE]", "how freely the agent may act"),
    command(
        Deed::Permissions,
        "permissions",
        "[remove NUMBER]",
        "the permission rules; remove one of this session",
    ),
    command(Deed::Plan, "plan", "", "the plan, whole"),
    command(Deed::Undo, "undo", "[TURN] [force] [git]", "undo the file changes of a turn"),
    command(Deed::Redo, "redo", "", "take the latest undo back"),
    command(
        Deed::Rewind,
        "rewind",
        "TURN [files|conversation]",
        "go back to before a turn: files, conversation or both",
    ),
    command(Deed::Diff, "diff", "", "what this session changed, outside git too"),
    command(Deed::Sessions, "sessions", "", "the sessions of this project"),
    command(Deed::Resume, "resume", "ID", "resume another session"),
    command(Deed::Compact, "compact", "[FOCUS]", "summarise what is older"),
    command(Deed::Context, "context", "", "what takes how much of the model's window"),
    command(Deed::Pin, "pin", "WORDS", "keep words for the whole session"),
    command(Deed::Pins, "pins", "", "the pins of this session"),
    command(Deed::Unpin, "unpin", "NUMBER", "remove a pin"),
    command(Deed::Memory, "memory", "[show|forget ID]", "what earlier sessions taught here"),
    command(Deed::Clear, "clear", "", "begin a new session; this one stays recorded"),
    command(Deed::Trace, "trace", "", "what happened in this session, step by step"),
    command(Deed::Cost, "cost", "", "tokens and money of this session"),
    command(Deed::Copy, "copy", "", "copy the last answer"),
    command(Deed::Export, "export", "[FILE]", "write the conversation to a file, as Markdown"),
    command(Deed::Config, "config", "", "the configuration, and where each value came from"),
    command(Deed::Theme, "theme", "[dark|light]", "colours for a dark or a light background"),
    command(Deed::Keys, "keys", "", "every key and what it does"),
    command(Deed::Doctor, "doctor", "", "check what works here, and how to fix what does not"),
    command(Deed::Quit, "quit", "", "end the chat; `agent -c` resumes it"),
];

/// The command that is called so here, or by those who come from another program.
pub fn built_in(name: &str) -> Option<&'static Command> {
    let name = match name {
        "exit" | "q" => "quit",
        "new" | "reset" => "clear",
        "approvals" => "permissions",
        "status" | "usage" => "cost",
        "settings" => "config",
        "todos" => "plan",
        name => name,
    };
    COMMANDS.iter().find(|command| command.name == name)
}

/// A command of the user's own, from `.agent/commands/NAME.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCommand {
    /// Its name: the file's, without `.md`.
    pub name: String,
    /// One line for people: the first of the file.
    pub what: String,
    /// What is sent; `$ARGUMENTS` is what stands behind the command.
    pub text: String,
}

impl OwnCommand {
    /// What is sent for these arguments. Only they are the user's own words.
    pub fn message(&self, arguments: &str) -> UserInput {
        let mut message = UserInput::default();
        let text = self.text.trim_end();
        let mut parts = text.split("$ARGUMENTS");
        message.push_pasted(parts.next().unwrap_or_default());
        for part in parts {
            message.text.push_str(arguments);
            message.push_pasted(part);
        }
        if !text.contains("$ARGUMENTS") && !arguments.is_empty() {
            message.text.push_str("\n\n");
            message.text.push_str(arguments);
        }
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn custom_command_takes_arguments() {
        let own =
            |text: &str| OwnCommand { name: "x".into(), what: String::new(), text: text.into() };
        let sent = |text: &str, arguments: &str| own(text).message(arguments).text;
        assert_eq!(sent("Fix $ARGUMENTS now\n", "a.rs"), "Fix a.rs now");
        assert_eq!(sent("Review.\n", "a.rs"), "Review.\n\na.rs");
        assert_eq!(sent("Review.\n", ""), "Review.");
        let message = own("Don't touch src.\n$ARGUMENTS").message("Don't touch a.rs.");
        let sentences: Vec<String> = message.directives().into_iter().map(|(_, it)| it).collect();
        assert_eq!(sentences, ["Don't touch a.rs."], "the file's words are not the user's");
    }
}
