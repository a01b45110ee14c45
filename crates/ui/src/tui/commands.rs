//! The commands of the chat, in the order of the command list.

use agent_protocol::provider::Effort;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandAction {
    Help,
    Model,
    Effort,
    Mode,
    Permissions,
    Init,
    Review,
    AddDir,
    Plan,
    Todos,
    Tasks,
    Undo,
    Redo,
    Rewind,
    Diff,
    Sessions,
    Resume,
    Fork,
    Rename,
    Compact,
    Context,
    Pin,
    Pins,
    Unpin,
    Memory,
    Clear,
    Trace,
    Cost,
    Copy,
    Export,
    Config,
    Theme,
    StatusLine,
    Vim,
    Keys,
    Mcp,
    Hooks,
    Doctor,
    Quit,
}

/// A command of the chat.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    pub action: CommandAction,
    /// Without the slash.
    pub name: &'static str,
    pub args: &'static str,
    pub description: &'static str,
    pub timing: CommandTiming,
}

/// When a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandTiming {
    /// The command also runs while the agent works.
    Immediate,
    Idle,
    /// Like `Idle`; the command starts work, which this text describes.
    StartsWork(&'static str),
    /// Like `Idle`; no command of the user may run either, since opening a session would end it.
    OpensSession,
}

impl CommandAction {
    /// The command that performs this action.
    pub fn command(self) -> &'static Command {
        COMMANDS.iter().find(|command| command.action == self).unwrap_or(&COMMANDS[0])
    }

    /// When the command runs with these arguments.
    pub fn timing(self, arguments: &str) -> CommandTiming {
        match self {
            // Without arguments the command only shows the current model.
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
    const fn with_timing(self, timing: CommandTiming) -> Self {
        Self { timing, ..self }
    }
}

/// The name of the configured effort in `/model`.
pub const DEFAULT_EFFORT: &str = "default";

/// A message: this name is no effort.
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

/// The built-in command with this name or alias.
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
