//! Opening without surprises: no symlink on the way, nothing but regular files, no waiting.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, OFlags};
use rustix::io::Errno;

use super::path::regular;
use super::{Met, ProjectPath, Workspace, io_failure};
use crate::disk::without_links;
use crate::protocol::envelope::Failure;

impl Workspace {
    /// Opens a regular file to read it. What it is was looked at before.
    pub fn open_file(&self, path: &ProjectPath) -> Result<(File, Metadata), Failure> {
        regular(path, &self.metadata(path)?)?;
        Self::open_seen(path)
    }

    /// Opens a file that was just found to be a regular one.
    pub(super) fn open_seen(path: &ProjectPath) -> Result<(File, Metadata), Failure> {
        // NONBLOCK: should a FIFO take the file's place in this very moment, we do not wait for it.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let file = without_links::open(path.absolute(), flags)
            .map(File::from)
            .map_err(|error| io_failure(&error.into(), "open", path.relative()))?;
        let data =
            file.metadata().map_err(|error| io_failure(&error, "look at", path.relative()))?;
        regular(path, &data)?;
        Ok((file, data))
    }
}

/// The folder where a walk begins, held open: the way to it is gone once, not for each file below it.
#[derive(Debug)]
pub struct Base<'a> {
    path: &'a Path,
    folder: OwnedFd,
}

impl<'a> Base<'a> {
    /// Opens it.
    pub fn open(path: &'a ProjectPath) -> Result<Self, Failure> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let folder = without_links::open(path.absolute(), flags)
            .map_err(|error| io_failure(&error.into(), "open", path.relative()))?;
        Ok(Self { path: path.absolute(), folder })
    }

    /// Opens a file that a walk has just met as a regular one. Should it be something else by now, it is not waited for;
    /// whoever uses what is in it looks at what it is.
    pub fn file(&self, met: &Met<'_>) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let opened = match without_links::open_below(&self.folder, met.below(self.path), flags) {
            // Old kernels and some containers do not have it.
            Err(Errno::NOSYS | Errno::PERM) => without_links::open(met.absolute(), flags),
            opened => opened,
        };
        Ok(opened?.into())
    }

    /// When something was changed, seconds and their fractions; of a link when that was. What lies behind a link that was
    /// put on the way to it meanwhile is not told apart: see [`Workspace::is_still_there`].
    pub fn modified(&self, met: &Met<'_>) -> io::Result<(i64, i64)> {
        let inside = met.below(self.path);
        let data = rustix::fs::statat(&self.folder, inside, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok((data.st_mtime, data.st_mtime_nsec.try_into().unwrap_or(0)))
    }
}

impl Workspace {
    /// What a walk met is there, with no link on the way to it. A walk goes by names: who puts a link in
    /// the place of a folder while it is walked is not to have what lies behind the link told.
    pub fn is_still_there(&self, path: &ProjectPath) -> bool {
        match without_links::open(path.absolute(), OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(_) => true,
            // (What we may not look at, or have no descriptor left for, is there.)
            Err(error) => !matches!(error, Errno::NOENT | Errno::NOTDIR | Errno::LOOP),
        }
    }
}

/// Whether the operating system would let us write the file itself.
pub(super) fn is_read_only(path: &Path, data: &Metadata) -> bool {
    // The bits as well: to root nothing is denied, but the owner meant something by them.
    data.mode() & 0o222 == 0
        || rustix::fs::accessat(CWD, path, rustix::fs::Access::WRITE_OK, AtFlags::EACCESS)
            .is_err_and(|error| error == Errno::ACCESS || error == Errno::ROFS)
}
