//! What the agent does as the user, outside the sandbox, on the word of what a command or a clone has put there: undo
//! journals, programs and settings in the project, and texts that a terminal would act on.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::Test;

/// What a program of the project would leave behind.
const EVIL: &str = "#!/bin/sh\ntouch \"$0.ran\"\n";

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A recorded turn that wrote `kept.txt`, and the turn's folder.
fn recorded(test: &Test) -> PathBuf {
    let call = json!({"path": "kept.txt", "content": EVIL}).to_string();
    test.agent(&["tool", "call", "--record", "Write", &call]).expect_code(0);
    let sessions = fs::read_dir(test.root().join(".agent/undo")).unwrap();
    let [session] =
        sessions.map(|entry| entry.unwrap().path()).collect::<Vec<_>>().try_into().unwrap();
    fs::read_dir(session).unwrap().next().unwrap().unwrap().path()
}

/// The hash of [`EVIL`], as the journal has it.
fn hash(turn: &Path) -> String {
    let journal = fs::read_to_string(turn.join("journal.jsonl")).unwrap();
    let line: Value = serde_json::from_str(journal.lines().next().unwrap()).unwrap();
    line["after"].as_str().unwrap().to_owned()
}

fn forge(turn: &Path, lines: &[Value]) {
    program(&turn.join("0001"), EVIL);
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(turn.join("journal.jsonl"), lines).unwrap();
}

#[test]
fn an_undo_changes_nothing_that_the_file_tools_may_not() {
    let test = Test::new();
    let turn = recorded(&test);
    let hash = hash(&turn);
    for path in [".git/HEAD", "sub/.git/config", "sub/.agent/config.toml"] {
        test.write(path, EVIL);
    }
    fs::create_dir_all(test.root().join(".git/branches")).unwrap();
    symlink(".git", test.root().join("link")).unwrap();
    let made = |path: &str| json!({"what": "first", "path": path, "before": null, "after": hash});
    let gone = |path: &str| json!({"what": "first", "path": path, "before": {"file": "0001", "hash": hash}, "after": ""});
    let absolute = test.root().join(".git/hooks/post-commit").display().to_string();
    forge(
        &turn,
        &[
            made(".git/HEAD"),
            made("sub/.git/config"),
            made("sub/.agent/config.toml"),
            gone(".git/hooks/post-checkout"),
            gone(".GIT/hooks/post-checkout"),
            gone("link/hooks/post-merge"),
            gone(&absolute),
            gone(".agent/config.toml"),
            json!({"what": "folder", "path": ".git/branches"}),
            made("kept.txt"),
            gone("old.sh"),
        ],
    );
    let done = test.agent(&["session", "undo"]).expect_code(1);
    let refused = done.stdout.lines().filter(|line| line.contains("is not to be changed"));
    assert_eq!(refused.count(), 8, "{}", done.stdout);
    // The rest goes on.
    assert!(done.stdout.contains("kept.txt: removed"), "{}", done.stdout);
    assert_eq!(test.read("old.sh"), EVIL);
    for path in [".git/HEAD", "sub/.git/config", "sub/.agent/config.toml"] {
        assert_eq!(test.read(path), EVIL, "{path}");
    }
    assert!(test.root().join(".git/branches").exists());
    for path in [".git/hooks", ".GIT", ".agent/config.toml"] {
        assert!(!test.root().join(path).exists(), "{path}");
    }
}

#[test]
fn where_the_home_is_the_project_an_undo_leaves_what_runs_there_alone() {
    let test = Test::new();
    let root = test.root();
    let test = test.env("HOME", root.to_str().unwrap());
    let turn = recorded(&test);
    let hash = hash(&turn);
    test.write(".profile", EVIL);
    test.write(".ssh/config", EVIL);
    let before = json!({"file": "0001", "hash": hash});
    let lines = [".bashrc", ".zshrc", ".ssh/authorized_keys", ".config/autostart/x.desktop"]
        .map(|path| json!({"what": "first", "path": path, "before": before, "after": ""}));
    let made = [".profile", ".ssh/config"]
        .map(|path| json!({"what": "first", "path": path, "before": null, "after": hash}));
    forge(&turn, &[&lines[..], &made[..]].concat());
    let done = test.agent(&["session", "undo"]).expect_code(1);
    assert_eq!(done.stdout.matches("left as it is").count(), 6, "{}", done.stdout);
    assert_eq!((test.read(".profile").as_str(), test.read(".ssh/config").as_str()), (EVIL, EVIL));
    for path in [".bashrc", ".zshrc", ".ssh/authorized_keys", ".config/autostart"] {
        assert!(!root.join(path).exists(), "{path}");
    }
}

#[test]
fn an_undo_makes_no_file_that_runs_with_its_owners_rights() {
    let test = Test::new();
    let turn = recorded(&test);
    let before = json!({"file": "0001", "hash": hash(&turn)});
    forge(&turn, &[json!({"what": "first", "path": "tool", "before": before, "after": ""})]);
    fs::set_permissions(turn.join("0001"), fs::Permissions::from_mode(0o6751)).unwrap();
    test.agent(&["session", "undo"]).expect_code(0);
    let mode = fs::metadata(test.root().join("tool")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o751);
}

