//! Completion: decides whether a final text ends the turn, by checks, the JSON Schema and the verifier.

use std::collections::BTreeSet;

use serde_json::Value;

use super::TurnLimits;
use super::answer_schema::AnswerSchema;
use super::checks::{CheckFailure, FailedCheck, PassedCheck};
use super::state::RecoveryState;
use crate::registry::{MissingPermission, ToolCallResult};
use agent_protocol::control::{CauseCategory, Ending, FailureSignal};
use agent_protocol::envelope::Verdict;
use agent_protocol::event::{FailedAttempt, FailureReport};
use agent_protocol::prompt::{Prompt, Prompts, fill};
use agent_protocol::shorten;
use agent_protocol::tool::Effect;

const CHECK_FAILED: Prompt = Prompt::named("feedback/check_failed.md");
const ANSWER_MISFIT: Prompt = Prompt::named("feedback/answer_misfit.md");

/// Consecutive, of one check: each costs its full time.
const MAX_TIMEOUTS: u32 = 2;

#[derive(Debug, Default)]
pub(super) struct Completion {
    pub(super) n_calls: u64,
    /// Calls that lacked a permission.
    n_refused_calls: u64,
    pub(super) files_changed: Vec<String>,
    pub(super) ignored_changed: BTreeSet<String>,
    /// The last final text that was not accepted.
    pub(super) candidate: String,
    /// The last final text was written in plan mode.
    pub(super) is_plan: bool,
    /// The final answer as JSON, if it has to match a schema.
    pub(super) structured: Option<Value>,
    pub(super) passed_checks: Vec<PassedCheck>,
    check_outcome: Option<CheckOutcome>,
    /// The check that timed out with the last final text, and how often in a row.
    timed_out_check: Option<(String, u32)>,
    /// The verifier confirmed the answer.
    pub(super) is_confirmed: bool,
    /// A write or a command was denied, and nothing has succeeded since.
    is_denied: bool,
}

/// Outcome of the checks and the verifier for the last final text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CheckOutcome {
    Passed,
    Failed,
    CouldNotRun,
}

pub(super) enum CompletionDecision {
    Accepted,
    Rejected {
        signal: FailureSignal,
        /// Each reason has its own retries.
        reason_key: String,
        why: String,
        /// The end of a failed check's output.
        output: String,
        feedback: String,
    },
    /// A check could not run, independently of the model; the reason.
    Unverifiable(String),
    Interrupted,
}

impl Completion {
    pub(super) fn add_changes(&mut self, files: &[String], ignored: &[String]) {
        self.ignored_changed.extend(ignored.iter().cloned());
        for path in files {
            if !self.files_changed.contains(path) {
                self.files_changed.push(path.clone());
            }
        }
    }

    pub(super) fn record_result(&mut self, result: &ToolCallResult) {
        let ToolCallResult { envelope, effect, missing, changed, .. } = result;
        self.is_denied |= *missing == MissingPermission::Effect;
        self.n_calls += 1;
        self.n_refused_calls += u64::from(*missing != MissingPermission::None);
        self.add_changes(&changed.files, &changed.ignored);
        match effect {
            Some(Effect::Write { path }) if envelope.data.get("applied") == Some(&true.into()) => {
                self.add_changes(std::slice::from_ref(path), &[]);
                self.is_denied = false;
            }
            Some(Effect::Command { .. } | Effect::Mcp { .. })
                if envelope.verdict == Verdict::Success =>
            {
                self.is_denied = false;
            }
            _ => {}
        }
    }

    /// The checks run last, since they take longest. In read-only mode a passing check does not confirm a change that
    /// was denied.
    pub(super) async fn check_answer(
        &mut self,
        prompts: &Prompts,
        answer: &str,
        schema: Option<&AnswerSchema>,
        checks: impl Future<Output = (Vec<PassedCheck>, Option<FailedCheck>)>,
        read_only: bool,
    ) -> CompletionDecision {
        match schema.map(|schema| schema.parse_answer(answer)) {
            Some(Ok(value)) => self.structured = Some(value),
            Some(Err(why)) => {
                let feedback = prompts.text(ANSWER_MISFIT).replace("{{why}}", &why);
                return CompletionDecision::Rejected {
                    signal: FailureSignal::BadAnswer,
                    reason_key: "schema".to_owned(),
                    why: format!("the final answer does not match its schema: {why}"),
                    output: String::new(),
                    feedback,
                };
            }
            None => {}
        }
        let (passed, failed) = checks.await;
        let timed_out_before = self.timed_out_check.take();
        self.passed_checks = passed;
        let Some(FailedCheck { command, exit_text: how, tail, cause }) = failed else {
            let passed = !self.passed_checks.is_empty();
            self.check_outcome = passed.then_some(CheckOutcome::Passed);
            if passed && !read_only {
                (self.is_denied, self.n_refused_calls) = (false, 0);
            }
            return CompletionDecision::Accepted;
        };
        match cause {
            CheckFailure::CouldNotRun(why) => {
                self.check_outcome = Some(CheckOutcome::CouldNotRun);
                return CompletionDecision::Unverifiable(format!(
                    "the check `{command}` could not run: {why}; correct it (--check, or [checks] in the \
                     configuration), then continue with -c"
                ));
            }
            CheckFailure::ReadOnly => {
                self.check_outcome = Some(CheckOutcome::CouldNotRun);
                return CompletionDecision::Unverifiable(format!(
                    "the check `{command}` {how} in read-only mode, where it may not write and nothing can be \
                     fixed; run it in another mode"
                ));
            }
            CheckFailure::TimedOut => {
                let before = timed_out_before.filter(|(before, _)| *before == command);
                self.timed_out_check = Some((command.clone(), before.map_or(1, |(_, n)| n + 1)));
            }
            CheckFailure::Interrupted => {
                self.check_outcome = None;
                return CompletionDecision::Interrupted;
            }
            CheckFailure::Failed => {}
        }
        self.check_outcome = Some(CheckOutcome::Failed);
        let values = [("command", command.as_str()), ("how", &how), ("tail", &tail)];
        let feedback = fill(prompts.text(CHECK_FAILED), &values);
        CompletionDecision::Rejected {
            signal: FailureSignal::CheckFailed,
            why: format!("the check `{command}` {how}"),
            output: tail,
            reason_key: check_chain_key(&command),
            feedback,
        }
    }

    /// Why no other answer is requested, if a check timed out too often.
    pub(super) fn timeouts_used_up(&self) -> Option<String> {
        let (check, n) = self.timed_out_check.as_ref().filter(|(_, n)| *n >= MAX_TIMEOUTS)?;
        Some(format!(
            "the check `{check}` timed out {n} times in a row; raise checks.timeout if it needs more time"
        ))
    }

    pub(super) fn list_changed_files(&self) -> String {
        match &self.files_changed[..] {
            [] => "none".to_owned(),
            files => files.join(", "),
        }
    }

    /// Treated as a failed check.
    pub(super) fn record_objection(&mut self) {
        self.check_outcome = Some(CheckOutcome::Failed);
    }

    /// True if checks ran and passed or the verifier confirmed the answer; false if a check failed or could
    /// not run; `None` if there were none, or if work after they passed was left unfinished.
    pub(super) fn verification_result(&self, ending: Ending) -> Option<bool> {
        match self.check_outcome {
            Some(CheckOutcome::Failed | CheckOutcome::CouldNotRun) => Some(false),
            Some(CheckOutcome::Passed) => (ending == Ending::Completed).then_some(true),
            None => (self.is_confirmed && ending == Ending::Completed).then_some(true),
        }
    }

    /// The ending if no decision is left.
    pub(super) fn failure_ending(&self, state: &RecoveryState) -> Ending {
        let signal = state.last_failure.as_ref().map(|failure| failure.signal);
        let has_failed_check = signal == Some(FailureSignal::CheckFailed)
            || self.check_outcome == Some(CheckOutcome::Failed);
        if has_failed_check { Ending::CheckFailed } else { Ending::Failed }
    }

    /// A permission that was needed and never granted takes precedence over the given ending. A refused read is one if
    /// the turn consists of refused calls.
    pub(super) fn final_ending(&mut self, ending: Ending, is_sub_agent: bool) -> Ending {
        let was_all_refused = self.n_refused_calls > 0 && self.n_refused_calls == self.n_calls;
        self.is_denied |= was_all_refused && !is_sub_agent;
        match ending {
            Ending::Completed
            | Ending::CompletedUnverified
            | Ending::Failed
            | Ending::CheckFailed
            | Ending::IncompleteAnswer
                if self.is_denied =>
            {
                Ending::PermissionDenied
            }
            other => other,
        }
    }

    /// Why the turn ended, what was tried on which evidence, what was changed, and what the user can do next.
    pub(super) fn report(
        &self,
        ending: Ending,
        errors: &[String],
        state: &RecoveryState,
        evidence: &str,
    ) -> FailureReport {
        let mut attempts: Vec<FailedAttempt> = state
            .chains
            .iter()
            .filter(|(_, chain)| chain.is_open)
            .map(|(what, chain)| FailedAttempt {
                step: chain.step,
                what: what.clone(),
                times: chain.failures,
                failure: chain.message.clone(),
            })
            .collect();
        attempts.sort_by_key(|entry| entry.step);
        FailureReport {
            reason: format!("not done ({}): {}", ending.as_str(), errors.join("; ")),
            // A hook may have ended the turn without a permission that could be granted.
            next: match ending {
                Ending::PermissionDenied if !self.is_denied => Vec::new(),
                ending => next_steps(ending, state),
            },
            evidence: if attempts.is_empty() { String::new() } else { evidence.to_owned() },
            attempts,
            files_changed: self.files_changed.clone(),
        }
    }
}

pub(super) fn check_chain_key(command: &str) -> String {
    format!("check `{command}`")
}

fn next_steps(ending: Ending, state: &RecoveryState) -> Vec<String> {
    let failure = state.last_failure.as_ref();
    let category = failure.map(|failure| failure.category);
    let advice = match (ending, category) {
        (Ending::CheckFailed, _) => "run the check by hand to see whether it can pass at all",
        (Ending::PermissionDenied, _) => {
            "change the rule or hook that denied it, or allow it with --allow if none did; then continue with -c"
        }
        (Ending::Failed, Some(CauseCategory::DependencyError)) => {
            "install what is missing, then continue with -c"
        }
        (Ending::Failed, Some(CauseCategory::EnvironmentError)) => {
            "fix the environment, then continue with -c"
        }
        (Ending::Failed, _) => {
            "describe the task in more detail or split it, then continue with -c"
        }
        _ => return Vec::new(),
    };
    vec![advice.to_owned(), "`agent trace show` shows every step".to_owned()]
}

pub(super) fn report_in_words(report: &FailureReport, last_output: &str) -> String {
    let mut out = report.reason.clone();
    out.push_str(&attempts_in_words(report));
    match report.files_changed.as_slice() {
        [] => out.push_str("\nNo file was changed"),
        files => out.push_str(&format!(
            "\nChanged files: {} (undo with `agent session undo`)",
            files.join(", ")
        )),
    }
    for next in &report.next {
        out.push_str(&format!("\nNext: {next}"));
    }
    if !last_output.trim().is_empty() {
        out.push_str(&format!("\nLast model output: {}", last_output.trim()));
    }
    out
}

/// Report for the agent of a sub-agent, which receives the reason and the changed files separately.
pub(super) fn agent_report(report: &FailureReport, last_output: &str) -> String {
    format!("{}{}", last_output.trim(), attempts_in_words(report)).trim_start().to_owned()
}

/// A line break precedes each line.
fn attempts_in_words(report: &FailureReport) -> String {
    let lines = report.attempts.iter().map(|entry| {
        let step = if entry.step > 0 { format!("step {}: ", entry.step) } else { String::new() };
        let times =
            if entry.times == 1 { "once".to_owned() } else { format!("{} times", entry.times) };
        let failure = shorten(&entry.failure, 160);
        format!("\nTried: {step}{} failed {times} ({failure})", entry.what)
    });
    lines.collect()
}

/// Texts of endings that have no other.
pub(super) fn describe_ending(ending: Ending, limits: &TurnLimits) -> String {
    match ending {
        Ending::MaxTurns => format!(
            "the limit of {} model calls was reached; raise --max-turns, or continue with -c",
            limits.max_turns
        ),
        Ending::MaxBudget => format!(
            "the budget of ${} was used up; raise --max-budget-usd, or continue with -c",
            limits.max_budget_usd.unwrap_or_default()
        ),
        Ending::Timeout => {
            "the time limit was reached; raise --timeout, or continue with -c".to_owned()
        }
        Ending::PermissionDenied => "a permission that the task needed was not given".to_owned(),
        Ending::Interrupted => "interrupted; continue with -c".to_owned(),
        Ending::Terminated => "terminated by a signal; continue with -c".to_owned(),
        _ => ending.as_str().replace('_', " "),
    }
}
