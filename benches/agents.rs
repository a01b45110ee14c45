//! Three sub-agents at once whose model takes 1 s for its answer, and one, with a scripted model.
//!
//! `cargo bench --bench agents` prints the rows of `docs/BENCHMARKS.md`. No assertion: a timing is a figure with a ratio.
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::disallowed_methods, reason = "it starts what it measures")]

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUNS: usize = 5;

/// The time of a run whose only answer calls these sub-agents, at best.
fn best(n_agents: usize, pause: &str) -> Duration {
    let dir = tempfile::tempdir().unwrap();
    let calls =
        "call: Task {\"prompt\": \"look\", \"subagent_type\": \"explore\"}\n".repeat(n_agents);
    let script = format!(
        "{calls}text: begin\n---\nfor: agent\ntimes: any\npause: {pause}\ntext: found\n---\ntext: done"
    );
    std::fs::create_dir(dir.path().join("project")).unwrap();
    std::fs::write(dir.path().join("script"), script).unwrap();
    let run = || {
        let begun = Instant::now();
        let status = Command::new(env!("CARGO_BIN_EXE_agent"))
            .args(["run", "go", "--quiet", "--model", "script:../script"])
            .current_dir(dir.path().join("project"))
            .env("HOME", dir.path())
            .stdout(Stdio::null())
            .status()
            .unwrap();
        assert!(status.success());
        begun.elapsed()
    };
    (0..RUNS).map(|_| run()).min().unwrap()
}

fn main() {
    let nothing = best(0, "0ms");
    for (n, pause) in [(1, "0ms"), (3, "0ms"), (1, "1s"), (3, "1s")] {
        let more = best(n, pause).saturating_sub(nothing);
        println!("{n} sub-agents of {pause}: {:.3} s more than a run without", more.as_secs_f64());
    }
}
