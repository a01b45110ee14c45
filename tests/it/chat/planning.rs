//! Mode plan: the model reads, the user accepts, edits or rejects its plan.

use super::pty::Pty;
use crate::support::Test;

const WRITE: &str = "call: Write {\"path\": \"new.txt\", \"content\": \"x\\n\"}\n---\n";

/// A chat in which the model has planned: a change is refused, then the plan is the answer.
fn planned(rest: &str) -> (Test, Pty) {
    let script = format!(
        "when: you change no file\n{WRITE}expect: after the user accepts the plan\n\
         text: 1. Create new.txt\n---\n{rest}"
    );
    let test = Test::new().script(&script);
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.send("/plan make a file");
    pty.wait_for("make a file");
    pty.send("\r");
    pty.wait_for("Carry out this plan?");
    std::thread::sleep(std::time::Duration::from_millis(600));
    assert!(!test.root().join("new.txt").exists());
    (test, pty)
}

#[test]
fn accepted_plan_is_carried_out_in_another_mode() {
    let rest = format!("when: I accept the plan\n{WRITE}text: done");
    let (test, mut pty) = planned(&rest);
    let screen = pty.screen();
    for part in [
        "▸ 1 y  yes (mode auto-edit)",
        "  2    yes, and ask before each change (mode ask)",
        "  3 e  edit the plan, then carry it out",
        "  4 n  no, keep planning",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
    pty.send("y");
    pty.wait_for("done");
    assert!(test.root().join("new.txt").exists());
    pty.wait_for("auto-edit");
}

#[test]
fn edited_plan_is_sent_and_its_sentences_are_no_directives() {
    let rest = format!("when: (?s)I edited the plan.*Do not change old.txt\n{WRITE}text: done");
    let (test, mut pty) = planned(&rest);
    pty.send("e");
    pty.wait_for("› 1. Create new.txt");
    pty.send(" and nothing else. Do not change old.txt.\r");
    pty.wait_for("done");
    assert!(test.root().join("new.txt").exists());
    assert!(!test.has_event("rule.added"));
}

#[test]
fn rejected_plan_changes_nothing_and_planning_goes_on() {
    let (test, mut pty) = planned("when: in two steps\ntext: 1. Think 2. Create");
    // A letter that is no choice begins a message.
    pty.say("in two steps");
    pty.wait_for("1. Think 2. Create");
    pty.wait_for("Carry out this plan?");
    std::thread::sleep(std::time::Duration::from_millis(600));
    pty.send("\x1b");
    pty.wait_for("say what to change in the plan");
    assert!(!pty.screen().contains("Carry out this plan?"));
    assert!(!test.root().join("new.txt").exists());
}

#[test]
fn shift_tab_selects_mode_plan_and_the_command_line_too() {
    let test = Test::new().script("text: a");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.send("\x1b[Z");
    pty.wait_for("auto-edit ·");
    pty.send("\x1b[Z");
    pty.wait_for("plan ·");
    pty.send("\x1b[Z");
    pty.wait_for("ask ·");
    let script = format!("when: you change no file\n{WRITE}text: 1. Create new.txt");
    let test = Test::new().script(&script);
    let out = test.run(&["--permission-mode", "plan", "--check", "false", "make a file"]);
    assert_eq!(out.code, Some(0), "{}", out.stderr);
    assert!(out.stdout.contains("1. Create new.txt"), "{}", out.stdout);
    assert!(!test.root().join("new.txt").exists());
}
