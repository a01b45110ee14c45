//! Selects the lessons that a model sees.

use std::collections::BTreeSet;

use super::call_record::{CallRecord, effect_programs};
use super::lesson::{Lesson, MIN_APPLY_CONFIDENCE, Origin, Scope};
use super::store::{SqliteStore, StoreError, index_terms};
use agent_protocol::message::ToolCall;
use agent_protocol::recall::{FailedCall, RecalledLesson, Remedy};
use agent_protocol::reflection::SuggestedAction;

/// Limit on the latest lessons, and on lessons with common terms.
const CANDIDATES: usize = 40;
const RANK_OFFSET: u32 = 10;
const MAX_SIMILAR: usize = 3;
/// A lesson has at least this many bytes per token.
const BYTES_PER_TOKEN: u64 = 3;
/// The lessons for a task, best first.
///
/// All of a project with few lessons; otherwise those that have terms in common with the task, and
/// the latest ones. The user's lessons only if they have terms in common. They are ranked by
/// reciprocal rank fusion of common terms and recency (Cormack et al., 2009), weighted with their
/// confidence; lessons that the user wrote for this project come first.
pub fn lessons_for_task(
    store: &SqliteStore,
    project: &str,
    task: &str,
    max_tokens: u64,
) -> Result<Vec<RecalledLesson>, StoreError> {
    let here = Scope::Project(project.to_owned());
    let latest = store.latest_lessons(&here, CANDIDATES)?;
    let matching = store.matching_lessons(&[here, Scope::User], &index_terms(task), CANDIDATES)?;
    let matching: Vec<Lesson> = matching.into_iter().map(|(_, lesson)| lesson).collect();
    let mut ranked: Vec<(f64, Lesson)> = Vec::new();
    for list in [latest, matching] {
        for (rank, lesson) in (0_u32..).zip(list) {
            let is_users_here = lesson.origin == Origin::User && lesson.scope != Scope::User;
            let first = if is_users_here { 1.0 } else { 0.0 };
            let points = first + lesson.confidence() / f64::from(RANK_OFFSET + rank);
            match ranked.iter_mut().find(|(_, known)| known.id == lesson.id) {
                Some((sum, _)) => *sum += points,
                None => ranked.push((points, lesson)),
            }
        }
    }
    ranked.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let mut room = max_tokens.saturating_mul(BYTES_PER_TOKEN);
    let mut texts = BTreeSet::new();
    let fitting = ranked.iter().filter(|(_, lesson)| {
        let size = lesson.text.len() as u64 + 3;
        let fits = size <= room && texts.insert(lesson.text.as_str());
        room -= if fits { size } else { 0 };
        fits
    });
    Ok(fitting.map(|(_, lesson)| lesson.to_recalled()).collect())
}

/// The surest lesson about exactly this failure; the kernel may apply it to an identical call.
pub fn find_remedy(
    store: &SqliteStore,
    project: &str,
    failed: &FailedCall<'_>,
) -> Result<Option<Remedy>, StoreError> {
    let call = to_call_record(failed);
    let Some(key) = call.failure_key() else { return Ok(None) };
    let lessons = store.lessons_about(&Scope::Project(project.to_owned()), &key)?;
    let surest = lessons.into_iter().max_by(|one, other| {
        one.confidence()
            .total_cmp(&other.confidence())
            .then(one.last_occurred_ms.cmp(&other.last_occurred_ms))
    });
    Ok(surest.map(|lesson| {
        let may_apply = !call.is_truncated && lesson.confidence() >= MIN_APPLY_CONFIDENCE;
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
    store: &SqliteStore,
    project: &str,
    failed: &FailedCall<'_>,
) -> Result<Vec<RecalledLesson>, StoreError> {
    let call = to_call_record(failed);
    let Some(key) = call.failure_key() else { return Ok(Vec::new()) };
    let here = Scope::Project(project.to_owned());
    let mut lessons = store.lessons_about(&here, &key)?;
    let excerpt = call.failure.as_ref().map_or("", |failed| &failed.excerpt);
    let command = call.command().unwrap_or_default();
    let query = index_terms(&format!("{} {command} {excerpt}", call.target()));
    for (_, lesson) in store.matching_lessons(&[here, Scope::User], &query, MAX_SIMILAR)? {
        if lessons.iter().all(|known| known.id != lesson.id) {
            lessons.push(lesson);
        }
    }
    lessons.truncate(MAX_SIMILAR);
    Ok(lessons.iter().map(Lesson::to_recalled).collect())
}

fn to_call_record(failed: &FailedCall<'_>) -> CallRecord {
    let FailedCall { call: ToolCall { id, name, arguments }, effect, envelope } = failed;
    let call = CallRecord::from_result(id, name, arguments, envelope);
    CallRecord { programs: effect_programs(*effect), ..call }
}
