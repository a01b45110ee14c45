//! Think: ask the model, and put its answer together.

use futures_util::StreamExt as _;

use super::{Kernel, Turn, millis};
use crate::context::{estimate_tokens, trailing};
use crate::protocol::control::Ending;
use crate::protocol::event::{Body, ModelResponded};
use crate::protocol::model::{
    Delta, ModelError, ModelErrorKind, Purpose, Reply, StopReason, Usage,
};

impl Kernel {
    /// Asks for the next answer. The reminders of this turn go with the request and are then gone.
    pub(super) async fn think(&mut self, turn: &mut Turn) -> Result<Reply, Ending> {
        const FROZEN: &str = include_str!("../../prompts/feedback/frozen.md");

        let mut reminders = std::mem::take(&mut turn.reminders);
        reminders.extend(turn.mentions.reminder());
        if let Some(pins) = self.pins.trailing() {
            reminders.insert(0, pins);
        }
        if let Some(words) = self.parts.registry.frozen() {
            reminders.insert(0, FROZEN.replace("{{words}}", &words));
        }
        let trailing = trailing(self.parts.mode, &reminders, &self.plan);
        let asked = self.parts.events.clock().now();
        let (mut reply, request_bytes) = match self.ask(&trailing).await {
            Some(Ok(answer)) => answer,
            Some(Err(error)) => {
                self.parts.events.emit(Body::Error {
                    source: "model".to_owned(),
                    message: error.message.clone(),
                    retry_in_ms: None,
                    attempt: None,
                });
                turn.errors.push(error.message);
                return Err(match error.kind {
                    ModelErrorKind::Unavailable => Ending::ModelUnavailable,
                    ModelErrorKind::Refused
                    | ModelErrorKind::Overflow
                    | ModelErrorKind::Configuration => Ending::ModelRefused,
                    ModelErrorKind::Script => Ending::Failed,
                });
            }
            None => {
                let interrupt = self.parts.control.interrupted();
                return Err(interrupt.map_or(Ending::Interrupted, |by| by.ending()));
            }
        };
        let took = self.parts.events.clock().now().duration_since(asked);
        turn.model_time += took;
        turn.answers += 1;
        turn.usage += reply.usage.unwrap_or_else(|| Usage {
            input_tokens: estimate_tokens(request_bytes),
            output_tokens: estimate_tokens(size(&reply)),
            cached_tokens: 0,
        });
        self.name_calls(turn.round, &mut reply);
        let stop = reply.stop.clone().unwrap_or(StopReason::End);
        let cut_off_calls =
            !reply.calls.is_empty() && matches!(stop, StopReason::Length | StopReason::Refused);
        let empty = reply.calls.is_empty() && reply.text.trim().is_empty();
        self.parts.events.emit(Body::ModelResponded(ModelResponded {
            purpose: Purpose::Main,
            text: reply.text.clone(),
            reasoning: reply.reasoning.clone(),
            calls: reply.calls.clone(),
            usage: reply.usage,
            cost_usd: None,
            discarded: cut_off_calls || empty || stop == StopReason::Refused,
            stop,
            time_ms: millis(took),
        }));
        Ok(reply)
    }

    /// One request, and its answer with the request's size; `None` after an interrupt.
    async fn ask(&mut self, trailing: &str) -> Option<Result<(Reply, usize), ModelError>> {
        let Self { parts, history, told, .. } = self;
        let parts = &*parts;
        let mut request = parts.layers.request(parts.registry.specs(), history, trailing);
        request.max_output_tokens = parts.max_output_tokens;
        let described = parts.layers.describe(told, parts.model.id(), &request, history.bytes());
        let bytes = described.bytes;
        parts.events.emit(Body::ModelRequested(described));
        let events = &parts.events;
        let mut stream = parts.model.stream(&request);
        let answer = async {
            let mut reply = Reply::default();
            while let Some(delta) = stream.next().await {
                let delta = delta?;
                match &delta {
                    Delta::Text(text) => {
                        events.emit(Body::ModelDelta { text: text.clone(), reasoning: false });
                    }
                    Delta::Reasoning(text) => {
                        events.emit(Body::ModelDelta { text: text.clone(), reasoning: true });
                    }
                    Delta::Retry(retry) => {
                        events.emit(Body::Error {
                            source: "model".to_owned(),
                            message: retry.error.clone(),
                            retry_in_ms: Some(millis(retry.delay)),
                            attempt: Some(retry.attempt),
                        });
                    }
                    Delta::Call { .. } | Delta::Usage(_) | Delta::Done(_) => {}
                }
                reply.fold(&delta);
            }
            if reply.stop.is_none() {
                return Err(ModelError::new(
                    ModelErrorKind::Unavailable,
                    "the model's answer broke off before its end; try again",
                ));
            }
            Ok((reply, bytes))
        };
        parts.control.cancel().run_until_cancelled(answer).await
    }

    /// Gives each call an id that no other call of the session has: servers leave ids out, or use the
    /// same ones in every answer.
    fn name_calls(&mut self, round: u32, reply: &mut Reply) {
        for (n, call) in reply.calls.iter_mut().enumerate() {
            if call.id.is_empty() || self.call_ids.contains(&call.id) {
                call.id = format!("call_{}_{round}_{}", self.turn, n + 1);
            }
            self.call_ids.insert(call.id.clone());
        }
    }
}

fn size(reply: &Reply) -> usize {
    let calls: usize = reply.calls.iter().map(|c| c.name.len() + c.arguments.len()).sum();
    reply.text.len() + reply.reasoning.len() + calls
}
