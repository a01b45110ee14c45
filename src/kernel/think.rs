//! Think: ask the model, and put its answer together.

use std::collections::HashSet;

use futures_util::StreamExt as _;

use super::request::Asked;
use super::spend::Speaker;
use super::turn::Turn;
use super::{Kernel, millis};
use crate::context::trailing;
use crate::protocol::control::{Control, Ending};
use crate::protocol::event::{Body, CompactionCause, Events};
use crate::protocol::model::{
    Delta, ModelError, ModelErrorKind, Purpose, Reply, Request, StopReason,
};
use crate::protocol::prompt::{Prompt, prompt};

/// How often one answer may be asked for again because the request was longer than the window.
const MAX_OVERFLOWS: u32 = 3;

impl Kernel {
    /// Asks for the next answer. The reminders of this turn go with the request and are then gone.
    pub(super) async fn think(&mut self, turn: &mut Turn) -> Result<Reply, Ending> {
        let mut trailing = self.trailing(turn);
        if self.is_crowded(trailing.len()) {
            let cause = CompactionCause::Threshold;
            self.compact_into(&mut turn.spent, cause, None, trailing.len()).await?;
            // Pins have moved into L2.
            trailing = self.trailing(turn);
        }
        let mut overflows = 0;
        let reply = loop {
            match self.ask(turn, &trailing).await? {
                Ok(reply) => break reply,
                Err(error) if error.kind == ModelErrorKind::Overflow => {
                    overflows += 1;
                    let bytes = self.request_bytes(trailing.len());
                    let estimated_tokens = self.budget.request_tokens(bytes);
                    let window = error.window;
                    self.budget.overflowed(estimated_tokens, window);
                    let overflowed = Body::ContextOverflowed { estimated_tokens, window };
                    self.parts.events.emit(overflowed);
                    let cause = CompactionCause::Overflow;
                    let made_room = overflows <= MAX_OVERFLOWS
                        && self.compact_into(&mut turn.spent, cause, None, trailing.len()).await?;
                    if !made_room {
                        return Err(self.no_answer(turn, error));
                    }
                    trailing = self.trailing(turn);
                }
                Err(error) => return Err(self.no_answer(turn, error)),
            }
        };
        turn.answers += 1;
        turn.trailing.reminders.clear();
        if let Some(patch) = &mut turn.trailing.patch {
            patch.was_told = true;
        }
        Ok(reply)
    }

    /// The one message behind the conversation.
    fn trailing(&self, turn: &Turn) -> String {
        const FROZEN: Prompt = prompt!("feedback/frozen.md");

        let mut reminders = turn.trailing.reminders.clone();
        let prompts = &self.parts.prompts;
        reminders.extend(turn.trailing.mentions.reminder(prompts));
        if let Some(pins) = self.pins.trailing(prompts) {
            reminders.insert(0, pins);
        }
        if let Some(words) = self.parts.registry.frozen() {
            reminders.insert(0, self.parts.prompts.text(FROZEN).replace("{{words}}", &words));
        }
        if let Some(patch) = &turn.trailing.patch {
            reminders.push(format!("Patch: {}", patch.text));
        }
        trailing(self.parts.registry.mode(), &reminders, &self.plan)
    }

    /// One request of the conversation and its answer, both recorded.
    async fn ask(
        &mut self,
        turn: &mut Turn,
        trailing: &str,
    ) -> Result<Result<Reply, ModelError>, Ending> {
        let Self { parts, history, sent, budget, call_ids, turn: n, .. } = self;
        let parts = &*parts;
        let mut request = parts.layers.request(parts.registry.specs(), history, trailing);
        request.max_output_tokens = parts.main.max_output_tokens;
        let promised = sent.promised();
        let described =
            parts.layers.describe(sent, parts.main.model.id(), &request, history, budget);
        debug_assert!(
            promised.is_none_or(|bytes| described.shared_bytes == bytes),
            "between compactions each request begins with the one before it"
        );
        let bytes = described.bytes;
        let asked = Asked::new(&parts.events, &parts.main, described);
        let answer = converse(&parts.main, &request, &parts.events, &parts.control).await?;
        let mut reply = match answer {
            Ok(reply) => reply,
            Err(error) => return Ok(Err(error)),
        };
        if let Some(usage) = reply.usage {
            budget.counted(bytes, usage.input_tokens);
        }
        name_calls(call_ids, &format!("call_{n}_{}", turn.round), &mut reply);
        let is_cut_off = reply.stop == Some(StopReason::Length) && !reply.calls.is_empty();
        let is_empty = reply.calls.is_empty() && reply.text.trim().is_empty();
        let discarded = is_cut_off || is_empty || reply.stop == Some(StopReason::Refused);
        turn.spent.add(asked.answered(budget, &reply, discarded));
        Ok(Ok(reply))
    }

    /// The turn ends because no model answers.
    fn no_answer(&mut self, turn: &mut Turn, error: ModelError) -> Ending {
        self.parts.events.emit(Body::Error {
            source: "model".to_owned(),
            message: error.message.clone(),
            retry_in_ms: None,
            attempt: None,
        });
        turn.errors.push(error.message);
        match error.kind {
            ModelErrorKind::Unavailable => Ending::ModelUnavailable,
            ModelErrorKind::Refused | ModelErrorKind::Overflow | ModelErrorKind::Configuration => {
                Ending::ModelRefused
            }
            ModelErrorKind::Script => Ending::Failed,
        }
    }
}

/// Gives each call an id that no other call of the session has: servers leave ids out, or use the
/// same ones in every answer.
fn name_calls(known: &mut HashSet<String>, prefix: &str, reply: &mut Reply) {
    for (n, call) in reply.calls.iter_mut().enumerate() {
        if call.id.is_empty() || known.contains(&call.id) {
            call.id = format!("{prefix}_{}", n + 1);
        }
        known.insert(call.id.clone());
    }
}

/// One request and its answer. Only what the user is told in the end is shown as it comes.
pub(super) async fn converse(
    speaker: &Speaker,
    request: &Request<'_>,
    events: &Events,
    control: &Control,
) -> Result<Result<Reply, ModelError>, Ending> {
    let is_shown = request.purpose == Purpose::Main;
    let mut stream = speaker.model.stream(request);
    let answer = async {
        let mut reply = Reply::default();
        while let Some(delta) = stream.next().await {
            let delta = delta?;
            match &delta {
                Delta::Text(text) if is_shown => {
                    events.emit(Body::ModelDelta { text: text.clone(), reasoning: false });
                }
                Delta::Reasoning(text) if is_shown => {
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
                Delta::Text(_)
                | Delta::Reasoning(_)
                | Delta::Call { .. }
                | Delta::Usage(_)
                | Delta::Done(_) => {}
            }
            reply.fold(&delta);
        }
        if reply.stop.is_none() {
            return Err(ModelError::new(
                ModelErrorKind::Unavailable,
                "the model's answer broke off before its end; try again",
            ));
        }
        Ok(reply)
    };
    let answer = control.cancel().run_until_cancelled(answer).await;
    answer.ok_or_else(|| control.interrupted().map_or(Ending::Interrupted, |by| by.ending()))
}
