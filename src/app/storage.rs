//! Where sessions are kept, and how one is found again.

use std::fs::Metadata;
use std::io::{ErrorKind, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::{OpenError, log_error};
use crate::config::{AGENT_DIR, UserDirs};
use crate::disk::{self, canonical_prefix};
use crate::record::{self, EVENTS, Log};

/// Where a project's sessions are kept.
#[derive(Clone)]
pub struct Storage {
    sessions: PathBuf,
    /// What the person should know about it.
    pub notice: Option<String>,
}

impl Storage {
    /// For a session that is about to be recorded: `.agent/` in the project, which is made, or the
    /// user's own folder where the project can not be written, or a link stands there: who made it, is not known.
    ///
    /// The root is canonical as it came: where a link stands on the way to it by now, somebody put that there.
    pub fn make(root: &Path, dirs: Option<&UserDirs>) -> Self {
        let own = root.join(AGENT_DIR);
        match prepare(&own) {
            Ok(()) => Self { sessions: own.join("sessions"), notice: None },
            Err(error) => {
                let state = dirs.map_or_else(|| own_temporary(root), |dirs| dirs.state.clone());
                Self::elsewhere(below(&state, root), &own, &error)
            }
        }
    }

    fn elsewhere(sessions: PathBuf, own: &Path, why: &std::io::Error) -> Self {
        let (own, why) = (own.display().to_string(), why.to_string());
        // Of a link in the way the error says itself where it is.
        let why = if why.contains(&own) { why } else { format!("{own}: {why}") };
        let notice = format!("{why}; sessions are kept in {}", sessions.display());
        Self { sessions, notice: Some(notice) }
    }

    /// For a look at what is recorded: nothing is made.
    pub fn find(root: &Path, dirs: Option<&UserDirs>) -> Self {
        let own = root.join(AGENT_DIR);
        let inside = Self { sessions: own.join("sessions"), notice: None };
        let state = dirs.map_or_else(|| temporary(root), |dirs| dirs.state.clone());
        let is_ours = dirs.is_some() || disk::open_folder(&state).is_ok_and(|it| is_own(&it));
        let elsewhere = below(&state, root);
        match check(&own) {
            Err(error) if error.kind() != ErrorKind::NotFound && is_ours => {
                Self::elsewhere(elsewhere, &own, &error)
            }
            Err(_) if is_ours && elsewhere.is_dir() => Self { sessions: elsewhere, notice: None },
            Ok(()) | Err(_) => inside,
        }
    }

    /// Where the events of a session stand.
    pub fn log_path(&self, id: &str) -> PathBuf {
        self.sessions.join(id).join(EVENTS)
    }

    /// Where the files are kept that a session has changed, as they were before.
    pub fn undo_folder(&self, id: &str) -> PathBuf {
        self.sessions.with_file_name("undo").join(id)
    }

    /// The ids of the recorded sessions, the latest last.
    pub fn sessions(&self) -> Vec<String> {
        let mut sessions: Vec<_> = std::fs::read_dir(&self.sessions)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                // (A folder may be called anything, and what it is called is written behind `--resume`.)
                let id = entry.file_name().into_string().ok().filter(|name| record::is_id(name))?;
                let log = disk::look_at(&self.log_path(&id)).ok().filter(Metadata::is_file)?;
                // One that was killed before its first event is no session.
                (log.len() > 0).then_some((log.modified().ok()?, id))
            })
            .collect();
        sessions.sort();
        sessions.into_iter().map(|(_, id)| id).collect()
    }

    /// A new session that begins as a copy of this one up to the end of a turn (`None`: of all that is
    /// recorded); its id.
    pub fn fork(&self, id: &str, up_to: Option<u32>) -> Result<String, OpenError> {
        let new = uuid::Uuid::now_v7().to_string();
        let now = format!("{:.3}", jiff::Timestamp::now());
        record::fork(&self.sessions.join(id), &self.sessions.join(&new), up_to, now)
            .map_err(|error| OpenError::Usage(error.to_string()))?;
        Ok(new)
    }

    /// Takes sessions away, with all that is kept for them, once `is_agreed` says so. None is, where
    /// somebody works on one of them.
    pub fn remove(
        &self,
        ids: &[String],
        is_agreed: impl FnOnce() -> Result<bool, OpenError>,
    ) -> Result<bool, OpenError> {
        let held = ids.iter().map(|id| Log::reserve(&self.log_path(id)));
        let held: Vec<Log> = held.collect::<Result<_, _>>().map_err(|error| log_error(&error))?;
        if !is_agreed()? {
            return Ok(false);
        }
        for folder in ids.iter().flat_map(|id| [self.undo_folder(id), self.sessions.join(id)]) {
            match disk::remove_folder(&folder) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let folder = folder.display();
                    return Err(OpenError::Usage(format!("{folder}: {error}; remove it by hand")));
                }
                Ok(()) | Err(_) => {}
            }
        }
        drop(held);
        Ok(true)
    }

    /// The session that is meant by this id, or the beginning of one; without any, the latest.
    pub fn choose(&self, id: Option<&str>) -> Result<String, OpenError> {
        let sessions = self.sessions();
        let Some(id) = id else {
            return sessions.last().cloned().ok_or_else(|| {
                let why = self.notice.iter().map(|notice| format!(" ({notice})"));
                let none = "no session of this project is recorded yet".to_owned();
                OpenError::Usage(none + &why.collect::<String>())
            });
        };
        let matching: Vec<&String> = sessions.iter().filter(|s| s.starts_with(id)).collect();
        match matching.as_slice() {
            [one] => Ok((*one).clone()),
            _ if sessions.iter().any(|session| session == id) => Ok(id.to_owned()),
            [] => Err(OpenError::Usage(format!(
                "no session {id} in {}; `agent session list` shows those there are",
                self.sessions.display()
            ))),
            several => Err(OpenError::Usage(format!(
                "{id} is the beginning of {} sessions; write more of it",
                several.len()
            ))),
        }
    }
}

/// A project's sessions in the user's own folder.
fn below(state: &Path, root: &Path) -> PathBuf {
    let hash = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
    canonical_prefix(state).join("projects").join(&hash[..16]).join("sessions")
}

/// What is the user's own folder where there is no home: not in the project.
fn temporary(root: &Path) -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    disk::temporary_folder(&[root.to_owned()]).join(format!("agent-{user}"))
}

/// The same, made; another one where somebody else was there first: everybody may write there.
fn own_temporary(root: &Path) -> PathBuf {
    let folder = temporary(root);
    if disk::make_folder(&folder, 0o700).is_ok_and(|folder| is_own(&folder)) {
        return folder;
    }
    let other = folder.with_extension(uuid::Uuid::now_v7().to_string());
    // (Where that fails, so does what is to be made in it.)
    _ = disk::make_folder(&other, 0o700);
    other
}

/// Nobody else writes in it.
fn is_own(folder: &OwnedFd) -> bool {
    rustix::fs::fstat(folder).is_ok_and(|stat| {
        stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o022 == 0
    })
}

/// Makes the agent's folder in a project: only what is meant to be committed is seen by git.
fn prepare(own: &Path) -> std::io::Result<()> {
    const IGNORE: &str =
        "*\n!config.toml\n!skills/\n!skills/**\n!commands/\n!commands/**\n!prompts/\n!prompts/**\n";
    let sessions = own.join("sessions");
    disk::make_folder(&sessions, 0o755)?;
    rustix::fs::access(&sessions, rustix::fs::Access::WRITE_OK)?;
    // A command is kept from reading what is there.
    disk::make_folder(&own.join("undo"), 0o700)?;
    check(own)?;
    match disk::create(&own.join(".gitignore"), 0o644) {
        Ok(mut file) => file.write_all(IGNORE.as_bytes()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether what is kept in it stays in the project. (What is made by a turn later is made without following links.)
fn check(own: &Path) -> std::io::Result<()> {
    disk::open_folder(&own.join("sessions"))?;
    match disk::look_at(&own.join("undo")) {
        Ok(data) if !data.is_dir() => Err(std::io::Error::other("undo in it is no folder")),
        Ok(_) | Err(_) => Ok(()),
    }
}
