//! The events of a session without those that a rewind removed.

use std::collections::BTreeMap;

use super::is_id;
use agent_protocol::event::{Event, EventBody};
use agent_protocol::tool::Effect;

/// The current events of the session's main agent, oldest first: the source of its conversation and state. A
/// rewind removes the events from a turn on; they stay in the record. Undos of earlier turns stay current.
pub fn live_events(events: &[Event]) -> Vec<&Event> {
    let mut live = live_events_of_all_agents(events);
    live.retain(|event| event.header.is_main());
    live
}

/// Like [`live_events`], with the events of sub-agents.
pub fn live_events_of_all_agents(events: &[Event]) -> Vec<&Event> {
    let mut live: Vec<&Event> = Vec::with_capacity(events.len());
    for event in events {
        if let EventBody::SessionRewound { from_turn } = event.body {
            let begin = live.iter().position(|event| {
                matches!(event.body, EventBody::TurnStarted { .. })
                    && event.header.place.turn >= from_turn
            });
            let taken_back = live.split_off(begin.unwrap_or(live.len()));
            live.extend(taken_back.into_iter().filter(|event| survives_rewind(event, from_turn)));
        }
        live.push(event);
    }
    live
}

/// An undo of an earlier turn still applies to the files, and a directory stays added.
fn survives_rewind(event: &Event, from_turn: u32) -> bool {
    match &event.body {
        EventBody::TurnUndone { undone, .. } => *undone < from_turn,
        EventBody::DirectoryAdded { .. } => true,
        _ => false,
    }
}

/// The session that this one was forked from, and the last copied turn.
pub fn forked_from(events: &[Event]) -> Option<(&str, u32)> {
    events.iter().rev().find_map(|event| match &event.body {
        EventBody::SessionForked { from, up_to } if is_id(from) => Some((from.as_str(), *up_to)),
        _ => None,
    })
}

/// The last access of the session to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastFileAccess {
    Read { mtime_ms: i64, size: u64 },
    Written { at_ms: i64 },
}

/// The files that a session has read (without its sub-agents) or written, by path, to detect changes on resume.
pub fn last_file_accesses<'a>(
    events: impl IntoIterator<Item = &'a Event>,
) -> BTreeMap<String, LastFileAccess> {
    let mut seen = BTreeMap::new();
    let mut writes = BTreeMap::new();
    for event in events {
        match &event.body {
            EventBody::ToolStarted { call, effect: Effect::Write { path }, .. } => {
                writes.insert(call.as_str(), path);
            }
            EventBody::ToolFinished { call, envelope, .. } => {
                let written = writes.remove(call.as_str());
                let number = |name: &str| envelope.stats.get(name);
                let mtime = number("file_mtime_ms").and_then(serde_json::Value::as_i64);
                let size = number("file_size_bytes").and_then(serde_json::Value::as_u64);
                if let (Some(path), None) = (written, envelope.error()) {
                    if let Some(at_ms) = parse_milliseconds(&event.header.ts) {
                        seen.insert(path.clone(), LastFileAccess::Written { at_ms });
                    }
                } else if let (Some(path), Some((mtime_ms, size))) =
                    (&envelope.context.path_resolved, mtime.zip(size))
                    && event.header.is_main()
                {
                    seen.insert(path.clone(), LastFileAccess::Read { mtime_ms, size });
                }
            }
            // The undo reports these changes.
            EventBody::TurnUndone { files, .. } => seen.retain(|path, _| !files.contains_key(path)),
            _ => {}
        }
    }
    seen
}

/// Parses a time of the record; returns milliseconds since 1970.
pub fn parse_milliseconds(ts: &str) -> Option<i64> {
    ts.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use serde_json::json;

    use super::*;

    /// `turn` is incremented by each `turn.started`, unless a body has it.
    fn events(bodies: &[serde_json::Value]) -> Vec<Event> {
        let mut turn = 0;
        let lines = bodies.iter().enumerate().map(|(n, body)| {
            if body["type"] == "turn.started" {
                turn += 1;
            }
            let mut event = json!({
                "v": 2, "seq": n + 1, "ts": "2026-11-20T12:00:00.000Z", "session": "s",
                "agent": "main", "turn": turn, "round": 0, "step": 0,
            });
            event.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
            serde_json::from_value(event).unwrap()
        });
        lines.collect()
    }

    fn said(text: &str) -> serde_json::Value {
        json!({"type": "turn.started", "input": text})
    }

    fn rewound(from_turn: u32) -> serde_json::Value {
        json!({"type": "session.rewound", "from_turn": from_turn})
    }

    fn undone(turn: u32) -> serde_json::Value {
        json!({"type": "turn.undone", "undone": turn, "files": {}})
    }

    fn check(bodies: &[serde_json::Value], expected: &[&str]) {
        let events = events(bodies);
        let live: Vec<String> = live_events(&events)
            .into_iter()
            .map(|event| match &event.body {
                EventBody::TurnStarted(message) => message.input.clone(),
                EventBody::SessionRewound { from_turn } => format!("rewound {from_turn}"),
                EventBody::TurnUndone { undone, .. } => format!("undone {undone}"),
                other => format!("{other:?}"),
            })
            .collect();
        assert_eq!(live, expected);
    }

    #[test]
    fn all_events_are_live_without_a_rewind() {
        check(&[said("a"), said("b")], &["a", "b"]);
    }

    #[test]
    fn rewind_removes_its_turn_and_later_ones() {
        check(&[said("a"), said("b"), said("c"), rewound(2)], &["a", "rewound 2"]);
        check(
            &[said("a"), said("b"), rewound(2), said("c"), said("d"), rewound(4)],
            &["a", "rewound 2", "c", "rewound 4"],
        );
        check(&[said("a"), said("b"), rewound(2), said("c"), rewound(1)], &["rewound 1"]);
    }

    #[test]
    fn undo_of_earlier_turns_survives_a_rewind() {
        check(
            &[said("a"), said("b"), undone(1), undone(2), rewound(2)],
            &["a", "undone 1", "rewound 2"],
        );
    }

    fn finished(tool: &str, call: &str, stats: &serde_json::Value) -> serde_json::Value {
        json!({"type": "tool.finished", "call": call, "tool": tool, "envelope": {
            "status": "success", "data": {}, "text": "", "stats": stats,
            "context": {"cwd": ".", "params_input": {}, "path_resolved": "a.rs"},
        }})
    }

    #[test]
    fn last_access_to_a_file_counts() {
        let read = finished("Read", "1", &json!({"file_mtime_ms": 5, "file_size_bytes": 7}));
        let writes = json!({"type": "tool.started", "call": "2", "tool": "Edit", "input": {},
            "effect": {"kind": "write", "path": "a.rs"}});
        let wrote = finished("Edit", "2", &json!({}));
        let grep = finished("Grep", "3", &json!({}));
        let seen = |bodies: &[serde_json::Value]| last_file_accesses(&events(bodies));
        let one = |seen| BTreeMap::from([("a.rs".to_owned(), seen)]);
        assert_eq!(
            seen(std::slice::from_ref(&read)),
            one(LastFileAccess::Read { mtime_ms: 5, size: 7 })
        );
        let at_ms = 1_795_176_000_000;
        assert_eq!(seen(&[read, writes, wrote]), one(LastFileAccess::Written { at_ms }));
        assert_eq!(seen(&[grep]), BTreeMap::new());
    }
}
