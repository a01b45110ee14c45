//! Opening without surprises: no symlink on the way, nothing but regular files, no waiting.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};

use super::path::regular;
use super::{ProjectPath, Workspace, io_failure};
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
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = open_beneath(path.absolute(), flags, Mode::empty())
            .map(File::from)
            .map_err(|error| io_failure(&error, "open", path.relative()))?;
        let data =
            file.metadata().map_err(|error| io_failure(&error, "look at", path.relative()))?;
        regular(path, &data)?;
        Ok((file, data))
    }
}

impl Workspace {
    /// What a walk met is there, with no link on the way to it. A walk goes by names: who puts a link in
    /// the place of a folder while it is walked is not to have what lies behind the link told.
    pub fn is_still_there(&self, path: &ProjectPath) -> bool {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open_beneath(path.absolute(), flags, Mode::empty()) {
            Ok(_) => true,
            // (What we may not look at, or have no descriptor left for, is there.)
            Err(error) => {
                !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP))
            }
        }
    }
}

/// What is there, with no link on the way to it; of a link at its end what that is itself.
pub(super) fn look_at(path: &Path) -> io::Result<Metadata> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(open_beneath(path, flags, Mode::empty())?).metadata()
}

/// Opens a directory to work in it.
pub(super) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    open_beneath(path, flags, Mode::empty())
}

/// A resolved path holds no symlink; one that appeared since then is not followed.
#[cfg(target_os = "linux")]
fn open_beneath(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    match openat2(CWD, path, flags, mode, ResolveFlags::NO_SYMLINKS) {
        // Old kernels and some sandboxes do not have it.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => {
            Ok(rustix::fs::openat(CWD, path, flags, mode)?)
        }
        other => Ok(other?),
    }
}

#[cfg(not(target_os = "linux"))]
fn open_beneath(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    Ok(rustix::fs::openat(CWD, path, flags, mode)?)
}

/// Whether the operating system would let us write the file itself.
pub(super) fn is_read_only(path: &Path, data: &Metadata) -> bool {
    // The bits as well: to root nothing is denied, but the owner meant something by them.
    data.mode() & 0o222 == 0
        || rustix::fs::accessat(
            CWD,
            path,
            rustix::fs::Access::WRITE_OK,
            rustix::fs::AtFlags::EACCESS,
        )
        .is_err_and(|error| error == rustix::io::Errno::ACCESS || error == rustix::io::Errno::ROFS)
}
