#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::tools::glob;
use crate::tools::tool_tests::TestProject;
use agent_protocol::envelope::ErrorCode;

/// A project in which each file is older than the one before it.
fn desk(files: &[&str]) -> TestProject {
    let desk = TestProject::new();
    for (age, path) in files.iter().enumerate() {
        desk.file(path, "x\n");
        let time = SystemTime::now() - Duration::from_secs(age as u64 * 60);
        File::options().write(true).open(desk.path_of(path)).unwrap().set_modified(time).unwrap();
    }
    desk
}

async fn check(desk: &TestProject, input: Value, paths: &[&str]) {
    let report = desk.call_ok(&glob::tool(), input.clone()).await;
    assert_eq!(report.data["paths"], json!(paths), "{input}: {}", report.text);
    assert!(!report.partial);
}

#[tokio::test]
async fn star_stays_in_a_directory_and_double_star_crosses() {
    let desk = desk(&["src/b.rs", "a.rs", "src/deep/c.rs", "src/d.md"]);
    check(&desk, json!({"pattern": "*.rs"}), &["src/b.rs", "a.rs", "src/deep/c.rs"]).await;
    check(&desk, json!({"pattern": "src/*.rs"}), &["src/b.rs"]).await;
    check(&desk, json!({"pattern": "src/**/*.rs"}), &["src/b.rs", "src/deep/c.rs"]).await;
    check(&desk, json!({"pattern": "**/a.rs"}), &["a.rs"]).await;
    check(&desk, json!({"pattern": "src/?.{rs,md}"}), &["src/b.rs", "src/d.md"]).await;
    check(&desk, json!({"pattern": "[ab].rs"}), &["src/b.rs", "a.rs"]).await;
    check(&desk, json!({"pattern": "./*.rs"}), &["a.rs"]).await;
    check(&desk, json!({"pattern": "*.rs", "path": "src/deep"}), &["src/deep/c.rs"]).await;
    let absolute = format!("{}/src/*.rs", desk.cx.workspace.root().display());
    check(&desk, json!({"pattern": absolute}), &["src/b.rs"]).await;
}

#[tokio::test]
async fn excluded_matches_are_reported() {
    let desk = desk(&["a.rs", "target/b.rs", "node_modules/c.rs", ".hidden/d.rs", "sub/e.rs"]);
    desk.file(".gitignore", "target/\n/sub/e.rs\n").file(".git/x.rs", "");
    check(&desk, json!({"pattern": "*.rs"}), &["a.rs"]).await;
    let all = json!({"pattern": "*.rs", "include_hidden": true, "include_ignored": true});
    let everything = ["a.rs", "target/b.rs", "node_modules/c.rs", ".hidden/d.rs", "sub/e.rs"];
    check(&desk, all, &everything).await;
    for (pattern, path) in [("b.rs", "target/b.rs"), ("d.rs", ".hidden/d.rs")] {
        let report = desk.call_ok(&glob::tool(), json!({"pattern": pattern})).await;
        assert!(report.text.contains(&format!("instance {path}.")), "{}", report.text);
    }
    // An explicitly named directory is searched even if excluded; rules above it still apply to
    // other paths.
    check(&desk, json!({"pattern": "*.rs", "path": "target"}), &["target/b.rs"]).await;
    check(&desk, json!({"pattern": "*.rs", "path": ".hidden"}), &[".hidden/d.rs"]).await;
    check(&desk, json!({"pattern": "*.rs", "path": "node_modules"}), &["node_modules/c.rs"]).await;
    check(&desk, json!({"pattern": "*.rs", "path": "sub"}), &[]).await;
}

#[tokio::test]
async fn glob_reports_matches_that_differ_in_case() {
    let desk = desk(&["README.md"]);
    let report = desk.call_ok(&glob::tool(), json!({"pattern": "readme.md"})).await;
    assert!(report.text.contains("README.md"), "{}", report.text);
}

#[tokio::test]
async fn glob_hints_at_a_missing_prefix_or_a_directory() {
    let desk = desk(&["crate/src/deep/a.rs"]);
    for (pattern, hint) in [
        ("src/deep/*.rs", "begins at `path`: **/src/deep/*.rs would match crate/src/deep/a.rs."),
        ("./*.rs", "begins at `path`: **/*.rs would match crate/src/deep/a.rs."),
        ("deep", "crate/src/deep is a directory: list it with LS, or search for deep/**."),
        ("crate/src", "crate/src is a directory: list it with LS, or search for crate/src/**."),
        ("nowhere/*.rs", "No files matching \"nowhere/*.rs\" in the project."),
    ] {
        let report = desk.call_ok(&glob::tool(), json!({"pattern": pattern})).await;
        assert!(report.text.ends_with(hint), "{}", report.text);
    }
}

#[tokio::test]
async fn exactly_the_limit_is_not_truncated() {
    let desk = desk(&["a", "b", "c"]);
    check(&desk, json!({"pattern": "*", "limit": 3}), &["a", "b", "c"]).await;
    let report = desk.call_ok(&glob::tool(), json!({"pattern": "*", "limit": 2})).await;
    assert!(report.partial && report.data["truncated"] == true);
    assert_eq!(report.data["paths"], json!(["a", "b"]));
    assert_eq!(report.stats["matched"], 3);
}

#[tokio::test]
async fn limits_end_a_search() {
    let desk = desk(&["a", "b", "c", "d"]);
    let few = glob::with_limits(Duration::from_secs(2), 2);
    let report = desk.call_ok(&few, json!({"pattern": "*"})).await;
    assert_eq!(
        (report.partial, report.data["aborted_reason"].clone()),
        (true, json!("count_limit"))
    );
    assert_eq!((&report.stats["matched"], &report.stats["visited"]), (&json!(2), &json!(2)));
    desk.call_fails(&few, json!({"pattern": "zzz"}), ErrorCode::Timeout).await;
    let short = glob::with_limits(Duration::ZERO, 1000);
    // (Another thread may have found a file before the clock is read.)
    desk.call_fails(&short, json!({"pattern": "zzz"}), ErrorCode::Timeout).await;
}

#[tokio::test]
async fn bad_pattern_is_refused() {
    let desk = desk(&["a"]);
    for pattern in ["a[bc", "x/{a,b", "[z-a]", "ab}"] {
        desk.call_fails(&glob::tool(), json!({"pattern": pattern}), ErrorCode::InvalidParam).await;
    }
    desk.call_fails(&glob::tool(), json!({"pattern": "*", "path": "a"}), ErrorCode::NotADirectory)
        .await;
}

#[tokio::test]
async fn symlinks_are_not_followed_outside_the_project() {
    let desk = desk(&["sub/a.rs"]);
    symlink("/etc", desk.path_of("etc")).unwrap();
    symlink("/etc/passwd", desk.path_of("passwd.rs")).unwrap();
    symlink("sub/a.rs", desk.path_of("in.rs")).unwrap();
    symlink("..", desk.path_of("sub/up")).unwrap();
    check(&desk, json!({"pattern": "*.rs"}), &["in.rs", "sub/a.rs"]).await;
    check(&desk, json!({"pattern": "**/passwd"}), &[]).await;
}
