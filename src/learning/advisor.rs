//! What is known, in memory: the items of a project and of its user, asked by the kernel and answered at once.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::command::{simple_commands, unquoted};
use super::item::{APPLY_AT, FailurePattern, Item, Scope};
use super::leads::{self, Leads};
use super::pattern::{CHANGES, input_of};
use super::relevance::Subjects;
use crate::protocol::Object;
use crate::protocol::message::ToolCall;
use crate::protocol::recall::{Done, FailedAs, Recalled, Remedy};

/// So many bytes of text are about one token.
const BYTES_A_TOKEN: u64 = 4;
/// Two items of this rank stand in no other order than that of how sure they are.
const SAME_RANK: f64 = 0.05;
/// So many items are told below a call that went well.
const MAX_WARNED: usize = 2;

/// Items that are in use, ready to be asked.
#[derive(Debug, Default)]
pub struct Advisor {
    items: Vec<Item>,
    /// What each of them is about, in the same order.
    subjects: Subjects,
    /// Those whose failure does not show in the call's own answer: by the program of its command, else by its tool.
    of_calls: BTreeMap<String, Vec<usize>>,
    leads: Leads,
    /// What the ways of working weigh.
    weights: BTreeMap<String, f64>,
}

impl Advisor {
    /// Of these items those that are in use.
    pub fn new(items: Vec<Item>) -> Self {
        let items: Vec<Item> = items.into_iter().filter(Item::is_in_use).collect();
        let subjects = Subjects::of(&items);
        let mut of_calls: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, item) in items.iter().enumerate() {
            if let Some(failure) = item.failure.as_ref().filter(|failure| is_silent(failure)) {
                of_calls.entry(key_of(failure)).or_default().push(at);
            }
        }
        let leads = Leads::new(&items, &subjects);
        Self { items, subjects, of_calls, leads, weights: BTreeMap::new() }
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
    pub fn for_task(
        &self,
        task: &str,
        max_tokens: u64,
        session: &str,
        is_there: &dyn Fn(&str) -> bool,
    ) -> Vec<Recalled> {
        if self.items.is_empty() {
            return Vec::new();
        }
        let task = self.subjects.read(task);
        let mut fitting: Vec<(f64, &Item)> = Vec::new();
        for (item, subject) in self.items.iter().zip(self.subjects.iter()) {
            if let Some(fits) = task.fits(subject)
                && is_new(item, session)
                && !subject.is_over(is_there)
            {
                fitting.push((fits * (0.5 + item.confidence()), item));
            }
        }
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

    /// Of what who made this call is to be warned: what does not show in its own answer, and what is known of the
    /// commands that it leads to. What was shown, or what this session itself has taught, is not said again.
    pub fn before(
        &self,
        done: &Done<'_>,
        session: &str,
        is_shown: &dyn Fn(&str) -> bool,
    ) -> Vec<Recalled> {
        let is_open = |item: &Item| !is_shown(&item.id) && is_new(item, session);
        let silent = self.about(done.call).into_iter();
        let silent = silent.filter(|(item, failure)| is_open(item) && failure.warns_of(done.call));
        let mut told: Vec<&Item> = silent.map(|(item, _)| item).collect();
        let ahead = self.leads.of(done, MAX_WARNED, &|at| is_open(&self.items[at]));
        let will_run =
            || self.subjects.read(done.task).will_run_something(leads::is_change_of_source(done));
        if !ahead.is_empty() && will_run() {
            told.extend(ahead.into_iter().map(|at| &self.items[at]));
        }
        told.sort_by(|one, other| leads::by_standing(one, other));
        told.dedup_by(|one, other| one.text == other.text);
        told.into_iter().take(MAX_WARNED).map(recalled).collect()
    }

    /// The items that may speak of this call before it is made.
    fn about(&self, call: &ToolCall) -> Vec<(&Item, &FailurePattern)> {
        if self.of_calls.is_empty() {
            return Vec::new();
        }
        // A long text that is written is not read for this.
        let is_command = call.arguments.contains("\"command\"");
        let input = if is_command { input_of(call) } else { Object::new() };
        let line = input.get("command").and_then(serde_json::Value::as_str).unwrap_or_default();
        let commands = simple_commands(line);
        let programs = commands.iter().filter_map(|simple| simple.program().first());
        let mut keys: Vec<String> =
            programs.map(|program| program_key(&unquoted(program))).collect();
        keys.extend([call.name.clone(), String::new()]);
        keys.extend(CHANGES.contains(&call.name.as_str()).then(|| "Edit".to_owned()));
        keys.sort_unstable();
        keys.dedup();
        let found = keys.iter().filter_map(|key| self.of_calls.get(key)).flatten();
        let known = found.filter_map(|at| self.items.get(*at));
        known.filter_map(|item| Some((item, item.failure.as_ref()?))).collect()
    }

    /// What helped when a call failed like this; for the kernel to do where it is sure enough.
    pub fn after(&self, failed: &FailedAs<'_>) -> Option<Remedy> {
        let known = self.items.iter().filter_map(|item| {
            let failure = item.failure.as_ref().filter(|failure| failure.fits(failed))?;
            // A fix that the call follows already, or that does not apply to it, is no advice.
            let applies = failure.fix.is_none() || failure.action(failed.call).is_some();
            applies.then_some((item, failure))
        });
        let best = known.max_by(better);
        let (item, failure) = best?;
        let confidence = item.confidence();
        let applied = Some(failure).filter(|_| confidence >= APPLY_AT);
        let first = applied.and_then(|failure| failure.first(failed.call)).map(str::to_owned);
        let action = applied.and_then(|failure| failure.action(failed.call));
        Some(Remedy { item: recalled(item), confidence, first, action })
    }
}

/// It is not this session itself that taught it.
fn is_new(item: &Item, session: &str) -> bool {
    item.evidence.is_empty() || item.evidence.iter().any(|other| other != session)
}

/// The failure does not show in the call's own answer.
fn is_silent(failure: &FailurePattern) -> bool {
    failure.when.code.is_none() && failure.when.signature.is_none()
}

/// Under what a pattern is found before a call is made.
fn key_of(failure: &FailurePattern) -> String {
    let head = failure.when.command_head.as_deref();
    let program = head.and_then(|head| head.split_whitespace().next());
    program.map_or_else(|| failure.when.tool.clone(), program_key)
}

/// No tool has a name with a blank in it.
fn program_key(program: &str) -> String {
    format!("$ {program}")
}

/// Which of two fits better: the one that names more of the call and knows a fix, then the surer one, then that
/// of the project, then the later one.
fn better(one: &(&Item, &FailurePattern), other: &(&Item, &FailurePattern)) -> Ordering {
    let rank = |(_, failure): &(&Item, &FailurePattern)| {
        let when = failure.when.leads_to.as_deref().unwrap_or(&failure.when);
        let named = [&when.signature, &when.command_head, &when.path, &when.argument];
        named.into_iter().flatten().count() + usize::from(failure.fix.is_some())
    };
    let ((item, _), (other_item, _)) = (one, other);
    rank(one).cmp(&rank(other)).then_with(|| {
        if (item.confidence() - other_item.confidence()).abs() > SAME_RANK {
            return by_confidence(one, other);
        }
        let is_here = |item: &Item| item.scope != Scope::User;
        is_here(item)
            .cmp(&is_here(other_item))
            .then(item.last_occurred_ms.cmp(&other_item.last_occurred_ms))
    })
}

fn by_confidence(one: &(&Item, &FailurePattern), other: &(&Item, &FailurePattern)) -> Ordering {
    one.0.confidence().total_cmp(&other.0.confidence())
}

fn recalled(item: &Item) -> Recalled {
    Recalled { id: item.id.clone(), kind: item.kind, text: item.text.clone() }
}
