//! Hooks before and after calls.

use serde_json::json;

use super::{answering, asked, code, ends, envelopes, hook, ruling, with};
use crate::mcp::{known, server};
use crate::support::{Pty, Test};

const ECHO: &str = "call: Bash {\"command\":\"echo one\"}\n---\ntext: done";

#[test]
fn exit_status_2_denies_a_call_with_the_reason() {
    let deny = hook("PreToolUse", "Bash", "echo 'not on Fridays' >&2; exit 2");
    let test = with(
        &[deny],
        "call: Bash {\"command\":\"touch x\"}\n---\nexpect: a hook denied this call: not on Fridays\n\
         call: Write {\"path\":\"y\",\"content\":\"\"}\n---\ntext: done",
    );
    test.run(&["go"]).expect_code(0);
    assert_eq!(code(&envelopes(&test)[0]), "COMMAND_BLOCKED");
    assert!(!test.root().join("x").exists() && test.root().join("y").exists());
    let decided = &test.events_of("permission.decided")[0];
    assert_eq!((&decided["ruling"], &decided["rule"]), (&json!("refuse"), &json!("hook")));
    let finished = &test.events_of("hook.finished")[0];
    // A replay does not make it either.
    test.agent(&["trace", "replay"]).expect_code(0);
    assert_eq!(finished["event"], "PreToolUse");
    assert_eq!((&finished["outcome"], &finished["exit_code"]), (&json!("denied"), &json!(2)));
    assert_eq!(
        (&finished["call"], &finished["text"]),
        (&json!("call_1"), &json!("not on Fridays"))
    );
}

#[test]
fn denied_call_is_not_answered_by_another_tool_either() {
    let test = with(
        &[answering("PreToolUse", "Bash", &ruling("deny", "no"))],
        "call: Bash {\"command\":\"cat a\"}\n---\nexpect: a hook denied this call: no\ntext: done",
    );
    test.write("a", "one\n");
    test.run(&["go"]);
    assert_eq!(code(&envelopes(&test)[0]), "COMMAND_BLOCKED");
}

#[test]
fn call_that_a_hook_asks_about_is_not_answered_by_another_tool() {
    let test = with(
        &[answering("PreToolUse", "Bash", &ruling("ask", "look first"))],
        "call: Bash {\"command\":\"cat a\"}\n---\ntext: done",
    );
    test.write("a", "one\n");
    test.run(&["go"]);
    assert_eq!(code(&envelopes(&test)[0]), "APPROVAL_REQUIRED");
}

#[test]
fn hook_about_edits_is_asked_about_all_of_them_and_does_not_allow_its_own_change() {
    let edits = "{\"path\":\"a\",\"edits\":[{\"old_string\":\"one\",\"new_string\":\"two\"}]}";
    let script =
        format!("call: Read {{\"path\":\"a\"}}\n---\ncall: MultiEdit {edits}\n---\ntext: done");
    let test = with(&[hook("PreToolUse", "Edit|Write", "exit 2")], &script);
    test.write("a", "one\n");
    test.run(&["go"]);
    assert_eq!(code(&envelopes(&test)[1]), "ACCESS_DENIED");
    let allow = answering("PreToolUse", "", &ruling("allow", "anything"));
    let write = "call: Write {\"path\":\".claude/hooks/a.sh\",\"content\":\"x\"}\n---\ntext: done";
    let test = with(&[allow], write);
    test.run(&["go"]);
    assert_eq!(code(&envelopes(&test)[0]), "APPROVAL_REQUIRED");
}

#[test]
fn call_without_a_matching_hook_is_not_asked_about() {
    let deny = |matcher| hook("PreToolUse", matcher, "exit 2");
    let test =
        with(&[deny("Edit|Write"), deny("^Bash.+"), deny("mcp__.*__write"), deny("bash")], ECHO);
    test.run(&["go"]).expect_code(0);
    assert_eq!(code(&envelopes(&test)[0]), "");
    assert!(test.events_of("hook.finished").is_empty());
}

#[test]
fn hook_allows_what_would_be_asked_but_not_what_rules_refuse_or_ask() {
    let allow = answering("PreToolUse", "", &ruling("allow", "it is a test"));
    let write = "call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: done";
    let test = with(&[allow], write);
    let run = |args: &[&str]| {
        test.run(&[&["--permission-mode", "ask"], args, &["go"]].concat());
        code(envelopes(&test).last().unwrap()).to_owned()
    };
    assert_eq!(run(&["--deny", "Write"]), "ACCESS_DENIED");
    assert_eq!(run(&["--set", "permissions.ask=[\"Write\"]"]), "APPROVAL_REQUIRED");
    assert!(!test.root().join("a").exists());
    assert_eq!(run(&[]), "");
    assert_eq!(test.read("a"), "x");
    let decided = test.events_of("permission.decided");
    assert_eq!(decided.last().unwrap()["reason"], "a hook allows this: it is a test");
    test.run(&["--permission-mode", "read-only", "go"]);
    assert_eq!(code(envelopes(&test).last().unwrap()), "ACCESS_DENIED");
}

#[test]
fn hook_has_the_user_asked() {
    let ask = answering("PreToolUse", "Bash", &ruling("ask", "look at it"));
    let test = with(std::slice::from_ref(&ask), ECHO);
    test.run(&["go"]);
    let envelope = &envelopes(&test)[0];
    assert_eq!(code(envelope), "APPROVAL_REQUIRED");
    assert_eq!(envelope["error"]["message"], "a hook asks before this: look at it");
    // In the chat the question is shown, and a notification is a hook, too.
    let log = "cat >> \"$AGENT_PROJECT_DIR\"/../log";
    let test = with(&[ask, hook("Notification", "permission_prompt", log)], ECHO);
    let mut chat = Pty::chat(&test, &[]);
    chat.wait_for("› ");
    chat.say("go");
    chat.wait_until_it_accepts_keys("look at it");
    chat.send("y");
    chat.wait_for("done");
    chat.leave();
    assert_eq!(code(&envelopes(&test)[0]), "");
    let asked = asked(&test.root().join("../log"));
    assert_eq!(asked[0]["notification_type"], "permission_prompt");
    assert_eq!(asked[0]["message"], "agent needs your permission to use Bash");
}

#[test]
fn strictest_of_several_hooks_decides() {
    let rulings = [("allow", "a"), ("deny", "d"), ("ask", "q")];
    let hooks = rulings
        .map(|(decision, reason)| answering("PreToolUse", "Bash", &ruling(decision, reason)));
    let test = with(&hooks, ECHO);
    test.run(&["go"]);
    assert_eq!(envelopes(&test)[0]["error"]["message"], "a hook denied this call: d");
    let mut ends = ends(&test);
    ends.sort();
    assert_eq!(ends, ["allowed", "asked", "denied"]);
}

#[test]
fn matching_hooks_run_at_the_same_time_and_equal_ones_once() {
    // Each waits until the other has begun.
    let waiting = |own: &str, other: &str| {
        let line = format!("touch ../{own}; until [ -e ../{other} ]; do sleep 0.02; done");
        hook("PreToolUse", "Bash", &line)
    };
    let count = hook("PreToolUse", "Bash", "echo >> ../count");
    let test = with(&[waiting("a", "b"), waiting("b", "a"), count.clone(), count], ECHO);
    test.run(&["go"]).expect_code(0);
    assert_eq!(ends(&test), ["passed"; 3]);
    assert_eq!(std::fs::read_to_string(test.root().join("../count")).unwrap(), "\n");
}

fn updating(matcher: &str, input: &serde_json::Value) -> String {
    let answer = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": input,
    }});
    answering("PreToolUse", matcher, &answer)
}

#[test]
fn arguments_that_a_hook_changed_are_used_and_told() {
    let test = with(
        &[updating("Write", &json!({"file_path": "b", "content": "new"}))],
        "call: Write {\"path\":\"a\",\"content\":\"old\"}\n---\n\
         expect: A hook changed the arguments of this call to \\{.*\"path\":\"b\"\ntext: done",
    );
    test.run(&["go"]).expect_code(0);
    assert_eq!(test.read("b"), "new");
    assert!(!test.root().join("a").exists());
    assert_eq!(envelopes(&test)[0]["context"]["params_input"]["path"], "b");
}

/// Whoever approves a call sees what is run, not what the model wrote.
#[test]
fn question_shows_the_call_as_a_hook_changed_it() {
    let changing = |input: &serde_json::Value| json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "updatedInput": input}});
    let hooks = [
        answering("PreToolUse", "Bash", &changing(&json!({"command": "touch HOOKED"}))),
        answering("PreToolUse", "Write", &changing(&json!({"file_path": "b", "content": "new"}))),
    ];
    let test = with(
        &hooks,
        "call: Bash {\"command\":\"ls\"}\n---\n\
         call: Write {\"path\":\"a\",\"content\":\"old\"}\n---\ntext: done",
    );
    let mut chat = Pty::chat(&test, &[]);
    chat.wait_for("/help");
    chat.say("go");
    chat.wait_for_question();
    chat.wait_for("    touch HOOKED\n");
    chat.wait_for("a hook changed this call; the model wrote: ls\n");
    chat.send("y");
    chat.wait_for("Allow Write b?");
    chat.wait_for("a hook changed this call; the model wrote: a");
    chat.wait_for_question();
    chat.send("y");
    chat.wait_for("done");
    for cell in ["✓ Bash touch HOOKED", "✓ Write b"] {
        assert!(chat.all().contains(cell), "{}", chat.all());
    }
    assert!(test.root().join("HOOKED").exists() && test.read("b") == "new");
}

#[test]
fn cell_of_a_call_says_that_a_hook_changed_it() {
    let hooks = [updating("Bash", &json!({"command": "touch HOOKED"}))];
    let test = with(&hooks, "call: Bash {\"command\":\"ls\"}\n---\ntext: done");
    let mut chat = Pty::chat(&test, &[]);
    chat.wait_for("/help");
    chat.say("go");
    chat.wait_for("done");
    let cell = "✓ Bash touch HOOKED\n  a hook changed this call; the model wrote: ls\n";
    assert!(chat.all().contains(cell), "{}", chat.all());
}

#[test]
fn what_a_hook_says_about_a_result_is_shown() {
    let hooks = [hook("PostToolUse", "Bash", "printf 'line 3\\nis long\\n' >&2; exit 2")];
    let test = with(&hooks, "call: Bash {\"command\":\"ls\"}\n---\ntext: done");
    let mut chat = Pty::chat(&test, &[]);
    chat.wait_for("/help");
    chat.say("go");
    chat.wait_for("done");
    assert!(chat.all().contains("· hook, to the model: line 3 is long\n"), "{}", chat.all());
}

#[test]
fn changed_arguments_are_validated_and_judged_anew() {
    let hooks = [
        updating("Write", &json!({"file_path": "secret/b", "content": "x"})),
        updating("Read", &json!({"limit": 3})),
        updating("Bash", &json!({"command": "cat b", "timeout": 5000})),
    ];
    let test = with(
        &hooks,
        "call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ncall: Read {\"path\":\"a\"}\n---\n\
         call: Bash {\"command\":\"echo one\"}\n---\ntext: done",
    );
    test.write("b", "two\n");
    test.run(&["--deny", "Edit(secret/**)", "go"]);
    let envelopes = envelopes(&test);
    assert_eq!(code(&envelopes[0]), "ACCESS_DENIED");
    assert!(!test.root().join("secret/b").exists());
    assert_eq!(code(&envelopes[1]), "INVALID_PARAM");
    assert!(envelopes[2]["data"]["content"].as_str().unwrap().contains("two"), "{}", envelopes[2]);
    assert_eq!(envelopes[2]["context"]["params_input"]["timeout_ms"], 5000);
}

#[test]
fn what_hooks_say_after_a_call_reaches_the_model() {
    let block = json!({"decision": "block", "reason": "format it"});
    let context = |event| json!({"hookSpecificOutput": {"hookEventName": event, "additionalContext": "see DOCS"}});
    let hooks = [
        answering("PostToolUse", "Write", &block),
        hook("PostToolUse", "Write", "echo 'line 3 is long' >&2; exit 2"),
        answering("PostToolUseFailure", "Read", &context("PostToolUseFailure")),
        answering("PreToolUse", "Glob", &context("PreToolUse")),
    ];
    let test = with(
        &hooks,
        "call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\nexpect: (?s)format it.*line 3 is long\n\
         call: Read {\"path\":\"no\"}\n---\nexpect: see DOCS\ncall: Glob {\"pattern\":\"*\"}\n---\n\
         expect: see DOCS\ntext: done",
    );
    test.run(&["go"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(envelopes(&test)[0]["status"], "success");
}

#[test]
fn hook_that_says_not_to_continue_ends_the_turn() {
    let stop = json!({"continue": false, "stopReason": "enough for today"});
    let script = "call: Write {\"path\":\"a\",\"content\":\"x\"}\ncall: Bash {\"command\":\"touch b\"}\n\
         ---\ntext: never";
    for (event, has_run) in [("PostToolUse", true), ("PreToolUse", false)] {
        let test = with(&[answering(event, "Write", &stop)], script);
        let done = test.run(&["go"]).expect_code(77);
        assert!(done.stderr.contains("a hook ended the turn: enough for today"), "{}", done.stderr);
        assert!(!done.stderr.contains("--allow"), "{}", done.stderr);
        assert_eq!(test.root().join("a").exists(), has_run);
        assert!(!test.root().join("b").exists());
        assert_eq!(code(&envelopes(&test)[1]), "CANCELLED");
        assert_eq!(test.events_of("model.requested").len(), 1);
    }
}

#[test]
fn calls_of_sub_agents_are_asked_about() {
    let log = "cat >> \"$AGENT_PROJECT_DIR\"/../log";
    let hooks = [
        hook(
            "PreToolUse",
            "Read",
            "grep -q agent_id && echo 'not for sub-agents' >&2 && exit 2; exit 0",
        ),
        hook("SubagentStop", "explore", log),
        hook("SubagentStop", "plan", "exit 2"),
    ];
    let test = with(
        &hooks,
        "call: Task {\"description\":\"look\",\"prompt\":\"look\",\"subagent_type\":\"explore\"}\n---\n\
         for: agent\ncall: Read {\"path\":\"a\"}\n---\nfor: agent\nexpect: not for sub-agents\n\
         text: I may not.\n---\ncall: Read {\"path\":\"a\"}\n---\ntext: done",
    );
    test.write("a", "one\n");
    test.run(&["go"]).expect_code(0);
    let finished = test.events_of("tool.finished");
    let reads = finished.iter().filter(|event| event["tool"] == "Read");
    let codes: Vec<&str> = reads.map(|event| code(&event["envelope"])).collect();
    assert_eq!(codes, ["ACCESS_DENIED", ""]);
    let asked = asked(&test.root().join("../log"));
    assert_eq!(asked[0]["agent_type"], "explore");
    assert_eq!(asked[0]["last_assistant_message"], "I may not.");
    assert_eq!(asked.len(), 1);
}

#[test]
fn hooks_receive_the_result_of_a_call() {
    let script = "call: Bash {\"command\":\"echo one; echo two >&2\"}\n---\ncall: Bash {\"command\":\"cat a\"}\n---\n\
                  call: Read {\"path\":\"b\"}\n---\ntext: done";
    let test = with(&[hook("PostToolUse", "", "cat >> ../log")], script);
    let test = test.file("a", "3 | x\n\ny\n").file("b", "1\n2\n");
    test.run(&["go"]).expect_code(0);
    let asked = asked(&test.root().join("../log"));
    let [printed, redirected, read] = [0, 1, 2].map(|n| &asked[n]["tool_response"]);
    let texts = ["stdout", "stderr"].map(|name| printed[name].as_str().unwrap().trim());
    assert_eq!(texts, ["one", "two"]);
    assert_eq!(redirected["stdout"], "3 | x\n\ny\n");
    let file = json!({"filePath": test.root().join("b"), "content": "1\n2\n", "numLines": 2,
                      "startLine": 1, "totalLines": 2});
    assert_eq!(read["file"], file);
}

#[test]
fn tool_of_a_server_has_one_name_for_hooks() {
    let change = json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": {"text": "two"},
    }});
    let hooks = [
        answering("PreToolUse", "mcp__t__echo", &change),
        hook("PostToolUse", "mcp__t__.*", "cat >> ../log"),
        server("plain"),
    ];
    let test = with(
        &hooks,
        "call: McpTool {\"tool\":\"t.echo\",\"arguments\":{\"text\":\"one\"}}\n---\nexpect: two\ntext: done",
    );
    test.run(&["go"]).expect_code(0).expect_stdout("done\n");
    let asked = asked(&test.root().join("../log"));
    assert_eq!(asked[0]["tool_name"], "mcp__t__echo");
    assert_eq!(asked[0]["tool_input"], json!({"text": "two"}));
    let answered = asked[0]["tool_response"]["content"].as_str().unwrap();
    assert!(answered.contains("two"), "{answered}");
}

#[test]
fn shortened_name_of_a_server_tool_is_no_way_around_a_hook() {
    let long = format!("mcp__t__{}", "a".repeat(100));
    let test = known(&server("colliding")).script("text: done");
    test.run(&["go"]);
    let tools = test.events_of("session.started")[0]["tools"].clone();
    let mut names = tools.as_array().unwrap().iter().filter_map(|name| name.as_str());
    let short = names.find(|name| name.starts_with("mcp__t__aaa")).unwrap();
    let calls = [
        format!("call: {short} {{\"text\":\"x\"}}"),
        format!("call: McpTool {{\"tool\":\"t.{}\",\"arguments\":{{\"text\":\"x\"}}}}", &long[8..]),
    ];
    for matcher in [long.as_str(), short] {
        let hooks = [hook("PreToolUse", matcher, "exit 2"), server("colliding")];
        let test = known(&hooks.concat()).script(&format!("{}\n---\ntext: done", calls.join("\n")));
        test.run(&["--allow", "mcp", "go"]);
        let envelopes = envelopes(&test);
        let codes: Vec<&str> = envelopes.iter().map(code).collect();
        assert_eq!(codes, ["ACCESS_DENIED"; 2], "{matcher}");
    }
}

#[test]
fn session_without_hooks_has_none_of_it() {
    let test = Test::new().script(ECHO);
    test.run(&["go"]).expect_code(0);
    assert!(test.events_of("hook.finished").is_empty());
}

/// As formatters do.
#[test]
fn what_hooks_and_checks_change_after_an_edit_is_undone_with_it() {
    let format = "printf 'formatted\\n' >> a.txt; echo x >> hook.log";
    let script = "call: Read {\"path\":\"a.txt\"}\n---\n\
                  call: Edit {\"path\":\"a.txt\",\"old_string\":\"one\",\"new_string\":\"two\"}\n---\ntext: done";
    for (hooks, check) in [
        (vec![hook("PostToolUse", "Edit|Write", format)], ""),
        (vec![hook("Stop", "", format)], ""),
        (vec![], format),
    ] {
        let test = with(&hooks, script).file("a.txt", "one\n");
        let check: &[&str] = if check.is_empty() { &[] } else { &["--check", check] };
        test.run(&[&["go", "--yolo"], check].concat()).expect_code(0);
        assert_eq!(test.read("a.txt"), "two\nformatted\n");
        let changed = test.events_of("turn.finished")[0]["files_changed"].clone();
        if check.is_empty() {
            assert_eq!(changed, json!(["a.txt", "hook.log"]));
        }
        test.agent(&["session", "undo"]).expect_code(0);
        assert_eq!(test.read("a.txt"), "one\n");
        assert!(!test.root().join("hook.log").exists());
    }
}

#[test]
fn edit_after_a_formatter_needs_no_new_read() {
    let edit = |old: &str, new: &str| {
        let input = json!({"path": "a.txt", "old_string": old, "new_string": new});
        format!("call: Edit {input}\n---\n")
    };
    let script = format!(
        "call: Read {{\"path\":\"a.txt\"}}\n---\n{}{}expect: had changed since it was read \\(by a hook or check\\)\n\
         text: done",
        edit("one", "two"),
        edit("two", "three")
    );
    let format = hook("PostToolUse", "Edit", "echo formatted >> a.txt");
    let test = with(&[format], &script).file("a.txt", "one\n");
    test.run(&["go"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "three\nformatted\nformatted\n");
}

#[test]
fn log_of_hooks_is_left_by_an_undo_and_refuses_no_rewind() {
    let log = "mkdir -p logs; date +%N | tee -a hook.log >> logs/all";
    let hooks = [
        hook("PostToolUse", "", log),
        hook("UserPromptSubmit", "", log),
        hook("PreToolUse", "", log),
    ];
    let script = "call: Edit {\"path\":\"a.txt\",\"old_string\":\"one\",\"new_string\":\"two\"}\n---\n\
                  call: Read {\"path\":\"a.txt\"}\n---\ntext: done";
    let script = format!("call: Read {{\"path\":\"a.txt\"}}\n---\n{script}");
    let test = with(&hooks, &script).file("a.txt", "one\n").file("hook.log", "begun\n");
    for undo in [&["session", "undo"][..], &["session", "rewind", "--turn", "1"]] {
        test.run(&["go", "--yolo"]).expect_code(0);
        assert_eq!(test.read("a.txt"), "two\n");
        let lines = test.read("hook.log").lines().count();
        let undone = test.agent(undo).expect_code(0);
        let left = "hook.log: left as it is: a hook or check wrote it, and it was changed since";
        assert!(undone.stdout.contains(left), "{}", undone.stdout);
        assert_eq!(test.read("a.txt"), "one\n");
        assert_eq!(test.read("hook.log").lines().count(), lines);
        test.agent(&["session", "undo"]).expect_code(2);
    }
}

#[test]
fn end_of_a_background_command_has_its_own_name_for_hooks() {
    let hooks = [
        hook("PreToolUse", "KillShell", "cat >> ../log; exit 2"),
        hook("PostToolUse", "BashOutput", "cat >> ../log"),
    ];
    let test = with(
        &hooks,
        "call: Bash {\"command\":\"sleep 300.7\",\"background\":true}\n---\n\
         call: Bash {\"background\":\"bg_1\"}\n---\ncall: Bash {\"kill\":\"bg_1\"}\n---\ntext: done",
    );
    test.run(&["go"]);
    let asked = asked(&test.root().join("../log"));
    let calls: Vec<_> = asked.iter().map(|it| (&it["tool_name"], &it["tool_input"])).collect();
    let expected = [
        (&json!("BashOutput"), &json!({"bash_id": "bg_1"})),
        (&json!("KillShell"), &json!({"shell_id": "bg_1"})),
    ];
    assert_eq!(calls, expected);
    assert_eq!(code(&envelopes(&test)[2]), "ACCESS_DENIED");
}
