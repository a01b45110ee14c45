//! `agent doctor`: checks the installation, and explains how to fix problems.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::options::{self, ModelOptions, RunArgs, ToolOptions};
use super::sandbox_report;
use crate::app::{
    self, HostPrograms, McpServers, OpenError, Options, StateDirs, Storage, WritableDirs,
};
use crate::config::{self, Config, LoadedConfig, ResolvedModel, UserDirs};
use agent_engine::mcp::ServerState;
use agent_host::exec::Command;
use agent_learning::store::SqliteStore;
use agent_model::Endpoint;
use agent_protocol::control::SessionControl;
use agent_protocol::format_thousands;
use agent_protocol::model::{ModelErrorKind, WindowSource};
use agent_protocol::prompt::{Prompt, Prompts};
use agent_protocol::provider::TextCallMode;

const LIST_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
const SERVER_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Ask no server
    #[arg(long)]
    offline: bool,
    #[command(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    options: ToolOptions,
}

#[derive(Default)]
pub(super) struct DoctorReport {
    out: String,
    failed: bool,
}

impl DoctorReport {
    pub(super) fn pass(&mut self, what: &str, how: &str) {
        self.out.push_str(&format!("✓ {what:<10} {how}\n"));
    }

    /// A limitation that does not prevent the program from working.
    pub(super) fn warn(&mut self, what: &str, how: &str) {
        self.out.push_str(&format!("! {what:<10} {how}\n"));
    }

    pub(super) fn fail(&mut self, what: &str, how: &str) {
        self.failed = true;
        self.out.push_str(&format!("✗ {what:<10} {how}\n"));
    }
}

pub(super) fn run(args: &DoctorArgs) -> u8 {
    let control = SessionControl::default();
    let work = async {
        let mut report = DoctorReport::default();
        examine(args, &control, &mut report).await;
        agent_ui::print_text(&report.out);
        u8::from(report.failed)
    };
    super::block_on(work, &control)
}

async fn examine(args: &DoctorArgs, control: &SessionControl, report: &mut DoctorReport) {
    let root = match options::project_root(args.options.cwd.as_deref()) {
        Ok(root) => root,
        Err(error) => return report.fail("folder", &error.to_string()),
    };
    let add_dirs = args.options.add_dir.clone();
    let dirs = UserDirs::find();
    let run = RunArgs { model: args.model.clone(), ..RunArgs::default() };
    let loaded = options::load_config(&root, dirs.as_ref(), &args.options, Some(&run));
    let default = Config::default();
    let config = loaded.as_ref().map_or(&default, |loaded| &loaded.config);
    let outside = HostPrograms::from_config(config, &root, &add_dirs);
    examine_machine(&root, &outside, control, report).await;
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(error) => return report.fail("config", &error.to_string()),
    };
    let setup =
        DoctorSetup { root, add_dirs, config: loaded, dirs, contacts_server: !args.offline };
    setup.examine(control, report).await;
}

async fn examine_machine(
    root: &Path,
    outside: &HostPrograms,
    control: &SessionControl,
    report: &mut DoctorReport,
) {
    report.pass("program", &format!("agent {}", env!("CARGO_PKG_VERSION")));
    let shown = root.display().to_string();
    if rustix::fs::access(root, rustix::fs::Access::WRITE_OK).is_ok() {
        report.pass("folder", &shown);
    } else {
        report.warn("folder", &format!("{shown} cannot be written"));
    }
    let exec = outside.exec();
    for (what, line, missing) in [
        ("bash", "echo $BASH_VERSION", "install bash: the tool Bash and the checks need it"),
        ("git", "git --version", "install git to see what a task changed; nothing else needs it"),
    ] {
        let line =
            Command::new(line.to_owned(), outside.working_directory(), Duration::from_secs(10));
        match exec.run(line, &control.cancellation_token()).await {
            Ok(outcome) if outcome.exit_code == Some(0) => {
                report.pass(what, outcome.stdout.text.trim());
            }
            Ok(_) => report.warn(what, missing),
            Err(error) => report.fail(what, &format!("{error}; {missing}")),
        }
    }
}

pub(super) struct DoctorSetup {
    root: PathBuf,
    add_dirs: Vec<PathBuf>,
    config: LoadedConfig,
    dirs: Option<UserDirs>,
    contacts_server: bool,
}

impl DoctorSetup {
    fn examine_checkpoints(&self, report: &mut DoctorReport) {
        let config = &self.config.config.checkpoints;
        let own = StateDirs::new(self.dirs.as_ref());
        let workspace = app::open_workspace(&self.root, &self.add_dirs, &own);
        let (Ok(workspace), Ok(limits)) = (workspace, app::checkpoint_limits(config)) else {
            return;
        };
        let storage = Storage::open_or_create(&self.root, self.dirs.as_ref());
        let gap = if config.enabled {
            storage.notice.filter(|_| storage.is_ephemeral)
        } else {
            Some("checkpoints.enabled is false".to_owned())
        };
        if let Some(gap) = gap {
            let effect = "nothing can be undone, and destructive commands ask";
            report.warn("undo", &format!("{gap}: {effect}"));
        } else if let Some(n) = workspace.count_covered(limits) {
            let n = format_thousands(n as u64);
            report.pass("undo", &format!("checkpoints cover {n} files"));
        } else {
            let n = format_thousands(limits.max_files as u64);
            let why = format!(
                "the project has more than {n} files (checkpoints.max_files): changes by commands cannot be \
                 undone, and destructive commands ask"
            );
            report.warn("undo", &why);
        }
    }

    async fn examine_servers(&self, report: &mut DoctorReport) {
        if self.config.config.mcp.servers.is_empty() {
            return;
        }
        let writable = WritableDirs::from_config(&self.config.config, &self.root, &self.add_dirs);
        let mcp = match McpServers::from_config(&self.config, &writable, self.dirs.as_ref(), &[]) {
            Ok(mcp) => mcp,
            Err(error) => return report.fail("mcp", &error.to_string()),
        };
        for notice in &mcp.notices {
            report.warn("mcp", notice);
        }
        let Some(servers) = &mcp.servers else { return };
        if self.contacts_server {
            servers.start();
            _ = tokio::time::timeout(SERVER_TIMEOUT, servers.wait_until_ready(None)).await;
        }
        for server in servers.states() {
            let shown = server.to_string();
            match server.state {
                ServerState::Idle | ServerState::Connected(_) => report.pass("mcp", &shown),
                ServerState::Connecting | ServerState::Failed(_) => report.warn("mcp", &shown),
            }
        }
        mcp.close().await;
    }

    /// The server is not contacted: the chat shows whether it responds.
    pub(super) fn from_chat(options: &Options, add_dirs: &[PathBuf], model: &str) -> Self {
        let mut config = options.config.clone();
        model.clone_into(&mut config.config.model);
        let (root, add_dirs) = (options.root.clone(), add_dirs.to_vec());
        Self { root, add_dirs, config, dirs: options.dirs.clone(), contacts_server: false }
    }

    /// Blocks: reads the memory, and tests the sandbox.
    pub(super) fn report(&self, control: &SessionControl) -> std::io::Result<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut report = DoctorReport::default();
        runtime.block_on(async {
            examine_machine(&self.root, &self.host_programs(), control, &mut report).await;
            self.examine(control, &mut report).await;
        });
        Ok(report.out)
    }

    fn host_programs(&self) -> HostPrograms {
        HostPrograms::from_config(&self.config.config, &self.root, &self.add_dirs)
    }

    async fn examine(&self, control: &SessionControl, report: &mut DoctorReport) {
        let (loaded, dirs) = (&self.config, self.dirs.as_ref());
        report.pass("config", &format!("{} keys set", loaded.origins.len()));
        self.examine_checkpoints(report);
        for warning in &loaded.warnings {
            report.warn("config", warning);
        }
        examine_memory(&loaded.config, dirs, report);
        self.examine_servers(report).await;
        let own = StateDirs::new(dirs);
        match app::open_workspace(&self.root, &self.add_dirs, &own) {
            Ok(workspace) => {
                sandbox_report::examine_sandbox(loaded, &workspace, &own, report);
            }
            Err(error) => report.fail("folder", &error.to_string()),
        }
        if let Some(path) = loaded.config.model.strip_prefix("script:") {
            return match app::read_script(path) {
                Ok(_) => report.pass("model", &loaded.config.model),
                Err(error) => report.fail("model", &error.to_string()),
            };
        }
        let variable = |name: &str| std::env::var(name).ok();
        let resolved = match config::resolve_model(&loaded.config, &variable) {
            Ok(None) if self.contacts_server => {
                match app::find_server_model(&loaded.config).await {
                    Ok(resolved) => Ok(Some(resolved)),
                    Err(OpenError::NoModel(why)) => return report.warn("model", &why),
                    Err(error) => return report.fail("model", &error.to_string()),
                }
            }
            resolved => resolved,
        };
        match resolved {
            Ok(Some(resolved)) => self.examine_model(&resolved, control, report).await,
            Ok(None) => report.warn(
                "model",
                "auto, and no key is set: a local server is looked for at the start of a task; \
                 set OPENAI_API_KEY or name a model with --model; `agent models` lists what can be used",
            ),
            Err(error) => report.fail("model", &error.to_string()),
        }
    }

    async fn examine_model(
        &self,
        resolved: &ResolvedModel,
        control: &SessionControl,
        report: &mut DoctorReport,
    ) {
        let LoadedConfig { config, prompts, .. } = &self.config;
        let what = format!("{} at {}", resolved.id, resolved.base_url);
        if self.contacts_server {
            let programs = self.host_programs();
            match app::open_endpoint(config, resolved, prompts, &programs, control).await {
                Ok(endpoint) => {
                    let model = (endpoint.id.clone(), endpoint.model.clone());
                    agent_model::ask_windows(&endpoint, &[model]).await;
                    examine_server(&endpoint, &what, prompts, report).await;
                }
                Err(error) => report.fail("model", &error.to_string()),
            }
        } else {
            report.pass("model", &what);
        }
        let facts = app::model_facts(config, &resolved.id);
        if facts.window.source == WindowSource::Assumed {
            let key = format!("models.\"{}\".context_window", resolved.id);
            let said = format!("{}; set {key} in the configuration", facts.describe());
            report.warn("facts", &said);
        } else {
            report.pass("facts", &facts.describe());
        }
    }
}

/// Sends at most three small requests: the list of models, and a message with a tool, and without it if the model did
/// not call it.
async fn examine_server(
    endpoint: &Endpoint,
    what: &str,
    prompts: &Prompts,
    report: &mut DoctorReport,
) {
    const MESSAGE: Prompt = Prompt::named("doctor/message.md");
    const TOOL: Prompt = Prompt::named("doctor/tool.md");
    let listed = match agent_model::list_models(endpoint, LIST_TIMEOUT).await {
        Ok(models) if models.contains(&endpoint.model) => {
            format!("lists {} models, with this one", models.len())
        }
        Ok(models) => format!("lists {} models, without this one", models.len()),
        Err(error) if error.kind == ModelErrorKind::Unavailable => {
            return report.fail("model", &error.to_string());
        }
        Err(_) => "does not list its models".to_owned(),
    };
    let (message, tool) = (prompts.text(MESSAGE).trim_end(), prompts.text(TOOL).trim_end());
    let ask = async |tool| agent_model::probe(endpoint, message, tool, ANSWER_TIMEOUT).await;
    let answer = ask(Some(tool)).await;
    let may_lack_tools = match &answer {
        // The counts of both requests are compared.
        Ok(found) => !found.calls_tools && found.request_tokens.is_some(),
        Err(error) => error.message.contains("tool"),
    };
    let is_described = endpoint.dialect.text_calls == Some(TextCallMode::Described);
    let without_tools = if may_lack_tools && !is_described { ask(None).await.ok() } else { None };
    let provider = endpoint.id.split_once('/').map_or("", |(provider, _)| provider);
    let advice = format!("set providers.{provider}.dialect.text_calls = \"described\"");
    let found = match answer {
        Ok(found) => found,
        Err(error) if without_tools.is_some() => {
            return report.fail("model", &format!("{error}; without tools it answers: {advice}"));
        }
        Err(error) => return report.fail("model", &error.to_string()),
    };
    report.pass("model", what);
    let streamed = if found.streams { "streams" } else { "does not stream" };
    let called = if found.calls_tools { "calls tools" } else { "did not call a tool" };
    let n = 2 + u8::from(without_tools.is_some());
    let said = format!("{listed}; {streamed}; {called} (tried with {n} small requests)");
    match (without_tools.and_then(|other| other.request_tokens), found.request_tokens) {
        _ if found.calls_tools => report.pass("server", &said),
        _ if is_described => report.warn("server", &said),
        (Some(other), Some(tokens)) if other == tokens => {
            let why = format!("it drops the tools: it counts {tokens} tokens with and without one");
            report.warn("server", &format!("{said}; {why}; {advice}"));
        }
        _ => report.warn("server", &format!("{said}; if it never does, {advice}")),
    }
}

fn examine_memory(config: &Config, dirs: Option<&UserDirs>, report: &mut DoctorReport) {
    if !config.learning.enabled {
        let off = "off: nothing is learnt from failures; [learning] enabled turns it on";
        return report.warn("memory", off);
    }
    let file = match app::memory_file(config, dirs) {
        Ok(file) => file,
        Err(error) => return report.fail("memory", &error.to_string()),
    };
    let shown = file.display().to_string();
    match SqliteStore::new(file, |line| agent_ui::print_notice(&line)).check_health() {
        Ok(None) => report.pass("memory", &format!("{shown} (made when something is learnt)")),
        Ok(Some(health)) if health.damage.is_empty() => {
            let (n_lessons, n_traces) = (health.n_lessons, health.n_traces);
            let size = format_thousands(health.bytes);
            let contents = format!("{n_lessons} items, {n_traces} traces, {size} bytes");
            report.pass("memory", &format!("{shown}: {contents}"));
        }
        Ok(Some(health)) => {
            let damage = health.damage.join("; ").replace('\n', " ");
            let fix =
                "`agent memory list --all --json` shows what can be read; then move the file away";
            report.fail("memory", &format!("{shown} is damaged: {damage}; {fix}"));
        }
        Err(error) => report.fail("memory", &error.to_string()),
    }
}
