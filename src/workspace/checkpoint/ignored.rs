//! Ignored files in directories that are not ignored: `.env`, a local database, notes.
//!
//! A walk that honours ignore files does not return them. The entries of each directory that it entered are
//! counted, and only those of a directory with more entries than it returned are compared by name.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags};

use super::manifest::{Met, stat};

/// Limit: size of an ignored file that is covered.
pub(super) const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Limit: ignored files in a manifest.
const MAX_FILES: usize = 2_000;
/// Limit: contents of ignored files in a manifest.
const MAX_BYTES: u64 = 16 * 1024 * 1024;

/// A directory that the walk entered, relative to the root, with its number of files and links.
pub(super) type Entered = (Vec<u8>, usize);

/// The ignored files of a project.
pub(super) struct Ignored {
    pub(super) met: Vec<Met>,
    /// There are more, which the limits exclude.
    pub(super) is_cut: bool,
}

/// The number of files and links in a directory.
pub(super) fn count(directory: &Path) -> usize {
    let mut n = 0;
    each(directory, |_| n += 1);
    n
}

/// Finds the files that are not among the sorted `met`. Directories with few of them come first, so that a
/// heap of generated files does not displace a `.env`.
pub(super) fn find(
    root: &Path,
    met: &[Met],
    entered: Vec<Entered>,
    is_excluded: impl Fn(&Path) -> bool,
) -> Ignored {
    let mut returned: HashMap<&[u8], usize> = HashMap::with_capacity(entered.len());
    let mut run: (&[u8], usize) = (b"", 0);
    for met in met.iter().filter(|met| is_file(FileType::from_raw_mode(met.stat.mode))) {
        let parent = parent(&met.name);
        if parent != run.0 {
            *returned.entry(run.0).or_default() += run.1;
            run = (parent, 0);
        }
        run.1 += 1;
    }
    *returned.entry(run.0).or_default() += run.1;

    let mut directories: Vec<(Vec<u8>, Vec<Vec<u8>>)> = Vec::new();
    for (directory, n) in entered {
        if returned.get(directory.as_slice()).is_some_and(|returned| n <= *returned) || n == 0 {
            continue;
        }
        let mut names = Vec::new();
        each(&root.join(OsStr::from_bytes(&directory)), |name| {
            let name = match directory.as_slice() {
                [] => name.to_vec(),
                directory => [directory, b"/", name].concat(),
            };
            let is_returned = met.binary_search_by(|met| met.name.cmp(&name)).is_ok();
            if !is_returned && !is_excluded(Path::new(OsStr::from_bytes(&name))) {
                names.push(name);
            }
        });
        if !names.is_empty() {
            directories.push((directory, names));
        }
    }
    directories.sort_unstable_by(|a, b| (a.1.len(), &a.0).cmp(&(b.1.len(), &b.0)));

    let mut ignored = Ignored { met: Vec::new(), is_cut: false };
    let mut n_bytes = 0;
    for (_, names) in directories {
        if ignored.met.len() + names.len() > MAX_FILES {
            ignored.is_cut = true;
            break;
        }
        let own: Vec<Met> = names
            .into_iter()
            .filter_map(|name| {
                let stat = stat(&root.join(OsStr::from_bytes(&name))).ok()?;
                is_file(FileType::from_raw_mode(stat.mode)).then_some(Met {
                    name,
                    stat,
                    is_ignored: true,
                })
            })
            .collect();
        let sizes = own.iter().map(|met| met.stat.size).filter(|size| *size <= MAX_FILE_BYTES);
        let size: u64 = sizes.sum();
        if n_bytes + size > MAX_BYTES {
            ignored.is_cut = true;
            continue;
        }
        n_bytes += size;
        ignored.met.extend(own);
    }
    ignored
}

fn is_file(kind: FileType) -> bool {
    matches!(kind, FileType::RegularFile | FileType::Symlink)
}

fn parent(name: &[u8]) -> &[u8] {
    name.iter().rposition(|byte| *byte == b'/').map_or(b"", |at| &name[..at])
}

/// Calls `take` with the name of each file and link in a directory.
fn each(directory: &Path, mut take: impl FnMut(&[u8])) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(CWD, directory, flags, Mode::empty()).and_then(Dir::new);
    for entry in opened.into_iter().flatten().flatten() {
        let name = entry.file_name().to_bytes();
        // (Some file systems do not know the type.)
        if (is_file(entry.file_type()) || entry.file_type() == FileType::Unknown)
            && !matches!(name, b"." | b".." | b".git")
        {
            take(name);
        }
    }
}
