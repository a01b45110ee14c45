//! Changing what is recorded: taking back, copying, deleting.

use std::path::PathBuf;

use clap::Args;

use super::{One, Place, root_and_storage};
use crate::app::{Files, OpenError, Recorded, Rewind, StateDirs};
use crate::cli::ask::is_agreed;
use crate::ui;
use crate::workspace::Undone;

#[derive(Debug, Args)]
pub(in crate::cli) struct UndoArgs {
    #[command(flatten)]
    one: One,
    /// Which turn; the latest that changed anything where none is given
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
    #[command(flatten)]
    files: FilesArgs,
}

#[derive(Debug, Args)]
struct FilesArgs {
    /// Also where somebody changed the file since
    #[arg(long)]
    force: bool,
    /// A further folder whose files may be taken back
    #[arg(long, value_name = "DIR")]
    add_dir: Vec<PathBuf>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RewindArgs {
    #[command(flatten)]
    one: One,
    /// The first turn that is taken back; `agent session show` numbers them
    #[arg(long, value_name = "N")]
    turn: u32,
    /// Only what was said
    #[arg(long, conflicts_with = "only_files")]
    conversation: bool,
    /// Only what was changed
    #[arg(long = "files", id = "only_files")]
    only_files: bool,
    #[command(flatten)]
    files: FilesArgs,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ForkArgs {
    #[command(flatten)]
    one: One,
    /// The last turn that is copied; all of them where none is given
    #[arg(long, value_name = "N")]
    turn: Option<u32>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RmArgs {
    /// The sessions, or the beginnings of their ids
    #[arg(required = true)]
    ids: Vec<String>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    place: Place,
}

pub(super) fn undo(args: &UndoArgs) -> Result<u8, OpenError> {
    let (turn, files) = open(&args.one, &args.files)?.undo(args.turn, args.files.force)?;
    Ok(tell_files(turn, &files))
}

pub(super) fn rewind(args: &RewindArgs) -> Result<u8, OpenError> {
    let what = match (args.conversation, args.only_files) {
        (true, _) => Rewind::Conversation,
        (_, true) => Rewind::Files,
        (false, false) => Rewind::Both,
    };
    let recorded = open(&args.one, &args.files)?;
    let rewound = recorded.rewind(args.turn, what, args.files.force)?;
    let code = rewound.files.iter().map(|(turn, files)| tell_files(*turn, files)).max();
    if rewound.conversation {
        ui::print(&format!("conversation: back to before turn {}\n", args.turn));
    } else if what != Rewind::Files {
        ui::tell("the conversation is left as it is, because a file was; --force insists");
    } else if rewound.files.is_empty() {
        ui::tell(&format!("no turn from {} on changed a file", args.turn));
    }
    Ok(code.unwrap_or(0))
}

pub(super) fn fork(args: &ForkArgs) -> Result<String, OpenError> {
    let (_, storage) = root_and_storage(&args.one.place, args.one.id.as_deref())?;
    let id = storage.choose(args.one.id.as_deref())?;
    storage.fork(&id, args.turn).map(|new| format!("{new}\n"))
}

pub(super) fn rm(args: &RmArgs) -> Result<u8, OpenError> {
    let (_, storage) = root_and_storage(&args.place, None)?;
    let mut ids: Vec<String> =
        args.ids.iter().map(|id| storage.choose(Some(id))).collect::<Result<_, _>>()?;
    ids.sort();
    ids.dedup();
    let is_removed = storage.remove(&ids, || if args.yes { Ok(true) } else { ask(&ids) })?;
    if is_removed {
        ui::print(&ids.iter().map(|id| format!("removed {id}\n")).collect::<String>());
    }
    Ok(u8::from(!is_removed))
}

fn ask(ids: &[String]) -> Result<bool, OpenError> {
    let what = match ids {
        [one] => format!("session {one}"),
        several => format!("{} sessions", several.len()),
    };
    is_agreed(
        &format!("delete {what}, with what is kept to undo its changes?"),
        "whether to delete",
    )
}

fn open(one: &One, files: &FilesArgs) -> Result<Recorded, OpenError> {
    let (root, storage) = root_and_storage(&one.place, one.id.as_deref())?;
    let id = storage.choose(one.id.as_deref())?;
    Recorded::open((&root, &files.add_dir, &StateDirs::find()), &storage, &id)
}

/// Says what became of a turn's files. 1 where something was left: a script should see it.
fn tell_files(turn: u32, files: &Files) -> u8 {
    let mut out = format!("turn {turn}\n");
    for (path, how) in files {
        // (A journal that somebody else wrote may say anything.)
        out.push_str(&format!("  {path}: {how}").replace('\n', " "));
        out.push('\n');
    }
    ui::print(&out);
    u8::from(files.iter().any(|(_, how)| matches!(how, Undone::Refused(_))))
}
