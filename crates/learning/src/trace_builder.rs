//! Derives traces from events, one event at a time, while a session runs or from its log.

use std::collections::HashMap;

use super::attempt_chain::{AttemptChain, find_chains};
use super::call_record::{self, CHECK, CallRecord};
use super::pair::call_in_words;
use super::trace::{Attempt, ExecutionTrace, FixSource, build_attempt, skill_id};
use agent_protocol::control::{Ending, PermissionMode};
use agent_protocol::envelope::ErrorCode;
use agent_protocol::event::{Caller, Event, EventBody, UserMessage};
use agent_protocol::model::Purpose;
use agent_protocol::recall::MemoryRecalled;
use agent_protocol::reflection::Reflection;
use agent_protocol::tool::Effect;
use agent_protocol::{Object, shorten};

/// Limit per turn: beyond it, the first half becomes traces before the turn ends.
const MAX_CALLS: usize = 500;
/// Limit per trace: the first ones and the last one stay.
const MAX_ATTEMPTS: usize = 12;

/// The input for learning from one turn.
#[derive(Clone, Debug, Default)]
pub struct TurnRecord {
    pub session: String,
    pub project: String,
    pub turn: u32,
    /// The numbers of the first and the last event.
    pub events: (u64, u64),
    pub task: String,
    /// The user's messages during the turn, texts of denials, and the task if the previous turn was interrupted.
    pub corrections: Vec<String>,
    /// `None`: the turn was interrupted, or no model answered.
    pub succeeded: Option<bool>,
    pub traces: Vec<ExecutionTrace>,
    pub calls: Vec<CallRecord>,
    pub chains: Vec<AttemptChain>,
    /// The number is that of the event.
    pub recalled_lessons: Vec<(u64, MemoryRecalled)>,
    /// The text is the id of the call.
    pub reflections: Vec<(Option<String>, Reflection)>,
}

/// Collects the events of a session into turn records and traces.
#[derive(Default)]
pub struct TraceBuilder {
    mode: PermissionMode,
    cwd: String,
    /// The arguments as the model sent them; the keys are call ids.
    requested_arguments: HashMap<String, String>,
    started_calls: HashMap<String, (i64, Effect)>,
    evaluated_call: Option<String>,
    hint_events: Vec<u64>,
    n_traces: u32,
    is_running: bool,
    was_interrupted: bool,
    record: TurnRecord,
}

impl TraceBuilder {
    /// Creates a builder for a session of the project with this identity.
    pub fn new(project: &str) -> Self {
        Self {
            record: TurnRecord { project: project.to_owned(), ..TurnRecord::default() },
            ..Self::default()
        }
    }

    /// Applies the next event; returns the record at the end of a turn.
    pub fn apply(&mut self, event: &Event) -> Option<TurnRecord> {
        let seq = event.header.seq;
        let time = event.header.ts.parse::<jiff::Timestamp>();
        let at_ms = time.map_or(0, |time| time.as_millisecond());
        if event.body.is_stored() {
            self.record.events.1 = seq;
        }
        match &event.body {
            EventBody::SessionStarted(now) | EventBody::SessionResumed { now, .. } => {
                self.mode = now.permission_mode;
                self.cwd.clone_from(&now.cwd);
            }
            EventBody::ModeChanged { mode, .. } => self.mode = *mode,
            // No model may see a message that a hook blocked, also not in lessons.
            EventBody::TurnStarted(message) if message.blocked => return self.finish_turn(),
            EventBody::TurnStarted(UserMessage { input, shown, .. }) => {
                // (A turn that a crash interrupted.)
                let left = self.finish_turn();
                self.begin_turn(event, input, shown.as_deref());
                return left;
            }
            EventBody::TurnSteered(message) if !message.blocked => {
                self.add_hint(seq, &message.input);
            }
            EventBody::PermissionDecided { ruling, reason, .. }
                if ruling == "reject" && reason != "no" =>
            {
                self.add_hint(seq, reason);
            }
            EventBody::ModelResponded(answer) if answer.purpose == Purpose::Main => {
                let calls = answer.calls.iter();
                self.requested_arguments
                    .extend(calls.map(|call| (call.id.clone(), call.arguments.clone())));
            }
            EventBody::ToolStarted { call, effect, .. } => {
                self.started_calls.insert(call.clone(), (at_ms, effect.clone()));
            }
            EventBody::ToolFinished { synthetic: false, .. } => self.record_call(event, at_ms),
            EventBody::CheckFinished { .. } => self.record_check(event, at_ms),
            EventBody::Evaluation { failure: Some(_), .. } => {
                let last = self.record.calls.iter().rev().find(|call| call.failure.is_some());
                self.evaluated_call = last.map(|call| call.id.clone());
            }
            EventBody::Reflected { reflection: Some(reflection), .. } => {
                self.record.reflections.push((self.evaluated_call.clone(), (**reflection).clone()));
            }
            EventBody::MemoryRecalled(recalled) => {
                self.record.recalled_lessons.push((seq, recalled.clone()));
            }
            EventBody::TurnFinished(turn) => {
                self.was_interrupted = turn.ending == Ending::Interrupted;
                self.record.succeeded = match turn.ending {
                    ending if ending.has_answer() => Some(true),
                    Ending::ModelRefused
                    | Ending::ModelUnavailable
                    | Ending::Interrupted
                    | Ending::Terminated => None,
                    _ => Some(false),
                };
                return self.finish_turn();
            }
            _ => {}
        }
        None
    }

    fn add_hint(&mut self, seq: u64, text: &str) {
        self.hint_events.push(seq);
        let text = shorten(text, 1000);
        // (The text of a denial is also a message.)
        if !self.record.corrections.contains(&text) {
            self.record.corrections.push(text);
        }
    }

    fn record_call(&mut self, event: &Event, at_ms: i64) {
        let EventBody::ToolFinished { call, tool, envelope, by, parent_call, .. } = &event.body
        else {
            return;
        };
        let arguments = self.requested_arguments.remove(call).unwrap_or_default();
        let (began_ms, effect) = match self.started_calls.remove(call) {
            Some((began_ms, effect)) => (began_ms, Some(effect)),
            None => (at_ms, None),
        };
        let is_cancelled = envelope.error().is_some_and(|error| error.code == ErrorCode::Cancelled);
        if is_cancelled || matches!(effect, Some(Effect::Job { .. })) {
            return;
        }
        let call = CallRecord::from_result(call, tool, &arguments, envelope);
        self.push_call(CallRecord {
            seq: event.header.seq,
            round: event.header.place.round,
            step: event.header.place.step,
            time_ms: (began_ms, at_ms),
            programs: match call.failure {
                Some(_) => call_record::effect_programs(effect.as_ref()),
                None => call_record::proven_programs(effect.as_ref()),
            },
            caller: *by,
            parent_call: parent_call.clone(),
            result: shorten(envelope.text.lines().next().unwrap_or_default(), 160),
            hides_failure: call_record::hides_failure(effect.as_ref(), envelope),
            was_read_only: self.mode.is_read_only(),
            may_change: effect
                .is_some_and(|effect| effect != Effect::Plan && !effect.is_read_only()),
            ..call
        });
    }

    fn record_check(&mut self, event: &Event, at_ms: i64) {
        let EventBody::CheckFinished { command, exit_code, passed, tail, time_ms } = &event.body
        else {
            return;
        };
        let input = Object::from_iter([("command".to_owned(), command.as_str().into())]);
        let code = ErrorCode::CommandFailed;
        let exit_code = exit_code.map(i64::from);
        let failed =
            (!passed).then(|| call_record::build_failure(code, &input, tail, tail, exit_code));
        self.push_call(CallRecord {
            seq: event.header.seq,
            id: format!("{CHECK} {}", event.header.seq),
            round: event.header.place.round,
            step: event.header.place.step,
            time_ms: (at_ms.saturating_sub(i64::try_from(*time_ms).unwrap_or(0)), at_ms),
            tool: CHECK.to_owned(),
            input,
            caller: Caller::Kernel,
            failure: failed,
            result: if *passed { "passed" } else { "failed" }.to_owned(),
            ..CallRecord::default()
        });
    }

    fn push_call(&mut self, call: CallRecord) {
        if !self.is_running {
            return;
        }
        if self.record.calls.len() >= MAX_CALLS {
            let rest = self.record.calls.split_off(MAX_CALLS / 2);
            let first = std::mem::replace(&mut self.record.calls, rest);
            let (chains, others) = find_chains(&first);
            self.push_traces(&first, &chains, &others);
        }
        self.record.calls.push(call);
    }

    fn begin_turn(&mut self, event: &Event, input: &str, shown: Option<&str>) {
        self.requested_arguments.clear();
        self.started_calls.clear();
        self.hint_events.clear();
        self.evaluated_call = None;
        self.n_traces = 0;
        self.is_running = true;
        let corrections = self.was_interrupted.then(|| shorten(input, 2000)).into_iter().collect();
        self.record = TurnRecord {
            session: event.header.session.clone(),
            project: std::mem::take(&mut self.record.project),
            turn: event.header.place.turn,
            events: (event.header.seq, event.header.seq),
            // The prompt of a command says what it asks for.
            task: shorten(shown.unwrap_or(input), 2000),
            corrections,
            ..TurnRecord::default()
        };
    }

    /// The traces of a long turn that can be stored before it ends; else nothing.
    pub fn take_early_traces(&mut self) -> Vec<ExecutionTrace> {
        if self.record.traces.len() < MAX_CALLS / 2 {
            return Vec::new();
        }
        std::mem::take(&mut self.record.traces)
    }

    /// Ends the current turn and returns its record.
    pub fn finish_turn(&mut self) -> Option<TurnRecord> {
        if !std::mem::take(&mut self.is_running) {
            return None;
        }
        let calls = std::mem::take(&mut self.record.calls);
        let (chains, others) = find_chains(&calls);
        self.push_traces(&calls, &chains, &others);
        (self.record.calls, self.record.chains) = (calls, chains);
        let project = self.record.project.clone();
        let next = TurnRecord { project, ..TurnRecord::default() };
        Some(std::mem::replace(&mut self.record, next))
    }

    fn push_traces(&mut self, calls: &[CallRecord], chains: &[AttemptChain], others: &[usize]) {
        let chains = chains.iter().map(|chain| {
            let attempts: Vec<usize> =
                chain.failures.iter().chain(&chain.success).copied().collect();
            (attempts, chain.success.is_some())
        });
        let others = others.iter().map(|at| (vec![*at], true));
        let mut all: Vec<(Vec<usize>, bool)> = chains.chain(others).collect();
        all.sort_by_key(|(attempts, _)| attempts[0]);
        for (attempts, final_success) in all {
            let tries: Vec<&CallRecord> = attempts.iter().map(|at| &calls[*at]).collect();
            self.push_trace(&tries, final_success);
        }
    }

    fn push_trace(&mut self, tries: &[&CallRecord], final_success: bool) {
        let (Some(first), Some(last)) = (tries.first(), tries.last()) else { return };
        self.n_traces += 1;
        let TurnRecord { session, project, turn, succeeded: ended_well, .. } = &self.record;
        let mode = self.mode.as_str();
        let attempts = tries.iter().enumerate().map(|(n, call)| {
            let index = u32::try_from(n + 1).unwrap_or(u32::MAX);
            let attempt = build_attempt(call, index, mode, &self.cwd);
            match n.checked_sub(1).map(|before| tries[before]) {
                Some(before) => self.describe_retry(attempt, before, call),
                None => attempt,
            }
        });
        let mut attempts: Vec<Attempt> = attempts.collect();
        if attempts.len() > MAX_ATTEMPTS {
            attempts.drain(MAX_ATTEMPTS - 1..attempts.len() - 1);
        }
        let trace = ExecutionTrace {
            id: format!("{session}/{turn}/{}", self.n_traces),
            skill_id: skill_id(first),
            task_id: format!("{session}/{turn}"),
            session: session.clone(),
            project: project.clone(),
            turn: *turn,
            step: first.step,
            attempts,
            final_success,
            needs_human: !final_success && *ended_well == Some(false),
            created_at_ms: first.time_ms.0,
            duration_ms: last.time_ms.1.abs_diff(first.time_ms.0),
        };
        self.record.traces.push(trace);
    }

    fn describe_retry(&self, attempt: Attempt, before: &CallRecord, call: &CallRecord) -> Attempt {
        let is_same = before.tool == call.tool && before.input == call.input;
        let fix = if is_same { "tried again".to_owned() } else { call_in_words(call) };
        let mut recalled = self.record.recalled_lessons.iter().map(|(_, recalled)| recalled);
        let is_remedy = call.parent_call.is_some()
            && recalled.any(|recalled| recalled.applied && recalled.call == call.parent_call);
        let has_hint = self.hint_events.iter().any(|hint| (before.seq..call.seq).contains(hint));
        let source = match (is_remedy, has_hint) {
            (true, _) => FixSource::FailurePattern,
            (false, true) => FixSource::UserHint,
            (false, false) => FixSource::SelfCorrection,
        };
        Attempt { fix_applied: Some(fix), fix_source: Some(source), ..attempt }
    }
}
