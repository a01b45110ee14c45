//! What it costs to read and judge a command line: at most 100 µs for an ordinary one.
//!
//! `cargo bench --bench judge` prints the table of `docs/BENCHMARKS.md`.
#![expect(clippy::print_stdout, reason = "it prints its table")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use agent_permission::{CommandLine, PathFacts, PathKind, Policy};
use agent_protocol::control::PermissionMode;
use agent_protocol::tool::Effect;

/// Answers without a file system.
struct Files;

impl PathFacts for Files {
    fn kind(&self, _: &str) -> PathKind {
        PathKind::Covered
    }
}

fn main() {
    let policy = Policy::new(PermissionMode::AutoEdit, true);
    println!("{:<52} {:>10} {:>10}", "median and worst of 2,000", "median", "worst");
    let script =
        "for f in src/*.rs; do\n  grep -q TODO \"$f\" && echo \"$f\"\ndone | sort > new.txt\n";
    let long = script.repeat(50);
    let deep = format!("{}a{}", "$(".repeat(10_000), ")".repeat(10_000));
    let garbage: String = "'\"`$({<<X\n|&;".repeat(5_000);
    for (name, line, runs) in [
        ("cargo test --lib", "cargo test --lib", 2000),
        ("a pipeline of three", "cargo test 2>&1 | grep -v warning | tail -50", 2000),
        ("git add and commit", "git add -A && git commit -m \"$(cat msg)\" && git status", 2000),
        ("a here-document", "cat > new.txt <<'EOF'\nsome text\nof two lines\nEOF", 2000),
        ("through wrappers", "timeout 60 env X=1 bash -c 'cd src && rm -rf build'", 2000),
        ("a script of 150 lines", &long, 200),
        ("10,000 deep", &deep, 5),
        ("60 KB of garbage", &garbage, 5),
    ] {
        let mut took: Vec<Duration> = (0..runs)
            .map(|_| {
                // The last line is cached: read another one before.
                black_box(CommandLine::parse(""));
                let started = Instant::now();
                let reads_only = CommandLine::parse(line).is_read_only();
                let effect = Effect::Command {
                    command: line.to_owned(),
                    directory: ".".to_owned(),
                    reads_only,
                    programs: Vec::new(),
                    unproven: Vec::new(),
                    background: false,
                };
                black_box(policy.rule_on("Bash", &effect, &Files));
                started.elapsed()
            })
            .collect();
        took.sort();
        let us = |duration: Duration| format!("{:.1} µs", duration.as_secs_f64() * 1e6);
        println!("{name:<52} {:>10} {:>10}", us(took[took.len() / 2]), us(took[took.len() - 1]));
    }
}
