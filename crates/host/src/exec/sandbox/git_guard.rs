//! Checks each git directory after a writing command for a new `commondir` and a missing `HEAD`: with either, git would
//! take its hooks and configuration from elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use agent_protocol::disk;

const MAX_BYTES: u64 = 4096;

#[derive(Debug, Default)]
pub(in crate::exec) struct GitGuard(Vec<GitDirectoryState>);

#[derive(Debug)]
struct GitDirectoryState {
    directory: PathBuf,
    has_commondir: bool,
    head: Option<Vec<u8>>,
}

impl GitGuard {
    pub(super) fn capture(directories: &[PathBuf]) -> Self {
        let existing = directories.iter().filter(|directory| directory.is_dir());
        let state = |directory: &PathBuf| GitDirectoryState {
            directory: directory.clone(),
            has_commondir: exists(&directory.join("commondir")),
            head: disk::read_small(&directory.join("HEAD"), MAX_BYTES).ok(),
        };
        Self(existing.map(state).collect())
    }

    /// Returns a notice for each reverted change.
    pub(in crate::exec) fn revert_changes(&self) -> Vec<String> {
        // A repository that was removed as a whole stays removed.
        let existing = self.0.iter().filter(|state| exists(&state.directory));
        existing
            .flat_map(|state| [state.remove_commondir(), state.restore_head()])
            .flatten()
            .collect()
    }
}

impl GitDirectoryState {
    fn remove_commondir(&self) -> Option<String> {
        let path = self.directory.join("commondir");
        if self.has_commondir || !exists(&path) {
            return None;
        }
        let removed = fs::remove_file(&path).or_else(|_| disk::remove_folder(&path));
        let outcome = match removed {
            Ok(()) => "it was removed".to_owned(),
            Err(error) => format!("it cannot be removed ({error}); remove it and tell the user"),
        };
        let what = "was created, which leads git to another repository";
        Some(format!("{} {what}: {outcome}", path.display()))
    }

    fn restore_head(&self) -> Option<String> {
        let path = self.directory.join("HEAD");
        let head = self.head.as_ref().filter(|_| !exists(&path))?;
        let outcome = match disk::replace_file(&path, head) {
            Ok(()) => "it was restored".to_owned(),
            Err(error) => format!("it cannot be restored ({error})"),
        };
        let what = "was missing; without it this is not a repository";
        Some(format!("{} {what}: {outcome}", path.display()))
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
