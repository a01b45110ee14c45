//! "Don't change anything until I say so" holds in code.

use std::path::Path;

use code_agent::permission::{Heard, heard};
use serde_json::json;

use crate::support::Test;

const WRITE: &str = "call: Write {\"path\":\"a.txt\",\"content\":\"x\\n\"}";

#[test]
fn nothing_is_changed_until_the_user_lifts_it() {
    let script = format!(
        "{WRITE}\ncall: Bash {{\"command\":\"echo x > a.txt\"}}\n---\ntext: I would write x"
    );
    let test = Test::new().script(&script);
    // No mode and no rule outranks it.
    let told = "Look first. Don't change anything until I say so.";
    let done = test.run(&["-v", "--yolo", "--allow", "Write", told]).expect_code(0);
    done.expect_stderr(
        "❄ nothing is changed until you lift it (say “go ahead”): “Don't change anything until I say so.”",
    );
    assert!(!test.root().join("a.txt").exists());
    let frozen = &test.events_of("freeze.set")[0];
    assert_eq!((&frozen["by"], &frozen["turn"]), (&json!("user"), &json!(1)));
    for finished in test.events_of("tool.finished") {
        assert_eq!(finished["envelope"]["error"]["code"], "ACCESS_DENIED", "{finished}");
    }
    assert_eq!(test.events_of("permission.decided")[0]["rule"], "freeze");
    let asked = &test.events_of("model.requested")[0]["trailing"];
    assert!(asked.as_str().unwrap().contains("Nothing may be changed now"), "{asked}");

    // It holds when the session goes on, and another question does not lift it.
    let test = test.script(&format!("{WRITE}\n---\ntext: no"));
    test.run(&["-c", "--yolo", "and what about b.txt?"]).expect_code(0);
    assert!(!test.root().join("a.txt").exists());
    let test = test.script(&format!("{WRITE}\n---\ntext: done"));
    test.run(&["-v", "-c", "--yolo", "ok, go ahead"])
        .expect_code(0)
        .expect_stderr("❄ changes are possible again");
    assert_eq!(test.read("a.txt"), "x\n");
    assert_eq!(test.events_of("freeze.lifted")[0]["words"], "ok, go ahead");
}

#[test]
fn what_is_masked_in_the_record_forbids_no_less() {
    let told = "Look first. Don't change anything until I say so.";
    for shape in ["user", ".*", "[a-z]+"] {
        let config = format!("[record]\nredact_extra = [\"{shape}\"]\n");
        let test = Test::new().script(&format!("{WRITE}\n---\ntext: no")).user_config(&config);
        test.run(&["--yolo", told]).expect_code(0);
        assert!(!test.root().join("a.txt").exists(), "{shape}");
        let pinned = "Never change a.txt.";
        let test = Test::new().script(&format!("{WRITE}\n---\ntext: no")).user_config(&config);
        test.run(&["--yolo", pinned]).expect_code(0);
        assert!(!test.root().join("a.txt").exists(), "{shape}");
        // The words are masked, what they say holds when the session goes on.
        let pin = &test.events_of("pin.added")[0]["pin"];
        assert_eq!(pin["rules"][0], "deny Edit(a.txt)", "{shape}: {pin}");
        if shape != "user" {
            assert!(pin["text"].as_str().unwrap().contains("[redacted:extra]"), "{pin}");
        }
    }
}

/// The lines of labelled files that are heard otherwise than they say.
fn heard_wrongly(files: [&str; 2], is_heard: impl Fn(&str) -> bool) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/freeze");
    let text = files.map(|file| std::fs::read_to_string(folder.join(file)).unwrap()).concat();
    let lines = text.lines().filter(|line| {
        let (label, message) = line.split_once(' ').unwrap();
        assert!(matches!(label, "+" | "-"), "{line:?} has no label");
        is_heard(&message.replace("\\n", "\n")) != (label == "+")
    });
    lines.map(str::to_owned).collect()
}

#[test]
fn what_forbids_every_change_is_told_from_what_forbids_some() {
    let freezes = |message: &str| matches!(heard(message, false), Some(Heard::Freeze(_)));
    assert_eq!(heard_wrongly(["freezes_en.txt", "freezes_zh.txt"], freezes), [""; 0]);
}

#[test]
fn only_a_permission_for_now_lifts() {
    let lifts = |message: &str| matches!(heard(message, true), Some(Heard::Lift(_)));
    assert_eq!(heard_wrongly(["lifts_en.txt", "lifts_zh.txt"], lifts), [""; 0]);
}

#[test]
fn where_nothing_is_changed_no_check_is_run() {
    const TOLD: &str = "Don't change anything, just explain main.rs.";
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
    // What is not run proves nothing that the user asked for.
    let test = Test::new().script("text: they pass\n---\ntext: they pass\n---\ntext: I am sure");
    test.run(&["Don't change anything. Run the tests.", "--check", "cargo test"]).expect_code(0);
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "completed_unverified");
    // Lifted, they are run as ever.
    let test = Test::new().script("text: it adds");
    test.run(&[TOLD]).expect_code(0);
    let test = test.script("text: done");
    test.run(&["-c", "go ahead", "--check", "touch chk.txt"]).expect_code(0);
    assert!(test.root().join("chk.txt").exists());
}

#[test]
fn a_freeze_in_chinese_holds_too() {
    let test = Test::new().script(&format!("{WRITE}\n---\ntext: 好的"));
    test.run(&["--yolo", "先看看这个项目，不要改任何文件。"]).expect_code(0);
    assert!(!test.root().join("a.txt").exists());
    let test = test.script(&format!("{WRITE}\n---\ntext: 改好了"));
    test.run(&["-c", "--yolo", "可以改了"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "x\n");
}

#[test]
fn what_is_limited_to_something_is_no_freeze() {
    let test = Test::new().script(&format!("{WRITE}\n---\ntext: done"));
    test.run(&["Write a.txt. Don't change anything else."]).expect_code(0);
    assert_eq!(test.read("a.txt"), "x\n");
    assert!(!test.has_event("freeze.set"));
}

#[test]
fn a_report_of_what_is_not_saved_is_no_freeze() {
    for told in [
        "Nothing gets updated until I restart the server. Please fix that.",
        "For now nothing gets written. Make it write.",
        "Explain the message: you cannot edit",
    ] {
        let test = Test::new().script(&format!("{WRITE}\n---\ntext: done"));
        test.run(&["--yolo", told]).expect_code(0);
        assert_eq!(test.read("a.txt"), "x\n", "{told}");
        assert!(!test.has_event("freeze.set"), "{told}");
    }
}

#[test]
fn after_an_interrupt_nothing_is_changed_before_the_next_message() {
    let test = Test::new().script("pause: 20s\ntext: never");
    let mut child = test.spawn(&["run", "task", "--model", "script:../script"]);
    crate::run::wait_for(|| test.has_event("model.requested"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(test.events_of("freeze.set")[0]["by"], "interrupt");
    let test = test.script(&format!("{WRITE}\n---\ntext: done"));
    test.run(&["-c", "write it"]).expect_code(0);
    assert_eq!(test.read("a.txt"), "x\n");
    assert_eq!(test.events_of("freeze.lifted").len(), 1);
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
