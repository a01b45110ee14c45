//! Selects what a compaction replaces, and how the rest is shortened. Pure: no requests, no I/O.
//!
//! Whole rounds are replaced, possibly of the running turn: a one-shot run is a single long turn. A call is
//! never separated from its result, and the user's task is kept.

use std::collections::BTreeMap;

use super::budget::{ContextBudget, fraction_of};
use super::call_outcome::{CallAction, CallOutcome};
use super::history::{History, MessageKind, MessageMetadata, first_text, running_turn_messages};
use agent_protocol::event::WorkPosition;
use agent_protocol::message::Part;
use agent_protocol::prompt::{Prompt, Prompts, fill};
use agent_protocol::truncate_middle;

const STALE: Prompt = Prompt::named("summary/stale.md");
const CUT: Prompt = Prompt::named("summary/cut.md");

/// Target size of a request after a compaction, as a share of the window, and of the size at which the next
/// compaction starts.
const TARGET_SHARE: f64 = 0.5;
const TARGET_SHARE_OF_THRESHOLD: f64 = 0.7;
/// Shares of the window for all summaries and for all user messages.
const SUMMARIES_SHARE: f64 = 0.125;
const USER_MESSAGES_SHARE: f64 = 0.25;
/// User messages that exceed `USER_MESSAGES_SHARE` are shortened to this, the oldest first; to the second size if
/// the first is not enough.
const LONG_MESSAGE_BYTES: [usize; 2] = [2000, 600];
/// A smaller part of the conversation is not worth a summary.
const MIN_ARCHIVED_BYTES: usize = 1024;
/// A smaller result is not worth shortening; in a small window this is a 32nd of it, but not less than the second size.
const MIN_CUT_BYTES: [usize; 2] = [1024, 512];
const MIN_CUT_WINDOW_DIVISOR: u64 = 32;

/// Token limit of one summary.
pub fn summary_tokens(window: u64) -> u64 {
    (window / 16).min(1500)
}

/// The part of a conversation that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedRange {
    /// Number of messages after the summaries.
    pub n_messages: usize,
    pub from: WorkPosition,
    pub to: WorkPosition,
}

/// A result that stays in the conversation and has to be shortened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LargeText<'a> {
    pub call: &'a str,
    pub tool: &'a str,
    pub text: &'a str,
    /// New size limit in bytes.
    pub room: usize,
}

/// Selects what to replace: all but the last `keep_rounds` rounds, or fewer of them, down to one, until the
/// rest takes half of the window; all rounds if `keep_rounds` is 0. `fixed` is the size of everything except the
/// conversation, in bytes.
pub fn select_archived_range(
    history: &History,
    budget: &ContextBudget,
    fixed: usize,
    keep_rounds: usize,
) -> ArchivedRange {
    let (_, notes) = history.body();
    let starts: Vec<usize> =
        (0..notes.len()).filter(|at| notes[*at].kind == MessageKind::Answer).collect();
    let other_bytes =
        fixed + front_bytes(history, budget, budget.bytes(summary_tokens(budget.window())));
    let keeps = |rounds: usize| starts.len().checked_sub(rounds).map(|at| starts[at]);
    let gives_way =
        |from: &usize| bytes_without_user_messages(&notes[..*from]) >= MIN_ARCHIVED_BYTES;
    let archived = match keep_rounds {
        0 if bytes_without_user_messages(notes) > 0 => notes.len(),
        _ => (1..=keep_rounds)
            .rev()
            .filter_map(keeps)
            .filter(gives_way)
            .find(|from| {
                other_bytes + bytes_without_user_messages(&notes[*from..]) <= target_bytes(budget)
            })
            .or_else(|| keeps(1).filter(gives_way))
            .unwrap_or_default(),
    };
    let place =
        |at: Option<&MessageMetadata>| at.map_or_else(WorkPosition::default, |note| note.place);
    let from = place(notes[..archived].iter().find(|note| note.kind != MessageKind::UserMessage));
    ArchivedRange { n_messages: archived, from, to: place(notes[..archived].last()) }
}

/// User messages are never summarised, so that archiving them frees nothing.
fn bytes_without_user_messages(notes: &[MessageMetadata]) -> usize {
    notes.iter().filter(|note| note.kind != MessageKind::UserMessage).map(|note| note.bytes).sum()
}

fn target_bytes(budget: &ContextBudget) -> usize {
    let tokens = fraction_of(budget.window(), TARGET_SHARE)
        .min(fraction_of(budget.threshold(), TARGET_SHARE_OF_THRESHOLD));
    budget.bytes(tokens)
}

/// Size limit of the summaries and all user messages after a compaction, in bytes.
pub fn front_bytes(history: &History, budget: &ContextBudget, new_summary: usize) -> usize {
    let summaries: usize = history.summaries.iter().map(String::len).sum();
    let room = budget.bytes(fraction_of(budget.window(), SUMMARIES_SHARE));
    let (sizes, excess) = user_message_sizes(history, budget);
    (summaries + new_summary).min(room) + sizes.iter().sum::<usize>().saturating_sub(excess)
}

/// Oldest first: the archived ones, then those of the conversation.
fn user_messages(history: &History) -> impl Iterator<Item = &str> {
    let (messages, notes) = history.body();
    let tasks =
        messages.iter().zip(notes).filter(|(_, note)| note.kind == MessageKind::UserMessage);
    let archived = history.user_messages.iter().map(|message| message.text.as_str());
    archived.chain(tasks.map(|(message, _)| first_text(message)))
}

/// The size limit of each user message, and by how many bytes all of them still exceed their limit: long ones
/// are shortened first, the oldest first. The newest is not shortened.
fn user_message_sizes(history: &History, budget: &ContextBudget) -> (Vec<usize>, usize) {
    let mut sizes: Vec<usize> = user_messages(history).map(str::len).collect();
    let room = budget.bytes(fraction_of(budget.window(), USER_MESSAGES_SHARE));
    let mut excess = sizes.iter().sum::<usize>().saturating_sub(room);
    let older = sizes.len().saturating_sub(1);
    for floor in LONG_MESSAGE_BYTES {
        for size in sizes[..older].iter_mut().filter(|size| **size > floor) {
            let gives = (*size - floor).min(excess);
            *size -= gives;
            excess -= gives;
        }
    }
    (sizes, excess)
}

/// How user messages are shortened that are too long together. The number counts all user messages of the
/// session, from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LongUserMessages {
    /// To be cut in the middle: number, text, and size limit in bytes.
    pub cut: Vec<(usize, String, usize)>,
    /// To be left out, oldest first, if cutting is not enough.
    pub left_out: Vec<(usize, String)>,
}

/// The user messages that have to be shortened.
pub fn long_user_messages(history: &History, budget: &ContextBudget) -> LongUserMessages {
    let (sizes, mut excess) = user_message_sizes(history, budget);
    let newest = sizes.len().saturating_sub(1);
    let mut long = LongUserMessages::default();
    for (at, (text, size)) in user_messages(history).zip(sizes).enumerate() {
        if text.is_empty() {
            continue;
        }
        if excess > 0 && at < newest {
            excess = excess.saturating_sub(size);
            long.left_out.push((at, text.to_owned()));
        } else if size < text.len() {
            long.cut.push((at, text.to_owned(), size));
        }
    }
    long
}

/// Kept results that are obsolete because the same lines were read again later, with their replacements.
pub fn stale_results(history: &History, range: &ArchivedRange) -> BTreeMap<String, String> {
    let mut stale = BTreeMap::new();
    let results: Vec<(&str, &str, &CallOutcome)> =
        results_from(history, range.n_messages).collect();
    for (at, (call, text, outcome)) in results.iter().enumerate() {
        let later = results[at + 1..].iter().any(|(_, _, later)| outcome.is_superseded_by(later));
        if let (true, CallAction::ReadLines { path, lines, .. }) = (later, &outcome.action) {
            let (first, last) = (lines.start().to_string(), lines.end().to_string());
            let values = [("path", path.as_str()), ("first", &first), ("last", &last)];
            let note = fill(history.prompts.text(STALE), &values);
            let note = note.trim_end();
            if note.len() < text.len() {
                stale.insert((*call).to_owned(), note.to_owned());
            }
        }
    }
    stale
}

/// Kept results that have to be shortened so that the next request takes half of the window. `other_bytes` is the
/// size of the rest of that request, in bytes.
pub fn large_results<'a>(
    history: &'a History,
    range: &ArchivedRange,
    budget: &ContextBudget,
    other_bytes: usize,
    stale: &BTreeMap<String, String>,
) -> Vec<LargeText<'a>> {
    let target = target_bytes(budget);
    let (_, notes) = history.body();
    let kept = bytes_without_user_messages(&notes[range.n_messages..]);
    let saved: usize = results_from(history, range.n_messages)
        .filter_map(|(call, text, _)| Some(text.len() - stale.get(call)?.len()))
        .sum();
    let mut excess = (other_bytes + kept).saturating_sub(saved + target);
    let [usual, least] = MIN_CUT_BYTES;
    let floor = budget.bytes(budget.window() / MIN_CUT_WINDOW_DIVISOR).clamp(least, usual);
    let mut candidates: Vec<_> = results_from(history, range.n_messages)
        .filter(|(call, text, _)| text.len() > floor && !stale.contains_key(*call))
        .collect();
    // Shortening the largest frees most and loses least.
    candidates.sort_by_key(|(_, text, _)| std::cmp::Reverse(text.len()));
    let mut large = Vec::new();
    for (call, text, outcome) in candidates {
        if excess == 0 {
            break;
        }
        let gives = (text.len() - floor).min(excess);
        excess -= gives;
        large.push(LargeText { call, tool: &outcome.tool, text, room: text.len() - gives });
    }
    large
}

/// Kept texts of the user and the program that are larger than `room` bytes: the message's number, and the
/// text.
pub fn long_texts<'a>(
    history: &'a History,
    range: &ArchivedRange,
    room: usize,
) -> Vec<(usize, LargeText<'a>)> {
    let (messages, notes) = history.body();
    let tasks: Vec<usize> = running_turn_messages(notes, range.n_messages).collect();
    let stays = |at: usize| at >= range.n_messages || tasks.contains(&at);
    let is_text = |note: &MessageMetadata| {
        matches!(note.kind, MessageKind::UserMessage | MessageKind::ProgramMessage)
    };
    let texts = messages.iter().zip(notes).enumerate();
    let texts = texts.filter(|(at, (_, note))| stays(*at) && is_text(note) && note.bytes > room);
    let texts = texts.filter_map(|(at, (message, _))| match message.parts.as_slice() {
        [Part::Text { text }, ..] if text.len() > room => {
            Some((at, LargeText { call: "", tool: "task", text, room }))
        }
        _ => None,
    });
    texts.collect()
}

/// The replacement of a large result: its beginning and end, and the path of the whole.
pub fn shorten_large_text(prompts: &Prompts, large: &LargeText<'_>, path: &str) -> String {
    let values = [("bytes", &*large.text.len().to_string()), ("path", path)];
    let note = fill(prompts.text(CUT), &values);
    let room = large.room.saturating_sub(note.len()).max(MIN_CUT_BYTES[1] / 2);
    cut_middle(large.text, room, note.trim_end())
}

/// The beginning and the end of a text, `room` bytes in all, with a note between them. The beginning gets
/// more.
pub(super) fn cut_middle(text: &str, room: usize, note: &str) -> String {
    let tail = room / 3;
    truncate_middle(text, (room - tail, tail), note)
}

/// The number of summaries that are replaced by one line, with a new one of this size.
pub fn count_forgotten_summaries(history: &History, budget: &ContextBudget, new: usize) -> usize {
    let room = budget.bytes(fraction_of(budget.window(), SUMMARIES_SHARE));
    let mut used = new;
    let sizes = history.summaries.iter().map(String::len).rev();
    let kept = sizes
        .take_while(|size| {
            used += size;
            used <= room
        })
        .count();
    history.summaries.len() - kept
}

/// The results from a message on: the call's id, the text, and the outcome.
fn results_from(
    history: &History,
    from: usize,
) -> impl Iterator<Item = (&str, &str, &CallOutcome)> {
    let (messages, notes) = history.body();
    messages[from..].iter().zip(&notes[from..]).flat_map(|(message, note)| {
        let outcomes: &[CallOutcome] = match &note.kind {
            MessageKind::Results(outcomes) => outcomes,
            _ => &[],
        };
        let results = message.parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some((result.call.as_str(), result.text.as_str())),
            _ => None,
        });
        results.zip(outcomes).map(|((call, text), outcome)| (call, text, outcome))
    })
}

#[cfg(test)]
mod tests {
    use agent_protocol::model::{ContextWindow, WindowSource};

    use super::*;

    #[test]
    fn messages_of_the_current_turn_are_truncated_except_the_newest() {
        let window = ContextWindow { tokens: 32_768, source: WindowSource::Known };
        let budget = ContextBudget::new("m", window, 0.8);
        let mut history = History::default();
        history.place = WorkPosition { turn: 1, round: 0, step: 0 };
        (0..8).for_each(|_| history.add_user_message(&"x".repeat(14_000), &[]));
        let long = long_user_messages(&history, &budget);
        assert_eq!((long.cut.len(), long.left_out.len()), (7, 0), "{long:?}");
        assert!(long.cut.iter().all(|(at, ..)| *at < 7));
        (0..200).for_each(|_| history.add_user_message(&"y".repeat(500), &[]));
        let long = long_user_messages(&history, &budget);
        assert!(long.left_out.iter().all(|(at, _)| *at < 207) && long.left_out.len() > 100);
    }
}
