//! What sub-agents do: shown in the cells of their Task calls.

use std::time::Instant;

use super::{Call, CallState, Conversation, Doing};
use agent_protocol::event::{Body, Event};
use agent_protocol::spending::Spending;
use agent_protocol::view::call_line;
use agent_protocol::{counted, thousands};

/// A sub-agent that works.
#[derive(Debug, Default)]
pub(super) struct Agent {
    /// Its role and its task in a few words.
    name: String,
    /// Its last call.
    doing: String,
    calls: u32,
    spending: Spending,
}

impl Agent {
    fn in_words(&self) -> String {
        let calls = counted(self.calls.into(), "call");
        let tokens = thousands(self.spending.usage.total());
        format!("{}\n{calls}, {tokens} tokens", self.doing)
    }
}

impl Conversation {
    /// Applies an event of a sub-agent.
    pub(super) fn of_agent(&mut self, event: &Event, now: Instant) {
        let id = event.header.agent.as_str();
        let mut agent = self.agents.remove(id).unwrap_or_default();
        match &event.body {
            Body::AgentStarted { role, description, .. } => {
                agent.name = format!("{role} ({description})");
            }
            Body::ModelRequested(_) if agent.doing.is_empty() => {
                "thinking".clone_into(&mut agent.doing);
            }
            Body::ModelResponded(answer) => {
                self.spending.add(answer);
                agent.spending.add(answer);
            }
            Body::ToolStarted { call, tool, input, .. } => {
                agent.doing = call_line(tool, input);
                agent.calls += 1;
                self.does(Doing::Calling("Task".to_owned()), now);
                if let Some(call) = self.call(call) {
                    call.state = CallState::Running { tail: String::new() };
                }
            }
            Body::ToolOutput { call, text } => {
                if let Some(Call { state: CallState::Running { tail }, .. }) = self.call(call) {
                    tail.clone_from(text);
                }
            }
            // Only a call about which the user was asked has a cell.
            Body::ToolFinished { call, envelope, .. } => {
                if let Some(call) = self.call(call) {
                    call.finish(envelope);
                }
            }
            Body::PermissionRequested { .. } => {
                let asks = format!("the sub-agent {} asks", agent.name);
                self.asks_permission(&event.body, Some(asks), now);
            }
            Body::PermissionDecided { .. } => self.does(Doing::Calling("Task".to_owned()), now),
            Body::Error { message, .. } => agent.doing.clone_from(message),
            Body::AgentFinished(finished) => {
                agent.doing = finished.ending.as_str().replace('_', " ");
            }
            _ => {}
        }
        if let Some(Call { state: CallState::Running { tail }, .. }) = self.call(id) {
            *tail = agent.in_words();
        }
        self.agents.insert(id.to_owned(), agent);
    }
}
