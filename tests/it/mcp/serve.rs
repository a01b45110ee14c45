//! `agent mcp serve`: the tools for another agent, as raw messages and with rmcp's client.

mod bad_input;
mod client;
mod ends;
mod tools;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::support::Test;

/// A running server and the client's side of the connection.
pub(crate) struct Peer {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    last_id: u64,
}

impl Peer {
    /// Starts the server; the client has not begun.
    fn start(test: &Test, options: &[&str]) -> Self {
        let mut command = test.command(&[&["mcp", "serve"], options].concat());
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout, last_id: 0 }
    }

    /// The same after the handshake.
    pub(crate) fn connect(test: &Test, options: &[&str]) -> Self {
        let mut peer = Self::start(test, options);
        peer.initialize();
        peer
    }

    fn initialize(&mut self) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client
        });
        let answer = self.request("initialize", &params);
        self.notify("notifications/initialized", &json!({}));
        answer
    }

    /// Sends a raw line.
    fn line(&mut self, line: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line).and_then(|()| stdin.write_all(b"\n")).unwrap();
    }

    fn notify(&mut self, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.line(message.to_string().as_bytes());
    }

    /// Sends a request; `answer` reads the result.
    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.line(message.to_string().as_bytes());
        id
    }

    /// The next message; each line of standard output must be one.
    #[track_caller]
    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    #[track_caller]
    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn send_call(&mut self, tool: &str, input: &Value) -> u64 {
        self.send("tools/call", &json!({"name": tool, "arguments": input}))
    }

    /// Calls a tool; returns its result.
    #[track_caller]
    fn call(&mut self, tool: &str, input: &Value) -> Value {
        self.request("tools/call", &json!({"name": tool, "arguments": input}))["result"].take()
    }

    /// Closes the server's input; returns its exit code.
    fn close(&mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.stdin.take());
        _ = self.child.wait();
    }
}

/// The text of a result.
#[track_caller]
fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// The error code of a result; empty for a success.
fn code(result: &Value) -> &str {
    let code = result["_meta"]["agent/envelope"]["error"]["code"].as_str().unwrap_or_default();
    assert_eq!(result["isError"], !code.is_empty(), "{result}");
    code
}
