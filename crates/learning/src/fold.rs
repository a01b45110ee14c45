//! Derives traces from events, one event at a time, while a session runs or from its log.

use std::collections::HashMap;

use serde_json::Value;

use super::attempt_chain::{Chain, chains};
use super::call::{self, CHECK, Made};
use super::pair::call_in_words;
use super::trace::{Attempt, ExecutionTrace, FixSource, attempt, skill_of};
use agent_protocol::control::{Ending, PermissionMode};
use agent_protocol::envelope::ErrorCode;
use agent_protocol::event::{Body, Caller, Event};
use agent_protocol::model::Purpose;
use agent_protocol::recall::MemoryRecalled;
use agent_protocol::reflection::Reflection;
use agent_protocol::tool::Effect;
use agent_protocol::{Object, shorten};

/// Limit: calls of a turn; beyond it, the first half becomes traces before the turn ends.
const MAX_CALLS: usize = 500;
/// Limit: attempts of a trace; the first ones and the last are kept.
const MAX_ATTEMPTS: usize = 12;

/// The input for learning from one turn.
#[derive(Clone, Debug, Default)]
pub struct Harvest {
    /// The session.
    pub session: String,
    /// The project's identity.
    pub project: String,
    /// The turn's number.
    pub turn: u32,
    /// Numbers of its first and last event.
    pub events: (u64, u64),
    /// The user's task.
    pub task: String,
    /// Corrections by the user: messages during the turn, texts of denials, and the task itself if the turn
    /// before it was interrupted.
    pub corrections: Vec<String>,
    /// Whether it succeeded; `None`: it was interrupted, or no model answered.
    pub ended_well: Option<bool>,
    /// The traces.
    pub traces: Vec<ExecutionTrace>,
    /// The calls, in order.
    pub calls: Vec<Made>,
    /// The chains of the calls.
    pub chains: Vec<Chain>,
    /// The recalled lessons, each with the number of its event.
    pub recalled: Vec<(u64, MemoryRecalled)>,
    /// The reflections, each with the call that it is about.
    pub reflections: Vec<(Option<String>, Reflection)>,
}

/// The state of the fold.
pub struct Fold {
    mode: PermissionMode,
    cwd: String,
    methodology: Option<String>,
    /// Arguments as the model sent them, by call.
    asked: HashMap<String, String>,
    began: HashMap<String, (i64, Effect)>,
    /// The call of the last evaluated failure.
    evaluated: Option<String>,
    /// Numbers of the events with messages of the user.
    hints: Vec<u64>,
    n_traces: u32,
    is_running: bool,
    was_interrupted: bool,
    harvest: Harvest,
}

/// The traces of a session's events.
pub fn fold<'a>(project: &str, events: impl IntoIterator<Item = &'a Event>) -> Vec<ExecutionTrace> {
    harvests(project, events).into_iter().flat_map(|harvest| harvest.traces).collect()
}

/// The harvest of each turn of a session.
pub fn harvests<'a>(project: &str, events: impl IntoIterator<Item = &'a Event>) -> Vec<Harvest> {
    let mut fold = Fold::new(project);
    let mut harvests: Vec<Harvest> =
        events.into_iter().filter_map(|event| fold.apply(event)).collect();
    harvests.extend(fold.finish());
    harvests
}

impl Fold {
    /// For a session of the project with this identity.
    pub fn new(project: &str) -> Self {
        Self {
            mode: PermissionMode::default(),
            cwd: String::new(),
            methodology: None,
            asked: HashMap::new(),
            began: HashMap::new(),
            evaluated: None,
            hints: Vec::new(),
            n_traces: 0,
            is_running: false,
            was_interrupted: false,
            harvest: Harvest { project: project.to_owned(), ..Harvest::default() },
        }
    }

    /// Applies the next event; returns the harvest at the end of a turn.
    pub fn apply(&mut self, event: &Event) -> Option<Harvest> {
        let (seq, at_ms) = (event.header.seq, millis(&event.header.ts));
        let place = event.header.place;
        if event.body.is_stored() {
            self.harvest.events.1 = seq;
        }
        match &event.body {
            Body::SessionStarted(now) | Body::SessionResumed { now, .. } => {
                self.mode = now.permission_mode;
                self.cwd.clone_from(&now.cwd);
            }
            Body::ModeChanged { mode, .. } => self.mode = *mode,
            // A message that a hook blocked is for no model, also not in lessons.
            Body::TurnStarted { blocked: true, .. } => return self.finish(),
            Body::TurnStarted { input, shown, .. } => {
                // (A turn that a crash interrupted.)
                let left = self.finish();
                self.begin(&event.header.session, place.turn, (input, shown.as_deref()), seq);
                return left;
            }
            Body::TurnSteered { input, blocked: false, .. } => self.hint(seq, input),
            Body::PermissionDecided { ruling, reason, .. }
                if ruling == "reject" && reason != "no" =>
            {
                self.hint(seq, reason);
            }
            Body::ModelResponded(answer) if answer.purpose == Purpose::Main => {
                let calls = answer.calls.iter();
                self.asked.extend(calls.map(|call| (call.id.clone(), call.arguments.clone())));
            }
            Body::ToolStarted { call, effect, .. } => {
                self.began.insert(call.clone(), (at_ms, effect.clone()));
            }
            Body::ToolFinished { synthetic: false, .. } => self.answered(event, at_ms),
            Body::CheckFinished { .. } => self.checked(event, at_ms),
            Body::PlanUpdated { plan, .. } => self.methodology.clone_from(&plan.methodology),
            Body::Evaluation { failure: Some(_), .. } => {
                let last = self.harvest.calls.iter().rev().find(|call| call.failed.is_some());
                self.evaluated = last.map(|call| call.id.clone());
            }
            Body::Reflected { reflection: Some(reflection), .. } => {
                self.harvest.reflections.push((self.evaluated.clone(), (**reflection).clone()));
            }
            Body::MemoryRecalled(recalled) => self.harvest.recalled.push((seq, recalled.clone())),
            Body::TurnFinished(turn) => {
                self.was_interrupted = turn.ending == Ending::Interrupted;
                self.harvest.ended_well = match turn.ending {
                    Ending::Completed | Ending::CompletedUnverified => Some(true),
                    Ending::Failed
                    | Ending::CheckFailed
                    | Ending::PermissionDenied
                    | Ending::MaxTurns
                    | Ending::MaxBudget
                    | Ending::Timeout => Some(false),
                    Ending::ModelRefused
                    | Ending::ModelUnavailable
                    | Ending::Interrupted
                    | Ending::Terminated => None,
                };
                return self.finish();
            }
            _ => {}
        }
        None
    }

    fn hint(&mut self, seq: u64, text: &str) {
        self.hints.push(seq);
        let text = shorten(text, 1000);
        // (The text of a denial is also a message.)
        if !self.harvest.corrections.contains(&text) {
            self.harvest.corrections.push(text);
        }
    }

    /// A call has its result.
    fn answered(&mut self, event: &Event, at_ms: i64) {
        let Body::ToolFinished { call, tool, envelope, by, parent_call, .. } = &event.body else {
            return;
        };
        let asked = self.asked.remove(call);
        let (began_ms, effect) = match self.began.remove(call) {
            Some((began_ms, effect)) => (began_ms, Some(effect)),
            None => (at_ms, None),
        };
        let is_cancelled = envelope.error().is_some_and(|it| it.code == ErrorCode::Cancelled);
        if is_cancelled || matches!(effect, Some(Effect::Job { .. })) {
            return;
        }
        let mut input = envelope.context.params_input.clone();
        if input.is_empty() {
            input = asked.and_then(|it| serde_json::from_str(&it).ok()).unwrap_or_default();
        }
        let failed = call::failed(&input, envelope);
        let (input, is_cut) = call::kept(&input);
        self.made(Made {
            seq: event.header.seq,
            id: call.clone(),
            round: event.header.place.round,
            step: event.header.place.step,
            time_ms: (began_ms, at_ms),
            tool: tool.clone(),
            input,
            is_cut,
            programs: match failed {
                Some(_) => call::programs(effect.as_ref()),
                None => call::proven(effect.as_ref()),
            },
            by: *by,
            parent: parent_call.clone(),
            result: shorten(envelope.text.lines().next().unwrap_or_default(), 160),
            failed,
            hides_failure: call::hides_failure(effect.as_ref(), envelope),
            was_read_only: self.mode.is_read_only(),
            acts: effect.is_some_and(|effect| effect != Effect::Plan && !effect.is_read_only()),
        });
    }

    /// A check was run.
    fn checked(&mut self, event: &Event, at_ms: i64) {
        let Body::CheckFinished { command, exit_code, passed, tail, time_ms } = &event.body else {
            return;
        };
        let input = Object::from_iter([("command".to_owned(), command.as_str().into())]);
        let code = ErrorCode::CommandFailed;
        let exit_code = exit_code.map(i64::from);
        let failed = (!passed).then(|| call::failure(code, &input, tail, tail, exit_code));
        self.made(Made {
            seq: event.header.seq,
            id: format!("{CHECK} {}", event.header.seq),
            round: event.header.place.round,
            step: event.header.place.step,
            time_ms: (at_ms.saturating_sub(i64::try_from(*time_ms).unwrap_or(0)), at_ms),
            tool: CHECK.to_owned(),
            input,
            by: Caller::Kernel,
            failed,
            result: if *passed { "passed" } else { "failed" }.to_owned(),
            ..Made::default()
        });
    }

    fn made(&mut self, made: Made) {
        if !self.is_running {
            return;
        }
        if self.harvest.calls.len() >= MAX_CALLS {
            let rest = self.harvest.calls.split_off(MAX_CALLS / 2);
            let first = std::mem::replace(&mut self.harvest.calls, rest);
            let (chains, others) = chains(&first);
            self.trace_all(&first, &chains, &others);
        }
        self.harvest.calls.push(made);
    }

    fn begin(&mut self, session: &str, turn: u32, (input, shown): (&str, Option<&str>), seq: u64) {
        self.asked.clear();
        self.began.clear();
        self.hints.clear();
        self.evaluated = None;
        self.methodology = None;
        self.n_traces = 0;
        self.is_running = true;
        let corrections = self.was_interrupted.then(|| shorten(input, 2000)).into_iter().collect();
        self.harvest = Harvest {
            session: session.to_owned(),
            project: std::mem::take(&mut self.harvest.project),
            turn,
            events: (seq, seq),
            // What a command asks for is in its prompt.
            task: shorten(shown.unwrap_or(input), 2000),
            corrections,
            ..Harvest::default()
        };
    }

    /// The traces of a long turn so far, which can be stored before it ends; else nothing.
    pub fn early_traces(&mut self) -> Vec<ExecutionTrace> {
        if self.harvest.traces.len() < MAX_CALLS / 2 {
            return Vec::new();
        }
        std::mem::take(&mut self.harvest.traces)
    }

    /// The harvest of the current turn.
    pub fn finish(&mut self) -> Option<Harvest> {
        if !std::mem::take(&mut self.is_running) {
            return None;
        }
        let calls = std::mem::take(&mut self.harvest.calls);
        let (chains, others) = chains(&calls);
        self.trace_all(&calls, &chains, &others);
        (self.harvest.calls, self.harvest.chains) = (calls, chains);
        let project = self.harvest.project.clone();
        let next = Harvest { project, ..Harvest::default() };
        Some(std::mem::replace(&mut self.harvest, next))
    }

    fn trace_all(&mut self, calls: &[Made], chains: &[Chain], others: &[usize]) {
        let chains = chains.iter().map(|chain| {
            let attempts: Vec<usize> =
                chain.failures.iter().chain(&chain.success).copied().collect();
            (attempts, chain.success.is_some())
        });
        let others = others.iter().map(|at| (vec![*at], true));
        let mut all: Vec<(Vec<usize>, bool)> = chains.chain(others).collect();
        all.sort_by_key(|(attempts, _)| attempts[0]);
        for (attempts, final_success) in all {
            let tries: Vec<&Made> = attempts.iter().map(|at| &calls[*at]).collect();
            self.trace(&tries, final_success);
        }
    }

    fn trace(&mut self, tries: &[&Made], final_success: bool) {
        let (Some(first), Some(last)) = (tries.first(), tries.last()) else { return };
        self.n_traces += 1;
        let Harvest { session, project, turn, ended_well, .. } = &self.harvest;
        let mode = self.mode.as_str();
        let attempts = tries.iter().enumerate().map(|(n, made)| {
            let index = u32::try_from(n + 1).unwrap_or(u32::MAX);
            let attempt = attempt(made, index, mode, &self.cwd);
            match n.checked_sub(1).map(|before| tries[before]) {
                Some(before) => self.retry(attempt, before, made),
                None => attempt,
            }
        });
        let mut attempts: Vec<Attempt> = attempts.collect();
        if attempts.len() > MAX_ATTEMPTS {
            attempts.drain(MAX_ATTEMPTS - 1..attempts.len() - 1);
        }
        let trace = ExecutionTrace {
            id: format!("{session}/{turn}/{}", self.n_traces),
            skill_id: skill_of(first),
            task_id: format!("{session}/{turn}"),
            session: session.clone(),
            project: project.clone(),
            turn: *turn,
            step: first.step,
            attempts,
            final_success,
            needs_human: !final_success && *ended_well == Some(false),
            methodology: self.methodology.clone(),
            created_at_ms: first.time_ms.0,
            duration_ms: last.time_ms.1.abs_diff(first.time_ms.0),
        };
        self.harvest.traces.push(trace);
    }

    /// The attempt with its differences from the previous one.
    fn retry(&self, attempt: Attempt, before: &Made, made: &Made) -> Attempt {
        let is_same = before.tool == made.tool && before.input == made.input;
        let fix = if is_same { "tried again".to_owned() } else { call_in_words(made) };
        let is_remedy = made.parent.is_some()
            && self.harvest.recalled.iter().any(|(_, it)| it.applied && it.call == made.parent);
        let has_hint = self.hints.iter().any(|hint| (before.seq..made.seq).contains(hint));
        let source = match (is_remedy, has_hint) {
            (true, _) => FixSource::FailurePattern,
            (false, true) => FixSource::UserHint,
            (false, false) => FixSource::SelfCorrection,
        };
        Attempt { fix_applied: Some(fix), fix_source: Some(source), ..attempt }
    }
}

/// The time of an event in milliseconds since 1970.
fn millis(ts: &str) -> i64 {
    ts.parse::<jiff::Timestamp>().map_or(0, |ts| ts.as_millisecond())
}

/// A call's argument as text.
pub(super) fn text_of<'a>(input: &'a Object, name: &str) -> Option<&'a str> {
    input.get(name).and_then(Value::as_str)
}
