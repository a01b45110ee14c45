//! A running command: reads its output, and waits for its end or ends it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::pipe::fcntl_setpipe_size;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout};
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

use super::capture::{OutputCapture, StreamKind};
use super::live_output::LiveOutput;
use super::process::{CommandProcesses, Process};
use super::sandbox::{Supervisor, SupervisorMessage};
use super::{EndReason, RemainingProcess};

/// How long output is read after the shell has exited: a remaining child may hold the pipe open.
const GRACE: Duration = Duration::from_millis(100);
const CHUNK: usize = 64 * 1024;
/// For a command that fills its pipe: the buffer, and the new capacity of the pipe.
const LARGE_CHUNK: usize = 256 * 1024;
const LARGE_PIPE: usize = 1024 * 1024;

/// If this is dropped before the end of the command, its process tree is ended.
pub(super) struct RunningCommand {
    pipes: Pipes,
    /// `None` after it was passed to [`RemainingProcesses`].
    tree: Option<ProcessTree>,
    /// In the shell's own PID namespace.
    pub(super) shell_pid: i32,
    may_have_remaining: bool,
}

#[derive(Debug)]
pub(super) enum ProcessTree {
    /// Processes with a mark; the first field is the agent's child.
    Marked(Child, CommandProcesses),
    /// Processes of a supervisor, with a mark in case the supervisor ends before them.
    Supervised(Supervisor, CommandProcesses),
}

impl ProcessTree {
    fn kill(&mut self) {
        match self {
            Self::Marked(_, family) => family.kill(),
            Self::Supervised(supervisor, _) => supervisor.kill(),
        }
    }
}

#[derive(Debug)]
pub(super) struct RemainingProcesses {
    tree: ProcessTree,
    /// The pipes stay open: writing to a closed pipe would kill the program.
    _unread: Vec<Arc<File>>,
}

impl RemainingProcesses {
    /// A list of processes can miss one that starts another and ends; their supervisor ends with the last.
    pub(super) fn is_running(&mut self) -> bool {
        match &mut self.tree {
            ProcessTree::Marked(..) => !self.running_processes().is_empty(),
            ProcessTree::Supervised(supervisor, _) => !supervisor.process.has_ended(),
        }
    }

    pub(super) fn running_processes(&mut self) -> Vec<RemainingProcess> {
        match &mut self.tree {
            ProcessTree::Marked(_, family) => {
                family.running_processes().iter().map(Process::to_remaining).collect()
            }
            ProcessTree::Supervised(supervisor, _) => supervisor.process.supervised_processes(),
        }
    }
}

impl Drop for RemainingProcesses {
    fn drop(&mut self) {
        self.tree.kill();
    }
}

impl RunningCommand {
    pub(super) fn from_child(mut child: Child, mark: String) -> Self {
        let root = child.id().and_then(|pid| i32::try_from(pid).ok()).unwrap_or_default();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let pipes = Pipes { stdout: Pipe::new(stdout), stderr: Pipe::new(stderr) };
        let tree = Some(ProcessTree::Marked(child, CommandProcesses::new(root, mark)));
        Self { pipes, tree, shell_pid: root, may_have_remaining: true }
    }

    pub(super) fn from_supervisor(
        supervisor: Supervisor,
        mark: String,
        stdout: OwnedFd,
        stderr: OwnedFd,
    ) -> io::Result<Self> {
        let root = supervisor.process.pid;
        let stdout = ChildStdout::from_std(stdout.into())?;
        let stderr = ChildStderr::from_std(stderr.into())?;
        let pipes = Pipes { stdout: Pipe::new(Some(stdout)), stderr: Pipe::new(Some(stderr)) };
        let tree =
            Some(ProcessTree::Supervised(supervisor, CommandProcesses::supervised(root, mark)));
        Ok(Self { pipes, tree, shell_pid: root, may_have_remaining: true })
    }

    pub(super) async fn read_until_end(
        &mut self,
        capture: &mut OutputCapture<'_>,
        timeout: Duration,
        cancel: &CancellationToken,
    ) -> io::Result<(EndReason, Option<ExitStatus>)> {
        let deadline = tokio::time::sleep(timeout);
        tokio::pin!(deadline);
        let ended = loop {
            let due = capture.live.as_ref().and_then(LiveOutput::next_notification);
            tokio::select! {
                biased;
                () = cancel.cancelled() => break EndReason::Cancelled,
                () = &mut deadline => break EndReason::TimedOut,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    capture.live.iter_mut().for_each(LiveOutput::notify_watcher);
                }
                step = self.read_or_wait(capture) => {
                    if let Some(status) = step? {
                        return Ok((EndReason::Exited, Some(status)));
                    }
                }
            }
        };
        self.kill().await;
        Ok((ended, None))
    }

    /// Waits for output or the shell's end. Cancel safe.
    pub(super) async fn read_or_wait(
        &mut self,
        capture: &mut OutputCapture<'_>,
    ) -> io::Result<Option<ExitStatus>> {
        tokio::select! {
            biased;
            status = wait_for_shell(self.tree.as_mut(), &mut self.shell_pid, &mut self.may_have_remaining) => {
                Ok(Some(status?))
            }
            () = self.pipes.read(capture), if self.pipes.is_open() => Ok(None),
        }
    }

    pub(super) async fn kill(&mut self) {
        // Before reaping: the search needs the shell to find its children.
        if let Some(tree) = &mut self.tree {
            tree.kill();
        }
        self.may_have_remaining = false;
        if let Some(ProcessTree::Marked(child, _)) = &mut self.tree {
            // A child that cannot be waited for has ended.
            _ = child.wait().await;
        }
    }

    /// Also looks for processes that outlived the shell, after a moment for those that are about to end.
    pub(super) async fn drain_output(
        &mut self,
        capture: &mut OutputCapture<'_>,
    ) -> Vec<RemainingProcess> {
        let grace = Instant::now() + GRACE;
        let drained = async {
            while self.pipes.is_open() {
                self.pipes.read(capture).await;
            }
        };
        _ = timeout_at(grace, drained).await;
        if !self.may_have_remaining {
            return Vec::new();
        }
        match &mut self.tree {
            Some(ProcessTree::Marked(_, family)) => {
                self.may_have_remaining = !family.running_processes().is_empty();
                if !self.may_have_remaining {
                    return Vec::new();
                }
                sleep_until(grace).await;
                family.keep_remaining()
            }
            Some(ProcessTree::Supervised(supervisor, _)) => {
                // The supervisor ends with the last process.
                let ended =
                    async { while supervisor.next_message().await != SupervisorMessage::Gone {} };
                if timeout_at(grace, ended).await.is_ok() {
                    return Vec::new();
                }
                supervisor.process.supervised_processes()
            }
            None => Vec::new(),
        }
    }

    /// The processes end with the returned value. An unread pipe would block a server, and a closed one kill it by SIGPIPE.
    pub(super) fn into_remaining(mut self) -> Option<RemainingProcesses> {
        let mut unread = Vec::new();
        let stdout = self.pipes.stdout.pipe.take().map(ChildStdout::into_owned_fd);
        let stderr = self.pipes.stderr.pipe.take().map(ChildStderr::into_owned_fd);
        for descriptor in [stdout, stderr].into_iter().flatten().flatten() {
            let pipe = Arc::new(File::from(descriptor));
            let read = Arc::clone(&pipe);
            // The thread ends when the last process closes the pipe.
            let reader = std::thread::Builder::new().spawn(move || {
                _ = rustix::io::ioctl_fionbio(&*read, false);
                _ = io::copy(&mut &*read, &mut io::sink());
            });
            if reader.is_err() {
                // Without a thread the process may block, but is not killed.
                unread.push(pipe);
            }
        }
        let mut tree = self.tree.take()?;
        if let ProcessTree::Supervised(supervisor, _) = &mut tree {
            supervisor.stop_reading();
        }
        Some(RemainingProcesses { tree, _unread: unread })
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        if let Some(tree) = &mut self.tree
            && self.may_have_remaining
        {
            tree.kill();
        }
    }
}

/// Cancel safe.
async fn wait_for_shell(
    tree: Option<&mut ProcessTree>,
    shell_pid: &mut i32,
    may_have_remaining: &mut bool,
) -> io::Result<ExitStatus> {
    let (supervisor, family) = match tree {
        Some(ProcessTree::Supervised(supervisor, family)) => (supervisor, family),
        Some(ProcessTree::Marked(child, _)) => return child.wait().await,
        // The tree was passed on: no further status will come.
        None => return std::future::pending().await,
    };
    loop {
        match supervisor.next_message().await {
            SupervisorMessage::Shell(pid) => *shell_pid = pid,
            SupervisorMessage::Exited { status, has_left } => {
                *may_have_remaining = has_left;
                return Ok(ExitStatus::from_raw(status));
            }
            SupervisorMessage::Failed(why) => {
                return Err(io::Error::other(format!("the sandbox could not be set up: {why}")));
            }
            SupervisorMessage::Gone => {
                family.kill();
                return Err(io::Error::other(
                    "the sandbox's supervisor was ended by another process",
                ));
            }
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

    /// Reads from whichever stream has output. Cancel safe.
    async fn read(&mut self, capture: &mut OutputCapture<'_>) {
        tokio::select! {
            n = self.stdout.read(), if self.stdout.pipe.is_some() => {
                capture.push(StreamKind::Stdout, &self.stdout.buffer[..n]);
            }
            n = self.stderr.read(), if self.stderr.pipe.is_some() => {
                capture.push(StreamKind::Stderr, &self.stderr.buffer[..n]);
            }
            else => {}
        }
    }
}

struct Pipe<P> {
    /// `None` after the end of the output.
    pipe: Option<P>,
    buffer: Box<[u8]>,
}

impl<P: AsyncRead + AsFd + Unpin> Pipe<P> {
    fn new(pipe: Option<P>) -> Self {
        Self { pipe, buffer: vec![0; CHUNK].into_boxed_slice() }
    }

    async fn read(&mut self) -> usize {
        let Some(pipe) = &mut self.pipe else { return 0 };
        // An unreadable pipe counts as closed.
        let n = pipe.read(&mut self.buffer).await.unwrap_or(0);
        if n == 0 {
            self.pipe = None;
        } else if n == CHUNK && self.buffer.len() == CHUNK {
            // If the user's limit for pipes is reached, the capacity is not changed.
            _ = fcntl_setpipe_size(pipe, LARGE_PIPE);
            let mut larger = vec![0; LARGE_CHUNK];
            larger[..n].copy_from_slice(&self.buffer);
            self.buffer = larger.into_boxed_slice();
        }
        n
    }
}
