//! Retention: deletes the sessions of a project that were not used for some days. A session that a process uses is never
//! deleted.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, SystemTime};

use super::Storage;
use super::storage::{REMOVED_PREFIX, StoredLog};
use crate::config;
use agent_protocol::disk;
use agent_protocol::event::{EventBody, Sink, StampedEvent};
use agent_record::Log;
use parking_lot::Mutex;

/// Time for the deletion at the end of the session. The next session continues it.
const FINISH_TIMEOUT: Duration = Duration::from_millis(200);

/// Applies `record.keep_days` once per session, in the background, when the first request is sent.
#[derive(Clone)]
pub(super) struct Retention(Arc<RetentionJob>);

struct RetentionJob {
    storage: Storage,
    session: String,
    keep: Duration,
    /// Closed when the work is done.
    running: Mutex<Option<Receiver<()>>>,
}

impl Retention {
    /// `None` without a limit.
    pub(super) fn from_config(
        config: &config::Record,
        storage: &Storage,
        session: &str,
    ) -> Option<Self> {
        Some(Self(Arc::new(RetentionJob {
            storage: storage.clone(),
            session: session.to_owned(),
            keep: Duration::from_hours(24) * config.keep_days?,
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
        let is_excess = |log: &StoredLog| {
            let age = now.duration_since(log.written).unwrap_or_default();
            age > self.keep && log.id != self.session
        };
        for log in storage.logs().into_iter().filter(is_excess) {
            storage.delete_unused(&log);
        }
    }
}

impl Storage {
    /// Deletes a session, unless a process uses it or has used it since it was listed. One that cannot be deleted is
    /// reported by `agent session rm`.
    fn delete_unused(&self, log: &StoredLog) {
        let path = self.log_path(&log.id);
        let Ok(_held) = Log::reserve(&path) else { return };
        let written = disk::metadata_without_links(&path).and_then(|data| data.modified());
        if written.is_ok_and(|written| written == log.written) {
            _ = self.delete(&log.id);
        }
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
