//! What the loop makes of what is remembered: at a task's start, before a call, after a failure; and what it does
//! where the memory is broken, locked, foreign or unwanted.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use code_agent::learning::item::{Item, Scope};
use code_agent::learning::store::{SqliteStore, Store as _};
use serde_json::{Value, json};

use crate::support::Test;

pub(crate) fn store(test: &Test) -> SqliteStore {
    SqliteStore::new(test.home().join(".local/share/agent/memory.db"), |_| {})
}

/// An item of the user's: a call of this tool that failed so, and what helped.
fn remember(test: &Test, wins: u32, text: &str, when: &Value, fix: &Value) {
    let item = json!({
        "id": format!("{:x}", text.len()).repeat(5), "scope": "user", "kind": "failure_pattern",
        "text": text, "tags": {}, "because": null, "evidence": ["earlier"], "origin": "trace",
        "frequency": 1, "wins": wins, "losses": 0, "created_at_ms": 1, "last_occurred_ms": 1,
        "failure": {"skill": "Bash", "condition": "it fails", "error_type": "dependency_error",
            "suggested_fix": null, "when": when, "fix": fix}
    });
    let item: Item = serde_json::from_value(item).unwrap();
    store(test).put(&item).unwrap();
}

/// A script, and one by its old name that knows nothing more: it is there, so that its call is made.
fn project() -> Test {
    let gone = "echo \"./old.sh: not found\" >&2; exit 127\n";
    let test = Test::new().file("new.sh", "echo new $*\n").file("old.sh", gone);
    for script in ["new.sh", "old.sh"] {
        let path = test.root().join(script);
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    test
}

fn old_is_new(test: &Test, wins: u32) {
    let when = json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "./old.sh"});
    let fix = json!({"kind": "replace_words", "from": "./old.sh", "to": "./new.sh"});
    remember(test, wins, "Run `./new.sh`, not `./old.sh`.", &when, &fix);
}

const OLD: &str = "call: Bash {\"command\":\"./old.sh a b\"}\n---\n";

pub(crate) fn decisions(test: &Test) -> Vec<String> {
    let decided = test.events_of("control.decided").into_iter();
    let decided = decided.filter(|event| event["decision"] != "continue");
    let word = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    decided.map(|e| format!("{} {}", word(&e, "decision"), word(&e, "detail"))).collect()
}

#[test]
fn what_helped_before_is_tried_by_the_kernel_as_a_counted_retry() {
    let test = project().script(&format!("{OLD}when: new a b\ntext: done"));
    old_is_new(&test, 1);
    test.run(&["say hello"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(decisions(&test), ["retry adjusted"]);
    let recalled = test.events_of("memory.recalled");
    assert_eq!(recalled.len(), 1);
    assert_eq!(
        (&recalled[0]["moment"], &recalled[0]["applied"]),
        (&json!("failure"), &json!(true))
    );
    let own: Vec<Value> =
        test.events_of("tool.finished").into_iter().filter(|e| e["by"] == "kernel").collect();
    assert_eq!(own.len(), 1);
    assert_eq!(own[0]["parent_call"], recalled[0]["call"]);
    assert_eq!(own[0]["envelope"]["data"]["stdout"], "new a b\n");
    let requested = test.events_of("model.requested");
    assert_eq!(requested.len(), 2, "nobody was asked why");
}

#[test]
fn what_is_not_sure_enough_is_offered_in_a_line() {
    let script =
        format!("{OLD}when: Memory: this failed .*Run `./new.sh`, not `./old.sh`\ntext: done");
    let test = project().script(&script);
    old_is_new(&test, 0);
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(decisions(&test), ["retry feedback"]);
    assert!(test.events_of("tool.finished").iter().all(|event| event["by"] != "kernel"));
    assert_eq!(test.events_of("memory.recalled")[0]["applied"], Value::Null);
}

#[test]
fn what_is_offered_is_said_once_a_turn() {
    let again = OLD.replace("a b", "c d");
    let script = format!("{OLD}{again}text: one\n---\n{again}text: two");
    let test = project().script(&script);
    old_is_new(&test, 0);
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(test.events_of("memory.recalled").len(), 1);
    test.run(&["say hello", "-c"]).expect_code(0);
    assert_eq!(test.events_of("memory.recalled").len(), 2);
}

#[test]
fn a_command_that_was_only_to_be_looked_at_is_mended_too() {
    let script =
        "call: Bash {\"command\":\"cat list.txt; exit 3\"}\n---\nwhen: from below\ntext: done";
    let test = Test::new().file("web/list.txt", "from below\n").script(script);
    let when = json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "cat list.txt"});
    let fix = json!({"kind": "prefix", "with": "cd web && "});
    remember(&test, 1, "Run it in `web`.", &when, &fix);
    test.run(&["say hello", "--allow", "Bash"]).expect_code(0);
    // The fix does not make the exit good: it is what it was, something to look at.
    assert_eq!(decisions(&test), ["retry adjusted"]);
}

#[test]
fn each_kind_of_fix_is_tried_after_its_failure() {
    let check = |test: Test, when: Value, fix: Value, call: &str, expected: &str| {
        let test = test.script(&format!("call: {call}\n---\nwhen: {expected}\ntext: done"));
        remember(&test, 1, "Do it the other way.", &when, &fix);
        test.run(&["say hello"]).expect_code(0);
        let applied = test.events_of("memory.recalled").pop().map(|e| e["applied"] == true);
        assert_eq!(applied, Some(true), "{call}");
    };
    check(
        Test::new().file("a.txt", "here it is\n"),
        json!({"tool": "Read", "code": "INVALID_PARAM", "argument": "paths"}),
        json!({"kind": "rename_argument", "from": "paths", "to": "path"}),
        "Read {\"paths\":\"a.txt\"}",
        "here it is",
    );
    check(
        Test::new().file("lib/a.txt", "here it is\n"),
        json!({"code": "NOT_FOUND", "path": "src/a.txt"}),
        json!({"kind": "replace_path", "from": "src", "to": "lib"}),
        "Read {\"path\":\"src/a.txt\"}",
        "here it is",
    );
    check(
        Test::new().file("src/found.txt", "one\n"),
        json!({"tool": "Read", "code": "IS_DIRECTORY"}),
        json!({"kind": "other_tool", "tool": "LS", "input": {}}),
        "Read {\"path\":\"src\"}",
        "found.txt",
    );
    check(
        Test::new().file("src/found.txt", "one\n"),
        json!({"tool": "ListFiles", "code": "UNKNOWN_TOOL"}),
        json!({"kind": "other_tool", "tool": "LS", "input": {}}),
        "ListFiles {\"path\":\"src\"}",
        "found.txt",
    );
    check(
        Test::new().file("web/list.sh", "echo here it is\n"),
        json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "sh list.sh"}),
        json!({"kind": "set_arguments", "input": {"directory": "web"}}),
        "Bash {\"command\":\"sh list.sh\"}",
        "here it is",
    );
}

#[test]
fn in_read_only_mode_a_fix_is_run_and_writes_nothing() {
    let made = "#!/bin/bash\necho new; touch made.txt; true\n";
    let run = |args: &[&str]| {
        let test = project().file("new.sh", made).script(&format!("{OLD}text: done"));
        old_is_new(&test, 1);
        test.run(&[&["say hello"], args].concat());
        let own = test.events_of("tool.finished").into_iter().filter(|e| e["by"] == "kernel");
        (own.count(), test.root().join("made.txt").exists())
    };
    assert_eq!(run(&[]), (1, true));
    assert_eq!(run(&["--permission-mode", "read-only"]), (1, false));
}

#[test]
fn what_does_not_help_is_not_tried_again_and_asks_nobody_earlier() {
    let script = format!("{OLD}{OLD}text: done");
    let run = |args: &[&str]| {
        let test = Test::new().script(&script);
        old_is_new(&test, 1);
        test.run(&[&["say hello"], args].concat()).expect_code(0);
        let own = test.events_of("tool.finished").into_iter().filter(|e| e["by"] == "kernel");
        (own.count(), decisions(&test), test.events_of("model.requested").len())
    };
    let (own, without, requests) = run(&["--no-memory"]);
    assert_eq!(
        (own, without.as_slice()),
        (0, &["retry feedback", "replan step"].map(String::from)[..])
    );
    let tried = ["retry adjusted"].map(String::from);
    // There is no new.sh either.
    assert_eq!(run(&[]), (1, [&tried[..], &without].concat(), requests));
}

#[test]
fn what_could_do_more_harm_is_only_told() {
    for (mode, fix) in [
        ("auto-edit", json!({"kind": "replace_words", "from": "./old.sh", "to": "rm -rf src;"})),
        ("full", json!({"kind": "replace_words", "from": "./old.sh", "to": "rm -rf src;"})),
        ("full", json!({"kind": "run_first", "command": "git push --force"})),
        (
            "full",
            json!({"kind": "other_tool", "tool": "Write",
            "input": {"path": "a.txt", "content": "x"}}),
        ),
    ] {
        let test = project().file("src/a", "").script(&format!("{OLD}text: done"));
        let when = json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "./old.sh"});
        remember(&test, 5, "Do this instead.", &when, &fix);
        test.run(&["say hello", "--permission-mode", mode]).expect_code(0);
        let recalled = test.events_of("memory.recalled");
        assert_eq!((recalled.len(), &recalled[0]["applied"]), (1, &Value::Null), "{fix}");
        assert!(test.root().join("src/a").exists() && !test.root().join("a.txt").exists());
    }
}

#[test]
fn what_has_to_be_run_first_is_run_and_then_the_call() {
    let script = "call: Bash {\"command\":\"cat made.txt\"}\n---\nwhen: here it is\ntext: done";
    let test = Test::new().script(script);
    let when = json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "cat"});
    let fix = json!({"kind": "run_first", "command": "echo here it is > made.txt"});
    remember(&test, 1, "Make `made.txt` first.", &when, &fix);
    test.run(&["say hello", "--allow", "Bash(cat *)"]).expect_code(0);
    let own: Vec<Value> =
        test.events_of("tool.finished").into_iter().filter(|e| e["by"] == "kernel").collect();
    assert_eq!(own.len(), 2, "each passes the gate by itself");
    assert_eq!(decisions(&test), ["retry adjusted"]);
}

#[test]
fn what_a_call_runs_first_itself_is_not_run_before_it() {
    let script = "call: Bash {\"command\":\"echo \\\"a b\\\" && cat made.txt\"}\n---\ntext: done";
    let test = Test::new().script(script);
    let when = json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "cat"});
    let fix = json!({"kind": "run_first", "command": "echo \"a b\""});
    remember(&test, 1, "Say a and b first.", &when, &fix);
    test.run(&["say hello", "--allow", "Bash"]).expect_code(0);
    assert!(test.events_of("tool.finished").iter().all(|event| event["by"] != "kernel"));
}

/// Wins and losses of the one item, after a run of this task.
fn counts_after(test: &Test, args: &[&str]) -> (u32, u32) {
    test.run(args).expect_code(0);
    let ended = test.events_of("turn.finished");
    let session = ended[0]["session"].as_str().unwrap().to_owned();
    settle(test, &(session, ended[0]["seq"].as_u64().unwrap()));
    let items = store(test).items(&[]).unwrap();
    let item = items.iter().find(|item| item.evidence == ["earlier"]).unwrap();
    (item.wins, item.losses)
}

#[test]
fn what_a_reflection_mended_is_no_success_of_the_fix_that_failed() {
    let action = json!({"kind": "adjust", "input": {"command": "echo found"}});
    let cause = json!({"category": "parameter_error", "text": "it moved", "confidence": 0.9});
    let said = json!({"failure_signal": "tool_error", "root_cause": cause, "fix_strategy": [],
        "suggested_action": action, "patch_prompt": "", "memory_to_write": []});
    let script =
        format!("{OLD}for: reflect\ntext: {said}\ntimes: any\n---\nwhen: found\ntext: done");
    let new = "#!/bin/bash\necho unknown zone >&2; exit 3\n";
    let test = project().file("new.sh", new).script(&script);
    old_is_new(&test, 1);
    let counts = counts_after(&test, &["say hello", "--set", "recovery.reflect_after=1"]);
    assert_eq!(decisions(&test), ["retry adjusted", "retry adjusted"], "each was tried");
    assert_eq!(counts, (1, 1));
}

#[test]
fn what_is_done_without_the_advice_too_is_no_success_of_it() {
    let renamed = |test: &Test| {
        let when = json!({"tool": "Read", "code": "INVALID_PARAM", "argument": "paths"});
        let fix = json!({"kind": "rename_argument", "from": "paths", "to": "path"});
        remember(test, 0, "Name the argument of Read `path`, not `paths`.", &when, &fix);
    };
    let right = "call: Read {\"path\":\"a.txt\"}\n---\ntext: done";
    let test = Test::new().file("a.txt", "one\n").script(right);
    renamed(&test);
    let counts = counts_after(&test, &["Read a.txt and tell what it says"]);
    assert_eq!(test.events_of("memory.recalled")[0]["moment"], "task");
    assert_eq!(counts, (0, 0));
    // Where it was told after the failure, and then the call went well, it helped.
    let wrong = format!("call: Read {{\"paths\":\"a.txt\"}}\n---\n{right}");
    let test = Test::new().file("a.txt", "one\n").script(&wrong);
    renamed(&test);
    let counts = counts_after(&test, &["say hello"]);
    assert_eq!(test.events_of("memory.recalled")[0]["moment"], "failure");
    assert_eq!(counts, (1, 0));
}

#[test]
fn a_refused_fix_is_no_permission_that_the_task_needed() {
    let test = project().script(&format!("{OLD}text: done"));
    old_is_new(&test, 1);
    test.run(&["say hello", "--deny", "Bash(./new.sh *)"]).expect_code(0);
    let own = test.events_of("tool.finished").into_iter().find(|e| e["by"] == "kernel").unwrap();
    assert_eq!(own["envelope"]["error"]["code"], "COMMAND_BLOCKED");
}

#[test]
fn a_task_is_told_what_fits_it_in_l2_and_later_ones_in_the_conversation() {
    let script = "when: (?s)^.*Memory:.*Patterns learned:.{1,4}Run `./new.sh`\ntext: one\n---\ntext: two\n---\n\
                  text: three";
    let test = project().script(script);
    old_is_new(&test, 1);
    test.run(&["run old and tell"]).expect_code(0).expect_stdout("one\n");
    let recalled = test.events_of("memory.recalled");
    assert_eq!((recalled.len(), &recalled[0]["in_rules"]), (1, &json!(true)));
    let requested = test.events_of("model.requested");
    assert!(requested[0]["layers"]["l2"]["bytes"].as_u64().unwrap() > 0);

    // What was shown stays shown, in the same place, and is not said again.
    let when = json!({"tool": "Bash", "code": "COMMAND_FAILED", "command_head": "pytest"});
    let fix = json!({"kind": "replace_words", "from": "pytest", "to": "python3 -m pytest"});
    remember(&test, 1, "Run `python3 -m pytest`, not `pytest`.", &when, &fix);
    test.run(&["run old, then run the tests", "-c"]).expect_code(0);
    let recalled = test.events_of("memory.recalled");
    assert_eq!((recalled.len(), &recalled[1]["in_rules"]), (2, &Value::Null));
    assert_eq!(recalled[1]["items"].as_array().unwrap().len(), 1);
    let again = test.events_of("model.requested");
    for layer in ["l1", "l2"] {
        assert_eq!(again[1]["layers"][layer]["hash"], again[0]["layers"][layer]["hash"]);
    }
}

#[test]
fn what_a_person_wrote_is_told_in_every_task() {
    let test = project().script("times: any\ntext: done");
    let add = |args: &[&str]| test.agent(&[&["memory", "add"], args].concat()).expect_code(0);
    add(&["Answer in German."]);
    add(&["--topic", "release", "Tell the team on Monday."]);
    let told = |task: &str| {
        test.run(&[task]).expect_code(0);
        let recalled = test.events_of("memory.recalled");
        let items = recalled.iter().flat_map(|event| event["items"].as_array().unwrap());
        items.map(|item| item["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(told("say hello"), ["Answer in German."]);
    assert_eq!(told("explain the README"), ["Answer in German."]);
    // What is bound to a topic waits for it.
    let both = told("Publish the release 1.4");
    assert_eq!(both, ["Tell the team on Monday.", "Answer in German."]);
}

#[test]
fn without_anything_that_fits_not_a_token_is_more() {
    let sent = |args: &[&str], remembers: bool| {
        let test = project().script("call: LS {}\n---\ntext: done");
        if remembers {
            old_is_new(&test, 3);
        }
        let mut all = vec!["say hello"];
        all.extend(args);
        test.run(&all).expect_code(0);
        assert!(!test.has_event("memory.recalled") && !test.has_event("memory.written"));
        let requested = test.events_of("model.requested");
        let layers =
            |event: &Value| (event["layers"]["l2"].clone(), event["layers"]["l3"]["bytes"].clone());
        (requested.iter().map(layers).collect::<Vec<_>>(), test.events().len())
    };
    let without = sent(&["--no-memory"], false);
    assert_eq!(sent(&[], false), without);
    assert_eq!(sent(&[], true), without);
}

#[test]
fn who_wants_no_memory_has_none() {
    for how in ["option", "variable", "ephemeral"] {
        let mut test = project().script(&format!("{OLD}text: done"));
        if how == "variable" {
            test = test.env("AGENT_NO_MEMORY", "1");
        }
        let option = match how {
            "option" => "--no-memory",
            "ephemeral" => "--ephemeral",
            _ => "--quiet",
        };
        test.run(&["run the old script", option]).expect_code(0);
        assert!(!test.home().join(".local/share/agent/memory.db").exists(), "{how}");
        if how == "option" {
            // What happened then is not learnt later either.
            test.run(&["run the old script", "-c"]).code.unwrap();
        }
    }
}

#[test]
fn a_memory_that_is_no_memory_is_said_once_and_costs_nothing() {
    let test = project().script(&format!("{OLD}text: done"));
    let folder = test.home().join(".local/share/agent");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("memory.db"), "this is no database at all, whoever wrote it")
        .unwrap();
    test.run(&["run the old script"]).expect_code(0).expect_stdout("done\n");
    let errors: Vec<Value> =
        test.events_of("error").into_iter().filter(|e| e["source"] == "memory").collect();
    assert!(errors.len() <= 2, "{errors:?}");
}

#[test]
fn a_locked_memory_slows_nothing_and_is_made_up_for_at_the_next_start() {
    let test = project().script(&format!("{OLD}text: done"));
    test.run(&["run the old script"]).expect_code(0);
    let path = test.home().join(".local/share/agent/memory.db");
    let session = |test: &Test| {
        let ended = test.events_of("turn.finished");
        (ended[0]["session"].as_str().unwrap().to_owned(), ended[0]["seq"].as_u64().unwrap())
    };
    settle(&test, &session(&test));

    // The session is known to be ours, then somebody holds the store.
    let script = format!("pause: 300ms\n{OLD}text: done");
    let test = test.script(&script);
    let db = rusqlite::Connection::open(&path).unwrap();
    db.busy_timeout(Duration::from_secs(5)).unwrap();
    let child = test.spawn(&["run", "--model", "script:../script", "run the old script again"]);
    while !test.has_event("turn.started") {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(150));
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    let locked = session(&test);
    assert!(store(&test).reviewed(&locked.0).unwrap() < locked.1, "it was locked");
    db.execute_batch("ROLLBACK").unwrap();

    let test = test.script("pause: 500ms\ntext: hello");
    test.run(&["hello"]).expect_code(0);
    settle(&test, &locked);
}

#[test]
fn a_session_that_began_while_the_memory_was_locked_is_learnt_of_later() {
    let test = project()
        .script(&format!("{OLD}call: Bash {{\"command\":\"./new.sh a b\"}}\n---\ntext: done"));
    remember(&test, 1, "Something else.", &json!({"tool": "LS", "path": "x"}), &Value::Null);
    let db = rusqlite::Connection::open(test.home().join(".local/share/agent/memory.db")).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    test.run(&["run the old script"]).expect_code(0);
    let ended = test.events_of("turn.finished");
    let ended =
        (ended[0]["session"].as_str().unwrap().to_owned(), ended[0]["seq"].as_u64().unwrap());
    assert_eq!(store(&test).reviewed(&ended.0).unwrap(), 0, "it was locked all the time");
    db.execute_batch("ROLLBACK").unwrap();

    let test = test.script("pause: 500ms\ntext: hello");
    test.run(&["hello"]).expect_code(0);
    settle(&test, &ended);
    assert!(!test.home().join(format!(".local/share/agent/memory.begun/{}", ended.0)).exists());
}

/// What this session taught is written, at once or by a later start.
pub(crate) fn settle(test: &Test, (session, seq): &(String, u64)) {
    for n in 0..200 {
        if store(test).reviewed(session).unwrap() >= *seq {
            return;
        }
        // The end of a session waits for nobody: on a busy machine the next one makes up for it.
        if n == 60 {
            let script = test.home().join("later");
            std::fs::write(&script, "pause: 2s\ntext: hello").unwrap();
            test.agent(&["run", "hello", "--model", &format!("script:{}", script.display())]);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("nothing was learnt of {session}");
}

#[test]
fn a_session_recorded_without_learning_teaches_nothing_later() {
    let test = project()
        .script(&format!("{OLD}call: Bash {{\"command\":\"./new.sh a b\"}}\n---\ntext: done"));
    test.run(&["run the script", "--no-memory"]).expect_code(0);
    let id = test.events()[0]["session"].as_str().unwrap().to_owned();
    let test = test.script("pause: 300ms\ntext: hello");
    test.run(&["hello"]).expect_code(0);
    assert_eq!(store(&test).reviewed(&id).unwrap(), 0);
    assert!(store(&test).items(&[]).unwrap().is_empty());
}

#[test]
fn a_folder_that_nobody_trusts_teaches_no_other_that_names_its_remote() {
    let config = "[remote \"origin\"]\n\turl = git@example.com:team/app.git\n";
    let script = "call: Bash {\"command\":\"./gen.sh a\"}\n---\n\
                  call: Bash {\"command\":\"bash gen.sh a\"}\n---\ntext: done";
    let scopes = |args: &[&str]| {
        let test =
            Test::new().file(".git/config", config).file("gen.sh", "echo $*\n").script(script);
        // Whatever git itself makes of such a folder: the agent reads its configuration.
        test.run(&[&["generate it", "--allow", "Bash"], args].concat()).expect_code(0);
        let ended = test.events_of("turn.finished");
        let seq = ended[0]["seq"].as_u64().unwrap();
        settle(&test, &(ended[0]["session"].as_str().unwrap().to_owned(), seq));
        let items = store(&test).items(&[]).unwrap();
        let listed = |args: &[&str]| {
            let all = [&["memory", "list", "--project"], args].concat();
            test.agent(&all).expect_code(0).stdout.lines().count()
        };
        let root = test.root().canonicalize().unwrap().display().to_string();
        let scopes: Vec<Scope> = items.into_iter().map(|item| item.scope).collect();
        (scopes, Scope::Project(root), listed(&[]), listed(&["--trust"]))
    };
    let (scopes_of_it, path, listed, as_trusted) = scopes(&[]);
    assert_eq!((scopes_of_it, listed, as_trusted), (vec![path], 1, 0));
    let (scopes_of_it, _, listed, as_trusted) = scopes(&["--trust"]);
    let remote = Scope::Project("example.com/team/app".to_owned());
    assert_eq!((scopes_of_it, listed, as_trusted), (vec![remote], 0, 1));
}

#[test]
fn a_todo_that_says_to_run_the_tests_is_not_done_before_they_ended_well() {
    let plan = |status: &str| {
        let todos = json!([{"content": "Run the tests", "status": status}]);
        format!("call: TodoWrite {}\n---\n", json!({"summary": "s", "todos": todos}))
    };
    let told = "when: You marked .Run the tests. as completed, and tests did not end well";
    let script = format!(
        "{}call: LS {{}}\n---\n{}{told}\ncall: Bash {{\"command\":\"./test.sh\"}}\n---\ntext: done",
        plan("in_progress"),
        plan("completed")
    );
    let test = Test::new().file("test.sh", "exit 0\n").script(&script);
    let path = test.root().join("test.sh");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    test.run(&["do it"]).expect_code(0).expect_stdout("done\n");
}
