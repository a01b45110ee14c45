//! Completion: is a final text the end? What the model claims is no evidence.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Limits;
use super::answer::AnswerSchema;
use super::asked::{Proof, asked, can_fail, is_prose, proves};
use super::checks::{FailedCheck, PassedCheck};
use super::state::State;
use crate::protocol::control::{Category, Ending, Signal};
use crate::protocol::envelope::{Envelope, ErrorCode, Verdict};
use crate::protocol::event::{FailureReport, Tried};
use crate::protocol::plan::Plan;
use crate::protocol::prompt::{Prompt, Prompts, fill, prompt};
use crate::protocol::shorten;
use crate::protocol::tool::Effect;
use crate::registry::Answer;

const OPEN_TODOS: Prompt = prompt!("feedback/open_todos.md");
const ASKED_TO_RUN: Prompt = prompt!("feedback/asked_to_run.md");
const CHECK_FAILED: Prompt = prompt!("feedback/check_failed.md");
const ANSWER_MISFIT: Prompt = prompt!("feedback/answer_misfit.md");

/// What happened in the turn that decides whether it is done, and how certainly.
#[derive(Debug, Default)]
pub(super) struct Completion {
    pub(super) files_changed: Vec<String>,
    /// The last final text that was not accepted.
    pub(super) candidate: String,
    /// The value of the final answer, where it has to fit a schema.
    pub(super) structured: Option<Value>,
    /// The checks that passed with the last final text.
    pub(super) passed: Vec<PassedCheck>,
    /// What was run after the last change; `None`: nothing that could have failed.
    ran: Option<Ran>,
    checks: Option<Ran>,
    /// So often a final text is sent back because todos are open, and because something was not run; then the
    /// checks decide.
    max_reminders: u32,
    plan_reminders: u32,
    /// What the user asked to be run.
    asked: Vec<Proof>,
    /// What the checks run anyway.
    checked: Vec<Proof>,
    /// What of it has ended well since the last change.
    proven: Vec<Proof>,
    proof_reminders: u32,
    /// The final text was taken although that is missing.
    unproven: bool,
    /// The final text was taken although todos are open.
    plan_broken: bool,
    /// A write or a command was denied, and nothing was done since.
    denied: bool,
}

/// How what was run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ran {
    Well,
    Badly,
}

/// Is it the end?
pub(super) enum Gate {
    Accepted(Ending),
    /// `about` tells one reason from another.
    SentBack {
        signal: Signal,
        about: String,
        why: String,
        /// What a check printed last.
        output: String,
        feedback: String,
    },
    /// A check can not be started, whatever the model does; why.
    CheckUnfit(String),
}

impl Completion {
    /// Nothing has happened yet; the user may have asked for something to be run. What the checks run
    /// anyway needs no asking.
    pub(super) fn for_task(input: &str, checks: &[String], max_reminders: u32) -> Self {
        let checked = checks.iter().flat_map(|command| proves(command, false)).collect();
        let mut completion = Self { max_reminders, checked, ..Self::default() };
        completion.hear(input);
        completion
    }

    /// The user said something: it may ask for something to be run.
    pub(super) fn hear(&mut self, message: &str) {
        for proof in asked(message) {
            if !self.checked.contains(&proof) && !self.asked.contains(&proof) {
                self.asked.push(proof);
            }
        }
    }

    /// What a todo says is to be run and has not ended well since the last change; what the checks run needs
    /// no saying.
    pub(super) fn missing_for(&self, todo: &str) -> Vec<&'static str> {
        let missing = |proof: &Proof| !self.proven.contains(proof) && !self.checked.contains(proof);
        asked(todo).into_iter().filter(missing).map(Proof::as_str).collect()
    }

    /// Takes one more answer of the registry.
    pub(super) fn saw(&mut self, answer: &Answer) {
        let Answer { envelope, effect, denied, violates_pin: _, changed } = answer;
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
                self.ran = None;
                // "Run the tests, then note it in CHANGES": no test hangs on a note.
                if !is_prose(path) {
                    self.proven.clear();
                }
                self.denied = false;
            }
            Some(Effect::Command { command, .. }) if !denied => match &envelope.verdict {
                // It has only begun.
                Verdict::Success if envelope.data.contains_key("background_id") => {
                    self.denied = false;
                }
                Verdict::Success if can_fail(command, stages_known(envelope)) => {
                    self.proven.extend(proves(command, stages_known(envelope)));
                    self.ran = Some(Ran::Well);
                    self.denied = false;
                }
                Verdict::Success => self.denied = false,
                // It was not run: another way was named, or the user wants none of it.
                Verdict::Error { error }
                    if matches!(
                        error.code,
                        ErrorCode::UseTool | ErrorCode::CommandBlocked | ErrorCode::AccessDenied
                    ) => {}
                Verdict::Partial | Verdict::Error { .. } => self.ran = Some(Ran::Badly),
            },
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

    /// Accepts a final text, or says what is missing. The checks are run last: they cost most.
    pub(super) async fn gate(
        &mut self,
        prompts: &Prompts,
        plan: &Plan,
        answer: &str,
        schema: Option<&AnswerSchema>,
        checks: impl Future<Output = Result<Vec<PassedCheck>, FailedCheck>>,
    ) -> Gate {
        let open: Vec<&str> = plan.open().map(|todo| todo.content.as_str()).collect();
        self.plan_broken = !open.is_empty();
        if self.plan_broken && self.plan_reminders < self.max_reminders {
            self.plan_reminders += 1;
            return Gate::SentBack {
                signal: Signal::BadAnswer,
                about: "open todos".to_owned(),
                why: match open.len() {
                    1 => "a final answer with 1 open todo".to_owned(),
                    n => format!("a final answer with {n} open todos"),
                },
                output: String::new(),
                feedback: prompts.text(OPEN_TODOS).replace("{{todos}}", &open.join("; ")),
            };
        }
        let missing: Vec<Proof> =
            self.asked.iter().copied().filter(|proof| !self.proven.contains(proof)).collect();
        if !missing.is_empty() && self.proof_reminders < self.max_reminders {
            self.proof_reminders += 1;
            let what: Vec<&str> = missing.iter().map(|proof| proof.as_str()).collect();
            let what = what.join(" and ");
            return Gate::SentBack {
                signal: Signal::BadAnswer,
                about: "asked to run".to_owned(),
                why: format!("a final answer without {what}, which the user asked for"),
                output: String::new(),
                feedback: prompts.text(ASKED_TO_RUN).replace("{{what}}", &what),
            };
        }
        self.unproven = !missing.is_empty();
        match schema.map(|schema| schema.read(answer)) {
            Some(Ok(value)) => self.structured = Some(value),
            Some(Err(why)) => {
                let feedback = prompts.text(ANSWER_MISFIT).replace("{{why}}", &why);
                return Gate::SentBack {
                    signal: Signal::BadAnswer,
                    about: "schema".to_owned(),
                    why: format!("the final answer does not fit its schema: {why}"),
                    output: String::new(),
                    feedback,
                };
            }
            None => {}
        }
        match checks.await {
            Ok(passed) => {
                if !passed.is_empty() {
                    self.checks = Some(Ran::Well);
                    self.denied = false;
                }
                self.passed = passed;
                Gate::Accepted(match self.verified() {
                    Some(false) => Ending::CompletedUnverified,
                    Some(true) | None => Ending::Completed,
                })
            }
            Err(FailedCheck { read_only: true, .. }) => {
                self.checks = Some(Ran::Badly);
                Gate::Accepted(Ending::CompletedUnverified)
            }
            Err(FailedCheck { command, unfit: Some(why), .. }) => {
                self.checks = Some(Ran::Badly);
                Gate::CheckUnfit(format!(
                    "the check `{command}` can not be started: {why}; put it right (--check, or [checks] in \
                     the configuration), then go on with -c"
                ))
            }
            Err(FailedCheck { command, how, tail, .. }) => {
                self.checks = Some(Ran::Badly);
                let values = [("command", command.as_str()), ("how", &how), ("tail", &tail)];
                let feedback = fill(prompts.text(CHECK_FAILED), &values);
                Gate::SentBack {
                    signal: Signal::CheckFailed,
                    why: format!("the check `{command}` {how}"),
                    output: tail,
                    about: command,
                    feedback,
                }
            }
        }
    }

    /// Something that could have failed was run after the last change and did not fail; `None` where
    /// there was nothing to verify.
    pub(super) fn verified(&self) -> Option<bool> {
        match (self.checks, self.ran) {
            _ if self.plan_broken || self.unproven => Some(false),
            (Some(checks), _) => Some(checks == Ran::Well),
            (None, Some(ran)) => Some(ran == Ran::Well),
            (None, None) => (!self.files_changed.is_empty()).then_some(false),
        }
    }

    /// How the turn ends when no decision is left.
    pub(super) fn ending_of(&self, state: &State) -> Ending {
        let signal = state.last_failure.as_ref().map(|failure| failure.signal);
        if signal == Some(Signal::CheckFailed) || self.checks == Some(Ran::Badly) {
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

    /// The list of changed files, where the answer names none of them.
    pub(super) fn name_changed_files(&self, result: &mut String) {
        let named = |file: &String| {
            let name = file.rsplit('/').next().unwrap_or(file);
            result.contains(name)
        };
        if !self.files_changed.is_empty() && !self.files_changed.iter().any(named) {
            result.push_str(&format!("\n\nChanged files: {}.", self.files_changed.join(", ")));
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

/// The command says how every stage of its pipeline ended.
fn stages_known(envelope: &Envelope) -> bool {
    envelope.data.get("stages").and_then(Value::as_array).is_some_and(|stages| !stages.is_empty())
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
        Ending::Completed
        | Ending::CompletedUnverified
        | Ending::Failed
        | Ending::CheckFailed
        | Ending::ModelRefused
        | Ending::ModelUnavailable => ending.as_str().replace('_', " "),
    }
}
