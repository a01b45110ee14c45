//! Cells: what happened, one thing each, and how it looks in brief and in full.

use ratatui::text::{Line, Span};
use serde_json::Value;

use super::highlight::{Language, Open};
use super::markdown;
use super::text::{behind, clean, cut, hang, settled, width, wrap};
use super::theme::{Part, Theme};
use crate::protocol::Object;
use crate::protocol::control::{ControlDecision, Counters, Ending, Replan};
use crate::protocol::envelope::{Envelope, ErrorCode};
use crate::protocol::event::TurnFinished;
use crate::protocol::plan::{Plan, TodoStatus};
use crate::protocol::view::view;

/// How wide a screen is, and its colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) width: usize,
    pub(super) theme: Theme,
}

/// How much of a cell is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// What one needs to follow.
    Brief,
    /// All there is.
    Full,
}

/// Lines of a diff, of an output, and of one that failed, in brief.
const DIFF_LINES: usize = 24;
const OUTPUT_LINES: usize = 4;
const FAILED_LINES: usize = 10;
/// Lines that say why a call failed, in brief.
const NOTE_LINES: usize = 4;

/// One thing that happened.
#[derive(Debug)]
pub(super) enum Cell {
    /// What the session is.
    Head(Vec<(String, String)>),
    /// The user's words.
    User(String),
    /// The model's words.
    Answer(String),
    /// What the model thought before.
    Reasoning(String),
    /// A call of a tool.
    Call(Box<Call>),
    /// The plan, as it is from now on.
    Plan(Plan),
    /// One sentence.
    Note(Tone, String),
    /// A check was run.
    Check { command: String, passed: bool, how: String, tail: String },
    /// The turn is over.
    Ended(Box<TurnFinished>),
    /// A command of the user's own.
    Shell(Box<Shell>),
    /// What a command of the chat answered.
    Page { title: String, text: String },
}

/// What a note is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// For the record.
    Quiet,
    /// Look at this.
    Warn,
    /// It went wrong.
    Bad,
    /// The kernel decided what happens next.
    Decision,
}

/// A call of a tool.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    /// What it is about: a path, a pattern, a command.
    pub(super) subject: String,
    pub(super) question: Option<Box<Question>>,
    pub(super) state: CallState,
}

/// How far a call is.
#[derive(Debug)]
pub(super) enum CallState {
    /// Asked for.
    Waiting,
    /// Under way; the end of what it wrote.
    Running { tail: String },
    /// Answered.
    Done(Box<Outcome>),
}

/// What a person is asked about a call.
#[derive(Clone, Debug)]
pub(super) struct Question {
    pub(super) reason: String,
    pub(super) rule: String,
    pub(super) rules: Vec<String>,
    pub(super) diff: Option<String>,
}

/// How a call ended.
#[derive(Debug)]
pub(super) struct Outcome {
    mark: Mark,
    summary: String,
    note: String,
    body: Body,
    time_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Good,
    Partial,
    Bad,
}

#[derive(Debug)]
enum Body {
    None,
    Diff(String),
    /// Output of a command, the last of which matters most.
    Output(String),
    /// Anything else, shown in full only.
    Text(String),
}

/// A command of the user's own (`!`).
#[derive(Debug)]
pub(super) struct Shell {
    pub(super) command: String,
    pub(super) output: String,
    pub(super) exit_code: Option<i32>,
}

/// Cells of one kind stand together; a blank line separates kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Words.
    Words,
    /// Things that were done.
    Deeds,
}

impl Cell {
    /// What kind of thing it is.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Head(_)
            | Self::User(_)
            | Self::Answer(_)
            | Self::Shell(_)
            | Self::Page { .. }
            | Self::Ended(_) => Kind::Words,
            Self::Reasoning(_)
            | Self::Call(_)
            | Self::Plan(_)
            | Self::Note(..)
            | Self::Check { .. } => Kind::Deeds,
        }
    }

    /// It will not change any more.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Call(call) => matches!(call.state, CallState::Done(_)),
            Self::Head(_)
            | Self::User(_)
            | Self::Answer(_)
            | Self::Reasoning(_)
            | Self::Plan(_)
            | Self::Note(..)
            | Self::Check { .. }
            | Self::Ended(_)
            | Self::Shell(_)
            | Self::Page { .. } => true,
        }
    }

    /// How it looks. In brief no line is wider than the screen but those of code.
    pub(super) fn lines(&self, look: Look, detail: Detail) -> Vec<Line<'static>> {
        let theme = look.theme;
        let quiet = theme.style(Part::Quiet);
        match self {
            Self::Head(rows) => rows
                .iter()
                .map(|(name, value)| {
                    let value = cut(value, look.width.saturating_sub(10)).into_owned();
                    let part = if name == "agent" { Part::Strong } else { Part::Quiet };
                    let name = Span::styled(format!("{name:<9} "), theme.style(part));
                    Line::from(vec![name, Span::styled(value, quiet)])
                })
                .collect(),
            Self::User(text) => prefixed("› ", Part::User, &clean(text), Part::Text, look),
            Self::Answer(text) => markdown::render(text, look),
            Self::Reasoning(text) => match detail {
                Detail::Brief => {
                    let first = clean(text.trim()).replace('\n', " ");
                    let line = cut(&format!("∴ {first}"), look.width).into_owned();
                    vec![Line::styled(line, quiet)]
                }
                Detail::Full => prefixed("∴ ", Part::Quiet, &clean(text.trim()), Part::Quiet, look),
            },
            Self::Call(call) => call.lines(look, detail),
            Self::Plan(plan) => plan_lines(plan, look, usize::MAX),
            Self::Note(tone, text) => {
                let (mark, part) = match tone {
                    Tone::Quiet => ("· ", Part::Quiet),
                    Tone::Warn => ("! ", Part::Warn),
                    Tone::Bad => ("✗ ", Part::Bad),
                    Tone::Decision => ("↻ ", Part::Warn),
                };
                prefixed(mark, part, &clean(text), part, look)
            }
            Self::Check { command, passed, how, tail } => {
                let (mark, part) = if *passed { ("✓ ", Part::Good) } else { ("✗ ", Part::Bad) };
                let mut lines = vec![title((mark, part), "check", &first_line(command), how, look)];
                if !passed || detail == Detail::Full {
                    lines.extend(output(tail, FAILED_LINES, look, detail));
                }
                lines
            }
            Self::Ended(finished) => ended(finished, look, detail),
            Self::Shell(shell) => {
                let (part, how) = match shell.exit_code {
                    Some(0) => (Part::User, String::new()),
                    Some(code) => (Part::Bad, format!("exit {code}")),
                    None => (Part::Bad, "ended".to_owned()),
                };
                let mut lines =
                    vec![title(("! ", part), "", &first_line(&shell.command), &how, look)];
                lines.extend(output(&shell.output, 40, look, detail));
                lines
            }
            Self::Page { title, text } => {
                let mut lines = vec![Line::styled(title.clone(), theme.style(Part::Strong))];
                lines.extend(text.lines().flat_map(|line| {
                    let line = clean(line);
                    // What goes on in a second column goes on below it.
                    let indent =
                        second_column(&line).filter(|at| *at <= look.width / 2).unwrap_or(0);
                    let (first, text) = line.split_at(indent);
                    let rest = Span::raw(" ".repeat(width(first)));
                    let text = [Span::raw(text.to_owned())];
                    hang(&Span::raw(first.to_owned()), &rest, &text, look.width)
                }));
                lines
            }
        }
    }

    /// What a search looks through.
    pub(super) fn text(&self) -> String {
        let theme = Theme::new(super::theme::Depth::None, super::theme::Background::Dark);
        let look = Look { width: usize::MAX / 4, theme };
        self.lines(look, Detail::Full).iter().map(|line| format!("{line}\n")).collect()
    }
}

impl Call {
    /// A call as the model wrote it.
    pub(super) fn new(id: &str, tool: &str, arguments: &str) -> Self {
        let input: Object = serde_json::from_str(arguments).unwrap_or_default();
        Self {
            id: id.to_owned(),
            tool: tool.to_owned(),
            subject: subject(tool, &input),
            question: None,
            state: CallState::Waiting,
        }
    }

    pub(super) fn finish(&mut self, envelope: &Envelope) {
        self.state = CallState::Done(Box::new(Outcome::new(&self.tool, envelope)));
    }

    /// The turn is over and nothing answered it.
    pub(super) fn give_up(&mut self) {
        self.state = CallState::Done(Box::new(Outcome {
            mark: Mark::Bad,
            summary: "not run".to_owned(),
            note: String::new(),
            body: Body::None,
            time_ms: 0,
        }));
    }

    fn lines(&self, look: Look, detail: Detail) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if detail == Detail::Full {
            lines.extend(self.question_lines(look));
        }
        lines.extend(self.outcome_lines(look, detail));
        lines
    }

    /// What the person is asked, with all that it is about.
    pub(super) fn question_lines(&self, look: Look) -> Vec<Line<'static>> {
        let Some(question) = &self.question else { return Vec::new() };
        let mut lines =
            vec![title(("? ", Part::Warn), &self.tool, &first_line(&self.subject), "", look)];
        let quiet = look.theme.style(Part::Quiet);
        let why = match question.rule.strip_prefix("mode ") {
            // What a mode always asks needs no reason.
            Some(mode) => format!("mode {mode} asks before this"),
            None => format!("{} ({})", clean(&question.reason), clean(&question.rule)),
        };
        let indent = Span::raw("  ");
        lines.extend(hang(&indent, &indent, &[Span::styled(why, quiet)], look.width));
        match &question.diff {
            Some(diff) => lines.extend(diff_lines(diff, usize::MAX, look, Detail::Full)),
            None if self.tool == "Bash" => lines.extend(command_lines(&self.subject, look)),
            None => {}
        }
        lines
    }

    /// How far it is, or how it ended.
    pub(super) fn outcome_lines(&self, look: Look, detail: Detail) -> Vec<Line<'static>> {
        let subject = first_line(&self.subject);
        let outcome = match &self.state {
            CallState::Waiting => {
                return vec![title(("· ", Part::Quiet), &self.tool, &subject, "", look)];
            }
            CallState::Running { tail } => {
                let mut lines = vec![title(("◦ ", Part::User), &self.tool, &subject, "", look)];
                lines.extend(output(tail, 3, look, detail));
                return lines;
            }
            CallState::Done(outcome) => outcome,
        };
        // The plan itself is shown where it changes.
        if self.tool == "TodoWrite" && outcome.mark != Mark::Bad && detail == Detail::Brief {
            return Vec::new();
        }
        let mark = match outcome.mark {
            Mark::Good => ("✓ ", Part::Good),
            Mark::Partial => ("! ", Part::Warn),
            Mark::Bad => ("✗ ", Part::Bad),
        };
        let mut how = outcome.summary.clone();
        // The time that the person took to answer is not the call's.
        if outcome.time_ms >= 1000 && self.question.is_none() {
            how.push_str(&format!("  {}", seconds(outcome.time_ms)));
        }
        let mut lines = vec![title(mark, &self.tool, &subject, how.trim(), look)];
        if detail == Detail::Full && self.subject.contains('\n') {
            lines.extend(command_lines(&self.subject, look));
        }
        if !outcome.note.is_empty() {
            let style = look.theme.style(mark.1);
            let indent = Span::raw("  ");
            let note = clean(&outcome.note).replace('\n', " ");
            let mut note = hang(&indent, &indent, &[Span::styled(note, style)], look.width);
            if detail == Detail::Brief && note.len() > NOTE_LINES {
                note.truncate(NOTE_LINES);
                if let Some(last) = note.last_mut() {
                    last.spans.push(Span::styled("…", style));
                }
            }
            lines.extend(note);
        }
        let is_shown = self.question.as_ref().is_some_and(|question| question.diff.is_some());
        match &outcome.body {
            Body::Diff(_) if is_shown && detail == Detail::Brief => {}
            Body::Diff(diff) => lines.extend(diff_lines(diff, DIFF_LINES, look, detail)),
            Body::Output(text) => {
                let most = if outcome.mark == Mark::Bad { FAILED_LINES } else { OUTPUT_LINES };
                lines.extend(output(text, most, look, detail));
            }
            Body::Text(text) if detail == Detail::Full => {
                lines.extend(output(text, usize::MAX, look, detail));
            }
            Body::None | Body::Text(_) => {}
        }
        lines
    }
}

impl Outcome {
    fn new(tool: &str, envelope: &Envelope) -> Self {
        let data = &envelope.data;
        let text = |name: &str| data.get(name).and_then(Value::as_str).unwrap_or_default();
        let stat = |name: &str| envelope.stats.get(name).and_then(Value::as_u64).unwrap_or(0);
        let number = |name: &str| data.get(name).and_then(Value::as_u64);
        let count = |name: &str| data.get(name).and_then(Value::as_array).map_or(0, Vec::len);
        let (mark, mut note) = match envelope.error() {
            Some(error) => (Mark::Bad, error.in_words()),
            // A page of a file or of a list is what was asked for.
            None if envelope.status() == "partial"
                && (tool == "Bash" || data.contains_key("encoding_guessed")) =>
            {
                (Mark::Partial, String::new())
            }
            None => (Mark::Good, String::new()),
        };
        let code = envelope.error().map(|error| error.code);
        let mut body = Body::None;
        let mut is_told = false;
        let summary = match (tool, code) {
            (
                "Bash",
                None | Some(ErrorCode::CommandFailed | ErrorCode::Timeout | ErrorCode::Cancelled),
            ) => {
                body = Body::Output(format!("{}{}", text("stdout"), text("stderr")));
                let exit = data.get("exit_code").and_then(Value::as_i64);
                // The first line says what stderr says below; the stage that failed is told.
                note = failing_stages(data);
                match (code, exit, text("signal")) {
                    (Some(ErrorCode::Timeout), ..) => "timed out".to_owned(),
                    (Some(ErrorCode::Cancelled), ..) => "stopped".to_owned(),
                    (_, _, signal) if !signal.is_empty() => signal.to_owned(),
                    (_, Some(0), _) => String::new(),
                    (_, Some(exit), _) => format!("exit {exit}"),
                    (_, None, _) if data.contains_key("background_id") => {
                        format!("in the background as {}", text("background_id"))
                    }
                    (_, None, _) => String::new(),
                }
            }
            (_, Some(ErrorCode::ApprovalRejected)) => {
                let said = envelope.error().and_then(|error| error.message.split_once(": "));
                note = said.map_or_else(String::new, |(_, words)| words.to_owned());
                is_told = true;
                "you said no".to_owned()
            }
            (_, Some(code)) => code.as_str().to_owned(),
            ("Read", None) => {
                let (from, to) = (number("start_line"), number("end_line"));
                let total = number("total_lines").unwrap_or(0);
                match (from, to) {
                    (Some(1), Some(to)) if to == total => counted(total, "line"),
                    (Some(from), Some(to)) => format!("{from}–{to} of {total}"),
                    _ => String::new(),
                }
            }
            ("Edit" | "MultiEdit" | "Write", None) => {
                if data.get("applied").and_then(Value::as_bool) == Some(false) {
                    "unchanged".to_owned()
                } else {
                    let created = if text("operation") == "create" { "new  " } else { "" };
                    format!("{created}+{} −{}", stat("lines_added"), stat("lines_removed"))
                }
            }
            ("Grep", None) => {
                let files = stat("matched_files");
                let lines = match stat("matched_lines") {
                    0 => String::new(),
                    lines => format!("{lines} in "),
                };
                match files {
                    0 => "nothing".to_owned(),
                    1 => format!("{lines}1 file"),
                    n => format!("{lines}{n} files"),
                }
            }
            ("Glob", None) => counted(count("paths") as u64, "file"),
            ("LS", None) => match stat("total_entries") {
                1 => "1 entry".to_owned(),
                n => format!("{n} entries"),
            },
            ("BashOutput", None) => {
                body = Body::Output(format!("{}{}", text("stdout"), text("stderr")));
                let is_running = data.get("running").and_then(Value::as_bool) == Some(true);
                if is_running { "running".to_owned() } else { "ended".to_owned() }
            }
            (_, None) => String::new(),
        };
        if !text("diff_preview").is_empty() {
            body = Body::Diff(text("diff_preview").to_owned());
        }
        if matches!(body, Body::None) {
            body = Body::Text(view(envelope));
        }
        let needs_words = code.is_some_and(|code| code != ErrorCode::CommandFailed) && !is_told;
        if needs_words && note.is_empty() {
            note.clone_from(&envelope.text);
        }
        Self { mark, summary, note, body, time_ms: stat("time_ms") }
    }
}

fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The stages of a pipeline that failed before its end.
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

/// What of a call's input says best what it is about.
fn subject(tool: &str, input: &Object) -> String {
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
        _ => ["command", "path", "pattern", "id"]
            .iter()
            .map(|name| text(name))
            .find(|text| !text.is_empty())
            .unwrap_or_default()
            .to_owned(),
    }
}

/// `✓ Edit src/a.rs  +3 −1`: the subject gives way first.
fn title(
    (mark, part): (&str, Part),
    tool: &str,
    subject: &str,
    how: &str,
    look: Look,
) -> Line<'static> {
    let theme = look.theme;
    let mut spans = vec![Span::styled(mark.to_owned(), theme.style(part))];
    let mut used = width(mark);
    if !tool.is_empty() {
        used += width(tool) + 1;
        spans.push(Span::styled(format!("{} ", clean(tool)), theme.style(Part::Tool)));
    }
    let how = cut(how, look.width.saturating_sub(used + 2)).into_owned();
    let room = look.width.saturating_sub(used + if how.is_empty() { 0 } else { width(&how) + 2 });
    spans.push(Span::raw(cut(subject, room).into_owned()));
    if !how.is_empty() {
        let part = if part == Part::Bad || part == Part::Warn { part } else { Part::Quiet };
        spans.push(Span::styled(format!("  {how}"), theme.style(part)));
    }
    Line::from(spans)
}

/// Where the second of two columns begins: behind two spaces or more.
fn second_column(line: &str) -> Option<usize> {
    let start = line.len() - line.trim_start().len();
    let gap = start + line[start..].find("  ")?;
    let text = line[gap..].trim_start();
    (!text.is_empty()).then(|| line.len() - text.len())
}

fn first_line(text: &str) -> String {
    let text = clean(text.trim());
    match text.split_once('\n') {
        Some((first, _)) => format!("{} …", first.trim_end()),
        None => text.into_owned(),
    }
}

fn prefixed(mark: &str, part: Part, text: &str, of_text: Part, look: Look) -> Vec<Line<'static>> {
    let first = Span::styled(mark.to_owned(), look.theme.style(part));
    let rest = Span::raw(" ".repeat(width(mark)));
    let style = look.theme.style(of_text);
    let lines = text.split('\n').enumerate().flat_map(|(n, line)| {
        let mark = if n == 0 { &first } else { &rest };
        hang(mark, &rest, &[Span::styled(line.to_owned(), style)], look.width)
    });
    lines.collect()
}

/// A command, whole, in colours.
fn command_lines(command: &str, look: Look) -> Vec<Line<'static>> {
    let mut open = Open::Nothing;
    let indent = Span::raw("    ");
    let mut lines = Vec::new();
    for line in clean(command).trim_end().split('\n') {
        let (spans, next) = match Language::named("sh") {
            Some(shell) => shell.line(line, open, look.theme),
            None => (vec![Span::raw(line.to_owned())], Open::Nothing),
        };
        open = next;
        lines.extend(hang(&indent, &indent, &spans, look.width));
    }
    lines
}

/// The end of an output, or all of it.
fn output(text: &str, most: usize, look: Look, detail: Detail) -> Vec<Line<'static>> {
    let quiet = look.theme.style(Part::Quiet);
    let room = look.width.saturating_sub(4).max(1);
    if detail == Detail::Full {
        let text = settled(text);
        let lines =
            text.trim_end().split('\n').filter(|_| !text.trim().is_empty()).flat_map(|line| {
                let lines = wrap(&[Span::styled(line.to_owned(), quiet)], room).into_iter();
                lines.map(|line| behind(Span::raw("    "), line))
            });
        return lines.collect();
    }
    let text = text.trim_end();
    if text.is_empty() {
        return Vec::new();
    }
    let n_lines = 1 + memchr::memchr_iter(b'\n', text.as_bytes()).count();
    // One line more is shown rather than announced.
    let shown = if n_lines <= most + 1 { n_lines } else { most };
    let mut lines = Vec::new();
    if n_lines > shown {
        let more = format!("    … {} more lines", n_lines - shown);
        lines.push(Line::styled(cut(&more, look.width).into_owned(), quiet));
    }
    let last: Vec<&str> = text.rsplit('\n').take(shown).collect();
    lines.extend(last.into_iter().rev().map(|line| {
        // Only so much of a line is looked at as can be shown.
        let end = line.floor_char_boundary(line.len().min(64 * 1024));
        let line = settled(&line[..end]);
        Line::styled(format!("    {}", cut(&line, room)), quiet)
    }));
    lines
}

/// A unified diff with line numbers.
fn diff_lines(diff: &str, most: usize, look: Look, detail: Detail) -> Vec<Line<'static>> {
    let theme = look.theme;
    let diff = clean(diff);
    let mut lines = Vec::new();
    let mut rows = 0;
    let (mut old, mut new) = (0, 0);
    for line in diff.lines() {
        if line.starts_with("--- ") && old == 0 || line.starts_with("+++ ") && new == 0 {
            continue;
        }
        if line.starts_with("@@") {
            let is_first = old == 0 && new == 0;
            (old, new) = hunk(line);
            if !is_first {
                lines.push(Line::styled("       ⋮", theme.style(Part::Quiet)));
            }
            continue;
        }
        rows += 1;
        if rows > most && detail == Detail::Brief {
            continue;
        }
        let (mark, text) = line.split_at(line.ceil_char_boundary(1.min(line.len())));
        let (number, part) = match mark {
            "+" => (new, Part::Added),
            "-" => (old, Part::Removed),
            _ => (new, Part::Quiet),
        };
        old += usize::from(mark != "+");
        new += usize::from(mark != "-");
        let style = theme.style(part);
        let number = if mark == "\\" { String::new() } else { number.to_string() };
        let first = Span::styled(format!("  {number:>5} {mark} "), style);
        let rest = Span::raw(" ".repeat(width(&first.content)));
        if detail == Detail::Full {
            lines.extend(hang(&first, &rest, &[Span::styled(text.to_owned(), style)], look.width));
        } else {
            let room = look.width.saturating_sub(width(&first.content)).max(1);
            let text = cut(text, room).into_owned();
            lines.push(Line::from(vec![first, Span::styled(text, style)]));
        }
    }
    if detail == Detail::Brief && rows > most {
        let more = format!("    … {} more lines", rows - most);
        lines.push(Line::styled(more, theme.style(Part::Quiet)));
    }
    lines
}

/// The first line numbers of `@@ -12,3 +14,4 @@`.
fn hunk(line: &str) -> (usize, usize) {
    let number = |mark: char| {
        let from = line.split_once(mark)?.1;
        let end = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
        from[..end].parse::<usize>().ok()
    };
    (number('-').unwrap_or(1), number('+').unwrap_or(1))
}

/// The plan, at most so many lines of it: what is done gives way first, then what is far away.
pub(super) fn plan_lines(plan: &Plan, look: Look, most: usize) -> Vec<Line<'static>> {
    let theme = look.theme;
    let count = |status| plan.todos.iter().filter(|todo| todo.status == status).count();
    let total = plan.todos.len() - count(TodoStatus::Cancelled);
    let mut head = format!("Plan {}/{total}", count(TodoStatus::Completed));
    if !plan.summary.is_empty() {
        head.push_str(&format!("  {}", clean(&plan.summary).replace('\n', " ")));
    }
    let head = cut(&head, look.width).into_owned();
    let mut lines = vec![Line::styled(head, theme.style(Part::Strong))];
    let room = most.saturating_sub(1).max(1);
    let current = plan
        .todos
        .iter()
        .position(|todo| matches!(todo.status, TodoStatus::InProgress | TodoStatus::Pending));
    let from = if plan.todos.len() > room {
        current.unwrap_or(0).saturating_sub(1).min(plan.todos.len() - room)
    } else {
        0
    };
    for todo in plan.todos.iter().skip(from).take(room) {
        let (mark, part) = match todo.status {
            TodoStatus::Completed => ("✓", Part::Good),
            TodoStatus::InProgress => ("▸", Part::User),
            TodoStatus::Pending => ("·", Part::Quiet),
            TodoStatus::Cancelled => ("✗", Part::Quiet),
        };
        let text = clean(&todo.content).replace('\n', " ");
        let text = cut(&text, look.width.saturating_sub(4)).into_owned();
        let of_text = match todo.status {
            TodoStatus::InProgress => theme.style(Part::Strong),
            TodoStatus::Pending => theme.style(Part::Text),
            TodoStatus::Completed | TodoStatus::Cancelled => theme.style(Part::Quiet),
        };
        lines.push(Line::from(vec![
            Span::styled(format!("  {mark} "), theme.style(part)),
            Span::styled(text, of_text),
        ]));
    }
    lines
}

/// What a decision of the kernel is, for people; none where nothing failed.
pub(super) fn decision(
    decision: ControlDecision,
    reason: &str,
    after: &Counters,
) -> Option<String> {
    let (words, count) = match decision {
        ControlDecision::Continue => return None,
        ControlDecision::Retry(_) => ("retry", after.retry_count),
        ControlDecision::Replan(Replan::Step) => ("replan step", after.single_step_repair_count),
        ControlDecision::Replan(Replan::Task) => ("replan task", after.task_replan_count),
    };
    Some(format!("{words} {}/{} · {reason}", count.n, count.max))
}

fn ended(finished: &TurnFinished, look: Look, detail: Detail) -> Vec<Line<'static>> {
    let theme = look.theme;
    // A quick answer without any work speaks for itself.
    let is_trifle =
        finished.ending.is_success() && finished.rounds <= 1 && finished.time_ms < 10_000;
    if is_trifle && detail == Detail::Brief {
        return Vec::new();
    }
    let mut facts = vec![seconds(finished.time_ms)];
    let tokens = finished.usage.input_tokens + finished.usage.output_tokens;
    facts.push(format!("{} tokens", thousands(tokens)));
    facts.extend(finished.cost_usd.map(|usd| format!("${usd:.4}")));
    match finished.files_changed.as_slice() {
        [] => {}
        files if files.len() <= 3 => facts.push(format!("changed {}", clean(&files.join(", ")))),
        files => facts.push(format!("changed {} files", files.len())),
    }
    let (mark, part, word) = match finished.ending {
        Ending::Completed if finished.verified == Some(true) => ("✓", Part::Good, "verified"),
        Ending::CompletedUnverified => ("·", Part::Quiet, "not verified"),
        Ending::Completed => ("·", Part::Quiet, ""),
        Ending::Interrupted => ("■", Part::Warn, "stopped by you"),
        Ending::Terminated => ("■", Part::Warn, "ended by the system"),
        Ending::Failed => ("✗", Part::Bad, "failed"),
        Ending::CheckFailed => ("✗", Part::Bad, "a check does not pass"),
        Ending::ModelRefused => ("✗", Part::Bad, "the model refused"),
        Ending::ModelUnavailable => ("✗", Part::Bad, "the model can not be reached"),
        Ending::PermissionDenied => ("✗", Part::Bad, "a permission was not given"),
        Ending::MaxTurns => ("■", Part::Warn, "the limit of model answers was reached"),
        Ending::MaxBudget => ("■", Part::Warn, "the limit of money was reached"),
        Ending::Timeout => ("■", Part::Warn, "the limit of time was reached"),
    };
    let mut head = mark.to_owned();
    head.push(' ');
    if !word.is_empty() {
        head.push_str(&format!("{word}  "));
    }
    let facts = Span::styled(facts.join(" · "), theme.style(Part::Quiet));
    let indent = Span::raw("  ");
    let head = [Span::styled(head, theme.style(part)), facts];
    let mut lines = hang(&Span::raw(""), &indent, &head, look.width);
    let has_report = !finished.ending.is_success() && finished.ending != Ending::Interrupted;
    if has_report && !finished.result.trim().is_empty() {
        let report = clean(finished.result.trim_end());
        lines.extend(
            report
                .lines()
                .flat_map(|line| hang(&indent, &indent, &[Span::raw(line.to_owned())], look.width)),
        );
    }
    lines
}

/// A length of time: `0.4 s`, `12 s`, `3 min 20 s`.
pub(super) fn seconds(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        10_000..60_000 => format!("{} s", ms / 1000),
        _ => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
    }
}

/// A number people can read: `950`, `12.3k`, `1.2M`.
pub(super) fn thousands(n: u64) -> String {
    match n {
        0..1000 => n.to_string(),
        1000..1_000_000 => format!("{}.{}k", n / 1000, n % 1000 / 100),
        _ => format!("{}.{}M", n / 1_000_000, n % 1_000_000 / 100_000),
    }
}
