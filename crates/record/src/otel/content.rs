//! Messages, arguments and results, in the form of the conventions: JSON in a text. Only on request.

use serde_json::{Value as Json, json};

use agent_protocol::envelope::Envelope;
use agent_protocol::event::{Body, ModelRequested, ModelResponded};
use agent_protocol::message::ToolCall;
use agent_protocol::model::{Purpose, StopReason};
use agent_protocol::shorten;
use agent_protocol::view::view;

/// Limit of one text, in bytes; a longer one is cut.
const MAX_BYTES: usize = 16 * 1024;

/// The messages of the conversation that no request had yet.
#[derive(Debug, Default)]
pub(super) struct Content {
    new: Vec<Json>,
    /// The user's message.
    task: String,
}

impl Content {
    /// Takes the messages of an event.
    pub(super) fn apply(&mut self, body: &Body) {
        match body {
            Body::TurnStarted { input, shown, blocked: false, .. } => {
                let input = shown.as_ref().unwrap_or(input);
                self.task = shorten(input, MAX_BYTES);
                self.new = vec![message("user", &[text(input)])];
            }
            Body::TurnSteered { input, shown, blocked: false, .. } => {
                self.new.push(message("user", &[text(shown.as_ref().unwrap_or(input))]));
            }
            Body::Reminder { text: words, .. } | Body::Feedback { text: words, .. } => {
                self.new.push(message("user", &[text(words)]));
            }
            Body::ToolFinished { call, envelope, .. } => {
                let part =
                    json!({"type": "tool_call_response", "id": call, "response": result(envelope)});
                self.new.push(message("tool", &[part]));
            }
            _ => {}
        }
    }

    /// The input of a request: what is new in the conversation, or a question outside of it.
    pub(super) fn asked(&mut self, requested: &ModelRequested) -> Option<String> {
        let messages = match (requested.purpose, &requested.question) {
            (Purpose::Main, _) => std::mem::take(&mut self.new),
            (_, Some(question)) => vec![message("user", &[text(question)])],
            (_, None) => return None,
        };
        Some(Json::from(messages).to_string())
    }

    /// The output of a request.
    pub(super) fn answer(answer: &ModelResponded) -> String {
        let mut parts = Vec::new();
        if !answer.reasoning.is_empty() {
            let reasoning = shorten(&answer.reasoning, MAX_BYTES);
            parts.push(json!({"type": "reasoning", "content": reasoning}));
        }
        if !answer.text.is_empty() {
            parts.push(text(&answer.text));
        }
        parts.extend(answer.calls.iter().map(call));
        let reason = match &answer.stop {
            StopReason::End => "stop",
            StopReason::ToolCalls => "tool_call",
            StopReason::Length => "length",
            StopReason::Refused => "content_filter",
            StopReason::Interrupted | StopReason::Other(_) => "error",
        };
        output(&parts, reason)
    }

    /// The input and the output of the whole turn.
    pub(super) fn turn(&mut self, result: &str) -> (String, String) {
        let input = message("user", &[text(&std::mem::take(&mut self.task))]);
        (Json::from(vec![input]).to_string(), output(&[text(result)], "stop"))
    }
}

/// The arguments of a call.
pub(super) fn arguments(envelope: &Envelope) -> String {
    shorten(&Json::from(envelope.context.params_input.clone()).to_string(), MAX_BYTES)
}

/// The result of a call, as the model receives it.
pub(super) fn result(envelope: &Envelope) -> String {
    shorten(&view(envelope), MAX_BYTES)
}

fn output(parts: &[Json], reason: &str) -> String {
    let mut message = message("assistant", parts);
    message["finish_reason"] = reason.into();
    Json::from(vec![message]).to_string()
}

fn message(role: &str, parts: &[Json]) -> Json {
    json!({"role": role, "parts": parts})
}

fn text(text: &str) -> Json {
    json!({"type": "text", "content": shorten(text, MAX_BYTES)})
}

fn call(call: &ToolCall) -> Json {
    let arguments = shorten(&call.arguments, MAX_BYTES);
    let arguments = serde_json::from_str(&arguments).unwrap_or(Json::String(arguments));
    json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
}
