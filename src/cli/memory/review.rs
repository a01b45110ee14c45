//! `agent memory review`: reports on a period's sessions, for users and for cron.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{MemoryProjectArgs, ProjectMemory, now_ms};
use crate::app::OpenError;
use crate::cli::json_answer;
use agent_learning::lesson::Scope;
use agent_learning::review::{ReviewPeriod, apply_review, render_markdown, review};
use agent_learning::store::Store as _;
use agent_ui::CommandOutput;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ReviewFormat {
    /// Markdown
    Md,
    /// All statistics
    Json,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReviewArgs {
    /// How far back: `7d`, `12h`, `4w`
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_period)]
    since: Duration,
    /// The format
    #[arg(long, value_name = "FORMAT", default_value = "md")]
    format: ReviewFormat,
    /// Of all projects
    #[arg(long)]
    all: bool,
    /// Only report: remove no lessons
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    project_args: MemoryProjectArgs,
}

fn parse_period(text: &str) -> Result<Duration, String> {
    let length = agent_protocol::settings::parse_duration(text)?;
    if length.is_zero() {
        return Err("the period must be longer than 0: write it like 7d or 2w".to_owned());
    }
    Ok(length)
}

pub(super) fn run(args: &ReviewArgs) -> Result<CommandOutput, OpenError> {
    let memory = ProjectMemory::open(&args.project_args)?;
    let to_ms = now_ms();
    let length = i64::try_from(args.since.as_millis()).unwrap_or(i64::MAX);
    let project = (!args.all).then(|| memory.project.clone());
    let scopes = if args.all { Vec::new() } else { vec![memory.scope(), Scope::User] };
    let items = memory.store.lessons(&scopes)?;
    let period = ReviewPeriod { from_ms: to_ms.saturating_sub(length), to_ms, project };
    let review = review(&memory.store, &period, &items)?;
    if !args.dry_run {
        apply_review(&memory.store, &review)?;
    }
    Ok(match args.format {
        ReviewFormat::Md => render_markdown(&review).into(),
        ReviewFormat::Json => json_answer(&review),
    })
}
