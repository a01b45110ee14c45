//! A task's review: all that one turn teaches, ready to be committed.

use super::credit::credits;
use super::extract::extract;
use super::fold::Harvest;
use super::item::Item;
use super::question::{MAX_A_TURN, Question, question};
use super::reflexion;
use super::store::{Batch, Outcome};
use super::trace::FixSource;

/// What a turn teaches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lessons {
    /// What is to be remembered.
    pub items: Vec<Item>,
    /// Ids of items that were used, and how that turned out.
    pub credits: Vec<(String, Outcome)>,
    /// What was not kept, and why: text and reason.
    pub refused: Vec<(String, String)>,
    /// What a model may be asked, where the rules saw nothing.
    pub questions: Vec<Question>,
}

/// What a turn teaches; `known`: the items that could be recalled in it.
///
/// Looked at are the traces that ended well and not at once (`docs/LEARNING.md`): the others only count.
pub fn lessons(harvest: &Harvest, known: &[Item]) -> Lessons {
    let mut lessons = Lessons { credits: credits(harvest, known), ..Lessons::default() };
    let fruitful = harvest.traces.iter().filter(|trace| {
        let last = trace.attempts.last().and_then(|attempt| attempt.fix_source);
        // What a failure pattern made good teaches nothing new: its credit says that it helped.
        let is_known = last == Some(FixSource::FailurePattern);
        trace.final_success && trace.attempts.len() > 1 && !is_known
    });
    for trace in fruitful {
        let extracted = extract(trace, &harvest.task);
        let is_silent = extracted.items.is_empty() && extracted.refused.is_empty();
        if is_silent
            && lessons.questions.len() < MAX_A_TURN
            && !reflexion::has_spoken(harvest, trace)
            && let Some(question) = question(trace, &harvest.task, known)
            && lessons.questions.iter().all(|other| other.id != question.id)
        {
            lessons.questions.push(question);
        }
        lessons.refused.extend(extracted.refused);
        for item in extracted.items {
            if lessons.items.iter().all(|known| known.id != item.id) {
                lessons.items.push(item);
            }
        }
    }
    let (items, refused) = reflexion::items(harvest);
    lessons.items.extend(items);
    lessons.refused.extend(refused);
    lessons
}

/// What the store is given of a turn.
pub fn batch(harvest: Harvest, lessons: &Lessons) -> Batch {
    Batch {
        session: harvest.session,
        seq: harvest.seq,
        traces: harvest.traces,
        items: lessons.items.clone(),
        credits: lessons.credits.clone(),
        questions: lessons.questions.clone(),
        ..Batch::default()
    }
}
