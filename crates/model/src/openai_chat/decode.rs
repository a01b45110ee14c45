//! Decodes answers of Chat Completions servers into deltas, including deviations from the standard.
//!
//! A whole `chat.completion` is decoded like a stream of one chunk, so that servers without streaming need no
//! special case.

use serde_json::{Value, json};

use super::thinking::ThinkingReader;
use crate::endpoint::Endpoint;
use crate::wire_format::{
    AnswerDecoder, CallIds, DecodeError, non_empty_str, parse_event, usage_delta,
};
use agent_protocol::Object;
use agent_protocol::model::{Delta, StopReason};
use agent_protocol::provider::ReasoningField;

pub(crate) struct ChatDecoder<'a> {
    ids: CallIds<'a>,
    endpoint: &'a Endpoint,
    /// Kept until it is complete, for servers that need it back.
    reasoning: ReasoningBuffer,
    thinking: ThinkingReader,
    slots: Vec<CallSlot>,
    finish: Option<String>,
    has_text: bool,
    refused: bool,
    /// `[DONE]` was received.
    done: bool,
}

/// The position of a slot is the index of its call in the deltas.
struct CallSlot {
    /// Index and id are those of the server.
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    arguments: String,
}

impl<'a> ChatDecoder<'a> {
    pub(crate) fn new(ids: CallIds<'a>, endpoint: &'a Endpoint) -> Self {
        Self {
            ids,
            endpoint,
            reasoning: ReasoningBuffer::default(),
            thinking: ThinkingReader::default(),
            slots: Vec::new(),
            finish: None,
            has_text: false,
            refused: false,
            done: false,
        }
    }
}

impl AnswerDecoder for ChatDecoder<'_> {
    fn push(&mut self, data: &str) -> Result<Vec<Delta>, DecodeError> {
        let data = data.trim();
        if data == "[DONE]" {
            self.done = true;
            return Ok(Vec::new());
        }
        if data.is_empty() {
            return Ok(Vec::new());
        }
        let chunk = parse_event(data, is_error)?;
        let mut deltas = Vec::new();
        // Further choices were not requested.
        if let Some(choice) = chunk["choices"].get(0) {
            for message in [&choice["delta"], &choice["message"]] {
                self.decode_message(message, &mut deltas);
            }
            if let Some(text) = non_empty_str(&choice["text"]) {
                deltas.push(Delta::Text(text.to_owned()));
            }
            let reason = non_empty_str(&choice["finish_reason"]).filter(|&reason| reason != "null");
            if let Some(reason) = reason {
                self.finish = Some(reason.to_owned());
            } else if choice["message"].is_object() && self.finish.is_none() {
                self.finish = Some("stop".to_owned());
            }
            if self.finish.is_some() {
                deltas.extend(self.take_opaque_delta());
            }
        }
        self.has_text |= deltas.iter().any(|delta| matches!(delta, Delta::Text(_)));
        let mut deltas = self.thinking.read(deltas);
        deltas.extend([&chunk["usage"], &chunk["x_groq"]["usage"]].into_iter().find_map(usage));
        Ok(deltas)
    }

    fn finish(&mut self) -> Vec<Delta> {
        self.thinking.finish()
    }

    fn is_stream_over(&self) -> bool {
        self.done
    }

    fn is_answer_complete(&self) -> bool {
        self.done || self.finish.is_some()
    }

    fn stop_reason(&self) -> Option<StopReason> {
        if !self.is_answer_complete() {
            return None;
        }
        let complete = if self.slots.is_empty() { StopReason::End } else { StopReason::ToolCalls };
        let Some(reason) = self.finish.as_deref() else {
            // `[DONE]` without a reason: gateways to other wire formats never send one, and gateways whose own
            // upstream broke send the same. An answer whose calls are all whole is taken, as other clients do;
            // otherwise such a server could not be used at all. Nothing at all, or half a call, is a failure.
            let is_whole =
                |slot: &CallSlot| serde_json::from_str::<Object>(&slot.arguments).is_ok();
            let is_answer = self.has_text || !self.slots.is_empty();
            if self.refused {
                return Some(StopReason::Refused);
            }
            return (is_answer && self.slots.iter().all(is_whole)).then_some(complete);
        };
        // Some gateways write the reasons of their upstream's format.
        Some(match reason.to_lowercase().as_str() {
            "length" | "max_tokens" | "model_length" | "model_context_window_exceeded" => {
                StopReason::Length
            }
            // `sensitive` is Z.ai's word.
            "content_filter" | "sensitive" => StopReason::Refused,
            _ if self.refused => StopReason::Refused,
            // Many servers send "stop" after calls, and some "tool_calls" without any; the last two are those of
            // Text Generation Inference.
            "stop" | "end_turn" | "eos" | "tool_calls" | "function_call" | "eos_token"
            | "stop_sequence" => complete,
            // `insufficient_system_resource`, `abort`, `error`, `network_error`.
            _ => StopReason::Other(reason.to_owned()),
        })
    }
}

impl ChatDecoder<'_> {
    /// `message` is a `delta` or a `message`.
    fn decode_message(&mut self, message: &Value, deltas: &mut Vec<Delta>) {
        let reasoning = non_empty_str(&message["reasoning_content"])
            .or_else(|| non_empty_str(&message["reasoning"]));
        self.reasoning.add(self.endpoint.dialect.reasoning_back, reasoning, message);
        deltas.extend(reasoning.map(|text| Delta::Reasoning(text.to_owned())));
        let begun = deltas.len();
        match &message["content"] {
            Value::String(text) if !text.is_empty() => deltas.push(Delta::Text(text.clone())),
            Value::Array(parts) => deltas.extend(parts.iter().filter_map(decode_part)),
            _ => {}
        }
        if let Some(text) = non_empty_str(&message["refusal"]) {
            self.refused = true;
            deltas.push(Delta::Text(text.to_owned()));
        }
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        for call in calls {
            deltas.extend(self.decode_call(call, &call["function"]));
        }
        // Some servers send the old form in addition to the new one, with the same content.
        if calls.is_empty() && message["function_call"].is_object() {
            deltas.extend(self.decode_call(&Value::Null, &message["function_call"]));
        }
        // What follows the reasoning shows that it is complete.
        if deltas[begun..].iter().any(|delta| !matches!(delta, Delta::Reasoning(_))) {
            deltas.splice(begun..begun, self.take_opaque_delta());
        }
    }

    fn take_opaque_delta(&mut self) -> Option<Delta> {
        let data = self.reasoning.take()?;
        Some(Delta::Opaque { model: self.endpoint.id.clone(), data })
    }

    fn decode_call(&mut self, call: &Value, function: &Value) -> Option<Delta> {
        let index = call["index"].as_u64();
        let id = non_empty_str(&call["id"]);
        let name = non_empty_str(&function["name"]);
        let arguments = match &function["arguments"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            object => object.to_string(),
        };
        if id.is_none() && name.is_none() && arguments.is_empty() {
            return None;
        }
        let known = self.slots.iter().rposition(|slot| slot.may_hold(index, id));
        let known =
            known.filter(|&at| !self.slots[at].starts_other_call(index, id, name, &arguments));
        Some(match known {
            Some(at) => {
                let slot = &mut self.slots[at];
                slot.arguments.push_str(&arguments);
                let name = name.filter(|_| slot.name.is_none()).map(ToOwned::to_owned);
                slot.name = slot.name.take().or_else(|| name.clone());
                Delta::Call { index: at, id: None, name, arguments }
            }
            None => {
                let name = name.map(ToOwned::to_owned);
                self.slots.push(CallSlot {
                    index,
                    id: id.map(ToOwned::to_owned),
                    name: name.clone(),
                    arguments: arguments.clone(),
                });
                let index = self.slots.len() - 1;
                Delta::Call { index, id: Some(self.ids.assign(id)), name, arguments }
            }
        })
    }
}

impl CallSlot {
    fn may_hold(&self, index: Option<u64>, id: Option<&str>) -> bool {
        match (index, id) {
            (Some(_), _) => self.index == index,
            (None, Some(_)) => self.id.as_deref() == id,
            (None, None) => true,
        }
    }

    fn starts_other_call(
        &self,
        index: Option<u64>,
        id: Option<&str>,
        name: Option<&str>,
        arguments: &str,
    ) -> bool {
        // According to the standard only the first fragment of a call has a name.
        let (Some(name), Some(own_name)) = (name, self.name.as_deref()) else { return false };
        let other_id = id.is_some() && id != self.id.as_deref();
        let other_name = index.is_none() && name != own_name;
        // The same name again: either repeated in every fragment, or another call of the tool.
        let whole = serde_json::from_str::<Object>(&self.arguments).is_ok();
        other_id || other_name || (whole && !arguments.is_empty())
    }
}

/// Reasoning in the form in which it is sent back.
#[derive(Default)]
struct ReasoningBuffer {
    content: String,
    details: Vec<Value>,
}

impl ReasoningBuffer {
    fn add(&mut self, back: Option<ReasoningField>, text: Option<&str>, message: &Value) {
        match back {
            None => {}
            Some(ReasoningField::ReasoningContent) => {
                self.content.push_str(text.unwrap_or_default());
            }
            Some(ReasoningField::ReasoningDetails) => {
                let items = message["reasoning_details"].as_array().into_iter().flatten();
                items.for_each(|item| self.add_detail(item));
            }
        }
    }

    /// Fragments of an item have the same index and type.
    fn add_detail(&mut self, item: &Value) {
        let is_same = |last: &&mut Value| {
            ["type", "index"].iter().all(|key| last[*key] == item[*key]) && item["index"].is_u64()
        };
        let (Some(last), Some(item)) = (self.details.last_mut().filter(is_same), item.as_object())
        else {
            return self.details.push(item.clone());
        };
        for (key, value) in item {
            match (&mut last[key.as_str()], value) {
                (Value::String(text), Value::String(more))
                    if ["text", "summary", "data"].contains(&key.as_str()) =>
                {
                    text.push_str(more);
                }
                (empty @ Value::Null, _) => *empty = value.clone(),
                _ => {}
            }
        }
    }

    fn take(&mut self) -> Option<Value> {
        let Self { content, details } = std::mem::take(self);
        if !details.is_empty() {
            return Some(json!({"reasoning_details": details}));
        }
        (!content.is_empty()).then(|| json!({"reasoning_content": content}))
    }
}

/// Some servers send error objects with status 200.
fn is_error(chunk: &Value) -> bool {
    let named = |key: &str| chunk.get(key).is_some_and(|value| !value.is_null());
    let answered = chunk["choices"].get(0).is_some();
    match chunk {
        Value::Array(items) => items.first().is_some_and(is_error),
        _ if chunk["error"].is_boolean() => chunk["error"] == true,
        _ => {
            named("error")
                || chunk["object"] == "error"
                || chunk["type"] == "error"
                || (!answered && named("detail"))
        }
    }
}

fn decode_part(part: &Value) -> Option<Delta> {
    if let Some(text) = non_empty_str(&part["text"]) {
        return Some(Delta::Text(text.to_owned()));
    }
    let thinking = match &part["thinking"] {
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        Value::String(text) => text.clone(),
        _ => String::new(),
    };
    (!thinking.is_empty()).then_some(Delta::Reasoning(thinking))
}

fn usage(usage: &Value) -> Option<Delta> {
    let count = |value: &Value| value.as_u64();
    let input = count(&usage["prompt_tokens"]).or(count(&usage["input_tokens"]));
    let output = count(&usage["completion_tokens"]).or(count(&usage["output_tokens"]));
    let cached = count(&usage["prompt_tokens_details"]["cached_tokens"])
        .or(count(&usage["prompt_cache_hit_tokens"]))
        .or(count(&usage["cached_tokens"]));
    usage_delta(input, output, cached)
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
