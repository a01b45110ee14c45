//! Finds git directories: those of a repository with its submodules and worktrees, and those in a project.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::directory::{GitDirectoryState, linked_directory};
use super::entry::EntryState;
use agent_protocol::disk::{self, repository};

/// Limits: submodules and worktrees that are searched, and components of a submodule's name.
const MAX_GIT_DIRECTORIES: usize = 2000;
const MAX_LEVELS: usize = 4;

/// The state of the repositories of a session.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) directories: BTreeMap<PathBuf, GitDirectoryState>,
    /// `.git` files and links, and whole files of other version control systems.
    pub(super) files: BTreeMap<PathBuf, EntryState>,
}

/// Where repositories may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct SearchPlaces<'a> {
    /// The writable directories, canonical.
    pub(super) roots: &'a [PathBuf],
    /// Git directories of the session's repositories.
    pub(super) known: &'a [PathBuf],
    /// Directories in the roots that contain `.git`, or look like a git directory.
    pub(super) nested: &'a BTreeSet<PathBuf>,
    pub(super) other_files: &'a [PathBuf],
}

impl Snapshot {
    pub(super) fn take(places: SearchPlaces<'_>) -> Self {
        let mut snapshot = Self::default();
        for path in places.known {
            snapshot.add_directory(path);
        }
        for folder in places.roots.iter().chain(places.nested) {
            snapshot.add_folder(folder, places);
        }
        for path in places.other_files {
            snapshot.files.insert(path.clone(), read_path(path));
        }
        snapshot
    }

    fn add_folder(&mut self, folder: &Path, places: SearchPlaces<'_>) {
        if repository::looks_like_repository(folder) {
            self.add_directory(folder);
        }
        let git = folder.join(".git");
        let state = read_path(&git);
        let target = match &state {
            EntryState::Directory(_) => return self.add_directory(&git),
            EntryState::File { bytes, .. } => linked_directory(&git, bytes),
            EntryState::Link(_) => git.canonicalize().ok(),
            EntryState::Missing | EntryState::Other => None,
        };
        let is_writable = |path: &Path| {
            places.roots.iter().chain(places.known).any(|root| path.starts_with(root))
        };
        if let Some(target) = target.filter(|target| is_writable(target)) {
            self.add_directory(&target);
        }
        self.files.insert(git, state);
    }

    /// With its submodules and worktrees.
    fn add_directory(&mut self, path: &Path) {
        if self.directories.contains_key(path) || self.directories.len() >= MAX_GIT_DIRECTORIES {
            return;
        }
        let Some(state) = GitDirectoryState::read(path) else { return };
        let is_linked = state.is_linked();
        self.directories.insert(path.to_owned(), state);
        if is_linked {
            return;
        }
        for worktree in folders_in(&path.join("worktrees")) {
            self.add_directory(&worktree);
        }
        self.add_modules(&path.join("modules"), 0);
    }

    fn add_modules(&mut self, folder: &Path, level: usize) {
        for path in folders_in(folder) {
            if path.join("HEAD").symlink_metadata().is_ok()
                || repository::looks_like_repository(&path)
            {
                self.add_directory(&path);
            } else if level < MAX_LEVELS {
                self.add_modules(&path, level + 1);
            }
        }
    }
}

/// Without following a link.
pub(super) fn read_path(path: &Path) -> EntryState {
    let folder = path.parent().and_then(|parent| disk::open_folder(parent).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => EntryState::read(&folder, name),
        _ => EntryState::Missing,
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.take(MAX_GIT_DIRECTORIES).map(|entry| entry.path()).collect()
}
