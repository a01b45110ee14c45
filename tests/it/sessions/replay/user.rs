//! Scenarios of the user: approvals, modes, messages, interrupts, undo and rewind.

use super::{Replay, codes, expect_equal_without_project};
use crate::support::{Pty, Test, running, wait_for};

const WRITE: &str = "call: Write {\"path\": \"b.txt\", \"content\": \"x\\n\"}\n---\n";

fn chat(script: &str, args: &[&str]) -> (Test, Pty) {
    let test = Test::new().file("a.txt", "one\n").script(script);
    let pty = Pty::chat(&test, args);
    pty.wait_for("/help");
    (test, pty)
}

fn quit(mut pty: Pty) {
    pty.say("/quit");
    pty.end();
}

#[test]
fn approvals_are_given_again() {
    let script = format!(
        "{WRITE}call: Bash {{\"command\": \"touch c\"}}\n---\ncall: Write {{\"path\": \"d.txt\", \"content\": \
         \"y\\n\"}}\n---\ntext: the end"
    );
    let (test, mut pty) = chat(&script, &[]);
    pty.say("please");
    pty.wait_for_question();
    pty.send("y");
    pty.wait_for("touch c");
    pty.wait_for_question();
    pty.send("n");
    pty.wait_for("d.txt");
    pty.wait_for_question();
    pty.send("6");
    pty.wait_for("the end");
    quit(pty);
    assert_eq!(codes(&test), ["APPROVAL_REJECTED"]);
    assert_eq!(test.events_of("mode.changed").len(), 1);
    expect_equal_without_project(&test);
}

#[test]
fn command_of_a_file_is_sent_again() {
    let script = format!("{WRITE}text: done");
    let test = Test::new()
        .file("a.txt", "one\n")
        .file(".agent/commands/copy-this.md", "See @$1.\n")
        .script(&script);
    test.run(&["/copy-this a.txt"]).expect_code(0);
    let requested = test.events_of("model.requested").remove(0);
    assert_eq!(requested["messages"], 2, "{requested}");
    assert_eq!(test.events_of("turn.started")[0]["shown"], "See @a.txt.");
    expect_equal_without_project(&test);
}

#[test]
fn call_that_nobody_could_approve_is_refused_again() {
    let test = Test::new().script(&format!("{WRITE}text: done"));
    test.run(&["task", "--permission-mode", "ask"]).expect_code(77);
    assert_eq!(codes(&test), ["APPROVAL_REQUIRED"]);
    expect_equal_without_project(&test);
}

#[test]
fn mode_and_directives_are_followed_again() {
    let edit = "call: Read {\"path\": \"a.txt\"}\ncall: Edit {\"path\": \"a.txt\", \"old_string\": \"one\", \
                \"new_string\": \"two\"}\n---\n";
    let script = format!("{edit}text: first\n---\n{edit}text: second\n---\n{WRITE}text: third");
    let (test, mut pty) = chat(&script, &["--yolo"]);
    pty.say("Do not change a.txt.");
    pty.wait_for("first");
    pty.say("/mode read-only");
    pty.say("go");
    pty.wait_for("second");
    pty.say("/mode auto-edit");
    pty.say("and now");
    pty.wait_for("third");
    quit(pty);
    assert_eq!(codes(&test).len(), 2);
    assert!(test.root().join("b.txt").exists());
    expect_equal_without_project(&test);
}

#[test]
fn message_during_a_turn_arrives_at_the_same_place() {
    let script = "pause: 1s\ncall: LS {}\ncall: Read {\"path\": \"a.txt\"}\n---\ntext: I leave it";
    let (test, mut pty) = chat(script, &["--yolo"]);
    pty.say("find it");
    wait_for(|| test.has_event("model.requested"));
    pty.say("better not");
    pty.wait_for("I leave it");
    quit(pty);
    assert_eq!(codes(&test), ["CANCELLED", "CANCELLED"]);
    assert_eq!(test.events_of("turn.steered").len(), 1);
    expect_equal_without_project(&test);
}

#[test]
fn interrupted_command_is_interrupted_again() {
    let sleep = format!("sleep 60.{}", std::process::id());
    let script = format!(
        "call: Bash {{\"command\": \"echo x > made; {sleep}\"}}\n---\ncall: Read {{\"path\": \"made\"}}\n---\n\
         text: the end"
    );
    let (test, mut pty) = chat(&script, &["--yolo"]);
    pty.say("run it");
    wait_for(|| test.root().join("made").exists() && !running(&sleep).is_empty());
    pty.send("\u{3}");
    wait_for(|| test.has_event("turn.finished"));
    pty.say("and now");
    pty.wait_for("the end");
    quit(pty);
    assert_eq!(codes(&test), ["CANCELLED"]);
    let replay = Replay::of(&test);
    assert_eq!(replay.done.code, Some(0), "{}", replay.page);
    let read = replay.with("equal").iter().any(|row| row["what"] == "Read made");
    assert!(read, "{}", replay.page);
}

#[test]
fn commands_of_the_user_and_compactions_are_repeated() {
    let content = "a line of the file\n".repeat(800);
    let write = serde_json::json!({"path": "b.txt", "content": content});
    let read = "call: Read {\"path\": \"b.txt\"}\n---\n";
    let script = format!(
        "call: Write {write}\n---\n{read}text: first\n---\nfor: summary\ntimes: any\ntext: \
         nothing\n---\n{read}text: second"
    );
    let (test, mut pty) = chat(&script, &["--yolo", "--set", "context.keep_rounds=1"]);
    pty.say("one");
    pty.wait_for("first");
    pty.say("!echo hello from the user");
    wait_for(|| test.has_event("user.command"));
    pty.say("/compact the file");
    wait_for(|| test.has_event("context.compacted"));
    pty.say("two");
    pty.wait_for("second");
    quit(pty);
    assert_eq!(test.events_of("context.compacted")[0]["cause"], "manual");
    expect_equal_without_project(&test);
}

#[test]
fn undo_and_rewind_are_repeated() {
    let read = "call: Read {\"path\": \"b.txt\"}\n---\n";
    let test = Test::new().file("a.txt", "one\n").script(&format!("{WRITE}text: first"));
    test.run(&["one"]).expect_code(0);
    let test = test.script(&format!("{read}text: second"));
    test.run(&["two", "-c"]).expect_code(0);
    test.agent(&["session", "undo"]).expect_code(0);
    assert!(!test.root().join("b.txt").exists());
    let test = test.script(&format!("{read}text: third"));
    test.run(&["three", "-c"]).expect_code(0);
    test.agent(&["session", "rewind", "--turn", "2", "--conversation"]).expect_code(0);
    let test = test.script(&format!("{WRITE}{read}text: fourth"));
    test.run(&["four", "-c"]).expect_code(0);
    assert_eq!(codes(&test), ["NOT_FOUND"]);
    assert_eq!(test.events_of("session.rewound").len(), 1);
    expect_equal_without_project(&test);
}

#[test]
fn change_between_two_processes_is_made_again() {
    let read = "call: Read {\"path\": \"a.txt\"}\n---\n";
    let test = Test::new().file("a.txt", "one\n").script(&format!("{read}{WRITE}text: first"));
    test.run(&["one"]).expect_code(0);
    test.write("a.txt", "two\n");
    test.write("new/c.txt", "c\n");
    let test = test.script(&format!("{read}call: Grep {{\"pattern\": \"c\"}}\n---\ntext: second"));
    test.run(&["two", "-c"]).expect_code(0);
    expect_equal_without_project(&test);
}

#[test]
fn session_without_a_record_of_its_files_is_refused() {
    let test = Test::new().file("a.txt", "one\n").script("call: LS {}\n---\ntext: done");
    test.run(&["task", "--set", "checkpoints.enabled=false"]).expect_code(0);
    test.agent(&["trace", "replay"])
        .expect_code(2)
        .expect_one_line_of_stderr("nothing to replay from");
    test.agent(&["trace", "replay", "abc123"]).expect_code(2).expect_one_line_of_stderr("abc123");
}
