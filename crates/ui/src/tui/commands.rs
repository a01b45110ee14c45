//! The commands of the chat, in the order in which they are offered.

use agent_protocol::provider::Effort;

/// The action of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandAction {
    /// Shows the help.
    Help,
    /// Shows or changes the model.
    Model,
    /// Shows or changes how much the model reasons.
    Effort,
    /// Shows or changes the permission mode.
    Mode,
    /// Lists the permission rules, or removes one of this session.
    Permissions,
    /// Lets the model write the project's rules file.
    Init,
    /// Lets the model review changes.
    Review,
    /// Adds a directory to the session.
    AddDir,
    /// Selects mode plan.
    Plan,
    /// Shows the todo list.
    Todos,
    /// Lists the background commands, or ends one.
    Tasks,
    /// Undoes the changes of a turn.
    Undo,
    /// Redoes the latest undo.
    Redo,
    /// Goes back to before a turn.
    Rewind,
    /// Shows the changes of the session.
    Diff,
    /// Lists the sessions of this project.
    Sessions,
    /// Resumes another session.
    Resume,
    /// Begins a session with a copy of this conversation.
    Fork,
    /// Names the session.
    Rename,
    /// Summarises the older part of the conversation.
    Compact,
    /// Shows the size of each layer of the context.
    Context,
    /// Pins a text.
    Pin,
    /// Shows the pins.
    Pins,
    /// Removes a pin.
    Unpin,
    /// Shows lessons of earlier sessions, adds or forgets one.
    Memory,
    /// Begins a new session.
    Clear,
    /// Shows the timeline of the session.
    Trace,
    /// Shows tokens and cost.
    Cost,
    /// Copies the last answer.
    Copy,
    /// Writes the conversation to a file.
    Export,
    /// Shows the configuration.
    Config,
    /// Changes the colours.
    Theme,
    /// Shows or changes the items of the status line.
    StatusLine,
    /// Turns vi's modes on or off.
    Vim,
    /// Shows the keys.
    Keys,
    /// Shows the MCP servers.
    Mcp,
    /// Lists the hooks.
    Hooks,
    /// Checks the installation.
    Doctor,
    /// Ends the chat.
    Quit,
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// Its action.
    pub action: CommandAction,
    /// Its name, without the slash.
    pub name: &'static str,
    /// Its arguments.
    pub args: &'static str,
    /// A description in one line.
    pub description: &'static str,
    /// When it runs.
    pub timing: CommandTiming,
}

/// When a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandTiming {
    /// At once, also while the agent works.
    Immediate,
    /// While the session is idle.
    Idle,
    /// While the session is idle; then the session works, on this.
    StartsWork(&'static str),
    /// While the session is idle and no command of the user runs: a session is opened, which would end them.
    OpensSession,
}

impl CommandAction {
    /// The command with this action.
    pub fn command(self) -> &'static Command {
        COMMANDS.iter().find(|command| command.action == self).unwrap_or(&COMMANDS[0])
    }

    /// When it runs with these arguments.
    pub fn timing(self, arguments: &str) -> CommandTiming {
        match self {
            // It only says which one answers.
            Self::Model if arguments.is_empty() => CommandTiming::Idle,
            _ => self.command().timing,
        }
    }
}

const fn command(
    action: CommandAction,
    name: &'static str,
    args: &'static str,
    what: &'static str,
) -> Command {
    Command { action, name, args, description: what, timing: CommandTiming::Immediate }
}

impl Command {
    /// A command that does not run at once.
    const fn with_timing(self, timing: CommandTiming) -> Self {
        Self { timing, ..self }
    }
}

/// Stands for the configured effort in `/model`.
pub const DEFAULT_EFFORT: &str = "default";

/// Says that this is no effort.
pub fn unknown_effort_message(name: &str) -> String {
    let names = Effort::all().iter().map(|effort| effort.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    format!("there is no effort {name:?}: {DEFAULT_EFFORT}, {names}")
}

/// Every command.
pub const COMMANDS: &[Command] = &[
    command(CommandAction::Help, "help", "", "commands, and the most useful keys"),
    command(
        CommandAction::Model,
        "model",
        "[PROVIDER/MODEL] [EFFORT]",
        "which model answers, or another, and how much it reasons",
    )
    .with_timing(CommandTiming::StartsWork("connecting")),
    command(
        CommandAction::Effort,
        "effort",
        "[EFFORT]",
        "how much the model reasons, or change it",
    ),
    command(CommandAction::Mode, "mode", "[MODE]", "the permission mode"),
    command(
        CommandAction::Permissions,
        "permissions",
        "[add allow|ask|deny RULE [SCOPE]|remove NUMBER]",
        "the permission rules; add one, remove one of this session",
    )
    .with_timing(CommandTiming::Idle),
    command(
        CommandAction::AddDir,
        "add-dir",
        "PATH",
        "a further directory that the agent may work in",
    )
    .with_timing(CommandTiming::OpensSession),
    command(CommandAction::Init, "init", "[TEXT]", "write or update the rules file of the project")
        .with_timing(CommandTiming::StartsWork("starting")),
    command(
        CommandAction::Review,
        "review",
        "[BRANCH]",
        "review the uncommitted changes, or those since BRANCH",
    )
    .with_timing(CommandTiming::StartsWork("starting")),
    command(
        CommandAction::Plan,
        "plan",
        "[TASK]",
        "plan first: it reads, and you accept or reject its plan",
    ),
    command(CommandAction::Todos, "todos", "", "the todo list, whole"),
    command(
        CommandAction::Tasks,
        "tasks",
        "[stop ID]",
        "the commands that run in the background; end one",
    ),
    command(CommandAction::Undo, "undo", "[TURN] [force] [git]", "undo the file changes of a turn")
        .with_timing(CommandTiming::Idle),
    command(CommandAction::Redo, "redo", "", "take the latest undo back")
        .with_timing(CommandTiming::Idle),
    command(
        CommandAction::Rewind,
        "rewind",
        "TURN [files|conversation] [force]",
        "go back to before a turn: files, conversation or both",
    )
    .with_timing(CommandTiming::OpensSession),
    command(CommandAction::Diff, "diff", "", "what this session changed, outside git too"),
    command(CommandAction::Sessions, "sessions", "", "the sessions of this project"),
    command(CommandAction::Resume, "resume", "ID", "resume another session")
        .with_timing(CommandTiming::OpensSession),
    command(
        CommandAction::Fork,
        "fork",
        "[ID]",
        "continue in a copy of this session, or of another one",
    )
    .with_timing(CommandTiming::OpensSession),
    command(CommandAction::Rename, "rename", "NAME", "name this session, for /resume and the list")
        .with_timing(CommandTiming::Idle),
    command(
        CommandAction::Compact,
        "compact",
        "[FOCUS]",
        "summarise the older part of the conversation",
    )
    .with_timing(CommandTiming::StartsWork("compacting")),
    command(CommandAction::Context, "context", "", "the size of each layer of the context"),
    command(CommandAction::Pin, "pin", "TEXT", "keep a text for the whole session")
        .with_timing(CommandTiming::Idle),
    command(CommandAction::Pins, "pins", "", "the pins of this session")
        .with_timing(CommandTiming::Idle),
    command(CommandAction::Unpin, "unpin", "NUMBER", "remove a pin")
        .with_timing(CommandTiming::Idle),
    command(
        CommandAction::Memory,
        "memory",
        "[add TEXT|show ID|forget ID]",
        "lessons of earlier sessions",
    ),
    command(CommandAction::Clear, "clear", "", "begin a new session; this one stays recorded")
        .with_timing(CommandTiming::OpensSession),
    command(CommandAction::Trace, "trace", "", "the timeline of this session, step by step"),
    command(CommandAction::Cost, "cost", "", "tokens and money since this conversation was opened"),
    command(CommandAction::Copy, "copy", "", "copy the last answer"),
    command(
        CommandAction::Export,
        "export",
        "[FILE]",
        "write the conversation to a file, as Markdown",
    ),
    command(
        CommandAction::Config,
        "config",
        "",
        "the configuration, with the origin of each value",
    ),
    command(
        CommandAction::Theme,
        "theme",
        "[dark|light]",
        "colours for a dark or a light background",
    ),
    command(
        CommandAction::StatusLine,
        "statusline",
        "[ITEM …]",
        "the items of the status line, or others; none, default",
    ),
    command(CommandAction::Vim, "vim", "", "vi's modes for writing a message, on or off"),
    command(CommandAction::Keys, "keys", "", "every key and what it does"),
    command(CommandAction::Mcp, "mcp", "", "the MCP servers: their state and their tools"),
    command(CommandAction::Hooks, "hooks", "", "the hooks in use, and where they are configured"),
    command(CommandAction::Doctor, "doctor", "", "check the installation, and how to fix problems"),
    command(CommandAction::Quit, "quit", "", "end the chat; `agent -c` resumes it"),
];

/// The command of this name or alias.
pub fn find_built_in(name: &str) -> Option<&'static Command> {
    let name = match name {
        "exit" | "q" => "quit",
        "new" | "reset" => "clear",
        "approvals" => "permissions",
        "status" | "usage" => "cost",
        "settings" => "config",
        "bashes" => "tasks",
        "thinking" => "effort",
        name => name,
    };
    COMMANDS.iter().find(|command| command.name == name)
}
