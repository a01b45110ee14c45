//! Opens files in places that other processes can modify: no symlinks in the path, only regular files, no
//! blocking, and a size limit. Before the user trusts a project, its files are read with [`read_small`].

pub mod git_index;
pub mod nofollow;
pub mod repository;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::FixedState;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Size limit of files that hold a path or settings.
pub const SMALL_FILE_LIMIT: u64 = 4 << 20;

const FOLDER_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens a path without following symlinks, not even as the last component.
pub fn open_without_links(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    Ok(nofollow::open_with_mode(path, flags | OFlags::NOFOLLOW, mode)?)
}

/// Describes why an operation on a path failed, without the number of the system's error.
pub fn in_words(error: &io::Error) -> String {
    use io::ErrorKind as Kind;
    let words = match error.kind() {
        Kind::NotFound => "it does not exist",
        Kind::AlreadyExists => "it exists already",
        Kind::PermissionDenied => "permission denied",
        Kind::ReadOnlyFilesystem => "the file system is read-only",
        Kind::IsADirectory => "it is a directory",
        Kind::NotADirectory => "a part of the path is not a directory",
        Kind::InvalidFilename => "the name is too long or not allowed",
        Kind::StorageFull => "the disk is full",
        Kind::QuotaExceeded => "the disk quota is used up",
        _ => return error.to_string(),
    };
    words.to_owned()
}

/// The metadata of a path, without following symlinks; of the link itself if it is the last component.
pub fn metadata_without_links(path: &Path) -> io::Result<Metadata> {
    File::from(open_without_links(path, OFlags::PATH, Mode::empty())?).metadata()
}

/// Opens a directory without following links.
pub fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    open_without_links(path, FOLDER_FLAGS, Mode::empty())
}

/// Opens a directory without following links; creates it and its parents if they do not exist.
pub fn create_folder_all(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    match open_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other.map_err(|error| name_link(error, path)),
    }
    let (parent, name) = split_name(path)?;
    let parent = create_folder_all(parent, mode)?;
    match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode)) {
        // (Another process may have created it.)
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let folder = rustix::fs::openat(&parent, name, FOLDER_FLAGS, Mode::empty());
    folder.map_err(|error| name_link(error.into(), path))
}

/// Creates a directory that does not exist.
pub fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    let (parent, name) = split_name(path)?;
    Ok(rustix::fs::mkdirat(open_folder(parent)?, name, Mode::from_raw_mode(mode))?)
}

fn split_name(path: &Path) -> io::Result<(&Path, &OsStr)> {
    path.parent().zip(path.file_name()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// A path to an open file, even if it was moved.
pub fn descriptor_path(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Removes a directory recursively, without following links.
pub fn remove_folder(path: &Path) -> io::Result<()> {
    let (parent, name) = split_name(path)?;
    let parent = open_folder(parent)?;
    empty_folder(&open_with_permission(&parent, name)?, 0)?;
    Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
}

/// Limit: passes over a folder until it is empty; one per level is needed if nothing is added meanwhile.
const MAX_ROUNDS: usize = 1 << 20;
/// Number of nested folders that are emptied in place; deeper ones are moved up first.
const MAX_LEVELS: usize = 100;

/// Empties a folder. Nested folders are moved to the top first: a command can create more levels than the
/// stack or the descriptor limit allows. Entries that another process removes meanwhile count as removed.
fn empty_folder(top: &OwnedFd, level: usize) -> io::Result<()> {
    let mut n_moved = 0_u64;
    for _ in 0..MAX_ROUNDS {
        let entries = list_entries(top)?;
        if entries.is_empty() {
            return Ok(());
        }
        for (name, is_folder) in entries {
            if !is_folder {
                ignore_missing(rustix::fs::unlinkat(top, &name, AtFlags::empty()))?;
                continue;
            }
            let Some(folder) = none_if_missing(open_with_permission(top, &name))? else { continue };
            for (inner, is_folder) in self::list_entries(&folder)? {
                if !is_folder {
                    ignore_missing(rustix::fs::unlinkat(&folder, &inner, AtFlags::empty()))?;
                    continue;
                }
                // (Moving a folder requires write permission on it.)
                let Some(itself) = none_if_missing(open_with_permission(&folder, &inner))? else {
                    continue;
                };
                loop {
                    n_moved += 1;
                    let to = format!(".moved-{n_moved}");
                    match renameat_with(&folder, &inner, top, &to, RenameFlags::NOREPLACE) {
                        Err(Errno::EXIST) => {}
                        // Network file systems do not support this flag.
                        Err(Errno::INVAL | Errno::NOSYS) => {
                            break ignore_missing(rustix::fs::renameat(&folder, &inner, top, &to))?;
                        }
                        // On overlay file systems, folders of the image cannot be moved.
                        Err(Errno::XDEV) if level < MAX_LEVELS => {
                            empty_folder(&itself, level + 1)?;
                            break ignore_missing(rustix::fs::unlinkat(
                                &folder,
                                &inner,
                                AtFlags::REMOVEDIR,
                            ))?;
                        }
                        other => break ignore_missing(other)?,
                    }
                }
            }
            ignore_missing(rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR))?;
        }
    }
    Err(io::Error::other("another process adds files while it is removed"))
}

/// Another process may have removed the entry.
fn ignore_missing(removed: rustix::io::Result<()>) -> io::Result<()> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn none_if_missing(opened: io::Result<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a folder in another one and makes it writable: some programs write-protect their files.
fn open_with_permission(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let itself = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    // If this is not allowed, a later step fails.
    _ = fs::set_permissions(descriptor_path(&itself), fs::Permissions::from_mode(0o700));
    Ok(rustix::fs::openat(&itself, ".", FOLDER_FLAGS, Mode::empty())?)
}

/// Names, and whether each is a folder.
fn list_entries(folder: &OwnedFd) -> io::Result<Vec<(OsString, bool)>> {
    let mut found = Vec::new();
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let is_folder = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            }
            kind => kind == FileType::Directory,
        };
        found.push((name.to_owned(), is_folder));
    }
    Ok(found)
}

/// Whether the error means that nothing exists there, or nothing reachable. After any other error
/// something may exist: a command can lock a folder above a protected path, and unlock it later.
pub fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(libc::ELOOP)
}

/// The resolved path, as far as it can be resolved; `None` if nothing exists there.
pub fn resolve_existing(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Some(real),
        Err(error) if is_missing(&error) => None,
        Err(_) => Some(canonical_prefix(path)),
    }
}

fn name_link(error: io::Error, path: &Path) -> io::Error {
    let is_link = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink());
    match path.ancestors().find(is_link) {
        Some(link) => io::Error::new(error.kind(), format!("{} is a link", link.display())),
        None => error,
    }
}

/// Creates a file in an open folder, where nothing of this name exists, not even a link.
pub fn create_file_in(folder: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?.into())
}

/// Creates a file with these permissions, where nothing of this name exists.
pub fn create_file(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
    Ok(open_without_links(path, flags, Mode::from_raw_mode(mode))?.into())
}

fn open_regular(path: &Path, flags: OFlags, mode: Mode) -> io::Result<File> {
    // NONBLOCK: does not wait for a FIFO.
    let file = open_without_links(path, flags | OFlags::NONBLOCK, mode);
    require_regular_file(file.map_err(|error| name_link(error, path))?.into())
}

/// Opens one of the agent's own files for appending and reading; `create` also creates it.
pub fn open_for_append(path: &Path, create: bool) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND;
    if create {
        open_regular(path, flags | OFlags::CREATE, Mode::from_raw_mode(0o600))
    } else {
        open_regular(path, flags, Mode::empty())
    }
}

/// Opens one of the agent's own files for reading.
pub fn open_file(path: &Path) -> io::Result<File> {
    // NONBLOCK: does not wait for a FIFO.
    require_regular_file(
        open_without_links(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?.into(),
    )
}

/// The content of one of the agent's own files.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Replaces one of the agent's own files, or a link in its place. Several processes may do it at once.
pub fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    static N_REPLACED: AtomicU64 = AtomicU64::new(0);
    let (parent, name) = split_name(path)?;
    let folder = open_folder(parent)?;
    let n = N_REPLACED.fetch_add(1, Ordering::Relaxed);
    let new = format!(".{}-{}-{n}", name.display(), std::process::id());
    // A process with this number may have been killed here.
    ignore_missing(rustix::fs::unlinkat(&folder, new.as_str(), AtFlags::empty()))?;
    let written = io::Write::write_all(&mut create_file_in(&folder, &new)?, bytes);
    let replaced = written.and_then(|()| Ok(rustix::fs::renameat(&folder, &new, &folder, name)?));
    if replaced.is_err() {
        _ = rustix::fs::unlinkat(&folder, new.as_str(), AtFlags::empty());
    }
    replaced
}

/// The bytes of a regular file of at most `limit` bytes, also through a link; never waits for a FIFO.
pub fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_at_most(open_following_links(path)?, limit)
}

/// The first `length` bytes of a regular file, also through a link.
pub fn read_beginning(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_following_links(path)?.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_following_links(path: &Path) -> io::Result<File> {
    // Opening a device may have side effects: the type is checked before opening, and again after.
    if !fs::metadata(path)?.is_file() {
        return Err(not_regular_error());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    require_regular_file(rustix::fs::openat(CWD, path, flags, Mode::empty())?.into())
}

fn read_at_most(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("has more than {limit} bytes; make it shorter")));
    }
    Ok(bytes)
}

/// The text of a regular file of at most [`SMALL_FILE_LIMIT`] bytes, also through a link.
pub fn read_small_text(path: &Path) -> io::Result<String> {
    utf8_text(read_small(path, SMALL_FILE_LIMIT)?)
}

/// The same text; fails if the path is a link.
pub fn read_small_text_without_links(path: &Path) -> io::Result<String> {
    utf8_text(read_at_most(
        open_file(path).map_err(|error| name_link(error, path))?,
        SMALL_FILE_LIMIT,
    )?)
}

fn utf8_text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is not UTF-8 text"))
}

fn require_regular_file(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(not_regular_error()) }
}

fn not_regular_error() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file; remove it")
}

/// A path resolved so that processes that can write in some places cannot redirect it: links are followed
/// until the path is in one of the places, and not from there on.
#[derive(Debug)]
pub struct ResolvedPath {
    /// To be opened without following links if `is_inside`.
    pub path: PathBuf,
    pub is_inside: bool,
    /// Directories in a place that are followed by `..`. For a link, the system goes up from its target.
    up_from: Vec<PathBuf>,
    links: Vec<PathBuf>,
}

impl ResolvedPath {
    /// Resolves a path. The places must be canonical.
    pub fn resolve(path: &Path, places: &[PathBuf]) -> Self {
        // The limit of the Linux kernel.
        const MAX_LINKS: usize = 40;
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let is_inside = |path: &Path| places.iter().any(|place| path.starts_with(place));
        let (mut end, mut up_from, mut links) = (PathBuf::from("/"), Vec::new(), Vec::new());
        let mut left: Vec<OsString> = whole.iter().rev().map(OsStr::to_owned).collect();
        while let Some(name) = left.pop() {
            if name == "/" {
                end = PathBuf::from("/");
            } else if name == ".." {
                // (A place is not a link, unless it is inside another one.)
                if places.iter().any(|place| end != *place && end.starts_with(place)) {
                    up_from.push(end.clone());
                }
                end.pop();
            } else if name != "." {
                end.push(&name);
                if !is_inside(&end)
                    && links.len() < MAX_LINKS
                    && let Ok(target) = fs::read_link(&end)
                    && is_real_target(&end, &target)
                {
                    links.push(end.clone());
                    end.pop();
                    left.extend(target.iter().rev().map(OsStr::to_owned));
                }
            }
        }
        Self { is_inside: is_inside(&end), path: end, up_from, links }
    }

    /// Whether processes that can write in one of the places may redirect the path.
    pub fn is_redirectable(&self) -> bool {
        self.is_inside || !self.up_from.is_empty()
    }

    /// The links that were followed, each without links in its own path.
    pub fn links(&self) -> &[PathBuf] {
        &self.links
    }

    /// Whether it leads each process elsewhere (`/proc/self/cwd`).
    pub fn depends_on_process(&self) -> bool {
        let mut of_processes = self.links.iter().filter(|link| link.starts_with("/proc"));
        of_processes.any(|link| link.ends_with("cwd") || link.ends_with("root"))
    }

    /// Opens or creates the file for writing; inside a place it must be regular, without links in its path.
    pub fn open_for_write(&self) -> io::Result<File> {
        self.check_still_valid()?;
        if self.is_inside {
            let flags = OFlags::WRONLY | OFlags::CREATE;
            return open_regular(&self.path, flags, Mode::from_raw_mode(0o666));
        }
        File::options().write(true).create(true).truncate(false).open(&self.path)
    }

    /// Creates the file, where nothing exists.
    pub fn create_file(&self) -> io::Result<File> {
        self.check_still_valid()?;
        create_file(&self.path, 0o666)
    }

    /// Creates a folder, where nothing exists.
    pub fn create_folder(&self) -> io::Result<()> {
        self.check_still_valid()?;
        if self.is_inside {
            return create_folder(&self.path, 0o777).map_err(|error| name_link(error, &self.path));
        }
        fs::create_dir(&self.path)
    }

    /// Creates the folder and its parents, unless it exists.
    pub fn create_folder_all(&self) -> io::Result<()> {
        self.check_still_valid()?;
        if self.is_inside {
            return create_folder_all(&self.path, 0o777).map(drop);
        }
        fs::create_dir_all(&self.path)
    }

    /// Fails if the system now resolves the path differently.
    fn check_still_valid(&self) -> io::Result<()> {
        let is_folder = |path: &Path| metadata_without_links(path).is_ok_and(|data| data.is_dir());
        match self.up_from.iter().find(|folder| !is_folder(folder)) {
            None => Ok(()),
            Some(folder) => {
                let why = match folder.symlink_metadata() {
                    Ok(data) if data.is_symlink() => {
                        "is a link, which a command may have put there"
                    }
                    Ok(_) | Err(_) => "is not a folder",
                };
                let folder = folder.display();
                Err(io::Error::other(format!(
                    "goes up (..) from {folder}, which {why}: name the file without `..`"
                )))
            }
        }
    }
}

/// In /proc a target may be no path (`pipe:[7]`), or one where another file exists now.
fn is_real_target(link: &Path, target: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |path: &Path| fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let named = || link.parent().and_then(|folder| id(&folder.join(target)));
    !link.starts_with("/proc") || named().is_some() && id(link) == named()
}

/// The path of [`ResolvedPath::resolve`].
pub fn resolve_outside(path: &Path, places: &[PathBuf]) -> PathBuf {
    ResolvedPath::resolve(path, places).path
}

/// Whether the path passes through one of these places.
pub fn passes_through(path: &Path, places: &[PathBuf]) -> bool {
    ResolvedPath::resolve(path, places).is_redirectable()
}

/// The entries of a `PATH` that are absolute and outside these places; `None` if none is left.
pub fn filter_search_path(list: &OsStr, places: &[PathBuf]) -> Option<OsString> {
    let is_allowed = |folder: &PathBuf| folder.is_absolute() && !passes_through(folder, places);
    let allowed = std::env::join_paths(std::env::split_paths(list).filter(is_allowed));
    allowed.ok().filter(|allowed| !allowed.is_empty())
}

/// The system's temporary folder, or another one, outside these places.
pub fn temporary_folder(places: &[PathBuf]) -> PathBuf {
    let all = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let mut candidates = all.iter().map(|folder| ResolvedPath::resolve(folder, places));
    let usable =
        candidates.find(|candidate| !candidate.is_redirectable() && candidate.path.is_dir());
    usable.map_or_else(|| resolve_outside(&all[0], places), |candidate| candidate.path)
}

/// Like [`canonical_prefix`] for many paths: each directory is resolved once.
#[derive(Debug, Default)]
pub struct LinkResolver(HashMap<OsString, CachedResolution, FixedState>);

#[derive(Clone, Debug)]
struct CachedResolution {
    path: PathBuf,
    /// True also if the check fails.
    exists: bool,
}

impl LinkResolver {
    /// The path with its links resolved.
    pub fn resolve(&mut self, path: &Path) -> PathBuf {
        self.resolve_cached(path).path
    }

    fn resolve_cached(&mut self, path: &Path) -> CachedResolution {
        if let Some(cached) = self.0.get(path.as_os_str()) {
            return cached.clone();
        }
        let resolved = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => {
                let parent = self.resolve_cached(parent);
                let plain = parent.path.join(name);
                // Nothing is looked up below a folder that does not exist.
                match parent.exists.then(|| fs::symlink_metadata(&plain)) {
                    Some(Ok(data)) if data.is_symlink() => {
                        CachedResolution { path: canonical_prefix(&plain), exists: true }
                    }
                    Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                        CachedResolution { path: plain, exists: true }
                    }
                    found => CachedResolution { path: plain, exists: matches!(found, Some(Ok(_))) },
                }
            }
            // The root, or a path with `..` at its end.
            _ => CachedResolution { path: canonical_prefix(path), exists: true },
        };
        self.0.insert(path.as_os_str().to_owned(), resolved.clone());
        resolved
    }
}

/// The path with all of its links resolved, even if a target does not exist.
pub fn canonical_prefix(path: &Path) -> PathBuf {
    resolve_outside(path, &[])
}
