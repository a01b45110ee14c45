//! The connection to the client of `agent mcp serve`: one JSON-RPC message per line of standard input and output.

use std::io;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, GetMeta as _, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::cli::stdin::{InputLine, LineReader, MAX_LINE};
use crate::cli::stdout::Output;

/// `output` takes the errors of messages that rmcp does not understand.
pub(super) struct StdioTransport {
    input: LineReader,
    output: Output,
    has_begun: bool,
    /// Cancelled when the client closes our input.
    input_closed: CancellationToken,
}

#[derive(Deserialize)]
struct MessageHeader {
    id: Option<RequestId>,
}

impl StdioTransport {
    pub(super) fn open(output: Output, ended: CancellationToken) -> Self {
        let input = LineReader::spawn(MAX_LINE);
        Self { input, output, has_begun: false, input_closed: ended }
    }

    fn write_message(&self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        let line = serde_json::to_string(message)?;
        if self.output.enqueue_line(line) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    fn respond_error(&self, error: ErrorData, id: Option<RequestId>) {
        // Without a reader the connection ends.
        _ = self.write_message(&ServerJsonRpcMessage::error(error, id));
    }

    /// `None` if the line was answered or is ignored.
    fn parse_line(&mut self, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        let line = line.trim_ascii();
        let message = match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
            Ok(message) => message,
            Err(error) => {
                let message = serde_json::from_slice::<MessageHeader>(line);
                let id = message.as_ref().ok().and_then(|message| message.id.clone());
                let error = if error.is_data() {
                    let words =
                        "the line is no JSON-RPC message; each line is one request or notification";
                    ErrorData::invalid_request(words, None)
                } else {
                    ErrorData::parse_error(format!("the line is no JSON: {error}"), None)
                };
                self.respond_error(error, id);
                return None;
            }
        };
        self.check_handshake(message)
    }

    /// Before the handshake only some requests make sense.
    fn check_handshake(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        if self.has_begun {
            return Some(message);
        }
        let ClientJsonRpcMessage::Request(request) = &message else { return None };
        match &request.request {
            ClientRequest::InitializeRequest(_) => self.has_begun = true,
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => {}
            // From protocol version 2026-07-28 on each request can stand alone.
            other if other.get_meta().protocol_version().is_some() => self.has_begun = true,
            other => {
                let words =
                    format!("{}: send a complete `initialize` request first", other.method());
                self.respond_error(
                    ErrorData::invalid_request(words, None),
                    Some(request.id.clone()),
                );
                return None;
            }
        }
        Some(message)
    }
}

impl Transport<RoleServer> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        std::future::ready(self.write_message(&message))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        while let Some(input) = self.input.next().await {
            match input {
                Ok(InputLine::Line(line)) => {
                    if let Some(message) = self.parse_line(&line) {
                        return Some(message);
                    }
                }
                Err(error) => {
                    agent_ui::print_notice(&format!("standard input: {error}"));
                    break;
                }
                Ok(InputLine::TooLong) => {
                    let words = format!("a message of more than {} MB is not read", MAX_LINE >> 20);
                    agent_ui::print_notice(&words);
                    self.respond_error(ErrorData::invalid_request(words, None), None);
                }
            }
        }
        self.input_closed.cancel();
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
