//! The keyboard: the kitty protocol, late responses of the terminal, and pastes without brackets.

use std::time::Duration;

use super::composer::said;
use crate::support::{Pty, Test};

fn chat(test: &Test) -> Pty {
    let pty = Pty::chat(test, &[]);
    pty.wait_for("/help");
    pty
}

/// Sends the parts with pauses after which an escape is a key.
fn send_slowly(pty: &mut Pty, parts: &[&str]) {
    for part in parts {
        pty.send(part);
        std::thread::sleep(Duration::from_millis(150));
    }
}

#[test]
fn keys_of_the_kitty_protocol_type_and_act() {
    let test = Test::new().script("text: heard");
    let mut pty = chat(&test);
    assert!(pty.with_bytes(|bytes| String::from_utf8_lossy(bytes).contains("\x1b[>5u")));
    // Ctrl-C of a Russian layout, by the base key.
    pty.send("lost");
    pty.wait_for("› lost");
    pty.send("\x1b[1089::99;5u");
    pty.wait_for("brings it back");
    // Digits and arrows of the keypad; volume, print-screen, Super-J and the release of a key.
    pty.send("13\x1b[57417u\x1b[57401;129u\x1b[57400u\x1b[57423u\x1b[57438u\x1b[57361u\x1b[106;9u");
    pty.send("\x1b[97;1:3uone two\x1b[127;5u\x1b[127;2u ");
    pty.wait_for("› one 1213");
    // Ctrl-- with Shift is Ctrl-_: it undoes; Shift-Left moves; Enter of the keypad sends.
    pty.send("\x1b[45:95;6u\x1b[1;2D!\x1b[57414u");
    pty.wait_for("heard");
    let said = said(&test);
    assert!(said.len() == 1 && said[0].ends_with("1213") && said[0].contains('!'), "{said:?}");
}

#[test]
fn late_and_split_responses_are_neither_text_nor_keys() {
    let test = Test::new().script("times: any\ntext: heard");
    let mut pty = chat(&test);
    pty.say("first");
    pty.wait_for("heard");
    pty.wait_for("/help");
    // Esc acts at once; the rest of Up and of a response, which come later, do not.
    pty.send("\x1b");
    pty.wait_for("Esc again goes back");
    send_slowly(&mut pty, &["[A", "he\x1b]11;rgb:00", "00/0000/0000", "\x1b\\ll\x1b[?62;", "22c"]);
    send_slowly(&mut pty, &["\x1b", "P>|kitty(0.42)\x1b\\", "\x1b", "[?1;2c", "o\r"]);
    pty.wait("both messages", |_| said(&test).len() == 2);
    assert_eq!(said(&test), ["first", "hello"]);
}

#[test]
fn lines_pasted_without_brackets_are_one_message_and_no_command() {
    let test = Test::new().script("times: any\ntext: heard");
    let mut pty = chat(&test);
    pty.send("first of a paste\r  second\rthird\r");
    pty.wait_for("third");
    pty.send("\r");
    pty.wait_for("heard");
    pty.wait_for("/help");
    pty.send("!touch made\r/quit\rend");
    pty.wait_for("text, not a command");
    pty.send("\r");
    pty.wait("both messages", |_| said(&test).len() == 2);
    assert_eq!(said(&test), ["first of a paste\n  second\nthird", " !touch made\n/quit\nend"]);
    assert!(!test.root().join("made").exists());
    // More than a folded paste, in the pieces in which a terminal passes it on.
    pty.wait_for("/help");
    pty.send(&"a line of many\r".repeat(2_000));
    pty.wait_for("[paste 1: 2000 lines]");
}
