//! What the sandbox costs: the start of a command in it, and the end of a tree of 200 processes.
//!
//! `cargo bench --bench sandbox` prints the tables of `docs/BENCHMARKS.md`. No assertion: a timing is a
//! figure with a ratio.
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::disallowed_methods, reason = "it starts what it measures")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use code_agent::exec::sandbox::{Backend, Sandbox, Settings, supervise};
use code_agent::exec::{self, Exec};
use tokio_util::sync::CancellationToken;

const CALLS: usize = 300;
const ROUNDS: usize = 5;
const TREES: usize = 7;

fn main() -> ExitCode {
    // It is its own supervisor where it uses `exec` itself.
    if let Some(code) = supervise() {
        return ExitCode::from(code);
    }
    // Not in /tmp, which is private in the box.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    starts(dir.path());
    ends(dir.path());
    ExitCode::SUCCESS
}

/// Through the built binary: `true`, over and over.
fn starts(dir: &Path) {
    let rows = [
        ("bash -c true, started directly", None),
        ("the same through the agent, no sandbox", Some("sandbox.enabled=false")),
        ("in namespaces", Some("sandbox.backend=namespaces")),
        ("with Landlock alone", Some("sandbox.backend=landlock")),
    ];
    let mut times = vec![Vec::new(); rows.len()];
    for _ in 0..ROUNDS {
        for ((_, setting), times) in rows.iter().zip(&mut times) {
            times.push(match setting {
                None => plain(dir),
                Some(setting) => batch(dir, setting),
            });
        }
    }
    println!("| start and end of a command | ms | more than directly |\n|---|---|---|");
    let base = median(&mut times[0]);
    for ((what, _), times) in rows.iter().zip(&mut times) {
        let time = median(times);
        println!("| {what} | {:.2} | {:.2} |", millis(time), millis(time) - millis(base));
    }
}

fn plain(dir: &Path) -> Duration {
    let started = Instant::now();
    for n in 0..CALLS {
        let line = format!("true {n}");
        let mut command = Command::new("bash");
        command.args(["--noprofile", "--norc", "-c", "--", &line]).current_dir(dir);
        assert!(command.stdin(Stdio::null()).output().unwrap().status.success());
    }
    started.elapsed() / u32::try_from(CALLS).unwrap()
}

/// One process answers all; what it costs to start it is measured with one call and taken away.
fn batch(dir: &Path, setting: &str) -> Duration {
    let run = |n_calls: usize| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command.args(["tool", "batch", "--permission-mode", "full", "--set", setting]);
        command.current_dir(dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().unwrap();
        let lines: String = (0..n_calls)
            .map(|n| {
                format!("{{\"id\":{n},\"name\":\"Bash\",\"input\":{{\"command\":\"true {n}\"}}}}\n")
            })
            .collect();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let answers = String::from_utf8_lossy(&output.stdout);
        assert_eq!(answers.matches("\"exit_code\":0").count(), n_calls, "{answers}");
        started.elapsed()
    };
    let few = run(1);
    run(CALLS + 1).checked_sub(few).unwrap() / u32::try_from(CALLS).unwrap()
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
                match Sandbox::open(Settings { backend, root, ..Settings::default() }) {
                    Ok(sandbox) => exec = exec.with_sandbox(sandbox),
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
    assert_eq!(outcome.unwrap().ended, exec::Ended::Cancelled);
    began.elapsed()
}

fn running(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(text)).count()
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
