//! Ignored files, which a walk does not return: `.env`, a local database, small directories of data. The names are
//! compared only in directories with more entries than the walk returned.

use std::collections::{HashMap, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::manifest::{PathName, ScannedPath, stat};
use agent_protocol::disk::repository::may_be_repository;

pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;
const MAX_PATHS: usize = 2_000;
/// Limit of the contents of ignored files in a manifest, in bytes.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Limit of the entries of one ignored directory among which repositories and links are looked for.
const MAX_SEARCHED: usize = 20_000;
/// Limit of the directories in one directory of build output among which repositories are looked for.
const MAX_SPARE_FOLDERS: usize = 50;

/// A directory that the walk entered, relative to the root, with its entries.
pub(super) struct VisitedDirectory {
    pub(super) name: Vec<u8>,
    pub(super) count: EntryCounts,
}

#[derive(Clone, Copy, Default)]
pub(super) struct EntryCounts {
    n_files: usize,
    n_directories: usize,
}

pub(super) struct IgnoredFiles {
    pub(super) paths: Vec<ScannedPath>,
    pub(super) found: FoundPlaces,
    /// The directories of the files that the limits exclude.
    pub(super) excluded: Vec<PathName>,
}

/// What decides which repository git uses, in ignored directories.
#[derive(Default)]
pub(super) struct FoundPlaces {
    /// Directories that contain `.git` or look like a git directory, or cannot be read.
    pub(super) repositories: Vec<PathBuf>,
    pub(super) links: Vec<Vec<u8>>,
    /// Ignored directories of which all entries were looked at.
    pub(super) searched: Vec<PathBuf>,
    /// Directories in them that were not entered, such as build output.
    left_out: Vec<Vec<u8>>,
}

/// Also returns whether the directory contains `.git` or looks like a git directory, or may because it cannot be read.
pub(super) fn count_entries(directory: &Path) -> (EntryCounts, bool) {
    let (mut count, mut has_git) = (EntryCounts::default(), false);
    let is_read = for_each_entry(directory, |name, kind| {
        has_git |= name == b".git" || name == b"HEAD" && may_be_repository(directory);
        if name != b".git" {
            count.add(kind == FileType::Directory);
        }
        true
    });
    (count, has_git || !is_read)
}

/// Finds the ignored files of each directory that the walk entered, and each ignored directory as a whole: what is not
/// among the sorted `met`. Directories with few come first: generated files must not exclude a `.env`.
pub(super) fn find_ignored(
    root: &Path,
    met: &[ScannedPath],
    entered: Vec<VisitedDirectory>,
    is_spare: impl Fn(&Path) -> bool,
) -> IgnoredFiles {
    let mut returned: HashMap<&[u8], EntryCounts> = HashMap::with_capacity(entered.len());
    // Entries of one directory mostly follow each other.
    let is_sibling = |a: &ScannedPath, b: &ScannedPath| parent(&a.name) == parent(&b.name);
    for siblings in met.chunk_by(is_sibling) {
        let count = returned.entry(parent(&siblings[0].name)).or_default();
        for met in siblings {
            let kind = FileType::from_raw_mode(met.stat.mode);
            if is_file(kind) || kind == FileType::Directory {
                count.add(kind == FileType::Directory);
            }
        }
    }
    let is_returned =
        |name: &[u8]| met.binary_search_by(|met| met.name.as_slice().cmp(name)).is_ok();
    let is_spare = |name: &[u8]| is_spare(Path::new(OsStr::from_bytes(name)));
    // Git may track a file in an ignored directory.
    let is_left_out = |name: &[u8]| is_returned(name) || is_spare(name);
    let mut directories: Vec<(Vec<u8>, Vec<Vec<u8>>)> = Vec::new();
    let (mut trees, mut found): (Vec<Vec<u8>>, _) = (Vec::new(), FoundPlaces::default());
    for VisitedDirectory { name: directory, count } in entered {
        let returned = returned.get(directory.as_slice()).copied().unwrap_or_default();
        if count.n_files <= returned.n_files && count.n_directories <= returned.n_directories {
            continue;
        }
        let mut names = Vec::new();
        for_each_entry(&root.join(OsStr::from_bytes(&directory)), |own, kind| {
            let name = join_path(&directory, own);
            if own == b".git" || is_returned(&name) {
                return true;
            }
            if kind == FileType::Directory && is_spare(&name) {
                // Its name does not make it one: a command can have ignored what the user keeps there.
                let mut inner = FoundPlaces::default();
                let mut n_left = MAX_SPARE_FOLDERS;
                _ = paths_in_tree(root, &name, &mut n_left, &is_returned, &mut inner);
                found.repositories.extend(inner.repositories);
                found.links.extend(inner.links);
            } else if !is_spare(&name) {
                found.links.extend(may_be_link(kind).then(|| name.clone()));
                let list = if kind == FileType::Directory { &mut trees } else { &mut names };
                list.push(name);
            }
            true
        });
        if !names.is_empty() {
            directories.push((directory, names));
        }
    }
    let (mut paths, mut excluded) = (Vec::new(), Vec::new());
    trees.sort_unstable();
    for mut tree in trees {
        let names = paths_in_tree(root, &tree, &mut MAX_SEARCHED.clone(), &is_left_out, &mut found);
        tree.push(b'/');
        match names {
            Some(names) => directories.push((tree, names)),
            None => excluded.push(PathName::new(&tree)),
        }
    }
    let mut n_left = MAX_SPARE_FOLDERS;
    for directory in std::mem::take(&mut found.left_out) {
        if n_left > 0 {
            let mut inner = FoundPlaces::default();
            _ = paths_in_tree(root, &directory, &mut n_left, &is_returned, &mut inner);
            found.repositories.extend(inner.repositories);
            found.links.extend(inner.links);
        }
    }
    directories.sort_unstable_by(|a, b| (a.1.len(), &a.0).cmp(&(b.1.len(), &b.0)));

    let mut n_bytes = 0;
    for (directory, names) in directories {
        if paths.len() + names.len() > MAX_PATHS {
            excluded.push(PathName::new(&directory));
            continue;
        }
        let own: Vec<ScannedPath> = names
            .into_iter()
            .filter_map(|name| {
                let stat = stat(&root.join(OsStr::from_bytes(&name))).ok()?;
                let kind = FileType::from_raw_mode(stat.mode);
                let is_covered = is_file(kind) || kind == FileType::Directory;
                is_covered.then_some(ScannedPath { name, stat, is_ignored: true })
            })
            .collect();
        let files = own.iter().filter(|met| met.stat.is_file()).map(|met| met.stat.size);
        let size: u64 = files.filter(|size| *size <= MAX_FILE_BYTES).sum();
        if n_bytes + size > MAX_BYTES {
            excluded.push(PathName::new(&directory));
            continue;
        }
        n_bytes += size;
        paths.extend(own);
    }
    IgnoredFiles { paths, found, excluded }
}

/// The directory comes first. `None` if there are too many paths, or if a repository is in it. What git could use is found
/// within other limits.
fn paths_in_tree(
    root: &Path,
    tree: &[u8],
    n_folders_left: &mut usize,
    is_left_out: &impl Fn(&[u8]) -> bool,
    found: &mut FoundPlaces,
) -> Option<Vec<Vec<u8>>> {
    let mut all = Some(vec![tree.to_vec()]);
    let mut todo = VecDeque::from([tree.to_vec()]);
    let (mut n_searched, n_left_out) = (0, found.left_out.len());
    while let Some(directory) = todo.pop_front() {
        let path = root.join(OsStr::from_bytes(&directory));
        let is_read = for_each_entry(&path, |name, kind| {
            n_searched += 1;
            if name == b".git" || name == b"HEAD" && may_be_repository(&path) {
                found.repositories.push(path.clone());
            }
            if name == b".git" {
                // Another person or agent may work in that repository; an undo must not revert their changes.
                all = None;
            }
            let is_git = name == b".git";
            let name = join_path(&directory, name);
            if kind == FileType::Directory && !is_git && is_left_out(&name) {
                found.left_out.push(name.clone());
            }
            if !is_git && !is_left_out(&name) {
                found.links.extend(may_be_link(kind).then(|| name.clone()));
                if kind == FileType::Directory {
                    todo.push_back(name.clone());
                }
                if let Some(all) = &mut all {
                    all.push(name.clone());
                }
                all.take_if(|all| all.len() > MAX_PATHS);
            }
            n_searched < MAX_SEARCHED
        });
        if !is_read {
            found.repositories.push(path);
        }
        *n_folders_left -= 1;
        if n_searched >= MAX_SEARCHED || *n_folders_left == 0 {
            return None;
        }
    }
    if found.left_out.len() == n_left_out {
        found.searched.push(root.join(OsStr::from_bytes(tree)));
    }
    all
}

impl EntryCounts {
    fn add(&mut self, is_directory: bool) {
        if is_directory { self.n_directories += 1 } else { self.n_files += 1 }
    }
}

fn is_file(kind: FileType) -> bool {
    matches!(kind, FileType::RegularFile | FileType::Symlink)
}

fn may_be_link(kind: FileType) -> bool {
    matches!(kind, FileType::Symlink | FileType::Unknown)
}

fn parent(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'/').map_or(b"", |at| &name[..at])
}

fn join_path(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// `take` gets the name of each file, link and directory, and its type, as long as it returns true. False if the
/// directory is there and cannot be read.
fn for_each_entry(directory: &Path, mut take: impl FnMut(&[u8], FileType) -> bool) -> bool {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, directory, flags, Mode::empty()).and_then(Dir::new);
    let is_read = !matches!(opened, Err(Errno::ACCESS));
    for entry in opened.into_iter().flatten().flatten() {
        let name = entry.file_name().to_bytes();
        let kind = entry.file_type();
        // Some file systems do not report the type.
        let is_covered = is_file(kind) || matches!(kind, FileType::Directory | FileType::Unknown);
        if is_covered && !matches!(name, b"." | b"..") && !take(name, kind) {
            break;
        }
    }
    is_read
}
