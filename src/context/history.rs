//! L3: the conversation as the model has had it. A call and its result enter it together.

use super::rules;
use crate::protocol::envelope::Envelope;
use crate::protocol::event::{Body, Event};
use crate::protocol::message::{Message, Part, Role, ToolCall, ToolResult};
use crate::protocol::model::Purpose;
use crate::protocol::view::view;

const UNDONE: &str = include_str!("../../prompts/feedback/undone.md");

/// The conversation. It grows only at its end.
#[derive(Clone, Debug, Default)]
pub struct History {
    messages: Vec<Message>,
    bytes: usize,
    /// While events are folded: an answer whose calls are not all answered yet.
    waiting: Option<Waiting>,
}

#[derive(Clone, Debug)]
struct Waiting {
    text: String,
    calls: Vec<ToolCall>,
    envelopes: Vec<Option<Envelope>>,
}

impl History {
    /// The messages, oldest first. Every call in them has exactly one result.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Size of all texts, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The user said something, or the program on the user's behalf.
    pub fn user(&mut self, text: &str) {
        self.push(Message::text(Role::User, text));
    }

    /// The model said something and called nothing.
    pub fn assistant(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(Message::text(Role::Assistant, text));
        }
    }

    /// The model called tools, and they answered: `calls` and `envelopes` belong together in order.
    pub fn exchange(&mut self, text: &str, calls: &[ToolCall], envelopes: &[&Envelope]) {
        let mut parts = Vec::with_capacity(calls.len() + 1);
        if !text.is_empty() {
            parts.push(Part::Text { text: text.to_owned() });
        }
        parts.extend(calls.iter().cloned().map(Part::Call));
        self.push(Message { role: Role::Assistant, parts });
        let results = calls.iter().zip(envelopes).map(|(call, envelope)| {
            Part::Result(ToolResult {
                call: call.id.clone(),
                text: view(envelope),
                is_error: envelope.error().is_some(),
            })
        });
        self.push(Message { role: Role::Tool, parts: results.collect() });
    }

    /// Takes one more event of a recorded session.
    pub fn apply(&mut self, event: &Event) {
        match &event.body {
            Body::TurnStarted { input } => self.user(input),
            Body::Feedback { text } => self.user(text),
            Body::RulesFound { path, text } => self.user(&rules::met(path, text)),
            Body::TurnUndone { undone, files } => {
                let files: Vec<String> =
                    files.iter().map(|(path, how)| format!("{path} ({how})")).collect();
                let text = UNDONE.replace("{{turn}}", &undone.to_string());
                self.user(text.replace("{{files}}", &files.join(", ")).trim_end());
            }
            Body::ModelResponded(answer)
                if answer.purpose == Purpose::Main && !answer.discarded =>
            {
                if answer.calls.is_empty() {
                    self.assistant(&answer.text);
                } else {
                    self.waiting = Some(Waiting {
                        text: answer.text.clone(),
                        calls: answer.calls.clone(),
                        envelopes: vec![None; answer.calls.len()],
                    });
                }
            }
            Body::ToolFinished { call, envelope, .. } => self.answered(call, envelope),
            Body::ModelResponded(_)
            | Body::SessionStarted(_)
            | Body::SessionResumed { .. }
            | Body::ModelRequested(_)
            | Body::ModelDelta { .. }
            | Body::ToolStarted { .. }
            | Body::Frozen { .. }
            | Body::Thawed { .. }
            | Body::PermissionDecided { .. }
            | Body::Evaluation { .. }
            | Body::ControlDecided { .. }
            | Body::PlanUpdated { .. }
            | Body::CheckFinished { .. }
            | Body::ContextCompacted(_)
            | Body::PinAdded { .. }
            | Body::PinRemoved { .. }
            | Body::Error { .. }
            | Body::TurnFinished(_)
            | Body::SessionSummary(_) => {}
        }
    }

    fn answered(&mut self, call: &str, envelope: &Envelope) {
        let Some(waiting) = &mut self.waiting else { return };
        let at = waiting
            .calls
            .iter()
            .zip(&waiting.envelopes)
            .position(|(c, envelope)| c.id == call && envelope.is_none());
        if let Some(at) = at {
            waiting.envelopes[at] = Some(envelope.clone());
        }
        if waiting.envelopes.iter().all(Option::is_some)
            && let Some(waiting) = self.waiting.take()
        {
            let envelopes: Vec<&Envelope> = waiting.envelopes.iter().flatten().collect();
            self.exchange(&waiting.text, &waiting.calls, &envelopes);
        }
    }

    fn push(&mut self, message: Message) {
        self.bytes += message.parts.iter().map(size).sum::<usize>();
        self.messages.push(message);
    }
}

fn size(part: &Part) -> usize {
    match part {
        Part::Text { text } | Part::Reasoning { text } => text.len(),
        Part::Call(call) => call.name.len() + call.arguments.len(),
        Part::Result(result) => result.text.len(),
    }
}
