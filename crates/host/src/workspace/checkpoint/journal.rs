//! The operations of a session: the journal of their changes, one line of JSON each, and the lock that they hold.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::manifest::PathChange;
use super::{append_line, now_ms};
use agent_protocol::disk;

pub(super) const FILE: &str = "operations.jsonl";
const LOCK_FILE: &str = "operations.lock";

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

/// By which operations of different sessions that run at the same time notice each other: a shared lock on a file of the
/// store. One that began earlier holds it when this one begins; one that began later has appended a byte when this one
/// ends. Without a file, overlaps are not detected.
pub(super) struct OperationLock(Option<(File, u64, bool)>);

impl OperationLock {
    /// The file of the store.
    pub(super) fn open(store: &Path) -> io::Result<File> {
        disk::create_folder_all(store, 0o700)?;
        disk::open_for_append(&store.join(LOCK_FILE), true)
    }

    pub(super) fn begin(store: &Path) -> Self {
        let begin = || {
            let mut file = Self::open(store)?;
            // In this order, each of two operations that begin at the same time sees the lock or the byte of the other.
            fcntl(&file, FcntlArg::F_OFD_SETLK(&lock(libc::F_RDLCK)))?;
            file.write_all(b".")?;
            let length = file.stream_position()?;
            let mut found = lock(libc::F_WRLCK);
            fcntl(&file, FcntlArg::F_OFD_GETLK(&mut found))?;
            let is_shared = i32::from(found.l_type) != libc::F_UNLCK;
            Ok::<_, io::Error>((file, length, is_shared))
        };
        Self(begin().ok())
    }

    /// True if another operation ran at the same time.
    pub(super) fn end(self) -> bool {
        let Some((file, length, is_shared)) = self.0 else { return false };
        is_shared || file.metadata().is_ok_and(|data| data.len() != length)
    }
}

fn lock(kind: i32) -> libc::flock {
    let [kind, whence] = [kind, libc::SEEK_SET].map(|value| i16::try_from(value).unwrap_or(0));
    libc::flock { l_type: kind, l_whence: whence, l_start: 0, l_len: 1, l_pid: 0 }
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
