//! `agent trace stats`: statistics of recorded sessions.

use clap::Args;
use jiff::Timestamp;
use jiff::civil::DateTime;

use super::read_record;
use crate::app::{OpenError, Storage};
use crate::cli::session::{ProjectArgs, find_session, session_storage};
use crate::cli::{json_answer, report_left_out};
use crate::config::{UserDirs, time_zone};
use agent_protocol::settings::parse_duration;
use agent_record::trace::stats::StatsReport;

#[derive(Debug, Args)]
pub(in crate::cli) struct TraceStatsArgs {
    /// The sessions, each by its id, the beginning or end of it, or its name; the latest where none is given
    ids: Vec<String>,
    /// Only what happened since: a duration (`12h`, `7d`, `2w`) or a date (`2026-11-01`, `2026-11-01T12:30`)
    #[arg(long, value_name = "TIME", value_parser = parse_since)]
    since: Option<Timestamp>,
    /// All sessions of all projects
    #[arg(long, conflicts_with_all = ["ids", "cwd"])]
    all: bool,
    #[command(flatten)]
    project_args: ProjectArgs,
}

fn parse_since(text: &str) -> Result<Timestamp, String> {
    if let Ok(at) = text.parse::<Timestamp>() {
        return Ok(at);
    }
    if let Ok(at) = text.parse::<DateTime>() {
        let local = at.to_zoned(time_zone());
        return local.map(|at| at.timestamp()).map_err(|error| error.to_string());
    }
    let wrong =
        || format!("{text:?} is neither a duration, like 12h or 7d, nor a date, like 2026-11-01");
    let length = parse_duration(text).map_err(|_| wrong())?;
    Timestamp::now().checked_sub(length).map_err(|_| wrong())
}

pub(super) fn report_stats(args: &TraceStatsArgs) -> Result<agent_ui::CommandOutput, OpenError> {
    let projects = select_sessions(args)?;
    let is_one = matches!(projects.as_slice(), [(_, ids)] if ids.len() == 1);
    let since = args.since.map(Timestamp::as_millisecond);
    let mut report = StatsReport::default();
    let mut errors = Vec::new();
    for (storage, ids) in projects {
        for id in ids {
            match read_record(&storage, &id) {
                Ok(record) => report.add_session(&id, &record.events, &record.gaps, since),
                Err(error) if is_one => return Err(error),
                Err(error) => errors.push(error),
            }
        }
    }
    report_left_out(errors.into_iter());
    if report.sessions.is_empty() {
        agent_ui::print_notice("nothing is recorded in this time");
    }
    report.sessions.sort_by(|a, b| a.started.cmp(&b.started));
    Ok(json_answer(&report))
}

fn select_sessions(args: &TraceStatsArgs) -> Result<Vec<(Storage, Vec<String>)>, OpenError> {
    if args.ids.is_empty() && (args.all || args.since.is_some()) {
        let projects = if args.all {
            Storage::find_all(UserDirs::find().as_ref())
        } else {
            vec![session_storage(&args.project_args, None)?]
        };
        let with_sessions = projects.into_iter().map(|storage| {
            let ids = storage.session_ids();
            (storage, ids)
        });
        return Ok(with_sessions.collect());
    }
    let find = |id: Option<&str>| {
        find_session(&args.project_args, id).map(|(storage, id)| (storage, vec![id]))
    };
    if args.ids.is_empty() {
        return Ok(vec![find(None)?]);
    }
    let mut sessions =
        args.ids.iter().map(|id| find(Some(id))).collect::<Result<Vec<_>, OpenError>>()?;
    sessions.sort_by(|(_, a), (_, b)| a.cmp(b));
    sessions.dedup_by(|(_, a), (_, b)| a == b);
    Ok(sessions)
}
