//! How a provider's servers are addressed: wire format, dialect and reasoning effort.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::variant_names::variant_names;

/// Wire formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WireFormat {
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

impl WireFormat {
    /// The name in the configuration.
    pub fn as_str(self) -> &'static str {
        variant_names::<Self>()[self as usize]
    }

    /// Whether the wire format has a value for this effort.
    pub fn has_effort(self, effort: Effort) -> bool {
        match self {
            Self::OpenaiChat | Self::OpenaiResponses => true,
            Self::AnthropicMessages => !matches!(effort, Effort::None | Effort::Minimal),
            Self::Gemini => {
                matches!(effort, Effort::Minimal | Effort::Low | Effort::Medium | Effort::High)
            }
        }
    }

    /// The version in the path of servers.
    pub fn api_version(self) -> &'static str {
        if self == Self::Gemini { "v1beta" } else { "v1" }
    }

    /// Whether the version is added to a base URL without one, as the vendor's SDK does.
    pub fn adds_version(self) -> bool {
        matches!(self, Self::AnthropicMessages | Self::Gemini)
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

/// How much a model reasons before it answers. Providers have different subsets of these.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// Not at all.
    None,
    /// As little as possible.
    Minimal,
    /// Little.
    Low,
    /// A medium amount.
    Medium,
    /// Much.
    High,
    /// Very much.
    Xhigh,
    /// As much as possible.
    Max,
}

impl Effort {
    /// Every effort, from the least to the most.
    pub fn all() -> &'static [Self] {
        <Self as clap::ValueEnum>::value_variants()
    }

    /// The name in the configuration and in requests.
    pub fn as_str(self) -> &'static str {
        variant_names::<Self>()[self as usize]
    }

    /// The effort with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().iter().copied().find(|effort| effort.as_str() == name)
    }
}

/// How a model calls tools in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TextCallMode {
    /// The server receives the tools; calls that it leaves in the text are made.
    Accepted,
    /// The server has no function calling: the instructions describe the tools, and calls and results are text.
    Described,
}

/// Deviations of a server from the usual behaviour of its wire format. Unset: as usual. Those whose comment names no
/// wire format concern Chat Completions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Dialect {
    /// The field for the limit of an answer: `max_tokens` (usual) or `max_completion_tokens`.
    #[schemars(example = &"max_completion_tokens")]
    pub token_limit: Option<TokenLimit>,
    /// The role of the instructions: `system` (usual) or `developer`.
    #[schemars(example = &"developer")]
    pub instructions: Option<InstructionsRole>,
    /// The field for the reasoning effort: `reasoning-effort` (usual), `reasoning` (an object with `effort`),
    /// `thinking` and `enable-thinking` (the same as usual, but with these fields reasoning is turned off), or
    /// `unsupported`, with every wire format.
    #[schemars(example = &"thinking")]
    pub effort: Option<EffortField>,
    /// The field in which the reasoning of earlier answers is sent back: `reasoning-content` or
    /// `reasoning-details`. Usual: it is not.
    #[schemars(example = &"reasoning-content")]
    pub reasoning_back: Option<ReasoningField>,
    /// Arguments of calls match their schemas: `strict` is requested, with schemas in the form that it needs.
    #[schemars(example = true)]
    pub strict_schemas: Option<bool>,
    /// Every wire format: it enforces a JSON Schema for an answer. Usual: only with Responses and Gemini.
    #[schemars(example = true)]
    pub structured_outputs: Option<bool>,
    /// Every wire format: `false`: it rejects other temperatures than the default, so none is sent.
    #[schemars(example = false)]
    pub temperature: Option<bool>,
    /// `false`: it rejects `stream_options`, which requests the usage.
    #[schemars(example = false)]
    pub stream_options: Option<bool>,
    /// Results of tools are sent as an array of parts.
    #[schemars(example = true)]
    pub result_parts: Option<bool>,
    /// `false`: a message of the user must not follow results: a short answer is sent in between.
    #[schemars(example = false)]
    pub user_after_tool: Option<bool>,
    /// The ids of calls consist of exactly nine letters and digits; others, which another server has chosen, are
    /// replaced.
    #[schemars(example = true)]
    pub nine_character_ids: Option<bool>,
    /// Every wire format but Gemini, which has no field for it: `false`: an answer contains at most one call.
    #[schemars(example = false)]
    pub parallel_calls: Option<bool>,
    /// `false`: answers to requests with tools are not streamed.
    #[schemars(example = false)]
    pub stream_with_tools: Option<bool>,
    /// Every wire format: calls of tools in the text of answers, as models write them whose servers do not
    /// understand them: `accepted`, or `described` if the server has no function calling. Usual: they are text.
    #[schemars(example = &"described")]
    pub text_calls: Option<TextCallMode>,
}

impl Dialect {
    /// Takes unset fields from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            token_limit: self.token_limit.or(other.token_limit),
            instructions: self.instructions.or(other.instructions),
            effort: self.effort.or(other.effort),
            reasoning_back: self.reasoning_back.or(other.reasoning_back),
            strict_schemas: self.strict_schemas.or(other.strict_schemas),
            structured_outputs: self.structured_outputs.or(other.structured_outputs),
            temperature: self.temperature.or(other.temperature),
            stream_options: self.stream_options.or(other.stream_options),
            result_parts: self.result_parts.or(other.result_parts),
            user_after_tool: self.user_after_tool.or(other.user_after_tool),
            nine_character_ids: self.nine_character_ids.or(other.nine_character_ids),
            parallel_calls: self.parallel_calls.or(other.parallel_calls),
            stream_with_tools: self.stream_with_tools.or(other.stream_with_tools),
            text_calls: self.text_calls.or(other.text_calls),
        }
    }

    /// Whether a temperature can be sent.
    pub fn has_temperature(self) -> bool {
        self.temperature != Some(false)
    }
}

/// A request that a server may answer with the windows of its models.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowQuestion {
    /// Below the base URL; `..` is what precedes the version at its end. `{model}` is the name of the model.
    pub path: String,
    /// Asked in this wire format only.
    pub wire: Option<WireFormat>,
    /// Asked only of servers on this machine, in a private network, or with a configured address.
    #[serde(default)]
    pub only_self_hosted: bool,
    /// JSON pointer to the list of models; `None`: the answer is about the model.
    pub list: Option<String>,
    /// JSON pointer to the name of a model in the list.
    pub model_name: Option<String>,
    /// JSON pointers to the window; the first one that leads to a number counts.
    pub window: Vec<String>,
}

/// The field for the limit of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenLimit {
    /// `max_tokens`.
    MaxTokens,
    /// `max_completion_tokens`.
    MaxCompletionTokens,
}

/// The role of the instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InstructionsRole {
    /// `system`.
    System,
    /// `developer`.
    Developer,
}

/// The field for the reasoning effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EffortField {
    /// `reasoning_effort: "high"`.
    ReasoningEffort,
    /// `reasoning: {effort: "high"}`.
    Reasoning,
    /// `reasoning_effort`; `thinking: {type: "disabled"}` for none.
    Thinking,
    /// `reasoning_effort`; `enable_thinking: false` for none.
    EnableThinking,
    /// There is none.
    Unsupported,
}

/// The field in which the reasoning of earlier answers is sent back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReasoningField {
    /// `reasoning_content`: text. Every answer needs the field; it is empty for those of other models.
    ReasoningContent,
    /// `reasoning_details`: an array of items, unchanged.
    ReasoningDetails,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_fields_of_a_dialect_take_precedence() {
        let own = Dialect { temperature: Some(true), ..Dialect::default() };
        let preset = Dialect {
            temperature: Some(false),
            effort: Some(EffortField::Thinking),
            ..Dialect::default()
        };
        let both = own.or(preset);
        assert_eq!((both.temperature, both.effort), (Some(true), Some(EffortField::Thinking)));
        assert_eq!(Dialect::default().or(preset), preset);
    }

    #[test]
    fn an_effort_has_one_name_everywhere() {
        for effort in Effort::all() {
            assert_eq!(serde_json::to_value(effort).expect("it serialises"), effort.as_str());
            assert_eq!(Effort::from_name(effort.as_str()), Some(*effort));
        }
        assert_eq!(Effort::from_name("High"), None);
    }
}
