//! Control flow: rulings on calls, the kernel's decisions, how a turn ends, and the user's controls.

mod changed_input;
mod user_control;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::envelope::{ErrorClass, ErrorCode};
use super::recall::Remedy;
use super::reflection::Reflection;
use super::variant_names::variant_names;
pub use changed_input::ChangedInput;
pub use user_control::{ApprovalDecision, Grant, OpenQuestion, SessionControl, UserReply};

/// A permission ruling on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    Allow(Reason),
    Ask(Reason),
    Refuse(ErrorCode, Reason),
}

/// The reason for a ruling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The rule or mode that decided, in the user's notation: `--deny Bash(rm *)`, `mode ask`.
    pub rule: String,
    /// One sentence for the model and the user; a refusal also says what to do instead.
    pub text: String,
    /// What to do instead, or, if no user can be asked, how to allow it.
    pub hint: Option<String>,
    /// Made from a sentence of the user.
    pub by_instruction: bool,
    /// A hook cannot answer: a rule asks first, or the call changes what the agent itself runs or reads.
    pub requires_user: bool,
}

/// The permission mode, from the most to the least restrictive.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// It reads, and its answer is a plan that the user accepts or rejects.
    Plan,
    /// It reads and changes nothing.
    ReadOnly,
    /// It asks before every change and every command.
    #[value(alias = "default")]
    Ask,
    /// It may change files in the project; commands need a rule unless sandboxed.
    #[default]
    #[value(alias = "acceptEdits")]
    AutoEdit,
    /// It may do anything except what is never allowed.
    #[value(alias = "bypassPermissions")]
    Full,
}

impl PermissionMode {
    /// Every mode, from the most to the least restrictive.
    pub fn all() -> &'static [Self] {
        <Self as clap::ValueEnum>::value_variants()
    }

    /// The mode with this name, in our notation or in that of Claude Code.
    pub fn from_name(name: &str) -> Option<Self> {
        <Self as clap::ValueEnum>::from_str(name, false).ok()
    }

    /// What the mode permits: the description in `--help`.
    pub fn in_words(self) -> String {
        let value = clap::ValueEnum::to_possible_value(&self);
        let help = value.as_ref().and_then(clap::builder::PossibleValue::get_help);
        help.map(ToString::to_string).unwrap_or_default()
    }

    /// The name on the command line and in events.
    pub fn as_str(self) -> &'static str {
        variant_names::<Self>()[self as usize]
    }

    /// Whether the mode permits no change.
    pub fn is_read_only(self) -> bool {
        self <= Self::ReadOnly
    }
}

/// The most permissive mode that may be chosen, and why no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeLimit {
    pub mode: PermissionMode,
    pub reason: String,
}

impl ModeLimit {
    /// Why this mode may not be chosen.
    pub fn refusal(&self, mode: PermissionMode) -> Option<&str> {
        (mode > self.mode).then_some(&self.reason)
    }
}

/// What the kernel does next. It carries this out and decides nothing itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", content = "detail", rename_all = "snake_case")]
pub enum ControlDecision {
    /// No failure needs a response.
    Continue,
    /// The step failed and is retried.
    Retry(RetryStrategy),
    /// The plan has to change.
    Replan(ReplanScope),
}

impl ControlDecision {
    /// The decision and its detail: `retry feedback`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Retry(RetryStrategy::Feedback) => "retry feedback",
            Self::Retry(RetryStrategy::Same) => "retry same",
            Self::Retry(RetryStrategy::Adjusted) => "retry adjusted",
            Self::Retry(RetryStrategy::Alternative) => "retry alternative",
            Self::Replan(ReplanScope::Step) => "replan step",
            Self::Replan(ReplanScope::Task) => "replan task",
        }
    }
}

/// How a step is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RetryStrategy {
    /// The envelope's error and hint go back to the model.
    Feedback,
    /// A transient fault of an idempotent read: the same call is repeated without asking the model.
    Same,
    /// The kernel runs the call with the arguments that a reflection corrected.
    Adjusted,
    /// The kernel runs the other tool that a reflection proposed.
    Alternative,
}

/// How much of the plan is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplanScope {
    /// The current step; the others are kept.
    Step,
    /// The whole plan.
    Task,
}

/// What kind of evidence a failure rests on: a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FailureSignal {
    /// Unknown tool, or arguments that do not parse or fit the schema.
    ValidationFailed,
    /// A tool answered with an error.
    ToolError,
    /// The same call again, or calls that go round in circles.
    Loop,
    /// A check that decides about the task does not pass.
    CheckFailed,
    /// An answer that is empty, cut off or refused.
    BadAnswer,
    /// A rule made from a sentence of the user refused a call.
    ConstraintViolated,
    /// A person said no.
    UserRejected,
}

impl FailureSignal {
    /// Whether the failure concerns an answer: then no step of the plan can be rewritten.
    pub fn concerns_answer(self) -> bool {
        self == Self::BadAnswer
    }

    /// Whether an answer goes back to the model; otherwise a call failed.
    pub fn rejects_answer(self) -> bool {
        matches!(self, Self::BadAnswer | Self::CheckFailed)
    }
}

/// Where the cause of a failure lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CauseCategory {
    /// The arguments.
    ParameterError,
    /// The tool.
    ToolError,
    /// Something that is not installed.
    DependencyError,
    /// A plan cut in the wrong pieces.
    DecompositionError,
    /// The machine or its state.
    EnvironmentError,
    /// Not allowed.
    PermissionError,
    /// Not known.
    Unknown,
}

impl CauseCategory {
    /// The name in events.
    pub fn as_str(self) -> &'static str {
        variant_names::<Self>()[self as usize]
    }
}

/// The evidence of a step's last failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastFailure {
    /// Kind of evidence.
    pub signal: FailureSignal,
    /// The envelope's code, if a tool failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// The code's class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    /// Category of the cause.
    pub category: CauseCategory,
    /// The failure's message.
    pub message: String,
    /// The message with numbers, times, paths, addresses and hashes masked: failures with the same signature
    /// count as the same failure.
    pub signature: String,
    /// The chain of failures that it belongs to: tool and target; of a command its programs and its directory.
    pub chain: String,
    /// The reflection on it, if there is a usable one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reflection: Option<Box<Reflection>>,
    /// What resolved the same failure before, if the kernel can try it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Box<Remedy>>,
}

/// How the kernel responds to failures (`[recovery]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recovery {
    /// Limit: retries of one failing step.
    pub max_step_retries: u32,
    /// How often a final answer is sent back for one reason (a failing check, the JSON schema, the verifier) before
    /// repair and replanning, and how often an unusable answer is requested again.
    pub max_answer_retries: u32,
    /// Limit: rewrites of one step.
    pub max_single_step_repairs: u32,
    /// Limit: rewrites of the whole plan.
    pub max_task_replanning_attempts: u32,
    /// Limit: consecutive failing rounds with the same signature and the same calls.
    #[schemars(range(min = 1))]
    pub max_consecutive_failures: u32,
    /// Number of failures of one kind after which a model is asked for the cause.
    #[schemars(range(min = 1))]
    pub reflect_after: u32,
    /// Limit: reflections per task.
    pub max_reflections: u32,
    /// Whether a model is asked for the cause of failures; the other decisions do not depend on it.
    pub enable_step_level_reflection: bool,
}

impl Default for Recovery {
    fn default() -> Self {
        Self {
            max_step_retries: 3,
            max_answer_retries: 2,
            max_single_step_repairs: 1,
            max_task_replanning_attempts: 1,
            max_consecutive_failures: 3,
            reflect_after: 2,
            max_reflections: 4,
            enable_step_level_reflection: true,
        }
    }
}

/// A counter and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// Current value.
    pub n: u32,
    /// Limit.
    pub max: u32,
}

impl Count {
    /// A counter at zero.
    pub fn with_limit(max: u32) -> Self {
        Self { n: 0, max }
    }

    /// Whether the limit is reached.
    pub fn is_exhausted(self) -> bool {
        self.n >= self.max
    }
}

/// Every counter of the kernel, as in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Retries of the failing chain (`recovery.max_step_retries`).
    pub retry_count: Count,
    /// Rewrites of this step (`recovery.max_single_step_repairs`).
    pub single_step_repair_count: Count,
    /// Rewrites of the whole plan (`recovery.max_task_replanning_attempts`).
    pub task_replan_count: Count,
    /// Consecutive rounds in which no call succeeded.
    pub consecutive_failures: u32,
    /// Those of them that failed in the same way with identical calls (`recovery.max_consecutive_failures`).
    pub unvaried_failures: Count,
    /// Reflections of this task (`recovery.max_reflections`).
    #[serde(default)]
    pub reflections: Count,
}

impl Counters {
    /// The counter that a decision uses.
    pub fn count_of(&self, decision: ControlDecision) -> Count {
        match decision {
            ControlDecision::Continue | ControlDecision::Retry(_) => self.retry_count,
            ControlDecision::Replan(ReplanScope::Step) => self.single_step_repair_count,
            ControlDecision::Replan(ReplanScope::Task) => self.task_replan_count,
        }
    }

    /// A decision in one line for the user; `None` if the model only reads why its call failed: the call's line says it.
    pub fn describe_decision(
        &self,
        decision: ControlDecision,
        reason: &str,
        signal: Option<FailureSignal>,
    ) -> Option<String> {
        let words = match decision {
            ControlDecision::Continue => return None,
            ControlDecision::Retry(RetryStrategy::Feedback) => {
                return signal.filter(|it| it.rejects_answer()).map(|_| reason.to_owned());
            }
            ControlDecision::Retry(_) => "retry",
            ControlDecision::Replan(_) => decision.label(),
        };
        let count = self.count_of(decision);
        let words = format!("{words} {}/{}", count.n, count.max);
        let is_known = reason.contains(&words);
        Some(if is_known { reason.to_owned() } else { format!("{words} · {reason}") })
    }
}

/// Why a turn ended: `terminal_reason`, with its exit code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The model gave its final answer; all checks passed, if there are any.
    Completed,
    /// The model gave its final answer, and a check could not run.
    CompletedUnverified,
    /// The kernel gave up.
    #[default]
    Failed,
    /// The model gave its final answer, but a check does not pass.
    CheckFailed,
    /// The length limit cut the final answer off, also after it was continued.
    IncompleteAnswer,
    /// The provider refused the request permanently.
    ModelRefused,
    /// The model is temporarily unavailable.
    ModelUnavailable,
    /// A permission that the task needed was not given.
    PermissionDenied,
    /// The limit of model calls was reached.
    MaxTurns,
    /// The cost limit was reached.
    MaxBudget,
    /// The time limit was reached.
    Timeout,
    /// The user interrupted.
    Interrupted,
    /// The system terminated the program.
    Terminated,
}

impl Ending {
    /// The name in `terminal_reason`.
    pub fn as_str(self) -> &'static str {
        variant_names::<Self>()[self as usize]
    }

    /// The process's exit code. 69, 75 and 77 are those of `sysexits.h`, 124 that of `timeout`.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Completed => 0,
            Self::CompletedUnverified
            | Self::Failed
            | Self::CheckFailed
            | Self::IncompleteAnswer => 1,
            Self::ModelRefused => 69,
            Self::ModelUnavailable => 75,
            Self::PermissionDenied => 77,
            Self::MaxTurns | Self::MaxBudget | Self::Timeout => 124,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// Why the turn ended, for users; empty for an answer without checks.
    pub fn in_words(self) -> &'static str {
        match self {
            Self::Completed => "",
            Self::CompletedUnverified => "a check could not run",
            Self::Interrupted => "stopped by you",
            Self::Terminated => "ended by the system",
            Self::Failed => "failed",
            Self::CheckFailed => "a check does not pass",
            Self::IncompleteAnswer => "the answer is incomplete",
            Self::ModelRefused => "the model refused",
            Self::ModelUnavailable => "the model is not reachable",
            Self::PermissionDenied => "a permission was not given",
            Self::MaxTurns => "the limit of model answers was reached",
            Self::MaxBudget => "the limit of money was reached",
            Self::Timeout => "the limit of time was reached",
        }
    }

    /// Whether the turn ended with a final answer and no check failed: exit code 0.
    pub fn is_success(self) -> bool {
        self == Self::Completed
    }

    /// Whether the turn's result is the model's final answer, not a failure report.
    pub fn has_answer(self) -> bool {
        matches!(self, Self::Completed | Self::CompletedUnverified)
    }
}

/// Who interrupted a running turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// Ctrl-C.
    User,
    /// SIGTERM.
    Terminate,
    Timeout,
    /// The cost limit of several sessions was reached.
    Budget,
}

impl Interrupt {
    /// How a turn ends after this interrupt.
    pub fn ending(self) -> Ending {
        match self {
            Self::User => Ending::Interrupted,
            Self::Terminate => Ending::Terminated,
            Self::Timeout => Ending::Timeout,
            Self::Budget => Ending::MaxBudget,
        }
    }
}
