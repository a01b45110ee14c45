//! Splits the text of an answer, which arrives in pieces, into text and calls.

use super::formats::{calls_of_tools, json_calls, mistral_calls, xml_calls};
use agent_protocol::tool::ToolSpec;

const TOOL_CALL: &str = "<tool_call>";
const FUNCTION: &str = "<function=";
const TOOL_CALL_END: &str = "</tool_call>";
pub(super) const MISTRAL: &str = "[TOOL_CALLS]";
const PYTHON_TAG: &str = "<|python_tag|>";
const PYTHON_END: &str = "<|eom_id|>";
const TOOL_RESPONSE: &str = "<tool_response>";

/// The name of a call whose text cannot be parsed: no tool has it, so the model receives an error.
pub(super) const UNREADABLE: &str = "tool_call";

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

/// Text in, text and calls out.
pub(super) struct Reader<'a> {
    tools: &'a [ToolSpec],
    /// Text that is not decided yet.
    held: String,
    /// Where `held` begins.
    place: Place,
    /// The number of backticks that end the code block around `held`; 0: it is in none.
    fence: usize,
    /// Something other than white space was found.
    has_begun: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// At the beginning of a line, or after a call: a call may begin here.
    LineStart,
    /// Further in a line: its rest is text.
    InLine,
    /// At the marker of a call.
    Call(Marker),
    /// After a result that the model invented: the rest is dropped.
    AfterResponse,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Marker {
    ToolCall,
    Mistral,
    PythonTag,
    /// A code block with this number of backticks.
    Fence(usize),
    /// The whole answer is an object.
    Whole,
}

/// What begins at the first character of a line that is not white space.
#[derive(Debug, PartialEq)]
enum Line {
    Text,
    Call(Marker),
    /// A code block without calls begins: its number of backticks.
    Code(usize),
    EndOfCode,
    Response,
}

impl Marker {
    /// Where a call with this marker, which begins the text, ends; `None`: with the answer, as far as is known.
    fn end(self, text: &str) -> Option<usize> {
        let after = |end: &str| Some(text.find(end)? + end.len());
        match self {
            Self::ToolCall => after(TOOL_CALL_END),
            Self::PythonTag => after(PYTHON_END),
            Self::Fence(ticks) => {
                let begin = end_of_code(text, ticks)?;
                // More may follow in this line.
                let line = &text[begin..][..text[begin..].find('\n')?];
                Some(begin + line.trim_end().len())
            }
            Self::Mistral | Self::Whole => None,
        }
    }
}

impl<'a> Reader<'a> {
    /// For a request with these tools.
    pub(super) fn new(tools: &'a [ToolSpec]) -> Self {
        Self { tools, held: String::new(), place: Place::LineStart, fence: 0, has_begun: false }
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
        match self.place {
            Place::Call(marker) => self.close(marker, self.held.len(), &mut found),
            Place::LineStart | Place::InLine => self.say(self.held.len(), &mut found),
            Place::AfterResponse => {}
        }
        found
    }

    /// Decides about a part of the text; false: more of it is needed.
    fn step(&mut self, found: &mut Vec<Found>) -> bool {
        match self.place {
            Place::AfterResponse => {
                self.held.clear();
                false
            }
            Place::InLine => {
                let end = self.held.find('\n');
                self.say(end.map_or(self.held.len(), |at| at + 1), found);
                if end.is_some() {
                    self.place = Place::LineStart;
                }
                end.is_some()
            }
            Place::Call(marker) => {
                let Some(end) = marker.end(&self.held) else { return false };
                self.close(marker, end, found);
                true
            }
            Place::LineStart => {
                let line = self.held.trim_start();
                let Some(begins) = self.begins(line) else { return false };
                self.say(self.held.len() - line.len(), found);
                match begins {
                    Line::Text => self.place = Place::InLine,
                    Line::Call(marker) => self.place = Place::Call(marker),
                    Line::Code(ticks) => (self.place, self.fence) = (Place::InLine, ticks),
                    Line::EndOfCode => (self.place, self.fence) = (Place::InLine, 0),
                    Line::Response => self.place = Place::AfterResponse,
                }
                true
            }
        }
    }

    /// What begins with this text; `None`: more of it is needed.
    fn begins(&self, line: &str) -> Option<Line> {
        if self.fence > 0 {
            let (ticks, after) = backticks(line);
            let after = after.trim_start_matches([' ', '\t', '\r']);
            return match after.chars().next() {
                None => None,
                Some('\n') if ticks >= self.fence => Some(Line::EndOfCode),
                Some(_) => Some(Line::Text),
            };
        }
        match line.chars().next()? {
            '`' => code_block(line),
            '{' if !self.has_begun => Some(Line::Call(Marker::Whole)),
            '[' => after_word(line, MISTRAL, |after| {
                let after = after.trim_start();
                let is_call = |_: &str| Some(Line::Call(Marker::Mistral));
                if after.starts_with(['[', '{']) {
                    let object = after.strip_prefix('[').unwrap_or(after).trim_start();
                    return after_word(object, "{", is_call);
                }
                let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
                let after_name = after.trim_start_matches(is_of_name);
                if !after.is_empty() && after_name.len() == after.len() {
                    return Some(Line::Text);
                }
                any([
                    after_word(after_name, "[ARGS]", is_call),
                    after_word(after_name, "[CALL_ID]", is_call),
                ])
            }),
            '<' => any([
                after_word(line, TOOL_CALL, |after| {
                    let after = after.trim_start();
                    let is_call = |_: &str| Some(Line::Call(Marker::ToolCall));
                    any([after_word(after, "{", is_call), after_word(after, FUNCTION, is_call)])
                }),
                after_word(line, PYTHON_TAG, |after| {
                    after_word(after.trim_start(), "{", |_| Some(Line::Call(Marker::PythonTag)))
                }),
                after_word(line, TOOL_RESPONSE, |_| Some(Line::Response)),
            ]),
            _ => Some(Line::Text),
        }
    }

    /// The first `end` bytes are text.
    fn say(&mut self, end: usize, found: &mut Vec<Found>) {
        let text: String = self.held.drain(..end).collect();
        if !text.is_empty() {
            self.has_begun |= !text.trim().is_empty();
            found.push(Found::Text(text));
        }
    }

    /// The first `end` bytes are in the format of this marker.
    fn close(&mut self, marker: Marker, end: usize, found: &mut Vec<Found>) {
        self.place = Place::LineStart;
        let text = &self.held[..end];
        let mut end_of_text = end;
        let closed_call =
            text.strip_prefix(TOOL_CALL).and_then(|it| it.strip_suffix(TOOL_CALL_END));
        let is_delimited = matches!(marker, Marker::Fence(_)) || closed_call.is_some();
        if !is_delimited && let Some(at) = response(text) {
            self.place = Place::AfterResponse;
            end_of_text = at;
        }
        let text = &text[..end_of_text];
        let calls = match marker {
            Marker::ToolCall => {
                let body = closed_call.unwrap_or(&text[TOOL_CALL.len()..]);
                let is_xml = body.trim_start().starts_with(FUNCTION);
                let calls = if is_xml { xml_calls(body, self.tools) } else { json_calls(body) };
                or_unreadable(calls, body)
            }
            Marker::Mistral => {
                let body = &text[MISTRAL.len()..];
                or_unreadable(mistral_calls(body), body)
            }
            Marker::PythonTag => {
                let body = text[PYTHON_TAG.len()..].trim_end_matches(PYTHON_END);
                or_unreadable(json_calls(body), body)
            }
            Marker::Fence(ticks) => calls_of_tools(code_in(text, ticks), self.tools),
            Marker::Whole => calls_of_tools(text, self.tools),
        };
        if calls.is_empty() {
            self.say(end_of_text, found);
        } else {
            self.has_begun = true;
            self.held.drain(..end);
            found.extend(calls);
        }
    }
}

/// What `then` finds after this word; without the word it is text.
fn after_word(text: &str, word: &str, then: impl FnOnce(&str) -> Option<Line>) -> Option<Line> {
    match text.strip_prefix(word) {
        Some(after) => then(after),
        None if word.starts_with(text) => None,
        None => Some(Line::Text),
    }
}

/// What a line is if at most one of these is not text.
fn any<const N: usize>(mut lines: [Option<Line>; N]) -> Option<Line> {
    let at = lines.iter().position(|line| *line != Some(Line::Text)).unwrap_or_default();
    lines[at].take()
}

/// The number of backticks at the beginning, and the text after them.
fn backticks(text: &str) -> (usize, &str) {
    let after = text.trim_start_matches('`');
    (text.len() - after.len(), after)
}

/// What begins with these backticks. Only a code block of JSON may be a call.
fn code_block(line: &str) -> Option<Line> {
    let (ticks, after) = backticks(line);
    if after.is_empty() {
        return None;
    }
    let (info, code) = after.split_once('\n').unwrap_or((after, ""));
    if ticks < 3 || info.contains('`') {
        return Some(Line::Text);
    }
    match code.trim_start().chars().next()? {
        '{' | '[' => Some(Line::Call(Marker::Fence(ticks))),
        _ => Some(Line::Code(ticks)),
    }
}

/// Where the last line of this code block begins.
fn end_of_code(text: &str, ticks: usize) -> Option<usize> {
    let mut at = text.find('\n')? + 1;
    for line in text[at..].split_inclusive('\n') {
        let (n, after) = backticks(line.trim_start());
        if n >= ticks && after.trim().is_empty() {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// The text in a code block.
fn code_in(text: &str, ticks: usize) -> &str {
    let begin = text.find('\n').map_or(text.len(), |at| at + 1);
    &text[begin..end_of_code(text, ticks).unwrap_or(text.len())]
}

/// Where the model invents a result.
fn response(text: &str) -> Option<usize> {
    let is_at_line_start = |at: usize| text[..at].trim_end_matches([' ', '\t']).ends_with('\n');
    text.match_indices(TOOL_RESPONSE).map(|(at, _)| at).find(|&at| is_at_line_start(at))
}

/// After a marker, a text that is no call is an unreadable one.
fn or_unreadable(calls: Vec<Found>, body: &str) -> Vec<Found> {
    if !calls.is_empty() {
        return calls;
    }
    vec![Found::Call { name: UNREADABLE.to_owned(), arguments: body.trim().to_owned() }]
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
