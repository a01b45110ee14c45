//! Formats a comparison for people.

use std::fmt::Write as _;

use similar::{ChangeTag, DiffOp};

use super::{ComparedRun, Difference, DifferenceKind, RunComparison, RunExcerpt};
use crate::trace::table::{Table, format_duration};
use agent_protocol::line_diff::LineDiff;
use agent_protocol::spending::format_dollars;
use agent_protocol::{format_thousands, pluralize, shorten};

const MAX_LINES: usize = 60;
const MAX_LINE: usize = 300;
const CONTEXT: usize = 3;
const MAX_MODEL: usize = 24;
const CHARACTERS_BEFORE: usize = 40;

/// Formats the comparison for people.
pub fn render_text(comparison: &RunComparison) -> String {
    let mut out = String::new();
    let rounds = pluralize(comparison.equal_rounds as u64, "round");
    if comparison.equal {
        _ = writeln!(out, "the runs are equal: {rounds}\n");
    }
    for (n, difference) in comparison.differences.iter().enumerate() {
        let name = match difference.kind {
            DifferenceKind::Input => "input",
            DifferenceKind::Decision => "decision",
            DifferenceKind::Result => "result",
        };
        let lead = if n == 0 {
            format!("{rounds} equal, then the first difference")
        } else {
            "the first difference".to_owned()
        };
        _ = writeln!(out, "{lead} in {name}: {}\n", difference.what.replace('\n', " "));
        write_difference(&mut out, difference);
        out.push('\n');
    }
    out.push_str(&comparison_table(&comparison.a, &comparison.b));
    out
}

fn write_difference(out: &mut String, difference: &Difference) {
    let place = |part: &Option<RunExcerpt>| match part {
        Some(part) => format!("turn {}, round {} (event {})", part.turn, part.round, part.seq),
        None => "nothing".to_owned(),
    };
    _ = writeln!(out, "--- A: {}", place(&difference.a));
    _ = writeln!(out, "+++ B: {}", place(&difference.b));
    let lines =
        changed_lines(&excerpt_lines(difference.a.as_ref()), &excerpt_lines(difference.b.as_ref()));
    for line in lines.iter().take(MAX_LINES) {
        _ = writeln!(out, "{line}");
    }
    if lines.len() > MAX_LINES {
        let more = pluralize((lines.len() - MAX_LINES) as u64, "more line");
        _ = writeln!(out, "… {more}; --format json has all of it");
    }
}

fn excerpt_lines(part: Option<&RunExcerpt>) -> Vec<&str> {
    part.map_or("", |part| part.text.as_str()).lines().collect()
}

fn changed_lines(a: &[&str], b: &[&str]) -> Vec<String> {
    let diff = LineDiff::from_lines(a.to_vec(), b.to_vec());
    let mut lines = Vec::new();
    for hunk in diff.hunks(CONTEXT) {
        if let Some(first) = hunk.first() {
            let (a, b) = (first.old_range().start + 1, first.new_range().start + 1);
            lines.push(format!("@@ line {a} / {b} @@"));
        }
        for op in &hunk {
            for change in diff.changes_of(op) {
                let other = counterpart(op, change.old_index(), change.new_index(), (a, b));
                let line = cut_around_difference(change.value(), other);
                lines.push(match change.tag() {
                    ChangeTag::Equal => format!("  {line}"),
                    ChangeTag::Delete => format!("- {line}"),
                    ChangeTag::Insert => format!("+ {line}"),
                });
            }
        }
    }
    lines
}

/// The line of the other side in the place of this one.
fn counterpart<'a>(
    op: &DiffOp,
    old: Option<usize>,
    new: Option<usize>,
    (a, b): (&[&'a str], &[&'a str]),
) -> Option<&'a str> {
    let (old_range, new_range) = (op.old_range(), op.new_range());
    match (old, new) {
        (Some(old), None) if !new_range.is_empty() => {
            b.get(new_range.start + old - old_range.start).copied()
        }
        (None, Some(new)) if !old_range.is_empty() => {
            a.get(old_range.start + new - new_range.start).copied()
        }
        _ => None,
    }
}

fn cut_around_difference(line: &str, other: Option<&str>) -> String {
    if line.chars().count() <= MAX_LINE {
        return line.to_owned();
    }
    let same = line.chars().zip(other.unwrap_or_default().chars()).take_while(|(a, b)| a == b);
    let from = same.count().saturating_sub(CHARACTERS_BEFORE);
    let mut rest = line.chars().skip(from);
    let part: String = rest.by_ref().take(MAX_LINE).collect();
    let before = if from > 0 { "…" } else { "" };
    let after = if rest.next().is_some() { "…" } else { "" };
    format!("{before}{part}{after}")
}

fn comparison_table(a: &ComparedRun, b: &ComparedRun) -> String {
    let mut table = Table::new(&["", "A", "B", "B - A"]);
    let mut row = |name: &str, a: String, b: String, difference: String| {
        table.add_row(vec![name.to_owned(), a, b, difference]);
    };
    row("session", a.short.clone(), b.short.clone(), String::new());
    let model = |side: &ComparedRun| shorten(&side.model, MAX_MODEL);
    row("model", model(a), model(b), String::new());
    let minute = |side: &ComparedRun| side.started.get(..16).unwrap_or_default().replace('T', " ");
    row("started", minute(a), minute(b), String::new());
    let ending = |side: &ComparedRun| side.ending.clone().unwrap_or_else(|| "no turn".to_owned());
    row("ending", ending(a), ending(b), String::new());
    let (x, y) = (&a.stats, &b.stats);
    let (of_x, of_y) = (&x.spending, &y.spending);
    let numbers: [(&str, u64, u64); 7] = [
        ("turns", x.turns.into(), y.turns.into()),
        ("steps", x.steps.into(), y.steps.into()),
        ("calls", x.calls().into(), y.calls().into()),
        ("failed calls", x.failures().into(), y.failures().into()),
        ("input", of_x.usage.input_tokens, of_y.usage.input_tokens),
        ("cached", of_x.usage.cached_tokens, of_y.usage.cached_tokens),
        ("output", of_x.usage.output_tokens, of_y.usage.output_tokens),
    ];
    for (name, a, b) in numbers {
        let difference = signed_difference(a, b, format_thousands);
        row(name, format_thousands(a), format_thousands(b), difference);
    }
    let difference = of_x.cost_usd.zip(of_y.cost_usd).map_or_else(String::new, |(a, b)| {
        format!("{}{}", if b < a { "-" } else { "+" }, format_dollars((b - a).abs()))
    });
    row("cost", of_x.cost_cell(), of_y.cost_cell(), difference);
    // Rounded to the displayed precision.
    let (a, b) = (x.time.turns_ms / 100 * 100, y.time.turns_ms / 100 * 100);
    row("time", format_duration(a), format_duration(b), signed_difference(a, b, format_duration));
    table.render(1, 12)
}

fn signed_difference(a: u64, b: u64, show: impl Fn(u64) -> String) -> String {
    match a.cmp(&b) {
        std::cmp::Ordering::Equal => "=".to_owned(),
        std::cmp::Ordering::Less => format!("+{}", show(b - a)),
        std::cmp::Ordering::Greater => format!("-{}", show(a - b)),
    }
}
