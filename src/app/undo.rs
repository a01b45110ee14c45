//! Undoes changes of a recorded session, and rewinds its conversation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::sandbox_facts::git_guard;
use super::toolbox::{build_masker, open_workspace};
use super::{OpenError, StateDirs, Storage, SystemClock, added_dirs, with_checkpoints};
use crate::config::Config;
use agent_engine::registry::undo_with_comparison;
use agent_host::workspace::{
    UndoError, UndoOptions, UndoOutcome, UndoReport, UndoTarget, Workspace,
};
use agent_protocol::event::{Event, EventBody, EventStream};
use agent_record::Log;

/// A recorded session that is to be changed, locked while this exists.
pub struct RecordedSession {
    id: String,
    pub(super) workspace: Workspace,
    record: Vec<Event>,
    pub(super) events: EventStream,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewindScope {
    Conversation,
    Files,
    Both,
}

#[derive(Debug, Default)]
pub struct RewindReport {
    /// Nothing was rewound: `files` are those that cannot be restored.
    pub is_refused: bool,
    pub files: Option<UndoReport>,
    /// The conversation from the turn on is no longer part of the session.
    pub conversation: bool,
}

pub(super) fn nothing_to_undo(target: UndoTarget) -> String {
    match target {
        UndoTarget::Turn(turn) => format!("turn {turn} changed no file, or is undone already"),
        UndoTarget::Redo => "there is no undo to redo".to_owned(),
        UndoTarget::Latest | UndoTarget::FromTurn(_) => {
            "there is no change to undo (what commands change in build output and large ignored directories is not recorded)".to_owned()
        }
    }
}

pub(super) fn undo_event(report: &UndoReport, target: UndoTarget) -> EventBody {
    let files = report.files.iter().map(|(path, how)| (path.clone(), how.to_string()));
    EventBody::TurnUndone {
        undone: report.turns.0,
        files: files.collect(),
        is_complete: report.is_complete(),
        is_redo: target == UndoTarget::Redo,
    }
}

impl RecordedSession {
    /// Locks a session. Changes only files in the root, or in the copy of it in which the session works, and in these
    /// directories.
    pub fn open(
        place: (&Path, &[PathBuf], &StateDirs),
        storage: &Storage,
        id: &str,
        config: &Config,
    ) -> Result<Self, OpenError> {
        Self::open_after(place, storage, id, config, || Ok(()))
    }

    /// Like [`Self::open`]; the session is locked before `move_session` changes where it works.
    pub(super) fn open_after(
        (root, add_dirs, own): (&Path, &[PathBuf], &StateDirs),
        storage: &Storage,
        id: &str,
        config: &Config,
        move_session: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<Self, OpenError> {
        let (log, loaded) =
            Log::resume(&storage.log_path(id)).map_err(|error| storage.log_error(error))?;
        move_session().map_err(|error| OpenError::Failed(format!("session {id}: {error}")))?;
        let copy = storage.work_copy(id);
        if let Some(gone) = copy.as_ref().filter(|copy| !copy.is_dir()) {
            return Err(OpenError::Failed(format!(
                "session {}: its copy of the project is gone, and its changes with it: {}",
                storage.short_id(id),
                gone.display()
            )));
        }
        let root = copy.as_deref().unwrap_or(root);
        let (directories, _) = added_dirs::with_recorded_dirs(add_dirs, (storage, id), root, own);
        let workspace = open_workspace(root, &directories, own)?;
        let workspace = with_checkpoints(workspace, config, storage, id)?;
        let masker = build_masker(config, &[])?;
        let (seq, clock) = (loaded.events.len() as u64, Arc::new(SystemClock));
        let events = EventStream::new(id.to_owned(), seq, clock, masker, vec![Box::new(log)]);
        events.set_position(loaded.events.last().map(|it| it.header.place).unwrap_or_default());
        Ok(Self { id: storage.short_id(id), workspace, record: loaded.events, events })
    }

    pub(super) fn last_turn(&self) -> u32 {
        self.record.last().map_or(0, |event| event.header.place.turn)
    }

    pub fn undo(&self, target: UndoTarget, options: UndoOptions) -> Result<UndoReport, OpenError> {
        self.undo_and_record(target, options)?.ok_or_else(|| {
            OpenError::Usage(format!("session {}: {}", self.id, nothing_to_undo(target)))
        })
    }

    /// Rewinds the session to before a turn. Without `force`, nothing is changed if a file cannot be restored.
    /// Files come first; if this fails in part, the conversation is not changed.
    pub fn rewind(
        &self,
        turn: u32,
        scope: RewindScope,
        options: UndoOptions,
    ) -> Result<RewindReport, OpenError> {
        let turns = agent_record::turns(&self.record);
        let refuse = |why: String| OpenError::Usage(format!("session {}: {why}", self.id));
        let Some(last) = turns.last().map(|turn| turn.number) else {
            return Err(refuse("it has no turn to go back to".to_owned()));
        };
        match turns.iter().find(|other| other.number == turn) {
            None => return Err(refuse(format!("there is no turn {turn}; the last is {last}"))),
            Some(gone) if !gone.is_live => {
                let why = format!("turn {turn} was already rewound; it is only in the record");
                return Err(refuse(why));
            }
            Some(_) => {}
        }
        let mut rewound = RewindReport::default();
        if scope != RewindScope::Conversation {
            if !options.force
                && let Some(report) = self.refused_files(UndoTarget::FromTurn(turn), options)?
            {
                return Ok(RewindReport { is_refused: true, files: Some(report), ..rewound });
            }
            rewound.files = self.undo_and_record(UndoTarget::FromTurn(turn), options)?;
            let is_complete = rewound.files.as_ref().is_none_or(UndoReport::is_complete);
            if !options.force && !is_complete {
                return Ok(rewound);
            }
        }
        if scope != RewindScope::Files {
            self.events.emit(EventBody::SessionRewound { from_turn: turn });
            rewound.conversation = true;
        }
        Ok(rewound)
    }

    /// `None`: there is nothing to undo.
    fn undo_and_record(
        &self,
        target: UndoTarget,
        options: UndoOptions,
    ) -> Result<Option<UndoReport>, OpenError> {
        let report = self.undo_unrecorded(target, options)?;
        if let Some(report) = &report {
            self.events.emit(undo_event(report, target));
        }
        Ok(report)
    }

    /// The session's log does not say so. `None`: there is nothing to undo.
    pub(super) fn undo_unrecorded(
        &self,
        target: UndoTarget,
        options: UndoOptions,
    ) -> Result<Option<UndoReport>, OpenError> {
        let guard = git_guard(&self.workspace);
        self.undo_result(undo_with_comparison(&self.workspace, Some(&guard), target, options))
    }

    /// Files that an undo would leave unchanged.
    fn refused_files(
        &self,
        target: UndoTarget,
        options: UndoOptions,
    ) -> Result<Option<UndoReport>, OpenError> {
        let report = self.undo_result(self.workspace.undo_preview(target, options))?;
        Ok(report.filter(|report| !report.is_complete()).map(|mut report| {
            report.files.retain(|(_, how)| matches!(how, UndoOutcome::Refused(_)));
            report
        }))
    }

    fn undo_result(
        &self,
        outcome: Result<UndoReport, UndoError>,
    ) -> Result<Option<UndoReport>, OpenError> {
        match outcome {
            Ok(report) => Ok(Some(report)),
            Err(UndoError::Nothing) => Ok(None),
            Err(error @ UndoError::Shared { .. }) => {
                Err(OpenError::NotConfirmed(format!("session {}: {error}", self.id)))
            }
            Err(error @ UndoError::Failed(_)) => {
                Err(OpenError::Failed(format!("session {}: {error}", self.id)))
            }
        }
    }
}
