//! The event stream: every fact that happens in a session, and the interface for its consumers.
//!
//! Screen, JSON output, trace, resume and learning read only this stream; see `docs/EVENTS.md`.

mod stream;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::stream::{Clock, EventStream, Sink, StampedEvent};
use super::Object;
use super::control::{ControlDecision, Counters, Ending, Grant, LastFailure, PermissionMode};
use super::directives::UserInput;
use super::envelope::{Envelope, SealedEnvelope};
use super::hook::HookFinished;
use super::message::{Image, OpaqueItem, ToolCall};
use super::model::{Purpose, StopReason, Usage, WindowSource};
use super::plan::Plan;
use super::provider::Effort;
use super::question::{Question, UserAnswer};
use super::recall::{MemoryRecalled, MemoryWritten};
use super::reflection::Reflection;
use super::spending::Spending;
use super::tool::Effect;
use super::variant_names::variant_names;

pub const FORMAT_VERSION: u32 = 2;

/// Id of the agent that works on the user's messages.
pub const MAIN_AGENT: &str = "main";

/// The source of an error of a request for lessons, which is only recorded.
pub const DISTILLATION: &str = "distillation";

/// Sources of errors that are notices for the user. Others end the turn, and are in its report.
pub const NOTICE_SOURCES: [&str; 9] =
    ["workspace", "memory", "sandbox", "checks", "mention", "images", "hook", "context", "reply"];

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When and where it happened.
    #[serde(flatten)]
    pub header: EventHeader,
    /// What happened.
    #[serde(flatten)]
    pub body: EventBody,
}

/// When and where something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EventHeader {
    /// Version of the format.
    pub v: u32,
    /// Number of the event in its session, from 1, without gaps.
    pub seq: u64,
    /// UTC time, RFC 3339 with milliseconds.
    pub ts: String,
    /// The session's id.
    pub session: String,
    /// The agent of the session: `main`, or the id of the Task call for which a sub-agent works.
    pub agent: String,
    /// Position in the work.
    #[serde(flatten)]
    pub place: WorkPosition,
}

impl EventHeader {
    /// Whether the event comes from the main agent, not from a sub-agent.
    pub fn is_main(&self) -> bool {
        self.agent == MAIN_AGENT
    }
}

/// A file that changed since the session last saw it, with its current state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// Time of its last change, in milliseconds since 1970; `None` if the file is gone.
    pub mtime_ms: Option<i64>,
    /// Bytes; 0 if the file is gone.
    pub size: u64,
}

/// Position in the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkPosition {
    /// The user's message that is worked on, from 1; 0 before the first.
    pub turn: u32,
    /// The model call and its results, from 1 in each turn.
    pub round: u32,
    /// The place of the todo in progress, from 1; 0 without a plan.
    pub step: u32,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum EventBody {
    /// A session began.
    #[serde(rename = "session.started")]
    SessionStarted(SessionStarted),
    /// A session was resumed.
    #[serde(rename = "session.resumed")]
    SessionResumed {
        /// The settings from now on, which may differ from the start.
        now: SessionStarted,
        /// Number of events recorded before.
        events: u64,
        /// Ids of calls that were started and have no result: their outcome is unknown.
        uncertain: Vec<String>,
        /// An incomplete last line was dropped.
        torn: bool,
    },
    /// The session is a copy of another one, up to this event.
    #[serde(rename = "session.forked")]
    SessionForked {
        /// The other session.
        from: String,
        /// The last turn that was copied.
        up_to: u32,
    },
    /// The conversation from a turn on is no longer part of the session; the record keeps it. Files stay as
    /// they are: see [`EventBody::TurnUndone`].
    #[serde(rename = "session.rewound")]
    SessionRewound {
        /// The first turn that was removed.
        from_turn: u32,
    },
    /// The model is not available: another one answers for the rest of the turn.
    #[serde(rename = "model.fallback")]
    ModelFallback {
        /// The model that is not available.
        from: String,
        /// The model that answers instead.
        to: String,
        /// Why.
        reason: String,
    },
    /// The server refused a request with these images: it is sent again without them, and so are later requests.
    #[serde(rename = "images.withheld")]
    ImagesWithheld {
        /// The model, `provider/model`: another one receives them.
        model: String,
        /// Their hashes.
        images: Vec<String>,
        /// The refusal.
        reason: String,
    },
    /// The user named the session.
    #[serde(rename = "session.renamed")]
    SessionRenamed {
        /// The name: no other session of the project has it.
        name: String,
    },
    /// The user added a directory outside the project to the session: tools may use it like the project.
    #[serde(rename = "directory.added")]
    DirectoryAdded {
        /// Its canonical path.
        path: String,
    },
    /// The user sent a message; a turn begins.
    #[serde(rename = "turn.started")]
    TurnStarted(UserMessage),
    /// The user sent a message while the turn ran; it is delivered to the model now.
    #[serde(rename = "turn.steered")]
    TurnSteered(UserMessage),
    /// A sub-agent begins. This event, like all that follow from it, has the id of the Task call as `agent`.
    #[serde(rename = "agent.started")]
    AgentStarted {
        /// Its role: `explore`.
        role: String,
        /// Its task in a few words.
        description: String,
        /// Its task as it receives it.
        prompt: String,
        /// `provider/model`.
        model: String,
    },
    /// A sub-agent ended. Its tokens and cost are part of the turn's.
    #[serde(rename = "agent.finished")]
    AgentFinished(TurnFinished),
    /// The user ran a command and shares its output with the model.
    #[serde(rename = "user.command")]
    UserCommand {
        /// The command.
        command: String,
        /// Its output, or the end of it.
        output: String,
        /// Its exit status; `None` if it was ended.
        exit_code: Option<i32>,
    },
    /// The user chose another mode.
    #[serde(rename = "mode.changed")]
    ModeChanged {
        /// The new mode.
        mode: PermissionMode,
        /// The previous mode.
        from: PermissionMode,
        /// The user's sentence that switched the mode; `None` if it was selected (`/mode`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// A message of the program to the model before a request: the mode, reminders, the recap of the plan. It
    /// stays in the conversation.
    #[serde(rename = "reminder")]
    Reminder {
        /// The message.
        text: String,
        /// The permission mode that the model knows from now on.
        mode: PermissionMode,
        /// The message ends with the recap of the plan.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        recap: bool,
    },
    /// The user added a permission rule for this session.
    #[serde(rename = "rule.added")]
    RuleAdded {
        /// The rule.
        rule: SessionRule,
    },
    /// The user removed such a rule.
    #[serde(rename = "rule.removed")]
    RuleRemoved {
        /// The rule.
        rule: SessionRule,
    },
    /// A request to a model.
    #[serde(rename = "model.requested")]
    ModelRequested(ModelRequested),
    /// A part of an answer. Not stored.
    #[serde(rename = "model.delta")]
    ModelDelta {
        /// The text.
        text: String,
        /// It is part of the reasoning.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reasoning: bool,
    },
    /// An estimate of what the request uses so far, while its answer arrives. Not stored.
    #[serde(rename = "model.progress")]
    ModelProgress {
        /// What the request is for.
        purpose: Purpose,
        /// Tokens of the request and of the part of the answer that has arrived.
        usage: Usage,
        /// Their cost, if the model's price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// The call that is being written.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<CallProgress>,
    },
    /// The text of an answer that is still arriving, at intervals, in case the program is killed.
    #[serde(rename = "model.partial")]
    ModelPartial {
        /// The text so far.
        text: String,
    },
    /// The model answered.
    #[serde(rename = "model.responded")]
    ModelResponded(ModelResponded),
    /// The latest output of a running command. Not stored.
    #[serde(rename = "tool.output")]
    ToolOutput {
        /// The call's id.
        call: String,
        /// Its last lines.
        text: String,
    },
    /// A call starts.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// The input as received, plus the injected lock values.
        input: Object,
        /// The effect of the call.
        effect: Effect,
        /// Who makes the call.
        #[serde(default, skip_serializing_if = "Caller::is_model")]
        by: Caller,
        /// The model's call on behalf of which the kernel makes this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_call: Option<String>,
        /// Who changed the input that the model wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changed_by: Option<ChangeAuthor>,
    },
    /// A call has its result.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// The whole envelope.
        #[schemars(with = "Envelope")]
        envelope: SealedEnvelope,
        /// Written on resume for a call whose outcome is unknown.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        synthetic: bool,
        /// Who made the call.
        #[serde(default, skip_serializing_if = "Caller::is_model")]
        by: Caller,
        /// The model's call on behalf of which the kernel made this one: the result is appended to that
        /// call's.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_call: Option<String>,
    },
    /// The user is asked whether a call may be made.
    #[serde(rename = "permission.requested")]
    PermissionRequested {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// The input as received.
        input: Object,
        /// The effect of the call.
        effect: Effect,
        /// The rule or mode that asks.
        rule: String,
        /// Why, in one sentence.
        reason: String,
        /// Who changed the input that the model wrote.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        changed_by: Option<ChangeAuthor>,
        /// The file, if the path in the input leads to it through a symlink.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link_target: Option<String>,
        /// What the answer "always" can grant for the session, the narrowest first.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        grants: Vec<Grant>,
        /// What it would delete, do outside the sandbox, take from a remote place, or what cannot be undone.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dangers: Vec<String>,
        /// What the call would change, as a unified diff.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
    },
    /// A ruling on a call.
    #[serde(rename = "permission.decided")]
    PermissionDecided {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// `allow`, `ask` (no user could be asked), `refuse`, or `reject` (the user rejected it).
        ruling: String,
        /// The rule or mode that decided.
        rule: String,
        /// Why, in one sentence.
        reason: String,
        /// A change was denied, not a read.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        denied_effect: bool,
    },
    /// The model asks the user.
    #[serde(rename = "question.asked")]
    QuestionAsked {
        /// The call's id.
        call: String,
        /// The questions.
        questions: Vec<Question>,
    },
    /// The user answered.
    #[serde(rename = "question.answered")]
    QuestionAnswered {
        /// The call's id.
        call: String,
        /// One answer to each question, in order.
        answers: Vec<UserAnswer>,
    },
    /// A round was evaluated.
    #[serde(rename = "evaluation")]
    Evaluation {
        /// The round achieved its purpose.
        step_success: bool,
        /// The evidence, if it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<LastFailure>,
    },
    /// A model was asked why something failed.
    #[serde(rename = "reflection")]
    Reflected {
        /// `seq` of the evaluation that it is about.
        evidence: u64,
        /// The reflection; `None` if the answer is not usable.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reflection: Option<Box<Reflection>>,
        /// The parts that were not followed, and why.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        refused: Vec<String>,
    },
    /// What the kernel does next.
    #[serde(rename = "control.decided")]
    ControlDecided {
        /// The decision and its detail.
        #[serde(flatten)]
        decision: ControlDecision,
        /// Why, in one sentence.
        reason: String,
        /// Every counter before the decision.
        before: Counters,
        /// Every counter after it.
        after: Counters,
        /// `seq` of the evidence.
        evidence: u64,
    },
    /// The plan changed.
    #[serde(rename = "plan.updated")]
    PlanUpdated {
        /// The whole plan.
        plan: Plan,
        /// Who changed it, and why.
        reason: String,
    },
    /// A message of the kernel to the model that is no tool result: a final text was not accepted, or an
    /// answer is not usable.
    #[serde(rename = "feedback")]
    Feedback {
        /// The text.
        text: String,
        /// The files that it reports as changed while the session was not running.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<ChangedFile>,
    },
    /// A check was run.
    #[serde(rename = "check.finished")]
    CheckFinished {
        /// The command.
        command: String,
        /// Its exit status; `None` if it did not exit by itself.
        exit_code: Option<i32>,
        /// It passed.
        passed: bool,
        /// The end of its output.
        tail: String,
        /// How long it took.
        time_ms: u64,
    },
    /// Another model searched for evidence against an accepted answer (`[verify]`).
    #[serde(rename = "verification")]
    Verified(Verification),
    /// The provider refused a request of the conversation as too long.
    #[serde(rename = "context.overflowed")]
    ContextOverflowed {
        /// The estimate of its tokens.
        estimated_tokens: u64,
        /// The limit, if the provider named it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    /// The older part of the conversation was replaced by a summary. The record keeps all of it.
    #[serde(rename = "context.compacted")]
    ContextCompacted(Compaction),
    /// A rules file was found in the folder of a file that a tool worked on.
    #[serde(rename = "rules.found")]
    RulesFound {
        /// Its path, relative to the project.
        path: String,
        /// Its content, as the model receives it.
        text: String,
    },
    /// Lessons of earlier sessions were used.
    #[serde(rename = "memory.recalled")]
    MemoryRecalled(MemoryRecalled),
    /// Lessons of a turn were stored. Written in the background, so some events later.
    #[serde(rename = "memory.written")]
    MemoryWritten(MemoryWritten),
    /// The connection to an MCP server changed.
    #[serde(rename = "mcp.server")]
    McpServer {
        /// Its name in the configuration.
        server: String,
        /// Its state from now on.
        state: McpServerState,
        /// The number of its tools, if it is connected.
        tools: usize,
        /// What happened, and what to do; empty if it is connected.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        detail: String,
    },
    /// A hook was run.
    #[serde(rename = "hook.finished")]
    HookFinished(HookFinished),
    /// Something failed that is not a tool call.
    #[serde(rename = "error")]
    Error {
        /// The part that failed: `model`, `script`, `config`, `record`, `memory`, `workspace`, `sandbox`,
        /// `checks`, `telemetry`, `hook`, `context`, `distillation`.
        source: String,
        /// What happened, and what to do next.
        message: String,
        /// The reason in a few words, if there is another attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Milliseconds until the next attempt, if there is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_in_ms: Option<u64>,
        /// The number of the attempt that failed, if there is another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
    },
    /// The turn ended.
    #[serde(rename = "turn.finished")]
    TurnFinished(TurnFinished),
    /// The user undid the changes of a turn, or redid them.
    #[serde(rename = "turn.undone")]
    TurnUndone {
        /// The turn.
        undone: u32,
        /// Each file with its result: `restored`, `removed`, `as before`, or why it was left as it is.
        files: BTreeMap<String, String>,
        /// Every file is as before.
        #[serde(default = "default_true", skip_serializing_if = "is_true")]
        is_complete: bool,
        /// They were redone: an earlier undo was taken back.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_redo: bool,
    },
    /// Totals of the session so far.
    #[serde(rename = "session.summary")]
    SessionSummary(SessionSummary),
}

impl EventBody {
    /// Whether the event is written to the log, and not only sent to live consumers.
    pub fn is_stored(&self) -> bool {
        !matches!(
            self,
            Self::ModelDelta { .. } | Self::ModelProgress { .. } | Self::ToolOutput { .. }
        )
    }

    /// An error event without a further attempt.
    pub fn error(source: &str, message: impl Into<String>) -> Self {
        Self::Error {
            source: source.to_owned(),
            message: message.into(),
            reason: None,
            retry_in_ms: None,
            attempt: None,
        }
    }
}

/// An MCP server when the session was opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpServerStatus {
    /// Its name.
    pub name: String,
    /// `pending`, `connected` or `failed`.
    pub status: String,
}

/// The state of the connection to an MCP server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpServerState {
    /// It answers, and its tools are known.
    Connected,
    /// Its tools changed. The list of tools that the model receives stays as it is.
    Changed,
    /// It ended, and is started again.
    Lost,
    /// It is not used any more in this session.
    Failed,
}

impl McpServerState {
    /// The name in events.
    pub fn as_str(self) -> &'static str {
        variant_names::<Self>()[self as usize]
    }
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// The verifying model, `provider/model`.
    pub model: String,
    /// Whether the claim is confirmed; `None` without a verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirmed: Option<bool>,
    /// What is not as claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objection: Option<String>,
    /// The quotes that support it; each occurs in what the verifier was shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Quote>,
    /// Why the verification has no effect: no verdict, or an objection that is dismissed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_effect_reason: Option<String>,
    /// The calls that it made, one per line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
}

/// Words of something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Quote {
    /// Where they stand: a path, or a check.
    #[serde(rename = "where", default)]
    pub source: String,
    /// The words.
    pub quote: String,
}

impl Verification {
    /// The verification in one sentence.
    pub fn in_words(&self) -> String {
        let objection = self.objection.as_deref().unwrap_or_default();
        match (self.confirmed, &self.no_effect_reason) {
            (Some(true), _) => "the claim holds".to_owned(),
            (Some(false), None) => format!("the claim does not hold: {objection}"),
            (Some(false), Some(why)) => {
                format!("objection dismissed ({why}): {objection}")
            }
            (None, why) => format!("no verdict: {}", why.as_deref().unwrap_or("none was given")),
        }
    }
}

/// The first event of a session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionStarted {
    /// The project's root.
    pub cwd: String,
    /// `provider/model`.
    pub model: String,
    /// The permission mode.
    pub permission_mode: PermissionMode,
    /// The tools' names, in their fixed order. (Those of MCP servers may be others when the model is asked.)
    pub tools: Vec<String>,
    /// The MCP servers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<McpServerStatus>,
    /// What the sandbox enforces on commands.
    pub sandbox: SandboxStatus,
    /// The version of the program.
    pub program: String,
    /// The section *Place* of the system prompt: unchanged when the session is resumed.
    #[serde(default)]
    pub place: String,
    /// The settings that decide how calls run, as far as they are not the defaults.
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub settings: Object,
}

pub(super) fn default_true() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_true(value: &bool) -> bool {
    *value
}

/// What the sandbox enforces on commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SandboxStatus {
    /// The mechanism: `namespaces+landlock+seccomp`, `landlock+seccomp` or `none`.
    pub backend: String,
    /// `enforced` or `none`.
    pub filesystem: String,
    /// `off`, `loopback`, `on` or `unenforced`.
    pub network: String,
    /// What is not protected although it should be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

impl SandboxStatus {
    /// No sandbox.
    pub fn none() -> Self {
        Self {
            backend: "none".into(),
            filesystem: "none".into(),
            network: "unenforced".into(),
            gaps: Vec::new(),
        }
    }
}

/// A message of the user that the model receives, unless it is blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserMessage {
    /// The user's message.
    pub input: String,
    /// What the model receives instead, if the message is too long or is a command with a prompt (`/review`,
    /// a command of a file, a skill).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<String>,
    /// It is a command with a prompt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub command: bool,
    /// What the prompt of such a command mentions with `@`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
    /// The images that it mentions; their contents are stored beside the log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// A hook blocked it, or its prompt could not be fetched: it is no part of the conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub blocked: bool,
}

impl UserMessage {
    /// `shown`: to the model.
    pub fn new(message: &UserInput, shown: Option<String>, images: Vec<Image>) -> Self {
        Self {
            input: message.text.clone(),
            shown,
            command: message.prompt.is_some(),
            mentions: message.mentions.clone(),
            images,
            blocked: false,
        }
    }

    /// No model receives it.
    pub fn blocked(input: String) -> Self {
        Self { input, blocked: true, ..Self::default() }
    }

    /// What the model receives.
    pub fn model_text(&self) -> &str {
        self.shown.as_ref().unwrap_or(&self.input)
    }
}

/// A request to a model. These events are sufficient to rebuild what the model received.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRequested {
    /// What the request is for.
    pub purpose: Purpose,
    /// `provider/model`.
    pub model: String,
    /// The reasoning effort that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<Effort>,
    /// Number of conversation messages in the request.
    pub messages: usize,
    /// Size of all texts in the request, in bytes.
    pub bytes: usize,
    /// Estimate of the request's tokens.
    pub estimated_tokens: u64,
    /// The model's window in tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Where that number comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_source: Option<WindowSource>,
    /// A conversation of more tokens is compacted before its next request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacts_at: Option<u64>,
    /// The limit of the answer that was asked for, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u64>,
    /// The number of leading bytes that equal those of the previous request with the same purpose: the
    /// provider's cache can use them.
    #[serde(default)]
    pub shared_bytes: usize,
    /// Hash, bytes and tokens of each layer: `l1`, `l2`, `tools`; `l3` has no hash.
    pub layers: BTreeMap<String, RequestLayer>,
    /// Texts that occur for the first time in the session, by hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, String>,
    /// The whole question, if the request is not part of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// One layer of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestLayer {
    /// Its hash; empty for the conversation itself, which is in the events.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// Size in bytes.
    pub bytes: usize,
    /// Estimate of its tokens.
    #[serde(default)]
    pub tokens: u64,
}

/// The older part of the conversation was replaced by a summary. Applying this to the conversation before
/// gives the conversation after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compaction {
    /// The cause.
    pub cause: CompactionCause,
    /// What the summary should focus on, as requested by the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// The number of messages after the earlier summaries that were replaced.
    pub archived: usize,
    /// The position of the first of them.
    pub from: WorkPosition,
    /// The position of the last of them.
    pub to: WorkPosition,
    /// The whole summary, as the model receives it; empty if only results were cut.
    pub summary: String,
    /// The author of the summary.
    pub by: SummaryAuthor,
    /// The number of the oldest summaries that were replaced by one line.
    pub forgotten: usize,
    /// Replacements of results that stay in the conversation: a later read of the same lines made them
    /// obsolete, or they were too large. By the call's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cut: BTreeMap<String, String>,
    /// Replacements of texts that stay in the conversation and are too large for a window that is smaller
    /// than assumed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened: Vec<ShortenedText>,
    /// Replacements of user messages that together are too long, by their number among the user's messages in
    /// the conversation, archived ones included, from 0; an empty text if one is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_messages: Vec<ShortenedText>,
    /// Estimated tokens of the next request before.
    pub tokens_before: u64,
    /// Estimated tokens of the next request after.
    pub tokens_after: u64,
    /// The model's window in tokens, as known now.
    pub window: u64,
}

/// A text of the conversation that was shortened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShortenedText {
    /// The number of the message after the earlier summaries, or of the user's message, from 0.
    pub message: usize,
    /// The shortened text, with the path of the whole.
    pub text: String,
}

/// The cause of a compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionCause {
    /// The next request would use more of the window than `context.compact_at`.
    Threshold,
    /// The provider said that the request was longer than the model's window.
    Overflow,
    /// The user asked for it.
    Manual,
}

/// The author of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SummaryAuthor {
    /// The model; the program added what was missing.
    Model,
    /// The program, from the record: there was no usable answer of a model.
    Program,
}

/// A permission rule of this session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRule {
    /// Its number in the session, from 1; not reused.
    pub id: u32,
    /// Verb and rule, as in the configuration: `deny Edit(tests/)`.
    pub rule: String,
    /// The user's sentence that it was made from; empty for an answer "always".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
    /// The directories in which it allows commands: those of the call that an answer "always" was about. Empty:
    /// everywhere. Relative to the root, which is `.`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<String>,
    /// The user wrote the rule: as in the configuration, further words may follow those of a command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_written: bool,
}

/// A call whose arguments are still arriving.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallProgress {
    /// Its number in the answer, from 0.
    pub number: usize,
    /// The tool, as the model names it; empty if that is not known yet.
    pub tool: String,
    /// Its path, command or other subject, as far as it is complete; of several lines the first.
    pub subject: String,
    /// Lines in the texts of its arguments so far.
    pub lines: u64,
}

/// The model answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelResponded {
    /// What the request was for.
    pub purpose: Purpose,
    /// The text.
    pub text: String,
    /// The reasoning, if the provider returns it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The calls, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// What the provider needs back with the answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<OpaqueItem>,
    /// Tokens, if the provider reports them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// An estimate of the tokens, if the provider does not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<Usage>,
    /// Cost in US dollars, if the model's price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Why the answer ended.
    pub stop: StopReason,
    /// Time from the request to the end of the answer.
    pub time_ms: u64,
    /// The answer is not used (empty, or cut off within its calls): it is not part of the history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discarded: bool,
}

impl ModelResponded {
    /// The tokens that the provider counted, otherwise the estimate.
    pub fn usage_or_estimate(&self) -> Usage {
        self.usage.or(self.estimate).unwrap_or_default()
    }
}

/// The turn ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnFinished {
    /// The ending.
    pub ending: Ending,
    /// The final text, or the failure report.
    pub result: String,
    /// What went wrong; empty on success.
    pub errors: Vec<String>,
    /// True if checks ran and passed or a verifier confirmed the answer, false if a check failed or could not run,
    /// `None` if there were none.
    pub verified: Option<bool>,
    /// The value of the final answer, if a schema was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<serde_json::Value>,
    /// Calls of tools, also those that failed or were denied; not those of sub-agents.
    #[serde(default)]
    pub calls: u64,
    /// Files that the turn's tools changed, in the order of their first change.
    pub files_changed: Vec<String>,
    /// The number of ignored files that the turn's commands changed; an undo restores them too.
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub ignored_files_changed: u64,
    /// `result` is a plan of mode plan, which the user accepts or rejects.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_plan: bool,
    /// The todos of the plan that are neither completed nor cancelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_todos: Vec<String>,
    /// What was tried and the evidence on which it was given up; only if the turn did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<FailureReport>,
    /// Model calls in the main loop.
    pub rounds: u32,
    /// Tokens.
    pub usage: Usage,
    /// The part of them that is an estimate: the provider did not count it.
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub estimated_tokens: u64,
    /// Cost in US dollars, if the price of each model that answered is known.
    pub cost_usd: Option<f64>,
    /// Duration.
    pub time_ms: u64,
    /// The part of it in which a question waited for the user.
    #[serde(default, skip_serializing_if = "super::model::is_zero")]
    pub waiting_ms: u64,
    /// Time spent waiting for models.
    pub model_ms: u64,
}

impl TurnFinished {
    /// Tokens and cost; no cost if a price is not known.
    pub fn spending(&self) -> Spending {
        Spending {
            usage: self.usage,
            estimated_tokens: self.estimated_tokens,
            cost_usd: self.cost_usd,
            unpriced_tokens: 0,
        }
    }
}

/// Who changed the arguments of a call before it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeAuthor {
    /// A hook.
    Hook,
    /// The user, in an answer.
    User,
}

/// Who makes a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// The model.
    #[default]
    Model,
    /// The kernel, to retry a failed call.
    Kernel,
}

impl Caller {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_model(&self) -> bool {
        *self == Self::Model
    }
}

/// Why a task was given up, for users and scripts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureReport {
    /// Why the turn ended.
    pub reason: String,
    /// What was tried, in order.
    pub attempts: Vec<FailedAttempt>,
    /// The last evidence, verbatim.
    pub evidence: String,
    /// Files that the turn changed and that were not restored.
    pub files_changed: Vec<String>,
    /// What the user can do next.
    pub next: Vec<String>,
}

/// An attempt that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedAttempt {
    /// The step of the plan, from 1; 0 without a plan.
    pub step: u32,
    /// Tool and target.
    pub what: String,
    /// How often it failed.
    pub times: u32,
    /// The last failure.
    pub failure: String,
}

/// Totals of a session so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionSummary {
    /// The name that the user gave the session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Turns.
    pub turns: u32,
    /// Model calls.
    pub rounds: u32,
    /// Calls per tool.
    pub calls: BTreeMap<String, u32>,
    /// Failures per error code.
    pub failures: BTreeMap<String, u32>,
    /// Tokens and cost.
    #[serde(flatten)]
    pub spending: Spending,
    /// Duration of all turns.
    pub time_ms: u64,
}

/// Describes where a session is resumed: after its last turn, which may have been cut off.
pub fn describe_resume_point(turn: u32, is_cut_off: bool) -> String {
    match (turn, is_cut_off) {
        (0, _) => "before its first turn".to_owned(),
        (turn, false) => format!("after turn {turn}"),
        (turn, true) => format!("in turn {turn}, during which the program ended"),
    }
}

/// Describes a change of the mode.
pub fn describe_mode_change(
    mode: PermissionMode,
    from: PermissionMode,
    words: Option<&str>,
) -> String {
    match words {
        Some(words) if mode < from => {
            format!("mode {} until you say “go ahead” or use /mode: “{words}”", mode.as_str())
        }
        Some(words) => format!("mode {}: “{words}”", mode.as_str()),
        None => format!("mode {}", mode.as_str()),
    }
}
