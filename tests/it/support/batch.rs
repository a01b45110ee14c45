//! `agent tool batch` as an interactive process, so that a test can change files between two calls
//! of one session.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::support::Test;

/// A running batch process.
pub(crate) struct Batch {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Batch {
    /// Starts this batch command.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    /// Sends a call and returns its envelope.
    #[track_caller]
    pub(crate) fn call(&mut self, name: &str, input: &Value) -> Value {
        self.send(name, input);
        self.answer().unwrap_or_else(|| panic!("no answer to {name} {input}"))
    }

    /// Sends a call; `answer` reads the result.
    pub(crate) fn send(&mut self, name: &str, input: &Value) {
        let line = json!({"id": 0, "name": name, "input": input});
        self.send_line(format!("{line}\n").as_bytes());
    }

    /// Sends a raw line.
    pub(crate) fn send_line(&mut self, line: &[u8]) {
        // If the process has ended, `answer` reports it.
        _ = self.stdin.as_mut().unwrap().write_all(line);
    }

    /// The next envelope, or `None` if the process has ended.
    pub(crate) fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        let mut answer: Value = serde_json::from_str(&line).ok()?;
        Some(answer["envelope"].take())
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes standard input and returns the exit code.
    pub(crate) fn end(&mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        drop(self.stdin.take());
        _ = self.child.wait();
    }
}

/// A project with a running batch.
pub(crate) struct Project {
    // Dropped before the directory it runs in.
    pub(crate) batch: Batch,
    pub(crate) test: Test,
}

impl Project {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let test = Test::new();
        for (path, text) in files {
            test.write(path, text);
        }
        Self::of(test)
    }

    pub(crate) fn of(test: Test) -> Self {
        Self { batch: Batch::start(&mut test.command(&["tool", "batch"])), test }
    }

    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.test.root().join(path)
    }

    pub(crate) fn bytes(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.at(path)).unwrap()
    }

    /// Sorted entries of a directory, to check that no temporary file is left.
    pub(crate) fn names(&self, folder: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.at(folder)).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[track_caller]
    pub(crate) fn call(&mut self, name: &str, input: &Value) -> Value {
        self.batch.call(name, input)
    }

    /// Sends a call that must end with `success`.
    #[track_caller]
    pub(crate) fn ok(&mut self, name: &str, input: &Value) -> Value {
        self.ends(name, input, "success")
    }

    /// Sends a call that must end with `partial`.
    #[track_caller]
    pub(crate) fn partial(&mut self, name: &str, input: &Value) -> Value {
        self.ends(name, input, "partial")
    }

    /// Sends a call that must end with this error.
    #[track_caller]
    pub(crate) fn fails(&mut self, name: &str, input: &Value, code: &str) -> Value {
        let envelope = self.ends(name, input, "error");
        assert_eq!(envelope["error"]["code"], code, "{name} {input}: {envelope}");
        envelope
    }

    #[track_caller]
    fn ends(&mut self, name: &str, input: &Value, status: &str) -> Value {
        let envelope = self.call(name, input);
        assert_eq!(envelope["status"], status, "{name} {input}: {envelope}");
        envelope
    }
}

/// The string at this JSON pointer of an envelope.
#[track_caller]
pub(crate) fn text<'a>(envelope: &'a Value, pointer: &str) -> &'a str {
    let value = envelope.pointer(pointer).and_then(Value::as_str);
    value.unwrap_or_else(|| panic!("no text at {pointer}: {envelope}"))
}

/// Asserts that the string at this pointer contains this part.
#[track_caller]
pub(crate) fn says(envelope: &Value, pointer: &str, part: &str) {
    let text = text(envelope, pointer);
    assert!(text.contains(part), "{part:?} is not in {text:?}");
}
