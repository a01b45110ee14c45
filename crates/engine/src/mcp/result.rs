//! The answer of a server as the result of a call.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::model::{CallToolResult, ContentBlock, ResourceContents, ServerResult};
use serde_json::{Value, json};

use crate::tools::ToolCx;
use agent_host::workspace::ImageData;
use agent_protocol::envelope::{ErrorCode, Failure, Report};
use agent_protocol::{Object, format_thousands, one_line, shorten};

/// Limit of a failure's message; the whole text is below it.
const MAX_MESSAGE_BYTES: usize = 300;

pub(super) fn report_answer(
    name: &str,
    answer: ServerResult,
    cx: &ToolCx,
) -> Result<Report, Failure> {
    let CallToolResult { content, structured_content, is_error, .. } = match answer {
        ServerResult::CallToolResult(result) => result,
        other => parse_leniently(&other).ok_or_else(|| {
            let message = format!("{name} answered with something that is no result of a call");
            Failure::new(ErrorCode::McpUnavailable, message)
                .with_hint("its server does not follow the protocol: continue without it")
        })?,
    };
    let mut images: Vec<Value> = Vec::new();
    let mut show =
        |data: &str, kind: &str| store_image(data, kind, cx).map(|image| images.push(image));
    let texts = content.into_iter().filter_map(|block| text_of(block, &mut show));
    let mut text = texts.collect::<Vec<_>>().join("\n");
    let structured = structured_content.filter(|value| !value.is_null());
    // Most servers send the same content twice, for clients that read only text.
    if let Some(structured) = &structured
        && serde_json::from_str::<Value>(&text).is_ok_and(|value| value == *structured)
    {
        text.clear();
    }
    let mut data = Object::new();
    if !text.is_empty() {
        data.insert("content".to_owned(), text.into());
    }
    if let Some(structured) = structured {
        data.insert("structured".to_owned(), structured);
    }
    if !images.is_empty() {
        data.insert("images".to_owned(), images.into());
    }
    if is_error == Some(true) {
        let whole = data.get("content").and_then(Value::as_str).unwrap_or_default();
        let message = match one_line(whole) {
            message if message.is_empty() => format!("{name} failed without a message"),
            message => shorten(&message, MAX_MESSAGE_BYTES),
        };
        if whole.len() <= MAX_MESSAGE_BYTES {
            data.remove("content");
        }
        return Err(Failure { data, ..Failure::new(ErrorCode::McpFailed, message) });
    }
    let text = if data.is_empty() {
        format!("{name} answered nothing.")
    } else {
        format!("{name} answered.")
    };
    Ok(Report { data, text, ..Report::default() })
}

/// Parses an answer whose parts do not all follow the protocol.
fn parse_leniently(answer: &ServerResult) -> Option<CallToolResult> {
    let ServerResult::CustomResult(custom) = answer else { return None };
    let blocks = custom.0["content"].as_array()?;
    let content = blocks.iter().map(|block| {
        serde_json::from_value(block.clone()).unwrap_or_else(|_| {
            let text = block["text"].as_str().map_or_else(|| block.to_string(), str::to_owned);
            ContentBlock::text(text)
        })
    });
    let mut result = CallToolResult::success(content.collect());
    result.is_error = custom.0["isError"].as_bool();
    result.structured_content = custom.0.get("structuredContent").cloned();
    Some(result)
}

/// Receives base64 and the media type; the text of an error takes the place of the image.
pub(super) type ImageSink<'a> = dyn FnMut(&str, &str) -> Result<(), String> + 'a;

/// `None`: an image that is shown.
pub(super) fn text_of(block: ContentBlock, show: &mut ImageSink<'_>) -> Option<String> {
    Some(match block {
        ContentBlock::Text(text) => text.text,
        ContentBlock::Image(image) => return show(&image.data, &image.mime_type).err(),
        ContentBlock::Audio(audio) => not_shown_note("audio", &audio.mime_type, &audio.data),
        ContentBlock::Resource(resource) => match resource.resource {
            ResourceContents::TextResourceContents { uri, text, .. } => format!("{uri}:\n{text}"),
            ResourceContents::BlobResourceContents { uri, mime_type, blob, .. } => {
                let kind = mime_type.unwrap_or_default();
                if kind.starts_with("image/") {
                    return show(&blob, &kind).err();
                }
                not_shown_note(&uri, &kind, &blob)
            }
            _ => return None,
        },
        ContentBlock::ResourceLink(link) => {
            let about = link.description.or(link.title).unwrap_or(link.name);
            format!("[resource {}: {about}]", link.uri)
        }
        _ => "[a kind of content that is not known]".to_owned(),
    })
}

fn store_image(data: &str, kind: &str, cx: &ToolCx) -> Result<Value, String> {
    if !cx.takes_images {
        return Err(not_shown_note("image, which you do not receive", kind, data));
    }
    let store = || -> Result<Value, String> {
        let content = STANDARD.decode(data).map_err(|_| "it is not valid base64")?;
        let picture = ImageData::from_bytes(content)?;
        let (width, height) = (picture.width, picture.height);
        let image = cx.images.store(picture).map_err(|error| error.to_string())?;
        Ok(json!({
            "hash": image.hash,
            "media_type": image.media_type,
            "bytes": image.bytes,
            "width": width,
            "height": height,
        }))
    };
    store().map_err(|why| format!("[image, {kind}, not shown: {why}]"))
}

fn not_shown_note(what: &str, kind: &str, base64: &str) -> String {
    format!("[{what}: {kind}, {} bytes, not shown]", decoded_size(base64))
}

pub(super) fn decoded_size(base64: &str) -> String {
    format_thousands(base64.len() as u64 / 4 * 3)
}
