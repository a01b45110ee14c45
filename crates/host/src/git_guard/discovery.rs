//! Finds git directories: those of a repository with its submodules and worktrees, and those in a project.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::GuardPlaces;
use super::config::Setting;
use super::directory::{GitDirectoryState, linked_directory, unambiguous_directory};
use super::entry::EntryState;
use super::stamp::Stamp;
use agent_protocol::disk::{self, repository};
use rustix::fs::AtFlags;

/// Limits: submodules and worktrees that are searched, and components of a submodule's name.
const MAX_GIT_DIRECTORIES: usize = 5000;
const MAX_LEVELS: usize = 16;
/// Directories, and their entries, that a search without the checkpoint's scan visits.
const MAX_FOLDERS: usize = 10_000;
const MAX_ENTRIES: usize = 200_000;

/// The state of the repositories of a session.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) directories: BTreeMap<PathBuf, Arc<GitDirectoryState>>,
    folders: BTreeMap<PathBuf, Arc<FolderState>>,
    listings: BTreeMap<PathBuf, Arc<Listing>>,
    /// `.git` files and links, links in place of git directories, and whole files of other version control systems.
    pub(super) files: BTreeMap<PathBuf, EntryState>,
    /// Git directories that were there at an earlier comparison: they may have been moved.
    pub(super) gone: Vec<Arc<GitDirectoryState>>,
    /// There are more git directories than the limit.
    pub(super) is_incomplete: bool,
    /// Git directories whose submodules and worktrees are still to be found.
    unsearched: Vec<PathBuf>,
}

/// A directory of the project.
#[derive(Debug)]
struct FolderState {
    /// The entry `.git`.
    git: EntryState,
    /// Whether it has entries of a git directory; their contents are looked at each time.
    has_layout: bool,
    stamps: [Stamp; 2],
}

/// The directories and links in `modules` or `worktrees`.
#[derive(Debug)]
struct Listing {
    folders: Vec<PathBuf>,
    links: Vec<PathBuf>,
    is_link: bool,
    stamp: Stamp,
}

impl FolderState {
    fn read(folder: &Path) -> Option<Self> {
        let git = folder.join(".git");
        let stamps = [folder, &git].map(Stamp::take);
        let opened = disk::open_folder(folder).ok()?;
        let exists =
            |name: &str| rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let has_layout = exists("objects") || exists("commondir");
        Some(Self { git: EntryState::read(&opened, ".git".as_ref()), has_layout, stamps })
    }
}

impl Listing {
    fn read(folder: &Path) -> Self {
        let stamp = Stamp::take(folder);
        if stamp.is_missing() {
            return Self { folders: Vec::new(), links: Vec::new(), is_link: false, stamp };
        }
        let is_link = folder.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let (mut folders, mut links) = (Vec::new(), Vec::new());
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|_| !is_link).take(2 * MAX_GIT_DIRECTORIES) {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_symlink() => links.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
        Self { folders, links, is_link, stamp }
    }
}

impl Snapshot {
    pub(super) fn take(
        places: &GuardPlaces,
        nested: &BTreeSet<PathBuf>,
        other_files: &[PathBuf],
        earlier: Option<&Self>,
    ) -> Self {
        let nothing = Self::default();
        let earlier = earlier.unwrap_or(&nothing);
        let mut snapshot = Self::default();
        for path in &places.git_directories {
            snapshot.add_directory(path, earlier);
        }
        // A link in the project may lead to a repository that commands cannot write, and that is none of ours.
        let is_writable =
            |path: &&PathBuf| places.writable.iter().any(|root| path.starts_with(root));
        for folder in places.roots.iter().chain(nested.iter().filter(is_writable)) {
            snapshot.add_folder(folder, places, earlier);
        }
        // Those that a command could make by the thousand come last.
        while let Some(path) = snapshot.unsearched.pop() {
            snapshot.add_inner(&path, earlier);
        }
        for path in other_files {
            snapshot.files.insert(path.clone(), read_path(path));
        }
        snapshot
    }

    /// This snapshot, with what the other has besides only if nothing of it is new or changed.
    pub(super) fn merge(mut self, now: Self) -> Self {
        let Self { folders, listings, is_incomplete, gone, .. } = now;
        (self.folders, self.listings) = (folders, listings);
        (self.is_incomplete, self.gone) = (is_incomplete, gone);
        self
    }

    /// Of the git directories that git can read.
    pub(super) fn settings(&self) -> BTreeMap<PathBuf, Vec<Setting>> {
        let directories = self.directories.iter();
        directories.filter_map(|(path, state)| Some((path.clone(), state.settings()?))).collect()
    }

    pub(super) fn file(&self, path: &Path) -> &EntryState {
        self.files.get(path).unwrap_or(&EntryState::Missing)
    }

    fn add_folder(&mut self, folder: &Path, places: &GuardPlaces, earlier: &Self) {
        let known = earlier.folders.get(folder);
        let known = known.filter(|known| known.stamps.iter().all(Stamp::is_current));
        let read = || FolderState::read(folder).map(Arc::new);
        let Some(state) = known.cloned().or_else(read) else { return };
        if state.has_layout && repository::may_be_repository(folder) {
            self.add_directory(folder, earlier);
        }
        let git = folder.join(".git");
        if let EntryState::Directory(_) = state.git {
            self.add_directory(&git, earlier);
        }
        let is_writable = |path: &Path| places.writable.iter().any(|root| path.starts_with(root));
        let direct = unambiguous_target(&git, &state.git).filter(|target| is_writable(target));
        if let Some(target) = &direct {
            self.add_directory(target, earlier);
        }
        // One that was opened has no link in its path.
        if !direct.is_some_and(|target| self.directories.contains_key(&target)) {
            for target in targets(&git, &state.git).into_iter().filter(|it| is_writable(it)) {
                self.add_directory(&target, earlier);
            }
        }
        self.files.insert(git, state.git.clone());
        self.folders.insert(folder.to_owned(), state);
    }

    /// Its submodules and worktrees follow.
    fn add_directory(&mut self, path: &Path, earlier: &Self) {
        if self.directories.contains_key(path) {
            return;
        }
        if self.directories.len() >= MAX_GIT_DIRECTORIES {
            self.is_incomplete = true;
            return;
        }
        let known = earlier.directories.get(path).filter(|known| known.is_current());
        let read = || GitDirectoryState::read(path).map(Arc::new);
        let Some(state) = known.cloned().or_else(read) else { return };
        self.directories.insert(path.to_owned(), state);
        self.unsearched.push(path.to_owned());
    }

    fn add_inner(&mut self, path: &Path, earlier: &Self) {
        let state = self.directories.get(path);
        let is_linked = state.is_some_and(|state| state.is_linked());
        let known = earlier.directories.get(path);
        let is_same = state.zip(known).is_some_and(|(state, known)| Arc::ptr_eq(state, known));
        // In a directory that did not change, what was missing is.
        for inner in ["modules", "worktrees"].map(|name| path.join(name)) {
            let known = earlier.listings.get(&inner).filter(|it| is_same && it.stamp.is_missing());
            if let Some(missing) = known {
                self.listings.insert(inner, Arc::clone(missing));
            }
        }
        // Git reads the configuration of a linked worktree in the directory above; it needs no `HEAD`.
        let common = path.parent().filter(|parent| is_linked && parent.ends_with("worktrees"));
        if let Some(common) = common.and_then(Path::parent) {
            self.add_directory(common, earlier);
        }
        // A linked worktree has its own submodules.
        self.add_modules(&path.join("modules"), 0, earlier);
        if !is_linked {
            for worktree in self.folders_in(&path.join("worktrees"), earlier) {
                self.add_directory(&worktree, earlier);
            }
        }
    }

    fn add_modules(&mut self, folder: &Path, level: usize, earlier: &Self) {
        for path in self.folders_in(folder, earlier) {
            let is_known = earlier.directories.contains_key(&path);
            if is_known
                || path.join("HEAD").symlink_metadata().is_ok()
                || repository::may_be_repository(&path)
            {
                self.add_directory(&path, earlier);
            } else if level < MAX_LEVELS {
                self.add_modules(&path, level + 1, earlier);
            }
        }
    }

    /// A link, which git would follow, counts as a file.
    fn folders_in(&mut self, folder: &Path, earlier: &Self) -> Vec<PathBuf> {
        let known = earlier.listings.get(folder).filter(|known| known.stamp.is_current());
        let known = self.listings.get(folder).or(known);
        let listing = known.cloned().unwrap_or_else(|| Arc::new(Listing::read(folder)));
        let links = listing.links.iter().map(PathBuf::as_path);
        for link in links.chain(listing.is_link.then_some(folder)) {
            self.files.insert(link.to_owned(), read_path(link));
        }
        self.is_incomplete |= listing.folders.len() > MAX_GIT_DIRECTORIES;
        let folders = listing.folders.clone();
        self.listings.insert(folder.to_owned(), listing);
        folders
    }
}

/// The directory that a `.git` file names in a way that leads through no link unless it is one.
pub(super) fn unambiguous_target(git: &Path, state: &EntryState) -> Option<PathBuf> {
    unambiguous_directory(git, state.bytes()?)
}

/// The directories that git may take for the repository of this `.git`: as written, and through links.
pub(super) fn targets(git: &Path, state: &EntryState) -> Vec<PathBuf> {
    let real = |path: &Path| path.canonicalize().ok();
    let mut found: Vec<PathBuf> = match state {
        EntryState::File { bytes, .. } => linked_directory(git, bytes).into_iter().collect(),
        EntryState::Link(_) => {
            let target = real(git);
            // Git follows a link to a `.git` file, too, from where the link is.
            let bytes =
                target.as_ref().and_then(|it| disk::read_small(it, disk::SMALL_FILE_LIMIT).ok());
            let inner = bytes.and_then(|bytes| linked_directory(git, &bytes));
            target.into_iter().chain(inner).collect()
        }
        EntryState::Missing | EntryState::Directory(_) | EntryState::Other(_) => Vec::new(),
    };
    found.extend(found.clone().iter().filter_map(|path| real(path)));
    found.sort();
    found.dedup();
    found
}

/// Directories that contain `.git` or look like a git directory, whatever ignore rules say, within a limit.
pub(super) fn search(root: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut n_entries) = (BTreeSet::new(), 0);
    let mut open = VecDeque::from([root.to_owned()]);
    for _ in 0..MAX_FOLDERS {
        let Some(folder) = open.pop_front() else { break };
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            n_entries += 1;
            if n_entries > MAX_ENTRIES {
                return found;
            }
            let name = entry.file_name();
            if name == ".git" || name == "HEAD" && repository::may_be_repository(&folder) {
                found.insert(folder.clone());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                open.push_back(entry.path());
            }
        }
    }
    found
}

/// Without following a link.
pub(super) fn read_path(path: &Path) -> EntryState {
    if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return EntryState::Missing;
    }
    let folder = path.parent().and_then(|parent| disk::open_folder(parent).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => EntryState::read(&folder, name),
        _ => EntryState::Missing,
    }
}
