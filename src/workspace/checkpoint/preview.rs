//! What an undo would do, without doing it.

use std::os::unix::ffi::OsStrExt as _;

use super::journal::Plan;
use super::manifest::{Name, State};
use super::restore::{
    Undo, UndoError, UndoOptions, UndoReport, Undone, not_empty, refusal, reported,
};
use super::{Checkpoints, shown};
use crate::workspace::Workspace;

impl Workspace {
    /// What [`Workspace::undo`] would do now with the files.
    pub fn undo_preview(&self, what: Undo, options: UndoOptions) -> Result<UndoReport, UndoError> {
        let UndoOptions { confirmed, force, .. } = options;
        let checkpoints = self.checkpoints.as_ref().ok_or(UndoError::Nothing)?;
        let operations = checkpoints.journal.read();
        let selected = Checkpoints::select(&operations, what);
        let (Some(first), Some(last)) = (selected.first(), selected.last()) else {
            return Err(UndoError::Nothing);
        };
        let plan = Plan::of_files(&selected);
        if !force && !confirmed && selected.iter().any(|it| it.is_shared) {
            return Err(UndoError::Shared(plan.steps.keys().map(shown).collect()));
        }
        let plan = checkpoints.with_units(checkpoints.with_moved_files(plan));
        let files = plan.steps.iter().filter_map(|(name, step)| {
            let now = checkpoints.look(name, [step.target.as_ref(), step.expected.as_ref()]);
            let how = refusal(step, now.as_deref(), force);
            let would = match (&step.target, now.as_ref().map(|it| &it.state)) {
                (None, Some(State::Directory { .. })) if self.keeps_entries(&plan, name) => {
                    not_empty(step)
                }
                (None, _) => Undone::Removed,
                (Some(_), _) => Undone::Restored,
            };
            reported(name, step, how.unwrap_or(would))
        });
        let turns = (first.turn, last.turn);
        Ok(UndoReport { turns, files: files.collect(), leaves_git: None })
    }

    /// The directory has an entry that the plan does not remove.
    fn keeps_entries(&self, plan: &Plan, directory: &Name) -> bool {
        let path = self.root().join(directory.as_path());
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| directory.as_path().join(entry.file_name())).any(|entry| {
            let step = plan.steps.get(&Name::new(entry.as_os_str().as_bytes()));
            step.is_none_or(|step| step.target.is_some())
        })
    }
}
