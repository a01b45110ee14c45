//! Cells: the elements of the conversation, and their short and full display.

mod call;
mod lines;

use std::borrow::Cow;

use ratatui::style::Style;
use ratatui::text::{Line, Span};

pub(super) use call::{
    Call, CallState, PermissionQuestion, describe_agent_work, exploration_lines, output_error,
};
pub(super) use lines::{error_parts, format_count, format_millis, format_seconds, title_line};

use super::markdown;
use super::text::{truncate, width, wrap_with_prefixes};
use super::theme::{StyleRole, Theme};
use agent_protocol::control::Ending;
use agent_protocol::event::{FailureReport, TurnFinished};
use agent_protocol::plan::{Plan, Todo, TodoStatus};
use agent_protocol::pluralize;
use agent_protocol::terminal_escape::{escape_literal_line, escape_prose};
use lines::{
    Fold, failure_lines, folded_lines, live_output_lines, message_lines, prefixed_lines, text_lines,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RenderOptions {
    pub(super) width: usize,
    pub(super) theme: Theme,
}

impl RenderOptions {
    pub(super) fn style(self, role: StyleRole) -> Style {
        self.theme.style(role)
    }

    pub(super) fn span(self, text: impl Into<Cow<'static, str>>, role: StyleRole) -> Span<'static> {
        Span::styled(text, self.style(role))
    }

    pub(super) fn wrap(
        self,
        first: &Span<'static>,
        rest: &Span<'static>,
        spans: &[Span<'static>],
    ) -> Vec<Line<'static>> {
        wrap_with_prefixes(first, rest, spans, self.width, false)
    }

    /// For the scrollback, where the terminal wraps an address that is longer than a line.
    pub(super) fn wrap_prose(
        self,
        first: &Span<'static>,
        rest: &Span<'static>,
        spans: &[Span<'static>],
    ) -> Vec<Line<'static>> {
        wrap_with_prefixes(first, rest, spans, self.width, true)
    }

    pub(super) fn indent(self, by: &'static str, spans: &[Span<'static>]) -> Vec<Line<'static>> {
        self.wrap(&Span::raw(by), &Span::raw(by), spans)
    }

    pub(super) fn cut_line(self, text: &str, role: StyleRole) -> Line<'static> {
        Line::styled(truncate(text, self.width), self.style(role))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Brief,
    Full,
}

/// A long conversation has thousands of cells, so large variants are boxed.
#[derive(Debug)]
pub(super) enum Cell {
    SessionHeader(Vec<(&'static str, String)>),
    /// The message, and the prompt of a command that the model received instead.
    User(String, Option<String>),
    Answer(String),
    Reasoning(String),
    Call(Box<Call>),
    Plan(Box<Plan>),
    TodoChange(Box<TodoChange>),
    Note(Tone, String),
    Kernel(Box<KernelNote>),
    Check(Box<CheckRun>),
    /// With the todo list, if the turn changed it.
    TurnEnd(Box<TurnFinished>, Option<Box<Plan>>),
    /// A `!` command of the user.
    Shell(Box<ShellResult>),
    Page(Box<CommandPage>),
    PageLine(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Quiet,
    Warn,
    Bad,
}

/// What the program did by itself, such as after a failure, in one line.
#[derive(Debug)]
pub(super) struct KernelNote {
    pub(super) mark: &'static str,
    /// Empty: nothing is shown in [`Detail::Brief`].
    pub(super) summary: String,
    /// Shown only in [`Detail::Full`], such as what the model received.
    pub(super) details: String,
}

#[derive(Debug)]
pub(super) struct TodoChange {
    progress: String,
    completed: Vec<String>,
    /// The todo in progress.
    next: Option<String>,
}

impl TodoChange {
    pub(super) fn new(before: &Plan, plan: &Plan) -> Self {
        let is_new =
            |todo: &&Todo| todo.status == TodoStatus::Completed && !before.todos.contains(todo);
        let completed = plan.todos.iter().filter(is_new).map(|todo| todo.content.clone());
        let next = plan.current_todo().map(|(_, todo)| todo.content.clone());
        Self { progress: plan.progress(), completed: completed.collect(), next }
    }
}

#[derive(Debug)]
pub(super) struct CheckRun {
    pub(super) command: String,
    pub(super) passed: bool,
    pub(super) outcome: String,
    pub(super) tail: String,
}

#[derive(Debug)]
pub(super) struct CommandPage {
    pub(super) title: String,
    pub(super) text: String,
}

#[derive(Debug)]
pub(super) struct ShellResult {
    pub(super) command: String,
    pub(super) output: String,
    /// Lines that are missing in `output`.
    pub(super) n_omitted: usize,
    pub(super) exit_code: Option<i32>,
}

pub(super) fn running_shell_lines(
    command: &str,
    tail: &str,
    options: RenderOptions,
) -> Vec<Line<'static>> {
    let title = title_line(("! ", StyleRole::User), "", command, "", options);
    std::iter::once(title).chain(live_output_lines(tail, options)).collect()
}

/// A blank line separates different groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellGroup {
    /// Messages of the user, and answers.
    Text,
    Activity,
}

impl Cell {
    pub(super) fn group(&self) -> CellGroup {
        match self {
            Self::SessionHeader(_)
            | Self::User(..)
            | Self::Answer(_)
            | Self::Shell(_)
            | Self::Page(_)
            | Self::TurnEnd(..) => CellGroup::Text,
            _ => CellGroup::Activity,
        }
    }

    /// A cell that is done does not change any more.
    pub(super) fn is_done(&self) -> bool {
        self.as_call().is_none_or(Call::is_done)
    }

    pub(super) fn as_call(&self) -> Option<&Call> {
        if let Self::Call(call) = self { Some(call) } else { None }
    }

    /// With [`Detail::Brief`], only lines of code and addresses may be wider than the screen.
    pub(super) fn lines(&self, options: RenderOptions, detail: Detail) -> Vec<Line<'static>> {
        let quiet = options.style(StyleRole::Quiet);
        match self {
            Self::SessionHeader(rows) => rows
                .iter()
                .map(|(name, value)| {
                    let value = escape_literal_line(value);
                    let value = truncate(&value, options.width.saturating_sub(10));
                    let role = if *name == "agent" { StyleRole::Strong } else { StyleRole::Quiet };
                    let name = options.span(format!("{name:<9} "), role);
                    Line::from(vec![name, Span::styled(value, quiet)])
                })
                .collect(),
            Self::User(text, shown) => {
                let mut lines = message_lines(text, options, detail);
                if let Some(shown) = shown.as_ref().filter(|_| detail == Detail::Full) {
                    lines.push(Line::styled("  the model received:", quiet));
                    lines.extend(text_lines(shown, options));
                }
                lines
            }
            Self::Answer(text) => markdown::render(text, options),
            Self::Reasoning(text) => match detail {
                Detail::Brief => {
                    let first = escape_prose(text.trim()).replace('\n', " ");
                    vec![options.cut_line(&format!("∴ {first}"), StyleRole::Quiet)]
                }
                Detail::Full => {
                    prefixed_lines("∴ ", StyleRole::Quiet, &escape_prose(text.trim()), options)
                }
            },
            Self::Call(call) => call.lines(options, detail),
            Self::Plan(plan) => plan_lines(plan, options, usize::MAX),
            Self::TodoChange(change) => {
                let TodoChange { progress, completed, next } = &**change;
                let is_done = !completed.is_empty();
                let mark =
                    if is_done { ("✓ ", StyleRole::Good) } else { ("· ", StyleRole::Quiet) };
                let next = next.as_ref().map(|next| format!("→ {}", escape_prose(next)));
                let next = next.unwrap_or_default().replace('\n', " ");
                let name = format!("todo {progress}");
                vec![title_line(mark, &name, &completed.join("; "), &next, options)]
            }
            Self::Note(tone, text) => {
                let (mark, role) = match tone {
                    Tone::Quiet => ("· ", StyleRole::Quiet),
                    Tone::Warn => ("! ", StyleRole::Warn),
                    Tone::Bad => ("✗ ", StyleRole::Bad),
                };
                prefixed_lines(mark, role, &escape_prose(text), options)
            }
            Self::Kernel(note) => {
                let KernelNote { mark, summary, details } = &**note;
                let summary = escape_prose(summary).replace('\n', " ");
                let mut lines = prefixed_lines(mark, StyleRole::Quiet, &summary, options);
                if summary.is_empty() {
                    lines.clear();
                }
                if detail == Detail::Full {
                    lines.extend(text_lines(details, options));
                } else if lines.len() > 1 {
                    lines = vec![options.cut_line(&format!("{mark}{summary}"), StyleRole::Quiet)];
                }
                lines
            }
            // The end of the turn says that checks passed.
            Self::Check(check) if check.passed && detail == Detail::Brief => Vec::new(),
            Self::Check(check) => {
                let CheckRun { command, passed, outcome, tail } = &**check;
                let mark =
                    if *passed { ("✓ ", StyleRole::Good) } else { ("✗ ", StyleRole::Bad) };
                let telling = if *passed { String::new() } else { output_error(tail, "") };
                let title = ("check", command.as_str(), outcome.as_str());
                let mut lines = failure_lines(mark, title, &telling, options, detail);
                if detail == Detail::Full {
                    lines.extend(folded_lines(tail, 0, Fold::Output, options, detail));
                }
                lines
            }
            Self::TurnEnd(finished, plan) => {
                turn_end_lines(finished, plan.as_deref(), options, detail)
            }
            Self::Shell(shell) => {
                let (role, how) = match shell.exit_code {
                    Some(0) => (StyleRole::User, String::new()),
                    Some(code) => (StyleRole::Bad, format!("exit {code}")),
                    None => (StyleRole::Bad, "ended".to_owned()),
                };
                let mut lines = vec![title_line(("! ", role), "", &shell.command, &how, options)];
                let n_omitted = shell.n_omitted;
                lines.extend(folded_lines(&shell.output, n_omitted, Fold::Shell, options, detail));
                lines
            }
            Self::Page(page) => {
                let title = Line::styled(page.title.clone(), options.style(StyleRole::Strong));
                let mut lines = vec![title];
                let text = page.text.split_terminator('\n');
                lines.extend(text.flat_map(|line| page_line_rows(line, options)));
                lines
            }
            Self::PageLine(line) => page_line_rows(line, options),
        }
    }

    /// One cell for the title and one for each line.
    pub(super) fn into_page_lines(self) -> Vec<Self> {
        let Self::Page(mut page) = self else { return vec![self] };
        let text = std::mem::take(&mut page.text);
        let lines = text.split_terminator('\n').map(|line| Self::PageLine(line.to_owned()));
        std::iter::once(Self::Page(page)).chain(lines).collect()
    }

    pub(super) fn text(&self) -> String {
        let theme = Theme::new(super::theme::ColorDepth::None, super::theme::Background::Dark);
        let options = RenderOptions { width: usize::MAX / 4, theme };
        self.lines(options, Detail::Full).iter().map(|line| format!("{line}\n")).collect()
    }
}

/// In at least one row. Completed todos are left out first, then the most distant ones.
pub(super) fn plan_lines(plan: &Plan, options: RenderOptions, most: usize) -> Vec<Line<'static>> {
    let summary = escape_prose(&plan.summary).replace('\n', " ");
    let head = format!("Todos {}  {summary}", plan.progress());
    let mut lines = vec![options.cut_line(head.trim_end(), StyleRole::Strong)];
    let room = most - 1;
    let current = plan
        .todos
        .iter()
        .position(|todo| matches!(todo.status, TodoStatus::InProgress | TodoStatus::Pending));
    let from = current.unwrap_or(0).saturating_sub(1).min(plan.todos.len().saturating_sub(room));
    for todo in plan.todos.iter().skip(from).take(room) {
        let (mark, role, text_role) = match todo.status {
            TodoStatus::Completed => ("✓", StyleRole::Good, StyleRole::Quiet),
            TodoStatus::InProgress => ("▸", StyleRole::User, StyleRole::Strong),
            TodoStatus::Pending => ("·", StyleRole::Quiet, StyleRole::Text),
            TodoStatus::Cancelled => ("–", StyleRole::Quiet, StyleRole::Quiet),
        };
        let text = escape_prose(&todo.content).replace('\n', " ");
        let text = truncate(&text, options.width.saturating_sub(4));
        let mark = options.span(format!("  {mark} "), role);
        lines.push(Line::from(vec![mark, options.span(text, text_role)]));
    }
    lines
}

fn turn_end_lines(
    finished: &TurnFinished,
    plan: Option<&Plan>,
    options: RenderOptions,
    detail: Detail,
) -> Vec<Line<'static>> {
    let own_ms = finished.time_ms.saturating_sub(finished.waiting_ms);
    // A quick answer without tool calls needs no summary.
    let is_trifle = finished.ending.is_success() && finished.rounds <= 1 && own_ms < 10_000;
    if is_trifle && finished.verified != Some(true) && detail == Detail::Brief {
        return Vec::new();
    }
    // (`/cost` has the totals.)
    let mut facts = Vec::new();
    let waiting = Some(finished.waiting_ms).filter(|ms| *ms >= 1000).map(format_millis);
    let waiting = waiting.map(|time| format!(" (+{time} waiting for you)")).unwrap_or_default();
    // Before the first answer nothing was done.
    if finished.ending != Ending::ModelRefused || finished.rounds > 0 {
        facts.push(format_millis(own_ms) + &waiting);
    }
    let spending = finished.spending();
    if let n @ 1.. = spending.usage.output_tokens {
        facts.push(format!("{}{} tokens out", spending.estimate_mark(), format_count(n)));
    }
    match finished.files_changed.as_slice() {
        [] => {}
        files if files.len() <= 3 => {
            facts.push(format!("changed {}", escape_literal_line(&files.join(", "))));
        }
        files => facts.push(format!("changed {} files", files.len())),
    }
    if let n @ 1.. = finished.ignored_files_changed {
        facts.push(format!("{} changed", pluralize(n, "ignored file")));
    }
    // No permission of the user was missing.
    let is_stopped_by_hook = finished.ending == Ending::PermissionDenied
        && finished.report.as_ref().is_some_and(|report| report.next.is_empty());
    let (mark, role, word) = match finished.ending {
        Ending::Completed if finished.verified == Some(true) => {
            ("✓", StyleRole::Good, "checks passed")
        }
        _ if is_stopped_by_hook => ("■", StyleRole::Warn, "stopped by a hook"),
        ending => match ending.exit_code() {
            0 => ("·", StyleRole::Quiet, ending.in_words()),
            // Not done, or no model answers; the others are the user's decisions and limits.
            1 | 69 | 75 => ("✗", StyleRole::Bad, ending.in_words()),
            _ => ("■", StyleRole::Warn, ending.in_words()),
        },
    };
    // The error of a model is the title; its advice and the words of the server follow.
    let is_unanswered = matches!(finished.ending, Ending::ModelRefused | Ending::ModelUnavailable);
    let error = finished.errors.last().filter(|_| is_unanswered && detail == Detail::Brief);
    let parts = error.map_or_else(Vec::new, |error| error_parts(error));
    let word = parts.first().map_or(word, String::as_str);
    let mut details = Vec::new();
    let indent = Span::raw("  ");
    let wrap_detail =
        |text: &str| options.wrap_prose(&indent, &indent, &[Span::raw(text.to_owned())]);
    for part in parts.iter().skip(1) {
        let text = escape_prose(part);
        if text.starts_with('"') {
            details.push(options.cut_line(&format!("  {text}"), StyleRole::Quiet));
        } else {
            details.extend(wrap_detail(&text));
        }
    }
    let has_report = !finished.ending.is_success() && finished.ending != Ending::Interrupted;
    if has_report && !finished.result.trim().is_empty() {
        let report = match &finished.report {
            None if finished.ending.has_answer() => finished.errors.join("\n"),
            Some(report) if detail == Detail::Brief => {
                report_summary(finished, report, error.is_some())
            }
            Some(_) | None => finished.result.trim_end().to_owned(),
        };
        details.extend(escape_prose(&report).lines().flat_map(wrap_detail));
    }
    let wrap = |spans: &[Span<'static>]| options.wrap(&Span::raw(""), &Span::raw("  "), spans);
    let title = format!("{mark} {}", escape_prose(word));
    let gap = if word.is_empty() { "" } else { "  " };
    let mut head = options.span(format!("{title}{gap}"), role);
    let mut lines = Vec::new();
    if !details.is_empty() {
        lines = wrap(&[options.span(title, role)]);
        head = options.span("· ", StyleRole::Quiet);
    }
    // What happened, the todos, the totals.
    lines.append(&mut details);
    // Each todo of a list without open ones was shown when it was completed.
    let is_done = plan.is_some_and(|plan| plan.open_todos().next().is_none());
    let most = if is_done && detail == Detail::Brief { 1 } else { usize::MAX };
    lines.extend(plan.map_or_else(Vec::new, |plan| plan_lines(plan, options, most)));
    let mut row = vec![head];
    for (n, fact) in facts.iter().enumerate() {
        let used: usize = row.iter().map(Span::width).sum();
        let mut gap = if n == 0 { "" } else { " · " };
        // A line ends between two facts.
        if n > 0 && used + width(gap) + width(fact) > options.width {
            lines.extend(wrap(&std::mem::replace(&mut row, vec![Span::raw("  ")])));
            gap = "";
        }
        row.push(options.span(format!("{gap}{fact}"), StyleRole::Quiet));
    }
    if !facts.is_empty() || lines.is_empty() {
        lines.extend(wrap(&row));
    }
    lines
}

/// Contains the user's options.
fn report_summary(
    finished: &TurnFinished,
    report: &FailureReport,
    is_last_error_shown: bool,
) -> String {
    let mut text = String::new();
    let is_denied = finished.ending == Ending::PermissionDenied;
    // The user already knows which permission was denied.
    if !is_denied || report.next.is_empty() {
        let n_errors = finished.errors.len() - usize::from(is_last_error_shown);
        let errors = finished.errors[..n_errors].iter();
        text.extend(errors.map(|error| error_parts(error).join("; ") + "\n"));
        for tried in &report.attempts {
            let times = match tried.times {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            text.push_str(&format!("tried {times}: {} ({})\n", tried.what, tried.failure));
        }
    }
    let trace = (!is_denied && !is_last_error_shown).then_some("/trace shows every step");
    let undo = (!report.files_changed.is_empty()).then_some("/undo undoes the changes");
    text + &trace.into_iter().chain(undo).collect::<Vec<_>>().join(" · ")
}

/// Continuation lines are indented to the second column.
fn page_line_rows(line: &str, options: RenderOptions) -> Vec<Line<'static>> {
    let line = escape_prose(line);
    let indent = second_column(&line).filter(|at| *at <= options.width / 2).unwrap_or(0);
    let (first, text) = line.split_at(indent);
    let rest = Span::raw(" ".repeat(width(first)));
    options.wrap_prose(&Span::raw(first.to_owned()), &rest, &[Span::raw(text.to_owned())])
}

/// The column after two or more spaces.
fn second_column(line: &str) -> Option<usize> {
    let start = line.len() - line.trim_start().len();
    let gap = start + line[start..].find("  ")?;
    let text = line[gap..].trim_start();
    (!text.is_empty()).then(|| line.len() - text.len())
}
