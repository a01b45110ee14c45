//! "Don't change anything" in the chat, while a command runs in the background.

use std::time::Duration;

use super::pty::Pty;
use crate::support::{Test, running};

const RUNS: &str =
    "call: Bash {\"command\":\"while sleep 0.01; do echo x >> ticks; done\",\"background\":true}";

#[test]
fn what_runs_in_the_background_stands_still_until_the_freeze_is_lifted() {
    let script = format!("{RUNS}\n---\ntext: It runs.\n---\ntext: I wait.\n---\ntext: I go on.");
    let test = Test::new().script(&script);
    let args = ["--model", "script:../script", "--yolo"];
    let mut pty = Pty::start(&test, &args, 40, 100, "xterm-256color");
    pty.wait_for("/help");
    let ticks = test.root().join("ticks");
    let size = || std::fs::metadata(&ticks).map_or(0, |data| data.len());
    pty.say("start it");
    pty.wait_for("It runs.");
    pty.wait("it to write", |_| size() > 0);

    pty.say("Don't change anything until I say so.");
    pty.wait_for("I wait.");
    let frozen = size();
    // As long as it takes for a dozen lines. (What stands still is found so however slow the machine is.)
    std::thread::sleep(Duration::from_millis(200));
    // A line that was inside of its system call when it was stopped may still have come.
    let after = size();
    assert!(after <= frozen + "x\n".len() as u64, "it went on writing: {frozen}, {after}");

    pty.say("ok, go ahead");
    pty.wait_for("I go on.");
    pty.wait("it to go on", |_| size() > after);
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
    let ended = size();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(size(), ended, "it outlived the chat");
}

#[test]
fn what_only_reads_goes_on_beside_what_stands_still() {
    let bash = |line: &str| format!("call: Bash {{\"command\":\"{line}\"}}\n---\n");
    let script = format!(
        "{}text: It runs.\n---\n{}text: It reads.\n---\ntext: I wait.",
        bash("sleep 311.52 & echo > started"),
        bash("sleep 222.52 & echo started"),
    );
    let test = Test::new().script(&script);
    let args = ["--model", "script:../script", "--yolo"];
    let mut pty = Pty::start(&test, &args, 40, 100, "xterm-256color");
    pty.wait_for("/help");
    pty.say("start it");
    pty.wait_for("It runs.");
    pty.say("Don't change anything until I say so.");
    pty.wait_for("It reads.");
    // Several times as long as it takes until it is looked whether what was stopped stands.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(running("sleep 222.52").len(), 1, "{:?}", running("sleep"));
    assert_eq!(running("sleep 311.52").len(), 1, "{:?}", running("sleep"));
    pty.say("/quit");
    assert_eq!(pty.end(), 0);
}
