//! Common parts of the searching tools: limits, and parts of reports.

use std::cmp::{Ordering, Reverse};
use std::sync::atomic::{AtomicU64, Ordering as AtomicOrdering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use agent_protocol::pluralize;

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

/// Entries of a project that is searched again for matches in skipped files although there were others.
pub(super) const MAX_SEARCHED_AGAIN: u64 = 4000;

/// Puts the first `limit` in order: by time, newest first; files that were written in one go, as by a checkout, by path.
/// True if they have several times.
pub(super) fn order_newest_first<T>(
    files: &mut [T],
    mut limit: usize,
    time: impl Fn(&T) -> Duration,
    path: impl Fn(&T, &T) -> Ordering,
) -> bool {
    /// Between two files of a checkout.
    const GAP: Duration = Duration::from_secs(1);
    files.sort_unstable_by_key(|file| Reverse(time(file)));
    let bursts = files.chunk_by_mut(|newer, older| time(newer).saturating_sub(time(older)) < GAP);
    let mut n_bursts = 0;
    for burst in bursts {
        if limit < burst.len() {
            burst.select_nth_unstable_by(limit, &path);
        }
        let n_shown = limit.min(burst.len());
        burst[..n_shown].sort_unstable_by(&path);
        n_bursts += usize::from(n_shown > 0);
        limit -= n_shown;
    }
    n_bursts > 1
}

/// The hint about matches in skipped files, for instance the example. `is_more`: besides others.
pub(super) fn skipped_matches_hint(
    n_files: u64,
    limits: &SearchLimits,
    example: Option<&str>,
    is_more: bool,
) -> String {
    let noun = if is_more { "more file" } else { "file" };
    let (bound, files) = (limits.lower_bound_prefix(), pluralize(n_files, noun));
    let verb = if n_files == 1 { "matches" } else { "match" };
    let example = example.map_or(String::new(), |example| format!(", for instance {example}"));
    format!(" In hidden or ignored places {bound}{files} {verb}{example}.")
}

#[derive(Clone, Debug)]
pub(super) struct SearchLimits {
    cancel: CancellationToken,
    deadline: Instant,
    max_entries: u64,
    n_entries: Arc<AtomicU64>,
    reason: Arc<OnceLock<AbortReason>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbortReason {
    Cancelled,
    TimeLimit,
    CountLimit,
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

    pub(super) fn with_max_entries(self, max_entries: u64) -> Self {
        Self { max_entries, ..self }
    }

    /// Counts an entry of the walk; true if the search has to end. The token and the clock are checked only
    /// at intervals, since that costs more than an entry.
    pub(super) fn count_entry(&self) -> bool {
        let n = self.n_entries.fetch_add(1, AtomicOrdering::Relaxed);
        if n >= self.max_entries {
            self.set_reason(AbortReason::CountLimit);
        }
        if n.is_multiple_of(16) { self.is_stopped_now() } else { self.reason().is_some() }
    }

    pub(super) fn visited(&self) -> u64 {
        self.n_entries.load(AtomicOrdering::Relaxed).min(self.max_entries)
    }

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

    /// The first reason counts.
    fn set_reason(&self, reason: AbortReason) {
        _ = self.reason.set(reason);
    }

    pub(super) fn reason(&self) -> Option<AbortReason> {
        self.reason.get().copied()
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
