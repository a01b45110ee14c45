//! Evaluation of consecutive rounds.

use serde_json::json;

use super::*;
use agent_protocol::control::{ControlDecision, Recovery, RetryStrategy};
use agent_protocol::envelope::Envelope;

fn call(name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: "1".into(), name: name.into(), arguments: arguments.into() }
}

fn envelope(code: Option<&str>, data: &Value) -> Envelope {
    let mut value = json!({
        "status": "success", "data": data, "text": "", "stats": {},
        "context": {"cwd": ".", "params_input": {"path": "a.rs"}}
    });
    if let Some(code) = code {
        value["status"] = "error".into();
        value["error"] = json!({"code": code, "message": "line 12"});
    }
    serde_json::from_value(value).expect("an envelope")
}

fn answered(envelope: Envelope) -> ToolCallResult {
    ToolCallResult {
        envelope: envelope.into(),
        effect: None,
        missing: crate::registry::MissingPermission::None,
        violates_instruction: false,
        changed: crate::registry::ChangedFiles::default(),
        stop_reason: None,
    }
}

fn answer(code: Option<&str>, data: &Value) -> ToolCallResult {
    answered(envelope(code, data))
}

fn error(code: &str) -> ToolCallResult {
    answer(Some(code), &json!({}))
}

fn round(state: &mut RecoveryState, name: &str, arguments: &str, code: Option<&str>, data: &Value) {
    calls(state, &[call(name, arguments)], &[answer(code, data)]);
}

fn calls(state: &mut RecoveryState, calls: &[ToolCall], answers: &[ToolCallResult]) {
    evaluate(state, &RoundOutcome::Calls { calls, results: answers });
}

fn new() -> RecoveryState {
    RecoveryState::new(Recovery::default())
}

#[test]
fn failed_call_is_resolved_by_its_success() {
    let mut state = new();
    round(&mut state, "Edit", "{}", Some("NO_MATCH"), &json!({}));
    let failure = state.last_failure.clone().expect("evidence");
    assert_eq!(failure.category, CauseCategory::ParameterError);
    assert_eq!(failure.chain, "Edit a.rs");
    assert_eq!(failure.signature, "Edit NO_MATCH: line #");
    assert!(!state.step_success);

    round(&mut state, "Edit", "{}", None, &json!({"applied": true}));
    assert!(state.step_success);
    assert_eq!(state.last_failure, None);
    assert_eq!(state.n_edits, 1);
}

#[test]
fn failing_test_is_an_observation_until_an_edit_does_not_help() {
    let mut state = new();
    let failing = || json!({"stdout": "left: 1\nright: 2\n", "exit_code": 101});
    round(&mut state, "Bash", "{}", Some("COMMAND_FAILED"), &failing());
    assert!(state.step_success, "an observation");
    round(&mut state, "Edit", "{}", None, &json!({"applied": true}));
    round(&mut state, "Bash", "{}", Some("COMMAND_FAILED"), &failing());
    assert!(!state.step_success, "the same failure after an edit");
    round(&mut state, "Edit", "{}", None, &json!({"applied": true}));
    let other = json!({"stdout": "expected `;`\n", "exit_code": 101});
    round(&mut state, "Bash", "{}", Some("COMMAND_FAILED"), &other);
    assert!(state.step_success, "another failure is progress");
}

/// Output of `cargo test`: the failures on stdout, and the same text on stderr for every failure.
#[test]
fn different_failing_test_is_progress() {
    let run = |test: &str| {
        let stdout = format!(
            "running 2 tests\ntest {test} ... FAILED\n\nfailures:\n\n---- {test} stdout ----\n\n\
             thread '{test}' panicked at src/lib.rs:14:9:\nassertion `left == right` failed\n  \
             left: 1\n right: 2\n\nfailures:\n    {test}\n\ntest result: FAILED. 1 passed; 1 failed"
        );
        json!({"stdout": stdout, "exit_code": 101, "stderr":
            "   Compiling a v0.1.0 (/tmp/a)\n    Finished `test` profile in 0.53s\n     Running \
             unittests src/lib.rs (target/debug/deps/a-8c0e4d1f2b3a4c5d)\n\
             error: test failed, to rerun pass `--lib`\n"})
    };
    let mut state = new();
    let mut fails = |test: &str| {
        round(&mut state, "Bash", "{}", Some("COMMAND_FAILED"), &run(test));
        let success = state.step_success;
        round(&mut state, "Edit", "{}", None, &json!({"applied": true}));
        success
    };
    assert!(fails("tests::adds"), "an observation");
    assert!(fails("tests::subtracts"), "another test: progress");
    assert!(!fails("tests::subtracts"), "the edit did not help");
}

#[test]
fn command_not_found_is_a_dependency_error() {
    let mut state = new();
    let data = json!({"stderr": "bash: pytest: command not found", "exit_code": 127});
    round(&mut state, "Bash", "{}", Some("COMMAND_FAILED"), &data);
    assert_eq!(state.last_failure.map(|f| f.category), Some(CauseCategory::DependencyError));
}

#[test]
fn identical_failures_are_counted_until_another_call() {
    let mut state = new();
    for times in 1..=3 {
        round(&mut state, "Read", "{1}", Some("NOT_FOUND"), &json!({}));
        assert_eq!(state.unvaried_failures, times);
    }
    round(&mut state, "Read", "{2}", Some("NOT_FOUND"), &json!({}));
    assert_eq!(state.unvaried_failures, 1);
    assert_eq!(state.consecutive_failures, 4);
}

#[test]
fn refused_repetition_counts_as_the_repeated_failure() {
    let mut state = new();
    round(&mut state, "Read", "{1}", Some("NOT_FOUND"), &json!({}));
    round(&mut state, "Read", "{1}", Some("NOT_FOUND"), &json!({}));
    round(&mut state, "Read", "{1}", Some("REPEATED_CALL"), &json!({}));
    assert_eq!(state.unvaried_failures, 3);
    assert_eq!(state.last_failure.map(|f| f.signal), Some(FailureSignal::Loop));
}

#[test]
fn bad_answers_and_failed_checks_have_separate_retries() {
    let mut state = new();
    let bad = RoundOutcome::RejectedAnswer {
        signal: FailureSignal::BadAnswer,
        reason_key: "",
        why: "empty",
        output: "",
    };
    let check = RoundOutcome::RejectedAnswer {
        signal: FailureSignal::CheckFailed,
        reason_key: "true",
        why: "exit 1",
        output: "",
    };
    for round in [&bad, &bad, &check] {
        evaluate(&mut state, round);
        state.apply_decision(ControlDecision::Retry(RetryStrategy::Feedback));
    }
    assert_eq!(state.retry_count().n, 1);
    round(&mut state, "Read", "{}", None, &json!({}));
    evaluate(&mut state, &bad);
    assert_eq!(state.retry_count().n, 0, "a call that succeeded makes empty answers good");
}

#[test]
fn parse_error_is_resolved_by_any_success_of_the_tool() {
    let mut state = new();
    for _ in 0..12 {
        let mut envelope = envelope(Some("INVALID_PARAM"), &json!({}));
        envelope.context.params_input.clear();
        calls(&mut state, &[call("Write", "{")], &[answered(envelope)]);
        state.apply_decision(ControlDecision::Retry(RetryStrategy::Feedback));
        assert_eq!(state.retry_count().n, 1);
        round(&mut state, "Write", "{}", None, &json!({}));
    }
}

#[test]
fn repeated_batch_of_failing_calls_counts_as_identical() {
    let mut state = new();
    for times in 1..=3 {
        let made = [call("Read", "{1}"), call("Grep", "{2}")];
        calls(&mut state, &made, &[error("NOT_FOUND"), error("INVALID_PARAM")]);
        state.apply_decision(ControlDecision::Retry(RetryStrategy::Feedback));
        assert_eq!(state.unvaried_failures, times);
    }
}

#[test]
fn successive_guesses_are_one_chain_until_a_success() {
    let mut state = new();
    let guess = |state: &mut RecoveryState, path: &str| {
        let mut envelope = envelope(Some("NOT_FOUND"), &json!({}));
        envelope.context.path_resolved = Some(path.to_owned());
        let made = call("Read", &format!("{{\"path\":\"{path}\"}}"));
        calls(state, std::slice::from_ref(&made), &[answered(envelope)]);
        let n = state.retry_count().n;
        state.apply_decision(ControlDecision::Retry(RetryStrategy::Feedback));
        assert!(state.failed_call.as_ref().is_some_and(|failed| failed.call == made));
        n
    };
    assert_eq!(["a", "b", "c"].map(|path| guess(&mut state, path)), [0, 1, 2]);
    round(&mut state, "Grep", "{}", None, &json!({}));
    assert_eq!(guess(&mut state, "d"), 0);
}

fn remedy() -> Remedy {
    let remedy = json!({"item": {"id": "i", "kind": "failure_pattern", "text": "do b"},
        "confidence": 0.7, "action": {"kind": "adjust", "input": {}}});
    serde_json::from_value(remedy).expect("a remedy")
}

#[test]
fn observation_becomes_a_failure_only_with_a_known_remedy() {
    let failing = json!({"stdout": "wrong folder", "exit_code": 1});
    for helps in [true, false] {
        let mut state = new();
        let (made, failed) = (call("Bash", "{}"), answer(Some("COMMAND_FAILED"), &failing));
        calls(&mut state, std::slice::from_ref(&made), std::slice::from_ref(&failed));
        assert!(state.step_success);
        assert!(attach_remedy(&mut state, &made, &failed, &remedy()));
        assert!(!state.step_success && state.remedy().is_some());
        state.apply_decision(ControlDecision::Retry(RetryStrategy::Adjusted));
        assert_eq!((state.retry_count().n, state.retries_without_remedies()), (1, 0));
        let then = if helps { None } else { Some("COMMAND_FAILED") };
        let then = answer(then, &failing);
        evaluate(
            &mut state,
            &RoundOutcome::KernelCall { call: &call("Bash", "{2}"), result: &then },
        );
        // If it does not help, the failure is an observation again.
        assert!(state.step_success && state.last_failure.is_none());
        assert!(!is_open(&state, "Bash a.rs"));
    }
}

#[test]
fn failed_remedy_leaves_the_failure_unchanged() {
    let mut state = new();
    round(&mut state, "Read", "{1}", Some("NOT_FOUND"), &json!({}));
    let before = state.last_failure.clone();
    assert!(attach_remedy(&mut state, &call("Read", "{1}"), &error("NOT_FOUND"), &remedy()));
    state.apply_decision(ControlDecision::Retry(RetryStrategy::Adjusted));
    let other = error("INVALID_PARAM");
    evaluate(&mut state, &RoundOutcome::KernelCall { call: &call("Read", "{2}"), result: &other });
    assert_eq!(state.last_failure, before);
    assert!(!state.step_success && state.retries_without_remedies() == 0);
    assert!(!state.wants_reflection(), "no question earlier than without memory");
}

#[test]
fn remedy_is_not_applied_without_remaining_retries() {
    let mut state = new();
    for _ in 0..4 {
        round(&mut state, "Read", "{1}", Some("NOT_FOUND"), &json!({}));
        state.apply_decision(ControlDecision::Retry(RetryStrategy::Feedback));
    }
    assert!(!attach_remedy(&mut state, &call("Read", "{1}"), &error("NOT_FOUND"), &remedy()));
}

#[test]
fn failed_kernel_call_resolves_nothing() {
    let mut state = new();
    round(&mut state, "Read", "{}", Some("NOT_FOUND"), &json!({}));
    let data = json!({"stdout": "", "stderr": "no", "exit_code": 1});
    let answer = answer(Some("COMMAND_FAILED"), &data);
    evaluate(&mut state, &RoundOutcome::KernelCall { call: &call("Bash", "{}"), result: &answer });
    assert!(!state.step_success);
    assert!(is_open(&state, "Read a.rs"));
    let failure = state.last_failure.expect("evidence");
    assert_eq!((failure.chain.as_str(), failure.message.as_str()), ("Read a.rs", "line 12"));
}

#[test]
fn failed_write_is_resolved_only_by_a_write() {
    let write = || Some(Effect::Write { path: "a.rs".into() });
    let after = |effect: Option<Effect>, name: &str| {
        let mut state = new();
        let failed = ToolCallResult { effect: write(), ..error("NO_MATCH") };
        calls(&mut state, &[call("Edit", "{}")], &[failed]);
        let answer = ToolCallResult { effect, ..answer(None, &json!({})) };
        evaluate(
            &mut state,
            &RoundOutcome::KernelCall { call: &call(name, "{}"), result: &answer },
        );
        assert!(state.step_success, "the model goes on with what it found");
        is_open(&state, "Edit a.rs")
    };
    assert!(after(Some(Effect::Read { path: ".".into() }), "Grep"));
    assert!(!after(write(), "Write"));
}

#[test]
fn failed_kernel_call_replaces_the_failed_call() {
    let mut state = new();
    round(&mut state, "Read", "{1}", Some("NOT_FOUND"), &json!({}));
    let answer = error("NOT_FOUND");
    evaluate(&mut state, &RoundOutcome::KernelCall { call: &call("Glob", "{2}"), result: &answer });
    let failed = state.failed_call.expect("a call");
    assert_eq!((failed.call.name.as_str(), failed.parent.name.as_str()), ("Glob", "Read"));
}

#[test]
fn permission_failure_yields_to_other_failures() {
    let mut state = new();
    let made = [call("Bash", "{}"), call("Read", "{}")];
    calls(&mut state, &made, &[error("ACCESS_DENIED"), error("NOT_FOUND")]);
    let category = state.last_failure.map(|failure| failure.category);
    assert_eq!(category, Some(CauseCategory::ParameterError));
}

#[test]
fn todo_update_is_not_a_step_success() {
    let mut state = new();
    let mut ends_well = |effect| {
        let answer = ToolCallResult { effect: Some(effect), ..answer(None, &json!({})) };
        calls(&mut state, &[call("TodoWrite", "{}")], &[answer]);
        state.step_had_success
    };
    assert!(!ends_well(Effect::Plan));
    assert!(ends_well(Effect::Read { path: "a".into() }));
}

#[test]
fn failures_of_one_chain_in_one_round_count_once() {
    let mut state = new();
    let made = ["{1}", "{2}", "{3}"].map(|arguments| call("Read", arguments));
    calls(&mut state, &made, &["NOT_FOUND"; 3].map(error));
    state.apply_decision(ControlDecision::Retry(RetryStrategy::Feedback));
    assert_eq!(state.retry_count().n, 1);
}

fn is_open(state: &RecoveryState, chain: &str) -> bool {
    state.chains.get(chain).is_some_and(|chain| chain.is_open)
}
