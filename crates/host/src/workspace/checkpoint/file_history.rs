//! The states of a project during a recorded session, for a scratch copy.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};
use std::time::{Duration, SystemTime};

use rustix::fs::Mode;

use super::git_state::OPERATION_FILES;
use super::journal::Operation;
use super::manifest::{Manifest, PathChange, PathName, PathState};
use super::outside_changes::{self, OutsideBatch};
use super::restore::{Contents, content_of, parent_and_name, remove_path, set_mode, write_file};
use super::{
    CheckpointSettings, Checkpoints, Hash, MANIFEST_FILE, USER_PROGRAMS, disk, display_name,
};
use crate::workspace::directory_copy::copy_tree;

/// Prefix of a file in the directory of a session, followed by a time-ordered UUID: the manifest from the
/// beginning of the session, or of its continuation by another process.
const START_FILE: &str = "start-manifest-";
const MAX_KEPT_MANIFEST: u64 = 32 * 1024 * 1024;
const BATCH: usize = 256;

/// The files of a recorded session: the first manifest, the operations, and the changes from outside.
pub struct FileHistory {
    checkpoints: Checkpoints,
    /// The manifests from the beginning of each process, oldest first.
    starts: Vec<Manifest>,
    operations: Vec<Operation>,
    outside: Vec<OutsideBatch>,
}

/// The change of a path from outside.
#[derive(Clone, Debug)]
pub struct OutsideChange {
    pub at_ms: i64,
    pub noticed_ms: i64,
    pub mtime_ms: Option<i64>,
    /// The id of the last call with changes before the detection; empty if there is none.
    pub after_call: String,
    pub path: String,
    change: PathChange,
    is_git: bool,
}

impl OutsideChange {
    fn of(change: &PathChange, is_git: bool) -> Self {
        let (change, path) = (change.clone(), display_name(&change.path));
        let (at_ms, noticed_ms, mtime_ms, after_call) = (0, 0, None, String::new());
        Self { at_ms, noticed_ms, mtime_ms, after_call, path, change, is_git }
    }
}

impl Checkpoints {
    /// The manifest stays in the session's directory for a replay.
    pub(super) fn take_first_manifest(&self) {
        let Ok(first) = self.take_manifest() else { return };
        self.known.lock().set_first_manifest(&first);
        // Without contents nothing has created the store.
        _ = disk::create_folder_all(&self.settings.store, 0o700);
        let saved = self.settings.store.join(MANIFEST_FILE);
        let is_small = |data: std::fs::Metadata| data.len() <= MAX_KEPT_MANIFEST;
        if self.save_manifest() && std::fs::metadata(&saved).is_ok_and(is_small) {
            let name = format!("{START_FILE}{}", uuid::Uuid::now_v7());
            // After a failure the session cannot be replayed.
            _ = std::fs::hard_link(saved, self.settings.session.join(name));
        }
    }
}

impl FileHistory {
    /// Reads the files of the session whose directory is in the settings. `root` need not exist any more.
    pub fn read(root: &Path, settings: CheckpointSettings) -> Self {
        let session = settings.session.clone();
        let checkpoints = Checkpoints::new(root, Vec::new(), settings);
        let names = fs::read_dir(&session).into_iter().flatten().flatten();
        let mut names: Vec<_> = names
            .map(|entry| entry.file_name())
            .filter(|name| name.as_bytes().starts_with(START_FILE.as_bytes()))
            .collect();
        names.sort();
        let starts = names.iter().filter_map(|name| checkpoints.load_manifest(&session.join(name)));
        let outside = disk::read_file(&session.join(outside_changes::FILE)).unwrap_or_default();
        let outside = outside.split(|byte| *byte == b'\n');
        Self {
            starts: starts.collect(),
            operations: checkpoints.journal.read(),
            outside: outside.filter_map(|line| serde_json::from_slice(line).ok()).collect(),
            checkpoints,
        }
    }

    /// Whether the first manifest was recorded.
    pub fn has_first_manifest(&self) -> bool {
        !self.starts.is_empty()
    }

    /// Creates the files as they were after this turn, 0: of the first manifest, in an empty directory, and the repository
    /// in its `.git`. Returns the paths that differ from the recorded state, with reasons.
    pub fn create_scratch_copy(&self, to: &Path, turn: u32) -> io::Result<Vec<(String, String)>> {
        let mut missing = Vec::new();
        let Some(start) = self.starts.first() else { return Ok(missing) };
        let mut states: BTreeMap<PathName, PathState> =
            start.files.iter().map(|entry| (entry.path.clone(), entry.state.clone())).collect();
        let times: HashMap<&PathName, i64> =
            start.files.iter().map(|entry| (&entry.path, entry.stat.mtime_ns)).collect();
        // The manifest was taken while the session worked: the recorded state before a change is certain.
        let mut earliest = BTreeMap::new();
        for change in self.changes() {
            earliest.entry(&change.path).or_insert(&change.before);
        }
        for (path, before) in earliest {
            match before {
                Some(state) => drop(states.insert(path.clone(), state.clone())),
                None => drop(states.remove(path)),
            }
        }
        let mut git: BTreeMap<PathName, PathState> =
            start.git.iter().map(|entry| (entry.path.clone(), entry.state.clone())).collect();
        let own: Vec<&Operation> = self.operations.iter().filter(|it| it.turn <= turn).collect();
        let last = own.last().map_or(0, |operation| operation.id);
        for id in std::iter::once(0).chain(own.iter().map(|it| it.id)) {
            for operation in own.iter().filter(|it| it.id == id) {
                operation.changes.iter().for_each(|change| apply_change(&mut states, change));
                operation.git.iter().for_each(|change| apply_change(&mut git, change));
            }
            // What came after the last operation belongs to a later moment.
            let outside = self.outside.iter().filter(|it| it.after == id && id < last);
            for change in outside.flat_map(|it| &it.changes) {
                apply_change(if change.is_git { &mut git } else { &mut states }, &change.change);
            }
        }
        let states: Vec<(&PathName, &PathState)> =
            states.iter().filter(|(path, _)| is_inside(path.as_path())).collect();
        for part in states.chunks(BATCH) {
            let contents = self.checkpoints.read_contents(part.iter().map(|(_, state)| *state));
            for (path, state) in part {
                let full = to.join(path.as_path());
                match write_state(&full, state, &contents) {
                    Ok(()) => set_time(&full, state, times.get(path).copied()),
                    Err(error) => missing.push((display_name(path), error.to_string())),
                }
            }
        }
        for (path, state) in states.iter().rev() {
            if let PathState::Directory { mode } = state {
                set_mode(&to.join(path.as_path()), *mode)?;
            }
        }
        if !start.git.is_empty()
            && let Err(error) = self.copy_repository(&git, to)
        {
            missing.push((".git".to_owned(), error.to_string()));
        }
        Ok(missing)
    }

    fn changes(&self) -> impl Iterator<Item = &PathChange> {
        let ids = std::iter::once(0).chain(self.operations.iter().map(|it| it.id));
        ids.flat_map(|id| {
            let own = self.operations.iter().filter(move |it| it.id == id);
            let outside = self.outside.iter().filter(move |it| it.after == id);
            let outside = outside.flat_map(|it| &it.changes).filter(|it| !it.is_git);
            own.flat_map(|it| &it.changes).chain(outside.map(|it| &it.change))
        })
    }

    fn copy_repository(&self, states: &BTreeMap<PathName, PathState>, to: &Path) -> io::Result<()> {
        let gone = || io::Error::other("the repository is gone");
        let git = self.checkpoints.scanner.git.as_ref().ok_or_else(gone)?;
        if git.top != self.checkpoints.scanner.root() {
            return Err(io::Error::other(
                "the repository is around the project, and is not copied",
            ));
        }
        let own = to.join(".git");
        copy_tree(&git.common, &own, &|path| path.extension() == Some(OsStr::new("lock")))?;
        let replaced = ["refs", "packed-refs", "logs/refs/stash"];
        for name in replaced.iter().chain(OPERATION_FILES) {
            clear_path(&own.join(name))?;
        }
        disk::create_folder_all(&own.join("refs/heads"), 0o755)?;
        disk::create_folder_all(&own.join("refs/tags"), 0o755)?;
        let contents = self.checkpoints.read_contents(states.values());
        for (name, state) in states {
            let Some(path) = git.path_in_copy(name.as_path(), &own) else { continue };
            write_state(&path, state, &contents)?;
        }
        Ok(())
    }

    /// The changes from outside, in the order of their times.
    pub fn outside_changes(&self) -> Vec<OutsideChange> {
        let noticed = self.outside.iter().flat_map(|outside| {
            let before = self.operations.iter().find(|it| it.id == outside.after);
            outside.changes.iter().map(move |it| OutsideChange {
                at_ms: it.at_ms,
                noticed_ms: outside.noticed_ms,
                mtime_ms: it.mtime_ms,
                after_call: before.map(|it| it.call.clone()).unwrap_or_default(),
                ..OutsideChange::of(&it.change, it.is_git)
            })
        });
        let mut changes: Vec<OutsideChange> = noticed.collect();
        changes.sort_by_key(|change| change.at_ms);
        changes
    }

    /// The differences between the end of the previous process and the first manifest of the one with this number, from 1.
    pub fn outside_changes_before(
        &self,
        process: usize,
        n_operations: usize,
    ) -> Vec<OutsideChange> {
        let Some(begin) = self.starts.get(process).filter(|_| process > 0) else {
            return Vec::new();
        };
        let Some(start) = self.starts.first() else { return Vec::new() };
        let mut states: BTreeMap<&PathName, Option<&PathState>> =
            start.files.iter().map(|entry| (&entry.path, Some(&entry.state))).collect();
        let last = n_operations.checked_sub(1).and_then(|at| self.operations.get(at));
        let last = last.map_or(0, |operation| operation.id);
        let ids = std::iter::once(0).chain(self.operations.iter().map(|it| it.id));
        for id in ids.filter(|id| *id <= last) {
            // The replay of a killed command does not make its changes.
            let is_of_call = |it: &&Operation| it.what != "Bash" || !it.call.is_empty();
            for own in self.operations.iter().filter(|it| it.id == id).filter(is_of_call) {
                states.extend(own.changes.iter().map(|it| (&it.path, it.after.as_ref())));
            }
            for batch in self.outside.iter().filter(|it| it.after == id && id < last) {
                let changes = batch.changes.iter().filter(|it| !it.is_git);
                states.extend(changes.map(|it| (&it.change.path, it.change.after.as_ref())));
            }
        }
        let mut changes = Vec::new();
        let mut add = |path: &PathName, before: Option<&PathState>, after: Option<&PathState>| {
            let change = PathChange::new(path.clone(), before.cloned(), after.cloned());
            changes.push(OutsideChange::of(&change, false));
        };
        for entry in &begin.files {
            let before = states.remove(&entry.path).flatten();
            if before != Some(&entry.state) {
                add(&entry.path, before, Some(&entry.state));
            }
        }
        for (path, before) in states {
            // A path that the manifest does not cover is not gone.
            if before.is_some() && start.find(path).is_some() {
                add(path, before, None);
            }
        }
        changes
    }

    /// Makes the changes in a scratch copy. Returns the failed paths with reasons.
    pub fn apply_changes(&self, changes: &[OutsideChange], to: &Path) -> Vec<(String, String)> {
        let states = changes.iter().filter_map(|it| it.change.after.as_ref());
        let contents = self.checkpoints.read_contents(states);
        let git = self.checkpoints.scanner.git.as_ref();
        let mut failed = Vec::new();
        // Removals from the inside out, then additions from the outside in.
        let (gone, there): (Vec<_>, Vec<_>) =
            changes.iter().partition(|it| it.change.after.is_none());
        for outside in gone.iter().rev().chain(&there) {
            let path = outside.change.path.as_path();
            let path = match (outside.is_git, git) {
                (true, Some(git)) => git.path_in_copy(path, &to.join(".git")),
                (true, None) => None,
                (false, _) => is_inside(path).then(|| to.join(path)),
            };
            let applied = match (path, &outside.change.after) {
                (None, _) => Err(io::Error::other("it is outside the project")),
                (Some(path), Some(state)) => write_state(&path, state, &contents),
                (Some(path), None) => clear_path(&path),
            };
            if let Err(error) = applied {
                failed.push((outside.path.clone(), error.to_string()));
            }
        }
        failed
    }

    /// The changes of a call, for a scratch copy without the call.
    pub fn changes_of_call(&self, turn: u32, call: &str) -> Vec<OutsideChange> {
        let operations = self.operations.iter().filter(|it| it.turn == turn && it.call == call);
        let changes = operations.flat_map(|it| {
            let own = it.changes.iter().map(|change| (change, false));
            own.chain(it.git.iter().map(|change| (change, true)))
        });
        changes.map(|(change, is_git)| OutsideChange::of(change, is_git)).collect()
    }

    /// The states after a call of the paths that it changed, as text; `None` if its operation is not known. `relocated`
    /// replaces paths in texts.
    pub fn states_after(
        &self,
        turn: u32,
        call: &str,
        relocated: &dyn Fn(&str) -> String,
    ) -> Option<BTreeMap<String, String>> {
        if self.operations.iter().all(|it| it.call.is_empty()) && !self.operations.is_empty() {
            return None;
        }
        let own = self.operations.iter().filter(|it| it.turn == turn && it.call == call);
        // A replay runs no hooks.
        let operations = own.filter(|it| !it.is_shared && it.what != USER_PROGRAMS);
        let changes = operations.flat_map(|it| &it.changes).filter(|it| !it.is_directory());
        let changes: Vec<&PathChange> = changes.collect();
        let contents =
            self.checkpoints.read_contents(changes.iter().filter_map(|it| it.after.as_ref()));
        let hash_of = |hash: &Hash| {
            let bytes = contents.get(hash).and_then(|bytes| bytes.as_ref().ok());
            let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
            text.map_or(*hash, |text| blake3::hash(relocated(text).as_bytes()))
        };
        let states = changes.into_iter().map(|change| {
            let state = match &change.after {
                None => "removed".to_owned(),
                Some(PathState::File { mode, hash }) => {
                    format!("file {mode:o} {}", &hash_of(hash).to_hex()[..16])
                }
                Some(PathState::Link { target }) => format!("link to {}", display_name(target)),
                Some(PathState::Directory { mode }) => format!("directory {mode:o}"),
                Some(PathState::NotCovered { .. }) => "not covered".to_owned(),
            };
            (display_name(&change.path), state)
        });
        Some(states.collect())
    }

    /// The number of operations up to this turn, including it.
    pub fn count_operations_up_to(&self, turn: u32) -> usize {
        self.operations.iter().take_while(|it| it.turn <= turn).count()
    }

    /// Paths of the first manifest whose content is not recorded.
    pub fn uncovered_paths(&self) -> Vec<(String, String)> {
        let entries = self.starts.first().into_iter().flat_map(|start| &start.files);
        entries
            .filter_map(|entry| match &entry.state {
                PathState::NotCovered { why, .. } => Some((display_name(&entry.path), why.clone())),
                _ => None,
            })
            .collect()
    }

    /// Ignored paths: directories at the top of the project, and files, that exist now and that no manifest covers.
    pub fn current_ignored_paths(&self) -> Vec<String> {
        let root = self.checkpoints.scanner.root();
        let mut found = Vec::new();
        let mut todo = vec![root.to_owned()];
        let Ok(covered) = self.checkpoints.scanner.covered_paths() else { return found };
        while let Some(folder) = todo.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_name() == OsStr::new(".git") {
                    continue;
                }
                match covered.get(&path) {
                    None => {
                        let path = path.strip_prefix(root).unwrap_or(&path);
                        found.push(display_name(&PathName::new(path.as_os_str().as_bytes())));
                    }
                    Some(true) => todo.push(path),
                    Some(false) => {}
                }
            }
        }
        found.sort();
        found
    }
}

fn apply_change(states: &mut BTreeMap<PathName, PathState>, change: &PathChange) {
    match &change.after {
        Some(state) => drop(states.insert(change.path.clone(), state.clone())),
        None => drop(states.remove(&change.path)),
    }
}

fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

pub(super) fn copy_replay_files(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.as_bytes().starts_with(START_FILE.as_bytes()) || name == outside_changes::FILE {
            fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}

fn write_state(path: &Path, state: &PathState, contents: &Contents) -> io::Result<()> {
    let (parent, name) = parent_and_name(path)?;
    let now = fs::symlink_metadata(path).ok().map(|data| data.file_type());
    if let (PathState::Directory { mode }, true) = (state, now.is_some_and(|now| now.is_dir())) {
        return set_mode(path, *mode);
    }
    let is_file = now.is_some_and(|now| now.is_file());
    if !is_file || !matches!(state, PathState::File { .. }) {
        clear_path(path)?;
    }
    match state {
        PathState::Directory { .. } => drop(disk::create_folder_all(path, 0o755)?),
        PathState::Link { target } => {
            let folder = disk::create_folder_all(parent, 0o755)?;
            rustix::fs::symlinkat(target.as_path(), folder, name)?;
        }
        PathState::File { mode, hash } => {
            let bytes = content_of(hash, contents)?;
            let folder = disk::create_folder_all(parent, 0o755)?;
            write_file(&folder, name, bytes, Mode::from_raw_mode(*mode), is_file)?;
        }
        PathState::NotCovered { why, .. } => return Err(io::Error::other(why.clone())),
    }
    Ok(())
}

fn clear_path(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => disk::remove_folder(path),
        Ok(_) => remove_path(path, None),
        Err(_) => Ok(()),
    }
}

/// Programs like make compare times.
fn set_time(path: &Path, state: &PathState, mtime_ns: Option<i64>) {
    if let (PathState::File { .. }, Some(ns)) = (state, mtime_ns)
        && let (Ok(file), Ok(ns)) = (disk::open_file(path), u64::try_from(ns))
    {
        _ = file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_nanos(ns));
    }
}
