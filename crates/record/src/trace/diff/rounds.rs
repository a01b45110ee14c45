//! A run as rounds: the model's input, its decision, the results.

use std::collections::HashMap;

use serde_json::Value;

use super::DifferenceKind;
use crate::live_events;
use agent_protocol::control::ControlDecision;
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{
    Event, EventBody, ModelRequested, ModelResponded, RequestLayer, TurnFinished, WorkPosition,
};
use agent_protocol::message::{ToolCall, append_image_lines};
use agent_protocol::model::{Purpose, StopReason};
use agent_protocol::strip_reminder_tags;
use agent_protocol::view::{call_line, render_for_model};

/// An answer of a model, with its input and its results.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) inputs: Vec<RoundItem>,
    /// The answer of the model; `None` in the last round without an answer.
    pub(super) decision: Option<RoundItem>,
    /// Results, and decisions of the kernel about them.
    pub(super) results: Vec<RoundItem>,
}

#[derive(Debug)]
pub(super) struct RoundItem {
    pub(super) kind: DifferenceKind,
    pub(super) what: String,
    pub(super) place: WorkPosition,
    pub(super) seq: u64,
    pub(super) text: String,
    /// The position of the call in the answer. Calls that run at the same time end in any order.
    order: usize,
}

impl RoundItem {
    fn new(event: &Event, kind: DifferenceKind, what: String, text: String) -> Self {
        let (place, seq) = (event.header.place, event.header.seq);
        Self { kind, what, place, seq, text, order: usize::MAX }
    }
}

impl Round {
    pub(super) fn items(&self) -> impl Iterator<Item = &RoundItem> {
        self.inputs.iter().chain(&self.decision).chain(&self.results)
    }
}

/// Leaves out rounds that a rewind removed.
pub(super) fn rounds(events: &[Event]) -> Vec<Round> {
    let mut builder = RoundBuilder::default();
    for event in events {
        if let EventBody::ModelRequested(request) = &event.body {
            builder.texts.extend(request.texts.iter().map(|(hash, text)| (&**hash, &**text)));
        }
    }
    for event in live_events(events) {
        builder.add_event(event);
    }
    builder.end_round();
    builder.rounds
}

#[derive(Default)]
struct RoundBuilder<'a> {
    rounds: Vec<Round>,
    round: Round,
    texts: HashMap<&'a str, &'a str>,
    layers: HashMap<(Purpose, &'a str), &'a str>,
    order: HashMap<&'a str, usize>,
}

impl<'a> RoundBuilder<'a> {
    fn add_event(&mut self, event: &'a Event) {
        match &event.body {
            EventBody::TurnStarted(message) => {
                let text = append_image_lines(message.model_text(), &message.images);
                self.add_input(event, "message of the user", text);
            }
            EventBody::TurnSteered(message) => {
                let text = append_image_lines(message.model_text(), &message.images);
                self.add_input(event, "message of the user during the turn", text);
            }
            EventBody::UserCommand { command, output, exit_code } => {
                let code = exit_code.map_or_else(|| "none".to_owned(), |code| code.to_string());
                let text = format!("$ {command}\n{output}\nexit code: {code}");
                self.add_input(event, "command of the user", text);
            }
            EventBody::ModeChanged { mode, .. } => {
                self.add_input(event, "permission mode", mode.as_str().to_owned());
            }
            EventBody::Reminder { text, .. } | EventBody::Feedback { text, .. } => {
                let text = strip_reminder_tags(text).trim().to_owned();
                self.add_input(event, "message of the program", text);
            }
            EventBody::RulesFound { path, text } => {
                self.add_input(event, &format!("rules of {path}"), text.clone());
            }
            // Lessons in L2 are compared as part of that layer.
            EventBody::MemoryRecalled(recalled) if !recalled.in_rules => {
                self.add_input(event, "lessons", recalled.text.clone());
            }
            EventBody::ContextCompacted(compacted) => {
                self.add_input(event, "summary of the conversation", compacted.summary.clone());
            }
            EventBody::ModelRequested(request) => self.add_request(event, request),
            EventBody::ModelResponded(answer) => self.add_answer(event, answer),
            EventBody::ToolFinished { call, tool, envelope, .. } => {
                let order = self.order.get(&**call).copied().unwrap_or(usize::MAX);
                let what = format!("result of {}", call_line(tool, &envelope.context.params_input));
                let text = result_text(envelope);
                let item = RoundItem::new(event, DifferenceKind::Result, what, text);
                self.round.results.push(RoundItem { order, ..item });
            }
            EventBody::CheckFinished { command, exit_code, passed, tail, .. } => {
                let how = if *passed { "passed" } else { "failed" };
                let code = exit_code.map_or_else(|| "none".to_owned(), |code| code.to_string());
                let text = format!("{how}, exit code: {code}\n{tail}");
                self.add_result(event, &format!("check {command}"), text);
            }
            EventBody::Verified(verification) => {
                self.add_result(event, "verification", verification.in_words());
            }
            EventBody::ControlDecided { decision, reason, .. }
                if *decision != ControlDecision::Continue =>
            {
                let text = format!("{}: {reason}", decision.label());
                let what = "decision of the kernel".to_owned();
                let item = RoundItem::new(event, DifferenceKind::Decision, what, text);
                self.round.results.push(item);
            }
            EventBody::TurnFinished(finished) => {
                self.add_result(event, "end of the turn", ending_text(finished));
            }
            _ => {}
        }
    }

    /// A layer is an input in the rounds where it changes. Requests for learning are not part of the run, and those of tools part of a call.
    fn add_request(&mut self, event: &'a Event, request: &'a ModelRequested) {
        if !request.purpose.is_of_loop() {
            return;
        }
        for (layer, name) in [
            ("l1", "system prompt (L1)"),
            ("l2", "rules (L2)"),
            ("tools", "descriptions of the tools"),
        ] {
            let Some(RequestLayer { hash, bytes, .. }) = request.layers.get(layer) else {
                continue;
            };
            if self.layers.insert((request.purpose, layer), hash) == Some(hash.as_str()) {
                continue;
            }
            // An empty text is not recorded.
            let text =
                if *bytes == 0 { "" } else { self.texts.get(&**hash).copied().unwrap_or(hash) };
            self.add_input(event, &name_with_purpose(name, request.purpose), text.to_owned());
        }
        if let Some(question) = &request.question {
            let what = name_with_purpose("question", request.purpose);
            self.add_input(event, &what, question.clone());
        }
    }

    fn add_answer(&mut self, event: &'a Event, answer: &'a ModelResponded) {
        if !answer.purpose.is_of_loop() {
            return;
        }
        if self.round.decision.is_some() || !self.round.results.is_empty() {
            self.end_round();
        }
        self.order = answer.calls.iter().enumerate().map(|(n, call)| (&*call.id, n)).collect();
        let what = match answer.calls.as_slice() {
            [] => "answer".to_owned(),
            [one] => format!("call of {}", one.name),
            [one, ..] => format!("call of {} and {} more", one.name, answer.calls.len() - 1),
        };
        let mut text = answer.text.trim().to_owned();
        for call in &answer.calls {
            text.push_str(&format!("\n{} {}", call.name, canonical_arguments(call)));
        }
        if answer.discarded {
            text.push_str("\n(not used)");
        }
        match &answer.stop {
            StopReason::End | StopReason::ToolCalls => {}
            other => text.push_str(&format!("\n(ended by: {other:?})")),
        }
        let (what, text) = (name_with_purpose(&what, answer.purpose), text.trim_start().to_owned());
        self.round.decision = Some(RoundItem::new(event, DifferenceKind::Decision, what, text));
    }

    fn add_input(&mut self, event: &Event, what: &str, text: String) {
        if self.round.decision.is_some() || !self.round.results.is_empty() {
            self.end_round();
        }
        let item = RoundItem::new(event, DifferenceKind::Input, what.to_owned(), text);
        self.round.inputs.push(item);
    }

    fn add_result(&mut self, event: &Event, what: &str, text: String) {
        let item = RoundItem::new(event, DifferenceKind::Result, what.to_owned(), text);
        self.round.results.push(item);
    }

    fn end_round(&mut self) {
        let mut round = std::mem::take(&mut self.round);
        if round.items().next().is_some() {
            round.results.sort_by_key(|item| item.order);
            self.rounds.push(round);
        }
    }
}

fn name_with_purpose(what: &str, purpose: Purpose) -> String {
    match purpose {
        Purpose::Main => what.to_owned(),
        other => format!("{what} (request: {})", other.as_str()),
    }
}

/// Sorts the keys; returns invalid JSON unchanged.
fn canonical_arguments(call: &ToolCall) -> String {
    let Ok(mut arguments) = serde_json::from_str::<Value>(&call.arguments) else {
        return call.arguments.clone();
    };
    arguments.sort_all_objects();
    format!("{arguments:#}")
}

fn result_text(envelope: &Envelope) -> String {
    let code =
        envelope.error().map_or_else(String::new, |error| format!(" {}", error.code.as_str()));
    let exit = envelope.data.get("exit_code").filter(|code| !code.is_null());
    let exit = exit.map_or_else(String::new, |code| format!(", exit code {code}"));
    format!("{}{code}{exit}\n{}", envelope.status(), render_for_model(envelope))
}

fn ending_text(finished: &TurnFinished) -> String {
    let verified = match finished.verified {
        Some(true) => "yes",
        Some(false) => "no",
        None => "not checked",
    };
    format!(
        "{}\nverified: {verified}\nchanged: {}",
        finished.ending.as_str(),
        finished.files_changed.join(", ")
    )
}
