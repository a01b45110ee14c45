//! The conversation: converts events to cells, and tracks which are in the terminal's scrollback.

mod agents;
mod notes;
mod requests;
mod scrollback;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Instant;

use ratatui::text::Line;

use super::cells::{
    Call, CallState, Cell, CellGroup, Detail, KernelNote, PermissionQuestion, RenderOptions,
    TodoChange, Tone, title_line,
};
use super::markdown::MarkdownStream;
use super::theme::StyleRole;
use agent_protocol::control::PermissionMode;
use agent_protocol::envelope::Envelope;
use agent_protocol::event::{
    CallProgress, DISTILLATION, Event, EventBody, RequestLayer, SessionStarted, TurnFinished,
    UserMessage, describe_resume_point,
};
use agent_protocol::model::WindowSource;
use agent_protocol::plan::Plan;
use agent_protocol::pluralize;
use agent_protocol::provider::Effort;
use agent_protocol::spending::Spending;
use agent_protocol::terminal_escape::escape_literal_line;

#[expect(clippy::struct_excessive_bools, reason = "each is so or not, whatever the others are")]
#[derive(Debug, Default)]
pub(super) struct Conversation {
    pub(super) cells: Vec<Cell>,
    n_printed: usize,
    /// The waiting question is printed: the live area has no room for it.
    pub(super) prints_question: bool,
    pub(super) last_group: Option<CellGroup>,
    pub(super) stream: MarkdownStream,
    /// The whole text, for the cell.
    pub(super) streamed_answer: String,
    stream_has_begun: bool,
    pending_answers: VecDeque<PendingAnswer>,
    pub(super) reasoning: String,
    /// The calls of the answer that is arriving.
    drafts: Vec<CallProgress>,
    /// The keys are ids.
    agents: HashMap<String, agents::AgentProgress>,
    /// The terminal already shows the message as the user typed it.
    pub(super) hides_user_messages: bool,
    /// Reads and searches in a row are not joined: there is no viewer that shows each.
    pub(super) prints_each_call: bool,
    pub(super) plan: Plan,
    /// The latest turn changed the plan.
    pub(super) has_plan_change: bool,
    pub(super) turns: Vec<PastTurn>,
    pub(super) turn: Option<RunningTurn>,
    pub(super) model: String,
    pub(super) effort: Option<Effort>,
    pub(super) mode: Option<PermissionMode>,
    pub(super) cwd: String,
    /// The tokens of the last request and its answer.
    pub(super) context_tokens: u64,
    pub(super) tokens_are_estimated: bool,
    layers: BTreeMap<String, RequestLayer>,
    /// Bytes of the last request in common with the previous one, and all its bytes.
    shared_bytes: (usize, usize),
    failed_tries: requests::FailedTries,
    /// The message of a failure that no cell shows.
    unshown_failure: String,
    /// In tokens; `None`: not known.
    pub(super) window: Option<u64>,
    pub(super) window_source: Option<WindowSource>,
    /// A conversation of more tokens is compacted; `None`: not known.
    pub(super) compacts_at: Option<u64>,
    /// Answers of sub-agents are included.
    pub(super) spending: Spending,
    pub(super) running_cost_usd: Option<f64>,
    /// The previous session is on the screen.
    follows_session: bool,
    /// The same session is on the screen, after a rewind.
    is_reopened: bool,
    /// The program ended during the last recorded turn.
    is_cut_off: bool,
}

#[derive(Debug)]
struct PendingAnswer {
    cell_index: usize,
    stream: MarkdownStream,
    has_begun: bool,
}

#[derive(Debug)]
pub(super) struct RunningTurn {
    pub(super) started: Instant,
    pub(super) activity: TurnActivity,
    pub(super) activity_since: Instant,
    /// The time of the request or of the last data; `None` if no answer is awaited.
    pub(super) last_data: Option<Instant>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TurnActivity {
    Waiting,
    Thinking,
    Answering,
    Calling(String),
    Asking,
    Retrying {
        n: u32,
        at: Instant,
        reason: Option<String>,
    },
    /// A request outside the conversation.
    Consulting(&'static str),
}

#[derive(Debug)]
pub(super) struct PastTurn {
    pub(super) number: u32,
    pub(super) message: String,
    /// The model received the prompt of a command.
    pub(super) is_command: bool,
    /// Changed files, without undone changes.
    pub(super) files: Vec<String>,
}

impl RunningTurn {
    pub(super) fn new(activity: TurnActivity, now: Instant) -> Self {
        Self { started: now, activity, activity_since: now, last_data: None }
    }
}

impl Conversation {
    pub(super) fn apply(&mut self, event: &Event, now: Instant) {
        if !event.header.is_main() {
            return self.apply_agent_event(event, now);
        }
        match &event.body {
            EventBody::SessionStarted(started) => self.begin_session(started, None),
            EventBody::SessionResumed { now: started, .. } => {
                let turn = event.header.place.turn;
                self.begin_session(started, Some(describe_resume_point(turn, self.is_cut_off)));
            }
            EventBody::TurnStarted(message) => {
                self.add_user_message(message);
                let (number, is_command) = (event.header.place.turn, message.command);
                let message = message.input.clone();
                self.has_plan_change = false;
                self.turns.push(PastTurn { number, message, is_command, files: Vec::new() });
                self.turn = Some(RunningTurn::new(TurnActivity::Waiting, now));
            }
            EventBody::TurnSteered(message) => self.add_user_message(message),
            EventBody::ModelRequested(requested) => self.apply_model_request(requested, now),
            EventBody::ModelProgress { purpose, usage, cost_usd, call } => {
                self.apply_model_progress(*purpose, *usage, *cost_usd, now);
                self.update_draft(call.as_ref(), now);
            }
            EventBody::ModelDelta { text, reasoning: true } => {
                self.set_last_data(Some(now));
                self.add_retry_note("");
                self.reasoning.push_str(text);
                self.set_activity(TurnActivity::Thinking, now);
            }
            EventBody::ModelDelta { text, reasoning: false } => {
                self.set_last_data(Some(now));
                self.add_retry_note("");
                self.drafts.clear();
                self.finish_reasoning();
                self.streamed_answer.push_str(text);
                self.stream.push(text);
                self.set_activity(TurnActivity::Answering, now);
            }
            EventBody::ModelResponded(answer) => self.apply_model_response(answer),
            EventBody::ToolStarted { call, tool, input, changed_by, .. } => {
                self.set_activity(TurnActivity::Calling(tool.clone()), now);
                if let Some(call) = self.find_call_mut(call) {
                    call.set_input(tool, input, *changed_by);
                    call.state = CallState::Running { tail: String::new() };
                }
            }
            EventBody::ToolOutput { call, text } => self.set_output_tail(call, text),
            EventBody::ToolFinished { call, tool, envelope, .. } => {
                self.finish_call(call, tool, envelope);
                // The kernel applies it after the whole round, which may be much later.
                if let Some(plan) = Plan::from_envelope(envelope).filter(|_| tool == "TodoWrite") {
                    let methodology = self.plan.methodology.take();
                    self.update_plan(&Plan { methodology, ..plan });
                }
            }
            EventBody::PermissionRequested { .. } => {
                self.add_permission_question(&event.body, None, now);
            }
            EventBody::PermissionDecided { call, ruling, rule, .. }
                if ruling == "allow" || ruling == "reject" =>
            {
                self.note_answer(call, ruling, rule);
                self.set_activity(TurnActivity::Waiting, now);
            }
            EventBody::QuestionAsked { call, questions } => {
                self.set_activity(TurnActivity::Asking, now);
                if let Some(call) = self.find_call_mut(call) {
                    call.questions.clone_from(questions);
                }
            }
            EventBody::QuestionAnswered { .. } => self.set_activity(TurnActivity::Waiting, now),
            EventBody::PlanUpdated { plan, .. } => self.update_plan(plan),
            EventBody::Error { message, reason, retry_in_ms: Some(ms), attempt, .. } => {
                self.apply_retry(message, reason.as_deref(), attempt.unwrap_or(1), *ms, now);
            }
            // It concerns no work of the user; the log has it.
            EventBody::Error { source, .. } if source == DISTILLATION => {}
            // The report at the end of the turn contains the model's error.
            EventBody::Error { source, message, retry_in_ms: None, .. } => {
                self.finish_stream();
                if source == "model" {
                    self.set_last_data(None);
                } else {
                    self.add_note(Tone::Bad, message);
                }
            }
            EventBody::TurnFinished(finished) => self.finish_turn(finished),
            body => self.add_event_note(body),
        }
    }

    fn add_permission_question(&mut self, body: &EventBody, asker: Option<String>, now: Instant) {
        let EventBody::PermissionRequested {
            call,
            tool,
            input,
            reason,
            rule,
            changed_by,
            link_target,
            grants,
            dangers,
            diff,
            ..
        } = body
        else {
            return;
        };
        self.set_activity(TurnActivity::Asking, now);
        let link = link_target
            .as_ref()
            .map(|file| format!("the path is a link to {}", escape_literal_line(file)));
        let is_of_mode = rule.starts_with("mode ");
        let why = if is_of_mode { rule.clone() } else { format!("{reason} ({rule})") };
        let is_only_of_mode = is_of_mode && asker.is_none() && link.is_none();
        let reason = [asker, link, Some(why)].into_iter().flatten().collect::<Vec<_>>().join("; ");
        // A call of the kernel or of a sub-agent has no cell yet.
        if self.find_call_mut(call).is_none() {
            let arguments = serde_json::to_string(input).unwrap_or_default();
            self.insert_output(Cell::Call(Box::new(Call::new(call, tool, &arguments))));
        }
        if let Some(call) = self.find_call_mut(call) {
            call.set_input(tool, input, *changed_by);
            call.question = Some(Box::new(PermissionQuestion {
                reason,
                is_only_of_mode,
                grants: grants.clone(),
                dangers: dangers.clone(),
                diff: diff.clone(),
                is_allowed_by_user: false,
                is_printed: false,
            }));
        }
    }

    fn note_answer(&mut self, call: &str, ruling: &str, rule: &str) {
        if let Some(question) = self.find_call_mut(call).and_then(|call| call.question.as_mut()) {
            question.is_allowed_by_user = ruling == "allow" && rule == "the user";
        }
    }

    fn finish_call(&mut self, call: &str, tool: &str, envelope: &Envelope) {
        if self.find_call_mut(call).is_none() {
            let arguments = serde_json::to_string(&envelope.context.params_input);
            let call = Call::new(call, tool, &arguments.unwrap_or_default());
            self.cells.push(Cell::Call(Box::new(call)));
        }
        if let Some(call) = self.find_call_mut(call) {
            call.finish(envelope);
        }
    }

    fn update_plan(&mut self, plan: &Plan) {
        let is_known = self.plan.todos == plan.todos && self.plan.summary == plan.summary;
        if !is_known && !plan.todos.is_empty() {
            let change = TodoChange::new(&self.plan, plan);
            self.cells.push(Cell::TodoChange(Box::new(change)));
            self.has_plan_change = true;
        }
        self.plan.clone_from(plan);
    }

    fn finish_turn(&mut self, finished: &TurnFinished) {
        self.drafts.clear();
        self.finish_reasoning();
        self.finish_stream();
        for cell in &mut self.cells {
            if let Cell::Call(call) = cell
                && !matches!(call.state, CallState::Done(_))
            {
                call.mark_not_run();
            }
        }
        if let Some(turn) = self.turns.last_mut() {
            turn.files.clone_from(&finished.files_changed);
        }
        self.running_cost_usd = None;
        self.failed_tries = requests::FailedTries::default();
        let mut finished = finished.clone();
        // The confirmation of a verifier is its own note: only checks pass.
        finished.verified = finished.verified.filter(|verified| !verified || self.has_run_checks());
        let plan = self.has_plan_change.then(|| Box::new(self.plan.clone()));
        let plan = plan.filter(|plan| !plan.todos.is_empty());
        self.cells.push(Cell::TurnEnd(Box::new(finished), plan));
        self.turn = None;
    }

    /// Checks since the last message of the user count.
    fn has_run_checks(&self) -> bool {
        let mut since = self.cells.iter().rev().take_while(|cell| !matches!(cell, Cell::User(..)));
        since.any(|cell| matches!(cell, Cell::Check(_)))
    }

    fn begin_session(&mut self, started: &SessionStarted, resumed: Option<String>) {
        self.model.clone_from(&started.model);
        self.mode = Some(started.permission_mode);
        self.cwd.clone_from(&started.cwd);
        // The description of the rewind is shown instead.
        if self.is_reopened {
            return;
        }
        let sandbox = match started.sandbox.backend.as_str() {
            "none" => "none: each command needs approval".to_owned(),
            backend => format!("{backend}, network {}", started.sandbox.network),
        };
        let mut rows = vec![
            ("agent", started.program.clone()),
            ("folder", started.cwd.clone()),
            ("model", started.model.clone()),
            ("sandbox", sandbox),
        ];
        // After another session only changed facts are shown.
        if self.follows_session {
            rows.retain(|(name, _)| *name == "model");
        }
        match resumed {
            Some(after) => {
                rows.push(("resumed", after));
                // The mode may differ from the configuration.
                rows.push(("mode", started.permission_mode.as_str().to_owned()));
            }
            None if self.follows_session => rows.push(("session", "a new one".to_owned())),
            None => {}
        }
        self.cells.push(Cell::SessionHeader(rows));
    }

    pub(super) fn add_note(&mut self, tone: Tone, text: &str) {
        self.cells.push(Cell::Note(tone, text.to_owned()));
    }

    fn add_kernel_note(&mut self, mark: &'static str, summary: String, details: String) {
        self.cells.push(Cell::Kernel(Box::new(KernelNote { mark, summary, details })));
    }

    /// Output is shown immediately, above running calls.
    pub(super) fn insert_output(&mut self, cell: Cell) {
        let open = self.cells[self.n_printed..].iter().position(|cell| !cell.is_done());
        let at = open.map_or(self.cells.len(), |open| self.n_printed + open);
        self.cells.insert(at, cell);
        for ended in self.pending_answers.iter_mut().filter(|ended| ended.cell_index >= at) {
            ended.cell_index += 1;
        }
    }

    fn add_user_message(&mut self, UserMessage { input, shown, images, .. }: &UserMessage) {
        self.cells.push(Cell::User(input.clone(), shown.clone()));
        self.cells.extend(images.iter().map(|image| Cell::Note(Tone::Quiet, image.in_words())));
    }

    pub(super) fn insert_note(&mut self, tone: Tone, text: &str) {
        self.insert_output(Cell::Note(tone, text.to_owned()));
    }

    pub(super) fn find_call(&self, id: &str) -> Option<&Call> {
        self.cells.iter().rev().filter_map(Cell::as_call).find(|call| call.id == id)
    }

    pub(super) fn open_calls(&self) -> impl Iterator<Item = &Call> {
        let cells = self.cells[self.n_printed..].iter();
        cells.filter(|cell| !cell.is_done()).filter_map(Cell::as_call)
    }

    fn find_call_mut(&mut self, id: &str) -> Option<&mut Call> {
        self.cells.iter_mut().rev().find_map(|cell| match cell {
            Cell::Call(call) if call.id == id => Some(&mut **call),
            _ => None,
        })
    }

    fn set_output_tail(&mut self, call: &str, text: &str) {
        if let Some(Call { state: CallState::Running { tail }, .. }) = self.find_call_mut(call) {
            text.clone_into(tail);
        }
    }

    fn set_activity(&mut self, activity: TurnActivity, now: Instant) {
        if let Some(turn) = &mut self.turn
            && turn.activity != activity
        {
            // The time for which a question waited is not that of the turn.
            if turn.activity == TurnActivity::Asking {
                turn.started += now.saturating_duration_since(turn.activity_since);
            }
            turn.activity = activity;
            turn.activity_since = now;
        }
    }

    fn finish_reasoning(&mut self) {
        let reasoning = std::mem::take(&mut self.reasoning);
        if !reasoning.trim().is_empty() {
            self.cells.push(Cell::Reasoning(reasoning));
        }
    }

    fn finish_stream(&mut self) {
        if !self.streamed_answer.is_empty() {
            self.pending_answers.push_back(PendingAnswer {
                cell_index: self.cells.len(),
                stream: std::mem::take(&mut self.stream),
                has_begun: std::mem::take(&mut self.stream_has_begun),
            });
            self.cells.push(Cell::Answer(std::mem::take(&mut self.streamed_answer)));
        }
    }

    /// The calls of the answer that is arriving.
    pub(super) fn draft_lines(&self, options: RenderOptions) -> Vec<Line<'static>> {
        let drafts = self.drafts.iter().enumerate();
        let lines = drafts.map(|(n, draft)| {
            let is_open = n + 1 == self.drafts.len() && draft.lines > 0;
            let how = format!("{} so far", pluralize(draft.lines, "line"));
            let how = if is_open { how.as_str() } else { "" };
            title_line(("◦ ", StyleRole::User), &draft.tool, &draft.subject, how, options)
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::theme::{Background, ColorDepth, Theme};
    use super::*;

    fn options(width: usize) -> RenderOptions {
        RenderOptions { width, theme: Theme::new(ColorDepth::None, Background::Dark) }
    }

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
            json!({"type": "control.decided", "decision": "retry", "detail": "same",
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
                "reason": "answered 429", "retry_in_ms": 2000, "attempt": 1}),
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
            shown(&conversation.take_finished(options(72)))
        );
        let full: Vec<Line<'_>> = conversation
            .cells
            .iter()
            .flat_map(|cell| cell.lines(options(40), Detail::Full))
            .collect();
        insta::assert_snapshot!("cells_in_full_of_40_columns", shown(&full));
    }

    #[test]
    fn printed_lines_do_not_depend_on_frame_timing() {
        let events = everything();
        let whole = shown(&conversation(&events).take_finished(options(72)));
        let mut conversation = Conversation::default();
        let mut lines = Vec::new();
        for body in &events {
            conversation.apply(&event(body), Instant::now());
            lines.extend(conversation.take_finished(options(72)));
        }
        assert_eq!(shown(&lines), whole);
    }

    #[test]
    fn interrupted_answer_and_its_retry_are_separate() {
        let mut conversation = conversation(&[
            json!({"type": "model.delta", "text": "The first try br"}),
            json!({"type": "error", "source": "model", "message": "it broke off", "reason": "the answer ended early",
                "retry_in_ms": 500, "attempt": 1}),
            json!({"type": "model.delta", "text": "The second "}),
            json!({"type": "model.delta", "text": "try."}),
            responded("The second try.", &[]),
        ]);
        assert_eq!(
            shown(&conversation.take_finished(options(60))),
            "The first try br\n\n· the answer ended early: the text above is discarded\n\nThe second try.\n"
        );
    }

    /// The end of a turn with these fields, on a screen of 40 columns.
    fn turn_end(fields: &Value) -> String {
        let mut end = json!({"type": "turn.finished", "ending": "completed", "result": "", "errors": [],
            "files_changed": [], "rounds": 2, "usage": {"input_tokens": 1, "output_tokens": 340},
            "time_ms": 7500, "model_ms": 1});
        for (name, value) in fields.as_object().into_iter().flatten() {
            end[name] = value.clone();
        }
        shown(&conversation(&[end]).take_finished(options(40)))
    }

    #[test]
    fn last_line_of_a_turn_breaks_between_facts() {
        let files: Vec<String> = (0..22).map(|n| format!("f{n}")).collect();
        assert_eq!(
            turn_end(&json!({"files_changed": files})),
            "· 7.5 s · 340 tokens out\n  changed 22 files\n"
        );
        assert_eq!(
            turn_end(&json!({"files_changed": ["src/a.rs", "src/b.rs", "src/a_long_name.rs"]})),
            "· 7.5 s · 340 tokens out\n  changed src/a.rs, src/b.rs,\n  src/a_long_name.rs\n"
        );
    }

    #[test]
    fn refusal_before_the_first_answer_has_no_time_and_one_line_of_the_server() {
        let words = format!("\"no; {}\"", "never; ".repeat(3000));
        let error = format!("the key was refused (401); check KEY; {words}");
        let refused = |rounds: u32| {
            turn_end(&json!({"ending": "model_refused", "errors": [error], "rounds": rounds,
                "usage": {"input_tokens": 0, "output_tokens": 0}}))
        };
        let expected =
            "✗ the key was refused (401)\n  check KEY\n  \"no; never; never; never; never; neve…\n";
        assert_eq!(refused(0), expected);
        assert_eq!(refused(2), format!("{expected}· 7.5 s\n"));
    }

    #[test]
    fn recovery_names_a_call_that_is_not_the_last() {
        let events = everything();
        let retry =
            events.iter().find(|event| event["type"] == "control.decided").expect("a decision");
        let missing = json!({"status": "error", "error": {"code": "NOT_FOUND", "message": "no such file",
            "hint": ""}});
        let good = json!({"status": "success"});
        let calls =
            [("a", "Edit", json!({"path": "a.txt"})), ("b", "Bash", json!({"command": "true"}))];
        for (failing, expected) in [
            (
                "a",
                "✗ Edit a.txt  2.3 s  no such file\n✓ Bash true  2.3 s\n↻ the same call again (2 of 3): Edit a.txt\n",
            ),
            (
                "b",
                "✓ Edit a.txt  +2 −1  2.3 s\n✗ Bash true  2.3 s  no such file\n  the same call again (2 of 3)\n",
            ),
        ] {
            let mut events = vec![responded("", &calls)];
            for (id, tool, _) in &calls {
                let verdict = if *id == failing { &missing } else { &good };
                events.push(finished(id, tool, verdict, &json!({})));
            }
            events.push(retry.clone());
            assert_eq!(shown(&conversation(&events).take_finished(options(60))), expected);
        }
    }

    #[test]
    fn failed_command_without_an_error_text_shows_its_last_line() {
        for (stdout, stderr, expected) in [
            ("step 1\nstep 2\n", "", "step 2"),
            ("step 1\n", "warning: odd\nmore\n", "warning: odd"),
            ("step 1\nerror: no\nstep 2\n", "", "error: no"),
            ("", "", ""),
        ] {
            assert_eq!(super::super::cells::output_error(stdout, stderr), expected);
        }
    }

    #[test]
    fn retries_leave_one_line_and_no_address() {
        let failed = |attempt: u32, message: &str, reason: &str| {
            json!({"type": "error", "source": "model", "message": message, "reason": reason,
                "retry_in_ms": 500, "attempt": attempt})
        };
        let mut conversation = conversation(&[
            failed(1, "https://h/v1: nothing listens", "no connection"),
            failed(2, "https://h/v1: nothing listens", "no connection"),
            failed(3, "the server answered 503", "answered 503"),
            responded("Here I am.", &[]),
        ]);
        assert_eq!(
            shown(&conversation.take_finished(options(60))),
            "· answered 503: 3 tries failed\n\nHere I am.\n"
        );
        let full = conversation.cells[0].text();
        assert_eq!(full.matches("https://h/v1").count(), 1, "{full}");
    }
}
