//! What nothing protects is looked at before and after a command, and a change is told.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::settings;

/// Names of what git writes while it only reads, and of what can not be changed without being found
/// (an object's name is its hash), and of the agent's own record.
const NOT_LOOKED_AT: &[&str] =
    &["objects", "logs", "index", "lfs", "sessions", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG"];
/// A folder of hooks and settings has a few files; refs may be many.
const MAX_FILES: usize = 5_000;

/// How the protected paths were before the command.
pub(in crate::exec) struct Watch {
    paths: Vec<PathBuf>,
    before: BTreeMap<PathBuf, Seen>,
    /// Their content counts; else only whether they are there.
    in_depth: bool,
    /// Settings of git that git itself may change, and which of them name a program.
    settings: BTreeMap<PathBuf, Vec<String>>,
}

/// What a file can not keep when it is changed: its time of change can not be set by anybody.
type Seen = (u64, u64, i64, i64, u32);

impl Watch {
    pub(super) fn new(paths: Vec<PathBuf>, in_depth: bool, settings: Vec<PathBuf>) -> Self {
        let before = look(&paths, in_depth);
        let settings = settings.into_iter().map(|path| {
            let running = settings::running(&path);
            (path, running)
        });
        Self { paths, before, in_depth, settings: settings.collect() }
    }

    /// What is there now and was not, is gone, or is different.
    pub(in crate::exec) fn changed(&self) -> Vec<PathBuf> {
        let after = look(&self.paths, self.in_depth);
        let mut changed: Vec<PathBuf> = after
            .iter()
            .filter(|(path, seen)| self.before.get(*path) != Some(seen))
            .map(|(path, _)| path.clone())
            .collect();
        changed.extend(self.before.keys().filter(|path| !after.contains_key(*path)).cloned());
        let settings = self.settings.iter();
        let settings = settings.filter(|(path, before)| settings::running(path) != **before);
        changed.extend(settings.map(|(path, _)| path.clone()));
        changed.sort();
        changed.dedup();
        changed
    }
}

fn look(paths: &[PathBuf], in_depth: bool) -> BTreeMap<PathBuf, Seen> {
    let mut seen = BTreeMap::new();
    for path in paths {
        note(path, in_depth, &mut seen);
    }
    seen
}

fn note(path: &Path, in_depth: bool, seen: &mut BTreeMap<PathBuf, Seen>) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if !in_depth {
        seen.insert(path.to_owned(), (0, 0, 0, 0, 0));
        return;
    }
    if !metadata.is_dir() {
        let of_file = (
            metadata.ino(),
            metadata.size(),
            metadata.ctime(),
            metadata.ctime_nsec(),
            metadata.mode(),
        );
        seen.insert(path.to_owned(), of_file);
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_lock = Path::new(&name).extension().is_some_and(|extension| extension == "lock");
        if seen.len() < MAX_FILES && !is_lock && !NOT_LOOKED_AT.iter().any(|other| name == *other) {
            note(&entry.path(), in_depth, seen);
        }
    }
}
