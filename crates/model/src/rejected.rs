//! What a server rejected, and is left out of later requests: reasoning of earlier answers, and settings.

use std::collections::HashSet;

use super::endpoint::Endpoint;
use super::failure::Again;
use super::wire::sends_thinking;
use agent_protocol::message::{Carried, Message, Part};
use agent_protocol::model::Request;
use agent_protocol::provider::Wire;

/// What was rejected so far.
#[derive(Default)]
pub(super) struct Rejected {
    /// Reasoning that existed at the time. What the model thinks later is valid, and sent.
    carried: HashSet<blake3::Hash>,
    /// The request for reasoning that can be sent back.
    reasoning: bool,
    /// The settings of the thinking.
    thinking: bool,
}

/// A request without what was rejected before it.
pub(super) struct Accepted {
    pub(super) endpoint: Endpoint,
    /// The conversation; `None`: the whole one.
    pub(super) messages: Option<Vec<Message>>,
    pub(super) used: Used,
}

/// What a request has that may be rejected. Several requests may be rejected at once: each is compared with
/// what it had itself.
#[derive(Clone, Copy)]
pub(super) struct Used {
    carried: bool,
    reasoning: bool,
    thinking: bool,
}

impl Rejected {
    /// The request without what was rejected.
    pub(super) fn leave_out(&self, request: &Request<'_>, endpoint: &Endpoint) -> Accepted {
        let mut endpoint = endpoint.clone();
        endpoint.returns_reasoning &= !self.reasoning;
        if self.thinking {
            endpoint.thinking = Some(false);
        }
        let is_rejected = |part: &Part| match part {
            Part::Carried(carried) => self.carried.contains(&hash(carried)),
            Part::Text { .. } | Part::Image(_) | Part::Call(_) | Part::Result(_) => false,
        };
        let messages = (!self.carried.is_empty()).then(|| {
            let mut messages = request.messages.to_vec();
            for message in &mut messages {
                message.parts.retain(|part| !is_rejected(part));
            }
            messages
        });
        let sent = messages.as_deref().unwrap_or(request.messages);
        let used = Used {
            carried: reasoning(sent, &endpoint).next().is_some(),
            reasoning: endpoint.wire == Wire::OpenaiResponses && endpoint.returns_reasoning,
            thinking: sends_thinking(request, &endpoint),
        };
        Accepted { endpoint, messages, used }
    }

    /// A request was rejected. Returns whether the next one has less that may be the reason.
    pub(super) fn add(
        &mut self,
        again: Again,
        used: Used,
        request: &Request<'_>,
        endpoint: &Endpoint,
    ) -> bool {
        match again {
            Again::WithoutReasoning if used.carried => {
                self.carried.extend(reasoning(request.messages, endpoint).map(hash));
                true
            }
            Again::WithoutReasoning => {
                self.reasoning |= used.reasoning;
                used.reasoning
            }
            Again::WithoutThinking => {
                self.thinking |= used.thinking;
                used.thinking
            }
            Again::Never | Again::Soon | Again::After(_) => false,
        }
    }
}

/// The reasoning in these messages that is sent to this endpoint.
fn reasoning<'a>(
    messages: &'a [Message],
    endpoint: &'a Endpoint,
) -> impl Iterator<Item = &'a Carried> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let carried = parts.filter_map(|part| match part {
        Part::Carried(carried) if carried.model == endpoint.id => Some(carried),
        Part::Carried(_) | Part::Text { .. } | Part::Image(_) | Part::Call(_) | Part::Result(_) => {
            None
        }
    });
    // With Responses, the properties of a text are carried too.
    carried.filter(|carried| carried.data["type"] != "message")
}

fn hash(carried: &Carried) -> blake3::Hash {
    blake3::hash(carried.data.to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use agent_protocol::message::Role;
    use agent_protocol::model::Purpose;

    fn answer(thoughts: &[&str]) -> Message {
        let parts = thoughts.iter().map(|thought| {
            let data = json!({"type": "thinking", "thinking": thought});
            let model = "p/m".to_owned();
            Part::Carried(Carried { model, after_bytes: 0, after_calls: 0, data })
        });
        Message { role: Role::Assistant, parts: parts.collect() }
    }

    fn n_thoughts(rejected: &Rejected, messages: &[Message], endpoint: &Endpoint) -> usize {
        let request = Request::new(Purpose::Main, "", messages);
        let accepted = rejected.leave_out(&request, endpoint);
        reasoning(accepted.messages.as_deref().unwrap_or(messages), endpoint).count()
    }

    #[test]
    fn only_the_reasoning_that_was_rejected_is_left_out() {
        let endpoint = Endpoint::new("p/m", "http://h");
        let mut rejected = Rejected::default();
        let mut messages = vec![answer(&["a", "b"])];
        assert_eq!(n_thoughts(&rejected, &messages, &endpoint), 2);

        let request = Request::new(Purpose::Main, "", &messages);
        let used = rejected.leave_out(&request, &endpoint).used;
        assert!(rejected.add(Again::WithoutReasoning, used, &request, &endpoint));
        // A request that was sent at the same time is repeated too.
        assert!(rejected.add(Again::WithoutReasoning, used, &request, &endpoint));
        // Without reasoning the reason is another one.
        let used = rejected.leave_out(&request, &endpoint).used;
        assert!(!rejected.add(Again::WithoutReasoning, used, &request, &endpoint));

        messages.push(answer(&["c"]));
        assert_eq!(n_thoughts(&rejected, &messages, &endpoint), 1, "later thoughts are sent");
    }

    #[test]
    fn settings_that_were_rejected_are_left_out() {
        let mut rejected = Rejected::default();
        let request = Request::new(Purpose::Main, "", &[]);
        for (wire, again, n_retries) in [
            (Wire::OpenaiResponses, Again::WithoutReasoning, 1),
            (Wire::AnthropicMessages, Again::WithoutReasoning, 0),
            (Wire::AnthropicMessages, Again::WithoutThinking, 1),
            (Wire::OpenaiChat, Again::WithoutThinking, 0),
        ] {
            let mut endpoint = Endpoint::new("p/m", "http://h");
            (endpoint.wire, endpoint.thinking) = (wire, Some(true));
            for attempt in 0..3 {
                let used = rejected.leave_out(&request, &endpoint).used;
                let is_retried = rejected.add(again, used, &request, &endpoint);
                assert_eq!(is_retried, attempt < n_retries, "{wire:?} {again:?} {attempt}");
            }
        }
    }
}
