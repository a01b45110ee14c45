//! `agent trace stats`: recorded sessions in numbers; and records that are not understood completely.

mod faults;
mod page;
mod telemetry;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{Done, Test};

/// Looks for a missing file, lets a command fail, repairs its cause, and runs it again.
const WORK: &str = r#"
call: Read {"path": "nosuch.txt"}
call: Bash {"command": "bash t.sh"}
usage: 1000 10
---
call: Read {"path": "t.sh"}
usage: 2000 20
---
call: Edit {"path": "t.sh", "old_string": "exit 3", "new_string": "exit 0"}
usage: 3000 30
---
call: Bash {"command": "bash t.sh"}
usage: 4000 40
---
text: It passes now.
usage: 5000 50
"#;

fn project(script: &str) -> Test {
    Test::new().file("t.sh", "echo runs\nexit 3\n").script(script)
}

/// Runs the script again on the same project; returns the session's id.
fn run(test: &Test, args: &[&str]) -> String {
    test.write("t.sh", "echo runs\nexit 3\n");
    let mut all = vec!["repair it", "--no-memory"];
    all.extend(args);
    test.run(&all).expect_code(0);
    id(test)
}

/// The id of the latest session.
fn id(test: &Test) -> String {
    let directory = test.log().parent().unwrap().to_owned();
    directory.file_name().unwrap().to_str().unwrap().to_owned()
}

fn trace(test: &Test, args: &[&str]) -> Done {
    test.agent(&[&["trace"], args].concat())
}

fn stats(test: &Test, args: &[&str]) -> Value {
    let done = trace(test, &[&["stats"], args].concat()).expect_code(0);
    serde_json::from_str(&done.stdout).unwrap()
}

#[test]
fn stats_count_what_a_run_did() {
    let test = project(WORK);
    run(&test, &["--check", "bash t.sh"]);
    let report = stats(&test, &[]);
    let total = &report["total"];
    assert_eq!(report["sessions"][0]["stats"], *total);
    assert_eq!(report["sessions"][0]["ending"], "completed");
    assert_eq!((&total["turns"], &total["steps"]), (&json!(1), &json!(5)));
    assert_eq!(total["outcomes"], json!({"completed": 1}));
    let usage = json!({"input_tokens": 15000, "output_tokens": 150, "cached_tokens": 0});
    assert_eq!(total["usage"], usage);
    assert_eq!(total["purposes"]["main"]["usage"], usage);
    assert_eq!((&total["cost_usd"], &total["unpriced_tokens"]), (&Value::Null, &json!(15_150)));
    let used = |tool: &str| {
        let used = &total["tools"][tool];
        (used["calls"].clone(), used["failures"].clone())
    };
    assert_eq!(used("Read"), (json!(2), json!({"NOT_FOUND": 1})));
    assert_eq!(used("Bash"), (json!(2), json!({"COMMAND_FAILED": 1})));
    assert_eq!(used("Edit"), (json!(1), json!({})));
    // The command passed later; the file was never found, and not needed.
    let recoveries = json!({"failed": 2, "recovered": 1, "bypassed": 1, "unresolved": 0});
    assert_eq!(total["recoveries"], recoveries);
    assert_eq!(total["decisions"]["retry feedback"], 1);
    assert_eq!(total["checks"], json!({"passed": 1, "failed": 0}));
    let time = |name: &str| total["time"][name].as_u64().unwrap();
    assert!(time("turns_ms") > 0 && time("tools_ms") > 0 && time("checks_ms") > 0, "{total}");
    assert_eq!(time("approvals_ms"), 0);
    assert_eq!(stats(&test, &[]), report, "the same record gives the same numbers");
}

#[test]
fn stats_show_each_purpose_of_a_request() {
    let verifier = "for: task\ntext: {\"confirmed\": true}\nusage: 300 3";
    let test = project("text: It is fine.\nusage: 100 1").file(".verifier", verifier);
    let model = "verify.model=script:../project/.verifier";
    run(&test, &["--set", model]);
    let total = &stats(&test, &[])["total"];
    let tokens = |purpose: &str| total["purposes"][purpose]["usage"]["input_tokens"].as_u64();
    assert_eq!((tokens("main"), tokens("task")), (Some(100), Some(300)));
    assert_eq!(total["usage"]["input_tokens"], 400);
    let verdicts = &total["verifications"];
    assert_eq!((&verdicts["confirmed"], &verdicts["objected"]), (&json!(1), &json!(0)));
    assert_eq!(total["models"].as_object().unwrap().len(), 2);
}

#[test]
fn stats_count_a_resumed_and_rewound_session_once() {
    let test = project("text: one\nusage: 10 1");
    run(&test, &[]);
    test.run(&["more", "-c"]).expect_code(0);
    let both = stats(&test, &[]);
    assert_eq!(both["total"]["outcomes"], json!({"completed": 2}));
    assert_eq!(both["sessions"].as_array().unwrap().len(), 1);
    test.agent(&["session", "rewind", "--turn", "2", "--conversation"]).expect_code(0);
    let total = stats(&test, &[])["total"].clone();
    // What was removed was paid for, but is no outcome.
    assert_eq!((&total["turns"], &total["removed_turns"]), (&json!(2), &json!(1)));
    assert_eq!(total["outcomes"], json!({"completed": 1}));
    assert_eq!(total["usage"]["input_tokens"], 20);
}

#[test]
fn stats_of_a_fork_leave_out_what_was_copied() {
    let test = project("text: one\nusage: 10 1");
    let first = run(&test, &[]);
    let fork = test.agent(&["session", "fork"]).expect_code(0).stdout.trim().to_owned();
    test.run(&["more", "--resume", &fork]).expect_code(0);
    let own = stats(&test, &[&fork]);
    assert_eq!(own["total"]["usage"]["input_tokens"], 10);
    assert_eq!(own["sessions"][0]["forked_from"], first.as_str());
    let both = stats(&test, &[&first, &fork, &first]);
    assert_eq!(both["sessions"].as_array().unwrap().len(), 2);
    assert_eq!(both["total"]["usage"]["input_tokens"], 20);
}

#[test]
fn stats_select_sessions_by_time_and_project() {
    let test = project("text: one\nusage: 10 1");
    run(&test, &[]);
    run(&test, &[]);
    let other = test.root().with_file_name("other");
    std::fs::create_dir(&other).unwrap();
    test.run(&["task", "-C", other.to_str().unwrap()]).expect_code(0);
    let n = |args: &[&str]| stats(&test, args)["sessions"].as_array().unwrap().len();
    assert_eq!(n(&[]), 1);
    for since in ["7d", "2w", "1h", "2020-01-31", "2020-01-31T12:30", "2020-01-31T12:30:00Z"] {
        assert_eq!(n(&["--since", since]), 2, "{since}");
    }
    // (Other tests do not use this home, but the user may have sessions in the default places.)
    let all = stats(&test, &["--all"])["sessions"].to_string();
    for root in [test.root(), other.clone()] {
        let list = ["session", "list", "--format", "json", "-C", root.to_str().unwrap()];
        let list: Value = serde_json::from_str(&test.agent(&list).stdout).unwrap();
        for session in list.as_array().unwrap() {
            assert!(all.contains(&session["id"].to_string()), "{session}");
        }
    }
    assert_eq!(n(&["--since", "1h", "-C", other.to_str().unwrap()]), 1);
    let done = trace(&test, &["stats", "--since", "2100-01-01"]).expect_code(0);
    assert!(done.stdout.contains("\"sessions\": []"), "{done:?}");
    done.expect_one_line_of_stderr("nothing is recorded in this time");
    assert_eq!(stats(&test, &["--since", "1h"])["total"]["outcomes"]["completed"], 2);
    for wrong in ["soon", "2020-13-01", "-3d", ""] {
        trace(&test, &["stats", &format!("--since={wrong}")])
            .expect_code(2)
            .expect_stderr("neither a duration");
    }
    trace(&test, &["stats", "nope"]).expect_code(2).expect_one_line_of_stderr("no session nope");
}

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// Writes a session with these events, each at its time in milliseconds.
fn recorded(test: &Test, events: &[(u64, Value)]) -> PathBuf {
    let line = |(n, (ms, body)): (usize, &(u64, Value))| {
        let mut event = json!({
            "v": 2, "seq": n + 1, "session": ID, "agent": "main", "turn": 1, "round": 1, "step": 0,
            "ts": format!("2026-11-20T12:00:{:02}.{:03}Z", ms / 1000, ms % 1000),
        });
        event.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        format!("{event}\n")
    };
    test.record(ID, &events.iter().enumerate().map(line).collect::<String>())
}

fn started(input: &str) -> Value {
    json!({"type": "turn.started", "input": input})
}

fn responded(purpose: &str, cost: Option<f64>, time_ms: u64) -> Value {
    json!({"type": "model.responded", "purpose": purpose, "text": "x", "stop": "end",
        "time_ms": time_ms, "cost_usd": cost,
        "usage": {"input_tokens": 1000, "output_tokens": 20, "cached_tokens": 500}})
}

#[test]
fn waiting_for_the_user_is_no_time_of_a_tool() {
    let test = Test::new();
    let call = json!({"call": "c", "tool": "Bash"});
    let of_call = |body: Value| {
        let mut all = call.clone();
        all.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        all
    };
    let effect = json!({"kind": "command", "command": "x", "directory": ".", "programs": []});
    recorded(
        &test,
        &[
            (0, started("task")),
            (1000, responded("main", Some(0.25), 1000)),
            (
                1000,
                of_call(json!({"type": "permission.requested", "input": {}, "effect": effect,
                    "rule": "r", "reason": "r"})),
            ),
            (
                6000,
                of_call(json!({"type": "permission.decided", "ruling": "allow", "rule": "r",
                    "reason": "r"})),
            ),
            (
                6200,
                of_call(json!({"type": "tool.finished", "envelope": {"status": "success",
                    "data": {}, "text": "", "stats": {"time_ms": 5200},
                    "context": {"cwd": ".", "params_input": {"command": "x"}}}})),
            ),
            (7000, responded("learn", Some(0.5), 700)),
            (9000, responded("summary", None, 200)),
        ],
    );
    let total = stats(&test, &[])["total"].clone();
    // Learning takes place beside the turn. Without an end, the turn lasts until its last event.
    let time = json!({"turns_ms": 9000, "models_ms": 1200, "tools_ms": 200, "checks_ms": 0,
        "approvals_ms": 5000});
    assert_eq!(total["time"], time);
    assert_eq!(total["approvals"]["asked"], 1);
    assert_eq!(total["outcomes"], json!({"unfinished": 1}));
    assert_eq!((&total["cost_usd"], &total["unpriced_tokens"]), (&json!(0.75), &json!(1020)));
    assert_eq!(total["purposes"]["summary"]["answers"], 1);
}

/// Views show what they understand of any record, and say in one line what they do not.
#[test]
fn record_of_a_newer_version_is_shown_as_far_as_it_is_understood() {
    let test = project(WORK);
    let new = run(&test, &[]);
    let log = test.log();
    let text = std::fs::read_to_string(&log).unwrap();
    let unknown = |kind: &str| format!("{{\"v\":3,\"seq\":900,\"type\":{}}}\n", json!(kind));
    let mut changed = text.replace("{\"v\":2,", "{\"v\":3,");
    changed.push_str(&unknown("plan.voted").repeat(2));
    changed.push_str(&unknown("\u{1b}[31mred\u{1b}]0;title\u{7}"));
    changed.push_str("no event at all\n\u{0}\u{1}\n");
    changed.push_str("{\"v\":3,\"seq\":901,\"type\":\"turn.fin");
    std::fs::write(&log, &changed).unwrap();
    for args in [&["show", &new][..], &["stats", &new]] {
        let done = trace(&test, args).expect_code(0);
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
        assert!(!done.stderr.contains('\u{1b}') && !done.stdout.contains('\u{1b}'), "{done:?}");
        for part in [
            "recorded by a newer version of agent (event format 3, this version reads 2)",
            "3 events not understood and left out",
            "plan.voted 2",
            "2 lines are no events",
            "the last line is torn",
        ] {
            assert!(done.stderr.contains(part), "{part}\n{done:?}");
        }
    }
    let gaps = stats(&test, &[&new])["sessions"][0]["not_understood"].clone();
    assert_eq!(
        (&gaps["format"], &gaps["lines"], &gaps["torn"]),
        (&json!(3), &json!(2), &json!(true))
    );
    assert_eq!(stats(&test, &[&new])["total"]["steps"], 5);
    // Whatever continues a session, or copies it, refuses.
    test.run(&["more", "--resume", &new]).expect_code(2);
    test.agent(&["session", "show", &new]).expect_code(2);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), changed, "nothing is changed");
}

#[test]
fn truncated_record_is_an_unfinished_run() {
    let test = project(WORK);
    let cut = run(&test, &[]);
    let text = std::fs::read_to_string(test.log()).unwrap();
    let end = text.find("\"type\":\"turn.finished\"").unwrap();
    std::fs::write(test.log(), &text[..end]).unwrap();
    let report = stats(&test, &[&cut]);
    assert_eq!(report["sessions"][0]["ending"], "unfinished");
    assert_eq!(report["total"]["recoveries"]["unresolved"], 1);
    // Nothing at all is no run.
    std::fs::write(test.log(), "{").unwrap();
    trace(&test, &["stats", &cut]).expect_code(0).expect_one_line_of_stderr("is torn");
}
