//! Encodes requests for Chat Completions servers. The last key is `messages`, which grows.

use std::borrow::Cow;
use std::iter;

use serde::Serialize;
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::wire_format::{
    CallIdFormat, EncodedRequest, LOST_IMAGE, call_arguments, call_id, call_name, decimal,
    encode_body, image_data_url,
};
use agent_protocol::message::{Image, Message, Part, Role};
use agent_protocol::model::Request;
use agent_protocol::prompt::{Prompt, Prompts};
use agent_protocol::provider::{Effort, EffortField, InstructionsRole, ReasoningField, TokenLimit};
use agent_protocol::tool::ToolSpec;

pub(crate) fn encode(request: &Request<'_>, endpoint: &Endpoint) -> EncodedRequest {
    let dialect = endpoint.dialect;
    let limit = request.max_output_tokens;
    let is_completion_limit = dialect.token_limit == Some(TokenLimit::MaxCompletionTokens);
    let has_tools = !request.tools.is_empty();
    let stream = !(has_tools && dialect.stream_with_tools == Some(false));
    let has_stream_options = stream && dialect.stream_options != Some(false);
    let (effort_field, effort) = effort_field(request.effort, dialect.effort);
    let schema = request.answer_schema.filter(|_| dialect.structured_outputs == Some(true));
    let is_strict = dialect.strict_schemas == Some(true);
    let tools = request.tools.iter().map(|tool| tool_definition(tool, is_strict));
    let options = json!({
        "model": endpoint.model,
        "stream": stream,
        "stream_options": has_stream_options.then(|| json!({"include_usage": true})),
        "max_tokens": limit.filter(|_| !is_completion_limit),
        "max_completion_tokens": limit.filter(|_| is_completion_limit),
        "temperature": request.temperature.map(decimal),
        (effort_field): effort,
        "response_format": schema.map(|schema| {
            let schema = json!({"name": "answer", "schema": schema});
            json!({"type": "json_schema", "json_schema": schema})
        }),
        "parallel_tool_calls": (has_tools && dialect.parallel_calls == Some(false)).then_some(false),
        "tools": tools.collect::<Vec<_>>(),
    });
    let body = encode_body(options, "messages", &messages(request, endpoint));
    EncodedRequest { path: super::PATH.to_owned(), body }
}

/// Null: nothing is sent.
fn effort_field(effort: Option<Effort>, field: Option<EffortField>) -> (&'static str, Value) {
    match (field.unwrap_or(EffortField::ReasoningEffort), effort) {
        (EffortField::Unsupported, _) => ("reasoning_effort", Value::Null),
        (EffortField::Thinking, Some(Effort::None)) => ("thinking", json!({"type": "disabled"})),
        (EffortField::EnableThinking, Some(Effort::None)) => ("enable_thinking", json!(false)),
        (EffortField::Reasoning, Some(effort)) => ("reasoning", json!({"effort": effort})),
        _ => ("reasoning_effort", json!(effort)),
    }
}

fn tool_definition(tool: &ToolSpec, is_strict: bool) -> Value {
    let mut parameters = tool.parameters();
    if !is_strict {
        return json!({"type": "function", "function": {
            "name": tool.name, "description": tool.description, "parameters": parameters,
        }});
    }
    make_strict(&mut parameters);
    json!({"type": "function", "function": {
        "name": tool.name, "description": tool.description, "strict": true, "parameters": parameters,
    }})
}

/// Strict schemas require every property and allow no others: an optional one may be null.
fn make_strict(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    if let Some(items) = schema.get_mut("items") {
        make_strict(items);
    }
    // Not supported, and the tool knows its defaults.
    schema.remove("default");
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (name, property) in properties.iter_mut() {
        make_strict(property);
        if !required.contains(&json!(name)) {
            *property = json!({"anyOf": [property.take(), {"type": "null"}]});
        }
    }
    let names: Vec<&String> = properties.keys().collect();
    let names = json!(names);
    schema.insert("required".to_owned(), names);
    schema.insert("additionalProperties".to_owned(), json!(false));
}

#[derive(Serialize)]
struct ChatMessage<'a> {
    role: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
    /// Never null: servers reject that together with calls.
    content: ChatContent<'a>,
    /// Only answers have reasoning.
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasoning_details: Vec<&'a Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<Value>,
}

/// Plain text where possible: some servers accept only that.
#[derive(Serialize)]
#[serde(untagged)]
enum ChatContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<ChatPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ChatPart<'a> {
    Text { text: Cow<'a, str> },
    ImageUrl { image_url: Value },
}

const USER: &str = "user";
const TOOL: &str = "tool";

/// The answer between results and a message of the user, where the server demands one.
const AFTER_TOOL: Prompt = Prompt::named("after_results.md");

fn messages<'a>(request: &Request<'a>, endpoint: &Endpoint) -> Vec<ChatMessage<'a>> {
    let mut sent = Vec::with_capacity(request.messages.len() + 2);
    if !request.system.is_empty() {
        let role = match endpoint.dialect.instructions {
            None | Some(InstructionsRole::System) => "system",
            Some(InstructionsRole::Developer) => "developer",
        };
        sent.push(text_message(role, Cow::Borrowed(request.system)));
    }
    for message in request.messages {
        match message.role {
            // Many chat templates allow a system message only at the beginning.
            Role::System | Role::User => {
                add_user(&mut sent, user_message(message, request), endpoint);
            }
            Role::Assistant => sent.extend(assistant_message(message, endpoint)),
            Role::Tool => {
                sent.extend(result_messages(message, endpoint));
                if let Some(images) = images_of_results(message, request, endpoint) {
                    add_user(&mut sent, images, endpoint);
                }
            }
        }
    }
    sent
}

/// Joins the message to a user message before it: strict chat templates reject two in a row.
fn add_user<'a>(sent: &mut Vec<ChatMessage<'a>>, message: ChatMessage<'a>, endpoint: &Endpoint) {
    match sent.last_mut() {
        Some(last) if last.role == USER => last.content.append(message.content),
        Some(last) if last.role == TOOL && endpoint.dialect.user_after_tool == Some(false) => {
            let text = Prompts::default().text(AFTER_TOOL).trim_end().to_owned();
            sent.push(text_message("assistant", Cow::Owned(text)));
            sent.push(message);
        }
        Some(_) | None => sent.push(message),
    }
}

impl<'a> ChatContent<'a> {
    fn append(&mut self, other: Self) {
        match (&mut *self, other) {
            (_, ChatContent::Text(text)) if text.is_empty() => {}
            (ChatContent::Text(text), other) if text.is_empty() => *self = other,
            (ChatContent::Text(text), ChatContent::Text(more)) => {
                let text = text.to_mut();
                text.push_str("\n\n");
                text.push_str(&more);
            }
            (_, other) => {
                let mut parts =
                    std::mem::replace(self, ChatContent::Parts(Vec::new())).into_parts();
                parts.extend(other.into_parts());
                *self = ChatContent::Parts(parts);
            }
        }
    }

    fn into_parts(self) -> Vec<ChatPart<'a>> {
        match self {
            ChatContent::Text(text) => vec![ChatPart::Text { text }],
            ChatContent::Parts(parts) => parts,
        }
    }
}

fn text_message<'a>(role: &'static str, content: Cow<'a, str>) -> ChatMessage<'a> {
    ChatMessage {
        role,
        tool_call_id: None,
        content: ChatContent::Text(content),
        reasoning_content: None,
        reasoning_details: Vec::new(),
        tool_calls: Vec::new(),
    }
}

fn user_message<'a>(message: &'a Message, request: &Request<'_>) -> ChatMessage<'a> {
    if message.parts.iter().all(|part| !matches!(part, Part::Image(_))) {
        return text_message(USER, joined_text(message));
    }
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(ChatPart::Text { text: Cow::Borrowed(text) }),
        Part::Image(image) => Some(image_part(image, request)),
        Part::Carried(_) | Part::Call(_) | Part::Result(_) => None,
    });
    parts_message(parts.collect())
}

fn parts_message(parts: Vec<ChatPart<'_>>) -> ChatMessage<'_> {
    ChatMessage { content: ChatContent::Parts(parts), ..text_message(USER, Cow::Borrowed("")) }
}

fn image_part<'a>(image: &Image, request: &Request<'_>) -> ChatPart<'a> {
    match image_data_url(image, request) {
        Some(url) => ChatPart::ImageUrl { image_url: json!({"url": url}) },
        None => ChatPart::Text { text: Cow::Borrowed(LOST_IMAGE) },
    }
}

/// An empty answer is left out: servers reject it.
fn assistant_message<'a>(message: &'a Message, endpoint: &Endpoint) -> Option<ChatMessage<'a>> {
    let content = joined_text(message);
    let mut sent = text_message("assistant", Cow::Borrowed(""));
    let mut reasoning = String::new();
    for part in &message.parts {
        match part {
            Part::Call(call) => {
                let id = call_id(&call.id, id_form(endpoint));
                let function = json!({"name": call_name(call), "arguments": call_arguments(call)});
                sent.tool_calls.push(json!({"id": id, "type": "function", "function": function}));
            }
            Part::Carried(item) if item.model == endpoint.id => {
                reasoning.push_str(item.data["reasoning_content"].as_str().unwrap_or_default());
                let details = item.data["reasoning_details"].as_array();
                sent.reasoning_details.extend(details.into_iter().flatten());
            }
            Part::Text { .. } | Part::Image(_) | Part::Carried(_) | Part::Result(_) => {}
        }
    }
    if content.is_empty() && sent.tool_calls.is_empty() {
        return None;
    }
    sent.content = ChatContent::Text(content);
    match endpoint.dialect.reasoning_back {
        // These servers reject a conversation in which an answer, also one of another model, lacks the field.
        Some(ReasoningField::ReasoningContent) => {
            sent.reasoning_content = Some(reasoning);
            sent.reasoning_details.clear();
        }
        Some(ReasoningField::ReasoningDetails) => {}
        None => sent.reasoning_details.clear(),
    }
    Some(sent)
}

fn result_messages<'a>(
    message: &'a Message,
    endpoint: &Endpoint,
) -> impl Iterator<Item = ChatMessage<'a>> {
    let has_parts = endpoint.dialect.result_parts == Some(true);
    let form = id_form(endpoint);
    message.results().map(move |result| {
        let mut sent = text_message(TOOL, Cow::Borrowed(&result.text));
        sent.tool_call_id = Some(call_id(&result.call, form));
        if has_parts {
            let text = ChatPart::Text { text: Cow::Borrowed(&result.text) };
            sent.content = ChatContent::Parts(vec![text]);
        }
        sent
    })
}

/// One message of the user for all images, each after the id of its call: a tool message has only text.
fn images_of_results<'a>(
    message: &'a Message,
    request: &Request<'_>,
    endpoint: &Endpoint,
) -> Option<ChatMessage<'a>> {
    let form = id_form(endpoint);
    let results = message.results().filter(|result| !result.images.is_empty());
    let parts = results.flat_map(|result| {
        let label = format!("[image of {}]", call_id(&result.call, form));
        let label = ChatPart::Text { text: Cow::Owned(label) };
        let images = result.images.iter().map(|image| image_part(image, request));
        iter::once(label).chain(images)
    });
    let parts = parts.collect::<Vec<_>>();
    (!parts.is_empty()).then(|| parts_message(parts))
}

/// The length is OpenAI's limit. Kimi's own ids are as `functions.Read:0`: its chat template shows
/// them to the model, which fails with others (github.com/vybestack/llxprt-code/issues/713).
fn id_form(endpoint: &Endpoint) -> CallIdFormat {
    match endpoint.dialect.nine_character_ids {
        Some(true) => CallIdFormat::NineCharacters,
        Some(false) | None => CallIdFormat::Word { also: ".:", longest: 40 },
    }
}

fn joined_text(message: &Message) -> Cow<'_, str> {
    let mut words = Cow::Borrowed("");
    for part in &message.parts {
        match part {
            Part::Text { text } if words.is_empty() => words = Cow::Borrowed(text),
            Part::Text { text } => words = Cow::Owned(format!("{words}\n\n{text}")),
            Part::Image(_) | Part::Carried(_) | Part::Call(_) | Part::Result(_) => {}
        }
    }
    words
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
