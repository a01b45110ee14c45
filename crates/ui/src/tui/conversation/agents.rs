//! What sub-agents do: rows of the live area, and the output of their Task calls.

use std::time::Instant;

use ratatui::text::Line;

use super::{Call, CallState, Cell, Conversation, RenderOptions, TurnActivity};
use crate::tui::cells::{describe_agent_work, error_parts, format_seconds, title_line};
use crate::tui::text::truncate;
use crate::tui::theme::StyleRole;
use agent_protocol::control::Ending;
use agent_protocol::event::{Event, EventBody};
use agent_protocol::pluralize;
use agent_protocol::spending::Spending;
use agent_protocol::view::call_line;

#[derive(Debug, Default)]
pub(super) struct AgentProgress {
    /// The role and a short form of the task.
    name: String,
    /// The task in a few words; may be empty.
    description: String,
    started: Option<Instant>,
    activity: String,
    calls: u32,
    spending: Spending,
    /// The result of its call follows after those of the calls before.
    ending: Option<Ending>,
}

impl AgentProgress {
    fn work(&self) -> String {
        describe_agent_work(self.calls.into(), self.spending.usage.total())
    }
}

impl Conversation {
    pub(super) fn apply_agent_event(&mut self, event: &Event, now: Instant) {
        let id = event.header.agent.as_str();
        let mut agent = self.agents.remove(id).unwrap_or_default();
        match &event.body {
            EventBody::AgentStarted { role, description, .. } => {
                agent.name = format!("{role} ({description})");
                agent.description.clone_from(description);
                agent.started = Some(now);
            }
            EventBody::ModelRequested(_) if agent.activity.is_empty() => {
                "thinking".clone_into(&mut agent.activity);
            }
            EventBody::ModelProgress { call: Some(call), .. } => {
                let lines = match call.lines {
                    0 => String::new(),
                    n => format!("  {} so far", pluralize(n, "line")),
                };
                agent.activity = format!("{} {}{lines}", call.tool, call.subject);
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
                agent.ending = Some(finished.ending);
            }
            _ => {}
        }
        self.set_output_tail(id, &format!("{}\n{}", agent.activity, agent.work()));
        self.agents.insert(id.to_owned(), agent);
    }

    /// The sub-agents, one row each, until all are done. Those that are done are the first that do not fit.
    pub(in crate::tui) fn agent_lines(
        &self,
        options: RenderOptions,
        room: usize,
        now: Instant,
    ) -> Vec<Line<'static>> {
        let calls = self.cells[self.n_printed..].iter().filter_map(Cell::as_call);
        let mut calls: Vec<&Call> = calls.filter(|call| call.tool == "Task").collect();
        if calls.iter().all(|call| call.is_done()) {
            return Vec::new();
        }
        let (n_calls, room, mut lines) = (calls.len(), room.max(1), Vec::new());
        if n_calls > 1 {
            let started = calls.iter().filter_map(|call| self.agents.get(&call.id)?.started);
            let time = started.min().map(|at| now.saturating_duration_since(at).as_secs());
            let (name, time) = (format!("{n_calls} agents"), time.map(format_seconds));
            let time = time.unwrap_or_default();
            lines.push(title_line(("◦ ", StyleRole::User), &name, "", &time, options));
        }
        let mut n_shown = n_calls;
        if lines.len() + n_calls > room {
            n_shown = room.saturating_sub(lines.len() + 1);
            calls.sort_by_key(|call| self.is_agent_done(call));
        }
        let (shown, hidden) = calls.split_at(n_shown);
        lines.extend(shown.iter().map(|call| self.agent_row(call, n_calls > 1, options)));
        if let n_hidden @ 1.. = hidden.len() {
            let n_done = hidden.iter().filter(|call| self.is_agent_done(call)).count();
            let more = format!("  … {n_hidden} more ({n_done} ended)");
            lines.push(options.cut_line(&more, StyleRole::Quiet));
        }
        lines.truncate(room);
        lines
    }

    fn is_agent_done(&self, call: &Call) -> bool {
        call.is_done() || self.agents.get(&call.id).is_some_and(|agent| agent.ending.is_some())
    }

    fn agent_row(&self, call: &Call, is_indented: bool, options: RenderOptions) -> Line<'static> {
        let agent = self.agents.get(&call.id);
        let name = agent.map(|agent| agent.description.trim()).filter(|name| !name.is_empty());
        let name = truncate(name.unwrap_or(&call.subject), options.width / 2);
        let ending = agent.and_then(|agent| agent.ending);
        let (mark, role) = match ending {
            Some(ending) if ending.is_success() => ("✓ ", StyleRole::Good),
            Some(_) => ("✗ ", StyleRole::Bad),
            None => call.mark(),
        };
        let mark = format!("{}{mark}", if is_indented { "  " } else { "" });
        let activity = agent.map_or("", |agent| agent.activity.as_str());
        let is_shown = ending.is_none_or(|ending| !ending.is_success());
        let (gap, activity) = if is_shown { (" ", activity) } else { ("", "") };
        let work = agent.map(AgentProgress::work).unwrap_or_default();
        title_line((&mark, role), &format!("{name}{gap}"), activity, &work, options)
    }
}
