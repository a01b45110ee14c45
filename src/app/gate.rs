//! From the configuration to the tools behind their gate.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use super::memory::memory_file;
use super::own::{self, Cover, Own};
use super::writable::{Writable, added_are_there};
use super::{OpenError, Options};
use crate::config::{self, Config, Loaded, SandboxBackend, SandboxNetwork, UserDirs};
use crate::disk::{self, Way, canonical_prefix};
use crate::exec::Exec;
use crate::exec::sandbox::{self, Backend, Network, Sandbox, SandboxError};
use crate::kernel::{Checks, Speaker, Verifier};
use crate::permission::{Origin, Places, Policy, Rule, Verb, Withheld};
use crate::protocol::control::{Control, PermissionMode};
use crate::protocol::event::{Events, Sandbox as Holds};
use crate::protocol::mask::{Masker, is_secret_name};
use crate::protocol::prompt::Prompts;
use crate::protocol::tool::Rights;
use crate::registry::{BreakerConfig, OutputLimits, Registry, Settings};
use crate::tools::{self, ToolCx};
use crate::workspace::{Spill, Workspace};

/// The tools that only look.
const LOOKING: [&str; 4] = ["LS", "Glob", "Grep", "Read"];

/// The tools behind their gate, and what they work with: all that `agent tool` needs.
pub struct Gate {
    /// The gate.
    pub registry: Registry,
    /// Where facts go.
    pub events: Events,
    /// Processes.
    pub exec: Arc<Exec>,
}

/// The sandbox of a folder's commands, tried, and what it holds. `None` where it is switched off or this
/// system has none.
pub fn open_sandbox(
    loaded: &Loaded,
    writable: &Writable,
    own: &Own,
) -> Result<(Option<Sandbox>, Holds), OpenError> {
    begin_sandbox(loaded, writable, own)?.finish()
}

/// A sandbox that is being tried, which takes a few milliseconds.
pub(super) struct Trying {
    tried: Tried,
    /// What it does not hold, besides what it says itself.
    gaps: Vec<String>,
    /// Folders that are trusted and not there.
    gone: Vec<(UserDirs, PathBuf)>,
}

enum Tried {
    Off,
    Beside(JoinHandle<Result<Sandbox, SandboxError>>),
    Done(Box<Result<Sandbox, SandboxError>>),
}

impl Trying {
    /// What came of it.
    pub(super) fn finish(self) -> Result<(Option<Sandbox>, Holds), OpenError> {
        let tried = match self.tried {
            Tried::Off => {
                let gaps = vec!["sandbox.enabled is false".to_owned()];
                return Ok((None, Holds { gaps, ..Holds::none() }));
            }
            Tried::Beside(thread) => thread
                .join()
                .unwrap_or_else(|_| Err(SandboxError::Failed("it could not be tried".to_owned()))),
            Tried::Done(tried) => *tried,
        };
        match tried {
            Ok(sandbox) => {
                let mut holds = sandbox.holds().clone();
                holds.gaps.extend(self.gaps);
                // (Only now: where the start fails nobody loses anything.)
                holds.gaps.extend(self.gone.iter().map(own::forget));
                Ok((Some(sandbox), holds))
            }
            Err(error @ SandboxError::Unavailable(_)) => {
                Ok((None, Holds { gaps: vec![error.to_string()], ..Holds::none() }))
            }
            // What only fails now is no reason to go without: a command could see to it.
            Err(error @ (SandboxError::Failed(_) | SandboxError::Impossible(_))) => {
                Err(OpenError::Usage(error.to_string()))
            }
        }
    }
}

/// Begins to try it, beside whatever else is to be done at the start.
pub(super) fn begin_sandbox(
    loaded: &Loaded,
    writable: &Writable,
    own: &Own,
) -> Result<Trying, OpenError> {
    let (config, dirs) = (&loaded.config, own.dirs());
    let sandbox = &config.sandbox;
    let (root, places) = (writable.root().to_path_buf(), writable.places());
    if !sandbox.enabled {
        named_memory(config, places, dirs)?;
        return Ok(Trying { tried: Tried::Off, gaps: Vec::new(), gone: Vec::new() });
    }
    let memory = named_memory(config, places, dirs)?;
    let trusted = loaded.trusted.then_some(root.as_path());
    own.holds(trusted, places)?;
    let name = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
    let Cover { mut hidden, protected, gaps, gone } = own.cover(trusted, places);
    hidden.extend(memory);
    // What lies in the agent's own folder for caches is taken as it is written: a command could have made a link there
    // where that was the project's.
    let cache =
        dirs.map(|dirs| disk::settled(&dirs.cache, places).join("projects").join(&name[..16]));
    let settings = sandbox::Settings {
        backend: match sandbox.backend {
            SandboxBackend::Auto => Backend::Auto,
            SandboxBackend::Namespaces => Backend::Namespaces,
            SandboxBackend::Landlock => Backend::Landlock,
        },
        network: match sandbox.network {
            SandboxNetwork::Off => Network::Off,
            SandboxNetwork::Loopback => Network::Loopback,
            SandboxNetwork::On => Network::On,
        },
        root,
        writable: writable.besides().to_vec(),
        hidden,
        protected,
        cache,
    };
    let here = settings.clone();
    let thread = std::thread::Builder::new().name("sandbox".to_owned());
    let tried = match thread.spawn(move || Sandbox::open(settings)) {
        Ok(thread) => Tried::Beside(thread),
        Err(_) => Tried::Done(Box::new(Sandbox::open(here))),
    };
    Ok(Trying { tried, gaps, gone })
}

/// What is the agent's own is not reached by a link that commands could lead elsewhere.
pub(super) fn leads_where_it_says(own: &Path, places: &[PathBuf]) -> Result<(), OpenError> {
    let way = Way::of(own, places);
    if let Some(folder) = way.goes_up_from() {
        return Err(OpenError::Usage(format!(
            "{} is the agent's own and goes up (..) from {}, which commands may make a link: name where it leads \
             (XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME)",
            own.display(),
            folder.display()
        )));
    }
    let Some(link) = way.end.ancestors().find(|above| above.is_symlink()) else { return Ok(()) };
    Err(OpenError::Usage(format!(
        "{} is the agent's own and reached by {}, a link that commands may lead elsewhere: start in a folder in which \
         that does not lie, or name where it leads (XDG_CONFIG_HOME, XDG_STATE_HOME, XDG_DATA_HOME)",
        own.display(),
        link.display()
    )))
}

/// The memory that the configuration names, with its log: no command reads it. What can be written by the agent may
/// not be what its later sessions believe.
fn named_memory(
    config: &Config,
    places: &[PathBuf],
    dirs: Option<&UserDirs>,
) -> Result<Vec<PathBuf>, OpenError> {
    // What is wrong with it is said where it is opened.
    let Ok(file) = memory_file(config, dirs) else { return Ok(Vec::new()) };
    if config.sandbox.enabled {
        leads_where_it_says(&file, places)?;
    }
    // (The agent's own folder is covered as a whole.)
    if config.learning.database.is_none() {
        return Ok(Vec::new());
    }
    let file = canonical_prefix(&file);
    let cache = dirs.map(|dirs| canonical_prefix(&dirs.cache.join("projects")));
    if let Some(root) = places.iter().chain(&cache).find(|root| file.starts_with(root)) {
        return Err(OpenError::Usage(format!(
            "learning.database: {} lies in {}, which the agent may change; name a file outside of it",
            file.display(),
            root.display()
        )));
    }
    let beside = |ending: &str| {
        let mut name = file.clone().into_os_string();
        name.push(ending);
        PathBuf::from(name)
    };
    Ok(vec![file.clone(), beside("-wal"), beside("-shm")])
}

/// How the configuration sets the gate.
pub fn settings(
    loaded: &Loaded,
    writable: &Writable,
    mode: PermissionMode,
    is_sandboxed: bool,
    workspace: &Workspace,
) -> Result<Settings, OpenError> {
    let config = &loaded.config;
    let context = &config.context;
    Ok(Settings {
        policy: policy(loaded, writable, mode, is_sandboxed)?.through_links(workspace),
        limits: OutputLimits {
            max_lines: context.tool_output_max_lines,
            max_bytes: context.tool_output_max_bytes,
            head_tail_lines: context.tool_output_head_tail_lines,
            direction: context.tool_output_truncate_direction,
        },
        breaker: BreakerConfig {
            threshold: config.breaker.threshold,
            cooldown: config::parse_duration(&config.breaker.cooldown).map_err(OpenError::Usage)?,
        },
    })
}

/// What starts commands: no bash that lies where they write, and without the keys in use.
pub fn exec(config: &Config, writable: &Writable) -> Exec {
    Exec::new(&secret_variables(config)).clear_of(writable.places())
}

/// The tools behind their gate, as a session has them.
pub fn open_gate(
    exec: Exec,
    settings: Settings,
    sandbox: Option<Sandbox>,
    workspace: Arc<Workspace>,
    spill: Spill,
    events: Events,
    control: &Control,
) -> Gate {
    let exec = Arc::new(match sandbox {
        Some(sandbox) => exec.with_sandbox(sandbox),
        None => exec,
    });
    let cx = ToolCx {
        workspace,
        exec: exec.clone(),
        spill: Arc::new(spill),
        cancel: control.cancel(),
        secrets: Arc::default(),
        rights: Rights::default(),
        withheld: Withheld::default(),
        watcher: None,
        place: None,
        seen: None,
    };
    let registry = Registry::new(tools::all(), cx, events.clone(), control.clone(), settings);
    Gate { registry, events, exec }
}

/// Who takes a second look, with the tools that only look behind a gate of their own: what it reads is not read
/// by the model, its calls repeat none of the model's, nobody is asked for it, and its facts are told by the kernel.
pub(super) fn verifier_of(
    speaker: Option<Speaker>,
    (options, writable, own): (&Options, &Writable, &Own),
    registry: &Registry,
    events: &Events,
    prompts: &Prompts,
) -> Result<Option<Box<Verifier>>, OpenError> {
    let Some(speaker) = speaker else { return Ok(None) };
    let seen = registry.cx();
    let root = seen.workspace.root();
    let workspace = open_workspace(root, &options.add_dirs, own)?;
    let workspace = workspace.with_readable(seen.spill.folder());
    if workspace.places() != seen.workspace.places() {
        let why = "--add-dir: a folder is another one by now: begin again";
        return Err(OpenError::Usage(why.to_owned()));
    }
    let mode = PermissionMode::ReadOnly;
    let settings = settings(&options.config, writable, mode, false, &workspace)?;
    let cx = ToolCx { workspace: Arc::new(workspace), ..seen.clone() };
    let (clock, masker) = (events.clock().clone(), events.masker().clone());
    let silent = Events::new(events.session().to_owned(), 0, clock, masker, Vec::new());
    let looking = tools::all().into_iter().filter(|tool| LOOKING.contains(&tool.spec().name));
    let mut registry = Registry::new(looking.collect(), cx, silent, Control::default(), settings);
    registry.describe(prompts);
    Ok(Some(Box::new(Verifier { speaker, registry })))
}

/// The project's files. Where the user's home is among them, so are his secrets, what runs when he does something,
/// and what is the agent's own.
pub fn open_workspace(
    root: &Path,
    add_dirs: &[PathBuf],
    own: &Own,
) -> Result<Workspace, OpenError> {
    let workspace = Workspace::open(root, add_dirs).map_err(|failure| {
        OpenError::Usage(format!("{}; name a folder that you can read", failure.message))
    })?;
    // Canonical as it came: where it leads elsewhere now, somebody put a link in its place.
    if workspace.root() != root {
        let root = root.display();
        return Err(OpenError::Usage(format!("{root} is another folder by now: begin again")));
    }
    added_are_there(&workspace, &workspace.places())?;
    let guarded = own.guarded(root);
    Ok(workspace.guarding(guarded))
}

/// The masker of this process's environment and these keys.
pub fn masker(config: &Config, keys: &[&str]) -> Result<Arc<Masker>, OpenError> {
    // Variables whose names or values are not UTF-8 are no keys.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut masker = Masker::new(environment, &config.record.redact_extra)
        .map_err(|error| OpenError::Usage(format!("record.redact_extra: {error}")))?;
    for key in keys {
        masker.add("api-key", key);
    }
    for (name, value) in config.providers.values().flat_map(|provider| &provider.headers) {
        if is_secret_name(name) {
            masker.add(name, value);
        }
    }
    Ok(Arc::new(masker))
}

pub(super) fn checks(config: &Config) -> Result<Checks, OpenError> {
    let timeout = config::parse_duration(&config.checks.timeout).map_err(OpenError::Usage)?;
    Ok(Checks { commands: config.checks.commands.clone(), timeout })
}

fn policy(
    loaded: &Loaded,
    writable: &Writable,
    mode: PermissionMode,
    is_sandboxed: bool,
) -> Result<Policy, OpenError> {
    let home = std::env::home_dir().map(|home| home.canonicalize().unwrap_or(home));
    let home = home.map(|home| home.display().to_string());
    let places = Places { project: writable.root().display().to_string(), home };
    let mut policy = Policy::new(mode, is_sandboxed).at(places);
    let all = tools::all();
    let tools: Vec<&str> = all.iter().map(|tool| tool.spec().name).collect();
    for (list, text, origin) in &loaded.rules {
        let verb = match list.as_str() {
            "allow" => Verb::Allow,
            "ask" => Verb::Ask,
            _ => Verb::Deny,
        };
        let rules = Rule::parse_all(text)
            .map_err(|reason| OpenError::Usage(format!("{origin}: {list} {text:?}: {reason}")))?;
        if let Some(rule) = rules.iter().find(|rule| !tools.contains(&rule.tool())) {
            return Err(OpenError::Usage(format!(
                "{origin}: {list} {text:?}: there is no tool {:?}; the tools are {}",
                rule.tool(),
                tools.join(", ")
            )));
        }
        let origin = match origin {
            config::Origin::User(..) => Origin::UserFile,
            config::Origin::Project(..) => Origin::ProjectFile,
            config::Origin::Environment(_) | config::Origin::CommandLine(_) => Origin::CommandLine,
        };
        policy = policy.with(verb, origin, rules);
    }
    Ok(policy)
}

/// Variables that hold keys of providers, whatever they are called: no command sees them.
fn secret_variables(config: &Config) -> Vec<String> {
    let presets = config::presets().iter().filter_map(|preset| preset.api_key_env);
    let own = config.providers.values().filter_map(|provider| provider.api_key_env.clone());
    presets.map(str::to_owned).chain(own).collect()
}
