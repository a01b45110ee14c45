//! Reasoning in the text of answers.

use serde_json::{Value, json};

use super::openai_chat::text;
use crate::support::server::{Reply, Server, sse_raw};
use crate::support::{Done, Test};

/// An answer that arrives in these pieces.
fn pieces(pieces: &[&str]) -> Reply {
    let chunk = |delta: Value, end: Option<&str>| {
        json!({"choices": [{"delta": delta, "finish_reason": end}]}).to_string()
    };
    let mut chunks: Vec<String> =
        pieces.iter().map(|piece| chunk(json!({"content": piece}), None)).collect();
    chunks.push(chunk(json!({}), Some("stop")));
    chunks.push("[DONE]".to_owned());
    sse_raw(&chunks.iter().map(String::as_str).collect::<Vec<_>>())
}

fn run(server: &Server, args: &[&str]) -> (Test, Done) {
    let test = Test::new().file("a.txt", "colour\n");
    let url = format!("providers.local.base_url={}", server.url());
    let common = ["run", "what colour?", "--model", "local/m", "--set", &url];
    let done = test.agent(&[&common[..], args].concat());
    (test, done)
}

#[test]
fn reasoning_in_tags_is_kept_and_is_no_part_of_the_answer() {
    let first = "<think>\nI look.\n</think>\n\n<tool_call>{\"name\": \"Read\", \"arguments\": {\"path\": \"a.txt\"}}</tool_call>";
    let last = ["<thi", "nk>\nso it", " is <blue>\n</th", "ink>\n", "\nblue"];
    let server = Server::playing([text(first), pieces(&last)]);
    let (test, done) = run(&server, &["--set", "providers.local.dialect.text_calls=accepted"]);
    done.expect_code(0).expect_stdout("blue\n");
    let answers = test.events_of("model.responded");
    assert_eq!(answers[0]["reasoning"], "I look.\n");
    assert_eq!(answers[0]["calls"][0]["name"], "Read");
    assert_eq!(
        (&answers[1]["reasoning"], &answers[1]["text"]),
        (&json!("so it is <blue>\n"), &json!("blue"))
    );
    // It is not sent back.
    let request = server.finish()[1].json();
    assert!(!request["messages"].to_string().contains("I look"), "{request}");
}

#[test]
fn quoted_tags_stay_in_the_answer() {
    let about = "Models write `<think>`:\n```xml\n<think>\nwhy\n</think>\n```\nThat is all.";
    let server = Server::playing([text(about)]);
    let (test, done) = run(&server, &[]);
    done.expect_code(0).expect_stdout(&format!("{about}\n"));
    assert_eq!(test.events_of("model.responded")[0]["reasoning"], Value::Null);
}

#[test]
fn answer_of_only_reasoning_is_an_empty_answer() {
    let server = Server::playing([text("[THINK]it is blue[/THINK]\n"), text("blue")]);
    let (test, done) = run(&server, &[]);
    done.expect_code(0).expect_stdout("blue\n");
    let decided = test.events_of("control.decided");
    let is_told = |event: &Value| event["reason"].to_string().contains("only reasoning");
    assert!(decided.iter().any(is_told), "{decided:?}");
    let answer = &test.events_of("model.responded")[0];
    assert_eq!((&answer["reasoning"], &answer["discarded"]), (&json!("it is blue"), &json!(true)));
    let request = server.finish()[1].json();
    assert!(request["messages"].to_string().contains("Your answer was empty."), "{request}");
}
