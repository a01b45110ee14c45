//! Hooks of messages, answers, sessions and compactions.

use serde_json::{Value, json};

use super::{answering, asked, code, ends, envelopes, hook, notices, with};
use crate::support::server::{self, Server, sse_text};
use crate::support::{Done, Pty, Test, wait_for};

/// A run with these answers of the model, and its requests.
fn play(test: &Test, args: &[&str], answers: &[&str]) -> (Done, Vec<server::Request>) {
    let server = Server::playing(answers.iter().map(|text| sse_text(text)));
    let url = server.url();
    let done = test.agent(&[&["run", "--model", "openai/m", "--base-url", &url], args].concat());
    (done, server.finish())
}

const EVENTS: [&str; 10] = [
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "StopFailure",
    "SubagentStop",
    "PreCompact",
];

#[test]
fn each_event_asks_with_its_fields() {
    let log = "cat >> \"$CLAUDE_PROJECT_DIR\"/../log";
    let test = with(
        &EVENTS.map(|event| hook(event, "*", log)),
        "call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ncall: Bash {\"command\":\"exit 3\",\
         \"timeout_ms\":5000}\n---\ntext: done",
    );
    test.run(&["--check", "false", "go on"]);
    let asked = asked(&test.root().join("../log"));
    let names: Vec<&str> = asked.iter().map(|it| it["hook_event_name"].as_str().unwrap()).collect();
    let expected = [
        "SessionStart",
        "UserPromptSubmit",
        "PreToolUse",
        "PostToolUse",
        "PreToolUse",
        "PostToolUseFailure",
        "StopFailure",
        "SessionEnd",
    ];
    assert_eq!(names, expected);
    let log = test.log();
    for it in &asked {
        assert_eq!(it["cwd"], test.root().to_str().unwrap());
        assert_eq!(it["permission_mode"], "acceptEdits");
        assert_eq!(it["session_id"], test.events()[0]["session"]);
        let transcript = it["transcript_path"].as_str().unwrap();
        assert_eq!(std::fs::canonicalize(transcript).unwrap(), log.canonicalize().unwrap());
    }
    assert_eq!(
        (&asked[0]["source"], &asked[0]["model"]),
        (&json!("startup"), &json!("script:../script"))
    );
    assert_eq!(asked[1]["prompt"], "go on");
    let file = test.root().join("a").to_str().unwrap().to_owned();
    assert_eq!(asked[2]["tool_name"], "Write");
    assert_eq!(asked[2]["tool_input"], json!({"file_path": file, "content": "x"}));
    assert_eq!(asked[2]["tool_use_id"], "call_1");
    assert_eq!(asked[3]["tool_response"]["filePath"], file);
    assert_eq!(asked[3]["tool_response"]["success"], true);
    assert_eq!(asked[4]["tool_input"], json!({"command": "exit 3", "timeout": 5000}));
    assert_eq!(asked[5]["is_interrupt"], false);
    assert!(asked[5]["error"].as_str().unwrap().contains('3'), "{}", asked[5]);
    assert_eq!(asked[6]["error"], "failed");
    assert_eq!(asked[7]["reason"], "other");
    let runs = test.events_of("hook.finished");
    assert_eq!(runs.len(), asked.len());
    assert!(runs.iter().all(|run| run["outcome"] == "passed" && run["exit_code"] == 0));
    assert!(test.agent(&["trace", "show"]).stdout.contains("hook PreToolUse cat >> "));
}

#[test]
fn texts_of_hooks_are_part_of_the_conversation() {
    let context = |text: &str| json!({"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": text}});
    let test = Test::new().user_config(
        &[
            hook("SessionStart", "startup", "echo 'the branch is main'"),
            hook("SessionStart", "resume", "echo 'welcome back'"),
            answering("UserPromptSubmit", "", &context("it is Friday")),
            hook("UserPromptSubmit", "", "echo 'be brief'"),
        ]
        .concat(),
    );
    let texts = |request: &server::Request| -> Vec<String> {
        let messages = request.json()["messages"].as_array().unwrap().clone();
        let of_user = messages.iter().filter(|message| message["role"] == "user");
        of_user.map(|message| message["content"].to_string()).collect()
    };
    let (done, requests) = play(&test, &["hello"], &["hi"]);
    assert_eq!(done.code, Some(0));
    let all = texts(&requests[0]).join("\n");
    let at = |text: &str| all.find(text).unwrap_or_else(|| panic!("{text}: {all}"));
    let order = ["the branch is main", "hello", "it is Friday", "be brief"].map(at);
    assert!(order.is_sorted(), "{all}");
    // They stay in a resumed session, which is another start.
    let (_, again) = play(&test, &["-c", "more"], &["ok"]);
    let all = texts(&again[0]).join("\n");
    for text in ["the branch is main", "hello", "it is Friday", "welcome back", "more"] {
        assert_eq!(all.matches(text).count(), if text == "it is Friday" { 2 } else { 1 }, "{all}");
    }
}

#[test]
fn blocked_message_reaches_no_model() {
    let block = "grep -q topsecret && echo 'no secrets, please' >&2 && exit 2; exit 0";
    let test = Test::new().user_config(&hook("UserPromptSubmit", "", block));
    let (done, requests) = play(&test, &["the topsecret plan"], &[]);
    assert_eq!((done.code, requests.len()), (Some(77), 0));
    assert!(
        done.stderr.contains("a hook blocked the message: no secrets, please"),
        "{}",
        done.stderr
    );
    assert!(!done.stderr.contains("--allow"), "{}", done.stderr);
    assert_eq!(test.events_of("turn.started")[0]["blocked"], true);
    // Nor later.
    let (done, requests) = play(&test, &["-c", "hello"], &["hi"]);
    assert_eq!(done.code, Some(0));
    assert!(!requests[0].body.contains("topsecret"), "{}", requests[0].body);
    assert_eq!(test.events_of("turn.finished").len(), 2);
    test.agent(&["trace", "replay"]).expect_code(0);
}

#[test]
fn chat_shows_why_a_hook_blocked_the_message() {
    let block = "grep -q topsecret && echo 'no secrets, please' >&2 && exit 2; exit 0";
    let test = with(&[hook("UserPromptSubmit", "", block)], "text: the plan is public");
    let shown = "  a hook blocked the message: no secrets, please";
    let mut chat = Pty::chat(&test, &[]);
    chat.wait_for("/help");
    chat.say("the topsecret plan");
    chat.wait_for("■ stopped by a hook");
    chat.wait_for(shown);
    assert!(!chat.screen().contains("a permission was not given"), "{}", chat.screen());
    // Ctrl-T, too.
    chat.send("\x14");
    chat.wait("the whole conversation", |screen| {
        !screen.contains("/help") && screen.contains(shown)
    });
    chat.send("\x14");
    chat.wait_for("/help");
    chat.leave();
    // And the resumed session.
    let mut chat = Pty::chat(&test, &["-c"]);
    chat.wait_for("/help");
    chat.wait_for(shown);
    chat.say("hello");
    chat.wait_for("the plan is public");
    chat.leave();
}

#[test]
fn message_to_a_running_turn_can_be_blocked() {
    let block = "grep -q topsecret && echo 'no secrets' >&2 && exit 2; exit 0";
    let test = with(
        &[hook("UserPromptSubmit", "", block)],
        "call: Bash {\"command\":\"touch ../begun; until [ -e ../go ]; do sleep 0.05; done\"}\n---\n\
         text: the end",
    );
    let args = ["--set", "sandbox.enabled=false", "--allow", "Bash"];
    let mut chat = Pty::chat(&test, &args);
    chat.wait_for("› ");
    chat.say("begin");
    chat.wait_for("Bash");
    wait_for(|| test.root().join("../begun").exists());
    chat.say("topsecret");
    std::fs::write(test.root().join("../go"), "").unwrap();
    chat.wait_for("a hook blocked the message: no secrets");
    chat.wait_for("the end");
    chat.leave();
    assert_eq!(test.events_of("turn.steered")[0]["blocked"], true);
    assert_eq!(test.events_of("turn.started").len(), 1);
}

#[test]
fn stop_hook_sends_the_answer_back() {
    // It blocks the first time only, as hooks that look at `stop_hook_active` do.
    let stop = "cat > ../question; grep -q '\"stop_hook_active\":true' ../question && exit 0; \
                echo 'the tests were not run' >&2; exit 2";
    let test = Test::new().user_config(&hook("Stop", "", stop));
    let (done, requests) = play(&test, &["go"], &["first", "second"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "second\n"));
    assert!(requests[1].body.contains("the tests were not run"), "{}", requests[1].body);
    assert_eq!(ends(&test), ["blocked", "passed"]);
    let question = std::fs::read_to_string(test.root().join("../question")).unwrap();
    let question: Value = serde_json::from_str(&question).unwrap();
    assert_eq!(question["last_assistant_message"], "second");
}

#[test]
fn stop_hook_that_always_blocks_has_a_limit() {
    let test = Test::new().user_config(&answering(
        "Stop",
        "",
        &json!({"decision": "block", "reason": "more"}),
    ));
    let answers: Vec<String> = (0..9).map(|n| format!("answer {n}")).collect();
    let answers: Vec<&str> = answers.iter().map(String::as_str).collect();
    let (done, requests) = play(&test, &["go"], &answers);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), "answer 8\n"));
    assert_eq!(requests.len(), 9);
    let notices = notices(&done);
    assert_eq!(notices.len(), 1, "{}", done.stderr);
    assert!(notices[0].contains("Stop hooks sent the answer back 8 times; the turn ends: more"));
}

#[test]
fn message_of_a_hook_to_the_user_is_shown() {
    let test = with(
        &[answering("PostToolUse", "", &json!({"systemMessage": "the formatter is missing"}))],
        "call: Bash {\"command\":\"true\"}\n---\ntext: done",
    );
    let done = test.run(&["go"]).expect_code(0);
    assert_eq!(notices(&done), ["agent: hook: the formatter is missing"]);
    let mut chat = Pty::chat(&test, &[]);
    chat.wait_for("› ");
    chat.say("go");
    chat.wait_for("hook: the formatter is missing");
    chat.say("/hooks");
    chat.wait_for("PostToolUse *: ");
    chat.leave();
}

#[test]
fn compaction_asks_before_and_after() {
    let log = "cat >> \"$AGENT_PROJECT_DIR\"/../log";
    let test = with(
        &[
            hook("PreCompact", "manual", log),
            hook("PreCompact", "auto", "exit 2"),
            hook("SessionStart", "compact", "echo 'remember the milk'"),
        ],
        "call: Bash {\"command\":\"seq 1 3000\"}\n---\ncall: Bash {\"command\":\"seq 1 2000\"}\n---\n\
         text: one\n---\nfor: summary\ntimes: any\ntext: nothing\n---\ntext: two",
    );
    let mut chat = Pty::chat(&test, &["--set", "context.keep_rounds=1"]);
    chat.wait_for("› ");
    chat.say("first");
    chat.wait_for("one");
    chat.say("/compact the numbers");
    wait_for(|| test.has_event("context.compacted"));
    chat.say("second");
    chat.wait_for("two");
    chat.leave();
    let asked = asked(&test.root().join("../log"));
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["trigger"], "manual");
    assert_eq!(asked[0]["custom_instructions"], "the numbers");
    let events = test.events();
    let at = |kind: &str| events.iter().rposition(|event| event["type"] == kind).unwrap();
    assert_eq!(events[at("feedback")]["text"], "remember the milk");
    assert!(at("context.compacted") < at("feedback"));
}

#[test]
fn replay_asks_no_hooks() {
    let count = hook("PreToolUse", "Bash", "echo >> ../count");
    let test = with(&[count], "call: Bash {\"command\":\"echo one\"}\n---\ntext: done");
    test.run(&["go"]).expect_code(0);
    test.agent(&["trace", "replay"]).expect_code(0);
    assert_eq!(std::fs::read_to_string(test.root().join("../count")).unwrap(), "\n");
    assert_eq!(code(&envelopes(&test)[0]), "");
}
