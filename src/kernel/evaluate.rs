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
    /// The kernel made a call itself, on behalf of the one that failed.
    Kernel { call: &'a ToolCall, answer: &'a Answer },
}

/// The chain of work that goes round in circles.
const CIRCLE: &str = "circle";
/// The chain of answers that can not be used.
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
    if answer.violates_instruction {
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

/// Evidence that is no error of a call's.
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
mod tests;
