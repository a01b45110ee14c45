#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::tools::ls;
use crate::tools::tool_tests::TestProject;
use agent_protocol::envelope::ErrorCode;

#[tokio::test]
async fn directories_come_first_and_names_sort_case_insensitively() {
    let desk = TestProject::new();
    desk.file("b.txt", "12345").file("A.txt", "").file("zoo/x", "").file("Lib/x", "");
    symlink("b.txt", desk.path_of("link")).unwrap();
    symlink("/etc", desk.path_of("outside")).unwrap();
    let report = desk.call_ok(&ls::tool(), json!({})).await;
    let expected = json!([
        {"path": "Lib", "type": "dir"},
        {"path": "zoo", "type": "dir"},
        {"path": "A.txt", "type": "file", "size": 0},
        {"path": "b.txt", "type": "file", "size": 5},
        {"path": "link", "type": "link", "target": "b.txt"},
        {"path": "outside", "type": "link"},
    ]);
    assert_eq!(report.data["entries"], expected);
    assert_eq!(report.stats["total_entries"], 6);
    assert_eq!(report.stats["links"], 2);
    assert!(!report.partial);
}

#[tokio::test]
async fn hidden_and_ignored_entries_are_counted() {
    let desk = TestProject::new();
    desk.file("a", "").file(".env", "").file("target/x", "").file(".gitignore", "target\n*.log\n");
    desk.file("b.log", "").file("sub/c.log", "").file("sub/d", "");
    let report = desk.call_ok(&ls::tool(), json!({})).await;
    assert_eq!(report.data["entries"].as_array().unwrap().len(), 2);
    assert_eq!(report.stats["hidden"], 4);
    let report = desk.call_ok(&ls::tool(), json!({"path": "sub"})).await;
    assert_eq!(report.data["entries"], json!([{"path": "sub/d", "type": "file", "size": 0}]));
    let all = desk.call_ok(&ls::tool(), json!({"include_hidden": true})).await;
    assert_eq!(all.stats["total_entries"], 6);
    let named = desk.call_ok(&ls::tool(), json!({"path": "target"})).await;
    assert_eq!(named.stats["total_entries"], 1);
}

#[tokio::test]
async fn long_list_is_cut() {
    let desk = TestProject::new();
    for n in 0..5 {
        desk.file(&format!("f{n}"), "");
    }
    let report = desk.call_ok(&ls::tool(), json!({"limit": 2})).await;
    assert!(report.partial && report.text.contains("The first 2 are shown"), "{}", report.text);
    assert_eq!(report.data["entries"][1]["path"], "f1");
    let exact = desk.call_ok(&ls::tool(), json!({"limit": 5})).await;
    assert!(!exact.partial);
}

#[tokio::test]
async fn listing_a_non_directory_is_refused() {
    let desk = TestProject::new();
    desk.file("a", "");
    fs::create_dir(desk.path_of("empty")).unwrap();
    desk.call_fails(&ls::tool(), json!({"path": "a"}), ErrorCode::NotADirectory).await;
    desk.call_fails(&ls::tool(), json!({"path": "none"}), ErrorCode::NotFound).await;
    desk.call_fails(&ls::tool(), json!({"path": ".."}), ErrorCode::AccessDenied).await;
    let empty = desk.call_ok(&ls::tool(), json!({"path": "empty"})).await;
    assert_eq!((empty.partial, empty.data["entries"].clone()), (false, json!([])));
}
