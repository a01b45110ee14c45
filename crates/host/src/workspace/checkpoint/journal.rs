//! The journal of a session: the changes of its operations, one line of JSON each.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::manifest::PathChange;
use super::{append_line, now_ms};
use agent_protocol::disk;

pub(super) const FILE: &str = "operations.jsonl";

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Operation {
    pub(super) id: u32,
    pub(super) turn: u32,
    /// The name of the tool, or `undo`: `Edit`, `Bash`.
    pub(super) what: String,
    /// The id of the call; empty for an undo, a redo, and a command whose process was killed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) call: String,
    /// Who changed the files, for a model: `` `cargo fmt` ``. Empty if not an operation of the agent: an undo, a redo.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) author: String,
    /// Another session or a background command ran at the same time, and may have made some of the changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_shared: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<PathChange>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) git: Vec<PathChange>,
    #[serde(default)]
    pub(super) ended_ms: i64,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) undoes: BTreeSet<u32>,
}

#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    /// Held while an operation is recorded: one at a time.
    recording: Mutex<()>,
}

impl Journal {
    pub(super) fn new(directory: &Path) -> Self {
        Self { path: directory.join(FILE), recording: Mutex::default() }
    }

    /// Skips an incomplete line, which a killed process wrote.
    pub(super) fn read(&self) -> Vec<Operation> {
        self.read_from(0)
    }

    /// Only operations after this offset of the file in bytes.
    pub(super) fn read_from(&self, size: u64) -> Vec<Operation> {
        let bytes = disk::read_file(&self.path).unwrap_or_default();
        let bytes =
            usize::try_from(size).ok().and_then(|size| bytes.get(size..)).unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    pub(super) fn size(&self) -> u64 {
        std::fs::metadata(&self.path).map_or(0, |data| data.len())
    }

    /// Assigns a new id to the operation.
    pub(super) fn record(&self, operation: Operation) -> io::Result<()> {
        let recording = self.recording.lock();
        let id = self.read().iter().map(|it| it.id).max().unwrap_or(0) + 1;
        let added = self.append(&Operation { id, ended_ms: now_ms(), ..operation });
        drop(recording);
        added
    }

    pub(super) fn append(&self, operation: &Operation) -> io::Result<()> {
        append_line(&self.path, operation)
    }
}

/// Leaves out undone operations, and undos that were undone.
pub(super) fn effective_operations(operations: &[Operation]) -> Vec<&Operation> {
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

/// Effective operations without undos.
pub(super) fn own_operations(operations: &[Operation]) -> Vec<&Operation> {
    let mut own = effective_operations(operations);
    own.retain(|operation| operation.undoes.is_empty());
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(id: u32, undoes: &[u32]) -> Operation {
        Operation { id, turn: 1, undoes: undoes.iter().copied().collect(), ..Operation::default() }
    }

    #[test]
    fn undone_undo_is_not_live() {
        let ids = |all: &[Operation]| {
            effective_operations(all).iter().map(|it| it.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&[operation(1, &[]), operation(2, &[])]), [1, 2]);
        assert_eq!(ids(&[operation(1, &[]), operation(2, &[1])]), [2]);
        assert_eq!(ids(&[operation(1, &[]), operation(2, &[1]), operation(3, &[2])]), [1, 3]);
    }
}
