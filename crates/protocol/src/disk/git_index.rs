//! The index of a git repository (`gitformat-index(5)`).

use std::path::Path;

use super::{is_missing, read_small};

/// The type of an entry that names a commit of another repository, and the bits of a type in a mode.
const SUBMODULE_MODE: u32 = 0o160_000;
const TYPE_BITS: u32 = 0o170_000;
const DIRECTORY_MODE: u32 = 0o040_000;

/// A larger index is not read.
const MAX_INDEX_BYTES: u64 = 1 << 28;

/// An entry as it is in the index.
pub struct IndexEntry<'a> {
    /// From the top of the working tree.
    pub name: &'a [u8],
    pub mode: u32,
    pub id: [u8; 20],
    /// Modulo 2³².
    pub size: u32,
    /// Seconds and nanoseconds (0: not recorded), both modulo 2³².
    pub mtime: (u32, u32),
    pub flags: u16,
}

impl IndexEntry<'_> {
    /// Whether it names a commit of another repository.
    pub fn is_submodule(&self) -> bool {
        self.mode & TYPE_BITS == SUBMODULE_MODE
    }
}

/// Reads the index of a repository; a missing one has no entries. `None` if not all of it can be read: it is split or sparse, or
/// has other object ids.
pub fn read(path: &Path, each: impl FnMut(IndexEntry<'_>)) -> Option<()> {
    match read_small(path, MAX_INDEX_BYTES) {
        Ok(bytes) => parse(&bytes, each),
        Err(error) => is_missing(&error).then_some(()),
    }
}

/// Like [`read`], of its bytes.
pub fn parse(bytes: &[u8], mut each: impl FnMut(IndexEntry<'_>)) -> Option<()> {
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
        let id = bytes.get(at + 40..at + 60)?.try_into().ok()?;
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
        let end = at + bytes.get(at..)?.iter().position(|byte| *byte == 0)?;
        name.extend_from_slice(&bytes[at..end]);
        // For a longer name the flags have only the maximum.
        let recorded_length = usize::from(flags & 0xfff);
        if recorded_length != name.len().min(0xfff) {
            return None;
        }
        // A sparse index has a directory in place of what is in it.
        if mode & TYPE_BITS == DIRECTORY_MODE {
            return None;
        }
        at = if version == 4 { end + 1 } else { begin + (end - begin + 8) / 8 * 8 };
        each(IndexEntry { name: &name, mode, id, size, mtime, flags });
    }
    // Extensions, and a checksum. Without one whose name begins in lower case, the index cannot be understood. By a table of
    // offsets git may read other entries.
    while at + CHECKSUM < bytes.len() {
        let length = usize::try_from(number(at + 4)?).ok()?;
        let name = bytes.get(at..at + 4)?;
        if name[0].is_ascii_lowercase() || name == b"IEOT" {
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
