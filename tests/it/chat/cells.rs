//! How finished items are displayed: counts of folded lines.

use super::pty::Pty;
use crate::support::Test;

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
