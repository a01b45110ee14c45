//! How a provider's servers are addressed: wire format and dialect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Wire formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// OpenAI Chat Completions, which most servers speak.
    #[default]
    OpenaiChat,
    /// Anthropic Messages, which many providers offer besides Chat Completions.
    AnthropicMessages,
    /// Gemini's `generateContent`.
    Gemini,
    /// OpenAI Responses, which keeps the reasoning between the calls of a turn.
    OpenaiResponses,
}

impl Wire {
    /// The version in the path of its servers.
    pub fn version(self) -> &'static str {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses | Self::AnthropicMessages => "v1",
            Self::Gemini => "v1beta",
        }
    }

    /// A base URL without any version in its path gets it: its users write what the vendor's SDK takes, which adds
    /// the version itself.
    pub fn adds_version(self) -> bool {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses => false,
            Self::AnthropicMessages | Self::Gemini => true,
        }
    }

    /// The path of the list of models, with a query that requests all of them at once.
    pub fn models_path(self) -> &'static str {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses => "models",
            Self::AnthropicMessages => "models?limit=1000",
            Self::Gemini => "models?pageSize=1000",
        }
    }

    /// The header for the key, and what precedes the key in it.
    pub fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses => ("authorization", "Bearer "),
            Self::AnthropicMessages => ("x-api-key", ""),
            Self::Gemini => ("x-goog-api-key", ""),
        }
    }

    /// Further headers of every request: names in lower case, and values.
    pub fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses | Self::Gemini => &[],
            Self::AnthropicMessages => &[("anthropic-version", "2023-06-01")],
        }
    }
}

/// Deviations of a server from the usual behaviour of its wire format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dialect {
    /// It accepts `max_completion_tokens` and rejects `max_tokens`.
    pub max_completion_tokens: bool,
    /// It rejects `stream_options`, which requests the usage.
    pub no_stream_options: bool,
    /// It enforces a JSON Schema, and rejects other temperatures than the default.
    pub structured_outputs: bool,
}
