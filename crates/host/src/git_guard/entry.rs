//! One entry of a directory: its content as it was, and how it is restored. Commands can write there, so no link is followed.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{ContentKeeper, GuardReport};
use agent_protocol::disk;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

/// Device, inode and time of birth (0 where the file system has none): an inode is used again after its file was deleted.
pub(super) type FileId = (u64, u64, (i64, u32));

/// The directory of this name, if it is one. The folder itself: an empty name.
pub(super) fn folder_id(folder: impl AsFd, name: &OsStr) -> Option<FileId> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
    let stat = rustix::fs::statat(&folder, name, flags).ok()?;
    let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    let born = || rustix::fs::statx(&folder, name, flags, StatxFlags::BTIME).ok();
    let born = born().filter(|it| it.stx_mask & StatxFlags::BTIME.bits() != 0);
    let born = born.map_or((0, 0), |it| (it.stx_btime.tv_sec, it.stx_btime.tv_nsec));
    is_folder.then_some((stat.st_dev, stat.st_ino, born))
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    Missing,
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Link(PathBuf),
    Directory(FileId),
    /// A device, a pipe, a socket, or a file that is too large or cannot be read: inode, size, and times of changes; or the
    /// hash of a file.
    Other([i64; 4]),
}

impl EntryState {
    pub(super) fn read(folder: &OwnedFd, name: &OsStr) -> Self {
        let stat = match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Self::Missing,
            Err(_) => return Self::Other([0; 4]),
        };
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let other =
            || Self::Other([number(stat.st_ino), stat.st_size, stat.st_mtime, stat.st_ctime]);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => match read_file(folder, name) {
                Ok(bytes) => Self::File { bytes, mode: stat.st_mode & 0o7777 },
                Err(_) => other(),
            },
            FileType::Symlink => match rustix::fs::readlinkat(folder, name, Vec::new()) {
                Ok(target) => Self::Link(OsStr::from_bytes(target.as_bytes()).into()),
                Err(_) => other(),
            },
            // Git takes one that cannot be searched for none.
            FileType::Directory if stat.st_mode & 0o100 != 0 => {
                folder_id(folder, name).map_or_else(other, Self::Directory)
            }
            _ => other(),
        }
    }

    pub(super) fn folder_id(&self) -> Option<FileId> {
        match self {
            Self::Directory(id) => Some(*id),
            _ => None,
        }
    }

    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::File { bytes, .. } => Some(bytes),
            _ => None,
        }
    }

    /// A file with its hash only.
    pub(super) fn without_content(self) -> Self {
        let Self::File { bytes, mode } = &self else { return self };
        let hash = blake3::Hasher::new().update(bytes).update(&mode.to_le_bytes()).finalize();
        let (words, _) = hash.as_bytes().as_chunks::<8>();
        let mut words = words.iter().map(|word| i64::from_le_bytes(*word));
        Self::Other(std::array::from_fn(|_| words.next().unwrap_or_default()))
    }

    /// Puts this state in place of what is there. A directory that is in the way, and all in place of a state that is not
    /// known, is renamed.
    pub(super) fn restore(&self, folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_unknown = matches!(self, Self::Directory(_) | Self::Other(_));
        let is_moved = |mode| is_unknown || FileType::from_raw_mode(mode) == FileType::Directory;
        if stat.is_ok_and(|it| is_moved(it.st_mode)) {
            move_aside(folder, name)?;
        }
        let temporary = format!("agent-restored-{}", uuid::Uuid::now_v7());
        let remove = |name: &str| _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
        match self {
            Self::File { bytes, mode } => {
                let mut file = disk::create_file_in(folder, &temporary)?;
                file.write_all(bytes).inspect_err(|_| remove(&temporary))?;
                rustix::fs::fchmod(&file, Mode::from_raw_mode(*mode))?;
            }
            Self::Link(target) => rustix::fs::symlinkat(target, folder, temporary.as_str())?,
            Self::Missing => match rustix::fs::unlinkat(folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => return Ok(()),
                Err(error) => return Err(error.into()),
            },
            Self::Directory(_) | Self::Other(_) => {
                let why = "its earlier content is not known; what took its place was renamed to `agent-replaced-…`";
                return Err(io::Error::other(why));
            }
        }
        let renamed = rustix::fs::renameat(folder, temporary.as_str(), folder, name);
        Ok(renamed.inspect_err(|_| remove(&temporary))?)
    }
}

/// Restores an entry that was changed from `before` to `now`, keeps its content, and reports it.
pub(super) fn revert(
    (folder, name): (&OwnedFd, &OsStr),
    path: &Path,
    (before, now): (&EntryState, &EntryState),
    why: &str,
    (keep, report): (&ContentKeeper, &mut GuardReport),
) {
    let kept = now.bytes().filter(|bytes| !bytes.is_empty());
    let kept = kept.and_then(|bytes| keep(&name.to_string_lossy(), bytes));
    let path = path.display();
    match restore_as_owner(before, folder, name) {
        Ok(()) => {
            let kept = kept.map(|name| format!(" (its content is in {name})")).unwrap_or_default();
            report.notices.push(format!("{path} {why}: it was reverted{kept}"));
        }
        Err(error) => report.failures.push(format!(
            "{path} {why}, and it could not be reverted ({}): do not run git here before the user repaired it",
            disk::in_words(&error)
        )),
    }
}

/// Its own user may have made the folder read-only. On a full disk, what must not stay makes room, and is gone in any case.
fn restore_as_owner(before: &EntryState, folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match before.restore(folder, name).map_err(|error| (error.kind(), error)) {
        Err((io::ErrorKind::PermissionDenied, _)) => {}
        Err((io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded, _)) => {
            EntryState::Missing.restore(folder, name)?;
            return before.restore(folder, name);
        }
        outcome => return outcome.map_err(|(_, error)| error),
    }
    let mode = Mode::from_raw_mode(rustix::fs::fstat(folder)?.st_mode & 0o7777);
    rustix::fs::fchmod(folder, mode | Mode::RWXU)?;
    let outcome = before.restore(folder, name);
    rustix::fs::fchmod(folder, mode)?;
    outcome
}

/// Directories that could not be read, and were made readable, until a guard reports them.
pub(super) static REOPENED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Whether this is a directory that its owner cannot read or search.
pub(super) fn is_closed(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|it| it.is_dir() && it.mode() & 0o500 != 0o500)
}

/// Opens a directory without following links. Without the right to read it git uses it, so its owner gets this right.
pub(super) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let is_closed = |error: &io::Error| {
        let mode = path.symlink_metadata().map_or(0, |it| it.mode());
        error.kind() == io::ErrorKind::PermissionDenied && mode & 0o100 != 0
    };
    disk::open_folder(path).or_else(|error| {
        if !is_closed(&error) {
            return Err(error);
        }
        reopen(path)?;
        disk::open_folder(path)
    })
}

/// Lets the owner read and search a directory. A link in its place is not followed.
pub(super) fn reopen(path: &Path) -> io::Result<()> {
    let opened = disk::open_without_links(path, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&opened)?.st_mode & 0o7777 | 0o700);
    rustix::fs::chmod(disk::descriptor_path(&opened), mode)?;
    REOPENED.lock().push(path.to_owned());
    Ok(())
}

/// The entries of a directory that is not a link.
pub(super) fn read_folder(path: &Path) -> impl Iterator<Item = fs::DirEntry> {
    let denied = |_| open_folder(path).and_then(|_| fs::read_dir(path));
    fs::read_dir(path).or_else(denied).into_iter().flatten().flatten()
}

pub(super) fn move_aside(folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let to = format!("agent-replaced-{}", uuid::Uuid::now_v7());
    Ok(rustix::fs::renameat(folder, name, folder, to)?)
}

fn read_file(folder: &OwnedFd, name: &OsStr) -> io::Result<Vec<u8>> {
    // NONBLOCK: a pipe may have taken its place.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    let mut bytes = Vec::new();
    let limit = disk::SMALL_FILE_LIMIT;
    if !file.metadata()?.is_file() || file.take(limit + 1).read_to_end(&mut bytes)? as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// The names in an open directory.
pub(super) fn list_names(folder: &OwnedFd) -> Vec<std::ffi::OsString> {
    let Ok(entries) = rustix::fs::Dir::read_from(folder) else { return Vec::new() };
    let names =
        entries.flatten().map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
    names.filter(|name| name != "." && name != "..").collect()
}
