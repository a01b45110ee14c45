//! The stand-by: this binary, started with the first command of a session. The supervisor of each command is forked from
//! it, which is much faster than starting a program of this size.
//!
//! It has one thread and almost no environment. The agent sends a byte with descriptors and receives the process id of the
//! fork; then it sends the fork its plan. A fork without a plan ends and has run nothing, so a stand-by that fails before
//! that can be replaced.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{DumpableBehavior, chdir, set_dumpable_behavior, setsid};

use super::super::process::{Watcher, is_stopped};
use super::{supervisor, sys};
use crate::disk;

/// How long a fork may take. The first one includes the start of the program.
const FORK_TIME: Duration = Duration::from_secs(5);
/// How often the stand-by is checked meanwhile: one that was stopped by a signal is replaced at once.
const CHECK_TIME: Duration = Duration::from_millis(200);
/// How long a killed stand-by may take to end.
const END_TIME: Duration = Duration::from_millis(50);
/// Where the dynamic linker looks first. Directories that commands can write are removed from it: the stand-by runs
/// outside the sandbox.
const LIBRARIES: &str = "LD_LIBRARY_PATH";

/// The agent's end. It is returned with the answer to a request; one that failed is killed.
#[derive(Debug)]
pub(super) struct Standby {
    process: Child,
    control: UnixStream,
}

/// A request for a fork, with the agent's end of the fork's channel.
pub(super) struct Request<'a> {
    standby: Standby,
    channel: UnixStream,
    descriptors: &'a [BorrowedFd<'a>],
    /// The directories that commands can write.
    writable: &'a [PathBuf],
    since: Instant,
    /// The stand-by was started for this request.
    is_new: bool,
}

impl Standby {
    /// Starts one whose libraries lie in none of these directories.
    fn start(writable: &[PathBuf]) -> io::Result<Self> {
        let libraries = std::env::var_os(LIBRARIES);
        let libraries = libraries.and_then(|list| disk::without_places(&list, writable));
        let (control, theirs) = UnixStream::pair()?;
        // One that does not read its requests is replaced.
        control.set_nonblocking(true)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it runs nothing but supervisors, and ends with this process"
        )]
        // The file of this process, even if its path has changed.
        let mut command = std::process::Command::new("/proc/self/exe");
        command
            .arg(supervisor::WORD)
            .env_clear()
            .envs(libraries.map(|list| (LIBRARIES, list)))
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Self { process: command.spawn()?, control })
    }

    /// The fork, if it exists by now.
    fn fork(&self) -> io::Result<Option<Watcher>> {
        if is_stopped(self.process.id()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut answer = [0; size_of::<i32>()];
        match (&self.control).read_exact(&mut answer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            read => read?,
        }
        let pid = i32::from_le_bytes(answer);
        if pid <= 0 {
            return Err(io::Error::from_raw_os_error(-pid));
        }
        Watcher::new(pid).map(Some)
    }
}

impl<'a> Request<'a> {
    /// Sends a request to this stand-by, or to a new one.
    pub(super) fn new(
        standby: Option<Standby>,
        descriptors: &'a [BorrowedFd<'a>],
        writable: &'a [PathBuf],
    ) -> io::Result<Self> {
        let (is_new, standby) = match standby {
            Some(standby) => (false, standby),
            None => (true, Standby::start(writable)?),
        };
        // The channel is new each time: a fork that comes too late receives nothing.
        let (channel, theirs) = UnixStream::pair()?;
        let all: Vec<_> =
            std::iter::once(theirs.as_fd()).chain(descriptors.iter().copied()).collect();
        match sys::send(&standby.control, b"+", &all) {
            Err(_) if !is_new => Self::new(None, descriptors, writable),
            sent => sent.map(|()| Self {
                standby,
                channel,
                descriptors,
                writable,
                since: Instant::now(),
                is_new,
            }),
        }
    }

    /// Waits for the fork: the stand-by, the fork's channel and the fork. A stand-by that fails is replaced once. If this
    /// future is dropped, nothing has run.
    pub(super) async fn answer(mut self) -> io::Result<(Standby, UnixStream, Watcher)> {
        loop {
            match self.standby.fork() {
                Ok(Some(fork)) => return Ok((self.standby, self.channel, fork)),
                Ok(None) if self.since.elapsed() < FORK_TIME => {
                    let control = self.standby.control.try_clone()?;
                    let control = tokio::net::UnixStream::from_std(control)?;
                    _ = tokio::time::timeout(CHECK_TIME, control.readable()).await;
                }
                Ok(None) | Err(_) if !self.is_new => {
                    self = Self::new(None, self.descriptors, self.writable)?;
                }
                failed => return Err(failed.err().unwrap_or(io::ErrorKind::TimedOut.into())),
            }
        }
    }
}

impl Drop for Standby {
    fn drop(&mut self) {
        // Its forks run without it.
        _ = self.process.kill();
        // One that hangs in the kernel is left to its next parent.
        _ = Watcher::new(self.process.id().cast_signed()).map(|it| it.ends_within(END_TIME));
        _ = self.process.try_wait();
    }
}

/// Waits for requests until the agent has ended: `None`. In each fork it returns the descriptors of the request.
pub(super) fn stand_by() -> io::Result<Option<Vec<OwnedFd>>> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    // Away from the agent's terminal and process group: their signals are not for commands.
    _ = setsid();
    // It keeps no directory busy.
    chdir("/")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    sys::forget_children(true)?;
    while let (1.., descriptors) = sys::receive(&control, &mut [0])? {
        let answer = match sys::fork() {
            Ok(None) => {
                sys::forget_children(false)?;
                return Ok(Some(descriptors));
            }
            Ok(Some(fork)) => fork.as_raw_pid(),
            Err(error) => -error.raw_os_error().unwrap_or(libc::EAGAIN),
        };
        (&control).write_all(&answer.to_le_bytes())?;
    }
    Ok(None)
}
