//! Moments of a session that its record and its replay have in common.

use std::collections::HashMap;

use agent_protocol::event::{Event, EventBody};
use agent_protocol::model::Purpose;

/// The turn and the id of a call: the id may occur again after a rewind.
pub(super) type CallKey = (u32, String);

/// An event that both the record and the replay have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum MomentKey {
    /// The number of the process, from 0.
    ProcessStarted(usize),
    TurnStarted(u32),
    ModelRequested(u32, Purpose, u32),
    ModelResponded(u32, Purpose, u32),
    CallStarted(CallKey),
    CallFinished(CallKey),
    PermissionRequested(CallKey),
    PermissionDecided(CallKey),
    Evaluation(u32, u32),
    CheckFinished(u32, u32),
    ContextCompacted(u32, u32),
    TurnFinished(u32),
}

#[derive(Debug, Default)]
pub(super) struct MomentKeyCounter {
    n_processes: usize,
    /// The number of events by kind, turn and purpose.
    counts: HashMap<(&'static str, u32, Option<Purpose>), u32>,
}

impl MomentKeyCounter {
    pub(super) fn key_of(&mut self, event: &Event) -> Option<MomentKey> {
        let turn = event.header.place.turn;
        let mut count = |kind, purpose| {
            let count = self.counts.entry((kind, turn, purpose)).or_default();
            *count += 1;
            *count
        };
        Some(match &event.body {
            EventBody::SessionStarted(_) | EventBody::SessionResumed { .. } => {
                self.n_processes += 1;
                MomentKey::ProcessStarted(self.n_processes - 1)
            }
            EventBody::TurnStarted { .. } => MomentKey::TurnStarted(turn),
            EventBody::TurnFinished(_) => MomentKey::TurnFinished(turn),
            EventBody::ModelRequested(requested) if requested.purpose.is_of_loop() => {
                let purpose = requested.purpose;
                MomentKey::ModelRequested(turn, purpose, count("requested", Some(purpose)))
            }
            EventBody::ModelResponded(answer) if answer.purpose.is_of_loop() => {
                let purpose = answer.purpose;
                MomentKey::ModelResponded(turn, purpose, count("responded", Some(purpose)))
            }
            EventBody::ToolStarted { call, .. } => MomentKey::CallStarted((turn, call.clone())),
            EventBody::ToolFinished { call, synthetic: false, .. } => {
                MomentKey::CallFinished((turn, call.clone()))
            }
            EventBody::PermissionRequested { call, .. } => {
                MomentKey::PermissionRequested((turn, call.clone()))
            }
            EventBody::PermissionDecided { call, .. } => {
                MomentKey::PermissionDecided((turn, call.clone()))
            }
            EventBody::Evaluation { .. } => MomentKey::Evaluation(turn, count("evaluated", None)),
            EventBody::CheckFinished { .. } => {
                MomentKey::CheckFinished(turn, count("checked", None))
            }
            EventBody::ContextCompacted(_) => {
                MomentKey::ContextCompacted(turn, count("compacted", None))
            }
            _ => return None,
        })
    }
}
