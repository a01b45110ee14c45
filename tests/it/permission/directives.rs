//! Directives in user messages that the program acts on: ask first, go ahead, protect a path, stop.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::kernel::context::is_summary;
use crate::support::server::{Server, sse_calls, sse_text};
use crate::support::{Done, Test};

const WRITE: &str = "call: Write {\"path\": \"new.txt\", \"content\": \"x\\n\"}\n---\n";

fn errors(test: &Test) -> Vec<Value> {
    let finished = test.events_of("tool.finished");
    finished.iter().map(|event| event["envelope"]["error"]["code"].clone()).collect()
}

fn modes(test: &Test) -> Vec<Value> {
    test.events_of("mode.changed").iter().map(|event| event["mode"].clone()).collect()
}

/// Runs a task whose last sentence is a directive for the permission mode.
fn asked(test: &Test, message: &str) -> Done {
    test.run(&["-v", message])
}

#[test]
fn ask_first_directive_blocks_changes_and_the_question_is_answered() {
    let test = Test::new().script(&format!("{WRITE}text: Because of a typo."));
    let message = "Don't change anything until I say so. Why does the test fail?";
    asked(&test, message).expect_code(77).expect_stderr("mode read-only");
    assert_eq!(errors(&test), ["ACCESS_DENIED"]);
    assert!(!test.root().join("new.txt").exists());
    let changed = &test.events_of("mode.changed")[0];
    assert_eq!(changed["mode"], "read-only");
    assert_eq!(changed["from"], "auto-edit");
    assert_eq!(changed["words"], "Don't change anything until I say so.");

    // An answer without an attempted change exits with 0.
    let test = Test::new().script("text: Because of a typo.");
    asked(&test, message).expect_code(0).expect_stdout("Because of a typo.\n");
}

#[test]
fn restricted_mode_survives_a_resume_until_go_ahead() {
    let test = Test::new().script("text: I will look first.");
    test.run(&["先不要改。看看为什么失败。"]).expect_code(0);
    let test = test.script(&format!("{WRITE}text: I could not."));
    test.run(&["-c", "and now?"]).expect_code(77);
    assert!(!test.root().join("new.txt").exists());
    let test = test.script(&format!("{WRITE}text: done"));
    test.run(&["-c", "OK, go ahead."]).expect_code(0);
    assert_eq!(test.read("new.txt"), "x\n");
    assert_eq!(modes(&test), ["read-only", "auto-edit"]);
}

#[test]
fn go_ahead_does_not_restore_a_mode_of_an_earlier_process() {
    let test = Test::new().script("text: ok");
    test.run(&["--yolo", "Don't change anything until I say so."]).expect_code(0);
    test.run(&["-c", "Go ahead."]).expect_code(0);
    assert_eq!(modes(&test), ["read-only", "auto-edit"]);

    // A mode given at startup replaces the restriction.
    let test = Test::new().script("text: ok");
    test.run(&["Don't change anything until I say so."]).expect_code(0);
    test.run(&["-c", "--permission-mode", "ask", "Go ahead."]).expect_code(0);
    assert_eq!(modes(&test), ["read-only"]);
}

#[test]
fn ask_directive_requires_approval_for_changes() {
    let test = Test::new().script(&format!("{WRITE}text: please allow it"));
    test.run(&["未经批准不得操作。修复它。"]).expect_code(77);
    assert_eq!(errors(&test), ["APPROVAL_REQUIRED"]);
    assert_eq!(modes(&test), ["ask"]);
}

#[test]
fn directives_never_widen_permissions() {
    let test = Test::new().script(&format!("{WRITE}text: no"));
    let args = ["--permission-mode", "read-only", "Ask me before you change anything. Go ahead."];
    test.run(&args).expect_code(77);
    assert!(modes(&test).is_empty(), "{:?}", modes(&test));
    assert!(!test.root().join("new.txt").exists());
}

#[test]
fn quoted_and_piped_text_contains_no_directives() {
    let test = Test::new().script(&format!("{WRITE}text: done"));
    let message = "The README says \"Don't change anything.\" and\n> No changes without my approval.\nFix it.";
    test.stdin("Don't change anything.\n").run(&[message]).expect_code(0);
}

#[test]
fn protected_path_is_denied_until_the_rule_is_removed() {
    let edit = json!({"path": "src/a.txt", "old_string": "old", "new_string": "new"});
    let script = format!(
        "call: Read {{\"path\": \"src/a.txt\"}}\n---\ncall: Edit {edit}\n---\n\
         call: Bash {{\"command\": \"echo new > src/a.txt\"}}\n---\n{WRITE}text: done"
    );
    let test = Test::new().file("src/a.txt", "old\n").script(&script);
    test.run(&["Make it work. Don't touch src/.", "--yolo"]).expect_code(0);
    assert_eq!(test.read("src/a.txt"), "old\n");
    assert_eq!(test.read("new.txt"), "x\n");
    assert_eq!(errors(&test)[1], "ACCESS_DENIED");
    let message = test.events_of("tool.finished")[1]["envelope"]["error"]["message"].clone();
    assert!(message.to_string().contains("“Don't touch src/.”"), "{message}");
    assert_eq!(test.events_of("rule.added")[0]["rule"]["rule"], "deny Edit(./src/)");
    assert_eq!(test.events_of("evaluation")[1]["failure"]["signal"], "constraint_violated");
    let shell = test.events_of("tool.finished")[2]["envelope"]["text"].to_string();
    if shell.contains("closed to commands") {
        assert!(shell.contains("“Don't touch src/.”"), "{shell}");
        assert!(shell.contains("/permissions remove 1"), "{shell}");
    }

    // The rule survives a resume.
    let test = test.script(&format!(
        "call: Read {{\"path\": \"src/a.txt\"}}\n---\ncall: Edit {edit}\n---\ntext: no"
    ));
    test.run(&["-c", "try again"]).expect_code(0);
    assert_eq!(test.read("src/a.txt"), "old\n");
}

#[test]
fn a_protected_path_may_contain_glob_characters_or_be_in_an_added_directory() {
    let beside = tempfile::tempdir().unwrap();
    let other = beside.path().canonicalize().unwrap().join("other.txt");
    std::fs::write(&other, "old\n").unwrap();
    let write = |path: &str| {
        let input = json!({"path": path, "content": "new\n"});
        format!("call: Read {{\"path\": \"{path}\"}}\n---\ncall: Write {input}\n---\n")
    };
    let other = other.display().to_string();
    let page = "app/[slug]/page.tsx";
    let script = [write(page), write(&other), write("app/s/page.tsx")].concat() + "text: done";
    let test = Test::new().file(page, "old\n").file("app/s/page.tsx", "old\n").script(&script);
    let added = beside.path().display().to_string();
    let message = format!("Don't touch app/[slug]/page.tsx. Don't edit {other}. Do it.");
    test.run(&["--add-dir", &added, &message]).expect_code(0);
    assert_eq!(test.read(page), "old\n");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "old\n");
    assert_eq!(test.read("app/s/page.tsx"), "new\n");
    let rules = test.events_of("rule.added");
    assert_eq!(rules[0]["rule"]["rule"], "deny Edit(./app/[[]slug[]]/page.tsx)");
}

#[test]
fn directive_for_a_missing_path_adds_no_rule() {
    let test = Test::new().script("text: ok");
    test.run(&["Don't touch the tests. Don't edit missing.txt."]).expect_code(0);
    assert!(!test.has_event("rule.added"));
}

#[test]
fn user_messages_survive_compactions_verbatim() {
    let window = 16_384;
    let summary = "### Objectives & Status\nwork\n### Key Insights & Decisions\nnone";
    let answers = AtomicUsize::new(0);
    let server = Server::with(move |request, _| {
        if is_summary(request) {
            return sse_text(summary);
        }
        match answers.fetch_add(1, Ordering::SeqCst) {
            n if n % 2 == 1 => sse_text("done"),
            n => sse_calls(&[("Read", json!({"path": format!("data/{}.txt", n / 2)}))]),
        }
    });
    let config = format!(
        "model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n[models.\"test/m\"]\n\
         context_window = {window}\n",
        server.url()
    );
    let text = "a line of some length that is read again and again\n".repeat(120);
    let test = (0..30).fold(Test::new().user_config(&config), |test, n| {
        test.file(&format!("data/{n}.txt"), &text)
    });
    let messages: Vec<String> = (1..=30)
        .map(|n| format!("Message {n}: keep rule {n}, “never drop column {n}”, and read on."))
        .collect();
    for (n, message) in messages.iter().enumerate() {
        let mut args = vec!["run"];
        args.extend(["-c"].iter().filter(|_| n > 0));
        args.push(message);
        test.agent(&args).expect_code(0);
    }
    assert!(test.events_of("context.compacted").len() >= 5);
    let requests = server.finish();
    let last = requests.last().unwrap().json().to_string();
    for message in &messages {
        assert_eq!(last.matches(message.as_str()).count(), 1, "{message}");
    }
    let order: Vec<usize> = messages.iter().map(|it| last.find(it.as_str()).unwrap()).collect();
    assert!(order.is_sorted(), "{order:?}");
    for request in test.events_of("model.requested") {
        assert!(request["estimated_tokens"].as_u64().unwrap() <= window, "{request}");
    }
}
