//! Responses in the formats of real servers.

use std::sync::atomic::AtomicU64;

use serde_json::json;

use super::*;
use crate::fuzz_tests::decode_damaged;
use agent_protocol::model::{Purpose, Reply, Request, Usage};

fn decode(chunks: &[Value]) -> Reply {
    decode_from(&Endpoint::new("p/m", "http://h"), chunks)
}

fn decode_from(endpoint: &Endpoint, chunks: &[Value]) -> Reply {
    let request = Request::new(Purpose::Main, "", &[]);
    let next = AtomicU64::new(1);
    let mut decoder = ChatDecoder::new(CallIds::new("call_", &next, &request), endpoint);
    let mut reply = Reply::default();
    for chunk in chunks {
        let chunk = chunk.as_str().map_or_else(|| chunk.to_string(), ToOwned::to_owned);
        for delta in decoder.push(&chunk).expect("no error in it") {
            reply.apply_delta(&delta);
        }
    }
    if let Some(stop) = decoder.stop_reason() {
        reply.apply_delta(&Delta::Done(stop));
    }
    reply
}

fn delta(delta: &Value) -> Value {
    json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]})
}

fn calls(calls: &Value) -> Value {
    delta(&json!({"tool_calls": calls}))
}

fn finish(reason: &str) -> Value {
    json!({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
}

fn check_calls(chunks: &[Value], expected: &[(&str, &str, &str)]) {
    let reply = decode(chunks);
    let calls = reply
        .calls
        .iter()
        .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
        .collect::<Vec<_>>();
    assert_eq!(calls, expected, "{chunks:?}");
    assert_eq!(reply.stop, Some(StopReason::ToolCalls), "{chunks:?}");
}

#[test]
fn text_reasoning_and_usage() {
    let reply = decode(&[
        delta(&json!({"role": "assistant", "content": "", "tool_calls": null, "refusal": null})),
        delta(&json!({"reasoning_content": "h", "reasoning": "h", "content": null})),
        delta(&json!({"reasoning": "m"})),
        delta(&json!({"content": "Hel"})),
        delta(&json!({"content": "lo", "function_call": null})),
        finish("stop"),
        json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2,
               "prompt_tokens_details": {"cached_tokens": 3}}}),
        json!("[DONE]"),
    ]);
    assert_eq!(reply.text, "Hello");
    assert_eq!(reply.reasoning, "hm");
    let usage = Usage { input_tokens: 7, output_tokens: 2, cached_tokens: 3, ..Usage::default() };
    assert_eq!(reply.usage, Some(usage));
    assert_eq!(reply.stop, Some(StopReason::End));
}

#[test]
fn content_may_be_parts() {
    let reply = decode(&[delta(&json!({"content": [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "yes"},
    ]}))]);
    assert_eq!((reply.reasoning.as_str(), reply.text.as_str()), ("hm", "yes"));
    assert_eq!(reply.stop, None);
}

#[test]
fn calls_in_the_standard_format() {
    check_calls(
        &[
            calls(&json!([{"index": 0, "id": "a", "function": {"name": "Read", "arguments": ""}}])),
            calls(&json!([{"index": 0, "function": {"arguments": "{\"pa"}}])),
            calls(&json!([{"index": 1, "id": "b", "function": {"name": "LS", "arguments": "{"}},
                          {"index": 0, "function": {"arguments": "th\":1}"}}])),
            calls(&json!([{"index": 1, "id": null, "function": {"name": null, "arguments": "}"}}])),
            finish("tool_calls"),
        ],
        &[("a", "Read", "{\"path\":1}"), ("b", "LS", "{}")],
    );
}

#[test]
fn calls_without_an_index() {
    // A new id starts a new call; the same id continues it.
    check_calls(
        &[
            calls(&json!([{"id": "a", "function": {"name": "Read", "arguments": "{"}}])),
            calls(&json!([{"id": "a", "function": {"arguments": "}"}}])),
            calls(&json!([{"id": "b", "function": {"name": "Read", "arguments": "{"}}])),
            calls(&json!([{"function": {"arguments": "}"}}])),
            finish("stop"),
        ],
        &[("a", "Read", "{}"), ("b", "Read", "{}")],
    );
    // Neither index nor id: a new name starts a new call, and so does the same name after complete
    // arguments.
    check_calls(
        &[
            calls(&json!([{"function": {"name": "Read", "arguments": "{}"}},
                          {"function": {"name": "LS", "arguments": "{"}}])),
            calls(&json!([{"function": {"name": "LS", "arguments": "}"}}])),
            calls(&json!([{"function": {"name": "LS", "arguments": "{}"}}])),
            json!("[DONE]"),
        ],
        &[("call_1", "Read", "{}"), ("call_2", "LS", "{}"), ("call_3", "LS", "{}")],
    );
}

#[test]
fn calls_that_all_have_index_0() {
    check_calls(
        &[
            calls(
                &json!([{"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{}"}}]),
            ),
            calls(
                &json!([{"index": 0, "id": "b", "function": {"name": "Read", "arguments": "{}"}}]),
            ),
            calls(&json!([{"index": 0, "function": {"name": "LS", "arguments": "{\"a\":1}"}}])),
            finish("tool_calls"),
        ],
        &[("a", "Read", "{}"), ("b", "Read", "{}"), ("call_1", "LS", "{\"a\":1}")],
    );
}

#[test]
fn call_ids_are_unique_and_a_changed_id_continues_the_call() {
    check_calls(
        &[
            calls(
                &json!([{"index": 0, "id": "x", "function": {"name": "Read", "arguments": "{"}}]),
            ),
            calls(&json!([{"index": 0, "id": "y", "function": {"arguments": "}"}}])),
            calls(
                &json!([{"index": 1, "id": "x", "function": {"name": "Read", "arguments": "{}"}}]),
            ),
            calls(&json!([{"index": 2, "id": "", "function": {"name": "LS"}}])),
            finish("tool_calls"),
        ],
        &[("x", "Read", "{}"), ("call_1", "Read", "{}"), ("call_2", "LS", "")],
    );
}

#[test]
fn object_arguments_and_legacy_function_calls() {
    let call =
        json!([{"id": "a", "function": {"name": "Read", "arguments": {"path": "a", "n": 1}}}]);
    check_calls(&[calls(&call), finish("stop")], &[("a", "Read", "{\"path\":\"a\",\"n\":1}")]);
    check_calls(
        &[
            delta(&json!({"function_call": {"name": "Read", "arguments": ""}})),
            delta(&json!({"function_call": {"arguments": "{}"}})),
            finish("function_call"),
        ],
        &[("call_1", "Read", "{}")],
    );
    // Both forms at once, as sent by llama-cpp-python.
    let both = json!({
        "function_call": {"name": "Read", "arguments": "{}"},
        "tool_calls": [{"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{}"}}],
    });
    check_calls(&[delta(&both), finish("tool_calls")], &[("a", "Read", "{}")]);
}

#[test]
fn non_streaming_completion_is_decoded() {
    check_calls(
        &[json!({"object": "chat.completion", "choices": [{"index": 0, "message": {
            "role": "assistant", "content": null,
            "tool_calls": [{"id": "a", "type": "function",
                            "function": {"name": "Read", "arguments": "{}"}}]}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})],
        &[("a", "Read", "{}")],
    );
}

#[test]
fn reasons_to_stop() {
    fn check(chunks: &[Value], expected: impl Into<Option<StopReason>>) {
        assert_eq!(decode(chunks).stop, expected.into(), "{chunks:?}");
    }
    let text = delta(&json!({"content": "a"}));
    check(std::slice::from_ref(&text), None);
    check(&[text.clone(), json!("[DONE]")], StopReason::End);
    check(&[json!("[DONE]")], None);
    check(&[delta(&json!({"reasoning": "a"})), json!("[DONE]")], None);
    check(&[text, finish("STOP")], StopReason::End);
    check(&[finish("sensitive")], StopReason::Refused);
    check(&[finish("length")], StopReason::Length);
    check(&[finish("content_filter")], StopReason::Refused);
    check(&[finish("tool_calls")], StopReason::End);
    check(&[finish("insane")], StopReason::Other("insane".to_owned()));
    check(&[delta(&json!({"refusal": "no"})), finish("stop")], StopReason::Refused);
    let cut = json!([{"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{\"a"}}]);
    check(&[calls(&cut), finish("length")], StopReason::Length);
    check(&[calls(&cut), json!("[DONE]")], None);
    let whole = json!([{"index": 0, "id": "a", "function": {"name": "Read", "arguments": "{}"}}]);
    check(&[calls(&whole), json!("[DONE]")], StopReason::ToolCalls);
}

#[test]
fn errors_and_garbage_are_rejected() {
    fn check(data: &str, is_error: bool) {
        let next = AtomicU64::new(1);
        let ids = CallIds::new("", &next, &Request::new(Purpose::Main, "", &[]));
        match ChatDecoder::new(ids, &Endpoint::new("p/m", "http://h")).push(data) {
            Err(DecodeError::ServerError(_)) => assert!(is_error, "{data}"),
            Err(DecodeError::Malformed(_)) => assert!(!is_error, "{data}"),
            Ok(deltas) => panic!("{data} gave {deltas:?}"),
        }
    }
    check(r#"{"error": {"message": "overloaded"}}"#, true);
    check(r#"{"error": "overloaded"}"#, true);
    check(r#"{"object": "error", "message": "no"}"#, true);
    check(r#"{"detail": "no"}"#, true);
    check(r#"[{"error": {"message": "no"}}]"#, true);
    check("{\"choices", false);
    check("<html>", false);
    check("3", false);
}

#[test]
fn empty_chunks_are_skipped() {
    let nulls = json!({"choices": [{"delta": null, "finish_reason": null}], "usage": null,
                       "error": null});
    let odd = json!({"choices": null, "usage": {"prompt_tokens": null}});
    assert_eq!(decode(&[nulls, odd, json!({"type": "ping"}), json!("")]), Reply::default());
}

#[test]
#[ignore = "slow"]
fn damaged_streams_are_decoded_or_rejected() {
    let texts = |chunks: &[Value]| {
        let text = |chunk: &Value| chunk.as_str().map_or_else(|| chunk.to_string(), Into::into);
        chunks.iter().map(text).collect::<Vec<String>>()
    };
    let streams = [
        texts(&[
            delta(&json!({"role": "assistant", "content": ""})),
            delta(&json!({"reasoning_content": "hm"})),
            delta(&json!({"content": "Hello 🌍"})),
            calls(&json!([{"index": 0, "id": "a", "function": {"name": "Read", "arguments": ""}}])),
            calls(&json!([{"index": 0, "function": {"arguments": "{\"path\":\"a\"}"}}])),
            finish("tool_calls"),
            json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}),
            json!("[DONE]"),
        ]),
        texts(&[delta(&json!({"content": "yes"})), finish("stop"), json!("[DONE]")]),
        texts(&[json!({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}]})]),
        texts(&[json!({"error": {"message": "no"}})]),
    ];
    let is_end = |text: &str| {
        text == "[DONE]"
            || serde_json::from_str::<Value>(text).is_ok_and(|chunk| {
                let choice = &chunk["choices"][0];
                choice["finish_reason"].is_string() || choice["message"].is_object()
            })
    };
    let next = AtomicU64::new(1);
    let endpoint = Endpoint::new("p/m", "http://h");
    decode_damaged(&streams, is_end, |ids| Box::new(ChatDecoder::new(ids, &endpoint)), &next);
}

#[test]
fn reasoning_that_the_server_needs_back_is_kept_in_its_position() {
    let mut endpoint = Endpoint::new("p/m", "http://h");
    endpoint.dialect.reasoning_back = Some(ReasoningField::ReasoningContent);
    let call = json!([{"index": 0, "id": "c1", "function": {"name": "Read", "arguments": "{}"}}]);
    let chunks = [
        delta(&json!({"reasoning_content": "I should ", "content": null})),
        delta(&json!({"reasoning_content": "look."})),
        delta(&json!({"content": "Let me see."})),
        calls(&call),
        finish("tool_calls"),
    ];
    let reply = decode_from(&endpoint, &chunks);
    let [carried] = reply.opaque_items.as_slice() else { panic!("{:?}", reply.opaque_items) };
    assert_eq!(carried.data, json!({"reasoning_content": "I should look."}));
    assert_eq!((carried.model.as_str(), carried.after_bytes, carried.after_calls), ("p/m", 0, 0));
    assert_eq!(reply.reasoning, "I should look.");

    // A whole document, and a server that needs nothing back.
    let message = json!({"reasoning_content": "hm", "content": "hi", "tool_calls": call});
    let document = [json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]})];
    assert_eq!(
        decode_from(&endpoint, &document).opaque_items[0].data,
        json!({"reasoning_content": "hm"})
    );
    assert!(decode(&chunks).opaque_items.is_empty());
}

#[test]
fn fragments_of_reasoning_items_are_joined() {
    let mut endpoint = Endpoint::new("p/m", "http://h");
    endpoint.dialect.reasoning_back = Some(ReasoningField::ReasoningDetails);
    let details = |items: Value| delta(&json!({"reasoning": "x", "reasoning_details": items}));
    let chunks = [
        details(json!([{"type": "reasoning.text", "index": 0, "text": "I ", "format": "f"}])),
        details(json!([{"type": "reasoning.text", "index": 0, "text": "look."}])),
        details(json!([{"type": "reasoning.text", "index": 0, "signature": "s"}])),
        details(json!([{"type": "reasoning.encrypted", "index": 0, "data": "abc", "id": "r"}])),
        delta(&json!({"content": "done"})),
        finish("stop"),
    ];
    let reply = decode_from(&endpoint, &chunks);
    let expected = json!({"reasoning_details": [
        {"type": "reasoning.text", "index": 0, "text": "I look.", "format": "f", "signature": "s"},
        {"type": "reasoning.encrypted", "index": 0, "data": "abc", "id": "r"},
    ]});
    assert_eq!(reply.opaque_items.len(), 1);
    assert_eq!(reply.opaque_items[0].data, expected);
}
