//! Reviews: statistics about a period's traces and lessons, and the consequences.
//!
//! They depend only on the store, so that a second run gives the same result and changes nothing more.

mod report;
mod statistics;
mod suggestions;

use std::collections::BTreeSet;

use serde::Serialize;

use super::lesson::{Lesson, Origin};
use super::store::{SqliteStore, Store as _, StoreError};

pub use report::{render_markdown, short_project_name};
pub use statistics::{CallKindStats, PeriodTotals, RecurringFailure, UnresolvedFailure};
pub use suggestions::Suggestion;

/// The reviewed period and project.
#[derive(Clone, Debug, Serialize)]
pub struct ReviewPeriod {
    pub from_ms: i64,
    pub to_ms: i64,
    /// The project's identity; `None`: all projects.
    pub project: Option<String>,
}

/// The result of a review.
#[derive(Clone, Debug, Serialize)]
pub struct Review {
    pub period: ReviewPeriod,
    pub totals: PeriodTotals,
    pub needs_human: Vec<UnresolvedFailure>,
    /// Kinds of calls, those with the highest cost first.
    pub call_kinds: Vec<CallKindStats>,
    /// Failures, the most frequent first.
    pub failures: Vec<RecurringFailure>,
    /// Lessons learnt in the period, the most helpful first, then the newest.
    pub learnt: Vec<Lesson>,
    /// Lessons that helped at least once after they were learnt, the best first.
    pub helping: Vec<Lesson>,
    pub retired: Vec<Lesson>,
    pub suggestions: Vec<Suggestion>,
}

/// Reviews a period; `items`: all lessons in its scopes, also retired ones.
pub fn review(
    store: &SqliteStore,
    period: &ReviewPeriod,
    items: &[Lesson],
) -> Result<Review, StoreError> {
    let mut traces = store.traces(period.from_ms)?;
    traces.retain(|trace| trace.created_at_ms < period.to_ms);
    if let Some(project) = &period.project {
        traces.retain(|trace| trace.project == *project);
    }
    let mut review = Review {
        period: period.clone(),
        totals: statistics::count_totals(&traces),
        needs_human: statistics::unresolved_failures(&traces),
        call_kinds: statistics::count_call_kinds(&traces),
        failures: statistics::recurring_failures(&traces, items),
        learnt: select_lessons(items, |item| {
            item.created_at_ms >= period.from_ms && item.is_in_use()
        }),
        helping: select_lessons(items, |item| item.helped > 1 && item.is_in_use()),
        retired: select_lessons(items, |item| !item.is_in_use() && item.origin != Origin::User),
        suggestions: Vec::new(),
    };
    review.learnt.sort_by_key(|item| {
        let gain = i64::from(item.helped) - i64::from(item.hurt);
        std::cmp::Reverse((gain, item.created_at_ms))
    });
    review.helping.sort_by(|a, b| {
        (b.helped, b.confidence())
            .partial_cmp(&(a.helped, a.confidence()))
            .unwrap_or(a.id.cmp(&b.id))
    });
    review.suggestions = suggestions::build_suggestions(&review, items);
    Ok(review)
}

fn select_lessons(items: &[Lesson], fits: impl Fn(&Lesson) -> bool) -> Vec<Lesson> {
    items.iter().filter(|item| fits(item)).cloned().collect()
}

/// Removes the lessons that stopped helping.
pub fn apply_review(store: &SqliteStore, review: &Review) -> Result<(), StoreError> {
    for item in &review.retired {
        store.forget_lesson(&item.id)?;
    }
    Ok(())
}

fn count_sessions(item: &Lesson) -> usize {
    item.sources.iter().map(|source| &source.session).collect::<BTreeSet<_>>().len()
}
