//! `agent trace`: shows, measures and compares recorded sessions.

use clap::Subcommand;

use super::session::{One, answer, load};
use crate::record;

#[derive(Debug, Subcommand)]
pub(super) enum TraceCommand {
    /// Show the timeline, step by step
    Show(One),
}

pub(super) fn trace(command: &TraceCommand) -> u8 {
    match command {
        TraceCommand::Show(one) => {
            answer(load(one).map(|(.., loaded)| record::timeline(&loaded.events).into()))
        }
    }
}
