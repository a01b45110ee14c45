//! Encodes requests for Chat Completions servers.
//!
//! The keys have a fixed order with `messages` last, so that the next request of a conversation begins with
//! the bytes of this one: providers cache by prefix.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use crate::model::endpoint::Endpoint;
use crate::model::wire::{Encoded, call_arguments, call_name};
use crate::protocol::message::{Message, Part, Role};
use crate::protocol::model::Request;
use crate::protocol::provider::Dialect;

/// The request.
pub(in crate::model) fn encode(request: &Request<'_>, endpoint: &Endpoint) -> Encoded {
    let body = body(request, &endpoint.model, endpoint.dialect);
    Encoded { path: super::PATH.to_owned(), body }
}

fn body(request: &Request<'_>, model: &str, dialect: Dialect) -> Vec<u8> {
    let limit = request.max_output_tokens;
    let body = Body {
        model,
        stream: true,
        stream_options: (!dialect.no_stream_options)
            .then_some(StreamOptions { include_usage: true }),
        max_tokens: limit.filter(|_| !dialect.max_completion_tokens),
        max_completion_tokens: limit.filter(|_| dialect.max_completion_tokens),
        // Reasoning models reject other temperatures than their own.
        temperature: request.temperature.filter(|_| !dialect.structured_outputs),
        response_format: request.answer_schema.filter(|_| dialect.structured_outputs).map(
            |schema| json!({"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}),
        ),
        tools: request
            .tools
            .iter()
            .map(|tool| {
                json!({"type": "function", "function": {
                    "name": tool.name, "description": tool.description, "parameters": tool.parameters(),
                }})
            })
            .collect(),
        messages: messages(request),
    };
    serde_json::to_vec(&body).expect("strings and numbers always serialise")
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    messages: Vec<Sent<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// A message as sent.
#[derive(Serialize)]
struct Sent<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    /// Never null: servers reject that together with calls.
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<SentCall<'a>>,
}

#[derive(Serialize)]
struct SentCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: SentFunction<'a>,
}

#[derive(Serialize)]
struct SentFunction<'a> {
    name: Cow<'a, str>,
    arguments: Cow<'a, str>,
}

fn messages<'a>(request: &Request<'a>) -> Vec<Sent<'a>> {
    let mut sent = Vec::with_capacity(request.messages.len() + 2);
    if !request.system.is_empty() {
        sent.push(plain("system", Cow::Borrowed(request.system)));
    }
    for message in request.messages {
        match message.role {
            // Many chat templates allow a system message only at the beginning.
            Role::System | Role::User => sent.push(plain("user", words(message))),
            Role::Assistant => sent.extend(assistant(message)),
            Role::Tool => sent.extend(results(message)),
        }
    }
    sent
}

fn plain<'a>(role: &'static str, content: Cow<'a, str>) -> Sent<'a> {
    Sent { role, tool_call_id: None, content, tool_calls: Vec::new() }
}

/// An answer as it is sent back; an empty one is left out, because servers reject it.
fn assistant(message: &Message) -> Option<Sent<'_>> {
    let content = words(message);
    let tool_calls = message
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Call(call) => Some(SentCall {
                id: &call.id,
                r#type: "function",
                function: SentFunction { name: call_name(call), arguments: call_arguments(call) },
            }),
            Part::Text { .. } | Part::Image(_) | Part::Carried(_) | Part::Result(_) => None,
        })
        .collect::<Vec<_>>();
    (!content.is_empty() || !tool_calls.is_empty()).then_some(Sent {
        role: "assistant",
        tool_call_id: None,
        content,
        tool_calls,
    })
}

/// One message for each result.
fn results(message: &Message) -> impl Iterator<Item = Sent<'_>> {
    message.parts.iter().filter_map(|part| match part {
        Part::Result(result) => Some(Sent {
            role: "tool",
            tool_call_id: Some(&result.call),
            content: Cow::Borrowed(&result.text),
            tool_calls: Vec::new(),
        }),
        Part::Text { .. } | Part::Image(_) | Part::Carried(_) | Part::Call(_) => None,
    })
}

/// The texts of a message, as one.
fn words(message: &Message) -> Cow<'_, str> {
    let mut words = Cow::Borrowed("");
    for part in &message.parts {
        match part {
            Part::Text { text } if words.is_empty() => words = Cow::Borrowed(text),
            Part::Text { text } => words = Cow::Owned(format!("{words}\n\n{text}")),
            Part::Image(_) | Part::Carried(_) | Part::Call(_) | Part::Result(_) => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{ToolCall, ToolResult};
    use crate::protocol::model::Purpose;
    use crate::protocol::tool::ToolSpec;

    fn request(messages: &[Message]) -> Request<'_> {
        Request::new(Purpose::Main, "be brief", messages)
    }

    fn call(name: &str, arguments: &str) -> Part {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        Part::Call(ToolCall { id: "call_1".to_owned(), name, arguments })
    }

    fn result(text: &str) -> Part {
        Part::Result(ToolResult {
            call: "call_1".into(),
            text: text.into(),
            is_error: false,
            images: vec![],
        })
    }

    fn encoded(request: &Request<'_>) -> String {
        String::from_utf8(body(request, "m", Dialect::default())).expect("JSON is UTF-8")
    }

    #[test]
    fn a_whole_conversation() {
        let tools = [ToolSpec {
            name: "Read",
            description: "reads".into(),
            schema: json!({"type": "object"}),
        }];
        let messages = [
            Message::text(Role::User, "fix it"),
            Message { role: Role::Assistant, parts: vec![call("Read", "{\"path\": \"a\"}")] },
            Message { role: Role::Tool, parts: vec![result("one"), result("two")] },
            Message { role: Role::User, parts: vec![] },
        ];
        let request = Request {
            tools: &tools,
            max_output_tokens: Some(9),
            temperature: Some(0.5),
            ..request(&messages)
        };
        assert_eq!(
            encoded(&request),
            concat!(
                r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"#,
                r#""max_tokens":9,"temperature":0.5,"tools":[{"type":"function","function":"#,
                r#"{"name":"Read","description":"reads","parameters":{"type":"object"}}}],"#,
                r#""messages":[{"role":"system","content":"be brief"},"#,
                r#"{"role":"user","content":"fix it"},"#,
                r#"{"role":"assistant","content":"","tool_calls":[{"id":"call_1","type":"function","#,
                r#""function":{"name":"Read","arguments":"{\"path\": \"a\"}"}}]},"#,
                r#"{"role":"tool","tool_call_id":"call_1","content":"one"},"#,
                r#"{"role":"tool","tool_call_id":"call_1","content":"two"},"#,
                r#"{"role":"user","content":""}]}"#,
            )
        );
    }

    #[test]
    fn encoded_request_is_a_prefix_of_the_next() {
        let mut messages = vec![Message::text(Role::User, "fix it")];
        let first = encoded(&request(&messages));
        messages.push(Message { role: Role::Assistant, parts: vec![call("Read", "{}")] });
        messages.push(Message { role: Role::Tool, parts: vec![result("text")] });
        let second = encoded(&request(&messages));
        assert!(second.starts_with(first.strip_suffix("]}").expect("the messages are last")));
    }

    #[test]
    fn invalid_calls_are_repaired_when_encoded() {
        fn check(name: &str, arguments: &str, expected: &str) {
            let messages = [Message { role: Role::Assistant, parts: vec![call(name, arguments)] }];
            let encoded = encoded(&request(&messages));
            assert!(encoded.contains(expected), "{expected} is not in {encoded}");
        }
        check("Read", "", r#""arguments":"{}""#);
        check("Read", "{\"a\":", r#""arguments":"{\"malformed_arguments\":\"{\\\"a\\\":\"}""#);
        check("Read", "[1]", "malformed_arguments");
        check("functions.Read file", "{}", r#""name":"functions_Read_file""#);
        check("", "{}", r#""name":"unnamed""#);

        let silent = [Message { role: Role::Assistant, parts: vec![] }];
        assert!(!encoded(&request(&silent)).contains("assistant"));
    }

    #[test]
    fn dialect_is_applied() {
        let dialect = Dialect {
            max_completion_tokens: true,
            no_stream_options: true,
            structured_outputs: true,
        };
        let request = Request { max_output_tokens: Some(9), system: "", ..request(&[]) };
        assert_eq!(
            String::from_utf8_lossy(&body(&request, "m", dialect)),
            r#"{"model":"m","stream":true,"max_completion_tokens":9,"messages":[]}"#
        );
        let schema = json!({"type": "object"});
        let held = Request { answer_schema: Some(&schema), temperature: Some(0.5), ..request };
        assert_eq!(
            String::from_utf8_lossy(&body(&held, "m", dialect)),
            r#"{"model":"m","stream":true,"max_completion_tokens":9,"response_format":"#.to_owned()
                + r#"{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"object"}}},"messages":[]}"#
        );
        let plain = body(&held, "m", Dialect::default());
        assert!(!String::from_utf8_lossy(&plain).contains("response_format"));
    }
}
