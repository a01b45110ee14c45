//! The session's private directory: its temporary files, a replacement of `/run`, and what covers hidden paths.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, fchmod, flock, mkdirat, openat};
use rustix::io::Errno;

use super::tables;
use crate::disk;

const PREFIX: &str = "agent-sandbox-";
/// A directory younger than this may belong to a session that has not locked it yet.
const YOUNG: Duration = Duration::from_mins(1);

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
const PLACE: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const TEMPORARY: &str = "tmp";
const RUNTIME: &str = "run";
const CACHE: &str = "cache";
const EMPTY_DIRECTORY: &str = "empty-directory";
const EMPTY_FILE: &str = "empty-file";
const COVER: &str = "cover";

/// The temporary directory of a new session, outside of these places: commands could replace what covers secrets. It does
/// not exist yet.
pub fn temporary_directory(writable: &[PathBuf]) -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let parents = std::iter::once(std::env::temp_dir())
        .chain(tables::SHARED_TEMPORARY.iter().map(PathBuf::from))
        .chain(runtime);
    let mut usable = parents
        .filter(|parent| !disk::is_below(parent, writable))
        .map(|parent| disk::settled(&parent, writable))
        .filter(|parent| rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_ok());
    let parent = usable.next().unwrap_or_else(|| disk::temporary_folder(writable));
    parent.join(format!("{PREFIX}{}", uuid::Uuid::now_v7())).join(TEMPORARY)
}

/// Removed with everything in it when the session ends.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    temporary: PathBuf,
    /// The directory itself, locked as long as the session lives: others remove what nobody holds.
    lock: OwnedFd,
}

impl Folder {
    /// Creates the directory around this temporary directory.
    pub(super) fn make(temporary: &Path) -> io::Result<Self> {
        let named = |error: io::Error| {
            let message = "no private temporary directory; set TMPDIR to one outside the project";
            io::Error::new(error.kind(), format!("{}: {error}: {message}", temporary.display()))
        };
        let path = temporary.parent().unwrap_or(temporary).to_owned();
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(named(io::ErrorKind::NotFound.into()));
        };
        sweep(parent);
        // Everything is created by descriptors: others may write the parent directory.
        let parent = disk::open(parent, PLACE, Mode::empty()).map_err(named)?;
        let lock = make_folder(&parent, Path::new(name), 0o700).map_err(named)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        let own = &lock;
        fchmod(make_folder(own, Path::new(TEMPORARY), 0o755)?, Mode::from_raw_mode(0o1777))?;
        make_folder(own, Path::new(CACHE), 0o755)?;
        let runtime = make_folder(own, Path::new(RUNTIME), 0o755)?;
        for name in tables::RUNTIME_KEPT.iter().chain(tables::RUNTIME_KEPT_WITH_NETWORK) {
            if Path::new(tables::RUNTIME).join(name).is_dir() {
                make_below(&runtime, Path::new(name))?;
            }
        }
        fchmod(make_folder(own, Path::new(EMPTY_DIRECTORY), 0o755)?, Mode::empty())?;
        disk::create_in(own, EMPTY_FILE)?.set_permissions(Permissions::from_mode(0o0))?;
        Ok(Self { temporary: temporary.to_owned(), path, lock })
    }

    pub(super) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// What commands see as `/run`.
    pub(super) fn runtime(&self) -> PathBuf {
        self.path.join(RUNTIME)
    }

    /// For caches where there is no home for them.
    pub(super) fn cache(&self) -> PathBuf {
        self.path.join(CACHE)
    }

    /// A directory that cannot be opened.
    pub(super) fn empty_directory(&self) -> PathBuf {
        self.path.join(EMPTY_DIRECTORY)
    }

    /// A file that cannot be opened.
    pub(super) fn empty_file(&self) -> PathBuf {
        self.path.join(EMPTY_FILE)
    }

    /// A directory that contains nothing but a mount point at this relative path.
    pub(super) fn cover_with_place(&self, below: &Path) -> io::Result<PathBuf> {
        make_below(&self.lock, &Path::new(COVER).join(below))?;
        Ok(self.path.join(COVER))
    }

    /// Creates a mount point in the private `/tmp`, or in the replacement of `/run`, for what lies there outside. Returns the
    /// directories above it that commands can write: where they lie, and their paths in the sandbox.
    pub(super) fn make_place(&self, path: &Path) -> Vec<(PathBuf, PathBuf)> {
        if let Ok(below) = path.strip_prefix(tables::RUNTIME) {
            _ = make_below(&self.lock, &Path::new(RUNTIME).join(below));
            return Vec::new();
        }
        let shared = tables::SHARED_TEMPORARY.iter().map(Path::new);
        let mut below = shared.filter_map(|shared| Some((shared, path.strip_prefix(shared).ok()?)));
        let Some((shared, below)) = below.next() else { return Vec::new() };
        _ = make_below(&self.lock, &Path::new(TEMPORARY).join(below));
        let above = below.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        above.map(|above| (self.temporary.join(above), shared.join(above))).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to the system, which clears its temporary directory.
        _ = disk::remove_folder(&self.path);
    }
}

/// Creates a directory and opens it. A link in its place is not followed.
fn make_folder(parent: &OwnedFd, name: &Path, mode: u32) -> io::Result<OwnedFd> {
    mkdirat(parent, name, Mode::from_raw_mode(mode))?;
    Ok(openat(parent, name, FOLDER, Mode::empty())?)
}

/// Creates nested directories where they do not exist. No link is followed: commands can write some of these.
fn make_below(folder: &OwnedFd, below: &Path) -> io::Result<()> {
    let mut inner = None;
    for name in below.components() {
        let folder = inner.as_ref().unwrap_or(folder);
        match mkdirat(folder, name.as_os_str(), Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        inner = Some(openat(folder, name.as_os_str(), PLACE, Mode::empty())?);
    }
    Ok(())
}

/// Removes the directories of sessions that were killed.
fn sweep(parent: &Path) {
    let own = rustix::process::getuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(metadata) = entry.metadata() else { continue };
        let age = metadata.modified().ok().and_then(|time| time.elapsed().ok());
        let is_old = age.is_some_and(|age| age > YOUNG);
        if metadata.uid() == own && is_old && is_unlocked(&entry.path()) {
            _ = disk::remove_folder(&entry.path());
        }
    }
}

fn is_unlocked(path: &Path) -> bool {
    let folder = openat(CWD, path, FOLDER, Mode::empty());
    folder.is_ok_and(|it| flock(&it, FlockOperation::NonBlockingLockExclusive).is_ok())
}
