//! The files that a session changed, with hashes, for its receipt.

use std::collections::BTreeMap;
use std::path::Path;

use super::Hash;
use super::journal::{Journal, own_operations};
use super::manifest::PathState;

/// The remaining changes of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChanges {
    /// By path: BLAKE3 of the content before and after; `None`: no such file, or its content was not read.
    pub files: BTreeMap<String, (Option<Hash>, Option<Hash>)>,
    /// The end of the last operation, in milliseconds since 1970.
    pub last_change_ms: i64,
}

impl SessionChanges {
    /// Reads the operations in this directory. Ignored files and paths that are not UTF-8 are left out.
    pub fn read(operations: &Path) -> Self {
        let operations = Journal::new(operations).read();
        let mut all = Self::default();
        let hash = |state: &Option<PathState>| match state {
            Some(PathState::File { hash, .. }) => Some(*hash),
            _ => None,
        };
        for operation in own_operations(&operations) {
            all.last_change_ms = all.last_change_ms.max(operation.ended_ms);
            for change in &operation.changes {
                let Some(path) = change.path.as_path().to_str().filter(|_| !change.is_ignored)
                else {
                    continue;
                };
                if !change.is_directory() {
                    let file = all.files.entry(path.to_owned());
                    file.or_insert((hash(&change.before), None)).1 = hash(&change.after);
                }
            }
        }
        all.files.retain(|_, (before, after)| before != after);
        all
    }
}
