//! Content that a server rejected and that later requests leave out: reasoning of earlier answers,
//! and settings.

use std::collections::HashSet;

use super::endpoint::Endpoint;
use super::failure::Omission;
use super::wire_format::sends_thinking;
use agent_protocol::message::{Message, OpaqueItem, Part};
use agent_protocol::model::Request;
use agent_protocol::provider::WireFormat;

#[derive(Default)]
pub(super) struct Rejections {
    /// Reasoning that existed at the time of a rejection. Later reasoning is valid, and sent.
    reasoning_hashes: HashSet<blake3::Hash>,
    omitted: HashSet<Omission>,
}

pub(super) struct AcceptedRequest {
    pub(super) endpoint: Endpoint,
    /// `None` if the conversation is unchanged.
    pub(super) messages: Option<Vec<Message>>,
    pub(super) max_output_tokens: Option<u64>,
    pub(super) rejectable: RejectableContent,
}

/// Several requests may be rejected at once: each is compared with its own content.
pub(super) struct RejectableContent {
    has_earlier_reasoning: bool,
    options: Vec<Omission>,
}

impl Rejections {
    pub(super) fn filter_request(
        &self,
        request: &Request<'_>,
        endpoint: &Endpoint,
    ) -> AcceptedRequest {
        let mut endpoint = endpoint.clone();
        endpoint.returns_reasoning &= !self.omitted.contains(&Omission::Reasoning);
        if self.omitted.contains(&Omission::Thinking) {
            endpoint.thinking = Some(false);
        }
        let has_limit = !self.omitted.contains(&Omission::AnswerLimit);
        let max_output_tokens = request.max_output_tokens.filter(|_| has_limit);
        let is_rejected = |part: &Part| matches!(part, Part::Carried(item) if self.reasoning_hashes.contains(&hash_item(item)));
        let messages = (!self.reasoning_hashes.is_empty()).then(|| {
            let mut messages = request.messages.to_vec();
            for message in &mut messages {
                message.parts.retain(|part| !is_rejected(part));
            }
            messages
        });
        let sent = messages.as_deref().unwrap_or(request.messages);
        let wire = endpoint.wire;
        let options = [
            (
                Omission::Reasoning,
                wire == WireFormat::OpenaiResponses && endpoint.returns_reasoning,
            ),
            (Omission::Thinking, sends_thinking(request, &endpoint)),
            (
                Omission::AnswerLimit,
                wire != WireFormat::AnthropicMessages && max_output_tokens.is_some(),
            ),
        ];
        let options = options.into_iter().filter_map(|(option, is_sent)| is_sent.then_some(option));
        let rejectable = RejectableContent {
            has_earlier_reasoning: sent_reasoning(sent, &endpoint).next().is_some(),
            options: options.collect(),
        };
        AcceptedRequest { endpoint, messages, max_output_tokens, rejectable }
    }

    /// Returns whether the next request has less that may be the reason.
    pub(super) fn record(
        &mut self,
        omission: Omission,
        used: &RejectableContent,
        request: &Request<'_>,
        endpoint: &Endpoint,
    ) -> bool {
        if omission == Omission::Reasoning && used.has_earlier_reasoning {
            let rejected = sent_reasoning(request.messages, endpoint).map(hash_item);
            self.reasoning_hashes.extend(rejected);
            return true;
        }
        let is_used = used.options.contains(&omission);
        self.omitted.extend(is_used.then_some(omission));
        is_used
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
        assert!(rejected.record(Omission::Reasoning, &used, &request, &endpoint));
        // A request that was sent at the same time is repeated too.
        assert!(rejected.record(Omission::Reasoning, &used, &request, &endpoint));
        // Without reasoning the reason is another one.
        let used = rejected.filter_request(&request, &endpoint).rejectable;
        assert!(!rejected.record(Omission::Reasoning, &used, &request, &endpoint));

        messages.push(answer(&["c"]));
        assert_eq!(n_thoughts(&rejected, &messages, &endpoint), 1, "later thoughts are sent");
    }

    #[test]
    fn settings_that_were_rejected_are_left_out() {
        let mut rejected = Rejections::default();
        let request =
            Request { max_output_tokens: Some(1000), ..Request::new(Purpose::Main, "", &[]) };
        for (wire, again, n_retries) in [
            (WireFormat::OpenaiResponses, Omission::Reasoning, 1),
            (WireFormat::AnthropicMessages, Omission::Reasoning, 0),
            (WireFormat::AnthropicMessages, Omission::Thinking, 1),
            (WireFormat::OpenaiChat, Omission::Thinking, 0),
            (WireFormat::OpenaiChat, Omission::AnswerLimit, 1),
        ] {
            let mut endpoint = Endpoint::new("p/m", "http://h");
            (endpoint.wire, endpoint.thinking) = (wire, Some(true));
            for attempt in 0..3 {
                let used = rejected.filter_request(&request, &endpoint).rejectable;
                let is_retried = rejected.record(again, &used, &request, &endpoint);
                assert_eq!(is_retried, attempt < n_retries, "{wire:?} {again:?} {attempt}");
            }
        }
    }
}
