//! What the model receives of the servers' tools, and how it calls them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{code, envelopes, known, server, states, with};
use crate::support::{Pty, Test, wait_for};

/// Tokens of the tools in the first request, as estimated in the log.
fn tool_tokens(test: &Test) -> u64 {
    test.events_of("model.requested")[0]["layers"]["tools"]["tokens"].as_u64().unwrap()
}

/// The text of the tools in the first request.
fn tools_text(test: &Test) -> String {
    let request = test.events_of("model.requested")[0].clone();
    let hash = request["layers"]["tools"]["hash"].as_str().unwrap().to_owned();
    request["texts"][&hash].as_str().unwrap().to_owned()
}

#[test]
fn known_tool_is_called_by_its_name() {
    let test = known(&server(""));
    let found = envelopes(
        &test,
        "call: mcp__t__echo {\"text\":\"hi\"}\n---\ncall: mcp__t__echo {\"txt\":1}\n---\ntext: done",
    );
    assert_eq!(found[0]["data"]["content"], "{\"text\":\"hi\"}");
    assert_eq!(code(&found[1]), "INVALID_PARAM");
    let tools = test.events_of("session.started")[0]["tools"].to_string();
    assert!(tools.contains("\"mcp__t__echo\",\"mcp__t__env\",\"McpTool\""), "{tools}");
    assert_eq!(states(&test), ["connected"]);
    let text = tools_text(&test);
    // The schema is passed on as it is.
    assert!(text.contains("{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]}"), "{text}");
}

#[test]
fn unknown_server_delays_nothing_and_is_called_through_the_one_tool() {
    let test = Test::new().user_config(&with("t", "slow", "DELAY = \"1\""));
    let found = envelopes(
        &test,
        "call: McpTool {\"search\":\"echo\"}\n---\ncall: McpTool {\"tool\":\"t.echo\",\"arguments\":{}}\n---\n\
         call: McpTool {\"tool\":\"t.echo\",\"arguments\":{\"text\":\"hi\"}}\n---\n\
         call: McpTool {\"tool\":\"t.ecco\"}\n---\ncall: McpTool {\"tool\":\"u.echo\"}\n---\n\
         call: mcp__t__echo {\"text\":\"hi\"}\ncall: t.echo {\"text\":\"hi\"}\n---\ntext: done",
    );
    let content = found[0]["data"]["content"].as_str().unwrap();
    assert!(content.starts_with("t.echo: Says it again\n{\"type\":\"object\""), "{content}");
    // Arguments that do not fit are answered with the schema.
    assert_eq!(code(&found[1]), "INVALID_PARAM");
    assert!(found[1]["data"]["content"].as_str().unwrap().contains("\"required\":[\"text\"]"));
    assert_eq!(found[2]["data"]["content"], "{\"text\":\"hi\"}");
    assert_eq!((code(&found[3]), code(&found[4])), ("UNKNOWN_TOOL", "UNKNOWN_TOOL"));
    assert!(found[3]["error"]["hint"].as_str().unwrap().contains("did you mean t.echo?"));
    let hint = "call McpTool with {\"tool\": \"t.echo\", \"arguments\": …}";
    for named in &found[5..7] {
        assert_eq!((code(named), &named["error"]["hint"]), ("UNKNOWN_TOOL", &json!(hint)));
    }
    let kinds =
        test.events().iter().map(|it| it["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let at = |kind: &str| kinds.iter().position(|it| it == kind).unwrap();
    assert!(at("model.requested") < at("mcp.server"), "{kinds:?}");
    assert!(tools_text(&test).contains("t: not connected yet"));
}

#[test]
fn without_servers_nothing_is_added() {
    let test = Test::new().script("text: done");
    test.run(&["do it"]).expect_code(0);
    assert!(!tools_text(&test).contains("MCP"));
    assert_eq!(states(&test), [""; 0]);
    let cache = test.home().join(".cache/agent/mcp");
    assert!(!cache.exists());
}

#[test]
fn hundreds_of_tools_become_an_index_of_bounded_size() {
    let test = known(&server("many"));
    let found = envelopes(
        &test,
        "call: McpTool {\"search\":\"tool_417\"}\n---\n\
         call: McpTool {\"tool\":\"t.tool_417\",\"arguments\":{\"text\":\"x\"}}\n---\ntext: done",
    );
    assert!(found[0]["data"]["content"].as_str().unwrap().starts_with("t.tool_417: "));
    assert_eq!(found[1]["data"]["content"], "{\"text\":\"x\"}");
    let without = Test::new().script("text: done");
    without.run(&["do it"]).expect_code(0);
    let added = tool_tokens(&test) - tool_tokens(&without);
    assert!(added < 1500, "{added} tokens");
    assert!(tools_text(&test).contains("t: 500 tools"));
}

#[test]
fn small_server_is_offered_directly_beside_a_large_one() {
    let config = format!("{}{}", with("big", "many", ""), with("small", "", ""));
    let test = known(&config);
    let found = envelopes(&test, "call: mcp__small__echo {\"text\":\"x\"}\n---\ntext: done");
    assert_eq!(code(&found[0]), "");
    let text = tools_text(&test);
    assert!(text.contains("big: 500 tools") && !text.contains("mcp__big__"), "{text}");
}

#[test]
fn description_of_a_megabyte_is_cut() {
    let test = known(&server("large"));
    envelopes(&test, "call: mcp__t__large {}\n---\ntext: done");
    let text = tools_text(&test);
    assert!(
        text.contains(&"a".repeat(2000)) && !text.contains(&"a".repeat(2100)),
        "{}",
        text.len()
    );
}

#[test]
fn tool_without_schema_takes_any_object() {
    let test = known(&server("schemaless"));
    let found = envelopes(&test, "call: mcp__t__free {\"a\":[1]}\n---\ntext: done");
    assert_eq!(found[0]["data"]["content"], "{\"a\":[1]}");
    assert!(tools_text(&test).contains("mcp__t__free: \n{\"type\":\"object\",\"properties\":{}}"));
}

#[test]
fn schema_that_cannot_be_compiled_lets_arguments_pass() {
    let test = known(&server("strange"));
    let found = envelopes(
        &test,
        "call: mcp__t__strange {\"a\":null,\"file_path\":1}\n---\n\
         call: McpTool {\"tool\":\"t.strange\",\"arguments\":{\"b\":2}}\n---\ntext: done",
    );
    assert_eq!(found[0]["data"]["content"], "{\"a\":null,\"file_path\":1}");
    assert_eq!(found[1]["data"]["content"], "{\"b\":2}");
}

#[test]
fn colliding_and_long_names_are_told_apart() {
    let test = known(&server("colliding"));
    envelopes(&test, "text: done");
    let tools = test.events_of("session.started")[0]["tools"].clone();
    let names: Vec<&str> = tools.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let mut names: Vec<&&str> = names.iter().filter(|name| name.starts_with("mcp__t__a")).collect();
    assert_eq!(names.len(), 4, "{tools}");
    names.dedup();
    assert_eq!(names.len(), 4, "{tools}");
    assert!(names.iter().all(|name| name.len() <= 64), "{tools}");
}

#[test]
fn changed_list_of_tools_changes_no_request() {
    let hold = tempfile::tempdir().unwrap();
    let hold = hold.path().join("hold");
    let test = known(&with("t", "changes", &format!("HOLD = {:?}", hold.to_str().unwrap())));
    let found = envelopes(
        &test,
        "call: mcp__t__echo {\"text\":\"x\"}\n---\ncall: McpTool {\"search\":\"late\"}\n---\n\
         call: McpTool {\"tool\":\"t.late\",\"arguments\":{\"text\":\"y\"}}\n---\ntext: done",
    );
    assert!(found[1]["data"]["content"].as_str().unwrap().starts_with("t.late: "), "{found:?}");
    assert_eq!(found[2]["data"]["content"], "changed");
    assert!(states(&test).contains(&"changed".to_owned()), "{:?}", states(&test));
    let requests = test.events_of("model.requested");
    let hashes: Vec<_> = requests.iter().map(|it| it["layers"]["tools"]["hash"].clone()).collect();
    assert!(hashes.len() >= 4 && hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    // The next session begins with it, if the server is not faster.
    std::fs::write(&hold, "").unwrap();
    envelopes(&test, "text: done");
    assert!(tools_text(&test).contains("mcp__t__late: "));
}

#[test]
fn calls_that_only_read_run_in_parallel() {
    let test = known(&server("sleeps"));
    let calls = "call: mcp__t__env {}\ncall: mcp__t__env {\"a\":1}\ncall: mcp__t__env {\"a\":2}\n";
    let found = envelopes(&test, &format!("{calls}---\ntext: done"));
    assert!(found.iter().all(|it| it["data"]["content"] == "slept"), "{found:?}");
    let kinds: Vec<String> = test
        .events()
        .iter()
        .map(|it| it["type"].as_str().unwrap().to_owned())
        .filter(|kind| kind.starts_with("tool."))
        .collect();
    assert_eq!(kinds[..3], ["tool.started"; 3], "{kinds:?}");
}

#[test]
fn call_needs_approval_or_a_rule() {
    let test = known(&server(""));
    let script = "call: mcp__t__echo {\"text\":\"x\"}\n---\n\
                  call: McpTool {\"tool\":\"t.echo\",\"arguments\":{\"text\":\"y\"}}\n---\n\
                  call: McpTool {\"search\":\"echo\"}\n---\ntext: done";
    std::fs::write(test.root().join("../script"), script).unwrap();
    let codes = |args: &[&str]| -> Vec<String> {
        test.run(args);
        let finished = test.events_of("tool.finished");
        finished.iter().map(|it| code(&it["envelope"]).to_owned()).collect()
    };
    let ask = "APPROVAL_REQUIRED";
    assert_eq!(codes(&["do it"]), [ask, ask, ""]);
    assert_eq!(codes(&["--allow", "mcp(t.echo)", "do it"]), ["", "", ""]);
    assert_eq!(codes(&["--allow", "mcp(t.env)", "do it"]), [ask, ask, ""]);
    let denied = "ACCESS_DENIED";
    assert_eq!(codes(&["--allow", "mcp", "--deny", "mcp(t.*)", "do it"]), [denied, denied, ""]);
    assert_eq!(codes(&["--permission-mode", "read-only", "do it"]), [denied, denied, ""]);
}

/// Not in a mode that only reads, whatever a rule in a file allows.
#[test]
fn what_a_tool_changes_is_undone() {
    let config =
        format!("permissions.allow = [\"mcp(t.*)\"]\n{}\ncwd = \"project\"\n", server("writes"));
    let script = "call: mcp__t__echo {\"text\":\"x\"}\n---\ntext: done";
    let test = known(&config).script(script);
    for mode in ["read-only", "plan"] {
        test.run(&["--permission-mode", mode, "do it"]);
        assert_eq!(
            code(&test.events_of("tool.finished")[0]["envelope"]),
            "ACCESS_DENIED",
            "{mode}"
        );
    }
    test.run(&["do it"]).expect_code(0);
    assert_eq!(test.read("made.txt"), "written\n");
    assert_eq!(test.events_of("turn.finished")[0]["files_changed"], json!(["made.txt"]));
    test.agent(&["session", "undo"]).expect_code(0);
    assert!(!test.root().join("made.txt").exists());
}

#[test]
fn interrupt_ends_a_call() {
    let log = tempfile::tempdir().unwrap();
    let log = log.path().join("log");
    let test = known(&with("t", "hangs", &format!("LOG = {:?}", log.to_str().unwrap())))
        .script("call: mcp__t__echo {\"text\":\"x\"}\n---\ntext: done");
    let args = ["run", "--model", "script:../script", "--allow", "mcp", "do it"];
    let child = test.spawn(&args);
    let limit = Instant::now() + Duration::from_secs(20);
    let calls = || std::fs::read_to_string(&log).unwrap_or_default().contains("tools/call");
    while !calls() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(code(&test.events_of("tool.finished")[0]["envelope"]), "CANCELLED");
}

#[test]
fn tools_of_a_server_that_answers_before_the_first_request_are_offered_directly() {
    let test = Test::new()
        .user_config(&with("t", "slow", "DELAY = \"0.5\""))
        .script("call: mcp__t__env {}\n---\ntext: done");
    let mut pty = Pty::chat(&test, &["--allow", "mcp"]);
    pty.wait_for("/help");
    // It was never connected before, so that its tools are not known when the session is opened.
    let cache = test.home().join(".cache/agent/mcp");
    wait_for(|| cache.read_dir().is_ok_and(|mut files| files.next().is_some()));
    pty.say("go");
    pty.wait_for("done");
    let tools = test.events_of("session.started")[0]["tools"].to_string();
    assert!(tools.contains("McpTool") && !tools.contains("mcp__t__env"), "{tools}");
    assert_eq!(states(&test), ["connected"]);
    let text = tools_text(&test);
    assert!(text.contains("mcp__t__env: ") && !text.contains("not connected yet"), "{text}");
    assert_eq!(code(&test.events_of("tool.finished")[0]["envelope"]), "");
}

#[test]
fn first_line_of_a_stream_names_the_servers() {
    let config = format!("{}{}", with("slow", "slow", ""), with("t", "", ""));
    let test = Test::new().user_config(&config).script("text: done");
    let done = test.run(&["go", "--output-format", "stream-json"]).expect_code(0);
    let servers = &done.lines()[0]["mcp_servers"];
    assert_eq!(servers[0], serde_json::json!({"name": "slow", "status": "pending"}));
    assert_eq!(servers[1]["name"], "t");
}
