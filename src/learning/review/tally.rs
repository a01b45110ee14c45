//! Counting: what a period's traces say, in numbers.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use super::super::call::target;
use super::super::lesson::{Lesson, key};
use super::super::trace::{Attempt, ExecutionTrace, context_of, error_type, execution_history};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::methodology;
use crate::protocol::shorten;

/// From so many uses on *always* says something.
const MIN_USES: usize = 3;
/// So many rows of each table are kept.
const MAX_ROWS: usize = 40;

/// A period in sum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Sessions.
    pub sessions: usize,
    /// Tasks: messages of a user that were worked on.
    pub tasks: usize,
    /// Pieces of work: traces.
    pub pieces: usize,
    /// Of these so many went well at once.
    pub at_once: usize,
    /// So many were made good.
    pub made_good: usize,
    /// So many were not.
    pub failed: usize,
    /// Attempts that failed, in all.
    pub failed_attempts: usize,
    /// Fixes by their source.
    pub sources: BTreeMap<String, usize>,
}

impl Totals {
    /// The share of pieces of work that ended well.
    pub fn rate(&self) -> f64 {
        share(self.pieces - self.failed, self.pieces)
    }

    /// The share that went well at once.
    pub fn at_once_rate(&self) -> f64 {
        share(self.at_once, self.pieces)
    }
}

/// A part of a whole, 0 where there is nothing.
pub(super) fn share(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of a few weeks")]
    let share = part as f64 / whole.max(1) as f64;
    share
}

pub(super) fn totals(traces: &[ExecutionTrace]) -> Totals {
    let set =
        |of: fn(&ExecutionTrace) -> &str| traces.iter().map(of).collect::<BTreeSet<_>>().len();
    let mut totals = Totals {
        sessions: set(|trace| &trace.session),
        tasks: set(|trace| &trace.task_id),
        pieces: traces.len(),
        ..Totals::default()
    };
    for trace in traces {
        let n_failed = trace.attempts.iter().filter(|attempt| !attempt.success).count();
        totals.failed_attempts += n_failed;
        match (trace.final_success, n_failed) {
            (true, 0) => totals.at_once += 1,
            (true, _) => totals.made_good += 1,
            (false, _) => totals.failed += 1,
        }
        let source = trace.attempts.last().and_then(|attempt| attempt.fix_source);
        if let Some(source) = source.filter(|_| trace.final_success) {
            let word = serde_json::to_value(source).unwrap_or_default();
            let word = word.as_str().unwrap_or_default().to_owned();
            *totals.sources.entry(word).or_default() += 1;
        }
    }
    totals
}

/// Something that ended badly, as often as it did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attention {
    /// The latest trace: `SESSION/TURN/N`.
    pub trace: String,
    /// The sessions, the latest first.
    pub sessions: Vec<String>,
    /// The latest session's turn.
    pub turn: u32,
    /// The projects; what is the machine's is one thing in all of them.
    pub projects: BTreeSet<String>,
    /// The methods.
    pub skills: BTreeSet<String>,
    /// When it began last.
    pub at_ms: i64,
    /// So often it was tried, in all.
    pub attempts: usize,
    /// What it said last.
    pub error: String,
    /// What was tried otherwise.
    pub tried: BTreeSet<String>,
}

pub(super) fn needs_human(traces: &[ExecutionTrace]) -> Vec<Attention> {
    let mut found: BTreeMap<(&str, String), Attention> = BTreeMap::new();
    // The oldest first: what is said of one is what the latest says.
    for trace in traces.iter().filter(|trace| trace.needs_human) {
        let failed = || trace.attempts.iter().rev().filter(|attempt| attempt.error.is_some());
        let last = failed().find(|attempt| !is_held_back(attempt)).or_else(|| failed().next());
        let error = last.and_then(|last| last.error.as_deref()).unwrap_or_default();
        let says = last.and_then(|last| last.signature.clone()).unwrap_or_default();
        let place = if last.is_some_and(is_machines) { "" } else { &trace.project };
        let entry = found.entry((place, says)).or_insert_with(|| Attention {
            trace: String::new(),
            sessions: Vec::new(),
            turn: 0,
            projects: BTreeSet::new(),
            skills: BTreeSet::new(),
            at_ms: 0,
            attempts: 0,
            error: String::new(),
            tried: BTreeSet::new(),
        });
        entry.trace.clone_from(&trace.id);
        entry.sessions.retain(|session| *session != trace.session);
        entry.sessions.insert(0, trace.session.clone());
        entry.turn = trace.turn;
        entry.skills.insert(trace.skill_id.clone());
        entry.at_ms = trace.created_at_ms;
        entry.attempts += trace.attempts.len();
        entry.projects.insert(trace.project.clone());
        entry.error = shorten(error, 160);
        let tried = trace.attempts.iter().filter_map(|attempt| attempt.fix_applied.as_deref());
        entry.tried.extend(tried.filter(|tried| *tried != "tried again").map(str::to_owned));
    }
    let mut found: Vec<Attention> = found.into_values().collect();
    found.sort_by_key(|attention| std::cmp::Reverse((attention.sessions.len(), attention.at_ms)));
    found.truncate(MAX_ROWS);
    found
}

/// The call was not made, because the same ones before it had failed: that says nothing of its own.
fn is_held_back(attempt: &Attempt) -> bool {
    matches!(attempt.code, Some(ErrorCode::RepeatedCall | ErrorCode::CircuitOpen))
}

/// The tool could not do its work, or a program is not there: not the project's fault.
fn is_machines(attempt: &Attempt) -> bool {
    let is_missing = attempt.context.get("exit_code").and_then(Value::as_i64) == Some(127);
    is_missing || attempt.code == Some(ErrorCode::ExecutionError)
}

/// A method: how often it was used, and how it went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Method {
    /// The traces' `skill_id`.
    pub skill: String,
    /// Traces.
    pub n: usize,
    /// Of these so many went well at once.
    pub at_once: usize,
    /// So many were made good.
    pub made_good: usize,
    /// So many were not.
    pub failed: usize,
    /// The share that ended well.
    pub rate: f64,
    /// The same in the period before, where it was used then.
    pub rate_before: Option<f64>,
    /// What it weighs now; see [`weight`].
    pub weight: f64,
    /// What it weighed.
    pub weight_before: f64,
}

impl Method {
    /// Failed attempts that it cost.
    fn cost(&self) -> usize {
        self.made_good + 2 * self.failed
    }
}

/// A weight: `(s + 1) / (n + 2)`. Each of the `n` traces counts 1 where it went well at once, `1 / (1 + k)`
/// where `k` attempts had failed before, 0 where it ended badly.
pub(super) fn weight<'a>(traces: impl Iterator<Item = &'a ExecutionTrace>) -> f64 {
    let (mut sum, mut n) = (0.0, 0.0);
    for trace in traces {
        n += 1.0;
        if trace.final_success {
            let failed = trace.attempts.iter().filter(|attempt| !attempt.success).count();
            sum += share(1, 1 + failed);
        }
    }
    (sum + 1.0) / (n + 2.0)
}

/// What methods and ways of working weigh, by their subjects.
pub(super) fn weights(traces: &[ExecutionTrace]) -> BTreeMap<String, f64> {
    let methods = methods(traces, &[]).into_iter().map(|method| (method.skill, method.weight));
    methods.chain(ways(traces).into_iter().map(|way| (way.subject(), way.weight))).collect()
}

fn by_skill(traces: &[ExecutionTrace]) -> BTreeMap<&str, Vec<&ExecutionTrace>> {
    let mut skills: BTreeMap<&str, Vec<&ExecutionTrace>> = BTreeMap::new();
    for trace in traces {
        skills.entry(&trace.skill_id).or_default().push(trace);
    }
    skills
}

pub(super) fn methods(now: &[ExecutionTrace], before: &[ExecutionTrace]) -> Vec<Method> {
    let before = by_skill(before);
    let rate = |traces: &[&ExecutionTrace]| {
        share(traces.iter().filter(|trace| trace.final_success).count(), traces.len())
    };
    let of = |(skill, traces): (&str, Vec<&ExecutionTrace>)| {
        let well = || traces.iter().filter(|trace| trace.final_success);
        let at_once = well().filter(|trace| trace.attempts.len() == 1).count();
        Method {
            skill: skill.to_owned(),
            n: traces.len(),
            at_once,
            made_good: well().count() - at_once,
            failed: traces.len() - well().count(),
            rate: rate(&traces),
            rate_before: before.get(skill).map(|traces| rate(traces)),
            weight: weight(traces.iter().copied()),
            weight_before: 0.5,
        }
    };
    let mut methods: Vec<Method> = by_skill(now).into_iter().map(of).collect();
    methods.sort_by_key(|method| std::cmp::Reverse((method.cost(), method.n)));
    methods
}

/// A failure that comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frequent {
    /// The methods.
    pub skills: BTreeSet<String>,
    /// What it said; where that was not always the same, without what changes by chance.
    pub says: String,
    /// The kind of error.
    pub error_type: String,
    /// So many attempts failed so.
    pub n: usize,
    /// In so many sessions.
    pub sessions: usize,
    /// So many of their traces ended well.
    pub made_good: usize,
    /// Of so many.
    pub traces: usize,
    /// The item that knows of it: id and text.
    pub known: Option<(String, String)>,
    /// So many others know of some of it.
    pub known_others: usize,
}

pub(super) fn failures(traces: &[ExecutionTrace], lessons: &[Lesson]) -> Vec<Frequent> {
    #[derive(Default)]
    struct Seen<'a> {
        n: usize,
        skills: BTreeSet<String>,
        sessions: BTreeSet<&'a str>,
        traces: BTreeMap<&'a str, bool>,
        error_type: &'static str,
        /// By what they said, the last of each.
        said: BTreeMap<&'a str, &'a Attempt>,
        last: Option<&'a Attempt>,
    }
    let mut seen: BTreeMap<String, Seen<'_>> = BTreeMap::new();
    for trace in traces {
        let failed = trace.attempts.iter().filter(|attempt| !attempt.success);
        for attempt in failed.filter(|attempt| !is_held_back(attempt)) {
            let error = attempt.error.as_deref().unwrap_or_default();
            let says = shorten(attempt.signature.as_deref().unwrap_or_default(), 120);
            let entry = seen.entry(says).or_default();
            entry.n += 1;
            entry.skills.insert(trace.skill_id.clone());
            entry.sessions.insert(&trace.session);
            entry.traces.insert(&trace.id, trace.final_success);
            entry.error_type = kind_of_error(attempt);
            entry.last = Some(attempt);
            if entry.said.len() < MAX_ROWS {
                entry.said.insert(error, attempt);
            }
        }
    }
    let of = |(says, seen): (String, Seen<'_>)| {
        let last = seen.last.and_then(|attempt| known(attempt, lessons));
        let mut knowing: BTreeMap<String, String> =
            seen.said.values().filter_map(|attempt| known(attempt, lessons)).collect();
        let known = last.or_else(|| knowing.pop_first());
        knowing.retain(|id, _| known.as_ref().is_none_or(|(known, _)| known != id));
        Frequent {
            skills: seen.skills,
            says: match seen.said.keys().collect::<Vec<_>>().as_slice() {
                [only] => shorten(only, 120),
                _ => says,
            },
            error_type: seen.error_type.to_owned(),
            n: seen.n,
            sessions: seen.sessions.len(),
            made_good: seen.traces.values().filter(|well| **well).count(),
            traces: seen.traces.len(),
            known,
            known_others: knowing.len(),
        }
    };
    let mut seen: Vec<(String, Seen<'_>)> = seen.into_iter().collect();
    seen.sort_by(|(a_says, a), (b_says, b)| {
        (b.n, b.sessions.len(), a_says).cmp(&(a.n, a.sessions.len(), b_says))
    });
    seen.truncate(MAX_ROWS);
    seen.into_iter().map(of).collect()
}

/// The surest lesson about this failure: id and text.
fn known(attempt: &Attempt, lessons: &[Lesson]) -> Option<(String, String)> {
    let wanted = key_of(attempt)?;
    let is_it = |lesson: &&Lesson| {
        lesson.is_in_use() && lesson.failure.as_ref().is_some_and(|it| it.key() == wanted)
    };
    let best =
        lessons.iter().filter(is_it).max_by(|a, b| a.confidence().total_cmp(&b.confidence()));
    best.map(|lesson| (lesson.id.clone(), lesson.text.clone()))
}

fn key_of(attempt: &Attempt) -> Option<String> {
    let tool = attempt.context.get("tool").and_then(Value::as_str)?;
    let input = attempt.context.get("input").and_then(Value::as_object)?;
    let target = target(tool, input, &attempt.activated_artifacts);
    Some(key(tool, &target, attempt.code?, attempt.signature.as_deref().unwrap_or_default()))
}

fn kind_of_error(attempt: &Attempt) -> &'static str {
    let tool = attempt.context.get("tool").and_then(Value::as_str).unwrap_or_default();
    let exit_code = attempt.context.get("exit_code").and_then(Value::as_i64);
    error_type(tool, attempt.code, exit_code)
}

/// What never worked under one condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Always {
    /// The artifact, or the method where none was used.
    pub subject: String,
    /// What the condition has that no condition has in which it worked.
    pub only_here: String,
    /// The condition in words; empty where it never worked under any.
    pub context: String,
    /// Its hash; empty there too.
    pub context_hash: String,
    /// So often it failed, and never worked.
    pub n: usize,
    /// What it said last.
    pub error: String,
    /// Under other conditions it worked so often.
    pub elsewhere_well: usize,
    /// Of so many.
    pub elsewhere: usize,
}

pub(super) fn always(traces: &[ExecutionTrace]) -> Vec<Always> {
    // Of an artifact, or of a method that uses none: condition → uses.
    let mut uses: BTreeMap<String, BTreeMap<String, Vec<(bool, String)>>> = BTreeMap::new();
    let mut hashes: BTreeMap<String, String> = BTreeMap::new();
    for (artifact, records) in execution_history(traces) {
        for record in records {
            hashes.insert(record.context.clone(), record.context_hash);
            let of_artifact = uses.entry(artifact.clone()).or_default();
            let error = record.error.unwrap_or_default();
            of_artifact.entry(record.context).or_default().push((record.success, error));
        }
    }
    for trace in traces {
        let bare = trace.attempts.iter().filter(|attempt| attempt.activated_artifacts.is_empty());
        for attempt in bare.filter(|attempt| {
            !is_held_back(attempt) && attempt.code != Some(ErrorCode::ExecutionError)
        }) {
            let context = context_of(attempt);
            let hash = blake3::hash(context.as_bytes()).to_hex()[..12].to_owned();
            hashes.insert(context.clone(), hash);
            let error = attempt.error.clone().unwrap_or_default();
            let of_skill = uses.entry(trace.skill_id.clone()).or_default();
            of_skill.entry(context).or_default().push((attempt.success, error));
        }
    }
    let mut found = Vec::new();
    for (subject, contexts) in &uses {
        let all = || contexts.values().flatten();
        if all().all(|(success, _)| !success) {
            // Nothing tells the conditions apart.
            let n = all().count();
            let error = all().last().map_or_else(String::new, |(_, error)| shorten(error, 160));
            found.extend((n >= MIN_USES).then(|| Always {
                subject: subject.clone(),
                only_here: String::new(),
                context: String::new(),
                context_hash: String::new(),
                n,
                error,
                elsewhere_well: 0,
                elsewhere: 0,
            }));
            continue;
        }
        for (context, uses) in contexts {
            if uses.len() < MIN_USES || uses.iter().any(|(success, _)| *success) {
                continue;
            }
            let others = || contexts.iter().filter(|(other, _)| *other != context);
            let worked = others().filter(|(_, uses)| uses.iter().any(|(success, _)| *success));
            let parts_that_worked: BTreeSet<&str> =
                worked.flat_map(|(context, _)| context.split(" · ")).collect();
            let only: Vec<&str> =
                context.split(" · ").filter(|part| !parts_that_worked.contains(part)).collect();
            let elsewhere: Vec<&(bool, String)> = others().flat_map(|(_, uses)| uses).collect();
            found.push(Always {
                subject: subject.clone(),
                // That a line sets PATH says nothing of what it runs.
                only_here: only.join(" · ").trim_start_matches("PATH ").to_owned(),
                context: context.clone(),
                context_hash: hashes.get(context).cloned().unwrap_or_default(),
                n: uses.len(),
                error: uses.last().map_or_else(String::new, |(_, error)| shorten(error, 160)),
                elsewhere_well: elsewhere.iter().filter(|(success, _)| *success).count(),
                elsewhere: elsewhere.len(),
            });
        }
    }
    // What works otherwise says most.
    found.sort_by(|a, b| {
        (b.elsewhere_well > 0, b.n, &a.subject).cmp(&(a.elsewhere_well > 0, a.n, &b.subject))
    });
    found.truncate(MAX_ROWS);
    found
}

/// A named way of working, and the tasks that were done in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Working {
    /// Its name; `None`: none was chosen.
    pub name: Option<String>,
    /// Tasks.
    pub tasks: usize,
    /// Of these so many left nothing for a person.
    pub well: usize,
    /// Failed attempts a task, on average.
    pub failed_attempts: f64,
    /// What it weighs now: `(well + 1) / (tasks + 2)`.
    pub weight: f64,
    /// What it weighed.
    pub weight_before: f64,
}

impl Working {
    /// Under which it is weighed.
    pub fn subject(&self) -> String {
        methodology::subject(self.name.as_deref().unwrap_or("none"))
    }
}

pub(super) fn ways(traces: &[ExecutionTrace]) -> Vec<Working> {
    // A task is done in the way that was chosen for it, from its beginning on.
    let mut chosen: BTreeMap<&str, Option<&str>> = BTreeMap::new();
    for trace in traces {
        let way = chosen.entry(&trace.task_id).or_default();
        *way = trace.methodology.as_deref().or(*way);
    }
    let mut ways: BTreeMap<Option<&str>, BTreeMap<&str, (bool, usize)>> = BTreeMap::new();
    for trace in traces {
        let way = chosen.get(trace.task_id.as_str()).copied().flatten();
        let tasks = ways.entry(way).or_default();
        let (well, failed) = tasks.entry(&trace.task_id).or_insert((true, 0));
        *well &= !trace.needs_human;
        *failed += trace.attempts.iter().filter(|attempt| !attempt.success).count();
    }
    // Nothing was ever chosen: nothing to compare.
    if ways.keys().all(Option::is_none) {
        return Vec::new();
    }
    let of = |(name, tasks): (Option<&str>, BTreeMap<&str, (bool, usize)>)| {
        let well = tasks.values().filter(|(well, _)| *well).count();
        let failed: usize = tasks.values().map(|(_, failed)| failed).sum();
        Working {
            name: name.map(str::to_owned),
            tasks: tasks.len(),
            well,
            failed_attempts: share(failed, tasks.len()),
            weight: share(well + 1, tasks.len() + 2),
            weight_before: 0.5,
        }
    };
    let mut ways: Vec<Working> = ways.into_iter().map(of).collect();
    ways.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    ways
}
