//! Opens a session: first everything that can fail, then the log, then the components.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::agents::{Roles, SessionAgents};
use super::background::BackgroundWork;
use super::extensions::Skills;
use super::learning::SessionLearning;
use super::models::Models;
use super::project::{ProjectFiles, enclosing_rules, unused_settings_notices, user_rules};
use super::resume::{remove_leftovers, resume_session};
use super::resumed_model::open_recorded_models;
use super::toolbox::{command_exec, open_verifier};
use super::{
    ADDED_DIRS, ANSWER_SCHEMA, HostPrograms, McpServers, OpenError, Options, Session,
    SessionChoice, StateDirs, Storage, SystemClock, ToolStorage, Toolbox, WritableDirs,
    build_masker, changed_files, hooks, open_sandbox, open_toolbox, open_workspace, parse_duration,
    place, project_identity, registry_settings, resolve_recorded_session, revert_unfinished,
    with_checkpoints,
};
use crate::config::{self, Config, UserDirs};
use agent_engine::context::{ContextBudget, Layers, MAX_RULES_BYTES, Project, RulesFile};
use agent_engine::kernel::{
    AnswerSchema, CallIds, Checks, Kernel, KernelParts, LessonMemory, SessionModels, SpendLimit,
    TurnLimits,
};
use agent_engine::registry::{self, Registry};
use agent_engine::tools::{self, Tool};
use agent_host::exec::sandbox::Sandbox;
use agent_host::workspace::{SpillFolder, Workspace};
use agent_permission::HiddenFiles;
use agent_protocol::control::{PermissionMode, SessionControl};
use agent_protocol::event::{
    Event, EventBody, EventStream, SandboxStatus as Guarantees, SessionStarted, Sink,
};
use agent_protocol::mask::Masker;
use agent_protocol::prompt::{Prompt, Prompts};
use agent_record::{LoadedSession, Log, SummarySink};

/// Share of the model's window for one rules file: a sixteenth.
const RULES_SHARE: u64 = 16;

/// Replaces a tool by another one of the same name.
pub(super) type ToolWrapper = Box<dyn Fn(Box<dyn Tool>) -> Box<dyn Tool>>;

/// The parts of a session that do not follow from its options.
pub(super) struct SessionParts {
    /// `None`: those of the options.
    pub(super) models: Option<Models>,
    pub(super) wrap_tool: ToolWrapper,
    /// `None`: the user's.
    pub(super) memory: Option<LessonMemory>,
    /// The permission rules assume a sandbox; `None`: if there is one.
    pub(super) is_sandboxed: Option<bool>,
}

impl Default for SessionParts {
    fn default() -> Self {
        let wrap_tool = Box::new(|tool| tool);
        Self { models: None, wrap_tool, memory: None, is_sandboxed: None }
    }
}

/// Everything that can fail to open, except the log. Nothing was written yet.
struct PreparedSession {
    /// The session that is resumed or forked.
    recorded: Option<String>,
    notices: Vec<String>,
    mode: PermissionMode,
    checks: Checks,
    timeout: Option<Duration>,
    answer_schema: Option<AnswerSchema>,
    workspace: Workspace,
    state_dirs: StateDirs,
    writable: WritableDirs,
    sandbox: Option<Sandbox>,
    guarantees: Guarantees,
    is_sandboxed: bool,
    settings: registry::RegistrySettings,
    learning: Option<SessionLearning>,
    mcp: McpServers,
    skills: Skills,
    agents: Arc<SessionAgents>,
    models: Models,
    model_config: Config,
    masker: Arc<Masker>,
    parts: SessionParts,
    options: Options,
}

struct SessionRecording {
    storage: Storage,
    is_ephemeral: bool,
    loaded: Option<LoadedSession>,
    events: EventStream,
    summary: SummarySink,
}

impl Session {
    pub(super) async fn open_with(
        options: Options,
        control: SessionControl,
        front_ends: Vec<Box<dyn Sink>>,
        parts: SessionParts,
    ) -> Result<Self, OpenError> {
        let mut prepared = Box::pin(PreparedSession::prepare(options, parts, &control)).await?;
        let recording = prepared.open_recording(front_ends)?;
        prepared.assemble(recording, control)
    }
}

impl PreparedSession {
    async fn prepare(
        mut options: Options,
        mut parts: SessionParts,
        control: &SessionControl,
    ) -> Result<Self, OpenError> {
        let state_dirs = StateDirs::new(options.dirs.as_ref());
        let (root, storage) = (options.project.as_ref(), options.session_storage());
        let root = root.unwrap_or(&options.root);
        let reverted = revert_unfinished(root, &storage, &options.config.config);
        let (recorded, mut notices) = resolve_recorded_session(&mut options, &state_dirs)?;
        notices.extend(reverted.into_iter().map(|(_, notice)| notice));
        let config = &options.config.config;
        let mode = options.config.mode_or(options.default_mode);
        if let Some(limit) = &config.restrictions.mode {
            control.limit_mode(limit.clone());
        }
        let config::Checks { commands, timeout } = config.checks.clone();
        let checks = Checks { commands, timeout: parse_duration(&timeout)? };
        let timeout = config.limits.timeout.as_deref().map(parse_duration).transpose()?;
        let answer_schema = options.answer_schema.as_ref().map(AnswerSchema::new).transpose();
        let answer_schema = answer_schema.map_err(|reason| {
            OpenError::Usage(format!("--json-schema: not a JSON Schema: {reason}"))
        })?;
        let workspace = open_workspace(&options.root, &options.add_dirs, &state_dirs)?;
        notices.extend(unused_settings_notices(workspace.root()));
        let writable = WritableDirs::from_workspace(config, &workspace)?;
        // Read in parallel with the rest of the start.
        let is_trusted = options.config.is_trusted;
        let project = match &options.project {
            Some(project) => project_identity(project, is_trusted),
            None => project_identity(workspace.root(), is_trusted),
        };
        let (sandbox, guarantees) = open_sandbox(&options.config, &writable, &state_dirs)?;
        let (dirs, group) = (options.dirs.as_ref(), options.attempt_group.clone());
        let learning = SessionLearning::start(config, dirs, project, is_trusted, group)?;
        let mcp = McpServers::start_configured(&options, &writable)?;
        let programs = HostPrograms::from_writable(&writable);
        let is_sandboxed = parts.is_sandboxed.unwrap_or(sandbox.is_some());
        let (mut models, model_config) = match parts.models.take() {
            Some(models) => (models, config.clone()),
            None => open_recorded_models(&options, recorded.as_deref(), &programs, control).await?,
        };
        notices.append(&mut models.notices);
        let mut agents = Roles::open(&options, &model_config, &mcp, &programs, control).await;
        notices.append(&mut agents.notices);
        let skills = Skills::open(&options, &mut notices);
        let settings =
            registry_settings(&options.config, &writable, mode, is_sandboxed, &workspace)?;
        let keys = models.keys.iter().chain(&agents.keys).map(String::as_str);
        let masker = build_masker(config, &keys.collect::<Vec<_>>())?;
        let agents = Arc::new(SessionAgents::new(
            &options,
            (agents, models.main.searches),
            skills.tool.clone(),
            &mcp,
        )?);
        Ok(Self {
            recorded,
            notices,
            mode,
            checks,
            timeout,
            answer_schema,
            workspace,
            state_dirs,
            writable,
            sandbox,
            guarantees,
            is_sandboxed,
            settings,
            learning,
            mcp,
            skills,
            agents,
            models,
            model_config,
            masker,
            parts,
            options,
        })
    }

    /// Opens the log, with the mode that it records.
    fn open_recording(
        &mut self,
        front_ends: Vec<Box<dyn Sink>>,
    ) -> Result<SessionRecording, OpenError> {
        let root = self.options.project.as_deref().unwrap_or(self.workspace.root());
        let storage = session_storage(&self.options, root);
        let is_ephemeral = self.options.ephemeral || storage.is_ephemeral;
        self.notices.extend(storage.notice.clone());
        let (log, loaded, id) = open_log(&self.options, self.recorded.take(), &storage)?;
        if !is_ephemeral && self.options.project.is_some() {
            let set = storage.set_work_copy(&id, &self.options.root);
            set.map_err(|error| OpenError::Usage(format!("session {id}: {error}")))?;
        } else if !is_ephemeral {
            storage.leave_work_copy(&id);
        }
        if let Some(recorded) = recorded_mode(&self.options, loaded.as_ref()) {
            self.mode = recorded;
            self.settings.policy.set_mode(recorded);
        }
        let seq = loaded.as_ref().map_or(0, |loaded| loaded.events.len() as u64);
        let summary = SummarySink::default();
        let sinks = build_sinks(log, &summary, self.learning.as_ref(), front_ends, loaded.as_ref());
        let events = EventStream::new(id, seq, Arc::new(SystemClock), self.masker.clone(), sinks);
        Ok(SessionRecording { storage, is_ephemeral, loaded, events, summary })
    }

    fn assemble(
        self,
        recording: SessionRecording,
        control: SessionControl,
    ) -> Result<Session, OpenError> {
        let Self { options, mut notices, learning, mcp, models, writable, .. } = self;
        let SessionRecording { storage, is_ephemeral, loaded, events, summary } = recording;
        let config = &options.config.config;
        let id = events.session_id().to_owned();
        let log_path = (!is_ephemeral).then(|| storage.log_path(&id));
        let hooks = hooks::session_hooks(&options, &writable, log_path.as_deref());
        let settings = registry::RegistrySettings { hooks, ..self.settings };
        let tool_storage = match &log_path {
            Some(log) => ToolStorage::beside_log(log, &options.root, self.masker),
            None => ToolStorage::unrecorded(SpillFolder::temporary(writable.places())),
        };
        let workspace = self.workspace.with_readable(tool_storage.spill.folder());
        let (workspace, sandbox) = self.skills.make_readable(workspace, self.sandbox);
        let stored = (!is_ephemeral).then_some(&storage);
        let workspace = Arc::new(match stored {
            Some(storage) => with_checkpoints(workspace, config, storage, &id)?,
            None => workspace,
        });
        let resumed = loaded.as_ref();
        let background =
            BackgroundWork::start(&events, config, stored, resumed, &workspace, &mut notices);
        let Models { main, light, fallback, verifier, .. } = models;
        let budget = ContextBudget::new(main.model.id(), main.window, config.context.compact_at);
        let project = ProjectFiles { workspace: workspace.clone() };
        let rules = collect_rules(&project, &settings.policy.hidden_files(), options.dirs.as_ref());
        let mut tools = tools::all_tools();
        tools.retain(|tool| tool.spec().name != "AskUser" || control.can_ask_questions());
        tools.push(Box::new(tools::TaskTool::new(self.agents.clone())));
        tools.extend(self.agents.further_tools());
        options.tools.apply(&mut tools);
        tools.extend(mcp.tools());
        notices.extend(mcp.notices.iter().cloned());
        let files = (workspace.clone(), tools.into_iter().map(self.parts.wrap_tool).collect());
        let exec = command_exec(config, &writable, &options.variables);
        let toolbox = open_toolbox(exec, settings, sandbox, files, tool_storage, events, &control);
        let Toolbox { mut registry, events, exec } = toolbox;
        let prompts = options.config.prompts.clone();
        let model = main.model.id();
        let started = (&options, &registry, &mcp);
        let started = self::session_started(started, model, self.mode, self.guarantees, &prompts);
        let recorded_place =
            loaded.as_ref().and_then(|loaded| agent_record::place_section(&loaded.events));
        let place = recorded_place.unwrap_or_else(|| started.place.clone());
        let additions = prompt_additions(&options, &prompts);
        registry.override_descriptions(&prompts);
        mcp.update_registry(&mut registry);
        let files = (&options, &writable, &self.state_dirs);
        let verifier = open_verifier(verifier, files, &registry, &events, &prompts)?;
        let prompts = Arc::new(prompts);
        let max_rules_bytes = MAX_RULES_BYTES.min(budget.bytes(budget.window() / RULES_SHARE));
        let (specs, append) = (registry.specs(), additions.as_deref());
        let layers = Layers::new(&prompts, specs, &place, append, &rules, max_rules_bytes);
        let parts = KernelParts {
            main,
            light,
            fallback,
            budget,
            keep_rounds: config.context.keep_rounds,
            registry,
            message_expander: Some(mcp.expand(&events)),
            layers,
            project: Arc::new(project),
            max_rules_bytes,
            checks: self.checks,
            verifier,
            answer_schema: self.answer_schema,
            events: events.clone(),
            control: control.clone(),
            limits: TurnLimits {
                max_turns: config.limits.max_turns,
                max_budget_usd: config.limits.max_budget_usd,
            },
            recovery: config.recovery,
            memory: self.parts.memory.or_else(|| learning.as_ref().map(SessionLearning::memory)),
            prompts: prompts.clone(),
            spend_limit: SpendLimit::default(),
            call_ids: CallIds::default(),
            sub_agent: None,
            session_models: SessionModels::default(),
        };
        self.agents.attach_session(&parts, place, rules, self.is_sandboxed);
        let mut kernel = Kernel::new(parts);
        if let Some(learning) = &learning {
            let request = log_path.is_some().then(|| kernel.background_requester());
            learning.attach_session(&events, request, &prompts);
        }
        match loaded {
            None => _ = events.emit(EventBody::SessionStarted(started)),
            Some(loaded) => {
                let notice = |live: &[&Event]| {
                    changed_files::changed_files_notice(&prompts, &workspace, live)
                };
                resume_session(&mut kernel, &events, &summary, &loaded, started, &notice);
                notices.extend(kernel.hidden_images_note());
                remove_leftovers(&workspace, &agent_record::unanswered_calls(&loaded.events));
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
            opened_model: self.model_config.model,
            chosen_effort: self.model_config.chosen_effort,
        })
    }
}

/// Creates the state directory for a new session.
fn session_storage(options: &Options, root: &Path) -> Storage {
    let is_new = matches!(options.session, SessionChoice::New | SessionChoice::NewWithId(_));
    match &options.storage {
        Some(storage) => storage.clone(),
        None if is_new && !options.ephemeral => {
            Storage::open_or_create(root, options.dirs.as_ref())
        }
        None => Storage::find(root, options.dirs.as_ref()),
    }
}

/// The mode of a resumed session unless one is set. `full` has to be set by the user, on the command line or
/// in the configuration; it is never taken from the log.
fn recorded_mode(options: &Options, loaded: Option<&LoadedSession>) -> Option<PermissionMode> {
    let live = agent_record::live_events(&loaded?.events);
    let recorded = agent_record::last_permission_mode(live)?;
    let is_set = options.config.config.permissions.mode.is_some();
    let limit = options.config.config.restrictions.mode.as_ref().map(|limit| limit.mode);
    (!is_set && recorded < PermissionMode::Full)
        .then(|| limit.map_or(recorded, |it| it.min(recorded)))
}

fn open_log(
    options: &Options,
    recorded: Option<String>,
    storage: &Storage,
) -> Result<(Option<Log>, Option<LoadedSession>, String), OpenError> {
    let resumed = match (recorded, &options.session) {
        (Some(id), SessionChoice::Fork(_)) => Some(storage.fork(&id, None)?),
        (recorded, _) => recorded,
    };
    if let Some(id) = resumed {
        let (log, loaded) =
            Log::resume(&storage.log_path(&id)).map_err(|error| storage.log_error(error))?;
        return Ok((Some(log), Some(loaded), id));
    }
    let id = match &options.session {
        SessionChoice::NewWithId(id) => {
            if !agent_record::is_id(id) {
                return Err(OpenError::Usage(format!("--session-id {id:?} is not a UUID")));
            }
            if storage.log_path(id).exists() {
                let why = format!("session {id} exists already; --resume {id} resumes it");
                return Err(OpenError::Usage(why));
            }
            id.clone()
        }
        _ => uuid::Uuid::now_v7().to_string(),
    };
    let log = if options.ephemeral || storage.is_ephemeral {
        None
    } else {
        Some(Log::create(&storage.log_path(&id)).map_err(|error| storage.log_error(error))?)
    };
    Ok((log, None, id))
}

/// The log comes first. Front ends receive the earlier events of a resumed session.
fn build_sinks(
    log: Option<Log>,
    summary: &SummarySink,
    learning: Option<&SessionLearning>,
    mut front_ends: Vec<Box<dyn Sink>>,
    loaded: Option<&LoadedSession>,
) -> Vec<Box<dyn Sink>> {
    if let Some(loaded) = loaded {
        let live = agent_record::live_events(&loaded.events);
        let spending = agent_record::summary(&loaded.events).spending;
        for front_end in &mut front_ends {
            front_end.receive_recorded(&live, spending);
        }
    }
    let mut sinks: Vec<Box<dyn Sink>> = Vec::new();
    // A session that is not recorded is not learnt from.
    let learning = learning.filter(|_| log.is_some());
    sinks.extend(log.map(|log| Box::new(log) as Box<dyn Sink>));
    sinks.push(Box::new(summary.clone()));
    sinks.extend(learning.map(|learning| Box::new(learning.sink()) as Box<dyn Sink>));
    sinks.extend(front_ends);
    sinks
}

fn session_started(
    (options, registry, mcp): (&Options, &Registry, &McpServers),
    model: &str,
    permission_mode: PermissionMode,
    sandbox: Guarantees,
    prompts: &Prompts,
) -> SessionStarted {
    let root = registry.root();
    let mut settings = config::settings_to_record(&options.config);
    if let Some(schema) = &options.answer_schema {
        settings.insert(ANSWER_SCHEMA.to_owned(), schema.clone());
    }
    if !options.add_dirs.is_empty() {
        let added = options.add_dirs.iter().map(|path| path.display().to_string());
        settings.insert(ADDED_DIRS.to_owned(), added.collect::<Vec<_>>().into());
    }
    SessionStarted {
        settings,
        cwd: root.display().to_string(),
        model: model.to_owned(),
        permission_mode,
        tools: registry.specs().iter().map(|tool| tool.name.to_string()).collect(),
        mcp_servers: mcp.initial_states(),
        place: place::place_section(root, &sandbox, permission_mode, prompts),
        sandbox,
        program: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn prompt_additions(options: &Options, prompts: &Prompts) -> Option<String> {
    const SCHEMA: Prompt = Prompt::named("answer_schema.md");
    let schema = options.answer_schema.as_ref();
    let schema = schema.map(|schema| format!("{}{schema}", prompts.text(SCHEMA)));
    let parts = [options.append_system_prompt.clone(), schema];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

/// The user's first, then those around the project, then the project's.
fn collect_rules(
    project: &ProjectFiles,
    hidden_files: &HiddenFiles,
    dirs: Option<&UserDirs>,
) -> Vec<RulesFile> {
    let mut rules = Vec::from_iter(user_rules(dirs));
    let is_shown = |path: &str| hidden_files.hidden_reason("Read", path).is_none();
    rules.extend(enclosing_rules(project.workspace.root(), is_shown));
    rules.extend(project.rules_in(".", &is_shown));
    // The home may be the project, or a directory around it.
    let mut texts = HashSet::new();
    rules.retain(|rules| texts.insert(rules.text.clone()));
    rules
}
