//! Traces out of events: a fold that is fed one event after the other, in the recorder's thread or over a log.
//!
//! Calls that try the same thing are one chain ([`super::chain`]): failures, and the success that makes them good,
//! perhaps of another command or tool. What was done in between is kept beside the attempt that it led to.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};

use super::call::{self, CHECK, Failed, Made, Went, is_again};
use super::chain::continues;
use super::difference;
use super::pattern::CHANGES;
use super::trace::{Attempt, ExecutionTrace, FixSource, artifacts_of, skill_of};
use crate::protocol::control::{Ending, PermissionMode};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::event::{Body, Caller, Event};
use crate::protocol::message::ToolCall;
use crate::protocol::model::Purpose;
use crate::protocol::recall::{Moment, Recalled};
use crate::protocol::reflection::Reflection;
use crate::protocol::tool::Effect;
use crate::protocol::{Object, shorten, signature};

/// So many attempts of a chain are kept: the first ones, and the latest.
const MAX_ATTEMPTS: usize = 12;
/// So many calls of a turn are kept for what was done in between, and for credits.
const MAX_CALLS: usize = 500;
/// So many of them are told of beside an attempt.
const MAX_BETWEEN: usize = 8;
/// So many chains are kept that may not have been made good, the latest.
const MAX_CLOSED: usize = 16;
/// So many traces that only count are held before they are given away.
const PORTION: usize = 256;

/// What one turn leaves to be learnt from.
#[derive(Clone, Debug, Default)]
pub struct Harvest {
    /// The session.
    pub session: String,
    /// The project's identity.
    pub project: String,
    /// Which turn.
    pub turn: u32,
    /// Number of its last event.
    pub seq: u64,
    /// What the user asked for.
    pub task: String,
    /// It ended well; `None`: it was interrupted, or the model could not be reached.
    pub ended_well: Option<bool>,
    /// What happened.
    pub traces: Vec<ExecutionTrace>,
    /// Every call, in order.
    pub calls: Vec<Made>,
    /// What was recalled, and when.
    pub recalled: Vec<Shown>,
    /// What reflections said.
    pub reflections: Vec<Said>,
}

/// Something that was recalled.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Number of the event.
    pub seq: u64,
    /// At which moment.
    pub moment: Moment,
    /// Which items.
    pub items: Vec<Recalled>,
    /// The call that it is about.
    pub call: Option<String>,
    /// The kernel tried it itself.
    pub applied: bool,
    /// Number of the evaluation behind it: its own calls for this end there, and later ones try something else.
    pub until: Option<u64>,
}

/// What a reflection said.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    /// Number of the event.
    pub seq: u64,
    /// The call whose failure it was asked about.
    pub about: Option<String>,
    /// What it answered.
    pub reflection: Reflection,
}

/// A chain that is not made good yet.
#[derive(Clone)]
struct Chain {
    tries: Vec<Made>,
    attempts: Vec<Attempt>,
    step: u32,
    /// So many attempts were there, of which some are not kept.
    n: u32,
}

/// A chain that a call made good which was not the one that had failed, by the trace that it left.
struct Closed {
    chain: Chain,
    trace: String,
    /// The line that had failed.
    line: String,
}

/// Feeds on events.
pub struct Fold {
    mode: PermissionMode,
    cwd: String,
    methodology: Option<String>,
    asked: HashMap<String, ToolCall>,
    began: HashMap<String, (i64, Option<Effect>)>,
    open: Vec<Chain>,
    /// Chains of the turn that may not have been made good by what ended them.
    closed: VecDeque<Closed>,
    /// Numbers of the events in which a person said something about the work.
    hints: Vec<u64>,
    /// What the last evaluation was about, by the number of its event.
    evaluated: Option<(u64, String)>,
    n_traces: u32,
    /// So many of those that are held only count.
    n_plain: usize,
    is_running: bool,
    /// The session's work is to be learnt from.
    learns: bool,
    harvest: Harvest,
}

/// The traces of a session's events.
pub fn fold<'a>(project: &str, events: impl IntoIterator<Item = &'a Event>) -> Vec<ExecutionTrace> {
    harvests(project, events, 0).into_iter().flat_map(|harvest| harvest.traces).collect()
}

/// What each turn leaves that ended behind the event with this number. What a fork copied from another
/// session is that session's; a turn whose end is missing ended with the log.
pub fn harvests<'a>(
    project: &str,
    events: impl IntoIterator<Item = &'a Event>,
    after: u64,
) -> Vec<Harvest> {
    let mut fold = Fold::new(project);
    let mut harvests = Vec::new();
    for event in events {
        if matches!(event.body, Body::SessionForked { .. }) {
            harvests.clear();
        }
        harvests.extend(fold.apply(event));
    }
    harvests.extend(fold.finish());
    harvests.retain(|harvest| harvest.seq > after);
    harvests
}

impl Fold {
    /// For a session of the project of this identity.
    pub fn new(project: &str) -> Self {
        Self {
            mode: PermissionMode::default(),
            cwd: String::new(),
            methodology: None,
            asked: HashMap::new(),
            began: HashMap::new(),
            open: Vec::new(),
            closed: VecDeque::new(),
            hints: Vec::new(),
            evaluated: None,
            n_traces: 0,
            n_plain: 0,
            is_running: false,
            learns: true,
            harvest: Harvest { project: project.to_owned(), ..Harvest::default() },
        }
    }

    /// Takes the next event; at the end of a turn what it leaves.
    pub fn apply(&mut self, event: &Event) -> Option<Harvest> {
        let (seq, at_ms) = (event.header.seq, millis(&event.header.ts));
        let place = event.header.place;
        if event.body.is_stored() {
            self.harvest.seq = seq;
        }
        match &event.body {
            Body::SessionStarted(now) | Body::SessionResumed { now, .. } => {
                self.mode = now.permission_mode;
                self.cwd.clone_from(&now.cwd);
                self.learns = now.learns;
            }
            Body::SessionForked { .. } => {
                // What was copied is the other session's.
                *self = Self {
                    mode: self.mode,
                    cwd: self.cwd.clone(),
                    ..Self::new(&self.harvest.project)
                };
            }
            Body::ModeChanged { mode, .. } => self.mode = *mode,
            Body::TurnStarted { input, .. } => {
                // A turn that was cut off leaves what it left.
                let left = self.finish();
                if self.learns {
                    self.begin(&event.header.session, place.turn, input, seq);
                }
                return left;
            }
            Body::TurnSteered { .. } => self.hints.push(seq),
            Body::PermissionDecided { ruling, reason, .. } if ruling == "reject" => {
                // The words of a person say what to do instead.
                if reason.contains(':') {
                    self.hints.push(seq);
                }
            }
            Body::ModelResponded(answer) if answer.purpose == Purpose::Main => {
                self.asked.extend(answer.calls.iter().map(|call| (call.id.clone(), call.clone())));
            }
            Body::ToolStarted { call, effect, .. } => {
                self.began.insert(call.clone(), (at_ms, Some(effect.clone())));
            }
            Body::ToolFinished { call, synthetic: true, .. } => {
                self.began.remove(call);
            }
            Body::ToolFinished { .. } => self.answered(event, at_ms),
            Body::CheckFinished { .. } => self.checked(event, at_ms),
            Body::PlanUpdated { plan, .. } => self.methodology.clone_from(&plan.methodology),
            Body::Evaluation { failure, .. } => {
                for shown in &mut self.harvest.recalled {
                    shown.until.get_or_insert(seq);
                }
                if failure.is_some() {
                    let last = self.harvest.calls.iter().rev().find(|call| call.failed.is_some());
                    self.evaluated = last.map(|call| (seq, call.id.clone()));
                }
            }
            Body::Reflected { evidence, reflection: Some(said), .. } => {
                let about = self.evaluated.as_ref().filter(|(at, _)| at == evidence);
                let about = about.map(|(_, call)| call.clone());
                self.harvest.reflections.push(Said { seq, about, reflection: (**said).clone() });
            }
            Body::MemoryRecalled(recalled) => self.harvest.recalled.push(Shown {
                seq,
                moment: recalled.moment,
                items: recalled.items.clone(),
                call: recalled.call.clone(),
                applied: recalled.applied,
                until: None,
            }),
            Body::TurnFinished(turn) => {
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
            Body::PermissionDecided { .. }
            | Body::ModelResponded(_)
            | Body::Reflected { .. }
            | Body::Verified(_)
            | Body::SessionRewound { .. }
            | Body::UserCommand { .. }
            | Body::RuleAdded { .. }
            | Body::RuleRemoved { .. }
            | Body::Reminder { .. }
            | Body::ModelRequested(_)
            | Body::ModelDelta { .. }
            | Body::ToolOutput { .. }
            | Body::PermissionRequested { .. }
            | Body::ControlDecided { .. }
            | Body::Feedback { .. }
            | Body::ContextOverflowed { .. }
            | Body::ContextCompacted(_)
            | Body::PinAdded { .. }
            | Body::PinRemoved { .. }
            | Body::RulesFound { .. }
            | Body::Error { .. }
            | Body::TurnUndone { .. }
            | Body::MemoryWritten(_)
            | Body::SessionSummary(_) => {}
        }
        None
    }

    /// A call was answered.
    fn answered(&mut self, event: &Event, at_ms: i64) {
        let Body::ToolFinished { call, tool, envelope, by, parent_call, .. } = &event.body else {
            return;
        };
        let (seq, place) = (event.header.seq, event.header.place);
        let asked = self.asked.remove(call);
        let (began_ms, effect) = self.began.remove(call).unwrap_or((at_ms, None));
        let failed = match call::went(tool, envelope) {
            Went::Unknown => return,
            Went::Badly(failed) => Some(failed),
            Went::Well => None,
        };
        let sent = asked.and_then(|asked| serde_json::from_str(&asked.arguments).ok());
        let input: Object = if envelope.context.params_input.is_empty() {
            sent.unwrap_or_default()
        } else {
            envelope.context.params_input.clone()
        };
        let mut input = call::kept(&input);
        if let (Some(path), Some(Value::String(_))) =
            (&envelope.context.path_resolved, input.get("path"))
        {
            input.insert("path".to_owned(), path.as_str().into());
        }
        let acts = effect.as_ref().is_none_or(|effect| {
            !effect.is_read_only() && !matches!(effect, Effect::Plan | Effect::Job { .. })
        });
        self.made(Made {
            seq,
            id: call.clone(),
            round: place.round,
            step: place.step,
            began_ms,
            ended_ms: at_ms,
            tool: tool.clone(),
            input,
            by: *by,
            parent: parent_call.clone(),
            result: shorten(envelope.text.lines().next().unwrap_or_default(), 160),
            failed,
            acts,
            created: envelope.data.get("operation").is_some_and(|done| *done == "create")
                && envelope.data.get("applied").is_some_and(|applied| *applied == true),
        });
    }

    /// A check was run.
    fn checked(&mut self, event: &Event, at_ms: i64) {
        let Body::CheckFinished { command, exit_code, passed, tail, time_ms } = &event.body else {
            return;
        };
        let (seq, place) = (event.header.seq, event.header.place);
        let failed = (!passed).then(|| Failed {
            code: ErrorCode::CommandFailed,
            signature: format!("COMMAND_FAILED {}", signature::signature(tail)),
            evidence: call::end_of(tail),
            hint: None,
            exit_code: exit_code.map(i64::from),
        });
        let result = if *passed { "passed".to_owned() } else { "did not pass".to_owned() };
        let began_ms = at_ms.saturating_sub(i64::try_from(*time_ms).unwrap_or(0));
        self.made(Made {
            seq,
            id: format!("{CHECK} {seq}"),
            round: place.round,
            step: place.step,
            began_ms,
            ended_ms: at_ms,
            tool: CHECK.to_owned(),
            input: Object::from_iter([("command".to_owned(), command.as_str().into())]),
            by: Caller::Kernel,
            parent: None,
            failed,
            result,
            acts: false,
            created: false,
        });
    }

    /// Traces of the turn that runs which only count (they did it at once), as soon as there are many: a long turn
    /// need not hold them all. They are no part of its harvest then. The last stays: it says when the turn's work was
    /// done.
    pub fn settled(&mut self) -> Vec<ExecutionTrace> {
        if self.n_plain < PORTION {
            return Vec::new();
        }
        self.n_plain = 0;
        let last = self.harvest.traces.pop();
        let held = std::mem::take(&mut self.harvest.traces);
        let (settled, rest) = held.into_iter().partition(is_plain);
        self.harvest.traces = rest;
        self.harvest.traces.extend(last);
        settled
    }

    /// What a turn leaves that is cut off here.
    pub fn finish(&mut self) -> Option<Harvest> {
        if !self.is_running {
            return None;
        }
        self.is_running = false;
        let badly = self.harvest.ended_well == Some(false);
        self.closed.clear();
        for chain in std::mem::take(&mut self.open) {
            self.trace(chain, false, badly);
        }
        let next = Harvest {
            session: self.harvest.session.clone(),
            project: self.harvest.project.clone(),
            seq: self.harvest.seq,
            ..Harvest::default()
        };
        Some(std::mem::replace(&mut self.harvest, next))
    }

    fn begin(&mut self, session: &str, turn: u32, task: &str, seq: u64) {
        self.asked.clear();
        self.began.clear();
        self.hints.clear();
        self.evaluated = None;
        self.methodology = None;
        self.n_traces = 0;
        self.n_plain = 0;
        self.is_running = true;
        self.harvest = Harvest {
            session: session.to_owned(),
            project: std::mem::take(&mut self.harvest.project),
            turn,
            seq,
            task: shorten(task, 2000),
            ..Harvest::default()
        };
    }

    /// A call was answered: it opens a chain, goes on with one, makes some good, or stands alone.
    fn made(&mut self, made: Made) {
        if !self.is_running {
            return;
        }
        if made.failed.is_none() {
            self.reopen(&made);
        }
        let is_akin = |chain: &Chain| {
            let last = chain.tries.last();
            chain.tries.iter().any(|tried| made.parent.as_ref() == Some(&tried.id))
                || last.is_some_and(|last| continues(last, &made))
                || chain.tries.first().is_some_and(|first| continues(first, &made))
        };
        let akin: Vec<usize> = self
            .open
            .iter()
            .enumerate()
            .filter(|(_, chain)| is_akin(chain))
            .map(|(at, _)| at)
            .collect();
        if made.failed.is_some() {
            // The latest of them: what failed last is tried first.
            match akin.last() {
                Some(at) => self.try_again(*at, &made),
                None => self.open_chain(&made),
            }
        } else if akin.is_empty() {
            // What only reads on, or writes the plan, is no method of its own.
            if !["TodoWrite", "BashOutput", "BashKill"].contains(&made.tool.as_str()) {
                self.open_chain(&made);
                if let Some(chain) = self.open.pop() {
                    self.trace(chain, true, false);
                }
            }
        } else {
            for at in akin.into_iter().rev() {
                self.try_again(at, &made);
                let chain = self.open.remove(at);
                self.close(chain, &made);
            }
        }
        if self.harvest.calls.len() >= MAX_CALLS {
            self.harvest.calls.remove(0);
        }
        self.harvest.calls.push(made);
    }

    /// The chain is made good, as it seems: of a command that is another than the one that failed.
    fn close(&mut self, chain: Chain, made: &Made) {
        let is_other =
            !chain.tries.iter().any(|tried| tried.id != made.id && is_again(tried, made));
        let before = is_other.then(|| chain.clone());
        self.trace(chain, true, false);
        if let (Some(mut chain), Some(trace)) = (before, self.harvest.traces.last()) {
            chain.tries.pop();
            chain.attempts.pop();
            chain.n -= 1;
            let Some(line) = chain.tries.last().and_then(Made::line) else { return };
            if self.closed.len() >= MAX_CLOSED {
                self.closed.pop_front();
            }
            self.closed.push_back(Closed { chain, trace: trace.id.clone(), line });
        }
    }

    /// What had failed works now, word for word: what was taken for the way out was only done before it.
    fn reopen(&mut self, made: &Made) {
        if self.closed.is_empty() {
            return;
        }
        let Some(line) = made.line() else { return };
        let is_it = |closed: &Closed| {
            let last = closed.chain.tries.last();
            closed.line == line && last.is_some_and(|last| last.tool == made.tool)
        };
        let Some(at) = self.closed.iter().position(is_it) else { return };
        let Some(Closed { chain, trace, .. }) = self.closed.remove(at) else { return };
        self.harvest.traces.retain(|other| other.id != trace);
        self.open.push(chain);
    }

    fn open_chain(&mut self, made: &Made) {
        let attempt = self.attempt(1, made, None);
        self.open.push(Chain {
            tries: vec![made.clone()],
            attempts: vec![attempt],
            step: made.step,
            n: 1,
        });
    }

    fn try_again(&mut self, at: usize, made: &Made) {
        let before = self.open[at].tries.last().cloned();
        let attempt = self.attempt(self.open[at].n + 1, made, before.as_ref());
        let chain = &mut self.open[at];
        chain.n += 1;
        if chain.attempts.len() >= MAX_ATTEMPTS {
            chain.attempts.remove(MAX_ATTEMPTS / 2);
            chain.tries.remove(1);
        }
        chain.attempts.push(attempt);
        chain.tries.push(made.clone());
    }

    fn attempt(&self, index: u32, made: &Made, before: Option<&Made>) -> Attempt {
        let mut context = Object::from_iter([
            ("tool".to_owned(), made.tool.as_str().into()),
            ("input".to_owned(), Value::Object(made.input.clone())),
            ("mode".to_owned(), self.mode.as_str().into()),
            ("platform".to_owned(), std::env::consts::OS.into()),
            ("cwd".to_owned(), self.cwd.as_str().into()),
            ("call".to_owned(), made.id.as_str().into()),
        ]);
        let between = before.map_or_else(Vec::new, |before| self.between(before, made));
        if !between.is_empty() {
            context.insert("between".to_owned(), between.iter().map(told).collect());
        }
        let is_first = before.is_none() && made.failed.is_some() && made.command().is_some();
        let changed = if is_first { self.changed() } else { Vec::new() };
        if !changed.is_empty() {
            context.insert("changed".to_owned(), changed.into());
        }
        let failed = made.failed.as_ref();
        if let Some(status) = failed.and_then(|failed| failed.exit_code) {
            context.insert("exit_code".to_owned(), status.into());
        }
        Attempt {
            index,
            timestamp_ms: made.began_ms,
            context,
            activated_artifacts: artifacts_of(&made.tool, &made.input),
            result: made.result.clone(),
            success: failed.is_none(),
            error: failed.map(|failed| failed.evidence.clone()),
            code: failed.map(|failed| failed.code),
            signature: failed.map(|failed| failed.signature.clone()),
            fix_applied: before.map(|before| difference::in_words(before, made, &between)),
            fix_source: before.map(|before| self.source_of(before, made)),
        }
    }

    /// The files that the turn has changed so far, the latest of it.
    fn changed(&self) -> Vec<Value> {
        let is_change = |call: &&Made| {
            call.acts && call.failed.is_none() && CHANGES.contains(&call.tool.as_str())
        };
        let latest = self.harvest.calls.iter().rev().filter(is_change).take(MAX_BETWEEN);
        let mut latest: Vec<Value> = latest.map(told).collect();
        latest.reverse();
        latest
    }

    /// What succeeded between two tries, the latest of it.
    fn between(&self, before: &Made, made: &Made) -> Vec<Made> {
        let calls = self.harvest.calls.iter();
        let between = calls.filter(|call| {
            call.seq > before.seq
                && call.seq < made.seq
                && call.failed.is_none()
                && call.tool != CHECK
        });
        let mut between: VecDeque<Made> = between.cloned().collect();
        while between.len() > MAX_BETWEEN {
            // What only looked says least.
            let at = between.iter().position(|call| !call.acts).unwrap_or(0);
            between.remove(at);
        }
        between.into()
    }

    fn source_of(&self, before: &Made, made: &Made) -> FixSource {
        let offered = self.harvest.recalled.iter().any(|shown| {
            if shown.moment != Moment::Failure || shown.call.is_none() {
                return false;
            }
            if shown.applied {
                return shown.call == made.parent && shown.until.is_none();
            }
            // What was told, and is done now.
            let news = difference::news(before, made);
            let told = |word: &String| shown.items.iter().any(|item| item.text.contains(word));
            shown.call.as_ref() == Some(&before.id) && !news.is_empty() && news.iter().all(told)
        });
        let said = self.hints.iter().any(|hint| *hint > before.seq && *hint < made.seq);
        match (offered, said) {
            (true, _) => FixSource::FailurePattern,
            (false, true) => FixSource::UserHint,
            (false, false) => FixSource::SelfCorrection,
        }
    }

    fn trace(&mut self, chain: Chain, final_success: bool, needs_human: bool) {
        self.n_traces += 1;
        let (Some(first), Some(last)) = (chain.tries.first(), chain.tries.last()) else { return };
        let task_id = format!("{}/{}", self.harvest.session, self.harvest.turn);
        let duration = last.ended_ms.saturating_sub(first.began_ms);
        let trace = ExecutionTrace {
            id: format!("{task_id}/{}", self.n_traces),
            skill_id: skill_of(&first.tool, first.command()),
            task_id,
            session: self.harvest.session.clone(),
            project: self.harvest.project.clone(),
            turn: self.harvest.turn,
            step: chain.step,
            attempts: chain.attempts,
            final_success,
            needs_human,
            methodology: self.methodology.clone(),
            created_at_ms: first.began_ms,
            duration_ms: u64::try_from(duration).unwrap_or(0),
        };
        self.n_plain += usize::from(is_plain(&trace));
        self.harvest.traces.push(trace);
    }
}

/// A call that is told of beside an attempt.
fn told(call: &Made) -> Value {
    let mut told = json!({"tool": call.tool, "input": call.input, "acts": call.acts});
    if call.created {
        told["created"] = true.into();
    }
    told
}

/// It was done at once: there is nothing to be learnt from how.
fn is_plain(trace: &ExecutionTrace) -> bool {
    trace.final_success && trace.attempts.len() == 1
}

/// An event's time in milliseconds since 1970; 0 where it is none.
fn millis(timestamp: &str) -> i64 {
    timestamp.parse::<jiff::Timestamp>().map_or(0, |at| at.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::super::call::testing::made;
    use super::*;

    fn running() -> Fold {
        let mut fold = Fold::new("here");
        fold.begin("s", 1, "", 0);
        fold
    }

    #[test]
    fn of_what_may_not_have_been_made_good_the_latest_is_kept() {
        let mut fold = running();
        for n in 0..40 {
            fold.made(made(2 * n, &format!("bin/tool{n} --fast"), Some("unknown option --fast")));
            fold.made(made(2 * n + 1, &format!("bin/tool{n}"), None));
        }
        assert_eq!(fold.closed.len(), MAX_CLOSED);
        let (first, last) = ("bin/tool0 --fast", "bin/tool39 --fast");
        fold.made(made(90, first, None));
        assert_eq!(fold.closed.len(), MAX_CLOSED, "forgotten");
        fold.made(made(91, last, None));
        assert_eq!(fold.closed.len(), MAX_CLOSED - 1, "reopened");
    }

    #[test]
    fn two_lines_that_were_cut_are_not_the_same() {
        let long = |end: &str| format!("bin/pack {} {end}", ["word"; 100].join(" "));
        assert!(!is_again(&made(1, &long("a"), None), &made(2, &long("b"), None)));
        assert!(is_again(&made(1, "bin/pack a", None), &made(2, "bin/pack   a", None)));
    }
}
