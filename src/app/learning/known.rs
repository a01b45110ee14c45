//! What is known, as the kernel asks it: there as soon as it was read, and new after each turn that taught something.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use tokio::sync::watch;

use crate::learning::advisor::Advisor;
use crate::protocol::recall::{Done, FailedAs, Recall, Recalled, Remedy};

/// The items in use; none before they were read.
#[derive(Default)]
pub(super) struct Known {
    advisor: RwLock<Option<Arc<Advisor>>>,
    session: OnceLock<String>,
    read: watch::Sender<bool>,
}

impl Known {
    /// From now on these are known.
    pub(super) fn publish(&self, advisor: Advisor) {
        *self.advisor.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(advisor));
        self.read.send_replace(true);
    }

    /// It was read once.
    pub(super) fn is_read(&self) -> bool {
        *self.read.borrow()
    }

    /// It is read again: whoever begins a task waits for it.
    pub(super) fn is_stale(&self) {
        self.read.send_replace(false);
    }

    /// There is nothing to be waited for.
    pub(super) fn give_up(&self) {
        self.read.send_replace(true);
    }

    /// This session asks.
    pub(super) fn asked_by(&self, session: &str) {
        _ = self.session.set(session.to_owned());
    }

    /// What is known was read.
    pub(super) async fn ready(&self) {
        // The sender lives as long as this.
        _ = self.read.subscribe().wait_for(|read| *read).await;
    }

    fn advisor(&self) -> Option<Arc<Advisor>> {
        self.advisor.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Recall for Known {
    fn for_task(
        &self,
        task: &str,
        max_tokens: u64,
        is_there: &dyn Fn(&str) -> bool,
    ) -> Vec<Recalled> {
        let session = self.session.get().map_or("", String::as_str);
        let told = |advisor: Arc<Advisor>| advisor.for_task(task, max_tokens, session, is_there);
        self.advisor().map_or_else(Vec::new, told)
    }

    fn before(&self, done: &Done<'_>, is_shown: &dyn Fn(&str, &str) -> bool) -> Vec<Recalled> {
        let session = self.session.get().map_or("", String::as_str);
        let told = |advisor: Arc<Advisor>| advisor.before(done, session, is_shown);
        self.advisor().map_or_else(Vec::new, told)
    }

    fn after(&self, failed: &FailedAs<'_>) -> Option<Remedy> {
        self.advisor()?.after(failed)
    }

    fn weight(&self, methodology: &str) -> f64 {
        self.advisor().map_or(0.5, |advisor| advisor.weight(methodology))
    }
}
