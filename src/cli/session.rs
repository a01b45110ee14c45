//! `agent session` and `agent trace`: what was recorded.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};

use super::options;
use crate::app::{self, OpenError, Storage};
use crate::config::UserDirs;
use crate::protocol::event::{Body, Event};
use crate::protocol::shorten;
use crate::workspace::Undone;
use crate::{record, ui};

#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// List the sessions of this project, the latest first
    List(Place),
    /// Show what a session was about and how it stands
    Show(One),
    /// Write a session to standard output
    Export(ExportArgs),
    /// Take back the file changes of a turn
    Undo(UndoArgs),
}

#[derive(Debug, Subcommand)]
pub(super) enum TraceCommand {
    /// Show what happened, step by step
    Show(One),
}

#[derive(Debug, Args)]
pub(super) struct Place {
    /// Of the project in this folder
    #[arg(short = 'C', long = "cwd", value_name = "DIR")]
    cwd: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct One {
    /// The session, or the beginning of its id; the latest where none is given
    id: Option<String>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Args)]
pub(super) struct UndoArgs {
    #[command(flatten)]
    one: One,
    /// Which turn; the latest that changed anything where none is given
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// Also where somebody changed the file since
    #[arg(long)]
    force: bool,
    /// A further folder whose files may be taken back
    #[arg(long, value_name = "DIR")]
    add_dir: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    #[command(flatten)]
    one: One,
    /// As what
    #[arg(long, value_name = "FORMAT", default_value = "md")]
    format: ExportFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExportFormat {
    /// What was said and done, as Markdown
    Md,
    /// The events, as one JSON array
    Json,
}

pub(super) fn session(command: &SessionCommand) -> u8 {
    let done = match command {
        SessionCommand::List(place) => list(place),
        SessionCommand::Show(one) => load(one).map(|(path, loaded)| show(&path, &loaded)),
        SessionCommand::Undo(args) => return undo(args),
        SessionCommand::Export(args) => load(&args.one).map(|(_, loaded)| match args.format {
            ExportFormat::Md => record::markdown(&loaded.events),
            ExportFormat::Json => {
                format!("{}\n", serde_json::to_string_pretty(&loaded.events).unwrap_or_default())
            }
        }),
    };
    answer(done)
}

pub(super) fn trace(command: &TraceCommand) -> u8 {
    let TraceCommand::Show(one) = command;
    answer(load(one).map(|(_, loaded)| record::timeline(&loaded.events)))
}

fn answer(done: Result<String, OpenError>) -> u8 {
    match done {
        Ok(text) => {
            ui::print(&text);
            0
        }
        Err(error) => {
            ui::tell(&error.to_string());
            error.exit_code()
        }
    }
}

fn undo(args: &UndoArgs) -> u8 {
    let undone = root_and_storage(&args.one.place).and_then(|(root, storage)| {
        let id = storage.choose(args.one.id.as_deref())?;
        app::undo((&root, &args.add_dir), &storage, &id, args.turn, args.force)
    });
    match undone {
        Ok((turn, files)) => {
            let mut out = format!("turn {turn}\n");
            for (path, how) in &files {
                out.push_str(&format!("  {path}: {}\n", app::in_words(how)));
            }
            ui::print(&out);
            // Something was left: a script should see it.
            u8::from(files.iter().any(|(_, how)| matches!(how, Undone::Refused(_))))
        }
        Err(error) => {
            ui::tell(&error.to_string());
            error.exit_code()
        }
    }
}

fn root_and_storage(place: &Place) -> Result<(PathBuf, Storage), OpenError> {
    let root = options::root(place.cwd.as_deref())?;
    let storage = Storage::find(&root, UserDirs::find().as_ref());
    Ok((root, storage))
}

fn load(one: &One) -> Result<(PathBuf, record::Loaded), OpenError> {
    let (_, storage) = root_and_storage(&one.place)?;
    let id = storage.choose(one.id.as_deref())?;
    let path = storage.log_path(&id);
    let loaded = record::load(&path).map_err(|error| OpenError::Usage(error.to_string()))?;
    if loaded.torn {
        ui::tell(&format!("{}: the last line is torn and is left out", path.display()));
    }
    Ok((path, loaded))
}

fn list(place: &Place) -> Result<String, OpenError> {
    let (_, storage) = root_and_storage(place)?;
    let mut out = String::new();
    for (id, what) in listed(&storage) {
        out.push_str(&format!("{id}  {what}\n"));
    }
    if out.is_empty() {
        ui::tell("no session of this project is recorded yet");
    }
    Ok(out)
}

/// The recorded sessions, the latest first: id, and when, how it ended and what it was about.
pub(super) fn listed(storage: &Storage) -> Vec<(String, String)> {
    let sessions = storage.sessions().into_iter().rev();
    let listed = sessions.filter_map(|id| {
        let (head, tail) = record::ends(&storage.log_path(&id)).ok()?;
        let started = head.first().map_or("", |event| event.header.ts.as_str());
        let task = head.iter().find_map(task_of).unwrap_or_default();
        // A long answer may be all that the end of the file holds.
        let ending = ending_of(&tail).or_else(|| {
            let loaded = record::load(&storage.log_path(&id)).ok()?;
            ending_of(&loaded.events)
        });
        let ending = ending.unwrap_or("unfinished");
        let started = started.get(..16).unwrap_or(started).replace('T', " ");
        let task = shorten(&task.replace('\n', " "), 60);
        Some((id, format!("{started}  {ending:<20}  {task}")))
    });
    listed.collect()
}

fn task_of(event: &Event) -> Option<String> {
    match &event.body {
        Body::TurnStarted { input, .. } => Some(input.clone()),
        _ => None,
    }
}

/// How the last turn ended; it did not where the program was killed or is still at work.
fn ending_of(events: &[Event]) -> Option<&'static str> {
    events.iter().rev().find_map(|event| match &event.body {
        Body::TurnFinished(finished) => Some(finished.ending.as_str()),
        Body::TurnStarted { .. } | Body::ModelRequested(_) => Some("unfinished"),
        _ => None,
    })
}

fn show(path: &Path, loaded: &record::Loaded) -> String {
    let mut out = String::new();
    let mut line = |name: &str, value: &str| out.push_str(&format!("{name:<9} {value}\n"));
    let first = loaded.events.first();
    line("session", first.map_or("", |event| event.header.session.as_str()));
    line("file", &path.display().to_string());
    if let Some(Event { header, body: Body::SessionStarted(started) }) = first {
        line("started", &header.ts);
        line("model", &started.model);
        line("folder", &started.cwd);
        line("mode", started.permission_mode.as_str());
    }
    for event in &loaded.events {
        match &event.body {
            Body::TurnStarted { input, .. } => {
                line("task", &shorten(&input.replace('\n', " "), 200))
            }
            Body::TurnFinished(finished) => {
                line("ended", finished.ending.as_str());
                if !finished.files_changed.is_empty() {
                    line("changed", &finished.files_changed.join(", "));
                }
                line("answer", &shorten(&finished.result.replace('\n', " "), 400));
            }
            _ => {}
        }
    }
    let unanswered = record::unanswered(&loaded.events);
    for open in unanswered.iter().filter(|open| open.uncertain) {
        line("unknown", &format!("the outcome of {} ({})", open.call.name, open.call.id));
    }
    line("events", &loaded.events.len().to_string());
    out
}
