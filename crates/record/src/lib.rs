//! The event log: append, load, repair, fork, summarise, render. `events.jsonl` is the session; it is append-only, and
//! each line is passed to the operating system before the effect that it announces.

pub mod eval;
mod fork;
mod live_events;
mod log;
pub mod otel;
mod overview;
mod partial_record;
mod progress;
mod receipt;
mod render;
mod summary;
pub mod trace;

pub use fork::{ForkError, fork_session};
pub use live_events::{
    LastFileAccess, forked_from, last_file_accesses, live_events, live_events_of_all_agents,
    parse_milliseconds,
};
pub use log::{EVENTS, LoadedSession, Log, LogError, load_session, parse_log, process_using};
pub use overview::{SessionOverview, added_directories, last_main_model, read_overview};
pub use partial_record::{PartialRecord, RecordGaps, read_partially};
pub use progress::{SessionProgress, progress};
pub use receipt::{Receipt, ReceiptCheck, ReceiptFacts, ReceiptFile};
pub use render::{markdown, timeline};
pub use summary::{SummarySink, Turn, summary, turns};

use agent_protocol::Object;
use agent_protocol::control::PermissionMode;
use agent_protocol::envelope::{Envelope, ErrorCode, ToolError};
use agent_protocol::event::{Caller, Event, EventBody, ModelResponded};
use agent_protocol::message::ToolCall;
use agent_protocol::model::{Purpose, StopReason};
use agent_protocol::tool::Effect;

/// Whether this is a session id: a UUID, whose characters are safe in a shell. Other names are ignored.
pub fn is_id(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    name.bytes().all(is_letter) && uuid::Uuid::parse_str(name).is_ok()
}

/// The section *Place* at the start of a recorded session.
pub fn place_section<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<String> {
    events.into_iter().find_map(|event| match &event.body {
        EventBody::SessionStarted(started) => Some(started.place.clone()),
        _ => None,
    })
}

/// The last permission mode of a recorded session.
pub fn last_permission_mode(events: Vec<&Event>) -> Option<PermissionMode> {
    events.into_iter().rev().find_map(|event| match &event.body {
        EventBody::SessionStarted(now) | EventBody::SessionResumed { now, .. } => {
            Some(now.permission_mode)
        }
        EventBody::ModeChanged { mode, .. } => Some(*mode),
        _ => None,
    })
}

/// A call of a recorded session without a result.
#[derive(Clone, Debug, PartialEq)]
pub struct UnansweredCall {
    pub call: ToolCall,
    /// True if the call was started and could have changed something: its outcome is unknown.
    pub uncertain: bool,
    /// The file for the write, with the recorded input.
    pub writes: Option<(String, Object)>,
    /// The id of the call on behalf of which the kernel made this one.
    pub parent: Option<String>,
}

impl UnansweredCall {
    fn new(call: ToolCall, parent: Option<String>) -> Self {
        Self { call, uncertain: false, writes: None, parent }
    }
}

/// The calls of the last answer without a result, because the program ended meanwhile.
pub fn unanswered_calls<'a>(events: impl IntoIterator<Item = &'a Event>) -> Vec<UnansweredCall> {
    let mut open: Vec<UnansweredCall> = Vec::new();
    for event in events {
        match &event.body {
            // Answers for summaries or plans contain no calls.
            EventBody::ModelResponded(answer)
                if answer.purpose.is_conversation() && !answer.discarded =>
            {
                let calls = answer.calls.iter().cloned();
                open.extend(calls.map(|call| UnansweredCall::new(call, None)));
            }
            EventBody::ToolStarted { call, tool, effect, input, parent_call, .. } => {
                if parent_call.is_some() {
                    let arguments = serde_json::to_string(input).unwrap_or_default();
                    let own = ToolCall { id: call.clone(), name: tool.clone(), arguments };
                    open.push(UnansweredCall::new(own, parent_call.clone()));
                }
                if let Some(unanswered) = open.iter_mut().find(|open| open.call.id == *call) {
                    unanswered.uncertain = effect.writes();
                    if let Effect::Write { path } = effect {
                        unanswered.writes = Some((path.clone(), input.clone()));
                    }
                }
            }
            EventBody::ToolFinished { call, .. } => open.retain(|open| open.call.id != *call),
            _ => {}
        }
    }
    open
}

/// The received part of an answer that was arriving when the program ended.
pub fn interrupted_answer<'a>(events: impl IntoIterator<Item = &'a Event>) -> Option<EventBody> {
    let mut partial = None;
    for event in events {
        match &event.body {
            EventBody::ModelPartial { text } => partial = Some(text),
            EventBody::ModelResponded(answer) if answer.purpose != Purpose::Main => {}
            // After a failed attempt the answer begins again.
            EventBody::ModelResponded(_)
            | EventBody::TurnFinished(_)
            | EventBody::Error { retry_in_ms: Some(_), .. }
            | EventBody::ModelFallback { .. } => partial = None,
            _ => {}
        }
    }
    let text = partial.filter(|text| !text.trim().is_empty())?;
    Some(EventBody::ModelResponded(ModelResponded {
        purpose: Purpose::Main,
        text: text.clone(),
        reasoning: String::new(),
        calls: Vec::new(),
        carried: Vec::new(),
        usage: None,
        estimate: None,
        cost_usd: None,
        discarded: false,
        stop: StopReason::Interrupted,
        time_ms: 0,
    }))
}

/// The synthetic result of an unanswered call. A resume adds it first, so that each call has exactly one result.
pub fn synthetic_result(unanswered: &UnansweredCall) -> EventBody {
    let call = &unanswered.call;
    let (message, hint) = if unanswered.uncertain {
        (
            "the session log stops during this call: its outcome is unknown",
            "check what it may have changed before you do anything else",
        )
    } else {
        (
            "the session log stops before the result of this call; it changed nothing",
            "call it again",
        )
    };
    let data =
        Object::from_iter(unanswered.uncertain.then(|| ("uncertain".to_owned(), true.into())));
    let error = ToolError {
        code: ErrorCode::Cancelled,
        message: message.to_owned(),
        hint: Some(hint.to_owned()),
    };
    let input = serde_json::from_str(&call.arguments).unwrap_or_default();
    let envelope = Envelope::refusal(error, data, input);
    EventBody::ToolFinished {
        call: call.id.clone(),
        tool: call.name.clone(),
        envelope: envelope.into(),
        synthetic: true,
        by: if unanswered.parent.is_some() { Caller::Kernel } else { Caller::Model },
        parent_call: unanswered.parent.clone(),
    }
}
