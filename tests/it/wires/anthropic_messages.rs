//! Anthropic Messages.

use std::time::Duration;

use agent_model::Endpoint;
use agent_protocol::provider::WireFormat;
use serde_json::{Value, json};

use crate::support::server::{Reply, Server, json as document, sse_raw};
use crate::support::{Done, Test};

/// A complete streamed text answer.
pub(crate) fn text(text: &str) -> Reply {
    answer(&[text_block(text)], "end_turn")
}

/// A complete streamed answer with tool calls.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Reply {
    answer(&call_blocks(calls), "tool_use")
}

/// The same, after signed thinking.
pub(crate) fn thinking_and_calls(calls: &[(&str, Value)]) -> Reply {
    let mut blocks = vec![thinking_block()];
    blocks.extend(call_blocks(calls));
    answer(&blocks, "tool_use")
}

/// An answer that the token limit cuts off in a text.
pub(crate) fn cut_off(text: &str) -> Reply {
    answer(&[text_block(text)], "max_tokens")
}

/// An answer that the provider withholds.
pub(crate) fn refused() -> Reply {
    answer(&[text_block("I")], "refusal")
}

/// An error in a stream that began well.
pub(crate) fn error_event(kind: &str) -> Reply {
    let mut events = begin();
    events.push(error_body(kind));
    stream(&events)
}

/// A refused request.
pub(crate) fn error(status: u16, kind: &str) -> Reply {
    document(status, &error_body(kind))
}

fn error_body(kind: &str) -> Value {
    let (name, message) = match kind {
        "overloaded" => ("overloaded_error", "Overloaded"),
        "rate" => ("rate_limit_error", "This request would exceed your rate limit"),
        "overflow" => ("invalid_request_error", "prompt is too long: 9345 tokens > 8192 maximum"),
        "bad request" => ("invalid_request_error", "messages: field required"),
        "key" => ("authentication_error", "invalid x-api-key"),
        "quota" => ("billing_error", "Your credit balance is too low"),
        other => panic!("no error is called {other}"),
    };
    json!({"type": "error", "error": {"details": null, "type": name, "message": message},
           "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"})
}

/// A block and its fragments.
type Block = (Value, Vec<Value>);

fn text_block(text: &str) -> Block {
    (json!({"type": "text", "text": ""}), vec![json!({"type": "text_delta", "text": text})])
}

fn thinking_block() -> Block {
    (
        json!({"type": "thinking", "thinking": "", "signature": ""}),
        vec![
            json!({"type": "thinking_delta", "thinking": "I have to look."}),
            json!({"type": "signature_delta", "signature": "EqQBCgIYAhIM"}),
        ],
    )
}

fn call_blocks(calls: &[(&str, Value)]) -> Vec<Block> {
    let blocks = calls.iter().enumerate().map(|(n, (name, arguments))| {
        let arguments = arguments.to_string();
        let (first, second) = arguments.split_at(arguments.len() / 2);
        let fragment = |json: &str| json!({"type": "input_json_delta", "partial_json": json});
        (
            json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": name, "input": {}}),
            vec![fragment(""), fragment(first), fragment(second)],
        )
    });
    blocks.collect()
}

fn begin() -> Vec<Value> {
    let usage = json!({"input_tokens": 4, "cache_creation_input_tokens": 0,
                       "cache_read_input_tokens": 6, "output_tokens": 1});
    vec![
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message",
               "role": "assistant", "model": "m", "content": [], "stop_reason": null,
               "usage": usage}}),
        json!({"type": "ping"}),
    ]
}

fn answer(blocks: &[Block], stop_reason: &str) -> Reply {
    let mut events = begin();
    for (index, (block, fragments)) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        events.extend(fragments.iter().map(
            |fragment| json!({"type": "content_block_delta", "index": index, "delta": fragment}),
        ));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop_reason},
                       "usage": {"output_tokens": 2}}));
    events.push(json!({"type": "message_stop"}));
    stream(&events)
}

fn stream(events: &[Value]) -> Reply {
    let events = events.iter().map(Value::to_string).collect::<Vec<_>>();
    sse_raw(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A project whose provider `test` is this server.
fn project(server: &Server) -> Test {
    let url = server.url().replace("/v1", "/anthropic");
    Test::new().env("TEST_KEY", "sk-ant-0123456789abcdefghij").user_config(&format!(
        "model = \"test/m\"\n[providers.test]\nwire = \"anthropic-messages\"\n\
         base_url = \"{url}\"\napi_key_env = \"TEST_KEY\"\n\
         [models.\"test/m\"]\nmax_output_tokens = 4321\n"
    ))
}

fn run(test: &Test) -> Done {
    test.agent(&["run", "read it", "--set", "requests.retry_for=2s"])
}

#[test]
fn turn_with_thinking_and_a_call() {
    let mut blocks = vec![thinking_block()];
    blocks.extend(call_blocks(&[("Read", json!({"path": "a.txt"}))]));
    let server =
        Server::playing([answer(&blocks, "tool_use"), text("It says one."), text("Nothing.")]);
    let test = project(&server).file("a.txt", "one\n").file("AGENTS.md", "Be kind.\n");
    run(&test).expect_code(0).expect_stdout("It says one.\n");

    let requests = server.finish();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.path, "/anthropic/v1/messages");
        assert_eq!(request.header("x-api-key"), Some("sk-ant-0123456789abcdefghij"));
        assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
        assert_eq!(request.header("authorization"), None);
    }
    let [first, second] = [requests[0].json(), requests[1].json()];
    assert_eq!((&first["stream"], &first["max_tokens"]), (&json!(true), &json!(4321)));
    assert_eq!((&first["system"], &first["tools"]), (&second["system"], &second["tools"]));
    assert!(first["tools"][0]["input_schema"]["properties"].is_object());
    assert_eq!(first["system"].as_array().map(Vec::len), Some(2));

    let thinking =
        json!({"type": "thinking", "thinking": "I have to look.", "signature": "EqQBCgIYAhIM"});
    let call = json!({"type": "tool_use", "id": "toolu_0", "name": "Read",
                      "input": {"path": "a.txt"}});
    assert_eq!(second["messages"][1], json!({"role": "assistant", "content": [thinking, call]}));
    let result = &second["messages"][2]["content"][0];
    assert_eq!(
        (&result["type"], &result["tool_use_id"]),
        (&json!("tool_result"), &json!("toolu_0"))
    );
    assert!(result["content"].as_str().unwrap().contains("one"), "{result}");

    let usage = &test.events_of("model.responded")[0]["usage"];
    let counts = ["input_tokens", "output_tokens", "cached_tokens"].map(|key| &usage[key]);
    assert_eq!(counts, [&json!(10), &json!(2), &json!(6)]);

    // Also after a resume.
    test.agent(&["run", "-c", "and now?"]).expect_code(0).expect_stdout("Nothing.\n");
    let resumed = server.finish()[2].json();
    assert_eq!(resumed["messages"][1], second["messages"][1]);
    assert_eq!(
        resumed["messages"][3]["content"][0],
        json!({"type": "text", "text": "It says one."})
    );
}

#[test]
fn limit_of_answers_is_sent_also_if_none_is_known() {
    let server = Server::playing([text("yes")]);
    let test = project(&server);
    test.agent(&["run", "task", "--model", "test/other"]).expect_code(0);
    assert_eq!(server.finish()[0].json()["max_tokens"], 32_000);
}

#[test]
fn errors_in_a_stream_are_retried() {
    for kind in ["overloaded", "rate"] {
        let server = Server::playing([error_event(kind), text("fine")]);
        run(&project(&server)).expect_code(0).expect_stdout("fine\n");
    }
}

#[test]
fn errors_end_with_one_line_and_the_right_exit_code() {
    for (reply, code, part) in [
        (error_event("bad request"), 69, "messages: field required"),
        (error(400, "bad request"), 69, "messages: field required"),
        (error(401, "key"), 69, "TEST_KEY"),
        (error(402, "quota"), 69, "check plan and billing of the key"),
        (error(529, "overloaded"), 75, "Overloaded"),
    ] {
        let server = Server::with(move |_, _| reply.clone());
        let done = run(&project(&server)).expect_code(code).expect_stdout("").expect_stderr(part);
        assert!(!done.stderr.contains("sk-ant"), "{}", done.stderr);
    }
}

#[test]
fn overflow_is_followed_by_a_compaction() {
    let server = Server::with(|request, n| match n {
        0..12 => calls(&[("Read", json!({"path": format!("{n}.txt")}))]),
        12 => error(400, "overflow"),
        _ if request.json().get("tools").is_none() => text("a summary"),
        _ => text("fine"),
    });
    let files = (0..12).map(|n| (format!("{n}.txt"), format!("{n} and more\n").repeat(300)));
    let test = files.fold(project(&server), |test, (path, text)| test.file(&path, text));
    run(&test).expect_code(0).expect_stdout("fine\n");
    assert_eq!(test.events_of("context.overflowed")[0]["window"], 8192);
    assert_eq!(test.events_of("context.compacted")[0]["cause"], "overflow");
}

#[test]
fn withheld_answer_is_not_the_result() {
    let server = Server::with(|_, _| refused());
    run(&project(&server)).expect_code(1).expect_stdout("");
}

#[test]
fn answer_that_was_cut_off_is_continued_and_its_calls_are_not_executed() {
    let cut_call = || {
        let mut blocks = call_blocks(&[("Write", json!({"path": "b.txt", "content": "two"}))]);
        blocks[0].1.pop();
        answer(&blocks, "max_tokens")
    };
    let server = Server::playing([cut_call(), cut_off("It is "), text("done.")]);
    let test = project(&server);
    run(&test).expect_code(0).expect_stdout("It is done.\n");
    assert!(!test.root().join("b.txt").exists());
}

#[tokio::test]
async fn models_are_listed_in_one_request() {
    let models = json!({"data": [{"type": "model", "id": "claude-a", "display_name": "A"},
                                 {"type": "model", "id": "claude-b", "display_name": "B"}],
                        "has_more": false, "first_id": "claude-a", "last_id": "claude-b"});
    let server = Server::playing([document(200, &models), error(401, "key")]);
    let mut endpoint = Endpoint::new("test/m", server.url());
    endpoint.wire = WireFormat::AnthropicMessages;
    let list = async || agent_model::list_models(&endpoint, Duration::from_secs(5)).await;
    assert_eq!(list().await.unwrap(), ["claude-a", "claude-b"]);
    assert_eq!(server.finish()[0].path, "/v1/models?limit=1000");
    assert!(list().await.unwrap_err().message.contains("invalid x-api-key"));
}

#[test]
fn thinking_is_requested_from_models_that_take_it_and_left_out_if_one_rejects_it() {
    let message = "adaptive thinking is not supported on this model";
    let error = json!({"type": "invalid_request_error", "message": message});
    let rejected = document(400, &json!({"type": "error", "error": error}));
    let server = Server::playing([rejected, text("fine"), text("again"), text("usual")]);
    let test = project(&server);
    let with = ["--set", "models.\"test/m\".thinking=true"];
    let run = |more: &[&str]| {
        test.agent(&[&["run", "x", "--no-memory"], more].concat()).expect_code(0);
    };
    run(&with);
    run(&with);
    run(&[]);
    let asked = json!({"type": "adaptive", "display": "summarized"});
    let sent = server.finish().into_iter().map(|request| request.json()["thinking"].clone());
    assert_eq!(sent.collect::<Vec<_>>(), [asked.clone(), json!(null), asked, json!(null)]);
}

#[test]
fn thinking_that_the_server_rejects_is_left_out_but_not_what_follows() {
    let message = "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound \
                   to a different conversation.";
    let error = json!({"type": "invalid_request_error", "message": message});
    let rejected = document(400, &json!({"type": "error", "error": error}));
    let read = |path: &str| call_blocks(&[("Read", json!({"path": path}))]);
    let first = thinking_and_calls(&[("Read", json!({"path": "a.txt"}))]);
    let mut second = vec![thinking_block()];
    second[0].1[1]["signature"] = json!("bGF0ZXI");
    second.extend(read("b.txt"));
    let server = Server::playing([first, rejected, answer(&second, "tool_use"), text("fine")]);
    let test = project(&server).file("a.txt", "one\n").file("b.txt", "two\n");
    run(&test).expect_code(0).expect_stdout("fine\n");
    let sent = server
        .finish()
        .into_iter()
        .map(|request| (request.body.contains("EqQBCgIYAhIM"), request.body.contains("bGF0ZXI")));
    let expected = [(false, false), (true, false), (false, false), (false, true)];
    assert_eq!(sent.collect::<Vec<_>>(), expected);
}
