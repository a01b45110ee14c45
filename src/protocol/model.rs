//! The first seam: a request in, a stream of deltas out.

use std::time::Duration;

use futures_util::stream::BoxStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::message::{Message, ToolCall};
use super::tool::ToolSpec;

/// Something that answers a conversation.
///
/// [`Model::stream`] is not async: every error, also that no connection could be made, is an item of
/// the stream. Dropping the stream cancels the request. A stream that ends without [`Delta::Done`]
/// or an error is itself an error; [`Reply::fold`] says so.
pub trait Model: Send + Sync {
    /// `provider/model`, as in the configuration.
    fn id(&self) -> &str;

    /// Asks.
    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxStream<'a, Result<Delta, ModelError>>;
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// The loop itself.
    Main,
    /// A reflection on a failure.
    Reflect,
    /// A plan, or a new one.
    Plan,
    /// A summary of what is to be left out.
    Summary,
    /// Learning from what happened.
    Learn,
    /// A sub-agent.
    Task,
}

impl Purpose {
    /// The word that stands in scripts and events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Reflect => "reflect",
            Self::Plan => "plan",
            Self::Summary => "summary",
            Self::Learn => "learn",
            Self::Task => "task",
        }
    }
}

/// What a model is asked. Borrowed: the history is not copied to be sent.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What it is for.
    pub purpose: Purpose,
    /// L1 and L2: byte-identical between compactions.
    pub system: &'a str,
    /// The tools' descriptions, in their fixed order; empty: the model may call none.
    pub tools: &'a [ToolSpec],
    /// L3: the conversation. It grows only at its end.
    pub messages: &'a [Message],
    /// The most tokens the answer may have; `None`: the provider's own limit.
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature, where the wire takes it.
    pub temperature: Option<f32>,
    /// The JSON Schema of the answer, where the server holds answers to one.
    pub answer_schema: Option<&'a serde_json::Value>,
}

impl<'a> Request<'a> {
    /// Words alone: no tools, no limits of its own.
    pub fn new(purpose: Purpose, system: &'a str, messages: &'a [Message]) -> Self {
        Self {
            purpose,
            system,
            tools: &[],
            messages,
            max_output_tokens: None,
            temperature: None,
            answer_schema: None,
        }
    }
}

/// A piece of an answer, as it comes.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// Words of the answer.
    Text(String),
    /// Words of the reasoning.
    Reasoning(String),
    /// A fragment of a call. `index` says which call of this answer it belongs to; `id` and `name`
    /// come with the first fragment, if the server sends them at all.
    Call {
        /// Which call of this answer.
        index: usize,
        /// The server's id for the call.
        id: Option<String>,
        /// The tool's name.
        name: Option<String>,
        /// The next bytes of the arguments' JSON text.
        arguments: String,
    },
    /// What the answer cost; the last one counts.
    Usage(Usage),
    /// A try failed and another follows: everything before this item is void.
    Retry(Retry),
    /// The answer is whole.
    Done(StopReason),
}

/// A try that failed, and the next one.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// The number of the try that failed, from 1.
    pub attempt: u32,
    /// How many tries there may be in all.
    pub max_attempts: u32,
    /// How long is waited before the next.
    pub delay: Duration,
    /// Why it failed.
    pub error: String,
}

/// Tokens, as the provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens of the request, cached ones included.
    pub input_tokens: u64,
    /// Tokens of the answer, reasoning included.
    pub output_tokens: u64,
    /// Tokens of the request that came from the provider's cache.
    #[serde(default)]
    pub cached_tokens: u64,
}

impl Usage {
    /// Of the request and its answer.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

// The numbers are a server's or a record's, and may be any.
impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
    }
}

/// Why an answer ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It is complete.
    End,
    /// It waits for the results of its calls.
    ToolCalls,
    /// It was cut off by a limit of tokens: its calls are never executed.
    Length,
    /// The provider withheld it (a content filter).
    Refused,
    /// The provider's own word.
    Other(String),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// What kind, and so the exit code.
    pub kind: ModelErrorKind,
    /// What happened, to which thing, and what to do next.
    pub message: String,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// Of an overflow: the model's window in tokens, where the provider named it.
    pub window: Option<u64>,
}

impl ModelError {
    /// An error of this kind.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), status: None, window: None }
    }
}

/// What kind of trouble with the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// Not now: no connection, overload, a stream that keeps breaking, garbage. Exit 75.
    Unavailable,
    /// Not ever: authentication, quota, unknown model, a request it does not take. Exit 69.
    Refused,
    /// The request is longer than the model's window. Exit 69, where compaction does not help.
    Overflow,
    /// What was configured is no model: no key, a base URL that is no address. Exit 2.
    Configuration,
    /// The script of a scripted model ran out, or what it expected did not hold. Exit 1.
    Script,
}

/// An answer, put together from its deltas.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The words.
    pub text: String,
    /// The reasoning, as far as the provider gives it.
    pub reasoning: String,
    /// The calls, in the order of their first fragments.
    pub calls: Vec<ToolCall>,
    /// What it cost, where the provider says.
    pub usage: Option<Usage>,
    /// Why it ended; `None` until it did.
    pub stop: Option<StopReason>,
    /// The server's index of each call in `calls`.
    indexes: Vec<usize>,
}

impl Reply {
    /// Takes one more delta.
    pub fn fold(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => self.text.push_str(text),
            Delta::Reasoning(text) => self.reasoning.push_str(text),
            Delta::Call { index, id, name, arguments } => {
                let at = self.indexes.iter().position(|i| i == index).unwrap_or_else(|| {
                    self.indexes.push(*index);
                    self.calls.push(ToolCall {
                        id: String::new(),
                        name: String::new(),
                        arguments: String::new(),
                    });
                    self.calls.len() - 1
                });
                let call = &mut self.calls[at];
                if let (Some(id), true) = (id, call.id.is_empty()) {
                    call.id.clone_from(id);
                }
                if let (Some(name), true) = (name, call.name.is_empty()) {
                    call.name.clone_from(name);
                }
                call.arguments.push_str(arguments);
            }
            Delta::Usage(usage) => self.usage = Some(*usage),
            Delta::Retry(_) => *self = Self::default(),
            Delta::Done(stop) => self.stop = Some(stop.clone()),
        }
    }
}
