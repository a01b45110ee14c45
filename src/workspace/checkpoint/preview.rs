//! What an undo would do, without doing it.

use super::journal::Plan;
use super::restore::{Undo, UndoError, UndoReport, Undone, refusal, reported};
use super::{Checkpoints, shown};
use crate::workspace::Workspace;

impl Workspace {
    /// What [`Workspace::undo`] would do now with the files.
    pub fn undo_preview(&self, what: Undo) -> Result<UndoReport, UndoError> {
        let checkpoints = self.checkpoints.as_ref().ok_or(UndoError::Nothing)?;
        let operations = checkpoints.journal.read();
        let selected = Checkpoints::select(&operations, what);
        let (Some(first), Some(last)) = (selected.first(), selected.last()) else {
            return Err(UndoError::Nothing);
        };
        let plan = Plan::of(selected.iter().rev().flat_map(|it| it.changes.iter().rev()));
        if selected.iter().any(|it| it.is_shared) {
            return Err(UndoError::Shared(plan.steps.keys().map(shown).collect()));
        }
        let files = plan.steps.iter().filter_map(|(name, step)| {
            let now = checkpoints.look(name, [step.target.as_ref(), step.expected.as_ref()]);
            let how = refusal(step, now.as_deref(), false);
            let would = if step.target.is_some() { Undone::Restored } else { Undone::Removed };
            reported(name, step, how.unwrap_or(would))
        });
        let turns = (first.turn, last.turn);
        Ok(UndoReport { turns, files: files.collect(), leaves_git: false })
    }
}
