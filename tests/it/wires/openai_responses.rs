//! OpenAI Responses.

use serde_json::{Value, json};

use crate::support::server::{Reply, Server, json as document, sse_raw};
use crate::support::{Done, Test};

/// A complete streamed text answer.
pub(crate) fn text(text: &str) -> Reply {
    stream(&[message(text)], "completed", None)
}

/// A complete streamed answer with tool calls.
pub(crate) fn calls(calls: &[(&str, Value)]) -> Reply {
    stream(&call_items(calls), "completed", None)
}

/// The same, after encrypted reasoning.
pub(crate) fn reasoning_and_calls(calls: &[(&str, Value)]) -> Reply {
    let mut items = vec![thought()];
    items.extend(call_items(calls));
    stream(&items, "completed", None)
}

/// An answer that the token limit cuts off in a text.
pub(crate) fn cut_off(text: &str) -> Reply {
    stream(&[message(text)], "incomplete", Some("max_output_tokens"))
}

/// An answer that the provider withholds.
pub(crate) fn refused() -> Reply {
    stream(&[message("I")], "incomplete", Some("content_filter"))
}

/// An error in a stream that began well.
pub(crate) fn error_event(kind: &str) -> Reply {
    let (code, message) = error_code(kind);
    let error = json!({"code": code, "message": message});
    let mut events = begin();
    events.push(json!({"type": "response.failed", "sequence_number": 2,
                       "response": response("failed", &[], &error, None)}));
    play(&events)
}

/// A refused request.
pub(crate) fn error(status: u16, kind: &str) -> Reply {
    let (code, message) = error_code(kind);
    let error = json!({"message": message, "type": "invalid_request_error", "param": null,
                       "code": code});
    document(status, &json!({ "error": error }))
}

fn error_code(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "overloaded" => ("server_error", "The server had an error while processing your request"),
        "rate" => {
            ("rate_limit_exceeded", "Rate limit reached for m on tokens per min (TPM): Limit 9")
        }
        "overflow" => (
            "context_length_exceeded",
            "Your input exceeds the context window of this model. Please adjust your input.",
        ),
        "bad request" => ("invalid_prompt", "Invalid prompt: it was flagged"),
        "reasoning" => {
            ("invalid_encrypted_content", "The encrypted content gAAA could not be verified.")
        }
        "key" => ("invalid_api_key", "Incorrect API key provided"),
        "quota" => {
            ("insufficient_quota", "You exceeded your current quota, please check your plan")
        }
        other => panic!("no error is called {other}"),
    }
}

fn message(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
           "phase": "final_answer",
           "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn thought() -> Value {
    json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAABo",
           "status": "completed"})
}

fn call_items(calls: &[(&str, Value)]) -> Vec<Value> {
    let items = calls.iter().enumerate().map(|(n, (name, arguments))| {
        json!({"type": "function_call", "id": format!("fc_{n}"), "call_id": format!("call_{n}"),
               "status": "completed", "name": name, "arguments": arguments.to_string()})
    });
    items.collect()
}

fn response(status: &str, output: &[Value], error: &Value, reason: Option<&str>) -> Value {
    json!({"id": "resp_1", "object": "response", "status": status, "model": "m", "output": output,
           "error": error, "incomplete_details": reason.map(|reason| json!({"reason": reason})),
           "usage": {"input_tokens": 10, "input_tokens_details": {"cached_tokens": 6},
                     "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}})
}

fn begin() -> Vec<Value> {
    let response = response("in_progress", &[], &Value::Null, None);
    vec![
        json!({"type": "response.created", "sequence_number": 0, "response": response}),
        json!({"type": "response.in_progress", "sequence_number": 1, "response": response}),
    ]
}

/// All events of a response with these items.
fn stream(items: &[Value], status: &str, reason: Option<&str>) -> Reply {
    let mut events = begin();
    for (index, item) in items.iter().enumerate() {
        let mut empty = item.clone();
        let (field, piece) = match item["type"].as_str() {
            Some("message") => ("content", "output_text"),
            Some("function_call") => ("arguments", "function_call_arguments"),
            _ => ("encrypted_content", ""),
        };
        empty["status"] = json!("in_progress");
        empty[field] = if field == "content" { json!([]) } else { json!("") };
        let event = |kind: &str| {
            json!({"type": format!("response.{kind}"), "output_index": index,
                   "item_id": item["id"], "content_index": 0})
        };
        let with = |mut event: Value, key: &str, value: &Value| {
            event[key] = value.clone();
            event
        };
        events.push(with(event("output_item.added"), "item", &empty));
        let whole = match piece {
            "output_text" => item["content"][0]["text"].as_str(),
            _ => item["arguments"].as_str(),
        };
        if let Some(whole) = whole {
            let (first, second) = whole.split_at(whole.len() / 2);
            for fragment in [first, second] {
                events.push(with(event(&format!("{piece}.delta")), "delta", &json!(fragment)));
            }
            let key = if field == "content" { "text" } else { field };
            events.push(with(event(&format!("{piece}.done")), key, &json!(whole)));
        }
        events.push(with(event("output_item.done"), "item", item));
    }
    let kind = format!("response.{status}");
    events.push(json!({"type": kind, "response": response(status, items, &Value::Null, reason)}));
    play(&events)
}

fn play(events: &[Value]) -> Reply {
    let events = events.iter().map(Value::to_string).collect::<Vec<_>>();
    sse_raw(&events.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A project whose provider `test` is this server.
fn project(server: &Server) -> Test {
    Test::new().env("TEST_KEY", "sk-0123456789abcdefghij").user_config(&format!(
        "model = \"test/m\"\n[providers.test]\nwire = \"openai-responses\"\n\
         base_url = \"{}\"\napi_key_env = \"TEST_KEY\"\n",
        server.url()
    ))
}

fn run(test: &Test) -> Done {
    test.agent(&["run", "read it", "--set", "requests.retry_for=2s"])
}

#[test]
fn turn_with_reasoning_and_a_call() {
    let mut items = vec![thought()];
    items.extend(call_items(&[("Read", json!({"path": "a.txt"}))]));
    let server = Server::playing([stream(&items, "completed", None), text("It says one.")]);
    let test = project(&server).file("a.txt", "one\n");
    run(&test).expect_code(0).expect_stdout("It says one.\n");

    let requests = server.finish();
    assert_eq!(requests.len(), 2);
    for request in &requests {
        assert_eq!(request.path, "/v1/responses");
        assert_eq!(request.header("authorization"), Some("Bearer sk-0123456789abcdefghij"));
    }
    let [first, second] = [requests[0].json(), requests[1].json()];
    assert_eq!((&first["stream"], &first["store"]), (&json!(true), &json!(false)));
    assert_eq!(first["tools"][0]["type"], "function");
    assert!(requests[1].body.starts_with(requests[0].body.strip_suffix("]}").unwrap()));

    let input = second["input"].as_array().unwrap();
    let n_before = first["input"].as_array().unwrap().len();
    let mut sent_thought = thought();
    sent_thought.as_object_mut().unwrap().remove("status");
    assert_eq!(input[n_before], sent_thought);
    let call = json!({"type": "function_call", "call_id": "call_0", "name": "Read",
                      "arguments": "{\"path\":\"a.txt\"}"});
    assert_eq!(input[n_before + 1], call);
    let output = &input[n_before + 2];
    assert_eq!(
        (&output["type"], &output["call_id"]),
        (&json!("function_call_output"), &json!("call_0"))
    );
    assert!(output["output"].as_str().unwrap().contains("one"), "{output}");
    assert_eq!(input.len(), n_before + 3);

    let usage = &test.events_of("model.responded")[0]["usage"];
    let counts = ["input_tokens", "output_tokens", "cached_tokens"].map(|key| &usage[key]);
    assert_eq!(counts, [&json!(10), &json!(2), &json!(6)]);
}

#[test]
fn resumed_session_sends_the_reasoning_again_but_not_to_another_model() {
    let answer = || stream(&[thought(), message("yes")], "completed", None);
    let server = Server::with(move |_, _| answer());
    let test = project(&server);
    run(&test).expect_code(0);
    test.agent(&["run", "and now", "--continue"]).expect_code(0);
    test.agent(&["run", "once more", "--continue", "--model", "test/other"]).expect_code(0);
    let reasoning = server.finish().into_iter().map(|request| {
        let input = request.json()["input"].take();
        let items = input.as_array().unwrap();
        let is_final = |item: &&Value| item["phase"] == "final_answer";
        let phases = items.iter().filter(is_final).count();
        (items.iter().filter(|item| item["type"] == "reasoning").count(), phases)
    });
    assert_eq!(reasoning.collect::<Vec<_>>(), [(0, 0), (1, 1), (0, 0)]);
}

#[test]
fn reasoning_that_the_server_rejects_is_left_out() {
    for rejected in [error(400, "reasoning"), error_event("reasoning")] {
        let mut items = vec![thought()];
        items.extend(call_items(&[("Read", json!({"path": "a.txt"}))]));
        let first = stream(&items, "completed", None);
        let server = Server::playing([first, rejected, text("fine"), text("again")]);
        let test = project(&server).file("a.txt", "one\n");
        run(&test).expect_code(0).expect_stdout("fine\n");
        let sent = server.finish().into_iter().map(|request| {
            (request.body.contains("gAAA"), request.json().get("include").is_some())
        });
        assert_eq!(sent.collect::<Vec<_>>(), [(false, true), (true, true), (false, true)]);
    }
    let server = Server::with(|_, _| error(400, "reasoning"));
    run(&project(&server)).expect_code(69).expect_stderr("could not be verified");
    assert_eq!(server.finish().len(), 2);
}

#[test]
fn errors_in_a_stream_are_retried() {
    for kind in ["overloaded", "rate"] {
        let server = Server::playing([error_event(kind), text("fine")]);
        run(&project(&server)).expect_code(0).expect_stdout("fine\n");
    }
}

#[test]
fn stream_without_an_end_is_retried_and_its_calls_are_not_executed() {
    let mut broken = calls(&[("Write", json!({"path": "b.txt", "content": "two"}))]);
    let crate::support::server::Chunk::Send(bytes) = &mut broken.body[0] else { panic!("no body") };
    let stream = String::from_utf8(std::mem::take(bytes)).unwrap();
    let end = stream.rfind("data: ").unwrap();
    *bytes = stream[..end].to_owned().into_bytes();
    let server = Server::playing([broken, text("fine")]);
    let test = project(&server);
    run(&test).expect_code(0).expect_stdout("fine\n");
    assert!(!test.root().join("b.txt").exists());
}

#[test]
fn errors_end_with_one_line_and_the_right_exit_code() {
    for (reply, code, part) in [
        (error_event("bad request"), 69, "it was flagged"),
        (error_event("quota"), 69, "You exceeded your current quota"),
        (error(400, "bad request"), 69, "it was flagged"),
        (error(401, "key"), 69, "TEST_KEY"),
        (error(429, "quota"), 69, "check plan and billing of the key"),
        (error(503, "overloaded"), 75, "The server had an error"),
    ] {
        let server = Server::with(move |_, _| reply.clone());
        let done = run(&project(&server)).expect_code(code).expect_stdout("").expect_stderr(part);
        assert!(!done.stderr.contains("sk-0"), "{}", done.stderr);
    }
}

#[test]
fn overflow_is_followed_by_a_compaction() {
    for overflow in [error(400, "overflow"), error_event("overflow")] {
        let server = Server::with(move |request, n| match n {
            0 => calls(&[("Read", json!({"path": "a.txt"}))]),
            1 => overflow.clone(),
            _ if request.json().get("tools").is_none() => text("a summary"),
            _ => text("fine"),
        });
        let test = project(&server).file("a.txt", "one\n".repeat(2_000));
        run(&test).expect_code(0).expect_stdout("fine\n");
        assert!(test.has_event("context.compacted"), "{:?}", test.events());
    }
}

#[test]
fn withheld_answer_is_not_the_result() {
    let server = Server::with(|_, _| refused());
    run(&project(&server)).expect_code(1).expect_stdout("");
}

#[test]
fn answer_that_was_cut_off_is_continued_and_its_calls_are_not_executed() {
    let mut items = call_items(&[("Write", json!({"path": "b.txt", "content": "two"}))]);
    items[0]["status"] = json!("incomplete");
    let cut_call = stream(&items, "incomplete", Some("max_output_tokens"));
    let server = Server::playing([cut_call, cut_off("It is "), text("done.")]);
    let test = project(&server);
    run(&test).expect_code(0).expect_stdout("It is done.\n");
    assert!(!test.root().join("b.txt").exists());
    // Without an id, only a string is a valid content of the assistant.
    let input = server.finish()[2].json()["input"].take();
    let mut items = input.as_array().unwrap().iter();
    let answer = items.find(|item| item["role"] == "assistant").unwrap();
    assert!(answer["content"].as_str().is_some_and(|text| text.trim() == "It is"), "{answer}");
    assert_eq!(answer.get("id"), None);
}

#[test]
fn answer_without_a_stream_is_accepted() {
    let whole = response("completed", &[thought(), message("whole")], &Value::Null, None);
    let server = Server::playing([document(200, &whole)]);
    run(&project(&server)).expect_code(0).expect_stdout("whole\n");
}
