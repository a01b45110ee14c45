//! The file of results: one line for the evaluation, then one for each run.

use serde::Serialize;

use super::variants::Variant;

pub const FORMAT: u32 = 1;

/// The first line: the evaluated configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResultsHeader {
    pub format: u32,
    pub suite: String,
    pub suite_hash: String,
    pub program: String,
    pub started: String,
    /// The variants; the first one is the baseline.
    pub variants: Vec<EvaluatedVariant>,
}

/// A variant with its effective model and configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EvaluatedVariant {
    #[serde(flatten)]
    pub variant: Variant,
    pub model: String,
    /// Hash of the whole configuration and of the prompts.
    pub configuration_hash: String,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOutcome {
    /// The agent ended with an answer, and all checks passed.
    Success,
    /// The agent did not end with an answer, or a check failed.
    Failure,
    /// Not carried out: no result of the variant.
    Error,
}

/// The outcome of one run, with its checks and its session.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunResult {
    pub task: String,
    pub variant: String,
    pub repetition: u32,
    pub outcome: RunOutcome,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<CheckResult>,
    /// `None` if the agent did not start.
    #[serde(flatten)]
    pub session: Option<SessionResult>,
}

/// Figures from the record of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SessionResult {
    pub session: String,
    /// Path of the log, relative to the directory of the results.
    pub log: String,
    /// The model that answered first.
    pub model: String,
    /// The ending of the turn; `None` without an end.
    pub ending: Option<String>,
    pub steps: u32,
    pub input_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// US dollars; `None` if the model's price is unknown.
    pub cost_usd: Option<f64>,
    pub time_ms: u64,
}

/// The result of one check command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckResult {
    pub command: String,
    pub passed: bool,
    /// The end as text: `exited 1`, `did not end within 60 s`.
    pub how: String,
    pub tail: String,
}
