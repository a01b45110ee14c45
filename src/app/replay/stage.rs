//! The state that the parts of a replay share: the model, the tools, the clock, and the hand that acts for the user
//! and the world at the recorded moments.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::key::{CallKey, Key, Keys};
use super::places::Places;
use super::script::{CallResult, Check, Deed, Outcome, Script, Skip};
use crate::app::SystemClock;
use agent_protocol::control::{Control, Ending, Interrupt};
use agent_protocol::envelope::Sealed;
use agent_protocol::event::{Body, Clock, Event, Sink, Stamped};
use agent_protocol::model::Purpose;
use agent_protocol::recall::{FailedCall, MemoryRecalled, Moment, Recall, Recalled, Remedy};
use agent_protocol::tool::Effect;

/// Limit: how long an answer is held back to keep the pace of the record.
const LONGEST_DELAY: Duration = Duration::from_secs(30);

/// Makes the changes from outside with these numbers.
pub(super) type MakeChange = Box<dyn Fn(usize) + Send>;
/// Makes the changes of a call that is not run.
pub(super) type MakeCall = Box<dyn Fn(&CallKey) + Send>;

/// Shared by the parts of a replay.
#[derive(Clone)]
pub(super) struct Stage(Arc<Mutex<State>>);

struct State {
    deeds: HashMap<Key, Vec<Deed>>,
    answers: HashMap<(u32, Purpose), VecDeque<Outcome>>,
    skipped: HashMap<CallKey, Skip>,
    recorded: HashMap<CallKey, Sealed>,
    recorded_endings: HashMap<u32, Ending>,
    recalled: VecDeque<(u32, MemoryRecalled)>,
    remedies: Vec<(String, Remedy)>,
    /// The time of each moment, in milliseconds since 1970.
    times: HashMap<Key, i64>,
    paces: bool,
    places: Places,
    make_change: MakeChange,
    make_call: MakeCall,
    keys: Keys,
    turn: u32,
    /// The call that the next run of a tool is for.
    started: Option<CallKey>,
    effects: HashMap<CallKey, Effect>,
    control: Control,
    killed: CancellationToken,
    interrupts: UnboundedSender<(Interrupt, Duration)>,
    /// The recorded time of the last moment, and when it was reached; and the first of them.
    reached: Option<(i64, Instant)>,
    first: Option<(i64, Instant)>,
    played: Played,
}

/// What happened in a replay.
#[derive(Default)]
pub(super) struct Played {
    pub(super) results: Vec<CallResult>,
    pub(super) checks: Vec<Check>,
    pub(super) endings: Vec<(u32, Ending)>,
    /// Calls that were not run, and why.
    pub(super) skipped: HashMap<CallKey, String>,
    /// Why the replay ended before its end.
    pub(super) divergence: Option<String>,
}

impl Stage {
    pub(super) fn new(
        script: &mut Script,
        places: Places,
        (make_change, make_call): (MakeChange, MakeCall),
    ) -> Self {
        let results = script.results.iter();
        let recorded = results.map(|it| (it.key(), it.envelope.clone())).collect();
        Self(Arc::new(Mutex::new(State {
            deeds: std::mem::take(&mut script.deeds),
            answers: std::mem::take(&mut script.answers),
            skipped: script.skipped.clone(),
            recorded,
            recorded_endings: script.endings.iter().copied().collect(),
            recalled: std::mem::take(&mut script.recalled).into(),
            remedies: std::mem::take(&mut script.remedies),
            times: script.moments.iter().cloned().collect(),
            paces: false,
            places,
            make_change,
            make_call,
            keys: Keys::default(),
            turn: 0,
            started: None,
            effects: HashMap::new(),
            control: Control::default(),
            killed: CancellationToken::new(),
            interrupts: unbounded_channel().0,
            reached: None,
            first: None,
            played: Played::default(),
        })))
    }

    /// A process begins, which the user controls with this.
    pub(super) fn begin(&self, control: &Control) {
        self.state().control = control.clone();
    }

    /// A turn begins: a token for the end of the process, and the interrupts, each with its delay.
    pub(super) fn begin_turn(
        &self,
        interrupts: UnboundedSender<(Interrupt, Duration)>,
    ) -> CancellationToken {
        let mut state = self.state();
        state.killed = CancellationToken::new();
        state.interrupts = interrupts;
        state.killed.clone()
    }

    /// The next answer for this purpose, in the current turn, and how long to wait for it. `None`: the turn is
    /// over.
    pub(super) fn answer(&self, purpose: Purpose) -> Option<(Outcome, Duration)> {
        let mut state = self.state();
        let turn = state.turn;
        if let Some(outcome) = state.answers.get_mut(&(turn, purpose)).and_then(VecDeque::pop_front)
        {
            let delay = state.delay(&outcome);
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
            state.diverged(format!(
                "turn {turn}: the model is asked for one more answer ({}) than the record has",
                purpose.as_str()
            ));
        }
        state.control.interrupt(Interrupt::User);
        None
    }

    /// Interrupts the turn.
    pub(super) fn interrupt(&self, by: Interrupt) {
        self.state().control.clone().interrupt(by);
    }

    /// The text with the paths of the replay.
    pub(super) fn relocated(&self, text: &str) -> String {
        let places = self.state().places.clone();
        places.relocated(text)
    }

    /// The call that a tool is about to run, and why it is not run, if so.
    pub(super) fn take_started(&self) -> Option<(CallKey, Option<Skip>)> {
        let mut state = self.state();
        let call = state.started.take()?;
        let skip = state.skipped.get(&call).cloned();
        Some((call, skip))
    }

    /// The recorded result of a call that is not run; its changes are made.
    pub(super) fn skip(&self, call: &CallKey, why: &str) -> Option<Sealed> {
        let mut state = self.state();
        state.played.skipped.insert(call.clone(), why.to_owned());
        (state.make_call)(call);
        state.recorded.get(call).cloned()
    }

    /// The replay cannot go on.
    pub(super) fn diverge(&self, why: String) {
        self.state().diverged(why);
    }

    pub(super) fn has_diverged(&self) -> bool {
        self.state().played.divergence.is_some()
    }

    /// A turn has ended: the answers that were not asked for.
    pub(super) fn end_turn(&self, turn: u32, is_killed: bool) {
        let mut state = self.state();
        let left: usize = state
            .answers
            .iter()
            .filter(|((of, purpose), _)| *of == turn && *purpose == Purpose::Main)
            .map(|(_, left)| left.len())
            .sum();
        if left > 0 && !is_killed {
            state.diverged(format!(
                "turn {turn}: the turn ended, and the record has {left} more answers of the model"
            ));
        }
    }

    /// What happened.
    pub(super) fn played(&self) -> Played {
        std::mem::take(&mut self.state().played)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn diverged(&mut self, why: String) {
        self.played.divergence.get_or_insert(why);
    }

    /// With a command in the background the pace of the record is kept.
    fn delay(&self, outcome: &Outcome) -> Duration {
        match outcome {
            Outcome::Answer(answer) if self.paces => {
                Duration::from_millis(answer.time_ms).min(LONGEST_DELAY)
            }
            Outcome::Answer(_) | Outcome::Failed(_) | Outcome::Silence(..) => Duration::ZERO,
        }
    }

    fn reach(&mut self, key: &Key) {
        let Some(ms) = self.times.get(key).copied() else { return };
        let now = Instant::now();
        self.first.get_or_insert((ms, now));
        self.reached = Some((ms, now));
    }

    /// The recorded time since the first moment.
    fn now(&self) -> Instant {
        let (Some((first, begun)), Some((last, reached))) = (self.first, self.reached) else {
            return Instant::now();
        };
        let recorded = Duration::from_millis(u64::try_from(last - first).unwrap_or(0));
        // What the replay took longer counts as well: time does not go back.
        begun + recorded.max(reached - begun) + reached.elapsed()
    }

    fn note(&mut self, event: &Event) {
        let place = event.header.place;
        match &event.body {
            Body::ToolStarted { call, effect, .. } => {
                self.paces |= matches!(effect, Effect::Command { background: true, .. });
                self.started = Some((place.turn, call.clone()));
                self.effects.insert((place.turn, call.clone()), effect.clone());
            }
            Body::ToolFinished { call, tool, envelope, synthetic: false, .. } => {
                self.played.results.push(CallResult {
                    call: call.clone(),
                    tool: tool.clone(),
                    turn: place.turn,
                    round: place.round,
                    effect: self.effects.remove(&(place.turn, call.clone())),
                    envelope: envelope.clone(),
                });
            }
            Body::CheckFinished { command, exit_code, passed, tail, .. } => {
                self.played.checks.push(Check {
                    turn: place.turn,
                    command: command.clone(),
                    exit_code: *exit_code,
                    passed: *passed,
                    tail: tail.clone(),
                });
            }
            Body::TurnFinished(finished) => self.played.endings.push((place.turn, finished.ending)),
            _ => {}
        }
    }

    fn act(&mut self, deed: Deed) {
        match deed {
            Deed::Steer(message) => self.control.steer(message),
            Deed::Mode(mode) => self.control.want_mode(mode),
            Deed::Answer(call, approval) => self.control.answer(&call, approval),
            Deed::Interrupt(by, Duration::ZERO) => self.control.interrupt(by),
            // (The turn may have ended.)
            Deed::Interrupt(by, after) => _ = self.interrupts.send((by, after)),
            Deed::Change(number) => (self.make_change)(number),
            Deed::Kill => self.killed.cancel(),
        }
    }
}

/// Acts at the recorded moments.
pub(super) struct Hand(pub(super) Stage);

impl Sink for Hand {
    fn take(&mut self, stamped: &Stamped) {
        let mut state = self.0.state();
        let event = &stamped.event;
        state.turn = event.header.place.turn;
        state.note(event);
        let Some(key) = state.keys.of(event) else { return };
        state.reach(&key);
        for deed in state.deeds.remove(&key).unwrap_or_default() {
            state.act(deed);
        }
    }
}

/// The time of the record.
pub(super) struct RecordedTime(pub(super) Stage);

impl Clock for RecordedTime {
    fn timestamp(&self) -> String {
        SystemClock.timestamp()
    }

    fn now(&self) -> Instant {
        self.0.state().now()
    }
}

/// The lessons that the record says were used.
pub(super) struct RecordedLessons(pub(super) Stage);

impl RecordedLessons {
    fn next(&self, moment: Moment, call: Option<&str>) -> Option<MemoryRecalled> {
        let mut state = self.0.state();
        let turn = state.turn;
        let wanted = |(of, recalled): &(u32, MemoryRecalled)| {
            *of == turn && recalled.moment == moment && recalled.call.as_deref() == call
        };
        let at = state.recalled.iter().position(wanted)?;
        state.recalled.remove(at).map(|(_, recalled)| recalled)
    }
}

impl Recall for RecordedLessons {
    fn for_task(&self, _task: &str, _max_tokens: u64) -> Vec<Recalled> {
        self.next(Moment::Task, None).map(|recalled| recalled.items).unwrap_or_default()
    }

    fn after(&self, failed: &FailedCall<'_>) -> Option<Remedy> {
        let message = failed.envelope.error().map(|error| error.message.clone());
        let message = message.map(|message| self.0.relocated(&message));
        let mut state = self.0.state();
        let fits = |(of, _): &(String, Remedy)| Some(of) == message.as_ref();
        if let Some(at) = state.remedies.iter().position(fits) {
            return Some(state.remedies.remove(at).1);
        }
        drop(state);
        let recalled = self.next(Moment::Failure, Some(&failed.call.id))?;
        let item = recalled.items.into_iter().next()?;
        Some(Remedy { item, action: None })
    }

    fn similar(&self, _failed: &FailedCall<'_>) -> Vec<Recalled> {
        self.next(Moment::Reflection, None).map(|recalled| recalled.items).unwrap_or_default()
    }

    fn weight(&self, _methodology: &str) -> f64 {
        0.5
    }
}
