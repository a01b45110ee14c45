//! Sessions of this project whose last work taught something that was never written: the program ended before.

use std::path::Path;

use super::Storage;
use crate::learning::fold::{Harvest, harvests};
use crate::protocol::event::Body;
use crate::record::{self, Log};

/// So many of the latest sessions are looked at.
const SESSIONS: usize = 20;
/// So many of them are done at one start, and none whose record is larger.
const AT_ONCE: usize = 5;
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What one session has left.
pub(super) struct Leftover {
    pub(super) session: String,
    /// The number of the last event that was reviewed before.
    pub(super) after: u64,
    /// The number of its last event.
    pub(super) seq: u64,
    pub(super) harvests: Vec<Harvest>,
    /// Nobody else works on it as long as this lives.
    pub(super) held: Option<Log>,
}

/// What is left of other sessions, the newest first.
///
/// `reviewed`: up to which event a session was reviewed; 0: not at all. Only those are considered that were, if only
/// their beginning: others were recorded with learning turned off. One that is in use is left alone.
pub(super) fn others<'a>(
    storage: &'a Storage,
    reviewed: impl Fn(&str) -> Option<u64> + 'a,
    own: &'a str,
    project: &'a str,
) -> impl Iterator<Item = Leftover> + 'a {
    let sessions = storage.sessions().into_iter().rev().filter(move |id| id != own);
    let left = sessions.take(SESSIONS).filter_map(move |session| {
        let log = storage.log_path(&session);
        let left =
            || reviewed(&session).filter(|reviewed| *reviewed > 0 && has_more(&log, *reviewed));
        left()?;
        let held = Log::reserve(&log).ok()?;
        // Who held it has perhaps written since what it taught.
        let reviewed = left()?;
        let leftover = of(session, &log, reviewed, u64::MAX, project)?;
        Some(Leftover { held: Some(held), ..leftover })
    });
    left.take(AT_ONCE)
}

/// What a session has left between these two events.
pub(super) fn of(
    session: String,
    log: &Path,
    after: u64,
    up_to: u64,
    project: &str,
) -> Option<Leftover> {
    let size = std::fs::metadata(log).ok()?.len();
    if size > MAX_BYTES {
        return None;
    }
    let events = record::load(log).ok()?.events;
    let events: Vec<_> = events.iter().filter(|event| event.header.seq <= up_to).collect();
    let seq = events.last()?.header.seq;
    let harvests = harvests(project, events, after);
    Some(Leftover { session, after, seq, harvests, held: None })
}

/// Behind the event of this number something was done.
fn has_more(log: &Path, reviewed: u64) -> bool {
    let Ok(tail) = record::tail(log) else { return false };
    let is_old = tail.first().is_some_and(|event| event.header.seq <= reviewed);
    let mut new = tail.iter().filter(|event| event.header.seq > reviewed);
    let is_work = |body: &Body| {
        matches!(body, Body::TurnStarted { .. } | Body::ToolFinished { .. } | Body::TurnFinished(_))
    };
    if is_old { new.any(|event| is_work(&event.body)) } else { !tail.is_empty() }
}
