//! The journal of a session: what its operations changed, one line of JSON each.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::USER_PROGRAMS;
use super::manifest::{Change, Name, State, lock};
use crate::disk;

pub(super) const FILE: &str = "operations.jsonl";

/// One operation: a call of a tool, an undo, or a redo.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Operation {
    pub(super) id: u32,
    pub(super) turn: u32,
    /// The kind of operation: `Edit`, `Bash`, `undo`.
    pub(super) what: String,
    /// The id of the call; empty for an undo, a redo, and a command whose process was killed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) call: String,
    /// Another session or a background command ran at the same time: some changes may not belong to this
    /// operation.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_shared: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<Change>,
    /// Changes of HEAD, the index, refs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) git: Vec<Change>,
    /// The operations that it undid.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) undoes: BTreeSet<u32>,
}

/// The operations of a session.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Operations are recorded one at a time.
    recording: Mutex<()>,
}

impl Journal {
    pub(super) fn new(directory: &Path) -> Self {
        Self { path: directory.join(FILE), recording: Mutex::default() }
    }

    /// All operations. An incomplete line was written by a process that was killed.
    pub(super) fn read(&self) -> Vec<Operation> {
        let bytes = disk::read(&self.path).unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    /// Adds an operation with an id that no other one has.
    pub(super) fn record(&self, operation: Operation) -> io::Result<()> {
        let recording = lock(&self.recording);
        let id = self.read().iter().map(|it| it.id).max().unwrap_or(0) + 1;
        let added = self.add(&Operation { id, ..operation });
        drop(recording);
        added
    }

    pub(super) fn add(&self, operation: &Operation) -> io::Result<()> {
        let line = serde_json::to_string(operation)?;
        // (The previous line may be incomplete.)
        disk::append(&self.path, true)?.write_all(format!("\n{line}\n").as_bytes())
    }
}

/// The effective operations: without those that were undone, and without undos that were undone.
pub(super) fn live(operations: &[Operation]) -> Vec<&Operation> {
    let mut undone = BTreeSet::new();
    let mut live: Vec<&Operation> = Vec::new();
    // An undo comes after the operations that it undoes.
    for operation in operations.iter().rev() {
        if undone.contains(&operation.id) {
            continue;
        }
        undone.extend(operation.undoes.iter().copied());
        live.push(operation);
    }
    live.reverse();
    live
}

/// For each path, the state after an undo, and the state that is expected now.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Plan {
    pub(super) steps: BTreeMap<Name, Step>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Step {
    pub(super) target: Option<State>,
    pub(super) expected: Option<State>,
    /// Something else changed the path between two of the operations.
    pub(super) is_broken: bool,
    /// Why the path may stay as it is if it changed since.
    pub(super) minor: Option<Minor>,
    /// The file was moved here from a place that no checkpoint covers.
    pub(super) is_moved_here: bool,
}

/// What makes the changes of a path less important than others: all of them are such.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Minor {
    /// Hooks or checks made them.
    UserPrograms,
    /// The path is ignored.
    Ignored,
}

impl Minor {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::UserPrograms => "a hook or check wrote it, and it was changed since",
            Self::Ignored => "it is ignored, and it or a file beside it was changed since",
        }
    }
}

impl Plan {
    /// The plan that undoes what these operations changed in files.
    pub(super) fn of_files(operations: &[&Operation]) -> Self {
        Self::of(operations, |operation| &operation.changes)
    }

    /// The same for HEAD, the index and refs.
    pub(super) fn of_git(operations: &[&Operation]) -> Self {
        Self::of(operations, |operation| &operation.git)
    }

    fn of(operations: &[&Operation], changes: fn(&Operation) -> &[Change]) -> Self {
        let mut plan = Self::default();
        for operation in operations.iter().rev() {
            let of_user_programs = (operation.what == USER_PROGRAMS).then_some(Minor::UserPrograms);
            for change in changes(operation).iter().rev() {
                let minor = of_user_programs.or(change.is_ignored.then_some(Minor::Ignored));
                plan.steps
                    .entry(change.path.clone())
                    .and_modify(|step| {
                        step.is_broken |= step.target != change.after;
                        step.target.clone_from(&change.before);
                        step.minor = minor.and(step.minor);
                        step.is_moved_here |= change.is_moved_here;
                    })
                    .or_insert_with(|| Step {
                        target: change.before.clone(),
                        expected: change.after.clone(),
                        is_broken: false,
                        minor,
                        is_moved_here: change.is_moved_here,
                    });
            }
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(id: u32, undoes: &[u32]) -> Operation {
        Operation { id, turn: 1, undoes: undoes.iter().copied().collect(), ..Operation::default() }
    }

    #[test]
    fn undone_undo_is_not_live() {
        let ids = |all: &[Operation]| live(all).iter().map(|it| it.id).collect::<Vec<_>>();
        assert_eq!(ids(&[operation(1, &[]), operation(2, &[])]), [1, 2]);
        assert_eq!(ids(&[operation(1, &[]), operation(2, &[1])]), [2]);
        assert_eq!(ids(&[operation(1, &[]), operation(2, &[1]), operation(3, &[2])]), [1, 3]);
    }
}
