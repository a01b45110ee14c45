//! `agent session`: list, show, fork, rewind and delete recorded sessions.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::server::{Request, Server, sse_raw, sse_text};
use crate::support::{Done, Test, events, wait_for};

const OLD: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// Writes a session with these event bodies; each `turn.started` begins a turn.
fn recorded(test: &Test, id: &str, bodies: &[Value]) -> PathBuf {
    let mut turn = 0;
    let mut text = String::new();
    for (n, body) in bodies.iter().enumerate() {
        turn += u32::from(body["type"] == "turn.started");
        let mut event = json!({
            "v": 2, "seq": n + 1, "ts": format!("2026-11-20T12:00:{:02}.000Z", n % 60),
            "session": id, "agent": "main", "turn": turn, "round": 0, "step": 0,
        });
        event.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        text.push_str(&format!("{event}\n"));
    }
    test.record(id, &text)
}

fn started() -> Value {
    json!({"type": "session.started", "cwd": "/", "model": "openai/gpt-5.5", "tools": [],
        "permission_mode": "auto-edit", "program": "0",
        "sandbox": {"backend": "none", "filesystem": "none", "network": "unenforced"}})
}

fn said(input: &str) -> Value {
    json!({"type": "turn.started", "input": input})
}

/// A model response of 1,000 input tokens, half of them cached, and 20 output tokens, at this cost.
fn answered(text: &str, purpose: &str, cost_usd: f64) -> Value {
    json!({"type": "model.responded", "purpose": purpose, "text": text, "stop": "end", "time_ms": 1,
        "usage": {"input_tokens": 1000, "output_tokens": 20, "cached_tokens": 500},
        "cost_usd": cost_usd})
}

fn ended(result: &str) -> Value {
    json!({"type": "turn.finished", "ending": "completed", "result": result, "errors": [],
        "verified": null, "files_changed": [], "rounds": 1,
        "usage": {"input_tokens": 0, "output_tokens": 0}, "cost_usd": null, "time_ms": 1,
        "model_ms": 1})
}

fn latest_id(test: &Test) -> String {
    let list = test.agent(&["session", "list", "--format", "json"]).expect_code(0).stdout;
    serde_json::from_str::<Value>(&list).unwrap()[0]["id"].as_str().unwrap().to_owned()
}

/// Resumes the latest session; returns the request sent to the model.
fn asked_next(test: &Test, more: &[&str]) -> String {
    let server = Server::with(|_: &Request, _| sse_text("ok"));
    let mut args = vec!["run", "--model", "openai/m", "--base-url"];
    let url = server.url();
    args.push(&url);
    args.extend(more);
    test.agent(&args).expect_code(0);
    let requests = server.finish();
    assert_eq!(requests.len(), 1);
    requests[0].json()["messages"].to_string()
}

#[test]
fn tokens_and_cost_are_shown_per_turn_and_in_total() {
    let test = Test::new();
    let bodies = [
        started(),
        said("first"),
        answered("a summary", "summary", 0.5),
        answered("one", "main", 0.01),
        ended("one"),
        said("second"),
        answered("two", "main", 0.02),
        answered("three", "main", 0.03),
    ];
    recorded(&test, OLD, &bodies);
    let show = test.agent(&["session", "show"]).expect_code(0).stdout;
    for line in [
        "turn 1    first\n",
        "ended     completed · 1 answer · 2,000 in (1,000 cached), 40 out · $0.5100\n",
        "turn 2    second\n",
        "ended     unfinished · 2 answers · 2,000 in (1,000 cached), 40 out · $0.0500\n",
        "in all    4,000 in (2,000 cached), 80 out · $0.5600\n",
    ] {
        assert!(show.contains(line), "{line}\n{show}");
    }
    let list = test.agent(&["session", "list"]).expect_code(0).stdout;
    let line = "9a8057  2026-11-20 12:00  unfinished              2 turns    $0.5600  first\n";
    assert_eq!(list, line);
}

/// Ids begin with the time, so those of one minute differ in their ends.
#[test]
fn ids_are_shown_short_and_found_by_their_beginning_or_end() {
    const SAME_END: &str = "01890a5d-ac97-774b-bcce-b302199a8057";
    const OTHER: &str = "01890a5d-ac96-774b-bcce-b302090b0001";
    let test = Test::new();
    for id in [OLD, SAME_END, OTHER] {
        let bodies = [started(), said("a task"), answered("one", "main", 0.01), ended("one")];
        recorded(&test, id, &bodies);
    }
    let list = test.agent(&["session", "list"]).expect_code(0).stdout;
    let mut shown: Vec<&str> = list.lines().map(|line| line.split(' ').next().unwrap()).collect();
    shown.sort_unstable();
    assert_eq!(shown, ["099a8057", "0b0001", "199a8057"]);
    for (part, id) in [("099a8057", OLD), ("0b0001", OTHER), ("01890a5d-ac97", SAME_END)] {
        let show = test.agent(&["session", "show", part]).expect_code(0).stdout;
        assert!(show.contains(&format!("sessions/{id}/")), "{show}");
        assert!(!show.lines().next().unwrap().contains("01890a5d"), "{show}");
    }
    let unclear = test.agent(&["session", "show", "9a8057"]).expect_code(2);
    unclear.expect_one_line_of_stderr("fits 2 sessions: 099a8057, 199a8057");
    test.agent(&["session", "rm", "0b0001", "--yes"])
        .expect_code(0)
        .expect_stdout("removed 0b0001\n");
    assert!(!test.sessions().join(OTHER).exists() && test.sessions().join(OLD).exists());
    let list = test.agent(&["session", "list", "--format", "json"]).expect_code(0).stdout;
    assert!(list.contains(OLD), "programs get the whole id: {list}");
}

#[test]
fn known_models_use_built_in_prices() {
    let answer = |_: &Request, _: usize| {
        let said =
            json!({"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]});
        let usage = json!({"prompt_tokens": 200_000, "completion_tokens": 10_000,
            "prompt_tokens_details": {"cached_tokens": 150_000}});
        let usage = json!({"choices": [], "usage": usage});
        sse_raw(&[&said.to_string(), &usage.to_string(), "[DONE]"])
    };
    let server = Server::with(answer);
    let url = server.url();
    let test = Test::new();
    let run = |model: &str, more: &[&str]| {
        test.agent(&[&["run", "task", "--model", model, "--base-url", &url], more].concat())
    };
    // 50,000 new tokens at $1, 150,000 cached ones at $0.10 and 10,000 output tokens at $6 per
    // million.
    let done = run("openai/gpt-5.6-luna", &["--output-format", "json"]).expect_code(0);
    let cost = done.lines()[0]["total_cost_usd"].as_f64().unwrap();
    assert!((cost - 0.125).abs() < 1e-9, "{cost}");
    let list = test.agent(&["session", "list"]).expect_code(0).stdout;
    assert!(list.contains(" $0.1250 "), "{list}");
    let show = test.agent(&["session", "show"]).expect_code(0).stdout;
    assert!(show.contains("200,000 in (150,000 cached), 10,000 out · $0.1250\n"), "{show}");
    // The configuration overrides it; a model without a known price is not counted.
    let dear =
        ["--set", "models.\"openai/gpt-5.6-luna\".price_out=100.0", "--output-format", "json"];
    let cost = run("openai/gpt-5.6-luna", &dear).lines()[0]["total_cost_usd"].as_f64().unwrap();
    assert!((cost - 1.065).abs() < 1e-9, "{cost}");
    run("openai/mine", &["--max-budget-usd", "1"])
        .expect_code(0)
        .expect_stderr("--max-budget-usd does not count openai/mine, whose price is not known");
    run("openai/gpt-5.6-luna", &["--max-budget-usd", "1"]).expect_code(0);
}

#[test]
fn session_list_has_a_json_format() {
    let test = Test::new().script("usage: 100 20\ntext: ok");
    test.run(&["the task"]).expect_code(0);
    let test = test.script("text: ok");
    test.run(&["another"]).expect_code(0);
    let fork = test.agent(&["session", "fork"]).expect_code(0).stdout;
    let list = test.agent(&["session", "list", "--format", "json"]).expect_code(0).stdout;
    let list: Vec<Value> = serde_json::from_str(&list).unwrap();
    assert_eq!(list.len(), 3);
    assert_eq!(list[0]["id"], fork.trim());
    assert_eq!(list[0]["forked_from"], list[1]["id"]);
    assert_eq!(list[1]["forked_from"], Value::Null);
    assert_eq!(list[2]["task"], "the task");
    assert_eq!(list[2]["ending"], "completed");
    assert_eq!(list[2]["turns"], 1);
    assert_eq!(list[2]["usage"]["input_tokens"], 100);
    assert_eq!(list[2]["cost_usd"], Value::Null);
    assert_eq!(list[2]["model"], "script:../script");
    let empty = Test::new().agent(&["session", "list", "--format", "json"]).expect_code(0);
    assert_eq!(empty.stdout, "[]\n");
}

#[test]
fn session_list_handles_long_tasks_and_answers() {
    let long: String = (0..40_000).map(|n| format!("{n} ")).collect();
    let test = Test::new().script(&format!("text: {long}")).stdin(long.as_bytes());
    test.run(&["the task"]).expect_code(0);
    let list = test.agent(&["session", "list"]).expect_code(0).stdout;
    assert!(list.contains("completed") && list.contains("the task"), "{list}");
}

/// Three turns: the first reads more than is shown, the second and third change `a.txt`.
fn three_turns() -> Test {
    let long: String = (1..3000).map(|n| format!("line {n}\n")).collect();
    let test = Test::new()
        .file("a.txt", "one\n")
        .file("long.txt", long)
        .script("call: Bash {\"command\": \"cat long.txt; true\"}\n---\ntext: the first answer");
    test.run(&["the first task", "--allow", "Bash"]).expect_code(0);
    for (old, new, name) in [("one", "two", "second"), ("two", "three", "third")] {
        let edit = json!({"path": "a.txt", "old_string": old, "new_string": new});
        let test = &test;
        std::fs::write(
            test.root().join("../script"),
            format!(
                "call: Read {{\"path\": \"a.txt\"}}\n---\ncall: Edit {edit}\n---\n\
                 text: the {name} answer"
            ),
        )
        .unwrap();
        test.run(&[&format!("the {name} task"), "-c"]).expect_code(0);
    }
    assert_eq!(test.read("a.txt"), "three\n");
    test
}

#[test]
fn fork_copies_everything_up_to_a_turn() {
    let test = three_turns();
    let old = latest_id(&test);
    let before = events(&test.log());
    let log_before = std::fs::read(test.log()).unwrap();
    let done = test.agent(&["session", "fork", &old, "--turn", "2"]).expect_code(0);
    let new = done.stdout.trim().to_owned();
    assert_eq!(latest_id(&test), new);
    let copy = test.events();
    let last = &copy[copy.len() - 1];
    assert_eq!(last["type"], "session.forked");
    assert_eq!((&last["from"], &last["up_to"]), (&json!(old), &json!(2)));
    for (n, (copied, original)) in copy.iter().zip(&before).enumerate().take(copy.len() - 1) {
        assert_eq!(copied["seq"], json!(n + 1));
        assert_eq!(copied["session"], json!(new));
        assert_eq!(copied["type"], original["type"]);
        assert_eq!(copied["ts"], original["ts"]);
    }
    assert_eq!(copy[copy.len() - 2]["type"], "turn.finished");
    assert_eq!(copy[copy.len() - 2]["turn"], 2);
    // Output too large to be shown is copied and referenced by its new path.
    let output = format!("{}/{new}/tool-output/", test.sessions().display());
    let text = std::fs::read_to_string(test.log()).unwrap();
    let at = text.find(&output).unwrap() + output.len();
    let name: String = text[at..].chars().take_while(|c| *c != '"' && *c != ' ').collect();
    let name = name.trim_end_matches(['.', ',', '\\', ';']);
    let output = std::fs::read_to_string(format!("{output}{name}")).unwrap();
    assert!(output.contains("line 1500\n"));
    assert!(!text.contains(&format!("sessions/{old}")));
    // The original session is unchanged.
    let log = test.sessions().join(&old).join("events.jsonl");
    assert_eq!(std::fs::read(log).unwrap(), log_before);

    let asked = asked_next(&test, &["go on", "-c"]);
    assert!(asked.contains("the second answer") && !asked.contains("the third"), "{asked}");
    assert_eq!(test.events().last().unwrap()["session"], json!(new));
    assert_eq!(test.events_of("turn.started")[2]["turn"], 3);
}

#[test]
fn fork_can_undo_inherited_changes() {
    let test = three_turns();
    let old = latest_id(&test);
    test.agent(&["session", "fork"]).expect_code(0);
    // Both have the changes: in a terminal the user chooses.
    let unclear = test.agent(&["session", "undo"]).expect_code(2);
    let fork = latest_id(&test);
    for id in [&old, &fork] {
        assert!(unclear.stderr.contains(&id[id.len() - 6..]), "{}", unclear.stderr);
    }
    let done = test.in_terminal(&["session", "undo"], "3\n").expect_code(2);
    assert!(done.stdout.contains("nothing was done"), "{}", done.stdout);
    assert_eq!(test.read("a.txt"), "three\n");
    test.in_terminal(&["session", "undo"], "1\n").expect_code(0);
    assert_eq!(test.read("a.txt"), "two\n");
    assert_eq!(test.events().last().unwrap()["session"], json!(fork), "the first of the list");
    // The file already has the content from before that turn.
    let done = test.agent(&["session", "undo", &old]).expect_code(0);
    assert!(done.stdout.contains("already as before"), "{}", done.stdout);
    test.agent(&["session", "rewind", "--turn", "1"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "one\n");
}

/// Lines meant to be copied contain no text from a log or a directory name.
#[test]
fn only_valid_ids_are_sessions() {
    const FORGED: &str = "$(cd;touch owned)";
    let test = three_turns();
    let old = latest_id(&test);
    test.agent(&["session", "fork"]).expect_code(0);
    let fork = latest_id(&test);
    let text = std::fs::read_to_string(test.log()).unwrap();
    let from = format!("\"from\":\"{old}\"");
    assert!(text.contains(&from));
    std::fs::write(test.log(), text.replace(&from, &format!("\"from\":\"{FORGED}\""))).unwrap();
    for args in [&["session", "show"][..], &["session", "list", "--format", "json"]] {
        let done = test.agent(args);
        let told = format!("{}{}", done.stdout, done.stderr);
        assert!(told.contains(&fork) && !told.contains(FORGED), "{args:?}: {told}");
    }
    // The same session in a directory with another name.
    let sessions = test.sessions();
    for name in [FORGED, "zz", "{0192f0c1-2345-7000-8000-000000000000}"] {
        std::fs::create_dir(sessions.join(name)).unwrap();
        std::fs::copy(test.log(), sessions.join(name).join("events.jsonl")).unwrap();
    }
    let list = test.agent(&["session", "list"]).expect_code(0).stdout;
    assert_eq!(list.lines().count(), 2, "{list}");
    test.agent(&["session", "show", "zz"]).expect_code(2).expect_one_line_of_stderr("no session");
    test.run(&["go on", "--session-id", "{0192f0c1-2345-7000-8000-000000000000}"])
        .expect_code(2)
        .expect_one_line_of_stderr("UUID");
}

#[test]
fn run_can_continue_in_a_fork() {
    let test = three_turns();
    let old = latest_id(&test);
    let log = test.log();
    let before = std::fs::read(&log).unwrap();
    let asked = asked_next(&test, &["go on", "-c", "--fork"]);
    assert!(asked.contains("the third answer"), "{asked}");
    assert_eq!(test.events_of("session.forked")[0]["from"], json!(old));
    let asked = asked_next(&test, &["go on", "--fork", "--resume", &old[..13]]);
    assert!(asked.contains("the third answer"), "{asked}");
    assert_eq!(test.events_of("session.forked").len(), 1);
    assert_eq!(std::fs::read(&log).unwrap(), before, "the session itself is left as it is");
    test.run(&["go on", "--fork"]).expect_code(2).expect_one_line_of_stderr("--resume");
    assert_eq!(test.agent(&["session", "list"]).stdout.lines().count(), 3);
}

#[test]
fn rewind_to_a_missing_turn_is_a_usage_error() {
    let test = three_turns();
    for command in ["fork", "rewind"] {
        let done = test.agent(&["session", command, "--turn", "7"]).expect_code(2);
        done.expect_one_line_of_stderr("last is 3");
    }
    test.agent(&["session", "rewind"]).expect_code(2).expect_stderr("--turn");
    assert_eq!(test.agent(&["session", "list"]).stdout.lines().count(), 1);
}

#[test]
fn rewind_reverts_conversation_and_files() {
    let test = three_turns();
    let done = test.agent(&["session", "rewind", "--turn", "2"]).expect_code(0);
    done.expect_stdout("turns 2 to 3\n  a.txt: restored\nconversation: back to before turn 2\n");
    assert_eq!(test.read("a.txt"), "one\n");
    let asked = asked_next(&test, &["another way", "-c"]);
    assert!(asked.contains("the first answer"), "{asked}");
    for gone in ["the second", "the third", "removed by a rewind"] {
        assert!(!asked.contains(gone), "{gone}\n{asked}");
    }
    // The log keeps all turns, and each number is used once.
    let turns: Vec<Value> =
        test.events_of("turn.started").iter().map(|event| event["turn"].clone()).collect();
    assert_eq!(turns, [1, 2, 3, 4]);
    let show = test.agent(&["session", "show"]).expect_code(0).stdout;
    assert!(show.contains("turn 3    the third task (removed by a rewind)\n"), "{show}");
    assert!(show.contains("turn 4    another way\n"), "{show}");
    let done = test.agent(&["session", "rewind", "--turn", "3"]).expect_code(2);
    done.expect_one_line_of_stderr("already rewound");
    // A fork up to a rewound turn restores it.
    test.agent(&["session", "fork", "--turn", "3"]).expect_code(0);
    let asked = asked_next(&test, &["go on", "-c"]);
    assert!(asked.contains("the third answer") && !asked.contains("another way"), "{asked}");
}

#[test]
fn rewind_can_revert_only_conversation_or_files() {
    let test = three_turns();
    test.agent(&["session", "rewind", "--turn", "3", "--conversation"])
        .expect_code(0)
        .expect_stdout("conversation: back to before turn 3\n");
    assert_eq!(test.read("a.txt"), "three\n");
    // The content written by turn 2 is no longer current.
    let asked = asked_next(&test, &["go on", "-c"]);
    assert!(asked.contains("the second answer") && !asked.contains("the third"), "{asked}");
    assert!(asked.contains("no longer as you saw them: a.txt"), "{asked}");

    let test = three_turns();
    test.agent(&["session", "rewind", "--turn", "2", "--files"])
        .expect_code(0)
        .expect_stdout("turns 2 to 3\n  a.txt: restored\n");
    assert_eq!(test.read("a.txt"), "one\n");
    let asked = asked_next(&test, &["go on", "-c"]);
    assert!(asked.contains("the third answer"), "{asked}");
    assert!(asked.contains("undone the file changes of turn 2"), "{asked}");
}

#[test]
fn rewind_stops_at_externally_changed_files_unless_forced() {
    let test = three_turns();
    test.write("a.txt", "somebody's\n");
    let done = test.agent(&["session", "rewind", "--turn", "2"]).expect_code(1);
    assert!(done.stdout.contains("a.txt: left as it is: it was changed since"), "{done:?}");
    assert!(done.stderr.contains("nothing was rewound to before turn 2; --force"), "{done:?}");
    assert_eq!(test.read("a.txt"), "somebody's\n");
    assert!(test.events_of("turn.undone").is_empty());
    assert!(test.events_of("session.rewound").is_empty());
    let asked = asked_next(&test, &["go on", "-c"]);
    assert!(asked.contains("the third answer"), "{asked}");
    test.agent(&["session", "rewind", "--turn", "2", "--force"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "one\n");
}

#[test]
fn rewind_reverts_mode_and_plan() {
    let todos = json!({"summary": "s", "todos": [{"content": "a thing", "status": "in_progress"}]});
    let test = Test::new().script("text: the first answer");
    test.run(&["the first task"]).expect_code(0);
    let test =
        test.script(&format!("call: TodoWrite {todos}\n---\ntext: looking\n---\ntext: looking"));
    test.run(&["Don't change anything until I say so.", "-c", "--max-turns", "3"]);
    assert_eq!(test.events_of("mode.changed").len(), 1);
    let write =
        "call: Write {\"path\": \"b.txt\", \"content\": \"b\"}\n---\ntext: ok\n---\ntext: ok";
    let test = test.script(write);
    test.run(&["write b.txt", "-c", "--max-turns", "3"]);
    assert!(!test.root().join("b.txt").exists(), "it holds");
    test.agent(&["session", "rewind", "--turn", "2", "--conversation"]).expect_code(0);
    test.run(&["write b.txt", "-c"]).expect_code(0);
    assert_eq!(test.read("b.txt"), "b");
    let asked = test.events_of("model.requested").pop().unwrap();
    let n = asked["seq"].as_u64().unwrap();
    let reminders = test.events_of("reminder");
    let later: Vec<_> = reminders.iter().filter(|it| it["seq"].as_u64() > Some(n - 5)).collect();
    assert!(!format!("{later:?}").contains("a thing"), "the plan is gone too: {later:?}");
}

#[test]
fn session_rm_requires_yes() {
    let test = three_turns();
    let old = latest_id(&test);
    let kept = test.sessions().join(&old).join("operations.jsonl");
    assert!(kept.exists());
    test.agent(&["session", "rm", &old]).expect_code(2).expect_one_line_of_stderr("--yes");
    test.agent(&["session", "rm", "nope", &old, "--yes"]).expect_code(2).expect_stderr("nope");
    assert!(kept.exists() && test.log().exists());
    test.agent(&["session", "rm", &old[..20], &old, "--yes"])
        .expect_code(0)
        .expect_stdout(&format!("removed {}\n", &old[old.len() - 6..]));
    assert!(!kept.exists() && test.try_log().is_none());
}

#[test]
fn session_rm_asks_in_a_terminal() {
    let test = Test::new().script("text: ok");
    test.run(&["the task"]).expect_code(0);
    let id = latest_id(&test);
    let id = &id[id.len() - 6..];
    for no in ["n\n", "\n", "\u{4}"] {
        let done = test.in_terminal(&["session", "rm", id], no).expect_code(1);
        assert!(done.stdout.contains(&format!("delete session {id}")), "{done:?}");
        assert!(test.log().exists());
    }
    // Without an id the sessions are listed for selection.
    let done = test.in_terminal(&["run", "--resume"], "").expect_code(2);
    assert!(done.stdout.contains(id) && done.stdout.contains("the task"), "{done:?}");
    test.in_terminal(&["session", "rm", id], "y\n").expect_code(0);
    assert!(test.try_log().is_none());
}

#[test]
fn session_in_use_cannot_be_deleted_or_rewound() {
    let test = Test::new().script("text: ok");
    test.run(&["idle"]).expect_code(0);
    let idle = latest_id(&test);
    let test = test.script("fault: hang");
    let mut child = test.spawn(&["run", "task", "--model", "script:../script"]);
    wait_for(|| test.log().parent().is_some_and(|folder| !folder.ends_with(&idle)));
    wait_for(|| test.has_event("model.requested"));
    let busy = latest_id(&test);
    let held = format!("in use by process {} since 20", child.id());
    let refused = |args: &[&str]| {
        let done: Done = test.agent(args).expect_code(75);
        done.expect_one_line_of_stderr(&held);
    };
    refused(&["session", "rm", &idle, &busy, "--yes"]);
    refused(&["session", "rewind", "--turn", "1"]);
    refused(&["session", "undo"]);
    refused(&["run", "more", "-c", "--model", "script:../script"]);
    assert_eq!(test.agent(&["session", "list"]).stdout.lines().count(), 2, "none was deleted");
    // Showing and forking do not need exclusive access.
    test.agent(&["session", "show", &busy]).expect_code(0);
    test.agent(&["session", "fork", &busy]).expect_code(0);
    child.kill().unwrap();
    child.wait().unwrap();
    test.agent(&["session", "rm", &busy, "--yes"]).expect_code(0);
}

#[test]
fn resume_without_an_id_explains_usage() {
    let test = Test::new().script("text: ok");
    let done = test.agent(&["run", "--resume"]).expect_code(2);
    done.expect_one_line_of_stderr("--resume needs the id of a session");
    test.run(&["task", "-r"]).expect_code(2).expect_stderr("-c takes the latest");
}
