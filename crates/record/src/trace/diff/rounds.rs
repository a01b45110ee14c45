//! A run as rounds: what the model received, what it did, what came of it.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::Kind;
use crate::live;
use agent_protocol::control::ControlDecision;
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{
    Body, Event, Layer, ModelRequested, ModelResponded, Place, TurnFinished,
};
use agent_protocol::message::{ToolCall, with_images};
use agent_protocol::model::{Purpose, StopReason};
use agent_protocol::view::{call_line, view};
use agent_protocol::{Object, without_reminder_tags};

/// One answer of a model, with what came before and after it.
#[derive(Debug, Default)]
pub(super) struct Round {
    pub(super) inputs: Vec<Item>,
    /// The answer; `None` in the last round if there was none.
    pub(super) decision: Option<Item>,
    /// Results, and decisions of the kernel about them.
    pub(super) results: Vec<Item>,
}

/// A part of a round that can be compared.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    pub(super) what: String,
    pub(super) place: Place,
    pub(super) seq: u64,
    pub(super) text: String,
    /// The place of its call in the answer. Calls that run at the same time end in any order.
    order: usize,
}

impl Round {
    pub(super) fn items(&self) -> impl Iterator<Item = &Item> {
        self.inputs.iter().chain(&self.decision).chain(&self.results)
    }
}

/// The rounds of a session, without those that a rewind removed.
pub(super) fn rounds(events: &[Event]) -> Vec<Round> {
    let mut fold = Fold::default();
    for event in events {
        if let Body::ModelRequested(request) = &event.body {
            fold.texts.extend(request.texts.iter().map(|(hash, text)| (&**hash, &**text)));
        }
    }
    for event in live(events) {
        fold.add(event);
    }
    fold.end_round();
    fold.rounds
}

#[derive(Default)]
struct Fold<'a> {
    rounds: Vec<Round>,
    round: Round,
    /// Texts of layers, by hash.
    texts: HashMap<&'a str, &'a str>,
    /// The hash of each layer, by purpose.
    layers: HashMap<(Purpose, &'a str), &'a str>,
    /// The place of each call in the last answer.
    order: HashMap<&'a str, usize>,
}

impl<'a> Fold<'a> {
    fn add(&mut self, event: &'a Event) {
        match &event.body {
            Body::TurnStarted { input, shown, images, .. } => {
                let text = with_images(shown.as_ref().unwrap_or(input), images);
                self.input(event, "message of the user", text);
            }
            Body::TurnSteered { input, shown, images, .. } => {
                let text = with_images(shown.as_ref().unwrap_or(input), images);
                self.input(event, "message of the user during the turn", text);
            }
            Body::UserCommand { command, output, exit_code } => {
                let code = exit_code.map_or_else(|| "none".to_owned(), |code| code.to_string());
                let text = format!("$ {command}\n{output}\nexit code: {code}");
                self.input(event, "command of the user", text);
            }
            Body::ModeChanged { mode, .. } => {
                self.input(event, "permission mode", mode.as_str().to_owned());
            }
            Body::Reminder { text, .. } | Body::Feedback { text, .. } => {
                let text = without_reminder_tags(text).trim().to_owned();
                self.input(event, "message of the program", text);
            }
            Body::RulesFound { path, text } => {
                self.input(event, &format!("rules of {path}"), text.clone());
            }
            // Lessons in L2 are compared with it.
            Body::MemoryRecalled(recalled) if !recalled.in_rules => {
                self.input(event, "lessons", recalled.text.clone());
            }
            Body::ContextCompacted(compacted) => {
                self.input(event, "summary of the conversation", compacted.summary.clone());
            }
            Body::ModelRequested(request) => self.requested(event, request),
            Body::ModelResponded(answer) => self.responded(event, answer),
            Body::ToolFinished { call, tool, envelope, .. } => {
                let order = self.order.get(&**call).copied().unwrap_or(usize::MAX);
                let what = format!("result of {}", call_line(tool, &envelope.context.params_input));
                self.result(event, Kind::Result, what, result(envelope), order);
            }
            Body::CheckFinished { command, exit_code, passed, tail, .. } => {
                let how = if *passed { "passed" } else { "failed" };
                let code = exit_code.map_or_else(|| "none".to_owned(), |code| code.to_string());
                let text = format!("{how}, exit code: {code}\n{tail}");
                self.result(event, Kind::Result, format!("check {command}"), text, usize::MAX);
            }
            Body::Verified(verification) => {
                let (what, text) = ("verification".to_owned(), verification.in_words());
                self.result(event, Kind::Result, what, text, usize::MAX);
            }
            Body::ControlDecided { decision, reason, .. }
                if *decision != ControlDecision::Continue =>
            {
                let text = format!("{}: {reason}", decision.words());
                let what = "decision of the kernel".to_owned();
                self.result(event, Kind::Decision, what, text, usize::MAX);
            }
            Body::TurnFinished(finished) => {
                let (what, text) = ("end of the turn".to_owned(), end(finished));
                self.result(event, Kind::Result, what, text, usize::MAX);
            }
            _ => {}
        }
    }

    /// Layers are inputs where they change. What is sent to learn is no part of the run.
    fn requested(&mut self, event: &'a Event, request: &'a ModelRequested) {
        if request.purpose == Purpose::Learn {
            return;
        }
        for (layer, name) in [
            ("l1", "system prompt (L1)"),
            ("l2", "rules (L2)"),
            ("tools", "descriptions of the tools"),
        ] {
            let Some(Layer { hash, bytes, .. }) = request.layers.get(layer) else { continue };
            if self.layers.insert((request.purpose, layer), hash) == Some(hash.as_str()) {
                continue;
            }
            // An empty text is not recorded.
            let text =
                if *bytes == 0 { "" } else { self.texts.get(&**hash).copied().unwrap_or(hash) };
            self.input(event, &of_purpose(name, request.purpose), text.to_owned());
        }
        if let Some(question) = &request.question {
            self.input(event, &of_purpose("question", request.purpose), question.clone());
        }
    }

    fn responded(&mut self, event: &'a Event, answer: &'a ModelResponded) {
        if answer.purpose == Purpose::Learn {
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
            text.push_str(&format!("\n{} {}", call.name, canonical(call)));
        }
        if answer.discarded {
            text.push_str("\n(not used)");
        }
        match &answer.stop {
            StopReason::End | StopReason::ToolCalls => {}
            other => text.push_str(&format!("\n(ended by: {other:?})")),
        }
        self.round.decision = Some(Item {
            kind: Kind::Decision,
            what: of_purpose(&what, answer.purpose),
            place: event.header.place,
            seq: event.header.seq,
            text: text.trim_start().to_owned(),
            order: 0,
        });
    }

    fn input(&mut self, event: &Event, what: &str, text: String) {
        if self.round.decision.is_some() || !self.round.results.is_empty() {
            self.end_round();
        }
        self.round.inputs.push(Item {
            kind: Kind::Input,
            what: what.to_owned(),
            place: event.header.place,
            seq: event.header.seq,
            text,
            order: 0,
        });
    }

    fn result(&mut self, event: &Event, kind: Kind, what: String, text: String, order: usize) {
        let (place, seq) = (event.header.place, event.header.seq);
        self.round.results.push(Item { kind, what, place, seq, text, order });
    }

    fn end_round(&mut self) {
        let mut round = std::mem::take(&mut self.round);
        if round.items().next().is_some() {
            round.results.sort_by_key(|item| item.order);
            self.rounds.push(round);
        }
    }
}

/// The name of a thing in a request that is not part of the conversation.
fn of_purpose(what: &str, purpose: Purpose) -> String {
    match purpose {
        Purpose::Main => what.to_owned(),
        other => format!("{what} (request: {})", other.as_str()),
    }
}

/// The arguments with sorted keys; as they are if they do not parse.
fn canonical(call: &ToolCall) -> String {
    let parsed = serde_json::from_str::<Value>(&call.arguments).map(sorted);
    parsed
        .and_then(|value| serde_json::to_string_pretty(&value))
        .unwrap_or_else(|_| call.arguments.clone())
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> =
                fields.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            Value::Object(Object::from_iter(fields))
        }
        Value::Array(items) => Value::Array(items.into_iter().map(sorted).collect()),
        other => other,
    }
}

/// A result as the model sees it, with status, code and exit code.
fn result(envelope: &Envelope) -> String {
    let code =
        envelope.error().map_or_else(String::new, |error| format!(" {}", error.code.as_str()));
    let exit = envelope.data.get("exit_code").filter(|code| !code.is_null());
    let exit = exit.map_or_else(String::new, |code| format!(", exit code {code}"));
    format!("{}{code}{exit}\n{}", envelope.status(), view(envelope))
}

fn end(finished: &TurnFinished) -> String {
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
