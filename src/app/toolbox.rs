//! Creates the registry with its tools from the configuration.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::memory::memory_file;
use super::sandbox_facts::{self, StateDirs, WritableDirs};
use super::{OpenError, Options, variable, web};
use crate::config::{self, Config, LoadedConfig, UserDirs};
use agent_engine::kernel::{ConfiguredModel, Verifier};
use agent_engine::registry::{OutputLimits, Registry, RegistrySettings};
use agent_engine::tools::{self, Tool, ToolCx, WorkspaceFacts};
use agent_host::exec::Exec;
use agent_host::exec::sandbox::{self, Sandbox, SandboxError};
use agent_host::git_guard::ContentKeeper;
use agent_host::workspace::{ImageStore, SpillFolder, Workspace};
use agent_permission::{HiddenFiles, MCP, PathRoots, Policy, Rule, RuleAction, RuleOrigin};
use agent_protocol::control::{PermissionMode, SessionControl};
use agent_protocol::disk::canonical_prefix;
use agent_protocol::event::{EventStream, SandboxStatus as Guarantees};
use agent_protocol::mask::{Masker, is_secret_name, looks_secret};
use agent_protocol::prompt::Prompts;
use agent_protocol::tool::{BASH_KILL, BASH_OUTPUT, CommandRights};
use agent_protocol::web::WEB_SEARCH;
use agent_record::otel;

/// Tools that depend on the session, in permission rules.
const TASK: &str = "Task";
const SKILL: &str = "Skill";

const READ_ONLY_TOOLS: [&str; 4] = ["LS", "Glob", "Grep", "Read"];

/// The registry and the resources of its tools: everything that `agent tool` needs.
pub struct Toolbox {
    pub registry: Registry,
    pub events: EventStream,
    pub exec: Arc<Exec>,
}

pub struct ToolStorage {
    /// Output that is too large to be shown.
    pub spill: SpillFolder,
    pub images: ImageStore,
}

impl ToolStorage {
    /// The storage of a session with this log: its folders are beside the log. `root` is the project's root.
    pub fn beside_log(log: &Path, root: &Path, masker: Arc<Masker>) -> Self {
        let spill = SpillFolder::new(log.with_file_name("tool-output"), root, masker);
        Self { spill, images: ImageStore::Folder(log.with_file_name("images")) }
    }

    pub fn unrecorded(spill: SpillFolder) -> Self {
        Self { spill, images: ImageStore::in_memory() }
    }
}

/// The sandbox of a session's commands, and its guarantees. `None` if it is disabled or not available. Only
/// checks what the system permits; the rest is prepared with the first command.
pub fn open_sandbox(
    loaded: &LoadedConfig,
    writable: &WritableDirs,
    state_dirs: &StateDirs,
) -> Result<(Option<Sandbox>, Guarantees), OpenError> {
    let config = &loaded.config;
    check_memory_outside(config, writable.places(), state_dirs.dirs())?;
    if !config.sandbox.enabled {
        return Ok(no_sandbox("sandbox.enabled is false"));
    }
    let settings = sandbox::SandboxSettings {
        backend: config.sandbox.backend,
        facts: sandbox_facts::sandbox_facts(loaded, writable, state_dirs),
        is_network_explicit: loaded.origins.contains_key("sandbox.network"),
    };
    match Sandbox::open(settings) {
        Ok(sandbox) => {
            let guarantees = sandbox.guarantees().clone();
            Ok((Some(sandbox), guarantees))
        }
        Err(error @ SandboxError::Unavailable(_)) => match &config.restrictions.sandbox {
            Some(policy) => {
                Err(OpenError::Usage(format!("the policy {policy} requires it: {error}")))
            }
            None => Ok(no_sandbox(&error.to_string())),
        },
        Err(error @ SandboxError::Impossible(_)) => Err(OpenError::Usage(error.to_string())),
    }
}

pub fn no_sandbox(why: &str) -> (Option<Sandbox>, Guarantees) {
    (None, Guarantees { gaps: vec![why.to_owned()], ..Guarantees::none() })
}

/// Later sessions use the memory: commands must not write it.
pub(super) fn check_memory_outside(
    config: &Config,
    places: &[PathBuf],
    dirs: Option<&UserDirs>,
) -> Result<(), OpenError> {
    // Other errors are reported when the memory is opened.
    let Ok(file) = memory_file(config, dirs) else { return Ok(()) };
    if config.learning.database.is_none() {
        return Ok(());
    }
    let file = canonical_prefix(&file);
    let cache = dirs.map(|dirs| canonical_prefix(&dirs.cache.join("projects")));
    match places.iter().chain(&cache).find(|root| file.starts_with(root)) {
        Some(root) => Err(OpenError::Usage(format!(
            "learning.database: {} is in {}, which the agent may change; name a file outside of it",
            file.display(),
            root.display()
        ))),
        None => Ok(()),
    }
}

pub fn registry_settings(
    loaded: &LoadedConfig,
    writable: &WritableDirs,
    mode: PermissionMode,
    is_sandboxed: bool,
    workspace: &Workspace,
) -> Result<RegistrySettings, OpenError> {
    let config = &loaded.config;
    let context = &config.context;
    Ok(RegistrySettings {
        policy: build_policy(loaded, writable, mode, is_sandboxed)?
            .with_link_targets(&WorkspaceFacts(workspace)),
        limits: OutputLimits {
            max_lines: context.tool_output_max_lines,
            max_bytes: context.tool_output_max_bytes,
        },
        hides_secrets: config.sandbox.hide_secrets,
        hooks: None,
    })
}

/// Runs commands: with a bash outside the writable directories, and without the keys in use.
pub fn command_exec(
    config: &Config,
    writable: &WritableDirs,
    further: &[(String, String)],
) -> Exec {
    let is_kept = |name: &OsString| further.iter().all(|(other, _)| name != other.as_str());
    let variables = std::env::vars_os().filter(|(name, _)| is_kept(name));
    let further = further.iter().map(|(name, value)| (name.into(), value.into()));
    let exec = Exec::with_environment(variables.chain(further), &secret_variables(config));
    exec.with_excluded_folders(writable.places())
}

pub fn open_toolbox(
    exec: Exec,
    settings: RegistrySettings,
    sandbox: Option<Sandbox>,
    (workspace, tools): (Arc<Workspace>, Vec<Box<dyn Tool>>),
    storage: ToolStorage,
    events: EventStream,
    control: &SessionControl,
) -> Toolbox {
    let spill = Arc::new(storage.spill);
    let exec = Arc::new(match sandbox {
        Some(sandbox) => {
            let sandbox = sandbox.with_readable(spill.folder());
            let spill = Arc::clone(&spill);
            let keep: ContentKeeper = Arc::new(move |name, bytes| {
                spill.write(name, &String::from_utf8_lossy(bytes)).ok()
            });
            exec.with_sandbox(sandbox, keep)
        }
        None => exec,
    });
    if let (Some(guard), Some(found)) = (exec.git_guard(), workspace.checkpoints()) {
        let checkpoints = Arc::clone(found);
        guard.set_scan(Box::new(move || checkpoints.find_repositories()));
    }
    let cx = ToolCx {
        workspace,
        exec: exec.clone(),
        spill,
        images: Arc::new(storage.images),
        takes_images: true,
        call_id: String::new(),
        cancel: control.cancellation_token(),
        web: web::open_access(events.masker().clone()),
        is_host_named: false,
        secrets: Arc::default(),
        rights: CommandRights::default(),
        hidden_files: HiddenFiles::default(),
        output_watcher: None,
        inquirer: None,
        resolved_path: None,
        expected_snapshot: None,
        draft: None,
    };
    let registry = Registry::new(tools, cx, events.clone(), control.clone(), settings);
    Toolbox { registry, events, exec }
}

/// The registry of a verifier has read-only tools: its reads do not count as reads of the model, its calls are not
/// repetitions of the model's, it asks no user, and the kernel emits its events.
pub(super) fn open_verifier(
    configured_model: Option<ConfiguredModel>,
    (options, writable, state_dirs): (&Options, &WritableDirs, &StateDirs),
    registry: &Registry,
    events: &EventStream,
    prompts: &Prompts,
) -> Result<Option<Box<Verifier>>, OpenError> {
    let Some(configured_model) = configured_model else { return Ok(None) };
    let session_cx = registry.cx();
    let root = session_cx.workspace.root();
    let workspace = open_workspace(root, &options.add_dirs, state_dirs)?;
    let workspace = workspace.with_readable(session_cx.spill.folder());
    if workspace.roots() != session_cx.workspace.roots() {
        let why = "--add-dir: a folder was replaced meanwhile: start again";
        return Err(OpenError::Usage(why.to_owned()));
    }
    let mode = PermissionMode::ReadOnly;
    let settings = registry_settings(&options.config, writable, mode, false, &workspace)?;
    let cx = ToolCx { workspace: Arc::new(workspace), ..session_cx.clone() };
    let (clock, masker) = (events.clock().clone(), events.masker().clone());
    let silent = EventStream::new(events.session_id().to_owned(), 0, clock, masker, Vec::new());
    let mut tools = tools::all_tools();
    tools.retain(|tool| READ_ONLY_TOOLS.contains(&&*tool.spec().name));
    let mut registry = Registry::new(tools, cx, silent, SessionControl::default(), settings);
    registry.override_descriptions(prompts);
    registry.set_takes_images(configured_model.takes_images);
    Ok(Some(Box::new(Verifier { configured_model, registry })))
}

/// The project's files. Secrets of the user's home, start-up files and the agent's files are protected, in
/// case they are inside.
pub fn open_workspace(
    root: &Path,
    add_dirs: &[PathBuf],
    state_dirs: &StateDirs,
) -> Result<Workspace, OpenError> {
    let workspace = Workspace::open(root, add_dirs).map_err(|failure| {
        OpenError::Usage(format!("{}; name a folder that you can read", failure.message))
    })?;
    // The root is canonical: if it resolves to another path now, it was replaced by a link.
    if workspace.root() != root {
        let root = root.display();
        return Err(OpenError::Usage(format!("{root} is another folder by now: begin again")));
    }
    Ok(workspace.with_guarded_paths(state_dirs.guarded_paths()))
}

pub fn build_masker(config: &Config, keys: &[&str]) -> Result<Arc<Masker>, OpenError> {
    // Variables whose names or values are not UTF-8 do not contain keys.
    let environment: Vec<(String, String)> = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect();
    let headers: Vec<(String, String)> = environment
        .iter()
        .filter(|(name, _)| otel::is_headers_variable(name))
        .flat_map(|(_, value)| otel::header_values(value))
        .filter(|(name, value)| is_secret_name(name) || looks_secret(value))
        .collect();
    let mut masker = Masker::new(environment, &config.record.redact_extra)
        .map_err(|error| OpenError::Usage(format!("record.redact_extra: {error}")))?;
    for (name, value) in headers {
        masker.add_secret(&name, &value);
    }
    let search_key = config.web.api_key_env.as_deref().and_then(variable);
    for key in keys.iter().copied().chain(search_key.as_deref()) {
        masker.add_secret("api-key", key);
    }
    let credentials = config.team.database.as_deref().and_then(|url| url.split_once("://"));
    let credentials = credentials.and_then(|(_, rest)| rest.rsplit_once('@'));
    if let Some((_, password)) = credentials.and_then(|(user, _)| user.split_once(':')) {
        masker.add_secret("database", password);
    }
    let of_providers = config.providers.values().flat_map(|provider| &provider.headers);
    let of_servers = config.mcp.servers.values().flat_map(|it| it.headers.iter().chain(&it.env));
    for (name, value) in of_providers.chain(of_servers).filter(|(name, _)| is_secret_name(name)) {
        masker.add_secret(name, value);
    }
    Ok(Arc::new(masker))
}

pub fn tool_names() -> impl Iterator<Item = &'static str> {
    tools::TOOL_NAMES.into_iter().chain([BASH_OUTPUT, BASH_KILL, WEB_SEARCH, MCP, SKILL, TASK])
}

/// The permission rules in a text, or why it contains something else.
pub fn parse_permission_rules(text: &str) -> Result<Vec<Rule>, String> {
    let rules = Rule::parse_all(text)?;
    match rules.iter().find(|rule| !tool_names().any(|tool| tool == rule.tool())) {
        Some(rule) => {
            let (tool, tools) = (rule.tool(), tool_names().collect::<Vec<_>>().join(", "));
            Err(format!("there is no tool {tool:?}; the tools are {tools}"))
        }
        None => Ok(rules),
    }
}

pub(super) fn build_policy(
    loaded: &LoadedConfig,
    writable: &WritableDirs,
    mode: PermissionMode,
    is_sandboxed: bool,
) -> Result<Policy, OpenError> {
    let home = std::env::home_dir().map(|home| home.canonicalize().unwrap_or(home));
    let home = home.map(|home| home.display().to_string());
    let places = PathRoots { project: writable.root().display().to_string(), home };
    let mut policy = Policy::new(mode, is_sandboxed).with_places(places);
    for (list, text, origin) in &loaded.rules {
        let verb = match list.as_str() {
            "allow" => RuleAction::Allow,
            "ask" => RuleAction::Ask,
            _ => RuleAction::Deny,
        };
        let rules = parse_permission_rules(text)
            .map_err(|reason| OpenError::Usage(format!("{origin}: {list} {text:?}: {reason}")))?;
        let origin = match origin {
            config::Origin::Policy(..) => RuleOrigin::Policy,
            config::Origin::User(..) => RuleOrigin::UserFile,
            config::Origin::Project(..) => RuleOrigin::ProjectFile,
            _ if origin.has_claude_syntax() => RuleOrigin::Compatible,
            config::Origin::Environment(_) | config::Origin::CommandLine(_) => {
                RuleOrigin::CommandLine
            }
        };
        policy = policy.with_rules(verb, origin, rules);
    }
    Ok(policy)
}

/// Variables that are hidden from commands, whatever their names are.
pub(super) fn secret_variables(config: &Config) -> Vec<String> {
    let presets = config::presets().iter().flat_map(|preset| preset.keys.iter().cloned());
    let own = config.providers.values().filter_map(|provider| provider.api_key_env.clone());
    presets.chain(own).chain(config.web.api_key_env.clone()).collect()
}
