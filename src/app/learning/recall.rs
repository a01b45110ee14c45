//! Provides lessons to the kernel, reading the store on demand.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::worker::{Notices, into};
use agent_learning::recall;
use agent_learning::store::{SqliteStore, StoreError};
use agent_protocol::recall::{FailedCall, Recall, Recalled, Remedy};

/// How long a read waits for another process.
const PATIENCE: Duration = Duration::from_millis(5);

/// The lessons of a project and of the user.
pub(super) struct StoredLessons {
    project: String,
    /// `None` until the file is open.
    store: Mutex<Option<SqliteStore>>,
    opened: watch::Sender<bool>,
}

impl StoredLessons {
    pub(super) fn of(project: String) -> Self {
        Self { project, store: Mutex::new(None), opened: watch::Sender::new(false) }
    }

    /// Opens the file. Errors are reported by the writing thread.
    pub(super) fn open(&self, file: PathBuf, notices: &Notices) {
        let store = SqliteStore::new(file, into(notices)).with_patience(PATIENCE);
        _ = store.weight("");
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
        self.opened.send_replace(true);
    }

    /// Waits until the file is open.
    pub(super) async fn opened(&self) {
        // The sender lives as long as `self`.
        _ = self.opened.subscribe().wait_for(|opened| *opened).await;
    }

    fn ask<T: Default>(&self, question: impl Fn(&SqliteStore) -> Result<T, StoreError>) -> T {
        let store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        store.as_ref().and_then(|store| question(store).ok()).unwrap_or_default()
    }
}

impl Recall for StoredLessons {
    fn for_task(&self, task: &str, max_tokens: u64) -> Vec<Recalled> {
        self.ask(|store| recall::for_task(store, &self.project, task, max_tokens))
    }

    fn after(&self, failed: &FailedCall<'_>) -> Option<Remedy> {
        self.ask(|store| recall::after(store, &self.project, failed))
    }

    fn similar(&self, failed: &FailedCall<'_>) -> Vec<Recalled> {
        self.ask(|store| recall::similar(store, &self.project, failed))
    }

    fn weight(&self, methodology: &str) -> f64 {
        self.ask(|store| store.weight(&agent_protocol::methodology::subject(methodology)).map(Some))
            .unwrap_or(0.5)
    }
}
