//! Short descriptions of sessions, read from the beginning and end of their logs.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use memchr::memmem;
use serde::Serialize;

use super::is_id;
use super::live_events::live_events;
use super::log::{LogError, load_session, parse_event};
use super::summary::summary;
use agent_protocol::control::Ending;
use agent_protocol::disk;
use agent_protocol::event::{Event, EventBody, ModelRequested, SessionSummary};
use agent_protocol::model::Purpose;
use agent_protocol::provider::Effort;
use agent_protocol::spending::Spending;

/// The user's first message is among this number of first events, if there is one.
const HEAD_EVENTS: usize = 10;
const TAIL_BYTES: u64 = 64 * 1024;

/// A line in the list of sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionOverview {
    pub name: Option<String>,
    pub started: String,
    /// `provider/model` at the start.
    pub model: String,
    /// The user's first message; empty if there is none.
    pub task: String,
    /// The ending of the last turn; `None` before its end.
    pub ending: Option<Ending>,
    pub turns: u32,
    #[serde(flatten)]
    pub spending: Spending,
    pub forked_from: Option<String>,
}

/// Reads the overview of a session. The log of one that was not closed is read completely: it has no summary.
pub fn read_overview(log: &Path) -> Result<SessionOverview, LogError> {
    let (head, tail) = read_ends(log).map_err(LogError::io(log))?;
    let closed = closing_summary(&tail);
    let whole = if closed.is_some() { Vec::new() } else { load_session(log)?.events };
    let (summary, ending) = closed.unwrap_or_else(|| (summary(&whole), last_turn_ending(&whole)));
    let (started, model) = session_start(&head);
    let forked_from =
        [&head, &tail, &whole].into_iter().flatten().find_map(|event| match &event.body {
            EventBody::SessionForked { from, .. } if is_id(from) => Some(from.clone()),
            _ => None,
        });
    let task = head.iter().find_map(|event| match &event.body {
        EventBody::TurnStarted(message) => Some(message.input.clone()),
        _ => None,
    });
    Ok(SessionOverview {
        name: summary.name,
        started,
        model,
        task: task.unwrap_or_default(),
        ending,
        turns: summary.turns,
        spending: summary.spending,
        forked_from,
    })
}

/// The start time, and the model at the start; empty if the record does not contain them.
fn session_start(events: &[Event]) -> (String, String) {
    let start = events.iter().find_map(|event| match &event.body {
        EventBody::SessionStarted(started) => {
            Some((event.header.ts.clone(), started.model.clone()))
        }
        _ => None,
    });
    start.unwrap_or_default()
}

/// `None` if the session was not closed, or continued since.
fn closing_summary(tail: &[Event]) -> Option<(SessionSummary, Option<Ending>)> {
    let closed =
        tail.iter().rposition(|event| matches!(event.body, EventBody::SessionSummary(_)))?;
    let EventBody::SessionSummary(summary) = &tail[closed].body else { return None };
    let continues = |event: &Event| {
        matches!(
            event.body,
            EventBody::TurnStarted { .. }
                | EventBody::SessionForked { .. }
                | EventBody::SessionRenamed { .. }
        )
    };
    if tail[closed..].iter().any(continues) {
        return None;
    }
    let ending = last_turn_ending(tail);
    // A long answer may fill the bytes that are read.
    let is_known = ending.is_some() || summary.turns == 0;
    is_known.then(|| (summary.clone(), ending))
}

/// `None` if the program was killed or is still working.
fn last_turn_ending(events: &[Event]) -> Option<Ending> {
    events.iter().rev().find_map(|event| match &event.body {
        EventBody::TurnFinished(finished) => Some(Some(finished.ending)),
        EventBody::TurnStarted { .. } => Some(None),
        EventBody::ModelRequested(request) if is_work(request) => Some(None),
        _ => None,
    })?
}

/// Learning requests are also made outside of turns.
fn is_work(request: &ModelRequested) -> bool {
    request.purpose != Purpose::Learn
}

/// The first events, up to the user's first message, and the last, from the end of the last turn.
fn read_ends(path: &Path) -> io::Result<(Vec<Event>, Vec<Event>)> {
    let mut file = disk::open_file(path)?;
    let first = BufReader::new(&mut file).split(b'\n').take(HEAD_EVENTS).map_while(Result::ok);
    let is_task = |event: &Event| matches!(event.body, EventBody::TurnStarted { .. });
    let head = events_until(first, is_task);
    let begin = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(begin))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let mut is_closed = false;
    let is_ending = |event: &Event| {
        is_closed |= matches!(event.body, EventBody::SessionSummary(_));
        is_closed
            && match &event.body {
                EventBody::TurnFinished(_) => true,
                EventBody::ModelRequested(request) => is_work(request),
                _ => false,
            }
    };
    let mut tail = events_until(tail.rsplit(|byte| *byte == b'\n'), is_ending);
    tail.reverse();
    Ok((head, tail))
}

/// The directories that the user added to a session (`/add-dir`), in order.
pub fn added_directories(log: &Path) -> io::Result<Vec<String>> {
    let events = read_events_with(log, &[b"\"directory.added\""])?.into_iter();
    let paths = events.filter_map(|event| match event.body {
        EventBody::DirectoryAdded { path } => Some(path),
        _ => None,
    });
    Ok(paths.collect())
}

/// The model and the requested effort of the last turn of a session; `None` before the first turn.
pub fn last_main_model(log: &Path) -> io::Result<Option<(String, Option<Effort>)>> {
    const TYPES: [&[u8]; 3] = [b"\"turn.started\"", b"\"model.requested\"", b"\"session.rewound\""];
    let events = read_events_with(log, &TYPES)?;
    let (mut last, mut is_begin) = (None, false);
    for event in live_events(&events) {
        match &event.body {
            EventBody::TurnStarted { .. } => is_begin = true,
            // Another model may replace this one later in the turn.
            EventBody::ModelRequested(request) if is_begin && request.purpose == Purpose::Main => {
                is_begin = false;
                last = Some((request.model.clone(), request.effort));
            }
            _ => {}
        }
    }
    Ok(last)
}

/// A log can be large: only the lines that contain one of these texts are parsed.
fn read_events_with(log: &Path, texts: &[&[u8]]) -> io::Result<Vec<Event>> {
    let log = disk::read_file(log)?;
    let is_candidate = |line: &&[u8]| texts.iter().any(|text| memmem::find(line, text).is_some());
    let lines = log.split(|byte| *byte == b'\n').filter(is_candidate);
    Ok(lines.filter_map(|line| parse_event(line).ok()).collect())
}

/// Ends with the first event that `is_last` accepts.
fn events_until<Line: AsRef<[u8]>>(
    lines: impl Iterator<Item = Line>,
    mut is_last: impl FnMut(&Event) -> bool,
) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for event in lines.filter_map(|line| parse_event(line.as_ref()).ok()) {
        events.push(event);
        if events.last().is_some_and(&mut is_last) {
            break;
        }
    }
    events
}
