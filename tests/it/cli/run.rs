//! `agent run`: one task, from the command line to the exit code.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};

use serde_json::{Value, json};

use crate::support::server::{Server, sse_raw};
use crate::support::{Test, events, running, sessions_in, signal, wait_for};

const BROKEN: &str = "answer() { echo 41; }\nanswer\n";

fn repair() -> Test {
    Test::new().file("answer.sh", BROKEN).script(
        r#"call: Read {"path": "answer.sh"}
---
expect: echo 41
call: Edit {"path": "answer.sh", "old_string": "echo 41", "new_string": "echo 42"}
---
expect: Edited
text: answer.sh now prints 42.
"#,
    )
}

#[test]
fn completed_task_is_fully_logged() {
    let test = repair();
    test.run(&["make", "it", "42", "--check", "bash answer.sh | grep -qx 42"])
        .expect_code(0)
        .expect_stdout("answer.sh now prints 42.\n");
    assert_eq!(test.read("answer.sh"), BROKEN.replace("41", "42"));

    let events = test.events();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    let round = ["model.requested", "model.responded", "tool.started", "tool.finished"];
    let after = ["evaluation", "control.decided"];
    let mut expected = vec!["session.started", "turn.started"];
    expected.extend(round.iter().chain(&after));
    expected.extend(["model.requested", "model.responded", "permission.decided"]);
    expected.extend(["tool.started", "tool.finished"].iter().chain(&after));
    expected.extend(["model.requested", "model.responded", "check.finished"]);
    expected.extend(["turn.finished", "session.summary"]);
    assert_eq!(types, expected);
    for (n, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], json!(n + 1));
    }
    let finished = &events[types.iter().position(|t| *t == "turn.finished").unwrap()];
    assert_eq!(finished["ending"], "completed");
    assert_eq!(finished["verified"], true);
    assert_eq!(finished["files_changed"], json!(["answer.sh"]));
}

#[test]
fn verified_is_null_without_checks() {
    let test = repair();
    let done = test.run(&["make it 42", "--output-format", "json"]).expect_code(0);
    let result = &done.lines()[0];
    assert_eq!(result["subtype"], "success");
    assert_eq!(result["terminal_reason"], "completed");
    assert_eq!(result["verified"], serde_json::Value::Null);
    assert_eq!(result["num_turns"], 3);
    assert_eq!(result["result"], "answer.sh now prints 42.");
}

#[test]
fn model_refusal_is_a_final_answer() {
    let task = "Fix it. Run the whole suite with pytest at the end.";
    let done = Test::new().script("text: I cannot.").run(&[task, "--output-format", "json"]);
    let result = &done.expect_code(0).lines()[0];
    assert_eq!(result["result"], "I cannot.");
    assert_eq!(result["verified"], serde_json::Value::Null);
}

#[test]
fn task_text_does_not_cause_answers_to_be_rejected() {
    let script = "call: Bash {\"command\": \"true; echo \\\"exit $?\\\"\"}\n---\ntext: It passes.";
    let test = Test::new().script(script);
    let done = test.run(&["run the tests", "--allow", "Bash"]).expect_code(0);
    done.expect_stdout("It passes.\n");
    assert_eq!(test.events_of("model.requested").len(), 2);
}

#[test]
fn standard_output_holds_only_the_answer() {
    let test = Test::new().script("call: LS {}\n---\ntext: the answer");
    test.run(&["look", "-v"]).expect_code(0).expect_stdout("the answer\n");
    let json = test.run(&["look", "--output-format", "json"]).expect_code(0);
    assert_eq!(json.lines().len(), 1);
}

#[test]
fn stream_json_has_the_documented_format() {
    let test = repair();
    let done = test.run(&["make it 42", "--output-format", "stream-json"]).expect_code(0);
    let lines = done.lines();
    let kinds: Vec<_> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["system", "assistant", "user", "assistant", "user", "assistant", "result"]);
    let session = &lines[0]["session_id"];
    assert!(lines.iter().all(|line| line["session_id"] == *session));
    assert_eq!(lines[0]["subtype"], "init");
    assert_eq!(lines[0]["permissionMode"], "auto-edit");
    // The value depends on the system; `sandbox.rs` tests it.
    assert!(lines[0]["sandbox"]["backend"].is_string());
    let call = &lines[1]["message"]["content"][0];
    assert_eq!(call["type"], "tool_use");
    assert_eq!(call["input"], json!({"path": "answer.sh"}));
    let result = &lines[2]["message"]["content"][0];
    assert_eq!(result["type"], "tool_result");
    assert_eq!(result["tool_use_id"], call["id"]);
    assert!(result["content"].as_str().unwrap().contains("echo 41"));
    assert_eq!(lines[6]["subtype"], "success");
    assert_eq!(lines[6]["permission_denials"], json!([]));
}

#[test]
fn the_events_format_is_the_log() {
    let test = repair();
    let done = test.run(&["make it 42", "--output-format", "events"]).expect_code(0);
    assert_eq!(done.lines(), test.events());
}

#[test]
fn conflict_is_resolved_without_losing_the_other_change() {
    // Before the first Edit, a program that is no operation of the session changes the file.
    let hook = "[[hooks.PreToolUse]]\nmatcher = 'Edit'\ncommand = '''[ -e ../seen ] || { touch ../seen; echo two >> a.txt; }'''\ntimeout = '20s'\n";
    let test = Test::new().user_config(hook).file("a.txt", "one\n").script(
        r#"call: Read {"path": "a.txt"}
---
call: Edit {"path": "a.txt", "old_string": "one", "new_string": "1"}
---
expect: CONFLICT
call: Read {"path": "a.txt"}
---
expect: two
call: Edit {"path": "a.txt", "old_string": "one", "new_string": "1"}
---
expect: Edited
text: done with a.txt
"#,
    );
    let done = test.run(&["rename one"]).expect_code(0);
    // The model corrects the call itself: that is no retry.
    assert!(done.stderr.contains("CONFLICT") && !done.stderr.contains('↻'), "{}", done.stderr);
    assert_eq!(test.read("a.txt"), "1\ntwo\n");
    let failures: Vec<Value> = test.events_of("evaluation");
    assert!(failures.iter().any(|event| event["failure"]["code"] == "CONFLICT"));
    let decisions = test.events_of("control.decided");
    let retry = decisions.iter().find(|event| event["decision"] == "retry").unwrap();
    assert_eq!(retry["detail"], "feedback");
    assert_eq!(retry["after"]["retry_count"], json!({"n": 1, "max": 3}));
}

#[test]
fn failures_of_commands_count_by_program_and_directory() {
    let call = |command: &str, directory: &str| {
        let input = json!({"command": command, "directory": directory});
        format!("call: Bash {input}\n---\n")
    };
    let calls = [
        call("tool_a one", "."),
        call("cd sub && tool_a two", "."),
        call("tool_b", "."),
        call("tool_a one", "sub"),
        call("echo fine", "."),
        call("tool_a three", "."),
    ];
    let test = Test::new().file("sub/x", "").script(&(calls.concat() + "text: done"));
    test.run(&["task", "--allow", "Bash"]);
    let evaluations = test.events_of("evaluation");
    let chains: Vec<&str> =
        evaluations.iter().map(|it| it["failure"]["chain"].as_str().unwrap_or_default()).collect();
    let a = "Bash tool_a";
    assert_eq!(chains, [a, a, "Bash tool_b", "Bash tool_a in sub", "", a]);
    // Failures of one program add up; the success of another one does not end them.
    let decisions = test.events_of("control.decided");
    let decided: Vec<String> = decisions
        .iter()
        .filter(|it| it["decision"] != "continue")
        .map(|it| {
            let n = &it["before"]["retry_count"]["n"];
            format!("{} {} after {n}", it["decision"], it["detail"]).replace('"', "")
        })
        .collect();
    let expected = [
        "retry feedback after 0",
        "replan step after 1",
        "retry feedback after 0",
        "retry feedback after 0",
        "replan task after 1",
    ];
    assert_eq!(decided, expected);
}

#[test]
fn failing_check_is_retried_replanned_and_fails_the_task() {
    let test = Test::new().file("a.txt", "x\n").script("times: any\ntext: done");
    let done = test.run(&["task", "--check", "grep y a.txt", "--output-format", "json"]);
    let result = &done.expect_code(1).lines()[0];
    assert_eq!(result["terminal_reason"], "check_failed");
    assert_eq!(result["verified"], false);
    assert_eq!(result["checks"][0]["passed"], false);
    let decisions: Vec<String> = test
        .events_of("control.decided")
        .iter()
        .map(|event| format!("{} {}", event["decision"], event["detail"]).replace('"', ""))
        .collect();
    let plan = ["retry feedback", "retry feedback", "replan step"];
    assert_eq!(decisions, [&plan[..], &["replan task"], &plan[..]].concat());
    assert_eq!(test.events_of("check.finished").len(), 8);
    let report = &test.events_of("turn.finished")[0]["report"];
    assert_eq!(report["attempts"][0]["what"], "check `grep y a.txt`");
    assert_eq!(report["attempts"][0]["times"], 8);
    test.run(&["task", "--check", "grep y a.txt"])
        .expect_stderr("  ↻ the check `grep y a.txt` exited 1: sent back to the model (1 of 2)\n");
}

#[test]
fn check_that_passes_after_feedback_completes_the_task() {
    let test = Test::new().script(
        "text: done\n---\ncall: Write {\"path\": \"y\", \"content\": \"y\\n\"}\n---\ntext: now y is there",
    );
    let done = test.run(&["task", "--check", "test -f y"]);
    done.expect_code(0).expect_stdout("now y is there\n");
}

#[test]
fn open_todos_are_reported_and_do_not_reject_the_answer() {
    let todos = json!([{"content": "a thing", "status": "in_progress"}]);
    let plan = format!("call: TodoWrite {}", json!({"summary": "s", "todos": todos}));
    let test = Test::new().script(&format!("{plan}\n---\ntext: done"));
    let done = test.run(&["task", "--output-format", "json"]).expect_code(0);
    let result = &done.lines()[0];
    assert_eq!(result["result"], "done");
    assert_eq!(result["open_todos"], json!(["a thing"]));
    assert_eq!(result["verified"], serde_json::Value::Null);
}

#[test]
fn final_answer_must_match_the_json_schema() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    let test = Test::new().file("schema.json", schema);
    let test = test.script("text: it is 3\n---\ntext: {\"n\": \"3\"}\n---\ntext: {\"n\": 3}");
    let args = ["count", "--json-schema", "schema.json", "--output-format", "json"];
    let done = test.run(&args).expect_code(0);
    assert_eq!(done.lines()[0]["structured_output"], json!({"n": 3}));
    assert_eq!(test.events_of("feedback").len(), 2);
    let test = test.script("text: 1\n---\ntext: 2\n---\ntext: 3");
    test.run(&args).expect_code(1);
    let test = test.script("text: 1").file("schema.json", "{\"type\": 5}");
    test.run(&args).expect_code(2).expect_one_line_of_stderr("--json-schema");
}

#[test]
fn open_todos_do_not_affect_verification() {
    let todos = json!({"summary": "s", "todos": [{"content": "a thing", "status": "pending"}]});
    let script = format!("call: TodoWrite {todos}\n---\ntimes: any\ntext: done");
    let test = Test::new().script(&script);
    test.run(&["task", "--check", "false"]).expect_code(1);
    let test = test.script(&script);
    let done = test.run(&["task", "--check", "true", "--output-format", "json"]).expect_code(0);
    assert_eq!(done.lines()[0]["verified"], true);
}

#[test]
fn failure_report_describes_the_failed_check() {
    let test = Test::new().script("times: any\ntext: done");
    test.run(&["task", "--check", "echo 7 >&2; exit 3"]).expect_code(1);
    let attempts = &test.events_of("turn.finished")[0]["report"]["attempts"];
    assert_eq!(attempts.as_array().unwrap().len(), 1);
    assert_eq!(attempts[0]["failure"], "the check `echo 7 >&2; exit 3` exited 3");
}

#[test]
fn retry_limits_apply_to_rejected_answers() {
    let answers = |retries: &str, repairs: &str, replans: &str| {
        let test = Test::new().script("times: any\ntext: done");
        let limits = [
            format!("recovery.max_answer_retries={retries}"),
            format!("recovery.max_single_step_repairs={repairs}"),
            format!("recovery.max_task_replanning_attempts={replans}"),
        ];
        let set = limits.iter().flat_map(|limit| ["--set", limit]);
        let args: Vec<&str> = ["task", "--check", "false"].into_iter().chain(set).collect();
        test.run(&args).expect_code(1);
        test.events_of("check.finished").len()
    };
    assert_eq!([answers("0", "0", "0"), answers("1", "0", "0")], [1, 2]);
    assert_eq!([answers("0", "1", "0"), answers("1", "0", "1")], [2, 4]);
}

#[test]
fn failed_check_stays_failed_after_empty_answers() {
    let test = Test::new().script(&format!("text: done\n---\n{}", "fault: empty\n---\n".repeat(5)));
    let args = ["task", "--check", "false", "--output-format", "json"];
    let done = test.run(&args).expect_code(1);
    assert_eq!(done.lines()[0]["terminal_reason"], "check_failed");
}

#[test]
fn empty_answers_do_not_consume_check_retries() {
    let script = "fault: empty\n---\ncall: LS {}\n---\nfault: empty\n---\ncall: LS {\"limit\": 9}\n---\n\
        text: done\n---\ncall: Write {\"path\": \"y\", \"content\": \"y\"}\n---\ntext: now it is";
    let test = Test::new().script(script);
    test.run(&["task", "--check", "test -f y"]).expect_code(0);
}

#[test]
fn only_checks_determine_verified() {
    let verified = |command: &str, checks: &[&str]| {
        let call = format!("call: Bash {}\n---\ntext: done", json!({"command": command}));
        let test = Test::new().script(&call);
        let mut args = vec!["task", "--allow", "Bash", "--output-format", "json"];
        args.extend(checks);
        test.run(&args).expect_code(0).lines()[0]["verified"].clone()
    };
    assert_eq!(verified("test -d .", &[]), serde_json::Value::Null);
    assert_eq!(verified("false", &[]), serde_json::Value::Null);
    assert_eq!(verified("false", &["--check", "true"]), true);
}

#[test]
fn path_outside_the_project_is_not_a_permission_denial() {
    let test = Test::new()
        .script("call: Write {\"path\": \"../x\", \"content\": \"x\"}\n---\ntext: it is outside");
    test.run(&["task"]).expect_code(0);
}

#[test]
fn interrupted_check_has_no_verdict() {
    let test = Test::new().script("text: done");
    let check = "touch begun; sleep 300";
    let args = ["run", "task", "--check", check, "--model", "script:../script"];
    let mut child = test.spawn(&args);
    wait_for(|| test.root().join("begun").exists());
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(test.events_of("feedback").is_empty() && test.events_of("evaluation").is_empty());
}

#[test]
fn answer_that_stays_cut_off_is_incomplete() {
    let cut = "text: part \nfault: length\n---\n";
    let test = Test::new().script(&cut.repeat(5));
    let done = test.run(&["task"]).expect_code(1).expect_stdout("");
    assert!(done.stderr.contains("✗ incomplete answer · no tool was called"), "{}", done.stderr);
    assert!(done.stderr.contains("Last model output: part part part part\n"), "{}", done.stderr);
    for format in ["json", "stream-json"] {
        let done = test.run(&["task", "--output-format", format]).expect_code(1);
        let result = done.lines().pop().unwrap();
        assert_eq!(result["terminal_reason"], "incomplete_answer");
        assert_eq!(result["stop_reason"], "max_tokens");
        assert_eq!(result["subtype"], "error_during_execution");
        assert_eq!((&result["is_error"], &result["verified"]), (&json!(true), &json!(null)));
        assert!(
            result["errors"][0]
                .as_str()
                .unwrap()
                .contains("3 continuations: this program asked for at most 32,000 tokens ("),
            "{result}"
        );
    }
    // No check makes it complete.
    test.run(&["task", "--check", "true"]).expect_code(1);
    assert!(!test.has_event("check.finished"));
    let test = Test::new().script(&format!("{cut}{}", "fault: empty\n---\n".repeat(4)));
    test.run(&["task"]).expect_code(1);
    let test = Test::new().script(&"reasoning: hm\nfault: length\n---\n".repeat(4));
    test.run(&["task"]).expect_code(1).expect_stderr("cut the answer off before its text");
}

#[test]
fn continuation_is_joined_where_the_answer_stopped() {
    let read = "First, the parser reads the header of the fi";
    let whole = "First, the parser reads the header of the file.";
    let anew = format!("{read}\nFirst, the parser ends.");
    let zeros = format!("Zeros: {}1", "0, ".repeat(14));
    for (first, second, joined) in [
        ("It is comp", "lete now.", "It is complete now."),
        (read, "reads the header of the file.", whole),
        (read, whole, whole),
        (read, "First, the parser", read),
        (read, "First, the parser ends.", anew.as_str()),
        ("Call `get", "User()`.", "Call `getUser()`."),
        ("{\"a\": \"x", "Y\"}", "{\"a\": \"xY\"}"),
        ("Zeros: 0, 0, 0, 0, 0, 0, 0,", " 0, 0, 0, 0, 0, 0, 0, 1", zeros.as_str()),
    ] {
        let answers = [(first, "length"), (second, "stop")].map(|(text, reason)| {
            let choice = json!({"delta": {"content": text}, "finish_reason": reason});
            sse_raw(&[&json!({"choices": [choice]}).to_string(), "[DONE]"])
        });
        let server = Server::playing(answers);
        let test = Test::new().env("OPENAI_API_KEY", "k");
        let args = ["run", "x", "--model", "openai/m", "--base-url", &server.url(), "--no-memory"];
        test.agent(&args).expect_code(0).expect_stdout(&format!("{joined}\n"));
    }
}

#[test]
fn last_line_says_what_was_done() {
    let test = Test::new().script("text: All done!");
    test.run(&["repair it"])
        .expect_code(0)
        .expect_stderr("✓ completed · no tool was called, no file changed · 1 model answer, ");
    let done = test.run(&["repair it", "--output-format", "json"]).expect_code(0);
    let result = &done.lines()[0];
    assert_eq!((&result["calls"], &result["files_changed"]), (&json!(0), &json!([])));
    let test = repair();
    test.run(&["make it 42", "--check", "true"]).expect_code(0).expect_stderr(
        "✓ completed · checks passed, 2 tool calls, 1 file changed · 3 model answers, ",
    );
    assert_eq!(test.events_of("turn.finished")[0]["calls"], 2);
}

#[test]
fn secret_with_slashes_is_masked_in_output_and_answer_file() {
    let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1";
    let test = Test::new()
        .env("AWS_SECRET_ACCESS_KEY", secret)
        .script(&format!("text: the key is {secret}"));
    let done = test.run(&["task", "-o", "answer.txt"]).expect_code(0);
    done.expect_stdout("the key is [redacted:AWS_SECRET_ACCESS_KEY]\n");
    assert_eq!(test.read("answer.txt"), "the key is [redacted:AWS_SECRET_ACCESS_KEY]");
    test.run(&["task", "-o", "no/where.txt"]).expect_code(2).expect_stderr("no/where.txt");
}

#[test]
fn redact_extra_masks_only_its_matches() {
    let test = Test::new()
        .user_config("[record]\nredact_extra = [\"password=.*\"]\n")
        .file(".agent/config.toml", "[record]\nredact_extra = []\n")
        .script("text: password=hunter2\ntext: and the rest");
    test.run(&["task"]).expect_code(0).expect_stdout("[redacted:extra]\nand the rest\n");
    assert_eq!(test.events_of("turn.finished")[0]["result"], "[redacted:extra]\nand the rest");
}

#[test]
fn redact_extra_matching_json_syntax_leaks_no_secret() {
    let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY1";
    let test = Test::new()
        .env("AWS_SECRET_ACCESS_KEY", secret)
        .user_config("[record]\nredact_extra = [\"success\"]\n")
        .file("a.txt", secret)
        .script("call: Bash {\"command\": \"cat a.txt a.txt; true\"}\n---\nexpect: redacted:AWS\ntext: ok");
    test.run(&["task", "--yolo"]).expect_code(0);
    let log = std::fs::read_to_string(test.log()).unwrap();
    assert!(!log.contains(secret));
}

#[test]
fn untrusted_project_cannot_set_model_or_mode() {
    let test = Test::new()
        .script("text: evil")
        .file(".agent/config.toml", "model = \"script:../script\"\n[permissions]\nmode = \"ask\"\n")
        .user_config("[permissions]\nmode = \"read-only\"\n");
    let done = test.agent(&["config", "show"]).expect_code(0);
    assert!(done.stderr.contains("ignored model, permissions.mode"), "{}", done.stderr);
    assert!(done.stdout.contains("model = \"auto\""), "{}", done.stdout);
    assert!(done.stdout.contains("permissions.mode = \"read-only\""), "{}", done.stdout);
}

#[test]
fn piped_input_is_appended_to_the_task() {
    let input = |test: &Test| test.events_of("turn.started")[0]["input"].clone();
    let test = Test::new().script("text: ok").stdin("the log\n");
    test.run(&["explain"]).expect_code(0);
    assert_eq!(input(&test), "explain\n\n<stdin>\nthe log\n</stdin>");

    let test = Test::new().script("text: ok").stdin("the task\n");
    test.run(&["-"]).expect_code(0);
    assert_eq!(input(&test), "the task");
    let test = Test::new().script("text: ok").stdin("the task\n");
    test.run(&[]).expect_code(0);
    assert_eq!(input(&test), "the task");
}

#[test]
fn dash_p_is_an_alias_of_run() {
    let test = Test::new().script("text: ok");
    test.agent(&["-p", "task", "--model", "script:../script"]).expect_code(0).expect_stdout("ok\n");
}

#[test]
fn limits_end_the_turn_with_124() {
    let endless = "call: LS {}\n---\ncall: Glob {\"pattern\": \"*\"}\n---\ncall: LS {\"limit\": 5}";
    let test = Test::new().script(endless);
    let done = test.run(&["task", "--max-turns", "2", "--output-format", "json"]).expect_code(124);
    assert_eq!(done.lines()[0]["subtype"], "error_max_turns");
    assert_eq!(done.lines()[0]["num_turns"], 2);

    let costly = "usage: 1000000 0\ncall: LS {}\n---\ntext: never asked";
    let test = Test::new().script(costly);
    let args = ["task", "--max-budget-usd", "0.5", "--output-format", "json"];
    test.run(&args).expect_code(0).expect_stderr("price_in");
    let id = "models.\"script:../script\"";
    let price_in = format!("{id}.price_in=1.0");
    let price_out = format!("{id}.price_out=1.0");
    let mut priced = args.to_vec();
    priced.extend(["--set", &price_in, "--set", &price_out]);
    let done = test.run(&priced).expect_code(124);
    assert_eq!(done.lines()[0]["subtype"], "error_max_budget_usd");
    assert_eq!(done.lines()[0]["total_cost_usd"], 1.0);
}

#[test]
#[ignore = "slow"]
fn time_out_ends_the_turn_with_124_and_says_that_no_data_arrived() {
    let test = Test::new().script("fault: hang");
    let args = ["task", "--timeout", "5s", "--output-format", "json"];
    let done = test.run(&args).expect_code(124);
    assert_eq!(done.lines()[0]["subtype"], "error_timeout");
    let errors = done.lines()[0]["errors"].to_string();
    assert!(errors.contains("no data of the model for "), "{errors}");
}

#[test]
fn denied_command_exits_with_77() {
    let test =
        Test::new().script("call: Bash {\"command\": \"make\"}\n---\ntext: I could not build.");
    let done = test
        .run(&["build", "--output-format", "json", "--set", "sandbox.enabled=false"])
        .expect_code(77);
    let result = &done.lines()[0];
    assert_eq!(result["terminal_reason"], "permission_denied");
    assert_eq!(result["permission_denials"][0]["tool_input"]["command"], "make");
    let finished = &test.events_of("tool.finished")[0];
    assert_eq!(finished["envelope"]["error"]["code"], "APPROVAL_REQUIRED");
}

#[test]
fn turn_whose_calls_were_all_denied_exits_with_77() {
    let read = "call: Read {\"path\": \"secret.txt\"}";
    let test = Test::new().file("secret.txt", "one\n");
    let run = |script: &str, args: &[&str]| {
        std::fs::write(test.root().join("../script"), script).unwrap();
        test.run(
            &[&["task", "--deny", "Read(secret.txt)", "--output-format", "json"], args].concat(),
        )
    };
    let denied = format!("{read}\n---\n{read}\n---\ntext: I may not.");
    let result = run(&denied, &[]).expect_code(77).lines().pop().unwrap();
    assert_eq!(result["terminal_reason"], "permission_denied");
    assert_eq!(result["permission_denials"].as_array().unwrap().len(), 2);
    assert_eq!(result["calls"], 2);
    // The user's own words forbid it: no permission is missing.
    let write = "call: Write {\"path\": \"src/a\", \"content\": \"x\"}\n---\ntext: I may not.";
    std::fs::write(test.root().join("../script"), write).unwrap();
    test.run(&["Make it work. Don't touch src/."]).expect_code(0);
    // Something else was done, or a check says that nothing was missing.
    run(&format!("{read}\ncall: LS {{}}\n---\ntext: only one"), &[]).expect_code(0);
    run(&denied, &["--check", "true"]).expect_code(0);
    // A plan changes nothing.
    let write = "call: Write {\"path\": \"a\", \"content\": \"x\"}\n---\ntext: the plan";
    run(write, &["--permission-mode", "plan"]).expect_code(0);
}

#[test]
fn an_interrupt_ends_the_turn_cleanly() {
    // PIDs inside the sandbox differ; the number in the command line can be seen from outside.
    let id = format!("321.{}9", std::process::id());
    let script = format!(
        "call: Bash {{\"command\": \"sleep {id} & touch started; sleep 322\"}}\n\
         call: Write {{\"path\": \"never\", \"content\": \"x\"}}\n---\ntext: never"
    );
    let test = Test::new().script(&script);
    let mut command =
        test.command(&["run", "task", "--allow", "Bash", "--model", "script:../script"]);
    let mut child = command.spawn().unwrap();
    wait_for(|| test.root().join("started").exists());
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_for(|| running(&id).is_empty());
    assert!(!test.root().join("never").exists(), "nothing starts after an interrupt");
    let events = test.events();
    let answered = events.iter().filter(|event| event["type"] == "tool.finished").count();
    assert_eq!(answered, 2, "everything that was asked for is answered");
    let finished = test.events_of("turn.finished");
    assert_eq!(finished[0]["ending"], "interrupted");
}

#[test]
fn second_interrupt_exits_immediately() {
    let test = Test::new().script("fault: hang");
    let mut child = test.spawn(&["run", "task", "--model", "script:../script"]);
    wait_for(|| test.has_event("model.requested"));
    signal(child.id(), "INT");
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn sigterm_exits_with_143() {
    let test = Test::new().script("fault: hang");
    let mut child = test.spawn(&["run", "task", "--model", "script:../script"]);
    wait_for(|| test.has_event("model.requested"));
    signal(child.id(), "TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "terminated");
}

#[test]
fn json_lines_are_flushed_one_by_one() {
    let test = Test::new().script("call: LS {}\n---\nfault: hang");
    let mut command = test.command(&[
        "run",
        "task",
        "--model",
        "script:../script",
        "--output-format",
        "stream-json",
    ]);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut seen = String::new();
    // The process hangs in its second answer; the lines of the first must arrive nevertheless.
    while seen.lines().count() < 3 || !seen.ends_with('\n') {
        let mut some = [0; 4096];
        let n = stdout.read(&mut some).unwrap();
        assert_ne!(n, 0, "{seen}");
        seen.push_str(std::str::from_utf8(&some[..n]).unwrap());
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn secrets_are_masked_everywhere() {
    let key = "sk-proj-abcdefghijklmnopqrstuvwx0123456789";
    let script = "call: Bash {\"command\": \"cat config; echo \\\"got $MY_TOKEN.\\\"\"}\n---\n\
        text: the key is {{last.text}}";
    let test = Test::new()
        .file("config", format!("key = {key}\nown = tok-9f8e7d6c5b4a\n"))
        .env("MY_TOKEN", "tok-9f8e7d6c5b4a")
        .script(script);
    let done = test.run(&["task", "--allow", "Bash", "--output-format", "stream-json"]);
    let done = done.expect_code(0);
    let log = std::fs::read_to_string(test.log()).unwrap();
    for text in [&done.stdout, &done.stderr, &log] {
        assert!(!text.contains(key) && !text.contains("9f8e7d6c5b4a"), "{text}");
    }
    assert!(log.contains("[redacted:api-key]") && log.contains("[redacted:MY_TOKEN]"));
    assert!(log.contains("got ."), "a command does not see the variable");
}

#[test]
fn secret_in_a_protected_path_is_masked_and_the_rule_applies() {
    let token = "tok-9f8e7d6c5b4a";
    let path = format!("out/{token}.log");
    let test = Test::new().env("MY_TOKEN", token).file(&path, "y\n").script(&format!(
        "call: Write {{\"path\": \"{path}\", \"content\": \"x\"}}\n---\ntext: ok"
    ));
    let task = format!("Don't change `{path}`. Then look around.");
    let done = test.run(&[&task, "--output-format", "stream-json"]);
    let log = std::fs::read_to_string(test.log()).unwrap();
    for text in [&done.stdout, &done.stderr, &log] {
        assert!(!text.contains("9f8e7d6c5b4a"), "{text}");
    }
    let rules = test.events_of("rule.added");
    assert_eq!(rules[0]["rule"]["rule"], "deny Edit(./out/*.log)", "{rules:?}");
    assert_eq!(std::fs::read_to_string(test.root().join(&path)).unwrap(), "y\n");
}

#[test]
fn project_rules_are_in_the_prompt() {
    let test = Test::new()
        .file("code_law.md", "Always say please.\n")
        .file("AGENTS.md", "Use tabs.\n")
        .file("CLAUDE.md", "Never read this.\n")
        .script("text: ok");
    test.run(&["task"]).expect_code(0);
    let requested = &test.events_of("model.requested")[0];
    let l2 = requested["layers"]["l2"]["hash"].as_str().unwrap();
    let text = requested["texts"][l2].as_str().unwrap();
    assert!(text.contains("Always say please.") && text.contains("Use tabs."), "{text}");
    assert!(!text.contains("Never read this."));
}

#[test]
fn rules_for_claude_code_are_in_the_prompt_where_there_are_no_others() {
    let test = Test::new().script("text: ok");
    let write = |path: PathBuf, text: &str| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let l2 = || {
        test.run(&["task"]).expect_code(0);
        let requested = test.events_of("model.requested").pop().unwrap();
        let l2 = requested["layers"]["l2"]["hash"].as_str().unwrap();
        requested["texts"][l2].as_str().unwrap().to_owned()
    };
    let (home, root) = (test.home(), test.root());
    write(home.join(".claude/CLAUDE.md"), "Answer in verse.\n");
    write(root.join(".claude/CLAUDE.md"), "Use tabs.\n");
    let text = l2();
    assert!(text.contains("Answer in verse.") && text.contains("(.claude/CLAUDE.md)"), "{text}");
    assert!(text.contains("Use tabs."), "{text}");
    write(home.join(".config/agent/AGENTS.md"), "Answer in prose.\n");
    write(root.join("CLAUDE.md"), "Use spaces.\n");
    let text = l2();
    assert!(text.contains("Answer in prose.") && text.contains("Use spaces."), "{text}");
    assert!(!text.contains("Answer in verse.") && !text.contains("Use tabs."), "{text}");
}

#[test]
fn settings_around_the_project_are_not_used_which_is_said() {
    let test = Test::new()
        .file(".git/HEAD", "ref: refs/heads/main\n")
        .file(".agent/config.toml", "permissions.deny = [\"Read(secret)\"]\n")
        .file("web/a.txt", "one\n")
        .script("text: ok");
    let notice = ".agent/config.toml is not used: it applies only to sessions in its directory";
    test.run(&["task", "-C", "web"]).expect_code(0).expect_stderr(notice);
    let top = test.run(&["task"]);
    assert!(!top.stderr.contains("is not used"), "{}", top.stderr);
}

#[test]
fn rules_from_the_top_of_the_repository_down_are_in_the_prompt() {
    let test = Test::new()
        .file("AGENTS.md", "Use tabs.\n")
        .file("packages/CLAUDE.md", "Name the package.\n")
        .file("packages/web/AGENTS.md", "Use React.\n")
        .file("packages/api/AGENTS.md", "Use Rust.\n")
        .file("../AGENTS.md", "Not of the repository.\n")
        .script("text: ok");
    let l2 = |requested: &Value| {
        let hash = requested["layers"]["l2"]["hash"].as_str().unwrap();
        requested["texts"][hash].as_str().unwrap().to_owned()
    };
    let run = |id: &str| {
        test.run(&["task", "-C", "packages/web", "--session-id", id]).expect_code(0);
        let state = test.home().join(".local/state/agent");
        let sessions = sessions_in(&state, &test.root().join("packages/web"));
        let events = events(&sessions.join(id).join("events.jsonl"));
        l2(events.iter().find(|event| event["type"] == "model.requested").unwrap())
    };
    let outside = run("0190a000-0000-7000-8000-000000000001");
    assert!(outside.contains("Use React.") && !outside.contains("Use tabs."), "{outside}");
    std::fs::create_dir(test.root().join(".git")).unwrap();
    let text = run("0190a000-0000-7000-8000-000000000002");
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(
        at("Use tabs.") < at("Name the package.") && at("Name the package.") < at("Use React.")
    );
    assert!(text.contains("../../AGENTS.md") && !text.contains("Use Rust."), "{text}");
    assert!(!text.contains("Not of the repository."), "{text}");
}

/// The same lines as in a terminal, without control sequences.
#[test]
fn progress_is_on_standard_error_also_without_a_terminal() {
    let script = "text: I look\ncall: Read {\"path\": \"a.txt\"}\ncall: LS {\"path\": \"no\"}\n---\n\
        text: the answer";
    let test = Test::new().file("a.txt", "one\n").script(script);
    let done = test.run(&["look"]).expect_code(0).expect_stdout("the answer\n");
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines[..2], ["I look", "  Read a.txt 1–1"]);
    assert!(lines[2].starts_with("  ✗ LS no failed: NOT_FOUND"), "{lines:?}");
    let end = "✓ completed · 2 tool calls · 2 model answers";
    assert!(lines.last().unwrap().starts_with(end), "{lines:?}");
    assert!(!done.stderr.contains('\x1b'));
    let in_terminal = test.in_terminal(&["run", "look", "--model", "script:../script"], "");
    for line in &lines[..2] {
        assert!(in_terminal.stdout.contains(line), "{in_terminal:?}");
    }
    let quiet = test.run(&["look", "--quiet"]).expect_code(0).expect_stdout("the answer\n");
    assert_eq!(quiet.stderr, "");
}

/// A command that runs for some seconds is announced while it runs, whether or not it writes anything.
#[test]
fn long_commands_are_announced_while_they_run() {
    let silent = "until [ -e go ]; do sleep 0.1; done";
    let noisy = "until [ -e gone ]; do echo tick; sleep 0.1; done";
    for (command, end) in [(silent, "go"), (noisy, "gone")] {
        let test = Test::new()
            .script(&format!("call: Bash {{\"command\": \"{command}\"}}\n---\ntext: ok"));
        let args = ["run", "x", "--yolo", "--model", "script:../script"];
        let mut command_line = test.command(&args);
        let mut child = command_line.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let expected = format!("  Bash {command}");
        assert_eq!(lines.next().unwrap().unwrap(), format!("{expected} · running"));
        test.write(end, "");
        assert_eq!(lines.next().unwrap().unwrap(), format!("{expected} · exit 0"));
        child.wait().unwrap();
    }
}

#[test]
fn failed_run_names_no_cost_and_the_missing_key() {
    let refusal = serde_json::json!({"error": {"message": "pay", "code": "insufficient_quota"}});
    let server = crate::support::server::Server::with(move |_, _| {
        crate::support::server::json(429, &refusal)
    });
    let config = format!(
        "model = \"mine/m\"\n[providers.mine]\nbase_url = \"{}\"\napi_key_env = \"MINE_KEY\"\n",
        server.url()
    );
    let done = Test::new().user_config(&config).agent(&["run", "x"]);
    let done = done.expect_stderr(
        "the quota is used up (429); no key was sent: set environment variable MINE_KEY; \"pay\"",
    );
    assert!(!done.stderr.contains('$'), "{}", done.stderr);
}

/// Starts a run whose standard input is a pipe.
fn spawn_with_pipe(test: &Test, args: &[&str]) -> (Child, ChildStdin) {
    let mut command = test.command(&[&["run", "--model", "script:../script"], args].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let input = child.stdin.take().unwrap();
    (child, input)
}

#[test]
fn silent_standard_input_does_not_delay_a_run_forever() {
    let test = Test::new().script("text: ok");
    let (child, input) = spawn_with_pipe(&test, &["--timeout", "20s", "the task"]);
    let done = child.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && stderr.contains("the task begins without it"), "{stderr}");
    assert!(stderr.contains("standard input did not end, so it was not used"), "{stderr}");
    drop(input);
    // A short limit leaves half of it for the task.
    let (child, _input) = spawn_with_pipe(&test, &["--timeout", "2s", "the task"]);
    assert!(child.wait_with_output().unwrap().status.success());
}

#[test]
fn standard_input_that_ends_later_is_a_message() {
    let script = "call: Bash {\"command\":\"touch begun; until [ -e go ]; do sleep 0.02; done\"}\n---\n\
                  text: ok";
    let test = Test::new().script(script);
    let (child, mut input) = spawn_with_pipe(&test, &["--timeout", "60s", "why?"]);
    wait_for(|| test.root().join("begun").exists());
    input.write_all(b"3 tests failed\n").unwrap();
    drop(input);
    // The message is delivered before the next request: it has arrived when the pipe is read.
    std::thread::sleep(std::time::Duration::from_millis(200));
    test.write("go", "");
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let steered = test.events_of("turn.steered");
    assert!(steered[0].to_string().contains("3 tests failed"), "{steered:?}");
}

#[test]
fn large_project_does_not_delay_the_end() {
    let test = Test::new().script("text: ok");
    for n in 0..400 {
        let file = std::fs::File::create(test.root().join(format!("f{n}"))).unwrap();
        file.set_len(9_000_000).unwrap();
    }
    let mut command = test.command(&["run", "--model", "script:../script", "task"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ok\n");
    assert!(child.wait().unwrap().success());
    // The scan of 3.6 GB was abandoned: there is no manifest.
    let projects = test.home().join(".local/state/agent/projects");
    let project = std::fs::read_dir(projects).unwrap().next().unwrap().unwrap().path();
    assert!(!project.join("checkpoints/manifest.json").exists());
}
