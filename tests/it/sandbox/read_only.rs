//! Read-only mode: commands and checks cannot write.

use serde_json::json;

use crate::support::Test;

#[test]
fn checks_run_read_only_in_the_sandbox() {
    let run = |task: &str, check: &str, sandbox: &str| {
        let test = Test::new().script("text: it adds");
        let off = format!("sandbox.enabled={sandbox}");
        let mode = ["--permission-mode", "read-only"];
        let mode = if task.starts_with("Don't") { &[][..] } else { &mode };
        let done = test.run(&[&[task, "--check", check, "--set", &off], mode].concat());
        assert_eq!(done.stdout.trim(), "it adds");
        assert!(!test.root().join("chk.txt").exists());
        let finished = test.events_of("turn.finished").pop().unwrap();
        (done, finished["ending"].clone(), finished["verified"].clone())
    };
    let is_sandboxed = {
        let (done, ..) = run("explain main.rs", "true", "true");
        !done.stderr.contains("could not run")
    };
    for task in ["Don't change anything. Explain main.rs.", "explain main.rs"] {
        if is_sandboxed {
            let (done, ending, verified) = run(task, "test ! -e chk.txt", "true");
            done.expect_code(0);
            assert_eq!((ending, verified), (json!("completed"), json!(true)));
            let (done, ending, verified) = run(task, "touch chk.txt", "true");
            done.expect_code(1).expect_stderr("in read-only mode");
            assert_eq!((ending, verified), (json!("completed_unverified"), json!(false)));
        }
        let (done, ending, verified) = run(task, "true", "false");
        done.expect_code(1).expect_stderr("could not run");
        assert_eq!((ending, verified), (json!("completed_unverified"), json!(false)));
    }
    // In the previous mode it may write.
    let test = Test::new().script("text: it adds");
    test.run(&["Don't change anything. Explain main.rs."]).expect_code(0);
    let test = test.script("text: done");
    test.run(&["-c", "go ahead", "--check", "touch chk.txt"]).expect_code(0);
    assert!(test.root().join("chk.txt").exists());
}

#[test]
fn commands_in_read_only_mode_cannot_write() {
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
