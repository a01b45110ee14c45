//! Suites: tasks with the commands that check the results, from a TOML file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use agent_protocol::settings::{parse_duration, with_suggestion};

/// Default time limits of a task: of a run, and of each command of the suite.
const TIMEOUT: Duration = Duration::from_mins(10);
const CHECK_TIMEOUT: Duration = Duration::from_mins(1);

/// A named list of tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suite {
    pub name: String,
    /// At least one task.
    pub tasks: Vec<Task>,
}

/// The prompt, the project and the checks of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Task {
    /// One line.
    pub name: String,
    #[serde(skip)]
    pub line: usize,
    pub prompt: String,
    pub project: TaskProject,
    pub setup: Vec<String>,
    /// Commands that must exit 0 after the agent has ended, at least one.
    pub checks: Vec<String>,
    pub timeout: Duration,
    /// Time limit of each command of `setup` and `checks`.
    pub check_timeout: Duration,
    pub max_turns: Option<u32>,
    /// The answers of the scripted model.
    pub script: Option<String>,
}

/// The files of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum TaskProject {
    /// A copy of this directory, relative to the suite's file.
    Directory {
        path: String,
    },
    Files(BTreeMap<String, String>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSuite {
    name: Option<String>,
    #[serde(default)]
    tasks: Vec<RawTask>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    name: Spanned<String>,
    prompt: String,
    directory: Option<String>,
    files: Option<BTreeMap<String, String>>,
    #[serde(default)]
    setup: Vec<String>,
    #[serde(default)]
    checks: Vec<String>,
    timeout: Option<String>,
    check_timeout: Option<String>,
    max_turns: Option<u32>,
    script: Option<String>,
}

/// Parses a suite; `source` is its file, `default_name` its name if it has none. Errors name file, line and key.
pub fn parse_suite(source: &str, default_name: &str, text: &str) -> Result<Suite, String> {
    let line_at = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let raw: RawSuite = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(span.start));
        format!("{source}:{line}: {}", with_suggestion(error.message()))
    })?;
    if raw.tasks.is_empty() {
        return Err(format!("{source}: it has no tasks; write one as [[tasks]]"));
    }
    let name = raw.name.unwrap_or_else(|| default_name.to_owned());
    if !is_one_line(&name) {
        return Err(format!("{source}: name: write one line"));
    }
    let mut names = BTreeSet::new();
    let mut tasks = Vec::with_capacity(raw.tasks.len());
    for raw in raw.tasks {
        let line = line_at(raw.name.span().start);
        let wrong = |why| format!("{source}:{line}: {why}");
        let task = parse_task(raw, line).map_err(wrong)?;
        if !names.insert(task.name.clone()) {
            return Err(wrong(format!("name: there are two tasks {:?}", task.name)));
        }
        tasks.push(task);
    }
    Ok(Suite { name, tasks })
}

fn parse_task(raw: RawTask, line: usize) -> Result<Task, String> {
    let name = raw.name.into_inner();
    if !is_one_line(&name) {
        return Err("name: write one line that is not empty".to_owned());
    }
    let wrong = |key: &str, why: &str| format!("task {name:?}: {key}: {why}");
    if raw.prompt.trim().is_empty() {
        return Err(wrong("prompt", "say what the agent is to do"));
    }
    let project = match (raw.directory, raw.files) {
        (Some(_), Some(_)) => {
            return Err(wrong("directory", "give either the files themselves or a directory"));
        }
        (Some(path), None) => TaskProject::Directory { path },
        (None, files) => TaskProject::Files(files.unwrap_or_default()),
    };
    if let TaskProject::Files(files) = &project
        && let Some(path) = files.keys().find(|path| !is_inside(path))
    {
        return Err(wrong("files", &format!("{path:?} is not a path below the project")));
    }
    if raw.checks.is_empty() || raw.checks.iter().any(|check| check.trim().is_empty()) {
        let why =
            "name at least one command, and no empty one: they decide whether the task is done";
        return Err(wrong("checks", why));
    }
    let duration = |key: &str, given: Option<String>, default: Duration| match given
        .map_or(Ok(default), |given| parse_duration(&given))
    {
        Ok(Duration::ZERO) => Err(wrong(key, "must be more than 0")),
        other => other.map_err(|why| wrong(key, &why)),
    };
    let timeout = duration("timeout", raw.timeout, TIMEOUT)?;
    let check_timeout = duration("check_timeout", raw.check_timeout, CHECK_TIMEOUT)?;
    if raw.max_turns == Some(0) {
        return Err(wrong("max_turns", "must be at least 1"));
    }
    Ok(Task {
        line,
        prompt: raw.prompt,
        project,
        setup: raw.setup,
        checks: raw.checks,
        timeout,
        check_timeout,
        max_turns: raw.max_turns,
        script: raw.script,
        name,
    })
}

fn is_one_line(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_control)
}

/// True for a relative path without `..`.
fn is_inside(path: &str) -> bool {
    let mut components = Path::new(path).components();
    !path.is_empty()
        && !path.ends_with('/')
        && components.all(|component| matches!(component, Component::Normal(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: &str = "[[tasks]]\nname = \"one\"\nprompt = \"do it\"\nchecks = [\"true\"]\n";

    fn check_error(text: &str, expected: &str) {
        let error = parse_suite("s.toml", "s", text).expect_err(text);
        assert!(error.starts_with(expected), "{error}\nexpected {expected}");
    }

    #[test]
    fn suite_is_parsed_with_defaults() {
        let suite = parse_suite("s.toml", "s", TASK).expect("a suite");
        assert_eq!((suite.name.as_str(), suite.tasks.len()), ("s", 1));
        let task = &suite.tasks[0];
        assert_eq!((task.line, task.timeout, task.check_timeout), (2, TIMEOUT, CHECK_TIMEOUT));
        assert_eq!(task.project, TaskProject::Files(BTreeMap::new()));
    }

    #[test]
    fn suite_errors_name_file_line_and_key() {
        let with = |line: &str| format!("{TASK}{line}\n");
        for (text, expected) in [
            ("", "s.toml: it has no tasks"),
            ("[[task]]\n", "s.toml:1: unknown key `task`: did you mean `tasks`?"),
            (&with("promt = \"x\""), "s.toml:5: unknown key `promt`: did you mean `prompt`?"),
            ("[[tasks]]\nname = \"a\"\nchecks = [\"x\"]\n", "s.toml:1: missing field `prompt`"),
            (
                &with("directory = \"d\"\nfiles = {}"),
                "s.toml:2: task \"one\": directory: give either",
            ),
            (
                &with("files = { \"../a\" = \"\" }"),
                "s.toml:2: task \"one\": files: \"../a\" is not",
            ),
            (&with("files = { \"/a\" = \"\" }"), "s.toml:2: task \"one\": files: \"/a\" is not"),
            (&with("timeout = \"soon\""), "s.toml:2: task \"one\": timeout: \"soon\" is not"),
            (&with("check_timeout = \"0s\""), "s.toml:2: task \"one\": check_timeout: must be"),
            (&with("max_turns = 0"), "s.toml:2: task \"one\": max_turns: must be"),
            (&format!("{TASK}{TASK}"), "s.toml:6: name: there are two tasks \"one\""),
            (
                "[[tasks]]\nname = \"a\"\nprompt = \"x\"\nchecks = []\n",
                "s.toml:2: task \"a\": checks: name at least one",
            ),
            (
                "[[tasks]]\nname = \"a\"\nprompt = \"x\"\n",
                "s.toml:2: task \"a\": checks: name at least one",
            ),
            (
                "[[tasks]]\nname = \"a\"\nprompt = \" \"\nchecks = [\"x\"]\n",
                "s.toml:2: task \"a\": prompt: say",
            ),
            ("[[tasks]]\nname = \"a\\u001bb\"\nprompt = \"x\"\n", "s.toml:2: name: write one line"),
        ] {
            check_error(text, expected);
        }
    }
}
