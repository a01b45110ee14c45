//! The files that a session changed, with hashes, for its receipt.

use std::collections::BTreeMap;
use std::path::Path;

use super::Hash;
use super::journal::{Journal, own_operations};
use super::manifest::PathState;
use super::take_over::TAKE_OVER;

/// The remaining changes of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionChanges {
    /// By path: BLAKE3 of the content before and after; `None`: no such file, or its content was not read.
    pub files: BTreeMap<String, (Option<Hash>, Option<Hash>)>,
    /// The end of the last operation or undo, in milliseconds since 1970; a result that is taken over was checked before.
    pub last_change_ms: i64,
}

impl SessionChanges {
    /// Reads the operations in this directory. Links, directories, ignored files, and paths that are not UTF-8 are left
    /// out.
    pub fn read(operations: &Path) -> Self {
        let operations = Journal::new(operations).read();
        let mut all = Self::default();
        let hash = |state: &Option<PathState>| match state {
            Some(PathState::File { hash, .. }) => Some(Some(*hash)),
            None => Some(None),
            Some(_) => None,
        };
        let changing =
            operations.iter().filter(|it| !it.changes.is_empty() && it.what != TAKE_OVER);
        all.last_change_ms = changing.map(|it| it.ended_ms).max().unwrap_or_default();
        for operation in own_operations(&operations) {
            for change in &operation.changes {
                let Some(path) = change.path.as_path().to_str().filter(|_| !change.is_ignored)
                else {
                    continue;
                };
                if let (Some(before), Some(after)) = (hash(&change.before), hash(&change.after)) {
                    all.files.entry(path.to_owned()).or_insert((before, None)).1 = after;
                }
            }
        }
        all.files.retain(|_, (before, after)| before != after);
        all
    }
}
