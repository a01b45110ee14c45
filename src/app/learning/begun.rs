//! Sessions that began and that the store does not know yet, each as a small file beside it: if it can not be written
//! before they end, their records are told by that from those that came with a folder.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::disk;

/// The marks.
pub(super) struct Begun {
    folder: PathBuf,
}

impl Begun {
    /// Those beside this store; nothing is made yet.
    pub(super) fn beside(store: &Path) -> Self {
        let folder = store.with_extension("begun");
        // (The user's own links lead there; none in its own place.)
        let above = folder.parent().map(disk::canonical_prefix).unwrap_or_default();
        let name = folder.file_name().unwrap_or_default();
        Self { folder: above.join(name) }
    }

    /// This session is ours from the event of this number on.
    pub(super) fn mark(&self, session: &str, seq: u64) -> io::Result<()> {
        drop(disk::make_folder(&self.folder, 0o700)?);
        disk::replace(&self.folder.join(session), seq.to_string().as_bytes())
    }

    /// From which event on a session is ours, where that is marked.
    pub(super) fn marked(&self, session: &str) -> Option<u64> {
        let mark = disk::read(&self.folder.join(session)).ok()?;
        String::from_utf8(mark).ok()?.parse().ok()
    }

    /// The store knows it now.
    pub(super) fn clear(&self, session: &str) {
        let Ok(folder) = disk::open_folder(&self.folder) else { return };
        _ = std::fs::remove_file(disk::by_descriptor(&folder).join(session));
    }

    /// Clears the marks of sessions that nobody has gone on with for so long.
    pub(super) fn clear_older_than(&self, age: Duration) {
        let Ok(folder) = disk::open_folder(&self.folder) else { return };
        let marks = std::fs::read_dir(disk::by_descriptor(&folder));
        for mark in marks.into_iter().flatten().flatten() {
            let written = mark.metadata().and_then(|metadata| metadata.modified());
            if written.is_ok_and(|at| at.elapsed().is_ok_and(|since| since > age)) {
                _ = std::fs::remove_file(mark.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use std::fs::{self, File};
    use std::os::unix::fs::symlink;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn marks_are_made_and_cleared_where_they_belong_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let (data, outside) = (dir.path().join("data"), dir.path().join("outside"));
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("old"), "theirs").unwrap();
        File::open(outside.join("old")).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let marks = Begun::beside(&data.join("memory.db"));
        marks.mark("a", 7).unwrap();
        marks.mark("a", 8).unwrap();
        assert_eq!(marks.marked("a"), Some(8));
        marks.clear_older_than(Duration::from_mins(1));
        assert_eq!(marks.marked("a"), Some(8));
        marks.clear("a");
        assert_eq!(marks.marked("a"), None);
        // Somebody's link in the place of their folder.
        fs::remove_dir(data.join("memory.begun")).unwrap();
        symlink(&outside, data.join("memory.begun")).unwrap();
        marks.mark("b", 1).unwrap_err();
        marks.clear("old");
        marks.clear_older_than(Duration::from_mins(1));
        assert_eq!(fs::read_to_string(outside.join("old")).unwrap(), "theirs");
        assert!(!outside.join("b").exists());
    }
}
