//! Where the repositories of a project lie: what is protected of them, and what git itself writes.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::Access;
use rustix::io::Errno;

use super::remotes::{self, Remotes};
use super::settings::{self, Settings};
use super::tables;
use super::{GitWork, Pushes};
use crate::disk::repository::{self, looks_like_one};
use crate::disk::{SMALL, is_not_there, may_be, read_small, settled};

/// How deep and how far repositories inside the project are looked for.
const DEPTH: usize = 3;
const MAX_FOLDERS: usize = 50_000;
const MAX_TIME: Duration = Duration::from_millis(500);
/// So many submodules of one repository are looked at, and so many folders for worktrees in one of it.
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
    /// Worktrees lie in the first of them, in what commands write.
    is_around: bool,
    /// What in the first of them is none of git's, as it was when git was to write it.
    pub(super) others: Vec<PathBuf>,
    /// What git runs by itself; it is written by no git command that a task needs.
    pub(super) hooks: Vec<PathBuf>,
    /// Its settings, some of which name programs.
    pub(super) settings: Vec<PathBuf>,
}

impl Repository {
    /// What git takes away with a worktree or a submodule: the file that names where it lies, and what a worktree has
    /// in its main repository. It could not if that was a mount.
    pub(super) fn removable(&self) -> impl Iterator<Item = PathBuf> {
        let trees = self.own.iter().skip(1).cloned();
        // (Its files git replaces.)
        let common = self.own.first().filter(|_| self.is_around);
        let files = common
            .into_iter()
            .flat_map(|common| repository::FILES.iter().map(|name| common.join(name)));
        self.named_by().cloned().into_iter().chain(trees).chain(files)
    }

    /// What git writes. Without namespaces nothing is where that would be what is none of git's as well: a part of it is
    /// not enough for git, which would leave things half done.
    pub(super) fn written(&self, namespaces: bool) -> Vec<PathBuf> {
        if self.is_around {
            self.parts(folders_of_git().filter(|name| *name != "hooks"))
        } else if namespaces || self.others.is_empty() {
            self.own.clone()
        } else {
            Vec::new()
        }
    }

    /// What nobody else writes.
    pub(super) fn kept(&self) -> Vec<PathBuf> {
        if self.is_around {
            self.parts(folders_of_git().chain(repository::FILES.iter().copied()))
        } else {
            self.own.clone()
        }
    }

    fn parts<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<PathBuf> {
        let Some((common, others)) = self.own.split_first() else { return Vec::new() };
        names.map(|name| common.join(name)).chain(others.iter().cloned()).collect()
    }

    /// Its folder, where one of these places lies in it.
    pub(super) fn lies_around(&self, places: &[PathBuf]) -> Option<&PathBuf> {
        let common = self.own.first().filter(|_| !self.is_around)?;
        is_any_below(common, places).then_some(common)
    }

    pub(super) fn is_at(&self, place: &Path) -> bool {
        self.place == place
    }

    /// They are one, or one of them is a worktree or submodule of the other: then what git is told by the settings of
    /// one lies in the other, where nobody else writes.
    fn is_of(&self, other: &Self) -> bool {
        let lies_in = |one: &Self, other: &Self| one.own.iter().any(|own| other.keeps(own));
        lies_in(self, other) || lies_in(other, self)
    }

    /// This is where it lies, or one of its worktrees or submodules does.
    fn keeps(&self, own: &Path) -> bool {
        self.own.iter().any(|folder| {
            let inner = ["worktrees", "modules"].map(|name| folder.join(name));
            own == folder || inner.iter().any(|inner| own.starts_with(inner))
        })
    }

    /// Its settings or hooks name something that git would run, or can not be read.
    fn may_run_something(&self) -> bool {
        let is_sample =
            |hook: &fs::DirEntry| hook.path().extension().is_some_and(|ending| ending == "sample");
        let has_hooks = |folder: &PathBuf| match fs::read_dir(folder) {
            Ok(mut hooks) => !hooks.all(|hook| hook.is_ok_and(|hook| is_sample(&hook))),
            Err(error) => !is_not_there(&error),
        };
        // (Of one that could not be found out nothing is known.)
        self.settings.is_empty()
            || self.settings.iter().any(|file| {
                // (Where a worktree's lie is known by now.)
                let is_known = self.link.is_some() && file.ends_with(settings::ELSEWHERE);
                !is_known && Settings::of(file).may_run_something()
            })
            || self.hooks.iter().any(has_hooks)
    }

    /// The repositories in what commands write that it may send to, from these folders: what lies there runs hooks of
    /// its own.
    fn receivers(&self, pushes: &Pushes, folders: &[PathBuf], places: &Places<'_>) -> Vec<Self> {
        let tree = self.place.parent().unwrap_or(&self.place).to_owned();
        let from: BTreeSet<&PathBuf> = folders.iter().chain(&self.own).chain([&tree]).collect();
        let known = self.remotes();
        let names = pushes.to.iter().chain(&pushes.remotes).map(|name| name.clone().into_bytes());
        let mut addresses: BTreeSet<Vec<u8>> = names.collect();
        // What is no remote's name is an address, though nothing is there yet.
        let is_name =
            |name: &&String| known.names.contains(name.as_bytes()) || pushes.remotes.contains(name);
        let is_new = pushes.to.iter().filter(|name| !is_name(name)).any(|name| {
            let way = remotes::on_disk(name.as_bytes());
            way.is_some_and(|way| {
                let mut ways =
                    from.iter().flat_map(|folder| remotes::repositories(&folder.join(&way)));
                let mut is_there = ways.clone().any(|way| may_be(&way, |_| true));
                is_there |= !ways.any(|way| is_inside(&plain(&way), places.writable));
                !is_there
            })
        });
        addresses.extend(known.addresses);
        let ways =
            addresses.iter().filter_map(|address| remotes::on_disk(address)).flat_map(|way| {
                let ways = from.iter().map(|folder| folder.join(&way));
                ways.flat_map(|way| remotes::repositories(&way)).collect::<Vec<_>>()
            });
        let is_unknown = is_new || addresses.iter().any(|address| remotes::is_of_a_user(address));
        let unknown = is_unknown.then(Self::default);
        ways.filter_map(|way| self.receiver(&way, places)).chain(unknown).collect()
    }

    /// What its settings say of remotes, and those of its modules (`--recurse-submodules`).
    fn remotes(&self) -> Remotes {
        let mut files = self.settings.clone();
        let mut remotes = Remotes::default();
        for own in &self.own {
            let mut inner = Inner::default();
            inner.look_into(own);
            files.extend(inner.settings);
            remotes.of_old(own);
        }
        for file in files {
            remotes.addresses.extend(settings::remotes(&file));
            remotes.names.extend(settings::named_remotes(&file));
        }
        remotes
    }

    /// The repository here, if commands write it and it is another one; one of which nothing is known, if it is theirs
    /// alone.
    fn receiver(&self, way: &Path, places: &Places<'_>) -> Option<Self> {
        let real = way.canonicalize().ok();
        if real.iter().chain([&plain(way)]).any(|path| places.is_own(path)) {
            return Some(Self::default());
        }
        let mut own = real?;
        if own.is_file() {
            let elsewhere = name_in(&own, b"gitdir: ")?;
            if places.is_own(&plain(&elsewhere)) {
                return Some(Self::default());
            }
            own = elsewhere.canonicalize().ok()?;
        }
        let is_there = is_inside(&own, places.writable) && !self.own.contains(&own);
        let (hooks, settings) = (vec![own.join("hooks")], settings_in(&own).into());
        is_there.then(|| Self { hooks, settings, ..Self::default() })
    }

    /// The file that names where it lies.
    fn named_by(&self) -> Option<&PathBuf> {
        let is_meant = !self.own.is_empty();
        self.link.as_ref().filter(|link| is_meant && link.is_file() && !link.is_symlink())
    }

    /// As git may write it now: with the hooks and settings that its worktrees and submodules have in it, whether they
    /// are checked out or not, and with what in it is none of git's. Where that can not be looked at, nobody writes it.
    pub(super) fn granted(mut self) -> Option<Self> {
        if let Some(common) = self.own.first().filter(|_| !self.is_around) {
            self.others = others(common).ok()?;
        }
        let mut inner = Inner::default();
        for own in &self.own {
            inner.look_into(own);
        }
        self.settings.extend(inner.settings);
        self.hooks.extend(inner.hooks);
        let tree = self.place.parent().unwrap_or(&self.place).to_owned();
        let is_own = |path: &PathBuf| is_inside(path, &self.own);
        let included = self.settings.iter().flat_map(|file| settings::included(file));
        let included: Vec<PathBuf> = included.map(|path| plain(&path)).filter(is_own).collect();
        // Hooks may lie elsewhere in it.
        let hooks = self.settings.iter().chain(&included);
        let hooks = hooks.filter_map(|file| settings::path(file, "core.hookspath"));
        let hooks: Vec<PathBuf> =
            hooks.map(|path| plain(&tree.join(path))).filter(is_own).collect();
        self.hooks.extend(hooks);
        self.settings.extend(self.named_by().cloned());
        self.settings.extend(included);
        Some(self)
    }
}

/// What git keeps directly in a repository, in folders.
fn folders_of_git() -> impl Iterator<Item = &'static str> + Clone {
    repository::FOLDERS.iter().chain(repository::FOLDERS_WITH_TREES).copied()
}

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
            if is_module && folders_of_git().any(|own| name == own) {
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
        if metadata.is_dir() && !looks_like_one(&own) {
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
        return Some(Repository { place, link, own, hooks, settings, ..Repository::default() });
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
    let is_worktree = |common: &Path, own: &Path| own.parent() == Some(&common.join("worktrees"));
    let is_meant = match &folders[..] {
        [common, own] => {
            is_worktree(common, own)
                && (is_inside(common, writable) || !is_inside(own, writable))
                && names_back(own, path, writable)
        }
        folders => folders.iter().all(|own| names_back(own, path, writable)),
    };
    // Outside, what says so may have been written by somebody else.
    let is_worked_in = path.parent().is_some_and(|tree| is_any_below(tree, writable));
    let is_gits_own =
        |common: &PathBuf| is_inside(common, writable) || is_believed(common, is_worked_in);
    let is_meant = is_meant && folders.first().is_some_and(is_gits_own);
    // (A bare repository may lie around its worktrees, of which the project may be one.)
    let lies_around = |own: &PathBuf| path.starts_with(own) || is_any_below(own, writable);
    let is_around =
        folders.first().is_some_and(|common| is_inside(common, writable) && lies_around(common));
    if folders.iter().any(|own| is_inside(own, writable) && lies_around(own)) {
        // In what commands write it opens nothing that is not open, and what is git's own is kept from the rest.
        folders.truncate(1);
        folders.retain(|own| is_inside(own, writable) && looks_like_one(own));
    } else if is_link || !is_meant {
        // In the project it is at least what git writes (`gitdir: ./.bare`), and no command else. (A worktree's folder
        // has settings of its own: one that lies elsewhere is somebody's.)
        let is_whole = match &folders[..] {
            [common, own] => is_worktree(common, own),
            _ => true,
        };
        folders.retain(|own| is_whole && lies_in(own, writable) && looks_like_one(own));
    }
    let link = Some(place.clone());
    Some(Repository {
        place,
        link,
        own: folders,
        is_around,
        hooks,
        settings,
        ..Repository::default()
    })
}

/// What git finds from a folder on.
enum Nearest {
    /// No repository: it may make one here.
    Nothing,
    /// One that is known and protected, or a worktree or submodule of one.
    Known(Repository),
    /// Another one, which a command may have made.
    Other(Repository),
}

/// Where commands write.
pub(super) struct Places<'a> {
    /// What they may: the project, and what was added.
    pub(super) writable: &'a [PathBuf],
    /// What is theirs alone, or is not outside what it is for them: nothing is known of what lies there.
    pub(super) own: &'a [PathBuf],
}

impl Places<'_> {
    fn is_own(&self, path: &Path) -> bool {
        is_inside(path, self.own) && !is_inside(path, self.writable)
    }
}

/// Where git may write.
#[derive(Debug, Default)]
pub(in crate::exec) struct WorkedIn {
    /// The places (`.git`) of the repositories.
    pub(in crate::exec) places: Vec<PathBuf>,
    /// It works in one without a working tree.
    pub(in crate::exec) has_bare: bool,
}

/// The places of the repositories that git writes which works so: of those that it works in, with their worktrees and
/// submodules. It runs what the settings of a repository say, and a command can have made one: where it works in several
/// that have nothing to do with each other, none may name anything to run but the one that is written.
pub(super) fn worked_in(
    work: &GitWork,
    repositories: &[Repository],
    places: &Places<'_>,
) -> WorkedIn {
    // (What is not there git can not work in, unless the line makes it.)
    let there = |folder: &PathBuf| match plain(folder) {
        own if places.is_own(&own) => Some(own),
        _ => folder.canonicalize().ok(),
    };
    let met = |folders: &[PathBuf]| -> Vec<(PathBuf, Nearest)> {
        let there = folders.iter().filter_map(there);
        let met = |folder: PathBuf| (folder.clone(), nearest(&folder, repositories, places));
        there.map(met).collect()
    };
    let has_no_link =
        |folder: &PathBuf| folder.canonicalize().is_ok_and(|real| real == plain(folder));
    let is_lost = |(from, to): &(Option<PathBuf>, PathBuf)| {
        there(to).is_none() && !from.as_ref().is_some_and(has_no_link)
    };
    if work.back.iter().any(is_lost) {
        return WorkedIn::default();
    }
    let mut has_bare = false;
    let (mut may_make, mut written, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for (folder, nearest) in met(&work.writes_in) {
        match nearest {
            Nearest::Nothing => may_make.push(folder.join(".git")),
            Nearest::Known(repository) => {
                has_bare |= repository.own.iter().any(|own| folder.starts_with(own));
                written.push(repository);
            }
            Nearest::Other(repository) => others.push(repository),
        }
    }
    let are_one = |one: &Repository, other: &Repository| {
        one.is_of(other) || repositories.iter().any(|whole| one.is_of(whole) && other.is_of(whole))
    };
    let is_written = |one: &Repository| written.iter().any(|written| are_one(one, written));
    for (_, nearest) in met(&work.reads_in) {
        match nearest {
            // (What it runs then its settings name; no hooks.)
            Nearest::Known(read) | Nearest::Other(read) if !is_written(&read) => {
                others.push(Repository { hooks: Vec::new(), ..read });
            }
            Nearest::Known(_) | Nearest::Other(_) | Nearest::Nothing => {}
        }
    }
    if let Some(pushes) = &work.pushes {
        let receivers = |from: &Repository| from.receivers(pushes, &work.writes_in, places);
        others.extend(written.iter().flat_map(receivers));
    }
    let is_one = written.iter().all(|one| written.iter().all(|other| are_one(one, other)));
    let suspects = if is_one { Vec::new() } else { written.iter().collect() };
    if others.iter().chain(suspects).any(Repository::may_run_something) {
        return WorkedIn::default();
    }
    let own = repositories.iter().filter(|one| is_written(one));
    let places = own.map(|repository| repository.place.clone()).chain(may_make).collect();
    WorkedIn { places, has_bare }
}

fn nearest(folder: &Path, repositories: &[Repository], places: &Places<'_>) -> Nearest {
    if places.is_own(folder) {
        return Nearest::Other(Repository::default());
    }
    // (Not one that lies around a known one: that says of itself where it lies.)
    let is_own = |it: &Repository| {
        let keeps = |known: &Repository| it.own.iter().all(|own| known.keeps(own));
        !it.own.is_empty() && repositories.iter().any(keeps)
    };
    for above in folder.ancestors() {
        let place = above.join(".git");
        if may_be(&place, |_| true) {
            // (Past one that has lost its `HEAD` git looks for another one.)
            if place.is_dir() && !repository::has_head(&place) {
                return Nearest::Other(Repository::default());
            }
            if let Some(known) = repositories.iter().find(|known| known.place == place) {
                return Nearest::Known(known.clone());
            }
            let found = at(&place, places.writable).unwrap_or_default();
            return if is_own(&found) { Nearest::Known(found) } else { Nearest::Other(found) };
        }
        if repository::has_head(above) {
            // One without a working tree, or what passes for one: git asks no more of the rest than that it is there.
            let known = repositories.iter().find(|known| known.own.iter().any(|own| own == above));
            let other = || {
                let (hooks, settings) = (vec![above.join("hooks")], settings_in(above).into());
                Repository { hooks, settings, ..Repository::default() }
            };
            return known.cloned().map_or_else(|| Nearest::Other(other()), Nearest::Known);
        }
    }
    Nearest::Nothing
}

/// A repository that nobody but git has made: a `.git` or something in one. One without a working tree can have come with
/// a clone, or have been made by the commands of another project: it is believed only where the user works in it.
fn is_believed(folder: &Path, is_worked_in: bool) -> bool {
    let is_a_tree = || may_be(&folder.join(".git"), |_| true);
    looks_like_one(folder) && (is_named_git(folder) || is_worked_in && !is_a_tree())
}

/// A `.git`, or something in one.
fn is_named_git(folder: &Path) -> bool {
    folder.components().any(|part| part.as_os_str() == ".git")
}

/// What lies directly in a repository and is none of git's. What programs keep in a `.git` is as good as git's, but for
/// worktrees.
fn others(common: &Path) -> io::Result<Vec<PathBuf>> {
    let mut others = Vec::new();
    for entry in fs::read_dir(common)? {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type()?);
        let name = name.to_string_lossy();
        let is = |lists: &[&[&str]]| repository::is_one_of(&name, lists);
        let is_gits = if kind.is_dir() {
            let may_hold = [repository::FOLDERS_WITH_TREES, repository::FOLDERS_AT_TIMES];
            let is_known = is_named_git(common) || is(&may_hold);
            is(&[repository::FOLDERS]) || is_known && !holds_worktree(&entry.path())
        } else {
            // (A link can not be covered.)
            kind.is_symlink() || is_named_git(common) || repository::is_file(&name)
        };
        if !is_gits {
            others.push(entry.path());
        }
    }
    Ok(others)
}

/// Somebody works in it, or in a folder in it, the nearest ones first.
fn holds_worktree(folder: &Path) -> bool {
    let mut next = VecDeque::from([folder.to_owned()]);
    for _ in 0..MAX_MODULES {
        let Some(folder) = next.pop_front() else { break };
        if may_be(&folder.join(".git"), |_| true) {
            return true;
        }
        // (What can not be looked into is git's. Modules and LFS have many folders for objects.)
        let inner = folders(&folder).into_iter().flatten();
        next.extend(inner.filter(|inner| !inner.ends_with("objects")));
    }
    false
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

fn lies_in(path: &Path, places: &[PathBuf]) -> bool {
    is_inside(path, places) && !places.iter().any(|place| path == place)
}

/// One of these places, or in it.
fn is_inside(path: &Path, places: &[PathBuf]) -> bool {
    places.iter().any(|place| path.starts_with(place))
}

/// One of these places is this folder, or lies in it.
fn is_any_below(folder: &Path, places: &[PathBuf]) -> bool {
    places.iter().any(|place| place.starts_with(folder))
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
