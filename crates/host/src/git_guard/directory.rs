//! The part of a git directory that decides what git executes, and which directory it takes for the repository
//! (`gitrepository-layout(5)`).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use super::config::{self, Setting};
use super::discovery::Snapshot;
use super::entry::{self, EntryState, FileId, list_names, move_aside};
use super::stamp::Stamp;
use super::{ContentKeeper, GuardReport};
use agent_protocol::disk::repository::{is_head_content, linked_directory, path_in};
use agent_protocol::disk::{self, ResolvedPath};
use agent_protocol::tool::{CommandRights, GitConfigAccess};
use rustix::fs::Mode;

/// Git reads the settings of both.
const CONFIG_FILES: [&str; 2] = ["config", "config.worktree"];
const LINK_FILES: [&str; 2] = ["commondir", "gitdir"];
const FOLDERS: [&str; 2] = ["objects", "refs"];
pub(super) const HOOKS: &str = "hooks";
/// Folders of files that decide what git executes. The older forms of remotes hold addresses (`gitrepository-layout(5)`).
const FILE_FOLDERS: [(&str, &str); 3] = [
    (HOOKS, "is a hook, which git runs; the user can add it"),
    ("remotes", "names the address of a remote; the user can add it"),
    ("branches", "names the address of a remote; the user can add it"),
];
/// Limit of the files of one such folder in memory; what is beyond is compared by its hash.
const MAX_HOOK_BYTES: usize = 16 << 20;
/// Size of a file with a path, in bytes, with room (`PATH_MAX`).
const MAX_PATH_FILE: usize = 8 << 10;
/// Git does not run a file of this name directly in the folder of hooks.
const SAMPLE: &[u8] = b".sample";
const HOW_TO_SET: &str = "`git config` asks the user for it";

#[derive(Clone, Debug)]
pub(super) struct GitDirectoryState {
    pub(super) id: FileId,
    entries: BTreeMap<&'static str, EntryState>,
    /// By folder.
    files: BTreeMap<&'static str, BTreeMap<OsString, EntryState>>,
    /// Links in it, and the files that its configuration includes.
    pub(super) reached: Vec<PathBuf>,
    /// Of the directory, and of all that was read.
    pub(super) stamps: Vec<Stamp>,
    /// Its index may have longer object ids.
    pub(super) has_object_format: bool,
    /// The contents of large files are known.
    pub(super) has_contents: bool,
}

impl PartialEq for GitDirectoryState {
    fn eq(&self, other: &Self) -> bool {
        (self.id, &self.entries, &self.files) == (other.id, &other.entries, &other.files)
    }
}

impl GitDirectoryState {
    /// `None` if there is no directory, or a link is in its path.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let mut stamps = vec![Stamp::take(path)];
        let folder = entry::open_folder(path).ok()?;
        let file_folders = FILE_FOLDERS.map(|(name, _)| name);
        let names = ["HEAD"].into_iter().chain(CONFIG_FILES).chain(LINK_FILES);
        let mut entries = BTreeMap::new();
        for name in names.chain(FOLDERS).chain(file_folders) {
            let stamp = Stamp::take(&path.join(name));
            let state = EntryState::read(&folder, OsStr::new(name));
            // That others are missing, the directory's own stamp says.
            let is_in_stamp = match &state {
                EntryState::Missing | EntryState::Link(_) => true,
                // (The mode of a directory may change.)
                EntryState::Directory(_) | EntryState::File { .. } | EntryState::Other(_) => false,
            };
            stamps.extend((!is_in_stamp).then_some(stamp));
            entries.insert(name, state);
        }
        let mut files = BTreeMap::new();
        for name in file_folders {
            let found = read_files(&path.join(name), name == HOOKS);
            stamps.extend(found.keys().map(|file| Stamp::take(&path.join(name).join(file))));
            files.insert(name, found);
        }
        let own = entries.iter().map(|(name, entry)| (path.join(name), entry));
        let inner = files.iter().flat_map(|(folder, files)| {
            files.iter().map(move |(name, entry)| (path.join(folder).join(name), entry))
        });
        let links = own.chain(inner).filter(|(_, entry)| matches!(entry, EntryState::Link(_)));
        let included = CONFIG_FILES.into_iter().flat_map(|name| {
            let text = entries.get(name).and_then(EntryState::bytes).unwrap_or_default();
            config::included_files(&path.join(name), text)
        });
        let reached = links.map(|(link, _)| link).chain(included).collect();
        let id = entry::folder_id(&folder, OsStr::new(""))?;
        let (has_object_format, has_contents) = (false, true);
        let mut state =
            Self { id, entries, files, reached, stamps, has_object_format, has_contents };
        let mut settings = state.settings().into_iter().flatten();
        state.has_object_format = settings.any(|setting| setting.is_object_format());
        Some(state)
    }

    /// The size of all contents, in bytes.
    pub(super) fn content_size(&self) -> usize {
        let files = self.files.values().flat_map(BTreeMap::values);
        self.entries.values().chain(files).filter_map(EntryState::bytes).map(<[u8]>::len).sum()
    }

    /// With the hashes of large files only: a `HEAD` and what names a directory are understood.
    pub(super) fn without_contents(mut self) -> Self {
        let files = self.files.values_mut().flat_map(BTreeMap::values_mut);
        let entries = self.entries.values_mut().chain(files);
        for entry in entries.filter(|it| it.bytes().is_some_and(|it| it.len() > MAX_PATH_FILE)) {
            *entry = std::mem::replace(entry, EntryState::Missing).without_content();
        }
        self.has_contents = false;
        self
    }

    /// Where it was read.
    pub(super) fn path(&self) -> &Path {
        &self.stamps[0].path
    }

    /// Whether it has only what a command may make.
    pub(super) fn is_harmless(&self) -> bool {
        let is_allowed = |settings: Vec<Setting>| {
            settings.iter().all(Setting::is_allowed_in_new)
                && config::refused_promisors(&[], &settings).is_empty()
        };
        let folders = FILE_FOLDERS.iter().map(|(name, _)| self.entry(name));
        self.files.values().all(BTreeMap::is_empty)
            && !folders
                .into_iter()
                .any(|entry| matches!(entry, EntryState::Link(_) | EntryState::Other(_)))
            && (!self.is_linked() || self.is_worktree_of_parent())
            && self.settings().is_some_and(is_allowed)
    }

    /// Whether this is `worktrees/NAME` of the git directory that `commondir` names, in the words of git: another text
    /// may lead through links.
    fn is_worktree_of_parent(&self) -> bool {
        let text = self.entry("commondir").bytes().and_then(path_in);
        let parent = self.path().parent().filter(|parent| parent.ends_with("worktrees"));
        text == Some(Path::new("../..")) && parent.is_some()
    }

    fn is_removed(&self) -> bool {
        ["HEAD"].iter().chain(&FOLDERS).all(|name| *self.entry(name) == EntryState::Missing)
    }

    /// Whether nothing in it changed since this time, which counts only where nobody can choose the time of a change.
    pub(super) fn is_older_than(&self, time: SystemTime) -> bool {
        self.stamps.iter().all(|stamp| stamp.is_older_than(time))
    }

    /// Whether nothing changed since it was read.
    pub(super) fn is_current(&self) -> bool {
        self.stamps.iter().all(Stamp::is_current)
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

/// Recursively, with the folders: a hook may run what is there. Elsewhere, a folder may be a worktree
/// (`git worktree add branches/x`).
fn read_files(path: &Path, is_recursive: bool) -> BTreeMap<OsString, EntryState> {
    let (mut files, mut todo, mut n_bytes) = (BTreeMap::new(), vec![PathBuf::new()], 0);
    while let Some(inner) = todo.pop() {
        let Ok(folder) = entry::open_folder(&path.join(&inner)) else { continue };
        let names = list_names(&folder).into_iter();
        let is_sample = |name: &OsString| name.as_encoded_bytes().ends_with(SAMPLE);
        for name in
            names.filter(|name| !(is_recursive && inner.as_os_str().is_empty() && is_sample(name)))
        {
            let state = EntryState::read(&folder, &name);
            let name = inner.join(name);
            if state.folder_id().is_some() {
                if !is_recursive {
                    continue;
                }
                todo.push(name.clone());
            }
            n_bytes += state.bytes().map_or(0, <[u8]>::len);
            let state = if n_bytes > MAX_HOOK_BYTES { state.without_content() } else { state };
            files.insert(name.into_os_string(), state);
        }
    }
    files
}

/// Restores a git directory to an earlier state.
pub(super) struct DirectoryGuard<'a> {
    pub(super) path: &'a Path,
    pub(super) rights: CommandRights,
    /// What the command could not write: a change of it was made by another process.
    pub(super) is_foreign: &'a dyn Fn(&Path) -> bool,
    pub(super) now: &'a Snapshot,
    /// The settings at the first command.
    pub(super) initial: &'a [Setting],
    pub(super) keep: &'a ContentKeeper,
    pub(super) report: &'a mut GuardReport,
}

impl DirectoryGuard<'_> {
    /// Whether this setting of the work tree is the one that has a `.git` file for this directory.
    fn is_own_work_tree(&self, setting: &Setting) -> bool {
        let place = setting.value.as_deref().filter(|_| setting.is_work_tree());
        let place = place.map(|place| ResolvedPath::resolve(&self.path.join(place), &[]).path);
        place.is_some_and(|place| self.now.folders.contains_key(&place) && self.points_here(&place))
    }

    /// Whether the `.git` file of a work tree names this directory.
    fn points_here(&self, place: &Path) -> bool {
        let file = place.join(".git");
        let bytes = disk::read_small(&file, disk::SMALL_FILE_LIMIT).ok();
        let target = bytes.and_then(|bytes| linked_directory(&file, &bytes));
        let target = target.map(|target| ResolvedPath::resolve(&target, &[]));
        target.is_some_and(|it| it.path == self.path && !it.depends_on_process())
    }

    fn is_granted(&self) -> bool {
        self.rights.git_config == GitConfigAccess::Granted
    }

    fn open(&mut self) -> Option<OwnedFd> {
        let opened = disk::open_folder(self.path).ok();
        if opened.is_none() {
            let text = format!("{} was changed, and cannot be opened", self.path.display());
            self.report.failures.push(text);
        }
        opened
    }

    pub(super) fn revert_changes(
        &mut self,
        before: &GitDirectoryState,
        now: &GitDirectoryState,
        is_session: bool,
    ) {
        let Some(folder) = self.open() else { return };
        let is_valid = |state: &GitDirectoryState| match state.entry("HEAD") {
            EntryState::File { bytes, .. } => is_head_content(bytes),
            EntryState::Link(target) => target.as_os_str().as_bytes().starts_with(b"refs/"),
            _ => false,
        };
        // A removed submodule: where its configuration is mounted, that is left.
        let is_removed = !is_session && now.is_removed();
        if is_valid(before) && !is_valid(now) && !is_removed {
            let why = "is no valid HEAD, without which git uses another directory";
            self.restore(&folder, "HEAD", (before.entry("HEAD"), now.entry("HEAD")), why);
        }
        for name in FOLDERS {
            if !is_removed
                && let Some(id) = before.entry(name).folder_id()
                && now.entry(name).folder_id().is_none()
            {
                self.restore_folder(&folder, name, id);
            }
        }
        for name in LINK_FILES {
            let why = "decides which repository git uses";
            // `git worktree move` writes where the worktree is now.
            let moved = now.entry(name).bytes().filter(|_| name == "gitdir");
            let moved =
                moved.and_then(|bytes| path_in(bytes)).map(|file| normalize(&self.path.join(file)));
            if moved.as_deref().and_then(Path::parent).is_some_and(|place| self.points_here(place))
            {
                continue;
            }
            self.restore(&folder, name, (before.entry(name), now.entry(name)), why);
        }
        if !self.is_granted() {
            self.revert_settings(&folder, before, now);
        }
        for in_folder in FILE_FOLDERS {
            self.revert_files(&folder, in_folder, before, now);
        }
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
                let mut refused = config::refused_changes(self.initial, &before, &now);
                if !self.rights.network {
                    refused.extend(config::refused_promisors(&[self.initial, &before], &now));
                }
                // A submodule that was moved.
                if let Some(setting) = now.iter().rfind(|setting| setting.is_work_tree())
                    && self.is_own_work_tree(setting)
                {
                    refused.retain(|name| *name != setting.name());
                }
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

    fn revert_files(
        &mut self,
        folder: &OwnedFd,
        (in_folder, why): (&'static str, &str),
        before: &GitDirectoryState,
        now: &GitDirectoryState,
    ) {
        let of =
            |state: &GitDirectoryState| state.files.get(in_folder).cloned().unwrap_or_default();
        let (old_files, new_files) = (of(before), of(now));
        let (old, new) = (before.entry(in_folder), now.entry(in_folder));
        match (old.folder_id(), new.folder_id()) {
            _ if (old, &old_files) == (new, &new_files) => return,
            (Some(_), None) if old_files.is_empty() && *new == EntryState::Missing => return,
            (Some(id), None) => self.restore_folder(folder, in_folder, id),
            (Some(_), Some(_)) => {}
            (None, Some(_)) if *old == EntryState::Missing => {}
            (None, _) => return self.restore(folder, in_folder, (old, new), why),
        }
        let path = self.path.join(in_folder);
        let now = read_files(&path, in_folder == HOOKS);
        let names: std::collections::BTreeSet<_> = old_files.keys().chain(now.keys()).collect();
        for name in names {
            let state = |files: &BTreeMap<OsString, EntryState>| {
                files.get(name).cloned().unwrap_or(EntryState::Missing)
            };
            let (shown, file) = (Path::new(in_folder).join(name), path.join(name));
            let Some((above, name)) = file.parent().zip(file.file_name()) else { continue };
            let (mut old, new) = (state(&old_files), state(&now));
            // Of a folder only the files count.
            if old.folder_id().is_some() {
                old = EntryState::Missing;
            }
            if old == new || old == EntryState::Missing && new.folder_id().is_some() {
                continue;
            }
            match disk::create_folder_all(above, 0o755) {
                Ok(opened) => self.restore_in(&opened, (name, &shown), (&old, &new), why),
                Err(_) => {
                    let text = format!("{} was changed, and cannot be opened", above.display());
                    self.report.failures.push(text);
                }
            }
        }
    }

    /// Removes what is not allowed in a git directory that a command made.
    pub(super) fn check_new(&mut self, now: &GitDirectoryState) {
        let Some(folder) = self.open() else { return };
        // Git would wait for a pipe in its place.
        if let other @ EntryState::Other(_) = now.entry("HEAD") {
            let why = "is no file, without which git uses another directory";
            self.restore(&folder, "HEAD", (&EntryState::Missing, other), why);
        }
        let empty = GitDirectoryState { files: BTreeMap::new(), ..now.clone() };
        for (name, why) in FILE_FOLDERS {
            self.revert_files(&folder, (name, why), &empty, now);
            // Root's git searches a directory that others cannot.
            if let other @ (EntryState::Link(_) | EntryState::Other(_)) = now.entry(name) {
                self.restore(&folder, name, (&EntryState::Missing, other), why);
            }
        }
        if now.is_linked() && !now.is_worktree_of_parent() {
            let why = "leads git to another repository";
            let name = "commondir";
            self.restore(&folder, name, (&EntryState::Missing, now.entry(name)), why);
        }
        if self.is_granted() {
            return;
        }
        let texts = CONFIG_FILES.into_iter().filter_map(|name| now.entry(name).bytes());
        let all: Vec<Setting> = texts.filter_map(config::parse).flatten().collect();
        let promisors = config::refused_promisors(&[], &all);
        let promisors = Some(promisors).filter(|_| !self.rights.network).unwrap_or_default();
        let is_allowed = |setting: &&Setting| {
            self.is_own_work_tree(setting)
                || setting.is_allowed_in_new() && !promisors.contains(&setting.name())
        };
        let changes = CONFIG_FILES.map(|name| {
            let state = now.entry(name);
            let Some(settings) = state.bytes().and_then(config::parse) else {
                return (EntryState::Missing, "cannot be parsed by git".to_owned());
            };
            let (allowed, refused): (Vec<&Setting>, Vec<&Setting>) =
                settings.iter().partition(is_allowed);
            if refused.is_empty() {
                return (state.clone(), String::new());
            }
            let bytes = config::format_settings(allowed.into_iter()).into_bytes();
            let names: Vec<String> = refused.into_iter().map(Setting::name).collect();
            let names = names.join(", ");
            let why = format!("sets {names}, which a command may not set; {HOW_TO_SET}");
            (EntryState::File { bytes, mode: 0o644 }, why)
        });
        for (name, (wanted, why)) in CONFIG_FILES.into_iter().zip(changes) {
            self.restore(&folder, name, (&wanted, now.entry(name)), &why);
        }
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
            let text = format!("{} {}", path.display(), super::FOREIGN);
            return self.report.notices.push(text);
        }
        entry::revert((folder, name), &path, (before, now), why, (self.keep, self.report));
    }

    /// Looks for the directory beside its place, and where the git directory is. Without it git needs an empty one.
    fn restore_folder(&mut self, folder: &OwnedFd, name: &str, id: FileId) {
        let path = self.path.join(name);
        let parent = self.path.parent().and_then(|parent| disk::open_folder(parent).ok());
        let places = [Some(folder), parent.as_ref()];
        let found = places.into_iter().flatten().find_map(|place| {
            let is_it = |entry: &OsString| entry::folder_id(place, entry) == Some(id);
            list_names(place).into_iter().find(is_it).map(|entry| (place, entry))
        });
        if entry::folder_id(folder, OsStr::new(name)) == Some(id) {
            if let Err(error) = entry::reopen(&path) {
                let text = format!("{} cannot be searched ({error})", path.display());
                self.report.failures.push(text);
            }
            return;
        }
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
            (Ok(()), None, _) if !FOLDERS.contains(&name) => {}
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

/// The directory that a `.git` file names, if no link can be in its path but for one of the directory itself: `..` is only at
/// the beginning.
pub(super) fn unambiguous_directory(file: &Path, content: &[u8]) -> Option<PathBuf> {
    let path = path_in(content.strip_prefix(b"gitdir: ")?)?;
    let mut names = path.components().skip_while(|part| *part == Component::ParentDir);
    let has_parents = names.any(|part| part == Component::ParentDir);
    Some(normalize(&linked_directory(file, content)?)).filter(|_| !has_parents)
}

/// Without `..`, and without following links: a path with a link in it is not opened either.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = normal.pop(),
            other => normal.push(other),
        }
    }
    normal
}
