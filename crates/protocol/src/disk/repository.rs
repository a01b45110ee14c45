//! The layout of git repositories: how to recognise one, and which files in it belong to git.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::{SMALL_FILE_LIMIT, read_beginning};

/// Folders directly in a repository that hold only files of git.
pub const GIT_FOLDERS: &[&str] = &["hooks", "logs", "objects", "refs", "reftable", "worktrees"];

/// Folders of git in which a user may have a worktree (`git worktree add branches/x`).
pub const FOLDERS_WITH_WORKTREES: &[&str] =
    &["branches", "info", "lfs", "modules", "remotes", "rr-cache"];

/// Folders that git creates temporarily, or that related programs keep there.
pub const TEMPORARY_FOLDERS: &[&str] =
    &["annex", "filter-repo", "lost-found", "rebase-apply", "rebase-merge", "sequencer", "svn"];

/// Files directly in a repository that always exist.
const GIT_FILES: &[&str] =
    &["HEAD", "commondir", "config", "config.worktree", "packed-refs", "shallow"];

/// Temporary, or in the folder of a worktree, besides `MERGE_HEAD` and similar ones.
const TEMPORARY_FILES: &[&str] = &[
    "ADD_EDIT.patch",
    "AUTO_MERGE",
    "COMMIT_EDITMSG",
    "EDIT_DESCRIPTION",
    "MERGE_AUTOSTASH",
    "MERGE_MODE",
    "MERGE_MSG",
    "MERGE_RR",
    "NOTES_EDITMSG",
    "NOTES_MERGE_REF",
    "NOTES_MERGE_PARTIAL",
    "SQUASH_MSG",
    "TAG_EDITMSG",
    "description",
    "fsmonitor--daemon.ipc",
    "gc.log",
    "gc.pid",
    "gitdir",
    "index",
    "packed-refs.new",
];

/// Whether one of these lists has the name. Some file systems do not distinguish case.
pub fn is_one_of(name: &str, lists: &[&[&str]]) -> bool {
    lists.iter().any(|names| names.iter().any(|own| own.eq_ignore_ascii_case(name)))
}

/// Whether git keeps a file of this name directly in a repository, temporarily or permanently.
pub fn is_git_file(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix(".lock").unwrap_or(&name);
    name.ends_with("_head")
        || name.starts_with("bisect_")
        || name.starts_with("sharedindex.")
        || is_one_of(name, &[GIT_FILES, TEMPORARY_FILES])
}

/// Whether git would use the folder as a repository, or would with a `HEAD`, which a command can
/// remove and restore. A folder that has only the names is none.
pub fn looks_like_repository(folder: &Path) -> bool {
    // (Any of them may be a link.)
    let is_folder = |name: &str| folder.join(name).is_dir();
    if is_folder("objects") && is_folder("refs") {
        is_head(&folder.join("HEAD")) || is_git_config(&folder.join("config"))
    } else {
        // The folder of a worktree uses the common folder for the rest.
        folder.join("commondir").is_file() && is_head(&folder.join("HEAD"))
    }
}

/// Whether the folder has what git demands of a repository: a valid `HEAD`, and entries that need not be directories.
pub fn may_be_repository(folder: &Path) -> bool {
    let exists = |name: &str| folder.join(name).symlink_metadata().is_ok();
    (exists("commondir") || exists("objects") && exists("refs")) && is_head(&folder.join("HEAD"))
}

/// The directory that a `.git` file names, as git reads it: the system follows links before a `..`.
pub fn linked_directory(file: &Path, content: &[u8]) -> Option<PathBuf> {
    Some(file.parent()?.join(path_in(content.strip_prefix(b"gitdir: ")?)?))
}

/// The path in a file of git, which ends at a NUL byte and before line ends.
pub fn path_in(content: &[u8]) -> Option<&Path> {
    let end = content.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    let content = content[..=end].split(|byte| *byte == 0).next()?;
    Some(Path::new(OsStr::from_bytes(content)))
}

/// Whether this is the content of a valid `HEAD`, by which git recognises a repository. As in git, 255 bytes count.
pub fn is_head_content(text: &[u8]) -> bool {
    let text = text.get(..255).unwrap_or(text);
    // SHA-1 or SHA-256.
    let is_commit =
        |text: &[u8]| text.get(..40).is_some_and(|hash| hash.iter().all(u8::is_ascii_hexdigit));
    let is_branch = |text: &[u8]| {
        let name = text.strip_prefix(b"ref:").map(|name| {
            let blanks = name.iter().take_while(|byte| b" \t\n\r".contains(byte)).count();
            &name[blanks..]
        });
        name.is_some_and(|name| name.starts_with(b"refs/"))
    };
    is_branch(text) || is_commit(text)
}

/// A file, or a link in place of one.
fn is_head(file: &Path) -> bool {
    // The length that git reads.
    const LENGTH: u64 = 255;
    fs::read_link(file).is_ok_and(|name| name.starts_with("refs"))
        || read_beginning(file, LENGTH).is_ok_and(|text| is_head_content(&text))
}

/// Git writes such settings into every repository that it creates.
fn is_git_config(file: &Path) -> bool {
    const KEY: &[u8] = b"repositoryformatversion";
    let says_so = |text: &[u8]| text.windows(KEY.len()).any(|word| word.eq_ignore_ascii_case(KEY));
    read_beginning(file, SMALL_FILE_LIMIT).is_ok_and(|text| says_so(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_file_names_are_recognised() {
        for name in ["HEAD", "head.lock", "FETCH_HEAD", "BISECT_LOG", "sharedindex.a", "Index"] {
            assert!(is_git_file(name), "{name}");
        }
        for name in ["README", "AHEAD", "config.rs", "Cargo.lock", ".lock", "bisect"] {
            assert!(!is_git_file(name), "{name}");
        }
    }
}
