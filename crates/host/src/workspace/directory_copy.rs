//! Copies files and directories of a project to another place.

use std::fs::{self, FileTimes};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;

/// A thread copies at least this number of files.
const MIN_SHARE: usize = 256;

/// Copies these paths of a directory into another, with modes and times, on several threads. The file system shares the
/// contents where it can. Follows no links; a path that is missing or below a link is skipped, and so are sockets and
/// devices, and `.git` in a copied directory.
pub fn copy_paths(from: &Path, to: &Path, paths: &[PathBuf]) -> io::Result<()> {
    let n_threads = thread::available_parallelism().map_or(1, usize::from);
    let share = paths.len().div_ceil(n_threads).max(MIN_SHARE);
    thread::scope(|scope| {
        let copy = |part: &[PathBuf]| {
            let (mut parent, mut is_there) = (PathBuf::new(), true);
            part.iter().try_for_each(|path| {
                let above = path.parent().unwrap_or(Path::new(""));
                if parent != above {
                    // What was a directory may be a file or a link now.
                    is_there = from.join(above).is_dir() && !is_below_link(from, path);
                    if is_there {
                        fs::create_dir_all(to.join(above))?;
                    }
                    above.clone_into(&mut parent);
                }
                if !is_there {
                    return Ok(());
                }
                copy_tree(&from.join(path), &to.join(path), &is_git)
            })
        };
        let running: Vec<_> =
            paths.chunks(share).map(|part| scope.spawn(move || copy(part))).collect();
        let failed = || Err(io::Error::other("a thread failed"));
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| failed()))
    })
}

/// Copies everything in a directory to a new one.
pub fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    copy_tree(from, to, &|_| false)
}

/// Whether a copy of this file in that directory would share its content (`ioctl_ficlone(2)`). Tries it.
pub fn shares_content(file: &Path, directory: &Path) -> bool {
    let try_clone = || -> io::Result<()> {
        let copy = tempfile::NamedTempFile::new_in(directory)?;
        Ok(rustix::fs::ioctl_ficlone(copy, fs::File::open(file)?)?)
    };
    try_clone().is_ok()
}

/// Whether a directory above the path, below `root`, is a link.
pub fn is_below_link(root: &Path, path: &Path) -> bool {
    path.ancestors().skip(1).any(|above| above != Path::new("") && root.join(above).is_symlink())
}

fn is_git(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == ".git")
}

/// Copies a file, a link or a directory, without the entries that are left out.
pub(super) fn copy_tree(
    from: &Path,
    to: &Path,
    is_left_out: &dyn Fn(&Path) -> bool,
) -> io::Result<()> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", from.display()));
    let metadata = match from.symlink_metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(named(error)),
    };
    if metadata.is_symlink() {
        return symlink(fs::read_link(from).map_err(named)?, to).map_err(named);
    }
    if metadata.is_dir() {
        fs::create_dir_all(to).map_err(named)?;
        for entry in fs::read_dir(from).map_err(named)? {
            let entry = entry.map_err(named)?;
            if !is_left_out(&entry.path()) {
                copy_tree(&entry.path(), &to.join(entry.file_name()), is_left_out)?;
            }
        }
        return fs::set_permissions(to, metadata.permissions()).map_err(named);
    }
    if metadata.is_file() {
        fs::copy(from, to).map_err(named)?;
        // Programs like make compare times.
        let times = FileTimes::new().set_modified(metadata.modified()?);
        // A file that may not be opened keeps the time of the copy.
        if let Ok(copy) = fs::File::options().read(true).open(to) {
            _ = copy.set_times(times);
        }
    }
    Ok(())
}
