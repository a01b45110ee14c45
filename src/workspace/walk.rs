//! Walking the project: the one rule of what is left out, for listing and for searching.
//!
//! Left out are dot names, what `.gitignore`, `.ignore` and the user's global ignores name (also
//! without git), folders that only tools write, and git's own folder.
//! Symlinks are met, never followed.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{fs, io};

use ignore::{DirEntry, WalkBuilder, WalkState};

use super::{ProjectPath, Workspace, io_failure};
use crate::disk;
use crate::protocol::envelope::Failure;
use crate::protocol::nests_too_deep;

/// Folders that only tools write, also where no ignore file says so.
const GENERATED: &[&str] = &["node_modules", "__pycache__", "venv", ".venv"];

/// What of the things that are usually left out is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Names that begin with a dot.
    pub include_hidden: bool,
    /// What ignore files name, and generated folders.
    pub include_ignored: bool,
}

/// Where to walk.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The directory. If it is itself one that is left out, everything ignored below it is wanted:
    /// it was named.
    pub base: ProjectPath,
    /// What is left out.
    pub rules: Rules,
    /// How deep; 1: only the directory's own entries.
    pub depth: Option<usize>,
}

/// What a walk left out, though the rules want it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Directories that could not be read.
    pub unreadable: usize,
    /// Git's own directories.
    pub git: usize,
}

/// Something that the walk met, below its base.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Where.
    pub path: ProjectPath,
    /// What.
    pub kind: Kind,
}

/// What something is, not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symlink.
    Link,
    /// A FIFO, a socket or a device.
    Other,
}

impl Kind {
    fn of(kind: Option<fs::FileType>) -> Self {
        match kind {
            Some(kind) if kind.is_file() => Self::File,
            Some(kind) if kind.is_dir() => Self::Directory,
            Some(kind) if kind.is_symlink() => Self::Link,
            Some(_) | None => Self::Other,
        }
    }
}

/// Something that a walk meets: only its name is known. Most of it is passed by, and no path is made of it.
#[derive(Debug)]
pub struct Met<'a> {
    workspace: &'a Workspace,
    absolute: PathBuf,
    kind: Kind,
}

impl Met<'_> {
    /// Where it is.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// What of its path lies below this folder, where the walk began.
    pub fn below(&self, base: &Path) -> &Path {
        // (Bytes: to take so many paths apart would take longer than to read their names.)
        let bytes = self.absolute.as_os_str().as_bytes();
        match bytes.strip_prefix(base.as_os_str().as_bytes()) {
            Some(inside) => {
                Path::new(OsStr::from_bytes(inside.strip_prefix(b"/").unwrap_or(inside)))
            }
            None => &self.absolute,
        }
    }

    /// The last part of its path; `\u{FFFD}` stands for what is not valid UTF-8.
    pub fn name(&self) -> Cow<'_, str> {
        self.absolute.file_name().unwrap_or_default().to_string_lossy()
    }

    /// What it is, not followed.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Where it is, as a path of the project.
    pub fn path(&self) -> ProjectPath {
        self.workspace.inside(&self.absolute)
    }

    /// It, to be kept.
    pub fn entry(&self) -> Entry {
        Entry { path: self.path(), kind: self.kind }
    }
}

/// One thread's part in a walk: takes what is met; false ends the whole walk.
pub(crate) type Visitor<'v, 'w> = Box<dyn FnMut(Met<'w>) -> bool + Send + 'v>;

/// What one thread gathers, by itself: when its part in the walk is over, it is laid with the others'.
pub(crate) struct Part<'a, T: Default> {
    pub(crate) own: T,
    all: &'a Mutex<Vec<T>>,
}

impl<'a, T: Default> Part<'a, T> {
    pub(crate) fn of(all: &'a Mutex<Vec<T>>) -> Self {
        Self { own: T::default(), all }
    }
}

impl<T: Default> Drop for Part<'_, T> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.own);
        self.all.lock().unwrap_or_else(PoisonError::into_inner).push(own);
    }
}

impl Workspace {
    /// Walks on several threads; each gets a visitor of its own, and they meet entries in no order.
    pub fn walk<'v, 'w>(
        &'w self,
        walk: &Walk,
        visitor: impl Fn() -> Visitor<'v, 'w> + Sync,
    ) -> Skipped {
        let base = walk.base.absolute();
        let top = self.writable_root(base).unwrap_or(base);
        let rules = Self::rules_at(walk, top);
        // Ignore files count from the project's top on: the walk starts there, and goes nowhere but
        // to the base. (Not further up: what lies above is not the project's.)
        let start = if rules.include_ignored { base } else { top };
        let below = start_depth(start, base);
        // What can not be read is not followed: then more is met.
        let follows = !rules.include_ignored
            && !base.ancestors().take_while(|folder| folder.starts_with(top)).any(has_deep_ignores);
        let mut builder = WalkBuilder::new(start);
        builder
            .standard_filters(false)
            .git_ignore(follows)
            .git_exclude(follows)
            .git_global(follows)
            .ignore(follows)
            .require_git(false)
            .parents(false)
            .current_dir(top)
            .follow_links(false)
            .max_depth(walk.depth.map(|depth| depth + below))
            .threads(std::thread::available_parallelism().map_or(2, |n| n.get().min(8)));
        let goal = base.to_owned();
        let unreadable = Arc::new(AtomicUsize::new(0));
        let not_entered = Arc::clone(&unreadable);
        let git = Arc::new(AtomicUsize::new(0));
        let git_met = Arc::clone(&git);
        // (Most projects have nothing of the kind.)
        let closed = self.closed_below(top);
        builder.filter_entry(move |entry| {
            if closed.iter().any(|closed| entry.path() == closed) {
                return false;
            }
            // Down to the base nothing but the way there; below it, what the rules want.
            if entry.depth() <= below {
                return goal.starts_with(entry.path());
            }
            let is_folder = || entry.file_type().is_some_and(|kind| kind.is_dir());
            if entry.file_name() == ".git" {
                git_met.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            let is_wanted = is_wanted(entry, rules);
            if is_wanted && follows && is_folder() && has_deep_ignores(entry.path()) {
                not_entered.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            is_wanted
        });
        builder.build_parallel().run(|| {
            let mut visit = visitor();
            let unreadable = &unreadable;
            Box::new(move |met| {
                let Ok(entry) = met else {
                    unreadable.fetch_add(1, Ordering::Relaxed);
                    return WalkState::Continue;
                };
                if entry.depth() <= below {
                    return WalkState::Continue;
                }
                let kind = Kind::of(entry.file_type());
                let met = Met { workspace: self, absolute: entry.into_path(), kind };
                if visit(met) { WalkState::Continue } else { WalkState::Quit }
            })
        });
        let count = |n: &AtomicUsize| n.load(Ordering::Relaxed);
        Skipped { unreadable: count(&unreadable), git: count(&git) }
    }

    /// How many entries a directory has, whatever the rules say.
    pub fn n_entries(&self, folder: &ProjectPath) -> Result<usize, Failure> {
        let failed = |error: io::Error| io_failure(&error, "list", folder.relative());
        let entries = fs::read_dir(folder.absolute()).map_err(failed)?;
        entries.map(|entry| entry.map(|_| 1)).sum::<io::Result<usize>>().map_err(failed)
    }

    /// Everything in a directory, whatever the rules say, in no order.
    pub fn entries(&self, folder: &ProjectPath) -> Result<Vec<Entry>, Failure> {
        self.entries_like(folder, usize::MAX, &|_, _| true)
    }

    /// Those among the first entries of a directory whose name and kind are wanted.
    pub fn entries_like(
        &self,
        folder: &ProjectPath,
        n_first: usize,
        is_wanted: &dyn Fn(&str, Kind) -> bool,
    ) -> Result<Vec<Entry>, Failure> {
        let failed = |error: io::Error| io_failure(&error, "list", folder.relative());
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder.absolute()).map_err(failed)?.take(n_first) {
            let entry = entry.map_err(failed)?;
            let kind = Kind::of(entry.file_type().ok());
            if is_wanted(&entry.file_name().to_string_lossy(), kind) {
                entries.push(Entry { path: self.inside(&entry.path()), kind });
            }
        }
        Ok(entries)
    }

    /// What is left out below a base that may itself be among what is left out.
    fn rules_at(walk: &Walk, top: &Path) -> Rules {
        let Ok(inside) = walk.base.absolute().strip_prefix(top) else { return walk.rules };
        if walk.rules.include_ignored || inside.as_os_str().is_empty() {
            return walk.rules;
        }
        let named = inside.iter().any(is_generated);
        if has_deep_ignores(top) {
            return Rules { include_ignored: named, ..walk.rules };
        }
        let mut builder = WalkBuilder::new(top);
        builder.standard_filters(true).hidden(false).require_git(false).parents(false);
        let ignored = builder
            .current_dir(top)
            .build_matchers()
            .first_mut()
            .is_some_and(|rules| rules.matched(inside, true).is_ignore());
        Rules { include_ignored: named || ignored, ..walk.rules }
    }
}

/// One of the folder's ignore files holds a pattern that would use up the stack of whoever reads it.
fn has_deep_ignores(folder: &Path) -> bool {
    /// A pattern of fewer bytes does no harm, and most files have fewer.
    const HARMLESS: u64 = 4096;
    let is_deep = |path: PathBuf| {
        // A FIFO is waited for, and a device never ends. (A folder is not read, and nothing is no harm.)
        let length = match fs::metadata(&path) {
            Ok(data) if data.is_file() => data.len(),
            Ok(data) => return !data.is_dir(),
            Err(_) => return false,
        };
        length > HARMLESS
            && disk::read_small(&path, disk::SMALL).map_or(true, |bytes| {
                bytes.split(|byte| *byte == b'\n').any(|line| {
                    line.len() as u64 > HARMLESS && nests_too_deep(&String::from_utf8_lossy(line))
                })
            })
    };
    is_deep(folder.join(".gitignore"))
        || is_deep(folder.join(".ignore"))
        || match git_of(folder) {
            Ok(git) => is_deep(git.join("info/exclude")),
            Err(unreadable) => unreadable,
        }
}

/// The folder of git's in which more is named that is ignored, found as those do who read it: a file `.git` names
/// one, which names the common one. What there is can not be read (true), or there is nothing (false).
fn git_of(folder: &Path) -> Result<PathBuf, bool> {
    let git = folder.join(".git");
    let first_line = |path: &Path| match disk::read_small_text(path) {
        Ok(text) => Ok(text.lines().next().unwrap_or_default().to_owned()),
        Err(error) => Err(error.kind() != io::ErrorKind::NotFound),
    };
    match fs::metadata(&git) {
        Ok(data) if data.is_file() => {}
        // (So it is in nearly every folder: nothing is looked for in it.)
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(false),
        Ok(_) | Err(_) => return Ok(git),
    }
    let line = first_line(&git)?;
    let own = PathBuf::from(line.strip_prefix("gitdir: ").ok_or(false)?);
    Ok(own.join(first_line(&own.join("commondir"))?))
}

fn start_depth(start: &Path, base: &Path) -> usize {
    base.strip_prefix(start).map_or(0, |rest| rest.components().count())
}

fn is_wanted(entry: &DirEntry, rules: Rules) -> bool {
    let name = entry.file_name();
    (rules.include_hidden || !name.as_encoded_bytes().starts_with(b"."))
        && (rules.include_ignored || !is_generated(name))
}

fn is_generated(name: &OsStr) -> bool {
    GENERATED.iter().any(|generated| name == *generated)
}
