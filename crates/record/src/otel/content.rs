//! Messages, arguments and results in the form of the conventions: JSON in a text. Exported only on request.

use serde_json::{Value as Json, json};

use agent_protocol::envelope::Envelope;
use agent_protocol::event::{EventBody, ModelRequested, ModelResponded};
use agent_protocol::message::ToolCall;
use agent_protocol::model::{Purpose, StopReason};
use agent_protocol::shorten;
use agent_protocol::view::render_for_model;

/// Limit of one text in bytes; a longer one is cut.
const MAX_BYTES: usize = 16 * 1024;

/// Messages of the conversation that no request has contained yet.
#[derive(Debug, Default)]
pub(super) struct MessageContent {
    unsent: Vec<Json>,
    task: String,
}

impl MessageContent {
    pub(super) fn add_event(&mut self, body: &EventBody) {
        match body {
            EventBody::TurnStarted(message) if !message.blocked => {
                let input = message.model_text();
                self.task = shorten(input, MAX_BYTES);
                self.unsent = vec![user_message(input)];
            }
            EventBody::TurnSteered(message) if !message.blocked => {
                self.unsent.push(user_message(message.model_text()));
            }
            EventBody::Reminder { text, .. } | EventBody::Feedback { text, .. } => {
                self.unsent.push(user_message(text));
            }
            EventBody::ToolFinished { call, envelope, .. } => {
                let part = json!({"type": "tool_call_response", "id": call, "response": result_text(envelope)});
                self.unsent.push(message_json("tool", &[part]));
            }
            _ => {}
        }
    }

    /// New messages of the conversation, or a question outside of it.
    pub(super) fn request_input(&mut self, requested: &ModelRequested) -> Option<String> {
        let messages = match (requested.purpose, &requested.question) {
            (Purpose::Main, _) => std::mem::take(&mut self.unsent),
            (_, Some(question)) => vec![user_message(question)],
            (_, None) => return None,
        };
        Some(Json::from(messages).to_string())
    }

    pub(super) fn request_output(answer: &ModelResponded) -> String {
        let mut parts = Vec::new();
        if !answer.reasoning.is_empty() {
            let reasoning = shorten(&answer.reasoning, MAX_BYTES);
            parts.push(json!({"type": "reasoning", "content": reasoning}));
        }
        if !answer.text.is_empty() {
            parts.push(text_part(&answer.text));
        }
        parts.extend(answer.calls.iter().map(call_part));
        let reason = match &answer.stop {
            StopReason::End => "stop",
            StopReason::ToolCalls => "tool_call",
            StopReason::Length => "length",
            StopReason::Refused => "content_filter",
            StopReason::Repetition | StopReason::Interrupted | StopReason::Other(_) => "error",
        };
        output_messages(&parts, reason)
    }

    pub(super) fn turn_messages(&mut self, result: &str) -> (String, String) {
        let input = user_message(&std::mem::take(&mut self.task));
        (Json::from(vec![input]).to_string(), output_messages(&[text_part(result)], "stop"))
    }
}

pub(super) fn arguments_text(envelope: &Envelope) -> String {
    shorten(&Json::from(envelope.context.params_input.clone()).to_string(), MAX_BYTES)
}

pub(super) fn result_text(envelope: &Envelope) -> String {
    shorten(&render_for_model(envelope), MAX_BYTES)
}

fn output_messages(parts: &[Json], reason: &str) -> String {
    let mut message = message_json("assistant", parts);
    message["finish_reason"] = reason.into();
    Json::from(vec![message]).to_string()
}

fn message_json(role: &str, parts: &[Json]) -> Json {
    json!({"role": role, "parts": parts})
}

fn user_message(text: &str) -> Json {
    message_json("user", &[text_part(text)])
}

fn text_part(text: &str) -> Json {
    json!({"type": "text", "content": shorten(text, MAX_BYTES)})
}

fn call_part(call: &ToolCall) -> Json {
    let arguments = shorten(&call.arguments, MAX_BYTES);
    let arguments = serde_json::from_str(&arguments).unwrap_or(Json::String(arguments));
    json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
}
