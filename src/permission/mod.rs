//! May this call be made? Pure: an effect in, a ruling out.
//!
//! A [`Policy`] is an ordered list of guards; the first that has an opinion rules. What it decides
//! about a command line it decides about its simple commands, as far as the line is understood. The
//! breaker, the hooks and the person who is asked are elsewhere.

mod facts;
mod never;
mod paths;
mod rule;
mod shell;
#[cfg(test)]
mod tests;

use crate::protocol::control::{PermissionMode, Reason, Ruling};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::tool::Effect;

use facts::{Facts, Part};
use paths::Guarded;

pub use paths::is_secret;
pub use rule::{Origin, Rule, Verb};

/// The rules of a session.
#[derive(Clone, Debug)]
pub struct Policy {
    mode: PermissionMode,
    is_sandboxed: bool,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    verb: Verb,
    origin: Origin,
    rule: Rule,
}

/// What is judged.
struct Question<'a> {
    tool: &'a str,
    effect: &'a Effect,
    facts: Facts,
}

/// In this order: never, deny, a person's allow, ask, a file's allow; then the mode.
const GUARDS: &[fn(&Policy, &Question<'_>) -> Option<Ruling>] = &[
    |_, question| never(question),
    Policy::denied,
    Policy::secrets,
    Policy::granted,
    Policy::own_files,
];

impl Policy {
    /// No rules yet. In a sandbox commands may run without a rule in the mode that edits.
    pub fn new(mode: PermissionMode, is_sandboxed: bool) -> Self {
        Self { mode, is_sandboxed, entries: Vec::new() }
    }

    /// Adds rules of one verb from one place.
    #[must_use]
    pub fn with(
        mut self,
        verb: Verb,
        origin: Origin,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Self {
        self.entries.extend(rules.into_iter().map(|rule| Entry { verb, origin, rule }));
        self
    }

    /// How freely the agent may act.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// May this tool do this?
    pub fn rule_on(&self, tool: &str, effect: &Effect) -> Ruling {
        let facts = match effect {
            Effect::Command { command, .. } => Facts::of(command),
            Effect::Read { .. } | Effect::Write { .. } | Effect::Plan => Facts::default(),
        };
        let question = Question { tool, effect, facts };
        let ruling = GUARDS.iter().find_map(|guard| guard(self, &question));
        ruling.unwrap_or_else(|| self.by_mode(&question))
    }

    fn denied(&self, question: &Question<'_>) -> Option<Ruling> {
        let entry = self.find(question.tool, |entry| {
            entry.verb == Verb::Deny && question.may_be(&entry.rule)
        })?;
        let code = match question.effect {
            Effect::Command { .. } => ErrorCode::CommandBlocked,
            Effect::Read { .. } | Effect::Write { .. } | Effect::Plan => ErrorCode::AccessDenied,
        };
        let text = "a rule forbids this; find another way, or say what you would need it for";
        Some(Ruling::Refuse(code, reason(entry.shown(), text)))
    }

    /// A rule that allows everything does not mean the secrets: they need one that names them.
    fn secrets(&self, question: &Question<'_>) -> Option<Ruling> {
        let Effect::Read { path } = question.effect else { return None };
        let tool = question.tool;
        let is_open = !matches!(tool, "Read" | "Grep")
            || !is_secret(path)
            || self.mode == PermissionMode::Full;
        let is_named = |entry: &Entry| {
            entry.verb == Verb::Allow && !entry.rule.is_bare() && entry.rule.fits_path(path)
        };
        if is_open || self.find(tool, is_named).is_some() {
            return None;
        }
        let text = format!(
            "{path} looks like it holds secrets; a person can allow it with --allow '{tool}({path})'"
        );
        Some(Ruling::Refuse(ErrorCode::AccessDenied, reason("secrets", text)))
    }

    fn granted(&self, question: &Question<'_>) -> Option<Ruling> {
        let facts = &question.facts;
        match question.effect {
            Effect::Read { path } | Effect::Write { path } => {
                let fits = |rule: &Rule| rule.fits_path(path);
                self.standing(question.tool, fits, fits)
            }
            Effect::Plan => self.standing(question.tool, Rule::is_bare, Rule::is_bare),
            Effect::Command { .. } if !facts.is_understood || facts.parts.is_empty() => {
                self.standing(question.tool, Rule::is_bare, |rule| question.may_be(rule))
            }
            Effect::Command { .. } => {
                let mut standings = Vec::new();
                for part in &facts.parts {
                    match self.standing_of(question.tool, part) {
                        Some(asked @ Ruling::Ask(_)) => return Some(asked),
                        standing => standings.push(standing),
                    }
                }
                // Each of its commands has to be allowed.
                standings.into_iter().collect::<Option<Vec<_>>>()?.into_iter().next()
            }
        }
    }

    fn standing_of(&self, tool: &str, part: &Part) -> Option<Ruling> {
        // A redirection that writes a file is no part of any pattern.
        let allows =
            |rule: &Rule| rule.is_bare() || !part.writes_file && rule.fits_words(&part.words);
        let asks = |rule: &Rule| part.runs.iter().any(|words| rule.fits_words(words));
        self.standing(tool, allows, asks)
    }

    /// What the rules say of one thing: a person's allow, ask, a file's allow.
    fn standing(
        &self,
        tool: &str,
        allows: impl Fn(&Rule) -> bool,
        asks: impl Fn(&Rule) -> bool,
    ) -> Option<Ruling> {
        let by_person = |entry: &Entry| {
            entry.verb == Verb::Allow && entry.origin == Origin::CommandLine && allows(&entry.rule)
        };
        if let Some(entry) = self.find(tool, by_person) {
            return Some(Ruling::Allow(reason(entry.shown(), "a rule allows this")));
        }
        if let Some(entry) = self.find(tool, |e| e.verb == Verb::Ask && asks(&e.rule)) {
            return Some(Ruling::Ask(reason(entry.shown(), "a rule asks before this")));
        }
        let entry = self.find(tool, |e| e.verb == Verb::Allow && allows(&e.rule))?;
        Some(Ruling::Allow(reason(entry.shown(), "a rule allows this")))
    }

    fn own_files(&self, question: &Question<'_>) -> Option<Ruling> {
        let Effect::Write { path } = question.effect else { return None };
        let asks = match self.mode {
            PermissionMode::Ask | PermissionMode::AutoEdit => true,
            PermissionMode::ReadOnly | PermissionMode::Full => false,
        };
        let is_own = paths::guarded(path) == Some(Guarded::Ask);
        (asks && is_own).then(|| {
            let text = format!(
                "{path} tells the agent how to work: a person has to agree, or allow it with \
                 --allow '{}({path})'",
                question.tool
            );
            Ruling::Ask(reason("own files", text))
        })
    }

    fn by_mode(&self, question: &Question<'_>) -> Ruling {
        let mode = format!("mode {}", self.mode.as_str());
        match (question.effect, self.mode) {
            (Effect::Read { .. } | Effect::Plan, _)
            | (_, PermissionMode::Full)
            | (Effect::Write { .. }, PermissionMode::AutoEdit) => {
                Ruling::Allow(reason(mode, "the mode allows this"))
            }
            (Effect::Write { .. }, PermissionMode::ReadOnly) => Ruling::Refuse(
                ErrorCode::AccessDenied,
                reason(mode, "nothing is changed in this mode; say what you would change"),
            ),
            (Effect::Command { .. }, PermissionMode::ReadOnly) => Ruling::Refuse(
                ErrorCode::AccessDenied,
                reason(mode, "no command runs in this mode; read and search with the other tools"),
            ),
            (Effect::Write { path }, PermissionMode::Ask) => {
                let text = format!(
                    "a person has to agree to this change, or allow it with --allow '{}({path})' \
                     or --permission-mode auto-edit",
                    question.tool
                );
                Ruling::Ask(reason(mode, text))
            }
            (Effect::Command { .. }, PermissionMode::AutoEdit) if self.is_sandboxed => {
                Ruling::Allow(reason(mode, "it runs in the sandbox"))
            }
            (Effect::Command { .. }, PermissionMode::Ask | PermissionMode::AutoEdit) => {
                let text = format!(
                    "a person has to agree to this command, or allow it with {}, or with \
                     --permission-mode full",
                    self.allowing(question)
                );
                Ruling::Ask(reason(mode, text))
            }
        }
    }

    /// The options that would allow this line, none wider than it needs.
    fn allowing(&self, question: &Question<'_>) -> String {
        let facts = &question.facts;
        if !facts.is_understood {
            return "--allow Bash (no pattern fits a line with substitutions, control words or \
                    background commands: a simpler one can be allowed more narrowly)"
                .to_owned();
        }
        let mut options: Vec<String> = Vec::new();
        for part in &facts.parts {
            if matches!(self.standing_of(question.tool, part), Some(Ruling::Allow(_))) {
                continue;
            }
            if part.writes_file {
                return "--allow Bash (no pattern fits a redirection into a file: the Write tool \
                        can write it)"
                    .to_owned();
            }
            let option = format!("--allow 'Bash({} *)'", leading_words(&part.words));
            if !options.contains(&option) {
                options.push(option);
            }
        }
        options.join(" ")
    }

    /// The first rule about this tool that is so.
    fn find(&self, tool: &str, is_so: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.rule.tool() == tool && is_so(entry))
    }
}

impl Entry {
    /// As a person would write it.
    fn shown(&self) -> String {
        let verb = match self.verb {
            Verb::Allow => "allow",
            Verb::Ask => "ask",
            Verb::Deny => "deny",
        };
        let rule = self.rule.text();
        match self.origin {
            Origin::CommandLine => format!("--{verb} {rule}"),
            Origin::UserFile => format!("{verb} {rule} (user configuration)"),
            Origin::ProjectFile => format!("{verb} {rule} (project configuration)"),
        }
    }
}

impl Question<'_> {
    /// The call is, or may be, one that the rule is about: a command of the line, what stands behind
    /// an `env` or in a `sh -c`, or, where the line is not understood, its text.
    fn may_be(&self, rule: &Rule) -> bool {
        match self.effect {
            Effect::Read { path } | Effect::Write { path } => rule.fits_path(path),
            Effect::Plan => rule.is_bare(),
            Effect::Command { command, .. } => {
                self.facts.commands().any(|words| rule.fits_words(words))
                    || rule.is_bare()
                    || !self.facts.is_known && rule.occurs_in(command)
            }
        }
    }
}

fn never(question: &Question<'_>) -> Option<Ruling> {
    match question.effect {
        Effect::Command { command, directory } => {
            let why = never::never_run(command, directory, &question.facts)?;
            let text = format!("this is never run: {why}");
            Some(Ruling::Refuse(ErrorCode::CommandBlocked, reason("never", text)))
        }
        Effect::Write { path } if paths::guarded(path) == Some(Guarded::Never) => {
            let text = format!(
                "{path} is never written by a file tool; git changes its own files, and a \
                 person those of the agent"
            );
            Some(Ruling::Refuse(ErrorCode::AccessDenied, reason("never", text)))
        }
        Effect::Write { .. } | Effect::Read { .. } | Effect::Plan => None,
    }
}

/// The program and, where it is a word, what follows: `cargo test`.
fn leading_words(words: &[String]) -> String {
    let is_word = |word: &&String| {
        !word.starts_with('-')
            && word.chars().all(|char| char.is_ascii_alphanumeric() || "_./:+@-".contains(char))
    };
    let second = words.iter().skip(1).take(1).filter(is_word);
    words.iter().take(1).chain(second).cloned().collect::<Vec<_>>().join(" ")
}

fn reason(rule: impl Into<String>, text: impl Into<String>) -> Reason {
    Reason { rule: rule.into(), text: text.into() }
}
