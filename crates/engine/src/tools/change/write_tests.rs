#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use serde_json::json;

use crate::tools::tool_tests::{TestProject, numbered_lines};
use crate::tools::{change, read};
use agent_protocol::envelope::ErrorCode;

/// Reads a file with these bytes and overwrites it with `content`.
async fn check(old: &[u8], content: &str, new: &[u8]) {
    let desk = TestProject::new();
    desk.file("a", old);
    desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    let report =
        desk.call_ok(&change::write_tool(), json!({"path": "a", "content": content})).await;
    assert_eq!(desk.bytes("a"), new, "{}", report.text);
}

#[tokio::test]
async fn update_preserves_encoding_bom_and_line_ends() {
    check(b"one\n", "two\n", b"two\n").await;
    check(b"one\r\n", "two\nthree\n", b"two\r\nthree\r\n").await;
    check(b"one\r\n", "two\r\n", b"two\r\n").await;
    check(b"one\rx\r", "two\n", b"two\r").await;
    check(b"one\r\ntwo\nthree\r\n", "one\ntwo\nnew\nthree\n", b"one\r\ntwo\nnew\r\nthree\r\n")
        .await;
    check(b"\xEF\xBB\xBFone\n", "two\n", b"\xEF\xBB\xBFtwo\n").await;
    check(b"\xFF\xFEa\0\n\0", "b\n", b"\xFF\xFEb\0\n\0").await;
    check(b"caf\xE9 au lait\n", "th\u{e9} au lait\n", b"th\xE9 au lait\n").await;
}

#[tokio::test]
async fn file_is_created_with_its_parent_directories() {
    let desk = TestProject::new();
    let input = json!({"path": "x/y/a.txt", "content": "one\ntwo\n"});
    let report = desk.call_ok(&change::write_tool(), input).await;
    assert_eq!(desk.text("x/y/a.txt"), "one\ntwo\n");
    assert_eq!(report.data["operation"], "create");
    assert_eq!(report.data["applied"], true);
    assert_eq!(report.stats["lines_added"], 2);
    assert!(report.data["diff_preview"].as_str().unwrap().contains("+one\n"));
    let mode = fs::metadata(desk.path_of("x/y/a.txt")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0);
    // The content just written is known.
    desk.call_ok(&change::write_tool(), json!({"path": "x/y/a.txt", "content": "three\n"})).await;
    assert_eq!(fs::read_dir(desk.path_of("x/y")).unwrap().count(), 1);
}

#[tokio::test]
async fn unread_file_is_not_replaced() {
    let desk = TestProject::new();
    desk.file("a", "one\n").file("empty", "");
    let failure = desk
        .call_fails(&change::write_tool(), json!({"path": "a", "content": "x"}), ErrorCode::NotRead)
        .await;
    assert_eq!(failure.message, "File not read. You must read before editing.");
    assert_eq!(desk.text("a"), "one\n");
    desk.call_ok(&change::write_tool(), json!({"path": "empty", "content": "x"})).await;
    assert_eq!(desk.text("empty"), "x");
}

#[tokio::test]
async fn changed_file_conflicts_once_and_then_counts_as_read() {
    let desk = TestProject::new();
    desk.file("a", "one\ntwo\n");
    desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    let times = fs::metadata(desk.path_of("a")).unwrap().modified().unwrap();
    // Same size and mtime: only the content differs.
    desk.file("a", "one\nTWO\n");
    fs::File::options().write(true).open(desk.path_of("a")).unwrap().set_modified(times).unwrap();
    let input = json!({"path": "a", "content": "x"});
    let failure = desk.call_fails(&change::write_tool(), input.clone(), ErrorCode::Conflict).await;
    assert_eq!(failure.message, "File changed since last read");
    let diff = failure.data["diff_preview"].as_str().unwrap();
    assert!(diff.contains("-two\n+TWO\n"), "{diff}");
    assert!(!failure.data.contains_key("content"), "the difference shows it");
    assert_eq!(desk.text("a"), "one\nTWO\n");
    desk.call_ok(&change::write_tool(), input).await;
    assert_eq!(desk.text("a"), "x");
}

#[tokio::test]
async fn touched_but_unchanged_file_is_not_a_conflict() {
    let desk = TestProject::new();
    desk.file("a", "one\n");
    desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    let later = SystemTime::now() + Duration::from_secs(5);
    fs::File::options().write(true).open(desk.path_of("a")).unwrap().set_modified(later).unwrap();
    assert!(desk.cx.workspace.files_changed_since_read(true).is_empty());
    desk.call_ok(&change::write_tool(), json!({"path": "a", "content": "two\n"})).await;
    assert_eq!(desk.text("a"), "two\n");
}

#[tokio::test]
async fn deleted_file_conflicts_once_and_is_then_created() {
    let desk = TestProject::new();
    desk.file("a", "one\n");
    desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    fs::remove_file(desk.path_of("a")).unwrap();
    assert_eq!(desk.cx.workspace.files_changed_since_read(true), ["a"]);
    let input = json!({"path": "a", "content": "x"});
    desk.call_fails(&change::write_tool(), input.clone(), ErrorCode::Conflict).await;
    assert_eq!(desk.call_ok(&change::write_tool(), input).await.data["operation"], "create");
}

#[tokio::test]
async fn write_keeps_mode_and_symlink_and_reports_a_hard_link() {
    let desk = TestProject::new();
    desk.file("tool.sh", "one\n");
    fs::set_permissions(desk.path_of("tool.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("tool.sh", desk.path_of("link")).unwrap();
    fs::hard_link(desk.path_of("tool.sh"), desk.path_of("other")).unwrap();
    desk.call_ok(&read::tool(), json!({"path": "link"})).await;
    let report =
        desk.call_ok(&change::write_tool(), json!({"path": "tool.sh", "content": "two\n"})).await;
    assert!(report.text.contains("hard link"), "{}", report.text);
    assert_eq!(fs::metadata(desk.path_of("tool.sh")).unwrap().mode() & 0o7777, 0o750);
    assert!(fs::symlink_metadata(desk.path_of("link")).unwrap().is_symlink());
    assert_eq!((desk.text("link"), desk.text("other")), ("two\n".into(), "one\n".into()));
    assert_eq!(desk.names(), ["link", "other", "tool.sh"]);
}

#[tokio::test]
async fn read_only_file_is_not_replaced() {
    let desk = TestProject::new();
    desk.file("a", "one\n");
    fs::set_permissions(desk.path_of("a"), fs::Permissions::from_mode(0o444)).unwrap();
    desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    let input = json!({"path": "a", "content": "x"});
    desk.call_fails(&change::write_tool(), input, ErrorCode::PermissionDenied).await;
    assert_eq!((desk.text("a").as_str(), desk.names()), ("one\n", vec!["a".to_owned()]));
}

#[tokio::test]
async fn writes_to_protected_paths_are_refused() {
    let desk = TestProject::new();
    symlink(".git", desk.path_of("git")).unwrap();
    fs::create_dir(desk.path_of(".git")).unwrap();
    for path in [
        ".git/config",
        "sub/.git/hooks/x",
        "git/config",
        ".agent/config.toml",
        ".agent/other",
        ".agent/skills/../config.toml",
        "/etc/x",
    ] {
        desk.call_fails(
            &change::write_tool(),
            json!({"path": path, "content": ""}),
            ErrorCode::AccessDenied,
        )
        .await;
    }
    let skill = json!({"path": ".agent/skills/a/SKILL.md", "content": "x"});
    desk.call_ok(&change::write_tool(), skill).await;
    desk.call_ok(&change::write_tool(), json!({"path": ".gitignore", "content": "x"})).await;
}

#[tokio::test]
async fn dangling_symlink_is_followed_only_inside_the_project() {
    let desk = TestProject::new();
    symlink("target", desk.path_of("in")).unwrap();
    symlink("/tmp/agent-nowhere/x", desk.path_of("out")).unwrap();
    desk.call_ok(&change::write_tool(), json!({"path": "in", "content": "x"})).await;
    assert_eq!(desk.text("target"), "x");
    let out = json!({"path": "out", "content": "x"});
    desk.call_fails(&change::write_tool(), out, ErrorCode::AccessDenied).await;
}

#[tokio::test]
async fn dry_run_and_equal_content_write_nothing() {
    let desk = TestProject::new();
    desk.file("a", "one\r\n");
    desk.call_ok(&read::tool(), json!({"path": "a"})).await;
    let same = desk.call_ok(&change::write_tool(), json!({"path": "a", "content": "one\n"})).await;
    assert_eq!((same.partial, same.data["applied"].clone()), (false, json!(false)));
    assert!(same.text.contains("unchanged"));
    let dry = json!({"path": "a", "content": "two\n", "dry_run": true});
    let dry = desk.call_ok(&change::write_tool(), dry).await;
    assert!(dry.partial && dry.data["diff_preview"].as_str().unwrap().contains("-one\n+two\n"));
    let new = json!({"path": "x/new", "content": "two\n", "dry_run": true});
    desk.call_ok(&change::write_tool(), new).await;
    assert_eq!((desk.text("a").as_str(), desk.names()), ("one\r\n", vec!["a".to_owned()]));
}

#[tokio::test]
async fn long_diff_is_truncated() {
    let desk = TestProject::new();
    let content = numbered_lines(500, |n| format!("{n}\n"));
    let report =
        desk.call_ok(&change::write_tool(), json!({"path": "a", "content": content})).await;
    assert_eq!(report.data["diff_truncated"], true);
    assert_eq!(report.data["diff_preview"].as_str().unwrap().lines().count(), 100);
    assert_eq!(report.stats["lines_added"], 500);
}

#[tokio::test]
async fn redaction_mask_does_not_replace_a_secret() {
    let desk = TestProject::new();
    desk.file("env", "a = 1\nkey = \"sk-live\"\n");
    desk.call_ok(&read::tool(), json!({"path": "env"})).await;
    let masked = json!({"path": "env", "content": "a = 2\nkey = \"[redacted:api-key]\"\n"});
    let failure = desk.call_fails(&change::write_tool(), masked, ErrorCode::InvalidParam).await;
    assert!(failure.message.contains("[redacted:api-key]"), "{}", failure.message);
    let added = "a = 1\nkey = \"sk-live\"\n# keys are shown as [redacted:api-key]\n";
    desk.call_ok(&change::write_tool(), json!({"path": "env", "content": added})).await;
}

#[tokio::test]
async fn racing_writers_lose_no_change() {
    let desk = TestProject::new();
    desk.file("a", "0\n");
    let (stop, target, beside) =
        (Arc::new(AtomicBool::new(false)), desk.path_of("a"), desk.path_of("beside"));
    let stopped = Arc::clone(&stop);
    // Another program that replaces the file as editors do, and checks that its content stays until
    // it is replaced by a writer that has read it.
    let other = std::thread::spawn(move || {
        let mut n = 0u64;
        while !stopped.load(Ordering::Relaxed) {
            n += 1;
            fs::write(&beside, format!("foreign {n}\n")).unwrap();
            fs::rename(&beside, &target).unwrap();
            // Occasionally pause long enough for one of our changes, however slow the disk is.
            let rest = if n.is_multiple_of(40) { 100_000 } else { n % 7 * 150 };
            std::thread::sleep(Duration::from_micros(rest));
        }
        n
    });
    let (mut won, mut lost) = (0, 0);
    let until = SystemTime::now() + Duration::from_secs(2);
    let patience = until + Duration::from_mins(1);
    let continues = |both| SystemTime::now() < if both { until } else { patience };
    while continues(won > 0 && lost > 0) {
        let read = desk.call_ok(&read::tool(), json!({"path": "a"})).await;
        // Name only the last known writer: a list of all would eventually exceed the length of a
        // shown line and be truncated.
        let shown = read.data["content"].as_str().unwrap();
        let known = shown.rsplit("foreign ").next().unwrap().trim();
        let input = json!({"path": "a", "content": format!("ours after foreign {known}\n")});
        match desk.call(&change::write_tool(), input).await {
            Ok(_) => won += 1,
            Err(failure) => {
                let known = [ErrorCode::Conflict, ErrorCode::NotRead];
                assert!(known.contains(&failure.code), "{failure:?}");
                // Both versions are kept, and the message says where: rare, and unavoidable.
                if let Some((_, name)) = failure.message.split_once("another version of it is in ")
                {
                    fs::remove_file(desk.path_of(name)).unwrap();
                }
                lost += 1;
            }
        }
        assert!(fs::read(desk.path_of("a")).is_ok(), "the file is always there");
    }
    stop.store(true, Ordering::Relaxed);
    let newest = other.join().unwrap();
    let text = desk.text("a");
    // The file contains the last foreign change, or one of ours that is based on it.
    assert!(text.contains(&format!("foreign {newest}\n")), "{text:?}, last {newest}");
    assert!(won > 0 && lost > 0, "won {won}, lost {lost}");
    assert_eq!(desk.names(), ["a"]);
}

#[test]
fn only_one_concurrent_create_succeeds() {
    let desk = Arc::new(TestProject::new());
    for round in 0..20 {
        let path = format!("x{round}");
        let writers: Vec<_> = (0..4)
            .map(|n| {
                let workspace = Arc::clone(&desk.cx.workspace);
                let path = workspace.resolve(&path).unwrap();
                std::thread::spawn(move || workspace.create(&path, format!("{n}").as_bytes()))
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
        let failures = results.into_iter().filter_map(Result::err);
        assert!(failures.into_iter().all(|failure| failure.code == ErrorCode::Conflict));
    }
    assert_eq!(desk.names().len(), 20);
}
