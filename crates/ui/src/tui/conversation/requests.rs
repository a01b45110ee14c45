//! Requests to models: their activity, the received data, the cost, and retries.

use std::time::{Duration, Instant};

use super::{Call, Cell, Conversation, RunningTurn, Tone, TurnActivity, format_millis};
use agent_protocol::event::{ModelRequested, ModelResponded};
use agent_protocol::model::{Purpose, StopReason, Usage};

impl Conversation {
    pub(super) fn apply_model_request(&mut self, requested: &ModelRequested, now: Instant) {
        if requested.purpose != Purpose::Main {
            self.begin_side_request(requested.purpose, now);
            return;
        }
        self.context_tokens = requested.estimated_tokens;
        self.tokens_are_estimated = true;
        self.shared_bytes = (requested.shared_bytes, requested.bytes);
        self.layers.clone_from(&requested.layers);
        self.window = requested.window;
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
            self.begin_side_request(purpose, now);
            return;
        }
        self.context_tokens = usage.total();
        self.running_cost_usd = cost_usd;
        self.set_last_data(Some(now));
        let is_waiting = |turn: &RunningTurn| {
            matches!(turn.activity, TurnActivity::Waiting | TurnActivity::Retrying { .. })
        };
        // (Of a call no text arrives.)
        if self.turn.as_ref().is_some_and(is_waiting) {
            self.set_activity(TurnActivity::Answering, now);
        }
    }

    pub(super) fn apply_retry(
        &mut self,
        message: &str,
        reason: Option<&str>,
        n: u32,
        delay: Duration,
        now: Instant,
    ) {
        let has_part = !self.streamed_answer.is_empty();
        // A repeated reason is shown once, unless a part of an answer is in between.
        let is_known = n > 1 && self.last_retry_message == message && !has_part;
        self.finish_reasoning();
        self.finish_stream();
        if !is_known {
            let delay = format_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX));
            let part = if has_part { "; the text above is discarded" } else { "" };
            self.add_note(
                Tone::Warn,
                &format!("try {n} failed: {message}{part}; the next in {delay}"),
            );
        }
        message.clone_into(&mut self.last_retry_message);
        let at = now + delay;
        self.running_cost_usd = None;
        self.set_last_data(Some(at));
        self.set_activity(
            TurnActivity::Retrying { n, at, reason: reason.map(ToOwned::to_owned) },
            now,
        );
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
        } else if answer.discarded {
            self.add_note(Tone::Warn, "this answer is not usable; the request is repeated");
        } else {
            let calls = answer.calls.iter();
            self.cells.extend(calls.map(|call| {
                Cell::Call(Box::new(Call::new(&call.id, &call.name, &call.arguments)))
            }));
        }
    }

    pub(in crate::tui) fn begin_side_request(&mut self, purpose: Purpose, now: Instant) {
        let what = match purpose {
            // Learning requests run in the background.
            Purpose::Main | Purpose::Agent | Purpose::Learn => return,
            Purpose::Reflect => "reflecting",
            Purpose::Plan => "planning",
            Purpose::Summary => "compacting",
            Purpose::Task => "verifying",
        };
        self.set_last_data(Some(now));
        self.set_activity(TurnActivity::Consulting(what), now);
    }

    /// `None`: no data is awaited.
    pub(super) fn set_last_data(&mut self, since: Option<Instant>) {
        if let Some(turn) = &mut self.turn {
            turn.last_data = since;
        }
    }
}
