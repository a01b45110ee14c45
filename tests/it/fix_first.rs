//! A call that is known to fail is mended before it is made: where it may be, where it is made as it was written, and what
//! the memory makes of it.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{SystemTime, UNIX_EPOCH};

use code_agent::learning::item::Item;
use code_agent::learning::store::Store as _;
use serde_json::{Value, json};

use crate::chat::Pty;
use crate::recall::{decisions, settle, store};
use crate::support::Test;

const DAY_MS: u128 = 24 * 60 * 60 * 1000;

/// A lesson: when it fails, and what helped.
struct Lesson {
    scope: Value,
    days_ago: u128,
    wins: u32,
    when: Value,
    fix: Value,
}

impl Lesson {
    /// Of this user, wherever the work is done; learnt long ago.
    fn of_user(when: Value, fix: Value) -> Self {
        Self { scope: json!("user"), days_ago: 400, wins: 1, when, fix }
    }

    /// Of this project, seen yesterday.
    fn of_project(test: &Test, when: Value, fix: Value) -> Self {
        let root = test.root().canonicalize().unwrap();
        let scope = json!({"project": root});
        Self { scope, days_ago: 1, ..Self::of_user(when, fix) }
    }

    fn keep(self, test: &Test) {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let seen_ms = u64::try_from(now_ms - self.days_ago * DAY_MS).unwrap();
        let item = json!({
            "id": "abcdef0123", "scope": self.scope, "kind": "failure_pattern",
            "text": "Do it the other way.", "tags": {}, "because": null, "evidence": ["earlier"],
            "origin": "trace", "frequency": 1, "wins": self.wins, "losses": 0,
            "created_at_ms": seen_ms, "last_occurred_ms": seen_ms,
            "failure": {"skill": "Bash", "condition": "it fails",
                "error_type": "environment_error", "suggested_fix": null,
                "when": self.when, "fix": self.fix}
        });
        let item: Item = serde_json::from_value(item).unwrap();
        store(test).put(&item).unwrap();
    }
}

/// `./old.sh` is gone, `./new.sh` is there.
fn renamed() -> (Value, Value) {
    let when = json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "./old.sh"});
    let fix = json!({"kind": "replace_words", "from": "./old.sh", "to": "./new.sh"});
    (when, fix)
}

/// `bin/tool` wants `--zone`, and nobody can see that before.
fn refused() -> (Value, Value) {
    let when = json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "bin/tool",
        "signature": "no zone"});
    let fix = json!({"kind": "replace_words", "from": "bin/tool", "to": "bin/tool --zone a"});
    (when, fix)
}

/// A project of a user who wants calls to be mended first.
fn wanted() -> Test {
    let test = Test::new();
    let file = test.home().join(".config/agent/config.toml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, "[learning]\nfix_first = true\n").unwrap();
    test
}

/// A project with these scripts.
fn with(scripts: &[(&str, &str)]) -> Test {
    let mut test = wanted();
    for (path, text) in scripts {
        test = test.file(path, format!("#!/bin/bash\n{text}\n"));
        let path = test.root().join(path);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    test
}

const TOOL: (&str, &str) =
    ("bin/tool", "case \"$*\" in *'--zone a'*) echo did $*;; *) echo no zone >&2; exit 1;; esac");
const NEW: (&str, &str) = ("new.sh", "echo new $*");

/// A model that makes these calls, one after the other, once the memory is there.
fn calls(calls: &[(&str, Value)]) -> String {
    let turns = calls.iter().map(|(tool, input)| format!("call: {tool} {input}\n---\n"));
    format!("pause: 300ms\n{}text: done", turns.collect::<String>())
}

fn bash(command: &str) -> (&'static str, Value) {
    ("Bash", json!({ "command": command }))
}

/// What was made, in order, and how each ended.
fn made(test: &Test) -> Vec<String> {
    let ended = test.events_of("tool.finished").into_iter().map(|event| {
        let input = &event["envelope"]["context"]["params_input"];
        let word = |name: &str| input[name].as_str().map(str::to_owned);
        let what = word("command").or(word("path")).unwrap_or_default();
        let (tool, status) = (&event["tool"], &event["envelope"]["status"]);
        format!("{} {what}: {}", tool.as_str().unwrap(), status.as_str().unwrap())
    });
    ended.collect()
}

fn n_mended(test: &Test) -> usize {
    let recalled = test.events_of("memory.recalled").into_iter();
    recalled.filter(|event| event["replaced"].is_object()).count()
}

#[test]
fn without_the_users_wish_a_call_is_made_as_it_was_written() {
    let test = with(&[NEW]).script(&calls(&[bash("./old.sh a")]));
    std::fs::remove_dir_all(test.home().join(".config")).unwrap();
    let (when, fix) = renamed();
    Lesson::of_user(when, fix).keep(&test);
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(made(&test), ["Bash ./old.sh a: error", "Bash ./new.sh a: success"]);
    assert_eq!(n_mended(&test), 0);
}

#[test]
fn a_call_that_is_known_to_fail_is_mended_and_the_model_is_told() {
    let told = "when: (?s)new a b.*Memory: `Bash ./new.sh a b` stands in place of `Bash ./old.sh a b`.*\
                Do it the other way.*same call again";
    let test = with(&[NEW]);
    let script =
        format!("pause: 300ms\ncall: Bash {}\n---\n{told}\ntext: done", bash("./old.sh a b").1);
    let test = test.script(&script);
    let (when, fix) = renamed();
    Lesson::of_user(when, fix).keep(&test);
    test.run(&["say hello"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(made(&test), ["Bash ./new.sh a b: success"]);
    assert_eq!((decisions(&test).len(), test.events_of("model.requested").len()), (0, 2));
    // It is known before the call begins, has the model's id, and the model's own words stay.
    let events = test.events();
    let at = |kind: &str| events.iter().position(|event| event["type"] == kind).unwrap();
    assert!(at("memory.recalled") < at("tool.started"));
    let (recalled, started) = (&events[at("memory.recalled")], &events[at("tool.started")]);
    assert_eq!((&recalled["moment"], &recalled["applied"]), (&json!("call"), &json!(true)));
    assert_eq!(recalled["call"], started["call"]);
    let answer = &events[at("model.responded")]["calls"][0];
    assert!(answer["arguments"].as_str().unwrap().contains("./old.sh a b"));
    let shown = test.agent(&["trace", "show"]).stdout;
    assert!(
        shown.contains("↻ memory: Bash ./new.sh a b, in place of Bash ./old.sh a b"),
        "{shown}"
    );
    // What goes on from the record has said the same.
    let test = test.script("when: (?s)stands in place of `Bash ./old.sh a b`\ntext: again");
    test.run(&["and now?", "-c"]).expect_code(0).expect_stdout("again\n");
}

#[test]
fn each_kind_of_fix_is_made_first_where_its_failure_can_be_seen() {
    let check = |test: Test, when: Value, fix: Value, call: (&str, Value), expected: &str| {
        let test = test.script(&calls(&[call]));
        Lesson::of_user(when, fix).keep(&test);
        test.run(&["say hello"]).expect_code(0);
        assert_eq!((made(&test), n_mended(&test)), (vec![expected.to_owned()], 1));
    };
    check(
        wanted().file("a.txt", "one\n"),
        json!({"tool": "Read", "code": "INVALID_PARAM", "argument": "file_path"}),
        json!({"kind": "rename_argument", "from": "file_path", "to": "path"}),
        ("Read", json!({"file_path": "a.txt"})),
        "Read a.txt: success",
    );
    check(
        wanted().file("lib/a.txt", "one\n"),
        json!({"code": "NOT_FOUND", "path": "src/a.txt"}),
        json!({"kind": "replace_path", "from": "src", "to": "lib"}),
        ("Read", json!({"path": "src/a.txt"})),
        "Read lib/a.txt: success",
    );
    check(
        wanted().file("src/a.txt", "one\n"),
        json!({"tool": "Read", "code": "IS_DIRECTORY"}),
        json!({"kind": "other_tool", "tool": "LS", "input": {}}),
        ("Read", json!({"path": "src"})),
        "LS src: success",
    );
    check(
        wanted().file("src/a.txt", "one\n"),
        json!({"tool": "ListFiles", "code": "UNKNOWN_TOOL"}),
        json!({"kind": "other_tool", "tool": "LS", "input": {}}),
        ("ListFiles", json!({"path": "src"})),
        "LS src: success",
    );
    check(
        wanted().file("run.sh", "echo it ran\n"),
        json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "./run.sh"}),
        json!({"kind": "replace_words", "from": "./run.sh", "to": "bash run.sh"}),
        bash("./run.sh"),
        "Bash bash run.sh: success",
    );
}

#[test]
fn what_nobody_can_see_is_mended_first_in_its_project_alone_and_not_for_ever() {
    let run = |fixed: bool, change: &dyn Fn(&Test, Lesson) -> Lesson| {
        let test = with(&[TOOL]).script(&calls(&[bash("bin/tool list")]));
        let (when, fix) = refused();
        change(&test, Lesson::of_project(&test, when, fix)).keep(&test);
        test.run(&["say hello"]).expect_code(0);
        assert_eq!(n_mended(&test), usize::from(fixed), "{:?}", made(&test));
        // Made as it was written it is mended afterwards, as ever.
        let last = made(&test).pop().unwrap();
        assert_eq!(last, "Bash bin/tool --zone a list: success");
    };
    run(true, &|_, lesson| lesson);
    run(false, &|_, lesson| Lesson { days_ago: 31, ..lesson });
    run(false, &|_, lesson| Lesson { scope: json!("user"), ..lesson });
}

#[test]
fn variables_folders_and_arguments_of_bash_are_put_right_first() {
    let of = |when: Value, fix: Value, script: (&str, &str), command: &str| {
        let test = with(&[script]).script(&calls(&[bash(command)]));
        Lesson::of_project(&test, when, fix).keep(&test);
        test.run(&["say hello"]).expect_code(0);
        (made(&test), n_mended(&test))
    };
    let when = |head: &str| {
        json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": head,
            "signature": "no"})
    };
    let up = ("bin/up", "[ \"$AT_ZONE\" = a ] && echo up");
    let with_zone = json!({"kind": "prefix", "with": "AT_ZONE=a "});
    let (ran, n) = of(when("bin/up"), with_zone.clone(), up, "bin/up now");
    assert_eq!((ran, n), (vec!["Bash AT_ZONE=a bin/up now: success".to_owned()], 1));
    let (_, n) = of(when("bin/up"), with_zone, up, "export AT_ZONE=b; bin/up now");
    assert_eq!(n, 0, "the call sets it itself");
    let web = ("web/start", "echo went");
    let in_web = json!({"kind": "prefix", "with": "cd web && "});
    let (ran, n) = of(when("./start"), in_web.clone(), web, "./start on");
    assert_eq!((ran, n), (vec!["Bash cd web && ./start on: success".to_owned()], 1));
    let in_app = json!({"kind": "prefix", "with": "cd app && "});
    assert_eq!(of(when("./start"), in_app, web, "./start on").1, 0, "there is no such folder");
    let there = json!({"kind": "set_arguments", "input": {"directory": "web"}});
    let (ran, n) = of(when("./start"), there, web, "./start on");
    assert_eq!((ran, n), (vec!["Bash ./start on: success".to_owned()], 1));
}

#[test]
fn what_has_become_possible_is_made_as_it_was_written() {
    let (when, fix) = renamed();
    let test = with(&[NEW, ("old.sh", "echo old")]).script(&calls(&[bash("./old.sh a")]));
    Lesson::of_user(when, fix).keep(&test);
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(made(&test), ["Bash ./old.sh a: success"]);
    assert!(!test.has_event("memory.recalled"));

    let test = wanted().file("src/a.txt", "here\n").file("lib/a.txt", "there\n");
    let test = test.script(&calls(&[("Read", json!({"path": "src/a.txt"}))]));
    let when = json!({"code": "NOT_FOUND", "path": "src/a.txt"});
    let fix = json!({"kind": "replace_path", "from": "src", "to": "lib"});
    Lesson::of_user(when, fix).keep(&test);
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(made(&test), ["Read src/a.txt: success"]);

    let test = wanted().file("a.txt", "").script(&calls(&[("LS", json!({"path": "."}))]));
    let when = json!({"tool": "LS", "code": "UNKNOWN_TOOL"});
    let fix = json!({"kind": "other_tool", "tool": "Glob", "input": {"pattern": "*"}});
    Lesson::of_user(when, fix).keep(&test);
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(made(&test), ["LS .: success"]);
}

#[test]
fn a_command_of_the_task_is_run_as_the_user_wrote_it() {
    let runs = |task: &str| {
        let test = with(&[TOOL]).script(&calls(&[bash("bin/tool list")]));
        let (when, fix) = refused();
        Lesson::of_project(&test, when, fix).keep(&test);
        test.run(&[task]).expect_code(0);
        n_mended(&test)
    };
    assert_eq!(runs("Run bin/tool list and tell"), 0);
    assert_eq!(runs("What does `bin/tool` say?"), 0);
    assert_eq!(runs("What does the tool list?"), 1);
}

/// Wins, losses and how often it was seen or used, after the run.
fn counts(test: &Test, args: &[&str]) -> (u32, u32, u32) {
    test.run(args).expect_code(0);
    let ended = test.events_of("turn.finished");
    let session = ended[0]["session"].as_str().unwrap().to_owned();
    settle(test, &(session, ended[0]["seq"].as_u64().unwrap()));
    let item = store(test).item("abcdef0123").unwrap().unwrap();
    (item.wins, item.losses, item.frequency)
}

#[test]
fn a_fix_that_goes_well_is_used_and_no_win() {
    let test = with(&[TOOL]).script(&calls(&[bash("bin/tool list")]));
    let (when, fix) = refused();
    Lesson::of_project(&test, when, fix).keep(&test);
    let before = store(&test).item("abcdef0123").unwrap().unwrap();
    assert_eq!(counts(&test, &["say hello"]), (1, 0, 2));
    let after = store(&test).item("abcdef0123").unwrap().unwrap();
    assert_eq!(after.last_occurred_ms, before.last_occurred_ms, "nobody has seen it fail");
}

#[test]
fn who_insists_is_obeyed_and_the_lesson_loses_where_it_was_needless() {
    // The tool has changed: it wants no zone any more.
    let tool = ("bin/tool", "echo did $*");
    let list = || bash("bin/tool list");
    let test = with(&[tool]).script(&calls(&[list(), list(), bash("bin/tool show")]));
    let (when, fix) = refused();
    Lesson::of_project(&test, when, fix).keep(&test);
    let counts = counts(&test, &["say hello"]);
    let ran = ["bin/tool --zone a list", "bin/tool list", "bin/tool show"];
    assert_eq!(made(&test), ran.map(|line| format!("Bash {line}: success")));
    assert_eq!((counts.0, counts.1, n_mended(&test)), (1, 1, 1));
}

#[test]
fn the_same_call_after_something_else_is_mended_again() {
    let list = || bash("bin/tool list");
    let test = with(&[TOOL]).script(&calls(&[list(), ("LS", json!({})), list()]));
    let (when, fix) = refused();
    Lesson::of_project(&test, when, fix).keep(&test);
    let counts = counts(&test, &["say hello"]);
    assert_eq!((counts.0, counts.1, n_mended(&test)), (1, 0, 2));
}

#[test]
fn a_fix_that_fails_loses_and_is_not_made_again() {
    let tool = ("bin/tool", "case \"$*\" in *zone*) echo unknown option >&2; exit 2;; esac");
    let test = with(&[tool]).script(&calls(&[bash("bin/tool list"), bash("bin/tool show")]));
    let (when, fix) = refused();
    Lesson::of_project(&test, when, fix).keep(&test);
    let counts = counts(&test, &["say hello"]);
    assert_eq!(made(&test), ["Bash bin/tool --zone a list: error", "Bash bin/tool show: success"]);
    assert_eq!((counts.0, counts.1), (1, 1));
    // One win and one loss: it is told from now on, and not made any more.
    let test = test.script(&calls(&[bash("bin/tool list")]));
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(made(&test), ["Bash bin/tool list: success"]);
}

#[test]
fn what_judges_the_work_is_no_loss() {
    let tool = ("bin/tool", "echo 'assertion failed: left: 1 right: 2'; exit 1");
    let test = with(&[tool]).script(&calls(&[bash("bin/tool list"), bash("bin/tool show")]));
    let (when, fix) = refused();
    Lesson::of_project(&test, when, fix).keep(&test);
    let counts = counts(&test, &["say hello"]);
    assert_eq!((counts.0, counts.1, n_mended(&test)), (1, 0, 2));
}

/// When it fails, what is to be made instead, the call, and options of the run.
type Case<'a> = (&'a Value, Value, (&'a str, Value), &'a [&'a str]);

#[test]
fn a_fix_is_never_more_than_the_call() {
    let replaced = |to: &str| json!({"kind": "replace_words", "from": "./old.sh", "to": to});
    let write = json!({"kind": "other_tool", "tool": "Write",
        "input": {"path": "a.txt", "content": "x"}});
    let old = || bash("./old.sh a");
    let save = ("Save", json!({"path": "a.txt"}));
    let (of_bash, _) = renamed();
    let of_save = json!({"tool": "Save", "code": "UNKNOWN_TOOL"});
    let of_cat = json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "wc"});
    let payload = json!({"kind": "replace_words", "from": "wc", "to": "./new.sh"});
    let cases: [Case<'_>; 7] = [
        (&of_bash, replaced("rm -rf src;"), old(), &["--permission-mode", "full"]),
        (&of_bash, replaced("git push --force"), old(), &["--permission-mode", "full"]),
        (&of_bash, replaced("curl http://localhost"), old(), &["--permission-mode", "full"]),
        (&of_bash, write.clone(), old(), &["--permission-mode", "full"]),
        (&of_save, write, save, &["--permission-mode", "full"]),
        // What the gate would refuse, or ask about.
        (&of_bash, replaced("./new.sh"), old(), &["--deny", "Bash(./new.sh *)"]),
        // What only looks is not made to do.
        (&of_cat, payload, bash("wc -l none"), &[]),
    ];
    for (when, fix, call, args) in cases {
        let test = with(&[NEW]).file("src/a", "").script(&calls(&[call]));
        Lesson { wins: 5, ..Lesson::of_project(&test, when.clone(), fix.clone()) }.keep(&test);
        test.run(&[&["say hello"], args].concat()).expect_code(0);
        assert_eq!(n_mended(&test), 0, "{fix}: {:?}", made(&test));
        assert!(test.root().join("src/a").exists() && !test.root().join("a.txt").exists());
    }
}

#[test]
fn a_pin_that_speaks_of_the_call_keeps_it_as_it_is() {
    let test = with(&[NEW]).script(&calls(&[bash("./old.sh a")]));
    let (when, fix) = renamed();
    Lesson::of_user(when, fix).keep(&test);
    test.run(&["Never run ./new.sh. Say hello."]).expect_code(0);
    assert!(test.has_event("pin.added"), "{:?}", test.events());
    assert_eq!((n_mended(&test), made(&test).len()), (0, 1), "{:?}", made(&test));
}

#[test]
fn in_read_only_mode_the_fix_is_run_and_writes_nothing() {
    let test = with(&[("new.sh", "echo new; touch made.txt; true")]);
    let test = test.script(&calls(&[bash("./old.sh a")]));
    let (when, fix) = renamed();
    Lesson::of_user(when, fix).keep(&test);
    test.run(&["say hello", "--permission-mode", "read-only"]);
    assert!(!test.root().join("made.txt").exists());
    assert_eq!(made(&test).len(), 1, "{:?}", made(&test));
}

#[test]
fn neighbours_of_one_answer_are_made_beside_each_other() {
    let answer = "pause: 300ms\ncall: Read {\"path\":\"src/a.txt\"}\ncall: Read {\"path\":\"b.txt\"}\n\
                  call: Read {\"path\":\"src/c.txt\"}\n---\n\
                  when: (?s)one.*place of.*two.*three.*place of\ntext: done";
    let test = wanted().file("lib/a.txt", "one\n").file("b.txt", "two\n");
    let test = test.file("lib/c.txt", "three\n").script(answer);
    let when = json!({"code": "NOT_FOUND", "path": "src/a.txt"});
    let fix = json!({"kind": "replace_path", "from": "src", "to": "lib"});
    Lesson::of_user(when, fix).keep(&test);
    test.run(&["say hello"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(n_mended(&test), 2);
    // Behind a call that may change it nobody knows what is there.
    let answer = "pause: 300ms\ncall: Write {\"path\":\"src/a.txt\",\"content\":\"mine\\n\"}\n\
                  call: Read {\"path\":\"src/a.txt\"}\n---\nwhen: mine\ntext: done";
    let test = test.script(answer);
    assert!(test.run(&["say hello"]).expect_code(0).stdout.starts_with("done"));
    assert_eq!(n_mended(&test), 0);
}

#[test]
fn a_person_is_asked_about_what_is_really_run() {
    let test = with(&[NEW]).script(&calls(&[bash("./old.sh a")]));
    let (when, fix) = renamed();
    Lesson::of_user(when, fix).keep(&test);
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("please");
    pty.wait_for_question();
    let screen = pty.screen();
    for part in ["memory: runs Bash ./new.sh a for Bash ./old.sh a", "? Bash ./new.sh a"] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    let asked = test.events_of("permission.requested");
    assert_eq!(asked[0]["input"]["command"], "./new.sh a");
    pty.send("y");
    pty.wait_for("done");
    assert_eq!(made(&test), ["Bash ./new.sh a: success"]);
}

#[test]
fn where_nobody_can_be_asked_the_call_is_answered_as_it_was_written() {
    let test = with(&[NEW]).script(&calls(&[bash("./old.sh a")]));
    let (when, fix) = renamed();
    Lesson::of_user(when, fix).keep(&test);
    test.run(&["say hello", "--permission-mode", "ask"]);
    assert_eq!((n_mended(&test), made(&test)), (0, vec!["Bash ./old.sh a: error".to_owned()]));
}

#[test]
fn without_a_memory_every_call_is_made_as_it_was_written() {
    let test = with(&[NEW]).script(&calls(&[bash("./old.sh a")]));
    let (when, fix) = renamed();
    Lesson::of_user(when, fix).keep(&test);
    test.run(&["say hello", "--no-memory"]).expect_code(0);
    assert_eq!(made(&test), ["Bash ./old.sh a: error"]);
    let test = with(&[NEW]).script(&calls(&[bash("./old.sh a")]));
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(made(&test), ["Bash ./old.sh a: error"]);
}
