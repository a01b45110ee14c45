//! Decodes answers of Gemini servers into deltas.
//!
//! A chunk contains whole parts. A stream has no end marker: an answer is complete when it has a finish
//! reason. Without `alt=sse` the answer is one array of chunks.

use serde_json::{Map, Value, json};

use super::{SIGNATURE, TEXT_BYTES};
use crate::wire::{Broken, Decode, Ids, filled};
use agent_protocol::model::{Delta, StopReason, Usage};

/// Finish reasons of content filters.
const FILTERS: [&str; 9] = [
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
];

/// Chunks in, deltas out.
pub(crate) struct Decoder<'a> {
    ids: Ids<'a>,
    /// `provider/model`.
    model: &'a str,
    n_calls: usize,
    /// The provider's reason for the end of the answer.
    finish: Option<String>,
    /// Its explanation.
    finish_message: Option<String>,
    /// The request was blocked.
    blocked: bool,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(model: &'a str, ids: Ids<'a>) -> Self {
        Self { ids, model, n_calls: 0, finish: None, finish_message: None, blocked: false }
    }
}

impl Decode for Decoder<'_> {
    fn push(&mut self, data: &str) -> Result<Vec<Delta>, Broken> {
        let data = data.trim();
        // Only gateways send an end marker.
        if data.is_empty() || data == "[DONE]" {
            return Ok(Vec::new());
        }
        let chunks = match serde_json::from_str(data) {
            Ok(Value::Array(chunks)) => chunks,
            Ok(chunk) => vec![chunk],
            Err(_) => return Err(Broken::Garbage(data.to_owned())),
        };
        let mut deltas = Vec::new();
        for chunk in &chunks {
            self.chunk(chunk, &mut deltas)?;
        }
        Ok(deltas)
    }

    fn is_done(&self) -> bool {
        false
    }

    fn is_finished(&self) -> bool {
        self.blocked || self.finish.is_some()
    }

    fn stop(&self) -> Option<StopReason> {
        if self.blocked {
            return Some(StopReason::Refused);
        }
        Some(match self.finish.as_deref()? {
            // Servers that imitate the API name the calls.
            "STOP" | "FUNCTION_CALL" if self.n_calls > 0 => StopReason::ToolCalls,
            "STOP" => StopReason::End,
            "MAX_TOKENS" => StopReason::Length,
            word if FILTERS.contains(&word) => StopReason::Refused,
            // A call that is malformed or was not expected, or a new reason: the answer is not complete.
            word => StopReason::Other(match &self.finish_message {
                Some(message) => format!("{word}: {message}"),
                None => word.to_owned(),
            }),
        })
    }
}

impl Decoder<'_> {
    fn chunk(&mut self, chunk: &Value, deltas: &mut Vec<Delta>) -> Result<(), Broken> {
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(Broken::Error(chunk.clone()));
        }
        if !chunk.is_object() {
            return Err(Broken::Garbage(chunk.to_string()));
        }
        // Further candidates were not requested.
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            // A call in fragments was not requested, and would be incomplete.
            if part["functionCall"]["willContinue"] == true {
                return Err(Broken::Garbage(part.to_string()));
            }
            self.part(part, deltas);
        }
        let reason = filled(&candidate["finishReason"]);
        if let Some(reason) = reason.filter(|&reason| reason != "FINISH_REASON_UNSPECIFIED") {
            self.finish = Some(reason.to_owned());
            self.finish_message = filled(&candidate["finishMessage"]).map(ToOwned::to_owned);
        }
        self.blocked |= filled(&chunk["promptFeedback"]["blockReason"]).is_some();
        deltas.extend(usage(&chunk["usageMetadata"]));
        Ok(())
    }

    fn part(&mut self, part: &Value, deltas: &mut Vec<Delta>) {
        let signature = filled(&part[SIGNATURE]);
        if let Some(call) = part["functionCall"].as_object() {
            deltas.push(self.call(call));
            let data = signature.map(|signature| json!({ SIGNATURE: signature }));
            deltas.extend(data.map(|data| self.carried(data)));
            return;
        }
        let text = part["text"].as_str();
        let is_thought = part["thought"] == true;
        if let Some(text) = text.filter(|text| !text.is_empty()).map(ToOwned::to_owned) {
            deltas.push(if is_thought { Delta::Reasoning(text) } else { Delta::Text(text) });
        }
        let Some(signature) = signature else { return };
        let data = match text {
            Some(text) if !is_thought => json!({ SIGNATURE: signature, TEXT_BYTES: text.len() }),
            _ => part.clone(),
        };
        deltas.push(self.carried(data));
    }

    /// A call, which is never split.
    fn call(&mut self, call: &Map<String, Value>) -> Delta {
        let field = |name: &str| call.get(name).unwrap_or(&Value::Null);
        let index = self.n_calls;
        self.n_calls += 1;
        Delta::Call {
            index,
            id: Some(self.ids.give(filled(field("id")))),
            name: filled(field("name")).map(ToOwned::to_owned),
            arguments: match field("args") {
                Value::Null => "{}".to_owned(),
                Value::String(text) => text.clone(),
                arguments => arguments.to_string(),
            },
        }
    }

    fn carried(&self, data: Value) -> Delta {
        Delta::Carried { model: self.model.to_owned(), data }
    }
}

/// The tokens so far: the last count is that of the whole answer.
fn usage(usage: &Value) -> Option<Delta> {
    let count = |name: &str| usage[name].as_u64();
    let output_tokens = match (count("candidatesTokenCount"), count("thoughtsTokenCount")) {
        (None, None) => None,
        (answer, thoughts) => {
            Some(answer.unwrap_or_default().saturating_add(thoughts.unwrap_or_default()))
        }
    };
    let input_tokens = count("promptTokenCount");
    if input_tokens.is_none() && output_tokens.is_none() {
        return None;
    }
    Some(Delta::Usage(Usage {
        input_tokens: input_tokens.unwrap_or_default(),
        output_tokens: output_tokens.unwrap_or_default(),
        cached_tokens: count("cachedContentTokenCount").unwrap_or_default(),
        ..Usage::default()
    }))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
