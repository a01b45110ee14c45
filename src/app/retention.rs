//! Retention: deletes the oldest sessions of a project, by age and by size. A session that a process uses is
//! never deleted.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

use super::storage::{REMOVED_PREFIX, StoredLog};
use super::{OpenError, Storage};
use crate::config;
use agent_protocol::disk;
use agent_protocol::event::{EventBody, Sink, StampedEvent};
use agent_record::Log;
use parking_lot::Mutex;

/// Time for the deletion at the end of the session. The next session continues it.
const FINISH_TIMEOUT: Duration = Duration::from_millis(200);

/// Applies the limits of `[record]` once per session, in the background, when the first request is sent.
#[derive(Clone)]
pub(super) struct Retention(Arc<RetentionJob>);

struct RetentionJob {
    storage: Storage,
    session: String,
    keep: Option<Duration>,
    max_bytes: Option<u64>,
    /// Closed when the work is done.
    running: Mutex<Option<Receiver<()>>>,
}

impl Retention {
    /// `None` without limits.
    pub(super) fn from_config(
        config: &config::Record,
        storage: &Storage,
        session: &str,
    ) -> Option<Self> {
        if config.keep_days.is_none() && config.max_bytes.is_none() {
            return None;
        }
        Some(Self(Arc::new(RetentionJob {
            storage: storage.clone(),
            session: session.to_owned(),
            keep: config.keep_days.map(|days| Duration::from_hours(24) * days),
            max_bytes: config.max_bytes,
            running: Mutex::default(),
        })))
    }

    pub(super) fn finish(&self) {
        let running = self.0.running.lock().take();
        if let Some(running) = running {
            _ = running.recv_timeout(FINISH_TIMEOUT);
        }
    }
}

impl Sink for Retention {
    fn receive(&mut self, stamped: &StampedEvent) {
        let mut running = self.0.running.lock();
        if running.is_some() || !matches!(stamped.event.body, EventBody::ModelRequested(_)) {
            return;
        }
        let (done, receiver) = channel();
        *running = Some(receiver);
        let shared = self.0.clone();
        let thread = std::thread::Builder::new().name("retention".to_owned());
        _ = thread.spawn(move || {
            shared.delete_excess(SystemTime::now());
            drop(done);
        });
    }
}

impl RetentionJob {
    fn delete_excess(&self, now: SystemTime) {
        let storage = &self.storage;
        storage.delete_leftovers();
        let sizes = |log: StoredLog| {
            let bytes = self.max_bytes.map_or(0, |_| storage.session_size(&log.id));
            (log, bytes)
        };
        let sessions: Vec<(StoredLog, u64)> = storage.logs().into_iter().map(sizes).collect();
        let mut total: u64 = sessions.iter().map(|(_, bytes)| bytes).sum();
        for (log, bytes) in sessions {
            let is_old = self.keep.is_some_and(|keep| log.age(now) > keep);
            let is_beyond = self.max_bytes.is_some_and(|max| total > max);
            let is_excess = (is_old || is_beyond) && log.id != self.session;
            // A session that cannot be deleted is in use, or is reported by `agent session rm`.
            if is_excess && storage.delete_unused(&log).is_ok() {
                total -= bytes;
            }
        }
    }
}

impl StoredLog {
    fn age(&self, now: SystemTime) -> Duration {
        now.duration_since(self.written).unwrap_or_default()
    }
}

impl Storage {
    /// The sessions that were last used longer ago than this, the oldest first, and why others of that age
    /// cannot be deleted.
    pub fn unused_sessions(&self, age: Duration) -> (Vec<StoredLog>, Vec<OpenError>) {
        let now = SystemTime::now();
        let (mut unused, mut errors) = (Vec::new(), Vec::new());
        for log in self.logs().into_iter().filter(|log| log.age(now) > age) {
            match Log::reserve(&self.log_path(&log.id)) {
                Ok(_) => unused.push(log),
                Err(error) => errors.push(self.log_error(error)),
            }
        }
        (unused, errors)
    }

    /// Deletes a session, unless a process uses it or has used it since it was listed.
    pub fn delete_unused(&self, log: &StoredLog) -> Result<(), OpenError> {
        let path = self.log_path(&log.id);
        let held = Log::reserve(&path).map_err(|error| self.log_error(error))?;
        let written = disk::metadata_without_links(&path).and_then(|data| data.modified());
        if written.is_ok_and(|written| written != log.written) {
            let short = self.short_id(&log.id);
            let why = format!("session {short} was used meanwhile; it is kept");
            return Err(OpenError::InUse(why));
        }
        self.delete(&log.id)?;
        drop(held);
        Ok(())
    }

    /// The size of its log and the files beside it.
    pub fn session_size(&self, id: &str) -> u64 {
        let mut bytes = 0;
        let mut folders = vec![self.session_dir(id)];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let Ok(data) = entry.metadata() else { continue };
                if data.is_dir() {
                    folders.push(entry.path());
                } else {
                    bytes += data.len();
                }
            }
        }
        bytes
    }

    fn delete_leftovers(&self) {
        let entries = std::fs::read_dir(self.sessions_folder()).into_iter().flatten().flatten();
        for entry in entries {
            if entry.file_name().to_str().is_some_and(|name| name.starts_with(REMOVED_PREFIX)) {
                // Another process may be deleting it.
                _ = disk::remove_folder(&entry.path());
            }
        }
    }
}
