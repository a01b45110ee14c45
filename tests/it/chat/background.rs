//! Commands of the model that run in the background.

use crate::support::{Pty, Test, running, say};

#[test]
fn background_commands_are_counted_listed_and_ended() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"echo at work; sleep 313.71\", \"background\": true}\n\
         call: Bash {\"command\": \"sleep 0.5; exit 3\", \"background\": true}\n\
         call: Bash {\"command\": \"sleep 313.72 > /dev/null & echo begun\"}\n---\n\
         text: all run\n---\ncall: BashOutput {\"id\": \"bg_1\"}\ncall: BashOutput {\"id\": \"bg_2\"}\n---\ntext: it has ended",
    );
    let mut pty = Pty::chat(&test, &["--permission-mode", "read-only"]);
    pty.wait_for("/help");
    pty.say("start them");
    pty.wait_for("all run");
    // The second one has ended by itself.
    pty.wait_for("1 in background");
    pty.say("/tasks");
    pty.wait_for("/tasks stop ID ends one");
    pty.wait_for("\n    at work\n");
    let screen = pty.screen();
    let line = |command: &str| screen.lines().rev().find(|line| line.contains(command)).unwrap();
    assert!(line("sleep 313.71").contains("bg_1"), "{screen}");
    let pid = line("sleep 313.72").split_whitespace().find(|word| word.parse::<u32>().is_ok());
    let pid = pid.unwrap().to_owned();
    pty.say("/tasks stop bg_7");
    pty.wait_for("no command bg_7 runs in the background");
    pty.say("/tasks stop bg_1");
    pty.wait_for("bg_1 is ended");
    pty.wait("no count", |screen| !screen.contains("in background"));
    assert!(running("sleep 313.71").is_empty());
    pty.say(&format!("/tasks stop {pid}"));
    pty.wait_for(&format!("{pid} is ended"));
    assert!(running("sleep 313.72").is_empty());
    pty.say("and now?");
    pty.wait_for("it has ended");
    pty.wait_for("✓ Bash bg_2  ended, exit 3");
    let outputs = test.events_of("tool.finished");
    let text = outputs[outputs.len() - 2]["envelope"]["text"].to_string();
    assert!(text.contains("ended"), "{text}");
}

/// What is private to commands is said to the user, not only to the model.
#[test]
fn file_in_the_private_tmp_and_a_refused_localhost_are_shown_to_the_user() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let test = Test::new().script(&format!(
        "call: Bash {{\"command\": \"echo x > /tmp/result.txt\"}}\n---\n\
         call: Bash {{\"command\": \"exec 3<>/dev/tcp/127.0.0.1/{port}\"}}\n---\ntext: both done"
    ));
    let task = "write /tmp/result.txt";
    test.run(&[task]).expect_code(0);
    if !has_private_localhost(&test) {
        say(
            "SKIPPED: file_in_the_private_tmp_and_a_refused_localhost_are_shown_to_the_user: no namespaces here",
        );
        return;
    }
    let mut pty = Pty::chat(&test, &["--permission-mode", "auto-edit"]);
    pty.wait_for("/help");
    pty.say(task);
    pty.wait_for("both done");
    let shown = pty.screen().replace("\n    ", " ");
    assert!(shown.contains("! /tmp is private to this session and removed at its end"), "{shown}");
    assert!(shown.contains("! a connection to localhost was refused"), "{shown}");
    let progress = test.run(&[task]).stderr;
    assert!(progress.contains("    ! /tmp is private to this session"), "{progress}");
}

fn has_private_localhost(test: &Test) -> bool {
    let started = &test.events_of("session.started")[0]["sandbox"];
    started["network"] == "loopback" && started["backend"].as_str().unwrap().contains("namespaces")
}
