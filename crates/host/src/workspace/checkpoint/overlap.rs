//! Detects operations of different sessions that ran at the same time.
//!
//! A running operation holds a shared lock on a file of the store. One that began earlier holds it when this one begins;
//! one that began later has appended a byte when this one ends.

use std::fs::File;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};

use agent_protocol::disk;

const FILE: &str = "operations.lock";

#[derive(Debug)]
pub(super) struct OverlapDetector {
    path: PathBuf,
}

/// Without a file, overlaps are not detected.
pub(super) struct OperationLock(Option<(File, u64, bool)>);

impl OverlapDetector {
    pub(super) fn new(store: &Path) -> Self {
        Self { path: store.join(FILE) }
    }

    pub(super) fn open(&self) -> std::io::Result<File> {
        if let Some(store) = self.path.parent() {
            disk::create_folder_all(store, 0o700)?;
        }
        disk::open_for_append(&self.path, true)
    }

    pub(super) fn begin(&self) -> OperationLock {
        let begin = || {
            let mut file = self.open()?;
            // In this order, each of two operations that begin at the same time sees the lock or the byte of the other.
            fcntl(&file, FcntlArg::F_OFD_SETLK(&lock(libc::F_RDLCK)))?;
            file.write_all(b".")?;
            let length = file.stream_position()?;
            let is_shared = has_others(&file)?;
            Ok::<_, std::io::Error>((file, length, is_shared))
        };
        OperationLock(begin().ok())
    }
}

impl OperationLock {
    /// True if another operation ran at the same time.
    pub(super) fn end(self) -> bool {
        let Some((file, length, is_shared)) = self.0 else { return false };
        is_shared || file.metadata().is_ok_and(|data| data.len() != length)
    }
}

fn has_others(file: &File) -> std::io::Result<bool> {
    let mut found = lock(libc::F_WRLCK);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}

fn lock(kind: i32) -> libc::flock {
    let [kind, whence] = [kind, libc::SEEK_SET].map(|value| i16::try_from(value).unwrap_or(0));
    libc::flock { l_type: kind, l_whence: whence, l_start: 0, l_len: 1, l_pid: 0 }
}
