//! The state of one turn.

use std::collections::VecDeque;
use std::time::Instant;

use super::completion::Completion;
use super::recall::TurnLessons;
use super::spend::ModelCost;
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
    pub(super) n_replies: u32,
    pub(super) spent: ModelCost,
    /// The part of it that the turn of the session has paid for a sub-agent.
    pub(super) charged: ModelCost,
    pub(super) errors: Vec<String>,
    /// The input of the decisions.
    pub(super) state: State,
    pub(super) reflection_input: ReflectionInput,
    pub(super) kernel_calls: KernelCalls,
    pub(super) lessons: TurnLessons,
    /// Decides whether the turn is complete.
    pub(super) completion: Completion,
    pub(super) draft: AnswerDraft,
    /// The verifier was asked about a final text.
    pub(super) was_verified: bool,
    pub(super) pending_messages: PendingMessages,
    /// A message to the model before the next request.
    pub(super) feedback: Option<String>,
    /// Paths that tools worked on in this round.
    pub(super) touched_paths: Vec<String>,
    /// How often hooks sent its answer back.
    pub(super) hook_rejections: u32,
    /// A hook ends the turn: why.
    pub(super) hook_stop_reason: Option<String>,
}

/// The evidence for reflections and planners, besides the plan.
pub(super) struct ReflectionInput {
    /// The user's request, in the user's words.
    pub(super) goal: String,
    /// The last evidence, as the tool or check returned it.
    pub(super) evidence: String,
    /// `seq` of the last evaluation.
    pub(super) seq: u64,
    /// The last attempts, in order.
    pub(super) attempts: VecDeque<PastAttempt>,
}

impl ReflectionInput {
    /// Adds an attempt.
    pub(super) fn add_attempt(&mut self, attempt: PastAttempt) {
        if self.attempts.len() >= ATTEMPTS {
            self.attempts.pop_front();
        }
        self.attempts.push_back(attempt);
    }
}

/// An attempt and its result.
#[derive(Clone, Debug)]
pub(super) struct PastAttempt {
    pub(super) call: String,
    pub(super) outcome: String,
}

/// Calls that the kernel made itself.
#[derive(Default)]
pub(super) struct KernelCalls {
    pub(super) n: u32,
    /// Those that reflections proposed: each is made once.
    pub(super) proposals: Vec<ToolCall>,
}

/// A final text that may arrive in parts.
#[derive(Default)]
pub(super) struct AnswerDraft {
    pub(super) text: String,
    pub(super) continuations: u32,
}

/// Messages to the model before the next request, once.
pub(super) struct PendingMessages {
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
            n_replies: 0,
            spent: ModelCost::zero(),
            charged: ModelCost::zero(),
            errors: Vec::new(),
            state,
            reflection_input: ReflectionInput {
                goal: input.to_owned(),
                evidence: String::new(),
                seq: 0,
                attempts: VecDeque::new(),
            },
            kernel_calls: KernelCalls::default(),
            lessons: TurnLessons::default(),
            completion: Completion::default(),
            draft: AnswerDraft::default(),
            was_verified: false,
            pending_messages: PendingMessages { reminders: Vec::new(), mentions, patch: None },
            feedback: None,
            touched_paths: Vec::new(),
            hook_rejections: 0,
            hook_stop_reason: None,
        }
    }
}
