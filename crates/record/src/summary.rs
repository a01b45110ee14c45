//! Totals of a session and of each turn, computed from its events.

use std::sync::Arc;

use super::live_events::parse_milliseconds;
use agent_protocol::event::{Event, EventBody, SessionSummary, Sink, StampedEvent, TurnFinished};
use agent_protocol::model::Purpose;
use agent_protocol::spending::Spending;
use parking_lot::Mutex;

/// Computes a [`SessionSummary`] of the events. Clones share the summary.
#[derive(Clone, Debug, Default)]
pub struct SummarySink(Arc<Mutex<SessionSummary>>);

impl SummarySink {
    /// The totals of the session so far.
    pub fn summary(&self) -> SessionSummary {
        self.0.lock().clone()
    }

    /// Applies an event.
    pub fn apply(&self, event: &Event) {
        apply_event(&mut self.0.lock(), event);
    }
}

impl Sink for SummarySink {
    fn receive(&mut self, stamped: &StampedEvent) {
        self.apply(&stamped.event);
    }

    fn receive_from_subagent(&mut self, stamped: &StampedEvent) {
        self.apply(&stamped.event);
    }
}

/// The totals of all events; removed turns were paid for too.
pub fn summary<'a>(events: impl IntoIterator<Item = &'a Event>) -> SessionSummary {
    let mut summary = SessionSummary::default();
    for event in events {
        apply_event(&mut summary, event);
    }
    summary
}

fn apply_event(summary: &mut SessionSummary, event: &Event) {
    match &event.body {
        EventBody::SessionRenamed { name } => summary.name = Some(name.clone()),
        // A copy has no name of its own yet.
        EventBody::SessionForked { .. } => summary.name = None,
        EventBody::TurnStarted { .. } => summary.turns += 1,
        EventBody::ModelResponded(answer) => {
            summary.rounds += u32::from(answer.purpose == Purpose::Main);
            summary.spending.add_response(answer);
        }
        EventBody::ToolFinished { tool, envelope, .. } => {
            *summary.calls.entry(tool.clone()).or_default() += 1;
            if let Some(error) = envelope.error() {
                *summary.failures.entry(error.code.as_str().to_owned()).or_default() += 1;
            }
        }
        EventBody::TurnFinished(finished) => {
            summary.time_ms = summary.time_ms.saturating_add(finished.time_ms);
        }
        _ => {}
    }
}

/// Input, cost and end of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Turn {
    pub number: u32,
    pub input: String,
    /// False if a rewind removed the turn.
    pub is_live: bool,
    pub rounds: u32,
    pub spending: Spending,
    /// `None` if the program ended before, or is still working.
    pub finished: Option<TurnFinished>,
    /// Duration in milliseconds; until the last event if the turn has no end.
    pub time_ms: u64,
}

/// The turns of a session, oldest first.
pub fn turns(events: &[Event]) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut times: Vec<(&str, &str)> = Vec::new();
    let mut is_running = false;
    for event in events {
        match &event.body {
            EventBody::TurnStarted { .. } => {
                is_running = true;
                times.push((&event.header.ts, &event.header.ts));
            }
            // Later events may follow after days.
            EventBody::SessionResumed { .. } | EventBody::SessionForked { .. } => {
                is_running = false;
            }
            _ => {
                if let Some((_, last)) = times.last_mut().filter(|_| is_running) {
                    *last = &event.header.ts;
                }
            }
        }
        match (&event.body, turns.last_mut()) {
            (EventBody::TurnStarted(message), _) => turns.push(Turn {
                number: event.header.place.turn,
                input: message.input.clone(),
                is_live: true,
                rounds: 0,
                spending: Spending::default(),
                finished: None,
                time_ms: 0,
            }),
            (EventBody::ModelResponded(answer), Some(turn)) => {
                turn.rounds += u32::from(answer.purpose == Purpose::Main);
                turn.spending.add_response(answer);
            }
            (EventBody::TurnFinished(finished), Some(turn)) => {
                turn.finished = Some(finished.clone());
            }
            (EventBody::SessionRewound { from_turn }, _) => {
                for turn in turns.iter_mut().filter(|turn| turn.number >= *from_turn) {
                    turn.is_live = false;
                }
            }
            _ => {}
        }
    }
    for (turn, (start, end)) in turns.iter_mut().zip(times) {
        let between = || {
            u64::try_from(parse_milliseconds(end)?.checked_sub(parse_milliseconds(start)?)?).ok()
        };
        let recorded = turn.finished.as_ref().map(|finished| finished.time_ms);
        turn.time_ms = recorded.or_else(between).unwrap_or_default();
    }
    turns
}
