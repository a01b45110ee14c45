//! `agent memory review`: reports on a period's sessions, for users and for cron.

use std::time::Duration;

use clap::{Args, ValueEnum};

use super::{Memory, ProjectArgs, now_ms};
use crate::app::OpenError;
use agent_learning::lesson::Scope;
use agent_learning::review::{Period, carry_out, html, markdown, review};
use agent_ui::Answer;

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// Markdown
    Md,
    /// All statistics
    Json,
    /// One self-contained HTML page
    Html,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ReviewArgs {
    /// How far back: `7d`, `12h`, `4w`
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = length)]
    since: Duration,
    /// The format
    #[arg(long, value_name = "FORMAT", default_value = "md")]
    format: Format,
    /// Of all projects
    #[arg(long)]
    all: bool,
    /// Only report: change no weights, remove no lessons
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    project_args: ProjectArgs,
}

fn length(text: &str) -> Result<Duration, String> {
    let length = agent_protocol::settings::parse_duration(text)?;
    if length.is_zero() {
        Err("the period must be longer than 0: write it like 7d or 2w".to_owned())
    } else {
        Ok(length)
    }
}

pub(super) fn run(args: &ReviewArgs) -> Result<Answer, OpenError> {
    let memory = Memory::open(&args.project_args)?;
    let to_ms = now_ms();
    let length = i64::try_from(args.since.as_millis()).unwrap_or(i64::MAX);
    let project = (!args.all).then(|| memory.project.clone());
    let scopes = if args.all { Vec::new() } else { vec![memory.scope(), Scope::User] };
    let items = memory.store.lessons(&scopes)?;
    let period = Period { from_ms: to_ms.saturating_sub(length), to_ms, project };
    let review = review(&memory.store, &period, &items)?;
    if !args.dry_run {
        carry_out(&memory.store, &review)?;
    }
    Ok(match args.format {
        Format::Md => markdown(&review).into(),
        Format::Html => html(&review).into(),
        Format::Json => {
            let json = serde_json::to_string_pretty(&review).unwrap_or_default();
            Answer::Data(format!("{json}\n"))
        }
    })
}
