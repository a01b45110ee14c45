//! The session as the program sees it: its events as lines, and the questions to the user as requests.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::input::Share;
use super::permission::{self, Shown};
use super::program::Program;
use agent_protocol::control::{Control, PermissionMode};
use agent_protocol::event::{Body, Event, ModelRequested, ModelResponded, Sink, Stamped};
use agent_protocol::hook::names::foreign_tool;
use agent_protocol::question::{Question, UserAnswer};
use agent_protocol::spending::Spending;
use agent_ui::StreamJson;

/// What the program can be told about the session at any time.
#[derive(Default)]
pub(super) struct Known {
    /// The last request of the conversation.
    pub(super) requested: Option<ModelRequested>,
    /// The answer to it.
    pub(super) responded: Option<ModelResponded>,
    /// The ids of the user's messages, with the turns that they began or belong to.
    pub(super) turns: Vec<(String, u32)>,
    /// Messages that no turn has taken yet.
    pub(super) sent: VecDeque<Sent>,
    /// Tokens and money of this process.
    pub(super) spending: Spending,
    /// Why mode full may not be chosen, if so.
    pub(super) refuses_full: Option<&'static str>,
}

/// A message of the program for a turn.
pub(super) struct Sent {
    /// Its id, if the program gave it one.
    pub(super) uuid: Option<String>,
    /// As it was sent.
    pub(super) content: Value,
    pub(super) _share: Share,
}

/// Copies share it.
pub(super) type SharedKnown = Arc<Mutex<Known>>;

impl Known {
    /// A `result` with the cost so far.
    pub(super) fn with_cost(&self, mut result: Value) -> Value {
        result["total_cost_usd"] = self.spending.cost_usd.unwrap_or_default().into();
        result
    }

    /// The mode of this name, if the program may choose it.
    pub(super) fn mode(&self, name: &str) -> Result<PermissionMode, String> {
        let mode = PermissionMode::named(name).ok_or_else(|| {
            format!("there is no permission mode {name:?}: default, acceptEdits, plan, bypassPermissions")
        })?;
        match self.refuses_full {
            Some(why) if mode == PermissionMode::Full => Err(why.to_owned()),
            _ => Ok(mode),
        }
    }
}

pub(super) fn locked(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) struct Face {
    pub(super) lines: StreamJson,
    pub(super) program: Program,
    pub(super) control: Control,
    pub(super) known: SharedKnown,
    /// The project's root.
    pub(super) root: PathBuf,
    /// Time limit of an answer.
    pub(super) patience: Duration,
    /// The user's messages are repeated to the program.
    pub(super) repeats: bool,
    /// The requests that ask about calls, by call.
    pub(super) asked: HashMap<String, String>,
}

impl Sink for Face {
    fn take(&mut self, stamped: &Stamped) {
        self.lines.take(stamped);
        let event = &stamped.event;
        match &event.body {
            Body::TurnStarted { .. } => {
                let n_sent = locked(&self.known).sent.len();
                self.taken(event, n_sent);
            }
            Body::TurnSteered { .. } => self.taken(event, 1),
            Body::ModelRequested(request) if request.purpose.is_conversation() => {
                let mut known = locked(&self.known);
                known.requested = Some(request.clone());
            }
            Body::ModelResponded(answer) => {
                let mut known = locked(&self.known);
                known.spending.add(answer);
                if answer.purpose.is_conversation() {
                    known.responded = Some(answer.clone());
                }
            }
            _ => self.follow(event),
        }
    }

    fn take_from_agent(&mut self, stamped: &Stamped) {
        self.lines.take_from_agent(stamped);
        if let Body::ModelResponded(answer) = &stamped.event.body {
            locked(&self.known).spending.add(answer);
        }
        self.follow(&stamped.event);
    }

    fn recorded(&mut self, events: &[&Event]) {
        let mut known = locked(&self.known);
        let begun = events.iter().filter(|it| matches!(it.body, Body::TurnStarted { .. }));
        let turns = begun.map(|event| (StreamJson::id_of(event), event.header.place.turn));
        known.turns = turns.collect();
    }
}

impl Face {
    /// The session takes the next messages of the program.
    fn taken(&self, event: &Event, n: usize) {
        let mut known = locked(&self.known);
        for _ in 0..n {
            let Some(Sent { uuid, content, .. }) = known.sent.pop_front() else { return };
            let uuid = uuid.unwrap_or_else(|| StreamJson::id_of(event));
            known.turns.push((uuid.clone(), event.header.place.turn));
            if self.repeats {
                self.program.send(&json!({
                    "type": "user",
                    "message": {"role": "user", "content": content},
                    "parent_tool_use_id": null,
                    "session_id": event.header.session,
                    "uuid": uuid,
                    "isReplay": true,
                }));
            }
        }
    }

    fn follow(&mut self, event: &Event) {
        match &event.body {
            Body::PermissionRequested { call, .. } => {
                let request = permission::request(event, &self.root);
                let (control, shown) = (self.control.clone(), Shown::of(event, &self.root));
                let known = Arc::clone(&self.known);
                let asked = self.program.ask(&request, self.patience, move |answer| {
                    shown.answered(&control, &known, answer);
                });
                self.asked.insert(call.clone(), asked);
            }
            Body::QuestionAsked { call, questions } => {
                let request = json!({
                    "subtype": "can_use_tool",
                    "tool_name": foreign_tool("AskUser"),
                    "input": {"questions": questions.iter().map(as_json).collect::<Vec<_>>()},
                    "tool_use_id": call,
                    "requires_user_interaction": true,
                });
                let (control, id, questions) =
                    (self.control.clone(), call.clone(), questions.clone());
                let asked = self.program.ask(&request, self.patience, move |answer| {
                    control.tell(&id, answers(&questions, answer));
                });
                self.asked.insert(call.clone(), asked);
            }
            // The call is settled: no answer is waited for.
            Body::PermissionDecided { call, .. }
            | Body::QuestionAnswered { call, .. }
            | Body::ToolFinished { call, .. } => {
                if let Some(asked) = self.asked.remove(call) {
                    self.program.withdraw(&asked);
                }
            }
            _ => {}
        }
    }
}

fn as_json(question: &Question) -> Value {
    let options = question.options.iter().map(|option| {
        json!({"label": option.label, "description": option.description.as_deref().unwrap_or("")})
    });
    json!({
        "question": question.question,
        "header": question.header.as_deref().unwrap_or(""),
        "options": options.collect::<Vec<_>>(),
        "multiSelect": question.multi_select,
    })
}

/// The answers: the program allows the call with an input that contains them.
fn answers(questions: &[Question], answer: Result<Value, String>) -> Vec<UserAnswer> {
    let given = match answer {
        Ok(answer) if answer["behavior"] == "allow" => {
            Ok(answer["updatedInput"]["answers"].clone())
        }
        Ok(answer) => Err(answer["message"].as_str().unwrap_or_default().to_owned()),
        Err(why) => Err(why),
    };
    let answer = |question: &Question| {
        let text = match &given {
            Err(why) => return not_answered(question, why),
            Ok(given) => match &given[&question.question] {
                Value::String(text) => text.clone(),
                Value::Array(labels) => {
                    labels.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
                }
                _ => return not_answered(question, ""),
            },
        };
        let is_option = |label: &&str| question.options.iter().any(|option| option.label == *label);
        let labels: Vec<&str> = match question.options.iter().find(|it| it.label == text) {
            Some(option) => vec![&option.label],
            None => text.split(", ").collect(),
        };
        if labels.iter().all(is_option) {
            let selected = labels.iter().map(|label| (*label).to_owned()).collect();
            return UserAnswer { question: question.question.clone(), selected, text: None };
        }
        UserAnswer { question: question.question.clone(), selected: vec![], text: Some(text) }
    };
    questions.iter().map(answer).collect()
}

fn not_answered(question: &Question, why: &str) -> UserAnswer {
    let text =
        if why.is_empty() { "(not answered)".into() } else { format!("(not answered) {why}") };
    UserAnswer { question: question.question.clone(), selected: vec![], text: Some(text) }
}
