//! Checks: the commands that decide whether the task is done.

use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::exec::{Command, Exec};
use crate::protocol::event::{Body, Events};

/// How much of a check's output is evidence, in lines and in bytes.
const TAIL_LINES: usize = 40;
const TAIL_BYTES: usize = 4 * 1024;

/// The commands that decide whether the task is done (`--check`, `[checks]`).
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// The command lines, in order.
    pub commands: Vec<String>,
    /// How long each may take.
    pub timeout: Duration,
}

/// A check that did not pass.
pub(super) struct FailedCheck {
    pub(super) command: String,
    /// `exited 1`, `did not end within 600 s`.
    pub(super) how: String,
    pub(super) tail: String,
}

impl Checks {
    /// Runs them one after the other, up to the first that does not pass. `Ok` with how many passed.
    pub(super) async fn run(
        &self,
        events: &Events,
        exec: &Exec,
        root: &Path,
        cancel: &CancellationToken,
    ) -> Result<usize, FailedCheck> {
        for command in &self.commands {
            let started = events.clock().now();
            let line = Command::new(command.clone(), root.to_path_buf(), self.timeout);
            let (exit_code, how, output) = match exec.run(line, cancel).await {
                Ok(outcome) => {
                    let how = outcome.how();
                    let output = format!("{}{}", outcome.stdout.text, outcome.stderr.text);
                    (outcome.exit_code, how, output)
                }
                Err(error) => (None, "could not start".to_owned(), error.to_string()),
            };
            let tail = tail(&output);
            let passed = exit_code == Some(0);
            events.emit(Body::CheckFinished {
                command: command.clone(),
                exit_code,
                passed,
                tail: tail.clone(),
                time_ms: super::millis(events.clock().now().duration_since(started)),
            });
            if !passed {
                return Err(FailedCheck { command: command.clone(), how, tail });
            }
        }
        Ok(self.commands.len())
    }
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    tail[tail.ceil_char_boundary(tail.len().saturating_sub(TAIL_BYTES))..].to_owned()
}
