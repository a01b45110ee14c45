//! `agent eval`: runs the tasks of a suite with each variant, and compares them.

mod prepare;
mod results;

use std::path::{Path, PathBuf};

use clap::Args;
use futures_util::stream::{self, StreamExt as _};

use super::options;
use crate::app::OpenError;
use crate::app::evaluation::Trial;
use crate::config;
use agent_protocol::control::Control;
use agent_record::eval::plan::{self, Run};
use agent_record::eval::report::{self, Report};
use agent_record::eval::results::{FORMAT, Header, Outcome, RunResult};
use agent_record::eval::suite::Suite;
use agent_record::eval::variants;
use prepare::{Prepared, SCRIPT, load};
use results::Results;

/// After so many runs in a row that could not be carried out, the evaluation stops.
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
    /// Exit with 1 if a variant succeeds less often: 0.9
    #[arg(long, value_name = "RATE")]
    min_success: Option<f64>,
}

pub(super) fn eval(args: &EvalArgs) -> u8 {
    let control = Control::default();
    let work = async {
        match Box::pin(work(args, &control)).await {
            Ok(code) => code,
            Err(error) => {
                agent_ui::tell(&error.to_string());
                error.exit_code()
            }
        }
    };
    super::block_on(work, &control)
}

async fn work(args: &EvalArgs, control: &Control) -> Result<u8, OpenError> {
    if args.min_success.is_some_and(|rate| !(0.0..=1.0).contains(&rate)) {
        return Err(usage("--min-success: must be from 0 to 1"));
    }
    let mut suite = prepare::read_suite(&args.suite)?;
    let mut directories = prepare::directories(&args.suite, &suite)?;
    let variants = variants::parse(&args.variant, args.allow_confounded).map_err(usage)?;
    let prepared = prepare::prepare(args, &suite, variants).await?;
    let header = Header {
        format: FORMAT,
        suite: suite.name.clone(),
        suite_hash: prepare::hash_of(&suite, &directories)?,
        program: env!("CARGO_PKG_VERSION").to_owned(),
        started: config::now().strftime("%Y-%m-%d %H:%M").to_string(),
        variants: prepared.iter().map(|prepared| prepared.variant.clone()).collect(),
    };
    prepare::only(&args.task, &mut suite, &mut directories)?;
    let output = args.output.clone().unwrap_or_else(|| {
        PathBuf::from(format!(
            "eval-{}-{}",
            file_name(&suite.name),
            config::now().strftime("%Y%m%d-%H%M%S")
        ))
    });
    let mut results = Results::open(&options::resolve(&output)?, &output, header)?;
    let runs = plan::order(suite.tasks.len(), prepared.len(), args.repeat);
    let trials = Trials { suite: &suite, directories: &directories, prepared: &prepared };
    let is_complete = trials.carry_out(&runs, args, &mut results, control).await?;

    let report = report::report(&suite, args.repeat, results.header(), results.recorded());
    results.write_report(&report)?;
    agent_ui::print(&report.overview());
    let directory = results.directory().display();
    agent_ui::print(&format!("\nReport: {directory}/report.html, report.md, report.json\n"));
    if let Some(interrupt) = control.interrupted() {
        continued(&report, &output);
        return Ok(interrupt.ending().exit_code());
    }
    if !is_complete {
        continued(&report, &output);
    }
    Ok(code(args, &report, is_complete))
}

/// Says how to continue.
fn continued(report: &Report, output: &Path) {
    agent_ui::tell(&format!(
        "{} of {} runs have no result; the same command with -o {} continues",
        report.runs.iter().filter(|run| run.outcome == Outcome::Error).count() + report.missing(),
        report.planned,
        output.display()
    ));
}

fn code(args: &EvalArgs, report: &Report, is_complete: bool) -> u8 {
    let mut code = u8::from(!is_complete);
    for row in &report.rows {
        if let (Some(min), Some(rate)) = (args.min_success, row.rate)
            && rate < min
        {
            let name = &row.variant.variant.name;
            agent_ui::tell(&format!("--min-success {min}: variant {name} reached {rate:.2}"));
            code = 1;
        }
    }
    code
}

struct Trials<'a> {
    suite: &'a Suite,
    directories: &'a [Option<PathBuf>],
    prepared: &'a [Prepared],
}

impl Trials<'_> {
    /// Carries out the runs that have no result. Returns whether all of them have one.
    async fn carry_out(
        &self,
        runs: &[Run],
        args: &EvalArgs,
        results: &mut Results,
        control: &Control,
    ) -> Result<bool, OpenError> {
        let name_of = |run: &Run| -> (&str, &str) {
            (&self.suite.tasks[run.task].name, &self.prepared[run.variant].variant.variant.name)
        };
        let is_done = |results: &Results, run: &Run| {
            let (task, variant) = name_of(run);
            results.recorded().is_done(task, variant, run.repetition)
        };
        let left: Vec<Run> = runs.iter().filter(|run| !is_done(results, run)).copied().collect();
        let mut n_done = runs.len() - left.len();
        let settings: Vec<Vec<String>> =
            self.prepared.iter().map(|it| results.with_prompts(it)).collect::<Result<_, _>>()?;
        let directory = results.directory().to_owned();
        let cancel = control.cancel();
        let progress = agent_ui::Progress::new(runs.len());
        progress.bar(n_done, "");
        let run = |run: Run| {
            let trial = Trial {
                task: &self.suite.tasks[run.task],
                directory: self.directories[run.task].as_deref(),
                variant: name_of(&run).1,
                repetition: run.repetition,
                settings: &settings[run.variant],
                is_scripted: self.prepared[run.variant].variant.model == SCRIPT,
                results: &directory,
            };
            let (directory, cancel) = (&directory, &cancel);
            async move {
                // (One that has not begun when the user interrupts does not begin.)
                if cancel.is_cancelled() {
                    return None;
                }
                trial.carry_out(&|settings| load(directory, settings), cancel).await
            }
        };
        let mut running = stream::iter(left).map(run).buffer_unordered(args.jobs.into());
        let mut n_errors = 0;
        while let Some(result) = running.next().await {
            let Some(result) = result else { continue };
            n_done += 1;
            n_errors = if result.outcome == Outcome::Error { n_errors + 1 } else { 0 };
            progress.step(n_done, &line(&result), result.outcome != Outcome::Success);
            results.add(result)?;
            if n_errors == MAX_ERRORS {
                drop(progress);
                agent_ui::tell(&format!(
                    "stopped: {MAX_ERRORS} runs in a row could not be carried out"
                ));
                return Ok(false);
            }
        }
        Ok(runs.iter().all(|run| is_done(results, run)))
    }
}

/// One run, for the progress.
fn line(run: &RunResult) -> String {
    let what = format!("{} · {} · repetition {}", run.task, run.variant, run.repetition);
    let steps =
        run.session.as_ref().map_or_else(String::new, |it| format!(" ({} steps)", it.steps));
    match (run.outcome, &run.reason) {
        (Outcome::Success, _) => format!("{what}: success{steps}"),
        (Outcome::Failure, why) => {
            format!("{what}: failure{steps}: {}", why.as_deref().unwrap_or_default())
        }
        (Outcome::Error, why) => {
            format!("{what}: not carried out: {}", why.as_deref().unwrap_or_default())
        }
    }
}

/// A part of a file name.
fn file_name(name: &str) -> String {
    name.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

fn usage(why: impl Into<String>) -> OpenError {
    OpenError::Usage(why.into())
}
