//! Undo: restores the state before operations, except for paths that changed since.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fmt;
use std::fs::Permissions;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::git_state::{GitDirs, is_same_index};
use super::journal::{Journal, Operation, OperationLock};
use super::manifest::{ManifestEntry, PathChange, PathName, PathState, stat};
use super::pack::StoredContent;
use super::undo_plan::{MinorReason, UndoPlan, UndoStep, select_operations};
use super::{
    Checkpoints, Hash, OPEN_OPERATION_PREFIX, changes_between, display_name, is_directory,
};
use crate::workspace::leftovers::temporary;
use crate::workspace::snapshot::{FileStat, Snapshot, hash};
use crate::workspace::{ProjectPath, Workspace};
use agent_protocol::disk;

pub(super) const UNDO: &str = "undo";
const WITH_FORCE: &str = "; undo with force to restore it anyway";
/// Permissions that the owner of a directory needs to change it.
const OWNER: u32 = 0o700;

/// The operations to undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoTarget {
    /// The operations of the latest turn that changed anything.
    Latest,
    Turn(u32),
    FromTurn(u32),
    Redo,
}

/// Options of an undo.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UndoOptions {
    /// The user confirmed to undo changes that may belong to another session.
    pub confirmed: bool,
    /// Like `confirmed`, and also undo paths that changed since.
    pub force: bool,
    /// Also restore HEAD, the index and refs. The index alone is always restored.
    pub git: bool,
}

/// The result for one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UndoOutcome {
    Restored,
    Removed,
    Unchanged,
    Refused(String),
    /// Like `Refused`, but no failure: the path is ignored or written only by hooks or checks.
    Skipped(String),
}

impl fmt::Display for UndoOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restored => f.write_str("restored"),
            Self::Removed => f.write_str("removed"),
            Self::Unchanged => f.write_str("already as before"),
            Self::Refused(why) | Self::Skipped(why) => write!(f, "left as it is: {why}"),
        }
    }
}

/// The result of an undo.
#[derive(Clone, Debug, Default)]
pub struct UndoReport {
    pub turns: (u32, u32),
    pub files: Vec<(String, UndoOutcome)>,
    /// Why changes of HEAD, the index or refs stay in place.
    pub git_skipped: Option<GitSkipReason>,
}

/// Why an undo does not restore the state of git.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GitSkipReason {
    NotRequested,
    /// A file could not be restored, and git may have its only copy: in a stash, or in a commit.
    MayHaveFile,
}

impl UndoReport {
    /// Whether every path is in its previous state, except for [`UndoOutcome::Skipped`].
    pub fn is_complete(&self) -> bool {
        !self.files.iter().any(|(_, how)| matches!(how, UndoOutcome::Refused(_)))
    }
}

/// Why nothing was undone.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    #[error("nothing to undo")]
    Nothing,
    /// Another session or a background command worked at the same time: the user has to confirm.
    #[error(
        "turn {turn}: another session, a background command or a process of a killed session may have made some of these \
         changes; --force undoes them anyway: {}",
        .paths.join(", ")
    )]
    Shared { turn: u32, paths: Vec<String> },
    #[error("the checkpoints could not be used: {0}")]
    Failed(String),
}

/// Whether the session has operations to undo; a command of a killed process may have made changes.
pub fn can_undo(session: &Path, target: UndoTarget) -> bool {
    let is_open = || {
        let files = std::fs::read_dir(session).into_iter().flatten().flatten();
        files
            .map(|it| it.file_name())
            .any(|it| it.to_string_lossy().starts_with(OPEN_OPERATION_PREFIX))
    };
    let operations = Journal::new(session).read();
    !select_operations(&operations, target).is_empty() || target != UndoTarget::Redo && is_open()
}

impl Workspace {
    /// The first turn of the operations that an undo would undo.
    pub fn turn_to_undo(&self, target: UndoTarget) -> Option<u32> {
        let checkpoints = self.checkpoints()?;
        let operations = checkpoints.journal.read();
        checkpoints.selected_operations(&operations, target, false).first().map(|first| first.turn)
    }

    /// Undoes operations. Skips a path that changed since, unless `force` is set.
    pub fn undo(&self, target: UndoTarget, options: UndoOptions) -> Result<UndoReport, UndoError> {
        let UndoOptions { force, git, .. } = options;
        let checkpoints = self.checkpoints.as_ref().ok_or(UndoError::Nothing)?;
        let operations = checkpoints.journal.read();
        let PlannedUndo { selected, turns, plan: files } =
            checkpoints.plan_confirmed_undo(&operations, target, options)?;
        let of_git = UndoPlan::of(&selected, |operation| &operation.git);
        let dirs = checkpoints.scanner.git.as_ref();
        let is_index = |name: &PathName| dirs.is_some_and(|dirs| dirs.is_of_index(name.as_path()));
        let restores_git = git || of_git.steps.keys().all(is_index);

        let overlap = OperationLock::begin(&checkpoints.settings.store);
        let mut report = UndoReport { turns, files: Vec::new(), git_skipped: None };
        let (mut of_files, mut done) = self.execute_plan(checkpoints, &files, force, checkpoints);
        for change in &mut of_files {
            let step = files.steps.get(&change.path);
            change.is_ignored = step.is_some_and(|step| step.minor == Some(MinorReason::Ignored));
        }
        let lacks_content = |(name, step): (&PathName, &UndoStep)| {
            let is_refused = |(path, how): &(String, UndoOutcome)| {
                matches!(how, UndoOutcome::Refused(_)) && *path == display_name(name)
            };
            matches!(step.target, Some(PathState::NotCovered { .. })) && done.iter().any(is_refused)
        };
        // A file that could not be restored may be in a stash or a commit.
        let keeps_git = !force && files.steps.iter().any(lacks_content);
        report.files.append(&mut done);
        report.git_skipped = match (restores_git, keeps_git) {
            _ if of_git.steps.is_empty() => None,
            (_, true) => Some(GitSkipReason::MayHaveFile),
            (false, false) => Some(GitSkipReason::NotRequested),
            (true, false) => None,
        };
        let git_plan = if report.git_skipped.is_none() { of_git } else { UndoPlan::default() };
        let (of_git, mut done) = self.execute_plan(checkpoints, &git_plan, force, checkpoints);
        if !git && done.iter().any(|(_, how)| matches!(how, UndoOutcome::Refused(_))) {
            // The index was not requested, and has changed since.
            report.git_skipped = Some(GitSkipReason::NotRequested);
            done.clear();
        }
        report.files.append(&mut done);
        for (_, how) in &mut report.files {
            // An undo with force would undo something else.
            if let (UndoTarget::Redo, UndoOutcome::Refused(why)) = (target, how) {
                *why = why.replace(WITH_FORCE, "");
            }
        }
        // A partial undo counts as a separate operation, so that the rest can be undone later.
        let is_complete = report.is_complete();
        let undoes: BTreeSet<u32> =
            selected.iter().filter(|_| is_complete).map(|it| it.id).collect();
        drop(overlap);
        if undoes.is_empty() && of_files.is_empty() && of_git.is_empty() {
            return Ok(report);
        }
        let word = if target == UndoTarget::Redo { "redo" } else { UNDO };
        let (what, turn, changes, git) = (word.to_owned(), turns.1, of_files, of_git);
        let undo = Operation { turn, what, changes, git, undoes, ..Operation::default() };
        checkpoints
            .record_operation(undo)
            .map_err(|error| UndoError::Failed(format!("the undo is not recorded: {error}")))?;
        Ok(report)
    }

    /// The contents come from `source`. Returns the actual changes, and the result for each path.
    pub(super) fn execute_plan(
        &self,
        checkpoints: &Checkpoints,
        plan: &UndoPlan,
        force: bool,
        source: &Checkpoints,
    ) -> (Vec<PathChange>, Vec<(String, UndoOutcome)>) {
        let root = checkpoints.scanner.root();
        let current = |(name, step): (&PathName, &UndoStep)| checkpoints.entry_of_step(name, step);
        // The checkpoint before the undo stores the current contents.
        let before: BTreeMap<PathName, Option<std::sync::Arc<ManifestEntry>>> =
            plan.steps.iter().map(|(name, step)| (name.clone(), current((name, step)))).collect();
        if let Err(error) = checkpoints.pack().lock().flush() {
            let refused = |name| (display_name(name), io_refusal(&error));
            return (Vec::new(), plan.steps.keys().map(refused).collect());
        }
        for folder in plan
            .steps
            .keys()
            .filter_map(|name| root.join(name.as_path()).parent().map(Path::to_owned))
        {
            self.remove_leftovers_once(&folder);
        }
        let mut done: BTreeMap<&PathName, UndoOutcome> = BTreeMap::new();
        let mut todo: Vec<(&PathName, &UndoStep)> = Vec::new();
        for (name, step) in &plan.steps {
            let now = before[name].as_deref();
            let force = force || checkpoints.is_refreshed_index(name, step, now);
            match refuse_step(step, now, force) {
                Some(how) => drop(done.insert(name, how)),
                None => todo.push((name, step)),
            }
        }
        let contents =
            source.read_contents(todo.iter().filter_map(|(_, step)| step.target.as_ref()));
        // Temporary permissions, for changes of the entries of read-only directories.
        for (name, _) in &todo {
            if let Some(PathState::Directory { mode }) = before[*name].as_ref().map(|it| &it.state)
                && mode & OWNER != OWNER
            {
                _ = set_mode(&root.join(name.as_path()), mode | OWNER);
            }
        }
        // Removals make room for additions: removals from the inside out, then additions from the outside in.
        for (name, step) in todo.iter().rev() {
            let now = before[*name].as_ref().map(|entry| &entry.state);
            let path = root.join(name.as_path());
            if !is_unchanged(&path, before[*name].as_deref()) {
                done.insert(name, UndoOutcome::Refused("it was changed just now".to_owned()));
            } else if now.is_some_and(|now| !is_changed_in_place(now, step.target.as_ref())) {
                let removed = remove_path(&path, now);
                match (removed, &step.target) {
                    (Ok(()), None) => drop(done.insert(name, UndoOutcome::Removed)),
                    (Ok(()), Some(_)) => {}
                    (Err(error), _) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                        done.insert(name, nonempty_directory_outcome(name, step, &done));
                    }
                    (Err(error), _) => drop(done.insert(name, io_refusal(&error))),
                }
            } else if step.target.is_none() {
                done.insert(name, UndoOutcome::Unchanged);
            }
        }
        for (name, step) in &todo {
            let Some(target) = step.target.as_ref().filter(|_| !done.contains_key(name)) else {
                continue;
            };
            let now = before[*name].as_ref();
            let kept = now.filter(|now| is_changed_in_place(&now.state, Some(target)));
            let path = root.join(name.as_path());
            let restored = self.restore_state(&path, target, kept.map(|it| &**it), &contents);
            let how = restored.map_or_else(|error| io_refusal(&error), |()| UndoOutcome::Restored);
            done.insert(name, how);
        }
        // Last, because a directory may be read-only.
        for (name, step) in todo.iter().rev() {
            let now = before[*name].as_ref().map(|entry| &entry.state);
            if let (Some(PathState::Directory { mode }), _)
            | (None, Some(PathState::Directory { mode })) = (&step.target, now)
            {
                // A directory that could not be removed is unchanged.
                _ = set_mode(&root.join(name.as_path()), *mode);
            }
        }
        let after: Vec<_> = plan.steps.iter().map(current).collect();
        // Only paths that are really in the target state are reported as restored.
        for ((name, step), now) in plan.steps.iter().zip(&after) {
            if let Some(how) = done.get_mut(name)
                && !matches!(how, UndoOutcome::Refused(_) | UndoOutcome::Skipped(_))
                && !has_state(step.target.as_ref(), now.as_deref())
            {
                *how = UndoOutcome::Refused("it could not be made as it was before".to_owned());
            }
        }
        let after: Vec<_> = after.into_iter().flatten().collect();
        let before: Vec<_> = before.into_values().flatten().collect();
        (changes_between(&before, &after), reported_outcomes(plan, done))
    }

    fn restore_state(
        &self,
        path: &Path,
        target: &PathState,
        now: Option<&ManifestEntry>,
        contents: &Contents,
    ) -> io::Result<()> {
        let (parent, name) = parent_and_name(path)?;
        match target {
            PathState::Directory { .. } => {
                if now.is_none() {
                    let mode = Mode::from_raw_mode(0o700);
                    rustix::fs::mkdirat(disk::open_folder(parent)?, name, mode)?;
                }
                Ok(())
            }
            PathState::Link { target } => {
                Ok(rustix::fs::symlinkat(target.as_path(), disk::open_folder(parent)?, name)?)
            }
            PathState::File { mode, hash } => {
                let mode = Mode::from_raw_mode(*mode);
                // The directory of a ref is removed with its last ref.
                if path.components().any(|part| part.as_os_str() == ".git") {
                    disk::create_folder_all(parent, 0o777)?;
                }
                if let Some(ManifestEntry { state: PathState::File { hash: now, .. }, .. }) = now
                    && now == hash
                {
                    let file = disk::open_file(path)?;
                    return Ok(rustix::fs::fchmod(file, mode)?);
                }
                let bytes = content_of(hash, contents)?;
                // Like the file tools: concurrent writes of another process are not lost.
                let is_writable = |now: &ManifestEntry| matches!(now.state, PathState::File { mode, .. } if mode & 0o600 == 0o600);
                let resolved = path.to_str().and_then(|path| self.resolve(path).ok());
                match resolved.filter(|it| it.absolute() == path && now.is_some_and(is_writable)) {
                    Some(inside) => self.exchange_content(&inside, bytes)?,
                    None => {
                        let directory = disk::open_folder(parent)?;
                        return write_file(&directory, name, bytes, mode, now.is_some());
                    }
                }
                Ok(rustix::fs::fchmod(disk::open_file(path)?, mode)?)
            }
            PathState::NotCovered { why, .. } => Err(io::Error::other(why.clone())),
        }
    }

    fn exchange_content(&self, path: &ProjectPath, bytes: &[u8]) -> io::Result<()> {
        let failed = |failure: agent_protocol::envelope::Failure| io::Error::other(failure.message);
        let (mut file, data) = self.open_file(path).map_err(failed)?;
        let mut now = Vec::new();
        io::Read::read_to_end(&mut file, &mut now)?;
        let seen = Snapshot::new(FileStat::of(&data), &now);
        self.replace_file(path, &seen, bytes).map(drop).map_err(failed)
    }
}

/// The operations that an undo undoes, the first and the last of their turns, and the steps for their files.
pub(super) struct PlannedUndo<'a> {
    selected: Vec<&'a Operation>,
    pub(super) turns: (u32, u32),
    pub(super) plan: UndoPlan,
}

impl Checkpoints {
    pub(super) fn plan_confirmed_undo<'a>(
        &self,
        operations: &'a [Operation],
        target: UndoTarget,
        options: UndoOptions,
    ) -> Result<PlannedUndo<'a>, UndoError> {
        let selected = self.selected_operations(operations, target, options.force);
        let (Some(first), Some(last)) = (selected.first(), selected.last()) else {
            return Err(UndoError::Nothing);
        };
        let turns = (first.turn, last.turn);
        let plan = self.plan_undo(operations, &selected);
        if !options.force && !options.confirmed && selected.iter().any(|it| it.is_shared) {
            let paths = plan.steps.keys().map(display_name).collect();
            return Err(UndoError::Shared { turn: turns.0, paths });
        }
        Ok(PlannedUndo { selected, turns, plan })
    }

    /// True for the index of git, if it lists the same files as after the operations.
    fn is_refreshed_index(
        &self,
        name: &PathName,
        step: &UndoStep,
        now: Option<&ManifestEntry>,
    ) -> bool {
        let index = self.scanner.git.as_ref().map(GitDirs::index);
        if index.as_deref() != Some(name.as_path()) || step.is_broken {
            return false;
        }
        let (Some(PathState::File { hash: expected, .. }), Some(PathState::File { hash, .. })) =
            (&step.expected, now.map(|now| &now.state))
        else {
            return false;
        };
        let contents = self.read_contents(step.expected.iter().chain(now.map(|now| &now.state)));
        let of = |hash| contents.get(hash).and_then(|bytes| bytes.as_ref().ok());
        of(expected).zip(of(hash)).is_some_and(|(one, other)| is_same_index(one, other))
    }

    pub(super) fn read_contents<'a>(
        &self,
        states: impl Iterator<Item = &'a PathState>,
    ) -> Contents {
        let mut contents = HashMap::new();
        // Several files may have one content.
        let mut blobs: HashMap<Hash, String> = HashMap::new();
        let mut pack = self.pack().lock();
        for state in states {
            let PathState::File { hash, .. } = state else { continue };
            match pack.get(hash) {
                Ok(StoredContent::Bytes(bytes)) => drop(contents.insert(*hash, Ok(bytes))),
                Ok(StoredContent::GitBlob(id)) => {
                    let id = id.iter().map(|byte| format!("{byte:02x}")).collect();
                    blobs.insert(*hash, id);
                }
                Err(error) => drop(contents.insert(*hash, Err(error))),
            }
        }
        drop(pack);
        if blobs.is_empty() {
            return contents;
        }
        let ids: Vec<String> = blobs.values().cloned().collect();
        let mut read = match (self.settings.read_blobs)(self.scanner.root(), &ids) {
            Ok(read) => read,
            Err(error) => {
                let failed = || io::Error::other(format!("git could not read it: {error}"));
                contents.extend(blobs.keys().map(|hash| (*hash, Err(failed()))));
                return contents;
            }
        };
        for (hash, id) in blobs {
            let bytes = read.remove(&id).filter(|bytes| blake3::hash(bytes) == hash);
            let bytes = bytes.ok_or_else(|| io::Error::other("git does not have it any more"));
            contents.insert(hash, bytes);
        }
        contents
    }
}

/// Contents by hash, or why one cannot be read.
pub(super) type Contents = HashMap<Hash, io::Result<Vec<u8>>>;

pub(super) fn content_of<'a>(hash: &Hash, contents: &'a Contents) -> io::Result<&'a [u8]> {
    match contents.get(hash) {
        Some(Ok(bytes)) => Ok(bytes),
        Some(Err(error)) => Err(io::Error::other(error.to_string())),
        None => Err(io::Error::other("its content is not stored any more")),
    }
}

pub(super) fn parent_and_name(path: &Path) -> io::Result<(&Path, &OsStr)> {
    path.parent().zip(path.file_name()).ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Directories are reported only if refused.
pub(super) fn reported_outcomes(
    plan: &UndoPlan,
    mut done: BTreeMap<&PathName, UndoOutcome>,
) -> Vec<(String, UndoOutcome)> {
    done.retain(|name, how| {
        let UndoStep { target, expected, .. } = &plan.steps[*name];
        matches!(how, UndoOutcome::Refused(_)) || !is_directory(target.as_ref(), expected.as_ref())
    });
    done.into_iter().map(|(name, how)| (display_name(name), how)).collect()
}

/// Why a step is not executed; [`UndoOutcome::Unchanged`] if it is not needed.
pub(super) fn refuse_step(
    step: &UndoStep,
    now: Option<&ManifestEntry>,
    force: bool,
) -> Option<UndoOutcome> {
    if has_state(step.target.as_ref(), now) {
        return Some(UndoOutcome::Unchanged);
    }
    if let Some(PathState::NotCovered { why, .. }) = &step.target {
        return Some(step.leave(format!("its old content is not kept: {why}")));
    }
    if step.is_moved_here && now.is_some() && !force {
        let why = "it was moved here from a place without checkpoints; move it back first, or undo with force";
        return Some(UndoOutcome::Refused(why.to_owned()));
    }
    // A redo could not restore a file whose content is not stored.
    let is_lost = now
        .is_some_and(|now| matches!(now.state, PathState::NotCovered { .. }) && now.stat.is_file());
    let is_expected = has_state(step.expected.as_ref(), now) || is_between(step, now);
    if force || !step.is_broken && !is_lost && is_expected {
        return None;
    }
    if let Some(minor) = step.minor {
        let why = match minor {
            MinorReason::UserPrograms => "a hook or check wrote it, and it was changed since",
            MinorReason::Ignored => "it is ignored, and it or a file beside it was changed since",
        };
        return Some(UndoOutcome::Skipped(why.to_owned()));
    }
    Some(UndoOutcome::Refused(match now.map(|now| &now.state) {
        Some(PathState::NotCovered { why, .. }) => {
            format!("its current content is not kept: {why}{WITH_FORCE}")
        }
        now => {
            let what = if now.is_some() { "changed" } else { "removed" };
            format!("it was {what} since{WITH_FORCE}")
        }
    }))
}

/// True for a path on its way between the two states of a step, as a killed process leaves it: removed before the other
/// is made, a directory with the permissions of its beginning, or a file with its new content and its old permissions.
fn is_between(step: &UndoStep, now: Option<&ManifestEntry>) -> bool {
    use PathState::{Directory, File};
    let sides = [step.expected.as_ref(), step.target.as_ref()];
    match (sides, now.map(|now| &now.state)) {
        ([Some(one), Some(other)], None) => !is_changed_in_place(one, Some(other)),
        (
            [Some(Directory { .. }), other] | [other, Some(Directory { .. })],
            Some(Directory { .. }),
        ) => !matches!(other, Some(Directory { .. })),
        (
            [Some(File { hash, .. }), Some(File { mode, .. })],
            Some(File { mode: now_mode, hash: now }),
        ) => (hash, mode) == (now, now_mode),
        _ => false,
    }
}

/// Compares the metadata if the content is not covered.
pub(super) fn has_state(state: Option<&PathState>, now: Option<&ManifestEntry>) -> bool {
    match (state, now) {
        (None, None) => true,
        (Some(PathState::NotCovered { stat, .. }), Some(now)) => now.stat == *stat,
        (Some(state), Some(now)) => now.state == *state,
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// True if the path did not change since it was read. Entries of a directory are not removed with it.
fn is_unchanged(path: &Path, seen: Option<&ManifestEntry>) -> bool {
    match (stat(path), seen) {
        // A path that did not exist: creating it replaces nothing.
        (Ok(_), Some(ManifestEntry { state: PathState::Directory { .. }, .. })) | (_, None) => true,
        (Ok(stat), Some(seen)) => stat == seen.stat,
        (Err(_), Some(_)) => false,
    }
}

pub(super) fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let (parent, name) = parent_and_name(path)?;
    let parent = disk::open_folder(parent)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    std::fs::set_permissions(disk::descriptor_path(&directory), Permissions::from_mode(mode))
}

fn io_refusal(error: &io::Error) -> UndoOutcome {
    UndoOutcome::Refused(error.to_string())
}

/// For a directory with entries that the plan does not remove. `done`: the results for the entries.
pub(super) fn nonempty_directory_outcome(
    name: &PathName,
    step: &UndoStep,
    done: &BTreeMap<&PathName, UndoOutcome>,
) -> UndoOutcome {
    let inside = || {
        let inside = done.iter().filter(|(it, _)| it.as_path().starts_with(name.as_path()));
        inside.map(|(_, how)| how)
    };
    let is_left = inside().any(|how| matches!(how, UndoOutcome::Skipped(_)));
    if is_left && !inside().any(|how| matches!(how, UndoOutcome::Refused(_))) {
        return UndoOutcome::Skipped("it contains files that are left as they are".to_owned());
    }
    step.leave("it contains files that no checkpoint covers".to_owned())
}

/// True if the existing file is changed, not removed first.
fn is_changed_in_place(now: &PathState, target: Option<&PathState>) -> bool {
    matches!(
        (now, target),
        (PathState::File { .. } | PathState::NotCovered { .. }, Some(PathState::File { .. }))
            | (PathState::Directory { .. }, Some(PathState::Directory { .. }))
    )
}

pub(super) fn remove_path(path: &Path, now: Option<&PathState>) -> io::Result<()> {
    let (parent, name) = parent_and_name(path)?;
    let is_directory = matches!(now, Some(PathState::Directory { .. }));
    let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    Ok(rustix::fs::unlinkat(disk::open_folder(parent)?, name, flags)?)
}

/// Writes a temporary file and renames it; replaces an existing file only if requested.
pub(super) fn write_file(
    directory: &OwnedFd,
    name: &OsStr,
    bytes: &[u8],
    mode: Mode,
    replaces: bool,
) -> io::Result<()> {
    let temporary = temporary::name(std::process::id(), 0, "", &hash(bytes));
    let mut file = disk::create_file_in(directory, &temporary)?;
    let mut finish = || {
        file.write_all(bytes)?;
        rustix::fs::fchmod(&file, mode)?;
        if replaces {
            return Ok(rustix::fs::renameat(directory, &temporary, directory, name)?);
        }
        match renameat_with(directory, &temporary, directory, name, RenameFlags::NOREPLACE) {
            // Network file systems do not support this flag.
            Err(Errno::INVAL | Errno::NOSYS) => {
                rustix::fs::linkat(directory, &temporary, directory, name, AtFlags::empty())?;
                Ok(rustix::fs::unlinkat(directory, &temporary, AtFlags::empty())?)
            }
            other => Ok(other?),
        }
    };
    let finished: io::Result<()> = finish();
    if finished.is_err() {
        _ = rustix::fs::unlinkat(directory, &temporary, AtFlags::empty());
    }
    finished
}
