//! What the configuration means: one typed [`Config`], and where each value came from.
//!
//! Layers, each over the one before: built-in defaults, the user's file, the project's file, the
//! environment, the command line. A project's file can not set what would harm a user who only opened
//! a folder (keys, endpoints, permissions, checks), unless the user trusts the folder as it is.

mod layers;
mod models;
mod needs;
mod own_prompts;
mod providers;
mod trust;
mod types;

pub use layers::{ConfigError, Loaded, Origin, Sources, Trust, load};
pub use models::known;
pub use needs::{Needs, Seal};
pub use providers::{Provider, Resolved, presets, resolve};
pub use trust::{forget_trust, trust, trust_in, trusted};
pub use types::{
    AskModel, Breaker, Checks, Config, Context, Learning, Limits, ModelTable, Permissions,
    ProviderTable, Record, Sandbox, SandboxBackend, SandboxNetwork, Ui, UiEditing, UiScreen,
    UiTheme,
};

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of the agent's folder in a project.
pub const AGENT_DIR: &str = ".agent";

/// The user's own folders, as XDG names them.
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
    /// From the environment, or from the user's passwd entry where HOME is missing or no absolute path; `None` where
    /// there is no home at all.
    pub fn find() -> Option<Self> {
        use etcetera::BaseStrategy as _;
        if std::env::home_dir().is_none_or(|home| !home.is_absolute()) {
            return Self::of_passwd_entry();
        }
        let strategy = etcetera::choose_base_strategy().ok()?;
        let state = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
        // (A home that is named from here would be another one in the next folder.)
        let own = |folder: PathBuf| std::path::absolute(folder.join("agent")).ok();
        Some(Self {
            config: own(strategy.config_dir())?,
            state: own(state)?,
            cache: own(strategy.cache_dir())?,
            data: own(strategy.data_dir())?,
        })
    }

    /// Below the home that the system's user database names.
    pub fn of_passwd_entry() -> Option<Self> {
        let user = nix::unistd::User::from_uid(nix::unistd::Uid::effective()).ok().flatten()?;
        user.dir.is_absolute().then(|| Self::below(&user.dir))
    }

    /// Where they are by default, for whom this is the home.
    pub fn below(home: &Path) -> Self {
        Self {
            config: home.join(".config/agent"),
            state: home.join(".local/state/agent"),
            cache: home.join(".cache/agent"),
            data: home.join(".local/share/agent"),
        }
    }

    /// The file in which trusted folders stand, one a line, behind what each was trusted with.
    pub fn trusted_file(&self) -> PathBuf {
        self.state.join(trust::FILE)
    }
}

/// A length of time as people write it: `90s`, `10m`, `1h 30m`, `500ms`; a bare number is seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .ok_or_else(|| format!("{text:?} is no length of time; write it like 90s, 10m or 1h30m"))
}
