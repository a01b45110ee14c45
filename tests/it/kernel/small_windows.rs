//! Small windows: fewer tools, dropped rounds, and errors that say what helps.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::context::{counted_text, is_summary, messages, overflow, project, reader, tokens};
use crate::support::server::{self, Request, Server};
use crate::support::{Done, Test};

const TASK: &str = "Count the words in every file of `data/`, and name the longest of them.";
const SUMMARY: &str = "### Objectives & Status\nfiles are being read";

fn known(window: usize) -> String {
    format!("models.\"test/m\".context_window={window}")
}

fn tools(request: &Request) -> Vec<String> {
    let body = request.json();
    let tools = body["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// The notices that the window is small.
fn notices(test: &Test) -> Vec<Value> {
    let mut errors = test.events_of("error");
    errors.retain(|event| event["source"] == "context");
    errors
}

/// A server with this window that answers the first request with `first`, and each later one with a short text.
fn server_with_window(window: usize, first: server::Reply) -> Server {
    let n_answers = AtomicUsize::new(0);
    Server::with(move |request, _| {
        let tokens = tokens(request);
        if tokens > window {
            return overflow(window, tokens);
        }
        if is_summary(request) {
            return server::sse_text(SUMMARY);
        }
        match n_answers.fetch_add(1, Ordering::SeqCst) {
            0 => first.clone(),
            _ => counted_text("fine", tokens),
        }
    })
}

#[test]
fn long_turn_fits_a_small_window_that_is_known_or_learnt() {
    for (window, is_known) in [(4096, true), (4096, false), (2048, true), (2048, false)] {
        let server = reader(12, window, |_| server::sse_text(SUMMARY));
        let project = project(&server, 12);
        let set = known(window);
        let mut args = vec!["run", TASK, "--max-turns", "60"];
        args.extend(["--set", &set].iter().filter(|_| is_known));
        let done = project.agent(&args).expect_code(0).expect_stdout("all files are read\n");
        let requests = server.finish();
        let last = requests.iter().rfind(|request| !is_summary(request)).unwrap();
        assert!(messages(last).contains(TASK), "{}", messages(last));
        if window == 2048 {
            assert_eq!(tools(last), ["Grep", "Read", "Edit", "Bash"]);
            assert_eq!(notices(&project).len(), 1, "{is_known}");
            assert!(done.stderr.contains("the model gets only Grep, Read, Edit, Bash"));
        }
    }
}

#[test]
fn small_window_describes_tools_in_few_words() {
    let server = server_with_window(2048, server::sse_text("fine"));
    let project = project(&server, 0);
    let set = known(2048);
    project.agent(&["run", "hello", "--set", &set]).expect_code(0);
    project.agent(&["run", "-c", "and now?", "--set", &set]).expect_code(0);
    let requests = server.finish();
    assert!(requests[0].body.len() < 5000, "{}", requests[0].body);
    let body = requests[0].json();
    let bash = &body["tools"][3]["function"];
    let properties = bash["parameters"]["properties"].as_object().unwrap();
    assert_eq!(properties.keys().collect::<Vec<_>>(), ["command"]);
    assert_eq!(body["tools"], requests[1].json()["tools"]);
}

#[test]
fn other_tools_still_work_in_a_small_window() {
    let write = json!({"path": "a.txt", "content": "one\n"});
    let server = server_with_window(2048, server::sse_calls(&[("Write", write)]));
    let project = project(&server, 0);
    project.agent(&["run", "write it", "--set", &known(2048)]).expect_code(0);
    assert_eq!(project.read("a.txt"), "one\n");
}

#[test]
fn model_with_a_larger_window_gets_all_tools_again() {
    let server = Server::with(|request, _| match request.method.as_str() {
        "GET" => server::json(200, &json!({"data": [{"id": "m"}, {"id": "large"}]})),
        _ => server::sse_text("fine"),
    });
    let set = known(2048);
    let project = project(&server, 0).stdin("one\n/model test/large\ntwo\n");
    project.agent(&["--plain", "--set", &set]).expect_code(0);
    let mut requests = server.finish();
    requests.retain(|request| request.method == "POST");
    assert_eq!(tools(&requests[0]).len(), 4);
    assert!(tools(&requests[1]).len() > 10, "{:?}", tools(&requests[1]));
}

#[test]
fn call_that_does_not_fit_is_dropped_with_its_result() {
    let write = json!({"path": "a.txt", "content": "a few words in a line\n".repeat(700)});
    let server = server_with_window(5000, server::sse_calls(&[("Write", write)]));
    let project = project(&server, 0);
    project.agent(&["run", "write it"]).expect_code(0).expect_stdout("fine\n");
    let requests = server.finish();
    assert!(!requests.iter().any(is_summary), "the program writes the summary");
    let last = messages(requests.last().unwrap());
    assert!(last.contains("write it") && last.contains("- a.txt: changed 1 times"), "{last}");
    let compacted = project.events_of("context.compacted");
    assert_eq!(compacted[0]["by"], "program", "{compacted:?}");
    // A resumed session begins with what was sent last.
    let n_before = requests.len();
    project.agent(&["run", "-c", "and now?"]).expect_code(0);
    super::context::assert_prefixes(&server.finish()[n_before - 1..]);
}

#[test]
fn refusal_drops_no_more_than_it_must() {
    // The window is not known before the refusal.
    let server = reader(12, 8192, |_| server::sse_text(SUMMARY));
    let project = project(&server, 12);
    project.agent(&["run", TASK, "--max-turns", "60"]).expect_code(0);
    let compacted = project.events_of("context.compacted");
    assert!(compacted.iter().any(|event| event["by"] == "model"), "{compacted:?}");
    let requested = project.events_of("model.requested");
    let last = requested.iter().rfind(|event| event["purpose"] == "main").unwrap();
    assert!(last["messages"].as_u64().unwrap() > 4, "{last}");
}

#[test]
fn chat_goes_on_after_an_answer_that_fills_the_window() {
    let long: String = (0..400).map(|n| format!("line {n} of a long answer\n")).collect();
    for (set, input) in [
        (known(4096), "tell me\nand now?\n"),
        (known(4096), "tell me\n/compact\nand now?\n"),
        (known(128_000), "tell me\nand now?\n"),
    ] {
        let server = server_with_window(4096, server::sse_text(&long));
        let project = project(&server, 0).stdin(input);
        let done = project.agent(&["--plain", "--set", &set]).expect_code(0);
        assert!(done.stdout.contains("fine"), "{}", done.stdout);
        let requests = server.finish();
        let last = messages(requests.last().unwrap());
        assert!(last.contains("tell me") && last.contains("and now?"), "{last}");
        assert!(!last.contains(&long), "{last}");
        assert!(project.has_event("context.compacted"));
    }
}

/// Runs a task with a server of this provider that refuses everything as too long for 512 tokens.
fn refused(provider: &str) -> (Done, usize) {
    let server = Server::with(|request, _| overflow(512, tokens(request)));
    let url = format!("providers.{provider}.base_url={}", server.url());
    let model = format!("{provider}/m");
    let done = Test::new().agent(&["run", "hello", "--model", &model, "--set", &url]);
    (done, server.finish().len())
}

#[test]
fn error_about_a_window_smaller_than_the_prompt_says_what_helps() {
    for (provider, how) in [
        ("llamacpp", "(`llama-server -c 16384 …`)"),
        ("ollama", "(`OLLAMA_CONTEXT_LENGTH=16384 ollama serve`)"),
        ("mine", "OLLAMA_CONTEXT_LENGTH=16384 ollama serve` or `llama-server -c 16384 …`"),
    ] {
        let (done, n_requests) = refused(provider);
        let done = done.expect_code(69).expect_stderr("the request is longer than m accepts");
        for part in ["of 512 tokens, instructions and tools take about", how, "/clear", "--model"] {
            assert!(done.stderr.contains(part), "{part}: {}", done.stderr);
        }
        assert!(n_requests <= 4, "{n_requests} requests");
    }
}

/// A server for summaries that is busy for longer than a summary may take.
fn busy() -> server::Reply {
    server::json(503, &json!({"error": {"message": "busy"}})).header("retry-after", "6")
}

#[test]
fn summariser_that_fails_is_not_asked_again_until_a_request_succeeds() {
    let summariser = Server::with(|_, _| busy());
    let server = reader(30, 16_384, |_| server::sse_text(SUMMARY));
    let set = known(16_384);
    let light = format!("providers.light.base_url={}", summariser.url());
    let project = project(&server, 30);
    let args = ["run", TASK, "--set", &set, "--set", "light_model=light/m", "--set", &light];
    project.agent(&args).expect_code(0);
    let compacted = project.events_of("context.compacted");
    assert!(compacted.len() > 2, "{}", compacted.len());
    assert!(compacted.iter().all(|event| event["by"] == "program"));
    // One attempt for all compactions: its retry would begin after more than 5 s.
    assert_eq!(summariser.finish().len(), 1);

    // The main model answers between two compactions.
    let server = reader(30, 16_384, |_| busy());
    let project = super::context::project(&server, 30);
    project.agent(&["run", TASK, "--set", &set]).expect_code(0);
    let n_asked = server.finish().iter().filter(|request| is_summary(request)).count();
    let compacted = project.events_of("context.compacted");
    assert!(n_asked > 1 && n_asked <= compacted.len(), "{n_asked} of {}", compacted.len());
    assert!(compacted.iter().all(|event| event["by"] == "program"));
}

#[test]
#[ignore = "slow"]
fn retries_of_a_summary_end_after_5_seconds() {
    let server = reader(12, 8192, |_| server::json(503, &json!({"error": {"message": "busy"}})));
    let project = project(&server, 12);
    let set = known(8192);
    project.agent(&["run", TASK, "--set", &set, "--max-turns", "8"]);
    let n_tries = server.finish().iter().filter(|request| is_summary(request)).count();
    // The default is ten tries.
    assert!((1..10).contains(&n_tries), "{n_tries} tries");
    let compacted = project.events_of("context.compacted");
    assert!(compacted.iter().all(|event| event["by"] == "program"), "{compacted:?}");
}
