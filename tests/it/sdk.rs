//! A program drives a session: `--input-format stream-json`, with the control protocol of the Claude Agent SDK.

mod bad_input;
mod control;
mod hooks;
mod permission;
mod servers;
mod turns;
mod unread;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Test;

/// How long a line may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program at the other end of the binary.
pub(super) struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
    n_requests: usize,
}

impl Program {
    /// Starts the binary with the script and these options.
    pub(super) fn start(test: &Test, args: &[&str]) -> Self {
        let model = ["--model", "script:../script"];
        Self::start_with(test, &[&model[..], args].concat())
    }

    /// The same with a model of its own.
    pub(super) fn start_with(test: &Test, args: &[&str]) -> Self {
        Self::spawn(test.command(&[&STREAMS[..], args].concat()))
    }

    pub(super) fn spawn(command: Command) -> Self {
        let (begin, begun) = channel();
        begin.send(()).unwrap();
        Self::reading_from(command, begun)
    }

    /// The same; it begins to read when it is told so.
    fn reading_from(mut command: Command, begun: Receiver<()>) -> Self {
        let stderr = std::fs::File::create("/dev/null").unwrap();
        command.stdin(std::process::Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            // (If nobody tells it, the test is over.)
            if begun.recv().is_err() {
                return;
            }
            for line in stdout.lines().map_while(Result::ok) {
                let line = serde_json::from_str(&line).expect(&line);
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, stdin, lines, n_requests: 0 }
    }

    pub(super) fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(line.as_bytes()).unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    pub(super) fn send(&mut self, message: &Value) {
        self.send_line(&message.to_string());
    }

    /// Sends a message of the user.
    pub(super) fn say(&mut self, text: &str) {
        self.send(&user(text));
    }

    /// The next line.
    #[track_caller]
    pub(super) fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    /// The lines up to the first one that fits.
    #[track_caller]
    pub(super) fn until(&self, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut lines = Vec::new();
        loop {
            lines.push(self.next());
            if lines.last().is_some_and(&fits) {
                return lines;
            }
        }
    }

    /// The lines up to the result of the turn.
    #[track_caller]
    pub(super) fn result(&self) -> Vec<Value> {
        self.until(|line| line["type"] == "result")
    }

    /// The next request of the binary of this kind.
    #[track_caller]
    pub(super) fn asked(&self, subtype: &str) -> Value {
        let asked = |line: &Value| {
            line["type"] == "control_request" && line["request"]["subtype"] == subtype
        };
        self.until(asked).pop().unwrap()
    }

    /// Sends a control request; returns its id.
    pub(super) fn request(&mut self, request: &Value) -> String {
        self.n_requests += 1;
        let id = format!("r{}", self.n_requests);
        self.send(&json!({"type": "control_request", "request_id": id, "request": request}));
        id
    }

    /// Sends a control request, and waits for the answer. Lines before it are dropped.
    #[track_caller]
    pub(super) fn ask(&mut self, request: &Value) -> Value {
        let id = self.request(request);
        self.answer_to(&id)
    }

    #[track_caller]
    pub(super) fn answer_to(&self, id: &str) -> Value {
        let is_answer = |line: &Value| {
            line["type"] == "control_response" && line["response"]["request_id"] == id
        };
        self.until(is_answer).pop().unwrap()["response"].take()
    }

    /// Answers a request of the binary.
    pub(super) fn answer(&mut self, request: &Value, response: &Value) {
        let id = &request["request_id"];
        self.send(&json!({
            "type": "control_response",
            "response": {"subtype": "success", "request_id": id, "response": response},
        }));
    }

    /// Closes standard input; the remaining lines and the exit code.
    pub(super) fn finish(mut self) -> (Vec<Value>, Option<i32>) {
        self.stdin = None;
        let mut lines = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            lines.push(line);
        }
        (lines, self.child.wait().unwrap().code())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if std::thread::panicking() {
            _ = self.child.kill();
            _ = self.child.wait();
        }
    }
}

/// The formats, as programs select them: without a command.
const STREAMS: [&str; 5] =
    ["--output-format", "stream-json", "--verbose", "--input-format", "stream-json"];

pub(super) fn user(text: &str) -> Value {
    json!({"type": "user", "session_id": "", "message": {"role": "user", "content": text},
           "parent_tool_use_id": null})
}

/// The types of lines, with their subtypes.
pub(super) fn kinds(lines: &[Value]) -> Vec<String> {
    let kind = |line: &Value| {
        let kind = line["type"].as_str().unwrap();
        line["subtype"].as_str().map_or_else(|| kind.to_owned(), |sub| format!("{kind} {sub}"))
    };
    lines.iter().map(kind).collect()
}
