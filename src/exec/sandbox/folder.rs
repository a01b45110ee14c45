//! The session's private folder: its /tmp, and the nothing that lies over what is not to be seen.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::tables;

/// Goes with the session, and all that is in it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    temporary: PathBuf,
    runtime: PathBuf,
    closed_directory: PathBuf,
    closed_file: PathBuf,
}

impl Folder {
    pub(super) fn make() -> io::Result<Self> {
        let name = format!("agent-{}", uuid::Uuid::now_v7());
        let path = std::env::temp_dir().canonicalize()?.join(name);
        DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Self {
            temporary: path.join("tmp"),
            runtime: path.join("run"),
            closed_directory: path.join("nothing"),
            closed_file: path.join("empty"),
            path,
        };
        fs::create_dir(&folder.temporary)?;
        fs::set_permissions(&folder.temporary, Permissions::from_mode(0o1777))?;
        fs::create_dir(&folder.runtime)?;
        let kept = tables::RUNTIME_KEPT.iter().chain(tables::RUNTIME_KEPT_WITH_NETWORK);
        for name in kept {
            if Path::new(tables::RUNTIME).join(name).is_dir() {
                fs::create_dir_all(folder.runtime.join(name))?;
            }
        }
        fs::create_dir(&folder.closed_directory)?;
        fs::set_permissions(&folder.closed_directory, Permissions::from_mode(0o0))?;
        fs::write(&folder.closed_file, "")?;
        fs::set_permissions(&folder.closed_file, Permissions::from_mode(0o0))?;
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

    /// Makes a place in the private /tmp for what lies there outside.
    pub(super) fn make_place(&self, path: &Path) {
        let mut shared = tables::SHARED_TEMPORARY.iter();
        if let Some(below) = shared.find_map(|shared| path.strip_prefix(shared).ok()) {
            _ = fs::create_dir_all(self.temporary.join(below));
        }
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
        // What can not be removed is left to the system, which clears its temporary folder.
        _ = fs::remove_dir_all(&self.path);
    }
}
