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
    /// A new directory for the results
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
    let variants = variants::parse_variants(&args.variant).map_err(usage_error)?;
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
    let mut results =
        EvaluationResults::create(&options::resolve_path(&output)?, &output, &header)?;
    let planned = plan::plan_runs(suite.tasks.len(), prepared.len(), args.repeat);
    let trials = Trials { suite: &suite, directories: &directories, prepared: &prepared };
    let runs = trials.run_all(&planned, args.jobs, &mut results, control).await?;

    let report = report::build_report(&suite, args.repeat, &header, &runs);
    results.write_report(&report)?;
    agent_ui::print_text(&report::variant_overview(&report));
    let directory = results.directory.display();
    agent_ui::print_text(&format!("\nReport: {directory}/report.md, report.json\n"));
    let n_done = runs.iter().filter(|run| run.outcome != RunOutcome::Error).count();
    let n_missing = planned.len() - n_done;
    if n_missing > 0 {
        let notice = format!("{n_missing} of {} runs have no result", planned.len());
        agent_ui::print_notice(&notice);
    }
    let failed = u8::from(n_missing > 0);
    Ok(control.interrupt_cause().map_or(failed, |interrupt| interrupt.ending().exit_code()))
}

struct Trials<'a> {
    suite: &'a Suite,
    directories: &'a [Option<PathBuf>],
    prepared: &'a [PreparedVariant],
}

impl Trials<'_> {
    async fn run_all(
        &self,
        runs: &[PlannedRun],
        n_jobs: u8,
        results: &mut EvaluationResults,
        control: &SessionControl,
    ) -> Result<Vec<RunResult>, OpenError> {
        let directory = results.directory.clone();
        let cancel = control.cancellation_token();
        let run = |run: &PlannedRun| {
            let variant = &self.prepared[run.variant];
            let trial = Trial {
                task: &self.suite.tasks[run.task],
                directory: self.directories[run.task].as_deref(),
                variant: &variant.variant.variant.name,
                repetition: run.repetition,
                settings: &variant.settings,
                is_scripted: variant.variant.model == SCRIPT,
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
        let mut running = stream::iter(runs).map(run).buffer_unordered(n_jobs.into());
        let (mut done, mut n_errors) = (Vec::new(), 0);
        while let Some(result) = running.next().await {
            let Some(result) = result else { continue };
            n_errors = if result.outcome == RunOutcome::Error { n_errors + 1 } else { 0 };
            let line = format!("{}/{} {}", done.len() + 1, runs.len(), progress_line(&result));
            agent_ui::print_progress(&line);
            results.add(&result)?;
            done.push(result);
            if n_errors == MAX_ERRORS {
                let why = format!("stopped: {MAX_ERRORS} runs in a row could not be carried out");
                agent_ui::print_notice(&why);
                break;
            }
        }
        Ok(done)
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
