//! The stand-by: this binary, started with the first command of a session. The supervisor of each command is forked from
//! it, which is much faster than starting a program of this size.
//!
//! It has one thread and almost no environment. The agent sends a byte with descriptors and receives the process id of the
//! fork; then it sends the fork its plan. A fork without a plan ends and has run nothing, so a stand-by that fails before
//! that can be replaced.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{DumpableBehavior, chdir, set_dumpable_behavior, setsid};

use super::super::inheriting;
use super::super::process::{Watcher, is_stopped};
use super::{supervisor, sys};
use crate::disk;

/// How long a fork may take. The first one includes the start of the program.
const FORK_TIME: Duration = Duration::from_secs(5);
/// How often the stand-by is checked meanwhile: one that was stopped by a signal is replaced at once.
const CHECK_TIME: Duration = Duration::from_millis(200);
const LATE: &str = "the sandbox's stand-by did not answer in time";
const ENDED: &str = "the sandbox's stand-by ended";
/// How long a killed stand-by may take to end.
const END_TIME: Duration = Duration::from_millis(50);
/// Where the dynamic linker looks first. Directories that commands can write are removed from it: the stand-by runs
/// outside the sandbox.
const LIBRARIES: &str = "LD_LIBRARY_PATH";
/// The descriptors of one fork: its channel, two for output, the report, two namespaces.
const MOST_DESCRIPTORS: usize = 6;

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
    given: &'a [BorrowedFd<'a>],
    /// The directories that commands can write.
    places: &'a [PathBuf],
    since: Instant,
    /// The stand-by is a replacement.
    is_second: bool,
}

/// The stand-by, and a fork of it that waits for its plan on this channel.
pub(super) type Answer = (Standby, UnixStream, Watcher);

impl Standby {
    /// Starts one whose libraries lie in none of these directories.
    pub(super) fn start(places: &[PathBuf]) -> io::Result<Self> {
        let libraries = std::env::var_os(LIBRARIES);
        let libraries = libraries.and_then(|list| disk::without_places(&list, places));
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
            .args([supervisor::WORD.to_owned(), theirs.as_raw_fd().to_string()])
            .env_clear()
            .envs(libraries.map(|list| (LIBRARIES, list)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = inheriting(&[theirs.as_fd()], || command.spawn())?;
        Ok(Self { process, control })
    }

    /// Requests a fork with a channel and these descriptors.
    fn ask(&self, channel: &UnixStream, given: &[BorrowedFd<'_>]) -> io::Result<()> {
        let descriptors: Vec<_> =
            [channel.as_fd()].into_iter().chain(given.iter().copied()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if !rights.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(&self.control, &[IoSlice::new(b"+")], &mut rights, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The fork, if it exists within this time.
    fn fork(&self, time: Duration) -> io::Result<Option<Watcher>> {
        if is_stopped(self.process.id()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let mut one = [PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN)];
        match poll(&mut one, Timespec::try_from(time).ok().as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(None),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let mut answer = [0; size_of::<i32>()];
        (&self.control).read_exact(&mut answer)?;
        let pid = i32::from_le_bytes(answer);
        if pid <= 0 {
            let error = io::Error::from_raw_os_error(-pid);
            return Err(io::Error::other(format!("it could not fork: {error}")));
        }
        Watcher::new(pid).map(Some)
    }
}

impl<'a> Request<'a> {
    /// Sends a request to this stand-by, or to a new one.
    pub(super) fn new(
        standby: Option<Standby>,
        given: &'a [BorrowedFd<'a>],
        places: &'a [PathBuf],
    ) -> io::Result<Request<'a>> {
        match standby.map(|standby| Self::ask(standby, given, places, false)) {
            Some(Ok(asked)) => Ok(asked),
            Some(Err(_)) | None => Self::second(given, places),
        }
    }

    fn second(given: &'a [BorrowedFd<'a>], places: &'a [PathBuf]) -> io::Result<Self> {
        Self::ask(Standby::start(places)?, given, places, true)
    }

    /// The channel is new each time: a fork that comes too late receives nothing.
    fn ask(
        standby: Standby,
        given: &'a [BorrowedFd<'a>],
        places: &'a [PathBuf],
        is_second: bool,
    ) -> io::Result<Request<'a>> {
        let (channel, theirs) = UnixStream::pair()?;
        standby.ask(&theirs, given).map_err(|error| named(&error))?;
        Ok(Self { standby, channel, given, places, since: Instant::now(), is_second })
    }

    /// The fork, if it exists within this time. A stand-by that fails is replaced once.
    fn poll(&mut self, time: Duration) -> io::Result<Option<Watcher>> {
        let fork = self.standby.fork(time).and_then(|fork| {
            let is_late = fork.is_none() && self.since.elapsed() >= FORK_TIME;
            if is_late { Err(io::ErrorKind::TimedOut.into()) } else { Ok(fork) }
        });
        match fork {
            Ok(fork) => Ok(fork),
            Err(_) if !self.is_second => {
                *self = Self::second(self.given, self.places)?;
                Ok(None)
            }
            Err(error) => Err(named(&error)),
        }
    }

    /// Waits for the fork. If this future is dropped, nothing has run.
    pub(super) async fn answer(mut self) -> io::Result<Answer> {
        loop {
            if let Some(fork) = self.poll(Duration::ZERO)? {
                return Ok((self.standby, self.channel, fork));
            }
            let control = self.standby.control.try_clone()?;
            let control = tokio::net::UnixStream::from_std(control)?;
            _ = tokio::time::timeout(CHECK_TIME, control.readable()).await;
        }
    }
}

/// An error of the stand-by's socket, in words.
fn named(error: &io::Error) -> io::Error {
    io::Error::other(match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset => ENDED.to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => LATE.to_owned(),
        _ => format!("the sandbox's stand-by: {error}"),
    })
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
pub(super) fn stand_by(mut control: UnixStream) -> io::Result<Option<Vec<OwnedFd>>> {
    // Away from the agent's terminal and process group: their signals are not for commands.
    _ = setsid();
    // It keeps no directory busy.
    chdir("/")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    sys::forget_children(true)?;
    while let Some(descriptors) = receive(&control)? {
        let answer = match sys::fork() {
            Ok(None) => {
                sys::forget_children(false)?;
                return Ok(Some(descriptors));
            }
            Ok(Some(fork)) => fork.as_raw_pid(),
            Err(error) => -error.raw_os_error().unwrap_or(libc::EAGAIN),
        };
        control.write_all(&answer.to_le_bytes())?;
    }
    Ok(None)
}

fn receive(control: &UnixStream) -> io::Result<Option<Vec<OwnedFd>>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut rights = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut into = [IoSliceMut::new(&mut byte)];
    let received = rustix::io::retry_on_intr(|| {
        recvmsg(control, &mut into, &mut rights, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let descriptors = rights.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(Some(descriptors.flatten().collect()))
}
