//! `agent mcp`, `agent doctor`, and `/mcp` in the chat.

use super::{known, server};
use crate::support::Test;

#[test]
fn servers_are_added_listed_tried_and_removed() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.sh");
    let test = Test::new().user_config("# mine\n");
    test.agent(&["mcp", "list"]).expect_code(0).expect_stdout(
        "no MCP server is configured; `agent mcp add NAME COMMAND` or `agent mcp add NAME --url URL` adds one\n",
    );
    test.agent(&["mcp", "add", "t", "--env", "A=b", "bash", script, "--x"]).expect_code(0);
    let file = test.home().join(".config/agent/config.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let expected = format!(
        "# mine\n\n[mcp.servers.t]\nargs = [{script:?}, \"--x\"]\ncommand = \"bash\"\nenv = {{ A = \"b\" }}\n"
    );
    assert_eq!(text, expected);
    test.agent(&["mcp", "add", "t", "bash"])
        .expect_code(2)
        .expect_stderr("there is an MCP server t already");
    test.agent(&["mcp", "list"])
        .expect_code(0)
        .expect_stdout(&format!("t: bash {script} --x  # {}:4\n", file.display()));
    let done = test.agent(&["mcp", "test", "t"]).expect_code(0);
    assert!(done.stdout.starts_with("✓ t: connected, 2 tools: echo, env\n"), "{}", done.stdout);
    test.agent(&["mcp", "add", "a b;c", "bash"]).expect_code(2).expect_stderr("a name has letters");
    test.agent(&["mcp", "test", "u"]).expect_code(2).expect_stderr("there is no MCP server u");
    test.agent(&["mcp", "remove", "t"]).expect_code(0);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "# mine\n\n");

    test.agent(&[
        "mcp",
        "add",
        "--project",
        "web",
        "--url",
        "http://127.0.0.1:1/mcp",
        "--header",
        "X-Key: ${K}",
    ])
    .expect_code(0);
    let expected =
        "[mcp.servers.web]\nheaders = { X-Key = \"${K}\" }\nurl = \"http://127.0.0.1:1/mcp\"\n";
    assert_eq!(test.read(".agent/config.toml"), expected);
}

#[test]
fn doctor_has_a_line_for_each_server() {
    let test = Test::new().user_config(&server(""));
    let done = test.agent(&["doctor", "--model", "script:../script"]);
    assert!(
        done.stdout.contains("✓ mcp        t: connected, 2 tools: echo, env\n"),
        "{}",
        done.stdout
    );
    let test = Test::new();
    let done = test.agent(&["doctor", "--model", "script:../script"]);
    assert!(!done.stdout.contains("mcp"), "{}", done.stdout);
}

#[test]
fn chat_shows_the_servers() {
    let test = known(&server("")).script("text: done").stdin("/mcp\n/quit\n");
    let done = test.agent(&["chat", "--plain", "--model", "script:../script"]);
    assert!(done.stdout.contains("t: ") && done.stdout.contains("2 tools: echo, env"), "{done:?}");
}
