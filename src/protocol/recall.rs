//! What earlier sessions know: the seam between the kernel and its memory.
//!
//! The kernel asks at three moments and is answered at once, from memory that was read beside the start: what is
//! slow, locked or broken is simply not there. `docs/LEARNING.md` says where the answers come from.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::envelope::ErrorCode;
use super::message::ToolCall;
use super::reflection::SuggestedAction;

/// In what the user wants, before what the user said on the way.
pub const STEERED: &str = "\nThen the user said: ";

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
    /// A call was made that leads to one that has failed before.
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

/// A call that went well, and what it was about.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// What was called.
    pub call: &'a ToolCall,
    /// The files that it read, changed or found, from the project's root.
    pub paths: &'a [&'a str],
    /// It changed them, in fact and not on trial.
    pub changes: bool,
    /// What the user wants, in the user's words.
    pub task: &'a str,
}

/// Something remembered was used: shown to the model, or tried by the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryRecalled {
    /// When.
    pub moment: Moment,
    /// What, the best first.
    pub items: Vec<Recalled>,
    /// The model's call that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The kernel tries it itself: its own calls follow, with this call as their parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    /// The words in which the model is told; below the call's result where there is a call.
    pub text: String,
    /// They stand in L2, since nothing had been sent before; else in the conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_rules: bool,
}

/// Something was learnt of the work and is remembered from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryWritten {
    /// What is new.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new: Vec<Recalled>,
    /// What was known and is stronger now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<Recalled>,
    /// `seq` of the last event that it rests on; 0: it rests on an earlier session, of which a model was asked.
    pub up_to: u64,
}

/// What helped when a call failed like this.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// The failure pattern that it comes from.
    pub item: Recalled,
    /// How sure it is, from 0 to 1.
    pub confidence: f64,
    /// What has to be run first; then the action follows if that went well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// What the kernel should try itself; `None`: it is only told to the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<SuggestedAction>,
}

/// What is known of earlier failures and successes. Never waits, never fails.
pub trait Recall: Send + Sync {
    /// What fits a task, the best first: at most so many tokens in all. What lies where it lay before it was moved is
    /// left out: `is_there` says whether something stands at a path.
    fn for_task(
        &self,
        task: &str,
        max_tokens: u64,
        is_there: &dyn Fn(&str) -> bool,
    ) -> Vec<Recalled>;

    /// Of what who made this call is to be warned before the next ones: a few items at most, the best first, none that
    /// was shown already: `is_shown` takes an item's id and its text.
    fn before(&self, done: &Done<'_>, is_shown: &dyn Fn(&str, &str) -> bool) -> Vec<Recalled>;

    /// What helped when a call failed like this.
    fn after(&self, failed: &FailedAs<'_>) -> Option<Remedy>;

    /// How well a way of working has served so far, from 0 to 1; 0.5 where nothing is known.
    fn weight(&self, methodology: &str) -> f64;
}
