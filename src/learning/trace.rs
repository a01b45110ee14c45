//! What happened, as attempts: derived from the events of a session, never written by hand.

use serde::{Deserialize, Serialize};

use crate::protocol::Object;
use crate::protocol::envelope::ErrorCode;

/// Everything that was tried to do one thing: one failure made good, one that was not, or one success.
///
/// The fields are those of the design of learning from failure (`docs/LEARNING.md`), and `session`, `project`,
/// `turn`, `step`, `methodology` and `needs_human` besides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionTrace {
    /// `SESSION/TURN/N`: the same events give the same id.
    pub id: String,
    /// The method in use: `Bash test`, `Edit`, or the name of a skill that was loaded.
    pub skill_id: String,
    /// `SESSION/TURN`.
    pub task_id: String,
    /// The session.
    pub session: String,
    /// The project's identity.
    pub project: String,
    /// Which of the user's messages.
    pub turn: u32,
    /// The todo in progress, from 1; 0 where there is none.
    pub step: u32,
    /// In order.
    pub attempts: Vec<Attempt>,
    /// The last attempt did it.
    pub final_success: bool,
    /// It ended badly: a person should look at it.
    pub needs_human: bool,
    /// The named way of working, where one was chosen.
    pub methodology: Option<String>,
    /// When the first attempt began, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// From the first attempt's beginning to the last one's end.
    pub duration_ms: u64,
}

/// One attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1.
    pub index: u32,
    /// When it began, in milliseconds since 1970.
    pub timestamp_ms: i64,
    /// `tool`, `input`, and what is known of the circumstances: `mode`, `platform`, `cwd`.
    pub context: Object,
    /// What it used: a skill's script, a command of the project, a check.
    pub activated_artifacts: Vec<String>,
    /// What it came to, in one line.
    pub result: String,
    /// It did what it was to do.
    pub success: bool,
    /// What it said where it failed.
    pub error: Option<String>,
    /// The envelope's code where it failed.
    pub code: Option<ErrorCode>,
    /// The failure with numbers, times, paths, addresses and hashes masked.
    pub signature: Option<String>,
    /// What was done differently, where it is a retry.
    pub fix_applied: Option<String>,
    /// Whose idea that was.
    pub fix_source: Option<FixSource>,
}

/// Whose idea a fix was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixSource {
    /// The model's, a retry of the kernel's, a patch, a recalled rule.
    SelfCorrection,
    /// A steering message, the words of an approval, an answer to a question.
    UserHint,
    /// A failure pattern that fitted.
    FailurePattern,
}

/// One use of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecutionRecord {
    /// In milliseconds since 1970.
    pub timestamp_ms: i64,
    /// It did what it was to do.
    pub success: bool,
    /// What it said where it failed.
    pub error: Option<String>,
    /// Hash of the circumstances: tool or command head, file kinds, tags, platform.
    pub context_hash: String,
    /// Those circumstances in words.
    pub context: String,
}
