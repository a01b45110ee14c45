//! Commands that failed and worked, without a log behind them: traces made by hand.

use serde_json::json;

use super::super::trace::{Attempt, ExecutionTrace};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::signature::signature;

/// A command line was tried, and failed where it said something.
pub(super) fn attempt(index: u32, command: &str, said: Option<&str>, exit_code: i64) -> Attempt {
    let context = json!({"tool": "Bash", "input": {"command": command}, "exit_code": exit_code});
    Attempt {
        index,
        timestamp_ms: i64::from(index),
        context: context.as_object().cloned().unwrap_or_default(),
        activated_artifacts: Vec::new(),
        result: String::new(),
        success: said.is_none(),
        code: said.map(|_| ErrorCode::CommandFailed),
        signature: said.map(signature),
        error: said.map(|said| format!("`{command}` exited with status {exit_code}\n{said}")),
        fix_applied: None,
        fix_source: None,
    }
}

/// All of them were tried to do one thing.
pub(super) fn trace(attempts: Vec<Attempt>) -> ExecutionTrace {
    ExecutionTrace {
        id: "s/1/1".to_owned(),
        skill_id: "Bash".to_owned(),
        task_id: "s/1".to_owned(),
        session: "s".to_owned(),
        project: "here".to_owned(),
        turn: 1,
        step: 0,
        final_success: attempts.last().is_some_and(|attempt| attempt.success),
        attempts,
        needs_human: false,
        methodology: None,
        created_at_ms: 1,
        duration_ms: 1,
    }
}
