//! Two checks of each git directory after a writing command: a new `commondir`, a missing `HEAD`.
//!
//! With either, git would take its hooks and configuration from elsewhere, or regard the directory as none.

use std::path::{Path, PathBuf};

use crate::disk;

/// A `HEAD` file has fewer bytes than this.
const MOST_BYTES: u64 = 4096;

/// The state before a command.
#[derive(Debug, Default)]
pub(in crate::exec) struct GitGuard(Vec<State>);

#[derive(Debug)]
struct State {
    directory: PathBuf,
    has_commondir: bool,
    head: Option<Vec<u8>>,
}

impl GitGuard {
    pub(super) fn before(directories: &[PathBuf]) -> Self {
        let existing = directories.iter().filter(|directory| directory.is_dir());
        Self(existing.map(|directory| State::of(directory)).collect())
    }

    /// Undoes what happened since, and says so.
    pub(in crate::exec) fn after(&self) -> Vec<String> {
        self.0.iter().flat_map(State::restore).collect()
    }
}

impl State {
    fn of(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            has_commondir: exists(&directory.join("commondir")),
            head: disk::read_small(&directory.join("HEAD"), MOST_BYTES).ok(),
        }
    }

    fn restore(&self) -> Vec<String> {
        let mut notices = Vec::new();
        // A repository that was removed as a whole stays removed.
        if !exists(&self.directory) {
            return notices;
        }
        let (commondir, head) = (self.directory.join("commondir"), self.directory.join("HEAD"));
        if !self.has_commondir && exists(&commondir) {
            let removed =
                std::fs::remove_file(&commondir).or_else(|_| disk::remove_folder(&commondir));
            let outcome = match removed {
                Ok(()) => "it was removed".to_owned(),
                Err(error) => {
                    format!("it cannot be removed ({error}); remove it and tell the user")
                }
            };
            let what = "was created, which leads git to another repository";
            notices.push(format!("{} {what}: {outcome}", commondir.display()));
        }
        if let Some(bytes) = &self.head
            && !exists(&head)
        {
            let outcome = match disk::replace(&head, bytes) {
                Ok(()) => "it was restored".to_owned(),
                Err(error) => format!("it cannot be restored ({error})"),
            };
            let what = "was missing, without which this is no repository";
            notices.push(format!("{} {what}: {outcome}", head.display()));
        }
        notices
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}
