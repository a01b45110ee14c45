use serde_json::{Value, json};

use crate::tools::tool_tests::TestProject;
use crate::tools::{change, read};
use agent_protocol::envelope::ErrorCode;

async fn desk(file: &str) -> TestProject {
    let desk = TestProject::new();
    desk.file("a", file);
    desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    desk
}

fn edits(pairs: &[(&str, &str)]) -> Value {
    let edits: Vec<Value> =
        pairs.iter().map(|(old, new)| json!({"old_string": old, "new_string": new})).collect();
    json!({"path": "a", "edits": edits})
}

#[tokio::test]
async fn all_edits_match_the_original_file() {
    let desk = desk("one\r\ntwo\r\nthree\r\n").await;
    let input = edits(&[("three", "one"), ("one", "two"), ("two", "three")]);
    let report = desk.call_ok(&change::multi_edit_tool(), input).await;
    assert_eq!(desk.text("a"), "two\r\nthree\r\none\r\n");
    assert_eq!(report.data["replacements"], 3);
}

#[tokio::test]
async fn one_failed_edit_leaves_the_file_unchanged() {
    let desk = desk("one\ntwo\n").await;
    let input = edits(&[("one", "1"), ("four", "4")]);
    let failure = desk.call_fails(&change::multi_edit_tool(), input, ErrorCode::NoMatch).await;
    assert_eq!(failure.data["failed_index"], 1);
    assert_eq!(desk.text("a"), "one\ntwo\n");
}

#[tokio::test]
async fn overlapping_edits_are_refused_and_adjacent_ones_are_not() {
    let desk = desk("abcdef\n").await;
    let input = edits(&[("cde", "1"), ("x", "y"), ("abc", "2")]);
    desk.call_fails(&change::multi_edit_tool(), input, ErrorCode::NoMatch).await;
    let input = edits(&[("cde", "1"), ("abc", "2")]);
    let failure = desk.call_fails(&change::multi_edit_tool(), input, ErrorCode::InvalidParam).await;
    assert_eq!(failure.data["overlapping"], json!([0, 1]));
    desk.call_ok(&change::multi_edit_tool(), edits(&[("abc", "1"), ("def", "2")])).await;
    assert_eq!(desk.text("a"), "12\n");
}
