//! One file per session: one event a line, held by one process at a time.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use crate::protocol::event::{Event, Sink, Stamped, VERSION};

/// Why a session can not be recorded or loaded.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another process works on it.
    #[error("session {0} is in use by another process; wait for it to end")]
    InUse(String),
    /// A line in the middle of the file is no event.
    #[error("{path}:{line}: this line is no event that this program knows ({reason})")]
    Broken {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The operating system said no.
    #[error("{path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
}

impl LogError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| Self::Io { path: path.to_path_buf(), error }
    }
}

/// A recorded session.
#[derive(Debug)]
pub struct Loaded {
    /// Its events, oldest first.
    pub events: Vec<Event>,
    /// The last line was torn, and is left out.
    pub torn: bool,
    /// Size of the part that is whole, in bytes.
    whole: u64,
}

/// Reads a session. A torn last line (the program was killed while it wrote) is left out.
pub fn load(path: &Path) -> Result<Loaded, LogError> {
    let text = std::fs::read(path).map_err(LogError::io(path))?;
    let mut loaded = Loaded { events: Vec::new(), torn: false, whole: 0 };
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
    while let Some((n, line)) = lines.next() {
        let last = lines.peek().is_none();
        match serde_json::from_slice::<Event>(line) {
            Ok(event) if event.header.v > VERSION => {
                return Err(LogError::Broken {
                    path: path.to_path_buf(),
                    line: n + 1,
                    reason: format!("written by a newer version, format {}", event.header.v),
                });
            }
            Ok(event) if line.ends_with(b"\n") => {
                loaded.events.push(event);
                loaded.whole += line.len() as u64;
            }
            // Without its line break the line may be whole all the same, but then nothing says so.
            Ok(_) | Err(_) if last && !line.ends_with(b"\n") => loaded.torn = true,
            Ok(_) => {}
            Err(error) => {
                return Err(LogError::Broken {
                    path: path.to_path_buf(),
                    line: n + 1,
                    reason: error.to_string(),
                });
            }
        }
    }
    Ok(loaded)
}

/// The sink that writes the session.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
    broken: bool,
}

impl Log {
    /// A new session's file; its folders are made.
    pub fn create(path: &Path) -> Result<Self, LogError> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(LogError::io(path))?;
        }
        let mut options = OpenOptions::new();
        options.append(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(LogError::io(path))?;
        Self::hold(file, path)
    }

    /// The file of a session that goes on. Takes hold of it first, then reads it, then drops what is
    /// torn.
    pub fn resume(path: &Path) -> Result<(Self, Loaded), LogError> {
        let mut options = OpenOptions::new();
        let file = options.append(true).read(true).open(path).map_err(LogError::io(path))?;
        let log = Self::hold(file, path)?;
        let loaded = load(path)?;
        if loaded.torn {
            log.file.set_len(loaded.whole).map_err(LogError::io(path))?;
        }
        Ok((log, loaded))
    }

    fn hold(file: File, path: &Path) -> Result<Self, LogError> {
        match file.try_lock() {
            Ok(()) => Ok(Self { file, path: path.to_path_buf(), broken: false }),
            Err(TryLockError::WouldBlock) => {
                let session = path.parent().and_then(Path::file_name).unwrap_or_default();
                Err(LogError::InUse(session.to_string_lossy().into_owned()))
            }
            Err(TryLockError::Error(error)) => Err(LogError::io(path)(error)),
        }
    }
}

impl Sink for Log {
    fn take(&mut self, stamped: &Stamped) {
        if self.broken || !stamped.event.body.is_stored() {
            return;
        }
        // One write: a line is in the file whole, or it is the torn last one.
        let line = format!("{}\n", stamped.line);
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            self.broken = true;
            // The loop goes on; the person is told once, by the only way that does not depend on it.
            let path = self.path.display();
            _ = writeln!(io::stderr(), "agent: {path}: {error}; the session is no longer recorded");
        }
    }
}

/// The first and the last events of a session, for a list of many: its ends are read, not all of it.
pub(crate) fn ends(path: &Path) -> io::Result<(Vec<Event>, Vec<Event>)> {
    const END: u64 = 64 * 1024;
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    let mut head = vec![0; usize::try_from(size.min(END)).unwrap_or(0)];
    file.read_exact(&mut head)?;
    file.seek(SeekFrom::Start(size.saturating_sub(END)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    Ok((whole_lines(&head), whole_lines(&tail)))
}

fn whole_lines(bytes: &[u8]) -> Vec<Event> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect()
}
