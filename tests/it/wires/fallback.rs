//! Another model answers if the main one is not available (`fallback`).

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::server::{self, Reply, Server};

/// A project whose main model is at `main`, with two other models to fall back to.
fn project(main: &Server, others: &[&Server]) -> Test {
    let provider = |name: &str, server: &Server| {
        format!("[providers.{name}]\nbase_url = \"{}\"\n", server.url())
    };
    let names: Vec<String> = (1..=others.len()).map(|n| format!("\"other{n}/m\"")).collect();
    let config = format!(
        "model = \"main/m\"\nfallback = [{}]\n[requests]\nretry_for = \"100ms\"\n{}",
        names.join(", "),
        provider("main", main)
    );
    let others = (1..).zip(others).map(|(n, server)| provider(&format!("other{n}"), server));
    Test::new().user_config(&(config + &others.collect::<String>()))
}

fn busy() -> Reply {
    server::json(503, &json!({"error": {"message": "busy"}}))
}

fn models(test: &Test) -> Vec<Value> {
    let requested = test.events_of("model.requested");
    requested.into_iter().map(|event| event["model"].clone()).collect()
}

#[test]
fn next_model_answers_for_the_rest_of_the_turn() {
    let main = Server::with(|_, n| match n {
        0 => server::sse_calls(&[("LS", json!({"path": "."}))]),
        1..=2 => busy(),
        _ => server::sse_text("main is back"),
    });
    let first = Server::with(|_, _| busy());
    let second = Server::playing([
        server::sse_calls(&[("LS", json!({"path": "."}))]),
        server::sse_text("done by the second"),
    ]);
    let test = project(&main, &[&first, &second]);
    let done = test.agent(&["run", "look around", "--set", "requests.max_tries=2"]);
    done.expect_code(0)
        .expect_stdout("done by the second\n")
        .expect_stderr("other2/m answers for the rest of the turn");
    assert_eq!(models(&test), ["main/m", "main/m", "other1/m", "other2/m", "other2/m"]);
    let fallbacks = test.events_of("model.fallback");
    assert_eq!(fallbacks.len(), 2);
    assert_eq!(
        (&fallbacks[1]["from"], &fallbacks[1]["to"]),
        (&json!("other1/m"), &json!("other2/m"))
    );
    // The other model continues the conversation.
    let sent = second.finish()[0].json();
    assert_eq!(sent["messages"].as_array().map(Vec::len), Some(4), "{sent}");
}

#[test]
fn main_model_is_tried_again_in_the_next_turn() {
    let main = Server::with(|_, n| match n {
        0..2 => busy(),
        _ => server::sse_text("main is back"),
    });
    let other = Server::with(|_, _| server::sse_text("done by the other"));
    let test = project(&main, &[&other]);
    let two = ["--set", "requests.max_tries=2"];
    test.agent(&[&["run", "one"], &two[..]].concat()).expect_stdout("done by the other\n");
    test.agent(&[&["run", "two", "-c"], &two[..]].concat()).expect_stdout("main is back\n");
}

#[test]
fn used_up_quota_falls_back_and_a_wrong_key_does_not() {
    let check = |status: u16, body: Value, code: i32| {
        let main = Server::with(move |_, _| server::json(status, &body));
        let other = Server::with(|_, _| server::sse_text("done by the other"));
        let test = project(&main, &[&other]);
        test.agent(&["run", "one"]).expect_code(code);
        assert_eq!(main.finish().len(), 1);
        assert_eq!(other.finish().len(), usize::from(code == 0));
    };
    check(429, json!({"error": {"code": "insufficient_quota", "message": "pay"}}), 0);
    check(402, json!({"error": {"message": "Insufficient Balance"}}), 0);
    check(401, json!({"error": {"message": "bad key"}}), 69);
}

#[test]
fn all_models_that_fail_are_one_failure() {
    let main = Server::with(|_, _| busy());
    let other = Server::with(|_, _| busy());
    let test = project(&main, &[&other]);
    test.agent(&["run", "one"]).expect_code(75);
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "model_unavailable");
}
