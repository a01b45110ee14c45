//! Derives a control decision from the state: pure, a decision table in code that `docs/RECOVERY.md` describes.
//!
//! Without a reflection there is no `adjusted` and no `alternative`: the envelope's error and hint are returned to the
//! model; such a retry uses the same counter.

use super::state::RecoveryState;
use agent_protocol::control::{CauseCategory, ControlDecision, ReplanScope, RetryStrategy};
use agent_protocol::reflection::{Reflection, SuggestedAction};
use agent_protocol::shorten;

/// A decision and its reason in one sentence. `None`: no decision is left, and the turn ends.
pub(super) type ReasonedDecision = (Option<ControlDecision>, String);

/// Terminates: each `Retry` and `Replan` uses a counter that only a success (or, once, a new plan) resets.
pub(super) fn choose_decision(state: &RecoveryState) -> ReasonedDecision {
    let Some(failure) = state.last_failure.as_ref().filter(|_| !state.step_success) else {
        return (Some(ControlDecision::Continue), "nothing failed".to_owned());
    };
    let what = failure
        .code
        .map_or_else(|| shorten(&failure.message, 120), |code| code.as_str().to_owned());
    let counters = state.counters();
    if counters.unvaried_failures.is_exhausted() {
        let reason = format!(
            "{what} {} times in a row with nothing tried differently",
            state.unvaried_failures
        );
        return (None, reason);
    }
    if failure.category == CauseCategory::PermissionError && state.remedy().is_none() {
        let reason = format!("{what}: not allowed, so the same call is not tried again");
        return (Some(ControlDecision::Continue), reason);
    }
    let retry = counters.retry_count;
    let reflection = state.reflection();
    let category = reflection.map_or(failure.category, |reflection| reflection.root_cause.category);
    let nth = format!("{}/{}", retry.n + 1, retry.max);
    let answers_itself = failure.signal.concerns_answer();
    let plan_is_wrong =
        reflection.is_some_and(|reflection| !reflection.root_cause.plan_still_holds);
    let is_final = answers_itself && retry.is_exhausted();
    if plan_is_wrong && !is_final && !counters.task_replan_count.is_exhausted() {
        let reason = format!("{what}: the reflection says that the plan does not hold");
        return (Some(ControlDecision::Replan(ReplanScope::Task)), reason);
    }
    if !retry.is_exhausted() {
        if let Some(action) = state.remedy().and_then(|remedy| remedy.action.as_ref()) {
            let kind = match action {
                SuggestedAction::Adjust { .. } => RetryStrategy::Adjusted,
                SuggestedAction::Alternative { .. } => RetryStrategy::Alternative,
            };
            let reason = format!("{what}: retry {nth} with what helped before");
            return (Some(ControlDecision::Retry(kind)), reason);
        }
        if state.may_repeat_call() {
            let reason = format!("{what}: a tool fault that may be transient; the same call again");
            return (Some(ControlDecision::Retry(RetryStrategy::Same)), reason);
        }
        // A final text that was not accepted has no step that could be rewritten.
        let strategy = choose_retry(reflection, category, state.retries_without_remedies())
            .or(answers_itself.then_some(RetryStrategy::Feedback));
        if let Some(strategy) = strategy {
            let reason = match strategy {
                RetryStrategy::Feedback if failure.signal.rejects_answer() => {
                    format!("{what}: sent back to the model ({} of {})", retry.n + 1, retry.max)
                }
                RetryStrategy::Feedback => format!("{what}: the model gets its error and hint"),
                _ => format!("{what}: retry {nth} as the reflection proposes"),
            };
            return (Some(ControlDecision::Retry(strategy)), reason);
        }
    }
    if is_final {
        return (None, format!("{what}: retries used up ({}/{})", retry.n, retry.max));
    }
    if !state.repairs_used_up() {
        let why =
            if retry.is_exhausted() { "retries used up" } else { "another try would not help" };
        let reason = format!("{what}: {why}, so this step is rewritten");
        return (Some(ControlDecision::Replan(ReplanScope::Step)), reason);
    }
    if !counters.task_replan_count.is_exhausted() {
        let reason = format!("{what}: the rewritten step failed too, so the plan is rewritten");
        return (Some(ControlDecision::Replan(ReplanScope::Task)), reason);
    }
    (None, format!("{what}: retries, repair and replan are used up"))
}

/// While retries are left. `None`: the step has to be rewritten.
fn choose_retry(
    reflection: Option<&Reflection>,
    category: CauseCategory,
    retries: u32,
) -> Option<RetryStrategy> {
    // A retry does not install what is missing: one feedback, then a different approach.
    let wants_repair = match category {
        CauseCategory::DependencyError
        | CauseCategory::DecompositionError
        | CauseCategory::EnvironmentError => retries >= 1,
        CauseCategory::ParameterError
        | CauseCategory::ToolError
        | CauseCategory::PermissionError
        | CauseCategory::Unknown => false,
    };
    let feedback = (!wants_repair).then_some(RetryStrategy::Feedback);
    let Some(reflection) = reflection else { return feedback };
    let cause = &reflection.root_cause;
    if !cause.plan_still_holds || !cause.recoverable {
        return None;
    }
    match &reflection.suggested_action {
        Some(SuggestedAction::Adjust { .. }) => Some(RetryStrategy::Adjusted),
        Some(SuggestedAction::Alternative { .. }) => Some(RetryStrategy::Alternative),
        None => feedback.filter(|_| cause.retry_may_succeed),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::state::{FailedCall, FailureChain};
    use super::*;
    use agent_protocol::control::{Count, FailureSignal, LastFailure, Recovery};
    use agent_protocol::envelope::ErrorClass;
    use agent_protocol::message::ToolCall;
    use agent_protocol::recall::Remedy;
    use agent_protocol::tool::Effect;

    const FEEDBACK: Option<ControlDecision> = Some(ControlDecision::Retry(RetryStrategy::Feedback));
    const STEP: Option<ControlDecision> = Some(ControlDecision::Replan(ReplanScope::Step));
    const TASK: Option<ControlDecision> = Some(ControlDecision::Replan(ReplanScope::Task));

    fn failed(signal: FailureSignal, category: CauseCategory, retries: u32) -> RecoveryState {
        let mut state = RecoveryState::new(Recovery::default());
        state.step_success = false;
        state.last_failure = Some(LastFailure {
            signal,
            code: None,
            class: None,
            category,
            message: "m".into(),
            signature: "s".into(),
            chain: "c".into(),
            reflection: None,
            remedy: None,
        });
        let chain = FailureChain {
            retries,
            signature: "s".into(),
            message: "m".into(),
            is_open: true,
            failures: retries + 1,
            step: 0,
            same_call_retried: false,
            repairs: 0,
            remedies: 0,
        };
        state.chains.insert("c".into(), chain);
        state.failing_chains = vec!["c".into()];
        state
    }

    fn check(
        mut state: RecoveryState,
        repairs: u32,
        replans: u32,
        expected: Option<ControlDecision>,
    ) {
        state.single_step_repair_count = repairs;
        state.task_replan_count = replans;
        assert_eq!(choose_decision(&state).0, expected, "{state:?}");
    }

    #[test]
    fn success_continues() {
        let state = RecoveryState::new(Recovery::default());
        assert_eq!(choose_decision(&state).0, Some(ControlDecision::Continue));
    }

    #[test]
    fn tool_error_gets_three_retries_then_repair_then_replan() {
        use CauseCategory::ParameterError;
        for retries in 0..3 {
            check(failed(FailureSignal::ToolError, ParameterError, retries), 0, 0, FEEDBACK);
        }
        check(failed(FailureSignal::ToolError, ParameterError, 3), 0, 0, STEP);
        check(failed(FailureSignal::ToolError, ParameterError, 3), 1, 0, TASK);
        check(failed(FailureSignal::ToolError, ParameterError, 3), 1, 1, None);
        check(failed(FailureSignal::ToolError, ParameterError, 4), 2, 2, None);
    }

    #[test]
    fn missing_dependency_is_repaired_after_one_retry() {
        use CauseCategory::{DecompositionError, DependencyError, EnvironmentError};
        for category in [DependencyError, DecompositionError, EnvironmentError] {
            check(failed(FailureSignal::ToolError, category, 0), 0, 0, FEEDBACK);
            check(failed(FailureSignal::ToolError, category, 1), 0, 0, STEP);
            check(failed(FailureSignal::ToolError, category, 1), 1, 0, TASK);
            check(failed(FailureSignal::ToolError, category, 1), 1, 1, None);
        }
    }

    #[test]
    fn bad_answer_is_retried_twice() {
        let signal = FailureSignal::BadAnswer;
        check(failed(signal, CauseCategory::Unknown, 0), 0, 0, FEEDBACK);
        check(failed(signal, CauseCategory::Unknown, 1), 0, 0, FEEDBACK);
        check(failed(signal, CauseCategory::Unknown, 2), 0, 0, None);
        let mut state = failed(signal, CauseCategory::Unknown, 2);
        state.limits.max_answer_retries = 3;
        check(state, 0, 0, FEEDBACK);
    }

    #[test]
    fn failing_check_gets_two_retries_then_repair_then_replan() {
        let signal = FailureSignal::CheckFailed;
        check(failed(signal, CauseCategory::Unknown, 0), 0, 0, FEEDBACK);
        check(failed(signal, CauseCategory::Unknown, 1), 0, 0, FEEDBACK);
        check(failed(signal, CauseCategory::Unknown, 2), 0, 0, STEP);
        check(failed(signal, CauseCategory::Unknown, 2), 1, 0, TASK);
        check(failed(signal, CauseCategory::Unknown, 2), 1, 1, None);
    }

    #[test]
    fn a_denied_call_is_not_retried() {
        let state = failed(FailureSignal::ToolError, CauseCategory::PermissionError, 0);
        check(state, 0, 0, Some(ControlDecision::Continue));
    }

    #[test]
    fn three_identical_failures_end_the_turn() {
        for category in [CauseCategory::ParameterError, CauseCategory::PermissionError] {
            let mut state = failed(FailureSignal::Loop, category, 0);
            state.unvaried_failures = 3;
            check(state, 0, 0, None);
        }
    }

    const SIGNALS: [FailureSignal; 7] = [
        FailureSignal::ValidationFailed,
        FailureSignal::ToolError,
        FailureSignal::Loop,
        FailureSignal::CheckFailed,
        FailureSignal::BadAnswer,
        FailureSignal::ConstraintViolated,
        FailureSignal::UserRejected,
    ];
    const CATEGORIES: [CauseCategory; 7] = [
        CauseCategory::ParameterError,
        CauseCategory::ToolError,
        CauseCategory::DependencyError,
        CauseCategory::DecompositionError,
        CauseCategory::EnvironmentError,
        CauseCategory::PermissionError,
        CauseCategory::Unknown,
    ];

    /// Every reflection answer that matters to the decision, and no reflection.
    fn reflections() -> Vec<Option<Box<Reflection>>> {
        let mut all = vec![None];
        let actions = [
            json!(null),
            json!({"kind": "adjust", "input": {"path": "b"}}),
            json!({"kind": "alternative", "tool": "Grep", "input": {}}),
        ];
        let signs = [true, false];
        for category in CATEGORIES {
            for action in &actions {
                for (holds, recoverable) in signs.iter().flat_map(|a| signs.map(|b| (*a, b))) {
                    for (may, confidence) in [(true, 0.9), (false, 0.9), (true, 0.2)] {
                        let said = json!({
                            "failure_signal": "tool_error",
                            "root_cause": {"category": category, "plan_still_holds": holds,
                                "recoverable": recoverable, "retry_may_succeed": may,
                                "confidence": confidence},
                            "suggested_action": action,
                        });
                        let said = serde_json::from_value(said).expect("a reflection");
                        all.push(Some(Box::new(said)));
                    }
                }
            }
        }
        all
    }

    fn remedies() -> [Option<Box<Remedy>>; 3] {
        let remedy = |action: serde_json::Value| {
            let remedy = json!({"item": {"id": "i", "kind": "failure_pattern", "text": "do b"},
                "confidence": 0.7, "action": action});
            Some(serde_json::from_value(remedy).expect("a remedy"))
        };
        let adjust = json!({"kind": "adjust", "input": {"path": "b"}});
        let other = json!({"kind": "alternative", "tool": "Grep", "input": {}});
        [None, remedy(adjust), remedy(other)]
    }

    /// Remaining counts of all counters: every decision except `Continue` decreases it, and nothing
    /// else changes it.
    fn measure(state: &RecoveryState) -> u32 {
        let left = |count: Count| count.max.saturating_sub(count.n);
        let counters = state.counters();
        let retries = state.limits.max_step_retries.max(state.limits.max_answer_retries) + 1;
        let repairs = state.limits.max_single_step_repairs + 1;
        // A replan resets the counters of its plan, so it weighs more than all of them.
        left(counters.task_replan_count) * (retries * repairs + retries + repairs)
            + left(counters.single_step_repair_count) * retries
            + left(counters.retry_count)
    }

    #[test]
    fn every_state_has_a_decision_that_decreases_the_measure() {
        let limits = Recovery::default();
        let (reflections, remedies) = (reflections(), remedies());
        let mut n_states = 0;
        for signal in SIGNALS {
            for category in CATEGORIES {
                for retries in 0..=limits.max_step_retries + 1 {
                    for repairs in 0..=limits.max_single_step_repairs + 1 {
                        for replans in 0..=limits.max_task_replanning_attempts + 1 {
                            for unvaried in 0..=limits.max_consecutive_failures + 1 {
                                // A remedy precedes any reflection: no state has both.
                                let known = reflections.iter().map(|said| (said, &None));
                                let known = known.chain(remedies.iter().map(|it| (&None, it)));
                                for (reflection, remedy) in known {
                                    n_states += 1;
                                    let mut state = failed(signal, category, retries);
                                    state.single_step_repair_count = repairs;
                                    state.task_replan_count = replans;
                                    state.unvaried_failures = unvaried;
                                    if let Some(failure) = &mut state.last_failure {
                                        failure.reflection.clone_from(reflection);
                                        failure.remedy.clone_from(remedy);
                                    }
                                    holds(&state);
                                }
                            }
                        }
                    }
                }
            }
        }
        assert!(n_states > 100_000, "{n_states}");
    }

    #[track_caller]
    fn holds(state: &RecoveryState) {
        let (decision, reason) = choose_decision(state);
        assert!(!reason.is_empty());
        let Some(decision) = decision else { return };
        if decision == ControlDecision::Continue {
            let category = state.last_failure.as_ref().map(|failure| failure.category);
            assert_eq!(category, Some(CauseCategory::PermissionError), "{state:?}");
            return;
        }
        let before = measure(state);
        let mut after = state.clone();
        after.apply_decision(decision);
        assert!(measure(&after) < before, "{decision:?} in {state:?}");
    }

    #[test]
    fn known_remedy_precedes_a_reflection() {
        let [_, adjust, other] = remedies();
        for (remedy, kind) in
            [(adjust, RetryStrategy::Adjusted), (other, RetryStrategy::Alternative)]
        {
            // Also for a missing permission: the remedy is another tool.
            for category in [CauseCategory::ParameterError, CauseCategory::PermissionError] {
                let mut state = failed(FailureSignal::ToolError, category, 1);
                if let Some(failure) = &mut state.last_failure {
                    failure.remedy.clone_from(&remedy);
                }
                assert!(!state.wants_reflection());
                assert_eq!(choose_decision(&state).0, Some(ControlDecision::Retry(kind)));
                state.apply_decision(ControlDecision::Retry(kind));
                assert_eq!((state.retry_count().n, state.retries_without_remedies()), (2, 1));
            }
        }
    }

    #[test]
    fn reflection_determines_the_kind_of_retry() {
        let with = |said: serde_json::Value| {
            let mut state = failed(FailureSignal::ToolError, CauseCategory::ParameterError, 1);
            if let Some(failure) = &mut state.last_failure {
                failure.reflection = serde_json::from_value(said).expect("a reflection");
            }
            choose_decision(&state).0
        };
        let said = |cause: serde_json::Value, action: serde_json::Value| {
            let mut cause = cause;
            cause["category"] = json!("parameter_error");
            cause["confidence"] = cause.get("confidence").cloned().unwrap_or(json!(0.8));
            json!({"failure_signal": "tool_error", "root_cause": cause, "suggested_action": action})
        };
        let adjust = json!({"kind": "adjust", "input": {"path": "b"}});
        let other = json!({"kind": "alternative", "tool": "Grep", "input": {}});
        let none = json!(null);
        let retry = |kind| Some(ControlDecision::Retry(kind));
        assert_eq!(with(said(json!({}), adjust.clone())), retry(RetryStrategy::Adjusted));
        assert_eq!(with(said(json!({}), other)), retry(RetryStrategy::Alternative));
        assert_eq!(with(said(json!({}), none.clone())), retry(RetryStrategy::Feedback));
        assert_eq!(with(said(json!({"confidence": 0.4}), adjust)), retry(RetryStrategy::Feedback));
        assert_eq!(with(said(json!({"recoverable": false}), none.clone())), STEP);
        assert_eq!(with(said(json!({"retry_may_succeed": false}), none.clone())), STEP);
        assert_eq!(with(said(json!({"plan_still_holds": false}), none)), TASK);
    }

    #[test]
    fn invalid_plan_is_replanned_also_after_the_retries() {
        let said = json!({"failure_signal": "tool_error", "root_cause":
            {"category": "parameter_error", "plan_still_holds": false, "confidence": 0.8}});
        let decided = |signal, retries, replans| {
            let mut state = failed(signal, CauseCategory::ParameterError, retries);
            state.task_replan_count = replans;
            if let Some(failure) = &mut state.last_failure {
                failure.reflection = serde_json::from_value(said.clone()).expect("a reflection");
            }
            choose_decision(&state).0
        };
        assert_eq!(decided(FailureSignal::ToolError, 3, 0), TASK);
        assert_eq!(decided(FailureSignal::ToolError, 1, 1), STEP);
        assert_eq!(decided(FailureSignal::CheckFailed, 1, 0), TASK);
        assert_eq!(decided(FailureSignal::CheckFailed, 1, 1), STEP);
        assert_eq!(
            decided(FailureSignal::BadAnswer, 1, 1),
            FEEDBACK,
            "it has no step to be rewritten"
        );
        assert_eq!(decided(FailureSignal::BadAnswer, 2, 0), None);
    }

    #[test]
    fn read_tool_fault_is_retried_once_unchanged() {
        let mut state = failed(FailureSignal::ToolError, CauseCategory::ToolError, 0);
        if let Some(failure) = &mut state.last_failure {
            failure.class = Some(ErrorClass::Tool);
        }
        let call = ToolCall { id: "1".into(), name: "Read".into(), arguments: "{}".into() };
        let effect = Some(Effect::Read { path: "a".into() });
        let parent = call.clone();
        state.failed_call =
            Some(FailedCall { call, parent, effect, is_unknown: false, was_observed: false });
        state.limits.reflect_after = 1;
        assert!(!state.wants_reflection(), "what may pass by itself is tried first");
        assert_eq!(choose_decision(&state).0, Some(ControlDecision::Retry(RetryStrategy::Same)));
        state.apply_decision(ControlDecision::Retry(RetryStrategy::Same));
        assert_eq!(choose_decision(&state).0, FEEDBACK);
    }

    #[test]
    fn reflection_is_requested_only_for_recurring_failures() {
        let wants = |signal, category, retries, change: &dyn Fn(&mut RecoveryState)| {
            let mut state = failed(signal, category, retries);
            change(&mut state);
            state.wants_reflection()
        };
        let (tool, parameter) = (FailureSignal::ToolError, CauseCategory::ParameterError);
        assert!(!wants(tool, parameter, 0, &|_| {}));
        assert!(wants(tool, parameter, 1, &|_| {}));
        assert!(wants(tool, parameter, 0, &|state| state.limits.reflect_after = 1));
        assert!(!wants(tool, CauseCategory::PermissionError, 1, &|_| {}));
        assert!(!wants(tool, parameter, 1, &|state| state.reflections = 4));
        assert!(!wants(tool, parameter, 1, &|state| {
            state.limits.enable_step_level_reflection = false;
        }));
        assert!(!wants(tool, parameter, 1, &|state| state.step_success = true));
        // The answer does not matter if the turn ends anyway.
        assert!(wants(FailureSignal::BadAnswer, CauseCategory::Unknown, 1, &|_| {}));
        assert!(!wants(FailureSignal::BadAnswer, CauseCategory::Unknown, 2, &|_| {}));
        assert!(wants(FailureSignal::CheckFailed, CauseCategory::Unknown, 2, &|_| {}));
        assert!(wants(tool, parameter, 3, &|_| {}));
        assert!(!wants(tool, parameter, 3, &|state| {
            (state.single_step_repair_count, state.task_replan_count) = (1, 1);
        }));
    }

    /// A decreasing measure: every decision except `Continue` uses up something that only a success
    /// restores, so a chain that never succeeds ends.
    #[test]
    fn attempt_chain_without_success_terminates() {
        let categories = [
            CauseCategory::ParameterError,
            CauseCategory::ToolError,
            CauseCategory::DependencyError,
            CauseCategory::DecompositionError,
            CauseCategory::EnvironmentError,
            CauseCategory::Unknown,
        ];
        for category in categories {
            let mut state = failed(FailureSignal::ToolError, category, 0);
            let mut decisions = 0;
            while let Some(decision) = choose_decision(&state).0 {
                state.apply_decision(decision);
                // Meanwhile another call succeeds, and the todo is completed.
                state.step_had_success = true;
                state.complete_step();
                state.current_step += 1;
                decisions += 1;
                assert!(decisions <= 20, "{category:?} goes on for ever");
            }
        }
    }
}
