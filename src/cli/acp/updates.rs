//! Events of a session as updates for the client.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AvailableCommandsUpdate, ClientCapabilities, ConfigOptionUpdate, ContentBlock, ContentChunk,
    Cost, CurrentModeUpdate, MessageId, Notice, NoticeSeverity, Plan as ShownPlan, PlanEntry,
    PlanEntryPriority, PlanEntryStatus, SessionId, SessionInfoUpdate, SessionNotification,
    SessionUpdate, TextContent, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind, UsageUpdate,
};
use parking_lot::Mutex;
use serde_json::Value;

use super::client_requests::{self, PendingClientRequest};
use super::settings::SessionSettings;
use super::{commands, tool_calls};
use crate::app::Options;
use agent_engine::mcp::Servers;
use agent_protocol::Object;
use agent_protocol::control::{Ending, PermissionMode, SessionControl};
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{
    Event, EventBody, McpServerState, ModelResponded, NOTICE_SOURCES, Sink, StampedEvent,
    TurnFinished,
};
use agent_protocol::hook::HookFinished;
use agent_protocol::model::StopReason;
use agent_protocol::plan::{Plan, TodoStatus};
use agent_protocol::spending::Spending;
use agent_protocol::terminal_escape::{escape_literal_line, escape_prose};
use agent_protocol::tool::Effect;
use agent_protocol::view::{call_line, full_call};

#[derive(Clone)]
pub(super) struct Peer {
    pub(super) connection: ConnectionTo<agent_client_protocol::Client>,
    pub(super) asks_questions: bool,
    shows_notices: bool,
}

impl Peer {
    pub(super) fn new(
        connection: ConnectionTo<agent_client_protocol::Client>,
        can: &ClientCapabilities,
    ) -> Self {
        let asks_questions = can.elicitation.as_ref().is_some_and(|it| it.form.is_some());
        let shows_notices = can.session.as_ref().is_some_and(|it| it.notices.is_some());
        Self { connection, asks_questions, shows_notices }
    }

    /// If the client is gone, the connection ends by itself.
    fn send_update(&self, session: &SessionId, update: SessionUpdate) {
        _ = self.connection.send_notification(SessionNotification::new(session.clone(), update));
    }

    pub(super) fn send_agent_message(&self, session: &SessionId, text: &str) {
        self.send_update(session, SessionUpdate::AgentMessageChunk(text_chunk(text)));
    }

    /// For the user; not part of the conversation.
    pub(super) fn send_notice(&self, session: &SessionId, text: &str) {
        let update = if self.shows_notices {
            SessionUpdate::Notice(Notice::new(NoticeSeverity::Warning, text))
        } else {
            SessionUpdate::AgentThoughtChunk(text_chunk(&format!("{text}\n")))
        };
        self.send_update(session, update);
    }

    pub(super) fn send_commands(
        &self,
        session: &SessionId,
        options: &Options,
        servers: Option<&Servers>,
    ) {
        let commands = AvailableCommandsUpdate::new(commands::available_commands(options, servers));
        self.send_update(session, SessionUpdate::AvailableCommandsUpdate(commands));
    }
}

fn text_chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

pub(super) struct SharedSessionState {
    pub(super) settings: Mutex<SessionSettings>,
    /// The client has the id of the session.
    pub(super) is_announced: AtomicBool,
    pub(super) last_stop: Mutex<StopReason>,
}

pub(super) struct UpdateSink {
    peer: Peer,
    /// Session of the event that is received.
    session: SessionId,
    control: SessionControl,
    root: PathBuf,
    shared: Arc<SharedSessionState>,
    /// Calls that are shown and not finished.
    running_calls: HashMap<String, Effect>,
    /// The plan shows these calls.
    hidden_calls: HashSet<String>,
    pending_request: Option<PendingClientRequest>,
    /// Number of the current answer: its parts are one message.
    answer_seq: u64,
    window: u64,
    cost_usd: f64,
    /// By sub-agent.
    roles: HashMap<String, String>,
}

impl UpdateSink {
    pub(super) fn new(
        peer: Peer,
        control: SessionControl,
        root: PathBuf,
        shared: Arc<SharedSessionState>,
    ) -> Self {
        Self {
            peer,
            session: SessionId::new(""),
            control,
            root,
            shared,
            running_calls: HashMap::new(),
            hidden_calls: HashSet::new(),
            pending_request: None,
            answer_seq: 0,
            window: 0,
            cost_usd: 0.0,
            roles: HashMap::new(),
        }
    }

    fn send(&self, update: SessionUpdate) {
        if self.shared.is_announced.load(Ordering::SeqCst) {
            self.peer.send_update(&self.session, update);
        }
    }

    fn answer_chunk(&self, text: &str) -> ContentChunk {
        text_chunk(text).message_id(MessageId::new(format!("answer-{}", self.answer_seq)))
    }

    /// The same for live and recorded events of every agent.
    fn show_agent_event(&mut self, event: &Event) {
        match &event.body {
            EventBody::AgentStarted { role, .. } => {
                self.roles.insert(event.header.agent.clone(), role.clone());
            }
            // The user sees the calls of the model, and calls that retry one of them.
            EventBody::ToolStarted { parent_call: Some(_), .. }
            | EventBody::ToolFinished { parent_call: Some(_), .. } => {}
            EventBody::ToolStarted { call, effect: Effect::Plan, .. } => {
                self.hidden_calls.insert(call.clone());
            }
            EventBody::ToolStarted { call, tool, input, effect, .. } => {
                self.show_call_started(event, (call, tool, input, effect));
            }
            EventBody::ToolOutput { call, text } => {
                let shown = vec![tool_calls::fenced_content(text)];
                let fields = ToolCallUpdateFields::new().content(shown);
                let update = ToolCallUpdate::new(call.clone(), fields);
                self.send(SessionUpdate::ToolCallUpdate(update));
            }
            EventBody::ToolFinished { call, tool, envelope, .. } => {
                PendingClientRequest::cancel_for_call(&mut self.pending_request, call);
                if !self.hidden_calls.remove(call) {
                    self.show_call_finished(event, (call, tool, envelope));
                }
            }
            EventBody::ModelResponded(answer) => self.show_usage(answer),
            _ => {}
        }
    }

    fn show_call_started(
        &mut self,
        event: &Event,
        (call, tool, input, effect): (&String, &str, &Object, &Effect),
    ) {
        if self.running_calls.contains_key(call) {
            let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
            let update = ToolCallUpdate::new(call.clone(), fields);
            return self.send(SessionUpdate::ToolCallUpdate(update));
        }
        self.running_calls.insert(call.clone(), effect.clone());
        let shown =
            self.to_tool_call(event, (call, tool, input, effect), ToolCallStatus::InProgress);
        self.send(SessionUpdate::ToolCall(shown));
    }

    fn to_tool_call(
        &self,
        event: &Event,
        (call, tool, input, effect): (&String, &str, &Object, &Effect),
        status: ToolCallStatus,
    ) -> ToolCall {
        ToolCall::new(call.clone(), self.call_title(event, tool, input))
            .name(tool.to_owned())
            .kind(tool_calls::tool_kind(tool, effect))
            .status(status)
            .locations(tool_calls::locations(effect, input, &self.root))
            // A change is shown by its diff.
            .raw_input(
                (!matches!(effect, Effect::Write { .. })).then(|| Value::Object(input.clone())),
            )
    }

    fn call_title(&self, event: &Event, tool: &str, input: &Object) -> String {
        let line = call_line(tool, input);
        match self.roles.get(&event.header.agent) {
            Some(role) => format!("[{role}] {line}"),
            None => line,
        }
    }

    fn show_call_finished(
        &mut self,
        event: &Event,
        (call, tool, envelope): (&String, &str, &Envelope),
    ) {
        let effect = self.running_calls.remove(call);
        let status = match envelope.error() {
            None => ToolCallStatus::Completed,
            Some(_) => ToolCallStatus::Failed,
        };
        let content = tool_calls::result_content(envelope, effect.as_ref(), &self.root);
        self.send(if effect.is_some() {
            let fields = ToolCallUpdateFields::new().status(status).content(content);
            SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(call.clone(), fields))
        } else {
            // The call was refused before it could begin.
            let title = self.call_title(event, tool, &envelope.context.params_input);
            let shown = ToolCall::new(call.clone(), title).name(tool.to_owned());
            SessionUpdate::ToolCall(shown.status(status).content(content))
        });
    }

    fn show_usage(&mut self, answer: &ModelResponded) {
        self.cost_usd += answer.cost_usd.unwrap_or_default();
        let Some(usage) = answer.usage.filter(|_| answer.purpose.is_conversation()) else {
            return;
        };
        if self.window > 0 {
            let mut update = UsageUpdate::new(usage.total(), self.window);
            if self.cost_usd > 0.0 {
                update = update.cost(Cost::new(self.cost_usd, "USD"));
            }
            self.send(SessionUpdate::UsageUpdate(update));
        }
    }

    /// The same for live and recorded events of the main agent.
    fn show_main_event(&mut self, event: &Event) {
        self.show_agent_event(event);
        match &event.body {
            EventBody::SessionStarted(now) | EventBody::SessionResumed { now, .. } => {
                let mut settings = self.shared.settings.lock();
                settings.mode = now.permission_mode;
                settings.model.clone_from(&now.model);
            }
            EventBody::ModelRequested(request) if request.purpose.is_conversation() => {
                self.answer_seq = event.header.seq;
                self.window = request.window.unwrap_or_default();
            }
            EventBody::PlanUpdated { plan, .. } => {
                self.send(SessionUpdate::Plan(to_acp_plan(plan)));
            }
            EventBody::CheckFinished { command, passed, tail, .. } => {
                let status =
                    if *passed { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
                let id = format!("check-{}", event.header.seq);
                let shown = ToolCall::new(id, format!("check {}", escape_literal_line(command)))
                    .kind(ToolKind::Execute)
                    .status(status)
                    .content(vec![tool_calls::fenced_content(tail)]);
                self.send(SessionUpdate::ToolCall(shown));
            }
            EventBody::SessionRenamed { name } => {
                let info = SessionInfoUpdate::new().title(escape_prose(name).into_owned());
                self.send(SessionUpdate::SessionInfoUpdate(info));
            }
            EventBody::TurnFinished(finished) => self.show_turn_finished(finished),
            _ => {}
        }
    }

    /// Sends a result that is not the model's answer, because no part of it was sent.
    fn show_turn_finished(&mut self, finished: &TurnFinished) {
        self.running_calls.clear();
        match finished.ending {
            Ending::Completed | Ending::CompletedUnverified | Ending::IncompleteAnswer => {
                for error in &finished.errors {
                    self.send_notice(error);
                }
            }
            Ending::Failed
            | Ending::CheckFailed
            | Ending::ModelRefused
            | Ending::MaxTurns
            | Ending::MaxBudget
            | Ending::Timeout => {
                let text = format!("\n\n{}", finished.result.trim());
                self.send(SessionUpdate::AgentMessageChunk(text_chunk(&text)));
            }
            // The user caused it, or gets it as the error of the request.
            Ending::PermissionDenied
            | Ending::Interrupted
            | Ending::Terminated
            | Ending::ModelUnavailable => {}
        }
    }

    fn send_notice(&self, text: &str) {
        if self.shared.is_announced.load(Ordering::SeqCst) {
            self.peer.send_notice(&self.session, text);
        }
    }

    fn show_mode(&self, mode: PermissionMode) {
        let options = {
            let mut settings = self.shared.settings.lock();
            settings.mode = mode;
            settings.options()
        };
        self.send(SessionUpdate::CurrentModeUpdate(CurrentModeUpdate::new(mode.as_str())));
        self.send(SessionUpdate::ConfigOptionUpdate(ConfigOptionUpdate::new(options)));
    }

    fn send_user_request(&mut self, event: &Event) {
        match &event.body {
            EventBody::PermissionRequested {
                call,
                tool,
                input,
                effect,
                reason,
                grants,
                diff,
                ..
            } => {
                let parts = (call, tool.as_str(), input, effect);
                // The title is shortened.
                let whole = tool_calls::fenced_content(&full_call(tool, input));
                let mut content: Vec<ToolCallContent> =
                    vec![whole, tool_calls::text_content(reason)];
                if let (Some(diff), Effect::Write { path }) = (diff, effect) {
                    content = tool_calls::diff_contents(diff, &self.root.join(path));
                }
                let shown =
                    self.to_tool_call(event, parts, ToolCallStatus::Pending).content(content);
                if self.running_calls.insert(call.clone(), effect.clone()).is_none() {
                    self.send(SessionUpdate::ToolCall(shown.clone()));
                }
                let (peer, control) = (&self.peer, &self.control);
                let ids = (&self.session, call.as_str());
                let update = ToolCallUpdate::from(shown);
                self.pending_request =
                    client_requests::request_permission(peer, control, ids, update, grants.clone());
            }
            EventBody::QuestionAsked { call, questions } => {
                let (peer, control) = (&self.peer, &self.control);
                let ids = (&self.session, call.as_str());
                self.pending_request =
                    client_requests::ask_questions(peer, control, ids, questions.clone());
            }
            EventBody::PermissionDecided { call, .. }
            | EventBody::QuestionAnswered { call, .. } => {
                PendingClientRequest::cancel_for_call(&mut self.pending_request, call);
            }
            _ => {}
        }
    }
}

impl Sink for UpdateSink {
    fn receive(&mut self, stamped: &StampedEvent) {
        let event = &stamped.event;
        self.session = SessionId::new(event.header.session.as_str());
        self.send_user_request(event);
        self.show_main_event(event);
        match &event.body {
            EventBody::ModelDelta { text, reasoning: false } => {
                self.send(SessionUpdate::AgentMessageChunk(self.answer_chunk(text)));
            }
            EventBody::ModelDelta { text, reasoning: true } => {
                self.send(SessionUpdate::AgentThoughtChunk(self.answer_chunk(text)));
            }
            EventBody::ModelResponded(answer) if answer.purpose.is_conversation() => {
                *self.shared.last_stop.lock() = answer.stop.clone();
            }
            EventBody::ModeChanged { mode, .. } => self.show_mode(*mode),
            EventBody::ModelFallback { to, reason, .. } => {
                self.send_notice(&format!("{reason}; {to} answers for the rest of the turn"));
            }
            EventBody::Error { source, message, retry_in_ms, .. }
                if retry_in_ms.is_some() || NOTICE_SOURCES.contains(&source.as_str()) =>
            {
                self.send_notice(message);
            }
            EventBody::McpServer { server, state: McpServerState::Failed, detail, .. } => {
                self.send_notice(&format!("MCP server {server}: {detail}"));
            }
            EventBody::HookFinished(HookFinished { message: Some(message), .. }) => {
                self.send_notice(&format!("hook: {message}"));
            }
            EventBody::ContextCompacted(compacted) if !compacted.summary.is_empty() => {
                let (before, after) = (compacted.tokens_before, compacted.tokens_after);
                self.send_notice(&format!(
                    "the older part of the conversation was replaced by a summary: {before} tokens → {after}"
                ));
            }
            _ => {}
        }
    }

    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.session = SessionId::new(stamped.event.header.session.as_str());
        self.send_user_request(&stamped.event);
        self.show_agent_event(&stamped.event);
    }

    fn receive_recorded(&mut self, events: &[&Event], _spending: Spending) {
        for event in events {
            self.session = SessionId::new(event.header.session.as_str());
            self.show_main_event(event);
            match &event.body {
                EventBody::TurnStarted(message) | EventBody::TurnSteered(message) => {
                    self.send(SessionUpdate::UserMessageChunk(text_chunk(&message.input)));
                }
                EventBody::ModelResponded(answer) if answer.purpose.is_conversation() => {
                    if !answer.reasoning.is_empty() {
                        let part = self.answer_chunk(&answer.reasoning);
                        self.send(SessionUpdate::AgentThoughtChunk(part));
                    }
                    if !answer.text.is_empty() {
                        let part = self.answer_chunk(&answer.text);
                        self.send(SessionUpdate::AgentMessageChunk(part));
                    }
                }
                _ => {}
            }
        }
    }
}

fn to_acp_plan(plan: &Plan) -> ShownPlan {
    let entries = plan.todos.iter().filter_map(|todo| {
        let status = match todo.status {
            TodoStatus::Pending => PlanEntryStatus::Pending,
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
            TodoStatus::Cancelled => return None,
        };
        Some(PlanEntry::new(escape_prose(&todo.content), PlanEntryPriority::Medium, status))
    });
    ShownPlan::new(entries.collect())
}
