//! The end of a connection: the editor closes its end, dies, or the program is ended.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};

use serde_json::{Value, json};

use super::editor::{Running, start};
use crate::support::{Test, running, signal, wait_for};

/// A connection by raw lines.
pub(super) struct Raw {
    pub(super) agent: Running,
    stdout: BufReader<std::process::ChildStdout>,
    n: u64,
}

impl Raw {
    pub(super) fn start(test: &Test, args: &[&str]) -> Self {
        let mut agent = start(test, args);
        let stdout = BufReader::new(agent.0.stdout.take().unwrap());
        Self { agent, stdout, n: 0 }
    }

    /// A connection with a session in the project.
    pub(super) fn opened(test: &Test, args: &[&str]) -> (Self, String) {
        let mut raw = Self::start(test, args);
        raw.initialize();
        let new = json!({"cwd": test.root(), "mcpServers": []});
        let opened = raw.request("session/new", &new);
        let id = opened["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{opened}"));
        (raw, id.to_owned())
    }

    pub(super) fn initialize(&mut self) -> Value {
        self.request("initialize", &json!({"protocolVersion": 1, "clientCapabilities": {}}))
    }

    pub(super) fn line(&mut self, line: &[u8]) {
        let stdin = self.agent.0.stdin.as_mut().unwrap();
        stdin.write_all(line).unwrap();
        stdin.write_all(b"\n").unwrap();
    }

    /// Sends a request; returns its id.
    pub(super) fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.n += 1;
        let request = json!({"jsonrpc": "2.0", "id": self.n, "method": method, "params": params});
        self.line(request.to_string().as_bytes());
        self.n
    }

    pub(super) fn prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{"type": "text", "text": text}]);
        self.send("session/prompt", &json!({"sessionId": session, "prompt": prompt}))
    }

    /// Sends a request; returns its response.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.response(id)
    }

    /// The response to a request; other messages are skipped.
    pub(super) fn response(&mut self, id: u64) -> Value {
        self.until(|message| message["id"] == id && message.get("method").is_none())
    }

    /// The next message for which this is true.
    pub(super) fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the agent ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if is_it(&message) {
                return message;
            }
        }
    }

    /// Closes the agent's input; returns the rest of its output and its exit code.
    pub(super) fn close(mut self) -> (String, Option<i32>) {
        drop(self.agent.0.stdin.take());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (rest, self.agent.0.wait().unwrap().code())
    }
}

/// A command that runs until the file `go` exists, and can be recognised.
fn waiting(mark: &str) -> String {
    format!(
        "call: Bash {{\"command\":\"until [ -e go ]; do sleep 0.0{mark}; done\"}}\n---\ntext: went on"
    )
}

#[test]
fn closed_input_lets_the_turn_finish() {
    let test = Test::new().script(&waiting("51"));
    let (mut raw, session) = Raw::opened(&test, &["--permission-mode", "auto-edit"]);
    let id = raw.prompt(&session, "wait");
    wait_for(|| test.has_event("tool.started"));
    let go = std::thread::spawn({
        let root = test.root();
        move || {
            std::thread::sleep(std::time::Duration::from_millis(300));
            std::fs::write(root.join("go"), "").unwrap();
        }
    });
    let (rest, code) = raw.close();
    go.join().unwrap();
    assert_eq!(code, Some(0));
    let last: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!((&last["id"], &last["result"]["stopReason"]), (&json!(id), &json!("end_turn")));
    assert!(rest.contains("went on"), "{rest}");
    assert!(test.has_event("session.summary"));
}

#[test]
fn closed_input_cancels_a_turn_that_waits_for_a_permission() {
    let test =
        Test::new().script("call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: done");
    let (mut raw, session) = Raw::opened(&test, &[]);
    let id = raw.prompt(&session, "write");
    raw.until(|message| message["method"] == "session/request_permission");
    let (rest, code) = raw.close();
    assert_eq!(code, Some(0));
    let last: Value = serde_json::from_str(rest.lines().last().unwrap()).unwrap();
    assert_eq!((&last["id"], &last["result"]["stopReason"]), (&json!(id), &json!("cancelled")));
    assert!(!test.root().join("a").exists());
}

#[test]
fn dead_editor_leaves_no_process() {
    let test = Test::new().script(&waiting("52"));
    let (mut raw, session) = Raw::opened(&test, &["--permission-mode", "auto-edit"]);
    raw.prompt(&session, "wait");
    wait_for(|| test.has_event("tool.started") && !running("sleep 0.052").is_empty());
    // As if the editor had been killed: nothing is written meanwhile.
    let Raw { mut agent, stdout, .. } = raw;
    drop(agent.0.stdin.take());
    drop(stdout);
    agent.0.wait().unwrap();
    assert_eq!(running("sleep 0.052"), [""; 0]);
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "terminated");
    assert!(test.has_event("session.summary"));
}

#[test]
fn signal_ends_every_turn_and_the_program() {
    let test = Test::new().script(&waiting("53"));
    let (mut raw, session) = Raw::opened(&test, &["--permission-mode", "auto-edit"]);
    let id = raw.prompt(&session, "wait");
    wait_for(|| test.has_event("tool.started"));
    signal(raw.agent.0.id(), "TERM");
    assert_eq!(raw.response(id)["result"]["stopReason"], "cancelled");
    assert_eq!(raw.agent.0.wait().unwrap().code(), Some(143));
    assert_eq!(running("sleep 0.053"), [""; 0]);
}

/// The editor does not read: the model waits, and nothing else.
#[test]
fn signal_ends_a_session_whose_updates_nobody_reads() {
    let long: String = (0..120_000).map(|n| format!("text: row {n:06} of an answer\n")).collect();
    let limits =
        "[models.\"script:../script\"]\ncontext_window = 2000000\nmax_output_tokens = 1000000\n";
    let script =
        "call: Bash {\"command\": \"sleep 0.54; sleep 600.54\", \"background\": true}\n---\n";
    let test = Test::new().user_config(limits).script(&format!("{script}{long}"));
    let (mut raw, session) = Raw::opened(&test, &["--permission-mode", "full"]);
    raw.prompt(&session, "go");
    wait_for(|| test.n_events("model.requested") == 2 && !running("sleep 600.54").is_empty());
    signal(raw.agent.0.id(), "TERM");
    let asked = std::time::Instant::now();
    assert_eq!(raw.agent.0.wait().unwrap().code(), Some(143));
    assert!(asked.elapsed() < std::time::Duration::from_secs(10), "{:?}", asked.elapsed());
    assert_eq!(running("sleep 600.54"), [""; 0]);
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "terminated");
}
