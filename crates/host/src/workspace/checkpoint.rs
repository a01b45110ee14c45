//! Checkpoints: records the changes of every operation in the project for an undo. They are the difference of the
//! [`Manifest`]s before and after. Contents go into a [`ContentPack`] that all sessions of a project share, the changes
//! into a [`Journal`] in the session's directory.

mod file_history;
mod git_state;
mod ignored;
mod journal;
mod manifest;
mod outside_changes;
mod pack;
mod preview;
mod restore;
mod session_changes;
mod session_diff;
mod take_over;
#[cfg(test)]
mod tests;
mod undo_plan;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use super::Workspace;
use super::replace::MAX_CHANGED;
use agent_protocol::disk;
pub(super) use git_state::GitDirs;
use journal::{Journal, Operation, OperationLock};
use manifest::{
    IncompleteScan, Manifest, ManifestEntry, ManifestScanner, PathChange, PathName, PathState,
    RepositoryCheck, TICK, changes_between, stat,
};
use outside_changes::KnownFiles;
use pack::ContentPack;
use parking_lot::Mutex;
use undo_plan::UndoStep;

pub use file_history::{FileHistory, OutsideChange};
pub use restore::{
    GitSkipReason, UndoError, UndoOptions, UndoOutcome, UndoReport, UndoTarget, can_undo,
};

pub use session_changes::SessionChanges;
pub use take_over::TakeOverError;

pub(super) use blake3::Hash;

const MANIFEST_FILE: &str = "manifest.json";
/// Prefix of the manifest from before a running command in the directory of the session, followed by the turn.
const OPEN_OPERATION_PREFIX: &str = "open-operation-";
const VERSION: u32 = 2;
/// Time that the end of a session waits for the first manifest, and again after it was abandoned.
const FINISH_TIMEOUT: Duration = Duration::from_millis(250);

/// Limits of the store.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointLimits {
    /// Files in a project; a larger project has no checkpoints of commands.
    pub max_files: usize,
    /// Size of a file in bytes; larger files are not covered.
    pub max_file_bytes: u64,
    /// Size of all contents of a project in bytes.
    pub max_bytes: u64,
    pub expire_after: Duration,
    /// True for build output: an ignored path, relative to the project, that is not covered.
    pub is_build_output: fn(&Path) -> bool,
}

impl Default for CheckpointLimits {
    fn default() -> Self {
        Self {
            max_files: 100_000,
            max_file_bytes: 10 * 1024 * 1024,
            max_bytes: 512 * 1024 * 1024,
            expire_after: Duration::from_hours(720),
            is_build_output: |_| false,
        }
    }
}

/// Reads blobs of git's object database: from ids in hexadecimal to the existing contents.
pub type BlobReader =
    Arc<dyn Fn(&Path, &[String]) -> std::io::Result<HashMap<String, Vec<u8>>> + Send + Sync>;

/// Configuration of checkpoints.
pub struct CheckpointSettings {
    pub store: PathBuf,
    pub session: PathBuf,
    pub limits: CheckpointLimits,
    pub read_blobs: BlobReader,
}

/// The checkpoints of one session.
pub struct Checkpoints {
    settings: CheckpointSettings,
    scanner: ManifestScanner,
    journal: Journal,
    store: OnceLock<Mutex<ContentPack>>,
    first: Mutex<FirstManifest>,
    state: Mutex<CheckpointState>,
    /// Expected states of the files, to detect changes from outside.
    known: Mutex<KnownFiles>,
}

enum FirstManifest {
    NotBegun,
    Running(JoinHandle<()>),
    Done,
}

/// Inode, and change time of the content.
type FileVersion = (u64, i64);

#[derive(Default)]
struct CheckpointState {
    turn: u32,
    last: Option<Arc<Manifest>>,
    /// The manifest last written to disk, and the version of the file, which other sessions write too.
    saved: Option<(Arc<Manifest>, FileVersion)>,
    is_too_large: bool,
}

impl std::fmt::Debug for Checkpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoints").field("store", &self.settings.store).finish_non_exhaustive()
    }
}

/// The files that an operation may write.
#[derive(Clone, Debug)]
pub enum OperationScope {
    /// One file, anywhere: for a file tool.
    File(PathBuf),
    /// Anything in the project: for a command.
    Project,
}

/// An operation between [`Checkpoints::begin_operation`] and [`Checkpoints::finish_operation`].
pub struct OpenOperation {
    /// Without its changes.
    operation: Operation,
    scope: OperationScope,
    /// Start time since 1970.
    time: Duration,
    /// The manifest before the operation; `None` if the project has too many files.
    before: Option<Arc<Manifest>>,
    /// The size of the journal in bytes before the operation.
    journal_bytes: u64,
    /// The manifest on disk, for the next process if this one is killed.
    open_file: Option<PathBuf>,
    overlap: OperationLock,
}

pub const USER_PROGRAMS: &str = "user programs";

/// The changes of an operation: sorted paths for display.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedFiles {
    pub files: Vec<String>,
    pub ignored: Vec<String>,
}

impl ChangedFiles {
    /// Adds the changes of another operation.
    pub fn merge(&mut self, more: Self) {
        for (all, more) in [(&mut self.files, more.files), (&mut self.ignored, more.ignored)] {
            let new: Vec<String> = more.into_iter().filter(|path| !all.contains(path)).collect();
            all.extend(new);
        }
    }
}

impl Checkpoints {
    pub(super) fn new(root: &Path, closed: Vec<PathBuf>, settings: CheckpointSettings) -> Self {
        Self {
            scanner: ManifestScanner::new(root, closed, settings.limits),
            journal: Journal::new(&settings.session),
            settings,
            store: OnceLock::new(),
            first: Mutex::new(FirstManifest::NotBegun),
            state: Mutex::default(),
            known: Mutex::default(),
        }
    }

    /// Takes the first manifest of the session in the background.
    pub fn spawn_first_manifest(self: &Arc<Self>) {
        let mut first = self.first.lock();
        if matches!(*first, FirstManifest::NotBegun) {
            let this = Arc::clone(self);
            let thread = std::thread::Builder::new().name("checkpoint".to_owned());
            if let Ok(thread) = thread.spawn(move || this.take_first_manifest()) {
                *first = FirstManifest::Running(thread);
            }
        }
    }

    /// Assigns further operations to this turn.
    pub fn begin_turn(&self, turn: u32) {
        self.state.lock().turn = turn;
    }

    /// Why some changes of commands cannot be undone; `None` if all can. Waits for the first manifest.
    pub fn coverage_gap(&self) -> Option<String> {
        self.wait_for_first_manifest();
        let last = self.state.lock().last.clone();
        let Ok(last) = last.map_or_else(|| self.take_manifest(), Ok) else {
            let most = self.settings.limits.max_files;
            return Some(format!("the project has more than {most} files (checkpoints.max_files)"));
        };
        if let Some(why) = last.coverage_gap() {
            return Some(format!("a file has no checkpoint: {why}"));
        }
        let store = self.settings.store.display();
        OperationLock::open(&self.settings.store)
            .is_err()
            .then(|| format!("{store} cannot be written"))
    }

    /// Records the state before an operation. Blocks. `guard` receives the repositories, if they are known, before a command;
    /// if it changed something, the state is recorded again.
    pub fn begin_operation(
        &self,
        what: &str,
        scope: OperationScope,
        guard: &RepositoryCheck<'_>,
    ) -> OpenOperation {
        let overlap = OperationLock::begin(&self.settings.store);
        let turn = self.state.lock().turn;
        let mut open_file = None;
        let before = match &scope {
            OperationScope::File(path) => {
                let before = Arc::new(self.manifest_of_file(path));
                self.detect_outside_changes_of(path, &before);
                Some(before)
            }
            OperationScope::Project => {
                self.wait_for_first_manifest();
                let before = self.take_guarded_manifest(guard).ok();
                if let Some(before) = &before {
                    self.detect_outside_changes(before);
                }
                let saved = self.settings.store.join(MANIFEST_FILE);
                let name = format!("{OPEN_OPERATION_PREFIX}{turn}-{}", uuid::Uuid::now_v7());
                let open = self.settings.session.join(name);
                if before.is_some()
                    && self.save_manifest()
                    && std::fs::hard_link(saved, &open).is_ok()
                {
                    open_file = Some(open);
                }
                before
            }
        };
        let time = now();
        let operation = Operation { turn, what: what.to_owned(), ..Operation::default() };
        let journal_bytes = self.journal.size();
        OpenOperation { operation, scope, time, before, journal_bytes, open_file, overlap }
    }

    /// Looks for repositories in the project; `None` if there are too many files. Blocks.
    pub fn find_repositories(&self) -> Option<BTreeSet<PathBuf>> {
        let found = self.scanner.find_paths().ok().filter(|_| !self.scanner.is_abandoned());
        found.map(|found| found.repositories)
    }

    /// Records the state after an operation, and the changes; in the background the user may have made some.
    /// `guard` receives the repositories, if they are known; if it changed something, the state is recorded again. Blocks.
    pub fn finish_operation(
        &self,
        begun: OpenOperation,
        is_background: bool,
        guard: &RepositoryCheck<'_>,
    ) -> std::io::Result<ChangedFiles> {
        let OpenOperation { operation, scope, time, before, overlap, .. } = begun;
        let (journal_bytes, open_file) = (begun.journal_bytes, begun.open_file);
        let after = match &scope {
            OperationScope::File(path) => Ok(Arc::new(self.manifest_of_file(path))),
            OperationScope::Project => self.take_guarded_manifest(guard),
        };
        if let (OperationScope::Project, Ok(after)) = (&scope, &after) {
            self.known.lock().finish_project_operation(after);
        }
        if let Some(open) = open_file {
            _ = std::fs::remove_file(open);
        }
        // No other author changes a file tool's own file between the two reads.
        let has_overlap = overlap.end() || is_background;
        let is_shared = matches!(scope, OperationScope::Project) && has_overlap;
        let Some(before) = before else { return Ok(ChangedFiles::default()) };
        let Ok(after) = after else {
            return Err(std::io::Error::other(self.coverage_gap().unwrap_or_default()));
        };
        let (mut changes, git) = self.operation_changes(&before, &after, time);
        if is_background {
            remove_changes_of_others(&mut changes, &self.journal.read_from(journal_bytes));
        }
        if changes.is_empty() && git.is_empty() {
            return Ok(ChangedFiles::default());
        }
        let mut names = ChangedFiles::default();
        for change in changes.iter().filter(|change| !change.is_directory()) {
            let list = if change.is_ignored { &mut names.ignored } else { &mut names.files };
            list.push(display_name(&change.path));
        }
        self.record_operation(Operation { is_shared, changes, git, ..operation })?;
        Ok(names)
    }

    /// Records the changes of a killed command. Must be called before any other operation of the session.
    pub fn recover_killed_operations(&self) {
        for entry in std::fs::read_dir(&self.settings.session).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let begun = name
                .to_str()
                .and_then(|name| name.strip_prefix(OPEN_OPERATION_PREFIX)?.split_once('-'));
            let Some((turn, id)) = begun else { continue };
            let (Ok(turn), Ok(id)) = (turn.parse(), uuid::Uuid::parse_str(id)) else { continue };
            let time = id.get_timestamp().map(|time| time.to_unix());
            let time = time.map_or(Duration::ZERO, |(s, ns)| Duration::new(s, ns));
            if let Some(before) = self.load_manifest(&entry.path())
                && let Ok(after) = self.take_manifest()
            {
                let (mut changes, git) = self.operation_changes(&before, &after, time);
                let mut others = self.journal.read();
                others
                    .retain(|other| u128::try_from(other.ended_ms).unwrap_or(0) > time.as_millis());
                remove_changes_of_others(&mut changes, &others);
                // Changes since the end of that process cannot be distinguished.
                let (what, is_shared) = ("Bash".to_owned(), true);
                let killed =
                    Operation { turn, what, is_shared, changes, git, ..Operation::default() };
                if !(killed.changes.is_empty() && killed.git.is_empty())
                    && self.record_operation(killed).is_err()
                {
                    // The next process retries.
                    continue;
                }
            }
            _ = std::fs::remove_file(entry.path());
        }
    }

    fn operation_changes(
        &self,
        before: &Manifest,
        after: &Manifest,
        since: Duration,
    ) -> (Vec<PathChange>, Vec<PathChange>) {
        let mut changes = changes_between(&before.files, &after.files);
        let git = changes_between(&before.git, &after.git);
        let known: HashSet<u64> = before.files.iter().map(|entry| entry.stat.inode).collect();
        changes.retain(|change| !before.may_have_missed(change));
        changes.retain_mut(|change| match (&change.before, &change.after) {
            // A file that is merely no longer ignored existed before, and was not moved here.
            (None, _) => after.find(&change.path).is_none_or(|entry| {
                let ctime = u64::try_from(entry.stat.ctime_ns).map(Duration::from_nanos);
                known.contains(&entry.stat.inode) || ctime.is_ok_and(|ctime| ctime + TICK > since)
            }),
            // A file that is now ignored was not removed.
            (Some(_), None) => {
                let now = self.current_entry(&change.path, [change.before.as_ref(), None]);
                change.after = now.map(|entry| entry.state.clone());
                change.before != change.after
            }
            (Some(_), Some(_)) => true,
        });
        for change in &mut changes {
            change.is_moved_here = self.is_moved_here(&change.path, after, since, &known);
        }
        (changes, git)
    }

    /// True if the file existed before this time, has no other name, and has none of these inodes.
    fn is_moved_here(
        &self,
        path: &PathName,
        now: &Manifest,
        since: Duration,
        known: &HashSet<u64>,
    ) -> bool {
        let entry = now.find(path).filter(|entry| entry.stat.is_file());
        if entry.is_none_or(|entry| known.contains(&entry.stat.inode)) {
            return false;
        }
        let Ok(data) = std::fs::symlink_metadata(self.scanner.root().join(path.as_path())) else {
            return false;
        };
        // Some file systems do not record when a file was created.
        let created = data.created().ok();
        let created = created.and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok());
        data.nlink() == 1 && created.is_some_and(|created| created + TICK < since)
    }

    /// The path is expected to have one of these states. Includes a file that is too large for checkpoints of commands.
    fn current_entry(
        &self,
        name: &PathName,
        expected: [Option<&PathState>; 2],
    ) -> Option<Arc<ManifestEntry>> {
        let size = |state: &PathState| match state {
            PathState::File { hash, .. } => self.pack().lock().size(hash),
            // The content of a larger file is stored as well: a redo can restore it.
            PathState::NotCovered { .. } => Some(MAX_CHANGED),
            PathState::Link { .. } | PathState::Directory { .. } => None,
        };
        let sizes = expected.into_iter().flatten().filter_map(size);
        let max = sizes.fold(self.settings.limits.max_file_bytes, u64::max);
        self.scanner.read_entry(name.as_path(), self.pack(), max)
    }

    /// Like [`Self::current_entry`], for a step of an undo.
    fn entry_of_step(&self, name: &PathName, step: &UndoStep) -> Option<Arc<ManifestEntry>> {
        self.current_entry(name, [step.target.as_ref(), step.expected.as_ref()])
    }

    fn record_operation(&self, operation: Operation) -> std::io::Result<()> {
        self.known.lock().record_own_changes(&operation.changes);
        // Contents first, so that the journal refers only to contents that can be restored.
        let written = self.pack().lock().flush();
        self.journal.record(operation)?;
        written
    }

    fn wait_for_first_manifest(&self) {
        // Another caller waits for the lock meanwhile.
        let mut first = self.first.lock();
        // The thread may hold the last reference to this.
        if let FirstManifest::Running(thread) = std::mem::replace(&mut *first, FirstManifest::Done)
            && thread.thread().id() != std::thread::current().id()
        {
            _ = thread.join();
        }
    }

    /// Completes the background work, and abandons a first manifest that takes longer than a moment: the next session
    /// repeats it. Another owner may hold a reference to this until the process exits.
    pub fn finish(&self) {
        if !self.scanner.is_abandoned() && !self.has_first_manifest_within(FINISH_TIMEOUT) {
            self.scanner.abandon();
            self.has_first_manifest_within(FINISH_TIMEOUT);
        }
        self.save_manifest();
    }

    fn has_first_manifest_within(&self, timeout: Duration) -> bool {
        let begun = Instant::now();
        // Whoever holds the lock waits for the thread.
        let Some(first) = self.first.try_lock_for(timeout) else { return false };
        let FirstManifest::Running(thread) = &*first else { return true };
        let is_own = thread.thread().id() == std::thread::current().id();
        while !thread.is_finished() && !is_own && begun.elapsed() < timeout {
            std::thread::sleep(Duration::from_millis(2));
        }
        thread.is_finished() || is_own
    }

    fn pack(&self) -> &Mutex<ContentPack> {
        self.store.get_or_init(|| {
            Mutex::new(ContentPack::open(&self.settings.store, self.settings.limits))
        })
    }

    fn take_manifest(&self) -> Result<Arc<Manifest>, IncompleteScan> {
        self.take_guarded_manifest(&|_| false)
    }

    fn take_guarded_manifest(
        &self,
        guard: &RepositoryCheck<'_>,
    ) -> Result<Arc<Manifest>, IncompleteScan> {
        let last = self.state.lock().last.clone();
        let last = last.unwrap_or_else(|| {
            let file = self.settings.store.join(MANIFEST_FILE);
            let id = file_version(&file);
            let saved = self.load_manifest(&file).map(Arc::new);
            self.state.lock().saved = saved.clone().zip(id);
            saved.unwrap_or_default()
        });
        if self.state.lock().is_too_large {
            guard(None);
            return Err(IncompleteScan);
        }
        self.pack().lock().forget_removed();
        let taken = self.scanner.take_manifest(&last, self.pack(), guard);
        if self.scanner.is_abandoned() {
            return Err(IncompleteScan);
        }
        let mut manifest = taken.inspect_err(|_| self.state.lock().is_too_large = true)?;
        if manifest.lacks_room() {
            self.pack().lock().make_room(&manifest.hashes());
            manifest = self.scanner.take_manifest(&manifest, self.pack(), &|_| false)?;
        }
        let manifest = Arc::new(manifest);
        self.state.lock().last = Some(manifest.clone());
        Ok(manifest)
    }

    /// Includes the directories above the path, below the root.
    fn manifest_of_path(&self, path: &Path) -> Manifest {
        let root = self.scanner.root();
        let above = path.ancestors().skip(1).take_while(|it| it.starts_with(root) && *it != root);
        let mut files: Vec<Arc<ManifestEntry>> = std::iter::once(path)
            .chain(above)
            .map(|path| path.strip_prefix(root).unwrap_or(path))
            .filter_map(|name| self.scanner.read_entry(name, self.pack(), MAX_CHANGED))
            .collect();
        files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Manifest { files, ..Manifest::default() }
    }

    /// Like [`Self::manifest_of_path`]; frees space for the content if necessary.
    fn manifest_of_file(&self, path: &Path) -> Manifest {
        self.pack().lock().forget_removed();
        let manifest = self.manifest_of_path(path);
        if !manifest.lacks_room() {
            return manifest;
        }
        let mut needed = self.state.lock().last.as_ref().map(|it| it.hashes()).unwrap_or_default();
        needed.extend(manifest.hashes());
        self.pack().lock().make_room(&needed);
        self.manifest_of_path(path)
    }

    fn load_manifest(&self, file: &Path) -> Option<Manifest> {
        let file = std::io::BufReader::new(disk::open_file(file).ok()?);
        let (version, root, manifest): (u32, PathBuf, Manifest) =
            serde_json::from_reader(file).ok()?;
        (version == VERSION && root == self.scanner.root()).then_some(manifest)
    }

    /// Writes the latest manifest for the next session. False if the file does not contain it.
    fn save_manifest(&self) -> bool {
        let file = self.settings.store.join(MANIFEST_FILE);
        let mut state = self.state.lock();
        let Some(last) = state.last.clone() else { return false };
        let is_saved = |(saved, id): &(Arc<Manifest>, FileVersion)| {
            saved.is_same(&last) && file_version(&file) == Some(*id)
        };
        if state.saved.as_ref().is_some_and(is_saved) {
            return true;
        }
        let write = || {
            let mut new = tempfile::NamedTempFile::new_in(&self.settings.store)?;
            let mut writer = std::io::BufWriter::new(&mut new);
            serde_json::to_writer(&mut writer, &(VERSION, self.scanner.root(), &*last))?;
            std::io::Write::flush(&mut writer)?;
            drop(writer);
            let id = file_version(new.path());
            new.persist(&file).map_err(std::io::Error::other)?;
            Ok::<_, std::io::Error>(id)
        };
        // After a failure the next session reads more files.
        let id = write().ok().flatten();
        state.saved = id.map(|id| (last, id));
        id.is_some()
    }
}

fn remove_changes_of_others(changes: &mut Vec<PathChange>, others: &[Operation]) {
    let others = others.iter().flat_map(|operation| &operation.changes);
    let left: HashMap<&PathName, &PathChange> =
        others.map(|change| (&change.path, change)).collect();
    changes.retain_mut(|change| {
        if let Some(other) = left.get(&change.path) {
            change.before.clone_from(&other.after);
        }
        change.before != change.after
    });
}

fn file_version(file: &Path) -> Option<FileVersion> {
    stat(file).ok().map(|stat| (stat.inode, stat.mtime_ns))
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        self.finish();
    }
}

impl OpenOperation {
    /// The turn of the operation.
    pub fn turn(&self) -> u32 {
        self.operation.turn
    }

    /// Assigns the operation to this call. `author` names what makes the changes, for a model: `` `cargo fmt` ``.
    #[must_use]
    pub fn with_call(mut self, call: String, author: String) -> Self {
        (self.operation.call, self.operation.author) = (call, author);
        self
    }
}

/// True without a file or link before and after.
fn is_directory(before: Option<&PathState>, after: Option<&PathState>) -> bool {
    [before, after].into_iter().flatten().all(|it| matches!(it, PathState::Directory { .. }))
}

impl Workspace {
    /// Whether something at or below a path is not covered by checkpoints: ignored beyond the limits, too large, or in
    /// a nested repository. Skips spare paths, and those that are not selected; `is_selected` gets whether it is a directory.
    /// A selected directory includes its contents; the root is never selected.
    pub fn has_uncovered(
        &self,
        path: &Path,
        is_spare: &dyn Fn(&Path) -> bool,
        is_selected: &dyn Fn(&Path, bool) -> bool,
    ) -> bool {
        let is_uncovered =
            |now: &Manifest| now.has_uncovered(self.root(), path, is_spare, is_selected);
        let Some(checkpoints) = self.checkpoints() else {
            return is_uncovered(&Manifest::default());
        };
        checkpoints.wait_for_first_manifest();
        let last = checkpoints.state.lock().last.clone();
        // A covered path does not need another manifest.
        last.is_none_or(|last| is_uncovered(&last))
            && checkpoints.take_manifest().map_or(true, |now| is_uncovered(&now))
    }

    /// Whether git lacks the content of a file at or below one of these paths that checkpoints do not cover and that is not
    /// ignored. With `is_tracked` such a file is tracked and changed, else untracked.
    pub fn has_unsaved(&self, paths: &[PathBuf], is_tracked: bool) -> bool {
        let Some(checkpoints) = self.checkpoints() else { return false };
        checkpoints.wait_for_first_manifest();
        let scanner = &checkpoints.scanner;
        // Without manifests, commands that discard changes ask anyway.
        checkpoints.take_manifest().is_ok_and(|now| scanner.has_unsaved(&now, paths, is_tracked))
    }

    /// The number of paths that a checkpoint of the project covers; `None` above the limit.
    pub fn count_covered(&self, limits: CheckpointLimits) -> Option<usize> {
        let scanner = ManifestScanner::new(self.root(), self.closed_paths(), limits);
        scanner.walk(&Mutex::default()).ok().map(|(paths, _)| paths.len())
    }
}

/// Copies the operations of a session up to a turn to a fork of it, with the files for a replay.
pub fn copy_journal(from: &Path, to: &Path, up_to: Option<u32>) -> std::io::Result<()> {
    let journal = Journal::new(to);
    let operations = Journal::new(from).read();
    let copied = operations.iter().filter(|it| up_to.is_none_or(|up_to| it.turn <= up_to));
    copied.into_iter().try_for_each(|operation| journal.append(operation))?;
    file_history::copy_replay_files(from, to)
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn now_ms() -> i64 {
    i64::try_from(now().as_millis()).unwrap_or(i64::MAX)
}

/// Appends a line of JSON to a file. A killed process may have left the previous line incomplete.
fn append_line(path: &Path, value: &impl serde::Serialize) -> std::io::Result<()> {
    let line = format!("\n{}\n", serde_json::to_string(value)?);
    std::io::Write::write_all(&mut disk::open_for_append(path, true)?, line.as_bytes())
}

fn display_name(name: &PathName) -> String {
    super::path::escape(name.as_path())
}
