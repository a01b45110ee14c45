//! The plan of an undo: the operations that it undoes, and for each path the state after it.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::journal::{Operation, effective_operations, own_operations};
use super::manifest::{ManifestEntry, PathChange, PathName, PathStat, PathState};
use super::restore::{UNDO, UndoOutcome, UndoTarget, has_state, refuse_step};
use super::{Checkpoints, USER_PROGRAMS};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UndoPlan {
    pub(super) steps: BTreeMap<PathName, UndoStep>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct UndoStep {
    pub(super) target: Option<PathState>,
    pub(super) expected: Option<PathState>,
    /// True if something else changed the path between two of the operations.
    pub(super) is_broken: bool,
    /// Why the path may stay unchanged if it changed since.
    pub(super) minor: Option<MinorReason>,
    pub(super) is_moved_here: bool,
    pub(super) ended_ms: i64,
}

impl UndoStep {
    pub(super) fn leave(&self, why: String) -> UndoOutcome {
        if self.minor.is_some() { UndoOutcome::Skipped(why) } else { UndoOutcome::Refused(why) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MinorReason {
    UserPrograms,
    Ignored,
}

impl UndoPlan {
    pub(super) fn of(operations: &[&Operation], changes: fn(&Operation) -> &[PathChange]) -> Self {
        let mut plan = Self::default();
        for operation in operations.iter().rev() {
            let of_user_programs =
                (operation.what == USER_PROGRAMS).then_some(MinorReason::UserPrograms);
            for change in changes(operation).iter().rev() {
                let minor = of_user_programs.or(change.is_ignored.then_some(MinorReason::Ignored));
                plan.steps
                    .entry(change.path.clone())
                    .and_modify(|step| {
                        step.is_broken |= step.target != change.after;
                        step.target.clone_from(&change.before);
                        step.minor = minor.and(step.minor);
                        step.is_moved_here |= change.is_moved_here;
                    })
                    .or_insert_with(|| UndoStep {
                        target: change.before.clone(),
                        expected: change.after.clone(),
                        is_broken: false,
                        minor,
                        is_moved_here: change.is_moved_here,
                        ended_ms: operation.ended_ms,
                    });
            }
        }
        // A file that was moved here may have been moved on.
        let changes = operations.iter().flat_map(|operation| changes(operation));
        let moved_on = changes.filter(|change| {
            let is_here = |step: &UndoStep| step.expected == change.after;
            change.is_moved_here && !plan.steps.get(&change.path).is_some_and(is_here)
        });
        let moved_on: Vec<Option<PathState>> =
            moved_on.map(|change| change.after.clone()).collect();
        for step in plan.steps.values_mut().filter(|step| step.target.is_none()) {
            step.is_moved_here |= step.expected.is_some() && moved_on.contains(&step.expected);
        }
        plan
    }
}

impl Checkpoints {
    pub(super) fn selected_operations<'a>(
        &self,
        operations: &'a [Operation],
        target: UndoTarget,
        force: bool,
    ) -> Vec<&'a Operation> {
        let mut selected = select_operations(operations, target);
        // The rest of a partly undone turn can be undone by its number or with force.
        let skips_rest = target == UndoTarget::Latest && !force;
        while skips_rest && self.is_undone_in_part(operations, &selected) {
            let earlier = operations_of_turn_before(operations, selected[0].turn);
            if earlier.is_empty() {
                break;
            }
            selected = earlier;
        }
        selected
    }

    pub(super) fn plan_undo(&self, operations: &[Operation], selected: &[&Operation]) -> UndoPlan {
        let plan = UndoPlan::of(selected, |operation| &operation.changes);
        self.with_changed_directories(operations, self.with_moved_files(plan))
    }

    /// True if the operations of a turn were undone in part, and no more of them can be undone.
    fn is_undone_in_part(&self, operations: &[Operation], selected: &[&Operation]) -> bool {
        let plan = self.plan_undo(operations, selected);
        selected.iter().any(|it| it.what == UNDO)
            && plan.steps.iter().all(|(name, step)| {
                refuse_step(step, self.entry_of_step(name, step).as_deref(), false).is_some()
            })
    }

    /// For a file whose content is not stored, and which the operations moved: the content is at the new path.
    fn with_moved_files(&self, mut plan: UndoPlan) -> UndoPlan {
        let stat_of = |state: &Option<PathState>| match state {
            Some(PathState::NotCovered { stat, .. }) => Some(*stat),
            _ => None,
        };
        let created = plan.steps.iter().filter(|(_, step)| step.target.is_none());
        let created =
            created.filter_map(|(name, step)| Some((name.clone(), stat_of(&step.expected)?)));
        let created: Vec<(PathName, PathStat)> = created.collect();
        for step in plan.steps.values_mut().filter(|step| step.expected.is_none()) {
            let Some(stat) = stat_of(&step.target) else { continue };
            let Some((name, moved)) = created.iter().find(|(_, it)| it.is_same_file(&stat)) else {
                continue;
            };
            let now = self.current_entry(name, [step.target.as_ref(), None]);
            // Another file may be there now.
            if let Some(now) = now
                && now.stat == *moved
                && matches!(now.state, PathState::File { .. })
            {
                step.target = Some(now.state.clone());
            }
        }
        plan
    }

    /// Ignored files of one directory may belong together, as a database and its log do: if something else changed one of
    /// them, or if one cannot be restored, the others stay unchanged.
    fn with_changed_directories(&self, operations: &[Operation], mut plan: UndoPlan) -> UndoPlan {
        let is_ignored = |step: &UndoStep| step.minor == Some(MinorReason::Ignored);
        if !plan.steps.values().any(is_ignored) {
            return plan;
        }
        let Ok(now) = self.take_manifest() else { return plan };
        // The states in which operations left paths.
        let left = operations.iter().flat_map(|operation| &operation.changes);
        let left: HashMap<&PathName, &Option<PathState>> =
            left.map(|change| (&change.path, &change.after)).collect();
        let is_as_left = |entry: &ManifestEntry| {
            left.get(&entry.path).is_some_and(|it| has_state(it.as_ref(), Some(entry)))
        };
        // The time of the last change in each directory, in milliseconds since 1970.
        let mut changed: HashMap<Option<PathBuf>, i64> = HashMap::new();
        let is_ignored_file =
            |entry: &&Arc<ManifestEntry>| entry.is_ignored && entry.stat.is_file();
        for entry in now.files.iter().filter(is_ignored_file).filter(|entry| !is_as_left(entry)) {
            let latest = changed.entry(directory_of(&entry.path)).or_insert(i64::MIN);
            *latest = (entry.stat.mtime_ns / 1_000_000).max(*latest);
        }
        for (name, step) in plan.steps.iter().filter(|(_, step)| is_ignored(step)) {
            if matches!(step.target, Some(PathState::NotCovered { .. })) {
                changed.insert(directory_of(name), i64::MAX);
            }
        }
        for (name, step) in plan.steps.iter_mut().filter(|(_, step)| is_ignored(step)) {
            let latest = changed.get(&directory_of(name));
            step.is_broken |= latest.is_some_and(|latest| *latest > step.ended_ms);
        }
        plan
    }
}

fn directory_of(name: &PathName) -> Option<PathBuf> {
    name.as_path().parent().map(Path::to_owned)
}

pub(super) fn select_operations(operations: &[Operation], target: UndoTarget) -> Vec<&Operation> {
    let (first, last) = match target {
        UndoTarget::Latest => return operations_of_turn_before(operations, u32::MAX),
        UndoTarget::Redo => {
            let live = effective_operations(operations).into_iter();
            return live.rev().find(|it| it.what == UNDO).into_iter().collect();
        }
        UndoTarget::Turn(turn) => (turn, turn),
        UndoTarget::FromTurn(turn) => (turn, u32::MAX),
    };
    let mut own = own_operations(operations);
    own.retain(|it| (first..=last).contains(&it.turn));
    own
}

fn operations_of_turn_before(operations: &[Operation], turn: u32) -> Vec<&Operation> {
    let mut own = own_operations(operations);
    own.retain(|it| it.turn < turn);
    // A background command ends after later turns.
    let latest = own.iter().map(|it| it.turn).max();
    own.retain(|it| Some(it.turn) == latest);
    own
}
