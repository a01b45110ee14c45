//! What belongs to one turn, from the user's words to its end.

use std::time::Instant;

use super::completion::Completion;
use super::recall::Used;
use super::spend::Spent;
use super::state::State;
use crate::context::Mentions;
use crate::protocol::message::ToolCall;

/// One turn.
pub(super) struct Turn {
    pub(super) started: Instant,
    pub(super) round: u32,
    /// Answers of the model; the last round may have none.
    pub(super) answers: u32,
    pub(super) spent: Spent,
    pub(super) errors: Vec<String>,
    /// What the decisions rest on.
    pub(super) state: State,
    pub(super) case: Case,
    pub(super) own_calls: OwnCalls,
    pub(super) memory: Used,
    /// Whether it is done.
    pub(super) completion: Completion,
    pub(super) draft: Draft,
    /// Another model was asked about a final text.
    pub(super) was_looked_at: bool,
    pub(super) pending: Pending,
    /// What the model is told inside the conversation before it is asked again.
    pub(super) feedback: Option<String>,
    /// Paths that tools worked on in this round.
    pub(super) touched: Vec<String>,
}

/// What reflections and planners are told, besides the plan.
pub(super) struct Case {
    /// What the user wants, in the user's words.
    pub(super) goal: String,
    /// The last evidence, as the failing tool or check gave it.
    pub(super) evidence: String,
    /// `seq` of the last evaluation.
    pub(super) seq: u64,
    /// What was tried, in order.
    pub(super) attempts: Vec<PastCall>,
}

/// What was tried, and what it came to.
#[derive(Clone, Debug)]
pub(super) struct PastCall {
    pub(super) call: String,
    pub(super) outcome: String,
}

/// Calls that the kernel made itself.
#[derive(Default)]
pub(super) struct OwnCalls {
    pub(super) n: u32,
    /// Those of them that reflections proposed: none is made twice.
    pub(super) proposals: Vec<ToolCall>,
}

/// A final text that may come in pieces.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) continuations: u32,
}

/// What the model is told before the next request, once.
pub(super) struct Pending {
    pub(super) reminders: Vec<String>,
    pub(super) mentions: Mentions,
    /// Rules of a reflection for the next decisions.
    pub(super) patch: Option<String>,
}

impl Turn {
    /// A turn in which nothing has happened yet.
    pub(super) fn new(started: Instant, state: State, input: &str, mentions: Mentions) -> Self {
        Self {
            started,
            round: 0,
            answers: 0,
            spent: Spent::nothing(),
            errors: Vec::new(),
            state,
            case: Case {
                goal: input.to_owned(),
                evidence: String::new(),
                seq: 0,
                attempts: Vec::new(),
            },
            own_calls: OwnCalls::default(),
            memory: Used::default(),
            completion: Completion::default(),
            draft: Draft::default(),
            was_looked_at: false,
            pending: Pending { reminders: Vec::new(), mentions, patch: None },
            feedback: None,
            touched: Vec::new(),
        }
    }
}
