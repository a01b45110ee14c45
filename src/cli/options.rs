//! Options of several commands, and the configuration that results from them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use clap::parser::ValueSource;
use toml::Value;

use super::attempts::AttemptOptions;
use super::worktree::WorktreeOptions;
use super::{print_notices, usage_error};
use crate::app::{OpenError, Options, SessionChoice, Storage, WritableDirs};
use crate::compat::{self, CompatibleOptions, PermissionModeArg, RuleOptions};
use crate::config::{self, AGENT_DIR, LoadedConfig, Setting, Sources, Trust, UserDirs};
use agent_protocol::control::PermissionMode;
use agent_protocol::disk::{self, ResolvedPath};
use agent_protocol::provider::Effort;
use agent_ui::{OutputFormat, StreamJsonOptions};

/// Begins a key of `--set` that names a prompt.
pub(super) const PROMPT_KEY_PREFIX: &str = "prompts.";

/// The folder and the permissions.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ToolOptions {
    /// Work in this folder
    #[arg(short = 'C', long = "cwd", value_name = "DIR", global = false)]
    pub(super) cwd: Option<PathBuf>,
    /// A further folder that tools may use
    #[arg(long, value_name = "DIR")]
    pub(super) add_dir: Vec<PathBuf>,
    /// The permission mode
    #[arg(long, value_name = "MODE")]
    pub(super) permission_mode: Option<PermissionModeArg>,
    /// The same as --permission-mode full
    #[arg(
        short = 'y',
        long,
        alias = "dangerously-skip-permissions",
        conflicts_with = "permission_mode"
    )]
    pub(super) yolo: bool,
    /// A call that is allowed without asking: `Edit`, `Edit(src/**)`, `Bash(cargo test *)`
    #[arg(long, value_name = "RULE")]
    pub(super) allow: Vec<String>,
    /// A call that is refused
    #[arg(long, value_name = "RULE")]
    pub(super) deny: Vec<String>,
    #[command(flatten)]
    pub(super) rules: RuleOptions,
    /// Trust the folder's configuration for this run
    #[arg(long)]
    pub(super) trust: bool,
    /// Set any key of the configuration: KEY=VALUE; a prompt: prompts.NAME=FILE
    #[arg(long, value_name = "KEY=VALUE")]
    pub(super) set: Vec<String>,
}

impl ToolOptions {
    /// The user gets no questions, even at a terminal.
    pub(super) fn is_unattended(&self) -> bool {
        self.permission_mode.is_some_and(|given| !given.asks)
    }

    pub(super) fn is_unattended_with(&self, compatible: &CompatibleOptions) -> bool {
        let is_mode_given = self.permission_mode.is_some() || self.yolo;
        self.is_unattended() || compatible.is_unattended(is_mode_given)
    }
}

/// The format of standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum InputFormat {
    /// A task.
    #[default]
    Text,
    /// Messages and requests of a program, one JSON object per line.
    StreamJson,
}

// `run`, the chat and `acp` show their options in this order, so several structs have those in common.

/// The model, and its server.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ModelOptions {
    /// The model: provider/model, auto, or script:FILE
    #[arg(short, long, value_name = "MODEL")]
    pub(super) model: Option<String>,
    /// How much the model reasons: none, minimal, low, medium, high, xhigh, max, as far as it has them
    #[arg(long, value_name = "EFFORT", hide_possible_values = true)]
    pub(super) effort: Option<Effort>,
    /// The base URL of the model's server; without a path, the version is added
    #[arg(long, value_name = "URL")]
    pub(super) base_url: Option<String>,
    /// The environment variable that contains the key
    #[arg(long, value_name = "NAME")]
    pub(super) api_key_env: Option<String>,
}

/// The checks and limits of each task.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct LimitOptions {
    /// A command that must exit 0 before a task counts as done
    #[arg(long, value_name = "COMMAND")]
    pub(super) check: Vec<String>,
    /// Limit of model calls per message
    #[arg(long, value_name = "N")]
    pub(super) max_turns: Option<u32>,
    /// Limit of cost per message in US dollars; only known prices count
    #[arg(long, value_name = "X")]
    pub(super) max_budget_usd: Option<f64>,
}

/// The recorded session that is continued.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ContinueOptions {
    /// Continue the latest session of this project
    #[arg(short = 'c', long = "continue", conflicts_with = "resume")]
    pub(super) continue_latest: bool,
    /// Continue the session with this id, or beginning or end of an id; without one, choose it from a list
    #[arg(
        short = 'r', long, value_name = "ID", num_args = 0..=1, default_missing_value = "",
        hide_default_value = true
    )]
    pub(super) resume: Option<String>,
    /// With -c or --resume: continue a copy, and leave the session unchanged
    #[arg(long, alias = "fork-session")]
    pub(super) fork: bool,
}

impl ContinueOptions {
    /// `new`: the choice without these options.
    pub(super) fn session_choice(&self, new: SessionChoice) -> Result<SessionChoice, OpenError> {
        Ok(match (self.continue_latest, &self.resume) {
            (true, _) if self.fork => SessionChoice::Fork(None),
            (true, _) => SessionChoice::Latest,
            (false, Some(id)) if self.fork => SessionChoice::Fork(Some(id.clone())),
            (false, Some(id)) => SessionChoice::Resume(id.clone()),
            (false, None) if self.fork => {
                let why = "--fork goes with -c (the latest session) or --resume ID";
                return Err(usage_error(why));
            }
            (false, None) => new,
        })
    }
}

/// The options of `agent run`.
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[derive(Clone, Debug, Default, Args)]
#[command(
    mut_arg("check", |arg| arg.help("A command that must exit 0 before the task counts as done")),
    mut_arg("max_turns", |arg| arg.help("Limit of model calls")),
    mut_arg("max_budget_usd", |arg| {
        arg.help("Limit of cost in US dollars; only known prices count")
    }),
    mut_arg("resume", |arg| {
        arg.help("Continue the session with this id, or beginning or end of an id, of this or another project")
    })
)]
pub(super) struct RunArgs {
    /// The task; `-` reads it from standard input, and piped input is appended to it
    #[arg(value_name = "TASK")]
    pub(super) task: Vec<String>,
    #[command(flatten)]
    pub(super) model: ModelOptions,
    /// The format of standard output
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(super) output_format: OutputFormat,
    /// The format of standard input; `stream-json`: a program drives the session
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(super) input_format: InputFormat,
    /// With --input-format stream-json: calls that need approval are asked of the program (`stdio`)
    #[arg(long, value_name = "stdio", value_parser = ["stdio"])]
    pub(super) permission_prompt_tool: Option<String>,
    /// With --input-format stream-json: repeat the messages that the program sends, with their ids
    #[arg(long)]
    pub(super) replay_user_messages: bool,
    /// With --output-format stream-json: also the parts of the answers, as they arrive
    #[arg(long)]
    pub(super) include_partial_messages: bool,
    #[arg(long, hide = true)]
    pub(super) include_hook_events: bool,
    /// Also write the final answer to this file
    #[arg(short = 'o', long = "output-last-message", value_name = "FILE")]
    pub(super) output_file: Option<PathBuf>,
    #[command(flatten)]
    pub(super) limits: LimitOptions,
    /// Time limit: 90s, 10m
    #[arg(long, value_name = "DURATION")]
    pub(super) timeout: Option<String>,
    #[command(flatten)]
    pub(super) continued: ContinueOptions,
    #[command(flatten)]
    pub(super) worktree: WorktreeOptions,
    #[command(flatten)]
    pub(super) attempts: AttemptOptions,
    /// The id of the new session, a UUID
    #[arg(long, value_name = "UUID", conflicts_with_all = ["continue_latest", "resume", "fork"])]
    pub(super) session_id: Option<String>,
    /// Do not record this session
    #[arg(long, alias = "no-session-persistence", conflicts_with_all = ["continue_latest", "resume"])]
    pub(super) ephemeral: bool,
    /// Neither learn lessons nor use them (also: `AGENT_NO_MEMORY=1`)
    #[arg(long)]
    pub(super) no_memory: bool,
    /// The final answer must be JSON that matches this JSON Schema: a file, or its text
    #[arg(long, value_name = "FILE|JSON")]
    pub(super) json_schema: Option<String>,
    /// Add this to the model's instructions
    #[arg(long, value_name = "TEXT")]
    pub(super) append_system_prompt: Option<String>,
    /// Print only why a task failed to standard error
    #[arg(short, long, conflicts_with = "verbose")]
    pub(super) quiet: bool,
    /// Print more to standard error
    #[arg(short, long)]
    pub(super) verbose: bool,
    /// Work without a terminal; print the session's id, and return (`agent ps`, `agent attach`)
    #[arg(long, conflicts_with_all = [
        "ephemeral", "output_format", "input_format", "output_file", "permission_prompt_tool",
        "replay_user_messages", "include_partial_messages", "quiet", "verbose",
    ])]
    pub(super) background: bool,
    /// The process that `--background` starts
    #[arg(long, hide = true)]
    pub(super) in_background: bool,
    #[command(flatten)]
    pub(super) compatible: CompatibleOptions,
    #[command(flatten)]
    pub(super) tools: ToolOptions,
    /// The options that were given, for another process.
    #[arg(skip)]
    pub(super) given: Vec<OsString>,
}

impl RunArgs {
    /// Keeps the options that are neither the model's nor the choice of a session or of its copy.
    pub(super) fn with_given(self, matches: &clap::ArgMatches) -> Self {
        const OWN: [&str; 8] =
            ["continue", "resume", "fork", "model", "effort", "plain", "worktree", "with-changes"];
        let command = Self::augment_args(clap::Command::new("run"));
        let mut given = Vec::new();
        for arg in command.get_arguments() {
            let (id, Some(name)) = (arg.get_id().as_str(), arg.get_long()) else { continue };
            // The chat lacks some options.
            let is_given = matches.try_contains_id(id).is_ok()
                && matches.value_source(id) == Some(ValueSource::CommandLine);
            if !is_given || OWN.contains(&name) {
                continue;
            }
            if !arg.get_action().takes_values() {
                given.push(format!("--{name}").into());
                continue;
            }
            for value in matches.get_raw(id).into_iter().flatten() {
                let mut option = OsString::from(format!("--{name}="));
                option.push(value);
                given.push(option);
            }
        }
        Self { given, ..self }
    }

    /// The command line that continues this session in the background.
    pub(super) fn continuation(&self, id: &str, model: &str, message: String) -> Vec<OsString> {
        let mut arguments = self.given.clone();
        let own = ["run", "--in-background", "--resume", id, "--model", model];
        arguments.splice(0..0, own.map(OsString::from));
        arguments.extend([OsString::from("--"), message.into()]);
        arguments
    }

    pub(super) fn further_lines(&self) -> StreamJsonOptions {
        StreamJsonOptions {
            partial_messages: self.include_partial_messages,
            hook_events: self.include_hook_events,
        }
    }

    pub(super) fn to_session_options(
        &self,
        (root, storage): (PathBuf, Option<Storage>),
        dirs: Option<UserDirs>,
        config: LoadedConfig,
        session: SessionChoice,
        default_mode: PermissionMode,
    ) -> Result<Options, OpenError> {
        let Self { compatible, tools, append_system_prompt, .. } = self;
        let options = Options::new(root, config, session, dirs);
        let mut options = compatible.apply_to(options, tools.rules.denied_tools()?)?;
        options.add_dirs.splice(0..0, tools.add_dir.iter().cloned());
        options.append_system_prompt =
            compatible.system_prompt_addition(append_system_prompt.as_ref())?;
        Ok(Options { storage, ephemeral: self.ephemeral, default_mode, ..options })
    }
}

/// `-C`, or the working directory.
pub(super) fn project_root(cwd: Option<&Path>) -> Result<PathBuf, OpenError> {
    let Some(path) = cwd else {
        let root = current_dir()?;
        check_links(&logical_cwd(&root), &root)?;
        return Ok(root);
    };
    let wrong = |why: String| OpenError::Usage(format!("-C {}: {why}", path.display()));
    let root = path.canonicalize().map_err(|error| match error.kind() {
        ErrorKind::NotFound => wrong("there is no such folder; name one that exists".to_owned()),
        _ => wrong(format!("{error}; name a folder that you can open")),
    })?;
    if !root.is_dir() {
        return Err(wrong("is a file; name a folder".to_owned()));
    }
    // The working directory may have been removed.
    let given =
        current_dir().map_or_else(|_| path.to_owned(), |here| logical_cwd(&here).join(path));
    check_links(&given, &root)?;
    Ok(root)
}

/// The storage that has this session: that of the project at `root`, or of another project, then with the
/// directory of that project.
pub(super) fn find_session_storage(
    root: &Path,
    id: &str,
) -> Result<(Storage, Option<PathBuf>), OpenError> {
    let dirs = UserDirs::find();
    let here = Storage::find(root, dirs.as_ref());
    if !here.find_ids(id).is_empty() {
        return Ok((here, None));
    }
    let elsewhere = Storage::find_session(id, dirs.as_ref())?;
    Ok(elsewhere.map_or((here, None), |(storage, own)| (storage, Some(own))))
}

/// The root for a session; `id` may be the beginning of one. A session of another project works in
/// its own directory unless `-C` names one.
pub(super) fn root_for_session(
    cwd: Option<&Path>,
    id: Option<&str>,
) -> Result<(PathBuf, Option<Storage>), OpenError> {
    let root = project_root(cwd)?;
    let Some(id) = id.filter(|id| !id.is_empty()) else { return Ok((root, None)) };
    let (storage, own) = find_session_storage(&root, id)?;
    let own = own.filter(|own| cwd.is_none() && *own != root);
    let Some(own) = own else { return Ok((root, Some(storage))) };
    let shown = own.display();
    if !own.is_dir() {
        return Err(OpenError::Usage(format!(
            "session {id} belongs to {shown}, which is gone; name a directory to work in with -C DIR"
        )));
    }
    agent_ui::print_notice(&format!("session {id} belongs to another project; working in {shown}"));
    Ok((project_root(Some(&own))?, Some(storage)))
}

/// As in `PWD`, if that is the same directory.
fn logical_cwd(here: &Path) -> PathBuf {
    let pwd = std::env::var_os("PWD").map(PathBuf::from).filter(|path| path.is_absolute());
    let pwd = pwd.filter(|path| path.canonicalize().is_ok_and(|path| path == here));
    pwd.unwrap_or_else(|| here.to_owned())
}

/// Fails if the path goes through a link in a project that leads outside of the project, or into its `.git` or
/// `.agent`: a command, or the author of a clone, could have created the link.
fn check_links(path: &Path, root: &Path) -> Result<(), OpenError> {
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    let is_home = |folder: &Path| home.as_ref().is_some_and(|home| home.starts_with(folder));
    let is_project =
        |folder: &&Path| [".git", AGENT_DIR].iter().any(|name| folder.join(name).exists());
    let is_own =
        |name: Component<'_>| [".git", AGENT_DIR].iter().any(|own| name.as_os_str() == *own);
    for link in disk::ResolvedPath::resolve(path, &[]).links() {
        // A project may be inside another.
        let above = link.ancestors().skip(1).filter(|folder| !is_home(folder)).filter(is_project);
        let holds_root = |project: &Path| {
            let below = root.strip_prefix(project);
            below.is_ok_and(|below| !below.components().any(is_own))
        };
        let Some(project) = above.clone().next() else { continue };
        if above.clone().any(holds_root) {
            continue;
        }
        return Err(OpenError::Usage(format!(
            "{} is a link in {} that leads out of it, or to what is protected in it: {}; if this is intended, use the \
             real path",
            link.display(),
            project.display(),
            root.display()
        )));
    }
    Ok(())
}

/// The system's path contains no links. It is not resolved again, because it may name another
/// folder by now.
fn current_dir() -> Result<PathBuf, OpenError> {
    let failed = |error| OpenError::Usage(format!("the current folder: {error}"));
    let path = std::env::current_dir().map_err(failed)?;
    let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    let named = disk::metadata_without_links(&path).map(id).map_err(failed)?;
    if std::fs::metadata(".").map(id).map_err(failed)? == named {
        return Ok(path);
    }
    let path = path.display();
    Err(OpenError::Usage(format!(
        "{path} is another folder than the one you are in: go there again"
    )))
}

/// Relative to the working directory, in which commands could have created links.
pub(super) fn resolve_path(path: &Path) -> Result<ResolvedPath, OpenError> {
    let here = current_dir()?;
    let loaded = load_config(&here, UserDirs::find().as_ref(), &ToolOptions::default(), None);
    // With an invalid configuration there are no sessions that could write elsewhere.
    let config = loaded.map(|loaded| loaded.config).unwrap_or_default();
    let writable = WritableDirs::from_config(&config, &here, &[]);
    Ok(ResolvedPath::resolve(&here.join(path), writable.places()))
}

/// Prints the warnings. Returns the project's root as well.
pub(super) fn load_project_config(
    tools: &ToolOptions,
) -> Result<(PathBuf, Option<UserDirs>, LoadedConfig), OpenError> {
    let (root, dirs) = (project_root(tools.cwd.as_deref())?, UserDirs::find());
    let loaded = load_config(&root, dirs.as_ref(), tools, None)?;
    print_notices(&loaded.warnings);
    Ok((root, dirs, loaded))
}

pub(super) fn load_config(
    root: &Path,
    dirs: Option<&UserDirs>,
    tools: &ToolOptions,
    run: Option<&RunArgs>,
) -> Result<LoadedConfig, OpenError> {
    let compatible = run.map(|run| &run.compatible).cloned().unwrap_or_default();
    let (of_project, of_user) = compatible.selected_sources()?;
    let meaning = compatible.config_overrides()?;
    let managed = compat::read_managed_settings()?;
    let (managed, managed_hooks) = managed.unzip();
    let mut sources = Sources {
        policies: managed.into_iter().chain(config::read_policies()?).collect(),
        user_file: dirs.map(|dirs| dirs.config.join(config::FILE_NAME)),
        // In a project that is the home, the file is the project's.
        user_settings: std::env::home_dir()
            .filter(|home| of_user && home.canonicalize().is_ok_and(|home| home != root))
            .map(|home| home.join(".claude/settings.json")),
        project_file: of_project.then(|| root.join(AGENT_DIR).join(config::FILE_NAME)),
        trust: if tools.trust { Trust::Once } else { config::folder_trust(dirs, root) },
        environment: environment_settings(),
        // A single option outranks the settings.
        command_line: [meaning.values, command_line_settings(tools, run)?].concat(),
        prompts: prompt_overrides(tools, &compatible)?,
    };
    let mut loaded = config::load(&sources)?;
    let server =
        run.map(|run| server_settings(&run.model, &loaded.config.model)).unwrap_or_default();
    if !server.is_empty() {
        sources.command_line.extend(server);
        loaded = config::load(&sources)?;
    }
    compat::apply_restrictions(&mut loaded);
    if run.is_some_and(|run| run.model.effort.is_some()) {
        // The command line outranks the configuration of single models.
        loaded.config.models.values_mut().for_each(|table| table.effort = None);
    }
    compatible.check_mode(&loaded)?;
    compatible.add_servers(&mut loaded)?;
    loaded.hooks.extend(managed_hooks.into_iter().flatten().chain(meaning.hooks));
    loaded.warnings.extend(meaning.warnings);
    loaded.warnings.extend(tools.rules.unknown_tool_warnings()?);
    if let Some(cwd) = &tools.cwd {
        let writable = WritableDirs::from_config(&loaded.config, root, &tools.add_dir);
        let others = writable.places().iter().filter(|place| *place != root);
        if disk::resolve_outside(cwd, &others.cloned().collect::<Vec<_>>()) != root {
            let cwd = cwd.display();
            return Err(OpenError::Usage(format!(
                "-C {cwd}: is a link that commands can change; name where it leads"
            )));
        }
    }
    Ok(loaded)
}

fn environment_settings() -> Vec<Setting> {
    let names = [
        ("AGENT_MODEL", "model"),
        ("AGENT_TEAM_DATABASE", "team.database"),
        ("OPENAI_BASE_URL", "providers.openai.base_url"),
    ];
    let set = names.iter().filter_map(|(name, key)| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
        Some(((*key).to_owned(), Value::String(value), (*name).to_owned()))
    });
    let mut set: Vec<_> = set.collect();
    let no_memory = std::env::var("AGENT_NO_MEMORY").unwrap_or_default();
    if !matches!(no_memory.as_str(), "" | "0" | "false") {
        let (key, off) = ("learning.enabled".to_owned(), Value::Boolean(false));
        set.push((key, off, "AGENT_NO_MEMORY".to_owned()));
    }
    set
}

fn command_line_settings(
    tools: &ToolOptions,
    run: Option<&RunArgs>,
) -> Result<Vec<Setting>, OpenError> {
    let mut values = Vec::new();
    for assignment in &tools.set {
        let (key, value) = parse_assignment(assignment)?;
        if !key.starts_with(PROMPT_KEY_PREFIX) {
            let parsed = toml::from_str::<toml::Table>(&format!("value = {value}")).ok();
            let parsed = parsed.and_then(|mut table| table.remove("value"));
            let value = parsed.unwrap_or_else(|| value.into());
            values.push((key.to_owned(), value, "--set".to_owned()));
        }
    }
    let mode = tools.permission_mode.map(|given| given.mode.as_str().into());
    values.extend(set_options([
        ("permissions.mode", mode, "--permission-mode"),
        ("permissions.mode", tools.yolo.then(|| PermissionMode::Full.as_str().into()), "--yolo"),
        ("permissions.allow", list(&tools.allow), "--allow"),
        ("permissions.deny", list(&tools.deny), "--deny"),
    ]));
    values.extend(tools.rules.settings(run.is_none())?);
    let Some(run) = run else { return Ok(values) };
    let RunArgs { model, limits, .. } = run;
    values.extend(set_options([
        ("model", text(model.model.as_ref()), "--model"),
        ("effort", model.effort.map(|effort| effort.as_str().into()), "--effort"),
        ("checks.commands", list(&limits.check), "--check"),
        ("limits.max_turns", limits.max_turns.map(|n| i64::from(n).into()), "--max-turns"),
        ("learning.enabled", run.no_memory.then(|| false.into()), "--no-memory"),
        ("limits.max_budget_usd", limits.max_budget_usd.map(Into::into), "--max-budget-usd"),
        ("limits.timeout", text(run.timeout.as_ref()), "--timeout"),
    ]));
    Ok(values)
}

fn set_options<const N: usize>(options: [(&str, Option<Value>, &str); N]) -> Vec<Setting> {
    let set = options.into_iter();
    set.filter_map(|(key, value, option)| Some((key.to_owned(), value?, option.to_owned())))
        .collect()
}

fn text(given: Option<&String>) -> Option<Value> {
    given.map(|text| text.as_str().into())
}

fn list(items: &[String]) -> Option<Value> {
    let values: Vec<Value> = items.iter().map(|item| item.as_str().into()).collect();
    (!values.is_empty()).then(|| values.into())
}

fn parse_assignment(assignment: &str) -> Result<(&str, &str), OpenError> {
    let parts = assignment.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
    parts.ok_or_else(|| OpenError::Usage(format!("--set {assignment:?}: write KEY=VALUE")))
}

fn prompt_overrides(
    tools: &ToolOptions,
    compatible: &CompatibleOptions,
) -> Result<BTreeMap<String, String>, OpenError> {
    let mut prompts = compatible.prompt_overrides()?;
    for assignment in &tools.set {
        let (key, file) = parse_assignment(assignment)?;
        let Some(name) = key.strip_prefix(PROMPT_KEY_PREFIX) else { continue };
        let text = disk::read_small_text(Path::new(file))
            .map_err(|error| OpenError::Usage(format!("--set {key}: {file}: {error}")))?;
        prompts.insert(name.to_owned(), text);
    }
    Ok(prompts)
}

fn server_settings(options: &ModelOptions, model: &str) -> Vec<Setting> {
    // `auto`, or a plain name, with a server on the command line uses the `openai` provider.
    let provider = model.split_once('/').map_or("openai", |(provider, _)| provider);
    // `qwen3:8b` is a name, too.
    let is_name = options.base_url.is_some()
        && model != "auto"
        && !model.contains('/')
        && !config::is_file_model(model);
    let whole = is_name.then(|| format!("{provider}/{model}"));
    let table = format!("providers.{provider}");
    set_options([
        (&format!("{table}.base_url"), text(options.base_url.as_ref()), "--base-url"),
        (&format!("{table}.api_key_env"), text(options.api_key_env.as_ref()), "--api-key-env"),
        ("model", text(whole.as_ref()), "--model"),
    ])
}
