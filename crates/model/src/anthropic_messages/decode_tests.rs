//! Answers in the formats of real servers.

use std::sync::atomic::AtomicU64;

use serde_json::json;

use super::*;
use crate::fuzz_tests::decode_damaged;
use agent_protocol::message::{Part, answer_parts};
use agent_protocol::model::{Purpose, Reply, Request};

const MODEL: &str = "anthropic/claude";

fn ids(next: &AtomicU64) -> CallIds<'_> {
    CallIds::new("call_", next, &Request::new(Purpose::Main, "", &[]))
}

fn decode_all(events: &[Value]) -> (Vec<Delta>, Reply) {
    let next = AtomicU64::new(1);
    let mut decoder = AnthropicDecoder::new(MODEL, ids(&next));
    let mut deltas = Vec::new();
    for event in events {
        let event = event.as_str().map_or_else(|| event.to_string(), ToOwned::to_owned);
        deltas.extend(decoder.push(&event).expect("no error in it"));
    }
    deltas.extend(decoder.stop_reason().map(Delta::Done));
    let mut reply = Reply::default();
    for delta in &deltas {
        reply.apply_delta(delta);
    }
    (deltas, reply)
}

fn decode(events: &[Value]) -> Reply {
    decode_all(events).1
}

fn message_start(usage: &Value) -> Value {
    json!({"type": "message_start", "message": {
        "id": "msg_014p7gG3wDgGV9EUtLvnow3U", "type": "message", "role": "assistant",
        "model": "claude-sonnet-5", "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": usage,
    }})
}

fn begin(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn begin_call(index: u64, id: &str, name: &str) -> Value {
    begin(index, &json!({"type": "tool_use", "id": id, "name": name, "input": {}}))
}

fn fragment(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn text(index: u64, text: &str) -> Value {
    fragment(index, &json!({"type": "text_delta", "text": text}))
}

fn thinking(index: u64, text: &str) -> Value {
    fragment(index, &json!({"type": "thinking_delta", "thinking": text}))
}

fn signature(index: u64, signature: &str) -> Value {
    fragment(index, &json!({"type": "signature_delta", "signature": signature}))
}

fn arguments(index: u64, json: &str) -> Value {
    fragment(index, &json!({"type": "input_json_delta", "partial_json": json}))
}

fn end(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn message_delta(stop_reason: &str) -> Value {
    json!({"type": "message_delta", "delta": {"stop_reason": stop_reason, "stop_sequence": null},
           "usage": {"output_tokens": 89}})
}

fn message_stop() -> Value {
    json!({"type": "message_stop"})
}

/// Thinking, a text and two calls, as recorded.
fn whole_answer() -> Vec<Value> {
    let usage = json!({"input_tokens": 30, "cache_creation_input_tokens": 200,
        "cache_read_input_tokens": 1000, "output_tokens": 1, "service_tier": "standard"});
    vec![
        message_start(&usage),
        begin(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        thinking(0, "Let me "),
        thinking(0, "look."),
        signature(0, "EqQBCgIYAhIM"),
        end(0),
        begin(1, &json!({"type": "redacted_thinking", "data": "EmwKAhgB"})),
        end(1),
        begin(2, &json!({"type": "text", "text": ""})),
        text(2, "I read "),
        text(2, "both."),
        end(2),
        begin_call(3, "toolu_1", "Read"),
        arguments(3, ""),
        arguments(3, "{\"path\": \"a"),
        arguments(3, "\"}"),
        end(3),
        begin_call(4, "toolu_2", "LS"),
        end(4),
        message_delta("tool_use"),
        message_stop(),
    ]
}

fn check_calls(events: &[Value], expected: &[(&str, &str, &str)]) {
    let reply = decode(events);
    let calls = reply
        .calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
        .collect::<Vec<_>>();
    assert_eq!(calls, expected, "{events:?}");
    assert_eq!(reply.stop, Some(StopReason::ToolCalls), "{events:?}");
}

#[test]
fn answer_with_thinking_text_and_calls() {
    let reply = decode(&whole_answer());
    assert_eq!((reply.reasoning.as_str(), reply.text.as_str()), ("Let me look.", "I read both."));
    let usage = Usage {
        input_tokens: 1230,
        output_tokens: 89,
        cached_tokens: 1000,
        cache_write_tokens: 200,
        ..Usage::default()
    };
    assert_eq!(reply.usage, Some(usage));
    check_calls(
        &whole_answer(),
        &[("toolu_1", "Read", "{\"path\": \"a\"}"), ("toolu_2", "LS", "")],
    );

    let parts = answer_parts(&reply.text, &reply.calls, &reply.opaque_items);
    let carried = parts.iter().map(|part| match part {
        Part::Carried(carried) => {
            assert_eq!(carried.model, MODEL);
            carried.data.clone()
        }
        Part::Text { text } => json!(text),
        Part::Call(call) => json!(call.id),
        part => panic!("{part:?}"),
    });
    let expected = [
        json!({"type": "thinking", "thinking": "Let me look.", "signature": "EqQBCgIYAhIM"}),
        json!({"type": "redacted_thinking", "data": "EmwKAhgB"}),
        json!("I read both."),
        json!("toolu_1"),
        json!("toolu_2"),
    ];
    assert_eq!(carried.collect::<Vec<_>>(), expected);
}

#[test]
fn thinking_between_calls_keeps_its_place() {
    let reply = decode(&[
        begin_call(0, "a", "Read"),
        arguments(0, "{}"),
        end(0),
        begin(1, &json!({"type": "thinking", "thinking": "", "signature": ""})),
        signature(1, "s"),
        end(1),
        begin_call(2, "b", "Read"),
        arguments(2, "{}"),
        end(2),
        message_delta("tool_use"),
    ]);
    // Its text may be omitted, but the signature is needed.
    assert_eq!(reply.opaque_items.len(), 1);
    assert_eq!(reply.opaque_items[0].after_calls, 1);
    let expected = json!({"type": "thinking", "thinking": "", "signature": "s"});
    assert_eq!(reply.opaque_items[0].data, expected);
}

#[test]
fn thinking_without_signature_is_not_returned() {
    let begin = begin(0, &json!({"type": "thinking", "thinking": ""}));
    let reply = decode(&[begin, thinking(0, "hm"), end(0), message_delta("max_tokens")]);
    assert_eq!((reply.reasoning.as_str(), reply.opaque_items.len()), ("hm", 0));
}

#[test]
fn missing_and_duplicate_events_are_tolerated() {
    // Every event twice, except for the fragments.
    let twice = whole_answer().into_iter().flat_map(|event| {
        let n = if event["type"] == "content_block_delta" { 1 } else { 2 };
        std::iter::repeat_n(event, n)
    });
    assert_eq!(decode(&twice.collect::<Vec<_>>()), decode(&whole_answer()));
    // Without the ends of blocks, without an index, without the last event.
    let mut sparse = whole_answer();
    sparse.retain(|event| event["type"] != "content_block_stop" && event["type"] != "message_stop");
    for event in &mut sparse {
        event.as_object_mut().expect("an object").remove("index");
    }
    assert_eq!(decode(&sparse), decode(&whole_answer()));
    // The signature belongs before the block that follows, also if the end of the thinking is missing.
    let (deltas, _) = decode_all(&sparse);
    let at = |is: fn(&Delta) -> bool| deltas.iter().position(is);
    let carried = at(|delta| matches!(delta, Delta::Opaque { .. }));
    assert!(carried < at(|delta| matches!(delta, Delta::Text(_))), "{deltas:?}");
}

#[test]
fn calls_of_other_servers() {
    // Arguments in the first event, and ids that repeat or are missing.
    let whole = |id: &Value| {
        begin(0, &json!({"type": "tool_use", "id": id, "name": "Read", "input": {"path": "a"}}))
    };
    check_calls(
        &[
            whole(&json!("x")),
            end(0),
            whole(&json!(null)),
            end(0),
            whole(&json!(null)),
            end(0),
            message_delta("end_turn"),
        ],
        &[
            ("x", "Read", "{\"path\":\"a\"}"),
            ("call_1", "Read", "{\"path\":\"a\"}"),
            ("call_2", "Read", "{\"path\":\"a\"}"),
        ],
    );
    // Both forms: the fragments count.
    check_calls(
        &[whole(&json!("x")), arguments(0, "{\"path\":"), arguments(0, "\"b\"}"), message_stop()],
        &[("x", "Read", "{\"path\":\"b\"}")],
    );
    // Two calls at once.
    check_calls(
        &[
            begin_call(0, "x", "Read"),
            begin_call(1, "y", "LS"),
            arguments(0, "{\"a\""),
            arguments(1, "{\"b\""),
            arguments(0, ":1}"),
            arguments(1, ":2}"),
            message_delta("tool_use"),
        ],
        &[("x", "Read", "{\"a\":1}"), ("y", "LS", "{\"b\":2}")],
    );
}

#[test]
fn message_without_streaming_is_decoded() {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "yes", "citations": null},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}},
        {"type": "tool_use", "id": "a", "name": "Read", "input": {"path": "a", "n": 1}},
    ], "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 2}});
    check_calls(std::slice::from_ref(&message), &[("a", "Read", "{\"path\":\"a\",\"n\":1}")]);
    let reply = decode(&[message]);
    assert_eq!((reply.reasoning.as_str(), reply.text.as_str()), ("hm", "yes"));
    assert_eq!(reply.opaque_items[0].data["signature"], "s");
    let usage = Usage { input_tokens: 3, output_tokens: 2, cached_tokens: 0, ..Usage::default() };
    assert_eq!(reply.usage, Some(usage));
}

#[test]
fn usage_may_come_late_or_not_at_all() {
    // Several servers count the request only at the end.
    let late = [
        message_start(&json!({"input_tokens": 0, "output_tokens": 0})),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage":
               {"input_tokens": 7, "cache_read_input_tokens": 2, "output_tokens": 5}}),
    ];
    let usage = Usage { input_tokens: 9, output_tokens: 5, cached_tokens: 2, ..Usage::default() };
    assert_eq!(decode(&late).usage, Some(usage));
    for unknown in [json!(null), json!({"input_tokens": 0, "output_tokens": 0})] {
        let none = [message_start(&unknown), json!({"type": "message_stop"})];
        assert_eq!(decode(&none).usage, None);
    }
}

#[test]
fn reasons_to_stop() {
    fn check(events: &[Value], expected: impl Into<Option<StopReason>>) {
        assert_eq!(decode(events).stop, expected.into(), "{events:?}");
    }
    check(&[text(0, "a"), end(0)], None);
    check(&[text(0, "a"), json!("[DONE]")], None);
    check(&[text(0, "a"), message_stop()], StopReason::End);
    check(&[message_delta("end_turn")], StopReason::End);
    check(&[message_delta("tool_use")], StopReason::End);
    check(&[message_delta("stop_sequence"), message_stop()], StopReason::End);
    check(&[message_delta("max_tokens")], StopReason::Length);
    check(&[message_delta("model_context_window_exceeded")], StopReason::Length);
    check(&[message_delta("refusal")], StopReason::Refused);
    check(&[message_delta("pause_turn")], StopReason::Other("pause_turn".to_owned()));
    let cut = [begin_call(0, "a", "Read"), arguments(0, "{\"pa"), message_delta("max_tokens")];
    check(&cut, StopReason::Length);
}

#[test]
fn refusal_is_explained() {
    let reply = decode(&[json!({"type": "message_delta", "delta": {"stop_reason": "refusal",
        "stop_details": {"type": "refusal", "category": "cyber", "explanation": "Not this."}}})]);
    assert_eq!((reply.text.as_str(), reply.stop), ("Not this.", Some(StopReason::Refused)));
}

#[test]
fn errors_and_garbage_are_rejected() {
    fn check(data: &str, is_error: bool) {
        let next = AtomicU64::new(1);
        match AnthropicDecoder::new(MODEL, ids(&next)).push(data) {
            Err(DecodeError::ServerError(_)) => assert!(is_error, "{data}"),
            Err(DecodeError::Malformed(_)) => assert!(!is_error, "{data}"),
            Ok(deltas) => panic!("{data} gave {deltas:?}"),
        }
    }
    check(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#, true);
    check(r#"{"error":{"message":"busy"}}"#, true);
    check(r#"{"error":"busy"}"#, true);
    check(r#"[{"error":{"message":"no"}}]"#, true);
    check("{\"type", false);
    check("<html>", false);
    check("3", false);
    // The event that named the tool is lost.
    check(&arguments(0, "{}").to_string(), false);
}

#[test]
fn other_events_are_skipped() {
    let events = [
        json!(""),
        json!({"type": "ping"}),
        json!({"type": "content_block_stop", "index": 3}),
        json!({"type": "something_new", "index": 0}),
        json!({"choices": null}),
        fragment(0, &json!({"type": "citations_delta", "citation": {"type": "x"}})),
        json!({"type": "message_delta", "delta": {"stop_reason": null}, "usage": null}),
    ];
    assert_eq!(decode(&events), Reply::default());
}

#[test]
#[ignore = "slow"]
fn damaged_streams_are_decoded_or_rejected() {
    let texts = |events: &[Value]| events.iter().map(Value::to_string).collect::<Vec<_>>();
    let streams = [
        texts(&whole_answer()),
        texts(&[
            message_start(&json!({"input_tokens": 1, "output_tokens": 1})),
            begin(0, &json!({"type": "text", "text": ""})),
            text(0, "Hello 🌍"),
            end(0),
            message_delta("end_turn"),
            message_stop(),
        ]),
        texts(&[json!({"type": "message", "content": [{"type": "text", "text": "yes"}],
                       "stop_reason": "end_turn"})]),
        texts(&[json!({"type": "error", "error": {"type": "api_error", "message": "no"}})]),
    ];
    let is_end = |text: &str| {
        serde_json::from_str::<Value>(text).is_ok_and(|event| {
            event["type"] == "message_stop"
                || event["delta"]["stop_reason"].is_string()
                || event["content"].is_array()
        })
    };
    let next = AtomicU64::new(1);
    decode_damaged(&streams, is_end, |ids| Box::new(AnthropicDecoder::new(MODEL, ids)), &next);
}
