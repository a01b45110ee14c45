//! The part of a git directory that decides what git executes, and which directory it takes for the repository
//! (`gitrepository-layout(5)`).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::config::{self, Setting};
use super::entry::{self, EntryState, FileId, list_names, move_aside};
use super::{ContentKeeper, GuardReport};
use agent_protocol::disk;
use agent_protocol::disk::repository::is_head_content;
use rustix::fs::{Mode, OFlags};

/// Git reads the settings of both.
const CONFIG_FILES: [&str; 2] = ["config", "config.worktree"];
const LINK_FILES: [&str; 2] = ["commondir", "gitdir"];
const FOLDERS: [&str; 2] = ["objects", "refs"];
pub(super) const HOOKS: &str = "hooks";
/// Git does not run a hook of this name.
const SAMPLE: &[u8] = b".sample";
const HOW_TO_SET: &str = "`git config` asks the user for it";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GitDirectoryState {
    entries: BTreeMap<&'static str, EntryState>,
    hooks: BTreeMap<OsString, EntryState>,
}

impl GitDirectoryState {
    /// `None` if there is no directory, or a link is in its path.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let folder = disk::open_folder(path).ok()?;
        let names =
            ["HEAD", HOOKS].into_iter().chain(CONFIG_FILES).chain(LINK_FILES).chain(FOLDERS);
        let entries =
            names.map(|name| (name, EntryState::read(&folder, OsStr::new(name)))).collect();
        Some(Self { entries, hooks: read_hooks(&folder) })
    }

    fn entry(&self, name: &str) -> &EntryState {
        self.entries.get(name).unwrap_or(&EntryState::Missing)
    }

    pub(super) fn is_linked(&self) -> bool {
        *self.entry("commondir") != EntryState::Missing
    }

    /// `None` if git cannot read them.
    pub(super) fn settings(&self) -> Option<Vec<Setting>> {
        let files = CONFIG_FILES.map(|name| match self.entry(name) {
            EntryState::Missing => Some(Vec::new()),
            other => config::parse(other.bytes()?),
        });
        let [shared, own] = files;
        Some([shared?, own?].concat())
    }
}

fn read_hooks(folder: &OwnedFd) -> BTreeMap<OsString, EntryState> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(hooks) = rustix::fs::openat(folder, HOOKS, flags, Mode::empty()) else {
        return BTreeMap::new();
    };
    let names = list_names(&hooks).into_iter();
    let names = names.filter(|name| !name.as_encoded_bytes().ends_with(SAMPLE));
    names.map(|name| (name.clone(), EntryState::read(&hooks, &name))).collect()
}

/// Restores a git directory to an earlier state.
pub(super) struct DirectoryGuard<'a> {
    pub(super) path: &'a Path,
    /// The user granted a change of the configuration.
    pub(super) is_granted: bool,
    /// What the command could not write: a change of it was made by another process.
    pub(super) is_foreign: &'a dyn Fn(&Path) -> bool,
    pub(super) keep: &'a ContentKeeper,
    pub(super) report: &'a mut GuardReport,
}

impl DirectoryGuard<'_> {
    pub(super) fn revert_changes(&mut self, before: &GitDirectoryState, now: &GitDirectoryState) {
        let Ok(folder) = disk::open_folder(self.path) else { return };
        let is_valid = |state: &GitDirectoryState| match state.entry("HEAD") {
            EntryState::File { bytes, .. } => is_head_content(bytes),
            EntryState::Link(target) => target.starts_with("refs"),
            _ => false,
        };
        if is_valid(before) && !is_valid(now) {
            let why = "is no valid HEAD, without which git uses another directory";
            self.restore(&folder, "HEAD", (before.entry("HEAD"), now.entry("HEAD")), why);
        }
        for name in FOLDERS {
            if let Some(id) = before.entry(name).folder_id()
                && now.entry(name).folder_id().is_none()
            {
                self.restore_folder(&folder, name, id);
            }
        }
        for name in LINK_FILES {
            let why = "decides which repository git uses";
            self.restore(&folder, name, (before.entry(name), now.entry(name)), why);
        }
        if !self.is_granted {
            self.revert_settings(&folder, before, now);
        }
        self.revert_hooks(&folder, before, now);
    }

    fn revert_settings(
        &mut self,
        folder: &OwnedFd,
        before: &GitDirectoryState,
        now: &GitDirectoryState,
    ) {
        let changed = CONFIG_FILES.into_iter().filter(|name| before.entry(name) != now.entry(name));
        let changed: Vec<&str> = changed.collect();
        if changed.is_empty() {
            return;
        }
        let why = match (before.settings(), now.settings()) {
            (Some(before), Some(now)) => {
                let refused = config::refused_changes(&before, &now);
                if refused.is_empty() {
                    return;
                }
                format!(
                    "changed {}, which a command may not change; {HOW_TO_SET}",
                    refused.join(", ")
                )
            }
            _ => "cannot be parsed by git".to_owned(),
        };
        for name in changed {
            self.restore(folder, name, (before.entry(name), now.entry(name)), &why);
        }
    }

    fn revert_hooks(
        &mut self,
        folder: &OwnedFd,
        before: &GitDirectoryState,
        now: &GitDirectoryState,
    ) {
        let why = "is a hook, which git runs; the user can add it";
        let (old, new) = (before.entry(HOOKS), now.entry(HOOKS));
        match (old.folder_id(), new.folder_id()) {
            _ if (old, &before.hooks) == (new, &now.hooks) => return,
            (Some(_), None) if before.hooks.is_empty() && *new == EntryState::Missing => return,
            (Some(id), None) => self.restore_folder(folder, HOOKS, id),
            (Some(_), Some(_)) => {}
            (None, Some(_)) if *old == EntryState::Missing => {}
            (None, _) => return self.restore(folder, HOOKS, (old, new), why),
        }
        let Ok(hooks) = disk::open_folder(&self.path.join(HOOKS)) else { return };
        let now = read_hooks(folder);
        let names: std::collections::BTreeSet<&OsString> =
            before.hooks.keys().chain(now.keys()).collect();
        for name in names {
            let state = |hooks: &BTreeMap<OsString, EntryState>| {
                hooks.get(name).cloned().unwrap_or(EntryState::Missing)
            };
            let shown = Path::new(HOOKS).join(name);
            self.restore_in(&hooks, (name, &shown), (&state(&before.hooks), &state(&now)), why);
        }
    }

    /// Removes what is not allowed in a git directory that a command made.
    pub(super) fn check_new(
        &mut self,
        now: &GitDirectoryState,
        is_work_tree: &dyn Fn(&Path) -> bool,
    ) {
        let Ok(folder) = disk::open_folder(self.path) else { return };
        self.revert_hooks(
            &folder,
            &GitDirectoryState { hooks: BTreeMap::new(), ..now.clone() },
            now,
        );
        if matches!(now.entry(HOOKS), EntryState::Link(_)) {
            let why = "leads to hooks elsewhere";
            self.restore(&folder, HOOKS, (&EntryState::Missing, now.entry(HOOKS)), why);
        }
        if now.is_linked() && !self.is_worktree_of_parent(now) {
            let why = "leads git to another repository";
            let name = "commondir";
            self.restore(&folder, name, (&EntryState::Missing, now.entry(name)), why);
        }
        let is_allowed = |setting: &&Setting| {
            let place = setting.value.as_deref().filter(|_| setting.is_work_tree());
            place.is_some_and(|place| is_work_tree(&self.path.join(place)))
                || setting.is_allowed_in_new()
        };
        let mut changes = Vec::new();
        for name in CONFIG_FILES {
            let state = now.entry(name);
            let settings = match state {
                EntryState::Missing => continue,
                other => other.bytes().and_then(config::parse),
            };
            let Some(settings) = settings else {
                changes.push((name, EntryState::Missing, "cannot be parsed by git".to_owned()));
                continue;
            };
            let (allowed, refused): (Vec<&Setting>, Vec<&Setting>) =
                settings.iter().partition(is_allowed);
            if refused.is_empty() {
                continue;
            }
            let text = config::format_settings(allowed.into_iter());
            let names: Vec<String> = refused.into_iter().map(Setting::name).collect();
            let why =
                format!("sets {}, which a command may not set; {HOW_TO_SET}", names.join(", "));
            changes.push((name, EntryState::File { bytes: text.into_bytes(), mode: 0o644 }, why));
        }
        for (name, wanted, why) in changes {
            self.restore(&folder, name, (&wanted, now.entry(name)), &why);
        }
    }

    /// Whether this is `worktrees/NAME` of the git directory that `commondir` names.
    fn is_worktree_of_parent(&self, now: &GitDirectoryState) -> bool {
        let text = now.entry("commondir").bytes().map(<[u8]>::trim_ascii);
        let parent = self.path.parent().filter(|parent| parent.ends_with("worktrees"));
        let common =
            text.and_then(|text| std::str::from_utf8(text).ok()).map(|text| self.path.join(text));
        let canonical = |path: &Path| path.canonicalize().ok();
        common.is_some_and(|common| {
            parent.and_then(Path::parent).is_some_and(|it| canonical(it) == canonical(&common))
        })
    }

    fn restore(
        &mut self,
        folder: &OwnedFd,
        name: &str,
        states: (&EntryState, &EntryState),
        why: &str,
    ) {
        self.restore_in(folder, (OsStr::new(name), Path::new(name)), states, why);
    }

    fn restore_in(
        &mut self,
        folder: &OwnedFd,
        (name, shown): (&OsStr, &Path),
        (before, now): (&EntryState, &EntryState),
        why: &str,
    ) {
        let path = self.path.join(shown);
        if before == now {
            return;
        }
        if (self.is_foreign)(&path) {
            let text =
                format!("{} was changed by another process while the command ran", path.display());
            return self.report.notices.push(text);
        }
        entry::revert((folder, name), &path, (before, now), why, (self.keep, self.report));
    }

    /// Looks for the directory beside its place, and where the git directory is. Without it git needs an empty one.
    fn restore_folder(&mut self, folder: &OwnedFd, name: &str, id: FileId) {
        let path = self.path.join(name);
        if (self.is_foreign)(&path) {
            return;
        }
        let parent = self.path.parent().and_then(|parent| disk::open_folder(parent).ok());
        let places = [Some(folder), parent.as_ref()];
        let found = places.into_iter().flatten().find_map(|place| {
            let is_it = |entry: &OsString| EntryState::read(place, entry).folder_id() == Some(id);
            list_names(place).into_iter().find(is_it).map(|entry| (place, entry))
        });
        if EntryState::read(folder, OsStr::new(name)) != EntryState::Missing {
            _ = move_aside(folder, OsStr::new(name));
        }
        let outcome = match &found {
            Some((place, entry)) => rustix::fs::renameat(place, entry, folder, name),
            None => rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o755)),
        };
        let path = path.display();
        match (outcome, found, name) {
            (Ok(()), Some(_), _) => {
                let why = "was moved, without which git uses another directory: it was moved back";
                self.report.notices.push(format!("{path} {why}"));
            }
            (Ok(()), None, HOOKS) => {}
            (Ok(()), None, _) => self.report.failures.push(format!(
                "{path} was removed, without which git uses another directory: an empty one took its place; what was in \
                 it is lost unless it was moved elsewhere"
            )),
            (Err(error), ..) => self.report.failures.push(format!(
                "{path} is missing and could not be restored ({error}): do not run git here before the user repaired it"
            )),
        }
    }
}

/// The directory that a `.git` file names.
pub(super) fn linked_directory(file: &Path, content: &[u8]) -> Option<PathBuf> {
    let text = std::str::from_utf8(content).ok()?.strip_prefix("gitdir:")?.trim();
    file.parent()?.join(text).canonicalize().ok()
}
