//! The content store: file contents by BLAKE3 hash, in append-only segments.
//!
//! Only one process writes a segment, so no lock is needed. A segment has two files: the concatenated contents,
//! which are written first, and an index with one record per content: length (8 bytes, little endian), hash
//! (32 bytes), and the id of a git blob with that content (20 bytes, else zeros), which is then not in the first file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{CheckpointLimits, Hash, now};
use agent_protocol::disk;

/// Segments are named `segment-<time in ms>-<process>-<number>`, so their names sort by age.
const PREFIX: &str = "segment-";
const INDEX: &str = "index";
const RECORD: usize = 8 + 32 + 20;
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// A segment that was written this recently may belong to a running session.
const IN_USE: Duration = Duration::from_hours(1);
const BUFFER: usize = 1024 * 1024;

/// SHA-1 id of a blob in git's object database.
pub(super) type BlobId = [u8; 20];

#[derive(Clone, Debug)]
enum ContentLocation {
    Segment { offset: u64, length: u64 },
    Git(BlobId),
}

pub(super) enum StoredContent {
    Bytes(Vec<u8>),
    GitBlob(BlobId),
}

#[derive(Debug)]
pub(super) struct ContentPack {
    directory: PathBuf,
    limits: CheckpointLimits,
    index: HashMap<Hash, (ContentLocation, Arc<Path>)>,
    sizes: BTreeMap<Arc<Path>, u64>,
    /// Segments that expire soon: their contents are stored again if a manifest needs them.
    aging: HashSet<Arc<Path>>,
    writer: Option<SegmentWriter>,
    number: u32,
    /// The number of contents that could not be written, and the last error.
    pub(super) losses: (u32, String),
}

#[derive(Debug)]
struct SegmentWriter {
    path: Arc<Path>,
    contents: File,
    index: File,
    buffer: Vec<u8>,
    records: Vec<u8>,
    /// Bytes of the contents file with written records.
    written: u64,
    records_written: u64,
}

impl ContentPack {
    /// Skips damaged and foreign files; removes expired ones.
    pub(super) fn open(directory: &Path, limits: CheckpointLimits) -> Self {
        let mut pack = Self {
            directory: directory.to_owned(),
            limits,
            index: HashMap::new(),
            sizes: BTreeMap::new(),
            aging: HashSet::new(),
            writer: None,
            number: 0,
            losses: (0, String::new()),
        };
        let mut segments: Vec<PathBuf> = fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_none())
            .collect();
        segments.sort();
        for segment in segments {
            if age(&segment).is_some_and(|age| age > limits.expire_after) {
                // The next session retries.
                _ = remove_segment(&segment);
                continue;
            }
            let segment: Arc<Path> = segment.into();
            if age(&segment).is_some_and(|age| age > limits.expire_after / 2) {
                pack.aging.insert(segment.clone());
            }
            // An unreadable index counts as empty.
            _ = pack.read_index(&segment);
        }
        pack
    }

    fn read_index(&mut self, segment: &Arc<Path>) -> io::Result<()> {
        let index = disk::read_file(&segment.with_extension(INDEX))?;
        let size = fs::metadata(segment)?.len();
        self.sizes.insert(segment.clone(), size);
        let mut offset = 0_u64;
        for record in index.as_chunks::<RECORD>().0 {
            let (length, hash, blob) = parse_record(record);
            let location = if blob == BlobId::default() {
                let begin = offset;
                offset = offset.saturating_add(length);
                ContentLocation::Segment { offset: begin, length }
            } else {
                ContentLocation::Git(blob)
            };
            if offset > size {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.index.insert(hash, (location, segment.clone()));
        }
        Ok(())
    }

    pub(super) fn has(&self, hash: &Hash) -> bool {
        self.index.contains_key(hash)
    }

    /// False for a content that is about to expire.
    pub(super) fn has_fresh(&self, hash: &Hash) -> bool {
        self.index.get(hash).is_some_and(|(_, segment)| !self.aging.contains(segment))
    }

    /// Only for a content in a segment; in bytes.
    pub(super) fn size(&self, hash: &Hash) -> Option<u64> {
        match self.index.get(hash)?.0 {
            ContentLocation::Segment { length, .. } => Some(length),
            ContentLocation::Git(_) => None,
        }
    }

    pub(super) fn forget_removed(&mut self) {
        let removed: HashSet<Arc<Path>> =
            self.sizes.keys().filter(|segment| !segment.exists()).cloned().collect();
        if removed.is_empty() {
            return;
        }
        self.writer.take_if(|writer| removed.contains(&writer.path));
        self.sizes.retain(|segment, _| !removed.contains(segment));
        self.index.retain(|_, (_, segment)| !removed.contains(segment));
    }

    /// Returns `false` without space.
    pub(super) fn add(&mut self, hash: Hash, bytes: &[u8]) -> io::Result<bool> {
        if self.has_fresh(&hash) {
            return Ok(true);
        }
        let total: u64 = self.sizes.values().sum();
        if total + bytes.len() as u64 > self.limits.max_bytes {
            // The aging segments have to suffice as long as they exist.
            self.aging.clear();
            return Ok(self.has(&hash));
        }
        let (segment, offset) = self.append(hash, BlobId::default(), bytes)?;
        let location = ContentLocation::Segment { offset, length: bytes.len() as u64 };
        self.index.insert(hash, (location, segment));
        Ok(true)
    }

    pub(super) fn add_git(&mut self, hash: Hash, id: BlobId) -> io::Result<()> {
        if !self.has_fresh(&hash) {
            let (segment, _) = self.append(hash, id, &[])?;
            self.index.insert(hash, (ContentLocation::Git(id), segment));
        }
        Ok(())
    }

    pub(super) fn get(&mut self, hash: &Hash) -> io::Result<StoredContent> {
        self.flush()?;
        let Some((location, segment)) = self.index.get(hash) else {
            return Err(io::Error::other("its content is not stored any more"));
        };
        match location {
            ContentLocation::Git(id) => Ok(StoredContent::GitBlob(*id)),
            ContentLocation::Segment { offset, length } => {
                let length = usize::try_from(*length).map_err(io::Error::other)?;
                let mut bytes = vec![0; length];
                disk::open_file(segment)?.read_exact_at(&mut bytes, *offset)?;
                if blake3::hash(&bytes) != *hash {
                    return Err(io::Error::other("its stored content is damaged"));
                }
                Ok(StoredContent::Bytes(bytes))
            }
        }
    }

    /// Removes old segments, first those without needed contents; the others are stored again.
    pub(super) fn make_room(&mut self, needed: &HashSet<Hash>) {
        let used: HashSet<&Arc<Path>> =
            needed.iter().filter_map(|hash| Some(&self.index.get(hash)?.1)).collect();
        let is_old = |path: &Path| age(path).is_some_and(|age| age > IN_USE);
        let mut removable: Vec<Arc<Path>> =
            self.sizes.keys().filter(|path| is_old(path)).cloned().collect();
        removable.sort_by_key(|path| used.contains(path));
        removable.reverse();
        let mut total: u64 = self.sizes.values().sum();
        // The loop ends when a third is free, or nothing more can be removed.
        while total > self.limits.max_bytes / 3 * 2 {
            let Some(oldest) = removable.pop() else { return };
            if remove_segment(&oldest).is_ok() {
                total -= self.sizes.remove(&oldest).unwrap_or(0);
                self.index.retain(|_, (_, segment)| *segment != oldest);
            }
        }
    }

    /// Drops a segment that was removed meanwhile, with its contents.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let written = writer.flush().and_then(|()| match writer.contents.metadata()?.nlink() {
            0 => Err(io::Error::other("the checkpoint store was removed")),
            _ => Ok(()),
        });
        if let Err(error) = &written {
            self.losses = (self.losses.0 + 1, error.to_string());
            // Only complete writes count; the next content starts a new segment.
            let (path, end) = (writer.path.clone(), writer.written);
            _ = writer.contents.set_len(end);
            _ = writer.index.set_len(writer.records_written);
            let is_gone = !path.exists();
            self.writer = None;
            self.sizes.insert(path.clone(), end);
            self.index.retain(|_, (location, segment)| match location {
                _ if *segment != path => true,
                ContentLocation::Segment { offset, length, .. } => {
                    !is_gone && *offset < end && *offset + *length <= end
                }
                ContentLocation::Git(_) => false,
            });
        }
        written
    }

    fn append(&mut self, hash: Hash, blob: BlobId, bytes: &[u8]) -> io::Result<(Arc<Path>, u64)> {
        if self.writer.as_ref().is_some_and(|writer| writer.end() > SEGMENT_BYTES) {
            self.flush()?;
            self.writer = None;
        }
        if self.writer.is_none() {
            self.writer = Some(self.begin_segment()?);
        }
        let Some(writer) = &mut self.writer else { return Err(io::ErrorKind::NotFound.into()) };
        writer.records.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        writer.records.extend_from_slice(hash.as_bytes());
        writer.records.extend_from_slice(&blob);
        let offset = writer.end();
        writer.buffer.extend_from_slice(bytes);
        let (path, end, is_full) =
            (writer.path.clone(), writer.end(), writer.buffer.len() > BUFFER);
        self.sizes.insert(path.clone(), end);
        if is_full {
            self.flush()?;
        }
        Ok((path, offset))
    }

    fn begin_segment(&mut self) -> io::Result<SegmentWriter> {
        disk::create_folder_all(&self.directory, 0o700)?;
        self.number += 1;
        let (now, process) = (now().as_millis(), std::process::id());
        let name = format!("{PREFIX}{now:015}-{process}-{}", self.number);
        let path: Arc<Path> = self.directory.join(name).into();
        let contents = disk::create_file(&path, 0o600)?;
        let index = disk::create_file(&path.with_extension(INDEX), 0o600)?;
        let (buffer, records) = (Vec::new(), Vec::new());
        Ok(SegmentWriter { path, contents, index, buffer, records, written: 0, records_written: 0 })
    }
}

impl SegmentWriter {
    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn flush(&mut self) -> io::Result<()> {
        self.contents.write_all(&self.buffer)?;
        self.index.write_all(&self.records)?;
        self.written += self.buffer.len() as u64;
        self.records_written += self.records.len() as u64;
        self.buffer.clear();
        self.records.clear();
        Ok(())
    }
}

impl Drop for ContentPack {
    fn drop(&mut self) {
        // The next session stores lost contents again.
        _ = self.flush();
    }
}

fn parse_record(record: &[u8; RECORD]) -> (u64, Hash, BlobId) {
    let (mut length, mut hash, mut blob) = ([0; 8], [0; 32], BlobId::default());
    length.copy_from_slice(&record[..8]);
    hash.copy_from_slice(&record[8..40]);
    blob.copy_from_slice(&record[40..]);
    (u64::from_le_bytes(length), Hash::from_bytes(hash), blob)
}

fn remove_segment(segment: &Path) -> io::Result<()> {
    _ = fs::remove_file(segment.with_extension(INDEX));
    fs::remove_file(segment)
}

fn age(path: &Path) -> Option<Duration> {
    fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()
}
