//! Content that a server rejected and that later requests leave out: reasoning of earlier answers,
//! and settings.

use std::collections::HashSet;

use super::endpoint::Endpoint;
use super::failure::RetryAdvice;
use super::wire_format::sends_thinking;
use agent_protocol::message::{Message, OpaqueItem, Part};
use agent_protocol::model::Request;
use agent_protocol::provider::WireFormat;

#[derive(Default)]
pub(super) struct Rejections {
    /// Reasoning that existed at the time of a rejection. Later reasoning is valid, and sent.
    reasoning_hashes: HashSet<blake3::Hash>,
    /// The request for reasoning that can be sent back.
    reasoning: bool,
    thinking: bool,
    answer_limit: bool,
}

pub(super) struct AcceptedRequest {
    pub(super) endpoint: Endpoint,
    /// `None` if the conversation is unchanged.
    pub(super) messages: Option<Vec<Message>>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) rejectable: RejectableContent,
}

/// Several requests may be rejected at once: each is compared with its own content.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "independent parts of a request")]
pub(super) struct RejectableContent {
    earlier_reasoning: bool,
    reasoning: bool,
    thinking: bool,
    answer_limit: bool,
}

impl Rejections {
    pub(super) fn filter_request(
        &self,
        request: &Request<'_>,
        endpoint: &Endpoint,
    ) -> AcceptedRequest {
        let mut endpoint = endpoint.clone();
        endpoint.returns_reasoning &= !self.reasoning;
        if self.thinking {
            endpoint.thinking = Some(false);
        }
        let max_output_tokens = request.max_output_tokens.filter(|_| !self.answer_limit);
        let is_rejected = |part: &Part| matches!(part, Part::Carried(item) if self.reasoning_hashes.contains(&hash_item(item)));
        let messages = (!self.reasoning_hashes.is_empty()).then(|| {
            let mut messages = request.messages.to_vec();
            for message in &mut messages {
                message.parts.retain(|part| !is_rejected(part));
            }
            messages
        });
        let sent = messages.as_deref().unwrap_or(request.messages);
        let used = RejectableContent {
            earlier_reasoning: sent_reasoning(sent, &endpoint).next().is_some(),
            reasoning: endpoint.wire == WireFormat::OpenaiResponses && endpoint.returns_reasoning,
            thinking: sends_thinking(request, &endpoint),
            answer_limit: max_output_tokens.is_some()
                && endpoint.wire != WireFormat::AnthropicMessages,
        };
        AcceptedRequest { endpoint, messages, max_output_tokens, rejectable: used }
    }

    /// Returns whether the next request has less that may be the reason.
    pub(super) fn record(
        &mut self,
        again: RetryAdvice,
        used: RejectableContent,
        request: &Request<'_>,
        endpoint: &Endpoint,
    ) -> bool {
        match again {
            RetryAdvice::WithoutReasoning if used.earlier_reasoning => {
                self.reasoning_hashes
                    .extend(sent_reasoning(request.messages, endpoint).map(hash_item));
                true
            }
            RetryAdvice::WithoutReasoning => {
                self.reasoning |= used.reasoning;
                used.reasoning
            }
            RetryAdvice::WithoutThinking => {
                self.thinking |= used.thinking;
                used.thinking
            }
            RetryAdvice::WithoutAnswerLimit => {
                self.answer_limit |= used.answer_limit;
                used.answer_limit
            }
            RetryAdvice::Never | RetryAdvice::WithBackoff | RetryAdvice::After(_) => false,
        }
    }
}

fn sent_reasoning<'a>(
    messages: &'a [Message],
    endpoint: &'a Endpoint,
) -> impl Iterator<Item = &'a OpaqueItem> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let items = parts.filter_map(|part| match part {
        Part::Carried(item) if item.model == endpoint.id => Some(item),
        _ => None,
    });
    // With Responses, the properties of a text are such items too.
    items.filter(|item| item.data["type"] != "message")
}

fn hash_item(item: &OpaqueItem) -> blake3::Hash {
    blake3::hash(item.data.to_string().as_bytes())
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
            Part::Carried(OpaqueItem { model, after_bytes: 0, after_calls: 0, data })
        });
        Message { role: Role::Assistant, parts: parts.collect() }
    }

    fn n_thoughts(rejected: &Rejections, messages: &[Message], endpoint: &Endpoint) -> usize {
        let request = Request::new(Purpose::Main, "", messages);
        let accepted = rejected.filter_request(&request, endpoint);
        sent_reasoning(accepted.messages.as_deref().unwrap_or(messages), endpoint).count()
    }

    #[test]
    fn only_the_reasoning_that_was_rejected_is_left_out() {
        let endpoint = Endpoint::new("p/m", "http://h");
        let mut rejected = Rejections::default();
        let mut messages = vec![answer(&["a", "b"])];
        assert_eq!(n_thoughts(&rejected, &messages, &endpoint), 2);

        let request = Request::new(Purpose::Main, "", &messages);
        let used = rejected.filter_request(&request, &endpoint).rejectable;
        assert!(rejected.record(RetryAdvice::WithoutReasoning, used, &request, &endpoint));
        // A request that was sent at the same time is repeated too.
        assert!(rejected.record(RetryAdvice::WithoutReasoning, used, &request, &endpoint));
        // Without reasoning the reason is another one.
        let used = rejected.filter_request(&request, &endpoint).rejectable;
        assert!(!rejected.record(RetryAdvice::WithoutReasoning, used, &request, &endpoint));

        messages.push(answer(&["c"]));
        assert_eq!(n_thoughts(&rejected, &messages, &endpoint), 1, "later thoughts are sent");
    }

    #[test]
    fn settings_that_were_rejected_are_left_out() {
        let mut rejected = Rejections::default();
        let request =
            Request { max_output_tokens: Some(1000), ..Request::new(Purpose::Main, "", &[]) };
        for (wire, again, n_retries) in [
            (WireFormat::OpenaiResponses, RetryAdvice::WithoutReasoning, 1),
            (WireFormat::AnthropicMessages, RetryAdvice::WithoutReasoning, 0),
            (WireFormat::AnthropicMessages, RetryAdvice::WithoutThinking, 1),
            (WireFormat::OpenaiChat, RetryAdvice::WithoutThinking, 0),
            (WireFormat::OpenaiChat, RetryAdvice::WithoutAnswerLimit, 1),
        ] {
            let mut endpoint = Endpoint::new("p/m", "http://h");
            (endpoint.wire, endpoint.thinking) = (wire, Some(true));
            for attempt in 0..3 {
                let used = rejected.filter_request(&request, &endpoint).rejectable;
                let is_retried = rejected.record(again, used, &request, &endpoint);
                assert_eq!(is_retried, attempt < n_retries, "{wire:?} {again:?} {attempt}");
            }
        }
    }
}
