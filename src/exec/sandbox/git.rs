//! Where the repositories of a project lie: what is protected of them, and what git itself writes.

use std::collections::{HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::io::Errno;

use super::{settings, tables};
use crate::disk::{SMALL, is_not_there, read_small, settled};

/// How deep and how far repositories inside the project are looked for.
const DEPTH: usize = 3;
const MAX_FOLDERS: usize = 50_000;
const MAX_TIME: Duration = Duration::from_millis(500);
/// So many submodules of one repository are looked at.
const MAX_MODULES: usize = 1_000;
/// Never looked into: large, and not the user's own.
const SKIPPED: &[&str] = &["node_modules", "target", ".venv", "venv", "__pycache__"];

/// One repository, as far as it belongs to the project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Repository {
    /// Its `.git`.
    place: PathBuf,
    /// That, where it is a file or a link, which name where it lies.
    pub(super) link: Option<PathBuf>,
    /// The folders in which it lies: `.git`, or what a worktree and a submodule have elsewhere.
    pub(super) own: Vec<PathBuf>,
    /// Whether worktrees lie in the first of them.
    around: Around,
    /// What git runs by itself; it is written by no git command that a task needs.
    pub(super) hooks: Vec<PathBuf>,
    /// Its settings, some of which name programs.
    pub(super) settings: Vec<PathBuf>,
}

/// Where a repository lies that has worktrees in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Around {
    /// None lie in it.
    #[default]
    Nothing,
    /// In what commands write.
    Inside,
    /// Outside: the project may be one of its worktrees, and others lie beside it.
    Outside,
}

impl Repository {
    /// What git takes away with a worktree or a submodule: the file that names where it lies, and what a worktree has
    /// in its main repository. It could not if that was a mount.
    pub(super) fn removable(&self) -> impl Iterator<Item = PathBuf> {
        let trees = self.own.iter().skip(1).cloned();
        // (Its files git replaces.)
        let common = self.own.first().filter(|_| self.around == Around::Inside);
        let files =
            common.into_iter().flat_map(|common| FILES.iter().map(|name| common.join(name)));
        self.named_by().cloned().into_iter().chain(trees).chain(files)
    }

    /// What git writes. Without namespaces nothing is where that would be other worktrees as well: a part of it is not
    /// enough for git, which would leave things half done.
    pub(super) fn written(&self, namespaces: bool) -> Vec<PathBuf> {
        match self.around {
            Around::Nothing => self.own.clone(),
            Around::Inside => self.parts(OF_GIT.iter().filter(|name| **name != "hooks")),
            Around::Outside if namespaces => self.own.clone(),
            Around::Outside => Vec::new(),
        }
    }

    /// What nobody else writes.
    pub(super) fn kept(&self) -> Vec<PathBuf> {
        match self.around {
            Around::Nothing | Around::Outside => self.own.clone(),
            Around::Inside => self.parts(OF_GIT.iter().chain(FILES)),
        }
    }

    fn parts<'a>(&self, names: impl Iterator<Item = &'a &'a str>) -> Vec<PathBuf> {
        let Some((common, others)) = self.own.split_first() else { return Vec::new() };
        names.map(|name| common.join(name)).chain(others.iter().cloned()).collect()
    }

    /// The folder that lies around worktrees outside, and what in it is none of git's.
    pub(super) fn with_others(&self) -> Option<(&PathBuf, Vec<PathBuf>)> {
        let common = self.own.first().filter(|_| self.around == Around::Outside)?;
        let entries = fs::read_dir(common).into_iter().flatten().flatten();
        let others = entries.filter(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => {
                !OF_GIT.iter().chain(AT_TIMES).any(|own| entry.file_name() == *own)
            }
            Ok(kind) => kind.is_file() && !is_file_of_git(&entry.file_name()),
            Err(_) => false,
        });
        Some((common, others.map(|entry| entry.path()).collect()))
    }

    /// The file that names where it lies.
    fn named_by(&self) -> Option<&PathBuf> {
        let is_meant = !self.own.is_empty();
        self.link.as_ref().filter(|link| is_meant && link.is_file() && !link.is_symlink())
    }

    /// With the hooks and settings that its worktrees and submodules have in it now, whether they are checked out or
    /// not.
    pub(super) fn with_inner_ones(mut self) -> Self {
        let mut inner = Inner::default();
        for own in &self.own {
            inner.look_into(own);
        }
        self.settings.extend(self.named_by().cloned());
        self.settings.extend(inner.settings);
        self.hooks.extend(inner.hooks);
        self
    }
}

/// Folders directly in a repository that are git's own.
pub(super) const OF_GIT: &[&str] = &[
    "branches",
    "hooks",
    "info",
    "lfs",
    "logs",
    "modules",
    "objects",
    "refs",
    "reftable",
    "rr-cache",
    "worktrees",
];

/// Folders that git makes for a while, or that programs around it keep there.
pub(super) const AT_TIMES: &[&str] =
    &["annex", "filter-repo", "lost-found", "rebase-apply", "rebase-merge", "sequencer", "svn"];

/// Files directly in it.
const FILES: &[&str] =
    &["HEAD", "commondir", "config", "config.worktree", "packed-refs", "shallow"];

/// What a repository has of its worktrees and modules, of the worktrees of its modules, and so on.
#[derive(Default)]
struct Inner {
    settings: Vec<PathBuf>,
    /// Of the modules, and what can not be looked into: whatever lies there, nobody writes it.
    hooks: Vec<PathBuf>,
    n_looks: usize,
}

impl Inner {
    fn look_into(&mut self, repository: &Path) {
        let trees = repository.join("worktrees");
        for tree in self.folders(&trees) {
            self.settings.extend(["commondir", "config.worktree"].map(|name| tree.join(name)));
            self.look_for_modules(&tree.join("modules"), false);
        }
        self.look_for_modules(&repository.join("modules"), false);
    }

    /// A module's name may have several parts, and it may have modules of its own. What looks like a module is looked
    /// into all the same: a hook can make anything look like one.
    fn look_for_modules(&mut self, folder: &Path, is_module: bool) {
        for path in self.folders(folder) {
            let name = path.file_name().unwrap_or_default();
            if is_module && OF_GIT.iter().any(|own| name == *own) {
                // What is git's own is large, and holds no modules but where their names say so (`libs/objects`).
                let mut inner: Vec<PathBuf> = folders(&path).into_iter().flatten().collect();
                inner.push(path);
                let is_one = |path: &&PathBuf| path.join("HEAD").is_file() && has_own(path);
                inner.iter().filter(is_one).for_each(|module| self.add(module));
                continue;
            }
            if self.n_looks == MAX_MODULES {
                return;
            }
            self.n_looks += 1;
            let is_module = is_like_a_module(&path);
            if is_module {
                self.add(&path);
            }
            self.look_for_modules(&path, is_module);
        }
    }

    fn add(&mut self, module: &Path) {
        self.hooks.push(module.join("hooks"));
        self.settings.extend(settings_in(module));
        self.look_into(module);
    }

    fn folders(&mut self, folder: &Path) -> Vec<PathBuf> {
        let Ok(folders) = folders(folder) else {
            self.hooks.push(folder.to_owned());
            return Vec::new();
        };
        folders.collect()
    }
}

/// The folders in a folder, none where it is not there; an error where something may be in it.
fn folders(folder: &Path) -> io::Result<impl Iterator<Item = PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => Some(entries),
        Err(error) if is_not_there(&error) => None,
        Err(error) => return Err(error),
    };
    let folders = entries.into_iter().flatten().flatten();
    let folders = folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(folders.map(|entry| entry.path()))
}

fn settings_in(folder: &Path) -> [PathBuf; 3] {
    ["config", "config.worktree", settings::ELSEWHERE].map(|name| folder.join(name))
}

/// What is found in the places that commands may write.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    /// The repository that the root belongs to, which may begin above it, and those inside.
    repositories: Vec<Repository>,
    /// The agent's own folders, where it keeps records.
    pub(super) agents: Vec<PathBuf>,
    /// The user's own folders that could not be looked into. A command can close one, and another open it again.
    pub(super) closed: Vec<PathBuf>,
    /// There were too many folders, or it took too long.
    pub(super) is_cut: bool,
}

impl Found {
    /// The repositories that there are now: a writable place itself may have become one (`git init`).
    pub(super) fn repositories(&self, writable: &[PathBuf]) -> Vec<Repository> {
        let mut all = self.repositories.clone();
        for place in writable.iter().map(|root| root.join(".git")) {
            if all.iter().any(|repository| repository.place == place) {
                continue;
            }
            // A command made it: whatever it names, git writes nothing by it that the command could not.
            all.extend(at(&place, writable).map(|mut repository| {
                repository.own.retain(|own| lies_in(own, writable));
                repository
            }));
        }
        all
    }
}

/// Looks into every folder, the outer ones first.
pub(super) fn find(root: &Path, writable: &[PathBuf]) -> Found {
    let begun = Instant::now();
    // As git does it: where the root has its own, what lies above is none of it.
    let nearest = root.ancestors().find_map(|folder| at(&folder.join(".git"), writable));
    let above = nearest.filter(|repository| !repository.place.starts_with(root));
    let mut found = Found { repositories: above.into_iter().collect(), ..Found::default() };
    let mut next: VecDeque<(PathBuf, usize)> =
        writable.iter().map(|folder| (folder.clone(), DEPTH)).collect();
    let (mut n_folders, mut met) = (0, HashSet::new());
    while let Some((folder, depth)) = next.pop_front() {
        // (One writable place may lie in another; from there it is looked deeper.)
        if !met.insert((folder.clone(), depth)) {
            continue;
        }
        n_folders += 1;
        if n_folders > MAX_FOLDERS || begun.elapsed() > MAX_TIME {
            found.is_cut = true;
            break;
        }
        if is_closed(&folder) && !writable.contains(&folder) {
            found.closed.push(folder);
            continue;
        }
        let place = folder.join(".git");
        if !found.repositories.iter().any(|repository| repository.place == place) {
            found.repositories.extend(at(&place, writable));
        }
        let agent = folder.join(tables::AGENT_FOLDER);
        // A command can make a link, to any folder.
        let is_new = !found.agents.contains(&agent);
        if is_new && fs::symlink_metadata(&agent).is_ok_and(|metadata| metadata.is_dir()) {
            found.agents.push(agent);
        }
        if depth > 0 {
            let is_looked_into = |path: &PathBuf| {
                let name = path.file_name().unwrap_or_default();
                name != ".git"
                    && name != tables::AGENT_FOLDER
                    && !SKIPPED.iter().any(|skipped| name == *skipped)
            };
            let folders = folders(&folder).into_iter().flatten();
            next.extend(folders.filter(is_looked_into).map(|path| (path, depth - 1)));
        }
    }
    found
}

/// A folder of this user's own that he can not look into as it is.
fn is_closed(folder: &Path) -> bool {
    let can = Access::READ_OK | Access::EXEC_OK;
    rustix::fs::access(folder, can).is_err_and(|error| error == Errno::ACCESS)
        && fs::symlink_metadata(folder)
            .is_ok_and(|metadata| metadata.uid() == rustix::process::getuid().as_raw())
}

/// The repository of this `.git`, a folder, or a link or a file that names one.
fn at(path: &Path, writable: &[PathBuf]) -> Option<Repository> {
    let place = path.to_owned();
    let metadata = fs::metadata(path).ok()?;
    let mut link = None;
    let mut own = place.clone();
    let is_link = path.is_symlink();
    if is_link {
        // A command can make one, to any folder: git's is one that looks like it, and does not lie around it.
        own = path.canonicalize().ok().filter(|target| !path.starts_with(target))?;
        if metadata.is_dir() && !is_gits(&own) {
            return None;
        }
        link = Some(place.clone());
    }
    if metadata.is_dir() {
        let hooks = vec![own.join("hooks")];
        let settings = settings_in(&own).into();
        // Another repository of the user's looks like git's, too.
        let is_meant = link.is_none() || lies_in(&own, writable);
        let own = is_meant.then_some(own).into_iter().collect();
        return Some(Repository { place, link, own, around: Around::Nothing, hooks, settings });
    }
    let Some(own) = named(path, b"gitdir: ") else {
        // What can not be looked at may be one all the same.
        let link = Some(place.clone());
        return is_hidden(path).then(|| Repository { place, link, ..Repository::default() });
    };
    // A worktree shares what lies here with its main repository.
    let common = named(&own.join("commondir"), b"").unwrap_or_else(|| own.clone());
    let hooks = vec![common.join("hooks")];
    let mut settings = Vec::from(settings_in(&common));
    settings.extend(settings_in(&own));
    settings.sort();
    settings.dedup();
    let mut folders = vec![common, own];
    folders.dedup();
    // A file could name any folder of the user's: it has to be meant by that folder, too, and that folder by what it
    // names. A link may have any file of the user's at its end.
    let is_meant = match &folders[..] {
        [common, own] => {
            own.parent() == Some(&common.join("worktrees"))
                && (is_inside(common, writable) || !is_inside(own, writable))
                && names_back(own, path, writable)
        }
        folders => folders.iter().all(|own| names_back(own, path, writable)),
    };
    // (A bare repository may lie around its worktrees, of which the project may be one.)
    let lies_around = |own: &PathBuf| {
        path.starts_with(own) || writable.iter().any(|place| place.starts_with(own))
    };
    let around = match folders.first() {
        Some(common) if is_inside(common, writable) && lies_around(common) => Around::Inside,
        Some(common) if is_inside(common, writable) => Around::Nothing,
        Some(common) if lies_around(common) || holds_worktrees(common) => Around::Outside,
        Some(_) | None => Around::Nothing,
    };
    if folders.iter().any(|own| is_inside(own, writable) && lies_around(own)) {
        // In what commands write it opens nothing that is not open, and what is git's own is kept from the rest.
        folders.truncate(1);
        folders.retain(|own| is_inside(own, writable) && is_gits(own));
    } else if is_link || !is_meant {
        // In the project it is at least what git writes (`gitdir: ./.bare`), and no command else.
        folders.retain(|own| lies_in(own, writable) && is_gits(own));
    }
    Some(Repository { link: Some(place.clone()), place, own: folders, around, hooks, settings })
}

/// Some of its worktrees lie in the repository itself.
fn holds_worktrees(common: &Path) -> bool {
    let trees = common.join("worktrees");
    let trees = folders(&trees).into_iter().flatten();
    let mut files = trees.filter_map(|tree| name_in(&tree.join("gitdir"), b""));
    files.any(|file| settled(&plain(&file), &[]).starts_with(common))
}

/// What git keeps in files there, for a while or for good: `MERGE_HEAD`, `packed-refs`, locks.
fn is_file_of_git(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let is_for_a_while = name.chars().all(|char| char.is_ascii_uppercase() || char == '_');
    let others = ["description", "gc.log", "gc.pid", "index"];
    is_for_a_while || name.ends_with(".lock") || FILES.iter().chain(&others).any(|own| name == *own)
}

/// The text of a small file of git's, and the name in it.
pub(super) fn name_in(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let text = read_small(file, SMALL).ok()?;
    let mut name = text.strip_prefix(prefix)?;
    while let [rest @ .., b'\n' | b'\r'] = name {
        name = rest;
    }
    Some(file.parent()?.join(OsStr::from_bytes(name)))
}

/// The folder that a file of git's names.
fn named(file: &Path, prefix: &[u8]) -> Option<PathBuf> {
    name_in(file, prefix)?.canonicalize().ok().filter(|target| target.is_dir())
}

/// It names something that can not be looked at.
fn is_hidden(file: &Path) -> bool {
    let target = name_in(file, b"gitdir: ").map(|name| name.canonicalize());
    target.is_some_and(|target| target.is_err_and(|error| !is_not_there(&error)))
}

fn is_like_a_module(folder: &Path) -> bool {
    folder.join("HEAD").exists() || has_own(folder)
}

fn has_own(folder: &Path) -> bool {
    ["hooks", "objects"].iter().any(|name| folder.join(name).exists())
}

/// It looks like a repository.
fn is_gits(folder: &Path) -> bool {
    ["HEAD", "objects", "refs"].iter().all(|name| folder.join(name).exists())
}

fn lies_in(path: &Path, places: &[PathBuf]) -> bool {
    is_inside(path, places) && !places.iter().any(|place| path == place)
}

/// One of these places, or in it.
fn is_inside(path: &Path, places: &[PathBuf]) -> bool {
    places.iter().any(|place| path.starts_with(place))
}

/// A worktree's folder names the file that names it; a submodule's the folder in which that file lies.
fn names_back(own: &Path, file: &Path, writable: &[PathBuf]) -> bool {
    // By this name, and no other that a link leads there.
    let is = |named: &Path, meant: &Path| settled(&plain(&own.join(named)), writable) == meant;
    let is_worktree = name_in(&own.join("gitdir"), b"").is_some_and(|named| is(&named, file));
    let is_submodule = || {
        let settings = ["config.worktree", "config"].map(|name| own.join(name));
        let named = settings.iter().find_map(|file| settings::path(file, "core.worktree"));
        named.is_some_and(|named| file.parent().is_some_and(|folder| is(&named, folder)))
    };
    is_worktree || is_submodule()
}

/// The path without `.` and `..`. (What git names from where it lies begins with a resolved one.)
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => {
                plain.push(component);
            }
        }
    }
    plain
}
