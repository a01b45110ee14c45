#![expect(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::{Value, json};

use crate::tools::tool_tests::{TestProject, numbered_lines};
use crate::tools::{change, read};
use agent_protocol::envelope::{ErrorCode, Failure, Report};

async fn edit(desk: &TestProject, old: &str, new: &str) -> Result<Report, Failure> {
    desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    let input = json!({"path": "a", "old_string": old, "new_string": new});
    desk.call(&change::edit_tool(), input).await
}

/// Asserts the file's bytes after an edit.
async fn check(file: &[u8], old: &str, new: &str, expected: &[u8]) {
    let desk = TestProject::new();
    desk.file("a", file);
    let report = edit(&desk, old, new).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&desk.bytes("a")), String::from_utf8_lossy(expected));
    assert_eq!(report.data["replacements"], 1);
    assert_eq!(desk.names(), ["a"]);
}

async fn no_match(file: &str, old: &str, message: &str) -> Failure {
    let desk = TestProject::new();
    desk.file("a", file);
    let failure = edit(&desk, old, "something else").await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::NoMatch);
    assert!(failure.message.contains(message), "{} / {:?}", failure.message, failure.data);
    assert_eq!(desk.text("a"), file);
    failure
}

#[tokio::test]
async fn edit_changes_only_the_replaced_text() {
    check(b"one\ntwo\n", "two", "three", b"one\nthree\n").await;
    check(b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n").await;
    check(b"a\r\nb\r\n", "a\r\n", "x\r\n", b"x\r\nb\r\n").await;
    check(b"a\r\nb\nc\r\nd\r\n", "c", "x\ny", b"a\r\nb\nx\r\ny\r\nd\r\n").await;
    check(b"a\nb\r\nc\nd\n", "b\nc", "x\ny", b"a\nx\r\ny\nd\n").await;
    check(b"a\rb\r", "a\nb", "x\ny", b"x\ry\r").await;
    check(b"\xEF\xBB\xBFone", "one", "two", b"\xEF\xBB\xBFtwo").await;
    check(b"\xFF\xFEa\0\r\0\n\0b\0", "a\nb", "c\n\u{e4}", b"\xFF\xFEc\0\r\0\n\0\xE4\0").await;
    check(b"caf\xE9\nbar\n", "bar", "t\u{e9}", b"caf\xE9\nt\xE9\n").await;
    check(b"one\n\n\ntwo", "\n\n\n", "\n", b"one\ntwo").await;
}

#[tokio::test]
async fn edit_refuses_characters_missing_in_the_encoding() {
    let desk = TestProject::new();
    desk.file("a", b"caf\xE9 au lait\n");
    let failure = edit(&desk, "lait", "\u{4e2d}").await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::Encoding);
    assert_eq!(desk.bytes("a"), b"caf\xE9 au lait\n");
}

#[tokio::test]
async fn multiple_matches_are_listed_or_all_replaced() {
    let desk = TestProject::new();
    desk.file("a", "x\ny\nx\n");
    let failure = edit(&desk, "x", "z").await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::MultipleMatches);
    assert_eq!(failure.data["lines"], json!([1, 3]));
    let all = json!({"path": "a", "old_string": "x", "new_string": "z", "replace_all": true});
    let report = desk.call_ok(&change::edit_tool(), all).await;
    assert_eq!(
        (report.data["replacements"].clone(), desk.text("a")),
        (json!(2), "z\ny\nz\n".into())
    );
    desk.file("a", "aaa");
    assert_eq!(edit(&desk, "aa", "b").await.unwrap_err().code, ErrorCode::MultipleMatches);
}

#[tokio::test]
async fn invalid_edit_arguments_are_refused() {
    let desk = TestProject::new();
    desk.file("a", "x\n");
    assert_eq!(edit(&desk, "", "z").await.unwrap_err().code, ErrorCode::InvalidParam);
    assert_eq!(edit(&desk, "x", "x").await.unwrap_err().code, ErrorCode::InvalidParam);
    let input = json!({"path": "b", "old_string": "x", "new_string": "y"});
    desk.call_fails(&change::edit_tool(), input, ErrorCode::NotFound).await;
}

#[tokio::test]
async fn edit_requires_a_read() {
    let desk = TestProject::new();
    desk.file("a", "x\n");
    let input = json!({"path": "a", "old_string": "x", "new_string": "y"});
    desk.call_fails(&change::edit_tool(), input.clone(), ErrorCode::NotRead).await;
    desk.call_ok(&read::tool(), json!({"path": "./sub/../a"})).await;
    desk.call_ok(&change::edit_tool(), input).await;
    let next = json!({"path": "a", "old_string": "y", "new_string": "z"});
    desk.call_ok(&change::edit_tool(), next).await;
    assert_eq!(desk.text("a"), "z\n");
}

#[tokio::test]
async fn no_match_explains_the_difference() {
    let file = "fn main() {\n\tlet name = \"x\";\n\tprint(name);\n}\n";
    let failure =
        no_match(file, "    let name = \"x\";\n    print(name);", "the file has tabs").await;
    assert_eq!(failure.data["nearest"], json!({"start_line": 2, "end_line": 3}));
    assert!(failure.data["diff_preview"].as_str().unwrap().contains("+\tprint(name);"));
    no_match(file, "let name = \u{201c}x\u{201d};", "quotation marks").await;
    no_match(file, "LET name", "upper and lower case").await;
    no_match(file, "let  name", "spaces within").await;
    no_match(file, "2 | \tlet name = \"x\";\n3 | \tprint(name);", "line numbers").await;
    no_match(file, "let name = \"x\";\\n\tprint(name);", "its escapes").await;
    no_match("a long line  \nanother long line\n", "a long line\nanother", "trailing whitespace")
        .await;
    no_match(file, "\tlet name = \"xy\";", "its words").await;
    let spaces = "def f():\n    return a or b\n";
    no_match(spaces, "def f():\n  return a", "it differs in indentation").await;
    no_match(file, "nothing of the kind 12345", "nor a similar line").await;
}

#[tokio::test]
async fn already_applied_edit_is_reported() {
    let desk = TestProject::new();
    desk.file("a", "one\ntwo\n");
    let failure = edit(&desk, "zwei", "two").await.unwrap_err();
    assert_eq!(failure.code, ErrorCode::NoMatch);
    assert!(failure.message.contains("line 2: already applied"), "{}", failure.message);
}

#[tokio::test]
async fn no_match_in_a_large_file_is_explained_quickly() {
    let desk = TestProject::new();
    let file = numbered_lines(300_000, |n| format!("let value_{n} = compute({n});\n"));
    desk.file("a", file);
    desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    let begin = std::time::Instant::now();
    let old = "let value_x = compute(y, z);\n".repeat(50);
    let input: Value = json!({"path": "a", "old_string": old, "new_string": "q"});
    desk.call_fails(&change::edit_tool(), input, ErrorCode::NoMatch).await;
    // (Comparing every pair of lines would take hours.)
    assert!(begin.elapsed().as_secs() < 60, "{:?}", begin.elapsed());
}
