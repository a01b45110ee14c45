//! A model that reads its answers from a script: for tests, demonstrations and bug reports, without a key or
//! network. `docs/SCRIPTED_MODEL.md` describes the format.

mod fault;
mod parse;
mod template;

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use parking_lot::Mutex;
use regex::Regex;

use self::fault::Fault;
use self::template::{Template, TemplateValues};
use super::wire_format::CallIds;
use agent_protocol::message::{Message, Part, Role};
use agent_protocol::model::{
    Delta, Model, ModelError, ModelErrorKind, Purpose, Request, RetryNotice, StopReason, Usage,
};
use agent_protocol::shorten;

type Script = Vec<ScriptTurn>;

/// A model that reads its answers from a script.
#[derive(Debug)]
pub struct ScriptedModel {
    id: String,
    source: String,
    script: Script,
    used: Mutex<Vec<u32>>,
    next_id: AtomicU64,
}

#[derive(Debug)]
struct ScriptTurn {
    line: usize,
    purpose: Purpose,
    /// Patterns that the request must match for the turn to be used.
    when: Vec<Regex>,
    /// Patterns that the last results must match; otherwise the script fails.
    expect: Vec<Regex>,
    /// Maximum number of uses.
    times: u32,
    reasoning: Option<String>,
    text: Option<Template>,
    calls: Vec<ScriptCall>,
    usage: Option<Usage>,
    pause: Option<Duration>,
    fault: Option<Fault>,
}

#[derive(Debug)]
struct ScriptCall {
    name: String,
    arguments: Template,
}

enum AnswerStep {
    Pause(Duration),
    Emit(Delta),
    Fail(ModelError),
    Hang,
}

impl ScriptedModel {
    /// Parses the script in `text`; `source` is its name in messages, usually its path.
    pub fn parse(source: &str, text: &str) -> Result<Self, ModelError> {
        let script = parse::parse(text).map_err(|(line, wrong)| {
            ModelError::new(ModelErrorKind::Configuration, format!("{source}:{line}: {wrong}"))
        })?;
        Ok(Self {
            id: format!("script:{source}"),
            source: source.to_owned(),
            used: Mutex::new(vec![0; script.len()]),
            script,
            next_id: AtomicU64::new(1),
        })
    }

    fn answer_steps(&self, request: &Request<'_>) -> VecDeque<AnswerStep> {
        let sent = request_text(request);
        let steps = self.take_turn(request.purpose, &sent).and_then(|turn| {
            let filling = self.template_values(turn, request)?;
            Ok(self.turn_steps(turn, &filling, request, &sent))
        });
        let steps = steps.unwrap_or_else(|message| {
            vec![AnswerStep::Fail(ModelError::new(ModelErrorKind::Script, message))]
        });
        steps.into()
    }

    /// The first turn for this purpose that is not used up and whose `when` matches.
    fn take_turn(&self, purpose: Purpose, sent: &str) -> Result<&ScriptTurn, String> {
        let mut used = self.used.lock();
        let queue = || (0..).zip(&self.script).filter(|(_, turn)| turn.purpose == purpose);
        let fits = |turn: &ScriptTurn| turn.when.iter().all(|when| when.is_match(sent));
        let is_left = |&(at, turn): &(usize, &ScriptTurn)| used[at] < turn.times;
        if let Some((at, turn)) = queue().filter(is_left).find(|(_, turn)| fits(turn)) {
            used[at] += 1;
            return Ok(turn);
        }
        let (source, word, n_turns) = (&self.source, purpose.as_str(), queue().count());
        let waiting = queue().filter(is_left).map(|(_, turn)| turn.line.to_string());
        let waiting = waiting.collect::<Vec<_>>().join(", ");
        let n_all = self.script.len();
        Err(if n_turns == 0 {
            format!(
                "{source} has no turn for {word}, of {n_all} in all: add one with `for: {word}`"
            )
        } else if waiting.is_empty() {
            format!("{source} ran out: it has {n_turns} turns for {word}, and all are used")
        } else {
            format!(
                "{source}: no turn for {word} fits the request: the `when` of those left (lines \
                 {waiting}) do not match it"
            )
        })
    }

    fn template_values(
        &self,
        turn: &ScriptTurn,
        request: &Request<'_>,
    ) -> Result<TemplateValues, String> {
        let results = last_results(request);
        let last = results.join("\n");
        let mut groups = Vec::new();
        for expect in &turn.expect {
            let Some(captures) = expect.captures(&last) else {
                let actual = if results.is_empty() {
                    "there are none".to_owned()
                } else {
                    format!("they begin: {}", shorten(&last, 300))
                };
                let (source, line) = (&self.source, turn.line);
                return Err(format!(
                    "{source}:{line}: the last results do not match `{expect}`; {actual}"
                ));
            };
            let group = |group: Option<regex::Match<'_>>| {
                group.map_or_else(String::new, |group| group.as_str().to_owned())
            };
            groups.extend(captures.iter().skip(1).map(group));
        }
        Ok(TemplateValues { last, groups })
    }

    fn turn_steps(
        &self,
        turn: &ScriptTurn,
        filling: &TemplateValues,
        request: &Request<'_>,
        sent: &str,
    ) -> Vec<AnswerStep> {
        let fault = turn.fault;
        let text = turn.text.as_ref().map(|text| text.render_text(filling)).unwrap_or_default();
        let calls = self.call_deltas(turn, filling, request);
        let is_silent = text.is_empty() && calls.is_empty() && turn.reasoning.is_none();

        let mut steps = Vec::new();
        steps.extend(turn.pause.map(AnswerStep::Pause));
        match fault {
            Some(Fault::RateLimited | Fault::Overloaded) if is_silent => {
                steps.push(AnswerStep::Fail(self.fault_error(fault)));
                return steps;
            }
            Some(Fault::RateLimited | Fault::Overloaded) => {
                // The first attempt breaks in the middle of its text, which is void then.
                let half = &text[..text.floor_char_boundary(text.len() / 2)];
                steps.extend(
                    (!half.is_empty()).then(|| AnswerStep::Emit(Delta::Text(half.to_owned()))),
                );
                let ModelError { message, reason, .. } = self.fault_error(fault);
                steps.push(AnswerStep::Emit(Delta::Retry(RetryNotice {
                    attempt: 1,
                    delay: Duration::ZERO,
                    error: message,
                    reason,
                })));
            }
            Some(Fault::Unauthorized | Fault::Overflow) => {
                steps.push(AnswerStep::Fail(self.fault_error(fault)));
                return steps;
            }
            _ => {}
        }

        let said = steps.len();
        let reasoning =
            turn.reasoning.iter().map(|text| AnswerStep::Emit(Delta::Reasoning(text.clone())));
        steps.extend(reasoning);
        // Line by line, as an answer arrives.
        steps.extend(
            text.split_inclusive('\n').map(|line| AnswerStep::Emit(Delta::Text(line.to_owned()))),
        );
        let n_calls = calls.len();
        steps.extend(calls.into_iter().map(AnswerStep::Emit));
        match fault {
            Some(Fault::Hang) => steps.push(AnswerStep::Hang),
            Some(Fault::Hangup) => {}
            _ => {
                let n_bytes = steps[said..].iter().map(AnswerStep::bytes).sum::<usize>();
                let usage = turn.usage.unwrap_or_else(|| Usage {
                    input_tokens: estimate_tokens(sent.len()),
                    output_tokens: estimate_tokens(n_bytes),
                    ..Usage::default()
                });
                let stop = match fault {
                    Some(Fault::Length) => StopReason::Length,
                    Some(Fault::Refused) => StopReason::Refused,
                    _ if n_calls > 0 => StopReason::ToolCalls,
                    _ => StopReason::End,
                };
                steps.extend([
                    AnswerStep::Emit(Delta::Usage(usage)),
                    AnswerStep::Emit(Delta::Done(stop)),
                ]);
            }
        }
        steps
    }

    fn call_deltas(
        &self,
        turn: &ScriptTurn,
        filling: &TemplateValues,
        request: &Request<'_>,
    ) -> Vec<Delta> {
        let calls = turn.calls.iter();
        let calls = calls.map(|call| (call.name.as_str(), call.arguments.render_json(filling)));
        let unknown =
            (turn.fault == Some(Fault::UnknownTool)).then(|| ("no_such_tool", "{}".to_owned()));
        let n_calls = turn.calls.len();
        let mut ids = CallIds::new("call_", &self.next_id, request);
        calls
            .chain(unknown)
            .enumerate()
            .map(|(index, (name, mut arguments))| {
                let is_cut = match turn.fault {
                    Some(Fault::BrokenJson) => true,
                    // The limit was reached in the last call.
                    Some(Fault::Length) => index + 1 == n_calls,
                    _ => false,
                };
                if is_cut {
                    arguments.truncate(arguments.floor_char_boundary(arguments.len() / 2));
                }
                let id = Some(ids.assign(None));
                Delta::Call { index, id, name: Some(name.to_owned()), arguments }
            })
            .collect()
    }

    fn fault_error(&self, fault: Option<Fault>) -> ModelError {
        let source = &self.source;
        let (kind, status, message) = match fault {
            Some(Fault::RateLimited) => {
                (ModelErrorKind::Unavailable, 429, "too many requests for now; try again later")
            }
            Some(Fault::Unauthorized) => (ModelErrorKind::Refused, 401, "the key is not valid"),
            Some(Fault::Overflow) => {
                (ModelErrorKind::Overflow, 400, "the request is longer than the context window")
            }
            _ => (ModelErrorKind::Unavailable, 503, "the server is overloaded; try again later"),
        };
        let message = format!("{source} answered {status}: {message}");
        let reason = Some(format!("answered {status}"));
        ModelError { kind, message, reason, status: Some(status), window: None }
    }
}

impl Model for ScriptedModel {
    fn id(&self) -> &str {
        &self.id
    }

    fn stream<'a>(&'a self, request: &'a Request<'a>) -> BoxStream<'a, Result<Delta, ModelError>> {
        // A stream that is never polled uses no turn.
        stream::unfold(None, move |steps: Option<VecDeque<AnswerStep>>| async move {
            let mut steps = steps.unwrap_or_else(|| self.answer_steps(request));
            loop {
                let item = match steps.pop_front()? {
                    AnswerStep::Pause(pause) => {
                        tokio::time::sleep(pause).await;
                        continue;
                    }
                    AnswerStep::Hang => std::future::pending().await,
                    AnswerStep::Emit(delta) => Ok(delta),
                    AnswerStep::Fail(error) => Err(error),
                };
                return Some((item, Some(steps)));
            }
        })
        .boxed()
    }
}

impl AnswerStep {
    fn bytes(&self) -> usize {
        match self {
            Self::Emit(Delta::Text(text) | Delta::Reasoning(text)) => text.len(),
            Self::Emit(Delta::Call { name, arguments, .. }) => {
                name.as_ref().map_or(0, String::len) + arguments.len()
            }
            _ => 0,
        }
    }
}

fn last_results<'a>(request: &Request<'a>) -> Vec<&'a str> {
    let last_answer = request.messages.iter().rposition(|message| message.role == Role::Assistant);
    let since = &request.messages[last_answer.map_or(0, |at| at + 1)..];
    since.iter().flat_map(Message::results).map(|result| result.text.as_str()).collect()
}

/// `when` is matched against this text.
fn request_text(request: &Request<'_>) -> String {
    let mut sent = request.system.to_owned();
    for part in request.messages.iter().flat_map(|message| &message.parts) {
        let said: &[&str] = match part {
            Part::Text { text } => &["\n", text],
            Part::Call(call) => &["\n", &call.name, " ", &call.arguments],
            Part::Result(result) => &["\n", &result.text],
            Part::Image(_) | Part::Carried(_) => &[],
        };
        sent.extend(said.iter().copied());
    }
    sent
}

fn estimate_tokens(n_bytes: usize) -> u64 {
    u64::try_from(n_bytes.div_ceil(4)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
