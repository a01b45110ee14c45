//! What is known, in memory: the items of a project and of its user, asked by the kernel and answered at once.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use super::extract::guard;
use super::item::{APPLY_AT, FailurePattern, Item, Scope};
use super::leads::{self, Leads};
use super::pattern::{CHANGES, Read, input_of};
use super::relevance::Subjects;
use crate::protocol::command::unquoted;
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
    /// The task that was read last: many calls are asked about with the same one.
    read: Mutex<Option<Runs>>,
}

/// Whether something is run for a task.
#[derive(Debug)]
struct Runs {
    task: String,
    /// Without a change of a source, and with one.
    will: [bool; 2],
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
        let (weights, read) = (BTreeMap::new(), Mutex::default());
        Self { items, subjects, of_calls, leads, weights, read }
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
        is_shown: &dyn Fn(&str, &str) -> bool,
    ) -> Vec<Recalled> {
        // What gets past a guard is told where the task asks for it in words.
        let is_open = |item: &Item| {
            is_new(item, session)
                && !item.text.ends_with(guard::ONLY_ASKED)
                && !is_shown(&item.id, &item.text)
        };
        let input = input_of(done.call);
        let read = Read::new(done.call, &input).about(done.paths);
        let mut told: Vec<&Item> = self.silent(&read, done.call, &is_open);
        // What this very call shows to be needless, or has done, is not told below it.
        let is_ahead = |at: usize| {
            let is_here = |failure: &FailurePattern| {
                failure.when.fits_read(&read) || failure.is_followed_by(done.call)
            };
            is_open(&self.items[at]) && !self.items[at].failure.as_ref().is_some_and(is_here)
        };
        let ahead = self.leads.of(done, read.commands(), MAX_WARNED, &is_ahead);
        if !ahead.is_empty() && self.will_run(done.task, leads::is_change_of_source(done)) {
            told.extend(ahead.into_iter().map(|at| &self.items[at]));
        }
        told.sort_by(|one, other| leads::by_standing(one, other));
        // The same text may stand in another place of the order, as the user's and as the project's.
        let mut texts = BTreeSet::new();
        told.retain(|item| texts.insert(item.text.as_str()));
        told.into_iter().take(MAX_WARNED).map(recalled).collect()
    }

    /// Something is run for the task.
    fn will_run(&self, task: &str, has_changed_source: bool) -> bool {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = read.as_ref().filter(|known| known.task == task) {
            return known.will[usize::from(has_changed_source)];
        }
        let says = self.subjects.read(task);
        let will = [false, true].map(|has_changed| says.will_run_something(has_changed));
        *read = Some(Runs { task: task.to_owned(), will });
        will[usize::from(has_changed_source)]
    }

    /// The items that warn of this call though its own answer does not.
    fn silent(
        &self,
        read: &Read<'_>,
        call: &ToolCall,
        is_open: &dyn Fn(&Item) -> bool,
    ) -> Vec<&Item> {
        if self.of_calls.is_empty() {
            return Vec::new();
        }
        let programs = read.commands().iter().filter_map(|simple| simple.program().first());
        let mut keys: Vec<String> =
            programs.map(|program| program_key(&unquoted(program))).collect();
        keys.extend([call.name.clone(), String::new()]);
        keys.extend(CHANGES.contains(&call.name.as_str()).then(|| "Edit".to_owned()));
        keys.sort_unstable();
        keys.dedup();
        let found = keys.iter().filter_map(|key| self.of_calls.get(key)).flatten();
        let known = found.filter_map(|at| self.items.get(*at));
        let warns =
            |item: &&Item| item.failure.as_ref().is_some_and(|failure| failure.warns_of_read(read));
        known.filter(|item| is_open(item)).filter(warns).collect()
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What a check wants of a change, found under these conditions.
    fn wanted(text: &str, when: &Value) -> Item {
        let mut condition = json!({"tool": "Edit", "leads_to": {"tool": "Bash"}});
        let fields = when.as_object().expect("an object").clone();
        condition.as_object_mut().expect("an object").extend(fields);
        serde_json::from_value(json!({
            "id": "abcdef0123", "scope": "user", "kind": "failure_pattern", "text": text,
            "tags": {}, "because": null, "evidence": ["earlier"], "origin": "trace",
            "frequency": 1, "wins": 1, "losses": 0, "created_at_ms": 1, "last_occurred_ms": 1,
            "failure": {"skill": "Edit", "condition": "", "error_type": "", "suggested_fix": null,
                "when": condition, "fix": null}
        }))
        .expect("an item")
    }

    #[track_caller]
    fn check(item: Item, input: &Value, path: &str, is_told: bool) {
        let shown = format!("{}: {input}", item.text);
        let arguments = input.to_string();
        let call = ToolCall { id: String::new(), name: "Write".to_owned(), arguments };
        let done = Done { call: &call, paths: &[path], changes: true, task: "Mend it." };
        let told = Advisor::new(vec![item]).before(&done, "now", &|_, _| false);
        assert_eq!(told.len(), usize::from(is_told), "{shown}");
    }

    #[test]
    fn a_file_is_known_however_the_call_names_it() {
        let item = || wanted("Run gen.", &json!({"path": "src/gen.ts", "file_kind": "ts"}));
        for path in ["src/gen.ts", "./src/gen.ts", "/home/me/p/src/gen.ts", "src/../src/gen.ts"] {
            check(item(), &json!({"path": path, "content": "x"}), "src/gen.ts", true);
        }
        check(item(), &json!({"path": "/home/src/gen.ts", "content": "x"}), "lib/gen.ts", false);
    }

    #[test]
    fn only_lines_that_are_new_put_a_word_in() {
        let item = || wanted("Say `log`.", &json!({"puts_in": "print"}));
        let edit =
            |old: &str, new: &str| json!({"path": "a", "old_string": old, "new_string": new});
        check(item(), &edit("print(1)\na", "print(1)\nb"), "a", false);
        check(item(), &edit("print(1)\na", "print(1)\nprint(2)"), "a", true);
        check(item(), &json!({"path": "a", "content": "b\nprint(1)\n"}), "a", true);
    }

    #[test]
    fn what_gets_past_a_guard_is_not_told_below_a_change() {
        let input = || json!({"path": "a.ts", "content": "x"});
        let kind = || json!({"file_kind": "ts"});
        check(wanted("Run it with `--force`", &kind()), &input(), "a.ts", true);
        let guarded = format!("Run it with `--force`{}", guard::ONLY_ASKED);
        check(wanted(&guarded, &kind()), &input(), "a.ts", false);
    }

    #[test]
    fn a_task_is_read_once_for_all_its_calls() {
        let advisor = Advisor::new(Vec::new());
        for (task, will) in [
            ("Mend `a.py`.", true),
            ("Mend `a.py`. Don't run the tests.", false),
            ("Mend `a.py`.", true),
        ] {
            for _ in 0..2 {
                assert_eq!(advisor.will_run(task, true), will, "{task}");
                let read = advisor.read.lock().expect("nobody panicked");
                assert_eq!(read.as_ref().map(|read| read.task.as_str()), Some(task));
            }
        }
    }
}
