//! Requests to a model outside the conversation: a summary, a reflection, a plan, a verdict.
//!
//! They are recorded and paid for like any other request.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::Kernel;
use super::request::{PendingRequest, request_usage};
use super::spend::{ConfiguredModel, ModelCost};
use super::think::stream_reply;
use crate::context::ContextBudget;
use agent_protocol::control::Ending;
use agent_protocol::event::{EventBody, ModelRequested, RequestLayer};
use agent_protocol::message::{Message, Part, Role};
use agent_protocol::model::{ModelError, Purpose, Reply, Request, StopReason};
use agent_protocol::prompt::Prompt;

/// The second attempt receives the error of the first.
const MAX_TRIES: u32 = 2;
/// Time limit of both attempts.
const CONSULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Factor for the second attempt, if the first gave no text before its token limit.
const RETRY_LIMIT_FACTOR: u64 = 8;

pub(super) struct ConsultPrompt {
    pub(super) purpose: Purpose,
    pub(super) system: String,
    pub(super) text: String,
    pub(super) max_output_tokens: u64,
    pub(super) temperature: Option<f32>,
}

impl Kernel {
    pub(super) async fn consult(
        &self,
        spent: &mut ModelCost,
        configured: &ConfiguredModel,
        request: &Request<'_>,
        is_useful: impl Fn(&Reply) -> bool,
    ) -> Result<Result<Reply, ModelError>, Ending> {
        let events = &self.parts.events;
        let mut request = *request;
        let requested = describe_request(configured, &request, &self.budget);
        let pending = PendingRequest::new(events, configured, &mut request, requested);
        let (control, partial) = (&self.parts.control, &mut String::new());
        let answer = stream_reply(&pending, &self.budget, &request, control, partial).await;
        let reply = match answer.map_err(|interrupted| interrupted.ending)? {
            Ok(reply) => reply,
            Err(error) => {
                let text = format!("no {}: {}", expected_answer(request.purpose), error.message);
                events.emit(EventBody::error("model", text));
                return Ok(Err(error));
            }
        };
        spent.add(pending.record_reply(&self.budget, &reply, !is_useful(&reply)));
        Ok(Ok(reply))
    }

    pub(super) async fn consult_with_deadline(
        &self,
        spent: &mut ModelCost,
        configured: &ConfiguredModel,
        request: &Request<'_>,
        deadline: tokio::time::Instant,
        is_useful: impl Fn(&Reply) -> bool,
    ) -> Result<Option<Reply>, Ending> {
        let asking = self.consult(spent, configured, request, is_useful);
        if let Ok(answer) = tokio::time::timeout_at(deadline, asking).await {
            return Ok(answer?.ok());
        }
        // The request was sent, so it is paid for; the length of the answer is not known.
        let bytes = describe_request(configured, request, &self.budget).bytes;
        spent.add(configured.estimated_cost(request_usage(&self.budget, bytes)));
        let text = format!("no {} in time", expected_answer(request.purpose));
        self.parts.events.emit(EventBody::error("model", text));
        Ok(None)
    }

    /// `None` if no model returns such an object in time. One retry is made with the parse error.
    pub(super) async fn consult_for_json<T: DeserializeOwned + JsonSchema>(
        &self,
        spent: &mut ModelCost,
        configured: &ConfiguredModel,
        question: &ConsultPrompt,
    ) -> Result<Option<T>, Ending> {
        let mut messages = vec![Message::text(Role::User, question.text.clone())];
        let schema = schemars::schema_for!(T).to_value();
        let mut limit = question.max_output_tokens;
        let deadline = tokio::time::Instant::now() + CONSULT_TIMEOUT;
        for _ in 0..MAX_TRIES {
            let request = Request {
                max_output_tokens: Some(limit),
                temperature: question.temperature.or(configured.temperature),
                effort: configured.effort,
                answer_schema: Some(&schema),
                ..Request::new(question.purpose, &question.system, &messages)
            };
            let read = |reply: &Reply| parse_object::<T>(&reply.text);
            let is_useful = |reply: &Reply| read(reply).is_ok();
            let asking =
                self.consult_with_deadline(spent, configured, &request, deadline, is_useful);
            let Some(reply) = asking.await? else { return Ok(None) };
            match read(&reply) {
                Ok(value) => return Ok(Some(value)),
                // A reasoning model may have reached the limit before its answer.
                Err(_)
                    if reply.stop == Some(StopReason::Length) && reply.text.trim().is_empty() =>
                {
                    limit *= RETRY_LIMIT_FACTOR;
                }
                Err(_) if reply.stop == Some(StopReason::Repetition) => return Ok(None),
                Err(error) => messages.extend(self.correction_request(&reply, &error)),
            }
        }
        Ok(None)
    }

    pub(super) fn correction_request(&self, reply: &Reply, error: &str) -> [Message; 2] {
        const FIX_JSON: Prompt = Prompt::named("recovery/fix_json.md");
        let fix = self.parts.prompts.text(FIX_JSON).replace("{{error}}", error);
        let answer = if reply.text.trim().is_empty() { "(nothing)" } else { &reply.text };
        [Message::text(Role::Assistant, answer), Message::text(Role::User, fix.trim_end())]
    }
}

pub(super) fn describe_request(
    configured: &ConfiguredModel,
    request: &Request<'_>,
    budget: &ContextBudget,
) -> ModelRequested {
    let message_bytes: usize =
        request.messages.iter().flat_map(|message| &message.parts).map(Part::bytes).sum();
    let layer = |bytes| RequestLayer { hash: String::new(), bytes, tokens: budget.tokens(bytes) };
    let bytes = request.system.len() + message_bytes;
    ModelRequested {
        purpose: request.purpose,
        model: configured.model.id().to_owned(),
        effort: request.effort,
        messages: request.messages.len(),
        bytes,
        estimated_tokens: budget.tokens(bytes),
        window: Some(configured.window.tokens),
        max_output_tokens: None,
        window_source: Some(configured.window.source),
        compacts_at: None,
        shared_bytes: 0,
        layers: BTreeMap::from([
            ("l1".to_owned(), layer(request.system.len())),
            ("l3".to_owned(), layer(message_bytes)),
        ]),
        texts: BTreeMap::new(),
        question: match request.purpose {
            Purpose::Reflect | Purpose::Plan | Purpose::Task | Purpose::Learn | Purpose::Search => {
                Some(question_text(request))
            }
            Purpose::Main | Purpose::Agent | Purpose::Summary => None,
        },
    }
}

fn expected_answer(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Main | Purpose::Agent | Purpose::Learn | Purpose::Search => "answer",
        Purpose::Reflect => "reflection",
        Purpose::Plan => "plan",
        Purpose::Summary => "summary",
        Purpose::Task => "verdict",
    }
}

/// The record holds the question nowhere else.
fn question_text(request: &Request<'_>) -> String {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let texts = parts.filter_map(|part| match part {
        Part::Text { text } => Some(text.as_str()),
        Part::Image(_) | Part::Carried(_) | Part::Call(_) | Part::Result(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n\n")
}

/// The object may have other text or a code fence around it.
pub(super) fn parse_object<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let range = text.find('{').zip(text.rfind('}'));
    let object = range.and_then(|(start, end)| text.get(start..=end));
    let object = object.ok_or("there is no JSON object in it")?;
    serde_json::from_str(object).map_err(|error| error.to_string())
}
