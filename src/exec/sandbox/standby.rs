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

/// How long a copy may take to be made. The first time the program has to start; later it takes less than a
/// millisecond, but on a machine that has much to do.
const COPY_TIME: Duration = Duration::from_secs(5);
/// How often it is looked meanwhile whether somebody stopped the stand-by: then a new one is started at once.
const LOOK_TIME: Duration = Duration::from_millis(200);
/// What is said of it then.
pub(super) const LATE: &str = "the sandbox's stand-by did not answer in time";
/// And of one that somebody ended.
pub(super) const ENDED: &str = "the sandbox's stand-by ended";
/// How long one that is ended may take for that.
const END_TIME: Duration = Duration::from_millis(50);
/// Where the dynamic linker looks first. A build that needs it does not start without; what commands could have put
/// there is none of it: this process is not in their box.
const LIBRARIES: &str = "LD_LIBRARY_PATH";
/// How many descriptors one copy gets: its channel, two for output, the report, and two namespaces or what it may read.
const MOST_DESCRIPTORS: usize = 6;

/// The agent's end. Whoever asks has it again with the answer; one that failed is ended.
#[derive(Debug)]
pub(super) struct Standby {
    process: Child,
    control: UnixStream,
}

/// One that was asked for a copy, and our end of the copy's channel.
pub(super) struct Asked<'a> {
    standby: Standby,
    channel: UnixStream,
    given: &'a [BorrowedFd<'a>],
    /// What commands write.
    places: &'a [PathBuf],
    since: Instant,
    /// It was started because the one before it failed.
    is_second: bool,
}

/// The stand-by, and a copy of it that waits for its plan on this channel.
pub(super) type Answer = (Standby, UnixStream, Watcher);

impl Standby {
    /// Starts one, whose libraries lie in none of these places: commands write there.
    pub(super) fn start(places: &[PathBuf]) -> io::Result<Self> {
        let libraries = std::env::var_os(LIBRARIES);
        let libraries = libraries.and_then(|list| disk::without_places(&list, places));
        let (control, theirs) = UnixStream::pair()?;
        // One that does not even take what it is asked is replaced.
        control.set_nonblocking(true)?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it starts nothing but supervisors, and ends with this process"
        )]
        // The very file of this process, whatever has become of its path meanwhile.
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

    /// Asks for a copy that has a channel, and these descriptors.
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

    /// The copy, if it is there within this time.
    fn copy(&self, time: Duration) -> io::Result<Option<Watcher>> {
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

impl<'a> Asked<'a> {
    /// Asks this one, or where there is none one that is started for it.
    pub(super) fn new(
        standby: Option<Standby>,
        given: &'a [BorrowedFd<'a>],
        places: &'a [PathBuf],
    ) -> io::Result<Asked<'a>> {
        match standby.map(|standby| Self::ask(standby, given, places, false)) {
            Some(Ok(asked)) => Ok(asked),
            Some(Err(_)) | None => Self::second(given, places),
        }
    }

    fn second(given: &'a [BorrowedFd<'a>], places: &'a [PathBuf]) -> io::Result<Self> {
        Self::ask(Standby::start(places)?, given, places, true)
    }

    /// The channel is new each time: a copy that comes too late hears nothing there.
    fn ask(
        standby: Standby,
        given: &'a [BorrowedFd<'a>],
        places: &'a [PathBuf],
        is_second: bool,
    ) -> io::Result<Asked<'a>> {
        let (channel, theirs) = UnixStream::pair()?;
        standby.ask(&theirs, given).map_err(|error| named(&error))?;
        Ok(Self { standby, channel, given, places, since: Instant::now(), is_second })
    }

    /// The copy, if it is there within this time. A stand-by that fails is replaced, once.
    fn look(&mut self, time: Duration) -> io::Result<Option<Watcher>> {
        let copy = self.standby.copy(time).and_then(|copy| {
            let is_late = copy.is_none() && self.since.elapsed() >= COPY_TIME;
            if is_late { Err(io::ErrorKind::TimedOut.into()) } else { Ok(copy) }
        });
        match copy {
            Ok(copy) => Ok(copy),
            Err(_) if !self.is_second => {
                *self = Self::second(self.given, self.places)?;
                Ok(None)
            }
            Err(error) => Err(named(&error)),
        }
    }

    /// Waits on this thread.
    pub(super) fn answer(mut self) -> io::Result<Answer> {
        loop {
            if let Some(copy) = self.look(LOOK_TIME)? {
                return Ok((self.standby, self.channel, copy));
            }
        }
    }

    /// Waits while the loop of this thread goes on. If this is dropped, nothing has run.
    pub(super) async fn answer_later(mut self) -> io::Result<Answer> {
        loop {
            if let Some(copy) = self.look(Duration::ZERO)? {
                return Ok((self.standby, self.channel, copy));
            }
            let control = self.standby.control.try_clone()?;
            let control = tokio::net::UnixStream::from_std(control)?;
            _ = tokio::time::timeout(LOOK_TIME, control.readable()).await;
        }
    }
}

/// What a failure of its end means.
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
        // Nothing depends on it: copies go on without it.
        _ = self.process.kill();
        // One that hangs in the kernel is left to whoever inherits it.
        _ = Watcher::new(self.process.id().cast_signed()).map(|it| it.ends_within(END_TIME));
        _ = self.process.try_wait();
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
