//! Selects the lessons that a model sees.

use std::collections::BTreeSet;

use super::call_record::{CallRecord, effect_programs};
use super::lesson::{Lesson, MIN_APPLY_CONFIDENCE, Origin, Scope};
use super::store::{Store, StoreError, index_terms};
use agent_protocol::message::ToolCall;
use agent_protocol::recall::{FailedCall, RecalledLesson, Remedy};
use agent_protocol::reflection::SuggestedAction;

/// Limit on the latest lessons, and on lessons with common terms.
const CANDIDATES: usize = 40;
const RANK_OFFSET: f64 = 10.0;
/// More than all others can have.
const USERS_POINTS: f64 = 10.0;
/// More than age and common terms give.
const NAMED_POINTS: f64 = 2.0;
const MAX_SIMILAR: usize = 3;
/// Limit on the lessons at the start of a task that the user did not write.
const MAX_SHOWN: usize = 3;
/// A lesson has at least this many bytes per token.
const BYTES_PER_TOKEN: u64 = 3;
/// The lessons for a task, best first.
///
/// Those that the user wrote for this project, then at most three others: those with most terms in common with the task
/// or its checks (BM25), and the latest ones, weighted with their confidence. The user's lessons for all projects only if
/// they have terms in common. Of the three, those with common terms come first. `here`: the scopes of the project.
pub fn lessons_for_task(
    store: &impl Store,
    here: &[Scope],
    (task, checks): (&str, &[String]),
    max_tokens: u64,
) -> Result<Vec<RecalledLesson>, StoreError> {
    let latest = store.latest_lessons(here, CANDIDATES)?;
    let query = index_terms(&format!("{task}\n{}", checks.join("\n")));
    let matching = store.matching_lessons(&with_users(here), &query, CANDIDATES)?;
    let latest = (0_u32..)
        .zip(latest)
        .map(|(rank, lesson)| (RANK_OFFSET / (RANK_OFFSET + f64::from(rank)), false, lesson));
    let best = matching.first().map_or(1.0, |(score, _)| score.max(f64::MIN_POSITIVE));
    let matching = matching.into_iter().map(|(score, lesson)| (score / best, true, lesson));
    let mut ranked: Vec<(f64, bool, Lesson)> = Vec::new();
    for (share, is_matching, lesson) in latest.chain(matching) {
        let is_users_here = lesson.origin == Origin::User && lesson.scope != Scope::User;
        let first = if is_users_here { USERS_POINTS } else { 0.0 };
        let points = first + lesson.confidence() * share;
        match ranked.iter_mut().find(|(.., known)| known.id == lesson.id) {
            Some(known) => (known.0, known.1) = (known.0 + points, is_matching),
            None => ranked.push((points, is_matching, lesson)),
        }
    }
    ranked.retain(|(.., lesson)| lesson.concerns_task(task, checks));
    for (points, _, lesson) in &mut ranked {
        // The task names its file or program, which is surer than a common term.
        *points += if lesson.subjects().is_empty() { 0.0 } else { NAMED_POINTS };
    }
    ranked.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
    let mut room = max_tokens.saturating_mul(BYTES_PER_TOKEN);
    let (mut texts, mut n_others) = (BTreeSet::new(), 0);
    ranked.retain(|(points, _, lesson)| {
        let (size, is_other) = (lesson.text.len() as u64 + 3, *points < USERS_POINTS);
        let is_within = size <= room && !(is_other && n_others == MAX_SHOWN);
        let fits = is_within && texts.insert(lesson.text.clone());
        room -= if fits { size } else { 0 };
        n_others += usize::from(fits && is_other);
        fits
    });
    ranked.sort_by_key(|(points, is_matching, _)| *points < USERS_POINTS && !is_matching);
    Ok(ranked.iter().map(|(.., lesson)| lesson.to_recalled()).collect())
}

/// The surest lesson about exactly this failure; the kernel may apply it to an identical call.
pub fn find_remedy(
    store: &impl Store,
    here: &[Scope],
    failed: &FailedCall<'_>,
) -> Result<Option<Remedy>, StoreError> {
    let call = to_call_record(failed);
    let Some(key) = call.failure_key() else { return Ok(None) };
    let mut lessons = store.lessons_about(&with_users(here), &key)?;
    lessons.retain(|lesson| lesson.concerns_call(&call.input));
    let is_own = |lesson: &Lesson| !matches!(lesson.scope, Scope::Team(_));
    let surest = lessons.into_iter().max_by(|one, other| {
        is_own(one)
            .cmp(&is_own(other))
            .then(one.confidence().total_cmp(&other.confidence()))
            .then(one.last_occurred_ms.cmp(&other.last_occurred_ms))
    });
    Ok(surest.map(|lesson| {
        // What others have learnt is only shown.
        let is_sure = lesson.confidence() >= MIN_APPLY_CONFIDENCE;
        let may_apply = !call.is_truncated && is_own(&lesson) && is_sure;
        let same_call =
            lesson.failure.as_ref().filter(|failure| may_apply && failure.input == call.input);
        let fix = same_call.and_then(|failure| failure.fix.clone());
        let tool = call.tool.clone();
        let action = fix.map(|input| SuggestedAction::Alternative { tool, input });
        Remedy { item: lesson.to_recalled(), action }
    }))
}

/// The lessons most similar to this failure: by target, command and output.
pub fn similar_lessons(
    store: &impl Store,
    here: &[Scope],
    failed: &FailedCall<'_>,
) -> Result<Vec<RecalledLesson>, StoreError> {
    let call = to_call_record(failed);
    let Some(key) = call.failure_key() else { return Ok(Vec::new()) };
    let mut lessons = store.lessons_about(&with_users(here), &key)?;
    lessons.retain(|lesson| lesson.concerns_call(&call.input));
    let excerpt = call.failure.as_ref().map_or("", |failed| &failed.excerpt);
    let command = call.command().unwrap_or_default();
    let query = index_terms(&format!("{} {command} {excerpt}", call.target()));
    for (_, lesson) in store.matching_lessons(&with_users(here), &query, MAX_SIMILAR)? {
        if lesson.subjects().is_empty() && lessons.iter().all(|known| known.id != lesson.id) {
            lessons.push(lesson);
        }
    }
    lessons.truncate(MAX_SIMILAR);
    Ok(lessons.iter().map(Lesson::to_recalled).collect())
}

fn with_users(here: &[Scope]) -> Vec<Scope> {
    here.iter().cloned().chain([Scope::User]).collect()
}

fn to_call_record(failed: &FailedCall<'_>) -> CallRecord {
    let FailedCall { call: ToolCall { id, name, arguments }, effect, envelope } = failed;
    let call = CallRecord::from_result(id, name, arguments, envelope);
    CallRecord { programs: effect_programs(*effect), ..call }
}
