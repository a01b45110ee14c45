//! The report as Markdown.

use super::{COLUMNS, Report, cells, changes, how, of_successes, points, task_cell, trace_command};
use agent_protocol::visible::in_file;

/// The page. `directory` is the directory of the results, for the commands in it.
pub fn markdown(report: &Report, directory: &str) -> String {
    let header = &report.header;
    let mut page = format!(
        "# Evaluation of {}\n\n{}\n\n{}",
        text(&header.suite),
        text(&report.what()),
        overview(report)
    );
    page.push_str("\n## Tasks\n\n");
    let names = header.variants.iter().map(|it| it.variant.name.as_str());
    page.push_str(&head("task", names));
    for row in &report.tasks {
        page.push_str(&line(&row.task, row.cells.iter().map(task_cell)));
    }
    if report.unsuccessful().next().is_some() {
        page.push_str("\n## Failures\n\n");
    }
    for run in report.unsuccessful() {
        page.push_str(&format!(
            "- **{}**, {}, repetition {}: {}: {}\n",
            text(&run.task),
            text(&run.variant),
            run.repetition,
            how(run),
            text(run.reason.as_deref().unwrap_or_default())
        ));
        if let Some(session) = &run.session {
            let command = trace_command(directory, session);
            page.push_str(&format!("  [events](<{}>), `{command}`\n", session.log));
        }
    }
    page
}

/// The part about the variants, which is also printed.
pub(super) fn overview(report: &Report) -> String {
    let mut page = head("variant", COLUMNS.into_iter());
    for row in &report.rows {
        page.push_str(&line(&row.variant.variant.name, cells(row).into_iter()));
    }
    page.push('\n');
    for row in &report.rows {
        page.push_str(&format!(
            "- {}: {}, model {}\n",
            text(&row.variant.variant.name),
            text(&changes(&row.variant)),
            text(&row.variant.model)
        ));
    }
    page.push('\n');
    for comparison in &report.comparisons {
        let (variant, baseline) = (text(&comparison.variant), text(&comparison.baseline));
        page.push_str(&format!("**{variant} − {baseline}**: "));
        if let (Some(difference), Some(interval)) = (comparison.difference, comparison.interval) {
            let pairs = comparison.pairs;
            page.push_str(&format!(
                "{} over {} pairs; only {variant} succeeded in {}, only {baseline} in {}; ",
                points(difference, interval),
                pairs.n(),
                pairs.only_variant,
                pairs.only_baseline
            ));
        }
        page.push_str(&format!("{}.", text(&comparison.conclusion)));
        if let Some(means) = &comparison.of_successes {
            page.push_str(&format!(" Where both succeeded: {}.", of_successes(means)));
        }
        page.push_str("\n\n");
    }
    page.push_str(&report.notes().join(" "));
    page.push('\n');
    page
}

fn head<'a>(first: &str, columns: impl Iterator<Item = &'a str> + Clone) -> String {
    let rule: String = columns.clone().map(|_| " --- |").collect();
    format!("{}| --- |{rule}\n", line(first, columns.map(str::to_owned)))
}

fn line(first: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {} |", text(&cell))).collect();
    format!("| {} |{cells}\n", text(first))
}

/// Foreign text on one line: its characters are neither markup nor terminal control.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in in_file(text).chars() {
        match c {
            '\n' | '\t' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}
