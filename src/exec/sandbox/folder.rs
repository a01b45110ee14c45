//! The session's private folder: its /tmp, and the nothing that lies over what is not to be seen.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, fchmod, flock, mkdirat, openat};
use rustix::io::Errno;

use super::tables;
use crate::disk;

/// What the folder's name begins with; the rest is its session's own.
const PREFIX: &str = "agent-box-";
/// A folder may be so young that its session has not locked it yet.
const YOUNG: Duration = Duration::from_mins(1);

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// A folder that nobody may look into is a place all the same.
const PLACE: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// So often a folder is made in one place, if it can not be locked.
const MOST_TRIES: usize = 5;

/// What is in it.
const TEMPORARY: &str = "tmp";
const RUNTIME: &str = "run";
const CACHE: &str = "cache";
const CLOSED_DIRECTORY: &str = "nothing";
const CLOSED_FILE: &str = "empty";

/// Goes with the session, and all that is in it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    temporary: PathBuf,
    runtime: PathBuf,
    cache: PathBuf,
    closed_directory: PathBuf,
    closed_file: PathBuf,
    /// The folder itself, locked as long as the session lives, whatever ends it.
    lock: OwnedFd,
}

impl Folder {
    /// Where no command writes: whoever can put something in the place of nothing sees what that covers.
    pub(super) fn make(writable: &[PathBuf]) -> io::Result<Self> {
        let mut failed = None;
        for parent in parents(writable) {
            // (Somebody may look for the name to lock it first.)
            for _ in 0..MOST_TRIES {
                match Self::make_in(&parent) {
                    Ok(folder) => return Ok(folder),
                    Err(error) => failed = Some(error),
                }
            }
        }
        Err(failed.unwrap_or_else(|| {
            io::Error::other(
                "commands can write each place for one; set TMPDIR to a folder outside",
            )
        }))
    }

    /// Nothing in it is made or changed by its name: where another session's commands write the place, somebody could have
    /// put a link there.
    fn make_in(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let name = format!("{PREFIX}{}", uuid::Uuid::now_v7());
        let path = parent.join(&name);
        let own = make_folder(&disk::open(parent, PLACE, Mode::empty())?, &name, 0o700)?;
        let locked = flock(&own, FlockOperation::NonBlockingLockExclusive);
        locked.inspect_err(|_| drop(fs::remove_dir(&path)))?;
        let folder = Self {
            temporary: path.join(TEMPORARY),
            runtime: path.join(RUNTIME),
            cache: path.join(CACHE),
            closed_directory: path.join(CLOSED_DIRECTORY),
            closed_file: path.join(CLOSED_FILE),
            path,
            lock: own,
        };
        let own = &folder.lock;
        fchmod(make_folder(own, TEMPORARY, 0o755)?, Mode::from_raw_mode(0o1777))?;
        make_folder(own, CACHE, 0o755)?;
        let runtime = make_folder(own, RUNTIME, 0o755)?;
        let kept = tables::RUNTIME_KEPT.iter().chain(tables::RUNTIME_KEPT_WITH_NETWORK);
        for name in kept {
            if Path::new(tables::RUNTIME).join(name).is_dir() {
                make_below(&runtime, Path::new(name))?;
            }
        }
        fchmod(make_folder(own, CLOSED_DIRECTORY, 0o755)?, Mode::empty())?;
        disk::create_in(own, CLOSED_FILE)?.set_permissions(Permissions::from_mode(0o0))?;
        Ok(folder)
    }

    /// What commands have as their temporary folder.
    pub(super) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// What they have as /run.
    pub(super) fn runtime(&self) -> &Path {
        &self.runtime
    }

    /// There is a place for this path of /run.
    pub(super) fn has_runtime(&self, path: &Path) -> bool {
        path.strip_prefix(tables::RUNTIME).is_ok_and(|name| self.runtime.join(name).is_dir())
    }

    /// Makes a place in the private /tmp, or in what commands have as /run, for what lies there outside. Gives the folders
    /// above it that commands can write: where they lie, and what they are called in the box. The outer ones sort first.
    pub(super) fn make_place(&self, path: &Path) -> Vec<(PathBuf, PathBuf)> {
        if let Ok(below) = path.strip_prefix(tables::RUNTIME) {
            _ = disk::open(&self.runtime, PLACE, Mode::empty())
                .and_then(|folder| make_below(&folder, below));
            return Vec::new();
        }
        let shared = tables::SHARED_TEMPORARY.iter().map(Path::new);
        let mut below = shared.filter_map(|shared| Some((shared, path.strip_prefix(shared).ok()?)));
        let Some((shared, below)) = below.next() else { return Vec::new() };
        _ = disk::open(&self.temporary, PLACE, Mode::empty())
            .and_then(|folder| make_below(&folder, below));
        let above = below.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        above.map(|above| (self.temporary.join(above), shared.join(above))).collect()
    }

    /// What commands have for caches where there is no home to keep them in. Not in their /tmp: there they
    /// could put a link in its place.
    pub(super) fn cache(&self) -> &Path {
        &self.cache
    }

    /// A folder that can not be opened.
    pub(super) fn closed_folder(&self) -> &Path {
        &self.closed_directory
    }

    /// A file that can not be opened.
    pub(super) fn closed_file(&self) -> &Path {
        &self.closed_file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

/// The places for temporary files that lie in none of these. `TMPDIR` may name the project itself.
fn parents(writable: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    std::iter::once(std::env::temp_dir())
        .chain(tables::SHARED_TEMPORARY.iter().map(PathBuf::from))
        .chain(runtime)
        .filter(|place| !disk::is_below(place, writable))
        .map(|place| disk::settled(&place, writable))
        .filter(|place| rustix::fs::access(place, rustix::fs::Access::WRITE_OK).is_ok())
}

/// Makes a folder in this one and opens it: no link that stands in its place.
fn make_folder(parent: &OwnedFd, name: &str, mode: u32) -> io::Result<OwnedFd> {
    mkdirat(parent, name, Mode::from_raw_mode(mode))?;
    Ok(openat(parent, name, FOLDER, Mode::empty())?)
}

/// Makes folders in each other where there are none. Commands write there, and this process is not in their box: it
/// follows no link.
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

fn lock(path: &Path) -> io::Result<OwnedFd> {
    let folder = openat(CWD, path, FOLDER, Mode::empty())?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    Ok(folder)
}

/// Removes the folders of sessions that were killed.
fn sweep(parent: &Path) {
    let own = rustix::process::getuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let Ok(metadata) = entry.metadata() else { continue };
        let age = metadata.modified().ok().and_then(|time| time.elapsed().ok());
        let is_old = age.is_some_and(|age| age > YOUNG);
        if metadata.uid() == own && is_old && lock(&entry.path()).is_ok() {
            remove(&entry.path());
        }
    }
}

/// What can not be removed is left to the system, which clears its temporary folder.
fn remove(path: &Path) {
    _ = disk::remove_folder(path);
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test may panic")]

    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_is_write_protected_is_removed_and_what_a_link_leads_to_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let (outside, own) = (root.join("outside"), root.join("own"));
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "").unwrap();
        fs::set_permissions(&outside, Permissions::from_mode(0o555)).unwrap();
        fs::create_dir_all(own.join("a/b/c")).unwrap();
        fs::write(own.join("a/b/file"), "").unwrap();
        symlink(&outside, own.join("a/link")).unwrap();
        symlink(&outside, own.join("a/b/link")).unwrap();
        for closed in ["a/b/c", "a/b", "a"] {
            fs::set_permissions(own.join(closed), Permissions::from_mode(0o0)).unwrap();
        }
        remove(&own);
        assert!(!own.exists() && outside.join("file").exists());
        let mode = fs::metadata(&outside).unwrap().mode() & 0o777;
        assert_eq!(mode, 0o555);
    }

    #[test]
    fn a_deep_tree_is_removed_on_a_small_stack() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().canonicalize().unwrap().join("own");
        fs::create_dir(&own).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut folder = openat(CWD, &own, flags, Mode::empty()).unwrap();
        for _ in 0..30_000 {
            mkdirat(&folder, "d", Mode::from_raw_mode(0o755)).unwrap();
            folder = openat(&folder, "d", flags, Mode::empty()).unwrap();
        }
        drop(folder);
        remove(&own);
        assert!(!own.exists());
    }
}
