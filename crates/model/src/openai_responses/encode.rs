//! Encodes requests for Responses servers. The last key is `input`, which grows.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::{PATH, SEPARATOR};
use crate::endpoint::Endpoint;
use crate::wire_format::{
    CallIdFormat, EncodedRequest, LOST_IMAGE, call_arguments, call_id, call_name, decimal,
    encode_body, image_data_url,
};
use agent_protocol::message::{Image, Message, Part, Role, ToolResult};
use agent_protocol::model::Request;

const CALL_ID_FORMAT: CallIdFormat = CallIdFormat::Word { also: "", longest: 64 };

pub(crate) fn encode(request: &Request<'_>, endpoint: &Endpoint) -> EncodedRequest {
    let has_schemas = endpoint.dialect.structured_outputs != Some(false);
    let is_serial = endpoint.dialect.parallel_calls == Some(false);
    let tools = request.tools.iter().map(|tool| {
        // Without `strict` the server may change the schema to a strict one.
        json!({"type": "function", "name": tool.name, "description": tool.description,
               "parameters": tool.parameters(), "strict": false})
    });
    let options = json!({
        "model": endpoint.model,
        "stream": true,
        "store": false,
        "include": endpoint.returns_reasoning.then_some(["reasoning.encrypted_content"]),
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature.map(decimal),
        "reasoning": request.effort.map(|effort| json!({"effort": effort})),
        "text": request.answer_schema.filter(|_| has_schemas).map(
            |schema| json!({"format": {"type": "json_schema", "name": "answer", "schema": schema}}),
        ),
        "parallel_tool_calls": (is_serial && !request.tools.is_empty()).then_some(false),
        "tools": tools.collect::<Vec<_>>(),
        "instructions": request.system,
    });
    let body = encode_body(options, "input", &input_items(request, endpoint));
    EncodedRequest { path: PATH.to_owned(), body }
}

/// Without ids of messages and calls: the server would look for items that it generated with them. A message of the
/// assistant without an id has a string as its content; a list of parts with the type `output_text` needs an id.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputItem<'a> {
    Message {
        role: &'static str,
        content: ItemContent<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<&'a str>,
    },
    FunctionCall {
        call_id: Cow<'a, str>,
        name: Cow<'a, str>,
        arguments: Cow<'a, str>,
    },
    FunctionCallOutput {
        call_id: Cow<'a, str>,
        output: ItemContent<'a>,
    },
    #[serde(untagged)]
    Opaque(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputContent<'a> {
    InputText { text: &'a str },
    InputImage { detail: &'static str, image_url: String },
}

#[derive(Serialize)]
#[serde(untagged)]
enum ItemContent<'a> {
    Text(&'a str),
    Parts(Vec<InputContent<'a>>),
}

fn input_items<'a>(request: &Request<'a>, endpoint: &Endpoint) -> Vec<InputItem<'a>> {
    let mut items = Vec::with_capacity(request.messages.len() + 1);
    for message in request.messages {
        match message.role {
            Role::System | Role::User => items.extend(user_item(message, request)),
            Role::Assistant => push_answer_items(message, endpoint, &mut items),
            Role::Tool => items.extend(result_items(message, request)),
        }
    }
    items
}

/// An empty message is left out: servers reject it.
fn user_item<'a>(message: &'a Message, request: &Request<'a>) -> Option<InputItem<'a>> {
    let content = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(InputContent::InputText { text }),
        Part::Image(image) => Some(image_content(image, request)),
        Part::Carried(_) | Part::Call(_) | Part::Result(_) => None,
    });
    let content = content.collect::<Vec<_>>();
    let is_empty = content.is_empty();
    let content = ItemContent::Parts(content);
    (!is_empty).then_some(InputItem::Message { role: "user", content, phase: None })
}

/// In the order in which the items were received.
fn push_answer_items<'a>(
    message: &'a Message,
    endpoint: &Endpoint,
    items: &mut Vec<InputItem<'a>>,
) {
    let start = items.len();
    // A reasoning item is valid only before the item that it led to: at the end of an answer it is left out.
    let mut reasoning = Vec::new();
    let mut has_text = false;
    for part in &message.parts {
        match part {
            Part::Text { text } => {
                let text = text.strip_prefix(SEPARATOR).filter(|_| has_text).unwrap_or(text);
                if !text.is_empty() {
                    has_text = true;
                    items.append(&mut reasoning);
                    let content = ItemContent::Text(text);
                    items.push(InputItem::Message { role: "assistant", content, phase: None });
                }
            }
            Part::Call(call) => {
                items.append(&mut reasoning);
                items.push(InputItem::FunctionCall {
                    call_id: call_id(&call.id, CALL_ID_FORMAT),
                    name: call_name(call),
                    arguments: call_arguments(call),
                });
            }
            Part::Carried(item) if item.model != endpoint.id => {}
            Part::Carried(item) => match item.data["type"].as_str() {
                // The properties of the message before it: see the decoder.
                Some("message") => {
                    if let Some(InputItem::Message { phase, .. }) = items[start..].last_mut() {
                        *phase = item.data["phase"].as_str();
                    }
                }
                _ if !endpoint.returns_reasoning => {}
                _ => reasoning.push(InputItem::Opaque(&item.data)),
            },
            Part::Image(_) | Part::Result(_) => {}
        }
    }
}

fn result_items<'a>(
    message: &'a Message,
    request: &Request<'a>,
) -> impl Iterator<Item = InputItem<'a>> {
    message.results().map(|result| InputItem::FunctionCallOutput {
        call_id: call_id(&result.call, CALL_ID_FORMAT),
        output: call_output(result, request),
    })
}

fn call_output<'a>(result: &'a ToolResult, request: &Request<'a>) -> ItemContent<'a> {
    if result.images.is_empty() {
        return ItemContent::Text(&result.text);
    }
    let text = (!result.text.is_empty()).then_some(InputContent::InputText { text: &result.text });
    let images = result.images.iter().map(|image| image_content(image, request));
    ItemContent::Parts(text.into_iter().chain(images).collect())
}

fn image_content<'a>(image: &Image, request: &Request<'a>) -> InputContent<'a> {
    match image_data_url(image, request) {
        Some(image_url) => InputContent::InputImage { detail: "auto", image_url },
        None => InputContent::InputText { text: LOST_IMAGE },
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
