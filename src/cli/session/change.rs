//! Undoes, rewinds, forks and deletes recorded sessions.

use std::io::IsTerminal as _;
use std::path::PathBuf;

use clap::Args;

use super::{ProjectArgs, SessionArgs, find_session, pick_session, session_storage};
use crate::app::{
    MAY_HAVE_FILE, OpenError, ProjectCopies, RecordedSession, RewindScope, StateDirs, Storage,
    UndoOptions, new_name, revert_unfinished,
};
use crate::cli::options::{self, ToolOptions};
use crate::cli::print_notices;
use crate::cli::terminal_prompt::confirm;
use crate::config::UserDirs;
use agent_host::workspace::{GitSkipReason, UndoReport, UndoTarget, can_undo};

#[derive(Debug, Args)]
pub(in crate::cli) struct UndoArgs {
    #[command(flatten)]
    one: SessionArgs,
    /// The turn; default: the latest that changed anything
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// Redo the latest undo
    #[arg(long, conflicts_with = "turn")]
    redo: bool,
    #[command(flatten)]
    files: FilesArgs,
}

#[derive(Debug, Args)]
struct FilesArgs {
    /// Also undo files that were changed since, and changes made while another session was running
    #[arg(long)]
    force: bool,
    /// Restore HEAD, the index and refs too
    #[arg(long)]
    git: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RewindArgs {
    #[command(flatten)]
    one: SessionArgs,
    /// The first turn that is removed; `agent session show` numbers them
    #[arg(long, value_name = "N")]
    turn: u32,
    /// Only the conversation
    #[arg(long, conflicts_with = "only_files")]
    conversation: bool,
    /// Only the files
    #[arg(long = "files", id = "only_files")]
    only_files: bool,
    #[command(flatten)]
    files: FilesArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ForkArgs {
    #[command(flatten)]
    one: SessionArgs,
    /// The last turn that is copied; default: all of them
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    /// The new session works in a copy of the project, with the files as they were after the turn
    #[arg(long)]
    worktree: bool,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RmArgs {
    /// The sessions, each by its id or the beginning or end of it
    #[arg(required = true)]
    ids: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    project_args: ProjectArgs,
}

pub(super) fn undo(args: &UndoArgs) -> Result<u8, OpenError> {
    let target = match (args.redo, args.turn) {
        (true, _) => UndoTarget::Redo,
        (false, Some(turn)) => UndoTarget::Turn(turn),
        (false, None) => UndoTarget::Latest,
    };
    let id = session_to_undo(&args.one, target)?;
    let (recorded, is_reverted) = open_recorded(&args.one.project_args, id.as_deref())?;
    if is_reverted && target != UndoTarget::Redo {
        // That was to be undone.
        return Ok(0);
    }
    let report =
        run_confirmed(args.files.undo_options(), |options| recorded.undo(target, options))?;
    Ok(print_report(&report))
}

/// The session on the command line, or the latest if no other one has something to undo; else the
/// user chooses.
fn session_to_undo(one: &SessionArgs, target: UndoTarget) -> Result<Option<String>, OpenError> {
    if one.id.is_some() {
        return Ok(one.id.clone());
    }
    let storage = session_storage(&one.project_args, None)?;
    let mut ids = storage.session_ids();
    ids.retain(|id| !storage.is_record_of_attempts(id));
    let latest = ids.last().cloned();
    // What other sessions changed in copies is not in the project.
    ids.retain(|id| storage.work_copy(id).is_none() || latest.as_ref() == Some(id));
    ids.retain(|id| can_undo(&storage.operations_dir(id), target));
    ids.reverse();
    if ids.iter().all(|id| latest.as_ref() == Some(id)) {
        return Ok(latest);
    }
    let what = if target == UndoTarget::Redo { "an undo to redo" } else { "changes to undo" };
    pick_session(&storage, &ids, &format!("these sessions may have {what}")).map(Some)
}

pub(super) fn rewind(args: &RewindArgs) -> Result<u8, OpenError> {
    let scope = match (args.conversation, args.only_files) {
        (true, _) => RewindScope::Conversation,
        (_, true) => RewindScope::Files,
        (false, false) => RewindScope::Both,
    };
    let (recorded, _) = open_recorded(&args.one.project_args, args.one.id.as_deref())?;
    let options = args.files.undo_options();
    let rewound = run_confirmed(options, |options| recorded.rewind(args.turn, scope, options))?;
    let code = rewound.files.as_ref().map(print_report);
    if rewound.is_refused {
        let (turn, without) = (args.turn, "--conversation leaves the files as they are");
        let hint = if scope == RewindScope::Both { format!(", {without}") } else { String::new() };
        agent_ui::print_notice(&format!(
            "nothing was rewound to before turn {turn}; --force restores the files all the same{hint}"
        ));
    } else if rewound.conversation {
        agent_ui::print_text(&format!("conversation: back to before turn {}\n", args.turn));
    } else if scope != RewindScope::Files {
        agent_ui::print_notice(
            "the conversation was not changed, because a file was left as it is",
        );
    } else if rewound.files.is_none() {
        agent_ui::print_notice(&format!("no turn from {} on changed files", args.turn));
    }
    Ok(code.unwrap_or(0))
}

pub(super) fn fork(args: &ForkArgs) -> Result<String, OpenError> {
    let (storage, id) = find_session(&args.one.project_args, args.one.id.as_deref())?;
    let new = if args.worktree {
        let root = options::project_root(args.one.project_args.cwd.as_deref())?;
        let root = storage.project_dir().unwrap_or(root);
        let dirs = UserDirs::find();
        let loaded = options::load_config(&root, dirs.as_ref(), &ToolOptions::default(), None)?;
        let copies = ProjectCopies::of(&root, &loaded, dirs.as_ref())?;
        let (new, copy) = copies.fork_session(&storage, &id, args.turn, &new_name("fork"))?;
        agent_ui::print_notice(&format!("the session works in {}", copy.root.display()));
        new
    } else {
        storage.fork(&id, args.turn)?
    };
    // A script needs an id that stays unique.
    let shown = if agent_ui::is_terminal() { storage.short_id(&new) } else { new };
    Ok(format!("{shown}\n"))
}

pub(super) fn remove_sessions(args: &RmArgs) -> Result<u8, OpenError> {
    let find = |id: &String| find_session(&args.project_args, Some(id));
    let mut sessions = args.ids.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    sessions.sort_by(|(_, a), (_, b)| a.cmp(b));
    sessions.dedup_by(|(_, a), (_, b)| a == b);
    // The ids of removed sessions cannot be shortened later.
    let ids: Vec<String> = sessions.iter().map(|(storage, id)| storage.short_id(id)).collect();
    let copies: Vec<PathBuf> =
        sessions.iter().filter_map(|(storage, id)| storage.work_copy(id)).collect();
    let is_removed = Storage::delete_sessions(&sessions, || {
        if args.yes { Ok(true) } else { confirm_removal(&ids) }
    })?;
    if is_removed {
        agent_ui::print_text(&ids.iter().map(|id| format!("removed {id}\n")).collect::<String>());
        for copy in copies.iter().filter(|copy| copy.is_dir()) {
            agent_ui::print_notice(&format!("its copy of the project stays: {}", copy.display()));
        }
    }
    Ok(u8::from(!is_removed))
}

fn confirm_removal(ids: &[String]) -> Result<bool, OpenError> {
    let what = match ids {
        [one] => format!("session {one}"),
        several => format!("{} sessions", several.len()),
    };
    confirm(&format!("delete {what}, with the checkpoints of its changes?"), "whether to delete")
}

/// Also whether changes of the session were taken back that a killed process had brought into the project.
fn open_recorded(
    project_args: &ProjectArgs,
    id: Option<&str>,
) -> Result<(RecordedSession, bool), OpenError> {
    let (root, storage) = options::root_for_session(project_args.cwd.as_deref(), id)?;
    let dirs = UserDirs::find();
    let storage = storage.unwrap_or_else(|| Storage::find(&root, dirs.as_ref()));
    let id = storage.resolve_session_id(id)?;
    let loaded = options::load_config(&root, dirs.as_ref(), &ToolOptions::default(), None)?;
    let reverted = revert_unfinished(&root, &storage, &loaded.config);
    print_notices(reverted.iter().map(|(_, notice)| notice));
    let place = (&*root, &[][..], &StateDirs::find());
    let recorded = RecordedSession::open(place, &storage, &id, &loaded.config)?;
    Ok((recorded, reverted.iter().any(|(reverted, _)| *reverted == id)))
}

fn run_confirmed<T>(
    options: UndoOptions,
    work: impl Fn(UndoOptions) -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    match work(options) {
        Err(OpenError::NotConfirmed(why)) if std::io::stdin().is_terminal() => {
            if confirm(&format!("{why}; undo them?"), "whether to undo")? {
                // Later changes are still not undone.
                return work(UndoOptions { confirmed: true, ..options });
            }
            Err(OpenError::Failed("nothing was undone".to_owned()))
        }
        done => done,
    }
}

impl FilesArgs {
    fn undo_options(&self) -> UndoOptions {
        UndoOptions { confirmed: false, force: self.force, git: self.git }
    }
}

fn print_report(report: &UndoReport) -> u8 {
    let (first, last) = report.turns;
    let mut out = if first == last {
        format!("turn {first}\n")
    } else {
        format!("turns {first} to {last}\n")
    };
    for (path, how) in &report.files {
        out.push_str(&format!("  {path}: {how}\n"));
    }
    if let Some(reason) = report.git_skipped {
        let how = match (reason, report.is_complete()) {
            (GitSkipReason::MayHaveFile, _) => {
                format!("{MAY_HAVE_FILE}; --turn {first} --git --force restores them anyway")
            }
            (GitSkipReason::NotRequested, true) => {
                format!("--redo, then --turn {first} --git restores them too")
            }
            (GitSkipReason::NotRequested, false) => {
                format!("--turn {first} --git restores them too")
            }
        };
        out.push_str(&format!("  (HEAD, the index and refs are left as they are; {how})\n"));
    }
    agent_ui::print_text(&out);
    u8::from(!report.is_complete())
}
