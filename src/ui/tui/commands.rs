//! The commands of the chat: one line each, in the order in which they are offered.

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
    /// Goes on with another session.
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
    command(Deed::Resume, "resume", "ID", "go on with another session"),
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
    command(Deed::Quit, "quit", "", "end the chat; `agent -c` goes on with it"),
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
    /// What is sent for these arguments.
    pub fn message(&self, arguments: &str) -> String {
        if self.text.contains("$ARGUMENTS") {
            self.text.replace("$ARGUMENTS", arguments)
        } else if arguments.is_empty() {
            self.text.clone()
        } else {
            format!("{}\n\n{arguments}", self.text.trim_end())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_of_the_users_own_takes_arguments() {
        let own =
            |text: &str| OwnCommand { name: "x".into(), what: String::new(), text: text.into() };
        assert_eq!(own("Fix $ARGUMENTS now").message("a.rs"), "Fix a.rs now");
        assert_eq!(own("Review.\n").message("a.rs"), "Review.\n\na.rs");
        assert_eq!(own("Review.\n").message(""), "Review.\n");
    }
}
