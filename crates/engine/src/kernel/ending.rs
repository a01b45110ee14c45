//! Ends a turn: accepts a final text or sends it back, and reports the result.

use super::answer_guard::split_repetition;
use super::completion::{self, CompletionDecision, check_chain_key};
use super::evaluate::RoundOutcome;
use super::turn::Turn;
use super::verify::Objection;
use super::{Kernel, millis, shorten_evidence};
use agent_protocol::control::{Ending, FailureSignal, PermissionMode};
use agent_protocol::event::{EventBody, TurnFinished};
use agent_protocol::model::{Reply, StopReason};
use agent_protocol::prompt::{Prompt, fill};

/// Limit for an answer that was cut off by its length.
const MAX_CONTINUATIONS: u32 = 3;

impl Kernel {
    /// The answer has no executable calls: it is a candidate for the final answer, or unusable.
    pub(super) async fn handle_final_text(
        &mut self,
        turn: &mut Turn,
        reply: &Reply,
    ) -> Option<Ending> {
        const EMPTY: Prompt = Prompt::named("feedback/empty.md");
        const CUT_OFF: Prompt = Prompt::named("feedback/cut_off.md");
        const REFUSED: Prompt = Prompt::named("feedback/refused.md");
        const CONTINUE: Prompt = Prompt::named("feedback/continue.md");

        let prompts = self.parts.prompts.clone();
        if reply.stop == Some(StopReason::Repetition) {
            self.reject_repetition(turn, reply);
            return None;
        }
        let unusable = if !reply.calls.is_empty() {
            // It may hold an incomplete call, which is never executed.
            Some((CUT_OFF, "an answer with calls was cut off"))
        } else if reply.stop == Some(StopReason::Refused) {
            Some((REFUSED, "the provider withheld the answer"))
        } else {
            let why = match (&reply.stop, reply.reasoning.trim()) {
                (Some(StopReason::Length), _) => {
                    "the length limit cut the answer off before its text"
                }
                (_, "") => "the answer was empty",
                _ => "the answer was empty: the model wrote only reasoning",
            };
            reply.text.trim().is_empty().then_some((EMPTY, why))
        };
        if let Some((feedback, why)) = unusable {
            let (signal, reason_key, output) = (FailureSignal::BadAnswer, "", "");
            let round = RoundOutcome::RejectedAnswer { signal, reason_key, why, output };
            self.reject_answer(turn, prompts.text(feedback), &round);
            return None;
        }
        self.history.add_answer(&reply.text, &reply.opaque_items);
        turn.draft.add_part(&reply.text);
        if reply.stop == Some(StopReason::Length) {
            if turn.draft.continuations < MAX_CONTINUATIONS {
                turn.draft.continuations += 1;
                turn.state.step_success = true;
                turn.feedback = Some(prompts.text(CONTINUE).to_owned());
                return None;
            }
            let limit = self.parts.main.describe_limit(self.budget.answer_limit());
            turn.errors.push(format!(
                "the length limit cut the answer off, also after {MAX_CONTINUATIONS} continuations: this program asked \
                 for at most {limit}; ask for less at once, or raise max_output_tokens of the model"
            ));
            return Some(Ending::IncompleteAnswer);
        }
        let cancel = self.parts.control.cancellation_token();
        // A plan changed nothing that a check could find.
        let plans = self.parts.registry.update_mode() == PermissionMode::Plan;
        turn.completion.is_plan = plans;
        let registry = &self.parts.registry;
        let may_write = !turn.completion.files_changed.is_empty() && !registry.is_read_only();
        let checks = async {
            if plans || self.parts.checks.commands.is_empty() {
                return (Vec::new(), None);
            }
            // A check may format the files of the turn.
            let running = self.parts.checks.run(&self.parts.events, registry, &cancel);
            registry.run_user_programs("", may_write, &cancel, running).await.0
        };
        let schema = self.parts.answer_schema.as_ref();
        let read_only = self.parts.registry.is_read_only();
        let answer = turn.draft.text.as_str();
        let check = turn.completion.check_answer(&prompts, answer, schema, checks, read_only);
        let gate = Box::pin(check).await;
        for check in &turn.completion.passed_checks {
            turn.state.close_chain(&check_chain_key(&check.command));
        }
        match gate {
            CompletionDecision::Accepted => match Box::pin(self.run_verifier(turn)).await {
                Ok(None) => Some(Ending::Completed),
                Ok(Some(objection)) => {
                    self.reject_for_objection(turn, &objection);
                    None
                }
                Err(ending) => Some(ending),
            },
            CompletionDecision::Interrupted => None,
            CompletionDecision::Unverifiable(why) => {
                turn.errors.push(why);
                turn.completion.candidate = std::mem::take(&mut turn.draft.text);
                Some(Ending::CompletedUnverified)
            }
            CompletionDecision::Rejected { signal, reason_key, why, output, feedback } => {
                // The candidate is used if no better answer follows.
                turn.completion.candidate = std::mem::take(&mut turn.draft.text);
                let (reason_key, why, output) = (&*reason_key, &*why, &*output);
                let round = RoundOutcome::RejectedAnswer { signal, reason_key, why, output };
                self.reject_answer(turn, &feedback, &round);
                let why = turn.completion.timeouts_used_up()?;
                turn.errors.push(why);
                Some(Ending::CheckFailed)
            }
        }
    }

    fn reject_repetition(&mut self, turn: &mut Turn, reply: &Reply) {
        const REPETITION: Prompt = Prompt::named("feedback/repetition.md");
        let (what, text) = split_repetition(reply);
        turn.draft.add_part(text);
        if !turn.draft.text.trim().is_empty() {
            turn.completion.candidate = std::mem::take(&mut turn.draft.text);
        }
        let feedback = self.parts.prompts.text(REPETITION).replace("{{what}}", &what);
        let why = &*format!("the answer repeated itself and was stopped: {what}");
        let (signal, reason_key, output) = (FailureSignal::BadAnswer, "repetition", "");
        let round = RoundOutcome::RejectedAnswer { signal, reason_key, why, output };
        self.reject_answer(turn, &feedback, &round);
    }

    fn reject_for_objection(&mut self, turn: &mut Turn, objection: &Objection) {
        const OBJECTION: Prompt = Prompt::named("feedback/objection.md");
        let Objection { text, evidence } = objection;
        turn.completion.record_objection();
        turn.completion.candidate = std::mem::take(&mut turn.draft.text);
        let values = [("objection", text.as_str()), ("evidence", evidence)];
        let feedback = fill(self.parts.prompts.text(OBJECTION), &values);
        let why = &*format!("the verifier objected: {text}");
        let (signal, reason_key, output) = (FailureSignal::CheckFailed, "verifier", "");
        let round = RoundOutcome::RejectedAnswer { signal, reason_key, why, output };
        self.reject_answer(turn, &feedback, &round);
    }

    /// The model receives the reason if the turn continues.
    fn reject_answer(&mut self, turn: &mut Turn, feedback: &str, round: &RoundOutcome<'_>) {
        self.evaluate(turn, round);
        turn.reflection_input.evidence = shorten_evidence(feedback);
        let outcome = turn.state.last_failure.as_ref().map_or("", |f| f.message.as_str());
        turn.reflection_input.add_attempt("a final answer", outcome);
        turn.feedback = Some(feedback.to_owned());
    }

    pub(super) fn finish_turn(&mut self, mut turn: Turn, ending: Ending) -> TurnFinished {
        let ending = if self.parts.control.accepts_denials() {
            ending
        } else {
            turn.completion.final_ending(ending, self.parts.sub_agent.is_some())
        };
        // The next turn tries the main model again.
        if let Some(replaced) = self.replaced_model.take() {
            self.set_model(replaced.configured_model);
        }
        self.parts.registry.record_background_changes(false);
        if !ending.has_answer() {
            turn.draft.add_part(&turn.partial_answer);
        }
        let mut result = std::mem::take(&mut turn.draft.text);
        if result.trim().is_empty() {
            result = std::mem::take(&mut turn.completion.candidate);
        }
        let mut report = None;
        if ending == Ending::CompletedUnverified {
            // The answer is accepted, and the errors say which check could not run.
        } else if ending == Ending::Completed {
            turn.errors.clear();
        } else {
            if turn.errors.is_empty() {
                turn.errors.push(self.describe_ending(ending));
            }
            turn.errors.extend(turn.arrival.take().filter(|_| ending == Ending::Timeout));
            let evidence = turn.reflection_input.evidence.as_str();
            let failed = turn.completion.report(ending, &turn.errors, &turn.state, evidence);
            result = match &self.parts.sub_agent {
                Some(_) => completion::agent_report(&failed, &result),
                None => completion::report_in_words(&failed, &result),
            };
            report = Some(failed);
            turn.completion.structured = None;
        }
        // The rest of this turn's budget may be spent until the next turn, which counts it.
        self.update_spend_limit(&mut turn);
        let elapsed = self.parts.events.clock().now().duration_since(turn.started);
        // Questions of sub-agents belong to the turn.
        let is_main = self.parts.sub_agent.is_none();
        let waiting_time = is_main.then(|| self.parts.control.take_waiting_time());
        let finished = TurnFinished {
            ending,
            result,
            errors: turn.errors,
            verified: turn.completion.verification_result(ending),
            structured_output: turn.completion.structured,
            calls: turn.completion.n_calls,
            files_changed: turn.completion.files_changed,
            ignored_files_changed: turn.completion.ignored_changed.len() as u64,
            is_plan: turn.completion.is_plan && ending.is_success(),
            open_todos: self.plan.open_todos().map(|todo| todo.content.clone()).collect(),
            report,
            rounds: turn.n_replies,
            usage: turn.spent.usage,
            estimated_tokens: turn.spent.estimated_tokens,
            cost_usd: turn.spent.cost_usd(),
            time_ms: millis(elapsed),
            waiting_ms: waiting_time.map_or(0, millis),
            model_ms: millis(turn.spent.model_time),
        };
        self.parts.events.emit(match &self.parts.sub_agent {
            Some(_) => EventBody::AgentFinished(finished.clone()),
            None => EventBody::TurnFinished(finished.clone()),
        });
        finished
    }
}
