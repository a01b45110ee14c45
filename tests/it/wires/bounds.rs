//! Answers are bounded: their limit is always sent, and one that repeats itself or does not end is stopped.

use std::time::Duration;

use serde_json::{Value, json};

use super::{anthropic_messages, gemini, openai_chat, openai_responses};
use crate::support::server::{self, Chunk, Reply, Server, sse_calls, sse_raw, sse_text};
use crate::support::{Done, Test};

/// A wire format, a text answer, and the place of the limit in a request.
type Wire = (&'static str, fn(&str) -> Reply, &'static str);

const WIRES: [Wire; 4] = [
    ("openai-chat", openai_chat::text, "/max_tokens"),
    ("openai-responses", openai_responses::text, "/max_output_tokens"),
    ("anthropic-messages", anthropic_messages::text, "/max_tokens"),
    ("gemini", gemini::text, "/generationConfig/maxOutputTokens"),
];

fn run(wire: &str, server: &Server, sets: &[&str]) -> (Test, Done) {
    let url = format!("providers.p.base_url={}", server.url().trim_end_matches("/v1"));
    let wire = format!("providers.p.wire={wire}");
    let own = [url.as_str(), wire.as_str()];
    let mut args = vec!["run", "task", "--yolo", "--model", "p/m"];
    args.extend(own.iter().chain(sets).flat_map(|set| ["--set", set]));
    let test = Test::new();
    let done = test.agent(&args);
    (test, done)
}

fn chat(server: &Server, sets: &[&str]) -> (Test, Done) {
    run("openai-chat", server, sets)
}

/// Numbers, which never repeat.
fn long(bytes: usize) -> String {
    let mut text: String = (0..=bytes / 10).map(|n| format!("{n:09} ")).collect();
    text.truncate(bytes);
    text
}

/// A stream that has begun with this delta and does not end.
fn endless(delta: &Value) -> Reply {
    let chunk = json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]});
    sse_raw(&[&chunk.to_string()]).then(Chunk::Pause(Duration::from_mins(2)))
}

fn responded(test: &Test) -> Value {
    test.events_of("model.responded")[0].clone()
}

#[test]
fn limit_of_an_answer_is_sent_with_every_wire_format() {
    for (wire, text, place) in WIRES {
        let check = |sets: &[&str], expected: u64| {
            let server = Server::playing([text("done")]);
            let (test, done) = run(wire, &server, sets);
            done.expect_code(0);
            let sent = server.finish()[0].json().pointer(place).cloned();
            assert_eq!(sent, Some(json!(expected)), "{wire} {sets:?}");
            assert_eq!(test.events_of("model.requested")[0]["max_output_tokens"], expected);
        };
        check(&[], 32_000);
        check(&["models.\"p/m\".context_window=32768"], 8192);
        check(&["models.\"p/m\".max_output_tokens=5000"], 5000);
    }
}

#[test]
fn known_limit_of_a_model_is_sent() {
    let server = Server::playing([sse_text("done")]);
    let test = Test::new().env("OPENAI_API_KEY", "k");
    let args = ["run", "task", "--model", "openai/gpt-4.1", "--base-url", &server.url()];
    test.agent(&args).expect_code(0);
    assert_eq!(server.finish()[0].json()["max_tokens"], 32_768);
}

#[test]
fn limit_is_at_most_what_the_request_leaves_of_the_window() {
    let server = Server::playing([sse_text("done")]);
    let sets = ["models.\"p/m\".context_window=8192", "models.\"p/m\".max_output_tokens=8000"];
    let (test, done) = chat(&server, &sets);
    done.expect_code(0);
    let requested = &test.events_of("model.requested")[0];
    let number = |name: &str| requested[name].as_u64().unwrap();
    let sum = number("max_output_tokens") + number("estimated_tokens");
    assert!((7000..=8192).contains(&sum), "{requested}");
}

#[test]
fn limit_that_a_server_rejects_is_left_out() {
    let check = |message: &str, sent: fn(&Value) -> [Value; 2], expected: [Value; 2]| {
        let error = json!({"error": {"message": message, "type": "invalid_request_error"}});
        let server = Server::playing([server::json(400, &error), sse_text("done")]);
        let (test, done) = chat(&server, &[]);
        done.expect_code(0).expect_stdout("done\n");
        assert_eq!(sent(&server.finish()[1].json()), expected);
        assert!(!test.has_event("context.compacted"));
    };
    let sent = |body: &Value| [body["max_tokens"].clone(), body["max_completion_tokens"].clone()];
    let too_large = "max_tokens is too large: 32000. This model supports at most 16384 completion \
                     tokens, whereas you provided 32000.";
    check(too_large, sent, [json!(null), json!(null)]);
    let other = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                 'max_completion_tokens' instead.";
    check(other, sent, [json!(null), json!(null)]);
    // The window is smaller than assumed, and the request alone fits.
    let overflow = "This model's maximum context length is 16384 tokens. However, you requested 33500 \
                    tokens (1500 in the messages, 32000 in the completion).";
    check(overflow, sent, [json!(4096), json!(null)]);
}

#[test]
fn repetition_is_stopped_and_retried_once_with_the_evidence() {
    let text = format!("An answer.\n{}", "I am sorry. ".repeat(2000));
    for (wire, reply, _) in WIRES {
        let server = Server::playing([reply(&text), reply("done")]);
        let (test, done) = run(wire, &server, &[]);
        done.expect_code(0).expect_stdout("done\n").expect_stderr("repeated itself");
        let retried = &server.finish()[1].body;
        assert!(retried.contains("times the same 12 bytes"), "{retried}");
        assert!(!retried.contains("An answer."), "what was stopped is not sent back");
        let responded = responded(&test);
        let kept = responded["text"].as_str().unwrap();
        assert!(text.starts_with(kept) && kept.len() < 6000, "{}", kept.len());
        assert_eq!(
            (&responded["stop"], &responded["discarded"]),
            (&json!("repetition"), &json!(true))
        );
        assert!(responded["usage"].is_null() && !responded["estimate"].is_null(), "{responded}");
    }
    let server = Server::with(move |_, _| sse_text(&text));
    let (test, done) = chat(&server, &[]);
    done.expect_code(1).expect_stdout("").expect_stderr("retries used up (1/1)");
    assert_eq!(server.finish().len(), 2);
    let finished = &test.events_of("turn.finished")[0];
    assert_eq!(finished["ending"], "failed");
    let result = finished["result"].as_str().unwrap();
    assert!(result.contains("Last model output: An answer.") && result.len() < 2000, "{result}");
}

#[test]
fn continuation_that_repeats_itself_keeps_the_text_before_it() {
    let cut =
        json!({"choices": [{"delta": {"content": "The first part, "}, "finish_reason": "length"}]});
    let cut = sse_raw(&[&cut.to_string(), "[DONE]"]);
    let text = format!("and the second. {}", "I am sorry. ".repeat(2000));
    let server = Server::with(move |_, n| match n {
        0 => cut.clone(),
        1 => sse_text(&text),
        _ => sse_text(""),
    });
    let (test, done) = chat(&server, &[]);
    done.expect_code(1);
    let result = test.events_of("turn.finished")[0]["result"].to_string();
    assert!(result.contains("The first part, and the second"), "{result}");
}

#[test]
fn repetition_is_stopped_while_it_streams() {
    for delta in [
        json!({"content": "I am sorry. ".repeat(2000)}),
        json!({"reasoning_content": "Wait.\n\n".repeat(2000)}),
        json!({"content": " \n\t\n".repeat(2000)}),
    ] {
        let server = Server::with(move |_, n| match n {
            0 => endless(&delta),
            _ => sse_text("done"),
        });
        let (test, done) = chat(&server, &[]);
        done.expect_code(0).expect_stdout("done\n");
        assert_eq!(responded(&test)["stop"], "repetition");
    }
}

#[test]
fn call_may_repeat_itself_in_its_arguments() {
    let content = "0, ".repeat(5000);
    let write = [("Write", json!({"path": "zeros", "content": content}))];
    let server = Server::playing([sse_calls(&write), sse_text("written")]);
    let (test, done) = chat(&server, &[]);
    done.expect_code(0).expect_stdout("written\n");
    assert_eq!(test.read("zeros"), content);
}

#[test]
fn stream_beyond_its_limit_is_stopped_like_at_a_length_limit() {
    let limit = ["models.\"p/m\".max_output_tokens=1000"];
    let text = long(10_000_000);
    let server = Server::with(move |_, n| match n {
        0 => endless(&json!({"content": text})),
        _ => sse_text("done"),
    });
    let (test, done) = chat(&server, &limit);
    done.expect_code(0);
    let responded = responded(&test);
    assert_eq!(responded["stop"], "length");
    assert_eq!(responded["text"].as_str().unwrap().len(), 12_000);
    assert!(server.finish()[1].body.contains("cut off by its length limit"));
}

#[test]
fn text_that_is_held_back_is_bounded_too() {
    for begin in ["{\"name\": \"", "[TOOL_CALLS][{\"name\": \"", "<tool_response>", ""] {
        let text = format!(
            "{begin}{}",
            if begin.is_empty() { " ".repeat(100_000) } else { long(100_000) }
        );
        let server = Server::with(move |_, n| match n {
            0 => endless(&json!({"content": text})),
            _ => sse_text("done"),
        });
        let sets =
            ["models.\"p/m\".max_output_tokens=1000", "providers.p.dialect.text_calls=accepted"];
        let (test, done) = chat(&server, &sets);
        done.expect_code(0);
        let stop = &responded(&test)["stop"];
        assert!(*stop == "length" || *stop == "repetition", "{begin}: {stop}");
    }
}

#[test]
fn call_whose_arguments_do_not_end_is_not_made() {
    let arguments = format!("{{\"path\": \"a\", \"content\": \"{}", long(100_000));
    let function = json!({"name": "Write", "arguments": arguments});
    let call =
        json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]});
    let server = Server::with(move |_, n| match n {
        0 => endless(&call),
        _ => sse_text("done"),
    });
    let (test, done) = chat(&server, &["models.\"p/m\".max_output_tokens=1000"]);
    done.expect_code(0).expect_stdout("done\n");
    let responded = responded(&test);
    assert_eq!((&responded["stop"], &responded["discarded"]), (&json!("length"), &json!(true)));
    assert!(!test.root().join("a").exists());
}
