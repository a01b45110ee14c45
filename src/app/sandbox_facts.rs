//! The inputs of the sandbox profile: the configuration, and the locations of the state of git and the agent.
//! Collected once, at the start of a session.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::OpenError;
use super::memory::memory_file;
use crate::config::{Config, LoadedConfig, UserDirs};
use agent_host::exec::sandbox::{self, FileOwners, GitPaths, SandboxFacts};
use agent_host::git_guard::{GitGuard, GuardPlaces, configured_work_tree};
use agent_host::workspace::{GuardedPaths, Workspace};
use agent_permission::Rule;
use agent_protocol::disk::{self, canonical_prefix, repository};
use agent_protocol::tool::CHANGE_TOOLS;

/// Limits: submodules and worktrees that are searched, and components of a submodule's name.
const MAX_GIT_DIRECTORIES: usize = 1000;
const MAX_LEVELS: usize = 4;

/// The directories that the user opened to commands: the project, `--add-dir`, `sandbox.extra_writable`.
#[derive(Clone, Debug)]
pub struct WritableDirs {
    /// Canonical, the project first.
    places: Vec<PathBuf>,
}

impl WritableDirs {
    /// Fails if one of them does not exist.
    pub fn from_workspace(config: &Config, workspace: &Workspace) -> Result<Self, OpenError> {
        let mut places = workspace.roots();
        for (folder, path) in extra_writable(config, workspace.root()) {
            let wrong =
                |why: &str| OpenError::Usage(format!("sandbox.extra_writable: {folder:?} {why}"));
            let path = path.ok_or_else(|| wrong("needs a home directory"))?;
            let real = path.canonicalize().ok().filter(|real| real.is_dir());
            places.push(real.ok_or_else(|| wrong("is not a directory; create it, or name one"))?);
        }
        Ok(Self { places })
    }

    /// The directories before a workspace exists. Those that do not exist are left out.
    pub fn from_config(config: &Config, root: &Path, added: &[PathBuf]) -> Self {
        let named = extra_writable(config, root).filter_map(|(_, path)| path);
        let named = added.iter().cloned().chain(named);
        let real = named.filter_map(|path| path.canonicalize().ok());
        Self { places: std::iter::once(root.to_owned()).chain(real).collect() }
    }

    pub fn root(&self) -> &Path {
        &self.places[0]
    }

    pub fn places(&self) -> &[PathBuf] {
        &self.places
    }
}

/// The directories as configured, each with its path: `None` without a home.
fn extra_writable<'a>(
    config: &'a Config,
    root: &Path,
) -> impl Iterator<Item = (&'a str, Option<PathBuf>)> {
    let (enabled, home) = (config.sandbox.enabled, std::env::home_dir());
    let named = config.sandbox.extra_writable.iter().filter(move |_| enabled);
    named.map(move |folder| match folder.strip_prefix("~/") {
        Some(below) => (folder.as_str(), home.as_ref().map(|home| home.join(below))),
        None => (folder.as_str(), Some(root.join(folder))),
    })
}

#[derive(Clone, Debug, Default)]
pub struct StateDirs {
    dirs: Option<UserDirs>,
    /// According to the environment and to the system.
    homes: Vec<PathBuf>,
    /// `dirs`, and the default ones, which a session with other variables uses.
    all_dirs: Vec<UserDirs>,
    /// The place of the state if there is no home, and that of sockets.
    other_dirs: Vec<PathBuf>,
}

impl StateDirs {
    pub fn new(dirs: Option<&UserDirs>) -> Self {
        let homes = sandbox::home_directories();
        let by_default = homes.iter().map(|home| UserDirs::below_home(home));
        let others = by_default.filter(|other| dirs != Some(other));
        let all_dirs = dirs.cloned().into_iter().chain(others).collect();
        let temporary = super::storage::temporary_place();
        let other_dirs = super::running::runtime_sockets().into_iter().chain([temporary]).collect();
        Self { dirs: dirs.cloned(), homes, all_dirs, other_dirs }
    }

    pub fn find() -> Self {
        Self::new(UserDirs::find().as_ref())
    }

    pub fn dirs(&self) -> Option<&UserDirs> {
        self.dirs.as_ref()
    }

    /// Paths that file tools must not use: credentials, the agent's files, and files that are executed at the
    /// next login.
    pub(super) fn guarded_paths(&self) -> GuardedPaths {
        let closed: Vec<PathBuf> =
            self.secret_stores().chain(self.state_folders().cloned()).collect();
        GuardedPaths::new(
            &closed,
            &in_homes(&self.homes, sandbox::STARTUP_FILES).collect::<Vec<_>>(),
        )
    }

    pub(super) fn closed_reason(&self, directory: &Path) -> Option<&'static str> {
        let is_above = |path: &PathBuf| path.starts_with(directory);
        if directory.parent().is_none() || self.homes.iter().any(is_above) {
            return Some("it contains a home directory; add the directory in it that you need");
        }
        if self.secret_stores().any(|store| directory.starts_with(canonical_prefix(&store))) {
            return Some("credentials are kept there, and every call is refused there");
        }
        let mut own = self.state_folders().map(|path| canonical_prefix(path));
        let is_own = own.any(|own| directory.starts_with(&own) || is_above(&own));
        is_own.then_some("the agent keeps its configuration or state there")
    }

    fn state_folders(&self) -> impl Iterator<Item = &PathBuf> {
        let own = self.all_dirs.iter().flat_map(|dirs| [&dirs.config, &dirs.data, &dirs.state]);
        own.chain(&self.other_dirs)
    }

    fn secret_stores(&self) -> impl Iterator<Item = PathBuf> {
        in_homes(&self.homes, sandbox::SECRET_STORES)
    }
}

fn in_homes(homes: &[PathBuf], names: &'static [&'static str]) -> impl Iterator<Item = PathBuf> {
    homes.iter().flat_map(move |home| names.iter().map(move |name| home.join(name)))
}

pub(super) fn sandbox_facts(
    loaded: &LoadedConfig,
    writable: &WritableDirs,
    own: &StateDirs,
) -> SandboxFacts {
    let config = &loaded.config;
    let (root, places) = (writable.root(), writable.places());
    let temporary = sandbox::temporary_directory(places);
    let name = blake3::hash(root.as_os_str().as_encoded_bytes()).to_hex();
    let cache =
        own.dirs().map(|dirs| canonical_prefix(&dirs.cache).join("projects").join(&name[..16]));
    let memory =
        memory_file(config, own.dirs()).ok().filter(|_| config.learning.database.is_some());
    let memory = memory.into_iter().flat_map(|file| {
        ["", "-wal", "-shm"].map(|ending| {
            let mut name = file.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        })
    });
    let owners = FileOwners::of_entries(places);
    // Permissions do not protect these from commands with root's rights over files of others.
    let homes = (!owners.users.is_empty()).then(sandbox::all_home_directories).unwrap_or_default();
    let others = in_homes(&homes, sandbox::SECRET_STORES).filter(|path| path.exists());
    let secrets = own.secret_stores().chain(memory).chain(others);
    let mut denied_writes = denied_paths(loaded, root, CHANGE_TOOLS);
    denied_writes.extend(in_homes(&homes, sandbox::STARTUP_FILES));
    let mut resolver = disk::LinkResolver::default();
    SandboxFacts {
        root: root.to_owned(),
        added: places[1..].to_vec(),
        cache: cache.unwrap_or_else(|| temporary.with_file_name("cache")),
        temporary,
        homes: own.homes.clone(),
        git: git_paths(places),
        secrets: secrets.map(|path| resolver.resolve(&path)).collect(),
        own: own.state_folders().map(|path| canonical_prefix(path)).collect(),
        denied_reads: denied_paths(loaded, root, &["Read"]),
        denied_writes,
        network: config.sandbox.network,
        host_ports: config.sandbox.host_ports.clone(),
        max_processes: config.sandbox.max_processes,
        owners,
    }
}

/// Paths that rules deny to these tools. Rules with globs apply to the file tools only.
fn denied_paths(loaded: &LoadedConfig, root: &Path, tools: &[&str]) -> Vec<PathBuf> {
    let rules = loaded.rules.iter().filter(|(list, ..)| list == "deny");
    let rules = rules.flat_map(|(_, text, _)| Rule::parse_all(text).unwrap_or_default());
    let paths = rules.filter(|rule| tools.contains(&rule.tool())).filter_map(|rule| {
        let pattern = rule.text().strip_prefix(rule.tool())?.strip_prefix('(')?;
        let pattern = pattern.strip_suffix(')')?.trim();
        let is_literal = !pattern.is_empty() && !pattern.contains(['*', '?', '[', '{']);
        let path = match pattern.strip_prefix("~/") {
            Some(below) => std::env::home_dir()?.join(below),
            None => root.join(pattern),
        };
        is_literal.then(|| canonical_prefix(&path))
    });
    paths.collect()
}

/// A guard of the project's repositories where no command runs.
pub(super) fn git_guard(workspace: &Workspace) -> GitGuard {
    let roots = workspace.roots();
    let git_directories = git_paths(&roots).directories;
    let writable = roots.iter().chain(&git_directories).cloned().collect();
    let places = GuardPlaces { roots, git_directories, writable, user_settings: Vec::new() };
    let guard = GitGuard::new(places, Arc::new(|_, _| None));
    if let Some(checkpoints) = workspace.checkpoints().map(Arc::clone) {
        guard.set_scan(Box::new(move || checkpoints.find_repositories()));
    }
    guard
}

/// Only the `gitdir:` line of a `.git` file is parsed.
fn git_paths(places: &[PathBuf]) -> GitPaths {
    let mut paths = GitPaths::default();
    for place in places {
        let git = place.join(".git");
        match git.symlink_metadata() {
            Ok(metadata) if metadata.is_dir() => paths.directories.push(git),
            Ok(metadata) if metadata.is_file() => {
                paths.directories.extend(worktree_directories(&git).into_iter().flatten());
                paths.links.push(git);
            }
            _ => {
                if let Some((work_tree, directories)) = repository_around(place) {
                    paths.work_trees.push(work_tree);
                    paths.directories.extend(directories);
                }
            }
        }
    }
    paths.directories.sort();
    paths.directories.dedup();
    for directory in &paths.directories {
        add_git_settings(directory, &mut paths.settings);
    }
    paths
}

/// The git directory that a `.git` file names, and its common directory. One outside has to refer back, as
/// that of a linked worktree does.
fn worktree_directories(link: &Path) -> Option<Vec<PathBuf>> {
    let text = disk::read_small(link, disk::SMALL_FILE_LIMIT).ok()?;
    let directory = repository::linked_directory(link, &text)?;
    let directory = directory.canonicalize().ok().filter(|path| is_git_directory(path))?;
    if directory.starts_with(link.parent()?) {
        return Some(vec![directory]);
    }
    let Ok(back) = disk::read_small_text(&directory.join("gitdir")) else {
        let refers_back = configured_work_tree(&directory).as_deref() == link.parent();
        return refers_back.then(|| vec![directory]);
    };
    if directory.join(back.trim()).canonicalize().ok()? != link.canonicalize().ok()? {
        return None;
    }
    let common = disk::read_small_text(&directory.join("commondir")).ok()?;
    let common = directory.join(common.trim()).canonicalize().ok()?;
    is_git_directory(&common).then(|| vec![directory, common])
}

fn repository_around(place: &Path) -> Option<(PathBuf, Vec<PathBuf>)> {
    let mut around = place.ancestors().skip(1);
    let top = around.find(|folder| folder.join(".git").symlink_metadata().is_ok())?;
    let (git, user) = (top.join(".git"), rustix::process::geteuid().as_raw());
    let metadata = git.symlink_metadata().ok().filter(|it| it.uid() == user)?;
    if metadata.is_file() {
        return Some((top.to_owned(), worktree_directories(&git)?));
    }
    (metadata.is_dir() && is_git_directory(&git)).then(|| (top.to_owned(), vec![git]))
}

fn is_git_directory(path: &Path) -> bool {
    path.join("HEAD").symlink_metadata().is_ok()
}

/// Adds the settings of a git directory, of its submodules and worktrees.
fn add_git_settings(git: &Path, settings: &mut Vec<PathBuf>) {
    let mut found = vec![git.to_owned()];
    find_git_directories(&git.join("modules"), 0, &mut found);
    for directory in found.clone() {
        let worktrees = fs::read_dir(directory.join("worktrees")).into_iter().flatten().flatten();
        found.extend(worktrees.map(|entry| entry.path()).take(MAX_GIT_DIRECTORIES));
    }
    for directory in found {
        let names = ["hooks", "config", "config.worktree"].map(|name| directory.join(name));
        settings.extend(names.into_iter().filter(|path| path.symlink_metadata().is_ok()));
    }
}

fn find_git_directories(folder: &Path, level: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if found.len() >= MAX_GIT_DIRECTORIES || !entry.file_type().is_ok_and(|it| it.is_dir()) {
            continue;
        }
        if is_git_directory(&path) {
            find_git_directories(&path.join("modules"), level, found);
            found.push(path);
        } else if level < MAX_LEVELS {
            find_git_directories(&path, level + 1, found);
        }
    }
}
