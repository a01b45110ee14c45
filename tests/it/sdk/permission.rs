//! Approvals and questions: the program answers in place of the user.

use serde_json::{Value, json};

use super::{Program, kinds};
use crate::support::Test;

const ASKS: [&str; 2] = ["--permission-prompt-tool", "stdio"];

/// A session whose model writes `a.txt`, and expects this of the result.
fn writing(expected: &str) -> (Test, Program) {
    writing_with(expected, &[])
}

fn writing_with(expected: &str, args: &[&str]) -> (Test, Program) {
    let test = Test::new().script(&format!(
        "call: Write {{\"path\": \"a.txt\", \"content\": \"one\\n\"}}\n---\nexpect: {expected}\ntext: done\n---\n\
         times: any\ntext: again"
    ));
    let mut program = Program::start(&test, &[&ASKS[..], args].concat());
    program.say("write it");
    (test, program)
}

fn allow(input: &Value) -> Value {
    json!({"behavior": "allow", "updatedInput": input})
}

#[test]
fn program_allows_a_call() {
    let (test, mut program) = writing("wrote|created|a.txt");
    let asked = program.asked("can_use_tool");
    let request = &asked["request"];
    assert_eq!(request["tool_name"], "Write");
    let path = test.root().join("a.txt");
    assert_eq!(request["input"], json!({"file_path": path, "content": "one\n"}));
    assert_eq!(request["tool_use_id"], "call_1");
    program.answer(&asked, &allow(&request["input"]));
    let result = program.result().pop().unwrap();
    assert_eq!(
        (&result["subtype"], &result["permission_denials"]),
        (&json!("success"), &json!([]))
    );
    program.finish();
    assert_eq!(test.read("a.txt"), "one\n");
    assert_eq!(test.events_of("permission.decided")[0]["reason"], "yes, this once");
}

#[test]
fn program_changes_the_input_of_a_call() {
    let (test, mut program) = writing("changed the arguments");
    let asked = program.asked("can_use_tool");
    let path = test.root().join("b.txt");
    program.answer(&asked, &allow(&json!({"file_path": path, "content": "two\n"})));
    assert_eq!(program.result().pop().unwrap()["result"], "done");
    program.finish();
    assert_eq!(test.read("b.txt"), "two\n");
    assert!(!test.root().join("a.txt").exists());
}

#[test]
fn arguments_that_the_program_leaves_keep_the_values_that_it_cannot_see() {
    const SECRET: &str = "key AKIAABCDEFGHIJKLMNOP\\n";
    let call = format!("call: Write {{\"path\": \"a.txt\", \"content\": \"{SECRET}\"}}\n---\n");
    let test = Test::new().script(&format!("{call}text: done"));
    let mut program = Program::start(&test, &ASKS);
    program.say("write it");
    let asked = program.asked("can_use_tool");
    let mut input = asked["request"]["input"].clone();
    assert_eq!(input["content"], "key [redacted:aws-key]\n");
    input["file_path"] = "b.txt".into();
    program.answer(&asked, &allow(&input));
    assert_eq!(program.result().pop().unwrap()["result"], "done");
    program.finish();
    assert_eq!(test.read("b.txt"), "key AKIAABCDEFGHIJKLMNOP\n");
    assert!(!test.root().join("a.txt").exists());
}

/// The program cannot know what a mask stands for: it changes the text around it.
#[test]
fn mask_is_never_written_in_place_of_what_it_hides() {
    const SECRET: &str = "key AKIAABCDEFGHIJKLMNOP\\n";
    let call = format!("call: Write {{\"path\": \"a.txt\", \"content\": \"{SECRET}\"}}\n---\n");
    let test = Test::new().script(&format!("{call}expect: masked secret\ntext: done"));
    let mut program = Program::start(&test, &ASKS);
    program.say("write it");
    let asked = program.asked("can_use_tool");
    let mut input = asked["request"]["input"].clone();
    input["content"] = "key [redacted:aws-key]\nand more\n".into();
    program.answer(&asked, &allow(&input));
    assert_eq!(program.result().pop().unwrap()["result"], "done");
    program.finish();
    assert!(!test.root().join("a.txt").exists());
}

#[test]
fn changed_input_is_validated_and_judged_anew() {
    let args = ["--deny", "Write(secret/**)"];
    for (input, expected) in [
        (json!({"file_path": "secret/b.txt", "content": "two\n"}), "ACCESS_DENIED|denied"),
        (json!({"file_path": 3}), "INVALID_PARAM"),
    ] {
        let (test, mut program) = writing_with(expected, &args);
        let asked = program.asked("can_use_tool");
        program.answer(&asked, &allow(&input));
        assert_eq!(program.result().pop().unwrap()["result"], "done", "{input}");
        program.finish();
        assert!(!test.root().join("secret").exists() && !test.root().join("a.txt").exists());
    }
}

#[test]
fn program_denies_a_call_with_a_message() {
    let (test, mut program) = writing("not today");
    let asked = program.asked("can_use_tool");
    program.answer(&asked, &json!({"behavior": "deny", "message": "not today"}));
    let result = program.result().pop().unwrap();
    // The denial is an answer, not a failure.
    assert_eq!((&result["subtype"], &result["is_error"]), (&json!("success"), &json!(false)));
    assert_eq!(result["result"], "done");
    assert_eq!(result["permission_denials"][0]["tool_use_id"], "call_1");
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
    assert!(!test.root().join("a.txt").exists());
}

#[test]
fn program_denies_a_call_and_ends_the_turn() {
    let (test, mut program) = writing("interrupted|ended the turn");
    let asked = program.asked("can_use_tool");
    let answer = json!({"behavior": "deny", "message": "stop it", "interrupt": true});
    program.answer(&asked, &answer);
    let result = program.result().pop().unwrap();
    assert_eq!(result["subtype"], "error_during_execution");
    assert_eq!(result["terminal_reason"], "interrupted");
    assert_eq!(result["permission_denials"][0]["tool_name"], "Write");
    program.say("go on");
    assert_eq!(program.result().pop().unwrap()["subtype"], "success");
    program.finish();
    assert!(!test.root().join("a.txt").exists());
}

#[test]
fn program_is_not_asked_if_its_settings_say_so() {
    let settings = json!({"permissions": {"defaultMode": "dontAsk"}}).to_string();
    let (test, program) = writing_with("APPROVAL_REQUIRED", &["--settings", &settings]);
    let lines = program.result();
    assert!(!kinds(&lines).contains(&"control_request".to_owned()), "{lines:?}");
    assert_eq!(lines.last().unwrap()["result"], "done");
    program.finish();
    assert!(!test.root().join("a.txt").exists());
    // An option outranks them.
    let args = ["--settings", &settings, "--permission-mode", "default"];
    let (_test, mut program) = writing_with("a.txt", &args);
    let asked = program.asked("can_use_tool");
    program.answer(&asked, &allow(&asked["request"]["input"]));
    program.result();
    program.finish();
}

#[test]
fn program_grants_more_than_one_call() {
    let call =
        |n: u32| format!("call: Write {{\"path\": \"{n}.txt\", \"content\": \"x\\n\"}}\n---\n");
    let test = Test::new().script(&format!("{}{}text: done", call(1), call(2)));
    let mut program = Program::start(&test, &ASKS);
    program.say("write both");
    let asked = program.asked("can_use_tool");
    let suggestions = asked["request"]["permission_suggestions"].as_array().unwrap().clone();
    let modes: Vec<&Value> = suggestions.iter().filter(|it| it["type"] == "setMode").collect();
    assert_eq!(modes[0]["mode"], "acceptEdits");
    assert!(suggestions.iter().any(|it| it["type"] == "addRules"), "{suggestions:?}");
    let mut answer = allow(&asked["request"]["input"]);
    answer["updatedPermissions"] = json!([modes[0]]);
    program.answer(&asked, &answer);
    let lines = program.result();
    assert!(!kinds(&lines).contains(&"control_request".to_owned()), "{lines:?}");
    program.finish();
    assert!(test.root().join("1.txt").exists() && test.root().join("2.txt").exists());
}

#[test]
fn program_grants_a_rule() {
    let call = "call: Bash {\"command\": \"touch made.txt\"}\n---\n";
    let test = Test::new().script(&format!("{call}{call}text: done"));
    let mut program = Program::start(&test, &ASKS);
    program.say("touch it twice");
    let asked = program.asked("can_use_tool");
    let suggestions = asked["request"]["permission_suggestions"].as_array().unwrap().clone();
    let rule = suggestions.iter().find(|it| it["type"] == "addRules").unwrap();
    assert_eq!(rule["rules"][0]["toolName"], "Bash");
    let mut answer = allow(&asked["request"]["input"]);
    answer["updatedPermissions"] = json!([rule]);
    program.answer(&asked, &answer);
    let lines = program.result();
    assert!(!kinds(&lines).contains(&"control_request".to_owned()), "{lines:?}");
    program.finish();
    assert_eq!(test.events_of("rule.added").len(), 1);
}

/// Rules of a program are in the syntax of Claude Code: `/docs/**` is in the project.
#[test]
fn granted_rules_are_in_the_syntax_of_the_program() {
    let call = |name: &str| {
        format!("call: Write {{\"path\": \"docs/{name}\", \"content\": \"x\\n\"}}\n---\n")
    };
    let test = Test::new().script(&format!("{}{}text: done", call("a"), call("b")));
    let mut program = Program::start(&test, &ASKS);
    program.say("write both");
    let asked = program.asked("can_use_tool");
    let mut answer = allow(&asked["request"]["input"]);
    let rules = json!([
        {"toolName": "mcp__db__query", "ruleContent": "SELECT *"},
        {"toolName": "Write", "ruleContent": "/docs/**"},
    ]);
    answer["updatedPermissions"] =
        json!([{"type": "addRules", "behavior": "allow", "rules": rules}]);
    program.answer(&asked, &answer);
    let lines = program.result();
    assert!(!kinds(&lines).contains(&"control_request".to_owned()), "{lines:?}");
    program.finish();
    assert_eq!(test.events_of("rule.added").len(), 1, "the other one is no rule");
    assert_eq!(test.events_of("rule.added")[0]["rule"]["rule"], "allow Write(./docs/**)");
}

#[test]
fn question_without_an_answer_is_withdrawn_after_a_time() {
    let args = ["--set", "limits.answer_timeout=300ms"];
    let (_test, mut program) = writing_with("did not answer within", &args);
    let asked = program.asked("can_use_tool");
    let cancelled = program.until(|line| line["type"] == "control_cancel_request").pop().unwrap();
    assert_eq!(cancelled["request_id"], asked["request_id"]);
    assert_eq!(program.result().pop().unwrap()["subtype"], "success");
    // The answer comes too late.
    program.answer(&asked, &allow(&asked["request"]["input"]));
    program.say("go on");
    assert_eq!(program.result().pop().unwrap()["result"], "again");
    let (_, code) = program.finish();
    assert_eq!(code, Some(0));
}

#[test]
fn interrupt_withdraws_the_open_question() {
    let (test, mut program) = writing("interrupted|ended the turn");
    let asked = program.asked("can_use_tool");
    program.request(&json!({"subtype": "interrupt"}));
    let lines = program.result();
    let cancelled = lines.iter().find(|line| line["type"] == "control_cancel_request").unwrap();
    assert_eq!(cancelled["request_id"], asked["request_id"]);
    // An answer for a call that is gone has no effect.
    program.answer(&asked, &allow(&asked["request"]["input"]));
    program.say("go on");
    assert_eq!(program.result().pop().unwrap()["subtype"], "success");
    program.finish();
    assert!(!test.root().join("a.txt").exists());
}

#[test]
fn end_of_input_denies_the_open_question() {
    let (test, program) = writing("has closed its end");
    program.asked("can_use_tool");
    let (mut lines, code) = program.finish();
    assert_eq!(lines.pop().unwrap()["result"], "done");
    assert_eq!(code, Some(0));
    assert!(!test.root().join("a.txt").exists());
}

#[test]
fn error_of_the_program_denies_the_call() {
    let (test, mut program) = writing("the callback failed");
    let asked = program.asked("can_use_tool");
    program.send(&json!({"type": "control_response", "response": {
        "subtype": "error", "request_id": asked["request_id"], "error": "the callback failed"}}));
    assert_eq!(program.result().pop().unwrap()["result"], "done");
    program.finish();
    assert!(!test.root().join("a.txt").exists());
}

#[test]
fn mode_settles_the_open_question() {
    let (test, mut program) = writing_with("a.txt", &["--allow-dangerously-skip-permissions"]);
    let asked = program.asked("can_use_tool");
    program.request(&json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"}));
    let lines = program.result();
    let cancelled = lines.iter().find(|line| line["type"] == "control_cancel_request").unwrap();
    assert_eq!(cancelled["request_id"], asked["request_id"]);
    program.finish();
    assert_eq!(test.read("a.txt"), "one\n");
}

/// Whoever starts the session decides whether a program may choose the mode that asks nothing.
#[test]
fn mode_that_asks_nothing_is_chosen_only_if_the_session_was_started_so() {
    const ALLOWED: &str = "--allow-dangerously-skip-permissions";
    let disabled = json!({"permissions": {"disableBypassPermissionsMode": "disable"}}).to_string();
    let set = json!({"subtype": "set_permission_mode", "mode": "bypassPermissions"});
    for (args, answer) in [
        (&[][..], "error"),
        (&[ALLOWED], "success"),
        (&["--permission-mode", "bypassPermissions"], "success"),
        (&["--dangerously-skip-permissions"], "success"),
        (&[ALLOWED, "--settings", &disabled], "error"),
    ] {
        let test = Test::new().script("text: unused");
        let mut program = Program::start(&test, &[&ASKS[..], args].concat());
        assert_eq!(program.ask(&set)["subtype"], answer, "{args:?}");
        let accepts = json!({"subtype": "set_permission_mode", "mode": "acceptEdits"});
        assert_eq!(program.ask(&accepts)["subtype"], "success");
        program.finish();
    }
    let test = Test::new().script("text: unused");
    test.run(&["go", "--yolo", "--settings", &disabled])
        .expect_code(2)
        .expect_one_line_of_stderr("disableBypassPermissionsMode");
}

#[test]
fn permission_update_to_the_mode_that_asks_nothing_is_ignored() {
    let call =
        |n: u32| format!("call: Write {{\"path\": \"{n}.txt\", \"content\": \"x\\n\"}}\n---\n");
    let test = Test::new().script(&format!("{}{}text: done", call(1), call(2)));
    let mut program = Program::start(&test, &ASKS);
    program.say("write both");
    for _ in 0..2 {
        let asked = program.asked("can_use_tool");
        let mut answer = allow(&asked["request"]["input"]);
        answer["updatedPermissions"] = json!([{"type": "setMode", "mode": "bypassPermissions"}]);
        program.answer(&asked, &answer);
    }
    assert_eq!(program.result().pop().unwrap()["result"], "done");
    program.finish();
    assert!(test.root().join("2.txt").exists());
}

#[test]
fn program_answers_the_questions_of_the_model() {
    let questions = json!({"questions": [
        {"question": "Which database?", "header": "Storage",
         "options": [{"label": "SQLite", "description": "one file"}, {"label": "Postgres"}]},
        {"question": "Which features?", "multi_select": true,
         "options": [{"label": "logs"}, {"label": "cache"}]},
        {"question": "Which name?"}]});
    let expected = "→ Postgres[\\s\\S]*→ logs, cache[\\s\\S]*→ the big one";
    let script = format!("call: AskUser {questions}\n---\nexpect: {expected}\ntext: noted");
    let test = Test::new().script(&script);
    let mut program = Program::start(&test, &ASKS);
    program.say("ask");
    let init = program.until(|line| line["subtype"] == "init").pop().unwrap();
    assert!(init["tools"].as_array().unwrap().contains(&json!("AskUserQuestion")), "{init}");
    let asked = program.asked("can_use_tool");
    assert_eq!(asked["request"]["tool_name"], "AskUserQuestion");
    let mut input = asked["request"]["input"].clone();
    assert_eq!(input["questions"][0]["options"][0]["description"], "one file");
    assert_eq!(input["questions"][1]["multiSelect"], true);
    input["answers"] = json!({"Which database?": "Postgres", "Which features?": "logs, cache",
                              "Which name?": "the big one"});
    program.answer(&asked, &allow(&input));
    assert_eq!(program.result().pop().unwrap()["result"], "noted");
    program.finish();
    let answers = test.events_of("question.answered")[0]["answers"].clone();
    assert_eq!(answers[1]["selected"], json!(["logs", "cache"]));
    assert_eq!(answers[2]["text"], "the big one");
}

#[test]
fn end_of_a_background_command_has_the_name_of_the_other_agent() {
    let script = "call: Bash {\"command\": \"sleep 300.8\", \"background\": true}\n---\n\
                  call: Bash {\"kill\": \"bg_1\"}\n---\nexpect: bg_1 was ended\ntext: done";
    let test = Test::new().user_config("permissions.ask = [\"BashKill\"]\n").script(script);
    let mut program = Program::start(&test, &[&ASKS[..], &["--allow", "Bash"]].concat());
    program.say("start it and end it");
    let asked = program.asked("can_use_tool");
    assert_eq!(asked["request"]["tool_name"], "KillShell");
    assert_eq!(asked["request"]["input"], json!({"shell_id": "bg_1"}));
    program.answer(&asked, &allow(&asked["request"]["input"]));
    assert_eq!(program.result().pop().unwrap()["result"], "done");
    program.finish();
}
