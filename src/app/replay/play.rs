//! Plays the script: the processes of the session, its turns, and what the user did between them.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc::unbounded_channel;

use super::parts;
use super::scratch::Scratch;
use super::script::{self, Act, CallResult, Script};
use super::stage::{Hand, RecordedLessons, RecordedTime, Stage};
use crate::app::models::Models;
use crate::app::open::StandIns;
use crate::app::{ANSWER_SCHEMA, OpenError, Options, Recorded, Rewind, Session, StateDirs, Which};
use crate::config::{self, SandboxNetwork, UserDirs};
use agent_engine::context::DEFAULT_WINDOW;
use agent_engine::kernel::{Memory, Speaker};
use agent_host::workspace::{History, Undo, UndoOptions};
use agent_protocol::Object;
use agent_protocol::control::Control;
use agent_protocol::directives::UserInput;
use agent_protocol::event::{Sandbox, SessionStarted};
use agent_protocol::tool::Effect;

/// The replay while it runs.
pub(super) struct Play<'a> {
    pub(super) stage: Stage,
    pub(super) history: Arc<History>,
    pub(super) scratch: &'a Scratch,
    pub(super) script: &'a Script,
    pub(super) id: &'a str,
    pub(super) dirs: Option<UserDirs>,
    pub(super) session: Option<Session>,
    pub(super) n_processes: usize,
    pub(super) last_turn: u32,
    /// The settings of the last process.
    pub(super) options: Option<config::Config>,
    pub(super) not_replayed: Vec<String>,
    pub(super) guarantees: Option<Sandbox>,
}

impl Play<'_> {
    pub(super) async fn all(&mut self) -> Result<(), OpenError> {
        for act in &self.script.acts {
            if let Act::Turn { number, message, is_killed } = act {
                self.turn(*number, message, *is_killed).await;
            } else {
                Box::pin(self.between(act)).await?;
            }
            if self.stage.has_diverged() {
                break;
            }
        }
        self.end().await;
        Ok(())
    }

    async fn turn(&mut self, number: u32, message: &UserInput, is_killed: bool) {
        let Some(session) = &mut self.session else {
            self.stage.diverge(format!("turn {number}: no process runs"));
            return;
        };
        let control = session.control().clone();
        control.begin_turn();
        let (sender, mut interrupts) = unbounded_channel();
        let killed = self.stage.begin_turn(sender);
        let mut input = UserInput {
            prompt: message.prompt.clone(),
            mentions: message.mentions.clone(),
            ..UserInput::from(self.stage.relocated(&message.text))
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
        self.stage.end_turn(number, is_killed);
    }

    async fn between(&mut self, act: &Act) -> Result<(), OpenError> {
        match act {
            Act::Begin(now) => Box::pin(self.begin(now)).await?,
            Act::End => self.end().await,
            Act::Undo { turn, is_redo, is_rewind, git, force } => {
                let what = match (is_redo, is_rewind) {
                    (true, _) => Undo::Redo,
                    (false, true) => Undo::From(*turn),
                    (false, false) => Undo::Turn(*turn),
                };
                let options = UndoOptions { confirmed: true, force: *force, git: *git };
                let undone = match &mut self.session {
                    Some(session) => session.undo(what, options),
                    None => self.changed(|recorded| recorded.undo(what, options).map(drop)),
                };
                if let Err(why) = undone {
                    self.not_replayed.push(format!("the undo of turn {turn}: {why}"));
                }
            }
            Act::Rewind(turn) => {
                self.end().await;
                let rewound = self.changed(|recorded| {
                    let (what, options) = (Rewind::Conversation, UndoOptions::default());
                    recorded.rewind(*turn, what, options).map(drop)
                });
                if let Err(why) = rewound {
                    self.stage.diverge(format!("the rewind to turn {turn}: {why}"));
                }
            }
            Act::Turn { .. } => {}
            Act::Share { .. }
            | Act::Mode(_)
            | Act::AddRule(_)
            | Act::RemoveRule(_)
            | Act::Pin(_)
            | Act::Unpin(_)
            | Act::Compact(_) => self.of_session(act).await,
        }
        Ok(())
    }

    /// What needs a running session.
    async fn of_session(&mut self, act: &Act) {
        let Some(session) = &mut self.session else { return };
        match act {
            Act::Share { command, output, exit_code } => session.share(command, output, *exit_code),
            Act::Mode(mode) => {
                session.control().want_mode(*mode);
                session.mode();
            }
            Act::AddRule(rule) => drop(session.kernel.add_rule(self.stage.relocated(rule))),
            Act::RemoveRule(id) => drop(session.remove_rule(*id)),
            Act::Pin(text) => drop(session.pin(text)),
            Act::Unpin(id) => drop(session.unpin(*id)),
            Act::Compact(focus) => drop(session.compact(focus.as_deref()).await),
            Act::Begin(_) | Act::End | Act::Turn { .. } | Act::Undo { .. } | Act::Rewind(_) => {}
        }
    }

    /// Changes the session while no process works on it.
    fn changed(
        &self,
        change: impl FnOnce(&Recorded) -> Result<(), OpenError>,
    ) -> Result<(), String> {
        let config = self.options.clone().unwrap_or_default();
        let own = StateDirs::of(self.dirs.as_ref());
        let place = (self.scratch.root.as_path(), &[] as &[PathBuf], &own);
        let recorded = Recorded::open(place, &self.scratch.storage, self.id, &config);
        recorded.and_then(|recorded| change(&recorded)).map_err(|error| error.to_string())
    }

    async fn end(&mut self) {
        if let Some(session) = self.session.take() {
            session.close().await;
        }
    }

    /// A process begins or continues the session.
    async fn begin(&mut self, now: &SessionStarted) -> Result<(), OpenError> {
        self.end().await;
        let n_before = self.history.operations_up_to(self.last_turn);
        let changed = self.history.outside_before(self.n_processes, n_before);
        let failed = self.history.make(&changed, &self.scratch.root);
        self.not_replayed.extend(failed.into_iter().map(|(path, why)| format!("{path}: {why}")));
        let is_first = self.n_processes == 0;
        self.n_processes += 1;

        let settings =
            self.stage.relocated(&serde_json::Value::from(now.settings.clone()).to_string());
        let settings: Object = serde_json::from_str(&settings).unwrap_or_default();
        let mut loaded = config::of_record(&settings).map_err(OpenError::Usage)?;
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
            // (An older record has no settings.)
            for check in &self.script.checks {
                if !config.checks.commands.contains(&check.command) {
                    config.checks.commands.push(check.command.clone());
                }
            }
        }
        self.options = Some(config.clone());
        let dirs = self.dirs.clone();
        let dirs = dirs.map(|dirs| UserDirs { cache: self.scratch.path.join("cache"), ..dirs });
        let session = if is_first {
            Which::NewWithId(self.id.to_owned())
        } else {
            Which::Resume(self.id.to_owned())
        };
        let options = Options {
            storage: Some(self.scratch.storage.clone()),
            answer_schema: settings.get(ANSWER_SCHEMA).cloned(),
            keeps_model: true,
            hooks: self.script.hooks(),
            ..Options::new(self.scratch.root.clone(), loaded, session, dirs)
        };
        let control = Control::default();
        if self.script.is_attended {
            control.attend();
        }
        self.stage.begin(&control);
        let stand_ins = self.stand_ins(now);
        let hand = Box::new(Hand(self.stage.clone()));
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

    fn stand_ins(&self, now: &SessionStarted) -> StandIns {
        let speaker = |id: &str| Speaker {
            model: parts::model(id, &self.stage),
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
        let recall = Arc::new(RecordedLessons(self.stage.clone()));
        StandIns {
            models: Some(models),
            stand_in: parts::stand_in(&self.stage),
            memory: Some(Memory { recall, max_tokens: u64::MAX }),
            clock: Arc::new(RecordedTime(self.stage.clone())),
            is_sandboxed: now.sandbox.backend != "none",
        }
    }
}
