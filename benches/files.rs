//! The file tools against `rg`, `fd` and coreutils on a tree of 100,000 files and 1 GB, side by side in
//! one run. What is not installed is left out, and said.
//!
//! `cargo bench --bench files` prints the table of `docs/BENCHMARKS.md`; with names of parts behind it
//! (`-- search big folder small growth`) only those. What it works on is made once and kept beside
//! `target/bench-tree` (2.1 GB in all).
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::disallowed_methods, reason = "it starts what it measures")]

use std::fs::File;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const AGENT: &str = env!("CARGO_BIN_EXE_agent");
const RUNS: usize = 7;

fn main() {
    let tree = tree();
    println!("{:<46} {:>11} {:>11} {:>7}", "median of 7 runs", "agent", "peer", "ratio");
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let is_wanted = |name| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    if is_wanted("search") {
        searches(&tree);
    }
    if is_wanted("big") {
        big_file(&tree);
    }
    if is_wanted("folder") {
        large_folder(&tree);
    }
    if is_wanted("small") {
        small_reads(&tree);
    }
    if is_wanted("growth") {
        growth(&tree);
    }
}

fn row(name: &str, ours: Duration, peer: Option<Duration>) {
    let shown = |d: Duration| match d.as_secs_f64() * 1e6 {
        us if us < 1000.0 => format!("{us:.1} µs"),
        us => format!("{:.2} ms", us / 1e3),
    };
    match peer {
        Some(peer) => println!(
            "{name:<46} {:>11} {:>11} {:>7.2}",
            shown(ours),
            shown(peer),
            ours.as_secs_f64() / peer.as_secs_f64()
        ),
        None => println!("{name:<46} {:>11} {:>11}", shown(ours), "-"),
    }
}

fn median(mut durations: Vec<Duration>) -> Duration {
    durations.sort();
    durations[durations.len() / 2]
}

/// A command as a whole process, its output thrown away.
fn whole(command: &mut Command) -> Duration {
    let started = Instant::now();
    command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).status().unwrap();
    started.elapsed()
}

fn has(program: &str) -> bool {
    Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok()
}

fn tool(tree: &Path, name: &str, input: &Value) -> Command {
    let mut command = Command::new(AGENT);
    command.args(["tool", "call", name, &input.to_string()]).current_dir(tree);
    command
}

fn shell(tree: &Path, line: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(tree);
    command
}

/// Ours and the peer's in turns, so that both meet the same load.
fn against(
    name: &str,
    ours: &mut dyn FnMut() -> Duration,
    peer: Option<&mut dyn FnMut() -> Duration>,
) {
    let Some(peer) = peer else {
        return row(name, median((0..RUNS).map(|_| ours()).collect()), None);
    };
    let (mut us, mut them) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        us.push(ours());
        them.push(peer());
    }
    row(name, median(us), Some(median(them)));
}

fn searches(tree: &Path) {
    let rg = has("rg");
    let fd = ["fd", "fdfind"].into_iter().find(|name| has(name));
    if !rg {
        println!("rg is not installed: its column is empty");
    }
    if fd.is_none() {
        println!("fd is not installed: its column is empty");
    }
    for (name, pattern, peer) in [
        ("Grep, literal", "needle_4711", "rg -n needle_4711"),
        ("Grep, regex", r"fn \w+_77\(", r"rg -n 'fn \w+_77\('"),
        ("Grep, no match", "zzz_not_there", "rg -n zzz_not_there"),
        ("Grep, 10,000 matches", "ten_thousand", "rg -n ten_thousand"),
    ] {
        let input = json!({"pattern": pattern, "limit": 1000});
        let mut ours = || whole(&mut tool(tree, "Grep", &input));
        let mut theirs = || whole(&mut shell(tree, peer));
        against(name, &mut ours, rg.then_some(&mut theirs as &mut dyn FnMut() -> Duration));
    }
    let input = json!({"pattern": "**/*.rs", "limit": 200});
    let mut ours = || whole(&mut tool(tree, "Glob", &input));
    let line = format!("{} -e rs -t f", fd.unwrap_or("fd"));
    let mut theirs = || whole(&mut shell(tree, &line));
    let theirs = fd.map(|_| &mut theirs as &mut dyn FnMut() -> Duration);
    against("Glob **/*.rs, newest first", &mut ours, theirs);
    let input = json!({"pattern": "**/*.nothing"});
    let mut ours = || whole(&mut tool(tree, "Glob", &input));
    let line = format!("{} -e nothing -t f", fd.unwrap_or("fd"));
    let mut theirs = || whole(&mut shell(tree, &line));
    let theirs = fd.map(|_| &mut theirs as &mut dyn FnMut() -> Duration);
    against("Glob, no match", &mut ours, theirs);
}

/// One `agent tool batch`, whose tools say themselves how long they took.
struct Batch {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Batch {
    fn new(dir: &Path) -> Self {
        let mut command = Command::new(AGENT);
        command.args(["tool", "batch"]).current_dir(dir);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    fn call(&mut self, name: &str, input: &Value) -> (Value, Duration) {
        let line = json!({"id": 1, "name": name, "input": input});
        let started = Instant::now();
        writeln!(self.stdin, "{line}").unwrap();
        let mut answer = String::new();
        self.stdout.read_line(&mut answer).unwrap();
        let took = started.elapsed();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        (answer["envelope"].clone(), took)
    }

    fn ok(&mut self, name: &str, input: &Value) -> Duration {
        let (envelope, took) = self.call(name, input);
        assert_ne!(envelope["status"], "error", "{envelope}");
        took
    }

    fn peak_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib: f64 = peak.and_then(|p| p.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
        kib / 1024.0
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn big_file(tree: &Path) {
    let dir = tree.with_file_name("bench-big");
    std::fs::create_dir_all(&dir).unwrap();
    let log = dir.join("log14.txt");
    let n_lines = 14_000_000_u64;
    if !log.exists() {
        let mut out = BufWriter::new(File::create(&log).unwrap());
        for n in 0..n_lines {
            writeln!(
                out,
                "{n:09} a line of a log that is as long as lines of logs are, about so long"
            )
            .unwrap();
        }
        out.flush().unwrap();
    }
    let size = std::fs::metadata(&log).unwrap().len();
    println!("a file of {:.2} GiB:", Duration::from_millis(size / 1_048_576).as_secs_f64() / 1.024);
    let pages = [
        ("  Read, first page", json!({"path": "log14.txt"}), "head -n 500 log14.txt".to_owned()),
        (
            "  Read, a page in the middle",
            json!({"path": "log14.txt", "start_line": n_lines / 2}),
            format!(
                "sed -n '{},{}p;{}q' log14.txt",
                n_lines / 2,
                n_lines / 2 + 499,
                n_lines / 2 + 499
            ),
        ),
        (
            "  Read, last page",
            json!({"path": "log14.txt", "start_line": -500}),
            "tail -n 500 log14.txt".to_owned(),
        ),
    ];
    for (name, input, peer) in pages {
        let mut peak = 0.0_f64;
        let mut ours = || {
            let mut batch = Batch::new(&dir);
            // The process is there: only the call is measured.
            batch.ok("LS", &json!({}));
            let took = batch.ok("Read", &input);
            peak = peak.max(batch.peak_mib());
            took
        };
        let mut theirs = || whole(&mut shell(&dir, &peer));
        against(name, &mut ours, Some(&mut theirs));
        println!("{:<46} {peak:>7.1} MiB", "    peak memory");
    }
    let hundred = dir.join("hundred.txt");
    let head: String = (0..1_250_000)
        .map(|n| {
            format!("{n:09} a line of a file that is edited, as long as most lines are, or so\n")
        })
        .collect();
    std::fs::write(&hundred, &head).unwrap();
    let mut n = 0;
    let mut batch = Batch::new(&dir);
    let mut ours = || {
        n += 1;
        batch.ok("Read", &json!({"path": "hundred.txt", "start_line": 600_000 + n, "limit": 3}));
        // The page is there before the hash of the file is, and an edit waits for that; a model takes
        // longer to answer.
        std::thread::sleep(Duration::from_millis(300));
        let old = format!("{:09} a line", 600_000 + n);
        let new = format!("{:09} A LINE", 600_000 + n);
        let edit = json!({"path": "hundred.txt", "old_string": old, "new_string": new});
        batch.ok("Edit", &edit)
    };
    let mut theirs = || {
        whole(&mut shell(
            &dir,
            "sed -i 's/^000600900 a line/000600900 A LINE/' hundred.txt && sync hundred.txt",
        ))
    };
    against("Edit in a file of 86 MB, synced", &mut ours, Some(&mut theirs));
}

fn large_folder(tree: &Path) {
    let dir = tree.with_file_name("bench-folder");
    if !dir.join("file_099999").exists() {
        std::fs::create_dir_all(&dir).unwrap();
        for n in 0..100_000 {
            File::create(dir.join(format!("file_{n:06}"))).unwrap();
        }
    }
    let mut ours = || {
        let mut batch = Batch::new(&dir);
        batch.ok("TodoWrite", &json!({"summary": "", "todos": []}));
        batch.ok("LS", &json!({}))
    };
    let mut theirs = || whole(&mut shell(&dir, "ls"));
    against("LS of 100,000 entries, first page", &mut ours, Some(&mut theirs));
}

fn small_reads(tree: &Path) {
    let calls: String = (0..10_000)
        .map(|n| {
            let path = format!("d{:03}/f{:03}.rs", n % 100, n / 100);
            format!("{}\n", json!({"id": n, "name": "Read", "input": {"path": path}}))
        })
        .collect();
    let file = tree.with_file_name("bench-calls.jsonl");
    std::fs::write(&file, calls).unwrap();
    let state = tree.with_file_name("bench-state");
    for (name, options) in [
        ("a small Read through `tool batch`, each", &[][..]),
        ("  the same with the event log", &["--record"]),
    ] {
        let mut ours = || {
            let mut command = Command::new(AGENT);
            command.args(["tool", "batch"]).args(options).current_dir(tree);
            command.env("XDG_STATE_HOME", &state);
            command.stdin(File::open(&file).unwrap()).stdout(Stdio::null());
            let started = Instant::now();
            assert!(command.status().unwrap().success());
            started.elapsed() / 10_000
        };
        against(name, &mut ours, None);
    }
    std::fs::remove_dir_all(state).ok();
}

/// The cost against the size of the tree: a tenth, a third, all of it.
fn growth(tree: &Path) {
    println!("growth:");
    for (name, part) in [
        ("a tenth", "{d0[0-9][0-9]}"),
        ("a third", "{d[0-2][0-9][0-9],d3[0-2][0-9]}"),
        ("all", "*"),
    ] {
        let input = json!({"pattern": "needle_4711", "file_pattern": format!("{part}/**")});
        let took = median((0..3).map(|_| whole(&mut tool(tree, "Grep", &input))).collect());
        row(&format!("  Grep in {name} of the tree"), took, None);
    }
}

/// 100,000 files in 1,000 folders, 1 GB.
fn tree() -> PathBuf {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench-tree");
    if tree.join("done").exists() {
        return tree;
    }
    std::fs::create_dir_all(&tree).unwrap();
    let endings = ["rs", "py", "md", "txt"];
    for d in 0..1000 {
        let folder = tree.join(format!("d{d:03}"));
        std::fs::create_dir_all(&folder).unwrap();
        for f in 0..100 {
            let mut text = String::with_capacity(11_000);
            while text.len() < 10_500 {
                let n = text.len();
                text.push_str(&format!(
                    "fn f_{d}_{f}_{n}(argument: usize) -> usize {{\n    argument + {n}\n}}\n\n"
                ));
            }
            if f == 17 {
                text.push_str("// ten_thousand\n".repeat(10).as_str());
            }
            if d % 100 == 11 && f == 23 {
                text.push_str("// needle_4711\n");
            }
            let ending = if d < 100 { "rs" } else { endings[f % endings.len()] };
            std::fs::write(folder.join(format!("f{f:03}.{ending}")), text).unwrap();
        }
    }
    File::create(tree.join("done")).unwrap();
    tree
}
