//! The interface to models: a request in, a stream of deltas out.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format_thousands;
use super::message::{ImageSource, Message, OpaqueItem, ToolCall};
use super::provider::Effort;
use super::tool::ToolSpec;
use super::variant_names::variant_names;
use super::web::{SearchHit, SearchQuery};

/// A model. Every error is an item of its stream; dropping the stream cancels the request.
///
/// A stream that ends without [`Delta::Done`] is an error; see [`Reply::apply_delta`].
pub trait Model: Send + Sync {
    /// `provider/model`, as in the configuration.
    fn id(&self) -> &str;

    /// Asks the server once for the window that is in effect; `None`: it does not say, or need not be asked.
    fn ask_window(&self) -> BoxFuture<'_, Option<ContextWindow>> {
        Box::pin(std::future::ready(None))
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxStream<'a, Result<Delta, ModelError>>;
}

/// Source of the size of a model's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WindowSource {
    Configured,
    // The server refused a longer request, and said so.
    Error,
    // The server was asked.
    Server,
    // `data/models.toml`.
    Known,
    Assumed,
}

impl WindowSource {
    /// For sentences: `8,192 tokens (the server)`.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Configured => "configured",
            Self::Error => "an error of the server",
            Self::Server => "the server",
            Self::Known => "known of the model",
            Self::Assumed => "assumed",
        }
    }

    /// The number may be wrong, and the server may say another one.
    pub fn is_uncertain(self) -> bool {
        matches!(self, Self::Known | Self::Assumed)
    }
}

/// A smaller number is no window.
pub const MIN_WINDOW: u64 = 256;

/// The window of a model: the limit of a request and its answer together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextWindow {
    pub tokens: u64,
    pub source: WindowSource,
}

impl ContextWindow {
    /// A window of at least this many tokens.
    #[must_use]
    pub fn at_least(self, tokens: u64) -> Self {
        Self { tokens: self.tokens.max(tokens), ..self }
    }
}

impl fmt::Display for ContextWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens ({})", format_thousands(self.tokens), self.source.in_words())
    }
}

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// The main loop.
    Main,
    /// A reflection on a failure.
    Reflect,
    /// A plan, or a new plan.
    Plan,
    /// A summary for a compaction.
    Summary,
    /// A lesson for later sessions.
    Learn,
    /// The verifier.
    Task,
    /// The loop of a sub-agent.
    Agent,
    /// A search by the provider, for the tool `WebSearch`.
    Search,
}

impl Purpose {
    /// The name in scripts and events.
    pub fn as_str(self) -> &'static str {
        variant_names::<Self>()[self as usize]
    }

    /// Whether the request belongs to a conversation with tools, which grows with each request.
    pub fn is_conversation(self) -> bool {
        matches!(self, Self::Main | Self::Agent)
    }

    /// Whether the loop waits for the answer and decides with it; not learning, and not the request of a tool.
    pub fn is_of_loop(self) -> bool {
        !matches!(self, Self::Learn | Self::Search)
    }
}

/// A request. Borrowed, so that the history is not copied.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub purpose: Purpose,
    /// L1 and L2: byte-identical between compactions.
    pub system: &'a str,
    /// `system[..l1_bytes]` is L1, which stays the same in the whole session.
    pub l1_bytes: usize,
    /// The tools' descriptions, in their fixed order; if empty, the model cannot call any.
    pub tools: &'a [ToolSpec],
    /// L3: the conversation. Append-only.
    pub messages: &'a [Message],
    /// Limit of the answer; `None` is the provider's limit.
    pub max_output_tokens: Option<u64>,
    /// If the provider supports it.
    pub temperature: Option<f32>,
    pub effort: Option<Effort>,
    /// JSON Schema of the answer, if the server enforces one.
    pub answer_schema: Option<&'a serde_json::Value>,
    /// Contents of the images in `messages`; `None` if there are none.
    pub images: Option<&'a dyn ImageSource>,
    /// What the provider searches the web for, if the request is a search.
    pub search: Option<&'a SearchQuery>,
}

impl std::fmt::Debug for dyn ImageSource + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Images")
    }
}

impl<'a> Request<'a> {
    /// A request without tools and limits.
    pub fn new(purpose: Purpose, system: &'a str, messages: &'a [Message]) -> Self {
        Self {
            purpose,
            system,
            l1_bytes: system.len(),
            tools: &[],
            messages,
            max_output_tokens: None,
            temperature: None,
            effort: None,
            answer_schema: None,
            images: None,
            search: None,
        }
    }
}

/// The bytes of an answer with this limit of tokens. No text has more on average, so an answer with more bytes is longer
/// than its limit, whatever its tokens are. `None`: the length is not limited.
pub fn max_answer_bytes(max_output_tokens: Option<u64>) -> usize {
    const MAX_BYTES_PER_TOKEN: usize = 12;
    const MIN_LIMIT: usize = 4 << 10;
    max_output_tokens.map_or(usize::MAX, |tokens| {
        let tokens = usize::try_from(tokens).unwrap_or(usize::MAX);
        tokens.saturating_mul(MAX_BYTES_PER_TOKEN).max(MIN_LIMIT)
    })
}

/// A part of an answer, as it arrives.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    Text(String),
    Reasoning(String),
    /// Text that is no part of the answer: the model imitates the result of a tool, and goes on.
    Dropped(String),
    /// Text that may be a call: it follows as a call, or as text.
    Held(String),
    /// A fragment. `id` and `name` are in the first one, if the server sends them at all.
    Call {
        /// Number of the call in this answer.
        index: usize,
        id: Option<String>,
        name: Option<String>,
        /// Next part of the arguments' JSON text.
        arguments: String,
    },
    /// An item that the provider needs back, after everything received before it: see [`OpaqueItem`].
    Opaque {
        /// `provider/model`.
        model: String,
        /// In the wire format of the provider.
        data: serde_json::Value,
    },
    /// A page that the provider's search found, or more about it.
    Hit(SearchHit),
    /// The last one counts.
    Usage(Usage),
    /// An attempt failed and another follows: all items before this one are void.
    Retry(RetryNotice),
    Done(StopReason),
}

/// A failed attempt, and the next one.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryNotice {
    /// Number of the failed attempt, from 1.
    pub attempt: u32,
    pub delay: Duration,
    pub error: String,
    pub reason: Option<String>,
}

/// Tokens, as the provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Tokens of the request, including cached ones.
    pub input_tokens: u64,
    /// Tokens of the answer, including reasoning.
    pub output_tokens: u64,
    /// Tokens of the request that were read from the provider's cache.
    #[serde(default)]
    pub cached_tokens: u64,
    /// Tokens of the request that were written to the provider's cache, if that has a price of its own.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// Searches in the web by the provider.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub searches: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
pub(super) fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl Usage {
    /// Tokens of the request and its answer.
    pub fn total(&self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// The usage after `before`.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_sub(before.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(before.output_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(before.cached_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(before.cache_write_tokens),
            searches: self.searches.saturating_sub(before.searches),
        }
    }
}

// The numbers come from a server or a record, and may be any.
impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cached_tokens = self.cached_tokens.saturating_add(other.cached_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.searches = self.searches.saturating_add(other.searches);
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
    /// It was cut off by a token limit: its calls are not executed.
    Length,
    /// The provider withheld it (a content filter).
    Refused,
    /// It repeated itself, and was stopped: it is not used.
    Repetition,
    /// The turn was interrupted: the text is what was received until then.
    Interrupted,
    /// Another reason, as named by the provider: the answer is not known to be complete.
    Other(String),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// Determines the exit code.
    pub kind: ModelErrorKind,
    /// What happened, and what to do next.
    pub message: String,
    /// In a few words, for a status line: "answered 503", "no data".
    pub reason: Option<String>,
    /// HTTP status, if there was a response.
    pub status: Option<u16>,
    /// For an overflow: the model's window in tokens, if the provider named it.
    pub window: Option<u64>,
}

impl ModelError {
    /// An error of this kind.
    pub fn new(kind: ModelErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), reason: None, status: None, window: None }
    }
}

/// Kind of a model error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelErrorKind {
    /// Temporary: no connection, overload, a stream that keeps breaking, an invalid response. Exit 75.
    Unavailable,
    /// Permanent: authentication, unknown model, a request that is not accepted. Exit 69.
    Refused,
    /// The quota or the balance is used up. Exit 69.
    Quota,
    /// The request is longer than the model's window. Exit 69 if compaction does not help.
    Overflow,
    /// The configuration is invalid: no key, a base URL that is not a URL. Exit 2.
    Configuration,
    /// The script of a scripted model ended, or an expectation in it failed. Exit 1.
    Script,
}

/// An answer, assembled from its deltas.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    pub text: String,
    /// Empty if the provider returns none.
    pub reasoning: String,
    /// In the order of their first fragments.
    pub calls: Vec<ToolCall>,
    /// Items that the provider needs back with the answer.
    pub opaque_items: Vec<OpaqueItem>,
    /// The pages that a search found.
    pub hits: Vec<SearchHit>,
    pub usage: Option<Usage>,
    /// `None` until the answer ends.
    pub stop: Option<StopReason>,
    /// Text that is no part of the answer: see [`Delta::Dropped`].
    pub dropped: String,
    indexes: Vec<usize>,
}

impl Reply {
    /// Adds a delta.
    pub fn apply_delta(&mut self, delta: &Delta) {
        match delta {
            Delta::Text(text) => self.text.push_str(text),
            Delta::Reasoning(text) => self.reasoning.push_str(text),
            Delta::Dropped(text) => self.dropped.push_str(text),
            Delta::Held(_) => {}
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
            Delta::Opaque { model, data } => self.opaque_items.push(OpaqueItem {
                model: model.clone(),
                after_bytes: self.text.len(),
                after_calls: self.calls.len(),
                data: data.clone(),
            }),
            Delta::Hit(hit) => match self.hits.iter_mut().find(|known| known.url == hit.url) {
                None => self.hits.push(hit.clone()),
                Some(known) => {
                    for (text, more) in
                        [(&mut known.title, &hit.title), (&mut known.excerpt, &hit.excerpt)]
                    {
                        if text.is_empty() {
                            text.clone_from(more);
                        }
                    }
                }
            },
            Delta::Usage(usage) => self.usage = Some(*usage),
            Delta::Retry(_) => *self = Self::default(),
            Delta::Done(stop) => self.stop = Some(stop.clone()),
        }
    }
}
