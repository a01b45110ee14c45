//! Selects the lessons that a model sees.

use std::collections::BTreeSet;

use super::call::{self, Made};
use super::fold::text_of;
use super::lesson::{APPLY_AT, Lesson, Origin, Scope, key};
use super::store::{SqliteStore, StoreError, terms};
use agent_protocol::message::ToolCall;
use agent_protocol::recall::{FailedCall, Recalled, Remedy};
use agent_protocol::reflection::SuggestedAction;

/// Limit: latest lessons, and lessons with common terms, that are ranked.
const CANDIDATES: usize = 40;
/// The constant of the reciprocal rank fusion.
const RANK_OFFSET: u32 = 10;
/// Limit: lessons for a reflection.
const SIMILAR: usize = 3;
/// Minimum number of bytes per token of a lesson.
const BYTES_PER_TOKEN: u64 = 3;
/// The lessons for a task, best first.
///
/// All of a project with few lessons; otherwise those that have terms in common with the task, and the latest
/// ones. The user's lessons only if they have terms in common. They are ranked by reciprocal rank fusion of
/// common terms and recency (Cormack et al., 2009), weighted with their confidence; lessons that the user
/// wrote for this project come first.
pub fn for_task(
    store: &SqliteStore,
    project: &str,
    task: &str,
    max_tokens: u64,
) -> Result<Vec<Recalled>, StoreError> {
    let here = Scope::Project(project.to_owned());
    let latest = store.latest(&here, CANDIDATES)?;
    let matching = store.matching(&[here, Scope::User], &terms(task), CANDIDATES)?;
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
    Ok(fitting.map(|(_, lesson)| lesson.recalled()).collect())
}

/// The lesson with the highest confidence about exactly this failure. The kernel may apply it if the call is
/// identical to the one that failed then.
pub fn after(
    store: &SqliteStore,
    project: &str,
    failed: &FailedCall<'_>,
) -> Result<Option<Remedy>, StoreError> {
    let Some((made, key)) = made(failed) else { return Ok(None) };
    let lessons = store.about(&Scope::Project(project.to_owned()), &key)?;
    let surest = lessons.into_iter().max_by(|one, other| {
        one.confidence()
            .total_cmp(&other.confidence())
            .then(one.last_occurred_ms.cmp(&other.last_occurred_ms))
    });
    Ok(surest.map(|lesson| {
        let failure = lesson.failure.as_ref().filter(|it| !made.is_cut && it.input == made.input);
        let fix = failure.filter(|_| lesson.confidence() >= APPLY_AT).and_then(|it| it.fix.clone());
        Remedy {
            item: lesson.recalled(),
            action: fix
                .map(|input| SuggestedAction::Alternative { tool: made.tool.clone(), input }),
        }
    }))
}

/// The lessons most similar to this failure: by target, command and output.
pub fn similar(
    store: &SqliteStore,
    project: &str,
    failed: &FailedCall<'_>,
) -> Result<Vec<Recalled>, StoreError> {
    let Some((made, key)) = made(failed) else { return Ok(Vec::new()) };
    let here = Scope::Project(project.to_owned());
    let mut lessons = store.about(&here, &key)?;
    let telling = made.failed.as_ref().map_or("", |failed| &failed.telling);
    let command = text_of(&made.input, "command").unwrap_or_default();
    let query = terms(&format!("{} {command} {telling}", made.target()));
    for (_, lesson) in store.matching(&[here, Scope::User], &query, SIMILAR)? {
        if lessons.iter().all(|known| known.id != lesson.id) {
            lessons.push(lesson);
        }
    }
    lessons.truncate(SIMILAR);
    Ok(lessons.iter().map(Lesson::recalled).collect())
}

/// The failed call as in traces, and the key of its failure.
fn made(failed: &FailedCall<'_>) -> Option<(Made, String)> {
    let FailedCall { call: ToolCall { id, name, arguments }, effect, envelope } = failed;
    let mut input = envelope.context.params_input.clone();
    if input.is_empty() {
        input = serde_json::from_str(arguments).unwrap_or_default();
    }
    let failure = call::failed(&input, envelope)?;
    let (input, is_cut) = call::kept(&input);
    let made = Made {
        id: id.clone(),
        tool: name.clone(),
        input,
        is_cut,
        programs: call::programs(*effect),
        ..Made::default()
    };
    let key = key(name, &made.target(), failure.code, &failure.signature);
    Some((Made { failed: Some(failure), ..made }, key))
}
