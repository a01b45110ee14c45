//! Directives in chat messages.

use crate::support::server::{self, Server};
use crate::support::{Pty, Test, wait_for};

#[test]
fn directives_are_recognised_in_typed_text_and_not_in_pastes() {
    let test = Test::new().script("times: any\ntext: heard");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    let paste = "Don't change anything until I say so.\r".repeat(40);
    pty.send(&format!("\x1b[200~{paste}\x1b[201~ summarise this"));
    pty.wait_for("40 lines] summarise this");
    pty.send("\r");
    pty.wait_for("heard");
    assert!(!test.has_event("mode.changed"));
    pty.say("Don't change anything until I say so. What now?");
    pty.wait_for("read-only");
    assert_eq!(test.events_of("mode.changed")[0]["mode"], "read-only");
    pty.say("go ahead");
    pty.wait_for("mode ask: “go ahead”");
}

#[test]
fn protected_path_is_listed_and_removable() {
    let test = Test::new().file("src/a.txt", "old\n").script("times: any\ntext: heard");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("Don't touch src/a.txt.");
    pty.wait_for("heard");
    pty.say("/permissions");
    pty.wait_for("deny Edit(./src/a.txt)");
    pty.say("/permissions remove 1");
    pty.wait_for("removed");
    assert_eq!(test.events_of("rule.removed")[0]["rule"]["id"], 1);
}

/// Small pastes are not folded; the text of a command file comes from the project.
#[test]
fn small_pastes_and_command_files_contain_no_directives() {
    let sentence = "Don't change anything until I say so.";
    let test = Test::new()
        .file(".agent/commands/inspect.md", format!("{sentence}\nReview it.\n"))
        .script("times: any\ntext: heard");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.send(&format!("see \x1b[200~from a log:\r{sentence}\x1b[201~ here"));
    pty.wait_for("here");
    pty.send("\r");
    wait_for(|| test.has_event("turn.finished"));
    pty.say("/inspect");
    wait_for(|| test.n_events("turn.finished") == 2);
    assert!(test.events_of("turn.started")[0]["input"].as_str().unwrap().contains(sentence));
    assert!(test.events_of("turn.started")[1]["shown"].as_str().unwrap().contains(sentence));
    assert!(!test.has_event("mode.changed"));
}

#[test]
fn stop_ends_a_running_turn_and_is_otherwise_a_message() {
    // The model never answers the first request.
    let server = Server::with(|_, n| {
        if n > 0 {
            return server::sse_text("nothing is running");
        }
        let mut reply = server::sse_raw(&[]);
        reply.body.push(server::Chunk::Pause(std::time::Duration::from_mins(1)));
        reply
    });
    let config = format!("model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n", server.url());
    let test = Test::new().user_config(&config);
    let mut pty = Pty::start(&test, &[], 24, 80, "xterm-256color");
    pty.wait_for("/help");
    pty.say("count to a million");
    wait_for(|| test.has_event("model.requested"));
    pty.say("stop don't do anything!");
    wait_for(|| test.has_event("turn.finished"));
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "interrupted");
    pty.wait_for("stopped by you");
    pty.say("stop");
    pty.wait_for("nothing is running");
    // The phrase was executed: it does not return to the composer and is not a message.
    assert_eq!(test.events_of("turn.started")[1]["input"], "stop");
}
