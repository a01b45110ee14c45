//! Storage of a project's state, outside the project: sessions, event logs, spilled output and checkpoints.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::OpenError;
use crate::config::UserDirs;
use agent_host::workspace::{copy_directory, copy_journal};
use agent_protocol::disk::{self, canonical_prefix};
use agent_protocol::terminal_escape::escape_prose;
use agent_record::{EVENTS, Log, LogError};

/// A file in a state directory: contains the project's path.
const PATH_FILE: &str = "path";
/// Length of the end of an id that is displayed. Ids begin with the time, so those of one day begin alike.
const MIN_SHORT_ID: usize = 6;
/// A folder of a session that works in a copy of the project: the path of the copy, and its operations and contents.
pub(super) const WORK_COPY: &str = "copy";
/// Prefix of the name of a session's folder that is being deleted.
pub(super) const REMOVED_PREFIX: &str = "removed-";
/// Limits in characters: of a project's name in that of its state directory, and of a session's name.
const MAX_NAME: usize = 40;
const MAX_SESSION_NAME: usize = 80;

/// The state directory of one project: `$XDG_STATE_HOME/agent/projects/<name>-<hash of the path>/`.
#[derive(Clone, Debug)]
pub struct Storage {
    directory: PathBuf,
    /// No place is writable: the session is not recorded.
    pub is_ephemeral: bool,
    pub notice: Option<String>,
}

impl Storage {
    /// The storage of a session to be recorded: creates the directory in the first writable place.
    pub fn open_or_create(root: &Path, dirs: Option<&UserDirs>) -> Self {
        let places = candidate_places(dirs);
        let mut failed: Option<(PathBuf, io::Error)> = None;
        for place in &places {
            let directory = project_directory(place, root);
            match create_directory(&directory, root, place) {
                Ok(()) => {
                    let notice = failed.map(|(first, error)| {
                        let (first, directory) = (first.display(), directory.display());
                        format!("{first}: {error}; sessions are kept in {directory}")
                    });
                    return Self { notice, ..Self::in_directory(directory) };
                }
                Err(error) => {
                    failed.get_or_insert((directory, error));
                }
            }
        }
        let why = failed.map(|(first, error)| format!("{}: {error}; ", first.display()));
        let notice = format!(
            "{}this session is not recorded, and its changes cannot be undone; set XDG_STATE_HOME to a directory that \
             can be written",
            why.unwrap_or_default()
        );
        let directory =
            places.first().map(|place| project_directory(place, root)).unwrap_or_default();
        Self { directory, is_ephemeral: true, notice: Some(notice) }
    }

    pub(super) fn in_directory(directory: PathBuf) -> Self {
        Self { directory, is_ephemeral: false, notice: None }
    }

    /// The state directory for reading: creates nothing.
    pub fn find(root: &Path, dirs: Option<&UserDirs>) -> Self {
        let all: Vec<PathBuf> =
            readable_places(dirs).map(|place| project_directory(&place, root)).collect();
        let existing = all.iter().find(|directory| directory.join("sessions").is_dir());
        Self::in_directory(existing.or(all.first()).cloned().unwrap_or_default())
    }

    pub fn find_all(dirs: Option<&UserDirs>) -> Vec<Self> {
        let projects =
            readable_places(dirs).flat_map(|place| std::fs::read_dir(place.join("projects")));
        projects.flatten().flatten().map(|entry| Self::in_directory(entry.path())).collect()
    }

    /// The project with a session of this id, beginning or end of an id, or name; and the project's directory.
    pub fn find_session(
        id: &str,
        dirs: Option<&UserDirs>,
    ) -> Result<Option<(Self, PathBuf)>, OpenError> {
        let projects = Self::find_all(dirs).into_iter();
        let found: Vec<Self> =
            projects.filter(|storage| !storage.find_ids(id).is_empty()).collect();
        if found.len() > 1 {
            let sessions = found.iter().map(|storage| {
                let project = storage.project_dir().unwrap_or_default();
                format!(
                    "{} in {}",
                    storage.list_short_ids(&storage.find_ids(id)),
                    project.display()
                )
            });
            let sessions = sessions.collect::<Vec<_>>().join("; ");
            return Err(OpenError::Usage(format!(
                "{id} fits sessions of several projects: {sessions}; write more of the id, or name the project with -C DIR"
            )));
        }
        let Some(storage) = found.into_iter().next() else { return Ok(None) };
        let project = storage.project_dir().map_err(|error| {
            OpenError::Usage(format!("{}: {error}", storage.directory.join(PATH_FILE).display()))
        })?;
        Ok(Some((storage, project)))
    }

    pub fn project_dir(&self) -> io::Result<PathBuf> {
        let path = std::fs::read(self.directory.join(PATH_FILE))?;
        Ok(PathBuf::from(OsString::from_vec(path)))
    }

    pub(super) fn sessions_folder(&self) -> PathBuf {
        self.directory.join("sessions")
    }

    pub fn log_path(&self, id: &str) -> PathBuf {
        self.session_dir(id).join(EVENTS)
    }

    pub fn session_dir(&self, id: &str) -> PathBuf {
        self.sessions_folder().join(id)
    }

    /// Where the contents of the files are kept that the session changed.
    pub fn checkpoints_dir(&self, id: &str) -> PathBuf {
        match self.work_copy(id) {
            Some(_) => self.operations_dir(id).join("checkpoints"),
            None => self.directory.join("checkpoints"),
        }
    }

    /// Where the operations of a session are recorded.
    pub fn operations_dir(&self, id: &str) -> PathBuf {
        let folder = self.session_dir(id);
        if self.work_copy(id).is_some() { folder.join(WORK_COPY) } else { folder }
    }

    /// The copy of the project in which a session works, which may be gone.
    pub fn work_copy(&self, id: &str) -> Option<PathBuf> {
        let path = std::fs::read(self.session_dir(id).join(WORK_COPY).join(PATH_FILE)).ok()?;
        Some(PathBuf::from(OsString::from_vec(path)))
    }

    /// Records that a session works in a copy of the project.
    pub(super) fn set_work_copy(&self, id: &str, root: &Path) -> io::Result<()> {
        let folder = self.session_dir(id).join(WORK_COPY);
        disk::create_folder_all(&folder, 0o700)?;
        disk::replace_file(&folder.join(PATH_FILE), root.as_os_str().as_bytes())
    }

    /// From now on the session works in the project.
    pub(super) fn leave_work_copy(&self, id: &str) {
        _ = disk::remove_folder(&self.session_dir(id).join(WORK_COPY));
    }

    /// The name of the state directory, which no other project has.
    pub(super) fn name(&self) -> &OsStr {
        self.directory.file_name().unwrap_or_default()
    }

    /// The latest last.
    pub fn session_ids(&self) -> Vec<String> {
        self.ids_with_part("")
    }

    /// Shortens ids of sessions, so that each still fits only one session of all projects.
    pub fn short_ids(&self) -> ShortIds {
        let projects =
            self.directory.parent().and_then(|projects| std::fs::read_dir(projects).ok());
        let sessions = projects.into_iter().flatten().flatten();
        let sessions = sessions.filter_map(|it| std::fs::read_dir(it.path().join("sessions")).ok());
        let names = sessions.flatten().flatten().map(|it| it.file_name().into_string());
        ShortIds(names.flatten().collect())
    }

    pub fn short_id(&self, id: &str) -> String {
        self.short_ids().shorten(id)
    }

    fn list_short_ids(&self, ids: &[String]) -> String {
        let short = self.short_ids();
        ids.iter().map(|id| short.shorten(id)).collect::<Vec<_>>().join(", ")
    }

    /// Ids that begin or end with this; if there are none, those of sessions with this name.
    pub fn find_ids(&self, id: &str) -> Vec<String> {
        let found = self.ids_with_part(id);
        if !found.is_empty() || is_part_of_id(id) {
            return found;
        }
        let mut named = self.session_ids();
        named.retain(|session| self.session_name(session).as_deref() == Some(id));
        named
    }

    fn session_name(&self, id: &str) -> Option<String> {
        agent_record::read_overview(&self.log_path(id)).ok()?.name
    }

    /// The name for a session, or why it cannot have it.
    pub fn check_name(&self, id: &str, name: &str) -> Result<String, String> {
        let name = name.trim();
        if name.is_empty() {
            return Err("say the new name: /rename NAME".to_owned());
        }
        if escape_prose(name) != name || name.contains('\n') {
            return Err("a name is one line without control characters".to_owned());
        }
        if name.chars().count() > MAX_SESSION_NAME {
            let max = MAX_SESSION_NAME;
            return Err(format!("a name has at most {max} characters; choose a shorter one"));
        }
        if is_part_of_id(name) {
            return Err(format!(
                "{name} could be a part of a session's id: a name needs a character other than 0–9, a–f and -"
            ));
        }
        let mut others = self.session_ids().into_iter().filter(|other| other != id);
        match others.find(|other| self.session_name(other).as_deref() == Some(name)) {
            Some(other) => {
                let other = self.short_id(&other);
                Err(format!("session {other} is named {name} already; choose another name"))
            }
            None => Ok(name.to_owned()),
        }
    }

    fn ids_with_part(&self, part: &str) -> Vec<String> {
        let mut logs = self.logs();
        // An empty log of a process that was killed is no session.
        logs.retain(|log| is_id_match(&log.id, part) && log.bytes > 0);
        logs.into_iter().map(|log| log.id).collect()
    }

    /// The latest last.
    pub(super) fn logs(&self) -> Vec<StoredLog> {
        let entries = std::fs::read_dir(self.sessions_folder()).into_iter().flatten().flatten();
        let logs = entries.filter_map(|entry| {
            // A folder may have any name, which the user may copy after `--resume`.
            let id = entry.file_name().into_string().ok().filter(|id| agent_record::is_id(id))?;
            let log = disk::metadata_without_links(&self.log_path(&id)).ok();
            let log = log.filter(Metadata::is_file)?;
            Some(StoredLog { written: log.modified().ok()?, id, bytes: log.len() })
        });
        let mut logs: Vec<StoredLog> = logs.collect();
        logs.sort();
        logs
    }

    /// Forks this session up to the end of a turn (`None`: all of it); returns the new id.
    pub fn fork(&self, id: &str, up_to: Option<u32>) -> Result<String, OpenError> {
        let new = self.fork_conversation(id, up_to)?;
        let to = self.session_dir(&new);
        let copied = self.work_copy(id).map_or(Ok(()), |root| self.set_work_copy(&new, &root));
        copied
            .and_then(|()| {
                copy_journal(&self.operations_dir(id), &self.operations_dir(&new), up_to)?;
                let [from, to] = [id, new.as_str()].map(|id| self.checkpoints_dir(id));
                // In a copy of the project, each session has its own.
                if from == to || !from.is_dir() { Ok(()) } else { copy_directory(&from, &to) }
            })
            .map_err(|error| OpenError::Usage(format!("{}: {error}", to.display())))?;
        Ok(new)
    }

    /// Like [`Self::fork`], without the operations on files.
    pub(super) fn fork_conversation(
        &self,
        id: &str,
        up_to: Option<u32>,
    ) -> Result<String, OpenError> {
        let new = uuid::Uuid::now_v7().to_string();
        let now = format!("{:.3}", jiff::Timestamp::now());
        let (from, to) = (self.session_dir(id), self.session_dir(&new));
        agent_record::fork_session(&from, &to, up_to, now)
            .map_err(|error| OpenError::Usage(error.to_string()))?;
        Ok(new)
    }

    /// Deletes sessions with all of their data, if `is_agreed` returns true. If one of them is in use, none
    /// is deleted.
    pub fn delete_sessions(
        sessions: &[(Self, String)],
        is_agreed: impl FnOnce() -> Result<bool, OpenError>,
    ) -> Result<bool, OpenError> {
        let held = sessions.iter().map(|(storage, id)| {
            Log::reserve(&storage.log_path(id)).map_err(|error| storage.log_error(error))
        });
        let held: Vec<Log> = held.collect::<Result<_, _>>()?;
        if !is_agreed()? {
            return Ok(false);
        }
        for (storage, id) in sessions {
            storage.delete(id)?;
        }
        drop(held);
        Ok(true)
    }

    /// The caller holds the lock of the session's log.
    pub fn delete(&self, id: &str) -> Result<(), OpenError> {
        _ = self.discard(&self.take_overs().join(id));
        match self.discard(&self.session_dir(id)) {
            Err((folder, error)) if error.kind() != io::ErrorKind::NotFound => {
                let folder = folder.display();
                Err(OpenError::Usage(format!("{folder}: {error}; remove it by hand")))
            }
            _ => Ok(()),
        }
    }

    /// Deletes a folder, which is renamed first, so that what a killed process leaves of it is not used.
    pub(super) fn discard(&self, folder: &Path) -> Result<(), (PathBuf, io::Error)> {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        let removed = self.sessions_folder().join(format!("{REMOVED_PREFIX}{name}"));
        std::fs::rename(folder, &removed).map_err(|error| (folder.to_owned(), error))?;
        disk::remove_folder(&removed).map_err(|error| (removed, error))
    }

    pub(super) fn log_error(&self, error: LogError) -> OpenError {
        match error {
            LogError::InUse(id, holder) => {
                OpenError::InUse(LogError::InUse(self.short_id(&id), holder).to_string())
            }
            _ => OpenError::Usage(error.to_string()),
        }
    }

    /// The session of `-c`: the latest with a turn. Recorded tool calls are no conversation.
    pub(super) fn latest_session(&self) -> Result<String, OpenError> {
        // A session that cannot be read is reported when it is loaded.
        let has_turn = |id: &&String| {
            agent_record::read_overview(&self.log_path(id)).map_or(true, |it| it.turns > 0)
        };
        let is_own = |id: &&String| !self.is_record_of_attempts(id) && has_turn(id);
        match self.session_ids().iter().rev().find(is_own) {
            Some(id) => Ok(id.clone()),
            None => self.resolve_session_id(None),
        }
    }

    /// The session with this id, beginning or end of an id, or name; without one, the latest.
    pub fn resolve_session_id(&self, id: Option<&str>) -> Result<String, OpenError> {
        let Some(id) = id else {
            let none = "no session of this project is recorded yet";
            return self.session_ids().pop().ok_or_else(|| OpenError::Usage(none.to_owned()));
        };
        let matching = self.find_ids(id);
        match matching.as_slice() {
            [one] => Ok(one.clone()),
            several if several.iter().any(|session| session == id) => Ok(id.to_owned()),
            [] => Err(OpenError::Usage(format!(
                "no session {id} is recorded; `agent session list` shows the sessions of a project"
            ))),
            several => {
                let (n, short) = (several.len(), self.list_short_ids(several));
                Err(OpenError::Usage(format!("{id} fits {n} sessions: {short}; write more of it")))
            }
        }
    }
}

/// The log of a session; ordered by the last change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StoredLog {
    pub(super) written: SystemTime,
    pub(super) id: String,
    pub(super) bytes: u64,
}

fn is_id_match(id: &str, part: &str) -> bool {
    id.starts_with(part) || id.ends_with(part)
}

/// The ids of all sessions, to shorten some of them.
pub struct ShortIds(Vec<String>);

impl ShortIds {
    /// The shortest end of this id that fits no other one.
    pub fn shorten(&self, id: &str) -> String {
        let mut ends = (MIN_SHORT_ID..id.len()).filter_map(|length| id.get(id.len() - length..));
        let is_unique =
            |end: &&str| !self.0.iter().any(|other| other != id && is_id_match(other, end));
        ends.find(is_unique).unwrap_or(id).to_owned()
    }
}

/// Ids consist of these characters: a name of only them could not be distinguished from an id.
fn is_part_of_id(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// The best first.
pub(super) fn candidate_places(dirs: Option<&UserDirs>) -> Vec<PathBuf> {
    let named = dirs.cloned().into_iter().chain(UserDirs::default_dirs());
    let mut places: Vec<PathBuf> = Vec::new();
    for place in named.map(|dirs| dirs.state).chain([temporary_place()]) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Without temporary places in which other users may have created sessions.
fn readable_places(dirs: Option<&UserDirs>) -> impl Iterator<Item = PathBuf> {
    let places = candidate_places(dirs).into_iter();
    places.filter(|place| *place != temporary_place() || is_private(place))
}

/// The place that is used if no home is writable.
pub(super) fn temporary_place() -> PathBuf {
    let user = rustix::process::geteuid().as_raw();
    canonical_prefix(&std::env::temp_dir()).join(format!("agent-{user}"))
}

/// Belongs to this user, and no other user can write it.
pub(super) fn is_private(directory: &Path) -> bool {
    std::fs::symlink_metadata(directory).is_ok_and(|data| {
        data.is_dir()
            && data.uid() == rustix::process::geteuid().as_raw()
            && data.mode() & 0o022 == 0
    })
}

fn project_directory(place: &Path, root: &Path) -> PathBuf {
    let hash = blake3::hash(root.as_os_str().as_bytes()).to_hex();
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let is_plain = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name.chars().filter(is_plain).take(MAX_NAME).collect();
    canonical_prefix(place).join("projects").join(format!("{name}-{}", &hash[..16]))
}

fn create_directory(directory: &Path, root: &Path, place: &Path) -> io::Result<()> {
    let sessions = directory.join("sessions");
    if place == temporary_place() {
        // TMPDIR may be a directory in the project, where commands can write.
        if place.starts_with(root) {
            return Err(io::Error::other("it is in the project"));
        }
        disk::create_folder_all(place, 0o700)?;
        if !is_private(place) {
            return Err(io::Error::other("other users can write it"));
        }
    }
    disk::create_folder_all(&sessions, 0o700)?;
    rustix::fs::access(&sessions, rustix::fs::Access::WRITE_OK)?;
    let path = directory.join(PATH_FILE);
    if !path.exists() {
        disk::replace_file(&path, root.as_os_str().as_bytes())?;
    }
    Ok(())
}
