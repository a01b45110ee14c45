//! Background commands: starts them, reads their output, ends them.
//!
//! Each has its own task, which owns the processes and the output and answers requests. All end with the
//! [`Exec`](super::Exec) that started them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::capture::{CapturedStreams, OutputCapture};
use super::running_command::RunningCommand;
use super::sandbox::Guard;
use super::{CapturedOutput, EndReason, RemainingProcess, exit_code_and_signal};
use agent_protocol::tool::CommandRights;

pub(super) const MAX_JOBS: usize = 16;
/// Limit of ended commands whose result is still available.
const MAX_ENDED: usize = 32;
/// Output that arrives within this time belongs to one answer.
const PAUSE: Duration = Duration::from_millis(50);
/// One year: practically unlimited.
const UNLIMITED: Duration = Duration::from_hours(24 * 365);

/// New output of a background command, and its state.
#[derive(Clone, Debug)]
pub struct BackgroundOutput {
    pub stdout: CapturedOutput,
    pub stderr: CapturedOutput,
    /// The path of the file with all output; `None` if there is no file or it could not be written.
    pub full_output: Option<String>,
    pub full_output_error: Option<String>,
    /// Which path or right the sandbox refused, and how to allow it.
    pub refusal: Option<String>,
    pub end: Option<CommandEnd>,
    /// Time since the start; after the end, the running time.
    pub time: Duration,
}

/// The end of a background command.
#[derive(Clone, Debug)]
pub struct CommandEnd {
    pub reason: EndReason,
    pub exit_code: Option<i32>,
    pub signal: Option<String>,
    pub notices: Vec<String>,
    /// Processes that outlived the shell; they end with the session, or when the command is killed.
    pub left_running: Vec<RemainingProcess>,
    pub error: Option<String>,
}

/// A background command with running processes, or a process that another command left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundCommand {
    /// The id of the command or of the process.
    pub id: String,
    pub line: String,
    /// Time since the start; `None` for a process.
    pub time: Option<Duration>,
}

type RunningCommandsObserver = Box<dyn Fn(Vec<BackgroundCommand>) + Send + Sync>;

#[derive(Debug, Default)]
pub(super) struct BackgroundJobs(Arc<SharedJobs>);

#[derive(Default)]
struct SharedJobs {
    jobs: Mutex<JobTable>,
    notify: OnceLock<RunningCommandsObserver>,
}

impl fmt::Debug for SharedJobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.jobs.fmt(f)
    }
}

#[derive(Debug, Default)]
struct JobTable {
    last: u32,
    by_id: BTreeMap<String, Job>,
    tasks: JoinSet<()>,
}

#[derive(Clone, Debug)]
struct Job {
    requests: mpsc::Sender<OutputRequest>,
    cancel: CancellationToken,
    state: Arc<AtomicU8>,
    line: String,
    begun: Instant,
    directory_and_rights: (PathBuf, CommandRights),
}

/// The states of a job: running; ended, with or without remaining processes.
const RUNNING: u8 = 0;
const PROCESSES_REMAIN: u8 = 1;
const ENDED: u8 = 2;

#[derive(Debug)]
struct OutputRequest {
    until: Instant,
    /// End the command and its remaining processes; new output does not answer the request.
    is_kill: bool,
    answer: oneshot::Sender<BackgroundOutput>,
}

impl OutputRequest {
    /// For a request that has new output: the answer waits only for output that belongs to it.
    fn shorten_wait(&mut self) {
        if !self.is_kill {
            self.until = self.until.min(Instant::now() + PAUSE);
        }
    }
}

pub(super) struct NewJob {
    pub(super) running: RunningCommand,
    pub(super) capture: OutputCapture<'static>,
    pub(super) timeout: Option<Duration>,
    pub(super) guard: Option<Guard>,
    pub(super) line: String,
    pub(super) directory_and_rights: (PathBuf, CommandRights),
}

impl BackgroundJobs {
    pub(super) fn is_full(&self) -> bool {
        let jobs = self.jobs();
        jobs.by_id.values().filter(|job| job.state() == RUNNING).count() >= MAX_JOBS
    }

    /// Returns the id of the command.
    pub(super) fn add(&self, started: NewJob) -> String {
        let mut jobs = self.jobs();
        jobs.last += 1;
        let id = format!("bg_{}", jobs.last);
        let (sender, requests) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let state = Arc::new(AtomicU8::new(RUNNING));
        let (line, place) = (started.line.clone(), started.directory_and_rights.clone());
        let shared = Arc::downgrade(&self.0);
        let status = JobStatus { state: Arc::clone(&state), shared };
        jobs.tasks.spawn(run_job(started, requests, cancel.clone(), status));
        let begun = Instant::now();
        jobs.by_id.insert(
            id.clone(),
            Job { requests: sender, cancel, state, line, begun, directory_and_rights: place },
        );
        let ended = jobs.by_id.iter().filter(|(_, job)| job.state() == ENDED);
        let ended: Vec<String> = ended.map(|(id, _)| id.clone()).collect();
        for id in ended.iter().take(ended.len().saturating_sub(MAX_ENDED)) {
            jobs.by_id.remove(id);
        }
        drop(jobs);
        self.0.notify();
        id
    }

    pub(super) fn watch(&self, notify: RunningCommandsObserver) {
        // A session has one screen.
        _ = self.0.notify.set(notify);
    }

    /// True if the command, or a process that it left, is running.
    pub(super) fn is_running(&self, id: &str) -> bool {
        self.jobs().by_id.get(id).is_some_and(|job| job.state() != ENDED)
    }

    pub(super) fn running_commands(&self) -> Vec<BackgroundCommand> {
        self.jobs().running_commands()
    }

    /// The output stays readable. False if there is no such running command.
    pub(super) async fn stop(&self, id: &str) -> bool {
        let job = self.jobs().by_id.get(id).filter(|job| job.state() != ENDED).cloned();
        let Some(job) = job else { return false };
        job.cancel.cancel();
        if job.state() == PROCESSES_REMAIN {
            job.request_output(UNLIMITED, true).await;
        }
        true
    }

    pub(super) fn directory_and_rights(&self, id: &str) -> Option<(PathBuf, CommandRights)> {
        Some(self.jobs().by_id.get(id)?.directory_and_rights.clone())
    }

    pub(super) fn ids(&self) -> Vec<String> {
        self.jobs().by_id.keys().cloned().collect()
    }

    /// Waits this long for output or the end. `None` if there is no such command.
    pub(super) async fn output(&self, id: &str, wait: Duration) -> Option<BackgroundOutput> {
        let job = self.jobs().by_id.get(id)?.clone();
        job.request_output(wait, false).await
    }

    pub(super) async fn kill(&self, id: &str) -> Option<BackgroundOutput> {
        let job = self.jobs().by_id.get(id)?.clone();
        job.cancel.cancel();
        job.request_output(UNLIMITED, true).await
    }

    /// The returned tasks finish when all commands have ended.
    pub(super) fn shutdown(&self) -> JoinSet<()> {
        let mut jobs = self.jobs();
        jobs.by_id.clear();
        // A dropped task ends its processes.
        jobs.tasks.abort_all();
        std::mem::take(&mut jobs.tasks)
    }

    fn jobs(&self) -> MutexGuard<'_, JobTable> {
        self.0.jobs()
    }
}

impl SharedJobs {
    fn jobs(&self) -> MutexGuard<'_, JobTable> {
        self.jobs.lock()
    }

    fn notify(&self) {
        if let Some(notify) = self.notify.get() {
            let running = self.jobs().running_commands();
            notify(running);
        }
    }
}

impl JobTable {
    fn running_commands(&self) -> Vec<BackgroundCommand> {
        let running = self.by_id.iter().filter(|(_, job)| job.state() != ENDED);
        let mut running: Vec<_> = running.collect();
        running.sort_by_key(|(_, job)| job.begun);
        let command = |(id, job): (&String, &Job)| BackgroundCommand {
            id: id.clone(),
            line: job.line.clone(),
            time: Some(job.begun.elapsed()),
        };
        running.into_iter().map(command).collect()
    }
}

struct JobStatus {
    state: Arc<AtomicU8>,
    shared: Weak<SharedJobs>,
}

impl JobStatus {
    fn set(&self, state: u8) {
        self.state.store(state, Ordering::Relaxed);
        if let Some(shared) = self.shared.upgrade() {
            shared.notify();
        }
    }
}

impl Job {
    fn state(&self) -> u8 {
        self.state.load(Ordering::Relaxed)
    }

    async fn request_output(&self, wait: Duration, kills: bool) -> Option<BackgroundOutput> {
        let (answer, answered) = oneshot::channel();
        let until = Instant::now() + wait;
        self.requests.send(OutputRequest { until, is_kill: kills, answer }).await.ok()?;
        answered.await.ok()
    }
}

/// Ends when no more output and no more requests can come.
async fn run_job(
    started: NewJob,
    mut requests: mpsc::Receiver<OutputRequest>,
    cancel: CancellationToken,
    job_status: JobStatus,
) {
    let NewJob { mut running, mut capture, timeout, guard, .. } = started;
    let begun = Instant::now();
    let deadline = begun + timeout.unwrap_or(UNLIMITED);
    let mut request: Option<OutputRequest> = None;
    let mut error = None;
    let (ended, status) = loop {
        let until = request.as_ref().map_or(begun + UNLIMITED, |request| request.until);
        let has_request = request.is_some();
        tokio::select! {
            biased;
            () = cancel.cancelled() => break (EndReason::Cancelled, None),
            () = sleep_until(deadline) => break (EndReason::TimedOut, None),
            next = requests.recv(), if !has_request => match next {
                Some(mut next) => {
                    if capture.has_output() {
                        next.shorten_wait();
                    }
                    request = Some(next);
                }
                None => break (EndReason::Cancelled, None),
            },
            // An abandoned request takes no output.
            () = wait_until_abandoned(request.as_mut()), if has_request => request = None,
            () = sleep_until(until), if has_request => {
                if let Some(request) = request.take() {
                    _ = request.answer.send(take_output(&mut capture, begun.elapsed(), None));
                }
            }
            step = running.read_or_wait(&mut capture) => match step {
                Ok(Some(status)) => break (EndReason::Exited, Some(status)),
                Ok(None) => {
                    if let Some(request) = request.as_mut() {
                        request.shorten_wait();
                    }
                }
                Err(failed) => {
                    error = Some(failed.to_string());
                    break (EndReason::Cancelled, None);
                }
            }
        }
    };
    if ended != EndReason::Exited {
        running.kill().await;
    }
    let left_running = running.drain_output(&mut capture).await;
    let mut left = if left_running.is_empty() { None } else { running.into_remaining() };
    capture.close();
    let mut end = command_end(ended, status, guard);
    (end.error, end.left_running) = (error, left_running);
    let time = begun.elapsed();
    job_status.set(if left.is_some() { PROCESSES_REMAIN } else { ENDED });
    let mut next = request;
    loop {
        if let Some(request) = next.take().filter(|request| !request.answer.is_closed()) {
            if request.is_kill && left.take().is_some() {
                end.left_running.clear();
                job_status.set(ENDED);
            }
            _ = request.answer.send(take_output(&mut capture, time, Some(end.clone())));
        }
        match requests.recv().await {
            Some(request) => next = Some(request),
            None => return,
        }
    }
}

async fn wait_until_abandoned(request: Option<&mut OutputRequest>) {
    if let Some(request) = request {
        request.answer.closed().await;
    }
}

fn take_output(
    capture: &mut OutputCapture<'_>,
    time: Duration,
    end: Option<CommandEnd>,
) -> BackgroundOutput {
    let taken = capture.take();
    let CapturedStreams { stdout, stderr, full_output, full_output_error } = taken;
    BackgroundOutput { stdout, stderr, full_output, full_output_error, refusal: None, end, time }
}

fn command_end(ended: EndReason, status: Option<ExitStatus>, guard: Option<Guard>) -> CommandEnd {
    let (exit_code, signal) = exit_code_and_signal(status);
    let notices = guard.map(|guard| guard.revert_changes()).unwrap_or_default();
    let (error, left_running) = (None, Vec::new());
    CommandEnd { reason: ended, exit_code, signal, notices, left_running, error }
}
