//! Requests to a model in the background: nothing waits for them, and the running turn pays for them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;

use super::consult::described;
use super::request::{Asked, sent};
use super::spend::{Speaker, Spent};
use crate::context::Budget;
use agent_protocol::control::Control;
use agent_protocol::event::Events;
use agent_protocol::message::{Message, Role};
use agent_protocol::model::{Delta, ModelErrorKind, Purpose, Reply, Request, Usage};

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Token limit of an answer, including its reasoning.
const ANSWER_TOKENS: u64 = 2000;

/// Sends requests in the background.
pub struct BackgroundRequest {
    speaker: Speaker,
    events: Events,
    control: Control,
    spend_limit: SpendLimit,
    budget: Budget,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// It could cost more than the turn may still spend: nothing was sent.
    TooExpensive,
    /// The user interrupted, before or after the request was sent.
    Interrupted,
    /// No model answers.
    Failed(String),
    /// The scripted model has no answer for this purpose.
    NotScripted,
}

impl BackgroundRequest {
    /// Requests to this model, recorded in `events` and limited by `spend_limit`.
    pub fn new(
        speaker: Speaker,
        events: Events,
        control: Control,
        spend_limit: SpendLimit,
    ) -> Self {
        // The window is not used here; token counts are estimates until a provider has counted.
        let budget = Budget::new(speaker.model.id(), speaker.context_window, 1.0);
        Self { speaker, events, control, spend_limit, budget }
    }

    /// Sends one request of this purpose, without retries. `is_useful` says whether the answer is usable.
    pub async fn ask(
        &self,
        purpose: Purpose,
        system: &str,
        text: &str,
        schema: &serde_json::Value,
        is_useful: impl Fn(&Reply) -> bool,
    ) -> Result<Reply, Unanswered> {
        let messages = [Message::text(Role::User, text)];
        let limit = self.speaker.at_most(ANSWER_TOKENS);
        let request = Request {
            max_output_tokens: Some(limit),
            temperature: self.speaker.temperature,
            effort: self.speaker.effort,
            answer_schema: Some(schema),
            ..Request::new(purpose, system, &messages)
        };
        let requested = described(&self.speaker, &request, &self.budget);
        let sent = sent(&self.budget, requested.bytes);
        let at_most = self.speaker.cost(Usage { output_tokens: limit, ..sent });
        if !self.spend_limit.affords(at_most) {
            return Err(Unanswered::TooExpensive);
        }
        // An interrupt lasts until the next turn begins.
        if self.control.interrupted().is_some() {
            return Err(Unanswered::Interrupted);
        }
        let asked = Asked::new(&self.events, &self.speaker, requested);
        let answering = tokio::time::timeout(PATIENCE, self.answer(&request));
        let reply = match self.control.cancel().run_until_cancelled(answering).await {
            Some(Ok(reply)) => reply?,
            late => {
                // The request was sent, so it is paid for; the length of the answer is not known.
                self.spend_limit.pay(self.speaker.paid(sent));
                return Err(match late {
                    Some(_) => Unanswered::Failed("no answer in time".to_owned()),
                    None => Unanswered::Interrupted,
                });
            }
        };
        self.spend_limit.pay(asked.answered(&self.budget, &reply, !is_useful(&reply)));
        Ok(reply)
    }

    async fn answer(&self, request: &Request<'_>) -> Result<Reply, Unanswered> {
        let mut stream = self.speaker.model.stream(request);
        let mut reply = Reply::default();
        while let Some(delta) = stream.next().await {
            let delta = delta.map_err(|error| match error.kind {
                ModelErrorKind::Script => Unanswered::NotScripted,
                _ => Unanswered::Failed(error.message),
            })?;
            if let Delta::Retry(retry) = &delta {
                // A busy model is left to the turn.
                return Err(Unanswered::Failed(retry.error.clone()));
            }
            reply.fold(&delta);
        }
        match reply.stop {
            Some(_) => Ok(reply),
            None => {
                Err(Unanswered::Failed("the model's answer broke off before its end".to_owned()))
            }
        }
    }
}

/// The cost of background requests and sub-agents until the loop counts it, and the budget that the turn has left.
#[derive(Clone, Default)]
pub struct SpendLimit(Arc<Mutex<Contents>>);

struct Contents {
    spent: Spent,
    left_usd: Option<f64>,
}

impl Default for Contents {
    fn default() -> Self {
        Self { spent: Spent::nothing(), left_usd: None }
    }
}

impl SpendLimit {
    /// Moves the cost so far into the loop's count.
    pub(super) fn settle(&self, spent: &mut Spent) {
        let background = std::mem::replace(&mut self.contents().spent, Spent::nothing());
        spent.add(background);
    }

    /// Sets the remaining budget; `None`: no limit.
    pub(super) fn may_spend(&self, left_usd: Option<f64>) {
        self.contents().left_usd = left_usd;
    }

    /// The budget is used up, as far as costs are known.
    pub(super) fn is_used_up(&self) -> bool {
        let contents = self.contents();
        let spent = contents.spent.cost_usd;
        contents.left_usd.zip(spent).is_some_and(|(left, spent)| spent >= left)
    }

    fn affords(&self, cost_usd: Option<f64>) -> bool {
        let contents = self.contents();
        let Some(left) = contents.left_usd else { return true };
        let background = contents.spent.cost_usd;
        cost_usd.zip(background).is_some_and(|(cost, background)| cost + background < left)
    }

    pub(super) fn pay(&self, spent: Spent) {
        // The loop did not wait for it.
        self.contents().spent.add(Spent { model_time: Duration::ZERO, ..spent });
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
