//! The report: the results of each variant, and the comparison of the variants with the first one.

mod markdown;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::results::{EvaluatedVariant, ResultsHeader, RunOutcome, RunResult, SessionResult};
use super::statistics::{ComparisonVerdict, Interval, compare_units, wilson_interval};
use super::suite::Suite;

pub use markdown::{render_markdown, variant_overview};

/// The report of an evaluation.
#[derive(Clone, Debug, Serialize)]
pub struct EvaluationReport {
    #[serde(flatten)]
    pub header: ResultsHeader,
    pub repetitions: u32,
    pub planned: usize,
    pub rows: Vec<VariantRow>,
    pub comparisons: Vec<VariantComparison>,
    /// The number of tasks.
    pub tasks: usize,
    pub runs: Vec<RunResult>,
}

/// The results of a variant.
#[derive(Clone, Debug, Serialize)]
pub struct VariantRow {
    #[serde(flatten)]
    pub variant: EvaluatedVariant,
    /// Number of runs that succeeded or failed.
    pub runs: u32,
    pub successes: u32,
    pub errors: u32,
    /// Share of successes from 0 to 1; `None` without runs.
    pub rate: Option<f64>,
    pub interval: Option<Interval>,
    pub means: Option<RunMeans>,
    /// US dollars of all runs; `None` if the price is unknown.
    pub cost_usd: Option<f64>,
}

/// Means per run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RunMeans {
    pub steps: f64,
    pub input_tokens: f64,
    pub output_tokens: f64,
    pub seconds: f64,
}

/// A variant compared with the first one, by pairs of runs of the same task and repetition.
#[derive(Clone, Debug, Serialize)]
pub struct VariantComparison {
    pub variant: String,
    pub baseline: String,
    pub pairs: u32,
    /// Difference of the success rates from -1 to 1; `None` without pairs.
    pub difference: Option<f64>,
    /// Number of tasks that succeeded more often than with the baseline; of a single task, of repetitions.
    pub better: u32,
    /// Number of those that succeeded less often.
    pub worse: u32,
    pub verdict: ComparisonVerdict,
    pub conclusion: String,
}

/// Computes the report of these results.
pub fn build_report(
    suite: &Suite,
    repetitions: u32,
    header: &ResultsHeader,
    results: &[RunResult],
) -> EvaluationReport {
    let mut runs: Vec<&RunResult> = results.iter().collect();
    let names = || header.variants.iter().map(|evaluated| evaluated.variant.name.as_str());
    runs.sort_by_key(|run| {
        let task = suite.tasks.iter().position(|task| task.name == run.task);
        let variant = names().position(|name| name == run.variant);
        (task, run.repetition, variant)
    });
    let rows = header.variants.iter().map(|variant| variant_row(variant, &runs)).collect();
    let comparisons = names().next().map_or_else(Vec::new, |baseline| {
        names().skip(1).map(|variant| compare_variants(variant, baseline, &runs)).collect()
    });
    EvaluationReport {
        header: header.clone(),
        repetitions,
        planned: suite.tasks.len() * header.variants.len() * repetitions as usize,
        rows,
        comparisons,
        tasks: suite.tasks.len(),
        runs: runs.into_iter().cloned().collect(),
    }
}

fn is_done(run: &RunResult) -> bool {
    run.outcome != RunOutcome::Error
}

fn is_success(run: &RunResult) -> bool {
    run.outcome == RunOutcome::Success
}

fn variant_row(variant: &EvaluatedVariant, runs: &[&RunResult]) -> VariantRow {
    let all = runs.iter().filter(|run| run.variant == variant.variant.name);
    let done: Vec<&RunResult> = all.clone().copied().filter(|run| is_done(run)).collect();
    let n = to_u32(done.len());
    let successes = to_u32(done.iter().filter(|run| is_success(run)).count());
    let sessions: Vec<&SessionResult> =
        done.iter().filter_map(|run| run.session.as_ref()).collect();
    let tasks: BTreeSet<&str> = done.iter().map(|run| run.task.as_str()).collect();
    // Repetitions of a task resemble each other; results of a single task are about that task.
    let n_independent = if tasks.len() > 1 { to_u32(tasks.len()) } else { n };
    let rate = (n > 0).then(|| f64::from(successes) / f64::from(n));
    let costs = all.clone().filter_map(|run| run.session.as_ref()?.cost_usd);
    VariantRow {
        variant: variant.clone(),
        runs: n,
        successes,
        errors: to_u32(all.count()) - n,
        rate,
        interval: rate.map(|rate| wilson_interval(rate, n_independent)),
        means: mean_figures(&sessions),
        cost_usd: costs.fold(None, |sum, cost| Some(sum.unwrap_or(0.0) + cost)),
    }
}

fn compare_variants(variant: &str, baseline: &str, runs: &[&RunResult]) -> VariantComparison {
    let mut pairs = Vec::new();
    for run in runs.iter().filter(|run| run.variant == variant && is_done(run)) {
        let other = runs.iter().find(|other| {
            other.variant == baseline
                && other.task == run.task
                && other.repetition == run.repetition
                && is_done(other)
        });
        let Some(other) = other else { continue };
        pairs.push((run, i32::from(is_success(run)) - i32::from(is_success(other))));
    }
    let is_one_task = pairs.windows(2).all(|two| two[0].0.task == two[1].0.task);
    let mut units: BTreeMap<(&str, u32), i32> = BTreeMap::new();
    for (run, difference) in &pairs {
        let repetition = if is_one_task { run.repetition } else { 0 };
        *units.entry((run.task.as_str(), repetition)).or_default() += difference;
    }
    let better = to_u32(units.values().filter(|difference| **difference > 0).count());
    let worse = to_u32(units.values().filter(|difference| **difference < 0).count());
    let verdict = compare_units(better, worse);
    let differences: Vec<f64> =
        pairs.iter().map(|(_, difference)| f64::from(*difference)).collect();
    VariantComparison {
        variant: variant.to_owned(),
        baseline: baseline.to_owned(),
        pairs: to_u32(pairs.len()),
        difference: mean(&differences),
        better,
        worse,
        verdict,
        conclusion: match verdict {
            ComparisonVerdict::Better => format!("{variant} succeeds more often than {baseline}"),
            ComparisonVerdict::Worse => format!("{variant} succeeds less often than {baseline}"),
            ComparisonVerdict::Undecided => {
                "the data do not decide: too few differ, or in both directions; add tasks"
                    .to_owned()
            }
        },
    }
}

#[expect(clippy::cast_precision_loss, reason = "such numbers are exact up to 2^53")]
fn mean_figures(sessions: &[&SessionResult]) -> Option<RunMeans> {
    let mean_of = |figure: fn(&SessionResult) -> f64| {
        mean(&sessions.iter().map(|session| figure(session)).collect::<Vec<_>>())
    };
    Some(RunMeans {
        steps: mean_of(|it| f64::from(it.steps))?,
        input_tokens: mean_of(|it| it.input_tokens as f64)?,
        output_tokens: mean_of(|it| it.output_tokens as f64)?,
        seconds: mean_of(|it| it.time_ms as f64 / 1000.0)?,
    })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / f64::from(to_u32(values.len())))
}

fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn change_in_words(variant: &EvaluatedVariant) -> String {
    let change = variant.variant.change.as_ref();
    change.map_or_else(|| "no change".to_owned(), super::variants::SettingChange::assignment)
}

/// The cells after the name and the changes; the first one is the success rate.
fn variant_cells(row: &VariantRow) -> [String; 8] {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    let mean = |of: fn(&RunMeans) -> f64, decimals: usize| {
        or_none(row.means.as_ref().map(|means| format!("{:.decimals$}", of(means))))
    };
    [
        or_none(row.rate.map(|rate| format!("{:.0} %", rate * 100.0))),
        or_none(row.interval.map(|it| format!("{:.0}–{:.0} %", it.low * 100.0, it.high * 100.0))),
        match row.errors {
            0 => format!("{}/{}", row.successes, row.runs),
            errors => format!("{}/{} (+{errors} not carried out)", row.successes, row.runs),
        },
        mean(|means| means.steps, 1),
        mean(|means| means.input_tokens, 0),
        mean(|means| means.output_tokens, 0),
        or_none(row.cost_usd.map(|usd| format!("${usd:.4}"))),
        or_none(row.means.as_ref().map(|means| format!("{:.1} s", means.seconds))),
    ]
}

const COLUMNS: [&str; 8] =
    ["success", "95 % interval", "runs", "steps", "tokens in", "tokens out", "cost of all", "time"];

fn outcome_in_words(run: &RunResult) -> &'static str {
    match run.outcome {
        RunOutcome::Success => "succeeded",
        RunOutcome::Failure => "failed",
        RunOutcome::Error => "not carried out",
    }
}

/// The command that shows a session, for a shell. The directory is the user's, and the id is a UUID.
fn trace_command(directory: &str, session: &SessionResult) -> String {
    let state = format!("{directory}/state").replace('\'', r"'\''");
    format!("XDG_STATE_HOME='{state}' agent trace html {}", session.session)
}
