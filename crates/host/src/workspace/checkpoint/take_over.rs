//! Makes the changes of a session that worked in a copy of the project in the project.

use std::collections::HashSet;
use std::path::Path;

use super::journal::{Operation, OperationLock, own_operations};
use super::manifest::{PathChange, PathName, PathState};
use super::restore::{UndoOutcome, refuse_step};
use super::undo_plan::{UndoPlan, UndoStep};
use super::{Checkpoints, display_name};
use crate::workspace::Workspace;

/// The operation of the project's journal.
pub(super) const TAKE_OVER: &str = "take over";

/// Why the result is not in the project, or only in part: an undo of the turn takes the part back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeOverError {
    /// Paths, each with the reason.
    #[error("{}", .0.iter().map(|(path, why)| format!("{path}: {why}")).collect::<Vec<_>>().join("; "))]
    Refused(Vec<(String, String)>),
    #[error("{0}")]
    Failed(String),
}

impl Workspace {
    /// Makes the remaining changes of the session that worked in `copy` here, but for ignored files, as one operation of
    /// this turn, which is recorded first: an undo takes back what a killed process has done of it. Changes nothing if a
    /// path is not as it was when the copy was made, or if `refusal` has a reason. Returns the number of files.
    pub fn take_over(
        &self,
        copy: &Self,
        turn: u32,
        refusal: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<usize, TakeOverError> {
        let (Some(checkpoints), Some(of_copy)) = (self.checkpoints(), copy.checkpoints()) else {
            return Err(TakeOverError::Failed("checkpoints are disabled".to_owned()));
        };
        let mut plan = of_copy.remaining_changes();
        let mut refused = Vec::new();
        plan.steps.retain(|name, step| {
            let now = checkpoints.entry_of_step(name, step);
            let why = if let Some(PathState::NotCovered { why, .. }) = &step.target {
                Some(why.clone())
            } else if name.as_path().components().any(|part| part.as_os_str() == ".git") {
                Some("it belongs to git".to_owned())
            } else if let Some(why) = refusal(name.as_path()) {
                Some(why)
            } else {
                match refuse_step(step, now.as_deref(), false) {
                    None => None,
                    Some(UndoOutcome::Unchanged) => return false,
                    Some(_) => Some("it changed in the project meanwhile".to_owned()),
                }
            };
            refused.extend(why.map(|why| (display_name(name), why)));
            true
        });
        if !refused.is_empty() {
            return Err(TakeOverError::Refused(refused));
        }
        let changes = plan.steps.iter().map(|(name, step)| {
            PathChange::new(name.clone(), step.expected.clone(), step.target.clone())
        });
        let (what, changes) = (TAKE_OVER.to_owned(), changes.collect());
        checkpoints
            .record_operation(Operation { turn, what, changes, ..Operation::default() })
            .map_err(|error| TakeOverError::Failed(error.to_string()))?;
        let overlap = OperationLock::begin(&checkpoints.settings.store);
        let (_, done) = self.execute_plan(checkpoints, &plan, false, of_copy);
        drop(overlap);
        let refused: Vec<(String, String)> = done
            .iter()
            .filter(|(_, how)| matches!(how, UndoOutcome::Refused(_) | UndoOutcome::Skipped(_)))
            .map(|(path, how)| (path.clone(), how.to_string()))
            .collect();
        if !refused.is_empty() {
            return Err(TakeOverError::Refused(refused));
        }
        Ok(done.len())
    }
}

impl Checkpoints {
    /// The steps from the first state of each path to its present one, without ignored paths.
    fn remaining_changes(&self) -> UndoPlan {
        let operations = self.journal.read();
        let own = own_operations(&operations);
        let changes = own.iter().flat_map(|operation| &operation.changes);
        let named: HashSet<&PathName> =
            changes.filter(|change| !change.is_ignored).map(|change| &change.path).collect();
        let undo = UndoPlan::of(&own, |operation| &operation.changes);
        let steps = undo.steps.into_iter().filter(|(name, _)| named.contains(name));
        let steps = steps.filter_map(|(name, step)| {
            let now = self.entry_of_step(&name, &step).map(|entry| entry.state.clone());
            let (target, expected) = (now, step.target);
            let is_change = target != expected;
            let step = UndoStep {
                target,
                expected,
                is_broken: false,
                minor: None,
                is_moved_here: false,
                ended_ms: step.ended_ms,
            };
            is_change.then_some((name, step))
        });
        UndoPlan { steps: steps.collect() }
    }
}
