//! The guarded tools without a model: their registry, and the record of their calls.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::options::{self, ToolOptions};
use super::print_notices;
use crate::app::{
    self, McpServers, OpenError, StateDirs, Storage, SystemClock, ToolStorage, Toolbox,
    WritableDirs,
};
use agent_engine::tools;
use agent_host::workspace::SpillFolder;
use agent_protocol::Object;
use agent_protocol::control::{PermissionMode, SessionControl};
use agent_protocol::event::{EventBody, EventStream, SessionStarted, WorkPosition};
use agent_protocol::prompt::Prompts;
use agent_record::{Log, SummarySink};

pub(super) struct GuardedTools {
    pub(super) toolbox: Toolbox,
    pub(super) prompts: Prompts,
    mcp: McpServers,
    record: Option<SessionRecord>,
}

struct SessionRecord {
    log: PathBuf,
    start: SessionStarted,
    summary: SummarySink,
    begin_result: OnceLock<Result<(), String>>,
}

impl GuardedTools {
    pub(super) fn is_recorded(&self) -> bool {
        self.record.is_some()
    }

    /// The first call begins the session, so that there is none without calls. Repeating it has no
    /// effect.
    pub(super) fn begin_session(&self) -> Result<(), String> {
        let Some(record) = &self.record else { return Ok(()) };
        let events = &self.toolbox.events;
        let begin = || {
            let log = Log::create(&record.log).map_err(|error| error.to_string())?;
            events.add_sink(Box::new(log));
            events.add_sink(Box::new(record.summary.clone()));
            events.emit(EventBody::SessionStarted(record.start.clone()));
            events.set_position(WorkPosition { turn: 1, ..WorkPosition::default() });
            self.toolbox.registry.begin_turn(1);
            Ok(())
        };
        record.begin_result.get_or_init(begin).clone()
    }

    /// In the background, so that the first change need not wait for it.
    pub(super) fn take_first_checkpoint(&self) {
        if let Some(checkpoints) = self.toolbox.registry.cx().workspace.checkpoints() {
            checkpoints.spawn_first_manifest();
        }
    }

    pub(super) async fn close(&self) {
        self.toolbox.exec.shutdown_and_wait().await;
        self.toolbox.registry.finish_comparison().await;
        self.mcp.close().await;
        self.toolbox.registry.record_background_changes(true);
        if let Some(record) = &self.record
            && record.begin_result.get().is_some()
        {
            self.toolbox.events.emit(EventBody::SessionSummary(record.summary.summary()));
        }
        if let Some(checkpoints) = self.toolbox.registry.cx().workspace.checkpoints().cloned() {
            _ = tokio::task::spawn_blocking(move || checkpoints.finish()).await;
        }
    }
}

/// `accepts` a tool by its name; `None`: all that need no session, and those of MCP servers. `records`: as a
/// session, if a directory for it can be written. `runs_commands`: a sandbox is needed.
pub(super) fn open(
    options: &ToolOptions,
    accepts: Option<fn(&str) -> bool>,
    records: bool,
    runs_commands: bool,
    control: &SessionControl,
) -> Result<GuardedTools, OpenError> {
    let (root, dirs, config) = options::load_project_config(options)?;
    let masker = app::build_masker(&config.config, &[])?;
    let own = StateDirs::new(dirs.as_ref());
    let mut workspace = app::open_workspace(&root, &options.add_dir, &own)?;
    let writable = WritableDirs::from_workspace(&config.config, &workspace)?;
    let mut id = String::new();
    let mut log = None;
    let storage = records.then(|| Storage::open_or_create(&root, dirs.as_ref()));
    print_notices(storage.as_ref().and_then(|storage| storage.notice.as_ref()));
    let tool_storage = match storage {
        Some(storage) if !storage.is_ephemeral => {
            id = uuid::Uuid::now_v7().to_string();
            workspace = app::with_checkpoints(workspace, &config.config, &storage, &id)?;
            let path = log.insert(storage.log_path(&id));
            ToolStorage::beside_log(path, &root, masker.clone())
        }
        // The user may need spilled output after the call.
        Some(_) | None => {
            ToolStorage::unrecorded(SpillFolder::kept_for_a_day(masker.clone(), writable.places()))
        }
    };
    let workspace = Arc::new(workspace.with_readable(tool_storage.spill.folder()));
    let events = EventStream::new(id, 0, Arc::new(SystemClock), masker, Vec::new());
    let mode = config.mode_or(PermissionMode::AutoEdit);
    let (sandbox, guarantees) = if runs_commands || log.is_some() {
        app::open_sandbox(&config, &writable, &own)?
    } else {
        app::no_sandbox("this call runs no command")
    };
    let settings = app::registry_settings(&config, &writable, mode, sandbox.is_some(), &workspace)?;
    let cwd = workspace.root().display().to_string();
    let exec = app::command_exec(&config.config, &writable, &[]);
    let mut mcp = McpServers::default();
    // Without a model there are no sub-agents.
    let mut offered = tools::all_tools();
    if let Some(search) = app::open_search(&config.config)? {
        offered.push(Box::new(search));
    }
    match accepts {
        Some(accepts) => offered.retain(|tool| accepts(&tool.spec().name)),
        None => {
            mcp = McpServers::from_config(&config, &writable, dirs.as_ref(), &[])?;
            offered.extend(mcp.tools());
        }
    }
    print_notices(&mcp.notices);
    let parts = (workspace, offered);
    let mut toolbox =
        app::open_toolbox(exec, settings, sandbox, parts, tool_storage, events, control);
    toolbox.registry.override_descriptions(&config.prompts);
    mcp.announce(&toolbox.events);
    let record = log.map(|log| {
        let start = SessionStarted {
            cwd,
            model: "none".to_owned(),
            permission_mode: mode,
            tools: toolbox.registry.specs().iter().map(|spec| spec.name.to_string()).collect(),
            mcp_servers: mcp.initial_states(),
            sandbox: guarantees,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            place: String::new(),
            settings: Object::new(),
        };
        SessionRecord { log, start, summary: SummarySink::default(), begin_result: OnceLock::new() }
    });
    Ok(GuardedTools { toolbox, prompts: config.prompts, mcp, record })
}
