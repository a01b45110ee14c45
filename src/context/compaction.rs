//! Which part of the conversation gives way, and what is left of the part that stays. Pure: nobody is asked
//! and nothing is written here.
//!
//! Whole rounds give way where there are several, the running turn's own among them: a one-shot run is a
//! single long turn. A call is never parted from its result, and the words of the task stay.

use std::collections::BTreeMap;

use super::budget::{Budget, share};
use super::history::{History, Kind, Note, running_tasks};
use super::outcome::{Outcome, What};
use crate::protocol::both_ends;
use crate::protocol::event::Place;
use crate::protocol::message::{Message, Part};
use crate::protocol::prompt::{Prompt, Prompts, prompt};

const STALE: Prompt = prompt!("summary/stale.md");
const CUT: Prompt = prompt!("summary/cut.md");

/// After a compaction a request is at most this share of the window.
const TARGET: f64 = 0.5;
/// All summaries together are at most this share of the window.
const SUMMARIES: f64 = 0.25;
/// A result of fewer bytes is not worth cutting.
const WORTH_CUTTING: usize = 1024;

/// The most tokens of one summary.
pub fn summary_tokens(window: u64) -> u64 {
    (window / 16).min(1500)
}

/// The part of a conversation that gives way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// So many messages behind the summaries.
    pub archived: usize,
    /// Where the first of them was said.
    pub from: Place,
    /// Where the last of them was said.
    pub to: Place,
}

/// A result that is kept and has to be shorter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Large<'a> {
    /// The call's id.
    pub call: &'a str,
    /// The tool.
    pub tool: &'a str,
    /// The result as it stands there.
    pub text: &'a str,
    /// So many bytes of it may stay.
    pub room: usize,
}

/// Chooses what gives way: all but the last `keep_rounds` rounds, or fewer of them, down to one, until what
/// stays is half the window. `fixed` is the size of all that is no conversation, in bytes.
pub fn stretch(history: &History, budget: &Budget, fixed: usize, keep_rounds: usize) -> Stretch {
    let (_, notes) = history.body();
    let starts: Vec<usize> =
        (0..notes.len()).filter(|at| notes[*at].kind == Kind::Answer).collect();
    let target = budget.bytes(share(budget.window(), TARGET));
    let summaries: usize = history.summaries().iter().map(String::len).sum();
    let beside = fixed
        + summaries.min(budget.bytes(share(budget.window(), SUMMARIES)))
        + budget.bytes(summary_tokens(budget.window()));
    let kept = |from: usize| -> usize { notes[from..].iter().map(|note| note.bytes).sum() };
    let keeps = |rounds: usize| starts.len().checked_sub(rounds).map(|at| starts[at]);
    let archived = (1..=keep_rounds.max(1))
        .rev()
        .filter_map(keeps)
        .find(|from| beside + kept(*from) <= target)
        .or_else(|| keeps(1))
        .unwrap_or_default();
    // What stays as it is gains nothing by giving way.
    let gives_way = running_tasks(notes, archived).count() < archived;
    let archived = if gives_way { archived } else { 0 };
    let place = |at: Option<&Note>| at.map_or_else(Place::default, |note| note.place);
    let from = place(notes[..archived].iter().find(|note| note.kind != Kind::Task));
    Stretch { archived, from, to: place(notes[..archived].last()) }
}

/// Results of the part that stays which a later reading of the same lines there made stale, and what stands
/// for them from now on.
pub fn stale(history: &History, stretch: &Stretch) -> BTreeMap<String, String> {
    let mut stale = BTreeMap::new();
    let results: Vec<(&str, &str, &Outcome)> = results(history, stretch.archived).collect();
    for (at, (call, text, outcome)) in results.iter().enumerate() {
        let later = results[at + 1..].iter().any(|(_, _, later)| outcome.is_repeated_by(later));
        if let (true, What::Read { path, lines, .. }) = (later, &outcome.what) {
            let note = history
                .prompts()
                .text(STALE)
                .replace("{{path}}", path)
                .replace("{{first}}", &lines.start().to_string())
                .replace("{{last}}", &lines.end().to_string());
            let note = note.trim_end();
            if note.len() < text.len() {
                stale.insert((*call).to_owned(), note.to_owned());
            }
        }
    }
    stale
}

/// The results of the part that stays which have to be shorter for the next request to be half the window.
/// `beside` is the size of all else in that request, in bytes.
pub fn large<'a>(
    history: &'a History,
    stretch: &Stretch,
    budget: &Budget,
    beside: usize,
    stale: &BTreeMap<String, String>,
) -> Vec<Large<'a>> {
    let target = budget.bytes(share(budget.window(), TARGET));
    let (_, notes) = history.body();
    let kept: usize = notes[stretch.archived..].iter().map(|note| note.bytes).sum();
    let saved: usize = results(history, stretch.archived)
        .filter_map(|(call, text, _)| Some(text.len() - stale.get(call)?.len()))
        .sum();
    let mut excess = (beside + kept).saturating_sub(saved + target);
    let mut candidates: Vec<_> = results(history, stretch.archived)
        .filter(|(call, text, _)| text.len() > WORTH_CUTTING && !stale.contains_key(*call))
        .collect();
    // The largest gives most and loses least.
    candidates.sort_by_key(|(_, text, _)| std::cmp::Reverse(text.len()));
    let mut large = Vec::new();
    for (call, text, outcome) in candidates {
        if excess == 0 {
            break;
        }
        let gives = (text.len() - WORTH_CUTTING).min(excess);
        excess -= gives;
        large.push(Large { call, tool: &outcome.tool, text, room: text.len() - gives });
    }
    large
}

/// The texts of the user and the program that stay and are larger than `room` bytes each: which message, and
/// the text.
pub fn long_texts<'a>(
    history: &'a History,
    stretch: &Stretch,
    room: usize,
) -> Vec<(usize, Large<'a>)> {
    let (messages, notes) = history.body();
    let tasks: Vec<usize> = running_tasks(notes, stretch.archived).collect();
    let stays = |at: usize| at >= stretch.archived || tasks.contains(&at);
    let is_text = |note: &Note| matches!(note.kind, Kind::Task | Kind::Said);
    let texts = messages.iter().zip(notes).enumerate();
    let texts = texts.filter(|(at, (_, note))| stays(*at) && is_text(note) && note.bytes > room);
    let texts = texts.filter_map(|(at, (message, _))| match message.parts.as_slice() {
        [Part::Text { text }] => Some((at, Large { call: "", tool: "task", text, room })),
        _ => None,
    });
    texts.collect()
}

/// What stands for a large result: its beginning and its end, and where the whole of it lies.
pub fn cut(prompts: &Prompts, large: &Large<'_>, path: &str) -> String {
    let note = prompts.text(CUT).replace("{{bytes}}", &large.text.len().to_string());
    let note = note.replace("{{path}}", path);
    let room = large.room.saturating_sub(note.len()).max(WORTH_CUTTING / 4);
    middle_out(large.text, room, note.trim_end())
}

/// The first and the last bytes of a text, `room` in all, with a note between them. How it begins says most.
pub(super) fn middle_out(text: &str, room: usize, note: &str) -> String {
    let tail = room / 3;
    both_ends(text, (room - tail, tail), note)
}

/// How many of all summaries give way to one line, the new one of so many bytes included.
pub fn forgotten(history: &History, budget: &Budget, new: usize) -> usize {
    let room = budget.bytes(share(budget.window(), SUMMARIES));
    let mut used = new;
    let sizes = history.summaries().iter().map(String::len).rev();
    let kept = sizes
        .take_while(|size| {
            used += size;
            used <= room
        })
        .count();
    history.summaries().len() - kept
}

/// The results from a message on: the call's id, what the model read, what it came to.
fn results(history: &History, from: usize) -> impl Iterator<Item = (&str, &str, &Outcome)> {
    let (messages, notes) = history.body();
    messages[from..].iter().zip(&notes[from..]).flat_map(|(message, note)| pairs(message, note))
}

fn pairs<'a>(
    message: &'a Message,
    note: &'a Note,
) -> impl Iterator<Item = (&'a str, &'a str, &'a Outcome)> {
    let outcomes: &[Outcome] = match &note.kind {
        Kind::Results(outcomes) => outcomes,
        Kind::Front | Kind::Task | Kind::Said | Kind::Answer => &[],
    };
    let results = message.parts.iter().filter_map(|part| match part {
        Part::Result(result) => Some((result.call.as_str(), result.text.as_str())),
        Part::Text { .. } | Part::Reasoning { .. } | Part::Call(_) => None,
    });
    results.zip(outcomes).map(|((call, text), outcome)| (call, text, outcome))
}
