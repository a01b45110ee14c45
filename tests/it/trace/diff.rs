//! `agent trace diff`: where two runs part.

use serde_json::{Value, json};

use super::{WORK, diff, id, kinds, project, run, stats, trace};
use crate::support::Test;

#[test]
fn runs_that_differ_in_incidental_details_are_equal() {
    let script = "call: Bash {\"command\": \"pwd; date; date +%s%3N; mktemp; cat t.sh\"}\n\
        call: Read {\"path\": \"t.sh\"}\n---\ntext: done";
    let test = project(script);
    let first = run(&test, &[]);
    let second = run(&test, &[]);
    diff(&test, &first, &second, 0);
    // In another directory, and with the arguments in another order.
    let other = test.root().with_file_name("elsewhere");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("t.sh"), "echo runs\nexit 3\n").unwrap();
    let list = test.agent(&["session", "list", "-C", other.to_str().unwrap(), "--format", "json"]);
    assert_eq!(list.expect_code(0).stdout, "[]\n");
    test.run(&["repair it", "--no-memory", "-C", other.to_str().unwrap()]).expect_code(0);
    let list = test.agent(&["session", "list", "-C", other.to_str().unwrap(), "--format", "json"]);
    let list: Value = serde_json::from_str(&list.expect_code(0).stdout).unwrap();
    let third = list[0]["id"].as_str().unwrap();
    let comparison = diff(&test, &first, third, 0);
    assert_eq!(comparison["equal_rounds"], 2);
    assert_ne!(comparison["a"]["id"], comparison["b"]["id"]);
}

/// The demo has a conflict with another process, a failing test, a plan and a check.
#[test]
fn two_runs_of_the_demo_are_equal() {
    let test = Test::new();
    let mut ids = Vec::new();
    for name in ["one", "other"] {
        let root = test.root().join(name);
        let root = root.to_str().unwrap();
        test.agent(&["demo", "--dir", root]).expect_code(0);
        let list = test.agent(&["session", "list", "--format", "json", "-C", root]);
        let list: Value = serde_json::from_str(&list.expect_code(0).stdout).unwrap();
        ids.push(list[0]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(diff(&test, &ids[0], &ids[1], 0)["equal_rounds"], 8);
    let recoveries = json!({"failed": 2, "recovered": 2, "bypassed": 0, "unresolved": 0});
    assert_eq!(stats(&test, &[&ids[0]])["total"]["recoveries"], recoveries);
}

#[test]
fn order_of_arguments_is_no_difference() {
    let calls = [
        "{\"path\": \"t.sh\", \"limit\": 1}",
        "{ \"limit\": 1,\n  \"path\": \"t.sh\" }",
        "{\"path\": \"t.sh\", \"limit\": 2}",
    ];
    let mut test = project("");
    let mut ids = Vec::new();
    for call in calls {
        test = test.script(&format!("call: Read {call}\n---\ntext: done"));
        ids.push(run(&test, &[]));
    }
    diff(&test, &ids[0], &ids[1], 0);
    let comparison = diff(&test, &ids[0], &ids[2], 1);
    assert_eq!(kinds(&comparison), ["decision"]);
    assert_eq!(comparison["differences"][0]["what"], "call of Read");
    let text = trace(&test, &["diff", &ids[0], &ids[2]]).expect_code(1).stdout;
    for part in [
        "0 rounds equal, then the first difference in decision: call of Read\n",
        "--- A: turn 1, round 1 (event ",
        "-   \"limit\": 1,\n",
        "+   \"limit\": 2,\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn changed_prompt_is_the_first_difference_in_input() {
    let test = project(WORK);
    let plain = run(&test, &[]);
    let told = run(&test, &["--append-system-prompt", "Speak like a pirate."]);
    let comparison = diff(&test, &plain, &told, 1);
    // The scripted model does not listen.
    assert_eq!(kinds(&comparison), ["input"]);
    let text = trace(&test, &["diff", &plain, &told]).expect_code(1).stdout;
    assert!(text.contains("+ Speak like a pirate."), "{text}");
    // With another user message, too.
    test.write("t.sh", "echo runs\nexit 3\n");
    test.run(&["repair it, please", "--no-memory"]).expect_code(0);
    let comparison = diff(&test, &plain, &id(&test), 1);
    assert_eq!(comparison["differences"][0]["what"], "message of the user");
}

/// What an earlier run taught is in the rules of the next, and the kernel may act on it.
#[test]
fn learnt_lesson_is_a_difference_in_input() {
    let test = project(WORK);
    let run = || {
        test.write("t.sh", "echo runs\nexit 3\n");
        test.run(&["repair t.sh"]).expect_code(0);
        id(&test)
    };
    let (first, second) = (run(), run());
    let comparison = diff(&test, &first, &second, 1);
    let difference = &comparison["differences"][0];
    assert_eq!((&difference["kind"], &difference["what"]), (&json!("input"), &json!("rules (L2)")));
    assert_eq!(difference["a"]["text"], "");
    assert!(difference["b"]["text"].as_str().unwrap().contains("bash t.sh"), "{difference}");
    let lessons = &stats(&test, &[&second])["total"]["lessons"];
    assert!(lessons["for_task"].as_u64() > Some(0), "{lessons}");
}

#[test]
fn changed_file_is_a_difference_in_result_and_then_in_decision() {
    let script = "call: Bash {\"command\": \"bash t.sh\"}\n---\nwhen: exited 3\ntext: it fails\n---\n\
        text: it passes";
    let test = project(script);
    let first = run(&test, &[]);
    test.write("t.sh", "echo runs\nexit 0\n");
    test.run(&["repair it", "--no-memory"]).expect_code(0);
    let second = id(&test);
    let comparison = diff(&test, &first, &second, 1);
    assert_eq!(kinds(&comparison), ["result", "decision"]);
    assert_eq!(comparison["equal_rounds"], 0);
    let result = &comparison["differences"][0];
    assert_eq!(result["what"], "result of Bash bash t.sh");
    assert!(
        result["a"]["text"].as_str().unwrap().starts_with("error COMMAND_FAILED, exit code 3\n")
    );
    assert!(result["b"]["text"].as_str().unwrap().starts_with("success, exit code 0\n"));
    assert_eq!(comparison["differences"][1]["a"]["text"], "it fails");
    let text = trace(&test, &["diff", &first, &second]).expect_code(1).stdout;
    let row = text.lines().find_map(|line| line.strip_prefix("failed calls")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["1", "0", "-1"], "{text}");
    // It is the same the other way round.
    assert_eq!(kinds(&diff(&test, &second, &first, 1)), ["result", "decision"]);
}

#[test]
fn rewound_turns_are_not_compared() {
    let test = project("text: one");
    let plain = run(&test, &[]);
    let rewound = run(&test, &[]);
    test.run(&["more", "--resume", &rewound]).expect_code(0);
    assert_eq!(kinds(&diff(&test, &plain, &rewound, 1)), ["input"]);
    test.agent(&["session", "rewind", &rewound, "--turn", "2", "--conversation"]).expect_code(0);
    diff(&test, &plain, &rewound, 0);
}

#[test]
fn wrong_sessions_to_compare_are_a_usage_error() {
    let test = project("text: one");
    let only = run(&test, &[]);
    diff(&test, &only, &only, 0);
    trace(&test, &["diff", &only]).expect_code(2);
    trace(&test, &["diff", &only, "nope"])
        .expect_code(2)
        .expect_one_line_of_stderr("no session nope");
}
