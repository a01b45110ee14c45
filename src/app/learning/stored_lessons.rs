//! Provides lessons to the kernel, reading the store on demand.

use std::path::PathBuf;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::worker::{Notices, notice_sender};
use agent_learning::lesson::Scope;
use agent_learning::recall;
use agent_learning::store::{SqliteStore, StoreError};
use agent_protocol::recall::{FailedCall, LessonSource, RecalledLesson, Remedy};

/// Limit of the wait for another process.
const READ_TIMEOUT: Duration = Duration::from_millis(5);

pub(super) struct StoredLessons {
    /// The scopes of the project.
    here: Vec<Scope>,
    /// `None` until the file is open.
    store: Mutex<Option<SqliteStore>>,
    is_open: watch::Sender<bool>,
}

impl StoredLessons {
    pub(super) fn new(here: Vec<Scope>) -> Self {
        Self { here, store: Mutex::new(None), is_open: watch::Sender::new(false) }
    }

    /// Errors are reported by the writing thread.
    pub(super) fn open(&self, file: PathBuf, notices: &Notices) {
        let store = SqliteStore::new(file, notice_sender(notices)).with_busy_timeout(READ_TIMEOUT);
        // Opens the file.
        _ = store.traces(i64::MAX);
        *self.store.lock() = Some(store);
        self.is_open.send_replace(true);
    }

    pub(super) async fn wait_until_open(&self) {
        // The sender lives as long as `self`.
        _ = self.is_open.subscribe().wait_for(|opened| *opened).await;
    }

    fn query<T: Default>(&self, question: impl Fn(&SqliteStore) -> Result<T, StoreError>) -> T {
        let store = self.store.lock();
        store.as_ref().and_then(|store| question(store).ok()).unwrap_or_default()
    }
}

impl LessonSource for StoredLessons {
    fn lessons_for_task(&self, task: &str, checks: &[String], limit: u64) -> Vec<RecalledLesson> {
        self.query(|store| recall::lessons_for_task(store, &self.here, (task, checks), limit))
    }

    fn find_remedy(&self, failed: &FailedCall<'_>) -> Option<Remedy> {
        self.query(|store| recall::find_remedy(store, &self.here, failed))
    }

    fn similar_lessons(&self, failed: &FailedCall<'_>) -> Vec<RecalledLesson> {
        self.query(|store| recall::similar_lessons(store, &self.here, failed))
    }
}
