//! The files of the project that hold secrets, and their values, which command output must not show.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use agent_host::workspace::{FileKind, ProjectPath, Workspace};
use agent_permission::is_secret_file;
use agent_protocol::redactor::Redactor;
use parking_lot::Mutex;

/// Limits of the search for files: directories, their depth, and the entries of one.
const MAX_DIRECTORIES: usize = 100;
const MAX_DEPTH: usize = 4;
const MAX_ENTRIES: usize = 2_000;
/// A larger file is not read.
const MAX_SIZE: u64 = 256 * 1024;
/// Generated directories.
const SKIPPED_DIRECTORIES: &[&str] =
    &[".git", ".agent", "node_modules", "target", ".venv", "venv", "__pycache__", "vendor"];

/// The secrets of a session's project. Files are read again when they change.
#[derive(Debug, Default)]
pub struct Secrets(Mutex<SecretFileIndex>);

#[derive(Debug, Default)]
struct SecretFileIndex {
    /// Each directory that was searched: its secret files and its directories.
    directories: HashMap<PathBuf, SecretDirectory>,
    files: HashMap<PathBuf, (FileVersion, String)>,
    redactor: Arc<Redactor>,
}

#[derive(Clone, Debug)]
struct SecretDirectory {
    modified: Option<SystemTime>,
    files: Vec<ProjectPath>,
    directories: Vec<ProjectPath>,
}

type FileVersion = (Option<SystemTime>, u64);

impl Secrets {
    /// The current secret values.
    pub fn redactor(&self, workspace: &Workspace) -> Arc<Redactor> {
        let mut found = self.0.lock();
        let files = found.find_secret_files(workspace);
        let n_known = found.files.len();
        found.files.retain(|path, _| files.iter().any(|file| file.absolute() == path));
        let mut changed = found.files.len() != n_known;
        for file in files {
            let Ok(data) = workspace.metadata(&file) else { continue };
            let version = (data.modified().ok(), data.len());
            if found.files.get(file.absolute()).is_some_and(|(known, _)| *known == version) {
                continue;
            }
            let mut bytes = Vec::new();
            if data.len() <= MAX_SIZE
                && let Ok((open, _)) = workspace.open_file(&file)
            {
                // A file that cannot be read cannot be shown by a command either.
                let _ = open.take(MAX_SIZE).read_to_end(&mut bytes);
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            found.files.insert(file.absolute().to_path_buf(), (version, text));
            changed = true;
        }
        if changed {
            let redactor =
                Redactor::from_texts(found.files.values().map(|(_, text)| text.as_str()));
            found.redactor = Arc::new(redactor);
        }
        Arc::clone(&found.redactor)
    }

    /// The files, which `sandbox.hide_secrets` hides from commands.
    pub fn files(&self, workspace: &Workspace) -> Vec<PathBuf> {
        let files = self.0.lock().find_secret_files(workspace);
        files.iter().map(|file| file.absolute().to_path_buf()).collect()
    }
}

impl SecretFileIndex {
    /// The secret files near the root, ignored or not. A directory that did not change is not listed again.
    fn find_secret_files(&mut self, workspace: &Workspace) -> Vec<ProjectPath> {
        let mut files = Vec::new();
        let mut left = MAX_DIRECTORIES;
        let mut level: Vec<ProjectPath> = workspace.resolve(".").into_iter().collect();
        for _ in 0..MAX_DEPTH {
            let mut deeper = Vec::new();
            for path in level {
                if left == 0 {
                    return files;
                }
                left -= 1;
                let Some(directory) = self.scan_directory(workspace, &path) else { continue };
                files.extend(directory.files.iter().cloned());
                deeper.extend(directory.directories.iter().cloned());
            }
            level = deeper;
        }
        files
    }

    fn scan_directory(
        &mut self,
        workspace: &Workspace,
        path: &ProjectPath,
    ) -> Option<&SecretDirectory> {
        let modified = workspace.metadata(path).ok()?.modified().ok();
        let known = self.directories.get(path.absolute());
        if modified.is_none() || known.is_none_or(|known| known.modified != modified) {
            let mut directory =
                SecretDirectory { modified, files: Vec::new(), directories: Vec::new() };
            let is_wanted = |name: &str, kind: FileKind| match kind {
                FileKind::File => is_secret_file(name),
                FileKind::Directory => !SKIPPED_DIRECTORIES.contains(&name),
                FileKind::Link | FileKind::Other => false,
            };
            let entries = workspace.list_matching_entries(path, MAX_ENTRIES, &is_wanted);
            for entry in entries.unwrap_or_default() {
                match entry.kind {
                    FileKind::Directory => directory.directories.push(entry.path),
                    _ => directory.files.push(entry.path),
                }
            }
            directory.directories.sort_by(|a, b| a.relative().cmp(b.relative()));
            self.directories.insert(path.absolute().to_path_buf(), directory);
        }
        self.directories.get(path.absolute())
    }
}
