//! The scheduled review: what a period's traces say of methods, ways of working and memory, and what follows from it.
//!
//! [`review`] only reads; [`carry_out`] sets weights and drops what stopped helping. Both depend on the store alone, so
//! that a second run says the same and changes nothing more.

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
pub use tally::{Always, Attention, Frequent, Method, Totals, Working};

/// What is looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Period {
    /// From this moment, in milliseconds since 1970.
    pub from_ms: i64,
    /// To this one.
    pub to_ms: i64,
    /// The project's identity; `None`: all projects.
    pub project: Option<String>,
}

/// What a period came to.
#[derive(Clone, Debug, Serialize)]
pub struct Review {
    /// What was looked at.
    pub period: Period,
    /// In sum.
    pub totals: Totals,
    /// The period of the same length before; `None` where nothing was recorded in it.
    pub before: Option<Totals>,
    /// What ended badly: a person should look at it first.
    pub needs_human: Vec<Attention>,
    /// Methods, those that cost most first.
    pub methods: Vec<Method>,
    /// Failures, the most frequent first.
    pub failures: Vec<Frequent>,
    /// What never worked under one condition.
    pub always: Vec<Always>,
    /// Named ways of working.
    pub ways: Vec<Working>,
    /// Items that were learnt in the period, those that helped most first, then the newest.
    pub learnt: Vec<Lesson>,
    /// Items that helped at least once after they were learnt, the best first.
    pub helping: Vec<Lesson>,
    /// Items that do not help often enough any more: they go.
    pub retired: Vec<Lesson>,
    /// What a person could do about it.
    pub suggestions: Vec<Suggestion>,
}

/// What a review changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// Weights that are others now.
    pub weights: usize,
    /// Items that were dropped.
    pub dropped: usize,
}

/// Looks at a period; `items`: all there are in its scopes, also those that are not used any more.
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
        methods: tally::methods(&now, &before),
        failures: tally::failures(&now, items),
        always: tally::always(&now),
        ways: tally::ways(&now),
        learnt: chosen(items, |item| item.created_at_ms >= period.from_ms && item.is_in_use()),
        helping: chosen(items, |item| item.helped > 1 && item.is_in_use()),
        retired: chosen(items, |item| !item.is_in_use() && item.origin != Origin::User),
        suggestions: Vec::new(),
    };
    for method in &mut review.methods {
        method.weight = weights.get(&method.skill).copied().unwrap_or(method.weight);
        method.weight_before = store.weight(&method.skill)?;
    }
    for way in &mut review.ways {
        way.weight = weights.get(&way.subject()).copied().unwrap_or(way.weight);
        way.weight_before = store.weight(&way.subject())?;
    }
    review.ways.sort_by(|a, b| b.weight.total_cmp(&a.weight));
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

/// Sets the weights that follow from a review, and drops the items that stopped helping.
pub fn carry_out(store: &SqliteStore, review: &Review) -> Result<Changed, StoreError> {
    let mut changed = Changed::default();
    let methods = review.methods.iter().map(|m| (m.skill.clone(), m.weight_before, m.weight));
    let ways = review.ways.iter().map(|way| (way.subject(), way.weight_before, way.weight));
    for (subject, before, now) in methods.chain(ways) {
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

/// In how many sessions an item was seen.
fn n_sessions(item: &Lesson) -> usize {
    item.sources.iter().map(|source| &source.session).collect::<BTreeSet<_>>().len()
}

/// The projects that items belong to, and how many each has.
fn by_project(items: &[Lesson]) -> BTreeMap<&str, usize> {
    let mut projects = BTreeMap::new();
    for item in items {
        if let Scope::Project(project) = &item.scope {
            *projects.entry(project.as_str()).or_default() += 1;
        }
    }
    projects
}
