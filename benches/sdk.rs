//! What a program that drives a session waits for: the round trip of a control request, while the session is idle and
//! while a turn runs.
//!
//! `cargo bench --bench sdk` prints the lines of `docs/BENCHMARKS.md`. `AGENT` names another binary to measure.
#![expect(clippy::unwrap_used, reason = "a benchmark that can not go on ends")]
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::disallowed_methods, reason = "it starts what it measures")]

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Requests of one measurement.
const REQUESTS: usize = 1000;
/// The limit of the median.
const LIMIT: Duration = Duration::from_millis(2);

fn main() {
    let idle = round_trips(false);
    let busy = round_trips(true);
    for (what, times) in [("idle", idle), ("during a turn", busy)] {
        let (median, worst) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("control request, {what:<14} {median:>8.3?} (99 %: {worst:.3?})");
        assert!(median <= LIMIT, "a round trip takes too long");
    }
}

/// The binary with a session, and a program at its other end.
struct Driven {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    _home: TempDir,
}

impl Driven {
    fn start() -> Self {
        let binary =
            std::env::var_os("AGENT").unwrap_or_else(|| env!("CARGO_BIN_EXE_agent").into());
        let home = tempfile::tempdir().unwrap();
        let script = home.path().join("script");
        std::fs::write(&script, "times: any\npause: 30s\ntext: done").unwrap();
        let model = format!("script:{}", script.display());
        let streams = ["--input-format", "stream-json", "--output-format", "stream-json"];
        let mut child = Command::new(binary)
            .args(streams)
            .args(["--no-memory", "--model", &model])
            .current_dir(home.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", home.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines, _home: home }
    }

    fn send(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn until(&mut self, fits: impl Fn(&Value) -> bool) {
        loop {
            let line = self.lines.next().unwrap().unwrap();
            if fits(&serde_json::from_str(&line).unwrap()) {
                return;
            }
        }
    }

    fn round_trip(&mut self, subtype: &str) -> Duration {
        let begun = Instant::now();
        let request = json!({"subtype": subtype});
        self.send(&json!({"type": "control_request", "request_id": "r", "request": request}));
        self.until(|line| line["type"] == "control_response");
        begun.elapsed()
    }
}

/// The times of round trips, sorted.
fn round_trips(during_a_turn: bool) -> Vec<Duration> {
    let mut driven = Driven::start();
    driven.round_trip("initialize");
    if during_a_turn {
        let message = json!({"role": "user", "content": "wait"});
        driven.send(&json!({"type": "user", "message": message}));
        driven.until(|line| line["subtype"] == "init");
    }
    let requests = ["get_context_usage", "mcp_status"].into_iter().cycle().take(REQUESTS);
    let mut times: Vec<Duration> = requests.map(|it| driven.round_trip(it)).collect();
    times.sort();
    if during_a_turn {
        driven.round_trip("interrupt");
    }
    drop(driven.stdin);
    driven.child.wait().unwrap();
    times
}
