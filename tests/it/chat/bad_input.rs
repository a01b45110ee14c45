//! Input that no user means to give: control characters in diffs, huge lines and pastes, tiny terminals,
//! keys during a resize.

use crate::support::{Pty, Test};

const ESCAPES: &str = "\u{1b}[2J\u{1b}]0;evil\u{7}\u{1b}]52;c;ZXZpbA==\u{7}";
const BIDI: &str = "if admin \u{202e}\u{2066}// no\u{2069}\u{200f} {";

fn chat(test: &Test, rows: u16, cols: u16) -> Pty {
    let args = ["--model", "script:../script"];
    let pty = Pty::start(test, &args, rows, cols, "xterm-256color");
    pty.wait_for("› ");
    pty
}

/// A diff is shown as text, in the question and after it, whatever the file and the model put into it.
#[test]
fn diff_with_control_characters_cannot_act_on_the_terminal() {
    let new = serde_json::json!(format!("{BIDI}{ESCAPES}\n"));
    let test = Test::new().file("a.txt", format!("old {ESCAPES}{BIDI}\n")).script(&format!(
        "call: Read {{\"path\": \"a.txt\"}}\n---\n\
         call: Write {{\"path\": \"a.txt\", \"content\": {new}}}\n---\ntext: Done here."
    ));
    let mut pty = chat(&test, 40, 100);
    pty.say("change it");
    pty.wait_for_question();
    let bidi = "if admin <U+202E><U+2066>// no<U+2069><U+200F> {";
    let escapes = "␛[2J␛]0;evil␇␛]52;c;ZXZpbA==␇";
    for line in [format!("1 - old {escapes}{bidi}"), format!("1 + {bidi}{escapes}")] {
        assert!(pty.all().contains(&line), "{line}\n{}", pty.all());
    }
    pty.send("y");
    pty.wait_for("Done here.");
    pty.send("\x14");
    pty.wait_for("q close");
    pty.send("a");
    pty.send("q");
    pty.wait_for("Done here.");
    let bytes = String::from_utf8_lossy(&pty.bytes()).into_owned();
    for bad in ["\x1b]0;evil", "\x1b]52;", "\u{202e}", "\u{2066}", "\u{200f}"] {
        assert!(!bytes.contains(bad), "{bad:?}");
    }
    assert_eq!(test.read("a.txt"), format!("{BIDI}{ESCAPES}\n"));
}

/// A line of 5 MB in the output of commands, in a changed file and in the viewer, and one of 300 kB in an answer.
#[test]
#[ignore = "slow"]
fn lines_of_megabytes_are_displayed() {
    const LINE: usize = 5_000_000;
    let x = "x".repeat(LINE);
    let numbers: String = (0..60_000).map(|n| format!("{n:x}")).collect();
    let test = Test::new().file("big.txt", format!("one\n{x}\n")).script(&format!(
        "call: Bash {{\"command\": \"cat big.txt\"}}\ncall: Read {{\"path\": \"big.txt\"}}\n---\n\
         call: Edit {{\"path\": \"big.txt\", \"old_string\": \"one\", \"new_string\": \"two\"}}\n---\n\
         text: {numbers}\ntext: Done here."
    ));
    let mut pty = chat(&test, 40, 100);
    pty.say("look");
    pty.wait_for_question();
    pty.send("y");
    pty.wait_for("Done here.");
    pty.say("!cat big.txt");
    pty.wait_for("! cat big.txt");
    pty.wait_for("/help");
    pty.say("/diff");
    pty.wait_for("+two");
    pty.send("q");
    pty.wait_for("/help");
    pty.send("\x14");
    pty.wait_for("q close");
    pty.send("kkkkg");
    pty.wait_for("1/");
    pty.send("q");
    pty.wait_for("/help");
}

#[test]
#[ignore = "slow"]
fn paste_of_50_megabytes_is_sent_whole() {
    let test = Test::new().script("text: heard");
    let mut pty = chat(&test, 24, 80);
    let line = "a line of the paste\r";
    let n = 50_000_000 / line.len();
    pty.send("\x1b[200~");
    pty.send(&line.repeat(n));
    pty.send("\x1b[201~");
    pty.wait_for(&format!("[paste 1: {n} lines]"));
    pty.send(" and more");
    pty.wait_for("and more");
    pty.send("\r");
    pty.wait_for("heard");
    pty.wait_for("/help");
    let said = test.events_of("turn.started")[0]["input"].as_str().unwrap().len();
    assert_eq!(said, n * line.len() + " and more".len());
    // Recalled, it is folded again.
    pty.send("\x1b[A");
    pty.wait_for("[paste");
}

#[test]
fn chat_works_in_a_tiny_terminal() {
    let test = Test::new()
        .file("a.txt", "one\n")
        .script("call: Bash {\"command\": \"touch made\"}\n---\ntext: An answer of several words.");
    let mut pty = chat(&test, 5, 20);
    pty.send("/");
    pty.wait_for("▸ /help");
    pty.wait_for(&format!("… {} more", agent_ui::tui::COMMANDS.len() - 1));
    pty.wait_for("Esc closes");
    pty.send("\x15go on");
    pty.wait_for("› go on");
    pty.send("\r");
    pty.wait_for("▸ 1 y");
    pty.wait_until_it_accepts_keys("Esc stops");
    pty.send("y");
    pty.wait_for("changed");
    pty.wait("the input field", |screen| screen.contains("\n›\n"));
    pty.send("\x14");
    pty.wait_for("q close");
    pty.send("g");
    pty.wait_for("agent ");
    pty.send("q");
    pty.wait("the input field", |screen| screen.contains("\n›\n"));
    pty.resize(40, 100);
    pty.wait_for("/help");
    let all = pty.all();
    let words = all.replace('\n', " ").replace("  ", " ");
    assert_eq!(words.matches("› go on").count(), 1, "{all}");
    assert_eq!(words.matches("An answer of several words.").count(), 1, "{all}");
    assert_eq!(all.lines().filter(|line| *line == "›").count(), 1, "{all}");
}

#[test]
fn question_in_a_tiny_terminal_shows_the_command_and_every_answer() {
    let script = "call: Bash {\"command\": \"touch made && rm important-file\"}\n---\ntext: end";
    let test = Test::new().script(script);
    let mut pty = chat(&test, 5, 20);
    pty.wait_for("›");
    pty.say("go on");
    pty.wait_for("▸ 1 y  yes (1/");
    assert_eq!(
        pty.screen().lines().take(3).map(str::trim).collect::<Vec<_>>().join(" "),
        "Allow Bash touch made && rm important-file?",
        "{}",
        pty.screen()
    );
    pty.wait_for("Esc stops");
    // The others follow, one at a time, and the command begins the screen.
    for part in ["▸ 2 n  no (2/", "▸ 3 i  no, and say", "▸ 4 a  always"] {
        pty.send("\x1b[B");
        pty.wait_for(part);
        assert!(pty.screen().starts_with("Allow Bash"), "{}", pty.screen());
    }
    // The whole call can be read in the viewer.
    pty.send("\x14");
    pty.wait_for("important-file\n");
    pty.send("q");
    pty.wait_until_it_accepts_keys("▸ 4 a");
    pty.send("n");
    pty.wait("the input field", |screen| screen.contains("\n›\n"));
    assert_eq!(test.events_of("permission.decided")[0]["ruling"], "reject");
}

/// No key is lost, whatever the size of the window meanwhile.
#[test]
fn keys_during_resizes_are_not_lost() {
    let test = Test::new().script("text: heard");
    let mut pty = chat(&test, 24, 80);
    pty.wait_for("/help");
    let words: String = (0..60).map(|n| format!("word{n} ")).collect();
    for (n, char) in words.chars().enumerate() {
        if n % 7 == 0 {
            let n = u16::try_from(n).unwrap();
            pty.resize(5 + n * 3 % 40, 20 + n * 11 % 90);
        }
        pty.send(&char.to_string());
    }
    pty.resize(24, 80);
    pty.wait_for("word59");
    pty.send("\r");
    pty.wait_for("heard");
    assert_eq!(test.events_of("turn.started")[0]["input"], words.trim_end());
}
