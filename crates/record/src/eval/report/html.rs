//! The report as one self-contained HTML page without scripts.

use super::{
    COLUMNS, EvaluationReport, VariantRow, changes_in_words, differences_of_successes,
    outcome_in_words, points, task_cell_text, trace_command, variant_cells,
};
use crate::eval::results::{RunOutcome, RunResult};
use crate::html::{self, element, escape_text};

const STYLE: &str = include_str!("html.css");

/// Renders the page. `directory` is the directory of the results, for the commands in the page.
pub fn render_html(report: &EvaluationReport, directory: &str) -> String {
    let header = &report.header;
    let title = format!("Evaluation of {}", header.suite);
    let mut page = String::from("<!DOCTYPE html>\n");
    page.push_str(&html::head(&title, "style-src 'unsafe-inline'", "", STYLE));
    page.push_str(&element("h1", &title));
    page.push_str(&element("p", &report.describe_size()));
    write_variants(report, &mut page);
    write_comparisons(report, &mut page);
    for note in report.notes() {
        page.push_str(&format!("<p class=\"note\">{}</p>\n", escape_text(&note)));
    }
    write_tasks(report, &mut page);
    write_runs(report, directory, &mut page);
    page.push_str(html::END);
    page
}

fn write_variants(report: &EvaluationReport, page: &mut String) {
    page.push_str("<h2>Variants</h2>\n<table>\n<tr><th>variant</th><th>change</th><th>model</th>");
    page.push_str(&COLUMNS.iter().map(|column| element("th", column)).collect::<String>());
    page.push_str("</tr>\n");
    for row in &report.rows {
        let variant = &row.variant;
        page.push_str("<tr>");
        for cell in [variant.variant.name.as_str(), &changes_in_words(variant), &variant.model] {
            page.push_str(&element("td", cell));
        }
        for (at, cell) in variant_cells(row).iter().enumerate() {
            let bar = if at == 1 { interval_bar(row) } else { String::new() };
            page.push_str(&format!("<td>{}{bar}</td>", escape_text(cell)));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn interval_bar(row: &VariantRow) -> String {
    let (Some(rate), Some(interval)) = (row.rate, row.interval) else { return String::new() };
    format!(
        "<div class=\"scale\"><span style=\"left:{:.1}%;width:{:.1}%\"></span><i style=\"left:{:.1}%\"></i></div>",
        interval.low * 100.0,
        (interval.high - interval.low) * 100.0,
        rate * 100.0
    )
}

fn write_comparisons(report: &EvaluationReport, page: &mut String) {
    if report.comparisons.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Paired differences</h2>\n<table>\n<tr><th>variant − baseline</th><th>success</th><th>pairs</th><th>only the \
         variant</th><th>only the baseline</th><th>conclusion</th><th>where both succeeded</th></tr>\n",
    );
    for comparison in &report.comparisons {
        let difference = comparison.difference.zip(comparison.interval);
        let cells = [
            format!("{} − {}", comparison.variant, comparison.baseline),
            difference.map_or_else(String::new, |(it, interval)| points(it, interval)),
            comparison.pairs.total().to_string(),
            comparison.pairs.only_variant.to_string(),
            comparison.pairs.only_baseline.to_string(),
            comparison.conclusion.clone(),
            comparison.of_successes.as_ref().map_or_else(String::new, differences_of_successes),
        ];
        let cells: String = cells.iter().map(|cell| element("td", cell)).collect();
        page.push_str(&format!("<tr>{cells}</tr>\n"));
    }
    page.push_str("</table>\n");
}

fn write_tasks(report: &EvaluationReport, page: &mut String) {
    page.push_str("<h2>Tasks</h2>\n<table>\n<tr><th>task</th>");
    for variant in &report.header.variants {
        page.push_str(&element("th", &variant.variant.name));
    }
    page.push_str("</tr>\n");
    for row in &report.tasks {
        page.push_str(&format!("<tr>{}", element("td", &row.task)));
        for cell in &row.cells {
            let class = match cell.successes {
                _ if cell.runs == 0 => "none",
                n if n == cell.runs => "good",
                0 => "bad",
                _ => "mixed",
            };
            page.push_str(&format!(
                "<td class=\"{class}\">{}</td>",
                escape_text(&task_cell_text(cell))
            ));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n");
}

fn write_runs(report: &EvaluationReport, directory: &str, page: &mut String) {
    page.push_str("<h2>Failures</h2>\n");
    if report.unsuccessful().next().is_none() {
        page.push_str("<p>None.</p>\n");
    }
    report.unsuccessful().for_each(|failed| write_run(failed, directory, page));
    page.push_str("<h2>Successes</h2>\n");
    for succeeded in report.runs.iter().filter(|run| run.outcome == RunOutcome::Success) {
        write_run(succeeded, directory, page);
    }
}

fn write_run(run: &RunResult, directory: &str, page: &mut String) {
    let title = format!(
        "{} · {} · repetition {}: {}",
        run.task,
        run.variant,
        run.repetition,
        run.reason.as_deref().unwrap_or_else(|| outcome_in_words(run))
    );
    page.push_str(&format!("<details>{}\n", element("summary", &title)));
    if let Some(session) = &run.session {
        page.push_str(&element(
            "p",
            &format!(
                "{} · {} steps · {} tokens in, {} out · {:.1} s · {}",
                session.ending.as_deref().unwrap_or("did not end"),
                session.steps,
                session.input_tokens,
                session.output_tokens,
                std::time::Duration::from_millis(session.time_ms).as_secs_f64(),
                session.model
            ),
        ));
        page.push_str(&format!(
            "<p><a href=\"{}\">events</a> <code>{}</code></p>\n",
            escape_text(&session.log),
            escape_text(&trace_command(directory, session))
        ));
    }
    for check in &run.checks {
        page.push_str(&element("p", &format!("{}: {}", check.command, check.how)));
        if !check.tail.is_empty() {
            page.push_str(&element("pre", &check.tail));
        }
    }
    page.push_str("</details>\n");
}
