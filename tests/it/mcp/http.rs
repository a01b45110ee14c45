//! Servers over streamable HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{code, envelopes};
use crate::support::server::{self, Chunk, Reply, Server};
use crate::support::{Pty, Test};

/// Answers like an MCP server without sessions; calls as a stream of events.
fn answer(body: &Value) -> Reply {
    let result = match body["method"].as_str() {
        Some("initialize") => {
            json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "test", "version": "1"}})
        }
        Some("tools/list") => {
            json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})
        }
        Some("tools/call") => {
            let said = body["params"]["arguments"].to_string();
            let result = json!({"content": [{"type": "text", "text": said}]});
            let message = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
            return server::sse_raw(&[&message.to_string()]);
        }
        _ => return Reply::new(202, "application/json", ""),
    };
    server::json(200, &json!({"jsonrpc": "2.0", "id": body["id"], "result": result}))
}

fn config(server: &Server, more: &str) -> String {
    format!("[mcp.servers.t]\nurl = \"{}\"\ntimeout = \"5s\"\n{more}", server.url())
}

#[test]
fn tool_of_an_http_server_is_called() {
    let server = Server::with(|request, _| match request.method.as_str() {
        "POST" => answer(&request.json()),
        _ => Reply::new(405, "text/plain", ""),
    });
    let headers = "headers = { Authorization = \"Bearer ${TOKEN_OF_TEST}\" }\n";
    let test =
        Test::new().user_config(&config(&server, headers)).env("TOKEN_OF_TEST", "abc-0123456789");
    test.agent(&["mcp", "test"]).expect_code(0);
    let found = envelopes(&test, "call: mcp__t__echo {\"text\":\"hi\"}\n---\ntext: done");
    assert_eq!(found[0]["data"]["content"], "{\"text\":\"hi\"}", "{found:?}");
    let requests = server.finish();
    assert!(requests.iter().all(|it| it.header("authorization") == Some("Bearer abc-0123456789")));
}

#[test]
fn login_is_explained() {
    for challenge in [true, false] {
        let server = Server::with(move |_, _| {
            let reply = server::json(401, &json!({"error": "invalid_token"}));
            if challenge {
                reply.header("www-authenticate", "Bearer resource_metadata=\"x\"")
            } else {
                reply
            }
        });
        let test = Test::new().user_config(&config(&server, "")).script("text: done");
        let done = test.agent(&["mcp", "test"]).expect_code(1);
        let part = "✗ t: not available: it wants a login (HTTP 401): give it a token, headers = { Authorization = \"Bearer ${TOKEN}\" }";
        assert!(done.stdout.starts_with(part), "{challenge}: {}", done.stdout);
    }
}

#[test]
fn address_without_a_server_is_one_notice() {
    let test = Test::new()
        .user_config("[mcp.servers.t]\nurl = \"http://127.0.0.1:1/mcp\"\n")
        .script("call: McpTool {\"tool\":\"t.echo\"}\n---\ntext: done");
    let done = test.run(&["--allow", "mcp", "do it"]).expect_code(0);
    let notice = "MCP server t: it cannot be reached: Connection refused";
    assert_eq!(done.stderr.matches(notice).count(), 1, "{}", done.stderr);
    assert_eq!(done.stderr.matches("MCP server t:").count(), 1, "{}", done.stderr);
    assert_eq!(code(&test.events_of("tool.finished")[0]["envelope"]), "MCP_UNAVAILABLE");
}

#[test]
fn page_instead_of_an_answer_is_one_notice() {
    let server = Server::with(|_, _| server::html(200));
    let test = Test::new().user_config(&config(&server, "")).script("text: done");
    let done = test.agent(&["mcp", "test"]).expect_code(1);
    assert!(
        done.stdout.starts_with("✗ t: not available: Unexpected content type"),
        "{}",
        done.stdout
    );
}

#[test]
fn hanging_call_is_a_timeout() {
    let server = Server::with(|request, _| {
        if request.method != "POST" {
            return Reply::new(405, "text/plain", "");
        }
        let body = request.json();
        match body["method"].as_str() {
            Some("tools/call") => Reply::new(200, "text/event-stream", ": wait\n\n")
                .then(Chunk::Pause(std::time::Duration::from_secs(20))),
            _ => answer(&body),
        }
    });
    let test = Test::new().user_config(&config(&server, "").replace("5s", "1s"));
    test.agent(&["mcp", "test"]).expect_code(0);
    let found = envelopes(&test, "call: mcp__t__echo {}\n---\ntext: done");
    assert_eq!(code(&found[0]), "MCP_TIMEOUT");
}

/// A server that is gone after its tools were listed, and comes back.
#[test]
fn server_that_cannot_be_reached_is_one_sentence_and_not_connected() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = is_gone.clone();
    let server = Server::with(move |request, _| match request.method.as_str() {
        _ if gone.load(Ordering::Relaxed) => server::no_answer(),
        "POST" => answer(&request.json()),
        _ => Reply::new(405, "text/plain", ""),
    });
    let call = "call: McpTool {\"tool\": \"t.echo\", \"arguments\": {\"text\": \"hi\"}}\n---\n";
    let script = format!("{call}text: first\n---\n{call}text: second");
    let test = Test::new().user_config(&config(&server, "")).script(&script);
    test.agent(&["mcp", "test"]).expect_code(0);
    let mut pty = Pty::chat(&test, &["--allow", "mcp"]);
    pty.wait_for("/help");
    // It connects while the chat is already open.
    while !pty.all().contains("t: connected, 1 tool: echo") {
        let n_lists = pty.all().matches("MCP servers").count();
        pty.say("/mcp");
        pty.wait("a list", |_| pty.all().matches("MCP servers").count() > n_lists);
    }
    is_gone.store(true, Ordering::Relaxed);
    pty.say("call it");
    pty.wait_for("first");
    let message = test.events_of("tool.finished")[0]["envelope"]["error"]["message"].clone();
    let message = message.as_str().unwrap();
    // It was connected, and has received the call.
    let expected =
        "the MCP server t gave no usable answer to the call, which may have had its effect: ";
    assert!(message.starts_with(expected), "{message}");
    assert!(!message.contains("Transport") && !message.contains("rmcp"), "{message}");
    pty.say("/mcp");
    pty.wait_for("t: not available: connection closed");
    is_gone.store(false, Ordering::Relaxed);
    pty.say("again");
    pty.wait_for("second");
    assert_eq!(test.events_of("tool.finished")[1]["envelope"]["status"], "success");
    pty.say("/mcp");
    pty.wait("connected again", |_| pty.all().matches("t: connected, 1 tool").count() > 1);
}

#[test]
fn chat_shows_the_beginning_of_an_answer() {
    let server = Server::with(|request, _| match request.method.as_str() {
        "POST" if request.json()["method"] == "tools/call" => {
            let lines: String = (1..=20).map(|n| format!("row {n}\n")).collect();
            let result = json!({"content": [{"type": "text", "text": lines}]});
            let id = &request.json()["id"];
            server::json(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
        }
        "POST" => answer(&request.json()),
        _ => Reply::new(405, "text/plain", ""),
    });
    let test = Test::new()
        .user_config(&config(&server, ""))
        .script("call: McpTool {\"tool\": \"t.echo\", \"arguments\": {}}\n---\ntext: first");
    test.agent(&["mcp", "test"]).expect_code(0);
    let mut pty = Pty::chat(&test, &["--allow", "mcp"]);
    pty.wait_for("/help");
    pty.say("call it");
    pty.wait_for("first");
    let rows = "t.echo {}\n    row 1\n    row 2\n    row 3\n    row 4\n    … 16 more lines\n";
    assert!(pty.all().contains(rows), "{}", pty.all());
    pty.send("\x14");
    pty.wait_for("q close");
    pty.send("a");
    pty.wait_for("row 20");
}
