//! The chat's figures, taken from the outside: the built binary in a pseudo-terminal, a server on loopback,
//! and a parser of terminal sequences. `cargo bench --bench chat`
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::disallowed_methods, reason = "it starts the binary and looks after it")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![expect(clippy::cast_precision_loss, reason = "of small numbers")]

#[path = "../tests/it/support/server.rs"]
#[expect(dead_code, reason = "the benchmark needs a part of it")]
mod server;

#[path = "../tests/it/support/pty.rs"]
#[expect(dead_code, reason = "the benchmark needs a part of it")]
mod pty;

use std::ops::{Deref, DerefMut};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use server::{Chunk, Reply, Server};

/// The chat in a pseudo-terminal, in an empty home.
struct Pty {
    pty: pty::Pty,
    home: tempfile::TempDir,
}

impl Deref for Pty {
    type Target = pty::Pty;

    fn deref(&self) -> &pty::Pty {
        &self.pty
    }
}

impl DerefMut for Pty {
    fn deref_mut(&mut self) -> &mut pty::Pty {
        &mut self.pty
    }
}

impl Pty {
    fn start(args: &[&str]) -> Self {
        Self::with_config(args, "")
    }

    fn with_config(args: &[&str], config: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join(".config/agent")).unwrap();
        std::fs::write(home.path().join(".config/agent/config.toml"), config).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_agent"));
        command.args(args).current_dir(home.path());
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home.path());
        let mut pty = pty::Pty::spawn(&command, 40, 120, "xterm-256color");
        pty.patience = Duration::from_mins(4);
        pty.pace = Duration::from_micros(200);
        Self { pty, home }
    }

    fn shows(&self, text: &str) -> bool {
        self.screen().contains(text)
    }

    fn n_bytes(&self) -> usize {
        self.with_bytes(<[u8]>::len)
    }

    fn full_redraws(&self) -> usize {
        self.with_bytes(|bytes| bytes.windows(4).filter(|part| part == b"\x1b[2J").count())
    }

    /// Processor time in milliseconds, and memory in MiB.
    fn used(&self) -> (f64, f64) {
        let id = self.process().as_raw_nonzero();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
        let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        (ticks * 10.0, kib / 1024.0)
    }
}

fn event(delta: &serde_json::Value) -> Chunk {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    Chunk::Send(format!("data: {chunk}\n\n").into_bytes())
}

/// An answer of so many tokens, so many a second.
fn streaming(tokens: usize, a_second: u64) -> Server {
    Server::with(move |request, _| {
        let mut body = Vec::new();
        let is_list = request.path.ends_with("/models");
        for n in 0..if is_list { 0 } else { tokens } {
            let text = if n % 60 == 59 { ".\n\n".to_owned() } else { format!("word{} ", n % 97) };
            body.push(event(&json!({"content": text})));
            body.push(Chunk::Pause(Duration::from_micros(1_000_000 / a_second)));
        }
        body.push(event(&json!({"content": "THE END"})));
        let end = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        body.push(Chunk::Send(format!("data: {end}\n\ndata: [DONE]\n\n").into_bytes()));
        Reply { status: 200, headers: vec![("content-type", "text/event-stream".to_owned())], body }
    })
}

fn args(server: &Server) -> Vec<String> {
    ["--yolo", "--model", "test/m", "--base-url", &server.url()].map(str::to_owned).to_vec()
}

fn percentile(times: &mut [f64], share: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an index")]
    let at = ((times.len() - 1) as f64 * share).round() as usize;
    times[at]
}

fn main() {
    start();
    idle();
    streamed();
    keys_in_a_long_session();
    files();
    esc();
}

fn files() {
    let server = streaming(1, 1000);
    let args = args(&server);
    let mut pty = Pty::start(&args.iter().map(String::as_str).collect::<Vec<_>>());
    for folder in 0..100 {
        let folder = pty.home.path().join(format!("source/module_{folder}/nested/deeper"));
        std::fs::create_dir_all(&folder).unwrap();
        for file in 0..1000 {
            std::fs::write(folder.join(format!("component_{file}.rs")), "").unwrap();
        }
    }
    pty.wait_for("/help");
    let begun = Instant::now();
    pty.send("@");
    pty.wait_for("▸ @source");
    let listed = begun.elapsed().as_secs_f64() * 1e3;
    let mut times = Vec::new();
    let mut written = "› @".to_owned();
    for letter in "modcomp777".chars() {
        written.push(letter);
        let begun = Instant::now();
        pty.send(&letter.to_string());
        pty.wait_for(&written);
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    println!(
        "100,000 files: the list {listed:.0} ms after the first @; a letter median {:.1} ms, worst {:.1} ms",
        percentile(&mut times, 0.5),
        percentile(&mut times, 1.0)
    );
}

fn start() {
    let script = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(script.path(), "text: x").unwrap();
    let model = format!("script:{}", script.path().display());
    let (mut prompts, mut whole) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let begun = Instant::now();
        let pty = Pty::start(&["--model", &model]);
        pty.wait_for("›");
        prompts.push(begun.elapsed().as_secs_f64() * 1e3);
        pty.wait_for("sandbox");
        whole.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    println!(
        "start to a prompt one can write at: median {:.1} ms, p95 {:.1} ms; to an open session {:.1} ms",
        percentile(&mut prompts, 0.5),
        percentile(&mut prompts, 0.95),
        percentile(&mut whole, 0.5)
    );
}

fn idle() {
    let server = streaming(1, 1000);
    let args = args(&server);
    let pty = Pty::start(&args.iter().map(String::as_str).collect::<Vec<_>>());
    pty.wait_for("/help");
    std::thread::sleep(Duration::from_millis(500));
    let (before, bytes) = (pty.used().0, pty.n_bytes());
    std::thread::sleep(Duration::from_secs(5));
    let written = pty.n_bytes() - bytes;
    let (used, memory) = pty.used();
    println!(
        "idle for 5 s: {:.0} ms of processor time, {written} bytes written; memory of a fresh chat {memory:.1} MiB",
        used - before
    );
}

fn streamed() {
    let server = streaming(1000, 100);
    let args = args(&server);
    let mut pty = Pty::start(&args.iter().map(String::as_str).collect::<Vec<_>>());
    pty.wait_for("/help");
    let (before, bytes) = (pty.used().0, pty.n_bytes());
    let begun = Instant::now();
    pty.send("go\r");
    pty.wait_for("THE END");
    let took = begun.elapsed().as_secs_f64() * 1e3;
    let used = pty.used().0 - before;
    let text = 1000.0 * 6.9 / 1024.0;
    println!(
        "1,000 tokens at 100 a second: {:.1} % of one core; {:.0} bytes written for a kilobyte; {} full redraws",
        used / took * 100.0,
        (pty.n_bytes() - bytes) as f64 / text,
        pty.full_redraws()
    );
}

fn keys_in_a_long_session() {
    // 10,000 cells: 2,500 rounds of words and three calls, of which no two are the same.
    let script = tempfile::NamedTempFile::new().unwrap();
    let mut text = String::new();
    for round in 0..2500 {
        text.push_str(&format!("text: Round {round} of **many**.\n"));
        for n in 0..3 {
            let pattern = format!("none-{round}-{n}-*");
            text.push_str(&format!("call: Glob {{\"pattern\": \"{pattern}\"}}\n"));
        }
        text.push_str("---\n");
    }
    std::fs::write(script.path(), text + "text: All cells are there.").unwrap();
    let model = format!("script:{}", script.path().display());
    let server = streaming(9000, 1000);
    let config = format!("[providers.other]\nbase_url = \"{}\"\n", server.url());
    let mut pty = Pty::with_config(&["--yolo", "--model", &model, "--max-turns", "3000"], &config);
    pty.wait_for("/help");
    pty.send("many\r");
    pty.wait_for("All cells are there.");
    pty.wait_for("/help");
    println!("memory with 10,000 cells: {:.0} MiB", pty.used().1);
    pty.send("/model other/m\r");
    pty.wait_for("answers from now on");
    pty.send("stream\r");
    pty.wait_for("answering");
    let mut times = Vec::new();
    let letters = "the quick brown fox jumps over the lazy dog ".repeat(6);
    let mut written = String::new();
    for letter in letters.chars() {
        written.push(letter);
        let shown = format!("› {}", written.trim_end());
        // Only what is on the first row is looked for.
        if written.len() > 100 || letter == ' ' {
            if written.len() > 100 {
                pty.send("\x15");
                written.clear();
                std::thread::sleep(Duration::from_millis(20));
                continue;
            }
            pty.send(" ");
            std::thread::sleep(Duration::from_millis(7));
            continue;
        }
        let begun = Instant::now();
        pty.send(&letter.to_string());
        pty.wait_for(&shown);
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(11));
    }
    assert!(!pty.shows("THE END"), "the stream ended before the measurement");
    println!(
        "key to frame with 10,000 cells and 1,000 tokens a second: median {:.1} ms, p99 {:.1} ms ({} keys)",
        percentile(&mut times, 0.5),
        percentile(&mut times, 0.99),
        times.len()
    );
    pty.send("\x15\x1b");
    pty.wait_for("stopped by you");
    let begun = Instant::now();
    pty.send("\x14");
    pty.wait_for("q close");
    println!("the whole conversation on the screen: {:.0} ms", begun.elapsed().as_secs_f64() * 1e3);
    let mut times = Vec::new();
    for n in 0..60 {
        let bytes = pty.n_bytes();
        let begun = Instant::now();
        pty.send(if n % 2 == 0 { "\x1b[5~" } else { "b" });
        while pty.n_bytes() == bytes {
            std::thread::sleep(Duration::from_micros(100));
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        std::thread::sleep(Duration::from_millis(5));
    }
    println!(
        "a page of it: median {:.1} ms, p99 {:.1} ms; memory {:.0} MiB",
        percentile(&mut times, 0.5),
        percentile(&mut times, 0.99),
        pty.used().1
    );
}

fn esc() {
    let script = tempfile::NamedTempFile::new().unwrap();
    let call = "call: Bash {\"command\": \"for i in 1 2 3 4 5 6 7 8 9; do (trap '' TERM INT; sleep 98.7) & done; wait\"}\n---\n";
    std::fs::write(script.path(), call.repeat(20)).unwrap();
    let model = format!("script:{}", script.path().display());
    let mut times = Vec::new();
    for _ in 0..10 {
        let mut pty = Pty::start(&["--yolo", "--model", &model]);
        pty.wait_for("/help");
        pty.send("go\r");
        pty.wait_for("◦ Bash");
        while running("sleep 98.7") < 9 {
            std::thread::sleep(Duration::from_millis(2));
        }
        let begun = Instant::now();
        pty.send("\x1b");
        pty.wait_for("stopped by you");
        while running("sleep 98.7") > 0 {
            std::thread::sleep(Duration::from_micros(500));
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    println!(
        "Esc to the end of a tree of 10 processes: median {:.0} ms, worst {:.0} ms",
        percentile(&mut times, 0.5),
        percentile(&mut times, 1.0)
    );
}

fn running(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).replace('\0', " ").trim() == text).count()
}
