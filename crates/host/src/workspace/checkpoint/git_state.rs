//! The git state of a checkpoint: HEAD, the index with its blobs, refs and the log of the stash.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::manifest::PathStat;
use super::pack::BlobId;
use agent_protocol::disk::{self, git_index, repository};

/// Files and directories of a stopped git operation, for example at a conflict (`gitrepository-layout(5)`).
#[rustfmt::skip]
pub(super) const OPERATION_FILES: &[&str] = &[
    "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "AUTO_MERGE", "SQUASH_MSG", "CHERRY_PICK_HEAD",
    "REVERT_HEAD", "REBASE_HEAD", "MERGE_AUTOSTASH", "BISECT_START", "BISECT_LOG", "BISECT_NAMES",
    "BISECT_TERMS", "BISECT_RUN", "BISECT_EXPECTED_REV", "BISECT_ANCESTORS_OK",
    "BISECT_FIRST_PARENT", "rebase-merge", "rebase-apply", "sequencer",
];

/// Git also leaves these files when no operation has stopped (`git stash apply`, `git merge --squash`).
const INDEX_STATE_FILES: &[&str] = &["AUTO_MERGE", "MERGE_MSG", "SQUASH_MSG"];

const MAX_REFS: usize = 20_000;

#[derive(Clone, Debug)]
pub(in crate::workspace) struct GitDirs {
    /// Contains HEAD and the index.
    own: PathBuf,
    /// Contains the refs, which linked working trees share.
    pub(super) common: PathBuf,
    pub(in crate::workspace) top: PathBuf,
}

impl GitDirs {
    /// `None` if there is no repository around the directory.
    pub(in crate::workspace) fn around(root: &Path) -> Option<Self> {
        let top = root.ancestors().find(|directory| directory.join(".git").exists())?;
        let dot_git = top.join(".git");
        let own = if dot_git.is_dir() {
            dot_git
        } else {
            let text = disk::read_small(&dot_git, disk::SMALL_FILE_LIMIT).ok()?;
            repository::linked_directory(&dot_git, &text)?
        };
        let common = match disk::read_small(&own.join("commondir"), disk::SMALL_FILE_LIMIT) {
            Ok(text) => own.join(repository::path_in(&text)?),
            Err(_) => own.clone(),
        };
        Some(Self { own, common, top: top.to_owned() })
    }

    pub(super) fn path_in_copy(&self, path: &Path, copy: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.own).or_else(|_| path.strip_prefix(&self.common));
        below.ok().map(|below| copy.join(below))
    }

    pub(in crate::workspace) fn index(&self) -> PathBuf {
        self.own.join("index")
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = vec![self.own.join("HEAD"), self.index()];
        files.extend(["packed-refs", "logs/refs/stash"].map(|name| self.common.join(name)));
        let operations = OPERATION_FILES.iter().map(|name| self.own.join(name));
        let (running, single): (Vec<_>, Vec<_>) = operations.partition(|path| path.is_dir());
        files.extend(single);
        let mut directories = vec![self.common.join("refs")];
        // Even an empty one of these directories means that an operation is running.
        files.extend(running.iter().cloned());
        directories.extend(running);
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => directories.push(entry.path()),
                    Ok(kind) if kind.is_file() && files.len() < MAX_REFS => {
                        files.push(entry.path());
                    }
                    Ok(_) | Err(_) => {}
                }
            }
        }
        files
    }

    /// True for the index of this working tree and for files that describe its content.
    pub(super) fn is_of_index(&self, path: &Path) -> bool {
        path == self.index() || INDEX_STATE_FILES.iter().any(|name| path == self.own.join(name))
    }
}

#[derive(Clone, Copy)]
pub(super) struct IndexEntry {
    pub(super) id: BlobId,
    /// The size of the file when it was added, modulo 2³².
    pub(super) size: u32,
    /// The modification time when it was added: seconds and nanoseconds (0: not recorded), both modulo 2³².
    mtime: (u32, u32),
}

impl IndexEntry {
    pub(super) fn describes(&self, stat: &PathStat) -> bool {
        let (seconds, nanoseconds) = (stat.mtime_ns / 1_000_000_000, stat.mtime_ns % 1_000_000_000);
        u64::from(self.size) == stat.size & u64::from(u32::MAX)
            && i64::from(self.mtime.0) == seconds & i64::from(u32::MAX)
            && (self.mtime.1 == 0 || i64::from(self.mtime.1) == nanoseconds)
    }
}

/// By path from the top of the working tree. Without an entry a content is stored.
pub(super) fn read_index(path: &Path) -> HashMap<Vec<u8>, IndexEntry> {
    let mut entries = HashMap::new();
    let read = git_index::read(path, |entry| {
        // The stages of a conflict do not describe the file in the working tree.
        if entry.flags & 0x3000 == 0 {
            let git_index::IndexEntry { name, id, size, mtime, .. } = entry;
            entries.insert(name.to_owned(), IndexEntry { id, size, mtime });
        }
    });
    read.map(|()| entries).unwrap_or_default()
}

/// True if the indexes differ only in times, sizes and inodes of the working tree, which `git status` refreshes.
pub(super) fn is_same_index(first: &[u8], second: &[u8]) -> bool {
    let listed = |bytes: &[u8]| {
        let mut entries = Vec::new();
        git_index::parse(bytes, |it| entries.push((it.name.to_owned(), it.mode, it.id, it.flags)))?;
        Some(entries)
    };
    let first = listed(first);
    first.is_some() && first == listed(second)
}
