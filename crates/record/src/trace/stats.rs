//! Statistics of recorded sessions.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;

use crate::{RecordGaps, Turn, forked_from, parse_milliseconds, summary, turns};
use agent_protocol::envelope::{Envelope, ErrorCode};
use agent_protocol::event::{Caller, Event, EventBody};
use agent_protocol::signature::shorten_with_hash;
use agent_protocol::spending::Spending;

/// Statistics of sessions.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StatsReport {
    pub sessions: Vec<SessionStats>,
    pub total: Stats,
}

/// Statistics of a session.
#[derive(Clone, Debug, Serialize)]
pub struct SessionStats {
    pub id: String,
    pub started: String,
    pub model: String,
    pub name: Option<String>,
    /// The session that this one was forked from. Copied events are not counted.
    pub forked_from: Option<String>,
    /// The ending of the last turn, or `unfinished`; `None` without a turn.
    pub ending: Option<String>,
    /// Parts of the record that are not understood and not counted.
    #[serde(skip_serializing_if = "RecordGaps::is_empty")]
    pub not_understood: RecordGaps,
    pub stats: Stats,
}

/// Counts of events. Turns that a rewind removed count too, except as outcomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    pub turns: u32,
    /// The turns that are part of the session, by ending; `unfinished` without an end.
    pub outcomes: BTreeMap<String, u32>,
    pub removed_turns: u32,
    /// Answers of the model in the conversation.
    pub steps: u32,
    #[serde(flatten)]
    pub spending: Spending,
    pub models: BTreeMap<String, u32>,
    pub purposes: BTreeMap<String, ModelUse>,
    pub failed_requests: u32,
    pub tools: BTreeMap<String, ToolUse>,
    pub recoveries: Recoveries,
    pub decisions: BTreeMap<String, u32>,
    pub checks: Checks,
    pub verifications: Verifications,
    pub approvals: Approvals,
    pub time: Times,
}

/// Use of models for one purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ModelUse {
    pub answers: u32,
    #[serde(flatten)]
    pub spending: Spending,
    /// Time from the requests to the ends of the answers.
    pub time_ms: u64,
}

/// Use of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ToolUse {
    pub calls: u32,
    pub by_kernel: u32,
    pub failures: BTreeMap<String, u32>,
    /// Time without waiting for approvals.
    pub time_ms: u64,
}

/// Failed actions: calls of a tool with one target, and checks. Repeated failures count once, until a success.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Recoveries {
    pub failed: u32,
    pub recovered: u32,
    /// Actions without a later success, in turns that completed.
    pub bypassed: u32,
    /// Actions without a later success, in turns that did not complete.
    pub unresolved: u32,
}

/// Counts of the runs of checks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Checks {
    pub passed: u32,
    pub failed: u32,
}

/// Verifications by result.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Verifications {
    pub confirmed: u32,
    pub objected: u32,
    pub no_verdict: u32,
}

/// Counts of questions to the user and of rulings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Approvals {
    pub asked: u32,
    /// Rulings on writes and commands, with or without a question.
    pub rulings: BTreeMap<String, u32>,
}

/// Times in milliseconds. Calls that ran at the same time are added, so the parts may exceed the whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    pub turns_ms: u64,
    /// Without learning, which takes place after the turns.
    pub models_ms: u64,
    pub tools_ms: u64,
    pub checks_ms: u64,
    pub approvals_ms: u64,
}

impl StatsReport {
    /// Adds a session; with `since` (milliseconds since 1970) only its later events, if there are any.
    pub fn add_session(
        &mut self,
        id: &str,
        events: &[Event],
        gaps: &RecordGaps,
        since: Option<i64>,
    ) {
        let is_copy = |event: &Event| matches!(event.body, EventBody::SessionForked { .. });
        let counted = &events[events.iter().rposition(is_copy).map_or(0, |at| at + 1)..];
        let is_new = |event: &Event| {
            since.is_none_or(|since| parse_milliseconds(&event.header.ts) >= Some(since))
        };
        let first = counted.iter().position(is_new).unwrap_or(counted.len());
        let counted = &counted[first..];
        if since.is_some() && counted.is_empty() {
            return;
        }
        self.total.add_session(counted);
        let mut stats = Stats::default();
        stats.add_session(counted);
        let (started, model) = session_start(events);
        self.sessions.push(SessionStats {
            id: id.to_owned(),
            started,
            model,
            name: summary(events).name,
            forked_from: forked_from(events).map(|(from, _)| from.to_owned()),
            ending: last_ending(events),
            not_understood: gaps.clone(),
            stats,
        });
    }
}

/// The start time, and the model at the start; empty if the record does not contain them.
pub(crate) fn session_start(events: &[Event]) -> (String, String) {
    let start = events.iter().find_map(|event| match &event.body {
        EventBody::SessionStarted(started) => {
            Some((event.header.ts.clone(), started.model.clone()))
        }
        _ => None,
    });
    start.unwrap_or_default()
}

/// The ending of the last turn that is part of the session; `None` without a turn.
pub(super) fn last_ending(events: &[Event]) -> Option<String> {
    turns(events).iter().rev().find(|turn| turn.is_live).map(turn_ending)
}

fn turn_ending(turn: &Turn) -> String {
    turn.finished.as_ref().map_or("unfinished", |done| done.ending.as_str()).to_owned()
}

impl Stats {
    /// Adds the events of a session.
    pub fn add_session(&mut self, events: &[Event]) {
        let summary = summary(events);
        self.turns += summary.turns;
        self.steps += summary.rounds;
        self.spending.add_spending(&summary.spending);
        for turn in turns(events) {
            self.time.turns_ms = self.time.turns_ms.saturating_add(turn.time_ms);
            if turn.is_live {
                *self.outcomes.entry(turn_ending(&turn)).or_default() += 1;
            } else {
                self.removed_turns += 1;
            }
        }
        let mut open = OpenActions::default();
        for event in events {
            self.add_event(event, &mut open);
            open.record_event(event, &mut self.recoveries);
        }
        open.count_unrecovered(events, &mut self.recoveries);
    }

    fn add_event(&mut self, event: &Event, open: &mut OpenActions) {
        match &event.body {
            EventBody::ModelRequested(request) => increment(&mut self.models, &request.model),
            EventBody::ModelResponded(answer) => {
                let purpose = self.purposes.entry(answer.purpose.as_str().to_owned()).or_default();
                purpose.answers += 1;
                purpose.spending.add_response(answer);
                add_saturating(&mut purpose.time_ms, answer.time_ms);
                if answer.purpose.is_of_loop() && event.header.is_main() {
                    add_saturating(&mut self.time.models_ms, answer.time_ms);
                }
            }
            EventBody::Error { source, .. } if source == "model" => self.failed_requests += 1,
            EventBody::PermissionRequested { call, .. } => {
                self.approvals.asked += 1;
                open.asked.insert(call.clone(), parse_milliseconds(&event.header.ts));
            }
            EventBody::PermissionDecided { call, ruling, .. } => {
                increment(&mut self.approvals.rulings, ruling);
                if let Some(Some(asked)) = open.asked.remove(call)
                    && let Some(decided) = parse_milliseconds(&event.header.ts)
                {
                    let waited = u64::try_from(decided.saturating_sub(asked)).unwrap_or_default();
                    add_saturating(&mut self.time.approvals_ms, waited);
                    open.waited.insert(call.clone(), waited);
                }
            }
            EventBody::ToolFinished { call, tool, envelope, by, .. } => {
                let used = self.tools.entry(tool.clone()).or_default();
                used.calls += 1;
                used.by_kernel += u32::from(*by == Caller::Kernel);
                if let Some(error) = envelope.error() {
                    increment(&mut used.failures, error.code.as_str());
                }
                let waited = open.waited.remove(call).unwrap_or_default();
                let time_ms = envelope.stats.get("time_ms").and_then(Value::as_u64);
                let time_ms = time_ms.unwrap_or_default().saturating_sub(waited);
                add_saturating(&mut used.time_ms, time_ms);
                // The time of a sub-agent is part of its call.
                if event.header.is_main() {
                    add_saturating(&mut self.time.tools_ms, time_ms);
                }
            }
            EventBody::ControlDecided { decision, .. } => {
                increment(&mut self.decisions, decision.label());
            }
            EventBody::CheckFinished { passed, time_ms, .. } => {
                self.checks.passed += u32::from(*passed);
                self.checks.failed += u32::from(!*passed);
                add_saturating(&mut self.time.checks_ms, *time_ms);
            }
            EventBody::Verified(verification) => match verification.confirmed {
                Some(true) => self.verifications.confirmed += 1,
                Some(false) => self.verifications.objected += 1,
                None => self.verifications.no_verdict += 1,
            },
            _ => {}
        }
    }
}

#[derive(Default)]
struct OpenActions {
    /// The time of the question for approval, by call.
    asked: HashMap<String, Option<i64>>,
    /// The waiting time for approval in milliseconds, by call.
    waited: HashMap<String, u64>,
    /// Failed actions without a later success, with the turn of the last failure.
    failed: BTreeMap<String, u32>,
    /// The chain of a failed call, for calls that the kernel makes on its behalf.
    chains: HashMap<String, String>,
}

impl OpenActions {
    fn record_event(&mut self, event: &Event, recoveries: &mut Recoveries) {
        let turn = event.header.place.turn;
        match &event.body {
            EventBody::ToolFinished { call, tool, envelope, parent_call, .. } => {
                let parent = parent_call.as_ref().and_then(|parent| self.chains.get(parent));
                let chain = parent.cloned().unwrap_or_else(|| action_of(tool, envelope));
                match envelope.error() {
                    Some(error) if error.code == ErrorCode::Cancelled => {}
                    Some(_) => {
                        self.chains.insert(call.clone(), chain.clone());
                        self.record_failure(chain, turn, recoveries);
                    }
                    None => {
                        self.record_success(&chain, recoveries);
                        // Arguments that do not parse name no target: any success of the tool resolves them.
                        self.record_success(tool, recoveries);
                    }
                }
            }
            EventBody::CheckFinished { command, passed, .. } => {
                let chain = format!("check {command}");
                if *passed {
                    self.record_success(&chain, recoveries);
                } else {
                    self.record_failure(chain, turn, recoveries);
                }
            }
            _ => {}
        }
    }

    fn record_failure(&mut self, chain: String, turn: u32, recoveries: &mut Recoveries) {
        recoveries.failed += u32::from(self.failed.insert(chain, turn).is_none());
    }

    fn record_success(&mut self, chain: &str, recoveries: &mut Recoveries) {
        recoveries.recovered += u32::from(self.failed.remove(chain).is_some());
    }

    fn count_unrecovered(self, events: &[Event], recoveries: &mut Recoveries) {
        let turns = turns(events);
        for turn in self.failed.into_values() {
            let finished = turns.iter().rev().find(|one| one.number == turn);
            let finished = finished.and_then(|turn| turn.finished.as_ref());
            if finished.is_some_and(|finished| finished.ending.is_success()) {
                recoveries.bypassed += 1;
            } else {
                recoveries.unresolved += 1;
            }
        }
    }
}

fn increment(counts: &mut BTreeMap<String, u32>, name: &str) {
    *counts.entry(name.to_owned()).or_default() += 1;
}

// The numbers come from a record, and may be any.
fn add_saturating(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Tool and target of a call; only the tool without a target. Calls of one action are attempts at the same thing.
fn action_of(tool: &str, envelope: &Envelope) -> String {
    let named = |name| envelope.context.params_input.get(name).and_then(Value::as_str);
    // The path of a command is its directory, and many commands run there.
    let target = named("command")
        .or(envelope.context.path_resolved.as_deref())
        .or_else(|| named("path"))
        .or_else(|| named("pattern"));
    match target {
        Some(target) => format!("{tool} {}", shorten_with_hash(target, 80)),
        None => tool.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn command_is_the_same_action_whether_it_fails_or_not() {
        let action = |tool: &str, status: &Value, path: Option<&str>, input: &Value| {
            let mut envelope = json!({"data": {}, "text": "", "stats": {},
                "context": {"cwd": ".", "params_input": input, "path_resolved": path}});
            envelope
                .as_object_mut()
                .expect("an object")
                .extend(status.as_object().cloned().expect("one"));
            action_of(tool, &serde_json::from_value(envelope).expect("an envelope"))
        };
        let error = json!({"status": "error", "error": {"code": "COMMAND_FAILED", "message": "x"}});
        let success = json!({"status": "success"});
        let command = json!({"command": "make test"});
        // The result of a failed command names its directory.
        assert_eq!(action("Bash", &error, Some("."), &command), "Bash make test");
        assert_eq!(action("Bash", &success, None, &command), "Bash make test");
        assert_eq!(action("Read", &success, Some("a/b"), &json!({"path": "./a/b"})), "Read a/b");
        assert_eq!(action("Grep", &error, None, &json!({"pattern": "x"})), "Grep x");
        assert_eq!(action("Glob", &error, None, &json!({})), "Glob");
    }
}
