//! Compares what decides which programs git runs before and after commands, and reverts what is not allowed
//! (`docs/SECURITY.md`).

mod config;
mod directory;
mod discovery;
mod entry;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use agent_protocol::disk;
use directory::{DirectoryGuard, linked_directory};
use discovery::{SearchPlaces, Snapshot};
use entry::EntryState;

/// Settings of Mercurial and Jujutsu, which name programs, too.
const OTHER_SETTINGS: [&str; 4] =
    [".hg/hgrc", ".hg/hgrc-not-shared", ".jj/repo/config.toml", ".jj/workspace-config.toml"];

/// Stores content that is reverted, with the name of its file; returns where it is.
pub type ContentKeeper = Arc<dyn Fn(&str, &[u8]) -> Option<String> + Send + Sync>;

/// What a comparison did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardReport {
    pub notices: Vec<String>,
    /// What could not be reverted.
    pub failures: Vec<String>,
}

impl GuardReport {
    /// Adds another report.
    pub fn merge(&mut self, more: Self) {
        self.notices.extend(more.notices);
        self.failures.extend(more.failures);
    }
}

/// Guards the repositories of one session.
pub struct GitGuard {
    roots: Vec<PathBuf>,
    known: Vec<PathBuf>,
    /// What commands cannot write, if the sandbox has mounts.
    mounted: Vec<PathBuf>,
    other_files: Vec<PathBuf>,
    keep: ContentKeeper,
    state: Mutex<GuardState>,
}

#[derive(Debug, Default)]
struct GuardState {
    nested: BTreeSet<PathBuf>,
    /// The state before the commands that run.
    accepted: Option<Snapshot>,
    /// A command began whose end was not compared yet.
    is_open: bool,
    /// One of the running commands can write git's configuration in spite of mounts.
    writes_config: bool,
}

impl fmt::Debug for GitGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitGuard").field("known", &self.known).finish_non_exhaustive()
    }
}

impl GitGuard {
    /// Guards repositories in the writable `roots` and the `known` git directories; all canonical.
    pub fn new(
        roots: Vec<PathBuf>,
        known: Vec<PathBuf>,
        mounted: Vec<PathBuf>,
        keep: ContentKeeper,
    ) -> Self {
        let other_files =
            roots.iter().flat_map(|root| OTHER_SETTINGS.map(|name| root.join(name))).collect();
        Self { roots, known, mounted, other_files, keep, state: Mutex::default() }
    }

    /// Whether one of these directories was not set yet.
    pub fn has_new(&self, nested: &BTreeSet<PathBuf>) -> bool {
        !nested.is_subset(&self.state.lock().nested)
    }

    /// Sets the directories in the project that contain `.git` or look like a git directory.
    pub fn set_nested(&self, nested: BTreeSet<PathBuf>) {
        self.state.lock().nested = nested;
    }

    /// Whether a command began whose end was not compared yet.
    pub fn is_open(&self) -> bool {
        self.state.lock().is_open
    }

    /// Records the state before a command. If others of the session still run, theirs is compared first.
    /// `writes_config`: the command could write git's configuration in spite of mounts.
    pub fn begin(&self, others_run: bool, writes_config: bool) -> GuardReport {
        let is_open = others_run || self.state.lock().is_open;
        let report = if is_open { self.compare(false, None) } else { GuardReport::default() };
        let mut state = self.state.lock();
        if !is_open {
            state.accepted = Some(self.take_snapshot(&state.nested));
        }
        state.writes_config = writes_config || is_open && state.writes_config;
        state.is_open = true;
        report
    }

    /// Reverts what a command changed. `is_granted`: the user granted a change of git's configuration. `nested`: the
    /// directories of [`GitGuard::set_nested`] after the command, if they are known.
    pub fn compare(&self, is_granted: bool, nested: Option<BTreeSet<PathBuf>>) -> GuardReport {
        let mut state = self.state.lock();
        let mut report = GuardReport::default();
        state.is_open = false;
        if let Some(nested) = nested {
            state.nested.extend(nested);
        }
        let Some(before) = state.accepted.take() else { return report };
        let now = self.take_snapshot(&state.nested);
        let writes_config = state.writes_config;
        let is_foreign = |path: &Path| {
            let is_hook = path.parent().is_some_and(|parent| parent.ends_with(directory::HOOKS))
                || path.ends_with(directory::HOOKS);
            (!writes_config || is_hook) && self.mounted.iter().any(|own| path.starts_with(own))
        };
        for path in before.files.keys().chain(now.files.keys()).collect::<BTreeSet<_>>() {
            let missing = EntryState::Missing;
            let old = before.files.get(path).unwrap_or(&missing);
            if let Some(why) = refusal_of_file(path, old, &now)
                && !is_foreign(path)
            {
                revert_file(path, old, why, &self.keep, &mut report);
            }
        }
        for (path, found) in &now.directories {
            let keep = &self.keep;
            let is_foreign = &is_foreign;
            let mut guard =
                DirectoryGuard { path, is_granted, is_foreign, keep, report: &mut report };
            match before.directories.get(path) {
                Some(old) if old == found => {}
                Some(old) => guard.revert_changes(old, found),
                None => guard.check_new(found, &|place| points_to(&place.join(".git"), path)),
            }
        }
        let is_unchanged = report == GuardReport::default();
        state.accepted = Some(if is_unchanged { now } else { self.take_snapshot(&state.nested) });
        report
    }

    fn take_snapshot(&self, nested: &BTreeSet<PathBuf>) -> Snapshot {
        let Self { roots, known, other_files, .. } = self;
        Snapshot::take(SearchPlaces { roots, known, nested, other_files })
    }
}

/// Why the state of a `.git` file or link, or of a settings file, is not accepted.
fn refusal_of_file(path: &Path, old: &EntryState, now: &Snapshot) -> Option<&'static str> {
    let new = discovery::read_path(path);
    if *old == new {
        return None;
    }
    if !path.ends_with(".git") {
        return Some("names programs, and was changed");
    }
    let target = match (old, &new) {
        // The directory is compared, or checked as a new one.
        (_, EntryState::Missing | EntryState::Directory(_)) => return None,
        (EntryState::Missing | EntryState::Directory(_), EntryState::File { bytes, .. }) => {
            linked_directory(path, bytes)
        }
        (EntryState::Missing | EntryState::Directory(_), EntryState::Link(_)) => {
            path.canonicalize().ok()
        }
        _ => return Some("leads git to another repository"),
    };
    // One outside is a worktree's, and refers back to it.
    let is_accepted = target.is_some_and(|target| {
        let back = disk::read_small_text(&target.join("gitdir")).ok();
        let refers_back = back.and_then(|back| target.join(back.trim()).canonicalize().ok());
        now.directories.contains_key(&target) || refers_back.as_deref() == Some(path)
    });
    (!is_accepted).then_some("leads git to another place")
}

fn revert_file(
    path: &Path,
    old: &EntryState,
    why: &str,
    keep: &ContentKeeper,
    report: &mut GuardReport,
) {
    let new = discovery::read_path(path);
    let folder = path.parent().and_then(|parent| disk::open_folder(parent).ok());
    let (Some(folder), Some(name)) = (folder, path.file_name()) else { return };
    entry::revert((&folder, name), path, (old, &new), why, (keep, report));
}

/// The work tree that the configuration of a git directory names, as that of a submodule does.
pub fn configured_work_tree(directory: &Path) -> Option<PathBuf> {
    let settings = directory::GitDirectoryState::read(directory)?.settings()?;
    let setting = settings.into_iter().rfind(config::Setting::is_work_tree)?;
    directory.join(setting.value?).canonicalize().ok()
}

/// Whether a `.git` file names this git directory.
fn points_to(file: &Path, directory: &Path) -> bool {
    let bytes = disk::read_small(file, disk::SMALL_FILE_LIMIT).ok();
    bytes.and_then(|bytes| linked_directory(file, &bytes)).as_deref() == Some(directory)
}
