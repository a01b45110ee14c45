//! File tools and undo do not change git repositories, whatever their directory is called: the next
//! `git status` of the user would run programs named in their settings and hooks.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{places, write};
use crate::support::{Test, has};

/// Repository layouts without a `.git` directory, and a path that leads to the repository.
const LAYOUTS: &[(&str, &str)] = &[
    ("git init -q --bare .bare; echo 'gitdir: ./.bare' > .git", ".bare/"),
    ("git init -q --bare .bare; echo 'gitdir: ./.bare' > .git; ln -s .bare way", "way/"),
    (
        "git init -q --bare project.git; mkdir -p project.git/worktrees/main main; echo 'gitdir: ../project.git/worktrees/main' > main/.git",
        "project.git/",
    ),
    // A nested `.git` does not change what the directory is.
    (
        "git init -q --bare project.git; cd project.git; mkdir -p {.,hooks,objects,refs,logs,worktrees}/.git",
        "project.git/",
    ),
    ("git init -q --separate-git-dir gitdata .", "gitdata/"),
    ("git init -q; mv .git repo.git; ln -s repo.git .git", "repo.git/"),
    ("git init -q; mv .git repo.git; ln -s repo.git .git", ".git/"),
    ("git init -q; mv .git repo.git; ln -s repo.git .git; ln -s .git way", "way/"),
    // A directory without HEAD is protected if `.git` points to it.
    ("git init -q; rm .git/HEAD; mv .git store; ln -s store .git", ".git/"),
    ("git init -q --bare .", ""),
    (
        "git init -q --bare .; mkdir -p worktrees/main main; echo 'gitdir: ../worktrees/main' > main/.git",
        "",
    ),
    ("git init -q --bare --ref-format=reftable x || git init -q --bare x", "x/"),
    ("git init -q --bare deep; mkdir -p a/b/c; mv deep a/b/c/d", "a/b/c/d/"),
    ("git init -q --bare x; echo '[core]' > x/config; ln -sf refs/heads/none x/HEAD", "x/"),
    (
        "git init -q --bare x; echo '[core]' > x/config; printf 'ref:\\t refs/heads/a' > x/HEAD",
        "x/",
    ),
    ("git init -q --bare x; echo '[core]' > x/config; printf %040d 0 > x/HEAD", "x/"),
    ("git init -q --bare x; echo '[core]' > x/config; printf %064d 0 > x/HEAD", "x/"),
    (
        "git init -q --bare x; echo '[core]' > x/config; (echo ref: refs/heads/a; head -c 5000000 /dev/zero) > x/HEAD",
        "x/",
    ),
    // A command has removed its HEAD and could restore it.
    ("git init -q --bare x; rm x/HEAD", "x/"),
    ("git init -q --bare x; rm x/HEAD; mkfifo x/HEAD", "x/"),
    // The git directory of a worktree whose repository is elsewhere.
    (
        "mkdir tree; echo 'ref: refs/heads/a' > tree/HEAD; echo /x > tree/commondir; touch tree/config",
        "tree/",
    ),
];

/// Names in a git directory that a project may also have.
const PARTS: &[&str] = &["config", "hooks/x", "objects/x", "HEAD"];

fn bash(at: &Path, line: &str) -> String {
    let mut command = Command::new("bash");
    let done = command.args(["-ec", line]).current_dir(at).env("HOME", at).output().unwrap();
    assert!(done.status.success(), "{line}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// Checksums of every file below a directory.
fn content(at: &Path) -> String {
    bash(at, "find . -type f -print0 | sort -z | xargs -0r sha256sum")
}

fn edit(path: &str, old: &str) -> Value {
    json!({"path": path, "old_string": old, "new_string": "fsmonitor = ./x\n"})
}

#[track_caller]
fn expect_belongs_to_git(answer: &Value, told: &str) {
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(answer["error"]["code"], "ACCESS_DENIED", "{told}: {answer}");
    assert!(message.ends_with("it belongs to git; use git commands"), "{told}: {answer}");
}

#[test]
#[ignore = "slow"]
fn git_directories_of_any_name_are_protected() {
    if !has("git", "git_directories_of_any_name_are_protected") {
        return;
    }
    for (make, at) in LAYOUTS {
        let test = Test::new();
        bash(&test.root(), make);
        let of = |name: &str| format!("{at}{name}");
        // (`git worktree add --detach .bare/rebase-merge` creates such a directory.)
        for folder in ["rebase-merge", "modules", "hooks", "info"] {
            let folder = test.root().join(of(folder));
            fs::create_dir_all(&folder).unwrap();
            // (One layout already has it.)
            let place = folder.join(".git");
            if !place.exists() {
                fs::write(place, "gitdir: x\n").unwrap();
            }
        }
        let before = content(&test.root());
        let names = [
            "config",
            "config.lock",
            "Config.worktree",
            "hooks/pre-commit",
            "hooks/a/b",
            "HEAD",
            "info/attributes",
            "objects/info/alternates",
            "worktrees/a/commondir",
            "FETCH_HEAD",
            "modules/a/hooks/update",
            "remotes/origin",
            "annex/x",
            "COMMIT_EDITMSG",
            "BISECT_LOG",
            "sharedindex.a",
            "rebase-merge/git-rebase-todo",
        ];
        for name in names {
            let write = json!({"path": of(name), "content": "x"});
            expect_belongs_to_git(&test.call("Write", &write), &format!("{make}: {name}"));
        }
        let edits = json!([{"old_string": "[core]", "new_string": "x"}]);
        let calls = [
            ("Read", json!({"path": of("config")})),
            ("Edit", edit(&of("config"), "[core]")),
            ("MultiEdit", json!({"path": of("config"), "edits": edits})),
        ];
        let answers = test.batch(&calls);
        assert_eq!(answers[0]["status"], "success", "{make}: {}", answers[0]);
        answers[1..].iter().for_each(|answer| expect_belongs_to_git(answer, make));
        assert_eq!(content(&test.root()), before, "{make}");
    }
}

/// A `.git` file behind a symlink that names the git directory.
#[test]
fn gitfile_behind_a_symlink_is_protected() {
    let test = Test::new().file("dotgit", "gitdir: ./store\n").file("other", "");
    std::os::unix::fs::symlink("dotgit", test.root().join(".git")).unwrap();
    for path in [".git", "dotgit"] {
        let answers = test.batch(&[
            ("Read", json!({"path": path})),
            ("Edit", edit(path, "./store")),
            ("Write", json!({"path": path, "content": "gitdir: ./x\n"})),
        ]);
        answers[1..].iter().for_each(|answer| expect_belongs_to_git(answer, path));
    }
    let answer = test.call("Write", &json!({"path": "other", "content": "x"}));
    assert_eq!(answer["status"], "success", "{answer}");
}

#[test]
fn worktrees_and_files_beside_a_git_directory_are_writable() {
    if !has("git", "worktrees_and_files_beside_a_git_directory_are_writable") {
        return;
    }
    let commit = "git -c user.email=a@b -c user.name=a commit -q --allow-empty -m x";
    let clone =
        format!("git init -q one; (cd one; {commit}); git clone -q --bare one p.git; rm -rf one");
    let trees = ["main", "heads/a", "branches/x", "modules/a/b", "lfs/y"]
        .map(|tree| format!("git worktree add -q {tree}"))
        .join(";");
    let tree = format!("{clone}; cd p.git; {trees}");
    let sub = format!(
        "{clone}; git init -q; git -c protocol.file.allow=always submodule --quiet add ./p.git sub; rm -rf p.git"
    );
    let around = "git init -q --bare .bare; echo 'gitdir: ./.bare' > .git";
    let lookalike = "git init -q; mkdir -p objects refs HEAD hooks info; touch config";
    for (make, paths) in [
        (
            tree.as_str(),
            &[
                "p.git/main/src/x",
                "p.git/main/config",
                "p.git/heads/a/hooks/x",
                "p.git/branches/x/src/x",
                "p.git/branches/x/HEAD",
                "p.git/modules/a/b/config",
                "p.git/lfs/y/objects/x",
                "p.git/README",
                "p.git/Cargo.lock",
            ][..],
        ),
        (&sub, &["sub/src/x", "sub/config", "sub/HEAD", "config"]),
        (around, &["config", "hooks/x", "src/info/x", ".bare/README.md", ".bare-notes/config"]),
        (lookalike, &["config", "hooks/x", "objects/a.rs", "refs/b.rs", "HEAD/c.rs", "info/d"]),
        // Created piece by piece, it is a fixture.
        ("git init -q; mkdir -p x/objects x/refs", &["x/config", "x/hooks/pre-commit"]),
        ("git init -q; touch x HEAD commondir.rs objects refs", &["config", "index", "HEAD"]),
        ("mkdir objects refs; echo 'the head of it' > HEAD; echo a > config", PARTS),
        ("mkdir objects refs; echo 'ref: heads/a' > HEAD; echo /x > commondir", PARTS),
        ("mkdir objects refs; printf %039d 0 > HEAD", PARTS),
        ("mkdir objects refs; mkfifo HEAD config", PARTS),
    ] {
        let test = Test::new();
        bash(&test.root(), make);
        for path in paths {
            let calls = [
                ("Write", json!({"path": path, "content": "one\n"})),
                ("Edit", json!({"path": path, "old_string": "one", "new_string": "two"})),
            ];
            if test.root().join(path).exists() {
                fs::remove_file(test.root().join(path)).unwrap();
            }
            for answer in test.batch(&calls) {
                assert_eq!(answer["status"], "success", "{make}: {path}: {answer}");
            }
            assert_eq!(test.read(path), "two\n", "{make}");
        }
    }
    let test = Test::new().file("x/objects/a", "").file("x/refs/a", "");
    let answer = test.call("Write", &json!({"path": "x/HEAD", "content": "ref: refs/heads/a"}));
    assert_eq!(answer["status"], "success", "{answer}");
}

/// A directory that is not a registered worktree belongs to git, and so does worktree metadata.
#[test]
fn worktree_inside_a_git_directory_unprotects_nothing_else() {
    if !has("git", "worktree_inside_a_git_directory_unprotects_nothing_else") {
        return;
    }
    let test = Test::new();
    bash(
        &test.root(),
        "git init -q --bare p.git; cd p.git; mkdir -p branches/x modules; echo 'gitdir: ../../worktrees/x' > branches/x/.git; git init -q --bare modules/m; mkdir modules/m/.git",
    );
    for path in [
        "branches/y",
        "branches/x.lock",
        "modules/a/config",
        "modules/m/config",
        "modules/m/hooks/update",
        "worktrees/x/gitdir",
        "hooks/update",
    ] {
        let write = json!({"path": format!("p.git/{path}"), "content": "x"});
        expect_belongs_to_git(&test.call("Write", &write), path);
    }
    let answer = test.call("Write", &json!({"path": "p.git/branches/x/y", "content": "x"}));
    assert_eq!(answer["status"], "success", "{answer}");
}

/// Otherwise someone who writes a fixture would look for a workaround.
#[test]
fn fixture_repository_error_has_a_hint() {
    if !has("git", "fixture_repository_error_has_a_hint") {
        return;
    }
    let test = Test::new();
    bash(&test.root(), "git init -q; mkdir -p tests; git init -q --bare tests/old.git");
    let write = |path: &str| test.call("Write", &json!({"path": path, "content": "x"}));
    let answer = write("tests/old.git/config");
    expect_belongs_to_git(&answer, "fixture");
    assert_eq!(
        answer["error"]["hint"],
        "the folder tests/old.git looks like a git repository; if it is a fixture, use a command to change it, or ask the user"
    );
    let answer = write(".git/config");
    expect_belongs_to_git(&answer, ".git");
    assert_eq!(answer["error"]["hint"], "leave it as it is, or use another path");
}

/// No hint suggests a tool that would be refused; the line runs, and the sandbox enforces what it
/// can.
#[test]
#[ignore = "slow"]
fn no_file_tool_is_suggested_for_git_files() {
    if !has("git", "no_file_tool_is_suggested_for_git_files") {
        return;
    }
    for make in ["git init -q", LAYOUTS[0].0] {
        let config = if make == "git init -q" { ".git/config" } else { ".bare/config" };
        for place in places() {
            let root = place.test.root();
            bash(&root, make);
            write(&root.join("a.txt"), "a\n");
            let before = fs::read(root.join(config)).unwrap();
            for more in ["", "; true"] {
                for line in [
                    format!("echo x >> {config}{more}"),
                    format!("sed -i s/core/x/ {config}{more}"),
                    format!("echo x | tee {config}{more}"),
                    format!("> {config}{more}"),
                ] {
                    let answer = place.call(&json!({"command": line}));
                    let told = answer["text"].as_str().unwrap_or_default();
                    assert!(!told.contains("Edit {") && !told.contains("Write {"), "{answer}");
                    if place.backend == "namespaces" {
                        let text = answer.to_string();
                        assert!(text.contains("Read-only") || text.contains("busy"), "{answer}");
                        assert_eq!(fs::read(root.join(config)).unwrap(), before, "{answer}");
                    }
                    fs::write(root.join(config), &before).unwrap();
                }
            }
        }
    }
}
