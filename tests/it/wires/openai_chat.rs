//! Answers of OpenAI Chat Completions.

use serde_json::{Value, json};

use crate::support::server::{self, Reply, Server, json as document, sse_raw};
use crate::support::{Done, Test};

/// A window of which the allowed share is a little more than 60 kB.
const WINDOW: u64 = 18_600;

pub(crate) fn text(text: &str) -> Reply {
    server::sse_text(text)
}

pub(crate) fn calls(calls: &[(&str, Value)]) -> Reply {
    server::sse_calls(calls)
}

/// An answer that the token limit cuts off in a text.
pub(crate) fn cut_off(text: &str) -> Reply {
    let chunk = json!({"choices": [{"delta": {"content": text}, "finish_reason": "length"}]});
    sse_raw(&[&chunk.to_string(), "[DONE]"])
}

/// An answer that the provider withholds.
pub(crate) fn refused() -> Reply {
    let chunk = json!({"choices": [{"delta": {}, "finish_reason": "content_filter"}]});
    sse_raw(&[&chunk.to_string(), "[DONE]"])
}

/// An error in a stream that began well.
pub(crate) fn error_event(kind: &str) -> Reply {
    let half = json!({"choices": [{"delta": {"content": "half"}}]});
    sse_raw(&[&half.to_string(), &body(kind).to_string()])
}

/// A refused request.
pub(crate) fn error(status: u16, kind: &str) -> Reply {
    document(status, &body(kind))
}

fn body(kind: &str) -> Value {
    let (code, message) = match kind {
        "overloaded" => ("server_error", "The server is overloaded"),
        "rate" => ("rate_limit_exceeded", "Rate limit reached on tokens per min (TPM)"),
        "overflow" => (
            "context_length_exceeded",
            "This model's maximum context length is 8192 tokens. Reduce the length of the messages.",
        ),
        "bad request" => ("invalid_request_error", "Invalid value of a parameter"),
        other => panic!("no error is called {other}"),
    };
    json!({"error": {"message": message, "type": code, "param": null, "code": code}})
}

/// Reads files of 1 kB until the server rejects the request with this reply, which does not name the reason.
fn rejected_when_long(reply: Reply, window: u64) -> (Test, Done) {
    let server = Server::with(move |request, n| match n {
        _ if request.json().get("tools").is_none() => text("## Goal\na summary"),
        _ if request.body.len() > 60_000 => reply.clone(),
        0..60 if !request.body.contains("a summary") => {
            calls(&[("Read", json!({"path": format!("{n}.txt")}))])
        }
        _ => text("fine"),
    });
    let files = (0..60).map(|n| (format!("{n}.txt"), format!("{n} and more\n").repeat(80)));
    let test = files.fold(Test::new(), |test, (path, text)| test.file(&path, &text));
    let url = format!("providers.p.base_url={}", server.url());
    let window = format!("models.\"p/m\".context_window={window}");
    let args = ["run", "read it", "--model", "p/m", "--set", &url, "--set", &window];
    let done = test.agent(&[&args[..], &["--max-turns", "90"]].concat());
    (test, done)
}

#[test]
fn unexplained_rejection_of_a_long_request_is_followed_by_a_compaction() {
    let odd = |status| document(status, &json!({"error": {"message": "invalid: code 20031"}}));
    // The request is nearly as long as is allowed here.
    let (test, done) = rejected_when_long(odd(400), WINDOW);
    done.expect_code(0).expect_stdout("fine\n");
    assert_eq!(test.events_of("context.compacted")[0]["cause"], "overflow");
    // It is far shorter, and the reason another one.
    let (_, done) = rejected_when_long(odd(400), 10 * WINDOW);
    done.expect_code(69).expect_stderr("code 20031");
    // The status says it.
    let (test, done) = rejected_when_long(odd(413), 10 * WINDOW);
    done.expect_code(0).expect_stdout("fine\n");
    assert_eq!(test.events_of("context.compacted")[0]["cause"], "overflow");
}

#[test]
fn names_and_arguments_are_corrected_where_one_meaning_fits() {
    let read = json!({"path": "a.txt"});
    let nested = Value::String(read.to_string());
    let server = Server::playing([
        calls(&[
            ("functions.Read", read),
            ("default_api:LS", Value::Null),
            ("read", nested),
            ("L.S", json!("")),
        ]),
        calls(&[("Bash<|channel|>commentary", json!({"command": "touch new"}))]),
        text("done"),
        text("resumed"),
    ]);
    let test = Test::new().file("a.txt", "colour\n");
    let url = format!("providers.p.base_url={}", server.url());
    let common = ["--model", "p/m", "--set", &url, "--deny", "Bash(touch *)"];
    test.agent(&[&["run", "task"], &common[..]].concat());
    let found = test.events_of("tool.finished");
    let tools: Vec<&Value> = found.iter().map(|event| &event["tool"]).collect();
    assert_eq!(tools, ["Read", "LS", "Read", "LS", "Bash"]);
    let text = |n: usize| found[n]["envelope"]["text"].as_str().unwrap();
    for (n, expected) in [
        (0, "The name of this tool is Read, not functions.Read."),
        (1, "The arguments were empty: read as {}."),
        (1, "The name of this tool is LS, not default_api:LS."),
        (2, "The arguments were a string: the JSON in it was used."),
        (2, "The name of this tool is Read, not read."),
        (3, "The arguments were empty: read as {}."),
        (4, "The name of this tool is Bash, not Bash<|channel|>commentary."),
    ] {
        assert!(text(n).contains(expected), "{n}: {}", text(n));
    }
    assert_eq!(found[2]["envelope"]["context"]["params_input"], json!({"path": "a.txt"}));
    // Rules hold for the tool that is meant.
    assert_eq!(found[4]["envelope"]["error"]["code"], "COMMAND_BLOCKED");
    assert!(!test.root().join("new").exists());
    // The conversation has the names and arguments that were used.
    let request = server.finish()[1].json();
    let sent =
        request["messages"].as_array().unwrap().iter().find(|it| it["tool_calls"].is_array());
    let sent = sent.unwrap()["tool_calls"].as_array().unwrap();
    let sent: Vec<&Value> = sent.iter().map(|call| &call["function"]).collect();
    assert_eq!(sent[1], &json!({"name": "LS", "arguments": "{}"}));
    assert_eq!(sent[2], &json!({"name": "Read", "arguments": "{\"path\":\"a.txt\"}"}));
    // It has them after a resume, too.
    let resumed = test.agent(&[&["run", "-c", "go on"], &common[..]].concat());
    resumed.expect_code(0).expect_stdout("resumed\n");
    let request = &server.finish()[3].body;
    assert!(request.contains("go on") && !request.contains("default_api_LS"), "{request}");
}
