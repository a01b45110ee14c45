//! Messages of a conversation: ordered lists of parts, independent of the provider's format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::format_thousands;

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The program, inside the conversation (a summary, for instance).
    System,
    /// The user, or the program on the user's behalf.
    User,
    /// The model.
    Assistant,
    /// The registry: the results of the calls in the previous assistant message.
    Tool,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The parts, in order.
    pub parts: Vec<Part>,
}

impl Message {
    /// A message of one text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, parts: vec![Part::Text { text: text.into() }] }
    }

    /// The results of calls among the parts.
    pub fn results(&self) -> impl Iterator<Item = &ToolResult> {
        self.parts.iter().filter_map(|part| match part {
            Part::Result(result) => Some(result),
            _ => None,
        })
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image(Image),
    /// What the provider of an answer needs back with it.
    Carried(OpaqueItem),
    /// A tool call.
    Call(ToolCall),
    /// The result of a tool call.
    Result(ToolResult),
}

impl Part {
    /// The images in this part.
    pub fn images(&self) -> &[Image] {
        match self {
            Self::Image(image) => std::slice::from_ref(image),
            Self::Result(result) => &result.images,
            _ => &[],
        }
    }

    /// Size of the sent content, in bytes of text.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Image(_) => Image::BYTES_OF_TEXT,
            Self::Carried(item) => item.data.to_string().len(),
            Self::Call(call) => call.name.len() + call.arguments.len(),
            Self::Result(result) => result.text.len() + result.images.len() * Image::BYTES_OF_TEXT,
        }
    }
}

/// The parts of an answer, in the order in which they were received.
pub fn answer_parts(text: &str, calls: &[ToolCall], items: &[OpaqueItem]) -> Vec<Part> {
    fn add(parts: &mut Vec<Part>, text: &str, calls: &[ToolCall]) {
        if !text.is_empty() {
            parts.push(Part::Text { text: text.to_owned() });
        }
        parts.extend(calls.iter().cloned().map(Part::Call));
    }
    let mut parts = Vec::with_capacity(calls.len() + items.len() + 1);
    let (mut from_byte, mut from_call) = (0, 0);
    for item in items {
        // A record may contain any numbers.
        let to_byte = text.floor_char_boundary(item.after_bytes).max(from_byte);
        let to_call = item.after_calls.clamp(from_call, calls.len());
        add(&mut parts, &text[from_byte..to_byte], &calls[from_call..to_call]);
        parts.push(Part::Carried(item.clone()));
        (from_byte, from_call) = (to_byte, to_call);
    }
    add(&mut parts, &text[from_byte..], &calls[from_call..]);
    parts
}

/// A part of an answer that only the provider understands, as encrypted reasoning or a signature. It is sent
/// back unchanged, and only to the model that it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OpaqueItem {
    /// The model that it comes from: `provider/model`.
    pub model: String,
    /// Its position: after this many bytes of the answer's text …
    pub after_bytes: usize,
    /// … and after this many of its calls.
    pub after_calls: usize,
    /// The data, in the wire format of the provider.
    pub data: Value,
}

/// An image. Its content is stored beside the session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Image {
    /// BLAKE3 hash of its content, in hexadecimal.
    pub hash: String,
    /// `image/png`, `image/jpeg` or `image/webp`.
    pub media_type: String,
    /// Size of its content in bytes.
    pub bytes: u64,
}

impl Image {
    /// Costs about as many tokens as an image: providers count up to about 1,600 for one.
    pub const BYTES_OF_TEXT: usize = 6_400;

    /// For display: `image/png, 12,345 bytes`.
    pub fn in_words(&self) -> String {
        format!("{}, {} bytes", self.media_type, format_thousands(self.bytes))
    }
}

/// A text for display, with one line below it for each image: `[image/png, 12,345 bytes]`.
pub fn append_image_lines(text: &str, images: &[Image]) -> String {
    let lines = images.iter().map(|image| format!("\n[{}]", image.in_words()));
    lines.fold(text.to_owned(), |text, line| text + &line)
}

/// The contents of images.
pub trait ImageSource: Send + Sync {
    /// `None` if the content is lost.
    fn content(&self, image: &Image) -> Option<Vec<u8>>;
}

/// A call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Links the call to its result. Generated if the server sends none.
    pub id: String,
    /// The tool's name; the tool may not exist.
    pub name: String,
    /// The JSON text of the arguments, unchanged: it may not parse.
    pub arguments: String,
}

/// The model's view of an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// The [`ToolCall::id`] of the call.
    pub call: String,
    /// The text that the model receives.
    pub text: String,
    /// The envelope's status is `error`.
    pub is_error: bool,
    /// Images that belong to the text.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answer_parts_keep_the_order_of_the_answer() {
        let call = |id: &str| ToolCall {
            id: id.to_owned(),
            name: "Read".to_owned(),
            arguments: "{}".to_owned(),
        };
        let carried = |after_bytes, after_calls, data: &str| OpaqueItem {
            model: "p/m".to_owned(),
            after_bytes,
            after_calls,
            data: json!(data),
        };
        let shown = |parts: Vec<Part>| {
            let shown = parts.iter().map(|part| match part {
                Part::Text { text } => text.clone(),
                Part::Carried(carried) => carried.data.to_string(),
                Part::Call(call) => call.id.clone(),
                part => format!("{part:?}"),
            });
            shown.collect::<Vec<_>>().join(" ")
        };
        let calls = [call("c1"), call("c2")];
        let items = [carried(0, 0, "a"), carried(2, 1, "b"), carried(2, 1, "c")];
        assert_eq!(shown(answer_parts("hiho", &calls, &items)), r#""a" hi c1 "b" "c" ho c2"#);
        assert_eq!(shown(answer_parts("hi", &calls, &[])), "hi c1 c2");
        let beyond = [carried(9, 9, "a"), carried(0, 0, "b")];
        assert_eq!(shown(answer_parts("é", &calls[..1], &beyond)), r#"é c1 "a" "b""#);
        assert_eq!(shown(answer_parts("é", &[], &[carried(1, 0, "a")])), r#""a" é"#);
    }
}
