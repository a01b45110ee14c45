//! Plays the script: the processes of the session, its turns, and the actions of the user between them.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc::unbounded_channel;

use super::parts;
use super::replay_directory::ReplayDirectory;
use super::replay_state::{RecordedClock, RecordedLessons, ReplayState, ScriptSink};
use super::script::{self, CallResult, Script, ScriptStep};
use crate::app::models::Models;
use crate::app::open::SessionReplacements;
use crate::app::{
    ANSWER_SCHEMA, OpenError, Options, RecordedSession, RewindScope, Session, SessionChoice,
    StateDirs,
};
use crate::config::{self, SandboxNetwork, UserDirs};
use agent_engine::context::DEFAULT_WINDOW;
use agent_engine::kernel::{ConfiguredModel, LessonMemory};
use agent_host::workspace::{FileHistory, UndoOptions, UndoTarget};
use agent_protocol::Object;
use agent_protocol::control::SessionControl;
use agent_protocol::directives::UserInput;
use agent_protocol::event::{SandboxStatus, SessionStarted};
use agent_protocol::tool::Effect;

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
    pub(super) guarantees: Option<SandboxStatus>,
}

impl ReplayDriver<'_> {
    pub(super) async fn run(&mut self) -> Result<(), OpenError> {
        for act in &self.script.steps {
            if let ScriptStep::Turn { number, message, is_killed } = act {
                self.run_turn(*number, message, *is_killed).await;
            } else {
                Box::pin(self.run_step(act)).await?;
            }
            if self.state.has_diverged() {
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

    async fn run_step(&mut self, act: &ScriptStep) -> Result<(), OpenError> {
        match act {
            ScriptStep::Begin(now) => Box::pin(self.open_session(now)).await?,
            ScriptStep::End => self.close_session().await,
            ScriptStep::Undo { turn, is_redo, is_rewind, git, force } => {
                let what = match (is_redo, is_rewind) {
                    (true, _) => UndoTarget::Redo,
                    (false, true) => UndoTarget::FromTurn(*turn),
                    (false, false) => UndoTarget::Turn(*turn),
                };
                let options = UndoOptions { confirmed: true, force: *force, git: *git };
                let undone = match &mut self.session {
                    Some(session) => session.undo(what, options),
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
            ScriptStep::Turn { .. } => {}
            ScriptStep::ShareCommand { .. }
            | ScriptStep::SetMode(_)
            | ScriptStep::AddRule(_)
            | ScriptStep::RemoveRule(_)
            | ScriptStep::Pin(_)
            | ScriptStep::Unpin(_)
            | ScriptStep::Compact(_) => self.run_session_step(act).await,
        }
        Ok(())
    }

    async fn run_session_step(&mut self, act: &ScriptStep) {
        let Some(session) = &mut self.session else { return };
        match act {
            ScriptStep::ShareCommand { command, output, exit_code } => {
                session.share_command(command, output, *exit_code);
            }
            ScriptStep::SetMode(mode) => {
                session.control().request_mode(*mode);
                session.apply_requested_mode();
            }
            ScriptStep::AddRule(rule) => drop(session.kernel.add_rule(self.state.relocate(rule))),
            ScriptStep::RemoveRule(id) => drop(session.remove_rule(*id)),
            ScriptStep::Pin(text) => drop(session.pin(text)),
            ScriptStep::Unpin(id) => drop(session.unpin(*id)),
            ScriptStep::Compact(focus) => drop(session.compact(focus.as_deref()).await),
            ScriptStep::Begin(_)
            | ScriptStep::End
            | ScriptStep::Turn { .. }
            | ScriptStep::Undo { .. }
            | ScriptStep::Rewind(_) => {}
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

        let settings =
            self.state.relocate(&serde_json::Value::from(now.settings.clone()).to_string());
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
            for check in &self.script.checks {
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
            hooks: self.script.blocking_hooks(),
            ..Options::new(self.scratch.root.clone(), loaded, session, dirs)
        };
        let control = SessionControl::default();
        if self.script.is_attended {
            control.enable_user_questions();
        }
        self.state.set_control(&control);
        let stand_ins = self.session_replacements(now);
        let hand = Box::new(ScriptSink(self.state.clone()));
        let session = Session::open_with(options, control, vec![hand], Some(stand_ins)).await?;
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

    fn runs_commands(&self) -> bool {
        let is_command = |it: &CallResult| matches!(it.effect, Some(Effect::Command { .. }));
        !self.script.checks.is_empty() || self.script.results.iter().any(is_command)
    }

    fn session_replacements(&self, now: &SessionStarted) -> SessionReplacements {
        let speaker = |id: &str| ConfiguredModel {
            model: parts::recorded_model(id, &self.state),
            price: None,
            context_window: self.script.windows.get(id).copied().unwrap_or(DEFAULT_WINDOW),
            max_output_tokens: None,
            temperature: None,
            effort: None,
            takes_images: true,
        };
        let models = Models {
            main: speaker(&now.model),
            light: speaker(&now.model),
            fallback: self.script.fallback.iter().map(|id| speaker(id)).collect(),
            verifier: self.script.verifier.as_deref().map(speaker),
            keys: Vec::new(),
            notices: Vec::new(),
        };
        let recall = Arc::new(RecordedLessons(self.state.clone()));
        SessionReplacements {
            models: Some(models),
            replace_tool: parts::replay_tool(&self.state),
            memory: Some(LessonMemory { recall, max_tokens: u64::MAX }),
            clock: Arc::new(RecordedClock(self.state.clone())),
            is_sandboxed: now.sandbox.backend != "none",
        }
    }
}
