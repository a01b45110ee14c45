//! Where the repositories of a project lie: what is protected of them, and what git itself writes.

use std::fs;
use std::path::{Path, PathBuf};

use super::settings;
use crate::disk::read_small_text;

/// How deep and how far repositories inside the project are looked for.
const DEPTH: usize = 3;
const MAX_ENTRIES: usize = 2_000;
/// Never looked into: large, and not the user's own.
const SKIPPED: &[&str] = &["node_modules", "target", ".venv", "venv", "__pycache__"];

/// One repository, as far as it belongs to the project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Repository {
    /// `.git` files, which name where it lies.
    pub(super) links: Vec<PathBuf>,
    /// The folders in which it lies: `.git`, or what a worktree and a submodule have elsewhere.
    pub(super) own: Vec<PathBuf>,
    /// What git runs by itself; it is written by no git command that a task needs.
    pub(super) hooks: Vec<PathBuf>,
    /// Its settings, some of which name programs.
    pub(super) settings: Vec<PathBuf>,
}

/// The repository that the root belongs to, which may begin above it, and those inside writable places.
pub(super) fn find(root: &Path, writable: &[PathBuf]) -> Vec<Repository> {
    let above = root.ancestors().skip(1).find_map(|folder| at(&folder.join(".git")));
    let mut found: Vec<Repository> = above.into_iter().collect();
    let mut left = MAX_ENTRIES;
    for folder in writable {
        inside(folder, DEPTH, &mut left, &mut found);
    }
    found
}

fn inside(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<Repository>) {
    found.extend(at(&folder.join(".git")));
    if depth == 0 {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if *left == 0 {
            return;
        }
        *left -= 1;
        let name = entry.file_name();
        let is_skipped = name == ".git" || SKIPPED.iter().any(|skipped| name == *skipped);
        if !is_skipped && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            inside(&entry.path(), depth - 1, left, found);
        }
    }
}

/// The repository of this `.git`, a folder or a file that names one.
fn at(path: &Path) -> Option<Repository> {
    let metadata = fs::metadata(path).ok()?;
    if path.is_symlink() {
        // A command can make one, to any folder: git's is one that looks like it, and does not lie around it.
        let target = path.canonicalize().ok().filter(|target| !path.starts_with(target))?;
        let is_gits = ["HEAD", "objects", "refs"].iter().all(|name| target.join(name).exists());
        if metadata.is_dir() && !is_gits {
            return None;
        }
    }
    if metadata.is_dir() {
        return Some(Repository {
            links: Vec::new(),
            own: vec![path.to_owned()],
            hooks: vec![path.join("hooks")],
            settings: vec![
                path.join("config"),
                path.join("config.worktree"),
                path.join(settings::ELSEWHERE),
            ],
        });
    }
    let named = |path: &Path, prefix: &str| {
        let text = read_small_text(path).ok()?;
        let target = path.parent()?.join(text.trim().strip_prefix(prefix)?.trim());
        target.canonicalize().ok().filter(|target| target.is_dir())
    };
    let own = named(path, "gitdir:")?;
    // A worktree shares what lies here with its main repository.
    let common = named(&own.join("commondir"), "").unwrap_or_else(|| own.clone());
    let hooks = vec![common.join("hooks")];
    let settings = vec![common.join("config"), own.join("config.worktree")];
    let mut folders = vec![common, own];
    folders.dedup();
    // A file could name any folder of the user's: it has to be meant by that folder, too.
    let is_meant = match &folders[..] {
        [common, own] => own.parent() == Some(&common.join("worktrees")) && names_back(own, path),
        folders => folders.iter().all(|own| names_back(own, path)),
    };
    if !is_meant {
        folders.clear();
    }
    Some(Repository { links: vec![path.to_owned()], own: folders, hooks, settings })
}

/// A worktree's folder names the file that names it; a submodule's the folder in which that file lies.
fn names_back(own: &Path, link: &Path) -> bool {
    let (Ok(link), Some(folder)) = (link.canonicalize(), link.parent()) else { return false };
    let is_worktree = read_small_text(&own.join("gitdir"))
        .is_ok_and(|text| own.join(text.trim()).canonicalize().is_ok_and(|named| named == link));
    let is_submodule = || {
        let config = read_small_text(&own.join("config")).unwrap_or_default();
        let folder = folder.canonicalize().ok();
        config
            .lines()
            .filter_map(|line| line.trim().strip_prefix("worktree")?.trim().strip_prefix('='))
            .any(|named| folder.is_some() && own.join(named.trim()).canonicalize().ok() == folder)
    };
    is_worktree || is_submodule()
}
