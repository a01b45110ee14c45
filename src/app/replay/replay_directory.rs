//! The scratch directory of a replay: the copy of the project, and the record of the replay.

use std::path::{Path, PathBuf};

use super::MAX_NAMED;
use crate::app::{OpenError, Storage};
use agent_host::workspace::FileHistory;
use agent_protocol::disk;

/// Removed on drop.
pub(super) struct ReplayDirectory {
    pub(super) path: PathBuf,
    pub(super) root: PathBuf,
    pub(super) storage: Storage,
}

impl ReplayDirectory {
    pub(super) fn create(project: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Usage(format!("the scratch copy: {error}"));
        let place = disk::temporary_folder(&[]).canonicalize().map_err(failed)?;
        let directory = tempfile::Builder::new().prefix("agent-replay-").tempdir_in(place);
        let path = directory.map_err(failed)?.keep();
        let name = project.file_name().unwrap_or("project".as_ref());
        let (root, state) = (path.join("project").join(name), path.join("state"));
        let storage = Storage::in_directory(state);
        let scratch = Self { path, root, storage };
        std::fs::create_dir_all(&scratch.root).map_err(failed)?;
        std::fs::create_dir_all(scratch.storage.sessions_folder()).map_err(failed)?;
        Ok(scratch)
    }

    /// As the files were at the beginning. Adds paths that could not be created to `missing`, and describes them.
    pub(super) fn restore_files(
        &self,
        history: &FileHistory,
        project: &Path,
        missing: &mut Vec<String>,
    ) -> Result<Vec<String>, OpenError> {
        if !history.has_first_manifest() {
            let project = project.display();
            return Err(OpenError::Usage(format!(
                "there is nothing to replay from: no manifest of {project} was recorded at the beginning of the session \
                 (checkpoints were disabled, the project is too large, or an older version recorded it)"
            )));
        }
        let copy = history.create_scratch_copy(&self.root, 0);
        let failed =
            copy.map_err(|error| OpenError::Usage(format!("the scratch copy: {error}")))?;
        missing.extend(failed.iter().map(|(path, _)| path.clone()));
        let lines = failed.iter().take(MAX_NAMED).map(|(path, why)| format!("{path}: {why}"));
        let mut lines: Vec<String> = lines.collect();
        if let more @ 1.. = failed.len().saturating_sub(MAX_NAMED) {
            lines.push(format!("{more} more files could not be made"));
        }
        Ok(lines)
    }
}

impl Drop for ReplayDirectory {
    fn drop(&mut self) {
        // Commands may have created directories that `TempDir` cannot remove.
        _ = disk::remove_folder(&self.path);
    }
}
