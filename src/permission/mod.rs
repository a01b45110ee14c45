//! May this call be made? Pure: an effect in, a ruling out.
//!
//! A [`Policy`] is an ordered list of guards; the first that has an opinion rules. What it decides
//! about a command line it decides about its simple commands, as far as the line is understood. The
//! breaker, the hooks and the person who is asked are elsewhere.

mod filled;
mod freeze;
mod judge;
mod line;
mod paths;
mod pattern;
mod pinned;
mod propose;
mod reading;
mod rule;
mod shell;
mod statuses;
mod synonyms;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::protocol::control::{PermissionMode, Reason, Ruling};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::tool::Effect;

use filled::Values;
use judge::{Class, Findings, Instead, IsIt, Own, Survey, Suspicion};
use paths::Guarded;
use rule::Skip;
use shell::Simple;

pub use freeze::{Heard, heard};
pub use judge::{Ground, Place, Reach};
pub use line::Line;
pub use pattern::Pattern;
pub use propose::propose;
pub use reading::{Why, Withheld};
pub use rule::{Origin, Places, Rule, Verb};
pub use statuses::Ran;

/// The rules of a session.
#[derive(Clone, Debug)]
pub struct Policy {
    mode: PermissionMode,
    is_sandboxed: bool,
    /// What of the sandbox is nobody else's.
    own: Own,
    entries: Arc<Vec<Entry>>,
    places: Arc<Places>,
    /// The words of the pins that have rules.
    pins: BTreeMap<u32, String>,
}

#[derive(Clone, Debug)]
struct Entry {
    verb: Verb,
    origin: Origin,
    rule: Rule,
}

/// The tools that change files.
const CHANGES: &[&str] = &["Write", "Edit", "MultiEdit"];

/// What is judged.
struct Question<'a> {
    tool: &'a str,
    effect: &'a Effect,
    /// A command's line, and what the judge says of it.
    command: Option<(Line, Findings)>,
    places: &'a Places,
    ground: &'a Survey<'a>,
}

/// In this order: never, what can not be judged, what is closed, deny, secrets, a better way, the mode that only reads, `--allow`, a person's answer, ask, what needs a person,
/// a file's allow; then the mode.
const GUARDS: &[fn(&Policy, &Question<'_>) -> Option<Ruling>] = &[
    |_, question| never(question),
    |_, question| too_long(question),
    |_, question| closed(question),
    Policy::denied,
    Policy::secrets,
    Policy::better_way,
    Policy::asked_about_files,
    Policy::only_reads,
    Policy::granted,
    Policy::own_files,
];

impl Policy {
    /// No rules yet. In a sandbox commands may run without a rule in the mode that edits.
    pub fn new(mode: PermissionMode, is_sandboxed: bool) -> Self {
        let (entries, places, pins) = Default::default();
        let own = Own { loopback: false, temporary: is_sandboxed };
        Self { mode, is_sandboxed, own, entries, places, pins }
    }

    /// What the sandbox has of its own: a loopback interface, and temporary folders in which nothing of anybody's
    /// lies.
    #[must_use]
    pub fn with_own(mut self, loopback: bool, temporary: bool) -> Self {
        self.own = Own {
            loopback: self.is_sandboxed && loopback,
            temporary: self.is_sandboxed && temporary,
        };
        self
    }

    /// Patterns that begin at the root of all or at the home are about paths seen from here.
    #[must_use]
    pub fn at(mut self, places: Places) -> Self {
        self.places = Arc::new(places);
        self
    }

    /// From now on this mode counts.
    pub fn set_mode(&mut self, mode: PermissionMode) {
        self.mode = mode;
    }

    /// A person who was asked allows this from now on: no more than it says, and nothing that can not be undone.
    pub fn allow(&mut self, rules: impl IntoIterator<Item = Rule>) {
        let entry =
            |rule: Rule| Entry { verb: Verb::Allow, origin: Origin::Answer, rule: rule.whole() };
        Arc::make_mut(&mut self.entries).extend(rules.into_iter().map(entry));
    }

    /// Adds rules of one verb from one place.
    #[must_use]
    pub fn with(
        mut self,
        verb: Verb,
        origin: Origin,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Self {
        let rules = rules.into_iter().map(|rule| Entry { verb, origin, rule });
        Arc::make_mut(&mut self.entries).extend(rules);
        self
    }

    /// Rules hold for what their names lead to on this ground too.
    #[must_use]
    pub fn through_links(mut self, ground: &dyn Ground) -> Self {
        for entry in Arc::make_mut(&mut self.entries) {
            entry.rule = entry.rule.clone().through_links(ground);
        }
        self
    }

    /// How freely the agent may act.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// Which files are not to be shown by whoever meets them.
    pub fn withheld(&self) -> Withheld {
        Withheld { entries: Arc::clone(&self.entries), places: Arc::clone(&self.places) }
    }

    /// May this tool do this? The ground says what stands at the paths that a command names.
    pub fn rule_on(&self, tool: &str, effect: &Effect, ground: &dyn Ground) -> Ruling {
        let ground = &Survey::new(ground);
        let command = judge::findings(effect, ground, self.own);
        let question = Question { tool, effect, command, places: &self.places, ground };
        let ruling = GUARDS.iter().find_map(|guard| guard(self, &question));
        ruling.unwrap_or_else(|| self.by_mode(&question))
    }

    /// A line that talks to other machines, and every command of it is allowed by a rule, or by a mode that
    /// allows everything: it has the user's network. What only the sandbox lets run does not.
    pub fn gives_network(&self, tool: &str, effect: &Effect, ground: &dyn Ground) -> bool {
        let ground = &Survey::new(ground);
        if !self.needs_network(effect, ground) {
            return false;
        }
        let command = judge::findings(effect, ground, self.own);
        let question = Question { tool, effect, command, places: &self.places, ground };
        self.mode == PermissionMode::Full
            || matches!(self.granted(&question), Some(Ruling::Allow(_)))
    }

    /// The command talks to other machines: whoever allows it gives it the user's network.
    pub fn needs_network(&self, effect: &Effect, ground: &dyn Ground) -> bool {
        match effect {
            Effect::Command { command, directory, .. } => {
                Line::read(command).needs_network(directory, ground, self.own)
            }
            Effect::Read { .. } | Effect::Write { .. } | Effect::Job { .. } | Effect::Plan => false,
        }
    }

    /// By itself, whatever rules and modes say, it may be done without asking: a command that destroys nothing,
    /// reaches no other machine and is not one of those that are never run.
    pub fn is_harmless(effect: &Effect, ground: &dyn Ground) -> bool {
        judge::findings(effect, ground, Own::default()).is_none_or(|(line, findings)| {
            line.is_understood()
                && !line.is_too_long()
                && findings.never.is_none()
                && findings.asks.is_empty()
        })
    }

    fn denied(&self, question: &Question<'_>) -> Option<Ruling> {
        let is_it = |entry: &Entry| entry.verb == Verb::Deny && question.may_be(&entry.rule);
        if let Some(entry) = self.find(question.tool, is_it) {
            let code = match question.effect {
                Effect::Command { .. } => ErrorCode::CommandBlocked,
                Effect::Read { .. } | Effect::Write { .. } | Effect::Job { .. } | Effect::Plan => {
                    ErrorCode::AccessDenied
                }
            };
            let text = format!("a rule forbids this; {ANOTHER_WAY}");
            return Some(Ruling::Refuse(code, self.reason_of(entry, text)));
        }
        if let Some((entry, path)) = self.changed_by_command(question, Verb::Deny) {
            let text = format!("a rule forbids to change {path}, whichever way; {ANOTHER_WAY}");
            return Some(Ruling::Refuse(ErrorCode::AccessDenied, self.reason_of(entry, text)));
        }
        let withheld = self.withheld();
        let denies = |_, path: &str| withheld.denies(question.tool, path).is_some();
        let path = question.shows(withheld.has(Verb::Deny), &denies, Suspicion::Any)?;
        let entry = withheld.denies(question.tool, &path)?;
        let text = format!("a rule forbids to read {path}, whichever way; {ANOTHER_WAY}");
        Some(Ruling::Refuse(ErrorCode::AccessDenied, self.reason_of(entry, text)))
    }

    /// A file that a rule of this verb keeps from being changed by a tool, and a command is known to
    /// change.
    fn changed_by_command(&self, question: &Question<'_>, verb: Verb) -> Option<(&Entry, String)> {
        let Effect::Command { directory, .. } = question.effect else { return None };
        let (line, _) = question.command.as_ref()?;
        let is_about = |entry: &&Entry| {
            entry.verb == verb && CHANGES.contains(&entry.rule.tool()) && !entry.rule.is_bare()
        };
        self.entries.iter().filter(is_about).find_map(|entry| {
            let fits = |path: &str| entry.rule.holds_for_path(path, &self.places);
            Some((entry, judge::changes(line, directory, question.ground, &fits)?))
        })
    }

    /// A rule that asks before a file is read, or changed, asks before each way to do so.
    fn asked_about_files(&self, question: &Question<'_>) -> Option<Ruling> {
        if let Some((entry, path)) = self.changed_by_command(question, Verb::Ask) {
            let text = format!("a rule asks before {path} is changed, whichever way");
            return Some(Ruling::Ask(self.reason_of(entry, text)));
        }
        // (What it denies it may deny of this too.)
        let guards = |entry: &&Entry| {
            entry.verb != Verb::Allow
                && CHANGES.contains(&entry.rule.tool())
                && !entry.rule.is_bare()
        };
        let is_patch = |(line, _): &(Line, Findings)| judge::changes_what_a_patch_names(line);
        if let Some(entry) = self.entries.iter().find(guards)
            && question.command.as_ref().is_some_and(is_patch)
        {
            let text = "a rule guards files, and which files a patch changes stands in the patch";
            return Some(Ruling::Ask(self.reason_of(entry, text)));
        }
        let withheld = self.withheld();
        let asks = |_, path: &str| withheld.asks(question.tool, path).is_some();
        let path = question.shows(withheld.has(Verb::Ask), &asks, Suspicion::Any)?;
        let entry = withheld.asks(question.tool, &path)?;
        let text = format!("a rule asks before {path} is read, whichever way");
        Some(Ruling::Ask(self.reason_of(entry, text)))
    }

    /// A rule that allows everything does not mean the secrets: they need one that names them.
    fn secrets(&self, question: &Question<'_>) -> Option<Ruling> {
        if self.mode == PermissionMode::Full {
            return None;
        }
        let withheld = self.withheld();
        // A rule for the very command that shows it is enough where it says the file's name.
        let (tool, line) = (question.tool, question.command.as_ref().map(|(line, _)| line));
        let is_named = |n: usize, path: &str| {
            let words = written(line?.script().commands.get(n)?);
            self.find(tool, |entry| {
                entry.verb == Verb::Allow && entry.rule.names(path) && entry.rule.fits_words(&words)
            })
        };
        let is_it = |by: Option<usize>, path: &str| {
            withheld.is_secret(path) && by.is_none_or(|n| is_named(n, path).is_none())
        };
        let path = question.shows(true, &is_it, Suspicion::Known)?;
        // A tool that goes through the same files leaves it out.
        let name = path.rsplit('/').next().unwrap_or(&path);
        if line.is_some_and(|line| !line.text().contains(name))
            && self.better_way(question).is_some()
        {
            return None;
        }
        // Whoever allows what is named here should not be told of the next one then.
        let mut shown = vec![path.clone()];
        while shown.len() < MOST_NAMED {
            let is_other = |by: Option<usize>, other: &str| {
                !shown.iter().any(|path| path == other) && is_it(by, other)
            };
            let Some(other) = question.shows(true, &is_other, Suspicion::Known) else { break };
            shown.push(other);
        }
        let options: Vec<String> = shown.iter().map(|path| allowing_file("Read", path)).collect();
        let options = options.join(" ");
        let what = match &question.command {
            Some(_) => {
                "this would show what is in it: leave it out (a narrower name, `--exclude`); "
            }
            None => "",
        };
        let text = format!(
            "{path} looks like it holds secrets; {what}a person can allow it with {options}"
        );
        Some(Ruling::Refuse(ErrorCode::AccessDenied, reason("secrets", text)))
    }

    /// Where a tool does it better, or nobody could answer it. No question of what is allowed: only a
    /// person who names the command insists.
    fn better_way(&self, question: &Question<'_>) -> Option<Ruling> {
        let (line, findings) = question.command.as_ref()?;
        let Instead { is_tool, text, hint } = findings.instead.as_ref()?;
        let is_named = |entry: &Entry| {
            entry.verb == Verb::Allow
                && entry.origin == Origin::CommandLine
                && !entry.rule.is_bare()
                && line
                    .script()
                    .commands
                    .iter()
                    .any(|simple| entry.rule.fits_words(&written(simple)))
        };
        if self.find(question.tool, is_named).is_some() {
            return None;
        }
        let (code, rule) = if *is_tool {
            (ErrorCode::UseTool, "use tool")
        } else {
            (ErrorCode::CommandBlocked, "interactive")
        };
        let reason = Reason { hint: hint.clone(), ..reason(rule, text) };
        Some(Ruling::Instead(code, reason))
    }

    /// What only reads changes no file, whatever rules in files allow: a person says otherwise where the mode is
    /// said, on the command line.
    fn only_reads(&self, question: &Question<'_>) -> Option<Ruling> {
        let Effect::Write { path } = question.effect else { return None };
        let by_person = |entry: &Entry| {
            entry.verb == Verb::Allow
                && entry.origin == Origin::CommandLine
                && entry.rule.fits_path(path, &self.places)
        };
        let is_refused =
            self.mode == PermissionMode::ReadOnly && self.find(question.tool, by_person).is_none();
        is_refused.then(|| self.by_mode(question))
    }

    fn granted(&self, question: &Question<'_>) -> Option<Ruling> {
        match (question.effect, &question.command) {
            (Effect::Read { path } | Effect::Write { path }, _) => {
                let allows = |rule: &Rule| rule.fits_path(path, &self.places);
                let asks = |rule: &Rule| rule.holds_for_path(path, &self.places);
                self.standing(question.tool, allows, asks, None)
            }
            (Effect::Command { .. }, Some((line, findings))) => {
                let commands = &line.script().commands;
                if !line.is_understood() || commands.is_empty() {
                    let class = findings.asks.first();
                    let asks = |rule: &Rule| question.may_be(rule);
                    return self.standing(question.tool, Rule::is_bare, asks, class);
                }
                let mut standings = Vec::new();
                for (n, simple) in commands.iter().enumerate() {
                    match self.standing_of(question, n, simple) {
                        Some(asked @ Ruling::Ask(_)) => return Some(asked),
                        standing => standings.push(standing),
                    }
                }
                // Each of its commands has to be allowed.
                standings.into_iter().collect::<Option<Vec<_>>>()?.into_iter().next()
            }
            (Effect::Command { .. } | Effect::Job { .. } | Effect::Plan, _) => {
                self.standing(question.tool, Rule::is_bare, Rule::is_bare, None)
            }
        }
    }

    /// What the rules say of one simple command of a line.
    fn standing_of(&self, question: &Question<'_>, n: usize, simple: &Simple) -> Option<Ruling> {
        let (line, findings) = question.command.as_ref()?;
        let words = written(simple);
        // A redirection that writes a file is no part of any pattern.
        let writes = simple.redirects.iter().any(|to| to.writes().is_some());
        let allows = |rule: &Rule| rule.is_bare() || !writes && rule.fits_words(&words);
        let values = line.values();
        let asks = |rule: &Rule| {
            let mut runs = line.runs().iter().filter(|run| run.of == n);
            rule.fits_words(&words)
                || runs.any(|run| fits_run(rule, run, values))
                || !line.is_known() && rule.occurs_in(line.text(), values)
        };
        // The worst of it is named.
        let classes = findings.asks.iter().filter(|(of, ..)| *of == n);
        let class = classes.max_by_key(|(_, class, _)| *class == Class::Destructive);
        self.standing(question.tool, allows, asks, class)
    }

    /// What the rules say of one thing: a person's allow, ask, what needs a person, a file's allow.
    fn standing(
        &self,
        tool: &str,
        allows: impl Fn(&Rule) -> bool,
        asks: impl Fn(&Rule) -> bool,
        class: Option<&(usize, Class, String)>,
    ) -> Option<Ruling> {
        let allowed = |is_from: &dyn Fn(&Entry) -> bool| {
            let is_it =
                |entry: &Entry| entry.verb == Verb::Allow && is_from(entry) && allows(&entry.rule);
            let entry = self.find(tool, is_it)?;
            Some(Ruling::Allow(reason(entry.shown(), "a rule allows this")))
        };
        // A rule that names the command allows it the network, none but one of the command line what can not be
        // undone.
        let class = class.filter(|_| self.mode != PermissionMode::Full);
        let is_enough = |entry: &Entry| match class {
            None => true,
            // What a person answered was about a command of its kind that needs it.
            Some((_, Class::Network, _)) if entry.origin == Origin::Answer => {
                propose::gives_network(&entry.rule)
            }
            Some((_, Class::Network, _)) => !entry.rule.is_bare(),
            Some(_) => false,
        };
        if let Some(by_person) = allowed(&|entry| entry.origin == Origin::CommandLine)
            .or_else(|| allowed(&|entry| entry.origin == Origin::Answer && is_enough(entry)))
        {
            return Some(by_person);
        }
        if let Some(entry) = self.find(tool, |e| e.verb == Verb::Ask && asks(&e.rule)) {
            return Some(Ruling::Ask(self.reason_of(entry, "a rule asks before this")));
        }
        if let Some(by_file) = allowed(&is_enough) {
            return Some(by_file);
        }
        let (_, class, why) = class?;
        if self.mode == PermissionMode::ReadOnly && *class != Class::Network {
            return None;
        }
        let (rule, what) = match class {
            Class::Network => ("network", "needs the network"),
            _ => ("destructive", "can not be undone"),
        };
        let how = "a person has to agree, or allow it with --allow 'Bash(…)' that names it";
        let reason = reason(rule, format!("this {what}: {why}"));
        Some(Ruling::Ask(Reason { hint: Some(how.to_owned()), ..reason }))
    }

    fn own_files(&self, question: &Question<'_>) -> Option<Ruling> {
        let Effect::Write { path } = question.effect else { return None };
        let asks = match self.mode {
            PermissionMode::Ask | PermissionMode::AutoEdit => true,
            PermissionMode::ReadOnly | PermissionMode::Full => false,
        };
        let is_own = paths::guarded(path) == Some(Guarded::Ask);
        (asks && is_own).then(|| {
            let option = allowing_file(question.tool, path);
            let how = format!("a person has to agree, or allow it with {option}");
            let reason = reason("own files", format!("{path} tells the agent how to work"));
            Ruling::Ask(Reason { hint: Some(how), ..reason })
        })
    }

    fn by_mode(&self, question: &Question<'_>) -> Ruling {
        let mode = format!("mode {}", self.mode.as_str());
        match (question.effect, self.mode) {
            (Effect::Read { .. } | Effect::Job { .. } | Effect::Plan, _)
            | (_, PermissionMode::Full)
            | (Effect::Write { .. }, PermissionMode::AutoEdit) => {
                Ruling::Allow(reason(mode, "the mode allows this"))
            }
            (Effect::Write { .. }, PermissionMode::ReadOnly) => Ruling::Refuse(
                ErrorCode::AccessDenied,
                reason(mode, "nothing is changed in this mode; say what you would change"),
            ),
            (Effect::Command { .. }, PermissionMode::ReadOnly) if self.is_sandboxed => {
                Ruling::Allow(reason(mode, "it runs in a sandbox that writes nothing"))
            }
            (Effect::Command { reads_only: true, .. }, PermissionMode::Ask)
                if self.is_sandboxed =>
            {
                Ruling::Allow(reason(mode, "it is known only to read, and runs in the sandbox"))
            }
            (Effect::Command { .. }, PermissionMode::ReadOnly) => Ruling::Refuse(
                ErrorCode::AccessDenied,
                reason(mode, "no command runs in this mode; read and search with the other tools"),
            ),
            (Effect::Write { path }, PermissionMode::Ask) => {
                let text = format!(
                    "a person has to agree to this change, or allow it with {} or \
                     --permission-mode auto-edit",
                    allowing_file(question.tool, path)
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
        let Some((line, _)) = question.command.as_ref().filter(|(line, _)| line.is_understood())
        else {
            return "--allow Bash (no pattern fits a line that is not understood: a simpler one can be \
                    allowed more narrowly)"
                .to_owned();
        };
        let mut options: Vec<String> = Vec::new();
        for (n, simple) in line.script().commands.iter().enumerate() {
            if matches!(self.standing_of(question, n, simple), Some(Ruling::Allow(_))) {
                continue;
            }
            match propose::rule_for(line, n) {
                Ok(rule) => {
                    let option = format!("--allow '{rule}'");
                    if !options.contains(&option) {
                        options.push(option);
                    }
                }
                Err(why) => return format!("--allow Bash ({why})"),
            }
        }
        options.join(" ")
    }

    /// The first rule about this tool that is so. What denies or asks before one tool changes a file does
    /// so before each.
    fn find(&self, tool: &str, is_so: impl Fn(&Entry) -> bool) -> Option<&Entry> {
        let is_about = |entry: &Entry| {
            let own = entry.rule.tool();
            own == tool
                || entry.verb != Verb::Allow
                    && !entry.rule.is_bare()
                    && CHANGES.contains(&own)
                    && CHANGES.contains(&tool)
        };
        self.entries.iter().find(|entry| is_about(entry) && is_so(entry))
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
            Origin::Answer => format!("{verb} {rule} (an answer)"),
            Origin::UserFile => format!("{verb} {rule} (user configuration)"),
            Origin::ProjectFile => format!("{verb} {rule} (project configuration)"),
            Origin::Pin(id) => format!("{verb} {rule} (pin {id})"),
        }
    }
}

impl Question<'_> {
    /// A file of this kind that the call would show; `is_wanted` where there is any such kind.
    fn shows(&self, is_wanted: bool, is_it: &IsIt<'_>, suspicion: Suspicion) -> Option<String> {
        match (self.effect, &self.command) {
            _ if !is_wanted => None,
            (Effect::Read { path }, _) => {
                (matches!(self.tool, "Read" | "Grep") && is_it(None, path)).then(|| path.clone())
            }
            (Effect::Command { directory, .. }, Some((line, _))) => {
                judge::shows(line, directory, self.ground, is_it, suspicion)
            }
            (
                Effect::Command { .. } | Effect::Write { .. } | Effect::Job { .. } | Effect::Plan,
                _,
            ) => None,
        }
    }

    /// The call is, or may be, one that the rule is about: a command of the line, what stands behind
    /// an `env` or in a `sh -c`, or, where the line is not understood, its text.
    fn may_be(&self, rule: &Rule) -> bool {
        match self.effect {
            Effect::Read { path } | Effect::Write { path } => {
                rule.holds_for_path(path, self.places)
            }
            Effect::Job { .. } | Effect::Plan => rule.is_bare(),
            Effect::Command { command, .. } => self.command.as_ref().is_some_and(|(line, _)| {
                let mut runs = line.runs().iter();
                let values = line.values();
                rule.is_bare()
                    || line.script().commands.iter().any(|simple| rule.fits_words(&written(simple)))
                    || runs.any(|run| fits_run(rule, run, values))
                    || !line.is_known() && rule.occurs_in(command, values)
            }),
        }
    }
}

/// So many files with secrets are named at once.
const MOST_NAMED: usize = 8;

const ANOTHER_WAY: &str = "find another way, or say what you would need it for";

fn never(question: &Question<'_>) -> Option<Ruling> {
    match question.effect {
        Effect::Command { .. } => {
            let why = question.command.as_ref()?.1.never?;
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
        Effect::Write { .. } | Effect::Read { .. } | Effect::Job { .. } | Effect::Plan => None,
    }
}

/// What was not read to its end may hold what is never run, what a rule denies, and secrets: no mode and no rule lets it run.
fn too_long(question: &Question<'_>) -> Option<Ruling> {
    let (line, _) = question.command.as_ref()?;
    let text = "this is too long, or stands too deep in itself, to be read, so it is run in no mode: do it in \
                smaller steps, write texts with Write, or put the commands into a script file and run that";
    line.is_too_long().then(|| Ruling::Refuse(ErrorCode::CommandBlocked, reason("too long", text)))
}

/// What is closed to file tools in the project is changed by no command that names it, whatever the sandbox holds.
fn closed(question: &Question<'_>) -> Option<Ruling> {
    let Effect::Command { directory, .. } = question.effect else { return None };
    let (line, _) = question.command.as_ref()?;
    let places = question.ground.closed();
    if places.is_empty() {
        return None;
    }
    let is_in = |path: &str| {
        let is_below = |place: &String| {
            path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        places.iter().any(is_below)
    };
    let path = judge::changes(line, directory, question.ground, &is_in)?;
    let text = format!(
        "{path} is not to be changed: it holds secrets of the user's, or belongs to the agent itself; {ANOTHER_WAY}"
    );
    Some(Ruling::Refuse(ErrorCode::AccessDenied, reason("closed", text)))
}

/// The option that allows a tool this file, and no other where a rule can say that.
fn allowing_file(tool: &str, path: &str) -> String {
    let rule = propose::rule_for_file(tool, path).unwrap_or_else(|| format!("{tool}({path})"));
    format!("--allow '{rule}'")
}

/// The rule, which denies or asks, is about what runs: options before what it is told to do make no other command of it,
/// and what bash puts into its words may be what is missing in them.
fn fits_run(rule: &Rule, run: &shell::Run, values: &Values) -> bool {
    let may_be = |(n, word): (usize, &shell::Word)| values.of_word(word, n == 0);
    let mut words: Vec<Vec<String>> = run.words.iter().enumerate().map(may_be).collect();
    let mut skips = judge::skips(run);
    // A name that is made up on the way may be any: `git -c alias.p=push p`.
    let makes_names = run.words.iter().any(|word| word.text.contains("alias."));
    let told = judge::first_operand(run).filter(|_| makes_names && run.name() == "git");
    if let Some(told) = told {
        words[told].push(filled::ANYTHING.to_string());
    }
    if rule.may_fit(&words, &skips) {
        return true;
    }
    // `git-push` is `git push`.
    let Some((program, sub)) = run.name().split_once('-') else { return false };
    words.splice(..1, [vec![program.to_owned()], vec![sub.to_owned()]]);
    skips.insert(0, Skip::No);
    rule.may_fit(&words, &skips)
}

/// A simple command's words as they are written, the assignments before them included.
fn written(simple: &Simple) -> Vec<String> {
    simple.assignments.iter().chain(&simple.words).map(|word| word.text.clone()).collect()
}

fn reason(rule: impl Into<String>, text: impl Into<String>) -> Reason {
    Reason { rule: rule.into(), text: text.into(), hint: None, pin: None }
}
