//! Glob: find files by name.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::aged;
use crate::support::batch::{Project, says};

#[test]
fn patterns() {
    let mut project = aged(&[
        ("src/b.rs", ""),
        ("a.rs", ""),
        ("src/deep/c.rs", ""),
        ("src/d.md", ""),
        ("src/deep/[x].txt", ""),
        ("src/{y}.txt", ""),
        ("-dash.txt", ""),
    ]);
    let root = project.test.root().display().to_string();
    let mut check = |pattern: &str, path: &str, paths: &[&str]| {
        let found = project.ok("Glob", &json!({"pattern": pattern, "path": path}));
        assert_eq!(found["data"], json!({"paths": paths}), "{pattern} in {path}");
        assert_eq!(found["stats"]["matched"], paths.len());
    };
    // Without a slash: in any directory.
    check("*.rs", ".", &["src/b.rs", "a.rs", "src/deep/c.rs"]);
    check("c.rs", ".", &["src/deep/c.rs"]);
    // `*` and `?` do not cross directories.
    check("src/*.rs", ".", &["src/b.rs"]);
    check("*/*.rs", ".", &["src/b.rs"]);
    check("src/?.rs", ".", &["src/b.rs"]);
    check("src?b.rs", ".", &[]);
    check("src*b.rs", ".", &[]);
    // `**` matches any number of directories, including none.
    check("**/*.rs", ".", &["src/b.rs", "a.rs", "src/deep/c.rs"]);
    check("src/**/*.rs", ".", &["src/b.rs", "src/deep/c.rs"]);
    check("**/a.rs", ".", &["a.rs"]);
    check(
        "src/**",
        ".",
        &["src/b.rs", "src/deep/c.rs", "src/d.md", "src/deep/[x].txt", "src/{y}.txt"],
    );
    check("src/deep/", ".", &["src/deep/c.rs", "src/deep/[x].txt"]);
    check("./*.rs", ".", &["a.rs"]);
    // Alternatives and classes, and how to escape them.
    check("src/?.{rs,md}", ".", &["src/b.rs", "src/d.md"]);
    check("[ab].rs", ".", &["src/b.rs", "a.rs"]);
    check("[!ab].rs", ".", &["src/deep/c.rs"]);
    check("\\[x\\].txt", ".", &["src/deep/[x].txt"]);
    check("\\{y\\}.txt", ".", &["src/{y}.txt"]);
    check("-*", ".", &["-dash.txt"]);
    // Relative to `path`; absolute patterns are accepted.
    check("*.rs", "src/deep", &["src/deep/c.rs"]);
    check("deep/*.rs", "src", &["src/deep/c.rs"]);
    check(&format!("{root}/src/*.rs"), ".", &["src/b.rs"]);
    check(&format!("{root}/*.rs"), ".", &["a.rs"]);
}

#[test]
fn glob_sorts_newest_first_then_by_path() {
    let mut project = aged(&[("c", ""), ("b", ""), ("a", "")]);
    let found = project.ok("Glob", &json!({"pattern": "*"}));
    assert_eq!(found["data"]["paths"], json!(["c", "b", "a"]));
    // As a checkout writes them, in the order of their names.
    let mut time = std::time::SystemTime::now();
    for name in ["a", "b", "c"] {
        let file = std::fs::File::options().write(true).open(project.at(name)).unwrap();
        file.set_modified(time).unwrap();
        time += std::time::Duration::from_millis(1);
    }
    let found = project.ok("Glob", &json!({"pattern": "**"}));
    assert_eq!(found["data"]["paths"], json!(["a", "b", "c"]));
    assert_eq!(found["text"], "3 files matching.");
    let found = project.partial("Glob", &json!({"pattern": "**", "limit": 2}));
    assert_eq!(found["data"]["paths"], json!(["a", "b"]));
}

#[test]
fn case_mismatch_is_reported_if_nothing_else_matches() {
    let mut project = Project::new(&[("README.md", ""), ("src/Main.rs", "")]);
    let none = project.ok("Glob", &json!({"pattern": "readme.md"}));
    assert_eq!(none["data"], json!({"paths": []}));
    says(&none, "/text", "No files matching \"readme.md\"");
    says(&none, "/text", "README.md would match without");
    says(&project.ok("Glob", &json!({"pattern": "SRC/*"})), "/text", "src/Main.rs");
}

#[test]
fn matches_only_in_ignored_directories_are_reported() {
    let mut project = Project::new(&[
        (".gitignore", "target\n"),
        ("target/b.rs", ""),
        (".hidden/d.md", ""),
        ("node_modules/c.js", ""),
    ]);
    for (pattern, flag, example) in [
        ("*.rs", "include_ignored", "target/b.rs"),
        ("*.md", "include_hidden", ".hidden/d.md"),
        ("*.js", "include_ignored", "node_modules/c.js"),
    ] {
        let none = project.ok("Glob", &json!({"pattern": pattern}));
        assert_eq!(none["data"], json!({"paths": []}));
        says(&none, "/text", example);
        let found = project.ok("Glob", &json!({"pattern": pattern, flag: true}));
        assert_eq!(found["data"], json!({"paths": [example]}));
    }
    let none = project.ok("Glob", &json!({"pattern": "*.xyz"}));
    assert_eq!(none["text"], "No files matching \"*.xyz\" in the project.");
}

#[test]
fn glob_limit_defaults_to_fifty() {
    let files: Vec<String> = (0..201).map(|n| format!("f{n:03}")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|name| (name.as_str(), "")).collect();
    let mut project = Project::new(&files);
    let mut check = |input: Value, status: &str, n: usize| {
        let found = project.call("Glob", &input);
        assert_eq!(
            (found["status"].clone(), n),
            (json!(status), found["data"]["paths"].as_array().unwrap().len())
        );
        assert_eq!(found["data"].get("truncated").is_some(), status == "partial");
        assert_eq!(found["stats"]["matched"], 201);
    };
    check(json!({"pattern": "*"}), "partial", 50);
    check(json!({"pattern": "f*", "limit": 200}), "partial", 200);
    check(json!({"pattern": "f*", "limit": 1}), "partial", 1);
    std::fs::remove_file(project.at("f000")).unwrap();
    let exact = project.ok("Glob", &json!({"pattern": "*", "limit": 200}));
    assert_eq!(
        (exact["data"]["paths"].as_array().unwrap().len(), exact["data"].get("truncated")),
        (200, None)
    );
    for limit in [0, 201] {
        project.fails("Glob", &json!({"pattern": "*", "limit": limit}), "INVALID_PARAM");
    }
}

#[test]
fn invalid_glob_is_refused() {
    let mut project = Project::new(&[("a", "")]);
    for pattern in ["a[bc", "x/{a,b", "[z-a]", "ab}", "ä[", "x\\"] {
        let refused = project.fails("Glob", &json!({"pattern": pattern}), "INVALID_PARAM");
        says(&refused, "/error/message", "is not a valid glob");
    }
    for pattern in ["", "../*", "a/../../*"] {
        project.fails("Glob", &json!({"pattern": pattern}), "INVALID_PARAM");
    }
    project.fails("Glob", &json!({"pattern": "*", "path": "a"}), "NOT_A_DIRECTORY");
}

#[test]
fn glob_lists_symlinks_but_does_not_follow_them() {
    let mut project = aged(&[("sub/a.rs", "")]);
    for (target, link) in [
        ("/etc", "etc"),
        ("/etc/passwd", "passwd.rs"),
        ("none", "dangling.rs"),
        ("loop.rs", "loop.rs"),
        ("sub", "folder.rs"),
        ("..", "sub/up"),
        ("sub/a.rs", "in.rs"),
    ] {
        symlink(target, project.at(link)).unwrap();
    }
    let found = project.ok("Glob", &json!({"pattern": "*.rs"}));
    assert_eq!(found["data"]["paths"], json!(["in.rs", "sub/a.rs"]));
    let found = project.ok("Glob", &json!({"pattern": "**/passwd"}));
    assert_eq!(found["data"]["paths"], json!([]));
}

#[test]
#[ignore = "slow"]
fn glob_stops_after_200_000_entries() {
    let mut project = Project::of(crate::support::Test::in_memory().file("first.rs", ""));
    for folder in 0..201 {
        std::fs::create_dir(project.at(&folder.to_string())).unwrap();
        // Hard links are cheaper than files.
        let one = project.at(&format!("{folder}/0"));
        std::fs::write(&one, "").unwrap();
        for n in 1..1000 {
            std::fs::hard_link(&one, project.at(&format!("{folder}/{n}"))).unwrap();
        }
    }
    let some = project.partial("Glob", &json!({"pattern": "*"}));
    // Whichever limit is reached first on this machine.
    let reason = some["data"]["aborted_reason"].as_str().unwrap();
    assert!(["count_limit", "time_limit"].contains(&reason), "{reason}");
    assert_eq!(some["data"]["truncated"], true);
    says(&some, "/text", "There may be more");
    let none = project.fails("Glob", &json!({"pattern": "*.zzz"}), "TIMEOUT");
    says(&none, "/error/hint", "smaller folder");
}
