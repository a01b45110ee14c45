//! What a command is for, and what a task is about: one table, `data/topics.toml`, of topics, their programs and
//! tasks, and the words that ask for them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::command::{INTERPRETERS, Simple, WITH_TASK, is_script, name_of, simple_commands};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Topic {
    programs: Vec<String>,
    tasks: Vec<String>,
    words: Vec<String>,
    #[serde(default)]
    asks: Vec<String>,
}

/// What builds the code, runs it or looks at it.
pub const BUILDS: [&str; 6] = ["test", "build", "lint", "bench", "start", "docs"];

static TOPICS: LazyLock<BTreeMap<String, Topic>> = LazyLock::new(|| {
    toml::from_str(include_str!("../../data/topics.toml")).expect("data/topics.toml is a table")
});

/// What a command line is for: the topic of the last of its commands that has one.
pub fn of_command(line: &str) -> Option<&'static str> {
    simple_commands(line).iter().rev().find_map(of_simple)
}

/// What one command is for.
pub fn of_simple(simple: &Simple<'_>) -> Option<&'static str> {
    let program = simple.program();
    let (first, arguments) = program.split_first()?;
    let name = name_of(first);
    if INTERPRETERS.contains(&name) {
        return match arguments {
            ["-m", module, rest @ ..] => of_call(module, rest).or_else(|| of_task(module)),
            [script, rest @ ..] if !script.starts_with('-') => of_script(name_of(script), rest),
            _ => None,
        };
    }
    if WITH_TASK.contains(&name) {
        let is_task = |argument: &&str| {
            !argument.starts_with(['-', '+']) && !["run", "exec", "compose"].contains(argument)
        };
        let of_task = arguments.iter().position(is_task).and_then(|at| {
            let (task, rest) = (arguments[at], &arguments[at + 1..]);
            of_both(name, task).or_else(|| of_call(task, rest)).or_else(|| of_task(task))
        });
        return of_task.or_else(|| of_program(name));
    }
    of_call(name, arguments).or_else(|| is_script(first).then(|| of_script(name, arguments))?)
}

/// What one command of a program needs another one may need as well: of a program with tasks those that build the
/// code, run it or look at it (`cargo test` and `cargo build`, not `cargo fmt`), of any other program all.
pub fn is_akin(simple: &Simple<'_>) -> bool {
    let is_free = |first: &&str| !WITH_TASK.contains(&name_of(first));
    simple.program().first().is_some_and(is_free)
        || of_simple(simple).is_some_and(|topic| BUILDS.contains(&topic))
}

/// A script's name says what it does, or its first argument: `manage.py migrate`.
fn of_script(name: &str, arguments: &[&str]) -> Option<&'static str> {
    let of_argument = || {
        let first = arguments.first().filter(|argument| !argument.contains(['/', '.', '-']));
        first.and_then(|first| of_task(first))
    };
    of_task(name).or_else(of_argument)
}

/// The topics that a text is about, in the table's order.
pub fn of_words(text: &str) -> Vec<&'static str> {
    let text = text.to_lowercase();
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').collect();
    let plain = format!(" {} ", words.join(" "));
    let asks = |word: &String| {
        if word.is_ascii() { plain.contains(&format!(" {word} ")) } else { text.contains(word) }
    };
    let found = TOPICS.iter().filter(|(_, topic)| topic.words.iter().any(asks));
    found.map(|(name, _)| name.as_str()).collect()
}

/// Every topic.
pub fn all() -> impl Iterator<Item = &'static str> {
    TOPICS.keys().map(String::as_str)
}

/// The words that ask for a topic, in English and Chinese; nothing for a topic that is not in the table.
pub fn words_of(topic: &str) -> &'static [String] {
    TOPICS.get(topic).map_or(&[], |topic| &topic.words)
}

/// What says by several words together that a topic is wanted.
pub fn asks_of(topic: &str) -> &'static [String] {
    TOPICS.get(topic).map_or(&[], |topic| &topic.asks)
}

/// The topic that a program is of with these arguments: `vite build` builds, `vite` serves.
pub fn of_call(name: &str, arguments: &[&str]) -> Option<&'static str> {
    arguments.first().and_then(|first| of_both(name, first)).or_else(|| of_program(name))
}

/// The topic of a program that the table names with its task.
fn of_both(name: &str, task: &str) -> Option<&'static str> {
    let is_it = |both: &String| both.split_once(' ') == Some((name, task));
    named(|topic| topic.programs.iter().any(is_it))
}

/// The topic that a program is of where its arguments say nothing else.
fn of_program(name: &str) -> Option<&'static str> {
    let of = |name: &str| named(|topic| topic.programs.iter().any(|program| program == name));
    // `pytest-3`, `gcc-12`.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    of(name).or_else(|| plain.strip_suffix('-').and_then(of))
}

/// `test:unit`, `unit-tests`, `run_tests.sh`: the first part that is a task's name.
fn of_task(name: &str) -> Option<&'static str> {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let mut parts = stem.split(|c: char| !c.is_alphanumeric());
    parts.find_map(|part| {
        let part = part.to_lowercase();
        // `run` begins the names of scripts for anything.
        let says = |topic: &Topic| topic.tasks.contains(&part);
        if part == "run" && stem.len() > 3 { None } else { named(says) }
    })
}

fn named(fits: impl Fn(&Topic) -> bool) -> Option<&'static str> {
    TOPICS.iter().find(|(_, topic)| fits(topic)).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, topic: Option<&str>) {
        assert_eq!(of_command(line), topic, "{line}");
    }

    #[test]
    fn a_command_has_a_purpose() {
        check("pytest tests/a.py -q", Some("test"));
        check("python3 -m pytest", Some("test"));
        check("pytest-3 tests/", Some("test"));
        check("cd web && npm run test:unit -- --watch", Some("test"));
        check("cargo test -q 2>&1 | tail -5", Some("test"));
        check("bash tools/run_tests.sh", Some("test"));
        check("./tools/gen.sh all", Some("generate"));
        check("make fmt", Some("format"));
        check("cargo clippy", Some("lint"));
        check("npm install", Some("install"));
        check("pip install x", Some("install"));
        check("python manage.py migrate", Some("migrate"));
        check("cargo check", Some("build"));
        check("git status", Some("git"));
        check("vite build", Some("build"));
        check("vite dev", Some("start"));
        check("npx playwright test", Some("test"));
        check("npx playwright install", Some("install"));
        check("python -m playwright install", Some("install"));
        check("webpack serve", Some("start"));
        check("pytest dev", Some("test"));
        check("mkdocs build", Some("docs"));
        check("command -v pytest", None);
        check("echo test", None);
        check("cat test.txt", None);
    }

    #[test]
    fn a_text_is_about_topics() {
        assert_eq!(of_words("Fix the failing test in the parser"), ["test"]);
        assert_eq!(of_words("把测试跑通"), ["test"]);
        assert_eq!(of_words("run the suite, then format"), ["format", "test"]);
        assert_eq!(of_words("rename the field `latest`"), [""; 0]);
    }
}
