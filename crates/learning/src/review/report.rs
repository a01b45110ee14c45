//! The sections of a review's report, the most important first. They contain no text of a model.

use super::super::lesson::Lesson;
use super::statistics::{PeriodTotals, UnresolvedFailure};
use super::suggestions::Suggestion;
use super::{Review, count_by_project};
use agent_protocol::{format_thousands, shorten};

/// Limit: rows of a table that are shown.
const SHOWN_ROWS: usize = 10;

/// A block of the report. Texts may contain code in backticks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReportBlock {
    /// The page's title.
    Title(String),
    /// The title of a section.
    Heading(String),
    /// A paragraph.
    Text(String),
    /// A secondary remark.
    Note(String),
    /// A table: its header, its rows, and the columns with numbers.
    Table { head: Vec<&'static str>, rows: Vec<Vec<String>>, numbers: Vec<usize> },
    /// A list.
    List(Vec<String>),
    /// Verbatim lines: a diff.
    Lines(Vec<String>),
}

pub(super) fn report_blocks(review: &Review) -> Vec<ReportBlock> {
    let mut page =
        vec![ReportBlock::Title(report_title(review)), ReportBlock::Text(summary_text(review))];
    page.extend(attention_section(review));
    page.extend(suggestions_section(review));
    page.extend(failures_section(review));
    page.extend(call_kinds_section(review));
    page.extend(always_failing_section(review));
    page.extend(methodologies_section(review));
    page.extend(memory_section(review));
    page.push(ReportBlock::Heading("How this was counted".to_owned()));
    page.push(ReportBlock::Note(
        "A trace is one success, or a failure with every further attempt at the same thing. The weight of a kind of call is \
         `(s + 1) / (n + 2)`: each of its `n` traces adds 1 to `s` if its first attempt succeeded, `1 / (1 + k)` after `k` failed \
         attempts, and 0 if it failed; the traces of all projects count. The confidence of a lesson is \
         `(helped + 1) / (helped + did not help + 2)`. No model wrote this report. Only weights and retired lessons were \
         changed. `agent memory show ID` shows the origin of a lesson, `agent trace show SESSION` what happened."
            .to_owned(),
    ));
    page
}

fn report_title(review: &Review) -> String {
    let (from, to) = (format_date(review.period.from_ms), format_date(review.period.to_ms));
    let of = review.period.project.as_deref().map_or("all projects", short_project_name);
    format!("Review of {of}, {from} to {to}")
}

/// The end of a project's identity, as a short name.
pub fn short_project_name(project: &str) -> &str {
    let parts = project.trim_end_matches('/').rmatch_indices('/').nth(1);
    parts.map_or(project, |(at, _)| &project[at + 1..])
}

fn summary_text(review: &Review) -> String {
    let now = &review.totals;
    if now.traces == 0 {
        return "No task was recorded in this period: sessions with `--no-memory` and those of other projects are \
                not among them."
            .to_owned();
    }
    let mut text = format!(
        "{} in {}. Of {} traces, {} succeeded at the first attempt ({}), {} after a retry, {} failed.",
        count_with_noun(now.tasks, "task", "tasks"),
        count_with_noun(now.sessions, "session", "sessions"),
        format_thousands(now.traces as u64),
        format_thousands(now.first_attempt as u64),
        percent(now.first_attempt_rate()),
        now.resolved,
        now.failed,
    );
    text.push_str(&comparison_text(now, review.before.as_ref()));
    let by_pattern = now.sources.get("failure_pattern").copied().unwrap_or(0);
    if by_pattern > 0 {
        let of = count_with_noun(by_pattern, "failure", "failures");
        text.push_str(&format!(" Lessons resolved {of}."));
    }
    match review.needs_human.len() {
        0 => text.push_str(" Nothing needs your attention."),
        1 => text.push_str(" One failure needs your attention."),
        n => text.push_str(&format!(" {n} failures need your attention.")),
    }
    text
}

fn comparison_text(now: &PeriodTotals, before: Option<&PeriodTotals>) -> String {
    let Some(before) = before else {
        return " Nothing was recorded in the previous period.".to_owned();
    };
    format!(
        " In the previous period, {} of {} succeeded at the first attempt ({}).",
        percent(before.first_attempt_rate()),
        format_thousands(before.traces as u64),
        percentage_points(now.first_attempt_rate() - before.first_attempt_rate()),
    )
}

fn attention_section(review: &Review) -> Vec<ReportBlock> {
    if review.needs_human.is_empty() {
        return Vec::new();
    }
    let is_of_all = review.period.project.is_none();
    let row = |failure: &UnresolvedFailure| {
        let tried: Vec<String> = failure.tried.iter().map(|tried| shorten(tried, 80)).collect();
        let last = failure.sessions.first().map_or("", String::as_str);
        let others = match failure.sessions.len() {
            0 | 1 => String::new(),
            n => format!(", and {}", count_with_noun(n - 1, "more session", "more sessions")),
        };
        let skills = failure.skills.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut row = vec![inline_code(&failure.error), skills];
        row.extend(is_of_all.then(|| {
            let projects: Vec<&str> =
                failure.projects.iter().map(|it| short_project_name(it)).collect();
            projects.join(", ")
        }));
        row.push(failure.attempts.to_string());
        row.push(if tried.is_empty() { "–".to_owned() } else { shorten(&tried.join("; "), 160) });
        row.push(format!(
            "{}: `{last}`, turn {}{others}",
            format_date(failure.at_ms),
            failure.turn
        ));
        row
    };
    let mut head = vec!["error", "kind of call"];
    head.extend(is_of_all.then_some("project"));
    head.extend(["attempts", "fixes tried", "last seen"]);
    let mut blocks = vec![ReportBlock::Heading("Needs your attention".to_owned())];
    blocks.push(ReportBlock::Table {
        numbers: vec![head.len() - 3],
        head,
        rows: review.needs_human.iter().take(SHOWN_ROWS).map(row).collect(),
    });
    blocks.extend(omitted_rows_note(review.needs_human.len()));
    blocks
}

fn suggestions_section(review: &Review) -> Vec<ReportBlock> {
    if review.suggestions.is_empty() {
        return Vec::new();
    }
    let mut blocks = vec![ReportBlock::Heading("Suggestions".to_owned())];
    let is_of_all = review.period.project.is_none();
    let mut rules: Vec<String> = Vec::new();
    let mut rules_of = "";
    let mut sources: Vec<(&str, Vec<String>)> = Vec::new();
    let (mut problems, mut missing, mut doubtful) = (Vec::new(), Vec::new(), Vec::new());
    for suggestion in &review.suggestions {
        match suggestion {
            Suggestion::AddRule { project, line, item, reason } => {
                if is_of_all && rules_of != project {
                    rules_of = project;
                    rules.push(format!("# {}", short_project_name(project)));
                }
                rules.push(format!("+{line}"));
                match sources.iter_mut().find(|(source, _)| source == reason) {
                    Some((_, items)) => items.push(format!("`{item}`")),
                    None => sources.push((reason, vec![format!("`{item}`")])),
                }
            }
            Suggestion::FixProblem { text, reason } => {
                problems.push(format!("{text} {}.", capitalize(reason)));
            }
            Suggestion::AddLesson { text, reason } => {
                missing.push(format!("{}: {reason}.", inline_code(text)));
            }
            Suggestion::ReviewLesson { item, text, reason } => {
                doubtful.push(format!("`{item}` {reason}: \u{201c}{text}\u{201d}"));
            }
        }
    }
    if !rules.is_empty() {
        blocks.push(ReportBlock::Text(
            "Successful lessons. As lines of CODE_LAW.md they apply to everybody and to every task:"
                .to_owned(),
        ));
        let head = ["--- a/CODE_LAW.md", "+++ b/CODE_LAW.md"].map(str::to_owned);
        blocks.push(ReportBlock::Lines(head.into_iter().chain(rules).collect()));
        let sources = sources
            .iter()
            .map(|(reason, items)| format!("{}: {}", capitalize(reason), items.join(", ")));
        blocks.push(ReportBlock::Note(format!("{}.", sources.collect::<Vec<_>>().join(". "))));
    }
    let lists = [
        ("Problems to fix, so that no lesson is needed:", problems),
        ("Failures without a lesson; `agent memory add` adds one:", missing),
        (
            "Lessons that helped in at most half of the cases; edit them (`agent memory edit ID`), or forget them:",
            doubtful,
        ),
    ];
    for (title, items) in lists {
        if !items.is_empty() {
            blocks.extend([ReportBlock::Text(title.to_owned()), ReportBlock::List(items)]);
        }
    }
    blocks
}

fn failures_section(review: &Review) -> Vec<ReportBlock> {
    if review.failures.is_empty() {
        return Vec::new();
    }
    let rows = review.failures.iter().take(SHOWN_ROWS).map(|failure| {
        vec![
            failure.n.to_string(),
            failure.sessions.to_string(),
            failure.skills.iter().cloned().collect::<Vec<_>>().join(", "),
            inline_code(&failure.message),
            format!("{} of {}", failure.resolved, failure.traces),
            match &failure.known {
                Some((id, text)) => match failure.known_others {
                    0 => format!("{text} (`{id}`)"),
                    n => format!("{text} (`{id}`), and {n} more of the kind"),
                },
                None => "–".to_owned(),
            },
        ]
    });
    let mut blocks = vec![
        ReportBlock::Heading("Most frequent failures".to_owned()),
        ReportBlock::Table {
            head: vec!["times", "sessions", "kind of call", "error", "resolved", "lesson"],
            rows: rows.collect(),
            numbers: vec![0, 1],
        },
    ];
    blocks.extend(omitted_rows_note(review.failures.len()));
    blocks
}

fn call_kinds_section(review: &Review) -> Vec<ReportBlock> {
    if review.call_kinds.is_empty() {
        return Vec::new();
    }
    // Without a previous period there is no change to report.
    let has_before = review.before.is_some();
    let rows = review.call_kinds.iter().take(SHOWN_ROWS).map(|kind| {
        let change = kind
            .rate_before
            .map_or_else(|| "–".to_owned(), |before| percentage_points(kind.rate - before));
        let mut row = vec![
            kind.skill.clone(),
            kind.n.to_string(),
            kind.first_attempt.to_string(),
            kind.resolved.to_string(),
            kind.failed.to_string(),
            percent(kind.rate),
        ];
        row.extend(has_before.then_some(change));
        row.push(weight_change(kind.weight_before, kind.weight));
        row
    });
    let mut head =
        vec!["kind of call", "traces", "first attempt", "resolved", "failed", "succeeded"];
    head.extend(has_before.then_some("change"));
    head.push("weight");
    let mut blocks = vec![
        ReportBlock::Heading("Kinds of calls".to_owned()),
        ReportBlock::Text(
            "By cost, highest first. The weight is near 1 if the first attempt succeeds, near 0 if all fail; \
             it starts at 0.50."
                .to_owned(),
        ),
        ReportBlock::Table {
            numbers: (1..head.len()).collect(),
            head,
            rows: rows.collect(),
        },
    ];
    let rest = review.call_kinds.len().saturating_sub(SHOWN_ROWS);
    if rest > 0 {
        let well: usize =
            review.call_kinds[SHOWN_ROWS..].iter().map(|kind| kind.first_attempt).sum();
        let all: usize = review.call_kinds[SHOWN_ROWS..].iter().map(|kind| kind.n).sum();
        blocks.push(ReportBlock::Note(format!(
            "And {rest} more, of which {well} of {all} traces succeeded at the first attempt."
        )));
    }
    blocks
}

fn always_failing_section(review: &Review) -> Vec<ReportBlock> {
    if review.always.is_empty() {
        return Vec::new();
    }
    let rows = review.always.iter().take(SHOWN_ROWS).map(|always| {
        let (condition, otherwise) = match (always.other_uses, always.distinct_condition.as_str()) {
            (0, _) => ("in every case".to_owned(), "–".to_owned()),
            (n, "") => (inline_code(&always.context), format!("{} of {n}", always.other_successes)),
            (n, only) => (inline_code(only), format!("{} of {n}", always.other_successes)),
        };
        vec![
            inline_code(&always.subject),
            condition,
            always.n.to_string(),
            inline_code(&always.error),
            otherwise,
        ]
    });
    vec![
        ReportBlock::Heading("Always failing".to_owned()),
        ReportBlock::Table {
            head: vec!["what", "condition", "failed", "error", "worked otherwise"],
            rows: rows.collect(),
            numbers: vec![2],
        },
    ]
}

fn methodologies_section(review: &Review) -> Vec<ReportBlock> {
    if review.methodologies.is_empty() {
        return Vec::new();
    }
    let rows = review.methodologies.iter().map(|methodology| {
        vec![
            methodology
                .name
                .as_deref()
                .map_or_else(|| "none chosen".to_owned(), |name| name.replace('_', " ")),
            methodology.tasks.to_string(),
            format!("{} of {}", methodology.well, methodology.tasks),
            format!("{:.1}", methodology.failed_attempts),
            weight_change(methodology.weight_before, methodology.weight),
        ]
    });
    vec![
        ReportBlock::Heading("Methodologies".to_owned()),
        ReportBlock::Table {
            head: vec![
                "methodology",
                "tasks",
                "without unresolved failures",
                "failed attempts per task",
                "weight",
            ],
            rows: rows.collect(),
            numbers: vec![1, 2, 3, 4],
        },
    ]
}

fn memory_section(review: &Review) -> Vec<ReportBlock> {
    let mut blocks = vec![ReportBlock::Heading("Memory".to_owned())];
    let row = |item: &Lesson| {
        vec![
            format!("`{}`", item.id),
            item.text.clone(),
            item.failure.as_ref().map_or_else(
                || "–".to_owned(),
                |failure| inline_code(&shorten(&failure.condition, 80)),
            ),
            item.helped.to_string(),
            item.hurt.to_string(),
            percent(item.confidence()),
        ]
    };
    let head = || vec!["lesson", "text", "about", "helped", "did not help", "confidence"];
    let mut table = |title: &str, items: &[Lesson]| {
        if items.is_empty() {
            return;
        }
        blocks.push(ReportBlock::Text(title.to_owned()));
        blocks.push(ReportBlock::Table {
            head: head(),
            rows: items.iter().take(SHOWN_ROWS).map(row).collect(),
            numbers: vec![3, 4, 5],
        });
        blocks.extend(omitted_rows_note(items.len()));
    };
    table("Learnt in this period, the most helpful first:", &review.learnt);
    let known_before: Vec<Lesson> = review
        .helping
        .iter()
        .filter(|item| review.learnt.iter().all(|learnt| learnt.id != item.id))
        .cloned()
        .collect();
    table("Helping, learnt before:", &known_before);
    table("Retired, because they stopped helping:", &review.retired);
    if review.learnt.is_empty() && review.helping.is_empty() && review.retired.is_empty() {
        blocks.push(ReportBlock::Text(
            "Nothing was learnt in this period, and no lesson has helped yet.".to_owned(),
        ));
    }
    if review.period.project.is_none() && count_by_project(&review.learnt).len() > 1 {
        let projects = count_by_project(&review.learnt).into_iter();
        let projects = projects.map(|(project, n)| format!("{} {n}", short_project_name(project)));
        blocks.push(ReportBlock::Note(format!(
            "By project: {}.",
            projects.collect::<Vec<_>>().join(", ")
        )));
    }
    blocks
}

/// The note about rows that are not shown.
fn omitted_rows_note(n: usize) -> Option<ReportBlock> {
    (n > SHOWN_ROWS).then(|| {
        ReportBlock::Note(format!("And {} more: `--format json` has them all.", n - SHOWN_ROWS))
    })
}

fn count_with_noun(n: usize, one: &str, more: &str) -> String {
    format!("{} {}", format_thousands(n as u64), if n == 1 { one } else { more })
}

/// A text as code, in one line.
fn inline_code(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ").replace('`', "'");
    if text.is_empty() { "–".to_owned() } else { format!("`{text}`") }
}

fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// A change of a share, in percentage points.
fn percentage_points(change: f64) -> String {
    let points = (change * 100.0).round();
    if points == 0.0 { "±0".to_owned() } else { format!("{points:+.0}") }
}

fn weight_change(before: f64, now: f64) -> String {
    let is_new = (before - 0.5).abs() < 1e-9;
    if is_new || (before - now).abs() < 0.005 {
        format!("{now:.2}")
    } else {
        format!("{before:.2} → {now:.2}")
    }
}

/// A date for display.
fn format_date(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string());
    time.map_or_else(|_| "–".to_owned(), |time| time.chars().take(10).collect())
}
