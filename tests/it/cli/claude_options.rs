//! Options with the names and values of Claude Code's, as its SDKs and scripts pass them.

use serde_json::{Value, json};

use crate::mcp;
use crate::support::Test;
use crate::support::server::{self, Server};

/// The whole L1 of the first request.
fn instructions(test: &Test) -> String {
    let request = &test.events_of("model.requested")[0];
    let hash = request["layers"]["l1"]["hash"].as_str().unwrap();
    request["texts"][hash].as_str().unwrap().to_owned()
}

fn answering() -> Test {
    Test::new().script("text: done")
}

/// A `--mcp-config` with a server of the script.
fn servers(name: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.sh");
    let server = json!({"type": "stdio", "command": "bash", "args": [script], "env": {"MODE": ""}});
    json!({"mcpServers": {name: server}}).to_string()
}

#[test]
fn options_without_meaning_are_named_once() {
    let test = answering();
    let args = ["--betas", "x-1", "--debug", "--debug-file=d", "--task-budget=5"];
    let silent = ["--allow-dangerously-skip-permissions", "--await-initialize"];
    let done = test.run(&[&args[..], &silent, &["--quiet", "task"]].concat()).expect_code(0);
    let done = done.expect_one_line_of_stderr("agent: options without effect: --betas (");
    for name in ["--debug (", "--debug-file (", "--task-budget ("] {
        assert_eq!(done.stderr.matches(name).count(), 1, "{}", done.stderr);
    }
    assert!(!done.stderr.contains("--a"), "{}", done.stderr);
}

#[test]
fn options_whose_effect_would_be_missed_are_errors() {
    let test = answering();
    for option in ["--plugin-dir=p", "--resume-session-at=u", "--agent=a"] {
        let name = option.split('=').next().unwrap();
        let done = test.run(&[option, "task"]).expect_code(2);
        done.expect_stderr(&format!("unexpected argument '{name}' found"));
    }
}

#[test]
fn options_without_a_subcommand_mean_run() {
    let test = answering();
    let args = ["--output-format", "stream-json", "--verbose", "--model", "script:../script", "x"];
    let lines = test.agent(&args).expect_code(0).lines();
    assert_eq!(lines[0]["subtype"], "init");
    assert_eq!(lines.last().unwrap()["result"], "done");
    test.agent(&["-p", "x", "--model", "script:../script"]).expect_code(0).expect_stdout("done\n");
}

#[test]
fn system_prompt_replaces_the_instructions() {
    let test = answering().file("AGENTS.md", "Use tabs.");
    test.run(&["task"]).expect_code(0);
    let usual = instructions(&test);
    assert!(usual.contains("# Boundaries") && usual.contains("# Recovery"), "{usual}");
    let test = answering().file("AGENTS.md", "Use tabs.");
    test.run(&["--system-prompt", "Speak like a pirate.", "task"]).expect_code(0);
    let own = instructions(&test);
    let (boundary, rest) = own.split_once("\n\nSpeak like a pirate.\n\n").unwrap();
    assert!(usual.starts_with(boundary) && boundary.contains("# Boundaries"), "{own}");
    assert!(!rest.contains("# Decisions") && !own.contains("# Recovery"), "{own}");
    // The facts about the project follow.
    let last = |text: &str| text.rsplit("\n\n").next().unwrap().lines().next().unwrap().to_owned();
    assert_eq!(last(&own), last(&usual));
    // Empty: no instructions.
    let test = answering().file("p.md", "From a file.\n");
    test.run(&["--system-prompt", "", "task"]).expect_code(0);
    let none = instructions(&test);
    assert!(!none.contains("# Decisions") && !none.contains("\n\n\n"), "{none}");
    let args = ["--system-prompt-file", "p.md", "--append-system-prompt", "And more.", "task"];
    test.run(&args).expect_code(0);
    let own = instructions(&test);
    assert!(own.contains("\n\nFrom a file.\n\n") && own.ends_with("And more."), "{own}");
    test.run(&["--append-system-prompt-file", "p.md", "task"]).expect_code(0);
    assert!(instructions(&test).contains("# Decisions"));
    assert!(instructions(&test).ends_with("From a file.\n"));
    let done = test.run(&["--system-prompt-file", "none.md", "task"]).expect_code(2);
    done.expect_one_line_of_stderr("--system-prompt-file none.md: ");
}

#[test]
fn servers_of_the_command_line_are_used_without_trust() {
    let call =
        "call: McpTool {\"tool\":\"own.echo\",\"arguments\":{\"text\":\"hi\"}}\n---\ntext: done";
    let of_project = servers("project");
    let test = Test::new().user_config(&mcp::server("")).script(call).file(".mcp.json", of_project);
    let config = servers("own");
    test.run(&["--mcp-config", &config, "--allow", "mcp", "task"]).expect_code(0);
    let content = &test.events_of("tool.finished")[0]["envelope"]["data"]["content"];
    assert_eq!(content, "{\"text\":\"hi\"}");
    // A file, and none of the configured ones.
    test.write("servers.json", format!("\u{feff}{config}"));
    let args = ["--mcp-config=servers.json", "--strict-mcp-config", "--allow", "mcp", "task"];
    test.run(&args).expect_code(0);
    let content = &test.events_of("tool.finished")[0]["envelope"]["data"]["content"];
    assert_eq!(content, "{\"text\":\"hi\"}");
    let connected = test.events_of("mcp.server").iter().all(|it| it["server"] == "own");
    assert!(connected && !test.events_of("mcp.server").is_empty());
}

#[test]
fn wrong_servers_are_errors() {
    let test = answering().file("torn.json", "{\"mcpServers\":");
    for (config, why) in [
        ("{}", "--mcp-config: there is no object \"mcpServers\" in it"),
        ("{\"mcpServers\": 1}", "--mcp-config: there is no object"),
        ("{\"mcpServers\": {\"a\": {}}}", "--mcp-config: MCP server a: set command"),
        (
            "{\"mcpServers\": {\"a\": {\"type\": \"sse\", \"url\": \"x\"}}}",
            "MCP server a: the type",
        ),
        ("torn.json", "--mcp-config: torn.json: EOF"),
        ("none.json", "--mcp-config: none.json: "),
    ] {
        let done = test.run(&["--mcp-config", config, "task"]).expect_code(2);
        done.expect_one_line_of_stderr(why);
    }
    let config = "{\"mcpServers\": {\"calc\": {\"type\": \"sdk\", \"name\": \"calc\"}}}";
    let done = test.run(&["-q", "--mcp-config", config, "task"]).expect_code(0);
    done.expect_one_line_of_stderr("without --input-format stream-json: calc");
}

#[test]
fn schema_of_the_answer_is_given_as_text() {
    let test = Test::new().script("text: {\"n\": 1}");
    let schema = "{\"type\":\"object\",\"required\":[\"n\"]}";
    let args = ["--output-format", "json", "--json-schema", schema, "task"];
    assert_eq!(test.run(&args).expect_code(0).lines()[0]["structured_output"], json!({"n": 1}));
    test.run(&["--json-schema", "{", "task"]).expect_code(2).expect_one_line_of_stderr("EOF");
}

/// The events of `stream_event` lines.
fn parts(lines: &[Value]) -> Vec<&Value> {
    let parts = lines.iter().filter(|line| line["type"] == "stream_event");
    parts.map(|line| &line["event"]).collect()
}

#[test]
fn partial_messages_are_events_of_anthropics_streams() {
    let test = Test::new()
        .file("a.txt", "one\n")
        .script("reasoning: hm\ntext: I look.\ncall: Read {\"path\":\"a.txt\"}\n---\ntext: done");
    let args = ["--output-format", "stream-json", "--include-partial-messages", "task"];
    let lines = test.run(&args).expect_code(0).lines();
    let parts = parts(&lines);
    let kinds: Vec<&str> = parts.iter().map(|it| it["type"].as_str().unwrap()).collect();
    let mut distinct = kinds.clone();
    distinct.dedup();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    let end = ["message_delta", "message_stop"];
    let first = [&["message_start"][..], &block, &block, &block, &end].concat();
    let second = [&["message_start"][..], &block, &end].concat();
    assert_eq!(distinct, [first, second].concat());
    let starts: Vec<Value> = parts
        .iter()
        .filter(|it| it["type"] == block[0])
        .map(|it| json!([it["index"], it["content_block"]["type"]]))
        .collect();
    assert_eq!(
        starts,
        [json!([0, "thinking"]), json!([1, "text"]), json!([2, "tool_use"]), json!([0, "text"])]
    );
    // The parts make up the whole message, which has the same id.
    let joined = |kind: &str, field: &str| -> String {
        let deltas = parts.iter().map(|it| &it["delta"]).filter(|it| it["type"] == kind);
        deltas.map(|it| it[field].as_str().unwrap()).collect()
    };
    assert_eq!(joined("thinking_delta", "thinking"), "hm");
    assert_eq!(joined("text_delta", "text"), "I look.done");
    assert_eq!(joined("input_json_delta", "partial_json"), "{\"path\":\"a.txt\"}");
    let whole = lines.iter().find(|line| line["type"] == "assistant").unwrap();
    assert_eq!(parts[0]["message"]["id"], whole["message"]["id"]);
    assert_eq!(parts[0]["message"]["model"], whole["message"]["model"]);
    let line = lines.iter().find(|line| line["type"] == "stream_event").unwrap();
    assert_eq!(line["session_id"], whole["session_id"]);
    assert!(line["uuid"].is_string() && line["parent_tool_use_id"].is_null());
    let stops: Vec<&Value> = parts
        .iter()
        .filter(|it| it["type"] == "message_delta")
        .map(|it| &it["delta"]["stop_reason"])
        .collect();
    assert_eq!(stops, ["tool_use", "end_turn"]);
    // Only if asked for, and only there.
    let lines = test.run(&["--output-format", "stream-json", "task"]).lines();
    assert!(lines.iter().all(|line| line["type"] != "stream_event"));
    let done = test.run(&["--include-partial-messages", "task"]).expect_code(2);
    done.expect_one_line_of_stderr("needs --output-format stream-json");
}

#[test]
fn partial_messages_of_sub_agents_name_their_call() {
    let test = Test::new().script(
        "call: Task {\"role\": \"explore\", \"description\": \"look\", \"prompt\": \"find it\"}\n---\n\
         for: agent\nwhen: ^find it$\ntext: found\n---\ntext: done",
    );
    let args = ["--output-format", "stream-json", "--include-partial-messages", "task"];
    let lines = test.run(&args).expect_code(0).lines();
    let call = lines.iter().find_map(|line| line["message"]["content"][0]["id"].as_str()).unwrap();
    let of_agent = lines.iter().filter(|line| line["parent_tool_use_id"] == call);
    let of_agent: Vec<Value> =
        of_agent.filter(|line| line["type"] == "stream_event").cloned().collect();
    let kinds: Vec<&str> =
        of_agent.iter().map(|it| it["event"]["type"].as_str().unwrap()).collect();
    let block = ["content_block_start", "content_block_delta", "content_block_stop"];
    assert_eq!(
        kinds,
        [&["message_start"][..], &block, &["message_delta", "message_stop"]].concat()
    );
    assert_eq!(of_agent[2]["event"]["delta"]["text"], "found");
}

/// The names of the tools at the start of the session.
fn tools(test: &Test) -> Vec<String> {
    let started = &test.events_of("session.started")[0];
    started["tools"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

/// The error codes of the calls, empty for a success.
fn codes(test: &Test) -> Vec<String> {
    let finished = test.events_of("tool.finished");
    finished.iter().map(|it| mcp::code(&it["envelope"]).to_owned()).collect()
}

#[test]
fn permission_modes_have_the_names_of_both_agents() {
    for (name, mode) in [
        ("default", "ask"),
        ("acceptEdits", "auto-edit"),
        ("plan", "plan"),
        ("bypassPermissions", "full"),
        ("dontAsk", "ask"),
        ("auto-edit", "auto-edit"),
    ] {
        let test = answering();
        test.run(&["--permission-mode", name, "task"]).expect_code(0);
        assert_eq!(test.events_of("session.started")[0]["permission_mode"], mode, "{name}");
    }
    let done = answering().run(&["--permission-mode", "auto", "task"]).expect_code(2);
    done.expect_stderr("plan, read-only, ask, auto-edit, full");
    let test = answering();
    test.run(&["--dangerously-skip-permissions", "task"]).expect_code(0);
    assert_eq!(test.events_of("session.started")[0]["permission_mode"], "full");
}

#[test]
fn tools_limits_the_tools_that_exist() {
    let check = |given: &str, expected: &[&str]| {
        let test = answering();
        test.run(&["--tools", given, "task"]).expect_code(0);
        assert_eq!(tools(&test), expected, "{given}");
    };
    check("Read,Bash", &["Read", "Bash"]);
    check("Agent Grep", &["Grep", "Task"]);
    check("", &[]);
    let test = answering();
    test.run(&["task"]).expect_code(0);
    let all = tools(&test);
    assert!(all.len() >= 10);
    check("default", &all.iter().map(String::as_str).collect::<Vec<_>>());
    let done = answering().run(&["-q", "--tools", "Read,NotebookEdit", "task"]).expect_code(0);
    done.expect_one_line_of_stderr("--tools: there are no such tools here: NotebookEdit");
    // A tool that does not exist cannot be called, not even by a sub-agent.
    let task =
        "call: Task {\"role\": \"general\", \"description\": \"look\", \"prompt\": \"find it\"}";
    let script = format!(
        "call: Read {{\"path\":\"a\"}}\n---\n{task}\n---\nfor: agent\nwhen: ^find it$\ncall: Bash {{\"command\":\"true\"}}\n---\n\
         for: agent\nwhen: ^find it$\ntext: found\n---\ntext: done"
    );
    let test = Test::new().script(&script);
    test.run(&["--tools", "Task,Glob", "go"]);
    assert_eq!(codes(&test)[..2], ["UNKNOWN_TOOL", "UNKNOWN_TOOL"]);
}

#[test]
fn disallowed_tools_are_removed_and_patterns_are_refused() {
    let script = "call: Bash {\"command\":\"rm -r x\"}\n---\ncall: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: done";
    let test = Test::new().script(script);
    let args = ["go", "--disallowedTools", "Bash(rm:*),Write", "NotebookEdit", "-q"];
    let done = test.run(&args);
    done.expect_stderr("--disallowedTools: there are no such tools here: NotebookEdit");
    assert_eq!(codes(&test), ["COMMAND_BLOCKED", "UNKNOWN_TOOL"]);
    let names = tools(&test);
    assert!(names.contains(&"Bash".to_owned()) && !names.contains(&"Write".to_owned()));
    // Tools of servers: one, or all.
    let test = mcp::known(&mcp::server(""));
    std::fs::write(test.root().join("../script"), "text: done").unwrap();
    let has = |name: &str| tools(&test).iter().any(|tool| tool == name);
    test.run(&["go", "--disallowedTools", "mcp__t__echo"]).expect_code(0);
    assert!(!has("mcp__t__echo") && has("mcp__t__env"));
    test.run(&["go", "--disallowed-tools", "mcp__t"]).expect_code(0);
    assert!(!has("mcp__t__env"));
}

#[test]
fn allowed_tools_mean_the_same_calls() {
    let call = |line: &str| format!("call: Bash {{\"command\":{line:?}}}\n---\n");
    let script = ["touch a", "touch a b", "mkdir d", "mkdir -p e/f"].map(call).concat();
    let test = Test::new().script(&(script + "text: done"));
    let args = ["go", "--permission-mode", "default", "--allowedTools", "Bash(touch a)"];
    test.run(&[&args[..], &["Bash(mkdir:*) WebFetch"]].concat());
    assert_eq!(codes(&test), ["", "APPROVAL_REQUIRED", "", ""]);
    // A path from the root of the file system begins with two slashes.
    let write = |path: &str| format!("call: Write {{\"path\":{path:?},\"content\":\"x\"}}\n---\n");
    let test = Test::new().script(&(write("src/a") + &write("b") + "text: done"));
    test.run(&["go", "--permission-mode=default", "--allowedTools=Edit(/src/**),Edit(//b)"]);
    assert_eq!(codes(&test), ["", "APPROVAL_REQUIRED"]);
    let done = test.run(&["--allowedTools", "Read", "fix the bug!"]).expect_code(2);
    done.expect_one_line_of_stderr("--allowedTools: `the bug!` is not a rule");
}

#[test]
fn settings_of_the_other_agent_are_used() {
    let script = "call: Bash {\"command\":\"echo $GREETING\"}\n---\ncall: Bash {\"command\":\"touch x\"}\n---\n\
                  call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: done";
    let settings = json!({
        "$schema": "x",
        "permissions": {
            "allow": ["Bash(echo:*)", "Write"], "deny": ["Bash(touch:*)", "Glob"],
            "defaultMode": "default", "additionalDirectories": [],
        },
        "env": {"GREETING": "hello from settings"},
        "hooks": {"PreToolUse": [{"matcher": "Write", "hooks": [
            {"type": "command", "command": "echo no writing >&2; exit 2"}
        ]}]},
        "theme": "dark",
    });
    let test = Test::new().script(script).file("s.json", settings.to_string());
    for given in ["s.json".to_owned(), settings.to_string()] {
        let done = test.run(&["-q", "--settings", &given, "go"]);
        done.expect_stderr("--settings: without effect: theme");
        let finished = test.events_of("tool.finished");
        let output = finished[0]["envelope"]["data"].to_string();
        assert!(output.contains("hello from settings"), "{output}");
        assert_eq!(codes(&test)[1..], ["COMMAND_BLOCKED", "ACCESS_DENIED"]);
        assert_eq!(test.events_of("session.started")[0]["permission_mode"], "ask");
        assert!(!tools(&test).contains(&"Glob".to_owned()));
    }
    // An option outranks them.
    test.run(&["--settings", "s.json", "--permission-mode", "acceptEdits", "go"]);
    assert_eq!(test.events_of("session.started")[0]["permission_mode"], "auto-edit");
    for (settings, why) in [
        ("{\"permissions\": []}", "--settings: permissions: it is no object"),
        ("{\"permissions\": {\"allow\": \"Read\"}}", "--settings: permissions: allow is no list"),
        (
            "{\"permissions\": {\"deny\": [\"Bash(\"]}}",
            "--settings: permissions: deny: `Bash(` is not",
        ),
        ("{\"permissions\": {\"defaultMode\": \"auto\"}}", "no permission mode \"auto\""),
        (
            "{\"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"type\": \"prompt\"}]}]}}",
            "--settings: hooks: ",
        ),
        ("[]", "--settings: write an object"),
        ("none.json", "--settings: none.json: "),
    ] {
        let done = test.run(&["--settings", settings, "go"]).expect_code(2);
        done.expect_one_line_of_stderr(why);
    }
}

#[test]
fn hook_events_are_lines_if_asked_for() {
    let script = "call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: done";
    let hook = json!({"matcher": "Write", "hooks": [{"type": "command", "command": "echo no >&2; exit 2"}]});
    let settings = json!({"hooks": {"PreToolUse": [hook]}}).to_string();
    let test = Test::new().script(script);
    let args = ["--settings", &settings, "--output-format", "stream-json", "go"];
    let of_hooks = |args: &[&str]| -> Vec<Value> {
        let lines = test.run(args).lines().into_iter();
        lines.filter(|line| line.to_string().contains("\"hook_event\"")).collect()
    };
    assert_eq!(of_hooks(&args).len(), 0);
    let lines = of_hooks(&[&["--include-hook-events"], &args[..]].concat());
    let subtypes: Vec<&Value> = lines.iter().map(|line| &line["subtype"]).collect();
    assert_eq!(subtypes, ["hook_started", "hook_response"]);
    assert_eq!(lines[0]["hook_id"], lines[1]["hook_id"]);
    assert_eq!(
        (&lines[1]["hook_event"], &lines[1]["exit_code"]),
        (&json!("PreToolUse"), &json!(2))
    );
}

#[test]
fn agents_are_roles_of_sub_agents() {
    let agents = json!({"critic": {
        "description": "Finds faults", "prompt": "Be strict.", "tools": ["Read", "KillShell"],
        "model": "inherit", "maxTurns": 3,
    }});
    let script = "call: Task {\"role\": \"critic\", \"description\": \"look\", \"prompt\": \"find it\"}\n---\n\
                  for: agent\nwhen: ^find it$\ntext: found\n---\nexpect: found\ntext: done";
    let test = Test::new().script(script);
    let done = test.run(&["-q", "--agents", &agents.to_string(), "go"]).expect_code(0);
    done.expect_one_line_of_stderr("--agents: without effect: maxTurns");
    let of_agent = test.events_of("model.requested").into_iter().find(|it| it["agent"] != "main");
    let texts = of_agent.unwrap()["texts"].to_string();
    assert!(texts.contains("Be strict.") && !texts.contains("Grep:"), "{texts}");
    for (agents, why) in [
        ("[]", "--agents: write an object of roles"),
        ("{\"a\": {\"prompt\": \"x\"}}", "--agents: the role a: it has no description"),
        ("{\"a\": {\"description\": \"x\", \"tools\": \"Read\"}}", "the role a: tools is no list"),
        (
            "{\"a\": {\"description\": \"x\", \"permissionMode\": \"plan\"}}",
            "permissionMode is not",
        ),
        ("{", "--agents: EOF"),
    ] {
        test.run(&["--agents", agents, "go"]).expect_code(2).expect_one_line_of_stderr(why);
    }
}

#[test]
fn models_and_reasoning_are_chosen_as_there() {
    let busy = json!({"error": {"message": "busy"}});
    let main = Server::with(move |_, _| server::json(503, &busy));
    let other = Server::with(|_, _| server::sse_text("from the fallback"));
    let config = format!(
        "model = \"main/m\"\n[requests]\nretry_for = \"100ms\"\n[providers.main]\nbase_url = \"{}\"\n\
         [providers.other]\nbase_url = \"{}\"\n",
        main.url(),
        other.url()
    );
    let test = Test::new().user_config(&config);
    let args =
        ["run", "--fallback-model", "other/m,other/n", "--set", "requests.max_tries=1", "go"];
    test.agent(&args).expect_code(0).expect_stdout("from the fallback\n");
    let effort = |args: &[&str]| {
        let test = answering();
        let done = test.run(&[args, &["-q", "go"]].concat()).expect_code(0);
        (test.events_of("model.requested")[0]["effort"].clone(), done.stderr)
    };
    assert_eq!(effort(&["--thinking=disabled"]).0, "none");
    assert_eq!(effort(&["--max-thinking-tokens", "0"]).0, "none");
    assert_eq!(effort(&["--thinking", "disabled", "--effort", "high"]).0, "high");
    assert_eq!(effort(&["--thinking=adaptive"]), (Value::Null, String::new()));
    let (none, told) = effort(&["--max-thinking-tokens", "9000"]);
    assert!(none.is_null() && told.contains("--effort says"), "{told}");
}

#[test]
fn sources_of_settings_are_chosen() {
    let script = "call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: done";
    let config = "[permissions]\ndeny = [\"Write\"]\n";
    let test = Test::new().script(script).file(".agent/config.toml", config);
    test.run(&["--setting-sources", "user,project", "go"]);
    assert_eq!(codes(&test), ["ACCESS_DENIED"]);
    for sources in ["user", ""] {
        _ = std::fs::remove_file(test.root().join("a"));
        test.run(&[&format!("--setting-sources={sources}"), "go"]).expect_code(0);
        assert_eq!(codes(&test), [""]);
    }
    let done = test.run(&["--setting-sources", "cloud", "go"]).expect_code(2);
    done.expect_one_line_of_stderr("there is no source \"cloud\"");
}

#[test]
fn options_of_sessions_have_both_spellings() {
    let test = answering();
    test.run(&["--no-session-persistence", "go"]).expect_code(0);
    assert!(test.try_log().is_none());
    test.run(&["go"]).expect_code(0);
    let id = test.events_of("session.started")[0]["session"].as_str().unwrap().to_owned();
    test.run(&[&format!("--resume={id}"), "--fork-session", "more"]).expect_code(0);
    assert_ne!(test.events_of("session.forked").len(), 0);
}

#[test]
fn rule_that_asks_outranks_one_that_allows() {
    let script = "call: Bash {\"command\":\"git push origin main\"}\n---\n\
                  call: Bash {\"command\":\"git --version\"}\n---\ntext: done";
    let settings =
        json!({"permissions": {"allow": ["Bash"], "ask": ["Bash(git push *)"]}}).to_string();
    let test = Test::new().script(script);
    test.run(&["-q", "--settings", &settings, "go"]);
    assert_eq!(codes(&test), ["APPROVAL_REQUIRED", ""]);
    let config = "[permissions]\nask = [\"Bash(git push *)\"]\n";
    let test = Test::new().script(script).user_config(config);
    test.run(&["-q", "--allowedTools=Bash", "go"]);
    assert_eq!(codes(&test), ["APPROVAL_REQUIRED", ""]);
    // Nor does it change what a mode that only reads refuses.
    let test =
        Test::new().script("call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: done");
    test.run(&["-q", "--allowedTools=Write", "--permission-mode", "plan", "go"]);
    assert!(!test.root().join("a").exists());
}
