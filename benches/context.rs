//! What it costs to put a request together, to compact, and to keep a conversation in memory.
//!
//! `cargo bench --bench context` prints the table of `docs/BENCHMARKS.md`.
#![expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
#![expect(clippy::print_stdout, reason = "it prints its table")]
#![expect(clippy::unwrap_used, reason = "a benchmark that can not go on ends")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agent_engine::context::{self, ContextBudget, History, Layers, SentRequests, SummaryParts};
use agent_protocol::Object;
use agent_protocol::envelope::{Envelope, ResultContext, Verdict};
use agent_protocol::event::{Compaction, CompactionCause, SummaryAuthor, WorkPosition};
use agent_protocol::message::ToolCall;
use agent_protocol::model::{ContextWindow, WindowSource};
use agent_protocol::plan::Plan;
use agent_protocol::prompt::Prompts;

const WINDOW: u64 = 100_000_000;

fn envelope(round: u32) -> Envelope {
    let line = format!("line of file {round} with some words in it\n");
    let mut data = Object::new();
    data.insert("content".into(), line.repeat(60).into());
    data.insert("start_line".into(), 1.into());
    data.insert("end_line".into(), 60.into());
    data.insert("total_lines".into(), 60.into());
    let context = ResultContext {
        cwd: ".".into(),
        params_input: Object::new(),
        path_resolved: Some(format!("src/file_{round}.rs")),
    };
    let text = "Read all of it.".to_owned();
    Envelope { verdict: Verdict::Success, data, text, stats: Object::new(), context }
}

fn round(history: &mut History, n: u32) {
    history.place = WorkPosition { turn: 1, round: n, step: 0 };
    let call = ToolCall {
        id: format!("call_{n}"),
        name: "Read".into(),
        arguments: format!("{{\"path\":\"src/file_{n}.rs\"}}"),
    };
    history.add_exchange("", &[call], &[], &[&envelope(n)]);
}

fn median(mut took: Vec<Duration>) -> f64 {
    took.sort();
    took[took.len() / 2].as_secs_f64() * 1e6
}

/// The resident memory of this process, in MiB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn window(tokens: u64) -> ContextWindow {
    ContextWindow { tokens, source: WindowSource::Known }
}

fn main() {
    let prompts = Arc::new(Prompts::default());
    let layers = Layers::new(&prompts, &[], "# Place\nhere", None, &[], 4096);
    let budget = ContextBudget::new("bench/model", window(WINDOW), 0.8);
    let mut history = History::new(prompts);
    let mut sent = SentRequests::default();
    history.add_user_message("read everything", &[]);
    let mut times = Vec::new();
    let mut grown = Vec::new();
    let before = memory();
    for n in 1..=10_000u32 {
        round(&mut history, n);
        let started = Instant::now();
        let request = layers.request(&[], &history);
        black_box(layers.describe_request(&mut sent, "bench/model", &request, &history, &budget));
        times.push(started.elapsed());
        if [100, 1000, 10_000].contains(&n) {
            grown.push((n, memory() - before, history.bytes()));
        }
    }
    let at = |n: usize| median(times[n - 5..n + 4].to_vec());
    println!("building the request of round n, without sending it:");
    for n in [10, 100, 1000, 9990] {
        println!("  round {n:>6}  {:>8.1} µs  {:.2} × round 10", at(n), at(n) / at(10));
    }
    println!("memory of the conversation:");
    for (n, mib, bytes) in grown {
        let kept = bytes as f64 / (1024.0 * 1024.0);
        println!("  {n:>6} rounds  {mib:>7.1} MiB for {kept:.1} MiB of text");
    }

    let small = ContextBudget::new("bench/model", window(500_000), 0.8);
    let started = Instant::now();
    let stretch = context::select_archived_range(&history, &small, layers.bytes(), 6);
    let whole = context::transcript(&history, &stretch, usize::MAX);
    let (_, question) = context::summary_request(&history, &stretch, None, small.bytes(250_000));
    let parts = SummaryParts {
        range: stretch,
        sections: None,
        plan: &Plan::default(),
        record: Some("history.txt"),
        room: small.bytes(context::summary_tokens(small.window())),
    };
    let summary = context::compose_summary(&history, &parts);
    let compacted = Compaction {
        cause: CompactionCause::Threshold,
        focus: None,
        archived: stretch.n_messages,
        from: stretch.from,
        to: stretch.to,
        summary,
        user_messages: Vec::new(),
        by: SummaryAuthor::Program,
        forgotten: 0,
        cut: context::stale_results(&history, &stretch),
        shortened: Vec::new(),
        tokens_before: 0,
        tokens_after: 0,
        window: small.window(),
    };
    history.compact(&compacted);
    println!(
        "compaction of 10,000 rounds, without the model: {:.1} ms ({:.1} MiB of record, {} KiB asked)",
        started.elapsed().as_secs_f64() * 1e3,
        whole.len() as f64 / (1024.0 * 1024.0),
        question.len() / 1024
    );
}
