//! Hooks: commands that are asked at fixed points of a session.

mod approval;
mod calls;
mod faults;
mod interrupts;
mod other_agents;
mod trust;
mod turns;

use std::path::Path;

use serde_json::{Value, json};

use crate::support::{Done, Test};

/// A hook in the user's configuration.
fn hook(event: &str, matcher: &str, command: &str) -> String {
    format!(
        "[[hooks.{event}]]\nmatcher = '{matcher}'\ncommand = '''{command}'''\ntimeout = \"20s\"\n"
    )
}

/// A hook that answers this JSON.
fn answering(event: &str, matcher: &str, answer: &Value) -> String {
    hook(event, matcher, &format!("cat > /dev/null; printf '%s' '{answer}'"))
}

/// An answer about a call.
fn ruling(decision: &str, reason: &str) -> Value {
    json!({"hookSpecificOutput": {
        "hookEventName": "PreToolUse",
        "permissionDecision": decision,
        "permissionDecisionReason": reason,
    }})
}

/// A test with these hooks of the user, and a script.
fn with(hooks: &[String], script: &str) -> Test {
    Test::new().user_config(&hooks.concat()).script(script)
}

/// The envelopes of the calls, in order.
fn envelopes(test: &Test) -> Vec<Value> {
    test.events_of("tool.finished").iter().map(|it| it["envelope"].clone()).collect()
}

/// The error code of an envelope; empty for a success.
fn code(envelope: &Value) -> &str {
    envelope["error"]["code"].as_str().unwrap_or_default()
}

/// What hooks were asked, from a file with one line for each.
fn asked(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// How the runs of hooks ended, in order.
fn ends(test: &Test) -> Vec<String> {
    let events = test.events_of("hook.finished");
    events.iter().map(|it| it["outcome"].as_str().unwrap().to_owned()).collect()
}

/// The lines about hooks that the user sees.
fn notices(done: &Done) -> Vec<&str> {
    done.stderr.lines().filter(|line| line.contains("hook")).collect()
}
