//! The example of `docs/INTEGRATION.md`.

use serde_json::{Value, json};

use super::ending::Raw;
use crate::support::Test;

#[test]
fn settings_in_the_documentation_start_the_agent() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/INTEGRATION.md"));
    let (_, section) = page.split_once("## An editor\n").unwrap();
    let (_, rest) = section.split_once("```json\n").unwrap();
    let (settings, _) = rest.split_once("```").unwrap();
    let settings: Value = serde_json::from_str(settings).unwrap();
    let agent = &settings["agent_servers"]["agent"];
    assert_eq!(agent["command"], "agent");
    let args = agent["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let args: Vec<&str> = args.collect();
    let (first, options) = args.split_first().unwrap();
    assert_eq!(*first, "acp");
    let mut test = Test::new().script("text: hello");
    for (name, value) in agent["env"].as_object().unwrap() {
        test = test.env(name, value.as_str().unwrap());
    }
    let (mut raw, session) = Raw::opened(&test, options);
    let id = raw.prompt(&session, "hi");
    assert_eq!(raw.response(id)["result"], json!({"stopReason": "end_turn"}));
    assert_eq!(raw.close().1, Some(0));
}
