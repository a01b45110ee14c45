//! Lines of JSON over standard input and output.

use std::io;

use agent_client_protocol::{ConnectTo, Lines};
use futures_util::{sink, stream};

use crate::cli::stdin::{InputLine, LineReader, MAX_LINE};
use crate::cli::stdout::Output;

/// Replaces a message that is too long. It is no JSON, so the client gets it back with an error.
const TOO_LONG: &str = "a message of more than 64 MiB, which was dropped";

pub(super) fn transport<R: agent_client_protocol::Role>(
    output: Output,
) -> impl ConnectTo<R> + 'static {
    let incoming = stream::unfold(LineReader::spawn(MAX_LINE), async |mut lines| {
        // An error ends the input like its end.
        let line = match lines.next().await?.ok()? {
            InputLine::Line(line) => String::from_utf8_lossy(line.trim_ascii()).into_owned(),
            InputLine::TooLong => TOO_LONG.to_owned(),
        };
        Some((Ok(line), lines))
    });
    // A client that is gone is no error of the connection: the sessions end in order.
    let outgoing = sink::unfold(output, async |output, line: String| {
        output.wait_for_room().await;
        _ = output.enqueue_line(line);
        Ok::<_, io::Error>(output)
    });
    Lines::new(outgoing, incoming)
}
