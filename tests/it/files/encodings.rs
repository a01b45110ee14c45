//! Unusual file names, encodings, links and trees.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, Mode, OFlags};
use serde_json::{Value, json};

use crate::support::Test;
use crate::support::batch::{Project, says, text};

/// The strings of a JSON array.
fn strings(list: &Value) -> BTreeSet<String> {
    list.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
}

#[test]
fn listed_file_names_can_be_passed_back_to_tools() {
    let names: [&[u8]; 16] = [
        b"with space",
        b" ",
        b"two\nlines",
        b"two\\x0alines",
        b"tab\there",
        b"quo\"te's",
        b"-rf",
        b"--help",
        b"back\\slash",
        b"\\x41",
        b"A",
        b"latin\xE9",
        b"latin\\xe9",
        "\u{FEFF}bom ä 中 \u{1F600} e\u{301}".as_bytes(),
        b"star*[x]{a,b}?",
        b"$HOME;`ls`",
    ];
    let mut project = Project::new(&[]);
    for name in names {
        let text = format!("needle {}\n", String::from_utf8_lossy(name).escape_debug());
        fs::write(project.test.root().join(OsStr::from_bytes(name)), text).unwrap();
    }
    let list = project.ok("LS", &json!({}));
    let listed = list["data"]["entries"].as_array().unwrap().iter();
    let listed: BTreeSet<String> =
        listed.map(|entry| entry["path"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed.len(), names.len(), "each is shown in its own way: {listed:?}");
    let found = project.ok("Glob", &json!({"pattern": "*"}));
    assert_eq!(strings(&found["data"]["paths"]), listed);
    let found = project.ok("Grep", &json!({"pattern": "needle", "output": "files"}));
    assert_eq!(strings(&found["data"]["files"]), listed);
    let mut contents = BTreeSet::new();
    for path in &listed {
        let page = project.ok("Read", &json!({"path": path}));
        assert_eq!(page["context"]["path_resolved"], **path);
        contents.insert(text(&page, "/data/content").to_owned());
        let edit = json!({"path": path, "old_string": "needle", "new_string": "found"});
        let edit = project.ok("Edit", &edit);
        assert_eq!(edit["context"]["path_resolved"], **path);
    }
    assert_eq!(contents.len(), names.len(), "each is another file");
    for name in names {
        let text = fs::read_to_string(project.test.root().join(OsStr::from_bytes(name))).unwrap();
        assert!(text.starts_with("found "), "{text}");
    }
    assert_eq!(project.names(".").len(), names.len());
}

#[test]
fn ten_megabyte_line_is_read_searched_and_edited() {
    let line = format!("{}needle{}", "a".repeat(5_000_000), "ä".repeat(2_500_000));
    let mut project = Project::new(&[("a", &format!("first\n{line}\nlast"))]);
    let page = project.partial("Read", &json!({"path": "a"}));
    let lines: Vec<&str> = text(&page, "/data/content").lines().collect();
    let cut = format!("2 | {}… [cut: 2000 of 7500006 characters]", "a".repeat(2000));
    assert_eq!(lines, ["1 | first", &cut, "3 | last"]);
    let found = project.ok("Grep", &json!({"pattern": "needle"}));
    assert_eq!(text(&found, "/data/matches/0/text").chars().count(), 502);
    let edit = json!({"path": "a", "old_string": "needle", "new_string": "found"});
    let edit = project.ok("Edit", &edit);
    assert!(text(&edit, "/data/diff_preview").len() <= 10 * 1024);
    assert_eq!(edit["data"]["diff_truncated"], true);
    assert_eq!(project.test.read("a"), format!("first\n{}\nlast", line.replace("needle", "found")));
    let wrong = json!({"path": "a", "old_string": "needel", "new_string": "x"});
    project.fails("Edit", &wrong, "NO_MATCH");
}

#[test]
fn directories_nested_beyond_path_max_are_handled() {
    let mut project = Project::new(&[("top.txt", "needle\n")]);
    let name = "d".repeat(200);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut folder = rustix::fs::openat(CWD, project.at("."), flags, Mode::empty()).unwrap();
    let mut path = String::new();
    for depth in 0..30 {
        rustix::fs::mkdirat(&folder, &name, Mode::RWXU).unwrap();
        folder = rustix::fs::openat(&folder, &name, flags, Mode::empty()).unwrap();
        path = format!("{path}{name}/");
        if depth == 9 {
            fs::write(project.at(&format!("{path}deep.txt")), "needle\n").unwrap();
        }
    }
    let create = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    drop(rustix::fs::openat(&folder, "unreachable.txt", create, Mode::RWXU).unwrap());
    let found = project.ok("Grep", &json!({"pattern": "needle", "output": "files"}));
    assert_eq!(found["data"]["files"].as_array().unwrap().len(), 2);
    says(&found, "/text", "could not be read");
    let found = project.ok("Glob", &json!({"pattern": "*.txt"}));
    assert_eq!(found["data"]["paths"].as_array().unwrap().len(), 2);
    let deep = format!("{}deep.txt", &path[..201 * 10]);
    project.ok("Read", &json!({"path": deep}));
    project.ok("Edit", &json!({"path": deep, "old_string": "needle", "new_string": "found"}));
    let too_deep = format!("{path}unreachable.txt");
    for (tool, input) in [
        ("Read", json!({"path": too_deep})),
        ("Write", json!({"path": too_deep, "content": "x"})),
        ("LS", json!({"path": path})),
    ] {
        let refused = project.fails(tool, &input, "INVALID_PARAM");
        says(&refused, "/error/message", "too long");
    }
}

#[test]
fn editing_a_hard_link_splits_it_and_reports_it() {
    let mut project = Project::new(&[("a", "one\n")]);
    fs::hard_link(project.at("a"), project.at("b")).unwrap();
    project.ok("Read", &json!({"path": "a"}));
    let edit = project.ok("Edit", &json!({"path": "a", "old_string": "one", "new_string": "two"}));
    says(&edit, "/text", "It had other names (hard links): they still lead to the old content.");
    assert_eq!((project.bytes("a"), project.bytes("b")), (b"two\n".to_vec(), b"one\n".to_vec()));
    assert_eq!(project.at("b").metadata().unwrap().nlink(), 1);
    let again = project.ok("Edit", &json!({"path": "a", "old_string": "two", "new_string": "one"}));
    assert!(!text(&again, "/text").contains("hard links"));
}

#[test]
fn walks_terminate_on_cyclic_symlinks() {
    let mut project = Project::new(&[("a/b/c.txt", "needle\n")]);
    for (target, link) in [("..", "a/up"), (".", "a/here"), ("../../a", "a/b/around"), ("x", "x")] {
        std::os::unix::fs::symlink(target, project.at(link)).unwrap();
    }
    let found = project.ok("Grep", &json!({"pattern": "needle", "output": "files"}));
    assert_eq!(found["data"]["files"], json!(["a/b/c.txt"]));
    let found = project.ok("Glob", &json!({"pattern": "*.txt"}));
    assert_eq!(found["data"]["paths"], json!(["a/b/c.txt"]));
    let page = project.ok("Read", &json!({"path": "a/up/a/here/b/around/b/c.txt"}));
    assert_eq!(page["context"]["path_resolved"], "a/b/c.txt");
}

/// Files are created, deleted and extended while they are listed, searched and read.
#[test]
fn tools_tolerate_a_tree_that_changes_concurrently() {
    let mut project = Project::of(Test::in_memory().file("stays", "needle\n"));
    let root = project.test.root();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0u64;
            while !stop.load(Ordering::Relaxed) {
                n += 1;
                let folder = root.join(format!("f{}", n % 7));
                _ = fs::remove_dir_all(&folder);
                _ = fs::create_dir(&folder);
                _ = fs::write(
                    folder.join("a"),
                    "needle\n".repeat(usize::try_from(n % 900).unwrap()),
                );
                _ = fs::rename(folder.join("a"), root.join("moved"));
                _ = fs::write(folder.join("b"), "needle\n");
                // One letter throughout, a different one each time.
                let letter = ["a", "b", "c"][usize::try_from(n % 3).unwrap()];
                fs::write(root.join("spare"), format!("{letter}\n").repeat(400)).unwrap();
                fs::rename(root.join("spare"), root.join("whole")).unwrap();
                let mut growing =
                    fs::File::options().append(true).create(true).open(root.join("grows")).unwrap();
                std::io::Write::write_all(&mut growing, b"more\n").unwrap();
            }
        });
        let mut n_read = 0;
        for round in 0..60 {
            for (tool, input) in [
                ("LS", json!({"limit": round + 1})),
                ("Glob", json!({"pattern": "*", "limit": round + 1})),
                ("Grep", json!({"pattern": "needle", "limit": round + 1})),
                ("Read", json!({"path": "grows", "limit": round + 1})),
                ("Read", json!({"path": "whole", "limit": 400 + round})),
            ] {
                let envelope = project.call(tool, &input);
                if envelope["status"] == "error" {
                    assert_eq!(envelope["error"]["code"], "NOT_FOUND", "{envelope}");
                    continue;
                }
                if input["path"] == "whole" {
                    let lines = text(&envelope, "/data/content").lines();
                    let letters: BTreeSet<&str> =
                        lines.map(|line| &line[line.len() - 1..]).collect();
                    assert_eq!(letters.len(), 1, "one version or another: {envelope}");
                    n_read += 1;
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        assert!(n_read > 0);
    });
    let found = project.ok("Grep", &json!({"pattern": "needle", "path": "stays"}));
    assert_eq!(found["stats"]["matched_lines"], 1);
}
