//! The permission policy: takes the effect of a call and returns a ruling. Pure.
//!
//! The first guard that returns a ruling decides. A command line is decided by its simple commands.

mod claude_rule;
mod command_line;
mod command_rights;
mod dangers;
mod grant_proposals;
mod hidden_files;
mod judge;
mod paths;
mod pipeline_status;
mod rule;
mod session_rules;
mod shell;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use agent_protocol::control::{PermissionMode, Reason, Ruling};
use agent_protocol::envelope::ErrorCode;
use agent_protocol::event::SessionRule;
use agent_protocol::tool::{BASH_KILL, BASH_OUTPUT, CHANGE_TOOLS, Effect};
use agent_protocol::web::{WEB_FETCH, WEB_SEARCH, is_private_host};

use judge::{Command, Finding, FindingClass, JudgeContext, SandboxRight};
use paths::PathProtection;

pub use claude_rule::ClaudeRule;
pub use command_line::CommandLine;
pub use grant_proposals::propose_grants;
pub use hidden_files::{HiddenFiles, HiddenReason};
pub use judge::{PathFacts, PathKind, is_build_output, may_recommend};
pub use paths::is_secret_file;
pub use pipeline_status::PipelineRun;
pub use rule::{MCP, PathRoots, Rule, RuleAction, RuleOrigin};

/// A path that a rule denies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeniedPath {
    /// Relative to the project, or absolute.
    pub path: String,
    /// The rule, or the user's sentence that was its source, and how to remove it.
    pub reason: String,
}

/// The mode and rules of a session.
#[derive(Clone, Debug)]
pub struct Policy {
    mode: PermissionMode,
    initial_mode: PermissionMode,
    is_sandboxed: bool,
    has_checkpoints: bool,
    entries: Arc<Vec<PolicyEntry>>,
    roots: Arc<PathRoots>,
    session_rules: Vec<SessionRule>,
}

#[derive(Clone, Debug)]
struct PolicyEntry {
    verb: RuleAction,
    origin: RuleOrigin,
    rule: Rule,
    /// Where the rule allows commands; empty: everywhere.
    directories: Vec<String>,
}

const FORBIDDEN: &str = "a rule forbids this; find another way, or say what you would need it for";

struct PolicyQuery<'a> {
    tool: &'a str,
    effect: &'a Effect,
    command: Option<(CommandLine, Vec<Finding>)>,
    facts: &'a dyn PathFacts,
}

/// The guards in order of precedence; if none decides, the mode does. For changes of files see [`Policy::rule_on_change`].
const GUARDS: &[fn(&Policy, &PolicyQuery<'_>) -> Option<Ruling>] = &[
    |_, query| refuse_line(query),
    Policy::deny_by_rule,
    Policy::refuse_unnamed_host,
    Policy::refuse_secret_file,
    Policy::decide_by_rules,
];

impl Policy {
    /// A policy without rules. Checkpoints are assumed in a sandboxed session.
    pub fn new(mode: PermissionMode, is_sandboxed: bool) -> Self {
        Self {
            mode,
            initial_mode: mode,
            is_sandboxed,
            has_checkpoints: is_sandboxed,
            entries: Arc::default(),
            roots: Arc::default(),
            session_rules: Vec::new(),
        }
    }

    /// Sets whether changes of commands in the project can be undone; if not, destructive commands ask.
    pub fn set_checkpoints(&mut self, has_checkpoints: bool) {
        self.has_checkpoints = has_checkpoints;
    }

    /// Sets the directories that patterns beginning with `/` or `~` are compared with.
    #[must_use]
    pub fn with_places(mut self, places: PathRoots) -> Self {
        self.roots = Arc::new(places);
        self
    }

    /// Changes the mode.
    pub fn set_mode(&mut self, mode: PermissionMode) {
        self.mode = mode;
    }

    /// Adds rules of one verb from one origin.
    #[must_use]
    pub fn with_rules(
        mut self,
        verb: RuleAction,
        origin: RuleOrigin,
        rules: impl IntoIterator<Item = Rule>,
    ) -> Self {
        let rules = rules.into_iter().map(|rule| PolicyEntry {
            verb,
            origin,
            rule,
            directories: Vec::new(),
        });
        Arc::make_mut(&mut self.entries).extend(rules);
        self
    }

    /// Rules about paths also match the targets of symlinks in them.
    #[must_use]
    pub fn with_link_targets(mut self, facts: &dyn PathFacts) -> Self {
        for entry in Arc::make_mut(&mut self.entries) {
            entry.rule = entry.rule.clone().with_link_targets(facts);
        }
        self
    }

    /// The current mode.
    pub fn mode(&self) -> PermissionMode {
        self.mode
    }

    /// The mode of the configuration or the command line.
    pub fn initial_mode(&self) -> PermissionMode {
        self.initial_mode
    }

    /// The files that may not be shown.
    pub fn hidden_files(&self) -> HiddenFiles {
        HiddenFiles { entries: Arc::clone(&self.entries), roots: Arc::clone(&self.roots) }
    }

    /// The literal paths that rules deny to read, and to change: the sandbox hides them from commands, or
    /// makes them read-only.
    pub fn denied_paths(&self) -> (Vec<DeniedPath>, Vec<DeniedPath>) {
        let paths = |is_about: fn(&str) -> bool| {
            let denied = self.entries.iter().filter(|entry| entry.verb == RuleAction::Deny);
            let mut paths: Vec<DeniedPath> = Vec::new();
            for entry in denied.filter(|entry| is_about(entry.rule.tool())) {
                let Some(path) = entry.rule.literal_path() else { continue };
                let path = self.roots.expand(&path);
                if !paths.iter().any(|known| known.path == path) {
                    paths.push(DeniedPath { path, reason: self.source_of(entry) });
                }
            }
            paths
        };
        (paths(|tool| matches!(tool, "Read" | "Grep")), paths(|tool| CHANGE_TOOLS.contains(&tool)))
    }

    /// Decides about a call of this tool with this effect.
    pub fn rule_on(&self, tool: &str, effect: &Effect, facts: &dyn PathFacts) -> Ruling {
        if let Effect::Write { path } = effect {
            return self.rule_on_change(tool, path);
        }
        let query = build_query(tool, effect, facts);
        let ruling = GUARDS.iter().find_map(|guard| guard(self, &query));
        ruling.unwrap_or_else(|| self.decide_by_mode(&query))
    }

    /// Decides about the change of a file.
    fn rule_on_change(&self, tool: &str, path: &str) -> Ruling {
        let protection = paths::path_protection(path);
        if protection == Some(PathProtection::Never) {
            let text = format!(
                "{path} is never written by a file tool; git changes its own files, and the user the agent's"
            );
            return Ruling::Refuse(ErrorCode::AccessDenied, new_reason("never", text));
        }
        let covers = |rule: &Rule| rule.covers_path(path, &self.roots);
        let fits = |rule: &Rule| rule.fits_path(path, &self.roots);
        let denies = |entry: &PolicyEntry| entry.verb == RuleAction::Deny && covers(&entry.rule);
        if let Some(entry) = self.find_entry(tool, denies) {
            return Ruling::Refuse(ErrorCode::AccessDenied, self.reason_of(entry, FORBIDDEN));
        }
        // In mode read-only a rule in a file cannot allow a change, one on the command line can.
        let is_allowed = !self.mode.is_read_only() || self.is_allowed_on_command_line(tool, fits);
        if let Some(ruling) =
            self.rule_outcome(tool, fits, covers, None, None).filter(|_| is_allowed)
        {
            return ruling;
        }
        let mode = &*format!("mode {}", self.mode.as_str());
        let refuse = |text: &str| Ruling::Refuse(ErrorCode::AccessDenied, new_reason(mode, text));
        let allow_it = || allow_file_option(tool, path);
        match self.mode {
            PermissionMode::Plan => refuse(
                "changes are made after the user accepts the plan, which is your final answer",
            ),
            PermissionMode::ReadOnly => {
                refuse("this mode allows no changes; say what you would change")
            }
            // Files with instructions for the agent are changed only with the user's approval.
            PermissionMode::Ask | PermissionMode::AutoEdit
                if protection == Some(PathProtection::Ask) =>
            {
                let how = format!("the user has to agree, or allow it with {}", allow_it());
                let text = format!("{path} tells the agent how to work");
                let reason = new_reason("agent files", text);
                Ruling::Ask(Reason { hint: Some(how), requires_user: true, ..reason })
            }
            PermissionMode::Ask => {
                let text = format!(
                    "the user has to agree to this change, or allow it with {} or --permission-mode auto-edit",
                    allow_it()
                );
                Ruling::Ask(new_reason(mode, text))
            }
            PermissionMode::AutoEdit | PermissionMode::Full => {
                Ruling::Allow(new_reason(mode, "the mode allows this"))
            }
        }
    }

    fn is_allowed_on_command_line(&self, tool: &str, fits: impl Fn(&Rule) -> bool) -> bool {
        let allows = |entry: &PolicyEntry| {
            entry.verb == RuleAction::Allow
                && entry.origin == RuleOrigin::CommandLine
                && fits(&entry.rule)
        };
        self.find_entry(tool, allows).is_some()
    }

    /// Whether the judge would neither refuse nor ask about the effect, also without checkpoints.
    pub fn is_harmless(effect: &Effect, facts: &dyn PathFacts) -> bool {
        !matches!(
            effect,
            Effect::Mcp { .. }
                | Effect::Agent { .. }
                | Effect::Fetch { .. }
                | Effect::WebSearch { .. }
        ) && findings_of(effect, facts).is_none_or(|(line, findings)| {
            line.is_fully_parsed() && !line.is_too_long() && findings.is_empty()
        })
    }

    fn deny_by_rule(&self, query: &PolicyQuery<'_>) -> Option<Ruling> {
        let fits = |rule: &Rule| match query.effect {
            Effect::Read { path } | Effect::Write { path } => rule.covers_path(path, &self.roots),
            Effect::Job { .. }
            | Effect::Plan
            | Effect::Ask
            | Effect::Lookup
            | Effect::WebSearch { .. } => rule.is_bare(),
            Effect::Skill { name }
            | Effect::Agent { role: name, .. }
            | Effect::Fetch { host: name, .. } => rule.fits_name(name),
            Effect::Mcp { server, tool, .. } => rule.fits_mcp_tool(server, tool),
            Effect::Command { .. } => query.command.as_ref().is_some_and(|(line, _)| {
                rule.is_bare() || line.commands().iter().any(|command| rule.fits_command(command))
            }),
        };
        let denies = |entry: &PolicyEntry| entry.verb == RuleAction::Deny && fits(&entry.rule);
        if let Some(entry) = self.find_entry(query.tool, denies) {
            let code = match query.effect {
                Effect::Command { .. } => ErrorCode::CommandBlocked,
                _ => ErrorCode::AccessDenied,
            };
            return Some(Ruling::Refuse(code, self.reason_of(entry, FORBIDDEN)));
        }
        let path = query.shown_path()?;
        let hidden_files = self.hidden_files();
        let entry = hidden_files.denying_entry(query.tool, path)?;
        Some(Ruling::Refuse(ErrorCode::AccessDenied, self.reason_of(entry, FORBIDDEN)))
    }

    /// A rule that the user wrote names the host of a page, without `*`.
    pub fn names_host(&self, effect: &Effect) -> bool {
        let Effect::Fetch { host, .. } = effect else { return false };
        let is_written = |entry: &PolicyEntry| match entry.origin {
            // The answer "always" is about the host, not about where its name may lead.
            RuleOrigin::Session(id) => {
                self.session_rules.iter().any(|rule| rule.id == id && rule.is_written)
            }
            _ => true,
        };
        let names = |entry: &PolicyEntry| {
            entry.verb == RuleAction::Allow && entry.rule.is_name(host) && is_written(entry)
        };
        self.find_entry(WEB_FETCH, names).is_some()
    }

    /// A private address, and a page without encryption, need a rule that names the host, in every mode.
    fn refuse_unnamed_host(&self, query: &PolicyQuery<'_>) -> Option<Ruling> {
        let Effect::Fetch { url, host } = query.effect else { return None };
        let is_private = is_private_host(host);
        let is_open = !is_private && url.starts_with("https:");
        if is_open || self.names_host(query.effect) {
            return None;
        }
        let allow = format!("the user can allow it with --allow '{WEB_FETCH}({host})'");
        let (what, hint) = if is_private {
            (format!("{host} is an address of this machine or of a private network"), allow)
        } else {
            (format!("{url} is not encrypted"), format!("use https://, or {allow}"))
        };
        let text = format!("{what}; only the rule WebFetch({host}) allows it");
        let reason = Reason { hint: Some(hint), ..new_reason("host", text) };
        Some(Ruling::Refuse(ErrorCode::AccessDenied, reason))
    }

    /// Such a file needs a rule that names it; one that allows everything, or mode full, is not enough.
    fn refuse_secret_file(&self, query: &PolicyQuery<'_>) -> Option<Ruling> {
        let path = query.shown_path()?;
        if !self.hidden_files().is_secret(path) {
            return None;
        }
        let option = allow_file_option("Read", path);
        let text = format!(
            "{path} looks like it contains secrets; a rule that names it allows it: {option}"
        );
        let reason = new_reason("secrets", text);
        let hint = Some("continue without its content".to_owned());
        Some(Ruling::Refuse(ErrorCode::AccessDenied, Reason { hint, ..reason }))
    }

    fn decide_by_rules(&self, query: &PolicyQuery<'_>) -> Option<Ruling> {
        match (query.effect, &query.command) {
            (Effect::Read { path }, _) => {
                let allows = |rule: &Rule| rule.fits_path(path, &self.roots);
                let asks = |rule: &Rule| rule.covers_path(path, &self.roots);
                // A rule that asks before Read also asks before Grep.
                let (hidden_files, shown) = (self.hidden_files(), query.shown_path());
                match shown.and_then(|path| hidden_files.asking_entry(query.tool, path)) {
                    Some(entry) => Some(Ruling::Ask(self.asking_reason(entry))),
                    None => self.rule_outcome(query.tool, allows, asks, None, None),
                }
            }
            (Effect::Command { directory, .. }, Some((line, findings))) => {
                self.decide_line(query.tool, (line, directory), findings, query.facts)
            }
            (Effect::Mcp { server, tool, reads_only }, _) => {
                let fits = |rule: &Rule| rule.fits_mcp_tool(server, tool);
                // In mode read-only a rule in a file cannot allow a change, one on the command line can.
                let is_refused = !reads_only
                    && self.mode.is_read_only()
                    && !self.is_allowed_on_command_line(query.tool, fits);
                if is_refused {
                    return None;
                }
                self.rule_outcome(query.tool, fits, fits, None, None)
            }
            (
                Effect::Skill { name }
                | Effect::Agent { role: name, .. }
                | Effect::Fetch { host: name, .. },
                _,
            ) => {
                let fits = |rule: &Rule| rule.fits_name(name);
                self.rule_outcome(query.tool, fits, fits, None, None)
            }
            _ => self.rule_outcome(query.tool, Rule::is_bare, Rule::is_bare, None, None),
        }
    }

    fn asking_reason(&self, entry: &PolicyEntry) -> Reason {
        Reason { requires_user: true, ..self.reason_of(entry, "a rule asks before this") }
    }

    /// A line is allowed if each of its commands is allowed or only reads, and a rule allows one.
    fn decide_line(
        &self,
        tool: &str,
        (line, directory): (&CommandLine, &str),
        findings: &[Finding],
        facts: &dyn PathFacts,
    ) -> Option<Ruling> {
        if !line.is_fully_parsed() || line.commands().is_empty() {
            let finding = self.strictest_finding(findings.iter());
            let asks = |rule: &Rule| {
                rule.is_bare() || line.commands().iter().any(|command| rule.fits_command(command))
            };
            let mut ruling = self.rule_outcome(tool, Rule::is_bare, asks, finding, None);
            if let Some(Ruling::Ask(Reason { hint: Some(hint), .. })) = &mut ruling {
                *hint = allow_hint(&["Bash".to_owned()]);
            }
            return ruling;
        }
        let mut allowed = None;
        let mut is_open = false;
        let mut asked: Vec<Reason> = Vec::new();
        for (at, command) in line.commands().iter().enumerate() {
            match self.command_outcome(tool, (line, directory), findings, at) {
                Some(Ruling::Ask(reason)) => asked.push(reason),
                Some(Ruling::Allow(reason)) => _ = allowed.get_or_insert(reason),
                Some(Ruling::Refuse(..)) => {}
                None => is_open |= !judge::only_reads(command, line.text()),
            }
        }
        if let Some(first) = asked.first() {
            // One approval applies to the whole line, so the text contains all reasons.
            let mut texts: Vec<&str> = asked.iter().map(|reason| reason.text.as_str()).collect();
            texts.dedup();
            let has_hint = asked.iter().any(|reason| reason.hint.is_some());
            return Some(Ruling::Ask(Reason {
                rule: first.rule.clone(),
                text: texts.join("; "),
                hint: has_hint.then(|| self.allow_hint_for_line(tool, (line, directory), findings)),
                by_instruction: asked.iter().any(|reason| reason.by_instruction),
                requires_user: asked.iter().any(|reason| reason.requires_user),
            }));
        }
        if let Some(reason) = allowed.as_ref().filter(|_| self.mode != PermissionMode::Full)
            && self.withheld_right(tool, (line, directory), findings, facts).is_some()
        {
            let text = "a rule lets one command of this line out of the sandbox or into the network, but not the rest \
                        of the line: run that command as a line of its own; only filters of its output such as \
                        `| head` may follow";
            return Some(Ruling::Ask(new_reason(reason.rule.clone(), text)));
        }
        allowed.filter(|_| !is_open).map(Ruling::Allow)
    }

    fn command_outcome(
        &self,
        tool: &str,
        (line, directory): (&CommandLine, &str),
        findings: &[Finding],
        at: usize,
    ) -> Option<Ruling> {
        let command = &line.commands()[at];
        let place = self.command_directory(line, command, directory);
        let whole = line.commands().iter().find(|other| other.simple_index == command.simple_index);
        let whole = whole.unwrap_or(command);
        // A pattern does not cover the target of a redirection.
        let writes = command.writes_file() || whole.writes_file();
        let (own, outer) = (command.source_words(), whole.source_words());
        let allows = |rule: &Rule| {
            rule.is_bare() || !writes && (rule.fits_words(&own) || rule.fits_words(&outer))
        };
        let asks = |rule: &Rule| rule.fits_command(command);
        let finding = self.strictest_finding(findings.iter().filter(|finding| finding.at == at));
        self.rule_outcome(tool, allows, asks, finding, place.as_deref())
    }

    fn strictest_finding<'f>(
        &self,
        findings: impl Iterator<Item = &'f Finding>,
    ) -> Option<&'f Finding> {
        let needs_approval = |finding: &&Finding| match (self.mode, finding.class) {
            (PermissionMode::Full, _) => false,
            // The command changes nothing, and gets no additional right.
            (PermissionMode::Plan | PermissionMode::ReadOnly, class) => {
                class == FindingClass::NeedsApproval(Some(SandboxRight::Network))
            }
            (_, FindingClass::Destructive) => !self.has_checkpoints,
            (_, FindingClass::NeedsApproval(_) | FindingClass::Forbidden) => true,
        };
        findings.filter(needs_approval).max_by_key(|finding| finding.class)
    }

    /// The directories in which this rule matches commands of a line; empty if it matches none.
    pub fn matching_directories(&self, effect: &Effect, rule: &str) -> Vec<String> {
        let (Effect::Command { command, directory, .. }, Ok(rule)) = (effect, Rule::parse(rule))
        else {
            return Vec::new();
        };
        let line = CommandLine::parse(command);
        let fits =
            |command: &&Command| rule.tool() == "Bash" && rule.fits_words(&command.source_words());
        let fitting = line.commands().iter().filter(fits);
        let places =
            fitting.filter_map(|command| self.command_directory(&line, command, directory));
        places.collect::<BTreeSet<String>>().into_iter().collect()
    }

    /// Relative to the root, which is `.`; `None` if not known.
    fn command_directory(
        &self,
        line: &CommandLine,
        command: &Command,
        directory: &str,
    ) -> Option<String> {
        let place = shell::directory::join(directory, line.directory_of(command)?);
        let root = &self.roots.project;
        let below = place.strip_prefix(root.as_str()).filter(|_| !root.is_empty());
        let place = match below {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => rest.trim_start_matches('/'),
            _ => &place,
        };
        Some(if place.is_empty() { "." } else { place }.to_owned())
    }

    /// Order of precedence: asked by the machine's policy, allowed on the command line, the latest rule of the session, asked,
    /// allowed by a file, the judge's finding.
    fn rule_outcome(
        &self,
        tool: &str,
        allows: impl Fn(&Rule) -> bool,
        asks: impl Fn(&Rule) -> bool,
        finding: Option<&Finding>,
        place: Option<&str>,
    ) -> Option<Ruling> {
        let allowed = |entry: &PolicyEntry| {
            Some(Ruling::Allow(new_reason(entry.describe(), "a rule allows this")))
        };
        let asked = |entry: &PolicyEntry| Some(Ruling::Ask(self.asking_reason(entry)));
        let is_here = |entry: &PolicyEntry| {
            let directories = &entry.directories;
            directories.is_empty() || directories.iter().any(|directory| place == Some(directory))
        };
        let is_allow = |entry: &PolicyEntry| {
            entry.verb == RuleAction::Allow && is_here(entry) && allows(&entry.rule)
        };
        let is_ask = |entry: &PolicyEntry| entry.verb == RuleAction::Ask && asks(&entry.rule);
        // A rule that allows everything does not cover findings, except on the command line.
        let is_given = |entry: &PolicyEntry| entry.origin == RuleOrigin::Compatible;
        let is_enough =
            |entry: &PolicyEntry| finding.is_none() || !entry.rule.is_bare() || is_given(entry);
        let on_command_line =
            |entry: &PolicyEntry| entry.origin == RuleOrigin::CommandLine && is_allow(entry);
        let by_policy = |entry: &PolicyEntry| entry.origin == RuleOrigin::Policy && is_ask(entry);
        if let Some(entry) = self.find_entry(tool, by_policy) {
            return asked(entry);
        }
        if let Some(entry) = self.find_entry(tool, on_command_line) {
            return allowed(entry);
        }
        let in_session = |entry: &&PolicyEntry| {
            matches!(entry.origin, RuleOrigin::Session(_))
                && (is_ask(entry) || is_allow(entry) && is_enough(entry))
        };
        if let Some(entry) = self.entries_for_tool(tool).filter(in_session).last() {
            return if entry.verb == RuleAction::Ask { asked(entry) } else { allowed(entry) };
        }
        if let Some(entry) = self.find_entry(tool, is_ask) {
            return asked(entry);
        }
        if let Some(entry) = self.find_entry(tool, |entry| is_allow(entry) && is_enough(entry)) {
            return allowed(entry);
        }
        let Finding { class, reason: why, program, .. } = finding?;
        let (rule, text) = match class {
            FindingClass::NeedsApproval(Some(SandboxRight::Network)) => {
                ("network", format!("{program} needs the network: {why}"))
            }
            FindingClass::NeedsApproval(Some(SandboxRight::Outside)) => {
                ("outside", format!("{program} runs outside the sandbox: {why}"))
            }
            FindingClass::NeedsApproval(Some(SandboxRight::GitConfig)) => {
                ("git config", format!("{program}: {why}"))
            }
            FindingClass::NeedsApproval(None) => ("not undoable", format!("{program}: {why}")),
            FindingClass::Destructive | FindingClass::Forbidden => {
                ("destructive", format!("{program}: {why}, and checkpoints are off"))
            }
        };
        // (An empty hint: the caller replaces it by the one for the whole line.)
        Some(Ruling::Ask(Reason { hint: Some(String::new()), ..new_reason(rule, text) }))
    }

    fn decide_by_mode(&self, query: &PolicyQuery<'_>) -> Ruling {
        let mode = &*format!("mode {}", self.mode.as_str());
        let refuse = |text: &str| Ruling::Refuse(ErrorCode::AccessDenied, new_reason(mode, text));
        let only_reads = query.command.as_ref().is_some_and(|(line, _)| line.is_read_only());
        match (query.effect, self.mode) {
            (
                Effect::Read { .. }
                | Effect::Job { .. }
                | Effect::Plan
                | Effect::Ask
                | Effect::Skill { .. }
                | Effect::Agent { .. }
                | Effect::Lookup,
                _,
            )
            | (_, PermissionMode::Full) => Ruling::Allow(new_reason(mode, "the mode allows this")),
            (Effect::Write { path }, _) => self.rule_on_change(query.tool, path),
            (Effect::Command { .. }, _) if only_reads => {
                Ruling::Allow(new_reason(mode, "it is known only to read"))
            }
            (
                Effect::Command { .. },
                PermissionMode::Plan | PermissionMode::ReadOnly | PermissionMode::AutoEdit,
            ) if self.is_sandboxed => Ruling::Allow(new_reason(mode, "it runs in the sandbox")),
            (Effect::Command { .. }, PermissionMode::Plan | PermissionMode::ReadOnly) => {
                let text = "without a sandbox only commands known to read run in this mode";
                let hint = Some("use Read, Grep, Glob or LS".to_owned());
                Ruling::Refuse(ErrorCode::AccessDenied, Reason { hint, ..new_reason(mode, text) })
            }
            (Effect::Mcp { server, .. }, PermissionMode::Plan | PermissionMode::ReadOnly) => {
                refuse(&format!(
                    "the tools of the MCP server {server} may change something, which this mode does not allow"
                ))
            }
            (Effect::Mcp { server, tool, .. }, PermissionMode::Ask | PermissionMode::AutoEdit) => {
                let how = allow_hint(&[format!("mcp({server}.{tool})")]);
                let text = format!("a tool of the MCP server {server} needs approval: {how}");
                Ruling::Ask(new_reason(mode, text))
            }
            (Effect::Fetch { host, .. }, _) => {
                let how = allow_hint(&[format!("{WEB_FETCH}({host})")]);
                Ruling::Ask(new_reason(mode, format!("a page of {host} needs approval: {how}")))
            }
            (Effect::WebSearch { .. }, _) => {
                let how = allow_hint(&[WEB_SEARCH.to_owned()]);
                Ruling::Ask(new_reason(mode, format!("a search in the web needs approval: {how}")))
            }
            (Effect::Command { directory, .. }, PermissionMode::Ask | PermissionMode::AutoEdit) => {
                let how = match &query.command {
                    Some((line, findings)) => {
                        self.allow_hint_for_line(query.tool, (line, directory), findings)
                    }
                    None => allow_hint(&["Bash".to_owned()]),
                };
                Ruling::Ask(new_reason(mode, format!("this command needs approval: {how}")))
            }
        }
    }

    fn allow_hint_for_line(
        &self,
        tool: &str,
        (line, directory): (&CommandLine, &str),
        findings: &[Finding],
    ) -> String {
        let mut rules: Vec<String> = Vec::new();
        if line.is_fully_parsed() {
            for (at, command) in line.commands().iter().enumerate() {
                match self.command_outcome(tool, (line, directory), findings, at) {
                    Some(Ruling::Allow(_)) => continue,
                    None if judge::only_reads(command, line.text()) => continue,
                    _ => {}
                }
                let mut own = findings.iter().filter(|finding| finding.at == at);
                let rule = if own.any(is_destructive) {
                    grant_proposals::exact_rule(command)
                } else {
                    grant_proposals::prefix_rule(command)
                };
                let rule = rule.unwrap_or_else(|| "Bash".to_owned());
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        if rules.is_empty() || rules.iter().any(|rule| rule == "Bash") {
            rules = vec!["Bash".to_owned()];
        }
        allow_hint(&rules)
    }

    /// A rule with a pattern for one tool that changes files applies to all such tools.
    fn entries_for_tool<'a>(&'a self, tool: &str) -> impl Iterator<Item = &'a PolicyEntry> {
        self.entries.iter().filter(move |entry| {
            let own = entry.rule.tool();
            own == tool
                || !entry.rule.is_bare()
                    && CHANGE_TOOLS.contains(&own)
                    && CHANGE_TOOLS.contains(&tool)
        })
    }

    fn find_entry(&self, tool: &str, is_so: impl Fn(&PolicyEntry) -> bool) -> Option<&PolicyEntry> {
        self.entries_for_tool(tool).find(|entry| is_so(entry))
    }
}

impl PolicyEntry {
    fn describe(&self) -> String {
        let verb = match self.verb {
            RuleAction::Allow => "allow",
            RuleAction::Ask => "ask",
            RuleAction::Deny => "deny",
        };
        let rule = self.rule.text();
        match self.origin {
            RuleOrigin::Policy => format!("{verb} {rule} (policy of this machine)"),
            RuleOrigin::CommandLine => format!("--{verb} {rule}"),
            RuleOrigin::Compatible => format!("{verb} {rule} (command line)"),
            RuleOrigin::UserFile => format!("{verb} {rule} (user configuration)"),
            RuleOrigin::ProjectFile => format!("{verb} {rule} (project configuration)"),
            RuleOrigin::Session(id) => format!("{verb} {rule} (session rule {id})"),
        }
    }
}

impl PolicyQuery<'_> {
    fn shown_path(&self) -> Option<&str> {
        match self.effect {
            Effect::Read { path } if matches!(self.tool, "Read" | "Grep") => Some(path),
            _ => None,
        }
    }
}

fn build_query<'a>(tool: &'a str, effect: &'a Effect, facts: &'a dyn PathFacts) -> PolicyQuery<'a> {
    let tool = match effect {
        // Rules about the tools of MCP servers name the server and the tool.
        Effect::Mcp { .. } => rule::MCP,
        Effect::Job { kills: true, .. } => BASH_KILL,
        Effect::Job { .. } => BASH_OUTPUT,
        _ => tool,
    };
    PolicyQuery { tool, effect, command: findings_of(effect, facts), facts }
}

fn findings_of(effect: &Effect, facts: &dyn PathFacts) -> Option<(CommandLine, Vec<Finding>)> {
    let Effect::Command { command, directory, background, .. } = effect else { return None };
    let line = CommandLine::parse(command);
    let functions = line.functions();
    let context =
        JudgeContext { text: command, directory, is_background: *background, functions, facts };
    let findings = judge::findings(line.commands(), &context);
    Some((line, findings))
}

/// The command deletes or replaces something, or cannot be undone.
fn is_destructive(finding: &Finding) -> bool {
    matches!(finding.class, FindingClass::Destructive | FindingClass::NeedsApproval(None))
}

fn refuse_line(query: &PolicyQuery<'_>) -> Option<Ruling> {
    let (line, findings) = query.command.as_ref()?;
    let forbidden = findings.iter().find(|finding| finding.class == FindingClass::Forbidden);
    if let Some(Finding { reason: why, hint, program, .. }) = forbidden {
        let text = format!("{program} is not run: {why}");
        let reason = Reason { hint: hint.map(str::to_owned), ..new_reason("never", text) };
        return Some(Ruling::Refuse(ErrorCode::CommandBlocked, reason));
    }
    // A line beyond the parser's limits may contain anything, so that no rule can be applied to it.
    let text = "the command is too long or too deeply nested to be parsed: run it in smaller steps, write texts with \
                Write, or put the commands into a script file and run that";
    line.is_too_long()
        .then(|| Ruling::Refuse(ErrorCode::CommandBlocked, new_reason("too long", text)))
}

fn allow_file_option(tool: &str, path: &str) -> String {
    let rule =
        grant_proposals::rule_for_file(tool, path).unwrap_or_else(|| format!("{tool}({path})"));
    format!("--allow '{rule}'")
}

fn allow_hint(rules: &[String]) -> String {
    let options: Vec<String> = rules.iter().map(|rule| format!("--allow '{rule}'")).collect();
    format!("the user can allow it with {}, or with --permission-mode full", options.join(" "))
}

fn new_reason(rule: impl Into<String>, text: impl Into<String>) -> Reason {
    let (rule, text) = (rule.into(), text.into());
    Reason { rule, text, hint: None, by_instruction: false, requires_user: false }
}
