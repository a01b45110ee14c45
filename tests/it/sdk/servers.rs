//! MCP servers that live in the program.

use serde_json::{Value, json};

use super::{Program, kinds};
use crate::support::Test;

/// Answers the messages to the server `calc` until a line that fits.
fn serve(program: &mut Program, until: impl Fn(&Value) -> bool) -> Vec<Value> {
    let mut lines = Vec::new();
    loop {
        let line = program.next();
        if line["request"]["subtype"] == "mcp_message" {
            let response = answer(&line["request"]["message"]);
            program.answer(&line, &json!({ "mcp_response": response }));
        }
        lines.push(line);
        if lines.last().is_some_and(&until) {
            return lines;
        }
    }
}

fn answer(message: &Value) -> Value {
    let result = match message["method"].as_str().unwrap() {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "calc", "version": "1.0.0"},
        }),
        "tools/list" => json!({"tools": [{
            "name": "add", "description": "Adds two numbers",
            "inputSchema": {"type": "object", "required": ["a", "b"], "properties": {
                "a": {"type": "number"}, "b": {"type": "number"}}},
        }]}),
        "tools/call" => {
            let arguments = &message["params"]["arguments"];
            let sum = arguments["a"].as_i64().unwrap() + arguments["b"].as_i64().unwrap();
            json!({"content": [{"type": "text", "text": format!("the sum is {sum}")}]})
        }
        // A notification is acknowledged.
        _ => return json!({"jsonrpc": "2.0", "result": {}, "id": 0}),
    };
    json!({"jsonrpc": "2.0", "id": message["id"], "result": result})
}

/// A session with the server, after the handshake.
fn calculating(script: &str, args: &[&str]) -> (Test, Program) {
    let test = Test::new().script(script);
    let mut program = Program::start(&test, args);
    let request = json!({"subtype": "initialize", "sdkMcpServers": ["calc"]});
    let id = program.request(&request);
    let lines = serve(&mut program, |line| line["type"] == "control_response");
    let answer = &lines.last().unwrap()["response"];
    assert_eq!((&answer["request_id"], &answer["subtype"]), (&json!(id), &json!("success")));
    (test, program)
}

const ADDS: &str =
    "call: mcp__calc__add {\"a\": 2, \"b\": 3}\n---\nexpect: the sum is 5\ntext: five";

#[test]
fn tool_of_the_program_is_called() {
    let (test, mut program) = calculating(ADDS, &["--allow", "mcp(calc.add)"]);
    let status = program.ask(&json!({"subtype": "mcp_status"}));
    let calc = &status["response"]["mcpServers"][0];
    assert_eq!((&calc["name"], &calc["status"]), (&json!("calc"), &json!("connected")));
    assert_eq!(calc["tools"][0]["name"], "add");
    program.say("add");
    let lines = serve(&mut program, |line| line["type"] == "result");
    assert_eq!(lines.last().unwrap()["result"], "five");
    let init = lines.iter().find(|line| line["subtype"] == "init").unwrap();
    assert!(init["tools"].as_array().unwrap().contains(&json!("mcp__calc__add")), "{init}");
    assert_eq!(init["mcp_servers"], json!([{"name": "calc", "status": "connected"}]));
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
    // The model receives the tool with its schema.
    let request = &test.events_of("model.requested")[0];
    assert!(request["texts"].to_string().contains("mcp__calc__add"), "{request}");
    // Nothing is kept of a server in the program.
    assert!(!test.home().join(".cache/agent/mcp").exists());
}

#[test]
fn tool_of_the_program_needs_approval() {
    let (_test, mut program) = calculating(ADDS, &["--permission-prompt-tool", "stdio"]);
    program.say("add");
    let lines = serve(&mut program, |line| line["request"]["subtype"] == "can_use_tool");
    let asked = lines.last().unwrap();
    assert_eq!(asked["request"]["tool_name"], "mcp__calc__add");
    assert_eq!(asked["request"]["input"], json!({"a": 2, "b": 3}));
    program.answer(asked, &json!({"behavior": "allow"}));
    let lines = serve(&mut program, |line| line["type"] == "result");
    assert_eq!(lines.last().unwrap()["result"], "five");
    program.finish();
}

#[test]
fn failure_of_a_tool_in_the_program_is_a_result() {
    let script = "call: mcp__calc__add {\"a\": 2, \"b\": 3}\n---\nexpect: it broke\ntext: sorry";
    let (_test, mut program) = calculating(script, &["--allow", "mcp"]);
    program.say("add");
    let asked = program.asked("mcp_message");
    assert_eq!(asked["request"]["server_name"], "calc");
    program.send(&json!({"type": "control_response", "response": {
        "subtype": "error", "request_id": asked["request_id"], "error": "it broke"}}));
    assert_eq!(program.result().pop().unwrap()["result"], "sorry");
    program.finish();
}

#[test]
fn call_that_the_program_never_answers_ends_with_its_input() {
    let script = "call: mcp__calc__add {\"a\": 2, \"b\": 3}\n---\ntext: sorry";
    let (_test, mut program) = calculating(script, &["--allow", "mcp"]);
    program.say("add");
    program.asked("mcp_message");
    let (lines, code) = program.finish();
    assert_eq!(kinds(&lines).last().unwrap(), "result success");
    assert_eq!(code, Some(0));
}

/// The session waits no longer: neither need the program.
#[test]
fn call_that_takes_too_long_is_withdrawn() {
    let script = "call: mcp__calc__add {\"a\": 2, \"b\": 3}\n---\nexpect: did not answer|TIMEOUT\ntext: sorry";
    let args = ["--allow", "mcp", "--set", "limits.answer_timeout=2s"];
    let (_test, mut program) = calculating(script, &args);
    program.say("add");
    let asked = program.asked("mcp_message");
    let mut lines = program.result();
    assert_eq!(lines.last().unwrap()["result"], "sorry");
    // (The turn does not wait for the notice to the server.)
    let (rest, code) = program.finish();
    lines.extend(rest);
    let is_withdrawn = |line: &Value| {
        line["type"] == "control_cancel_request" && line["request_id"] == asked["request_id"]
    };
    assert!(lines.iter().any(is_withdrawn), "{lines:?}");
    assert_eq!(code, Some(0));
}
