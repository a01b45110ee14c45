//! Programs that run as the user, outside the sandbox: none of them is one that a command of the agent could have
//! put there, nor takes anything from a folder that commands write.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::gate;
use crate::config::Config;
use crate::disk;
use crate::exec::Exec;

/// Lists of folders: what of them lies elsewhere is kept.
const LISTS: &[&str] = &[
    "PATH",
    "LD_LIBRARY_PATH",
    "MANPATH",
    "XDG_CONFIG_DIRS",
    "XDG_DATA_DIRS",
    "PYTHONPATH",
    "NODE_PATH",
    "PERL5LIB",
    "RUBYLIB",
    "CLASSPATH",
];
/// These say where the user himself is at home.
const OWN: &[&str] =
    &["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"];

/// Where such programs run, and with what.
#[derive(Clone, Debug)]
pub struct Outside {
    /// What commands may write.
    places: Vec<PathBuf>,
}

impl Outside {
    /// Outside of these places, which are canonical. Outside of `/` there is nothing: it counts for none.
    pub fn of(mut places: Vec<PathBuf>) -> Self {
        places.retain(|place| place.parent().is_some());
        Self { places }
    }

    /// Outside of a project, and of what its commands may write.
    pub fn around(config: &Config, root: &Path, added: &[PathBuf]) -> Self {
        Self::of(gate::places_around(config, root, added))
    }

    /// The user's home, or the top where there is none outside.
    pub fn folder(&self) -> PathBuf {
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        let home = home.filter(|home| home.is_dir() && !disk::is_below(home, &self.places));
        home.unwrap_or_else(|| PathBuf::from("/"))
    }

    /// A folder for temporary files.
    pub fn temporary_folder(&self) -> PathBuf {
        disk::temporary_folder(&self.places)
    }

    /// The user's environment, also what is secret in it.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        std::env::vars_os().filter_map(|(name, value)| self.variable(name, value)).collect()
    }

    /// The same as text; variables that are none are left out.
    pub fn texts(&self) -> Vec<(String, String)> {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        self.environment().into_iter().filter_map(text).collect()
    }

    /// What starts them.
    pub fn exec(&self) -> Exec {
        Exec::with_environment(self.environment(), &[])
    }

    /// A list without what is relative or lies in one of the places, not at all where nothing is left; any other only
    /// where it names nothing in the places: many have programs run or files written (`NODE_OPTIONS`, `PERL5OPT`,
    /// `LD_PRELOAD`, `GIT_TRACE`).
    fn variable(&self, name: OsString, value: OsString) -> Option<(OsString, OsString)> {
        if OWN.iter().any(|own| name == *own) {
            return Some((name, value));
        }
        if !LISTS.iter().any(|list| name == *list) {
            let mut paths = value.as_bytes().split(|byte| b":;,= \t\n\"'".contains(byte));
            let is_clear = paths.all(|path| {
                let path = Path::new(OsStr::from_bytes(path));
                path.is_relative() || !disk::is_below(path, &self.places)
            });
            return is_clear.then_some((name, value));
        }
        let is_outside = |path: &Path| path.is_absolute() && !disk::is_below(path, &self.places);
        let kept = std::env::split_paths(&value).filter(|path| is_outside(path));
        let kept = std::env::join_paths(kept).ok().filter(|kept| !kept.is_empty())?;
        Some((name, kept))
    }
}
