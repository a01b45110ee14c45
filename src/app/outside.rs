//! Programs that run as the user, outside the sandbox: none of them is one that a command of the agent could have
//! put there, nor takes anything from a folder that commands write.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::disk;
use crate::exec::Exec;

/// Variables that name folders, or files, from which programs take what they run.
const LISTS: &[&str] = &[
    "PATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "NODE_PATH",
    "PERL5LIB",
    "PERLLIB",
    "RUBYLIB",
    "CLASSPATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
];

/// Where such programs run, and with what.
#[derive(Clone, Debug)]
pub struct Outside {
    /// What commands may write.
    places: Vec<PathBuf>,
}

impl Outside {
    /// Outside of these places, which are canonical.
    pub fn of(places: Vec<PathBuf>) -> Self {
        Self { places }
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

    /// A list without what is relative or lies in one of the places; not at all where nothing is left.
    fn variable(&self, name: OsString, value: OsString) -> Option<(OsString, OsString)> {
        if !LISTS.iter().any(|list| name == *list) {
            return Some((name, value));
        }
        let is_outside = |path: &Path| path.is_absolute() && !disk::is_below(path, &self.places);
        let kept = std::env::split_paths(&value).filter(|path| is_outside(path));
        let kept = std::env::join_paths(kept).ok().filter(|kept| !kept.is_empty())?;
        Some((name, kept))
    }
}
