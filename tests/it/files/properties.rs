//! Properties that hold for every file and every tree.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use crate::support::batch::{Project, text};
use crate::support::{Test, say};

/// Calls `check` with `n` values, the same ones each time; `AGENT_PROPERTIES` multiplies the
/// number.
pub(crate) fn for_all<T: std::fmt::Debug>(
    n: usize,
    strategy: impl Strategy<Value = T>,
    mut check: impl FnMut(T),
) {
    let times = std::env::var("AGENT_PROPERTIES").ok().and_then(|times| times.parse().ok());
    let mut runner = TestRunner::deterministic();
    for _ in 0..n * times.unwrap_or(1) {
        check(strategy.new_tree(&mut runner).unwrap().current());
    }
}

/// Encodes a text in an encoding that has all its characters.
fn encoded(text: &str, encoding: usize) -> Vec<u8> {
    let units = |order: fn(u16) -> [u8; 2]| {
        std::iter::once(0xFEFF).chain(text.encode_utf16()).flat_map(order).collect()
    };
    match encoding {
        0 => text.as_bytes().to_vec(),
        1 => format!("\u{FEFF}{text}").into_bytes(),
        2 => units(u16::to_le_bytes),
        _ => units(u16::to_be_bytes),
    }
}

#[test]
fn an_edit_and_its_inverse_restore_the_bytes() {
    let line = "[a-cä中\u{1F600} \t]{0,6}";
    let ends = prop_oneof![
        3 => select(vec!["\n", "\r\n", "\r"]).prop_map(|end| vec![end]),
        1 => Just(vec!["\n", "\r\n"]),
    ];
    let file = ends.prop_flat_map(move |ends| {
        let is_uniform = ends.len() == 1;
        (prop::collection::vec((line, select(ends)), 1..12), any::<bool>(), Just(is_uniform))
    });
    let values = (file, 0..4usize, any::<(usize, usize)>(), "[x\n]{0,5}");
    let mut project = Project::of(Test::in_memory());
    let mut n = 0;
    for_all(150, values, |((lines, has_end, is_uniform), encoding, (start, length), new)| {
        let mut raw: String = lines.iter().flat_map(|(line, end)| [line.as_str(), *end]).collect();
        if !has_end {
            raw.truncate(raw.trim_end_matches(['\r', '\n']).len());
        }
        let ending = lines[0].1;
        let plain = if is_uniform { raw.replace(ending, "\n") } else { raw.replace("\r\n", "\n") };
        let start = plain.floor_char_boundary(start % (plain.len() + 1));
        let end = plain.floor_char_boundary(plain.len().min(start + length % 20));
        let old = &plain[start..end];
        // If line ends are mixed, the replaced ones cannot be restored.
        let is_once = plain.find(old) == Some(start) && plain.rfind(old) == Some(start);
        if old.is_empty() || !is_once || (!is_uniform && (old.contains('\n') || new.contains('\n')))
        {
            return;
        }
        // (The only line end must stay, as it determines the style.)
        let ends_outside = plain.matches('\n').count() - old.matches('\n').count();
        if ending != "\n" && ends_outside == 0 && (old.contains('\n') || new.contains('\n')) {
            return;
        }
        let bytes = encoded(&raw, encoding);
        let path = format!("f{n}");
        n += 1;
        project.test.write(&path, &bytes);
        project.call("Read", &json!({"path": path}));
        let new = format!("<{new}>");
        let edit = json!({"path": path, "old_string": old, "new_string": new});
        project.ok("Edit", &edit);
        let new_plain = format!("{}{new}{}", &plain[..start], &plain[end..]);
        if is_uniform {
            let expected = encoded(&new_plain.replace('\n', ending), encoding);
            assert_eq!(project.bytes(&path), expected, "{edit} in {raw:?}");
        }
        project.ok("Edit", &json!({"path": path, "old_string": new, "new_string": old}));
        assert_eq!(project.bytes(&path), bytes, "{edit} in {raw:?}");
    });
    assert!(n > 50, "only {n} cases");
}

#[test]
fn multi_edit_does_not_depend_on_the_order_of_edits() {
    let order = Just((0..8usize).collect::<Vec<_>>());
    let values = (
        prop::collection::vec(("<[a-h]>", "[ .\n]{0,4}"), 8..20),
        prop::collection::vec("[x-z\n]{0,6}", 8),
        (order.clone().prop_shuffle(), order.prop_shuffle(), 1..8usize),
        select(vec!["\n", "\r\n"]),
    );
    let mut project = Project::of(Test::in_memory());
    let mut n = 0;
    for_all(40, values, |(parts, new, (one, other, n_edits), end)| {
        let raw: String = parts.iter().flat_map(|(mark, rest)| [mark.as_str(), rest]).collect();
        // Each edit replaces all occurrences of its mark, so edits do not overlap.
        let edit = |index: usize| {
            let mark = format!("<{}>", char::from(b'a' + u8::try_from(index).unwrap()));
            raw.contains(&mark)
                .then(|| json!({"old_string": mark, "new_string": new[index], "replace_all": true}))
        };
        let together: Vec<Value> = one[..n_edits].iter().filter_map(|index| edit(*index)).collect();
        if together.is_empty() {
            return;
        }
        let singly = other.iter().filter(|index| one[..n_edits].contains(index));
        let singly: Vec<Value> = singly.filter_map(|index| edit(*index)).collect();
        n += 1;
        let (a, b) = (format!("a{n}"), format!("b{n}"));
        for path in [&a, &b] {
            project.test.write(path, format!("{raw}\n").replace('\n', end));
            project.ok("Read", &json!({"path": path}));
        }
        project.ok("MultiEdit", &json!({"path": a, "edits": together}));
        for mut edit in singly {
            edit["path"] = json!(b);
            project.ok("Edit", &edit);
        }
        assert_eq!(project.test.read(&a), project.test.read(&b), "{together:?} of {raw:?}");
    });
    assert!(n > 20, "only {n} cases");
}

#[test]
fn pages_of_a_file_concatenate_to_the_file() {
    let values = (
        prop::collection::vec("[a-cä中|\t ]{0,30}", 1..60),
        select(vec!["\n", "\r\n", "\r"]),
        any::<bool>(),
        0..4usize,
        1..20u64,
    );
    let mut project = Project::of(Test::in_memory());
    let mut n = 0;
    for_all(60, values, |(lines, end, has_end, encoding, limit)| {
        let mut raw = lines.join(end);
        if has_end || raw.is_empty() {
            raw.push_str(end);
        }
        let mut expected: Vec<&str> = raw.split(end).collect();
        expected.truncate(expected.len() - usize::from(raw.ends_with(end)));
        let path = format!("f{n}");
        n += 1;
        project.test.write(&path, encoded(&raw, encoding));
        let (mut start, mut met) = (1, Vec::new());
        loop {
            let input = json!({"path": path, "start_line": start, "limit": limit});
            let page = project.call("Read", &input);
            for (line, number) in text(&page, "/data/content").split('\n').zip(start..) {
                met.push(line.strip_prefix(&format!("{number} | ")).unwrap().to_owned());
            }
            if page["data"]["end_line"] == page["data"]["total_lines"] {
                break;
            }
            start = page["data"]["end_line"].as_u64().unwrap() + 1;
        }
        assert_eq!(met, expected, "{raw:?}, {limit} lines a page");
    });
}

/// Files and ignore files of a tree.
#[derive(Clone, Debug)]
struct Tree {
    files: Vec<(Vec<&'static str>, String)>,
    ignores: Vec<(Vec<&'static str>, &'static str, Vec<&'static str>)>,
}

fn tree() -> impl Strategy<Value = Tree> {
    let folder = || prop::collection::vec(select(vec!["a", "b", "lib", ".h", "x y"]), 0..3);
    let name = select(vec!["a", "c.rs", "d.md", ".e", "F.RS", "x y", "-g", "lib", "h.rs.md"]);
    let content = "([ab]{0,3}[c ]{0,2}(\n|\r\n)){0,6}[ab]?";
    let file = (folder(), name, content).prop_map(|(mut path, name, content)| {
        path.push(name);
        (path, content)
    });
    let rules = vec![
        "*.rs", "/a", "b/", "!c.rs", "lib/**", "# x", "*.md", "a/*", "!a/d.md", "x\\ y", "[ab]",
        "**/lib", "",
    ];
    let ignore = (folder(), select(vec![".gitignore", ".ignore"]), subsequence(rules, 0..4));
    (prop::collection::vec(file, 1..25), prop::collection::vec(ignore, 0..4))
        .prop_map(|(files, ignores)| Tree { files, ignores })
}

impl Tree {
    fn plant(&self) -> Project {
        let test = Test::in_memory();
        // Older versions ignore .gitignore outside a git repository.
        fs::create_dir(test.root().join(".git")).unwrap();
        let write = |folder: &[&str], name: &str, text: &str| {
            let folder = test.root().join(folder.join("/"));
            // A path that is already a file cannot be a directory, and vice versa.
            if fs::create_dir_all(&folder).is_ok() {
                _ = fs::write(folder.join(name), text);
            }
        };
        for (path, text) in &self.files {
            let (name, folder) = path.split_last().unwrap();
            write(folder, name, text);
        }
        for (folder, name, rules) in &self.ignores {
            write(folder, name, &rules.join("\n"));
        }
        Project::of(test)
    }
}

/// The output lines of another program, or `None` if it is not installed.
fn other(project: &Project, program: &str, args: &[&str]) -> Option<BTreeSet<String>> {
    let mut command = Command::new(program);
    command.args(args).current_dir(project.test.root()).env("HOME", project.test.home());
    command.env_remove("XDG_CONFIG_HOME").env_remove("RIPGREP_CONFIG_PATH");
    let output = command.output().ok()?;
    // (fd refuses to search for a leading dot without hidden files, and finds none.)
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.is_empty() || said.contains("--hidden to search"), "{command:?}: {said}");
    let text = String::from_utf8(output.stdout).unwrap();
    Some(text.lines().map(str::to_owned).collect())
}

/// Flags for hidden and ignored files: our input, and the arguments of the two programs.
fn rules(hidden: bool, ignored: bool) -> (Value, Vec<&'static str>) {
    let mut flags = vec!["--no-ignore-parent"];
    flags.extend(hidden.then_some("--hidden"));
    flags.extend(ignored.then_some("--no-ignore"));
    (json!({"include_hidden": hidden, "include_ignored": ignored}), flags)
}

#[test]
#[ignore = "slow"]
fn grep_finds_what_rg_finds() {
    let pattern = select(vec![
        "a", "b+", "^a", "a$", "A", "c$", "^$", "a|bb", "[^a]", "\\bab\\b", "ab*c", "a ", "(a)(b)?",
    ]);
    let values = (tree(), pattern, any::<[bool; 4]>());
    let mut is_missing = false;
    for_all(60, values, |(tree, pattern, [hidden, ignored, case, fixed])| {
        if is_missing {
            return;
        }
        let mut project = tree.plant();
        let (mut input, mut flags) = rules(hidden, ignored);
        flags.extend([
            "--no-config",
            "--no-heading",
            "--with-filename",
            "--line-number",
            "--crlf",
            "--color=never",
        ]);
        flags.extend((!case).then_some("--ignore-case"));
        flags.extend(fixed.then_some("--fixed-strings"));
        flags.extend(["-e", pattern, "./"]);
        let Some(theirs) = other(&project, "rg", &flags) else {
            is_missing = true;
            say("SKIPPED: grep_finds_what_rg_finds: there is no rg here");
            return;
        };
        input["pattern"] = json!(pattern);
        input["limit"] = json!(1000);
        input["case_sensitive"] = json!(case);
        input["fixed_string"] = json!(fixed);
        let found = project.ok("Grep", &input);
        let rows = found["data"]["matches"].as_array().unwrap().iter();
        let ours: BTreeSet<String> = rows
            .map(|row| format!("./{}:{}:{}", text(row, "/file"), row["line"], text(row, "/text")))
            .collect();
        let theirs: BTreeSet<String> =
            theirs.into_iter().map(|line| line.trim_end_matches('\r').to_owned()).collect();
        assert_eq!(ours, theirs, "{input} in {tree:?}");
    });
}

#[test]
#[ignore = "slow"]
fn glob_finds_what_fd_finds() {
    let programs = ["fdfind", "fd"];
    let program = programs.into_iter().find(|name| {
        Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
    });
    let Some(program) = program else {
        say("SKIPPED: glob_finds_what_fd_finds: there is no fd here");
        return;
    };
    let pattern = select(vec![
        "*",
        "*.rs",
        "?.*",
        "[a-c]*",
        "{a,-g}",
        "*.{rs,md}",
        "x y",
        ".*",
        "*.*.*",
        "[!a]*",
        "**",
    ]);
    let folder = select(vec!["", "", "a/", "*/", "**/", "a/**/", "{a,b}/"]);
    let values = (tree(), folder, pattern, any::<[bool; 2]>());
    for_all(80, values, |(tree, folder, pattern, [hidden, ignored])| {
        let mut project = tree.plant();
        let (mut input, mut flags) = rules(hidden, ignored);
        flags.extend([
            "--type=file",
            "--case-sensitive",
            "--color=never",
            "--strip-cwd-prefix",
            "--glob",
        ]);
        let whole = format!("{}/{folder}{pattern}", project.test.root().display());
        // Without a slash, the pattern matches the file name.
        flags.extend(if folder.is_empty() { ["--", pattern] } else { ["--full-path", &whole] });
        let theirs = other(&project, program, &flags).unwrap();
        input["pattern"] = json!(format!("{folder}{pattern}"));
        input["limit"] = json!(200);
        let found = project.ok("Glob", &input);
        let ours = found["data"]["paths"].as_array().unwrap().iter();
        let ours: BTreeSet<String> = ours.map(|path| path.as_str().unwrap().to_owned()).collect();
        assert_eq!(ours, theirs, "{input} in {tree:?}");
    });
}
