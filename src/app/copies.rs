//! Copies of a project in which sessions work, below the cache directory: git worktrees, and independent copies.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::checkpoints::checkpoint_settings;
use super::{HostPrograms, OpenError, Storage, find_failing_check, revert_unfinished};
use crate::config::{AGENT_DIR, LoadedConfig, UserDirs};
use agent_host::exec::git::Git;
use agent_host::workspace::{
    FileHistory, copy_directory, copy_paths, is_below_link, shares_content,
};
use agent_protocol::disk;

const MAX_NAME: usize = 60;
/// Extension of the file that a process locks while it uses copies.
const LOCK: &str = "lock";

/// What is needed to copy a project.
#[derive(Clone)]
pub struct ProjectCopies {
    project: PathBuf,
    /// Of the working tree around the project; `None` outside of a repository.
    top: Option<PathBuf>,
    /// The directory of all copies of the project.
    pub place: PathBuf,
    git: Git,
    loaded: Arc<LoadedConfig>,
    dirs: UserDirs,
    /// Whether new copies get what git ignores, if that takes no space.
    pub has_ignored_files: bool,
}

/// A copy of a project.
#[derive(Debug)]
pub struct WorkCopy {
    /// The project in the copy: the repository may begin above.
    pub root: PathBuf,
    directory: PathBuf,
    /// The branch of a worktree, and its commit at the beginning; `None` in an independent copy.
    branch: Option<(String, String)>,
    is_new: bool,
    is_new_branch: bool,
}

impl ProjectCopies {
    /// Fails if there is no place for copies outside the project.
    pub fn of(
        project: &Path,
        loaded: &LoadedConfig,
        dirs: Option<&UserDirs>,
    ) -> Result<Self, OpenError> {
        let no_cache = || usage("copies of a project need a cache directory: set XDG_CACHE_HOME");
        let dirs = dirs.cloned().ok_or_else(no_cache)?;
        let git = HostPrograms::from_config(&loaded.config, project, &[]).git();
        let top = git.work_tree(project).filter(|top| project.starts_with(top));
        let place = disk::canonical_prefix(&dirs.cache).join("worktrees");
        let storage = Storage::find(project, Some(&dirs));
        let place = place.join(storage.name());
        if place.starts_with(top.as_deref().unwrap_or(project)) {
            return Err(usage(format!(
                "the project contains {}, the place of its copies; set XDG_CACHE_HOME to a directory outside",
                dirs.cache.display()
            )));
        }
        // What a killed process left in the project is not copied.
        for (_, notice) in revert_unfinished(project, &storage, &loaded.config) {
            agent_ui::print_notice(&notice);
        }
        let (project, loaded) = (project.to_owned(), Arc::new(loaded.clone()));
        Ok(Self { project, top, place, git, loaded, dirs, has_ignored_files: true })
    }

    /// A worktree on the branch `agent/NAME`, a new or an existing one; where git has no commit to begin with, an
    /// independent copy. `with_changes`: with the files as they are, not as committed.
    pub async fn open_worktree(
        &self,
        name: Option<&str>,
        with_changes: bool,
        cancel: &CancellationToken,
    ) -> Result<WorkCopy, OpenError> {
        let name = name.map_or_else(|| Ok(new_name("work")), check_name)?;
        let head = self.top.as_ref().and_then(|top| self.git.commit_id(top, "HEAD").ok()?);
        let (Some(top), Some(head)) = (&self.top, head) else {
            agent_ui::print_notice(
                "there is no commit of git to begin with: the session works in an independent copy",
            );
            return self.prepare(self.copy_files(name).await, cancel).await;
        };
        let branch = format!("agent/{name}");
        let mut copy = self.copy_named(&name);
        copy.is_new = !copy.directory.exists();
        copy.branch = Some((branch.clone(), head));
        let existing = self.git.commit_id(top, &format!("refs/heads/{branch}"));
        copy.is_new_branch = existing.is_ok_and(|existing| existing.is_none());
        if !copy.is_new {
            let is_worktree = self.git.work_tree(&copy.directory).as_ref() == Some(&copy.directory);
            if with_changes || !is_worktree {
                let shown = copy.directory.display();
                return Err(usage(format!("{shown} exists already; choose another name")));
            }
            return Ok(copy);
        }
        let (top, to, is_new_branch) = (top.clone(), copy.directory.clone(), copy.is_new_branch);
        let made = self.run_blocking(move |copies| {
            let is_trusted = copies.loaded.is_trusted;
            copies.git.add_worktree(&top, &to, (&branch, is_new_branch), is_trusted)?;
            if with_changes { copies.copy_changes(&top, &to) } else { Ok(()) }
        });
        let made = made.await;
        self.prepare((copy, made), cancel).await
    }

    /// Copies in a thread, so that signals are seen meanwhile.
    async fn run_blocking(
        &self,
        copy: impl FnOnce(&Self) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let copies = self.clone();
        let work = move || copies.make_place().and_then(|()| copy(&copies));
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
    }

    /// A copy that shares nothing with the project that can be changed, with the files as they are but for ignored
    /// ones; outside of a repository everything is copied. It has to be prepared.
    pub async fn copy_files(&self, name: String) -> (WorkCopy, io::Result<()>) {
        let copy = self.copy_named(&name);
        let to = copy.directory.clone();
        let made = self.run_blocking(move |copies| {
            let Some(top) = &copies.top else { return copy_directory(&copies.project, &to) };
            copies.git.clone_shared(top, &to)?;
            let index = copies.git.git_path(top, "index")?;
            copy_paths(index.parent().unwrap_or(top), &to.join(".git"), &["index".into()])?;
            copy_paths(top, &to, &copies.git.project_files(top)?)
        });
        (copy, made.await)
    }

    /// Copies what `[worktree]` names, where the file system shares the contents also all that git ignores, and runs its
    /// command. A copy that cannot be completed is removed.
    pub async fn prepare(
        &self,
        (copy, made): (WorkCopy, io::Result<()>),
        cancel: &CancellationToken,
    ) -> Result<WorkCopy, OpenError> {
        let (root, cancelled) = (copy.root.clone(), cancel.clone());
        let made = match made {
            Ok(()) => self.run_blocking(move |copies| copies.copy_needs(&root, &cancelled)).await,
            failed => failed,
        };
        let why = match (made, &self.loaded.config.worktree.setup) {
            (Err(error), _) => format!("the copy of the project: {error}"),
            (Ok(()), None) => return Ok(copy),
            (Ok(()), Some(setup)) => {
                let of = (&*self.loaded, Some(&self.dirs));
                let commands = std::slice::from_ref(setup);
                match find_failing_check(of, &copy.root, commands, cancel).await {
                    Ok(None) => return Ok(copy),
                    Ok(Some(why)) => format!("worktree.setup: {why}"),
                    Err(error) => error.to_string(),
                }
            }
        };
        self.remove(&copy);
        Err(usage(why))
    }

    /// Copies what `[worktree]` names, and, where the file system shares the contents, what git ignores in the project.
    fn copy_needs(&self, root: &Path, cancel: &CancellationToken) -> io::Result<()> {
        let named = self.loaded.config.worktree.copy.iter().map(PathBuf::from);
        let is_inside =
            |path: &PathBuf| path.components().all(|part| matches!(part, Component::Normal(_)));
        // What git knows is there.
        let is_missing = |path: &PathBuf| root.join(path).symlink_metadata().is_err();
        let named = named.chain([PathBuf::from(AGENT_DIR)]);
        let named: Vec<PathBuf> =
            named.filter(|path| is_inside(path) && is_missing(path)).collect();
        copy_paths(&self.project, root, &named)?;
        let is_shared = |head: PathBuf| shares_content(&head, &self.place);
        let has_git = self.has_ignored_files && self.top.is_some();
        if has_git && self.git.git_path(&self.project, "HEAD").is_ok_and(is_shared) {
            let device = |path: &Path| path.symlink_metadata().map(|it| it.dev()).ok();
            let own = device(&self.project);
            // Another file system may be mounted there.
            let is_cheap =
                |path: &PathBuf| is_missing(path) && device(&self.project.join(path)) == own;
            let ignored = self.git.ignored_paths(&self.project)?;
            for path in ignored.into_iter().filter(is_cheap) {
                let copied = copy_paths(&self.project, root, std::slice::from_ref(&path));
                // Nobody asked for it: what cannot be read is left out.
                if copied.is_err() {
                    _ = disk::remove_folder(&root.join(path));
                }
                if cancel.is_cancelled() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// A new session with the conversation of another one up to this turn (`None`: all of it), in a copy with the files
    /// as they were then. Says which paths could not be restored.
    pub fn fork_session(
        &self,
        storage: &Storage,
        id: &str,
        turn: Option<u32>,
        name: &str,
    ) -> Result<(String, WorkCopy), OpenError> {
        let root = storage.work_copy(id).unwrap_or_else(|| self.project.clone());
        let roots = std::slice::from_ref(&root);
        let settings = checkpoint_settings(&self.loaded.config, roots, storage, id)?;
        let history = FileHistory::read(&root, settings);
        if !history.has_first_manifest() {
            return Err(usage(format!(
                "session {id}: the files of its beginning are not recorded, because checkpoints were disabled, the project is too large, \
                 or the session moved to another directory; without --worktree the conversation alone is copied"
            )));
        }
        // Fails if there is no such turn.
        let new = storage.fork_conversation(id, turn)?;
        let directory = self.place.join(name);
        let made = self
            .make_place()
            .and_then(|()| disk::create_folder(&directory, 0o700))
            .and_then(|()| history.create_scratch_copy(&directory, turn.unwrap_or(u32::MAX)))
            .and_then(|missing| storage.set_work_copy(&new, &directory).map(|()| missing));
        let copy = WorkCopy { root: directory, ..self.copy_named(name) };
        match made {
            Ok(missing) => {
                for (path, why) in missing {
                    agent_ui::print_notice(&format!("{path} is not as it was then: {why}"));
                }
                Ok((new, copy))
            }
            Err(error) => {
                self.remove(&copy);
                _ = storage.delete(&new);
                Err(usage(format!("the copy of the project: {error}")))
            }
        }
    }

    fn copy_named(&self, name: &str) -> WorkCopy {
        let directory = self.place.join(name);
        let below = self.top.as_ref().and_then(|top| self.project.strip_prefix(top).ok());
        let below = below.into_iter().flat_map(Path::components);
        let root = directory.components().chain(below).collect();
        WorkCopy { root, directory, branch: None, is_new: true, is_new_branch: false }
    }

    /// Keeps the copies whose names begin with this while the file is open. Removes those of processes that have ended which
    /// no session uses.
    pub fn reserve(&self, prefix: &str, storage: &Storage) -> io::Result<File> {
        self.make_place()?;
        let ids = storage.session_ids();
        let used: Vec<PathBuf> = ids.iter().filter_map(|id| storage.work_copy(id)).collect();
        let names = || std::fs::read_dir(&self.place).into_iter().flatten().flatten();
        for reserved in names().map(|entry| entry.path()) {
            let is_ended = |file: File| file.try_lock().is_ok();
            let is_lock = reserved.extension().is_some_and(|end| end == LOCK);
            if !is_lock || !File::open(&reserved).is_ok_and(is_ended) {
                continue;
            }
            let begin = format!("{}-", reserved.file_stem().unwrap_or_default().to_string_lossy());
            let is_of_it = |copy: &PathBuf| {
                copy.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&begin))
            };
            let is_used = |copy: &PathBuf| used.iter().any(|root| root.starts_with(copy));
            let copies = names().map(|entry| entry.path()).filter(is_of_it);
            let (kept, unused): (Vec<PathBuf>, Vec<PathBuf>) = copies.partition(is_used);
            for copy in unused {
                _ = disk::remove_folder(&copy);
            }
            if kept.is_empty() {
                _ = std::fs::remove_file(reserved);
            }
        }
        let file = File::create(self.place.join(prefix).with_extension(LOCK))?;
        file.lock()?;
        Ok(file)
    }

    fn make_place(&self) -> io::Result<()> {
        disk::create_folder_all(&self.place, 0o700).map(drop)
    }

    /// The files as they are, and the removal of those that are gone.
    fn copy_changes(&self, top: &Path, to: &Path) -> io::Result<()> {
        // What was renamed or removed in the index is only in the commit.
        for path in self.git.project_files(to)? {
            let (now, copy) = (top.join(&path).symlink_metadata(), to.join(&path));
            // A link is not written through, and a directory takes the place of a file.
            let is_other = now.is_ok_and(|now| now.is_file()) && !copy.is_symlink();
            let stays = is_other && !is_below_link(top, &path);
            if !stays && copy.symlink_metadata().is_ok_and(|copy| !copy.is_dir()) {
                std::fs::remove_file(copy)?;
                // A file or a link may take the place of its directory.
                let above = path.ancestors().skip(1).map(|above| to.join(above));
                _ = above.take_while(|above| above != to).try_for_each(std::fs::remove_dir);
            }
        }
        copy_paths(top, to, &self.git.project_files(top)?)
    }

    /// Removes a copy, whatever is in it.
    pub fn remove(&self, copy: &WorkCopy) {
        if let (Some((branch, _)), Some(top)) = (&copy.branch, &self.top) {
            // Without a directory, only the branch may be left.
            _ = self.git.remove_worktree(top, &copy.directory);
            if copy.is_new_branch {
                _ = self.git.remove_branch(top, branch);
            }
        }
        // What cannot be removed stays in the cache.
        _ = disk::remove_folder(&copy.directory);
    }

    /// Removes a new worktree in which git sees no change; says what happened. What changed in an independent copy is not
    /// known: it stays.
    pub fn finish(&self, copy: &WorkCopy) -> String {
        let shown = copy.root.display();
        let Some((branch, commit)) = &copy.branch else { return format!("copy {shown}") };
        let name = format!("worktree {shown}, branch {branch}");
        let is_clean = self.git.is_clean(&copy.directory, self.loaded.is_trusted);
        let now = self.git.commit_id(&copy.directory, "HEAD").ok().flatten();
        if !is_clean.unwrap_or(false) || now.as_ref() != Some(commit) || !copy.is_new {
            return name;
        }
        self.remove(copy);
        format!("{name}: removed, because git sees no change in it")
    }
}

fn usage(why: impl Into<String>) -> OpenError {
    OpenError::Usage(why.into())
}

/// A name that no other copy has.
pub fn new_name(prefix: &str) -> String {
    let id = uuid::Uuid::now_v7().simple().to_string();
    format!("{prefix}-{}", &id[id.len() - 6..])
}

/// The name is one of a directory and of a branch.
fn check_name(name: &str) -> Result<String, OpenError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_usable = name.len() <= MAX_NAME
        && name.chars().all(is_plain)
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && !name.contains("..")
        && ![".lock", "."].iter().any(|end| name.ends_with(end));
    is_usable.then(|| name.to_owned()).ok_or_else(|| {
        usage(format!(
            "--worktree {name:?}: a name has at most {MAX_NAME} letters, digits, `-`, `_` and `.`, and begins with a letter or digit"
        ))
    })
}
