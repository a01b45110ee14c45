//! Events of a session as updates for the client.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AvailableCommandsUpdate, ClientCapabilities, ConfigOptionUpdate, ContentBlock, ContentChunk,
    Cost, CurrentModeUpdate, MessageId, Notice, NoticeSeverity, Plan as ShownPlan, PlanEntry,
    PlanEntryPriority, PlanEntryStatus, SessionId, SessionInfoUpdate, SessionNotification,
    SessionUpdate, TextContent, ToolCall, ToolCallContent, ToolCallStatus, ToolCallUpdate,
    ToolCallUpdateFields, ToolKind, UsageUpdate,
};

use super::asking::{self, Asked};
use super::settings::Settings;
use super::{calls, commands};
use crate::app::Options;
use agent_engine::mcp::Servers;
use agent_protocol::Object;
use agent_protocol::control::{Control, Ending, PermissionMode};
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{Body, Event, McpState, ModelResponded, Sink, Stamped, TurnFinished};
use agent_protocol::hook::HookFinished;
use agent_protocol::model::StopReason;
use agent_protocol::plan::{Plan, TodoStatus};
use agent_protocol::tool::Effect;
use agent_protocol::view::{call_in_full, call_line};
use agent_protocol::visible::{literal_line, prose};

/// Sources of errors that are shown to the user. Others end the turn, and are in its result.
const TOLD: [&str; 7] = ["workspace", "memory", "sandbox", "checks", "mention", "images", "hook"];

/// What a client can do besides the base of the protocol.
#[derive(Clone, Copy, Debug)]
pub(super) struct Can {
    /// It shows forms.
    pub(super) questions: bool,
    /// It shows notices.
    notices: bool,
}

/// The client, as a session reaches it.
#[derive(Clone)]
pub(super) struct Peer {
    pub(super) connection: ConnectionTo<agent_client_protocol::Client>,
    pub(super) can: Can,
}

impl Peer {
    pub(super) fn new(
        connection: ConnectionTo<agent_client_protocol::Client>,
        can: &ClientCapabilities,
    ) -> Self {
        let questions = can.elicitation.as_ref().is_some_and(|it| it.form.is_some());
        let notices = can.session.as_ref().is_some_and(|it| it.notices.is_some());
        Self { connection, can: Can { questions, notices } }
    }

    /// Sends an update. (If the client is gone, the connection ends by itself.)
    fn update(&self, session: &SessionId, update: SessionUpdate) {
        _ = self.connection.send_notification(SessionNotification::new(session.clone(), update));
    }

    /// A sentence of the program in the conversation.
    pub(super) fn say(&self, session: &SessionId, text: &str) {
        self.update(session, SessionUpdate::AgentMessageChunk(chunk(text)));
    }

    /// What the user should know; it is no part of the conversation.
    pub(super) fn notice(&self, session: &SessionId, text: &str) {
        self.update(
            session,
            if self.can.notices {
                SessionUpdate::Notice(Notice::new(NoticeSeverity::Warning, text))
            } else {
                SessionUpdate::AgentThoughtChunk(chunk(&format!("{text}\n")))
            },
        );
    }

    /// The slash commands of a session.
    pub(super) fn commands(
        &self,
        session: &SessionId,
        options: &Options,
        servers: Option<&Servers>,
    ) {
        let commands = AvailableCommandsUpdate::new(commands::available(options, servers));
        self.update(session, SessionUpdate::AvailableCommandsUpdate(commands));
    }
}

fn chunk(text: &str) -> ContentChunk {
    ContentChunk::new(ContentBlock::Text(TextContent::new(text)))
}

/// What a session and its updates share.
#[derive(Clone)]
pub(super) struct Common {
    settings: Arc<Mutex<Settings>>,
    /// The client knows the session.
    pub(super) is_known: Arc<AtomicBool>,
    /// Why the model's last answer ended.
    last_stop: Arc<Mutex<StopReason>>,
}

impl Common {
    pub(super) fn new(settings: Settings, is_known: bool) -> Self {
        Self {
            settings: Arc::new(Mutex::new(settings)),
            is_known: Arc::new(AtomicBool::new(is_known)),
            last_stop: Arc::new(Mutex::new(StopReason::End)),
        }
    }

    pub(super) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn last_stop(&self) -> MutexGuard<'_, StopReason> {
        self.last_stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sink.
pub(super) struct Updates {
    peer: Peer,
    control: Control,
    root: PathBuf,
    common: Common,
    /// The effects of calls that are shown and not finished.
    running: HashMap<String, Effect>,
    /// Calls that the plan shows.
    hidden: HashSet<String>,
    asked: Option<Asked>,
    /// The number of the answer that arrives: its parts are one message.
    answer: u64,
    window: u64,
    cost_usd: f64,
    /// The roles of sub-agents.
    roles: HashMap<String, String>,
}

impl Updates {
    pub(super) fn new(peer: Peer, control: Control, root: PathBuf, common: Common) -> Self {
        Self {
            peer,
            control,
            root,
            common,
            running: HashMap::new(),
            hidden: HashSet::new(),
            asked: None,
            answer: 0,
            window: 0,
            cost_usd: 0.0,
            roles: HashMap::new(),
        }
    }

    fn send(&self, session: &SessionId, update: SessionUpdate) {
        if self.common.is_known.load(Ordering::SeqCst) {
            self.peer.update(session, update);
        }
    }

    /// A part of a message of the model.
    fn part(&self, text: &str) -> ContentChunk {
        chunk(text).message_id(MessageId::new(format!("answer-{}", self.answer)))
    }

    /// What is the same for live and recorded events of every agent.
    fn show(&mut self, session: &SessionId, event: &Event) {
        match &event.body {
            Body::AgentStarted { role, .. } => {
                self.roles.insert(event.header.agent.clone(), role.clone());
            }
            // The user sees the calls of the model, and those that retry one of them by themselves.
            Body::ToolStarted { parent_call: Some(_), .. }
            | Body::ToolFinished { parent_call: Some(_), .. } => {}
            Body::ToolStarted { call, effect: Effect::Plan, .. } => {
                self.hidden.insert(call.clone());
            }
            Body::ToolStarted { call, tool, input, effect, .. } => {
                self.begin(session, event, (call, tool, input, effect));
            }
            Body::ToolOutput { call, text } => {
                let shown = vec![calls::text(&calls::fenced(text))];
                let fields = ToolCallUpdateFields::new().content(shown);
                let update = ToolCallUpdate::new(call.clone(), fields);
                self.send(session, SessionUpdate::ToolCallUpdate(update));
            }
            Body::ToolFinished { call, tool, envelope, .. } => {
                Asked::settled(&mut self.asked, call);
                if !self.hidden.remove(call) {
                    self.finish(session, event, (call, tool, envelope));
                }
            }
            Body::ModelResponded(answer) => self.count(session, answer),
            _ => {}
        }
    }

    /// Shows that a call runs.
    fn begin(
        &mut self,
        session: &SessionId,
        event: &Event,
        (call, tool, input, effect): (&String, &str, &Object, &Effect),
    ) {
        if self.running.contains_key(call) {
            let fields = ToolCallUpdateFields::new().status(ToolCallStatus::InProgress);
            let update = ToolCallUpdate::new(call.clone(), fields);
            return self.send(session, SessionUpdate::ToolCallUpdate(update));
        }
        self.running.insert(call.clone(), effect.clone());
        let shown = self.call(event, (call, tool, input, effect), ToolCallStatus::InProgress);
        self.send(session, SessionUpdate::ToolCall(shown));
    }

    fn call(
        &self,
        event: &Event,
        (call, tool, input, effect): (&String, &str, &Object, &Effect),
        status: ToolCallStatus,
    ) -> ToolCall {
        ToolCall::new(call.clone(), self.title(event, tool, input))
            .name(tool.to_owned())
            .kind(calls::kind(tool, effect))
            .status(status)
            .locations(calls::locations(effect, input, &self.root))
            .raw_input(calls::raw_input(effect, input))
    }

    /// The call in one line; one of a sub-agent with its role.
    fn title(&self, event: &Event, tool: &str, input: &Object) -> String {
        let line = call_line(tool, input);
        match self.roles.get(&event.header.agent) {
            Some(role) => format!("[{role}] {line}"),
            None => line,
        }
    }

    fn finish(
        &mut self,
        session: &SessionId,
        event: &Event,
        (call, tool, envelope): (&String, &str, &Envelope),
    ) {
        let effect = self.running.remove(call);
        let status = match envelope.error() {
            None => ToolCallStatus::Completed,
            Some(_) => ToolCallStatus::Failed,
        };
        let content = calls::content(envelope, effect.as_ref(), &self.root);
        self.send(
            session,
            if effect.is_some() {
                let fields = ToolCallUpdateFields::new().status(status).content(content);
                SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(call.clone(), fields))
            } else {
                // It was refused before it could begin.
                let title = self.title(event, tool, &envelope.context.params_input);
                let shown = ToolCall::new(call.clone(), title).name(tool.to_owned());
                SessionUpdate::ToolCall(shown.status(status).content(content))
            },
        );
    }

    /// The window in use, and the cost.
    fn count(&mut self, session: &SessionId, answer: &ModelResponded) {
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

    /// What is the same for live and recorded events of the main agent.
    fn show_main(&mut self, session: &SessionId, event: &Event) {
        self.show(session, event);
        match &event.body {
            Body::SessionStarted(now) | Body::SessionResumed { now, .. } => {
                let mut settings = self.common.settings();
                settings.mode = now.permission_mode;
                settings.model.clone_from(&now.model);
            }
            Body::ModelRequested(request) if request.purpose.is_conversation() => {
                self.answer = event.header.seq;
                self.window = request.window.unwrap_or_default();
            }
            Body::PlanUpdated { plan, .. } => {
                self.send(session, SessionUpdate::Plan(shown_plan(plan)));
            }
            Body::CheckFinished { command, passed, tail, .. } => {
                let status =
                    if *passed { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
                let id = format!("check-{}", event.header.seq);
                let shown = ToolCall::new(id, format!("check {}", literal_line(command)))
                    .kind(ToolKind::Execute)
                    .status(status)
                    .content(vec![calls::text(&calls::fenced(tail))]);
                self.send(session, SessionUpdate::ToolCall(shown));
            }
            Body::SessionRenamed { name } => {
                let info = SessionInfoUpdate::new().title(prose(name).into_owned());
                self.send(session, SessionUpdate::SessionInfoUpdate(info));
            }
            Body::TurnFinished(finished) => self.finished(session, finished),
            _ => {}
        }
    }

    /// A result that is not the model's answer was not sent as its parts.
    fn finished(&mut self, session: &SessionId, finished: &TurnFinished) {
        self.running.clear();
        match finished.ending {
            Ending::Completed | Ending::CompletedUnverified => {
                for error in &finished.errors {
                    self.notice(session, error);
                }
            }
            Ending::Failed
            | Ending::CheckFailed
            | Ending::ModelRefused
            | Ending::MaxTurns
            | Ending::MaxBudget
            | Ending::Timeout => {
                let text = format!("\n\n{}", finished.result.trim());
                self.send(session, SessionUpdate::AgentMessageChunk(chunk(&text)));
            }
            // The user knows it, or gets it as the error of the request.
            Ending::PermissionDenied
            | Ending::Interrupted
            | Ending::Terminated
            | Ending::ModelUnavailable => {}
        }
    }

    fn notice(&self, session: &SessionId, text: &str) {
        if self.common.is_known.load(Ordering::SeqCst) {
            self.peer.notice(session, text);
        }
    }

    fn mode(&self, session: &SessionId, mode: PermissionMode) {
        let options = {
            let mut settings = self.common.settings();
            settings.mode = mode;
            settings.options()
        };
        let update = CurrentModeUpdate::new(mode.as_str());
        self.send(session, SessionUpdate::CurrentModeUpdate(update));
        let update = ConfigOptionUpdate::new(options);
        self.send(session, SessionUpdate::ConfigOptionUpdate(update));
    }

    /// Requests to the user, of every agent.
    fn ask(&mut self, session: &SessionId, event: &Event) {
        match &event.body {
            Body::PermissionRequested {
                call, tool, input, effect, reason, grants, diff, ..
            } => {
                let parts = (call, tool.as_str(), input, effect);
                // (The title is shortened.)
                let whole = calls::text(&calls::fenced(&call_in_full(tool, input)));
                let mut content: Vec<ToolCallContent> = vec![whole, calls::text(reason)];
                if let (Some(diff), Effect::Write { path }) = (diff, effect) {
                    content = calls::diffs(diff, &self.root.join(path));
                }
                let shown = self.call(event, parts, ToolCallStatus::Pending).content(content);
                if self.running.insert(call.clone(), effect.clone()).is_none() {
                    self.send(session, SessionUpdate::ToolCall(shown.clone()));
                }
                let (peer, control) = (&self.peer, &self.control);
                let ids = (session, call.as_str());
                let update = ToolCallUpdate::from(shown);
                self.asked = asking::permission(peer, control, ids, update, grants.clone());
            }
            Body::QuestionAsked { call, questions } => {
                let (peer, control) = (&self.peer, &self.control);
                let ids = (session, call.as_str());
                self.asked = asking::questions(peer, control, ids, questions.clone());
            }
            Body::PermissionDecided { call, .. } | Body::QuestionAnswered { call, .. } => {
                Asked::settled(&mut self.asked, call);
            }
            _ => {}
        }
    }
}

impl Sink for Updates {
    fn take(&mut self, stamped: &Stamped) {
        let event = &stamped.event;
        let session = SessionId::new(event.header.session.as_str());
        self.ask(&session, event);
        self.show_main(&session, event);
        match &event.body {
            Body::ModelDelta { text, reasoning: false } => {
                self.send(&session, SessionUpdate::AgentMessageChunk(self.part(text)));
            }
            Body::ModelDelta { text, reasoning: true } => {
                self.send(&session, SessionUpdate::AgentThoughtChunk(self.part(text)));
            }
            Body::ModelResponded(answer) if answer.purpose.is_conversation() => {
                *self.common.last_stop() = answer.stop.clone();
            }
            Body::ModeChanged { mode, .. } => self.mode(&session, *mode),
            Body::ModelFallback { to, reason, .. } => {
                self.notice(&session, &format!("{reason}; {to} answers for the rest of the turn"));
            }
            Body::Error { message, retry_in_ms: Some(_), .. } => self.notice(&session, message),
            Body::Error { source, message, .. } if TOLD.contains(&source.as_str()) => {
                self.notice(&session, message);
            }
            Body::McpServer { server, state: McpState::Failed, detail, .. } => {
                self.notice(&session, &format!("MCP server {server}: {detail}"));
            }
            Body::HookFinished(HookFinished { message: Some(message), .. }) => {
                self.notice(&session, &format!("hook: {message}"));
            }
            Body::ContextCompacted(compacted) if !compacted.summary.is_empty() => {
                let (before, after) = (compacted.tokens_before, compacted.tokens_after);
                self.notice(&session, &format!(
                    "the older part of the conversation was replaced by a summary: {before} tokens → {after}"
                ));
            }
            _ => {}
        }
    }

    fn take_from_agent(&mut self, stamped: &Stamped) {
        let session = SessionId::new(stamped.event.header.session.as_str());
        self.ask(&session, &stamped.event);
        self.show(&session, &stamped.event);
    }

    fn recorded(&mut self, events: &[&Event]) {
        for event in events {
            let session = SessionId::new(event.header.session.as_str());
            self.show_main(&session, event);
            match &event.body {
                Body::TurnStarted { input, .. } | Body::TurnSteered { input, .. } => {
                    self.send(&session, SessionUpdate::UserMessageChunk(chunk(input)));
                }
                Body::ModelResponded(answer) if answer.purpose.is_conversation() => {
                    if !answer.reasoning.is_empty() {
                        let part = self.part(&answer.reasoning);
                        self.send(&session, SessionUpdate::AgentThoughtChunk(part));
                    }
                    if !answer.text.is_empty() {
                        let part = self.part(&answer.text);
                        self.send(&session, SessionUpdate::AgentMessageChunk(part));
                    }
                }
                _ => {}
            }
        }
    }
}

/// The plan without what was given up.
fn shown_plan(plan: &Plan) -> ShownPlan {
    let entries = plan.todos.iter().filter_map(|todo| {
        let status = match todo.status {
            TodoStatus::Pending => PlanEntryStatus::Pending,
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
            TodoStatus::Cancelled => return None,
        };
        Some(PlanEntry::new(prose(&todo.content), PlanEntryPriority::Medium, status))
    });
    ShownPlan::new(entries.collect())
}
