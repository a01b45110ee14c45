//! Commands of the model that run in the background.

use super::pty::Pty;
use crate::support::{Test, running};

#[test]
fn background_commands_are_counted_listed_and_ended() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"sleep 313.71\", \"background\": true}\n\
         call: Bash {\"command\": \"sleep 0.2\", \"background\": true}\n\
         call: Bash {\"command\": \"sleep 313.72 > /dev/null & echo begun\"}\n---\n\
         text: all run\n---\ncall: BashOutput {\"id\": \"bg_1\"}\n---\ntext: it has ended",
    );
    let mut pty = Pty::chat(&test, &["--permission-mode", "read-only"]);
    pty.wait_for("/help");
    pty.say("start them");
    pty.wait_for("all run");
    // The second one has ended by itself.
    pty.wait_for("1 in background");
    pty.say("/tasks");
    pty.wait_for("/tasks stop ID ends one");
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
    let outputs = test.events_of("tool.finished");
    let text = outputs.last().unwrap()["envelope"]["text"].to_string();
    assert!(text.contains("ended"), "{text}");
}
