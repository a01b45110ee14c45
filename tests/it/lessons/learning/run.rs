//! One run of a family through the built binary, and its results from the events.

use agent_learning::lesson::{Lesson, Origin, Scope};
use agent_learning::store::{Batch, SqliteStore, Store as _};
use agent_protocol::recall::LessonKind;
use serde_json::Value;

use super::scenario::{Family, Session};
use crate::recovery::run::prepare;
use crate::support::Test;

/// The state of the memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Disabled.
    None,
    /// Only the lessons of the family's earlier sessions.
    Empty,
    /// Those, and 300 unrelated lessons, from 60 days to 5 hours old.
    Full,
}

/// The result of a session.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) code: i32,
    /// Calls by the model that failed.
    pub(super) n_failed: usize,
    /// Model requests for all purposes.
    pub(super) n_answers: usize,
    /// Lessons recalled at the start of the task.
    pub(super) recalled: Vec<String>,
    /// Lessons learnt from the earlier sessions.
    pub(super) learnt: Vec<String>,
    /// Mismatches between script and run: an error in the family's file.
    pub(super) script_errors: Vec<String>,
    /// The run as a trace.
    pub(super) trace: String,
}

impl Measured {
    pub(super) fn avoids(&self) -> bool {
        self.code == 0 && self.n_failed == 0
    }

    pub(super) fn is_worse_than(&self, without: &Self) -> bool {
        self.n_answers > without.n_answers
            || self.n_failed > without.n_failed
            || (self.code != 0 && without.code == 0)
    }
}

/// Runs all sessions of a family in order, each in a new process; without memory, only the last
/// one.
pub(super) fn measure(family: &Family, memory: Memory) -> Measured {
    let test = Test::in_memory();
    let (last, earlier) = family.sessions.split_last().unwrap();
    if memory == Memory::None {
        return run(&test, &family.name, last, memory);
    }
    if memory == Memory::Full {
        let store = SqliteStore::new(test.home().join(".local/share/agent/memory.db"), |_| {});
        let batch = Batch { lessons: others(&test), ..Batch::default() };
        store.commit(&batch).unwrap();
    }
    let mut learnt = Vec::new();
    for session in earlier {
        learnt.extend(run(&test, &family.name, session, memory).learnt);
        empty(&test);
    }
    Measured { learnt, ..run(&test, &family.name, last, memory) }
}

/// Unrelated lessons in the same project.
fn others(test: &Test) -> Vec<Lesson> {
    let now_ms = jiff::Timestamp::now().as_millisecond();
    let root = test.root().canonicalize().unwrap();
    let scope = Scope::Project(root.display().to_string());
    let lines = include_str!("../../../learning/unrelated.jsonl").lines().take(300).enumerate();
    let lesson = |(n, line): (usize, &str)| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = text(&line["text"]).to_owned();
        let at_ms = now_ms - i64::try_from(300 - n).unwrap() * 17_280_000;
        Lesson {
            helped: 1,
            ..Lesson::new(scope.clone(), LessonKind::FailurePattern, text, Origin::Pair, at_ms)
        }
    };
    lines.map(lesson).collect()
}

fn run(test: &Test, name: &str, session: &Session, memory: Memory) -> Measured {
    prepare(test, name, &session.files, session.setup.as_deref());
    std::fs::write(test.root().join("../script"), &session.script).unwrap();
    let mut args =
        vec!["run", &session.task, "--model", "script:../script", "--trust", "--allow", "Bash"];
    args.extend(["--output-format", "events", "--set", "limits.timeout=60s"]);
    // Independent of the load of the machine.
    args.extend(["--set", "learning.wait_ms=10000", "--set", "learning.distil=\"never\""]);
    if memory == Memory::None {
        args.push("--no-memory");
    }
    args.extend(session.args.iter().map(String::as_str));
    let done = test.agent(&args);
    let events = test.events();
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let failed = of("tool.finished")
        .filter(|event| event["envelope"]["status"] == "error" && event["by"].is_null());
    let errors = of("error").map(|event| text(&event["message"]).to_owned());
    // No script answers a reflection or a planner.
    let is_aside =
        |message: &str| ["no reflect", "no plan"].iter().any(|no| message.starts_with(no));
    let is_scripts = |message: &String| {
        message.contains("../script")
            && !message.contains("../script answered")
            && !is_aside(message)
    };
    let items = |event: &Value, list: &str| -> Vec<String> {
        let items = event[list].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| text(&item["text"]).to_owned()).collect()
    };
    let recalled = of("memory.recalled").filter(|event| event["moment"] == "task");
    Measured {
        code: done.code.unwrap_or(-1),
        n_failed: failed.count(),
        n_answers: of("model.requested").count(),
        recalled: recalled.flat_map(|event| items(event, "items")).collect(),
        learnt: of("memory.written").flat_map(|event| items(event, "new")).collect(),
        script_errors: errors.filter(is_scripts).collect(),
        trace: format!("{}{}", test.agent(&["trace", "show"]).stdout, done.stderr),
    }
}

/// Removes the files of an earlier session.
fn empty(test: &Test) {
    for entry in std::fs::read_dir(test.root()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            std::fs::remove_file(&path).unwrap();
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
