//! What a page of 20,000 events costs: to write it, its size, and until a browser shows it.
//!
//! `cargo bench --bench trace` prints the figures; without a browser it says so. `AGENT_EVENTS` sets the number of events.
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark may panic")]
#![expect(clippy::disallowed_methods, reason = "it starts the binary and waits for it")]

#[path = "../tests/it/support/browser.rs"]
#[expect(dead_code, reason = "the tests use more of it")]
mod browser;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

const SESSION: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const RUNS: usize = 7;

fn main() {
    let wanted = std::env::var("AGENT_EVENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("project");
    fs::create_dir_all(&project).unwrap();
    let hash =
        blake3::hash(project.canonicalize().unwrap().as_os_str().as_encoded_bytes()).to_hex();
    let sessions = format!("home/.local/state/agent/projects/project-{}/sessions", &hash[..16]);
    let log = dir.path().join(sessions).join(SESSION).join("events.jsonl");
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    fs::write(&log, session(wanted)).unwrap();
    let file = project.join("page.html");

    let write = median((0..RUNS).map(|_| {
        let started = Instant::now();
        let mut agent = Command::new(env!("CARGO_BIN_EXE_agent"));
        agent.args(["trace", "html", SESSION, "-o"]).arg(&file).current_dir(&project);
        agent.env("HOME", dir.path().join("home")).stdout(Stdio::null());
        assert!(agent.status().unwrap().success());
        started.elapsed()
    }));
    let read = median((0..RUNS).map(|_| {
        let started = Instant::now();
        std::hint::black_box(agent_record::load_session(&log).unwrap());
        started.elapsed()
    }));
    let [log_bytes, page_bytes] = [&log, &file].map(|path| fs::metadata(path).unwrap().len());
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let (mib, times) = (log_bytes as f64 / 1_048_576.0, page_bytes as f64 / log_bytes as f64);
    println!("a session of {wanted} events, {mib:.1} MiB");
    println!(
        "write the page                 {:>8.0} ms   ({:.1} × reading the log)",
        ms(write),
        ms(write) / ms(read)
    );
    println!("size of the page               {times:>8.2} × the log");
    show(&file);
}

fn show(file: &Path) {
    let Some(program) = browser::installed() else {
        println!("SKIPPED: the page in a browser: there is no chromium or chrome here");
        return;
    };
    let mut browser = browser::Browser::start(&program);
    let empty = file.with_file_name("empty.html");
    fs::write(&empty, "<!DOCTYPE html><script>document.documentElement.dataset.ready = 1</script>")
        .unwrap();
    let nothing = median((0..RUNS).map(|_| browser.open(&empty, "")));
    let usable = median((0..RUNS).map(|_| browser.open(file, "")));
    println!(
        "open it, until it is usable    {:>8.0} ms   (an empty page: {:.0} ms)",
        ms(usable),
        ms(nothing)
    );
    for (what, action) in [
        ("next failure", "nextFailure(1)"),
        ("go to the last event", "goTo(trace.events.at(-1).seq)"),
        ("filter by a code", "filter.codes.add('CONFLICT'), applyFilter()"),
        ("show everything", "clearFilter()"),
        ("search the record", "setQuery('value_77 ')"),
    ] {
        let frame = "new Promise((done) => requestAnimationFrame(() => setTimeout(done)))";
        let took = browser.eval(&format!(
            "(async () => {{ const started = performance.now(); {action}; await {frame}; return performance.now() - started; }})()"
        ));
        println!("{what:<30} {:>8.0} ms", took.as_f64().unwrap_or_default());
    }
    assert!(browser.problems.is_empty(), "{:?}", browser.problems);
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn median(times: impl Iterator<Item = Duration>) -> Duration {
    let mut times: Vec<Duration> = times.collect();
    times.sort();
    times[times.len() / 2]
}

/// The log of a long session: turns of 20 rounds that read, search, edit and run commands; some calls fail.
fn session(wanted: u64) -> String {
    let mut log = Log { text: String::new(), seq: 0, turn: 0, round: 0 };
    log.event(json!({"type": "session.started", "cwd": "/home/user/project", "model": "example/model",
        "permission_mode": "auto-edit", "tools": ["Read", "Grep", "Edit", "Bash"], "program": "0.1.0",
        "sandbox": {"backend": "none", "filesystem": "none", "network": "unenforced"}}));
    let mut n = 0;
    while log.seq < wanted {
        log.turn += 1;
        log.round = 0;
        let task =
            format!("task {}: find out why the import of module {} fails", log.turn, log.turn % 50);
        log.event(json!({"type": "turn.started", "input": task}));
        for round in 1..=20 {
            log.round = round;
            n += 1;
            log.round_of(n);
        }
        if log.turn.is_multiple_of(10) {
            log.event(json!({"type": "context.compacted", "cause": "threshold", "archived": 120, "from": place(1),
                "to": place(log.turn), "summary": "What was done so far. ".repeat(100), "by": "model", "forgotten": 0,
                "tokens_before": 110_000, "tokens_after": 21_000, "window": 128_000}));
        }
        log.event(json!({"type": "turn.finished", "ending": "completed", "result": "It is done: the import works again.",
            "errors": [], "verified": null, "files_changed": ["src/a.rs"], "rounds": 20,
            "usage": {"input_tokens": 1, "output_tokens": 1}, "cost_usd": 0.1, "time_ms": 60_000, "model_ms": 50_000}));
    }
    log.text
}

fn place(turn: u32) -> Value {
    json!({"turn": turn, "round": 1, "step": 0})
}

struct Log {
    text: String,
    seq: u64,
    turn: u32,
    round: u32,
}

impl Log {
    fn event(&mut self, body: Value) {
        self.seq += 1;
        let mut event = json!({"v": 2, "seq": self.seq, "ts": "2026-11-20T12:00:00.000Z", "session": SESSION,
            "agent": "main", "turn": self.turn, "round": self.round, "step": 0});
        let Value::Object(body) = body else { return };
        event.as_object_mut().unwrap().extend(body);
        _ = writeln!(self.text, "{event}");
    }

    fn round_of(&mut self, n: u32) {
        let (id, path) = (format!("call_{n}"), format!("src/module_{}.rs", n % 50));
        let lines = |count: u32| -> String {
            (1..=count)
                .map(|line| {
                    format!(
                        "{line:>6} | let value_{line} = \"quoted\\tand {n}\"; // a<b, Vec<u8>\n"
                    )
                })
                .collect()
        };
        let (tool, input, result) = match n % 4 {
            0 => (
                "Read",
                json!({"path": path}),
                json!({"status": "success", "text": format!("Read all of {path}."),
                "data": {"content": lines(40 + n % 5 * 30), "truncated": false}}),
            ),
            1 => {
                let found: Vec<Value> = (1..=12).map(|line| json!({"file": path, "line": line, "text": format!("    let value_{line} = compute({n});")})).collect();
                (
                    "Grep",
                    json!({"pattern": "value_", "path": "src"}),
                    json!({"status": "success", "text": "12 matching lines in 1 file.",
                    "data": {"matches": found}}),
                )
            }
            2 if n.is_multiple_of(6) => (
                "Edit",
                json!({"path": path, "old_string": lines(2), "new_string": lines(3)}),
                json!({"status": "error",
                "error": {"code": "CONFLICT", "message": "File changed since last read.", "hint": "its text is below"},
                "text": "File changed since last read. Next: its text is below.", "data": {"diff_preview": lines(6), "content": lines(20)}}),
            ),
            2 => (
                "Edit",
                json!({"path": path, "old_string": lines(2), "new_string": lines(3)}),
                json!({"status": "success",
                "text": format!("Edited {path}: +3 -2 lines at line 8."), "data": {"applied": true, "diff_preview": lines(9), "replacements": 1}}),
            ),
            _ => (
                "Bash",
                json!({"command": "cargo test -q", "description": "Run the tests"}),
                json!({"status": "success", "text": "Exited 0.",
                "data": {"stdout": lines(25), "exit_code": 0}}),
            ),
        };
        let failure = result["error"]["code"].as_str().map(|code| json!({"signal": "tool_error", "code": code, "class": "state",
            "category": "environment_error", "message": "File changed since last read.", "signature": "s", "chain": format!("Edit {path}")}));
        let mut envelope = json!({"stats": {"time_ms": 3, "file_mtime_ms": 1_795_264_226_623_u64},
            "context": {"cwd": ".", "params_input": input, "path_resolved": path}});
        envelope.as_object_mut().unwrap().extend(result.as_object().unwrap().clone());
        let tokens = 8_000 + n % 200 * 500;
        let layer = |hash: &str| json!({"hash": hash, "bytes": 6_000, "tokens": 1_500});
        self.event(json!({"type": "model.requested", "purpose": "main", "model": "example/model", "messages": n * 2,
            "bytes": tokens * 4, "estimated_tokens": tokens, "window": 128_000, "shared_bytes": tokens * 4 - 900,
            "layers": {"l1": layer("aaaa"), "l2": layer("bbbb"), "tools": layer("cccc"), "l3": {"bytes": 9_000, "tokens": tokens}}}));
        self.event(json!({"type": "model.responded", "purpose": "main", "text": "I look at the module that the message names.",
            "calls": [{"id": id, "name": tool, "arguments": input.to_string()}], "stop": "tool_calls", "time_ms": 900, "cost_usd": 0.001,
            "usage": {"input_tokens": tokens, "output_tokens": 80, "cached_tokens": tokens - 300}}));
        let effect = json!({"kind": "read", "path": path});
        self.event(json!({"type": "tool.started", "call": id, "tool": tool, "input": input, "effect": effect}));
        self.event(
            json!({"type": "tool.finished", "call": id, "tool": tool, "envelope": envelope}),
        );
        let mut evaluation = json!({"type": "evaluation", "step_success": failure.is_none()});
        let decision = if failure.is_some() {
            json!({"decision": "retry", "detail": "feedback"})
        } else {
            json!({"decision": "continue"})
        };
        evaluation
            .as_object_mut()
            .unwrap()
            .extend(failure.map(|failure| ("failure".to_owned(), failure)));
        self.event(evaluation);
        let count = json!({"n": 0, "max": 3});
        let counters = json!({"retry_count": count, "single_step_repair_count": count, "task_replan_count": count,
            "consecutive_failures": 0, "unvaried_failures": count, "reflections": count});
        let mut decided = json!({"type": "control.decided", "reason": "nothing failed", "before": counters, "after": counters, "evidence": self.seq});
        decided.as_object_mut().unwrap().extend(decision.as_object().unwrap().clone());
        self.event(decided);
    }
}
