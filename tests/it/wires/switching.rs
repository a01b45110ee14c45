//! One session over all wire formats.

use serde_json::{Value, json};

use super::{anthropic_messages, gemini, openai_chat, openai_responses};
use crate::server::{Reply, Server};
use crate::support::Test;

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
    ];
    let mut config = String::new();
    for (wire, server) in &servers {
        let url = server.url();
        let url = url.trim_end_matches("/v1");
        config.push_str(&format!("[providers.{wire}]\nwire = \"{wire}\"\nbase_url = \"{url}\"\n"));
    }
    let test = Test::new().user_config(&config).file("a.txt", "colour\n");
    let order = [0, 1, 2, 3, 0, 1, 2, 3];
    for (turn, at) in order.into_iter().enumerate() {
        let model = format!("{}/m", servers[at].0);
        let message = format!("message {turn}");
        let mut args = vec!["run", &message, "--model", &model];
        args.extend((turn > 0).then_some("-c"));
        test.agent(&args).expect_code(0);
    }
    for (wire, server) in &servers {
        let requests = server.finish();
        assert_eq!(requests.len(), 4, "{wire}");
        let [_, _, third, _] = requests.as_slice() else { unreachable!() };
        // All earlier turns are there, whoever answered them.
        for turn in 0..4 {
            assert!(third.body.contains(&format!("message {turn}")), "{wire}: {}", third.body);
        }
        assert_eq!(third.body.matches("answer 1").count(), 4, "{wire}");
        assert!(third.body.matches("colour").count() >= 4, "{wire}");
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
