//! Edit: one exact replacement.

use serde_json::{Value, json};

use crate::support::Test;
use crate::support::batch::{Batch, Project, says, text};

fn edit(old: &str, new: &str) -> Value {
    json!({"path": "a", "old_string": old, "new_string": new})
}

/// A project with this file, which has been read.
fn project(bytes: impl AsRef<[u8]>) -> Project {
    let mut project = Project::of(Test::new().file("a", bytes));
    project.call("Read", &json!({"path": "a"}));
    project
}

#[test]
fn edit_result_fields() {
    let mut project = project("one\ntwo\nthree\n");
    let done = project.ok("Edit", &edit("two", "zwei"));
    let data = json!({
        "applied": true,
        "diff_preview": "--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n",
        "replacements": 1,
    });
    assert_eq!(done["data"], data);
    assert_eq!(done["text"], "Edited a: +1 -1 lines at line 2.");
    assert_eq!(project.bytes("a"), b"one\nzwei\nthree\n");
    let mut dry = edit("zwei", "drei");
    dry["dry_run"] = json!(true);
    let dry = project.partial("Edit", &dry);
    assert_eq!(dry["data"]["applied"], false);
    assert_eq!(project.bytes("a"), b"one\nzwei\nthree\n");
}

#[test]
fn edit_changes_only_the_replaced_text() {
    let check = |file: &[u8], old: &str, new: &str, expected: &[u8]| {
        let mut project = project(file);
        project.ok("Edit", &edit(old, new));
        assert_eq!(project.bytes("a"), expected, "{}", String::from_utf8_lossy(file));
        assert_eq!(project.names("."), ["a"]);
    };
    check(b"one\ntwo\n", "two", "three", b"one\nthree\n");
    check(b"one\ntwo", "two", "", b"one\n");
    // Line ends are ignored for matching and preserved.
    check(b"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", b"x\r\ny\r\nz\r\nc\r\n");
    check(b"a\r\nb\r\n", "a\r\nb", "x\r\ny", b"x\r\ny\r\n");
    check(b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n");
    check(b"a\rb\r", "a\nb", "x\ny", b"x\ry\r");
    check(b"a\r\nb\nc\r\nd\r\n", "c", "x\ny", b"a\r\nb\nx\r\ny\r\nd\r\n");
    check(b"a\nb\r\nc\nd\n", "d", "x\ny", b"a\nb\r\nc\nx\ny\n");
    // Also with mixed line ends: both for kept lines and for replaced lines.
    check(b"a\nb\r\nc\r\n", "a\nb", "a\nB", b"a\nB\r\nc\r\n");
    check(b"a\nb\r\nc\r\n", "a\nb\n", "A\nB\n", b"A\nB\r\nc\r\n");
    check(b"a\r\nb\nc\nd\n", "a\nb\nc", "a\nx\nb\nc", b"a\r\nx\nb\nc\nd\n");
    check(b"a\r\nb\nc\nd\n", "a\nb\nc", "c", b"c\nd\n");
    check(b"one\n\n\ntwo", "\n\n\n", "\n", b"one\ntwo");
    // Encoding and BOM are preserved too.
    check(b"\xEF\xBB\xBFone", "one", "two", b"\xEF\xBB\xBFtwo");
    check(b"\xFF\xFEa\0\r\0\n\0b\0", "a\nb", "c\nä", b"\xFF\xFEc\0\r\0\n\0\xE4\0");
    check(b"\xFE\xFF\0a\0\n\0b", "b", "\u{1F600}", b"\xFE\xFF\0a\0\n\xD8\x3D\xDE\0");
    check(b"caf\xE9\nbar\n", "bar", "té", b"caf\xE9\nt\xE9\n");
    // A NUL after the first 8 KiB counts as text.
    let mut late = vec![b'x'; 9000];
    late.extend(b"\0end");
    let expected = [&late[..9001], b"END"].concat();
    check(&late, "end", "END", &expected);
}

#[test]
fn characters_missing_in_the_encoding_are_refused() {
    let file = b"caf\xE9 au lait\n";
    let mut project = project(file);
    let refused = project.fails("Edit", &edit("lait", "中"), "ENCODING");
    says(&refused, "/error/message", "windows-1252, which has no '中'");
    assert_eq!(project.bytes("a"), file);
}

#[test]
fn bytes_that_do_not_round_trip_are_not_changed() {
    // Looks like Shift-JIS, but contains invalid bytes.
    let mut file = encoding_rs::SHIFT_JIS.encode("これは日本語のテキストです。\n").0.into_owned();
    file.extend(b"end \xFF\xFF\n");
    let mut project = project(&file);
    let answer = project.call("Edit", &edit("end", "END"));
    let expected = match answer["status"].as_str().unwrap() {
        "success" => [&file[..file.len() - 7], b"END \xFF\xFF\n"].concat(),
        _ => {
            assert_eq!(answer["error"]["code"], "ENCODING", "{answer}");
            file
        }
    };
    assert_eq!(project.bytes("a"), expected);
}

#[test]
fn old_string_must_be_unique_unless_replace_all() {
    let mut project = project("x\ny\nx x\n");
    let refused = project.fails("Edit", &edit("x", "z"), "MULTIPLE_MATCHES");
    assert_eq!(refused["error"]["message"], "old_string occurs 3 times in a, at lines 1, 3");
    assert_eq!(refused["data"]["lines"], json!([1, 3]));
    let mut all = edit("x", "z");
    all["replace_all"] = json!(true);
    let done = project.ok("Edit", &all);
    assert_eq!(
        (&done["data"]["replacements"], project.bytes("a")),
        (&json!(3), b"z\ny\nz z\n".to_vec())
    );
    // Overlapping occurrences count as two.
    project.ok("Write", &json!({"path": "a", "content": "aaa"}));
    project.fails("Edit", &edit("aa", "b"), "MULTIPLE_MATCHES");
    let mut all = edit("aa", "b");
    all["replace_all"] = json!(true);
    assert_eq!(project.ok("Edit", &all)["data"]["replacements"], 1);
    assert_eq!(project.bytes("a"), b"ba");
}

#[test]
fn invalid_edit_arguments_are_refused() {
    let mut project = project("x\r\n");
    for (old, new) in [("", "z"), ("x", "x"), ("x\r\n", "x\n")] {
        project.fails("Edit", &edit(old, new), "INVALID_PARAM");
    }
    project.fails("Edit", &json!({"path": "a", "old_string": "x"}), "INVALID_PARAM");
    let mut unknown = edit("x", "y");
    unknown["old_str"] = json!("z");
    let refused = project.fails("Edit", &unknown, "INVALID_PARAM");
    says(&refused, "/error/message", "`old_str` and `old_string` mean the same and differ");
    let missing = json!({"path": "b", "old_string": "x", "new_string": "y"});
    project.fails("Edit", &missing, "NOT_FOUND");
    assert_eq!(project.bytes("a"), b"x\r\n");
}

#[test]
fn unread_or_changed_file_is_not_edited() {
    let rows: String = (1..=900).map(|n| format!("row {n} of it\n")).collect();
    let mut project = Project::new(&[("a", "one\ntwo\n"), ("empty", ""), ("long", &rows)]);
    project.fails("Edit", &edit("one", "x"), "NOT_READ");
    // Only the lines around the passage are sent, or around what is most similar to it.
    for old in ["row 700 of it", "row  700 of it\n"] {
        let edit = json!({"path": "long", "old_string": old, "new_string": ""});
        let refused = project.fails("Edit", &edit, "NOT_READ");
        let content = text(&refused, "/data/content");
        assert!(content.starts_with("690 | ") && content.ends_with("710 | row 710 of it"));
        says(&refused, "/error/hint", "lines 690-710 of 900 are below, which counts as reading");
        // (Now it counts as read.)
        project.batch = Batch::start(&mut project.test.command(&["tool", "batch"]));
    }
    let new = json!({"path": "sub/new", "old_string": "", "new_string": "all of it\n"});
    assert_eq!(project.ok("Edit", &new)["text"], "Created sub/new: +1 -0 lines.");
    project.ok("Read", &json!({"path": "./a"}));
    project.test.write("a", "one\nTWO\n");
    let refused = project.fails("Edit", &edit("one", "x"), "CONFLICT");
    says(&refused, "/data/diff_preview", "-two\n+TWO\n");
    assert_eq!(refused["data"].get("content"), None, "not the whole file again");
    project.ok("Edit", &edit("one", "x"));
    std::fs::remove_file(project.at("a")).unwrap();
    project.fails("Edit", &edit("one", "x"), "NOT_FOUND");
}

/// A session with this file, which has been read.
fn recorded(text: &str) -> Project {
    let test = Test::new().file("a", text);
    let batch = Batch::start(&mut test.command(&["tool", "batch", "--record", "--allow", "Bash"]));
    let mut project = Project { batch, test };
    project.ok("Read", &json!({"path": "a"}));
    project
}

#[test]
fn edit_applies_if_only_commands_of_the_session_changed_the_file() {
    let mut project = recorded("one\ntwo\nthree\n");
    let mut run = |command: &str| project.ok("Bash", &json!({"command": command}));
    let ran = run("sed -i s/one/ONE/ a; printf done");
    let note = "Note: files you read changed: a.";
    assert_eq!(ran["text"], format!("Exited 0. {note}"));
    run("sed -i s/ONE/EINS/ a");
    let done = project.ok("Edit", &edit("two", "zwei"));
    let by = "The file had changed since it was read (by `sed -i s/one/ONE/ a; printf done`, `sed -i s/ONE/EINS/ a`).";
    says(&done, "/text", by);
    assert_eq!(project.bytes("a"), b"EINS\nzwei\nthree\n");
    // A second edit, and one of another file, say it no more.
    assert!(!text(&project.ok("Edit", &edit("zwei", "two")), "/text").contains("had changed"));
    project.ok("Edit", &edit("two", "zwei"));
    // The lines that a command changed were not shown.
    project.fails("Write", &json!({"path": "a", "content": "x"}), "NOT_READ");
    // A passage that occurs twice now, or no more.
    for (command, old) in [("echo zwei >> a", "zwei"), ("sed -i s/EINS/1/ a", "EINS")] {
        project.ok("Bash", &json!({"command": command}));
        let refused = project.fails("Edit", &edit(old, "x"), "CONFLICT");
        assert_eq!(refused["data"].get("content"), None, "{refused}");
    }
    project.fails("Edit", &edit("EINS", "x"), "NO_MATCH");
    // A command that removes the file leaves nothing to be read again.
    let removed = project.ok("Bash", &json!({"command": "rm a"}));
    assert_eq!(removed["text"], "Exited 0, without output.");
}

#[test]
fn change_of_another_program_is_a_conflict_beside_those_of_commands() {
    let mut project = recorded("one\ntwo\n");
    let command = json!({"command": "sed -i s/one/ONE/ a"});
    project.test.write("a", "one\ntwo\nthree\n");
    project.ok("Bash", &command);
    let refused = project.fails("Edit", &edit("two", "zwei"), "CONFLICT");
    says(&refused, "/data/diff_preview", "-one\n+ONE\n two\n+three\n");
    project.ok("Edit", &edit("two", "zwei"));
    project.ok("Bash", &json!({"command": "sed -i s/ONE/EINS/ a"}));
    project.test.write("a", "EINS\nzwei\nthree\nfour\n");
    project.fails("Edit", &edit("zwei", "2"), "CONFLICT");
    assert_eq!(project.bytes("a"), b"EINS\nzwei\nthree\nfour\n");
}

/// Each case with the words that explain it.
#[test]
fn no_match_reports_the_nearest_passage_and_the_difference() {
    let file = "fn main() {\n\tlet name = \"x\";\n\tprint(name);\n}\n";
    let check = |file: &str, old: &str, words: &str, lines: Value| {
        let mut project = project(file);
        let refused = project.fails("Edit", &edit(old, "something else"), "NO_MATCH");
        says(&refused, "/error/message", words);
        assert_eq!(refused["data"]["nearest"], lines, "{refused}");
        assert_eq!(project.bytes("a"), file.as_bytes(), "never a silent fuzzy edit");
        refused
    };
    let at = |start: u64, end: u64| json!({"start_line": start, "end_line": end});
    let spaces = "    let name = \"x\";\n    print(name);";
    let refused = check(file, spaces, "indentation (the file has tabs)", at(2, 3));
    let diff = "--- old_string\n+++ the file\n@@ -2,2 +2,2 @@\n\
                -    let name = \"x\";\n-    print(name);\n+\tlet name = \"x\";\n+\tprint(name);\n";
    assert_eq!(refused["data"]["diff_preview"], diff);
    check(
        "  a b c d\n  e f g h\n",
        "\ta b c d\n\te f g h",
        "the file has spaces, not tabs",
        at(1, 2),
    );
    check(file, "let name = \u{201c}x\u{201d};", "quotation marks", at(2, 2));
    check(file, "LET name", "upper and lower case", at(2, 2));
    check(file, "let  name", "spaces within the lines", at(2, 2));
    let numbered = "2 | \tlet name = \"x\";\n3 | \tprint(name);";
    let refused = check(file, numbered, "the line numbers, which were copied along", at(2, 3));
    says(&refused, "/error/hint", "leave out the `12 | `");
    let indented = "return {\n  level = 1,\n  lives = 3,\n}\n";
    check(indented, "3 |   lives = 3,", "the line numbers, which were copied along", at(3, 3));
    let escaped = "let name = \"x\";\\n\tprint(name);";
    check(file, escaped, "its escapes: it contains a backslash and an n", at(2, 3));
    let trailing = "a long line  \nanother long line\n";
    check(trailing, "a long line\nanother", "trailing whitespace", at(1, 2));
    check(file, "\tlet name = \"xy\";", "its words", at(2, 2));
    check("one\ntwo", "two\n", "the line ends at its end", at(2, 2));
    check("one\ntwo\nthree\n", "two\n\n", "the line ends at its end", at(2, 2));
    let refused = check(file, "nothing of the kind 12345", "nor a similar line", json!(null));
    says(&refused, "/error/hint", "Read the file again");
}

#[test]
fn already_applied_edit_is_reported() {
    let mut project = project("one\ntwo\n");
    let refused = project.fails("Edit", &edit("zwei", "two"), "NO_MATCH");
    says(&refused, "/error/message", "new_string does, at line 2: already applied");
    assert_eq!(refused["data"]["already_applied"], true);
}

/// The last edit reverts the others.
#[test]
fn consecutive_edits_need_no_new_read() {
    let mut project = project("one\n");
    project.ok("Edit", &edit("one", "two"));
    project.ok("Edit", &edit("two", "three"));
    project.ok("Edit", &edit("three", "one"));
    assert_eq!(text(&project.ok("Read", &json!({"path": "a"})), "/data/content"), "1 | one");
}

/// The work to explain a mismatch is bounded, however large the file and the search text are.
#[test]
fn no_match_in_a_large_file_is_explained() {
    let lines: String = (0..400_000).map(|n| format!("let value_{n} = compute({n});\n")).collect();
    let mut project = project(&lines);
    let old = "let value_x = compute(y, z);\n".repeat(50);
    project.fails("Edit", &edit(&old, "q"), "NO_MATCH");
    let old = lines[..3_000_000].replace("compute(77)", "compute(78)");
    let refused = project.fails("Edit", &edit(&old, "q"), "NO_MATCH");
    assert!(refused["data"].to_string().len() < 10_000, "{}", refused["data"]);
    assert_eq!(project.bytes("a"), lines.as_bytes());
}
