//! Prompts of servers as commands, and their resources in messages.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::results::PNG;
use super::{server, with};
use crate::support::{Done, Pty, Test, signal, wait_for};

fn offering() -> Test {
    Test::new()
        .user_config(&with("t", "offers", &format!("PNG = {PNG:?}")))
        .script("times: any\ntext: done")
}

/// The start of the latest turn.
fn turn(test: &Test) -> Value {
    test.events_of("turn.started").pop().unwrap()
}

/// What the model received as the user's message.
fn shown(test: &Test) -> String {
    turn(test)["shown"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn prompt_of_a_server_is_a_command() {
    let test = offering();
    let check = |message: &str, expected: &str| {
        test.run(&[message]).expect_code(0).expect_stdout("done\n");
        assert_eq!(turn(&test)["input"], message);
        assert_eq!(shown(&test), expected);
    };
    check(
        "/mcp__t__greet Ann \"very kind\"",
        "Greet as told: {\"name\":\"Ann\",\"tone\":\"very kind\"}",
    );
    check("/mcp__t__greet Ann", "Greet as told: {\"name\":\"Ann\"}");
    check("/mcp__t__two_parts", "User: Who?\n\nAssistant: Me.");
    check("/mcp__t__picture", "What is it?");
    assert_eq!(turn(&test)["images"][0]["media_type"], "image/png");
    let piped = offering().stdin("a log\n");
    piped.run(&["/mcp__t__two_parts"]).expect_code(0);
    assert_eq!(shown(&piped), "User: Who?\n\nAssistant: Me.\n\n<stdin>\na log\n</stdin>");
}

#[test]
fn prompt_that_cannot_be_had_is_one_error() {
    let check = |test: &Test, message: &str, part: &str| {
        let done = test.run(&[message]).expect_code(1).expect_stderr(part);
        assert_eq!(done.stderr.matches(part).count(), 1, "{}", done.stderr);
        assert!(test.events_of("model.requested").is_empty());
        assert_eq!(test.events_of("turn.finished")[0]["ending"], "failed");
        // It is no part of the conversation.
        assert_eq!(test.events_of("turn.started")[0]["blocked"], true);
    };
    let test = offering();
    let missing = "the argument <name> is missing: /mcp__t__greet <name> [tone]";
    check(&test, "/mcp__t__greet", missing);
    let unknown = "the MCP server t has no prompt \"great\": did you mean /mcp__t__greet?";
    check(&test, "/mcp__t__great Ann", unknown);
    check(&test, "/mcp__t__fails", "the MCP server t: no such user");
    check(&test, "/mcp__t__dies", "the MCP server t ended before it answered");
    check(&test, "/mcp__u__greet", "/mcp__u__greet names no MCP server");
    let dead = Test::new().user_config(&server("exits")).script("text: done");
    let why = "the MCP server t is not available: it exited with 3; its last output: no database";
    check(&dead, "/mcp__t__greet", why);
    let without = Test::new().user_config(&server("")).script("text: done");
    check(&without, "/mcp__t__greet", "the MCP server t has no prompt \"greet\": it has none");
    let none = Test::new().script("text: done");
    check(&none, "/mcp__t__greet", "no MCP server is configured");
    let done = test.run(&["/mcp__t__greet", "--output-format", "json"]).expect_code(1);
    assert_eq!(
        (&done.lines()[0]["is_error"], &done.lines()[0]["errors"][0]),
        (&true.into(), &missing.into())
    );
}

#[test]
fn resource_in_a_message_is_attached() {
    // (The folder is not meant.)
    let test = offering().file("t/a.txt", "x\n");
    test.run(&["What is in @t:note:///a, and in @t:note:///a?"]).expect_code(0);
    let expected = "What is in @t:note:///a, and in @t:note:///a?\n\n\
        <resource name=\"t:note:///a\">\none of the note\ntwo\n</resource>";
    assert_eq!(shown(&test), expected);
    assert!(test.events_of("feedback").is_empty());
    // Its sentences are not the user's.
    test.run(&["See @t:note:///orders"]).expect_code(0);
    assert!(shown(&test).contains("Do not change anything") && !test.has_event("mode.changed"));
    test.run(&["Do not change anything until I say so."]).expect_code(0);
    assert!(test.has_event("mode.changed"));
    test.run(&["See @t:note:///picture"]).expect_code(0);
    assert_eq!(turn(&test)["images"][0]["media_type"], "image/png");
    test.run(&["-c", "and @t:note:///a"]).expect_code(0);
    assert!(shown(&test).contains("one of the note"));
}

#[test]
fn resource_that_cannot_be_read_is_one_notice() {
    let check = |test: &Test, message: &str, part: &str| -> Done {
        let done = test.run(&[message]).expect_code(0).expect_stdout("done\n");
        assert_eq!(done.stderr.matches(part).count(), 1, "{}", done.stderr);
        assert_eq!(done.stderr.matches("is not attached").count(), 1, "{}", done.stderr);
        assert_eq!(turn(test)["shown"], Value::Null);
        done
    };
    let test = offering();
    check(
        &test,
        "@t:note:///x",
        "@t:note:///x is not attached: the MCP server t: Resource not found",
    );
    check(
        &test,
        "@t:note:///binary",
        "@t:note:///binary is not attached: it is not text (application/pdf, 3 bytes)",
    );
    check(&test, "@t:note:///dies", "the MCP server t ended before it answered");
    let dead = Test::new().user_config(&server("exits")).script("text: done");
    check(&dead, "@t:note:///a", "the MCP server t is not available: it exited with 3");
    let blind = ["@t:note:///picture", "--set", "models.\"script:../script\".images=false"];
    let done = test.run(&blind).expect_code(0);
    let part = "an image of the message is not read: this model takes no images";
    assert_eq!(done.stderr.matches(part).count(), 1, "{}", done.stderr);
}

#[test]
fn server_that_does_not_answer_delays_a_message_up_to_its_limit() {
    let log = tempfile::tempdir().unwrap();
    let log = log.path().join("log");
    let test = Test::new()
        .user_config(&with("t", "offers", &format!("LOG = {:?}", log.to_str().unwrap())))
        .script("text: done");
    let limit = ["@t:note:///hangs", "--set", "mcp.servers.t.timeout=\"1s\""];
    let part = "@t:note:///hangs is not attached: the MCP server t did not answer within 1 s";
    let done = test.run(&limit).expect_code(0).expect_stdout("done\n");
    assert_eq!(done.stderr.matches(part).count(), 1, "{}", done.stderr);
    std::fs::remove_file(&log).unwrap();
    let mut child = test.spawn(&["run", "@t:note:///hangs", "--model", "script:../script"]);
    let asked = || std::fs::read_to_string(&log).unwrap_or_default().contains("resources/read");
    wait_for(asked);
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "interrupted");
    assert!(test.events_of("model.requested").is_empty());
    // A message without what it names is no part of the conversation.
    assert_eq!(test.events_of("turn.started")[0]["blocked"], true);
}

#[test]
fn resource_of_50_megabytes_is_cut() {
    let test = offering();
    test.run(&["@t:note:///huge"]).expect_code(0);
    let shown = shown(&test);
    assert!(shown.len() < 60_000 && shown.contains("begins ") && shown.contains(" ends"));
    let path = shown.split_once("bytes are in ").unwrap().1.split_once(';').unwrap().0;
    assert!(std::fs::metadata(test.root().join(path)).unwrap().len() > 50_000_000, "{path}");
}

#[test]
fn chat_offers_prompts_and_resources() {
    let test = offering().script(
        "call: Bash {\"command\": \"sleep 1\"}\n---\ntext: first done\n---\ntext: second done",
    );
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    // The list is made when the slash is typed, with the prompts that are known by then.
    let offers = "Greets someone (MCP server t)";
    for _ in 0..1000 {
        pty.send("\u{15}/mcp__t__g");
        let begun = Instant::now();
        while !pty.screen().contains(offers) && begun.elapsed() < Duration::from_millis(200) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if pty.screen().contains(offers) {
            break;
        }
    }
    pty.wait_for(offers);
    pty.send("\t");
    pty.send("Ann");
    pty.send("\r");
    pty.wait_for("sleep 1");
    // A message that steers the turn may name a resource, too.
    pty.send("and @note");
    pty.wait_for("t:note:///huge");
    pty.send("\u{1b}");
    pty.wait("the list is closed", |screen| !screen.contains("t:note:///huge"));
    pty.send("\u{8}\u{8}\u{8}\u{8}t:note:///a ");
    pty.send("\r");
    pty.wait_for("first done");
    let expected = "Greet as told: {\"name\":\"Ann\"}";
    assert_eq!(test.events_of("turn.started")[0]["shown"], expected);
    let steered = test.events_of("turn.steered")[0]["shown"].as_str().unwrap().to_owned();
    assert!(
        steered.starts_with("and @t:note:///a") && steered.contains("one of the note"),
        "{steered}"
    );
}

#[test]
fn interrupt_while_a_resource_is_fetched_returns_the_messages_to_the_input() {
    let log = tempfile::tempdir().unwrap();
    let log = log.path().join("log");
    let test = Test::new()
        .user_config(&with("t", "offers", &format!("LOG = {:?}", log.to_str().unwrap())))
        .script("call: Bash {\"command\": \"sleep 1\"}\n---\ntext: not reached");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("begin");
    pty.wait_for("sleep 1");
    pty.say("look at @t:note:///hangs first");
    pty.say("and then rest");
    wait_for(|| std::fs::read_to_string(&log).unwrap_or_default().contains("resources/read"));
    pty.send("\u{1b}");
    pty.wait("the messages in the input", |screen| {
        test.has_event("turn.finished")
            && screen.contains("› look at @t:note:///hangs first\n  and then rest")
    });
    assert!(!test.has_event("turn.steered"));
}
