//! Lines of JSON over standard input and output, each on a thread of its own: a client that reads slowly delays
//! nothing but itself.

use std::io;
use std::time::Duration;

use agent_client_protocol::{ConnectTo, Lines};
use futures_util::{sink, stream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::cli::stdin::{self, Input};
use crate::ui;

/// Limit of a message in bytes.
const MAX_LINE: usize = 64 * 1024 * 1024;
/// Messages that wait to be written, before the connection waits too.
const QUEUE: usize = 64;
/// How long the exit waits for a client that does not read.
const PATIENCE: Duration = Duration::from_secs(2);
/// In place of a message that is too long. It is no JSON, so the client gets it back with an error.
const TOO_LONG: &str = "a message of more than 64 MiB, which was dropped";

/// Becomes complete when everything is written.
pub(super) struct Written(oneshot::Receiver<()>);

impl Written {
    pub(super) async fn finish(self) {
        _ = tokio::time::timeout(PATIENCE, self.0).await;
    }
}

/// The transport. `lost` is cancelled when the client reads no more.
pub(super) fn transport<R: agent_client_protocol::Role>(
    lost: CancellationToken,
) -> (impl ConnectTo<R> + 'static, Written) {
    let incoming = stream::unfold(
        (stdin::lines(MAX_LINE), Vec::new().into_iter()),
        async |(mut read, mut ready)| loop {
            if let Some(line) = ready.next() {
                return Some((Ok(line), (read, ready)));
            }
            // An error ends the input like its end.
            ready = text_lines(read.recv().await?.ok()?).into_iter();
        },
    );
    let (sender, mut lines) = mpsc::channel::<String>(QUEUE);
    let (done, written) = oneshot::channel();
    std::thread::spawn(move || {
        while let Some(line) = lines.blocking_recv() {
            if !ui::answer(&ui::Answer::Data(line + "\n")) {
                break;
            }
        }
        _ = done.send(());
    });
    // Its end of a pipe or a socket may close while nothing is written.
    std::thread::spawn(move || {
        ui::wait_until_lost();
        lost.cancel();
    });
    // A client that is gone is no error of the connection: the sessions end in order.
    let outgoing = sink::unfold(sender, async |sender, line: String| {
        _ = sender.send(line).await;
        Ok::<_, io::Error>(sender)
    });
    (Lines::new(outgoing, incoming), Written(written))
}

/// The lines as text, without empty ones.
fn text_lines(inputs: Vec<Input>) -> Vec<String> {
    let lines = inputs.into_iter().map(|input| match input {
        Input::Line(line) => String::from_utf8_lossy(line.trim_ascii()).into_owned(),
        Input::TooLong => TOO_LONG.to_owned(),
    });
    lines.filter(|line| !line.is_empty()).collect()
}
