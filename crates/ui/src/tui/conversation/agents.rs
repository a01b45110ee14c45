//! What sub-agents do: shown in the cells of their Task calls.

use std::time::Instant;

use super::super::cells::error_parts;
use super::{CallState, Conversation, TurnActivity};
use agent_protocol::event::{Event, EventBody};
use agent_protocol::spending::Spending;
use agent_protocol::view::call_line;
use agent_protocol::{format_thousands, pluralize};

#[derive(Debug, Default)]
pub(super) struct AgentProgress {
    /// The role and a short form of the task.
    name: String,
    activity: String,
    calls: u32,
    spending: Spending,
}

impl AgentProgress {
    fn in_words(&self) -> String {
        let calls = pluralize(self.calls.into(), "call");
        let tokens = format_thousands(self.spending.usage.total());
        format!("{}\n{calls}, {tokens} tokens", self.activity)
    }
}

impl Conversation {
    pub(super) fn apply_agent_event(&mut self, event: &Event, now: Instant) {
        let id = event.header.agent.as_str();
        let mut agent = self.agents.remove(id).unwrap_or_default();
        match &event.body {
            EventBody::AgentStarted { role, description, .. } => {
                agent.name = format!("{role} ({description})");
            }
            EventBody::ModelRequested(_) if agent.activity.is_empty() => {
                "thinking".clone_into(&mut agent.activity);
            }
            EventBody::ModelResponded(answer) => {
                self.spending.add_response(answer);
                agent.spending.add_response(answer);
            }
            EventBody::ToolStarted { call, tool, input, .. } => {
                agent.activity = call_line(tool, input);
                agent.calls += 1;
                self.set_activity(TurnActivity::Calling("Task".to_owned()), now);
                if let Some(call) = self.find_call_mut(call) {
                    call.state = CallState::Running { tail: String::new() };
                }
            }
            EventBody::ToolOutput { call, text } => self.set_output_tail(call, text),
            // Only a call about which the user was asked has a cell.
            EventBody::ToolFinished { call, envelope, .. } => {
                if let Some(call) = self.find_call_mut(call) {
                    call.finish(envelope);
                }
            }
            EventBody::PermissionRequested { .. } => {
                let asks = format!("the sub-agent {} asks", agent.name);
                self.add_permission_question(&event.body, Some(asks), now);
            }
            EventBody::PermissionDecided { call, ruling, rule, .. } => {
                self.note_answer(call, ruling, rule);
                self.set_activity(TurnActivity::Calling("Task".to_owned()), now);
            }
            EventBody::Error { message, .. } => {
                agent.activity = error_parts(message).swap_remove(0);
            }
            EventBody::AgentFinished(finished) => {
                agent.activity = finished.ending.as_str().replace('_', " ");
            }
            _ => {}
        }
        self.set_output_tail(id, &agent.in_words());
        self.agents.insert(id.to_owned(), agent);
    }
}
