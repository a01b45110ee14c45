//! Scenarios of the file tools.

use serde_json::json;

use super::{Replay, codes, expect_equal_without_project};
use crate::support::{Test, has, wait_for};

const READ: &str = "call: Read {\"path\": \"a.txt\"}\n---\n";
const EDIT: &str =
    "call: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}\n---\n";
const DONE: &str = "text: done";

fn recorded(script: &str, expected: &[&str]) -> Test {
    let test = Test::new().file("a.txt", "one\nmore\n").file("sub/b.txt", "x\nx\n").script(script);
    test.run(&["task"]);
    assert_eq!(codes(&test), expected);
    test
}

#[test]
fn conflict_with_a_change_from_outside_is_made_again() {
    let script = format!(
        "{READ}pause: 400ms\n{EDIT}{READ}call: Edit {{\"path\": \"a.txt\", \"old_string\": \"three\", \
         \"new_string\": \"four\"}}\n---\n{DONE}"
    );
    let test = Test::new().file("a.txt", "one\nmore\n").script(&script);
    let mut child = test.spawn(&["run", "task", "--model", "script:../script"]);
    wait_for(|| test.has_event("tool.finished"));
    test.write("a.txt", "three\nmore\n");
    child.wait().unwrap();
    assert_eq!(codes(&test), ["CONFLICT"]);
    assert_eq!(test.read("a.txt"), "four\nmore\n");
    expect_equal_without_project(&test);
}

#[test]
fn change_from_outside_is_seen_by_the_same_read() {
    // Nothing but a later command notices the change; its time is that of the file system.
    let script =
        format!("{READ}pause: 400ms\n{READ}call: Bash {{\"command\": \"touch new\"}}\n---\n{DONE}");
    let test = Test::new().file("a.txt", "one\n").script(&script);
    let mut child = test.spawn(&["run", "task", "--model", "script:../script", "--allow", "Bash"]);
    wait_for(|| test.has_event("tool.finished"));
    test.write("a.txt", "two\n");
    test.write("b.txt", "new from outside\n");
    child.wait().unwrap();
    expect_equal_without_project(&test);
}

#[test]
fn refused_edits_are_equal() {
    let unread = json!({"path": "sub/b.txt", "old_string": "x", "new_string": "y"});
    let missing = json!({"path": "a.txt", "old_string": "nine", "new_string": "y"});
    let read = json!({"path": "sub/b.txt"});
    let script = format!(
        "call: Edit {unread}\n---\n{READ}call: Edit {missing}\n---\ncall: Read {read}\n---\ncall: Edit \
         {unread}\n---\ncall: Read {{\"path\": \"c.txt\"}}\n---\n{DONE}"
    );
    let test = recorded(&script, &["NOT_READ", "NO_MATCH", "MULTIPLE_MATCHES", "NOT_FOUND"]);
    expect_equal_without_project(&test);
}

#[test]
fn absolute_paths_lead_into_the_scratch_copy() {
    let test = Test::new().file("a.txt", "one\n");
    let (path, new) = (test.root().join("a.txt"), test.root().join("new.txt"));
    let (read, write) = (json!({"path": path}), json!({"path": new, "content": "x\n"}));
    let list = json!({"command": format!("cd {} && ls && pwd", test.root().display())});
    let test = test.script(&format!(
        "call: Read {read}\n---\ncall: Write {write}\n---\ncall: Bash {list}\n---\n{DONE}"
    ));
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert_eq!(codes(&test), [""; 0]);
    expect_equal_without_project(&test);
    assert!(!new.exists());
}

#[test]
fn links_modes_and_empty_directories_are_as_they_were() {
    let command = "ls -lR | sed 's/ [^ ]* [^ ]* [0-9]* ... .. ..:.. / /'; cat link; rm -rf sub; ls; mv a.txt z.txt; \
                   head -c 300 /dev/zero | tr '\\\\0' '\\\\377' > bin; cat bin | head -c 5 | od -c";
    let script = format!(
        "call: Bash {}\n---\ncall: Read {{\"path\": \"bin\"}}\n---\ncall: LS {{}}\n---\n{DONE}",
        json!({"command": command})
    );
    let test = Test::new().file("a.txt", "one\n").file("sub/b.txt", "x\n").script(&script);
    std::os::unix::fs::symlink("sub/b.txt", test.root().join("link")).unwrap();
    std::fs::create_dir(test.root().join("empty")).unwrap();
    std::fs::set_permissions(
        test.root().join("a.txt"),
        std::os::unix::fs::PermissionsExt::from_mode(0o750),
    )
    .unwrap();
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert_eq!(codes(&test), ["BINARY_FILE"]);
    expect_equal_without_project(&test);
}

#[test]
fn commit_of_the_session_is_made_in_a_copy_of_the_repository() {
    if !has("git", "replay of a commit") {
        return;
    }
    let command = "echo two >> a.txt && git add -A && git commit -m 'second change' && git log --format=%s | cat && \
                   git status --short";
    let script = format!(
        "call: Bash {}\n---\ncall: Bash {{\"command\": \"git log --stat -1 | tail -3; git branch\"}}\n---\n{DONE}",
        json!({"command": command})
    );
    let test = Test::new().file("a.txt", "one\n").file("sub/b.txt", "x\n").script(&script);
    for line in ["init -q -b main", "add -A", "commit -qm first"] {
        git(&test, line);
    }
    for (key, value) in [("user.name", "n"), ("user.email", "a@b")] {
        git(&test, &format!("config {key} {value}"));
    }
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    assert_eq!(codes(&test), [""; 0]);
    git(&test, "checkout -q -b later");
    test.write("a.txt", "changed since\n");
    Replay::of(&test).expect_equal_but(&[]);
    assert_eq!(test.read("a.txt"), "changed since\n");
}

fn git(test: &Test, line: &str) {
    let line = format!("git -c user.email=a@b -c user.name=n {line}");
    let mut bash = std::process::Command::new("bash");
    let done = bash.args(["-c", &line]).current_dir(test.root()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn ignored_files_are_named_and_their_results_are_not_differences() {
    let script = format!(
        "call: Read {{\"path\": \"data/x\"}}\n---\ncall: Bash {{\"command\": \"wc data/x\"}}\n---\ncall: Bash \
         {{\"command\": \"wc data/y\"}}\n---\n{READ}{DONE}"
    );
    let test = Test::new().file("a.txt", "one\n").file("data/x", "1\n");
    // Too large for an ignored file in a checkpoint.
    let test = test.file("data/y", "2\n".repeat(1 << 20));
    let test = test.file(".gitignore", "data\n").script(&script);
    test.run(&["task", "--allow", "Bash"]).expect_code(0);
    // What the session read is recorded.
    let replay = Replay::of(&test).expect_equal_but(&["Bash wc data/y"]);
    let named = replay.page["not_reproducible"][0].as_str().unwrap();
    assert!(named.contains("data"), "{named}");
}

#[test]
fn change_that_only_a_read_met_is_made_again() {
    let script = format!("{READ}pause: 400ms\n{READ}{DONE}");
    let test = Test::new().file("a.txt", "one\n").script(&script);
    let mut child = test.spawn(&["run", "task", "--model", "script:../script"]);
    wait_for(|| test.has_event("tool.finished"));
    test.write("a.txt", "two\n");
    child.wait().unwrap();
    expect_equal_without_project(&test);
}

#[test]
fn difference_is_shown_and_gives_exit_code_1() {
    let test = recorded(&format!("{READ}{EDIT}{DONE}"), &[]);
    let log = test.log();
    // As if another version of the tool had written it.
    let text = std::fs::read_to_string(&log).unwrap();
    std::fs::write(&log, text.replace("(2 lines)", "(3 lines)")).unwrap();
    let replay = Replay::of(&test);
    assert_eq!(replay.done.code, Some(1), "{}", replay.page);
    let different = replay.with("different");
    assert_eq!(different.len(), 1, "{}", replay.page);
    let difference = different[0]["difference"].as_str().unwrap();
    assert!(difference.contains("3 lines") && difference.contains("2 lines"), "{difference}");
}
