//! Completion: is a final text the end of the turn? Checks, the JSON schema and the verifier decide; words do not.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Limits;
use super::answer::AnswerSchema;
use super::checks::{FailedCheck, PassedCheck};
use super::state::State;
use crate::protocol::control::{Category, Ending, Signal};
use crate::protocol::envelope::Verdict;
use crate::protocol::event::{FailureReport, Tried};
use crate::protocol::prompt::{Prompt, Prompts, fill, prompt};
use crate::protocol::shorten;
use crate::protocol::tool::Effect;
use crate::registry::Answer;

const CHECK_FAILED: Prompt = prompt!("feedback/check_failed.md");
const ANSWER_MISFIT: Prompt = prompt!("feedback/answer_misfit.md");

/// What happened in the turn that decides whether it is done.
#[derive(Debug, Default)]
pub(super) struct Completion {
    pub(super) files_changed: Vec<String>,
    /// The last final text that was not accepted.
    pub(super) candidate: String,
    /// The value of the final answer, if it has to match a schema.
    pub(super) structured: Option<Value>,
    /// The checks that passed with the last final text.
    pub(super) passed: Vec<PassedCheck>,
    checks: Option<CheckOutcome>,
    /// The verifier confirmed the accepted answer.
    pub(super) is_confirmed: bool,
    /// A write or a command was denied, and nothing has succeeded since.
    denied: bool,
}

/// How the checks ended with the last final text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckOutcome {
    Passed,
    Failed,
    CouldNotRun,
}

/// Is it the end?
pub(super) enum Gate {
    Accepted(Ending),
    /// `about` identifies the reason: each has retries of its own.
    SentBack {
        signal: Signal,
        about: String,
        why: String,
        /// The end of a failed check's output.
        output: String,
        feedback: String,
    },
    /// A check cannot be started, whatever the model does; why.
    CheckUnfit(String),
}

impl Completion {
    /// Takes one more answer of the registry.
    pub(super) fn saw(&mut self, answer: &Answer) {
        let Answer { envelope, effect, denied, violates_instruction: _, changed } = answer;
        self.denied |= denied;
        for path in changed {
            if !self.files_changed.contains(path) {
                self.files_changed.push(path.clone());
            }
        }
        match effect {
            Some(Effect::Write { path }) if envelope.data.get("applied") == Some(&true.into()) => {
                if !self.files_changed.contains(path) {
                    self.files_changed.push(path.clone());
                }
                self.denied = false;
            }
            Some(Effect::Command { .. }) if envelope.verdict == Verdict::Success => {
                self.denied = false;
            }
            Some(
                Effect::Write { .. }
                | Effect::Command { .. }
                | Effect::Read { .. }
                | Effect::Job { .. }
                | Effect::Plan,
            )
            | None => {}
        }
    }

    /// Accepts a final text, or says what is missing. The checks run last: they take longest.
    pub(super) async fn gate(
        &mut self,
        prompts: &Prompts,
        answer: &str,
        schema: Option<&AnswerSchema>,
        checks: impl Future<Output = Result<Vec<PassedCheck>, FailedCheck>>,
    ) -> Gate {
        match schema.map(|schema| schema.read(answer)) {
            Some(Ok(value)) => self.structured = Some(value),
            Some(Err(why)) => {
                let feedback = prompts.text(ANSWER_MISFIT).replace("{{why}}", &why);
                return Gate::SentBack {
                    signal: Signal::BadAnswer,
                    about: "schema".to_owned(),
                    why: format!("the final answer does not match its schema: {why}"),
                    output: String::new(),
                    feedback,
                };
            }
            None => {}
        }
        match checks.await {
            Ok(passed) => {
                if !passed.is_empty() {
                    self.checks = Some(CheckOutcome::Passed);
                    self.denied = false;
                }
                self.passed = passed;
                Gate::Accepted(Ending::Completed)
            }
            Err(FailedCheck { read_only: true, .. }) => {
                self.checks = Some(CheckOutcome::CouldNotRun);
                Gate::Accepted(Ending::CompletedUnverified)
            }
            Err(FailedCheck { command, unfit: Some(why), .. }) => {
                self.checks = Some(CheckOutcome::CouldNotRun);
                Gate::CheckUnfit(format!(
                    "the check `{command}` cannot be started: {why}; correct it (--check, or [checks] in the \
                     configuration), then continue with -c"
                ))
            }
            Err(FailedCheck { command, how, tail, .. }) => {
                self.checks = Some(CheckOutcome::Failed);
                let values = [("command", command.as_str()), ("how", &how), ("tail", &tail)];
                let feedback = fill(prompts.text(CHECK_FAILED), &values);
                Gate::SentBack {
                    signal: Signal::CheckFailed,
                    why: format!("the check `{command}` {how}"),
                    output: tail,
                    about: format!("check `{command}`"),
                    feedback,
                }
            }
        }
    }

    /// True if checks ran and passed or the verifier confirmed the answer, false if a check failed or could not run,
    /// `None` if there were none.
    pub(super) fn verified(&self) -> Option<bool> {
        match self.checks {
            Some(outcome) => Some(outcome == CheckOutcome::Passed),
            None => self.is_confirmed.then_some(true),
        }
    }

    /// How the turn ends when no decision is left.
    pub(super) fn ending_of(&self, state: &State) -> Ending {
        let signal = state.last_failure.as_ref().map(|failure| failure.signal);
        if signal == Some(Signal::CheckFailed) || self.checks == Some(CheckOutcome::Failed) {
            Ending::CheckFailed
        } else {
            Ending::Failed
        }
    }

    /// A permission that was needed and never given outweighs what the model says of the end.
    pub(super) fn final_ending(&self, ending: Ending) -> Ending {
        match ending {
            Ending::Completed
            | Ending::CompletedUnverified
            | Ending::Failed
            | Ending::CheckFailed
                if self.denied =>
            {
                Ending::PermissionDenied
            }
            other => other,
        }
    }

    /// The failure report: what ended it, what was tried on what evidence, what was changed, and what a
    /// person could do next.
    pub(super) fn report(
        &self,
        ending: Ending,
        errors: &[String],
        state: &State,
        evidence: &str,
    ) -> FailureReport {
        let mut attempts: Vec<Tried> = state
            .chains
            .iter()
            .filter(|(_, chain)| chain.open)
            .map(|(what, chain)| Tried {
                step: chain.step,
                what: what.clone(),
                times: chain.failures,
                failure: chain.message.clone(),
            })
            .collect();
        attempts.sort_by_key(|tried| tried.step);
        FailureReport {
            reason: format!("not done ({}): {}", ending.as_str(), errors.join("; ")),
            next: next_steps(ending, state),
            evidence: if attempts.is_empty() { String::new() } else { evidence.to_owned() },
            attempts,
            files_changed: self.files_changed.clone(),
            files_undone: BTreeMap::new(),
        }
    }
}

/// What a person could do about it.
fn next_steps(ending: Ending, state: &State) -> Vec<String> {
    let failure = state.last_failure.as_ref();
    let category = failure.map(|failure| failure.category);
    let mut next = Vec::new();
    let advice = match (ending, category) {
        (Ending::CheckFailed, _) => "run the check by hand and see whether it can pass at all",
        (Ending::PermissionDenied, _) => "allow what was denied with --allow, then go on with -c",
        (Ending::Failed, Some(Category::DependencyError)) => {
            "install what is missing, then go on with -c"
        }
        (Ending::Failed, Some(Category::EnvironmentError)) => {
            "mend the machine's state, then go on with -c"
        }
        (Ending::Failed, _) => {
            "say more about the task, or give it in smaller pieces, and go on with -c"
        }
        _ => return next,
    };
    next.push(advice.to_owned());
    next.push("see every step with `agent trace show`".to_owned());
    next
}

/// The report as text. `said`: the model's last words.
pub(super) fn report_in_words(report: &FailureReport, said: &str) -> String {
    let mut out = report.reason.clone();
    for tried in &report.attempts {
        let step = if tried.step > 0 { format!("step {}: ", tried.step) } else { String::new() };
        let times =
            if tried.times == 1 { "once".to_owned() } else { format!("{} times", tried.times) };
        let failure = shorten(&tried.failure, 160);
        out.push_str(&format!("\nTried: {step}{} failed {times} ({failure})", tried.what));
    }
    match (report.files_changed.is_empty(), report.files_undone.is_empty()) {
        (true, true) => out.push_str("\nNo file was changed"),
        (false, true) => out.push_str(&format!(
            "\nChanged and left so: {} (`agent session undo` takes it back)",
            report.files_changed.join(", ")
        )),
        (_, false) => {
            let undone = report.files_undone.iter().map(|(path, how)| format!("{path}: {how}"));
            out.push_str(&format!("\nTaken back: {}", undone.collect::<Vec<_>>().join(", ")));
        }
    }
    for next in &report.next {
        out.push_str(&format!("\nNext: {next}"));
    }
    if !said.trim().is_empty() {
        out.push_str(&format!("\nThe model's last words: {}", said.trim()));
    }
    out
}

/// An ending in words, for those that have no other.
pub(super) fn words(ending: Ending, limits: &Limits) -> String {
    match ending {
        Ending::MaxTurns => format!(
            "the limit of {} model answers was reached; raise --max-turns, or go on with -c",
            limits.max_turns
        ),
        Ending::MaxBudget => format!(
            "the budget of ${} was used up; raise --max-budget-usd, or go on with -c",
            limits.max_budget_usd.unwrap_or_default()
        ),
        Ending::Timeout => {
            "the time limit was reached; raise --timeout, or go on with -c".to_owned()
        }
        Ending::PermissionDenied => {
            "a permission that the task needed was not given; see permission_denials, and allow it \
             with --allow"
                .to_owned()
        }
        Ending::Interrupted => "interrupted; go on with -c".to_owned(),
        Ending::Terminated => "the program was asked to end; go on with -c".to_owned(),
        Ending::CompletedUnverified => {
            "the checks could not prove anything: nothing may be changed at present".to_owned()
        }
        Ending::Completed
        | Ending::Failed
        | Ending::CheckFailed
        | Ending::ModelRefused
        | Ending::ModelUnavailable => ending.as_str().replace('_', " "),
    }
}
