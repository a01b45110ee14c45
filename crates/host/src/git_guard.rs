//! Compares what decides which programs git runs before and after commands, and reverts what is not allowed
//! (`docs/SECURITY.md`).

mod config;
mod directory;
mod discovery;
mod entry;
mod stamp;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;

use agent_protocol::disk;
use agent_protocol::tool::{CommandRights, GitConfigAccess};
use config::Setting;
use directory::{DirectoryGuard, GitDirectoryState};
use discovery::Snapshot;
use entry::{EntryState, FileId};
use stamp::Stamp;

/// Notices, and failures, of one comparison.
const MAX_NOTES: usize = 20;
/// Git directories that are remembered in case they were moved.
const MAX_GONE: usize = 1000;
/// Settings of Mercurial and Jujutsu, which name programs, too.
const OTHER_SETTINGS: [&str; 4] =
    [".hg/hgrc", ".hg/hgrc-not-shared", ".jj/repo/config.toml", ".jj/workspace-config.toml"];

/// Stores content that is reverted, with the name of its file; returns where it is.
pub type ContentKeeper = Arc<dyn Fn(&str, &[u8]) -> Option<String> + Send + Sync>;

/// Looks for repositories in the project; `None` if it cannot.
pub type RepositoryScan = dyn Fn() -> Option<BTreeSet<PathBuf>> + Send + Sync;

/// What a comparison did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardReport {
    pub notices: Vec<String>,
    /// What could not be reverted.
    pub failures: Vec<String>,
}

impl GuardReport {
    /// What could not be reverted comes first.
    pub fn into_notes(self) -> Vec<String> {
        [self.failures, self.notices].concat()
    }

    /// Adds another report.
    pub fn merge(&mut self, more: Self) {
        self.notices.extend(more.notices);
        self.failures.extend(more.failures);
    }
}

/// The places of a session, all canonical.
#[derive(Clone, Debug, Default)]
pub struct GuardPlaces {
    /// The project and added directories.
    pub roots: Vec<PathBuf>,
    /// The git directories of the repositories of the roots.
    pub git_directories: Vec<PathBuf>,
    /// All that commands can write.
    pub writable: Vec<PathBuf>,
    /// Git's settings for all repositories of a user, which may not exist.
    pub user_settings: Vec<PathBuf>,
}

impl GuardPlaces {
    fn is_writable(&self, path: &Path) -> bool {
        self.writable.iter().any(|place| path.starts_with(place))
    }
}

/// Guards the repositories of one session.
pub struct GitGuard {
    places: GuardPlaces,
    other_files: Vec<PathBuf>,
    keep: ContentKeeper,
    scan: OnceLock<Box<RepositoryScan>>,
    state: Mutex<GuardState>,
}

#[derive(Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about the commands of a session"
)]
struct GuardState {
    /// The directories in the project that contain `.git` or look like a git directory.
    nested: BTreeSet<PathBuf>,
    /// The state before the commands that run.
    accepted: Option<Snapshot>,
    /// The snapshot was taken while no command ran: what has its times has its contents.
    is_quiet: bool,
    /// When the first command began.
    first_begin: Option<SystemTime>,
    /// The settings at the first command, by git directory.
    initial: BTreeMap<PathBuf, Vec<Setting>>,
    /// The git directories that git used for a work tree while no command ran; others only for those who look into them.
    active: BTreeSet<FileId>,
    /// The user has more git directories than the limit.
    is_crowded: bool,
    /// Commands that began and whose end was not compared.
    n_running: usize,
    /// A command left processes, which may write at any time, until the next command begins without them.
    has_leftovers: bool,
    /// What none of the running commands can write, by any name.
    protected: Vec<PathBuf>,
    /// A command ended, and its new repositories were not compared.
    has_ended: bool,
    /// The nested directories are set by the checkpoints of the session.
    is_nested_set: bool,
    /// For the next result of a command.
    pending: GuardReport,
}

impl GuardState {
    fn is_open(&self) -> bool {
        self.n_running > 0 || self.has_leftovers
    }
}

impl fmt::Debug for GitGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitGuard").field("places", &self.places).finish_non_exhaustive()
    }
}

impl GitGuard {
    /// A guard that has compared nothing.
    pub fn new(places: GuardPlaces, keep: ContentKeeper) -> Self {
        let roots = places.roots.iter();
        let other_files = roots.flat_map(|root| OTHER_SETTINGS.map(|name| root.join(name)));
        let user_settings = places.user_settings.iter().filter(|it| places.is_writable(it));
        let other_files = other_files.chain(user_settings.cloned()).collect();
        Self { other_files, places, keep, scan: OnceLock::new(), state: Mutex::default() }
    }

    /// Sets how repositories in the project are found.
    pub fn set_scan(&self, scan: Box<RepositoryScan>) {
        _ = self.scan.set(scan);
    }

    /// Looks for repositories now. Blocks.
    pub fn find_nested(&self) -> BTreeSet<PathBuf> {
        self.with_searched(self.scan.get().and_then(|scan| scan()).as_ref())
    }

    /// Sets where repositories in the project are, before a command; if that is not known, they are searched. Whether something
    /// was reverted: a running command may have made them, or one that ended in the background.
    pub fn set_nested(&self, nested: Option<&BTreeSet<PathBuf>>) -> bool {
        let nested = self.with_searched(nested);
        let mut state = self.state.lock();
        state.is_nested_set = true;
        if state.is_open() || std::mem::take(&mut state.has_ended) {
            let report = self.compare(&mut state, (CommandRights::default(), 0), Some(nested));
            let has_changed = report != GuardReport::default();
            state.pending.merge(report);
            has_changed
        } else {
            state.nested = nested;
            false
        }
    }

    /// Records the state before a command. If others of the session may still write, theirs is compared first.
    /// `mounted`: what the sandbox of the command mounts read-only. `has_left`: processes of earlier commands still run.
    /// `nested`: where it may make repositories, in addition; otherwise they are searched if they are not set.
    pub fn begin(&self, mounted: Vec<PathBuf>, has_left: bool, nested: Option<&BTreeSet<PathBuf>>) {
        let mut state = self.state.lock();
        let is_first = state.first_begin.is_none();
        state.first_begin.get_or_insert_with(SystemTime::now);
        if let Some(nested) = nested {
            state.nested.extend(nested.iter().cloned());
        } else if !state.is_nested_set && !state.is_open() {
            state.nested = self.with_searched(None);
        }
        // Another name of a file may be outside the mount.
        let is_closed = |path: &PathBuf| {
            let metadata = path.symlink_metadata();
            metadata.is_ok_and(|it| it.is_dir() || it.is_file() && it.nlink() == 1)
        };
        let mounted: Vec<PathBuf> = mounted.into_iter().filter(is_closed).collect();
        if state.is_open() {
            let report = self.compare(&mut state, (CommandRights::default(), 0), None);
            state.pending.merge(report);
        }
        // What the last of them wrote was compared just now.
        state.has_leftovers &= has_left;
        if state.is_open() {
            state.protected.retain(|path| mounted.contains(path));
        } else {
            let earlier = (state.accepted.as_ref(), true);
            let snapshot = Snapshot::take(&self.places, &state.nested, &self.other_files, earlier);
            if is_first {
                state.initial = snapshot.settings();
                state.is_crowded = snapshot.is_incomplete;
            }
            let active = snapshot.directories.iter();
            let active = active.filter(|(path, _)| self.is_active(path, &snapshot));
            state.active.extend(active.map(|(_, found)| found.id));
            (state.accepted, state.is_quiet) = (Some(snapshot), true);
            state.protected = mounted;
        }
        state.n_running += 1;
    }

    /// Reverts what a command changed. `has_left`: processes of the command still run; `nested` as in [`GitGuard::begin`].
    pub fn finish(
        &self,
        rights: CommandRights,
        has_left: bool,
        nested: Option<BTreeSet<PathBuf>>,
    ) -> GuardReport {
        let mut state = self.state.lock();
        state.has_leftovers |= has_left;
        let is_set = state.is_nested_set;
        state.has_ended |= is_set && nested.is_none();
        let nested = nested.or_else(|| (!is_set).then(|| self.with_searched(None)));
        let report = self.compare(&mut state, (rights, 1), nested);
        state.n_running = state.n_running.saturating_sub(1);
        let mut pending = std::mem::take(&mut state.pending);
        pending.merge(report);
        pending
    }

    /// Ends a command whose end nobody saw. The report is part of the next one.
    pub fn abandon(&self) {
        let report = self.finish(CommandRights::default(), true, None);
        self.state.lock().pending.merge(report);
    }

    /// Compares the repositories that a command made, after [`GitGuard::finish`]: those that are not in the last set.
    pub fn compare_new(
        &self,
        rights: CommandRights,
        nested: Option<&BTreeSet<PathBuf>>,
    ) -> GuardReport {
        let nested = &self.with_searched(nested);
        let mut state = self.state.lock();
        if !std::mem::take(&mut state.has_ended) || nested.is_subset(&state.nested) {
            return GuardReport::default();
        }
        self.compare(&mut state, (rights, 0), Some(nested.clone()))
    }

    /// The directories of the session above a file. With it, one may become a git directory.
    pub fn folders_above(&self, file: &Path) -> BTreeSet<PathBuf> {
        let is_inside =
            |folder: &&Path| self.places.roots.iter().any(|root| folder.starts_with(root));
        file.ancestors().skip(1).take_while(is_inside).map(Path::to_owned).collect()
    }

    /// Compares before and after a change that no command makes. Blocks.
    pub fn around<T>(&self, change: impl FnOnce() -> T) -> (T, GuardReport) {
        self.begin(Vec::new(), true, Some(&self.find_nested()));
        let result = change();
        let report = self.finish(CommandRights::default(), false, Some(self.find_nested()));
        (result, report)
    }

    /// Compares at the end of the session, if something may have written since the last comparison.
    pub fn end(&self) -> GuardReport {
        let mut state = self.state.lock();
        let mut report = std::mem::take(&mut state.pending);
        if state.is_open() || state.has_ended {
            // What is known comes first: a signal may end the search.
            report.merge(self.compare(&mut state, (CommandRights::default(), 0), None));
            let nested = Some(self.find_nested());
            report.merge(self.compare(&mut state, (CommandRights::default(), 0), nested));
        }
        report
    }

    /// The checkpoint's scan knows those of the project, not those of added directories, where links lead, and what it cannot
    /// read.
    fn with_searched(&self, nested: Option<&BTreeSet<PathBuf>>) -> BTreeSet<PathBuf> {
        let roots = self.places.roots.iter().skip(usize::from(nested.is_some()));
        let mut all = discovery::search(roots, discovery::MAX_ENTRIES, &self.places);
        let is_start = |path: &PathBuf| {
            let metadata = path.symlink_metadata();
            metadata.is_ok_and(|it| it.is_symlink() || it.mode() & 0o500 == 0o100)
        };
        let folders = nested.into_iter().flatten();
        let starts = folders.clone().filter(|path| is_start(path));
        all.extend(discovery::search(starts, discovery::MAX_ENTRIES_OF_LINK, &self.places));
        all.extend(folders.cloned());
        all
    }

    /// `n_ending`: the commands that end with this comparison.
    fn compare(
        &self,
        state: &mut GuardState,
        (rights, n_ending): (CommandRights, usize),
        nested: Option<BTreeSet<PathBuf>>,
    ) -> GuardReport {
        let mut report = GuardReport::default();
        let mut nested = nested.unwrap_or_default();
        // What a command made and closed, its owner may open again.
        for _ in 0..discovery::MAX_LEVELS {
            let new = nested.difference(&state.nested);
            let new = new.flat_map(|path| [path.clone(), path.join(".git")]);
            let closed: Vec<PathBuf> = new.filter(|path| entry::is_closed(path)).collect();
            if closed.iter().filter(|path| entry::reopen(path).is_ok()).count() == 0 {
                break;
            }
            nested.extend(self.find_nested());
        }
        state.nested.extend(nested);
        let Some(before) = state.accepted.take() else { return report };
        let earlier = (Some(&before), state.is_quiet);
        let take = |nested: &_| Snapshot::take(&self.places, nested, &self.other_files, earlier);
        let mut now = take(&state.nested);
        // One that is there and cannot be opened, git would pass over; nor what is in such a directory, until it is opened.
        let lost = before.directories.keys().filter(|path| !now.directories.contains_key(*path));
        let is_ours = |path: &&Path| self.places.is_writable(path);
        let above: BTreeSet<&Path> =
            lost.flat_map(|path| path.ancestors().take_while(is_ours)).collect();
        let mut was_closed = false;
        for path in above {
            was_closed |= entry::is_closed(path);
            if entry::is_closed(path)
                && let Err(error) = entry::reopen(path)
            {
                let text =
                    format!("{} cannot be opened: {}", path.display(), disk::in_words(&error));
                report.failures.push(text);
            }
        }
        if was_closed {
            // The search could not see what is in them.
            state.nested.extend(self.find_nested());
            now = take(&state.nested);
        }
        if now.is_same(&before) {
            now.gone.clone_from(&before.gone);
        } else {
            self.revert(state, rights, (&before, &mut now), &mut report);
        }
        // Another session of this process may have others.
        let is_own =
            |path: &mut PathBuf| self.places.writable.iter().any(|root| path.starts_with(root));
        let reopened: Vec<PathBuf> = entry::REOPENED.lock().extract_if(.., is_own).collect();
        let why = "could not be read, which hides what git uses: it can again";
        report.notices.extend(reopened.iter().map(|path| format!("{} {why}", path.display())));
        if now.is_incomplete && !state.is_crowded {
            report.failures.push(
                "there are too many git directories to compare: remove those that the command made"
                    .to_owned(),
            );
        }
        if rights.git_config == GitConfigAccess::Granted {
            state.initial = now.settings();
        }
        for notes in [&mut report.notices, &mut report.failures] {
            let more = notes.drain(MAX_NOTES.min(notes.len())..).count();
            notes.extend((more > 0).then(|| format!("git's state has {more} more such changes")));
        }
        // What was reverted stays as it was: a process that still runs may have changed it again.
        state.accepted =
            Some(if report == GuardReport::default() { now } else { before.merge(now) });
        state.is_quiet = state.n_running <= n_ending && !state.has_leftovers;
        report
    }

    /// Reverts what may not differ between two snapshots.
    fn revert(
        &self,
        state: &GuardState,
        rights: CommandRights,
        (before, now): (&Snapshot, &mut Snapshot),
        report: &mut GuardReport,
    ) {
        let is_granted = rights.git_config == GitConfigAccess::Granted;
        // What no link reaches any more.
        let files = before.files.keys().filter(|path| !now.files.contains_key(*path));
        let files = files.map(|path| (path.clone(), discovery::read_path(path)));
        let files: Vec<_> = files.filter(|(_, state)| *state != EntryState::Missing).collect();
        now.files.extend(files);
        let gone = before.directories.iter();
        let gone = gone.filter(|(path, _)| !now.directories.contains_key(*path));
        let gone = before.gone.iter().chain(gone.map(|(_, state)| state)).take(MAX_GONE);
        now.gone = gone.cloned().collect();
        let is_foreign = |path: &Path| {
            let mut mounts = state.protected.iter().filter(|own| path.starts_with(own));
            mounts.next().is_some_and(|own| own == path || !before.has_other_name(path))
        };
        for path in before.files.keys().chain(now.files.keys()).collect::<BTreeSet<_>>() {
            let (old, new) = (before.file(path), now.file(path));
            let snapshots = (before, &*now, &state.active);
            let Some(why) = self.refusal_of_file(path, (old, new), snapshots) else {
                continue;
            };
            // The same text that leads elsewhere now.
            let old = if old == new { &EntryState::Missing } else { old };
            if is_granted && self.places.user_settings.contains(path) {
                continue;
            }
            if is_foreign(path) {
                report.notices.push(format!("{} {FOREIGN}", path.display()));
            } else {
                revert_file(path, (old, new), why, &self.keep, report);
            }
        }
        let initial = &state.initial;
        for (path, found) in &now.directories {
            let mut guard = DirectoryGuard {
                path,
                rights,
                is_foreign: &is_foreign,
                now,
                initial: initial.get(path).map_or(&[], Vec::as_slice),
                keep: &self.keep,
                report,
            };
            // One that was moved is compared, too.
            let known = before.directories.get(path);
            // A new clone in place of a nested repository is not that one.
            let is_session = self.places.git_directories.contains(path);
            let known = known.filter(|known| is_session || known.id == found.id);
            match known.or_else(|| before.by_id(found.id)) {
                Some(_)
                    if known.is_none()
                        && !state.active.contains(&found.id)
                        && self.is_active(path, now) =>
                {
                    guard.check_new(found);
                }
                Some(old) if Arc::ptr_eq(old, found) || old == found => {}
                Some(old) => guard.revert_changes(old, found, is_session),
                // The user's, which no search had found.
                None if self.is_of_user(found, state, now) => {}
                None => guard.check_new(found),
            }
        }
    }

    /// Whether git used the directory before for a work tree; otherwise only for those who looked into it.
    fn is_active(&self, directory: &Path, snapshot: &Snapshot) -> bool {
        directory.iter().any(|name| name == ".git")
            || self.places.git_directories.iter().any(|own| own == directory)
            || snapshot.targets.values().any(|target| target.starts_with(directory))
    }

    /// Whether a git directory that was just found was there before the first command, and so was the way to it: no link and
    /// no `.git` that leads there is new.
    fn is_of_user(&self, found: &GitDirectoryState, state: &GuardState, now: &Snapshot) -> bool {
        let (Some(time), path) = (state.first_begin, found.path()) else { return false };
        let is_old = |path: &Path| Stamp::take(path).is_older_than(time);
        let is_inside =
            |path: &&Path| path.parent().is_some_and(|parent| self.places.is_writable(parent));
        found.is_older_than(time)
            && path.ancestors().skip(1).take_while(is_inside).all(is_old)
            && state.nested.iter().filter(|path| path.is_symlink()).all(|link| is_old(link))
            && now.targets.iter().filter(|(_, it)| it.starts_with(path)).all(|(git, _)| is_old(git))
    }

    /// Why the state of a `.git` file, of a link, or of a settings file, is not accepted.
    fn refusal_of_file(
        &self,
        path: &Path,
        (old, new): (&EntryState, &EntryState),
        (before, now, active): (&Snapshot, &Snapshot, &BTreeSet<FileId>),
    ) -> Option<&'static str> {
        let (target, earlier) = (now.targets.get(path), before.targets.get(path));
        let is_accepted = || {
            target.is_some_and(|it| self.is_accepted_target(path, it, now))
                && !self.activates(path, (before, now, active))
        };
        if !path.ends_with(".git") {
            let is_link = matches!(new, EntryState::Link(_));
            // (A file to which a new link leads is not changed.)
            let is_changed = old != new && (is_link || before.files.contains_key(path));
            let why = if is_link { LEADS_ELSEWHERE } else { "names programs, and was changed" };
            return is_changed.then_some(why);
        }
        let is_refused = match (old, new) {
            // The directory is compared, or checked as a new one.
            (_, EntryState::Missing | EntryState::Directory(_)) => false,
            // The same text may lead elsewhere now; where it leads nowhere, git runs nothing.
            _ if old == new => target.is_some() && target != earlier && !is_accepted(),
            (EntryState::Missing | EntryState::Directory(_), _) => !is_accepted(),
            // `git worktree repair`, after the repository was moved.
            _ => {
                let id = |target: Option<&PathBuf>, snapshot: &Snapshot| {
                    snapshot.directories.get(target?).map(|it| it.id)
                };
                id(earlier, before).is_none() || id(earlier, before) != id(target, now)
            }
        };
        is_refused.then_some(LEADS_ELSEWHERE)
    }

    fn is_accepted_target(&self, path: &Path, target: &Path, now: &Snapshot) -> bool {
        // One that commands cannot write is a worktree's, and refers back to it.
        let back = || disk::read_small_text(&target.join("gitdir")).ok();
        let refers_back =
            || back().and_then(|back| target.join(back.trim_end()).canonicalize().ok());
        now.directories.contains_key(target)
            || !self.places.is_writable(target) && refers_back().as_deref() == Some(path)
    }

    /// Whether a `.git` makes git use a known directory, or its common one, that it used for no work tree, and that has more than
    /// a command may make.
    fn activates(
        &self,
        path: &Path,
        (before, now, active): (&Snapshot, &Snapshot, &BTreeSet<FileId>),
    ) -> bool {
        let Some(target) = now.targets.get(path) else { return false };
        let common = target.ancestors().nth(2).filter(|_| target.join("commondir").exists());
        let found = [Some(target.as_path()), common].into_iter().flatten();
        found.filter_map(|directory| now.directories.get(directory)).any(|found| {
            let known = before.by_id(found.id).filter(|it| !active.contains(&it.id));
            known.is_some_and(|known| !self.is_active(known.path(), before)) && !found.is_harmless()
        })
    }
}

const LEADS_ELSEWHERE: &str = "leads git to another place";
const FOREIGN: &str = "was changed by another process while the command ran, and was left as it is";

fn revert_file(
    path: &Path,
    states: (&EntryState, &EntryState),
    why: &str,
    keep: &ContentKeeper,
    report: &mut GuardReport,
) {
    let folder = path.parent().and_then(|parent| disk::open_folder(parent).ok());
    match (folder, path.file_name()) {
        (Some(folder), Some(name)) => {
            entry::revert((&folder, name), path, states, why, (keep, report));
        }
        _ => report
            .failures
            .push(format!("{} {why}, and its folder cannot be opened", path.display())),
    }
}

/// The work tree that the configuration of a git directory names, as that of a submodule does.
pub fn configured_work_tree(directory: &Path) -> Option<PathBuf> {
    let settings = directory::GitDirectoryState::read(directory)?.settings()?;
    let setting = settings.into_iter().rfind(config::Setting::is_work_tree)?;
    directory.join(setting.value?).canonicalize().ok()
}
