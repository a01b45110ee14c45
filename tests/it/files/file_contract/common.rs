//! Section "Common to all".

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::support::batch::{Project, says, text};
use crate::support::{Test, say};

/// A call of each of the seven tools on this path.
fn calls_of_all_tools(path: &str) -> [(&'static str, Value); 7] {
    [
        ("LS", json!({"path": path})),
        ("Glob", json!({"path": path, "pattern": "*"})),
        ("Grep", json!({"path": path, "pattern": "x"})),
        ("Read", json!({"path": path})),
        ("Write", json!({"path": path, "content": "new\n"})),
        ("Edit", json!({"path": path, "old_string": "x", "new_string": "y"})),
        ("MultiEdit", json!({"path": path, "edits": [{"old_string": "x", "new_string": "y"}]})),
    ]
}

#[test]
fn relative_and_absolute_paths_are_shown_relative() {
    for prefix in ["", "./", "ROOT/", "sub/../link/../"] {
        for folder in ["sub", "link"] {
            // One project each, as equivalent calls count as repeated.
            let mut project = Project::new(&[("sub/a.txt", "x\n")]);
            symlink("sub", project.at("link")).unwrap();
            let prefix = prefix.replace("ROOT", &project.test.root().display().to_string());
            let file = project.ok("Read", &json!({"path": format!("{prefix}{folder}/a.txt")}));
            assert_eq!(file["context"]["path_resolved"], "sub/a.txt");
            let given = format!("{prefix}{folder}");
            let list = project.ok("LS", &json!({"path": given}));
            let entries = json!([{"path": "sub/a.txt", "type": "file", "size": 2}]);
            assert_eq!(list["data"]["entries"], entries);
            let found = project.ok("Glob", &json!({"path": given, "pattern": "*"}));
            assert_eq!(found["data"]["paths"], json!(["sub/a.txt"]));
            let found = project.ok("Grep", &json!({"path": given, "pattern": "x"}));
            assert_eq!(found["data"]["matches"][0]["file"], "sub/a.txt");
        }
    }
}

#[test]
fn paths_outside_the_root_are_denied_without_revealing_anything() {
    let outside = Test::new().file("there.txt", "x\n");
    let mut project = Project::new(&[("sub/a.txt", "x\n")]);
    let there = outside.root();
    symlink(&there, project.at("folder")).unwrap();
    symlink(there.join("there.txt"), project.at("file")).unwrap();
    symlink(there.join("none.txt"), project.at("dangling")).unwrap();
    symlink("../../..", project.at("sub/up")).unwrap();
    let there = there.display();
    for path in [
        "..",
        "/",
        "/etc/passwd",
        "folder",
        "folder/there.txt",
        "folder/none.txt",
        "file",
        "file/x",
        "dangling",
        "sub/up",
        "sub/../../home",
        "none/../../x",
        &format!("{there}/there.txt"),
        &format!("{there}/none.txt"),
    ] {
        for (tool, input) in calls_of_all_tools(path) {
            let refused = project.fails(tool, &input, "ACCESS_DENIED");
            let message = format!("{path} is outside the project");
            assert_eq!(refused["error"]["message"], message, "{tool}");
        }
    }
    assert_eq!(outside.read("there.txt"), "x\n");
}

#[test]
fn added_directory_counts_as_inside() {
    let outside = Test::new().file("a.txt", "x\n");
    let there = outside.root().display().to_string();
    let test = Test::new();
    let mut batch = crate::support::batch::Batch::start(&mut test.command(&[
        "tool",
        "batch",
        "--add-dir",
        &there,
    ]));
    let file = format!("{there}/a.txt");
    for (tool, path) in [("LS", &there), ("Glob", &there), ("Grep", &there), ("Read", &file)] {
        let (_, input) =
            calls_of_all_tools(path).into_iter().find(|(name, _)| *name == tool).unwrap();
        let envelope = batch.call(tool, &input);
        assert_eq!(envelope["status"], "success", "{envelope}");
        assert_eq!(envelope["context"]["path_resolved"], **path);
    }
    let edit = json!({"path": file, "old_string": "x", "new_string": "y"});
    assert_eq!(batch.call("Edit", &edit)["status"], "success");
    assert_eq!(outside.read("a.txt"), "y\n");
}

#[test]
fn missing_path_error_lists_the_three_nearest_names() {
    let mut project = Project::new(&[
        ("src/parser.rs", ""),
        ("src/lexer.rs", ""),
        ("docs/parsing.md", ""),
        ("src/parser_test.rs", ""),
        ("zzz", ""),
    ]);
    let nearest = json!(["src/parser.rs", "src/parser_test.rs", "docs/parsing.md"]);
    for (tool, input) in calls_of_all_tools("src/parsr.rs") {
        if tool == "Write" {
            continue;
        }
        let missing = project.fails(tool, &input, "NOT_FOUND");
        assert_eq!(missing["error"]["message"], "src/parsr.rs does not exist", "{tool}");
        assert_eq!(missing["data"]["nearest"], nearest, "{tool}");
        let hint = "the nearest existing names: src/parser.rs, src/parser_test.rs, docs/parsing.md";
        assert_eq!(missing["error"]["hint"], hint);
    }
    let missing = project.fails("Read", &json!({"path": "Makefile"}), "NOT_FOUND");
    assert_eq!(missing["data"].get("nearest"), None, "nothing has a similar name: {missing}");
}

#[test]
fn non_utf8_names_are_shown_and_accepted_escaped() {
    let mut project = Project::new(&[]);
    for (name, shown) in [(&b"caf\xE9.txt"[..], "caf\\xe9.txt"), (b"a\nb\x1B", "a\\x0ab\\x1b")] {
        let folder = project.test.root().join(OsStr::from_bytes(name));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join(OsStr::from_bytes(name));
        std::fs::write(&file, "x\n").unwrap();
        let both = format!("{shown}/{shown}");
        let list = project.ok("LS", &json!({"path": shown}));
        assert_eq!(list["data"]["entries"], json!([{"path": both, "type": "file", "size": 2}]));
        let found = project.ok("Glob", &json!({"path": shown, "pattern": "*"}));
        assert_eq!(found["data"]["paths"], json!([both]));
        let found = project.ok("Grep", &json!({"path": both, "pattern": "x"}));
        assert_eq!(found["data"]["matches"], json!([{"file": both, "line": 1, "text": "x"}]));
        let file_read = project.ok("Read", &json!({"path": both}));
        assert_eq!(file_read["context"]["path_resolved"], both);
        project.ok("Edit", &json!({"path": both, "old_string": "x", "new_string": "y"}));
        let edits = json!([{"old_string": "y", "new_string": "z"}]);
        project.ok("MultiEdit", &json!({"path": both, "edits": edits}));
        assert_eq!(std::fs::read(&file).unwrap(), b"z\n");
        project.ok("Write", &json!({"path": both, "content": "w\n"}));
        assert_eq!(std::fs::read(&file).unwrap(), b"w\n");
    }
}

#[test]
fn path_through_a_file_is_not_a_directory() {
    let mut project = Project::new(&[("a.txt", "x\n")]);
    for (tool, input) in calls_of_all_tools("a.txt/b") {
        let refused = project.fails(tool, &input, "NOT_A_DIRECTORY");
        assert_eq!(refused["error"]["message"], "a.txt/b runs through a.txt, which is a file");
    }
    for (tool, input) in calls_of_all_tools("a.txt") {
        if ["LS", "Glob"].contains(&tool) {
            project.fails(tool, &input, "NOT_A_DIRECTORY");
        }
    }
}

#[test]
fn unreadable_paths_are_permission_denied() {
    let test = Test::new()
        .file("file", "x\n")
        .file("folder/a.txt", "x\n")
        .file("open/a.txt", "x\n")
        .file("open/closed/b.txt", "x\n");
    let Some(test) = test.unprivileged("unreadable_paths_are_permission_denied") else { return };
    let mode = |path: &str, mode| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(test.root().join(path), permissions).unwrap();
    };
    for path in ["file", "folder", "open/closed"] {
        mode(path, 0);
    }
    let mut project = Project::of(test);
    for path in ["folder", "folder/a.txt"] {
        for (tool, input) in calls_of_all_tools(path) {
            // The type is visible from the parent directory.
            if path == "folder" && ["Write", "Edit", "MultiEdit"].contains(&tool) {
                project.fails(tool, &input, "IS_DIRECTORY");
            } else {
                project.fails(tool, &input, "PERMISSION_DENIED");
            }
        }
    }
    for (tool, input) in calls_of_all_tools("file") {
        if !["LS", "Glob", "Grep"].contains(&tool) {
            project.fails(tool, &input, "PERMISSION_DENIED");
        }
    }
    let found = project.ok("Grep", &json!({"path": "open", "pattern": "x"}));
    assert_eq!(found["data"]["matches"], json!([{"file": "open/a.txt", "line": 1, "text": "x"}]));
    assert_eq!(found["stats"]["unreadable"], 1);
    says(&found, "/text", "could not be read");
    project.fails("Grep", &json!({"path": "file", "pattern": "x"}), "PERMISSION_DENIED");
    for path in ["file", "folder", "open/closed"] {
        let permissions = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(project.at(path), permissions).unwrap();
    }
}

/// The files found by each search tool, sorted.
fn met(project: &mut Project, path: &str, flags: &Value) -> [Vec<String>; 2] {
    let with = |name: &str, value: &str| {
        let mut input = flags.clone();
        input["path"] = json!(path);
        input[name] = json!(value);
        input
    };
    let glob = project.ok("Glob", &with("pattern", "**"));
    let mut files = with("pattern", "x");
    files["output"] = json!("files");
    let grep = project.ok("Grep", &files);
    [&glob["data"]["paths"], &grep["data"]["files"]].map(|list| {
        let list = list.as_array().unwrap().iter();
        let mut list: Vec<String> = list.map(|path| path.as_str().unwrap().to_owned()).collect();
        list.sort();
        list
    })
}

#[test]
fn hidden_and_ignored_files_are_excluded_by_the_same_rules() {
    let mut project = Project::of(
        Test::new()
            .file("a", "x\n")
            .file(".dot", "x\n")
            .file(".hidden/b", "x\n")
            .file("ignored.log", "x\n")
            .file("by_ignore", "x\n")
            .file("by_global.bak", "x\n")
            .file("node_modules/c", "x\n")
            .file("sub/__pycache__/d", "x\n")
            .file("venv/e", "x\n")
            .file(".venv/f", "x\n")
            .file("sub/g", "x\n")
            .file("sub/h.log", "x\n")
            .file("sub/kept.log", "x\n")
            .file(".gitignore", "*.log\n")
            .file("sub/.gitignore", "!kept.log\n")
            .file(".ignore", "by_ignore\n")
            .file("../home/.config/git/ignore", "*.bak\n"),
    );
    let none = json!({});
    let plain = ["a", "sub/g", "sub/kept.log"];
    assert_eq!(met(&mut project, ".", &none), [plain, plain]);
    let list = project.ok("LS", &none);
    let shown: Vec<_> = list["data"]["entries"].as_array().unwrap().iter().collect();
    assert_eq!(
        shown.iter().map(|entry| entry["path"].as_str().unwrap()).collect::<Vec<_>>(),
        ["sub", "a"]
    );
    // node_modules, venv; three files; .dot, .hidden, .venv, .gitignore, .ignore.
    assert_eq!(list["stats"]["hidden"], 10);

    let hidden = met(&mut project, ".", &json!({"include_hidden": true}));
    let expected = [
        ".dot",
        ".gitignore",
        ".hidden/b",
        ".ignore",
        "a",
        "sub/.gitignore",
        "sub/g",
        "sub/kept.log",
    ];
    assert_eq!(hidden[0], expected);
    assert_eq!(hidden[1], [".dot", ".hidden/b", "a", "sub/g", "sub/kept.log"]);

    let ignored = met(&mut project, ".", &json!({"include_ignored": true}));
    let expected = [
        "a",
        "by_global.bak",
        "by_ignore",
        "ignored.log",
        "node_modules/c",
        "sub/__pycache__/d",
        "sub/g",
        "sub/h.log",
        "sub/kept.log",
        "venv/e",
    ];
    assert_eq!(ignored, [expected, expected]);

    let all = project.ok("LS", &json!({"include_hidden": true}));
    assert_eq!(
        (all["stats"]["total_entries"].clone(), all["stats"]["hidden"].clone()),
        (json!(12), json!(0))
    );
}

#[test]
fn explicitly_named_directory_is_searched_even_if_ignored() {
    let mut project = Project::new(&[
        (".gitignore", "out/\n*.log\n"),
        ("out/a", "x\n"),
        ("out/deep/b.log", "x\n"),
        ("node_modules/m/c", "x\n"),
        (".hidden/d", "x\n"),
        ("e.log", "x\n"),
    ]);
    for (path, files) in [
        ("out", &["out/a", "out/deep/b.log"][..]),
        ("out/deep", &["out/deep/b.log"]),
        ("node_modules", &["node_modules/m/c"]),
        ("node_modules/m", &["node_modules/m/c"]),
        (".hidden", &[".hidden/d"]),
    ] {
        assert_eq!(met(&mut project, path, &json!({})), [files, files], "{path}");
        let list = project.ok("LS", &json!({"path": path}));
        assert_eq!(list["stats"]["hidden"], 0, "{path}");
    }
    let file = project.ok("Grep", &json!({"path": "e.log", "pattern": "x"}));
    assert_eq!(file["stats"]["matched_lines"], 1);
}

#[test]
fn params_input_contains_the_arguments_and_the_lock() {
    let mut project = Project::new(&[("a.txt", "one\n")]);
    let input = json!({"path": "a.txt", "limit": 7});
    let read = project.ok("Read", &input);
    assert_eq!(
        read["context"],
        json!({"cwd": ".", "params_input": input, "path_resolved": "a.txt"})
    );
    let mut input = json!({"path": "./a.txt", "old_string": "one", "new_string": "two"});
    let edit = project.ok("Edit", &input);
    input["file_mtime_ms"] = read["stats"]["file_mtime_ms"].clone();
    input["file_size_bytes"] = json!(4);
    assert_eq!(edit["context"]["params_input"], input);
    let written = project.ok("Write", &json!({"path": "b.txt", "content": "x"}));
    assert_eq!(written["context"]["params_input"], json!({"path": "b.txt", "content": "x"}));
    let list = project.ok("LS", &json!({}));
    assert_eq!(list["context"]["params_input"], json!({}));
}

#[test]
fn truncated_output_is_stored_in_a_file() {
    let line = "needle ".repeat(60);
    let mut project = Project::new(&[("a.txt", &format!("{line}\n").repeat(400))]);
    let found = project.partial("Grep", &json!({"pattern": "needle", "limit": 1000}));
    assert_eq!(found["data"]["truncated"], true);
    let shown = found["data"]["matches"].as_array().unwrap().len();
    assert!(shown < 400, "the field is itself the preview: {shown} matches");
    let path = text(&found, "/data/full_output").to_owned();
    let name = path.rsplit('/').next().unwrap();
    assert!(name.starts_with("tool_") && name.ends_with("_001_Grep.txt"), "{name}");
    says(&found, "/text", &format!("Output too large, cut: all 400 lines in {path}"));
    let whole = std::fs::read_to_string(&path).unwrap();
    assert_eq!(whole.lines().count(), 400);
    assert_eq!(whole.lines().nth(399).unwrap(), format!("a.txt:400: {line}"));
    // It is readable although it is outside the project.
    let page = project.ok("Read", &json!({"path": path, "start_line": 399, "limit": 2}));
    says(&page, "/data/content", "400 | a.txt:400: needle");
    let found = project.ok("Grep", &json!({"path": path, "pattern": "^a.txt:7:"}));
    assert_eq!(found["stats"]["matched_lines"], 1);
    project.fails("Write", &json!({"path": path, "content": ""}), "ACCESS_DENIED");
    let path = std::path::PathBuf::from(path);
    drop(project);
    _ = std::fs::remove_dir_all(path.parent().unwrap());
}

/// Interrupts the batch during a call that would take much longer than the test.
fn interrupted(mut project: Project, tool: &str, input: &Value) {
    project.batch.send(tool, input);
    std::thread::sleep(std::time::Duration::from_millis(300));
    crate::support::signal(project.batch.id(), "INT");
    let envelope = project.batch.answer().unwrap();
    assert_eq!(envelope["error"]["code"], "CANCELLED", "{envelope}");
    assert_eq!(project.batch.end(), Some(130));
}

#[test]
fn interrupt_ends_a_read() {
    let project = Project::new(&[("huge", &"line\n".repeat(2000))]);
    let file = std::fs::File::options().write(true).open(project.at("huge")).unwrap();
    if file.set_len(1 << 42).is_err() {
        say("SKIPPED: interrupt_ends_a_read: no sparse files of 4 TiB here");
        return;
    }
    interrupted(project, "Read", &json!({"path": "huge", "start_line": -1}));
}

#[test]
fn interrupt_ends_a_search() {
    let project = Project::new(&[("0", &"a line of some length\n".repeat(500_000))]);
    for n in 1..1000 {
        std::fs::hard_link(project.at("0"), project.at(&n.to_string())).unwrap();
    }
    interrupted(project, "Grep", &json!({"pattern": "(a|l|s)+z"}));
}
