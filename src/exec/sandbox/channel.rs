//! The agent's end of the channel to a supervisor.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::AsyncReadExt;

use super::super::LeftRunning;
use super::super::process::Watcher;

/// A supervisor needs a few milliseconds to end everything. One that takes this long is killed.
const END_TIME: Duration = Duration::from_secs(5);

/// A message of a supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::exec) enum Message {
    /// A socket helper has entered its namespaces.
    Ready,
    /// The shell's process id, as the shell sees it.
    Shell(i32),
    /// The shell ended with this status; processes of its own may still be there.
    Exited { status: i32, has_left: bool },
    /// The command could not be started.
    Failed(String),
    /// The supervisor has ended, and all of its processes.
    Gone,
}

/// One supervisor. When this is dropped, all of its processes end.
#[derive(Debug)]
pub(in crate::exec) struct Supervisor {
    /// The channel as the runtime reads it, while messages are awaited.
    messages: Option<tokio::net::UnixStream>,
    channel: UnixStream,
    unread: Vec<u8>,
    process: Watcher,
}

impl Supervisor {
    /// Must be called in a runtime.
    pub(in crate::exec) fn new(channel: UnixStream, process: Watcher) -> io::Result<Self> {
        channel.set_nonblocking(true)?;
        let messages = tokio::net::UnixStream::from_std(channel.try_clone()?)?;
        Ok(Self { messages: Some(messages), channel, unread: Vec::new(), process })
    }

    /// Its process id.
    pub(in crate::exec) fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// Its channel, for requests.
    pub(super) fn channel(&self) -> &UnixStream {
        &self.channel
    }

    /// The next message. Nothing is lost if this future is dropped.
    pub(in crate::exec) async fn next(&mut self) -> Message {
        loop {
            if let Some(message) = take_message(&mut self.unread) {
                return message;
            }
            let Some(messages) = &mut self.messages else { return Message::Gone };
            match messages.read_buf(&mut self.unread).await {
                Ok(0) | Err(_) => {
                    self.messages = None;
                    return Message::Gone;
                }
                Ok(_) => {}
            }
        }
    }

    /// Its processes that live.
    pub(in crate::exec) fn living(&self) -> Vec<LeftRunning> {
        self.process.watched()
    }

    /// Stops its processes.
    pub(in crate::exec) fn pause(&self) {
        self.process.pause();
    }

    /// Ends all of them if a stopped one runs again.
    pub(in crate::exec) fn hold(&self) {
        self.process.hold();
    }

    /// Continues its processes.
    pub(in crate::exec) fn resume(&self) {
        self.process.resume();
    }

    /// No more messages are awaited; its processes run until this is dropped or killed.
    pub(in crate::exec) fn leave(&mut self) {
        self.messages = None;
    }

    /// Ends everything, and returns when it has ended.
    pub(in crate::exec) fn kill(&mut self) {
        _ = self.channel.shutdown(Shutdown::Write);
        if !self.wait_for_end(END_TIME) {
            self.process.kill();
            self.wait_for_end(END_TIME);
        }
    }

    /// Its end of the channel closes with its last process.
    fn wait_for_end(&mut self, time: Duration) -> bool {
        let deadline = Instant::now() + time;
        let mut buffer = [0; 256];
        loop {
            match self.channel.read(&mut buffer) {
                Ok(0) => return true,
                Ok(_) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return true,
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let left = Timespec::try_from(left).ok();
            let mut one = [PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN)];
            _ = poll(&mut one, left.as_ref());
        }
    }
}

fn take_message(unread: &mut Vec<u8>) -> Option<Message> {
    let end = unread.iter().position(|byte| *byte == b'\n')?;
    let line: Vec<u8> = unread.drain(..=end).collect();
    let line = String::from_utf8_lossy(&line);
    let line = line.trim_end();
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let message = match word {
        "ready" => Some(Message::Ready),
        "shell" => rest.parse().ok().map(Message::Shell),
        "exited" => rest.split_once(' ').and_then(|(status, left)| {
            Some(Message::Exited { status: status.parse().ok()?, has_left: left != "0" })
        }),
        _ => None,
    };
    Some(message.unwrap_or_else(|| Message::Failed(rest.to_owned())))
}
