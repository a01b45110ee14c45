//! The only module that starts processes: one line of bash in a process group, with a time limit.

mod background;
mod capture;
mod environment;
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

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
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
use sandbox::Sandbox;
use status_report::StatusReport;

use crate::git_guard::{ContentKeeper, GitGuard, GuardReport};
use agent_protocol::disk::nofollow;
use agent_protocol::tool::CommandRights;

pub use background::{BackgroundCommand, BackgroundOutput, CommandEnd};
pub use capture::{CapturedOutput, OutputFileOpener};
pub use live_output::OutputListener;
pub use self_command::{SelfCommand, start_detached};
pub use service::{Service, ServiceCommand};

const FOLDER_FLAGS: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
/// The maximum length of an argument on Linux (`MAX_ARG_STRLEN`, including its NUL).
const MAX_ARGUMENT_BYTES: usize = 128 * 1024;

/// For a failed command: the connection may have been to a service of the user's localhost.
const PRIVATE_LOCALHOST: &str = "a connection to localhost was refused: localhost is private to this session, and \
     services of this machine are reachable only on the ports in sandbox.host_ports, which the user can set";

/// A line of bash with its options.
pub struct Command<'a> {
    /// May contain line breaks.
    pub line: String,
    pub directory: PathBuf,
    /// When this time is over, the whole process tree is ended.
    pub timeout: Duration,
    /// Additions to the variables of every command.
    pub environment: Vec<(String, String)>,
    /// Called when the output exceeds the part in memory.
    pub whole_output: Option<OutputFileOpener<'a>>,
    pub rights: CommandRights,
    /// The statuses of each pipeline are reported, not only those of the last one.
    pub reports_each_status: bool,
    pub watcher: Option<OutputListener<'a>>,
}

impl Command<'_> {
    /// A line in this directory, with default options.
    pub fn new(line: String, directory: PathBuf, timeout: Duration) -> Self {
        Self {
            line,
            directory,
            timeout,
            environment: Vec::new(),
            whole_output: None,
            rights: CommandRights::default(),
            reports_each_status: false,
            watcher: None,
        }
    }
}

/// The result of a command.
#[derive(Debug, Default)]
pub struct CommandOutcome {
    /// Exit code, signal and stages exist only for [`EndReason::Exited`].
    pub end_reason: EndReason,
    /// The shell's exit status: 128 + n if its last program was killed by signal n.
    pub exit_code: Option<i32>,
    /// The signal that killed the shell or, according to its status, the last program: `SIGSEGV`.
    pub signal: Option<String>,
    pub stdout: CapturedOutput,
    pub stderr: CapturedOutput,
    /// Exit statuses of the stages of the last pipeline, after those of earlier ones if requested; empty if unknown.
    pub statuses: Vec<Vec<i32>>,
    /// Processes that outlived the shell. They end with [`Exec::shutdown`].
    pub left_running: Vec<RemainingProcess>,
    /// The file with all output, if the output exceeds the part in memory.
    pub full_output: Option<String>,
    pub full_output_error: Option<String>,
    /// Which path or right the sandbox refused, and how to allow it.
    pub refusal: Option<String>,
    pub notices: Vec<String>,
    /// Changes of git's state that are not allowed and could not be reverted.
    pub unreverted: Vec<String>,
    pub time: Duration,
    pub timeout: Duration,
}

impl CommandOutcome {
    /// The end as text: `exited 1`, `was ended by SIGSEGV`, `did not end within 120 s`.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndReason {
    #[default]
    Exited,
    TimedOut,
    /// A command that is cancelled before its start never runs.
    Cancelled,
}

/// A process that outlived its shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemainingProcess {
    pub pid: i32,
    pub name: String,
}

/// Why a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "bash was not found in PATH (one in the project or in another folder that commands can write is \
         ignored); install it: every command needs it"
    )]
    NoBash,
    #[error("{0} does not exist")]
    NoDirectory(PathBuf),
    #[error("{0} is not a directory")]
    NotADirectory(PathBuf),
    #[error("a command cannot contain a NUL byte")]
    NulByte,
    #[error("the command is too long ({0} bytes); write it to a file and run that")]
    TooLong(usize),
    #[error("{0} commands run in the background already; end one of them first")]
    TooMany(usize),
    /// The directory is no longer the checked one.
    #[error("a symlink appeared in the path of {0}")]
    Link(PathBuf),
    #[error("the command was cancelled before it began")]
    Cancelled,
    #[error("the command could not be run: {0}")]
    Io(#[from] io::Error),
}

/// Starts commands, and keeps track of their remaining processes.
#[derive(Debug)]
pub struct Exec {
    environment: Environment,
    bash: OnceLock<Option<PathBuf>>,
    sandbox: Option<Arc<Sandbox>>,
    git_guard: Option<Arc<GitGuard>>,
    remaining: Mutex<Vec<RemainingProcesses>>,
    background: Arc<BackgroundJobs>,
    forwards: PortForwards,
}

struct StartedCommand {
    running: RunningCommand,
    report: Option<StatusReport>,
    comparison: Option<GitComparison>,
}

/// The comparison of git's state around one command, or around the write of a file.
pub struct GitComparison {
    guard: Arc<GitGuard>,
    rights: CommandRights,
    /// Where repositories may appear; `None`: anywhere.
    nested: Option<BTreeSet<PathBuf>>,
    is_finished: bool,
}

impl GitComparison {
    /// Reverts what changed and may not. `has_left`: processes of the command still run.
    pub fn finish(mut self, has_left: bool) -> GuardReport {
        self.is_finished = true;
        self.guard.finish(self.rights, has_left, self.nested.take())
    }
}

impl Drop for GitComparison {
    /// The command was abandoned: its processes are ended by their own drop.
    fn drop(&mut self) {
        if !self.is_finished {
            self.guard.abandon();
        }
    }
}

impl Exec {
    /// Commands get the environment of this process without secrets and without these variables, which contain keys.
    pub fn new(secret_names: &[String]) -> Self {
        Self::with_environment(std::env::vars_os(), secret_names)
    }

    /// Like [`Exec::new`], with another environment.
    pub fn with_environment(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        secret_names: &[String],
    ) -> Self {
        Self {
            environment: Environment::new(variables, secret_names),
            bash: OnceLock::new(),
            sandbox: None,
            git_guard: None,
            remaining: Mutex::default(),
            background: Arc::default(),
            forwards: PortForwards::default(),
        }
    }

    /// Does not search bash in these directories, even if PATH contains them: a command could have created one there.
    #[must_use]
    pub fn with_excluded_folders(mut self, places: &[PathBuf]) -> Self {
        // Only `/` contains everything.
        let places: Vec<PathBuf> =
            places.iter().filter(|place| place.parent().is_some()).cloned().collect();
        self.bash = OnceLock::from(self.environment.find("bash", &places));
        self
    }

    /// Further commands run in this sandbox, except those with the right to run outside. What they change in git's state
    /// and may not is reverted; `keep` stores it.
    #[must_use]
    pub fn with_sandbox(mut self, sandbox: Sandbox, keep: ContentKeeper) -> Self {
        self.git_guard = Some(Arc::new(sandbox.git_guard(keep)));
        self.sandbox = Some(Arc::new(sandbox));
        self
    }

    /// Whether commands run in a sandbox.
    pub fn is_sandboxed(&self) -> bool {
        self.sandbox.is_some()
    }

    /// Returns when the shell has exited. On timeout or cancellation, or if this future is dropped, the whole
    /// process tree is ended.
    ///
    /// Must be awaited on the main thread: the system ends the shell when the thread that started it ends.
    pub async fn run(
        &self,
        mut command: Command<'_>,
        cancel: &CancellationToken,
    ) -> Result<CommandOutcome, Error> {
        let begun = Instant::now();
        let live = command.watcher.take().map(LiveOutput::new);
        let mut capture = OutputCapture::new(command.whole_output.take(), live);
        let directory = command.directory.clone();
        let (timeout, rights) = (command.timeout, command.rights);
        if rights.unsandboxed {
            self.add_reader(&command.line);
        }
        let sandbox = self.sandbox_of(rights);
        let private_localhost = sandbox.filter(|sandbox| sandbox.has_private_localhost(rights));
        let refused_before = private_localhost.map_or(0, Sandbox::refused_connections);
        let Some(started) = cancel.run_until_cancelled(self.start_command(command)).await else {
            return Ok(outcome(EndReason::Cancelled, None, capture, begun));
        };
        let StartedCommand { mut running, report, comparison } = started?;
        let (ended, status) = running.read_until_end(&mut capture, timeout, cancel).await?;
        let left = running.drain_output(&mut capture).await;
        let mut outcome = outcome(ended, status, capture, begun);
        if let (Some(report), EndReason::Exited) = (report, ended) {
            outcome.statuses = report.statuses(running.shell_pid);
        }
        if left.is_empty() {
            // What ran unseen ends before the comparison.
            drop(running);
        } else {
            let mut others = self.remaining.lock();
            others.retain_mut(RemainingProcesses::is_running);
            others.extend(running.into_remaining());
            drop(others);
        }
        outcome.left_running = left;
        outcome.timeout = timeout;
        let has_left = !outcome.left_running.is_empty();
        let compared = comparison.map(|it| it.finish(has_left)).unwrap_or_default();
        (outcome.notices, outcome.unreverted) = (compared.notices, compared.failures);
        let all = self.sandbox.as_deref();
        outcome.notices.extend(all.and_then(|all| all.notice_of_temporary_files()));
        let refused = private_localhost.map_or(0, Sandbox::refused_connections);
        if refused > refused_before && outcome.exit_code != Some(0) {
            outcome.notices.push(PRIVATE_LOCALHOST.to_owned());
        }
        let stderr = &outcome.stderr.text;
        outcome.refusal =
            sandbox.and_then(|sandbox| sandbox.explain_refusal(stderr, &directory, rights));
        Ok(outcome)
    }

    fn sandbox_of(&self, rights: CommandRights) -> Option<&Sandbox> {
        self.sandbox.as_deref().filter(|_| !rights.unsandboxed)
    }

    /// A message of the user, or a command outside the sandbox: it may name files that exist only in the sandbox.
    pub fn add_reader(&self, text: &str) {
        _ = self.sandbox.as_ref().map(|sandbox| sandbox.add_reader(text));
    }

    /// Hides paths from further commands, or makes them read-only; each comes with the rule that denies it.
    pub fn close_paths(&self, hidden: Vec<(PathBuf, String)>, read_only: Vec<(PathBuf, String)>) {
        if let Some(sandbox) = &self.sandbox {
            sandbox.close_paths(hidden, read_only);
        }
    }

    /// Background commands, the oldest first, and processes that other commands left.
    pub fn running_commands(&self) -> Vec<BackgroundCommand> {
        let mut running = self.background.running_commands();
        let mut others = self.remaining.lock();
        let left = others.iter_mut().flat_map(RemainingProcesses::running_processes);
        running.extend(left.map(|process| {
            let id = process.pid.to_string();
            BackgroundCommand { id, line: process.name, time: None, last_output: String::new() }
        }));
        running
    }

    /// Ends an entry of [`Exec::running_commands`]; false if there is none with this id. The output of a background
    /// command stays readable. For a process that a command left, the other processes of the command end too.
    pub async fn stop(&self, id: &str) -> bool {
        let has_id = |process: &RemainingProcess| process.pid.to_string() == id;
        let of_command = self
            .remaining
            .lock()
            .extract_if(.., |left| left.running_processes().iter().any(has_id))
            .next();
        of_command.is_some() || self.background.stop(id).await
    }

    /// Ends all remaining processes of commands, and all background commands.
    pub fn shutdown(&self) {
        self.forwards.shutdown();
        drop(self.background.shutdown());
        let left = std::mem::take(&mut *self.remaining.lock());
        drop(left);
    }

    /// Like [`Exec::shutdown`]; returns when all processes have ended.
    pub async fn shutdown_and_wait(&self) {
        let mut tasks = self.background.shutdown();
        while tasks.join_next().await.is_some() {}
        self.shutdown();
    }

    /// Guards the repositories of the session; `None` without a sandbox.
    pub fn git_guard(&self) -> Option<&Arc<GitGuard>> {
        self.git_guard.as_ref()
    }

    /// Records git's state before a file is written; `None` without a sandbox. Blocks.
    pub fn begin_git_comparison(&self, file: &Path) -> Option<GitComparison> {
        let nested = self.git_guard.as_ref()?.folders_above(file);
        self.begin_comparison(CommandRights::default(), Vec::new(), Some(nested))
    }

    fn begin_command(&self, sandbox: &Sandbox, rights: CommandRights) -> Option<GitComparison> {
        let mounts = sandbox.read_only_mounts(rights);
        // All that it could change is the mode of a file.
        let nested = rights.read_only.then(BTreeSet::new);
        let is_harmless = rights.read_only && !mounts.is_empty();
        if is_harmless { None } else { self.begin_comparison(rights, mounts, nested) }
    }

    fn begin_comparison(
        &self,
        rights: CommandRights,
        mounts: Vec<PathBuf>,
        nested: Option<BTreeSet<PathBuf>>,
    ) -> Option<GitComparison> {
        let guard = self.git_guard.clone()?;
        let has_left = self.remaining.lock().iter_mut().any(RemainingProcesses::is_running)
            || !self.background.running_commands().is_empty();
        guard.begin(mounts, has_left, nested.as_ref());
        Some(GitComparison { guard, rights, nested, is_finished: false })
    }

    async fn start_command(&self, command: Command<'_>) -> Result<StartedCommand, Error> {
        let (line, directory) = (&command.line, &command.directory);
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
        let report = StatusReport::new(command.reports_each_status).ok();
        let mark = uuid::Uuid::now_v7().to_string();
        let words = ["--noprofile", "--norc", "-c", "--", line];
        let mut variables = self.environment.variables(&mark);
        let sandbox = self.sandbox_of(command.rights);
        if let Some(sandbox) = sandbox {
            sandbox.prepare().await.map_err(sandbox_error)?;
            self.forwards.open_host_ports(sandbox).map_err(sandbox_error)?;
            variables.extend(sandbox.variables());
        }
        let additions = command.environment.iter();
        variables.extend(additions.map(|(name, value)| (name.into(), value.into())));
        if let Some(report) = &report {
            let path = format!("/dev/fd/{}", report.file.as_raw_fd());
            variables.push(("BASH_ENV".into(), path.into()));
        }
        if let Some(sandbox) = sandbox {
            let run = sandbox::ProgramInvocation {
                program: bash.into(),
                words: words.map(str::to_owned).into(),
                variables,
                directory: directory.into(),
                report: report.as_ref().map(|report| report.file.as_raw_fd()),
            };
            let descriptor = report.as_ref().map(|report| report.file.as_fd());
            let comparison = self.begin_command(sandbox, command.rights);
            let started = sandbox.start(run, command.rights, descriptor).await;
            let (supervisor, stdout, stderr) = started.map_err(sandbox_error)?;
            let running = RunningCommand::from_supervisor(supervisor, mark, stdout, stderr)?;
            return Ok(StartedCommand { running, report, comparison });
        }
        let mut process = new_command(bash);
        process
            .args(words)
            .env_clear()
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let descriptor = report.as_ref().map(|report| Arc::clone(&report.file));
        start_in_new_session(&mut process, folder, descriptor);
        let child = process.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::ArgumentListTooLong => Error::TooLong(line.len()),
            _ => Error::Io(error),
        })?;
        Ok(StartedCommand {
            running: RunningCommand::from_child(child, mark),
            report,
            comparison: None,
        })
    }
}

fn new_command(program: &Path) -> tokio::process::Command {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
    tokio::process::Command::new(program)
}

/// Runs a program (with options: `code --wait`) on the file, with the user's terminal and this environment.
pub async fn run_in_foreground(
    program: &str,
    file: &Path,
    directory: &Path,
    environment: Vec<(OsString, OsString)>,
) -> io::Result<ExitStatus> {
    let line = format!("exec {program} \"$1\"");
    let mut command = new_command(Path::new("/bin/sh"));
    command.arg("-c").arg(line).arg("sh").arg(file).current_dir(directory);
    command.env_clear().envs(environment).kill_on_drop(true).status().await
}

/// The signal for the death of its parent ends the child. A supervisor instead watches its channel, which closes with
/// this process, not with a thread.
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

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
fn sandbox_error(error: io::Error) -> Error {
    let message = format!("the sandbox could not be set up: {error}");
    Error::Io(io::Error::new(error.kind(), message))
}

/// Formats a duration: `0.25 s`, `120 s`.
pub fn seconds(time: Duration) -> String {
    // The rest is truncated.
    let time = Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX) / 10 * 10);
    match time.as_secs() {
        0..10 => format!("{} s", time.as_secs_f64()),
        whole => format!("{whole} s"),
    }
}

fn outcome(
    ended: EndReason,
    status: Option<ExitStatus>,
    mut capture: OutputCapture<'_>,
    begun: Instant,
) -> CommandOutcome {
    let kept = capture.take();
    let (exit_code, signal) = exit_code_and_signal(status);
    CommandOutcome {
        end_reason: ended,
        exit_code,
        signal,
        stdout: kept.stdout,
        stderr: kept.stderr,
        full_output: kept.full_output,
        full_output_error: kept.full_output_error,
        time: begun.elapsed(),
        ..CommandOutcome::default()
    }
}

fn exit_code_and_signal(status: Option<ExitStatus>) -> (Option<i32>, Option<String>) {
    let Some(status) = status else { return (None, None) };
    let signal = status.signal().or_else(|| Some(status.code()? - 128));
    let signal = signal.and_then(|it| nix::sys::signal::Signal::try_from(it).ok());
    (status.code(), signal.map(|it| it.as_str().to_owned()))
}
