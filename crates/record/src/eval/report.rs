//! The report: the results of each variant, and the comparison of the variants with the first one.

mod markdown;

use std::collections::BTreeMap;

use serde::Serialize;

use super::results::{
    EvaluatedVariant, ResultsFile, ResultsHeader, RunOutcome, RunResult, SessionResult,
};
use super::statistics::{
    ComparisonVerdict, Interval, MIN_DIFFERING_PAIRS, PairCounts, design_effect, wilson_interval,
};
use super::suite::Suite;
use agent_protocol::pluralize;

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
    pub tasks: Vec<TaskRow>,
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
    pub design_effect: f64,
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
    pub pairs: PairCounts,
    /// Difference of the success rates from -1 to 1; `None` without pairs.
    pub difference: Option<f64>,
    pub interval: Option<Interval>,
    pub design_effect: f64,
    pub verdict: ComparisonVerdict,
    pub conclusion: String,
    /// Mean differences within the pairs with two successes.
    pub of_successes: Option<RunMeans>,
}

/// The results of a task.
#[derive(Clone, Debug, Serialize)]
pub struct TaskRow {
    pub task: String,
    pub cells: Vec<TaskCell>,
}

/// The results of a task with a variant.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TaskCell {
    pub runs: u32,
    pub successes: u32,
    pub steps: Option<f64>,
}

/// Computes the report of these results.
pub fn build_report(
    suite: &Suite,
    repetitions: u32,
    header: &ResultsHeader,
    recorded: &ResultsFile,
) -> EvaluationReport {
    let is_planned = |run: &&RunResult| {
        run.repetition <= repetitions && suite.tasks.iter().any(|task| task.name == run.task)
    };
    let mut runs: Vec<&RunResult> = recorded.runs.iter().filter(is_planned).collect();
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
    let tasks = suite.tasks.iter().map(|task| TaskRow {
        task: task.name.clone(),
        cells: names().map(|variant| result_cell(&task.name, variant, &runs)).collect(),
    });
    EvaluationReport {
        header: header.clone(),
        repetitions,
        planned: suite.tasks.len() * header.variants.len() * repetitions as usize,
        rows,
        comparisons,
        tasks: tasks.collect(),
        runs: runs.into_iter().cloned().collect(),
    }
}

impl EvaluationReport {
    /// The runs that failed, or could not be carried out.
    pub fn unsuccessful(&self) -> impl Iterator<Item = &RunResult> {
        self.runs.iter().filter(|run| !is_success(run))
    }

    fn describe_size(&self) -> String {
        format!(
            "{}, {} of each, agent {}, started {}",
            pluralize(self.tasks.len() as u64, "task"),
            pluralize(self.repetitions.into(), "run"),
            self.header.program,
            self.header.started
        )
    }

    /// The number of planned runs without a result.
    pub fn missing(&self) -> usize {
        self.planned.saturating_sub(self.runs.len())
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "Intervals have a confidence of 95 %: of a success rate by Wilson (1927), of a paired difference by Newcombe \
             (1998), method 10."
                .to_owned(),
        ];
        if self.repetitions > 1 {
            notes.push(
                "Repetitions of a task resemble each other: they count as far as they differ (design effect, Kish 1965), so \
                 more tasks say more than more repetitions."
                    .to_owned(),
            );
        }
        if self.missing() > 0 {
            notes.push(format!(
                "{} of {} runs have no result yet: the same command with the same -o directory continues.",
                self.missing(),
                self.planned
            ));
        }
        notes
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
    let figures: Vec<_> =
        done.iter().filter_map(|run| run.session.as_ref()).map(run_figures).collect();
    let clusters =
        group_by_task(done.iter().map(|run| (run.task.as_str(), f64::from(is_success(run)))));
    let design_effect = design_effect(&clusters);
    let costs = all.clone().filter_map(|run| run.session.as_ref()?.cost_usd);
    VariantRow {
        variant: variant.clone(),
        runs: n,
        successes,
        errors: to_u32(all.count()) - n,
        rate: (n > 0).then(|| f64::from(successes) / f64::from(n)),
        interval: wilson_interval(successes, n, design_effect),
        design_effect,
        means: mean_figures(&figures),
        cost_usd: costs.fold(None, |sum, cost| Some(sum.unwrap_or(0.0) + cost)),
    }
}

fn compare_variants(variant: &str, baseline: &str, runs: &[&RunResult]) -> VariantComparison {
    let mut pairs = PairCounts::default();
    let (mut figure_differences, mut outcome_differences) = (Vec::new(), Vec::new());
    for run in runs.iter().filter(|run| run.variant == variant && is_done(run)) {
        let other = runs.iter().find(|other| {
            other.variant == baseline
                && other.task == run.task
                && other.repetition == run.repetition
                && is_done(other)
        });
        let Some(other) = other else { continue };
        pairs.add(is_success(run), is_success(other));
        let difference = f64::from(is_success(run)) - f64::from(is_success(other));
        outcome_differences.push((run.task.as_str(), difference));
        if let (true, true, Some(one), Some(other)) =
            (is_success(run), is_success(other), &run.session, &other.session)
        {
            let (one, other) = (run_figures(one), run_figures(other));
            figure_differences.push(std::array::from_fn(|at| one[at] - other[at]));
        }
    }
    let design_effect = design_effect(&group_by_task(outcome_differences.into_iter()));
    let difference = pairs.difference(design_effect);
    VariantComparison {
        variant: variant.to_owned(),
        baseline: baseline.to_owned(),
        pairs,
        difference: difference.map(|(difference, _)| difference),
        interval: difference.map(|(_, interval)| interval),
        design_effect,
        verdict: pairs.verdict(design_effect),
        conclusion: conclusion(variant, baseline, &pairs, design_effect),
        of_successes: mean_figures(&figure_differences),
    }
}

fn group_by_task<'a>(values: impl Iterator<Item = (&'a str, f64)>) -> Vec<Vec<f64>> {
    let mut tasks: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (task, value) in values {
        tasks.entry(task).or_default().push(value);
    }
    tasks.into_values().collect()
}

fn conclusion(variant: &str, baseline: &str, pairs: &PairCounts, design_effect: f64) -> String {
    match pairs.verdict(design_effect) {
        ComparisonVerdict::Better => format!("{variant} succeeds more often than {baseline}"),
        ComparisonVerdict::Worse => format!("{variant} succeeds less often than {baseline}"),
        ComparisonVerdict::Undecided if pairs.total() == 0 => {
            "there are no pairs to compare yet".to_owned()
        }
        ComparisonVerdict::Undecided if !pairs.can_decide(design_effect) => {
            let (differing, n) = (pairs.differing(), pairs.total());
            let differ = if design_effect > 1.0 {
                let effective = f64::from(differing) / design_effect;
                format!(
                    "{differing} of {n} pairs differ, but they count as {effective:.1} independent pairs"
                )
            } else {
                format!("only {differing} of {n} pairs differ")
            };
            format!(
                "the data do not decide: {differ}, and at least {MIN_DIFFERING_PAIRS} are needed; add tasks"
            )
        }
        ComparisonVerdict::Undecided => {
            "the data do not decide: the interval contains 0; add tasks or repetitions".to_owned()
        }
    }
}

fn result_cell(task: &str, variant: &str, runs: &[&RunResult]) -> TaskCell {
    let done: Vec<&&RunResult> = runs
        .iter()
        .filter(|run| run.task == task && run.variant == variant && is_done(run))
        .collect();
    let steps: Vec<f64> =
        done.iter().filter_map(|run| Some(f64::from(run.session.as_ref()?.steps))).collect();
    TaskCell {
        runs: to_u32(done.len()),
        successes: to_u32(done.iter().filter(|run| is_success(run)).count()),
        steps: mean(&steps),
    }
}

/// Steps, tokens of requests and of answers, and seconds.
#[expect(clippy::cast_precision_loss, reason = "such numbers are exact up to 2^53")]
fn run_figures(session: &SessionResult) -> [f64; 4] {
    [
        f64::from(session.steps),
        session.input_tokens as f64,
        session.output_tokens as f64,
        session.time_ms as f64 / 1000.0,
    ]
}

fn mean_figures(figures: &[[f64; 4]]) -> Option<RunMeans> {
    let mean = |at: usize| mean(&figures.iter().map(|figures| figures[at]).collect::<Vec<_>>());
    let (steps, input_tokens, output_tokens) = (mean(0)?, mean(1)?, mean(2)?);
    Some(RunMeans { steps, input_tokens, output_tokens, seconds: mean(3)? })
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / f64::from(to_u32(values.len())))
}

fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// `−25 points (−53 to +8)`, in percentage points.
fn points(difference: f64, interval: Interval) -> String {
    let points = |share: f64| signed(share * 100.0, 0);
    format!("{} points ({} to {})", points(difference), points(interval.low), points(interval.high))
}

/// With a sign, unless the number is displayed as 0.
fn signed(value: f64, decimals: usize) -> String {
    let shown = format!("{:.decimals$}", value.abs());
    match shown.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        true => shown,
        false if value < 0.0 => format!("−{shown}"),
        false => format!("+{shown}"),
    }
}

fn changes_in_words(variant: &EvaluatedVariant) -> String {
    let changes: Vec<String> =
        variant.variant.changes.iter().map(super::variants::SettingChange::assignment).collect();
    if changes.is_empty() { "no change".to_owned() } else { changes.join(", ") }
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

/// For pairs with two successes: `−1.2 steps, +30 tokens in, …`.
fn differences_of_successes(means: &RunMeans) -> String {
    format!(
        "{} steps, {} tokens in, {} tokens out, {} s",
        signed(means.steps, 1),
        signed(means.input_tokens, 0),
        signed(means.output_tokens, 0),
        signed(means.seconds, 1)
    )
}

/// `2/3 · 4.5 steps`.
fn task_cell_text(cell: &TaskCell) -> String {
    match cell.steps {
        _ if cell.runs == 0 => "–".to_owned(),
        Some(steps) => format!("{}/{} · {steps:.1} steps", cell.successes, cell.runs),
        None => format!("{}/{}", cell.successes, cell.runs),
    }
}

fn outcome_in_words(run: &RunResult) -> &'static str {
    match run.outcome {
        RunOutcome::Success => "succeeded",
        RunOutcome::Failure => "failed",
        RunOutcome::Error => "not carried out",
    }
}

/// The command that shows a session, for a shell. The directory is the user's, and the id is a UUID.
fn trace_command(directory: &str, session: &SessionResult) -> String {
    let state = format!("{directory}/state");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let state = if state.chars().all(is_plain) {
        state
    } else {
        format!("'{}'", state.replace('\'', "'\\''"))
    };
    format!("XDG_STATE_HOME={state} agent trace html {}", session.session)
}
