//! Sentences of the user in the chat that the program acts on.

use super::pty::Pty;
use crate::server::{self, Server};
use crate::support::Test;

#[test]
fn a_pasted_block_holds_no_instruction_and_a_typed_sentence_does() {
    let test = Test::new().script("text: heard\ntimes: any");
    let mut pty = Pty::chat(&test, &[]);
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
    pty.wait_for("auto-edit");
}

#[test]
fn a_protected_path_is_listed_and_removed() {
    let test = Test::new().file("src/a.txt", "old\n").script("text: heard\ntimes: any");
    let mut pty = Pty::chat(&test, &[]);
    pty.say("Don't touch src/a.txt.");
    pty.wait_for("heard");
    pty.say("/permissions");
    pty.wait_for("deny Edit(./src/a.txt)");
    pty.send("\x1b");
    pty.say("/permissions remove 1");
    pty.wait_for("removed");
    assert_eq!(test.events_of("rule.removed")[0]["rule"]["id"], 1);
}

#[test]
fn stop_ends_the_turn_and_is_a_message_when_nothing_runs() {
    // The model never answers the first request.
    let server = Server::with(|_, n| {
        if n == 0 { server::no_answer() } else { server::sse_text("nothing is running") }
    });
    let config = format!("model = \"test/m\"\n[providers.test]\nbase_url = \"{}\"\n", server.url());
    let test = Test::new().user_config(&config);
    let mut pty = Pty::chat(&test, &[]);
    pty.say("count to a million");
    pty.wait_for("esc");
    pty.say("stop don't do anything!");
    pty.wait_for("interrupted");
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "interrupted");
    pty.say("stop");
    pty.wait_for("nothing is running");
}
