//! The state that the parts of a replay share: the model, the tools, and the sink that acts for the user
//! and the world at the recorded moments.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::moment_key::{CallKey, MomentKeyCounter};
use super::path_mapping::PathMapping;
use super::script::{ModelOutcome, Script, ScriptAction, SessionResults, SkippedCall};
use agent_host::workspace::{FileHistory, OutsideChange};
use agent_protocol::control::{Ending, Interrupt, SessionControl};
use agent_protocol::envelope::SealedEnvelope;
use agent_protocol::event::{EventBody, Sink, StampedEvent};
use agent_protocol::model::Purpose;
use agent_protocol::recall::{
    FailedCall, LessonSource, MemoryRecalled, RecallMoment, RecalledLesson, Remedy,
};
use agent_protocol::tool::Effect;

/// Limit of the wait for an answer that keeps the pace of the record.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Changes of files that nothing in the replay makes, for the copy of the project at `root`.
pub(super) struct RecordedChanges {
    pub(super) history: Arc<FileHistory>,
    pub(super) outside: Vec<OutsideChange>,
    pub(super) root: PathBuf,
}

/// Acts as a sink at the recorded moments; also the lessons that the record says were used.
#[derive(Clone)]
pub(super) struct ReplayState(Arc<Mutex<State>>);

pub(super) struct State {
    /// Without the actions and answers that were used.
    script: Script,
    keeps_pace: bool,
    path_mapping: PathMapping,
    changes: RecordedChanges,
    keys: MomentKeyCounter,
    turn: u32,
    started_call: Option<CallKey>,
    pub(super) control: SessionControl,
    killed: CancellationToken,
    interrupts: UnboundedSender<(Interrupt, Duration)>,
    pub(super) results: ReplayResults,
}

#[derive(Default)]
pub(super) struct ReplayResults {
    pub(super) session: SessionResults,
    /// Calls that were not run, with the reason.
    pub(super) skipped: HashMap<CallKey, String>,
    pub(super) divergence: Option<String>,
}

impl ReplayState {
    pub(super) fn new(
        script: &Script,
        path_mapping: PathMapping,
        changes: RecordedChanges,
    ) -> Self {
        Self(Arc::new(Mutex::new(State {
            script: script.clone(),
            keeps_pace: false,
            path_mapping,
            changes,
            keys: MomentKeyCounter::default(),
            turn: 0,
            started_call: None,
            control: SessionControl::default(),
            killed: CancellationToken::new(),
            interrupts: unbounded_channel().0,
            results: ReplayResults::default(),
        })))
    }

    /// Returns a token for the end of the process, and the interrupts, each with its delay.
    pub(super) fn begin_turn(
        &self,
        interrupts: UnboundedSender<(Interrupt, Duration)>,
    ) -> CancellationToken {
        let mut state = self.lock();
        state.killed = CancellationToken::new();
        state.interrupts = interrupts;
        state.killed.clone()
    }

    /// The next answer in the current turn, and how long to wait for it. `None`: the turn is over.
    pub(super) fn next_answer(&self, purpose: Purpose) -> Option<(ModelOutcome, Duration)> {
        let mut state = self.lock();
        let turn = state.turn;
        let queue = state.script.answers.get_mut(&(turn, purpose));
        if let Some(outcome) = queue.and_then(VecDeque::pop_front) {
            let delay = state.answer_delay(&outcome);
            return Some((outcome, delay));
        }
        let ending = state.script.results.endings.iter().rfind(|(of, _)| *of == turn);
        // These endings come from outside of the answers.
        let is_cut = ending.is_none_or(|(_, ending)| {
            matches!(
                ending,
                Ending::MaxBudget | Ending::Timeout | Ending::Interrupted | Ending::Terminated
            )
        });
        if !is_cut {
            state.set_divergence(format!(
                "turn {turn}: the model is asked for one more answer ({}) than the record has",
                purpose.as_str()
            ));
        }
        state.control.interrupt(Interrupt::User);
        None
    }

    pub(super) fn relocate(&self, text: &str) -> String {
        let path_mapping = self.lock().path_mapping.clone();
        path_mapping.relocate(text)
    }

    /// The call that a tool is about to run; with `SkippedCall` it is not run.
    pub(super) fn take_started_call(&self) -> Option<(CallKey, Option<SkippedCall>)> {
        let mut state = self.lock();
        let call = state.started_call.take()?;
        let skip = state.script.skipped.get(&call).cloned();
        Some((call, skip))
    }

    /// Makes the changes of the call; returns the recorded result.
    pub(super) fn skip_call(&self, call: &CallKey, why: &str) -> Option<SealedEnvelope> {
        let mut state = self.lock();
        state.results.skipped.insert(call.clone(), why.to_owned());
        let RecordedChanges { history, root, .. } = &state.changes;
        history.apply_changes(&history.changes_of_call(call.0, &call.1), root);
        let recorded = state.script.results.calls.iter().rfind(|result| result.key() == *call)?;
        Some(recorded.envelope.clone())
    }

    pub(super) fn diverge(&self, why: String) {
        self.lock().set_divergence(why);
    }

    /// Answers that were not requested are a divergence.
    pub(super) fn end_turn(&self, turn: u32, is_killed: bool) {
        let mut state = self.lock();
        let left = state.script.answers.get(&(turn, Purpose::Main)).map_or(0, VecDeque::len);
        if left > 0 && !is_killed {
            state.set_divergence(format!(
                "turn {turn}: the turn ended, and the record has {left} more answers of the model"
            ));
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl State {
    fn set_divergence(&mut self, why: String) {
        self.results.divergence.get_or_insert(why);
    }

    /// With a command in the background the pace of the record is kept.
    fn answer_delay(&self, outcome: &ModelOutcome) -> Duration {
        match outcome {
            ModelOutcome::Answer(answer) if self.keeps_pace => {
                Duration::from_millis(answer.time_ms).min(LONGEST_DELAY)
            }
            _ => Duration::ZERO,
        }
    }

    fn perform(&mut self, action: ScriptAction) {
        match action {
            ScriptAction::Steer(message) => self.control.queue_message(message),
            ScriptAction::SetMode(mode) => self.control.request_mode(mode),
            ScriptAction::Answer(call, approval) => self.control.answer_approval(&call, approval),
            ScriptAction::Interrupt(by, Duration::ZERO) => self.control.interrupt(by),
            // The turn may have ended.
            ScriptAction::Interrupt(by, after) => _ = self.interrupts.send((by, after)),
            ScriptAction::Change(number) => {
                let RecordedChanges { history, outside, root } = &self.changes;
                history.apply_changes(&outside[number..=number], root);
            }
            ScriptAction::Kill => self.killed.cancel(),
        }
    }
}

impl Sink for ReplayState {
    fn receive(&mut self, stamped: &StampedEvent) {
        let mut state = self.lock();
        let event = &stamped.event;
        let turn = event.header.place.turn;
        state.turn = turn;
        if let EventBody::ToolStarted { call, effect, .. } = &event.body {
            state.keeps_pace |= matches!(effect, Effect::Command { background: true, .. });
            state.started_call = Some((turn, call.clone()));
        }
        state.results.session.apply(event);
        let Some(key) = state.keys.key_of(event) else { return };
        for action in state.script.actions.remove(&key).unwrap_or_default() {
            state.perform(action);
        }
    }
}

impl ReplayState {
    fn take_recalled(&self, moment: RecallMoment, call: Option<&str>) -> Vec<RecalledLesson> {
        let mut state = self.lock();
        let turn = state.turn;
        let is_match = |(of, recalled): &(u32, MemoryRecalled)| {
            *of == turn && recalled.moment == moment && recalled.call.as_deref() == call
        };
        let at = state.script.recalled.iter().position(is_match);
        at.map(|at| state.script.recalled.remove(at).1.items).unwrap_or_default()
    }
}

impl LessonSource for ReplayState {
    fn lessons_for_task(&self, _: &str, _: &[String], _: u64) -> Vec<RecalledLesson> {
        self.take_recalled(RecallMoment::Task, None)
    }

    fn find_remedy(&self, failed: &FailedCall<'_>) -> Option<Remedy> {
        let message = failed.envelope.error().map(|error| error.message.clone());
        let message = message.map(|message| self.relocate(&message));
        let mut state = self.lock();
        let fits = |(of, _): &(String, Remedy)| Some(of) == message.as_ref();
        if let Some(at) = state.script.remedies.iter().position(fits) {
            return Some(state.script.remedies.remove(at).1);
        }
        drop(state);
        let recalled = self.take_recalled(RecallMoment::Failure, Some(&failed.call.id));
        Some(Remedy { item: recalled.into_iter().next()?, action: None })
    }

    fn similar_lessons(&self, _failed: &FailedCall<'_>) -> Vec<RecalledLesson> {
        self.take_recalled(RecallMoment::Reflection, None)
    }
}
