//! A task of 40 turns against a scripted server on loopback: 38 reads and searches, one edit, a final
//! answer. Next to it, in the same run, a bare script that only posts the same number of requests.
//!
//! `cargo bench --bench forty_turns` prints the table of `docs/BENCHMARKS.md`. No assertion: a timing is
//! a figure with a ratio.
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::disallowed_methods, reason = "it starts what it measures")]

#[path = "../tests/it/support/server.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod server;

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use server::{Reply, Server, sse_calls, sse_text};

const TURNS: usize = 40;
const RUNS: usize = 15;

/// What one run came to.
#[derive(Clone, Copy, Default)]
struct Figures {
    first_request: Duration,
    per_turn: Duration,
    per_turn_early: Duration,
    per_turn_late: Duration,
    total: Duration,
    cpu: Duration,
    peak_kib: u64,
    connections: usize,
}

#[derive(Default)]
struct Seen {
    requests: Vec<Instant>,
    answers: Vec<Instant>,
    pid: u32,
    peak_kib: u64,
    cpu: Duration,
}

fn answer(turn: usize) -> Reply {
    match turn {
        20 => {
            let path = "src/module_18.rs";
            let edit =
                json!({"path": path, "old_string": "fn f18_0(", "new_string": "fn renamed("});
            sse_calls(&[("Edit", edit)])
        }
        t if t + 1 == TURNS => sse_text("Renamed the function in src/module_18.rs."),
        18 => sse_calls(&[("Read", json!({"path": "src/module_18.rs"}))]),
        t if t % 3 == 0 => sse_calls(&[("Grep", json!({"pattern": format!("fn f{t}_1\\b")}))]),
        t if t % 7 == 0 => sse_calls(&[("Glob", json!({"pattern": format!("**/*_{t}.rs")}))]),
        t => sse_calls(&[("Read", json!({"path": format!("src/module_{}.rs", t % 50)}))]),
    }
}

/// A project of 200 files.
fn project(root: &Path) {
    std::fs::create_dir_all(root.join("src")).unwrap();
    for n in 0..200 {
        let text: String =
            (0..40).map(|k| format!("fn f{n}_{k}(x: u32) -> u32 {{\n    x + {k}\n}}\n")).collect();
        std::fs::write(root.join(format!("src/module_{n}.rs")), text).unwrap();
    }
}

fn proc_figures(pid: u32) -> (u64, Duration) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |n: usize| fields.get(n).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    // utime and stime, in clock ticks of 10 ms.
    (peak, Duration::from_millis((ticks(11) + ticks(12)) * 10))
}

fn measure(command: impl Fn(&str, &Path) -> Command) -> Figures {
    let dir = tempfile::tempdir().unwrap();
    project(dir.path());
    let seen = Arc::new(Mutex::new(Seen::default()));
    let record = seen.clone();
    let server = Server::with(move |_, n| {
        let mut seen = record.lock().unwrap();
        seen.requests.push(Instant::now());
        if n + 1 == TURNS {
            (seen.peak_kib, seen.cpu) = proc_figures(seen.pid);
        }
        let reply = answer(n);
        seen.answers.push(Instant::now());
        reply
    });
    let mut command = command(&server.url(), dir.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    seen.lock().unwrap().pid = child.id();
    let status = child.wait().unwrap();
    let total = started.elapsed();
    assert!(status.success(), "the measured program failed: {status}");
    let requests = server.finish();
    assert_eq!(requests.len(), TURNS);
    let mut connections: Vec<usize> = requests.iter().map(|r| r.connection).collect();
    connections.dedup();
    let seen = seen.lock().unwrap();
    let gaps: Vec<Duration> =
        seen.answers.iter().zip(&seen.requests[1..]).map(|(a, r)| r.duration_since(*a)).collect();
    Figures {
        first_request: seen.requests[0].duration_since(started),
        per_turn: median(&gaps),
        per_turn_early: median(&reads(&gaps, 0..15)),
        per_turn_late: median(&reads(&gaps, 24..TURNS - 1)),
        total,
        cpu: seen.cpu,
        peak_kib: seen.peak_kib,
        connections: connections.len(),
    }
}

/// The gaps behind turns that only read a file: like is compared with like.
fn reads(gaps: &[Duration], turns: std::ops::Range<usize>) -> Vec<Duration> {
    turns.filter(|t| t % 3 != 0 && t % 7 != 0 && *t != 20).map(|t| gaps[t]).collect()
}

fn median(durations: &[Duration]) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort();
    sorted[sorted.len() / 2]
}

fn of(runs: &[Figures], part: impl Fn(&Figures) -> Duration) -> Duration {
    median(&runs.iter().map(part).collect::<Vec<_>>())
}

/// Posts the same number of requests over one connection, and does nothing else.
const BARE: &str = r"
import http.client, json, sys
from urllib.parse import urlparse
url = urlparse(sys.argv[1])
connection = http.client.HTTPConnection(url.hostname, url.port)
messages = [{'role': 'user', 'content': 'rename'}]
for _ in range(40):
    body = json.dumps({'model': 'm', 'stream': True, 'messages': messages})
    connection.request('POST', url.path + '/chat/completions', body, {'content-type': 'application/json'})
    messages.append({'role': 'assistant', 'content': connection.getresponse().read().decode()})
";

fn main() {
    let agent = env!("CARGO_BIN_EXE_agent");
    let home = tempfile::tempdir().unwrap();
    let ours = |url: &str, dir: &Path| {
        let mut command = Command::new(agent);
        command
            .args(["run", "rename a function", "--model", "openai/m", "--base-url", url])
            .current_dir(dir)
            .env("HOME", home.path());
        command
    };
    let bare = |url: &str, dir: &Path| {
        let mut command = Command::new("python3");
        command.args(["-c", BARE, url]).current_dir(dir);
        command
    };
    let has_python =
        Command::new("python3").arg("-V").stdout(Stdio::null()).status().is_ok_and(|s| s.success());
    let mut agents = Vec::new();
    let mut bares = Vec::new();
    // In turns, so that both meet the same load of the machine.
    for _ in 0..RUNS {
        agents.push(measure(ours));
        if has_python {
            bares.push(measure(bare));
        }
    }
    let version: Vec<Duration> = (0..200)
        .map(|_| {
            let started = Instant::now();
            Command::new(agent).arg("--version").stdout(Stdio::null()).status().unwrap();
            started.elapsed()
        })
        .collect();
    let spawn: Vec<Duration> = (0..200)
        .map(|_| {
            let started = Instant::now();
            Command::new("true").status().unwrap();
            started.elapsed()
        })
        .collect();

    println!("{:<44} {:>10} {:>12} {:>7}", "median of 15 runs", "agent", "bare script", "ratio");
    let row = |name: &str, part: &dyn Fn(&Figures) -> Duration| {
        let ours = of(&agents, part);
        if bares.is_empty() {
            println!("{name:<44} {:>8.2} ms", ours.as_secs_f64() * 1e3);
            return;
        }
        let theirs = of(&bares, part);
        println!(
            "{name:<44} {:>8.2} ms {:>9.2} ms {:>7.2}",
            ours.as_secs_f64() * 1e3,
            theirs.as_secs_f64() * 1e3,
            ours.as_secs_f64() / theirs.as_secs_f64()
        );
    };
    row("process start to first request", &|f| f.first_request);
    row("end of an answer to the next request", &|f| f.per_turn);
    row("  the same, reads in turns 1 to 15", &|f| f.per_turn_early);
    row("  the same, reads in turns 25 to 39", &|f| f.per_turn_late);
    row("40 turns in all", &|f| f.total);
    row("CPU time at the last request", &|f| f.cpu);
    let peak = agents.iter().map(|f| f.peak_kib).max().unwrap();
    println!("{:<44} {:>7.1} MiB", "peak memory", Duration::from_secs(peak).as_secs_f64() / 1024.0);
    println!("{:<44} {:>10}", "connections", agents[0].connections);
    let (version, spawn) = (median(&version), median(&spawn));
    println!(
        "{:<44} {:>8.2} ms {:>9.2} ms {:>7.2}   (bare: `true`)",
        "agent --version",
        version.as_secs_f64() * 1e3,
        spawn.as_secs_f64() * 1e3,
        version.as_secs_f64() / spawn.as_secs_f64()
    );
    let size = std::fs::metadata(agent).unwrap().len();
    println!(
        "{:<44} {:>7.1} MiB",
        "size of the binary",
        Duration::from_secs(size).as_secs_f64() / 1_048_576.0
    );
}
