//! Options of Claude Code that have no meaning here: accepted and named once, or refused with what to do instead.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use super::OpenError;

/// What follows the option.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    No,
    Yes,
    /// Only with `=`: the next word may be the task.
    Maybe,
}

/// What is done about an option.
#[derive(Clone, Copy)]
enum Answer {
    /// Nothing changes without it.
    Silence,
    /// Named, with the reason.
    Notice(&'static str),
    /// Ignoring it would change the result.
    Refusal(&'static str),
}

use Answer::{Notice, Refusal, Silence};

/// Mode full may be chosen while the session runs.
const ALLOWS_FULL: &str = "allow-dangerously-skip-permissions";

const ALL: &[(&str, Value, Answer)] = &[
    // It says whether a program may choose the mode later.
    (ALLOWS_FULL, Value::No, Silence),
    // The first line of the program is always awaited.
    ("await-initialize", Value::No, Silence),
    ("betas", Value::Yes, Notice("beta features of one provider are not requested")),
    ("channels", Value::Yes, Notice("MCP servers send no messages into a session")),
    ("debug", Value::Maybe, Notice("`agent trace` shows every step of a session")),
    ("debug-file", Value::Yes, Notice("`agent trace` shows every step of a session")),
    ("debug-to-stderr", Value::No, Notice("`agent trace` shows every step of a session")),
    ("mcp-debug", Value::No, Notice("`agent mcp test` shows what a server answers")),
    ("task-budget", Value::Yes, Notice("--max-budget-usd and --max-turns limit a task")),
    ("thinking-display", Value::Yes, Notice("reasoning is shown as the model sends it")),
    (
        "agent",
        Value::Yes,
        Refusal("give its prompt with --system-prompt and its tools with --tools"),
    ),
    ("initialize-fields", Value::Yes, Refusal("pass --settings and --disallowedTools as options")),
    (
        "managed-settings-in-initialize",
        Value::No,
        Refusal("pass the settings with --managed-settings"),
    ),
    (
        "plugin-dir",
        Value::Yes,
        Refusal(
            "copy its skills, commands and agents to .claude/, and its MCP servers to --mcp-config",
        ),
    ),
    ("plugin-dir-no-mcp", Value::Yes, Refusal("copy its skills, commands and agents to .claude/")),
    ("project-config-root", Value::Yes, Refusal("start agent in that folder")),
    ("resume-drops-turn", Value::Yes, Refusal("shorten the session with `agent session rewind`")),
    ("resume-session-at", Value::Yes, Refusal("shorten the session with `agent session rewind`")),
    (
        "session-mirror",
        Value::No,
        Refusal("sessions are recorded by agent alone; leave out the session store"),
    ),
];

/// Those that were given.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct ForeignOptions(Vec<&'static str>);

impl ForeignOptions {
    /// Mode full may be chosen while the session runs.
    pub(super) fn allows_full(&self) -> bool {
        self.0.contains(&ALLOWS_FULL)
    }

    /// Names those that do nothing; an error for those that would be missed.
    pub(in crate::cli) fn answer(&self) -> Result<(), OpenError> {
        let mut ignored = Vec::new();
        for (name, _, answer) in ALL.iter().filter(|(name, ..)| self.0.contains(name)) {
            match answer {
                Silence => {}
                Notice(why) => ignored.push(format!("--{name} ({why})")),
                Refusal(what) => {
                    return Err(OpenError::Usage(format!("--{name} is not supported: {what}")));
                }
            }
        }
        if !ignored.is_empty() {
            agent_ui::tell(&format!("options without effect: {}", ignored.join(", ")));
        }
        Ok(())
    }
}

impl Args for ForeignOptions {
    fn augment_args(command: Command) -> Command {
        ALL.iter().fold(command, |command, (name, value, _)| {
            let arg = Arg::new(*name).long(*name).hide(true);
            command.arg(match value {
                Value::No => arg.action(ArgAction::SetTrue),
                // (The last one counts, as it does there.)
                Value::Yes => arg.action(ArgAction::Append).allow_hyphen_values(true),
                Value::Maybe => arg
                    .action(ArgAction::Append)
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value(""),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ForeignOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given =
            |name: &str| matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine);
        Ok(Self(ALL.iter().map(|(name, ..)| *name).filter(|name| is_given(name)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
