//! The user says that the result is wrong: evidence at the start of the turn, and a word to the model.

use serde_json::Value;

use crate::run::{signal, wait_for};
use crate::support::Test;

/// The evaluations of the last turn that come before the model is asked.
fn heard(test: &Test) -> Vec<Value> {
    let events = test.events();
    let turn = events.iter().rposition(|event| event["type"] == "turn.started").unwrap();
    let asked = events[turn..].iter().position(|event| event["type"] == "model.requested").unwrap();
    let before = events[turn..][..asked].iter();
    before.filter(|event| event["type"] == "evaluation").cloned().collect()
}

fn trailing(test: &Test) -> Vec<String> {
    let requested = test.events_of("model.requested");
    requested.iter().map(|event| event["trailing"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn the_next_message_may_reject_the_result_also_in_a_session_that_goes_on() {
    let test = Test::new().file("rows", "5\n7\n").script("text: The total is 11.");
    test.run(&["add up the rows"]).expect_code(0);
    let test = test.script("call: Read {\"path\": \"rows\"}\n---\ntext: It is 12.");
    test.run(&["-c", "Thanks. No, that's wrong: look at the rows."]).expect_code(0);

    let [evidence] = &heard(&test)[..] else { panic!("{:?}", test.events()) };
    assert_eq!(evidence["failure"]["signal"], "user_rejected");
    assert_eq!(evidence["step_success"], false);
    let words = "No, that's wrong: look at the rows.";
    assert!(evidence["failure"]["message"].as_str().unwrap().ends_with(words), "{evidence}");
    let trailing = trailing(&test);
    let line = trailing[1].lines().find(|line| line.starts_with("Rejected: ")).unwrap();
    assert!(line.contains("“The total is 11.”") && line.contains(words), "{line}");
    // Said once; the round that succeeded made it good.
    assert!(!trailing[2].contains("Rejected: "), "{}", trailing[2]);
    assert!(test.events_of("evaluation").last().unwrap().get("failure").is_none_or(Value::is_null));
    // No call more than without it, and every counter as at the start of any task.
    assert_eq!(trailing.len(), 3);
    let decided = test.events_of("control.decided");
    assert!(decided.iter().all(|event| event["decision"] == "continue"), "{decided:?}");
}

#[test]
fn what_is_no_rejection_and_what_claims_nothing_is_left_alone() {
    for message in
        ["No, wait, first do b.", "Is that wrong?", "The wrong file is read by the parser, fix it."]
    {
        let test = Test::new().script("text: done");
        test.run(&["task"]).expect_code(0);
        test.run(&["-c", message]).expect_code(0);
        assert_eq!(heard(&test), [Value::Null; 0], "{message}");
        assert!(!trailing(&test)[1].contains("Rejected"), "{message}");
    }
    // The first message, and one after a turn that said itself that it had failed, reject nothing.
    let test = Test::new().script("times: any\ntext: done");
    test.run(&["that's wrong", "--check", "false"]).expect_code(1);
    assert_eq!(heard(&test), [Value::Null; 0]);
    test.run(&["-c", "that's wrong"]).expect_code(0);
    assert_eq!(heard(&test), [Value::Null; 0]);
}

#[test]
fn what_was_claimed_before_a_turn_that_was_cut_off_is_rejected_by_nobody() {
    let test = Test::new().script("text: The total is 11.");
    test.run(&["add up the rows"]).expect_code(0);
    let test = test.script("fault: hang");
    let mut child = test.spawn(&["run", "--model", "script:../script", "-c", "sort them"]);
    wait_for(|| test.events_of("model.requested").len() == 2);
    signal(child.id(), "KILL");
    child.wait().unwrap();
    let test = test.script("text: I look again.");
    test.run(&["-c", "That's wrong."]).expect_code(0);
    assert_eq!(test.events_of("turn.started").len(), 3);
    assert_eq!(heard(&test), [Value::Null; 0]);
    assert!(!trailing(&test)[2].contains("Rejected"), "nobody knows what it did");
}

#[test]
fn a_claim_that_holds_a_place_of_the_prompt_is_told_as_it_was() {
    let test = Test::new().script("text: Put {{words}} there.");
    test.run(&["what now?"]).expect_code(0);
    test.run(&["-c", "That's wrong."]).expect_code(0);
    let told = trailing(&test).remove(1);
    assert!(told.contains("“Put {{words}} there.”") && told.contains("“That's wrong.”"), "{told}");
}
