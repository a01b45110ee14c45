//! Carries out one run of an evaluation: a fresh copy of the project, the agent as a process of its own, then the
//! checks.

mod trial_directory;

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use trial_directory::TrialDirectory;

use super::check_runner::{CheckRunner, first_line};
use super::{OpenError, Storage, parse_duration};
use crate::config::{LoadedConfig, UserDirs};
use agent_host::exec::{EndReason, SelfCommand};
use agent_protocol::control::Ending;
use agent_protocol::event::{Event, EventBody, TurnFinished};
use agent_protocol::shorten;
use agent_protocol::tool::CommandRights;
use agent_record::eval::results::{RunOutcome, RunResult, SessionResult};
use agent_record::eval::suite::Task;

/// Time for the agent to end by itself after its time limit.
const GRACE_PERIOD: Duration = Duration::from_secs(30);
/// Limit of a reason.
const MAX_REASON: usize = 400;

pub struct Trial<'a> {
    pub task: &'a Task,
    /// Copied for the run, if the task has one.
    pub directory: Option<&'a Path>,
    pub variant: &'a str,
    pub repetition: u32,
    /// `KEY=VALUE`, of the evaluation and of the variant.
    pub settings: &'a [String],
    pub is_scripted: bool,
    pub results: &'a Path,
}

enum TrialError {
    Interrupted,
    Failed(String),
}

impl From<OpenError> for TrialError {
    fn from(error: OpenError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Trial<'_> {
    /// Carries the run out; `None` if it was interrupted. `load` returns the configuration with these settings, without
    /// a project's own.
    pub async fn run(
        &self,
        load: &dyn Fn(Vec<String>) -> Result<LoadedConfig, OpenError>,
        cancel: &CancellationToken,
    ) -> Option<RunResult> {
        match Box::pin(self.judge(load, cancel)).await {
            Ok(result) => Some(result),
            Err(TrialError::Interrupted) => None,
            Err(TrialError::Failed(why)) => Some(self.result(RunOutcome::Error, Some(&why), None)),
        }
    }

    /// A result without checks.
    fn result(
        &self,
        outcome: RunOutcome,
        reason: Option<&str>,
        session: Option<SessionResult>,
    ) -> RunResult {
        RunResult {
            task: self.task.name.clone(),
            variant: self.variant.to_owned(),
            repetition: self.repetition,
            outcome,
            reason: reason.map(|reason| shorten(reason.trim(), MAX_REASON)),
            checks: Vec::new(),
            session,
        }
    }

    async fn judge(
        &self,
        load: &dyn Fn(Vec<String>) -> Result<LoadedConfig, OpenError>,
        cancel: &CancellationToken,
    ) -> Result<RunResult, TrialError> {
        let scratch = TrialDirectory::new(self.task, self.directory)
            .map_err(|error| TrialError::Failed(format!("the copy of the project: {error}")))?;
        let settings = self.settings_in(&scratch);
        let loaded = load(settings.clone())?;
        // The project's own settings have no effect: the agent may have written them.
        let dirs = UserDirs::find();
        let dirs = dirs.map(|dirs| UserDirs { cache: scratch.cache.join("agent"), ..dirs });
        let checks = CheckRunner::open(&loaded, &scratch.project, dirs.as_ref())?;
        let timeout = self.task.check_timeout;
        for line in &self.task.setup {
            // Written by the author of the suite, and nothing of a model is there yet.
            let rights = CommandRights { unsandboxed: true, ..CommandRights::default() };
            let check = checks.run(line, rights, timeout, cancel).await?;
            let check = check.ok_or(TrialError::Interrupted)?;
            if !check.passed {
                let why = format!("setup `{}` {}: {}", first_line(line), check.how, check.tail);
                return Err(TrialError::Failed(why));
            }
        }

        let id = uuid::Uuid::now_v7().to_string();
        // The limit of the task, unless a setting changes it.
        let limit = loaded.config.limits.timeout.as_deref().map(parse_duration).transpose()?;
        let limit = limit.unwrap_or(self.task.timeout);
        let agent = self.agent_process(&scratch, &id, settings, limit + GRACE_PERIOD);
        let outcome =
            agent.run(cancel).await.map_err(|error| TrialError::Failed(error.to_string()))?;
        if cancel.is_cancelled() {
            return Err(TrialError::Interrupted);
        }
        let state = self.results.join("state/agent");
        let dirs = UserDirs { state, ..UserDirs::below_home(self.results) };
        let log = Storage::find(&scratch.project, Some(&dirs)).log_path(&id);
        let events = agent_record::load_session(&log).map_or_else(|_| Vec::new(), |it| it.events);
        let finished = events.iter().rev().find_map(|event| match &event.body {
            EventBody::TurnFinished(finished) => Some(finished),
            _ => None,
        });
        let session = self.session_result(&id, &log, &events, finished);
        let ended = match finished {
            Some(finished) => turn_outcome(finished),
            None if outcome.end_reason == EndReason::TimedOut => {
                (Some(RunOutcome::Failure), format!("the agent {}", outcome.describe_end()))
            }
            None => {
                let why = outcome.stderr.text.trim();
                (Some(RunOutcome::Error), format!("the agent {}: {why}", outcome.describe_end()))
            }
        };
        if let (Some(outcome), reason) = ended {
            return Ok(self.result(outcome, Some(&reason), session));
        }

        let mut result = self.result(RunOutcome::Success, None, session);
        for line in &self.task.checks {
            let check = checks.run(line, CommandRights::default(), timeout, cancel).await?;
            let check = check.ok_or(TrialError::Interrupted)?;
            if !check.passed {
                let why = format!("check `{}` {}", first_line(line), check.how);
                result.outcome = RunOutcome::Failure;
                result.reason = Some(shorten(why.trim(), MAX_REASON));
            }
            result.checks.push(check);
            if result.outcome != RunOutcome::Success {
                break;
            }
        }
        checks.close().await;
        Ok(result)
    }

    /// The stronger ones last.
    fn settings_in(&self, scratch: &TrialDirectory) -> Vec<String> {
        let task = self.task;
        // Nothing is learned from one run for another.
        let memory = self.results.join("state/memory.db");
        let mut settings = vec![
            "learning.enabled=false".to_owned(),
            format!("learning.database={}", toml::Value::from(memory.display().to_string())),
            format!("limits.timeout={}ms", task.timeout.as_millis()),
        ];
        settings.extend(task.max_turns.map(|turns| format!("limits.max_turns={turns}")));
        settings.extend_from_slice(self.settings);
        if self.is_scripted {
            settings.push(format!("model=script:{}", scratch.script.display()));
        }
        settings
    }

    fn agent_process(
        &self,
        scratch: &TrialDirectory,
        id: &str,
        settings: Vec<String>,
        timeout: Duration,
    ) -> SelfCommand {
        let mut arguments: Vec<OsString> =
            ["run", "--quiet", "--session-id", id].map(OsString::from).into();
        for setting in settings {
            arguments.extend(["--set".into(), setting.into()]);
        }
        arguments.extend(["--".into(), self.task.prompt.clone().into()]);
        SelfCommand {
            arguments,
            directory: scratch.project.clone(),
            environment: vec![
                ("XDG_STATE_HOME".into(), self.results.join("state").into()),
                ("XDG_CACHE_HOME".into(), scratch.cache.clone().into()),
            ],
            timeout,
        }
    }

    fn session_result(
        &self,
        id: &str,
        log: &Path,
        events: &[Event],
        finished: Option<&TurnFinished>,
    ) -> Option<SessionResult> {
        let model = events.iter().find_map(|event| match &event.body {
            EventBody::SessionStarted(started) => Some(started.model.clone()),
            _ => None,
        })?;
        let summary = agent_record::summary(events);
        Some(SessionResult {
            session: id.to_owned(),
            log: log.strip_prefix(self.results).unwrap_or(log).display().to_string(),
            model: if self.is_scripted { "script".to_owned() } else { model },
            ending: finished.map(|finished| finished.ending.as_str().to_owned()),
            steps: summary.rounds,
            input_tokens: summary.spending.usage.input_tokens,
            cached_tokens: summary.spending.usage.cached_tokens,
            output_tokens: summary.spending.usage.output_tokens,
            cost_usd: summary.spending.cost_usd,
            time_ms: summary.time_ms,
        })
    }
}

/// The outcome without the checks, and the reason; `None`: the checks decide.
fn turn_outcome(finished: &TurnFinished) -> (Option<RunOutcome>, String) {
    let reason = format!("{}: {}", finished.ending.as_str(), first_line(&finished.result));
    let outcome = match finished.ending {
        Ending::Completed | Ending::CompletedUnverified | Ending::CheckFailed => None,
        Ending::Failed
        | Ending::IncompleteAnswer
        | Ending::PermissionDenied
        | Ending::MaxTurns
        | Ending::MaxBudget
        | Ending::Timeout => Some(RunOutcome::Failure),
        Ending::ModelRefused
        | Ending::ModelUnavailable
        | Ending::Interrupted
        | Ending::Terminated => Some(RunOutcome::Error),
    };
    (outcome, reason)
}
