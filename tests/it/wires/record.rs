//! `--record-wire DIR` records what is sent and received; `--model replay:DIR` plays it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::server::{self, Chunk, Reply, Server};

const KEY: &str = "sk-test-0123456789abcdefghij";

/// Records a task in which a request is retried, a call is made, and the answer is split within a character.
fn recorded() -> Test {
    let text = "data: {\"choices\":[{\"delta\":{\"content\":\"gr\u{fc}n\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let middle = text.find('\u{fc}').unwrap() + 1;
    let (first, second) = text.as_bytes().split_at(middle);
    let split = Reply {
        body: [first, second].map(|bytes| Chunk::Send(bytes.to_vec())).to_vec(),
        ..server::sse_raw(&[])
    };
    let server = Server::playing([
        server::json(429, &json!({"error": {"message": format!("slow down, {KEY}")}}))
            .header("retry-after", "0"),
        server::sse_calls(&[("Read", json!({"path": "a.txt"}))]),
        split,
    ]);
    let test = Test::new().file("a.txt", "colour\n").env("OPENAI_API_KEY", KEY);
    let url = server.url();
    let args = ["run", "what colour?", "--model", "openai/m", "--base-url", &url];
    test.agent(&[&args[..], &["--record-wire", "../wire"]].concat())
        .expect_code(0)
        .expect_stdout("gr\u{fc}n\n");
    test
}

#[test]
fn record_holds_every_request_and_no_secret() {
    let test = recorded();
    let folder = test.root().join("../wire");
    let files = ["0001.json", "0002.json", "0003.json"].map(|name| folder.join(name));
    let texts = files.each_ref().map(|file| fs::read_to_string(file).unwrap());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);
    assert!(texts.iter().all(|text| !text.contains(KEY)), "{texts:?}");
    assert_eq!(fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
    let [refused, called, answered] =
        texts.map(|text| serde_json::from_str::<Value>(&text).unwrap());
    assert_eq!((&refused["status"], &refused["purpose"]), (&json!(429), &json!("main")));
    assert_eq!(refused["headers"]["retry-after"], "0");
    assert!(refused["body"][0]["text"].as_str().unwrap().contains("[redacted:"));
    assert_eq!(called["request"]["messages"][1]["content"], "what colour?");
    assert_eq!(answered["request"]["messages"][3]["role"], "tool");
    assert!(answered["body"][0]["base64"].is_string(), "a split character: {answered}");
}

#[test]
fn replay_plays_the_answers_against_the_real_tools() {
    let test = recorded();
    let done = test.agent(&["run", "what colour?", "--model", "replay:../wire"]);
    done.expect_code(0).expect_stdout("gr\u{fc}n\n");
    let calls = test.events_of("tool.finished");
    assert_eq!(calls.len(), 1);
    assert!(calls[0].to_string().contains("colour"), "{}", calls[0]);
    assert_eq!(test.events_of("error").len(), 1, "the retry is replayed");
}

#[test]
fn replay_that_runs_out_and_wrong_directories_are_explained() {
    let test = recorded();
    let wire = test.root().join("../wire");
    fs::remove_file(wire.join("0003.json")).unwrap();
    test.agent(&["run", "again", "--model", "replay:../wire"])
        .expect_code(1)
        .expect_stderr("the record has no further answer for the purpose `main`");
    let usage = |args: &[&str], part: &str| {
        test.agent(&[&["run", "again"], args].concat()).expect_code(2).expect_stderr(part);
    };
    usage(&["--model", "replay:nowhere"], "a directory of --record-wire");
    usage(&["--model", "replay:."], "it contains no record");
    let recording = ["--base-url", "http://127.0.0.1:9/v1", "--record-wire", "../wire"];
    usage(&[&["--model", "openai/m"], &recording[..]].concat(), "already contains a record");
    fs::write(wire.join("0001.json"), "{").unwrap();
    usage(&["--model", "replay:../wire"], "0001.json: EOF");
}

#[test]
fn secrets_in_json_texts_and_split_characters_are_masked() {
    let token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let answer = json!({"choices": [{"delta": {"content": format!("\u{fc}\n{token}")}, "finish_reason": "stop"}]});
    let text = format!("data: {answer}\n\ndata: [DONE]\n\n");
    let middle = text.find('\u{fc}').unwrap() + 1;
    let (first, second) = text.as_bytes().split_at(middle);
    let split = Reply {
        body: [first, second].map(|bytes| Chunk::Send(bytes.to_vec())).to_vec(),
        ..server::sse_raw(&[])
    };
    let server = Server::playing([split]);
    let test = Test::new();
    let url = format!("providers.p.base_url={}", server.url());
    let message = format!("is this a key?\n{token}");
    let args = ["run", &message, "--model", "p/m", "--set", &url, "--record-wire", "../wire"];
    test.agent(&args).expect_code(0);
    let recorded = fs::read_to_string(test.root().join("../wire/0001.json")).unwrap();
    assert!(!recorded.contains("ghp_0123"), "{recorded}");
    assert_eq!(recorded.matches("[redacted:").count(), 2, "{recorded}");
    test.agent(&["run", "again", "--model", "replay:../wire"]).expect_code(0);
}
