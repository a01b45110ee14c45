//! Paths through locations that commands can write: `..` after a component that a command can turn
//! into a symlink, a root that is replaced by a symlink, a temporary directory that others can
//! write.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Pty, Test, has};

const OUTSIDE: &str = "the user's own\n";

fn program(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
}

/// Makes `build` a symlink created by a command, so that `build/../../NAME` looks like a path
/// beside the project but resolves to a path in the returned directory.
fn link_target(test: &Test) -> PathBuf {
    let deep = test.home().join("a/b/c");
    fs::create_dir_all(&deep).unwrap();
    symlink(&deep, test.root().join("build")).unwrap();
    test.home().join("a")
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn tilde_is_the_home_for_file_tools() {
    let test = Test::new();
    fs::write(test.home().join("notes.md"), OUTSIDE).unwrap();
    for (tool, input) in [
        ("Write", json!({"path": "~/new.md", "content": "x"})),
        ("Read", json!({"path": "~/notes.md"})),
        ("LS", json!({"path": "~"})),
    ] {
        let envelope = test.call(tool, &input);
        assert_eq!(envelope["error"]["code"], "ACCESS_DENIED", "{tool}: {envelope}");
    }
    assert!(!test.root().join("~").exists() && !test.home().join("new.md").exists());
    test.write("~/own.md", "in the project\n");
    let envelope = test.call("Read", &json!({"path": "./~/own.md"}));
    assert_eq!(envelope["status"], "success", "{envelope}");
}

/// No-break spaces and decomposed letters look like what a keyboard types.
#[test]
fn file_is_found_by_the_name_that_a_user_types() {
    let test = Test::new()
        .file("Shot at 9.22\u{202f}PM.txt", "one\n")
        .file("U\u{308}bung/v\u{a0}1/Abscha\u{308}tzung.txt", "two\n")
        .file("alike\u{a0}.txt", "")
        .file("alike\u{202f}.txt", "");
    let typed = "Übung/v 1/Abschätzung.txt";
    for (path, text) in [("Shot at 9.22 PM.txt", "one"), (typed, "two")] {
        let envelope = test.call("Read", &json!({"path": path}));
        assert!(envelope["data"]["content"].as_str().unwrap().contains(text), "{envelope}");
    }
    let envelope = test.call("LS", &json!({"path": "Übung/v 1"}));
    assert_eq!(envelope["status"], "success", "{envelope}");
    let envelope = test.call("Write", &json!({"path": typed, "content": "x"}));
    assert_eq!(envelope["error"]["code"], "NOT_READ", "{envelope}");
    let envelope = test.call("Read", &json!({"path": "alike .txt"}));
    assert_eq!(envelope["error"]["code"], "NOT_FOUND", "{envelope}");
    // A new file has the name that was given.
    test.call("Write", &json!({"path": "Übung/neu 1.txt", "content": "x"}));
    assert_eq!(names(&test.root().join("U\u{308}bung")), ["neu 1.txt", "v\u{a0}1"]);
    assert!(!test.root().join("Übung").exists());
}

#[test]
fn output_path_with_dotdot_after_a_symlink_is_refused() {
    for backend in ["namespaces", "landlock"] {
        let backend = format!("sandbox.backend={backend:?}");
        let test = Test::new().script("text: the answer");
        let link_target = link_target(&test);
        fs::write(link_target.join("out.txt"), OUTSIDE).unwrap();
        let beside = test.root().with_file_name("out.txt");
        fs::write(&beside, OUTSIDE).unwrap();
        let run = |path: &str| test.run(&["-o", path, "task", "--set", &backend]);
        let absolute = format!("{}/build/../../out.txt", test.root().display());
        for path in ["build/../../out.txt", "build/../out.txt", "nothing/../../out.txt", &absolute]
        {
            run(path).expect_code(2).expect_stderr("goes up (..) from");
        }
        assert_eq!(fs::read_to_string(link_target.join("out.txt")).unwrap(), OUTSIDE);
        assert_eq!(fs::read_to_string(&beside).unwrap(), OUTSIDE);
        assert!(!test.root().join("out.txt").exists());
        // `..` after a real directory is accepted.
        fs::create_dir(test.root().join("sub")).unwrap();
        for (number, path) in ["sub/../../out.txt", "../out.txt"].iter().enumerate() {
            fs::write(&beside, number.to_string()).unwrap();
            run(path).expect_code(0);
            assert_eq!(fs::read_to_string(&beside).unwrap(), "the answer");
        }
    }
}

#[test]
fn files_for_the_user_are_not_created_through_project_symlinks() {
    let test = Test::new();
    let link_target = link_target(&test);
    let before = names(&link_target.join("b/c"));
    for path in ["build/demo", "build/deep/demo"] {
        test.agent(&["demo", "--dir", path]).expect_code(2).expect_stderr("build is a link");
    }
    let up = test.agent(&["demo", "--dir", "build/../../demo"]).expect_code(2);
    up.expect_stderr("goes up (..) from");
    assert_eq!(names(&link_target.join("b/c")), before);
    assert_eq!(names(&link_target), ["b"]);
    // Accepted: the literal path, and a path through a symlink of the user.
    symlink(&link_target, test.home().join("mine")).unwrap();
    fs::create_dir(test.root().join("docs")).unwrap();
    let own = test.home().join("mine/demo");
    for path in ["docs/demo", own.to_str().unwrap()] {
        test.agent(&["demo", "--dir", path]).expect_code(0);
        test.agent(&["demo", "--dir", path]).expect_code(2).expect_stderr("the demo's folder");
    }
    assert!(
        test.root().join("docs/demo/stats.sh").exists()
            && link_target.join("demo/stats.sh").exists()
    );
}

#[test]
fn output_path_dev_stdout_writes_to_the_pipe() {
    let test = Test::new().script("text: the answer");
    test.run(&["-o", "/dev/stdout", "task"]).expect_code(0).expect_stdout("the answer\nthe answer");
}

#[test]
fn export_path_with_dotdot_after_a_symlink_is_refused() {
    let test = Test::new().script("text: heard");
    let link_target = link_target(&test);
    fs::create_dir(test.root().join("sub")).unwrap();
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("hello");
    pty.wait_for("heard");
    pty.say("/export build/../../talk.md");
    pty.wait_for("goes up (..)");
    assert_eq!(names(&link_target), ["b"]);
    assert!(!test.root().with_file_name("talk.md").exists());
    pty.say("/export sub/../../talk.md");
    pty.wait_for("written to");
    assert!(test.root().with_file_name("talk.md").exists());
}

#[test]
fn programs_and_libraries_are_not_loaded_through_project_symlinks() {
    let test = Test::new();
    let link_target = link_target(&test);
    let out = test.home().join("out");
    for name in ["bash", "helper"] {
        program(&link_target.join("bin").join(name), "#!/bin/sh\n: > \"$0.ran\"\n");
    }
    let (root, path) = (test.root().display().to_string(), std::env::var("PATH").unwrap());
    let config = format!(
        "model = \"mine/x\"\n[providers.mine]\nbase_url = \"http://127.0.0.1:9/v1\"\n\
         api_key_command = \"echo $LD_LIBRARY_PATH$PYTHONPATH$OTHER > {}; helper; echo sk-x\"\n",
        out.display()
    );
    let way = format!("{root}/build/../../lib");
    let test = test
        .user_config(&config)
        .env("PATH", &format!("{root}/build/../../bin:{path}"))
        .env("LD_LIBRARY_PATH", &format!("{way}:/usr/lib/x"))
        .env("PYTHONPATH", &way)
        .env("OTHER", &format!("-I{way}"));
    // The literal path is beside the project; these programs are where `build` leads.
    for more in [&[][..], &["--set", "sandbox.enabled=false", "--permission-mode", "full"]] {
        let input = json!({"command": "echo $0"}).to_string();
        let done = test.agent(&[&["tool", "call", "Bash", &input], more].concat());
        let envelope: Value = serde_json::from_str(&done.stdout).unwrap();
        assert!(!envelope["data"]["stdout"].as_str().unwrap().contains("build"), "{envelope}");
    }
    test.agent(&["doctor", "--set", "sandbox.enabled=false"]);
    assert_eq!(fs::read_to_string(out).unwrap(), "/usr/lib/x\n");
    assert_eq!(names(&link_target.join("bin")), ["bash", "helper"]);
}

#[test]
fn tmpdir_with_dotdot_after_a_project_symlink_is_ignored() {
    let test = Test::new();
    let link_target = link_target(&test);
    fs::create_dir(link_target.join("tmp")).unwrap();
    let beside = test.root().with_file_name("tmp");
    fs::create_dir(&beside).unwrap();
    let way = test.root().join("build/../../tmp");
    let test = test.env("TMPDIR", way.to_str().unwrap());
    for backend in ["sandbox.backend=\"namespaces\"", "sandbox.backend=\"landlock\""] {
        let input = json!({"command": "seq 100000"}).to_string();
        let done = test.agent(&["tool", "call", "Bash", &input, "--set", backend]);
        let envelope: Value =
            serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:?}"));
        let kept = envelope["data"]["full_output"].as_str().unwrap_or_else(|| panic!("{envelope}"));
        assert!(!kept.starts_with(test.home().to_str().unwrap()), "{envelope}");
        assert!(
            names(&link_target.join("tmp")).is_empty() && names(&beside).is_empty(),
            "{envelope}"
        );
    }
}

/// Commands of another session can write the project's parent directory: while this session waits
/// for its key, they replace the project with a symlink.
#[test]
fn project_replaced_by_a_symlink_at_startup_is_refused() {
    for backend in ["namespaces", "landlock"] {
        let test = Test::new();
        let project = test.home().join("above/project");
        let (away, elsewhere) = (test.home().join("away"), test.home().join("elsewhere"));
        fs::create_dir_all(&project).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        let config = format!(
            "model = \"mine/x\"\n[sandbox]\nbackend = {backend:?}\n[limits]\ntimeout = \"1s\"\n[providers.mine]\n\
             base_url = \"http://127.0.0.1:9/v1\"\napi_key_command = \"sleep 0.5; mv {} {}; ln -s {} {}; echo sk-x\"\n",
            project.display(),
            away.display(),
            elsewhere.display(),
            project.display()
        );
        let test = test.user_config(&config);
        let done = test.agent(&["run", "-C", project.to_str().unwrap(), "task"]);
        assert!(project.is_symlink(), "{done:?}");
        assert_eq!(names(&elsewhere), Vec::<String>::new(), "{done:?}");
    }
}

/// A library that records every program it is loaded into.
const LIBRARY: &str = "#include <stdio.h>\n#include <stdlib.h>\n\
    __attribute__((constructor)) static void load(void) {\n\
    FILE *own = fopen(\"/proc/self/cmdline\", \"r\"), *log = fopen(getenv(\"LOADED\"), \"a\");\n\
    if (own && log) { char line[4096]; size_t n = fread(line, 1, sizeof line, own);\n\
    for (size_t at = 0; at < n; at++) fputc(line[at] ? line[at] : ' ', log); fputc('\\n', log); }\n\
    if (own) fclose(own);\nif (log) fclose(log); }\n";

#[test]
fn programs_started_by_the_chat_load_no_project_library() {
    if !has("gcc", "programs_started_by_the_chat_load_no_project_library") {
        return;
    }
    let test = Test::new().script("text: ok").file("load.c", LIBRARY);
    let (library, log) = (test.root().join("load.so"), test.home().join("loaded"));
    let mut gcc = Command::new("gcc");
    let made = gcc.args(["-shared", "-fPIC", "-o"]).arg(&library);
    assert!(made.arg(test.root().join("load.c")).status().unwrap().success());
    let test = test
        .env("LD_PRELOAD", library.to_str().unwrap())
        .env("LOADED", log.to_str().unwrap())
        .env("VISUAL", "")
        .env("EDITOR", "sed -i s/draft/edited/");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.send("draft");
    pty.wait_for("draft");
    pty.send("\x07");
    pty.wait_for("edited");
    let loaded = fs::read_to_string(&log).unwrap();
    assert!(loaded.contains("--model script:../script"), "{loaded}");
    assert!(!loaded.contains("sed -i"), "{loaded}");
}

/// TMPDIR may be writable by commands of another session.
#[test]
fn drafts_are_stored_in_the_state_directory() {
    let test = Test::new().script("text: heard");
    let (temporary, note) = (test.home().join("tmp"), test.home().join("note"));
    fs::create_dir(&temporary).unwrap();
    let editor = test.home().join("editor");
    program(
        &editor,
        "#!/bin/sh\npwd > \"$NOTE\"; stat -c %a . >> \"$NOTE\"; echo edited >> \"$1\"\n",
    );
    let test = test
        .env("TMPDIR", temporary.to_str().unwrap())
        .env("NOTE", note.to_str().unwrap())
        .env("VISUAL", "")
        .env("EDITOR", editor.to_str().unwrap());
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.send("draft");
    pty.wait_for("draft");
    pty.send("\x07");
    pty.wait_for("edited");
    let note = fs::read_to_string(note).unwrap();
    let (folder, mode) = note.trim_end().split_once('\n').unwrap();
    let own = test.home().canonicalize().unwrap().join(".local/state/agent");
    assert!(Path::new(folder).starts_with(own), "{note}");
    assert_eq!((mode, Path::new(folder).exists()), ("700", false), "{note}");
}
