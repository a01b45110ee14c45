//! The agent's end of the channel to a supervisor.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};

use crate::exec::process::SupervisorProcess;

/// A supervisor ends everything within milliseconds; a slower one is killed after this time.
const END_TIME: Duration = Duration::from_secs(5);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::exec) enum SupervisorMessage {
    /// The process id of the shell, in its own PID namespace.
    Shell(i32),
    /// The exit status of the shell; some of its processes may still run.
    Exited {
        status: i32,
        has_left: bool,
    },
    Failed(String),
    Gone,
}

/// All processes of the supervisor end when this is dropped.
#[derive(Debug)]
pub(in crate::exec) struct Supervisor {
    /// The runtime's reader of the channel, while messages are awaited.
    messages: Option<Lines<BufReader<tokio::net::UnixStream>>>,
    channel: UnixStream,
    pub(in crate::exec) process: SupervisorProcess,
}

impl Supervisor {
    pub(in crate::exec) fn new(
        channel: UnixStream,
        process: SupervisorProcess,
    ) -> io::Result<Self> {
        channel.set_nonblocking(true)?;
        let messages = tokio::net::UnixStream::from_std(channel.try_clone()?)?;
        Ok(Self { messages: Some(BufReader::new(messages).lines()), channel, process })
    }

    /// Cancel safe: a dropped future loses no message.
    pub(in crate::exec) async fn next_message(&mut self) -> SupervisorMessage {
        let Some(messages) = &mut self.messages else { return SupervisorMessage::Gone };
        let line = messages.next_line().await.ok().flatten();
        line.and_then(|line| serde_json::from_str(&line).ok()).unwrap_or(SupervisorMessage::Gone)
    }

    /// The processes keep running until this is dropped or killed.
    pub(in crate::exec) fn stop_reading(&mut self) {
        self.messages = None;
    }

    /// Returns when all processes have ended.
    pub(in crate::exec) fn kill(&mut self) {
        self.stop_reading();
        _ = self.channel.shutdown(Shutdown::Write);
        _ = self.channel.set_nonblocking(false);
        _ = self.channel.set_read_timeout(Some(END_TIME));
        // The channel closes when the last process ends.
        if io::copy(&mut self.channel, &mut io::sink()).is_err() {
            self.process.kill();
            _ = io::copy(&mut self.channel, &mut io::sink());
        }
    }
}
