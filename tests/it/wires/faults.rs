//! Wire format × fault: the task is completed, or fails with one clear line and the right exit code; a call is
//! never made twice, or from an incomplete answer.

use std::time::Duration;

use serde_json::{Value, json};

use super::{anthropic_messages, gemini, openai_chat, openai_responses};
use crate::support::server::{self, Chunk, Reply, Server};
use crate::support::{Done, Test};

/// The answers of a server with this wire format.
struct Wire {
    name: &'static str,
    text: fn(&str) -> Reply,
    calls: fn(&[(&str, Value)]) -> Reply,
    cut_off: fn(&str) -> Reply,
    refused: fn() -> Reply,
    error_event: fn(&str) -> Reply,
    error: fn(u16, &str) -> Reply,
    /// The reason for the end of an answer with calls, as it is sent.
    reason: &'static str,
}

/// How a task ends.
enum End {
    /// With the answer, after one retry of each faulty reply.
    Recovered,
    /// With this exit code and text on standard error; the number of requests is limited.
    Fails(i32, &'static str),
}
use End::{Fails, Recovered};

const LINE: &str = "echo x >> log";

impl Wire {
    fn call(&self) -> Reply {
        (self.calls)(&[("Bash", json!({"command": LINE}))])
    }

    /// Runs a task with this server.
    fn run(&self, server: &Server) -> (Test, Done) {
        let test = Test::new().env("KEY", "sk-test-0123456789abcdefghij");
        let url = format!("providers.p.base_url={}", server.url().trim_end_matches("/v1"));
        let wire = format!("providers.p.wire={}", self.name);
        let sets = [
            url.as_str(),
            &wire,
            "providers.p.api_key_env=KEY",
            "requests.retry_for=200ms",
            "requests.idle_timeout=1500ms",
            "requests.first_data_timeout=1500ms",
        ];
        let mut args = vec!["run", "task", "--model", "p/m", "--yolo"];
        args.extend(sets.iter().flat_map(|set| ["--set", set]));
        let done = test.agent(&args);
        (test, done)
    }

    /// Runs a task whose first two answers are preceded by this reply, once or (if the task is to fail) always.
    fn check(&self, fault: &str, reply: &Reply, end: &End) {
        let cell = format!("{} × {fault}", self.name);
        let good = [self.call(), (self.text)("done")];
        let faulty = reply.clone();
        let fails = matches!(end, Fails(..));
        let server = Server::with(move |_, n| match n {
            _ if fails => faulty.clone(),
            0 | 2 => faulty.clone(),
            1 => good[0].clone(),
            _ => good[1].clone(),
        });
        let (test, done) = self.run(&server);
        let log = std::fs::read_to_string(test.root().join("log")).unwrap_or_default();
        assert!(!done.stderr.contains("panicked"), "{cell}: {}", done.stderr);
        assert!(!done.stderr.contains("sk-test"), "{cell}: {}", done.stderr);
        match end {
            Recovered => {
                assert_eq!(done.code, Some(0), "{cell}: {}", done.stderr);
                assert_eq!(done.stdout, "done\n", "{cell}: {}", done.stderr);
                assert_eq!(log, "x\n", "{cell}: the command runs once");
            }
            Fails(code, part) => {
                assert_eq!(done.code, Some(*code), "{cell}: {}", done.stderr);
                assert_eq!(done.stdout, "", "{cell}");
                assert!(done.stderr.contains(part), "{cell}: `{part}` is not in {}", done.stderr);
                assert!(!done.stderr.contains(['{', '<']), "{cell}: a dump: {}", done.stderr);
                assert_eq!(log, "", "{cell}: nothing runs");
            }
        }
    }

    fn check_all(&self) {
        let faults = self.faults();
        // Most of the time is spent waiting.
        std::thread::scope(|scope| {
            scope.spawn(|| self.check_odd_answers());
            for cells in faults.chunks(faults.len().div_ceil(6)) {
                scope.spawn(move || {
                    for (fault, reply, end) in cells {
                        self.check(fault, reply, end);
                    }
                });
            }
        });
    }

    /// Answers that are unusual and complete.
    fn check_odd_answers(&self) {
        let check = |what: &str, replies: &[Reply], expected: &str| {
            let cell = format!("{} × {what}", self.name);
            let server = Server::playing(replies.iter().cloned());
            let (test, done) = self.run(&server);
            assert_eq!(done.code, Some(0), "{cell}: {}", done.stderr);
            assert!(done.stdout == format!("{expected}\n"), "{cell}: {:.200}", done.stdout);
            let log = std::fs::read_to_string(test.root().join("log")).unwrap_or_default();
            assert_eq!(log.len(), 2 * (replies.len() - 1), "{cell}: the command runs once");
        };
        let large: String = (0..30_000).map(|n| format!("{n}\u{e9} ")).collect();
        let done = (self.text)("done");
        check("250 kB", &[(self.text)(large.trim())], large.trim());
        check("one byte at a time", &[slow(&self.call()), slow(&done)], "done");
        check("CRLF", &[crlf(&self.call()), crlf(&done)], "done");
        let server =
            Server::playing([(self.cut_off)("the first half "), (self.text)("and the second")]);
        let (_, done) = self.run(&server);
        assert_eq!(
            done.stdout, "the first half and the second\n",
            "{}: {}",
            self.name, done.stderr
        );
    }

    fn faults(&self) -> Vec<(String, Reply, End)> {
        let mut faults = vec![
            ("no response".into(), server::no_answer(), Recovered),
            ("no response, always".into(), server::no_answer(), Fails(75, "the connection broke")),
            ("empty body".into(), Reply::new(200, "text/event-stream", ""), Recovered),
            ("empty document".into(), Reply::new(200, "application/json", "{}"), Recovered),
            ("garbage".into(), Reply::new(200, "text/event-stream", "data: {{{\n\n"), Recovered),
            ("binary garbage".into(), Reply::new(200, "x/y", [0xFF, 0xFE, 0, 7]), Recovered),
            ("HTML, once".into(), server::html(200), Recovered),
            ("HTML, always".into(), server::html(200), Fails(75, "check base_url")),
            (
                "redirect".into(),
                server::html(307).header("location", "https://x.example/"),
                Fails(69, "redirects"),
            ),
            ("silence before the answer".into(), self.paused(0), Recovered),
            ("silence within the answer".into(), self.paused(60), Recovered),
            ("refusal of the provider".into(), (self.refused)(), Fails(1, "")),
            ("overflow in the stream".into(), (self.error_event)("overflow"), Fails(69, "longer")),
            ("overflow".into(), (self.error)(400, "overflow"), Fails(69, "longer than m accepts")),
            (
                "bad request in the stream".into(),
                (self.error_event)("bad request"),
                Fails(69, "does not take this request"),
            ),
            (
                "cut in a document".into(),
                Reply::new(200, "application/json", "{\"a\": [1,"),
                Recovered,
            ),
        ];
        let odd = self.ended_for("odd");
        faults.push(("unknown reason for the end, once".into(), odd.clone(), Recovered));
        faults.push((
            "unknown reason for the end, always".into(),
            odd,
            Fails(75, "m ended the answer with the reason `odd`"),
        ));
        for kind in ["overloaded", "rate"] {
            faults.push((format!("{kind} in the stream"), (self.error_event)(kind), Recovered));
        }
        for status in [408, 409, 500, 502, 503, 504, 529] {
            faults.push((format!("{status}"), (self.error)(status, "overloaded"), Recovered));
        }
        faults.push(("502 HTML".into(), server::html(502), Recovered));
        faults.push((
            "503, always".into(),
            (self.error)(503, "overloaded"),
            Fails(75, "answered 503"),
        ));
        let rate = (self.error)(429, "rate").header("retry-after", "0");
        faults.push(("429".into(), rate, Recovered));
        let later = (self.error)(429, "rate").header("retry-after", "3600");
        faults.push(("429 for an hour".into(), later, Fails(75, "wait 3600 s")));
        for (status, part) in [
            (400, "does not take this request"),
            (401, "KEY"),
            (402, "quota"),
            (403, "not allowed"),
            (404, "`m` is unknown"),
            (413, "too large"),
            (422, "does not take this request"),
        ] {
            let reply = (self.error)(status, "bad request");
            faults.push((format!("{status}"), reply, Fails(69, part)));
        }
        // The calls of a cut-off answer are never made.
        for eighth in 0..8 {
            let cut = cut(&self.call(), eighth, 8);
            // After the reason for the end, it is complete. With Responses, each item has a status.
            let text = String::from_utf8(bytes(&cut)).unwrap();
            let events = text.rsplit_once("\n\n").map_or("", |(events, _)| events);
            if self.name == "openai-responses" || !events.contains(self.reason) {
                faults.push((format!("cut after {eighth}/8"), cut, Recovered));
            }
        }
        faults
    }

    /// A call whose answer ends with this reason.
    fn ended_for(&self, reason: &str) -> Reply {
        let text = String::from_utf8(bytes(&self.call())).unwrap();
        let (name, _) = self.reason.split_once(':').unwrap();
        let odd = text.replace(self.reason, &format!("{name}:\"{reason}\""));
        assert_ne!(text, odd, "{}", self.name);
        Reply { body: vec![Chunk::Send(odd.into())], ..self.call() }
    }

    /// A call whose answer stops for longer than the limit after this number of bytes.
    fn paused(&self, after: usize) -> Reply {
        let bytes = bytes(&self.call());
        let (first, second) = bytes.split_at(after.min(bytes.len()));
        let parts = [first, second].map(|part| Chunk::Send(part.to_vec()));
        let [first, second] = parts;
        let pause = Chunk::Pause(Duration::from_secs(5));
        let body = if after == 0 { vec![pause, second] } else { vec![first, pause, second] };
        Reply { body, ..self.call() }
    }
}

fn bytes(reply: &Reply) -> Vec<u8> {
    let parts = reply.body.iter().filter_map(|chunk| match chunk {
        Chunk::Send(bytes) => Some(bytes.as_slice()),
        Chunk::Pause(_) | Chunk::Hangup => None,
    });
    parts.collect::<Vec<_>>().concat()
}

/// The reply, one byte in each piece.
fn slow(reply: &Reply) -> Reply {
    let body = bytes(reply).into_iter().map(|byte| Chunk::Send(vec![byte])).collect();
    Reply { body, ..reply.clone() }
}

/// The reply with other ends of lines, which are legal in event streams.
fn crlf(reply: &Reply) -> Reply {
    let text = String::from_utf8(bytes(reply)).unwrap().replace('\n', "\r\n");
    Reply { body: vec![Chunk::Send(text.into())], ..reply.clone() }
}

/// The reply without its last part; the connection is closed.
fn cut(reply: &Reply, part: usize, parts: usize) -> Reply {
    let bytes = bytes(reply);
    let end = bytes.len() * part / parts;
    Reply { body: vec![Chunk::Send(bytes[..end.max(1)].to_vec()), Chunk::Hangup], ..reply.clone() }
}

const CHAT: Wire = Wire {
    name: "openai-chat",
    text: openai_chat::text,
    calls: openai_chat::calls,
    cut_off: openai_chat::cut_off,
    refused: openai_chat::refused,
    error_event: openai_chat::error_event,
    error: openai_chat::error,
    reason: r#""finish_reason":"tool_calls""#,
};
const RESPONSES: Wire = Wire {
    name: "openai-responses",
    text: openai_responses::text,
    calls: openai_responses::calls,
    cut_off: openai_responses::cut_off,
    refused: openai_responses::refused,
    error_event: openai_responses::error_event,
    error: openai_responses::error,
    reason: r#""status":"completed""#,
};
const MESSAGES: Wire = Wire {
    name: "anthropic-messages",
    text: anthropic_messages::text,
    calls: anthropic_messages::calls,
    cut_off: anthropic_messages::cut_off,
    refused: anthropic_messages::refused,
    error_event: anthropic_messages::error_event,
    error: anthropic_messages::error,
    reason: r#""stop_reason":"tool_use""#,
};
const GEMINI: Wire = Wire {
    name: "gemini",
    text: gemini::text,
    calls: gemini::calls,
    cut_off: gemini::cut_off,
    refused: gemini::refused,
    error_event: gemini::error_event,
    error: gemini::error,
    reason: r#""finishReason":"STOP""#,
};

#[test]
fn faults_of_openai_chat() {
    CHAT.check_all();
}

#[test]
fn faults_of_openai_responses() {
    RESPONSES.check_all();
}

#[test]
fn faults_of_anthropic_messages() {
    MESSAGES.check_all();
}

#[test]
fn faults_of_gemini() {
    GEMINI.check_all();
}

/// The end of an answer that is complete may be lost.
#[test]
fn answer_whose_last_event_is_cut_off_is_complete() {
    for wire in [CHAT, MESSAGES] {
        let cut = |reply: Reply| {
            let mut bytes = bytes(&reply);
            bytes.truncate(bytes.len() - 5);
            Reply { body: vec![Chunk::Send(bytes), Chunk::Hangup], ..reply }
        };
        let server = Server::playing([cut(wire.call()), cut((wire.text)("done"))]);
        let (test, done) = wire.run(&server);
        assert_eq!(done.stdout, "done\n", "{}: {}", wire.name, done.stderr);
        assert_eq!(server.finish().len(), 2, "{}", wire.name);
        let log = std::fs::read_to_string(test.root().join("log")).unwrap();
        assert_eq!(log, "x\n", "{}", wire.name);
    }
}
