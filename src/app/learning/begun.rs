//! Sessions that began and that the store does not know yet, each as a small file beside it: if it can not be written
//! before they end, their records are told by that from those that came with a folder.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The marks.
pub(super) struct Begun {
    folder: PathBuf,
}

impl Begun {
    /// Those beside this store; nothing is made yet.
    pub(super) fn beside(store: &Path) -> Self {
        Self { folder: store.with_extension("begun") }
    }

    /// This session is ours from the event of this number on.
    pub(super) fn mark(&self, session: &str, seq: u64) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        std::fs::write(self.folder.join(session), seq.to_string())
    }

    /// From which event on a session is ours, where that is marked.
    pub(super) fn marked(&self, session: &str) -> Option<u64> {
        std::fs::read_to_string(self.folder.join(session)).ok()?.parse().ok()
    }

    /// The store knows it now.
    pub(super) fn clear(&self, session: &str) {
        _ = std::fs::remove_file(self.folder.join(session));
    }

    /// Clears the marks of sessions that nobody has gone on with for so long.
    pub(super) fn clear_older_than(&self, age: Duration) {
        let Ok(marks) = std::fs::read_dir(&self.folder) else { return };
        for mark in marks.filter_map(Result::ok) {
            let written = mark.metadata().and_then(|metadata| metadata.modified());
            if written.is_ok_and(|at| at.elapsed().is_ok_and(|since| since > age)) {
                _ = std::fs::remove_file(mark.path());
            }
        }
    }
}
