//! Whatever a command does with small files, an undo restores the tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use crate::properties::for_all;
use crate::support::{Test, say};

/// What a command does to the project; paths are indexes of [`PATHS`].
#[derive(Clone, Debug)]
enum Deed {
    Write(usize, u8),
    Append(usize, u8),
    Remove(usize),
    Move(usize, usize),
    Ignore(&'static str),
    Track(usize),
}

const PATHS: &[&str] = &[
    "a",
    "b",
    "docs/a",
    "docs/sub/b",
    "data/a",
    "data/sub/b",
    "data/c",
    ".env",
    "src/.env",
    "src/a",
    "node_modules/m",
    ".gitignore",
    "docs",
    "data",
    "src",
];

/// Every path below the root but `.git`, with its content.
fn tree(root: &Path) -> BTreeSet<(String, Option<String>)> {
    let mut found = BTreeSet::new();
    let mut todo = vec![root.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            match fs::read_to_string(&path) {
                _ if name == ".git" => {}
                Ok(text) => drop(found.insert((name, Some(text)))),
                Err(_) => {
                    found.insert((name, None));
                    todo.push(path);
                }
            }
        }
    }
    found
}

/// Whatever a command does with small files, an undo restores the tree, and a redo does it again. What moved out of
/// build output stays: no content is lost.
#[test]
fn undo_and_redo_restore_the_tree() {
    let path = 0..PATHS.len();
    let deed = prop_oneof![
        3 => (path.clone(), any::<u8>()).prop_map(|(path, text)| Deed::Write(path, text)),
        2 => (path.clone(), any::<u8>()).prop_map(|(path, text)| Deed::Append(path, text)),
        3 => path.clone().prop_map(Deed::Remove),
        3 => (path.clone(), path.clone()).prop_map(|(from, to)| Deed::Move(from, to)),
        1 => select(vec!["docs/", "data/", "*.env", "src", "!data/a", "sub"]).prop_map(Deed::Ignore),
        1 => path.prop_map(Deed::Track),
    ];
    let before = prop::collection::vec(deed.clone(), 4..16);
    let has_git = Command::new("git").arg("--version").output().is_ok();
    if !has_git {
        say("SKIPPED: tracked files: there is no git");
    }
    let mut n = 0;
    for_all(60, (before, prop::collection::vec(deed, 1..8)), |(before, command)| {
        n += 1;
        let test = Test::in_memory().file(".gitignore", "data/\nnode_modules/\n");
        let root = test.root();
        let text = |of: u8| format!("{n} {of}\n");
        let shell = |deed: &Deed| {
            let of = |path: usize| PATHS[path];
            let line = match deed {
                Deed::Write(path, text_of) => {
                    let (path, text) = (of(*path), text(*text_of));
                    format!("mkdir -p $(dirname {path}) && printf '{text}' > {path}")
                }
                Deed::Append(path, text_of) => {
                    format!("printf '{}' >> {}", text(*text_of), of(*path))
                }
                Deed::Remove(path) => format!("rm -r {}", of(*path)),
                Deed::Move(from, to) => format!("mv {} {}", of(*from), of(*to)),
                Deed::Ignore(pattern) => format!("echo '{pattern}' >> .gitignore"),
                Deed::Track(path) if has_git => format!("git add -f {}", of(*path)),
                Deed::Track(_) => "true".to_owned(),
            };
            format!("{{ {line}; }} 2>/dev/null")
        };
        let lines = |deeds: &[Deed]| deeds.iter().map(shell).collect::<Vec<_>>().join("; ");
        let bash = |line: &str| {
            _ = Command::new("bash").args(["-c", line]).current_dir(&root).output().unwrap();
        };
        bash(if has_git { "git init -q && git add -A" } else { "true" });
        bash(&lines(&before));
        let begun = tree(&root);
        let call = json!({"command": format!("{}; true", lines(&command))});
        let test = test.script(&format!("call: Bash {call}\n---\ntext: done"));
        test.run(&["task", "--yolo", "--set", "sandbox.enabled=false"]).expect_code(0);
        let done = tree(&root);
        let undone = test.agent(&["session", "undo"]);
        let now = tree(&root);
        let told = format!("{before:?}\n{command:?}\n{}{}", undone.stdout, undone.stderr);
        // Build output is not covered, and what was moved out of it is named.
        let covered = |tree: &BTreeSet<(String, Option<String>)>| -> BTreeSet<_> {
            let is_covered = |(path, _): &&(String, Option<String>)| !path.contains("node_modules");
            tree.iter().filter(is_covered).cloned().collect()
        };
        if undone.stdout.contains("without checkpoints") {
            let texts = |tree: &BTreeSet<(String, Option<String>)>| -> BTreeSet<String> {
                tree.iter().filter_map(|(_, text)| text.clone()).collect()
            };
            let lost: Vec<_> = texts(&done).difference(&texts(&now)).cloned().collect();
            let lost: Vec<_> = lost.into_iter().filter(|it| texts(&begun).contains(it)).collect();
            assert!(lost.is_empty(), "{lost:?}\n{told}");
            return;
        }
        assert_eq!(covered(&now), covered(&begun), "{told}");
        if covered(&begun) != covered(&done) {
            test.agent(&["session", "undo", "--redo"]).expect_code(0);
            assert_eq!(covered(&tree(&root)), covered(&done), "{told}");
        }
    });
}
