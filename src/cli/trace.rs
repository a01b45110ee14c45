//! `agent trace`: shows and replays recorded sessions.

mod html;
mod replay;

use clap::Subcommand;

use super::session::{SessionArgs, find_session};
use super::{print_answer, usage_error};
use crate::app::{OpenError, Storage};
use agent_record::PartialRecord;

#[derive(Debug, Subcommand)]
pub(super) enum TraceCommand {
    /// Show the timeline, step by step
    Show(SessionArgs),
    /// Write a session as one HTML page, to find out what went wrong
    Html(html::HtmlArgs),
    /// Run a session again in a scratch copy, with the recorded answers, and compare the results
    Replay(replay::ReplayArgs),
}

pub(super) fn run(command: &TraceCommand) -> u8 {
    match command {
        TraceCommand::Show(one) => print_answer(
            find_session(&one.project_args, one.id.as_deref())
                .and_then(|(storage, id)| read_record(&storage, &id))
                .map(|record| agent_record::timeline(&record.events).into()),
        ),
        TraceCommand::Html(args) => print_answer(html::write_html(args)),
        TraceCommand::Replay(args) => replay::run(args),
    }
}

/// Reads any version, and reports what it does not understand.
fn read_record(storage: &Storage, id: &str) -> Result<PartialRecord, OpenError> {
    let record = agent_record::read_partially(&storage.log_path(id))
        .map_err(|error| usage_error(error.to_string()))?;
    if !record.gaps.is_empty() {
        let (short, gaps) = (storage.short_id(id), record.gaps.describe());
        agent_ui::print_notice(&format!("session {short}: {gaps}"));
    }
    Ok(record)
}
