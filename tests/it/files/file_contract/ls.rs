//! LS: list one directory.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::batch::{Project, says};

fn paths(envelope: &Value) -> Vec<&str> {
    let entries = envelope["data"]["entries"].as_array().unwrap().iter();
    entries.map(|entry| entry["path"].as_str().unwrap()).collect()
}

#[test]
fn ls_lists_directories_first_then_case_insensitively() {
    let mut project = Project::new(&[
        ("b.txt", "12345"),
        ("A.txt", ""),
        ("a.md", ""),
        ("zoo/x", ""),
        ("Lib/x", ""),
    ]);
    symlink("b.txt", project.at("c-inside")).unwrap();
    symlink("/etc", project.at("d-outside")).unwrap();
    symlink("none", project.at("e-dangling")).unwrap();
    symlink("f-loop", project.at("f-loop")).unwrap();
    let list = project.ok("LS", &json!({}));
    let entries = json!([
        {"path": "Lib", "type": "dir"},
        {"path": "zoo", "type": "dir"},
        {"path": "a.md", "type": "file", "size": 0},
        {"path": "A.txt", "type": "file", "size": 0},
        {"path": "b.txt", "type": "file", "size": 5},
        {"path": "c-inside", "type": "link", "target": "b.txt"},
        {"path": "d-outside", "type": "link"},
        {"path": "e-dangling", "type": "link"},
        {"path": "f-loop", "type": "link"},
    ]);
    assert_eq!(list["data"], json!({"entries": entries}));
    let mut stats = list["stats"].clone();
    stats.as_object_mut().unwrap().remove("time_ms");
    let expected = json!({
        "total_entries": 9, "dirs": 2, "files": 3, "links": 4, "returned": 9, "hidden": 0,
    });
    assert_eq!(stats, expected);
    assert_eq!(list["text"], "the project has 2 directories, 3 files, 4 links.");
}

#[test]
fn ls_limit_defaults_to_100() {
    let files: Vec<String> = (0..250).map(|n| format!("f{n:03}")).collect();
    let mut project =
        Project::new(&files.iter().map(|name| (name.as_str(), "")).collect::<Vec<_>>());
    let first = project.partial("LS", &json!({}));
    assert_eq!(paths(&first), files[..100]);
    assert_eq!(first["data"]["truncated"], true);
    says(&first, "/text", "250 files. The first 100 are shown; `ls` in Bash shows all.");
    let more = project.partial("LS", &json!({"limit": 149}));
    assert_eq!(paths(&more), files[..149]);
    for limit in [json!(0), json!(201), json!(-1), json!("7.5"), json!(1.5)] {
        project.fails("LS", &json!({"limit": limit}), "INVALID_PARAM");
    }
}

#[test]
fn ls_counts_hidden_entries_and_shows_them_on_request() {
    let mut project =
        Project::new(&[("a", ""), (".env", ""), ("b.log", ""), (".gitignore", "*.log\n")]);
    let list = project.ok("LS", &json!({}));
    assert_eq!((paths(&list), list["stats"]["hidden"].clone()), (vec!["a"], json!(3)));
    let list = project.ok("LS", &json!({"include_hidden": true}));
    assert_eq!(paths(&list), [".env", ".gitignore", "a", "b.log"]);
    assert_eq!(list["stats"]["hidden"], 0);
}

#[test]
fn ls_of_an_empty_directory_succeeds_and_of_a_file_fails() {
    let mut project = Project::new(&[("a", "")]);
    std::fs::create_dir(project.at("empty")).unwrap();
    let empty = project.ok("LS", &json!({"path": "empty"}));
    assert_eq!(
        (empty["data"].clone(), empty["text"].clone()),
        (json!({"entries": []}), json!("empty is empty."))
    );
    project.fails("LS", &json!({"path": "a"}), "NOT_A_DIRECTORY");
    project.fails("LS", &json!({"path": "none"}), "NOT_FOUND");
}

#[test]
#[ignore = "slow"]
fn ls_answers_in_a_directory_of_100_000_entries() {
    let mut project = Project::of(crate::support::Test::in_memory());
    for n in 0..100_000 {
        // Symlinks are cheaper than files and are listed like them.
        symlink("nowhere", project.at(&format!("{n:06}"))).unwrap();
    }
    let first = project.partial("LS", &json!({"limit": 1}));
    assert_eq!(first["data"]["entries"], json!([{"path": "000000", "type": "link"}]));
    assert_eq!(first["stats"]["total_entries"], 100_000);
}
