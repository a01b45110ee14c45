//! Common parts of the file tools: limits of searches, and parts of reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::{Object, pluralize};

pub(super) fn cancelled_failure() -> Failure {
    Failure::new(ErrorCode::Cancelled, "interrupted before it was done")
}

/// The object that `json!({…})` makes.
pub(super) fn json_object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        other => Object::from_iter([("value".to_owned(), other)]),
    }
}

/// A path for a message.
pub(super) fn display_path(at: &str) -> &str {
    if at == "." { "the project" } else { at }
}

/// Time limit for searching the skipped files, if nothing was found.
pub(super) const HINT_TIME_LIMIT: Duration = Duration::from_millis(500);

/// The number of skipped entries to search: a twentieth of the entries searched before, but all of a small
/// project.
pub(super) fn hint_entry_limit(visited: u64) -> u64 {
    (visited / 20).max(4000)
}

/// The hint about matches in skipped files. `example` is relative to the base.
pub(super) fn skipped_matches_hint(files: &str, example: &str, include_hidden: bool) -> String {
    let is_hidden = !include_hidden && example.split('/').any(|part| part.starts_with('.'));
    let flag = if is_hidden { "include_hidden" } else { "include_ignored" };
    format!("In hidden or ignored places {files}, for instance {example}: set {flag}.")
}

/// `1 file matches`, `2 files match`.
pub(super) fn matching_files_text(n: u64) -> String {
    format!("{} {}", pluralize(n, "file"), if n == 1 { "matches" } else { "match" })
}

/// The limits of a search, shared by its threads.
#[derive(Clone, Debug)]
pub(super) struct SearchLimits {
    cancel: CancellationToken,
    deadline: Instant,
    max_entries: u64,
    n_entries: Arc<AtomicU64>,
    reason: Arc<AtomicU8>,
}

/// Why a search ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbortReason {
    Cancelled = 1,
    TimeLimit = 2,
    CountLimit = 3,
}

impl SearchLimits {
    pub(super) fn with_time_limit(limit: Duration, cancel: CancellationToken) -> Self {
        Self {
            cancel,
            deadline: Instant::now() + limit,
            max_entries: u64::MAX,
            n_entries: Arc::default(),
            reason: Arc::default(),
        }
    }

    /// Adds a limit of entries.
    pub(super) fn with_max_entries(self, max_entries: u64) -> Self {
        Self { max_entries, ..self }
    }

    /// Counts an entry of the walk; true if the search has to end. The token and the clock are checked only
    /// at intervals, since that costs more than an entry.
    pub(super) fn count_entry(&self) -> bool {
        let n = self.n_entries.fetch_add(1, Ordering::Relaxed);
        if n >= self.max_entries {
            self.set_reason(AbortReason::CountLimit);
        }
        if n.is_multiple_of(16) { self.is_stopped_now() } else { self.reason().is_some() }
    }

    /// Number of entries so far.
    pub(super) fn visited(&self) -> u64 {
        self.n_entries.load(Ordering::Relaxed).min(self.max_entries)
    }

    /// Checks the token and the clock.
    pub(super) fn is_stopped_now(&self) -> bool {
        if self.cancel.is_cancelled() {
            self.set_reason(AbortReason::Cancelled);
        } else if Instant::now() >= self.deadline {
            self.set_reason(AbortReason::TimeLimit);
        }
        self.reason().is_some()
    }

    /// The prefix of a number that is incomplete because the search ended early.
    pub(super) fn lower_bound_prefix(&self) -> &'static str {
        if self.reason().is_some() { "at least " } else { "" }
    }

    fn set_reason(&self, reason: AbortReason) {
        // The first reason counts.
        let _ = self.reason.compare_exchange(0, reason as u8, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(super) fn reason(&self) -> Option<AbortReason> {
        match self.reason.load(Ordering::Relaxed) {
            0 => None,
            1 => Some(AbortReason::Cancelled),
            2 => Some(AbortReason::TimeLimit),
            _ => Some(AbortReason::CountLimit),
        }
    }
}

impl AbortReason {
    /// The value of `data.aborted_reason`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::TimeLimit => "time_limit",
            Self::CountLimit => "count_limit",
        }
    }
}
