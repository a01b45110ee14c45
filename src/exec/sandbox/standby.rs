//! The stand-by: our own binary, started once for a session. The supervisor of each command is a copy of it,
//! which is there in a fraction of the time that it takes to start a program of this size.
//!
//! It has one thread, no environment but for what finds its libraries, and nothing of a command: what comes for
//! one goes to the copy, and is closed here. The agent sends a byte with descriptors, and is told the copy's
//! process id; then it tells the copy its plan. A copy that hears none ends and has run nothing, so whatever
//! becomes of the stand-by until then, another can be asked.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
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

/// How long a copy may take to be made. The first time the program has to start; later it takes less than a
/// millisecond, but on a machine that has much to do.
const COPY_TIME: Duration = Duration::from_secs(5);
/// How often it is looked meanwhile whether somebody stopped the stand-by: then a new one is started at once.
const LOOK_TIME: Duration = Duration::from_millis(200);
/// Where the dynamic linker looks first. A build that needs it does not start without.
const LIBRARIES: &str = "LD_LIBRARY_PATH";
/// How many descriptors one copy gets: its channel, two for output, the report and two namespaces.
const MOST_DESCRIPTORS: usize = 6;

/// The agent's end. Whoever asks has it again with the answer; one that failed is ended.
#[derive(Debug)]
pub(super) struct Standby {
    process: Child,
    control: UnixStream,
}

/// One that was asked for a copy, and our end of the copy's channel.
pub(super) struct Asked(Standby, UnixStream);

impl Standby {
    /// Starts one.
    pub(super) fn start() -> io::Result<Self> {
        let (control, theirs) = UnixStream::pair()?;
        control.set_write_timeout(Some(COPY_TIME))?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it starts nothing but supervisors, and ends with this process"
        )]
        // The very file of this process, whatever has become of its path meanwhile.
        let mut command = std::process::Command::new("/proc/self/exe");
        command
            .args([supervisor::WORD.to_owned(), theirs.as_raw_fd().to_string()])
            .env_clear()
            .envs(std::env::var_os(LIBRARIES).map(|folders| (LIBRARIES, folders)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = inheriting(&[theirs.as_fd()], || command.spawn())?;
        Ok(Self { process, control })
    }

    /// Asks for a copy that has a channel, and these descriptors. The channel is new each time: a copy that
    /// comes too late hears nothing there.
    pub(super) fn ask(self, given: &[BorrowedFd<'_>]) -> io::Result<Asked> {
        let (channel, theirs) = UnixStream::pair()?;
        let descriptors: Vec<_> =
            [theirs.as_fd()].into_iter().chain(given.iter().copied()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        if !rights.push(SendAncillaryMessage::ScmRights(&descriptors)) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        sendmsg(&self.control, &[IoSlice::new(b"+")], &mut rights, SendFlags::NOSIGNAL)
            .map_err(|error| named(&error.into()))?;
        Ok(Asked(self, channel))
    }
}

impl Standby {
    /// Returns when it has answered, or has ended.
    fn wait(&self) -> io::Result<()> {
        let begun = Instant::now();
        while begun.elapsed() < COPY_TIME && !is_stopped(self.process.id()) {
            let mut one = [PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN)];
            let time = Timespec::try_from(LOOK_TIME).ok();
            match poll(&mut one, time.as_ref()) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(named(&error.into())),
            }
        }
        Err(named(&io::ErrorKind::TimedOut.into()))
    }
}

impl Asked {
    /// The copy, which waits for its plan on this channel.
    pub(super) fn answer(self) -> io::Result<(Standby, UnixStream, Watcher)> {
        let Self(standby, channel) = self;
        let mut answer = [0; size_of::<i32>()];
        standby.wait()?;
        (&standby.control).read_exact(&mut answer).map_err(|error| named(&error))?;
        let pid = i32::from_le_bytes(answer);
        if pid <= 0 {
            let error = io::Error::from_raw_os_error(-pid);
            return Err(io::Error::other(format!(
                "the sandbox's stand-by could not fork: {error}"
            )));
        }
        let copy = Watcher::new(pid).map_err(|error| named(&error))?;
        Ok((standby, channel, copy))
    }
}

/// What a failure of its end means.
fn named(error: &io::Error) -> io::Error {
    io::Error::other(match error.kind() {
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionReset => "the sandbox's stand-by ended".to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            "the sandbox's stand-by did not answer in time".to_owned()
        }
        _ => format!("the sandbox's stand-by: {error}"),
    })
}

impl Drop for Standby {
    fn drop(&mut self) {
        // Nothing depends on it: copies go on without it.
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

/// Stands by until the agent has gone: `None`. In each copy it returns what came for that.
pub(super) fn stand_by(mut control: UnixStream) -> io::Result<Option<Vec<OwnedFd>>> {
    // Away from the agent's terminal and group: what is sent to those is not for a command. (It may lead a
    // group of its own already, who tries it by hand.)
    _ = setsid();
    // It keeps no folder busy.
    chdir("/")?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    sys::forget_children(true)?;
    while let Some(descriptors) = receive(&control)? {
        let answer = match sys::fork() {
            Ok(None) => {
                sys::forget_children(false)?;
                return Ok(Some(descriptors));
            }
            Ok(Some(copy)) => copy.as_raw_pid(),
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
