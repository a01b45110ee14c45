//! A temporary file in the folder of its target; the folder is held open and locked against other agents.

use std::cmp::Reverse;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RenameFlags, Stat, XattrFlags};
use rustix::io::Errno;

use super::super::leftovers::temporary;
use super::super::snapshot::{hash, hash_file};
use agent_protocol::disk;

/// Time limit for the lock; a change takes milliseconds.
const FOLDER_LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of the open files that are checked. A time limit would make the result depend on the load.
const MAX_FILES: usize = 100_000;

pub(super) struct TargetFolder {
    folder: OwnedFd,
    target: OsString,
}

/// A temporary file of the agent, removed on drop if it is [`TemporaryState::Removable`].
pub(super) struct TemporaryFile<'a> {
    folder: &'a OwnedFd,
    pub(super) name: OsString,
    pub(super) state: TemporaryState,
    pub(super) file: File,
    /// What was written to it.
    pub(super) bytes: &'a [u8],
    pub(super) hash: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TemporaryState {
    Removable,
    Kept,
    Gone,
}

/// The file with the temporary name; `hash` only of a regular file that no program is writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ExchangedFile {
    pub(super) identity: (u64, u64),
    pub(super) hash: Option<String>,
}

/// How another process modified the agent's file while it was the target.
pub(super) enum ConcurrentWrite {
    Appended(Vec<u8>),
    Replaced,
    Changed,
}

impl TargetFolder {
    pub(super) fn open(target: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(io::ErrorKind::IsADirectory.into());
        };
        let folder = disk::open_folder(parent).map_err(|error| {
            // The system reports a link as "not a directory"; the useful error is that the folder is a link now.
            let is_link = fs::symlink_metadata(parent).is_ok_and(|data| data.is_symlink());
            if is_link { Errno::LOOP.into() } else { error }
        })?;
        let until = Instant::now() + FOLDER_LOCK_TIMEOUT;
        // Not every file system supports locks.
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

    /// Also syncs the file and copies owner, mode and extended attributes of the file to be replaced as far as
    /// permitted. The hashes in the name allow another process to identify the file after a crash.
    pub(super) fn write_temporary<'a>(
        &'a self,
        bytes: &'a [u8],
        old_hash: &str,
        like: Option<(&File, &Metadata)>,
    ) -> io::Result<TemporaryFile<'a>> {
        let mode = Mode::from_raw_mode(if like.is_some() { 0o600 } else { 0o666 });
        let finish = |file: &mut File| -> io::Result<()> {
            file.write_all(bytes)?;
            if let Some((old, data)) = like {
                copy_metadata(file, old, data)?;
            }
            file.sync_all()
        };
        // The file has no name until it is complete: if the process is killed before, the file disappears.
        let unnamed = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        // Not every file system supports this.
        if let Ok(file) = rustix::fs::openat(&self.folder, ".", unnamed, mode) {
            let mut file = File::from(file);
            finish(&mut file)?;
            if let Ok(temporary) =
                self.create_named(bytes, old_hash, |name| link_to_name(&file, &self.folder, name))
            {
                return Ok(temporary);
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let open = |name: &OsStr| rustix::fs::openat(&self.folder, name, flags, mode);
        let mut temporary =
            self.create_named(bytes, old_hash, |name| open(name).map(File::from))?;
        finish(&mut temporary.file)?;
        Ok(temporary)
    }

    fn create_named<'a>(
        &'a self,
        bytes: &'a [u8],
        old_hash: &str,
        make: impl Fn(&OsStr) -> Result<File, Errno>,
    ) -> io::Result<TemporaryFile<'a>> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let hash = hash(bytes);
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let name = OsString::from(temporary::name(std::process::id(), number, old_hash, &hash));
            match make(&name) {
                Ok(file) => {
                    let (folder, state) = (&self.folder, TemporaryState::Removable);
                    return Ok(TemporaryFile { folder, name, state, file, bytes, hash });
                }
                // A dead process with this process id left the file.
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// False if the file system or the kernel does not support the exchange.
    pub(super) fn exchange(&self, with: &TemporaryFile<'_>) -> io::Result<bool> {
        match self.rename(with, RenameFlags::EXCHANGE) {
            Ok(()) => Ok(true),
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn rename_over(&self, new: &mut TemporaryFile<'_>) -> io::Result<()> {
        rustix::fs::renameat(&self.folder, &new.name, &self.folder, &self.target)?;
        new.state = TemporaryState::Gone;
        Ok(())
    }

    pub(super) fn rename_if_absent(&self, new: &mut TemporaryFile<'_>) -> io::Result<()> {
        match self.rename(new, RenameFlags::NOREPLACE) {
            Ok(()) => {
                new.state = TemporaryState::Gone;
                return Ok(());
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
        let (folder, none) = (&self.folder, AtFlags::empty());
        rustix::fs::linkat(folder, &new.name, folder, &self.target, none)?;
        new.remove_file();
        Ok(())
    }

    fn rename(&self, from: &TemporaryFile<'_>, flags: RenameFlags) -> Result<(), Errno> {
        rustix::fs::renameat_with(&self.folder, &from.name, &self.folder, &self.target, flags)
    }

    /// Waits for pending writes: a program that opened the file before the exchange may still write to it.
    pub(super) fn inspect_after_writes(
        &self,
        at: &TemporaryFile<'_>,
        until: Instant,
    ) -> io::Result<ExchangedFile> {
        // Syncing gives other processes the time to finish their writes.
        self.sync_folder();
        let stat = rustix::fs::statat(&self.folder, &at.name, AtFlags::SYMLINK_NOFOLLOW)?;
        let identity = (stat.st_dev, stat.st_ino);
        if !FileType::from_raw_mode(stat.st_mode).is_file() {
            return Ok(ExchangedFile { identity, hash: None });
        }
        while has_writers(&at.name, &stat, &at.file) {
            if Instant::now() >= until {
                return Ok(ExchangedFile { identity, hash: None });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut file =
            File::from(rustix::fs::openat(&self.folder, &at.name, flags, Mode::empty())?);
        let data = file.metadata()?;
        let hash = hash_file(&mut file)?;
        Ok(ExchangedFile { identity: (data.dev(), data.ino()), hash: Some(hash) })
    }

    /// Appends bytes to the target that another process wrote to the agent's file.
    pub(super) fn append(&self, bytes: &[u8]) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::APPEND;
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let target = rustix::fs::openat(&self.folder, &self.target, flags, Mode::empty())?;
        File::from(target).write_all(bytes)
    }

    pub(super) fn sync_folder(&self) {
        // The change is made; a failure to sync the folder is ignored.
        let _ = rustix::fs::fsync(&self.folder);
    }
}

impl TemporaryFile<'_> {
    pub(super) fn remove_file(&mut self) {
        let _ = rustix::fs::unlinkat(self.folder, &self.name, AtFlags::empty());
        self.state = TemporaryState::Gone;
    }

    pub(super) fn detect_concurrent_write(&mut self) -> io::Result<ConcurrentWrite> {
        if self.file.metadata()?.len() < self.bytes.len() as u64 {
            return Ok(ConcurrentWrite::Replaced);
        }
        let mut now = Vec::with_capacity(self.bytes.len());
        self.file.seek(SeekFrom::Start(0))?;
        self.file.read_to_end(&mut now)?;
        Ok(match now.strip_prefix(self.bytes) {
            Some(more) => ConcurrentWrite::Appended(more.to_owned()),
            None => ConcurrentWrite::Changed,
        })
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if self.state == TemporaryState::Removable {
            self.remove_file();
        }
    }
}

fn link_to_name(file: &File, folder: &OwnedFd, name: &OsStr) -> Result<File, Errno> {
    let opened = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::linkat(rustix::fs::CWD, opened, folder, name, AtFlags::SYMLINK_FOLLOW)?;
    file.try_clone().map_err(|_| Errno::MFILE)
}

/// As far as permitted. A set-uid bit is not copied: the kernel removes it when the bytes of a file change.
fn copy_metadata(new: &File, old: &File, data: &Metadata) -> io::Result<()> {
    let own = new.metadata()?;
    if (own.uid(), own.gid()) != (data.uid(), data.gid()) {
        // Without this permission the file belongs to the current user.
        _ = std::os::unix::fs::fchown(new, Some(data.uid()), Some(data.gid()));
    }
    copy_attributes(new, old);
    Ok(rustix::fs::fchmod(new, Mode::from_raw_mode(data.mode() & 0o777))?)
}

/// Includes access lists; as far as permitted.
fn copy_attributes(new: &File, old: &File) {
    let mut names = vec![0u8; 64 * 1024];
    let Ok(length) = rustix::fs::flistxattr(old, names.as_mut_slice()) else { return };
    let mut value = vec![0u8; 64 * 1024];
    for name in names[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        // The kernel removes a program's capabilities when its bytes change; a replacement has the same effect.
        if name == b"security.capability" {
            continue;
        }
        if let Ok(length) = rustix::fs::fgetxattr(old, name, value.as_mut_slice()) {
            let _ = rustix::fs::fsetxattr(new, name, &value[..length], XattrFlags::empty());
        }
    }
}

/// Whether any program except this process (`own`) is known to have the file with this unique name open for writing: bytes
/// that it writes after the replacement would be lost. The open files of all processes are checked, up to a limit.
fn has_writers(name: &OsStr, stat: &Stat, own: &File) -> bool {
    let own = format!("/proc/{}/fd/{}", std::process::id(), own.as_raw_fd());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The youngest process is the most probable.
    numbers.sort_unstable_by_key(|number| Reverse(*number));
    let files = numbers.into_iter().flat_map(|number| {
        let files = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
        files.map(move |file| (number, file))
    });
    files.take(MAX_FILES).any(|(number, file)| {
        let opened = file.path();
        let is_same_file = fs::read_link(&opened).is_ok_and(|path| path.file_name() == Some(name))
            // The file was opened under another of its names.
            || (stat.st_nlink > 1
                && fs::metadata(&opened)
                    .is_ok_and(|other| (other.dev(), other.ino()) == (stat.st_dev, stat.st_ino)));
        is_same_file && opened != Path::new(&own) && is_for_writing(number, &file.file_name())
    })
}

/// The open flags are in octal after `flags:`.
fn is_for_writing(process: u32, descriptor: &OsStr) -> bool {
    let info = Path::new("/proc").join(process.to_string()).join("fdinfo").join(descriptor);
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 0o3 != 0)
}
