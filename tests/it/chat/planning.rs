//! Mode plan: the model reads, the user accepts, edits or rejects its plan.

use crate::support::{Pty, Test};

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
    pty.wait_until_it_accepts_keys("Carry out this plan?");
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
        "  2 n  no, keep planning",
        "  3 e  edit the plan, then carry it out",
        "  4    yes, and ask before each change (mode ask)",
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
    pty.wait_for("plan › 1. Create new.txt");
    // Esc goes back to the question; the edited text is kept.
    pty.send(" nonsense\x1b");
    pty.wait_until_it_accepts_keys("3 e  edit the plan");
    pty.send("e");
    pty.wait_for("plan › 1. Create new.txt nonsense");
    pty.send("\x17");
    pty.wait("the plan", |screen| screen.contains("plan › 1. Create new.txt\n"));
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
    pty.wait_until_it_accepts_keys("Carry out this plan?");
    pty.send("\x1b");
    pty.wait_for("say what to change in the plan");
    assert!(!pty.screen().contains("Carry out this plan?"));
    assert!(!test.root().join("new.txt").exists());
}

#[test]
fn shift_tab_selects_mode_plan_and_the_command_line_too() {
    let test = Test::new().script("text: a");
    let mut pty = Pty::chat(&test, &[]);
    // The mode is known when the session is open; one that was selected before would be replaced.
    pty.wait_for("ask · script:../script · /help");
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

#[test]
fn plan_question_stays_after_a_command_and_cannot_be_answered_by_a_paste() {
    let script =
        "call: Bash {\"command\": \"until [ -e go ]; do sleep 0.05; done\"}\n---\ntext: 1. Create";
    let test = Test::new().script(script);
    let mut pty = Pty::chat(&test, &["--permission-mode", "plan"]);
    pty.wait_for("/help");
    pty.say("make a file");
    pty.wait_for("◦ Bash");
    // A command that waits for the end of the turn does not replace the question.
    pty.send("/todos\t");
    pty.wait_for("▸ after this turn: /todos");
    test.write("go", "");
    pty.wait_for("there is no todo list");
    pty.wait_until_it_accepts_keys("Carry out this plan?");
    pty.send("y\x1b[200~es, but not so\x1b[201~");
    pty.wait_for("› yes, but not so");
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert_eq!(test.events_of("turn.started").len(), 1);
    // A letter that is taken back is no answer.
    pty.send("\x15");
    pty.wait_until_it_accepts_keys("2 n  no, keep planning");
    pty.send("y\x7f");
    std::thread::sleep(std::time::Duration::from_millis(400));
    assert_eq!(test.events_of("turn.started").len(), 1);
}

#[test]
fn plan_question_ends_with_another_mode() {
    let (_test, mut pty) = planned("text: as you like");
    pty.send("\x1b[Z");
    pty.wait("no question", |screen| !screen.contains("Carry out this plan?"));
    pty.wait_for("ask ·");
    pty.say("leave it");
    pty.wait_for("as you like");
}
