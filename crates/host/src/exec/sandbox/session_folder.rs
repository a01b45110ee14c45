//! The session's private directory: temporary files, a replacement of `/run`, and the covers of hidden paths.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::tables;
use agent_protocol::disk;

const PREFIX: &str = "agent-sandbox-";

pub(super) const TEMPORARY: &str = "tmp";
pub(super) const RUNTIME: &str = "run";
/// For caches if there is no home for them.
pub(super) const CACHE: &str = "cache";
/// The covers of hidden paths. Neither can be opened.
pub(super) const EMPTY_DIRECTORY: &str = "empty-directory";
pub(super) const EMPTY_FILE: &str = "empty-file";
/// A user that owns no other file: commands of root have no right over its files.
const NO_OWNER: u32 = 65_533;
pub(super) const COVER: &str = "cover";

/// The temporary directory of a new session, which does not exist yet. It is outside of the writable places: otherwise
/// commands could replace the covers of secrets.
pub fn temporary_directory(writable: &[PathBuf]) -> PathBuf {
    let shared = tables::SHARED_TEMPORARY.iter().map(PathBuf::from);
    let parents = std::iter::once(std::env::temp_dir()).chain(shared);
    let mut usable = parents
        .filter(|parent| !disk::passes_through(parent, writable))
        .map(|parent| disk::resolve_outside(&parent, writable))
        .filter(|parent| rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_ok());
    let parent = usable.next().unwrap_or_else(|| disk::temporary_folder(writable));
    parent.join(format!("{PREFIX}{}", uuid::Uuid::now_v7())).join(TEMPORARY)
}

/// Removed with its contents when the session ends; by the stand-by if the agent was killed.
#[derive(Debug)]
pub(super) struct SessionFolder {
    pub(super) path: PathBuf,
}

impl SessionFolder {
    pub(super) fn create(temporary: &Path) -> io::Result<Self> {
        let named = |error: io::Error| {
            let message = "no private temporary directory; set TMPDIR to one outside the project";
            io::Error::new(error.kind(), format!("{}: {error}: {message}", temporary.display()))
        };
        let path = temporary.parent().unwrap_or(temporary).to_owned();
        disk::create_folder(&path, 0o700).map_err(named)?;
        for (name, mode) in
            [(TEMPORARY, 0o1777), (CACHE, 0o755), (RUNTIME, 0o755), (EMPTY_DIRECTORY, 0)]
        {
            fs::create_dir(path.join(name))?;
            fs::set_permissions(path.join(name), Permissions::from_mode(mode))?;
        }
        disk::create_file(&path.join(EMPTY_FILE), 0)?;
        for name in [EMPTY_DIRECTORY, EMPTY_FILE] {
            _ = std::os::unix::fs::lchown(path.join(name), Some(NO_OWNER), Some(NO_OWNER));
        }
        Ok(Self { path })
    }

    /// The name of a file in the private `/tmp`. Directories do not count: build tools leave theirs there.
    pub(super) fn first_temporary_file(&self) -> Option<OsString> {
        let entries = fs::read_dir(self.path.join(TEMPORARY)).ok()?;
        let is_file = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_file());
        entries.flatten().find(is_file).map(|entry| entry.file_name())
    }

    /// In the private `/tmp`, or in the replacement of `/run`. Returns the directories above it that commands can write:
    /// their real paths, and their paths in the sandbox.
    pub(super) fn make_mount_point(&self, path: &Path) -> Vec<(PathBuf, PathBuf)> {
        if let Ok(below) = path.strip_prefix(tables::RUNTIME) {
            _ = disk::create_folder_all(&self.path.join(RUNTIME).join(below), 0o755);
            return Vec::new();
        }
        let shared = tables::SHARED_TEMPORARY.iter().map(Path::new);
        let mut below = shared.filter_map(|shared| Some((shared, path.strip_prefix(shared).ok()?)));
        let Some((shared, below)) = below.next() else { return Vec::new() };
        // Commands can write in the private `/tmp`: no link is followed.
        let temporary = self.path.join(TEMPORARY);
        _ = disk::create_folder_all(&temporary.join(below), 0o755);
        let above = below.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
        above.map(|above| (temporary.join(above), shared.join(above))).collect()
    }
}

impl Drop for SessionFolder {
    fn drop(&mut self) {
        // The system clears what cannot be removed from its temporary directory.
        _ = disk::remove_folder(&self.path);
    }
}
