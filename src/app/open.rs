//! Opens a session: first everything that can fail, then the log, then the components.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::agents::{Agents, Roles};
use super::background::Background;
use super::extensions::{self, Skills};
use super::learning::Learning;
use super::models::Models;
use super::project::{ProjectFiles, rules_around, rules_of_user, settings_around};
use super::resumed::{resume, sweep};
use super::resumed_model::open_recorded;
use super::toolbox::{checks, exec_with, verifier_of};
use super::{
    ADDED, ANSWER_SCHEMA, HostPrograms, Kept, McpServers, OpenError, Options, Session, StateDirs,
    Storage, SystemClock, Toolbox, Which, Writable, changed_files, hooks, identity, masker,
    open_sandbox, open_toolbox, open_workspace, place, recall, settings, with_checkpoints,
};
use crate::config::{self, Config, UserDirs};
use agent_engine::context::{Budget, Layers, MAX_RULES_BYTES, Project, Rules};
use agent_engine::kernel::{
    AnswerSchema, CallIds, Checks, Kernel, Limits, Memory, Parts, Speakers, SpendLimit,
};
use agent_engine::registry::{self, Registry};
use agent_engine::tools::Tool;
use agent_host::exec::sandbox::Sandbox;
use agent_host::workspace::{Spill, Workspace};
use agent_permission::Withheld;
use agent_protocol::control::{Control, PermissionMode};
use agent_protocol::event::{
    Body, Clock, Event, Events, Sandbox as Guarantees, SessionStarted, Sink,
};
use agent_protocol::mask::Masker;
use agent_protocol::prompt::{Prompt, Prompts};
use agent_record::{Log, SummarySink};

/// Part of the model's window for one rules file: a sixteenth.
const RULES_SHARE: u64 = 16;

/// Replaces a tool by another one of the same name.
pub(super) type ToolStandIn = Box<dyn Fn(Box<dyn Tool>) -> Box<dyn Tool>>;

/// Parts of a session that replace the usual ones.
pub(super) struct StandIns {
    /// Instead of the configured models.
    pub(super) models: Option<Models>,
    /// Replaces each tool.
    pub(super) stand_in: ToolStandIn,
    /// Instead of the stored lessons.
    pub(super) memory: Option<Memory>,
    pub(super) clock: Arc<dyn Clock>,
    /// The permission rules assume the sandbox.
    pub(super) is_sandboxed: bool,
}

impl StandIns {
    fn none(is_sandboxed: bool) -> Self {
        let (stand_in, clock) = (Box::new(|tool| tool), Arc::new(SystemClock));
        Self { models: None, stand_in, memory: None, clock, is_sandboxed }
    }
}

/// Everything of a session that can fail to open, except its log. Nothing was written yet.
struct Checked {
    /// The session that is resumed or forked.
    recorded: Option<String>,
    notices: Vec<String>,
    mode: PermissionMode,
    checks: Checks,
    timeout: Option<Duration>,
    answer_schema: Option<AnswerSchema>,
    workspace: Workspace,
    own: StateDirs,
    writable: Writable,
    sandbox: Option<Sandbox>,
    guarantees: Guarantees,
    is_sandboxed: bool,
    settings: registry::Settings,
    learning: Option<Learning>,
    memory: Option<Memory>,
    mcp: McpServers,
    skills: Skills,
    agents: Arc<Agents>,
    models: Models,
    /// The configuration of the models.
    used: Config,
    masker: Arc<Masker>,
    clock: Arc<dyn Clock>,
    stand_in: ToolStandIn,
    options: Options,
}

/// The record of a session.
struct Recording {
    storage: Storage,
    is_ephemeral: bool,
    /// What was recorded earlier.
    loaded: Option<agent_record::Loaded>,
    events: Events,
    summary: SummarySink,
}

impl Session {
    /// Opens a session with parts that replace the usual ones.
    pub(super) async fn open_with(
        options: Options,
        control: Control,
        faces: Vec<Box<dyn Sink>>,
        stand_ins: Option<StandIns>,
    ) -> Result<Self, OpenError> {
        let mut checked = Box::pin(Checked::of(options, stand_ins, &control)).await?;
        let recording = checked.record(faces)?;
        checked.assemble(recording, control)
    }
}

impl Checked {
    async fn of(
        mut options: Options,
        stand_ins: Option<StandIns>,
        control: &Control,
    ) -> Result<Self, OpenError> {
        let own = StateDirs::of(options.dirs.as_ref());
        let (recorded, mut notices) = recall(&mut options, &own)?;
        let config = &options.config.config;
        let mode = options.config.mode(options.default_mode);
        let checks = checks(config)?;
        let timeout =
            config.limits.timeout.as_deref().map(agent_protocol::settings::parse_duration);
        let timeout = timeout.transpose().map_err(OpenError::Usage)?;
        let answer_schema = answer_schema(&options)?;
        let workspace = open_workspace(&options.root, &options.add_dirs, &own)?;
        if stand_ins.is_none() {
            notices.extend(settings_around(workspace.root()));
        }
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
        let (mut models, used) =
            models_of(models, &options, recorded.as_deref(), &outside, control).await?;
        notices.append(&mut models.notices);
        let mut agents = Roles::open(&options, &used, &mcp, &outside, control).await;
        notices.append(&mut agents.notices);
        let skills = Skills::open(&options, &mut notices);
        let settings = settings(&options.config, &writable, mode, is_sandboxed, &workspace)?;
        let keys = models.keys.iter().chain(&agents.keys).map(String::as_str);
        let masker = masker(config, &keys.collect::<Vec<_>>())?;
        let agents =
            Arc::new(Agents::new(config, agents, skills.tool().cloned(), &mcp, &options.tools)?);
        Ok(Self {
            recorded,
            notices,
            mode,
            checks,
            timeout,
            answer_schema,
            workspace,
            own,
            writable,
            sandbox,
            guarantees,
            is_sandboxed,
            settings,
            learning,
            memory,
            mcp,
            skills,
            agents,
            models,
            used,
            masker,
            clock,
            stand_in,
            options,
        })
    }

    /// Opens the log, with the mode that it records.
    fn record(&mut self, faces: Vec<Box<dyn Sink>>) -> Result<Recording, OpenError> {
        let storage = storage_of(&self.options, self.workspace.root());
        let is_ephemeral = self.options.ephemeral || storage.is_ephemeral;
        self.notices.extend(storage.notice.clone());
        let (log, loaded, id) = open_log(&self.options, self.recorded.take(), &storage)?;
        if let Some(recorded) = recorded_mode(&self.options, loaded.as_ref()) {
            self.mode = recorded;
            self.settings.policy.set_mode(recorded);
        }
        let seq = loaded.as_ref().map_or(0, |loaded| loaded.events.len() as u64);
        let summary = SummarySink::default();
        let sinks = sinks(log, &summary, self.learning.as_ref(), faces, loaded.as_ref());
        let (clock, masker) = (self.clock.clone(), self.masker.clone());
        let events = Events::new(id, seq, clock, masker, sinks);
        Ok(Recording { storage, is_ephemeral, loaded, events, summary })
    }

    fn assemble(self, recording: Recording, control: Control) -> Result<Session, OpenError> {
        let Self { options, mut notices, learning, mcp, models, writable, .. } = self;
        let Recording { storage, is_ephemeral, loaded, events, summary } = recording;
        let config = &options.config.config;
        let id = events.session().to_owned();
        let log_path = (!is_ephemeral).then(|| storage.log_path(&id));
        let hooks = hooks::of_session(&options, &writable, log_path.as_deref());
        let settings = registry::Settings { hooks, ..self.settings };
        let kept = kept(log_path.as_deref(), &options.root, self.masker, &writable);
        let workspace = self.workspace.with_readable(kept.spill.folder());
        let (workspace, sandbox) = self.skills.readable_in(workspace, self.sandbox);
        let stored = (!is_ephemeral).then_some(&storage);
        let workspace = with_history(workspace, config, stored, &id)?;
        let begin = (&events, config, stored, loaded.as_ref());
        let background = Background::begin(begin, &workspace, &mut notices);
        let Models { main, light, fallback, verifier, .. } = models;
        let budget = Budget::new(main.model.id(), main.context_window, config.context.compact_at);
        let project = ProjectFiles { workspace: workspace.clone() };
        let rules = rules(&project, &settings.policy.withheld(), options.dirs.as_ref());
        let mut tools = extensions::tools(&self.agents);
        options.tools.apply(&mut tools);
        mcp.add_to(&mut tools, &mut notices);
        let tools = tools.into_iter().map(self.stand_in).collect();
        let (exec, files) =
            (exec_with(config, &writable, &options.variables), (workspace.clone(), tools));
        let toolbox = open_toolbox(exec, settings, sandbox, files, kept, events, &control);
        let Toolbox { mut registry, events, exec } = toolbox;
        let prompts = options.config.prompts.clone();
        let model = main.model.id();
        let started = (&options, &registry, &mcp);
        let started = self::started(started, model, self.mode, self.guarantees, &prompts);
        let recorded_place = loaded.as_ref().and_then(|loaded| agent_record::place(&loaded.events));
        let place = recorded_place.unwrap_or_else(|| started.place.clone());
        let additions = additions(&options, &prompts);
        registry.describe(&prompts);
        mcp.update(&mut registry);
        let files = (&options, &writable, &self.own);
        let verifier = verifier_of(verifier, files, &registry, &events, &prompts)?;
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
            expand: Some(mcp.expand(&events)),
            layers,
            project: Arc::new(project),
            max_rules_bytes,
            checks: self.checks,
            verifier,
            answer_schema: self.answer_schema,
            events: events.clone(),
            control: control.clone(),
            limits: limits_of(config),
            recovery: config.recovery,
            memory: self.memory.or_else(|| learning.as_ref().map(Learning::memory)),
            prompts: prompts.clone(),
            spend_limit: SpendLimit::default(),
            call_ids: CallIds::default(),
            sub_agent: None,
            speakers: Speakers::default(),
        };
        self.agents.begin(&parts, (place, rules), self.is_sandboxed);
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
                sweep(&workspace, &agent_record::unanswered(&loaded.events));
            }
        }
        mcp.announce(&events);
        Ok(Session {
            kernel,
            events,
            summary,
            exec,
            control,
            timeout: self.timeout,
            workspace,
            writable,
            learning,
            background,
            mcp,
            distilling: None,
            notices,
            log_path,
            opened_model: self.used.model,
            chosen_effort: self.used.chosen_effort,
        })
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
    let config::Limits { max_turns, max_budget_usd, .. } = config.limits;
    Limits { max_turns, max_budget_usd }
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
fn recorded_mode(
    options: &Options,
    loaded: Option<&agent_record::Loaded>,
) -> Option<PermissionMode> {
    let recorded =
        loaded.and_then(|loaded| agent_record::mode(agent_record::live(&loaded.events)))?;
    let is_set = options.config.config.permissions.mode.is_some();
    (!is_set && recorded < PermissionMode::Full).then_some(recorded)
}

type OpenLog = (Option<Log>, Option<agent_record::Loaded>, String);

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
            if !agent_record::is_id(id) {
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
    loaded: Option<&agent_record::Loaded>,
) -> Vec<Box<dyn Sink>> {
    if let Some(loaded) = loaded {
        let live = agent_record::live(&loaded.events);
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

/// The event for the start of a session.
fn started(
    (options, registry, mcp): (&Options, &Registry, &McpServers),
    model: &str,
    permission_mode: PermissionMode,
    sandbox: Guarantees,
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
        mcp_servers: mcp.at_start(),
        place: place::section(root, &sandbox, permission_mode, prompts),
        sandbox,
        program: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Additions to the system prompt: the user's text, and the schema of the answer.
fn additions(options: &Options, prompts: &Prompts) -> Option<String> {
    const SCHEMA: Prompt = Prompt::named("answer_schema.md");
    let schema = options.answer_schema.as_ref();
    let schema = schema.map(|schema| format!("{}{schema}", prompts.text(SCHEMA)));
    let parts = [options.append_system_prompt.clone(), schema];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// The rules of L2: the user's first, then those around the project, then the project's.
fn rules(project: &ProjectFiles, withheld: &Withheld, dirs: Option<&UserDirs>) -> Vec<Rules> {
    let mut rules = Vec::from_iter(rules_of_user(dirs));
    let is_shown = |path: &str| withheld.why("Read", path).is_none();
    rules.extend(rules_around(project.workspace.root(), is_shown));
    rules.extend(project.rules_in(".", &is_shown));
    // (The home may be the project, or a directory around it.)
    let mut known = HashSet::new();
    rules.retain(|rules| known.insert(rules.text.clone()));
    rules
}
