//! What an undo would do, without doing it.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt as _;

use super::manifest::{Name, State};
use super::restore::{
    Undo, UndoError, UndoOptions, UndoReport, Undone, not_empty, refusal, reported,
};
use super::shown;
use crate::workspace::Workspace;

impl Workspace {
    /// What [`Workspace::undo`] would do now with the files.
    pub fn undo_preview(&self, what: Undo, options: UndoOptions) -> Result<UndoReport, UndoError> {
        let UndoOptions { confirmed, force, .. } = options;
        let checkpoints = self.checkpoints.as_ref().ok_or(UndoError::Nothing)?;
        let operations = checkpoints.journal.read();
        let selected = checkpoints.selected(&operations, what, force);
        let (Some(first), Some(last)) = (selected.first(), selected.last()) else {
            return Err(UndoError::Nothing);
        };
        let plan = checkpoints.plan_of(&operations, &selected);
        if !force && !confirmed && selected.iter().any(|it| it.is_shared) {
            let paths = plan.steps.keys().map(shown).collect();
            return Err(UndoError::Shared { turn: first.turn, paths });
        }
        let mut done: BTreeMap<&Name, Undone> = BTreeMap::new();
        // What is in a directory comes before it.
        for (name, step) in plan.steps.iter().rev() {
            let now = checkpoints.look(name, [step.target.as_ref(), step.expected.as_ref()]);
            let how = refusal(step, now.as_deref(), force);
            let would = match (&step.target, now.as_ref().map(|it| &it.state)) {
                (None, Some(State::Directory { .. })) if self.keeps_entries(&done, name) => {
                    not_empty(name, step, &done)
                }
                (None, _) => Undone::Removed,
                (Some(_), _) => Undone::Restored,
            };
            done.insert(name, how.unwrap_or(would));
        }
        let done = done.into_iter();
        let files = done.filter_map(|(name, how)| reported(name, &plan.steps[name], how));
        let turns = (first.turn, last.turn);
        Ok(UndoReport { turns, files: files.collect(), leaves_git: None })
    }

    /// The directory has an entry that would not be removed.
    fn keeps_entries(&self, done: &BTreeMap<&Name, Undone>, directory: &Name) -> bool {
        let path = self.root().join(directory.as_path());
        let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| directory.as_path().join(entry.file_name())).any(|entry| {
            done.get(&Name::new(entry.as_os_str().as_bytes())) != Some(&Undone::Removed)
        })
    }
}
