//! The command table: the rules of `data/commands.toml`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::command::Command;
use super::conditions::Condition;
use super::filter::Filter;
use super::{JudgeContext, SandboxRight};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommandTable {
    information: Vec<String>,
    unsafe_variables: Vec<String>,
    build_output: Vec<String>,
    values: HashMap<String, Vec<String>>,
    wrapper: Vec<Wrapper>,
    filter: Vec<Filter>,
    answer: Vec<Answer>,
    pub(super) rule: Vec<CommandRule>,
    #[serde(skip)]
    by_program: HashMap<String, Vec<usize>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Wrapper {
    programs: Vec<String>,
    words: Vec<String>,
    pub(super) values: Vec<String>,
    /// The options with which the command runs in another directory.
    pub(super) directory: Vec<String>,
    /// The number of own arguments before the command.
    pub(super) operands: usize,
    pub(super) assignments: bool,
    /// Whether the wrapper appends unknown arguments.
    pub(super) appends: bool,
    without: Vec<String>,
    /// `joined`, `first`, or the option whose value is executed.
    pub(super) text: Option<String>,
}

/// What exit status 1 of a program states.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    programs: Vec<String>,
    #[serde(default)]
    words: Vec<String>,
    states: String,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub(super) enum CommandClass {
    Reads,
    Asks,
    Never,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CommandRule {
    pub(super) programs: Vec<String>,
    pub(super) words: Vec<String>,
    only: Vec<String>,
    pub(super) with: Vec<String>,
    without: Vec<String>,
    max: Option<usize>,
    when: Option<Condition>,
    foreground: bool,
    pub(super) class: Option<CommandClass>,
    pub(super) destructive: bool,
    /// Something in a remote place is overwritten or deleted; the rule has no class.
    pub(super) remote_loss: bool,
    pub(super) right: Option<SandboxRight>,
    pub(super) reason: String,
    pub(super) hint: Option<String>,
    pub(super) example: Option<String>,
}

static TABLE: LazyLock<CommandTable> = LazyLock::new(|| {
    let text = agent_protocol::embedded::COMMANDS;
    let mut table: CommandTable = toml::from_str(text).expect("data/commands.toml is valid");
    assert!(table.rule.iter().all(|rule| !rule.programs.is_empty()), "a rule without programs");
    assert!(table.wrapper.iter().all(|own| !own.programs.is_empty()), "a wrapper without programs");
    for (n, rule) in table.rule.iter().enumerate() {
        for program in &rule.programs {
            table.by_program.entry(program.clone()).or_default().push(n);
        }
    }
    table
});

pub(super) fn table() -> &'static CommandTable {
    &TABLE
}

/// What exit status 1 of the command states, if it is no failure.
pub(crate) fn answer(command: &Command) -> Option<&'static str> {
    let is_of = |answer: &&Answer| {
        answer.programs.iter().any(|program| program == command.name())
            && command.begins_with(&answer.words).is_some()
    };
    let answer = table().answer.iter().find(is_of).filter(|_| command.is_system_program());
    answer.map(|answer| answer.states.as_str())
}

impl CommandTable {
    pub(super) fn matching_rules(
        &self,
        command: &Command,
        context: &JudgeContext<'_>,
    ) -> Vec<&CommandRule> {
        let name = command.name();
        let family = name.split_once('.').map(|(family, _)| format!("{family}.*"));
        let names = [Some(name), family.as_deref()].into_iter().flatten();
        let places = names.filter_map(|name| self.by_program.get(name)).flatten();
        places.map(|n| &self.rule[*n]).filter(|rule| rule.fits(command, context)).collect()
    }

    pub(super) fn filters(&self) -> &[Filter] {
        &self.filter
    }

    pub(super) fn value_options(&self, program: &str) -> &[String] {
        let base = program.trim_end_matches(|char: char| char.is_ascii_digit());
        self.values.get(program).or_else(|| self.values.get(base)).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_information(&self, command: &Command) -> bool {
        matches!(command.arguments(), [word] if self.information.iter().any(|own| word.literal_text() == Some(own)))
    }

    /// The variable determines which programs or libraries run.
    pub(super) fn is_unsafe_variable(&self, name: &str) -> bool {
        self.unsafe_variables.iter().any(|own| match own.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == own,
        })
    }

    pub(super) fn is_build_output(&self, path: &str) -> bool {
        path.split('/').any(|part| {
            self.build_output.iter().any(|own| match own.strip_prefix('*') {
                Some(suffix) => part.len() > suffix.len() && part.ends_with(suffix),
                None => part == own,
            })
        })
    }

    pub(super) fn wrapper(&self, command: &Command) -> Option<&Wrapper> {
        self.wrapper.iter().find(|wrapper| {
            wrapper.programs.iter().any(|program| program == command.name())
                && command.begins_with(&wrapper.words).is_some()
                && !wrapper.without.iter().any(|option| command.has_option(option))
        })
    }
}

impl Wrapper {
    /// The wrapper `submodule foreach` has two words.
    pub(super) fn n_words(&self, command: &Command) -> usize {
        command.begins_with(&self.words).unwrap_or_default()
    }
}

impl CommandRule {
    fn fits(&self, command: &Command, context: &JudgeContext<'_>) -> bool {
        let Some(n_words) = command.begins_with(&self.words) else { return false };
        let has = |options: &[String]| options.iter().any(|option| command.has_option(option));
        let is_reads = self.class == Some(CommandClass::Reads);
        let has_not = self.without.iter().any(|option| command.may_have_option(option));
        let arguments = command.arguments();
        let is_only = self.only.is_empty()
            || matches!(arguments, [word] if self.only.iter().any(|own| word.literal_text() == Some(own)));
        // An option may result from an expansion that is split into words.
        let is_sure =
            !is_reads || self.without.is_empty() || arguments.iter().all(|word| !word.is_split());
        let n_operands = command.operands().len() - n_words;
        is_only
            && is_sure
            && (self.with.is_empty() || has(&self.with))
            && !has_not
            && self.max.is_none_or(|max| n_operands <= max)
            && !(self.foreground && context.is_background)
            && self.when.is_none_or(|when| when.holds(command, n_words, context))
    }
}
