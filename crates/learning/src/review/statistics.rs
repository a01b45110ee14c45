//! Counts the traces of a period.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::call_record::{call_target, text_argument};
use crate::lesson::{Lesson, failure_key};
use crate::trace::{Attempt, ExecutionTrace, FixSource};
use agent_protocol::envelope::ErrorCode;
use agent_protocol::shorten;

const MAX_ROWS: usize = 40;

/// Totals of a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PeriodTotals {
    pub sessions: usize,
    /// Tasks: messages of the user.
    pub tasks: usize,
    pub traces: usize,
    pub first_attempt: usize,
    pub resolved: usize,
    pub failed: usize,
    pub sources: BTreeMap<FixSource, usize>,
}

impl PeriodTotals {
    /// The share of traces whose first attempt succeeded.
    pub fn first_attempt_rate(&self) -> f64 {
        fraction(self.first_attempt, self.traces)
    }
}

/// A fraction; 0 if the whole is 0.
pub(super) fn fraction(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "counts of a few weeks")]
    let share = part as f64 / whole.max(1) as f64;
    share
}

pub(super) fn count_totals(traces: &[ExecutionTrace]) -> PeriodTotals {
    let count =
        |id: fn(&ExecutionTrace) -> &str| traces.iter().map(id).collect::<BTreeSet<_>>().len();
    let mut totals = PeriodTotals {
        sessions: count(|trace| &trace.session),
        tasks: count(|trace| &trace.task_id),
        traces: traces.len(),
        ..PeriodTotals::default()
    };
    for trace in traces {
        let n_failed = trace.attempts.iter().filter(|attempt| !attempt.success).count();
        match (trace.final_success, n_failed) {
            (true, 0) => totals.first_attempt += 1,
            (true, _) => totals.resolved += 1,
            (false, _) => totals.failed += 1,
        }
        let source = trace.attempts.last().and_then(|attempt| attempt.fix_source);
        if let Some(source) = source.filter(|_| trace.final_success) {
            *totals.sources.entry(source).or_default() += 1;
        }
    }
    totals
}

/// An unresolved failure, with its occurrences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UnresolvedFailure {
    /// The latest trace: `SESSION/TURN/N`.
    pub trace: String,
    /// The sessions, the latest first.
    pub sessions: Vec<String>,
    pub turn: u32,
    /// The projects; a failure of the machine is counted once for all of them.
    pub projects: BTreeSet<String>,
    pub skills: BTreeSet<String>,
    pub at_ms: i64,
    pub attempts: usize,
    pub error: String,
    pub tried: BTreeSet<String>,
}

pub(super) fn unresolved_failures(traces: &[ExecutionTrace]) -> Vec<UnresolvedFailure> {
    let mut found: BTreeMap<(&str, String), UnresolvedFailure> = BTreeMap::new();
    // Oldest first, so that the latest trace determines the details.
    for trace in traces.iter().filter(|trace| trace.needs_human) {
        let failed = || trace.attempts.iter().rev().filter(|attempt| attempt.error.is_some());
        let last = failed().find(|attempt| !is_suppressed(attempt)).or_else(|| failed().next());
        let error = last.and_then(|last| last.error.as_deref()).unwrap_or_default();
        let signature = last.and_then(|last| last.signature.clone()).unwrap_or_default();
        let place = if last.is_some_and(is_machine_fault) { "" } else { &trace.project };
        let entry = found.entry((place, signature)).or_default();
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
    let mut found: Vec<UnresolvedFailure> = found.into_values().collect();
    found.sort_by_key(|attention| std::cmp::Reverse((attention.sessions.len(), attention.at_ms)));
    found.truncate(MAX_ROWS);
    found
}

/// The call was not made because identical ones had failed: it is no evidence of its own.
fn is_suppressed(attempt: &Attempt) -> bool {
    matches!(attempt.code, Some(ErrorCode::RepeatedCall | ErrorCode::CircuitOpen))
}

/// The tool could not work, or a program is missing: not caused by the project.
fn is_machine_fault(attempt: &Attempt) -> bool {
    exit_code(attempt) == Some(127) || attempt.code == Some(ErrorCode::ExecutionError)
}

fn exit_code(attempt: &Attempt) -> Option<i64> {
    attempt.context.get("exit_code").and_then(Value::as_i64)
}

/// A kind of call with its statistics.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallKindStats {
    pub skill: String,
    pub n: usize,
    pub first_attempt: usize,
    pub resolved: usize,
    pub failed: usize,
    pub rate: f64,
}

pub(super) fn count_call_kinds(traces: &[ExecutionTrace]) -> Vec<CallKindStats> {
    let mut skills: BTreeMap<&str, Vec<&ExecutionTrace>> = BTreeMap::new();
    for trace in traces {
        skills.entry(&trace.skill_id).or_default().push(trace);
    }
    let kind_stats = |(skill, traces): (&str, Vec<&ExecutionTrace>)| {
        let well = || traces.iter().filter(|trace| trace.final_success);
        let first_attempt = well().filter(|trace| trace.attempts.len() == 1).count();
        CallKindStats {
            skill: skill.to_owned(),
            n: traces.len(),
            first_attempt,
            resolved: well().count() - first_attempt,
            failed: traces.len() - well().count(),
            rate: fraction(well().count(), traces.len()),
        }
    };
    let mut kinds: Vec<CallKindStats> = skills.into_iter().map(kind_stats).collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse((kind.resolved + 2 * kind.failed, kind.n)));
    kinds
}

/// A recurring failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecurringFailure {
    pub skills: BTreeSet<String>,
    /// Its message; if it varied, the masked one.
    pub message: String,
    /// The tool could not work, or a program is missing: not caused by the project.
    pub is_machine_fault: bool,
    pub n: usize,
    pub sessions: usize,
    pub resolved: usize,
    pub traces: usize,
    /// The lesson about it: id and text.
    pub known: Option<(String, String)>,
}

pub(super) fn recurring_failures(
    traces: &[ExecutionTrace],
    lessons: &[Lesson],
) -> Vec<RecurringFailure> {
    #[derive(Default)]
    struct FailureOccurrences<'a> {
        n: usize,
        skills: BTreeSet<String>,
        sessions: BTreeSet<&'a str>,
        traces: BTreeMap<&'a str, bool>,
        /// The latest attempt for each message.
        messages: BTreeMap<&'a str, &'a Attempt>,
        last: Option<&'a Attempt>,
    }
    let mut seen: BTreeMap<String, FailureOccurrences<'_>> = BTreeMap::new();
    for trace in traces {
        let failed = trace.attempts.iter().filter(|attempt| !attempt.success);
        for attempt in failed.filter(|attempt| !is_suppressed(attempt)) {
            let error = attempt.error.as_deref().unwrap_or_default();
            let signature = shorten(attempt.signature.as_deref().unwrap_or_default(), 120);
            let entry = seen.entry(signature).or_default();
            entry.n += 1;
            entry.skills.insert(trace.skill_id.clone());
            entry.sessions.insert(&trace.session);
            entry.traces.insert(&trace.id, trace.final_success);
            entry.last = Some(attempt);
            if entry.messages.len() < MAX_ROWS {
                entry.messages.insert(error, attempt);
            }
        }
    }
    let recurring_failure = |(signature, seen): (String, FailureOccurrences<'_>)| {
        let last = seen.last.and_then(|attempt| known_lesson(attempt, lessons));
        let of_others =
            || seen.messages.values().find_map(|attempt| known_lesson(attempt, lessons));
        let known = last.or_else(of_others);
        RecurringFailure {
            skills: seen.skills,
            message: match seen.messages.keys().collect::<Vec<_>>().as_slice() {
                [only] => shorten(only, 120),
                _ => signature,
            },
            is_machine_fault: seen.last.is_some_and(is_machine_fault),
            n: seen.n,
            sessions: seen.sessions.len(),
            resolved: seen.traces.values().filter(|well| **well).count(),
            traces: seen.traces.len(),
            known,
        }
    };
    let mut seen: Vec<(String, FailureOccurrences<'_>)> = seen.into_iter().collect();
    seen.sort_by(|(a_signature, a), (b_signature, b)| {
        (b.n, b.sessions.len(), a_signature).cmp(&(a.n, a.sessions.len(), b_signature))
    });
    seen.truncate(MAX_ROWS);
    seen.into_iter().map(recurring_failure).collect()
}

/// The lesson about this failure with the highest confidence: id and text.
fn known_lesson(attempt: &Attempt, lessons: &[Lesson]) -> Option<(String, String)> {
    let key = attempt_failure_key(attempt)?;
    let is_about = |lesson: &&Lesson| {
        lesson.is_in_use() && lesson.failure.as_ref().is_some_and(|failure| failure.key() == key)
    };
    let best =
        lessons.iter().filter(is_about).max_by(|a, b| a.confidence().total_cmp(&b.confidence()));
    best.map(|lesson| (lesson.id.clone(), lesson.text.clone()))
}

fn attempt_failure_key(attempt: &Attempt) -> Option<String> {
    let tool = text_argument(&attempt.context, "tool")?;
    let input = attempt.context.get("input").and_then(Value::as_object)?;
    let target = call_target(tool, input, &attempt.activated_artifacts);
    let signature = attempt.signature.as_deref().unwrap_or_default();
    Some(failure_key(tool, &target, attempt.code?, signature))
}
