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
//! A marker begins a call only at the beginning of a line, outside code blocks, and only if its format follows;
//! otherwise it is text. Text is held back only while it may belong to a call.
//!
//! `<tool_response>` at the beginning of a line is a result that the model invented: it and everything after
//! it in the text is dropped, and no call in it is made.

mod described;
mod formats;
mod reader;

use serde_json::Value;

pub(super) use self::described::described;
use self::reader::{Found, Reader};
use super::wire::{Broken, Decode, Ids, call_arguments};
use agent_protocol::message::ToolCall;
use agent_protocol::model::{Delta, Reply, StopReason};
use agent_protocol::tool::ToolSpec;

/// Calls in the text have indexes from here on; those that the server understood are below.
const FIRST_INDEX: usize = 1 << 16;

/// Also makes the calls in the text of an answer. They follow at the end of the answer: a server may report a
/// call and also leave it in the text, in either order, and such a call is made once.
pub(super) struct Decoder<'a> {
    inner: Box<dyn Decode + 'a>,
    reader: Reader<'a>,
    ids: Ids<'a>,
    /// The calls in the text.
    calls: Vec<ToolCall>,
    /// The calls that the server reported.
    reported: Reply,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(inner: Box<dyn Decode + 'a>, tools: &'a [ToolSpec], ids: Ids<'a>) -> Self {
        let reader = Reader::new(tools);
        Self { inner, reader, ids, calls: Vec::new(), reported: Reply::default() }
    }

    /// Returns the texts and keeps the calls.
    fn take(&mut self, found: Vec<Found>, deltas: &mut Vec<Delta>) {
        for found in found {
            match found {
                Found::Text(text) => deltas.push(Delta::Text(text)),
                Found::Call { name, arguments } => {
                    self.calls.push(ToolCall { id: String::new(), name, arguments });
                }
            }
        }
    }

    fn read(&mut self, received: Vec<Delta>) -> Vec<Delta> {
        let mut deltas = Vec::new();
        for delta in received {
            if let Delta::Text(text) = &delta {
                let found = self.reader.push(text);
                self.take(found, &mut deltas);
            } else {
                if matches!(delta, Delta::Call { .. }) {
                    self.reported.fold(&delta);
                }
                deltas.push(delta);
            }
        }
        deltas
    }
}

impl Decode for Decoder<'_> {
    fn push(&mut self, data: &str) -> Result<Vec<Delta>, Broken> {
        let received = self.inner.push(data)?;
        Ok(self.read(received))
    }

    fn end(&mut self) -> Vec<Delta> {
        let received = self.inner.end();
        let mut deltas = self.read(received);
        let found = self.reader.finish();
        self.take(found, &mut deltas);
        let reported = &self.reported.calls;
        self.calls.retain(|call| !reported.iter().any(|other| is_same(call, other)));
        deltas.extend(self.calls.iter().enumerate().map(|(n, call)| Delta::Call {
            index: FIRST_INDEX + n,
            id: Some(self.ids.give(None)),
            name: Some(call.name.clone()),
            arguments: call.arguments.clone(),
        }));
        deltas
    }

    fn is_done(&self) -> bool {
        self.inner.is_done()
    }

    fn is_finished(&self) -> bool {
        self.inner.is_finished()
    }

    fn stop(&self) -> Option<StopReason> {
        match self.inner.stop() {
            Some(StopReason::End) if !self.calls.is_empty() => Some(StopReason::ToolCalls),
            stop => stop,
        }
    }
}

/// The same tool with the same arguments, however these are written.
fn is_same(a: &ToolCall, b: &ToolCall) -> bool {
    let arguments = |call| serde_json::from_str::<Value>(&call_arguments(call)).ok();
    a.name == b.name && arguments(a) == arguments(b)
}
