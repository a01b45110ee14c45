//! The report as Markdown.

use super::{
    COLUMNS, EvaluationReport, change_in_words, is_success, outcome_in_words, trace_command,
    variant_cells,
};
use agent_protocol::pluralize;
use agent_protocol::terminal_escape::escape_for_file;

/// Renders the page. `directory` is the directory of the results, for the commands in the page.
pub fn render_markdown(report: &EvaluationReport, directory: &str) -> String {
    let header = &report.header;
    let mut page = format!(
        "# Evaluation of {}\n\n{}, {} of each, agent {}, started {}\n\n{}",
        escape_text(&header.suite),
        pluralize(report.tasks as u64, "task"),
        pluralize(report.repetitions.into(), "run"),
        escape_text(&header.program),
        escape_text(&header.started),
        variant_overview(report)
    );
    if !report.runs.iter().all(is_success) {
        page.push_str("\n## Failures\n\n");
    }
    for run in report.runs.iter().filter(|run| !is_success(run)) {
        page.push_str(&format!(
            "- **{}**, {}, repetition {}: {}: {}\n",
            escape_text(&run.task),
            escape_text(&run.variant),
            run.repetition,
            outcome_in_words(run),
            escape_text(run.reason.as_deref().unwrap_or_default())
        ));
        if let Some(session) = &run.session {
            let command = trace_command(directory, session);
            page.push_str(&format!("  [events](<{}>), `{command}`\n", session.log));
        }
    }
    page
}

/// The part about the variants, as Markdown.
pub fn variant_overview(report: &EvaluationReport) -> String {
    let mut page = table_head("variant", COLUMNS.into_iter());
    for row in &report.rows {
        page.push_str(&table_row(&row.variant.variant.name, variant_cells(row).into_iter()));
    }
    page.push('\n');
    for row in &report.rows {
        page.push_str(&format!(
            "- {}: {}, model {}\n",
            escape_text(&row.variant.variant.name),
            escape_text(&change_in_words(&row.variant)),
            escape_text(&row.variant.model)
        ));
    }
    page.push('\n');
    for comparison in &report.comparisons {
        let variant = escape_text(&comparison.variant);
        let baseline = escape_text(&comparison.baseline);
        page.push_str(&format!("**{variant} − {baseline}**: "));
        if let Some(difference) = comparison.difference {
            let (pairs, better, worse) = (comparison.pairs, comparison.better, comparison.worse);
            let what = if report.tasks == 1 { "repetitions" } else { "tasks" };
            page.push_str(&format!(
                "{:+.0} points over {pairs} pairs; better in {better}, worse in {worse} {what}; ",
                difference * 100.0
            ));
        }
        page.push_str(&format!("{}.\n\n", escape_text(&comparison.conclusion)));
    }
    page.push_str(
        "Intervals have a confidence of 95 % (Wilson 1927) and count tasks, as the comparisons do (McNemar's test): \
         repetitions of a task resemble each other.\n",
    );
    page
}

fn table_head<'a>(first: &str, columns: impl Iterator<Item = &'a str> + Clone) -> String {
    let rule: String = columns.clone().map(|_| " --- |").collect();
    format!("{}| --- |{rule}\n", table_row(first, columns.map(str::to_owned)))
}

fn table_row(first: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {} |", escape_text(&cell))).collect();
    format!("| {} |{cells}\n", escape_text(first))
}

/// Puts foreign text on one line: it cannot contain markup or terminal control.
fn escape_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in escape_for_file(text).chars() {
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
