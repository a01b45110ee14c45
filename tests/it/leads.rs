//! What the loop tells below a call that leads to a command which failed once: where, once, and where not.

use code_agent::learning::item::Item;
use code_agent::learning::store::Store as _;
use serde_json::{Value, json};

use crate::recall::{settle, store};
use crate::support::Test;

const WORK: &str = "Make b say two.";

/// A command that failed, and what has to stand in its place.
struct Lesson<'a> {
    head: &'a str,
    to: &'a str,
    /// `None`: the project that is worked in.
    scope: Option<Value>,
    text: String,
}

impl<'a> Lesson<'a> {
    fn new(head: &'a str, to: &'a str) -> Self {
        Self { head, to, scope: None, text: format!("Run `{to}`, not `{head}`.") }
    }

    fn of_user(self) -> Self {
        Self { scope: Some(json!("user")), ..self }
    }

    /// Its id.
    fn keep(&self, test: &Test) -> String {
        let here = || json!({"project": test.root().canonicalize().unwrap()});
        let scope = self.scope.clone().unwrap_or_else(here);
        let letters = format!("{scope}{}", self.text).into_bytes().into_iter();
        let id = letters.fold(7, |n: u64, letter| n.wrapping_mul(31) + u64::from(letter));
        let item = json!({
            "id": format!("{:010x}", id & 0xff_ffff_ffff), "scope": scope,
            "kind": "failure_pattern", "text": self.text, "tags": {}, "because": null,
            "evidence": ["earlier"], "origin": "trace", "frequency": 1, "wins": 1, "losses": 0,
            "created_at_ms": 1, "last_occurred_ms": 1,
            "failure": {"skill": "Bash", "condition": "it fails", "error_type": "dependency_error",
                "suggested_fix": null,
                "when": {"tool": "Bash", "code": "COMMAND_FAILED", "command_head": self.head},
                "fix": {"kind": "replace_words", "from": self.head, "to": self.to}}
        });
        let item: Item = serde_json::from_value(item).unwrap();
        store(test).put(&item).unwrap();
        item.id
    }
}

fn pytest() -> Lesson<'static> {
    Lesson::new("pytest", "python3 -m pytest")
}

fn project() -> Test {
    let files = [
        ("src/a.py", "a = 1\n"),
        ("tests/test_a.py", "import a\n"),
        ("tests/cases.csv", "1,2\n"),
        ("pyproject.toml", "[project]\nname = \"a\"\n"),
        ("package.json", "{}\n"),
        ("compose.yaml", "services: {}\n"),
    ];
    files.into_iter().fold(Test::new(), |test, (path, text)| test.file(path, text))
}

/// Below how many calls it was told.
fn n_told(test: &Test) -> usize {
    test.events_of("memory.recalled").iter().filter(|event| event["moment"] == "call").count()
}

fn read(path: &str) -> (&'static str, Value) {
    ("Read", json!({ "path": path }))
}

fn write(path: &str) -> (&'static str, Value) {
    ("Write", json!({"path": path, "content": "b = 2\n"}))
}

/// Whether it is told below this call of a task.
#[track_caller]
fn check(lesson: &Lesson<'_>, task: &str, (tool, input): (&str, Value), is_told: bool) {
    let test = project().script(&format!("pause: 300ms\ncall: {tool} {input}\n---\ntext: done"));
    lesson.keep(&test);
    test.run(&[task]).expect_code(0);
    assert_eq!(n_told(&test), usize::from(is_told), "{}: {task}: {tool} {input}", lesson.text);
    assert_eq!(test.events_of("memory.recalled").len(), usize::from(is_told), "{task}");
}

#[test]
fn a_lesson_is_told_once_below_the_call_that_leads_to_its_command() {
    let look = "call: Read {\"path\":\"compose.yaml\"}\n---\n";
    let told = "when: Memory: known from an earlier session .*Run `docker compose`, not";
    let script = format!("pause: 300ms\n{look}{told}\n{look}text: one\n---\n{look}text: two");
    let test = project().script(&script);
    Lesson::new("docker-compose", "docker compose").of_user().keep(&test);
    test.run(&["See why the worker is slow."]).expect_code(0).expect_stdout("one\n");
    assert_eq!(n_told(&test), 1);
    test.run(&["See once more.", "-c"]).expect_code(0);
    assert_eq!(n_told(&test), 1, "it was said in this session");
}

#[test]
fn who_changes_a_source_or_looks_at_a_test_is_told_of_the_tests() {
    check(&pytest(), WORK, write("src/b.py"), true);
    check(&pytest(), WORK, read("tests/test_a.py"), true);
    check(&pytest(), WORK, ("Glob", json!({"pattern": "**/*a.py"})), true);
    for output in ["matches", "files", "count"] {
        check(&pytest(), WORK, ("Grep", json!({"pattern": "import", "output": output})), true);
    }
    check(&pytest(), WORK, read("pyproject.toml"), true);
    // Of the user's lessons those that name the language.
    check(&pytest().of_user(), WORK, write("src/b.py"), true);
    let make = || Lesson::new("make test", "make check");
    check(&make(), WORK, write("src/b.py"), true);
    check(&make().of_user(), WORK, write("src/b.py"), false);
}

#[test]
fn texts_other_languages_and_other_programs_lead_nowhere() {
    for call in [
        write("notes.md"),
        write("tests/more.csv"),
        read("tests/cases.csv"),
        write("src/b.js"),
        read("package.json"),
        read("compose.yaml"),
        // To be read is no change, and what is not there leads nowhere.
        read("src/a.py"),
        read("tests/test_b.py"),
        ("Glob", json!({"pattern": "**/*b_test.py"})),
        write("vendor/b.py"),
        ("Grep", json!({"pattern": "services"})),
        // Nothing is changed by it.
        ("Write", json!({"path": "src/b.py", "content": "b = 2\n", "dry_run": true})),
        ("Write", json!({"path": "src/a.py", "content": "a = 1\n"})),
    ] {
        check(&pytest(), WORK, call, false);
    }
    let deploy = Lesson::new("./deploy.sh", "./ship.sh");
    check(&deploy, WORK, write("src/b.py"), false);
}

#[test]
fn who_is_asked_for_words_or_not_to_run_anything_is_told_nothing() {
    for task in [
        "Explain how it works.",
        "List what is there.",
        "Translate the comments, without running anything.",
        "Make b say two. Don't run the tests.",
        "让 b 返回二。不要运行测试。",
    ] {
        check(&pytest(), task, write("src/b.py"), false);
    }
    // What is not to be changed may be run.
    check(&pytest(), "Make b say two; don't change the tests.", write("src/b.py"), true);
}

#[test]
fn another_projects_lesson_and_what_gets_past_a_guard_are_not_told() {
    let elsewhere = Lesson { scope: Some(json!({"project": "/elsewhere"})), ..pytest() };
    check(&elsewhere, WORK, write("src/b.py"), false);
    let text = "Run `pytest` with `--force`, but only where the user asks for that: it may get past a guard.";
    let guarded = Lesson { text: text.to_owned(), ..Lesson::new("pytest", "pytest --force") };
    check(&guarded, WORK, write("src/b.py"), false);
}

#[test]
fn the_same_words_of_two_lessons_are_told_once() {
    let script = "pause: 300ms\ncall: Read {\"path\":\"pyproject.toml\"}\n---\n\
                  call: Write {\"path\":\"src/b.py\",\"content\":\"b\\n\"}\n---\ntext: done";
    let test = project().script(script);
    pytest().keep(&test);
    pytest().of_user().keep(&test);
    test.run(&[WORK]).expect_code(0);
    assert_eq!(n_told(&test), 1);
}

#[test]
fn in_one_turn_four_are_told_at_most() {
    let look = |path: &str| format!("call: Read {{\"path\":\"{path}\"}}\n---\n");
    let looks = ["compose.yaml", "package.json", "pyproject.toml"].map(look).concat();
    let test = project().script(&format!("pause: 300ms\n{looks}text: done"));
    for (head, to) in [
        ("docker-compose", "docker compose"),
        ("npm test", "npm run check"),
        ("npm start", "npm run serve"),
        ("pytest", "python3 -m pytest"),
        ("pip install", "python3 -m pip install"),
    ] {
        Lesson::new(head, to).keep(&test);
    }
    test.run(&[WORK]).expect_code(0);
    let recalled = test.events_of("memory.recalled");
    let told = recalled.iter().map(|event| event["items"].as_array().map_or(0, Vec::len));
    assert_eq!(told.collect::<Vec<_>>(), [1, 2, 1]);
}

#[test]
fn what_fails_beside_the_call_is_told_with_the_failure_alone() {
    let script = "pause: 300ms\ncall: Write {\"path\":\"src/b.py\",\"content\":\"b\\n\"}\n\
                  call: Bash {\"command\":\"./old_tests.sh\"}\n---\ntext: done";
    let test = project().file("tests.sh", "echo passed\n").script(script);
    Lesson::new("./old_tests.sh", "sh tests.sh").keep(&test);
    test.run(&[WORK]).expect_code(0);
    let recalled = test.events_of("memory.recalled");
    assert_eq!((recalled.len(), &recalled[0]["moment"]), (1, &json!("failure")));
}

#[test]
fn what_was_told_and_is_heard_is_a_success_of_it() {
    let run = |then: &str| {
        let script = format!(
            "pause: 300ms\ncall: Write {{\"path\":\"src/b.py\",\"content\":\"b\\n\"}}\n---\n\
             call: Bash {{\"command\":\"{then}\"}}\n---\ntext: done"
        );
        let test = project().file("tests.sh", "echo passed\n").script(&script);
        let id = Lesson::new("./old_tests.sh", "sh tests.sh").keep(&test);
        test.run(&[WORK]).expect_code(0);
        assert_eq!(n_told(&test), 1);
        let ended = test.events_of("turn.finished");
        let session = ended[0]["session"].as_str().unwrap().to_owned();
        settle(&test, &(session, ended[0]["seq"].as_u64().unwrap()));
        let item = store(&test).item(&id).unwrap().unwrap();
        (item.wins, item.losses)
    };
    assert_eq!(run("sh tests.sh"), (2, 0));
    // The task never came near it.
    assert_eq!(run("echo hello"), (1, 0));
}
