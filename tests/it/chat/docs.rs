//! `docs/TUI.md` matches the program: its tables are generated from the program's own, and its
//! screens by the program, as are the pictures in the README.

use agent_ui::tui::{COMMANDS, Keymap};
use regex::Regex;

use crate::support::picture::{self, Paper};
use crate::support::{Pty, Test};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/TUI.md");
const IMAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/images");
const README: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");

/// The model's script for the screens.
const SCRIPT: &str = r#"
text: I will look at the file first.
call: TodoWrite {"summary": "a kinder greeting", "todos": [
  {"content": "find the greeting", "status": "completed"},
  {"content": "change it", "status": "in_progress"},
  {"content": "run it", "status": "pending"}]}
call: Read {"path": "src/main.rs"}
call: Grep {"pattern": "println"}
usage: 2380 60
---
call: Edit {"path": "src/main.rs", "old_string": "hi", "new_string": "hello"}
usage: 2510 40
---
call: Bash {"command": "for n in 1 2 3; do echo \"greeting $n is kind\"; done; until [ -e go ]; do sleep 0.05; done"}
usage: 2630 30
---
call: TodoWrite {"summary": "a kinder greeting", "todos": [
  {"content": "find the greeting", "status": "completed"},
  {"content": "change it", "status": "completed"},
  {"content": "run it", "status": "completed"}]}
usage: 2690 30
---
text: It says **hello** now:
text:
text: | file | was | is |
text: |---|---|---|
text: | `src/main.rs` | hi | hello |
usage: 2740 50
"#;

/// Starts the chat up to its first question.
fn chat(theme: &str) -> (Test, Pty) {
    let test = Test::new()
        .file("src/main.rs", "fn main() {\n    println!(\"hi\");\n}\n")
        .file("../fix.script", SCRIPT)
        .file(".agent/commands/fix.md", "---\ndescription: mend a failing test\n---\n$ARGUMENTS")
        .env("COLORTERM", "truecolor");
    let theme = format!("ui.theme={theme}");
    let args = ["--model", "script:../fix.script", "--set", &theme];
    let mut pty = Pty::start(&test, &args, 34, 84, "xterm-256color");
    pty.wait_for("/help");
    pty.send("change hi to hello please\r");
    pty.wait_for_question();
    (test, pty)
}

/// The screens, each with its name in the page.
fn screens() -> Vec<(&'static str, String)> {
    let (test, mut pty) = chat("dark");
    let mut screens = Vec::new();
    screens.push(("a question", pty.screen()));
    pty.send("y");
    pty.wait_for("greeting 3 is kind");
    pty.send("and thank you\r");
    pty.wait_for("after this call: and thank you");
    // The rest of the frame.
    pty.wait_for("Up edits · Esc Enter sends · ask · 2.6k tokens (2 %)");
    // What is above is on the first screen.
    let screen = pty.screen();
    let from = screen.find("◦ Bash").unwrap();
    screens.push(("while it works", screen[from..].to_owned()));
    test.write("go", "");
    pty.wait_for("/help");
    pty.send("/rew");
    // The lists for the letters before are longer.
    pty.wait("the list for all letters", |screen| {
        screen.contains("▸ /rewind") && screen.contains("since BRANCH\n  Esc closes")
    });
    let screen = pty.screen();
    let from = screen.rfind("Todos 3/3").unwrap();
    screens.push(("a list", screen[from..].to_owned()));
    screens
}

/// Replaces text that varies between machines and runs.
fn settled(screen: &str) -> String {
    let screen = with_fixed_facts(screen);
    screen.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect()
}

pub(super) fn with_fixed_facts(screen: &str) -> String {
    let rules = [
        (r"(?m)^folder .*$", "folder    /home/me/project"),
        (r"(?m)^sandbox .*$", "sandbox   namespaces+landlock+seccomp, network off"),
        (r"\b\d+ s\b", "2 s"),
        (r"\b\d+\.\d s\b", "0.2 s"),
        (r" \(\+0\.2 s waiting for you\)", ""),
    ];
    let mut screen = screen.to_owned();
    for (pattern, settled) in rules {
        screen = Regex::new(pattern).unwrap().replace_all(&screen, settled).into_owned();
    }
    screen
}

/// Compares the file with the generated one, or writes it.
#[track_caller]
fn keep(path: &str, made: &str) {
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(path, made).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(kept, made, "UPDATE_SCHEMA=1 writes {path} anew");
}

fn table(head: &str, rows: impl IntoIterator<Item = String>) -> String {
    let n_columns = head.matches('|').count() - 1;
    let rule = format!("|{}", "---|".repeat(n_columns));
    let rows = rows.into_iter().map(|row| format!("{row}\n"));
    format!("{head}\n{rule}\n{}", rows.collect::<String>())
}

#[test]
fn tui_page_is_up_to_date() {
    let keys = Keymap::default()
        .rows()
        .into_iter()
        .map(|(keys, name, what)| format!("| {} | {what} | `{name}` |", keys.replace('|', "\\|")));
    let commands = COMMANDS.iter().map(|command| {
        let args = command.args.replace('|', "\\|");
        let name = format!("/{} {args}", command.name);
        format!("| `{}` | {} |", name.trim(), command.description)
    });
    let mut made = std::fs::read_to_string(PATH).unwrap();
    for (begin, table) in [
        ("## Commands\n\n", table("| command | what it does |", commands)),
        ("## Keys\n\n", table("| keys | what they do | name |", keys)),
    ] {
        let from = made.find(begin).unwrap() + begin.len();
        let end = from + made[from..].find("\n\n").unwrap() + 1;
        made.replace_range(from..end, &table);
    }
    keep(PATH, &made);
    // In one test, because both are parts of one file.
    for (name, screen) in screens() {
        let begin = format!("<!-- screen: {name} -->\n\n");
        let from = made.find(&begin).unwrap_or_else(|| panic!("{name}")) + begin.len();
        let end = from + made[from..].find("\n\n<!-- end -->").unwrap() + 1;
        made.replace_range(from..end, &settled(&screen));
    }
    keep(PATH, &made);
    assert!(made.len() <= 20 * 1024, "the page has {} bytes, and its limit is 20 KB", made.len());
}

#[test]
fn pictures_in_the_readme_are_up_to_date() {
    let readme = std::fs::read_to_string(README).unwrap();
    for (theme, paper) in [("dark", picture::DARK), ("light", picture::LIGHT)] {
        let (_test, pty) = chat(theme);
        let made = pty.with_screen(|screen| picture_of_turn(screen, paper));
        keep(&format!("{IMAGES}/chat-{theme}.svg"), &made);
        assert!(readme.contains(&format!("docs/images/chat-{theme}.svg")), "{theme}");
    }
}

/// From the message of the user to the status line.
fn picture_of_turn(screen: &vt100::Screen, paper: Paper) -> String {
    let rows: Vec<String> = screen.rows(0, screen.size().1).collect();
    let at = |row: Option<usize>| u16::try_from(row.unwrap()).unwrap();
    let first = at(rows.iter().position(|row| row.starts_with("› ")));
    let last = at(rows.iter().rposition(|row| !row.trim().is_empty()));
    picture::draw(screen, first..last + 1, paper, with_fixed_facts)
}
