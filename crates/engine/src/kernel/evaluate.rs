//! Evaluates a round: writes the evidence into the state; decides nothing.

use serde_json::Value;

use super::classify::{chain_key, classify_failure, failure_from_observation};
use super::state::{FailedCall, FailureChain, REPETITION_CHAIN, RecoveryState};
use crate::registry::ToolCallResult;
use agent_protocol::control::{CauseCategory, FailureSignal, LastFailure};
use agent_protocol::envelope::ErrorCode;
use agent_protocol::message::ToolCall;
use agent_protocol::recall::Remedy;
use agent_protocol::shorten;
use agent_protocol::signature::{mask_message, shorten_with_hash};
use agent_protocol::tool::Effect;

pub(crate) enum RoundOutcome<'a> {
    Calls {
        calls: &'a [ToolCall],
        results: &'a [ToolCallResult],
    },
    /// The answer is unusable, or was not accepted as final.
    RejectedAnswer {
        signal: FailureSignal,
        /// Each reason has its own retries.
        reason_key: &'a str,
        why: &'a str,
        /// Output of a check, for its signature.
        output: &'a str,
    },
    /// A call on behalf of the one that failed.
    KernelCall {
        call: &'a ToolCall,
        result: &'a ToolCallResult,
    },
}

/// Chain of loops in successful work.
const LOOP_CHAIN: &str = "circle";
const BAD_ANSWER_CHAIN: &str = "answer: unusable";

pub(crate) fn evaluate(state: &mut RecoveryState, round: &RoundOutcome<'_>) {
    match round {
        RoundOutcome::Calls { calls, results } => evaluate_calls(state, calls, results),
        RoundOutcome::KernelCall { call, result } => evaluate_kernel_call(state, call, result),
        RoundOutcome::RejectedAnswer { signal, reason_key, why, output } => {
            let chain = match (signal, *reason_key) {
                (_, "") => BAD_ANSWER_CHAIN.to_owned(),
                (FailureSignal::CheckFailed, check) => check.to_owned(),
                (_, reason) => format!("answer: {reason}"),
            };
            let failure = LastFailure {
                signature: shorten_with_hash(&mask_message(&format!("{why} {output}")), 300),
                ..failure_without_call(*signal, &chain, (*why).to_owned())
            };
            state.consecutive_failures += 1;
            state.failed_call = None;
            record_failures(state, vec![failure], String::new());
        }
    }
}

fn evaluate_calls(state: &mut RecoveryState, calls: &[ToolCall], results: &[ToolCallResult]) {
    let mut failures = Vec::new();
    let mut failed_calls = Vec::new();
    let mut any_success = false;
    let mut closed_loop = None;
    for (call, result) in calls.iter().zip(results) {
        let (envelope, effect) = (&*result.envelope, result.effect.as_ref());
        let chain = chain_key(call, envelope, effect);
        closed_loop = closed_loop.or(state.loop_detector.record_call(call, envelope, effect));
        if envelope.error().is_none() {
            any_success = true;
            // Neither updating the plan nor asking the user is work on its todos.
            state.step_had_success |= !matches!(effect, Some(Effect::Plan | Effect::Ask));
            if envelope.data.get("applied") == Some(&Value::Bool(true)) {
                state.n_edits += 1;
                state.close_chain(LOOP_CHAIN);
            }
            state.close_chain(&chain);
            // Mistakes without a target (arguments that do not parse) are resolved by any success.
            state.chains.remove(&call.name);
        } else if let Some(mut failure) = classify_failure(state, chain, call, envelope) {
            if result.violates_instruction {
                failure.signal = FailureSignal::ConstraintViolated;
            }
            join_previous_chain(state, &mut failure);
            failed_calls.push((failure.chain.clone(), failed_call(call, call, result)));
            failures.push(failure);
        }
    }
    if let Some(description) = closed_loop {
        failures.push(LastFailure {
            category: CauseCategory::DecompositionError,
            ..failure_without_call(FailureSignal::Loop, LOOP_CHAIN, description)
        });
    }
    if any_success {
        state.consecutive_failures = 0;
        state.chains.remove(BAD_ANSWER_CHAIN);
        state.chains.remove(REPETITION_CHAIN);
    }
    if failures.is_empty() {
        state.step_success = true;
        state.last_failure = None;
        state.failing_chains.clear();
        state.unvaried_failures = 0;
        state.loop_detector.record_failing_round(String::new());
        return;
    }
    let mut round = String::new();
    if !any_success {
        state.consecutive_failures += 1;
        let calls = calls.iter().map(|call| format!("{} {}\n", call.name, call.arguments));
        round = calls.chain(failures.iter().map(|failure| failure.signature.clone())).collect();
    }
    record_failures(state, failures, round);
    let last_chain = state.last_failure.as_ref().map(|failure| &failure.chain);
    let failed_call = failed_calls.into_iter().find(|(chain, _)| Some(chain) == last_chain);
    state.failed_call = failed_call.map(|(_, call)| call);
}

fn failed_call(call: &ToolCall, parent: &ToolCall, result: &ToolCallResult) -> FailedCall {
    let code = result.envelope.error().map(|error| error.code);
    FailedCall {
        call: call.clone(),
        parent: parent.clone(),
        effect: result.effect.clone(),
        is_unknown: code == Some(ErrorCode::UnknownTool),
        was_observed: false,
    }
}

/// Consecutive guesses, each with a new target, are one chain until something succeeds.
fn join_previous_chain(state: &RecoveryState, failure: &mut LastFailure) {
    if let Some(before) = &state.last_failure
        && before.signature == failure.signature
        && !state.chains.contains_key(&failure.chain)
    {
        failure.chain.clone_from(&before.chain);
    }
}

/// The result of a call of the kernel belongs to the chain of the failed call.
fn evaluate_kernel_call(state: &mut RecoveryState, call: &ToolCall, result: &ToolCallResult) {
    let Some(before) = state.last_failure.take() else { return };
    let envelope = &result.envelope;
    if before.remedy.is_some() && envelope.error().is_some() {
        return discard_remedy(state, before);
    }
    let failure = classify_failure(state, before.chain.clone(), call, envelope).or_else(|| {
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
        if failed_call.is_none_or(|failed| failed.is_resolved_by(call, result.effect.as_ref())) {
            state.close_chain(&before.chain);
        }
        state.step_success = true;
        state.step_had_success = true;
        state.consecutive_failures = 0;
        state.unvaried_failures = 0;
        state.failing_chains.clear();
        state.failed_call = None;
        if envelope.data.get("applied") == Some(&Value::Bool(true)) {
            state.n_edits += 1;
        }
        return;
    };
    failure.chain.clone_from(&before.chain);
    let parent = state.failed_call.as_ref().map_or(call, |failed| &failed.parent);
    state.failed_call = Some(failed_call(call, parent, result));
    if result.violates_instruction {
        failure.signal = FailureSignal::ConstraintViolated;
    }
    record_failures(state, vec![failure], String::new());
}

/// Apart from the counted retry, the state is as if the remedy had not been tried.
fn discard_remedy(state: &mut RecoveryState, before: LastFailure) {
    if state.failed_call.take_if(|failed| failed.was_observed).is_some() {
        state.close_chain(&before.chain);
        state.step_success = true;
        state.failing_chains.clear();
    } else {
        state.last_failure = Some(LastFailure { remedy: None, ..before });
    }
}

/// False: another failure represents the round, or no retry is left.
pub(crate) fn attach_remedy(
    state: &mut RecoveryState,
    call: &ToolCall,
    result: &ToolCallResult,
    remedy: &Remedy,
) -> bool {
    let is_left = |state: &RecoveryState, chain: &str| {
        let retries = state.chains.get(chain).map_or(0, |chain| chain.retries);
        retries < state.limits.max_step_retries
    };
    let is_last = state.failed_call.as_ref().is_some_and(|failed| failed.call.id == call.id);
    if let Some(failure) = state.last_failure.as_ref().filter(|_| is_last) {
        if !is_left(state, &failure.chain) || state.counters().unvaried_failures.is_exhausted() {
            return false;
        }
    } else {
        let chain = chain_key(call, &result.envelope, result.effect.as_ref());
        let Some(failure) = failure_from_observation(chain, call, &result.envelope) else {
            return false;
        };
        if !state.step_success || !is_left(state, &failure.chain) {
            return false;
        }
        record_failures(state, vec![failure], String::new());
        let failed = failed_call(call, call, result);
        state.failed_call = Some(FailedCall { was_observed: true, ..failed });
    }
    if let Some(failure) = &mut state.last_failure {
        failure.remedy = Some(Box::new(remedy.clone()));
    }
    true
}

fn failure_without_call(signal: FailureSignal, chain: &str, message: String) -> LastFailure {
    LastFailure {
        signal,
        code: None,
        class: None,
        category: CauseCategory::Unknown,
        signature: mask_message(&message),
        message,
        chain: chain.to_owned(),
        reflection: None,
        remedy: None,
    }
}

/// `round`: the calls and their failures if none succeeded; empty if something was tried differently.
fn record_failures(state: &mut RecoveryState, failures: Vec<LastFailure>, round: String) {
    for failure in &failures {
        let chain = state.chains.entry(failure.chain.clone()).or_insert_with(|| FailureChain {
            signature: failure.signature.clone(),
            is_open: true,
            ..FailureChain::default()
        });
        // A resolved chain restarts, unless it fails in the same way again.
        if !chain.is_open && chain.signature != failure.signature {
            chain.reset_retries();
        }
        chain.failures += 1;
        chain.step = state.current_step;
        chain.signature.clone_from(&failure.signature);
        chain.message.clone_from(&failure.message);
        chain.is_open = true;
    }
    let is_varied = round.is_empty();
    state.unvaried_failures = match state.loop_detector.record_failing_round(round) {
        _ if is_varied => 0,
        true => state.unvaried_failures + 1,
        false => 1,
    };
    state.failing_chains = failures.iter().map(|failure| failure.chain.clone()).collect();
    // Several calls of one round count as one attempt.
    state.failing_chains.sort_unstable();
    state.failing_chains.dedup();
    state.step_success = false;
    // The chain with the most attempts represents the round; a denied call only if nothing else failed, since
    // it has no remedy.
    let rank = |failure: &LastFailure| {
        let retries = state.chains.get(&failure.chain).map_or(0, |chain| chain.retries);
        (failure.category != CauseCategory::PermissionError, retries)
    };
    let highest = failures.iter().map(rank).max();
    state.last_failure = failures.into_iter().find(|failure| Some(rank(failure)) == highest);
}

#[cfg(test)]
mod tests;
