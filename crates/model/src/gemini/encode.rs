//! Encodes requests for Gemini servers.
//!
//! The keys have a fixed order with `contents` last, so that the next request of a conversation begins with
//! the bytes of this one: providers cache by prefix.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::{SIGNATURE, TEXT_BYTES, resource};
use crate::endpoint::Endpoint;
use crate::wire::{
    Encoded, LOST_IMAGE, call_arguments, call_name, filled, image_in_base64, sends_thinking,
};
use agent_protocol::Object;
use agent_protocol::message::{Carried, Image, Message, Part, Role, ToolCall, ToolResult};
use agent_protocol::model::Request;
use agent_protocol::provider::Effort;

/// Gemini 3 rejects an answer whose first call has no signature. For an answer of another model this value is
/// documented, and older models accept it.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The request.
pub(crate) fn encode(request: &Request<'_>, endpoint: &Endpoint) -> Encoded {
    let path = format!("{}:streamGenerateContent?alt=sse", resource(&endpoint.model));
    Encoded { path, body: body(request, endpoint) }
}

fn body(request: &Request<'_>, endpoint: &Endpoint) -> Vec<u8> {
    // Together with tools, only some models accept it.
    let has_schemas = endpoint.dialect.structured_outputs != Some(false);
    let answer_schema = request.answer_schema.filter(|_| has_schemas && request.tools.is_empty());
    let tools = request.tools.iter().map(|tool| Declaration {
        name: &tool.name,
        description: &tool.description,
        parameters_json_schema: accepted(tool.parameters()),
    });
    let tools = tools.collect::<Vec<_>>();
    let body = Body {
        system_instruction: (!request.system.is_empty()).then(|| Instruction {
            parts: [Sent::Text { text: Cow::Borrowed(request.system), thought_signature: None }],
        }),
        tools: if tools.is_empty() {
            Vec::new()
        } else {
            vec![Tools { function_declarations: tools }]
        },
        generation_config: GenerationConfig {
            max_output_tokens: request.max_output_tokens,
            temperature: request.temperature,
            response_mime_type: answer_schema.map(|_| "application/json"),
            response_json_schema: answer_schema.map(|schema| accepted(schema.clone())),
            thinking_config: sends_thinking(request, endpoint).then(|| ThinkingConfig {
                include_thoughts: true,
                thinking_level: request.effort.map(Effort::as_str),
            }),
        },
        contents: contents(request, &endpoint.id),
    };
    serde_json::to_vec(&body).expect("strings and numbers always serialise")
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    generation_config: GenerationConfig,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: [Sent<'a>; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    /// `parameters` would be a schema of `OpenAPI`, which rejects most keywords.
    parameters_json_schema: Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_mime_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_json_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_config: Option<ThinkingConfig>,
}

/// How much the model thinks, and whether it shows that.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ThinkingConfig {
    include_thoughts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking_level: Option<&'static str>,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'static str,
    parts: Vec<Sent<'a>>,
}

/// A part as sent.
#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum Sent<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    Call {
        function_call: SentCall<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    Result {
        function_response: SentResult<'a>,
    },
    Image {
        inline_data: InlineData<'a>,
    },
    Carried(&'a Value),
}

#[derive(Serialize)]
struct SentCall<'a> {
    id: &'a str,
    name: Cow<'a, str>,
    args: Object,
}

#[derive(Serialize)]
struct SentResult<'a> {
    id: &'a str,
    name: Cow<'a, str>,
    response: Response<'a>,
}

/// The keys that Gemini documents.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Response<'a> {
    Output(&'a str),
    Error(&'a str),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: String,
}

/// The schema in a form that servers accept: beside `$ref` they reject everything that does not begin with
/// `$`.
fn accepted(mut schema: Value) -> Value {
    fn walk(schema: &mut Value) {
        match schema {
            Value::Object(fields) => {
                if fields.get("$ref").is_some_and(Value::is_string) {
                    fields.retain(|name, _| name.starts_with('$'));
                }
                fields.values_mut().for_each(walk);
            }
            Value::Array(items) => items.iter_mut().for_each(walk),
            _ => {}
        }
    }
    walk(&mut schema);
    schema
}

/// The conversation. Messages of one role are merged, but results are never mixed with other parts: servers
/// compare the number of parts with that of the calls.
fn contents<'a>(request: &Request<'a>, model: &str) -> Vec<Content<'a>> {
    let mut contents = Vec::with_capacity(request.messages.len());
    let mut names = HashMap::new();
    for message in request.messages {
        match message.role {
            Role::System | Role::User => add(&mut contents, "user", user(message, request)),
            Role::Assistant => add(&mut contents, "model", answer(message, model, &mut names)),
            Role::Tool => {
                add(&mut contents, "user", results(message, &names));
                add(&mut contents, "user", shown(message, request));
            }
        }
    }
    contents
}

fn add<'a>(contents: &mut Vec<Content<'a>>, role: &'static str, parts: Vec<Sent<'a>>) {
    let are_results = |parts: &[Sent<'_>]| matches!(parts.first(), Some(Sent::Result { .. }));
    match contents.last_mut() {
        _ if parts.is_empty() => {}
        Some(last) if last.role == role && are_results(&last.parts) == are_results(&parts) => {
            last.parts.extend(parts);
        }
        _ => contents.push(Content { role, parts }),
    }
}

fn user<'a>(message: &'a Message, request: &Request<'_>) -> Vec<Sent<'a>> {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => plain(text),
        Part::Image(image) => Some(sent_image(image, request)),
        Part::Carried(_) | Part::Call(_) | Part::Result(_) => None,
    });
    parts.collect()
}

/// An answer as it is sent back. Notes the names of its calls by their ids.
fn answer<'a>(
    message: &'a Message,
    model: &str,
    names: &mut HashMap<&'a str, Cow<'a, str>>,
) -> Vec<Sent<'a>> {
    let mut parts = Vec::with_capacity(message.parts.len());
    for part in &message.parts {
        match part {
            Part::Text { text } => parts.extend(plain(text)),
            Part::Call(call) => {
                let name = function_name(call);
                names.insert(&call.id, name.clone());
                let args = serde_json::from_str(&call_arguments(call)).unwrap_or_default();
                let function_call = SentCall { id: &call.id, name, args };
                parts.push(Sent::Call { function_call, thought_signature: None });
            }
            Part::Carried(carried) if carried.model == model => sign(&mut parts, carried),
            Part::Carried(_) | Part::Image(_) | Part::Result(_) => {}
        }
    }
    // Of calls in parallel only the first has a signature.
    let first = parts.iter_mut().find_map(|part| match part {
        Sent::Call { thought_signature, .. } => Some(thought_signature),
        _ => None,
    });
    if let Some(signature) = first {
        signature.get_or_insert(NO_SIGNATURE);
    }
    parts
}

/// Adds what is carried to the part that it belongs to, or as a part.
fn sign<'a>(parts: &mut Vec<Sent<'a>>, carried: &'a Carried) {
    let signature = filled(&carried.data[SIGNATURE]);
    if let Some(n_bytes) = carried.data[TEXT_BYTES].as_u64() {
        sign_text(parts, signature, usize::try_from(n_bytes).unwrap_or(usize::MAX));
    } else if signature.is_some() && carried.data.as_object().is_some_and(|data| data.len() == 1) {
        // A record may have lost the call.
        if let Some(Sent::Call { thought_signature, .. }) = parts.last_mut() {
            *thought_signature = signature;
        }
    } else {
        parts.push(Sent::Carried(&carried.data));
    }
}

/// Signs the last bytes of the text, which become a part of their own: a signed part must not be merged with
/// another one.
fn sign_text<'a>(parts: &mut Vec<Sent<'a>>, signature: Option<&'a str>, n_bytes: usize) {
    let at = parts.iter().rposition(|part| matches!(part, Sent::Text { .. }));
    let (at, text) = match at.map(|at| (at, &parts[at])) {
        Some((at, Sent::Text { text: Cow::Borrowed(text), thought_signature: None }))
            if n_bytes > 0 =>
        {
            (at, *text)
        }
        _ => {
            parts.push(Sent::Text { text: Cow::Borrowed(""), thought_signature: signature });
            return;
        }
    };
    let (before, signed) =
        text.split_at(text.floor_char_boundary(text.len().saturating_sub(n_bytes)));
    parts[at] = Sent::Text { text: Cow::Borrowed(signed), thought_signature: signature };
    if let Some(before) = plain(before) {
        parts.insert(at, before);
    }
}

/// The results of the calls.
fn results<'a>(message: &'a Message, names: &HashMap<&'a str, Cow<'a, str>>) -> Vec<Sent<'a>> {
    let results = tool_results(message).map(|ToolResult { call, text, is_error, .. }| {
        let name = names.get(call.as_str()).cloned().unwrap_or(Cow::Borrowed("unnamed"));
        let response = if *is_error { Response::Error(text) } else { Response::Output(text) };
        Sent::Result { function_response: SentResult { id: call, name, response } }
    });
    results.collect()
}

/// The images of the results. Only Gemini 3 accepts them inside a result.
fn shown<'a>(message: &'a Message, request: &Request<'_>) -> Vec<Sent<'a>> {
    let shown = tool_results(message).flat_map(|result| &result.images);
    shown.map(|image| sent_image(image, request)).collect()
}

fn tool_results(message: &Message) -> impl Iterator<Item = &ToolResult> {
    message.parts.iter().filter_map(|part| match part {
        Part::Result(result) => Some(result),
        Part::Text { .. } | Part::Image(_) | Part::Carried(_) | Part::Call(_) => None,
    })
}

/// A text; an empty one is left out, because servers reject it.
fn plain(text: &str) -> Option<Sent<'_>> {
    let sent = || Sent::Text { text: Cow::Borrowed(text), thought_signature: None };
    (!text.is_empty()).then(sent)
}

fn sent_image<'a>(image: &'a Image, request: &Request<'_>) -> Sent<'a> {
    match image_in_base64(image, request) {
        Some(data) => {
            Sent::Image { inline_data: InlineData { mime_type: &image.media_type, data } }
        }
        None => Sent::Text { text: Cow::Borrowed(LOST_IMAGE), thought_signature: None },
    }
}

/// The name in a form that servers accept: it begins with a letter or an underscore.
fn function_name(call: &ToolCall) -> Cow<'_, str> {
    let name = call_name(call);
    if name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        return name;
    }
    Cow::Owned(format!("_{}", name.chars().take(63).collect::<String>()))
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
