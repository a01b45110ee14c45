//! The envelope: the one structure of every tool result.
//!
//! A tool returns `Result<Report, Failure>`; only the registry turns it into an [`Envelope`].

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser};
use serde_json::value::{RawValue, to_raw_value};

use super::Object;
use super::message::Image;
use super::variant_names::variant_names;

/// How a call went. `error` exists if and only if the status is `error`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "lowercase")]
pub enum Verdict {
    /// Complete, as requested.
    Success,
    /// Usable, but incomplete.
    Partial,
    /// No usable result.
    Error {
        /// The reason.
        error: ToolError,
    },
}

/// Why there is no usable result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolError {
    /// Kind of failure.
    pub code: ErrorCode,
    /// What happened, and to what.
    pub message: String,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl ToolError {
    /// The message and the hint as sentences.
    pub fn in_words(&self) -> String {
        let message = self.message.trim_end_matches('.');
        match &self.hint {
            Some(hint) if hint.ends_with(['?', '!']) => format!("{message}. Next: {hint}"),
            Some(hint) => format!("{message}. Next: {}.", hint.trim_end_matches('.')),
            None => format!("{message}."),
        }
    }
}

/// The result of every tool call, as in the event log. There are no other top-level fields.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// `status`, and `error` if it is `error`.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The result; field names depend on the tool.
    pub data: Object,
    /// For the reader: what was done, how it ended, what to do next.
    pub text: String,
    /// Measurements, always with `time_ms`.
    pub stats: Object,
    /// What the result is about.
    pub context: ResultContext,
}

/// What a result is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResultContext {
    /// The directory that relative paths are relative to, itself relative to the project root.
    pub cwd: String,
    /// The input with the tool's own names of parameters, and the state that a change expects of its file; without
    /// defaults.
    pub params_input: Object,
    /// The resolved path, relative to the project root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_resolved: Option<String>,
}

impl Envelope {
    /// What the sandbox refused to a command or changed, for the user: `data.notes`.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        let notes = self.data.get("notes").and_then(serde_json::Value::as_array);
        notes.into_iter().flatten().filter_map(serde_json::Value::as_str)
    }

    /// The result of a call that reached no tool.
    pub fn refusal(error: ToolError, data: Object, params_input: Object) -> Self {
        Self {
            text: error.in_words(),
            verdict: Verdict::Error { error },
            data,
            stats: Object::from_iter([("time_ms".to_owned(), 0.into())]),
            context: ResultContext { cwd: ".".to_owned(), params_input, path_resolved: None },
        }
    }

    /// The error, if the status is `error`.
    pub fn error(&self) -> Option<&ToolError> {
        match &self.verdict {
            Verdict::Error { error } => Some(error),
            Verdict::Success | Verdict::Partial => None,
        }
    }

    /// The image that the result shows; `data` describes it.
    pub fn image(&self) -> Option<Image> {
        let is_image = self.data.get("type").is_some_and(|kind| kind == "image");
        is_image.then(|| Image::deserialize(&self.data).ok()).flatten()
    }

    /// All images of the result: the result itself, or the images in `data.images`.
    pub fn images(&self) -> Vec<Image> {
        let others = self.data.get("images").and_then(serde_json::Value::as_array);
        let others = others.into_iter().flatten();
        let others = others.filter_map(|image| Image::deserialize(image).ok());
        self.image().into_iter().chain(others).collect()
    }

    /// The value of `status`.
    pub fn status(&self) -> &'static str {
        match self.verdict {
            Verdict::Success => "success",
            Verdict::Partial => "partial",
            Verdict::Error { .. } => "error",
        }
    }
}

/// A finished envelope: shared, immutable and serialised at most once, because it may be large.
#[derive(Clone, Debug)]
pub struct SealedEnvelope(Arc<SealedContent>);

#[derive(Debug)]
struct SealedContent {
    envelope: Envelope,
    json: OnceLock<Box<RawValue>>,
}

impl From<Envelope> for SealedEnvelope {
    fn from(envelope: Envelope) -> Self {
        Self(Arc::new(SealedContent { envelope, json: OnceLock::new() }))
    }
}

impl Deref for SealedEnvelope {
    type Target = Envelope;

    fn deref(&self) -> &Envelope {
        &self.0.envelope
    }
}

impl PartialEq for SealedEnvelope {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Serialize for SealedEnvelope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let json = match self.0.json.get() {
            Some(json) => json,
            None => {
                let json = to_raw_value(&self.0.envelope).map_err(ser::Error::custom)?;
                self.0.json.get_or_init(|| json)
            }
        };
        json.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for SealedEnvelope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Envelope::deserialize(deserializer).map(Self::from)
    }
}

/// A tool's usable result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub partial: bool,
    pub data: Object,
    /// Conclusion, state, next step.
    pub text: String,
    pub stats: Object,
    /// Relative to the project root.
    pub path: Option<String>,
}

/// A tool's failure: it has no usable result.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub code: ErrorCode,
    /// What happened, and to what: lower case, no full stop.
    pub message: String,
    /// What to do next.
    pub hint: Option<String>,
    /// Also despite the failure, such as the output of a command that failed.
    pub data: Object,
    /// More for the reader than `message`; if empty, the registry writes `message` and `hint`.
    pub text: String,
    pub stats: Object,
    /// Relative to the project root.
    pub path: Option<String>,
}

impl Failure {
    /// A failure of this kind. `message` says what happened, and to what.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            data: Object::new(),
            text: String::new(),
            stats: Object::new(),
            path: None,
        }
    }

    /// Sets what to do next.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds text for the reader.
    pub fn append_note(&mut self, note: &str) {
        if self.text.is_empty() {
            let error = ToolError {
                code: self.code,
                message: self.message.clone(),
                hint: self.hint.clone(),
            };
            self.text = error.in_words();
        }
        self.text.push_str(note);
    }

    /// Adds one field of `data`.
    #[must_use]
    pub fn with_data(mut self, key: &str, value: impl Into<serde_json::Value>) -> Self {
        self.data.insert(key.to_owned(), value.into());
        self
    }

    /// Sets the resolved path.
    #[must_use]
    pub fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }
}

/// Why there is no usable result: a closed list.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// No such file, folder or thing.
    NotFound,
    /// Outside the project, or in a place that the agent must not touch.
    AccessDenied,
    /// The operating system denied access.
    PermissionDenied,
    /// The input does not fit the schema or makes no sense.
    InvalidParam,
    /// `old_string` does not occur.
    NoMatch,
    /// `old_string` occurs more than once.
    MultipleMatches,
    /// The file was not read before it was changed.
    NotRead,
    /// The file changed since it was read.
    Conflict,
    /// A directory where a file was expected.
    IsDirectory,
    /// A file where a directory was expected.
    NotADirectory,
    /// Not a text file.
    BinaryFile,
    /// Text that cannot be decoded, or cannot be encoded in the file's encoding.
    Encoding,
    /// Larger than the tool's limit.
    TooLarge,
    /// Did not end in time.
    Timeout,
    /// Ended by an interrupt, or not run because of one.
    Cancelled,
    /// The tool or the machine failed.
    ExecutionError,
    /// The command ran and exited with a failure status.
    CommandFailed,
    /// A command that is never allowed to run.
    CommandBlocked,
    /// Approval is needed, and no user can be asked.
    ApprovalRequired,
    /// The user rejected the call.
    ApprovalRejected,
    /// No tool has this name.
    UnknownTool,
    /// The same call was made before, and nothing since then could change its result.
    RepeatedCall,
    /// The tool failed several times and is suspended for a while.
    CircuitOpen,
    /// No user can be asked.
    AskUserUnavailable,
    /// The MCP server is not connected, or does not follow the protocol.
    McpUnavailable,
    /// The MCP server did not answer in time.
    McpTimeout,
    /// The MCP server reported that the call failed.
    McpFailed,
    /// A sub-agent ended without success.
    SubagentFailed,
    /// A bug in this program.
    InternalError,
}

/// Who has to act on a failure. Recovery and the circuit breaker decide by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ErrorClass {
    /// The caller made a wrong call.
    Caller,
    /// The state is not as required, or the operation reported a failure.
    State,
    /// Not allowed.
    Policy,
    /// The tool is broken.
    Tool,
}

impl ErrorCode {
    /// A time-out of Bash means that the command was slow, a failure of a page that its server is broken, of another `tool`
    /// that the tool is.
    pub fn class(self, tool: &str) -> ErrorClass {
        match self {
            Self::NotFound
            | Self::InvalidParam
            | Self::NoMatch
            | Self::MultipleMatches
            | Self::IsDirectory
            | Self::NotADirectory
            | Self::BinaryFile
            | Self::Encoding
            | Self::TooLarge
            | Self::UnknownTool
            | Self::RepeatedCall
            | Self::AskUserUnavailable => ErrorClass::Caller,
            Self::NotRead
            | Self::Conflict
            | Self::CommandFailed
            | Self::Cancelled
            | Self::McpFailed
            | Self::SubagentFailed => ErrorClass::State,
            Self::Timeout | Self::ExecutionError if tool.starts_with("Web") => ErrorClass::State,
            Self::Timeout if tool == "Bash" => ErrorClass::State,
            Self::AccessDenied
            | Self::PermissionDenied
            | Self::CommandBlocked
            | Self::ApprovalRequired
            | Self::ApprovalRejected
            | Self::CircuitOpen => ErrorClass::Policy,
            Self::Timeout
            | Self::ExecutionError
            | Self::InternalError
            | Self::McpUnavailable
            | Self::McpTimeout => ErrorClass::Tool,
        }
    }

    /// The value of `code`.
    pub fn as_str(self) -> &'static str {
        variant_names::<Self>()[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_code_text_equals_its_serialised_form() {
        for code in [ErrorCode::NotADirectory, ErrorCode::AskUserUnavailable, ErrorCode::NoMatch] {
            assert_eq!(serde_json::to_value(code).ok(), Some(code.as_str().into()));
        }
    }

    #[test]
    fn timeout_is_a_state_error_for_bash_and_a_tool_error_otherwise() {
        assert_eq!(ErrorCode::Timeout.class("Bash"), ErrorClass::State);
        assert_eq!(ErrorCode::Timeout.class("Grep"), ErrorClass::Tool);
    }
}
