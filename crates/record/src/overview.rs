//! Short descriptions of sessions, read from the beginning and end of their logs.

use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use memchr::memmem;
use serde::Serialize;

use super::is_id;
use super::live::live;
use super::log::{LogError, event_in, load};
use super::summary::summary;
use agent_protocol::disk;
use agent_protocol::event::{Body, Event, ModelRequested, SessionStarted, Summary};
use agent_protocol::model::Purpose;
use agent_protocol::provider::Effort;
use agent_protocol::spending::Spending;

/// Number of first events among which the user's first message is, if there is one.
const FIRST: usize = 10;
/// Number of bytes read from the end.
const END: u64 = 64 * 1024;

/// A line in the list of sessions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overview {
    /// The name that the user gave it.
    pub name: Option<String>,
    /// Start time.
    pub started: String,
    /// `provider/model` at the start.
    pub model: String,
    /// The user's first message; empty if there is none.
    pub task: String,
    /// The ending of its last turn; `None`: it has not ended.
    pub ending: Option<String>,
    /// Turns.
    pub turns: u32,
    /// Tokens and cost.
    #[serde(flatten)]
    pub spending: Spending,
    /// The session that it was forked from.
    pub forked_from: Option<String>,
}

/// The description of a session. The log of a session that was not closed is read completely, since it has no
/// summary.
pub fn overview(log: &Path) -> Result<Overview, LogError> {
    let (head, tail) = ends(log).map_err(LogError::io(log))?;
    let closed = closing(&tail);
    let whole = match closed {
        Some(_) => Vec::new(),
        None => load(log)?.events,
    };
    let (summary, ending) = closed.unwrap_or_else(|| (summary(&whole), ending(&whole)));
    let started = head.iter().find_map(|event| match &event.body {
        Body::SessionStarted(SessionStarted { model, .. }) => Some((&event.header.ts, model)),
        _ => None,
    });
    let (started, model) =
        started.map(|(ts, model)| (ts.clone(), model.clone())).unwrap_or_default();
    let forked_from =
        [&head, &tail, &whole].into_iter().flatten().find_map(|event| match &event.body {
            Body::SessionForked { from, .. } if is_id(from) => Some(from.clone()),
            _ => None,
        });
    let task = head.iter().find_map(|event| match &event.body {
        Body::TurnStarted { input, .. } => Some(input.clone()),
        _ => None,
    });
    Ok(Overview {
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

/// The summary and ending of a closed session, if nothing changed that since.
fn closing(tail: &[Event]) -> Option<(Summary, Option<String>)> {
    let closed = tail.iter().rposition(|event| matches!(event.body, Body::SessionSummary(_)))?;
    let Body::SessionSummary(summary) = &tail[closed].body else { return None };
    let continues = |event: &Event| {
        matches!(
            event.body,
            Body::TurnStarted { .. } | Body::SessionForked { .. } | Body::SessionRenamed { .. }
        )
    };
    if tail[closed..].iter().any(continues) {
        return None;
    }
    let ending = ending(tail);
    // A long answer may fill the part that is read.
    let is_known = ending.is_some() || summary.turns == 0;
    is_known.then(|| (summary.clone(), ending))
}

/// The ending of the last turn; `None` if the program was killed or is still working.
fn ending(events: &[Event]) -> Option<String> {
    events.iter().rev().find_map(|event| match &event.body {
        Body::TurnFinished(finished) => Some(Some(finished.ending.as_str().to_owned())),
        Body::TurnStarted { .. } => Some(None),
        Body::ModelRequested(request) if is_work(request) => Some(None),
        _ => None,
    })?
}

/// Learning requests are also made while no turn runs.
fn is_work(request: &ModelRequested) -> bool {
    request.purpose != Purpose::Learn
}

/// The first events, up to the user's first message, and the last, from the end of the last turn.
fn ends(path: &Path) -> io::Result<(Vec<Event>, Vec<Event>)> {
    let mut file = disk::open_file(path)?;
    let size = file.metadata()?.len();
    let first = BufReader::new(&mut file).split(b'\n').take(FIRST).map_while(Result::ok);
    let is_task = |event: &Event| matches!(event.body, Body::TurnStarted { .. });
    let head = until(first, is_task);
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(size.saturating_sub(END)))?;
    file.read_to_end(&mut tail)?;
    let mut is_closed = false;
    let is_ending = |event: &Event| {
        is_closed |= matches!(event.body, Body::SessionSummary(_));
        is_closed
            && match &event.body {
                Body::TurnFinished(_) => true,
                Body::ModelRequested(request) => is_work(request),
                _ => false,
            }
    };
    let mut tail = until(tail.rsplit(|byte| *byte == b'\n'), is_ending);
    tail.reverse();
    Ok((head, tail))
}

/// The directories that the user added to a session (`/add-dir`), in order. A log can be large: only their
/// lines are parsed.
pub fn directories(log: &Path) -> io::Result<Vec<String>> {
    let text = disk::read(log)?;
    let is_candidate = |line: &&[u8]| memmem::find(line, b"\"directory.added\"").is_some();
    let lines = text.split(|byte| *byte == b'\n').filter(is_candidate);
    let events = lines.filter_map(|line| event_in(line).ok());
    Ok(events
        .filter_map(|event| match event.body {
            Body::DirectoryAdded { path } => Some(path),
            _ => None,
        })
        .collect())
}

/// The model of a session and the effort that was asked of it, in its last turn; `None` before the first. A
/// log can be large: only the lines that tell it are parsed.
pub fn main_model(log: &Path) -> io::Result<Option<(String, Option<Effort>)>> {
    const TYPES: [&[u8]; 3] = [b"\"turn.started\"", b"\"model.requested\"", b"\"session.rewound\""];
    let text = disk::read(log)?;
    let is_candidate = |line: &&[u8]| TYPES.iter().any(|name| memmem::find(line, name).is_some());
    let lines = text.split(|byte| *byte == b'\n').filter(is_candidate);
    let events: Vec<Event> = lines.filter_map(|line| event_in(line).ok()).collect();
    let (mut last, mut is_begin) = (None, false);
    for event in live(&events) {
        match &event.body {
            Body::TurnStarted { .. } => is_begin = true,
            // Later in the turn another model may have replaced it.
            Body::ModelRequested(request) if is_begin && request.purpose == Purpose::Main => {
                is_begin = false;
                last = Some((request.model.clone(), request.effort));
            }
            _ => {}
        }
    }
    Ok(last)
}

/// The last events, as many as the part that is read contains.
pub fn tail(log: &Path) -> io::Result<Vec<Event>> {
    let mut file = disk::open_file(log)?;
    let size = file.metadata()?.len();
    let mut tail = Vec::new();
    file.seek(SeekFrom::Start(size.saturating_sub(END)))?;
    file.read_to_end(&mut tail)?;
    Ok(until(tail.split(|byte| *byte == b'\n'), |_| false))
}

/// The events in these lines, up to the first that `is_wanted` accepts.
fn until<Line: AsRef<[u8]>>(
    lines: impl Iterator<Item = Line>,
    mut is_wanted: impl FnMut(&Event) -> bool,
) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    for event in lines.filter_map(|line| event_in(line.as_ref()).ok()) {
        events.push(event);
        if events.last().is_some_and(&mut is_wanted) {
            break;
        }
    }
    events
}
