//! Reads a record of any version for views: counts unreadable parts, which [`load_session`](super::load_session) refuses.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::log::{LAST_TURN, LogError, process_in_parts};
use agent_protocol::disk;
use agent_protocol::event::{Event, FORMAT_VERSION};
use agent_protocol::{pluralize, shorten};

const MAX_NAMED: usize = 3;
const MAX_KIND: usize = 40;

/// The understood part of a recorded session.
#[derive(Debug, Default)]
pub struct PartialRecord {
    pub events: Vec<Event>,
    pub gaps: RecordGaps,
}

/// Counts of the parts of a record that are not understood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordGaps {
    /// The format version of the record, if it differs from that of this program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<u64>,
    /// Number of events per kind that is unknown or has unknown fields.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub events: BTreeMap<String, usize>,
    pub lines: usize,
    pub torn: bool,
}

impl RecordGaps {
    /// Whether everything is understood.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A description in one line; empty if everything is understood.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        if let Some(format) = self.format {
            let which = if format < u64::from(FORMAT_VERSION) { "an older" } else { "a newer" };
            parts.push(format!(
                "recorded by {which} version of agent (event format {format}, this version reads {FORMAT_VERSION})"
            ));
        }
        let n_events: usize = self.events.values().sum();
        if n_events > 0 {
            let names = self.events.iter().take(MAX_NAMED).map(|(kind, n)| format!("{kind} {n}"));
            let mut names = names.collect::<Vec<_>>().join(", ");
            if self.events.len() > MAX_NAMED {
                names.push_str(", …");
            }
            let events = pluralize(n_events as u64, "event");
            parts.push(format!("{events} not understood and left out ({names})"));
        }
        if self.lines > 0 {
            let lines = pluralize(self.lines as u64, "line");
            let are = if self.lines == 1 { "is no event" } else { "are no events" };
            parts.push(format!("{lines} {are}"));
        }
        if self.torn {
            parts.push("the last line is torn and is left out".to_owned());
        }
        parts.join("; ")
    }

    fn add(&mut self, other: Self) {
        self.format = self.format.max(other.format);
        for (kind, n) in other.events {
            *self.events.entry(kind).or_default() += n;
        }
        self.lines += other.lines;
    }
}

/// Reads a session. Fails only on I/O errors.
pub fn read_partially(path: &Path) -> Result<PartialRecord, LogError> {
    let text = disk::read_file(path).map_err(LogError::io(path))?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut all = PartialRecord::default();
    for mut part in process_in_parts(&text[..whole], PartialRecord::parse) {
        all.events.append(&mut part.events);
        all.gaps.add(part.gaps);
    }
    all.gaps.torn = whole < text.len();
    Ok(all)
}

impl PartialRecord {
    fn parse(lines: &[u8]) -> Self {
        let mut part = Self::default();
        lines.split_inclusive(|byte| *byte == b'\n').for_each(|line| part.add_line(line));
        part
    }

    fn add_line(&mut self, line: &[u8]) {
        #[derive(Deserialize)]
        struct TypeFields {
            v: u64,
            #[serde(rename = "type")]
            kind: String,
        }
        if let Ok(event) = serde_json::from_slice::<Event>(line)
            && event.header.place.turn <= LAST_TURN
        {
            self.count_gap(event.header.v.into());
            self.events.push(event);
        } else if let Ok(TypeFields { v, kind }) = serde_json::from_slice(line) {
            self.count_gap(v);
            *self.gaps.events.entry(shorten(&kind, MAX_KIND)).or_default() += 1;
        } else {
            self.gaps.lines += 1;
        }
    }

    fn count_gap(&mut self, format: u64) {
        if format != u64::from(FORMAT_VERSION) {
            self.gaps.format = self.gaps.format.max(Some(format));
        }
    }
}
