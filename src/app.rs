//! The composition root: configuration → model, registry, context, kernel, sinks.
//!
//! Several sessions may live in one process: everything that belongs to one is held by its [`Session`].

mod added_dirs;
mod agents;
mod background;
mod changed_files;
mod check_runner;
mod checkpoints;
mod copies;
pub mod evaluation;
mod extensions;
mod hooks;
mod host_programs;
mod learning;
mod mcp_messages;
mod mcp_servers;
mod memory;
mod models;
mod open;
mod place;
mod project;
mod replay;
mod resume;
mod resumed_model;
mod retention;
mod running;
mod sandbox_facts;
mod session_operations;
mod storage;
mod take_over;
mod team;
mod telemetry;
mod tool_choice;
mod toolbox;
mod undo;
mod usable_models;
mod web;

use std::collections::HashSet;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

pub use added_dirs::{resolve_added_dir, resolve_recorded_session};
pub use agent_host::workspace::UndoOptions;
use background::BackgroundWork;
pub use check_runner::find_failing_check;
pub use checkpoints::{checkpoint_limits, with_checkpoints};
pub use copies::{ProjectCopies, WorkCopy, new_name};
pub use extensions::own_commands;
pub use hooks::{Callback, HookSet};
pub use host_programs::{HostPrograms, quote};
use learning::SessionLearning;
pub use mcp_servers::McpServers;
pub use memory::{memory_file, project_identity};
pub use models::{
    ModelFacts, find_server_model, model_facts, no_model_error, open_endpoint, read_script,
};
use open::SessionParts;
pub use place::git_branch;
pub use replay::{ReplayOptions, ReplayReport, replay};
pub use running::{BackgroundRecord, SessionState, SessionStatus, VERSION};
pub use sandbox_facts::{StateDirs, WritableDirs};
pub use session_operations::MAY_HAVE_FILE;
pub use storage::{ShortIds, Storage};
pub use take_over::{TakeOver, revert_unfinished};
pub use team::Team;
pub use tool_choice::ToolChoice;
pub use toolbox::{
    ToolStorage, Toolbox, build_masker, command_exec, no_sandbox, open_sandbox, open_toolbox,
    open_workspace, parse_permission_rules, registry_settings, tool_names,
};
pub use undo::{RecordedSession, RewindReport, RewindScope};
pub use usable_models::{UsableModel, usable_models};
pub use web::open_search;

use crate::config::{ConfigError, LoadedConfig, UserDirs};
use crate::extend::roles::RoleDefinition;
use agent_engine::kernel::Kernel;
use agent_engine::mcp;
use agent_host::exec::Exec;
use agent_host::workspace::Workspace;
use agent_protocol::control::{Ending, Interrupt, PermissionMode, SessionControl};
use agent_protocol::directives::UserInput;
use agent_protocol::event::{Clock, EventBody, EventStream, SessionRule, Sink, TurnFinished};
use agent_protocol::provider::Effort;
use agent_record::SummarySink;

/// Recorded settings besides those of the configuration: the schema of the answer, and the added directories.
const ANSWER_SCHEMA: &str = "answer_schema";
const ADDED_DIRS: &str = "add_dirs";

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Wrong usage or configuration: exit 2.
    #[error("{0}")]
    Usage(String),
    /// No model is configured and none was detected: exit 2.
    #[error("{0}")]
    NoModel(String),
    /// The work was not done: exit 1.
    #[error("{0}")]
    Failed(String),
    /// Changes were not undone, because the user has to confirm it: exit 1.
    #[error("{0}")]
    NotConfirmed(String),
    /// Another process uses the session: exit 75.
    #[error("{0}")]
    InUse(String),
    #[error("interrupted")]
    Interrupted(Interrupt),
}

impl OpenError {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::NoModel(_) => 2,
            Self::Failed(_) | Self::NotConfirmed(_) => 1,
            Self::InUse(_) => 75,
            Self::Interrupted(interrupt) => interrupt.ending().exit_code(),
        }
    }
}

impl From<ConfigError> for OpenError {
    fn from(error: ConfigError) -> Self {
        Self::Usage(error.to_string())
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn parse_duration(text: &str) -> Result<Duration, OpenError> {
    agent_protocol::settings::parse_duration(text).map_err(OpenError::Usage)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChoice {
    New,
    NewWithId(String),
    Latest,
    Resume(String),
    /// `None`: the latest session.
    Fork(Option<String>),
}

#[derive(Clone)]
pub struct Options {
    pub root: PathBuf,
    /// The project, if `root` is a copy of it.
    pub project: Option<PathBuf>,
    pub add_dirs: Vec<PathBuf>,
    pub config: LoadedConfig,
    pub session: SessionChoice,
    /// `None`: with the sessions of this project.
    pub storage: Option<Storage>,
    pub ephemeral: bool,
    pub append_system_prompt: Option<String>,
    pub answer_schema: Option<serde_json::Value>,
    /// If the configuration sets none.
    pub default_mode: PermissionMode,
    pub dirs: Option<UserDirs>,
    /// A recorded session continues with the model of these options, not with its own.
    pub keeps_model: bool,
    /// Inside the program that drives the session.
    pub host_servers: Vec<mcp::ServerSettings>,
    /// Besides the configured ones.
    pub hooks: Option<Arc<HookSet>>,
    pub tools: ToolChoice,
    /// Roles of sub-agents, besides those in files.
    pub roles: Vec<RoleDefinition>,
    /// If the session is one of several attempts.
    pub attempt_group: Option<Arc<AttemptGroup>>,
    pub variables: Vec<(String, String)>,
}

impl Options {
    pub fn new(
        root: PathBuf,
        config: LoadedConfig,
        session: SessionChoice,
        dirs: Option<UserDirs>,
    ) -> Self {
        Self {
            root,
            project: None,
            add_dirs: Vec::new(),
            config,
            session,
            storage: None,
            ephemeral: false,
            append_system_prompt: None,
            answer_schema: None,
            default_mode: PermissionMode::AutoEdit,
            dirs,
            keeps_model: false,
            host_servers: Vec::new(),
            hooks: None,
            tools: ToolChoice::default(),
            roles: Vec::new(),
            attempt_group: None,
            variables: Vec::new(),
        }
    }

    pub fn session_storage(&self) -> Storage {
        let find = || Storage::find(self.project_root(), self.dirs.as_ref());
        self.storage.clone().unwrap_or_else(find)
    }

    fn project_root(&self) -> &Path {
        self.project.as_deref().unwrap_or(&self.root)
    }

    /// The session works in a copy of the project.
    pub fn enter_copy(&mut self, copy: &WorkCopy) {
        let project = std::mem::replace(&mut self.root, copy.root.clone());
        self.project.get_or_insert(project);
    }
}

/// What several attempts at one task share.
#[derive(Debug)]
pub struct AttemptGroup {
    /// An attempt at work has one, and so has each of its sub-agents but the first, for which it waits.
    pub permits: Arc<Semaphore>,
    /// Ids of the lessons that one of them has learned from its failed calls.
    pub learned: Mutex<HashSet<String>>,
}

pub struct Session {
    kernel: Kernel,
    events: EventStream,
    summary: SummarySink,
    exec: Arc<Exec>,
    control: SessionControl,
    timeout: Option<Duration>,
    workspace: Arc<Workspace>,
    writable: WritableDirs,
    learning: Option<SessionLearning>,
    background: BackgroundWork,
    mcp: McpServers,
    /// Distils the last turn, while it is polled, until the user's next message.
    distilling: Option<BoxFuture<'static, ()>>,
    /// Lines for the user before the session begins.
    pub notices: Vec<String>,
    /// `None` if nothing is recorded.
    pub log_path: Option<PathBuf>,
    /// The model with which the session was opened, as configured or recorded.
    pub opened_model: String,
    /// The model, and the effort that the user chose for it.
    pub chosen_effort: Option<(String, Effort)>,
}

pub struct SystemClock;

impl Clock for SystemClock {
    fn timestamp(&self) -> String {
        format!("{:.3}", jiff::Timestamp::now())
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

impl Session {
    /// Opens a session. `front_ends` receive its events; no request is sent yet.
    pub async fn open(
        options: Options,
        control: SessionControl,
        front_ends: Vec<Box<dyn Sink>>,
    ) -> Result<Self, OpenError> {
        Self::open_with(options, control, front_ends, SessionParts::default()).await
    }

    pub fn id(&self) -> &str {
        self.events.session_id()
    }

    /// Takes time that has passed already from the time limit of turns.
    pub fn deduct_time(&mut self, passed: Duration) {
        self.timeout = self.timeout.map(|timeout| timeout.saturating_sub(passed));
    }

    /// Works on the user's message. The result is masked, like all output of the program.
    pub async fn run(&mut self, input: impl Into<UserInput>) -> TurnFinished {
        let input = input.into();
        // A server may answer one request at a time: the user's comes first.
        self.distilling = None;
        if let Some(learning) = &self.learning {
            learning.wait_until_open().await;
        }
        let mut finished = {
            let run = self.kernel.run(&input);
            tokio::pin!(run);
            let timeout = self.timeout;
            tokio::select! {
                // The turn first: when it has ended, nothing else is started.
                biased;
                finished = &mut run => finished,
                () = tokio::time::sleep(timeout.unwrap_or_default()), if timeout.is_some() => {
                    self.control.interrupt(Interrupt::Timeout);
                    run.await
                }
            }
        };
        finished.result = self.events.masker().mask(&finished.result).into_owned();
        self.begin_distillation(&finished);
        finished
    }

    /// After a limit or an interrupt no request is sent.
    fn begin_distillation(&mut self, finished: &TurnFinished) {
        // A message that a hook blocked is for no model.
        let is_over = finished.rounds > 0
            && matches!(
                finished.ending,
                Ending::Completed
                    | Ending::CompletedUnverified
                    | Ending::Failed
                    | Ending::CheckFailed
                    | Ending::PermissionDenied
            );
        self.distilling =
            self.learning.as_ref().filter(|_| is_over).and_then(SessionLearning::distil);
    }

    pub async fn run_idle_work(&mut self) -> Infallible {
        wait_for_distillation(&mut self.distilling).await;
        std::future::pending().await
    }

    /// Waits up to this long until the last turn is distilled.
    pub async fn finish_distillation(&mut self, patience: Duration) {
        _ = tokio::time::timeout(patience, wait_for_distillation(&mut self.distilling)).await;
    }

    pub fn session_rules(&self) -> Vec<SessionRule> {
        self.kernel.registry().session_rules()
    }

    pub fn remove_rule(&self, id: u32) -> bool {
        self.kernel.registry().remove_rule(id)
    }

    /// Ends the session: ends remaining processes of commands, and writes the summary.
    pub async fn close(self) {
        self.kernel.end_session().await;
        self.exec.shutdown_and_wait().await;
        self.kernel.registry().finish_comparison().await;
        self.mcp.close().await;
        self.kernel.registry().record_background_changes(true);
        if let Some(learning) = &self.learning {
            learning.finish();
        }
        // Before the summary: telemetry may report a loss.
        self.background.finish().await;
        self.events.emit(EventBody::SessionSummary(self.summary.summary()));
    }
}

/// Cancel safe.
async fn wait_for_distillation(distilling: &mut Option<BoxFuture<'static, ()>>) {
    if let Some(work) = distilling {
        work.await;
        *distilling = None;
    }
}
