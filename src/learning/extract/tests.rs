//! What a failure and a success teach, without a log behind them: traces made by hand.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;

use super::super::item::Item;
use super::super::trace::{Attempt, ExecutionTrace};
use super::{Extracted, extract};
use crate::protocol::envelope::ErrorCode;

/// The pieces of the lines that are made up.
const PIECES: [&str; 24] = [
    "make", "./task", "npm", "run", "python3", "-m", "pytest", "all", "-q", "A=1", "timeout", "60",
    "cd", "web", "2>&1", ">", "log", "2>", "&>log", "&&", "|", ";", "'x y'", "<",
];
/// What a failure says of a piece.
const SAYS: [&str; 5] =
    ["unknown target", "command not found:", "is required:", "assert", "no such file:"];

fn attempt(index: u32, command: &str, error: Option<&str>, exit_code: i64) -> Attempt {
    let context = json!({"tool": "Bash", "input": {"command": command}, "exit_code": exit_code});
    Attempt {
        index,
        timestamp_ms: i64::from(index),
        context: context.as_object().cloned().unwrap_or_default(),
        activated_artifacts: Vec::new(),
        result: String::new(),
        success: error.is_none(),
        code: error.map(|_| ErrorCode::CommandFailed),
        signature: error.map(crate::protocol::signature::signature),
        error: error.map(|error| format!("`{command}` exited {exit_code}\n{error}")),
        fix_applied: None,
        fix_source: None,
    }
}

fn trace(attempts: Vec<Attempt>) -> ExecutionTrace {
    ExecutionTrace {
        id: "s/1/1".to_owned(),
        skill_id: "Bash".to_owned(),
        task_id: "s/1".to_owned(),
        session: "s".to_owned(),
        project: "here".to_owned(),
        turn: 1,
        step: 0,
        final_success: attempts.last().is_some_and(|attempt| attempt.success),
        attempts,
        needs_human: false,
        methodology: None,
        created_at_ms: 1,
        duration_ms: 1,
    }
}

/// The only thing that is learnt there.
#[track_caller]
fn one(bad: &str, error: &str, exit_code: i64, good: &str) -> Item {
    let extracted = learnt(bad, error, exit_code, good);
    let [item] = extracted.items.as_slice() else { panic!("{bad} → {good}: {extracted:#?}") };
    item.clone()
}

/// What is learnt where the first line fails like this and the second works.
fn learnt(bad: &str, error: &str, exit_code: i64, good: &str) -> Extracted {
    extract(&trace(vec![attempt(1, bad, Some(error), exit_code), attempt(2, good, None, 0)]), "")
}

#[test]
fn where_the_output_goes_is_no_part_of_a_command() {
    for (bad, good) in [
        ("./gen 2>&1", "./gen all 2>&1"),
        ("./gen 2>&1", "./gen all"),
        ("./gen > log", "./gen all &> log"),
        ("2>&1 ./gen", "./gen all 2>&1"),
    ] {
        let item = one(bad, "gen: `all` is required", 2, good);
        assert!(item.text.starts_with("Run `./gen` with `all`"), "{bad}: {}", item.text);
    }
    let says = "make: *** No rule to make target 'tests'";
    let item = one("make tests 2>&1", says, 2, "make test 2>&1");
    assert!(item.text.starts_with("Run `make test`, not `make tests`"), "{}", item.text);
    assert_eq!(learnt("make 2>&1", says, 2, "make test 2>&1").items, [], "nothing is blamed");
    assert_eq!(learnt("A=1", "make is required", 1, "A=1 make").items, [], "there was no command");
}

proptest! {
    /// Whatever fails, and whatever works after it, can be compared.
    #[test]
    fn any_two_lines_can_be_compared(
        shared in prop::collection::vec(select(&PIECES[..]), 0..4),
        bad in prop::collection::vec(select(&PIECES[..]), 0..4),
        good in prop::collection::vec(select(&PIECES[..]), 0..4),
        says in select(&SAYS[..]),
        about in select(&PIECES[..]),
        exit_code in select(vec![1_i64, 2, 126, 127]),
        again in any::<bool>(),
    ) {
        let line = |own: &[&str]| [shared.as_slice(), own].concat().join(" ");
        let (bad, good) = (line(&bad), line(&good));
        let error = format!("{says} {about}");
        let mut attempts = vec![attempt(1, &bad, Some(&error), exit_code)];
        if again {
            attempts.push(attempt(2, &good, Some("another failure"), 1));
        }
        attempts.push(attempt(3, &good, None, 0));
        for item in extract(&trace(attempts), "").items {
            let head = item.failure.and_then(|failure| failure.when.command_head);
            prop_assert!(!head.is_some_and(|head| head.contains('>')), "{}", item.text);
        }
    }
}
