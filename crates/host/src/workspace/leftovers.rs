//! Removes temporary files that killed processes left in the folder of their target.

use std::fs::{self, File};
use std::path::Path;

use super::Workspace;
use super::snapshot::{FileStat, hash_file};
use agent_protocol::disk;

/// Names of temporary files, which contain the process and the hashes of the bytes that may be removed.
pub(super) mod temporary {
    const DIGITS: usize = 32;

    pub(in crate::workspace) fn name(process: u32, number: u64, old: &str, new: &str) -> String {
        let (old, new) = (hash_prefix(old), hash_prefix(new));
        format!(".agent-{process}-{number}-{old}-{new}.tmp")
    }

    pub(in crate::workspace) fn parse(name: &str) -> Option<(u32, [&str; 2])> {
        let rest = name.strip_prefix(".agent-")?.strip_suffix(".tmp")?;
        let mut parts = rest.split('-');
        let (process, number) = (parts.next()?, parts.next()?);
        number.parse::<u64>().ok()?;
        let hashes = [parts.next().unwrap_or(""), parts.next().unwrap_or("")];
        Some((process.parse().ok()?, hashes))
    }

    pub(in crate::workspace) fn hash_prefix(hash: &str) -> &str {
        &hash[..hash.len().min(DIGITS)]
    }
}

/// Metadata of a file when it was read: modification time in milliseconds, and size in bytes.
pub type FileStamp = (i64, u64);

impl Workspace {
    /// Removes the temporary files that dead processes left for this file, and returns the others. `seen` is the
    /// metadata of the file before the change; `None` if it did not exist. A temporary file is removed only if the
    /// hash in its name or the recorded events prove that its bytes are the agent's (before the exchange) or those
    /// of `seen` (after it); any other may be the user's.
    pub fn remove_leftovers(&self, path: &str, seen: Option<FileStamp>) -> Vec<String> {
        let Ok(path) = self.resolve(path) else { return Vec::new() };
        let looks_as_seen = |path: &Path| {
            let stat = fs::symlink_metadata(path).map(|data| FileStat::of(&data));
            stat.is_ok_and(|stat| seen == Some((stat.mtime_ms(), stat.size)))
        };
        let not_swapped = seen.is_none() || looks_as_seen(path.absolute());
        let Some(folder) = path.absolute().parent() else { return Vec::new() };
        self.remove_leftovers_in(folder, |file| not_swapped || looks_as_seen(file))
    }

    /// For a folder in which this process changes a file for the first time.
    pub(super) fn remove_leftovers_once(&self, folder: &Path) {
        let mut searched = self.searched_folders.lock();
        if searched.insert(folder.to_owned()) {
            // The remaining files may be the user's.
            self.remove_leftovers_in(folder, |_| false);
        }
    }

    /// Removes files of dead processes that their name or `is_ours` identifies; returns the others.
    fn remove_leftovers_in(&self, folder: &Path, is_ours: impl Fn(&Path) -> bool) -> Vec<String> {
        let mut left = Vec::new();
        // A link may replace the folder at any time.
        let Ok(opened) = disk::open_folder(folder) else { return left };
        for entry in fs::read_dir(disk::descriptor_path(&opened)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some((writer, hashes)) = name.to_str().and_then(temporary::parse) else { continue };
            if Path::new("/proc").join(writer.to_string()).exists() {
                continue;
            }
            let file = entry.path();
            // One that was never exchanged has no old hash: it may be incomplete, but nobody else wrote it.
            let is_new = hashes[0].is_empty() && !hashes[1].is_empty();
            let is_known = is_new || is_ours(&file) || has_hash_prefix(&file, hashes);
            if !is_known || fs::remove_file(&file).is_err() {
                left.push(self.display(&folder.join(name)));
            }
        }
        left
    }
}

fn has_hash_prefix(path: &Path, hashes: [&str; 2]) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|data| data.is_file());
    let hash = || hash_file(&mut File::open(path)?);
    is_file && hash().is_ok_and(|hash| hashes.contains(&temporary::hash_prefix(&hash)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use super::*;

    // No process has this id: the maximum is 4194304.
    const TEMPORARY: &str = ".agent-99999999-0.tmp";

    fn seen(path: &Path) -> FileStamp {
        let stat = FileStat::of(&fs::metadata(path).unwrap());
        (stat.mtime_ms(), stat.size)
    }

    #[test]
    fn sweep_removes_known_contents_and_keeps_others() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path(), &[]).unwrap();
        let (target, temporary) = (dir.path().join("a"), dir.path().join(TEMPORARY));
        fs::write(&target, "old").unwrap();
        let old = Some(seen(&target));

        fs::write(&temporary, "new, not swapped yet").unwrap();
        assert_eq!(workspace.remove_leftovers("a", old), [""; 0]);
        assert!(!temporary.exists());

        fs::rename(&target, &temporary).unwrap();
        fs::write(&target, "new, swapped").unwrap();
        assert_eq!(workspace.remove_leftovers("a", old), [""; 0]);
        assert!(!temporary.exists());

        fs::write(&temporary, "somebody's").unwrap();
        assert_eq!(workspace.remove_leftovers("a", old), [TEMPORARY]);
        assert!(temporary.exists());
    }

    #[test]
    fn temporary_file_name_identifies_removable_contents() {
        let dir = tempfile::tempdir().unwrap();
        let hash = |text: &str| super::super::snapshot::hash(text.as_bytes());
        let name = temporary::name(99_999_999, 3, &hash("old"), &hash("new"));
        assert_eq!(temporary::parse("a.tmp"), None);
        for (text, left) in [("old", false), ("new", false), ("somebody's", true), ("", true)] {
            fs::write(dir.path().join(&name), text).unwrap();
            Workspace::open(dir.path(), &[]).unwrap().remove_leftovers_once(dir.path());
            assert_eq!(dir.path().join(&name).exists(), left, "{text}");
        }
    }

    #[test]
    fn temporary_file_of_a_running_process_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path(), &[]).unwrap();
        let name = format!(".agent-{}-0.tmp", std::process::id());
        fs::write(dir.path().join(&name), "new").unwrap();
        assert_eq!(workspace.remove_leftovers("a", None), [""; 0]);
        assert!(dir.path().join(&name).exists());
    }
}
