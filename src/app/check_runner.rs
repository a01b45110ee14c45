//! Runs checks outside of a session: for an evaluation, and in copies of a project.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{
    OpenError, StateDirs, WritableDirs, build_masker, command_exec, open_sandbox, parse_duration,
};
use crate::config::{LoadedConfig, UserDirs};
use agent_host::exec::{Command, EndReason, Exec};
use agent_protocol::mask::Masker;
use agent_protocol::shorten;
use agent_protocol::tool::CommandRights;
use agent_record::eval::results::CheckResult;

/// Limits of the output of a check, and of a line of it in a message.
const MAX_TAIL: usize = 2000;
const MAX_LINE: usize = 200;

/// Sandboxed if possible, as in a session.
pub(super) struct CheckRunner {
    exec: Exec,
    masker: Arc<Masker>,
    directory: PathBuf,
}

impl CheckRunner {
    pub(super) fn open(
        loaded: &LoadedConfig,
        directory: &Path,
        dirs: Option<&UserDirs>,
    ) -> Result<Self, OpenError> {
        let writable = WritableDirs::from_config(&loaded.config, directory, &[]);
        let (sandbox, _) = open_sandbox(loaded, &writable, &StateDirs::new(dirs))?;
        let exec = command_exec(&loaded.config, &writable, &[]);
        let exec = match sandbox {
            Some(sandbox) => exec.with_sandbox(sandbox, Arc::new(|_, _| None)),
            None => exec,
        };
        let masker = build_masker(&loaded.config, &[])?;
        Ok(Self { exec, masker, directory: directory.to_owned() })
    }

    /// `None`: interrupted.
    pub(super) async fn run(
        &self,
        line: &str,
        rights: CommandRights,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> Result<Option<CheckResult>, OpenError> {
        let command = Command::new(line.to_owned(), self.directory.clone(), timeout);
        let outcome = self.exec.run(Command { rights, ..command }, cancel).await;
        let failed = |error| OpenError::Usage(format!("`{}`: {error}", first_line(line)));
        let outcome = outcome.map_err(failed)?;
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let mut output = format!("{}{}", outcome.stdout.text, outcome.stderr.text);
        if let Some(refused) = &outcome.refusal {
            output.push_str(&format!("({refused})\n"));
        }
        let output = self.masker.mask(&output).into_owned();
        let tail = &output[output.ceil_char_boundary(output.len().saturating_sub(MAX_TAIL))..];
        Ok(Some(CheckResult {
            command: line.to_owned(),
            passed: outcome.end_reason == EndReason::Exited && outcome.exit_code == Some(0),
            how: outcome.describe_end(),
            tail: tail.trim_end().to_owned(),
        }))
    }

    /// Ends what the checks left running.
    pub(super) async fn close(self) {
        self.exec.shutdown_and_wait().await;
    }
}

/// Runs these commands in a directory, as checks: describes the first that does not pass or is interrupted.
pub async fn find_failing_check(
    (loaded, dirs): (&LoadedConfig, Option<&UserDirs>),
    directory: &Path,
    commands: &[String],
    cancel: &CancellationToken,
) -> Result<Option<String>, OpenError> {
    let timeout = parse_duration(&loaded.config.checks.timeout)?;
    let runner = CheckRunner::open(loaded, directory, dirs)?;
    let mut failure = None;
    for line in commands {
        let check = runner.run(line, CommandRights::default(), timeout, cancel).await?;
        if check.as_ref().is_none_or(|check| !check.passed) {
            let how = check.as_ref().map_or("was interrupted", |check| check.how.as_str());
            let last = check.as_ref().and_then(|check| check.tail.lines().next_back());
            let last = last.map_or_else(String::new, |last| format!(": {}", first_line(last)));
            failure = Some(format!("`{}` {how}{last}", first_line(line)));
            break;
        }
    }
    runner.close().await;
    Ok(failure)
}

pub(super) fn first_line(text: &str) -> String {
    shorten(text.trim().lines().next().unwrap_or_default(), MAX_LINE)
}
