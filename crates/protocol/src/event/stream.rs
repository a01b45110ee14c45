//! The event stream: stamps events, masks them, and passes them to the sinks.

use std::sync::Arc;

use super::{Event, EventBody, EventHeader, FORMAT_VERSION, MAIN_AGENT, WorkPosition};
use crate::mask::{MASK, Masker};
use crate::spending::Spending;
use parking_lot::Mutex;

/// An event as sinks receive it: masked, and serialised once for all of them.
#[derive(Debug)]
pub struct StampedEvent {
    pub event: Event,
    /// One line of JSON, without the line break.
    pub line: String,
}

/// A consumer of the stream, called in order in the emitter's thread; it reports its own failures.
pub trait Sink: Send {
    /// Takes the next event of the session's main agent.
    fn receive(&mut self, stamped: &StampedEvent);

    /// Takes the next event of a sub-agent. Sinks that follow only the main agent ignore it.
    fn receive_from_subagent(&mut self, _stamped: &StampedEvent) {}

    /// Takes the earlier events of a resumed session, and what all of it has cost, with its sub-agents and the
    /// turns that a rewind removed; called once, before its next event.
    fn receive_recorded(&mut self, _events: &[&Event], _spending: Spending) {}
}

/// The time, injected so that tests control it.
pub trait Clock: Send + Sync {
    /// UTC, RFC 3339 with milliseconds.
    fn timestamp(&self) -> String;
    fn now(&self) -> std::time::Instant;
}

/// Stamps events of one agent and hands them to the sinks. Clones share the stream and the agent.
#[derive(Clone)]
pub struct EventStream {
    shared: Arc<SharedStream>,
    agent: Arc<AgentPosition>,
}

struct AgentPosition {
    id: String,
    position: Mutex<WorkPosition>,
}

struct SharedStream {
    session: String,
    clock: Arc<dyn Clock>,
    masker: Arc<Masker>,
    stream: Mutex<StreamState>,
}

struct StreamState {
    seq: u64,
    sinks: Vec<Box<dyn Sink>>,
}

impl EventStream {
    /// A stream whose next event has number `seq + 1`.
    pub fn new(
        session: String,
        seq: u64,
        clock: Arc<dyn Clock>,
        masker: Arc<Masker>,
        sinks: Vec<Box<dyn Sink>>,
    ) -> Self {
        let stream = Mutex::new(StreamState { seq, sinks });
        let agent = AgentPosition { id: MAIN_AGENT.to_owned(), position: Mutex::default() };
        let shared = SharedStream { session, clock, masker, stream };
        Self { shared: Arc::new(shared), agent: Arc::new(agent) }
    }

    /// The same stream for the events of a sub-agent, which has its own position in the work.
    #[must_use]
    pub fn for_subagent(&self, id: &str) -> Self {
        let agent = AgentPosition { id: id.to_owned(), position: Mutex::new(self.position()) };
        Self { shared: self.shared.clone(), agent: Arc::new(agent) }
    }

    /// The id of the agent that emits through this stream.
    pub fn agent_id(&self) -> &str {
        &self.agent.id
    }

    /// The session's id.
    pub fn session_id(&self) -> &str {
        &self.shared.session
    }

    /// The injected clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.shared.clock
    }

    /// The masker of every event, for texts that leave the program in another way.
    pub fn masker(&self) -> &Arc<Masker> {
        &self.shared.masker
    }

    /// Adds a sink for all further events.
    pub fn add_sink(&self, sink: Box<dyn Sink>) {
        self.shared.stream.lock().sinks.push(sink);
    }

    /// Sets the position of further events.
    pub fn set_position(&self, position: WorkPosition) {
        *self.agent.position.lock() = position;
    }

    /// The current position of this agent.
    pub fn position(&self) -> WorkPosition {
        *self.agent.position.lock()
    }

    /// Emits a fact; returns when every sink has taken it. Returns the event as they received it.
    pub fn emit(&self, body: EventBody) -> Event {
        let place = self.position();
        let mut stream = self.shared.stream.lock();
        // Events that are not stored have no number, so that numbers have no gaps.
        if body.is_stored() {
            stream.seq += 1;
        }
        let header = EventHeader {
            v: FORMAT_VERSION,
            seq: stream.seq,
            ts: self.shared.clock.timestamp(),
            session: self.shared.session.clone(),
            agent: self.agent.id.clone(),
            place,
        };
        let is_main = header.is_main();
        let event = Event { header, body };
        if stream.sinks.is_empty() {
            return event;
        }
        let stamped = self.mask_and_serialize(event);
        for sink in &mut stream.sinks {
            if is_main {
                sink.receive(&stamped);
            } else {
                sink.receive_from_subagent(&stamped);
            }
        }
        stamped.event
    }

    fn mask_and_serialize(&self, mut event: Event) -> StampedEvent {
        // Events hold only strings, numbers and maps with string keys: they always serialise.
        let line = serde_json::to_string(&event).unwrap_or_default();
        if !self.shared.masker.may_contain_secret(&line) {
            return StampedEvent { event, line };
        }
        if self.mask_user_text(&mut event.body) {
            let line = serde_json::to_string(&event).unwrap_or_default();
            return StampedEvent { event, line };
        }
        let mut value = serde_json::to_value(&event).unwrap_or_default();
        self.shared.masker.mask_value(&mut value);
        // This fails only if a `redact_extra` matches the words of the format itself.
        let event = serde_json::from_value(value).unwrap_or_else(|_| {
            let body = EventBody::error(
                "record",
                "an event was withheld: record.redact_extra matches words of its format",
            );
            Event { header: event.header, body }
        });
        let line = serde_json::to_string(&event).unwrap_or_default();
        StampedEvent { event, line }
    }

    /// A rule or a mode is masked only in its text, so that an expression of `record.redact_extra`
    /// that matches more does not change its effect, now or on resume.
    fn mask_user_text(&self, body: &mut EventBody) -> bool {
        let words = match body {
            EventBody::ModeChanged { words: Some(words), .. } => words,
            EventBody::RuleAdded { rule } | EventBody::RuleRemoved { rule } => {
                rule.rule = replace_masks_with_wildcards(
                    &self.shared.masker.mask_known_secrets(&rule.rule),
                );
                &mut rule.words
            }
            _ => return false,
        };
        *words = self.shared.masker.mask(words).into_owned();
        true
    }
}

/// A rule with a wildcard in place of each secret: it denies more, never less.
fn replace_masks_with_wildcards(masked: &str) -> String {
    let mut rule = String::new();
    let mut rest = masked;
    while let Some((before, mask)) = rest.split_once(MASK) {
        rule.push_str(before);
        rule.push('*');
        rest = mask.split_once(']').map_or("", |(_, rest)| rest);
    }
    rule + rest
}
