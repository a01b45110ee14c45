//! MCP servers: programs that run beside the session, without the sandbox. The parent of each is a *guard*: this binary,
//! which ends the program with all of its descendants when the agent has ended, however it ended.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::event::Timespec;
use rustix::process::{
    PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, set_child_subreaper,
    set_parent_process_death_signal, setsid,
};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use super::process::end_descendants;
use super::sandbox::{can_supervise, has_children, is_readable, kill_children, sys, wait_any};
use super::{Exec, new_command};

const GUARD_ARGUMENT: &str = "__guard";
const REAP_TIME: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };
/// A guard ends everything within milliseconds; a slower one is killed after this time.
const END_TIME: Duration = Duration::from_secs(5);

/// The command line of a service.
#[derive(Clone, Debug)]
pub struct ServiceCommand {
    /// A name in PATH, or a path relative to `directory`.
    pub program: String,
    pub arguments: Vec<String>,
    /// Additions to the variables of every command, which contain no keys.
    pub environment: Vec<(String, String)>,
    pub directory: PathBuf,
}

/// A running program. A drop ends the program with all of its processes.
#[derive(Debug)]
pub struct Service {
    pub stdin: Option<ChildStdin>,
    pub stdout: Option<ChildStdout>,
    pub stderr: Option<ChildStderr>,
    guard: Child,
    /// The program runs as long as this is open.
    lifeline: Option<io::PipeWriter>,
}

impl Exec {
    /// Starts a program. Must be called in a runtime.
    pub fn start_service(&self, service: &ServiceCommand) -> io::Result<Service> {
        if !can_supervise() {
            return Err(io::Error::other("this program cannot supervise others"));
        }
        let program = self.find_program(service).ok_or_else(|| {
            let program = &service.program;
            let where_to = if program.contains('/') { "" } else { " in PATH" };
            let message = format!("there is no program {program}{where_to}");
            io::Error::new(io::ErrorKind::NotFound, message)
        })?;
        let (theirs, lifeline) = io::pipe()?;
        let theirs = OwnedFd::from(theirs);
        let mark = uuid::Uuid::now_v7().to_string();
        let variables = service.environment.iter().map(|(name, value)| (name, value));
        let mut command = new_command(Path::new("/proc/self/exe"));
        command
            .arg(GUARD_ARGUMENT)
            .arg(theirs.as_raw_fd().to_string())
            .arg(program)
            .args(&service.arguments)
            .current_dir(&service.directory)
            .env_clear()
            .envs(self.environment.variables(&mark))
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        inherit_descriptor(&mut command, theirs);
        let mut guard = command.spawn()?;
        Ok(Service {
            stdin: guard.stdin.take(),
            stdout: guard.stdout.take(),
            stderr: guard.stderr.take(),
            guard,
            lifeline: Some(lifeline),
        })
    }

    fn find_program(&self, service: &ServiceCommand) -> Option<PathBuf> {
        if service.program.contains('/') {
            let path = service.directory.join(&service.program);
            return path.is_file().then_some(path);
        }
        let own = service.environment.iter().find(|(name, _)| name == "PATH");
        let own = own.map(|(_, list)| OsStr::new(list));
        let list = own.or_else(|| self.environment.get("PATH"))?;
        let mut paths = std::env::split_paths(list).map(|folder| folder.join(&service.program));
        paths.find(|path| path.is_absolute() && path.is_file())
    }
}

/// The child also leaves the terminal and the process group of the agent.
fn inherit_descriptor(command: &mut tokio::process::Command, descriptor: OwnedFd) {
    let in_child = move || {
        setsid()?;
        rustix::io::fcntl_setfd(&descriptor, rustix::io::FdFlags::empty())?;
        Ok(())
    };
    #[expect(unsafe_code, reason = "nothing else runs between fork and exec")]
    // SAFETY: the closure makes two system calls, does not allocate and takes no lock.
    unsafe {
        command.pre_exec(in_child);
    }
}

impl Service {
    /// Waits for the end; returns the exit status, 128 + n after signal n.
    pub async fn wait_for_exit(&mut self) -> Option<i32> {
        self.guard.wait().await.ok()?.code()
    }

    /// Closes the input, and ends the program after this time if it still runs.
    pub async fn shutdown(mut self, patience: Duration) {
        self.stdin = None;
        if timeout(patience, self.guard.wait()).await.is_err() {
            self.lifeline = None;
            _ = timeout(END_TIME, self.guard.wait()).await;
        }
    }
}

pub(super) fn main() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != GUARD_ARGUMENT {
        return None;
    }
    let number: RawFd = arguments.next()?.to_str()?.parse().ok()?;
    if number < 3 || !Path::new("/proc/self/fd").join(number.to_string()).exists() {
        return Some(2);
    }
    #[expect(unsafe_code, reason = "the number of an inherited descriptor")]
    // SAFETY: the descriptor is open, as just checked, and nothing else in this process uses it.
    let lifeline = unsafe { OwnedFd::from_raw_fd(number) };
    let program = PathBuf::from(arguments.next()?);
    Some(run_guard(&lifeline, &program, arguments.collect()).unwrap_or(2))
}

fn run_guard(lifeline: &OwnedFd, program: &Path, arguments: Vec<OsString>) -> io::Result<u8> {
    rustix::io::fcntl_setfd(lifeline, rustix::io::FdFlags::CLOEXEC)?;
    let own = getpid();
    set_child_subreaper(Some(own))?;
    let Some(child) = sys::fork()? else {
        // The guard has one thread, so the signal comes when the guard ends.
        _ = set_parent_process_death_signal(Some(Signal::KILL));
        _ = setsid();
        #[expect(clippy::disallowed_methods, reason = "this module starts processes")]
        let error = std::process::Command::new(program).args(arguments).exec();
        _ = io::Write::write_all(&mut io::stderr(), format!("{error}\n").as_bytes());
        std::process::exit(127);
    };
    // The pipes close when the program closes them.
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    let watched = pidfd_open(child, PidfdFlags::empty())?;
    let mut code = None;
    while code.is_none() {
        let is_quiet = !is_readable([lifeline.as_fd(), watched.as_fd()], Some(&REAP_TIME));
        while let Ok(Some((ended, status))) = wait_any(WaitOptions::NOHANG) {
            if ended == child {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                code = Some(status.exit_status().or(signal).unwrap_or(255));
            }
        }
        if !is_quiet && code.is_none() {
            // The agent has ended, or it ends the program.
            code = Some(128 + Signal::KILL.as_raw());
        }
    }
    while has_children() {
        kill_children();
        end_descendants();
    }
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(255))
}
