//! `agent session`: shows and changes recorded sessions.

mod change;
mod show;

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{exit_code, options, print_answer, receipt, terminal_prompt};
use crate::app::{OpenError, Storage};
use crate::config::UserDirs;

pub(super) use show::{format_session_list, session_descriptions};

const MAX_PICK: usize = 20;

#[derive(Debug, Subcommand)]
pub(super) enum SessionCommand {
    /// List the sessions of this project, the latest first
    List(show::SessionListArgs),
    /// Show a session: its task, cost and state
    Show(SessionArgs),
    /// Write the transcript of a session to standard output, as Markdown
    Export(SessionArgs),
    /// Write a receipt: what the session did, with a seal of its log; `agent verify` checks it
    Receipt(receipt::ReceiptArgs),
    /// Take back the file changes of a turn
    Undo(change::UndoArgs),
    /// Go back to before a turn: the conversation, the files, or both
    Rewind(change::RewindArgs),
    /// Begin a new session with a copy of another one, and print its id
    Fork(change::ForkArgs),
    /// Delete sessions
    Rm(change::RmArgs),
}

#[derive(Debug, Args)]
pub(super) struct ProjectArgs {
    /// Of the project in this folder
    #[arg(short = 'C', long = "cwd", value_name = "DIR")]
    cwd: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct SessionArgs {
    /// The session, or the beginning or end of its id; without one the latest, of several to undo a choice
    pub(super) id: Option<String>,
    #[command(flatten)]
    pub(super) project_args: ProjectArgs,
}

pub(super) fn run(command: &SessionCommand) -> u8 {
    let done = match command {
        SessionCommand::List(args) => show::list(args),
        SessionCommand::Show(one) => {
            load_session(one).map(|(storage, id, loaded)| show::show(&storage, &id, &loaded).into())
        }
        SessionCommand::Export(one) => {
            load_session(one).map(|(.., loaded)| agent_record::markdown(&loaded.events).into())
        }
        SessionCommand::Receipt(args) => return receipt::write(args),
        SessionCommand::Undo(args) => return exit_code(change::undo(args)),
        SessionCommand::Rewind(args) => return exit_code(change::rewind(args)),
        SessionCommand::Fork(args) => change::fork(args).map(Into::into),
        SessionCommand::Rm(args) => return exit_code(change::remove_sessions(args)),
    };
    print_answer(done)
}

/// The latest first. Without a terminal, the error names the sessions.
pub(super) fn pick_session(
    storage: &Storage,
    ids: &[String],
    why: &str,
) -> Result<String, OpenError> {
    let ids = &ids[..ids.len().min(MAX_PICK)];
    let lines = show::session_lines(storage, ids);
    if !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
        return Err(OpenError::Usage(format!("{why}; give the id of one:{lines}")));
    }
    let picked = terminal_prompt::choose(why, &lines)?;
    Ok(ids[picked].clone())
}

/// The storage of this project, or of the project that has the session.
pub(super) fn session_storage(
    project_args: &ProjectArgs,
    id: Option<&str>,
) -> Result<Storage, OpenError> {
    let root = options::project_root(project_args.cwd.as_deref())?;
    Ok(match id {
        Some(id) => options::find_session_storage(&root, id)?.0,
        None => Storage::find(&root, UserDirs::find().as_ref()),
    })
}

/// `None`: the latest session of the project.
pub(super) fn find_session(
    project_args: &ProjectArgs,
    id: Option<&str>,
) -> Result<(Storage, String), OpenError> {
    let storage = session_storage(project_args, id)?;
    let id = storage.resolve_session_id(id)?;
    Ok((storage, id))
}

/// A session of any project.
pub(super) fn find_session_by_id(id: &str) -> Result<(Storage, String), OpenError> {
    find_session(&ProjectArgs { cwd: None }, Some(id))
}

fn load_session(
    one: &SessionArgs,
) -> Result<(Storage, String, agent_record::LoadedSession), OpenError> {
    let (storage, id) = find_session(&one.project_args, one.id.as_deref())?;
    let path = storage.log_path(&id);
    let loaded =
        agent_record::load_session(&path).map_err(|error| OpenError::Usage(error.to_string()))?;
    if loaded.is_torn {
        let path = path.display();
        agent_ui::print_notice(&format!("{path}: the last line is torn and is left out"));
    }
    Ok((storage, id, loaded))
}
