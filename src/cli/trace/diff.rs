//! `agent trace diff`: compares two recorded runs.

use clap::Args;

use super::ReadSession;
use crate::app::OpenError;
use crate::cli::session::{ProjectArgs, find_session};
use crate::cli::{ReportFormat, json_answer};
use agent_record::trace::diff::{RecordedRun, compare, render_text};

#[derive(Debug, Args)]
pub(in crate::cli) struct DiffArgs {
    /// A session: its id, the beginning or end of it, or its name
    a: String,
    /// The other session
    b: String,
    /// As what
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: ReportFormat,
    #[command(flatten)]
    project_args: ProjectArgs,
}

pub(super) fn diff_sessions(args: &DiffArgs) -> Result<u8, OpenError> {
    let (a, b) = (DiffSide::read(args, &args.a)?, DiffSide::read(args, &args.b)?);
    let comparison = compare(&a.run(), &b.run());
    agent_ui::print_output(&match args.format {
        ReportFormat::Text => render_text(&comparison).into(),
        ReportFormat::Json => json_answer(&comparison),
    });
    Ok(u8::from(!comparison.equal))
}

struct DiffSide {
    recorded: ReadSession,
    short: String,
    directory: String,
}

impl DiffSide {
    fn read(args: &DiffArgs, id: &str) -> Result<Self, OpenError> {
        let (storage, id) = find_session(&args.project_args, Some(id))?;
        let recorded = ReadSession::read(&storage, id)?;
        let short = storage.short_id(&recorded.id);
        let directory = storage.session_dir(&recorded.id).display().to_string();
        Ok(Self { recorded, short, directory })
    }

    fn run(&self) -> RecordedRun<'_> {
        RecordedRun {
            id: &self.recorded.id,
            short: &self.short,
            directory: &self.directory,
            events: &self.recorded.record.events,
            gaps: &self.recorded.record.gaps,
        }
    }
}
