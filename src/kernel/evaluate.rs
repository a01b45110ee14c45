//! Evaluate: what a round came to. Writes the evidence into the state; decides nothing.

use serde_json::Value;

use super::classify::{chain_of, failure_of, observed};
use super::state::{Chain, FailedCall, State};
use crate::protocol::control::{Category, LastFailure, Signal};
use crate::protocol::envelope::ErrorCode;
use crate::protocol::message::ToolCall;
use crate::protocol::recall::Remedy;
use crate::protocol::shorten;
use crate::protocol::signature::{brief, signature};
use crate::protocol::tool::Effect;
use crate::registry::Answer;

/// What a round came to.
pub(crate) enum Round<'a> {
    /// The model called tools, and they answered.
    Calls { calls: &'a [ToolCall], answers: &'a [Answer] },
    /// The model's answer can not be used, or was not accepted as final. `about` tells one reason from
    /// another: each has retries of its own. `output`: of a check, for its signature.
    Answer { signal: Signal, about: &'a str, why: &'a str, output: &'a str },
    /// The user says that the last result is wrong; in the user's words.
    Rejected { words: &'a str },
    /// The kernel made a call itself, on behalf of the one that failed.
    Kernel { call: &'a ToolCall, answer: &'a Answer },
}

/// The chain of work that goes round in circles.
const CIRCLE: &str = "circle";
/// The chain of what the last turn claimed.
const LAST_RESULT: &str = "the last result";
/// The chain of answers that can not be used.
const BAD_ANSWERS: &str = "answer: unusable";

/// Writes the evidence of a round into the state.
pub(crate) fn evaluate(state: &mut State, round: &Round<'_>) {
    match round {
        Round::Calls { calls, answers } => calls_ended(state, calls, answers),
        Round::Kernel { call, answer } => kernel_call_ended(state, call, answer),
        Round::Rejected { words } => {
            let failure = LastFailure {
                signal: Signal::UserRejected,
                code: None,
                class: None,
                category: Category::Unknown,
                message: format!("the user rejects the last result: {}", shorten(words, 300)),
                signature: "the user rejects the last result".to_owned(),
                chain: LAST_RESULT.to_owned(),
                reflection: None,
                remedy: None,
            };
            // No round was made: it counts as evidence and as nothing else.
            failed(state, vec![failure], String::new());
        }
        Round::Answer { signal, about, why, output } => {
            let chain =
                if about.is_empty() { BAD_ANSWERS.to_owned() } else { format!("answer: {about}") };
            let failure = LastFailure {
                signal: *signal,
                code: None,
                class: None,
                category: Category::Unknown,
                message: (*why).to_owned(),
                signature: brief(&signature(&format!("{why} {output}")), 300),
                chain,
                reflection: None,
                remedy: None,
            };
            state.consecutive_failures += 1;
            state.failed_call = None;
            failed(state, vec![failure], String::new());
        }
    }
}

fn calls_ended(state: &mut State, calls: &[ToolCall], answers: &[Answer]) {
    let mut failures = Vec::new();
    let mut failed_calls = Vec::new();
    let mut any_success = false;
    let mut circle = None;
    for (call, answer) in calls.iter().zip(answers) {
        let chain = chain_of(call, &answer.envelope);
        let plans = answer.effect == Some(Effect::Plan);
        circle = circle.or(state.circles.see(call, &answer.envelope, answer.effect.as_ref()));
        if answer.envelope.error().is_none() {
            any_success = true;
            // A list brought up to date is no work on what stands in it.
            state.step_had_success |= !plans;
            if answer.envelope.data.get("applied") == Some(&Value::Bool(true)) {
                state.n_edits += 1;
                state.close(CIRCLE);
            }
            state.close(&chain);
            // Slips without a target (arguments that do not parse) are made good by any success.
            state.chains.remove(&call.name);
        } else if let Some(mut failure) = failure_of(state, chain, call, &answer.envelope) {
            if answer.violates_pin {
                failure.signal = Signal::ConstraintViolated;
            }
            join(state, &mut failure);
            failed_calls.push((failure.chain.clone(), failed_call(call, call, answer)));
            failures.push(failure);
        }
    }
    if let Some(what) = circle {
        failures.push(going_round(&what));
    }
    if any_success {
        state.consecutive_failures = 0;
        state.chains.remove(BAD_ANSWERS);
    }
    if failures.is_empty() {
        state.step_success = true;
        state.last_failure = None;
        state.failing.clear();
        state.unvaried_failures = 0;
        state.last_round.clear();
        return;
    }
    let mut round = String::new();
    if !any_success {
        state.consecutive_failures += 1;
        let calls = calls.iter().map(|call| format!("{} {}\n", call.name, call.arguments));
        round = calls.chain(failures.iter().map(|failure| failure.signature.clone())).collect();
    }
    failed(state, failures, round);
    let speaks = state.last_failure.as_ref().map(|failure| failure.chain.as_str());
    let speaker = failed_calls.into_iter().find(|(chain, _)| Some(chain.as_str()) == speaks);
    state.failed_call = speaker.map(|(_, call)| call);
}

fn failed_call(call: &ToolCall, parent: &ToolCall, answer: &Answer) -> FailedCall {
    let code = answer.envelope.error().map(|error| error.code);
    FailedCall {
        call: call.clone(),
        parent: parent.clone(),
        effect: answer.effect.clone(),
        is_unknown: code == Some(ErrorCode::UnknownTool),
        was_observed: false,
    }
}

/// A target that is new, and fails as another did the round before: one guess after the other is one
/// chain, until anything succeeds.
fn join(state: &State, failure: &mut LastFailure) {
    if let Some(before) = &state.last_failure
        && before.signature == failure.signature
        && !state.chains.contains_key(&failure.chain)
    {
        failure.chain.clone_from(&before.chain);
    }
}

/// What the kernel's own call came to belongs to the chain for which it was made.
fn kernel_call_ended(state: &mut State, call: &ToolCall, answer: &Answer) {
    let Some(before) = state.last_failure.take() else { return };
    let envelope = &answer.envelope;
    if before.remedy.is_some() && envelope.error().is_some() {
        return did_not_help(state, before);
    }
    let failure = failure_of(state, before.chain.clone(), call, envelope).or_else(|| {
        // A command that fails is something to look at for those who called it. Here nobody did, and what
        // it was to make good still stands.
        let error = envelope.error()?;
        Some(LastFailure {
            code: Some(error.code),
            class: Some(error.code.class(&call.name)),
            message: shorten(&error.message, 300),
            reflection: None,
            remedy: None,
            ..before.clone()
        })
    });
    let Some(mut failure) = failure else {
        let made_good = state.failed_call.as_ref();
        if made_good.is_none_or(|failed| failed.is_made_good_by(call, answer.effect.as_ref())) {
            state.close(&before.chain);
        }
        state.step_success = true;
        state.step_had_success = true;
        state.consecutive_failures = 0;
        state.unvaried_failures = 0;
        state.failing.clear();
        state.failed_call = None;
        if envelope.data.get("applied") == Some(&Value::Bool(true)) {
            state.n_edits += 1;
        }
        return;
    };
    failure.chain.clone_from(&before.chain);
    let parent = state.failed_call.as_ref().map_or(call, |failed| &failed.parent);
    state.failed_call = Some(failed_call(call, parent, answer));
    if answer.violates_pin {
        failure.signal = Signal::ConstraintViolated;
    }
    failed(state, vec![failure], String::new());
}

/// What helped before does not this time: but for the retry that is counted, all stands as if it had not been
/// tried.
fn did_not_help(state: &mut State, before: LastFailure) {
    let observed = state.failed_call.take_if(|failed| failed.was_observed);
    if observed.is_some() {
        state.close(&before.chain);
        state.step_success = true;
        state.failing.clear();
    } else {
        state.last_failure = Some(LastFailure { remedy: None, ..before });
    }
}

/// It is known what helped when a call failed like this one, and the kernel can try it. False: it may not, since
/// another failure speaks for the round, or nothing is left to try it with.
pub(crate) fn attach(state: &mut State, call: &ToolCall, answer: &Answer, remedy: &Remedy) -> bool {
    let is_left = |state: &State, chain: &str| {
        let retries = state.chains.get(chain).map_or(0, |chain| chain.retries);
        retries < state.limits.max_step_retries
    };
    let speaks = state.failed_call.as_ref().is_some_and(|failed| failed.call.id == call.id);
    if let Some(failure) = state.last_failure.as_ref().filter(|_| speaks) {
        if !is_left(state, &failure.chain) || state.counters().unvaried_failures.used_up() {
            return false;
        }
    } else {
        let chain = chain_of(call, &answer.envelope);
        let Some(failure) = observed(chain, call, &answer.envelope) else { return false };
        if !state.step_success || !is_left(state, &failure.chain) {
            return false;
        }
        failed(state, vec![failure], String::new());
        let failed = failed_call(call, call, answer);
        state.failed_call = Some(FailedCall { was_observed: true, ..failed });
    }
    if let Some(failure) = &mut state.last_failure {
        failure.remedy = Some(Box::new(remedy.clone()));
    }
    true
}

/// The work goes round in circles.
fn going_round(what: &str) -> LastFailure {
    LastFailure {
        signal: Signal::Loop,
        code: None,
        class: None,
        category: Category::DecompositionError,
        message: what.to_owned(),
        signature: signature(what),
        chain: CIRCLE.to_owned(),
        reflection: None,
        remedy: None,
    }
}

/// `round`: the calls and how they failed, where none succeeded; empty: something was tried
/// differently.
fn failed(state: &mut State, failures: Vec<LastFailure>, round: String) {
    for failure in &failures {
        let chain = state.chains.entry(failure.chain.clone()).or_insert_with(|| Chain {
            retries: 0,
            signature: failure.signature.clone(),
            message: failure.message.clone(),
            open: true,
            failures: 0,
            step: state.step,
            same_tried: false,
            repairs: 0,
            remedies: 0,
        });
        // A chain that was made good starts anew, unless it fails in the same way again.
        if !chain.open && chain.signature != failure.signature {
            chain.begin_anew();
        }
        chain.failures += 1;
        chain.step = state.step;
        chain.signature.clone_from(&failure.signature);
        chain.message.clone_from(&failure.message);
        chain.open = true;
    }
    state.unvaried_failures = match (round.is_empty(), round == state.last_round) {
        (true, _) => 0,
        (false, true) => state.unvaried_failures + 1,
        (false, false) => 1,
    };
    state.last_round = round;
    state.failing = failures.iter().map(|failure| failure.chain.clone()).collect();
    // Several calls of one round are one try.
    state.failing.sort_unstable();
    state.failing.dedup();
    state.step_success = false;
    // The chain that has been tried most speaks for the round; what is not allowed, where nothing else
    // failed: nothing follows from it.
    let speaks = |failure: &LastFailure| {
        let retries = state.chains.get(&failure.chain).map_or(0, |chain| chain.retries);
        (failure.category != Category::PermissionError, retries)
    };
    let most = failures.iter().map(speaks).max();
    state.last_failure = failures.into_iter().find(|failure| Some(speaks(failure)) == most);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::state::RecoveryLimits;
    use super::*;
    use crate::protocol::control::{ControlDecision, Retry};
    use crate::protocol::envelope::Envelope;

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

    fn round(state: &mut State, name: &str, arguments: &str, code: Option<&str>, data: &Value) {
        let calls = [call(name, arguments)];
        let answers = [Answer {
            envelope: envelope(code, data).into(),
            effect: None,
            denied: false,
            violates_pin: false,
        }];
        evaluate(state, &Round::Calls { calls: &calls, answers: &answers });
    }

    fn new() -> State {
        State::new(RecoveryLimits::default())
    }

    #[test]
    fn a_failing_call_is_evidence_and_its_success_makes_it_good() {
        let mut state = new();
        round(&mut state, "Edit", "{}", Some("NO_MATCH"), &json!({}));
        let failure = state.last_failure.clone().expect("evidence");
        assert_eq!(failure.category, Category::ParameterError);
        assert_eq!(failure.chain, "Edit a.rs");
        assert_eq!(failure.signature, "Edit NO_MATCH: line #");
        assert!(!state.step_success);

        round(&mut state, "Edit", "{}", None, &json!({"applied": true}));
        assert!(state.step_success);
        assert_eq!(state.last_failure, None);
        assert_eq!(state.n_edits, 1);
    }

    #[test]
    fn a_failing_test_is_an_observation_until_an_edit_did_not_help() {
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

    /// What `cargo test` prints: the failures on stdout, the same words on stderr whatever failed.
    #[test]
    fn another_failing_test_of_the_same_run_is_progress() {
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
    fn a_command_that_is_not_there_is_a_dependency() {
        let mut state = new();
        let data = json!({"stderr": "bash: pytest: command not found", "exit_code": 127});
        round(&mut state, "Bash", "{}", Some("COMMAND_FAILED"), &data);
        assert_eq!(state.last_failure.map(|f| f.category), Some(Category::DependencyError));
    }

    #[test]
    fn the_same_call_with_the_same_failure_is_counted_until_something_else_is_tried() {
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
    fn a_refused_repetition_is_still_the_failure_that_it_repeats() {
        let mut state = new();
        round(&mut state, "Read", "{1}", Some("NOT_FOUND"), &json!({}));
        round(&mut state, "Read", "{1}", Some("NOT_FOUND"), &json!({}));
        round(&mut state, "Read", "{1}", Some("REPEATED_CALL"), &json!({}));
        assert_eq!(state.unvaried_failures, 3);
        assert_eq!(state.last_failure.map(|f| f.signal), Some(Signal::Loop));
    }

    #[test]
    fn answers_that_can_not_be_used_and_refused_ones_have_retries_of_their_own() {
        let mut state = new();
        let bad = Round::Answer { signal: Signal::BadAnswer, about: "", why: "empty", output: "" };
        let check =
            Round::Answer { signal: Signal::CheckFailed, about: "true", why: "exit 1", output: "" };
        for round in [&bad, &bad, &check] {
            evaluate(&mut state, round);
            state.carry_out(ControlDecision::Retry(Retry::Feedback));
        }
        assert_eq!(state.retry_count().n, 1);
        round(&mut state, "Read", "{}", None, &json!({}));
        evaluate(&mut state, &bad);
        assert_eq!(state.retry_count().n, 0, "a call that succeeded makes empty answers good");
    }

    #[test]
    fn arguments_that_do_not_parse_are_made_good_by_any_success_of_the_tool() {
        let mut state = new();
        for _ in 0..12 {
            let calls = [call("Write", "{")];
            let mut envelope = envelope(Some("INVALID_PARAM"), &json!({}));
            envelope.context.params_input.clear();
            let answers = [Answer {
                envelope: envelope.into(),
                effect: None,
                denied: false,
                violates_pin: false,
            }];
            evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
            state.carry_out(ControlDecision::Retry(Retry::Feedback));
            assert_eq!(state.retry_count().n, 1);
            round(&mut state, "Write", "{}", None, &json!({}));
        }
    }

    #[test]
    fn several_calls_that_fail_in_the_same_way_again_are_nothing_new() {
        let mut state = new();
        for times in 1..=3 {
            let calls = [call("Read", "{1}"), call("Grep", "{2}")];
            let answer = |code| Answer {
                envelope: envelope(Some(code), &json!({})).into(),
                effect: None,
                denied: false,
                violates_pin: false,
            };
            let answers = [answer("NOT_FOUND"), answer("INVALID_PARAM")];
            evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
            state.carry_out(ControlDecision::Retry(Retry::Feedback));
            assert_eq!(state.unvaried_failures, times);
        }
    }

    #[test]
    fn one_guess_after_the_other_is_one_chain_until_anything_succeeds() {
        let mut state = new();
        let mut guess = |path: &str| {
            let mut envelope = envelope(Some("NOT_FOUND"), &json!({}));
            envelope.context.path_resolved = Some(path.to_owned());
            let answers = [Answer {
                envelope: envelope.into(),
                effect: None,
                denied: false,
                violates_pin: false,
            }];
            let calls = [call("Read", &format!("{{\"path\":\"{path}\"}}"))];
            evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
            state.carry_out(ControlDecision::Retry(Retry::Feedback));
            assert!(state.failed_call.as_ref().is_some_and(|failed| failed.call == calls[0]));
            state.retry_count().n
        };
        assert_eq!([guess("a"), guess("b"), guess("c")], [1, 2, 3]);
        round(&mut state, "Grep", "{}", None, &json!({}));
        let calls = [call("Read", "{}")];
        let mut envelope = envelope(Some("NOT_FOUND"), &json!({}));
        envelope.context.path_resolved = Some("d".into());
        let answers = [Answer {
            envelope: envelope.into(),
            effect: None,
            denied: false,
            violates_pin: false,
        }];
        evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
        assert_eq!(state.retry_count().n, 0);
    }

    fn remedy() -> Remedy {
        let remedy = json!({"item": {"id": "i", "kind": "failure_pattern", "text": "do b"},
            "confidence": 0.7, "action": {"kind": "adjust", "input": {}}});
        serde_json::from_value(remedy).expect("a remedy")
    }

    fn answer(code: Option<&str>, data: &Value) -> Answer {
        let envelope = envelope(code, data).into();
        Answer { envelope, effect: None, denied: false, violates_pin: false }
    }

    #[test]
    fn a_command_to_look_at_becomes_evidence_where_it_is_known_what_helps_and_only_then() {
        let failing = json!({"stdout": "wrong folder", "exit_code": 1});
        for helps in [true, false] {
            let mut state = new();
            let calls = [call("Bash", "{}")];
            let answers = [answer(Some("COMMAND_FAILED"), &failing)];
            evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
            assert!(state.step_success);
            assert!(attach(&mut state, &calls[0], &answers[0], &remedy()));
            assert!(!state.step_success && state.remedy().is_some());
            state.carry_out(ControlDecision::Retry(Retry::Adjusted));
            assert_eq!((state.retry_count().n, state.own_retries()), (1, 0));
            let then = if helps { None } else { Some("COMMAND_FAILED") };
            let then = answer(then, &failing);
            evaluate(&mut state, &Round::Kernel { call: &call("Bash", "{2}"), answer: &then });
            // If it does not help it is what it was: something to look at.
            assert!(state.step_success && state.last_failure.is_none());
            assert!(!state.is_open("Bash a.rs"));
        }
    }

    #[test]
    fn what_does_not_help_leaves_the_failure_as_it_was() {
        let mut state = new();
        let calls = [call("Read", "{1}")];
        let answers = [answer(Some("NOT_FOUND"), &json!({}))];
        evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
        let before = state.last_failure.clone();
        assert!(attach(&mut state, &calls[0], &answers[0], &remedy()));
        state.carry_out(ControlDecision::Retry(Retry::Adjusted));
        let other = answer(Some("INVALID_PARAM"), &json!({}));
        evaluate(&mut state, &Round::Kernel { call: &call("Read", "{2}"), answer: &other });
        assert_eq!(state.last_failure, before);
        assert!(!state.step_success && state.own_retries() == 0);
        assert!(!state.wants_reflection(), "no question earlier than without memory");
    }

    #[test]
    fn what_helped_is_not_tried_where_no_retry_is_left() {
        let mut state = new();
        let calls = [call("Read", "{1}")];
        for _ in 0..4 {
            let answers = [answer(Some("NOT_FOUND"), &json!({}))];
            evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
            state.carry_out(ControlDecision::Retry(Retry::Feedback));
        }
        assert!(!attach(&mut state, &calls[0], &answer(Some("NOT_FOUND"), &json!({})), &remedy()));
    }

    #[test]
    fn a_command_of_the_kernels_that_fails_makes_nothing_good() {
        let mut state = new();
        round(&mut state, "Read", "{}", Some("NOT_FOUND"), &json!({}));
        let data = json!({"stdout": "", "stderr": "no", "exit_code": 1});
        let envelope = envelope(Some("COMMAND_FAILED"), &data).into();
        let answer = Answer { envelope, effect: None, denied: false, violates_pin: false };
        evaluate(&mut state, &Round::Kernel { call: &call("Bash", "{}"), answer: &answer });
        assert!(!state.step_success);
        assert!(state.is_open("Read a.rs"));
        let failure = state.last_failure.expect("evidence");
        assert_eq!((failure.chain.as_str(), failure.message.as_str()), ("Read a.rs", "line 12"));
    }

    #[test]
    fn what_was_to_be_written_is_made_good_by_a_write_alone() {
        let write = || Some(Effect::Write { path: "a.rs".into() });
        let after = |effect: Option<Effect>, name: &str| {
            let mut state = new();
            let calls = [call("Edit", "{}")];
            let answer = |code, effect| Answer {
                envelope: envelope(code, &json!({})).into(),
                effect,
                denied: false,
                violates_pin: false,
            };
            let answers = [answer(Some("NO_MATCH"), write())];
            evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
            let answer = answer(None, effect);
            evaluate(&mut state, &Round::Kernel { call: &call(name, "{}"), answer: &answer });
            assert!(state.step_success, "the model goes on with what it found");
            state.is_open("Edit a.rs")
        };
        assert!(after(Some(Effect::Read { path: ".".into() }), "Grep"));
        assert!(!after(write(), "Write"));
    }

    #[test]
    fn a_call_of_the_kernels_that_fails_is_the_failed_one_for_the_models_call() {
        let mut state = new();
        round(&mut state, "Read", "{1}", Some("NOT_FOUND"), &json!({}));
        let answer = Answer {
            envelope: envelope(Some("NOT_FOUND"), &json!({})).into(),
            effect: None,
            denied: false,
            violates_pin: false,
        };
        evaluate(&mut state, &Round::Kernel { call: &call("Glob", "{2}"), answer: &answer });
        let failed = state.failed_call.expect("a call");
        assert_eq!((failed.call.name.as_str(), failed.parent.name.as_str()), ("Glob", "Read"));
    }

    #[test]
    fn what_is_not_allowed_speaks_only_where_nothing_else_failed() {
        let calls = [call("Bash", "{}"), call("Read", "{}")];
        let answer = |code| Answer {
            envelope: envelope(Some(code), &json!({})).into(),
            effect: None,
            denied: false,
            violates_pin: false,
        };
        let mut state = new();
        let answers = [answer("ACCESS_DENIED"), answer("NOT_FOUND")];
        evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
        let category = state.last_failure.map(|failure| failure.category);
        assert_eq!(category, Some(Category::ParameterError));
    }

    #[test]
    fn a_list_brought_up_to_date_is_no_success_of_the_step() {
        let mut state = new();
        let answer = |effect| Answer {
            envelope: envelope(None, &json!({})).into(),
            effect,
            denied: false,
            violates_pin: false,
        };
        let calls = [call("TodoWrite", "{}")];
        let answers = [answer(Some(Effect::Plan))];
        evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
        assert!(!state.step_had_success);
        let answers = [answer(Some(Effect::Read { path: "a".into() }))];
        evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
        assert!(state.step_had_success);
    }

    #[test]
    fn several_failures_of_one_chain_in_one_round_are_one_try() {
        let mut state = new();
        let calls = [call("Read", "{1}"), call("Read", "{2}"), call("Read", "{3}")];
        let answers = [(), (), ()].map(|()| Answer {
            envelope: envelope(Some("NOT_FOUND"), &json!({})).into(),
            effect: None,
            denied: false,
            violates_pin: false,
        });
        evaluate(&mut state, &Round::Calls { calls: &calls, answers: &answers });
        state.carry_out(ControlDecision::Retry(Retry::Feedback));
        assert_eq!(state.retry_count().n, 1);
    }
}
