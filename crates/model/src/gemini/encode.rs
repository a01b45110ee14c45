//! Encodes requests for Gemini servers. The last key is `contents`, which grows.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{SIGNATURE, TEXT_BYTES, model_resource};
use crate::endpoint::Endpoint;
use crate::wire_format::{
    EncodedRequest, LOST_IMAGE, call_arguments, call_name, decimal, encode_body, image_in_base64,
    non_empty_str, present_fields, sends_thinking,
};
use agent_protocol::Object;
use agent_protocol::message::{Image, Message, OpaqueItem, Part, Role, ToolCall, ToolResult};
use agent_protocol::model::Request;

/// Gemini 3 rejects an answer whose first call has no signature; this value stands for a missing one.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

pub(crate) fn encode(request: &Request<'_>, endpoint: &Endpoint) -> EncodedRequest {
    // Together with tools, only some models accept it.
    let has_schemas = endpoint.dialect.structured_outputs != Some(false);
    let answer_schema = request.answer_schema.filter(|_| has_schemas && request.tools.is_empty());
    let functions = request.tools.iter().map(|tool| {
        // `parameters` would be a schema of OpenAPI, which rejects most keywords.
        json!({"name": tool.name, "description": tool.description,
               "parametersJsonSchema": strip_ref_siblings(tool.parameters())})
    });
    let functions = functions.collect::<Vec<_>>();
    let thinking = sends_thinking(request, endpoint)
        .then(|| json!({"includeThoughts": true, "thinkingLevel": request.effort}))
        .map(present_fields);
    let options = json!({
        "systemInstruction": (!request.system.is_empty())
            .then(|| json!({"parts": [{"text": request.system}]})),
        "tools": (!functions.is_empty()).then(|| [json!({"functionDeclarations": functions})]),
        "generationConfig": present_fields(json!({
            "maxOutputTokens": request.max_output_tokens,
            "temperature": request.temperature.map(decimal),
            "responseMimeType": answer_schema.map(|_| "application/json"),
            "responseJsonSchema": answer_schema.map(|schema| strip_ref_siblings(schema.clone())),
            "thinkingConfig": thinking,
        })),
    });
    EncodedRequest {
        path: format!("{}:streamGenerateContent?alt=sse", model_resource(&endpoint.model)),
        body: encode_body(options, "contents", &contents(request, &endpoint.id)),
    }
}

#[derive(Serialize)]
struct GeminiContent<'a> {
    role: &'static str,
    parts: Vec<GeminiPart<'a>>,
}

#[derive(Serialize)]
#[serde(untagged, rename_all_fields = "camelCase")]
enum GeminiPart<'a> {
    Text {
        text: Cow<'a, str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    Call {
        function_call: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        thought_signature: Option<&'a str>,
    },
    Result {
        function_response: Value,
    },
    Image {
        inline_data: Value,
    },
    Opaque(&'a Value),
}

/// Beside `$ref`, servers reject everything that does not begin with `$`.
fn strip_ref_siblings(mut schema: Value) -> Value {
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

/// Results are not mixed with other parts: servers compare their number with that of the calls.
fn contents<'a>(request: &Request<'a>, model: &str) -> Vec<GeminiContent<'a>> {
    let mut contents = Vec::with_capacity(request.messages.len());
    let mut names = HashMap::new();
    for message in request.messages {
        match message.role {
            Role::System | Role::User => {
                push_content(&mut contents, "user", user_parts(message, request));
            }
            Role::Assistant => {
                push_content(&mut contents, "model", answer_parts(message, model, &mut names));
            }
            Role::Tool => {
                push_content(&mut contents, "user", result_parts(message, &names));
                // Only Gemini 3 accepts images inside a result.
                let images = message.results().flat_map(|result| &result.images);
                let images = images.map(|image| image_part(image, request));
                push_content(&mut contents, "user", images.collect());
            }
        }
    }
    contents
}

fn push_content<'a>(
    contents: &mut Vec<GeminiContent<'a>>,
    role: &'static str,
    parts: Vec<GeminiPart<'a>>,
) {
    let are_results =
        |parts: &[GeminiPart<'_>]| matches!(parts.first(), Some(GeminiPart::Result { .. }));
    match contents.last_mut() {
        _ if parts.is_empty() => {}
        Some(last) if last.role == role && are_results(&last.parts) == are_results(&parts) => {
            last.parts.extend(parts);
        }
        _ => contents.push(GeminiContent { role, parts }),
    }
}

fn user_parts<'a>(message: &'a Message, request: &Request<'_>) -> Vec<GeminiPart<'a>> {
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => text_part(text),
        Part::Image(image) => Some(image_part(image, request)),
        Part::Carried(_) | Part::Call(_) | Part::Result(_) => None,
    });
    parts.collect()
}

/// Notes the names of the calls by their ids.
fn answer_parts<'a>(
    message: &'a Message,
    model: &str,
    names: &mut HashMap<&'a str, Cow<'a, str>>,
) -> Vec<GeminiPart<'a>> {
    let mut parts = Vec::with_capacity(message.parts.len());
    for part in &message.parts {
        match part {
            Part::Text { text } => parts.extend(text_part(text)),
            Part::Call(call) => {
                let name = function_name(call);
                names.insert(&call.id, name.clone());
                let args: Object = serde_json::from_str(&call_arguments(call)).unwrap_or_default();
                let function_call = json!({"id": call.id, "name": name, "args": args});
                parts.push(GeminiPart::Call { function_call, thought_signature: None });
            }
            Part::Carried(item) if item.model == model => {
                attach_signature(&mut parts, item);
            }
            Part::Carried(_) | Part::Image(_) | Part::Result(_) => {}
        }
    }
    // Of calls in parallel only the first has a signature.
    let first = parts.iter_mut().find_map(|part| match part {
        GeminiPart::Call { thought_signature, .. } => Some(thought_signature),
        _ => None,
    });
    if let Some(signature) = first {
        signature.get_or_insert(NO_SIGNATURE);
    }
    parts
}

fn attach_signature<'a>(parts: &mut Vec<GeminiPart<'a>>, item: &'a OpaqueItem) {
    let signature = non_empty_str(&item.data[SIGNATURE]);
    if let Some(n_bytes) = item.data[TEXT_BYTES].as_u64() {
        sign_text(parts, signature, usize::try_from(n_bytes).unwrap_or(usize::MAX));
    } else if signature.is_some() && item.data.as_object().is_some_and(|data| data.len() == 1) {
        // A record may have lost the call.
        if let Some(GeminiPart::Call { thought_signature, .. }) = parts.last_mut() {
            *thought_signature = signature;
        }
    } else {
        parts.push(GeminiPart::Opaque(&item.data));
    }
}

/// Signs the last bytes of the text, as a part of its own: a signed part must not be merged.
fn sign_text<'a>(parts: &mut Vec<GeminiPart<'a>>, signature: Option<&'a str>, n_bytes: usize) {
    let at = parts.iter().rposition(|part| matches!(part, GeminiPart::Text { .. }));
    let (at, text) = match at.map(|at| (at, &parts[at])) {
        Some((at, GeminiPart::Text { text: Cow::Borrowed(text), thought_signature: None }))
            if n_bytes > 0 =>
        {
            (at, *text)
        }
        _ => {
            parts.push(GeminiPart::Text { text: Cow::Borrowed(""), thought_signature: signature });
            return;
        }
    };
    let (before, signed) =
        text.split_at(text.floor_char_boundary(text.len().saturating_sub(n_bytes)));
    parts[at] = GeminiPart::Text { text: Cow::Borrowed(signed), thought_signature: signature };
    if let Some(before) = text_part(before) {
        parts.insert(at, before);
    }
}

fn result_parts<'a>(
    message: &'a Message,
    names: &HashMap<&'a str, Cow<'a, str>>,
) -> Vec<GeminiPart<'a>> {
    let results = message.results().map(|ToolResult { call, text, is_error, .. }| {
        let name = names.get(call.as_str()).map_or("unnamed", |name| &**name);
        // The keys that Gemini documents.
        let response = json!({ (if *is_error { "error" } else { "output" }): text });
        let function_response = json!({"id": call, "name": name, "response": response});
        GeminiPart::Result { function_response }
    });
    results.collect()
}

/// An empty text is left out: servers reject it.
fn text_part(text: &str) -> Option<GeminiPart<'_>> {
    let sent = || GeminiPart::Text { text: Cow::Borrowed(text), thought_signature: None };
    (!text.is_empty()).then(sent)
}

fn image_part<'a>(image: &'a Image, request: &Request<'_>) -> GeminiPart<'a> {
    match image_in_base64(image, request) {
        Some(data) => {
            let inline_data = json!({"mimeType": image.media_type, "data": data});
            GeminiPart::Image { inline_data }
        }
        None => GeminiPart::Text { text: Cow::Borrowed(LOST_IMAGE), thought_signature: None },
    }
}

/// Servers require a letter or an underscore at the beginning.
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
