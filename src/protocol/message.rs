//! Messages of a conversation: ordered lists of parts, independent of the provider's format.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// The model's reasoning, if the provider returns it; never sent back.
    Reasoning {
        /// The text.
        text: String,
    },
    /// A tool call.
    Call(ToolCall),
    /// The result of a tool call.
    Result(ToolResult),
}

impl Part {
    /// Size of its texts, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Text { text } | Self::Reasoning { text } => text.len(),
            Self::Call(call) => call.name.len() + call.arguments.len(),
            Self::Result(result) => result.text.len(),
        }
    }
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
}
