//! Finds git directories: those of a repository with its submodules and worktrees, and those in a project.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::GuardPlaces;
use super::config::{Setting, included_files};
use super::directory::{GitDirectoryState, unambiguous_directory};
use super::entry::{self, EntryState, FileId};
use super::stamp::Stamp;
use agent_protocol::disk::repository::{linked_directory, may_be_repository};
use agent_protocol::disk::{self, ResolvedPath, git_index};
use rustix::fs::AtFlags;

/// Limits: submodules and worktrees that are searched, and components of a submodule's name.
const MAX_GIT_DIRECTORIES: usize = 5000;
pub(super) const MAX_LEVELS: usize = 16;
/// Entries of directories that a search without the checkpoint's scan visits, below each root and below the target of each link.
pub(super) const MAX_ENTRIES: usize = 200_000;
pub(super) const MAX_ENTRIES_OF_LINK: usize = 20_000;
/// Limit of the contents of all git directories in memory; what a command makes beyond it is compared by hashes.
const MAX_CONTENT: usize = 64 << 20;
/// So many entries count for a directory in these limits.
const FOLDER_COST: usize = 20;

/// The state of the repositories of a session.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    pub(super) directories: BTreeMap<PathBuf, Arc<GitDirectoryState>>,
    pub(super) folders: BTreeMap<PathBuf, Arc<FolderState>>,
    listings: BTreeMap<PathBuf, Arc<Listing>>,
    indexes: BTreeMap<PathBuf, Arc<IndexState>>,
    /// `.git` files and links, links in place of git directories, what links and includes reach, and whole files of other
    /// version control systems.
    pub(super) files: BTreeMap<PathBuf, EntryState>,
    /// The directories that git takes for the repositories of `.git` files and links.
    pub(super) targets: BTreeMap<PathBuf, PathBuf>,
    /// Git directories that were there at an earlier comparison: they may have been moved.
    pub(super) gone: Vec<Arc<GitDirectoryState>>,
    /// There are more git directories than the limit.
    pub(super) is_incomplete: bool,
    /// Of all files in the git directories, in bytes.
    content_size: usize,
    /// Git directories whose submodules and worktrees are still to be found, and folders that are still to be added.
    unsearched: Vec<PathBuf>,
    unvisited: Vec<PathBuf>,
}

/// A directory of the project.
#[derive(Debug)]
pub(super) struct FolderState {
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
    /// Also the directory itself, if it is one.
    links: Vec<PathBuf>,
    stamp: Stamp,
}

/// The submodules that an index names, relative to the work tree; `None` if it cannot be read. The stamp is missing for a link, which git follows.
type IndexState = (Option<Vec<PathBuf>>, Option<Stamp>);

impl FolderState {
    fn read(folder: &Path) -> Option<Self> {
        let git = folder.join(".git");
        let stamps = [folder, &git].map(Stamp::take);
        let opened = entry::open_folder(folder).ok()?;
        let exists =
            |name: &str| rustix::fs::statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let has_layout = exists("objects") || exists("commondir");
        Some(Self { git: EntryState::read(&opened, ".git".as_ref()), has_layout, stamps })
    }
}

impl Listing {
    fn read(folder: &Path) -> Self {
        let stamp = Stamp::take(folder);
        let is_link = folder.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
        let (mut folders, mut links) = (Vec::new(), Vec::new());
        // Any number of files may be there.
        for entry in entry::read_folder(folder).filter(|_| !is_link) {
            if folders.len() + links.len() > 2 * MAX_GIT_DIRECTORIES {
                break;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_symlink() => links.push(entry.path()),
                Ok(_) | Err(_) => {}
            }
        }
        links.extend(is_link.then(|| folder.to_owned()));
        Self { folders, links, stamp }
    }
}

impl Snapshot {
    pub(super) fn take(
        places: &GuardPlaces,
        nested: &BTreeSet<PathBuf>,
        other_files: &[PathBuf],
        (known, is_quiet): (Option<&Self>, bool),
    ) -> Self {
        let nothing = Self::default();
        let earlier = known.filter(|_| is_quiet).unwrap_or(&nothing);
        let mut snapshot = Self::default();
        // Those of which a command could make thousands come after the known ones.
        let known = known.iter().flat_map(|known| known.directories.keys());
        for path in places.git_directories.iter().chain(known) {
            snapshot.add_directory(path, earlier);
        }
        snapshot.add_nested(nested, places);
        // The index of a repository around a root names what is in the root.
        let has_git = |folder: &&Path| folder.join(".git").symlink_metadata().is_ok();
        let tops = places.roots.iter().filter_map(|root| root.ancestors().find(has_git));
        snapshot.unvisited.extend(tops.map(Path::to_owned).chain(places.roots.iter().cloned()));
        while let Some(folder) = snapshot.unvisited.pop() {
            snapshot.add_folder(&folder, places, earlier);
        }
        while let Some(path) = snapshot.unsearched.pop() {
            snapshot.add_inner(&path, earlier);
        }
        for path in other_files {
            snapshot.files.insert(path.clone(), EntryState::Missing);
            if path.parent().is_some_and(|folder| folder.symlink_metadata().is_ok()) {
                snapshot.files.insert(path.clone(), read_path(path));
                snapshot.add_file(path, |path| places.is_writable(path));
            }
        }
        snapshot.add_reached();
        snapshot
    }

    /// Adds the files in git directories to which links and includes lead: git reads or runs them.
    fn add_reached(&mut self) {
        let states: Vec<_> = self.directories.values().cloned().collect();
        let is_of_git = |path: &Path| {
            path.iter().any(|name| name == ".git")
                || states.iter().any(|state| path.starts_with(state.path()))
        };
        let mut todo: Vec<PathBuf> = states.iter().flat_map(|it| &it.reached).cloned().collect();
        while let Some(path) = todo.pop() {
            if let Some(file) = self.add_file(&path, is_of_git) {
                let text = self.files.get(&file).and_then(EntryState::bytes).unwrap_or_default();
                todo.extend(included_files(&file, text));
            }
        }
    }

    /// Adds a file, and the links on the way to it. Returns where it is, if it is new.
    fn add_file(&mut self, path: &Path, is_compared: impl Fn(&Path) -> bool) -> Option<PathBuf> {
        let real = ResolvedPath::resolve(path, &[]);
        for link in real.links().iter().filter(|link| *link != path && is_compared(link)) {
            self.files.insert(link.clone(), read_path(link));
        }
        let is_new = is_compared(&real.path) && !real.path.is_dir();
        let earlier =
            is_new.then(|| self.files.insert(real.path.clone(), read_path(&real.path)))?;
        earlier.is_none_or(|it| it == EntryState::Missing).then_some(real.path)
    }

    /// Whether a file that a directory has may be changed by another name.
    pub(super) fn has_other_name(&self, path: &Path) -> bool {
        let mut stamps = self.directories.values().flat_map(|state| &state.stamps);
        stamps.any(|stamp| stamp.path == path && stamp.has_other_name)
    }

    /// Whether nothing was read again since an earlier snapshot, and all is as it was there.
    pub(super) fn is_same(&self, earlier: &Self) -> bool {
        let is_same = |(new, old): ((&PathBuf, &Arc<_>), (&PathBuf, &Arc<_>))| {
            new.0 == old.0 && Arc::ptr_eq(new.1, old.1)
        };
        self.directories.len() == earlier.directories.len()
            && self.directories.iter().zip(&earlier.directories).all(is_same)
            && (&self.files, &self.targets) == (&earlier.files, &earlier.targets)
    }

    /// This snapshot, with what the other has besides only if nothing of it is new or changed.
    pub(super) fn merge(mut self, now: Self) -> Self {
        let Self { folders, listings, indexes, is_incomplete, gone, .. } = now;
        (self.folders, self.listings, self.indexes) = (folders, listings, indexes);
        (self.is_incomplete, self.gone) = (is_incomplete, gone);
        self
    }

    /// A directory that was there, also if it was moved since.
    pub(super) fn by_id(&self, id: FileId) -> Option<&Arc<GitDirectoryState>> {
        self.directories.values().chain(&self.gone).find(|old| old.id == id)
    }

    /// Of the git directories that git can read.
    pub(super) fn settings(&self) -> BTreeMap<PathBuf, Vec<Setting>> {
        let directories = self.directories.iter();
        directories.filter_map(|(path, state)| Some((path.clone(), state.settings()?))).collect()
    }

    pub(super) fn file(&self, path: &Path) -> &EntryState {
        self.files.get(path).unwrap_or(&EntryState::Missing)
    }

    /// A link in the project may lead to a repository that commands cannot write, and that is none of ours.
    fn add_nested<'a>(
        &mut self,
        nested: impl IntoIterator<Item = &'a PathBuf>,
        places: &GuardPlaces,
    ) {
        self.unvisited.extend(nested.into_iter().filter(|path| places.is_writable(path)).cloned());
    }

    /// Its submodules follow.
    fn add_folder(&mut self, folder: &Path, places: &GuardPlaces, earlier: &Self) {
        if self.folders.contains_key(folder) {
            return;
        }
        let known = earlier.folders.get(folder);
        let known = known.filter(|known| known.stamps.iter().all(Stamp::is_current));
        let read = || FolderState::read(folder).map(Arc::new);
        let Some(state) = known.cloned().or_else(read) else {
            if ResolvedPath::resolve(folder, &[]).depends_on_process() {
                self.files.insert(folder.to_owned(), read_path(folder));
            }
            return;
        };
        if state.has_layout && may_be_repository(folder) {
            self.add_directory(folder, earlier);
        }
        let git = folder.join(".git");
        let mut add = |target: PathBuf| {
            if places.is_writable(&target) {
                self.add_directory(&target, earlier);
            }
            (self.directories.contains_key(&target), target)
        };
        let own = state.git.folder_id().map(|_| add(git.clone()).1);
        // One that was opened has no link in its path.
        let direct = state.git.bytes().and_then(|bytes| unambiguous_directory(&git, bytes));
        let direct = direct.map(&mut add);
        let direct = direct.filter(|(is_known, _)| *is_known);
        let target = direct.or_else(|| real_target(&git, &state.git).map(&mut add));
        let target = target.map(|(_, target)| target);
        self.targets.extend(target.clone().map(|target| (git.clone(), target)));
        self.files.insert(git, state.git.clone());
        self.folders.insert(folder.to_owned(), state);
        let Some(index) = own.or(target).map(|directory| directory.join("index")) else { return };
        let is_current = |known: &&Arc<IndexState>| known.1.as_ref().is_some_and(Stamp::is_current);
        let known = earlier.indexes.get(&index).filter(is_current).cloned();
        let state = known.unwrap_or_else(|| Arc::new(read_index(&index)));
        let names = state.0.as_ref().filter(|_| !self.has_object_format(&index));
        if let Some(names) = names {
            let submodules: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
            self.add_nested(&submodules, places);
        } else {
            self.add_nested(&search([folder.to_owned()].iter(), MAX_ENTRIES, places), places);
        }
        self.indexes.insert(index, state);
    }

    /// Whether git may read this index with longer object ids: by a setting of its directory, or of a common one.
    fn has_object_format(&self, index: &Path) -> bool {
        let mut directories =
            index.ancestors().skip(1).filter_map(|path| self.directories.get(path));
        directories.any(|state| state.has_object_format)
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
        // As before, so that the states can be compared.
        let known_state = earlier.directories.get(path);
        let has_room =
            known_state.map_or(self.content_size < MAX_CONTENT, |known| known.has_contents);
        let read = || {
            let state = GitDirectoryState::read(path)?;
            Some(Arc::new(if has_room { state } else { state.without_contents() }))
        };
        let Some(state) = known.cloned().or_else(read) else { return };
        self.content_size += state.content_size();
        self.directories.insert(path.to_owned(), state);
        self.unsearched.push(path.to_owned());
    }

    fn add_inner(&mut self, path: &Path, earlier: &Self) {
        let state = self.directories.get(path);
        let is_linked = state.is_some_and(|state| state.is_linked());
        let known = earlier.directories.get(path);
        let is_same = state.zip(known).is_some_and(|(state, known)| Arc::ptr_eq(state, known));
        // Git reads the configuration of a linked worktree in the directory above; it needs no `HEAD`.
        let common = path.parent().filter(|parent| is_linked && parent.ends_with("worktrees"));
        if let Some(common) = common.and_then(Path::parent) {
            self.add_directory(common, earlier);
        }
        // A linked worktree has its own submodules.
        self.add_modules(&path.join("modules"), is_same, 0, earlier);
        if !is_linked {
            for worktree in self.folders_in(&path.join("worktrees"), is_same, earlier) {
                self.add_directory(&worktree, earlier);
            }
        }
    }

    fn add_modules(&mut self, folder: &Path, is_same: bool, level: usize, earlier: &Self) {
        for path in self.folders_in(folder, is_same, earlier) {
            let is_known = earlier.directories.contains_key(&path);
            if is_known || path.join("HEAD").symlink_metadata().is_ok() || may_be_repository(&path)
            {
                self.add_directory(&path, earlier);
            } else if level < MAX_LEVELS {
                self.add_modules(&path, false, level + 1, earlier);
            }
        }
    }

    /// A link, which git would follow, counts as a file. `is_same`: the directory that contains the folder did not change.
    fn folders_in(&mut self, folder: &Path, is_same: bool, earlier: &Self) -> Vec<PathBuf> {
        let known = earlier.listings.get(folder);
        // What was missing there is.
        if is_same && known.is_none() {
            return Vec::new();
        }
        let known = known.filter(|known| known.stamp.is_current());
        let listing = known.cloned().unwrap_or_else(|| Arc::new(Listing::read(folder)));
        let links = listing.links.iter();
        self.files.extend(links.map(|link| (link.clone(), read_path(link))));
        self.is_incomplete |= listing.folders.len() + listing.links.len() > MAX_GIT_DIRECTORIES;
        let folders = listing.folders.clone();
        if listing.stamp.state.is_some() {
            self.listings.insert(folder.to_owned(), listing);
        }
        folders
    }
}

/// The directory that git takes for the repository of this `.git`, without links in its path.
fn real_target(git: &Path, state: &EntryState) -> Option<PathBuf> {
    // Where it leads each process elsewhere, no directory is meant that could be accepted.
    let resolve = |path: &Path| {
        let real = ResolvedPath::resolve(path, &[]);
        if real.depends_on_process() { PathBuf::from("/proc") } else { real.path }
    };
    let named = match state {
        EntryState::File { bytes, .. } => linked_directory(git, bytes)?,
        // Git follows a link to a `.git` file, too, from where the link is.
        EntryState::Link(_) => {
            let target = resolve(git);
            match disk::read_small(&target, disk::SMALL_FILE_LIMIT) {
                Ok(bytes) => linked_directory(git, &bytes)?,
                Err(_) => target,
            }
        }
        EntryState::Missing | EntryState::Directory(_) | EntryState::Other(_) => return None,
    };
    Some(resolve(&named)).filter(|target| target.is_dir())
}

/// Directories that contain `.git` or look like a git directory, whatever ignore rules say, within a limit for each start.
/// Links are followed out of it and into `.git`: they are found, too, and all directories above their targets.
pub(super) fn search<'a>(
    starts: impl Iterator<Item = &'a PathBuf>,
    limit: usize,
    places: &GuardPlaces,
) -> BTreeSet<PathBuf> {
    let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
    for start in starts {
        let (mut n_left, mut links, mut open) = (limit, vec![start.clone()], VecDeque::new());
        loop {
            for link in links.drain(..) {
                let real = ResolvedPath::resolve(&link, &[]);
                if real.depends_on_process() {
                    found.insert(link);
                    continue;
                }
                let target = real.path;
                if !places.is_writable(&target) || !target.is_dir() || !seen.insert(target.clone())
                {
                    continue;
                }
                let above = target.ancestors().take_while(|path| places.is_writable(path));
                found.extend(above.map(Path::to_owned).chain([link]));
                open.push_back(target);
            }
            let Some(folder) = open.pop_front() else { break };
            let is_below = |target: &Path| {
                target.starts_with(start) && !target.iter().any(|name| name == ".git")
            };
            for entry in entry::read_folder(&folder).take(n_left) {
                let name = entry.file_name();
                let kind = entry.file_type();
                if name == ".git" || name == "HEAD" && may_be_repository(&folder) {
                    found.insert(folder.clone());
                } else if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
                    open.push_back(entry.path());
                } else if kind.is_ok_and(|kind| kind.is_symlink()) {
                    let real = ResolvedPath::resolve(&entry.path(), &[]);
                    let is_left = real.depends_on_process() || !is_below(&real.path);
                    links.extend(is_left.then(|| entry.path()));
                }
                n_left = n_left.saturating_sub(1);
            }
            n_left = n_left.saturating_sub(FOLDER_COST);
            if n_left == 0 {
                break;
            }
        }
    }
    found
}

fn read_index(index: &Path) -> IndexState {
    if index.is_symlink() {
        // It may lead each process elsewhere.
        return (None, None);
    }
    let stamp = Stamp::take(index);
    let mut submodules = Vec::new();
    let read = git_index::read(index, |entry| {
        let name = entry.is_submodule().then(|| OsStr::from_bytes(entry.name));
        submodules.extend(name.map(PathBuf::from));
    });
    (read.map(|()| submodules), Some(stamp))
}

/// Without following a link.
pub(super) fn read_path(path: &Path) -> EntryState {
    if path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
        return EntryState::Missing;
    }
    let folder = path.parent().and_then(|parent| entry::open_folder(parent).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => EntryState::read(&folder, name),
        _ => EntryState::Missing,
    }
}
