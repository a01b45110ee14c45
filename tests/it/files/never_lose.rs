//! What a file change preserves, and what is left if it fails or is killed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::XattrFlags;
use serde_json::{Value, json};

use crate::support::batch::{Batch, Project, says};
use crate::support::{Test, has, is_root, say};

/// One change with each tool that writes files.
fn changes() -> [(&'static str, Value); 3] {
    [
        ("Write", json!({"path": "a", "content": "two\n"})),
        ("Edit", json!({"path": "a", "old_string": "one", "new_string": "two"})),
        ("MultiEdit", json!({"path": "a", "edits": [{"old_string": "one", "new_string": "two"}]})),
    ]
}

#[test]
fn changes_preserve_mode_owner_and_attributes() {
    for (tool, input) in changes() {
        let mut project = Project::new(&[("a", "one\n")]);
        let path = project.at("a");
        // chown clears the setuid bit, so it has to come before chmod.
        if is_root() {
            std::os::unix::fs::chown(&path, Some(12_345), Some(54_321)).unwrap();
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o4751)).unwrap();
        let before = path.metadata().unwrap();
        let has_attributes =
            rustix::fs::setxattr(&path, "user.note", b"kept", XattrFlags::empty()).is_ok();
        project.ok("Read", &json!({"path": "a"}));
        project.ok(tool, &input);
        let after = path.metadata().unwrap();
        assert_eq!(
            (after.mode(), after.uid(), after.gid()),
            // The setuid bit was granted for other bytes.
            (before.mode() & !0o6000, before.uid(), before.gid()),
            "{tool}"
        );
        assert_eq!(project.bytes("a"), b"two\n");
        if has_attributes {
            let mut value = [0; 16];
            let length = rustix::fs::getxattr(&path, "user.note", &mut value).unwrap();
            assert_eq!(&value[..length], b"kept");
        } else {
            say("SKIPPED: extended attributes: this file system has none");
        }
    }
}

/// A batch in a file system of its own, mounted with these options, that contains the file `a`;
/// then runs `script` there. It is accessed through `/proc` and disappears with the process.
/// Reports a skip and returns `None` if mounting is not permitted.
fn mounted(test: &Test, options: &str, script: &str, name: &str) -> Option<(Batch, String)> {
    if !has("unshare", name) {
        return None;
    }
    let folder = test.root().join("small");
    fs::create_dir(&folder).unwrap();
    let script = format!(
        "mount -t tmpfs -o {options} none small && printf 'one\\n' > small/a && {script} && \
         cd small && exec \"$0\" tool batch --cwd ."
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    unshare.arg(test.command(&[]).get_program()).current_dir(test.root());
    unshare.env("HOME", test.home()).stdout(Stdio::piped());
    let mut batch = Batch::start(&mut unshare);
    batch.send("Read", &json!({"path": "a"}));
    if batch.answer().is_some_and(|read| read["status"] == "success") {
        let there = format!("/proc/{}/root{}", batch.id(), folder.display());
        return Some((batch, there));
    }
    say(&format!("SKIPPED: {name}: nothing can be mounted here"));
    None
}

#[test]
fn a_read_only_file_system_is_permission_denied() {
    let test = Test::new();
    let name = "a_read_only_file_system_is_permission_denied";
    let Some((mut batch, there)) = mounted(&test, "size=1m", "mount -o remount,ro small", name)
    else {
        return;
    };
    for (tool, input) in changes().into_iter().chain([
        ("Write", json!({"path": "new", "content": "x"})),
        ("Write", json!({"path": "new/deep/er", "content": "x"})),
    ]) {
        let refused = batch.call(tool, &input);
        assert_eq!(refused["error"]["code"], "PERMISSION_DENIED", "{tool}: {refused}");
    }
    assert_eq!(fs::read_to_string(format!("{there}/a")).unwrap(), "one\n");
    assert_eq!(fs::read_dir(&there).unwrap().count(), 1);
}

#[test]
fn on_a_full_disk_nothing_stays_that_git_would_run() {
    let test = Test::new();
    let name = "on_a_full_disk_nothing_stays_that_git_would_run";
    let Some((mut batch, there)) = mounted(&test, "size=1m", "git init -q small/n", name) else {
        return;
    };
    let line = "printf '[core]\\nfsmonitor = x\\n' >> n/.git/config; cat /dev/zero > fill";
    fs::write(format!("{there}/script.sh"), line).unwrap();
    let answer = batch.call("Bash", &json!({"command": "bash ./script.sh"}));
    if answer["error"]["code"] == "APPROVAL_REQUIRED" {
        return say(&format!("SKIPPED: {name}: there is no sandbox here"));
    }
    let config = fs::read_to_string(format!("{there}/n/.git/config")).unwrap();
    assert!(config.contains("bare") && !config.contains("fsmonitor"), "{config} {answer}");
}

#[test]
fn stored_output_leaves_free_disk_space() {
    let test = Test::new();
    let name = "stored_output_leaves_free_disk_space";
    // A small disk has little free space from the start: short output is stored in spite of that.
    let before = "mkdir kept && mount -t tmpfs -o size=200m none kept && export TMPDIR=$PWD/kept";
    let Some((mut batch, _)) = mounted(&test, "size=1m", before, name) else { return };
    let printed = |n: u32| {
        let line = format!("yes 0123456789abcde | head -c {n}000000");
        json!({"command": line, "timeout_ms": 60_000})
    };
    let whole = batch.call("Bash", &printed(1));
    if whole["data"]["sandbox"] == "none" || whole["error"]["code"] == "APPROVAL_REQUIRED" {
        return say(&format!("SKIPPED: {name}: no sandbox in a mount of its own"));
    }
    assert!(!whole["text"].as_str().unwrap().contains("its beginning is in"), "{whole}");
    let cut = batch.call("Bash", &printed(150));
    let text = cut["text"].as_str().unwrap();
    assert!(text.contains("its beginning is in") && text.contains("less than 1 GiB"), "{text}");
    assert_eq!(cut["data"]["exit_code"], 0, "{cut}");
    let kept = cut["data"]["full_output"].as_str().unwrap();
    let size = fs::metadata(format!("/proc/{}/root{kept}", batch.id())).unwrap().len();
    assert!((32_000_000..100_000_000).contains(&size), "{size}");
}

#[test]
fn full_disk_leaves_the_old_file_intact() {
    let test = Test::new();
    let name = "full_disk_leaves_the_old_file_intact";
    let Some((mut batch, there)) = mounted(&test, "size=256k", "true", name) else { return };
    let large = "x".repeat(400_000);
    let old = fs::read_dir(&there).unwrap().count();
    for (tool, input) in [
        ("Write", json!({"path": "a", "content": large})),
        ("Edit", json!({"path": "a", "old_string": "one", "new_string": large})),
        ("Write", json!({"path": "new", "content": large})),
        ("Write", json!({"path": "new/deep/er", "content": large})),
    ] {
        let refused = batch.call(tool, &input);
        assert_eq!(refused["error"]["code"], "EXECUTION_ERROR", "{tool}: {refused}");
        says(&refused, "/error/message", "the disk is full");
        assert_eq!(fs::read_to_string(format!("{there}/a")).unwrap(), "one\n");
        assert_eq!(fs::read_dir(&there).unwrap().count(), old, "nothing is left");
        // The circuit breaker opens after three failures in a row.
        let answer = batch.call(tool, &json!({}));
        assert_eq!(answer["error"]["code"], "INVALID_PARAM");
    }
    let edit = json!({"path": "a", "old_string": "one", "new_string": "two"});
    assert_eq!(batch.call("Edit", &edit)["status"], "success", "it is still known");
}

#[test]
fn exceeding_the_file_size_limit_leaves_the_old_file_intact() {
    let test = Test::new().file("a", "one\n");
    let mut shell = Command::new("bash");
    shell.args(["-c", "ulimit -f 64; exec \"$0\" tool batch"]);
    shell.arg(test.command(&[]).get_program()).current_dir(test.root());
    shell.env("HOME", test.home()).stdout(Stdio::piped());
    let mut batch = Batch::start(&mut shell);
    batch.call("Read", &json!({"path": "a"}));
    batch.send("Write", &json!({"path": "a", "content": "x".repeat(1_000_000)}));
    // SIGXFSZ may end the process.
    if let Some(answer) = batch.answer() {
        assert_eq!(answer["error"]["code"], "EXECUTION_ERROR", "{answer}");
    }
    assert_eq!(test.read("a"), "one\n");
    assert_eq!(fs::read_dir(test.root()).unwrap().count(), 1);
}

/// Killed at any moment, a change leaves the old file or the new one, complete; the next change in
/// the directory removes leftover temporary files.
#[test]
#[ignore = "slow"]
fn killed_change_leaves_the_old_or_new_file_complete() {
    let test = Test::in_memory();
    let old = "one\n".repeat(300_000);
    let new = old.replace("one", "two");
    let (mut n_old, mut n_new) = (0, 0);
    let mut delay = Duration::from_millis(20);
    for round in 0..30 {
        test.write("a", &old);
        let mut batch = Batch::start(&mut test.command(&["tool", "batch"]));
        batch.call("Read", &json!({"path": "a", "limit": 1}));
        let edit =
            json!({"path": "a", "old_string": "one", "new_string": "two", "replace_all": true});
        batch.send("Edit", &edit);
        std::thread::sleep(delay);
        batch.kill();
        let now = test.read("a");
        assert!(now == old || now == new, "round {round}: {} bytes", now.len());
        // Move closer to the moment of the rename.
        if now == old {
            n_old += 1;
            delay += delay / 7;
        } else {
            n_new += 1;
            delay -= delay / 7;
        }
    }
    assert!(n_old > 0 && n_new > 0, "{n_old} old, {n_new} new");
    let mut project = Project::of(test);
    project.ok("Write", &json!({"path": "b", "content": "x"}));
    assert_eq!(project.names("."), ["a", "b"]);
}

#[test]
fn next_change_removes_leftovers_of_a_killed_one() {
    let mut project = Project::new(&[("sub/a", "one\n")]);
    let hash = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
    let (old, new) = (hash("one\n"), hash("two\n"));
    // No process has this PID: the maximum is 4194304.
    let left = |n: u64| format!("sub/.agent-99999999-{n}-{}-{}.tmp", &old[..32], &new[..32]);
    for (n, text) in [(0, "one\n"), (1, "two\n"), (2, "somebody's\n")] {
        project.test.write(&left(n), text);
    }
    project.ok("Read", &json!({"path": "sub/a"}));
    project.ok("Edit", &json!({"path": "sub/a", "old_string": "one", "new_string": "three"}));
    assert_eq!(project.names("sub"), [left(2).trim_start_matches("sub/"), "a"]);
}
