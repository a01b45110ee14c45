//! The composition root: configuration → model, registry, context, kernel, sinks.
//!
//! Several sessions may live in one process: everything that belongs to one is held by its [`Session`].

mod added_dirs;
mod agents;
mod background;
mod changed_files;
mod checkpoints;
pub mod evaluation;
mod extensions;
mod host_programs;
mod learning;
mod mcp_servers;
mod memory;
mod messages;
mod models;
mod place;
mod project;
mod replay;
mod resumed_model;
mod retention;
mod sandbox_facts;
mod storage;
mod telemetry;
mod toolbox;
mod undo;
mod usable_models;

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

pub use crate::workspace::UndoOptions;
pub use added_dirs::{addable, recall};
use agents::{Agents, Roles};
use background::Background;
pub use checkpoints::{limits, with_checkpoints};
use extensions::Skills;
pub use extensions::own_commands;
pub use host_programs::HostPrograms;
use learning::Learning;
pub use mcp_servers::McpServers;
pub use memory::{identity, memory, memory_file};
use models::Models;
pub use models::{Facts, endpoint, facts, no_model, script};
pub use place::branch;
use project::ProjectFiles;
pub use replay::{ReplayOptions, Replayed, replay};
use resumed_model::open_recorded;
pub use sandbox_facts::{StateDirs, Writable};
pub use storage::{ShortIds, Storage, StoredLog};
pub use toolbox::{
    Kept, Toolbox, exec, masker, no_sandbox, open_sandbox, open_toolbox, open_workspace,
    permission_rules, settings,
};
use toolbox::{checks, verifier_of};
pub use undo::{Recorded, Rewind, Rewound};
pub use usable_models::{UsableModel, usable_models};

use crate::config::{self, Config, ConfigError, Loaded, UserDirs};
use crate::context::{Budget, Layers, MAX_RULES_BYTES, Project, Rules};
use crate::exec::Exec;
use crate::kernel::{AnswerSchema, CallIds, Kernel, Limits, Memory, Parts, Speakers, SpendLimit};
use crate::permission::Withheld;
use crate::protocol::control::{Control, Ending, Interrupt, PermissionMode};
use crate::protocol::directives::UserInput;
use crate::protocol::event::{
    Body, Clock, Event, Events, Pin, Place, Sandbox, SessionRule, SessionStarted, Sink,
    TurnFinished,
};
use crate::protocol::mask::Masker;
use crate::protocol::prompt::{Prompt, Prompts, prompt};
use crate::protocol::provider::Effort;
use crate::record::{self, Log, SummarySink};
use crate::registry::Registry;
use crate::tools::Tool;
use crate::workspace::{Spill, Workspace};

/// Recorded settings besides those of the configuration: the schema of the answer, and the added directories.
const ANSWER_SCHEMA: &str = "answer_schema";
const ADDED: &str = "add_dirs";

/// Part of the model's window for one rules file: a sixteenth.
const RULES_SHARE: u64 = 16;

/// Why a session could not be opened. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Wrong usage or configuration: exit 2.
    #[error("{0}")]
    Usage(String),
    /// No model was named and none was found: exit 2.
    #[error("{0}")]
    NoModel(String),
    /// Changes were not undone: exit 1.
    #[error("{0}")]
    NotUndone(String),
    /// Changes were not undone, because the user has to confirm it: exit 1.
    #[error("{0}")]
    NotConfirmed(String),
    /// Another process uses the session: exit 75.
    #[error("{0}")]
    InUse(String),
    /// Interrupted before any work was done.
    #[error("interrupted")]
    Interrupted(Interrupt),
}

impl OpenError {
    /// The process's exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::NoModel(_) => 2,
            Self::NotUndone(_) | Self::NotConfirmed(_) => 1,
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

/// Which session to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    /// A new one.
    New,
    /// A new one with this id.
    NewWithId(String),
    /// The latest of this project.
    Latest,
    /// This one.
    Resume(String),
    /// A fork of this one, or of the latest.
    Fork(Option<String>),
}

/// Options of a session.
pub struct Options {
    /// The project's root.
    pub root: PathBuf,
    /// Further folders that tools may use.
    pub add_dirs: Vec<PathBuf>,
    /// The configuration.
    pub config: Loaded,
    /// Which session.
    pub session: Which,
    /// Where it is recorded; `None`: with the sessions of this project.
    pub storage: Option<Storage>,
    /// Record nothing.
    pub ephemeral: bool,
    /// The user's addition to the system prompt.
    pub append_system_prompt: Option<String>,
    /// The JSON Schema of the final answer.
    pub answer_schema: Option<serde_json::Value>,
    /// The mode if the configuration sets none.
    pub default_mode: PermissionMode,
    /// The user's directories.
    pub dirs: Option<UserDirs>,
    /// A recorded session continues with the model of these options, not with its own.
    pub keeps_model: bool,
}

impl Options {
    /// The storage of this project's sessions, for reading.
    pub fn recorded(&self) -> Storage {
        self.storage.clone().unwrap_or_else(|| Storage::find(&self.root, self.dirs.as_ref()))
    }
}

/// A session: a kernel with its components.
pub struct Session {
    kernel: Kernel,
    events: Events,
    summary: SummarySink,
    exec: Arc<Exec>,
    control: Control,
    timeout: Option<Duration>,
    workspace: Arc<Workspace>,
    writable: Writable,
    learning: Option<Learning>,
    background: Background,
    mcp: McpServers,
    /// Distils the last turn, while it is polled.
    distilling: Option<BoxFuture<'static, ()>>,
    /// Notices for the user before the session begins, one line each.
    pub notices: Vec<String>,
    /// The session's log; `None` if nothing is recorded.
    pub log_path: Option<PathBuf>,
    /// The configured or recorded name of the model with which it was opened.
    pub opened_model: String,
    /// A model and the effort that the user chose for it.
    pub chosen_effort: Option<(String, Effort)>,
}

/// Replaces a tool by another one of the same name.
type ToolStandIn = Box<dyn Fn(Box<dyn Tool>) -> Box<dyn Tool>>;

/// Parts of a session that replace the usual ones.
struct StandIns {
    /// Instead of the configured models.
    models: Option<Models>,
    /// Replaces each tool.
    stand_in: ToolStandIn,
    /// Instead of the stored lessons.
    memory: Option<Memory>,
    clock: Arc<dyn Clock>,
    /// The permission rules assume the sandbox.
    is_sandboxed: bool,
}

impl StandIns {
    fn none(is_sandboxed: bool) -> Self {
        let (stand_in, clock) = (Box::new(|tool| tool), Arc::new(SystemClock));
        Self { models: None, stand_in, memory: None, clock, is_sandboxed }
    }
}

/// The time of the machine.
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
    /// Opens a session. `faces` receive its events; no request is sent yet.
    pub async fn open(
        options: Options,
        control: Control,
        faces: Vec<Box<dyn Sink>>,
    ) -> Result<Self, OpenError> {
        Box::pin(Self::open_with(options, control, faces, None)).await
    }

    /// The same with parts that replace the usual ones.
    async fn open_with(
        mut options: Options,
        control: Control,
        faces: Vec<Box<dyn Sink>>,
        stand_ins: Option<StandIns>,
    ) -> Result<Self, OpenError> {
        let own = StateDirs::of(options.dirs.as_ref());
        let (recorded, mut notices) = recall(&mut options, &own)?;
        // Everything that can fail is checked first: an error leaves nothing behind.
        let config = &options.config.config;
        let mut mode = options.config.mode(options.default_mode);
        let checks = checks(config)?;
        let timeout = config.limits.timeout.as_deref().map(config::parse_duration);
        let timeout = timeout.transpose().map_err(OpenError::Usage)?;
        let answer_schema = answer_schema(&options)?;
        let workspace = open_workspace(&options.root, &options.add_dirs, &own)?;
        let writable = Writable::of(config, &workspace)?;
        // Read in parallel with the rest of the start.
        let is_trusted = options.config.trusted;
        let project = identity(workspace.root(), is_trusted);
        let (sandbox, guarantees) = open_sandbox(&options.config, &writable, &own)?;
        let learning = Learning::begin(config, options.dirs.as_ref(), project, is_trusted)?;
        let mcp = McpServers::started(stand_ins.is_none(), &options, &writable)?;
        let outside = HostPrograms::of(&writable);
        let StandIns { models, stand_in, memory, clock, is_sandboxed } =
            stand_ins.unwrap_or_else(|| StandIns::none(sandbox.is_some()));
        let (Models { main, light, fallback, verifier, keys, notices: not_sent }, used) =
            models_of(models, &options, recorded.as_deref(), &outside, &control).await?;
        notices.extend(not_sent);
        let mut agents = Roles::open(&options, &used, &outside, &control).await;
        notices.append(&mut agents.notices);
        let skills = Skills::open(&options, &mut notices);
        let mut settings = settings(&options.config, &writable, mode, is_sandboxed, &workspace)?;
        let keys: Vec<&str> = keys.iter().chain(&agents.keys).map(String::as_str).collect();
        let masker = masker(config, &keys)?;
        let agents = Arc::new(Agents::new(config, agents)?);
        let prompts = options.config.prompts.clone();

        let storage = storage_of(&options, workspace.root());
        let is_ephemeral = options.ephemeral || storage.is_ephemeral;
        notices.extend(storage.notice.clone());
        let (log, loaded, id) = open_log(&options, recorded, &storage)?;
        let log_path = (!is_ephemeral).then(|| storage.log_path(&id));
        if let Some(recorded) = recorded_mode(&options, loaded.as_ref()) {
            mode = recorded;
            settings.policy.set_mode(mode);
        }
        let seq = loaded.as_ref().map_or(0, |loaded| loaded.events.len() as u64);

        let summary = SummarySink::default();
        let sinks = sinks(log, &summary, learning.as_ref(), faces, loaded.as_ref());
        let events = Events::new(id.clone(), seq, clock, masker.clone(), sinks);
        let kept = kept(log_path.as_deref(), &options.root, masker, &writable);
        let workspace = workspace.with_readable(kept.spill.folder());
        let (workspace, sandbox) = skills.readable_in(workspace, sandbox);
        let stored = (!is_ephemeral).then_some(&storage);
        let workspace = with_history(workspace, config, stored, &id)?;
        let begin = (&events, config, stored, loaded.as_ref());
        let background = Background::begin(begin, &workspace, &mut notices);
        let budget = Budget::new(main.model.id(), main.context_window, config.context.compact_at);
        let project = ProjectFiles { workspace: workspace.clone() };
        let rules = rules(&project, &settings.policy.withheld(), options.dirs.as_ref());
        let mut tools = extensions::tools(skills, &agents);
        mcp.add_to(&mut tools, &mut notices);
        let tools = tools.into_iter().map(stand_in).collect();
        let (exec, files) = (exec(config, &writable), (workspace.clone(), tools));
        let toolbox = open_toolbox(exec, settings, sandbox, files, kept, events, &control);
        let Toolbox { mut registry, events, exec } = toolbox;
        let started = started((&options, &registry), main.model.id(), mode, guarantees, &prompts);
        let recorded_place = loaded.as_ref().and_then(|loaded| record::place(&loaded.events));
        let place = recorded_place.unwrap_or_else(|| started.place.clone());
        let additions = additions(&options, &prompts);
        registry.describe(&prompts);
        let verifier =
            verifier_of(verifier, (&options, &writable, &own), &registry, &events, &prompts)?;
        let prompts = Arc::new(prompts);
        let max_rules_bytes = MAX_RULES_BYTES.min(budget.bytes(budget.window() / RULES_SHARE));
        let (specs, append) = (registry.specs(), additions.as_deref());
        let layers = Layers::new(&prompts, specs, &place, append, &rules, max_rules_bytes);
        let parts = Parts {
            main,
            light,
            fallback,
            budget,
            keep_rounds: config.context.keep_rounds,
            registry,
            layers,
            project: Arc::new(project),
            max_rules_bytes,
            checks,
            verifier,
            answer_schema,
            events: events.clone(),
            control: control.clone(),
            limits: limits_of(config),
            recovery: config.recovery,
            memory: memory.or_else(|| learning.as_ref().map(Learning::memory)),
            prompts: prompts.clone(),
            spend_limit: SpendLimit::default(),
            call_ids: CallIds::default(),
            sub_agent: None,
            speakers: Speakers::default(),
        };
        agents.begin(&parts, (place, rules), is_sandboxed);
        let mut kernel = Kernel::new(parts);
        if let Some(learning) = &learning {
            let request = log_path.is_some().then(|| kernel.background_request());
            learning.session(&events, request, &prompts);
        }
        match loaded {
            None => _ = events.emit(Body::SessionStarted(started)),
            Some(loaded) => {
                let notice = |live: &[&Event]| changed_files::notice(&prompts, &workspace, live);
                resume(&mut kernel, &events, &summary, &loaded, started, &notice);
                notices.extend(kernel.images_not_shown());
                sweep(&workspace, &record::unanswered(&loaded.events));
            }
        }
        mcp.announce(&events);
        Ok(Self {
            kernel,
            events,
            summary,
            exec,
            control,
            timeout,
            workspace,
            writable,
            learning,
            background,
            mcp,
            distilling: None,
            notices,
            log_path,
            opened_model: used.model,
            chosen_effort: used.chosen_effort,
        })
    }

    /// The session's id.
    pub fn id(&self) -> &str {
        self.events.session()
    }

    /// Works on the user's message. The result is masked, like all output of the program.
    pub async fn run(&mut self, input: impl Into<UserInput>) -> TurnFinished {
        let input = input.into();
        if let Some(learning) = &self.learning {
            learning.ready().await;
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
                never = poll_background(&mut self.distilling) => match never {},
            }
        };
        finished.result = self.events.masker().mask(&finished.result).into_owned();
        self.begin_distillation(finished.ending);
        finished
    }

    /// After a limit or an interrupt no model is asked.
    fn begin_distillation(&mut self, ending: Ending) {
        let is_over = matches!(
            ending,
            Ending::Completed
                | Ending::CompletedUnverified
                | Ending::Failed
                | Ending::CheckFailed
                | Ending::PermissionDenied
        );
        let next = self.learning.as_ref().filter(|_| is_over).and_then(Learning::distil);
        self.distilling = match (self.distilling.take(), next) {
            (Some(last), Some(next)) => Some(last.then(|()| next).boxed()),
            (last, next) => last.or(next),
        };
    }

    /// Background work while no turn runs: distillation.
    pub async fn idle(&mut self) -> Infallible {
        poll_background(&mut self.distilling).await
    }

    /// Waits up to this long until the last turn is distilled.
    pub async fn finish_distillation(&mut self, patience: Duration) {
        if let Some(distilling) = self.distilling.take() {
            _ = tokio::time::timeout(patience, distilling).await;
        }
    }

    /// The pins of the session, oldest first.
    pub fn pins(&self) -> &[Pin] {
        self.kernel.pins()
    }

    /// The permission rules that the user has added in this session.
    pub fn session_rules(&self) -> Vec<SessionRule> {
        self.kernel.session_rules()
    }

    /// Removes such a rule; false if there is none of this number.
    pub fn remove_rule(&self, id: u32) -> bool {
        self.kernel.remove_rule(id)
    }

    /// Adds a pin; `None` if the text is empty or pinned already.
    pub fn pin(&mut self, text: &str) -> Option<Pin> {
        self.kernel.pin(text)
    }

    /// Removes a pin; false if there is none of this number.
    pub fn unpin(&mut self, id: u32) -> bool {
        self.kernel.unpin(id)
    }

    /// Ends the session: ends remaining processes of commands, and writes the summary.
    pub async fn close(self) {
        self.exec.close().await;
        self.mcp.close().await;
        self.kernel.settle_background(true);
        if let Some(learning) = &self.learning {
            learning.end();
        }
        // (It may report that telemetry is lost.)
        self.background.finish().await;
        self.events.emit(Body::SessionSummary(self.summary.summary()));
    }
}

/// These models, or those of the session.
async fn models_of(
    models: Option<Models>,
    options: &Options,
    recorded: Option<&str>,
    outside: &HostPrograms,
    control: &Control,
) -> Result<(Models, config::Config), OpenError> {
    match models {
        Some(models) => Ok((models, options.config.config.clone())),
        None => open_recorded(options, recorded, outside, control).await,
    }
}

/// The project's files, with checkpoints if the session is stored.
fn with_history(
    workspace: Workspace,
    config: &Config,
    stored: Option<&Storage>,
    id: &str,
) -> Result<Arc<Workspace>, OpenError> {
    Ok(Arc::new(match stored {
        Some(storage) => with_checkpoints(workspace, config, storage, id)?,
        None => workspace,
    }))
}

/// What is kept beside this log, if there is one.
fn kept(log: Option<&Path>, root: &Path, masker: Arc<Masker>, writable: &Writable) -> Kept {
    match log {
        Some(log) => Kept::beside(log, root, masker),
        None => Kept::unrecorded(Spill::none(writable.places())),
    }
}

fn limits_of(config: &Config) -> Limits {
    let config::Limits { max_turns, max_budget_usd, timeout: _ } = config.limits;
    Limits { max_turns, max_budget_usd }
}

/// Polls background work; never ends.
async fn poll_background(distilling: &mut Option<BoxFuture<'static, ()>>) -> Infallible {
    if let Some(work) = distilling {
        work.await;
        *distilling = None;
    }
    std::future::pending().await
}

/// The compiled schema of the final answer.
fn answer_schema(options: &Options) -> Result<Option<AnswerSchema>, OpenError> {
    let schema = options.answer_schema.as_ref().map(AnswerSchema::new).transpose();
    schema.map_err(|reason| OpenError::Usage(format!("--json-schema: not a JSON Schema: {reason}")))
}

/// The storage of the session. For a new one the state directory is created.
fn storage_of(options: &Options, root: &Path) -> Storage {
    let is_new = matches!(options.session, Which::New | Which::NewWithId(_));
    match &options.storage {
        Some(storage) => storage.clone(),
        None if is_new && !options.ephemeral => Storage::make(root, options.dirs.as_ref()),
        None => Storage::find(root, options.dirs.as_ref()),
    }
}

/// The mode of a resumed session unless one is set. `full` has to be set by the user, on the command line or
/// in the configuration; it is never taken from the log.
fn recorded_mode(options: &Options, loaded: Option<&record::Loaded>) -> Option<PermissionMode> {
    let recorded = loaded.and_then(|loaded| record::mode(record::live(&loaded.events)))?;
    let is_set = options.config.config.permissions.mode.is_some();
    (!is_set && recorded < PermissionMode::Full).then_some(recorded)
}

type OpenLog = (Option<Log>, Option<record::Loaded>, String);

/// `recorded`: the session that is resumed or forked.
fn open_log(
    options: &Options,
    recorded: Option<String>,
    storage: &Storage,
) -> Result<OpenLog, OpenError> {
    let resumed = match (recorded, &options.session) {
        (Some(id), Which::Fork(_)) => Some(storage.fork(&id, None)?),
        (recorded, _) => recorded,
    };
    if let Some(id) = resumed {
        let (log, loaded) =
            Log::resume(&storage.log_path(&id)).map_err(|error| storage.log_error(error))?;
        return Ok((Some(log), Some(loaded), id));
    }
    let id = match &options.session {
        Which::NewWithId(id) => {
            if !record::is_id(id) {
                return Err(OpenError::Usage(format!("--session-id {id:?} is not a UUID")));
            }
            if storage.log_path(id).exists() {
                return Err(OpenError::Usage(format!(
                    "session {id} exists already; --resume {id} resumes it"
                )));
            }
            id.clone()
        }
        Which::New | Which::Latest | Which::Resume(_) | Which::Fork(_) => {
            uuid::Uuid::now_v7().to_string()
        }
    };
    let log = if options.ephemeral || storage.is_ephemeral {
        None
    } else {
        Some(Log::create(&storage.log_path(&id)).map_err(|error| storage.log_error(error))?)
    };
    Ok((log, None, id))
}

/// The sinks, the log first. Faces receive the earlier events of a resumed session.
fn sinks(
    log: Option<Log>,
    summary: &SummarySink,
    learning: Option<&Learning>,
    mut faces: Vec<Box<dyn Sink>>,
    loaded: Option<&record::Loaded>,
) -> Vec<Box<dyn Sink>> {
    if let Some(loaded) = loaded {
        let live = record::live(&loaded.events);
        for face in &mut faces {
            face.recorded(&live);
        }
    }
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    // A session that is not recorded is not learnt from.
    let learning = learning.filter(|_| log.is_some());
    sinks.extend(log.map(|log| Box::new(log) as Box<dyn Sink>));
    sinks.push(Box::new(summary.clone()));
    sinks.extend(learning.map(|learning| Box::new(learning.recorder()) as Box<dyn Sink>));
    sinks.extend(faces);
    sinks
}

/// Replays a recorded session to the kernel, and adds results for calls without one.
fn resume(
    kernel: &mut Kernel,
    events: &Events,
    summary: &SummarySink,
    loaded: &record::Loaded,
    now: SessionStarted,
    changed: &dyn Fn(&[&Event]) -> Option<Body>,
) {
    for event in &loaded.events {
        summary.apply(event);
        kernel.know_calls(event);
    }
    let live = record::live(&loaded.events);
    for event in &live {
        kernel.apply(event);
    }
    let place = loaded.events.last().map_or_else(Place::default, |event| event.header.place);
    events.at(place);
    let unanswered = record::unanswered(live.iter().copied());
    let uncertain = unanswered
        .iter()
        .filter(|unanswered| unanswered.uncertain)
        .map(|unanswered| format!("{} ({})", unanswered.call.id, unanswered.call.name))
        .collect();
    let moved = place::changed(&live, &now.place);
    let with_agents = record::live_of_all_agents(&loaded.events);
    events.emit(Body::SessionResumed {
        now,
        events: loaded.events.len() as u64,
        uncertain,
        torn: loaded.torn,
    });
    if let Some(answer) = record::cut_off_answer(live.iter().copied()) {
        let event = events.emit(answer);
        summary.apply(&event);
        kernel.apply(&event);
    }
    for unanswered in &unanswered {
        kernel.apply(&events.emit(record::synthetic_answer(unanswered)));
    }
    if let Some(notice) = moved {
        kernel.apply(&events.emit(notice));
    }
    if let Some(notice) = changed(&with_agents) {
        kernel.apply(&events.emit(notice));
    }
}

/// Removes temporary files that interrupted changes left, including changes that a rewind removed.
fn sweep(workspace: &Workspace, unanswered: &[record::Unanswered]) {
    for (path, input) in unanswered.iter().filter_map(|unanswered| unanswered.writes.as_ref()) {
        let number = |name: &str| input.get(name).and_then(serde_json::Value::as_i64);
        let size = number("file_size_bytes").and_then(|size| u64::try_from(size).ok());
        workspace.sweep(path, number("file_mtime_ms").zip(size));
    }
}

/// The event for the start of a session.
fn started(
    (options, registry): (&Options, &Registry),
    model: &str,
    permission_mode: PermissionMode,
    sandbox: Sandbox,
    prompts: &Prompts,
) -> SessionStarted {
    let root = registry.root();
    let mut settings = config::recorded(&options.config);
    if let Some(schema) = &options.answer_schema {
        settings.insert(ANSWER_SCHEMA.to_owned(), schema.clone());
    }
    if !options.add_dirs.is_empty() {
        let added = options.add_dirs.iter().map(|path| path.display().to_string());
        settings.insert(ADDED.to_owned(), added.collect::<Vec<_>>().into());
    }
    SessionStarted {
        settings,
        cwd: root.display().to_string(),
        model: model.to_owned(),
        permission_mode,
        tools: registry.specs().iter().map(|tool| tool.name.to_string()).collect(),
        place: place::section(root, &sandbox, permission_mode, prompts),
        sandbox,
        program: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Additions to the system prompt: the user's text, and the schema of the answer.
fn additions(options: &Options, prompts: &Prompts) -> Option<String> {
    const SCHEMA: Prompt = prompt!("answer_schema.md");
    let schema = options.answer_schema.as_ref();
    let schema = schema.map(|schema| format!("{}{schema}", prompts.text(SCHEMA)));
    let parts = [options.append_system_prompt.clone(), schema];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// The rules of L2: the user's first, then the project's.
fn rules(project: &ProjectFiles, withheld: &Withheld, dirs: Option<&UserDirs>) -> Vec<Rules> {
    let mut rules = Vec::new();
    let own = dirs.map(|dirs| dirs.config.join("AGENTS.md"));
    if let Some((path, text)) =
        own.and_then(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
    {
        rules.push(Rules { path: path.display().to_string(), text });
    }
    rules.extend(project.rules_in(".", &|path| withheld.why("Read", path).is_none()));
    rules
}
