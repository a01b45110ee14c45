//! Ignored files: `.env`, a local database, notes, small directories of data.
//!
//! A walk that honours ignore files does not return them. The entries of each directory that it entered are
//! counted, and only those of a directory with more entries than it returned are compared by name.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};

use super::manifest::{Met, Name, stat};

/// Limit: size of an ignored file that is covered.
pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Limit: ignored paths in a manifest.
const MAX_PATHS: usize = 2_000;
/// Limit: contents of ignored files in a manifest.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// Limit: paths that are looked at in ignored directories.
const MAX_SEARCHED: usize = 20_000;

/// A directory that the walk entered, relative to the root, with what is in it.
pub(super) struct Entered {
    pub(super) name: Vec<u8>,
    pub(super) count: Count,
}

/// The numbers of entries of a directory.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    /// Files and links.
    n_files: usize,
    n_directories: usize,
}

/// The ignored files of a project.
pub(super) struct Ignored {
    pub(super) met: Vec<Met>,
    /// The directories of those that the limits exclude.
    pub(super) excluded: Vec<Name>,
}

/// Counts the entries of a directory.
pub(super) fn count(directory: &Path) -> Count {
    let mut count = Count::default();
    each(directory, |_, is_directory| {
        count.add(is_directory);
        true
    });
    count
}

/// Finds the paths that are not among the sorted `met`: for each directory that the walk entered the ignored files in
/// it, and each ignored directory as a whole. Directories with few of them come first, so that many generated
/// files do not exclude a `.env`.
pub(super) fn find(
    root: &Path,
    met: &[Met],
    entered: Vec<Entered>,
    is_spare: impl Fn(&Path) -> bool,
) -> Ignored {
    let mut returned: HashMap<&[u8], Count> = HashMap::with_capacity(entered.len());
    // Entries of one directory mostly follow each other.
    let is_sibling = |a: &Met, b: &Met| parent(&a.name) == parent(&b.name);
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
    // (git may track a file in an ignored directory.)
    let is_left_out =
        |name: &[u8]| is_returned(name) || is_spare(Path::new(OsStr::from_bytes(name)));
    // Each with its paths.
    let mut directories: Vec<(Vec<u8>, Vec<Vec<u8>>)> = Vec::new();
    let mut trees: Vec<Vec<u8>> = Vec::new();
    for Entered { name: directory, count } in entered {
        let returned = returned.get(directory.as_slice()).copied().unwrap_or_default();
        if count.n_files <= returned.n_files && count.n_directories <= returned.n_directories {
            continue;
        }
        let mut names = Vec::new();
        each(&root.join(OsStr::from_bytes(&directory)), |name, is_directory| {
            let name = joined(&directory, name);
            if !is_left_out(&name) {
                if is_directory { trees.push(name) } else { names.push(name) }
            }
            true
        });
        if !names.is_empty() {
            directories.push((directory, names));
        }
    }
    let mut ignored = Ignored { met: Vec::new(), excluded: Vec::new() };
    let mut n_searched = 0;
    trees.sort_unstable();
    for mut tree in trees {
        let names = all_in(root, &tree, &is_left_out, &mut n_searched);
        tree.push(b'/');
        match names {
            Some(names) => directories.push((tree, names)),
            None => ignored.excluded.push(Name::new(&tree)),
        }
    }
    directories.sort_unstable_by(|a, b| (a.1.len(), &a.0).cmp(&(b.1.len(), &b.0)));

    let mut n_bytes = 0;
    for (directory, names) in directories {
        if ignored.met.len() + names.len() > MAX_PATHS {
            ignored.excluded.push(Name::new(&directory));
            continue;
        }
        let own: Vec<Met> = names
            .into_iter()
            .filter_map(|name| {
                let stat = stat(&root.join(OsStr::from_bytes(&name))).ok()?;
                let kind = FileType::from_raw_mode(stat.mode);
                let is_wanted = is_file(kind) || kind == FileType::Directory;
                is_wanted.then_some(Met { name, stat, is_ignored: true })
            })
            .collect();
        let files = own.iter().filter(|met| met.stat.is_file()).map(|met| met.stat.size);
        let size: u64 = files.filter(|size| *size <= MAX_FILE_BYTES).sum();
        if n_bytes + size > MAX_BYTES {
            ignored.excluded.push(Name::new(&directory));
            continue;
        }
        n_bytes += size;
        ignored.met.extend(own);
    }
    ignored
}

/// The paths of an ignored directory, itself first. `None`: there are too many, or a repository is in it.
fn all_in(
    root: &Path,
    tree: &[u8],
    is_left_out: &impl Fn(&[u8]) -> bool,
    n_searched: &mut usize,
) -> Option<Vec<Vec<u8>>> {
    let mut all = vec![tree.to_vec()];
    let mut todo = vec![tree.to_vec()];
    while let Some(directory) = todo.pop() {
        let path = root.join(OsStr::from_bytes(&directory));
        // Another person or agent may work in that repository; an undo must not revert their changes.
        if path.join(".git").symlink_metadata().is_ok() {
            return None;
        }
        each(&path, |name, is_directory| {
            *n_searched += 1;
            let name = joined(&directory, name);
            if !is_left_out(&name) {
                if is_directory {
                    todo.push(name.clone());
                }
                all.push(name);
            }
            all.len() <= MAX_PATHS && *n_searched <= MAX_SEARCHED
        });
        if all.len() > MAX_PATHS || *n_searched > MAX_SEARCHED {
            return None;
        }
    }
    Some(all)
}

impl Count {
    fn add(&mut self, is_directory: bool) {
        if is_directory { self.n_directories += 1 } else { self.n_files += 1 }
    }
}

fn is_file(kind: FileType) -> bool {
    matches!(kind, FileType::RegularFile | FileType::Symlink)
}

fn parent(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'/').map_or(b"", |at| &name[..at])
}

fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() { name.to_vec() } else { [directory, b"/", name].concat() }
}

/// Calls `take` with the name of each file, link and directory in a directory, and whether it is a directory, as long as
/// it returns true.
fn each(directory: &Path, mut take: impl FnMut(&[u8], bool) -> bool) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, directory, flags, Mode::empty()).and_then(Dir::new);
    for entry in opened.into_iter().flatten().flatten() {
        let name = entry.file_name().to_bytes();
        let kind = entry.file_type();
        // (Some file systems do not know the type.)
        let is_wanted = is_file(kind) || matches!(kind, FileType::Directory | FileType::Unknown);
        if is_wanted
            && !matches!(name, b"." | b".." | b".git")
            && !take(name, kind == FileType::Directory)
        {
            return;
        }
    }
}
