//! The kernel's state: what failed, how often, and what was decided about it. All of it is in the events.

use std::collections::BTreeMap;

use super::circles::Circles;
use crate::protocol::control::{
    Category, ControlDecision, Count, Counters, LastFailure, Recovery, Replan, Retry, Signal,
};
use crate::protocol::envelope::ErrorClass;
use crate::protocol::message::ToolCall;
use crate::protocol::recall::Remedy;
use crate::protocol::reflection::Reflection;
use crate::protocol::tool::Effect;

/// Failures that belong together: one tool, one target. The step is no part of it: a model that moves
/// on in its plan gets no counter back by that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) retries: u32,
    pub(crate) signature: String,
    /// What the last failure said, for people.
    pub(crate) message: String,
    pub(crate) open: bool,
    /// How often it failed in this task, for the report.
    pub(crate) failures: u32,
    /// Where in the plan it failed last.
    pub(crate) step: u32,
    /// The very same call was repeated by the kernel.
    pub(crate) same_tried: bool,
    /// So often a step was rewritten because of it: a step ticked off gives it no other.
    pub(crate) repairs: u32,
    /// So many of the retries were the kernel's, with what helped before.
    pub(crate) remedies: u32,
}

impl Chain {
    /// It is tried from the beginning; what was tried before stays known.
    pub(crate) fn begin_anew(&mut self) {
        self.retries = 0;
        self.repairs = 0;
        self.remedies = 0;
        self.same_tried = false;
    }
}

/// The call that the last failure is about, where it is about one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FailedCall {
    pub(crate) call: ToolCall,
    /// The model's call for which the kernel made it; the same where the model made it.
    pub(crate) parent: ToolCall,
    /// What it touches, as far as that became known.
    pub(crate) effect: Option<Effect>,
    /// Its tool is not there: any other that does it makes it good.
    pub(crate) is_unknown: bool,
    /// A command that failed as something to look at: it is evidence only since it is known what helps.
    pub(crate) was_observed: bool,
}

impl FailedCall {
    /// It changes nothing: it may be repeated.
    pub(crate) fn reads(&self) -> bool {
        matches!(self.effect, Some(Effect::Read { .. }))
    }

    /// Does a success of this other call do what it was to do? What it was to find another may find; what
    /// it was to write only a write makes good.
    pub(crate) fn is_made_good_by(&self, call: &ToolCall, effect: Option<&Effect>) -> bool {
        let same_kind = match (&self.effect, effect) {
            (Some(Effect::Write { .. }), Some(Effect::Write { .. }))
            | (Some(Effect::Command { .. }), Some(Effect::Command { .. }))
            | (Some(Effect::Read { .. } | Effect::Job { .. } | Effect::Plan), _) => true,
            (Some(Effect::Write { .. } | Effect::Command { .. }) | None, _) => self.is_unknown,
        };
        same_kind || call.name == self.call.name
    }
}

/// What the decisions rest on.
#[derive(Clone, Debug)]
pub struct State {
    /// The last round did what it set out to do.
    pub step_success: bool,
    /// The evidence of the last failure that is not made good.
    pub last_failure: Option<LastFailure>,
    /// The last decision.
    pub control_decision: ControlDecision,
    /// Rewritings of this step.
    pub single_step_repair_count: u32,
    /// Rewritings of the whole plan since the user's last message.
    pub task_replan_count: u32,
    /// Rounds in a row in which no call succeeded.
    pub consecutive_failures: u32,
    /// Rounds in a row that failed in the same way with the same calls.
    pub unvaried_failures: u32,
    pub(crate) limits: Recovery,
    pub(crate) chains: BTreeMap<String, Chain>,
    /// The chains that failed in the last round.
    pub(crate) failing: Vec<String>,
    /// The last failing round: its calls and how each failed.
    pub(crate) last_round: String,
    /// A call succeeded since the step was begun.
    pub(crate) step_had_success: bool,
    /// Changes of files so far, and at which of them each command failed last, and how.
    pub(crate) n_edits: u32,
    pub(crate) failed_commands: BTreeMap<String, (u32, String)>,
    /// The call that the last failure is about.
    pub(crate) failed_call: Option<FailedCall>,
    /// Reflections so far.
    pub(crate) reflections: u32,
    /// The todo in progress, from 1; 0 where there is none.
    pub(crate) step: u32,
    /// The last calls and how they ended: where the work goes round in circles it shows here.
    pub(crate) circles: Circles,
}

impl State {
    /// Nothing has failed.
    pub fn new(limits: Recovery) -> Self {
        Self {
            step_success: true,
            last_failure: None,
            control_decision: ControlDecision::Continue,
            single_step_repair_count: 0,
            task_replan_count: 0,
            consecutive_failures: 0,
            unvaried_failures: 0,
            limits,
            chains: BTreeMap::new(),
            failing: Vec::new(),
            last_round: String::new(),
            step_had_success: false,
            n_edits: 0,
            failed_commands: BTreeMap::new(),
            failed_call: None,
            reflections: 0,
            step: 0,
            circles: Circles::default(),
        }
    }

    /// Every counter, as it stands in events.
    pub fn counters(&self) -> Counters {
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

    /// A model should be asked why it failed. Pure, like the decision itself: only a failure that came
    /// back is worth the question, and one that is a matter of permission is not.
    pub(crate) fn wants_reflection(&self) -> bool {
        let Some(failure) = self.last_failure.as_ref().filter(|_| !self.step_success) else {
            return false;
        };
        let counters = self.counters();
        let failures = self.own_retries() + 1;
        // Where it ends in any case, nothing depends on the answer.
        let plans_are_used_up = self.repairs_used_up() && counters.task_replan_count.used_up();
        let ends = counters.retry_count.used_up()
            && (plans_are_used_up || failure.signal.answers_itself());
        // What may pass by itself is tried before anybody is asked.
        let passes = self.may_repeat() && !counters.retry_count.used_up();
        !ends
            && !passes
            && self.remedy().is_none()
            && self.limits.enable_step_level_reflection
            && failure.reflection.is_none()
            && failure.category != Category::PermissionError
            && failures >= self.limits.reflect_after
            && !counters.reflections.used_up()
            && !counters.unvaried_failures.used_up()
    }

    /// No step is rewritten because of the last failure: this step was, or it failed in one that was.
    pub(crate) fn repairs_used_up(&self) -> bool {
        let chain = self.last_failure.as_ref().and_then(|failure| self.chains.get(&failure.chain));
        let repairs = chain.map_or(0, |chain| chain.repairs);
        self.single_step_repair_count.max(repairs) >= self.limits.max_single_step_repairs
    }

    /// The chain is made good.
    pub(crate) fn close(&mut self, chain: &str) {
        if let Some(chain) = self.chains.get_mut(chain) {
            chain.open = false;
        }
    }

    /// The reflection's answer, where it is sure enough of itself to count.
    pub(crate) fn reflection(&self) -> Option<&Reflection> {
        let reflection = self.last_failure.as_ref()?.reflection.as_deref()?;
        reflection.is_confident().then_some(reflection)
    }

    /// What helped when it failed like this before, for the kernel to try.
    pub(crate) fn remedy(&self) -> Option<&Remedy> {
        self.last_failure.as_ref()?.remedy.as_deref()
    }

    /// Retries of the chain that the last failure belongs to, without those that memory proposed: one that
    /// did not help takes nothing from what would have been done without it.
    pub(crate) fn own_retries(&self) -> u32 {
        let chain = self.last_failure.as_ref().and_then(|failure| self.chains.get(&failure.chain));
        chain.map_or(0, |chain| chain.retries - chain.remedies.min(chain.retries))
    }

    /// A fault of a tool that reads may pass: the very same call was not repeated yet.
    pub(crate) fn may_repeat(&self) -> bool {
        let Some(failure) = &self.last_failure else { return false };
        let tried = self.chains.get(&failure.chain).is_some_and(|chain| chain.same_tried);
        failure.class == Some(ErrorClass::Tool)
            && self.failed_call.as_ref().is_some_and(FailedCall::reads)
            && !tried
    }

    /// Retries of the chain that the last failure belongs to.
    pub(crate) fn retry_count(&self) -> Count {
        let Some(failure) = &self.last_failure else {
            return Count::up_to(self.limits.max_step_retries);
        };
        let max = match failure.signal {
            Signal::BadAnswer | Signal::CheckFailed => self.limits.max_answer_retries,
            Signal::ValidationFailed
            | Signal::ToolError
            | Signal::Loop
            | Signal::ConstraintViolated
            | Signal::UserRejected => self.limits.max_step_retries,
        };
        Count { n: self.chains.get(&failure.chain).map_or(0, |chain| chain.retries), max }
    }

    /// Counts a decision that is being carried out.
    pub(crate) fn carry_out(&mut self, decision: ControlDecision) {
        self.control_decision = decision;
        let is_remedy = self.remedy().is_some();
        match decision {
            ControlDecision::Continue => {}
            ControlDecision::Retry(retry) => {
                for key in &self.failing {
                    if let Some(chain) = self.chains.get_mut(key) {
                        chain.retries += 1;
                        chain.same_tried |= retry == Retry::Same;
                        chain.remedies += u32::from(is_remedy);
                    }
                }
            }
            ControlDecision::Replan(Replan::Step) => {
                self.single_step_repair_count += 1;
                for key in &self.failing {
                    if let Some(chain) = self.chains.get_mut(key) {
                        chain.repairs += 1;
                    }
                }
            }
            ControlDecision::Replan(Replan::Task) => {
                self.task_replan_count += 1;
                self.single_step_repair_count = 0;
                self.consecutive_failures = 0;
                self.unvaried_failures = 0;
                self.chains.values_mut().for_each(Chain::begin_anew);
            }
        }
    }

    /// The step was completed; the next has repairs of its own, unless nothing was done for it.
    pub(crate) fn step_completed(&mut self) {
        if self.step_had_success {
            self.single_step_repair_count = 0;
        }
        self.step_had_success = false;
        // What was made good in it is over.
        self.chains.retain(|_, chain| chain.open);
    }
}
