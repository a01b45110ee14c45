//! The copy of a task's project in which a run works.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use agent_host::workspace::copy_directory;
use agent_protocol::disk;
use agent_record::eval::suite::{Task, TaskProject};

/// A directory whose path tells the model nothing about task or variant. Removed on drop.
pub(super) struct TrialDirectory {
    directory: PathBuf,
    pub(super) project: PathBuf,
    /// Answers of the scripted model, outside the project.
    pub(super) script: PathBuf,
    /// For commands: none of an earlier run.
    pub(super) cache: PathBuf,
}

impl TrialDirectory {
    pub(super) fn new(task: &Task, directory: Option<&Path>) -> io::Result<Self> {
        let place = disk::temporary_folder(&[]).canonicalize()?;
        let own = tempfile::Builder::new().prefix("agent-eval-").tempdir_in(place)?.keep();
        let scratch = Self {
            project: own.join("project"),
            script: own.join("script"),
            cache: own.join("cache"),
            directory: own,
        };
        fs::write(&scratch.script, task.script.as_deref().unwrap_or_default())?;
        fs::create_dir(&scratch.project)?;
        match (&task.project, directory) {
            (TaskProject::Files(files), _) => {
                for (path, text) in files {
                    let path = scratch.project.join(path);
                    if let Some(parent) = path.parent() {
                        fs::create_dir_all(parent)?;
                    }
                    disk::create_file(&path, 0o644)?.write_all(text.as_bytes())?;
                }
            }
            (TaskProject::Directory { .. }, Some(directory)) => {
                copy_directory(directory, &scratch.project)?;
            }
            (TaskProject::Directory { path }, None) => {
                return Err(io::Error::new(io::ErrorKind::NotFound, path.clone()));
            }
        }
        Ok(scratch)
    }
}

impl Drop for TrialDirectory {
    fn drop(&mut self) {
        // What cannot be removed stays in the system's temporary directory.
        _ = disk::remove_folder(&self.directory);
    }
}
