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
    Memory,
    Clear,
    Trace,
    Cost,
    Copy,
    Export,
    Detach,
    Config,
    Theme,
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
    description: &'static str,
) -> Command {
    Command { action, name, args, description, timing: CommandTiming::Immediate }
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

/// The groups of the commands, each with its first one.
pub(super) const COMMAND_GROUPS: [(&str, CommandAction); 5] = [
    ("session", CommandAction::Help),
    ("changes", CommandAction::Plan),
    ("model", CommandAction::Model),
    ("context", CommandAction::Init),
    ("settings", CommandAction::Mode),
];

/// Every command, group by group.
pub const COMMANDS: &[Command] = {
    use CommandAction::{
        AddDir, Clear, Compact, Config, Context, Copy, Cost, Detach, Diff, Doctor, Effort, Export,
        Fork, Help, Hooks, Init, Keys, Mcp, Memory, Mode, Model, Permissions, Plan, Quit, Redo,
        Rename, Resume, Review, Rewind, Sessions, Tasks, Theme, Todos, Trace, Undo,
    };
    use CommandTiming::{Idle, OpensSession, StartsWork};
    &[
        command(Help, "help", "", "the most useful keys, and the commands"),
        command(Sessions, "sessions", "", "the sessions of this project"),
        command(Resume, "resume", "ID", "resume another session").with_timing(OpensSession),
        command(Fork, "fork", "[ID]", "continue in a copy of this session, or of another one")
            .with_timing(OpensSession),
        command(Rename, "rename", "NAME", "name this session, for /resume and the list")
            .with_timing(Idle),
        command(Clear, "clear", "", "begin a new session; this one stays recorded")
            .with_timing(OpensSession),
        command(
            Tasks,
            "tasks",
            "[stop ID]",
            "the commands in the background, with their last lines; end one",
        ),
        command(Trace, "trace", "", "the timeline of this session, step by step"),
        command(Copy, "copy", "", "copy the last answer"),
        command(Export, "export", "[FILE]", "write the conversation to a file, as Markdown"),
        command(Detach, "detach", "[TASK]", "leave; the session goes on in the background"),
        command(Quit, "quit", "", "end the chat; `agent -c` resumes it"),
        command(Plan, "plan", "[TASK]", "plan first: it reads, and you accept or reject its plan"),
        command(Todos, "todos", "", "the todo list, whole"),
        command(Undo, "undo", "[TURN] [force] [git]", "undo the file changes of a turn")
            .with_timing(Idle),
        command(Redo, "redo", "", "take the latest undo back").with_timing(Idle),
        command(
            Rewind,
            "rewind",
            "TURN [files|conversation] [force]",
            "go back to before a turn: files, conversation or both",
        )
        .with_timing(OpensSession),
        command(Diff, "diff", "", "what this session changed, outside git too"),
        command(
            Review,
            "review",
            "[BRANCH]",
            "review the uncommitted changes, or those since BRANCH",
        )
        .with_timing(StartsWork("starting")),
        command(
            Model,
            "model",
            "[PROVIDER/MODEL] [EFFORT]",
            "which model answers, or another, and how much it reasons",
        )
        .with_timing(StartsWork("connecting")),
        command(Effort, "effort", "[EFFORT]", "how much the model reasons, or change it"),
        command(Cost, "cost", "", "tokens and money of this session"),
        command(Init, "init", "[TEXT]", "write or update the rules file of the project")
            .with_timing(StartsWork("starting")),
        command(AddDir, "add-dir", "PATH", "a further directory that the agent may work in")
            .with_timing(OpensSession),
        command(Compact, "compact", "[FOCUS]", "summarise the older part of the conversation")
            .with_timing(StartsWork("compacting")),
        command(Context, "context", "", "the size of each layer of the context"),
        command(Memory, "memory", "[add TEXT|show ID|forget ID]", "lessons of earlier sessions"),
        command(Mode, "mode", "[MODE]", "the permission mode"),
        command(
            Permissions,
            "permissions",
            "[add allow|ask|deny RULE [SCOPE]|remove NUMBER]",
            "the permission rules; add one, remove one of this session",
        )
        .with_timing(Idle),
        command(Config, "config", "", "the configuration, with the origin of each value"),
        command(Theme, "theme", "[dark|light]", "colours for a dark or a light background"),
        command(Keys, "keys", "", "every key and what it does"),
        command(Mcp, "mcp", "", "the MCP servers: their state and their tools"),
        command(Hooks, "hooks", "", "the hooks in use, and where they are configured"),
        command(Doctor, "doctor", "", "check the installation, and how to fix problems"),
    ]
};

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
