#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::tools::grep;
use crate::tools::tool_tests::TestProject;
use agent_protocol::envelope::ErrorCode;

/// A project in which each file is older than the one before it.
fn desk(files: &[(&str, &[u8])]) -> TestProject {
    let desk = TestProject::new();
    for (age, (path, bytes)) in files.iter().enumerate() {
        desk.file(path, bytes);
        let time = SystemTime::now() - Duration::from_secs(age as u64 * 60);
        File::options().write(true).open(desk.path_of(path)).unwrap().set_modified(time).unwrap();
    }
    desk
}

#[tokio::test]
async fn matches_are_sorted_by_newest_file_then_line() {
    let desk =
        desk(&[("b.rs", b"fn one\r\nx\r\nfn two\r\n"), ("a.rs", b"fn three\n"), ("c.md", b"fn\n")]);
    let report =
        desk.call_ok(&grep::tool(), json!({"pattern": "fn \\w+$", "include": "*.rs"})).await;
    let expected = json!([
        {"file": "b.rs", "line": 1, "text": "fn one"},
        {"file": "b.rs", "line": 3, "text": "fn two"},
        {"file": "a.rs", "line": 1, "text": "fn three"},
    ]);
    assert_eq!(report.data["matches"], expected);
    assert_eq!(report.stats["matched_lines"], 3);
    assert!(!report.partial);
    let files = desk.call_ok(&grep::tool(), json!({"pattern": "fn", "output": "files"})).await;
    assert_eq!(files.data["files"], json!(["b.rs", "a.rs", "c.md"]));
    let counts =
        desk.call_ok(&grep::tool(), json!({"pattern": "fn", "output": "count", "limit": 1})).await;
    assert_eq!(counts.data["counts"], json!([{"file": "b.rs", "count": 2}]));
    assert!(!counts.partial && counts.text.contains("The first 1 are shown"));
}

#[tokio::test]
async fn limit_keeps_the_newest_and_the_total_is_exact() {
    let desk = desk(&[("a", b"x\nx\n"), ("b", b"x\nx\n"), ("c", b"x\n")]);
    let report = desk.call_ok(&grep::tool(), json!({"pattern": "x", "limit": 3})).await;
    let rows = report.data["matches"].as_array().unwrap();
    let places: Vec<_> = rows
        .iter()
        .map(|row| (row["file"].as_str().unwrap(), row["line"].as_u64().unwrap()))
        .collect();
    assert_eq!(places, [("a", 1), ("a", 2), ("b", 1)]);
    assert!(!report.partial && report.text.contains("The first 3 are shown"), "{}", report.text);
    assert_eq!(report.stats["matched_lines"], 5);
}

#[tokio::test]
async fn shared_context_lines_are_shown_once() {
    let desk = desk(&[("a", b"1\n2\nx\n4\nx\n6\n7\n8\n")]);
    let report = desk.call_ok(&grep::tool(), json!({"pattern": "x", "context": 2})).await;
    let expected = json!([
        {"file": "a", "line": 3, "text": "x", "before": ["1", "2"], "after": ["4"]},
        {"file": "a", "line": 5, "text": "x", "after": ["6", "7"]},
    ]);
    assert_eq!(report.data["matches"], expected);
}

#[tokio::test]
async fn case_fixed_string_and_multiline_options() {
    let desk = desk(&[("a", b"Foo(x)\nbar\n"), ("b", b"x)\r\nbaz\r\n")]);
    let matched =
        async |input| desk.call_ok(&grep::tool(), input).await.stats["matched_lines"].clone();
    assert_eq!(matched(json!({"pattern": "foo"})).await, 0);
    let hint =
        "Without regard to case 1 line matches, for instance a:1: set case_sensitive to false.";
    for path in [".", "a"] {
        let nothing = desk.call_ok(&grep::tool(), json!({"pattern": "foo", "path": path})).await;
        assert!(nothing.text.ends_with(hint), "{}", nothing.text);
    }
    assert_eq!(matched(json!({"pattern": "foo", "case_sensitive": false})).await, 1);
    assert_eq!(matched(json!({"pattern": "Foo(x)", "fixed_string": true})).await, 1);
    assert_eq!(matched(json!({"pattern": "x\\)\nbar", "multiline": true})).await, 2);
    assert_eq!(matched(json!({"pattern": "x.$\\s+^ba.$", "multiline": true})).await, 4);
    assert_eq!(matched(json!({"pattern": "x\\)\nbar"})).await, 2);
}

#[tokio::test]
async fn binary_files_are_skipped_and_utf_16_is_searched() {
    let mut late = vec![b'a'; 100_000];
    late.extend(b"\0\nneedle\n");
    let desk = desk(&[
        ("wide", b"\xFF\xFEn\0e\0e\0d\0l\0e\0"),
        ("binary", b"needle\0needle"),
        ("late", &late),
    ]);
    let report = desk.call_ok(&grep::tool(), json!({"pattern": "needle", "output": "files"})).await;
    assert_eq!(report.data["files"], json!(["wide", "late"]));
    assert_eq!(report.stats["binary_skipped"], 1);
    let one = desk.call_ok(&grep::tool(), json!({"pattern": "needle", "path": "binary"})).await;
    assert!(one.text.contains("No file was searched"), "{}", one.text);
}

#[tokio::test]
async fn no_match_is_distinguished_from_no_file_searched() {
    let desk = desk(&[("src/a.rs", b"x\n"), (".env", b"secret\n"), ("out/b", b"secret\n")]);
    desk.file(".gitignore", "out\n");
    let text = async |input| desk.call_ok(&grep::tool(), input).await.text;
    assert!(text(json!({"pattern": "y"})).await.starts_with("No match"));
    let excluded = text(json!({"pattern": "x", "file_pattern": "*.py"})).await;
    assert!(excluded.contains("No file was searched") && excluded.contains("*.py"), "{excluded}");
    assert!(text(json!({"pattern": "secret"})).await.starts_with("No match"));
    let named = desk.call_ok(&grep::tool(), json!({"pattern": "secret", "path": "out"})).await;
    assert_eq!(named.stats["matched_lines"], 1);
    let file = desk.call_ok(&grep::tool(), json!({"pattern": "secret", "path": "out/b"})).await;
    assert_eq!(file.stats["matched_lines"], 1);
    desk.call_fails(&grep::tool(), json!({"pattern": "x", "path": "none"}), ErrorCode::NotFound)
        .await;
}

#[tokio::test]
async fn grep_does_not_follow_symlinks() {
    let desk = desk(&[("a", b"root\n")]);
    symlink("/etc/passwd", desk.path_of("passwd")).unwrap();
    symlink("/etc", desk.path_of("etc")).unwrap();
    let report = desk.call_ok(&grep::tool(), json!({"pattern": "root", "output": "files"})).await;
    assert_eq!(report.data["files"], json!(["a"]));
    desk.call_fails(
        &grep::tool(),
        json!({"pattern": "x", "path": "passwd"}),
        ErrorCode::AccessDenied,
    )
    .await;
}

#[tokio::test]
async fn time_limit_without_matches_is_an_error() {
    let desk = desk(&[("a", b"x\n")]);
    let grep = grep::with_limit(Duration::ZERO);
    desk.call_fails(&grep, json!({"pattern": "x"}), ErrorCode::Timeout).await;
    desk.cx.cancel.cancel();
    desk.call_fails(&grep::tool(), json!({"pattern": "x"}), ErrorCode::Cancelled).await;
}

#[tokio::test]
async fn time_limit_with_matches_is_partial_with_a_lower_bound() {
    let desk = desk(&[("0", b"z\n")]);
    let long = "a line of some length\n".repeat(200_000);
    desk.file("0", format!("z\n{long}"));
    for n in 1..500 {
        std::fs::hard_link(desk.path_of("0"), desk.path_of(&n.to_string())).unwrap();
    }
    // A busy machine may take a while to reach the first line; no machine reaches the end.
    let mut limit = Duration::from_millis(50);
    let report = loop {
        let search = json!({"pattern": "(a|l|s)+q|z", "limit": 1000});
        match desk.call(&grep::with_limit(limit), search).await {
            Ok(report) => break report,
            Err(failure) => assert_eq!(failure.code, ErrorCode::Timeout),
        }
        limit *= 2;
    };
    assert!(report.partial);
    assert_eq!(report.data["aborted_reason"], "time_limit");
    assert_eq!(report.stats["lower_bound"], true);
    assert_eq!(report.data["matches"][0]["line"], 1);
    assert!(report.text.contains("there may be more"), "{}", report.text);
}
