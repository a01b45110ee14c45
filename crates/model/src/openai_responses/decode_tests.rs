//! Responses in the formats of real servers.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::fuzz_tests::decode_damaged;
use agent_protocol::message::{Part, answer_parts};
use agent_protocol::model::{Purpose, Reply, Request, Usage};

fn try_decode(events: &[Value]) -> Result<Reply, DecodeError> {
    let request = Request::new(Purpose::Main, "", &[]);
    let next = AtomicU64::new(1);
    let mut decoder = ResponsesDecoder::new("p/m", CallIds::new("call_", &next, &request));
    let mut reply = Reply::default();
    for event in events {
        let event = event.as_str().map_or_else(|| event.to_string(), ToOwned::to_owned);
        for delta in decoder.push(&event)? {
            reply.apply_delta(&delta);
        }
    }
    if let Some(stop) = decoder.stop_reason() {
        reply.apply_delta(&Delta::Done(stop));
    }
    Ok(reply)
}

fn decode(events: &[Value]) -> Reply {
    try_decode(events).expect("no error in it")
}

fn added(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.added", "output_index": index, "item": item})
}

fn done(index: u64, item: &Value) -> Value {
    json!({"type": "response.output_item.done", "output_index": index, "item": item})
}

/// A fragment of the item `index`, whose id is `item_<index>`.
fn delta(piece: &str, index: u64, fragment: &str) -> Value {
    json!({"type": format!("response.{piece}.delta"), "output_index": index, "content_index": 0,
           "item_id": format!("item_{index}"), "delta": fragment, "obfuscation": "x9"})
}

fn message(index: u64, text: &str) -> Value {
    json!({"type": "message", "id": format!("item_{index}"), "role": "assistant",
           "status": "completed", "content": [{"type": "output_text", "text": text}]})
}

fn call(index: u64, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": format!("item_{index}"), "status": "completed",
           "call_id": format!("c{index}"), "name": name, "arguments": arguments})
}

fn reasoning(index: u64) -> Value {
    json!({"type": "reasoning", "id": format!("item_{index}"), "summary": [],
           "encrypted_content": "gAAA"})
}

fn completed(output: &[Value]) -> Value {
    json!({"type": "response.completed", "response": {
        "object": "response", "status": "completed", "error": null, "output": output,
        "usage": {"input_tokens": 7, "input_tokens_details": {"cached_tokens": 3},
                  "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 1}}}})
}

/// What a server of the standard sends for a thought, a comment and two calls.
fn standard() -> Vec<Value> {
    let thought = json!({"type": "reasoning", "id": "item_0", "summary": [
        {"type": "summary_text", "text": "first"}, {"type": "summary_text", "text": "then"}],
        "encrypted_content": "gAAA", "status": "completed"});
    let mut comment = message(1, "I look");
    comment["phase"] = json!("commentary");
    let summary = |kind: &str, part: u64| {
        json!({"type": format!("response.reasoning_summary_part.{kind}"), "output_index": 0,
               "item_id": "item_0", "summary_index": part, "part": {"type": "summary_text"}})
    };
    let arguments = |index: u64, name: &str, whole: &str| {
        json!({"type": "response.function_call_arguments.done", "output_index": index,
               "item_id": format!("item_{index}"), "name": name, "arguments": whole})
    };
    vec![
        json!({"type": "response.created", "response": {"status": "in_progress", "error": null,
               "output": []}}),
        json!({"type": "response.in_progress", "response": {"status": "in_progress"}}),
        added(
            0,
            &json!({"type": "reasoning", "id": "item_0", "summary": [],
                        "encrypted_content": "half"}),
        ),
        summary("added", 0),
        delta("reasoning_summary_text", 0, "fir"),
        delta("reasoning_summary_text", 0, "st"),
        json!({"type": "response.reasoning_summary_text.done", "output_index": 0,
               "item_id": "item_0", "summary_index": 0, "text": "first"}),
        summary("done", 0),
        summary("added", 1),
        delta("reasoning_summary_text", 0, "then"),
        done(0, &thought),
        added(1, &json!({"type": "message", "id": "item_1", "content": [], "phase": "commentary"})),
        json!({"type": "response.content_part.added", "output_index": 1, "item_id": "item_1",
               "content_index": 0, "part": {"type": "output_text", "text": ""}}),
        delta("output_text", 1, "I "),
        delta("output_text", 1, "look"),
        json!({"type": "response.output_text.done", "output_index": 1, "item_id": "item_1",
               "text": "I look"}),
        json!({"type": "response.content_part.done", "output_index": 1, "item_id": "item_1",
               "part": {"type": "output_text", "text": "I look"}}),
        done(1, &comment),
        added(2, &call(2, "Read", "")),
        delta("function_call_arguments", 2, "{\"pa"),
        delta("function_call_arguments", 2, "th\":1}"),
        arguments(2, "Read", "{\"path\":1}"),
        done(2, &call(2, "Read", "{\"path\":1}")),
        added(3, &call(3, "LS", "")),
        arguments(3, "LS", "{}"),
        done(3, &call(3, "LS", "{}")),
        json!({"type": "keepalive"}),
        completed(&[thought, comment, call(2, "Read", "{\"path\":1}"), call(3, "LS", "{}")]),
    ]
}

/// The reply in one line: parts in their order.
fn shown(reply: &Reply) -> String {
    let parts = answer_parts(&reply.text, &reply.calls, &reply.opaque_items);
    let shown = parts.iter().map(|part| match part {
        Part::Text { text } => format!("{text:?}"),
        Part::Call(call) => format!("{}:{}{}", call.id, call.name, call.arguments),
        Part::Carried(carried) => {
            assert_eq!(carried.model, "p/m");
            let data = &carried.data;
            assert_eq!(data.get("status"), None);
            let name = data["phase"].as_str().or(data["id"].as_str());
            format!("<{}>", name.expect("a name"))
        }
        Part::Image(_) | Part::Result(_) => panic!("{part:?} in an answer"),
    });
    shown.collect::<Vec<_>>().join(" ")
}

fn check(events: &[Value], expected: &str) {
    let reply = decode(events);
    assert_eq!(shown(&reply), expected, "{events:?}");
    let stop = if reply.calls.is_empty() { StopReason::End } else { StopReason::ToolCalls };
    assert_eq!(reply.stop, Some(stop), "{events:?}");
}

#[test]
fn items_in_the_standard_format() {
    let expected = r#"<item_0> "I look" <commentary> c2:Read{"path":1} c3:LS{}"#;
    check(&standard(), expected);
    let reply = decode(&standard());
    assert_eq!(reply.reasoning, "first\n\nthen");
    assert_eq!(reply.opaque_items[0].data["encrypted_content"], "gAAA");
    let usage = Usage { input_tokens: 7, output_tokens: 2, cached_tokens: 3, ..Usage::default() };
    assert_eq!(reply.usage, Some(usage));
}

#[test]
fn reports_that_servers_leave_out_are_not_needed() {
    let whole = decode(&standard());
    let without = |parts: &[&str]| {
        let kept = standard().into_iter().filter(|event| {
            let kind = event["type"].as_str().expect("a type");
            !parts.iter().any(|part| kind.contains(part))
        });
        kept.collect::<Vec<_>>()
    };
    for parts in [
        &[".added"] as &[_],
        &[".delta"],
        &[".added", ".delta"],
        &["_text.done", "arguments.done", "content_part.done"],
        &[".added", ".delta", "_text.done", "arguments.done", "content_part"],
        &[".added", ".delta", ".done", "created", "in_progress"],
        &[".done"],
    ] {
        let reply = decode(&without(parts));
        assert_eq!(reply.text, whole.text, "without {parts:?}");
        assert_eq!(reply.calls, whole.calls, "without {parts:?}");
        assert_eq!(reply.stop, whole.stop, "without {parts:?}");
        if parts != [".done"] {
            assert_eq!(reply.opaque_items, whole.opaque_items, "without {parts:?}");
        }
    }
    // An end without the output.
    let mut events = standard();
    *events.last_mut().expect("an end") =
        json!({"type": "response.completed", "response": {"id": "resp_1"}});
    let reply = decode(&events);
    assert_eq!((shown(&reply), reply.usage), (shown(&whole), None));
    // Each event twice, except for the fragments.
    let twice = standard().into_iter().flat_map(|event| {
        let n = if event.get("delta").is_some() { 1 } else { 2 };
        std::iter::repeat_n(event, n)
    });
    assert_eq!(shown(&decode(&twice.collect::<Vec<_>>())), shown(&whole));
}

#[test]
fn a_whole_response_is_decoded() {
    let document = |output: Value| json!({"object": "response", "status": "completed", "error": null, "output": output});
    let output = json!([reasoning(0), message(1, "a"), message(2, "b"), call(3, "LS", "{}")]);
    check(&[document(output)], r#"<item_0> "a\n\nb" c3:LS{}"#);
    check(&[json!({"output": [message(0, "a")]})], r#""a""#);
    let unfinished = json!({"object": "response", "status": "queued", "output": []});
    assert_eq!(decode(&[unfinished]).stop, None);
}

#[test]
fn ids_and_indexes_of_servers_are_not_reliable() {
    // A new id in each event.
    let mut events = standard();
    for (n, event) in events.iter_mut().enumerate() {
        for id in ["/item_id", "/item/id"] {
            if let Some(id) = event.pointer_mut(id) {
                *id = json!(format!("{n}"));
            }
        }
    }
    let expected = r#""I look" <commentary> c2:Read{"path":1} c3:LS{}"#;
    let shown = shown(&decode(&events));
    assert!(shown.ends_with(expected), "{shown}");
    // The same index in each event, or none.
    for index in [json!(0), Value::Null] {
        let mut events = standard();
        for event in &mut events {
            if let Some(place) = event.get_mut("output_index") {
                *place = index.clone();
            }
        }
        check(&events, r#"<item_0> "I look" <commentary> c2:Read{"path":1} c3:LS{}"#);
    }
    // Neither ids nor indexes.
    check(
        &[
            json!({"type": "response.output_text.delta", "delta": "a"}),
            json!({"type": "response.output_text.delta", "delta": "b"}),
            json!({"type": "response.output_item.done",
                   "item": {"type": "message", "content": [{"type": "output_text", "text": "ab"}]}}),
            json!({"type": "response.output_item.done", "item":
                   {"type": "function_call", "name": "LS", "arguments": {"path": "a"}}}),
            json!({"type": "response.done", "response": {"status": "completed"}}),
        ],
        r#""ab" call_1:LS{"path":"a"}"#,
    );
    // The fragments of two calls alternate.
    check(
        &[
            added(0, &call(0, "Read", "")),
            added(1, &call(1, "LS", "")),
            delta("function_call_arguments", 0, "{\"a\""),
            delta("function_call_arguments", 1, "{\"b\""),
            delta("function_call_arguments", 0, ":1}"),
            delta("function_call_arguments", 1, ":2}"),
            completed(&[]),
        ],
        r#"c0:Read{"a":1} c1:LS{"b":2}"#,
    );
    // The same call id twice.
    let mut second = call(1, "LS", "{}");
    second["call_id"] = json!("c0");
    let output = [call(0, "Read", "{}"), second.clone()];
    let events = [done(0, &output[0]), done(1, &second), completed(&output)];
    check(&events, "c0:Read{} call_1:LS{}");
}

#[test]
fn reasoning_without_encrypted_content_is_only_shown() {
    let open = json!({"type": "reasoning", "id": "item_0", "summary": [],
                      "content": [{"type": "reasoning_text", "text": "hm"}]});
    let reply = decode(&[done(0, &open), done(1, &message(1, "yes")), completed(&[])]);
    assert_eq!((reply.reasoning.as_str(), reply.text.as_str()), ("hm", "yes"));
    assert_eq!(reply.opaque_items, []);
    let streamed =
        [delta("reasoning_text", 0, "h"), delta("reasoning_text", 0, "m"), done(0, &open)];
    assert_eq!(decode(&streamed).reasoning, "hm");
}

#[test]
fn reasons_to_stop() {
    fn check(events: &[Value], expected: impl Into<Option<StopReason>>) {
        assert_eq!(decode(events).stop, expected.into(), "{events:?}");
    }
    let end = |kind: &str, status: &str, reason: &str| {
        json!({"type": format!("response.{kind}"), "response": {
            "status": status, "error": null, "incomplete_details": {"reason": reason}}})
    };
    let text = delta("output_text", 0, "a");
    check(std::slice::from_ref(&text), None);
    check(&[text.clone(), json!("[DONE]")], None);
    check(&[text.clone(), completed(&[])], StopReason::End);
    check(&[completed(&[]), json!("[DONE]")], StopReason::End);
    for kind in ["incomplete", "completed"] {
        check(&[end(kind, "incomplete", "max_output_tokens")], StopReason::Length);
        check(&[end(kind, "incomplete", "content_filter")], StopReason::Refused);
    }
    check(&[json!({"type": "response.incomplete", "response": {}})], StopReason::Length);
    check(&[delta("refusal", 0, "no"), completed(&[])], StopReason::Refused);
    let refusal = json!({"type": "message", "content": [{"type": "refusal", "refusal": "no"}]});
    let reply = decode(&[completed(&[refusal])]);
    assert_eq!((reply.text.as_str(), reply.stop), ("no", Some(StopReason::Refused)));
    // A call that was cut off, whatever the response says.
    let mut cut = call(0, "Read", "{\"a");
    check(
        &[done(0, &cut), end("incomplete", "incomplete", "max_output_tokens")],
        StopReason::Length,
    );
    cut["status"] = json!("incomplete");
    check(&[done(0, &cut), completed(&[])], StopReason::Length);
}

#[test]
fn errors_and_garbage_are_rejected() {
    fn check(event: &Value, expected: &str) {
        match try_decode(std::slice::from_ref(event)) {
            Err(DecodeError::ServerError(error)) => {
                assert!(error.to_string().contains(expected), "{error}");
            }
            Err(DecodeError::Malformed(_)) => assert_eq!(expected, "garbage", "{event}"),
            Ok(reply) => panic!("{event} gave {reply:?}"),
        }
    }
    check(&json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}), "slow");
    check(&json!({"type": "error", "error": {"code": "server_error"}}), "server_error");
    check(&json!({"error": {"message": "overloaded"}}), "overloaded");
    check(&json!({"detail": "no"}), "no");
    check(&json!([{"error": {"message": "no"}}]), "no");
    let failed = |error: Value| json!({"type": "response.failed", "response": {"status": "failed", "error": error}});
    check(&failed(json!({"code": "server_error", "message": "boom"})), "boom");
    check(&failed(Value::Null), "the response is failed, without a reason");
    check(&json!({"object": "response", "status": "cancelled", "output": []}), "cancelled");
    check(&json!("{\"type"), "garbage");
    check(&json!("<html>"), "garbage");
    check(&json!("3"), "garbage");
    // A lost or repeated fragment of arguments.
    let events = [
        added(0, &call(0, "Read", "")),
        delta("function_call_arguments", 0, "{\"a\":1}"),
        done(0, &call(0, "Read", "{\"a\":1,\"b\":2}")),
    ];
    assert!(matches!(try_decode(&events), Err(DecodeError::Malformed(_))));
}

#[test]
fn unknown_events_are_skipped() {
    let odd = [
        json!({"type": "ping"}),
        json!({"type": "response.output_text.annotation.added", "annotation": {}}),
        json!({"type": "response.output_item.done", "item": null}),
        json!({"type": "response.output_item.done", "item": {"type": "web_search_call"}}),
        json!({"type": "response.output_text.delta", "delta": null}),
        json!({"type": null, "error": null}),
        json!({}),
        json!(""),
    ];
    assert_eq!(decode(&odd), Reply::default());
}

#[test]
#[ignore = "slow"]
fn damaged_streams_are_decoded_or_rejected() {
    let streams = [standard().iter().map(Value::to_string).collect()];
    let next = AtomicU64::new(1);
    // Without the name of the event it is a whole response.
    let is_end = |text: &str| {
        text.contains("response.completed")
            || serde_json::from_str::<Value>(text).is_ok_and(|event| {
                let response = event.get("response").unwrap_or(&event);
                response["status"] == "completed" && response["output"].is_array()
            })
    };
    decode_damaged(&streams, is_end, |ids| Box::new(ResponsesDecoder::new("p/m", ids)), &next);
}
