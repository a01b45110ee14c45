//! Answers of OpenAI Chat Completions.

use serde_json::{Value, json};

use crate::server::{self, Reply, json as document, sse_raw};

pub(crate) fn text(text: &str) -> Reply {
    server::sse_text(text)
}

pub(crate) fn calls(calls: &[(&str, Value)]) -> Reply {
    server::sse_calls(calls)
}

/// An answer that the token limit cuts off in a text.
pub(crate) fn cut_off(text: &str) -> Reply {
    let chunk = json!({"choices": [{"delta": {"content": text}, "finish_reason": "length"}]});
    sse_raw(&[&chunk.to_string(), "[DONE]"])
}

/// An answer that the provider withholds.
pub(crate) fn refused() -> Reply {
    let chunk = json!({"choices": [{"delta": {}, "finish_reason": "content_filter"}]});
    sse_raw(&[&chunk.to_string(), "[DONE]"])
}

/// An error in a stream that began well.
pub(crate) fn error_event(kind: &str) -> Reply {
    let half = json!({"choices": [{"delta": {"content": "half"}}]});
    sse_raw(&[&half.to_string(), &body(kind).to_string()])
}

/// A refused request.
pub(crate) fn error(status: u16, kind: &str) -> Reply {
    document(status, &body(kind))
}

fn body(kind: &str) -> Value {
    let (code, message) = match kind {
        "overloaded" => ("server_error", "The server is overloaded"),
        "rate" => ("rate_limit_exceeded", "Rate limit reached on tokens per min (TPM)"),
        "overflow" => (
            "context_length_exceeded",
            "This model's maximum context length is 8192 tokens. Reduce the length of the messages.",
        ),
        "bad request" => ("invalid_request_error", "Invalid value of a parameter"),
        other => panic!("no error is called {other}"),
    };
    json!({"error": {"message": message, "type": code, "param": null, "code": code}})
}
