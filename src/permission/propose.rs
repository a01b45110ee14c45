//! Proposes what the answer "always" can allow.

use super::judge::{self, Command};
use super::rule::Rule;
use super::{Line, shell::Word};
use crate::protocol::control::Grant;
use crate::protocol::tool::Effect;

/// Programs whose first operand determines what they do: `cargo test`.
const HAS_SUBCOMMANDS: &[&str] = &[
    "apt",
    "brew",
    "bundle",
    "cargo",
    "composer",
    "docker",
    "docker-compose",
    "dotnet",
    "gh",
    "git",
    "go",
    "gradle",
    "gradlew",
    "helm",
    "kubectl",
    "make",
    "mvn",
    "mvnw",
    "npm",
    "pip",
    "pip3",
    "pnpm",
    "podman",
    "poetry",
    "rustup",
    "systemctl",
    "terraform",
    "uv",
    "yarn",
];
/// Subcommands with a further subcommand: `npm run test`, `git remote add`.
const HAS_MORE: &[&str] = &[
    "component",
    "compose",
    "config",
    "container",
    "exec",
    "image",
    "lfs",
    "mod",
    "pip",
    "pr",
    "remote",
    "run",
    "stash",
    "submodule",
    "tool",
    "toolchain",
    "volume",
    "worktree",
];
/// Programs that execute their arguments: a rule for them contains all words.
const RUNS_ANYTHING: &[&str] = &[
    "awk", "bash", "bun", "bunx", "dash", "deno", "env", "eval", "find", "gawk", "ksh", "lua",
    "node", "npx", "parallel", "perl", "php", "python", "python2", "python3", "ruby", "sh",
    "source", "ssh", "uvx", "xargs", "zsh", ".",
];

/// The grants that would allow such calls from now on, the narrowest first; empty if no rule can express it.
/// A file: the file, its directory. A command line: its commands as they are, commands that begin with the
/// same words.
pub fn propose(effect: &Effect) -> Vec<Grant> {
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
        Effect::Command { command, .. } => {
            let line = Line::read(command);
            let leading = rules_for_line(&line, rule_for);
            let is_narrower = |exact: &Vec<String>| {
                let widened = exact.iter().map(|rule| rule.replace(')', " *)"));
                leading.as_ref().is_none_or(|leading| !leading.iter().cloned().eq(widened))
            };
            proposed.extend(rules_for_line(&line, as_it_is).filter(is_narrower));
            proposed.extend(leading);
            proposed.dedup();
        }
        Effect::Job { .. } | Effect::Plan => {}
    }
    proposed.into_iter().map(Grant::Rules).collect()
}

/// A rule for each command of the line that needs one; `None` if one of them cannot be expressed.
fn rules_for_line(line: &Line, rule: impl Fn(&Command) -> Option<String>) -> Option<Vec<String>> {
    if !line.is_understood() {
        return None;
    }
    let mut rules = Vec::new();
    for command in line.commands() {
        if judge::only_reads(command, line.text()) {
            continue;
        }
        let rule = rule(command)?;
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    (!rules.is_empty()).then_some(rules)
}

/// `Edit(src/a.rs)`; `None` if the path would be read as another pattern. A directory ends with `/**`.
pub(super) fn rule_for_file(tool: &str, path: &str) -> Option<String> {
    let literal = path.strip_suffix("/**").unwrap_or(path);
    let is_plain = !literal.contains(['*', '?', '[', '{', '\\', '(', ')', ' ', ',']);
    // (A name without `/` matches in any directory.)
    let start = if path.contains('/') { "" } else { "./" };
    let rule = format!("{tool}({start}{path})");
    (is_plain && Rule::parse(&rule).is_ok()).then_some(rule)
}

/// `Bash(cargo test --lib)`: the whole command. (A rule of the session matches no further words.)
fn as_it_is(command: &Command) -> Option<String> {
    let has_input = command.has_input && command.operands().next().is_none();
    let words = leading_words(command, command.words.len()).filter(|_| !has_input)?;
    rule_of_words(&words)
}

/// `Bash(cargo test *)`: the leading words of a command.
pub(super) fn rule_for(command: &Command) -> Option<String> {
    let name = command.name();
    // Up to the subcommand, including the options before it.
    let n_subcommands = match command.operands().next().and_then(Word::known) {
        Some(word) if HAS_SUBCOMMANDS.contains(&name) => 1 + usize::from(HAS_MORE.contains(&word)),
        Some(_) | None => 0,
    };
    let subcommands = command.operands().take(n_subcommands);
    let last = subcommands
        .last()
        .and_then(|last| command.words.iter().position(|word| std::ptr::eq(word, last)));
    let is_whole =
        RUNS_ANYTHING.contains(&name) || HAS_SUBCOMMANDS.contains(&name) && n_subcommands == 0;
    if is_whole {
        return as_it_is(command);
    }
    let words = leading_words(command, last.unwrap_or(0) + 1)?;
    rule_of_words(&format!("{words} *"))
}

/// The leading words of the command; `None` if a rule cannot contain them.
fn leading_words(command: &Command, n_words: usize) -> Option<String> {
    if command.writes_file() || !command.assignments.is_empty() || command.name().is_empty() {
        return None;
    }
    let is_plain = |word: &Word| {
        word.known().is_some_and(|word| {
            !word.is_empty()
                && !word.contains(['*', '(', ')'])
                && !word.contains(char::is_whitespace)
        })
    };
    if !command.words[..n_words].iter().all(is_plain) {
        return None;
    }
    Some(command.written()[..n_words].join(" "))
}

fn rule_of_words(words: &str) -> Option<String> {
    let rule = format!("Bash({words})");
    Rule::parse(&rule).is_ok().then_some(rule)
}
