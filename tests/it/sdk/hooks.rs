//! Hooks that live in the program.

use serde_json::{Value, json};

use super::Program;
use crate::support::Test;

/// A session with these hooks.
fn hooked(script: &str, hooks: &Value, args: &[&str]) -> (Test, Program) {
    let test = Test::new().script(script);
    let mut program = Program::start(&test, args);
    let answer = program.ask(&json!({"subtype": "initialize", "hooks": hooks}));
    assert_eq!(answer["subtype"], "success", "{answer}");
    assert_eq!(answer["response"]["hook_on_failure_supported"], true);
    program.say("go");
    (test, program)
}

fn before(more: &Value) -> Value {
    let mut matcher = json!({"matcher": "Bash|Write", "hookCallbackIds": ["hook_0"]});
    for (name, value) in more.as_object().into_iter().flatten() {
        matcher[name] = value.clone();
    }
    json!({"PreToolUse": [matcher]})
}

const WRITES: &str = "call: Write {\"path\": \"a.txt\", \"content\": \"one\\n\"}\n---\n";

#[test]
fn program_is_asked_before_and_after_a_call() {
    let mut hooks = before(&json!({}));
    hooks["PostToolUse"] = json!([{"matcher": null, "hookCallbackIds": ["hook_1"]}]);
    let script = format!("call: LS {{}}\n---\n{WRITES}expect: look again\ntext: done");
    let (test, mut program) = hooked(&script, &hooks, &[]);
    // LS does not match the first one.
    let after = program.asked("hook_callback");
    assert_eq!(after["request"]["input"]["tool_name"], "LS");
    program.answer(&after, &json!({}));
    let asked = program.asked("hook_callback");
    let request = &asked["request"];
    assert_eq!(
        (&request["callback_id"], &request["tool_use_id"]),
        (&json!("hook_0"), &json!("call_2"))
    );
    assert_eq!(request["input"]["hook_event_name"], "PreToolUse");
    let path = test.root().join("a.txt");
    assert_eq!(request["input"]["tool_input"]["file_path"], json!(path));
    let output = json!({"hookEventName": "PreToolUse", "permissionDecision": "allow",
                        "updatedInput": {"file_path": path, "content": "two\n"}});
    program.answer(&asked, &json!({ "hookSpecificOutput": output }));
    let after = program.asked("hook_callback");
    assert_eq!(after["request"]["callback_id"], "hook_1");
    assert_eq!(after["request"]["input"]["tool_input"]["content"], "two\n");
    let output = json!({"hookEventName": "PostToolUse", "additionalContext": "look again"});
    program.answer(&after, &json!({ "hookSpecificOutput": output }));
    assert_eq!(program.result().pop().unwrap()["result"], "done");
    program.finish();
    assert_eq!(test.read("a.txt"), "two\n");
}

#[test]
fn program_denies_a_call_before_it_is_asked_for_permission() {
    let script = format!("{WRITES}expect: not here\ntext: done");
    let args = ["--permission-prompt-tool", "stdio"];
    let (test, mut program) = hooked(&script, &before(&json!({})), &args);
    let asked = program.asked("hook_callback");
    let output = json!({"permissionDecision": "deny", "permissionDecisionReason": "not here"});
    program.answer(&asked, &json!({ "hookSpecificOutput": output }));
    let result = program.result().pop().unwrap();
    assert_eq!((&result["subtype"], &result["result"]), (&json!("success"), &json!("done")));
    program.finish();
    assert!(!test.root().join("a.txt").exists());
}

#[test]
fn hook_that_fails_has_no_effect_unless_it_should_block() {
    for (more, expected, is_written) in
        [(json!({}), "a.txt", true), (json!({"onFailure": "block"}), "it broke", false)]
    {
        let script = format!("{WRITES}expect: {expected}\ntext: done");
        let args = ["--permission-mode", "auto-edit"];
        let (test, mut program) = hooked(&script, &before(&more), &args);
        let asked = program.asked("hook_callback");
        program.send(&json!({"type": "control_response", "response": {
            "subtype": "error", "request_id": asked["request_id"], "error": "it broke"}}));
        assert_eq!(program.result().pop().unwrap()["result"], "done", "{more}");
        program.finish();
        assert_eq!(test.root().join("a.txt").exists(), is_written, "{more}");
    }
}

#[test]
fn hook_that_never_answers_has_a_limit() {
    let hooks = before(&json!({"timeout": 0.3, "onFailure": "block"}));
    let script = format!("{WRITES}expect: did not answer within\ntext: done");
    let (test, program) = hooked(&script, &hooks, &["--permission-mode", "auto-edit"]);
    let asked = program.asked("hook_callback");
    let cancelled = program.until(|line| line["type"] == "control_cancel_request").pop().unwrap();
    assert_eq!(cancelled["request_id"], asked["request_id"]);
    assert_eq!(program.result().pop().unwrap()["result"], "done");
    program.finish();
    assert!(!test.root().join("a.txt").exists());
}

#[test]
fn interrupt_withdraws_a_hook() {
    let script = format!("{WRITES}times: any\ntext: done");
    let (_test, mut program) = hooked(&script, &before(&json!({})), &[]);
    let asked = program.asked("hook_callback");
    program.request(&json!({"subtype": "interrupt"}));
    let lines = program.result();
    let cancelled = lines.iter().find(|line| line["type"] == "control_cancel_request").unwrap();
    assert_eq!(cancelled["request_id"], asked["request_id"]);
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
}
