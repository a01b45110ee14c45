//! What a wrong or hostile client sends.

use serde_json::{Value, json};

use super::ending::Raw;
use crate::support::{Test, wait_for};

fn code(response: &Value) -> i64 {
    response["error"]["code"].as_i64().unwrap_or_else(|| panic!("{response}"))
}

#[test]
fn client_that_skips_the_handshake_gets_errors() {
    let test = Test::new().script("text: hi");
    let mut raw = Raw::start(&test, &[]);
    let new = json!({"cwd": test.root(), "mcpServers": []});
    assert_eq!(code(&raw.request("session/new", &new)), -32600);
    assert_eq!(raw.initialize()["result"]["protocolVersion"], 1);
    assert!(raw.request("session/new", &new)["result"]["sessionId"].is_string());
    // Again is no harm, and a later version is answered with ours.
    let later = json!({"protocolVersion": 99, "clientCapabilities": {}});
    assert_eq!(raw.request("initialize", &later)["result"]["protocolVersion"], 1);
    let unknown = raw.request("authenticate", &json!({"methodId": "key"}));
    assert_eq!(code(&unknown), -32602);
    assert_eq!(raw.close().1, Some(0));
    assert!(test.try_log().is_some());
}

#[test]
fn lines_that_are_no_requests_are_answered_and_skipped() {
    let test = Test::new().script("text: hi");
    let (mut raw, session) = Raw::opened(&test, &[]);
    for (line, expected) in [
        (&b"nonsense"[..], -32700),
        (b"\xff\xfe\x00", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":", -32700),
        (b"[]", -32600),
        (b"{}", -32600),
        (b"17", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"no/such\"}", -32601),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"session/prompt\",\"params\":{}}", -32602),
    ] {
        raw.line(line);
        let answer = raw.until(|message| message.get("error").is_some());
        assert_eq!(code(&answer), expected, "{}", String::from_utf8_lossy(line));
    }
    // These have no answer.
    raw.line(b"");
    raw.line(b"{\"jsonrpc\":\"2.0\",\"method\":\"no/such\"}");
    raw.line(b"{\"jsonrpc\":\"2.0\",\"id\":\"lost\",\"result\":{}}");
    raw.line(
        b"{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"no\"}}",
    );
    let id = raw.prompt(&session, "hi");
    assert_eq!(raw.response(id)["result"]["stopReason"], "end_turn");
}

#[test]
fn prompts_for_unknown_and_busy_sessions_are_errors() {
    let test = Test::new().script(
        "call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: second\n---\ntext: third",
    );
    let (mut raw, session) = Raw::opened(&test, &[]);
    let unknown = raw.prompt("no-such-session", "hi");
    assert_eq!(code(&raw.response(unknown)), -32002);
    let first = raw.prompt(&session, "write");
    raw.until(|message| message["method"] == "session/request_permission");
    let second = raw.prompt(&session, "and also");
    let refused = raw.response(second);
    assert!(refused["error"]["message"].as_str().unwrap().contains("a prompt is running"));
    // After a cancellation the next prompt waits for the end of the first.
    let cancel =
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
    raw.line(cancel.to_string().as_bytes());
    let third = raw.prompt(&session, "instead");
    assert_eq!(raw.response(first)["result"]["stopReason"], "cancelled");
    assert_eq!(raw.response(third)["result"]["stopReason"], "end_turn");
    assert!(!test.root().join("a").exists());
}

#[test]
fn request_that_is_withdrawn_ends_its_turn() {
    let test =
        Test::new().script("call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: done");
    let (mut raw, session) = Raw::opened(&test, &[]);
    let id = raw.prompt(&session, "write");
    raw.until(|message| message["method"] == "session/request_permission");
    let cancel =
        json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": id}});
    raw.line(cancel.to_string().as_bytes());
    assert_eq!(raw.response(id)["result"]["stopReason"], "cancelled");
}

#[test]
fn answers_that_were_not_offered_allow_nothing() {
    for answer in [
        json!({"result": {"outcome": {"outcome": "selected", "optionId": "everything"}}}),
        json!({"result": {"nonsense": true}}),
        json!({"error": {"code": -32601, "message": "not here"}}),
    ] {
        let test = Test::new().script(
            "call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\nexpect: said no\ntext: ok",
        );
        let (mut raw, session) = Raw::opened(&test, &[]);
        let id = raw.prompt(&session, "write");
        let asked = raw.until(|message| message["method"] == "session/request_permission");
        let mut response = json!({"jsonrpc": "2.0", "id": asked["id"]});
        let parts = answer.as_object().unwrap().clone();
        response.as_object_mut().unwrap().extend(parts);
        raw.line(response.to_string().as_bytes());
        // The same answer again is for no request.
        raw.line(response.to_string().as_bytes());
        assert_eq!(raw.response(id)["result"]["stopReason"], "end_turn", "{answer}");
        assert!(!test.root().join("a").exists());
    }
}

#[test]
fn huge_messages_are_handled_or_refused() {
    let test = Test::new().script("text: read");
    let (mut raw, session) = Raw::opened(&test, &[]);
    raw.line(&vec![b'x'; 70 * 1024 * 1024]);
    let answer = raw.until(|message| message.get("error").is_some());
    assert!(answer.to_string().contains("more than 64 MiB"), "{answer}");
    let id = raw.prompt(&session, &"word ".repeat(10 * 1024 * 1024));
    let refused = raw.response(id);
    assert!(refused["error"]["message"].as_str().unwrap().contains("more than 10 MiB"));
    // The model gets the part of it that fits.
    let id = raw.prompt(&session, &"word ".repeat(200 * 1024));
    assert_eq!(raw.response(id)["result"]["stopReason"], "end_turn");
    wait_for(|| test.has_event("turn.finished"));
    assert_eq!(raw.close().1, Some(0));
}
