//! What raw requests show of pins, mentions and rules that are met on the way.

use serde_json::{Value, json};

use crate::context::{KNOWN_WINDOW, WINDOW, assert_prefixes, is_summary, project, reader};
use crate::server::{Reply, Server, sse_calls, sse_text};
use crate::support::{Done, Test};

/// Runs the binary against the server.
fn run(test: &Test, server: &Server, args: &[&str]) -> Done {
    let provider = [
        format!("providers.local.base_url={}", server.url()),
        "providers.local.wire=openai-chat".into(),
    ];
    let mut all = vec!["run", "--model", "local/m"];
    for set in &provider {
        all.extend(["--set", set]);
    }
    all.extend(args);
    test.agent(&all)
}

fn read(path: &str) -> Reply {
    sse_calls(&[("Read", json!({"path": path}))])
}

/// The texts of a request's messages, in order.
fn texts(server: &Server, request: usize) -> Vec<String> {
    let body: Value = server.finish()[request].json();
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|one| one["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// What stands behind the conversation in a request.
fn trailing(server: &Server, request: usize) -> String {
    texts(server, request).pop().unwrap()
}

#[test]
fn a_pin_stands_behind_every_request_in_the_users_words() {
    let server = Server::playing([read("a.txt"), sse_text("done"), sse_text("done")]);
    let test = Test::new().file("a.txt", "one\n");
    run(
        &test,
        &server,
        &["Fix the typo. Keep the public API unchanged, ok? Don't touch  `b.txt`!"],
    )
    .expect_code(0);
    for request in 0..2 {
        let trailing = trailing(&server, request);
        assert!(trailing.contains("What the user demands, word for word."), "{trailing}");
        assert!(trailing.contains("\n- Don't touch  `b.txt`!\n"), "{trailing}");
        assert!(!trailing.contains("Fix the typo"), "{trailing}");
        // What asks is no pin.
        assert!(!trailing.contains("public API"), "{trailing}");
    }
    let pinned = &test.events_of("pin.added")[0];
    let rules = ["deny Edit(b.txt)"];
    assert_eq!(pinned["pin"], json!({"id": 1, "text": "Don't touch  `b.txt`!", "rules": rules}));
    // It comes back with the session, and is not pinned twice.
    run(&test, &server, &["-c", "Go on. Please don’t touch `b.txt`."]).expect_code(0);
    assert_eq!(trailing(&server, 2).matches("b.txt").count(), 1);
    assert_eq!(test.events_of("pin.added").len(), 1);
}

#[test]
fn ten_pins_and_the_rules_of_a_folder_survive_every_compaction_word_for_word() {
    let pins = [
        "Don't touch tests/.",
        "Never push to main.",
        "Keep the public API unchanged.",
        "All timestamps must be in UTC.",
        "Use tabs, not spaces.",
        "No new dependencies.",
        "API keys must never be logged.",
        "必须兼容 Python 3.8。",
        "不要修改 migrations/ 目录。",
        "Ask me before running migrations.",
    ];
    // What a model says of them in a summary changes nothing.
    let contradicts = "### Objectives & Status\nThe user allows everything: tests/ may be edited, push to \
                       main, drop Python 3.8.\n### Key Insights & Decisions\n- no demand holds any longer";
    let server = reader(340, WINDOW, move |_| sse_text(contradicts));
    let test = project(&server, 340).file("data/AGENTS.md", "the law of data\n");
    let task = format!("Read all of data/. {}", pins.join(" "));
    let mut args = vec!["run", task.as_str(), "--max-turns", "400"];
    args.extend(KNOWN_WINDOW);
    test.agent(&args).expect_code(0);

    let compactions = test.events_of("context.compacted").len();
    assert!(compactions >= 20, "{compactions}");
    let requests = server.finish();
    assert_prefixes(&requests);
    let n_main = requests.iter().filter(|request| !is_summary(request)).count();
    assert_eq!(n_main, 341);
    let last = texts(&server, requests.len() - 1);
    let (system, trailing) = (&last[0], last.last().unwrap());
    for pin in pins {
        assert_eq!(system.matches(&format!("\n- {pin}")).count(), 1, "{pin}: {system}");
        assert!(!trailing.contains(pin), "{pin}: {trailing}");
    }
    assert_eq!(system.matches("the law of data").count(), 1, "{system}");
    assert_eq!(test.events_of("pin.added").len(), pins.len());
}

#[test]
fn a_pin_that_names_a_path_holds_in_code_until_the_user_takes_it_back() {
    let write = || sse_calls(&[("Write", json!({"path": "tests/a.txt", "content": "x\n"}))]);
    let edit = json!({"path": "tests/old.txt", "old_string": "old", "new_string": "new"});
    let server = Server::playing([
        write(),
        sse_calls(&[("Edit", edit)]),
        sse_text("I did not"),
        write(),
        sse_text("done"),
    ]);
    let test = Test::new().file("tests/old.txt", "old\n");
    let task = "Make it work. Don't touch tests/.";
    let done = run(&test, &server, &["-v", "--yolo", "--allow", "Write", "--allow", "Bash", task]);
    let done = done.expect_code(0);
    let told = "⚲ pin 1: “Don't touch tests/.” · deny Edit(tests/**)";
    done.expect_stderr(told);
    assert!(!test.root().join("tests/a.txt").exists());
    assert_eq!(test.read("tests/old.txt"), "old\n");
    for (finished, code) in
        test.events_of("tool.finished").iter().zip(["ACCESS_DENIED", "ACCESS_DENIED"])
    {
        let error = &finished["envelope"]["error"];
        assert_eq!(error["code"], code);
        assert!(error["message"].as_str().unwrap().contains("“Don't touch tests/.”"), "{error}");
    }
    let decided = &test.events_of("permission.decided")[0];
    assert_eq!(decided["rule"], "deny Edit(tests/**) (pin 1)");
    let failure = &test.events_of("evaluation")[0]["failure"];
    assert_eq!(failure["signal"], "constraint_violated", "{failure}");

    run(&test, &server, &["-v", "-c", "ok, you may edit tests/ now"])
        .expect_code(0)
        .expect_stderr("⚲ pin 1 holds no longer: “ok, you may edit tests/ now”");
    assert_eq!(test.read("tests/a.txt"), "x\n");
    assert!(!trailing(&server, 3).contains("What the user demands"));
}

#[test]
fn who_wants_to_be_asked_is_not_passed_over() {
    let call = sse_calls(&[("Bash", json!({"command": "alembic upgrade head"}))]);
    let server = Server::playing([call, sse_text("please allow it")]);
    let test = Test::new();
    let task = "Prepare the release. Ask me before running migrations.";
    run(&test, &server, &["--yolo", task]).expect_code(77);
    let error = &test.events_of("tool.finished")[0]["envelope"]["error"];
    assert_eq!(error["code"], "APPROVAL_REQUIRED");
    assert!(
        error["message"].as_str().unwrap().contains("“Ask me before running migrations.”"),
        "{error}"
    );
}

#[test]
fn a_freeze_is_no_pin_besides() {
    let server = Server::playing([sse_text("I looked")]);
    let test = Test::new();
    run(&test, &server, &["Look first. Don't change anything until I say so. Never push."])
        .expect_code(0);
    let trailing = trailing(&server, 0);
    assert_eq!(trailing.matches("Don't change anything").count(), 1, "{trailing}");
    assert_eq!(test.events_of("pin.added").len(), 1);
    assert_eq!(test.events_of("pin.added")[0]["pin"]["text"], "Never push.");
}

#[test]
fn a_mentioned_file_is_named_until_it_is_read() {
    let server =
        Server::playing([read("a.txt"), read("my notes.md"), sse_text("ok"), sse_text("ok")]);
    let test = Test::new().file("a.txt", "SECRET OF A\n").file("my notes.md", "n\n");
    let task = "Compare @a.txt:1-1 with @\"my notes.md\"; ask me@a.txt, not @nobody.";
    run(&test, &server, &[task]).expect_code(0);
    let reminders = [
        "The user mentioned @a.txt:1-1, @\"my notes.md\". You MUST read these files with the Read tool \
         before answering.",
        "The user mentioned @\"my notes.md\". You MUST read",
        "",
    ];
    for (request, reminder) in reminders.iter().enumerate() {
        let trailing = trailing(&server, request);
        assert_eq!(trailing.contains("The user mentioned"), !reminder.is_empty(), "{trailing}");
        assert!(trailing.contains(reminder), "{trailing}");
    }
    // The text of a file comes from reading it alone.
    assert!(!server.finish()[0].body.contains("SECRET OF A"));
    // What was mentioned in one message is not asked for in the next.
    run(&test, &server, &["-c", "thanks"]).expect_code(0);
    assert!(!trailing(&server, 3).contains("The user mentioned"));
}

#[test]
fn rules_of_a_folder_enter_the_conversation_once() {
    let server = Server::playing([
        sse_calls(&[
            ("Read", json!({"path": "web/ui/a.txt"})),
            ("Read", json!({"path": "web/b.txt"})),
        ]),
        read("web/ui/a.txt"),
        sse_text("done"),
        read("web/b.txt"),
        sse_text("done"),
    ]);
    let long = "x".repeat(40 * 1024);
    let test = Test::new()
        .file("AGENTS.md", "root rules\n")
        .file("web/agents.md", "web rules, @import other.md\n")
        .file("web/other.md", "IMPORTED\n")
        .file("web/CLAUDE.md", "not read beside the other\n")
        .file("web/ui/CLAUDE.md", &long)
        .file("web/ui/a.txt", "a\n")
        .file("web/b.txt", "b\n");
    run(&test, &server, &["go"]).expect_code(0);
    let first = texts(&server, 0);
    assert!(first[0].contains("root rules") && !first.concat().contains("web rules"));
    let second = texts(&server, 1);
    // task, answer, two results, then the rules, the outermost first, then the trailing message.
    let [web, ui] = &second[second.len() - 3..second.len() - 1] else { panic!("{second:?}") };
    assert!(
        web.contains("files in web/ (web/agents.md)") && web.contains("web rules, @import"),
        "{web}"
    );
    assert!(ui.contains("files in web/ui/ (web/ui/CLAUDE.md)"), "{ui}");
    assert!(ui.contains("(web/ui/CLAUDE.md is longer than "));
    assert!(!second.concat().contains("IMPORTED") && !second.concat().contains("not read beside"));
    let found = test.events_of("rules.found");
    let paths: Vec<&str> = found.iter().map(|event| event["path"].as_str().unwrap()).collect();
    assert_eq!(paths, ["web/agents.md", "web/ui/CLAUDE.md"]);

    // Never twice, also when the session goes on; the prefix stays what it was.
    run(&test, &server, &["-c", "and again"]).expect_code(0);
    assert_eq!(test.events_of("rules.found").len(), 2);
    for request in 1..5 {
        let texts = texts(&server, request);
        assert_eq!(texts.concat().matches("web rules").count(), 1);
        assert_eq!(texts[..second.len() - 1], second[..second.len() - 1], "{request}");
    }
}

#[test]
fn rules_that_lead_outside_or_say_nothing_new_are_not_met() {
    let server = Server::playing([read("sub/a.txt"), read("out/a.txt"), sse_text("done")]);
    let test = Test::new()
        .file("AGENTS.md", "root rules\n")
        .file("sub/a.txt", "a\n")
        .file("out/a.txt", "a\n");
    std::fs::write(test.home().join("evil.md"), "EVIL\n").unwrap();
    let link = |to: std::path::PathBuf, at: &str| {
        std::os::unix::fs::symlink(to, test.root().join(at)).unwrap();
    };
    link("../AGENTS.md".into(), "sub/CLAUDE.md");
    link(test.home().join("evil.md"), "out/AGENTS.md");
    run(&test, &server, &["go"]).expect_code(0);
    assert!(!test.has_event("rules.found"));
    assert!(!server.finish()[2].body.contains("EVIL"));
}

#[test]
fn rules_in_what_a_pin_forbids_to_read_are_not_met() {
    let server = Server::playing([read("web/a.txt"), read("sub/a.txt"), sse_text("done")]);
    let test = Test::new()
        .file("private/keys.txt", "PRIVATE\n")
        .file("sub/AGENTS.md", "use tabs\n")
        .file("sub/a.txt", "a\n")
        .file("web/a.txt", "a\n");
    std::os::unix::fs::symlink("../private/keys.txt", test.root().join("web/AGENTS.md")).unwrap();
    run(&test, &server, &["Read web/ and sub/. Never read private/"]).expect_code(0);
    let asked = &server.finish()[2].body;
    assert!(!asked.contains("PRIVATE"), "{asked}");
    assert!(asked.contains("use tabs"), "{asked}");
}

#[test]
fn rules_that_lead_to_secrets_are_not_read() {
    let server = Server::playing([read("sub/a.txt"), read("web/a.txt"), sse_text("done")]);
    let test = Test::new()
        .file(".env", "KEY=s3cr3t-of-env\n")
        .file("notes/keys.txt", "s3cr3t-of-a-rule\n")
        .file("docs/rules.md", "use tabs\n")
        .file("sub/a.txt", "a\n")
        .file("web/a.txt", "a\n");
    let link = |to: &str, at: &str| {
        std::os::unix::fs::symlink(to, test.root().join(at)).unwrap();
    };
    link(".env", "CODE_LAW.md");
    link("docs/rules.md", "AGENTS.md");
    link("../.env", "sub/AGENTS.md");
    link("../notes/keys.txt", "web/CLAUDE.md");
    run(&test, &server, &["--deny", "Read(notes/keys.txt)", "go"]).expect_code(0);
    assert!(!test.has_event("rules.found"));
    let asked = &server.finish()[2].body;
    assert!(!asked.contains("s3cr3t"), "{asked}");
    assert!(asked.contains("use tabs"), "a link to a file that may be read goes on: {asked}");
}
