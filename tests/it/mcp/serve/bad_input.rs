//! Clients that do not follow the protocol.

use serde_json::{Value, json};

use super::{Peer, code};
use crate::support::Test;

/// The code and the message of an error response.
#[track_caller]
fn error(answer: &Value) -> (i64, &str) {
    let error = &answer["error"];
    (error["code"].as_i64().unwrap(), error["message"].as_str().unwrap())
}

#[test]
fn lines_that_are_no_messages_are_answered_with_an_error() {
    let test = Test::new();
    let mut peer = Peer::connect(&test, &[]);
    for (line, expected) in [
        (&b"nonsense"[..], -32700),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 1", -32700),
        (b"\xff\xfe{}", -32700),
        (b"[]", -32600),
        (b"{}", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":5}", -32600),
    ] {
        peer.line(line);
        let answer = peer.answer();
        assert_eq!(error(&answer).0, expected, "{answer}");
        assert_eq!(answer.get("id"), line.contains(&b'7').then(|| json!(7)).as_ref());
    }
    // Empty lines and answers to nothing are ignored.
    peer.line(b"");
    peer.line(b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}");
    assert_eq!(code(&peer.call("LS", &json!({}))), "");
    assert_eq!(peer.close(), Some(0));
}

#[test]
fn requests_with_wrong_parameters_are_answered_with_an_error() {
    let test = Test::new();
    let mut peer = Peer::connect(&test, &[]);
    for (method, params, expected) in [
        ("tools/call", json!({"arguments": {}}), -32602),
        ("tools/call", json!({"name": "LS", "arguments": "{}"}), -32602),
        ("tools/call", json!([]), -32600),
        ("no/such", json!({}), -32601),
        ("resources/list", json!({}), -32601),
    ] {
        let answer = peer.request(method, &params);
        assert_eq!(error(&answer).0, expected, "{answer}");
    }
    assert_eq!(code(&peer.call("Nothing", &json!({}))), "UNKNOWN_TOOL");
    assert_eq!(code(&peer.call("Read", &json!({}))), "INVALID_PARAM");
    assert_eq!(code(&peer.call("Read", &json!({"path": 5}))), "INVALID_PARAM");
    // A second handshake changes nothing.
    assert_eq!(peer.initialize()["result"]["serverInfo"]["name"], "code-agent");
    assert_eq!(code(&peer.call("LS", &json!({}))), "");
}

#[test]
fn client_that_skips_the_handshake_is_told_so() {
    let test = Test::new();
    let mut peer = Peer::start(&test, &[]);
    for (method, params) in [
        ("tools/list", json!({})),
        ("tools/call", json!({"name": "LS"})),
        ("initialize", json!({})),
    ] {
        let answer = peer.request(method, &params);
        let (code, message) = error(&answer);
        assert_eq!(code, -32602);
        assert!(message.contains("request _meta is missing"), "{message}");
    }
    assert_eq!(peer.request("ping", &json!({}))["result"], json!({}));
    peer.initialize();
    assert_eq!(code(&peer.call("LS", &json!({}))), "");
}

#[test]
fn client_that_goes_before_it_begins_ends_the_server() {
    let test = Test::new();
    test.agent(&["mcp", "serve"]).expect_code(0).expect_stdout("");
    test.agent(&["mcp", "serve", "--set", "nonsense"]).expect_code(2).expect_stdout("");
    test.agent(&["mcp", "serve", "-C", "nowhere"]).expect_code(2).expect_stdout("");
}

#[test]
fn large_message_is_read_and_one_that_is_too_large_refused() {
    let test = Test::new();
    let mut peer = Peer::connect(&test, &["--ephemeral"]);
    let large = "x".repeat(50 << 20);
    let answer = peer.request("no/such", &json!({"text": large}));
    assert_eq!(error(&answer).0, -32601);
    peer.line(&vec![b'x'; (64 << 20) + 1]);
    let answer = peer.answer();
    assert_eq!(error(&answer), (-32600, "a message of more than 64 MB is not read"));
    assert_eq!(code(&peer.call("LS", &json!({}))), "");
}
