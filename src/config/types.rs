//! The keys, their types and their defaults. The documentation of each field is what
//! `agent config schema` shows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::protocol::control::{PermissionMode, Recovery};
use crate::protocol::tool::Direction;

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `provider/model`; `auto` looks for a key in the environment, then for a local server.
    pub model: String,
    /// `provider/model` for summaries and reflections; unset: `model`.
    pub light_model: Option<String>,
    /// Providers besides the presets, or changes of a preset.
    pub providers: BTreeMap<String, ProviderTable>,
    /// What is known of single models, by `provider/model`.
    pub models: BTreeMap<String, ModelTable>,
    /// Who may do what.
    pub permissions: Permissions,
    /// What holds commands.
    pub sandbox: Sandbox,
    /// What is kept to undo changes.
    pub checkpoints: Checkpoints,
    /// The commands that decide whether a task is done.
    pub checks: Checks,
    /// The model that verifies what the checks let pass.
    pub verify: Verify,
    /// What a task may cost.
    pub limits: Limits,
    /// How much the model is shown.
    pub context: Context,
    /// How failures are answered; `[reflection]` is another name of it.
    #[serde(alias = "reflection")]
    pub recovery: Recovery,
    /// When a tool that is ill rests.
    pub breaker: Breaker,
    /// What is recorded.
    pub record: Record,
    /// What is remembered of earlier sessions.
    pub learning: Learning,
    /// How the chat looks and behaves.
    pub ui: Ui,
}

/// One provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderTable {
    /// Wire format: `openai-chat`.
    pub wire: Option<Wire>,
    /// Where the server is, up to and including `/v1`.
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// A command that prints the key. It runs as you, outside the sandbox: in your home, without what of `PATH` and its
    /// kin lies in the project.
    pub api_key_command: Option<String>,
    /// More HTTP headers.
    pub headers: BTreeMap<String, String>,
    /// A file of certificates (PEM) to trust besides those of the system.
    pub ca_file: Option<String>,
    /// A proxy for this provider.
    pub proxy: Option<String>,
}

/// Wire formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// OpenAI Chat Completions, which most servers speak.
    OpenaiChat,
}

/// One model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelTable {
    /// The most tokens that a request and its answer may have together.
    #[schemars(range(min = 1024))]
    pub context_window: Option<u64>,
    /// The most tokens of an answer that are asked for.
    pub max_output_tokens: Option<u64>,
    /// US dollars per million tokens of request.
    pub price_in: Option<f64>,
    /// US dollars per million tokens of answer.
    pub price_out: Option<f64>,
    /// US dollars per million tokens of request that came from the provider's cache.
    pub price_cached: Option<f64>,
}

/// Who may do what. Rules are `Tool` or `Tool(pattern)`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Permissions {
    /// `read-only`, `ask`, `auto-edit` or `full`; unset: `auto-edit` for `run`.
    pub mode: Option<PermissionMode>,
    /// Calls that need no question.
    pub allow: Vec<String>,
    /// Calls that always need one.
    pub ask: Vec<String>,
    /// Calls that are never made.
    pub deny: Vec<String>,
}

/// What holds commands: the operating system, not their good will.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    /// Without it each command needs a rule, or mode `full`.
    pub enabled: bool,
    /// `auto`: namespaces where the system permits them, else Landlock. The others: these, or an error.
    pub backend: SandboxBackend,
    /// `loopback` (localhost of the session, nothing beyond it), `off` or `on`.
    pub network: SandboxNetwork,
    /// Directories that commands may write besides the project.
    pub extra_writable: Vec<String>,
    /// Files like `.env` are empty for commands. Otherwise their secret values are redacted in the output of commands.
    pub hide_secrets: bool,
    /// Ports of this machine's 127.0.0.1 that commands can reach on their own localhost.
    pub host_ports: Vec<u16>,
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
        }
    }
}

/// What enforces the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxBackend {
    /// The best of what there is.
    Auto,
    /// Namespaces, Landlock and seccomp.
    Namespaces,
    /// Landlock and seccomp alone.
    Landlock,
}

/// The network of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SandboxNetwork {
    /// None.
    Off,
    /// A loopback interface that the commands of a session share.
    Loopback,
    /// The network of the user.
    On,
}

/// The commands that decide whether a task is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Checks {
    /// Each must exit 0.
    pub commands: Vec<String>,
    /// How long each may take.
    pub timeout: String,
}

impl Default for Checks {
    fn default() -> Self {
        Self { commands: Vec::new(), timeout: "10m".into() }
    }
}

/// Verifies an accepted answer; off unless a model is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Verify {
    /// `provider/model` that is asked for evidence against the answer. It reads the project and changes nothing; an
    /// objection that it can show sends the answer back once. Its cost is part of the task's.
    pub model: Option<String>,
}

/// What a task may cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Answers of the model in one task.
    #[schemars(range(min = 1))]
    pub max_turns: u32,
    /// US dollars for one task; needs the model's price.
    pub max_budget_usd: Option<f64>,
    /// Time for one task.
    pub timeout: Option<String>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_turns: 100, max_budget_usd: None, timeout: None }
    }
}

/// How much the model is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Context {
    /// The share of the model's window from which on the older part of the conversation gives way to a
    /// summary.
    #[schemars(range(min = 0.1, max = 0.95))]
    pub compact_at: f64,
    /// So many of the last answers, with their results, are kept as they are.
    #[schemars(range(min = 1))]
    pub keep_rounds: usize,
    /// A tool's output of more lines is cut.
    #[schemars(range(min = 1))]
    pub tool_output_max_lines: usize,
    /// A tool's output of more bytes is cut.
    #[schemars(range(min = 1024))]
    pub tool_output_max_bytes: usize,
    /// Lines shown at each end of an output that is cut.
    #[schemars(range(min = 1))]
    pub tool_output_head_tail_lines: usize,
    /// Which part of it is shown: `head_tail`, `head` or `tail`.
    pub tool_output_truncate_direction: Direction,
}

impl Default for Context {
    fn default() -> Self {
        Self {
            compact_at: 0.8,
            keep_rounds: 6,
            tool_output_max_lines: 2000,
            tool_output_max_bytes: 50 * 1024,
            tool_output_head_tail_lines: 40,
            tool_output_truncate_direction: Direction::HeadTail,
        }
    }
}

/// What is kept to undo changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Checkpoints {
    /// Without checkpoints nothing can be undone, and destructive commands ask.
    pub enabled: bool,
    /// Changes by commands are not covered in a project with more files.
    pub max_files: usize,
    /// Larger files are not covered, unless a file tool changes them.
    pub max_file_bytes: u64,
    /// The contents kept for a project, in bytes.
    pub max_bytes: u64,
    /// Contents are kept so long.
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

/// When a tool that is ill rests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Breaker {
    /// So many failures of the tool itself in a row.
    #[schemars(range(min = 1))]
    pub threshold: u32,
    /// So long.
    pub cooldown: String,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { threshold: 3, cooldown: "300s".into() }
    }
}

/// What is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Record {
    /// Regular expressions of more that is secret.
    pub redact_extra: Vec<String>,
}

/// What is remembered of earlier sessions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Learning {
    /// Whether lessons are learnt and recalled.
    pub enabled: bool,
    /// The file; unset: `memory.db` in `$XDG_DATA_HOME/agent`.
    pub database: Option<String>,
    /// The most tokens of lessons at the start of a task.
    pub max_recalled_tokens: u64,
    /// The most milliseconds that the first task waits for the file to be opened.
    pub wait_ms: u64,
    /// Traces are kept for so many days.
    #[schemars(range(min = 1))]
    pub keep_days: u32,
    /// The most lessons; those used least are removed, never the user's own.
    #[schemars(range(min = 1))]
    pub max_items: usize,
    /// Whether a model is asked for lessons after a turn that had trouble: `auto` (the light model if one is configured,
    /// otherwise the main model) or `never`.
    pub distil: Distil,
}

/// Whether a model is asked for lessons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Distil {
    /// After a turn that had trouble.
    #[default]
    Auto,
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
            distil: Distil::default(),
        }
    }
}

/// How the chat looks and behaves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ui {
    /// `inline`: what is finished is printed into the terminal's own history; `full`: the whole screen.
    pub screen: UiScreen,
    /// `auto` asks the terminal for its background; `dark`, `light`.
    pub theme: UiTheme,
    /// `emacs` or `vi`: how the message is edited.
    pub editing: UiEditing,
    /// Tell when a long turn is over, or a question waits, and the window has no focus.
    pub notifications: bool,
    /// Other keys for what the chat does: `keys.transcript = ["f2"]`. `/keys` lists the names.
    pub keys: BTreeMap<String, Vec<String>>,
}

impl Default for Ui {
    fn default() -> Self {
        Self {
            screen: UiScreen::Inline,
            theme: UiTheme::Auto,
            editing: UiEditing::Emacs,
            notifications: true,
            keys: BTreeMap::new(),
        }
    }
}

/// How the chat is arranged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UiScreen {
    /// Below the terminal's own history.
    Inline,
    /// On the whole screen.
    Full,
}

/// The background that colours stand out from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UiTheme {
    /// What the terminal says.
    Auto,
    /// Dark.
    Dark,
    /// Light.
    Light,
}

/// How the message is edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UiEditing {
    /// With the keys of Emacs and of shells.
    Emacs,
    /// With the modes of vi.
    Vi,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: "auto".into(),
            light_model: None,
            providers: BTreeMap::new(),
            models: BTreeMap::new(),
            permissions: Permissions::default(),
            sandbox: Sandbox::default(),
            checkpoints: Checkpoints::default(),
            checks: Checks::default(),
            verify: Verify::default(),
            limits: Limits::default(),
            context: Context::default(),
            recovery: Recovery::default(),
            breaker: Breaker::default(),
            record: Record::default(),
            learning: Learning::default(),
            ui: Ui::default(),
        }
    }
}
