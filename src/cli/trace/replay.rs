//! `agent trace replay`: runs a recorded session again in a scratch copy and compares the results.

use clap::Args;

use crate::app::{self, OpenError, ReplayOptions};
use crate::cli::session::{SessionArgs, find_session};
use crate::cli::{ReportFormat, block_on_result, json_answer};
use crate::config::UserDirs;
use agent_protocol::control::SessionControl;

#[derive(Debug, Args)]
#[command(mut_arg("id", |arg| {
    arg.help("The session, or the beginning or end of its id; the latest where none is given")
}))]
pub(in crate::cli) struct ReplayArgs {
    #[command(flatten)]
    one: SessionArgs,
    /// As what
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,
}

pub(super) fn run(args: &ReplayArgs) -> u8 {
    let control = SessionControl::default();
    block_on_result(run_replay(args, &control), &control)
}

async fn run_replay(args: &ReplayArgs, control: &SessionControl) -> Result<u8, OpenError> {
    let (storage, id) = find_session(&args.one.project_args, args.one.id.as_deref())?;
    let options = ReplayOptions { storage, id, dirs: UserDirs::find() };
    let replayed = app::replay(options, control).await?;
    agent_ui::print_output(&match args.format {
        ReportFormat::Text => replayed.to_text().into(),
        ReportFormat::Json => json_answer(&replayed.to_json()),
    });
    Ok(u8::from(!replayed.is_equal()))
}
