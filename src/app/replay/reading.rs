//! Reads the events of a record into a [`Script`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::key::{CallKey, Key, Keys};
use super::script::{
    Act, CallResult, Check, Deed, Outcome, Script, Skip, code_of, without_directives,
};
use crate::app::ADDED;
use agent_protocol::control::{Approval, Ending, Grant, Interrupt, PermissionMode};
use agent_protocol::directives::UserInput;
use agent_protocol::envelope::ErrorCode;
use agent_protocol::event::{Body, CompactionCause, Event, ModelResponded};
use agent_protocol::mask::MASK;
use agent_protocol::model::{ModelError, ModelErrorKind, Purpose, StopReason};
use agent_protocol::tool::Effect;

/// Who decided about an approval, in the record.
const THE_USER: &str = "the user";

/// The state while the events are read.
#[derive(Default)]
struct Reading {
    keys: Keys,
    /// The latest key of this process.
    last: Option<Key>,
    turn: Option<OpenTurn>,
    has_begun: bool,
    started: HashMap<CallKey, Effect>,
    /// The calls of the models, by id, with their arguments.
    arguments: HashMap<String, String>,
    /// The places of the requests without an answer: turn, purpose, number.
    waiting: Vec<(u32, Purpose, usize)>,
    /// The question that waits, and the modes that the user chose meanwhile.
    asked: Option<Question>,
    /// The key before the first call that was put off for a message of the user.
    put_off: Option<Key>,
    summary_failed: Option<(u32, usize)>,
    added: BTreeSet<String>,
    /// Background commands that are not run again.
    skipped_jobs: HashSet<String>,
}

struct OpenTurn {
    act: usize,
    /// The first request was sent: the directives of the message are carried out.
    has_asked: bool,
    has_directives: bool,
}

struct Question {
    call: String,
    grants: Vec<Grant>,
    modes: Vec<PermissionMode>,
}

/// Why calls with this effect are not run again.
fn not_repeatable(effect: &Effect) -> Option<&'static str> {
    match effect {
        Effect::Agent { .. } => Some("sub-agents do not work again"),
        Effect::Mcp { .. } => Some("MCP servers are not called again"),
        Effect::Ask => Some("the user is not asked again"),
        Effect::Read { .. }
        | Effect::Write { .. }
        | Effect::Command { .. }
        | Effect::Job { .. }
        | Effect::Plan
        | Effect::Skill { .. }
        | Effect::Lookup => None,
    }
}

impl Script {
    /// The script of these events.
    pub(super) fn of(events: &[Event]) -> Self {
        let mut script = Self::default();
        let mut reading = Reading::default();
        for (at, event) in events.iter().enumerate() {
            script.forbidden.apply(&event.body);
            script.read(&mut reading, event, &events[at + 1..]);
        }
        script.end_process(&mut reading);
        script
    }

    fn read(&mut self, reading: &mut Reading, event: &Event, rest: &[Event]) {
        let turn = event.header.place.turn;
        let ts_ms = agent_record::milliseconds(&event.header.ts).unwrap_or(0);
        if let Body::SessionResumed { .. } = &event.body {
            self.end_process(reading);
        }
        let before = reading.last.clone();
        if let Some(key) = reading.keys.of(event) {
            self.moments.push((key.clone(), ts_ms));
            reading.last = Some(key);
        }
        match &event.body {
            Body::SessionStarted(now) | Body::SessionResumed { now, .. } => {
                if let Some(added) = now.settings.get(ADDED) {
                    let added: Vec<String> =
                        serde_json::from_value(added.clone()).unwrap_or_default();
                    reading.added.extend(added);
                }
                self.acts.push(Act::Begin(Box::new(now.clone())));
                reading.has_begun = true;
            }
            Body::SessionSummary(_) => {
                reading.has_begun = false;
                self.acts.push(Act::End);
            }
            Body::DirectoryAdded { path } => drop(reading.added.insert(path.clone())),
            Body::TurnStarted { input, shown, command, mentions, .. } => {
                reading.turn = Some(OpenTurn {
                    act: self.acts.len(),
                    has_asked: false,
                    has_directives: false,
                });
                let message = message(input, shown.as_deref(), *command, mentions);
                self.acts.push(Act::Turn { number: turn, message, is_killed: false });
            }
            Body::TurnSteered { input, shown, command, mentions, .. } => {
                let moment = reading.put_off.take().or(before);
                // (Its directives follow.)
                let deed = Deed::Steer(message(input, shown.as_deref(), *command, mentions));
                self.deed(moment, deed);
            }
            Body::UserCommand { command, output, exit_code } => {
                let (command, output, exit_code) = (command.clone(), output.clone(), *exit_code);
                self.acts.push(Act::Share { command, output, exit_code });
            }
            Body::ModeChanged { mode, words: None, .. } => {
                match (&mut reading.asked, &reading.turn) {
                    (Some(question), _) => question.modes.push(*mode),
                    (None, Some(_)) => self.deed(before, Deed::Mode(*mode)),
                    (None, None) => self.acts.push(Act::Mode(*mode)),
                }
            }
            Body::ModeChanged { words: Some(_), .. } => reading.note_directive(),
            Body::RuleAdded { rule } if rule.is_written => {
                self.acts.push(Act::AddRule(rule.rule.clone()));
            }
            Body::RuleAdded { rule } if !rule.words.is_empty() => reading.note_directive(),
            Body::RuleRemoved { rule } => self.acts.push(Act::RemoveRule(rule.id)),
            Body::PinAdded { pin } => self.acts.push(Act::Pin(pin.text.clone())),
            Body::PinRemoved { pin } => self.acts.push(Act::Unpin(pin.id)),
            Body::ContextCompacted(compacted) => {
                reading.summary_failed = None;
                if compacted.cause == CompactionCause::Manual && reading.turn.is_none() {
                    self.acts.push(Act::Compact(compacted.focus.clone()));
                }
            }
            Body::TurnUndone { undone, files, is_redo, .. } if reading.turn.is_none() => {
                let is_rewind = matches!(
                    rest.first().map(|next| &next.body),
                    Some(Body::SessionRewound { .. })
                );
                let of_git = |path: &String| path.split('/').any(|part| part == ".git");
                self.acts.push(Act::Undo {
                    turn: *undone,
                    is_redo: *is_redo,
                    is_rewind,
                    git: files.keys().any(of_git),
                    force: !files.values().any(|how| how.starts_with("left as it is")),
                });
            }
            Body::SessionRewound { from_turn } => self.acts.push(Act::Rewind(*from_turn)),
            Body::ModelRequested(requested) if requested.purpose != Purpose::Learn => {
                self.requested(reading, turn, requested.purpose);
                if let Some(window) = requested.window {
                    self.windows.insert(requested.model.clone(), window);
                }
                if requested.purpose == Purpose::Task {
                    self.verifier = Some(requested.model.clone());
                }
            }
            Body::ModelResponded(answer) if answer.purpose != Purpose::Learn => {
                self.responded(reading, answer);
            }
            Body::ModelFallback { to, reason, .. } => {
                if !self.fallback.contains(to) {
                    self.fallback.push(to.clone());
                }
                let failed = ModelError::new(ModelErrorKind::Unavailable, reason.clone());
                self.fail(reading, Some(Purpose::Main), failed);
            }
            Body::ContextOverflowed { window, .. } => {
                let mut failed = ModelError::new(ModelErrorKind::Overflow, "it is too long");
                failed.window = *window;
                self.fail(reading, Some(Purpose::Main), failed);
            }
            Body::Error { source, message, retry_in_ms: None, .. } if source == "model" => {
                let kind = match ending_of(rest, turn) {
                    Some(Ending::ModelRefused) => ModelErrorKind::Refused,
                    Some(Ending::Failed) => ModelErrorKind::Script,
                    _ => ModelErrorKind::Unavailable,
                };
                if let Some((turn, Purpose::Summary, at)) = reading.waiting.last() {
                    reading.summary_failed = Some((*turn, *at));
                }
                self.fail(reading, None, ModelError::new(kind, message.clone()));
            }
            Body::MemoryRecalled(recalled) => self.recalled.push((turn, recalled.clone())),
            Body::Evaluation { failure: Some(failure), .. } => {
                if let Some(remedy) = &failure.remedy {
                    self.remedies.push((failure.message.clone(), (**remedy).clone()));
                }
            }
            Body::CheckFinished { command, exit_code, passed, tail, .. } => {
                let (command, tail) = (command.clone(), tail.clone());
                let (exit_code, passed) = (*exit_code, *passed);
                self.checks.push(Check { turn, command, exit_code, passed, tail });
            }
            Body::TurnFinished(finished) => {
                self.turn_finished(reading, turn, finished.ending, before);
            }
            _ => self.read_of_call(reading, event, before),
        }
    }

    /// Events of calls.
    fn read_of_call(&mut self, reading: &mut Reading, event: &Event, before: Option<Key>) {
        let turn = event.header.place.turn;
        match &event.body {
            Body::PermissionRequested { call, grants, .. } => {
                self.is_attended = true;
                let (call, grants) = (call.clone(), grants.clone());
                reading.asked = Some(Question { call, grants, modes: Vec::new() });
            }
            Body::PermissionDecided { call, ruling, rule, reason, .. } => {
                let Some(question) = reading.asked.take_if(|question| question.call == *call)
                else {
                    return;
                };
                let grant = |grant: &&Grant| reason.ends_with(&grant.in_words());
                let approval = match (ruling.as_str(), rule.as_str()) {
                    ("reject", _) => Some(Approval::No((reason != "no").then(|| reason.clone()))),
                    ("allow", THE_USER) => Some(match question.grants.iter().find(grant) {
                        Some(grant) => Approval::Always(grant.clone()),
                        None => Approval::Once,
                    }),
                    _ => None,
                };
                let moment = Some(Key::Asked((turn, call.clone())));
                // (A granted mode is requested with the answer.)
                if !matches!(approval, Some(Approval::Always(Grant::Mode(_)))) {
                    for mode in question.modes {
                        self.deed(moment.clone(), Deed::Mode(mode));
                    }
                }
                if let Some(approval) = approval {
                    self.deed(moment, Deed::Answer(call.clone(), approval));
                }
            }
            Body::ToolStarted { call, input, effect, .. } => {
                reading.started.insert((turn, call.clone()), effect.clone());
                let sent = reading.arguments.get(call).cloned();
                let sent = sent.unwrap_or_else(|| serde_json::to_string(input).unwrap_or_default());
                let why = if sent.contains(MASK) {
                    Some("the record does not hold a secret in its input".to_owned())
                } else if let Some(folder) = reading.added.iter().find(|it| sent.contains(*it)) {
                    Some(format!("it uses the added directory {folder}"))
                } else if let Some(why) = not_repeatable(effect) {
                    Some(why.to_owned())
                } else if let Effect::Job { id } = effect
                    && reading.skipped_jobs.contains(id)
                {
                    Some(format!("{id} is not run again"))
                } else {
                    None
                };
                if let Some(why) = why {
                    self.skipped.insert((turn, call.clone()), Skip { why, envelope: None });
                }
            }
            Body::ToolFinished { call, tool, envelope, synthetic, .. } => {
                let effect = reading.started.remove(&(turn, call.clone()));
                if *synthetic {
                    return;
                }
                if effect.is_none()
                    && code_of(envelope) == Some(ErrorCode::Cancelled)
                    && reading.put_off.is_none()
                {
                    reading.put_off = before;
                }
                if code_of(envelope) == Some(ErrorCode::Timeout) && effect.is_some() {
                    let why = "it ran into its time limit".to_owned();
                    self.skipped.insert((turn, call.clone()), Skip { why, envelope: None });
                }
                if let Some(skip) = self.skipped.get_mut(&(turn, call.clone())) {
                    skip.envelope = Some(envelope.clone());
                    let job = envelope.data.get("background_id").and_then(|id| id.as_str());
                    reading.skipped_jobs.extend(job.map(str::to_owned));
                }
                self.results.push(CallResult {
                    call: call.clone(),
                    tool: tool.clone(),
                    turn,
                    round: event.header.place.round,
                    effect,
                    envelope: envelope.clone(),
                });
            }
            _ => {}
        }
    }

    fn requested(&mut self, reading: &mut Reading, turn: u32, purpose: Purpose) {
        if purpose == Purpose::Main {
            reading.put_off = None;
        }
        if let Some(open) = &mut reading.turn {
            self.settle_directives(open);
        }
        // After a failure only an overflow is followed by another request for the same summary.
        if purpose == Purpose::Summary
            && let Some((turn, at)) = reading.summary_failed.take()
            && let Some(queue) = self.answers.get_mut(&(turn, Purpose::Summary))
        {
            let failed = ModelError::new(ModelErrorKind::Overflow, "it is too long");
            queue[at] = Outcome::Failed(failed);
        }
        let queue = self.answers.entry((turn, purpose)).or_default();
        reading.waiting.push((turn, purpose, queue.len()));
        queue.push_back(Outcome::Silence(String::new(), None));
    }

    /// A text that was pasted has no directives: the record shows whether there were any.
    fn settle_directives(&mut self, open: &mut OpenTurn) {
        if open.has_asked {
            return;
        }
        open.has_asked = true;
        if let Some(Act::Turn { message, .. }) = self.acts.get_mut(open.act)
            && !open.has_directives
            && !message.directives().is_empty()
        {
            *message = without_directives(message);
        }
    }

    fn responded(&mut self, reading: &mut Reading, answer: &ModelResponded) {
        for call in &answer.calls {
            reading.arguments.insert(call.id.clone(), call.arguments.clone());
        }
        let outcome = if answer.stop == StopReason::Interrupted {
            Outcome::Silence(answer.text.clone(), None)
        } else {
            Outcome::Answer(Box::new(answer.clone()))
        };
        let is_silent = matches!(outcome, Outcome::Silence(..));
        let place = reading.waiting.iter().rposition(|(_, purpose, _)| *purpose == answer.purpose);
        let Some(place) = place else { return };
        let (turn, purpose, at) = reading.waiting[place];
        if let Some(waiting) = self.answers.get_mut(&(turn, purpose)).and_then(|it| it.get_mut(at))
        {
            *waiting = outcome;
        }
        // What was interrupted waits for the end of the turn.
        if !is_silent {
            reading.waiting.remove(place);
        }
    }

    /// The last request, or the last of this purpose, failed.
    fn fail(&mut self, reading: &mut Reading, purpose: Option<Purpose>, error: ModelError) {
        let of_purpose = |place: &(u32, Purpose, usize)| purpose.is_none_or(|it| it == place.1);
        let Some(place) = reading.waiting.iter().rposition(of_purpose) else { return };
        let (turn, purpose, at) = reading.waiting.remove(place);
        if let Some(waiting) = self.answers.get_mut(&(turn, purpose)).and_then(|it| it.get_mut(at))
        {
            *waiting = Outcome::Failed(error);
        }
    }

    fn turn_finished(
        &mut self,
        reading: &mut Reading,
        turn: u32,
        ending: Ending,
        before: Option<Key>,
    ) {
        if let Some(mut open) = reading.turn.take() {
            self.settle_directives(&mut open);
        }
        self.endings.push((turn, ending));
        let question = reading.asked.take();
        let waiting = std::mem::take(&mut reading.waiting).pop();
        let by = match ending {
            Ending::Interrupted => Interrupt::User,
            Ending::Timeout => Interrupt::Timeout,
            Ending::Terminated => Interrupt::Terminate,
            _ => return,
        };
        if let Some((turn, purpose, at)) = waiting
            && let Some(Outcome::Silence(_, interrupt)) =
                self.answers.get_mut(&(turn, purpose)).and_then(|it| it.get_mut(at))
        {
            *interrupt = Some(by);
            return;
        }
        let cut_off =
            self.results.iter().rev().take_while(|it| it.turn == turn).find(|it| {
                it.effect.is_some() && code_of(&it.envelope) == Some(ErrorCode::Cancelled)
            });
        let (moment, after) = match (cut_off, question) {
            (Some(result), _) => {
                let ms = result.envelope.stats.get("time_ms").and_then(serde_json::Value::as_u64);
                (Some(Key::Started(result.key())), Duration::from_millis(ms.unwrap_or(0)))
            }
            (None, Some(question)) => (Some(Key::Asked((turn, question.call))), Duration::ZERO),
            // Calls that were not started any more come after the interrupt.
            (None, None) => (reading.put_off.take().or(before), Duration::ZERO),
        };
        self.deed(moment, Deed::Interrupt(by, after));
    }

    /// The log ends, or the session goes on in another process.
    fn end_process(&mut self, reading: &mut Reading) {
        if let Some(open) = reading.turn.take() {
            if let Some(Act::Turn { is_killed, .. }) = self.acts.get_mut(open.act) {
                *is_killed = true;
            }
            let why = "the program was killed meanwhile";
            for call in reading.started.keys() {
                let skip = Skip { why: why.to_owned(), envelope: None };
                self.skipped.insert(call.clone(), skip);
            }
            self.deed(reading.last.clone(), Deed::Kill);
        }
        if std::mem::take(&mut reading.has_begun) {
            self.acts.push(Act::End);
        }
        reading.started.clear();
        reading.waiting.clear();
        reading.skipped_jobs.clear();
        (reading.asked, reading.put_off, reading.last) = (None, None, None);
    }

    fn deed(&mut self, moment: Option<Key>, deed: Deed) {
        match moment {
            Some(moment) => self.deeds.entry(moment).or_default().push(deed),
            None => self.not_replayed.push(format!("an event without a place: {deed:?}")),
        }
    }
}

impl Reading {
    fn note_directive(&mut self) {
        if let Some(open) = &mut self.turn {
            open.has_directives = true;
        }
    }
}

fn message(input: &str, shown: Option<&str>, is_command: bool, mentions: &[String]) -> UserInput {
    // A long message is shortened again; one that is longer than the input has attachments.
    let is_prompt = |shown: &&str| is_command || shown.len() > input.len();
    let prompt = shown.filter(is_prompt).map(str::to_owned);
    UserInput { prompt, mentions: mentions.to_vec(), ..UserInput::from(input) }
}

fn ending_of(rest: &[Event], turn: u32) -> Option<Ending> {
    rest.iter().find_map(|event| match &event.body {
        Body::TurnFinished(finished) if event.header.place.turn == turn => Some(finished.ending),
        _ => None,
    })
}
