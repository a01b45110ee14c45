//! Servers that fail: each is one notice, and the session continues.

use std::path::Path;
use std::time::{Duration, Instant};

use super::{code, envelopes, known, server, states, with};
use crate::support::{Done, Pty, Test, running};

const SEARCH: &str = "call: McpTool {\"search\":\"\"}\n---\ncall: McpTool {\"tool\":\"t.echo\",\"arguments\":{}}\n---\ntext: done";

/// Runs a script; returns what the program said.
fn run(test: &Test, script: &str) -> Done {
    std::fs::write(test.root().join("../script"), script).unwrap();
    test.run(&["--allow", "mcp", "do it"]).expect_code(0)
}

/// One line about the server, which contains this.
#[track_caller]
fn expect_one_notice(done: &Done, part: &str) {
    let lines: Vec<&str> =
        done.stderr.lines().filter(|line| line.contains("MCP server t:")).collect();
    assert_eq!(lines.len(), 1, "{}", done.stderr);
    assert!(lines[0].contains(part), "{}", done.stderr);
}

#[test]
fn garbage_is_one_notice() {
    let test = Test::new().user_config(&server("garbage"));
    let done = run(&test, SEARCH);
    expect_one_notice(&done, "it writes something else than messages: \"this is no message\"");
    assert_eq!(states(&test), ["failed"]);
    let found = test.events_of("tool.finished");
    let text = found[0]["envelope"]["text"].as_str().unwrap();
    assert!(text.starts_with("0 tools found. The servers are t (not available: "), "{text}");
    assert_eq!(code(&found[1]["envelope"]), "MCP_UNAVAILABLE");
}

#[test]
fn greeting_before_the_first_message_is_ignored() {
    let test = known(&server("greeting"));
    let found = envelopes(&test, "call: mcp__t__echo {\"text\":\"x\"}\n---\ntext: done");
    assert_eq!(code(&found[0]), "");
}

#[test]
fn flood_of_error_output_does_no_harm() {
    let test = known(&server("flood"));
    let found = envelopes(&test, "call: mcp__t__echo {\"text\":\"x\"}\n---\ntext: done");
    assert_eq!(found[0]["data"]["content"], "{\"text\":\"x\"}");
    assert_eq!(states(&test), ["connected"]);
}

#[test]
fn server_that_exits_is_reported_with_its_last_words() {
    let test = Test::new().user_config(&server("exits"));
    let done = run(&test, SEARCH);
    expect_one_notice(&done, "it exited with 3; its last output: no database");
}

#[test]
fn program_that_does_not_exist_is_reported() {
    let test = Test::new().user_config("[mcp.servers.t]\ncommand = \"no-such-program\"\n");
    let done = run(&test, SEARCH);
    expect_one_notice(&done, "there is no program no-such-program in PATH");
}

#[test]
fn slow_server_fails_after_its_time_limit() {
    let config = with("t", "slow", "DELAY = \"30\"").replace("20s", "500ms");
    let test = Test::new().user_config(&config);
    let done = run(&test, SEARCH);
    expect_one_notice(&done, "it was not ready within 0.5 s");
}

#[test]
fn server_that_dies_in_calls_is_restarted_three_times() {
    let starts = tempfile::tempdir().unwrap();
    let starts = starts.path().join("starts");
    let test = known(&with("t", "dies", &format!("STARTS = {:?}", starts.to_str().unwrap())));
    std::fs::remove_file(&starts).unwrap();
    // Three failures of one tool open its breaker.
    let calls: String = (0..3)
        .map(|n| {
            let text = format!("{{\"text\":\"{n}\"}}");
            format!("call: mcp__t__echo {text}\n---\ncall: mcp__t__env {text}\n---\n")
        })
        .collect();
    let done = run(&test, &format!("{calls}text: done"));
    let found = test.events_of("tool.finished");
    assert_eq!(found.len(), 6);
    for call in &found {
        assert_eq!(code(&call["envelope"]), "MCP_UNAVAILABLE", "{call}");
    }
    let message = found[0]["envelope"]["error"]["message"].as_str().unwrap();
    assert!(message.contains("ended during the call, which may have had its effect"), "{message}");
    expect_one_notice(&done, "it exited with 1; it was started 3 times again");
    assert_eq!(std::fs::read_to_string(&starts).unwrap().lines().count(), 4);
    let expected =
        ["connected", "lost", "connected", "lost", "connected", "lost", "connected", "failed"];
    assert_eq!(states(&test), expected);
}

#[test]
fn call_without_an_answer_is_a_timeout() {
    let log = tempfile::tempdir().unwrap();
    let log = log.path().join("log");
    let config = with("t", "hangs", &format!("LOG = {:?}", log.to_str().unwrap()));
    let test = known(&config.replace("20s", "1s"));
    let found = envelopes(&test, "call: mcp__t__echo {\"text\":\"x\"}\n---\ntext: done");
    assert_eq!(code(&found[0]), "MCP_TIMEOUT");
    let hint = found[0]["error"]["hint"].as_str().unwrap();
    assert!(hint.contains("mcp.servers.t.timeout"), "{hint}");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("notifications/cancelled"), "{log}");
}

#[test]
fn interrupted_call_is_not_shown_as_one_that_was_not_made() {
    let test = known(&with("t", "hangs", ""))
        .script("call: mcp__t__echo {\"text\":\"x\"}\n---\ntext: not reached");
    let mut pty = Pty::chat(&test, &["--allow", "mcp"]);
    pty.wait_for("/help");
    pty.say("go");
    pty.wait("a call that runs", |_| test.has_event("tool.started"));
    pty.wait_for("◦ mcp__t__echo");
    pty.send("\u{1b}");
    pty.wait_for("stopped by you");
    pty.wait_for("t.echo was cancelled; it may have had its effect");
    assert!(!pty.all().contains("not run"), "{}", pty.all());
}

#[test]
fn breaker_is_that_of_one_tool_of_one_server() {
    let config = format!("{}{}", with("t", "hangs", ""), with("u", "", "")).replace("20s", "1s");
    let test = known(&config);
    let call = |tool: &str, n: u32| {
        format!("call: McpTool {{\"tool\":\"{tool}\",\"arguments\":{{\"text\":\"{n}\"}}}}\n---\n")
    };
    let calls: String = (0..4).map(|n| call("t.echo", n)).collect();
    run(&test, &format!("{calls}{}text: done", call("u.echo", 1)));
    let found = test.events_of("tool.finished");
    let codes: Vec<&str> = found.iter().map(|it| code(&it["envelope"])).collect();
    let timeout = "MCP_TIMEOUT";
    assert_eq!(codes, [timeout, timeout, timeout, "CIRCUIT_OPEN", ""]);
}

/// Processes with this mark in their environment.
fn marked(mark: &str) -> usize {
    let mut n = 0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        n += usize::from(environment.windows(mark.len()).any(|it| it == mark.as_bytes()));
    }
    n
}

#[test]
fn no_process_outlives_a_killed_agent() {
    let mark = format!("MARK_{}", uuid_like());
    let variables = format!("MARK = {mark:?}");
    let test = known(&with("t", "children", &variables))
        .script("call: mcp__t__echo {\"text\":\"x\"}\n---\ncall: Bash {\"command\":\"sleep 60\"}\n---\ntext: done");
    let args = ["run", "--model", "script:../script", "--allow", "mcp", "do it"];
    let mut child = test.spawn(&args);
    let limit = Instant::now() + Duration::from_secs(30);
    while !test.has_event("tool.finished") && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    // The guard, the script, and what it started.
    assert!(marked(&mark) >= 4, "{}", marked(&mark));
    child.kill().unwrap();
    child.wait().unwrap();
    while marked(&mark) > 0 && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(marked(&mark), 0);
}

#[test]
fn servers_end_with_the_session() {
    let mark = format!("MARK_{}", uuid_like());
    let test = known(&with("t", "children", &format!("MARK = {mark:?}")));
    envelopes(&test, "call: mcp__t__echo {\"text\":\"x\"}\n---\ntext: done");
    assert_eq!(marked(&mark), 0);
    assert_eq!(running(&mark), [""; 0]);
}

/// Differs between tests that run at the same time.
fn uuid_like() -> String {
    let folder = tempfile::tempdir().unwrap();
    Path::new(folder.path()).file_name().unwrap().to_string_lossy().replace('.', "")
}
