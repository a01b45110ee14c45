//! The connection to the client of `agent mcp serve`: one JSON-RPC message per line of standard input and output.

use std::collections::VecDeque;
use std::io;

use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, GetMeta as _, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Deserialize;
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use crate::cli::stdin::{self, Input, MAX_LINE};
use crate::cli::stdout::Output;

/// The input, and where errors of messages go that rmcp does not understand.
pub(super) struct Stdio {
    input: Receiver<io::Result<Vec<Input>>>,
    read: VecDeque<Input>,
    output: Output,
    has_begun: bool,
    /// The client closed our input.
    ended: CancellationToken,
}

/// A message of which only the id is of interest.
#[derive(Deserialize)]
struct Message {
    id: Option<RequestId>,
}

impl Stdio {
    /// `ended` is cancelled when the client closes our input.
    pub(super) fn open(output: Output, ended: CancellationToken) -> Self {
        let input = stdin::lines(MAX_LINE);
        Self { input, read: VecDeque::new(), output, has_begun: false, ended }
    }

    /// What the client sent next. Cancel safe.
    async fn next(&mut self) -> Option<Input> {
        loop {
            if let Some(input) = self.read.pop_front() {
                return Some(input);
            }
            match self.input.recv().await? {
                Ok(lines) => self.read.extend(lines),
                Err(error) => {
                    agent_ui::tell(&format!("standard input: {error}"));
                    return None;
                }
            }
        }
    }

    fn put(&self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        if self.output.put(line) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// Answers a message that is no request or cannot be handled.
    fn refuse(&self, error: ErrorData, id: Option<RequestId>) {
        // (If nobody reads, the connection ends.)
        _ = self.put(&ServerJsonRpcMessage::error(error, id));
    }

    /// The message of a line; `None` if it was answered or is ignored.
    fn understood(&mut self, line: &[u8]) -> Option<ClientJsonRpcMessage> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return None;
        }
        let message = match serde_json::from_slice::<ClientJsonRpcMessage>(line) {
            Ok(message) => message,
            Err(error) => {
                let message = serde_json::from_slice::<Message>(line);
                let id = message.as_ref().ok().and_then(|message| message.id.clone());
                let error = if error.is_data() {
                    let words =
                        "the line is no JSON-RPC message; each line is one request or notification";
                    ErrorData::invalid_request(words, None)
                } else {
                    ErrorData::parse_error(format!("the line is no JSON: {error}"), None)
                };
                self.refuse(error, id);
                return None;
            }
        };
        self.in_order(message)
    }

    /// Before the handshake only some requests make sense.
    fn in_order(&mut self, message: ClientJsonRpcMessage) -> Option<ClientJsonRpcMessage> {
        if self.has_begun {
            return Some(message);
        }
        let ClientJsonRpcMessage::Request(request) = &message else { return None };
        match &request.request {
            ClientRequest::InitializeRequest(_) => self.has_begun = true,
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => {}
            // (From protocol version 2026-07-28 on each request can stand alone.)
            other if other.get_meta().protocol_version().is_some() => self.has_begun = true,
            other => {
                let words =
                    format!("{}: send a complete `initialize` request first", other.method());
                self.refuse(ErrorData::invalid_request(words, None), Some(request.id.clone()));
                return None;
            }
        }
        Some(message)
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        std::future::ready(self.put(&message))
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        while let Some(input) = self.next().await {
            match input {
                Input::Line(line) => {
                    if let Some(message) = self.understood(&line) {
                        return Some(message);
                    }
                }
                Input::TooLong => {
                    let words = format!("a message of more than {} MB is not read", MAX_LINE >> 20);
                    agent_ui::tell(&words);
                    self.refuse(ErrorData::invalid_request(words, None), None);
                }
            }
        }
        self.ended.cancel();
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}
