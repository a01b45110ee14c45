//! Output for a program that reads lines. It is written by a separate thread, since a blocking write cannot
//! be cancelled. A slow reader delays only requests to models ([`SessionControl::track_unread_output`]).

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use agent_protocol::control::SessionControl;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Bytes that may wait to be read before models wait for the reader.
const BACKLOG_LIMIT: usize = 1 << 20;
/// Bytes that may wait at all. A program that lets more answers wait counts as gone.
const MAX_WAITING: usize = 64 << 20;
/// How long the exit waits for a program that does not read.
const STALL_TIMEOUT: Duration = Duration::from_secs(2);
const CHUNK_SIZE: usize = 64 << 10;

/// Prints the error; then there is no thread that reads or writes.
pub(super) fn report_thread_error<T>(started: io::Result<T>) -> Option<T> {
    let report = |error: &io::Error| {
        agent_ui::print_notice(&format!("no thread could be started: {error}"));
    };
    started.inspect_err(report).ok()
}

#[derive(Clone)]
pub(super) struct Output(Arc<OutputQueue>);

struct OutputQueue {
    lines: Sender<Vec<u8>>,
    backlog: watch::Sender<usize>,
    lost: CancellationToken,
}

impl Output {
    /// Standard output.
    pub(super) fn open() -> io::Result<Self> {
        let output = Self::with_writer(agent_ui::print_data)?;
        let is_lost = output.lost().clone();
        // The program may close its end of a pipe or a socket while nothing is written.
        let watch = move || {
            agent_ui::wait_until_stdout_closed();
            is_lost.cancel();
        };
        std::thread::Builder::new().name("lost".to_owned()).spawn(watch)?;
        Ok(output)
    }

    /// `write` returns `false` if the reader is gone. It is dropped when everything is written.
    pub(super) fn with_writer(
        write: impl FnMut(&[u8]) -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let (lines, queue) = channel();
        let (backlog, lost) = (watch::Sender::new(0), CancellationToken::new());
        let (written, is_lost) = (backlog.clone(), lost.clone());
        let write = move || {
            write_queue(&queue, &written, write);
            is_lost.cancel();
        };
        std::thread::Builder::new().name("output".to_owned()).spawn(write)?;
        Ok(Self(Arc::new(OutputQueue { lines, backlog, lost })))
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Never waits; `false` if the program is gone.
    pub(super) fn enqueue_line(&self, line: String) -> bool {
        self.enqueue((line + "\n").into_bytes())
    }

    fn enqueue(&self, data: Vec<u8>) -> bool {
        let OutputQueue { lines, backlog, lost } = &*self.0;
        let mut is_too_much = false;
        backlog.send_modify(|n| {
            *n += data.len();
            is_too_much = *n > MAX_WAITING.max(data.len());
        });
        if is_too_much {
            lost.cancel();
        }
        !lost.is_cancelled() && lines.send(data).is_ok()
    }

    /// Cancelled when the program does not read any more.
    pub(super) fn lost(&self) -> &CancellationToken {
        &self.0.lost
    }

    pub(super) fn pace_models(&self, control: &SessionControl) {
        control.track_unread_output(self.0.backlog.subscribe(), BACKLOG_LIMIT);
    }

    /// Also ends when the program is gone.
    pub(super) async fn wait_for_room(&self) {
        self.wait_for_backlog(BACKLOG_LIMIT).await;
    }

    /// Also ends when the program is gone.
    pub(super) async fn wait_until_written(&self) {
        self.wait_for_backlog(0).await;
    }

    /// Waits only as long as the program reads.
    pub(super) async fn finish(&self) {
        tokio::select! {
            () = self.wait_until_written() => {}
            () = self.wait_until_stalled() => {}
        }
    }

    /// Ends when the program has read nothing for `STALL_TIMEOUT`.
    pub(super) async fn wait_until_stalled(&self) {
        let mut backlog = self.0.backlog.subscribe();
        // Each piece that is read is a change.
        while matches!(tokio::time::timeout(STALL_TIMEOUT, backlog.changed()).await, Ok(Ok(()))) {}
    }

    async fn wait_for_backlog(&self, limit: usize) {
        let mut backlog = self.0.backlog.subscribe();
        let falls = async {
            _ = backlog.wait_for(|n| *n <= limit).await;
        };
        tokio::select! {
            () = falls => {}
            () = self.0.lost.cancelled() => {}
        }
    }
}

impl io::Write for Output {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.enqueue(data.to_owned()) {
            Ok(data.len())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_queue(
    queue: &Receiver<Vec<u8>>,
    backlog: &watch::Sender<usize>,
    mut write: impl FnMut(&[u8]) -> bool,
) {
    while let Ok(data) = queue.recv() {
        for piece in data.chunks(CHUNK_SIZE) {
            if !write(piece) {
                return;
            }
            backlog.send_modify(|n| *n -= piece.len());
        }
    }
}
