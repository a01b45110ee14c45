//! The only module that opens the user's files. It is independent of tools, models and permissions: every path from
//! outside passes [`Workspace::resolve`], and only a [`ProjectPath`] can be opened.

mod charset;
mod checkpoint;
mod diff;
mod directory_copy;
mod images;
mod leftovers;
mod open;
mod page;
mod path;
mod replace;
mod snapshot;
mod spill;
mod suggestions;
#[cfg(test)]
mod tests;
mod text;
mod tracked_hidden;
mod walk;

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use charset::Charset;
pub use checkpoint::{
    BlobReader, ChangedFiles, CheckpointLimits, CheckpointSettings, Checkpoints, FileHistory,
    GitSkipReason, OpenOperation, OperationScope, OutsideChange, SessionChanges, TakeOverError,
    USER_PROGRAMS, UndoError, UndoOptions, UndoOutcome, UndoReport, UndoTarget, can_undo,
    copy_journal,
};
pub use diff::{Diff, DiffSize};
pub use directory_copy::{copy_directory, copy_paths, is_below_link, shares_content};
pub use images::{ImageData, ImageKind, ImageStore};
pub use leftovers::FileStamp;
pub use open::WalkBase;
pub use page::{NumberedLines, Page};
pub use path::{GuardedPaths, ProjectPath, expand_home};
pub use replace::FileContent;
pub use snapshot::{CutLines, FileStat, Snapshot};
pub use spill::{SpillFile, SpillFolder};
pub use text::{LineEnding, Text, plain};
pub use walk::{FileKind, ThreadResults, Walk, WalkEntry, WalkRules, WalkedPath, is_cache};

use agent_protocol::disk;
use agent_protocol::envelope::{ErrorCode, Failure};
use parking_lot::Mutex;
use snapshot::Snapshots;
use tracked_hidden::TrackedHiddenPaths;

/// An operation that changed a file, in words, and the time of its end in milliseconds.
pub type Author = (String, i64);

/// The project's files and their snapshots.
#[derive(Debug)]
pub struct Workspace {
    /// Canonical path.
    root: PathBuf,
    /// Added folders outside the root that may be read and written (`--add-dir`). Canonical paths.
    extra_folders: Vec<PathBuf>,
    /// Folders that may only be read: the session's `tool-output/`.
    readable: Vec<PathBuf>,
    snapshots: Mutex<Snapshots>,
    /// `None` if nothing can be undone.
    checkpoints: Option<Arc<Checkpoints>>,
    guarded: GuardedPaths,
    searched_folders: Mutex<HashSet<PathBuf>>,
    tracked_hidden: Arc<TrackedHiddenPaths>,
    /// The author of the changes that a result for the model named.
    named_authors: Mutex<HashSet<Author>>,
}

impl Workspace {
    /// Opens the project at `root`, with the folders that the user added.
    pub fn open(root: &Path, extra: &[PathBuf]) -> Result<Self, Failure> {
        let root = canonical_folder(root)?;
        let extra = extra.iter().map(|path| canonical_folder(path)).collect::<Result<_, _>>()?;
        Ok(Self {
            root,
            extra_folders: extra,
            readable: Vec::new(),
            snapshots: Mutex::default(),
            checkpoints: None,
            guarded: GuardedPaths::default(),
            searched_folders: Mutex::default(),
            tracked_hidden: Arc::default(),
            named_authors: Mutex::default(),
        })
    }

    /// Makes a folder readable that may be outside the project: the session's `tool-output/`. The folder need not
    /// exist yet. If a link replaces it, the link's target does not become readable.
    #[must_use]
    pub fn with_readable(mut self, folder: &Path) -> Self {
        self.readable.push(folder.to_owned());
        self
    }

    /// A workspace with the same files and checkpoints for another agent of the session, which has not read any of them.
    #[must_use]
    pub fn of_agent(&self) -> Self {
        Self {
            root: self.root.clone(),
            extra_folders: self.extra_folders.clone(),
            readable: self.readable.clone(),
            snapshots: Mutex::default(),
            checkpoints: self.checkpoints.clone(),
            guarded: self.guarded.clone(),
            searched_folders: Mutex::new(self.searched_folders.lock().clone()),
            tracked_hidden: Arc::clone(&self.tracked_hidden),
            named_authors: Mutex::default(),
        }
    }

    /// Protects these paths.
    #[must_use]
    pub fn with_guarded_paths(mut self, guarded: GuardedPaths) -> Self {
        self.guarded = guarded;
        self
    }

    /// Enables checkpoints, so that changes can be undone.
    #[must_use]
    pub fn with_checkpoints(mut self, settings: CheckpointSettings) -> Self {
        let closed = self.closed_paths();
        self.checkpoints = Some(Arc::new(Checkpoints::new(&self.root, closed, settings)));
        self
    }

    /// The checkpoints; `None` if nothing can be undone.
    pub fn checkpoints(&self) -> Option<&Arc<Checkpoints>> {
        self.checkpoints.as_ref()
    }

    /// The canonical root of the project.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The root and the added folders.
    pub fn roots(&self) -> Vec<PathBuf> {
        std::iter::once(&self.root).chain(&self.extra_folders).cloned().collect()
    }

    /// The canonical paths of the added folders.
    pub fn extra_folders(&self) -> &[PathBuf] {
        &self.extra_folders
    }

    /// The snapshot of a file that was read or written in this session. May wait for the hash of a large file.
    pub fn snapshot(&self, path: &ProjectPath) -> Option<Snapshot> {
        self.snapshots.lock().get(path.absolute())
    }

    /// Those of these authors that were not named before: one command may have changed many files.
    pub fn unnamed_authors(&self, authors: &[Author]) -> Vec<String> {
        let mut named = self.named_authors.lock();
        let new = authors.iter().filter(|author| named.insert((*author).clone()));
        new.map(|(name, _)| name.clone()).collect()
    }

    /// The file counts as not read.
    pub fn forget_snapshot(&self, path: &ProjectPath) {
        self.snapshots.lock().forget(path.absolute());
    }

    /// Whether all lines of a file were shown.
    pub fn is_fully_shown(&self, path: &ProjectPath) -> bool {
        self.snapshots.lock().is_shown(path.absolute()) == Some(true)
    }

    /// The first line of a file that was not shown.
    pub fn first_unshown_line(&self, path: &ProjectPath) -> u64 {
        self.snapshots.lock().first_missing(path.absolute())
    }

    /// Marks lines of a file as not shown, or all lines without a cut. Earlier reads of the same lines still count.
    pub fn mark_unshown(&self, path: &ProjectPath, cut: Option<&CutLines>) {
        match cut {
            Some(cut) => self.snapshots.lock().mark_unshown(path.absolute(), cut),
            None => self.snapshots.lock().set_shown(path.absolute(), false),
        }
    }

    /// Path and text of the files in a folder with one of these names, ignoring case, sorted by name. Skips files
    /// that are outside the project, closed, not text, or not readable.
    pub fn read_texts_in(
        &self,
        folder: &ProjectPath,
        names: &[&str],
        is_shown: impl Fn(&str) -> bool,
    ) -> Vec<(String, String)> {
        let entries = fs::read_dir(folder.absolute()).into_iter().flatten().flatten();
        let mut files: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        files.sort();
        let read = |file: &String| {
            let given = folder.absolute().join(file);
            let path = self.resolve(given.to_str()?).ok()?;
            if !is_shown(path.relative()) {
                return None;
            }
            let mut text = String::new();
            self.open_file(&path).ok()?.0.read_to_string(&mut text).ok()?;
            Some((self.display(&given), text))
        };
        let matching = names
            .iter()
            .flat_map(|name| files.iter().filter(move |file| file.eq_ignore_ascii_case(name)));
        matching.filter_map(read).collect()
    }

    /// Relative, sorted paths of files whose bytes changed since they were read in this session, or that are gone.
    pub fn files_changed_since_read(&self, includes_gone: bool) -> Vec<String> {
        let mut known = self.snapshots.lock().known_snapshots();
        known.retain(|(path, snapshot)| {
            !snapshot.still_describes(path) && (includes_gone || path.is_file())
        });
        let mut changed: Vec<String> =
            known.into_iter().map(|(path, _)| self.display(&path)).collect();
        changed.sort();
        changed
    }
}

fn canonical_folder(path: &Path) -> Result<PathBuf, Failure> {
    let shown = path.display().to_string();
    let folder = fs::canonicalize(path).map_err(|error| io_failure(&error, "open", &shown))?;
    // Listing distinguishes a file from a folder, and whether it is readable.
    match fs::read_dir(&folder) {
        Ok(_) => Ok(folder),
        Err(_) if folder.is_file() => {
            let message = format!("{shown} is a file, not a directory");
            Err(Failure::new(ErrorCode::NotADirectory, message).with_hint("use its directory"))
        }
        Err(error) => Err(io_failure(&error, "open", &shown)),
    }
}

/// Converts an I/O error to a failure of `doing` something ("read", "list") with `path`.
pub fn io_failure(error: &io::Error, doing: &str, path: &str) -> Failure {
    use io::ErrorKind as Kind;
    const LIST: &str = "list the directory with LS";
    const ANOTHER_PATH: &str = "use another path, or report it";
    const REPORT: &str = "report it, and do not try again";
    let is_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    let mut why = disk::in_words(error);
    let (code, hint) = match error.kind() {
        Kind::NotFound => (ErrorCode::NotFound, LIST),
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => {
            (ErrorCode::PermissionDenied, ANOTHER_PATH)
        }
        Kind::IsADirectory => (ErrorCode::IsDirectory, LIST),
        Kind::NotADirectory => (ErrorCode::NotADirectory, LIST),
        Kind::InvalidFilename => (ErrorCode::InvalidParam, "use another name"),
        Kind::StorageFull | Kind::QuotaExceeded => (ErrorCode::ExecutionError, REPORT),
        // The path was resolved before, so a link was created since then.
        _ if is_loop => {
            "a symlink appeared in its path".clone_into(&mut why);
            (ErrorCode::AccessDenied, LIST)
        }
        _ => {
            why = error.to_string();
            (ErrorCode::ExecutionError, ANOTHER_PATH)
        }
    };
    Failure::new(code, format!("could not {doing} {path}: {why}")).with_hint(hint).with_path(path)
}
