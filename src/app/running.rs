//! Sessions that run now, and the sockets of those in the background (`docs/SECURITY.md`).

use std::fs::Permissions;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::storage::{candidate_places, is_private};
use super::{OpenError, Storage};
use crate::config::UserDirs;
use agent_protocol::control::Ending;
use agent_protocol::disk::{self, canonical_prefix};
use agent_record::SessionProgress;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// In the directory of a session that began in the background.
const RECORD: &str = "background.json";
const SOCKET_SUFFIX: &str = ".sock";
/// Characters of the end of an id: a path of a socket is short.
const NAME_LENGTH: usize = 12;
/// Bytes, by the size of `sockaddr_un`.
const MAX_SOCKET_PATH: usize = 107;

/// How to reach a session in the background. No command can read it: see [`super::StateDirs`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BackgroundRecord {
    pub version: String,
    pub pid: u32,
    /// Empty for a process that works on several attempts: it takes no messages.
    pub socket: PathBuf,
    /// Proves that a client may read the user's files.
    pub token: String,
}

impl BackgroundRecord {
    /// Opens the socket of a session, and records how to reach it.
    pub fn create(session_dir: &Path, dirs: Option<&UserDirs>) -> io::Result<(UnixListener, Self)> {
        let id = session_dir.file_name().unwrap_or_default().to_string_lossy();
        let name = id.get(id.len().saturating_sub(NAME_LENGTH)..).unwrap_or(&id);
        let socket = socket_folder(dirs)?.join(format!("{name}{SOCKET_SUFFIX}"));
        // This process has locked the session: a socket with its name is left over.
        _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket)?;
        std::fs::set_permissions(&socket, Permissions::from_mode(0o600))?;
        let mut random = [0; 32];
        std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
        let token = blake3::Hash::from_bytes(random).to_hex().to_string();
        Ok((listener, Self::write(session_dir, socket, token)?))
    }

    /// Records a process that works on several attempts.
    pub fn create_for_attempts(session_dir: &Path) -> io::Result<Self> {
        Self::write(session_dir, PathBuf::new(), String::new())
    }

    fn write(session_dir: &Path, socket: PathBuf, token: String) -> io::Result<Self> {
        let record = Self { version: VERSION.to_owned(), pid: std::process::id(), socket, token };
        let text = serde_json::to_vec(&record).unwrap_or_default();
        disk::replace_file(&session_dir.join(RECORD), &text)?;
        Ok(record)
    }

    fn read(session_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&disk::read_file(&session_dir.join(RECORD)).ok()?).ok()
    }

    /// Whether the process works on several attempts, and takes no messages.
    pub fn is_of_attempts(&self) -> bool {
        self.socket.as_os_str().is_empty()
    }

    pub fn remove_socket(&self) {
        _ = std::fs::remove_file(&self.socket);
    }

    pub fn is_token(&self, token: &str) -> bool {
        // Hashes are compared in constant time.
        blake3::hash(token.as_bytes()) == blake3::hash(self.token.as_bytes())
    }
}

impl Storage {
    /// Whether a session is the record of several attempts, which has no conversation.
    pub fn is_record_of_attempts(&self, id: &str) -> bool {
        BackgroundRecord::read(&self.session_dir(id)).is_some_and(|record| record.is_of_attempts())
    }
}

/// Private, and short enough for the name of a socket. Removes the sockets of processes that were killed.
fn socket_folder(dirs: Option<&UserDirs>) -> io::Result<PathBuf> {
    let below_state = candidate_places(dirs).into_iter().map(|place| place.join("sockets"));
    let folders = runtime_sockets().into_iter().chain(below_state.map(|it| canonical_prefix(&it)));
    let mut error = io::Error::other("its path is too long; set XDG_RUNTIME_DIR to a shorter one");
    for folder in folders {
        let length = folder.as_os_str().as_bytes().len() + 1 + NAME_LENGTH + SOCKET_SUFFIX.len();
        if length > MAX_SOCKET_PATH {
            continue;
        }
        match disk::create_folder_all(&folder, 0o700) {
            Ok(_) if is_private(&folder) => {
                remove_stale_sockets(&folder);
                return Ok(folder);
            }
            Ok(_) => error = io::Error::other(format!("{}: not private", folder.display())),
            Err(why) => error = why,
        }
    }
    Err(error)
}

/// Outside the agent's own state.
pub(super) fn runtime_sockets() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = runtime.filter(|path| path.is_absolute() && is_private(path))?;
    Some(canonical_prefix(&runtime).join("agent"))
}

fn remove_stale_sockets(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_socket = entry.file_type().is_ok_and(|it| it.is_socket());
        let is_refused = |error: &io::Error| error.kind() == ErrorKind::ConnectionRefused;
        if is_socket && UnixStream::connect(entry.path()).is_err_and(|error| is_refused(&error)) {
            _ = std::fs::remove_file(entry.path());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionState {
    Working,
    /// For an answer of the user.
    Waiting,
    /// No turn runs.
    Idle,
    Done,
    Failed,
    /// Its process ended in the middle of a turn.
    Lost,
}

impl SessionState {
    pub fn in_words(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    pub fn is_running(self) -> bool {
        matches!(self, Self::Working | Self::Waiting | Self::Idle)
    }
}

/// What a session does, or how it ended.
#[derive(Debug, Serialize)]
pub struct SessionStatus {
    pub id: String,
    pub project: PathBuf,
    pub state: SessionState,
    pub pid: Option<u32>,
    #[serde(flatten)]
    pub progress: SessionProgress,
    /// If the process that runs it began in the background.
    #[serde(skip)]
    pub background: Option<BackgroundRecord>,
}

impl SessionStatus {
    pub fn read(storage: &Storage, id: &str) -> Result<Self, OpenError> {
        let log = storage.log_path(id);
        // The lock is looked at first: a session that ends meanwhile has written its end.
        let pid = agent_record::process_using(&log);
        let events = agent_record::read_partially(&log);
        let events = events.map_err(|error| OpenError::Usage(error.to_string()))?.events;
        let progress = agent_record::progress(&events);
        let background = BackgroundRecord::read(&storage.session_dir(id));
        let background = background.filter(|record| Some(record.pid) == pid);
        let state = match (pid, progress.ending) {
            (Some(_), _) if !progress.waiting.is_empty() => SessionState::Waiting,
            (Some(_), _) if progress.is_turn_open => SessionState::Working,
            (Some(_), _) => SessionState::Idle,
            (None, Some(Ending::Completed)) => SessionState::Done,
            (None, Some(_)) => SessionState::Failed,
            (None, None) => SessionState::Lost,
        };
        let project = storage.project_dir().unwrap_or_default();
        Ok(Self { id: id.to_owned(), project, state, pid, progress, background })
    }

    /// Those that run, of all projects; with `all`, also those that ended in the background. The oldest first.
    pub fn find(dirs: Option<&UserDirs>, all: bool) -> Vec<Self> {
        let mut found = Vec::new();
        for storage in Storage::find_all(dirs) {
            let is_listed = |id: &String| {
                agent_record::process_using(&storage.log_path(id)).is_some()
                    || all && storage.session_dir(id).join(RECORD).exists()
            };
            let ids = storage.session_ids().into_iter().filter(is_listed);
            found.extend(ids.filter_map(|id| Self::read(&storage, &id).ok()));
        }
        found.sort_by(|one, other| one.progress.started.cmp(&other.progress.started));
        found
    }
}
