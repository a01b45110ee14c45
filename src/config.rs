//! The configuration: one typed [`Config`], and the origin of each value.
//!
//! Layers in increasing precedence: built-in defaults, those of policies, the user's file, the project's file, the
//! environment, the command line; the requirements of policies. A project's file cannot set anything that would harm a user who only opens a folder
//! (keys, endpoints, permissions, checks), unless the user trusts the folder in its current state.

mod claude_settings;
mod edit;
mod hook_scripts;
mod hooks;
mod layers;
mod mcp;
mod model_types;
mod models;
mod own_prompts;
mod policy;
mod providers;
mod recorded_settings;
mod sensitive_settings;
mod trust;
mod types;

pub(crate) use claude_settings::hooks_of_settings;
pub use edit::{change_file, changeable_project_file, with_rule, with_server, without_server};
pub use hook_scripts::HookScripts;
pub use hooks::{Hook, HookTable, Matcher, describe_hooks};
pub(crate) use layers::{ALLOWED_TOOLS, DISALLOWED_TOOLS, SETTINGS};
pub use layers::{ConfigError, LoadedConfig, Origin, Setting, Sources, Trust, load};
pub use mcp::{MCP_FILE, Mcp, McpConfigServers, McpServer, ServerDirectory, parse_servers};
pub use model_types::{ModelTable, ProviderTable, Requests};
pub use models::{is_file_model, model_choices, model_table, model_window};
pub use policy::{MachinePolicy, Restrictions, read_policies, read_policy_text};
pub use providers::{
    ProviderPreset, ResolvedModel, key_variables, larger_window, presets, resolve_model,
    usable_presets, window_questions,
};
pub use recorded_settings::{config_from_record, settings_to_record};
pub use sensitive_settings::{SensitiveSettings, SettingsDigest};
pub use trust::{folder_trust, trust_folder};
pub use types::{
    Agents, Checkpoints, Checks, Config, Context, DistillationMode, Learning, Limits, Permissions,
    Record, Sandbox, Ui, UiTheme,
};

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use jiff::{Timestamp, Zoned, tz::TimeZone};
use serde_json::Value as Json;

pub const AGENT_DIR: &str = ".agent";

pub const FILE_NAME: &str = "config.toml";

/// The JSON of a file for another program, and its text; the error names the file. `None` if there is no such
/// file.
fn parse_file(name: &str, text: io::Result<String>) -> Option<Result<(Json, String), String>> {
    let text = match text {
        Ok(text) => text,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return None;
        }
        Err(error) => return Some(Err(format!("{name}: {error}"))),
    };
    Some(match serde_json::from_str(&text) {
        Ok(json) => Ok((json, text)),
        Err(error) => Err(format!("{name}:{}: {error}", error.line())),
    })
}

/// The line of a JSON string in a text; 1 if it is not found.
fn line_of(text: &str, string: &str) -> usize {
    let at = text.find(&Json::from(string).to_string()).unwrap_or_default();
    text[..at].matches('\n').count() + 1
}

/// The user's directories, according to XDG.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDirs {
    /// `$XDG_CONFIG_HOME/agent`.
    pub config: PathBuf,
    /// `$XDG_STATE_HOME/agent`.
    pub state: PathBuf,
    /// `$XDG_CACHE_HOME/agent`.
    pub cache: PathBuf,
    /// `$XDG_DATA_HOME/agent`.
    pub data: PathBuf,
}

impl UserDirs {
    /// According to the `XDG_…_HOME` variables, else below the home; `None` if one is not set and there is no
    /// home.
    pub fn find() -> Option<Self> {
        let by_default = Self::default_dirs();
        let named = |variable: &str, by_default: Option<&PathBuf>| {
            let folder = std::env::var_os(variable).map(PathBuf::from);
            let folder = folder.filter(|folder| folder.is_absolute());
            folder.map(|folder| folder.join("agent")).or_else(|| by_default.cloned())
        };
        Some(Self {
            config: named("XDG_CONFIG_HOME", by_default.as_ref().map(|dirs| &dirs.config))?,
            state: named("XDG_STATE_HOME", by_default.as_ref().map(|dirs| &dirs.state))?,
            cache: named("XDG_CACHE_HOME", by_default.as_ref().map(|dirs| &dirs.cache))?,
            data: named("XDG_DATA_HOME", by_default.as_ref().map(|dirs| &dirs.data))?,
        })
    }

    /// Below `HOME`; if that is no absolute path, below the home in the user's passwd entry.
    pub fn default_dirs() -> Option<Self> {
        let of_environment = std::env::var_os("HOME").map(PathBuf::from);
        let home = of_environment.filter(|home| home.is_absolute()).or_else(|| {
            let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective());
            let home = user.ok().flatten().map(|user| user.dir);
            home.filter(|home| home.is_absolute())
        })?;
        Some(Self::below_home(&home))
    }

    pub fn below_home(home: &Path) -> Self {
        Self {
            config: home.join(".config/agent"),
            state: home.join(".local/state/agent"),
            cache: home.join(".cache/agent"),
            data: home.join(".local/share/agent"),
        }
    }

    /// The file with trusted folders, one per line, each after the hashes of its settings.
    pub fn trusted_file(&self) -> PathBuf {
        self.state.join(trust::TRUSTED_FILE)
    }
}

/// The local time zone: `TZ`, or `/etc/localtime`.
///
/// A name in `TZ` is read as a file of the system's database. jiff would first list the whole database, which takes
/// longer than the rest of a start.
pub fn time_zone() -> TimeZone {
    let name = std::env::var("TZ").unwrap_or_default();
    let name = name.strip_prefix(':').unwrap_or(&name);
    let named = (!name.is_empty()).then(|| Path::new("/usr/share/zoneinfo").join(name));
    let named = named.and_then(|file| TimeZone::tzif(name, &fs::read(file).ok()?).ok());
    named.or_else(|| TimeZone::try_system().ok()).unwrap_or(TimeZone::UTC)
}

pub fn now() -> Zoned {
    Timestamp::now().to_zoned(time_zone())
}
