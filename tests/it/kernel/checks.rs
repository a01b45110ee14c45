//! Checks: their effect on the answer, on `verified` and on the report.

use serde_json::{Value, json};

use crate::support::Test;

fn finished(test: &Test) -> Value {
    test.events_of("turn.finished").pop().unwrap()
}

#[test]
fn verified_is_never_true_for_a_turn_that_ends_without_an_answer() {
    // The check passes, the verifier objects, and the limit is reached before the next answer.
    let said = json!({"confirmed": false, "objection": "no test ran",
                      "evidence": [{"where": "check", "quote": "0 tests ran"}]});
    let test = Test::new()
        .script("text: done\n---\ncall: Write {\"path\": \"a.txt\", \"content\": \"x\\n\"}")
        .file(".verifier", format!("for: task\ntext: {said}"));
    let verify = ["--set", "verify.model=script:../project/.verifier", "--max-turns", "2"];
    let args = [&["task", "--check", "echo 0 tests ran"][..], &verify].concat();
    test.run(&args).expect_code(124);
    assert_eq!(finished(&test)["verified"], false);
}

#[test]
fn checks_that_passed_later_are_not_in_the_report() {
    let test = Test::new().script(
        "text: done\n---\ncall: Write {\"path\": \"a.txt\", \"content\": \"x\\n\"}\n---\n\
         times: any\ntext: done",
    );
    let args = ["task", "--check", "test -e a.txt", "--check", "echo no; false"];
    let off = ["--set", "recovery.enable_step_level_reflection=false"];
    test.run(&[&args[..], &off].concat()).expect_code(1);
    let report = finished(&test)["report"].clone();
    let attempts = report["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 1, "{report}");
    assert_eq!(attempts[0]["what"], "check `echo no; false`");
}

#[test]
fn hanging_check_is_run_twice_and_reported() {
    let test = Test::new().script("times: any\ntext: done");
    let args = ["task", "--check", "sleep 60", "--set", "checks.timeout=1s"];
    test.run(&args).expect_code(1).expect_stderr("timed out 2 times in a row");
    assert_eq!(test.events_of("check.finished").len(), 2);
    let finished = finished(&test);
    assert_eq!(finished["ending"], "check_failed");
    assert_eq!(finished["report"]["attempts"][0]["times"], 2);
}

#[test]
fn only_a_missing_first_program_of_a_check_is_a_configuration_error() {
    for (check, ending) in [
        ("no-such-checker --strict", "completed_unverified"),
        ("sh -c no-such-checker", "check_failed"),
        ("./no-such-script", "check_failed"),
        ("exit 127", "check_failed"),
    ] {
        let test = Test::new().script("times: any\ntext: done");
        let off = "recovery.enable_step_level_reflection=false";
        test.run(&["task", "--check", check, "--set", off]).expect_code(1);
        let finished = finished(&test);
        assert_eq!(finished["ending"], ending, "{check}");
        assert_eq!(finished["verified"], false, "{check}");
    }
}
