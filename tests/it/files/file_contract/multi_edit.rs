//! MultiEdit: several replacements in one file, all or none.

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::batch::{Batch, Project, says};

/// A project with this file, which has been read.
fn project(text: &str) -> Project {
    let mut project = Project::of(Test::new().file("a", text));
    project.ok("Read", &json!({"path": "a"}));
    project
}

fn edits(pairs: &[(&str, &str)]) -> Value {
    let edits: Vec<Value> =
        pairs.iter().map(|(old, new)| json!({"old_string": old, "new_string": new})).collect();
    json!({"path": "a", "edits": edits})
}

#[test]
fn multi_edit_matches_against_the_original_file() {
    let mut project = project("one\r\ntwo\r\nthree\r\n");
    let done =
        project.ok("MultiEdit", &edits(&[("three", "one"), ("one", "two"), ("two", "three")]));
    assert_eq!(project.bytes("a"), b"two\r\nthree\r\none\r\n");
    let data = json!({
        "applied": true,
        "diff_preview": "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n-one\n two\n three\n+one\n",
        "replacements": 3,
    });
    assert_eq!(done["data"], data, "one diff");
    assert_eq!(done["stats"]["bytes_written"], 17, "one write");
    let mut all = edits(&[("one", "1"), ("t", "T")]);
    all["edits"][1]["replace_all"] = json!(true);
    let done = project.ok("MultiEdit", &all);
    assert_eq!(
        (&done["data"]["replacements"], project.bytes("a")),
        (&json!(3), b"Two\r\nThree\r\n1\r\n".to_vec())
    );
    let mut dry = edits(&[("Two", "2")]);
    dry["dry_run"] = json!(true);
    assert_eq!(project.partial("MultiEdit", &dry)["data"]["applied"], false);
    assert_eq!(project.bytes("a"), b"Two\r\nThree\r\n1\r\n");
}

#[test]
fn failed_multi_edit_changes_nothing_and_explains_like_edit() {
    let file = "one\n\ttwo\none\n";
    for (pair, code, words) in [
        (("four", "4"), "NO_MATCH", "nor a similar line"),
        (("    two", "2"), "NO_MATCH", "the file has tabs"),
        (("one", "1"), "MULTIPLE_MATCHES", "at lines 1, 3"),
        (("", "1"), "INVALID_PARAM", "old_string is empty"),
        (("two", "two"), "INVALID_PARAM", "are the same"),
    ] {
        let mut project = project(file);
        let refused = project.fails("MultiEdit", &edits(&[("two", "2"), pair]), code);
        assert_eq!(refused["data"]["failed_index"], 1);
        says(&refused, "/error/message", "edits[1]: ");
        says(&refused, "/error/message", words);
        says(&refused, "/error/message", "nothing was changed");
        assert_eq!(project.bytes("a"), file.as_bytes());
    }
}

#[test]
fn overlapping_edits_are_refused_and_adjacent_ones_are_not() {
    let mut project = project("abcdef\n");
    let refused = project.fails(
        "MultiEdit",
        &edits(&[("f", "F"), ("cde", "1"), ("abc", "2")]),
        "INVALID_PARAM",
    );
    assert_eq!(refused["data"]["overlapping"], json!([1, 2]));
    let refused =
        project.fails("MultiEdit", &edits(&[("abc", "1"), ("abc", "2")]), "INVALID_PARAM");
    assert_eq!(refused["data"]["overlapping"], json!([0, 1]));
    assert_eq!(project.bytes("a"), b"abcdef\n");
    project.ok("MultiEdit", &edits(&[("abc", "1"), ("def", "2")]));
    assert_eq!(project.bytes("a"), b"12\n");
}

#[test]
fn multi_edit_accepts_1_to_100_edits() {
    let text: String = (0..100).map(|n| format!("<{n}>\n")).collect();
    let mut project = project(&text);
    let pairs: Vec<(String, String)> =
        (0..101).map(|n| (format!("<{n}>"), format!("[{n}]"))).collect();
    let pairs: Vec<(&str, &str)> = pairs.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    project.fails("MultiEdit", &edits(&[]), "INVALID_PARAM");
    project.fails("MultiEdit", &edits(&pairs), "INVALID_PARAM");
    project.ok("MultiEdit", &edits(&pairs[..100]));
    assert_eq!(project.test.read("a"), text.replace('<', "[").replace('>', "]"));
    for wrong in [json!("x"), json!(["x"]), json!([{"old_string": "x"}]), json!({})] {
        project.fails("MultiEdit", &json!({"path": "a", "edits": wrong}), "INVALID_PARAM");
    }
}

#[test]
fn multi_edit_requires_a_current_read() {
    let mut project = Project::new(&[("a", "one\n")]);
    project.fails("MultiEdit", &edits(&[("one", "1")]), "NOT_READ");
    project.ok("Read", &json!({"path": "a"}));
    project.test.write("a", "one more\n");
    let refused = project.fails("MultiEdit", &edits(&[("one", "1")]), "CONFLICT");
    says(&refused, "/data/diff_preview", "-one\n+one more\n");
    project.ok("MultiEdit", &edits(&[("one", "1")]));
    assert_eq!(project.bytes("a"), b"1 more\n");
}

#[test]
fn multi_edit_applies_if_only_commands_changed_the_file_and_each_passage_occurs_once() {
    let test = Test::new().file("a", "one\ntwo\nthree\n");
    let batch = Batch::start(&mut test.command(&["tool", "batch", "--record", "--allow", "Bash"]));
    let mut project = Project { batch, test };
    project.ok("Read", &json!({"path": "a"}));
    project.ok("Bash", &json!({"command": "echo two >> a"}));
    project.fails("MultiEdit", &edits(&[("one", "1"), ("two", "2")]), "CONFLICT");
    project.ok("Bash", &json!({"command": "echo four >> a"}));
    let done = project.ok("MultiEdit", &edits(&[("one", "1"), ("three", "3")]));
    says(&done, "/text", "The file had changed since it was read (by `echo four >> a`).");
    assert_eq!(project.bytes("a"), b"1\ntwo\n3\ntwo\nfour\n");
}
