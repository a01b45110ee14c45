//! `agent trace diff`: compares two recorded runs.

use clap::Args;

use super::{Format, Recorded, json};
use crate::app::OpenError;
use crate::cli::session::{ProjectArgs, storage};
use agent_record::trace::diff::{Run, compare};

#[derive(Debug, Args)]
pub(in crate::cli) struct DiffArgs {
    /// A session: its id, the beginning or end of it, or its name
    a: String,
    /// The other session
    b: String,
    /// As what
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    #[command(flatten)]
    project_args: ProjectArgs,
}

pub(super) fn diff(args: &DiffArgs) -> Result<u8, OpenError> {
    let (a, b) = (Side::read(args, &args.a)?, Side::read(args, &args.b)?);
    let comparison = compare(&a.run(), &b.run());
    agent_ui::answer(&match args.format {
        Format::Text => comparison.text().into(),
        Format::Json => json(&comparison),
    });
    Ok(u8::from(!comparison.equal))
}

/// One of the sessions.
struct Side {
    recorded: Recorded,
    short: String,
    directory: String,
}

impl Side {
    fn read(args: &DiffArgs, id: &str) -> Result<Self, OpenError> {
        let storage = storage(&args.project_args, Some(id))?;
        let recorded = Recorded::read(&storage, storage.choose(Some(id))?)?;
        let short = storage.short(&recorded.id);
        let directory = storage.session(&recorded.id).display().to_string();
        Ok(Self { recorded, short, directory })
    }

    fn run(&self) -> Run<'_> {
        Run {
            id: &self.recorded.id,
            short: &self.short,
            directory: &self.directory,
            events: &self.recorded.record.events,
            gaps: &self.recorded.record.gaps,
        }
    }
}
