//! Proposes what the answer "always" can allow.

use super::judge::{self, Command};
use super::rule::{Rule, RuleAction, RuleOrigin};
use super::{CommandLine, PathFacts, Policy, shell::Word};
use agent_protocol::control::{Grant, PermissionMode};
use agent_protocol::tool::Effect;
use agent_protocol::web::{WEB_FETCH, WEB_SEARCH};

/// The grants that would allow such calls from now on, the narrowest first; empty if no rule can
/// express the call. A file: the file, its directory. A command line: its commands as they are,
/// commands that begin with the same words up to the first operand. A destructive line: only as it
/// is, because other operands are other files.
pub fn propose_grants(effect: &Effect, facts: &dyn PathFacts) -> Vec<Grant> {
    let mut proposed: Vec<Vec<String>> = Vec::new();
    match effect {
        Effect::Write { path } => {
            let directory = path.rsplit_once('/').map(|(directory, _)| format!("{directory}/**"));
            let paths = std::iter::once(path.clone()).chain(directory);
            proposed.extend(paths.filter_map(|path| Some(vec![rule_for_file("Edit", &path)?])));
        }
        Effect::Read { path } => {
            proposed.extend(rule_for_file("Read", path).map(|rule| vec![rule]));
        }
        Effect::Command { command, directory, .. } => {
            let line = CommandLine::parse(command);
            proposed.extend(rules_for_line(&line, exact_rule));
            let findings = super::findings_of(effect, facts).map(|(_, findings)| findings);
            let findings = findings.unwrap_or_default();
            if !findings.iter().any(super::is_destructive) {
                proposed.extend(rules_for_line(&line, prefix_rule));
            }
            proposed.dedup();
            // Rules could not give the line the right that it needs.
            proposed.retain(|rules| {
                let rules = rules.iter().filter_map(|rule| Rule::parse(rule).ok());
                let policy = Policy::new(PermissionMode::Ask, true);
                let policy = policy.with_rules(RuleAction::Allow, RuleOrigin::CommandLine, rules);
                policy.withheld_right("Bash", (&line, directory), &findings, facts).is_none()
            });
        }
        Effect::Mcp { server, tool, .. } => {
            proposed.push(vec![format!("mcp({server}.{tool})")]);
            proposed.push(vec![format!("mcp({server}.*)")]);
        }
        Effect::Fetch { host, .. } => proposed.push(vec![format!("{WEB_FETCH}({host})")]),
        Effect::WebSearch { .. } => proposed.push(vec![WEB_SEARCH.to_owned()]),
        _ => {}
    }
    proposed.into_iter().map(Grant::Rules).collect()
}

/// A rule for each command of the line that needs one; `None` if one of them cannot be expressed.
fn rules_for_line(
    line: &CommandLine,
    rule: impl Fn(&Command) -> Option<String>,
) -> Option<Vec<String>> {
    if !line.is_fully_parsed() {
        return None;
    }
    let mut rules = Vec::new();
    for command in line.commands() {
        if judge::only_reads(command, line.text()) {
            continue;
        }
        // The input may be a program (`bash -s < FILE`), and a rule holds where it was granted.
        let is_known = !command.has_input && line.directory_of(command).is_some();
        let rule = rule(command).filter(|_| is_known)?;
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    (!rules.is_empty()).then_some(rules)
}

/// `Edit(src/a.rs)`, `Edit(src/**)`; `None` if the path would be read as another pattern.
pub(super) fn rule_for_file(tool: &str, path: &str) -> Option<String> {
    let literal = path.strip_suffix("/**").unwrap_or(path);
    let is_plain = !literal.contains(['*', '?', '[', '{', '\\', '(', ')', ' ', ',']);
    // (A name without `/` matches in any directory, and `~` is the home.)
    let start = if path.contains('/') && !path.starts_with('~') { "" } else { "./" };
    let rule = format!("{tool}({start}{path})");
    (is_plain && Rule::parse(&rule).is_ok()).then_some(rule)
}

/// `Bash(cargo test --lib)`: the whole command. (A rule of the session matches no further words.)
pub(super) fn exact_rule(command: &Command) -> Option<String> {
    rule_of_words(&leading_words(command, command.words.len())?)
}

/// `Bash(cargo test *)`: the words up to the first operand; the whole command if no other follows.
pub(super) fn prefix_rule(command: &Command) -> Option<String> {
    let operand = command.operands().next();
    let is_operand = |word: &Word| operand.is_some_and(|first| std::ptr::eq(word, first));
    let at = command.words.iter().position(is_operand);
    match at.map(|at| at + 1).filter(|n_words| *n_words < command.words.len()) {
        Some(n_words) => rule_of_words(&format!("{} *", leading_words(command, n_words)?)),
        None => exact_rule(command),
    }
}

/// `None` if a rule cannot contain the words.
fn leading_words(command: &Command, n_words: usize) -> Option<String> {
    if command.writes_file() || !command.assignments.is_empty() || command.name().is_empty() {
        return None;
    }
    let is_plain = |word: &Word| {
        word.literal_text().is_some_and(|word| {
            !word.is_empty()
                && !word.contains(['*', '(', ')'])
                && !word.contains(char::is_whitespace)
        })
    };
    if !command.words[..n_words].iter().all(is_plain) {
        return None;
    }
    Some(command.source_words()[..n_words].join(" "))
}

fn rule_of_words(words: &str) -> Option<String> {
    let rule = format!("Bash({words})");
    Rule::parse(&rule).is_ok().then_some(rule)
}
