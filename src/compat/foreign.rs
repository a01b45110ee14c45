//! Options of Claude Code that have no meaning here: accepted and named once.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionValue {
    Absent,
    Required,
    /// Only with `=`: the next word may be the task.
    Optional,
}

#[derive(Clone, Copy)]
enum OptionHandling {
    /// Nothing changes without it.
    Ignore,
    Warn(&'static str),
}

use OptionHandling::{Ignore, Warn};
use OptionValue::{Absent, Optional, Required};

pub(super) const ALLOWS_FULL: &str = "allow-dangerously-skip-permissions";

const FOREIGN_OPTIONS: &[(&str, OptionValue, OptionHandling)] = &[
    // The option says whether a program may choose the mode later.
    (ALLOWS_FULL, Absent, Ignore),
    // The first line of the program is always awaited.
    ("await-initialize", Absent, Ignore),
    ("betas", Required, Warn("beta features of one provider are not requested")),
    ("channels", Required, Warn("MCP servers send no messages into a session")),
    ("debug", Optional, Warn("`agent trace` shows every step of a session")),
    ("debug-file", Required, Warn("`agent trace` shows every step of a session")),
    ("debug-to-stderr", Absent, Warn("`agent trace` shows every step of a session")),
    ("mcp-debug", Absent, Warn("`agent mcp test` shows what a server answers")),
    ("task-budget", Required, Warn("--max-budget-usd and --max-turns limit a task")),
    ("thinking-display", Required, Warn("reasoning is shown as the model sends it")),
];

#[derive(Clone, Debug, Default)]
pub(crate) struct ForeignOptions(pub(super) Vec<&'static str>);

impl ForeignOptions {
    /// Names the options without effect.
    pub(crate) fn report(&self) {
        let mut ignored = Vec::new();
        let given = FOREIGN_OPTIONS.iter().filter(|(name, ..)| self.0.contains(name));
        for (name, _, handling) in given {
            match handling {
                Ignore => {}
                Warn(why) => ignored.push(format!("--{name} ({why})")),
            }
        }
        if !ignored.is_empty() {
            agent_ui::print_notice(&format!("options without effect: {}", ignored.join(", ")));
        }
    }
}

impl Args for ForeignOptions {
    fn augment_args(command: Command) -> Command {
        FOREIGN_OPTIONS.iter().fold(command, |command, (name, value, _)| {
            let arg = Arg::new(*name).long(*name).hide(true);
            command.arg(match value {
                Absent => arg.action(ArgAction::SetTrue),
                // The last one counts, as in Claude Code.
                Required => arg.action(ArgAction::Append).allow_hyphen_values(true),
                Optional => arg
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
        let names = FOREIGN_OPTIONS.iter().map(|(name, ..)| *name);
        Ok(Self(names.filter(|name| is_given(name)).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
