//! What earlier sessions know: the seam between the kernel and its memory.
//!
//! The kernel asks at three moments and is answered at once, from memory that was read beside the start: what is
//! slow, locked or broken is simply not there. `docs/LEARNING.md` says where the answers come from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::envelope::ErrorCode;
use super::message::ToolCall;
use super::reflection::SuggestedAction;

/// One thing that is remembered, as it is shown to a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recalled {
    /// Which item: `agent memory show ID`.
    pub id: String,
    /// What kind of item.
    pub kind: ItemKind,
    /// One imperative sentence.
    pub text: String,
}

/// What kind of item is remembered.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ItemKind {
    /// What always holds.
    Rule,
    /// How a kind of task is done.
    Pattern,
    /// How a call failed, and what helped.
    FailurePattern,
}

/// At which moment something was recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// At the start of a task.
    Task,
    /// A call is about to be made that has failed before.
    Call,
    /// A call has failed as one did before.
    Failure,
}

/// A call that failed, and how.
#[derive(Clone, Copy, Debug)]
pub struct FailedAs<'a> {
    /// What was called.
    pub call: &'a ToolCall,
    /// The envelope's code.
    pub code: ErrorCode,
    /// What it said, with numbers, times, paths, addresses and hashes masked.
    pub signature: &'a str,
    /// The evidence as the tool gave it: the message, and the end of what a command printed.
    pub evidence: &'a str,
}

/// What helped when a call failed like this.
#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// The failure pattern that it comes from.
    pub item: Recalled,
    /// How sure it is, from 0 to 1.
    pub confidence: f64,
    /// What the kernel should try itself; `None`: it is only told to the model.
    pub action: Option<SuggestedAction>,
}

/// What is known of earlier failures and successes. Never waits, never fails.
pub trait Recall: Send + Sync {
    /// What fits a task, the best first: at most so many tokens in all.
    fn for_task(&self, task: &str, max_tokens: u64) -> Vec<Recalled>;

    /// What is known of a call that is about to be made.
    fn before(&self, call: &ToolCall) -> Option<Recalled>;

    /// What helped when a call failed like this.
    fn after(&self, failed: &FailedAs<'_>) -> Option<Remedy>;
}
