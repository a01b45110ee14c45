//! Long output: in the full-screen viewer, in lists as high as the screen, in files outside the project.

use crate::support::{Pty, Test};

fn chat(rows: u16) -> (Test, Pty) {
    let test = Test::new().file("a.txt", "one\n").script(
        "call: Read {\"path\": \"a.txt\"}\n---\ntext: An answer.\n---\ntext: A second answer.",
    );
    let args = ["--model", "script:../script"];
    let pty = Pty::start(&test, &args, rows, 100, "xterm-256color");
    pty.wait_for("/help");
    (test, pty)
}

#[test]
fn long_pages_open_in_the_viewer_and_leave_no_trace_in_the_scrollback() {
    let (_test, mut pty) = chat(24);
    pty.say("look");
    pty.wait_for("An answer.");
    pty.wait_for("/help");
    for (command, first, keys, last) in [
        ("/config", "Configuration", "G", "ui.vi"),
        ("/keys", "Keys", "G", "insert the last deleted text"),
        ("/trace", "What happened", "G", "Read a.txt"),
        ("/help", "Keys and commands", "G", "check the installation"),
    ] {
        pty.say(command);
        pty.wait_for("q close");
        assert!(pty.with_screen(vt100::Screen::alternate_screen), "{command}");
        pty.send("g");
        pty.wait_for(first);
        pty.send(keys);
        if command != "/config" {
            pty.wait_for(last);
        }
        pty.send("q");
        pty.wait("the chat", |_| !pty.with_screen(vt100::Screen::alternate_screen));
        pty.wait_for("/help");
        assert!(!pty.all().contains(first), "{command}\n{}", pty.all());
    }
    // What fits is part of the conversation.
    pty.say("/context");
    pty.wait_for("system prompt: this project and its rules");
    assert!(!pty.with_screen(vt100::Screen::alternate_screen));
}

#[test]
fn viewer_of_a_page_is_searchable() {
    let (_test, mut pty) = chat(24);
    pty.say("/keys");
    pty.wait_for("q close");
    assert!(!pty.screen().contains("insert the last deleted text"), "{}", pty.screen());
    pty.send("/");
    pty.send("insert the last deleted text");
    pty.wait_for("/insert the last deleted text");
    pty.send("\r");
    pty.wait_for("in 1 place");
    pty.wait_for("▌ Ctrl-Y");
    pty.send("q");
    pty.wait_for("/help");
}

#[test]
fn command_list_uses_half_of_the_screen() {
    let commands = agent_ui::tui::COMMANDS;
    let rows = u16::try_from(2 * commands.len()).unwrap() + 8;
    let (_test, mut pty) = chat(rows);
    pty.send("/");
    pty.wait_for("Esc closes the list");
    for command in commands {
        assert!(pty.screen().contains(&format!(" /{}", command.name)), "{}", pty.screen());
    }
    pty.resize(24, 100);
    pty.wait_for(" more\n");
    let screen = pty.screen();
    let is_item = |line: &&str| line.trim_start_matches([' ', '▸']).starts_with('/');
    let n_shown = screen.lines().filter(is_item);
    let n_shown = n_shown.count();
    assert!(n_shown >= 8, "{screen}");
    assert!(screen.contains(&format!("… {} more", commands.len() - n_shown)), "{screen}");
    pty.send(&"\x1b[B".repeat(n_shown + 1));
    pty.wait_for(&format!("… {} more", commands.len() - n_shown - 2));
}

#[test]
fn export_without_a_name_is_written_outside_the_project() {
    let (test, mut pty) = chat(40);
    pty.say("look");
    pty.wait_for("An answer.");
    pty.wait_for("/help");
    let exports = test.home().join(".local/share/agent/exports");
    let files = || {
        let files = std::fs::read_dir(&exports).into_iter().flatten().flatten();
        files.map(|file| file.path()).collect::<Vec<_>>()
    };
    for n in 1..=2 {
        pty.say("/export");
        pty.wait("the path", |screen| {
            let screen = screen.replace(['\n', ' '], "");
            screen.matches(&*exports.to_string_lossy()).count() == n
        });
        // The first one is kept.
        assert_eq!(files().len(), n);
    }
    for file in files() {
        assert!(std::fs::read_to_string(&file).unwrap().contains("## User\n\nlook"));
    }
    let in_project: Vec<_> = std::fs::read_dir(test.root()).unwrap().flatten().collect();
    assert_eq!(in_project.len(), 1, "{in_project:?}");
}

#[test]
fn search_shows_each_place_in_a_long_item() {
    let lines: String = (1..=300)
        .map(|n| format!("text: - line {n}{}\n", if n % 100 == 50 { " with a needle" } else { "" }))
        .collect();
    let test = Test::new().script(&format!("{lines}---\ntext: the end"));
    let args = ["--model", "script:../script"];
    let mut pty = Pty::start(&test, &args, 24, 100, "xterm-256color");
    pty.wait_for("/help");
    pty.say("begin");
    pty.wait_for("line 300");
    pty.wait_for("/help");
    pty.say("more");
    pty.wait_for("the end");
    pty.send("\x14");
    pty.wait_for("q close");
    pty.send("/needle");
    pty.wait_for("/needle");
    pty.send("\r");
    pty.wait_for("line 50 with a needle");
    for (key, line) in [("n", 150), ("n", 250), ("n", 50), ("N", 250), ("N", 150)] {
        pty.send(key);
        pty.wait_for(&format!("line {line} with a needle"));
    }
}
