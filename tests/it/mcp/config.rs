//! Configuration: `.mcp.json`, trust, variables and keys.

use super::{code, envelopes, known, server, with};
use crate::support::{Test, wait_for};

const ENV: &str = "call: mcp__t__env {}\n---\ntext: done";
/// Waits for the servers.
const SEARCH: &str = "call: McpTool {\"search\":\"\"}\n---\ntext: done";

/// A `.mcp.json` of another program, with fields that we do not know.
fn mcp_json(variables: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.sh");
    format!(
        "{{\"inputs\": [], \"mcpServers\": {{\n  \"t\": {{\"type\": \"stdio\", \"command\": \"${{SHELL_NAME:-bash}}\",\n  \
         \"args\": [{script:?}], \"env\": {{{variables}}}, \"alwaysAllow\": []}}\n}}}}\n"
    )
}

/// Others write it in milliseconds.
#[test]
fn timeout_in_the_file_of_other_agents_is_in_milliseconds() {
    let file = mcp_json("").replace("\"alwaysAllow\"", "\"timeout\": 1500, \"alwaysAllow\"");
    let test = Test::new().file(".mcp.json", file);
    test.agent(&["trust"]).expect_code(0);
    let shown = test.agent(&["config", "show"]).expect_code(0);
    assert!(shown.stdout.contains("timeout = \"1500ms\""), "{}", shown.stdout);
}

#[test]
fn file_of_other_agents_is_used_once_the_folder_is_trusted() {
    let starts = tempfile::tempdir().unwrap();
    let starts = starts.path().join("starts");
    let variables =
        format!("\"STARTS\": {:?}, \"HELLO\": \"${{HELLO}}\"", starts.to_str().unwrap());
    let test = Test::new()
        .file(".mcp.json", mcp_json(&variables))
        .env("HELLO", "world")
        .script("text: done");
    let ignored =
        ".mcp.json: ignored because this folder is not trusted; read it, then run `agent trust`";
    test.run(&["do it"]).expect_code(0).expect_stderr(ignored);
    assert!(!starts.exists());
    test.agent(&["trust"]).expect_code(0).expect_stdout(&format!(
        "to trust: {}, with these current settings:\n  .mcp.json.t.args = [{:?}]\n  .mcp.json.t.command = \"${{SHELL_NAME:-bash}}\"\n  \
         .mcp.json.t.env.HELLO = \"${{HELLO}}\"\n  .mcp.json.t.env.STARTS = {:?}\n{} is trusted now; to undo this, remove its line from {}\n",
        test.root().display(),
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.sh"),
        starts.to_str().unwrap(),
        test.root().display(),
        test.home().join(".local/state/agent/trusted").display()
    ));
    test.agent(&["mcp", "test"]).expect_code(0);
    assert!(starts.exists());
    let found = envelopes(&test, ENV);
    assert!(found[0]["data"]["content"].as_str().unwrap().contains(" HELLO=world "), "{found:?}");

    // Another content is not trusted.
    test.write(
        ".mcp.json",
        mcp_json(&variables).replace("HELLO\\\"", "OTHER\\\"").replace("bash", "sh"),
    );
    let changed = ".mcp.json (changed)";
    test.run(&["do it"]).expect_stderr(changed);
}

#[test]
fn servers_of_a_project_need_trust_those_of_the_user_do_not() {
    let test = Test::new().file(".agent/config.toml", server("")).script(SEARCH);
    test.run(&["do it"])
        .expect_code(0)
        .expect_stderr("ignored mcp because this folder is not trusted");
    test.run(&["--trust", "do it"]).expect_code(0);
    assert_eq!(super::states(&test).len(), 1);
    let test = Test::new().user_config(&server("")).script("text: done");
    test.run(&["do it"]).expect_code(0);
    assert!(test.events_of("session.started")[0]["tools"].to_string().contains("McpTool"));
}

#[test]
fn server_of_a_project_replaces_the_users_server_whole() {
    let test = Test::new()
        .user_config("[mcp.servers.t]\nurl = \"http://127.0.0.1:1/mcp\"\nheaders = { Authorization = \"mine\" }\n")
        .file(".agent/config.toml", server(""));
    let done = test.agent(&["config", "show", "--trust"]).expect_code(0);
    assert!(
        !done.stdout.contains("mine") && !done.stdout.contains("127.0.0.1:1"),
        "{}",
        done.stdout
    );
}

#[test]
fn broken_files_are_one_notice() {
    let check = |text: &str, part: &str| {
        let test = Test::new().file(".mcp.json", text).script("text: done");
        let done = test.run(&["--trust", "do it"]).expect_code(0).expect_stderr(part);
        assert_eq!(done.stderr.matches(".mcp.json").count(), 1, "{}", done.stderr);
    };
    check("{\n\"mcpServers\": {\n", "/.mcp.json:3: EOF while parsing");
    check(
        "{\"mcpServers\": {\n\"a\": {\"type\": \"sse\", \"url\": \"http://x\"}}}",
        "/.mcp.json:2: MCP server a is not used: the type \"sse\" is not supported",
    );
    check("{\"mcpServers\": {\"a\": {}}}", "/.mcp.json:1: MCP server a is not used: set command");
}

#[test]
fn errors_in_the_configuration_name_file_and_line() {
    let check = |text: &str, part: &str| {
        let test = Test::new().user_config(text).script("text: done");
        test.run(&["do it"]).expect_code(2).expect_stderr(part);
    };
    check(
        "[mcp.servers.a]\ncomand = \"x\"\n",
        "config.toml:2: unknown key `comand`: did you mean `command`?",
    );
    check(
        "\n[mcp.servers.a]\ntimeout = \"soon\"\ncommand = \"x\"\n",
        "config.toml:3: mcp.servers.a.timeout: \"soon\" is no",
    );
    check("[mcp.servers.a]\nargs = []\n", "config.toml:2: mcp.servers.a.command: set command");
}

#[test]
fn missing_variable_skips_that_server() {
    let config = format!("{}{}", with("t", "", "X = \"${NO_SUCH_VARIABLE}\""), with("u", "", ""));
    let test = Test::new().user_config(&config).script(SEARCH);
    let notice = "MCP server t is not used: the environment variable NO_SUCH_VARIABLE is not set";
    let done = test.run(&["do it"]).expect_code(0).expect_stderr(notice);
    assert_eq!(done.stderr.matches("NO_SUCH_VARIABLE is not set").count(), 1);
    assert_eq!(super::states(&test).len(), 1);
}

#[test]
fn keys_are_not_in_the_environment_unless_passed() {
    let keys = |test: Test| {
        test.env("OPENAI_API_KEY", "sk-test-0123456789")
            .env("MY_TOKEN", "tok-0123456789")
            .env("PLAIN", "seen")
    };
    let shown = |config: &str| {
        let test = keys(Test::new().user_config(config));
        test.agent(&["mcp", "test"]).expect_code(0);
        let found = envelopes(&test, ENV);
        assert_eq!(code(&found[0]), "");
        found[0]["data"]["content"].as_str().unwrap().to_owned()
    };
    let plain = shown(&server(""));
    assert!(plain.contains("PLAIN=seen"), "{plain}");
    assert!(!plain.contains("OPENAI_API_KEY") && !plain.contains("MY_TOKEN"), "{plain}");
    let passed = shown(&format!("{}pass_keys = [\"MY_TOKEN\"]\n", server("")));
    // (Its value is masked like in every output.)
    assert!(passed.contains("MY_TOKEN=") && !passed.contains("tok-0123456789"), "{passed}");
    assert!(!passed.contains("OPENAI_API_KEY"), "{passed}");
}

#[test]
fn tools_can_be_left_out() {
    let test = known(&format!("{}disabled_tools = [\"env\"]\n", server("")));
    let found = envelopes(&test, "call: McpTool {\"tool\":\"t.env\"}\n---\ntext: done");
    assert_eq!(code(&found[0]), "UNKNOWN_TOOL");
    assert!(!test.events_of("session.started")[0]["tools"].to_string().contains("mcp__t__env"));
    let test = known(&format!("{}enabled_tools = [\"env\"]\n", server("")));
    envelopes(&test, "text: done");
    assert!(!test.events_of("session.started")[0]["tools"].to_string().contains("mcp__t__echo"));
    let test =
        Test::new().user_config(&format!("{}enabled = false\n", server(""))).script("text: done");
    test.run(&["do it"]).expect_code(0);
    assert!(!test.events_of("session.started")[0]["tools"].to_string().contains("McpTool"));
}

#[test]
fn server_starts_outside_a_project_that_is_not_trusted() {
    let log = tempfile::tempdir().unwrap();
    let log = log.path().join("log");
    let answer = |config: &str, trusts: bool| {
        _ = std::fs::remove_file(&log);
        let server = with("t", "roots", &format!("LOG = {:?}", log.to_str().unwrap()));
        let test = Test::new().user_config(&format!("{server}{config}"));
        if trusts {
            test.write(".agent/config.toml", "[ui]\ntheme = \"dark\"\n");
            test.agent(&["trust"]).expect_code(0);
        }
        test.agent(&["mcp", "test"]).expect_code(0);
        let found = || std::fs::read_to_string(&log).unwrap_or_default();
        wait_for(|| found().contains("\"roots\":["));
        let text = found();
        let line = text.lines().find(|line| line.contains("\"roots\":[")).unwrap();
        let answer: serde_json::Value = serde_json::from_str(line).unwrap();
        // The project is known to it in any case.
        let root = test.root().display().to_string();
        assert_eq!(answer["result"]["roots"][0]["uri"], format!("file://{root}"));
        (answer["id"].as_str().unwrap().to_owned(), root, test.home())
    };
    let (directory, _, home) = answer("", false);
    assert_eq!(directory, home.join(".local/state/agent/mcp/t").display().to_string());
    let (directory, root, _) = answer("cwd = \"project\"\n", false);
    assert_eq!(directory, root);
    let (directory, root, _) = answer("", true);
    assert_eq!(directory, root);
}
