//! A review as Markdown, the most important section first. It contains no text of a model.

use super::Review;
use super::statistics::UnresolvedFailure;
use super::suggestions::Suggestion;
use crate::lesson::Lesson;
use crate::trace::FixSource;
use agent_protocol::{format_thousands, one_line, shorten};

const SHOWN_ROWS: usize = 10;

#[derive(Default)]
struct MarkdownPage(String);

impl MarkdownPage {
    /// Nothing without rows.
    fn table_section(
        &mut self,
        title: &str,
        head: &[&str],
        numbers: &[usize],
        rows: impl Iterator<Item = Vec<String>>,
    ) {
        let mut rows = rows.peekable();
        if rows.peek().is_some() {
            self.paragraph(&format!("## {title}"));
            self.table(head, numbers, rows);
        }
    }

    fn paragraph(&mut self, text: &str) {
        self.0.push_str(&format!("{text}\n\n"));
    }

    /// `numbers`: the columns with numbers.
    fn table(&mut self, head: &[&str], numbers: &[usize], rows: impl Iterator<Item = Vec<String>>) {
        let rule = (0..head.len()).map(|at| if numbers.contains(&at) { "--:" } else { "---" });
        let rule: Vec<&str> = rule.collect();
        let mut lines = vec![head.join(" | "), rule.join(" | ")];
        lines.extend(rows.map(|row| {
            // A bar would end the cell.
            row.iter().map(|cell| cell.replace('|', "\\|")).collect::<Vec<_>>().join(" | ")
        }));
        self.paragraph(&format!("| {} |", lines.join(" |\n| ")));
    }

    fn omitted_rows(&mut self, n: usize) {
        if n > SHOWN_ROWS {
            let n = n - SHOWN_ROWS;
            self.paragraph(&format!("And {n} more: `--format json` has them all."));
        }
    }
}

/// The report as Markdown.
pub fn render_markdown(review: &Review) -> String {
    let mut page = MarkdownPage::default();
    let (from, to) = (format_date(review.period.from_ms), format_date(review.period.to_ms));
    let project = review.period.project.as_deref().map_or("all projects", short_project_name);
    page.paragraph(&format!("# Review of {project}, {from} to {to}"));
    page.paragraph(&summary_text(review));
    attention_section(&mut page, review);
    suggestions_section(&mut page, review);
    failures_section(&mut page, review);
    call_kinds_section(&mut page, review);
    memory_section(&mut page, review);
    page.paragraph("## How this was counted");
    page.0.push_str(
        "A trace is one success, or a failure with every further attempt at the same thing. The confidence of a lesson \
         is `(helped + 1) / (helped + did not help + 2)`. No model wrote this report. Only retired lessons were removed. `agent memory show ID` shows the origin of a lesson, `agent trace show SESSION` what happened.\n",
    );
    page.0
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
        count_with_noun(now.tasks, "task"),
        count_with_noun(now.sessions, "session"),
        format_thousands(now.traces as u64),
        format_thousands(now.first_attempt as u64),
        percent(now.first_attempt_rate()),
        now.resolved,
        now.failed,
    );
    if let Some(n) = now.sources.get(&FixSource::FailurePattern) {
        text.push_str(&format!(" Lessons resolved {}.", count_with_noun(*n, "failure")));
    }
    match review.needs_human.len() {
        0 => text.push_str(" Nothing needs your attention."),
        1 => text.push_str(" One failure needs your attention."),
        n => text.push_str(&format!(" {n} failures need your attention.")),
    }
    text
}

fn attention_section(page: &mut MarkdownPage, review: &Review) {
    let is_of_all = review.period.project.is_none();
    let row = |failure: &UnresolvedFailure| {
        let tried: Vec<String> = failure.tried.iter().map(|tried| shorten(tried, 80)).collect();
        let last = failure.sessions.first().map_or("", String::as_str);
        let others = match failure.sessions.len() {
            0 | 1 => String::new(),
            n => format!(", and {}", count_with_noun(n - 1, "more session")),
        };
        let skills = failure.skills.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut row = vec![inline_code(&failure.error), skills];
        row.extend(is_of_all.then(|| {
            let projects = failure.projects.iter().map(|project| short_project_name(project));
            projects.collect::<Vec<_>>().join(", ")
        }));
        row.push(failure.attempts.to_string());
        row.push(if tried.is_empty() { "–".to_owned() } else { shorten(&tried.join("; "), 160) });
        let date = format_date(failure.at_ms);
        row.push(format!("{date}: `{last}`, turn {}{others}", failure.turn));
        row
    };
    let mut head = vec!["error", "kind of call"];
    head.extend(is_of_all.then_some("project"));
    head.extend(["attempts", "fixes tried", "last seen"]);
    let rows = review.needs_human.iter().take(SHOWN_ROWS).map(row);
    page.table_section("Needs your attention", &head, &[head.len() - 3], rows);
    page.omitted_rows(review.needs_human.len());
}

fn suggestions_section(page: &mut MarkdownPage, review: &Review) {
    if review.suggestions.is_empty() {
        return;
    }
    page.paragraph("## Suggestions");
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
        page.paragraph(
            "Successful lessons. As lines of CODE_LAW.md they apply to everybody and to every task:",
        );
        page.paragraph(&format!(
            "```diff\n--- a/CODE_LAW.md\n+++ b/CODE_LAW.md\n{}\n```",
            rules.join("\n")
        ));
        let sources = sources
            .iter()
            .map(|(reason, items)| format!("{}: {}", capitalize(reason), items.join(", ")));
        page.paragraph(&format!("{}.", sources.collect::<Vec<_>>().join(". ")));
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
            page.paragraph(title);
            page.paragraph(&format!("- {}", items.join("\n- ")));
        }
    }
}

fn failures_section(page: &mut MarkdownPage, review: &Review) {
    let rows = review.failures.iter().take(SHOWN_ROWS).map(|failure| {
        vec![
            failure.n.to_string(),
            failure.sessions.to_string(),
            failure.skills.iter().cloned().collect::<Vec<_>>().join(", "),
            inline_code(&failure.message),
            format!("{} of {}", failure.resolved, failure.traces),
            match &failure.known {
                Some((id, text)) => format!("{text} (`{id}`)"),
                None => "–".to_owned(),
            },
        ]
    });
    let head = ["times", "sessions", "kind of call", "error", "resolved", "lesson"];
    page.table_section("Most frequent failures", &head, &[0, 1], rows);
    page.omitted_rows(review.failures.len());
}

fn call_kinds_section(page: &mut MarkdownPage, review: &Review) {
    let rows = review.call_kinds.iter().take(SHOWN_ROWS).map(|kind| {
        vec![
            kind.skill.clone(),
            kind.n.to_string(),
            kind.first_attempt.to_string(),
            kind.resolved.to_string(),
            kind.failed.to_string(),
            percent(kind.rate),
        ]
    });
    let head = ["kind of call", "traces", "first attempt", "resolved", "failed", "succeeded"];
    page.table_section("Kinds of calls", &head, &[1, 2, 3, 4, 5], rows);
    page.omitted_rows(review.call_kinds.len());
}

fn memory_section(page: &mut MarkdownPage, review: &Review) {
    page.paragraph("## Memory");
    let row = |item: &Lesson| {
        let condition = item.failure.as_ref().map_or("", |failure| &failure.condition);
        vec![
            format!("`{}`", item.id),
            item.text.clone(),
            inline_code(&shorten(condition, 80)),
            item.helped.to_string(),
            item.hurt.to_string(),
            percent(item.confidence()),
        ]
    };
    let head = ["lesson", "text", "about", "helped", "did not help", "confidence"];
    let mut table = |title: &str, items: Vec<&Lesson>| {
        if !items.is_empty() {
            page.paragraph(title);
            page.table(&head, &[3, 4, 5], items.iter().take(SHOWN_ROWS).map(|item| row(item)));
            page.omitted_rows(items.len());
        }
    };
    let is_old = |item: &Lesson| review.learnt.iter().all(|learnt| learnt.id != item.id);
    let learnt_before = review.helping.iter().filter(|item| is_old(item)).collect();
    table("Learnt in this period, the most helpful first:", review.learnt.iter().collect());
    table("Helping, learnt before:", learnt_before);
    table("Retired, because they stopped helping:", review.retired.iter().collect());
    if review.learnt.is_empty() && review.helping.is_empty() && review.retired.is_empty() {
        page.paragraph("Nothing was learnt in this period, and no lesson has helped yet.");
    }
}

fn count_with_noun(n: usize, noun: &str) -> String {
    format!("{} {noun}{}", format_thousands(n as u64), if n == 1 { "" } else { "s" })
}

fn inline_code(text: &str) -> String {
    let text = one_line(text).replace('`', "'");
    if text.is_empty() { "–".to_owned() } else { format!("`{text}`") }
}

fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn format_date(ms: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(ms).map(|time| time.to_string());
    time.map_or_else(|_| "–".to_owned(), |time| time.chars().take(10).collect())
}
