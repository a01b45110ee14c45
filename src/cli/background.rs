//! Sessions in the background: starts, lists, shows, ends and awaits them.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use super::options::RunArgs;
use super::session::find_session_by_id;
use super::{exit_code, print_answer, report_error, usage_error};
use crate::app::{OpenError, SessionState, SessionStatus, ShortIds, Storage};
use crate::config::UserDirs;
use agent_protocol::control::Ending;
use agent_protocol::disk;
use agent_protocol::event::EventBody;
use agent_protocol::shorten;
use agent_ui::CommandOutput;

/// In the session's directory: what a process in the background prints to standard error.
const NOTICES: &str = "notices.txt";
/// Between two looks at a session and its log.
const INTERVAL: Duration = Duration::from_millis(300);
/// Every process ends sooner after its signal.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Without a result there is no ending.
const LOST: u8 = 1;

#[derive(Debug, Args)]
pub(super) struct PsArgs {
    /// Also those that ended, if they began in the background
    #[arg(long)]
    all: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct LogsArgs {
    /// The session, or the beginning or end of its id
    id: String,
    /// Go on until the session ends
    #[arg(short, long)]
    follow: bool,
}

#[derive(Debug, Args)]
pub(super) struct WaitArgs {
    /// The sessions
    #[arg(required = true)]
    ids: Vec<String>,
}

/// Starts this command line in the background.
pub(super) fn start(args: &RunArgs) -> u8 {
    let is_option = |text: &OsString| text == "--background";
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(option) = arguments.iter_mut().find(|text| is_option(text)) {
        *option = "--in-background".into();
    }
    let has_hint = io::IsTerminal::is_terminal(&io::stderr());
    launch(&arguments, true, has_hint || args.verbose)
}

/// An error was printed by the process itself.
pub(super) fn launch(arguments: &[OsString], prints_id: bool, has_hint: bool) -> u8 {
    match agent_host::exec::start_detached(arguments) {
        Err(error) => report_error(&format!("the process could not start: {error}")),
        Ok(Err(code)) => code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1),
        Ok(Ok(id)) => {
            if prints_id {
                agent_ui::print_output(&CommandOutput::Data(format!("{id}\n")));
            }
            if has_hint {
                let short =
                    find_session_by_id(&id).map_or(id, |(storage, id)| storage.short_id(&id));
                agent_ui::print_notice(&format!(
                    "it works in the background: `agent attach {short}` chats with it, `agent logs -f {short}` \
                     shows it, `agent ps` lists all"
                ));
            }
            0
        }
    }
}

/// In the process that was started: prints the session's id, and writes to a file in its directory from now on.
pub(super) fn leave_terminal(directory: &Path, id: &str) -> io::Result<()> {
    let notices = disk::open_for_append(&directory.join(NOTICES), true)?;
    if !agent_ui::print_data(format!("{id}\n").as_bytes()) {
        // The program that started this has ended: nobody would know of the session.
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    Ok(rustix::stdio::dup2_stderr(&notices)?)
}

pub(super) fn list(args: &PsArgs) -> u8 {
    let dirs = UserDirs::find();
    let sessions = SessionStatus::find(dirs.as_ref(), args.all);
    if args.json {
        let lines = sessions.iter().filter_map(|session| serde_json::to_string(session).ok());
        agent_ui::print_output(&CommandOutput::Data(lines.map(|line| line + "\n").collect()));
        return 0;
    }
    if sessions.is_empty() {
        agent_ui::print_notice(
            "no session runs; `agent ps --all` lists those that ended in the background",
        );
    }
    // They are unique in all projects.
    if let Some(short) = Storage::find_all(dirs.as_ref()).first().map(Storage::short_ids) {
        let lines = sessions.iter().map(|session| ps_line(session, &short));
        agent_ui::print_text(&lines.collect::<String>());
    }
    0
}

fn ps_line(session: &SessionStatus, short: &ShortIds) -> String {
    let progress = &session.progress;
    let project = session.project.file_name().unwrap_or_default().to_string_lossy();
    let last = if progress.last.is_empty() { &progress.task } else { &progress.last };
    format!(
        "{}  {:<8}  {:>4}  {:>8}  {:<16}  {}\n",
        short.shorten(&session.id),
        session.state.in_words(),
        age_in_words(&progress.started),
        progress.spending.cost_cell(),
        shorten(&project, 16),
        shorten(last, 80)
    )
}

/// `42s`, `5m`, `3h`, `2d`.
fn age_in_words(started: &str) -> String {
    let Ok(started) = started.parse::<jiff::Timestamp>() else { return "?".to_owned() };
    let seconds = jiff::Timestamp::now().duration_since(started).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

pub(super) fn show_log(args: &LogsArgs) -> u8 {
    let shown = find_session_by_id(&args.id)
        .and_then(|(storage, id)| print_timeline(&storage.log_path(&id), args.follow));
    exit_code(shown.map(|()| 0))
}

/// A timeline without parts of answers only grows.
fn print_timeline(log: &Path, follows: bool) -> Result<(), OpenError> {
    let mut n_printed = 0;
    loop {
        // Looked at first: what a process writes before its end is read after it.
        let is_running = agent_record::process_using(log).is_some();
        let record = agent_record::read_partially(log);
        let mut events = record.map_err(|error| usage_error(error.to_string()))?.events;
        events.retain(|event| !matches!(event.body, EventBody::ModelPartial { .. }));
        let timeline = agent_record::timeline(&events);
        let more = timeline.get(n_printed..).unwrap_or_default();
        let has_reader = more.is_empty() || agent_ui::print_text(more);
        if !follows || !is_running || !has_reader {
            return Ok(());
        }
        n_printed = timeline.len();
        thread::sleep(INTERVAL);
    }
}

pub(super) fn stop(id: &str) -> u8 {
    print_answer(stop_session(id))
}

fn stop_session(id: &str) -> Result<CommandOutput, OpenError> {
    let (storage, id) = find_session_by_id(id)?;
    let (status, short) = (SessionStatus::read(&storage, &id)?, storage.short_id(&id));
    let Some(pid) = status.pid else {
        return Ok(format!("session {short} does not run\n").into());
    };
    // Another process may serve an editor with several sessions.
    if status.background.is_none() {
        let running = SessionStatus::find(UserDirs::find().as_ref(), false);
        let of_attempts = |it: &&SessionStatus| it.pid == status.pid && it.background.is_some();
        if let Some(all) = running.iter().find(of_attempts) {
            let all = storage.short_id(&all.id);
            return Err(usage_error(format!(
                "session {short} is one of the attempts of session {all}: `agent stop {all}` ends all of them"
            )));
        }
        return Err(usage_error(format!(
            "session {short} does not run in the background: end it where it runs, process {pid}"
        )));
    }
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // It may have ended by itself.
    _ = process.map(|process| kill_process(process, Signal::TERM));
    let begun = Instant::now();
    while agent_record::process_using(&storage.log_path(&id)).is_some() {
        if begun.elapsed() > STOP_TIMEOUT {
            return Err(usage_error(format!(
                "session {short} has not ended yet; `kill -9 {pid}` ends its process"
            )));
        }
        thread::sleep(INTERVAL);
    }
    Ok(format!("session {short} has ended; `agent --resume {short}` continues it\n").into())
}

pub(super) fn wait(args: &WaitArgs) -> u8 {
    // A wrong id is reported before the first is awaited.
    let sessions = args.ids.iter().map(|id| find_session_by_id(id));
    let awaited = sessions.collect::<Result<Vec<_>, _>>().and_then(|sessions| {
        let codes = sessions.iter().map(|(storage, id)| wait_for_end(storage, id));
        codes.collect::<Result<Vec<u8>, _>>()
    });
    exit_code(awaited.map(|codes| codes.into_iter().find(|code| *code != 0).unwrap_or(0)))
}

fn wait_for_end(storage: &Storage, id: &str) -> Result<u8, OpenError> {
    let (log, short) = (storage.log_path(id), storage.short_id(id));
    let mut is_reported = false;
    while agent_record::process_using(&log).is_some() {
        if !is_reported && SessionStatus::read(storage, id)?.state == SessionState::Waiting {
            let notice = format!("session {short} waits for you: agent attach {short}");
            agent_ui::print_notice(&notice);
            is_reported = true;
        }
        thread::sleep(INTERVAL);
    }
    let status = SessionStatus::read(storage, id)?;
    let ending = status.progress.ending;
    let how = ending.map_or("lost", Ending::as_str);
    agent_ui::print_text(&format!("{short}  {how}\n"));
    Ok(ending.map_or(LOST, Ending::exit_code))
}
