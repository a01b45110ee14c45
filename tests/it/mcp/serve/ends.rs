//! How calls and connections end, and what is left of them.

use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{Peer, code};
use crate::support::{Test, running};

/// Waits until something is so.
#[track_caller]
fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it does not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A command that does not end, with a mark by which its process is found.
fn endless(test: &Test) -> (String, String) {
    let root = test.root();
    let unique = root.parent().unwrap().file_name().unwrap().to_str().unwrap();
    let mark = format!("endless-{unique}");
    (format!("touch begun; (exec -a {mark} sleep 600); touch done"), mark)
}

#[test]
fn cancelled_call_ends_and_others_go_on() {
    let test = Test::new();
    let mut peer = Peer::connect(&test, &[]);
    let (command, mark) = endless(&test);
    let id = peer.send_call("Bash", &json!({"command": command}));
    until(|| test.root().join("begun").exists());
    // A call that waits for its turn is cancelled, too.
    let waiting = peer.send_call("Write", &json!({"path": "b", "content": "b\n"}));
    for id in [waiting, id] {
        peer.notify("notifications/cancelled", &json!({"requestId": id, "reason": "enough"}));
    }
    // Its answer is the next one: those of cancelled requests are not sent.
    assert_eq!(code(&peer.call("LS", &json!({}))), "");
    until(|| running(&mark).is_empty());
    assert_eq!(peer.close(), Some(0));
    assert!(!test.root().join("done").exists() && !test.root().join("b").exists());
    let finished = test.events_of("tool.finished");
    let codes: Vec<_> = finished.iter().map(|it| &it["envelope"]["error"]["code"]).collect();
    assert_eq!(codes, [&json!("CANCELLED"), &json!("CANCELLED"), &json!(null)]);
}

#[test]
fn closed_input_ends_running_and_background_commands() {
    let test = Test::new();
    let mut peer = Peer::connect(&test, &[]);
    let (command, mark) = endless(&test);
    let started = peer.call("Bash", &json!({"command": command, "background": true}));
    assert_eq!(code(&started), "");
    let command = format!("touch second; (exec -a {mark} sleep 600)");
    peer.send_call("Bash", &json!({"command": command}));
    until(|| test.root().join("second").exists() && !running(&mark).is_empty());
    assert_eq!(peer.close(), Some(0));
    assert_eq!(running(&mark), [""; 0]);
    // The call that ran was answered.
    let answer = peer.answer();
    assert_eq!(code(&answer["result"]), "CANCELLED");
    assert_eq!(test.events_of("session.summary").len(), 1);
}

#[test]
fn terminated_server_leaves_no_process() {
    let test = Test::new();
    let mut peer = Peer::connect(&test, &[]);
    let (command, mark) = endless(&test);
    peer.send_call("Bash", &json!({"command": command}));
    until(|| !running(&mark).is_empty());
    let id = rustix::process::Pid::from_child(&peer.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(peer.child.wait().unwrap().code(), Some(143));
    assert_eq!(running(&mark), [""; 0]);
}

#[test]
fn client_that_reads_no_more_ends_the_server() {
    let test = Test::new();
    let mut peer = Peer::connect(&test, &[]);
    let (command, mark) = endless(&test);
    peer.send_call("Bash", &json!({"command": command}));
    until(|| !running(&mark).is_empty());
    let (unused, _) = std::io::pipe().unwrap();
    let unused = std::process::ChildStdout::from(std::os::fd::OwnedFd::from(unused));
    drop(std::mem::replace(&mut peer.stdout, std::io::BufReader::new(unused)));
    // (A process that another test starts has a copy of our end for a moment: an answer may still be written.)
    let mut ended = None;
    for _ in 0..2000 {
        _ = peer.stdin.as_mut().unwrap().write_all(b"nonsense\n");
        ended = peer.child.try_wait().unwrap();
        if ended.is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(ended.expect("the server ends").code(), Some(0));
    assert_eq!(running(&mark), [""; 0]);
}

#[test]
fn what_another_agent_did_can_be_undone() {
    let test = Test::new().file("a.rs", "one\n").script("text: hello");
    test.run(&["say hello"]).expect_code(0);
    let mut peer = Peer::connect(&test, &[]);
    peer.call("Read", &json!({"path": "a.rs"}));
    let edit = json!({"path": "a.rs", "old_string": "one", "new_string": "two"});
    assert_eq!(code(&peer.call("Edit", &edit)), "");
    assert_eq!(code(&peer.call("Bash", &json!({"command": "echo x > b; rm a.rs"}))), "");
    // While it is connected, its session is in use.
    test.agent(&["session", "undo"]).expect_stderr("in use");
    assert_eq!(peer.close(), Some(0));
    test.agent(&["session", "undo"]).expect_code(0);
    assert_eq!(test.read("a.rs"), "one\n");
    assert!(!test.root().join("b").exists());
    // It is no conversation: the latest one is another session.
    test.run(&["-c", "again"]).expect_code(0);
    let list = test.agent(&["session", "list", "--format", "json"]).expect_code(0);
    let list: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let turns: Vec<_> = list.as_array().unwrap().iter().map(|it| it["turns"].as_u64()).collect();
    assert_eq!(turns, [Some(2), Some(0)]);
}

#[test]
fn signal_ends_a_server_whose_answers_nobody_reads() {
    let test = Test::new().file("long.txt", "a line of a long file\n".repeat(900));
    let mut peer = Peer::connect(&test, &[]);
    let (command, mark) = endless(&test);
    peer.call("Bash", &json!({"command": command, "background": true}));
    // About 3 MB of results.
    for _ in 0..60 {
        peer.send_call("Read", &json!({"path": "long.txt"}));
    }
    until(|| test.n_events("tool.finished") == 61);
    let id = rustix::process::Pid::from_child(&peer.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    let asked = Instant::now();
    assert_eq!(peer.child.wait().unwrap().code(), Some(143));
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    assert_eq!(running(&mark), [""; 0]);
}
