//! The copy of a task's project in which a run works.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

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
            (TaskProject::Directory { path, .. }, None) => {
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

enum DirectoryEntry {
    Directory,
    Link(PathBuf),
    File { is_executable: bool },
}

/// In a fixed order, with paths relative to the directory. Sockets and devices are left out.
fn list_entries(directory: &Path) -> io::Result<Vec<(PathBuf, DirectoryEntry)>> {
    let (mut found, mut left) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = left.pop() {
        for entry in fs::read_dir(directory.join(&below))? {
            let entry = entry?;
            let (path, metadata) = (below.join(entry.file_name()), entry.metadata()?);
            if metadata.is_dir() {
                left.push(path.clone());
                found.push((path, DirectoryEntry::Directory));
            } else if metadata.is_symlink() {
                found.push((path, DirectoryEntry::Link(fs::read_link(entry.path())?)));
            } else if metadata.is_file() {
                let is_executable = metadata.permissions().mode() & 0o111 != 0;
                found.push((path, DirectoryEntry::File { is_executable }));
            }
        }
    }
    // A directory precedes its content.
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    for (path, entry) in list_entries(from)? {
        let (source, copy) = (from.join(&path), to.join(&path));
        let copied = match entry {
            DirectoryEntry::Directory => fs::create_dir(&copy),
            DirectoryEntry::Link(target) => symlink(target, &copy),
            DirectoryEntry::File { .. } => fs::copy(&source, &copy).map(drop),
        };
        copied.map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", source.display()))
        })?;
    }
    Ok(())
}

/// A hash of everything in a directory: paths, contents, and which files are executable.
pub fn fingerprint(directory: &Path) -> io::Result<String> {
    let mut hasher = blake3::Hasher::new();
    for (path, entry) in list_entries(directory)? {
        let (kind, content) = match entry {
            DirectoryEntry::Directory => (b'd', blake3::hash(b"")),
            DirectoryEntry::Link(target) => (b'l', blake3::hash(target.as_os_str().as_bytes())),
            DirectoryEntry::File { is_executable } => {
                let content = blake3::hash(&fs::read(directory.join(&path))?);
                (if is_executable { b'x' } else { b'f' }, content)
            }
        };
        let name = path.as_os_str().as_bytes();
        hasher.update(&[kind]);
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name);
        hasher.update(content.as_bytes());
    }
    Ok(hasher.finalize().to_hex().to_string())
}
