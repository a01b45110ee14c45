//! Proposes the rules for the answer "always allow".

use super::judge::{self, Command};
use super::rule::Rule;
use super::{Line, shell::Word};
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

/// The rules that would allow such calls from now on: one per command that needs approval. `None` if no rule
/// can express it.
pub fn propose(tool: &str, effect: &Effect) -> Option<Vec<String>> {
    match effect {
        Effect::Write { path } => Some(vec![rule_for_file(tool, path)?]),
        Effect::Read { path } => Some(vec![rule_for_file("Read", path)?]),
        Effect::Command { command, .. } => {
            let line = Line::read(command);
            if !line.is_understood() {
                return None;
            }
            let mut rules = Vec::new();
            for command in line.commands() {
                if judge::only_reads(command, line.text()) {
                    continue;
                }
                let rule = rule_for(command)?;
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
            (!rules.is_empty()).then_some(rules)
        }
        Effect::Job { .. } | Effect::Plan => None,
    }
}

/// `Write(src/a.rs)`; `None` if the path would be read as a pattern.
pub(super) fn rule_for_file(tool: &str, path: &str) -> Option<String> {
    let is_plain = !path.contains(['*', '?', '[', '{', '\\', '(', ')', ' ', ',']);
    // (A name without `/` matches in any directory.)
    let start = if path.contains('/') { "" } else { "./" };
    let rule = format!("{tool}({start}{path})");
    (is_plain && Rule::parse(&rule).is_ok()).then_some(rule)
}

/// `Bash(cargo test *)`: the leading words of a command.
pub(super) fn rule_for(command: &Command) -> Option<String> {
    let written = command.written();
    let name = command.name();
    if command.writes_file() || !command.assignments.is_empty() || name.is_empty() {
        return None;
    }
    // Up to the subcommand, including the options before it.
    let n_subcommands = match command.operands().next().and_then(Word::known) {
        Some(word) if HAS_SUBCOMMANDS.contains(&name) => 1 + usize::from(HAS_MORE.contains(&word)),
        Some(_) | None => 0,
    };
    let subcommands = command.operands().take(n_subcommands);
    let last = subcommands
        .last()
        .and_then(|last| command.words.iter().position(|word| std::ptr::eq(word, last)));
    let has_input = command.has_input && command.operands().next().is_none();
    let runs_anything = RUNS_ANYTHING.contains(&name);
    if runs_anything && has_input {
        return None;
    }
    let is_whole = runs_anything || HAS_SUBCOMMANDS.contains(&name) && n_subcommands == 0;
    let n_words = if is_whole { written.len() } else { last.unwrap_or(0) + 1 };
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
    let words = written[..n_words].join(" ");
    let rule = if is_whole { format!("Bash({words})") } else { format!("Bash({words} *)") };
    Rule::parse(&rule).is_ok().then_some(rule)
}
