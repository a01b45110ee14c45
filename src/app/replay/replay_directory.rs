//! The scratch directory of a replay: the copy of the project, and the record of the replay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::MAX_NAMED;
use crate::app::{OpenError, Storage};
use agent_host::workspace::FileHistory;
use agent_protocol::disk;
use parking_lot::Mutex;

/// Removed on drop.
pub(super) struct ReplayDirectory {
    directory: Mutex<Option<tempfile::TempDir>>,
    pub(super) path: PathBuf,
    pub(super) root: PathBuf,
    pub(super) storage: Storage,
    /// Path and reason: the path could not be created.
    pub(super) failed: Arc<Mutex<Vec<(String, String)>>>,
}

impl ReplayDirectory {
    pub(super) fn create(project: &Path) -> Result<Self, OpenError> {
        let failed = |error| OpenError::Usage(format!("the scratch copy: {error}"));
        let place = disk::temporary_folder(&[]);
        let directory = tempfile::Builder::new().prefix("agent-replay-").tempdir_in(place);
        let directory = directory.map_err(failed)?;
        let path = directory.path().canonicalize().map_err(failed)?;
        let name = project.file_name().unwrap_or("project".as_ref());
        let (root, state) = (path.join("project").join(name), path.join("state"));
        std::fs::create_dir_all(&root).map_err(failed)?;
        std::fs::create_dir_all(state.join("sessions")).map_err(failed)?;
        let (storage, directory) = (Storage::in_directory(state), Mutex::new(Some(directory)));
        Ok(Self { directory, path, root, storage, failed: Arc::default() })
    }

    /// As the files were at the beginning; returns notices about them.
    pub(super) fn restore_files(
        &self,
        history: &FileHistory,
        project: &Path,
    ) -> Result<Vec<String>, OpenError> {
        let failed = |error| OpenError::Usage(format!("the scratch copy: {error}"));
        if history.has_first_manifest() {
            let placed = history.create_scratch_copy(&self.root).map_err(failed)?;
            self.failed.lock().extend(placed.missing);
            return Ok(Vec::new());
        }
        let project = project.display();
        Err(OpenError::Usage(format!(
            "there is nothing to replay from: no manifest of {project} was recorded at the beginning of the session \
             (checkpoints were disabled, the project is too large, or an older version recorded it)"
        )))
    }

    /// Describes paths that could not be created.
    pub(super) fn describe_missing(&self, missing: &mut Vec<String>) -> Vec<String> {
        let failed = self.failed.lock();
        missing.extend(failed.iter().map(|(path, _)| path.clone()));
        let lines = failed.iter().take(MAX_NAMED).map(|(path, why)| format!("{path}: {why}"));
        let mut lines: Vec<String> = lines.collect();
        if let more @ 1.. = failed.len().saturating_sub(MAX_NAMED) {
            lines.push(format!("{more} more files could not be made"));
        }
        lines
    }

    pub(super) fn keep(&self) -> String {
        let directory = self.directory.lock().take();
        directory.map_or_else(String::new, |it| it.keep().display().to_string())
    }
}

impl Drop for ReplayDirectory {
    fn drop(&mut self) {
        // Commands may have created directories that `TempDir` cannot remove.
        let directory = self.directory.get_mut().take();
        if directory.is_some() {
            _ = disk::remove_folder(&self.path);
        }
    }
}
