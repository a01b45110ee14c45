//! What is git's own in a project, by whatever name: a repository is known by its looks, as git knows one.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What lies directly in a repository and is git's, each with its lock (`config.lock`). It names programs, or says where
/// git takes things from, or breaks the repository. What people keep beside it is theirs: worktrees, a README.
const OF_GIT: &[&str] = &[
    "HEAD",
    "branches",
    "commondir",
    "config",
    "config.worktree",
    "description",
    "gitdir",
    "hooks",
    "index",
    "info",
    "lfs",
    "logs",
    "modules",
    "objects",
    "packed-refs",
    "rebase-apply",
    "rebase-merge",
    "refs",
    "reftable",
    "remotes",
    "rr-cache",
    "sequencer",
    "shallow",
    "worktrees",
];

/// Whether git keeps this itself, in a repository that lies in this root, or is it. Nothing is looked at in most folders
/// but whether `.git` is a link.
pub(super) fn is_gits(path: &Path, root: &Path) -> bool {
    // A worktree in a repository needs no special care: its own name there is none of git's. And a `.git` beside `HEAD`
    // makes a repository nothing else: git goes on using it for the worktrees that name it.
    let mut folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    folders.any(|folder| {
        let inner = path.strip_prefix(folder).ok().and_then(|inner| inner.iter().next());
        inner.is_some_and(is_name_of_git) && is_repository(folder) || is_named(folder, path)
    })
}

/// Some file systems do not distinguish case.
fn is_name_of_git(name: &OsStr) -> bool {
    let mut name = name.as_bytes().to_ascii_lowercase();
    if name.ends_with(b".lock") {
        name.truncate(name.len() - b".lock".len());
    }
    name.ends_with(b"_head") || OF_GIT.iter().any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
}

/// A worktree's folder has in another what it lacks.
fn is_repository(folder: &Path) -> bool {
    let is_there = |name: &str| {
        fs::symlink_metadata(folder.join(name)).is_ok_and(|metadata| !metadata.is_dir())
    };
    // (Any of them may be a link.)
    let is_folder = |name: &str| folder.join(name).is_dir();
    is_there("HEAD") && (is_there("commondir") || is_folder("objects") && is_folder("refs"))
}

/// The file that says where the folder's repository lies, where `.git` is a link to that.
fn is_named(folder: &Path, path: &Path) -> bool {
    let link = folder.join(".git");
    link.is_symlink() && fs::canonicalize(link).is_ok_and(|file| file == path)
}
