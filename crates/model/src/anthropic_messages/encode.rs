//! Encodes requests for servers of the Messages API. Of one request in the next, only the two breakpoints in the
//! conversation change.
//!
//! No temperature is sent: the vendor's current models reject it, and no model takes it together with thinking.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::schema::reduce_schema;
use crate::endpoint::Endpoint;
use crate::wire_format::{
    CallIdFormat, EncodedRequest, LOST_IMAGE, call_arguments, call_id, call_name, encode_body,
    image_in_base64, present_fields, sends_thinking,
};
use agent_protocol::Object;
use agent_protocol::message::{Image, Message, Part, Role, ToolCall, ToolResult};
use agent_protocol::model::Request;

/// For a request without a limit: the API requires one.
const MAX_TOKENS: u64 = 32_000;

pub(crate) fn encode(request: &Request<'_>, endpoint: &Endpoint) -> EncodedRequest {
    let dialect = endpoint.dialect;
    let is_serial = dialect.parallel_calls == Some(false) && !request.tools.is_empty();
    let tools = request.tools.iter().map(|tool| {
        json!({"name": tool.name, "description": tool.description, "input_schema": tool.parameters()})
    });
    let mut tools = tools.collect::<Vec<_>>();
    let mut system = system_blocks(request);
    let mut messages = messages(request, endpoint);
    // Only the main conversation grows; for others, writing a cache would cost more than it saves.
    if request.purpose.is_conversation() {
        set_breakpoints(&mut tools, &mut system, &mut messages);
    }
    let schema = request.answer_schema.filter(|_| dialect.structured_outputs == Some(true));
    let format = schema.and_then(reduce_schema);
    let output_config = present_fields(json!({
        "format": format.map(|schema| json!({"type": "json_schema", "schema": schema})),
        "effort": request.effort,
    }));
    let options = json!({
        "model": endpoint.model,
        "stream": true,
        "max_tokens": request.max_output_tokens.unwrap_or(MAX_TOKENS),
        // Newer models send no text of their thinking by default, and older ones do not think.
        "thinking": sends_thinking(request, endpoint)
            .then(|| json!({"type": "adaptive", "display": "summarized"})),
        "tool_choice": is_serial
            .then(|| json!({"type": "auto", "disable_parallel_tool_use": true})),
        "output_config": (!output_config.is_empty()).then_some(output_config),
        "tools": tools,
        "system": system,
    });
    EncodedRequest {
        path: super::PATH.to_owned(),
        body: encode_body(options, "messages", &messages),
    }
}

#[derive(Serialize)]
struct AnthropicMessage<'a> {
    role: &'static str,
    content: Vec<ContentBlock<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ContentBlock<'a> {
    Text {
        text: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    Image {
        source: Value,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Box<RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: ToolResultContent<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        cache_control: Option<CacheControl>,
    },
    #[serde(untagged)]
    Opaque(&'a Object),
}

#[derive(Serialize)]
#[serde(untagged)]
enum ToolResultContent<'a> {
    Text(&'a str),
    Blocks(Vec<ContentBlock<'a>>),
}

/// The provider caches the request up to a breakpoint.
#[derive(Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
struct CacheControl {}

/// Four breakpoints at most: the limit of the API.
fn set_breakpoints(
    tools: &mut [Value],
    system: &mut [ContentBlock<'_>],
    messages: &mut [AnthropicMessage<'_>],
) {
    // The tools precede the system text: its breakpoints include them.
    match tools.last_mut() {
        Some(tool) if system.is_empty() => tool["cache_control"] = json!(CacheControl {}),
        Some(_) | None => system.iter_mut().for_each(ContentBlock::set_breakpoint),
    }
    if let Some(last) = messages.last_mut() {
        last.set_breakpoint();
    }
    // The end of the previous request: the provider looks back only 20 blocks, and ten calls are longer.
    let answer = messages.iter().rposition(|message| message.role == ASSISTANT);
    if let Some(previous) = answer.and_then(|at| at.checked_sub(1)) {
        messages[previous].set_breakpoint();
    }
}

impl AnthropicMessage<'_> {
    fn set_breakpoint(&mut self) {
        if let Some(block) = self.content.last_mut() {
            block.set_breakpoint();
        }
    }
}

impl ContentBlock<'_> {
    fn set_breakpoint(&mut self) {
        match self {
            Self::Text { cache_control, .. }
            | Self::Image { cache_control, .. }
            | Self::ToolUse { cache_control, .. }
            | Self::ToolResult { cache_control, .. } => *cache_control = Some(CacheControl {}),
            // The API allows none here.
            Self::Opaque(_) => {}
        }
    }
}

const USER: &str = "user";
const ASSISTANT: &str = "assistant";

/// One block for each of L1 and L2.
fn system_blocks<'a>(request: &Request<'a>) -> Vec<ContentBlock<'a>> {
    let system = request.system;
    let (l1, l2) = system.split_at(system.floor_char_boundary(request.l1_bytes));
    [l1, l2].into_iter().filter_map(text_block).collect()
}

/// Messages of one role are joined: all results of an answer are in one message, before any text.
fn messages<'a>(request: &Request<'a>, endpoint: &Endpoint) -> Vec<AnthropicMessage<'a>> {
    let mut sent: Vec<AnthropicMessage<'a>> = Vec::with_capacity(request.messages.len());
    for message in request.messages {
        let role = match message.role {
            Role::System | Role::User | Role::Tool => USER,
            Role::Assistant => ASSISTANT,
        };
        let mut content = blocks(message, request, endpoint);
        // Nothing follows the thinking of a cut-off answer: the API rejects that.
        while let Some(ContentBlock::Opaque(_)) = content.last() {
            content.pop();
        }
        match sent.last_mut() {
            _ if content.is_empty() => {}
            Some(last) if last.role == role => last.content.append(&mut content),
            Some(_) | None => sent.push(AnthropicMessage { role, content }),
        }
    }
    sent
}

fn blocks<'a>(
    message: &'a Message,
    request: &Request<'a>,
    endpoint: &Endpoint,
) -> Vec<ContentBlock<'a>> {
    let blocks = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => self::text_block(text),
        Part::Image(image) => Some(self::image_block(image, request)),
        Part::Carried(item) if item.model == endpoint.id => {
            item.data.as_object().map(ContentBlock::Opaque)
        }
        Part::Carried(_) => None,
        Part::Call(call) => Some(self::tool_use_block(call)),
        Part::Result(result) => Some(self::tool_result_block(result, request)),
    });
    blocks.collect()
}

/// A blank text is left out: the API rejects it.
fn text_block(text: &str) -> Option<ContentBlock<'_>> {
    (!text.trim().is_empty()).then_some(ContentBlock::Text { text, cache_control: None })
}

fn image_block<'a>(image: &'a Image, request: &Request<'_>) -> ContentBlock<'a> {
    match image_in_base64(image, request) {
        Some(data) => {
            let source = json!({"type": "base64", "media_type": image.media_type, "data": data});
            ContentBlock::Image { source, cache_control: None }
        }
        None => ContentBlock::Text { text: LOST_IMAGE, cache_control: None },
    }
}

fn tool_use_block(call: &ToolCall) -> ContentBlock<'_> {
    let input = RawValue::from_string(call_arguments(call).into_owned());
    ContentBlock::ToolUse {
        id: call_id(&call.id, CALL_ID_FORMAT),
        name: call_name(call),
        input: input.expect("call_arguments returns valid JSON"),
        cache_control: None,
    }
}

fn tool_result_block<'a>(result: &'a ToolResult, request: &Request<'a>) -> ContentBlock<'a> {
    let content = if result.images.is_empty() {
        ToolResultContent::Text(&result.text)
    } else {
        let images = result.images.iter().map(|image| self::image_block(image, request));
        ToolResultContent::Blocks(text_block(&result.text).into_iter().chain(images).collect())
    };
    ContentBlock::ToolResult {
        tool_use_id: call_id(&result.call, CALL_ID_FORMAT),
        content,
        // The API rejects an error without a text.
        is_error: result.is_error && !result.text.trim().is_empty(),
        cache_control: None,
    }
}

const CALL_ID_FORMAT: CallIdFormat = CallIdFormat::Word { also: "", longest: usize::MAX };

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
