//! `agent trace`: shows, measures and compares recorded sessions.

mod diff;
mod html;
mod replay;
mod stats;

use clap::{Subcommand, ValueEnum};

use super::session::{One, answer, code, storage};
use crate::app::{OpenError, Storage};

#[derive(Debug, Subcommand)]
pub(super) enum TraceCommand {
    /// Show the timeline, step by step
    Show(One),
    /// Write a session as one HTML page, to find out what went wrong
    Html(html::HtmlArgs),
    /// Count what happened: tokens, cost, time, calls, failures
    Stats(stats::StatsArgs),
    /// Show where two runs part; the exit code is 0 if they are equal, and 1 if they differ
    Diff(diff::DiffArgs),
    /// Run a session again in a scratch copy, with the recorded answers, and compare the results
    Replay(replay::ReplayArgs),
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One JSON object
    Json,
}

pub(super) fn trace(command: &TraceCommand) -> u8 {
    match command {
        TraceCommand::Show(one) => {
            answer(read(one).map(|session| agent_record::timeline(&session.record.events).into()))
        }
        TraceCommand::Html(args) => answer(html::html(args)),
        TraceCommand::Stats(args) => answer(stats::stats(args)),
        TraceCommand::Diff(args) => code(diff::diff(args)),
        TraceCommand::Replay(args) => replay::replay(args),
    }
}

/// A session to look at.
struct Recorded {
    id: String,
    record: agent_record::Understood,
}

/// The session that the user names.
fn read(one: &One) -> Result<Recorded, OpenError> {
    let storage = storage(&one.project_args, one.id.as_deref())?;
    let id = storage.choose(one.id.as_deref())?;
    Recorded::read(&storage, id)
}

impl Recorded {
    /// Reads a session of any version, and says what is not understood of it.
    fn read(storage: &Storage, id: String) -> Result<Self, OpenError> {
        let path = storage.log_path(&id);
        let record =
            agent_record::read(&path).map_err(|error| OpenError::Usage(error.to_string()))?;
        if !record.gaps.is_none() {
            agent_ui::tell(&format!("session {}: {}", storage.short(&id), record.gaps.in_words()));
        }
        Ok(Self { id, record })
    }
}

fn json(value: &impl serde::Serialize) -> agent_ui::Answer {
    // Names, numbers and texts always serialise.
    let json = serde_json::to_string_pretty(value).unwrap_or_default();
    agent_ui::Answer::Data(format!("{json}\n"))
}
