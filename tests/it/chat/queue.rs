//! Messages and commands that wait: for the session, for the end of a turn, for a command of the user.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::server::{self, Server};
use crate::support::{Pty, Test, running, wait_for};

/// A call that lasts until the file `go` exists, and the answer after it.
const WAITS: &str =
    "call: Bash {\"command\": \"until [ -e go ]; do sleep 0.05; done\"}\n---\ntext: over";

/// A chat that is busy with [`WAITS`].
fn busy(test: &Test, args: &[&str]) -> Pty {
    let mut pty = Pty::chat(test, &[&["--yolo"], args].concat());
    pty.wait_for("/help");
    pty.say("begin");
    pty.wait_for("◦ Bash");
    pty
}

/// Keeps a command of the chat for the time after the turn.
fn queue_command(pty: &mut Pty, command: &str) {
    pty.send(command);
    pty.wait_for("closes the list");
    pty.send("\x1b");
    pty.wait("a closed list", |screen| !screen.contains("closes the list"));
    pty.send("\t");
    pty.wait_for(&format!("▸ after this turn: {command}"));
}

fn said(test: &Test) -> Vec<String> {
    let turns = test.events_of("turn.started");
    turns.iter().map(|event| event["input"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn queued_command_waits_for_a_shell_command_and_keeps_the_draft_and_its_list() {
    let test = Test::new().file("src/main.rs", "").script(WAITS);
    let mut pty = busy(&test, &[]);
    pty.say("!sleep 100");
    pty.wait_for("! sleep 100");
    queue_command(&mut pty, "/fork");
    pty.send("please look at @src/ma");
    pty.wait_for("▸ @src/main.rs");
    test.write("go", "");
    pty.wait_for("▸ after your command: /fork");
    pty.send("\r");
    pty.wait_for("› please look at @src/main.rs");
    // With the command of the user, what waits for it is not run; it does not become a part of the draft.
    pty.send("\x1b");
    pty.wait_for("! not run: /fork");
    pty.wait_for("\n› please look at @src/main.rs\n");
    assert!(!test.has_event("session.forked"));
}

#[test]
fn what_follows_a_failed_shell_command_is_returned() {
    let test = Test::new().script(WAITS);
    let mut pty = busy(&test, &[]);
    pty.send("!exit 3\t");
    pty.wait_for("▸ after this turn: !exit 3");
    pty.send("commit it\t");
    pty.wait_for("▸ after this turn: commit it");
    test.write("go", "");
    pty.wait_for("the work failed: what was to follow it is not sent");
    pty.wait_for("\n› commit it\n");
    assert_eq!(said(&test), ["begin"]);
    // Without a turn as well.
    pty.send("\x15");
    pty.say("!sleep 0.5; exit 3");
    pty.wait_for("! sleep 0.5");
    pty.send("commit it now\t");
    pty.wait_for("▸ after your command: commit it now");
    pty.wait_for("\n› commit it now\n");
    assert_eq!(said(&test), ["begin"]);
}

/// A command alone comes back as a command. Next to a message it would be sent to the model with it.
#[test]
fn queued_commands_come_back_as_commands_or_are_named() {
    let test = Test::new().script(&format!("{WAITS}\n---\ntext: not read"));
    let mut pty = busy(&test, &[]);
    queue_command(&mut pty, "/cost");
    pty.send("\x1b");
    pty.wait_for("stopped by you");
    pty.wait_for("\n› /cost\n");
    assert!(!pty.screen().contains("text, not a command"), "{}", pty.screen());
    pty.send("\r");
    pty.wait_for("This session");

    let mut pty = busy(&test, &[]);
    queue_command(&mut pty, "/cost");
    pty.send("and then this\t");
    pty.wait_for("▸ after this turn: and then this");
    pty.send("\x1b");
    pty.wait_for("! not run: /cost");
    pty.wait_for("\n› and then this\n");
}

#[test]
fn message_typed_while_the_session_opens_stays_queued_and_comes_back() {
    let (may_open, may_answer) =
        (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let gates = (may_open.clone(), may_answer.clone());
    let server = Server::with(move |request, _| {
        let is_answer = request.path.ends_with("/chat/completions");
        let gate = if is_answer { &gates.1 } else { &gates.0 };
        wait_for(|| gate.load(Ordering::SeqCst));
        if is_answer {
            return server::sse_text("never read");
        }
        server::json(200, &serde_json::json!({"data": [{"id": "m"}]}))
    });
    let test = Test::new().user_config(&format!(
        "model = \"auto\"\n[providers.local]\nbase_url = \"{}\"\n",
        server.url()
    ));
    let mut pty = Pty::start(&test, &["begin with this"], 24, 80, "xterm-256color");
    pty.wait_for("starting");
    pty.say("the second");
    pty.wait_for("▸ queued: the second");
    may_open.store(true, Ordering::SeqCst);
    wait_for(|| test.try_log().is_some() && test.has_event("model.requested"));
    pty.wait_for("waiting for the model");
    pty.wait_for("▸ after this answer: the second");
    pty.send("\x1b");
    pty.wait_for("› the second");
    assert!(!pty.screen().contains("▸ after"), "{}", pty.screen());
    may_answer.store(true, Ordering::SeqCst);
    assert_eq!(said(&test), ["begin with this"]);
}

#[test]
fn what_follows_a_command_that_begins_a_turn_is_a_turn_of_its_own() {
    let script = format!("{WAITS}\n---\ntext: the rules\n---\ntext: the end");
    let test = Test::new().script(&script);
    let mut pty = busy(&test, &[]);
    queue_command(&mut pty, "/init");
    pty.send("and then this\t");
    pty.wait_for("▸ after this turn: and then this");
    test.write("go", "");
    pty.wait_for("the end");
    assert_eq!(said(&test), ["begin", "/init", "and then this"]);
    assert!(!test.has_event("turn.steered"));
}

#[test]
fn what_follows_a_failed_turn_is_returned() {
    let test = Test::new().script(WAITS);
    let mut pty = busy(&test, &["--max-turns", "1"]);
    pty.send("!touch followed\t");
    pty.wait_for("▸ after this turn: !touch followed");
    test.write("go", "");
    pty.wait_for("the work failed: what was to follow it is not sent");
    pty.wait_for("› !touch followed");
    assert!(!test.root().join("followed").exists());
    // It is a command again.
    pty.send("\r");
    wait_for(|| test.root().join("followed").exists());
}

#[test]
fn plain_chat_refuses_to_end_a_shell_command_and_prints_what_comes_back() {
    let script = "call: Bash {\"command\": \"sleep 60.77\"}\n---\ntext: never";
    let test = Test::new().script(script);
    let mut pty = Pty::chat(&test, &["--plain", "--yolo"]);
    pty.wait_for("sandbox");
    pty.send("!until [ -e go ]; do sleep 0.05; done; echo it has ended\r");
    for command in ["/clear", "/resume x", "/rewind 1", "/fork"] {
        pty.send(&format!("{command}\r"));
        pty.wait_for(&format!("not sent: {command}"));
    }
    assert_eq!(pty.screen().matches("your command runs: wait").count(), 4, "{}", pty.screen());
    test.write("go", "");
    pty.wait("its output", |screen| screen.contains("\n    it has ended"));
    pty.send("/clear\r");
    pty.wait_for("a new one");
    pty.send("begin\r");
    wait_for(|| !running("sleep 60.77").is_empty());
    pty.send("and then this\r");
    pty.wait_for("and then this");
    pty.send("\x03");
    pty.wait_for("not sent: and then this");
}
