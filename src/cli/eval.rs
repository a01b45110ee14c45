//! `agent eval`: runs the tasks of a suite with each variant, and compares them.

mod prepare;
mod results;

use std::path::PathBuf;

use clap::Args;
use futures_util::stream::{self, StreamExt as _};

use super::{options, usage_error};
use crate::app::OpenError;
use crate::app::evaluation::Trial;
use crate::config;
use agent_protocol::control::SessionControl;
use agent_record::eval::plan::{self, PlannedRun};
use agent_record::eval::report;
use agent_record::eval::results::{FORMAT, ResultsHeader, RunOutcome, RunResult};
use agent_record::eval::suite::Suite;
use agent_record::eval::variants;
use prepare::{PreparedVariant, SCRIPT, load_config};
use results::EvaluationResults;

/// The evaluation stops after this number of failed runs in a row.
const MAX_ERRORS: usize = 3;

#[derive(Debug, Args)]
pub(super) struct EvalArgs {
    /// The suite, a TOML file; `basics` is a bundled one
    #[arg(value_name = "SUITE")]
    suite: PathBuf,
    /// A variant: NAME, or NAME:KEY=VALUE with a key of --set; the others are compared with the first
    #[arg(long, value_name = "NAME[:KEY=VALUE]")]
    variant: Vec<String>,
    /// Allow variants that change several settings: repeat NAME for each of them
    #[arg(long)]
    allow_confounded: bool,
    /// Runs of each task and variant
    #[arg(short = 'n', long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Only this task
    #[arg(long, value_name = "NAME")]
    task: Vec<String>,
    /// The model of all variants: provider/model, or `script` for the scripts of the tasks
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// Set a key of the configuration for all variants: KEY=VALUE
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Runs at the same time
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=64))]
    jobs: u8,
    /// The directory of the results; with that of an interrupted evaluation, continues it
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &EvalArgs) -> u8 {
    let control = SessionControl::default();
    super::block_on_result(Box::pin(run_evaluation(args, &control)), &control)
}

async fn run_evaluation(args: &EvalArgs, control: &SessionControl) -> Result<u8, OpenError> {
    let mut suite = prepare::read_suite(&args.suite)?;
    let mut directories = prepare::task_directories(&args.suite, &suite)?;
    let variants =
        variants::parse_variants(&args.variant, args.allow_confounded).map_err(usage_error)?;
    let prepared = prepare::prepare_variants(args, &suite, variants).await?;
    let header = ResultsHeader {
        format: FORMAT,
        suite: suite.name.clone(),
        suite_hash: blake3::hash(&serde_json::to_vec(&suite.tasks).unwrap_or_default())
            .to_hex()
            .to_string(),
        program: env!("CARGO_PKG_VERSION").to_owned(),
        started: config::now().strftime("%Y-%m-%d %H:%M").to_string(),
        variants: prepared.iter().map(|prepared| prepared.variant.clone()).collect(),
    };
    prepare::retain_tasks(&args.task, &mut suite, &mut directories)?;
    let output = args.output.clone().unwrap_or_else(|| {
        let name = suite.name.replace(|c: char| !c.is_alphanumeric() && !"-_.".contains(c), "-");
        format!("eval-{name}-{}", config::now().strftime("%Y%m%d-%H%M%S")).into()
    });
    let mut results = EvaluationResults::open(&options::resolve_path(&output)?, &output, header)?;
    let runs = plan::plan_runs(suite.tasks.len(), prepared.len(), args.repeat);
    let trials = Trials { suite: &suite, directories: &directories, prepared: &prepared };
    let is_complete = trials.run_all(&runs, args, &mut results, control).await?;

    let report = report::build_report(&suite, args.repeat, &results.header, &results.recorded);
    results.write_report(&report)?;
    agent_ui::print_text(&report::variant_overview(&report));
    let directory = results.directory.display();
    agent_ui::print_text(&format!("\nReport: {directory}/report.md, report.json\n"));
    let interrupted = control.interrupt_cause();
    if interrupted.is_some() || !is_complete {
        let n_errors = report.runs.iter().filter(|run| run.outcome == RunOutcome::Error).count();
        agent_ui::print_notice(&format!(
            "{} of {} runs have no result; the same command with -o {} continues",
            n_errors + report.missing(),
            report.planned,
            output.display()
        ));
    }
    Ok(match interrupted {
        Some(interrupt) => interrupt.ending().exit_code(),
        None => u8::from(!is_complete),
    })
}

struct Trials<'a> {
    suite: &'a Suite,
    directories: &'a [Option<PathBuf>],
    prepared: &'a [PreparedVariant],
}

impl Trials<'_> {
    /// Returns whether every run has a result.
    async fn run_all(
        &self,
        runs: &[PlannedRun],
        args: &EvalArgs,
        results: &mut EvaluationResults,
        control: &SessionControl,
    ) -> Result<bool, OpenError> {
        let name_of = |run: &PlannedRun| -> (&str, &str) {
            (&self.suite.tasks[run.task].name, &self.prepared[run.variant].variant.variant.name)
        };
        let is_done = |results: &EvaluationResults, run: &PlannedRun| {
            let (task, variant) = name_of(run);
            results.recorded.is_done(task, variant, run.repetition)
        };
        let left: Vec<PlannedRun> =
            runs.iter().filter(|run| !is_done(results, run)).copied().collect();
        let mut n_done = runs.len() - left.len();
        let directory = results.directory.clone();
        let cancel = control.cancellation_token();
        let run = |run: PlannedRun| {
            let trial = Trial {
                task: &self.suite.tasks[run.task],
                directory: self.directories[run.task].as_deref(),
                variant: name_of(&run).1,
                repetition: run.repetition,
                settings: &self.prepared[run.variant].settings,
                is_scripted: self.prepared[run.variant].variant.model == SCRIPT,
                results: &directory,
            };
            let (directory, cancel) = (&directory, &cancel);
            async move {
                // A run that has not begun when the user interrupts does not begin.
                if cancel.is_cancelled() {
                    return None;
                }
                trial.run(&|settings| load_config(directory, settings), cancel).await
            }
        };
        let mut running = stream::iter(left).map(run).buffer_unordered(args.jobs.into());
        let mut n_errors = 0;
        while let Some(result) = running.next().await {
            let Some(result) = result else { continue };
            n_done += 1;
            n_errors = if result.outcome == RunOutcome::Error { n_errors + 1 } else { 0 };
            let line = format!("{n_done}/{} {}", runs.len(), progress_line(&result));
            agent_ui::print_progress(&line);
            results.add(result)?;
            if n_errors == MAX_ERRORS {
                let why = format!("stopped: {MAX_ERRORS} runs in a row could not be carried out");
                agent_ui::print_notice(&why);
                return Ok(false);
            }
        }
        Ok(runs.iter().all(|run| is_done(results, run)))
    }
}

fn progress_line(run: &RunResult) -> String {
    let name = format!("{} · {} · repetition {}", run.task, run.variant, run.repetition);
    let steps =
        run.session.as_ref().map_or_else(String::new, |it| format!(" ({} steps)", it.steps));
    let why = run.reason.as_deref().unwrap_or_default();
    match run.outcome {
        RunOutcome::Success => format!("{name}: success{steps}"),
        RunOutcome::Failure => format!("{name}: failure{steps}: {why}"),
        RunOutcome::Error => format!("{name}: not carried out: {why}"),
    }
}
