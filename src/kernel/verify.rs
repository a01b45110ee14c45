//! The verifier: another model is asked for evidence against what an accepted answer claims (`[verify]`).
//!
//! It can look and change nothing, and what it has read counts as read by nobody else. Only an objection whose
//! evidence stands in what it was shown counts, and the answer goes back once. A verifier that does not work is
//! reported and stops nothing.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::LazyLock;
use std::time::Duration;

use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use super::completion::Completion;
use super::consult::object;
use super::spend::Speaker;
use super::turn::Turn;
use super::{Kernel, RESULTS, is_whole};
use crate::protocol::control::Ending;
use crate::protocol::event::{Body, Quote, Verification};
use crate::protocol::message::{Message, Part, Role, ToolResult};
use crate::protocol::model::{Purpose, Reply, Request};
use crate::protocol::prompt::{Prompt, fill, prompt};
use crate::protocol::shorten;
use crate::protocol::view::{call_line, view};
use crate::registry::Registry;

/// So many answers it has, the last of which must be its verdict.
const MAX_ANSWERS: u32 = 6;
/// The most tokens of one of them.
const ANSWER_TOKENS: u64 = 2000;
/// How long all of them are waited for.
const PATIENCE: Duration = Duration::from_mins(2);
/// A part of a line with fewer bytes is found anywhere.
const SHORTEST_PART: usize = 12;
/// So is a whole line with fewer than this.
const SHORTEST_LINE: usize = 4;

/// Who looks, and with what.
pub struct Verifier {
    /// Who is asked.
    pub speaker: Speaker,
    /// Tools that only look, behind a gate of their own.
    pub registry: Registry,
}

/// What the verifier found, and can show.
pub(super) struct Objection {
    pub(super) text: String,
    /// A line each.
    pub(super) evidence: String,
}

/// What it answers.
#[derive(Deserialize, JsonSchema)]
struct Verdict {
    holds: bool,
    #[serde(default)]
    objection: String,
    #[serde(default)]
    evidence: Vec<Quote>,
}

/// What it was shown and what it said, so far.
struct Looking {
    messages: Vec<Message>,
    /// Results and the output of checks: what a quote may come from.
    shown: String,
    /// What it looked at, a line a call.
    looks: Vec<String>,
}

impl Kernel {
    /// Has an accepted answer looked at, once in a turn; what was found against it. Where the user speaks
    /// meanwhile, that answer was not the last one, and the next is looked at.
    pub(super) async fn run_verifier(&self, turn: &mut Turn) -> Result<Option<Objection>, Ending> {
        let Some(verifier) = &self.parts.verifier else { return Ok(None) };
        if turn.was_looked_at || self.parts.control.is_steered() {
            return Ok(None);
        }
        let mut looking = self.show(turn);
        let verdict = self.look(turn, verifier, &mut looking).await?;
        let (holds, objection, dismissed) = match verdict {
            Err(why) => (None, None, Some(why)),
            Ok(Verdict { holds: true, .. }) => (Some(true), None, None),
            Ok(verdict) => match founded(&verdict, &looking.shown) {
                Ok(evidence) => {
                    let why = self.why_unheard(turn).map(str::to_owned);
                    (Some(false), Some((verdict.objection, evidence)), why)
                }
                Err(why) => (Some(false), Some((verdict.objection, Vec::new())), Some(why)),
            },
        };
        turn.was_looked_at = !self.parts.control.is_steered();
        turn.completion.is_confirmed = holds == Some(true);
        let found = objection.as_ref().filter(|_| dismissed.is_none()).map(|(text, evidence)| {
            let lines = evidence.iter().map(|quote| format!("- {}: {}", quote.source, quote.quote));
            Objection { text: text.clone(), evidence: lines.collect::<Vec<_>>().join("\n") }
        });
        let (objection, evidence) = objection.unzip();
        self.parts.events.emit(Body::Verified(Verification {
            model: verifier.speaker.model.id().to_owned(),
            holds,
            objection,
            evidence: evidence.unwrap_or_default(),
            dismissed,
            looks: looking.looks,
        }));
        Ok(found)
    }

    /// Why the answer would not go back for an objection: it stands then as it was accepted.
    fn why_unheard(&self, turn: &Turn) -> Option<&'static str> {
        if self.parts.recovery.max_answer_retries == 0 {
            return Some("no answer goes back: recovery.max_answer_retries is 0");
        }
        self.why_to_stop(turn)
    }

    /// Why nothing more is looked at.
    fn why_to_stop(&self, turn: &Turn) -> Option<&'static str> {
        if self.parts.control.is_steered() {
            return Some("the user has said more");
        }
        // An objection must leave room for an answer to it.
        self.limit_reached(turn).map(|_| "a limit of the turn is reached")
    }

    /// Rounds of looks, and the verdict; why there is none.
    async fn look(
        &self,
        turn: &mut Turn,
        verifier: &Verifier,
        looking: &mut Looking,
    ) -> Result<Result<Verdict, String>, Ending> {
        const VERIFY: Prompt = prompt!("recovery/verify.md");
        const NOW: Prompt = prompt!("recovery/verify_now.md");
        const FIX_JSON: Prompt = prompt!("recovery/fix_json.md");
        let prompts = &self.parts.prompts;
        let speaker = &verifier.speaker;
        let deadline = tokio::time::Instant::now() + PATIENCE;
        for n in 1..=MAX_ANSWERS {
            if let Some(why) = self.why_to_stop(turn) {
                return Ok(Err(why.to_owned()));
            }
            let is_last = n == MAX_ANSWERS;
            let system = prompts.text(VERIFY).trim_end();
            if is_last {
                looking.messages.push(Message::text(Role::User, prompts.text(NOW).trim_end()));
            }
            let request = Request {
                tools: verifier.registry.specs(),
                max_output_tokens: Some(speaker.at_most(ANSWER_TOKENS)),
                ..Request::new(Purpose::Task, system, &looking.messages)
            };
            let is_useful = |reply: &Reply| !reply.calls.is_empty() || !reply.text.is_empty();
            let reply =
                self.consult_until(&mut turn.spent, speaker, &request, deadline, is_useful).await?;
            let Some(mut reply) = reply else { return Ok(Err("it did not answer".to_owned())) };
            if !reply.calls.is_empty() && !is_last {
                // A cut-off answer may hold a half-written call.
                if !is_whole(&reply) {
                    return Ok(Err("its answer was cut off".to_owned()));
                }
                for (at, call) in reply.calls.iter_mut().enumerate() {
                    call.id = format!("look_{}_{n}_{}", self.turn, at + 1);
                }
                self.show_what_it_calls(verifier, looking, reply).await?;
                continue;
            }
            match object::<Verdict>(&reply.text) {
                Ok(verdict) => return Ok(Ok(verdict)),
                Err(why) if is_last => return Ok(Err(format!("it gave no verdict: {why}"))),
                Err(why) => {
                    let fix = prompts.text(FIX_JSON).replace("{{error}}", &why);
                    let said = if reply.text.trim().is_empty() { "(nothing)" } else { &reply.text };
                    looking.messages.push(Message::text(Role::Assistant, said));
                    looking.messages.push(Message::text(Role::User, fix.trim_end()));
                }
            }
        }
        Ok(Err("it gave no verdict".to_owned()))
    }

    /// Carries out its calls, and shows it what they came to.
    async fn show_what_it_calls(
        &self,
        verifier: &Verifier,
        looking: &mut Looking,
        reply: Reply,
    ) -> Result<(), Ending> {
        let Reply { text, calls, .. } = reply;
        let control = &self.parts.control;
        let room = self.budget.bytes(verifier.speaker.context_window / RESULTS);
        let carried_out = verifier.registry.carry_out(&calls, room);
        let answers = control.cancel().run_until_cancelled(carried_out).await.ok_or_else(|| {
            control.interrupted().map_or(Ending::Interrupted, |interrupt| interrupt.ending())
        })?;
        let mut results = Vec::with_capacity(calls.len());
        for (call, answer) in calls.iter().zip(&answers) {
            let envelope = &answer.envelope;
            let line = call_line(&call.name, &envelope.context.params_input);
            looking.looks.push(match envelope.error() {
                Some(error) => format!("{line}: {}", error.code.as_str()),
                None => line,
            });
            let text = view(envelope);
            // What could not be looked at shows nothing.
            if envelope.error().is_none() {
                looking.shown.push_str(&text);
                looking.shown.push('\n');
            }
            let is_error = envelope.error().is_some();
            results.push(Part::Result(ToolResult { call: call.id.clone(), text, is_error }));
        }
        let mut parts: Vec<Part> = Vec::with_capacity(calls.len() + 1);
        if !text.is_empty() {
            parts.push(Part::Text { text });
        }
        parts.extend(calls.into_iter().map(Part::Call));
        looking.messages.push(Message { role: Role::Assistant, parts });
        looking.messages.push(Message { role: Role::Tool, parts: results });
        Ok(())
    }

    /// What it is told: the task, the claim, and what the checks said.
    fn show(&self, turn: &Turn) -> Looking {
        const CLAIM: Prompt = prompt!("recovery/verify_claim.md");
        let Completion { files_changed, passed, .. } = &turn.completion;
        let files = if files_changed.is_empty() { "none".into() } else { files_changed.join(", ") };
        let (mut checks, mut shown) = (String::new(), String::new());
        for check in passed {
            _ = write!(checks, "\n`{}` passed:\n{}", check.command, check.tail.trim_end());
            shown.push_str(&check.tail);
            shown.push('\n');
        }
        let checks = if checks.is_empty() { "none".to_owned() } else { checks };
        let values = [
            ("goal", shorten(&turn.case.goal, 4000)),
            ("files", files),
            ("checks", checks),
            ("claim", shorten(turn.draft.text.trim(), 4000)),
        ];
        let values = values.each_ref().map(|(name, value)| (*name, value.as_str()));
        let told = fill(self.parts.prompts.text(CLAIM).trim_end(), &values);
        Looking { messages: vec![Message::text(Role::User, told)], shown, looks: Vec::new() }
    }
}

/// The evidence that stands in what it was shown; why the objection is not heard, where none does.
fn founded(verdict: &Verdict, shown: &str) -> Result<Vec<Quote>, String> {
    if verdict.objection.trim().is_empty() {
        return Err("it does not say what is wrong".to_owned());
    }
    let whole: HashSet<String> = shown.lines().map(in_one_line).collect();
    let shown = in_one_line(shown);
    let is_whole = |line: &String| {
        let numbered =
            |shown: &String| NUMBER.find(shown).is_some_and(|n| shown[n.end()..] == *line);
        line.len() >= SHORTEST_LINE && (whole.contains(line) || whole.iter().any(numbered))
    };
    let stands_there = |quote: &&Quote| {
        let lines = quote.quote.lines().map(in_one_line).filter(|line| !line.is_empty());
        let lines: Vec<String> = lines.collect();
        lines.iter().all(|line| shown.contains(line))
            && lines.iter().any(|line| line.len() >= SHORTEST_PART || is_whole(line))
    };
    let evidence: Vec<Quote> = verdict.evidence.iter().filter(stands_there).cloned().collect();
    if evidence.is_empty() {
        return Err("its evidence is not in anything it was shown".to_owned());
    }
    Ok(evidence)
}

/// What Read and Grep put in front of a line.
static NUMBER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^(?:\d+ \||.*?[:-]\d+[:-]) ").expect("a fixed expression"));

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objection_requires_a_quote_of_the_evidence() {
        let heard = |objection: &str, quotes: &[&str]| {
            let evidence = quotes
                .iter()
                .map(|quote| Quote { source: "a.rs:1".to_owned(), quote: (*quote).to_owned() });
            let (objection, evidence) = (objection.to_owned(), evidence.collect());
            let shown = "1 | fn add() {\n2 |     a - b\n3 | }\nb.rs:7: let c = add();";
            founded(&Verdict { holds: false, objection, evidence }, shown).map(|found| found.len())
        };
        assert_eq!(heard("it subtracts", &["a - b"]), Ok(1));
        assert_eq!(heard("it subtracts", &["fn add() {\n      a  - b", "a + b"]), Ok(1));
        assert!(heard("it subtracts", &["a * b"]).is_err(), "nowhere to be seen");
        assert_eq!(heard("it subtracts", &["2 | a - b", "let c = add();"]), Ok(2));
        assert_eq!(heard("it subtracts", &["let c = add("]), Ok(1), "long enough");
        for part in ["}", " ", "let ", "fn add()", "- b", "let c\nfn ad"] {
            assert!(heard("it subtracts", &[part]).is_err(), "found anywhere: {part}");
        }
        assert!(heard("it subtracts", &[]).is_err());
        assert!(heard(" ", &["a - b"]).is_err());
    }
}
