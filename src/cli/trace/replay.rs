//! `agent trace replay`: runs a recorded session again in a scratch copy and compares the results.

use std::path::PathBuf;

use clap::Args;

use super::TraceFormat;
use crate::cli::json_answer;

use crate::app::{self, OpenError, ReplayOptions};
use crate::cli::{block_on_result, options};
use crate::config::UserDirs;
use agent_protocol::control::SessionControl;

#[derive(Debug, Args)]
pub(in crate::cli) struct ReplayArgs {
    /// The session, or the beginning or end of its id; the latest where none is given
    id: Option<String>,
    /// Of the project in this folder
    #[arg(short = 'C', long = "cwd", value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Keep the scratch copy, and print where it is
    #[arg(long)]
    keep: bool,
    /// As what
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: TraceFormat,
}

pub(super) fn run(args: &ReplayArgs) -> u8 {
    let control = SessionControl::default();
    block_on_result(run_replay(args, &control), &control)
}

async fn run_replay(args: &ReplayArgs, control: &SessionControl) -> Result<u8, OpenError> {
    let dirs = UserDirs::find();
    let root = options::project_root(args.cwd.as_deref())?;
    let storage = match &args.id {
        Some(id) => options::find_session_storage(&root, id)?.0,
        None => app::Storage::find(&root, dirs.as_ref()),
    };
    let id = storage.resolve_session_id(args.id.as_deref())?;
    let keep = args.keep;
    let replayed = app::replay(ReplayOptions { storage, id, dirs, keep }, control).await?;
    agent_ui::print_output(&match args.format {
        TraceFormat::Text => replayed.to_text().into(),
        TraceFormat::Json => json_answer(&replayed.to_json()),
    });
    Ok(u8::from(!replayed.is_equal()))
}
