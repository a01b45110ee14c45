//! One session over all wire formats.

use serde_json::{Value, json};

use super::{anthropic_messages, gemini, openai_chat, openai_responses};
use crate::support::Test;
use crate::support::server::{Chunk, Reply, Server};

/// What the provider of each wire format needs back, as it is in a request.
const CARRIED: [(&str, &str); 3] = [
    ("anthropic-messages", "EqQBCgIYAhIM"),
    ("openai-responses", "gAAAAABo"),
    ("gemini", "c2lnbmF0dXJl"),
];

type Calls = fn(&[(&str, Value)]) -> Reply;
type Text = fn(&str) -> Reply;

fn server(calls: Calls, text: Text) -> Server {
    // Each turn reads a file and answers.
    Server::with(move |_, n| match n % 2 {
        0 => calls(&[("Read", json!({"path": "a.txt"}))]),
        _ => text(&format!("answer {n}")),
    })
}

/// Calls with an id as Kimi's, but longer than any server accepts from another one.
fn odd_calls(calls: &[(&str, Value)]) -> Reply {
    let reply = openai_chat::calls(calls);
    let body = reply.body.iter().map(|chunk| match chunk {
        Chunk::Send(bytes) => {
            let text = String::from_utf8(bytes.clone()).unwrap();
            let odd = text.replace(r#""id":"c0""#, &format!(r#""id":"functions.Read:{:070}""#, 0));
            assert_ne!(text, odd);
            Chunk::Send(odd.into())
        }
        chunk => chunk.clone(),
    });
    Reply { body: body.collect(), ..reply }
}

/// The ids of the calls in this request.
fn call_ids(wire: &str, body: &Value) -> Vec<String> {
    let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let messages = items(&body["messages"]).into_iter();
    let ids = match wire {
        "anthropic-messages" => {
            let blocks = messages.flat_map(|message| items(&message["content"]));
            blocks.filter(|block| block["type"] == "tool_use").map(|it| it["id"].clone()).collect()
        }
        "openai-responses" => {
            let calls =
                items(&body["input"]).into_iter().filter(|it| it["type"] == "function_call");
            calls.map(|call| call["call_id"].clone()).collect()
        }
        // It accepts any id.
        "gemini" => Vec::new(),
        _ => {
            let calls = messages.flat_map(|message| items(&message["tool_calls"]));
            calls.map(|call| call["id"].clone()).collect::<Vec<_>>()
        }
    };
    ids.iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

/// The server of this wire format accepts the id.
fn accepts(wire: &str, id: &str) -> bool {
    let is_word = |also: &str| {
        id.bytes().all(|byte| byte.is_ascii_alphanumeric() || also.contains(char::from(byte)))
    };
    match wire {
        "anthropic-messages" => !id.is_empty() && is_word("_-"),
        "openai-responses" => id.len() <= 64 && is_word("_-"),
        "mistral" => id.len() == 9 && is_word(""),
        _ => id.len() <= 40 && is_word("_-.:"),
    }
}

/// The test server proves for each request that calls and results pair in the form of its wire format.
#[test]
fn session_continues_on_every_wire_and_returns_to_the_first() {
    let servers = [
        (
            "anthropic-messages",
            server(anthropic_messages::thinking_and_calls, anthropic_messages::text),
        ),
        ("openai-responses", server(openai_responses::reasoning_and_calls, openai_responses::text)),
        ("gemini", server(gemini::calls, gemini::text)),
        ("openai-chat", server(openai_chat::calls, openai_chat::text)),
        ("mistral", server(odd_calls, openai_chat::text)),
    ];
    let mut config = String::new();
    for (wire, server) in &servers {
        let url = server.url();
        let url = url.trim_end_matches("/v1");
        config.push_str(&format!("[providers.{wire}]\nbase_url = \"{url}\"\n"));
        // The last one is a preset.
        if *wire != "mistral" {
            config.push_str(&format!("wire = \"{wire}\"\n"));
        }
    }
    let test = Test::new().user_config(&config).file("a.txt", "colour\n");
    let order = [0, 1, 2, 3, 4, 0, 1, 2, 3, 4];
    for (turn, at) in order.into_iter().enumerate() {
        let model = format!("{}/m", servers[at].0);
        let message = format!("message {turn}");
        let mut args = vec!["run", &message, "--model", &model];
        args.extend((turn > 0).then_some("-c"));
        test.agent(&args).expect_code(0);
    }
    for (at, (wire, server)) in servers.iter().enumerate() {
        let requests = server.finish();
        assert_eq!(requests.len(), 4, "{wire}");
        for request in &requests {
            let ids = call_ids(wire, &request.json());
            assert!(ids.iter().all(|id| accepts(wire, id)), "{wire}: {ids:?}");
        }
        let n_ids = call_ids(wire, &requests[3].json()).len();
        assert_eq!(n_ids, if *wire == "gemini" { 0 } else { 6 + at }, "{wire}");
        let [_, _, third, _] = requests.as_slice() else { unreachable!() };
        // All earlier turns are there, whoever answered them.
        for turn in 0..5 {
            assert!(third.body.contains(&format!("message {turn}")), "{wire}: {}", third.body);
        }
        assert_eq!(third.body.matches("answer 1").count(), 5, "{wire}");
        assert!(third.body.matches("colour").count() >= 5, "{wire}");
        for (owner, carried) in CARRIED {
            assert_eq!(
                third.body.contains(carried),
                owner == *wire,
                "{wire}: {carried} in {}",
                third.body
            );
        }
    }
}
