//! Moments of a session that its record and its replay have in common.

use std::collections::HashMap;

use agent_protocol::event::{Body, Event};
use agent_protocol::model::Purpose;

/// A call: its turn and its id, which may occur again after a rewind.
pub(super) type CallKey = (u32, String);

/// A moment: an event that both have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// The number of the process, from 0.
    Begun(usize),
    Turn(u32),
    Requested(u32, Purpose, u32),
    Responded(u32, Purpose, u32),
    Started(CallKey),
    Finished(CallKey),
    Asked(CallKey),
    Decided(CallKey),
    Evaluated(u32, u32),
    Checked(u32, u32),
    Compacted(u32, u32),
    TurnEnded(u32),
}

/// Gives each event its key, in order.
#[derive(Debug, Default)]
pub(super) struct Keys {
    n_processes: usize,
    /// By the kind of event, the turn and the purpose.
    counts: HashMap<(&'static str, u32, Option<Purpose>), u32>,
}

impl Keys {
    pub(super) fn of(&mut self, event: &Event) -> Option<Key> {
        let turn = event.header.place.turn;
        let mut count = |kind, purpose| {
            let count = self.counts.entry((kind, turn, purpose)).or_default();
            *count += 1;
            *count
        };
        Some(match &event.body {
            Body::SessionStarted(_) | Body::SessionResumed { .. } => {
                self.n_processes += 1;
                Key::Begun(self.n_processes - 1)
            }
            Body::TurnStarted { .. } => Key::Turn(turn),
            Body::TurnFinished(_) => Key::TurnEnded(turn),
            Body::ModelRequested(requested) if requested.purpose != Purpose::Learn => {
                let purpose = requested.purpose;
                Key::Requested(turn, purpose, count("requested", Some(purpose)))
            }
            Body::ModelResponded(answer) if answer.purpose != Purpose::Learn => {
                let purpose = answer.purpose;
                Key::Responded(turn, purpose, count("responded", Some(purpose)))
            }
            Body::ToolStarted { call, .. } => Key::Started((turn, call.clone())),
            Body::ToolFinished { call, synthetic: false, .. } => {
                Key::Finished((turn, call.clone()))
            }
            Body::PermissionRequested { call, .. } => Key::Asked((turn, call.clone())),
            Body::PermissionDecided { call, .. } => Key::Decided((turn, call.clone())),
            Body::Evaluation { .. } => Key::Evaluated(turn, count("evaluated", None)),
            Body::CheckFinished { .. } => Key::Checked(turn, count("checked", None)),
            Body::ContextCompacted(_) => Key::Compacted(turn, count("compacted", None)),
            _ => return None,
        })
    }
}
