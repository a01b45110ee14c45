//! Checks: the commands that decide whether the task is done.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::exec::Command;
use crate::protocol::event::{Body, Events};
use crate::protocol::tool::Rights;
use crate::registry::Registry;

/// How much of a check's output is evidence, in lines and in bytes.
const TAIL_LINES: usize = 40;
const TAIL_BYTES: usize = 3 * 1024;
/// Why no check is run where nothing can have been changed.
const NOTHING_TO_PROVE: &str = "the checks were not run: nothing may be changed at present, and \
     nothing was changed in this turn";
/// Why a check is not run where nothing would keep it from writing.
const UNGUARDED: &str =
    "nothing may be changed at present, and without a sandbox nothing keeps a check from it";

/// The commands that decide whether the task is done (`--check`, `[checks]`).
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// The command lines, in order.
    pub commands: Vec<String>,
    /// How long each may take.
    pub timeout: Duration,
}

/// A check that passed.
#[derive(Debug)]
pub(super) struct PassedCheck {
    pub(super) command: String,
    pub(super) tail: String,
}

/// A check that did not pass.
pub(super) struct FailedCheck {
    pub(super) command: String,
    /// `exited 1`, `did not end within 600 s`.
    pub(super) how: String,
    pub(super) tail: String,
    /// Why it could not even be started: that is the configuration's fault, not the model's.
    pub(super) unfit: Option<String>,
    /// It was to write nothing, which may be why it failed: nobody could mend anything now, either.
    pub(super) read_only: bool,
}

impl Checks {
    /// Runs them one after the other, up to the first that does not pass. While nothing may be changed they write
    /// nothing but their private folder, or do not run; where nothing was changed before, either, they prove nothing.
    pub(super) async fn run(
        &self,
        events: &Events,
        registry: &Registry,
        cancel: &CancellationToken,
    ) -> Result<Vec<PassedCheck>, FailedCheck> {
        let exec = &registry.cx().exec;
        let read_only = registry.changes_nothing();
        if read_only && !registry.could_change() {
            if !self.commands.is_empty() {
                events.emit(Body::Error {
                    source: "checks".to_owned(),
                    message: NOTHING_TO_PROVE.to_owned(),
                    retry_in_ms: None,
                    attempt: None,
                });
            }
            return Ok(Vec::new());
        }
        let mut all = Vec::with_capacity(self.commands.len());
        for command in &self.commands {
            let started = events.clock().now();
            let root = registry.root().to_path_buf();
            let rights = Rights { read_only, ..Rights::default() };
            let line = Command { rights, ..Command::new(command.clone(), root, self.timeout) };
            let outcome = if read_only && !exec.is_sandboxed() {
                Err(UNGUARDED.to_owned())
            } else {
                exec.run(line, cancel).await.map_err(|error| error.to_string())
            };
            let (exit_code, how, output, unfit) = match outcome {
                Ok(mut outcome) => {
                    let cx = registry.cx();
                    let redactor = cx.secrets.redactor(&cx.workspace);
                    redactor.redact_in(&mut outcome.stdout.text);
                    redactor.redact_in(&mut outcome.stderr.text);
                    let how = outcome.how();
                    let mut output = format!("{}{}", outcome.stdout.text, outcome.stderr.text);
                    if let Some(refused) = &outcome.refused {
                        output.push_str(&format!("({refused})\n"));
                    }
                    let unfit = (outcome.exit_code == Some(127))
                        .then(|| missing_program(command, &outcome.stderr.text))
                        .flatten();
                    (outcome.exit_code, how, output, unfit)
                }
                Err(why) => (None, "could not start".to_owned(), why.clone(), Some(why)),
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
                // What an interrupt ended is no evidence.
                let read_only = read_only && !cancel.is_cancelled();
                return Err(FailedCheck { command: command.clone(), how, tail, unfit, read_only });
            }
            all.push(PassedCheck { command: command.clone(), tail });
        }
        Ok(all)
    }
}

/// A program that the check itself names and that is not installed. What a script of the project's misses,
/// or a script that is not there yet, may be the model's to mend.
fn missing_program(command: &str, stderr: &str) -> Option<String> {
    let missing = stderr.lines().find_map(|line| {
        let (shell, said) = line.split_once(": ")?;
        let name = said.strip_suffix(": command not found")?.rsplit(": ").next()?;
        let mut words = command.split(|c: char| c.is_whitespace() || ";|&()".contains(c));
        (shell == "bash" || shell.ends_with("/bash")).then(|| words.find(|word| *word == name))?
    })?;
    Some(format!("{missing} was not found in PATH"))
}

fn tail(output: &str) -> String {
    let lines: Vec<&str> = output.lines().collect();
    let tail = lines[lines.len().saturating_sub(TAIL_LINES)..].join("\n");
    tail[tail.ceil_char_boundary(tail.len().saturating_sub(TAIL_BYTES))..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_the_check_names_is_the_configurations_fault() {
        let missing = |command: &str, stderr: &str| missing_program(command, stderr).is_some();
        let no_pytest = "bash: line 1: pytest: command not found\n";
        assert!(missing("pytest -q", no_pytest));
        assert!(missing("cd a && pytest", &format!("/usr/bin/{no_pytest}")));
        assert!(!missing("make test", no_pytest), "a recipe may be the model's to mend");
        assert!(!missing("bash test.sh", "test.sh: line 3: pytest: command not found\n"));
        assert!(!missing("./run.sh", "bash: line 1: ./run.sh: No such file or directory\n"));
    }

    #[test]
    fn the_end_of_the_output_is_kept() {
        let output = format!("{}the reason\n", "x\u{e9}".repeat(4000));
        assert!(tail(&output).ends_with("the reason") && tail(&output).len() <= TAIL_BYTES);
    }
}
