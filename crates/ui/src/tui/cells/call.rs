//! Tool calls: their state, the permission question, and the result.

use ratatui::text::{Line, Span};
use serde_json::Value;

use super::lines::{
    Fold, command_lines, count_lines, diff_lines, failure_lines, folded_lines, format_count,
    format_millis, live_output_lines, text_lines, title_line,
};
use super::{Detail, RenderOptions};
use crate::tui::text::truncate;
use crate::tui::theme::StyleRole;
use agent_protocol::command_output::{error_line, render_output};
use agent_protocol::control::Grant;
use agent_protocol::envelope::{Envelope, ErrorCode};
use agent_protocol::event::ChangeAuthor;
use agent_protocol::question::{Question as Inquiry, UserAnswer};
use agent_protocol::terminal_escape::{escape_literal, escape_literal_line, escape_prose};
use agent_protocol::view::{command_place, mcp_subject, render_for_model};
use agent_protocol::{Object, format_size, pluralize};

/// Lines in [`Detail::Brief`].
const DIFF_LINES: usize = 24;

#[derive(Debug)]
pub(in crate::tui) struct Call {
    pub(in crate::tui) id: String,
    pub(in crate::tui) tool: String,
    /// A path, a pattern, a command.
    pub(in crate::tui) subject: String,
    /// `None` for the foreground in the root.
    place: Option<String>,
    /// As the model wrote it; `None` unless a hook changed the call.
    model_subject: Option<String>,
    pub(in crate::tui) question: Option<Box<PermissionQuestion>>,
    pub(in crate::tui) questions: Vec<Inquiry>,
    pub(in crate::tui) state: CallState,
}

#[derive(Debug)]
pub(in crate::tui) enum CallState {
    Waiting,
    Running { tail: String },
    Done(Box<CallOutcome>),
}

#[derive(Clone, Debug)]
pub(in crate::tui) struct PermissionQuestion {
    pub(in crate::tui) reason: String,
    /// The mode asks before each such call; nothing else is to say.
    pub(in crate::tui) is_only_of_mode: bool,
    pub(in crate::tui) grants: Vec<Grant>,
    /// What it would delete, and other dangers, in words.
    pub(in crate::tui) dangers: Vec<String>,
    pub(in crate::tui) diff: Option<String>,
    pub(in crate::tui) is_allowed_by_user: bool,
    /// The question is in the scrollback.
    pub(in crate::tui) is_printed: bool,
}

#[derive(Debug)]
pub(in crate::tui) struct CallOutcome {
    mark: OutcomeMark,
    summary: String,
    /// The telling part of a failure.
    telling: String,
    body: OutcomeBody,
    /// Restrictions and changes by the sandbox.
    notes: Vec<String>,
    time_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutcomeMark {
    Good,
    Partial,
    Bad,
}

#[derive(Debug)]
enum OutcomeBody {
    None,
    /// The text, and the number of changed lines.
    Diff(String, usize),
    /// With the number of lines that are missing in the text.
    Output(String, usize, Fold),
    Answers(Vec<UserAnswer>),
    /// The text is shown only in [`Detail::Full`].
    Text(String),
}

impl Call {
    pub(in crate::tui) fn new(id: &str, tool: &str, arguments: &str) -> Self {
        let input: Object = serde_json::from_str(arguments).unwrap_or_default();
        Self {
            id: id.to_owned(),
            tool: tool.to_owned(),
            subject: call_subject(tool, &input),
            place: command_place(tool, &input),
            model_subject: None,
            question: None,
            questions: Vec::new(),
            state: CallState::Waiting,
        }
    }

    /// The model may have written another name of the tool, too.
    pub(in crate::tui) fn set_input(
        &mut self,
        tool: &str,
        input: &Object,
        changed_by: Option<ChangeAuthor>,
    ) {
        tool.clone_into(&mut self.tool);
        self.place = command_place(&self.tool, input);
        let written = std::mem::replace(&mut self.subject, call_subject(&self.tool, input));
        if changed_by == Some(ChangeAuthor::Hook) {
            self.model_subject.get_or_insert(written);
        }
    }

    fn change_lines(&self, options: RenderOptions) -> Vec<Line<'static>> {
        let Some(written) = &self.model_subject else { return Vec::new() };
        let mut text = "a hook changed this call".to_owned();
        // A change of other arguments is in the call's result.
        if *written != self.subject {
            text.push_str(&format!("; the model wrote: {}", escape_literal_line(written)));
        }
        options.indent("  ", &[options.span(text, StyleRole::Quiet)])
    }

    pub(in crate::tui) fn finish(&mut self, envelope: &Envelope) {
        let has_begun = matches!(self.state, CallState::Running { .. });
        self.state = CallState::Done(Box::new(CallOutcome::new(&self.tool, envelope, has_begun)));
    }

    pub(in crate::tui) fn mark_not_run(&mut self) {
        self.state = CallState::Done(Box::new(CallOutcome {
            mark: OutcomeMark::Bad,
            summary: "not run".to_owned(),
            telling: String::new(),
            body: OutcomeBody::None,
            notes: Vec::new(),
            time_ms: 0,
        }));
    }

    pub(super) fn lines(&self, options: RenderOptions, detail: Detail) -> Vec<Line<'static>> {
        match (&self.state, &self.question) {
            (CallState::Waiting, Some(question)) => self.question_lines(question, options),
            _ => self.outcome_lines(options, detail),
        }
    }

    /// A read or search of which nothing more is to say, or none so far.
    pub(in crate::tui) fn is_exploration(&self) -> bool {
        let is_plain = match &self.state {
            CallState::Waiting | CallState::Running { .. } => true,
            CallState::Done(outcome) => {
                outcome.mark == OutcomeMark::Good && outcome.notes.is_empty()
            }
        };
        let is_known = matches!(self.tool.as_str(), "Read" | "Grep" | "Glob" | "LS");
        is_plain && is_known && self.question.is_none() && self.model_subject.is_none()
    }

    /// The question in the scrollback and in the viewer.
    pub(in crate::tui) fn question_lines(
        &self,
        question: &PermissionQuestion,
        options: RenderOptions,
    ) -> Vec<Line<'static>> {
        let name = self.name(options);
        let title = title_line(("? ", StyleRole::Warn), &name, &self.subject, "", options);
        let body = self.question_body(question, &title.to_string(), options);
        std::iter::once(title).chain(body).collect()
    }

    /// The question in the live area: what will happen stands once, in its title or below.
    pub(in crate::tui) fn question_block(
        &self,
        question: &PermissionQuestion,
        options: RenderOptions,
    ) -> Vec<Line<'static>> {
        let ask = match (self.tool.as_str(), self.subject.trim().lines().count()) {
            ("Bash", 0 | 1) => "Run this command?".to_owned(),
            ("Bash", n) => format!("Run these {n} lines?"),
            _ => self.question_in_words(options),
        };
        let mode = if question.is_only_of_mode {
            format!("  ({})", question.reason)
        } else {
            String::new()
        };
        let room = RenderOptions { width: options.width.saturating_sub(mode.len()), ..options };
        let mut title = room.cut_line(&ask, StyleRole::Warn);
        let above = if self.tool == "Bash" { String::new() } else { title.to_string() };
        let body = self.question_body(question, &above, options);
        title.spans.push(options.span(mode, StyleRole::Quiet));
        std::iter::once(title).chain(body).collect()
    }

    /// In one line.
    pub(in crate::tui) fn question_in_words(&self, options: RenderOptions) -> String {
        let call = format!("{} {}", self.name(options), self.subject);
        format!("Allow {}?", escape_literal(&call).trim().replace('\n', " ⏎ "))
    }

    fn question_body(
        &self,
        question: &PermissionQuestion,
        above: &str,
        options: RenderOptions,
    ) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if !above.contains(escape_literal(&self.subject).trim()) {
            lines.extend(command_lines(&self.subject, options));
        }
        lines.extend(self.place_lines(above, options));
        lines.extend(self.change_lines(options));
        if let Some(diff) = &question.diff {
            lines.extend(diff_lines(diff, 0, usize::MAX, options, Detail::Full));
        }
        if !question.is_only_of_mode {
            let why = escape_literal(&question.reason).into_owned();
            lines.extend(options.indent("  ", &[options.span(why, StyleRole::Quiet)]));
        }
        for danger in &question.dangers {
            let danger = options.span(escape_literal_line(danger).into_owned(), StyleRole::Bad);
            let mark = options.span("  ! ", StyleRole::Bad);
            lines.extend(options.wrap(&mark, &Span::raw("    "), &[danger]));
        }
        lines
    }

    /// The tool, and where a command runs. A long directory is cut.
    pub(in crate::tui) fn name(&self, options: RenderOptions) -> String {
        match &self.place {
            None => self.tool.clone(),
            Some(place) => {
                let place = truncate(&escape_literal_line(place), options.width / 2);
                format!("{} ({place})", self.tool)
            }
        }
    }

    /// Empty if the text above contains the place.
    fn place_lines(&self, above: &str, options: RenderOptions) -> Vec<Line<'static>> {
        let place = self.place.as_deref().map(escape_literal_line);
        let Some(place) = place.filter(|place| !above.contains(&**place)) else {
            return Vec::new();
        };
        options.indent("  ", &[Span::raw(place.into_owned())])
    }

    pub(in crate::tui) fn is_done(&self) -> bool {
        matches!(self.state, CallState::Done(_))
    }

    pub(in crate::tui) fn has_failed(&self) -> bool {
        self.mark().1 == StyleRole::Bad
    }

    pub(in crate::tui) fn mark(&self) -> (&'static str, StyleRole) {
        match &self.state {
            CallState::Waiting => ("· ", StyleRole::Quiet),
            CallState::Running { .. } => ("◦ ", StyleRole::User),
            CallState::Done(outcome) => match outcome.mark {
                OutcomeMark::Good => ("✓ ", StyleRole::Good),
                OutcomeMark::Partial => ("! ", StyleRole::Warn),
                OutcomeMark::Bad => ("✗ ", StyleRole::Bad),
            },
        }
    }

    pub(in crate::tui) fn outcome_lines(
        &self,
        options: RenderOptions,
        detail: Detail,
    ) -> Vec<Line<'static>> {
        let name = self.name(options);
        let title = |mark, how: &str| title_line(mark, &name, &self.subject, how, options);
        let outcome = match &self.state {
            CallState::Waiting => return vec![title(self.mark(), "")],
            CallState::Running { tail } => {
                let mut lines = vec![title(self.mark(), "")];
                lines.extend(live_output_lines(tail, options));
                let questions = self.questions.iter();
                lines.extend(questions.flat_map(|asks| user_question_lines(asks, options)));
                return lines;
            }
            CallState::Done(outcome) => outcome,
        };
        let mark = self.mark();
        // Plan changes are displayed as a plan.
        if self.tool == "TodoWrite" && outcome.mark != OutcomeMark::Bad && detail == Detail::Brief {
            return Vec::new();
        }
        let mut how = outcome.summary.clone();
        // The time includes waiting for the user's answer.
        if outcome.time_ms >= 1000 && self.question.is_none() {
            how.push_str(&format!("  {}", format_millis(outcome.time_ms)));
        }
        let question = self.question.as_ref();
        if question.is_some_and(|question| question.is_allowed_by_user) {
            how.push_str("  (allowed by you)");
        }
        let title = (&*name, &*self.subject, how.trim());
        let mut lines = failure_lines(mark, title, &outcome.telling, options, detail);
        if detail == Detail::Full {
            lines.extend(self.place_lines(&name, options));
            lines.extend(self.change_lines(options));
            if !lines[0].to_string().contains(escape_literal(&self.subject).trim()) {
                lines.extend(command_lines(&self.subject, options));
            }
        }
        let is_printed = question.is_some_and(|question| question.is_printed);
        if detail == Detail::Brief && !is_printed {
            lines.extend(self.change_lines(options));
        }
        let has_telling_output = outcome.mark == OutcomeMark::Bad && !outcome.telling.is_empty();
        match &outcome.body {
            OutcomeBody::Diff(..) if is_printed && detail == Detail::Brief => {}
            OutcomeBody::Diff(diff, n_changed) => {
                lines.extend(diff_lines(diff, *n_changed, DIFF_LINES, options, detail));
            }
            OutcomeBody::Output(..) if has_telling_output && detail == Detail::Brief => {}
            OutcomeBody::Output(text, left_out, fold) => {
                lines.extend(folded_lines(text, *left_out, *fold, options, detail));
            }
            OutcomeBody::Answers(answers) => {
                lines.extend(answers.iter().flat_map(|answer| answer_lines(answer, options)));
            }
            OutcomeBody::Text(text) if detail == Detail::Full => {
                lines.extend(text_lines(text, options));
            }
            OutcomeBody::None | OutcomeBody::Text(_) => {}
        }
        if let Some(diff) = question.and_then(|question| question.diff.as_ref())
            && detail == Detail::Full
            && !matches!(outcome.body, OutcomeBody::Diff(..))
        {
            lines.extend(diff_lines(diff, 0, usize::MAX, options, detail));
        }
        for note in &outcome.notes {
            let note = format!("! {}", escape_prose(note).replace('\n', " "));
            let note = [options.span(note, StyleRole::Warn)];
            lines.extend(options.wrap(&Span::raw("  "), &Span::raw("    "), &note));
        }
        lines
    }
}

/// Reads and searches in a row are one line.
pub(in crate::tui) fn exploration_lines(
    calls: &[&Call],
    options: RenderOptions,
) -> Vec<Line<'static>> {
    if let [call] = calls {
        return call.outcome_lines(options, Detail::Brief);
    }
    let n_read = calls.iter().filter(|call| call.tool == "Read").count();
    let files = pluralize(n_read as u64, "file");
    let (verb, count) = match (n_read, calls.len() - n_read) {
        (0, 0) => return Vec::new(),
        (_, 0) => ("Read", files),
        (0, n) => ("Searched", pluralize(n as u64, "time")),
        (_, n) => ("Read", format!("{files}, searched {}", pluralize(n as u64, "time"))),
    };
    let mut subjects: Vec<&str> = calls.iter().map(|call| call.subject.as_str()).collect();
    subjects.dedup();
    let subject = format!("{count}: {}", subjects.join(", "));
    vec![title_line(("✓ ", StyleRole::Good), verb, &subject, "· Ctrl-T", options)]
}

impl CallOutcome {
    fn new(tool: &str, envelope: &Envelope, has_begun: bool) -> Self {
        let data = &envelope.data;
        let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
        let stat = |name: &str| envelope.stats.get(name).and_then(Value::as_u64).unwrap_or(0);
        let number = |name: &str| data.get(name).and_then(Value::as_u64);
        let (mut mark, mut telling) = match envelope.error() {
            Some(error) => (OutcomeMark::Bad, error.message.trim_end_matches('.').to_owned()),
            // A page of a file or list is complete, since the model requested a page.
            None if envelope.status() == "partial"
                && tool == "Bash"
                && !failing_stages(data).is_empty() =>
            {
                (OutcomeMark::Partial, String::new())
            }
            None => (OutcomeMark::Good, String::new()),
        };
        // The program ended while the call ran.
        let is_uncertain = data.contains_key("uncertain");
        if is_uncertain {
            mark = OutcomeMark::Partial;
        }
        let code = envelope.error().map(|error| error.code);
        let mut body = OutcomeBody::None;
        let has_run = code != Some(ErrorCode::Cancelled) || data.contains_key("stdout");
        let summary = match (tool, code) {
            ("Bash", None) if data.contains_key("running") => {
                body = command_output(envelope);
                background_state(data)
            }
            (
                "Bash",
                None | Some(ErrorCode::CommandFailed | ErrorCode::Timeout | ErrorCode::Cancelled),
            ) if has_run => {
                body = command_output(envelope);
                let exit = data.get("exit_code").and_then(Value::as_i64);
                telling = match code {
                    Some(ErrorCode::Timeout) => telling,
                    Some(ErrorCode::CommandFailed) => {
                        let line = output_error(text("stdout"), text("stderr"));
                        if line.is_empty() { failing_stages(data) } else { line }
                    }
                    _ => failing_stages(data),
                };
                match (code, exit, text("signal")) {
                    (Some(ErrorCode::Timeout), ..) => "timed out".to_owned(),
                    (Some(ErrorCode::Cancelled), ..) => "stopped".to_owned(),
                    (_, _, signal) if !signal.is_empty() => signal.to_owned(),
                    (_, Some(0), _) => String::new(),
                    (_, Some(exit), _) => format!("exit {exit}"),
                    (_, None, _) if data.contains_key("background_id") => {
                        format!("as {}", text("background_id"))
                    }
                    (_, None, _) => String::new(),
                }
            }
            (_, Some(ErrorCode::Cancelled)) if is_uncertain || has_begun => {
                if is_uncertain {
                    "interrupted".to_owned()
                } else {
                    "stopped".to_owned()
                }
            }
            // The user gave the reason, perhaps in a message, which follows.
            (_, Some(code @ (ErrorCode::Cancelled | ErrorCode::ApprovalRejected))) => {
                telling = String::new();
                let is_cancelled = code == ErrorCode::Cancelled;
                if is_cancelled { "not run".to_owned() } else { "you said no".to_owned() }
            }
            // The code is for the model, if there are words.
            (_, Some(code)) if telling.is_empty() => code.as_str().to_owned(),
            ("Read", None) => {
                let total = number("total_lines").unwrap_or(0);
                match (number("start_line"), number("end_line")) {
                    (Some(1), Some(to)) if to == total => pluralize(total, "line"),
                    (Some(from), Some(to)) => format!("{from}–{to} of {total}"),
                    _ => String::new(),
                }
            }
            ("Edit" | "MultiEdit" | "Write", None) => {
                let (added, removed) = (stat("lines_added"), stat("lines_removed"));
                match text("operation") {
                    _ if data.get("applied") == Some(&Value::Bool(false)) => "unchanged".to_owned(),
                    "create" => format!("new  +{added}"),
                    _ => format!("+{added} −{removed}"),
                }
            }
            ("Grep", None) => match (stat("matched_files"), stat("matched_lines")) {
                (0, _) => "nothing".to_owned(),
                (files, 0) => pluralize(files, "file"),
                (files, lines) => format!("{lines} in {}", pluralize(files, "file")),
            },
            ("Glob", None) => {
                let paths = data.get("paths").and_then(Value::as_array).map_or(0, Vec::len);
                pluralize(paths as u64, "file")
            }
            ("LS", None) => pluralize(stat("total_entries"), "entry"),
            ("WebFetch", None) if data.contains_key("redirect") => "redirects".to_owned(),
            ("WebFetch", None) => match (stat("shown_bytes"), stat("page_bytes")) {
                (_, 0) => format_size(number("bytes").unwrap_or(0)),
                (shown, size) => format!("{} of {}", format_size(shown), format_size(size)),
            },
            ("Task", None) => describe_agent_work(stat("tool_calls"), stat("tokens")),
            ("WebSearch", None) => pluralize(stat("results"), "result"),
            ("AskUser", None) => {
                let answers = data.get("answers").cloned().unwrap_or_default();
                body = OutcomeBody::Answers(serde_json::from_value(answers).unwrap_or_default());
                String::new()
            }
            _ => String::new(),
        };
        if !text("diff_preview").is_empty() {
            let n_changed = stat("lines_added") + stat("lines_removed");
            let n_changed = usize::try_from(n_changed).unwrap_or(usize::MAX);
            body = OutcomeBody::Diff(text("diff_preview").to_owned(), n_changed);
        }
        if mcp_subject(tool, &Object::new()).is_some() {
            body = server_answer(envelope);
        }
        if matches!(body, OutcomeBody::None) {
            body = OutcomeBody::Text(render_for_model(envelope));
        }
        let notes = envelope.notes().map(str::to_owned).collect();
        Self { mark, summary, telling, body, notes, time_ms: stat("time_ms") }
    }
}

/// The calls of a sub-agent, and its tokens: `3 calls · 1.4k`.
pub(in crate::tui) fn describe_agent_work(calls: u64, tokens: u64) -> String {
    let tokens = (tokens > 0).then(|| format!(" · {}", format_count(tokens)));
    format!("{}{}", pluralize(calls, "call"), tokens.unwrap_or_default())
}

fn background_state(data: &Object) -> String {
    let is_running = data.get("running").and_then(Value::as_bool) == Some(true);
    match data.get("exit_code").and_then(Value::as_i64) {
        _ if is_running => "running".to_owned(),
        None | Some(0) => "ended".to_owned(),
        Some(code) => format!("ended, exit {code}"),
    }
}

fn command_output(envelope: &Envelope) -> OutcomeBody {
    let data = |name: &str| envelope.data.get(name);
    let is_cut = data("truncated").and_then(Value::as_bool) == Some(true);
    let streams = ["stdout", "stderr"];
    let texts = streams.map(|name| data(name).and_then(Value::as_str).unwrap_or_default());
    let left_out = streams.iter().zip(texts).map(|(name, text)| {
        let total = envelope.stats.get(&format!("{name}_lines")).and_then(Value::as_u64);
        usize::try_from(total.unwrap_or(0)).unwrap_or(usize::MAX).saturating_sub(count_lines(text))
    });
    let left_out = if is_cut { left_out.sum() } else { 0 };
    OutcomeBody::Output(texts.concat(), left_out, Fold::Output)
}

/// The telling line of a failed command's output: what mentions an error, else the first line of stderr, else the
/// last line.
pub(in crate::tui) fn output_error(stdout: &str, stderr: &str) -> String {
    const NOTHING: &str = "-";
    let [stdout, stderr] = [stdout, stderr].map(render_output);
    let both = format!("{NOTHING}\n{stdout}\n{stderr}");
    let line = match error_line(&both) {
        NOTHING if stderr.trim().is_empty() => stdout.trim_end().lines().next_back(),
        NOTHING => stderr.trim_start().lines().next(),
        line => Some(line),
    };
    line.unwrap_or_default().trim().to_owned()
}

fn server_answer(envelope: &Envelope) -> OutcomeBody {
    let field = |name: &str| envelope.data.get(name);
    let answer = |text, left_out| OutcomeBody::Output(text, left_out, Fold::Answer);
    let content = field("content").and_then(Value::as_str).filter(|text| !text.trim().is_empty());
    if let Some(text) = content {
        let total = envelope.stats.get("content_lines").and_then(Value::as_u64).unwrap_or(0);
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        return answer(text.to_owned(), total.saturating_sub(count_lines(text)));
    }
    field("structured").map_or(OutcomeBody::None, |value| answer(format!("{value:#}"), 0))
}

fn user_question_lines(asks: &Inquiry, options: RenderOptions) -> Vec<Line<'static>> {
    let line = |indent: &'static str, text: &str| {
        options.indent(indent, &[Span::raw(escape_prose(text.trim()).into_owned())])
    };
    let mut lines = line("  ", &asks.question);
    for option in &asks.options {
        let description = option.description.as_ref().map(|text| format!(": {text}"));
        let description = description.unwrap_or_default();
        lines.extend(line("    ", &format!("{}{description}", option.label)));
    }
    lines
}

fn answer_lines(answer: &UserAnswer, options: RenderOptions) -> Vec<Line<'static>> {
    let question = format!("{} → ", escape_prose(answer.question.trim()));
    let question = options.span(question, StyleRole::Quiet);
    let words = options.span(escape_prose(&answer.in_words()).into_owned(), StyleRole::User);
    options.indent("  ", &[question, words])
}

/// Without the last stage of the pipeline.
fn failing_stages(data: &Object) -> String {
    let stages = data.get("stages").and_then(Value::as_array);
    let stages = stages.map(Vec::as_slice).unwrap_or_default();
    let failing = stages.iter().enumerate().filter_map(|(n, stage)| {
        let code = stage["exit_code"].as_i64().filter(|code| !matches!(code, 0 | 141))?;
        let name = stage["command"].as_str().unwrap_or_default();
        let name = if name.is_empty() { String::new() } else { format!(" {name}") };
        Some(format!("stage {}/{}{name} exited {code}", n + 1, stages.len()))
    });
    failing.collect::<Vec<_>>().join(", ")
}

fn call_subject(tool: &str, input: &Object) -> String {
    if let Some(subject) = mcp_subject(tool, input) {
        return subject;
    }
    let text = |name: &str| input.get(name).and_then(Value::as_str).unwrap_or_default();
    let place = match text("path") {
        "" | "." => String::new(),
        path => format!(" in {path}"),
    };
    match tool {
        "Grep" => format!("\"{}\"{place}", text("pattern")),
        "Glob" => format!("{}{place}", text("pattern")),
        "LS" if text("path").is_empty() => ".".to_owned(),
        "TodoWrite" => text("summary").to_owned(),
        "Task" => {
            let role = match text("subagent_type") {
                "" => "general",
                role => role,
            };
            let description = Some(text("description")).filter(|text| !text.is_empty());
            format!("{role}: {}", description.unwrap_or_else(|| text("prompt")))
        }
        // The questions follow with their answers.
        "AskUser" => match input.get("questions").and_then(Value::as_array).map_or(0, Vec::len) {
            0 => String::new(),
            n => pluralize(n as u64, "question"),
        },
        "Skill" => text("name").to_owned(),
        "WebFetch" => text("url").trim_start_matches("https://").to_owned(),
        _ => ["command", "path", "pattern", "query", "kill", "background"]
            .iter()
            .map(|name| text(name))
            .find(|text| !text.is_empty())
            .unwrap_or_default()
            .to_owned(),
    }
}
