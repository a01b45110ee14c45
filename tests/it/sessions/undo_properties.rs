//! Whatever a command does with small files, an undo restores the tree and keeps what the user changed since.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use crate::files::properties::for_all;
use crate::support::{Done, Test, say};

/// What is done to the project; paths are indexes of [`PATHS`].
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

fn deed() -> impl Strategy<Value = Deed> + Clone {
    let path = 0..PATHS.len();
    let both = (path.clone(), path.clone());
    let patterns = vec!["docs/", "data/", "*.env", "src", "!data/a", "sub"];
    prop_oneof![
        3 => (path.clone(), any::<u8>()).prop_map(|(path, text)| Deed::Write(path, text)),
        2 => (path.clone(), any::<u8>()).prop_map(|(path, text)| Deed::Append(path, text)),
        3 => path.clone().prop_map(Deed::Remove),
        3 => both.prop_map(|(from, to)| Deed::Move(from, to)),
        1 => select(patterns).prop_map(Deed::Ignore),
        1 => path.prop_map(Deed::Track),
    ]
}

fn deeds(n: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Deed>> {
    prop::collection::vec(deed(), n)
}

/// A line that does all of this, as far as it is possible. Texts begin with `mark`.
fn line(deeds: &[Deed], mark: &str, has_git: bool) -> String {
    let one = |deed: &Deed| {
        let line = match deed {
            Deed::Write(path, text) => {
                let path = PATHS[*path];
                format!("mkdir -p $(dirname {path}) && printf '{mark} {text}\\n' > {path}")
            }
            Deed::Append(path, text) => format!("printf '{mark} {text}\\n' >> {}", PATHS[*path]),
            Deed::Remove(path) => format!("rm -r {}", PATHS[*path]),
            Deed::Move(from, to) => format!("mv {} {}", PATHS[*from], PATHS[*to]),
            Deed::Ignore(pattern) => format!("echo '{pattern}' >> .gitignore"),
            Deed::Track(path) if has_git => format!("git add -f {}", PATHS[*path]),
            Deed::Track(_) => "true".to_owned(),
        };
        format!("{{ {line}; }} 2>/dev/null")
    };
    deeds.iter().map(one).chain(["true".to_owned()]).collect::<Vec<_>>().join("; ")
}

/// Every path below the root but `.git`, with the content of a file.
type Tree = BTreeMap<String, Option<String>>;

fn tree(root: &Path) -> Tree {
    let mut found = Tree::new();
    let mut todo = vec![root.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            let text = fs::read_to_string(&path).ok();
            if name == ".git" {
                continue;
            }
            if text.is_none() {
                todo.push(path);
            }
            found.insert(name, text);
        }
    }
    found
}

/// A project, a command, and what the user did before and after it.
struct Case {
    test: Test,
    begun: Tree,
    /// After the command.
    done: Tree,
    /// After the user's changes.
    left: Tree,
    undone: Done,
}

impl Case {
    fn new(n: usize, [before, command, after]: [&[Deed]; 3], has_git: bool) -> Self {
        let test = Test::in_memory().file(".gitignore", "data/\nnode_modules/\n");
        let root = test.root();
        let bash = |line: &str| {
            _ = Command::new("bash").args(["-c", line]).current_dir(&root).output().unwrap();
        };
        bash(if has_git { "git init -q && git add -A" } else { "true" });
        bash(&line(before, &format!("{n} before"), has_git));
        let begun = tree(&root);
        let call = json!({"command": line(command, &format!("{n} command"), has_git)});
        let test = test.script(&format!("call: Bash {call}\n---\ntext: done"));
        test.run(&["task", "--yolo", "--set", "sandbox.enabled=false"]).expect_code(0);
        let done = tree(&root);
        bash(&line(after, &format!("{n} after"), has_git));
        let left = tree(&root);
        let undone = test.agent(&["session", "undo"]);
        Self { test, begun, done, left, undone }
    }

    fn now(&self) -> Tree {
        tree(&self.test.root())
    }
}

fn has_git() -> bool {
    let has_git = Command::new("git").arg("--version").output().is_ok();
    if !has_git {
        say("SKIPPED: tracked files: there is no git");
    }
    has_git
}

/// The part of a tree that checkpoints cover.
fn covered(mut tree: Tree) -> Tree {
    tree.retain(|path, _| !path.contains("node_modules"));
    tree
}

fn texts(tree: &Tree) -> Vec<&String> {
    tree.values().flatten().collect()
}

#[test]
fn undo_and_redo_restore_the_tree() {
    let (mut n, has_git) = (0, has_git());
    for_all(60, (deeds(4..16), deeds(1..8)), |(before, command)| {
        n += 1;
        let case = Case::new(n, [&before, &command, &[]], has_git);
        let Case { test, begun, done, undone, .. } = &case;
        let (now, told) = (case.now(), format!("{before:?}\n{command:?}\n{}", undone.stdout));
        if undone.stdout.contains("without checkpoints") {
            // What was moved out of build output is left, so that nothing is lost.
            let is_lost =
                |text: &&String| texts(begun).contains(text) && !texts(&now).contains(text);
            assert_eq!(texts(done).into_iter().find(is_lost), None, "{told}");
            return;
        }
        let [begun, done] = [begun, done].map(|tree| covered(tree.clone()));
        assert_eq!(covered(now), begun, "{told}");
        if begun != done {
            test.agent(&["session", "undo", "--redo"]).expect_code(0);
            assert_eq!(covered(case.now()), done, "{told}");
        }
    });
}

#[test]
fn undo_keeps_what_the_user_changed_since() {
    let (mut n, has_git) = (0, has_git());
    for_all(60, (deeds(4..12), deeds(1..8), deeds(1..6)), |(before, command, after)| {
        n += 1;
        let case = Case::new(n, [&before, &command, &after], has_git);
        let Case { done, left, undone, .. } = &case;
        let told = format!("{before:?}\n{command:?}\n{after:?}\n{}", undone.stdout);
        let now = case.now();
        for (path, text) in left.iter().filter(|(_, text)| text.is_some()) {
            // (With the content from before the command it may be restored to that.)
            let is_changed = done.get(path) != Some(text) && case.begun.get(path) != Some(text);
            assert!(!is_changed || now.get(path) == Some(text), "{path}\n{told}");
        }
    });
}
