//! What is known, in memory: the items of a project and of its user, asked by the kernel and answered at once.

use std::collections::BTreeMap;

use super::item::{APPLY_AT, Item, Scope};
use super::relevance::{Subject, Task};
use crate::protocol::message::ToolCall;
use crate::protocol::recall::{FailedAs, Recalled, Remedy};

/// So many bytes of text are about one token.
const BYTES_A_TOKEN: u64 = 4;
/// Two items of this rank stand in no other order than that of how sure they are.
const SAME_RANK: f64 = 0.05;

/// Items that are in use, ready to be asked.
#[derive(Debug, Default)]
pub struct Advisor {
    items: Vec<Item>,
    /// What each of them is about, in the same order.
    subjects: Vec<Subject>,
    /// What the ways of working weigh.
    weights: BTreeMap<String, f64>,
}

impl Advisor {
    /// Of these items those that are in use.
    pub fn new(items: Vec<Item>) -> Self {
        let items: Vec<Item> = items.into_iter().filter(Item::is_in_use).collect();
        let subjects = items.iter().map(Subject::of).collect();
        Self { items, subjects, weights: BTreeMap::new() }
    }

    /// With what the ways of working weigh, by their names.
    #[must_use]
    pub fn with_weights(mut self, weights: BTreeMap<String, f64>) -> Self {
        self.weights = weights;
        self
    }

    /// What a way of working weighs; 0.5 where nothing is known.
    pub fn weight(&self, methodology: &str) -> f64 {
        self.weights.get(methodology).copied().unwrap_or(0.5)
    }

    /// How many items it knows.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// It knows nothing.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What fits a task, the best first: at most so many tokens in all. What this session itself has taught
    /// it has not forgotten.
    pub fn for_task(&self, task: &str, max_tokens: u64, session: &str) -> Vec<Recalled> {
        if self.items.is_empty() {
            return Vec::new();
        }
        let task = Task::read(task);
        let is_new = |(item, _): &(&Item, &Subject)| {
            item.evidence.is_empty() || item.evidence.iter().any(|other| other != session)
        };
        let fitting = self.items.iter().zip(&self.subjects).filter(is_new);
        let mut fitting: Vec<(f64, &Item)> = fitting
            .filter_map(|(item, subject)| {
                Some((task.fits(item, subject)? * (0.5 + item.confidence()), item))
            })
            .collect();
        fitting.sort_by(|(a, one), (b, other)| {
            b.total_cmp(a).then(other.last_occurred_ms.cmp(&one.last_occurred_ms))
        });
        let mut left = max_tokens;
        let mut told: Vec<Recalled> = Vec::new();
        for (_, item) in fitting {
            let tokens = item.text.len() as u64 / BYTES_A_TOKEN + 2;
            let says_the_same = told.iter().any(|told| told.text == item.text);
            if let Some(rest) = left.checked_sub(tokens).filter(|_| !says_the_same) {
                left = rest;
                told.push(recalled(item));
            }
        }
        told
    }

    /// What is known of a call that is about to be made and does not show in its own answer.
    pub fn before(&self, call: &ToolCall) -> Option<Recalled> {
        let warns = |item: &&Item| {
            item.failure.as_ref().is_some_and(|failure| {
                let when = &failure.when;
                // What shows in the call's own answer is told when it is there.
                when.code.is_none() && when.signature.is_none() && failure.warns_of(call)
            })
        };
        let known = self.items.iter().filter(warns);
        known.max_by(|a, b| a.confidence().total_cmp(&b.confidence())).map(recalled)
    }

    /// What helped when a call failed like this; for the kernel to do where it is sure enough.
    pub fn after(&self, failed: &FailedAs<'_>) -> Option<Remedy> {
        let known = self.items.iter().filter_map(|item| {
            let failure = item.failure.as_ref().filter(|failure| failure.fits(failed))?;
            // A fix that the call follows already, or that does not apply to it, is no advice.
            if failure.fix.is_some() && failure.action(failed.call).is_none() {
                return None;
            }
            let when = &failure.when;
            let named = [&when.signature, &when.command_head, &when.path, &when.argument];
            let n_named = named.into_iter().flatten().count();
            let rank = u32::try_from(n_named).unwrap_or(0) + u32::from(failure.fix.is_some());
            Some((rank, item, failure))
        });
        let best = known.max_by(|(rank, one, _), (other_rank, other, _)| {
            let (one_is_sure, other_is_sure) = (one.confidence(), other.confidence());
            rank.cmp(other_rank).then_with(|| {
                if (one_is_sure - other_is_sure).abs() > SAME_RANK {
                    return one_is_sure.total_cmp(&other_is_sure);
                }
                let is_here = |item: &Item| item.scope != Scope::User;
                is_here(one)
                    .cmp(&is_here(other))
                    .then(one.last_occurred_ms.cmp(&other.last_occurred_ms))
            })
        });
        let (_, item, failure) = best?;
        let confidence = item.confidence();
        let applied = Some(failure).filter(|_| confidence >= APPLY_AT);
        let first = applied.and_then(|failure| failure.first(failed.call)).map(str::to_owned);
        let action = applied.and_then(|failure| failure.action(failed.call));
        Some(Remedy { item: recalled(item), confidence, first, action })
    }
}

fn recalled(item: &Item) -> Recalled {
    Recalled { id: item.id.clone(), kind: item.kind, text: item.text.clone() }
}
