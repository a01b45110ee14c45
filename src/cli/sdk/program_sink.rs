//! The session as the program sees it: its events as lines, and the questions to the user as requests.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::input::InputShare;
use super::permission::{self, ShownCall};
use super::program::Program;
use agent_protocol::control::{PermissionMode, SessionControl};
use agent_protocol::event::{Event, EventBody, ModelRequested, ModelResponded, Sink, StampedEvent};
use agent_protocol::hook::claude_names::claude_tool_name;
use agent_protocol::question::{Question, UserAnswer};
use agent_protocol::spending::Spending;
use agent_ui::StreamJson;

/// State of the session that the program can request at any time.
#[derive(Default)]
pub(super) struct SessionStatus {
    pub(super) last_request: Option<ModelRequested>,
    pub(super) last_response: Option<ModelResponded>,
    /// Message ids, with the turns that they began or belong to.
    pub(super) message_turns: Vec<(String, u32)>,
    pub(super) undelivered: VecDeque<UndeliveredMessage>,
    /// Spending of this process.
    pub(super) spending: Spending,
}

pub(super) struct UndeliveredMessage {
    /// Set by the program.
    pub(super) uuid: Option<String>,
    /// As sent.
    pub(super) content: Value,
    pub(super) _share: InputShare,
}

pub(super) type SharedStatus = Arc<Mutex<SessionStatus>>;

impl SessionStatus {
    /// Adds the cost so far to a `result`.
    pub(super) fn with_cost(&self, mut result: Value) -> Value {
        result["total_cost_usd"] = self.spending.cost_usd.unwrap_or_default().into();
        result
    }
}

/// The mode that a program chooses, or why it may not.
pub(super) fn parse_mode(control: &SessionControl, name: &str) -> Result<PermissionMode, String> {
    let mode = PermissionMode::from_name(name).ok_or_else(|| {
        format!(
            "there is no permission mode {name:?}: default, acceptEdits, plan, bypassPermissions"
        )
    })?;
    control.mode_refusal(mode).map_or(Ok(mode), Err)
}

pub(super) struct ProgramSink {
    pub(super) lines: Box<dyn Sink>,
    pub(super) program: Program,
    pub(super) control: SessionControl,
    pub(super) status: SharedStatus,
    pub(super) root: PathBuf,
    pub(super) answer_timeout: Duration,
    pub(super) repeats_messages: bool,
    /// Permission requests by call.
    pub(super) open_requests: HashMap<String, String>,
}

impl Sink for ProgramSink {
    fn receive(&mut self, stamped: &StampedEvent) {
        self.lines.receive(stamped);
        let event = &stamped.event;
        match &event.body {
            EventBody::TurnStarted { .. } => {
                let n_sent = self.status.lock().undelivered.len();
                self.record_delivered(event, n_sent);
            }
            EventBody::TurnSteered { .. } => self.record_delivered(event, 1),
            EventBody::ModelRequested(request) if request.purpose.is_conversation() => {
                self.status.lock().last_request = Some(request.clone());
            }
            EventBody::ModelResponded(answer) => {
                let mut status = self.status.lock();
                status.spending.add_response(answer);
                if answer.purpose.is_conversation() {
                    status.last_response = Some(answer.clone());
                }
            }
            _ => self.track_user_requests(event),
        }
    }

    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.lines.receive_from_subagent(stamped);
        if let EventBody::ModelResponded(answer) = &stamped.event.body {
            self.status.lock().spending.add_response(answer);
        }
        self.track_user_requests(&stamped.event);
    }

    fn receive_recorded(&mut self, events: &[&Event], _spending: Spending) {
        let mut status = self.status.lock();
        let started = events.iter().filter(|it| matches!(it.body, EventBody::TurnStarted { .. }));
        let turns = started.map(|event| (StreamJson::event_id(event), event.header.place.turn));
        status.message_turns = turns.collect();
    }
}

impl ProgramSink {
    fn record_delivered(&self, event: &Event, n: usize) {
        let mut status = self.status.lock();
        for _ in 0..n {
            let Some(UndeliveredMessage { uuid, content, .. }) = status.undelivered.pop_front()
            else {
                return;
            };
            let uuid = uuid.unwrap_or_else(|| StreamJson::event_id(event));
            status.message_turns.push((uuid.clone(), event.header.place.turn));
            if self.repeats_messages {
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

    fn track_user_requests(&mut self, event: &Event) {
        match &event.body {
            EventBody::PermissionRequested { call, .. } => {
                let request = permission::permission_request(event, &self.root);
                let (control, shown) =
                    (self.control.clone(), ShownCall::from_event(event, &self.root));
                let request_id = self.program.ask(&request, self.answer_timeout, move |answer| {
                    shown.handle_answer(&control, answer);
                });
                self.open_requests.insert(call.clone(), request_id);
            }
            EventBody::QuestionAsked { call, questions } => {
                let request = json!({
                    "subtype": "can_use_tool",
                    "tool_name": claude_tool_name("AskUser"),
                    "input": {"questions": questions.iter().map(question_json).collect::<Vec<_>>()},
                    "tool_use_id": call,
                    "requires_user_interaction": true,
                });
                let (control, id, questions) =
                    (self.control.clone(), call.clone(), questions.clone());
                let request_id = self.program.ask(&request, self.answer_timeout, move |answer| {
                    control.answer_questions(&id, parse_answers(&questions, answer));
                });
                self.open_requests.insert(call.clone(), request_id);
            }
            // The call is settled, so no answer is needed.
            EventBody::PermissionDecided { call, .. }
            | EventBody::QuestionAnswered { call, .. }
            | EventBody::ToolFinished { call, .. } => {
                if let Some(request_id) = self.open_requests.remove(call) {
                    self.program.withdraw(&request_id);
                }
            }
            _ => {}
        }
    }
}

/// The events of a session in the background, as they are.
pub(super) struct EventLines(pub(super) Program);

impl Sink for EventLines {
    fn receive(&mut self, stamped: &StampedEvent) {
        self.0.send_line(stamped.line.clone());
    }

    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.receive(stamped);
    }
}

fn question_json(question: &Question) -> Value {
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

/// The program allows the call with an input that contains the answers.
fn parse_answers(questions: &[Question], answer: Result<Value, String>) -> Vec<UserAnswer> {
    let given = match answer {
        Ok(answer) if answer["behavior"] == "allow" => {
            Ok(answer["updatedInput"]["answers"].clone())
        }
        Ok(answer) => Err(answer["message"].as_str().unwrap_or_default().to_owned()),
        Err(why) => Err(why),
    };
    let answer = |question: &Question| {
        let text = match &given {
            Err(why) => return missing_answer(question, why),
            Ok(given) => match &given[&question.question] {
                Value::String(text) => text.clone(),
                Value::Array(labels) => {
                    labels.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
                }
                _ => return missing_answer(question, ""),
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

fn missing_answer(question: &Question, why: &str) -> UserAnswer {
    let text =
        if why.is_empty() { "(not answered)".into() } else { format!("(not answered) {why}") };
    UserAnswer { question: question.question.clone(), selected: vec![], text: Some(text) }
}
