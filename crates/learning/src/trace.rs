//! Traces: attempts derived from the events of a session.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call_record::{CHECK, CallRecord};
use agent_protocol::Object;
use agent_protocol::envelope::{ErrorClass, ErrorCode};

/// The attempts at one thing: a resolved failure, one that was not resolved, or one success.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExecutionTrace {
    /// `SESSION/TURN/N`, determined by the events.
    pub id: String,
    /// The kind of call: `Bash cargo`, `Edit`, `check`.
    pub skill_id: String,
    /// `SESSION/TURN`.
    pub task_id: String,
    pub session: String,
    pub project: String,
    pub turn: u32,
    /// The todo in progress, from 1; 0 if there is none.
    pub step: u32,
    pub attempts: Vec<Attempt>,
    pub final_success: bool,
    /// The turn ended with this failure: the user should check it.
    pub needs_human: bool,
    /// The start of the first attempt, in milliseconds since 1970.
    pub created_at_ms: i64,
    /// From the beginning of the first attempt to the end of the last one.
    pub duration_ms: u64,
}

/// One call of a trace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1.
    pub index: u32,
    pub timestamp_ms: i64,
    /// `tool`, `input`, `call` (its id), `mode`, `platform`, `cwd`, and the `exit_code`, if any.
    pub context: Object,
    pub activated_artifacts: Vec<String>,
    pub result: String,
    pub success: bool,
    /// The line with the reason of the failure.
    pub error: Option<String>,
    pub code: Option<ErrorCode>,
    /// The error with incidental details masked.
    pub signature: Option<String>,
    /// The difference from the previous attempt; `None` if the attempt is no retry.
    pub fix_applied: Option<String>,
    pub fix_source: Option<FixSource>,
}

/// The source of a fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixSource {
    /// A lesson that the kernel applied.
    FailurePattern,
    /// A correction by the model, or a retry of the kernel.
    SelfCorrection,
    /// A message of the user during the turn, or the text of a denial.
    UserHint,
}

/// The kind of a call: `Bash cargo`.
pub fn skill_id(call: &CallRecord) -> String {
    match call.programs.first().and_then(|program| program.split(' ').next()) {
        Some(name) if call.tool != CHECK => format!("{} {name}", call.tool),
        _ => call.tool.clone(),
    }
}

/// The attempt of a call; `mode` and `directory` of the session.
pub fn build_attempt(call: &CallRecord, index: u32, mode: &str, directory: &str) -> Attempt {
    let failed = call.failure.as_ref();
    let mut context = Object::from_iter([
        ("tool".to_owned(), call.tool.as_str().into()),
        ("input".to_owned(), Value::Object(call.input.clone())),
        ("call".to_owned(), call.id.as_str().into()),
        ("mode".to_owned(), mode.into()),
        ("platform".to_owned(), std::env::consts::OS.into()),
        ("cwd".to_owned(), directory.into()),
    ]);
    if let Some(code) = failed.and_then(|failed| failed.exit_code) {
        context.insert("exit_code".to_owned(), code.into());
    }
    Attempt {
        index,
        timestamp_ms: call.time_ms.0,
        context,
        activated_artifacts: match call.command() {
            Some(command) if call.tool == CHECK => vec![format!("check {command}")],
            _ => call.programs.clone(),
        },
        result: call.result.clone(),
        success: failed.is_none(),
        error: failed.map(|failed| failed.excerpt.clone()),
        code: failed.map(|failed| failed.code),
        signature: failed.map(|failed| failed.signature.clone()),
        fix_applied: None,
        fix_source: None,
    }
}

/// The kind of error as one word; a missing program is a missing dependency.
pub fn error_type(tool: &str, code: Option<ErrorCode>, exit_code: Option<i64>) -> &'static str {
    if matches!(exit_code, Some(126 | 127)) {
        return "dependency_error";
    }
    match code.map(|code| code.class(tool)) {
        Some(ErrorClass::Caller) => "parameter_error",
        Some(ErrorClass::State) => "environment_error",
        Some(ErrorClass::Policy) => "permission_error",
        Some(ErrorClass::Tool) => "tool_error",
        None => "unknown",
    }
}
