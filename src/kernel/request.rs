//! Records and bills model requests, whoever makes them.

use std::time::Instant;

use super::millis;
use super::spend::{Speaker, Spent};
use crate::context::Budget;
use crate::protocol::event::{Body, Events, ModelRequested, ModelResponded};
use crate::protocol::model::{Purpose, Reply, StopReason, Usage};

/// A request that was sent.
pub(super) struct Asked<'a> {
    events: &'a Events,
    speaker: &'a Speaker,
    purpose: Purpose,
    bytes: usize,
    at: Instant,
}

impl<'a> Asked<'a> {
    /// Records that the request is sent.
    pub(super) fn new(events: &'a Events, speaker: &'a Speaker, requested: ModelRequested) -> Self {
        let ModelRequested { purpose, bytes, .. } = requested;
        events.emit(Body::ModelRequested(requested));
        Self { events, speaker, purpose, bytes, at: events.clock().now() }
    }

    /// Records the answer; returns its cost.
    pub(super) fn answered(self, budget: &Budget, reply: &Reply, discarded: bool) -> Spent {
        let model_time = self.events.clock().now().duration_since(self.at);
        // The provider's count, or an estimate.
        let usage = reply.usage.unwrap_or_else(|| Usage {
            output_tokens: budget.tokens(size(reply)),
            ..sent(budget, self.bytes)
        });
        let cost_usd = self.speaker.cost(usage);
        self.events.emit(Body::ModelResponded(ModelResponded {
            purpose: self.purpose,
            text: reply.text.clone(),
            reasoning: reply.reasoning.clone(),
            calls: reply.calls.clone(),
            usage: reply.usage,
            cost_usd,
            discarded,
            stop: reply.stop.clone().unwrap_or(StopReason::End),
            time_ms: millis(model_time),
        }));
        Spent { usage, cost_usd, model_time }
    }
}

/// The usage of a request of this size, without its answer, which is unknown.
pub(super) fn sent(budget: &Budget, bytes: usize) -> Usage {
    Usage { input_tokens: budget.tokens(bytes), ..Usage::default() }
}

fn size(reply: &Reply) -> usize {
    let calls: usize = reply.calls.iter().map(|c| c.name.len() + c.arguments.len()).sum();
    reply.text.len() + reply.reasoning.len() + calls
}
