//! Standard output for a program that reads lines. It is written by a separate thread, since a blocking write cannot
//! be cancelled. A slow reader delays only requests to models ([`Control::keep_pace`]).

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use agent_protocol::control::Control;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How much may wait to be read, in bytes, before models wait for the reader.
const BEHIND: usize = 1 << 20;
/// How much may wait at all. A program that lets more answers wait counts as gone.
const MAX_WAITING: usize = 64 << 20;
/// How long the exit waits for a program that does not read.
const PATIENCE: Duration = Duration::from_secs(2);
/// How much is written at once.
const PIECE: usize = 64 << 10;

/// Standard output. Copies share it.
#[derive(Clone)]
pub(super) struct Output(Arc<Shared>);

struct Shared {
    lines: Sender<Vec<u8>>,
    /// What was not written yet, in bytes.
    waiting: watch::Sender<usize>,
    lost: CancellationToken,
}

impl Output {
    /// Starts the thread that writes.
    pub(super) fn open() -> io::Result<Self> {
        let (lines, queue) = channel();
        let (waiting, lost) = (watch::Sender::new(0), CancellationToken::new());
        let (written, is_lost) = (waiting.clone(), lost.clone());
        let write = move || {
            write(&queue, &written);
            is_lost.cancel();
        };
        let is_lost = lost.clone();
        // Its end of a pipe or a socket may close while nothing is written.
        let watch = move || {
            agent_ui::wait_until_lost();
            is_lost.cancel();
        };
        std::thread::Builder::new().name("output".to_owned()).spawn(write)?;
        std::thread::Builder::new().name("lost".to_owned()).spawn(watch)?;
        Ok(Self(Arc::new(Shared { lines, waiting, lost })))
    }

    /// Adds data, which ends a line. Never waits; false if the program is gone.
    pub(super) fn put(&self, data: Vec<u8>) -> bool {
        let Shared { lines, waiting, lost } = &*self.0;
        let mut is_too_much = false;
        waiting.send_modify(|n| {
            *n += data.len();
            is_too_much = *n > MAX_WAITING.max(data.len());
        });
        if is_too_much {
            lost.cancel();
        }
        !lost.is_cancelled() && lines.send(data).is_ok()
    }

    /// Adds a line of JSON.
    pub(super) fn line(&self, value: &Value) -> bool {
        self.put(format!("{value}\n").into_bytes())
    }

    /// Cancelled when the program does not read any more.
    pub(super) fn lost(&self) -> &CancellationToken {
        &self.0.lost
    }

    /// The models of this session wait while the program is behind.
    pub(super) fn slows(&self, control: &Control) {
        control.keep_pace(self.0.waiting.subscribe(), BEHIND);
    }

    /// More waits than the program should miss.
    pub(super) fn is_behind(&self) -> bool {
        *self.0.waiting.borrow() > BEHIND
    }

    /// Waits until the program is not behind, or is gone.
    pub(super) async fn room(&self) {
        self.falls_to(BEHIND).await;
    }

    /// Waits until everything is written, or the program is gone.
    pub(super) async fn written(&self) {
        self.falls_to(0).await;
    }

    /// The same, but only as long as the program reads.
    pub(super) async fn finish(&self) {
        tokio::select! {
            () = self.written() => {}
            () = self.stalled() => {}
        }
    }

    /// Waits until the program has read nothing for some time.
    pub(super) async fn stalled(&self) {
        let mut waiting = self.0.waiting.subscribe();
        // (Each piece that is read is a change.)
        while matches!(tokio::time::timeout(PATIENCE, waiting.changed()).await, Ok(Ok(()))) {}
    }

    async fn falls_to(&self, limit: usize) {
        let mut waiting = self.0.waiting.subscribe();
        let falls = async {
            _ = waiting.wait_for(|n| *n <= limit).await;
        };
        tokio::select! {
            () = falls => {}
            () = self.0.lost.cancelled() => {}
        }
    }
}

/// For the faces of a session.
impl io::Write for Output {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        if self.put(data.to_owned()) {
            Ok(data.len())
        } else {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes until the program is gone.
fn write(queue: &Receiver<Vec<u8>>, waiting: &watch::Sender<usize>) {
    while let Ok(data) = queue.recv() {
        for piece in data.chunks(PIECE) {
            if !agent_ui::data(piece) {
                return;
            }
            waiting.send_modify(|n| *n -= piece.len());
        }
    }
}
