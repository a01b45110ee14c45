//! Taking back what a recorded session changed, and what was said in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::gate::{masker, open_workspace};
use super::{OpenError, StateDirs, Storage, SystemClock, log_error};
use crate::config::Config;
use crate::protocol::envelope::ErrorCode;
use crate::protocol::event::{Body, Event, Events, Place};
use crate::record::{self, Log};
use crate::workspace::{Undone, Workspace};

/// Each file of a turn, and what became of it.
pub type Files = Vec<(String, Undone)>;

/// A recorded session that is to be changed. Nobody else works on it as long as this lives.
pub struct Recorded {
    id: String,
    workspace: Workspace,
    record: Vec<Event>,
    events: Events,
}

/// What a rewind takes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rewind {
    /// What was said.
    Conversation,
    /// What was changed.
    Files,
    /// Both.
    Both,
}

/// What a rewind did.
#[derive(Debug, Default)]
pub struct Rewound {
    /// The turns whose files were taken back, the newest first.
    pub files: Vec<(u32, Files)>,
    /// What was said from the turn on is no longer part of the session.
    pub conversation: bool,
}

impl Recorded {
    /// Takes hold of a session. Beside the root only these further folders are touched, whatever the
    /// record says.
    pub fn open(
        (root, add_dirs, own): (&Path, &[PathBuf], &StateDirs),
        storage: &Storage,
        id: &str,
    ) -> Result<Self, OpenError> {
        let (log, loaded) =
            Log::resume(&storage.log_path(id)).map_err(|error| log_error(&error))?;
        let workspace = open_workspace(root, add_dirs, own)?.with_undo(storage.undo_folder(id));
        let masker = masker(&Config::default(), &[])?;
        let seq = loaded.events.len() as u64;
        let events =
            Events::new(id.to_owned(), seq, Arc::new(SystemClock), masker, vec![Box::new(log)]);
        events.at(loaded.events.last().map_or_else(Place::default, |event| event.header.place));
        Ok(Self { id: id.to_owned(), workspace, record: loaded.events, events })
    }

    /// Takes back what a turn changed, and records that. `turn`: the latest that changed anything.
    pub fn undo(&self, turn: Option<u32>, force: bool) -> Result<(u32, Files), OpenError> {
        let inherited = record::forked_from(&self.record);
        let id = &self.id;
        let turn = turn.or_else(|| self.workspace.last_changing_turn()).ok_or_else(|| {
            let elsewhere = inherited.map_or_else(String::new, |(from, up_to)| {
                format!("; the files of turns up to {up_to} are kept by session {from}")
            });
            OpenError::Usage(format!(
                "session {id} has no turn whose changes could be undone{elsewhere}"
            ))
        })?;
        if let Some((from, up_to)) = inherited.filter(|(_, up_to)| turn <= *up_to) {
            return Err(OpenError::Usage(format!(
                "turn {turn} was made in session {from}, which keeps its files (session {id} is a copy \
                 up to turn {up_to}): agent session undo {from} --turn {turn}"
            )));
        }
        match self.take_back(turn, force)? {
            Some(files) => Ok((turn, files)),
            None => Err(OpenError::Usage(format!(
                "session {id}: turn {turn} changed no file, or is undone"
            ))),
        }
    }

    /// Takes the session back to what it was before a turn. Files come first, the newest turn first; where
    /// one is left as it is, nothing further is taken back.
    pub fn rewind(&self, turn: u32, what: Rewind, force: bool) -> Result<Rewound, OpenError> {
        let turns = record::turns(&self.record);
        let refuse = |why: String| OpenError::Usage(format!("session {}: {why}", self.id));
        let Some(last) = turns.last().map(|turn| turn.number) else {
            return Err(refuse("it has no turn to go back to".to_owned()));
        };
        match turns.iter().find(|other| other.number == turn) {
            None => return Err(refuse(format!("there is no turn {turn}; the last is {last}"))),
            Some(gone) if !gone.is_live => {
                let why = format!("turn {turn} was taken back already; it is only in the record");
                return Err(refuse(why));
            }
            Some(_) => {}
        }
        let mut rewound = Rewound::default();
        if what != Rewind::Conversation {
            let inherited = record::forked_from(&self.record);
            let changed = |of: &&record::Turn| {
                let files = of.finished.as_ref().map(|finished| &finished.files_changed);
                files.is_none_or(|files| !files.is_empty())
            };
            let kept_elsewhere = inherited.and_then(|(from, up_to)| {
                let is_inherited = |of: &&record::Turn| (turn..=up_to).contains(&of.number);
                let of = turns.iter().rfind(|of| is_inherited(of) && changed(of))?;
                Some((of.number, from))
            });
            if let Some((number, from)) = kept_elsewhere {
                return Err(refuse(format!(
                    "the files of turn {number} are kept by session {from}; take back the conversation \
                     alone (--conversation)"
                )));
            }
            for number in (turn..=last).rev() {
                let Some(files) = self.take_back(number, force)? else { continue };
                let is_left = files.iter().any(|(_, how)| matches!(how, Undone::Refused(_)));
                rewound.files.push((number, files));
                if is_left {
                    return Ok(rewound);
                }
            }
        }
        if what != Rewind::Files {
            self.events.emit(Body::SessionRewound { from_turn: turn });
            rewound.conversation = true;
        }
        Ok(rewound)
    }

    /// `None`: the turn changed nothing, or is undone.
    fn take_back(&self, turn: u32, force: bool) -> Result<Option<Files>, OpenError> {
        let files = match self.workspace.undo(turn, force) {
            Ok(files) => files,
            Err(failure) if failure.code == ErrorCode::NotFound => return Ok(None),
            Err(failure) => {
                return Err(OpenError::Usage(format!("session {}: {}", self.id, failure.message)));
            }
        };
        let told = files.iter().map(|(path, how)| (path.clone(), how.to_string()));
        self.events.emit(Body::TurnUndone { undone: turn, files: told.collect() });
        Ok(Some(files))
    }
}
