//! Judges command lines: whether a line only reads, needs approval, or is never allowed.
//!
//! It decides only whether to ask; the sandbox is what protects. A line that cannot be parsed runs
//! in the sandbox.

mod command;
mod conditions;
mod filter;
mod find;
mod table;
mod targets;

use serde::Deserialize;

use super::command_line::CommandLine;
pub(super) use command::{Command, Commands};
pub(super) use filter::is_harmless_beside;
pub(super) use table::answer;
use table::{CommandClass, table};
pub(super) use targets::lost_paths;

/// Facts about paths that the judge needs, provided by the tools.
pub trait PathFacts {
    /// The kind of a path: relative to the project root, absolute, or below the home (`~/x`).
    fn kind(&self, path: &str) -> PathKind;

    /// Whether the path is an ordinary file.
    fn is_file(&self, _path: &str) -> bool {
        false
    }

    /// The names in a directory that a pattern matches, as a shell expands it.
    fn expand_pattern(&self, _directory: &str, _pattern: &str) -> Vec<String> {
        Vec::new()
    }

    /// The number of files in a directory; `None` if it is none, or has too many to count.
    fn count_files(&self, _path: &str) -> Option<usize> {
        None
    }

    /// Whether something selected below a directory is neither covered by checkpoints nor build output.
    fn has_uncovered(&self, directory: &str, _is_selected: &dyn Fn(&str, bool) -> bool) -> bool {
        self.kind(directory) == PathKind::Uncovered
    }

    /// Whether at or below one of these paths is a file that no checkpoint covers and git neither
    /// has nor ignores: one that is not tracked, or else one with changes.
    fn has_unsaved(&self, _paths: &[String], _is_tracked: bool) -> bool {
        false
    }

    /// The path with symlinks resolved, in the form that tools use.
    fn resolve_links(&self, path: &str) -> String {
        path.to_owned()
    }
}

/// The kind of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    Project,
    Git,
    /// The home, or a directory above it or above the project.
    HomeOrAbove,
    /// In the project, and covered by checkpoints.
    Covered,
    /// A part of the path is neither covered by checkpoints nor build output.
    Uncovered,
    /// Outside the project and writable.
    Outside,
    /// In a shared temporary directory; a command may have its own, which is removed with the session.
    Temporary,
    Elsewhere,
    Missing,
}

/// A command gets the right if it is approved.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub(super) enum SandboxRight {
    Network,
    GitConfig,
    Outside,
}

/// What the table's conditions depend on besides the command.
pub(super) struct JudgeContext<'a> {
    pub(super) text: &'a str,
    pub(super) directory: &'a str,
    pub(super) is_background: bool,
    pub(super) functions: &'a [String],
    pub(super) facts: &'a dyn PathFacts,
}

#[derive(Clone, Debug)]
pub(super) struct Finding {
    /// The index of the command among those of the line.
    pub(super) at: usize,
    pub(super) class: FindingClass,
    pub(super) reason: &'static str,
    pub(super) hint: Option<&'static str>,
    pub(super) program: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FindingClass {
    /// Needs approval if checkpoints are off.
    Destructive,
    NeedsApproval(Option<SandboxRight>),
    Forbidden,
}

pub(super) fn findings(commands: &[Command], context: &JudgeContext<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        if table().is_information(command) {
            continue;
        }
        for rule in table().matching_rules(command, context) {
            let class = match (rule.class, rule.destructive) {
                (Some(CommandClass::Never), _) => FindingClass::Forbidden,
                (Some(CommandClass::Asks), _) => FindingClass::NeedsApproval(rule.right),
                (Some(CommandClass::Reads), _) | (None, false) => continue,
                (None, true) => FindingClass::Destructive,
            };
            // A function is judged by the commands in its body.
            if class != FindingClass::Forbidden
                && context.functions.iter().any(|function| function == command.name())
            {
                continue;
            }
            found.push(Finding {
                at,
                class,
                reason: &rule.reason,
                hint: rule.hint.as_deref(),
                program: command.name().to_owned(),
            });
        }
    }
    found
}

/// What the command takes from a remote place; `None` if the table knows of nothing.
pub(super) fn remote_loss(command: &Command, context: &JudgeContext<'_>) -> Option<&'static str> {
    let rules = table().matching_rules(command, context);
    rules.into_iter().find(|rule| rule.remote_loss).map(|rule| &*rule.reason)
}

/// Also true for a wrapper: the command that it runs is judged separately.
pub(super) fn only_reads(command: &Command, text: &str) -> bool {
    let table = table();
    let steers = |word: &super::shell::Word| {
        let name = word.text.split(['=', '[', '+']).next().unwrap_or_default();
        table.is_unsafe_variable(name) || word.text.contains("$(") || word.text.contains('`')
    };
    let sets = command.arguments().iter().filter(|_| {
        matches!(command.name(), "export" | "declare" | "local" | "readonly" | "typeset" | "read")
    });
    if command.writes_file() || command.assignments.iter().chain(sets).any(steers) {
        return false;
    }
    if command.words.is_empty() || command.is_wrapper {
        return true;
    }
    let context =
        JudgeContext { text, directory: "", is_background: false, functions: &[], facts: &NoFacts };
    let rules = table.matching_rules(command, &context);
    let reads = |rule: &&table::CommandRule| rule.class == Some(CommandClass::Reads);
    command.is_system_program()
        && rules.iter().any(reads)
        && (rules.iter().all(reads) || table.is_information(command))
}

/// Whether the line may be recommended in other sessions instead of `failed`: it deletes, discards and overwrites
/// nothing, and needs no right that `failed` does not need for the same subcommand.
pub fn may_recommend(line: &str, failed: &str) -> bool {
    let needs = |line: &CommandLine| -> Vec<(FindingClass, Option<String>)> {
        let (text, functions, commands) = (line.text(), line.functions(), line.commands());
        let (directory, is_background, facts) = ("", false, &NoFacts);
        let context = JudgeContext { text, directory, is_background, functions, facts };
        let subcommand = |command: &Command| {
            let operand = command.operands().next().map_or("", |word| &word.text);
            format!("{} {operand}", command.name())
        };
        let found = findings(commands, &context).into_iter();
        found.map(|found| (found.class, commands.get(found.at).map(subcommand))).collect()
    };
    let (line, before) = (CommandLine::parse(line), needs(&CommandLine::parse(failed)));
    let is_right = |class| matches!(class, FindingClass::NeedsApproval(Some(_)));
    !line.commands().iter().any(Command::writes_file)
        && needs(&line).iter().all(|need| is_right(need.0) && before.contains(need))
}

/// For questions that do not depend on paths.
struct NoFacts;

impl PathFacts for NoFacts {
    fn kind(&self, _: &str) -> PathKind {
        PathKind::Missing
    }

    fn has_unsaved(&self, _: &[String], _: bool) -> bool {
        true
    }
}

/// Whether a component of this path in the project is well-known build output.
pub fn is_build_output(path: &std::path::Path) -> bool {
    table().is_build_output(&path.to_string_lossy())
}
