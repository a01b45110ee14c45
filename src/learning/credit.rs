//! Did the lessons that were recalled help?

use super::call::Made;
use super::fold::Harvest;
use super::lesson::Lesson;
use crate::protocol::recall::Moment;

/// A lesson that is contradicted by what happened counts as so many that did not help.
const CONTRADICTED: u32 = 5;

/// How the use of a lesson turned out in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credit {
    /// The lesson.
    pub id: String,
    /// It helped so often.
    pub helped: u32,
    /// It did not help so often.
    pub hurt: u32,
}

/// The lessons that a model saw in the turn; `known`: the lessons with these ids as they are.
///
/// A lesson about a failure helped if its way was taken and worked. It did not help if its way was taken and the same
/// failure came, or if the kernel applied it in vain. It is contradicted if the call that had failed works now, or if its
/// way failed and a call of the same program without its words worked. Lessons without a failure are only counted as seen.
pub fn credits(harvest: &Harvest, known: &[Lesson]) -> Vec<Credit> {
    let mut credits: Vec<Credit> = Vec::new();
    for (seq, recalled) in &harvest.recalled {
        if recalled.moment == Moment::Reflection {
            continue;
        }
        for item in &recalled.items {
            if credits.iter().any(|credit| credit.id == item.id) {
                continue;
            }
            let Some(lesson) = known.iter().find(|lesson| lesson.id == item.id) else { continue };
            let later: Vec<&Made> = harvest.calls.iter().filter(|call| call.seq > *seq).collect();
            let (helped, hurt) = if recalled.applied {
                applied(&later, recalled.call.as_deref())
            } else {
                shown(&later, lesson)
            };
            credits.push(Credit { id: item.id.clone(), helped, hurt });
        }
    }
    credits
}

/// The kernel's own call decides.
fn applied(later: &[&Made], call: Option<&str>) -> (u32, u32) {
    let own = later.iter().find(|made| made.parent.is_some() && made.parent.as_deref() == call);
    own.map_or((0, 0), |made| if made.failed.is_none() { (1, 0) } else { (0, 1) })
}

fn shown(later: &[&Made], lesson: &Lesson) -> (u32, u32) {
    let Some(failure) = &lesson.failure else { return (0, 0) };
    let key = failure.key();
    let is_target = |made: &&Made| {
        made.tool == failure.tool && (made.target() == failure.target || follows(made, &failure.new_words))
    };
    let is_failed_call = |made: &&Made| made.tool == failure.tool && made.input == failure.input;
    // The same call may have been prepared for: only a lesson that names another call is contradicted by it.
    let is_other_way = !failure.new_words.is_empty();
    if is_other_way && later.iter().any(|made| is_failed_call(made) && made.failed.is_none()) {
        return (0, CONTRADICTED);
    }
    let is_followed = |made: &&Made| is_other_way && is_target(made) && follows(made, &failure.new_words);
    let followed = || later.iter().copied().filter(is_followed);
    if followed().any(|made| made.has_key(&key)) {
        return (0, 1);
    }
    if followed().any(|made| made.failed.is_none()) {
        return (1, 0);
    }
    let first_failed = later.iter().position(|made| is_followed(made) && made.failed.is_some());
    if let Some(at) = first_failed {
        let other = later[at + 1..].iter().any(|made| {
            made.failed.is_none() && is_target(made) && !follows(made, &failure.new_words)
        });
        return (0, if other { CONTRADICTED } else { 0 });
    }
    // A lesson on what has to be done first: its failure did not come although its target was used.
    let was_used = later.iter().any(|made| made.failed.is_none() && is_failed_call(made));
    let came = later.iter().any(|made| made.has_key(&key));
    (u32::from(!is_other_way && was_used && !came), 0)
}

/// The call has all these words.
fn follows(made: &Made, words: &[String]) -> bool {
    let has = |word: &String| match made.command() {
        Some(command) => command.split_whitespace().any(|own| own == word),
        None => word.split_once('=').is_some_and(|(name, value)| {
            made.input.get(name).is_some_and(|own| own.to_string() == value)
        }),
    };
    !words.is_empty() && words.iter().any(has)
}
