//! Records and bills model requests, whoever makes them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::call_draft::CallDraft;
use super::millis;
use super::spend::{ConfiguredModel, ModelCost};
use crate::context::ContextBudget;
use agent_protocol::event::{EventBody, EventStream, ModelRequested, ModelResponded};
use agent_protocol::model::{Delta, Purpose, Reply, Request, StopReason, Usage};

/// Progress is reported after this many bytes of an answer, and after this time if fewer arrive.
const PROGRESS_BYTES: usize = 64;
const PROGRESS_TIME: Duration = Duration::from_secs(1);
/// An answer is arriving if its last data came within this time.
const ARRIVAL_TIME: Duration = Duration::from_secs(5);

/// The part of an answer that has arrived is recorded after this time, if it grew by this fraction since: what
/// is written stays in proportion to the answer.
const PARTIAL_TIME: Duration = Duration::from_secs(2);
const PARTIAL_GROWTH: usize = 8;

pub(super) struct PendingRequest<'a> {
    pub(super) events: &'a EventStream,
    pub(super) configured_model: &'a ConfiguredModel,
    purpose: Purpose,
    /// What the request shares with the previous one is expected to be in the cache.
    estimated_usage: Usage,
    sent_at: Instant,
}

impl<'a> PendingRequest<'a> {
    /// Limits the length of the answer, and emits `model.requested`.
    pub(super) fn new(
        events: &'a EventStream,
        configured_model: &'a ConfiguredModel,
        request: &mut Request<'_>,
        mut requested: ModelRequested,
    ) -> Self {
        configured_model.limit_answer(request, &mut requested);
        let ModelRequested { purpose, bytes, estimated_tokens, shared_bytes, .. } = requested;
        let share = |tokens: u64| {
            u64::try_from(u128::from(tokens) * shared_bytes as u128 / bytes.max(1) as u128)
        };
        let estimated_usage = Usage {
            input_tokens: estimated_tokens,
            cached_tokens: share(estimated_tokens).unwrap_or(estimated_tokens),
            ..Usage::default()
        };
        events.emit(EventBody::ModelRequested(requested));
        let sent_at = events.clock().now();
        Self { events, configured_model, purpose, estimated_usage, sent_at }
    }

    pub(super) fn track_progress(&'a self, budget: &'a ContextBudget) -> ReplyProgress<'a> {
        ReplyProgress {
            request: self,
            budget,
            bytes: 0,
            draft: CallDraft::default(),
            last_change: self.sent_at,
            reported: None,
            recorded: (0, self.sent_at),
        }
    }

    pub(super) fn record_reply(
        self,
        budget: &ContextBudget,
        reply: &Reply,
        discarded: bool,
    ) -> ModelCost {
        let estimate = reply.usage.is_none().then(|| self.estimate(budget, reply));
        self.configured_model.has_failed_summary.store(false, Ordering::Relaxed);
        self.emit_response(reply, estimate, discarded)
    }

    /// Records the part that had arrived when the user interrupted; returns its estimated cost.
    pub(super) fn record_interrupted_reply(
        self,
        budget: &ContextBudget,
        mut reply: Reply,
    ) -> ModelCost {
        let estimate = self.estimate(budget, &reply);
        // Its calls may be incomplete, and the provider has not counted all of it.
        reply.calls.clear();
        reply.opaque_items.clear();
        reply.usage = None;
        reply.stop = Some(StopReason::Interrupted);
        let discarded = reply.text.trim().is_empty();
        self.emit_response(&reply, Some(estimate), discarded)
    }

    fn estimate(&self, budget: &ContextBudget, reply: &Reply) -> Usage {
        Usage {
            output_tokens: budget.tokens(reply_size(reply)),
            // Some providers count the request before the answer.
            ..reply.usage.unwrap_or(Usage {
                input_tokens: self.estimated_usage.input_tokens,
                ..Usage::default()
            })
        }
    }

    fn emit_response(self, reply: &Reply, estimate: Option<Usage>, discarded: bool) -> ModelCost {
        let model_time = self.events.clock().now().duration_since(self.sent_at);
        let usage = reply.usage.or(estimate).unwrap_or_default();
        let cost_usd = self.configured_model.cost(usage);
        self.events.emit(EventBody::ModelResponded(ModelResponded {
            purpose: self.purpose,
            text: reply.text.clone(),
            reasoning: reply.reasoning.clone(),
            calls: reply.calls.clone(),
            carried: reply.opaque_items.clone(),
            usage: reply.usage,
            estimate,
            cost_usd,
            discarded,
            stop: reply.stop.clone().unwrap_or(StopReason::End),
            time_ms: millis(model_time),
        }));
        let estimated_tokens = estimate.map_or(0, |usage| usage.total());
        ModelCost { estimated_tokens, model_time, ..self.configured_model.model_cost(usage) }
    }
}

pub(super) struct ReplyProgress<'a> {
    request: &'a PendingRequest<'a>,
    budget: &'a ContextBudget,
    bytes: usize,
    draft: CallDraft,
    /// When the last data arrived, or the last attempt failed.
    last_change: Instant,
    /// Bytes at the last report, and its time.
    reported: Option<(usize, Instant)>,
    /// Bytes of the recorded text, and the time of the record.
    recorded: (usize, Instant),
}

impl ReplyProgress<'_> {
    pub(super) fn describe_arrival(&self) -> String {
        let silence = self.request.events.clock().now().duration_since(self.last_change);
        if self.bytes > 0 && silence < ARRIVAL_TIME {
            "the model's answer was still arriving".to_owned()
        } else {
            format!("no data of the model for {:.1} s", silence.as_secs_f64())
        }
    }

    pub(super) fn count_delta(&mut self, delta: &Delta) {
        self.last_change = self.request.events.clock().now();
        let mut is_news = false;
        self.bytes += match delta {
            Delta::Text(text) | Delta::Reasoning(text) | Delta::Dropped(text) => {
                self.draft = CallDraft::default();
                text.len()
            }
            Delta::Held(text) => {
                self.draft.push(usize::MAX, Some("text that may be a call"), text);
                text.len()
            }
            Delta::Call { index, name, arguments, .. } => {
                is_news = self.draft.push(*index, name.as_deref(), arguments);
                name.as_ref().map_or(0, String::len) + arguments.len()
            }
            Delta::Retry(_) => {
                (self.bytes, self.reported, self.draft) = (0, None, CallDraft::default());
                return;
            }
            Delta::Opaque { .. } | Delta::Hit(_) | Delta::Usage(_) | Delta::Done(_) => return,
        };
        let PendingRequest { events, configured_model, purpose, estimated_usage, .. } =
            *self.request;
        let now = self.last_change;
        let is_due = self.reported.is_none_or(|(bytes, at)| {
            self.bytes - bytes >= PROGRESS_BYTES || now.duration_since(at) >= PROGRESS_TIME
        });
        let is_due = is_due || is_news;
        if is_due {
            self.reported = Some((self.bytes, now));
            let usage = Usage { output_tokens: self.budget.tokens(self.bytes), ..estimated_usage };
            let cost_usd = configured_model.cost(usage);
            let call = self.draft.progress();
            events.emit(EventBody::ModelProgress { purpose, usage, cost_usd, call });
        }
    }

    pub(super) fn record_partial_text(&mut self, text: &str) {
        let (bytes, at) = self.recorded;
        let is_longer = text.len() > bytes + bytes / PARTIAL_GROWTH;
        let events = self.request.events;
        let now = events.clock().now();
        // After a retry the text begins again.
        if text.len() < bytes {
            self.recorded = (0, at);
        } else if is_longer && now.duration_since(at) >= PARTIAL_TIME {
            self.recorded = (text.len(), now);
            events.emit(EventBody::ModelPartial { text: text.to_owned() });
        }
    }
}

/// Usage without the answer, which is unknown.
pub(super) fn request_usage(budget: &ContextBudget, bytes: usize) -> Usage {
    Usage { input_tokens: budget.tokens(bytes), ..Usage::default() }
}

fn reply_size(reply: &Reply) -> usize {
    let calls: usize = reply.calls.iter().map(|c| c.name.len() + c.arguments.len()).sum();
    reply.text.len() + reply.reasoning.len() + calls
}
