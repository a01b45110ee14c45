//! The links in a configuration, as people keep theirs: what they lead to is the configuration as well.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

/// So many entries are looked at, so many links are taken, and so long it takes.
const MOST: usize = 10_000;
const MOST_LINKS: usize = 1_000;
const LONGEST: Duration = Duration::from_millis(250);

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Linked {
    /// Each by its name, in a folder that no link leads to.
    pub links: Vec<PathBuf>,
    /// There may be more.
    pub is_cut: bool,
}

/// The links in these folders, and in what they lead to. Outer ones first: one big folder hides none of its neighbours.
pub fn linked<'a>(folders: impl Iterator<Item = &'a Path>) -> Linked {
    let (mut found, mut met, mut n_entries) = (Linked::default(), HashSet::new(), 0);
    let mut next: VecDeque<PathBuf> = folders.map(Path::to_owned).collect();
    let begun = Instant::now();
    while let Some(folder) = next.pop_front() {
        let Ok(real) = folder.canonicalize() else { continue };
        if !met.insert(real.clone()) {
            continue;
        }
        for entry in fs::read_dir(real).into_iter().flatten().flatten() {
            n_entries += 1;
            if n_entries > MOST || found.links.len() == MOST_LINKS || begun.elapsed() > LONGEST {
                found.is_cut = true;
                return found;
            }
            let (path, kind) = (entry.path(), entry.file_type());
            let is_link = kind.as_ref().is_ok_and(fs::FileType::is_symlink);
            // (A file is asked for nothing: there may be many.)
            let is_folder = if is_link { path.is_dir() } else { kind.is_ok_and(|it| it.is_dir()) };
            if is_folder && entry.file_name() != ".git" {
                next.push_back(path.clone());
            }
            if is_link {
                found.links.push(path);
            }
        }
    }
    found
}

/// Where a link says that it leads. What goes up at its beginning is taken away, which is exact: no link leads to
/// the folder that it lies in.
pub fn target_of(link: &Path) -> Option<PathBuf> {
    let (target, mut folder) = (link.read_link().ok()?, link.parent()?);
    let mut rest = target.components();
    while let Some(part @ (Component::ParentDir | Component::CurDir)) = rest.clone().next() {
        rest.next();
        if part == Component::ParentDir {
            folder = folder.parent().unwrap_or(folder);
        }
    }
    Some(folder.join(rest.as_path()))
}
