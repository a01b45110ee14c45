//! Write: create or replace a whole file.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::batch::{Project, says, text};

fn write(path: &str, content: &str) -> Value {
    json!({"path": path, "content": content})
}

#[test]
fn file_is_created_with_its_parent_directories() {
    let mut project = Project::new(&[("old/x", "")]);
    let made = project.ok("Write", &write("new/sub/a.txt", "one\ntwo\n"));
    let data = json!({
        "applied": true,
        "diff_preview": "--- /dev/null\n+++ b/new/sub/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n",
        "operation": "create",
    });
    assert_eq!(made["data"], data);
    let stats = ["bytes_written", "lines_added", "lines_removed"].map(|name| &made["stats"][name]);
    assert_eq!(stats, [8, 2, 0]);
    assert_eq!(project.bytes("new/sub/a.txt"), b"one\ntwo\n");
    assert_eq!(project.names("new/sub"), ["a.txt"]);
    let mode = project.at("new/sub/a.txt").metadata().unwrap().mode();
    assert_eq!(mode & 0o111, 0);
    // The content is known, so it can be changed at once.
    let update = project.ok("Write", &write("new/sub/a.txt", "three\n"));
    let data = json!({
        "applied": true,
        "diff_preview": "--- a/new/sub/a.txt\n+++ b/new/sub/a.txt\n@@ -1,2 +1 @@\n-one\n-two\n+three\n",
        "operation": "update",
    });
    assert_eq!(update["data"], data);
    let stats =
        ["bytes_written", "lines_added", "lines_removed"].map(|name| &update["stats"][name]);
    assert_eq!(stats, [6, 1, 2]);
    // A created file has exactly the given bytes.
    project.ok("Write", &write("crlf.txt", "one\r\ntwo\rthree"));
    assert_eq!(project.bytes("crlf.txt"), b"one\r\ntwo\rthree");
    project.ok("Write", &write("empty.txt", ""));
    assert_eq!(project.bytes("empty.txt"), b"");
}

#[test]
fn existing_file_must_be_read_unless_empty() {
    let mut project = Project::new(&[("a", "one\n"), ("empty", "")]);
    let refused = project.fails("Write", &write("a", "x"), "NOT_READ");
    assert_eq!(refused["error"]["message"], "File not read. You must read before editing.");
    assert_eq!(project.bytes("a"), b"one\n");
    let made = project.ok("Write", &write("empty", "x"));
    assert_eq!(
        (made["data"]["operation"].clone(), project.bytes("empty")),
        (json!("update"), b"x".to_vec())
    );
}

#[test]
fn external_change_is_a_conflict_with_a_diff() {
    let mut project = Project::new(&[("a", "one\ntwo\n")]);
    project.ok("Read", &json!({"path": "a"}));
    let time = project.at("a").metadata().unwrap().modified().unwrap();
    // Same size and mtime: only the content differs.
    project.test.write("a", "one\nTWO\n");
    let file = std::fs::File::options().write(true).open(project.at("a")).unwrap();
    file.set_modified(time).unwrap();
    // It could not be replaced while it is open for writing.
    drop(file);
    let refused = project.fails("Write", &write("a", "x"), "CONFLICT");
    assert_eq!(refused["error"]["message"], "File changed since last read");
    let diff = "--- as you read it\n+++ as it is now\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n";
    assert_eq!(refused["data"], json!({"diff_preview": diff}), "not the whole file again");
    assert_eq!(project.bytes("a"), b"one\nTWO\n");
    project.ok("Write", &write("a", "x"));
}

#[test]
fn touched_but_unchanged_file_is_not_a_conflict() {
    let mut project = Project::new(&[("a", "one\n")]);
    project.ok("Read", &json!({"path": "a"}));
    let file = std::fs::File::options().write(true).open(project.at("a")).unwrap();
    file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
    drop(file);
    project.ok("Write", &write("a", "two\n"));
}

#[test]
fn write_to_a_deleted_file_conflicts_once_then_creates_it() {
    let mut project = Project::new(&[("sub/a", "one\n")]);
    project.ok("Read", &json!({"path": "sub/a"}));
    std::fs::remove_dir_all(project.at("sub")).unwrap();
    let refused = project.fails("Write", &write("sub/a", "x"), "CONFLICT");
    says(&refused, "/error/message", "sub/a was deleted");
    let made = project.ok("Write", &write("sub/a", "x"));
    assert_eq!(made["data"]["operation"], "create");
}

#[test]
fn update_preserves_encoding_bom_and_line_ends() {
    let check = |old: &[u8], content: &str, new: &[u8]| {
        let mut project = Project::of(Test::new().file("a", old));
        project.call("Read", &json!({"path": "a"}));
        project.ok("Write", &write("a", content));
        assert_eq!(project.bytes("a"), new, "{}", String::from_utf8_lossy(old));
    };
    check(b"one\n", "two\n", b"two\n");
    check(b"one\n", "two", b"two");
    check(b"one\r\n", "two\nthree\n", b"two\r\nthree\r\n");
    check(b"one\r\n", "two\r\nthree\r\n", b"two\r\nthree\r\n");
    check(b"one\rx\r", "two\n", b"two\r");
    check(b"1\r\n2\n3\r\n", "1\n2\nnew\n3\n", b"1\r\n2\nnew\r\n3\r\n");
    check(b"1\n2\r\n3\n", "1\n2\n3\nnew\n", b"1\n2\r\n3\nnew\n");
    check(b"1\n2\r\n3\n", "one\ntwo\n3\n", b"one\ntwo\r\n3\n");
    check(b"1\r2\n3\r\n4\n", "1\r2\n3\nx\n4\n", b"1\r2\n3\r\nx\n4\n");
    check(b"one", "two\r\n", b"two\r\n");
    check(b"\xEF\xBB\xBFone\n", "two\n", b"\xEF\xBB\xBFtwo\n");
    check(b"\xFF\xFEa\0\n\0", "b\n", b"\xFF\xFEb\0\n\0");
    check(b"\xFE\xFF\0a\0\r\0\n", "b\n\u{1F600}", b"\xFE\xFF\0b\0\r\0\n\xD8\x3D\xDE\0");
    check(b"caf\xE9 au lait\n", "th\u{e9} au lait\n", b"th\xE9 au lait\n");
    let chinese = |text: &str| encoding_rs::GB18030.encode(text).0.into_owned();
    let (old, new) = ("这是一个测试文件，包含一些中文字符。\n", "文件测试\n");
    check(&chinese(old), new, &chinese(new));
}

#[test]
fn characters_missing_in_the_encoding_are_refused() {
    let old = b"caf\xE9 au lait\n";
    let mut project = Project::of(Test::new().file("a", old));
    project.ok("Read", &json!({"path": "a"}));
    let refused = project.fails("Write", &write("a", "中\n"), "ENCODING");
    assert_eq!(refused["error"]["message"], "a is in windows-1252, which has no '中'");
    assert_eq!(project.bytes("a"), old);
}

#[test]
fn write_of_equal_content_changes_nothing() {
    for (old, content) in [("one\r\n", "one\n"), ("one\n", "one\n"), ("", ""), ("\u{FEFF}a", "a")] {
        let mut project = Project::new(&[("a", old)]);
        project.ok("Read", &json!({"path": "a"}));
        let before = project.at("a").metadata().unwrap();
        let same = project.ok("Write", &write("a", content));
        let data = json!({"applied": false, "operation": "update", "diff_preview": ""});
        assert_eq!(same["data"], data);
        says(&same, "/text", "unchanged");
        let after = project.at("a").metadata().unwrap();
        assert_eq!((after.ino(), after.mtime_nsec()), (before.ino(), before.mtime_nsec()));
    }
}

#[test]
fn dry_run_shows_the_diff_and_writes_nothing() {
    let mut project = Project::new(&[("a", "one\n")]);
    project.ok("Read", &json!({"path": "a"}));
    let dry = |path: &str| json!({"path": path, "content": "two\n", "dry_run": true});
    let update = project.partial("Write", &dry("a"));
    assert_eq!(
        (&update["data"]["applied"], &update["stats"]["bytes_written"]),
        (&json!(false), &json!(0))
    );
    says(&update, "/data/diff_preview", "-one\n+two\n");
    says(&update, "/text", "dry run");
    let create = project.partial("Write", &dry("new/b"));
    assert_eq!(create["data"]["operation"], "create");
    assert_eq!((project.bytes("a"), project.names(".")), (b"one\n".to_vec(), vec!["a".to_owned()]));
    project.fails("Write", &dry("/etc/x"), "ACCESS_DENIED");
    project.test.write("a", "three\n");
    project.fails("Write", &dry("a"), "CONFLICT");
}

#[test]
fn diff_preview_has_at_most_100_lines_and_10_kib() {
    let mut project = Project::new(&[]);
    let lines: String = (0..500).map(|n| format!("{n}\n")).collect();
    for (path, content) in
        [("lines", lines), ("bytes", format!("{}\n", "x".repeat(200)).repeat(90))]
    {
        let made = project.ok("Write", &write(path, &content));
        let preview = text(&made, "/data/diff_preview");
        assert!(preview.lines().count() <= 100 && preview.len() <= 10 * 1024);
        assert!(preview.lines().count() == 100 || preview.len() > 10 * 1000);
        assert_eq!(made["data"]["diff_truncated"], true);
        assert_eq!(made["stats"]["lines_added"], content.lines().count());
        assert_eq!(project.bytes(path), content.as_bytes());
    }
}

#[test]
fn protected_paths_cannot_be_written() {
    let mut project = Project::new(&[(".git/config", "x\n"), (".agent/config.toml", "")]);
    symlink(".git", project.at("git")).unwrap();
    for path in [
        ".git/config",
        ".git/new",
        ".GIT/config",
        "sub/.git/hooks/x",
        "git/config",
        ".agent/config.toml",
        ".agent/other",
        ".agent/skills/../config.toml",
        ".git",
    ] {
        project.fails("Write", &write(path, ""), "ACCESS_DENIED");
    }
    // These ask for approval, and there is no user.
    for path in [
        ".agent/skills/a/SKILL.md",
        ".agent/commands/x.md",
        ".agent/agents/x.md",
        ".agent/prompts/x.md",
    ] {
        project.fails("Write", &write(path, "x"), "APPROVAL_REQUIRED");
    }
    project.ok("Write", &write(".gitignore", "x"));
    assert_eq!(project.names(".git"), ["config"]);
    let test = Test::new();
    let options = ["tool", "batch", "--deny", "Write(secret/**)"];
    let mut batch = crate::support::batch::Batch::start(&mut test.command(&options));
    let denied = batch.call("Write", &write("secret/x", ""));
    assert_eq!(denied["error"]["code"], "ACCESS_DENIED");
}

#[test]
fn read_only_file_in_a_writable_directory_is_not_replaced() {
    let mut project = Project::new(&[("sub/a", "one\n")]);
    let read_only = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(project.at("sub/a"), read_only).unwrap();
    project.ok("Read", &json!({"path": "sub/a"}));
    let refused = project.fails("Write", &write("sub/a", "x"), "PERMISSION_DENIED");
    assert_eq!(refused["error"]["message"], "sub/a is read-only");
    assert_eq!(
        (project.bytes("sub/a"), project.names("sub")),
        (b"one\n".to_vec(), vec!["a".to_owned()])
    );
}

#[test]
fn read_only_directory_is_permission_denied() {
    let test = Test::new().file("sub/a", "one\n");
    let Some(test) = test.unprivileged("read_only_directory_is_permission_denied") else { return };
    let mode = |test: &Test, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(test.root().join("sub"), permissions).unwrap();
    };
    mode(&test, 0o555);
    let mut project = Project::of(test);
    project.ok("Read", &json!({"path": "sub/a"}));
    project.fails("Write", &write("sub/a", "x"), "PERMISSION_DENIED");
    project.fails("Write", &write("sub/b", "x"), "PERMISSION_DENIED");
    project.fails("Write", &write("sub/new/b", "x"), "PERMISSION_DENIED");
    assert_eq!(
        (project.bytes("sub/a"), project.names("sub")),
        (b"one\n".to_vec(), vec!["a".to_owned()])
    );
    mode(&project.test, 0o755);
}

#[test]
fn write_refuses_directories_and_follows_inside_symlinks() {
    let mut project = Project::new(&[("sub/x", ""), ("a", "one\n")]);
    project.fails("Write", &write("sub", "x"), "IS_DIRECTORY");
    project.fails("Write", &write(".", "x"), "IS_DIRECTORY");
    symlink("a", project.at("link")).unwrap();
    symlink("target", project.at("dangling")).unwrap();
    project.ok("Read", &json!({"path": "link"}));
    let update = project.ok("Write", &write("link", "two\n"));
    assert_eq!(update["context"]["path_resolved"], "a");
    project.ok("Write", &write("dangling", "x"));
    assert_eq!((project.bytes("a"), project.bytes("target")), (b"two\n".to_vec(), b"x".to_vec()));
    assert!(project.at("link").is_symlink() && project.at("dangling").is_symlink());
}

#[test]
fn redaction_mask_is_never_written_over_a_secret() {
    let mut project = Project::new(&[("settings", "a = 1\nkey = \"sk-live\"\n")]);
    project.ok("Read", &json!({"path": "settings"}));
    let masked = write("settings", "a = 2\nkey = \"[redacted:api-key]\"\n");
    let refused = project.fails("Write", &masked, "INVALID_PARAM");
    says(&refused, "/error/message", "[redacted:api-key]");
    assert_eq!(project.test.read("settings"), "a = 1\nkey = \"sk-live\"\n");
}
