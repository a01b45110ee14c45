//! Scenarios of commands.

use serde_json::json;

use super::{Replay, codes, expect_equal_without_project};
use crate::support::{Test, wait_for};

fn recorded(script: &str) -> Test {
    let test = Test::new().file("a.txt", "one\n").script(script);
    test.run(&["task", "--allow", "Bash"]);
    test
}

#[test]
fn failure_of_a_command_is_equal() {
    let line = json!({"command": "echo out; echo err >&2; mkdir d; echo x > d/f; exit 3"});
    let script = format!(
        "call: Bash {line}\n---\ncall: Bash {{\"command\": \"no_such_program\"}}\n---\ncall: Bash {{\"command\": \
         \"cat d/f\"}}\n---\ntext: done"
    );
    let test = recorded(&script);
    assert_eq!(codes(&test), ["COMMAND_FAILED", "COMMAND_FAILED"]);
    expect_equal_without_project(&test);
}

#[test]
fn timed_out_command_is_not_run_again_and_its_changes_are_made() {
    let line = json!({"command": "echo x > made; sleep 60", "timeout_ms": 300});
    let script =
        format!("call: Bash {line}\n---\ncall: Read {{\"path\": \"made\"}}\n---\ntext: done");
    let test = recorded(&script);
    assert_eq!(codes(&test), ["TIMEOUT"]);
    Replay::of(&test).expect_equal_but(&["Bash echo x > made"]);
}

#[test]
fn background_command_works_again() {
    let line =
        json!({"command": "echo begun; sleep 0.2; echo x > made; echo ended", "background": true});
    let script = format!(
        "call: Bash {line}\n---\npause: 600ms\ncall: Bash {{\"background\": \"bg_1\"}}\n---\ncall: Read \
         {{\"path\": \"made\"}}\n---\ntext: done"
    );
    let test = recorded(&script);
    assert_eq!(codes(&test), [""; 0]);
    let replay = Replay::of(&test);
    assert_eq!(replay.done.code, Some(0), "{}", replay.page);
    let names =
        |result| replay.with(result).iter().map(|it| it["what"].clone()).collect::<Vec<_>>();
    assert!(names("equal").contains(&json!("Read made")), "{}", replay.page);
}

#[test]
fn secret_in_a_command_is_not_run_again() {
    let secret = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    let line = json!({"command": format!("echo {secret} > token; wc -c token")});
    let script = format!(
        "call: Bash {line}\n---\ncall: Bash {{\"command\": \"wc -c token\"}}\n---\ntext: done"
    );
    let test = recorded(&script);
    assert_eq!(codes(&test), [""; 0]);
    assert!(!std::fs::read_to_string(test.log()).unwrap().contains(secret));
    Replay::of(&test).expect_equal_but(&["Bash echo [redacted:"]);
}

#[test]
fn killed_session_goes_on_in_its_replay() {
    let line = json!({"command": "echo x > made; sleep 60"});
    let script = format!("call: Read {{\"path\": \"a.txt\"}}\n---\ncall: Bash {line}");
    let test = Test::new().file("a.txt", "one\n").script(&script);
    let mut child = test.spawn(&["run", "task", "--allow", "Bash", "--model", "script:../script"]);
    wait_for(|| test.root().join("made").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    test.write("a.txt", "two\n");
    // The first edit is refused: what a process has read, the next one has not.
    let edit = json!({"path": "a.txt", "old_string": "two", "new_string": "three"});
    let test = test.script(&format!(
        "call: Edit {edit}\n---\ncall: Read {{\"path\": \"made\"}}\n---\ncall: Read {{\"path\": \"a.txt\"}}\n---\ncall: \
         Edit {edit}\n---\ntext: done"
    ));
    test.run(&["go on", "-c", "--allow", "Bash"]).expect_code(0);
    assert_eq!(codes(&test), ["CANCELLED", "NOT_READ"]);
    expect_equal_without_project(&test);
}
