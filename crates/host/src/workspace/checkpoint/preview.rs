//! A preview of an undo.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;

use super::manifest::{PathName, PathState};
use super::restore::{
    PlannedUndo, UndoError, UndoOptions, UndoOutcome, UndoReport, UndoTarget,
    nonempty_directory_outcome, refuse_step, reported_outcomes,
};
use crate::workspace::Workspace;

impl Workspace {
    /// The results of [`Workspace::undo`] for the files at this time, without the undo.
    pub fn undo_preview(
        &self,
        target: UndoTarget,
        options: UndoOptions,
    ) -> Result<UndoReport, UndoError> {
        let checkpoints = self.checkpoints.as_ref().ok_or(UndoError::Nothing)?;
        let operations = checkpoints.journal.read();
        let PlannedUndo { turns, plan, .. } =
            checkpoints.plan_confirmed_undo(&operations, target, options)?;
        let mut done: BTreeMap<&PathName, UndoOutcome> = BTreeMap::new();
        // The entries of a directory come before it.
        for (name, step) in plan.steps.iter().rev() {
            let now = checkpoints.entry_of_step(name, step);
            let how = refuse_step(step, now.as_deref(), options.force);
            let would = match (&step.target, now.as_ref().map(|it| &it.state)) {
                (None, Some(PathState::Directory { .. })) if self.keeps_entries(&done, name) => {
                    nonempty_directory_outcome(name, step, &done)
                }
                (None, _) => UndoOutcome::Removed,
                (Some(_), _) => UndoOutcome::Restored,
            };
            done.insert(name, how.unwrap_or(would));
        }
        Ok(UndoReport { turns, files: reported_outcomes(&plan, done), git_skipped: None })
    }

    /// True if the directory has an entry that would not be removed.
    fn keeps_entries(&self, done: &BTreeMap<&PathName, UndoOutcome>, directory: &PathName) -> bool {
        let path = self.root().join(directory.as_path());
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| directory.as_path().join(entry.file_name())).any(|entry| {
            done.get(&PathName::new(entry.as_os_str().as_bytes())) != Some(&UndoOutcome::Removed)
        })
    }
}
