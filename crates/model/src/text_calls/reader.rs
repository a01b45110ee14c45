//! Splits the text of an answer, which arrives in pieces, into text and calls.

use super::formats::{calls_to_known_tools, json_calls, mistral_calls, xml_calls};
use agent_protocol::tool::ToolSpec;

const TOOL_CALL: &str = "<tool_call>";
const FUNCTION: &str = "<function=";
const TOOL_CALL_END: &str = "</tool_call>";
pub(super) const MISTRAL_MARKER: &str = "[TOOL_CALLS]";
const PYTHON_TAG: &str = "<|python_tag|>";
const PYTHON_END: &str = "<|eom_id|>";
const TOOL_RESPONSE: &str = "<tool_response>";

/// The name of a call whose text cannot be parsed: no tool has it, so the model receives an error.
pub(super) const UNREADABLE_CALL_NAME: &str = "tool_call";

#[derive(Debug, PartialEq)]
pub(super) enum Segment {
    Text(String),
    /// A result that the model invented, and what follows it.
    Dropped(String),
    Call {
        name: String,
        /// JSON text; it may be invalid.
        arguments: String,
    },
}

#[derive(Default)]
pub(super) struct TextCallReader<'a> {
    tools: &'a [ToolSpec],
    /// Text that is not classified yet.
    buffer: String,
    /// Where `buffer` begins.
    state: ReaderState,
    /// Backticks that end the code block around `buffer`; 0 outside of a block.
    fence: usize,
    /// Text other than white space was received.
    has_begun: bool,
    call_bytes: usize,
    /// Of calls, and of text that may be one; more is text, so that nothing is held back without end.
    max_held_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum ReaderState {
    /// At the beginning of a line, or after a call: a call may begin here.
    #[default]
    LineStart,
    /// Further in a line: its rest is text.
    InLine,
    Call(CallMarker),
    /// After a result that the model invented: the rest is dropped.
    AfterResponse,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CallMarker {
    ToolCall,
    Mistral,
    PythonTag,
    /// A code block with this number of backticks.
    Fence(usize),
    /// The whole answer is an object.
    Whole,
}

/// The kinds of the first character of a line that is not white space.
#[derive(Debug, PartialEq)]
enum LineKind {
    Text,
    Call(CallMarker),
    /// A block without calls begins, with this number of backticks.
    Code(usize),
    EndOfCode,
    Response,
}

impl CallMarker {
    /// The call begins the text. `None` if it ends with the answer, as far as is known.
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

impl<'a> TextCallReader<'a> {
    pub(super) fn new(tools: &'a [ToolSpec], max_held_bytes: usize) -> Self {
        Self { tools, max_held_bytes, ..Self::default() }
    }

    pub(super) fn push(&mut self, text: &str) -> Vec<Segment> {
        self.buffer.push_str(text);
        let mut found = Vec::new();
        while self.decide_next(&mut found) {}
        if self.call_bytes + self.buffer.len() > self.max_held_bytes {
            self.emit_text(self.buffer.len(), &mut found);
            self.state = ReaderState::InLine;
        }
        found
    }

    /// What was received last may be a call.
    pub(super) fn holds_call(&self) -> bool {
        matches!(self.state, ReaderState::Call(_))
    }

    pub(super) fn finish(&mut self) -> Vec<Segment> {
        let mut found = Vec::new();
        match self.state {
            ReaderState::Call(marker) => self.emit_calls(marker, self.buffer.len(), &mut found),
            ReaderState::LineStart | ReaderState::InLine => {
                self.emit_text(self.buffer.len(), &mut found);
            }
            ReaderState::AfterResponse => {}
        }
        if self.state == ReaderState::AfterResponse {
            self.emit_dropped(self.buffer.len(), &mut found);
        }
        found
    }

    /// Returns false if more text is needed.
    fn decide_next(&mut self, found: &mut Vec<Segment>) -> bool {
        match self.state {
            ReaderState::AfterResponse => {
                self.emit_dropped(self.buffer.len(), found);
                false
            }
            ReaderState::InLine => {
                let end = self.buffer.find('\n');
                self.emit_text(end.map_or(self.buffer.len(), |at| at + 1), found);
                if end.is_some() {
                    self.state = ReaderState::LineStart;
                }
                end.is_some()
            }
            ReaderState::Call(marker) => {
                let Some(end) = marker.end(&self.buffer) else { return false };
                self.emit_calls(marker, end, found);
                true
            }
            ReaderState::LineStart => {
                self.emit_text(self.buffer.len() - self.buffer.trim_start().len(), found);
                let Some(begins) = self.classify_line(&self.buffer) else { return false };
                match begins {
                    LineKind::Text => self.state = ReaderState::InLine,
                    LineKind::Call(marker) => self.state = ReaderState::Call(marker),
                    LineKind::Code(ticks) => {
                        (self.state, self.fence) = (ReaderState::InLine, ticks);
                    }
                    LineKind::EndOfCode => (self.state, self.fence) = (ReaderState::InLine, 0),
                    LineKind::Response => self.state = ReaderState::AfterResponse,
                }
                true
            }
        }
    }

    /// `None` if more text is needed.
    fn classify_line(&self, line: &str) -> Option<LineKind> {
        if self.fence > 0 {
            let (ticks, after) = backticks(line);
            let after = after.trim_start_matches([' ', '\t', '\r']);
            return match after.chars().next() {
                None => None,
                Some('\n') if ticks >= self.fence => Some(LineKind::EndOfCode),
                Some(_) => Some(LineKind::Text),
            };
        }
        match line.chars().next()? {
            '`' => classify_code_block(line),
            '{' if !self.has_begun => Some(LineKind::Call(CallMarker::Whole)),
            '[' => match_prefix(line, MISTRAL_MARKER, |after| {
                let after = after.trim_start();
                let is_call = |_: &str| Some(LineKind::Call(CallMarker::Mistral));
                if after.starts_with(['[', '{']) {
                    let object = after.strip_prefix('[').unwrap_or(after).trim_start();
                    return match_prefix(object, "{", is_call);
                }
                let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
                let after_name = after.trim_start_matches(is_of_name);
                if !after.is_empty() && after_name.len() == after.len() {
                    return Some(LineKind::Text);
                }
                first_candidate([
                    match_prefix(after_name, "[ARGS]", is_call),
                    match_prefix(after_name, "[CALL_ID]", is_call),
                ])
            }),
            '<' => first_candidate([
                match_prefix(line, TOOL_CALL, |after| {
                    let after = after.trim_start();
                    let is_call = |_: &str| Some(LineKind::Call(CallMarker::ToolCall));
                    first_candidate([
                        match_prefix(after, "{", is_call),
                        match_prefix(after, FUNCTION, is_call),
                    ])
                }),
                match_prefix(line, PYTHON_TAG, |after| {
                    match_prefix(after.trim_start(), "{", |_| {
                        Some(LineKind::Call(CallMarker::PythonTag))
                    })
                }),
                match_prefix(line, TOOL_RESPONSE, |_| Some(LineKind::Response)),
            ]),
            _ => Some(LineKind::Text),
        }
    }

    /// The first `end` bytes are text.
    fn emit_text(&mut self, end: usize, found: &mut Vec<Segment>) {
        let text: String = self.buffer.drain(..end).collect();
        if !text.is_empty() {
            self.has_begun |= !text.trim().is_empty();
            found.push(Segment::Text(text));
        }
    }

    fn emit_dropped(&mut self, end: usize, found: &mut Vec<Segment>) {
        let text: String = self.buffer.drain(..end).collect();
        if !text.is_empty() {
            found.push(Segment::Dropped(text));
        }
    }

    fn emit_calls(&mut self, marker: CallMarker, end: usize, found: &mut Vec<Segment>) {
        self.state = ReaderState::LineStart;
        let text = &self.buffer[..end];
        let mut end_of_text = end;
        let closed_call =
            text.strip_prefix(TOOL_CALL).and_then(|call| call.strip_suffix(TOOL_CALL_END));
        let is_delimited = matches!(marker, CallMarker::Fence(_)) || closed_call.is_some();
        if !is_delimited && let Some(at) = find_invented_response(text) {
            self.state = ReaderState::AfterResponse;
            end_of_text = at;
        }
        let text = &text[..end_of_text];
        let calls = match marker {
            CallMarker::ToolCall => {
                let body = closed_call.unwrap_or(&text[TOOL_CALL.len()..]);
                let is_xml = body.trim_start().starts_with(FUNCTION);
                let calls = if is_xml { xml_calls(body, self.tools) } else { json_calls(body) };
                or_unreadable(calls, body)
            }
            CallMarker::Mistral => {
                let body = &text[MISTRAL_MARKER.len()..];
                or_unreadable(mistral_calls(body), body)
            }
            CallMarker::PythonTag => {
                let body = text[PYTHON_TAG.len()..].trim_end_matches(PYTHON_END);
                or_unreadable(json_calls(body), body)
            }
            CallMarker::Fence(ticks) => calls_to_known_tools(code_in(text, ticks), self.tools),
            CallMarker::Whole => calls_to_known_tools(text, self.tools),
        };
        if calls.is_empty() {
            self.emit_text(end_of_text, found);
        } else {
            self.has_begun = true;
            self.call_bytes += end_of_text;
            self.buffer.drain(..end_of_text);
            found.extend(calls);
            self.emit_dropped(end - end_of_text, found);
        }
    }
}

/// Applies `then` to the text after the word; without the word the line is text.
fn match_prefix(
    text: &str,
    word: &str,
    then: impl FnOnce(&str) -> Option<LineKind>,
) -> Option<LineKind> {
    match text.strip_prefix(word) {
        Some(after) => then(after),
        None if word.starts_with(text) => None,
        None => Some(LineKind::Text),
    }
}

/// At most one of the candidates is not text.
fn first_candidate<const N: usize>(mut lines: [Option<LineKind>; N]) -> Option<LineKind> {
    let at = lines.iter().position(|line| *line != Some(LineKind::Text)).unwrap_or_default();
    lines[at].take()
}

/// Number of backticks at the beginning, and the text after them.
fn backticks(text: &str) -> (usize, &str) {
    let after = text.trim_start_matches('`');
    (text.len() - after.len(), after)
}

/// Only a code block of JSON may be a call.
fn classify_code_block(line: &str) -> Option<LineKind> {
    let (ticks, after) = backticks(line);
    if after.is_empty() {
        return None;
    }
    let (info, code) = after.split_once('\n').unwrap_or((after, ""));
    if ticks < 3 || info.contains('`') {
        return Some(LineKind::Text);
    }
    match code.trim_start().chars().next()? {
        '{' | '[' => Some(LineKind::Call(CallMarker::Fence(ticks))),
        _ => Some(LineKind::Code(ticks)),
    }
}

/// Start of the last line of the code block.
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

fn code_in(text: &str, ticks: usize) -> &str {
    let begin = text.find('\n').map_or(text.len(), |at| at + 1);
    &text[begin..end_of_code(text, ticks).unwrap_or(text.len())]
}

fn find_invented_response(text: &str) -> Option<usize> {
    let is_at_line_start = |at: usize| text[..at].trim_end_matches([' ', '\t']).ends_with('\n');
    text.match_indices(TOOL_RESPONSE).map(|(at, _)| at).find(|&at| is_at_line_start(at))
}

/// After a marker, text without calls is an unreadable call.
fn or_unreadable(calls: Vec<Segment>, body: &str) -> Vec<Segment> {
    if !calls.is_empty() {
        return calls;
    }
    vec![Segment::Call { name: UNREADABLE_CALL_NAME.to_owned(), arguments: body.trim().to_owned() }]
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
