//! The kernel's state: failures, their counts, and the decisions about them. All of it can be rebuilt from
//! the events.

use std::collections::BTreeMap;

use super::loop_detector::LoopDetector;
use agent_protocol::control::{
    CauseCategory, ControlDecision, Count, Counters, FailureSignal, LastFailure, Recovery,
    ReplanScope, RetryStrategy,
};
use agent_protocol::envelope::ErrorClass;
use agent_protocol::message::ToolCall;
use agent_protocol::recall::Remedy;
use agent_protocol::reflection::Reflection;
use agent_protocol::tool::Effect;

/// Chain of answers that repeat themselves.
pub(crate) const REPETITION_CHAIN: &str = "answer: repetition";

/// Failures of one tool with one target. The step is not part of the key: advancing in the plan does not reset counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FailureChain {
    pub(crate) retries: u32,
    pub(crate) signature: String,
    /// Message of the last failure, for users.
    pub(crate) message: String,
    pub(crate) is_open: bool,
    /// Number of failures in this task, for the report.
    pub(crate) failures: u32,
    pub(crate) step: u32,
    pub(crate) same_call_retried: bool,
    /// Rewrites of a step because of this chain; completing a step does not reset the number.
    pub(crate) repairs: u32,
    pub(crate) remedies: u32,
}

impl FailureChain {
    /// Attempts so far stay recorded.
    pub(crate) fn reset_retries(&mut self) {
        self.retries = 0;
        self.repairs = 0;
        self.remedies = 0;
        self.same_call_retried = false;
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCall {
    pub(crate) call: ToolCall,
    /// The model's call on behalf of which the kernel made this one; the same call if the model made it.
    pub(crate) parent: ToolCall,
    pub(crate) effect: Option<Effect>,
    /// The tool does not exist: any other tool that does the task resolves the failure.
    pub(crate) is_unknown: bool,
    /// The failure was first an observation; it became evidence because a remedy is known.
    pub(crate) was_observed: bool,
}

impl FailedCall {
    /// A failed read is resolved by any success; a write or a command by one of its kind, by the same tool, or, if its
    /// tool does not exist, by any success.
    pub(crate) fn is_resolved_by(&self, call: &ToolCall, effect: Option<&Effect>) -> bool {
        let same_kind = match (&self.effect, effect) {
            (Some(Effect::Write { .. }), Some(Effect::Write { .. }))
            | (Some(Effect::Command { .. }), Some(Effect::Command { .. })) => true,
            (Some(own), _) if own.is_internal() || matches!(own, Effect::Read { .. }) => true,
            _ => self.is_unknown,
        };
        same_kind || call.name == self.call.name
    }
}

/// What the decisions of one turn depend on: its failures, and the counters with their limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecoveryState {
    /// The last round achieved its purpose.
    pub(crate) step_success: bool,
    pub(crate) last_failure: Option<LastFailure>,
    pub(crate) single_step_repair_count: u32,
    pub(crate) task_replan_count: u32,
    /// Rounds in which no call succeeded.
    pub(crate) consecutive_failures: u32,
    /// Rounds that failed in the same way with the same calls.
    pub(crate) unvaried_failures: u32,
    pub(crate) limits: Recovery,
    pub(crate) chains: BTreeMap<String, FailureChain>,
    /// Keys of the chains that failed in the last round.
    pub(crate) failing_chains: Vec<String>,
    /// A call has succeeded since the step was begun.
    pub(crate) step_had_success: bool,
    pub(crate) n_edits: u32,
    pub(crate) failed_call: Option<FailedCall>,
    pub(crate) reflections: u32,
    /// The todo in progress, from 1; 0 if there is none.
    pub(crate) current_step: u32,
    pub(crate) loop_detector: LoopDetector,
}

impl RecoveryState {
    pub(crate) fn new(limits: Recovery) -> Self {
        Self { step_success: true, limits, ..Self::default() }
    }

    pub(crate) fn counters(&self) -> Counters {
        Counters {
            retry_count: self.retry_count(),
            single_step_repair_count: Count {
                n: self.single_step_repair_count,
                max: self.limits.max_single_step_repairs,
            },
            task_replan_count: Count {
                n: self.task_replan_count,
                max: self.limits.max_task_replanning_attempts,
            },
            consecutive_failures: self.consecutive_failures,
            unvaried_failures: Count {
                n: self.unvaried_failures,
                max: self.limits.max_consecutive_failures,
            },
            reflections: Count { n: self.reflections, max: self.limits.max_reflections },
        }
    }

    /// Only a repeated failure is worth a reflection, and a denied permission is not.
    pub(crate) fn wants_reflection(&self) -> bool {
        let Some(failure) = self.last_failure.as_ref().filter(|_| !self.step_success) else {
            return false;
        };
        let counters = self.counters();
        let failures = self.retries_without_remedies() + 1;
        // If the turn ends in any case, the answer has no effect.
        let plans_are_used_up = self.repairs_used_up() && counters.task_replan_count.is_exhausted();
        let ends = counters.retry_count.is_exhausted()
            && (plans_are_used_up || failure.signal.concerns_answer());
        // A possibly transient fault is retried before a reflection.
        let passes = self.may_repeat_call() && !counters.retry_count.is_exhausted();
        !ends
            && !passes
            && self.remedy().is_none()
            && self.limits.enable_step_level_reflection
            && failure.reflection.is_none()
            && failure.category != CauseCategory::PermissionError
            && failures >= self.limits.reflect_after
            && !counters.reflections.is_exhausted()
            && !counters.unvaried_failures.is_exhausted()
    }

    /// The repairs of this step, or of the step in which the failure occurred before.
    pub(crate) fn repairs_used_up(&self) -> bool {
        let repairs = self.chain_of_failure().map_or(0, |chain| chain.repairs);
        self.single_step_repair_count.max(repairs) >= self.limits.max_single_step_repairs
    }

    pub(crate) fn close_chain(&mut self, chain: &str) {
        if let Some(chain) = self.chains.get_mut(chain) {
            chain.is_open = false;
        }
    }

    /// `None` also if the confidence is not sufficient.
    pub(crate) fn reflection(&self) -> Option<&Reflection> {
        let reflection = self.last_failure.as_ref()?.reflection.as_deref()?;
        reflection.is_confident().then_some(reflection)
    }

    pub(crate) fn remedy(&self) -> Option<&Remedy> {
        self.last_failure.as_ref()?.remedy.as_deref()
    }

    /// An unsuccessful remedy does not reduce the regular retries.
    pub(crate) fn retries_without_remedies(&self) -> u32 {
        self.chain_of_failure().map_or(0, |chain| chain.retries.saturating_sub(chain.remedies))
    }

    /// A fault of a tool that reads may be transient; the call is repeated once.
    pub(crate) fn may_repeat_call(&self) -> bool {
        let Some(failure) = &self.last_failure else { return false };
        let effect = self.failed_call.as_ref().and_then(|failed| failed.effect.as_ref());
        failure.class == Some(ErrorClass::Tool)
            && matches!(effect, Some(Effect::Read { .. }))
            && !self.chain_of_failure().is_some_and(|chain| chain.same_call_retried)
    }

    pub(crate) fn retry_count(&self) -> Count {
        let Some(failure) = &self.last_failure else {
            return Count::with_limit(self.limits.max_step_retries);
        };
        let max = match failure.signal {
            // Each costs the whole of a repetition.
            _ if failure.chain == REPETITION_CHAIN => self.limits.max_answer_retries.min(1),
            FailureSignal::BadAnswer | FailureSignal::CheckFailed => self.limits.max_answer_retries,
            _ => self.limits.max_step_retries,
        };
        Count { n: self.chain_of_failure().map_or(0, |chain| chain.retries), max }
    }

    fn chain_of_failure(&self) -> Option<&FailureChain> {
        self.chains.get(&self.last_failure.as_ref()?.chain)
    }

    pub(crate) fn apply_decision(&mut self, decision: ControlDecision) {
        let is_remedy = self.remedy().is_some();
        match decision {
            ControlDecision::Continue => {}
            ControlDecision::Retry(retry) => {
                for chain in self.failing_chains_mut() {
                    chain.retries += 1;
                    chain.same_call_retried |= retry == RetryStrategy::Same;
                    chain.remedies += u32::from(is_remedy);
                }
            }
            ControlDecision::Replan(ReplanScope::Step) => {
                self.single_step_repair_count += 1;
                self.failing_chains_mut().for_each(|chain| chain.repairs += 1);
            }
            ControlDecision::Replan(ReplanScope::Task) => {
                self.task_replan_count += 1;
                self.single_step_repair_count = 0;
                self.consecutive_failures = 0;
                self.unvaried_failures = 0;
                self.chains.values_mut().for_each(FailureChain::reset_retries);
            }
        }
    }

    fn failing_chains_mut(&mut self) -> impl Iterator<Item = &mut FailureChain> {
        let failing = &self.failing_chains;
        self.chains.iter_mut().filter(|(key, _)| failing.contains(key)).map(|(_, chain)| chain)
    }

    /// The repairs are counted anew only if a call succeeded during the step.
    pub(crate) fn complete_step(&mut self) {
        if self.step_had_success {
            self.single_step_repair_count = 0;
        }
        self.step_had_success = false;
        self.chains.retain(|_, chain| chain.is_open);
    }
}
