//! Encodes requests for Responses servers.
//!
//! The keys have a fixed order with `input` last, so that the next request of a conversation begins with the
//! bytes of this one: providers cache by prefix.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Value, json};

use super::{PATH, SEPARATOR};
use crate::endpoint::Endpoint;
use crate::wire::{Encoded, IdForm, LOST_IMAGE, call_arguments, call_id, call_name, image_address};
use agent_protocol::message::{Image, Message, Part, Role, ToolResult};
use agent_protocol::model::Request;

/// What the API accepts as the id of a call.
const IDS: IdForm = IdForm::Word { also: "", longest: 64 };

/// The request.
pub(crate) fn encode(request: &Request<'_>, endpoint: &Endpoint) -> Encoded {
    let has_schemas = endpoint.dialect.structured_outputs != Some(false);
    let is_serial = endpoint.dialect.parallel_calls == Some(false);
    let body = Body {
        model: &endpoint.model,
        stream: true,
        store: false,
        include: endpoint.returns_reasoning.then_some(["reasoning.encrypted_content"]),
        max_output_tokens: request.max_output_tokens,
        temperature: request.temperature,
        reasoning: request.effort.map(|effort| json!({"effort": effort})),
        text: request.answer_schema.filter(|_| has_schemas).map(
            |schema| json!({"format": {"type": "json_schema", "name": "answer", "schema": schema}}),
        ),
        parallel_tool_calls: (is_serial && !request.tools.is_empty()).then_some(false),
        tools: request
            .tools
            .iter()
            .map(|tool| {
                // Without `strict` the server may change the schema to a strict one.
                json!({"type": "function", "name": tool.name, "description": tool.description,
                       "parameters": tool.parameters(), "strict": false})
            })
            .collect(),
        instructions: request.system,
        input: input(request, endpoint),
    };
    let body = serde_json::to_vec(&body).expect("strings and numbers always serialise");
    Encoded { path: PATH.to_owned(), body }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    include: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "str::is_empty")]
    instructions: &'a str,
    input: Vec<Item<'a>>,
}

/// An item as sent. Messages and calls have no ids: the server would look for the items that it generated
/// together with them.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Item<'a> {
    Message {
        role: &'static str,
        content: Vec<Content<'a>>,
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
        output: Output<'a>,
    },
    #[serde(untagged)]
    Carried(&'a Value),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    InputText { text: &'a str },
    InputImage { detail: &'static str, image_url: String },
    OutputText { text: &'a str },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Output<'a> {
    Text(&'a str),
    Parts(Vec<Content<'a>>),
}

fn input<'a>(request: &Request<'a>, endpoint: &Endpoint) -> Vec<Item<'a>> {
    let mut items = Vec::with_capacity(request.messages.len() + 1);
    for message in request.messages {
        match message.role {
            Role::System | Role::User => items.extend(user(message, request)),
            Role::Assistant => answer(message, endpoint, &mut items),
            Role::Tool => items.extend(results(message, request)),
        }
    }
    items
}

/// A message of the user; an empty one is left out, because servers reject it.
fn user<'a>(message: &'a Message, request: &Request<'a>) -> Option<Item<'a>> {
    let content = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(Content::InputText { text }),
        Part::Image(image) => Some(picture(image, request)),
        Part::Carried(_) | Part::Call(_) | Part::Result(_) => None,
    });
    let content = content.collect::<Vec<_>>();
    (!content.is_empty()).then_some(Item::Message { role: "user", content, phase: None })
}

/// The items of an answer, in the order in which they were received.
fn answer<'a>(message: &'a Message, endpoint: &Endpoint, items: &mut Vec<Item<'a>>) {
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
                    let content = vec![Content::OutputText { text }];
                    items.push(Item::Message { role: "assistant", content, phase: None });
                }
            }
            Part::Call(call) => {
                items.append(&mut reasoning);
                items.push(Item::FunctionCall {
                    call_id: call_id(&call.id, IDS),
                    name: call_name(call),
                    arguments: call_arguments(call),
                });
            }
            Part::Carried(carried) if carried.model != endpoint.id => {}
            Part::Carried(carried) => match carried.data["type"].as_str() {
                // The properties of the message before it: see the decoder.
                Some("message") => {
                    if let Some(Item::Message { phase, .. }) = items[start..].last_mut() {
                        *phase = carried.data["phase"].as_str();
                    }
                }
                _ if !endpoint.returns_reasoning => {}
                _ => reasoning.push(Item::Carried(&carried.data)),
            },
            Part::Image(_) | Part::Result(_) => {}
        }
    }
}

fn results<'a>(message: &'a Message, request: &Request<'a>) -> impl Iterator<Item = Item<'a>> {
    message.parts.iter().filter_map(|part| match part {
        Part::Result(result) => Some(Item::FunctionCallOutput {
            call_id: call_id(&result.call, IDS),
            output: output(result, request),
        }),
        Part::Text { .. } | Part::Image(_) | Part::Carried(_) | Part::Call(_) => None,
    })
}

fn output<'a>(result: &'a ToolResult, request: &Request<'a>) -> Output<'a> {
    if result.images.is_empty() {
        return Output::Text(&result.text);
    }
    let text = (!result.text.is_empty()).then_some(Content::InputText { text: &result.text });
    let images = result.images.iter().map(|image| picture(image, request));
    Output::Parts(text.into_iter().chain(images).collect())
}

fn picture<'a>(image: &Image, request: &Request<'a>) -> Content<'a> {
    match image_address(image, request) {
        Some(image_url) => Content::InputImage { detail: "auto", image_url },
        None => Content::InputText { text: LOST_IMAGE },
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
