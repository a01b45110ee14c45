//! Limits of memory: rules override fixes, recalled lessons survive a compaction, and the chat can
//! list and forget them.

use agent_learning::lesson::Scope;
use agent_learning::store::{Batch, Store as _};
use agent_protocol::recall::LessonKind;
use serde_json::json;

use crate::lessons::memory::{self, store};
use crate::lessons::recall::{AT_OLD_PLACE, bash, executable, learnt, moved};
use crate::support::{Pty, Test};

/// Stores a user rule for all projects; returns its id.
fn remember(test: &Test, text: &str) -> String {
    let lesson = memory::lesson(Scope::User, LessonKind::Rule, text);
    let id = lesson.id.clone();
    store(test).commit(&Batch { lessons: vec![lesson], ..Batch::default() }).unwrap();
    id
}

#[test]
fn deny_rule_overrides_a_fix_from_memory() {
    let run = |rules: &[&str]| {
        let (test, _) = moved();
        let test = test.script(&format!("{}text: done", bash(AT_OLD_PLACE)));
        // A refused fix does not count as a permission that the task needed: the run succeeds.
        test.run(&[&["Say hello."], rules].concat()).expect_code(0);
        let own = test.events_of("tool.finished").into_iter().find(|e| e["by"] == "kernel");
        own.map(|it| it["envelope"]["error"]["code"].clone())
    };
    assert_eq!(run(&[]), Some(json!(null)), "nothing forbids it");
    let refused = run(&["--deny", "Bash(wc -l lib/a.txt)"]);
    assert!(refused.as_ref().is_none_or(|code| code == "COMMAND_BLOCKED"), "{refused:?}");
}

/// The kernel cannot know what a program does: it shows such a lesson, and runs nothing.
#[test]
fn command_that_may_write_is_not_run_because_of_a_lesson() {
    for (check, reset) in [("check", "reset"), ("--check", "--reset")] {
        let test = Test::new();
        let db = format!(
            "#!/bin/sh\n[ \"$1\" = {reset} ] && rm -f data/app.db && exit; echo 'error: broken'; exit 1\n"
        );
        executable(&test, "db.sh", &db);
        let [check, reset] = [check, reset].map(|option| bash(&format!("./db.sh {option}")));
        learnt(&test, &format!("{check}{reset}"));
        test.write("data/app.db", "x");
        let test = test.script(&format!("{check}text: done"));
        for args in [&[][..], &["--allow", "Bash(./db.sh *)"], &["--yolo"]] {
            test.run(&[&["Say hello."], args].concat()).expect_code(0);
            assert!(test.root().join("data/app.db").exists());
            assert!(test.events_of("tool.finished").iter().all(|it| it["by"] != "kernel"));
            assert!(test.has_event("memory.recalled"));
        }
    }
}

/// It is a call that the model did not write.
#[test]
fn question_about_a_fix_from_memory_shows_what_runs() {
    let test = Test::new().file("a.txt", "one\ttwo\n");
    let edit = |old: &str| {
        let input = json!({"path": "a.txt", "old_string": old, "new_string": "three"});
        format!("call: Edit {input}\n---\n")
    };
    let read = "call: Read {\"path\": \"a.txt\"}\n---\n";
    learnt(&test, &format!("{read}{}{}", edit("one two"), edit("one\ttwo")));
    test.write("a.txt", "one\ttwo\n");
    let test = test.script(&format!("{read}{}text: done", edit("one two")));
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("Say hello.");
    pty.wait_for("1 + three");
    pty.wait_for("Allow Edit a.txt?");
    pty.wait_for_question();
    pty.send("n");
    pty.wait_for("done");
    assert_eq!(test.read("a.txt"), "one\ttwo\n");
}

#[test]
fn recalled_lessons_survive_a_compaction() {
    let fill = |from: u32| -> String {
        let look = |n: u32| {
            let pattern = format!("*.{n}{}", "x".repeat(200));
            format!("call: Glob {}\n---\n", json!({"pattern": pattern}))
        };
        (from..from + 4).map(look).collect()
    };
    let (one, other) = (fill(1), fill(5));
    let script = format!(
        "{one}text: first is done\n---\n{other}text: second is done\n---\n\
         when: (?s)Memory: what earlier sessions taught.*fence green.*each evening.*### Objectives\n\
         text: it stands\n---\ntext: it is gone\n---\n\
         for: summary\ntext: ### Objectives & Status\ntext: two tasks are done"
    );
    let test = Test::new().script(&script);
    remember(&test, "Paint the garden fence green.");
    remember(&test, "Water tall roses each evening.");
    let mut pty = Pty::chat(&test, &["--set", "context.keep_rounds=1"]);
    pty.wait_for("script");
    pty.say("Please paint the garden fence.");
    // Recalled lessons are shown within the turn.
    let is_done = || std::fs::read_to_string(test.log()).unwrap().contains("turn.finished");
    pty.wait("the end of the turn", |screen| screen.contains("first is done") && is_done());
    pty.say("Now water the tall roses, each evening.");
    pty.wait_for("second is done");
    let told = test.events_of("memory.recalled");
    let in_rules: Vec<bool> = told.iter().map(|it| it["in_rules"] == true).collect();
    assert_eq!(in_rules, [true, false]);
    pty.say("/compact");
    pty.wait("the summary", |_| test.has_event("context.compacted"));
    pty.say("Say something.");
    pty.wait_for("it stands");
    assert_eq!(test.events_of("memory.recalled").len(), 2, "and is not said again");
    pty.say("/quit");
    pty.end();
}

#[test]
fn chat_lists_shows_and_forgets_lessons() {
    let test = Test::new().script("text: done");
    let id = remember(&test, "Run the fast suite first.");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("script");
    pty.say("/memory");
    pty.wait_for(&id);
    pty.say(&format!("/memory show {id}"));
    pty.wait_for("Run the fast suite first.");
    pty.wait_for("in all projects");
    pty.say(&format!("/memory forget {id}"));
    pty.wait_for(&format!("forgot {id}"));
    let done = test.agent(&["memory", "list", "--all"]).expect_code(0);
    assert_eq!(done.stdout, "");
}
