//! Statistics as tables for people, in at most 80 columns.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Recoveries, SessionStats, Stats, StatsReport};
use crate::trace::table::{Table, format_duration};
use agent_protocol::control::ControlDecision;
use agent_protocol::model::Purpose;
use agent_protocol::{format_thousands, pluralize, shorten};

const FIRST_COLUMN_WIDTH: usize = 12;
const REST_WIDTH: usize = 80 - FIRST_COLUMN_WIDTH - 2;
const MAX_NAME: usize = 24;
const MAX_TEXT: usize = 56;

const PURPOSES: [(Purpose, &str); 8] = [
    (Purpose::Main, "the task"),
    (Purpose::Agent, "sub-agents"),
    (Purpose::Plan, "planning"),
    (Purpose::Reflect, "reflection"),
    (Purpose::Task, "verifying"),
    (Purpose::Summary, "summaries"),
    (Purpose::Search, "searches"),
    (Purpose::Learn, "learning"),
];

/// Formats a table for people.
pub fn render_text(report: &StatsReport) -> String {
    let mut out = String::new();
    match report.sessions.as_slice() {
        [one] => write_session(&mut out, one),
        several => {
            out.push_str(&session_table(several));
            out.push('\n');
            write_line(&mut out, "sessions", &format_thousands(several.len() as u64));
        }
    }
    write_numbers(&mut out, &report.total);
    write_models(&mut out, &report.total);
    write_tools(&mut out, &report.total);
    out
}

/// Writes several lines if the value is too long for one.
fn write_line(out: &mut String, name: &str, value: &str) {
    let value = value.replace('\n', " ");
    let mut lines = vec![String::new()];
    for part in value.split_inclusive(", ") {
        let is_full =
            |line: &String| line.chars().count() + part.trim_end().chars().count() > REST_WIDTH;
        if lines.last().is_some_and(|line| !line.is_empty() && is_full(line)) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(part);
        }
    }
    for (n, line) in lines.iter().enumerate() {
        let name = if n == 0 { name } else { "" };
        _ = writeln!(out, "{name:<FIRST_COLUMN_WIDTH$}  {}", line.trim_end());
    }
}

fn write_session(out: &mut String, session: &SessionStats) {
    let when = session.started.get(..16).unwrap_or_default().replace('T', " ");
    let name = session.name.as_ref().map_or_else(String::new, |name| format!("  {name}"));
    write_line(out, "session", &shorten(&format!("{}  {when}{name}", session.short), MAX_TEXT));
    if let Some(from) = &session.forked_from {
        write_line(out, "forked from", &format!("{from} (what was copied is not counted)"));
    }
}

fn session_table(sessions: &[SessionStats]) -> String {
    let mut table =
        Table::new(&["session", "started", "ending", "turns", "steps", "tokens", "cost"]);
    for session in sessions {
        let stats = &session.stats;
        table.add_row(vec![
            session.short.clone(),
            session.started.get(..10).unwrap_or_default().to_owned(),
            session.ending.clone().unwrap_or_else(|| "no turn".to_owned()),
            stats.turns.to_string(),
            stats.steps.to_string(),
            format_thousands(stats.spending.usage.total()),
            stats.spending.cost_cell(),
        ]);
    }
    table.render(3, 0)
}

fn write_numbers(out: &mut String, stats: &Stats) {
    if stats.turns > 0 {
        write_line(out, "outcome", &list_counts(&stats.outcomes));
    }
    match (stats.models.len(), stats.models.keys().next()) {
        (1, Some(model)) => write_line(out, "model", &shorten(model, MAX_TEXT)),
        (0, _) => {}
        _ => write_line(out, "models", &list_counts(&stats.models)),
    }
    let removed = match stats.removed_turns {
        0 => String::new(),
        n => format!(" ({n} removed by a rewind)"),
    };
    write_line(out, "turns", &format!("{}{removed}", stats.turns));
    write_line(out, "steps", &format_thousands(stats.steps.into()));
    write_line(out, "tokens", &stats.spending.tokens_in_words());
    let cost = stats.spending.cost_in_words();
    write_line(out, "cost", cost.as_deref().unwrap_or("unknown"));
    let time = &stats.time;
    let mut parts = vec![
        format!("models {}", format_duration(time.models_ms)),
        format!("tools {}", format_duration(time.tools_ms)),
    ];
    let more = [("checks", time.checks_ms), ("approvals", time.approvals_ms)];
    let more = more.into_iter().filter(|(_, ms)| *ms > 0);
    parts.extend(more.map(|(what, ms)| format!("{what} {}", format_duration(ms))));
    write_line(out, "time", &format!("{}: {}", format_duration(time.turns_ms), parts.join(", ")));
    write_recoveries(out, stats);
    write_optional_counts(out, stats);
}

fn write_recoveries(out: &mut String, stats: &Stats) {
    let Recoveries { failed, recovered, bypassed, unresolved } = stats.recoveries;
    if failed > 0 {
        let mut text = format!("{recovered} of {}", pluralize(failed.into(), "failed action"));
        let rest = [(bypassed, "left in completed turns"), (unresolved, "unresolved")];
        for (n, what) in rest.into_iter().filter(|(n, _)| *n > 0) {
            text.push_str(&format!(", {n} {what}"));
        }
        write_line(out, "recovered", &text);
    }
    let mut decisions = stats.decisions.clone();
    decisions.remove(ControlDecision::Continue.label());
    if !decisions.is_empty() {
        write_line(out, "decisions", &list_counts(&decisions));
    }
}

/// Writes the lines that exist only if there is something to count.
fn write_optional_counts(out: &mut String, stats: &Stats) {
    let mut counts = |name: &str, parts: &[(u32, &str)]| {
        let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        let parts = parts.collect::<Vec<_>>().join(", ");
        if !parts.is_empty() {
            write_line(out, name, &parts);
        }
    };
    counts("checks", &[(stats.checks.passed, "passed"), (stats.checks.failed, "failed")]);
    let verified = &stats.verifications;
    let verified = [
        (verified.confirmed, "confirmed"),
        (verified.objected, "with an objection"),
        (verified.no_verdict, "without a verdict"),
    ];
    counts("verified", &verified);
    counts("approvals", &[(stats.approvals.asked, "asked")]);
    let lessons = &stats.lessons;
    let recalled = [
        (lessons.for_task, "for the task"),
        (lessons.after_failure, "after a failure"),
        (lessons.for_reflection, "for a reflection"),
        (lessons.applied, "applied"),
    ];
    counts("lessons", &recalled);
    counts("learnt", &[(lessons.learnt, "new"), (lessons.confirmed, "confirmed")]);
    counts("requests", &[(stats.failed_requests, "failed")]);
    let compactions = &stats.compactions;
    if compactions.n > 0 {
        let before = format_thousands(compactions.tokens_before);
        let after = format_thousands(compactions.tokens_after);
        let text = format!("{}, ~{before} → ~{after} tokens", compactions.n);
        write_line(out, "compactions", &text);
    }
}

fn write_models(out: &mut String, stats: &Stats) {
    if stats.purposes.is_empty() {
        return;
    }
    let mut table =
        Table::new(&["model for", "answers", "input", "cached", "output", "cost", "time"]);
    for (purpose, name) in PURPOSES {
        let Some(used) = stats.purposes.get(purpose.as_str()) else { continue };
        table.add_row(vec![
            name.to_owned(),
            format_thousands(used.answers.into()),
            format_thousands(used.spending.usage.input_tokens),
            format_thousands(used.spending.usage.cached_tokens),
            format_thousands(used.spending.usage.output_tokens),
            used.spending.cost_cell(),
            format_duration(used.time_ms),
        ]);
    }
    _ = write!(out, "\n{}", table.render(1, FIRST_COLUMN_WIDTH));
}

fn write_tools(out: &mut String, stats: &Stats) {
    if stats.tools.is_empty() {
        return;
    }
    let mut table = Table::new(&["tool", "calls", "failed", "time", ""]);
    for (tool, used) in &stats.tools {
        let failed: u32 = used.failures.values().sum();
        let kernel = match used.by_kernel {
            0 => String::new(),
            n => format!("{n} by the kernel"),
        };
        table.add_row(vec![
            shorten(tool, MAX_NAME),
            format_thousands(used.calls.into()),
            format_thousands(failed.into()),
            format_duration(used.time_ms),
            kernel,
        ]);
    }
    _ = write!(out, "\n{}", table.render(1, FIRST_COLUMN_WIDTH));
    let mut codes: BTreeMap<&str, BTreeMap<String, u32>> = BTreeMap::new();
    for (tool, used) in &stats.tools {
        for (code, n) in &used.failures {
            *codes.entry(code).or_default().entry(tool.clone()).or_default() += n;
        }
    }
    if codes.is_empty() {
        return;
    }
    let mut table = Table::new(&["failure", "tools"]);
    for (code, tools) in codes {
        table.add_row(vec![code.to_owned(), shorten(&list_counts(&tools), MAX_TEXT)]);
    }
    _ = write!(out, "\n{}", table.render(2, FIRST_COLUMN_WIDTH));
}

/// `completed 3, failed 1`: the highest number comes first.
fn list_counts(counts: &BTreeMap<String, u32>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let counts = counts.into_iter().map(|(one, n)| format!("{} {n}", shorten(one, MAX_TEXT)));
    counts.collect::<Vec<_>>().join(", ")
}
