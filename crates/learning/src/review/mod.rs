//! Reviews: statistics about a period's traces and lessons, and the consequences.
//!
//! [`review`] only reads; [`carry_out`] sets weights and removes lessons that stopped helping. Both depend
//! only on the store, so that a second run gives the same result and changes nothing more.

mod page;
mod report;
mod suggest;
mod tally;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::lesson::{Lesson, Origin, Scope};
use super::store::{SqliteStore, StoreError};
use super::trace::ExecutionTrace;

pub use page::{html, markdown};
pub use report::short;
pub use suggest::Suggestion;
pub use tally::{
    AlwaysFailing, CallKind, MethodologyUse, RecurringFailure, Totals, UnresolvedFailure,
};

/// The reviewed period and project.
#[derive(Clone, Debug, Serialize)]
pub struct Period {
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
    pub period: Period,
    /// Totals.
    pub totals: Totals,
    /// The previous period of the same length; `None` if nothing was recorded in it.
    pub before: Option<Totals>,
    /// Unresolved failures, which the user should check first.
    pub needs_human: Vec<UnresolvedFailure>,
    /// Kinds of calls, those with the highest cost first.
    pub call_kinds: Vec<CallKind>,
    /// Failures, the most frequent first.
    pub failures: Vec<RecurringFailure>,
    /// What always failed under one condition.
    pub always: Vec<AlwaysFailing>,
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
pub struct Changed {
    /// Number of changed weights.
    pub weights: usize,
    /// Number of removed lessons.
    pub dropped: usize,
}

/// Reviews a period; `items`: all lessons in its scopes, also retired ones.
pub fn review(
    store: &SqliteStore,
    period: &Period,
    items: &[Lesson],
) -> Result<Review, StoreError> {
    let length = period.to_ms.saturating_sub(period.from_ms);
    let since = period.from_ms.saturating_sub(length);
    let mut traces = store.traces(since, None)?;
    traces.retain(|trace| trace.created_at_ms < period.to_ms);
    let (mut before, mut now): (Vec<ExecutionTrace>, Vec<ExecutionTrace>) =
        traces.into_iter().partition(|trace| trace.created_at_ms < period.from_ms);
    let weights = tally::weights(&now);
    if let Some(project) = &period.project {
        before.retain(|trace| trace.project == *project);
        now.retain(|trace| trace.project == *project);
    }
    let mut review = Review {
        period: period.clone(),
        totals: tally::totals(&now),
        before: (!before.is_empty()).then(|| tally::totals(&before)),
        needs_human: tally::needs_human(&now),
        call_kinds: tally::call_kinds(&now, &before),
        failures: tally::failures(&now, items),
        always: tally::always(&now),
        methodologies: tally::methodologies(&now),
        learnt: chosen(items, |item| item.created_at_ms >= period.from_ms && item.is_in_use()),
        helping: chosen(items, |item| item.helped > 1 && item.is_in_use()),
        retired: chosen(items, |item| !item.is_in_use() && item.origin != Origin::User),
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
    review.suggestions = suggest::all(&review, items);
    Ok(review)
}

fn chosen(items: &[Lesson], fits: impl Fn(&Lesson) -> bool) -> Vec<Lesson> {
    items.iter().filter(|item| fits(item)).cloned().collect()
}

/// Sets the weights that follow from a review, and removes the lessons that stopped helping.
pub fn carry_out(store: &SqliteStore, review: &Review) -> Result<Changed, StoreError> {
    let mut changed = Changed::default();
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
        changed.dropped += usize::from(store.forget(&item.id)?);
    }
    Ok(changed)
}

/// Number of sessions in which a lesson was learnt.
fn n_sessions(item: &Lesson) -> usize {
    item.sources.iter().map(|source| &source.session).collect::<BTreeSet<_>>().len()
}

/// The projects of lessons, with the number of lessons of each.
fn by_project(items: &[Lesson]) -> BTreeMap<&str, usize> {
    let mut projects = BTreeMap::new();
    for item in items {
        if let Scope::Project(project) = &item.scope {
            *projects.entry(project.as_str()).or_default() += 1;
        }
    }
    projects
}
