//! The connection to the client of `agent mcp serve`: one JSON-RPC message per line of standard input and output.

use std::io;

use futures_util::{StreamExt as _, sink, stream};
use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ErrorData, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::sink_stream::SinkStreamTransport;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::cli::stdin::{InputLine, LineReader, MAX_LINE};
use crate::cli::stdout::Output;

#[derive(Deserialize)]
struct MessageHeader {
    id: Option<RequestId>,
}

/// `input_closed` is cancelled when the client closes our input.
pub(super) fn transport(
    output: Output,
    input_closed: CancellationToken,
) -> impl Transport<RoleServer, Error = io::Error> {
    let input = (LineReader::spawn(MAX_LINE), output.clone(), input_closed);
    let incoming = stream::unfold(input, async |(mut lines, output, input_closed)| {
        let message = read_message(&mut lines, &output).await;
        if message.is_none() {
            input_closed.cancel();
        }
        Some((message?, (lines, output, input_closed)))
    });
    // A client that is gone is no error of the connection: `Output::lost` ends it.
    let outgoing = sink::unfold(output, async |output, message| {
        write_message(&output, &message);
        Ok(output)
    });
    SinkStreamTransport::new(Box::pin(outgoing), incoming.boxed())
}

fn write_message(output: &Output, message: &ServerJsonRpcMessage) {
    // Messages always serialise.
    let line = serde_json::to_string(message).unwrap_or_default();
    _ = output.enqueue_line(line);
}

/// Answers lines that are no messages.
async fn read_message(lines: &mut LineReader, output: &Output) -> Option<ClientJsonRpcMessage> {
    loop {
        let (error, id) = match lines.next().await? {
            Ok(InputLine::Line(line)) => match serde_json::from_slice(line.trim_ascii()) {
                Ok(message) => return Some(message),
                Err(error) if error.is_data() => {
                    let words =
                        "the line is no JSON-RPC message; each line is one request or notification";
                    let header = serde_json::from_slice::<MessageHeader>(&line).ok();
                    let error = ErrorData::invalid_request(words, None);
                    (error, header.and_then(|header| header.id))
                }
                Err(error) => {
                    (ErrorData::parse_error(format!("the line is no JSON: {error}"), None), None)
                }
            },
            Ok(InputLine::TooLong) => {
                let words = format!("a message of more than {} MB is not read", MAX_LINE >> 20);
                agent_ui::print_notice(&words);
                (ErrorData::invalid_request(words, None), None)
            }
            Err(error) => {
                agent_ui::print_notice(&format!("standard input: {error}"));
                return None;
            }
        };
        write_message(output, &ServerJsonRpcMessage::error(error, id));
    }
}
