//! The state of one turn.

use std::collections::VecDeque;
use std::time::Instant;

use super::completion::Completion;
use super::recall::Used;
use super::spend::Spent;
use super::state::State;
use crate::context::Mentions;
use agent_protocol::message::ToolCall;

/// Number of the latest attempts that a reflection receives.
const ATTEMPTS: usize = 6;

/// One turn.
pub(super) struct Turn {
    pub(super) started: Instant,
    pub(super) round: u32,
    /// Model calls; the last round may have none.
    pub(super) answers: u32,
    pub(super) spent: Spent,
    /// The part of it that the turn of the session has paid for a sub-agent.
    pub(super) paid: Spent,
    pub(super) errors: Vec<String>,
    /// The input of the decisions.
    pub(super) state: State,
    pub(super) case: Case,
    pub(super) own_calls: OwnCalls,
    pub(super) memory: Used,
    /// Decides whether the turn is complete.
    pub(super) completion: Completion,
    pub(super) draft: Draft,
    /// The verifier was asked about a final text.
    pub(super) was_verified: bool,
    pub(super) pending: Pending,
    /// A message to the model before the next request.
    pub(super) feedback: Option<String>,
    /// Paths that tools worked on in this round.
    pub(super) touched: Vec<String>,
    /// How often hooks sent its answer back.
    pub(super) sent_back_by_hooks: u32,
    /// A hook ends the turn: why.
    pub(super) stop: Option<String>,
}

/// The evidence for reflections and planners, besides the plan.
pub(super) struct Case {
    /// The user's request, in the user's words.
    pub(super) goal: String,
    /// The last evidence, as the tool or check returned it.
    pub(super) evidence: String,
    /// `seq` of the last evaluation.
    pub(super) seq: u64,
    /// The last attempts, in order.
    pub(super) attempts: VecDeque<PastCall>,
}

impl Case {
    /// Adds an attempt.
    pub(super) fn tried(&mut self, attempt: PastCall) {
        if self.attempts.len() >= ATTEMPTS {
            self.attempts.pop_front();
        }
        self.attempts.push_back(attempt);
    }
}

/// An attempt and its result.
#[derive(Clone, Debug)]
pub(super) struct PastCall {
    pub(super) call: String,
    pub(super) outcome: String,
}

/// Calls that the kernel made itself.
#[derive(Default)]
pub(super) struct OwnCalls {
    pub(super) n: u32,
    /// Those that reflections proposed: each is made once.
    pub(super) proposals: Vec<ToolCall>,
}

/// A final text that may arrive in parts.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) text: String,
    pub(super) continuations: u32,
}

/// Messages to the model before the next request, once.
pub(super) struct Pending {
    pub(super) reminders: Vec<String>,
    pub(super) mentions: Mentions,
    /// Rules of a reflection for the next decisions.
    pub(super) patch: Option<String>,
}

impl Turn {
    /// A new turn.
    pub(super) fn new(started: Instant, state: State, input: &str, mentions: Mentions) -> Self {
        Self {
            started,
            round: 0,
            answers: 0,
            spent: Spent::nothing(),
            paid: Spent::nothing(),
            errors: Vec::new(),
            state,
            case: Case {
                goal: input.to_owned(),
                evidence: String::new(),
                seq: 0,
                attempts: VecDeque::new(),
            },
            own_calls: OwnCalls::default(),
            memory: Used::default(),
            completion: Completion::default(),
            draft: Draft::default(),
            was_verified: false,
            pending: Pending { reminders: Vec::new(), mentions, patch: None },
            feedback: None,
            touched: Vec::new(),
            sent_back_by_hooks: 0,
            stop: None,
        }
    }
}
