//! Commands that run beside others: started, read from, ended.
//!
//! Each is looked after by a task of its own, which owns the processes and their output; who wants to
//! know something asks it. All end with the [`Exec`](super::Exec) that started them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::capture::{Capture, Kept};
use super::running::Running;
use super::sandbox::Guard;
use super::{Captured, Ended, LeftRunning, exit_of};
use crate::protocol::tool::Rights;

/// So many may run at the same time.
pub(super) const MAX_JOBS: usize = 16;
/// So many that ended can still be asked.
const MAX_ENDED: usize = 32;
/// What is written in one go is read in one go.
const PAUSE: Duration = Duration::from_millis(50);
/// Far away.
const LONG: Duration = Duration::from_hours(24 * 365);

/// What a background command wrote since it was last asked, and how it stands.
#[derive(Clone, Debug)]
pub struct Piece {
    /// What it wrote.
    pub stdout: Captured,
    /// What it complained about.
    pub stderr: Captured,
    /// Where all that it ever wrote lies; `None` where it wrote nothing or that could not be kept.
    pub full_output: Option<String>,
    /// Why it does not lie there, or not all of it.
    pub full_output_error: Option<String>,
    /// Which path or right the sandbox refused, and how to allow it.
    pub refused: Option<String>,
    /// How it ended; `None` while it runs.
    pub end: Option<End>,
    /// Since it was started; once it ended, as long as it ran.
    pub time: Duration,
}

/// How a background command ended.
#[derive(Clone, Debug)]
pub struct End {
    /// Why it is over.
    pub ended: Ended,
    /// The shell's exit status, where it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// What it did to a repository and was undone.
    pub notices: Vec<String>,
    /// Processes that outlived the shell; they end with the session, or when it is ended.
    pub left_running: Vec<LeftRunning>,
    /// Why it could not be run, or not be followed to its end.
    pub error: Option<String>,
}

/// The background commands of one [`Exec`](super::Exec).
#[derive(Debug, Default)]
pub(super) struct Background(Mutex<Jobs>);

#[derive(Debug, Default)]
struct Jobs {
    last: u32,
    by_id: BTreeMap<String, Job>,
    tasks: JoinSet<()>,
}

#[derive(Clone, Debug)]
struct Job {
    questions: mpsc::Sender<Question>,
    cancel: CancellationToken,
    state: Arc<AtomicU8>,
    place: (PathBuf, Rights),
}

/// What becomes of a job: it runs; it ended, and left processes or none.
const RUNS: u8 = 0;
const LEFT: u8 = 1;
const ENDED: u8 = 2;

#[derive(Debug)]
struct Question {
    /// How long news are waited for.
    until: Instant,
    /// It is to end, with what it left running; output is no news.
    kills: bool,
    answer: oneshot::Sender<Piece>,
}

impl Question {
    /// There is news: the answer waits only for what belongs to it.
    fn hurry(&mut self) {
        if !self.kills {
            self.until = self.until.min(Instant::now() + PAUSE);
        }
    }
}

/// A command that was started, and all that its task needs.
pub(super) struct Started {
    pub(super) running: Running,
    pub(super) capture: Capture<'static>,
    pub(super) timeout: Option<Duration>,
    pub(super) guard: Option<Guard>,
    /// The directory that it runs in, and its rights.
    pub(super) place: (PathBuf, Rights),
}

impl Background {
    /// As many run as may.
    pub(super) fn is_full(&self) -> bool {
        let jobs = self.jobs();
        jobs.by_id.values().filter(|job| job.state() == RUNS).count() >= MAX_JOBS
    }

    /// Looks after it from now on, under the id that this gives.
    pub(super) fn add(&self, started: Started) -> String {
        let mut jobs = self.jobs();
        jobs.last += 1;
        let id = format!("bg_{}", jobs.last);
        let (questions, asked) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let state = Arc::new(AtomicU8::new(RUNS));
        let place = started.place.clone();
        jobs.tasks.spawn(attend(started, asked, cancel.clone(), Arc::clone(&state)));
        jobs.by_id.insert(id.clone(), Job { questions, cancel, state, place });
        // What ended long ago is forgotten.
        let ended = jobs.by_id.iter().filter(|(_, job)| job.state() == ENDED);
        let ended: Vec<String> = ended.map(|(id, _)| id.clone()).collect();
        for id in ended.iter().take(ended.len().saturating_sub(MAX_ENDED)) {
            jobs.by_id.remove(id);
        }
        id
    }

    /// The command of this id, or something that it left, still runs.
    pub(super) fn is_running(&self, id: &str) -> bool {
        self.jobs().by_id.get(id).is_some_and(|job| job.state() != ENDED)
    }

    /// The directory that it runs in, and its rights.
    pub(super) fn place(&self, id: &str) -> Option<(PathBuf, Rights)> {
        Some(self.jobs().by_id.get(id)?.place.clone())
    }

    /// The ids there are.
    pub(super) fn ids(&self) -> Vec<String> {
        self.jobs().by_id.keys().cloned().collect()
    }

    /// What is new; waits that long for output or the end. `None`: there is no such command.
    pub(super) async fn output(&self, id: &str, wait: Duration) -> Option<Piece> {
        let job = self.jobs().by_id.get(id)?.clone();
        job.ask(wait, false).await
    }

    /// Ends it, all of its processes, and says what else it wrote.
    pub(super) async fn kill(&self, id: &str) -> Option<Piece> {
        let job = self.jobs().by_id.get(id)?.clone();
        job.cancel.cancel();
        job.ask(LONG, true).await
    }

    /// Ends them all, and gives what is over when they have ended.
    pub(super) fn shutdown(&self) -> JoinSet<()> {
        let mut jobs = self.jobs();
        jobs.by_id.clear();
        // Each takes its processes along.
        jobs.tasks.abort_all();
        std::mem::take(&mut jobs.tasks)
    }

    fn jobs(&self) -> MutexGuard<'_, Jobs> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    fn state(&self) -> u8 {
        self.state.load(Ordering::Relaxed)
    }

    async fn ask(&self, wait: Duration, kills: bool) -> Option<Piece> {
        let (answer, answered) = oneshot::channel();
        let until = Instant::now() + wait;
        self.questions.send(Question { until, kills, answer }).await.ok()?;
        answered.await.ok()
    }
}

/// Reads what the command writes and answers questions, until nobody can ask any more.
async fn attend(
    started: Started,
    mut asked: mpsc::Receiver<Question>,
    cancel: CancellationToken,
    state: Arc<AtomicU8>,
) {
    let Started { mut running, mut capture, timeout, guard, .. } = started;
    let begun = Instant::now();
    let deadline = begun + timeout.unwrap_or(LONG);
    let mut question: Option<Question> = None;
    let mut error = None;
    let (ended, status) = loop {
        let until = question.as_ref().map_or(begun + LONG, |question| question.until);
        let is_asked = question.is_some();
        tokio::select! {
            biased;
            () = cancel.cancelled() => break (Ended::Cancelled, None),
            () = sleep_until(deadline) => break (Ended::TimedOut, None),
            next = asked.recv(), if !is_asked => match next {
                Some(mut next) => {
                    if capture.has_news() {
                        next.hurry();
                    }
                    question = Some(next);
                }
                None => break (Ended::Cancelled, None),
            },
            // Who does not wait any more takes nothing with him.
            () = gone(question.as_mut()), if is_asked => question = None,
            () = sleep_until(until), if is_asked => {
                if let Some(question) = question.take() {
                    _ = question.answer.send(piece(&mut capture, begun.elapsed(), None));
                }
            }
            step = running.step(&mut capture) => match step {
                Ok(Some(status)) => break (Ended::Exited, Some(status)),
                Ok(None) => {
                    if let Some(question) = question.as_mut() {
                        question.hurry();
                    }
                }
                Err(failed) => {
                    error = Some(failed.to_string());
                    break (Ended::Cancelled, None);
                }
            }
        }
    };
    if ended != Ended::Exited {
        running.end().await;
    }
    let left_running = running.settle(&mut capture).await;
    let mut left = if left_running.is_empty() { None } else { running.leave() };
    capture.close();
    let mut end = end(ended, status, guard);
    (end.error, end.left_running) = (error, left_running);
    let time = begun.elapsed();
    state.store(if left.is_some() { LEFT } else { ENDED }, Ordering::Relaxed);
    let mut next = question;
    loop {
        if let Some(question) = next.take().filter(|question| !question.answer.is_closed()) {
            if question.kills && left.take().is_some() {
                end.left_running.clear();
                state.store(ENDED, Ordering::Relaxed);
            }
            _ = question.answer.send(piece(&mut capture, time, Some(end.clone())));
        }
        match asked.recv().await {
            Some(asked) => next = Some(asked),
            None => return,
        }
    }
}

async fn gone(question: Option<&mut Question>) {
    if let Some(question) = question {
        question.answer.closed().await;
    }
}

fn piece(capture: &mut Capture<'_>, time: Duration, end: Option<End>) -> Piece {
    let taken = capture.take();
    let Kept { stdout, stderr, full_output, full_output_error } = taken;
    Piece { stdout, stderr, full_output, full_output_error, refused: None, end, time }
}

fn end(ended: Ended, status: Option<ExitStatus>, guard: Option<Guard>) -> End {
    let (exit_code, signal) = exit_of(status);
    let notices = guard.map(|guard| guard.after()).unwrap_or_default();
    let (error, left_running) = (None, Vec::new());
    End { ended, exit_code, signal, notices, left_running, error }
}
