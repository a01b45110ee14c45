//! Changes from outside: what differs at the beginning of an operation from what the session left.
//!
//! They belong to no operation and are never undone. They are recorded so that a replay of the session can make
//! them again.

use std::collections::{BTreeMap, HashMap};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::manifest::{Change, Manifest, Name, State, lock, stat};
use super::{Checkpoints, disk};

/// A file in the session's directory, one line of JSON for each [`Outside`].
pub(super) const FILE: &str = "outside.jsonl";

const NS_PER_MS: i64 = 1_000_000;

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
    /// Modification time in milliseconds and size of these, as they were last seen.
    seen: HashMap<Name, (i64, u64)>,
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
        self.seen.clear();
    }

    /// The file was last seen with this time and size, or nothing is known of it.
    fn is_as_seen(&self, path: &Name, mtime_ms: i64, size: u64) -> bool {
        if self.own.contains_key(path) {
            return self.seen.get(path) == Some(&(mtime_ms, size));
        }
        let Some((manifest, _)) = &self.manifest else { return true };
        manifest.find(path).is_some_and(|entry| {
            (entry.stat.mtime_ns / NS_PER_MS, entry.stat.size) == (mtime_ms, size)
        })
    }

    /// The change of a path to this state; `None`: it has the expected state, or nothing is known of it.
    fn change_to(&self, path: &Name, after: Option<State>) -> Option<Change> {
        let before = match (self.own.get(path), &self.manifest) {
            (Some(own), _) => own.clone(),
            (None, Some((manifest, _))) => manifest.find(path).map(|entry| entry.state.clone()),
            (None, None) => return None,
        };
        (before != after).then(|| Change {
            path: path.clone(),
            before,
            after,
            is_ignored: false,
            is_moved_here: false,
        })
    }
}

impl Checkpoints {
    /// Before an operation on the whole project, which begins.
    pub(super) fn note_outside(&self, before: &Arc<Manifest>) {
        let mut known = lock(&self.known);
        let is_alone = known.n_running == 0;
        let (last, own) = (known.manifest.clone(), std::mem::take(&mut known.own));
        known.compared(before);
        known.n_running += 1;
        drop(known);
        // What changes while a background command runs may be the command's.
        let Some((last, since)) = last.filter(|_| is_alone) else { return };
        let (mut changes, git) = self.difference(&last, before, since);
        changes.retain(|change| !own.contains_key(&change.path));
        for (path, left) in own {
            let now =
                before.find(&path).cloned().or_else(|| self.look(&path, [left.as_ref(), None]));
            let now = now.map(|entry| entry.state.clone());
            if now != left {
                changes.push(Change {
                    path,
                    before: left,
                    after: now,
                    is_ignored: false,
                    is_moved_here: false,
                });
            }
        }
        self.record_outside(changes, git);
    }

    /// A call read a file of the project with this modification time and size, which are not the known ones: it may
    /// have been changed from outside, or be ignored.
    pub fn is_unexpected(&self, path: &Path, mtime_ms: i64, size: u64) -> bool {
        path.starts_with(self.scanner.root())
            && !lock(&self.known).is_as_seen(&self.name_of(path), mtime_ms, size)
    }

    /// Looks at such a file. Blocks.
    pub fn look_at(&self, path: &Path, mtime_ms: i64, size: u64) {
        self.note_outside_of(path, &self.at_path(path));
        lock(&self.known).seen.insert(self.name_of(path), (mtime_ms, size));
    }

    fn name_of(&self, path: &Path) -> Name {
        let path = path.strip_prefix(self.scanner.root()).unwrap_or(path);
        Name::new(path.as_os_str().as_encoded_bytes())
    }

    /// Before an operation on one file.
    pub(super) fn note_outside_of(&self, path: &Path, before: &Manifest) {
        let path = self.name_of(path);
        let found = before.files.iter().map(|entry| (&entry.path, Some(entry.state.clone())));
        let gone = (&path, None);
        let is_there = before.files.iter().any(|entry| entry.path == path);
        let states = found.chain((!is_there).then_some(gone));
        let mut known = lock(&self.known);
        let changes = states.filter_map(|(path, after)| known.change_to(path, after));
        let changes: Vec<Change> = changes.collect();
        known.own(&changes);
        drop(known);
        self.record_outside(changes, Vec::new());
    }

    fn record_outside(&self, changes: Vec<Change>, git: Vec<Change>) {
        if changes.is_empty() && git.is_empty() {
            return;
        }
        let noticed = |is_git: bool| {
            move |change: Change| {
                let (at_ms, mtime_ms) = self.times_of(&change);
                Noticed { change, is_git, at_ms, mtime_ms }
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
        let path = self.scanner.root().join(change.path.as_path());
        let now = stat(&path).ok();
        let place =
            if change.after.is_some() { now } else { path.parent().and_then(|it| stat(it).ok()) };
        let at_ms = place.map_or_else(now_ms, |stat| stat.ctime_ns / NS_PER_MS);
        (at_ms, now.map(|stat| stat.mtime_ns / NS_PER_MS))
    }
}

/// Since 1970.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn now_ms() -> i64 {
    i64::try_from(now().as_millis()).unwrap_or(i64::MAX)
}
