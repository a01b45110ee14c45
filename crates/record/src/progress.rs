//! What a session does at the end of its events, or how it ended.

use std::collections::BTreeSet;

use serde::Serialize;

use agent_protocol::control::Ending;
use agent_protocol::event::{Event, EventBody};
use agent_protocol::one_line;
use agent_protocol::spending::Spending;
use agent_protocol::view::call_line;

/// Computed by [`progress`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SessionProgress {
    pub started: String,
    /// The user's last message that began a turn.
    pub task: String,
    #[serde(skip)]
    pub is_turn_open: bool,
    /// Calls that wait for the user.
    #[serde(skip)]
    pub waiting: BTreeSet<String>,
    /// Of the last turn; `None` before its end.
    pub ending: Option<Ending>,
    #[serde(flatten)]
    pub spending: Spending,
    /// The last call, question, answer or failure, in one line.
    pub last: String,
}

/// The state after these events.
pub fn progress(events: &[Event]) -> SessionProgress {
    let mut now = SessionProgress::default();
    for event in events {
        if now.started.is_empty() {
            now.started.clone_from(&event.header.ts);
        }
        now.apply(event);
    }
    now
}

impl SessionProgress {
    fn apply(&mut self, event: &Event) {
        match &event.body {
            EventBody::TurnStarted(message) => {
                self.task = one_line(&message.input);
                self.last.clear();
                self.is_turn_open = true;
                self.ending = None;
            }
            EventBody::ModelResponded(answer) => self.spending.add_response(answer),
            EventBody::ToolStarted { tool, input, .. } => self.last = call_line(tool, input),
            EventBody::PermissionRequested { call, tool, input, .. } => {
                self.waiting.insert(call.clone());
                self.last = format!("waits for permission: {}", call_line(tool, input));
            }
            EventBody::QuestionAsked { call, questions } => {
                self.waiting.insert(call.clone());
                self.last = questions.first().map_or_else(String::new, |it| one_line(&it.question));
            }
            EventBody::PermissionDecided { call, .. }
            | EventBody::QuestionAnswered { call, .. }
            | EventBody::ToolFinished { call, .. } => _ = self.waiting.remove(call),
            // A process that was killed left its turn open.
            EventBody::SessionResumed { .. } => self.close_turn(),
            EventBody::TurnFinished(finished) => {
                self.close_turn();
                self.ending = Some(finished.ending);
                self.last = one_line(finished.result.trim());
            }
            _ => {}
        }
    }

    fn close_turn(&mut self) {
        self.is_turn_open = false;
        self.waiting.clear();
    }
}
