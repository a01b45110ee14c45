//! Hooks after calls that the user interrupts.

use std::fs::File;
use std::time::Duration;

use super::{asked, ends, hook, with};
use crate::support::{signal, wait_for};

const LOG: &str = "cat >> \"$AGENT_PROJECT_DIR\"/../log";

#[test]
fn call_that_changed_something_is_known_to_hooks_after_an_interrupt() {
    let test = with(
        &[hook("PostToolUse", "Write", LOG), hook("PostToolUseFailure", "", LOG)],
        "call: Write {\"path\":\"a\",\"content\":\"x\"}\n---\ntext: never",
    );
    // The write waits for the lock of its folder: the interrupt comes while it runs.
    let folder = File::open(test.root()).unwrap();
    folder.lock().unwrap();
    let mut child = test.spawn(&["run", "go", "--model", "script:../script"]);
    wait_for(|| test.has_event("tool.started"));
    std::thread::sleep(Duration::from_millis(600));
    signal(child.id(), "INT");
    std::thread::sleep(Duration::from_millis(600));
    folder.unlock().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(test.read("a"), "x");
    let asked = asked(&test.root().join("../log"));
    let names: Vec<&str> = asked.iter().filter_map(|it| it["hook_event_name"].as_str()).collect();
    assert_eq!(names, ["PostToolUse"]);
    assert_eq!(ends(&test), ["passed"]);
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "interrupted");
    assert_eq!(test.events_of("model.requested").len(), 1);
}

#[test]
fn hook_that_an_interrupt_ends_is_an_event() {
    let wait = "touch ../begun; exec sleep 322";
    let test = with(
        &[hook("PreToolUse", "Write", wait)],
        "call: Write {\"path\":\"never\",\"content\":\"x\"}\n---\ntext: never",
    );
    let mut child = test.spawn(&["run", "go", "--model", "script:../script"]);
    wait_for(|| test.root().join("../begun").exists());
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let finished = &test.events_of("hook.finished")[0];
    assert_eq!(finished["outcome"], "failed");
    assert_eq!(finished["text"], "it was ended before it answered");
    assert!(!test.root().join("never").exists());
    // The user caused it: there is no notice.
    assert!(test.events_of("error").is_empty());
}

#[test]
fn interrupted_call_is_a_failure_for_hooks_which_delay_the_end_only_for_a_while() {
    let test = with(
        &[
            hook("PostToolUseFailure", "Bash", LOG),
            "[[hooks.PostToolUseFailure]]\ncommand = \"sleep 600\"\ntimeout = \"10m\"\n".to_owned(),
            hook("PreToolUse", "Write", LOG),
        ],
        "call: Bash {\"command\":\"touch begun; sleep 321\"}\n\
         call: Write {\"path\":\"never\",\"content\":\"x\"}\n---\ntext: never",
    );
    let mut child = test.spawn(&["run", "go", "--allow", "Bash", "--model", "script:../script"]);
    wait_for(|| test.root().join("begun").exists());
    signal(child.id(), "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let asked = asked(&test.root().join("../log"));
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0]["hook_event_name"], "PostToolUseFailure");
    assert_eq!(asked[0]["is_interrupt"], true);
    let runs = test.events_of("hook.finished");
    assert_eq!(runs[0]["outcome"], "passed");
    assert_eq!(runs[1]["outcome"], "failed");
    let why = runs[1]["text"].as_str().unwrap();
    assert!(why.contains("it did not end within"), "{why}");
    assert!(!test.root().join("never").exists(), "nothing starts after an interrupt");
}
