//! Evaluates a round: writes the evidence into the state; decides nothing.

use serde_json::Value;

use super::classify::{chain_of, failure_of, observed};
use super::state::{Chain, FailedCall, State};
use crate::registry::Answer;
use agent_protocol::control::{Category, LastFailure, Signal};
use agent_protocol::envelope::ErrorCode;
use agent_protocol::message::ToolCall;
use agent_protocol::recall::Remedy;
use agent_protocol::shorten;
use agent_protocol::signature::{brief, signature};
use agent_protocol::tool::Effect;

/// The outcome of a round.
pub(crate) enum Round<'a> {
    /// The model called tools, with these results.
    Calls { calls: &'a [ToolCall], answers: &'a [Answer] },
    /// The model's answer is unusable, or was not accepted as final. `about` identifies the reason: each
    /// reason has its own retries. `output`: the output of a check, for its signature.
    Answer { signal: Signal, about: &'a str, why: &'a str, output: &'a str },
    /// The kernel made a call on behalf of the one that failed.
    Kernel { call: &'a ToolCall, answer: &'a Answer },
}

/// The chain of loops in successful work.
const CIRCLE: &str = "circle";
/// The chain of unusable answers.
const BAD_ANSWERS: &str = "answer: unusable";

/// Writes the evidence of a round into the state.
pub(crate) fn evaluate(state: &mut State, round: &Round<'_>) {
    match round {
        Round::Calls { calls, answers } => calls_ended(state, calls, answers),
        Round::Kernel { call, answer } => kernel_call_ended(state, call, answer),
        Round::Answer { signal, about, why, output } => {
            let chain = match (signal, *about) {
                (_, "") => BAD_ANSWERS.to_owned(),
                (Signal::CheckFailed, check) => check.to_owned(),
                (_, reason) => format!("answer: {reason}"),
            };
            let failure = LastFailure {
                signature: brief(&signature(&format!("{why} {output}")), 300),
                ..without_call(*signal, &chain, (*why).to_owned())
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
        let chain = chain_of(call, &answer.envelope, answer.effect.as_ref());
        let plans = answer.effect == Some(Effect::Plan) || answer.effect == Some(Effect::Ask);
        circle = circle.or(state.loop_detector.see(call, &answer.envelope, answer.effect.as_ref()));
        if answer.envelope.error().is_none() {
            any_success = true;
            // Neither updating the plan nor asking the user is work on its todos.
            state.step_had_success |= !plans;
            if answer.envelope.data.get("applied") == Some(&Value::Bool(true)) {
                state.n_edits += 1;
                state.close(CIRCLE);
            }
            state.close(&chain);
            // Mistakes without a target (arguments that do not parse) are resolved by any success.
            state.chains.remove(&call.name);
        } else if let Some(mut failure) = failure_of(state, chain, call, &answer.envelope) {
            if answer.violates_instruction {
                failure.signal = Signal::ConstraintViolated;
            }
            join(state, &mut failure);
            failed_calls.push((failure.chain.clone(), failed_call(call, call, answer)));
            failures.push(failure);
        }
    }
    if let Some(what) = circle {
        failures.push(LastFailure {
            category: Category::DecompositionError,
            ..without_call(Signal::Loop, CIRCLE, what)
        });
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

/// A new target that fails like the previous round's: consecutive guesses are one chain until something
/// succeeds.
fn join(state: &State, failure: &mut LastFailure) {
    if let Some(before) = &state.last_failure
        && before.signature == failure.signature
        && !state.chains.contains_key(&failure.chain)
    {
        failure.chain.clone_from(&before.chain);
    }
}

/// The result of a call of the kernel belongs to the chain for which it was made.
fn kernel_call_ended(state: &mut State, call: &ToolCall, answer: &Answer) {
    let Some(before) = state.last_failure.take() else { return };
    let envelope = &answer.envelope;
    if before.remedy.is_some() && envelope.error().is_some() {
        return did_not_help(state, before);
    }
    let failure = failure_of(state, before.chain.clone(), call, envelope).or_else(|| {
        // A failing command is an observation for the model that called it. The kernel called this one, and
        // the failure that it should resolve remains.
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
        let failed_call = state.failed_call.as_ref();
        if failed_call.is_none_or(|failed| failed.is_resolved_by(call, answer.effect.as_ref())) {
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
    if answer.violates_instruction {
        failure.signal = Signal::ConstraintViolated;
    }
    failed(state, vec![failure], String::new());
}

/// A known remedy did not help: apart from the retry that is counted, the state is as if it had not been
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

/// Attaches a known remedy that the kernel can try to the evidence. False: another failure represents the
/// round, or no retry is left.
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
        let chain = chain_of(call, &answer.envelope, answer.effect.as_ref());
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

/// Evidence that is not the error of a call.
fn without_call(signal: Signal, chain: &str, message: String) -> LastFailure {
    LastFailure {
        signal,
        code: None,
        class: None,
        category: Category::Unknown,
        signature: signature(&message),
        message,
        chain: chain.to_owned(),
        reflection: None,
        remedy: None,
    }
}

/// `round`: the calls and their failures if none succeeded; empty if something was tried differently.
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
        // A resolved chain restarts, unless it fails in the same way again.
        if !chain.open && chain.signature != failure.signature {
            chain.restart();
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
    // Several calls of one round count as one attempt.
    state.failing.sort_unstable();
    state.failing.dedup();
    state.step_success = false;
    // The chain with the most attempts represents the round; a denied call only if nothing else failed, since
    // it has no remedy.
    let speaks = |failure: &LastFailure| {
        let retries = state.chains.get(&failure.chain).map_or(0, |chain| chain.retries);
        (failure.category != Category::PermissionError, retries)
    };
    let most = failures.iter().map(speaks).max();
    state.last_failure = failures.into_iter().find(|failure| Some(speaks(failure)) == most);
}

#[cfg(test)]
mod tests;
