//! Lessons of earlier sessions: the interface between the kernel and its memory.
//!
//! A query never waits and never fails: a store that is slow, locked or damaged has no lessons.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::envelope::Envelope;
use super::message::ToolCall;
use super::reflection::SuggestedAction;
use super::tool::Effect;

/// A lesson as a model sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecalledLesson {
    /// Its id: `agent memory show ID`.
    pub id: String,
    /// Its kind.
    pub kind: LessonKind,
    /// One or two sentences.
    pub text: String,
}

/// The kind of a lesson.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LessonKind {
    /// What always holds.
    Rule,
    /// How a kind of task is done.
    Pattern,
    /// How a call failed, and what worked.
    FailurePattern,
}

/// When something was recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecallMoment {
    /// At the start of a task.
    Task,
    /// After a call that failed as one did before.
    Failure,
    /// In the evidence of a reflection.
    Reflection,
}

/// A call that failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedCall<'a> {
    pub call: &'a ToolCall,
    /// `None` if the arguments are not understood.
    pub effect: Option<&'a Effect>,
    pub envelope: &'a Envelope,
}

/// Lessons were used: shown to the model, or applied by the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryRecalled {
    /// When.
    pub moment: RecallMoment,
    /// The lessons, best first.
    pub items: Vec<RecalledLesson>,
    /// The model's call that they are about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The kernel applies the lesson itself: its calls follow, with `call` as their parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub applied: bool,
    /// The text that the model receives; part of the call's result if there is a call.
    pub text: String,
    /// The text is part of L2, since nothing was sent before; otherwise part of the conversation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_rules: bool,
}

/// Lessons were stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryWritten {
    /// New lessons.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new: Vec<RecalledLesson>,
    /// Known lessons that were learnt again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confirmed: Vec<RecalledLesson>,
    /// `seq` of the last event that they rest on; 0 for distilled lessons.
    pub up_to: u64,
}

/// What worked when a call failed like this one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// The lesson.
    pub item: RecalledLesson,
    /// What the kernel may try itself: only if the failed call is the one that the lesson was learnt from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<SuggestedAction>,
}

/// The lessons of earlier sessions.
pub trait LessonSource: Send + Sync {
    /// Best first, within this limit in tokens; `checks`: the commands that decide whether the task is done.
    fn lessons_for_task(&self, task: &str, checks: &[String], limit: u64) -> Vec<RecalledLesson>;

    fn find_remedy(&self, failed: &FailedCall<'_>) -> Option<Remedy>;

    fn similar_lessons(&self, failed: &FailedCall<'_>) -> Vec<RecalledLesson>;
}
