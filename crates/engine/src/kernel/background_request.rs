//! Requests to a model beside the loop, which the running turn pays for: to learn, and to search the web.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use parking_lot::Mutex;

use super::answer_guard::AnswerGuard;
use super::consult::describe_request;
use super::request::{PendingRequest, request_usage};
use super::spend::{ConfiguredModel, ModelCost};
use super::{Kernel, KernelParts};
use crate::context::ContextBudget;
use agent_protocol::control::SessionControl;
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::event::EventStream;
use agent_protocol::message::{Message, Role};
use agent_protocol::model::{Delta, ModelErrorKind, Purpose, Reply, Request, Usage};
use agent_protocol::prompt::{Prompt, Prompts};
use agent_protocol::web::{SearchHit, SearchQuery};

const SEARCH: Prompt = Prompt::named("search.md");
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Some models reason before and after they search.
const SEARCH_TOKENS: u64 = 4000;
const SEARCH_TIMEOUT: Duration = Duration::from_secs(90);
/// Limit of an answer with its reasoning.
const ANSWER_TOKENS: u64 = 2000;

/// Sends requests beside the loop.
pub struct BackgroundRequester {
    configured_model: ConfiguredModel,
    events: EventStream,
    control: SessionControl,
    spend_limit: SpendLimit,
    budget: ContextBudget,
    uses_local_server: bool,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackgroundRequestError {
    /// The request could cost more than the turn may still spend: nothing was sent.
    TooExpensive,
    Interrupted,
    Failed(String),
    /// The scripted model has no answer for this purpose.
    NotScripted,
}

impl Kernel {
    /// Sends requests to the light model in the background.
    pub fn background_requester(&self) -> BackgroundRequester {
        let KernelParts { main, light, events, control, spend_limit, .. } = &self.parts;
        let requester = BackgroundRequester::new(light.clone(), events, control, spend_limit);
        BackgroundRequester { uses_local_server: main.is_local && light.is_local, ..requester }
    }
}

impl BackgroundRequester {
    /// For requests to this model, with these events and at the cost of this turn.
    pub fn new(
        configured_model: ConfiguredModel,
        events: &EventStream,
        control: &SessionControl,
        spend_limit: &SpendLimit,
    ) -> Self {
        Self {
            uses_local_server: configured_model.is_local,
            // The window is not used here; token counts are estimates until a provider has counted.
            budget: ContextBudget::new(configured_model.model.id(), configured_model.window, 1.0),
            configured_model,
            events: events.clone(),
            control: control.clone(),
            spend_limit: spend_limit.clone(),
        }
    }

    /// Whether the session's models are all on local servers: a request may delay the user's next one.
    pub fn uses_local_server(&self) -> bool {
        self.uses_local_server
    }

    /// Has the provider of the model search the web. Pages that its answer cites come first.
    pub async fn search(
        &self,
        prompts: &Prompts,
        query: &SearchQuery,
    ) -> Result<Vec<SearchHit>, Failure> {
        let id = self.configured_model.model.id();
        let failed = |why: &str| {
            Failure::new(ErrorCode::ExecutionError, format!("{id} did not search: {why}"))
        };
        if !self.configured_model.searches {
            return Err(failed("its provider is not known to search the web for it")
                .with_hint("the user can configure a service, web.search"));
        }
        let words = format!("{}{}", query.words, query.operators().concat());
        let messages = [Message::text(Role::User, words)];
        let system = prompts.text(SEARCH).trim_end();
        let request =
            Request { search: Some(query), ..Request::new(Purpose::Search, system, &messages) };
        let reply = self.send_request(request, |reply| !reply.hits.is_empty()).await;
        let reply = reply.map_err(|error| match error {
            BackgroundRequestError::Failed(why) => failed(&why),
            BackgroundRequestError::TooExpensive => {
                failed("it could cost more than the turn may still spend")
            }
            BackgroundRequestError::Interrupted | BackgroundRequestError::NotScripted => {
                failed("it was interrupted")
            }
        });
        let Reply { mut hits, usage, .. } = reply?;
        if hits.is_empty() && usage.is_none_or(|usage| usage.searches == 0) {
            return Err(failed("its answer reports no search"));
        }
        hits.sort_by_key(|hit| hit.excerpt.is_empty());
        Ok(hits)
    }

    /// Sends the request with the settings of the model, without retries. `is_useful` says whether the answer is usable.
    pub async fn send_request(
        &self,
        request: Request<'_>,
        is_useful: impl Fn(&Reply) -> bool,
    ) -> Result<Reply, BackgroundRequestError> {
        let (searches, answer_tokens, patience) = match request.search {
            Some(_) => (1, SEARCH_TOKENS, SEARCH_TIMEOUT),
            None => (0, ANSWER_TOKENS, REPLY_TIMEOUT),
        };
        let mut request = Request {
            max_output_tokens: Some(answer_tokens),
            temperature: self.configured_model.temperature,
            effort: self.configured_model.effort,
            ..request
        };
        let requested = describe_request(&self.configured_model, &request, &self.budget);
        let sent = Usage { searches, ..request_usage(&self.budget, requested.bytes) };
        let at_most = self.configured_model.cost(Usage { output_tokens: answer_tokens, ..sent });
        if !self.spend_limit.can_afford(at_most) {
            return Err(BackgroundRequestError::TooExpensive);
        }
        // An interrupt lasts until the next turn begins.
        if self.control.interrupt_cause().is_some() {
            return Err(BackgroundRequestError::Interrupted);
        }
        let configured_model = &self.configured_model;
        let pending = PendingRequest::new(&self.events, configured_model, &mut request, requested);
        let mut unanswered = UnansweredRequest { requester: self, usage: Some(sent) };
        let answering = tokio::time::timeout(patience, self.receive_reply(&request));
        let answer = self.control.cancellation_token().run_until_cancelled(answering).await;
        let answer = answer.ok_or(BackgroundRequestError::Interrupted)?;
        let answer =
            answer.map_err(|_| BackgroundRequestError::Failed("no answer in time".to_owned()))?;
        unanswered.usage = None;
        let reply = answer?;
        self.spend_limit.charge(pending.record_reply(&self.budget, &reply, !is_useful(&reply)));
        Ok(reply)
    }

    async fn receive_reply(&self, request: &Request<'_>) -> Result<Reply, BackgroundRequestError> {
        let mut stream = self.configured_model.model.stream(request);
        let mut reply = Reply::default();
        let mut guard = AnswerGuard::new(request.max_output_tokens);
        while let Some(delta) = stream.next().await {
            let mut delta = delta.map_err(|error| match error.kind {
                ModelErrorKind::Script => BackgroundRequestError::NotScripted,
                _ => BackgroundRequestError::Failed(error.message),
            })?;
            if let Delta::Retry(retry) = &delta {
                // A busy model is left to the turn.
                return Err(BackgroundRequestError::Failed(retry.error.clone()));
            }
            if guard.add_delta(&mut delta, &mut reply) {
                break;
            }
        }
        match reply.stop {
            Some(_) => Ok(reply),
            None => Err(BackgroundRequestError::Failed(
                "the model's answer broke off before its end".to_owned(),
            )),
        }
    }
}

/// A request that was sent, so that it is paid for, also if the user's next message drops it. The length of the answer
/// is not known.
struct UnansweredRequest<'a> {
    requester: &'a BackgroundRequester,
    /// `None`: it was answered or refused.
    usage: Option<Usage>,
}

impl Drop for UnansweredRequest<'_> {
    fn drop(&mut self) {
        if let Some(usage) = self.usage {
            let BackgroundRequester { configured_model, spend_limit, .. } = self.requester;
            spend_limit.charge(configured_model.estimated_cost(usage));
        }
    }
}

/// The cost of background requests and sub-agents until the loop counts it, and the budget that the turn has left.
#[derive(Clone, Default)]
pub struct SpendLimit(Arc<Mutex<SpendState>>);

#[derive(Default)]
struct SpendState {
    spent: ModelCost,
    /// `None`: no limit.
    left_usd: Option<f64>,
}

impl SpendLimit {
    /// Moves the cost so far to the turn, and sets what the turn has left of `budget_usd`.
    pub(super) fn settle(&self, spent: &mut ModelCost, budget_usd: Option<f64>) {
        let mut state = self.0.lock();
        spent.add(std::mem::take(&mut state.spent));
        state.left_usd = budget_usd.map(|max| max - spent.known_usd);
    }

    pub(super) fn is_used_up(&self) -> bool {
        let state = self.0.lock();
        state.left_usd.is_some_and(|left| state.spent.known_usd >= left)
    }

    fn can_afford(&self, cost_usd: Option<f64>) -> bool {
        let state = self.0.lock();
        let cost = cost_usd.unwrap_or_default() + state.spent.known_usd;
        state.left_usd.is_none_or(|left| cost < left)
    }

    pub(super) fn charge(&self, spent: ModelCost) {
        // The loop did not wait for it.
        self.0.lock().spent.add(ModelCost { model_time: Duration::ZERO, ..spent });
    }
}
