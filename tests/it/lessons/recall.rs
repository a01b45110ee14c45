//! How the kernel uses lessons: at the start of a task, after a failure and in a reflection; and
//! what it does if the memory is corrupt, locked, foreign or disabled.

use std::os::unix::fs::PermissionsExt as _;

use agent_learning::lesson::{Lesson, Origin, Scope};
use agent_learning::store::{Batch, Store as _};
use agent_protocol::recall::LessonKind;
use serde_json::{Value, json};

use crate::lessons::memory::{self, store};
use crate::support::Test;

/// A script, and one under its old name that always fails, so that the call can be made.
fn project() -> Test {
    let gone = "#!/bin/sh\necho \"old.sh: error: is gone\" >&2; exit 3\n";
    let test = Test::new();
    executable(&test, "new.sh", "#!/bin/sh\necho new $*\n");
    executable(&test, "old.sh", gone);
    test
}

pub(crate) fn executable(test: &Test, path: &str, text: &str) {
    test.write(path, text);
    let path = test.root().join(path);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A script turn that runs this command.
pub(crate) fn bash(command: &str) -> String {
    format!("call: Bash {}\n---\n", json!({"command": command}))
}

/// Runs a session with these calls and returns the only lesson in memory.
pub(crate) fn learnt(test: &Test, calls: &str) -> Lesson {
    std::fs::write(test.root().join("../script"), format!("{calls}text: done\n")).unwrap();
    test.run(&["do the work", "--allow", "Bash", "--set", "learning.distil=\"never\""])
        .expect_code(0);
    let lessons = store(test).lessons(&[]).unwrap();
    assert_eq!(lessons.len(), 1, "{lessons:#?}");
    lessons.into_iter().next().unwrap()
}

/// The earlier session: `old.sh a b` failed, `new.sh a b` worked.
fn old_is_new(test: &Test) -> Lesson {
    learnt(test, &format!("{}{}", bash("./old.sh a b"), bash("./new.sh a b")))
}

/// The earlier session: a file was counted at its old place, then at its new one.
pub(crate) fn moved() -> (Test, Lesson) {
    let test = Test::new().file("lib/a.txt", "here\n");
    let lesson = learnt(&test, &format!("{}{}", bash(AT_OLD_PLACE), bash(AT_NEW_PLACE)));
    (test, lesson)
}

pub(crate) const AT_OLD_PLACE: &str = "wc -l src/a.txt";
pub(crate) const AT_NEW_PLACE: &str = "wc -l lib/a.txt";
const MOVED: &str =
    "`wc -l src/a.txt` failed: wc: src/a.txt: No such file or directory. `wc -l lib/a.txt` worked.";

const LESSON: &str = "`./old.sh a b` failed: old.sh: error: is gone. `./new.sh a b` worked.";

fn decisions(test: &Test) -> Vec<String> {
    let decided = test.events_of("control.decided").into_iter();
    let decided = decided.filter(|event| event["decision"] != "continue");
    let word = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    decided.map(|e| format!("{} {}", word(&e, "decision"), word(&e, "detail"))).collect()
}

fn by_the_kernel(test: &Test) -> Vec<Value> {
    let finished = test.events_of("tool.finished").into_iter();
    finished.filter(|event| event["by"] == "kernel").collect()
}

/// The lessons recalled at this moment, each with whether the kernel applied it.
fn recalled(test: &Test, moment: &str) -> Vec<(String, bool)> {
    let recalled = test.events_of("memory.recalled").into_iter();
    let items = recalled.filter(|event| event["moment"] == moment).flat_map(|event| {
        let is_applied = event["applied"] == true;
        let items = event["items"].as_array().unwrap().clone();
        items.into_iter().map(move |item| (item["text"].as_str().unwrap().to_owned(), is_applied))
    });
    items.collect()
}

#[test]
fn known_failure_is_fixed_by_the_kernel_as_a_counted_retry() {
    let (test, lesson) = moved();
    assert_eq!(lesson.text, MOVED);
    let test = test.script(&format!("{}when: 1 lib/a.txt\ntext: done", bash(AT_OLD_PLACE)));
    test.run(&["say hello"]).expect_code(0).expect_stdout("done\n");
    let decisions = decisions(&test);
    assert!(decisions.len() == 1 && decisions[0].starts_with("retry"), "{decisions:?}");
    assert_eq!(recalled(&test, "failure"), [(MOVED.to_owned(), true)]);
    let own = by_the_kernel(&test);
    assert_eq!(own.len(), 1);
    assert_eq!(own[0]["envelope"]["data"]["stdout"], "1 lib/a.txt\n");
    let recalled = test.events_of("memory.recalled");
    assert_eq!(own[0]["parent_call"], recalled.last().unwrap()["call"]);
    assert_eq!(test.events_of("model.requested").len(), 2, "no model was asked why");
    let known = store(&test).find_lesson(&lesson.id).unwrap().unwrap();
    assert_eq!((known.recalled, known.helped, known.hurt), (1, 2, 0));
}

#[test]
fn progress_counts_the_lessons_recalled_for_a_task() {
    let test = project();
    old_is_new(&test);
    let test = test.script("times: any\ntext: done");
    let run = test.run(&["use ./old.sh a b"]).expect_code(0);
    assert!(run.stderr.contains("remembers 1 lesson of earlier sessions"), "{}", run.stderr);
    assert!(!run.stderr.contains(LESSON), "{}", run.stderr);
    let run = test.run(&["use ./old.sh a b", "--verbose"]).expect_code(0);
    assert!(run.stderr.contains(LESSON), "{}", run.stderr);
}

#[test]
fn known_file_tool_failure_is_fixed_by_the_kernel() {
    let read = |path: &str| format!("call: Read {}\n---\n", json!({"path": path}));
    let test = Test::new().file("lib/a.txt", "here it is\n");
    let lesson = learnt(&test, &format!("{}{}", read("src/a.txt"), read("lib/a.txt")));
    let text = &lesson.text;
    assert!(text.ends_with("Read {\"path\":\"lib/a.txt\"} worked."), "{text}");
    let test = test.script(&format!("{}when: here it is\ntext: done", read("src/a.txt")));
    test.run(&["say hello"]).expect_code(0).expect_stdout("done\n");
    assert_eq!(by_the_kernel(&test).len(), 1);
}

#[test]
fn lesson_for_a_different_call_is_shown_but_not_applied() {
    for command in ["./old.sh a", "./old.sh a b c", "./old.sh b a"] {
        let test = project();
        old_is_new(&test);
        let script = format!(
            "{}when: Memory: this failed .*`./new.sh a b` worked\ntext: done",
            bash(command)
        );
        let test = test.script(&script);
        test.run(&["say hello"]).expect_code(0).expect_stdout("done\n");
        assert_eq!(by_the_kernel(&test), [Value::Null; 0], "{command}");
        assert_eq!(recalled(&test, "failure"), [(LESSON.to_owned(), false)], "{command}");
    }
}

#[test]
fn lesson_is_not_recalled_for_a_different_failure() {
    let test = project();
    old_is_new(&test);
    executable(&test, "old.sh", "#!/bin/sh\necho \"old.sh: error: no rights\" >&2; exit 3\n");
    let test = test.script(&format!("{}text: done", bash("./old.sh a b")));
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(recalled(&test, "failure"), []);
}

#[test]
fn multi_call_fix_is_shown_but_not_applied() {
    let needs =
        "#!/bin/sh\n[ -f made ] || { echo 'test.sh: error: made is missing' >&2; exit 1; }\n";
    for calls in [
        // A command in between; another tool; two failures.
        [bash("./test.sh"), bash("touch made"), bash("./test.sh")],
        [
            bash("./test.sh"),
            format!("call: Write {}\n---\n", json!({"path": "made", "content": ""})),
            bash("./test.sh"),
        ],
        [bash("./test.sh"), bash("./test.sh x"), bash("touch made; ./test.sh")],
    ] {
        let test = Test::new();
        executable(&test, "test.sh", needs);
        let lesson = learnt(&test, &calls.concat());
        std::fs::remove_file(test.root().join("made")).unwrap();
        let test = test.script(&format!("{}text: done", bash("./test.sh")));
        test.run(&["say hello", "--allow", "Bash"]).expect_code(0);
        assert_eq!(recalled(&test, "failure"), [(lesson.text, false)]);
        assert!(!test.root().join("made").exists());
    }
}

#[test]
fn low_confidence_fix_is_shown_but_not_applied() {
    let (test, lesson) = moved();
    store(&test).update_lesson(&lesson.id, |lesson| lesson.hurt = 1).unwrap();
    let test = test.script(&format!("{}text: done", bash(AT_OLD_PLACE)));
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(by_the_kernel(&test), [Value::Null; 0]);
    assert_eq!(recalled(&test, "failure"), [(MOVED.to_owned(), false)]);
    let known = store(&test).find_lesson(&lesson.id).unwrap().unwrap();
    assert_eq!(known.recalled, 1);
}

#[test]
fn risky_fix_is_shown_but_not_applied() {
    for mode in ["auto-edit", "full"] {
        for command in ["rm -rf lib", "git push --force", "sudo ./new.sh"] {
            let (test, lesson) = moved();
            let fix = json!({"command": command}).as_object().cloned();
            store(&test)
                .update_lesson(&lesson.id, |lesson| {
                    lesson.helped = 5;
                    lesson.failure.as_mut().unwrap().fix.clone_from(&fix);
                })
                .unwrap();
            let test = test.script(&format!("{}text: done", bash(AT_OLD_PLACE)));
            test.run(&["say hello", "--permission-mode", mode]).expect_code(0);
            assert_eq!(recalled(&test, "failure"), [(MOVED.to_owned(), false)], "{command}");
            assert!(test.root().join("lib/a.txt").exists());
        }
    }
}

#[test]
fn lessons_are_shown_once_per_turn() {
    let test = project();
    old_is_new(&test);
    let (one, other) = (bash("./old.sh c"), bash("./old.sh d"));
    let test = test.script(&format!("{one}{other}text: one\n---\n{one}text: two"));
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(recalled(&test, "failure").len(), 1);
    let test = test.script(&format!("{one}text: two"));
    test.run(&["say hello", "-c"]).expect_code(0);
    assert_eq!(recalled(&test, "failure").len(), 2);
}

#[test]
fn failed_fix_is_not_retried_and_lowers_confidence() {
    let (test, lesson) = moved();
    std::fs::remove_file(test.root().join("lib/a.txt")).unwrap();
    std::fs::create_dir(test.root().join("lib/a.txt")).unwrap();
    let old = bash(AT_OLD_PLACE);
    let test = test.script(&format!("{old}{old}text: done"));
    test.run(&["say hello"]).expect_code(0);
    assert_eq!(by_the_kernel(&test).len(), 1);
    let known = store(&test).find_lesson(&lesson.id).unwrap().unwrap();
    assert_eq!((known.recalled, known.helped, known.hurt), (1, 1, 1));
}

#[test]
fn fix_with_the_same_failure_lowers_confidence() {
    let (test, lesson) = moved();
    std::fs::remove_file(test.root().join("lib/a.txt")).unwrap();
    let test = test.script(&format!("{}text: done", bash(AT_OLD_PLACE)));
    test.run(&["say hello"]).expect_code(0);
    let known = store(&test).find_lesson(&lesson.id).unwrap().unwrap();
    assert_eq!((known.helped, known.hurt), (1, 1));
}

/// The answer of a reflection.
fn reflection(action: &Value) -> String {
    let cause = json!({"category": "parameter_error", "text": "it moved", "confidence": 0.9});
    let said = json!({"failure_signal": "tool_error", "root_cause": cause, "fix_strategy": [],
        "suggested_action": action, "patch_prompt": "", "memory_to_write": []});
    format!("text: {said}\ntimes: any\n")
}

#[test]
fn reflections_receive_similar_lessons() {
    let test = project();
    old_is_new(&test);
    let users = memory::lesson(Scope::User, LessonKind::Rule, "Since May old.sh is new.sh.");
    let other = memory::lesson(Scope::User, LessonKind::Rule, "Paint the fence green.");
    store(&test).commit(&Batch { lessons: vec![users, other], ..Batch::default() }).unwrap();
    let action = json!({"kind": "alternative", "tool": "Bash", "input": {"command": "./new.sh c"}});
    let lesson = regex_of(LESSON);
    let script = format!(
        "{}{}when: new c\ntext: found\n---\ntext: lost\n---\nfor: reflect\nwhen: {lesson}\n\
         when: Since May old.sh is new.sh\n{}",
        bash("./old.sh c"),
        bash("./old.sh c"),
        reflection(&action)
    );
    let test = test.script(&script);
    let reflect = ["--set", "recovery.reflect_after=1"];
    test.run(&[&["say hello"], &reflect[..]].concat()).expect_code(0).expect_stdout("found\n");
    let told: Vec<String> =
        recalled(&test, "reflection").into_iter().map(|(text, _)| text).collect();
    assert!(told.contains(&LESSON.to_owned()), "{told:?}");
    assert!(told.iter().all(|text| !text.contains("fence")), "{told:?}");
}

fn regex_of(text: &str) -> String {
    text.replace('.', "\\.")
}

#[test]
fn reflection_without_lessons_records_no_recall() {
    let script = format!(
        "{}{}text: done\n---\nfor: reflect\nwhen: (?i)lessons.*none\n{}",
        bash("./old.sh c"),
        bash("./old.sh c"),
        reflection(&Value::Null)
    );
    let test = project().script(&script);
    test.run(&["say hello", "--set", "recovery.reflect_after=1"]).expect_code(0);
    assert!(test.has_event("reflection") && !test.has_event("memory.recalled"));
}

#[test]
fn different_commands_that_fail_in_the_same_way_need_no_reflection() {
    let script = format!("{}{}text: done", bash("grep -q foo x.txt"), bash("grep -q bar x.txt"));
    let test = project().file("x.txt", "one\n").script(&script);
    test.run(&["look", "--set", "recovery.reflect_after=1"]).expect_code(0);
    assert!(test.has_event("tool.finished") && !test.has_event("reflection"));
}

#[test]
fn project_lessons_are_in_l2_and_later_ones_in_the_conversation() {
    let test = project();
    old_is_new(&test);
    let lesson = regex_of(LESSON);
    let test = test.script(&format!("when: (?s)^.*Memory:.*{lesson}\ntext: one"));
    // Independent of the task: a true lesson that is not needed does no harm.
    test.run(&["paint the fence"]).expect_code(0).expect_stdout("one\n");
    let first = test.events_of("memory.recalled");
    assert_eq!((first.len(), &first[0]["in_rules"]), (1, &json!(true)));
    assert_eq!(first[0]["moment"], "task");
    let requested = test.events_of("model.requested");
    assert!(requested[0]["layers"]["l2"]["bytes"].as_u64().unwrap() > 0);

    // Lessons already shown stay in place and are not repeated.
    test.agent(&["memory", "add", "Water the roses."]).expect_code(0);
    let test = test.script("when: (?s)<system-reminder>.*Memory:.*Water the roses\ntext: two");
    test.run(&["say hello", "-c"]).expect_code(0).expect_stdout("two\n");
    let recalled = test.events_of("memory.recalled");
    assert_eq!((recalled.len(), &recalled[1]["in_rules"]), (2, &Value::Null));
    let items = recalled[1]["items"].as_array().unwrap();
    assert_eq!((items.len(), &items[0]["text"]), (1, &json!("Water the roses.")));
    let again = test.events_of("model.requested");
    for layer in ["l1", "l2"] {
        assert_eq!(again[1]["layers"][layer]["hash"], again[0]["layers"][layer]["hash"]);
    }
}

#[test]
fn user_lessons_are_recalled_only_for_matching_tasks() {
    let test = project().script("times: any\ntext: done");
    let add = |args: &[&str]| test.agent(&[&["memory", "add"], args].concat()).expect_code(0);
    add(&["Answer in German."]);
    add(&["--user", "After a release tell the team."]);
    let told = |task: &str| {
        test.run(&[task]).expect_code(0);
        let mut told: Vec<String> =
            recalled(&test, "task").into_iter().map(|(text, _)| text).collect();
        told.sort();
        told
    };
    assert_eq!(told("say hello"), ["Answer in German."]);
    assert_eq!(
        told("publish the release 1.4"),
        ["After a release tell the team.", "Answer in German."]
    );
}

#[test]
fn recalled_lessons_stay_within_the_token_limit() {
    let test = Test::new().script("times: any\ntext: done");
    let many = (0..200).map(|n| {
        let scope = Scope::Project(test.root().display().to_string());
        let text = format!("Lesson number {n} says that module {n} is built with `make m{n}`.");
        memory::lesson(scope, LessonKind::Rule, &text)
    });
    store(&test).commit(&Batch { lessons: many.collect(), ..Batch::default() }).unwrap();
    let tokens = |args: &[&str]| {
        test.run(&[&["build module 17"], args].concat()).expect_code(0);
        let told = recalled(&test, "task");
        let bytes: usize = told.iter().map(|(text, _)| text.len()).sum();
        (told.iter().any(|(text, _)| text.contains("module 17 ")), bytes / 3)
    };
    let (is_recalled, n) = tokens(&[]);
    assert!(is_recalled && (50..=400).contains(&n), "{n}");
    assert!(tokens(&["--set", "learning.max_recalled_tokens=50"]).1 <= 50);
    assert_eq!(tokens(&["--set", "learning.max_recalled_tokens=0"]), (false, 0));
}

#[test]
fn prompt_is_unchanged_if_no_lesson_matches() {
    let sent = |args: &[&str], remembers: bool| {
        let test = project().script("call: LS {}\n---\ntext: done");
        if remembers {
            let user = memory::lesson(Scope::User, LessonKind::Rule, "Paint the fence green.");
            let there = memory::lesson(
                Scope::Project("elsewhere".to_owned()),
                LessonKind::Rule,
                "Say hello twice.",
            );
            store(&test).commit(&Batch { lessons: vec![user, there], ..Batch::default() }).unwrap();
        }
        let mut all = vec!["say hello"];
        all.extend(args);
        test.run(&all).expect_code(0);
        assert!(!test.has_event("memory.recalled") && !test.has_event("memory.written"));
        let requested = test.events_of("model.requested");
        let layers =
            |event: &Value| (event["layers"]["l2"].clone(), event["layers"]["l3"]["bytes"].clone());
        (requested.iter().map(layers).collect::<Vec<_>>(), test.events().len())
    };
    let without = sent(&["--no-memory"], false);
    assert_eq!(sent(&[], false), without);
    assert_eq!(sent(&[], true), without);
}

#[test]
fn disabled_memory_learns_and_recalls_nothing() {
    let calls = format!("{}{}text: done", bash("./old.sh a b"), bash("./new.sh a b"));
    for how in ["option", "variable", "ephemeral", "configuration"] {
        let mut test = project().script(&calls);
        if how == "variable" {
            test = test.env("AGENT_NO_MEMORY", "1");
        }
        if how == "configuration" {
            test = test.user_config("[learning]\nenabled = false\n");
        }
        let option = match how {
            "option" => "--no-memory",
            "ephemeral" => "--ephemeral",
            _ => "--quiet",
        };
        test.run(&["run the old script", option]).expect_code(0);
        assert!(!test.home().join(".local/share/agent/memory.db").exists(), "{how}");
        if how == "option" {
            old_is_new(&test);
            let test = test.script(&format!("{}text: done", bash("./old.sh a b")));
            test.run(&["run the old script", option]).expect_code(0);
            assert!(!test.has_event("memory.recalled"));
        }
    }
}

/// Notices about the memory that the user sees.
fn notices(test: &Test) -> Vec<String> {
    let errors = test.events_of("error").into_iter().filter(|event| event["source"] == "memory");
    errors.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn invalid_database_is_reported_once_and_replaced() {
    let calls = format!("{}{}text: done", bash("./old.sh a b"), bash("./new.sh a b"));
    let test = project().script(&calls);
    let folder = test.home().join(".local/share/agent");
    std::fs::create_dir_all(&folder).unwrap();
    let text = "this is no database at all, whoever wrote it";
    std::fs::write(folder.join("memory.db"), text).unwrap();
    test.run(&["run the old script"]).expect_code(0).expect_stdout("done\n");
    let notices = notices(&test);
    assert!(notices.len() == 1 && notices[0].contains("was set aside as"), "{notices:?}");
    assert_eq!(store(&test).lessons(&[]).unwrap().len(), 1);
}

#[test]
fn database_of_another_version_is_reported_once_and_unchanged() {
    let calls = format!("{}{}text: one", bash("./old.sh a b"), bash("./new.sh a b"));
    for (how, expected) in [
        ("PRAGMA user_version = 99", "a newer version"),
        ("PRAGMA user_version = 2", "an older version"),
        ("PRAGMA application_id = 7", "not a memory file of this program"),
    ] {
        let test = project();
        old_is_new(&test);
        let path = store(&test).path().to_path_buf();
        let db = rusqlite::Connection::open(&path).unwrap();
        db.execute_batch(&format!("{how}; PRAGMA journal_mode = delete")).unwrap();
        drop(db);
        let before = std::fs::read(&path).unwrap();
        let test = test.script(&calls);
        test.run(&["run the old script"]).expect_code(0).expect_stdout("one\n");
        let notices = notices(&test);
        assert!(notices.len() == 1 && notices[0].contains(expected), "{how} {notices:?}");
        assert!(!test.has_event("memory.recalled"));
        assert_eq!(std::fs::read(&path).unwrap(), before, "{how}");
        test.agent(&["memory", "list"]).expect_code(2).expect_one_line_of_stderr(expected);
    }
}

#[test]
fn read_only_database_is_still_read() {
    let test = project();
    old_is_new(&test);
    let calls = format!("{}{}text: one", bash("./old.sh c"), bash("./new.sh c"));
    let test = test.script(&calls);
    for name in ["memory.db", "memory.db-wal", "memory.db-shm"] {
        let path = test.home().join(".local/share/agent").join(name);
        if path.exists() {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o444)).unwrap();
        }
    }
    let folder = test.home().join(".local/share/agent");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o555)).unwrap();
    let test_name = "read_only_database_is_still_read";
    let Some(test) = test.unprivileged(test_name) else { return };
    test.run(&["run the old script"]).expect_code(0).expect_stdout("one\n");
    let notices = notices(&test);
    assert!(notices.len() <= 1, "{notices:?}");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[ignore = "slow"]
fn locked_database_does_not_block_a_task() {
    let test = project();
    old_is_new(&test);
    let calls = format!("{}{}text: one", bash("./old.sh c"), bash("./new.sh c"));
    let test = test.script(&calls);
    let db = rusqlite::Connection::open(store(&test).path()).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    test.run(&["run the old script"]).expect_code(0).expect_stdout("one\n");
    // Readers do not wait for a writer.
    assert!(test.has_event("memory.recalled") && !test.has_event("memory.written"));
    db.execute_batch("ROLLBACK").unwrap();
    assert_eq!(store(&test).lessons(&[]).unwrap().len(), 1);
}

#[test]
fn concurrent_sessions_store_all_lessons() {
    let test = Test::new();
    for n in 0..6 {
        let calls = format!(
            "{}{}text: done",
            bash(&format!("cat gone{n}.txt")),
            bash(&format!("cat a.txt ok{n}.txt"))
        );
        test.write("a.txt", "a\n");
        test.write(&format!("ok{n}.txt"), "ok\n");
        std::fs::write(test.root().join(format!("../script{n}")), calls).unwrap();
    }
    let children: Vec<_> = (0..6)
        .map(|n| {
            // The result must not depend on the load of the machine.
            let wait = ["--set", "learning.wait_ms=10000"];
            let model = format!("script:../script{n}");
            test.spawn(&[&["run", "look", "--model", &model], &wait[..]].concat())
        })
        .collect();
    let said: Vec<String> = children
        .into_iter()
        .map(|child| {
            let done = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{said}");
            said
        })
        .collect();
    let lessons = store(&test).lessons(&[]).unwrap();
    for (n, said) in said.iter().enumerate() {
        let name = format!("ok{n}.txt");
        let is_stored = lessons.iter().any(|lesson| lesson.text.contains(&name));
        assert!(is_stored, "{n}: {said}\n{lessons:#?}");
    }
}

#[test]
fn untrusted_project_does_not_share_lessons_through_its_remote() {
    let config = "[remote \"origin\"]\n\turl = git@example.com:team/app.git\n";
    let script = "call: Bash {\"command\":\"./gen.sh a\"}\n---\n\
                  call: Bash {\"command\":\"bash gen.sh a\"}\n---\ntext: done";
    let scopes = |args: &[&str]| {
        let test =
            Test::new().file(".git/config", config).file("gen.sh", "echo $*\n").script(script);
        // Independent of git's own checks: the agent reads the configuration itself.
        test.run(&[&["generate it", "--allow", "Bash"], args].concat()).expect_code(0);
        let lessons = store(&test).lessons(&[]).unwrap();
        let listed = |args: &[&str]| {
            let all = [&["memory", "list", "--project"], args].concat();
            test.agent(&all).expect_code(0).stdout.lines().count()
        };
        let root = test.root().canonicalize().unwrap().display().to_string();
        let scopes: Vec<Scope> = lessons.into_iter().map(|lesson| lesson.scope).collect();
        (scopes, Scope::Project(root), listed(&[]), listed(&["--trust"]))
    };
    let (scopes_of_it, path, listed, as_trusted) = scopes(&[]);
    assert_eq!((scopes_of_it, listed, as_trusted), (vec![path], 1, 0));
    let (scopes_of_it, _, listed, as_trusted) = scopes(&["--trust"]);
    let remote = Scope::Project("example.com/team/app".to_owned());
    assert_eq!((scopes_of_it, listed, as_trusted), (vec![remote], 0, 1));
}

/// Whether the lesson with this id was recalled.
fn is_recalled(test: &Test, id: &str) -> bool {
    let recalled = test.events_of("memory.recalled").into_iter();
    recalled.flat_map(|event| event["items"].as_array().unwrap().clone()).any(|it| it["id"] == id)
}

#[test]
fn lesson_that_became_wrong_is_no_longer_recalled() {
    let without = "#!/bin/sh\ncase \" $* \" in *' --fast '*) \
                   echo \"run.sh: error: unknown option --fast\" >&2; exit 2;; esac\necho ran $*\n";
    let with = "#!/bin/sh\necho ran $*\n";
    for other in ["./run.sh a", "./run.sh --slow a"] {
        let test = Test::new();
        executable(&test, "run.sh", without);
        let calls = format!("{}{}", bash("./run.sh --fast a"), bash(other));
        let lesson = learnt(&test, &calls);
        executable(&test, "run.sh", with);
        let test = test.script(&format!("{}text: done", bash("./run.sh --fast a")));
        test.run(&["run it"]).expect_code(0);
        assert!(is_recalled(&test, &lesson.id));
        let known = store(&test).find_lesson(&lesson.id).unwrap().unwrap();
        assert!(known.hurt > 1 && !known.is_in_use(), "{other} {known:#?}");
        test.run(&["run it"]).expect_code(0);
        assert!(!test.has_event("memory.recalled"), "{other}");
        let retired = test.agent(&["memory", "list", "--retired"]).expect_code(0).stdout;
        assert!(retired.contains("(retired)"), "{retired}");
        // The next review removes it.
        test.agent(&["memory", "review", "--dry-run"]).expect_code(0);
        assert_eq!(store(&test).lessons(&[]).unwrap().len(), 1);
        test.agent(&["memory", "review"]).expect_code(0);
        assert_eq!(store(&test).lessons(&[]).unwrap(), []);
    }
}

#[test]
fn learnt_encoding_is_used_in_the_second_session() {
    let read =
        |encoding: &str| bash(&format!("python3 -c \"print(open('data.csv'{encoding}).read())\""));
    let (wrong, right) = (read(", encoding='utf-8'"), read(", encoding='gb18030'"));
    // "温度" in GB 18030.
    let test = Test::new().file("data.csv", [0xce, 0xc2, 0xb6, 0xc8, b'\n']);
    let lesson = learnt(&test, &format!("{wrong}{right}"));
    assert!(lesson.text.contains("UnicodeDecodeError"), "{}", lesson.text);
    // The second session follows the lesson if there is one; otherwise it repeats the mistake.
    let test = test.script(&format!(
        "when: encoding='gb18030'.* worked\n{right}when: 温度\ntext: read\n---\n{wrong}"
    ));
    test.run(&["Sum up data.csv"]).expect_code(0).expect_stdout("read\n");
    let finished = test.events_of("tool.finished");
    assert_eq!(finished.len(), 1);
    assert_eq!(finished[0]["envelope"]["status"], "success");
    let known = store(&test).find_lesson(&lesson.id).unwrap().unwrap();
    assert_eq!((known.recalled, known.helped, known.hurt), (1, 2, 0));
    let show = test.agent(&["memory", "show", &lesson.id]).expect_code(0).stdout;
    assert!(
        show.contains("recalled  1×: helped 2, hurt 0") && show.contains(", events "),
        "{show}"
    );
}

/// The texts that a task is shown at its start.
fn shown(test: &Test, task: &str, args: &[&str]) -> Vec<String> {
    test.run(&[&[task], args].concat());
    recalled(test, "task").into_iter().map(|(text, _)| text).collect()
}

#[test]
fn repair_of_code_is_recalled_for_its_file_and_at_the_same_failure() {
    let broken = "print(open('data.csv', encoding='utf-8').read())\n";
    // "温度" in GB 18030.
    let test = Test::new().file("data.csv", [0xce, 0xc2, 0xb6, 0xc8, b'\n']);
    let test = test.file("load.py", broken);
    let load = bash("python3 load.py");
    let read = "call: Read {\"path\": \"load.py\"}\n---\n";
    let edit = json!({"path": "load.py", "old_string": "utf-8", "new_string": "gb18030"});
    let lesson = learnt(&test, &format!("{load}{read}call: Edit {edit}\n---\n{load}"));
    assert!(lesson.text.contains("gb18030"), "{}", lesson.text);
    test.write("load.py", broken);
    let test = test.script("times: any\ntext: done");
    for task in ["say hello", "Why is upload.py so slow?", "Run python3 -m pydoc."] {
        assert_eq!(shown(&test, task, &[]), [""; 0], "{task}");
    }
    for task in ["What does load.py print?", "`python3 load.py` shows nothing"] {
        assert_eq!(shown(&test, task, &[]), [&*lesson.text], "{task}");
    }
    // The same failure of another program is another one.
    test.write("other.py", broken);
    for (call, told) in [(load, 1), (bash("python3 other.py"), 0)] {
        let test = &test;
        std::fs::write(test.root().join("../script"), format!("{call}text: done\n")).unwrap();
        test.run(&["say hello", "--allow", "Bash"]).expect_code(0);
        assert_eq!(recalled(test, "failure").len(), told);
        assert_eq!(recalled(test, "task"), []);
    }
}

#[test]
fn check_of_the_project_names_its_program() {
    let gate = "#!/bin/sh\ngrep -q end a.txt || { echo 'gate: error: no end' >&2; exit 2; }\n";
    let test = Test::new().file("a.txt", "begin\n");
    executable(&test, "bin/gate", gate);
    let read = "call: Read {\"path\": \"a.txt\"}\n---\n";
    let edit = json!({"path": "a.txt", "old_string": "begin", "new_string": "begin, end"});
    let gate = bash("bin/gate");
    learnt(&test, &format!("{gate}{read}call: Edit {edit}\n---\n{gate}"));
    let test = test.script("times: any\ntext: done");
    assert_eq!(shown(&test, "say hello", &["--check", "true"]).len(), 0);
    assert_eq!(shown(&test, "say hello", &["--check", "bin/gate"]).len(), 1);
}

#[test]
fn relation_by_one_word_is_recalled_after_a_second_occurrence() {
    let test = Test::new();
    executable(&test, "bin/pack", "#!/bin/sh\necho 'error: no key' >&2; exit 3\n");
    executable(&test, "bin/notes", "#!/bin/sh\n");
    let calls = format!("{}{}", bash("bin/pack release"), bash("bin/notes release"));
    let lesson = learnt(&test, &calls);
    let test = test.script("times: any\ntext: done");
    assert_eq!(shown(&test, "release", &[]), [""; 0]);
    let show = test.agent(&["memory", "show", &lesson.id]).expect_code(0).stdout;
    assert!(show.contains("not yet: one word relates its calls"), "{show}");
    learnt(&test, &calls);
    let test = test.script("times: any\ntext: done");
    assert_eq!(shown(&test, "release", &[]), [&*lesson.text]);
}

#[test]
fn dangerous_commands_are_not_learnt() {
    let test = Test::new();
    executable(&test, "pack.sh", "#!/bin/sh\n[ ! -f old ] || { echo 'error: old' >&2; exit 3; }\n");
    for remedy in ["rm old", "mv old older"] {
        test.write("old", "");
        let calls = [bash("./pack.sh"), bash(remedy), bash("./pack.sh")].concat();
        std::fs::write(test.root().join("../script"), format!("{calls}text: done\n")).unwrap();
        let args = ["do the work", "--allow", "Bash", "--set", "learning.distil=\"never\""];
        test.run(&args).expect_code(0);
        assert_eq!(store(&test).lessons(&[]).unwrap(), [], "{remedy}");
    }
}

#[test]
fn task_is_shown_three_lessons_and_those_of_the_user() {
    let test = Test::new().script("times: any\ntext: done");
    let scope = || Scope::Project(test.root().display().to_string());
    let learnt = ["alpha", "beta", "gamma", "delta"]
        .map(|name| memory::lesson(scope(), LessonKind::Pattern, &format!("Lift {name}.")));
    let own = ["Speak low.", "Speak slowly."].map(|text| Lesson {
        origin: Origin::User,
        ..memory::lesson(scope(), LessonKind::Rule, text)
    });
    store(&test)
        .commit(&Batch { lessons: [&learnt[..], &own].concat(), ..Batch::default() })
        .unwrap();
    let shown = shown(&test, "delta", &[]);
    assert_eq!((shown.len(), shown[2].as_str()), (5, "Lift delta."), "{shown:?}");
    assert!(shown[..2].iter().all(|text| text.starts_with("Speak")), "{shown:?}");
}
