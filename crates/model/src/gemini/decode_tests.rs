//! Responses in the formats of real servers.

use std::sync::atomic::AtomicU64;

use super::*;
use crate::fuzz_tests::decode_damaged;
use agent_protocol::message::OpaqueItem;
use agent_protocol::model::{Purpose, Reply, Request, Usage};

const MODEL: &str = "google/gemini-3-pro";

fn decode_texts(texts: &[String]) -> Result<Reply, DecodeError> {
    let next = AtomicU64::new(1);
    let request = Request::new(Purpose::Main, "", &[]);
    let mut decoder = GeminiDecoder::new(MODEL, CallIds::new("call_", &next, &request));
    let mut reply = Reply::default();
    for text in texts {
        for delta in decoder.push(text)? {
            reply.apply_delta(&delta);
        }
    }
    if let Some(stop) = decoder.stop_reason() {
        assert!(decoder.is_answer_complete());
        reply.apply_delta(&Delta::Done(stop));
    }
    Ok(reply)
}

fn decode(chunks: &[Value]) -> Reply {
    let texts = chunks.iter().map(ToString::to_string).collect::<Vec<_>>();
    decode_texts(&texts).expect("no error in it")
}

fn parts(parts: &Value) -> Value {
    json!({"candidates": [{"content": {"parts": parts, "role": "model"}, "index": 0}],
           "modelVersion": "gemini-3-pro", "responseId": "r"})
}

fn finish(reason: &str) -> Value {
    json!({"candidates": [{"content": {"parts": [{"text": ""}], "role": "model"},
                           "finishReason": reason, "index": 0}]})
}

fn carried(after_bytes: usize, after_calls: usize, data: Value) -> OpaqueItem {
    OpaqueItem { model: MODEL.to_owned(), after_bytes, after_calls, data }
}

#[test]
fn text_thoughts_and_usage() {
    let reply = decode(&[
        parts(&json!([{"text": "hm", "thought": true}])),
        json!({"candidates": [{"content": {"parts": [{"text": "Hel"}]}}],
               "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 1, "totalTokenCount": 8}}),
        parts(&json!([{"text": "l"}, {"text": "o"}])),
        json!({"candidates": [{"content": {"role": "model"}, "finishReason": "STOP"}],
               "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2,
                                 "thoughtsTokenCount": 40, "cachedContentTokenCount": 3}}),
    ]);
    assert_eq!((reply.reasoning.as_str(), reply.text.as_str()), ("hm", "Hello"));
    let usage = Usage { input_tokens: 7, output_tokens: 42, cached_tokens: 3, ..Usage::default() };
    assert_eq!(reply.usage, Some(usage));
    assert_eq!(reply.stop, Some(StopReason::End));
    assert_eq!(reply.opaque_items, []);
}

#[test]
fn calls_are_whole_and_have_ids() {
    let reply = decode(&[
        parts(&json!([
            {"functionCall": {"name": "Read", "args": {"path": "a", "n": 1}}, "thoughtSignature": "s1"},
            {"functionCall": {"name": "LS", "id": "x"}},
        ])),
        parts(&json!([{"functionCall": {"name": "Read", "args": {}, "id": "x"}}])),
        finish("STOP"),
    ]);
    let calls = reply.calls.iter().map(|call| [&call.id, &call.name, &call.arguments]);
    assert_eq!(
        calls.collect::<Vec<_>>(),
        [
            ["call_1", "Read", "{\"path\":\"a\",\"n\":1}"],
            ["x", "LS", "{}"],
            ["call_2", "Read", "{}"]
        ]
    );
    assert_eq!(reply.opaque_items, [carried(0, 1, json!({"thoughtSignature": "s1"}))]);
    assert_eq!(reply.stop, Some(StopReason::ToolCalls));
}

#[test]
fn signatures_follow_the_parts_that_they_belong_to() {
    let thought = json!({"text": "hm", "thought": true, "thoughtSignature": "s0"});
    let reply = decode(&[
        parts(&json!([thought.clone()])),
        parts(&json!([{"text": "Good"}])),
        parts(&json!([{"text": "é", "thoughtSignature": "s1"}, {"text": "!"}])),
        parts(&json!([{"text": "", "thoughtSignature": "s2"}])),
        finish("STOP"),
    ]);
    assert_eq!((reply.reasoning.as_str(), reply.text.as_str()), ("hm", "Goodé!"));
    assert_eq!(
        reply.opaque_items,
        [
            carried(0, 0, thought),
            carried(6, 0, json!({"thoughtSignature": "s1", "textBytes": 2})),
            carried(7, 0, json!({"thoughtSignature": "s2", "textBytes": 0})),
        ]
    );
}

#[test]
fn whole_answers_are_decoded_like_streams() {
    let chunks = [parts(&json!([{"text": "a"}])), parts(&json!([{"text": "b"}])), finish("STOP")];
    let array = decode(&[Value::from(chunks.to_vec())]);
    assert_eq!(array, decode(&chunks));
    assert_eq!((array.text.as_str(), array.stop), ("ab", Some(StopReason::End)));
    let one =
        json!({"candidates": [{"content": {"parts": [{"text": "ab"}]}, "finishReason": "STOP"}]});
    assert_eq!(decode(&[one]).text, "ab");
}

#[test]
fn reasons_to_stop() {
    fn check(chunks: &[Value], expected: impl Into<Option<StopReason>>) {
        assert_eq!(decode(chunks).stop, expected.into(), "{chunks:?}");
    }
    let text = parts(&json!([{"text": "a"}]));
    let call = parts(&json!([{"functionCall": {"name": "Read", "args": {}}}]));
    check(std::slice::from_ref(&text), None);
    check(std::slice::from_ref(&call), None);
    check(&[call.clone(), finish("FINISH_REASON_UNSPECIFIED")], None);
    check(&[call.clone(), finish("MAX_TOKENS")], StopReason::Length);
    check(&[call.clone(), finish("FUNCTION_CALL")], StopReason::ToolCalls);
    check(&[call, finish("SAFETY")], StopReason::Refused);
    for filter in FILTERS {
        check(&[text.clone(), finish(filter)], StopReason::Refused);
    }
    check(&[finish("NEW_REASON")], StopReason::Other("NEW_REASON".to_owned()));
    let blocked = json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"},
                         "usageMetadata": {"promptTokenCount": 4}});
    check(&[blocked], StopReason::Refused);
    check(&[json!({"promptFeedback": {"safetyRatings": []}}), text], None);
}

#[test]
fn errors_and_failed_answers_are_rejected() {
    fn check(data: &str, is_error: bool) {
        match decode_texts(&[data.to_owned()]) {
            Err(DecodeError::ServerError(_)) => assert!(is_error, "{data}"),
            Err(DecodeError::Malformed(_)) => assert!(!is_error, "{data}"),
            Ok(reply) => panic!("{data} gave {reply:?}"),
        }
    }
    check(r#"{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}"#, true);
    check(r#"[{"candidates": []}, {"error": {"code": 503, "message": "overloaded"}}]"#, true);
    check(r#"{"error": "overloaded"}"#, true);
    check("{\"candidates", false);
    check("<html>", false);
    check("3", false);
    let fragment = json!([{"functionCall": {"name": "Write", "willContinue": true}}]);
    check(&parts(&fragment).to_string(), false);
    let malformed = json!({"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL",
                           "finishMessage": "Malformed function call: print(default_api.Read("}]});
    // Such an answer is not complete: the attempt fails.
    let reason = "MALFORMED_FUNCTION_CALL: Malformed function call: print(default_api.Read(";
    assert_eq!(decode(&[malformed]).stop, Some(StopReason::Other(reason.to_owned())));
}

#[test]
fn unknown_and_empty_chunks_are_skipped() {
    let odd =
        json!({"candidates": null, "usageMetadata": {"promptTokenCount": null}, "error": null});
    let parts = parts(
        &json!([{}, null, {"text": null}, {"executableCode": {"code": "x"}}, {"thought": true}]),
    );
    let reply = decode(&[odd, parts, json!({"type": "ping"})]);
    assert_eq!(reply, Reply::default());
    let empty = decode_texts(&[String::new(), "[DONE]".to_owned()]);
    assert_eq!(empty, Ok(Reply::default()));
}

/// Mutated streams never panic, and are complete only with a finish reason.
#[test]
#[ignore = "slow"]
fn damaged_streams_are_decoded_or_rejected() {
    let chunks = [
        parts(&json!([{"text": "hmé", "thought": true, "thoughtSignature": "s0"}])),
        parts(&json!([{"text": "Good"}, {"text": "é", "thoughtSignature": "s1"}])),
        parts(&json!([{"functionCall": {"name": "Read", "args": {"path": "a"}, "id": "x"},
                       "thoughtSignature": "s2"}, {"functionCall": {"name": "LS"}}])),
        json!({"candidates": [{"finishReason": "STOP"}],
               "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2}}),
    ];
    let streams = [chunks.iter().map(Value::to_string).collect()];
    let next = AtomicU64::new(1);
    decode_damaged(
        &streams,
        |text| text.contains("\"STOP\""),
        |ids| Box::new(GeminiDecoder::new(MODEL, ids)),
        &next,
    );
}
