//! Messages and turns.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::{Program, kinds, user};
use crate::support::server::{Chunk, Reply, Server, sse_calls, sse_text};
use crate::support::{Test, wait_for};

#[test]
fn one_message_is_one_turn_and_the_end_of_input_ends_the_program() {
    let test = Test::new()
        .script("call: Read {\"path\": \"a.txt\", \"start_line\": 1}\n---\ntext: it says hello")
        .file("a.txt", "hello\n");
    let mut program = Program::start(&test, &[]);
    program.say("read it");
    let (lines, code) = program.finish();
    assert_eq!(code, Some(0));
    let expected = ["system init", "assistant", "user", "assistant", "result success"];
    assert_eq!(kinds(&lines), expected);
    let init = &lines[0];
    assert_eq!(init["permissionMode"], "default");
    // This program answers no questions.
    assert!(!init["tools"].to_string().contains("AskUser"), "{init}");
    // Calls have the names that programs of the other agent know.
    let input = &lines[1]["message"]["content"][0]["input"];
    let path = test.root().join("a.txt");
    assert_eq!(*input, json!({"file_path": path, "offset": 1}));
    assert!(lines[2]["tool_use_result"]["content"].as_str().unwrap().contains("hello"));
    let result = &lines[4];
    assert_eq!(result["result"], "it says hello");
    assert_eq!(
        result["modelUsage"]["script:../script"]["outputTokens"],
        result["usage"]["output_tokens"]
    );
    assert_eq!(result["session_id"], init["session_id"]);
}

#[test]
fn five_messages_are_five_turns_of_one_session() {
    let turn = |n: usize| format!("usage: 10 {n}\ntext: answer {n}");
    let script: Vec<String> = (1..=5).map(turn).collect();
    let test = Test::new().script(&script.join("\n---\n"));
    let mut program = Program::start(&test, &[]);
    let mut sessions = Vec::new();
    for n in 1..=5 {
        program.say(&format!("message {n}"));
        let lines = program.result();
        assert_eq!(kinds(&lines), ["system init", "assistant", "result success"]);
        assert_eq!(lines[2]["result"], format!("answer {n}"));
        // The tokens of a model are those of the whole session, the usage that of the turn.
        let used = (n * (n + 1)) / 2;
        assert_eq!(lines[2]["usage"]["output_tokens"], n);
        assert_eq!(lines[2]["modelUsage"]["script:../script"]["outputTokens"], used);
        sessions.push(lines[2]["session_id"].clone());
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 1);
    assert_eq!(program.finish(), (Vec::new(), Some(0)));
    assert_eq!(test.events_of("turn.started").len(), 5);
}

/// A model that calls a command, and answers when its result is there.
fn slow() -> Server {
    Server::with(|request, n| match n {
        0 => sse_calls(&[("Bash", json!({"command": "sleep 1; echo slept"}))]),
        _ if request.body.contains("and also this") => sse_text("both"),
        _ => sse_text("one"),
    })
}

#[test]
fn message_during_a_turn_is_delivered_to_it() {
    let server = slow();
    let test = Test::new();
    let url = server.url();
    let args = ["--model", "openai/m", "--base-url", &url, "--permission-mode", "full"];
    let mut program = Program::start_with(&test, &args);
    program.say("sleep");
    program.until(|line| line["type"] == "assistant");
    program.say("and also this");
    let mut later = user("when you have ended");
    later["priority"] = "later".into();
    program.send(&later);
    let lines = program.result();
    assert_eq!(lines.last().unwrap()["result"], "both");
    // What is for later begins a turn of its own.
    assert_eq!(program.result()[0]["subtype"], "init");
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
    assert_eq!(test.events_of("turn.steered").len(), 1);
    assert_eq!(test.events_of("turn.started").len(), 2);
}

#[test]
fn running_turn_is_finished_when_the_input_ends() {
    let test = Test::new().script("pause: 600ms\ntext: still here");
    let mut program = Program::start(&test, &[]);
    program.say("go");
    program.until(|line| line["subtype"] == "init");
    let (lines, code) = program.finish();
    assert_eq!(kinds(&lines), ["assistant", "result success"]);
    assert_eq!(code, Some(0));
}

#[test]
fn message_has_blocks_of_text_and_images() {
    let picture = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/images/trace.png"));
    let picture = BASE64_STANDARD.encode(picture.unwrap());
    let server = Server::playing([sse_text("a page")]);
    let test = Test::new().user_config("[models.\"openai/m\"]\nimages = true\n");
    let url = server.url();
    let mut program = Program::start_with(&test, &["--model", "openai/m", "--base-url", &url]);
    let mut message = user("");
    message["message"]["content"] = json!([
        {"type": "text", "text": "what is this?"},
        {"type": "image",
         "source": {"type": "base64", "media_type": "image/png", "data": picture}},
    ]);
    program.send(&message);
    assert_eq!(program.result().pop().unwrap()["result"], "a page");
    program.finish();
    let sent = server.finish()[0].json();
    let content = &sent["messages"].as_array().unwrap().last().unwrap()["content"];
    assert_eq!(content[0]["text"], "what is this?");
    let url = content[1]["image_url"]["url"].as_str().unwrap();
    assert_eq!(url, format!("data:image/png;base64,{picture}"));
}

#[test]
fn states_are_told_to_programs_that_ask_for_them() {
    let test = Test::new().script("text: a").env("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1");
    let mut program = Program::start(&test, &[]);
    program.say("go");
    let (lines, _) = program.finish();
    let states = lines.iter().filter(|line| line["subtype"] == "session_state_changed");
    let states: Vec<&Value> = states.collect();
    assert_eq!(states.len(), 2);
    assert_eq!((&states[0]["state"], &states[1]["state"]), (&json!("running"), &json!("idle")));
    assert_eq!(states[0]["sdk_host_only"], true);
}

#[test]
fn session_is_resumed_and_forked() {
    let test = Test::new().script("text: one");
    let mut program = Program::start(&test, &[]);
    program.say("first");
    let session = program.result().pop().unwrap()["session_id"].as_str().unwrap().to_owned();
    program.finish();
    std::fs::write(test.root().join("../script"), "when: first\ntext: two").unwrap();
    let resume = format!("--resume={session}");
    let mut program = Program::start(&test, &[&resume]);
    program.say("second");
    let resumed = program.result().pop().unwrap();
    assert_eq!((&resumed["result"], &resumed["session_id"]), (&json!("two"), &json!(session)));
    program.finish();
    let mut program = Program::start(&test, &[&resume, "--fork"]);
    program.say("third");
    let forked = program.result().pop().unwrap();
    assert_eq!(forked["result"], "two");
    assert_ne!(forked["session_id"], json!(session));
    program.finish();
}

#[test]
fn messages_are_repeated_with_their_ids_if_the_program_wants_it() {
    let test = Test::new().script("text: one");
    let mut program = Program::start(&test, &["--replay-user-messages"]);
    let mut message = user("first");
    message["uuid"] = "0b0e6e2e-0000-4000-8000-000000000001".into();
    program.send(&message);
    let (lines, _) = program.finish();
    let repeated = lines.iter().find(|line| line["isReplay"] == true).unwrap();
    assert_eq!(repeated["uuid"], message["uuid"]);
    assert_eq!(repeated["message"]["content"], "first");
}

#[test]
fn limits_and_schemas_end_as_programs_expect() {
    let test = Test::new()
        .script("times: any\ncall: LS {}")
        .file("schema.json", r#"{"type": "object", "required": ["n"]}"#);
    let mut program = Program::start(&test, &["--max-turns", "1"]);
    program.say("go");
    let (mut lines, code) = program.finish();
    let result = lines.pop().unwrap();
    assert_eq!(result["subtype"], "error_max_turns");
    assert_eq!(result["is_error"], true);
    assert_eq!(code, Some(124));
    std::fs::write(test.root().join("../script"), "text: {\"n\": 3}").unwrap();
    let mut program = Program::start(&test, &["--json-schema", "schema.json"]);
    program.say("go");
    let (mut lines, code) = program.finish();
    assert_eq!(lines.pop().unwrap()["structured_output"], json!({"n": 3}));
    assert_eq!(code, Some(0));
}

#[test]
fn conversation_is_compacted_by_a_command() {
    let long: String = (0..2000).map(|n| format!("text: a long answer {n}\n")).collect();
    let test = Test::new().script(&format!(
        "{long}---\nfor: summary\ntext: a summary\n---\ntimes: any\ntext: after it"
    ));
    let mut program = Program::start(&test, &[]);
    program.say("/compact");
    let result = program.result().pop().unwrap();
    assert_eq!(result["result"], "There is nothing to compact yet.");
    program.say("go");
    program.result();
    program.say("again");
    program.result();
    program.say("/compact what was decided");
    let lines = program.result();
    assert_eq!(kinds(&lines), ["system compact_boundary", "result success"]);
    assert_eq!(lines[0]["compact_metadata"]["trigger"], "manual");
    program.say("and now?");
    assert_eq!(program.result().pop().unwrap()["result"], "after it");
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
    assert_eq!(test.events_of("turn.started").len(), 3);
}

/// A summary may take long: what needs no idle session is answered meanwhile.
#[test]
fn requests_during_a_compaction_are_answered() {
    let server = Server::with(|request, n| match n {
        0 | 1 => sse_text(&(0..3000).map(|n| format!("a long answer {n} ")).collect::<String>()),
        _ if request.body.contains("Counts for nothing") => sse_text("not reached"),
        _ => Reply::new(200, "text/event-stream", ": wait\n\n")
            .then(Chunk::Pause(std::time::Duration::from_secs(20))),
    });
    let url = server.url();
    let test = Test::new().user_config(
        "[models.\"openai/m\"]\nprice_in = 1000.0\nprice_out = 1000.0\n[context]\nkeep_rounds = 1\n",
    );
    let mut program = Program::start_with(&test, &["--model", "openai/m", "--base-url", &url]);
    program.say("go");
    program.result();
    program.say("again");
    let cost = program.result().pop().unwrap()["total_cost_usd"].as_f64().unwrap();
    program.say("/compact");
    let mut next = user("Counts for nothing");
    next["uuid"] = "n1".into();
    program.send(&next);
    let mode = program.ask(&json!({"subtype": "set_permission_mode", "mode": "plan"}));
    assert_eq!(mode["response"]["mode"], "plan");
    assert_eq!(program.ask(&json!({"subtype": "mcp_status"}))["subtype"], "success");
    let interrupt = json!({"subtype": "interrupt", "cancel_queued": true});
    assert_eq!(program.ask(&interrupt)["response"]["cancelled"], json!(["n1"]));
    let result = program.result().pop().unwrap();
    assert!(cost > 0.0 && result["total_cost_usd"].as_f64().unwrap() >= cost, "{result}");
    let (lines, code) = program.finish();
    assert!(lines.iter().all(|line| line["type"] != "result"), "{lines:?}");
    assert_eq!(code, Some(0));
}

#[test]
fn interrupt_ends_the_turn_and_the_next_message_begins_another() {
    let server = Server::with(|_, n| match n {
        0 => sse_calls(&[("Bash", json!({"command": "sleep 30"}))]),
        _ => sse_text("back"),
    });
    let test = Test::new();
    let url = server.url();
    let args = ["--model", "openai/m", "--base-url", &url, "--permission-mode", "full"];
    let mut program = Program::start_with(&test, &args);
    program.say("hang");
    program.until(|line| line["type"] == "assistant");
    let answer = program.ask(&json!({"subtype": "interrupt"}));
    assert_eq!(answer["subtype"], "success");
    assert_eq!(answer["response"]["still_queued"], json!([]));
    let result = program.result().pop().unwrap();
    assert_eq!(result["subtype"], "error_during_execution");
    assert_eq!(result["terminal_reason"], "interrupted");
    program.say("again");
    assert_eq!(program.result().pop().unwrap()["result"], "back");
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
}

#[test]
fn messages_behind_an_interrupted_turn_survive_unless_they_are_cancelled() {
    let server = Server::with(|request, _| {
        if request.body.contains("and then this") {
            return sse_text("that too");
        }
        sse_calls(&[("Bash", json!({"command": "touch started; sleep 30"}))])
    });
    let url = server.url();
    for (cancels, results) in [(false, 2), (true, 1)] {
        let test = Test::new();
        let args = ["--model", "openai/m", "--base-url", &url, "--permission-mode", "full"];
        let mut program = Program::start_with(&test, &args);
        program.say("hang");
        program.until(|line| line["type"] == "assistant");
        // A message before the call would be delivered instead of it.
        wait_for(|| test.root().join("started").exists());
        let mut next = user("and then this");
        next["uuid"] = "n1".into();
        program.send(&next);
        let request = json!({"subtype": "interrupt", "cancel_queued": cancels});
        let answer = program.ask(&request)["response"].take();
        let listed = if cancels { &answer["cancelled"] } else { &answer["still_queued"] };
        assert_eq!(*listed, json!(["n1"]), "{answer}");
        let (lines, code) = program.finish();
        let found: Vec<&Value> = lines.iter().filter(|line| line["type"] == "result").collect();
        assert_eq!(found.len(), results, "{lines:?}");
        assert_eq!(code, Some(0));
        if !cancels {
            assert_eq!(found[1]["result"], "that too");
        }
    }
}

#[test]
fn initialize_sets_instructions_and_the_schema_of_the_answer() {
    let server = Server::playing([sse_text("{\"n\": 1}")]);
    let test = Test::new();
    let url = server.url();
    let mut program = Program::start_with(&test, &["--model", "openai/m", "--base-url", &url]);
    program.ask(&json!({"subtype": "initialize", "systemPrompt": ["You count sheep."],
        "appendSystemPrompt": "Count slowly.", "jsonSchema": {"type": "object", "required": ["n"]}}));
    program.say("count");
    assert_eq!(program.result().pop().unwrap()["structured_output"], json!({"n": 1}));
    program.finish();
    let system = server.finish()[0].json()["messages"][0]["content"].to_string();
    assert!(system.contains("You count sheep.") && system.contains("Count slowly."), "{system}");
}
