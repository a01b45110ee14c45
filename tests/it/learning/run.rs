//! One run of a family through the built binary, with memory or without, and what the events say.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use code_agent::learning::store::{SqliteStore, Store as _};
use serde_json::Value;

use super::scenario::{Family, Session};
use crate::recovery::run::prepare;
use crate::support::Test;

/// What a session came to.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) code: i32,
    /// Calls of the model's that failed.
    pub(super) n_failed: usize,
    /// Calls of the model for all purposes.
    pub(super) n_answers: usize,
    /// What was recalled: when, and in which words.
    pub(super) recalled: Vec<String>,
    /// Fixes that the kernel tried.
    pub(super) n_applied: usize,
    /// What is new in memory since.
    pub(super) learnt: Vec<String>,
    /// Where the script did not fit the run: a mistake of the family's.
    pub(super) script_errors: Vec<String>,
    /// The run as a story.
    pub(super) trace: String,
}

/// Runs all sessions of a family, in order, with one memory; without any the last alone, as those before it teach nothing.
pub(super) fn measure(family: &Family, with_memory: bool) -> Vec<Measured> {
    let first = Test::in_memory();
    let home = first.home().display().to_string();
    let other = family.is_elsewhere.then(|| Test::in_memory().env("HOME", &home));
    let last = family.sessions.len() - 1;
    let sessions = family.sessions.iter().enumerate();
    let sessions = sessions.filter(|(n, _)| with_memory || *n == last).map(|(n, session)| {
        let test = other.as_ref().filter(|_| n == last).unwrap_or(&first);
        empty(test);
        let measured = run(test, &family.name, session, with_memory);
        if with_memory && n < last {
            wait_for_lessons(test, &first.home());
        }
        measured
    });
    sessions.collect()
}

/// What a session of a family finds: its files and its model's script.
fn lay_out(test: &Test, name: &str, session: &Session) {
    prepare(test, name, &session.files, session.setup.as_deref());
    std::fs::write(test.root().join("../script"), &session.script).unwrap();
}

/// Runs all sessions of a family with a memory that others write to as well, as work in this project.
pub(super) fn live(family: &Family, project: &str, home: &Path) {
    let home_path = home.display().to_string();
    let first = Test::in_memory().env("HOME", &home_path);
    let other = family.is_elsewhere.then(|| Test::in_memory().env("HOME", &home_path));
    let last = family.sessions.len() - 1;
    for (n, session) in family.sessions.iter().enumerate() {
        let (test, project) = match &other {
            Some(other) if n == last => (other, format!("{project}-web")),
            Some(_) | None => (&first, project.to_owned()),
        };
        empty(test);
        lay_out(test, &family.name, session);
        let remote = format!(
            "git init -q; git config remote.origin.url || git config remote.origin.url \
             https://example.com/acme/{project}.git"
        );
        let named = Command::new("bash").args(["-c", &remote]).current_dir(test.root()).output();
        assert!(named.unwrap().status.success(), "{}", family.name);
        let mut args =
            vec!["run", &session.task, "--model", "script:../script", "--trust", "--allow", "Bash"];
        args.extend(["--set", "limits.timeout=60s", "--set", "learning.wait_ms=10000"]);
        args.extend(["--output-format", "events"]);
        args.extend(session.args.iter().map(String::as_str));
        test.agent(&args);
        wait_for_lessons(test, home);
    }
}

fn run(test: &Test, name: &str, session: &Session, with_memory: bool) -> Measured {
    lay_out(test, name, session);
    let mut args =
        vec!["run", &session.task, "--model", "script:../script", "--trust", "--allow", "Bash"];
    args.extend(["--output-format", "events", "--set", "limits.timeout=60s"]);
    // However busy the machine is.
    args.extend(["--set", "learning.wait_ms=10000"]);
    if !with_memory {
        args.push("--no-memory");
    }
    args.extend(session.args.iter().map(String::as_str));
    let done = test.agent(&args);
    let events = test.events();
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let failed = of("tool.finished")
        .filter(|event| event["envelope"]["status"] == "error" && event["by"].is_null());
    let errors = of("error").map(|event| text(&event["message"]).to_owned());
    // No script answers when it is asked why something failed.
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
    let recalled = of("memory.recalled").flat_map(|event| {
        let moment = text(&event["moment"]).to_owned();
        items(event, "items").into_iter().map(move |text| format!("{moment}: {text}"))
    });
    Measured {
        code: done.code.unwrap_or(-1),
        n_failed: failed.count(),
        n_answers: of("model.requested").count(),
        recalled: recalled.collect(),
        n_applied: of("memory.recalled").filter(|event| event["applied"] == true).count(),
        learnt: of("memory.written").flat_map(|event| items(event, "new")).collect(),
        script_errors: errors.filter(is_scripts).collect(),
        trace: format!("{}{}", test.agent(&["trace", "show"]).stdout, done.stderr),
    }
}

/// Removes what an earlier session left.
fn empty(test: &Test) {
    for entry in std::fs::read_dir(test.root()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::remove_dir_all(&path).unwrap();
        } else if !path.is_dir() {
            std::fs::remove_file(&path).unwrap();
        }
    }
}

/// A session that ended before its lessons were written leaves them to the next start: on a busy machine
/// somebody starts the program once more, asks nothing of note and waits.
fn wait_for_lessons(test: &Test, home: &Path) {
    let ended = test.events_of("turn.finished");
    let (session, seq) = (text(&ended[0]["session"]).to_owned(), ended[0]["seq"].as_u64().unwrap());
    let store = SqliteStore::new(home.join(".local/share/agent/memory.db"), |_| {});
    let started = Instant::now();
    while store.reviewed(&session).unwrap() < seq {
        assert!(started.elapsed() < Duration::from_secs(20), "nothing was learnt of {session}");
        std::fs::write(test.root().join("../script"), "pause: 200ms\ntext: hello").unwrap();
        test.run(&["hello", "--trust"]);
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
