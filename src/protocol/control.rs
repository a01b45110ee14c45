//! What happens next, and why it ends: the words between *it went like this* and *that was all*.
//!
//! Different decisions have different words: an [`Effect`](super::tool::Effect) is ruled on
//! ([`Ruling`]), a call's [`Verdict`](super::envelope::Verdict) says how it went, a
//! [`ControlDecision`] what the kernel does next, an [`Ending`] why the turn is over. [`Control`] is
//! the one hand that a person has on a session.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::directives::UserInput;
use super::envelope::{ErrorClass, ErrorCode};
use super::recall::Remedy;
use super::reflection::Reflection;

/// May this call be made?
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Yes.
    Allow(Reason),
    /// A person has to agree.
    Ask(Reason),
    /// No; the code says in which way.
    Refuse(ErrorCode, Reason),
}

/// Why a ruling is what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    /// The rule or mode that made it, as a person would write it: `--deny Bash(rm *)`, `mode ask`.
    pub rule: String,
    /// One sentence for the model and the person, with what to do instead where it is a refusal.
    pub text: String,
    /// What to do instead, or, if nobody can be asked, how to allow it.
    pub hint: Option<String>,
    /// The rule was made from a sentence of the user.
    pub by_instruction: bool,
}

/// How freely the agent may act, from the least freedom to the most.
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
    /// It looks and changes nothing.
    ReadOnly,
    /// It asks before every change and every command.
    Ask,
    /// It may change files inside the project; commands need a rule until they run in a sandbox.
    #[default]
    AutoEdit,
    /// It may do anything; only what is never done is still refused.
    Full,
}

impl PermissionMode {
    /// The word that stands on the command line and in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Ask => "ask",
            Self::AutoEdit => "auto-edit",
            Self::Full => "full",
        }
    }
}

/// What the kernel does next. It carries this out and decides nothing itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "decision", content = "detail", rename_all = "snake_case")]
pub enum ControlDecision {
    /// Nothing failed that needs an answer: go on.
    Continue,
    /// The step failed and is worth another try.
    Retry(Retry),
    /// The plan does not hold.
    Replan(Replan),
}

impl ControlDecision {
    /// A decision in two words: `retry feedback`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Continue => "continue",
            Self::Retry(Retry::Feedback) => "retry feedback",
            Self::Retry(Retry::Same) => "retry same",
            Self::Retry(Retry::Adjusted) => "retry adjusted",
            Self::Retry(Retry::Alternative) => "retry alternative",
            Self::Replan(Replan::Step) => "replan step",
            Self::Replan(Replan::Task) => "replan task",
        }
    }
}

/// How a step is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// The envelope's error and hint go back to the model.
    Feedback,
    /// A transient fault of an idempotent read: the same call once more, no model asked.
    Same,
    /// A reflection's corrected arguments, run by the kernel.
    Adjusted,
    /// A reflection's other tool, run by the kernel.
    Alternative,
}

/// How much of the plan is written anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Replan {
    /// This one step; the others stand.
    Step,
    /// All of it.
    Task,
}

/// What kind of evidence a failure rests on: a closed list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
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

impl Signal {
    /// It is about an answer, not about a step of the work: there is nothing that could be rewritten.
    pub fn answers_itself(self) -> bool {
        match self {
            Self::BadAnswer => true,
            Self::CheckFailed
            | Self::ValidationFailed
            | Self::ToolError
            | Self::Loop
            | Self::ConstraintViolated
            | Self::UserRejected => false,
        }
    }
}

/// Where the cause of a failure lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
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

impl Category {
    /// The word that stands in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ParameterError => "parameter_error",
            Self::ToolError => "tool_error",
            Self::DependencyError => "dependency_error",
            Self::DecompositionError => "decomposition_error",
            Self::EnvironmentError => "environment_error",
            Self::PermissionError => "permission_error",
            Self::Unknown => "unknown",
        }
    }
}

impl Counters {
    /// The counter that a decision uses up.
    pub fn count_of(&self, decision: ControlDecision) -> Count {
        match decision {
            ControlDecision::Continue | ControlDecision::Retry(_) => self.retry_count,
            ControlDecision::Replan(Replan::Step) => self.single_step_repair_count,
            ControlDecision::Replan(Replan::Task) => self.task_replan_count,
        }
    }
}

/// The evidence of a step's last failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LastFailure {
    /// What kind of evidence.
    pub signal: Signal,
    /// The envelope's code, where a tool answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<ErrorCode>,
    /// The code's class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ErrorClass>,
    /// Where the cause lies.
    pub category: Category,
    /// What the failure said.
    pub message: String,
    /// The message with numbers, times, paths, addresses and hashes masked: two failures with one
    /// signature are the same failure.
    pub signature: String,
    /// The chain it belongs to: tool and target.
    pub chain: String,
    /// What a model said of it, if one was asked and its answer can be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reflection: Option<Box<Reflection>>,
    /// What helped when it failed like this before, where the kernel can try it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<Box<Remedy>>,
}

/// How failures are answered (`[recovery]`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Recovery {
    /// Retries of one failing step.
    pub max_step_retries: u32,
    /// How often a final answer is sent back for one reason (a failing check, the JSON schema, the verifier) before
    /// repair and replanning, and how often an unusable answer is requested again.
    pub max_answer_retries: u32,
    /// Rewritings of one step.
    pub max_single_step_repairs: u32,
    /// Rewritings of the whole plan.
    pub max_task_replanning_attempts: u32,
    /// Failing rounds in a row with one signature and nothing tried differently.
    #[schemars(range(min = 1))]
    pub max_consecutive_failures: u32,
    /// A model is asked why something failed from so many failures of it on.
    #[schemars(range(min = 1))]
    pub reflect_after: u32,
    /// Such questions in one task.
    pub max_reflections: u32,
    /// Whether a model is asked at all; the counted decisions stand without it.
    pub enable_step_level_reflection: bool,
    /// Whether a task that failed takes back the files it changed.
    pub undo_on_failure: bool,
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
            undo_on_failure: false,
        }
    }
}

/// A counter and its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// How often so far.
    pub n: u32,
    /// How often at most.
    pub max: u32,
}

impl Count {
    /// Nothing counted yet.
    pub fn up_to(max: u32) -> Self {
        Self { n: 0, max }
    }

    /// The limit is reached.
    pub fn used_up(self) -> bool {
        self.n >= self.max
    }
}

/// Every counter of the kernel, as it stands in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Retries of the failing chain (`recovery.max_step_retries`).
    pub retry_count: Count,
    /// Rewritings of this step (`recovery.max_single_step_repairs`).
    pub single_step_repair_count: Count,
    /// Rewritings of the whole plan (`recovery.max_task_replanning_attempts`).
    pub task_replan_count: Count,
    /// Rounds in a row in which no call succeeded.
    pub consecutive_failures: u32,
    /// Those of them that failed in one way with the very same calls
    /// (`recovery.max_consecutive_failures`).
    pub unvaried_failures: Count,
    /// Reflections of this task (`recovery.max_reflections`).
    #[serde(default)]
    pub reflections: Count,
}

/// Why the turn is over. Its word is `terminal_reason`, its number the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The model gave its final answer; the checks, if there are any, passed.
    Completed,
    /// The model gave its final answer, and a check could not run.
    CompletedUnverified,
    /// Given up.
    Failed,
    /// The work was done and a check does not pass.
    CheckFailed,
    /// The model refused for good.
    ModelRefused,
    /// The model could not be reached for now.
    ModelUnavailable,
    /// A permission that the task needed was not given.
    PermissionDenied,
    /// The limit of model answers was reached.
    MaxTurns,
    /// The limit of money was reached.
    MaxBudget,
    /// The limit of time was reached.
    Timeout,
    /// A person interrupted.
    Interrupted,
    /// The system asked the program to end.
    Terminated,
}

impl Ending {
    /// The word that stands in `terminal_reason`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::CompletedUnverified => "completed_unverified",
            Self::Failed => "failed",
            Self::CheckFailed => "check_failed",
            Self::ModelRefused => "model_refused",
            Self::ModelUnavailable => "model_unavailable",
            Self::PermissionDenied => "permission_denied",
            Self::MaxTurns => "max_turns",
            Self::MaxBudget => "max_budget",
            Self::Timeout => "timeout",
            Self::Interrupted => "interrupted",
            Self::Terminated => "terminated",
        }
    }

    /// The process's exit code. 69, 75 and 77 are those of `sysexits.h`, 124 that of `timeout`.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Completed => 0,
            Self::CompletedUnverified | Self::Failed | Self::CheckFailed => 1,
            Self::ModelRefused => 69,
            Self::ModelUnavailable => 75,
            Self::PermissionDenied => 77,
            Self::MaxTurns | Self::MaxBudget | Self::Timeout => 124,
            Self::Interrupted => 130,
            Self::Terminated => 143,
        }
    }

    /// The turn ended with a final answer and no check failed: exit code 0.
    pub fn is_success(self) -> bool {
        self == Self::Completed
    }

    /// The turn's result is the model's final answer, not a failure report.
    pub fn has_answer(self) -> bool {
        matches!(self, Self::Completed | Self::CompletedUnverified)
    }
}

/// Who ended a running turn from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// A person (Ctrl-C).
    User,
    /// The system (SIGTERM).
    Terminate,
    /// The limit of time.
    Timeout,
}

/// What a person is asked before a call is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Approval {
    /// Yes, this once.
    Once,
    /// Yes, and the rules that were shown hold from now on, in this session.
    Always,
    /// No; perhaps with what to do instead.
    No(Option<String>),
}

/// The one hand on a session. Clones hold the same session.
///
/// After an interrupt nothing starts, and everything that was started is answered; the next turn begins
/// with [`Control::begin_turn`].
#[derive(Clone, Debug, Default)]
pub struct Control(Arc<Hand>);

#[derive(Debug, Default)]
struct Hand {
    /// Of this turn.
    cancel: Mutex<CancellationToken>,
    by: AtomicU8,
    /// A person is there to be asked.
    is_attended: AtomicBool,
    wishes: Mutex<Wishes>,
}

/// What the person wants, until the loop takes it.
#[derive(Debug, Default)]
struct Wishes {
    /// Said while the turn runs.
    messages: VecDeque<UserInput>,
    mode: Option<PermissionMode>,
    /// The call that waits for an answer.
    asked: Option<(String, oneshot::Sender<Approval>)>,
}

impl Control {
    /// Ends the turn. The first interrupt says why; later ones change nothing.
    pub fn interrupt(&self, by: Interrupt) {
        let code = match by {
            Interrupt::User => 1,
            Interrupt::Terminate => 2,
            Interrupt::Timeout => 3,
        };
        // The reason is written before the token is seen.
        _ = self.0.by.compare_exchange(0, code, Ordering::SeqCst, Ordering::SeqCst);
        self.cancel().cancel();
    }

    /// Who interrupted, if anybody did.
    pub fn interrupted(&self) -> Option<Interrupt> {
        match self.0.by.load(Ordering::SeqCst) {
            1 => Some(Interrupt::User),
            2 => Some(Interrupt::Terminate),
            3 => Some(Interrupt::Timeout),
            _ => None,
        }
    }

    /// The token of this turn, which everything that waits looks at.
    pub fn cancel(&self) -> CancellationToken {
        locked(&self.0.cancel).clone()
    }

    /// What interrupted the turn before interrupts the next one no more. The end of the program does.
    pub fn begin_turn(&self) {
        if matches!(self.interrupted(), Some(Interrupt::User | Interrupt::Timeout)) {
            *locked(&self.0.cancel) = CancellationToken::new();
            self.0.by.store(0, Ordering::SeqCst);
        }
    }

    /// The user says something while the turn runs. A stop phrase interrupts; anything else is delivered after the
    /// current tool.
    pub fn steer(&self, message: UserInput) {
        if message.is_stop() {
            return self.interrupt(Interrupt::User);
        }
        locked(&self.0.wishes).messages.push_back(message);
    }

    /// Something was said that the model has not heard yet.
    pub fn is_steered(&self) -> bool {
        !locked(&self.0.wishes).messages.is_empty()
    }

    /// What was said and not heard yet, in order; from now on it is heard.
    pub fn take_messages(&self) -> Vec<UserInput> {
        locked(&self.0.wishes).messages.drain(..).collect()
    }

    /// The person wants this mode, from the next call on.
    pub fn want_mode(&self, mode: PermissionMode) {
        locked(&self.0.wishes).mode = Some(mode);
    }

    /// The mode that is wanted; from now on it holds.
    pub fn take_mode(&self) -> Option<PermissionMode> {
        locked(&self.0.wishes).mode.take()
    }

    /// From now on a person is there to be asked.
    pub fn attend(&self) {
        self.0.is_attended.store(true, Ordering::SeqCst);
    }

    /// A person is there to be asked.
    pub fn is_attended(&self) -> bool {
        self.0.is_attended.load(Ordering::SeqCst)
    }

    /// Waits for what a person says to a call; `None` after an interrupt. The question has to be shown
    /// after this was called and before it is awaited: then no answer can come too early or be lost.
    pub fn approval(&self, call: &str) -> impl Future<Output = Option<Approval>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        locked(&self.0.wishes).asked = Some((call.to_owned(), sender));
        let cancel = self.cancel();
        async move { cancel.run_until_cancelled(receiver).await?.ok() }
    }

    /// The person answers the question about this call. An answer to another question counts nothing.
    pub fn answer(&self, call: &str, approval: Approval) {
        let mut wishes = locked(&self.0.wishes);
        if let Some((_, sender)) = wishes.asked.take_if(|(asked, _)| asked == call) {
            // Nobody waits any more: the turn was interrupted.
            _ = sender.send(approval);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Interrupt {
    /// How a turn ends that was ended so.
    pub fn ending(self) -> Ending {
        match self {
            Self::User => Ending::Interrupted,
            Self::Terminate => Ending::Terminated,
            Self::Timeout => Ending::Timeout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn approval_answer_applies_only_to_its_question() {
        let control = Control::default();
        control.answer("a", Approval::Once);
        let waiting = control.approval("a");
        control.answer("b", Approval::Once);
        control.answer("a", Approval::No(None));
        assert_eq!(waiting.await, Some(Approval::No(None)));
        let waiting = control.approval("c");
        control.interrupt(Interrupt::User);
        assert_eq!(waiting.await, None);
    }

    #[test]
    fn new_turn_clears_the_previous_interrupt() {
        let control = Control::default();
        control.interrupt(Interrupt::User);
        assert!(control.cancel().is_cancelled());
        control.begin_turn();
        assert!(!control.cancel().is_cancelled() && control.interrupted().is_none());
        control.interrupt(Interrupt::Terminate);
        control.begin_turn();
        assert!(control.cancel().is_cancelled(), "the end of the program ends every turn");
    }
}
