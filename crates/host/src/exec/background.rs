//! Background commands. Each has a task, which owns the processes and the output and answers requests.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::capture::{CapturedStreams, OutputCapture};
use super::live_output::LiveOutput;
use super::running_command::RunningCommand;
use super::{
    CapturedOutput, Command, EndReason, Error, Exec, GitComparison, RemainingProcess,
    StartedCommand, exit_code_and_signal,
};
use agent_protocol::tool::CommandRights;

const MAX_JOBS: usize = 16;
const MAX_ENDED: usize = 32;
/// Output that arrives within this time belongs to one answer.
const PAUSE: Duration = Duration::from_millis(50);
const UNLIMITED: Duration = Duration::from_hours(24 * 365);

/// New output of a background command, and its state.
#[derive(Clone, Debug)]
pub struct BackgroundOutput {
    pub stdout: CapturedOutput,
    pub stderr: CapturedOutput,
    /// The file with all output; `None` if there is none or it could not be written.
    pub full_output: Option<String>,
    pub full_output_error: Option<String>,
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
    pub id: String,
    pub line: String,
    /// Time since the start; `None` for a process.
    pub time: Option<Duration>,
    /// The last lines of its output, whether the model has read them or not; at most 2 KiB.
    pub last_output: String,
}

type RunningCommandsObserver = Box<dyn Fn(Vec<BackgroundCommand>) + Send + Sync>;

#[derive(Default)]
pub(super) struct BackgroundJobs {
    jobs: Mutex<JobTable>,
    notify: OnceLock<RunningCommandsObserver>,
}

impl fmt::Debug for BackgroundJobs {
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
    state: watch::Receiver<u8>,
    line: String,
    begun: Instant,
    directory_and_rights: (PathBuf, CommandRights),
    last_output: Arc<Mutex<String>>,
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

struct NewJob {
    running: RunningCommand,
    capture: OutputCapture<'static>,
    timeout: Option<Duration>,
    comparison: Option<GitComparison>,
    last_output: Arc<Mutex<String>>,
}

impl Exec {
    /// Returns the id after the start. Without a `timeout` the running time is not limited.
    ///
    /// Must be awaited on the main thread, like [`Exec::run`].
    pub async fn start_background(
        &self,
        mut command: Command<'static>,
        timeout: Option<Duration>,
        cancel: &CancellationToken,
    ) -> Result<String, Error> {
        let is_running = |job: &&Job| job.state() == RUNNING;
        if self.background.jobs.lock().by_id.values().filter(is_running).count() >= MAX_JOBS {
            return Err(Error::TooMany(MAX_JOBS));
        }
        let last_output = Arc::<Mutex<String>>::default();
        let writer = last_output.clone();
        let watched =
            LiveOutput::new(Box::new(move |tail: &str| tail.clone_into(&mut writer.lock())));
        let mut capture = OutputCapture::new(command.whole_output.take(), Some(watched));
        capture.keeps_all = true;
        let place = (command.directory.clone(), command.rights);
        let line = command.line.clone();
        let started = cancel.run_until_cancelled(self.start_command(command)).await;
        let StartedCommand { running, comparison, .. } = started.ok_or(Error::Cancelled)??;
        if let Some(sandbox) = &self.sandbox {
            self.forwards.watch_listeners(sandbox);
        }
        let job = NewJob { running, capture, timeout, comparison, last_output };
        Ok(self.background.add(job, line, place))
    }

    /// The output since the last call; waits this long for output or the end. `None` if there is no such command.
    pub async fn read_output(&self, id: &str, wait: Duration) -> Option<BackgroundOutput> {
        let job = self.background.job(id)?;
        let mut piece = job.request_output(wait, false).await?;
        let (directory, rights) = job.directory_and_rights;
        piece.refusal = self
            .sandbox_of(rights)
            .and_then(|sandbox| sandbox.explain_refusal(&piece.stderr.text, &directory, rights));
        Some(piece)
    }

    /// Ends a background command with all of its processes.
    pub async fn kill_background(&self, id: &str) -> Option<BackgroundOutput> {
        let job = self.background.job(id)?;
        job.cancel.cancel();
        job.request_output(UNLIMITED, true).await
    }

    /// Whether the background command, or a process that it left, is running.
    pub fn is_background_running(&self, id: &str) -> bool {
        self.background.job(id).is_some_and(|job| job.state() != ENDED)
    }

    /// Calls `notify` whenever a background command starts or ends.
    pub fn watch_background(
        &self,
        notify: impl Fn(Vec<BackgroundCommand>) + Send + Sync + 'static,
    ) {
        // A session has one screen.
        _ = self.background.notify.set(Box::new(notify));
    }

    /// The ids of the background commands, including ended ones.
    pub fn background_ids(&self) -> Vec<String> {
        self.background.jobs.lock().by_id.keys().cloned().collect()
    }
}

impl BackgroundJobs {
    fn job(&self, id: &str) -> Option<Job> {
        self.jobs.lock().by_id.get(id).cloned()
    }

    fn add(
        self: &Arc<Self>,
        started: NewJob,
        line: String,
        directory_and_rights: (PathBuf, CommandRights),
    ) -> String {
        let mut jobs = self.jobs.lock();
        jobs.last += 1;
        let id = format!("bg_{}", jobs.last);
        let (sender, receiver) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let last_output = started.last_output.clone();
        let (sets_state, state) = watch::channel(RUNNING);
        let status = JobStatus { state: sets_state, jobs: Arc::downgrade(self) };
        jobs.tasks.spawn(run_job(started, receiver, cancel.clone(), status));
        let begun = Instant::now();
        let job =
            Job { requests: sender, cancel, state, line, begun, directory_and_rights, last_output };
        jobs.by_id.insert(id.clone(), job);
        let ended = jobs.by_id.iter().filter(|(_, job)| job.state() == ENDED);
        let ended: Vec<String> = ended.map(|(id, _)| id.clone()).collect();
        for id in ended.iter().take(ended.len().saturating_sub(MAX_ENDED)) {
            jobs.by_id.remove(id);
        }
        drop(jobs);
        self.notify();
        id
    }

    pub(super) fn running_commands(&self) -> Vec<BackgroundCommand> {
        let jobs = self.jobs.lock();
        let mut running: Vec<_> =
            jobs.by_id.iter().filter(|(_, job)| job.state() != ENDED).collect();
        running.sort_by_key(|(_, job)| job.begun);
        let command = |(id, job): (&String, &Job)| BackgroundCommand {
            id: id.clone(),
            line: job.line.clone(),
            time: Some(job.begun.elapsed()),
            last_output: job.last_output.lock().clone(),
        };
        running.into_iter().map(command).collect()
    }

    /// The output stays readable. False if there is no such running command.
    pub(super) async fn stop(&self, id: &str) -> bool {
        let Some(job) = self.job(id).filter(|job| job.state() != ENDED) else { return false };
        job.cancel.cancel();
        // What was asked before the end would count as running.
        _ = job.state.clone().wait_for(|state| *state != RUNNING).await;
        if job.state() == PROCESSES_REMAIN {
            job.request_output(UNLIMITED, true).await;
        }
        true
    }

    /// The returned tasks finish when all commands have ended.
    pub(super) fn shutdown(&self) -> JoinSet<()> {
        let mut jobs = self.jobs.lock();
        jobs.by_id.clear();
        // A dropped task ends its processes.
        jobs.tasks.abort_all();
        std::mem::take(&mut jobs.tasks)
    }

    fn notify(&self) {
        if let Some(notify) = self.notify.get() {
            notify(self.running_commands());
        }
    }
}

struct JobStatus {
    state: watch::Sender<u8>,
    jobs: Weak<BackgroundJobs>,
}

impl JobStatus {
    fn set(&self, state: u8) {
        self.state.send_replace(state);
        if let Some(jobs) = self.jobs.upgrade() {
            jobs.notify();
        }
    }
}

impl Job {
    fn state(&self) -> u8 {
        *self.state.borrow()
    }

    async fn request_output(&self, wait: Duration, is_kill: bool) -> Option<BackgroundOutput> {
        let (answer, answered) = oneshot::channel();
        let until = Instant::now() + wait;
        self.requests.send(OutputRequest { until, is_kill, answer }).await.ok()?;
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
    let NewJob { mut running, mut capture, timeout, comparison, .. } = started;
    let begun = Instant::now();
    let deadline = begun + timeout.unwrap_or(UNLIMITED);
    let mut request: Option<OutputRequest> = None;
    let mut error = None;
    let (ended, status) = loop {
        let until = request.as_ref().map_or(begun + UNLIMITED, |request| request.until);
        let has_request = request.is_some();
        let due = capture.live.as_ref().and_then(LiveOutput::next_notification);
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
            () = sleep_until(due.unwrap_or(deadline)), if due.is_some() => {
                capture.live.iter_mut().for_each(LiveOutput::notify_watcher);
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
    let mut left = if left_running.is_empty() {
        // What ran unseen ends before the comparison.
        drop(running);
        None
    } else {
        running.into_remaining()
    };
    capture.close();
    let (exit_code, signal) = exit_code_and_signal(status);
    let (has_left, is_cancelled) = (left.is_some(), ended == EndReason::Cancelled);
    let finish = move |mut it: GitComparison| {
        // There may be no next command that looks for the repositories it made.
        it.nested = (!is_cancelled).then(|| it.guard.find_nested());
        it.finish(has_left)
    };
    let compared = tokio::task::spawn_blocking(move || comparison.map(finish)).await;
    let notices = compared.ok().flatten().unwrap_or_default().into_notes();
    let mut end = CommandEnd { reason: ended, exit_code, signal, notices, left_running, error };
    let time = begun.elapsed();
    job_status.set(if left.is_some() { PROCESSES_REMAIN } else { ENDED });
    if request.is_none() {
        request = requests.recv().await;
    }
    while let Some(OutputRequest { is_kill, answer, .. }) = request {
        if !answer.is_closed() {
            if is_kill && left.take().is_some() {
                end.left_running.clear();
                job_status.set(ENDED);
            }
            _ = answer.send(take_output(&mut capture, time, Some(end.clone())));
        }
        request = requests.recv().await;
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
    let CapturedStreams { stdout, stderr, full_output, full_output_error } = capture.take();
    BackgroundOutput { stdout, stderr, full_output, full_output_error, refusal: None, end, time }
}
