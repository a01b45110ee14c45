//! The state that the parts of a replay share: the model, the tools, the clock, and the sink that acts for the user
//! and the world at the recorded moments.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::moment_key::{CallKey, MomentKey, MomentKeyCounter};
use super::path_mapping::PathMapping;
use super::script::{CallResult, ModelOutcome, RecordedCheck, Script, ScriptAction, SkippedCall};
use crate::app::SystemClock;
use agent_protocol::control::{Ending, Interrupt, SessionControl};
use agent_protocol::envelope::SealedEnvelope;
use agent_protocol::event::{Clock, Event, EventBody, Sink, StampedEvent};
use agent_protocol::model::Purpose;
use agent_protocol::recall::{
    FailedCall, LessonSource, MemoryRecalled, RecallMoment, RecalledLesson, Remedy,
};
use agent_protocol::tool::Effect;

/// For an answer, to keep the pace of the record.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Receives the number of a change from outside.
pub(super) type ApplyChange = Box<dyn Fn(usize) + Send>;
/// For a call that is not run.
pub(super) type ApplyCallChanges = Box<dyn Fn(&CallKey) + Send>;

#[derive(Clone)]
pub(super) struct ReplayState(Arc<Mutex<State>>);

struct State {
    actions: HashMap<MomentKey, Vec<ScriptAction>>,
    answers: HashMap<(u32, Purpose), VecDeque<ModelOutcome>>,
    skipped: HashMap<CallKey, SkippedCall>,
    recorded: HashMap<CallKey, SealedEnvelope>,
    recorded_endings: HashMap<u32, Ending>,
    recalled: VecDeque<(u32, MemoryRecalled)>,
    remedies: Vec<(String, Remedy)>,
    /// In milliseconds since 1970.
    times: HashMap<MomentKey, i64>,
    keeps_pace: bool,
    path_mapping: PathMapping,
    apply_change: ApplyChange,
    apply_call_changes: ApplyCallChanges,
    keys: MomentKeyCounter,
    turn: u32,
    started_call: Option<CallKey>,
    effects: HashMap<CallKey, Effect>,
    control: SessionControl,
    killed: CancellationToken,
    interrupts: UnboundedSender<(Interrupt, Duration)>,
    /// The recorded time of the last moment, and when it was reached; and the first of them.
    last_moment: Option<(i64, Instant)>,
    first_moment: Option<(i64, Instant)>,
    results: ReplayResults,
}

#[derive(Default)]
pub(super) struct ReplayResults {
    pub(super) results: Vec<CallResult>,
    pub(super) checks: Vec<RecordedCheck>,
    pub(super) endings: Vec<(u32, Ending)>,
    /// Calls that were not run, with the reason.
    pub(super) skipped: HashMap<CallKey, String>,
    /// Why the replay ended before the end of the record.
    pub(super) divergence: Option<String>,
}

impl ReplayState {
    pub(super) fn new(
        script: &mut Script,
        places: PathMapping,
        (make_change, make_call): (ApplyChange, ApplyCallChanges),
    ) -> Self {
        let results = script.results.iter();
        let recorded = results.map(|it| (it.key(), it.envelope.clone())).collect();
        Self(Arc::new(Mutex::new(State {
            actions: std::mem::take(&mut script.actions),
            answers: std::mem::take(&mut script.answers),
            skipped: script.skipped.clone(),
            recorded,
            recorded_endings: script.endings.iter().copied().collect(),
            recalled: std::mem::take(&mut script.recalled).into(),
            remedies: std::mem::take(&mut script.remedies),
            times: script.moments.iter().cloned().collect(),
            keeps_pace: false,
            path_mapping: places,
            apply_change: make_change,
            apply_call_changes: make_call,
            keys: MomentKeyCounter::default(),
            turn: 0,
            started_call: None,
            effects: HashMap::new(),
            control: SessionControl::default(),
            killed: CancellationToken::new(),
            interrupts: unbounded_channel().0,
            last_moment: None,
            first_moment: None,
            results: ReplayResults::default(),
        })))
    }

    pub(super) fn set_control(&self, control: &SessionControl) {
        self.lock().control = control.clone();
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
        if let Some(outcome) = state.answers.get_mut(&(turn, purpose)).and_then(VecDeque::pop_front)
        {
            let delay = state.answer_delay(&outcome);
            return Some((outcome, delay));
        }
        // These endings come from outside of the answers.
        let is_cut = matches!(
            state.recorded_endings.get(&turn),
            None | Some(
                Ending::MaxBudget | Ending::Timeout | Ending::Interrupted | Ending::Terminated
            )
        );
        if !is_cut {
            state.set_divergence(format!(
                "turn {turn}: the model is asked for one more answer ({}) than the record has",
                purpose.as_str()
            ));
        }
        state.control.interrupt(Interrupt::User);
        None
    }

    pub(super) fn interrupt(&self, by: Interrupt) {
        self.lock().control.clone().interrupt(by);
    }

    pub(super) fn relocate(&self, text: &str) -> String {
        let places = self.lock().path_mapping.clone();
        places.relocate(text)
    }

    /// The call that a tool is about to run; with `SkippedCall` it is not run.
    pub(super) fn take_started_call(&self) -> Option<(CallKey, Option<SkippedCall>)> {
        let mut state = self.lock();
        let call = state.started_call.take()?;
        let skip = state.skipped.get(&call).cloned();
        Some((call, skip))
    }

    /// Makes the changes of the call; returns the recorded result.
    pub(super) fn skip_call(&self, call: &CallKey, why: &str) -> Option<SealedEnvelope> {
        let mut state = self.lock();
        state.results.skipped.insert(call.clone(), why.to_owned());
        (state.apply_call_changes)(call);
        state.recorded.get(call).cloned()
    }

    pub(super) fn diverge(&self, why: String) {
        self.lock().set_divergence(why);
    }

    pub(super) fn has_diverged(&self) -> bool {
        self.lock().results.divergence.is_some()
    }

    /// Answers that were not requested are a divergence.
    pub(super) fn end_turn(&self, turn: u32, is_killed: bool) {
        let mut state = self.lock();
        let left: usize = state
            .answers
            .iter()
            .filter(|((of, purpose), _)| *of == turn && *purpose == Purpose::Main)
            .map(|(_, left)| left.len())
            .sum();
        if left > 0 && !is_killed {
            state.set_divergence(format!(
                "turn {turn}: the turn ended, and the record has {left} more answers of the model"
            ));
        }
    }

    pub(super) fn take_results(&self) -> ReplayResults {
        std::mem::take(&mut self.lock().results)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
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
            ModelOutcome::Answer(_) | ModelOutcome::Failed(_) | ModelOutcome::NoAnswer(..) => {
                Duration::ZERO
            }
        }
    }

    fn record_moment(&mut self, key: &MomentKey) {
        let Some(ms) = self.times.get(key).copied() else { return };
        let now = Instant::now();
        self.first_moment.get_or_insert((ms, now));
        self.last_moment = Some((ms, now));
    }

    /// The recorded time since the first moment.
    fn now(&self) -> Instant {
        let (Some((first, begun)), Some((last, reached))) = (self.first_moment, self.last_moment)
        else {
            return Instant::now();
        };
        let recorded = Duration::from_millis(u64::try_from(last - first).unwrap_or(0));
        // What the replay took longer counts as well: time does not go back.
        begun + recorded.max(reached - begun) + reached.elapsed()
    }

    fn record_event(&mut self, event: &Event) {
        let place = event.header.place;
        match &event.body {
            EventBody::ToolStarted { call, effect, .. } => {
                self.keeps_pace |= matches!(effect, Effect::Command { background: true, .. });
                self.started_call = Some((place.turn, call.clone()));
                self.effects.insert((place.turn, call.clone()), effect.clone());
            }
            EventBody::ToolFinished { call, tool, envelope, synthetic: false, .. } => {
                self.results.results.push(CallResult {
                    call: call.clone(),
                    tool: tool.clone(),
                    turn: place.turn,
                    round: place.round,
                    effect: self.effects.remove(&(place.turn, call.clone())),
                    envelope: envelope.clone(),
                });
            }
            EventBody::CheckFinished { command, exit_code, passed, tail, .. } => {
                self.results.checks.push(RecordedCheck {
                    turn: place.turn,
                    command: command.clone(),
                    exit_code: *exit_code,
                    passed: *passed,
                    tail: tail.clone(),
                });
            }
            EventBody::TurnFinished(finished) => {
                self.results.endings.push((place.turn, finished.ending));
            }
            _ => {}
        }
    }

    fn perform(&mut self, deed: ScriptAction) {
        match deed {
            ScriptAction::Steer(message) => self.control.queue_message(message),
            ScriptAction::SetMode(mode) => self.control.request_mode(mode),
            ScriptAction::Answer(call, approval) => self.control.answer_approval(&call, approval),
            ScriptAction::Interrupt(by, Duration::ZERO) => self.control.interrupt(by),
            // The turn may have ended.
            ScriptAction::Interrupt(by, after) => _ = self.interrupts.send((by, after)),
            ScriptAction::Change(number) => (self.apply_change)(number),
            ScriptAction::Kill => self.killed.cancel(),
        }
    }
}

/// Acts at the recorded moments.
pub(super) struct ScriptSink(pub(super) ReplayState);

impl Sink for ScriptSink {
    fn receive(&mut self, stamped: &StampedEvent) {
        let mut state = self.0.lock();
        let event = &stamped.event;
        state.turn = event.header.place.turn;
        state.record_event(event);
        let Some(key) = state.keys.key_of(event) else { return };
        state.record_moment(&key);
        for deed in state.actions.remove(&key).unwrap_or_default() {
            state.perform(deed);
        }
    }
}

pub(super) struct RecordedClock(pub(super) ReplayState);

impl Clock for RecordedClock {
    fn timestamp(&self) -> String {
        SystemClock.timestamp()
    }

    fn now(&self) -> Instant {
        self.0.lock().now()
    }
}

/// The lessons that the record says were used.
pub(super) struct RecordedLessons(pub(super) ReplayState);

impl RecordedLessons {
    fn take_recalled(&self, moment: RecallMoment, call: Option<&str>) -> Option<MemoryRecalled> {
        let mut state = self.0.lock();
        let turn = state.turn;
        let is_match = |(of, recalled): &(u32, MemoryRecalled)| {
            *of == turn && recalled.moment == moment && recalled.call.as_deref() == call
        };
        let at = state.recalled.iter().position(is_match)?;
        state.recalled.remove(at).map(|(_, recalled)| recalled)
    }
}

impl LessonSource for RecordedLessons {
    fn lessons_for_task(&self, _task: &str, _max_tokens: u64) -> Vec<RecalledLesson> {
        self.take_recalled(RecallMoment::Task, None)
            .map(|recalled| recalled.items)
            .unwrap_or_default()
    }

    fn find_remedy(&self, failed: &FailedCall<'_>) -> Option<Remedy> {
        let message = failed.envelope.error().map(|error| error.message.clone());
        let message = message.map(|message| self.0.relocate(&message));
        let mut state = self.0.lock();
        let fits = |(of, _): &(String, Remedy)| Some(of) == message.as_ref();
        if let Some(at) = state.remedies.iter().position(fits) {
            return Some(state.remedies.remove(at).1);
        }
        drop(state);
        let recalled = self.take_recalled(RecallMoment::Failure, Some(&failed.call.id))?;
        let item = recalled.items.into_iter().next()?;
        Some(Remedy { item, action: None })
    }

    fn similar_lessons(&self, _failed: &FailedCall<'_>) -> Vec<RecalledLesson> {
        self.take_recalled(RecallMoment::Reflection, None)
            .map(|recalled| recalled.items)
            .unwrap_or_default()
    }

    fn methodology_weight(&self, _methodology: &str) -> f64 {
        0.5
    }
}
