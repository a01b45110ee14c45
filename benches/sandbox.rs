//! What the sandbox costs: the start of a command in it, and the end of a tree of 200 processes.
//!
//! `cargo bench --bench sandbox` prints the tables of `docs/BENCHMARKS.md`. No assertion: a timing is a
//! figure with a ratio.
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::disallowed_methods, reason = "it starts what it measures")]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_host::exec::sandbox::{
    Sandbox, SandboxFacts, SandboxSettings, run_if_supervisor, temporary_directory,
};
use agent_host::exec::{self, Exec};
use agent_host::git_guard::{GitGuard, GuardPlaces, GuardReport};
use agent_protocol::settings::SandboxBackend as Backend;
use agent_protocol::tool::CommandRights;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const CALLS: usize = 300;
const TREES: usize = 7;

fn main() -> ExitCode {
    // It is its own supervisor where it uses `exec` itself.
    if let Some(code) = run_if_supervisor() {
        return ExitCode::from(code);
    }
    // Not in /tmp, which is private in the box.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    comparisons(dir.path());
    starts(dir.path());
    ends(dir.path());
    outputs(dir.path());
    ExitCode::SUCCESS
}

/// The comparison of git's state before and after a command.
fn comparisons(dir: &Path) {
    let root = dir.join("repository").canonicalize().unwrap_or_else(|_| {
        std::fs::create_dir(dir.join("repository")).unwrap();
        dir.join("repository").canonicalize().unwrap()
    });
    let script = "git init -q lib; git -C lib commit -q --allow-empty -m x; git init -q .; git commit -q --allow-empty -m x; \
                  for n in $(seq 10); do git -c protocol.file.allow=always submodule --quiet add ./lib m$n; \
                  git worktree add -q w$n; done";
    let mut git = Command::new("bash");
    git.args(["-ec", script]).current_dir(&root);
    for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"]
    {
        git.env(name, "x");
    }
    assert!(git.output().unwrap().status.success());
    let nested = (1..=10).flat_map(|n| [root.join(format!("m{n}")), root.join(format!("w{n}"))]);
    let places = GuardPlaces {
        roots: vec![root.clone()],
        git_directories: vec![root.join(".git")],
        writable: vec![root.clone()],
        user_settings: Vec::new(),
    };
    let guard = GitGuard::new(places, Arc::new(|_, _| None));
    guard.set_nested(Some(&nested.collect()));
    let mut times: Vec<Duration> = (0..CALLS)
        .map(|_| {
            let started = Instant::now();
            guard.begin(Vec::new(), false, None);
            let report = guard.finish(CommandRights::default(), false, None);
            assert_eq!(report, GuardReport::default());
            started.elapsed()
        })
        .collect();
    println!("| comparison of git's state, 10 submodules and 10 worktrees | ms |\n|---|---|");
    println!("| before and after a command | {:.2} |\n", millis(median(&mut times)));
}

/// Through the built binary: `true`, over and over, one of each in turn, so that what else the machine does
/// meets all alike.
fn starts(dir: &Path) {
    let settings =
        ["sandbox.enabled=false", "sandbox.backend=namespaces", "sandbox.backend=landlock"];
    let mut agents: Vec<Agent> =
        settings.iter().map(|setting| Agent::start(dir, setting)).collect();
    let mut times = vec![Vec::new(); 1 + agents.len()];
    for n in 0..CALLS {
        times[0].push(plain(dir, n));
        for (agent, times) in agents.iter_mut().zip(&mut times[1..]) {
            times.push(agent.call(n));
        }
    }
    println!(
        "| start and end of a command | quiet ms | more | median ms | more |\n|---|---|---|---|---|"
    );
    let names = [
        "`bash -c true`, started directly",
        "the same through the agent, no sandbox",
        "in namespaces",
        "with Landlock alone",
    ];
    let figures: Vec<(f64, f64)> =
        times.iter_mut().map(|times| (millis(quiet(times)), millis(median(times)))).collect();
    for (name, (quiet, median)) in names.iter().zip(&figures) {
        let (base, base_median) = figures[0];
        let (more, more_median) = (quiet - base, median - base_median);
        println!("| {name} | {quiet:.2} | {more:.2} | {median:.2} | {more_median:.2} |");
    }
}

fn plain(dir: &Path, n: usize) -> Duration {
    let line = format!("true {n}");
    let mut command = Command::new("bash");
    command.args(["--noprofile", "--norc", "-c", "--", &line]).current_dir(dir);
    let started = Instant::now();
    assert!(command.stdin(Stdio::null()).output().unwrap().status.success());
    started.elapsed()
}

/// `agent tool batch`, which answers one call after the other.
struct Agent {
    child: Child,
    answers: BufReader<ChildStdout>,
}

impl Agent {
    fn start(dir: &Path, setting: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command.args(["tool", "batch", "--permission-mode", "full", "--set", setting]);
        let mut child =
            command.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers }
    }

    fn call(&mut self, n: usize) -> Duration {
        self.run(&format!("true {n}")).0
    }

    fn run(&mut self, command: &str) -> (Duration, Value) {
        let call =
            json!({"id": 1, "name": "Bash", "input": {"command": command, "timeout_ms": 600_000}});
        let started = Instant::now();
        writeln!(self.child.stdin.as_mut().unwrap(), "{call}").unwrap();
        let mut answer = String::new();
        self.answers.read_line(&mut answer).unwrap();
        let time = started.elapsed();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["envelope"]["data"]["exit_code"], 0, "{answer}");
        (time, answer)
    }

    fn peak_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        _ = self.child.wait();
    }
}

/// A command that writes very much, against the same into a file.
fn outputs(dir: &Path) {
    println!(
        "\n| output | agent ms | into a file ms | ratio | peak memory |\n|---|---|---|---|---|"
    );
    for mb in [10, 100, 1000] {
        let line = format!("yes 'a line of output, as long as lines are' | head -c {mb}000000");
        let (mut ours, mut theirs, mut peak) = (Vec::new(), Vec::new(), 0.0_f64);
        for _ in 0..3 {
            let mut agent = Agent::start(dir, "sandbox.backend=namespaces");
            agent.call(1);
            let (time, answer) = agent.run(&line);
            ours.push(time);
            peak = peak.max(agent.peak_mib());
            let kept = answer["envelope"]["data"]["full_output"].as_str().unwrap();
            assert_eq!(std::fs::metadata(kept).unwrap().len(), mb * 1_000_000);
            std::fs::remove_file(kept).unwrap();
            let file = dir.join("output");
            let started = Instant::now();
            let mut command = Command::new("bash");
            command.args(["-c", &format!("{line} > output")]).current_dir(dir);
            assert!(command.status().unwrap().success());
            theirs.push(started.elapsed());
            std::fs::remove_file(file).unwrap();
        }
        let (ours, theirs) = (millis(median(&mut ours)), millis(median(&mut theirs)));
        println!("| {mb} MB | {ours:.0} | {theirs:.0} | {:.2} | {peak:.1} MiB |", ours / theirs);
    }
}

/// From the cancellation until the command has answered; and whether anything of it still runs.
fn ends(dir: &Path) {
    println!("\n| end of a tree of 200 processes | ms | left over |\n|---|---|---|");
    let rows = [
        ("no sandbox", None),
        ("in namespaces", Some(Backend::Namespaces)),
        ("with Landlock alone", Some(Backend::Landlock)),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (what, backend) in rows {
        let mut times = Vec::new();
        let mut n_left = 0;
        for n in 0..TREES {
            let id = format!("{}{n}", std::process::id());
            let mut exec = Exec::new(&[]);
            if let Some(backend) = backend {
                let root = dir.to_path_buf();
                let temporary = temporary_directory(std::slice::from_ref(&root));
                let cache = temporary.with_file_name("cache");
                let facts = SandboxFacts { root, temporary, cache, ..SandboxFacts::default() };
                match Sandbox::open(SandboxSettings {
                    backend,
                    facts,
                    ..SandboxSettings::default()
                }) {
                    Ok(sandbox) => {
                        exec = exec.with_sandbox(sandbox, std::sync::Arc::new(|_, _| None));
                    }
                    Err(error) => {
                        println!("| {what} | {error} | |");
                        return;
                    }
                }
            }
            times.push(runtime.block_on(end_of_tree(&exec, dir, &id)));
            n_left += running(&id);
        }
        println!("| {what} | {:.1} | {n_left} |", millis(median(&mut times)));
    }
}

async fn end_of_tree(exec: &Exec, dir: &Path, id: &str) -> Duration {
    // Four of each: a shell that ignores signals in a session of its own, and what it started.
    let line = format!(
        "for n in $(seq 50); do\n\
         setsid bash -c 'trap \"\" TERM HUP; nohup sleep 1000.{id} >/dev/null 2>&1 & \
         (setsid sleep 1000.{id} &) ; (setsid -f sleep 1000.{id}); wait; sleep 1000.{id}' &\n\
         done; wait"
    );
    let command = exec::Command::new(line, dir.to_path_buf(), Duration::from_mins(2));
    let cancel = CancellationToken::new();
    let started = async {
        while running(&format!("1000.{id}")) < 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let now = Instant::now();
        cancel.cancel();
        now
    };
    let (outcome, began) = tokio::join!(exec.run(command, &cancel), started);
    assert_eq!(outcome.unwrap().end_reason, exec::EndReason::Cancelled);
    began.elapsed()
}

fn running(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

/// What one in ten stays below: what it takes when nothing else runs.
fn quiet(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 10]
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
