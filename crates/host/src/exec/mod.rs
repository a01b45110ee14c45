//! The only module that starts processes: process groups, time limits, pipeline statuses.
//!
//! It runs one line of bash, returns when the shell has exited, and ensures that none of its processes
//! outlives the session. It does not check permissions: that was done before.

mod background;
mod capture;
mod environment;
mod foreground;
pub mod git;
mod live_output;
mod port_forwards;
mod process;
mod running_command;
pub mod sandbox;
mod self_command;
mod service;
mod status_report;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::Signal;
use tokio_util::sync::CancellationToken;

use background::BackgroundJobs;
use capture::OutputCapture;
use environment::Environment;
use live_output::LiveOutput;
use port_forwards::PortForwards;
use running_command::{RemainingProcesses, RunningCommand};
use sandbox::{Guard, Sandbox};
use status_report::StatusReport;

use agent_protocol::disk::{canonical_prefix, nofollow};
use agent_protocol::tool::CommandRights;

pub use background::{BackgroundCommand, BackgroundOutput, CommandEnd};
pub use capture::{CapturedOutput, OutputFileOpener};
pub use foreground::run_in_foreground;
pub use live_output::OutputListener;
pub use self_command::SelfCommand;
pub use service::{Service, ServiceCommand};
pub use status_report::ReportedPipelines;

/// How a command's directory is opened.
const FOLDER_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// The maximum length of an argument on Linux (`MAX_ARG_STRLEN`, including its NUL).
const MAX_ARGUMENT_BYTES: usize = 128 * 1024;

/// The note about a failed command whose connection to a service of the user's localhost may have been refused.
const PRIVATE_LOCALHOST: &str = "a connection to localhost was refused: localhost is private to this session, and \
     services of this machine are reachable only on the ports in sandbox.host_ports, which the user can set";

/// One line of bash, and how to run it.
pub struct Command<'a> {
    /// The line; it may contain line breaks.
    pub line: String,
    /// The working directory.
    pub directory: PathBuf,
    /// After this time its whole process tree is ended.
    pub timeout: Duration,
    /// Variables besides those of every command.
    pub environment: Vec<(String, String)>,
    /// Called when the output exceeds the part that is kept in memory.
    pub whole_output: Option<OutputFileOpener<'a>>,
    /// How it differs from the session's sandbox profile.
    pub rights: CommandRights,
    /// The pipelines whose statuses are reported.
    pub statuses: ReportedPipelines,
    /// Receives the latest output at intervals while it runs.
    pub watcher: Option<OutputListener<'a>>,
}

impl Command<'_> {
    /// A line to run in this directory, with default options.
    pub fn new(line: String, directory: PathBuf, timeout: Duration) -> Self {
        Self {
            line,
            directory,
            timeout,
            environment: Vec::new(),
            whole_output: None,
            rights: CommandRights::default(),
            statuses: ReportedPipelines::Last,
            watcher: None,
        }
    }
}

/// A path that commands cannot access, and the rule that denies it.
#[derive(Debug)]
struct ClosedPath {
    path: PathBuf,
    reason: String,
}

/// The result of a command.
#[derive(Debug)]
pub struct CommandOutcome {
    /// Why it ended. Exit code, signal and stages exist only if the shell exited.
    pub end_reason: EndReason,
    /// The shell's exit status: 128 + n if its last program was killed by signal n.
    pub exit_code: Option<i32>,
    /// The signal that killed the shell or, according to its status, its last program: `SIGSEGV`.
    pub signal: Option<String>,
    /// Its output on stdout.
    pub stdout: CapturedOutput,
    /// Its output on stderr.
    pub stderr: CapturedOutput,
    /// The stage statuses of the last pipeline that ran; empty if unknown. Before them, if requested, those
    /// of the pipeline before each command.
    pub statuses: Vec<Vec<i32>>,
    /// Processes that outlived the shell. They end with [`Exec::shutdown`].
    pub left_running: Vec<RemainingProcess>,
    /// The file with all output, if it exceeds the part that is kept in memory.
    pub full_output: Option<String>,
    /// Why the file is missing or incomplete.
    pub full_output_error: Option<String>,
    /// Which path or right the sandbox refused, and how to allow it.
    pub refusal: Option<String>,
    /// Changes to a repository that were reverted.
    pub notices: Vec<String>,
    /// Running time.
    pub time: Duration,
    /// Time limit.
    pub timeout: Duration,
}

impl CommandOutcome {
    /// How it ended: `exited 1`, `was ended by SIGSEGV`, `did not end within 120 s`.
    pub fn describe_end(&self) -> String {
        let code = self.exit_code.map(|code| format!("exited {code}"));
        match (self.end_reason, code, &self.signal) {
            (EndReason::TimedOut, ..) => format!("did not end within {}", seconds(self.timeout)),
            (EndReason::Cancelled, ..) => "was cancelled".to_owned(),
            (EndReason::Exited, Some(code), None) => code,
            (EndReason::Exited, Some(code), Some(signal)) => format!("{code} ({signal})"),
            (EndReason::Exited, None, Some(signal)) => format!("was ended by {signal}"),
            (EndReason::Exited, None, None) => "was ended by a signal".to_owned(),
        }
    }
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The shell exited.
    Exited,
    /// Its time limit was reached.
    TimedOut,
    /// It was cancelled; if this happened before the start, it never ran.
    Cancelled,
}

/// A process that outlived its shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemainingProcess {
    /// Its id.
    pub pid: i32,
    /// Its command line.
    pub name: String,
}

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no bash.
    #[error(
        "bash was not found in PATH (one in the project or in another folder that commands can write is \
         ignored); install it: every command needs it"
    )]
    NoBash,
    /// There is no such directory.
    #[error("{0} does not exist")]
    NoDirectory(PathBuf),
    /// A file where a directory is needed.
    #[error("{0} is not a directory")]
    NotADirectory(PathBuf),
    /// A NUL in the line.
    #[error("a command cannot contain a NUL byte")]
    NulByte,
    /// Longer than one argument may be.
    #[error("the command is too long ({0} bytes); write it to a file and run that")]
    TooLong(usize),
    /// The limit of background commands is reached.
    #[error("{0} commands run in the background already; end one of them first")]
    TooMany(usize),
    /// The directory is no longer the one that was checked.
    #[error("a symlink appeared in the path of {0}")]
    Link(PathBuf),
    /// It was cancelled before the start.
    #[error("the command was cancelled before it began")]
    Cancelled,
    /// The system could not start or monitor it.
    #[error("the command could not be run: {0}")]
    Io(#[from] io::Error),
}

/// Starts commands, and keeps track of processes that they left running.
#[derive(Debug)]
pub struct Exec {
    environment: Environment,
    bash: OnceLock<Option<PathBuf>>,
    sandbox: Option<Arc<Sandbox>>,
    remaining: Arc<Mutex<Vec<RemainingProcesses>>>,
    background: BackgroundJobs,
    forwards: PortForwards,
    closed: Mutex<Vec<ClosedPath>>,
}

/// The resources of a started command.
struct StartedCommand {
    running: RunningCommand,
    report: Option<StatusReport>,
    guard: Option<Guard>,
}

impl Exec {
    /// Commands get this process's environment without secrets and without these variables, which contain the
    /// keys in use.
    pub fn new(secret_names: &[String]) -> Self {
        Self::with_environment(std::env::vars_os(), secret_names)
    }

    /// The same with another environment.
    pub fn with_environment(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        secret_names: &[String],
    ) -> Self {
        Self {
            environment: Environment::new(variables, secret_names),
            bash: OnceLock::new(),
            sandbox: None,
            remaining: Arc::default(),
            background: BackgroundJobs::default(),
            forwards: PortForwards::default(),
            closed: Mutex::default(),
        }
    }

    /// Excludes these directories from the search for bash, whatever PATH is: a command could have created
    /// one there.
    #[must_use]
    pub fn with_excluded_folders(mut self, places: &[PathBuf]) -> Self {
        // (Only `/` contains everything.)
        let places: Vec<PathBuf> =
            places.iter().filter(|place| place.parent().is_some()).cloned().collect();
        self.bash = OnceLock::from(self.environment.find("bash", &places));
        self
    }

    /// Runs further commands in this sandbox, except those with the right to run outside.
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: Sandbox) -> Self {
        self.sandbox = Some(Arc::new(sandbox));
        self
    }

    /// Makes servers of background commands reachable on this machine's 127.0.0.1; each address is passed to
    /// `notify`.
    pub fn forward_listeners(&self, notify: impl Fn(String) + Send + Sync + 'static) {
        self.forwards.forward_listeners(Arc::new(notify));
    }

    /// Commands run in a sandbox.
    pub fn is_sandboxed(&self) -> bool {
        self.sandbox.is_some()
    }

    /// Runs a command. Returns when the shell has exited; on timeout or cancellation, or if this future is
    /// dropped, its whole process tree is ended.
    ///
    /// To be awaited on the main thread: the system ends the shell when the thread that started it ends.
    pub async fn run(
        &self,
        mut command: Command<'_>,
        cancel: &CancellationToken,
    ) -> Result<CommandOutcome, Error> {
        let begun = Instant::now();
        let watcher = command.watcher.take();
        let mut capture =
            OutputCapture::new(command.whole_output.take(), watcher.map(LiveOutput::new));
        let (directory, timeout, rights) =
            (command.directory.clone(), command.timeout, command.rights);
        let private_localhost =
            self.sandbox_of(rights).filter(|it| it.has_private_localhost(rights));
        let refused_before = private_localhost.map_or(0, Sandbox::refused_connections);
        let Some(started) = cancel.run_until_cancelled(self.start_command(command)).await else {
            return Ok(outcome(EndReason::Cancelled, None, capture, begun));
        };
        let StartedCommand { mut running, report, guard } = started?;
        let (ended, status) = running.read_until_end(&mut capture, timeout, cancel).await?;
        let left = running.drain_output(&mut capture).await;
        let mut outcome = outcome(ended, status, capture, begun);
        if let (Some(report), EndReason::Exited) = (report, ended) {
            outcome.statuses = report.statuses(running.shell_pid());
        }
        if !left.is_empty() {
            let mut others = self.lock_remaining();
            others.retain_mut(|other| !other.has_ended());
            others.extend(running.into_remaining());
            drop(others);
        }
        outcome.left_running = left;
        outcome.timeout = timeout;
        outcome.notices = guard.map(|guard| guard.revert_changes()).unwrap_or_default();
        let sandbox = self.sandbox_of(rights);
        outcome.notices.extend(sandbox.and_then(|sandbox| sandbox.notice_of_temporary_files()));
        let refused = private_localhost.map_or(0, Sandbox::refused_connections);
        if refused > refused_before && outcome.exit_code != Some(0) {
            outcome.notices.push(PRIVATE_LOCALHOST.to_owned());
        }
        outcome.refusal = self.explain_refusal(&outcome.stderr.text, &directory, rights);
        Ok(outcome)
    }

    /// The sandbox of a command with these rights.
    fn sandbox_of(&self, rights: CommandRights) -> Option<&Sandbox> {
        self.sandbox.as_deref().filter(|_| !rights.unsandboxed)
    }

    /// Which path or right the sandbox refused to a command with this error output, and how to allow it.
    fn explain_refusal(
        &self,
        stderr: &str,
        directory: &Path,
        rights: CommandRights,
    ) -> Option<String> {
        let sandbox = self.sandbox_of(rights)?;
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        sandbox.explain_refusal(stderr, directory, rights, &closed)
    }

    /// Starts a command and returns; [`Exec::read_output`] reads its output by id. Without a `timeout` its time is
    /// not limited.
    ///
    /// To be awaited on the main thread, like [`Exec::run`].
    pub async fn start_background(
        &self,
        mut command: Command<'static>,
        timeout: Option<Duration>,
        cancel: &CancellationToken,
    ) -> Result<String, Error> {
        if self.background.is_full() {
            return Err(Error::TooMany(background::MAX_JOBS));
        }
        let capture = OutputCapture::new_keeping_all(command.whole_output.take());
        let place = (command.directory.clone(), command.rights);
        let line = command.line.clone();
        let started = cancel.run_until_cancelled(self.start_command(command)).await;
        let StartedCommand { running, guard, .. } = started.ok_or(Error::Cancelled)??;
        if let Some(sandbox) = &self.sandbox {
            self.forwards.watch_listeners(sandbox);
        }
        let started = background::NewJob {
            running,
            capture,
            timeout,
            guard,
            line,
            directory_and_rights: place,
        };
        Ok(self.background.add(started))
    }

    /// The output of a background command since the last call; waits this long for output or the end. `None`:
    /// there is no such command.
    pub async fn read_output(&self, id: &str, wait: Duration) -> Option<BackgroundOutput> {
        let (directory, rights) = self.background.directory_and_rights(id)?;
        let mut piece = self.background.output(id, wait).await?;
        piece.refusal = self.explain_refusal(&piece.stderr.text, &directory, rights);
        Some(piece)
    }

    /// Ends a background command with all of its processes.
    pub async fn kill_background(&self, id: &str) -> Option<BackgroundOutput> {
        self.background.kill(id).await
    }

    /// Hides these paths from further commands, or makes them read-only, if they exist. Without a sandbox
    /// this has no effect. Each path comes with the rule that denies it.
    pub fn close_paths(&self, hidden: Vec<(PathBuf, String)>, read_only: Vec<(PathBuf, String)>) {
        let Some(sandbox) = &self.sandbox else { return };
        let paths = |all: &[(PathBuf, String)]| -> Vec<PathBuf> {
            all.iter().map(|(path, _)| path.clone()).collect()
        };
        sandbox.close_paths(&paths(&hidden), &paths(&read_only));
        let closed = hidden.into_iter().chain(read_only);
        let closed =
            closed.map(|(path, reason)| ClosedPath { path: canonical_prefix(&path), reason });
        *self.closed.lock().unwrap_or_else(PoisonError::into_inner) = closed.collect();
    }

    /// The background command of this id, or a process that it left, is still running.
    pub fn is_background_running(&self, id: &str) -> bool {
        self.background.is_running(id)
    }

    /// What runs without being waited for: background commands, the oldest first, and processes that other commands
    /// left.
    pub fn running_commands(&self) -> Vec<BackgroundCommand> {
        let mut running = self.background.running_commands();
        let mut left = self.lock_remaining();
        running.extend(left.iter_mut().flat_map(RemainingProcesses::running_processes).map(
            |process| BackgroundCommand {
                id: process.pid.to_string(),
                line: process.name,
                time: None,
            },
        ));
        running
    }

    /// Passes the running background commands to `notify` whenever one starts or ends.
    pub fn watch_background(
        &self,
        notify: impl Fn(Vec<BackgroundCommand>) + Send + Sync + 'static,
    ) {
        self.background.watch(Box::new(notify));
    }

    /// Ends what [`Exec::running_commands`] lists under this id; false if there is no such thing. The output of a background
    /// command can still be read. With a process that a command left, its other processes end.
    pub async fn stop(&self, id: &str) -> bool {
        let is_it = |process: &RemainingProcess| process.pid.to_string() == id;
        let of_command = self
            .lock_remaining()
            .extract_if(.., |left| left.running_processes().iter().any(is_it))
            .next();
        of_command.is_some() || self.background.stop(id).await
    }

    /// The ids of the background commands, including ended ones.
    pub fn background_ids(&self) -> Vec<String> {
        self.background.ids()
    }

    /// Ends all remaining processes of commands, and all background commands.
    pub fn shutdown(&self) {
        self.forwards.shutdown();
        drop(self.background.shutdown());
        let left = std::mem::take(&mut *self.lock_remaining());
        drop(left);
    }

    /// The same; returns when they have ended.
    pub async fn shutdown_and_wait(&self) {
        let mut tasks = self.background.shutdown();
        while tasks.join_next().await.is_some() {}
        self.shutdown();
    }

    fn lock_remaining(&self) -> MutexGuard<'_, Vec<RemainingProcesses>> {
        self.remaining.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn start_command(&self, wanted: Command<'_>) -> Result<StartedCommand, Error> {
        let (line, directory) = (&wanted.line, &wanted.directory);
        let bash = self.bash.get_or_init(|| self.environment.find("bash", &[]));
        let bash = bash.as_ref().ok_or(Error::NoBash)?;
        if line.contains('\0') {
            return Err(Error::NulByte);
        }
        let folder = nofollow::open(directory, FOLDER_FLAGS).map_err(|error| match error {
            Errno::NOENT => Error::NoDirectory(directory.to_owned()),
            Errno::NOTDIR => Error::NotADirectory(directory.to_owned()),
            Errno::LOOP => Error::Link(directory.to_owned()),
            _ => Error::Io(error.into()),
        })?;
        if line.len() >= MAX_ARGUMENT_BYTES {
            return Err(Error::TooLong(line.len()));
        }
        let report = StatusReport::new(wanted.statuses).ok();
        let mark = uuid::Uuid::now_v7().to_string();
        let words = ["--noprofile", "--norc", "-c", "--", line];
        let mut variables = self.environment.variables(&mark);
        let sandbox = self.sandbox.as_ref().filter(|_| !wanted.rights.unsandboxed);
        if let Some(sandbox) = sandbox {
            sandbox.prepare().await.map_err(sandbox_error)?;
            self.forwards.open_host_ports(sandbox).map_err(sandbox_error)?;
            variables.extend(sandbox.variables());
        }
        let wanted_ones = wanted.environment.iter();
        variables.extend(wanted_ones.map(|(name, value)| (name.into(), value.into())));
        if let Some(report) = &report {
            variables.push(("BASH_ENV".into(), report.path().into()));
        }
        if let Some(sandbox) = sandbox {
            let run = sandbox::ProgramInvocation {
                program: bash.into(),
                words: words.map(str::to_owned).into(),
                variables,
                directory: directory.into(),
                report: report.as_ref().map(StatusReport::descriptor_number),
            };
            let descriptor = report.as_ref().map(StatusReport::descriptor);
            let descriptor = descriptor.as_ref().map(|report| report.as_fd());
            let guard = (!wanted.rights.read_only).then(|| sandbox.capture_git_state());
            let started = sandbox.start(run, wanted.rights, descriptor).await;
            let (supervisor, stdout, stderr) = started.map_err(sandbox_error)?;
            let running = RunningCommand::from_supervisor(supervisor, mark, stdout, stderr)?;
            return Ok(StartedCommand { running, report, guard });
        }
        let mut command = new_command(bash);
        command
            .args(words)
            .env_clear()
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        start_in_new_session(&mut command, folder, report.as_ref().map(StatusReport::descriptor));
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::ArgumentListTooLong => Error::TooLong(line.len()),
            _ => Error::Io(error),
        })?;
        Ok(StartedCommand { running: RunningCommand::from_child(child, mark), report, guard: None })
    }
}

fn new_command(program: &Path) -> tokio::process::Command {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
    tokio::process::Command::new(program)
}

/// Prepares the child before it executes its program: changes the directory, starts a new session, sets a
/// signal for the death of its parent, and passes on the report's descriptor. (A supervisor starts its own
/// session and watches its channel, which closes with this process, not with a thread.)
fn start_in_new_session(
    command: &mut tokio::process::Command,
    folder: OwnedFd,
    report: Option<Arc<OwnedFd>>,
) {
    let parent = rustix::process::getpid();
    let in_child = move || {
        rustix::process::fchdir(&folder)?;
        // A new session: no terminal for prompts, and a process group that can be ended as a whole.
        rustix::process::setsid()?;
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        if rustix::process::getppid() != Some(parent) {
            return Err(io::Error::other("the agent ended"));
        }
        if let Some(report) = &report {
            rustix::io::fcntl_setfd(report, rustix::io::FdFlags::empty())?;
        }
        Ok(())
    };
    #[expect(unsafe_code, reason = "nothing else runs between fork and exec")]
    // SAFETY: the closure makes a few system calls and does not allocate (except for an `io::Error` on
    // failure, after which the child ends); it takes no lock.
    unsafe {
        command.pre_exec(in_child);
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        self.shutdown();
    }
}

/// Setting up the sandbox failed.
#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn sandbox_error(error: io::Error) -> Error {
    let message = format!("the sandbox could not be set up: {error}");
    Error::Io(io::Error::new(error.kind(), message))
}

/// `0.25 s`, `120 s`.
pub fn seconds(time: Duration) -> String {
    // Truncated for display.
    let time = Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX) / 10 * 10);
    match time.as_secs() {
        0..10 => format!("{} s", time.as_secs_f64()),
        whole => format!("{whole} s"),
    }
}

fn outcome(
    ended: EndReason,
    status: Option<ExitStatus>,
    capture: OutputCapture<'_>,
    begun: Instant,
) -> CommandOutcome {
    let kept = capture.finish();
    let (exit_code, signal) = exit_code_and_signal(status);
    CommandOutcome {
        end_reason: ended,
        exit_code,
        signal,
        stdout: kept.stdout,
        stderr: kept.stderr,
        statuses: Vec::new(),
        left_running: Vec::new(),
        full_output: kept.full_output,
        full_output_error: kept.full_output_error,
        refusal: None,
        notices: Vec::new(),
        time: begun.elapsed(),
        timeout: Duration::ZERO,
    }
}

/// The exit status, and the signal that killed the shell or, according to its status, its last program.
fn exit_code_and_signal(status: Option<ExitStatus>) -> (Option<i32>, Option<String>) {
    let exit_code = status.and_then(|status| status.code());
    let signal = status.and_then(|status| match (status.signal(), status.code()) {
        (Some(signal), _) => Some(signal),
        (None, Some(code)) if code > 128 => Some(code - 128),
        (None, _) => None,
    });
    (exit_code, signal.and_then(process::signal_name))
}
