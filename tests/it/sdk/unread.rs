//! A program that does not read its input: nothing else waits for it.

use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Program, STREAMS};
use crate::support::{Test, running, signal, wait_for};

/// A program that does not read before it is told to; the model of this script answers with about 3 MB.
fn unread(script: &str, args: &[&str]) -> (Test, Program, Sender<()>) {
    let long: String = (0..120_000).map(|n| format!("text: row {n:06} of an answer\n")).collect();
    let limits =
        "[models.\"script:../script\"]\ncontext_window = 2000000\nmax_output_tokens = 1000000\n";
    let test = Test::new().user_config(limits).script(&format!("{script}{long}"));
    let model = ["--model", "script:../script", "--include-partial-messages"];
    let command = test.command(&[&STREAMS[..], &model, args].concat());
    let (begin, begun) = channel();
    (test, Program::reading_from(command, begun), begin)
}

/// The model answers, and would have ended without a reader to wait for.
fn wait_for_answer(test: &Test, n_requests: usize) {
    wait_for(|| test.n_events("model.requested") == n_requests);
    std::thread::sleep(Duration::from_millis(700));
}

#[test]
fn signal_ends_the_session_in_order() {
    let script = "call: Bash {\"command\": \"sleep 78.5\", \"background\": true}\n---\n";
    let (test, mut program, begin) = unread(script, &["--permission-mode", "full"]);
    program.say("go");
    wait_for_answer(&test, 2);
    wait_for(|| !running("sleep 78.5").is_empty());
    let asked = Instant::now();
    signal(program.child.id(), "TERM");
    assert_eq!(program.child.wait().unwrap().code(), Some(143));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    assert_eq!(running("sleep 78.5"), [""; 0]);
    // The model waited: it would have completed its answer otherwise.
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "terminated");
    assert_eq!(test.n_events("session.summary"), 1);
    drop(begin);
}

#[test]
fn interrupts_and_time_limits_end_the_turn() {
    for (args, ending) in [(&[][..], "interrupted"), (&["--timeout", "2s"], "timeout")] {
        let (test, mut program, begin) = unread("", args);
        program.say("go");
        wait_for_answer(&test, 1);
        let id = args.is_empty().then(|| program.request(&json!({"subtype": "interrupt"})));
        wait_for(|| test.has_event("turn.finished"));
        assert_eq!(test.events_of("turn.finished")[0]["ending"], ending);
        begin.send(()).unwrap();
        if let Some(id) = id {
            assert_eq!(program.answer_to(&id)["subtype"], "success");
        }
        assert_eq!(program.result().pop().unwrap()["terminal_reason"], ending);
        program.finish();
    }
}

/// It misses nothing, also if it closes its end early and reads late.
#[test]
fn everything_is_delivered_to_a_program_that_reads_late() {
    let (test, mut program, begin) = unread("", &[]);
    program.say("go");
    program.stdin = None;
    wait_for_answer(&test, 1);
    let late = std::thread::spawn(move || {
        // (Longer than the exit waits after a signal.)
        std::thread::sleep(Duration::from_secs(3));
        begin.send(()).unwrap();
    });
    let (lines, code) = program.finish();
    late.join().unwrap();
    let deltas = lines.iter().filter_map(|line| line["event"]["delta"]["text"].as_str());
    assert_eq!(deltas.map(str::len).sum::<usize>(), 24 * 120_000 - 1);
    assert_eq!(lines.last().unwrap()["subtype"], "success");
    assert_eq!(code, Some(0));
}
