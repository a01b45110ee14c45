//! The hidden files that git tracks (`.github/`, `.gitignore`): they are part of the project, so searches include them.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::checkpoint::GitDirs;
use super::snapshot::FileStat;
use agent_protocol::disk::git_index;

/// Reads the index again only when it changed.
#[derive(Debug, Default)]
pub(super) struct TrackedHiddenPaths {
    last: Mutex<Option<(ReadIndex, Arc<HashSet<PathBuf>>)>>,
}

type ReadIndex = (PathBuf, FileStat);

impl TrackedHiddenPaths {
    /// The files, and the directories above them up to the top of the repository around the folder; absolute paths.
    pub(super) fn around(&self, folder: &Path) -> Arc<HashSet<PathBuf>> {
        let Some(git) = GitDirs::around(folder) else { return Arc::default() };
        let index = git.index();
        let Ok(index_stat) = index.metadata().map(|data| FileStat::of(&data)) else {
            return Arc::default();
        };
        let read = (index, index_stat);
        let mut last = self.last.lock();
        if let Some((known, paths)) = &*last
            && *known == read
        {
            return Arc::clone(paths);
        }
        let mut paths = HashSet::new();
        _ = git_index::read(&read.0, |git_index::IndexEntry { name, .. }| {
            if name.starts_with(b".") || memchr::memmem::find(name, b"/.").is_some() {
                let file = git.top.join(OsStr::from_bytes(name));
                let inside = file.ancestors().take_while(|path| *path != git.top);
                paths.extend(inside.map(Path::to_owned));
            }
        });
        let paths = Arc::new(paths);
        *last = Some((read, Arc::clone(&paths)));
        paths
    }
}
