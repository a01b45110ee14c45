//! Confinement: a path as it was given becomes a [`ProjectPath`], or a failure that says why not.

use std::ffi::{OsStr, OsString};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};

use super::Workspace;
use super::failure::io_failure;
use super::repository;
use crate::disk::{Resolver, canonical_prefix, look_at};
use crate::protocol::envelope::{ErrorCode, Failure};
use crate::protocol::unescape;

/// What helps where a place is guarded.
const IN_ITS_FOLDER: &str = "ask the user to add its folder by name: --add-dir";

/// Why nothing is written in a repository.
const GITS_OWN: &str = "it belongs to git; use git commands";

/// Places that file tools leave alone, though they lie in the project.
#[derive(Clone, Debug, Default)]
pub struct Guarded {
    closed: Vec<GuardedPlace>,
    unchanged: Vec<GuardedPlace>,
}

/// By its name, and what that leads to.
#[derive(Clone, Debug)]
struct GuardedPlace {
    path: PathBuf,
    real: PathBuf,
    /// Where it leads, it is guarded only where its name lies in the same folder.
    by_name: bool,
}

impl GuardedPlace {
    /// What of it is guarded in this root, or added folder: one that the user gave to the agent by its name is given
    /// with all that is in it.
    fn below<'a>(&'a self, root: &'a Path) -> impl Iterator<Item = &'a PathBuf> {
        let is_below = move |path: &PathBuf| path != root && path.starts_with(root);
        let by_real = is_below(&self.real) && (!self.by_name || is_below(&self.path));
        let real = Some(&self.real).filter(|_| by_real);
        Some(&self.path).filter(|path| is_below(path)).into_iter().chain(real)
    }
}

impl Guarded {
    /// What is `closed` is neither read nor changed, the rest is not changed. What that leads to in another folder is what
    /// people work on (dotfiles).
    pub fn new(closed: &[PathBuf], unchanged: &[PathBuf]) -> Self {
        let mut resolver = Resolver::default();
        let mut place = |path: &PathBuf, by_name| {
            // Where it lies, not what it is.
            let path = match (path.parent(), path.file_name()) {
                (Some(parent), Some(name)) => resolver.resolve(parent).join(name),
                _ => path.clone(),
            };
            GuardedPlace { real: resolver.resolve(&path), path, by_name }
        };
        Self {
            closed: closed.iter().map(|path| place(path, false)).collect(),
            unchanged: unchanged.iter().map(|path| place(path, true)).collect(),
        }
    }
}

/// As many links as Linux follows in one path.
const MAX_LINKS: usize = 40;

/// A path inside the project (or an added folder), without symlinks. Only a [`Workspace`] makes one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ProjectPath {
    absolute: PathBuf,
    relative: String,
    /// A link called `.git` led there.
    by_git: bool,
}

impl ProjectPath {
    /// Relative to the project's root with `/`, `.` for the root itself; absolute in an added folder.
    /// Names that are not valid UTF-8 are escaped; [`Workspace::resolve`] takes that form back.
    pub fn relative(&self) -> &str {
        &self.relative
    }

    /// The path itself.
    pub fn absolute(&self) -> &Path {
        &self.absolute
    }
}

/// Where a path that was given led when it was looked at. Who judged that works on that, whatever has become of
/// the links and folders on the way.
#[derive(Clone, Debug)]
pub struct Place {
    path: ProjectPath,
    /// Of what was met there, as far as it was looked at.
    data: Option<Metadata>,
}

impl Place {
    /// The path itself; there may be nothing.
    pub fn path(&self) -> &ProjectPath {
        &self.path
    }

    /// Bytes, if a regular file was met there.
    pub fn file_size(&self) -> Option<u64> {
        self.data.as_ref().filter(|data| data.is_file()).map(Metadata::len)
    }

    /// That was a while ago: what is there is looked at anew.
    pub fn forget(&mut self) {
        self.data = None;
    }
}

impl Workspace {
    /// The path that is meant, relative to the root or absolute inside it, whether it exists or not.
    /// Symlinks are followed before it is judged.
    pub fn resolve(&self, path: &str) -> Result<ProjectPath, Failure> {
        Ok(self.locate(path)?.path)
    }

    /// What the file system says of what is there; `NOT_FOUND` with the three nearest existing names where
    /// nothing is.
    pub fn look(&self, place: &Place) -> Result<Metadata, Failure> {
        if let Some(data) = &place.data {
            return Ok(data.clone());
        }
        self.metadata(&place.path).map_err(|failure| match failure.code {
            ErrorCode::NotFound => self.not_found(&place.path),
            _ => failure,
        })
    }

    /// The path of an existing directory.
    pub fn directory(&self, place: &Place) -> Result<ProjectPath, Failure> {
        let path = &place.path;
        if self.look(place)?.is_dir() {
            return Ok(path.clone());
        }
        let message = format!("{} is a file, not a directory", path.relative);
        Err(Failure::new(ErrorCode::NotADirectory, message)
            .hint("use its directory")
            .at(&path.relative))
    }

    /// The path of an existing regular file. Anything else is refused here, before it is opened: to
    /// open a FIFO would wait for ever, to open a device may do something.
    pub fn file(&self, place: &Place) -> Result<ProjectPath, Failure> {
        regular(&place.path, &self.look(place)?)?;
        Ok(place.path.clone())
    }

    /// Whether there is anything at this path. What cannot be looked at is taken to be there: the
    /// attempt to use it will say why not.
    pub fn exists(&self, path: &ProjectPath) -> bool {
        !look_at(&path.absolute).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the project, or a folder that belongs to it, lies in this folder, or is this folder itself, wherever
    /// it leads.
    pub fn is_in(&self, folder: &Path) -> bool {
        fs::canonicalize(self.root.join(folder)).is_ok_and(|real| {
            self.root.starts_with(&real) || self.extra.iter().any(|extra| extra.starts_with(&real))
        })
    }

    /// The way from this folder, wherever it leads, down to the project, if it lies there.
    pub fn way_down(&self, folder: &str) -> Option<&Path> {
        let real = fs::canonicalize(self.root.join(folder)).ok()?;
        self.root.strip_prefix(real).ok()
    }

    /// What the file system says of a path, without following it or a link that was put in its way.
    pub fn metadata(&self, path: &ProjectPath) -> Result<Metadata, Failure> {
        look_at(&path.absolute).map_err(|error| io_failure(&error, "look at", &path.relative))
    }

    /// Whether the agent may write there: not in `.git/` or what else is a repository, not in `.agent/` but its skills,
    /// commands and prompts, not in folders that are only for reading.
    pub fn check_writable(&self, path: &ProjectPath) -> Result<(), Failure> {
        let refused = |reason: &str| {
            let message = format!("{} is protected: {reason}", path.relative);
            Failure::new(ErrorCode::AccessDenied, message)
                .hint("leave it as it is, or use another path")
                .at(&path.relative)
        };
        let Some(root) = self.writable_root(&path.absolute) else {
            return Err(refused("its folder is read-only"));
        };
        let inside = path.absolute.strip_prefix(root).unwrap_or(&path.absolute);
        if let Some(reason) = protection(inside.iter()) {
            return Err(refused(reason));
        }
        if path.by_git || repository::is_named(&path.absolute, root) {
            return Err(refused(GITS_OWN));
        }
        if let Some(folder) = repository::keeping(&path.absolute, root) {
            let folder = self.display(folder);
            return Err(refused(GITS_OWN).hint(format!(
                "the folder {folder} looks like a repository; where it is a fixture, a command or the user can change it"
            )));
        }
        if self.is_guarded(&self.guarded.unchanged, &path.absolute) {
            return Err(refused("it runs or counts the next time the user does something")
                .hint(format!("tell the user what to write there, or {IN_ITS_FOLDER}")));
        }
        Ok(())
    }

    /// A path as it is shown: relative to the root where it is inside, escaped where needed.
    pub fn display(&self, path: &Path) -> String {
        // Nearly always it is the root's bytes and more: that is seen without taking paths apart.
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

    /// A path that a walk of ours met: it lies inside, and holds no symlink but perhaps at its end.
    pub(super) fn inside(&self, path: &Path) -> ProjectPath {
        ProjectPath { absolute: path.to_owned(), relative: self.display(path), by_git: false }
    }

    /// Where a symlink leads, if that exists and is inside the project.
    pub fn link_target(&self, link: &Path) -> Option<ProjectPath> {
        let target = fs::canonicalize(link).ok()?;
        self.contains(&target).then(|| self.inside(&target))
    }

    /// The root or added folder that holds the path.
    pub(super) fn writable_root(&self, path: &Path) -> Option<&Path> {
        // The innermost: an added folder may lie inside the root.
        std::iter::once(&self.root)
            .chain(&self.extra)
            .filter(|root| path.starts_with(root))
            .max_by_key(|root| root.as_os_str().len())
            .map(PathBuf::as_path)
    }

    /// Whether this is one of the user's secrets, or the agent's own. What this session itself keeps may be read.
    pub(super) fn is_closed(&self, path: &Path) -> bool {
        self.is_guarded(&self.guarded.closed, path)
            && !self.readable.iter().any(|dir| path.starts_with(dir))
    }

    /// The path that is meant, through the links on the way to it, where it is closed.
    pub fn closed_at(&self, path: &str) -> Option<ProjectPath> {
        let at = canonical_prefix(&self.root.join(path));
        self.is_closed(&at).then(|| self.inside(&at))
    }

    /// What is closed in the project, and in the folders that belong to it.
    pub fn closed_places(&self) -> Vec<PathBuf> {
        let roots = std::iter::once(&self.root).chain(&self.extra);
        roots.flat_map(|root| self.closed_below(root)).collect()
    }

    /// What a walk from this root leaves out.
    pub(super) fn closed_below(&self, root: &Path) -> Vec<PathBuf> {
        let places = self.guarded.closed.iter().flat_map(|place| [&place.path, &place.real]);
        places.filter(|path| path.starts_with(root) && self.is_closed(path)).cloned().collect()
    }

    /// Whether the path lies in a guarded place.
    fn is_guarded(&self, places: &[GuardedPlace], path: &Path) -> bool {
        let Some(root) = (!places.is_empty()).then(|| self.writable_root(path)).flatten() else {
            return false;
        };
        places.iter().any(|place| place.below(root).any(|guarded| path.starts_with(guarded)))
    }

    fn contains(&self, path: &Path) -> bool {
        self.writable_root(path).is_some() || self.readable.iter().any(|dir| path.starts_with(dir))
    }

    /// The same as [`Workspace::resolve`], with what was met there.
    pub fn locate(&self, given: &str) -> Result<Place, Failure> {
        if given.contains('\0') {
            let message = "the path contains a NUL character";
            return Err(Failure::new(ErrorCode::InvalidParam, message)
                .hint("leave it out; a path is plain text"));
        }
        // What looks escaped is, if there is such a file: a name that holds `\\x` itself is shown escaped.
        match unescape(given).map(|raw| self.follow(given, Path::new(&raw))) {
            Some(Ok(place)) if self.exists(&place.path) => Ok(place),
            Some(_) | None => self.follow(given, Path::new(given)),
        }
    }

    /// Follows a path component by component, as the kernel would.
    fn follow(&self, given: &str, raw: &Path) -> Result<Place, Failure> {
        let mut at = self.root.clone();
        let mut todo: Vec<OsString> = Vec::new();
        let mut links = 0;
        // How many of the last components of `at` do not exist.
        let mut missing = 0usize;
        // What was seen at `at` last.
        let mut end = None;
        let mut by_git = false;
        start(raw, &mut at, &mut todo);
        let found = loop {
            let Some(part) = todo.pop() else { break Ok(()) };
            end = None;
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
                    by_git |= is_git(&part);
                    if links > MAX_LINKS {
                        break Err(Failure::new(
                            ErrorCode::InvalidParam,
                            format!("{given} leads into a loop of symlinks"),
                        )
                        .hint("list its directory with LS, and use another path"));
                    }
                    match fs::read_link(&at) {
                        Ok(target) => {
                            at.pop();
                            start(&target, &mut at, &mut todo);
                        }
                        // It is no link any more, or nothing: looked at anew.
                        Err(error)
                            if matches!(
                                error.kind(),
                                io::ErrorKind::InvalidInput | io::ErrorKind::NotFound
                            ) =>
                        {
                            at.pop();
                            todo.push(part);
                        }
                        Err(error) => break Err(io_failure(&error, "follow", given)),
                    }
                }
                Ok(data) if !data.is_dir() && !todo.is_empty() => {
                    let file = self.display(&at);
                    break Err(Failure::new(
                        ErrorCode::NotADirectory,
                        format!("{given} runs through {file}, which is a file"),
                    )
                    .hint("list the directory of that file with LS"));
                }
                Ok(data) => end = Some(data),
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing = 1,
                Err(error) => break Err(io_failure(&error, "look at", given)),
            }
        };
        if !self.contains(&at) {
            // Whatever else there is to say of it: of what lies outside, nothing is told.
            let message = format!("{given} is outside the project");
            return Err(Failure::new(ErrorCode::AccessDenied, message).hint(
                "only paths inside the project can be used; the user can add a folder with --add-dir",
            ));
        }
        if self.is_closed(&at) {
            let message = format!(
                "{given} is protected: it holds secrets of the user, or belongs to the agent itself"
            );
            return Err(Failure::new(ErrorCode::AccessDenied, message)
                .hint(format!("continue without it, or {IN_ITS_FOLDER}"))
                .at(given));
        }
        found.map_err(|failure| failure.at(given))?;
        Ok(Place { path: ProjectPath { by_git, ..self.inside(&at) }, data: end })
    }
}

/// Nothing but a regular file is read or replaced.
pub(super) fn regular(path: &ProjectPath, data: &Metadata) -> Result<(), Failure> {
    let kind = data.file_type();
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        let message = format!("{} is a directory", path.relative);
        return Err(Failure::new(ErrorCode::IsDirectory, message)
            .hint("list it with LS")
            .at(&path.relative));
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
    Err(Failure::new(ErrorCode::InvalidParam, message)
        .hint("use another path, or a command that works with it")
        .at(&path.relative))
}

/// Why nothing is written at this place, if so.
fn protection<'a>(parts: impl Iterator<Item = &'a OsStr>) -> Option<&'static str> {
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if is_git(part) {
            return Some(GITS_OWN);
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

/// Some file systems do not distinguish case.
fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// Sets out on a path: an absolute one starts at the top.
fn start(path: &Path, at: &mut PathBuf, todo: &mut Vec<OsString>) {
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

/// A path as text. A component that is not valid UTF-8, or holds control characters, or looks as if it
/// were escaped, is shown with these (and backslashes) as `\xNN`.
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
