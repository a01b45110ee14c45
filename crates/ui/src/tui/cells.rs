//! Cells: the elements of the conversation, and their short and full display.

mod call;
mod lines;

use ratatui::text::{Line, Span};

pub(super) use call::{Call, CallState, PermissionQuestion};
pub(super) use lines::{format_count, format_millis};

use super::markdown;
use super::text::{truncate, width, wrap_with_prefixes};
use super::theme::{StyleRole, Theme};
use agent_protocol::control::{ControlDecision, Counters, Ending, ReplanScope};
use agent_protocol::event::{FailureReport, TurnFinished};
use agent_protocol::plan::{Plan, TodoStatus};
use agent_protocol::terminal_escape::{escape_literal_line, escape_prose};
use lines::{
    first_line, live_output_lines, message_lines, output_lines, prefixed_lines, text_lines,
    title_line,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RenderOptions {
    pub(super) width: usize,
    pub(super) theme: Theme,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    Brief,
    Full,
}

const RUNNING_LINES: usize = 3;
const FAILED_LINES: usize = 10;
const SHELL_LINES: usize = 40;

/// A long conversation has thousands of cells, so large variants are boxed.
#[derive(Debug)]
pub(super) enum Cell {
    SessionHeader(Vec<(String, String)>),
    /// The message, and the prompt of a command that the model received instead.
    User(String, Option<String>),
    Answer(String),
    Reasoning(String),
    Call(Box<Call>),
    Plan(Box<Plan>),
    Note(Tone, String),
    Check(Box<CheckRun>),
    TurnEnd(Box<TurnFinished>),
    /// A `!` command of the user.
    Shell(Box<ShellResult>),
    Page(Box<CommandPage>),
    PageLine(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    /// Secondary information.
    Quiet,
    Warn,
    Bad,
    /// A decision of the kernel.
    Decision,
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

/// A `!` command of the user.
#[derive(Debug)]
pub(super) struct ShellResult {
    pub(super) command: String,
    pub(super) output: String,
    /// Lines that are missing in `output`.
    pub(super) n_omitted: usize,
    pub(super) exit_code: Option<i32>,
}

/// `tail`: the end of the output so far.
pub(super) fn running_shell_lines(
    command: &str,
    tail: &str,
    look: RenderOptions,
) -> Vec<Line<'static>> {
    let mut lines = vec![title_line(("! ", StyleRole::User), "", &first_line(command), "", look)];
    lines.extend(live_output_lines(tail, RUNNING_LINES, look));
    lines
}

/// A blank line separates different groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellGroup {
    /// Messages of the user, and answers.
    Text,
    /// Everything between messages and answers.
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
            | Self::TurnEnd(_) => CellGroup::Text,
            Self::Reasoning(_)
            | Self::Call(_)
            | Self::Plan(_)
            | Self::Note(..)
            | Self::PageLine(_)
            | Self::Check(_) => CellGroup::Activity,
        }
    }

    /// A cell that is done does not change any more.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Self::Call(call) => matches!(call.state, CallState::Done(_)),
            Self::SessionHeader(_)
            | Self::User(..)
            | Self::Answer(_)
            | Self::Reasoning(_)
            | Self::Plan(_)
            | Self::Note(..)
            | Self::Check(_)
            | Self::TurnEnd(_)
            | Self::Shell(_)
            | Self::Page(_)
            | Self::PageLine(_) => true,
        }
    }

    /// With [`Detail::Brief`], only lines of code may be wider than the screen.
    pub(super) fn lines(&self, look: RenderOptions, detail: Detail) -> Vec<Line<'static>> {
        let theme = look.theme;
        let quiet = theme.style(StyleRole::Quiet);
        match self {
            Self::SessionHeader(rows) => rows
                .iter()
                .map(|(name, value)| {
                    let value = escape_literal_line(value);
                    let value = truncate(&value, look.width.saturating_sub(10)).into_owned();
                    let part = if name == "agent" { StyleRole::Strong } else { StyleRole::Quiet };
                    let name = Span::styled(format!("{name:<9} "), theme.style(part));
                    Line::from(vec![name, Span::styled(value, quiet)])
                })
                .collect(),
            Self::User(text, shown) => {
                let mut lines = message_lines(text, look, detail);
                if let Some(shown) = shown.as_ref().filter(|_| detail == Detail::Full) {
                    lines.push(Line::styled("  the model received:", quiet));
                    lines.extend(text_lines(shown, look));
                }
                lines
            }
            Self::Answer(text) => markdown::render(text, look),
            Self::Reasoning(text) => match detail {
                Detail::Brief => {
                    let first = escape_prose(text.trim()).replace('\n', " ");
                    let line = truncate(&format!("∴ {first}"), look.width).into_owned();
                    vec![Line::styled(line, quiet)]
                }
                Detail::Full => prefixed_lines(
                    "∴ ",
                    StyleRole::Quiet,
                    &escape_prose(text.trim()),
                    StyleRole::Quiet,
                    look,
                ),
            },
            Self::Call(call) => call.lines(look, detail),
            Self::Plan(plan) => plan_lines(plan, look, usize::MAX),
            Self::Note(tone, text) => {
                let (mark, part) = match tone {
                    Tone::Quiet => ("· ", StyleRole::Quiet),
                    Tone::Warn => ("! ", StyleRole::Warn),
                    Tone::Bad => ("✗ ", StyleRole::Bad),
                    Tone::Decision => ("↻ ", StyleRole::Warn),
                };
                prefixed_lines(mark, part, &escape_prose(text), part, look)
            }
            Self::Check(check) => {
                let CheckRun { command, passed, outcome: how, tail } = &**check;
                let (mark, part) =
                    if *passed { ("✓ ", StyleRole::Good) } else { ("✗ ", StyleRole::Bad) };
                let mut lines =
                    vec![title_line((mark, part), "check", &first_line(command), how, look)];
                if !passed || detail == Detail::Full {
                    lines.extend(output_lines(tail, None, FAILED_LINES, look, detail));
                }
                lines
            }
            Self::TurnEnd(finished) => turn_end_lines(finished, look, detail),
            Self::Shell(shell) => {
                let (part, how) = match shell.exit_code {
                    Some(0) => (StyleRole::User, String::new()),
                    Some(code) => (StyleRole::Bad, format!("exit {code}")),
                    None => (StyleRole::Bad, "ended".to_owned()),
                };
                let mut lines =
                    vec![title_line(("! ", part), "", &first_line(&shell.command), &how, look)];
                lines.extend(output_lines(
                    &shell.output,
                    Some(shell.n_omitted),
                    SHELL_LINES,
                    look,
                    detail,
                ));
                lines
            }
            Self::Page(page) => {
                let title = Line::styled(page.title.clone(), theme.style(StyleRole::Strong));
                let mut lines = vec![title];
                let text = page.text.split_terminator('\n');
                lines.extend(text.flat_map(|line| page_line_rows(line, look)));
                lines
            }
            Self::PageLine(line) => page_line_rows(line, look),
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
        let look = RenderOptions { width: usize::MAX / 4, theme };
        self.lines(look, Detail::Full).iter().map(|line| format!("{line}\n")).collect()
    }
}

/// Completed todos are left out first, then the most distant ones.
pub(super) fn plan_lines(plan: &Plan, look: RenderOptions, most: usize) -> Vec<Line<'static>> {
    let theme = look.theme;
    let count = |status| plan.todos.iter().filter(|todo| todo.status == status).count();
    let total = plan.todos.len() - count(TodoStatus::Cancelled);
    let mut head = format!("Todos {}/{total}", count(TodoStatus::Completed));
    if !plan.summary.is_empty() {
        head.push_str(&format!("  {}", escape_prose(&plan.summary).replace('\n', " ")));
    }
    let head = truncate(&head, look.width).into_owned();
    let mut lines = vec![Line::styled(head, theme.style(StyleRole::Strong))];
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
            TodoStatus::Completed => ("✓", StyleRole::Good),
            TodoStatus::InProgress => ("▸", StyleRole::User),
            TodoStatus::Pending => ("·", StyleRole::Quiet),
            TodoStatus::Cancelled => ("✗", StyleRole::Quiet),
        };
        let text = escape_prose(&todo.content).replace('\n', " ");
        let text = truncate(&text, look.width.saturating_sub(4)).into_owned();
        let of_text = match todo.status {
            TodoStatus::InProgress => theme.style(StyleRole::Strong),
            TodoStatus::Pending => theme.style(StyleRole::Text),
            TodoStatus::Completed | TodoStatus::Cancelled => theme.style(StyleRole::Quiet),
        };
        lines.push(Line::from(vec![
            Span::styled(format!("  {mark} "), theme.style(part)),
            Span::styled(text, of_text),
        ]));
    }
    lines
}

/// `None` if nothing failed.
pub(super) fn decision_text(
    decision: ControlDecision,
    reason: &str,
    after: &Counters,
) -> Option<String> {
    let (words, count) = match decision {
        ControlDecision::Continue => return None,
        ControlDecision::Retry(_) => ("retry", after.retry_count),
        ControlDecision::Replan(ReplanScope::Step) => {
            ("replan step", after.single_step_repair_count)
        }
        ControlDecision::Replan(ReplanScope::Task) => ("replan task", after.task_replan_count),
    };
    let words = format!("{words} {}/{}", count.n, count.max);
    Some(if reason.contains(&words) { reason.to_owned() } else { format!("{words} · {reason}") })
}

fn turn_end_lines(
    finished: &TurnFinished,
    look: RenderOptions,
    detail: Detail,
) -> Vec<Line<'static>> {
    let theme = look.theme;
    // A quick answer without tool calls needs no summary.
    let is_trifle =
        finished.ending.is_success() && finished.rounds <= 1 && finished.time_ms < 10_000;
    if is_trifle && detail == Detail::Brief {
        return Vec::new();
    }
    let mut facts = vec![format_millis(finished.time_ms)];
    let spending = finished.spending();
    facts.push(format!(
        "{}{} tokens",
        spending.estimate_mark(),
        format_count(spending.usage.total())
    ));
    facts.extend(spending.formatted_cost().filter(|_| spending.cost_usd > Some(0.0)));
    match finished.files_changed.as_slice() {
        [] => {}
        files if files.len() <= 3 => {
            facts.push(format!("changed {}", escape_literal_line(&files.join(", "))));
        }
        files => facts.push(format!("changed {} files", files.len())),
    }
    match finished.ignored_files_changed {
        0 => {}
        1 => facts.push("1 ignored file changed".to_owned()),
        n => facts.push(format!("{n} ignored files changed")),
    }
    let (mark, part, word) = match finished.ending {
        Ending::Completed if finished.verified == Some(true) => {
            ("✓", StyleRole::Good, "checks passed")
        }
        Ending::CompletedUnverified => ("✗", StyleRole::Bad, "a check could not run"),
        Ending::Completed => ("·", StyleRole::Quiet, ""),
        Ending::Interrupted => ("■", StyleRole::Warn, "stopped by you"),
        Ending::Terminated => ("■", StyleRole::Warn, "ended by the system"),
        Ending::Failed => ("✗", StyleRole::Bad, "failed"),
        Ending::CheckFailed => ("✗", StyleRole::Bad, "a check does not pass"),
        Ending::ModelRefused => ("✗", StyleRole::Bad, "the model refused"),
        Ending::ModelUnavailable => ("✗", StyleRole::Bad, "the model is not reachable"),
        Ending::PermissionDenied if is_ended_by_hook(finished) => {
            ("■", StyleRole::Warn, "stopped by a hook")
        }
        Ending::PermissionDenied => ("■", StyleRole::Warn, "not everything was allowed"),
        Ending::MaxTurns => ("■", StyleRole::Warn, "the limit of model answers was reached"),
        Ending::MaxBudget => ("■", StyleRole::Warn, "the limit of money was reached"),
        Ending::Timeout => ("■", StyleRole::Warn, "the limit of time was reached"),
    };
    let mut head = mark.to_owned();
    head.push(' ');
    if !word.is_empty() {
        head.push_str(&format!("{word}  "));
    }
    let facts = Span::styled(facts.join(" · "), theme.style(StyleRole::Quiet));
    let indent = Span::raw("  ");
    let head = [Span::styled(head, theme.style(part)), facts];
    let mut lines = wrap_with_prefixes(&Span::raw(""), &indent, &head, look.width);
    if let n @ 1.. = finished.open_todos.len() {
        let todos = escape_prose(&finished.open_todos.join("; ")).into_owned();
        let text = format!("{n} open {}: {todos}", if n == 1 { "todo" } else { "todos" });
        let text = Span::styled(text, theme.style(StyleRole::Quiet));
        lines.extend(wrap_with_prefixes(&indent, &indent, &[text], look.width));
    }
    let has_report = !finished.ending.is_success() && finished.ending != Ending::Interrupted;
    if has_report && !finished.result.trim().is_empty() {
        let report = match &finished.report {
            None if finished.ending.has_answer() => finished.errors.join("\n"),
            Some(report) if detail == Detail::Brief => report_summary(finished, report),
            Some(_) | None => finished.result.trim_end().to_owned(),
        };
        lines.extend(escape_prose(&report).lines().flat_map(|line| {
            wrap_with_prefixes(&indent, &indent, &[Span::raw(line.to_owned())], look.width)
        }));
    }
    lines
}

/// A hook blocked the message or ended the turn: no permission of the user was missing.
fn is_ended_by_hook(finished: &TurnFinished) -> bool {
    finished.ending == Ending::PermissionDenied
        && finished.report.as_ref().is_some_and(|report| report.next.is_empty())
}

/// Contains the user's options.
fn report_summary(finished: &TurnFinished, report: &FailureReport) -> String {
    let mut text = String::new();
    // The user already knows which permission was denied.
    if finished.ending != Ending::PermissionDenied || is_ended_by_hook(finished) {
        text.extend(finished.errors.iter().map(|error| format!("{error}\n")));
        for tried in &report.attempts {
            let times = match tried.times {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            text.push_str(&format!("tried {times}: {} ({})\n", tried.what, tried.failure));
        }
    }
    for (path, how) in &report.files_undone {
        text.push_str(&format!("undone: {path} {how}\n"));
    }
    let undo = "/undo undoes the changes";
    match (finished.ending, report.files_changed.as_slice()) {
        (Ending::PermissionDenied, []) => {}
        (Ending::PermissionDenied, _) => text.push_str(undo),
        (_, []) => text.push_str("/trace shows every step"),
        (_, _) => text.push_str(&format!("/trace shows every step · {undo}")),
    }
    text
}

/// Continuation lines are indented to the second column.
fn page_line_rows(line: &str, look: RenderOptions) -> Vec<Line<'static>> {
    let line = escape_prose(line);
    let indent = second_column(&line).filter(|at| *at <= look.width / 2).unwrap_or(0);
    let (first, text) = line.split_at(indent);
    let rest = Span::raw(" ".repeat(width(first)));
    wrap_with_prefixes(
        &Span::raw(first.to_owned()),
        &rest,
        &[Span::raw(text.to_owned())],
        look.width,
    )
}

/// The column after two or more spaces.
fn second_column(line: &str) -> Option<usize> {
    let start = line.len() - line.trim_start().len();
    let gap = start + line[start..].find("  ")?;
    let text = line[gap..].trim_start();
    (!text.is_empty()).then(|| line.len() - text.len())
}
