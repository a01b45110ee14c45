//! `agent team`: the database in which machines share the lessons of a repository.

use clap::{Args, Subcommand};

use super::memory::{MemoryProjectArgs, ProjectMemory};
use super::{ReportFormat, json_answer, print_answer, print_notices};
use crate::app::OpenError;
use agent_ui::CommandOutput;

#[derive(Debug, Subcommand)]
pub(super) enum TeamCommand {
    /// Prepare the database of the team, or bring it up to date; it may be repeated
    Init(MemoryProjectArgs),
    /// Show whether the database can be reached, its lessons, machines and what they spent
    Status(StatusArgs),
    /// Send what was learnt before, and what could not be sent
    Push(MemoryProjectArgs),
    /// Take the lessons that have proved themselves
    Pull(MemoryProjectArgs),
}

#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// How it is shown
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,
    #[command(flatten)]
    project_args: MemoryProjectArgs,
}

pub(super) fn run(command: &TeamCommand) -> u8 {
    print_answer(match command {
        TeamCommand::Init(args) => init(args),
        TeamCommand::Status(args) => status(args),
        TeamCommand::Push(args) => push(args),
        TeamCommand::Pull(args) => pull(args),
    })
}

fn init(args: &MemoryProjectArgs) -> Result<CommandOutput, OpenError> {
    let memory = ProjectMemory::open(args)?;
    let is_changed = memory.team()?.prepare()?;
    let done =
        if is_changed { "the team's database is prepared" } else { "it was prepared already" };
    Ok(format!("{done}\n").into())
}

fn status(args: &StatusArgs) -> Result<CommandOutput, OpenError> {
    let memory = ProjectMemory::open(&args.project_args)?;
    let team = memory.team()?;
    let status = team.connect()?.status(&team.scope)?;
    if matches!(args.format, ReportFormat::Json) {
        return Ok(json_answer(&status));
    }
    let n = |name: &str| &status[name];
    let (candidate, proven, retired) = (n("candidate"), n("proven"), n("retired"));
    let mut page = format!(
        "database  reachable, version {}\nproject   {}\nlessons   {candidate} candidate, {proven} proven, {retired} retired\nmachines  {}\n",
        n("version"),
        memory.project,
        n("machines"),
    );
    for day in status["spending"].as_array().into_iter().flatten() {
        let date = day["day"].as_str().unwrap_or_default();
        // Without a price nothing is known of the cost.
        let cost = day["cost_usd"].as_f64().filter(|cost| *cost > 0.0);
        let cost = cost.map_or_else(String::new, |cost| format!("  ${cost:.2}"));
        page.push_str(&format!("spent     {date}  {} tokens{cost}\n", day["tokens"]));
    }
    Ok(page.into())
}

fn push(args: &MemoryProjectArgs) -> Result<CommandOutput, OpenError> {
    let memory = ProjectMemory::open(args)?;
    let team = memory.team()?;
    let database = team.connect()?;
    let (n, kept) = team.queue_all(&memory.store)?;
    let refused = team.send(&memory.store, &database)?;
    print_notices(kept.iter().chain(&refused));
    Ok(format!("sent {n} lessons\n").into())
}

fn pull(args: &MemoryProjectArgs) -> Result<CommandOutput, OpenError> {
    let memory = ProjectMemory::open(args)?;
    let team = memory.team()?;
    let database = team.connect()?;
    // What was forgotten here is retired before.
    team.send(&memory.store, &database)?;
    let (n, refused) = team.pull(&memory.store, &database)?;
    print_notices(&refused);
    Ok(format!("{n} new lessons of the team\n").into())
}
