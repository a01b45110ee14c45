//! What MCP servers cost: the tokens of ten of them with 200 tools, the first request beside servers that are slow, and a call
//! over the server's own time.
//!
//! `cargo bench --bench mcp` prints the table of `docs/BENCHMARKS.md`. `AGENT` names another binary to measure.
#![expect(clippy::unwrap_used, reason = "a benchmark that can not go on ends")]
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::disallowed_methods, reason = "it starts what it measures")]

#[path = "../tests/it/support/server.rs"]
#[expect(dead_code, reason = "the tests use the rest of it")]
mod server;

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use server::Server;
use tempfile::TempDir;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.sh");
/// Calls of one measurement, and measurements of which the fastest counts.
const CALLS: u32 = 300;
const ROUNDS: usize = 5;
/// How long the slow servers take to start.
const SLOW: &str = "3";

fn main() {
    let ten = tokens(10);
    let none = tokens(0);
    println!("first request without servers:             {none:>6} tokens (o200k)");
    println!("with 10 servers and 200 tools:             {ten:>6} tokens");
    assert!(ten < 3500, "the index is too long");
    println!("first request without servers after        {:>6.1} ms", first_request(0));
    println!("with 10 servers that take {SLOW} s to start:   {:>6.1} ms", first_request(10));
    let (own, whole) = (own_time(), call_time());
    println!("a call, the server's own time:             {own:>6.3} ms");
    println!(
        "the same through the agent:                {whole:>6.3} ms, {:.3} ms more",
        whole - own
    );
}

fn agent(home: &TempDir, args: &[&str]) -> Command {
    let binary = std::env::var_os("AGENT").unwrap_or_else(|| env!("CARGO_BIN_EXE_agent").into());
    let mut command = Command::new(binary);
    command
        .args(args)
        .current_dir(home.path().join("project"))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// A home with this number of servers.
fn home(n_servers: usize, mode: &str) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join("project")).unwrap();
    let folder = home.path().join(".config/agent");
    std::fs::create_dir_all(&folder).unwrap();
    let names = [
        "github", "jira", "postgres", "slack", "sentry", "figma", "linear", "notion", "s3",
        "browser",
    ];
    let servers = names.iter().take(n_servers).map(|name| {
        format!(
            "[mcp.servers.{name}]\ncommand = \"bash\"\nargs = [{SCRIPT:?}]\n\
             env = {{ MODE = {mode:?}, DELAY = {SLOW:?} }}\n"
        )
    });
    std::fs::write(folder.join("config.toml"), servers.collect::<String>()).unwrap();
    home
}

/// One run that asks a model once; the body of its request, and when it came.
fn request(home: &TempDir) -> (Value, Duration) {
    let seen: Arc<Mutex<Option<(Value, Instant)>>> = Arc::default();
    let inner = Arc::clone(&seen);
    let provider = Server::with(move |request, _| {
        if request.method == "POST" {
            inner.lock().unwrap().get_or_insert((request.json(), Instant::now()));
        }
        server::sse_text("done")
    });
    let url = format!("providers.local.base_url={}", provider.url());
    let wire = "providers.local.wire=openai-chat";
    let args =
        ["run", "--model", "local/m", "--no-memory", "--set", &url, "--set", wire, "say hello"];
    let begun = Instant::now();
    assert!(agent(home, &args).status().unwrap().success());
    let (body, at) = seen.lock().unwrap().take().unwrap();
    (body, at - begun)
}

/// The tokens of the first request with this number of servers, each with 20 tools.
fn tokens(n_servers: usize) -> usize {
    let home = home(n_servers, "twenty");
    assert!(agent(&home, &["mcp", "test"]).status().unwrap().success());
    let (body, _) = request(&home);
    let count = |part: &str| {
        let text = body.get(part).map(Value::to_string).unwrap_or_default();
        tiktoken_rs::o200k_base_singleton().encode_ordinary(&text).len()
    };
    count("messages") + count("tools")
}

/// Milliseconds until the first request.
fn first_request(n_servers: usize) -> f64 {
    let home = home(n_servers, "slow");
    let times = (0..ROUNDS).map(|_| request(&home).1.as_secs_f64() * 1000.0);
    times.fold(f64::INFINITY, f64::min)
}

/// Milliseconds of a call without the agent.
fn own_time() -> f64 {
    let mut server = Command::new("bash")
        .arg(SCRIPT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = server.stdin.take().unwrap();
    let mut stdout = BufReader::new(server.stdout.take().unwrap());
    let mut call = |n: u32| {
        let call = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call",
            "params": {"name": "echo", "arguments": {"text": n.to_string()}}});
        stdin.write_all(format!("{call}\n").as_bytes()).unwrap();
        stdout.read_line(&mut String::new()).unwrap();
    };
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        (0..CALLS).for_each(&mut call);
        best = best.min(begun.elapsed().as_secs_f64() * 1000.0 / f64::from(CALLS));
    }
    drop(stdin);
    server.wait().unwrap();
    best
}

/// Milliseconds of a call through the agent.
fn call_time() -> f64 {
    let home = home(1, "");
    let mut batch = agent(&home, &["tool", "batch", "--allow", "mcp"]);
    let mut batch = batch.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = batch.stdin.take().unwrap();
    let mut stdout = BufReader::new(batch.stdout.take().unwrap());
    let mut call = |n: u32| {
        let input = json!({"tool": "github.echo", "arguments": {"text": n.to_string()}});
        let line = json!({"id": n, "name": "McpTool", "input": input});
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stdout.read_line(&mut answer).unwrap();
        assert!(answer.contains("\"status\":\"success\""), "{answer}");
    };
    // Starts the server.
    call(u32::MAX);
    let mut best = f64::INFINITY;
    for round in 0..ROUNDS {
        let first = u32::try_from(round).unwrap() * CALLS;
        let begun = Instant::now();
        (first..first + CALLS).for_each(&mut call);
        best = best.min(begun.elapsed().as_secs_f64() * 1000.0 / f64::from(CALLS));
    }
    drop(stdin);
    batch.wait().unwrap();
    best
}
