//! Outcomes of calls in a short form that outlives their results.

use std::ops::RangeInclusive;

use serde_json::Value;

use agent_protocol::envelope::{Envelope, ErrorCode};
use agent_protocol::shorten;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct CallOutcome {
    pub(super) tool: String,
    pub(super) action: CallAction,
    pub(super) error: Option<ErrorCode>,
    /// Files that a command or a sub-agent changed, as its result names them.
    pub(super) changed_files: Vec<String>,
    pub(super) user_answers: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallAction {
    ReadLines { path: String, lines: RangeInclusive<u64>, total: Option<u64> },
    ChangeFile { path: String, added: u64, removed: u64 },
    RunCommand { command: String, exit_code: Option<i64> },
    Other { path: Option<String> },
}

impl CallOutcome {
    pub(super) fn from_envelope(tool: &str, envelope: &Envelope) -> Self {
        let (data, stats) = (&envelope.data, &envelope.stats);
        let count = |name: &str| stats.get(name).and_then(Value::as_u64).unwrap_or_default();
        let line = |name: &str| data.get(name).and_then(Value::as_u64);
        let path = envelope.context.path_resolved.clone();
        let command = envelope.context.params_input.get("command").and_then(Value::as_str);
        let applied = data.get("applied").and_then(Value::as_bool).unwrap_or_default();
        let error = envelope.error().map(|error| error.code);
        let action = match (path, line("start_line"), line("end_line"), command) {
            (_, _, _, Some(command)) => CallAction::RunCommand {
                command: shorten(&command.replace('\n', " "), 100),
                exit_code: data.get("exit_code").and_then(Value::as_i64),
            },
            (Some(path), Some(first), Some(last), None) if error.is_none() => {
                CallAction::ReadLines { path, lines: first..=last, total: line("total_lines") }
            }
            (Some(path), ..) if applied => CallAction::ChangeFile {
                path,
                added: count("lines_added"),
                removed: count("lines_removed"),
            },
            (path, ..) => CallAction::Other { path },
        };
        // The text repeats the question before each answer.
        let user_answers = (tool == "AskUser" && error.is_none()).then(|| envelope.text.clone());
        let changed = data.get("files_changed").and_then(Value::as_array).into_iter().flatten();
        let changed_files = changed.filter_map(Value::as_str).map(str::to_owned).collect();
        Self { tool: tool.to_owned(), action, error, changed_files, user_answers }
    }

    /// Whether a later read shows everything that this one shows.
    pub(super) fn is_superseded_by(&self, later: &Self) -> bool {
        let (
            CallAction::ReadLines { path, lines, .. },
            CallAction::ReadLines { path: later_path, lines: later_lines, .. },
        ) = (&self.action, &later.action)
        else {
            return false;
        };
        path == later_path
            && later_lines.start() <= lines.start()
            && later_lines.end() >= lines.end()
    }
}
