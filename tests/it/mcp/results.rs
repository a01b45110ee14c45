//! Results of servers in the envelope.

use serde_json::json;

use super::{code, envelopes, known, with};
use crate::support::server::{self, Server};

fn mode(mode: &str) -> String {
    super::server(mode)
}

const CALL: &str = "call: mcp__t__echo {\"text\":\"x\"}\n---\ntext: done";
/// A small image.
pub(super) const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGP4z8AAQQxwFgBB0gX7h/C5SAAAAABJRU5ErkJggg==";

#[test]
fn error_of_a_tool_is_mcp_failed() {
    let found = envelopes(&known(&mode("fails")), CALL);
    assert_eq!(code(&found[0]), "MCP_FAILED");
    assert_eq!(found[0]["error"]["message"], "no such table");
    let found = envelopes(&known(&mode("refuses")), CALL);
    assert_eq!(
        (code(&found[0]), &found[0]["error"]["message"]),
        ("MCP_FAILED", &json!("wrong arguments"))
    );
}

#[test]
fn structured_content_is_not_repeated_as_text() {
    let found = envelopes(&known(&mode("structured")), CALL);
    assert_eq!(found[0]["data"], json!({"structured": {"n": 1}}));
}

#[test]
fn unknown_kind_of_content_shows_its_text() {
    let found = envelopes(&known(&mode("odd")), CALL);
    assert_eq!(found[0]["data"]["content"], "odd");
}

#[test]
fn fifty_megabytes_are_cut_and_kept_in_a_file() {
    let test = known(&mode("huge"));
    let found = envelopes(&test, CALL);
    assert_eq!(
        (found[0]["status"].as_str(), &found[0]["data"]["truncated"]),
        (Some("partial"), &json!(true))
    );
    assert!(found[0]["data"]["content"].as_str().unwrap().len() < 60_000);
    let whole = found[0]["data"]["full_output"].as_str().unwrap();
    assert!(std::fs::metadata(whole).unwrap().len() > 50_000_000);
}

#[test]
fn image_reaches_the_model() {
    let call = server::sse_calls(&[("mcp__t__echo", json!({"text": "x"}))]);
    let provider = Server::playing([call, server::sse_text("a dot")]);
    let test = known(&with("t", "image", &format!("PNG = {PNG:?}")));
    let url = format!("providers.local.base_url={}", provider.url());
    let wire = "providers.local.wire=openai-chat";
    let args = [
        "run",
        "--model",
        "local/m",
        "--no-memory",
        "--set",
        &url,
        "--set",
        wire,
        "--allow",
        "mcp",
        "look",
    ];
    test.agent(&args).expect_code(0);
    let envelope = test.events_of("tool.finished")[0]["envelope"].clone();
    assert_eq!(envelope["data"]["content"], "a dot");
    assert_eq!(envelope["data"]["images"][0]["media_type"], "image/png", "{envelope}");
    let requests = provider.finish();
    let second = &requests.last().unwrap().body;
    assert!(second.contains(PNG), "{second}");
    assert!(second.contains("a dot"), "{second}");
}
