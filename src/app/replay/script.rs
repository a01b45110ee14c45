//! The facts of a record about the user, the models and the world, in the form in which a replay needs them. Pure.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::blocked_actions::BlockedActions;
use super::moment_key::{CallKey, MomentKey};
use agent_protocol::control::{ApprovalDecision, Ending, Interrupt, PermissionMode};
use agent_protocol::directives::UserInput;
use agent_protocol::envelope::{Envelope, ErrorCode, SealedEnvelope};
use agent_protocol::event::{ModelResponded, SessionStarted};
use agent_protocol::model::{ModelError, Purpose};
use agent_protocol::recall::{MemoryRecalled, Remedy};
use agent_protocol::tool::Effect;

#[derive(Default)]
pub(super) struct Script {
    /// Turns, and what happens between them, in order.
    pub(super) steps: Vec<ScriptStep>,
    pub(super) actions: HashMap<MomentKey, Vec<ScriptAction>>,
    pub(super) answers: HashMap<(u32, Purpose), VecDeque<ModelOutcome>>,
    /// With the time in milliseconds since 1970, in order.
    pub(super) moments: Vec<(MomentKey, i64)>,
    pub(super) results: Vec<CallResult>,
    pub(super) checks: Vec<RecordedCheck>,
    pub(super) endings: Vec<(u32, Ending)>,
    pub(super) skipped: HashMap<CallKey, SkippedCall>,
    pub(super) recalled: Vec<(u32, MemoryRecalled)>,
    /// With the message of the failure.
    pub(super) remedies: Vec<(String, Remedy)>,
    pub(super) windows: HashMap<String, u64>,
    /// Models that answered when the main one was not available, in order.
    pub(super) fallback: Vec<String>,
    pub(super) verifier: Option<String>,
    /// The user answered questions.
    pub(super) is_attended: bool,
    pub(super) blocked: BlockedActions,
    pub(super) not_replayed: Vec<String>,
}

pub(super) enum ScriptStep {
    /// A process begins or continues the session.
    Begin(Box<SessionStarted>),
    End,
    Turn {
        number: u32,
        message: UserInput,
        is_killed: bool,
    },
    ShareCommand {
        command: String,
        output: String,
        exit_code: Option<i32>,
    },
    SetMode(PermissionMode),
    AddRule(String),
    RemoveRule(u32),
    Pin(String),
    Unpin(u32),
    Compact(Option<String>),
    Undo {
        turn: u32,
        is_redo: bool,
        /// Includes the later turns.
        is_rewind: bool,
        git: bool,
        force: bool,
    },
    Rewind(u32),
}

#[derive(Clone, Debug)]
pub(super) enum ScriptAction {
    Steer(UserInput),
    SetMode(PermissionMode),
    Answer(String, ApprovalDecision),
    Interrupt(Interrupt, Duration),
    /// The number of a change from outside.
    Change(usize),
    Kill,
}

#[derive(Clone, Debug)]
pub(super) enum ModelOutcome {
    Answer(Box<ModelResponded>),
    /// Nothing after this text, until the turn is interrupted.
    NoAnswer(String, Option<Interrupt>),
    Failed(ModelError),
}

#[derive(Clone, Debug)]
pub(super) struct CallResult {
    pub(super) call: String,
    pub(super) tool: String,
    pub(super) turn: u32,
    pub(super) round: u32,
    /// `None`: the call was not started.
    pub(super) effect: Option<Effect>,
    pub(super) envelope: SealedEnvelope,
}

impl CallResult {
    pub(super) fn key(&self) -> CallKey {
        (self.turn, self.call.clone())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RecordedCheck {
    pub(super) turn: u32,
    pub(super) command: String,
    pub(super) exit_code: Option<i32>,
    pub(super) passed: bool,
    pub(super) tail: String,
}

#[derive(Clone, Debug)]
pub(super) struct SkippedCall {
    pub(super) why: String,
    /// `None`: the process was killed meanwhile.
    pub(super) envelope: Option<SealedEnvelope>,
}

impl Script {
    /// Adds a change from outside at its time: `at_ms` is that of the file system, whose clock is up to `TICK`
    /// late. `is_after` says whether the session saw the state before the change in this result.
    pub(super) fn add_change(
        &mut self,
        number: usize,
        (at_ms, noticed_ms): (i64, i64),
        is_after: impl Fn(&CallResult) -> bool,
    ) -> bool {
        const TICK: i64 = 30;
        let results: HashMap<CallKey, &CallResult> =
            self.results.iter().map(|result| (result.key(), result)).collect();
        let mut at = self.moments.iter().rposition(|(_, ms)| *ms <= at_ms);
        let from = at.map_or(0, |at| at + 1);
        for (n, (key, ms)) in self.moments.iter().enumerate().skip(from) {
            if *ms > (at_ms + TICK).min(noticed_ms) {
                break;
            }
            if let MomentKey::CallFinished(call) = key
                && results.get(call).is_some_and(|result| is_after(result))
            {
                at = Some(n);
            }
        }
        let Some(at) = at else { return false };
        let key = self.moments[at].0.clone();
        // First the world, then the user.
        let deeds = self.actions.entry(key).or_default();
        let place = deeds.iter().take_while(|deed| matches!(deed, ScriptAction::Change(_))).count();
        deeds.insert(place, ScriptAction::Change(number));
        true
    }
}

/// As if the message was pasted.
pub(super) fn without_directives(message: &UserInput) -> UserInput {
    let mut pasted = UserInput { text: String::new(), pasted: Vec::new(), ..message.clone() };
    pasted.push_pasted(&message.text);
    pasted
}

pub(super) fn error_code(envelope: &Envelope) -> Option<ErrorCode> {
    envelope.error().map(|error| error.code)
}
