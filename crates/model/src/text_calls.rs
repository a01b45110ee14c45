//! Finds tool calls in the text of answers: the formats of models whose servers have no function calling.
//!
//! | format | models |
//! |---|---|
//! | `<tool_call>{"name": …, "arguments": …}</tool_call>` | Hermes, Qwen |
//! | `<tool_call><function=NAME><parameter=P>value</parameter></function></tool_call>` | Qwen3-Coder |
//! | `[TOOL_CALLS][{"name": …, "arguments": …}]`, `[TOOL_CALLS]NAME[ARGS]{…}` | Mistral |
//! | `<\|python_tag\|>{"name": …, "parameters": …}` | Llama |
//! | a fenced block, or the whole answer, that is such an object with the name of a tool | any |
//!
//! A marker begins a call only at the beginning of a line, outside code blocks, and only if its
//! format follows; text is held back only while it may belong to a call. `<tool_response>` at the
//! beginning of a line is a result that the model invented: it and everything after it in the text
//! is dropped, and no call in it is made.

mod formats;
mod reader;
mod text_request;

use serde_json::Value;

use self::reader::{Segment, TextCallReader};
pub(super) use self::text_request::render_as_text;
use super::wire_format::{AnswerDecoder, CallIds, DecodeError, call_arguments};
use agent_protocol::message::ToolCall;
use agent_protocol::model::{Delta, Reply, Request, StopReason, max_answer_bytes};

/// Calls in the text have indexes from here on; those that the server understood are below.
const FIRST_TEXT_CALL_INDEX: usize = 1 << 16;

/// Calls in the text follow at the end of the answer: a server may report a call and also leave it there.
pub(super) struct TextCallDecoder<'a> {
    inner: Box<dyn AnswerDecoder + 'a>,
    reader: TextCallReader<'a>,
    ids: CallIds<'a>,
    calls: Vec<ToolCall>,
    /// Calls that the server reported.
    reported: Reply,
}

impl<'a> TextCallDecoder<'a> {
    pub(super) fn new(
        inner: Box<dyn AnswerDecoder + 'a>,
        request: &'a Request<'_>,
        ids: CallIds<'a>,
    ) -> Self {
        let max_held_bytes = max_answer_bytes(request.max_output_tokens);
        let reader = TextCallReader::new(request.tools, max_held_bytes);
        Self { inner, reader, ids, calls: Vec::new(), reported: Reply::default() }
    }

    /// Appends texts to `deltas`, and keeps calls for the end.
    fn collect_segments(&mut self, found: Vec<Segment>, deltas: &mut Vec<Delta>) {
        for found in found {
            match found {
                Segment::Text(text) => deltas.push(Delta::Text(text)),
                Segment::Dropped(text) => deltas.push(Delta::Dropped(text)),
                Segment::Call { name, arguments } => {
                    self.calls.push(ToolCall { id: String::new(), name, arguments });
                }
            }
        }
    }

    fn extract_calls(&mut self, received: Vec<Delta>) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for delta in received {
            if let Delta::Text(text) = &delta {
                let found = self.reader.push(text);
                self.collect_segments(found, &mut deltas);
                if self.reader.holds_call() {
                    deltas.push(Delta::Held(text.clone()));
                }
            } else {
                if matches!(delta, Delta::Call { .. }) {
                    self.reported.apply_delta(&delta);
                }
                deltas.push(delta);
            }
        }
        deltas
    }
}

impl AnswerDecoder for TextCallDecoder<'_> {
    fn push(&mut self, data: &str) -> Result<Vec<Delta>, DecodeError> {
        let received = self.inner.push(data)?;
        Ok(self.extract_calls(received))
    }

    fn finish(&mut self) -> Vec<Delta> {
        let received = self.inner.finish();
        let mut deltas = self.extract_calls(received);
        let found = self.reader.finish();
        self.collect_segments(found, &mut deltas);
        let reported = &self.reported.calls;
        self.calls.retain(|call| !reported.iter().any(|other| is_same_call(call, other)));
        deltas.extend(self.calls.iter().enumerate().map(|(n, call)| Delta::Call {
            index: FIRST_TEXT_CALL_INDEX + n,
            id: Some(self.ids.assign(None)),
            name: Some(call.name.clone()),
            arguments: call.arguments.clone(),
        }));
        deltas
    }

    fn is_stream_over(&self) -> bool {
        self.inner.is_stream_over()
    }

    fn is_answer_complete(&self) -> bool {
        self.inner.is_answer_complete()
    }

    fn stop_reason(&self) -> Option<StopReason> {
        match self.inner.stop_reason() {
            Some(StopReason::End) if !self.calls.is_empty() => Some(StopReason::ToolCalls),
            stop => stop,
        }
    }
}

/// However the arguments are written.
fn is_same_call(a: &ToolCall, b: &ToolCall) -> bool {
    let arguments = |call| serde_json::from_str::<Value>(&call_arguments(call)).ok();
    a.name == b.name && arguments(a) == arguments(b)
}
