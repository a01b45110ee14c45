//! What a session came to: a fold over its events.

use std::sync::{Arc, Mutex, PoisonError};

use crate::protocol::event::{Body, Event, Sink, Stamped, Summary};
use crate::protocol::model::Purpose;

/// Folds the stream into a [`Summary`]. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SummarySink(Arc<Mutex<Summary>>);

impl SummarySink {
    /// What the session came to, so far.
    pub fn summary(&self) -> Summary {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes one more event.
    pub fn apply(&self, event: &Event) {
        let mut summary = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &event.body {
            Body::TurnStarted { .. } => summary.turns += 1,
            Body::ModelResponded(answer) if answer.purpose == Purpose::Main => summary.rounds += 1,
            Body::ToolFinished { tool, envelope, .. } => {
                *summary.calls.entry(tool.clone()).or_default() += 1;
                if let Some(error) = envelope.error() {
                    *summary.failures.entry(error.code.as_str().to_owned()).or_default() += 1;
                }
            }
            Body::TurnFinished(finished) => {
                summary.usage += finished.usage;
                summary.time_ms += finished.time_ms;
                if let Some(cost) = finished.cost_usd {
                    *summary.cost_usd.get_or_insert(0.0) += cost;
                }
            }
            _ => {}
        }
    }
}

impl Sink for SummarySink {
    fn take(&mut self, stamped: &Stamped) {
        self.apply(&stamped.event);
    }
}
