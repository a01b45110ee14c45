//! Contents of files, each once, by their BLAKE3 hash, in append-only segments.
//!
//! A segment is written by one process alone, so no lock is needed. Its records are `kind (1 byte), length (8 bytes,
//! little endian), hash (32 bytes), payload`; the payload is a content, or the id of a git blob with that content.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::{Hash, Limits};
use crate::disk;

/// Segments are named `segment-<time in ms>-<process>-<number>`, so their names sort by age.
const PREFIX: &str = "segment-";
const CONTENT: u8 = 1;
const GIT_BLOB: u8 = 2;
const HEADER: usize = 1 + 8 + 32;
/// A segment that has this size is closed, and another one is begun.
const SEGMENT_BYTES: u64 = 64 * 1024 * 1024;
/// A segment that was written so recently may belong to a session that is running.
const IN_USE: Duration = Duration::from_hours(1);
/// So much is buffered before it is written.
const BUFFER: usize = 1024 * 1024;

/// The id of a blob in git's object database.
pub(super) type BlobId = [u8; 20];

/// Where a content is.
#[derive(Clone, Debug)]
enum Location {
    /// In a segment, from this offset on.
    Segment { segment: Arc<Path>, offset: u64, length: u64 },
    /// In git's object database.
    Git(BlobId),
}

/// A content that is wanted back.
pub(super) enum Found {
    Bytes(Vec<u8>),
    GitBlob(BlobId),
}

/// The contents of one project.
#[derive(Debug)]
pub(super) struct Pack {
    directory: PathBuf,
    limits: Limits,
    index: HashMap<Hash, (Location, Arc<Path>)>,
    /// The bytes of each segment.
    sizes: BTreeMap<Arc<Path>, u64>,
    writer: Option<Writer>,
    number: u32,
}

#[derive(Debug)]
struct Writer {
    path: Arc<Path>,
    file: File,
    /// Not written yet.
    buffer: Vec<u8>,
    /// Bytes in the file.
    written: u64,
}

impl Pack {
    /// Reads what is stored. Damaged or foreign files are left out; expired ones are removed.
    pub(super) fn open(directory: &Path, limits: Limits) -> Self {
        let mut pack = Self {
            directory: directory.to_owned(),
            limits,
            index: HashMap::new(),
            sizes: BTreeMap::new(),
            writer: None,
            number: 0,
        };
        let mut segments: Vec<PathBuf> = fs::read_dir(directory)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX))
            .map(|entry| entry.path())
            .collect();
        segments.sort();
        for segment in segments {
            if age(&segment).is_some_and(|age| age > limits.expire_after) {
                // What cannot be removed is tried again by the next session.
                _ = fs::remove_file(&segment);
                continue;
            }
            // A damaged segment ends where it is damaged.
            _ = pack.read_segment(segment.into());
        }
        pack
    }

    fn read_segment(&mut self, segment: Arc<Path>) -> io::Result<()> {
        let file = disk::open_file(&segment)?;
        let size = file.metadata()?.len();
        self.sizes.insert(segment.clone(), size);
        let mut reader = BufReader::with_capacity(256 * 1024, file);
        let mut offset = 0;
        while !reader.fill_buf()?.is_empty() {
            let mut header = [0; HEADER];
            reader.read_exact(&mut header)?;
            let (kind, length, hash) = parse(&header);
            offset += HEADER as u64;
            if offset.checked_add(length).is_none_or(|end| end > size) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let location = match kind {
                CONTENT => {
                    let skip = i64::try_from(length).map_err(io::Error::other)?;
                    reader.seek_relative(skip)?;
                    Location::Segment { segment: segment.clone(), offset, length }
                }
                GIT_BLOB => {
                    let mut id = BlobId::default();
                    reader.read_exact(&mut id)?;
                    Location::Git(id)
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            };
            offset += length;
            self.index.insert(hash, (location, segment.clone()));
        }
        Ok(())
    }

    pub(super) fn has(&self, hash: &Hash) -> bool {
        self.index.contains_key(hash)
    }

    /// Stores a content. `false`: there is no room.
    pub(super) fn add(&mut self, hash: Hash, bytes: &[u8]) -> io::Result<bool> {
        if self.has(&hash) {
            return Ok(true);
        }
        let total: u64 = self.sizes.values().sum();
        if total + bytes.len() as u64 > self.limits.max_bytes {
            return Ok(false);
        }
        let (segment, offset) = self.append(CONTENT, hash, bytes)?;
        let location =
            Location::Segment { segment: segment.clone(), offset, length: bytes.len() as u64 };
        self.index.insert(hash, (location, segment));
        Ok(true)
    }

    /// Remembers that git has a content.
    pub(super) fn add_git(&mut self, hash: Hash, id: BlobId) -> io::Result<()> {
        if !self.has(&hash) {
            let (segment, _) = self.append(GIT_BLOB, hash, &id)?;
            self.index.insert(hash, (Location::Git(id), segment));
        }
        Ok(())
    }

    /// The content with this hash; checked, where it comes from a segment.
    pub(super) fn get(&mut self, hash: &Hash) -> io::Result<Found> {
        self.flush()?;
        let Some((location, _)) = self.index.get(hash) else {
            return Err(io::Error::other("its content is not stored any more"));
        };
        match location {
            Location::Git(id) => Ok(Found::GitBlob(*id)),
            Location::Segment { segment, offset, length } => {
                let length = usize::try_from(*length).map_err(io::Error::other)?;
                let mut bytes = vec![0; length];
                disk::open_file(segment)?.read_exact_at(&mut bytes, *offset)?;
                if blake3::hash(&bytes) != *hash {
                    return Err(io::Error::other("its stored content is damaged"));
                }
                Ok(Found::Bytes(bytes))
            }
        }
    }

    /// Makes room by removing old segments that hold nothing of what is needed.
    pub(super) fn make_room(&mut self, needed: &HashSet<Hash>) {
        let used: HashSet<&Arc<Path>> =
            needed.iter().filter_map(|hash| Some(&self.index.get(hash)?.1)).collect();
        let is_old = |path: &Path| age(path).is_some_and(|age| age > IN_USE);
        let mut removable: Vec<Arc<Path>> = self
            .sizes
            .keys()
            .filter(|path| !used.contains(path) && is_old(path))
            .cloned()
            .collect();
        removable.reverse();
        let mut total: u64 = self.sizes.values().sum();
        // A third is free afterwards, or nothing more can be removed.
        while total > self.limits.max_bytes / 3 * 2 {
            let Some(oldest) = removable.pop() else { return };
            if fs::remove_file(&oldest).is_ok() {
                total -= self.sizes.remove(&oldest).unwrap_or(0);
                self.index.retain(|_, (_, segment)| *segment != oldest);
            }
        }
    }

    /// Writes what is buffered. A segment that was removed meanwhile is given up with all that it held.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.flush()?;
        if writer.file.metadata()?.nlink() == 0 {
            let gone = writer.path.clone();
            self.writer = None;
            self.sizes.remove(&gone);
            self.index.retain(|_, (_, segment)| *segment != gone);
            return Err(io::Error::other("the checkpoint store was removed"));
        }
        Ok(())
    }

    fn append(&mut self, kind: u8, hash: Hash, payload: &[u8]) -> io::Result<(Arc<Path>, u64)> {
        if self.writer.as_ref().is_some_and(|writer| writer.end() > SEGMENT_BYTES) {
            self.flush()?;
            self.writer = None;
        }
        if self.writer.is_none() {
            self.writer = Some(self.begin_segment()?);
        }
        let Some(writer) = &mut self.writer else { return Err(io::ErrorKind::NotFound.into()) };
        writer.buffer.push(kind);
        writer.buffer.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        writer.buffer.extend_from_slice(hash.as_bytes());
        let offset = writer.end();
        writer.buffer.extend_from_slice(payload);
        if writer.buffer.len() > BUFFER {
            writer.flush()?;
        }
        let path = writer.path.clone();
        self.sizes.insert(path.clone(), writer.end());
        Ok((path, offset))
    }

    fn begin_segment(&mut self) -> io::Result<Writer> {
        disk::make_folder(&self.directory, 0o700)?;
        self.number += 1;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let (now, process) = (now.as_millis(), std::process::id());
        let name = format!("{PREFIX}{now:015}-{process}-{}", self.number);
        let path: Arc<Path> = self.directory.join(name).into();
        let file = disk::create(&path, 0o600)?;
        Ok(Writer { path, file, buffer: Vec::new(), written: 0 })
    }
}

impl Writer {
    fn end(&self) -> u64 {
        self.written + self.buffer.len() as u64
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.write_all(&self.buffer)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }
}

impl Drop for Pack {
    fn drop(&mut self) {
        // What is lost here is stored again by the next session.
        _ = self.flush();
    }
}

fn parse(header: &[u8; HEADER]) -> (u8, u64, Hash) {
    let (mut length, mut hash) = ([0; 8], [0; 32]);
    length.copy_from_slice(&header[1..9]);
    hash.copy_from_slice(&header[9..]);
    (header[0], u64::from_le_bytes(length), Hash::from_bytes(hash))
}

/// How long ago a file was last written.
fn age(path: &Path) -> Option<Duration> {
    fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()
}
