//! What nothing protects is looked at before and after a command, and a change is told.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::settings::Settings;
use super::tables;
use super::traps::{self, Indexes, Trap};
use crate::disk::{is_not_there, may_be};

/// Names, in a folder of git's own, of what git writes while it only reads, and of what can not be changed without being
/// found (an object's name is its hash). What git does not write there is looked for in these, too (`traps.rs`).
const NOT_LOOKED_AT: &[&str] =
    &["objects", "logs", "index", "lfs", "ORIG_HEAD", "FETCH_HEAD", "COMMIT_EDITMSG"];
/// In its own folder, and not further down: what the agent itself writes meanwhile.
const RECORDS: &[&str] = &[tables::SESSIONS_FOLDER, tables::UNDO_FOLDER];
/// What is looked at first: refs may be many.
const FIRST: &[&str] = &[
    "hooks",
    "config",
    "config.worktree",
    "commondir",
    "config.toml",
    "skills",
    "modules",
    "worktrees",
];
/// So many files of each path are looked at.
const MAX_FILES: usize = 20_000;

/// A path that is looked at.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) path: PathBuf,
    /// Its content counts; else only whether it is there.
    pub(super) in_depth: bool,
}

/// What is looked at where a repository can be written.
#[derive(Clone, Debug, Default)]
pub(super) struct Gits {
    /// Files with settings.
    pub(super) settings: Vec<PathBuf>,
    /// Folders of git's own.
    pub(super) folders: Vec<PathBuf>,
    pub(super) indexes: Indexes,
}

/// How the protected paths were before the command.
#[derive(Clone, Debug)]
pub(in crate::exec) struct Watch {
    paths: Vec<Watched>,
    gits: Gits,
    before: BTreeMap<PathBuf, Seen>,
    /// Settings of git that git itself may change, and what of them it does not.
    settings: BTreeMap<PathBuf, Settings>,
    /// What git itself does not make.
    traps: BTreeMap<PathBuf, Trap>,
}

/// Something that commands must not change, and one did.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Changed {
    path: PathBuf,
    /// What it is now, where that is not seen at once.
    what: Option<String>,
}

impl fmt::Display for Changed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}", self.path.display())?;
        self.what.iter().try_for_each(|what| write!(to, " ({what})"))
    }
}

/// What a file can not keep when it is changed: its time of change can not be set by anybody.
pub(super) type Seen = (u64, u64, i64, i64, u32);

pub(super) fn seen(metadata: &Metadata) -> Seen {
    let (ctime, nanoseconds) = (metadata.ctime(), metadata.ctime_nsec());
    (metadata.ino(), metadata.size(), ctime, nanoseconds, metadata.mode())
}

impl Watch {
    pub(super) fn new(paths: Vec<Watched>, gits: Gits) -> Self {
        let before = look(&paths);
        let settings = gits.settings.iter().map(|path| (path.clone(), Settings::of(path)));
        let settings = settings.collect();
        let traps = gits.folders.iter().flat_map(|own| traps::find(own, &gits.indexes)).collect();
        Self { paths, gits, before, settings, traps }
    }

    /// What is there now and was not, is gone, or is different.
    pub(in crate::exec) fn changed(&self) -> Vec<Changed> {
        self.changed_by(&self.again())
    }

    /// The same, by a look that the next one is compared with as well: nothing can change between the two, and back.
    pub(in crate::exec) fn changed_before(&self, next: &mut Self) -> Vec<Changed> {
        let now = self.again();
        let is_watched = |path: &Path| next.paths.iter().any(|it| path.starts_with(&it.path));
        let both: BTreeSet<&PathBuf> = self.before.keys().chain(now.before.keys()).collect();
        let both: Vec<&PathBuf> = both.into_iter().filter(|path| is_watched(path)).collect();
        for path in both {
            match now.before.get(path) {
                Some(seen) => next.before.insert(path.clone(), *seen),
                None => next.before.remove(path),
            };
        }
        for (path, settings) in &mut next.settings {
            if let Some(now) = now.settings.get(path) {
                settings.clone_from(now);
            }
        }
        let is_in = |folders: &[PathBuf], path: &Path| {
            folders.iter().any(|folder| path.starts_with(folder))
        };
        next.traps.retain(|path, _| !is_in(&self.gits.folders, path));
        let traps = now.traps.iter().filter(|(path, _)| is_in(&next.gits.folders, path));
        next.traps.extend(traps.map(|(path, trap)| (path.clone(), trap.clone())));
        self.changed_by(&now)
    }

    fn again(&self) -> Self {
        Self::new(self.paths.clone(), self.gits.clone())
    }

    fn changed_by(&self, now: &Self) -> Vec<Changed> {
        let mut changed: BTreeMap<PathBuf, Option<String>> =
            self.files_changed_by(now).into_iter().map(|path| (path, None)).collect();
        changed.extend(now.traps.iter().filter_map(|(path, trap)| {
            let what = trap.since(self.traps.get(path))?;
            Some((path.clone(), Some(what)))
        }));
        changed.into_iter().map(|(path, what)| Changed { path, what }).collect()
    }

    fn files_changed_by(&self, now: &Self) -> Vec<PathBuf> {
        let (before, after) = (&self.before, &now.before);
        let mut changed: Vec<PathBuf> = after
            .iter()
            .filter(|(path, seen)| before.get(*path) != Some(seen))
            .map(|(path, _)| path.clone())
            .collect();
        changed.extend(before.keys().filter(|path| !after.contains_key(*path)).cloned());
        // Who removes a worktree removes its settings, and of a submodule that is emptied the folder stays.
        let is_removed = |path: &Path, now: &Settings| {
            let is_file_of_git = path.ends_with(".git");
            let is_gone =
                (is_file_of_git && is_gone(path)) || !path.parent().is_some_and(Path::exists);
            is_gone && now.link.is_none()
        };
        let settings = self.settings.iter().filter(|(path, before)| {
            now.settings.get(*path).is_some_and(|now| now.differ(before) && !is_removed(path, now))
        });
        changed.extend(settings.map(|(path, _)| path.clone()));
        changed
    }
}

fn is_gone(path: &Path) -> bool {
    !may_be(path, |_| true)
}

/// How the folder is that keeps this path from being looked at: whoever opens it changes it.
fn closed_above(path: &Path) -> Seen {
    let above = path.ancestors().find_map(|above| fs::symlink_metadata(above).ok());
    above.map_or((0, 0, 0, 0, 0), |metadata| seen(&metadata))
}

fn look(paths: &[Watched]) -> BTreeMap<PathBuf, Seen> {
    let mut found = BTreeMap::new();
    for watched in paths {
        let mut of_path = BTreeMap::new();
        if watched.in_depth {
            note(&watched.path, Folder::Top, &mut of_path);
        } else {
            match fs::symlink_metadata(&watched.path) {
                Ok(_) => _ = of_path.insert(watched.path.clone(), (0, 0, 0, 0, 0)),
                Err(error) if is_not_there(&error) => {}
                Err(_) => _ = of_path.insert(watched.path.clone(), closed_above(&watched.path)),
            }
        }
        found.append(&mut of_path);
    }
    found
}

/// Where a folder lies.
#[derive(Clone, Copy)]
enum Folder {
    /// It is what is looked at.
    Top,
    /// In a repository, where it keeps those of its modules or worktrees. A module's name may have several parts.
    OfRepositories,
    /// Further down.
    Inner,
}

fn note(path: &Path, folder: Folder, found: &mut BTreeMap<PathBuf, Seen>) {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if is_not_there(&error) => return,
        Err(_) => {
            found.insert(path.to_owned(), closed_above(path));
            return;
        }
    };
    let entries = if metadata.is_dir() { fs::read_dir(path).ok() } else { None };
    let Some(entries) = entries else {
        found.insert(path.to_owned(), seen(&metadata));
        return;
    };
    let mut names: Vec<OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
    names.sort_by_cached_key(|name| (!FIRST.iter().any(|first| name == *first), name.clone()));
    let is_top = matches!(folder, Folder::Top);
    let is_agents = is_top && path.ends_with(tables::AGENT_FOLDER);
    let may_be_gits = is_top || matches!(folder, Folder::OfRepositories);
    let is_gits = may_be_gits && !is_agents && names.iter().any(|name| name == "HEAD");
    let left_out = match (is_agents, is_gits) {
        (true, _) => RECORDS,
        (_, true) => NOT_LOOKED_AT,
        (false, false) => &[],
    };
    // (Only there do they come and go while nobody changes anything.)
    let has_locks = is_agents || is_gits;
    for name in names {
        let is_lock = has_locks && Path::new(&name).extension().is_some_and(|end| end == "lock");
        if found.len() < MAX_FILES && !is_lock && !left_out.iter().any(|other| name == *other) {
            let is_of_repositories = if is_gits {
                name == "modules" || name == "worktrees"
            } else {
                matches!(folder, Folder::OfRepositories)
            };
            let inner = if is_of_repositories { Folder::OfRepositories } else { Folder::Inner };
            note(&path.join(name), inner, found);
        }
    }
}
