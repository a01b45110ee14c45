//! MCP servers: scripted ones over standard input and output (`server.sh`), and over HTTP.

mod cli;
mod config;
mod http;
mod messages;
mod misbehaviour;
mod results;
pub(crate) mod serve;
mod tools;

use serde_json::Value;

use crate::support::Test;

/// The settings of a server named `t`, in a mode of the script.
pub(crate) fn server(mode: &str) -> String {
    with("t", mode, "")
}

/// The same with another name, and further variables: `LOG = "…"`.
pub(crate) fn with(name: &str, mode: &str, variables: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/mcp/server.sh");
    let comma = if variables.is_empty() { "" } else { ", " };
    format!(
        "[mcp.servers.{name}]\ncommand = \"bash\"\nargs = [{script:?}]\ntimeout = \"20s\"\n\
         env = {{ MODE = {mode:?}{comma}{variables} }}\n"
    )
}

/// A test whose servers were connected once, so that their tools are known.
pub(crate) fn known(config: &str) -> Test {
    let test = Test::new().user_config(config);
    test.agent(&["mcp", "test"]).expect_code(0);
    test
}

/// Runs a script in which each call is allowed; returns the envelopes of its calls.
fn envelopes(test: &Test, script: &str) -> Vec<Value> {
    std::fs::write(test.root().join("../script"), script).unwrap();
    test.run(&["--allow", "mcp", "do it"]).expect_code(0);
    test.events_of("tool.finished").iter().map(|it| it["envelope"].clone()).collect()
}

/// The error code of an envelope; empty for a success.
pub(crate) fn code(envelope: &Value) -> &str {
    envelope["error"]["code"].as_str().unwrap_or_default()
}

/// The states that the log of the latest session has of a server, in order.
fn states(test: &Test) -> Vec<String> {
    let events = test.events_of("mcp.server");
    events.iter().map(|it| it["state"].as_str().unwrap().to_owned()).collect()
}
