//! A command while it runs: its output read, its end waited for or made.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::time::{sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::capture::{Capture, Source};
use super::process::Family;
use super::{Ended, LeftRunning};

/// How long output is still read once the shell has exited: what a child it left behind holds open
/// does not keep the answer back.
const GRACE: Duration = Duration::from_millis(100);
/// As much as a pipe holds.
const CHUNK: usize = 64 * 1024;

/// A command that was started. Dropped before its end it takes its process tree along.
pub(super) struct Running {
    child: Child,
    pipes: Pipes,
    family: Option<Family>,
    root: i32,
}

impl Running {
    pub(super) fn new(mut child: Child, mark: String) -> Self {
        let root = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        let pipes = Pipes {
            stdout: Pipe::new(child.stdout.take()),
            stderr: Pipe::new(child.stderr.take()),
        };
        Self { child, pipes, family: Some(Family::new(root, mark)), root }
    }

    /// The shell's process id.
    pub(super) fn root(&self) -> i32 {
        self.root
    }

    /// Reads until the shell exits, or ends it together with all that it started.
    pub(super) async fn follow(
        &mut self,
        capture: &mut Capture<'_>,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> io::Result<(Ended, Option<ExitStatus>)> {
        let deadline = tokio::time::sleep(timeout);
        tokio::pin!(deadline);
        let ended = loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => break Ended::Cancelled,
                status = self.child.wait() => return Ok((Ended::Exited, Some(status?))),
                () = &mut deadline => break Ended::TimedOut,
                () = self.pipes.read(capture), if self.pipes.is_open() => {}
            }
        };
        // Still here while it is killed: as long as the shell lives, its children are its own.
        if let Some(family) = &mut self.family {
            family.kill();
        }
        self.child.wait().await?;
        Ok((ended, None))
    }

    /// Reads what is still in the pipes and looks for processes that outlived the shell. What is
    /// about to end gets a moment for it.
    pub(super) async fn settle(&mut self, capture: &mut Capture<'_>) -> Vec<LeftRunning> {
        let grace = tokio::time::Instant::now() + GRACE;
        let drained = async {
            while self.pipes.is_open() {
                self.pipes.read(capture).await;
            }
        };
        _ = timeout_at(grace, drained).await;
        let Some(family) = &mut self.family else { return Vec::new() };
        if family.living().is_empty() {
            return Vec::new();
        }
        sleep_until(grace).await;
        family.outlived()
    }

    /// Hands over what outlived the shell; from here on it ends with its new owner. Its output is
    /// read to nowhere: a server that nobody reads from would stand still or die of SIGPIPE.
    pub(super) fn leave(mut self) -> Option<Family> {
        for pipe in [self.pipes.stdout.take_descriptor(), self.pipes.stderr.take_descriptor()] {
            let Some(descriptor) = pipe else { continue };
            // Ends when the last process that holds the pipe does.
            std::thread::spawn(move || {
                _ = rustix::io::ioctl_fionbio(&descriptor, false);
                _ = io::copy(&mut File::from(descriptor), &mut io::sink());
            });
        }
        self.family.take()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(family) = &mut self.family {
            family.kill();
        }
    }
}

struct Pipes {
    stdout: Pipe<ChildStdout>,
    stderr: Pipe<ChildStderr>,
}

impl Pipes {
    fn is_open(&self) -> bool {
        self.stdout.pipe.is_some() || self.stderr.pipe.is_some()
    }

    /// Takes what comes next, from whichever has something. Nothing is lost if it is dropped.
    async fn read(&mut self, capture: &mut Capture<'_>) {
        tokio::select! {
            n = self.stdout.read(), if self.stdout.pipe.is_some() => {
                capture.push(Source::Stdout, &self.stdout.buffer[..n]);
            }
            n = self.stderr.read(), if self.stderr.pipe.is_some() => {
                capture.push(Source::Stderr, &self.stderr.buffer[..n]);
            }
            else => {}
        }
    }
}

struct Pipe<P> {
    /// `None` once it is closed.
    pipe: Option<P>,
    buffer: Box<[u8]>,
}

impl<P: AsyncRead + Unpin> Pipe<P> {
    fn new(pipe: Option<P>) -> Self {
        Self { pipe, buffer: vec![0; CHUNK].into_boxed_slice() }
    }

    async fn read(&mut self) -> usize {
        let Some(pipe) = &mut self.pipe else { return 0 };
        // A pipe that can not be read is as good as closed.
        let n = pipe.read(&mut self.buffer).await.unwrap_or(0);
        if n == 0 {
            self.pipe = None;
        }
        n
    }
}

impl Pipe<ChildStdout> {
    fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.pipe.take()?.into_owned_fd().ok()
    }
}

impl Pipe<ChildStderr> {
    fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.pipe.take()?.into_owned_fd().ok()
    }
}
