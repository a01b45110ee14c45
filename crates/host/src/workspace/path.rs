//! Path confinement: resolves a path to a [`ProjectPath`], or fails with the reason.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use super::suggestions::entry_that_looks_like;
use super::{Workspace, io_failure};
use agent_protocol::disk::repository::{
    FOLDERS_WITH_WORKTREES, GIT_FOLDERS, TEMPORARY_FOLDERS, is_git_file, is_one_of,
    looks_like_repository,
};
use agent_protocol::disk::{LinkResolver, canonical_prefix, metadata_without_links};
use agent_protocol::envelope::{ErrorCode, Failure};
use agent_protocol::unescape_path;

const ADD_FOLDER_HINT: &str = "ask the user to add its folder by name: /add-dir or --add-dir";

const BELONGS_TO_GIT: &str = "it belongs to git; use git commands";

/// Paths inside the project that file tools must not use.
#[derive(Clone, Debug, Default)]
pub struct GuardedPaths {
    closed: Vec<GuardedPath>,
    unchanged: Vec<GuardedPath>,
}

/// The path itself, and the path of its target.
#[derive(Clone, Debug)]
struct GuardedPath {
    path: PathBuf,
    real: PathBuf,
    /// True if the target of the link is guarded only within the root or added folder that also contains the link.
    by_name: bool,
}

impl GuardedPath {
    /// The guarded paths in this root or added folder, which is itself available: the user added it by name.
    fn paths_below<'a>(&'a self, root: &'a Path) -> impl Iterator<Item = &'a PathBuf> {
        let is_below = move |path: &PathBuf| path != root && path.starts_with(root);
        let by_real = is_below(&self.real) && (!self.by_name || is_below(&self.path));
        let real = Some(&self.real).filter(|_| by_real);
        Some(&self.path).filter(|path| is_below(path)).into_iter().chain(real)
    }
}

impl GuardedPaths {
    /// `closed` paths are neither read nor changed, `unchanged` paths are not changed. Targets of
    /// `unchanged` links in another folder can be changed: users work on such files (dotfiles).
    pub fn new(closed: &[PathBuf], unchanged: &[PathBuf]) -> Self {
        let mut resolver = LinkResolver::default();
        let mut place = |path: &PathBuf, by_name| {
            // The path of the entry itself, not of its target.
            let path = match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => resolver.resolve(parent).join(name),
                _ => path.clone(),
            };
            GuardedPath { real: resolver.resolve(&path), path, by_name }
        };
        Self {
            closed: closed.iter().map(|path| place(path, false)).collect(),
            unchanged: unchanged.iter().map(|path| place(path, true)).collect(),
        }
    }
}

/// The maximum number of symlinks in one path, as in Linux.
const MAX_LINKS: usize = 40;

/// A path inside the project (or an added folder), without symlinks. Only a [`Workspace`] creates one.
/// The permission check and the call use the same one, even if links in the original path change meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectPath {
    absolute: PathBuf,
    relative: String,
    is_link: bool,
    through_git_link: bool,
}

impl ProjectPath {
    /// The path relative to the project's root with `/`, `.` for the root itself; absolute in an added folder.
    /// Names that are not valid UTF-8 are escaped; [`Workspace::resolve`] accepts that form.
    pub fn relative(&self) -> &str {
        &self.relative
    }

    /// The absolute path.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }

    /// Whether the original path leads through a symlink.
    pub fn is_link(&self) -> bool {
        self.is_link
    }

    pub(super) fn failure(&self, code: ErrorCode, message: impl Into<String>) -> Failure {
        Failure::new(code, message).with_path(&self.relative)
    }
}

impl Workspace {
    /// The metadata of a path; `NOT_FOUND` with the three most similar existing names if there is nothing.
    pub fn metadata_with_suggestions(&self, path: &ProjectPath) -> Result<Metadata, Failure> {
        self.metadata(path).map_err(|failure| match failure.code {
            ErrorCode::NotFound => self.not_found_failure(path),
            _ => failure,
        })
    }

    /// `NOT_A_DIRECTORY` if the path is not an existing directory.
    pub fn check_directory(&self, path: &ProjectPath) -> Result<(), Failure> {
        if self.metadata_with_suggestions(path)?.is_dir() {
            return Ok(());
        }
        let message = format!("{} is a file, not a directory", path.relative);
        Err(path.failure(ErrorCode::NotADirectory, message).with_hint("use its directory"))
    }

    /// Fails if the path is no existing regular file. Others are not even opened: a FIFO blocks, and a device may have
    /// side effects.
    pub fn check_file(&self, path: &ProjectPath) -> Result<(), Failure> {
        check_is_regular(path, &self.metadata_with_suggestions(path)?)
    }

    /// Size in bytes, if it is a regular file.
    pub fn file_size(&self, path: &ProjectPath) -> Option<u64> {
        self.metadata(path).ok().filter(Metadata::is_file).map(|data| data.len())
    }

    /// Whether the path exists. A path without access counts as existing: using it gives the error.
    pub fn exists(&self, path: &ProjectPath) -> bool {
        !metadata_without_links(&path.absolute)
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the project, or an added folder, is this folder or inside it, also through links.
    pub fn has_root_in(&self, folder: &Path) -> bool {
        fs::canonicalize(self.root.join(folder)).is_ok_and(|real| {
            self.root.starts_with(&real)
                || self.extra_folders.iter().any(|extra| extra.starts_with(&real))
        })
    }

    /// Resolves the links of any path, as far as it exists.
    pub fn path_without_links(&self, path: &str) -> PathBuf {
        canonical_prefix(&self.root.join(path))
    }

    /// The metadata of a path. Follows no symlinks, including ones that were created after the path was resolved.
    pub fn metadata(&self, path: &ProjectPath) -> Result<Metadata, Failure> {
        metadata_without_links(&path.absolute)
            .map_err(|error| io_failure(&error, "look at", &path.relative))
    }

    /// `ACCESS_DENIED` if the agent may not write there: in `.git/` or another repository, in `.agent/` except its
    /// skills, commands and prompts, and in read-only folders.
    pub fn check_writable(&self, path: &ProjectPath) -> Result<(), Failure> {
        let refused = |reason: &str| {
            let message = format!("{} is protected: {reason}", path.relative);
            path.failure(ErrorCode::AccessDenied, message)
                .with_hint("leave it as it is, or use another path")
        };
        let Some(root) = self.writable_root(&path.absolute) else {
            return Err(refused("its folder is read-only"));
        };
        let inside = path.absolute.strip_prefix(root).unwrap_or(&path.absolute);
        if let Some(reason) = protection_reason(inside.iter()) {
            return Err(refused(reason));
        }
        if path.through_git_link || is_git_link_target(&path.absolute, root) {
            return Err(refused(BELONGS_TO_GIT));
        }
        if let Some(folder) = repository_owning(&path.absolute, root) {
            let folder = self.display(folder);
            return Err(refused(BELONGS_TO_GIT).with_hint(format!(
                "the folder {folder} looks like a git repository; if it is a fixture, use a command to change it, or ask the user"
            )));
        }
        if self.is_guarded(&self.guarded.unchanged, &path.absolute) {
            return Err(refused("it runs or counts the next time the user does something")
                .with_hint(format!("tell the user what to write there, or {ADD_FOLDER_HINT}")));
        }
        Ok(())
    }

    /// A path for display: relative to the root if it is inside, escaped if necessary.
    pub fn display(&self, path: &Path) -> String {
        // Usually a prefix comparison of the bytes is sufficient.
        let (bytes, root) = (path.as_os_str().as_bytes(), self.root.as_os_str().as_bytes());
        if let Some([b'/', inside @ ..]) = bytes.strip_prefix(root)
            && !inside.is_empty()
            && !inside.starts_with(b"/")
        {
            return escape(Path::new(OsStr::from_bytes(inside)));
        }
        match path.strip_prefix(&self.root) {
            Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
            Ok(inside) => escape(inside),
            Err(_) => escape(path),
        }
    }

    /// For a path from a walk: it is inside, and contains no symlink except possibly the last component.
    pub(super) fn project_path(&self, path: &Path) -> ProjectPath {
        ProjectPath {
            absolute: path.to_owned(),
            relative: self.display(path),
            is_link: false,
            through_git_link: false,
        }
    }

    /// The target of a symlink, if it exists and is inside the project.
    pub fn link_target(&self, link: &Path) -> Option<ProjectPath> {
        let target = fs::canonicalize(link).ok()?;
        self.contains(&target).then(|| self.project_path(&target))
    }

    /// The innermost root or added folder that contains the path.
    pub(super) fn writable_root(&self, path: &Path) -> Option<&Path> {
        // An added folder may be inside the root.
        std::iter::once(&self.root)
            .chain(&self.extra_folders)
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.as_os_str().len())
            .map(PathBuf::as_path)
    }

    /// Belongs to the user's secrets or to the agent's own files, and not to the session's readable folders.
    pub(super) fn is_closed(&self, path: &Path) -> bool {
        self.is_guarded(&self.guarded.closed, path)
            && !self.readable.iter().any(|dir| path.starts_with(dir))
    }

    /// The resolved path; `None` if it is not closed.
    pub fn resolve_closed(&self, path: &str) -> Option<ProjectPath> {
        let at = canonical_prefix(&self.root.join(path));
        self.is_closed(&at).then(|| self.project_path(&at))
    }

    /// The closed paths in the project and in the added folders.
    pub fn closed_paths(&self) -> Vec<PathBuf> {
        let roots = std::iter::once(&self.root).chain(&self.extra_folders);
        roots.flat_map(|root| self.closed_paths_below(root)).collect()
    }

    pub(super) fn closed_paths_below(&self, root: &Path) -> Vec<PathBuf> {
        let places = self.guarded.closed.iter().flat_map(|place| [&place.path, &place.real]);
        places.filter(|path| path.starts_with(root) && self.is_closed(path)).cloned().collect()
    }

    fn is_guarded(&self, places: &[GuardedPath], path: &Path) -> bool {
        let Some(root) = self.writable_root(path) else { return false };
        places.iter().any(|place| place.paths_below(root).any(|guarded| path.starts_with(guarded)))
    }

    fn contains(&self, path: &Path) -> bool {
        self.writable_root(path).is_some() || self.readable.iter().any(|dir| path.starts_with(dir))
    }

    /// Resolves a path that is relative to the root or absolute inside it, and its links; it need not exist.
    pub fn resolve(&self, given: &str) -> Result<ProjectPath, Failure> {
        if given.contains('\0') {
            let message = "the path contains a NUL character";
            return Err(Failure::new(ErrorCode::InvalidParam, message)
                .with_hint("leave it out; a path is plain text"));
        }
        // An escaped name is decoded if the decoded path exists: a name that contains `\\x` itself is shown escaped.
        match unescape_path(given).map(|raw| self.resolve_components(given, Path::new(&raw))) {
            Some(Ok(path)) if self.exists(&path) => Ok(path),
            Some(_) | None => self.resolve_components(given, Path::new(given)),
        }
    }

    /// Works component by component, as the kernel does.
    fn resolve_components(&self, given: &str, raw: &Path) -> Result<ProjectPath, Failure> {
        let mut at = self.root.clone();
        let mut todo: Vec<OsString> = Vec::new();
        let mut links = 0;
        // Number of last components of `at` that do not exist.
        let mut missing = 0usize;
        let mut by_git = false;
        let mut is_substitute = false;
        push_components(raw, &mut at, &mut todo);
        let found = loop {
            let Some(part) = todo.pop() else { break Ok(()) };
            let was_substitute = std::mem::take(&mut is_substitute);
            if part == ".." {
                missing = missing.saturating_sub(1);
                at.pop();
                continue;
            }
            at.push(&part);
            if missing > 0 {
                missing += 1;
                continue;
            }
            match fs::symlink_metadata(&at) {
                Ok(data) if data.is_symlink() => {
                    links += 1;
                    by_git |= is_git_name(&part);
                    if links > MAX_LINKS {
                        let message = format!("{given} leads into a loop of symlinks");
                        break Err(Failure::new(ErrorCode::InvalidParam, message)
                            .with_hint("list its directory with LS, and use another path"));
                    }
                    match fs::read_link(&at) {
                        Ok(target) => {
                            at.pop();
                            push_components(&target, &mut at, &mut todo);
                        }
                        Err(error) => match error.kind() {
                            // The path is no longer a link, or is gone: read again.
                            io::ErrorKind::InvalidInput | io::ErrorKind::NotFound => {
                                at.pop();
                                todo.push(part);
                            }
                            _ => break Err(io_failure(&error, "follow", given)),
                        },
                    }
                }
                Ok(data) if !data.is_dir() && !todo.is_empty() => {
                    let file = self.display(&at);
                    let message = format!("{given} runs through {file}, which is a file");
                    break Err(Failure::new(ErrorCode::NotADirectory, message)
                        .with_hint("list the directory of that file with LS"));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let may_search = !was_substitute && self.contains(&at);
                    match Some(&at).filter(|_| may_search).and_then(|at| entry_that_looks_like(at))
                    {
                        Some(name) => {
                            at.pop();
                            todo.push(name);
                            is_substitute = true;
                        }
                        None => missing = 1,
                    }
                }
                Err(error) => break Err(io_failure(&error, "look at", given)),
            }
        };
        if !self.contains(&at) {
            // Nothing else is revealed about paths outside the project.
            let message = format!("{given} is outside the project");
            return Err(Failure::new(ErrorCode::AccessDenied, message).with_hint(
                "only paths inside the project can be used; the user can add a folder with /add-dir or --add-dir",
            ));
        }
        if self.is_closed(&at) {
            let message = format!(
                "{given} is protected: it contains secrets of the user, or belongs to the agent"
            );
            return Err(Failure::new(ErrorCode::AccessDenied, message)
                .with_hint(format!("continue without it, or {ADD_FOLDER_HINT}"))
                .with_path(given));
        }
        found.map_err(|failure| failure.with_path(given))?;
        let is_link = links > 0;
        Ok(ProjectPath { is_link, through_git_link: by_git, ..self.project_path(&at) })
    }
}

/// Replaces a leading `~` by the user's home.
pub fn expand_home(path: &str) -> Cow<'_, str> {
    let below = path.strip_prefix('~').filter(|below| below.is_empty() || below.starts_with('/'));
    let home = below.and_then(|_| std::env::home_dir()?.into_os_string().into_string().ok());
    match (below, home) {
        (Some(below), Some(home)) => format!("{}{below}", home.trim_end_matches('/')).into(),
        _ => path.into(),
    }
}

pub(super) fn check_is_regular(path: &ProjectPath, data: &Metadata) -> Result<(), Failure> {
    let kind = data.file_type();
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        let message = format!("{} is a directory", path.relative);
        return Err(path.failure(ErrorCode::IsDirectory, message).with_hint("list it with LS"));
    }
    let what = if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_symlink() {
        "a symlink that appeared meanwhile"
    } else {
        "a device"
    };
    let message = format!("{} is {what}, no regular file; it is not opened", path.relative);
    Err(path
        .failure(ErrorCode::InvalidParam, message)
        .with_hint("use another path, or a command that works with it"))
}

fn protection_reason<'a>(parts: impl Iterator<Item = &'a OsStr>) -> Option<&'static str> {
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if is_git_name(part) {
            return Some(BELONGS_TO_GIT);
        }
        let free = ["agents", "commands", "prompts", "skills"];
        if part.eq_ignore_ascii_case(".agent")
            && !parts.peek().is_some_and(|next| free.iter().any(|name| *next == *name))
        {
            return Some("it belongs to the agent itself");
        }
    }
    None
}

/// The repository in this root that owns this path. User files inside a repository's folder, such as
/// worktrees or a README, are not included. Most folders need no file access.
fn repository_owning<'a>(path: &'a Path, root: &Path) -> Option<&'a Path> {
    // Even with a `.git` next to `HEAD`: git still uses the repository for the worktrees that name the folder.
    let mut folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    folders.find(|folder| owns_path(folder, path) && looks_like_repository(folder))
}

/// In a repository, files belong to git that name programs or remotes, or whose change breaks the repository.
fn owns_path(folder: &Path, path: &Path) -> bool {
    let Ok(inside) = path.strip_prefix(folder) else { return false };
    let Some(name) = inside.iter().next() else { return false };
    let name = name.to_string_lossy();
    let name = name.as_ref();
    // A folder has a lock file, too.
    let of_folder = name.strip_suffix(".lock").unwrap_or(name);
    is_git_file(name)
        || is_one_of(of_folder, &[GIT_FOLDERS, TEMPORARY_FOLDERS])
        || is_one_of(of_folder, &[FOLDERS_WITH_WORKTREES]) && !is_in_worktree(folder, path)
}

/// A folder between the two is a worktree, not part of git's own folders.
fn is_in_worktree(repository: &Path, path: &Path) -> bool {
    let between = path
        .ancestors()
        .skip(1)
        .take_while(|folder| folder.starts_with(repository) && *folder != repository);
    let between = between.filter(|folder| folder.parent() != Some(repository));
    let mut places = between.map(|folder| folder.join(".git"));
    places.any(|place| fs::symlink_metadata(place).is_ok())
}

/// True for the file that names a folder's repository, if `.git` in the folder is a link to that file.
fn is_git_link_target(path: &Path, root: &Path) -> bool {
    let mut folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    folders.any(|folder| {
        let link = folder.join(".git");
        link.is_symlink() && fs::canonicalize(link).is_ok_and(|file| file == path)
    })
}

/// Ignores case: some file systems do not distinguish it.
fn is_git_name(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// An absolute path begins at the root directory.
fn push_components(path: &Path, at: &mut PathBuf, todo: &mut Vec<OsString>) {
    if path.is_absolute() {
        at.clear();
        at.push("/");
    }
    todo.extend(path.components().rev().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    }));
}

/// A path as text. Control characters, bytes that are not UTF-8, and backslashes beside them become `\xNN`.
pub(super) fn escape(path: &Path) -> String {
    let is_plain = |text: &str| !text.contains(char::is_control) && !text.contains("\\x");
    if let Some(text) = path.as_os_str().to_str()
        && is_plain(text)
    {
        return text.to_owned();
    }
    let mut shown = String::new();
    for part in path.components() {
        if !shown.is_empty() && !shown.ends_with('/') {
            shown.push('/');
        }
        let name = part.as_os_str();
        match name.to_str() {
            Some(text) if is_plain(text) => shown.push_str(text),
            Some(_) | None => escape_name(name.as_bytes(), &mut shown),
        }
    }
    shown
}

fn escape_name(name: &[u8], shown: &mut String) {
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_control() || character == '\\' {
                let mut bytes = [0; 4];
                for byte in character.encode_utf8(&mut bytes).bytes() {
                    shown.push_str(&format!("\\x{byte:02x}"));
                }
            } else {
                shown.push(character);
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
}
