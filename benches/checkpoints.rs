//! What checkpoints cost: manifests, the first store, and commands that may write.
//!
//! `cargo bench --bench checkpoints` prints the table of `docs/BENCHMARKS.md`. No assertion: a timing is a figure with
//! a ratio.
#![expect(clippy::cast_precision_loss, reason = "figures for people")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::disallowed_methods, reason = "it starts what it measures")]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_host::exec::git::Git;
use agent_host::workspace::{CheckpointLimits, CheckpointSettings, OperationScope, Workspace};
use serde_json::{Value, json};

const AGENT: &str = env!("CARGO_BIN_EXE_agent");

fn main() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    println!("| | ms | to reach |\n|---|---|---|");
    let small = tree(&dir.path().join("small"), 5_000, 10_000);
    let large = tree(&dir.path().join("large"), 50_000, 1_000);
    let heavy = tree(&dir.path().join("heavy"), 5_000, 40_000);
    let huge = tree(&dir.path().join("huge"), 100_001, 10);
    let empty = tree(&dir.path().join("empty"), 1, 10);
    // What changed in the last moments is hashed again.
    std::thread::sleep(Duration::from_secs(1));

    store("first store of 5,000 files, 50 MB", &small, &dir.path().join("s1"), 300);
    manifests("manifest of 5,000 unchanged files", &small, &dir.path().join("s1"), 15);
    store("first store of 50,000 files, 50 MB", &large, &dir.path().join("s2"), 0);
    manifests("manifest of 50,000 unchanged files", &large, &dir.path().join("s2"), 150);
    store("first store of 5,000 files, 200 MB", &heavy, &dir.path().join("s3"), 1500);
    let line = "git init -q && git add -A && git -c user.name=n -c user.email=e commit -qm first";
    run("bash", &["-c", line], &heavy);
    std::thread::sleep(Duration::from_secs(1));
    store("the same as a clean checkout", &heavy, &dir.path().join("s4"), 1500);
    println!("| its store | {:.2} MB | 5 MB |", size(&dir.path().join("s4")) / 1e6);

    println!("\n| a command | over `bash -c`, ms | to reach |\n|---|---|---|");
    for (name, project, goal) in [
        ("that may write, 1 file", &empty, "40"),
        ("that may write, 5,000 files", &small, "40"),
        ("that may write, 50,000 files", &large, "320"),
    ] {
        let mut agent = Agent::start(project, dir.path());
        agent.call("Bash", &json!({"command": "touch x-warm"}));
        std::thread::sleep(Duration::from_millis(300));
        let both = pairs(project, &mut agent, |n| format!("touch x{}", n % 2));
        println!("| {name} | {both:.2} | {goal} |");
    }
    for (name, project) in [("an empty project", &empty), ("100,001 files", &huge)] {
        let mut first: Vec<f64> = (0..15)
            .map(|_| {
                let mut agent = Agent::start(project, dir.path());
                agent.call("Read", &json!({"path": "d0/f0.txt"}));
                millis(agent.time("Bash", &json!({"command": "ls d0"}))) - plain(project, "ls d0")
            })
            .collect();
        println!("| that reads, the first in {name} | {:.2} | 15 |", median(&mut first));
        let mut agent = Agent::start(project, dir.path());
        let both = pairs(project, &mut agent, |n| format!("ls -a d0 | head -c {}", n + 1));
        println!("| that reads, later in {name} | {both:.2} | 5 |");
    }
    println!("\n| `agent tool call Read` | ms | `true` | to reach |\n|---|---|---|---|");
    for (name, project) in [("an empty project", &empty), ("100,001 files", &huge)] {
        let (mut times, mut peer) = (Vec::new(), Vec::new());
        for _ in 0..50 {
            let begun = Instant::now();
            run(AGENT, &["tool", "call", "Read", "{\"path\":\"d0/f0.txt\"}"], project);
            times.push(millis(begun.elapsed()));
            let begun = Instant::now();
            run("true", &[], project);
            peer.push(millis(begun.elapsed()));
        }
        println!("| {name} | {:.2} | {:.2} | 5 |", median(&mut times), median(&mut peer));
    }
}

/// So many files of so many bytes, a hundred in each directory.
fn tree(root: &Path, n_files: usize, n_bytes: usize) -> PathBuf {
    for n in 0..n_files {
        let directory = root.join(format!("d{}", n / 100));
        if n % 100 == 0 {
            fs::create_dir_all(&directory).unwrap();
        }
        let mut text = format!("{n}\n").repeat(n_bytes / 4);
        text.truncate(n_bytes);
        fs::write(directory.join(format!("f{n}.txt")), text).unwrap();
    }
    root.canonicalize().unwrap()
}

fn workspace(root: &Path, state: &Path) -> Workspace {
    fs::create_dir_all(state.join("session")).unwrap();
    Workspace::open(root, &[]).unwrap().with_checkpoints(CheckpointSettings {
        store: state.join("store"),
        session: state.join("session"),
        limits: CheckpointLimits::default(),
        read_blobs: Arc::new(|directory, ids| {
            Git::new(std::env::vars_os().collect()).read_blobs(directory, ids)
        }),
    })
}

fn store(name: &str, root: &Path, state: &Path, goal: u32) {
    let workspace = workspace(root, state);
    let begun = Instant::now();
    assert!(workspace.checkpoints().unwrap().coverage_gap().is_none());
    println!("| {name} | {:.0} | {goal} |", millis(begun.elapsed()));
}

fn manifests(name: &str, root: &Path, state: &Path, goal: u32) {
    let workspace = workspace(root, state);
    let checkpoints = workspace.checkpoints().unwrap();
    let begun = Instant::now();
    let before = bytes_read();
    assert!(checkpoints.coverage_gap().is_none());
    let (first, read) = (millis(begun.elapsed()), bytes_read() - before);
    let mut times: Vec<f64> = (0..11)
        .map(|_| {
            let operation =
                checkpoints.begin_operation("Bash", OperationScope::Project, &|_| false);
            let begun = Instant::now();
            checkpoints.finish_operation(operation, false, &|_| false).unwrap();
            millis(begun.elapsed())
        })
        .collect();
    println!("| {name} | {:.1} | {goal} |", median(&mut times));
    println!(
        "| the first of a second session, which reads {:.1} MB (the last manifest, the index of the store) | {first:.0} | |",
        read as f64 / 1e6
    );
}

/// Bytes that this process has read so far.
fn bytes_read() -> u64 {
    let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap_or(0)
}

fn run(program: &str, args: &[&str], directory: &Path) {
    let mut command = Command::new(program);
    let output = command.args(args).current_dir(directory).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn size(directory: &Path) -> f64 {
    let mut total = 0;
    let mut directories = vec![directory.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let data = entry.metadata().unwrap();
            if data.is_dir() {
                directories.push(entry.path());
            } else {
                total += data.len();
            }
        }
    }
    total as f64
}

/// The median of what a command takes longer through the agent, one of each in turn.
fn pairs(project: &Path, agent: &mut Agent, line: impl Fn(usize) -> String) -> f64 {
    let mut more: Vec<f64> = (0..31)
        .map(|n| {
            let plain = plain(project, &line(n));
            millis(agent.time("Bash", &json!({"command": line(n)}))) - plain
        })
        .collect();
    median(&mut more)
}

fn plain(project: &Path, line: &str) -> f64 {
    let begun = Instant::now();
    run("bash", &["--noprofile", "--norc", "-c", line], project);
    millis(begun.elapsed())
}

/// `agent tool batch --record`.
struct Agent {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Agent {
    fn start(project: &Path, state: &Path) -> Self {
        let mut command = Command::new(AGENT);
        command.args(["tool", "batch", "--record", "--allow", "Bash"]).current_dir(project);
        command.env("XDG_STATE_HOME", state.join("state"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    fn call(&mut self, name: &str, input: &Value) -> Value {
        let line = json!({"id": 1, "name": name, "input": input});
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_ne!(answer["envelope"]["status"], "error", "{answer}");
        answer
    }

    fn time(&mut self, name: &str, input: &Value) -> Duration {
        let begun = Instant::now();
        self.call(name, input);
        begun.elapsed()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
