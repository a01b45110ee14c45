//! The git state of a checkpoint: HEAD, the index with its blobs, refs and the log of the stash.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::manifest::{PathStat, stat};
use super::pack::BlobId;
use agent_protocol::disk::{self, repository};

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

/// The type of an entry that names a commit of another repository, and the bits of a type in a mode.
const SUBMODULE_MODE: u32 = 0o160_000;
const TYPE_BITS: u32 = 0o170_000;

/// A larger index counts as one without entries.
const MAX_INDEX_BYTES: u64 = 1 << 28;

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

    /// The metadata and the path of the index; git follows a link in its place.
    pub(super) fn index_file(&self) -> Option<(PathStat, PathBuf)> {
        let index = self.index().canonicalize().ok()?;
        Some((stat(&index).ok()?, index))
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
    pub(super) is_submodule: bool,
}

impl IndexEntry {
    pub(super) fn describes(&self, stat: &PathStat) -> bool {
        let (seconds, nanoseconds) = (stat.mtime_ns / 1_000_000_000, stat.mtime_ns % 1_000_000_000);
        u64::from(self.size) == stat.size & u64::from(u32::MAX)
            && i64::from(self.mtime.0) == seconds & i64::from(u32::MAX)
            && (self.mtime.1 == 0 || i64::from(self.mtime.1) == nanoseconds)
    }
}

/// By path from the top of the working tree (`gitformat-index(5)`). Without an entry a content is stored.
/// `None` if the index cannot be read: it is split, or has other object ids.
pub(super) fn read_index(path: &Path) -> Option<HashMap<Vec<u8>, IndexEntry>> {
    let bytes = disk::read_small(path, MAX_INDEX_BYTES).unwrap_or_default();
    let mut entries = HashMap::new();
    let parsed = parse_index(&bytes, |entry| {
        // The stages of a conflict do not describe the file in the working tree.
        let is_submodule = entry.mode & TYPE_BITS == SUBMODULE_MODE;
        if entry.flags & 0x3000 == 0 || is_submodule {
            let RawIndexEntry { name, id, size, mtime, .. } = entry;
            entries.insert(name.to_owned(), IndexEntry { id, size, mtime, is_submodule });
        }
    });
    parsed.map(|()| entries)
}

/// The names of the files in an index, as far as it can be read.
pub(in crate::workspace) fn for_each_tracked(index: &Path, mut each: impl FnMut(&[u8])) {
    let bytes = disk::read_small(index, MAX_INDEX_BYTES).unwrap_or_default();
    _ = parse_index(&bytes, |entry| each(entry.name));
}

/// True if the indexes differ only in times, sizes and inodes of the working tree, which `git status` refreshes.
pub(super) fn is_same_index(first: &[u8], second: &[u8]) -> bool {
    let listed = |bytes: &[u8]| {
        let mut entries = Vec::new();
        parse_index(bytes, |it| entries.push((it.name.to_owned(), it.mode, it.id, it.flags)))?;
        Some(entries)
    };
    let first = listed(first);
    first.is_some() && first == listed(second)
}

struct RawIndexEntry<'a> {
    name: &'a [u8],
    mode: u32,
    id: BlobId,
    size: u32,
    mtime: (u32, u32),
    flags: u16,
}

fn parse_index(bytes: &[u8], mut each: impl FnMut(RawIndexEntry<'_>)) -> Option<()> {
    const FIXED: usize = 62;
    const EXTENDED: u16 = 0x4000;
    const CHECKSUM: usize = 20;
    let number = |at: usize| Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.get(..4)? != b"DIRC" {
        return None;
    }
    let (version, n_entries) = (number(4)?, number(8)?);
    if !(2..=4).contains(&version) {
        return None;
    }
    let (mut at, mut name) = (12, Vec::new());
    for _ in 0..n_entries {
        let begin = at;
        let (mode, size) = (number(at + 24)?, number(at + 36)?);
        let mtime = (number(at + 8)?, number(at + 12)?);
        let id: BlobId = bytes.get(at + 40..at + 60)?.try_into().ok()?;
        let flags = u16::from_be_bytes(bytes.get(at + 60..at + 62)?.try_into().ok()?);
        at += FIXED;
        if flags & EXTENDED != 0 {
            at += 2;
        }
        if version == 4 {
            let (drop, length) = variable_length(bytes.get(at..)?)?;
            at += length;
            name.truncate(name.len().checked_sub(drop)?);
        } else {
            name.clear();
        }
        let end = at + memchr::memchr(0, bytes.get(at..)?)?;
        name.extend_from_slice(&bytes[at..end]);
        // For a longer name the flags have only the maximum.
        let recorded_length = usize::from(flags & 0xfff);
        if recorded_length != name.len().min(0xfff) {
            return None;
        }
        at = if version == 4 { end + 1 } else { begin + (end - begin + 8) / 8 * 8 };
        each(RawIndexEntry { name: &name, mode, id, size, mtime, flags });
    }
    // Extensions, and a checksum. The rest of a split index is in another file.
    while at + CHECKSUM < bytes.len() {
        let length = usize::try_from(number(at + 4)?).ok()?;
        if bytes.get(at..at + 4)? == b"link" {
            return None;
        }
        at += 8 + length;
    }
    (at + CHECKSUM == bytes.len()).then_some(())
}

/// Decodes git's offset encoding; also returns the length in bytes.
fn variable_length(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut value = 0usize;
    for (n, byte) in bytes.iter().take(8).enumerate() {
        value = (value << 7) | usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, n + 1));
        }
        value += 1;
    }
    None
}
