//! Changes from outside, between two operations: they are never undone, and a replay makes them again.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::manifest::{Manifest, PathChange, PathName, PathState, stat};
use super::{Checkpoints, append_line, now, now_ms};
use crate::workspace::{Author, Snapshot};

/// A file in the session's directory with one line of JSON for each [`OutsideBatch`].
pub(super) const FILE: &str = "outside.jsonl";

const NS_PER_MS: i64 = 1_000_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OutsideBatch {
    /// The last operation before the detection; 0 if there is none.
    pub(super) after: u32,
    pub(super) noticed_ms: i64,
    pub(super) changes: Vec<DetectedChange>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct DetectedChange {
    #[serde(flatten)]
    pub(super) change: PathChange,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_git: bool,
    /// Time of the change in milliseconds since 1970, from the file system.
    pub(super) at_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mtime_ms: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct KnownFiles {
    /// The last compared manifest with its time; `None` before the first.
    manifest: Option<(Arc<Manifest>, Duration)>,
    /// States since that manifest, by operations and by detected changes.
    own_states: BTreeMap<PathName, Option<PathState>>,
    /// Modification time in milliseconds and size in bytes, at the last read.
    seen_stamps: HashMap<PathName, (i64, u64)>,
    n_running: usize,
}

impl KnownFiles {
    pub(super) fn set_first_manifest(&mut self, first: &Arc<Manifest>) {
        self.manifest.get_or_insert_with(|| (first.clone(), now()));
    }

    pub(super) fn record_own_changes(&mut self, changes: &[PathChange]) {
        self.own_states
            .extend(changes.iter().map(|change| (change.path.clone(), change.after.clone())));
    }

    pub(super) fn finish_project_operation(&mut self, after: &Arc<Manifest>) {
        self.n_running = self.n_running.saturating_sub(1);
        self.set_compared_manifest(after);
    }

    fn set_compared_manifest(&mut self, manifest: &Arc<Manifest>) {
        self.manifest = Some((manifest.clone(), now()));
        self.own_states.clear();
        self.seen_stamps.clear();
    }

    /// Whether the file has the recorded time and size. True before the first manifest; false for a file that is not
    /// recorded.
    fn is_unchanged(&self, path: &PathName, mtime_ms: i64, size: u64) -> bool {
        if self.own_states.contains_key(path) {
            return self.seen_stamps.get(path) == Some(&(mtime_ms, size));
        }
        let Some((manifest, _)) = &self.manifest else { return true };
        manifest.find(path).is_some_and(|entry| {
            (entry.stat.mtime_ns / NS_PER_MS, entry.stat.size) == (mtime_ms, size)
        })
    }

    /// `None` if the path has the expected state or no recorded state.
    fn change_to(&self, path: &PathName, after: Option<PathState>) -> Option<PathChange> {
        let before = match (self.own_states.get(path), &self.manifest) {
            (Some(own), _) => own.clone(),
            (None, Some((manifest, _))) => manifest.find(path).map(|entry| entry.state.clone()),
            (None, None) => return None,
        };
        (before != after).then(|| PathChange::new(path.clone(), before, after))
    }
}

impl Checkpoints {
    pub(super) fn detect_outside_changes(&self, before: &Arc<Manifest>) {
        let mut known = self.known.lock();
        let is_alone = known.n_running == 0;
        let (last, own) = (known.manifest.clone(), std::mem::take(&mut known.own_states));
        known.set_compared_manifest(before);
        known.n_running += 1;
        drop(known);
        // A background command may have made changes while it runs.
        let Some((last, since)) = last.filter(|_| is_alone) else { return };
        let (mut changes, git) = self.operation_changes(&last, before, since);
        changes.retain(|change| !own.contains_key(&change.path));
        for (path, left) in own {
            let now = before
                .find(&path)
                .cloned()
                .or_else(|| self.current_entry(&path, [left.as_ref(), None]));
            let now = now.map(|entry| entry.state.clone());
            if now != left {
                changes.push(PathChange::new(path, left, now));
            }
        }
        self.record_outside_changes(changes, git);
    }

    /// Whether a file of the project that a call read has another modification time or size than recorded.
    pub fn is_unexpected(&self, path: &Path, mtime_ms: i64, size: u64) -> bool {
        path.starts_with(self.scanner.root())
            && !self.known.lock().is_unchanged(&self.name_of(path), mtime_ms, size)
    }

    /// Records the change of a file for which [`Self::is_unexpected`] is true. Blocks.
    pub fn inspect_read_file(&self, path: &Path, mtime_ms: i64, size: u64) {
        self.detect_outside_changes_of(path, &self.manifest_of_path(path));
        self.known.lock().seen_stamps.insert(self.name_of(path), (mtime_ms, size));
    }

    /// The authors of the operations that changed a file from the state that was read to one with this hash, in order.
    /// None if anything else changed it, or may have.
    pub fn authors_of_change(&self, path: &Path, seen: &Snapshot, hash: &str) -> Vec<Author> {
        let (path, since) = (self.name_of(path), seen.stat.ctime_ns / NS_PER_MS);
        let hash_of = |state: Option<&PathState>| match state {
            Some(PathState::File { hash, .. }) => hash.to_hex().to_string(),
            _ => String::new(),
        };
        let (mut authors, mut hash) = (Vec::new(), hash.to_owned());
        // An operation that had ended before the file was as it was read did not change it since.
        for it in self.journal.read().into_iter().rev().take_while(|it| it.ended_ms >= since) {
            let Some(change) = it.changes.iter().find(|it| it.path == path) else { continue };
            if it.is_shared || it.author.is_empty() || hash_of(change.after.as_ref()) != hash {
                break;
            }
            authors.insert(0, (it.author, it.ended_ms));
            hash = hash_of(change.before.as_ref());
            if hash == seen.hash {
                authors.dedup_by_key(|(name, _)| name.clone());
                return authors;
            }
        }
        Vec::new()
    }

    fn name_of(&self, path: &Path) -> PathName {
        let path = path.strip_prefix(self.scanner.root()).unwrap_or(path);
        PathName::new(path.as_os_str().as_encoded_bytes())
    }

    pub(super) fn detect_outside_changes_of(&self, path: &Path, before: &Manifest) {
        let path = self.name_of(path);
        let found = before.files.iter().map(|entry| (&entry.path, Some(entry.state.clone())));
        let gone = (&path, None);
        let is_there = before.files.iter().any(|entry| entry.path == path);
        let states = found.chain((!is_there).then_some(gone));
        let mut known = self.known.lock();
        let changes = states.filter_map(|(path, after)| known.change_to(path, after));
        let changes: Vec<PathChange> = changes.collect();
        known.record_own_changes(&changes);
        drop(known);
        self.record_outside_changes(changes, Vec::new());
    }

    fn record_outside_changes(&self, changes: Vec<PathChange>, git: Vec<PathChange>) {
        if changes.is_empty() && git.is_empty() {
            return;
        }
        let noticed = |is_git: bool| {
            move |change: PathChange| {
                let (at_ms, mtime_ms) = self.times_of(&change);
                DetectedChange { change, is_git, at_ms, mtime_ms }
            }
        };
        let changes = changes.into_iter().map(noticed(false));
        let outside = OutsideBatch {
            after: self.journal.read().iter().map(|it| it.id).max().unwrap_or(0),
            noticed_ms: now_ms(),
            changes: changes.chain(git.into_iter().map(noticed(true))).collect(),
        };
        _ = self.pack().lock().flush();
        // After a failed write, a replay reports differences.
        _ = append_line(&self.settings.session.join(FILE), &outside);
    }

    /// The time of the change or removal, from the file system, and the modification time of the new content.
    fn times_of(&self, change: &PathChange) -> (i64, Option<i64>) {
        let path = self.scanner.root().join(change.path.as_path());
        let now = stat(&path).ok();
        let place =
            if change.after.is_some() { now } else { path.parent().and_then(|it| stat(it).ok()) };
        let at_ms = place.map_or_else(now_ms, |stat| stat.ctime_ns / NS_PER_MS);
        (at_ms, now.map(|stat| stat.mtime_ns / NS_PER_MS))
    }
}
