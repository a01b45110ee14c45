//! Opening what others may have put something else in the place of: no symlink on the way, nothing but regular
//! files, no waiting, a limit.
//!
//! A project is written by its commands, and by whoever made the repository. What the agent itself keeps below it
//! is opened with no link on the way ([`open`], [`make_folder`], [`create`], [`append`]); what is read of it before
//! a person has seen it, by [`read_small`].

pub(crate) mod without_links;

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// A file that says where something is, or what is wanted, has fewer bytes than this.
pub(crate) const SMALL: u64 = 4 << 20;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens with no symlink on the way and none at the end.
pub(crate) fn open(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    Ok(without_links::open_to_make(path, flags | OFlags::NOFOLLOW, mode)?)
}

/// What is there, with no link on the way to it; of a link at its end what that is itself.
pub(crate) fn look_at(path: &Path) -> io::Result<Metadata> {
    File::from(open(path, OFlags::PATH, Mode::empty())?).metadata()
}

/// Opens a directory to work in it.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    open(path, FOLDER, Mode::empty())
}

/// Opens a directory, which is made with its parents where it is not there.
pub(crate) fn make_folder(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    match open_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other.map_err(|error| named(error, path)),
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let parent = make_folder(parent, mode)?;
    match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode)) {
        // (Somebody else may have been quicker.)
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let folder = rustix::fs::openat(&parent, name, FOLDER, Mode::empty());
    folder.map_err(|error| named(error.into(), path))
}

/// Removes a directory with all that is in it; what a link on the way leads to is not the agent's.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let parent = open_folder(parent)?;
    fs::remove_dir_all(Path::new(&format!("/proc/self/fd/{}", parent.as_raw_fd())).join(name))
}

/// A link in the way says where.
fn named(error: io::Error, path: &Path) -> io::Error {
    let is_link = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink());
    match path.ancestors().find(is_link) {
        Some(link) => io::Error::new(error.kind(), format!("{} is a link", link.display())),
        None => error,
    }
}

/// Makes a file in an open folder, where there is nothing of this name yet: no link either.
pub(crate) fn create_in(folder: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?.into())
}

/// The same by its path, with these permissions.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
    Ok(open(path, flags, Mode::from_raw_mode(mode))?.into())
}

/// Opens a regular file to write it anew, which is made where it is not there.
pub(crate) fn make_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
    match open(path, flags, Mode::from_raw_mode(0o666)) {
        Ok(file) => Ok(file.into()),
        Err(error) => Err(named(error, path)),
    }
}

/// Opens a regular file of the agent's own to write behind its end, and to read; `makes`: it is made where it is
/// not there.
pub(crate) fn append(path: &Path, makes: bool) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK;
    let file = if makes {
        open(path, flags | OFlags::CREATE, Mode::from_raw_mode(0o600))
    } else {
        open(path, flags, Mode::empty())
    };
    regular(file?.into())
}

/// Opens a regular file of the agent's own to read it.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    // NONBLOCK: a FIFO is not waited for.
    regular(open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?.into())
}

/// All of a file of the agent's own.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts these bytes in the place of a file of the agent's own, or of a link that somebody made there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let folder = open_folder(parent)?;
    match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    io::Write::write_all(&mut create_in(&folder, &name.to_string_lossy())?, bytes)
}

/// The bytes of a regular file with at most `limit` bytes, wherever a link leads to it: of a FIFO, a device and what
/// never ends nothing is read, and nobody waits for it.
pub(crate) fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // To open a device may do something: what it is, is looked at first, and again when it is open.
    if !fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    at_most(regular(rustix::fs::openat(CWD, path, flags, Mode::empty())?.into())?, limit)
}

fn at_most(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("has more than {limit} bytes; make it shorter")));
    }
    Ok(bytes)
}

/// The same as text.
pub(crate) fn read_small_text(path: &Path) -> io::Result<String> {
    text(read_small(path, SMALL)?)
}

/// The same where no link leads to it.
pub(crate) fn read_small_text_without_links(path: &Path) -> io::Result<String> {
    text(at_most(open_file(path)?, SMALL)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is no UTF-8 text"))
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}

fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "is no regular file; take it away")
}

/// The path with everything that exists of it resolved.
pub(crate) fn canonical_prefix(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (fs::canonicalize(ancestor), path.strip_prefix(ancestor)) {
            // Joined with nothing it would end in a slash.
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}
