//! Requests to a model in the background: nothing waits for them, and the running turn pays for them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};

use super::consult::describe_request;
use super::request::{PendingRequest, request_usage};
use super::spend::{ConfiguredModel, ModelCost};
use crate::context::ContextBudget;
use agent_protocol::control::SessionControl;
use agent_protocol::event::EventStream;
use agent_protocol::message::{Message, Role};
use agent_protocol::model::{Delta, ModelErrorKind, Purpose, Reply, Request, Usage};

const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Including its reasoning.
const ANSWER_TOKENS: u64 = 2000;

/// Sends requests in the background.
pub struct BackgroundRequester {
    configured_model: ConfiguredModel,
    events: EventStream,
    control: SessionControl,
    spend_limit: SpendLimit,
    budget: ContextBudget,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackgroundRequestError {
    /// The request could cost more than the turn may still spend: nothing was sent.
    TooExpensive,
    /// Before or after the request was sent.
    Interrupted,
    Failed(String),
    /// The scripted model has no answer for this purpose.
    NotScripted,
}

impl BackgroundRequester {
    /// Requests to this model, recorded in `events` and limited by `spend_limit`.
    pub fn new(
        speaker: ConfiguredModel,
        events: EventStream,
        control: SessionControl,
        spend_limit: SpendLimit,
    ) -> Self {
        // The window is not used here; token counts are estimates until a provider has counted.
        let budget = ContextBudget::new(speaker.model.id(), speaker.context_window, 1.0);
        Self { configured_model: speaker, events, control, spend_limit, budget }
    }

    /// Sends one request of this purpose, without retries. `is_useful` says whether the answer is usable.
    pub async fn send_request(
        &self,
        purpose: Purpose,
        system: &str,
        text: &str,
        schema: &serde_json::Value,
        is_useful: impl Fn(&Reply) -> bool,
    ) -> Result<Reply, BackgroundRequestError> {
        let messages = [Message::text(Role::User, text)];
        let limit = self.configured_model.output_token_limit(ANSWER_TOKENS);
        let request = Request {
            max_output_tokens: Some(limit),
            temperature: self.configured_model.temperature,
            effort: self.configured_model.effort,
            answer_schema: Some(schema),
            ..Request::new(purpose, system, &messages)
        };
        let requested = describe_request(&self.configured_model, &request, &self.budget);
        let sent = request_usage(&self.budget, requested.bytes);
        let at_most = self.configured_model.cost(Usage { output_tokens: limit, ..sent });
        if !self.spend_limit.can_afford(at_most) {
            return Err(BackgroundRequestError::TooExpensive);
        }
        // An interrupt lasts until the next turn begins.
        if self.control.interrupt_cause().is_some() {
            return Err(BackgroundRequestError::Interrupted);
        }
        let pending = PendingRequest::new(&self.events, &self.configured_model, requested);
        let answering = tokio::time::timeout(REPLY_TIMEOUT, self.receive_reply(&request));
        let reply = match self.control.cancellation_token().run_until_cancelled(answering).await {
            Some(Ok(reply)) => reply?,
            late => {
                // The request was sent, so it is paid for; the length of the answer is not known.
                self.spend_limit.charge(self.configured_model.estimated_cost(sent));
                return Err(match late {
                    Some(_) => BackgroundRequestError::Failed("no answer in time".to_owned()),
                    None => BackgroundRequestError::Interrupted,
                });
            }
        };
        self.spend_limit.charge(pending.record_reply(&self.budget, &reply, !is_useful(&reply)));
        Ok(reply)
    }

    async fn receive_reply(&self, request: &Request<'_>) -> Result<Reply, BackgroundRequestError> {
        let mut stream = self.configured_model.model.stream(request);
        let mut reply = Reply::default();
        while let Some(delta) = stream.next().await {
            let delta = delta.map_err(|error| match error.kind {
                ModelErrorKind::Script => BackgroundRequestError::NotScripted,
                _ => BackgroundRequestError::Failed(error.message),
            })?;
            if let Delta::Retry(retry) = &delta {
                // A busy model is left to the turn.
                return Err(BackgroundRequestError::Failed(retry.error.clone()));
            }
            reply.apply_delta(&delta);
        }
        match reply.stop {
            Some(_) => Ok(reply),
            None => Err(BackgroundRequestError::Failed(
                "the model's answer broke off before its end".to_owned(),
            )),
        }
    }
}

/// The cost of background requests and sub-agents until the loop counts it, and the budget that the turn has left.
#[derive(Clone, Default)]
pub struct SpendLimit(Arc<Mutex<SpendState>>);

struct SpendState {
    spent: ModelCost,
    left_usd: Option<f64>,
}

impl Default for SpendState {
    fn default() -> Self {
        Self { spent: ModelCost::zero(), left_usd: None }
    }
}

impl SpendLimit {
    pub(super) fn drain_into(&self, spent: &mut ModelCost) {
        let background = std::mem::replace(&mut self.state().spent, ModelCost::zero());
        spent.add(background);
    }

    /// `None`: no limit.
    pub(super) fn set_remaining_budget(&self, left_usd: Option<f64>) {
        self.state().left_usd = left_usd;
    }

    /// As far as costs are known.
    pub(super) fn is_used_up(&self) -> bool {
        let contents = self.state();
        let spent = contents.spent.cost_usd;
        contents.left_usd.zip(spent).is_some_and(|(left, spent)| spent >= left)
    }

    fn can_afford(&self, cost_usd: Option<f64>) -> bool {
        let contents = self.state();
        let Some(left) = contents.left_usd else { return true };
        let background = contents.spent.cost_usd;
        cost_usd.zip(background).is_some_and(|(cost, background)| cost + background < left)
    }

    pub(super) fn charge(&self, spent: ModelCost) {
        // The loop did not wait for it.
        self.state().spent.add(ModelCost { model_time: Duration::ZERO, ..spent });
    }

    fn state(&self) -> MutexGuard<'_, SpendState> {
        self.0.lock()
    }
}
