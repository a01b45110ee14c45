//! A file beside its target, in a folder that is held open and locked against agents of our own.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{Advice, AtFlags, FlockOperation, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::super::snapshot::hash_of;
use super::super::sweep::temporary;
use super::{New, writers};
use crate::disk;

/// Another agent's change takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// A file of this size is looked at twice in no time.
const SMALL: u64 = 256 * 1024;
/// So much is handed to the disk at once.
const PIECE: usize = 8 * 1024 * 1024;
/// Times of change are that coarse, where they have fractions of a second (the kernel's clock ticks every
/// few milliseconds), and where they have none (FAT).
const TICK: Duration = Duration::from_millis(100);
const COARSE_TICK: Duration = Duration::from_secs(2);

/// The target's folder, open and locked, and the target's name in it.
pub(super) struct Beside {
    folder: OwnedFd,
    target: OsString,
}

/// A file of ours beside the target. It is removed when it is dropped, unless it was kept.
pub(super) struct Temporary<'a> {
    folder: &'a OwnedFd,
    name: OsString,
    state: State,
    pub(super) file: File,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// What lies under the name may be removed.
    Removable,
    /// It is not ours to remove.
    Kept,
    /// Nothing lies there any more.
    Gone,
}

/// What lies under the temporary name: which file, and the hash of its bytes if it is a regular one
/// that nobody is writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) identity: (u64, u64),
    pub(super) hash: Option<String>,
}

/// What somebody did to the file that we wrote, while it was in the target's place.
pub(super) enum WrittenInto {
    /// These bytes stand behind ours.
    Appended(Vec<u8>),
    /// It is shorter: it was emptied and written anew.
    Replaced,
    /// Something else.
    Changed,
}

impl Beside {
    pub(super) fn open(target: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let folder = disk::open_folder(parent)?;
        let until = Instant::now() + PATIENCE;
        // A file system without locks is used without.
        while rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)
            == Err(Errno::WOULDBLOCK)
        {
            if Instant::now() > until {
                return Err(io::Error::other("another agent holds the lock of its folder"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(Self { folder, target: name.to_owned() })
    }

    /// Writes the bytes beside the target and syncs them; as far as permitted with the owner, mode
    /// and extended attributes of the file that it is to replace. By the hashes of the old file and of
    /// the new one who finds the temporary file after a crash knows whose it is.
    pub(super) fn write(
        &self,
        new: &New<'_>,
        old_hash: &str,
        like: Option<(&File, &Metadata)>,
    ) -> io::Result<Temporary<'_>> {
        let mode = Mode::from_raw_mode(if like.is_some() { 0o600 } else { 0o666 });
        let finish = |file: &mut File| -> io::Result<()> {
            write_early(file, new)?;
            if let Some((old, data)) = like {
                imitate(file, old, data)?;
            }
            file.sync_all()
        };
        // Without a name until it is whole: killed before, it is gone.
        if let Some(mut file) = self.unnamed(mode) {
            finish(&mut file)?;
            let hashes = (old_hash, new.hash());
            if let Ok(temporary) = self.named(hashes, |name| link(&file, &self.folder, name)) {
                return Ok(temporary);
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let open = |name: &OsStr| rustix::fs::openat(&self.folder, name, flags, mode);
        let hashes = (old_hash, new.hash());
        let mut temporary = self.named(hashes, |name| open(name).map(File::from))?;
        finish(&mut temporary.file)?;
        Ok(temporary)
    }

    /// A file that has no name; nothing where the file system has no such files.
    #[cfg(target_os = "linux")]
    fn unnamed(&self, mode: Mode) -> Option<File> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        rustix::fs::openat(&self.folder, ".", flags, mode).ok().map(File::from)
    }

    #[cfg(not(target_os = "linux"))]
    fn unnamed(&self, _: Mode) -> Option<File> {
        None
    }

    /// The first name that is free for what is made under it.
    fn named(
        &self,
        (old, new): (&str, &str),
        make: impl Fn(&OsStr) -> Result<File, Errno>,
    ) -> io::Result<Temporary<'_>> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(temporary::name(std::process::id(), number, old, new));
            match make(&name) {
                Ok(file) => {
                    let folder = &self.folder;
                    return Ok(Temporary { folder, name, state: State::Removable, file });
                }
                // Left by a process with our number that is long dead.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Swaps the target with what lies under the temporary name; false where the file system (or
    /// the kernel) cannot.
    #[cfg(target_os = "linux")]
    pub(super) fn exchange(&self, with: &Temporary<'_>) -> io::Result<bool> {
        match self.rename(with, rustix::fs::RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn exchange(&self, _with: &Temporary<'_>) -> io::Result<bool> {
        Ok(false)
    }

    /// Replaces the target, whatever it is.
    pub(super) fn rename_over(&self, new: &mut Temporary<'_>) -> io::Result<()> {
        rustix::fs::renameat(&self.folder, &new.name, &self.folder, &self.target)?;
        new.state = State::Gone;
        Ok(())
    }

    /// Gives the file the target's name, if nothing has it.
    pub(super) fn place(&self, new: &mut Temporary<'_>) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        match self.rename(new, rustix::fs::RenameFlags::NOREPLACE) {
            Ok(()) => {
                new.state = State::Gone;
                return Ok(());
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        let none = AtFlags::empty();
        rustix::fs::linkat(&self.folder, &new.name, &self.folder, &self.target, none)?;
        new.give_up();
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn rename(&self, from: &Temporary<'_>, flags: rustix::fs::RenameFlags) -> Result<(), Errno> {
        rustix::fs::renameat_with(&self.folder, &from.name, &self.folder, &self.target, flags)
    }

    /// What lies under the temporary name, once what was begun there has been done: a program that
    /// opened it before it came into our hands may write to it only now, and is waited for until then.
    pub(super) fn look(&self, at: &Temporary<'_>, until: Instant) -> io::Result<Held> {
        // To make the change of names last takes as long as it takes others to go on. (To look at a large
        // file takes as long.)
        let stat = rustix::fs::statat(&self.folder, &at.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_large = u64::try_from(stat.st_size).is_ok_and(|size| size > SMALL);
        let (held, data) = std::thread::scope(|scope| {
            let meanwhile = std::thread::Builder::new();
            let synced = is_large && meanwhile.spawn_scoped(scope, || self.sync()).is_ok();
            let seen = self.glance(at);
            if !synced {
                self.sync();
            }
            seen
        })?;
        let Some(data) = data else { return Ok(held) };
        let mut is_written = writers::has_any(&at.name, &data, &at.file);
        while is_written && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
            is_written = writers::has_any(&at.name, &data, &at.file);
        }
        if is_written {
            return Ok(Held { hash: None, ..held });
        }
        let after = rustix::fs::statat(&self.folder, &at.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_untouched = i128::from(data.len()) == i128::from(after.st_size)
            && (data.mtime(), i128::from(data.mtime_nsec()))
                == (after.st_mtime, i128::from(after.st_mtime_nsec));
        let tick = if data.mtime_nsec() == 0 { COARSE_TICK } else { TICK };
        let is_old = data
            .modified()
            .is_ok_and(|time| SystemTime::now().duration_since(time).is_ok_and(|age| age > tick));
        if data.len() > SMALL && is_untouched && is_old {
            return Ok(held);
        }
        Ok(self.glance(at)?.0)
    }

    fn glance(&self, at: &Temporary<'_>) -> io::Result<(Held, Option<Metadata>)> {
        let stat = rustix::fs::statat(&self.folder, &at.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_file =
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile;
        if !is_file {
            return Ok((Held { identity: (stat.st_dev, stat.st_ino), hash: None }, None));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file =
            File::from(rustix::fs::openat(&self.folder, &at.name, flags, Mode::empty())?);
        let data = file.metadata()?;
        let hash = hash_of(&mut file, &AtomicBool::new(false))?;
        Ok((Held { identity: (data.dev(), data.ino()), hash: Some(hash) }, Some(data)))
    }

    /// Writes behind the target's bytes what somebody wrote behind ours.
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let flags = flags | OFlags::CLOEXEC;
        let target = rustix::fs::openat(&self.folder, &self.target, flags, Mode::empty())?;
        File::from(target).write_all(bytes)
    }

    /// Makes the change of names last.
    pub(super) fn sync(&self) {
        // The change is made; a file system that cannot sync a folder is no reason to deny it.
        let _ = rustix::fs::fsync(&self.folder);
    }
}

impl Temporary<'_> {
    /// What lies under the name is not ours to remove.
    pub(super) fn keep(&mut self) {
        self.state = State::Kept;
    }

    /// Removes what lies under the name.
    pub(super) fn give_up(&mut self) {
        let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        self.state = State::Gone;
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state == State::Gone
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    /// What became of the file that we wrote, wherever it lies now.
    pub(super) fn written_into(&mut self, new: &New<'_>) -> io::Result<WrittenInto> {
        if self.file.metadata()?.len() < new.len() as u64 {
            return Ok(WrittenInto::Replaced);
        }
        let mut now = Vec::with_capacity(new.len());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut now)?;
        let more = new.pieces.iter().try_fold(&*now, |rest, piece| rest.strip_prefix(*piece));
        Ok(match more {
            Some(more) => WrittenInto::Appended(more.to_owned()),
            None => WrittenInto::Changed,
        })
    }

    /// Which file it is that we wrote, wherever it lies now.
    pub(super) fn identity(&self) -> Option<(u64, u64)> {
        self.file.metadata().ok().map(|data| (data.dev(), data.ino()))
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.state == State::Removable {
            self.give_up();
        }
    }
}

/// Writes all of it. Of much, the disk gets each piece while the next one is copied, and the hash is made
/// meanwhile.
fn write_early(file: &mut File, new: &New<'_>) -> io::Result<()> {
    if new.len() <= PIECE {
        return new.pieces.iter().try_for_each(|piece| file.write_all(piece));
    }
    std::thread::scope(|scope| {
        // Where no thread can be started it is made later.
        _ = std::thread::Builder::new().spawn_scoped(scope, || _ = new.hash());
        let mut at = 0;
        for piece in new.pieces.iter().flat_map(|piece| piece.chunks(PIECE)) {
            file.write_all(piece)?;
            // What will not be needed soon is written at once; a file system may ignore it.
            let length = NonZeroU64::new(piece.len() as u64);
            _ = rustix::fs::fadvise(&*file, at, length, Advice::DontNeed);
            at += piece.len() as u64;
        }
        Ok(())
    })
}

/// Gives a file that has no name this one.
fn link(file: &File, folder: &OwnedFd, name: &OsStr) -> Result<File, Errno> {
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(rustix::fs::CWD, opened, folder, name, AtFlags::SYMLINK_FOLLOW)?;
    file.try_clone().map_err(|_| Errno::MFILE)
}

/// Makes a new file like the old one, as far as we may. It runs with nobody's rights but those of who starts it: the kernel
/// takes a set-uid bit away when the bytes change.
fn imitate(new: &File, old: &File, data: &Metadata) -> io::Result<()> {
    let own = new.metadata()?;
    let mode = data.mode() & 0o777;
    if (own.uid(), own.gid()) != (data.uid(), data.gid()) {
        let (uid, gid) =
            (rustix::fs::Uid::from_raw(data.uid()), rustix::fs::Gid::from_raw(data.gid()));
        // Where that may not be, it is this user's.
        _ = rustix::fs::fchown(new, Some(uid), Some(gid));
    }
    copy_attributes(new.as_fd(), old.as_fd());
    rustix::fs::fchmod(new, Mode::from_raw_mode(mode))?;
    Ok(())
}

/// Copies extended attributes, access lists among them. What may not be copied is left out.
fn copy_attributes(new: impl AsFd, old: impl AsFd) {
    let (new, old) = (new.as_fd(), old.as_fd());
    let mut names = vec![0u8; 64 * 1024];
    let Ok(length) = rustix::fs::flistxattr(old, names.as_mut_slice()) else { return };
    let mut value = vec![0u8; 64 * 1024];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        // The kernel takes a program's capabilities away when its bytes change; so do we.
        if name == b"security.capability" {
            continue;
        }
        if let Ok(length) = rustix::fs::fgetxattr(old, name, value.as_mut_slice()) {
            let _ = rustix::fs::fsetxattr(new, name, &value[..length], XattrFlags::empty());
        }
    }
}
