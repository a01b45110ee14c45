//! Decodes answers of Gemini servers into deltas.
//!
//! A chunk contains whole parts; without `alt=sse` the answer is one array of chunks. A stream has
//! no end marker: an answer is complete when it has a finish reason.

use serde_json::{Map, Value, json};

use super::{SIGNATURE, TEXT_BYTES};
use crate::wire_format::{AnswerDecoder, CallIds, DecodeError, non_empty_str, usage_delta};
use agent_protocol::model::{Delta, StopReason};

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

pub(crate) struct GeminiDecoder<'a> {
    ids: CallIds<'a>,
    /// `provider/model`.
    model: &'a str,
    n_calls: usize,
    finish: Option<String>,
    finish_message: Option<String>,
    blocked: bool,
}

impl<'a> GeminiDecoder<'a> {
    pub(crate) fn new(model: &'a str, ids: CallIds<'a>) -> Self {
        Self { ids, model, n_calls: 0, finish: None, finish_message: None, blocked: false }
    }
}

impl AnswerDecoder for GeminiDecoder<'_> {
    fn push(&mut self, data: &str) -> Result<Vec<Delta>, DecodeError> {
        let data = data.trim();
        // Only gateways send an end marker.
        if data.is_empty() || data == "[DONE]" {
            return Ok(Vec::new());
        }
        let chunks = match serde_json::from_str(data) {
            Ok(Value::Array(chunks)) => chunks,
            Ok(chunk) => vec![chunk],
            Err(_) => return Err(DecodeError::Malformed(data.to_owned())),
        };
        let mut deltas = Vec::new();
        for chunk in &chunks {
            self.decode_chunk(chunk, &mut deltas)?;
        }
        Ok(deltas)
    }

    fn is_stream_over(&self) -> bool {
        false
    }

    fn is_answer_complete(&self) -> bool {
        self.blocked || self.finish.is_some()
    }

    fn stop_reason(&self) -> Option<StopReason> {
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

impl GeminiDecoder<'_> {
    fn decode_chunk(&mut self, chunk: &Value, deltas: &mut Vec<Delta>) -> Result<(), DecodeError> {
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(DecodeError::ServerError(chunk.clone()));
        }
        if !chunk.is_object() {
            return Err(DecodeError::Malformed(chunk.to_string()));
        }
        // Further candidates were not requested.
        let candidate = &chunk["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            // A call in fragments was not requested, and would be incomplete.
            if part["functionCall"]["willContinue"] == true {
                return Err(DecodeError::Malformed(part.to_string()));
            }
            self.decode_part(part, deltas);
        }
        let reason = non_empty_str(&candidate["finishReason"]);
        if let Some(reason) = reason.filter(|&reason| reason != "FINISH_REASON_UNSPECIFIED") {
            self.finish = Some(reason.to_owned());
            self.finish_message = non_empty_str(&candidate["finishMessage"]).map(ToOwned::to_owned);
        }
        self.blocked |= non_empty_str(&chunk["promptFeedback"]["blockReason"]).is_some();
        deltas.extend(usage(&chunk["usageMetadata"]));
        Ok(())
    }

    fn decode_part(&mut self, part: &Value, deltas: &mut Vec<Delta>) {
        let signature = non_empty_str(&part[SIGNATURE]);
        if let Some(call) = part["functionCall"].as_object() {
            deltas.push(self.decode_call(call));
            let data = signature.map(|signature| json!({ SIGNATURE: signature }));
            deltas.extend(data.map(|data| self.opaque_delta(data)));
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
        deltas.push(self.opaque_delta(data));
    }

    /// A call is never split.
    fn decode_call(&mut self, call: &Map<String, Value>) -> Delta {
        let field = |name: &str| call.get(name).unwrap_or(&Value::Null);
        let index = self.n_calls;
        self.n_calls += 1;
        Delta::Call {
            index,
            id: Some(self.ids.assign(non_empty_str(field("id")))),
            name: non_empty_str(field("name")).map(ToOwned::to_owned),
            arguments: match field("args") {
                Value::Null => "{}".to_owned(),
                Value::String(text) => text.clone(),
                arguments => arguments.to_string(),
            },
        }
    }

    fn opaque_delta(&self, data: Value) -> Delta {
        Delta::Opaque { model: self.model.to_owned(), data }
    }
}

/// The last count is that of the whole answer.
fn usage(usage: &Value) -> Option<Delta> {
    let count = |name: &str| usage[name].as_u64();
    let output = [count("candidatesTokenCount"), count("thoughtsTokenCount")];
    let output = output.into_iter().flatten().reduce(u64::saturating_add);
    usage_delta(count("promptTokenCount"), output, count("cachedContentTokenCount"))
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
