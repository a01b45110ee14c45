//! The guarded tools without a model: their registry, and the record of their calls.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::options::{self, ToolOptions};
use crate::app::{
    self, Kept, McpServers, OpenError, StateDirs, Storage, SystemClock, Toolbox, Writable,
};
use crate::config::UserDirs;
use agent_engine::tools;
use agent_host::workspace::Spill;
use agent_protocol::Object;
use agent_protocol::control::{Control, PermissionMode};
use agent_protocol::event::{Body, Events, Place, Sandbox as Guarantees, SessionStarted};
use agent_protocol::prompt::Prompts;
use agent_record::{Log, SummarySink};

/// Which tools there are.
#[derive(Clone, Copy)]
pub(super) enum Tools {
    /// All that need no session, and those of MCP servers.
    All,
    /// Those whose names it accepts.
    Only(fn(&str) -> bool),
}

/// Whether the calls are recorded as a session.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Recording {
    /// They are not.
    No,
    /// They are, or a notice says why not.
    IfPossible,
    /// They are.
    Yes,
}

/// The registry, and the record of its calls.
pub(super) struct Guarded {
    pub(super) gate: Toolbox,
    pub(super) prompts: Prompts,
    mcp: McpServers,
    record: Option<Record>,
}

/// The session as which the calls are recorded.
struct Record {
    log: PathBuf,
    start: SessionStarted,
    summary: SummarySink,
    begun: OnceLock<Result<(), String>>,
}

impl Guarded {
    /// Begins the recorded session; again without effect. It begins with the first call, so that there is none without.
    pub(super) fn begin(&self) -> Result<(), String> {
        let Some(record) = &self.record else { return Ok(()) };
        let events = &self.gate.events;
        let begin = || {
            let log = Log::create(&record.log).map_err(|error| error.to_string())?;
            events.add(Box::new(log));
            events.add(Box::new(record.summary.clone()));
            events.emit(Body::SessionStarted(record.start.clone()));
            events.at(Place { turn: 1, ..Place::default() });
            self.gate.registry.begin_turn(1);
            Ok(())
        };
        record.begun.get_or_init(begin).clone()
    }

    /// Takes the first checkpoint in the background, so that the first change need not wait for it.
    pub(super) fn prepare_changes(&self) {
        if let Some(checkpoints) = self.gate.registry.cx().workspace.checkpoints() {
            checkpoints.begin();
        }
    }

    /// Ends remaining processes of commands, and the session.
    pub(super) async fn close(&self) {
        self.gate.exec.close().await;
        self.mcp.close().await;
        self.gate.registry.settle_background(true);
        if let Some(record) = self.record.as_ref().filter(|record| record.begun.get().is_some()) {
            self.gate.events.emit(Body::SessionSummary(record.summary.summary()));
        }
        if let Some(checkpoints) = self.gate.registry.cx().workspace.checkpoints().cloned() {
            _ = tokio::task::spawn_blocking(move || checkpoints.finish()).await;
        }
    }
}

/// `runs_commands`: otherwise no sandbox is needed.
pub(super) fn open(
    options: &ToolOptions,
    tools: Tools,
    recording: Recording,
    runs_commands: bool,
    control: &Control,
) -> Result<Guarded, OpenError> {
    let root = options::root(options.cwd.as_deref())?;
    let dirs = UserDirs::find();
    let config = options::load(&root, dirs.as_ref(), options, None)?;
    for warning in &config.warnings {
        agent_ui::tell(warning);
    }
    let masker = app::masker(&config.config, &[])?;
    let own = StateDirs::of(dirs.as_ref());
    let mut workspace = app::open_workspace(&root, &options.add_dir, &own)?;
    let writable = Writable::of(&config.config, &workspace)?;
    let mut id = String::new();
    let mut log = None;
    let storage = (recording != Recording::No).then(|| Storage::make(&root, dirs.as_ref()));
    if let Some(notice) = storage.as_ref().and_then(|storage| storage.notice.as_ref()) {
        agent_ui::tell(notice);
    }
    let kept = match storage {
        Some(storage) if !storage.is_ephemeral => {
            id = uuid::Uuid::now_v7().to_string();
            workspace = app::with_checkpoints(workspace, &config.config, &storage, &id)?;
            let path = log.insert(storage.log_path(&id));
            Kept::beside(path, &root, masker.clone())
        }
        Some(_) if recording == Recording::Yes => {
            let why = "--record: no state directory can be written";
            return Err(OpenError::Usage(why.to_owned()));
        }
        // Spilled output is kept after the call, for the user.
        Some(_) | None => Kept::unrecorded(Spill::for_a_day(masker.clone(), writable.places())),
    };
    let workspace = Arc::new(workspace.with_readable(kept.spill.folder()));
    let events = Events::new(id, 0, Arc::new(SystemClock), masker, Vec::new());
    let mode = config.mode(PermissionMode::AutoEdit);
    let (sandbox, guarantees) = if runs_commands || log.is_some() {
        app::open_sandbox(&config, &writable, &own)?
    } else {
        app::no_sandbox("this call runs no command")
    };
    let settings = app::settings(&config, &writable, mode, sandbox.is_some(), &workspace)?;
    let cwd = workspace.root().display().to_string();
    let exec = app::exec(&config.config, &writable);
    let mut mcp = McpServers::default();
    // (Without a model there are no sub-agents.)
    let mut offered = tools::all();
    match tools {
        Tools::All => {
            mcp = McpServers::of(&config, &writable, dirs.as_ref())?;
            offered.extend(mcp.tools());
        }
        Tools::Only(accepts) => offered.retain(|tool| accepts(&tool.spec().name)),
    }
    for notice in &mcp.notices {
        agent_ui::tell(notice);
    }
    let parts = (workspace, offered);
    let mut gate = app::open_toolbox(exec, settings, sandbox, parts, kept, events, control);
    gate.registry.describe(&config.prompts);
    mcp.announce(&gate.events);
    let record = log.map(|log| {
        let start = started(cwd, mode, (&gate, &mcp), guarantees);
        Record { log, start, summary: SummarySink::default(), begun: OnceLock::new() }
    });
    Ok(Guarded { gate, prompts: config.prompts, mcp, record })
}

fn started(
    cwd: String,
    mode: PermissionMode,
    (gate, mcp): (&Toolbox, &McpServers),
    guarantees: Guarantees,
) -> SessionStarted {
    SessionStarted {
        cwd,
        model: "none".to_owned(),
        permission_mode: mode,
        tools: gate.registry.specs().iter().map(|spec| spec.name.to_string()).collect(),
        mcp_servers: mcp.at_start(),
        sandbox: guarantees,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        place: String::new(),
        settings: Object::new(),
    }
}
