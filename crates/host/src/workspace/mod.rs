//! The only module that opens the user's files: path confinement, text, snapshots, replacement, directory
//! walks.
//!
//! It does not know tools, models or permissions. Every path from outside passes [`Workspace::resolve`], and
//! only a [`ProjectPath`] can be opened.

mod charset;
mod checkpoint;
mod content;
mod diff;
mod failure;
mod hints;
mod images;
mod open;
mod page;
mod path;
mod replace;
mod repository;
mod snapshot;
mod spill;
mod sweep;
#[cfg(test)]
mod tests;
mod text;
mod walk;

use std::collections::HashSet;
use std::fs;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub use charset::Charset;
pub use checkpoint::{
    Begun, Changed, Checkpoints, History, LeavesGit, Limits, OutsideChange, Placed, ReadBlobs,
    Scope, Settings, USER_PROGRAMS, Undo, UndoError, UndoOptions, UndoReport, Undone, can_undo,
    copy_journal,
};
pub use content::Content;
pub use diff::{Diff, DiffSize};
pub use failure::io_failure;
pub use images::{ImageKind, ImageStore, Picture};
pub use open::Base;
pub use page::{Lines, Page};
pub use path::{CheckedPath, Guarded, ProjectPath, expand_home};
pub use replace::Change;
pub use snapshot::{FileStat, Snapshot};
pub use spill::{Spill, SpillFile};
pub use sweep::Seen;
pub use text::{LineEnding, Text, plain};
pub use walk::Part;
pub use walk::{Entry, Kind, Met, Rules, Skipped, Walk};

use agent_protocol::envelope::{ErrorCode, Failure};
use snapshot::Snapshots;

/// The project's files and their snapshots.
#[derive(Debug)]
pub struct Workspace {
    /// Canonical.
    root: PathBuf,
    /// Added folders outside the root that may be read and written (`--add-dir`). Canonical.
    extra: Vec<PathBuf>,
    /// The same, as the user named them.
    named: Vec<PathBuf>,
    /// Folders that may only be read: the session's `tool-output/`.
    readable: Vec<PathBuf>,
    snapshots: Snapshots,
    /// Records changes; `None`: nothing can be undone.
    checkpoints: Option<Arc<Checkpoints>>,
    /// Protected paths inside these folders.
    guarded: Guarded,
    /// Folders that were searched for temporary files of dead processes.
    swept: Mutex<HashSet<PathBuf>>,
}

impl Workspace {
    /// Opens the project at `root`, with the folders that the user added.
    pub fn open(root: &Path, extra: &[PathBuf]) -> Result<Self, Failure> {
        let root = folder(root)?;
        let named = extra.to_vec();
        let extra = extra.iter().map(|path| folder(path)).collect::<Result<_, _>>()?;
        Ok(Self {
            root,
            extra,
            named,
            readable: Vec::new(),
            snapshots: Snapshots::default(),
            checkpoints: None,
            guarded: Guarded::default(),
            swept: Mutex::default(),
        })
    }

    /// Makes a folder readable that may be outside the project: the session's `tool-output/`. It need not
    /// exist yet. If a link replaces it, the link's target does not become readable.
    #[must_use]
    pub fn with_readable(mut self, folder: &Path) -> Self {
        self.readable.push(folder.to_owned());
        self
    }

    /// The same files for another agent of the session: what it reads does not count as read by others, and its
    /// changes have the same checkpoints.
    #[must_use]
    pub fn of_agent(&self) -> Self {
        let swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Self {
            root: self.root.clone(),
            extra: self.extra.clone(),
            named: self.named.clone(),
            readable: self.readable.clone(),
            snapshots: Snapshots::default(),
            checkpoints: self.checkpoints.clone(),
            guarded: self.guarded.clone(),
            swept: Mutex::new(swept),
        }
    }

    /// Protects these paths.
    #[must_use]
    pub fn guarding(mut self, guarded: Guarded) -> Self {
        self.guarded = guarded;
        self
    }

    /// Enables checkpoints, so that changes can be undone.
    #[must_use]
    pub fn with_checkpoints(mut self, settings: Settings) -> Self {
        let closed = self.closed_places();
        self.checkpoints = Some(Arc::new(Checkpoints::new(&self.root, closed, settings)));
        self
    }

    /// The checkpoints; `None`: nothing can be undone.
    pub fn checkpoints(&self) -> Option<&Arc<Checkpoints>> {
        self.checkpoints.as_ref()
    }

    /// The project's root, canonical.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The root and the added folders.
    pub fn places(&self) -> Vec<PathBuf> {
        std::iter::once(&self.root).chain(&self.extra).cloned().collect()
    }

    /// Each added folder as the user named it, and canonical.
    pub fn added(&self) -> impl Iterator<Item = (&Path, &Path)> {
        let named = self.named.iter().map(PathBuf::as_path);
        named.zip(self.extra.iter().map(PathBuf::as_path))
    }

    /// The added folders, canonical.
    pub fn extra(&self) -> &[PathBuf] {
        &self.extra
    }

    /// The snapshot of a file that was read or written in this session. May wait for the hash of a large
    /// file: blocks.
    pub fn snapshot(&self, path: &ProjectPath) -> Option<Snapshot> {
        self.snapshots.get(path.absolute())
    }

    /// Whether all lines of a file that was read were shown.
    pub fn is_shown(&self, path: &ProjectPath) -> bool {
        self.snapshots.is_shown(path.absolute()) == Some(true)
    }

    /// The first line of a file that was not shown, if there is one.
    pub fn first_not_shown(&self, path: &ProjectPath) -> u64 {
        self.snapshots.first_missing(path.absolute())
    }

    /// Marks lines of a file as not shown, or all lines without a range: the file still counts as read.
    /// Earlier reads of the same lines are kept.
    pub fn set_not_shown(&self, path: &ProjectPath, lines: Option<Range<u64>>) {
        match lines {
            Some(lines) => self.snapshots.hide(path.absolute(), &lines),
            None => self.snapshots.set_shown(path.absolute(), false),
        }
    }

    /// Restores a snapshot on resume.
    pub fn restore(&self, path: &ProjectPath, snapshot: Snapshot) {
        self.snapshots.record(path.absolute(), snapshot, None);
    }

    /// The texts of the files in a folder with one of these names, ignoring case, sorted by name: path and
    /// text. Skips files that are outside the project, not to be shown, not text, or not readable.
    pub fn texts_in(
        &self,
        folder: &ProjectPath,
        names: &[&str],
        is_shown: impl Fn(&str) -> bool,
    ) -> Vec<(String, String)> {
        let mut there: Vec<String> = fs::read_dir(folder.absolute())
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        there.sort();
        let matching = names
            .iter()
            .flat_map(|name| there.iter().filter(move |file| file.eq_ignore_ascii_case(name)));
        matching
            .filter_map(|file| {
                let given = folder.absolute().join(file);
                let path = self.resolve(given.to_str()?).ok()?;
                if !is_shown(path.relative()) {
                    return None;
                }
                let (mut file, _) = self.open_file(&path).ok()?;
                let mut text = String::new();
                file.read_to_string(&mut text).ok()?;
                Some((self.display(&given), text))
            })
            .collect()
    }

    /// Files whose bytes changed since they were read in this session, or that are gone; relative paths,
    /// sorted. Bytes are compared only if size or times changed.
    pub fn changed_since_seen(&self) -> Vec<String> {
        let mut changed: Vec<String> = self
            .snapshots
            .all()
            .into_iter()
            .filter(|(path, snapshot)| !snapshot.still_describes(path))
            .map(|(path, _)| self.display(&path))
            .collect();
        changed.sort();
        changed
    }
}

fn folder(path: &Path) -> Result<PathBuf, Failure> {
    let shown = path.display().to_string();
    let folder = fs::canonicalize(path).map_err(|error| io_failure(&error, "open", &shown))?;
    // Listing distinguishes a file from a folder, and whether it is readable.
    match fs::read_dir(&folder) {
        Ok(_) => Ok(folder),
        Err(_) if folder.is_file() => Err(Failure::new(
            ErrorCode::NotADirectory,
            format!("{shown} is a file, not a directory"),
        )
        .hint("use its directory")),
        Err(error) => Err(io_failure(&error, "open", &shown)),
    }
}
