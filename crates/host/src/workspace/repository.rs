//! Recognises git's own files in a project, also in folders with another name than `.git`.

use std::fs;
use std::path::Path;

use agent_protocol::disk::repository::{
    FOLDERS_WITH_WORKTREES, GIT_FOLDERS, TEMPORARY_FOLDERS, is_git_file, is_one_of,
    looks_like_repository,
};

/// The repository in this root that owns this path. User files inside a repository's folder, such as
/// worktrees or a README, are not included. Most folders need no file access.
pub(super) fn repository_owning<'a>(path: &'a Path, root: &Path) -> Option<&'a Path> {
    // Even with a `.git` next to `HEAD`: git still uses the repository for the worktrees that name the folder.
    let mut folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    folders.find(|folder| owns_path(folder, path) && looks_like_repository(folder))
}

/// In a repository, files belong to git that name programs or remotes, or whose change breaks the repository.
fn owns_path(folder: &Path, path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(folder) else { return false };
    let Some(name) = inside.iter().next() else { return false };
    let name = name.to_string_lossy();
    let name = name.as_ref();
    // A folder has a lock file, too.
    let of_folder = name.strip_suffix(".lock").unwrap_or(name);
    is_git_file(name)
        || is_one_of(of_folder, &[GIT_FOLDERS, TEMPORARY_FOLDERS])
        || is_one_of(of_folder, &[FOLDERS_WITH_WORKTREES]) && !is_in_worktree(folder, path)
}

/// A folder between the two is a worktree, not part of git's own folders.
fn is_in_worktree(repository: &Path, path: &Path) -> bool {
    let between = path
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(repository) && *folder != repository);
    let between = between.filter(|folder| folder.parent() != Some(repository));
    let mut places = between.map(|folder| folder.join(".git"));
    places.any(|place| fs::symlink_metadata(place).is_ok())
}

/// True for the file that names a folder's repository, if `.git` in the folder is a link to that file.
pub(super) fn is_git_link_target(path: &Path, root: &Path) -> bool {
    let mut folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    folders.any(|folder| {
        let link = folder.join(".git");
        link.is_symlink() && fs::canonicalize(link).is_ok_and(|file| file == path)
    })
}
