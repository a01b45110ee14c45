//! Plays the script: the processes of the session, its turns, and the actions of the user between them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;

use super::parts::{RecordedModel, ReplayTool};
use super::replay_directory::ReplayDirectory;
use super::replay_state::ReplayState;
use super::script::{self, CallResult, Script, ScriptStep};
use crate::app::models::Models;
use crate::app::open::SessionParts;
use crate::app::{
    ANSWER_SCHEMA, Callback, HookSet, OpenError, Options, RecordedSession, RewindScope, Session,
    SessionChoice, StateDirs,
};
use crate::config::{self, Matcher, UserDirs};
use agent_engine::context::DEFAULT_WINDOW;
use agent_engine::kernel::{ConfiguredModel, LessonMemory};
use agent_host::workspace::{FileHistory, UndoOptions, UndoTarget};
use agent_protocol::Object;
use agent_protocol::control::SessionControl;
use agent_protocol::directives::UserInput;
use agent_protocol::event::SessionStarted;
use agent_protocol::hook::HookEvent;
use agent_protocol::model::{ContextWindow, WindowSource};
use agent_protocol::settings::SandboxNetwork;
use agent_protocol::tool::Effect;
use agent_protocol::web::WEB_SEARCH;

/// The hooks only look something up.
const HOOK_TIMEOUT: Duration = Duration::from_mins(1);

pub(super) struct ReplayDriver<'a> {
    pub(super) state: ReplayState,
    pub(super) history: Arc<FileHistory>,
    pub(super) scratch: &'a ReplayDirectory,
    pub(super) script: &'a Script,
    pub(super) id: &'a str,
    pub(super) dirs: Option<UserDirs>,
    pub(super) session: Option<Session>,
    pub(super) n_processes: usize,
    pub(super) last_turn: u32,
    pub(super) config: Option<config::Config>,
    pub(super) not_replayed: Vec<String>,
}

impl ReplayDriver<'_> {
    pub(super) async fn run(&mut self) -> Result<(), OpenError> {
        for step in &self.script.steps {
            Box::pin(self.run_step(step)).await?;
            if self.state.lock().results.divergence.is_some() {
                break;
            }
        }
        self.close_session().await;
        Ok(())
    }

    async fn run_turn(&mut self, number: u32, message: &UserInput, is_killed: bool) {
        let Some(session) = &mut self.session else {
            self.state.diverge(format!("turn {number}: no process runs"));
            return;
        };
        let control = session.control().clone();
        control.begin_turn();
        let (sender, mut interrupts) = unbounded_channel();
        let killed = self.state.begin_turn(sender);
        let mut input = UserInput {
            prompt: message.prompt.clone(),
            mentions: message.mentions.clone(),
            ..UserInput::from(self.state.relocate(&message.text))
        };
        if !message.pasted.is_empty() {
            input = script::without_directives(&input);
        }
        let is_ended = {
            let run = session.run(input);
            tokio::pin!(run);
            loop {
                tokio::select! {
                    biased;
                    () = killed.cancelled() => break false,
                    _ = &mut run => break true,
                    Some((by, after)) = interrupts.recv() => {
                        let timer = tokio::time::sleep(after);
                        tokio::select! {
                            biased;
                            _ = &mut run => break true,
                            () = timer => control.interrupt(by),
                        }
                    }
                }
            }
        };
        if !is_ended {
            // Like the killed process: nothing is recorded any more.
            self.session = None;
        }
        self.last_turn = number;
        self.state.end_turn(number, is_killed);
    }

    async fn run_step(&mut self, step: &ScriptStep) -> Result<(), OpenError> {
        match step {
            ScriptStep::Begin(now) => Box::pin(self.open_session(now)).await?,
            ScriptStep::Turn { number, message, is_killed } => {
                self.run_turn(*number, message, *is_killed).await;
            }
            ScriptStep::End => self.close_session().await,
            ScriptStep::Undo { turn, is_redo, is_rewind, git, force } => {
                let what = match (is_redo, is_rewind) {
                    (true, _) => UndoTarget::Redo,
                    (false, true) => UndoTarget::FromTurn(*turn),
                    (false, false) => UndoTarget::Turn(*turn),
                };
                let options = UndoOptions { confirmed: true, force: *force, git: *git };
                let undone = match &mut self.session {
                    Some(session) => session.undo(what, options).map(drop),
                    None => self.change_recorded(|recorded| recorded.undo(what, options).map(drop)),
                };
                if let Err(why) = undone {
                    self.not_replayed.push(format!("the undo of turn {turn}: {why}"));
                }
            }
            ScriptStep::Rewind(turn) => {
                self.close_session().await;
                let rewound = self.change_recorded(|recorded| {
                    let (what, options) = (RewindScope::Conversation, UndoOptions::default());
                    recorded.rewind(*turn, what, options).map(drop)
                });
                if let Err(why) = rewound {
                    self.state.diverge(format!("the rewind to turn {turn}: {why}"));
                }
            }
            _ => self.run_session_step(step).await,
        }
        Ok(())
    }

    async fn run_session_step(&mut self, step: &ScriptStep) {
        let Some(session) = &mut self.session else { return };
        match step {
            ScriptStep::ShareCommand { command, output, exit_code } => {
                session.share_command(command, output, *exit_code);
            }
            ScriptStep::SetMode(mode) => {
                session.control().request_mode(*mode);
                session.apply_requested_mode();
            }
            ScriptStep::AddRule(rule) => {
                session.kernel.registry().add_written_rule(self.state.relocate(rule));
            }
            ScriptStep::RemoveRule(id) => _ = session.remove_rule(*id),
            ScriptStep::Compact(focus) => drop(session.compact(focus.as_deref()).await),
            _ => {}
        }
    }

    fn change_recorded(
        &self,
        change: impl FnOnce(&RecordedSession) -> Result<(), OpenError>,
    ) -> Result<(), String> {
        let config = self.config.clone().unwrap_or_default();
        let own = StateDirs::new(self.dirs.as_ref());
        let place = (self.scratch.root.as_path(), &[] as &[PathBuf], &own);
        let recorded = RecordedSession::open(place, &self.scratch.storage, self.id, &config);
        recorded.and_then(|recorded| change(&recorded)).map_err(|error| error.to_string())
    }

    async fn close_session(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }

    async fn open_session(&mut self, now: &SessionStarted) -> Result<(), OpenError> {
        self.close_session().await;
        let n_before = self.history.count_operations_up_to(self.last_turn);
        let changed = self.history.outside_changes_before(self.n_processes, n_before);
        let failed = self.history.apply_changes(&changed, &self.scratch.root);
        self.not_replayed.extend(failed.into_iter().map(|(path, why)| format!("{path}: {why}")));
        let is_first = self.n_processes == 0;
        self.n_processes += 1;

        let settings = self.state.relocate(&Value::from(now.settings.clone()).to_string());
        let settings: Object = serde_json::from_str(&settings).unwrap_or_default();
        let mut loaded = config::config_from_record(&settings).map_err(OpenError::Usage)?;
        let config = &mut loaded.config;
        config.permissions.mode = Some(now.permission_mode);
        config.model.clone_from(&now.model);
        config.learning.enabled = false;
        config.sandbox.enabled = true;
        config.sandbox.extra_writable.clear();
        config.sandbox.host_ports.clear();
        if config.sandbox.network == SandboxNetwork::On {
            config.sandbox.network = SandboxNetwork::Loopback;
        }
        if config.checks.commands.is_empty() {
            // An older record has no settings.
            for check in &self.script.results.checks {
                if !config.checks.commands.contains(&check.command) {
                    config.checks.commands.push(check.command.clone());
                }
            }
        }
        self.config = Some(config.clone());
        let dirs = self.dirs.clone();
        let dirs = dirs.map(|dirs| UserDirs { cache: self.scratch.path.join("cache"), ..dirs });
        let session = if is_first {
            SessionChoice::NewWithId(self.id.to_owned())
        } else {
            SessionChoice::Resume(self.id.to_owned())
        };
        let options = Options {
            storage: Some(self.scratch.storage.clone()),
            answer_schema: settings.get(ANSWER_SCHEMA).cloned(),
            keeps_model: true,
            hooks: self.blocking_hooks(),
            ..Options::new(self.scratch.root.clone(), loaded, session, dirs)
        };
        let control = SessionControl::default();
        if self.script.is_attended {
            control.enable_user_questions();
        }
        self.state.lock().control = control.clone();
        let parts = self.session_parts(now);
        let front_end = Box::new(self.state.clone());
        let session = Session::open_with(options, control, vec![front_end], parts).await?;
        if !session.exec().is_sandboxed() && self.runs_commands() {
            return Err(OpenError::Usage(
                "the session ran commands, and a replay runs them only in the sandbox, which is not available here; \
                 `agent doctor` says why"
                    .to_owned(),
            ));
        }
        self.session = Some(session);
        Ok(())
    }

    /// No hook of the record runs; what they blocked is blocked again.
    fn blocking_hooks(&self) -> Option<Arc<HookSet>> {
        let hooks = HookSet::default();
        for event in [HookEvent::UserPromptSubmit, HookEvent::PreToolUse] {
            let blocked = self.script.blocked.clone();
            let ask = move |question: Value| {
                let is_it = |(what, _): &&(String, String)| {
                    question["prompt"] == what.as_str() || question["tool_use_id"] == what.as_str()
                };
                let answer = blocked.iter().find(is_it).map_or_else(
                    || json!({}),
                    |(_, reason)| json!({"decision": "block", "reason": reason}),
                );
                async { Ok(answer) }.boxed()
            };
            let handler = ("the record".to_owned(), Box::new(ask) as Callback);
            hooks.add(event, Matcher::All, HOOK_TIMEOUT, handler);
        }
        (!self.script.blocked.is_empty()).then(|| Arc::new(hooks))
    }

    fn runs_commands(&self) -> bool {
        let is_command = |it: &CallResult| matches!(it.effect, Some(Effect::Command { .. }));
        let results = &self.script.results;
        !results.checks.is_empty() || results.calls.iter().any(is_command)
    }

    /// In this process.
    fn recorded_windows(&self, id: &str) -> &[ContextWindow] {
        self.script.windows.get(&(self.n_processes, id.to_owned())).map_or(&[], Vec::as_slice)
    }

    fn session_parts(&self, now: &SessionStarted) -> SessionParts {
        let is_said = |window: &&ContextWindow| window.source == WindowSource::Server;
        let said = |id: &str| self.recorded_windows(id).iter().find(is_said).copied();
        let configured_model = |id: &str| ConfiguredModel {
            model: Arc::new(RecordedModel {
                id: id.to_owned(),
                state: self.state.clone(),
                said_window: said(id),
            }),
            price: None,
            window: self
                .recorded_windows(id)
                .first()
                .copied()
                .unwrap_or(ContextWindow { tokens: DEFAULT_WINDOW, source: WindowSource::Known }),
            is_local: false,
            max_output_tokens: None,
            temperature: None,
            effort: None,
            takes_images: true,
            // Its tool was among those of the session.
            searches: now.tools.iter().any(|tool| tool == WEB_SEARCH),
            larger_window: None,
            has_failed_summary: Arc::default(),
        };
        let main = configured_model(&now.model);
        let models = Models {
            light: main.clone(),
            main,
            fallback: self.script.fallback.iter().map(|id| configured_model(id)).collect(),
            verifier: self.script.verifier.as_deref().map(configured_model),
            keys: Vec::new(),
            notices: Vec::new(),
        };
        let state = self.state.clone();
        let recall = Arc::new(self.state.clone());
        SessionParts {
            models: Some(models),
            wrap_tool: Box::new(move |tool| Box::new(ReplayTool { tool, state: state.clone() })),
            memory: Some(LessonMemory { recall, max_tokens: u64::MAX }),
            is_sandboxed: Some(now.sandbox.backend != "none"),
        }
    }
}
