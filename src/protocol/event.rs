//! The one stream of everything that happens, and the seam for those who read it.
//!
//! A fact is emitted once, where it happens. [`Events`] stamps it, masks its secrets, and hands it to
//! every [`Sink`] in order, in the emitter's thread. Screen, JSON output, trace, resume and learning
//! all read this stream and nothing else. `docs/EVENTS.md` describes each type.

mod stream;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::stream::{Clock, Events, Sink, Stamped};
use super::Object;
use super::control::{ControlDecision, Counters, Ending, LastFailure, PermissionMode};
use super::envelope::Sealed;
use super::message::ToolCall;
use super::model::{Purpose, StopReason, Usage};
use super::plan::Plan;
use super::recall::{MemoryRecalled, MemoryWritten};
use super::reflection::Reflection;
use super::tool::Effect;

/// The version of the event format that this program writes.
pub const VERSION: u32 = 1;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// When and where it happened.
    #[serde(flatten)]
    pub header: Header,
    /// What happened.
    #[serde(flatten)]
    pub body: Body,
}

/// When and where something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Header {
    /// Version of the format.
    pub v: u32,
    /// Number of the event in its session, from 1, without gaps.
    pub seq: u64,
    /// UTC time, RFC 3339 with milliseconds.
    pub ts: String,
    /// The session.
    pub session: String,
    /// Which agent of the session: `main`.
    pub agent: String,
    /// Where in the work.
    #[serde(flatten)]
    pub place: Place,
}

/// A file that is not as the session saw it last, and how it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedFile {
    /// Its path.
    pub path: String,
    /// Time of its last change, in milliseconds since 1970; `None` where the file is gone.
    pub mtime_ms: Option<i64>,
    /// Bytes; 0 where the file is gone.
    pub size: u64,
}

/// Where in the work something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The user's message that is being worked on, from 1; 0 before the first.
    pub turn: u32,
    /// One answer of the model and its results, from 1 in each turn.
    pub round: u32,
    /// The unit of the plan: the place of the todo in progress, from 1; 0 where there is no plan.
    pub step: u32,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum Body {
    /// A session began.
    #[serde(rename = "session.started")]
    SessionStarted(SessionStarted),
    /// An old session goes on.
    #[serde(rename = "session.resumed")]
    SessionResumed {
        /// What holds from now on: it may differ from the start.
        now: SessionStarted,
        /// How many events were there.
        events: u64,
        /// Ids of calls that were started and never answered: nobody knows what they did.
        uncertain: Vec<String>,
        /// A torn last line was dropped.
        torn: bool,
    },
    /// The session goes on from a copy of what another one had recorded: everything before this event.
    #[serde(rename = "session.forked")]
    SessionForked {
        /// The other session.
        from: String,
        /// Its last turn that was copied.
        up_to: u32,
    },
    /// What was said from a turn on is no longer part of the session; the record keeps it. What became of
    /// files stays as it is: see [`Body::TurnUndone`].
    #[serde(rename = "session.rewound")]
    SessionRewound {
        /// The first turn that is no longer part of it.
        from_turn: u32,
    },
    /// The user said something; a turn begins.
    #[serde(rename = "turn.started")]
    TurnStarted {
        /// What the user said.
        input: String,
        /// What the model is shown of it, where it is too long to be shown whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown: Option<String>,
    },
    /// The user said something while the turn ran; the model hears it now.
    #[serde(rename = "turn.steered")]
    TurnSteered {
        /// What the user said.
        input: String,
        /// What the model is shown of it, where it is too long to be shown whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shown: Option<String>,
    },
    /// The user ran a command by hand, and shares what it wrote with the model.
    #[serde(rename = "user.command")]
    UserCommand {
        /// The command.
        command: String,
        /// What it wrote, or the end of that.
        output: String,
        /// Its exit status; `None` where it was ended.
        exit_code: Option<i32>,
    },
    /// The user chose another mode.
    #[serde(rename = "mode.changed")]
    ModeChanged {
        /// How freely the agent may act from now on.
        mode: PermissionMode,
        /// The mode before that.
        from: PermissionMode,
        /// The user's sentence that switched the mode; `None` if it was chosen (`/mode`).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// What the program tells the model before a request: the mode, reminders, the recap of the plan. It stays in the
    /// conversation.
    #[serde(rename = "reminder")]
    Reminder {
        /// The message.
        text: String,
        /// The permission mode as the model knows it from now on.
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
    /// The model is asked.
    #[serde(rename = "model.requested")]
    ModelRequested(ModelRequested),
    /// A piece of an answer. Never stored.
    #[serde(rename = "model.delta")]
    ModelDelta {
        /// The piece.
        text: String,
        /// It belongs to the reasoning.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reasoning: bool,
    },
    /// The model answered.
    #[serde(rename = "model.responded")]
    ModelResponded(ModelResponded),
    /// What a command that runs wrote last. Never stored.
    #[serde(rename = "tool.output")]
    ToolOutput {
        /// The call's id.
        call: String,
        /// Its last lines.
        text: String,
    },
    /// A call is about to be carried out.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// The input as received, plus the injected lock values.
        input: Object,
        /// What the call would touch.
        effect: Effect,
        /// Who makes the call.
        #[serde(default, skip_serializing_if = "Caller::is_model")]
        by: Caller,
        /// The call of the model's on whose behalf the kernel makes this one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_call: Option<String>,
    },
    /// A call was answered.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// The whole answer.
        envelope: Sealed,
        /// Written on resume for a call whose outcome is unknown.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        synthetic: bool,
        /// Who made the call.
        #[serde(default, skip_serializing_if = "Caller::is_model")]
        by: Caller,
        /// The call of the model's on whose behalf the kernel made this one: its outcome stands below
        /// that call's result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_call: Option<String>,
    },
    /// A person is asked whether a call may be made.
    #[serde(rename = "permission.requested")]
    PermissionRequested {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// The input as received.
        input: Object,
        /// What the call would touch.
        effect: Effect,
        /// The rule or mode that asks.
        rule: String,
        /// Why, in one sentence.
        reason: String,
        /// The rules that would allow it from now on, where such can be proposed.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        rules: Vec<String>,
        /// What the call would change, as a unified diff.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        diff: Option<String>,
    },
    /// It was decided whether a call may be made.
    #[serde(rename = "permission.decided")]
    PermissionDecided {
        /// The call's id.
        call: String,
        /// The tool.
        tool: String,
        /// `allow`, `ask` (and nobody could be asked), `refuse`, or `reject` (the user said no).
        ruling: String,
        /// The rule or mode that decided.
        rule: String,
        /// Why, in one sentence.
        reason: String,
        /// What the call would have changed was not allowed (as opposed to something read).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        denied_effect: bool,
    },
    /// A round was evaluated.
    #[serde(rename = "evaluation")]
    Evaluation {
        /// The round did what it set out to do.
        step_success: bool,
        /// The evidence, where it did not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        failure: Option<LastFailure>,
    },
    /// A model was asked why something failed.
    #[serde(rename = "reflection")]
    Reflected {
        /// `seq` of the evaluation that it is about.
        evidence: u64,
        /// What it answered; `None`: nothing that can be used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reflection: Option<Box<Reflection>>,
        /// What of it was not followed, and why.
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
    /// The kernel answers the model inside the conversation, where there is no call to answer: a final
    /// text that was not accepted, an answer that could not be used.
    #[serde(rename = "feedback")]
    Feedback {
        /// What it says.
        text: String,
        /// The files that it tells of, where it tells of files that changed while the session lay still.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        files: Vec<ChangedFile>,
    },
    /// A check was run.
    #[serde(rename = "check.finished")]
    CheckFinished {
        /// The command.
        command: String,
        /// Its exit status; `None` where it did not end by itself.
        exit_code: Option<i32>,
        /// It passed.
        passed: bool,
        /// The end of its output.
        tail: String,
        /// How long it took.
        time_ms: u64,
    },
    /// Another model looked for evidence against what an accepted answer claims (`[verify]`).
    #[serde(rename = "verification")]
    Verified(Verification),
    /// The provider refused a request of the conversation as too long.
    #[serde(rename = "context.overflowed")]
    ContextOverflowed {
        /// How long it was taken to be.
        estimated_tokens: u64,
        /// How long one may be, where the provider said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u64>,
    },
    /// The older part of the conversation gave way to a summary. The record keeps all of it.
    #[serde(rename = "context.compacted")]
    ContextCompacted(Compacted),
    /// Words of the user's that hold for the rest of the session, whatever is summarised.
    #[serde(rename = "pin.added")]
    PinAdded {
        /// The pin.
        pin: Pin,
    },
    /// A pin holds no longer.
    #[serde(rename = "pin.removed")]
    PinRemoved {
        /// The pin.
        pin: Pin,
    },
    /// A rules file was met on the way, in the folder of a file that was touched.
    #[serde(rename = "rules.found")]
    RulesFound {
        /// Where it stands, relative to the project.
        path: String,
        /// What it says, as it is shown.
        text: String,
    },
    /// Something that earlier sessions taught is used.
    #[serde(rename = "memory.recalled")]
    MemoryRecalled(MemoryRecalled),
    /// What a turn taught is remembered. Written beside the loop, so some events later.
    #[serde(rename = "memory.written")]
    MemoryWritten(MemoryWritten),
    /// Something went wrong that is no answer of a tool.
    #[serde(rename = "error")]
    Error {
        /// Where: `model`, `script`, `config`, `record`, `memory`, `workspace`, `sandbox`, `checks`.
        source: String,
        /// What happened, and what to do next.
        message: String,
        /// Another try follows after so many milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_in_ms: Option<u64>,
        /// The number of the try that failed, where another follows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attempt: Option<u32>,
    },
    /// The turn is over.
    #[serde(rename = "turn.finished")]
    TurnFinished(TurnFinished),
    /// The user took back what a turn had changed.
    #[serde(rename = "turn.undone")]
    TurnUndone {
        /// Which turn.
        undone: u32,
        /// Each file and what became of it: `restored`, `removed`, `as before`, or why it was left.
        files: BTreeMap<String, String>,
        /// No file was left as it was.
        #[serde(default = "yes", skip_serializing_if = "is_yes")]
        is_complete: bool,
    },
    /// What the session came to, so far.
    #[serde(rename = "session.summary")]
    SessionSummary(Summary),
}

impl Body {
    /// It stands in the log; else it is only for those who look on.
    pub fn is_stored(&self) -> bool {
        !matches!(self, Self::ModelDelta { .. } | Self::ToolOutput { .. })
    }
}

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verification {
    /// Who looked, `provider/model`.
    pub model: String,
    /// The claim holds, or does not; `None`: there is no verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// What is not as claimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objection: Option<String>,
    /// Where that was seen: only what really stands in what was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<Quote>,
    /// Why nothing follows from it, where the claim was not found to hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dismissed: Option<String>,
    /// What it looked at, a line a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<String>,
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
    /// In one sentence.
    pub fn in_words(&self) -> String {
        let objection = self.objection.as_deref().unwrap_or_default();
        match (self.holds, &self.dismissed) {
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
    /// How freely the agent may act.
    pub permission_mode: PermissionMode,
    /// The tools' names, in their fixed order.
    pub tools: Vec<String>,
    /// What is really enforced on commands here.
    pub sandbox: Sandbox,
    /// The version of the program.
    pub program: String,
    /// The section *Place* of the system prompt: it stays as it is when the session is resumed.
    #[serde(default)]
    pub place: String,
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// What is really enforced on commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sandbox {
    /// What enforces it: `namespaces+landlock+seccomp`, `landlock+seccomp` or `none`.
    pub backend: String,
    /// `enforced` or `none`.
    pub filesystem: String,
    /// `off`, `loopback`, `on` or `unenforced`.
    pub network: String,
    /// What is open here although it should not be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

impl Sandbox {
    /// Nothing is enforced.
    pub fn none() -> Self {
        Self {
            backend: "none".into(),
            filesystem: "none".into(),
            network: "unenforced".into(),
            gaps: Vec::new(),
        }
    }
}

/// The model is asked. From these events what the model saw can be rebuilt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelRequested {
    /// What the request is for.
    pub purpose: Purpose,
    /// `provider/model`.
    pub model: String,
    /// Messages of the conversation in the request.
    pub messages: usize,
    /// Size of all texts in the request, in bytes.
    pub bytes: usize,
    /// Estimate of the request's tokens.
    pub estimated_tokens: u64,
    /// The model's window in tokens, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// How many of the bytes, from the first, are those of the request before with the same purpose:
    /// what the provider's cache can use.
    #[serde(default)]
    pub shared_bytes: usize,
    /// Hash, bytes and tokens of each layer: `l1`, `l2`, `tools`; of `l3` no hash.
    pub layers: BTreeMap<String, Layer>,
    /// Texts that appear here for the first time in the session, by hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub texts: BTreeMap<String, String>,
    /// What was asked, whole, if the request is not one of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// One layer of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layer {
    /// Its hash; empty for the conversation itself, which stands in the events.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// Its size.
    pub bytes: usize,
    /// Estimate of its tokens.
    #[serde(default)]
    pub tokens: u64,
}

/// The older part of the conversation gave way to a summary. Whoever applies this to the conversation
/// before it has the conversation after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compacted {
    /// Why now.
    pub cause: CompactionCause,
    /// What the user wants the summary to be about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub focus: Option<String>,
    /// How many messages behind the earlier summaries gave way.
    pub archived: usize,
    /// Where the first of them was said, and the last.
    pub from: Place,
    /// See `from`.
    pub to: Place,
    /// The summary, whole, as the model is shown it; empty where only results were cut.
    pub summary: String,
    /// Who wrote it.
    pub by: SummaryAuthor,
    /// How many of the oldest summaries gave way to one line, counting from the first of the session.
    pub forgotten: usize,
    /// What stands for the result of a call that is kept: a later reading of the same lines made it
    /// stale, or it was too large. By the call's id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cut: BTreeMap<String, String>,
    /// What stands for a text that is kept and was too large for a window that is smaller than it was
    /// taken to be.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortened: Vec<Shortened>,
    /// What stands for messages of the user that are too long together, by their number among the user's messages in the
    /// conversation, archived ones included, from 0; an empty text for one that is left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_messages: Vec<Shortened>,
    /// Estimate of the next request's tokens before.
    pub tokens_before: u64,
    /// Estimate of the next request's tokens after.
    pub tokens_after: u64,
    /// The model's window in tokens, as it is known now.
    pub window: u64,
}

/// A text of the conversation that stands there in part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Shortened {
    /// Which message behind the earlier summaries, or which message of the user, from 0.
    pub message: usize,
    /// What stands there from now on, with the path of the whole.
    pub text: String,
}

/// Why the conversation was compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompactionCause {
    /// The next request would have used more of the window than `context.compact_at`.
    Threshold,
    /// The provider said that the request was longer than the model's window.
    Overflow,
    /// The user asked for it.
    Manual,
}

/// Who wrote a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SummaryAuthor {
    /// The model; the program filled in what it left out.
    Model,
    /// The program, from the record: no model answered in a way that could be used.
    Program,
}

/// Words that the user keeps for the whole session (`/pin`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Pin {
    /// Its number in the session, from 1; never given twice.
    pub id: u32,
    /// The user's words.
    pub text: String,
}

/// A permission rule of this session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRule {
    /// Its number in the session, from 1; never given twice.
    pub id: u32,
    /// Verb and rule, as in the configuration: `deny Edit(tests/)`.
    pub rule: String,
    /// The user's sentence that it was made from; empty for an answer "always".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

/// The model answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelResponded {
    /// What the request was for.
    pub purpose: Purpose,
    /// The words.
    pub text: String,
    /// The reasoning, as far as the provider gives it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reasoning: String,
    /// The calls, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// What it cost, where the provider says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// What it cost in US dollars, where the model's price is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Why it ended.
    pub stop: StopReason,
    /// Time from the request to the end of the answer.
    pub time_ms: u64,
    /// The answer is not used (cut off in its calls, empty): it never enters the history.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discarded: bool,
}

/// The turn is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TurnFinished {
    /// Why.
    pub ending: Ending,
    /// The final text, or the failure report.
    pub result: String,
    /// What went wrong; empty on success.
    pub errors: Vec<String>,
    /// True if checks ran and passed or a verifier confirmed the answer, false if a check failed or could not run,
    /// `None` if there were none.
    pub verified: Option<bool>,
    /// The value of the final answer, where it had to fit a schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structured_output: Option<serde_json::Value>,
    /// Files that the turn's tools changed, in the order of their first change.
    pub files_changed: Vec<String>,
    /// The todos of the plan that are neither completed nor cancelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open_todos: Vec<String>,
    /// What was tried and on what evidence it was given up; only where the turn did not end well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<FailureReport>,
    /// Answers of the model in the main loop.
    pub rounds: u32,
    /// What the turn cost in tokens.
    pub usage: Usage,
    /// What it cost in US dollars, where the model's price is known.
    pub cost_usd: Option<f64>,
    /// How long it took.
    pub time_ms: u64,
    /// How long the model was waited for.
    pub model_ms: u64,
}

/// Who makes a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Caller {
    /// The model.
    #[default]
    Model,
    /// The kernel, to retry what failed.
    Kernel,
}

impl Caller {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
    fn is_model(&self) -> bool {
        *self == Self::Model
    }
}

/// Why a task was given up, for people and for scripts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailureReport {
    /// What ended the turn.
    pub reason: String,
    /// What was tried, in order.
    pub attempts: Vec<Tried>,
    /// The last evidence, in its own words.
    pub evidence: String,
    /// Files that the turn changed and that are left so.
    pub files_changed: Vec<String>,
    /// Files that were taken back (`recovery.undo_on_failure`), and how.
    pub files_undone: BTreeMap<String, String>,
    /// What a person could do next.
    pub next: Vec<String>,
}

/// Something that was tried and failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// The step of the plan, from 1; 0 where there was no plan.
    pub step: u32,
    /// Tool and target.
    pub what: String,
    /// How often it failed.
    pub times: u32,
    /// How it failed last.
    pub failure: String,
}

/// What a session came to, so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Turns.
    pub turns: u32,
    /// Answers of the model.
    pub rounds: u32,
    /// Calls per tool.
    pub calls: BTreeMap<String, u32>,
    /// Failures per error code.
    pub failures: BTreeMap<String, u32>,
    /// Tokens.
    pub usage: Usage,
    /// US dollars, where the model's price is known.
    pub cost_usd: Option<f64>,
    /// Time of all turns.
    pub time_ms: u64,
}

/// A change of the mode, for people.
pub fn mode_changed(mode: PermissionMode, from: PermissionMode, words: Option<&str>) -> String {
    match words {
        Some(words) if mode < from => {
            format!("mode {} until you say “go ahead” or use /mode: “{words}”", mode.as_str())
        }
        Some(words) => format!("mode {}: “{words}”", mode.as_str()),
        None => format!("mode {}", mode.as_str()),
    }
}
