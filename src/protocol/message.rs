//! What is said in a conversation: ordered messages of ordered parts, whatever the wire.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The program, inside the conversation (a summary, for instance).
    System,
    /// The person, or the program on its behalf.
    User,
    /// The model.
    Assistant,
    /// The registry: the results of the calls in the assistant message before.
    Tool,
}

/// One turn of speech: an ordered list of parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
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
    /// Words.
    Text {
        /// The words.
        text: String,
    },
    /// The model's reasoning, as far as the provider gives it; never sent back.
    Reasoning {
        /// The words.
        text: String,
    },
    /// The model asks for a tool.
    Call(ToolCall),
    /// What the tool answered.
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
    /// Joins the call to its result. Made by us where the server sends none.
    pub id: String,
    /// The tool's name, perhaps of a tool that does not exist.
    pub name: String,
    /// The arguments' JSON text, byte for byte: it may not parse.
    pub arguments: String,
}

/// The model's view of an envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// The [`ToolCall::id`] that it answers.
    pub call: String,
    /// What the model reads.
    pub text: String,
    /// The envelope's status is `error`.
    pub is_error: bool,
}
