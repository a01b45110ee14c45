//! Decodes answers of the Messages API into deltas, including deviations of servers that imitate it.
//!
//! An answer is a list of blocks: each begins, gets fragments and ends. A whole `message` is decoded like a
//! stream of whole blocks, so that servers without streaming need no special case.

use serde_json::Value;

use crate::wire_format::{AnswerDecoder, CallIds, DecodeError, non_empty_str, parse_event};
use agent_protocol::Object;
use agent_protocol::model::{Delta, StopReason, Usage};

pub(crate) struct AnthropicDecoder<'a> {
    /// `provider/model` of the thinking.
    model: &'a str,
    ids: CallIds<'a>,
    blocks: Vec<BlockState>,
    n_calls: usize,
    usage: TokenCounts,
    stop_reason: Option<String>,
    done: bool,
}

struct BlockState {
    index: Option<u64>,
    kind: BlockKind,
    is_open: bool,
}

enum BlockKind {
    /// Text, or content that was not requested.
    Plain,
    /// Returned to the provider with its signature.
    Thinking { block: Object, text: String, signature: String },
    /// Encrypted; complete from the beginning.
    Redacted(Object),
    Call {
        number: usize,
        /// The server's id.
        id: Option<String>,
        /// From the start of the block, until fragments arrive.
        input: String,
    },
}

impl<'a> AnthropicDecoder<'a> {
    pub(crate) fn new(model: &'a str, ids: CallIds<'a>) -> Self {
        Self {
            model,
            ids,
            blocks: Vec::new(),
            n_calls: 0,
            usage: TokenCounts::default(),
            stop_reason: None,
            done: false,
        }
    }
}

impl AnswerDecoder for AnthropicDecoder<'_> {
    fn push(&mut self, data: &str) -> Result<Vec<Delta>, DecodeError> {
        let data = data.trim();
        // `[DONE]` belongs to another wire format, and some proxies add it.
        if data.is_empty() || data == "[DONE]" {
            return Ok(Vec::new());
        }
        let event = parse_event(data, is_error)?;
        let index = event["index"].as_u64();
        let mut deltas = Vec::new();
        match event["type"].as_str() {
            Some("message_start") => deltas.extend(self.usage.update(&event["message"]["usage"])),
            Some("content_block_start") => {
                self.begin_block(index, &event["content_block"], &mut deltas);
            }
            Some("content_block_delta") => {
                if !self.apply_fragment(index, &event["delta"], &mut deltas) {
                    return Err(DecodeError::Malformed(data.to_owned()));
                }
            }
            Some("content_block_stop") => {
                if let Some(at) = self.find_block(index) {
                    self.end_block(at, &mut deltas);
                }
            }
            Some("message_delta") => {
                self.read_message_end(&event["delta"], &event["usage"], &mut deltas);
            }
            Some("message_stop") => {
                self.end_all_blocks(&mut deltas);
                self.done = true;
            }
            Some("message") | None if event["content"].is_array() => {
                for block in event["content"].as_array().into_iter().flatten() {
                    self.begin_block(None, block, &mut deltas);
                    self.end_all_blocks(&mut deltas);
                }
                self.read_message_end(&event, &event["usage"], &mut deltas);
                self.done = true;
            }
            // `ping`, and events that may be added.
            Some(_) | None => {}
        }
        Ok(deltas)
    }

    fn is_stream_over(&self) -> bool {
        self.done
    }

    fn is_answer_complete(&self) -> bool {
        self.done || self.stop_reason.is_some()
    }

    fn stop_reason(&self) -> Option<StopReason> {
        if !self.is_answer_complete() {
            return None;
        }
        let complete = if self.n_calls == 0 { StopReason::End } else { StopReason::ToolCalls };
        Some(match self.stop_reason.as_deref() {
            None | Some("end_turn" | "tool_use" | "stop_sequence") => complete,
            Some("max_tokens" | "model_context_window_exceeded") => StopReason::Length,
            Some("refusal") => StopReason::Refused,
            // `pause_turn` belongs to tools of the server, which are not requested.
            Some(reason) => StopReason::Other(reason.to_owned()),
        })
    }
}

impl AnthropicDecoder<'_> {
    fn begin_block(&mut self, index: Option<u64>, start: &Value, deltas: &mut Vec<Delta>) {
        let earlier = index.and_then(|_| self.find_block(index));
        if earlier.is_some_and(|at| self.blocks[at].is_repeated_by(start)) {
            return;
        }
        // The end of thinking may be missing: its signature belongs before this block.
        for at in 0..self.blocks.len() {
            if !matches!(self.blocks[at].kind, BlockKind::Call { .. }) {
                self.end_block(at, deltas);
            }
        }
        let kind = match (start["type"].as_str(), start.as_object()) {
            (Some("tool_use"), _) => {
                let id = non_empty_str(&start["id"]).map(ToOwned::to_owned);
                let number = self.n_calls;
                self.n_calls += 1;
                deltas.push(Delta::Call {
                    index: number,
                    id: Some(self.ids.assign(id.as_deref())),
                    name: non_empty_str(&start["name"]).map(ToOwned::to_owned),
                    arguments: String::new(),
                });
                let input = match &start["input"] {
                    Value::String(text) => text.clone(),
                    Value::Object(input) if !input.is_empty() => start["input"].to_string(),
                    _ => String::new(),
                };
                BlockKind::Call { number, id, input }
            }
            (Some("thinking"), Some(block)) => {
                let text = start[THINKING].as_str().unwrap_or_default().to_owned();
                if !text.is_empty() {
                    deltas.push(Delta::Reasoning(text.clone()));
                }
                let signature = start[SIGNATURE].as_str().unwrap_or_default().to_owned();
                BlockKind::Thinking { block: block.clone(), text, signature }
            }
            (Some("redacted_thinking"), Some(block)) => BlockKind::Redacted(block.clone()),
            (Some("text"), _) => {
                deltas
                    .extend(non_empty_str(&start["text"]).map(|text| Delta::Text(text.to_owned())));
                BlockKind::Plain
            }
            _ => BlockKind::Plain,
        };
        self.blocks.push(BlockState { index, kind, is_open: true });
    }

    /// Returns false if the fragment cannot be placed, because an event is lost.
    fn apply_fragment(
        &mut self,
        index: Option<u64>,
        delta: &Value,
        deltas: &mut Vec<Delta>,
    ) -> bool {
        let block = self.find_block(index).map(|at| &mut self.blocks[at].kind);
        if let Some(text) = non_empty_str(&delta["text"]) {
            deltas.push(Delta::Text(text.to_owned()));
        }
        if let Some(text) = non_empty_str(&delta[THINKING]) {
            deltas.push(Delta::Reasoning(text.to_owned()));
        }
        let Some(json) = non_empty_str(&delta["partial_json"]) else {
            if let Some(BlockKind::Thinking { text, signature, .. }) = block {
                text.push_str(delta[THINKING].as_str().unwrap_or_default());
                // A signature arrives in one piece, as the vendor's SDK expects it.
                if let Some(given) = non_empty_str(&delta[SIGNATURE]) {
                    given.clone_into(signature);
                }
            }
            return true;
        };
        match block {
            Some(BlockKind::Call { number, input, .. }) => {
                input.clear();
                let (id, name) = (None, None);
                deltas.push(Delta::Call { index: *number, id, name, arguments: json.to_owned() });
                true
            }
            // Arguments of a tool of the server.
            Some(BlockKind::Plain) => true,
            Some(BlockKind::Thinking { .. } | BlockKind::Redacted(_)) | None => false,
        }
    }

    /// Without an index, the last block.
    fn find_block(&self, index: Option<u64>) -> Option<usize> {
        match index {
            Some(_) => self.blocks.iter().rposition(|block| block.index == index),
            None => self.blocks.len().checked_sub(1),
        }
    }

    fn end_block(&mut self, at: usize, deltas: &mut Vec<Delta>) {
        let block = &mut self.blocks[at];
        if !std::mem::replace(&mut block.is_open, false) {
            return;
        }
        match &mut block.kind {
            BlockKind::Plain => {}
            BlockKind::Call { number, input, .. } => {
                let arguments = std::mem::take(input);
                if !arguments.is_empty() {
                    deltas.push(Delta::Call { index: *number, id: None, name: None, arguments });
                }
            }
            // Without its signature the API rejects it.
            BlockKind::Thinking { signature, .. } if signature.is_empty() => {}
            BlockKind::Thinking { block, text, signature } => {
                let mut block = std::mem::take(block);
                block.insert(THINKING.to_owned(), Value::String(std::mem::take(text)));
                block.insert(SIGNATURE.to_owned(), Value::String(std::mem::take(signature)));
                deltas.push(self.opaque_delta(block));
            }
            BlockKind::Redacted(block) => {
                let block = std::mem::take(block);
                deltas.push(self.opaque_delta(block));
            }
        }
    }

    fn opaque_delta(&self, block: Object) -> Delta {
        Delta::Opaque { model: self.model.to_owned(), data: Value::Object(block) }
    }

    fn end_all_blocks(&mut self, deltas: &mut Vec<Delta>) {
        for at in 0..self.blocks.len() {
            self.end_block(at, deltas);
        }
    }

    fn read_message_end(&mut self, message: &Value, usage: &Value, deltas: &mut Vec<Delta>) {
        if let Some(reason) = non_empty_str(&message["stop_reason"]) {
            self.end_all_blocks(deltas);
            self.stop_reason = Some(reason.to_owned());
        }
        // Why the provider withheld the answer.
        let explanation = non_empty_str(&message["stop_details"]["explanation"]);
        deltas.extend(explanation.map(|text| Delta::Text(text.to_owned())));
        deltas.extend(self.usage.update(usage));
    }
}

fn is_error(event: &Value) -> bool {
    event["type"] == "error"
        || event["error"].is_object()
        || event["error"].is_string()
        || event.get(0).is_some_and(|first| first["error"].is_object())
}

const THINKING: &str = "thinking";
const SIGNATURE: &str = "signature";

impl BlockState {
    /// True for a duplicate event.
    fn is_repeated_by(&self, start: &Value) -> bool {
        let kind = start["type"].as_str();
        match &self.kind {
            BlockKind::Call { id: Some(id), .. } => {
                kind == Some("tool_use") && start["id"].as_str() == Some(id)
            }
            BlockKind::Call { id: None, .. } => false,
            BlockKind::Plain => self.is_open && kind == Some("text"),
            BlockKind::Thinking { .. } => self.is_open && kind == Some("thinking"),
            BlockKind::Redacted(_) => self.is_open && kind == Some("redacted_thinking"),
        }
    }
}

/// Later events repeat or complete the counts.
#[derive(Default)]
struct TokenCounts {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_creation: Option<u64>,
    output: Option<u64>,
}

impl TokenCounts {
    /// Counts are cumulative; a server that does not know one yet sends 0.
    fn update(&mut self, usage: &Value) -> Option<Delta> {
        let mut is_known = false;
        for (count, key) in [
            (&mut self.input, "input_tokens"),
            (&mut self.cache_read, "cache_read_input_tokens"),
            (&mut self.cache_creation, "cache_creation_input_tokens"),
            (&mut self.output, "output_tokens"),
        ] {
            let given = usage[key].as_u64().filter(|&count| count > 0);
            is_known |= given.is_some();
            *count = (*count).max(given);
        }
        let cached_tokens = self.cache_read.unwrap_or_default();
        is_known.then(|| {
            Delta::Usage(Usage {
                input_tokens: self
                    .input
                    .unwrap_or_default()
                    .saturating_add(cached_tokens)
                    .saturating_add(self.cache_creation.unwrap_or_default()),
                output_tokens: self.output.unwrap_or_default(),
                cached_tokens,
                cache_write_tokens: self.cache_creation.unwrap_or_default(),
                ..Usage::default()
            })
        })
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
