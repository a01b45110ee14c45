//! Statistics as tables for people, in at most 80 columns.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Recoveries, Report, SessionStats, Stats};
use crate::trace::table::{Table, duration};
use agent_protocol::model::Purpose;
use agent_protocol::{counted, shorten, thousands};

/// Width of the first column.
const FIRST: usize = 12;
/// Width of the rest of a line.
const REST: usize = 80 - FIRST - 2;
/// Limit of names that a record contains, in bytes.
const MAX_NAME: usize = 24;
/// Limit of longer texts.
const MAX_TEXT: usize = 56;

/// The purposes, in the order in which they are shown.
const PURPOSES: [Purpose; 7] = [
    Purpose::Main,
    Purpose::Agent,
    Purpose::Plan,
    Purpose::Reflect,
    Purpose::Task,
    Purpose::Summary,
    Purpose::Learn,
];

pub(super) fn text(report: &Report) -> String {
    let mut out = String::new();
    match report.sessions.as_slice() {
        [one] => head(&mut out, one),
        several => {
            out.push_str(&sessions(several));
            out.push('\n');
            line(&mut out, "sessions", &thousands(several.len() as u64));
        }
    }
    numbers(&mut out, &report.total);
    models(&mut out, &report.total);
    tools(&mut out, &report.total);
    out
}

/// A line, or several if it is too long for one.
fn line(out: &mut String, name: &str, value: &str) {
    let value = value.replace('\n', " ");
    let mut lines = vec![String::new()];
    for part in value.split_inclusive(", ") {
        let is_full = |line: &String| line.chars().count() + part.trim_end().chars().count() > REST;
        if lines.last().is_some_and(|line| !line.is_empty() && is_full(line)) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(part);
        }
    }
    for (n, line) in lines.iter().enumerate() {
        let name = if n == 0 { name } else { "" };
        _ = writeln!(out, "{name:<FIRST$}  {}", line.trim_end());
    }
}

fn head(out: &mut String, session: &SessionStats) {
    let when = session.started.get(..16).unwrap_or_default().replace('T', " ");
    let name = session.name.as_ref().map_or_else(String::new, |name| format!("  {name}"));
    line(out, "session", &shorten(&format!("{}  {when}{name}", session.short), MAX_TEXT));
    if let Some(from) = &session.forked_from {
        line(out, "forked from", &format!("{from} (what was copied is not counted)"));
    }
}

fn sessions(sessions: &[SessionStats]) -> String {
    let mut table =
        Table::new(&["session", "started", "ending", "turns", "steps", "tokens", "cost"]);
    for session in sessions {
        let stats = &session.stats;
        table.row(vec![
            session.short.clone(),
            session.started.get(..10).unwrap_or_default().to_owned(),
            session.ending.clone().unwrap_or_else(|| "no turn".to_owned()),
            stats.turns.to_string(),
            stats.steps.to_string(),
            thousands(stats.spending.usage.total()),
            stats.spending.cost_in_brief(),
        ]);
    }
    table.lines(3, 0)
}

fn numbers(out: &mut String, stats: &Stats) {
    if stats.turns > 0 {
        line(out, "outcome", &list(&stats.outcomes));
    }
    match stats.models.len() {
        0 => {}
        1 => line(out, "model", &stats.models.keys().map(|model| name(model)).collect::<String>()),
        _ => line(out, "models", &list(&stats.models)),
    }
    let removed = match stats.removed_turns {
        0 => String::new(),
        n => format!(" ({n} removed by a rewind)"),
    };
    line(out, "turns", &format!("{}{removed}", stats.turns));
    line(out, "steps", &thousands(stats.steps.into()));
    line(out, "tokens", &stats.spending.tokens_in_words());
    let cost = stats.spending.cost_in_words();
    line(out, "cost", cost.as_deref().unwrap_or("unknown"));
    let time = &stats.time;
    let mut parts = vec![
        format!("models {}", duration(time.models_ms)),
        format!("tools {}", duration(time.tools_ms)),
    ];
    let more = [("checks", time.checks_ms), ("approvals", time.approvals_ms)];
    let more = more.into_iter().filter(|(_, ms)| *ms > 0);
    parts.extend(more.map(|(what, ms)| format!("{what} {}", duration(ms))));
    line(out, "time", &format!("{}: {}", duration(time.turns_ms), parts.join(", ")));
    recovery(out, stats);
    rarer(out, stats);
}

fn recovery(out: &mut String, stats: &Stats) {
    let Recoveries { failed, recovered, bypassed, unresolved } = stats.recoveries;
    if failed > 0 {
        let mut text = format!("{recovered} of {}", counted(failed.into(), "failed action"));
        let rest = [(bypassed, "left in completed turns"), (unresolved, "unresolved")];
        for (n, what) in rest.into_iter().filter(|(n, _)| *n > 0) {
            text.push_str(&format!(", {n} {what}"));
        }
        line(out, "recovered", &text);
    }
    let responses: BTreeMap<String, u32> =
        stats.responses().map(|(decision, n)| (decision.clone(), *n)).collect();
    if !responses.is_empty() {
        line(out, "decisions", &list(&responses));
    }
}

/// Lines that exist only if there is something to count.
fn rarer(out: &mut String, stats: &Stats) {
    let mut counts = |name: &str, parts: &[(u32, &str)]| {
        let parts = parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
        let parts = parts.collect::<Vec<_>>().join(", ");
        if !parts.is_empty() {
            line(out, name, &parts);
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
        let (before, after) =
            (thousands(compactions.tokens_before), thousands(compactions.tokens_after));
        let text = format!("{}, ~{before} → ~{after} tokens", compactions.n);
        line(out, "compactions", &text);
    }
}

fn models(out: &mut String, stats: &Stats) {
    if stats.purposes.is_empty() {
        return;
    }
    let mut table =
        Table::new(&["model for", "answers", "input", "cached", "output", "cost", "time"]);
    for purpose in PURPOSES {
        let Some(used) = stats.purposes.get(purpose.as_str()) else { continue };
        table.row(vec![
            in_words(purpose).to_owned(),
            thousands(used.answers.into()),
            thousands(used.spending.usage.input_tokens),
            thousands(used.spending.usage.cached_tokens),
            thousands(used.spending.usage.output_tokens),
            used.spending.cost_in_brief(),
            duration(used.time_ms),
        ]);
    }
    _ = write!(out, "\n{}", table.lines(1, FIRST));
}

/// What a purpose means.
fn in_words(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Main => "the task",
        Purpose::Agent => "sub-agents",
        Purpose::Plan => "planning",
        Purpose::Reflect => "reflection",
        Purpose::Task => "verifying",
        Purpose::Summary => "summaries",
        Purpose::Learn => "learning",
    }
}

fn tools(out: &mut String, stats: &Stats) {
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
        table.row(vec![
            shorten(tool, MAX_NAME),
            thousands(used.calls.into()),
            thousands(failed.into()),
            duration(used.time_ms),
            kernel,
        ]);
    }
    _ = write!(out, "\n{}", table.lines(1, FIRST));
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
        table.row(vec![code.to_owned(), shorten(&list(&tools), MAX_TEXT)]);
    }
    _ = write!(out, "\n{}", table.lines(2, FIRST));
}

/// `completed 3, failed 1`: the most frequent first.
fn list(counts: &BTreeMap<String, u32>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(**n));
    let counts = counts.into_iter().map(|(one, n)| format!("{} {n}", name(one)));
    counts.collect::<Vec<_>>().join(", ")
}

/// A name of the record, cut to a width that fits.
fn name(name: &str) -> String {
    shorten(name, MAX_TEXT)
}
