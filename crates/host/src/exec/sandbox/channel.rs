//! The agent's end of the channel to a supervisor.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};

use super::super::process::SupervisorProcess;

/// A supervisor needs a few milliseconds to end everything. One that takes this long is killed.
const END_TIME: Duration = Duration::from_secs(5);

/// A message of a supervisor: a line of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::exec) enum SupervisorMessage {
    /// The shell's process id, as the shell sees it.
    Shell(i32),
    /// The shell ended with this status; processes of its own may still be there.
    Exited {
        status: i32,
        has_left: bool,
    },
    Failed(String),
    /// The supervisor has ended, and all of its processes.
    Gone,
}

/// One supervisor. When this is dropped, all of its processes end.
#[derive(Debug)]
pub(in crate::exec) struct Supervisor {
    /// The channel as the runtime reads it, while messages are awaited.
    messages: Option<Lines<BufReader<tokio::net::UnixStream>>>,
    channel: UnixStream,
    pub(in crate::exec) process: SupervisorProcess,
}

impl Supervisor {
    /// Must be called in a runtime.
    pub(super) fn new(channel: UnixStream, process: SupervisorProcess) -> io::Result<Self> {
        channel.set_nonblocking(true)?;
        let messages = tokio::net::UnixStream::from_std(channel.try_clone()?)?;
        Ok(Self { messages: Some(BufReader::new(messages).lines()), channel, process })
    }

    /// The next message. Nothing is lost if this future is dropped.
    pub(in crate::exec) async fn next_message(&mut self) -> SupervisorMessage {
        let Some(messages) = &mut self.messages else { return SupervisorMessage::Gone };
        let line = messages.next_line().await.ok().flatten();
        line.and_then(|line| serde_json::from_str(&line).ok()).unwrap_or(SupervisorMessage::Gone)
    }

    /// No more messages are awaited; its processes run until this is dropped or killed.
    pub(in crate::exec) fn stop_reading(&mut self) {
        self.messages = None;
    }

    /// Ends everything, and returns when it has ended.
    pub(in crate::exec) fn kill(&mut self) {
        self.stop_reading();
        _ = self.channel.shutdown(Shutdown::Write);
        _ = self.channel.set_nonblocking(false);
        _ = self.channel.set_read_timeout(Some(END_TIME));
        // The last process closes the channel.
        if io::copy(&mut self.channel, &mut io::sink()).is_err() {
            self.process.kill();
            _ = io::copy(&mut self.channel, &mut io::sink());
        }
    }
}
