//! Requests to models: their activity, the received data, the cost, and retries.

use std::time::{Duration, Instant};

use super::{Call, Cell, Conversation, TurnActivity};
use agent_protocol::event::{CallProgress, ModelRequested, ModelResponded};
use agent_protocol::model::{Purpose, StopReason, Usage};
use agent_protocol::pluralize;

/// The tries of a request that have failed and are not shown yet.
#[derive(Debug, Default)]
pub(super) struct FailedTries {
    n: u64,
    /// Of the last one, in a few words.
    reason: String,
    /// Each once, one per line.
    messages: String,
}

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
        self.compacts_at = requested.compacts_at;
        self.drafts.clear();
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
        if let Some(TurnActivity::Waiting | TurnActivity::Retrying { .. }) =
            self.turn.as_ref().map(|turn| &turn.activity)
        {
            self.set_activity(TurnActivity::Answering, now);
        }
    }

    pub(super) fn update_draft(&mut self, call: Option<&CallProgress>, now: Instant) {
        if let Some(call) = call {
            self.drafts.truncate(call.number);
            self.drafts.push(call.clone());
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
        self.drafts.clear();
        self.finish_reasoning();
        self.finish_stream();
        let tries = &mut self.failed_tries;
        tries.n += 1;
        reason.unwrap_or("no usable answer").clone_into(&mut tries.reason);
        if !tries.messages.lines().any(|line| line == message) {
            tries.messages.push_str(&format!("{message}\n"));
        }
        if has_part {
            self.add_retry_note("the text above is discarded");
        }
        let at = now + Duration::from_millis(delay_ms);
        self.running_cost_usd = None;
        self.set_last_data(Some(at));
        let reason = reason.map(str::to_owned);
        self.set_activity(TurnActivity::Retrying { n, at, reason }, now);
    }

    /// One line for all of them; the status line shows each while it waits.
    pub(super) fn add_retry_note(&mut self, effect: &str) {
        let FailedTries { n: n @ 1.., reason, messages } = std::mem::take(&mut self.failed_tries)
        else {
            return;
        };
        let failed = format!("{} failed", pluralize(n, "try"));
        let effect = if effect.is_empty() { failed.as_str() } else { effect };
        self.add_kernel_note("· ", format!("{reason}: {effect}"), messages);
    }

    pub(super) fn apply_model_response(&mut self, answer: &ModelResponded) {
        self.spending.add_response(answer);
        if answer.purpose.is_of_loop() {
            self.set_last_data(None);
        }
        if answer.purpose != Purpose::Main {
            return;
        }
        self.drafts.clear();
        self.add_retry_note("");
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
        // The decision about an answer that is not used, or the end of the turn, gives the reason.
        if answer.stop != StopReason::Interrupted && !answer.discarded {
            let calls = answer.calls.iter();
            let calls = calls.map(|call| Call::new(&call.id, &call.name, &call.arguments));
            self.cells.extend(calls.map(|call| Cell::Call(Box::new(call))));
        }
    }

    pub(in crate::tui) fn begin_side_request(&mut self, purpose: Purpose, now: Instant) {
        let activity = match purpose {
            // Learning requests run in the background, and a search is shown as a call.
            Purpose::Main | Purpose::Agent | Purpose::Learn | Purpose::Search => return,
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
