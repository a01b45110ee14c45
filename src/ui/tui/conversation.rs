//! The conversation: events folded into cells, and which of them are in the terminal's own history.

use std::collections::VecDeque;
use std::time::Instant;

use ratatui::text::Line;

use super::cells::{
    Call, CallState, Cell, Detail, Kind, Look, Question, Tone, decision, seconds, thousands,
};
use super::markdown::Stream;
use crate::protocol::control::PermissionMode;
use crate::protocol::envelope::Envelope;
use crate::protocol::event::{
    Body, Event, FreezeCause, ModelResponded, SessionStarted, TurnFinished,
};
use crate::protocol::model::{Purpose, Usage};
use crate::protocol::plan::Plan;

/// Turns of an earlier session that are printed again.
const RECALLED: usize = 3;

/// Everything that was said and done, and what is going on.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) cells: Vec<Cell>,
    /// So many of them are printed.
    printed: usize,
    /// Of the next one, what was asked about it is printed.
    question_is_printed: bool,
    /// The kind of what was printed last.
    last: Option<Kind>,
    /// What the model is saying.
    stream: Stream,
    /// All of it, for the cell that it becomes.
    said: String,
    /// Something of it was printed.
    stream_has_begun: bool,
    /// The cells that earlier answers became, until they are printed.
    ended: VecDeque<Ended>,
    /// What the model is thinking.
    pub(super) thought: String,
    /// The user's words are on the terminal already: it has shown them as they were typed.
    pub(super) hides_user: bool,
    pub(super) plan: Plan,
    pub(super) turn: Option<Turn>,
    pub(super) session: String,
    pub(super) model: String,
    pub(super) mode: Option<PermissionMode>,
    pub(super) cwd: String,
    /// Tokens of the last request.
    pub(super) context_tokens: u64,
    /// The model's window, where it is known.
    pub(super) window: Option<u64>,
    pub(super) usage: Usage,
    pub(super) cost_usd: Option<f64>,
    /// In whose words nothing may be changed.
    pub(super) frozen: Option<String>,
}

/// An answer whose end is not printed yet.
#[derive(Debug)]
struct Ended {
    cell: usize,
    rest: Stream,
    has_begun: bool,
}

/// The turn that runs.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) started: Instant,
    /// What runs now.
    pub(super) doing: Doing,
    /// When that began.
    pub(super) since: Instant,
}

/// What runs now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// The model was asked.
    Waiting,
    /// It thinks.
    Thinking,
    /// It answers.
    Answering,
    /// Tools run.
    Calling(String),
    /// A person is asked.
    Asking,
    /// Another try follows.
    Retrying,
}

impl Conversation {
    /// Takes one more event.
    pub(super) fn apply(&mut self, event: &Event, now: Instant) {
        match &event.body {
            Body::SessionStarted(started) => self.begin(&event.header.session, started, None),
            Body::SessionResumed { now: started, events, uncertain, .. } => {
                self.begin(&event.header.session, started, Some(*events));
                if !uncertain.is_empty() {
                    let text = format!("nobody knows what these did: {}", uncertain.join(", "));
                    self.note(Tone::Warn, &text);
                }
            }
            Body::TurnStarted { input, .. } => {
                self.cells.push(Cell::User(input.clone()));
                self.turn = Some(Turn { started: now, doing: Doing::Waiting, since: now });
            }
            Body::TurnSteered { input } => self.cells.push(Cell::User(input.clone())),
            Body::ModelRequested(requested) if requested.purpose == Purpose::Main => {
                self.context_tokens = requested.estimated_tokens;
                self.window = requested.window;
                self.model.clone_from(&requested.model);
                self.does(Doing::Waiting, now);
            }
            Body::ModelDelta { text, reasoning: true } => {
                self.thought.push_str(text);
                self.does(Doing::Thinking, now);
            }
            Body::ModelDelta { text, reasoning: false } => {
                self.end_thought();
                self.said.push_str(text);
                self.stream.push(text);
                self.does(Doing::Answering, now);
            }
            Body::ModelResponded(answer) if answer.purpose == Purpose::Main => {
                self.responded(answer);
            }
            Body::ToolStarted { call, tool, .. } => {
                self.does(Doing::Calling(tool.clone()), now);
                if let Some(call) = self.call(call) {
                    call.state = CallState::Running { tail: String::new() };
                }
            }
            Body::ToolOutput { call, text } => {
                if let Some(Call { state: CallState::Running { tail }, .. }) = self.call(call) {
                    tail.clone_from(text);
                }
            }
            Body::ToolFinished { call, tool, envelope, .. } => self.answered(call, tool, envelope),
            Body::PermissionRequested { call, reason, rule, rules, diff, .. } => {
                self.does(Doing::Asking, now);
                let (reason, rule) = (reason.clone(), rule.clone());
                let question = Question { reason, rule, rules: rules.clone(), diff: diff.clone() };
                if let Some(call) = self.call(call) {
                    call.question = Some(Box::new(question));
                }
            }
            Body::PermissionDecided { ruling, .. } => {
                if ruling == "allow" || ruling == "reject" {
                    self.does(Doing::Waiting, now);
                }
            }
            Body::PlanUpdated { plan, .. } => self.plan_is(plan),
            Body::Error { message, retry_in_ms: Some(ms), attempt, .. } => {
                self.end_stream();
                self.does(Doing::Retrying, now);
                let (n, wait) = (attempt.unwrap_or(1), seconds(*ms));
                self.note(Tone::Warn, &format!("try {n} failed: {message}; the next in {wait}"));
            }
            // The report at the turn's end says what the model's own error was.
            Body::Error { source, message, retry_in_ms: None, .. } => {
                self.end_stream();
                if source != "model" {
                    self.note(Tone::Bad, message);
                }
            }
            Body::TurnFinished(finished) => self.finished(finished),
            Body::ModeChanged { .. }
            | Body::Frozen { .. }
            | Body::Thawed { .. }
            | Body::Reflected { .. }
            | Body::ControlDecided { .. }
            | Body::Feedback { .. }
            | Body::CheckFinished { .. }
            | Body::ContextCompacted(_)
            | Body::PinAdded { .. }
            | Body::PinRemoved { .. }
            | Body::RulesFound { .. }
            | Body::TurnUndone { .. } => self.noted(&event.body),
            // What the user ran is shown when it ends; what is taken back or copied is told to whoever
            // goes on from there.
            Body::UserCommand { .. }
            | Body::ModelRequested(_)
            | Body::ModelResponded(_)
            | Body::SessionForked { .. }
            | Body::SessionRewound { .. }
            | Body::Evaluation { .. }
            | Body::SessionSummary(_) => {}
        }
    }

    /// What is worth a sentence.
    fn noted(&mut self, body: &Body) {
        match body {
            Body::ModeChanged { mode } => {
                self.mode = Some(*mode);
                self.note(Tone::Quiet, &format!("mode {}", mode.as_str()));
            }
            Body::Frozen { by, words } => {
                self.frozen = Some(words.clone());
                if *by == FreezeCause::User {
                    let text = format!("nothing is changed until you lift it: “{words}”");
                    self.note(Tone::Quiet, &text);
                }
            }
            Body::Thawed { .. } => self.frozen = None,
            Body::Reflected { reflection: Some(reflection), .. } => {
                self.note(Tone::Quiet, &format!("reflection: {}", reflection.root_cause.text));
            }
            Body::ControlDecided { decision: decided, reason, after, .. } => {
                if let Some(text) = decision(*decided, reason, after) {
                    self.note(Tone::Warn, &text);
                }
            }
            Body::Feedback { text } => {
                let text = format!("to the model: {}", text.replace('\n', " "));
                self.note(Tone::Quiet, &text);
            }
            Body::CheckFinished { command, exit_code, passed, tail, time_ms } => {
                let how = match (passed, exit_code) {
                    (true, _) => "passed".to_owned(),
                    (false, Some(code)) => format!("exit {code}"),
                    (false, None) => "did not end by itself".to_owned(),
                };
                let how = format!("{how}  {}", seconds(*time_ms));
                let (command, passed, tail) = (command.clone(), *passed, tail.clone());
                self.cells.push(Cell::Check { command, passed, how, tail });
            }
            Body::ContextCompacted(compacted) => {
                self.context_tokens = compacted.tokens_after;
                let text = format!(
                    "compacted: {} → {} tokens, {} messages became a summary",
                    thousands(compacted.tokens_before),
                    thousands(compacted.tokens_after),
                    compacted.archived
                );
                self.note(Tone::Quiet, &text);
            }
            Body::PinAdded { pin } => {
                self.note(Tone::Quiet, &format!("pin {}: “{}”", pin.id, pin.text));
            }
            Body::PinRemoved { id, .. } => {
                self.note(Tone::Quiet, &format!("pin {id} holds no longer"));
            }
            Body::RulesFound { path, .. } => {
                self.note(Tone::Quiet, &format!("rules of {path} count from now on"));
            }
            Body::TurnUndone { undone, files } => {
                let files: Vec<String> =
                    files.iter().map(|(path, how)| format!("{path} {how}")).collect();
                let text = format!("turn {undone} undone: {}", files.join(", "));
                self.note(Tone::Quiet, &text);
            }
            _ => {}
        }
    }

    fn responded(&mut self, answer: &ModelResponded) {
        if self.thought.is_empty() && self.said.is_empty() {
            self.thought.clone_from(&answer.reasoning);
        }
        self.end_thought();
        if !self.said.is_empty() {
            self.end_stream();
        } else if !answer.text.is_empty() {
            self.cells.push(Cell::Answer(answer.text.clone()));
        }
        if let Some(usage) = answer.usage {
            self.usage += usage;
            self.context_tokens = usage.input_tokens + usage.output_tokens;
        }
        if answer.discarded {
            self.note(Tone::Warn, "this answer can not be used; the model is asked again");
        } else {
            let calls = answer.calls.iter();
            self.cells.extend(calls.map(|call| {
                Cell::Call(Box::new(Call::new(&call.id, &call.name, &call.arguments)))
            }));
        }
    }

    fn answered(&mut self, call: &str, tool: &str, envelope: &Envelope) {
        if self.call(call).is_none() {
            let arguments = serde_json::to_string(&envelope.context.params_input);
            let call = Call::new(call, tool, &arguments.unwrap_or_default());
            self.cells.push(Cell::Call(Box::new(call)));
        }
        if let Some(call) = self.call(call) {
            call.finish(envelope);
        }
    }

    fn plan_is(&mut self, plan: &Plan) {
        self.plan.clone_from(plan);
        if plan.todos.is_empty() {
            return;
        }
        // One plan after the other: the last is the one that counts.
        let from = self.printed;
        let mut waiting = self.cells.iter_mut().skip(from);
        match waiting.find(|cell| matches!(cell, Cell::Plan(_))) {
            Some(cell) => *cell = Cell::Plan(plan.clone()),
            None => self.cells.push(Cell::Plan(plan.clone())),
        }
    }

    fn finished(&mut self, finished: &TurnFinished) {
        self.end_thought();
        self.end_stream();
        for cell in &mut self.cells {
            if let Cell::Call(call) = cell
                && !matches!(call.state, CallState::Done(_))
            {
                call.give_up();
            }
        }
        if let Some(cost) = finished.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
        self.cells.push(Cell::Ended(Box::new(finished.clone())));
        self.turn = None;
    }

    fn begin(&mut self, session: &str, started: &SessionStarted, resumed: Option<u64>) {
        session.clone_into(&mut self.session);
        self.model.clone_from(&started.model);
        self.mode = Some(started.permission_mode);
        self.cwd.clone_from(&started.cwd);
        let sandbox = match started.sandbox.backend.as_str() {
            "none" => "none: commands are asked about one by one".to_owned(),
            backend => format!("{backend}, network {}", started.sandbox.network),
        };
        let mut rows = vec![
            ("agent".to_owned(), started.program.clone()),
            ("folder".to_owned(), started.cwd.clone()),
            ("model".to_owned(), started.model.clone()),
            ("sandbox".to_owned(), sandbox),
        ];
        if let Some(events) = resumed {
            rows.push(("resumed".to_owned(), format!("{session}, {events} events")));
        }
        self.cells.push(Cell::Head(rows));
    }

    /// One sentence more.
    pub(super) fn note(&mut self, tone: Tone, text: &str) {
        self.cells.push(Cell::Note(tone, text.to_owned()));
    }

    /// The call that a person is asked about.
    pub(super) fn asked(&self, id: &str) -> Option<&Call> {
        self.cells.iter().rev().find_map(|cell| match cell {
            Cell::Call(call) if call.id == id => Some(&**call),
            _ => None,
        })
    }

    /// The calls that wait or run, oldest first.
    pub(super) fn open_calls(&self) -> impl Iterator<Item = &Call> {
        self.cells[self.printed..].iter().filter_map(|cell| match cell {
            Cell::Call(call) if !cell.is_done() => Some(&**call),
            _ => None,
        })
    }

    fn call(&mut self, id: &str) -> Option<&mut Call> {
        self.cells.iter_mut().rev().find_map(|cell| match cell {
            Cell::Call(call) if call.id == id => Some(&mut **call),
            _ => None,
        })
    }

    fn does(&mut self, doing: Doing, now: Instant) {
        if let Some(turn) = &mut self.turn
            && turn.doing != doing
        {
            turn.doing = doing;
            turn.since = now;
        }
    }

    fn end_thought(&mut self) {
        if !self.thought.trim().is_empty() {
            self.cells.push(Cell::Reasoning(std::mem::take(&mut self.thought)));
        }
        self.thought.clear();
    }

    /// What was said becomes a cell.
    fn end_stream(&mut self) {
        if !self.said.is_empty() {
            self.ended.push_back(Ended {
                cell: self.cells.len(),
                rest: std::mem::take(&mut self.stream),
                has_begun: std::mem::take(&mut self.stream_has_begun),
            });
            self.cells.push(Cell::Answer(std::mem::take(&mut self.said)));
        }
    }

    /// What is being said, and is in no cell yet.
    pub(super) fn saying(&self) -> &str {
        &self.said
    }

    /// The end of what is being said, as it looks now.
    pub(super) fn tail(&self, look: Look) -> Vec<Line<'static>> {
        if self.said.is_empty() { Vec::new() } else { self.stream.tail(look) }
    }

    /// Everything that will not change any more and was not taken yet: for the terminal's history.
    pub(super) fn take_finished(&mut self, look: Look) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        while let Some(cell) = self.cells.get(self.printed) {
            let is_ended = self.ended.front().is_some_and(|ended| ended.cell == self.printed);
            if is_ended && let Some(mut ended) = self.ended.pop_front() {
                let mut rest = ended.rest.take_finished(look);
                rest.extend(ended.rest.finish(look));
                self.part(Kind::Words, ended.has_begun, rest, &mut lines);
                self.printed += 1;
                continue;
            }
            if let Cell::Call(call) = cell
                && call.question.is_some()
                && !self.question_is_printed
            {
                let asked = call.question_lines(look);
                self.part(Kind::Deeds, false, asked, &mut lines);
                self.question_is_printed = true;
                continue;
            }
            if self.hides_user && matches!(cell, Cell::User(_)) {
                self.printed += 1;
                continue;
            }
            if !cell.is_done() {
                return lines;
            }
            let (kind, of_cell) = match cell {
                // What was asked about it is there already.
                Cell::Call(call) => (Kind::Deeds, call.outcome_lines(look, Detail::Brief)),
                cell => (cell.kind(), cell.lines(look, Detail::Brief)),
            };
            self.part(kind, false, of_cell, &mut lines);
            self.question_is_printed = false;
            self.printed += 1;
        }
        if !self.said.is_empty() {
            let finished = self.stream.take_finished(look);
            if !finished.is_empty() {
                self.part(Kind::Words, self.stream_has_begun, finished, &mut lines);
                self.stream_has_begun = true;
            }
        }
        lines
    }

    /// What was applied happened before. Only the last turns of it are printed; the rest can be looked at.
    pub(super) fn recall(&mut self) {
        self.turn = None;
        // Other sessions' heads say nothing any more.
        self.cells.retain(|cell| !matches!(cell, Cell::Head(_)));
        let turns = self.cells.iter().enumerate().filter(|(_, cell)| matches!(cell, Cell::User(_)));
        let from = turns.rev().nth(RECALLED - 1).map_or(0, |(at, _)| at);
        self.printed = from;
        if from > 0 {
            let text =
                format!("{from} earlier things are not printed again; they can be looked at");
            self.cells.insert(from, Cell::Note(Tone::Quiet, text));
        }
        self.usage = Usage::default();
        self.cost_usd = None;
    }

    fn part(
        &mut self,
        kind: Kind,
        goes_on: bool,
        of_cell: Vec<Line<'static>>,
        lines: &mut Vec<Line<'static>>,
    ) {
        if of_cell.is_empty() {
            return;
        }
        let is_apart = kind == Kind::Words || self.last == Some(Kind::Words);
        if self.last.is_some() && is_apart && !goes_on {
            lines.push(Line::default());
        }
        self.last = Some(kind);
        lines.extend(of_cell);
    }

    /// The live area, if it shows something of the conversation, stands behind a blank line.
    pub(super) fn is_apart(&self, kind: Kind) -> bool {
        self.last.is_some_and(|last| kind == Kind::Words || last == Kind::Words)
            && !(kind == Kind::Words && self.stream_has_begun)
    }
}
