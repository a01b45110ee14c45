//! How finished items are displayed: counts of folded lines, and the user's own messages.

use crate::support::{Pty, Test};

#[test]
fn folded_output_says_how_many_lines_of_the_whole_output_are_hidden() {
    // Within the limits of a result, cut for the model, and cut while it was captured.
    let n_lines = [100, 20_000, 200_000];
    let calls = n_lines.map(|n| format!("call: Bash {{\"command\": \"seq 1 {n}\"}}\n---\n"));
    let test = Test::new().script(&format!("{}text: Done here.", calls.concat()));
    let mut pty =
        Pty::start(&test, &["--model", "script:../script", "--yolo"], 50, 100, "xterm-256color");
    pty.wait_for("/help");
    pty.say("count");
    pty.wait_for("Done here.");
    for n in n_lines {
        let shown = format!("    … {} more lines\n    {}\n", n - 4, n - 3);
        assert!(pty.screen().contains(&shown), "{n}\n{}", pty.screen());
    }
    // The user's own command.
    pty.wait_for("/help");
    for n in [20_000, 200_000] {
        pty.say(&format!("!seq 1 {n}"));
        pty.wait_for(&format!("    … {} more lines\n    {}\n", n - 40, n - 39));
        pty.wait_for("/help");
    }
}

/// A failure is a line with its telling part, and one with what happens next.
#[test]
fn text_for_the_model_is_only_in_the_transcript() {
    let edit = "call: Edit {\"path\": \"a.txt\", \"old_string\": \"a\", \"new_string\": \"b\"}";
    let bash = "call: Bash {\"command\": \"touch ok\"}";
    let script = format!("{edit}\n---\ntext: first\n---\n{bash}\n---\ntext: second");
    let check =
        "test -e ok || { printf '%s\\n' one 'AssertionError: 1 is not 2' three; exit 1; }\n";
    let test = Test::new().file("a.txt", "a\n").file("check.sh", check).script(&script);
    let mut pty = Pty::chat(&test, &["--yolo", "--check", "sh check.sh"]);
    pty.wait_for("/help");
    pty.say("change it");
    pty.wait_for("checks passed");
    let all = pty.all();
    let lines: Vec<&str> = all.lines().collect();
    for (failure, telling) in
        [("✗ Edit a.txt", "File not read"), ("✗ check sh check.sh", "AssertionError: 1 is not 2")]
    {
        let at = lines.iter().position(|line| line.starts_with(failure)).unwrap();
        assert!(lines[at].contains(telling), "{all}");
        let is_next = |line: &&str| line.starts_with("  sent back to the model (1 of ");
        assert!(lines[at + 1..].iter().take(3).any(is_next), "{all}");
    }
    for text in ["Next:", "  three", "to the model:", "the model received"] {
        assert!(!all.contains(text), "{text}\n{all}");
    }
    pty.send("\x14");
    pty.wait_for("q close");
    pty.send("a/THE MODEL RECEIVED");
    pty.wait_for("/THE MODEL RECEIVED");
    pty.send("\r");
    pty.wait_for("in 1 place");
}

#[test]
fn folded_diff_says_how_many_changed_lines_are_hidden() {
    let content: String = (1..=500).map(|n| format!("line {n}\\n")).collect();
    let test = Test::new().script(&format!(
        "call: Write {{\"path\": \"new.txt\", \"content\": \"{content}\"}}\n---\ntext: Done here."
    ));
    let args = ["--model", "script:../script", "--set", "permissions.mode=auto-edit"];
    let mut pty = Pty::start(&test, &args, 50, 100, "xterm-256color");
    pty.wait_for("/help");
    pty.say("write");
    pty.wait_for("Done here.");
    pty.wait_for("    … 476 more changed lines");
}

#[test]
fn long_message_is_shown_in_brief_with_counts() {
    let test = Test::new().script("text: heard").env("NO_COLOR", "1");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    let lines: String = (1..=20_000).map(|n| format!("{n}\r")).collect();
    pty.send(&format!("\x1b[200~{lines}\x1b[201~"));
    pty.wait_for("[paste 1: 20000 lines]");
    pty.send("\r");
    pty.wait_for("heard");
    pty.wait_for("  8\n  … 19988 more lines\n  19997\n");
    pty.wait_for("/help");
    pty.send(&format!("\x1b[200~{}\x1b[201~", "x".repeat(5_000)));
    pty.wait_for("[paste 1: 5000 characters]");
    pty.send("\r");
    pty.wait_for("x … 4000 more");
}

/// Without colours by the weight, with colours by the background too, on dark and light terminals.
#[test]
fn messages_of_the_user_stand_out() {
    let style = |no_color: &str, theme: &str, term: &str| {
        let test = Test::new()
            .script("text: an answer")
            .env("NO_COLOR", no_color)
            .user_config(&format!("ui.theme = \"{theme}\"\n"));
        let args = ["--model", "script:../script"];
        let mut pty = Pty::start(&test, &args, 24, 80, term);
        pty.wait_for("/help");
        pty.say("my own words");
        pty.wait_for("an answer");
        pty.wait_for("/help");
        pty.with_screen(|screen| {
            let row_of = |text: &str| {
                let rows: Vec<String> = screen.rows(0, 80).collect();
                u16::try_from(rows.iter().position(|row| row.contains(text)).unwrap()).unwrap()
            };
            let mine = screen.cell(row_of("› my own words"), 4).unwrap();
            let theirs = screen.cell(row_of("an answer"), 4).unwrap();
            assert_eq!((theirs.bold(), theirs.bgcolor()), (false, vt100::Color::Default));
            (mine.bold(), mine.fgcolor(), mine.bgcolor())
        })
    };
    let plain = (true, vt100::Color::Default, vt100::Color::Default);
    assert_eq!(style("1", "dark", "xterm-256color"), plain);
    assert_eq!(style("", "dark", "xterm"), plain);
    let dark = style("", "dark", "xterm-256color");
    let light = style("", "light", "xterm-256color");
    for (_, text, background) in [dark, light] {
        assert!(text != vt100::Color::Default && background != vt100::Color::Default);
    }
    assert_ne!(dark, light);
}

#[test]
fn long_output_of_a_successful_command_is_a_success() {
    let test = Test::new().script("call: Bash {\"command\": \"seq 1 20000\"}\n---\ntext: counted");
    let mut pty = Pty::chat(&test, &[]);
    pty.wait_for("/help");
    pty.say("count");
    pty.wait_for("counted");
    assert_eq!(test.events_of("tool.finished")[0]["envelope"]["status"], "partial");
    pty.wait_for("✓ Bash seq 1 20000");
}

#[test]
fn reads_and_searches_in_a_row_are_one_line() {
    let calls = ["a", "b", "c", "d"]
        .map(|name| format!("call: Read {{\"path\": \"{name}.txt\"}}\n---\n"))
        .concat();
    let script = format!(
        "{calls}call: Grep {{\"pattern\": \"x\"}}\n---\n\
         call: Bash {{\"command\": \"until [ -e go ]; do sleep 0.05; done\"}}\n---\n\
         call: Read {{\"path\": \"nowhere.txt\"}}\n---\ncall: LS {{}}\n---\ntext: Done here."
    );
    let mut test = Test::new().script(&script);
    for name in ["a", "b", "c", "d"] {
        test = test.file(&format!("{name}.txt"), "x\n");
    }
    let mut pty = Pty::chat(&test, &["--yolo"]);
    pty.wait_for("/help");
    pty.say("look around");
    pty.wait_for("◦ Bash");
    let one =
        "✓ Read 4 files, searched 1 time: a.txt, b.txt, c.txt, d.txt, \"x\"  · Ctrl-T\n◦ Bash";
    assert!(pty.screen().contains(one), "{}", pty.screen());
    test.write("go", "");
    pty.wait_for("Done here.");
    pty.wait_for("/help");
    // What failed, and what stands alone, is not joined.
    assert!(pty.screen().contains("\n✗ Read nowhere.txt"), "{}", pty.screen());
    assert!(pty.screen().contains("\n✓ LS .  "), "{}", pty.screen());
    pty.send("\x14");
    pty.wait_for("✓ Read c.txt  1 line");
}

#[test]
fn address_is_a_hyperlink_and_not_cut() {
    let address = format!("https://example.org/{}/page_(one).html", "long/path".repeat(12));
    let script = format!("text: Look at [the page]({address}) and at {address}, please.");
    for (answer, has_hyperlinks) in [("", false), ("\x1bP>|WezTerm 20240203\x1b\\", true)] {
        let test = Test::new().script(&script);
        let mut pty = Pty::chat(&test, &[]);
        pty.wait_for("/help");
        pty.send(answer);
        pty.say("where is it?");
        pty.wait_for("please.");
        pty.wait_for("/help");
        let bytes = String::from_utf8_lossy(&pty.bytes()).into_owned();
        let link = format!("\x1b]8;;{address}\x1b\\{address}\x1b]8;;\x1b\\");
        assert_eq!(bytes.matches(&link).count(), if has_hyperlinks { 2 } else { 0 }, "{bytes}");
        assert_eq!(bytes.contains("\x1b]8;"), has_hyperlinks, "{bytes}");
        let shown = |line: &str| line.replace(&link, &address).contains(&address);
        assert_eq!(bytes.split("\r\n").filter(|line| shown(line)).count(), 2, "{bytes}");
        // In the viewer it is wrapped: nothing of it is outside the screen.
        pty.send("\x14");
        pty.wait_for("q close");
        assert!(pty.screen().replace(['\n', ' '], "").contains(&address), "{}", pty.screen());
    }
}

#[test]
fn diffs_have_line_backgrounds_where_colours_allow() {
    let script = "call: Write {\"path\": \"new.txt\", \"content\": \"one\\na longer line\\n\"}\n---\n\
                  text: Done here.";
    for (name, value, background) in [
        ("COLORTERM", "truecolor", "\x1b[38;2;127;201;127;48;2;27;47;35m"),
        ("COLORTERM", "", "48;5;22m"),
        ("NO_COLOR", "1", ""),
    ] {
        let test = Test::new().script(script).env(name, value);
        let mut pty = Pty::chat(&test, &["--yolo"]);
        pty.wait_for("/help");
        pty.say("write it");
        pty.wait_for("Done here.");
        let bytes = String::from_utf8_lossy(&pty.bytes()).into_owned();
        let line =
            bytes.lines().rfind(|line| line.contains("1 + ") && line.contains("one")).unwrap();
        assert_eq!(line.contains("48;"), !background.is_empty(), "{line:?}");
        assert!(line.contains(background), "{line:?}");
        // As wide as the widest line.
        let spaces = " ".repeat("a longer line".len() - "one".len());
        assert_eq!(line.contains(&spaces), !background.is_empty(), "{line:?}");
    }
}
