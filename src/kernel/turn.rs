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
    pub(super) trailing: Trailing,
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

/// What goes behind the conversation, in the one trailing message.
pub(super) struct Trailing {
    /// For the next request alone.
    pub(super) reminders: Vec<String>,
    pub(super) mentions: Mentions,
    pub(super) patch: Option<Patch>,
    /// The model was told that it ticked off a todo for which no call had succeeded.
    pub(super) told_of_nothing_done: bool,
    /// The model was told that it ticked off a todo whose own words ask for a run that did not end well.
    pub(super) told_of_unproven: bool,
}

/// Rules of a reflection for the next decisions; they go when what failed succeeds, or its step ends.
#[derive(Clone, Debug)]
pub(super) struct Patch {
    pub(super) text: String,
    /// A request has carried it.
    pub(super) was_told: bool,
    pub(super) chain: String,
    pub(super) step: u32,
}

impl Turn {
    /// A turn in which nothing has happened yet.
    pub(super) fn new(
        started: Instant,
        state: State,
        completion: Completion,
        input: &str,
        mentions: Mentions,
    ) -> Self {
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
            completion,
            draft: Draft::default(),
            was_looked_at: false,
            trailing: Trailing {
                reminders: Vec::new(),
                mentions,
                patch: None,
                told_of_nothing_done: false,
                told_of_unproven: false,
            },
            feedback: None,
            touched: Vec::new(),
        }
    }
}

impl Patch {
    /// It was told, and what it is about is over: nothing failed since, or its step ended.
    pub(super) fn is_over(&self, state: &State, step: u32) -> bool {
        self.was_told && (state.step_success || step != self.step || !state.is_open(&self.chain))
    }
}
