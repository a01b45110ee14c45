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
use parking_lot::{Mutex, MutexGuard};

use super::client_requests::{self, PendingClientRequest};
use super::settings::SessionSettings;
use super::{commands, tool_calls};
use crate::app::Options;
use agent_engine::mcp::Servers;
use agent_protocol::Object;
use agent_protocol::control::{Ending, PermissionMode, SessionControl};
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{
    Event, EventBody, McpServerState, ModelResponded, Sink, StampedEvent, TurnFinished,
};
use agent_protocol::hook::HookFinished;
use agent_protocol::model::StopReason;
use agent_protocol::plan::{Plan, TodoStatus};
use agent_protocol::terminal_escape::{escape_literal_line, escape_prose};
use agent_protocol::tool::Effect;
use agent_protocol::view::{call_line, full_call};

/// Sources of errors that are shown to the user. Others end the turn, and are in its result.
const NOTIFIED_SOURCES: [&str; 7] =
    ["workspace", "memory", "sandbox", "checks", "mention", "images", "hook"];

#[derive(Clone, Copy, Debug)]
pub(super) struct ClientFeatures {
    pub(super) questions: bool,
    notices: bool,
}

#[derive(Clone)]
pub(super) struct Peer {
    pub(super) connection: ConnectionTo<agent_client_protocol::Client>,
    pub(super) features: ClientFeatures,
}

impl Peer {
    pub(super) fn new(
        connection: ConnectionTo<agent_client_protocol::Client>,
        can: &ClientCapabilities,
    ) -> Self {
        let questions = can.elicitation.as_ref().is_some_and(|it| it.form.is_some());
        let notices = can.session.as_ref().is_some_and(|it| it.notices.is_some());
        Self { connection, features: ClientFeatures { questions, notices } }
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
        self.send_update(
            session,
            if self.features.notices {
                SessionUpdate::Notice(Notice::new(NoticeSeverity::Warning, text))
            } else {
                SessionUpdate::AgentThoughtChunk(text_chunk(&format!("{text}\n")))
            },
        );
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

#[derive(Clone)]
pub(super) struct SharedSessionState {
    settings: Arc<Mutex<SessionSettings>>,
    /// The client has the id of the session.
    pub(super) is_announced: Arc<AtomicBool>,
    last_stop: Arc<Mutex<StopReason>>,
}

impl SharedSessionState {
    pub(super) fn new(settings: SessionSettings, is_known: bool) -> Self {
        Self {
            settings: Arc::new(Mutex::new(settings)),
            is_announced: Arc::new(AtomicBool::new(is_known)),
            last_stop: Arc::new(Mutex::new(StopReason::End)),
        }
    }

    pub(super) fn settings(&self) -> MutexGuard<'_, SessionSettings> {
        self.settings.lock()
    }

    pub(super) fn last_stop(&self) -> MutexGuard<'_, StopReason> {
        self.last_stop.lock()
    }
}

pub(super) struct UpdateSink {
    peer: Peer,
    control: SessionControl,
    root: PathBuf,
    shared: SharedSessionState,
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
        common: SharedSessionState,
    ) -> Self {
        Self {
            peer,
            control,
            root,
            shared: common,
            running_calls: HashMap::new(),
            hidden_calls: HashSet::new(),
            pending_request: None,
            answer_seq: 0,
            window: 0,
            cost_usd: 0.0,
            roles: HashMap::new(),
        }
    }

    fn send(&self, session: &SessionId, update: SessionUpdate) {
        if self.shared.is_announced.load(Ordering::SeqCst) {
            self.peer.send_update(session, update);
        }
    }

    fn answer_chunk(&self, text: &str) -> ContentChunk {
        text_chunk(text).message_id(MessageId::new(format!("answer-{}", self.answer_seq)))
    }

    /// The same for live and recorded events of every agent.
    fn show_agent_event(&mut self, session: &SessionId, event: &Event) {
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
                self.show_call_started(session, event, (call, tool, input, effect));
            }
            EventBody::ToolOutput { call, text } => {
                let shown = vec![tool_calls::text_content(&tool_calls::wrap_in_code_fence(text))];
                let fields = ToolCallUpdateFields::new().content(shown);
                let update = ToolCallUpdate::new(call.clone(), fields);
                self.send(session, SessionUpdate::ToolCallUpdate(update));
            }
            EventBody::ToolFinished { call, tool, envelope, .. } => {
                PendingClientRequest::cancel_for_call(&mut self.pending_request, call);
                if !self.hidden_calls.remove(call) {
                    self.show_call_finished(session, event, (call, tool, envelope));
                }
            }
            EventBody::ModelResponded(answer) => self.show_usage(session, answer),
            _ => {}
        }
    }

    fn show_call_started(
        &mut self,
        session: &SessionId,
        event: &Event,
        (call, tool, input, effect): (&String, &str, &Object, &Effect),
    ) {
        if self.running_calls.contains_key(call) {
            let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
            let update = ToolCallUpdate::new(call.clone(), fields);
            return self.send(session, SessionUpdate::ToolCallUpdate(update));
        }
        self.running_calls.insert(call.clone(), effect.clone());
        let shown =
            self.to_tool_call(event, (call, tool, input, effect), ToolCallStatus::InProgress);
        self.send(session, SessionUpdate::ToolCall(shown));
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
            .raw_input(tool_calls::raw_input(effect, input))
    }

    /// In one line; a call of a sub-agent with its role.
    fn call_title(&self, event: &Event, tool: &str, input: &Object) -> String {
        let line = call_line(tool, input);
        match self.roles.get(&event.header.agent) {
            Some(role) => format!("[{role}] {line}"),
            None => line,
        }
    }

    fn show_call_finished(
        &mut self,
        session: &SessionId,
        event: &Event,
        (call, tool, envelope): (&String, &str, &Envelope),
    ) {
        let effect = self.running_calls.remove(call);
        let status = match envelope.error() {
            None => ToolCallStatus::Completed,
            Some(_) => ToolCallStatus::Failed,
        };
        let content = tool_calls::result_content(envelope, effect.as_ref(), &self.root);
        self.send(
            session,
            if effect.is_some() {
                let fields = ToolCallUpdateFields::new().status(status).content(content);
                SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(call.clone(), fields))
            } else {
                // The call was refused before it could begin.
                let title = self.call_title(event, tool, &envelope.context.params_input);
                let shown = ToolCall::new(call.clone(), title).name(tool.to_owned());
                SessionUpdate::ToolCall(shown.status(status).content(content))
            },
        );
    }

    fn show_usage(&mut self, session: &SessionId, answer: &ModelResponded) {
        self.cost_usd += answer.cost_usd.unwrap_or_default();
        let Some(usage) = answer.usage.filter(|_| answer.purpose.is_conversation()) else {
            return;
        };
        if self.window > 0 {
            let mut update = UsageUpdate::new(usage.total(), self.window);
            if self.cost_usd > 0.0 {
                update = update.cost(Cost::new(self.cost_usd, "USD"));
            }
            self.send(session, SessionUpdate::UsageUpdate(update));
        }
    }

    /// The same for live and recorded events of the main agent.
    fn show_main_event(&mut self, session: &SessionId, event: &Event) {
        self.show_agent_event(session, event);
        match &event.body {
            EventBody::SessionStarted(now) | EventBody::SessionResumed { now, .. } => {
                let mut settings = self.shared.settings();
                settings.mode = now.permission_mode;
                settings.model.clone_from(&now.model);
            }
            EventBody::ModelRequested(request) if request.purpose.is_conversation() => {
                self.answer_seq = event.header.seq;
                self.window = request.window.unwrap_or_default();
            }
            EventBody::PlanUpdated { plan, .. } => {
                self.send(session, SessionUpdate::Plan(to_acp_plan(plan)));
            }
            EventBody::CheckFinished { command, passed, tail, .. } => {
                let status =
                    if *passed { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
                let id = format!("check-{}", event.header.seq);
                let shown = ToolCall::new(id, format!("check {}", escape_literal_line(command)))
                    .kind(ToolKind::Execute)
                    .status(status)
                    .content(vec![tool_calls::text_content(&tool_calls::wrap_in_code_fence(tail))]);
                self.send(session, SessionUpdate::ToolCall(shown));
            }
            EventBody::SessionRenamed { name } => {
                let info = SessionInfoUpdate::new().title(escape_prose(name).into_owned());
                self.send(session, SessionUpdate::SessionInfoUpdate(info));
            }
            EventBody::TurnFinished(finished) => self.show_turn_finished(session, finished),
            _ => {}
        }
    }

    /// Sends a result that is not the model's answer, because no part of it was sent.
    fn show_turn_finished(&mut self, session: &SessionId, finished: &TurnFinished) {
        self.running_calls.clear();
        match finished.ending {
            Ending::Completed | Ending::CompletedUnverified => {
                for error in &finished.errors {
                    self.send_notice(session, error);
                }
            }
            Ending::Failed
            | Ending::CheckFailed
            | Ending::ModelRefused
            | Ending::MaxTurns
            | Ending::MaxBudget
            | Ending::Timeout => {
                let text = format!("\n\n{}", finished.result.trim());
                self.send(session, SessionUpdate::AgentMessageChunk(text_chunk(&text)));
            }
            // The user caused it, or gets it as the error of the request.
            Ending::PermissionDenied
            | Ending::Interrupted
            | Ending::Terminated
            | Ending::ModelUnavailable => {}
        }
    }

    fn send_notice(&self, session: &SessionId, text: &str) {
        if self.shared.is_announced.load(Ordering::SeqCst) {
            self.peer.send_notice(session, text);
        }
    }

    fn show_mode(&self, session: &SessionId, mode: PermissionMode) {
        let options = {
            let mut settings = self.shared.settings();
            settings.mode = mode;
            settings.options()
        };
        let update = CurrentModeUpdate::new(mode.as_str());
        self.send(session, SessionUpdate::CurrentModeUpdate(update));
        let update = ConfigOptionUpdate::new(options);
        self.send(session, SessionUpdate::ConfigOptionUpdate(update));
    }

    fn send_user_request(&mut self, session: &SessionId, event: &Event) {
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
                let whole = tool_calls::text_content(&tool_calls::wrap_in_code_fence(&full_call(
                    tool, input,
                )));
                let mut content: Vec<ToolCallContent> =
                    vec![whole, tool_calls::text_content(reason)];
                if let (Some(diff), Effect::Write { path }) = (diff, effect) {
                    content = tool_calls::diff_contents(diff, &self.root.join(path));
                }
                let shown =
                    self.to_tool_call(event, parts, ToolCallStatus::Pending).content(content);
                if self.running_calls.insert(call.clone(), effect.clone()).is_none() {
                    self.send(session, SessionUpdate::ToolCall(shown.clone()));
                }
                let (peer, control) = (&self.peer, &self.control);
                let ids = (session, call.as_str());
                let update = ToolCallUpdate::from(shown);
                self.pending_request =
                    client_requests::request_permission(peer, control, ids, update, grants.clone());
            }
            EventBody::QuestionAsked { call, questions } => {
                let (peer, control) = (&self.peer, &self.control);
                let ids = (session, call.as_str());
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
        let session = SessionId::new(event.header.session.as_str());
        self.send_user_request(&session, event);
        self.show_main_event(&session, event);
        match &event.body {
            EventBody::ModelDelta { text, reasoning: false } => {
                self.send(&session, SessionUpdate::AgentMessageChunk(self.answer_chunk(text)));
            }
            EventBody::ModelDelta { text, reasoning: true } => {
                self.send(&session, SessionUpdate::AgentThoughtChunk(self.answer_chunk(text)));
            }
            EventBody::ModelResponded(answer) if answer.purpose.is_conversation() => {
                *self.shared.last_stop() = answer.stop.clone();
            }
            EventBody::ModeChanged { mode, .. } => self.show_mode(&session, *mode),
            EventBody::ModelFallback { to, reason, .. } => {
                self.send_notice(
                    &session,
                    &format!("{reason}; {to} answers for the rest of the turn"),
                );
            }
            EventBody::Error { message, retry_in_ms: Some(_), .. } => {
                self.send_notice(&session, message);
            }
            EventBody::Error { source, message, .. }
                if NOTIFIED_SOURCES.contains(&source.as_str()) =>
            {
                self.send_notice(&session, message);
            }
            EventBody::McpServer { server, state: McpServerState::Failed, detail, .. } => {
                self.send_notice(&session, &format!("MCP server {server}: {detail}"));
            }
            EventBody::HookFinished(HookFinished { message: Some(message), .. }) => {
                self.send_notice(&session, &format!("hook: {message}"));
            }
            EventBody::ContextCompacted(compacted) if !compacted.summary.is_empty() => {
                let (before, after) = (compacted.tokens_before, compacted.tokens_after);
                self.send_notice(&session, &format!(
                    "the older part of the conversation was replaced by a summary: {before} tokens → {after}"
                ));
            }
            _ => {}
        }
    }

    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        let session = SessionId::new(stamped.event.header.session.as_str());
        self.send_user_request(&session, &stamped.event);
        self.show_agent_event(&session, &stamped.event);
    }

    fn receive_recorded(&mut self, events: &[&Event]) {
        for event in events {
            let session = SessionId::new(event.header.session.as_str());
            self.show_main_event(&session, event);
            match &event.body {
                EventBody::TurnStarted { input, .. } | EventBody::TurnSteered { input, .. } => {
                    self.send(&session, SessionUpdate::UserMessageChunk(text_chunk(input)));
                }
                EventBody::ModelResponded(answer) if answer.purpose.is_conversation() => {
                    if !answer.reasoning.is_empty() {
                        let part = self.answer_chunk(&answer.reasoning);
                        self.send(&session, SessionUpdate::AgentThoughtChunk(part));
                    }
                    if !answer.text.is_empty() {
                        let part = self.answer_chunk(&answer.text);
                        self.send(&session, SessionUpdate::AgentMessageChunk(part));
                    }
                }
                _ => {}
            }
        }
    }
}

/// Without cancelled items.
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
