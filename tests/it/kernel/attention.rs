//! What requests contain for `@` mentions and for rule files found in subdirectories.

use serde_json::{Value, json};

use crate::support::server::{Reply, Server, sse_calls, sse_text};
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

/// The text of each message of a request, in order.
fn texts(server: &Server, request: usize) -> Vec<String> {
    let body: Value = server.finish()[request].json();
    let messages = body["messages"].as_array().unwrap();
    messages.iter().map(|one| one["content"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn mention_reminder_is_added_once() {
    let server =
        Server::playing([read("a.txt"), read("my notes.md"), sse_text("ok"), sse_text("ok")]);
    let test = Test::new().file("a.txt", "SECRET OF A\n").file("my notes.md", "n\n");
    let task = "Compare @a.txt:1-1 with @\"my notes.md\"; ask me@a.txt, not @nobody.";
    run(&test, &server, &[task]).expect_code(0);
    let reminder = "The user mentioned @a.txt:1-1, @\"my notes.md\". You MUST read these files with the \
                    Read tool before answering.";
    for request in 0..3 {
        let texts = texts(&server, request).concat();
        assert_eq!(texts.matches(reminder).count(), 1, "{texts}");
    }
    // A mention does not include the content: the model has to read the file.
    assert!(!server.finish()[0].body.contains("SECRET OF A"));
    // A mention in one message adds no reminder to the next.
    run(&test, &server, &["-c", "thanks"]).expect_code(0);
    assert_eq!(texts(&server, 3).concat().matches("The user mentioned").count(), 1);
}

#[test]
fn directory_rules_are_added_to_the_conversation_once() {
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
    // Task, answer, two results, then the rules in one message, outermost directory first.
    let rules = second.last().unwrap();
    let at = rules.find("files in web/ui/").unwrap();
    let (web, ui) = rules.split_at(at);
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

    // Added only once, also after a resume; the prefix is unchanged.
    run(&test, &server, &["-c", "and again"]).expect_code(0);
    assert_eq!(test.events_of("rules.found").len(), 2);
    for request in 1..5 {
        let texts = texts(&server, request);
        assert_eq!(texts.concat().matches("web rules").count(), 1);
        assert_eq!(texts[..second.len()], second[..], "{request}");
    }
}

#[test]
fn rules_linked_outside_the_project_or_already_loaded_are_ignored() {
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
fn rules_linked_to_denied_paths_are_ignored() {
    let server = Server::playing([read("web/a.txt"), read("sub/a.txt"), sse_text("done")]);
    let test = Test::new()
        .file("private/keys.txt", "PRIVATE\n")
        .file("sub/AGENTS.md", "use tabs\n")
        .file("sub/a.txt", "a\n")
        .file("web/a.txt", "a\n");
    std::os::unix::fs::symlink("../private/keys.txt", test.root().join("web/AGENTS.md")).unwrap();
    run(&test, &server, &["Read web/ and sub/.", "--deny", "Read(private/)"]).expect_code(0);
    let asked = &server.finish()[2].body;
    assert!(!asked.contains("PRIVATE"), "{asked}");
    assert!(asked.contains("use tabs"), "{asked}");
}

#[test]
fn rules_linked_to_secret_files_are_ignored() {
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
