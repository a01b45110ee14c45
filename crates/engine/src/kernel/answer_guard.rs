//! Watches an answer while it streams: stops one that repeats itself, and one that is longer than its limit.

use agent_protocol::model::{Delta, Reply, StopReason, max_answer_bytes};
use agent_protocol::{format_thousands, shorten};

/// A passage is a repetition if it fills this many bytes at the end of the text, this many times in a row.
const MIN_REPETITION: usize = 4 << 10;
const MIN_COPIES: usize = 4;
/// What is compared: the longest passage is a fourth of it.
const COMPARED_BYTES: usize = 16 << 10;
/// After so many bytes the text is compared again: the work stays in proportion to the text.
const STEP: usize = 1 << 10;

#[derive(Default)]
pub(super) struct AnswerGuard {
    /// In bytes.
    limit: usize,
    bytes: usize,
    text: RepetitionDetector,
    reasoning: RepetitionDetector,
}

impl AnswerGuard {
    /// `None`: the length is not limited.
    pub(super) fn new(max_output_tokens: Option<u64>) -> Self {
        Self { limit: max_answer_bytes(max_output_tokens), ..Self::default() }
    }

    /// Adds the delta to the reply. `true`: the answer is stopped, and the delta was shortened to what it still holds.
    pub(super) fn add_delta(&mut self, delta: &mut Delta, reply: &mut Reply) -> bool {
        let stop = self.check_delta(delta);
        reply.apply_delta(delta);
        if stop.is_some() {
            // The provider would have counted at the end.
            reply.usage = None;
            reply.stop.clone_from(&stop);
        }
        stop.is_some()
    }

    fn check_delta(&mut self, delta: &mut Delta) -> Option<StopReason> {
        let (part, detector) = match delta {
            Delta::Text(text) => (text, Some(&mut self.text)),
            Delta::Reasoning(text) => (text, Some(&mut self.reasoning)),
            // A file may repeat itself.
            Delta::Call { arguments, .. } | Delta::Dropped(arguments) => (arguments, None),
            Delta::Retry(_) => {
                *self = Self { limit: self.limit, ..Self::default() };
                return None;
            }
            Delta::Held(_)
            | Delta::Opaque { .. }
            | Delta::Hit(_)
            | Delta::Usage(_)
            | Delta::Done(_) => {
                return None;
            }
        };
        let room = self.limit - self.bytes;
        let is_too_long = part.len() > room;
        part.truncate(part.floor_char_boundary(room));
        self.bytes += part.len();
        if let Some(end) = detector.and_then(|detector| detector.find_repetition(part)) {
            part.truncate(end);
            return Some(StopReason::Repetition);
        }
        is_too_long.then_some(StopReason::Length)
    }
}

/// The same for any split of the text.
#[derive(Default)]
struct RepetitionDetector {
    end: Vec<u8>,
    /// Bytes since the last comparison.
    pending: usize,
}

impl RepetitionDetector {
    /// Returns the length of the part of `text` with which the text becomes a repetition.
    fn find_repetition(&mut self, text: &str) -> Option<usize> {
        let mut done = 0;
        while done < text.len() {
            let next = text.ceil_char_boundary(text.len().min(done + STEP - self.pending));
            self.end.extend_from_slice(&text.as_bytes()[done..next]);
            self.pending += next - done;
            done = next;
            if self.pending >= STEP {
                self.pending = 0;
                self.end.drain(..self.end.len().saturating_sub(COMPARED_BYTES));
                if Repetition::at_end_of(&self.end).is_some() {
                    return Some(done);
                }
            }
        }
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Repetition {
    period: usize,
    bytes: usize,
}

impl Repetition {
    /// The longest one.
    fn at_end_of(text: &[u8]) -> Option<Self> {
        let end: Vec<u8> = text.iter().rev().take(COMPARED_BYTES).copied().collect();
        // The prefix function of Knuth, Morris and Pratt, of the reversed text: the difference between the length of
        // a part and its longest border is the period of the part.
        let mut borders = vec![0; end.len()];
        for at in 1..end.len() {
            let mut border = borders[at - 1];
            while border > 0 && end[at] != end[border] {
                border = borders[border - 1];
            }
            borders[at] = border + usize::from(end[at] == end[border]);
        }
        (MIN_REPETITION..=end.len()).rev().find_map(|bytes| {
            let period = bytes - borders[bytes - 1];
            (bytes / period >= MIN_COPIES).then_some(Self { period, bytes })
        })
    }

    fn describe(self, text: &str) -> String {
        let n = |bytes: usize| format_thousands(bytes as u64);
        let passage = &text[text.ceil_char_boundary(text.len() - self.period)..];
        let (times, passage) = (self.bytes / self.period, shorten(passage, 200));
        format!("{times} times the same {} bytes, {passage:?}", n(self.period))
    }
}

/// What repeats at the end of an answer that was stopped, and the text before it.
pub(super) fn split_repetition(reply: &Reply) -> (String, &str) {
    let Reply { text, reasoning, .. } = reply;
    let [in_text, in_reasoning] =
        [text, reasoning].map(|part| Repetition::at_end_of(part.as_bytes()));
    let described = in_text.map(|found| found.describe(text));
    let described = described.or_else(|| Some(in_reasoning?.describe(reasoning)));
    let kept = text.len() - in_text.map_or(0, |found| found.bytes);
    (described.unwrap_or_default(), &text[..text.floor_char_boundary(kept)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Adds the text in pieces of this size; returns the text until the stop, and its reason.
    fn stream(text: &str, size: usize, of: fn(String) -> Delta) -> (Reply, Option<StopReason>) {
        let (mut guard, mut reply) = (AnswerGuard::new(None), Reply::default());
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.ceil_char_boundary(size.min(rest.len())));
            if guard.add_delta(&mut of(piece.to_owned()), &mut reply) {
                break;
            }
            rest = after;
        }
        let stop = reply.stop.clone();
        (reply, stop)
    }

    fn call(arguments: String) -> Delta {
        Delta::Call { index: 0, id: None, name: None, arguments }
    }

    #[test]
    fn repetitions_are_stopped_after_their_stated_length() {
        let long = (0..800).map(|n| format!("{n} ")).collect::<String>();
        for (passage, limit) in [
            ("I am sorry. ", MIN_REPETITION + 2 * STEP),
            ("-", MIN_REPETITION + 2 * STEP),
            (" \n\t", MIN_REPETITION + 2 * STEP),
            ("schön 😀\n", MIN_REPETITION + 2 * STEP),
            (long.as_str(), MIN_COPIES * long.len() + 2 * STEP),
        ] {
            let text = format!("An answer.\n{}", passage.repeat(40_000 / passage.len()));
            for of in [Delta::Text, Delta::Reasoning] {
                let (reply, stop) = stream(&text, 7, of);
                let n = reply.text.len() + reply.reasoning.len();
                assert_eq!(stop, Some(StopReason::Repetition), "{passage:.20}");
                assert!((MIN_REPETITION..limit).contains(&n), "{passage:.20}: {n}");
            }
            let (reply, _) = stream(&text, 7, Delta::Text);
            let (what, kept) = split_repetition(&reply);
            assert!(kept.starts_with("An answer.") && kept.len() <= 11, "{kept}");
            assert!(what.contains("times the same"), "{what}");
            assert_eq!(stream(&text, 7, call).1, None, "a call may hold such a file");
        }
    }

    #[test]
    fn what_answers_hold_is_no_repetition() {
        let row = |n: usize| format!("| {n:>5} | {:>5} | ok {} |\n", n * n, "-".repeat(20));
        let table: String = (0..2000).map(row).collect();
        let rulers = format!("# Title\n{}\ntext of it\n", "-".repeat(4000)).repeat(3);
        let code: String = (0..1500).map(|n| format!("    assert_eq!(f({n}), 0);\n")).collect();
        let passage: String = (0..1000).map(|n| format!("{n} ")).collect();
        for text in [table, rulers, code, passage.repeat(MIN_COPIES - 1), " \n".repeat(2000)] {
            assert_eq!(stream(&text, 100, Delta::Text), stream(&text, usize::MAX, Delta::Text));
            assert_eq!(stream(&text, 100, Delta::Text).1, None, "{text:.40}");
        }
    }

    #[test]
    fn nothing_is_longer_than_its_limit() {
        let text: String = (0..10_000).map(|n| format!("{n} ")).collect();
        for of in [Delta::Text, Delta::Reasoning, call] {
            let (mut guard, mut reply) = (AnswerGuard::new(Some(1000)), Reply::default());
            reply.usage = Some(agent_protocol::model::Usage::default());
            assert!(!guard.add_delta(&mut of(text[..12_000].to_owned()), &mut reply));
            assert!(guard.add_delta(&mut of(text[12_000..].to_owned()), &mut reply));
            let calls: usize = reply.calls.iter().map(|call| call.arguments.len()).sum();
            assert_eq!(reply.text.len() + reply.reasoning.len() + calls, 12_000);
            assert_eq!((reply.stop, reply.usage), (Some(StopReason::Length), None));
        }
    }

    proptest! {
        #[test]
        fn any_split_stops_at_the_same_place(
            start in ".{0,40}", passage in ".{1,300}", times in 1usize..400, size in 1usize..3000,
        ) {
            let text = format!("{start}{}", passage.repeat(times));
            let (one, other) = (stream(&text, size, Delta::Text), stream(&text, 1, Delta::Text));
            prop_assert_eq!(&one, &other);
            let repeated = passage.len() * times;
            if repeated >= MIN_REPETITION.max(MIN_COPIES * passage.len()) + 2 * STEP {
                prop_assert_eq!(one.1, Some(StopReason::Repetition));
            }
        }
    }
}
