//! Opens files safely: no symlinks in the path, only regular files, no blocking.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, OFlags};
use rustix::io::Errno;

use super::charset::{Charset, SNIFFED};
use super::path::check_is_regular;
use super::text::binary_failure;
use super::{ProjectPath, WalkedPath, Workspace, io_failure};
use agent_protocol::disk::nofollow;
use agent_protocol::envelope::Failure;

impl Workspace {
    /// Opens a regular file for reading; the caller has checked its type.
    pub fn open_file(&self, path: &ProjectPath) -> Result<(File, Metadata), Failure> {
        check_is_regular(path, &self.metadata(path)?)?;
        Self::open_checked(path)
    }

    /// Fails if a file cannot be opened, or if its beginning shows that it is not text.
    pub fn expect_text(&self, path: &ProjectPath) -> Result<(), Failure> {
        let (file, _) = self.open_file(path)?;
        let mut head = Vec::new();
        file.take(SNIFFED as u64)
            .read_to_end(&mut head)
            .map_err(|error| io_failure(&error, "read", path.relative()))?;
        let is_text = Charset::of_bom(&head).is_some() || !head.contains(&0);
        if is_text { Ok(()) } else { Err(binary_failure(&head, path.relative())) }
    }

    pub(super) fn open_checked(path: &ProjectPath) -> Result<(File, Metadata), Failure> {
        // NONBLOCK: does not wait if a FIFO replaced the file after the check.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = nofollow::open(path.absolute(), flags)
            .map(File::from)
            .map_err(|error| io_failure(&error.into(), "open", path.relative()))?;
        let data =
            file.metadata().map_err(|error| io_failure(&error, "look at", path.relative()))?;
        check_is_regular(path, &data)?;
        Ok((file, data))
    }

    /// Whether the path exists without a symlink, which could reveal files outside if it replaced a folder meanwhile.
    pub fn still_exists(&self, path: &ProjectPath) -> bool {
        match nofollow::open(path.absolute(), OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(_) => true,
            // A path without access, or without a free descriptor, exists.
            Err(error) => !matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP),
        }
    }
}

/// The open base folder of a walk: its path is resolved once, not for each file below it.
#[derive(Debug)]
pub struct WalkBase<'a> {
    path: &'a Path,
    folder: OwnedFd,
}

impl<'a> WalkBase<'a> {
    /// Opens the base folder.
    pub fn open(path: &'a ProjectPath) -> Result<Self, Failure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let folder = nofollow::open(path.absolute(), flags)
            .map_err(|error| io_failure(&error.into(), "open", path.relative()))?;
        Ok(Self { path: path.absolute(), folder })
    }

    /// Opens a regular file of a walk. Does not block; the caller checks the type before using the content.
    pub fn open_file(&self, entry: &WalkedPath<'_>) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let opened = match nofollow::open_below(&self.folder, entry.relative_to(self.path), flags) {
            // Old kernels and some containers lack this call.
            Err(Errno::NOSYS | Errno::PERM) => nofollow::open(entry.absolute(), flags),
            opened => opened,
        };
        Ok(opened?.into())
    }

    /// Seconds and nanoseconds; of a link itself. May be those of another file: see [`Workspace::still_exists`].
    pub fn modification_time(&self, entry: &WalkedPath<'_>) -> io::Result<(i64, i64)> {
        let inside = entry.relative_to(self.path);
        let data = rustix::fs::statat(&self.folder, inside, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((data.st_mtime, data.st_mtime_nsec.try_into().unwrap_or(0)))
    }
}

pub(super) fn is_read_only(path: &Path, data: &Metadata) -> bool {
    // The mode bits count for root too: the owner set them on purpose.
    data.mode() & 0o222 == 0
        || rustix::fs::accessat(CWD, path, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS)
            .is_err_and(|error| error == Errno::ACCESS || error == Errno::ROFS)
}
