//! Grep: find text in files.

use std::process::Command;

use serde_json::{Value, json};

use super::aged;
use crate::support::batch::{Batch, Project, says, text};
use crate::support::{Test, has};

fn stats(envelope: &Value) -> [u64; 4] {
    ["matched_lines", "matched_files", "files_searched", "binary_skipped"]
        .map(|name| envelope["stats"][name].as_u64().unwrap())
}

#[test]
fn matches_are_sorted_by_newest_file_then_line() {
    let mut project = aged(&[
        ("b.rs", "fn one\r\nx\r\nfn two\r\n"),
        ("a.rs", "fn three\n"),
        ("sub/c.md", "x\nfn four"),
    ]);
    let found = project.ok("Grep", &json!({"pattern": "fn \\w+$"}));
    let matches = json!([
        {"file": "b.rs", "line": 1, "text": "fn one"},
        {"file": "b.rs", "line": 3, "text": "fn two"},
        {"file": "a.rs", "line": 1, "text": "fn three"},
        {"file": "sub/c.md", "line": 2, "text": "fn four"},
    ]);
    assert_eq!(found["data"], json!({"matches": matches}));
    assert_eq!(stats(&found), [4, 3, 3, 0]);
    assert_eq!(found["text"], "4 matching lines in 3 files, newest first.");

    let files = project.ok("Grep", &json!({"pattern": "fn", "output": "files"}));
    assert_eq!(files["data"], json!({"files": ["b.rs", "a.rs", "sub/c.md"]}));
    let counts = project.ok("Grep", &json!({"pattern": "fn", "output": "count"}));
    let rows = json!([
        {"file": "b.rs", "count": 2},
        {"file": "a.rs", "count": 1},
        {"file": "sub/c.md", "count": 1},
    ]);
    assert_eq!(counts["data"], json!({"counts": rows}));
    for output in ["Files", "lines", ""] {
        project.fails("Grep", &json!({"pattern": "fn", "output": output}), "INVALID_PARAM");
    }
}

#[test]
fn where_to_search() {
    let mut project = Project::new(&[
        ("a.rs", "x\n"),
        ("b.md", "x\n"),
        ("src/c.rs", "x\n"),
        ("src/d/e.rs", "x\n"),
    ]);
    let mut check = |input: Value, files: &[&str]| {
        let mut input = input;
        (input["pattern"], input["output"]) = (json!("x"), json!("files"));
        let found = project.ok("Grep", &input);
        let list = found["data"]["files"].as_array().unwrap().iter();
        let mut list: Vec<&str> = list.map(|file| file.as_str().unwrap()).collect();
        list.sort_unstable();
        assert_eq!(list, files, "{input}");
    };
    check(json!({}), &["a.rs", "b.md", "src/c.rs", "src/d/e.rs"]);
    check(json!({"path": "src"}), &["src/c.rs", "src/d/e.rs"]);
    check(json!({"path": "a.rs"}), &["a.rs"]);
    check(json!({"file_pattern": "*.rs"}), &["a.rs", "src/c.rs", "src/d/e.rs"]);
    check(json!({"include": "*.md"}), &["b.md"]);
    check(json!({"file_pattern": "src/*.rs"}), &["src/c.rs"]);
    check(json!({"file_pattern": "**/d/*"}), &["src/d/e.rs"]);
    check(json!({"file_pattern": "*.{md,txt}"}), &["b.md"]);
    check(json!({"path": "src", "file_pattern": "d/*"}), &["src/d/e.rs"]);
    for glob in ["a[", "{a", "../*"] {
        project.fails("Grep", &json!({"pattern": "x", "file_pattern": glob}), "INVALID_PARAM");
    }
    let both = json!({"pattern": "x", "file_pattern": "*.rs", "include": "*.md"});
    project.fails("Grep", &both, "INVALID_PARAM");
}

#[test]
fn how_to_match() {
    let mut project = Project::new(&[("a", "Foo(x)\nbar\nb.r\n"), ("b", "x)\r\nbaz\r\n")]);
    let mut check = |pattern: &str, flags: &Value, n: u64| {
        let mut input = flags.clone();
        input["pattern"] = json!(pattern);
        let found = project.ok("Grep", &input);
        assert_eq!(stats(&found)[0], n, "{input}");
    };
    let none = json!({});
    check("foo", &none, 0);
    check("foo", &json!({"case_sensitive": false}), 1);
    check("(?i)foo", &none, 1);
    check("b.r", &none, 2);
    check("b.r", &json!({"fixed_string": true}), 1);
    check("Foo(x)", &json!({"fixed_string": true}), 1);
    check("fOO(X)", &json!({"fixed_string": true, "case_sensitive": false}), 1);
    check("^x\\)$", &none, 1);
    check("^baz$", &none, 1);
    check("x\\)\nbar", &json!({"multiline": true}), 2);
    check("x\\)\n^bar$", &json!({"multiline": true}), 2);
    check("x.$\\s+^ba.$", &json!({"multiline": true}), 4);
    check("x)\nbar", &json!({"multiline": true, "fixed_string": true}), 2);
    check("x\\)\nbar", &json!({}), 2);
    check("(?s)Foo.*b\\.r", &json!({"multiline": true}), 3);
    check("\\bbar\\b", &none, 1);
    // Neither byte of a line end belongs to the line.
    check("[^Fo(x)baz.r]", &none, 0);
}

#[test]
fn shared_context_lines_are_shown_once() {
    let mut project = Project::new(&[("a", "1\n2\nx\n4\nx\n6\n7\n8\n")]);
    let found = project.ok("Grep", &json!({"pattern": "x", "context": 2}));
    let matches = json!([
        {"file": "a", "line": 3, "text": "x", "before": ["1", "2"], "after": ["4"]},
        {"file": "a", "line": 5, "text": "x", "after": ["6", "7"]},
    ]);
    assert_eq!(found["data"]["matches"], matches);
    let cut = project.ok("Grep", &json!({"pattern": "x", "context": 1, "limit": 1}));
    let matches = json!([{"file": "a", "line": 3, "text": "x", "before": ["2"], "after": ["4"]}]);
    assert_eq!(cut["data"]["matches"], matches);
    for context in [-1, 11] {
        project.fails("Grep", &json!({"pattern": "x", "context": context}), "INVALID_PARAM");
    }
}

#[test]
fn long_lines_are_truncated_around_the_match() {
    let line = format!("{}needle{}", "a".repeat(3000), "ä".repeat(3000));
    let mut project = Project::new(&[("a", &line), ("b", &"é".repeat(500))]);
    let found = project.ok("Grep", &json!({"pattern": "needle", "path": "a"}));
    let shown = text(&found, "/data/matches/0/text");
    assert_eq!(shown.chars().count(), 502);
    assert!(shown.starts_with("…aaa") && shown.contains("needle") && shown.ends_with("ä…"));
    let whole = project.ok("Grep", &json!({"pattern": "é", "path": "b"}));
    assert_eq!(text(&whole, "/data/matches/0/text"), "é".repeat(500));
}

#[test]
fn grep_skips_and_counts_binary_files_and_searches_utf16() {
    let mut late = vec![b'a'; 100_000];
    late.extend(b"\0\nneedle\n");
    let wide: Vec<u8> = "\u{FEFF}x\nneedle\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
    let test = Test::new()
        .file("wide", b"\xFF\xFEn\0e\0e\0d\0l\0e\0")
        .file("wide_be", wide)
        .file("bom", "\u{FEFF}needle")
        .file("binary", b"needle\0needle")
        .file("late", late);
    let mut project = Project::of(test);
    let found = project.ok("Grep", &json!({"pattern": "^needle$"}));
    let rows = found["data"]["matches"].as_array().unwrap().iter();
    let mut rows: Vec<_> =
        rows.map(|row| (row["file"].as_str().unwrap(), row["line"].as_u64().unwrap())).collect();
    rows.sort_unstable();
    assert_eq!(rows, [("bom", 1), ("late", 2), ("wide", 1), ("wide_be", 2)]);
    assert_eq!(stats(&found), [4, 4, 4, 1]);
    let one = project.ok("Grep", &json!({"pattern": "needle", "path": "binary"}));
    says(&one, "/text", "No file was searched: 1 file binary");
}

#[test]
fn grep_over_its_limit_names_the_exact_total() {
    let mut project = aged(&[("a", "x\nx\n"), ("b", "x\nx\n"), ("c", "x\n")]);
    let found = project.ok("Grep", &json!({"pattern": "x", "limit": 3}));
    let rows = json!([
        {"file": "a", "line": 1, "text": "x"},
        {"file": "a", "line": 2, "text": "x"},
        {"file": "b", "line": 1, "text": "x"},
    ]);
    assert_eq!(found["data"], json!({"matches": rows}));
    assert_eq!(stats(&found), [5, 3, 3, 0]);
    assert_eq!(found["stats"].get("lower_bound"), None);
    says(&found, "/text", "The first 3 are shown");
    let files = project.ok("Grep", &json!({"pattern": "x", "limit": 2, "output": "files"}));
    assert_eq!(files["data"], json!({"files": ["a", "b"]}));
    let counts = project.ok("Grep", &json!({"pattern": "x", "limit": 1, "output": "count"}));
    let rows = json!([{"file": "a", "count": 2}]);
    assert_eq!(counts["data"], json!({"counts": rows}));
    for limit in [0, 1001] {
        project.fails("Grep", &json!({"pattern": "x", "limit": limit}), "INVALID_PARAM");
    }
    let mut project = Project::new(&[("a", &"x\n".repeat(101))]);
    let found = project.partial("Grep", &json!({"pattern": "x"}));
    assert_eq!(found["data"]["matches"].as_array().unwrap().len(), 100);
    assert_eq!(found["data"]["truncated"], true);
}

#[test]
fn invalid_regex_is_explained() {
    let mut project = Project::new(&[("a", "x\n")]);
    for (pattern, message, hint) in [
        ("(?<=a)b", "look-around", "without look-around"),
        ("foo(?!bar)", "look-around", "without look-around"),
        ("(a)\\1", "backreferences", "without look-around and backreferences"),
        ("\\w{1000}{1000}", "size limit", "smaller repetitions"),
    ] {
        let refused = project.fails("Grep", &json!({"pattern": pattern}), "INVALID_PARAM");
        says(&refused, "/error/message", message);
        says(&refused, "/error/hint", hint);
    }
}

#[test]
fn pattern_that_is_no_regular_expression_is_searched_as_text() {
    let mut project = Project::new(&[("a", "Foo(x)\narr[0]\n*x\n")]);
    for (pattern, why, line) in [
        ("Foo(", "unclosed group", 1),
        ("arr[0", "unclosed character class", 2),
        ("*x", "repetition operator missing expression", 3),
    ] {
        let found = project.ok("Grep", &json!({"pattern": pattern}));
        assert_eq!(found["data"]["matches"][0]["line"], line, "{found}");
        let text = format!("is no regular expression ({why}): it was searched as fixed text.");
        says(&found, "/text", &text);
    }
}

/// A repository that tracks hidden files.
fn with_tracked_hidden() -> Option<Project> {
    if !has("git", "hidden_files_that_git_tracks_are_searched") {
        return None;
    }
    let project = Project::new(&[
        (".github/workflows/ci.yml", "needle\n"),
        (".eslintrc", "needle\n"),
        ("src/.keep", "needle\n"),
        ("a", "needle\n"),
        (".local", "needle\n"),
        (".gitignore", "out\n"),
        ("out/b", "needle\n"),
    ]);
    let mut git = Command::new("git");
    git.args(["init", "-q", "."]).current_dir(project.at(""));
    assert!(git.status().unwrap().success());
    let mut git = Command::new("git");
    git.args(["add", ".github", ".eslintrc", ".gitignore", "src", "a"]);
    assert!(git.current_dir(project.at("")).status().unwrap().success());
    Some(project)
}

#[test]
fn hidden_files_that_git_tracks_are_searched() {
    let Some(mut project) = with_tracked_hidden() else { return };
    let found = project.ok("Grep", &json!({"pattern": "needle", "output": "files"}));
    let tracked = json!([".eslintrc", ".github/workflows/ci.yml", "a", "src/.keep"]);
    assert_eq!(found["data"]["files"], tracked, "{found}");
    let others = "4 of 5 files match. In hidden or ignored places 2 more files match, for instance \
                  .local.";
    assert_eq!(found["text"], others, "{found}");
    let found = project.ok("Grep", &json!({"pattern": "needle", "path": ".github"}));
    assert_eq!(found["data"]["matches"].as_array().unwrap().len(), 1, "{found}");
    let found = project.ok("Glob", &json!({"pattern": "**/*.yml"}));
    assert_eq!(found["data"]["paths"], json!([".github/workflows/ci.yml"]), "{found}");
    let found = project.ok("Glob", &json!({"pattern": "**/.*"}));
    assert_eq!(found["data"]["paths"], json!([".eslintrc", ".gitignore", "src/.keep"]), "{found}");
    says(&found, "/text", "1 more file matches, for instance .local");
    let listed = project.ok("LS", &json!({}))["data"]["entries"].to_string();
    assert!(listed.contains(".eslintrc") && !listed.contains(".local"), "{listed}");
    // What is no longer tracked is hidden again.
    let mut git = Command::new("git");
    git.args(["rm", "-q", "--cached", ".eslintrc"]).current_dir(project.at(""));
    assert!(git.status().unwrap().success());
    let found = project.ok("Glob", &json!({"pattern": ".eslintrc"}));
    assert_eq!(found["data"]["paths"], json!([]), "{found}");
}

#[test]
fn no_match_is_distinguished_from_no_file_searched() {
    let mut project = Project::new(&[
        ("src/a.rs", "x\n"),
        (".gitignore", "out\n"),
        ("out/b", "secret\n"),
        ("only/.hidden", "other\n"),
    ]);
    let mut check = |input: Value, text: &str| {
        let none = project.ok("Grep", &input);
        assert_eq!(none["data"], json!({"matches": []}));
        assert_eq!(none["text"], text);
    };
    check(json!({"pattern": "y"}), "No match for \"y\" in 1 file in the project.");
    check(json!({"pattern": "y", "path": "src"}), "No match for \"y\" in 1 file in src.");
    check(
        json!({"pattern": "x", "file_pattern": "*.py"}),
        "No file was searched: none of 1 file in the project fits file_pattern \"*.py\".",
    );
    check(
        json!({"pattern": "x", "path": "only"}),
        "No file was searched: only holds none that is not hidden or ignored.",
    );
    project.fails("Grep", &json!({"pattern": ""}), "INVALID_PARAM");
    project.fails("Grep", &json!({"pattern": "x", "path": "none"}), "NOT_FOUND");
}

#[test]
fn grep_needs_no_external_program() {
    let test = Test::new().file("a", "x\n").env("PATH", "/nowhere");
    let found = Project::of(test).ok("Grep", &json!({"pattern": "x"}));
    assert_eq!(stats(&found), [1, 1, 1, 0]);
}

#[test]
#[ignore = "slow"]
fn time_limit_ends_a_slow_search() {
    let mut project =
        Project::new(&[("0", &"a line of some length\n".repeat(500_000)), ("new", "z\n")]);
    for n in 1..4000 {
        std::fs::hard_link(project.at("0"), project.at(&n.to_string())).unwrap();
    }
    let none = project.fails("Grep", &json!({"pattern": "(a|l|s)+q"}), "TIMEOUT");
    says(&none, "/error/message", "before the time limit was reached");
}

#[test]
fn grep_without_matches_names_excluded_files_that_match() {
    let mut project = Project::new(&[
        ("a.txt", "nothing\n"),
        (".gitignore", "out/\n"),
        ("out/log", "needle one\n"),
        (".hidden/b", "needle two\n"),
    ]);
    let none = project.ok("Grep", &json!({"pattern": "needle one"}));
    let expected = "In hidden or ignored places 1 file matches, for instance out/log.";
    assert!(none["text"].as_str().unwrap().ends_with(expected), "{none}");
    let none = project.ok("Grep", &json!({"pattern": "needle two"}));
    assert!(none["text"].as_str().unwrap().ends_with(".hidden/b."), "{none}");
    // A cut answer counts them too. Caches are no news.
    project.test.write("a.txt", "needle\n".repeat(101));
    for cache in ["out/CACHEDIR.TAG", "out/__pycache__/x"] {
        let found = project.call("Grep", &json!({"pattern": "needle"}));
        let n = if cache.contains("TAG") { "2 more files match" } else { "1 more file matches" };
        says(&found, "/text", &format!("narrow the search. In hidden or ignored places {n}"));
        project.test.write(cache, "needle\n");
    }
    let none = project.ok("Grep", &json!({"pattern": "nowhere at all"}));
    assert!(!none["text"].as_str().unwrap().contains("hidden or ignored"), "{none}");
}

#[test]
fn grep_excludes_and_counts_unreadable_files() {
    let test = Test::new()
        .file("a.txt", "key one\n")
        .file("notes/b.txt", "key two\n")
        .file("notes/c.md", "key three\n")
        .file("tls/server.key", "key four\n");
    let rule = format!("Read({}/notes/*.txt)", test.root().display());
    let mut batch = Batch::start(&mut test.command(&["tool", "batch", "--deny", &rule]));
    let found = batch.call("Grep", &json!({"pattern": "key", "output": "files"}));
    let mut files: Vec<&str> =
        found["data"]["files"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    files.sort_unstable();
    assert_eq!(files, ["a.txt", "notes/c.md"]);
    says(&found, "/text", "1 file skipped because a rule denies reading.");
    says(&found, "/text", "1 file skipped because the name suggests secrets.");
    assert_eq!(found["stats"]["withheld"], 1);
    let none = batch.call("Grep", &json!({"pattern": "two", "path": "notes"}));
    says(&none, "/text", "1 file skipped because a rule denies reading.");
    // Names may be shown, contents may not.
    let names = batch.call("Glob", &json!({"pattern": "notes/*"}));
    assert!(names["data"].to_string().contains("notes/b.txt"), "{names}");
    for (tool, input) in [
        ("Read", json!({"path": "notes/b.txt"})),
        ("Grep", json!({"path": "notes/b.txt", "pattern": "two"})),
    ] {
        let denied = batch.call(tool, &input);
        assert_eq!(denied["error"]["code"], "ACCESS_DENIED", "{input}: {denied}");
    }
    let allowed = batch.call("Bash", &json!({"command": "sort a.txt notes/c.md | uniq"}));
    assert_eq!(allowed["status"], "success", "{allowed}");
}
