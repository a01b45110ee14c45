//! What the configuration means: one typed [`Config`], and where each value came from.
//!
//! Layers, each over the one before: built-in defaults, the user's file, the project's file, the
//! environment, the command line. A project's file can not set what would harm a user who only opened
//! a folder (keys, endpoints, permissions, checks), unless the user trusts the folder.

mod layers;
mod models;
mod providers;
mod types;

pub use layers::{ConfigError, Loaded, Origin, Sources, load};
pub use models::known;
pub use providers::{Provider, Resolved, presets, resolve};
pub use types::{
    AskModel, Breaker, Checks, Config, Context, Learning, Limits, ModelTable, Permissions,
    ProviderTable, Record, Sandbox, SandboxBackend, SandboxNetwork, Ui, UiEditing, UiScreen,
    UiTheme,
};

use std::collections::HashSet;
use std::fs::TryLockError;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The name of the agent's folder in a project.
pub const AGENT_DIR: &str = ".agent";

/// The user's own folders, as XDG names them.
#[derive(Clone, Debug)]
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
    /// From the environment; `None` where there is not even a home.
    pub fn find() -> Option<Self> {
        use etcetera::BaseStrategy as _;
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

    /// The links in the configuration, as people keep theirs: what they lead to is the configuration as well, and so are
    /// the links in that. Not all of them where there are very many.
    pub fn linked(&self) -> Vec<PathBuf> {
        const MOST: usize = 1_000;
        let (mut links, mut met, mut n_entries) = (Vec::new(), HashSet::new(), 0);
        let mut next = vec![self.config.clone()];
        while let Some(folder) = next.pop() {
            let Ok(real) = folder.canonicalize() else { continue };
            if !met.insert(real.clone()) {
                continue;
            }
            for entry in std::fs::read_dir(real).into_iter().flatten().flatten() {
                let (path, kind) = (entry.path(), entry.file_type());
                n_entries += 1;
                if n_entries > MOST {
                    return links;
                }
                if kind.is_ok_and(|kind| kind.is_symlink()) {
                    links.push(path.clone());
                }
                if entry.file_name() != ".git" && path.is_dir() {
                    next.push(path);
                }
            }
        }
        links
    }

    /// The links among what the agent itself writes in its folders.
    pub fn linked_records(&self) -> Vec<PathBuf> {
        let folders = [&self.state, &self.data].into_iter().flat_map(std::fs::read_dir);
        let paths = folders.flatten().flatten().map(|entry| entry.path());
        paths.filter(|path| path.is_symlink()).collect()
    }

    /// The file in which trusted folders stand, one a line.
    pub fn trusted_file(&self) -> PathBuf {
        self.state.join("trusted")
    }
}

/// The folders of which the user has said that they may configure everything.
pub fn trusted(dirs: Option<&UserDirs>) -> Vec<PathBuf> {
    let text = dirs.and_then(|dirs| std::fs::read_to_string(dirs.trusted_file()).ok());
    text.iter().flat_map(|text| text.lines()).map(PathBuf::from).collect()
}

/// This folder is one of them from now on.
pub fn trust(dirs: &UserDirs, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(&dirs.state)?;
    let _lock = locked(dirs)?;
    let mut file =
        std::fs::OpenOptions::new().create(true).append(true).open(dirs.trusted_file())?;
    writeln!(file, "{}", folder.display())
}

/// This folder is none of them any more.
pub fn forget_trust(dirs: &UserDirs, folder: &Path) -> io::Result<()> {
    let _lock = locked(dirs)?;
    let file = dirs.trusted_file().canonicalize()?;
    let text = std::fs::read_to_string(&file)?;
    // At once, so that no other folder is lost with it.
    let mut new = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(&dirs.state))?;
    for line in text.lines().filter(|line| Path::new(line) != folder) {
        writeln!(new, "{line}")?;
    }
    new.persist(&file)?;
    Ok(())
}

/// One at a time writes who is trusted; nobody waits for long.
fn locked(dirs: &UserDirs) -> io::Result<std::fs::File> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let folder = std::fs::File::open(&dirs.state)?;
    let begun = Instant::now();
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(folder),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() > PATIENCE => {
                let message = format!("somebody holds {} locked", dirs.state.display());
                return Err(io::Error::other(message));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// This folder is one of them.
pub fn is_trusted(dirs: Option<&UserDirs>, root: &Path) -> bool {
    trusted(dirs).iter().any(|folder| folder == root)
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
