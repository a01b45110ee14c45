//! Requests to models: their activity, the received data, the cost, and retries.

use std::time::{Duration, Instant};

use super::{Call, Cell, Conversation, Tone, TurnActivity, format_millis};
use agent_protocol::event::{ModelRequested, ModelResponded};
use agent_protocol::model::{Purpose, StopReason, Usage};

impl Conversation {
    pub(super) fn apply_model_request(&mut self, requested: &ModelRequested, now: Instant) {
        if requested.purpose != Purpose::Main {
            return self.begin_side_request(requested.purpose, now);
        }
        self.context_tokens = requested.estimated_tokens;
        self.tokens_are_estimated = true;
        self.shared_bytes = (requested.shared_bytes, requested.bytes);
        self.layers.clone_from(&requested.layers);
        (self.window, self.window_source) = (requested.window, requested.window_source);
        self.model.clone_from(&requested.model);
        self.effort = requested.effort;
        self.set_last_data(Some(now));
        self.set_activity(TurnActivity::Waiting, now);
    }

    pub(super) fn apply_model_progress(
        &mut self,
        purpose: Purpose,
        usage: Usage,
        cost_usd: Option<f64>,
        now: Instant,
    ) {
        if purpose != Purpose::Main {
            return self.begin_side_request(purpose, now);
        }
        self.context_tokens = usage.total();
        self.running_cost_usd = cost_usd;
        self.set_last_data(Some(now));
        // (A call has no text.)
        if let Some(TurnActivity::Waiting | TurnActivity::Retrying { .. }) =
            self.turn.as_ref().map(|turn| &turn.activity)
        {
            self.set_activity(TurnActivity::Answering, now);
        }
    }

    pub(super) fn apply_retry(
        &mut self,
        message: &str,
        reason: Option<&str>,
        n: u32,
        delay_ms: u64,
        now: Instant,
    ) {
        let has_part = !self.streamed_answer.is_empty();
        // A repeated reason is shown once, unless a part of an answer is in between.
        let is_known = n > 1 && self.last_retry_message == message && !has_part;
        self.finish_reasoning();
        self.finish_stream();
        if !is_known {
            let part = if has_part { "; the text above is discarded" } else { "" };
            let delay = format_millis(delay_ms);
            let text = format!("try {n} failed: {message}{part}; the next in {delay}");
            self.add_note(Tone::Warn, &text);
        }
        message.clone_into(&mut self.last_retry_message);
        let at = now + Duration::from_millis(delay_ms);
        self.running_cost_usd = None;
        self.set_last_data(Some(at));
        let reason = reason.map(str::to_owned);
        self.set_activity(TurnActivity::Retrying { n, at, reason }, now);
    }

    pub(super) fn apply_model_response(&mut self, answer: &ModelResponded) {
        self.spending.add_response(answer);
        // Learning requests run in the background.
        if answer.purpose != Purpose::Learn {
            self.set_last_data(None);
        }
        if answer.purpose != Purpose::Main {
            return;
        }
        if self.reasoning.is_empty() && self.streamed_answer.is_empty() {
            self.reasoning.clone_from(&answer.reasoning);
        }
        self.finish_reasoning();
        if !self.streamed_answer.is_empty() {
            self.finish_stream();
        } else if !answer.text.is_empty() {
            self.cells.push(Cell::Answer(answer.text.clone()));
        }
        if let Some(usage) = answer.usage.or(answer.estimate) {
            self.context_tokens = usage.total();
            self.tokens_are_estimated = answer.usage.is_none();
        }
        self.running_cost_usd = None;
        if answer.stop == StopReason::Interrupted {
            // The end of the turn reports this.
        } else if answer.stop == StopReason::Repetition {
            self.add_note(Tone::Warn, "this answer repeated itself and was stopped");
        } else if answer.discarded {
            self.add_note(Tone::Warn, "this answer is not usable; the request is repeated");
        } else {
            let calls = answer.calls.iter();
            let calls = calls.map(|call| Call::new(&call.id, &call.name, &call.arguments));
            self.cells.extend(calls.map(|call| Cell::Call(Box::new(call))));
        }
    }

    pub(in crate::tui) fn begin_side_request(&mut self, purpose: Purpose, now: Instant) {
        let activity = match purpose {
            // Learning requests run in the background.
            Purpose::Main | Purpose::Agent | Purpose::Learn => return,
            Purpose::Reflect => "reflecting",
            Purpose::Plan => "planning",
            Purpose::Summary => "compacting",
            Purpose::Task => "verifying",
        };
        self.set_last_data(Some(now));
        self.set_activity(TurnActivity::Consulting(activity), now);
    }

    /// `None`: no data is awaited.
    pub(super) fn set_last_data(&mut self, since: Option<Instant>) {
        if let Some(turn) = &mut self.turn {
            turn.last_data = since;
        }
    }
}
