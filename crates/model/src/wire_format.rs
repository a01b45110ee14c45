//! The interface of the wire formats, and what they have in common.
//!
//! A wire format is a pure encoder and a pure decoder. The encoder puts what grows last, so that the next
//! request of a conversation begins with the bytes of this one: providers cache by prefix.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::ser::{Serialize, SerializeMap as _, Serializer as _};
use serde_json::{Value, json};

use super::endpoint::Endpoint;
use super::provider_search::{SearchDecoder, add_search};
use super::text_calls;
use super::{anthropic_messages, gemini, openai_chat, openai_responses};
use agent_protocol::Object;
use agent_protocol::json_repair::read_argument_object;
use agent_protocol::message::{Image, Part, ToolCall};
use agent_protocol::model::{Delta, Request, StopReason, Usage};
use agent_protocol::provider::{TextCallMode, WireFormat};

pub(super) struct EncodedRequest {
    /// Below the base URL; may have a query.
    pub(super) path: String,
    /// JSON.
    pub(super) body: Vec<u8>,
}

pub(super) fn encode(request: &Request<'_>, endpoint: &Endpoint) -> EncodedRequest {
    let temperature = request.temperature.filter(|_| endpoint.dialect.has_temperature());
    let effort = request.effort.filter(|effort| endpoint.accepts_effort(*effort));
    let described = (endpoint.dialect.text_calls == Some(TextCallMode::Described))
        .then(|| text_calls::render_as_text(request, &endpoint.tools_in_text));
    let (system, messages, tools) = match &described {
        Some((system, messages)) => (system.as_str(), messages.as_slice(), &[][..]),
        None => (request.system, request.messages, request.tools),
    };
    let request = &Request { system, tools, messages, temperature, effort, ..*request };
    let mut encoded = match endpoint.wire {
        WireFormat::OpenaiChat => openai_chat::encode(request, endpoint),
        WireFormat::Gemini => gemini::encode(request, endpoint),
        WireFormat::OpenaiResponses => openai_responses::encode(request, endpoint),
        WireFormat::AnthropicMessages => anthropic_messages::encode(request, endpoint),
    };
    if let Some(query) = request.search {
        add_search(&mut encoded, endpoint.wire, query);
    }
    encoded
}

/// A request without its empty options; last the list that grows.
pub(super) fn encode_body(options: Value, list_name: &str, list: &impl Serialize) -> Vec<u8> {
    let mut body = Vec::new();
    let mut serializer = serde_json::Serializer::new(&mut body);
    let written = serializer.serialize_map(None).and_then(|mut map| {
        for (name, value) in &present_fields(options) {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry(list_name, list)?;
        map.end()
    });
    written.expect("strings, numbers and valid JSON always serialise");
    body
}

/// The object without nulls, empty lists and empty texts.
pub(super) fn present_fields(object: Value) -> Object {
    let Value::Object(mut fields) = object else { return Object::new() };
    fields.retain(|_, value| !value.is_null() && *value != json!([]) && value != "");
    fields
}

/// The number with the digits in which people write it.
pub(super) fn decimal(number: f32) -> f64 {
    number.to_string().parse().unwrap_or_else(|_| number.into())
}

/// Models that accept settings of the thinking get them; others if an effort is configured.
pub(super) fn sends_thinking(request: &Request<'_>, endpoint: &Endpoint) -> bool {
    let has_effort = request.effort.is_some_and(|effort| endpoint.accepts_effort(effort));
    let is_wanted = endpoint.thinking.unwrap_or(has_effort);
    match endpoint.wire {
        WireFormat::OpenaiChat | WireFormat::OpenaiResponses => false,
        // Some models think only with them, and other purposes have small limits of tokens.
        WireFormat::AnthropicMessages => is_wanted && request.purpose.is_conversation(),
        WireFormat::Gemini => is_wanted,
    }
}

pub(super) fn new_decoder<'a>(
    endpoint: &'a Endpoint,
    request: &'a Request<'_>,
    ids: CallIds<'a>,
) -> Box<dyn AnswerDecoder + 'a> {
    if endpoint.dialect.text_calls.is_some() && !request.tools.is_empty() {
        let inner = new_wire_decoder(endpoint, ids.clone());
        return Box::new(text_calls::TextCallDecoder::new(inner, request, ids));
    }
    let inner = new_wire_decoder(endpoint, ids);
    match request.search {
        Some(query) => Box::new(SearchDecoder { inner, query, n_searches: 0 }),
        None => inner,
    }
}

fn new_wire_decoder<'a>(endpoint: &'a Endpoint, ids: CallIds<'a>) -> Box<dyn AnswerDecoder + 'a> {
    match endpoint.wire {
        WireFormat::OpenaiChat => Box::new(openai_chat::ChatDecoder::new(ids, endpoint)),
        WireFormat::Gemini => Box::new(gemini::GeminiDecoder::new(&endpoint.id, ids)),
        WireFormat::OpenaiResponses => {
            Box::new(openai_responses::ResponsesDecoder::new(&endpoint.id, ids))
        }
        WireFormat::AnthropicMessages => {
            Box::new(anthropic_messages::AnthropicDecoder::new(&endpoint.id, ids))
        }
    }
}

/// Decodes one answer: texts in, deltas out.
pub(super) trait AnswerDecoder: Send {
    /// `data` is that of one event, or a whole answer.
    fn push(&mut self, data: &str) -> Result<Vec<Delta>, DecodeError>;

    /// Returns deltas that were held back; called once, after the last text.
    fn finish(&mut self) -> Vec<Delta> {
        Vec::new()
    }

    fn is_stream_over(&self) -> bool;

    /// Only the usage and the end of the stream may still follow.
    fn is_answer_complete(&self) -> bool;

    /// `None` if the stream stopped before its end.
    fn stop_reason(&self) -> Option<StopReason>;
}

#[derive(Debug, PartialEq)]
pub(super) enum DecodeError {
    /// No JSON, or an unknown format.
    Malformed(String),
    ServerError(Value),
}

/// The JSON object in `data`.
pub(super) fn parse_event(
    data: &str,
    is_error: impl Fn(&Value) -> bool,
) -> Result<Value, DecodeError> {
    match serde_json::from_str(data) {
        Ok(event) if is_error(&event) => Err(DecodeError::ServerError(event)),
        Ok(event @ Value::Object(_)) => Ok(event),
        Ok(_) | Err(_) => Err(DecodeError::Malformed(data.to_owned())),
    }
}

/// Ids are unique in the session.
#[derive(Clone)]
pub(super) struct CallIds<'a> {
    prefix: &'a str,
    next: &'a AtomicU64,
    taken: HashSet<String>,
}

impl<'a> CallIds<'a> {
    /// Ids differ from those in the conversation; `prefix` and `next` are the model's.
    pub(super) fn new(prefix: &'a str, next: &'a AtomicU64, request: &Request<'_>) -> Self {
        let parts = request.messages.iter().flat_map(|message| &message.parts);
        let taken = parts.filter_map(|part| match part {
            Part::Call(call) => Some(call.id.clone()),
            _ => None,
        });
        Self { prefix, next, taken: taken.collect() }
    }

    /// The server's id if it is new, otherwise a generated one.
    pub(super) fn assign(&mut self, offered: Option<&str>) -> String {
        if let Some(id) = offered
            && self.taken.insert(id.to_owned())
        {
            return id.to_owned();
        }
        loop {
            let id = format!("{}{}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed));
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}

/// Servers accept only such names: an invented one would make the whole conversation invalid.
pub(super) fn call_name(call: &ToolCall) -> Cow<'_, str> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    if call.name.is_empty() {
        Cow::Borrowed("unnamed")
    } else if call.name.len() <= 64 && call.name.chars().all(fits) {
        Cow::Borrowed(&call.name)
    } else {
        let fitting = call.name.chars().map(|letter| if fits(letter) { letter } else { '_' });
        Cow::Owned(fitting.take(64).collect())
    }
}

#[derive(Clone, Copy)]
pub(super) enum CallIdFormat {
    /// Letters, digits, `_`, `-` and those in `also`, at most `longest`.
    Word { also: &'static str, longest: usize },
    /// Exactly nine letters and digits.
    NineCharacters,
}

/// An id that another model's server chose is always replaced by the same one.
pub(super) fn call_id(id: &str, form: CallIdFormat) -> Cow<'_, str> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric();
    let fits = match form {
        CallIdFormat::Word { also, longest } => {
            id.len() <= longest
                && id.chars().all(|c| is_word(c) || "_-".contains(c) || also.contains(c))
        }
        CallIdFormat::NineCharacters => id.len() == 9 && id.chars().all(is_word),
    };
    if fits && !id.is_empty() {
        return Cow::Borrowed(id);
    }
    let hash = blake3::hash(id.as_bytes()).to_hex();
    Cow::Owned(match form {
        CallIdFormat::NineCharacters => hash[..9].to_owned(),
        CallIdFormat::Word { .. } => format!("call_{}", &hash[..24]),
    })
}

/// Several servers reject arguments that are not a JSON object.
pub(super) fn call_arguments(call: &ToolCall) -> Cow<'_, str> {
    if serde_json::from_str::<Object>(&call.arguments).is_ok() {
        Cow::Borrowed(&call.arguments)
    } else if let Some((object, _)) = read_argument_object(&call.arguments) {
        Cow::Owned(Value::Object(object).to_string())
    } else {
        Cow::Owned(json!({ "malformed_arguments": call.arguments }).to_string())
    }
}

/// Sent in place of an image whose content is lost.
pub(super) const LOST_IMAGE: &str = "[image lost]";

/// In base64; `None` if the content is lost.
pub(super) fn image_in_base64(image: &Image, request: &Request<'_>) -> Option<String> {
    request.images?.content(image).map(|content| BASE64_STANDARD.encode(content))
}

pub(super) fn image_data_url(image: &Image, request: &Request<'_>) -> Option<String> {
    let content = image_in_base64(image, request)?;
    Some(format!("data:{};base64,{content}", image.media_type))
}

/// `None` without counts: servers that have none may send nulls.
pub(super) fn usage_delta(
    input: Option<u64>,
    output: Option<u64>,
    cached: Option<u64>,
) -> Option<Delta> {
    (input.is_some() || output.is_some()).then(|| {
        Delta::Usage(Usage {
            input_tokens: input.unwrap_or_default(),
            output_tokens: output.unwrap_or_default(),
            cached_tokens: cached.unwrap_or_default(),
            ..Usage::default()
        })
    })
}

pub(super) fn non_empty_str(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_ids_that_a_server_does_not_accept_are_replaced() {
        let word = CallIdFormat::Word { also: "", longest: 40 };
        let long = "a".repeat(41);
        for (id, form, is_kept) in [
            ("call_A-1", word, true),
            ("functions.Read:0", word, false),
            ("functions.Read:0", CallIdFormat::Word { also: ".:", longest: 40 }, true),
            (&long, word, false),
            (&long, CallIdFormat::Word { also: "", longest: 64 }, true),
            ("\u{e9}", word, false),
            ("", word, false),
            ("abcDEF123", CallIdFormat::NineCharacters, true),
            ("call_1234", CallIdFormat::NineCharacters, false),
            ("c0", CallIdFormat::NineCharacters, false),
        ] {
            let sent = call_id(id, form);
            assert_eq!(sent == id, is_kept, "{id}: {sent}");
            assert_eq!(call_id(&sent, form), sent, "the replacement is accepted");
            assert_eq!(call_id(id, form), sent, "and always the same");
        }
        assert_ne!(
            call_id("c0", CallIdFormat::NineCharacters),
            call_id("c1", CallIdFormat::NineCharacters)
        );
    }
}
