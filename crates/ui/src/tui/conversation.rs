//! The conversation: converts events to cells, and tracks which are in the terminal's scrollback.

mod agents;
mod history;
mod notes;
mod requests;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::{Duration, Instant};

use ratatui::text::Line;

use super::cells::{Call, CallState, Cell, Detail, Kind, Look, Question, Tone, seconds};
use super::markdown::Stream;
use agent_protocol::control::PermissionMode;
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{Body, Event, Layer, SessionStarted, TurnFinished, resumed_after};
use agent_protocol::message::Image;
use agent_protocol::plan::Plan;
use agent_protocol::provider::Effort;
use agent_protocol::spending::Spending;
use agent_protocol::visible::literal_line;

/// The conversation and its current state.
#[expect(clippy::struct_excessive_bools, reason = "each is so or not, whatever the others are")]
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) cells: Vec<Cell>,
    /// Number of printed cells.
    printed: usize,
    /// The calls whose question is printed.
    printed_questions: HashSet<String>,
    /// The group of the last printed cell.
    last: Option<Kind>,
    /// The answer that is being streamed.
    stream: Stream,
    /// Its whole text, for the cell.
    answer: String,
    /// A part of the stream was printed.
    stream_has_begun: bool,
    /// Cells of earlier answers, until they are printed.
    ended: VecDeque<Ended>,
    /// The current reasoning.
    pub(super) thought: String,
    /// The sub-agents of the session, by id.
    agents: HashMap<String, agents::Agent>,
    /// The user's message is already on the terminal, as it was typed.
    pub(super) hides_user: bool,
    pub(super) plan: Plan,
    /// The turns so far.
    pub(super) turns: Vec<PastTurn>,
    pub(super) turn: Option<Turn>,
    pub(super) model: String,
    /// The reasoning effort that is asked of it.
    pub(super) effort: Option<Effort>,
    pub(super) mode: Option<PermissionMode>,
    pub(super) cwd: String,
    /// Tokens of the last request and its answer.
    pub(super) context_tokens: u64,
    /// They are an estimate: the provider has not counted them.
    pub(super) tokens_are_estimated: bool,
    /// The layers of the last request.
    layers: BTreeMap<String, Layer>,
    /// Bytes of the last request that it has in common with the previous one, and its size.
    shared_bytes: (usize, usize),
    /// The reason of the last retry.
    retried_for: String,
    /// The model's window, if known.
    pub(super) window: Option<u64>,
    /// Tokens and cost of all answers, also of sub-agents.
    pub(super) spending: Spending,
    /// The part of it from before a rewind.
    earlier: Spending,
    /// An estimate of what the running request costs so far.
    pub(super) running_cost_usd: Option<f64>,
    /// The mode for which the reason of questions was explained.
    explained: Option<String>,
    /// It follows another session on the screen.
    is_below: bool,
    /// It is the session that was on the screen, after a rewind.
    is_reopened: bool,
    /// The program ended during the last recorded turn.
    is_cut_off: bool,
}

/// An answer whose end is not printed yet.
#[derive(Debug)]
struct Ended {
    cell: usize,
    rest: Stream,
    has_begun: bool,
}

/// The running turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) started: Instant,
    /// The current activity.
    pub(super) doing: Doing,
    /// Since when.
    pub(super) since: Instant,
    /// While an answer of a model is awaited: when the last data arrived, or the request was sent.
    pub(super) last_data: Option<Instant>,
}

/// The current activity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Doing {
    /// A request was sent.
    Waiting,
    /// The model is reasoning.
    Thinking,
    /// The model is answering.
    Answering,
    /// Tools are running.
    Calling(String),
    /// A question is waiting for the user.
    Asking,
    /// A request is retried.
    Retrying {
        /// The number of the retry.
        n: u32,
        /// When it begins.
        at: Instant,
        /// Why, in a few words.
        reason: Option<String>,
    },
    /// A request outside the conversation.
    Consulting(&'static str),
}

/// The task of a turn, and its result.
#[derive(Debug)]
pub(super) struct PastTurn {
    pub(super) number: u32,
    pub(super) message: String,
    /// The model received the prompt of a command.
    pub(super) is_command: bool,
    /// The files that it changed, without undone ones.
    pub(super) files: Vec<String>,
}

impl Conversation {
    /// Applies an event.
    pub(super) fn apply(&mut self, event: &Event, now: Instant) {
        if !event.header.is_main() {
            return self.of_agent(event, now);
        }
        match &event.body {
            Body::SessionStarted(started) => self.begin(started, None),
            Body::SessionResumed { now: started, .. } => {
                let turn = event.header.place.turn;
                self.begin(started, Some(resumed_after(turn, self.is_cut_off)));
            }
            Body::TurnStarted { input, shown, command, images, .. } => {
                let (number, message) = (event.header.place.turn, input.clone());
                let is_command = *command;
                self.turns.push(PastTurn { number, message, is_command, files: Vec::new() });
                self.show_input(input, shown.as_deref(), images);
                self.turn =
                    Some(Turn { started: now, doing: Doing::Waiting, since: now, last_data: None });
            }
            Body::TurnSteered { input, shown, images, .. } => {
                self.show_input(input, shown.as_deref(), images);
            }
            Body::ModelRequested(requested) => self.requested(requested, now),
            Body::ModelProgress { purpose, usage, cost_usd } => {
                self.progressed(*purpose, *usage, *cost_usd, now);
            }
            Body::ModelDelta { text, reasoning: true } => {
                self.awaits_data(Some(now));
                self.thought.push_str(text);
                self.does(Doing::Thinking, now);
            }
            Body::ModelDelta { text, reasoning: false } => {
                self.awaits_data(Some(now));
                self.end_thought();
                self.answer.push_str(text);
                self.stream.push(text);
                self.does(Doing::Answering, now);
            }
            Body::ModelResponded(answer) => self.responded(answer),
            Body::ToolStarted { call, tool, input, changed_by, .. } => {
                self.does(Doing::Calling(tool.clone()), now);
                if let Some(call) = self.call(call) {
                    call.is_made_with(input, *changed_by);
                    call.state = CallState::Running { tail: String::new() };
                }
            }
            Body::ToolOutput { call, text } => {
                if let Some(Call { state: CallState::Running { tail }, .. }) = self.call(call) {
                    tail.clone_from(text);
                }
            }
            Body::ToolFinished { call, tool, envelope, .. } => {
                self.answered(call, tool, envelope);
                // The kernel applies it after the whole round, which may be much later.
                if let Some(plan) = Plan::written(envelope).filter(|_| tool == "TodoWrite") {
                    let methodology = self.plan.methodology.take();
                    self.plan_is(&Plan { methodology, ..plan });
                }
            }
            Body::PermissionRequested { .. } => self.asks_permission(&event.body, None, now),
            Body::PermissionDecided { ruling, .. } => {
                if ruling == "allow" || ruling == "reject" {
                    self.does(Doing::Waiting, now);
                }
            }
            Body::QuestionAsked { call, questions } => {
                self.does(Doing::Asking, now);
                if let Some(call) = self.call(call) {
                    call.asks.clone_from(questions);
                }
            }
            Body::QuestionAnswered { .. } => self.does(Doing::Waiting, now),
            Body::PlanUpdated { plan, .. } => self.plan_is(plan),
            Body::Error { message, reason, retry_in_ms: Some(ms), attempt, .. } => {
                let (n, delay) = (attempt.unwrap_or(1), Duration::from_millis(*ms));
                self.retries(message, reason.as_deref(), n, delay, now);
            }
            // The report at the end of the turn contains the model's error.
            Body::Error { source, message, retry_in_ms: None, .. } => {
                self.end_stream();
                if source == "model" {
                    self.awaits_data(None);
                } else {
                    self.note(Tone::Bad, message);
                }
            }
            Body::TurnFinished(finished) => self.finished(finished),
            Body::ModeChanged { .. }
            | Body::RuleAdded { .. }
            | Body::RuleRemoved { .. }
            | Body::Reminder { .. }
            | Body::Reflected { .. }
            | Body::ControlDecided { .. }
            | Body::Feedback { .. }
            | Body::CheckFinished { .. }
            | Body::ContextCompacted(_)
            | Body::PinAdded { .. }
            | Body::PinRemoved { .. }
            | Body::SessionRenamed { .. }
            | Body::ModelFallback { .. }
            | Body::DirectoryAdded { .. }
            | Body::RulesFound { .. }
            | Body::Verified(_)
            | Body::MemoryRecalled(_)
            | Body::MemoryWritten(_)
            | Body::McpServer { .. }
            | Body::HookFinished(_)
            | Body::TurnUndone { .. } => self.noted(&event.body),
            // Commands of the user are shown when they end; rewinds and forks are reported when the session
            // continues.
            // (Of an answer the deltas are shown, and on resume the part that was received.)
            Body::UserCommand { .. }
            | Body::ModelPartial { .. }
            | Body::ContextOverflowed { .. }
            | Body::SessionForked { .. }
            | Body::SessionRewound { .. }
            | Body::Evaluation { .. }
            | Body::AgentStarted { .. }
            | Body::AgentFinished(_)
            | Body::SessionSummary(_) => {}
        }
    }

    /// Adds the question to the cell of its call; `asker`: who asks, if it is a sub-agent.
    fn asks_permission(&mut self, body: &Body, asker: Option<String>, now: Instant) {
        let Body::PermissionRequested {
            call,
            tool,
            input,
            reason,
            rule,
            changed_by,
            link_target,
            grants,
            diff,
            ..
        } = body
        else {
            return;
        };
        self.does(Doing::Asking, now);
        let link = about_link(link_target.as_ref());
        let why = Some(self.why(reason, rule)).filter(|why| !why.is_empty());
        let why = [asker, link, why].into_iter().flatten().collect::<Vec<_>>().join("; ");
        // A call of the kernel or of a sub-agent has no cell yet.
        if self.call(call).is_none() {
            let arguments = serde_json::to_string(input).unwrap_or_default();
            self.aside(Cell::Call(Box::new(Call::new(call, tool, &arguments))));
        }
        if let Some(call) = self.call(call) {
            call.is_made_with(input, *changed_by);
            let question = Question { why, grants: grants.clone(), diff: diff.clone() };
            call.question = Some(Box::new(question));
        }
    }

    /// Why the user is asked. The reason of a mode is shown once.
    fn why(&mut self, reason: &str, rule: &str) -> String {
        let Some(mode) = rule.strip_prefix("mode ") else { return format!("{reason} ({rule})") };
        if self.explained.as_deref() == Some(mode) {
            return String::new();
        }
        self.explained = Some(mode.to_owned());
        format!("mode {mode} asks before this; /mode changes how freely it may act")
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
        let is_shown = self.plan.todos == plan.todos && self.plan.summary == plan.summary;
        self.plan.clone_from(plan);
        if plan.todos.is_empty() || is_shown {
            return;
        }
        // Of consecutive plans only the last counts.
        let from = self.printed;
        let mut waiting = self.cells.iter_mut().skip(from);
        match waiting.find(|cell| matches!(cell, Cell::Plan(_))) {
            Some(cell) => *cell = Cell::Plan(Box::new(plan.clone())),
            None => self.cells.push(Cell::Plan(Box::new(plan.clone()))),
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
        if let Some(turn) = self.turns.last_mut() {
            turn.files.clone_from(&finished.files_changed);
        }
        self.running_cost_usd = None;
        let mut finished = finished.clone();
        // The confirmation of a verifier is its own note: only checks pass.
        finished.verified = finished.verified.filter(|verified| !verified || self.has_checked());
        self.cells.push(Cell::Ended(Box::new(finished)));
        self.turn = None;
    }

    /// Checks ran after the last message of the user.
    fn has_checked(&self) -> bool {
        let since = self.cells.iter().rev().take_while(|cell| !matches!(cell, Cell::User(..)));
        since.into_iter().any(|cell| matches!(cell, Cell::Check(_)))
    }

    fn begin(&mut self, started: &SessionStarted, resumed: Option<String>) {
        self.model.clone_from(&started.model);
        self.mode = Some(started.permission_mode);
        self.cwd.clone_from(&started.cwd);
        // What the rewind did is said instead.
        if self.is_reopened {
            return;
        }
        let sandbox = match started.sandbox.backend.as_str() {
            "none" => "none: each command needs approval".to_owned(),
            backend => format!("{backend}, network {}", started.sandbox.network),
        };
        let mut rows = vec![
            ("agent".to_owned(), started.program.clone()),
            ("folder".to_owned(), started.cwd.clone()),
            ("model".to_owned(), started.model.clone()),
            ("sandbox".to_owned(), sandbox),
        ];
        // After another session only changed facts are shown.
        if self.is_below {
            rows.retain(|(name, _)| name == "model");
        }
        match resumed {
            Some(after) => {
                rows.push(("resumed".to_owned(), after));
                // It may be another one than that of the configuration.
                rows.push(("mode".to_owned(), started.permission_mode.as_str().to_owned()));
            }
            None if self.is_below => {
                rows.push(("session".to_owned(), "a new one".to_owned()));
            }
            None => {}
        }
        self.cells.push(Cell::Head(rows));
    }

    /// Adds a note.
    pub(super) fn note(&mut self, tone: Tone, text: &str) {
        self.cells.push(Cell::Note(tone, text.to_owned()));
    }

    /// Adds output of a command of the chat or the user: shown immediately, above running calls.
    pub(super) fn aside(&mut self, cell: Cell) {
        let open = self.cells[self.printed..].iter().position(|cell| !cell.is_done());
        let at = open.map_or(self.cells.len(), |open| self.printed + open);
        self.cells.insert(at, cell);
        for ended in self.ended.iter_mut().filter(|ended| ended.cell >= at) {
            ended.cell += 1;
        }
    }

    /// Adds a message of the user.
    fn show_input(&mut self, input: &str, shown: Option<&str>, images: &[Image]) {
        self.cells.push(Cell::User(input.to_owned(), shown.map(str::to_owned)));
        for image in images {
            self.cells.push(Cell::Note(Tone::Quiet, image.in_words()));
        }
    }

    /// Adds a note as an aside.
    pub(super) fn remark(&mut self, tone: Tone, text: &str) {
        self.aside(Cell::Note(tone, text.to_owned()));
    }

    /// The call of a permission question.
    pub(super) fn asked(&self, id: &str) -> Option<&Call> {
        self.cells.iter().rev().find_map(|cell| match cell {
            Cell::Call(call) if call.id == id => Some(&**call),
            _ => None,
        })
    }

    /// The position of this call's cell.
    pub(super) fn position(&self, id: &str) -> Option<usize> {
        self.cells.iter().rposition(|cell| matches!(cell, Cell::Call(call) if call.id == id))
    }

    /// The waiting and running calls, oldest first.
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

    /// Converts the streamed answer to a cell.
    fn end_stream(&mut self) {
        if !self.answer.is_empty() {
            self.ended.push_back(Ended {
                cell: self.cells.len(),
                rest: std::mem::take(&mut self.stream),
                has_begun: std::mem::take(&mut self.stream_has_begun),
            });
            self.cells.push(Cell::Answer(std::mem::take(&mut self.answer)));
        }
    }

    /// The streamed text that is in no cell yet.
    pub(super) fn saying(&self) -> &str {
        &self.answer
    }

    /// The end of the streamed text, rendered.
    pub(super) fn tail(&self, look: Look) -> Vec<Line<'static>> {
        if self.answer.is_empty() { Vec::new() } else { self.stream.tail(look) }
    }
}

/// What the user has to know about the path of a call.
fn about_link(link_target: Option<&String>) -> Option<String> {
    link_target.map(|file| format!("the path is a link to {}", literal_line(file)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::theme::{Background, Depth, Theme};
    use super::*;

    fn look(width: usize) -> Look {
        Look { width, theme: Theme::new(Depth::None, Background::Dark) }
    }

    /// The event with this body.
    fn event(body: &Value) -> Event {
        let mut event = json!({"v": 2, "seq": 1, "ts": "", "session": "s", "agent": "main",
                               "turn": 1, "round": 1, "step": 0});
        for (name, value) in body.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        serde_json::from_value(event).expect("an event")
    }

    fn responded(text: &str, calls: &[(&str, &str, Value)]) -> Value {
        let calls = calls.iter().map(
            |(id, name, input)| json!({"id": id, "name": name, "arguments": input.to_string()}),
        );
        json!({"type": "model.responded", "purpose": "main", "text": text, "stop": "end", "time_ms": 1,
               "calls": calls.collect::<Vec<_>>()})
    }

    fn finished(call: &str, tool: &str, verdict: &Value, data: &Value) -> Value {
        let mut envelope = json!({"data": data, "text": "", "stats": {"time_ms": 2300, "matched_files": 2,
            "matched_lines": 7, "lines_added": 2, "lines_removed": 1},
            "context": {"cwd": ".", "params_input": {}}});
        for (name, value) in verdict.as_object().into_iter().flatten() {
            envelope[name] = value.clone();
        }
        json!({"type": "tool.finished", "call": call, "tool": tool, "envelope": envelope})
    }

    fn shown(lines: &[Line<'_>]) -> String {
        lines.iter().map(|line| format!("{}\n", line.to_string().trim_end())).collect()
    }

    fn conversation(events: &[Value]) -> Conversation {
        let mut conversation = Conversation::default();
        for body in events {
            conversation.apply(&event(body), Instant::now());
        }
        conversation
    }

    fn everything() -> Vec<Value> {
        let good = json!({"status": "success"});
        let counters = |n: u32| {
            json!({"retry_count": {"n": n, "max": 3},
            "single_step_repair_count": {"n": 0, "max": 1}, "task_replan_count": {"n": 0, "max": 1},
            "consecutive_failures": n, "unvaried_failures": {"n": 0, "max": 3}})
        };
        vec![
            json!({"type": "turn.started", "input": "mend the parser\nand test it"}),
            json!({"type": "model.delta", "text": "I should look first.", "reasoning": true}),
            json!({"type": "model.delta", "text": "I look at **both**.\n\n"}),
            responded(
                "I look at **both**.\n\n",
                &[
                    ("a", "Read", json!({"path": "src/parser.rs"})),
                    ("b", "Grep", json!({"pattern": "fn parse", "path": "src"})),
                    ("c", "TodoWrite", json!({"summary": "mend", "todos": []})),
                ],
            ),
            finished("b", "Grep", &good, &json!({})),
            finished(
                "a",
                "Read",
                &json!({"status": "partial"}),
                &json!({"content": "…", "start_line": 1, "end_line": 120, "total_lines": 800}),
            ),
            finished("c", "TodoWrite", &good, &json!({})),
            json!({"type": "plan.updated", "reason": "", "plan": {"summary": "mend the parser", "todos": [
                {"content": "find the fault", "status": "completed"},
                {"content": "mend it", "status": "in_progress"},
                {"content": "run the tests", "status": "pending"}]}}),
            responded("", &[("d", "Edit", json!({"path": "src/parser.rs"}))]),
            finished(
                "d",
                "Edit",
                &json!({"status": "error", "error": {"code": "NO_MATCH",
                "message": "old_string does not occur in src/parser.rs", "hint": "the nearest passage is line 12"}}),
                &json!({}),
            ),
            json!({"type": "control.decided", "decision": "retry", "detail": "feedback",
                "reason": "parameter_error: old_string does not occur", "before": counters(1),
                "after": counters(2), "evidence": 1}),
            responded("", &[("e", "Edit", json!({"path": "src/parser.rs"}))]),
            finished(
                "e",
                "Edit",
                &good,
                &json!({"applied": true, "diff_preview":
                "--- a/src/parser.rs\n+++ b/src/parser.rs\n@@ -12,3 +12,4 @@\n fn parse() {\n-    let x = 1;\n+    let x = 2;\n+    let y = 3;\n }\n"}),
            ),
            responded(
                "",
                &[("f", "Bash", json!({"command": "cargo test 2>&1 | tail -3\necho end"}))],
            ),
            finished(
                "f",
                "Bash",
                &json!({"status": "error", "error": {"code": "COMMAND_FAILED",
                "message": "exited 101"}}),
                &json!({"stdout": "one\ntwo\nthree\n", "stderr": "", "exit_code": 101,
                "stages": [{"command": "cargo test", "exit_code": 101}, {"command": "tail -3", "exit_code": 0}]}),
            ),
            json!({"type": "check.finished", "command": "cargo test", "exit_code": 1, "passed": false,
                "tail": "test a ... FAILED\n", "time_ms": 4100}),
            json!({"type": "feedback", "text": "the check fails"}),
            json!({"type": "error", "source": "model", "message": "429 Too Many Requests",
                "retry_in_ms": 2000, "attempt": 1}),
            responded("Done.", &[]),
            json!({"type": "turn.finished", "ending": "check_failed",
                "result": "not done (check_failed): cargo test\nTried: Edit src/parser.rs", "errors": [],
                "verified": false, "files_changed": ["src/parser.rs"], "rounds": 5,
                "usage": {"input_tokens": 12000, "output_tokens": 340}, "time_ms": 65000, "model_ms": 1}),
        ]
    }

    #[test]
    fn cells_are_rendered() {
        let mut conversation = conversation(&everything());
        insta::assert_snapshot!(
            "cells_of_72_columns",
            shown(&conversation.take_finished(look(72)))
        );
        let full: Vec<Line<'_>> =
            conversation.cells.iter().flat_map(|cell| cell.lines(look(40), Detail::Full)).collect();
        insta::assert_snapshot!("cells_in_full_of_40_columns", shown(&full));
    }

    #[test]
    fn printed_lines_do_not_depend_on_frame_timing() {
        let events = everything();
        let whole = shown(&conversation(&events).take_finished(look(72)));
        let mut conversation = Conversation::default();
        let mut lines = Vec::new();
        for body in &events {
            conversation.apply(&event(body), Instant::now());
            lines.extend(conversation.take_finished(look(72)));
        }
        // A printed plan is not removed; here there is only one.
        assert_eq!(shown(&lines), whole);
    }

    #[test]
    fn interrupted_answer_and_its_retry_are_separate() {
        let mut conversation = conversation(&[
            json!({"type": "model.delta", "text": "The first try br"}),
            json!({"type": "error", "source": "model", "message": "it broke off", "retry_in_ms": 500, "attempt": 1}),
            json!({"type": "model.delta", "text": "The second "}),
            json!({"type": "model.delta", "text": "try."}),
            responded("The second try.", &[]),
        ]);
        assert_eq!(
            shown(&conversation.take_finished(look(60))),
            "The first try br\n\n! try 1 failed: it broke off; the text above is discarded;\n  the next in 0.5 s\n\nThe second try.\n"
        );
    }

    #[test]
    fn repeated_retry_reason_is_shown_once() {
        let failed = |attempt: u32, message: &str| json!({"type": "error", "source": "model", "message": message, "retry_in_ms": 500, "attempt": attempt});
        let mut conversation = conversation(&[
            failed(1, "nobody listens"),
            failed(2, "nobody listens"),
            failed(3, "it is busy"),
            failed(1, "it is busy"),
        ]);
        assert_eq!(
            shown(&conversation.take_finished(look(60))),
            "! try 1 failed: nobody listens; the next in 0.5 s\n\
             ! try 3 failed: it is busy; the next in 0.5 s\n\
             ! try 1 failed: it is busy; the next in 0.5 s\n"
        );
    }
}
