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
//! Text is held back only while it may belong to a call.

use serde::Deserialize;
use serde_json::{Value, json};

use super::wire::{Broken, Decode, Ids, call_arguments, call_name};

use crate::protocol::Object;
use crate::protocol::message::{Message, Part, Role};
use crate::protocol::model::{Delta, Request, StopReason};
use crate::protocol::prompt::{Prompt, Prompts, fill, prompt};
use crate::protocol::repair::repaired;
use crate::protocol::tool::ToolSpec;

const TOOLS: Prompt = prompt!("tools_in_text.md");

/// Calls in the text have indexes from here on; those that the server understood are below.
const FIRST_INDEX: usize = 1 << 16;

/// The name of a call whose text cannot be parsed: no tool has it, so the model receives an error.
pub(super) const UNREADABLE: &str = "tool_call";

/// Text in, text and calls out.
pub(super) struct TextCalls<'a> {
    tools: &'a [ToolSpec],
    /// Text that is not decided yet.
    held: String,
    open: Option<Marker>,
    /// Something other than white space was emitted.
    has_begun: bool,
    /// The last character that was emitted.
    last: char,
}

/// A part of the answer.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    Text(String),
    Call {
        name: String,
        /// JSON text; it may be invalid.
        arguments: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Marker {
    ToolCall,
    Mistral,
    PythonTag,
    Fence,
    /// The whole answer is an object.
    Whole,
}

impl Marker {
    const ALL: [Self; 4] = [Self::ToolCall, Self::Mistral, Self::PythonTag, Self::Fence];

    fn begin(self) -> &'static str {
        match self {
            Self::ToolCall => "<tool_call>",
            Self::Mistral => "[TOOL_CALLS]",
            Self::PythonTag => "<|python_tag|>",
            Self::Fence => "```",
            Self::Whole => "",
        }
    }

    /// `None`: the end of the answer.
    fn end(self) -> Option<&'static str> {
        match self {
            Self::ToolCall => Some("</tool_call>"),
            Self::PythonTag => Some("<|eom_id|>"),
            Self::Fence => Some("\n```"),
            Self::Mistral | Self::Whole => None,
        }
    }
}

impl<'a> TextCalls<'a> {
    /// For a request with these tools.
    pub(super) fn new(tools: &'a [ToolSpec]) -> Self {
        Self { tools, held: String::new(), open: None, has_begun: false, last: '\n' }
    }

    /// Takes the next text of the answer.
    pub(super) fn push(&mut self, text: &str) -> Vec<Found> {
        self.held.push_str(text);
        let mut found = Vec::new();
        while self.step(&mut found) {}
        found
    }

    /// The end of the answer: what is held back is decided.
    pub(super) fn finish(&mut self) -> Vec<Found> {
        let mut found = Vec::new();
        let rest = std::mem::take(&mut self.held);
        match self.open.take() {
            Some(marker) => self.close(marker, &rest, false, &mut found),
            None => self.say(&rest, &mut found),
        }
        found
    }

    /// Decides about a part of the text; false: more of it is needed.
    fn step(&mut self, found: &mut Vec<Found>) -> bool {
        if let Some(marker) = self.open {
            let Some(end) = marker.end() else { return false };
            let Some(at) = self.held.find(end) else { return false };
            let body = self.held[..at].to_owned();
            self.held.drain(..at + end.len());
            self.open = None;
            self.close(marker, &body, true, found);
            return true;
        }
        if !self.has_begun {
            let rest = self.held.trim_start();
            if rest.is_empty() {
                return false;
            }
            if rest.starts_with('{') {
                self.open = Some(Marker::Whole);
                return false;
            }
        }
        let places = Marker::ALL.iter().filter_map(|&marker| Some((self.find(marker)?, marker)));
        if let Some((at, marker)) = places.min_by_key(|(at, _)| *at) {
            let text = self.held[..at].to_owned();
            self.held.drain(..at + marker.begin().len());
            self.say(&text, found);
            self.open = Some(marker);
            return true;
        }
        // The end may be the beginning of a marker.
        let starts = |at: &usize| {
            Marker::ALL.iter().any(|marker| marker.begin().starts_with(&self.held[*at..]))
        };
        let places = self.held.char_indices().map(|(at, _)| at);
        let undecided = places.into_iter().find(starts).unwrap_or(self.held.len());
        let text: String = self.held.drain(..undecided).collect();
        self.say(&text, found);
        false
    }

    /// The position of the marker's beginning; a fence begins a line.
    fn find(&self, marker: Marker) -> Option<usize> {
        let mut places = self.held.match_indices(marker.begin()).map(|(at, _)| at);
        match marker {
            Marker::Fence => places.find(|&at| match self.held[..at].chars().next_back() {
                Some(before) => before == '\n',
                None => self.last == '\n',
            }),
            _ => places.next(),
        }
    }

    fn say(&mut self, text: &str, found: &mut Vec<Found>) {
        if let Some(last) = text.chars().next_back() {
            self.last = last;
            self.has_begun |= !text.trim().is_empty();
            found.push(Found::Text(text.to_owned()));
        }
    }

    /// The text within a marker is complete.
    fn close(&mut self, marker: Marker, body: &str, has_end: bool, found: &mut Vec<Found>) {
        self.has_begun = true;
        let calls = match marker {
            Marker::ToolCall => match self.xml_call(body) {
                Some(call) => vec![call],
                None => json_calls(body),
            },
            Marker::Mistral => mistral_calls(body),
            Marker::PythonTag => json_calls(body),
            Marker::Fence => {
                // The first line may name a language.
                let block = body.split_once('\n').map_or("", |(_, block)| block);
                self.calls_of_tools(block)
            }
            Marker::Whole => self.calls_of_tools(body),
        };
        let is_certain = !matches!(marker, Marker::Fence | Marker::Whole);
        if calls.is_empty() && is_certain {
            let arguments = body.trim().to_owned();
            found.push(Found::Call { name: UNREADABLE.to_owned(), arguments });
        } else if calls.is_empty() {
            let end = marker.end().filter(|_| has_end).unwrap_or_default();
            self.say(&format!("{}{body}{end}", marker.begin()), found);
        }
        found.extend(calls);
    }

    /// The calls in a text that could also be an example: it is nothing else, and names tools.
    fn calls_of_tools(&self, text: &str) -> Vec<Found> {
        let calls = json_calls(text);
        let is_tool = |call: &Found| match call {
            Found::Call { name, .. } => self.tools.iter().any(|tool| tool.name == name),
            Found::Text(_) => false,
        };
        if calls.iter().all(is_tool) { calls } else { Vec::new() }
    }

    /// `<function=NAME><parameter=P>value</parameter>…</function>`; only the schema tells
    /// whether a value is text or JSON.
    fn xml_call(&self, text: &str) -> Option<Found> {
        let (name, mut rest) = text.trim().strip_prefix("<function=")?.split_once('>')?;
        let tool = self.tools.iter().find(|tool| tool.name == name.trim());
        let mut arguments = Object::new();
        while let Some((_, parameter)) = rest.split_once("<parameter=") {
            let (parameter, value) = parameter.split_once('>')?;
            let (value, after) = value.split_once("</parameter>")?;
            // The line breaks around a value belong to the format.
            let value = value.strip_prefix('\n').unwrap_or(value);
            let value = value.strip_suffix('\n').unwrap_or(value);
            let is_text = tool.is_none_or(|tool| {
                tool.schema["properties"][parameter]["type"]
                    .as_str()
                    .is_none_or(|kind| kind == "string")
            });
            let json = if is_text { None } else { serde_json::from_str(value).ok() };
            arguments.insert(parameter.to_owned(), json.unwrap_or_else(|| value.into()));
            rest = after;
        }
        rest.trim_start().starts_with("</function>").then(|| Found::Call {
            name: name.trim().to_owned(),
            arguments: Value::Object(arguments).to_string(),
        })
    }
}

/// Also makes the calls in the text of an answer.
pub(super) struct Decoder<'a> {
    inner: Box<dyn Decode + 'a>,
    reader: TextCalls<'a>,
    ids: Ids<'a>,
    /// Number of calls in the text.
    calls: usize,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(inner: Box<dyn Decode + 'a>, tools: &'a [ToolSpec], ids: Ids<'a>) -> Self {
        Self { inner, reader: TextCalls::new(tools), ids, calls: 0 }
    }

    fn deltas(&mut self, found: Vec<Found>) -> Vec<Delta> {
        let deltas = found.into_iter().map(|found| match found {
            Found::Text(text) => Delta::Text(text),
            Found::Call { name, arguments } => {
                self.calls += 1;
                let index = FIRST_INDEX + self.calls;
                let id = Some(self.ids.give(None));
                Delta::Call { index, id, name: Some(name), arguments }
            }
        });
        deltas.collect()
    }
}

impl Decode for Decoder<'_> {
    fn push(&mut self, data: &str) -> Result<Vec<Delta>, Broken> {
        let mut deltas = Vec::new();
        for delta in self.inner.push(data)? {
            match delta {
                Delta::Text(text) => {
                    let found = self.reader.push(&text);
                    deltas.extend(self.deltas(found));
                }
                delta => deltas.push(delta),
            }
        }
        Ok(deltas)
    }

    fn end(&mut self) -> Vec<Delta> {
        let found = self.reader.finish();
        let mut deltas = self.inner.end();
        deltas.extend(self.deltas(found));
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
            Some(StopReason::End) if self.calls > 0 => Some(StopReason::ToolCalls),
            stop => stop,
        }
    }
}

/// The instructions and the conversation for a server without function calling: the tools are described, and
/// calls and results are text.
pub(super) fn described(request: &Request<'_>) -> (String, Vec<Message>) {
    let tools = request.tools.iter().map(|tool| {
        let parameters = tool.parameters();
        json!({"name": tool.name, "description": tool.description, "parameters": parameters})
            .to_string()
    });
    let tools = tools.collect::<Vec<_>>().join("\n");
    let mut system = request.system.to_owned();
    if !tools.is_empty() {
        let prompts = Prompts::default();
        system =
            format!("{system}\n\n{}", fill(prompts.text(TOOLS), &[("tools", &tools)]).trim_end());
    }
    (system, request.messages.iter().map(as_text).collect())
}

/// The message with its calls and results as text.
fn as_text(message: &Message) -> Message {
    let role = match message.role {
        Role::Tool => Role::User,
        role => role,
    };
    let mut parts: Vec<Part> = Vec::new();
    for part in &message.parts {
        let text = match part {
            Part::Text { text } => text.clone(),
            Part::Call(call) => {
                let arguments = call_arguments(call);
                let name = call_name(call);
                format!(
                    "<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n</tool_call>"
                )
            }
            Part::Result(result) => {
                format!("<tool_response>\n{}\n</tool_response>", result.text.trim_end())
            }
            Part::Image(_) | Part::Carried(_) => {
                parts.push(part.clone());
                continue;
            }
        };
        match parts.last_mut() {
            Some(Part::Text { text: before }) => {
                if !before.ends_with('\n') {
                    before.push('\n');
                }
                before.push_str(&text);
            }
            _ => parts.push(Part::Text { text }),
        }
        if let Part::Result(result) = part {
            parts.extend(result.images.iter().cloned().map(Part::Image));
        }
    }
    Message { role, parts }
}

/// A call as JSON.
#[derive(Deserialize)]
struct JsonCall {
    name: String,
    #[serde(alias = "parameters")]
    arguments: Value,
}

impl JsonCall {
    fn of(value: Value) -> Option<Found> {
        let Self { name, arguments } = serde_json::from_value(value).ok()?;
        let arguments = match arguments {
            Value::Object(object) => Value::Object(object).to_string(),
            // Some models write the object as a string.
            Value::String(text) => text,
            _ => return None,
        };
        Some(Found::Call { name, arguments })
    }
}

/// The calls in a JSON text: one object, an array, or several values; empty if there is anything else.
fn json_calls(text: &str) -> Vec<Found> {
    let text = text.trim();
    let Some(values) = values(text) else { return repairable_call(text).into_iter().collect() };
    let calls = values.into_iter().flat_map(|value| match value {
        Value::Array(items) => items,
        value => vec![value],
    });
    calls.map(JsonCall::of).collect::<Option<Vec<_>>>().unwrap_or_default()
}

/// One call whose arguments have mistakes that can be repaired. They are returned as they are: whoever makes
/// the call repairs them and says so.
fn repairable_call(text: &str) -> Option<Found> {
    let call: JsonCall = serde_json::from_value(repaired(text)?.into()).ok()?;
    let end = text.strip_suffix('}')?.rfind('}')? + 1;
    let slices = text.match_indices('{').filter_map(|(at, _)| text.get(at..end));
    let mut arguments =
        slices.filter(|slice| repaired(slice).map(Value::Object).as_ref() == Some(&call.arguments));
    Some(Found::Call { name: call.name, arguments: arguments.next()?.to_owned() })
}

/// JSON values one after the other; models separate them by white space or semicolons.
fn values(text: &str) -> Option<Vec<Value>> {
    let is_between = |c: char| c.is_whitespace() || c == ';';
    let mut rest = text.trim_matches(is_between);
    let mut values = Vec::new();
    while !rest.is_empty() {
        let mut stream = serde_json::Deserializer::from_str(rest).into_iter();
        values.push(stream.next()?.ok()?);
        rest = rest[stream.byte_offset()..].trim_start_matches(is_between);
    }
    Some(values)
}

/// `[{"name": …}]`, or `NAME[ARGS]{…}`, several with a marker between them.
fn mistral_calls(text: &str) -> Vec<Found> {
    let calls = text.split(Marker::Mistral.begin()).map(|text| match text.split_once("[ARGS]") {
        Some((name, arguments)) => vec![Found::Call {
            // Newer models also write an id: `NAME[CALL_ID]ID[ARGS]`.
            name: name.split("[CALL_ID]").next().unwrap_or(name).trim().to_owned(),
            arguments: arguments.trim().to_owned(),
        }],
        None => json_calls(text),
    });
    let calls: Vec<Vec<Found>> = calls.collect();
    if calls.iter().any(Vec::is_empty) { Vec::new() } else { calls.into_iter().flatten().collect() }
}

#[cfg(test)]
#[path = "text_calls_tests.rs"]
mod tests;
