//! Scenarios of the loop: faults of the model, recovery, compaction.

use serde_json::json;

use super::{codes, expect_equal_without_project};
use crate::lessons::recall::{AT_OLD_PLACE, bash, moved};
use crate::support::Test;

fn recorded(script: &str, args: &[&str]) -> Test {
    let test = Test::new().file("a.txt", "one\nmore\n").script(script);
    let mut all = vec!["task"];
    all.extend(args);
    test.run(&all);
    test
}

#[test]
fn broken_json_and_unknown_tools_are_equal() {
    let test = recorded(
        "call: Read {\"path\": \"a.txt\"}\nfault: broken_json\n---\nfault: unknown_tool\n---\ntext: done",
        &[],
    );
    assert_eq!(codes(&test), ["INVALID_PARAM", "UNKNOWN_TOOL"]);
    expect_equal_without_project(&test);
}

#[test]
fn repeated_calls_are_refused_again() {
    let test = recorded("times: 4\ncall: Read {\"path\": \"a.txt\"}\n---\ntext: done", &[]);
    assert!(codes(&test).contains(&"REPEATED_CALL".to_owned()), "{:?}", codes(&test));
    expect_equal_without_project(&test);
}

#[test]
fn check_that_fails_first_is_run_again() {
    let test = recorded(
        "text: done\n---\ncall: Write {\"path\": \"ok\", \"content\": \"x\\n\"}\n---\ntext: done now",
        &["--check", "cat ok", "--allow", "Bash"],
    );
    assert_eq!(test.events_of("check.finished").len(), 2);
    expect_equal_without_project(&test);
}

#[test]
fn replanning_is_equal() {
    let todos = json!({"summary": "s", "todos": [{"content": "read it", "status": "in_progress"}]});
    let plan = json!({"summary": "s", "todos": [{"content": "read the other file", "status": "in_progress"}]});
    let script = format!(
        "call: TodoWrite {todos}\n---\ntimes: 2\ncall: Read {{\"path\": \"no\"}}\n---\nfor: reflect\ntimes: \
         any\ntext: nothing\n---\nfor: plan\ntext: {plan}\n---\ncall: Read {{\"path\": \
         \"a.txt\"}}\n---\ntext: done"
    );
    let test = recorded(&script, &["--set", "recovery.max_step_retries=1"]);
    let decided = test.events_of("control.decided");
    assert!(decided.iter().any(|event| event["decision"] == "replan"), "{decided:?}");
    expect_equal_without_project(&test);
}

#[test]
fn compaction_at_the_threshold_is_equal() {
    let text: String = (0..400).map(|n| format!("line {n} of a long file\n")).collect();
    let calls: String = (0..12)
        .map(|n| {
            format!("call: Read {{\"path\": \"long.txt\", \"offset\": {}}}\n---\n", n * 30 + 1)
        })
        .collect();
    let script = format!("{calls}for: summary\ntimes: any\ntext: nothing\n---\ntext: done");
    let test = Test::new().file("long.txt", &text).script(&script).user_config(
        "[models.\"script:../script\"]\ncontext_window = 16000\n[context]\nkeep_rounds = 2\n",
    );
    test.run(&["task"]);
    assert!(!test.events_of("context.compacted").is_empty());
    expect_equal_without_project(&test);
}

#[test]
fn failures_of_the_model_are_repeated() {
    let test = recorded(
        "text: I look\ncall: LS {}\nfault: rate_limited\n---\nfault: empty\n---\nfault: overflow\n---\nfor: \
         summary\ntimes: any\ntext: nothing\n---\ntext: done",
        &[],
    );
    expect_equal_without_project(&test);
}

#[test]
fn tool_output_of_the_session_is_found_again() {
    let script = "call: Bash {\"command\": \"seq 5000\"}\n---\nexpect: (/\\S+tool_\\S+_Bash\\.txt)\ncall: Read \
                  {\"path\": \"{{match.1}}\", \"offset\": 2500, \"limit\": 3}\n---\ntext: done";
    let test = recorded(script, &["--allow", "Bash"]);
    assert_eq!(codes(&test), [""; 0]);
    expect_equal_without_project(&test);
}

#[test]
fn limits_of_the_recorded_session_apply() {
    let test = recorded(
        "times: any\ncall: Bash {\"command\": \"seq 9; date +%N > n\"}",
        &[
            "--max-turns",
            "3",
            "--set",
            "context.tool_output_max_lines=4",
            "--allow",
            "Bash",
            "--deny",
            "Edit(a.txt)",
        ],
    );
    assert_eq!(test.events_of("turn.finished")[0]["ending"], "max_turns");
    let replay = super::Replay::of(&test);
    // The content depends on the time, so it is a difference of the files.
    assert_eq!(replay.done.code, Some(1));
    assert_eq!(replay.with("different").len(), 3, "{}", replay.page);
    let difference = replay.with("different")[0]["difference"].as_str().unwrap().to_owned();
    assert!(difference.starts_with("n: file 644 "), "{difference}");
}

#[test]
fn verifier_answers_again() {
    let verdict = json!({"confirmed": false, "objection": "it is not read", "evidence": []});
    let script = format!(
        "for: task\ncall: Read {{\"path\": \"a.txt\"}}\n---\nfor: task\ntext: {verdict}\n---\ncall: LS \
         {{}}\n---\ntext: done"
    );
    let test = recorded(&script, &["--set", "verify.model=script:../script"]);
    assert_eq!(test.events_of("verification").len(), 1);
    expect_equal_without_project(&test);
}

#[test]
fn suspended_tool_is_suspended_again() {
    // More background commands than the limit: Bash itself fails, three times running.
    let call = |n: u32| {
        let input = json!({"command": format!("sleep 6{n:02}"), "background": true});
        format!("call: Bash {input}\n")
    };
    let calls: String = (0..20).map(call).collect();
    let test = recorded(&format!("{calls}---\ntext: done"), &["--allow", "Bash"]);
    let expected = ["EXECUTION_ERROR", "EXECUTION_ERROR", "EXECUTION_ERROR", "CIRCUIT_OPEN"];
    assert_eq!(codes(&test), expected);
    expect_equal_without_project(&test);
}

#[test]
fn lesson_that_the_kernel_applied_comes_from_the_record() {
    let (test, _) = moved();
    let test = test.script(&format!("{}when: 1 lib/a.txt\ntext: done", bash(AT_OLD_PLACE)));
    test.run(&["say hello"]).expect_code(0);
    let finished = test.events_of("tool.finished");
    assert!(finished.iter().any(|event| event["by"] == "kernel"), "{finished:?}");
    std::fs::remove_dir_all(test.home().join(".local/share/agent")).unwrap();
    expect_equal_without_project(&test);
    assert!(!test.home().join(".local/share/agent").exists(), "no memory is opened");
}

#[test]
fn another_model_answers_again_in_place_of_the_main_one() {
    let test = Test::new().file("a.txt", "one\n").script("fault: overloaded");
    let other = test.root().join("../other");
    std::fs::write(&other, "call: Read {\"path\": \"a.txt\"}\n---\ntext: done").unwrap();
    test.run(&["task", "--set", "fallback=[\"script:../other\"]"]).expect_code(0);
    assert_eq!(test.events_of("model.fallback").len(), 1);
    expect_equal_without_project(&test);
}
