//! Configuration keys with their types and defaults. `agent config schema` prints the documentation of each
//! field.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::hooks::{self, HookTable};
use super::mcp::Mcp;
use super::model_types::{ModelTable, ProviderTable, Requests};
use super::policy::Restrictions;
use agent_protocol::control::{PermissionMode, Recovery};
use agent_protocol::provider::Effort;
use agent_protocol::settings::{SandboxBackend, SandboxNetwork};

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `provider/model`; `auto` searches the environment for a key, then for a local server.
    #[schemars(example = &"my-server/qwen3-coder")]
    pub model: String,
    /// `provider/model` for summaries and reflections; unset: `model`.
    #[schemars(example = &"openai/gpt-5.5-mini")]
    pub light_model: Option<String>,
    /// Models that answer for the rest of a turn if `model` is not available after all retries, or its quota is
    /// used up: the first, then the next.
    #[schemars(example = serde_json::json!(["anthropic/claude-sonnet-5"]))]
    pub fallback: Vec<String>,
    /// How much a model reasons before it answers: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`, as
    /// far as the model has it; unset: as the model does by default.
    #[schemars(example = &"high")]
    pub effort: Option<Effort>,
    /// A model and the effort that the user chose for it in the chat: not a setting.
    #[serde(skip)]
    pub chosen_effort: Option<(String, Effort)>,
    /// What policies of the machine restrict: not a setting.
    #[serde(skip)]
    pub restrictions: Restrictions,
    /// Sampling temperature; unset: the model's default.
    #[schemars(range(min = 0.0, max = 2.0))]
    #[schemars(example = 0.7)]
    pub temperature: Option<f32>,
    /// Providers besides the presets, or changes of a preset.
    pub providers: BTreeMap<String, ProviderTable>,
    /// Facts about single models, by `provider/model`.
    pub models: BTreeMap<String, ModelTable>,
    /// Requests to models: time limits and retries.
    pub requests: Requests,
    /// Permission mode and rules.
    pub permissions: Permissions,
    /// The sandbox of commands.
    pub sandbox: Sandbox,
    /// Checkpoints, which allow changes to be undone.
    pub checkpoints: Checkpoints,
    /// The commands that decide whether a task is done.
    pub checks: Checks,
    /// Worktrees and other copies of the project in which sessions work.
    pub worktree: Worktree,
    /// The model that verifies answers after the checks.
    pub verify: Verification,
    /// Limits of a task.
    pub limits: Limits,
    /// Sub-agents.
    pub agents: Agents,
    /// What the model receives.
    pub context: Context,
    /// Recovery from failures; `[reflection]` is an alias.
    #[serde(alias = "reflection")]
    pub recovery: Recovery,
    /// What is recorded.
    pub record: Record,
    /// Lessons of earlier sessions.
    pub learning: Learning,
    /// Lessons that several machines share. Only in your own configuration.
    pub team: Team,
    /// Searches in the web.
    pub web: Web,
    /// Tools of other programs.
    pub mcp: Mcp,
    /// Commands that are asked at fixed points of a session, by event.
    #[schemars(example = serde_json::json!({"PreToolUse": [{"matcher": "Bash", "command": "scripts/check-command"}]}))]
    #[serde(deserialize_with = "hooks::tables")]
    pub hooks: BTreeMap<String, Vec<HookTable>>,
    /// How you learn of a session in the background.
    pub notify: Notify,
    /// Appearance and behaviour of the chat.
    pub ui: Ui,
}

/// How you learn of a session in the background.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Notify {
    /// A line of bash, run like a hook when such a session waits for your permission or has ended; `AGENT_NOTIFICATION` says
    /// which.
    #[schemars(example = &"notify-send agent \"$AGENT_NOTIFICATION\"")]
    pub command: Option<String>,
}

/// Permission mode and rules. Rules are `Tool` or `Tool(pattern)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// `plan`, `read-only`, `ask`, `auto-edit` or `full`; unset: `auto-edit` for `run`.
    #[schemars(example = &"ask")]
    pub mode: Option<PermissionMode>,
    /// Calls that are allowed without asking.
    #[schemars(example = ["Bash(cargo test *)", "Edit(src/**)"])]
    pub allow: Vec<String>,
    /// Calls that always need approval.
    #[schemars(example = ["Bash(git push *)"])]
    pub ask: Vec<String>,
    /// Calls that are refused.
    #[schemars(example = ["Edit(migrations/**)"])]
    pub deny: Vec<String>,
}

/// The sandbox of commands, enforced by the operating system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    /// Without it each command needs a rule, or mode `full`.
    pub enabled: bool,
    /// `auto`: namespaces if the system permits them, else Landlock. The others: exactly these, or an error.
    pub backend: SandboxBackend,
    /// `loopback` (a localhost of the session's own), `off` or `on`.
    pub network: SandboxNetwork,
    /// Directories outside the project that commands may write.
    #[schemars(example = ["/var/tmp/build"])]
    pub extra_writable: Vec<String>,
    /// Commands cannot open files like `.env`. Otherwise their secret values are redacted in the output of commands.
    pub hide_secrets: bool,
    /// Ports of this machine's 127.0.0.1 that commands can reach on their own localhost.
    #[schemars(example = [5432])]
    pub host_ports: Vec<u16>,
    /// Limit of the processes and threads that one command may have at a time; needs namespaces, and a user other than root.
    pub max_processes: u32,
}

impl Default for Sandbox {
    fn default() -> Self {
        Self {
            enabled: true,
            backend: SandboxBackend::Auto,
            network: SandboxNetwork::Loopback,
            extra_writable: Vec::new(),
            hide_secrets: false,
            host_ports: Vec::new(),
            max_processes: 4096,
        }
    }
}

/// The commands that decide whether a task is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Checks {
    /// Each must exit 0.
    #[schemars(example = ["cargo test"])]
    pub commands: Vec<String>,
    /// Time limit of each.
    pub timeout: String,
}

impl Default for Checks {
    fn default() -> Self {
        Self { commands: Vec::new(), timeout: "10m".into() }
    }
}

/// Worktrees and other copies of the project (`--worktree`, `--attempts`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Worktree {
    /// Ignored files and directories that are copied as well, relative to the project.
    #[schemars(example = [".env", "node_modules"])]
    pub copy: Vec<String>,
    /// A command that prepares each new copy, run in it like a check.
    #[schemars(example = &"npm ci --offline")]
    pub setup: Option<String>,
}

/// Verifies an accepted answer; off unless a model is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Verification {
    /// `provider/model` that searches for evidence against the answer. It reads the project and changes
    /// nothing; an objection with valid evidence sends the answer back once. Its cost is part of the task's.
    #[schemars(example = &"openai/gpt-5.5")]
    pub model: Option<String>,
}

/// Limits of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Model calls per task.
    #[schemars(range(min = 1))]
    pub max_turns: u32,
    /// US dollars per task; only known prices count.
    #[schemars(example = 2.5)]
    pub max_budget_usd: Option<f64>,
    /// Time per task.
    #[schemars(example = &"30m")]
    pub timeout: Option<String>,
    /// How long a program that drives the session (`--input-format stream-json`) may take to answer whether a call may
    /// be made.
    pub answer_timeout: String,
    /// How long a session in the background waits for an answer of the user.
    pub background_answer_timeout: String,
}

impl Default for Limits {
    fn default() -> Self {
        let answer_timeout = "10m".to_owned();
        Self {
            max_turns: 100,
            max_budget_usd: None,
            timeout: None,
            answer_timeout,
            background_answer_timeout: "24h".to_owned(),
        }
    }
}

/// Limits of each sub-agent (Task); its cost counts for the limits of the task, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Agents {
    /// Number of sub-agents that work at the same time; further ones wait.
    #[schemars(range(min = 1))]
    pub max_concurrent: usize,
    /// Model calls.
    #[schemars(range(min = 1))]
    pub max_turns: u32,
    /// Tokens of all requests and answers together.
    #[schemars(range(min = 1))]
    pub max_tokens: u64,
    /// Time, including that of questions to you.
    pub timeout: String,
}

impl Default for Agents {
    fn default() -> Self {
        Self { max_concurrent: 3, max_turns: 50, max_tokens: 2_000_000, timeout: "30m".into() }
    }
}

/// What the model receives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Context {
    /// The share of the model's window at which the older part of the conversation is replaced by a summary.
    #[schemars(range(min = 0.1, max = 0.95))]
    pub compact_at: f64,
    /// Number of the latest model calls, with their results, that are kept unchanged.
    #[schemars(range(min = 1))]
    pub keep_rounds: usize,
    /// Limit of tokens of the names and descriptions of skills.
    pub max_skill_tokens: usize,
    /// Limit of lines of a tool's output; longer output is cut.
    #[schemars(range(min = 1))]
    pub tool_output_max_lines: usize,
    /// Limit of bytes of a tool's output; longer output is cut.
    #[schemars(range(min = 1024))]
    pub tool_output_max_bytes: usize,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            compact_at: 0.8,
            keep_rounds: 6,
            max_skill_tokens: 1000,
            tool_output_max_lines: 2000,
            tool_output_max_bytes: 50 * 1024,
        }
    }
}

/// Checkpoints, which allow changes to be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Checkpoints {
    /// Without checkpoints nothing can be undone, and destructive commands ask.
    pub enabled: bool,
    /// Limit of files in a project; with more, changes by commands are not covered.
    pub max_files: usize,
    /// Limit of a file's size; larger files are covered only if a file tool changes them.
    pub max_file_bytes: u64,
    /// Limit of the stored contents of a project, in bytes.
    pub max_bytes: u64,
    /// How long contents are kept.
    pub expire_after: String,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self {
            enabled: true,
            max_files: 100_000,
            max_file_bytes: 10 * 1024 * 1024,
            max_bytes: 512 * 1024 * 1024,
            expire_after: "720h".into(),
        }
    }
}

/// The event log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// Regular expressions of further secrets to mask.
    #[schemars(example = ["ACME-[0-9]{8}"])]
    pub redact_extra: Vec<String>,
    /// The key of SSH that signs receipts (`agent session receipt`).
    #[schemars(example = &"/home/me/.ssh/id_ed25519")]
    pub signing_key: Option<String>,
    /// Number of days after their last use that the sessions of a project are kept. Unset: all of them, since a
    /// session that is gone without notice costs more than its space on the disk.
    #[schemars(range(min = 1), example = 90)]
    pub keep_days: Option<u32>,
}

/// Lessons of earlier sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Learning {
    /// Whether lessons are learnt and recalled.
    pub enabled: bool,
    /// The file; unset: `memory.db` in `$XDG_DATA_HOME/agent`.
    #[schemars(example = &"/home/me/lessons.db")]
    pub database: Option<String>,
    /// Limit of tokens of lessons at the start of a task.
    pub max_recalled_tokens: u64,
    /// Limit of milliseconds that the first task waits for the file to be opened.
    pub wait_ms: u64,
    /// Number of days that traces are kept.
    #[schemars(range(min = 1))]
    pub keep_days: u32,
    /// Limit of lessons; the least used are removed, except those that you wrote.
    #[schemars(range(min = 1))]
    pub max_items: usize,
    /// Whether a model is asked for lessons after a turn with failures: `always` (the light model if one is
    /// configured, otherwise the main model), `auto` (not while all models are on local servers) or `never`.
    pub distil: DistillationMode,
}

/// Lessons that several machines share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Team {
    /// The URL of a PostgreSQL database; unset: nothing is shared. `agent team init` prepares it.
    #[schemars(example = &"postgres://agent@db.example.com/agent?sslmode=require")]
    pub database: Option<String>,
}

/// Whether a model is asked for lessons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DistillationMode {
    /// After a turn with failures, unless all models are on local servers.
    #[default]
    Auto,
    /// After a turn with failures.
    Always,
    /// Never.
    Never,
}

impl Default for Learning {
    fn default() -> Self {
        Self {
            enabled: true,
            database: None,
            max_recalled_tokens: 400,
            wait_ms: 5,
            keep_days: 90,
            max_items: 5000,
            distil: DistillationMode::default(),
        }
    }
}

/// Searches in the web.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Web {
    /// The service that answers `WebSearch`: `searxng`, `brave`, `tavily` or `exa`; unset: the provider's own search, if
    /// the model has one (`price_search`), else there is no such tool.
    #[schemars(example = &"searxng")]
    pub search: Option<String>,
    /// The address of the service; unset: its own, which all but SearXNG have.
    #[schemars(example = &"http://127.0.0.1:8888")]
    pub address: Option<String>,
    /// The environment variable that contains the key; unset: `BRAVE_API_KEY`, `TAVILY_API_KEY` or `EXA_API_KEY`.
    #[schemars(example = &"MY_SEARCH_KEY")]
    pub api_key_env: Option<String>,
}

/// Appearance and behaviour of the chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ui {
    /// `auto` queries the terminal's background; `dark`, `light`.
    pub theme: UiTheme,
    /// The items of the status line, in order: `mode`, `background`, `context`, `cost`, `model`,
    /// `branch`.
    pub statusline: Vec<String>,
    /// Notify when a long turn has ended, or a question waits, and the window has no focus.
    pub notifications: bool,
    /// Show the project and the current activity in the title of the window.
    pub title: bool,
    /// Other keys for actions of the chat: `keys.transcript = ["f2"]`. `/keys` lists the names.
    #[schemars(example = serde_json::json!({"transcript": ["f2"]}))]
    pub keys: BTreeMap<String, Vec<String>>,
}

impl Default for Ui {
    fn default() -> Self {
        Self {
            theme: UiTheme::Auto,
            statusline: ["mode", "background", "context", "cost", "model", "branch"]
                .map(Into::into)
                .into(),
            notifications: true,
            title: true,
            keys: BTreeMap::new(),
        }
    }
}

/// The background for which colours are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UiTheme {
    /// As reported by the terminal.
    Auto,
    /// Dark.
    Dark,
    /// Light.
    Light,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: "auto".into(),
            light_model: None,
            fallback: Vec::new(),
            effort: None,
            chosen_effort: None,
            restrictions: Restrictions::default(),
            temperature: None,
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
            requests: Requests::default(),
            permissions: Permissions::default(),
            sandbox: Sandbox::default(),
            checkpoints: Checkpoints::default(),
            checks: Checks::default(),
            worktree: Worktree::default(),
            verify: Verification::default(),
            limits: Limits::default(),
            agents: Agents::default(),
            context: Context::default(),
            recovery: Recovery::default(),
            record: Record::default(),
            learning: Learning::default(),
            team: Team::default(),
            web: Web::default(),
            mcp: Mcp::default(),
            hooks: BTreeMap::new(),
            notify: Notify::default(),
            ui: Ui::default(),
        }
    }
}
