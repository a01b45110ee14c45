//! Taking back what a recorded session changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::gate::{masker, open_workspace};
use super::{OpenError, Storage, SystemClock, log_error};
use crate::config::Config;
use crate::protocol::event::{Body, Events, Place};
use crate::record::Log;
use crate::workspace::Undone;

/// Takes back what a turn of a recorded session changed, and records that. `turn`: the latest that
/// changed anything. Beside the root only these further folders are touched, whatever the record says.
pub fn undo(
    (root, add_dirs): (&Path, &[PathBuf]),
    storage: &Storage,
    id: &str,
    turn: Option<u32>,
    force: bool,
) -> Result<(u32, Vec<(String, Undone)>), OpenError> {
    let (log, loaded) = Log::resume(&storage.log_path(id)).map_err(|error| log_error(&error))?;
    let workspace = open_workspace(root, add_dirs)?.with_undo(storage.undo_folder(id));
    let turn = turn.or_else(|| workspace.last_changing_turn()).ok_or_else(|| {
        OpenError::Usage(format!("session {id} has no turn whose changes could be undone"))
    })?;
    let files = workspace
        .undo(turn, force)
        .map_err(|failure| OpenError::Usage(format!("session {id}: {}", failure.message)))?;
    let masker = masker(&Config::default(), &[])?;
    let seq = loaded.events.len() as u64;
    let events =
        Events::new(id.to_owned(), seq, Arc::new(SystemClock), masker, vec![Box::new(log)]);
    events.at(loaded.events.last().map_or_else(Place::default, |event| event.header.place));
    let told = files.iter().map(|(path, how)| (path.clone(), in_words(how)));
    events.emit(Body::TurnUndone { undone: turn, files: told.collect() });
    Ok((turn, files))
}

/// What became of a file, in words.
pub fn in_words(undone: &Undone) -> String {
    match undone {
        Undone::Restored => "restored".to_owned(),
        Undone::Removed => "removed".to_owned(),
        Undone::AsBefore => "already as before".to_owned(),
        Undone::Refused(why) => format!("left as it is: {why}"),
    }
}
