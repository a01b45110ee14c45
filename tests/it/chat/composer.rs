//! The composer: multi-line input, history, pastes, file completion, shell commands, an external
//! editor, and messages to a running agent.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use crate::support::{Pty, Test, running, wait_for};

/// The user's messages in the log.
pub(super) fn said(test: &Test) -> Vec<String> {
    let said = test
        .events()
        .into_iter()
        .filter(|event| event["type"] == "turn.started" || event["type"] == "turn.steered");
    said.map(|event| event["input"].as_str().unwrap().to_owned()).collect()
}

fn chat(test: &Test) -> Pty {
    let pty = Pty::chat(test, &[]);
    pty.wait_for("/help");
    pty
}

#[test]
fn multi_line_message_is_edited_and_undone() {
    let test = Test::new().script("text: heard");
    let mut pty = chat(&test);
    pty.send("first line\x1b\rsecond 中文\\");
    pty.wait_for("中文\\");
    pty.send("\r");
    pty.send("third");
    pty.wait_for("third");
    // Ctrl-A, Ctrl-K; undo; Ctrl-W; then Alt-B and Alt-D.
    pty.send("\x01\x0b\x1f");
    pty.wait_for("third");
    pty.send("\x05\x17more words");
    pty.wait_for("more words");
    pty.send("\x1bb\x1bd!");
    pty.wait_for("more !");
    pty.send("\r");
    pty.wait_for("heard");
    assert_eq!(said(&test), ["first line\nsecond 中文\nmore !"]);
}

#[test]
fn history_persists_across_sessions() {
    let test = Test::new().script("text: heard");
    for n in ["one", "two"] {
        let mut pty = chat(&test);
        pty.say(&format!("message {n}"));
        pty.wait_for("heard");
        pty.say("/quit");
        assert_eq!(pty.end(), 0);
    }
    let mut pty = chat(&test);
    pty.send("draft");
    // Up past /quit to the message before it, and back down to the draft.
    pty.send("\x1b[A\x1b[A");
    pty.wait_for("› message two");
    pty.send("\x1b[B\x1b[B");
    pty.wait_for("› draft");
    pty.send("\x15\x12one");
    pty.wait_for("search “one” › message one");
    pty.send("\r");
    pty.wait_for("› message one");
}

#[test]
fn large_paste_is_folded_and_sent_whole() {
    let test = Test::new().script("text: heard");
    let mut pty = chat(&test);
    let paste: String = (0..500).map(|n| format!("pasted line {n}\r")).collect();
    pty.send(&format!("look: \x1b[200~{paste}\x1b[201~ and say"));
    pty.wait_for("› look: [paste 1: 500 lines] and say");
    pty.send("\r");
    pty.wait_for("heard");
    let said = said(&test);
    assert!(said[0].starts_with("look: pasted line 0\npasted line 1\n"), "{}", &said[0][..60]);
    assert!(said[0].ends_with("pasted line 499\n and say"));
}

/// The status line when the text is not a command.
const NO_COMMAND: &str = "text, not a command";

/// Text that would run as a command if it were typed.
const WORDS: &str = "!touch owned";

#[test]
fn restored_message_is_never_a_command() {
    let long = format!("{WORDS}\n{}", "and more\n".repeat(41));
    for (words, shown) in
        [(WORDS, "› !touch owned"), ("/mode full", "› /mode full"), (&long, "[paste 1: 42 lines]")]
    {
        let test = Test::new().script("text: heard");
        // Words on the command line of a chat are a message.
        let args = ["chat", "--plain", "--model", "script:../script", words];
        test.agent(&args).expect_code(0);
        let mut pty = Pty::chat(&test, &["-c"]);
        pty.wait_for("heard");
        pty.wait_for("/help");
        pty.say("/rewind 1");
        pty.wait_for("back to before turn 1");
        pty.wait("the words", |screen| screen.replace("›  ", "› ").contains(shown));
        pty.send("\r");
        // Once more, from the history.
        wait_for(|| said(&test).len() == 2);
        pty.wait_for("heard");
        pty.wait_for("/help");
        pty.send("\x1b[A");
        pty.wait("the words", |screen| {
            screen.lines().rev().take(4).any(|it| it.contains(&shown[4..]))
        });
        pty.send("\r");
        wait_for(|| said(&test).len() == 3);
        let heard = said(&test);
        assert!(heard.iter().all(|it| it.trim() == words.trim()), "{heard:?}");
        assert!(!test.root().join("owned").exists());
        assert!(!pty.screen().contains("mode full ·") && test.events_of("mode.changed").is_empty());
    }
}

#[test]
fn returned_command_of_a_file_is_that_command_again() {
    let test =
        Test::new().script("pause: 60s\ntext: never").file(".agent/commands/inspect.md", WORDS);
    let mut pty = chat(&test);
    pty.say("begin");
    pty.wait_for("waiting for the model");
    pty.say("/inspect");
    pty.wait_for("after this answer: /inspect");
    pty.send("\x1b");
    pty.wait_for("› /inspect");
    assert!(!pty.screen().contains(NO_COMMAND), "{}", pty.screen());
    pty.send("\r");
    wait_for(|| said(&test).len() == 2);
    assert_eq!(said(&test), ["begin", "/inspect"]);
    assert_eq!(test.events_of("turn.started")[1]["shown"], WORDS);
    assert!(!test.root().join("owned").exists());
}

#[test]
fn only_a_visible_one_line_paste_can_be_a_command() {
    let test = Test::new().script("text: heard");
    let mut pty = chat(&test);
    let more = "and more\r".repeat(41);
    for (n, paste) in [format!("{WORDS}\rand more"), format!("{WORDS}\r{more}")].iter().enumerate()
    {
        pty.send(&format!("\x1b[200~{paste}\x1b[201~"));
        pty.wait("the paste", |screen| screen.contains("and more") || screen.contains("42 lines"));
        pty.send("\r");
        wait_for(|| test.try_log().is_some() && said(&test).len() == n + 1);
        pty.wait_for("heard");
        pty.wait_for("/help");
    }
    assert!(said(&test).iter().all(|it| it.starts_with(" !touch owned\n")), "{:?}", said(&test));
    assert!(!test.root().join("owned").exists());
    // Visible, and meant as a command.
    pty.send(&format!("\x1b[200~{WORDS}\x1b[201~"));
    pty.wait_for("› !touch owned");
    pty.send("\r");
    wait_for(|| test.root().join("owned").exists());
}

/// The user deletes the lines above one that looks like a command: it does not become one.
#[test]
fn deleting_lines_above_does_not_turn_text_into_a_command() {
    let lines = format!("\x1b[200~please fix\r{WORDS}\rthanks\x1b[201~");
    // With Ctrl-K, also with the line itself killed and yanked.
    let ways = [["\x1b[A", "\x1b[A", "\x01\x0b\x0b"], ["\x1b[A", "\x1b[A", "\x01\x0b\x0b\x0b\x19"]];
    for keys in ways {
        let test = Test::new().script("text: heard");
        let mut pty = chat(&test);
        pty.send(&lines);
        pty.wait_for("› please fix");
        for key in keys {
            pty.send(key);
            // (Escape has to be sent as a separate key.)
            std::thread::sleep(Duration::from_millis(100));
        }
        pty.wait_for("› !touch owned");
        pty.wait_for(NO_COMMAND);
        pty.send("\r");
        pty.wait_for("heard");
        assert!(said(&test)[0].starts_with(" !touch owned"), "{:?}", said(&test));
        assert!(!test.root().join("owned").exists());
        // It stays plain text; a line typed by the user is a command.
        pty.wait_for("/help");
        pty.send("!echo > own\r");
        wait_for(|| test.root().join("own").exists());
    }
}

#[test]
fn text_left_by_an_editor_does_not_become_a_command() {
    for (editor, is_command) in [("sed -i 1d", false), ("sed -i '1s/.*/!touch mine/'", true)] {
        let test = Test::new().script("text: heard").env("EDITOR", editor).env("VISUAL", "");
        let mut pty = chat(&test);
        pty.send(&format!("\x1b[200~please fix\r{WORDS}\x1b[201~"));
        pty.wait_for("› please fix");
        pty.send("\x07");
        pty.wait_for("› !touch");
        if is_command {
            pty.send("\r");
            wait_for(|| test.root().join("mine").exists());
        } else {
            pty.wait_for(NO_COMMAND);
            pty.send("\r");
            pty.wait_for("heard");
        }
        assert!(!test.root().join("owned").exists());
    }
}

/// A completion list of files belongs to the text it was made for, not to the text that an editor
/// left.
#[test]
fn file_completion_list_closes_when_the_text_changes() {
    let test = Test::new()
        .script("text: heard")
        .file("types/node$(touch owned).d.ts", "")
        .env("EDITOR", "sed -i 's/^/!echo seen /'")
        .env("VISUAL", "");
    let mut pty = chat(&test);
    pty.send("@types/no");
    pty.wait_for("▸ @\"types/node");
    pty.send("\x07");
    pty.wait_for("› !echo seen @types/no");
    assert!(!pty.screen().contains("▸"), "{}", pty.screen());
    pty.send("\r");
    pty.wait_for("    seen @types/no\n");
    assert!(!test.root().join("owned").exists());
}

/// In a shell line, `@` belongs to the shell, and no file name is completed.
#[test]
fn shell_lines_have_no_file_completion() {
    let test = Test::new()
        .script("text: heard")
        .file("types/node$(touch owned).d.ts", "")
        .file("!touch${IFS}owned", "");
    let mut pty = chat(&test);
    pty.send("look @types/no");
    pty.wait_for("▸ @\"types/node");
    pty.send("\x15!echo seen @types/no");
    pty.wait_for("› !echo seen @types/no");
    assert!(!pty.screen().contains("▸"), "{}", pty.screen());
    pty.send("\t\r");
    pty.wait_for("    seen @types/no\n");
    // A file name that looks like a command, after deleting the text before it.
    pty.send("@!tou");
    pty.wait_for("▸ @!touch${IFS}owned");
    pty.send("\t\x01\x1b[3~");
    pty.wait_for("› !touch${IFS}owned");
    pty.wait_for(NO_COMMAND);
    pty.send("\r");
    pty.wait_for("heard");
    assert!(!test.root().join("owned").exists());
}

#[test]
fn file_completion_is_fuzzy_and_skips_ignored_files() {
    let test = Test::new()
        .script("text: heard")
        .file("src/kernel/loop.rs", "")
        .file("target/kernel_loop.rs", "")
        .file(".gitignore", "target/\n");
    let mut pty = chat(&test);
    pty.send("read @kerlo");
    pty.wait_for("▸ @src/kernel/loop.rs");
    assert!(!pty.screen().contains("target"), "{}", pty.screen());
    pty.send("\t");
    pty.send("now");
    pty.wait_for("› read @src/kernel/loop.rs now");
}

#[test]
fn user_shell_command_output_is_shared_with_the_model() {
    let test = Test::new().script("expect: .*\nwhen: own output\ntext: I saw it");
    let mut pty = chat(&test);
    pty.say("!echo own output; exit 3");
    pty.wait_for("exit 3");
    pty.wait_for("    own output");
    pty.say("what did it say?");
    pty.wait_for("I saw it");
    let event = &test.events_of("user.command")[0];
    assert_eq!((&event["output"], &event["exit_code"]), (&"own output\n".into(), &3.into()));
}

#[test]
fn external_editor_edits_the_message() {
    let test =
        Test::new().script("text: heard").env("EDITOR", "sed -i s/this/that/").env("VISUAL", "");
    let mut pty = chat(&test);
    pty.send("change this");
    pty.wait_for("change this");
    pty.send("\x07");
    pty.wait_for("› change that");
    pty.send("\r");
    pty.wait_for("heard");
    assert_eq!(said(&test), ["change that"]);
}

#[test]
fn message_during_a_tool_call_is_queued_and_sent_after_it() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"touch started; until [ -e go ]; do sleep 0.05; done; touch one\"}\n\
         call: Bash {\"command\": \"touch two\"}\n---\n\
         expect: the user sent a message\ntext: I leave two alone",
    );
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("do both");
    pty.wait_for("◦ Bash");
    pty.say("only the first");
    pty.wait_for("▸ after this call: only the first");
    test.write("go", "");
    pty.wait_for("I leave two alone");
    assert!(!pty.screen().contains("▸ after this"));
    assert!(pty.screen().contains("› only the first"));
    assert!(test.root().join("one").exists() && !test.root().join("two").exists());
    assert_eq!(said(&test), ["do both", "only the first"]);
}

#[test]
fn message_at_the_end_of_a_turn_extends_the_turn() {
    let test = Test::new().script("pause: 400ms\ntext: first\n---\nwhen: and more\ntext: second");
    let mut pty = chat(&test);
    pty.say("begin");
    pty.wait_for("waiting for the model");
    pty.say("and more");
    pty.wait_for("second");
    let screen = pty.screen();
    let at = |text: &str| screen.find(text).unwrap_or_else(|| panic!("{text}\n{screen}"));
    assert!(at("first") < at("› and more") && at("› and more") < at("second"));
}

#[test]
fn esc_stops_the_turn_and_all_processes() {
    let mark = format!("3{}.77", std::process::id() % 1000);
    let test = Test::new().script(&format!(
        "call: Bash {{\"command\": \"(trap '' TERM; sleep {mark}) & sleep {mark}\"}}\n---\ntext: went on"
    ));
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("wait");
    pty.wait_for("◦ Bash");
    wait_for(|| !running(&format!("sleep {mark}")).is_empty());
    pty.say("said too late");
    pty.wait_for("▸ after this");
    pty.send("\x1b");
    // (The command would run for minutes.)
    pty.wait_for("stopped by you");
    assert_eq!(running(&format!("sleep {mark}")), [""; 0]);
    // An unread message is neither lost nor sent.
    pty.wait_for("› said too late");
    pty.send("\r");
    pty.wait_for("went on");
    assert_eq!(said(&test), ["wait", "said too late"]);
}

#[test]
fn file_name_with_blanks_is_quoted_and_understood() {
    let test = Test::new()
        .script("when: mentioned @\"notes of may/my file.md\". You MUST read\ntext: heard")
        .file("notes of may/my file.md", "n\n");
    let mut pty = chat(&test);
    pty.send("read @myfi");
    pty.wait_for("▸ @\"notes of may/my file.md\"");
    pty.send("\x7f\x7f\x7f\x7f\"notes of");
    pty.wait_for("▸ @\"notes of may/my file.md\"");
    pty.send("\tplease");
    pty.wait_for("› read @\"notes of may/my file.md\" please");
    pty.send("\r");
    pty.wait_for("heard");
}

#[test]
fn mention_of_an_unreadable_file_is_explained_and_the_message_is_sent() {
    let test = Test::new()
        .script("text: heard")
        .file("logo.gif", b"GIF89a\0\0\0\0")
        .file(".env", "TOKEN=typed-secret\n")
        .file("a.txt", "one\n");
    let mut pty = chat(&test);
    pty.say("look at @logo.gif, @.env and @a.txt");
    pty.wait_for("heard");
    let shown = pty.screen().replace("\n  ", " ");
    for part in [
        "@logo.gif is not read: logo.gif is not text but a GIF image; a model receives only text and PNG,",
        "@.env is not read: .env looks like it contains secrets; a rule that names it allows it: --allow",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    let log = std::fs::read_to_string(test.log()).unwrap();
    assert!(log.contains("The user mentioned @a.txt. You MUST read"), "{log}");
    assert_eq!(said(&test), ["look at @logo.gif, @.env and @a.txt"]);
}

#[test]
fn up_takes_a_queued_message_back_for_editing() {
    let test = Test::new().script(
        "call: Bash {\"command\": \"until [ -e go ]; do sleep 0.05; done\"}\n---\ntext: heard",
    );
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("begin");
    pty.wait_for("◦ Bash");
    for message in ["the first", "teh second"] {
        pty.say(message);
        pty.wait_for(&format!("▸ after this call: {message}"));
    }
    pty.wait_for("Up edits · Esc Enter sends");
    pty.send("\x1b[A");
    pty.wait_for("› teh second");
    pty.wait("one queued message", |screen| !screen.contains("after this call: teh second"));
    assert!(pty.screen().contains("▸ after this call: the first"));
    pty.send("\x15the second\r");
    pty.wait_for("▸ after this call: the second");
    // A large paste is folded again.
    let paste: String = (0..20).map(|n| format!("pasted line {n}\r")).collect();
    pty.send(&format!("\x1b[200~{paste}\x1b[201~end\r"));
    pty.wait_for("▸ after this call: pasted line 0");
    pty.send("\x1b[A");
    pty.wait_for("› [paste 1: 20 lines]end");
    pty.send("\x15");
    // A command for the time after the turn stays a command.
    pty.send("!touch teh-file\t");
    pty.wait_for("▸ after this turn: !touch teh-file");
    pty.send("\x1b[A");
    pty.wait_for("› !touch teh-file");
    pty.send("\x17\x17the-file\t");
    pty.wait_for("▸ after this turn: !touch the-file");
    test.write("go", "");
    pty.wait_for("heard");
    wait_for(|| said(&test).len() == 3 && test.root().join("the-file").exists());
    assert_eq!(said(&test), ["begin", "the first", "the second"]);
}

#[test]
fn hint_disappears_with_the_next_key() {
    let test = Test::new().script("text: heard");
    let mut pty = chat(&test);
    pty.say("words");
    pty.wait_for("heard");
    pty.wait_for("/help");
    pty.send("some text\x03");
    pty.wait_for("Ctrl-Y brings it back");
    // In the same frame as the key.
    pty.send("x");
    pty.wait_for("› x");
    assert!(!pty.screen().contains("brings it back"), "{}", pty.screen());
}

#[test]
fn recalled_message_can_be_completed_when_it_is_edited() {
    let test = Test::new().script("times: any\ntext: heard").file("a.txt", "one\n");
    let mut pty = chat(&test);
    pty.say("a nice day");
    pty.wait_for("heard");
    pty.wait_for("/help");
    pty.send("\x1b[A");
    pty.wait_for("› a nice day");
    pty.send(" @a.");
    pty.wait_for("▸ @a.txt");
    pty.send("\t");
    pty.wait_for("a nice day @a.txt");
    // The text of another message was replaced.
    pty.send("\x15/keys");
    pty.wait_for("▸ /keys");
}

#[test]
fn editor_is_vi_if_no_other_is_named() {
    let test = Test::new().script("text: heard").env("EDITOR", "").env("VISUAL", "");
    let own = test.home().join("own");
    std::fs::create_dir_all(&own).unwrap();
    let vi = own.join("vi");
    std::fs::write(&vi, "#!/bin/sh\necho written >>\"$1\"\n").unwrap();
    std::fs::set_permissions(&vi, Permissions::from_mode(0o755)).unwrap();
    let path = std::env::join_paths([own.as_path(), Path::new("/usr/bin"), Path::new("/bin")]);
    let test = test.env("PATH", path.unwrap().to_str().unwrap());
    let mut pty = chat(&test);
    pty.send("please: \x07");
    pty.wait_for("please: written");
}
