//! The read-only mode: commands write nothing, and checks do not run.

use serde_json::json;

use crate::support::Test;

#[test]
fn where_nothing_is_changed_no_check_is_run() {
    const TOLD: &str = "Don't change anything. Explain main.rs.";
    const NOT_RUN: &str = "the checks were not run: nothing may be changed at present";
    let read_only = ["explain main.rs", "--permission-mode", "read-only"];
    for told in [&[TOLD][..], &read_only] {
        for sandbox in ["true", "false"] {
            let test = Test::new().script("text: it adds");
            let off = format!("sandbox.enabled={sandbox}");
            let rest = ["--check", "touch chk.txt", "--set", &off];
            let done = test.run(&[told, &rest].concat()).expect_code(0);
            assert_eq!(done.stdout.trim(), "it adds");
            done.expect_stderr(NOT_RUN);
            assert!(!test.root().join("chk.txt").exists());
            assert!(!test.has_event("check.finished"));
            assert_eq!(test.events_of("turn.finished")[0]["ending"], "completed");
        }
    }
    // In the mode before that they are run.
    let test = Test::new().script("text: it adds");
    test.run(&[TOLD]).expect_code(0);
    let test = test.script("text: done");
    test.run(&["-c", "go ahead", "--check", "touch chk.txt"]).expect_code(0);
    assert!(test.root().join("chk.txt").exists());
}

#[test]
fn in_read_only_mode_commands_run_and_write_nothing() {
    let test = Test::new().file("a.txt", "one\n");
    let call = |command: &str| {
        let input = json!({"command": command}).to_string();
        let done = test.agent(&["tool", "call", "Bash", &input, "--permission-mode", "read-only"]);
        serde_json::from_str::<serde_json::Value>(&done.stdout).unwrap()
    };
    let seen = call("wc -c a.txt; echo x > $TMPDIR/own && wc -c < $TMPDIR/own");
    if seen["error"]["code"] == "ACCESS_DENIED" {
        crate::support::say("SKIPPED: no sandbox here, so no command runs in read-only mode");
        return;
    }
    assert_eq!(seen["data"]["stdout"], "4 a.txt\n2\n", "{seen}");
    let denied = call("echo two > new.txt; : > a.txt; mkdir folder; rm -f a.txt; true");
    assert!(denied["text"].as_str().unwrap().contains("this command runs read-only"), "{denied}");
    assert_eq!(test.read("a.txt"), "one\n");
    let names = std::fs::read_dir(test.root()).unwrap().count();
    assert_eq!(names, 1);
}
