//! The facts of a record about the user, the models and the world, in the form in which a replay needs them. Pure.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use super::moment_key::{CallKey, MomentKey};
use agent_host::workspace::OutsideChange;
use agent_protocol::control::{ApprovalDecision, Ending, Interrupt, PermissionMode};
use agent_protocol::directives::UserInput;
use agent_protocol::envelope::{Envelope, ErrorCode, SealedEnvelope};
use agent_protocol::event::{Event, EventBody, ModelResponded, SessionStarted, WorkPosition};
use agent_protocol::model::{ContextWindow, ModelError, Purpose};
use agent_protocol::recall::{MemoryRecalled, Remedy};
use agent_protocol::tool::Effect;

#[derive(Clone, Default)]
pub(super) struct Script {
    /// Turns, and what happens between them, in order.
    pub(super) steps: Vec<ScriptStep>,
    pub(super) actions: HashMap<MomentKey, Vec<ScriptAction>>,
    pub(super) answers: HashMap<(u32, Purpose), VecDeque<ModelOutcome>>,
    /// Moments in order, with the time in milliseconds since 1970.
    pub(super) moments: Vec<(MomentKey, i64)>,
    pub(super) results: SessionResults,
    pub(super) skipped: HashMap<CallKey, SkippedCall>,
    pub(super) recalled: Vec<(u32, MemoryRecalled)>,
    /// Remedies with the message of the failure.
    pub(super) remedies: Vec<(String, Remedy)>,
    /// By process, from 1, and model: one after the other.
    pub(super) windows: HashMap<(usize, String), Vec<ContextWindow>>,
    /// Models that answered when the main one was not available, in order.
    pub(super) fallback: Vec<String>,
    pub(super) verifier: Option<String>,
    pub(super) is_attended: bool,
    /// What hooks blocked, with the reason: messages, and ids of calls.
    pub(super) blocked: Vec<(String, String)>,
    pub(super) not_replayed: Vec<String>,
}

#[derive(Clone)]
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

#[derive(Clone, Debug, Default)]
pub(super) struct SessionResults {
    pub(super) calls: Vec<CallResult>,
    pub(super) checks: Vec<RecordedCheck>,
    pub(super) endings: Vec<(u32, Ending)>,
    /// Calls without a result yet.
    pub(super) running: HashMap<CallKey, Effect>,
}

impl SessionResults {
    pub(super) fn apply(&mut self, event: &Event) {
        let WorkPosition { turn, round, .. } = event.header.place;
        match &event.body {
            EventBody::ToolStarted { call, effect, .. } => {
                self.running.insert((turn, call.clone()), effect.clone());
            }
            EventBody::ToolFinished { call, tool, envelope, synthetic, .. } => {
                let effect = self.running.remove(&(turn, call.clone()));
                if !synthetic {
                    let (call, tool, envelope) = (call.clone(), tool.clone(), envelope.clone());
                    self.calls.push(CallResult { call, tool, turn, round, effect, envelope });
                }
            }
            EventBody::CheckFinished { command, exit_code, passed, tail, .. } => {
                let (command, tail) = (command.clone(), tail.clone());
                let (exit_code, passed) = (*exit_code, *passed);
                self.checks.push(RecordedCheck { turn, command, exit_code, passed, tail });
            }
            EventBody::TurnFinished(finished) => self.endings.push((turn, finished.ending)),
            _ => {}
        }
    }
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
    /// late. False: it comes before the first moment.
    pub(super) fn add_change(&mut self, number: usize, change: &OutsideChange) -> bool {
        const TICK: i64 = 30;
        let saw_before = |result: &CallResult| {
            let is_read = result.envelope.context.path_resolved.as_ref() == Some(&change.path);
            let mtime = result.envelope.stats.get("file_mtime_ms");
            let mtime = mtime.and_then(serde_json::Value::as_i64);
            (is_read && mtime.is_some() && mtime != change.mtime_ms)
                || (!change.after_call.is_empty() && result.call == change.after_call)
        };
        let results: HashMap<CallKey, &CallResult> =
            self.results.calls.iter().map(|result| (result.key(), result)).collect();
        let mut at = self.moments.iter().rposition(|(_, ms)| *ms <= change.at_ms);
        let from = at.map_or(0, |at| at + 1);
        for (n, (key, ms)) in self.moments.iter().enumerate().skip(from) {
            if *ms > (change.at_ms + TICK).min(change.noticed_ms) {
                break;
            }
            if let MomentKey::CallFinished(call) = key
                && results.get(call).is_some_and(|result| saw_before(result))
            {
                at = Some(n);
            }
        }
        let Some(at) = at else { return false };
        let key = self.moments[at].0.clone();
        // First the world, then the user.
        let actions = self.actions.entry(key).or_default();
        let is_change = |action: &&ScriptAction| matches!(action, ScriptAction::Change(_));
        let place = actions.iter().take_while(is_change).count();
        actions.insert(place, ScriptAction::Change(number));
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
