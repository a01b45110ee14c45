//! Reads the events of a record into a [`Script`].

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::moment_key::{CallKey, MomentKey, MomentKeyCounter};
use super::script::{
    ModelOutcome, Script, ScriptAction, ScriptStep, SkippedCall, error_code, without_directives,
};
use crate::app::ADDED_DIRS;
use agent_protocol::control::{ApprovalDecision, Ending, Grant, Interrupt, PermissionMode};
use agent_protocol::directives::UserInput;
use agent_protocol::envelope::ErrorCode;
use agent_protocol::event::{CompactionCause, Event, EventBody, ModelResponded, UserMessage};
use agent_protocol::hook::{HookFinished, HookStatus};
use agent_protocol::mask::MASK;
use agent_protocol::model::{
    ContextWindow, ModelError, ModelErrorKind, Purpose, StopReason, WindowSource,
};
use agent_protocol::tool::Effect;

/// Who decided about an approval, in the record.
const THE_USER: &str = "the user";

#[derive(Default)]
struct ScriptReader {
    keys: MomentKeyCounter,
    /// The latest key of this process.
    last_key: Option<MomentKey>,
    turn: Option<OpenTurn>,
    has_begun: bool,
    /// The calls of the models, by id, with their arguments.
    arguments: HashMap<String, String>,
    /// The places of the requests without an answer: turn, purpose, number.
    pending_requests: Vec<(u32, Purpose, usize)>,
    open_question: Option<OpenQuestion>,
    /// The key before the first call that was put off for a message of the user.
    postponed_key: Option<MomentKey>,
    summary_failed: Option<(u32, usize)>,
    added: BTreeSet<String>,
    /// Background commands that are not run again.
    skipped_jobs: HashSet<String>,
}

struct OpenTurn {
    step: usize,
    /// The first request was sent: the directives of the message are carried out.
    has_requested: bool,
    has_directives: bool,
}

struct OpenQuestion {
    call: String,
    grants: Vec<Grant>,
    modes: Vec<PermissionMode>,
}

fn skip_reason(effect: &Effect) -> Option<&'static str> {
    match effect {
        Effect::Agent { .. } => Some("sub-agents do not work again"),
        Effect::Mcp { .. } => Some("MCP servers are not called again"),
        Effect::Fetch { .. } | Effect::WebSearch { .. } => Some("the web is not asked again"),
        Effect::Ask => Some("the user is not asked again"),
        _ => None,
    }
}

impl Script {
    pub(super) fn from_events(events: &[Event]) -> Self {
        let mut script = Self::default();
        let mut reading = ScriptReader::default();
        for (at, event) in events.iter().enumerate() {
            script.read_blocked(&event.body);
            script.read_event(&mut reading, event, &events[at + 1..]);
            script.results.apply(event);
        }
        script.end_process(&mut reading);
        script
    }

    fn read_blocked(&mut self, body: &EventBody) {
        match body {
            EventBody::TurnStarted(message) | EventBody::TurnSteered(message)
                if message.blocked =>
            {
                self.blocked.push((message.input.clone(), "blocked in the record".to_owned()));
            }
            EventBody::HookFinished(HookFinished {
                call: Some(call),
                outcome: HookStatus::Denied,
                text,
                ..
            }) => self.blocked.push((call.clone(), text.clone())),
            _ => {}
        }
    }

    fn read_event(&mut self, reading: &mut ScriptReader, event: &Event, rest: &[Event]) {
        let turn = event.header.place.turn;
        let ts_ms = agent_record::parse_milliseconds(&event.header.ts).unwrap_or(0);
        if let EventBody::SessionResumed { .. } = &event.body {
            self.end_process(reading);
        }
        let before = reading.last_key.clone();
        if let Some(key) = reading.keys.key_of(event) {
            self.moments.push((key.clone(), ts_ms));
            reading.last_key = Some(key);
        }
        match &event.body {
            EventBody::SessionStarted(now) | EventBody::SessionResumed { now, .. } => {
                if let Some(added) = now.settings.get(ADDED_DIRS) {
                    let added: Vec<String> =
                        serde_json::from_value(added.clone()).unwrap_or_default();
                    reading.added.extend(added);
                }
                self.steps.push(ScriptStep::Begin(Box::new(now.clone())));
                reading.has_begun = true;
            }
            EventBody::SessionSummary(_) => {
                reading.has_begun = false;
                self.steps.push(ScriptStep::End);
            }
            EventBody::DirectoryAdded { path } => drop(reading.added.insert(path.clone())),
            EventBody::TurnStarted(message) => {
                reading.turn = Some(OpenTurn {
                    step: self.steps.len(),
                    has_requested: false,
                    has_directives: false,
                });
                let message = recorded_input(message);
                self.steps.push(ScriptStep::Turn { number: turn, message, is_killed: false });
            }
            EventBody::TurnSteered(message) => {
                let moment = reading.postponed_key.take().or(before);
                // (Its directives follow.)
                self.add_action(moment, ScriptAction::Steer(recorded_input(message)));
            }
            EventBody::UserCommand { command, output, exit_code } => {
                let (command, output, exit_code) = (command.clone(), output.clone(), *exit_code);
                self.steps.push(ScriptStep::ShareCommand { command, output, exit_code });
            }
            EventBody::ModeChanged { mode, words: None, .. } => {
                match (&mut reading.open_question, &reading.turn) {
                    (Some(question), _) => question.modes.push(*mode),
                    (None, Some(_)) => self.add_action(before, ScriptAction::SetMode(*mode)),
                    (None, None) => self.steps.push(ScriptStep::SetMode(*mode)),
                }
            }
            EventBody::ModeChanged { words: Some(_), .. } => reading.note_directive(),
            EventBody::ContextCompacted(compacted) => {
                reading.summary_failed = None;
                if compacted.cause == CompactionCause::Manual && reading.turn.is_none() {
                    self.steps.push(ScriptStep::Compact(compacted.focus.clone()));
                }
            }
            EventBody::TurnUndone { undone, files, is_redo, .. } if reading.turn.is_none() => {
                let next = rest.first().map(|next| &next.body);
                let is_rewind = matches!(next, Some(EventBody::SessionRewound { .. }));
                let of_git = |path: &String| path.split('/').any(|part| part == ".git");
                self.steps.push(ScriptStep::Undo {
                    turn: *undone,
                    is_redo: *is_redo,
                    is_rewind,
                    git: files.keys().any(of_git),
                    force: !files.values().any(|how| how.starts_with("left as it is")),
                });
            }
            EventBody::SessionRewound { from_turn } => {
                self.steps.push(ScriptStep::Rewind(*from_turn));
            }
            EventBody::ModelRequested(requested) if requested.purpose.is_of_loop() => {
                self.record_request(reading, turn, requested.purpose);
                if let Some(tokens) = requested.window {
                    let is_begin = |step: &&ScriptStep| matches!(step, ScriptStep::Begin(_));
                    let process = self.steps.iter().filter(is_begin).count();
                    // An older record has no source.
                    let source = requested.window_source.unwrap_or(WindowSource::Known);
                    let windows =
                        self.windows.entry((process, requested.model.clone())).or_default();
                    windows.push(ContextWindow { tokens, source });
                }
                if requested.purpose == Purpose::Task {
                    self.verifier = Some(requested.model.clone());
                }
            }
            EventBody::ModelResponded(answer) if answer.purpose.is_of_loop() => {
                self.record_response(reading, answer);
            }
            EventBody::ModelFallback { to, reason, .. } => {
                if !self.fallback.contains(to) {
                    self.fallback.push(to.clone());
                }
                let failed = ModelError::new(ModelErrorKind::Unavailable, reason.clone());
                self.record_failure(reading, Some(Purpose::Main), failed);
            }
            EventBody::ImagesWithheld { reason, .. } => {
                let failed = ModelError::new(ModelErrorKind::Refused, reason.clone());
                self.record_failure(reading, Some(Purpose::Main), failed);
            }
            EventBody::ContextOverflowed { window, .. } => {
                let mut failed = ModelError::new(ModelErrorKind::Overflow, "it is too long");
                failed.window = *window;
                self.record_failure(reading, Some(Purpose::Main), failed);
            }
            EventBody::Error { source, message, retry_in_ms: None, .. } if source == "model" => {
                let kind = match turn_ending(rest, turn) {
                    Some(Ending::ModelRefused) => ModelErrorKind::Refused,
                    Some(Ending::Failed) => ModelErrorKind::Script,
                    _ => ModelErrorKind::Unavailable,
                };
                if let Some((turn, Purpose::Summary, at)) = reading.pending_requests.last() {
                    reading.summary_failed = Some((*turn, *at));
                }
                self.record_failure(reading, None, ModelError::new(kind, message.clone()));
            }
            EventBody::TurnFinished(finished) => {
                self.finish_turn(reading, turn, finished.ending, before);
            }
            _ => self.read_other_event(reading, event, before),
        }
    }

    fn read_other_event(
        &mut self,
        reading: &mut ScriptReader,
        event: &Event,
        before: Option<MomentKey>,
    ) {
        let turn = event.header.place.turn;
        match &event.body {
            EventBody::RuleAdded { rule } if rule.is_written => {
                self.steps.push(ScriptStep::AddRule(rule.rule.clone()));
            }
            EventBody::RuleAdded { rule } if !rule.words.is_empty() => reading.note_directive(),
            EventBody::RuleRemoved { rule } => self.steps.push(ScriptStep::RemoveRule(rule.id)),
            EventBody::MemoryRecalled(recalled) => self.recalled.push((turn, recalled.clone())),
            EventBody::Evaluation { failure: Some(failure), .. } => {
                if let Some(remedy) = &failure.remedy {
                    self.remedies.push((failure.message.clone(), (**remedy).clone()));
                }
            }
            _ => self.read_call_event(reading, event, before),
        }
    }

    fn read_call_event(
        &mut self,
        reading: &mut ScriptReader,
        event: &Event,
        before: Option<MomentKey>,
    ) {
        let turn = event.header.place.turn;
        match &event.body {
            EventBody::PermissionRequested { call, grants, .. } => {
                self.is_attended = true;
                let (call, grants) = (call.clone(), grants.clone());
                reading.open_question = Some(OpenQuestion { call, grants, modes: Vec::new() });
            }
            EventBody::PermissionDecided { call, ruling, rule, reason, .. } => {
                let asked = reading.open_question.take_if(|question| question.call == *call);
                let Some(question) = asked else { return };
                let grant = |grant: &&Grant| reason.ends_with(&grant.in_words());
                let approval = match (ruling.as_str(), rule.as_str()) {
                    ("reject", _) => {
                        Some(ApprovalDecision::Reject((reason != "no").then(|| reason.clone())))
                    }
                    ("allow", THE_USER) => Some(match question.grants.iter().find(grant) {
                        Some(grant) => ApprovalDecision::AllowAlways(grant.clone()),
                        None => ApprovalDecision::AllowOnce,
                    }),
                    _ => None,
                };
                let moment = Some(MomentKey::PermissionRequested((turn, call.clone())));
                // (A granted mode is requested with the answer.)
                if !matches!(approval, Some(ApprovalDecision::AllowAlways(Grant::Mode(_)))) {
                    for mode in question.modes {
                        self.add_action(moment.clone(), ScriptAction::SetMode(mode));
                    }
                }
                if let Some(approval) = approval {
                    self.add_action(moment, ScriptAction::Answer(call.clone(), approval));
                }
            }
            EventBody::ToolStarted { call, input, effect, .. } => {
                self.is_attended |= *effect == Effect::Ask;
                let sent = reading.arguments.get(call).cloned();
                let sent = sent.unwrap_or_else(|| serde_json::to_string(input).unwrap_or_default());
                let why = if sent.contains(MASK) {
                    Some("the record does not hold a secret in its input".to_owned())
                } else if let Some(folder) = reading.added.iter().find(|it| sent.contains(*it)) {
                    Some(format!("it uses the added directory {folder}"))
                } else if let Some(why) = skip_reason(effect) {
                    Some(why.to_owned())
                } else if let Effect::Job { id, .. } = effect
                    && reading.skipped_jobs.contains(id)
                {
                    Some(format!("{id} is not run again"))
                } else {
                    None
                };
                if let Some(why) = why {
                    self.skip((turn, call.clone()), why);
                }
            }
            EventBody::ToolFinished { call, envelope, synthetic: false, .. } => {
                let was_started = self.results.running.contains_key(&(turn, call.clone()));
                if !was_started
                    && error_code(envelope) == Some(ErrorCode::Cancelled)
                    && reading.postponed_key.is_none()
                {
                    reading.postponed_key = before;
                }
                if error_code(envelope) == Some(ErrorCode::Timeout) && was_started {
                    self.skip((turn, call.clone()), "it ran into its time limit".to_owned());
                }
                if let Some(skip) = self.skipped.get_mut(&(turn, call.clone())) {
                    skip.envelope = Some(envelope.clone());
                    let job = envelope.data.get("background_id").and_then(|id| id.as_str());
                    reading.skipped_jobs.extend(job.map(str::to_owned));
                }
            }
            _ => {}
        }
    }

    fn record_request(&mut self, reading: &mut ScriptReader, turn: u32, purpose: Purpose) {
        if purpose == Purpose::Main {
            reading.postponed_key = None;
        }
        if let Some(open) = &mut reading.turn {
            self.resolve_directives(open);
        }
        // After a failure only an overflow is followed by another request for the same summary.
        if purpose == Purpose::Summary
            && let Some((turn, at)) = reading.summary_failed.take()
        {
            let failed = ModelError::new(ModelErrorKind::Overflow, "it is too long");
            self.set_outcome((turn, Purpose::Summary, at), ModelOutcome::Failed(failed));
        }
        let queue = self.answers.entry((turn, purpose)).or_default();
        reading.pending_requests.push((turn, purpose, queue.len()));
        queue.push_back(ModelOutcome::NoAnswer(String::new(), None));
    }

    /// A text that was pasted has no directives: the record shows whether there were any.
    fn resolve_directives(&mut self, open: &mut OpenTurn) {
        if open.has_requested {
            return;
        }
        open.has_requested = true;
        if let Some(ScriptStep::Turn { message, .. }) = self.steps.get_mut(open.step)
            && !open.has_directives
            && !message.directives().is_empty()
        {
            *message = without_directives(message);
        }
    }

    fn record_response(&mut self, reading: &mut ScriptReader, answer: &ModelResponded) {
        for call in &answer.calls {
            reading.arguments.insert(call.id.clone(), call.arguments.clone());
        }
        let of_purpose = |place: &(u32, Purpose, usize)| place.1 == answer.purpose;
        let Some(place) = reading.pending_requests.iter().rposition(of_purpose) else { return };
        let request = reading.pending_requests[place];
        if answer.stop == StopReason::Interrupted {
            // It waits for the end of the turn.
            self.set_outcome(request, ModelOutcome::NoAnswer(answer.text.clone(), None));
        } else {
            self.set_outcome(request, ModelOutcome::Answer(Box::new(answer.clone())));
            reading.pending_requests.remove(place);
        }
    }

    /// The last request, or the last of this purpose, failed.
    fn record_failure(
        &mut self,
        reading: &mut ScriptReader,
        purpose: Option<Purpose>,
        error: ModelError,
    ) {
        let of_purpose = |place: &(u32, Purpose, usize)| purpose.is_none_or(|of| of == place.1);
        let Some(place) = reading.pending_requests.iter().rposition(of_purpose) else { return };
        self.set_outcome(reading.pending_requests.remove(place), ModelOutcome::Failed(error));
    }

    fn set_outcome(&mut self, (turn, purpose, at): (u32, Purpose, usize), outcome: ModelOutcome) {
        if let Some(queue) = self.answers.get_mut(&(turn, purpose)) {
            queue[at] = outcome;
        }
    }

    fn finish_turn(
        &mut self,
        reading: &mut ScriptReader,
        turn: u32,
        ending: Ending,
        before: Option<MomentKey>,
    ) {
        if let Some(mut open) = reading.turn.take() {
            self.resolve_directives(&mut open);
        }
        let question = reading.open_question.take();
        let waiting = std::mem::take(&mut reading.pending_requests).pop();
        let by = match ending {
            Ending::Interrupted => Interrupt::User,
            Ending::Timeout => Interrupt::Timeout,
            Ending::Terminated => Interrupt::Terminate,
            _ => return,
        };
        if let Some((turn, purpose, at)) = waiting
            && let Some(ModelOutcome::NoAnswer(_, interrupt)) =
                self.answers.get_mut(&(turn, purpose)).and_then(|it| it.get_mut(at))
        {
            *interrupt = Some(by);
            return;
        }
        let cut_off = self.results.calls.iter().rev().take_while(|it| it.turn == turn).find(|it| {
            it.effect.is_some() && error_code(&it.envelope) == Some(ErrorCode::Cancelled)
        });
        let (moment, after) = match (cut_off, question) {
            (Some(result), _) => {
                let ms = result.envelope.stats.get("time_ms").and_then(serde_json::Value::as_u64);
                (Some(MomentKey::CallStarted(result.key())), Duration::from_millis(ms.unwrap_or(0)))
            }
            (None, Some(question)) => {
                (Some(MomentKey::PermissionRequested((turn, question.call))), Duration::ZERO)
            }
            // Calls that were not started any more come after the interrupt.
            (None, None) => (reading.postponed_key.take().or(before), Duration::ZERO),
        };
        self.add_action(moment, ScriptAction::Interrupt(by, after));
    }

    /// The log ends, or the session goes on in another process.
    fn end_process(&mut self, reading: &mut ScriptReader) {
        let running = std::mem::take(&mut self.results.running);
        if let Some(open) = reading.turn.take() {
            if let Some(ScriptStep::Turn { is_killed, .. }) = self.steps.get_mut(open.step) {
                *is_killed = true;
            }
            for call in running.into_keys() {
                self.skip(call, "the program was killed meanwhile".to_owned());
            }
            self.add_action(reading.last_key.clone(), ScriptAction::Kill);
        }
        if std::mem::take(&mut reading.has_begun) {
            self.steps.push(ScriptStep::End);
        }
        reading.pending_requests.clear();
        reading.skipped_jobs.clear();
        (reading.open_question, reading.postponed_key, reading.last_key) = (None, None, None);
    }

    fn skip(&mut self, call: CallKey, why: String) {
        self.skipped.insert(call, SkippedCall { why, envelope: None });
    }

    fn add_action(&mut self, moment: Option<MomentKey>, action: ScriptAction) {
        match moment {
            Some(moment) => self.actions.entry(moment).or_default().push(action),
            None => self.not_replayed.push(format!("an event without a place: {action:?}")),
        }
    }
}

impl ScriptReader {
    fn note_directive(&mut self) {
        if let Some(open) = &mut self.turn {
            open.has_directives = true;
        }
    }
}

fn recorded_input(message: &UserMessage) -> UserInput {
    let UserMessage { input, shown, mentions, .. } = message;
    // A long message is shortened again; one that is longer than the input has attachments.
    let prompt = shown.clone().filter(|shown| message.command || shown.len() > input.len());
    UserInput { prompt, mentions: mentions.clone(), ..UserInput::from(input.as_str()) }
}

fn turn_ending(rest: &[Event], turn: u32) -> Option<Ending> {
    rest.iter().find_map(|event| match &event.body {
        EventBody::TurnFinished(finished) if event.header.place.turn == turn => {
            Some(finished.ending)
        }
        _ => None,
    })
}
