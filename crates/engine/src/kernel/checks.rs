//! Checks: the commands that decide whether the task is done.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::registry::Registry;
use agent_host::exec::{Command, EndReason};
use agent_protocol::command_output::plain_output;
use agent_protocol::event::{EventBody, EventStream};
use agent_protocol::tool::CommandRights;

/// Part of a check's output that is evidence.
const TAIL_LINES: usize = 40;
const TAIL_BYTES: usize = 3 * 1024;
const NO_SANDBOX: &str = "in read-only mode a check needs the sandbox, which is not available";
/// Time limit for finding out whether a program is installed.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The commands that decide whether the task is done (`--check`, `[checks]`).
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// Command lines, in order.
    pub commands: Vec<String>,
    /// Limit of each command.
    pub timeout: Duration,
}

#[derive(Debug)]
pub(super) struct PassedCheck {
    pub(super) command: String,
    pub(super) tail: String,
}

#[derive(Debug)]
pub(super) struct FailedCheck {
    pub(super) command: String,
    /// `exited 1`, `did not end within 600 s`.
    pub(super) exit_text: String,
    pub(super) tail: String,
    pub(super) cause: CheckFailure,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum CheckFailure {
    /// The work does not satisfy the check.
    Failed,
    TimedOut,
    /// The user has to fix that, not the model.
    CouldNotRun(String),
    /// No statement about the work.
    Interrupted,
    /// Failed in read-only mode, where the check may not write and the model cannot fix anything.
    ReadOnly,
}

impl Checks {
    /// Runs the commands up to the first that does not pass. In read-only mode they may write only to their private
    /// temporary folder.
    pub(super) async fn run(
        &self,
        events: &EventStream,
        registry: &Registry,
        cancel: &CancellationToken,
    ) -> (Vec<PassedCheck>, Option<FailedCheck>) {
        let exec = &registry.cx().exec;
        let read_only = registry.is_read_only();
        let mut passed = Vec::with_capacity(self.commands.len());
        for command in &self.commands {
            let started = events.clock().now();
            let outcome = if read_only && !exec.is_sandboxed() {
                Err(NO_SANDBOX.to_owned())
            } else {
                let line = check_command(registry, command.clone(), self.timeout, read_only);
                exec.run(line, cancel).await.map_err(|error| error.to_string())
            };
            let (exit_code, exit_text, output, cause) = match outcome {
                Ok(mut outcome) => {
                    let cx = registry.cx();
                    let redactor = cx.secrets.redactor(&cx.workspace);
                    redactor.redact_in(&mut outcome.stdout.text);
                    redactor.redact_in(&mut outcome.stderr.text);
                    let exit_text = outcome.describe_end();
                    let mut output = format!("{}{}", outcome.stdout.text, outcome.stderr.text);
                    if let Some(refused) = &outcome.refusal {
                        output.push_str(&format!("({refused})\n"));
                    }
                    let missing = match outcome.exit_code {
                        Some(127) => missing_program(registry, command, cancel).await,
                        _ => None,
                    };
                    let cause = match missing {
                        Some(program) => {
                            CheckFailure::CouldNotRun(format!("{program} was not found in PATH"))
                        }
                        None if cancel.is_cancelled() => CheckFailure::Interrupted,
                        None if read_only => CheckFailure::ReadOnly,
                        None if outcome.end_reason == EndReason::TimedOut => CheckFailure::TimedOut,
                        None => CheckFailure::Failed,
                    };
                    (outcome.exit_code, exit_text, output, cause)
                }
                Err(why) => {
                    let exit_text = "could not start".to_owned();
                    (None, exit_text, why.clone(), CheckFailure::CouldNotRun(why))
                }
            };
            let tail = output_end(&plain_output(&output));
            let is_success = exit_code == Some(0);
            events.emit(EventBody::CheckFinished {
                command: command.clone(),
                exit_code,
                passed: is_success,
                tail: tail.clone(),
                time_ms: super::millis(events.clock().now().duration_since(started)),
            });
            let command = command.clone();
            if !is_success {
                return (passed, Some(FailedCheck { command, exit_text, tail, cause }));
            }
            passed.push(PassedCheck { command, tail });
        }
        (passed, None)
    }
}

fn check_command(
    registry: &Registry,
    command: String,
    timeout: Duration,
    read_only: bool,
) -> Command<'static> {
    let rights = CommandRights { read_only, ..CommandRights::default() };
    Command { rights, ..Command::new(command, registry.root().to_path_buf(), timeout) }
}

/// The program that a check starts with, if it is not installed. A missing script of the project, or something that
/// the program needs, counts as the model's task.
async fn missing_program(
    registry: &Registry,
    check: &str,
    cancel: &CancellationToken,
) -> Option<String> {
    let program = first_program(check)?;
    let lookup = format!("command -v -- '{program}'");
    let exec = &registry.cx().exec;
    let found = exec
        .run(check_command(registry, lookup, LOOKUP_TIMEOUT, exec.is_sandboxed()), cancel)
        .await;
    found.is_ok_and(|outcome| outcome.exit_code == Some(1)).then(|| program.to_owned())
}

/// The first word after assignments, if it is a plain name.
fn first_program(line: &str) -> Option<&str> {
    let is_name =
        |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.' | '+');
    let first = line.split_whitespace().find(|word| !word.contains('='));
    first.filter(|word| word.chars().all(is_name))
}

fn output_end(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    tail[tail.ceil_char_boundary(tail.len().saturating_sub(TAIL_BYTES))..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_program_of_a_line_is_found_unless_it_is_a_path() {
        for (line, program) in [
            ("pytest -q", Some("pytest")),
            ("CI=1 pytest -q", Some("pytest")),
            ("cd a && pytest", Some("cd")),
            ("sh -c nosuch", Some("sh")),
            ("./run.sh", None),
            ("$RUNNER test", None),
        ] {
            assert_eq!(first_program(line), program, "{line}");
        }
    }

    #[test]
    fn tail_of_check_output_is_kept() {
        let output = format!("{}the reason\n", "x\u{e9}".repeat(4000));
        assert!(
            output_end(&output).ends_with("the reason") && output_end(&output).len() <= TAIL_BYTES
        );
    }
}
