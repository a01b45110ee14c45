//! Limits of memory: rules override fixes, recalled lessons survive a compaction, and the chat can
//! list and forget them.

use code_agent::learning::lesson::Scope;
use code_agent::protocol::recall::LessonKind;
use serde_json::json;

use crate::chat::Pty;
use crate::memory::{self, store};
use crate::recall::{bash, executable, learnt};
use crate::support::Test;

/// Stores a user rule for all projects; returns its id.
fn remember(test: &Test, text: &str) -> String {
    let lesson = memory::lesson(Scope::User, LessonKind::Rule, text);
    store(test).import(std::slice::from_ref(&lesson)).unwrap();
    lesson.id
}

/// Memory knows that `./old.sh all` fails and `./new.sh all` works.
fn old_is_new() -> Test {
    let test = Test::new();
    executable(&test, "new.sh", "#!/bin/sh\ntouch ran\necho new\n");
    learnt(&test, &format!("{}{}", bash("./old.sh all"), bash("./new.sh all")));
    std::fs::remove_file(test.root().join("ran")).unwrap();
    test.script(&format!("{}text: done", bash("./old.sh all")))
}

#[test]
fn deny_rule_overrides_a_fix_from_memory() {
    let test = old_is_new();
    test.run(&["Say hello.", "--allow", "Bash"]).expect_code(0);
    assert!(test.root().join("ran").exists(), "nothing forbids it");
    let test = old_is_new();
    let deny = ["--deny", "Bash(./new.sh all)"];
    test.run(&[&["Say hello.", "--allow", "Bash"][..], &deny].concat()).expect_code(0);
    assert!(!test.root().join("ran").exists());
    // A refused fix does not count as a permission that the task needed: the run succeeds.
    let refused = test.events_of("tool.finished").into_iter().find(|e| e["by"] == "kernel");
    assert!(refused.is_none_or(|it| it["envelope"]["error"]["code"] == "COMMAND_BLOCKED"));
}

/// What another operand does is not known: it is told, and not run.
#[test]
fn command_with_another_operand_is_not_run_because_of_a_lesson() {
    let test = Test::new();
    let db = "#!/bin/sh\n[ \"$1\" = reset ] && rm -f data/app.db && exit; echo 'error: it is broken'; exit 1\n";
    executable(&test, "db.sh", db);
    learnt(&test, &format!("{}{}", bash("./db.sh check"), bash("./db.sh reset")));
    test.write("data/app.db", "x");
    let test = test.script(&format!("{}text: done", bash("./db.sh check")));
    test.run(&["Say hello.", "--allow", "Bash"]).expect_code(0);
    assert!(test.root().join("data/app.db").exists());
    assert!(test.events_of("tool.finished").iter().all(|it| it["by"] != "kernel"));
    assert!(test.has_event("memory.recalled"));
}

/// It is a call that the model did not write.
#[test]
fn question_about_a_fix_from_memory_shows_what_runs() {
    let test = old_is_new();
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("Say hello.");
    pty.wait_for("Allow Bash ./old.sh all?");
    pty.wait_for_question();
    pty.send("y");
    pty.wait_for("? Bash ./new.sh all");
    pty.wait_for("Allow Bash ./new.sh all?");
    pty.wait_for_question();
    pty.send("n");
    pty.wait_for("done");
    assert!(!test.root().join("ran").exists());
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
