//! What is git's own in a project, by whatever name: a repository is known by its looks, as git knows one.

use std::fs;
use std::path::Path;

use crate::disk::repository::{
    FOLDERS, FOLDERS_AT_TIMES, FOLDERS_WITH_TREES, is_file, is_one_of, looks_like_one,
};

/// The repository in which git keeps this itself, if that lies in this root, or is it. What people keep beside that is
/// theirs: worktrees, a README. Nothing is looked at in most folders.
pub(super) fn keeping<'a>(path: &'a Path, root: &Path) -> Option<&'a Path> {
    // A `.git` beside `HEAD` makes a repository nothing else: git goes on using it for the worktrees that name it.
    let mut folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    folders.find(|folder| keeps(folder, path) && looks_like_one(folder))
}

/// If the folder is a repository, this is git's: it names programs, or says where git takes things from, or breaks the
/// repository.
fn keeps(folder: &Path, path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(folder) else { return false };
    let Some(name) = inside.iter().next() else { return false };
    let name = name.to_string_lossy();
    let name = name.as_ref();
    // (A folder has its lock, too.)
    let of_folder = name.strip_suffix(".lock").unwrap_or(name);
    is_file(name)
        || is_one_of(of_folder, &[FOLDERS, FOLDERS_AT_TIMES])
        || is_one_of(of_folder, &[FOLDERS_WITH_TREES]) && !is_in_worktree(folder, path)
}

/// Somebody works in a folder between these; not in git's own itself.
fn is_in_worktree(repository: &Path, path: &Path) -> bool {
    let between = path
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(repository) && *folder != repository);
    let between = between.filter(|folder| folder.parent() != Some(repository));
    let mut places = between.map(|folder| folder.join(".git"));
    places.any(|place| fs::symlink_metadata(place).is_ok())
}

/// The file that says where a folder's repository lies, where `.git` in it is a link to that.
pub(super) fn is_named(path: &Path, root: &Path) -> bool {
    let mut folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    folders.any(|folder| {
        let link = folder.join(".git");
        link.is_symlink() && fs::canonicalize(link).is_ok_and(|file| file == path)
    })
}
