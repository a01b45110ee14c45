//! The event log: one file per session, one event per line, used by one process at a time.

use std::fs::{File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use agent_protocol::disk;
use agent_protocol::event::{Event, FORMAT_VERSION, Sink, StampedEvent};
use agent_protocol::terminal_escape::escape_literal_line;

pub const EVENTS: &str = "events.jsonl";
const HOLDER: &str = "holder.json";

/// Why a session cannot be recorded or loaded.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    #[error(
        "session {0} is in use by {1}; wait for it to end, or continue with a copy: --fork --resume {0}"
    )]
    InUse(String, LockHolder),
    #[error("{path}:{line}: this line is not a known event ({reason})")]
    InvalidLine { path: PathBuf, line: usize, reason: String },
    #[error(
        "{path}: recorded by {} version of agent (event format {format}, this version reads \
         {FORMAT_VERSION}); use that version for this session, or begin a new session",
        if *format < u64::from(FORMAT_VERSION) { "an older" } else { "a newer" }
    )]
    UnsupportedFormat { path: PathBuf, format: u64 },
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
}

impl LogError {
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |error| Self::Io { path: path.to_path_buf(), error }
    }
}

/// The process that uses a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LockHolder {
    pid: Option<u32>,
    since: Option<String>,
}

impl std::fmt::Display for LockHolder {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.pid, &self.since) {
            (Some(pid), Some(since)) => write!(to, "process {pid} since {since}"),
            (Some(pid), None) => write!(to, "process {pid}"),
            (None, _) => write!(to, "another process"),
        }
    }
}

impl LockHolder {
    fn read(path: &Path) -> Self {
        let text = disk::read_file(&path.with_file_name(HOLDER)).unwrap_or_default();
        let mut holder = serde_json::from_slice(&text).unwrap_or(Self { pid: None, since: None });
        // The time is displayed before a line that users copy.
        holder.since.take_if(|since| since.parse::<jiff::Timestamp>().is_err());
        holder
    }

    /// True if no process has this id any more.
    fn is_gone(&self) -> bool {
        self.pid.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists())
            && Path::new("/proc/self").exists()
    }

    /// The lock decides; the file is only for messages.
    fn write(path: &Path) {
        let since = Some(format!("{:.0}", jiff::Timestamp::now()));
        let holder = Self { pid: Some(std::process::id()), since };
        let text = serde_json::to_vec(&holder).unwrap_or_default();
        _ = disk::replace_file(&path.with_file_name(HOLDER), &text);
    }
}

/// Limit of turn numbers: later turns must not overflow.
pub(super) const LAST_TURN: u32 = u32::MAX / 2;

/// Waiting time for the lock of a dead process.
const PATIENCE: Duration = Duration::from_secs(1);

/// The events of a session from its file.
#[derive(Debug)]
pub struct LoadedSession {
    pub events: Vec<Event>,
    /// True if the last line was incomplete; `events` lacks it.
    pub is_torn: bool,
    complete_bytes: u64,
}

/// Reads a session. Leaves out an incomplete last line, which a killed program wrote.
pub fn load_session(path: &Path) -> Result<LoadedSession, LogError> {
    let text = disk::read_file(path).map_err(LogError::io(path))?;
    // A last line without a line break may be complete, but this is not certain.
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let first = text[..whole].split(|byte| *byte == b'\n').next().unwrap_or_default();
    if let Some(format) = parse_format(first).filter(|format| *format != u64::from(FORMAT_VERSION))
    {
        return Err(LogError::UnsupportedFormat { path: path.to_path_buf(), format });
    }
    let events = parse_events_in_parts(&text[..whole]).map_err(|(line, reason)| {
        LogError::InvalidLine { path: path.to_path_buf(), line, reason }
    })?;
    Ok(LoadedSession { events, is_torn: whole < text.len(), complete_bytes: whole as u64 })
}

/// The events of a whole log of this version; the error names the first invalid line.
pub fn parse_log(text: &[u8]) -> Result<Vec<Event>, String> {
    parse_events_in_parts(text).map_err(|(line, why)| format!("line {line} is no event: {why}"))
}

/// The error has the number of the first invalid line and the reason.
fn parse_events_in_parts(text: &[u8]) -> Result<Vec<Event>, (usize, String)> {
    let mut events = Vec::new();
    for part in process_in_parts(text, parse_events) {
        events.append(&mut part.map_err(|(line, why)| (events.len() + line, why))?);
    }
    Ok(events)
}

/// Several threads process a long record; the results are in order.
pub(super) fn process_in_parts<T: Send>(text: &[u8], work: impl Fn(&[u8]) -> T + Sync) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parts = split_at_lines(text, threads.min(text.len() / MIN_PART_BYTES + 1)).into_iter();
    let first = parts.next().unwrap_or_default();
    std::thread::scope(|scope| {
        let work = &work;
        let others: Vec<_> = parts.map(|part| scope.spawn(move || work(part))).collect();
        let mut done = vec![work(first)];
        for other in others {
            done.push(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    })
}

const MIN_PART_BYTES: usize = 1024 * 1024;

fn split_at_lines(mut text: &[u8], n: usize) -> Vec<&[u8]> {
    let size = text.len().div_ceil(n);
    let mut parts = Vec::with_capacity(n);
    while text.len() > size {
        let end = memchr::memchr(b'\n', &text[size..]).map_or(text.len(), |at| size + at + 1);
        let (part, rest) = text.split_at(end);
        parts.push(part);
        text = rest;
    }
    parts.push(text);
    parts
}

fn parse_events(text: &[u8]) -> Result<Vec<Event>, (usize, String)> {
    let mut events = Vec::with_capacity(memchr::memchr_iter(b'\n', text).count());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        events.push(parse_event(line).map_err(|reason| (events.len() + 1, reason))?);
    }
    Ok(events)
}

/// Works for an event that is not readable otherwise.
fn parse_format(line: &[u8]) -> Option<u64> {
    #[derive(Deserialize)]
    struct FormatField {
        v: u64,
    }
    serde_json::from_slice::<FormatField>(line).ok().map(|event| event.v)
}

pub(super) fn parse_event(line: &[u8]) -> Result<Event, String> {
    let event: Event = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if event.header.v != FORMAT_VERSION {
        return Err(format!("event format {}, not {FORMAT_VERSION}", event.header.v));
    }
    let turn = event.header.place.turn;
    if turn > LAST_TURN {
        return Err(format!("no session comes to turn {turn}"));
    }
    Ok(event)
}

/// Writes the events of a session to its file.
#[derive(Debug)]
pub struct Log {
    file: File,
    path: PathBuf,
    has_failed: bool,
}

impl Log {
    /// Creates the file of a new session, and its folders.
    pub fn create(path: &Path) -> Result<Self, LogError> {
        if let Some(parent) = path.parent() {
            disk::create_folder_all(parent, 0o755).map_err(LogError::io(path))?;
        }
        let file = disk::create_file(path, 0o600).map_err(LogError::io(path))?;
        Self::lock(file, path)
    }

    /// Locks and reads the file of a session to resume, and drops an incomplete line.
    pub fn resume(path: &Path) -> Result<(Self, LoadedSession), LogError> {
        let log = Self::reserve(path)?;
        let loaded = load_session(path)?;
        if loaded.is_torn {
            log.file.set_len(loaded.complete_bytes).map_err(LogError::io(path))?;
        }
        Ok((log, loaded))
    }

    /// Locks a session without reading it; the lock is released on drop.
    pub fn reserve(path: &Path) -> Result<Self, LogError> {
        let file = disk::open_for_append(path, false).map_err(LogError::io(path))?;
        Self::lock(file, path)
    }

    fn lock(file: File, path: &Path) -> Result<Self, LogError> {
        let mut lock = file.try_lock();
        let started = Instant::now();
        // The child of a process that was killed while it started a command holds a copy of its lock for a moment.
        while matches!(lock, Err(TryLockError::WouldBlock))
            && LockHolder::read(path).is_gone()
            && started.elapsed() < PATIENCE
        {
            std::thread::sleep(Duration::from_millis(5));
            lock = file.try_lock();
        }
        match lock {
            Ok(()) => {
                LockHolder::write(path);
                Ok(Self { file, path: path.to_path_buf(), has_failed: false })
            }
            Err(TryLockError::WouldBlock) => {
                let session = path.parent().and_then(Path::file_name).unwrap_or_default();
                let session = session.to_string_lossy().into_owned();
                Err(LogError::InUse(session, LockHolder::read(path)))
            }
            Err(TryLockError::Error(error)) => Err(LogError::io(path)(error)),
        }
    }
}

/// The id of the process that uses the session; `None` if none does.
pub fn process_using(path: &Path) -> Option<u32> {
    let holder = LockHolder::read(path);
    // The id of the process decides for most sessions: the lock is touched only if a process with it lives.
    let pid = holder.pid.filter(|_| !holder.is_gone())?;
    let is_locked = |file: &File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    disk::open_file(path).ok().as_ref().is_some_and(is_locked).then_some(pid)
}

impl Sink for Log {
    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.receive(stamped);
    }

    fn receive(&mut self, stamped: &StampedEvent) {
        if self.has_failed || !stamped.event.body.is_stored() {
            return;
        }
        // One write: only the last line can be incomplete.
        let line = format!("{}\n", stamped.line);
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            self.has_failed = true;
            // The loop continues; the user gets one notice, which does not depend on the log.
            let path = self.path.display().to_string();
            let path = escape_literal_line(&path);
            _ = writeln!(io::stderr(), "agent: {path}: {error}; the session is no longer recorded");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "{\"v\":2,\"seq\":1,\"ts\":\"t\",\"session\":\"s\",\"agent\":\"main\",\
        \"turn\":1,\"round\":0,\"step\":0,\"type\":\"feedback\",\"text\":\"x\"}\n";

    #[test]
    fn log_parts_consist_of_whole_lines() {
        for text in ["", "a\n", "a\nbb\nccc\n\ndddd\n", "one long line and no other\n"] {
            for n in 1..9 {
                let parts = split_at_lines(text.as_bytes(), n);
                assert_eq!(parts.concat(), text.as_bytes());
                assert!(parts.iter().all(|part| part.is_empty() || part.ends_with(b"\n")));
            }
        }
    }

    #[test]
    fn invalid_log_line_is_reported_in_any_part() {
        let n = 3 * MIN_PART_BYTES / LINE.len();
        for broken in [0, n / 2, n - 1] {
            let mut lines = vec![LINE; n];
            lines[broken] = "{\"v\":2,\"what\":2}\n";
            let (line, _) =
                parse_events_in_parts(lines.concat().as_bytes()).expect_err("it is broken");
            assert_eq!(line, broken + 1);
        }
        let events = parse_events_in_parts(LINE.repeat(n).as_bytes()).map(|events| events.len());
        assert_eq!(events, Ok(n));
    }
}
