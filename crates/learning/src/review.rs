//! Reviews: statistics about a period's traces and lessons, and the consequences.
//!
//! [`review`] only reads; [`apply_review`] sets weights and removes lessons that stopped helping. Both depend
//! only on the store, so that a second run gives the same result and changes nothing more.

mod render;
mod report;
mod statistics;
mod suggestions;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::lesson::{Lesson, Origin, Scope};
use super::store::{SqliteStore, StoreError};
use super::trace::ExecutionTrace;

pub use render::{render_html, render_markdown};
pub use report::short_project_name;
pub use statistics::{
    CallKindStats, ConsistentFailure, MethodologyUse, PeriodTotals, RecurringFailure,
    UnresolvedFailure,
};
pub use suggestions::Suggestion;

/// The reviewed period and project.
#[derive(Clone, Debug, Serialize)]
pub struct ReviewPeriod {
    /// Start, in milliseconds since 1970.
    pub from_ms: i64,
    /// End.
    pub to_ms: i64,
    /// The project's identity; `None`: all projects.
    pub project: Option<String>,
}

/// The result of a review.
#[derive(Clone, Debug, Serialize)]
pub struct Review {
    /// The reviewed period.
    pub period: ReviewPeriod,
    /// Totals.
    pub totals: PeriodTotals,
    /// The previous period of the same length; `None` if nothing was recorded in it.
    pub before: Option<PeriodTotals>,
    /// Unresolved failures, which the user should check first.
    pub needs_human: Vec<UnresolvedFailure>,
    /// Kinds of calls, those with the highest cost first.
    pub call_kinds: Vec<CallKindStats>,
    /// Failures, the most frequent first.
    pub failures: Vec<RecurringFailure>,
    /// What always failed under one condition.
    pub always: Vec<ConsistentFailure>,
    /// Methodologies.
    pub methodologies: Vec<MethodologyUse>,
    /// Lessons learnt in the period, the most helpful first, then the newest.
    pub learnt: Vec<Lesson>,
    /// Lessons that helped at least once after they were learnt, the best first.
    pub helping: Vec<Lesson>,
    /// Lessons that do not help often enough: to be removed.
    pub retired: Vec<Lesson>,
    /// Suggestions for the user.
    pub suggestions: Vec<Suggestion>,
}

/// The changes of a review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AppliedChanges {
    /// Number of changed weights.
    pub weights: usize,
    /// Number of removed lessons.
    pub dropped: usize,
}

/// Reviews a period; `items`: all lessons in its scopes, also retired ones.
pub fn review(
    store: &SqliteStore,
    period: &ReviewPeriod,
    items: &[Lesson],
) -> Result<Review, StoreError> {
    let length = period.to_ms.saturating_sub(period.from_ms);
    let since = period.from_ms.saturating_sub(length);
    let mut traces = store.traces(since, None)?;
    traces.retain(|trace| trace.created_at_ms < period.to_ms);
    let (mut before, mut now): (Vec<ExecutionTrace>, Vec<ExecutionTrace>) =
        traces.into_iter().partition(|trace| trace.created_at_ms < period.from_ms);
    let weights = statistics::compute_weights(&now);
    if let Some(project) = &period.project {
        before.retain(|trace| trace.project == *project);
        now.retain(|trace| trace.project == *project);
    }
    let mut review = Review {
        period: period.clone(),
        totals: statistics::count_totals(&now),
        before: (!before.is_empty()).then(|| statistics::count_totals(&before)),
        needs_human: statistics::unresolved_failures(&now),
        call_kinds: statistics::count_call_kinds(&now, &before),
        failures: statistics::recurring_failures(&now, items),
        always: statistics::consistent_failures(&now),
        methodologies: statistics::count_methodologies(&now),
        learnt: select_lessons(items, |item| {
            item.created_at_ms >= period.from_ms && item.is_in_use()
        }),
        helping: select_lessons(items, |item| item.helped > 1 && item.is_in_use()),
        retired: select_lessons(items, |item| !item.is_in_use() && item.origin != Origin::User),
        suggestions: Vec::new(),
    };
    for kind in &mut review.call_kinds {
        kind.weight = weights.get(&kind.skill).copied().unwrap_or(kind.weight);
        kind.weight_before = store.weight(&kind.skill)?;
    }
    for methodology in &mut review.methodologies {
        methodology.weight =
            weights.get(&methodology.subject()).copied().unwrap_or(methodology.weight);
        methodology.weight_before = store.weight(&methodology.subject())?;
    }
    review.methodologies.sort_by(|a, b| b.weight.total_cmp(&a.weight));
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

/// Sets the weights that follow from a review, and removes the lessons that stopped helping.
pub fn apply_review(store: &SqliteStore, review: &Review) -> Result<AppliedChanges, StoreError> {
    let mut changed = AppliedChanges::default();
    let kinds = review.call_kinds.iter().map(|m| (m.skill.clone(), m.weight_before, m.weight));
    let methodologies = review
        .methodologies
        .iter()
        .map(|methodology| (methodology.subject(), methodology.weight_before, methodology.weight));
    for (subject, before, now) in kinds.chain(methodologies) {
        if (before - now).abs() > 1e-9 {
            store.set_weight(&subject, now)?;
            changed.weights += 1;
        }
    }
    for item in &review.retired {
        changed.dropped += usize::from(store.forget_lesson(&item.id)?);
    }
    Ok(changed)
}

/// Number of sessions in which a lesson was learnt.
fn count_sessions(item: &Lesson) -> usize {
    item.sources.iter().map(|source| &source.session).collect::<BTreeSet<_>>().len()
}

/// The projects of lessons, with the number of lessons of each.
fn count_by_project(items: &[Lesson]) -> BTreeMap<&str, usize> {
    let mut projects = BTreeMap::new();
    for item in items {
        if let Scope::Project(project) = &item.scope {
            *projects.entry(project.as_str()).or_default() += 1;
        }
    }
    projects
}
