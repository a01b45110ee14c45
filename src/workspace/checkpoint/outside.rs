//! Changes from outside: what differs at the beginning of an operation from what the session left.
//!
//! They belong to no operation and are never undone. They are recorded so that a replay of the session can make
//! them again.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::manifest::{Change, Manifest, Name, State, lock, stat};
use super::{Checkpoints, disk};

/// A file in the session's directory, one line of JSON for each [`Outside`].
pub(super) const FILE: &str = "outside.jsonl";

/// Changes that were noticed together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Outside {
    /// The last operation before they were noticed; 0: none.
    pub(super) after: u32,
    /// When they were noticed, in milliseconds since 1970.
    pub(super) noticed_ms: i64,
    pub(super) changes: Vec<Noticed>,
}

/// A change, and when it was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Noticed {
    #[serde(flatten)]
    pub(super) change: Change,
    /// A part of the state of git.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_git: bool,
    /// Milliseconds since 1970, according to the file system.
    pub(super) at_ms: i64,
    /// The modification time of the new content, in the same unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mtime_ms: Option<i64>,
}

/// What a session knows of the project's files.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// The last manifest that was compared; `None`: none was taken yet.
    manifest: Option<(Arc<Manifest>, Duration)>,
    /// States since then, by operations and by changes that were noticed.
    own: BTreeMap<Name, Option<State>>,
    /// Running operations that may change anything.
    n_running: usize,
}

impl Known {
    pub(super) fn begins_with(&mut self, first: &Arc<Manifest>) {
        self.manifest.get_or_insert_with(|| (first.clone(), now()));
    }

    /// An operation made these changes.
    pub(super) fn own(&mut self, changes: &[Change]) {
        self.own.extend(changes.iter().map(|change| (change.path.clone(), change.after.clone())));
    }

    pub(super) fn project_operation_ended(&mut self, after: &Arc<Manifest>) {
        self.n_running = self.n_running.saturating_sub(1);
        self.compared(after);
    }

    fn compared(&mut self, manifest: &Arc<Manifest>) {
        self.manifest = Some((manifest.clone(), now()));
        self.own.clear();
    }

    /// The expected state of a path; `None`: nothing is known of it.
    fn expected(&self, path: &Name) -> Option<Option<State>> {
        if let Some(own) = self.own.get(path) {
            return Some(own.clone());
        }
        let (manifest, _) = self.manifest.as_ref()?;
        Some(manifest.find(path).map(|entry| entry.state.clone()))
    }
}

impl Checkpoints {
    /// Before an operation on the whole project, which begins.
    pub(super) fn note_outside(&self, before: &Arc<Manifest>) {
        let mut state = lock(&self.state);
        let is_alone = state.known.n_running == 0;
        let (known, own) = (state.known.manifest.clone(), std::mem::take(&mut state.known.own));
        state.known.compared(before);
        state.known.n_running += 1;
        drop(state);
        // What changes while a background command runs may be the command's.
        let Some((known, since)) = known.filter(|_| is_alone) else { return };
        let (mut changes, git) = self.difference(&known, before, since);
        changes.retain(|change| !own.contains_key(&change.path));
        for (path, left) in own {
            let now =
                before.find(&path).cloned().or_else(|| self.look(&path, [left.as_ref(), None]));
            let now = now.map(|entry| entry.state.clone());
            if now != left {
                changes.push(Change { path, before: left, after: now });
            }
        }
        self.record_outside(changes, git);
    }

    /// Before an operation on one file.
    pub(super) fn note_outside_of(&self, path: &Path, before: &Manifest) {
        let path = path.strip_prefix(self.scanner.root()).unwrap_or(path);
        let path = Name::new(path.as_os_str().as_encoded_bytes());
        let found = before.files.iter().map(|entry| (&entry.path, Some(entry.state.clone())));
        let gone = (&path, None);
        let is_there = before.files.iter().any(|entry| entry.path == path);
        let states = found.chain((!is_there).then_some(gone));
        let mut state = lock(&self.state);
        let mut changes = Vec::new();
        for (path, after) in states {
            let Some(expected) = state.known.expected(path) else { continue };
            if expected != after {
                changes.push(Change { path: path.clone(), before: expected, after });
            }
        }
        state.known.own(&changes);
        drop(state);
        self.record_outside(changes, Vec::new());
    }

    fn record_outside(&self, changes: Vec<Change>, git: Vec<Change>) {
        if changes.is_empty() && git.is_empty() {
            return;
        }
        let noticed = |is_git: bool| {
            move |change: Change| {
                let (at_ms, mtime_ms) = self.times_of(&change);
                Noticed { at_ms, mtime_ms, change, is_git }
            }
        };
        let changes = changes.into_iter().map(noticed(false));
        let outside = Outside {
            after: self.journal.read().iter().map(|it| it.id).max().unwrap_or(0),
            noticed_ms: now_ms(),
            changes: changes.chain(git.into_iter().map(noticed(true))).collect(),
        };
        _ = lock(self.pack()).flush();
        let write = || {
            let line = serde_json::to_string(&outside)?;
            let mut file = disk::append(&self.settings.session.join(FILE), true)?;
            // (The previous line may be incomplete.)
            file.write_all(format!("\n{line}\n").as_bytes())
        };
        // Without it a replay reports differences.
        _ = write();
    }

    /// When a path was changed or removed, as far as the file system knows, and the modification time of its
    /// content.
    fn times_of(&self, change: &Change) -> (i64, Option<i64>) {
        const MS: i64 = 1_000_000;
        let path = self.scanner.root().join(change.path.as_path());
        let now = stat(&path).ok();
        let place =
            if change.after.is_some() { now } else { path.parent().and_then(|it| stat(it).ok()) };
        let at_ms = place.map_or_else(now_ms, |stat| stat.ctime_ns / MS);
        (at_ms, now.map(|stat| stat.mtime_ns / MS))
    }
}

/// Since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn now_ms() -> i64 {
    i64::try_from(now().as_millis()).unwrap_or(i64::MAX)
}
