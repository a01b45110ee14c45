//! The state of one turn.

use std::time::Instant;

use super::completion::Completion;
use super::recall::TurnLessons;
use super::spend::ModelCost;
use super::state::RecoveryState;
use crate::context::Mentions;
use agent_protocol::message::ToolCall;

/// A reflection receives only the latest ones.
const ATTEMPTS: usize = 6;

/// Bytes that a continuation has in common with the text before it, if that is no chance.
const MIN_OVERLAP: usize = 16;
const MAX_OVERLAP: usize = 16 << 10;

pub(super) struct Turn {
    pub(super) started: Instant,
    pub(super) round: u32,
    /// Model calls; the last round may have none.
    pub(super) n_replies: u32,
    pub(super) spent: ModelCost,
    /// The part of the cost that the turn of the session has paid for a sub-agent.
    pub(super) charged: ModelCost,
    pub(super) errors: Vec<String>,
    pub(super) state: RecoveryState,
    pub(super) reflection_input: ReflectionInput,
    pub(super) kernel_calls: KernelCalls,
    pub(super) lessons: TurnLessons,
    pub(super) completion: Completion,
    pub(super) draft: AnswerDraft,
    /// What arrived of the last answer, if it did not arrive whole.
    pub(super) partial_answer: String,
    /// Whether data was arriving when the turn was interrupted.
    pub(super) arrival: Option<String>,
    pub(super) was_verified: bool,
    pub(super) pending_messages: PendingMessages,
    /// Text for the model before the next request.
    pub(super) feedback: Option<String>,
    /// Files that the calls of this round read or changed.
    pub(super) touched_paths: Vec<String>,
    pub(super) hook_rejections: u32,
    pub(super) hook_stop_reason: Option<String>,
}

#[derive(Default)]
pub(super) struct ReflectionInput {
    pub(super) goal: String,
    /// Output of the tool or check that failed.
    pub(super) evidence: String,
    /// Sequence number of the last evaluation.
    pub(super) seq: u64,
    pub(super) attempts: Vec<String>,
}

impl ReflectionInput {
    pub(super) fn add_attempt(&mut self, call: &str, outcome: &str) {
        if self.attempts.len() >= ATTEMPTS {
            self.attempts.remove(0);
        }
        self.attempts.push(format!("- {call}: {outcome}"));
    }
}

#[derive(Default)]
pub(super) struct KernelCalls {
    pub(super) n: u32,
    /// Calls that reflections proposed: each is made once.
    pub(super) proposals: Vec<ToolCall>,
}

/// A final text may arrive in parts.
#[derive(Default)]
pub(super) struct AnswerDraft {
    pub(super) text: String,
    pub(super) continuations: u32,
}

impl AnswerDraft {
    /// A part that repeats the end of the text continues behind it. One that begins anew has a line of its own; any
    /// other may continue a word.
    pub(super) fn add_part(&mut self, part: &str) {
        if self.text.is_empty() {
            self.continuations = 0;
        }
        let overlap = find_overlap(&self.text, part).unwrap_or_default();
        if overlap == 0 && begins_like(&self.text, part) && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        self.text.push_str(&part[overlap..]);
    }
}

/// The length of the longest end of `text` with which `part` begins.
fn find_overlap(text: &str, part: &str) -> Option<usize> {
    let shorter = text.len().min(part.len());
    if shorter >= MIN_OVERLAP && (part.starts_with(text) || text.starts_with(part)) {
        return Some(shorter);
    }
    let overlaps = |n: usize| text.as_bytes().ends_with(&part.as_bytes()[..n]);
    let is_overlap = |n: &usize| part.is_char_boundary(*n) && overlaps(*n);
    let n = (MIN_OVERLAP..=shorter.min(MAX_OVERLAP)).rev().find(is_overlap)?;
    // A passage that consists of repetitions, such as a line of a table, may as well go on.
    (!(n.div_ceil(2)..n).any(overlaps)).then_some(n)
}

fn begins_like(text: &str, part: &str) -> bool {
    text.bytes().zip(part.bytes()).take_while(|(a, b)| a == b).count() >= MIN_OVERLAP
}

/// Each is sent once, before the next request.
#[derive(Default)]
pub(super) struct PendingMessages {
    pub(super) reminders: Vec<String>,
    pub(super) mentions: Mentions,
    /// Advice of a reflection for the next decisions.
    pub(super) patch: Option<String>,
}

impl Turn {
    pub(super) fn new(
        started: Instant,
        state: RecoveryState,
        goal: String,
        mentions: Mentions,
    ) -> Self {
        Self {
            started,
            round: 0,
            n_replies: 0,
            spent: ModelCost::default(),
            charged: ModelCost::default(),
            errors: Vec::new(),
            state,
            reflection_input: ReflectionInput { goal, ..ReflectionInput::default() },
            kernel_calls: KernelCalls::default(),
            lessons: TurnLessons::default(),
            completion: Completion::default(),
            draft: AnswerDraft::default(),
            partial_answer: String::new(),
            arrival: None,
            was_verified: false,
            pending_messages: PendingMessages { mentions, ..PendingMessages::default() },
            feedback: None,
            touched_paths: Vec::new(),
            hook_rejections: 0,
            hook_stop_reason: None,
        }
    }
}
