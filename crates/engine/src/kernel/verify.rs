//! The verifier: asks another model for evidence against an accepted answer (`[verify]`).
//!
//! It only reads, and its reads do not count as reads of the main model; its failures are reported and have no other
//! effect. Only an objection whose evidence occurs in what the verifier was shown counts, and an answer is sent back
//! at most once.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use super::consult::parse_object;
use super::spend::ConfiguredModel;
use super::think::interrupt_ending;
use super::turn::Turn;
use super::{Kernel, RESULTS_WINDOW_DIVISOR, is_complete_reply};
use crate::context;
use crate::registry::Registry;
use agent_protocol::control::{Ending, PermissionMode};
use agent_protocol::event::{EventBody, Quote, Verification};
use agent_protocol::message::{Message, Role, answer_parts};
use agent_protocol::model::{Purpose, Reply, Request};
use agent_protocol::prompt::{Prompt, fill};
use agent_protocol::view::{call_line, render_for_model};
use agent_protocol::{one_line, shorten};

/// The last answer must be the verdict.
const MAX_ANSWERS: u32 = 6;
const ANSWER_TOKENS: u64 = 2000;
/// Time limit of all answers together.
const VERIFY_TIMEOUT: Duration = Duration::from_mins(2);
/// Shorter quotes occur in any text.
const MIN_QUOTE_BYTES: usize = 12;
/// Minimum for a quote that is a whole line.
const MIN_LINE_QUOTE_BYTES: usize = 4;

/// The verifier's model and tools.
pub struct Verifier {
    pub configured_model: ConfiguredModel,
    /// Read-only tools with their own permissions.
    pub registry: Registry,
}

pub(super) struct Objection {
    pub(super) text: String,
    /// One quote per line.
    pub(super) evidence: String,
}

#[derive(Deserialize, JsonSchema)]
struct VerifierVerdict {
    confirmed: bool,
    #[serde(default)]
    objection: String,
    #[serde(default)]
    evidence: Vec<Quote>,
}

struct Inspection {
    messages: Vec<Message>,
    /// Results and the output of checks: quotes must occur in it.
    shown_text: String,
    calls: Vec<String>,
}

impl Kernel {
    /// Runs once per turn; returns the objection. If the user sends a message meanwhile, the next answer is verified
    /// instead.
    pub(super) async fn run_verifier(&self, turn: &mut Turn) -> Result<Option<Objection>, Ending> {
        let Some(verifier) = &self.parts.verifier else { return Ok(None) };
        let plans = self.parts.registry.update_mode() == PermissionMode::Plan;
        if turn.was_verified || plans || self.parts.control.has_queued_messages() {
            return Ok(None);
        }
        let mut inspection = self.begin_inspection(turn);
        let verdict = self.inspect(turn, verifier, &mut inspection).await?;
        let (confirmed, objection, no_effect_reason) = match verdict {
            Err(why) => (None, None, Some(why)),
            Ok(VerifierVerdict { confirmed: true, .. }) => (Some(true), None, None),
            Ok(verdict) => match valid_evidence(&verdict, &inspection.shown_text) {
                Ok(evidence) => {
                    let why = match self.parts.recovery.max_answer_retries {
                        0 => Some("answers are not sent back: recovery.max_answer_retries is 0"),
                        _ => self.stop_reason(turn),
                    };
                    (Some(false), Some((verdict.objection, evidence)), why.map(str::to_owned))
                }
                Err(why) => (Some(false), Some((verdict.objection, Vec::new())), Some(why)),
            },
        };
        turn.was_verified = !self.parts.control.has_queued_messages();
        turn.completion.is_confirmed = confirmed == Some(true);
        let found =
            objection.as_ref().filter(|_| no_effect_reason.is_none()).map(|(text, evidence)| {
                let lines =
                    evidence.iter().map(|quote| format!("- {}: {}", quote.source, quote.quote));
                Objection { text: text.clone(), evidence: lines.collect::<Vec<_>>().join("\n") }
            });
        let (objection, evidence) = objection.unzip();
        self.parts.events.emit(EventBody::Verified(Verification {
            model: verifier.configured_model.model.id().to_owned(),
            confirmed,
            objection,
            evidence: evidence.unwrap_or_default(),
            no_effect_reason,
            calls: inspection.calls,
        }));
        Ok(found)
    }

    fn stop_reason(&self, turn: &Turn) -> Option<&'static str> {
        if self.parts.control.has_queued_messages() {
            return Some("the user sent another message");
        }
        // An objection needs room for another answer.
        self.check_limits(turn).err().map(|_| "a limit of the turn is reached")
    }

    async fn inspect(
        &self,
        turn: &mut Turn,
        verifier: &Verifier,
        inspection: &mut Inspection,
    ) -> Result<Result<VerifierVerdict, String>, Ending> {
        const VERIFY: Prompt = Prompt::named("recovery/verify.md");
        const NOW: Prompt = Prompt::named("recovery/verify_now.md");
        let prompts = &self.parts.prompts;
        let configured = &verifier.configured_model;
        let deadline = tokio::time::Instant::now() + VERIFY_TIMEOUT;
        for n in 1..=MAX_ANSWERS {
            if let Some(why) = self.stop_reason(turn) {
                return Ok(Err(why.to_owned()));
            }
            let is_last = n == MAX_ANSWERS;
            let system = prompts.text(VERIFY).trim_end();
            if is_last {
                inspection.messages.push(Message::text(Role::User, prompts.text(NOW).trim_end()));
            }
            let request = Request {
                tools: verifier.registry.specs(),
                max_output_tokens: Some(ANSWER_TOKENS),
                temperature: configured.temperature,
                effort: configured.effort,
                images: Some(&*verifier.registry.cx().images),
                ..Request::new(Purpose::Task, system, &inspection.messages)
            };
            let is_useful = |reply: &Reply| !reply.calls.is_empty() || !reply.text.is_empty();
            let reply = self
                .consult_with_deadline(&mut turn.spent, configured, &request, deadline, is_useful)
                .await?;
            let Some(mut reply) = reply else { return Ok(Err("it did not answer".to_owned())) };
            if !reply.calls.is_empty() && !is_last {
                // A cut-off answer may hold an incomplete call.
                if !is_complete_reply(&reply) {
                    return Ok(Err("its answer was cut off".to_owned()));
                }
                for (at, call) in reply.calls.iter_mut().enumerate() {
                    call.id = format!("look_{}_{n}_{}", self.turn, at + 1);
                }
                self.run_verifier_calls(verifier, inspection, reply).await?;
                continue;
            }
            match parse_object::<VerifierVerdict>(&reply.text) {
                Ok(verdict) => return Ok(Ok(verdict)),
                Err(why) if is_last => return Ok(Err(format!("it gave no verdict: {why}"))),
                Err(why) => inspection.messages.extend(self.correction_request(&reply, &why)),
            }
        }
        Ok(Err("it gave no verdict".to_owned()))
    }

    async fn run_verifier_calls(
        &self,
        verifier: &Verifier,
        inspection: &mut Inspection,
        reply: Reply,
    ) -> Result<(), Ending> {
        let Reply { text, calls: written, opaque_items: carried, .. } = reply;
        let calls = verifier.registry.correct_names(&written);
        let control = &self.parts.control;
        let room =
            self.budget.bytes(verifier.configured_model.window.tokens / RESULTS_WINDOW_DIVISOR);
        let running = verifier.registry.run_calls(&calls, &written, room);
        let results = control.cancellation_token().run_until_cancelled(running).await;
        let results = results.ok_or_else(|| interrupt_ending(control))?;
        let mut result_parts = Vec::with_capacity(calls.len());
        for (call, result) in calls.iter().zip(&results) {
            let envelope = &result.envelope;
            let line = call_line(&call.name, &envelope.context.params_input);
            inspection.calls.push(match envelope.error() {
                Some(error) => format!("{line}: {}", error.code.as_str()),
                None => line,
            });
            let text = render_for_model(envelope);
            // A call that failed shows nothing.
            if envelope.error().is_none() {
                inspection.shown_text.push_str(&text);
                inspection.shown_text.push('\n');
            }
            result_parts.push(context::result_part(&call.id, envelope, text));
        }
        let parts = answer_parts(&text, &calls, &carried);
        inspection.messages.push(Message { role: Role::Assistant, parts });
        inspection.messages.push(Message { role: Role::Tool, parts: result_parts });
        Ok(())
    }

    fn begin_inspection(&self, turn: &Turn) -> Inspection {
        const CLAIM: Prompt = Prompt::named("recovery/verify_claim.md");
        let (mut checks, mut shown_text) = (String::new(), String::new());
        for check in &turn.completion.passed_checks {
            _ = write!(checks, "\n`{}` passed:\n{}", check.command, check.tail.trim_end());
            shown_text.push_str(&check.tail);
            shown_text.push('\n');
        }
        let checks = if checks.is_empty() { "none".to_owned() } else { checks };
        let values = [
            ("goal", &*shorten(&turn.reflection_input.goal, 4000)),
            ("files", &turn.completion.list_changed_files()),
            ("checks", &checks),
            ("claim", &shorten(turn.draft.text.trim(), 4000)),
        ];
        let message = fill(self.parts.prompts.text(CLAIM).trim_end(), &values);
        let messages = vec![Message::text(Role::User, message)];
        Inspection { messages, shown_text, calls: Vec::new() }
    }
}

/// The quotes that occur in the shown text; an error says why the objection is dismissed.
fn valid_evidence(verdict: &VerifierVerdict, shown: &str) -> Result<Vec<Quote>, String> {
    if verdict.objection.trim().is_empty() {
        return Err("it does not say what is wrong".to_owned());
    }
    let whole: HashSet<String> = shown.lines().map(one_line).collect();
    let shown = one_line(shown);
    let is_whole = |line: &String| {
        let numbered =
            |shown: &String| LINE_NUMBER.find(shown).is_some_and(|n| shown[n.end()..] == *line);
        line.len() >= MIN_LINE_QUOTE_BYTES && (whole.contains(line) || whole.iter().any(numbered))
    };
    let is_shown = |quote: &&Quote| {
        let lines = quote.quote.lines().map(one_line).filter(|line| !line.is_empty());
        let lines: Vec<String> = lines.collect();
        lines.iter().all(|line| shown.contains(line))
            && lines.iter().any(|line| line.len() >= MIN_QUOTE_BYTES || is_whole(line))
    };
    let evidence: Vec<Quote> = verdict.evidence.iter().filter(is_shown).cloned().collect();
    if evidence.is_empty() {
        return Err("its evidence does not occur in what it was shown".to_owned());
    }
    Ok(evidence)
}

/// Line numbers in results of Read and Grep.
static LINE_NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:\d+ \||.*?[:-]\d+[:-]) ").expect("a fixed expression"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objection_requires_a_quote_of_the_evidence() {
        let accepted = |objection: &str, quotes: &[&str]| {
            let evidence = quotes
                .iter()
                .map(|quote| Quote { source: "a.rs:1".to_owned(), quote: (*quote).to_owned() });
            let (objection, evidence) = (objection.to_owned(), evidence.collect());
            let shown = "1 | fn add() {\n2 |     a - b\n3 | }\nb.rs:7: let c = add();";
            valid_evidence(&VerifierVerdict { confirmed: false, objection, evidence }, shown)
                .map(|found| found.len())
        };
        assert_eq!(accepted("it subtracts", &["a - b"]), Ok(1));
        assert_eq!(accepted("it subtracts", &["fn add() {\n      a  - b", "a + b"]), Ok(1));
        assert!(accepted("it subtracts", &["a * b"]).is_err(), "nowhere to be seen");
        assert_eq!(accepted("it subtracts", &["2 | a - b", "let c = add();"]), Ok(2));
        assert_eq!(accepted("it subtracts", &["let c = add("]), Ok(1), "long enough");
        for part in ["}", " ", "let ", "fn add()", "- b", "let c\nfn ad"] {
            assert!(accepted("it subtracts", &[part]).is_err(), "found anywhere: {part}");
        }
        assert!(accepted("it subtracts", &[]).is_err());
        assert!(accepted(" ", &["a - b"]).is_err());
    }
}
