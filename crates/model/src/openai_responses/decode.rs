//! Decodes answers of Responses servers into deltas, including deviations from the standard.
//!
//! A server reports each piece of an answer up to four times: in fragments, and when the piece, its item and
//! the response are complete. Servers leave out some of these, so each adds what is missing.

use serde_json::{Value, json};

use super::SEPARATOR;
use crate::wire_format::{
    AnswerDecoder, CallIds, DecodeError, non_empty_str, parse_event, usage_delta,
};
use agent_protocol::model::{Delta, StopReason};

pub(crate) struct ResponsesDecoder<'a> {
    /// `provider/model`.
    model: &'a str,
    ids: CallIds<'a>,
    items: Vec<ItemState>,
    n_calls: usize,
    last_text: Option<usize>,
    last_thought: Option<usize>,
    refused: bool,
    is_truncated: bool,
    end: Option<ResponseEnd>,
    /// `[DONE]` was received.
    done: bool,
}

enum ResponseEnd {
    Complete,
    Truncated,
    /// By a content filter.
    Filtered,
    Other(String),
}

struct ItemState {
    kind: ItemKind,
    ids: ItemIds,
    /// Index in the deltas, for a call.
    call: usize,
    has_id: bool,
    /// Text, reasoning or arguments so far.
    received: String,
    is_complete: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ItemKind {
    Message,
    Reasoning,
    Call,
}

/// Some servers change the id from event to event, others send a constant index.
#[derive(Clone, Default)]
struct ItemIds {
    index: Option<u64>,
    id: Option<String>,
    call_id: Option<String>,
}

impl ItemIds {
    fn from_event(event: &Value) -> Self {
        let id = non_empty_str(&event["item_id"]).map(ToOwned::to_owned);
        Self { index: event["output_index"].as_u64(), id, call_id: None }
    }

    fn from_item(item: &Value, index: Option<u64>) -> Self {
        let text = |key: &str| non_empty_str(&item[key]).map(ToOwned::to_owned);
        Self { index, id: text("id"), call_id: text("call_id") }
    }
}

impl<'a> ResponsesDecoder<'a> {
    pub(crate) fn new(model: &'a str, ids: CallIds<'a>) -> Self {
        Self {
            model,
            ids,
            items: Vec::new(),
            n_calls: 0,
            last_text: None,
            last_thought: None,
            refused: false,
            is_truncated: false,
            end: None,
            done: false,
        }
    }
}

impl AnswerDecoder for ResponsesDecoder<'_> {
    fn push(&mut self, data: &str) -> Result<Vec<Delta>, DecodeError> {
        let data = data.trim();
        if data == "[DONE]" {
            self.done = true;
            return Ok(Vec::new());
        }
        if data.is_empty() || self.end.is_some() {
            return Ok(Vec::new());
        }
        let event = parse_event(data, is_error)?;
        let mut deltas = Vec::new();
        self.decode_event(&event, &mut deltas)?;
        Ok(deltas)
    }

    fn is_stream_over(&self) -> bool {
        self.done || self.end.is_some()
    }

    fn is_answer_complete(&self) -> bool {
        self.end.is_some()
    }

    fn stop_reason(&self) -> Option<StopReason> {
        Some(match self.end.as_ref()? {
            ResponseEnd::Filtered => StopReason::Refused,
            ResponseEnd::Other(state) => StopReason::Other(state.clone()),
            ResponseEnd::Truncated => StopReason::Length,
            ResponseEnd::Complete if self.is_truncated => StopReason::Length,
            ResponseEnd::Complete if self.refused => StopReason::Refused,
            ResponseEnd::Complete if self.n_calls == 0 => StopReason::End,
            ResponseEnd::Complete => StopReason::ToolCalls,
        })
    }
}

impl ResponsesDecoder<'_> {
    fn decode_event(&mut self, event: &Value, deltas: &mut Vec<Delta>) -> Result<(), DecodeError> {
        let kind = event["type"].as_str().unwrap_or_default();
        let kind = kind.strip_prefix("response.").unwrap_or(kind);
        let Some((piece, progress)) = kind.rsplit_once('.') else {
            return self.decode_response(kind, event, deltas);
        };
        let is_whole = match progress {
            "added" | "delta" => false,
            "done" => true,
            _ => return Ok(()),
        };
        let text = |key: &str| non_empty_str(&event[if is_whole { key } else { "delta" }]);
        match piece {
            "output_item" => {
                let index = event["output_index"].as_u64();
                self.decode_item(&event["item"], index, is_whole, deltas)?;
            }
            "output_text" => self.decode_text(ItemKind::Message, event, text("text"), deltas),
            "refusal" => {
                self.refused |= text("refusal").is_some();
                self.decode_text(ItemKind::Message, event, text("refusal"), deltas);
            }
            "reasoning_summary_part" if !is_whole => {
                let at = self.find_or_add_item(ItemKind::Reasoning, ItemIds::from_event(event));
                if !self.items[at].received.is_empty() {
                    self.append_fragment(at, SEPARATOR, deltas);
                }
            }
            "reasoning_summary_text" | "reasoning_text" => {
                self.decode_text(ItemKind::Reasoning, event, text("text"), deltas);
            }
            "function_call_arguments" => {
                let at = self.find_or_add_item(ItemKind::Call, ItemIds::from_event(event));
                self.emit_call_start(at, None, non_empty_str(&event["name"]), deltas);
                match text("arguments") {
                    Some(arguments) if is_whole => {
                        self.complete_arguments(at, arguments, deltas)?;
                    }
                    Some(fragment) if !self.items[at].is_complete => {
                        self.append_fragment(at, fragment, deltas);
                    }
                    Some(_) | None => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A complete text counts only if no fragments were received.
    fn decode_text(
        &mut self,
        kind: ItemKind,
        event: &Value,
        text: Option<&str>,
        deltas: &mut Vec<Delta>,
    ) {
        let Some(text) = text else { return };
        let at = self.find_or_add_item(kind, ItemIds::from_event(event));
        if !event["delta"].is_null() || self.items[at].received.is_empty() {
            self.append_fragment(at, text, deltas);
        }
    }

    fn decode_response(
        &mut self,
        kind: &str,
        event: &Value,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), DecodeError> {
        let response = if event["response"].is_object() { &event["response"] } else { event };
        let state = match kind {
            "completed" | "done" | "incomplete" | "failed" | "cancelled" => {
                response["status"].as_str().unwrap_or(kind)
            }
            // Not an event. Some servers leave out the status of a whole response.
            "" => match (response["status"].as_str(), response["output"].as_array()) {
                (Some(status), Some(_)) => status,
                (None, Some(output)) if !output.is_empty() && !event["response"].is_object() => {
                    "completed"
                }
                _ => return Ok(()),
            },
            _ => return Ok(()),
        };
        if !response["error"].is_null() {
            return Err(DecodeError::ServerError(json!({ "error": response["error"] })));
        }
        let end = match (kind, state) {
            ("failed" | "cancelled", _) | (_, "failed" | "cancelled") => {
                let message = format!("the response is {state}, without a reason");
                return Err(DecodeError::ServerError(json!({ "error": { "message": message } })));
            }
            ("incomplete", _) | (_, "incomplete") => {
                match response["incomplete_details"]["reason"].as_str() {
                    Some("content_filter") => ResponseEnd::Filtered,
                    _ => ResponseEnd::Truncated,
                }
            }
            ("", state) if state != "completed" => return Ok(()),
            // Some servers do not update the status.
            (_, "completed" | "done" | "in_progress" | "queued") => ResponseEnd::Complete,
            (_, state) => ResponseEnd::Other(state.to_owned()),
        };
        let streamed = self.items.iter().map(|item| item.kind).collect::<Vec<_>>();
        for (index, item) in (0..).zip(response["output"].as_array().into_iter().flatten()) {
            let Some(kind) = item_kind(item) else { continue };
            // An item of a stream that cannot be identified must not be taken twice.
            if self.find_item(kind, &ItemIds::from_item(item, Some(index))).is_some()
                || !streamed.contains(&kind)
            {
                self.decode_item(item, Some(index), true, deltas)?;
            }
        }
        for at in 0..self.items.len() {
            if self.items[at].kind == ItemKind::Call && !self.items[at].has_id {
                let id = self.ids.assign(None);
                self.emit_call_start(at, Some(id), None, deltas);
            }
        }
        deltas.extend(usage(&response["usage"]));
        self.end = Some(end);
        Ok(())
    }

    fn decode_item(
        &mut self,
        item: &Value,
        index: Option<u64>,
        is_complete: bool,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), DecodeError> {
        let Some(kind) = item_kind(item) else { return Ok(()) };
        let at = self.find_or_add_item(kind, ItemIds::from_item(item, index));
        if kind == ItemKind::Call {
            let id = (!self.items[at].has_id).then(|| {
                self.ids.assign(non_empty_str(&item["call_id"]).or(non_empty_str(&item["id"])))
            });
            self.emit_call_start(at, id, non_empty_str(&item["name"]), deltas);
        }
        if !is_complete {
            return Ok(());
        }
        match kind {
            ItemKind::Message => {
                let parts = item["content"].as_array().into_iter().flatten();
                let mut whole = String::new();
                for part in parts {
                    self.refused |= non_empty_str(&part["refusal"]).is_some();
                    let text = non_empty_str(&part["text"]).or(non_empty_str(&part["refusal"]));
                    whole.push_str(text.unwrap_or_default());
                }
                if let Some(rest) = whole.strip_prefix(&self.items[at].received) {
                    let rest = rest.to_owned();
                    self.append_fragment(at, &rest, deltas);
                }
            }
            ItemKind::Reasoning if self.items[at].received.is_empty() => {
                let texts = |key: &str| {
                    let parts = item[key].as_array().into_iter().flatten();
                    let texts = parts.filter_map(|part| non_empty_str(&part["text"]));
                    texts.collect::<Vec<_>>().join(SEPARATOR)
                };
                let summary = texts("summary");
                let text = if summary.is_empty() { texts("content") } else { summary };
                self.append_fragment(at, &text, deltas);
            }
            ItemKind::Reasoning => {}
            ItemKind::Call => {
                self.is_truncated |= item["status"] == "incomplete";
                match &item["arguments"] {
                    Value::Null => {}
                    Value::String(text) => self.complete_arguments(at, text, deltas)?,
                    object => self.complete_arguments(at, &object.to_string(), deltas)?,
                }
            }
        }
        self.complete_item(at, item, deltas);
        Ok(())
    }

    /// Emits what the server needs back, in its position.
    fn complete_item(&mut self, at: usize, item: &Value, deltas: &mut Vec<Delta>) {
        let is_last = at + 1 == self.items.len();
        let was_complete = std::mem::replace(&mut self.items[at].is_complete, true);
        if was_complete || !is_last {
            return;
        }
        let data = match self.items[at].kind {
            // Without the content there is nothing that the server could use: it stores nothing.
            ItemKind::Reasoning if non_empty_str(&item["encrypted_content"]).is_some() => {
                let mut data = item.clone();
                if let Some(fields) = data.as_object_mut() {
                    fields.shift_remove("status");
                }
                data
            }
            // The text is sent as such; this says what it is: a comment, or the answer.
            ItemKind::Message if !self.items[at].received.is_empty() => {
                let Some(phase) = non_empty_str(&item["phase"]) else { return };
                json!({ "type": "message", "phase": phase })
            }
            ItemKind::Reasoning | ItemKind::Message | ItemKind::Call => return,
        };
        deltas.push(Delta::Opaque { model: self.model.to_owned(), data });
    }

    fn find_or_add_item(&mut self, kind: ItemKind, names: ItemIds) -> usize {
        if let Some(at) = self.find_item(kind, &names) {
            let ids = &mut self.items[at].ids;
            ids.index = ids.index.or(names.index);
            ids.id = ids.id.take().or(names.id);
            ids.call_id = ids.call_id.take().or(names.call_id);
            return at;
        }
        self.items.push(ItemState {
            kind,
            ids: names,
            call: self.n_calls,
            has_id: false,
            received: String::new(),
            is_complete: false,
        });
        self.n_calls += usize::from(kind == ItemKind::Call);
        self.items.len() - 1
    }

    fn find_item(&self, kind: ItemKind, names: &ItemIds) -> Option<usize> {
        let last = |fits: &dyn Fn(&ItemState) -> bool| {
            self.items.iter().rposition(|item| item.kind == kind && fits(item))
        };
        let same_call = |item: &ItemState| item.ids.call_id == names.call_id;
        let may_be_same_call = |item: &ItemState| {
            same_call(item) || item.ids.call_id.is_none() || names.call_id.is_none()
        };
        let may_have_index = |item: &ItemState| {
            item.ids.index == names.index || item.ids.index.is_none() || names.index.is_none()
        };
        last(&|item| names.id.is_some() && item.ids.id == names.id && may_be_same_call(item))
            .or_else(|| {
                last(&|item| names.call_id.is_some() && same_call(item) && may_have_index(item))
            })
            .or_else(|| {
                last(&|item| {
                    let has_index = names.index.is_some() && item.ids.index == names.index;
                    let may_have_id = item.ids.id.is_none() || names.id.is_none();
                    !item.is_complete
                        && may_be_same_call(item)
                        && may_have_index(item)
                        && (has_index || may_have_id)
                })
            })
    }

    fn append_fragment(&mut self, at: usize, fragment: &str, deltas: &mut Vec<Delta>) {
        let item = &mut self.items[at];
        if fragment.is_empty() || (item.is_complete && item.kind != ItemKind::Call) {
            return;
        }
        item.received.push_str(fragment);
        let separated = |last: &mut Option<usize>| {
            let is_other = last.replace(at).is_some_and(|last| last != at);
            if is_other { format!("{SEPARATOR}{fragment}") } else { fragment.to_owned() }
        };
        deltas.push(match item.kind {
            ItemKind::Message => Delta::Text(separated(&mut self.last_text)),
            ItemKind::Reasoning => Delta::Reasoning(separated(&mut self.last_thought)),
            ItemKind::Call => Delta::Call {
                index: item.call,
                id: None,
                name: None,
                arguments: fragment.to_owned(),
            },
        });
    }

    /// Fails if the complete arguments differ from the fragments: a fragment was wrong or lost.
    fn complete_arguments(
        &mut self,
        at: usize,
        whole: &str,
        deltas: &mut Vec<Delta>,
    ) -> Result<(), DecodeError> {
        let received = &self.items[at].received;
        if let Some(rest) = whole.strip_prefix(received.as_str()) {
            self.append_fragment(at, rest, deltas);
            return Ok(());
        }
        let json = |text: &str| serde_json::from_str::<Value>(text).ok();
        if whole.is_empty() || (json(whole).is_some() && json(whole) == json(received)) {
            return Ok(());
        }
        Err(DecodeError::Malformed(whole.to_owned()))
    }

    fn emit_call_start(
        &mut self,
        at: usize,
        id: Option<String>,
        name: Option<&str>,
        deltas: &mut Vec<Delta>,
    ) {
        let item = &mut self.items[at];
        item.has_id |= id.is_some();
        if id.is_some() || name.is_some() {
            let name = name.map(ToOwned::to_owned);
            deltas.push(Delta::Call { index: item.call, id, name, arguments: String::new() });
        }
    }
}

fn item_kind(item: &Value) -> Option<ItemKind> {
    match item["type"].as_str()? {
        "message" => Some(ItemKind::Message),
        "reasoning" => Some(ItemKind::Reasoning),
        "function_call" => Some(ItemKind::Call),
        // Other items are those of tools that were not offered.
        _ => None,
    }
}

/// `event` is an event or a document. The error of a response is read with the response.
fn is_error(event: &Value) -> bool {
    let named = |key: &str| event.get(key).is_some_and(|value| !value.is_null() && value != false);
    match event {
        Value::Array(items) => items.first().is_some_and(is_error),
        _ if event["object"] == "response" || event["response"].is_object() => false,
        _ => {
            event["type"] == "error"
                || event["object"] == "error"
                || named("error")
                || (event["type"].is_null() && named("detail"))
        }
    }
}

fn usage(usage: &Value) -> Option<Delta> {
    let cached = usage["input_tokens_details"]["cached_tokens"].as_u64();
    usage_delta(usage["input_tokens"].as_u64(), usage["output_tokens"].as_u64(), cached)
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
