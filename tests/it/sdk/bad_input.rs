//! Input that no program should send, and programs that end.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Program, STREAMS, kinds, user};
use crate::support::{Test, running};

#[test]
fn lines_that_are_no_messages_are_ignored() {
    let test = Test::new().script("text: hello");
    let mut program = Program::start(&test, &[]);
    for line in ["", "  ", "hello", "{\"type\":", "[1,2]", "null", "{}", "\u{1}\u{2}"] {
        program.send_line(line);
    }
    program.send(&json!({"type": "keep_alive"}));
    program.send(&json!({"type": "control_response", "response": {"request_id": "none"}}));
    program.send(&json!({"type": "control_cancel_request", "request_id": "none"}));
    program.send(&json!({"type": "control_request", "request_id": "x"}));
    program.say("hello");
    let lines = program.result();
    assert_eq!(lines.last().unwrap()["result"], "hello");
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
}

#[test]
fn message_that_cannot_be_used_gets_a_result() {
    let test = Test::new().script("text: hello");
    let mut program = Program::start(&test, &[]);
    let with = |content| {
        let mut message = user("");
        message["message"]["content"] = content;
        message
    };
    let messages = [
        user(""),
        with(json!(null)),
        with(json!([{"type": "document", "source": {}}])),
        with(json!([{"type": "image", "source": {"type": "url", "url": "http://x"}}])),
        with(json!([{"type": "image", "source": {"type": "base64", "data": "%"}}])),
        user(&"x".repeat(11 << 20)),
    ];
    for message in messages {
        program.send(&message);
        let result = program.result().pop().unwrap();
        assert_eq!(result["subtype"], "error_during_execution");
        assert!(result["errors"][0].as_str().unwrap().contains("message"), "{result}");
    }
    program.say("hello");
    assert_eq!(program.result().pop().unwrap()["result"], "hello");
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
}

#[test]
fn message_of_50_mb_is_read_and_a_longer_one_refused() {
    let test = Test::new().script("text: hello");
    let mut program = Program::start(&test, &[]);
    // (What is not read of a message may be long.)
    let mut message = user("hello");
    message["padding"] = "x".repeat(50_000_000).into();
    program.send(&message);
    assert_eq!(program.result().pop().unwrap()["result"], "hello");
    message["padding"] = "x".repeat(70_000_000).into();
    program.send(&message);
    let refused = program.result().pop().unwrap();
    assert!(refused["errors"][0].as_str().unwrap().contains("more than 64 MB"), "{refused}");
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
}

/// What a program writes faster than the session works is not kept without a limit.
#[test]
fn messages_beyond_a_limit_are_refused_while_they_wait() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"until [ -e go ]; do sleep 0.05; done\"}\n---\ntext: first\n---\n\
         times: any\ntext: later",
    );
    let mut program = Program::start(&test, &["--permission-mode", "full"]);
    program.say("go");
    program.until(|line| line["type"] == "assistant");
    let mut later = user("later");
    later["priority"] = "later".into();
    later["padding"] = "x".repeat(30_000_000).into();
    for _ in 0..3 {
        program.send(&later);
    }
    // Its answer shows that all of them are read.
    program.ask(&json!({"subtype": "get_context_usage"}));
    test.write("go", "");
    let results: Vec<_> = (0..4).map(|_| program.result().pop().unwrap()).collect();
    let texts = results.iter().map(|result| result["result"].as_str().unwrap());
    assert_eq!(texts.take(3).collect::<Vec<_>>(), ["first", "later", "later"]);
    assert_eq!(results[3]["terminal_reason"], "refused");
    assert!(results[3]["errors"][0].as_str().unwrap().contains("wait"), "{}", results[3]);
    // There is room again.
    program.send(&later);
    assert_eq!(program.result().pop().unwrap()["result"], "later");
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
}

#[test]
fn input_that_ends_at_once_ends_the_program() {
    let test = Test::new().script("text: hello");
    let program = Program::start(&test, &[]);
    assert_eq!(program.finish(), (Vec::new(), Some(0)));
    assert!(test.try_log().is_none(), "no session was opened");
}

#[test]
fn wrong_options_are_reported() {
    let test = Test::new().script("text: hello");
    test.agent(&["run", "--input-format", "stream-json"])
        .expect_code(2)
        .expect_one_line_of_stderr("needs --output-format stream-json");
    let task = [&["run"], &STREAMS[..], &["a task"]].concat();
    test.agent(&task).expect_code(2).expect_one_line_of_stderr("takes messages on standard input");
    let mut program = Program::start_with(&test, &["--model", "nobody/x"]);
    let answer = program.ask(&json!({"subtype": "initialize"}));
    assert_eq!(answer["subtype"], "error");
    assert!(answer["error"].as_str().unwrap().contains("nobody"), "{answer}");
    let (lines, code) = program.finish();
    assert_eq!(kinds(&lines), ["result error_during_execution"]);
    assert_eq!(code, Some(2));
}

#[test]
fn nothing_is_left_when_the_program_dies() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"sleep 78.25\", \"background\": true}\n---\n\
         call: Bash {\"command\": \"sleep 78.75\"}\n---\ntext: done",
    );
    let args = [&STREAMS[..], &["--model", "script:../script", "--permission-mode", "full"]];
    let mut command = test.command(&args.concat());
    command.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, format!("{}\n", user("go")).as_bytes()).unwrap();
    let started = Instant::now();
    while running("sleep 78.75").is_empty() {
        assert!(started.elapsed() < Duration::from_secs(30), "the command did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    // A program that was killed closes all its pipes.
    drop(stdin);
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    assert!(started.elapsed() < Duration::from_mins(1));
    assert!(status.code().is_some(), "{status}");
    assert!(running("sleep 78.25").is_empty() && running("sleep 78.75").is_empty());
}
