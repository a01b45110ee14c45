//! Snapshots of files as they were read: the ledger that later changes are checked against.

use std::collections::HashMap;
use std::fs::{self, File, Metadata};
use std::io::{self, Seek};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent_protocol::disk;

/// Size in bytes up to which the content of a file is stored, to show later what changed.
pub(super) const MAX_KEPT: usize = 256 * 1024;
/// Size limit of all stored contents in bytes; the oldest are dropped.
const MAX_KEPT_IN_ALL: usize = 4 * 1024 * 1024;

/// Metadata that identify a state of a file. If any of it changed, the bytes may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStat {
    pub size: u64,
    /// Modification time in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Change time of the inode in nanoseconds since 1970; programs cannot set it.
    pub ctime_ns: i64,
    pub device: u64,
    pub inode: u64,
}

impl FileStat {
    /// Takes the fields from metadata.
    pub fn of(data: &Metadata) -> Self {
        let nanoseconds =
            |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000).saturating_add(rest);
        Self {
            size: data.len(),
            mtime_ns: nanoseconds(data.mtime(), data.mtime_nsec()),
            ctime_ns: nanoseconds(data.ctime(), data.ctime_nsec()),
            device: data.dev(),
            inode: data.ino(),
        }
    }

    /// Modification time in milliseconds, as in `stats.file_mtime_ms`.
    pub fn mtime_ms(&self) -> i64 {
        self.mtime_ns.div_euclid(1_000_000)
    }
}

/// The state of a file when it was read: the hash decides, the metadata are for quick checks and display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub stat: FileStat,
    /// BLAKE3 of the whole file, in hexadecimal; empty if the file is too large to be changed.
    pub hash: String,
}

impl Snapshot {
    pub(super) fn new(stat: FileStat, bytes: &[u8]) -> Self {
        Self { stat, hash: hash(bytes) }
    }

    /// Whether a file still has these bytes. The file is read only if other metadata than the size changed.
    pub(super) fn still_describes(&self, path: &Path) -> bool {
        let Ok(data) = fs::symlink_metadata(path) else { return false };
        let stat = FileStat::of(&data);
        if stat == self.stat {
            return true;
        }
        data.is_file()
            && stat.size == self.stat.size
            && !self.hash.is_empty()
            && disk::open_file(path)
                .and_then(|mut file| hash_file(&mut file))
                .is_ok_and(|hash| hash == self.hash)
    }
}

/// BLAKE3 in hexadecimal.
pub(super) fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

pub(super) fn hash_file(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Lines of a file that were read but not all shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutLines {
    /// Those that were read; from the end of a large file they are negative.
    pub lines: Range<i64>,
    /// The first one that was not shown.
    pub end: i64,
}

/// The snapshots of the files that were read or written in this session.
#[derive(Debug, Default)]
pub(super) struct Snapshots {
    entries: HashMap<PathBuf, SnapshotEntry>,
    n_records: u64,
}

#[derive(Debug)]
struct SnapshotEntry {
    snapshot: Snapshot,
    shown: ShownLines,
    bytes: Option<Arc<Vec<u8>>>,
    /// The number of the record.
    number: u64,
}

/// Line ranges of the file that were shown since its bytes last changed.
#[derive(Clone, Debug, Default)]
struct ShownLines {
    /// The model wrote the file: all of it counts as shown.
    is_whole: bool,
    /// One range for each read, by its first line.
    lines: Vec<Range<u64>>,
    total: Option<u64>,
}

impl ShownLines {
    fn is_complete(&self) -> bool {
        self.is_whole || self.total.is_some_and(|total| self.first_missing() > total)
    }

    fn first_missing(&self) -> u64 {
        let after = |first: u64, lines: &Range<u64>| {
            if lines.start <= first { first.max(lines.end) } else { first }
        };
        self.lines.iter().fold(1, after)
    }
}

impl Snapshots {
    pub(super) fn record(&mut self, path: &Path, snapshot: Snapshot, bytes: Option<Vec<u8>>) {
        let bytes = bytes.filter(|bytes| bytes.len() <= MAX_KEPT).map(|mut bytes| {
            bytes.shrink_to_fit();
            Arc::new(bytes)
        });
        let known = self.entries.get(path).filter(|known| known.snapshot.hash == snapshot.hash);
        let shown = known.map(|known| known.shown.clone()).unwrap_or_default();
        self.n_records += 1;
        let entry = SnapshotEntry { snapshot, shown, bytes, number: self.n_records };
        self.entries.insert(path.to_owned(), entry);
        let mut n_kept: usize = self.entries.values().map(SnapshotEntry::n_bytes).sum();
        while n_kept > MAX_KEPT_IN_ALL
            && let Some(oldest) = self
                .entries
                .values_mut()
                .filter(|entry| entry.bytes.is_some())
                .min_by_key(|entry| entry.number)
        {
            n_kept -= oldest.n_bytes();
            oldest.bytes = None;
        }
    }

    pub(super) fn get(&self, path: &Path) -> Option<Snapshot> {
        Some(self.entries.get(path)?.snapshot.clone())
    }

    pub(super) fn bytes(&self, path: &Path) -> Option<Arc<Vec<u8>>> {
        self.entries.get(path)?.bytes.clone()
    }

    /// `total`: the number of lines of the file, if it was counted.
    pub(super) fn mark_shown(&mut self, path: &Path, lines: Range<u64>, total: Option<u64>) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.shown.lines.push(lines);
            entry.shown.lines.sort_by_key(|lines| lines.start);
            entry.shown.total = total.or(entry.shown.total);
        }
    }

    pub(super) fn mark_unshown(&mut self, path: &Path, cut: &CutLines) {
        // Lines that are counted from the end were not recorded.
        let number = |line: i64| u64::try_from(line).unwrap_or_default();
        let read = number(cut.lines.start)..number(cut.lines.end);
        if let Some(entry) = self.entries.get_mut(path)
            && let Some(shown) = entry.shown.lines.iter_mut().find(|shown| **shown == read)
        {
            shown.end = number(cut.end);
        }
    }

    /// If not `is_whole`, no line counts as shown.
    pub(super) fn set_shown(&mut self, path: &Path, is_whole: bool) {
        if let Some(entry) = self.entries.get_mut(path) {
            entry.shown = ShownLines { is_whole, ..ShownLines::default() };
        }
    }

    /// `None` if the file was not read.
    pub(super) fn is_shown(&self, path: &Path) -> Option<bool> {
        Some(self.entries.get(path)?.shown.is_complete())
    }

    pub(super) fn first_missing(&self, path: &Path) -> u64 {
        self.entries.get(path).map_or(1, |entry| entry.shown.first_missing())
    }

    pub(super) fn forget(&mut self, path: &Path) {
        self.entries.remove(path);
    }

    pub(super) fn known_snapshots(&self) -> Vec<(PathBuf, Snapshot)> {
        self.entries.iter().map(|(path, entry)| (path.clone(), entry.snapshot.clone())).collect()
    }
}

impl SnapshotEntry {
    fn n_bytes(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len())
    }
}
