//! Directory walks, for listing and searching. They skip hidden names, paths that match `.gitignore`, `.ignore` or the
//! user's global ignores (also without git), generated folders, and git's own folder; links are not followed.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, io};

use ignore::{DirEntry, WalkBuilder, WalkState};
use parking_lot::Mutex;

use super::{ProjectPath, Workspace, io_failure};
use agent_protocol::disk;
use agent_protocol::envelope::Failure;
use agent_protocol::has_too_many_braces;

/// Skipped even without an ignore file.
const GENERATED: &[&str] = &["node_modules", "__pycache__", "venv", ".venv"];

/// Selects usually skipped paths that a walk includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each selects other paths")]
pub struct WalkRules {
    pub include_hidden: bool,
    /// Ignored paths, and generated folders.
    pub include_ignored: bool,
    /// Hidden files that git tracks.
    pub include_tracked: bool,
    /// Not the directories in which programs cache what they can make again.
    pub skip_caches: bool,
}

impl WalkRules {
    /// Everything but caches.
    pub const WITH_SKIPPED: Self = Self {
        include_hidden: true,
        include_ignored: true,
        include_tracked: true,
        skip_caches: true,
    };
}

/// A directory that a program marks as its cache.
pub fn is_cache(directory: &Path) -> bool {
    directory.ends_with("__pycache__") || directory.join("CACHEDIR.TAG").exists()
}

/// The base, the rules and the depth of a walk.
#[derive(Clone, Debug)]
pub struct Walk {
    /// The directory. Rules that skip the base itself do not apply below it: it was named explicitly.
    pub base: ProjectPath,
    pub rules: WalkRules,
    /// Maximum depth; 1 means only the directory's own entries.
    pub depth: Option<usize>,
}

/// A path of a walk.
#[derive(Clone, Debug)]
pub struct WalkEntry {
    pub path: ProjectPath,
    pub kind: FileKind,
}

/// The kind of a path; symlinks are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Link,
    Other,
}

impl FileKind {
    fn of(kind: Option<fs::FileType>) -> Self {
        match kind {
            Some(kind) if kind.is_file() => Self::File,
            Some(kind) if kind.is_dir() => Self::Directory,
            Some(kind) if kind.is_symlink() => Self::Link,
            Some(_) | None => Self::Other,
        }
    }
}

/// A path during a walk: most paths are skipped, so the conversion happens only on demand.
#[derive(Debug)]
pub struct WalkedPath<'a> {
    workspace: &'a Workspace,
    absolute: PathBuf,
    kind: FileKind,
}

impl WalkedPath<'_> {
    /// The absolute path.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// The path relative to this base.
    pub fn relative_to(&self, base: &Path) -> &Path {
        // Compares bytes: splitting so many paths would take longer than reading their names.
        let bytes = self.absolute.as_os_str().as_bytes();
        match bytes.strip_prefix(base.as_os_str().as_bytes()) {
            Some(inside) => {
                Path::new(OsStr::from_bytes(inside.strip_prefix(b"/").unwrap_or(inside)))
            }
            None => &self.absolute,
        }
    }

    /// The last component; `\u{FFFD}` replaces invalid UTF-8.
    pub fn name(&self) -> Cow<'_, str> {
        self.absolute.file_name().unwrap_or_default().to_string_lossy()
    }

    /// The kind; symlinks are not followed.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Converts to a path of the project.
    pub fn to_project_path(&self) -> ProjectPath {
        self.workspace.project_path(&self.absolute)
    }
}

/// One per thread; false ends the whole walk.
pub(super) type Visitor<'v, 'w> = Box<dyn FnMut(WalkedPath<'w>) -> bool + Send + 'v>;

/// The results of one thread; they are merged at the end of the walk.
pub struct ThreadResults<'a, T: Default> {
    pub own: T,
    all: &'a Mutex<Vec<T>>,
}

impl<'a, T: Default> ThreadResults<'a, T> {
    /// Empty results; a drop moves them to `all`.
    pub fn of(all: &'a Mutex<Vec<T>>) -> Self {
        Self { own: T::default(), all }
    }
}

impl<T: Default> Drop for ThreadResults<'_, T> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.own);
        self.all.lock().push(own);
    }
}

impl Workspace {
    /// Walks with several threads, each with its own visitor, in no particular order. Returns the number of
    /// directories that could not be read.
    pub fn walk<'v, 'w>(
        &'w self,
        walk: &Walk,
        visitor: impl Fn() -> Visitor<'v, 'w> + Sync,
    ) -> usize {
        let base = walk.base.absolute();
        let top = self.writable_root(base).unwrap_or(base);
        let rules = Self::rules_at(walk, top);
        // Ignore files apply from the project's root: the walk starts there and goes only to the base.
        let start = if rules.include_ignored { base } else { top };
        let below = base.strip_prefix(start).map_or(0, |rest| rest.components().count());
        // If a file cannot be read its rules do not apply, and the walk returns more paths.
        let follows = !rules.include_ignored
            && !base
                .ancestors()
                .take_while(|folder| folder.starts_with(top))
                .any(has_unusable_ignores);
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
        // Most projects have none.
        let closed = self.closed_paths_below(top);
        let needs_tracked = rules.include_tracked && !rules.include_hidden;
        let tracked = if needs_tracked { self.tracked_hidden.around(top) } else { Arc::default() };
        builder.filter_entry(move |entry| {
            if closed.iter().any(|closed| entry.path() == closed) {
                return false;
            }
            // Above the base only the path to it; below it, everything that the rules include.
            if entry.depth() <= below {
                return goal.starts_with(entry.path());
            }
            let is_folder = || entry.file_type().is_some_and(|kind| kind.is_dir());
            if entry.file_name() == ".git" {
                return false;
            }
            let is_included = is_included(entry, rules, &tracked)
                && !(rules.skip_caches && is_folder() && is_cache(entry.path()));
            if is_included && follows && is_folder() && has_unusable_ignores(entry.path()) {
                not_entered.fetch_add(1, Ordering::Relaxed);
                return false;
            }
            is_included
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
                let kind = FileKind::of(entry.file_type());
                let met = WalkedPath { workspace: self, absolute: entry.into_path(), kind };
                if visit(met) { WalkState::Continue } else { WalkState::Quit }
            })
        });
        unreadable.load(Ordering::Relaxed)
    }

    /// The number of entries of a directory, without rules.
    pub fn count_entries(&self, folder: &ProjectPath) -> Result<usize, Failure> {
        let failed = |error: io::Error| io_failure(&error, "list", folder.relative());
        let entries = fs::read_dir(folder.absolute()).map_err(failed)?;
        entries.map(|entry| entry.map(|_| 1)).sum::<io::Result<usize>>().map_err(failed)
    }

    /// The first entries of a directory whose name and kind match.
    pub fn list_matching_entries(
        &self,
        folder: &ProjectPath,
        n_first: usize,
        is_match: &dyn Fn(&str, FileKind) -> bool,
    ) -> Result<Vec<WalkEntry>, Failure> {
        let failed = |error: io::Error| io_failure(&error, "list", folder.relative());
        let mut entries = Vec::new();
        for entry in fs::read_dir(folder.absolute()).map_err(failed)?.take(n_first) {
            let entry = entry.map_err(failed)?;
            let kind = FileKind::of(entry.file_type().ok());
            if is_match(&entry.file_name().to_string_lossy(), kind) {
                entries.push(WalkEntry { path: self.project_path(&entry.path()), kind });
            }
        }
        Ok(entries)
    }

    /// Rules that skip the base itself do not apply below it.
    fn rules_at(walk: &Walk, top: &Path) -> WalkRules {
        let Ok(inside) = walk.base.absolute().strip_prefix(top) else { return walk.rules };
        if walk.rules.include_ignored || inside.as_os_str().is_empty() {
            return walk.rules;
        }
        let is_ignored = || {
            let mut builder = WalkBuilder::new(top);
            builder.standard_filters(true).hidden(false).require_git(false).parents(false);
            let mut matchers = builder.current_dir(top).build_matchers();
            matchers.first_mut().is_some_and(|rules| rules.matched(inside, true).is_ignore())
        };
        let include_ignored =
            inside.iter().any(is_generated) || !has_unusable_ignores(top) && is_ignored();
        WalkRules { include_ignored, ..walk.rules }
    }
}

/// True if an ignore file of the folder is no regular file, too large, or contains a pattern that would exhaust the stack
/// of its parser.
pub(super) fn has_unusable_ignores(folder: &Path) -> bool {
    /// Size in bytes up to which a file is harmless; most files are smaller.
    const HARMLESS: u64 = 4096;
    let is_deep = |path: PathBuf| {
        // FIFOs and devices would block or never end. Folders and missing files are harmless.
        let length = match fs::metadata(&path) {
            Ok(data) if data.is_file() => data.len(),
            Ok(data) => return !data.is_dir(),
            Err(_) => return false,
        };
        length > HARMLESS
            && disk::read_small(&path, disk::SMALL_FILE_LIMIT).map_or(true, |bytes| {
                bytes.split(|byte| *byte == b'\n').any(|line| {
                    line.len() as u64 > HARMLESS
                        && has_too_many_braces(&String::from_utf8_lossy(line))
                })
            })
    };
    is_deep(folder.join(".gitignore"))
        || is_deep(folder.join(".ignore"))
        || match git_folder_of(folder) {
            Ok(git) => is_deep(git.join("info/exclude")),
            Err(unreadable) => unreadable,
        }
}

/// The git folder with further ignore rules, found as git does. Error: true if unreadable, false if there is none.
fn git_folder_of(folder: &Path) -> Result<PathBuf, bool> {
    let git = folder.join(".git");
    let first_line = |path: &Path| match disk::read_small_text(path) {
        Ok(text) => Ok(text.lines().next().unwrap_or_default().to_owned()),
        Err(error) => Err(error.kind() != io::ErrorKind::NotFound),
    };
    match fs::metadata(&git) {
        Ok(data) if data.is_file() => {}
        // The common case: nothing else is searched.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(false),
        Ok(_) | Err(_) => return Ok(git),
    }
    let line = first_line(&git)?;
    let own = PathBuf::from(line.strip_prefix("gitdir: ").ok_or(false)?);
    Ok(own.join(first_line(&own.join("commondir"))?))
}

fn is_included(entry: &DirEntry, rules: WalkRules, tracked: &HashSet<PathBuf>) -> bool {
    let name = entry.file_name();
    (rules.include_hidden
        || !name.as_encoded_bytes().starts_with(b".")
        || tracked.contains(entry.path()))
        && (rules.include_ignored || !is_generated(name))
}

fn is_generated(name: &OsStr) -> bool {
    GENERATED.iter().any(|generated| name == *generated)
}
