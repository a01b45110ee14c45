//! Opening what others may have put something else in the place of: no symlink on the way, nothing but regular
//! files, no waiting, a limit.
//!
//! A project is written by its commands, and by whoever made the repository. The agent's own files are opened with no
//! link on the way ([`open`], [`make_folder`], [`create`], [`append`]); what is read of a project before the user has
//! seen it, by [`read_small`].

pub(crate) mod repository;
pub(crate) mod without_links;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

/// A file that says where something is, or what is wanted, has fewer bytes than this.
pub(crate) const SMALL: u64 = 4 << 20;

const FOLDER: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens with no symlink on the way and none at the end.
pub(crate) fn open(path: &Path, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    Ok(without_links::open_to_make(path, flags | OFlags::NOFOLLOW, mode)?)
}

/// What is there, with no link on the way to it; of a link at its end what that is itself.
pub(crate) fn look_at(path: &Path) -> io::Result<Metadata> {
    File::from(open(path, OFlags::PATH, Mode::empty())?).metadata()
}

/// Opens a directory to work in it.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    open(path, FOLDER, Mode::empty())
}

/// Opens a directory, which is made with its parents where it is not there.
pub(crate) fn make_folder(path: &Path, mode: u32) -> io::Result<OwnedFd> {
    match open_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other.map_err(|error| named(error, path)),
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let parent = make_folder(parent, mode)?;
    match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(mode)) {
        // (Somebody else may have been quicker.)
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let folder = rustix::fs::openat(&parent, name, FOLDER, Mode::empty());
    folder.map_err(|error| named(error.into(), path))
}

/// Makes a directory where there is nothing yet.
pub(crate) fn new_folder(path: &Path, mode: u32) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    Ok(rustix::fs::mkdirat(open_folder(parent)?, name, Mode::from_raw_mode(mode))?)
}

/// A path to what is open, wherever that lies by now.
pub(crate) fn by_descriptor(opened: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()))
}

/// Removes a directory with all that is in it; what a link on the way leads to is not the agent's.
pub(crate) fn remove_folder(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let parent = open_folder(parent)?;
    empty(&open_up(&parent, name)?, 0)?;
    Ok(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)?)
}

/// So often a folder is looked through until nothing is in it: once for each level, if nobody adds to it.
const MOST_ROUNDS: usize = 1 << 20;
/// So many folders in each other are emptied where they are. What commands make can be moved.
const MOST_LEVELS: usize = 100;

/// Takes everything out of a folder. Folders in folders come up to it first: a command can make more levels than there
/// is room for on the stack, or than descriptors can be held. What somebody else takes out meanwhile is out.
fn empty(top: &OwnedFd, level: usize) -> io::Result<()> {
    let mut n_moved = 0_u64;
    for _ in 0..MOST_ROUNDS {
        let entries = entries(top)?;
        if entries.is_empty() {
            return Ok(());
        }
        for (name, is_folder) in entries {
            if !is_folder {
                gone(rustix::fs::unlinkat(top, &name, AtFlags::empty()))?;
                continue;
            }
            let Some(folder) = there(open_up(top, &name))? else { continue };
            for (inner, is_folder) in self::entries(&folder)? {
                if !is_folder {
                    gone(rustix::fs::unlinkat(&folder, &inner, AtFlags::empty()))?;
                    continue;
                }
                // (Who moves a folder has to be able to write it.)
                let Some(itself) = there(open_up(&folder, &inner))? else { continue };
                loop {
                    n_moved += 1;
                    let to = format!(".moved-{n_moved}");
                    match renameat_with(&folder, &inner, top, &to, RenameFlags::NOREPLACE) {
                        Err(Errno::EXIST) => {}
                        // Network file systems know no such flag.
                        Err(Errno::INVAL | Errno::NOSYS) => {
                            break gone(rustix::fs::renameat(&folder, &inner, top, &to))?;
                        }
                        // What an image brought stays where it is.
                        Err(Errno::XDEV) if level < MOST_LEVELS => {
                            empty(&itself, level + 1)?;
                            break gone(rustix::fs::unlinkat(&folder, &inner, AtFlags::REMOVEDIR))?;
                        }
                        other => break gone(other)?,
                    }
                }
            }
            gone(rustix::fs::unlinkat(top, &name, AtFlags::REMOVEDIR))?;
        }
    }
    Err(io::Error::other("somebody fills it while it is removed"))
}

/// Somebody else was quicker: then it is gone as well.
fn gone(removed: rustix::io::Result<()>) -> io::Result<()> {
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn there(opened: io::Result<OwnedFd>) -> io::Result<Option<OwnedFd>> {
    match opened {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens a folder in another, which its owner can look into and empty from now on: some programs write-protect what
/// they keep.
fn open_up(folder: &OwnedFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let itself = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    // Where that is not allowed, the rest says so.
    _ = fs::set_permissions(by_descriptor(&itself), fs::Permissions::from_mode(0o700));
    Ok(rustix::fs::openat(&itself, ".", FOLDER, Mode::empty())?)
}

/// The names in a folder, and which are folders.
fn entries(folder: &OwnedFd) -> io::Result<Vec<(OsString, bool)>> {
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

/// It says that nothing is there, or nothing that can be reached. Any other error says that something may be: a command
/// can close a folder above what is protected, and open it again later.
pub(crate) fn is_not_there(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        || error.raw_os_error() == Some(libc::ELOOP)
}

/// Where it leads, as far as that can be looked at; `None` where nothing is there.
pub(crate) fn real(path: &Path) -> Option<PathBuf> {
    match path.canonicalize() {
        Ok(real) => Some(real),
        Err(error) if is_not_there(&error) => None,
        Err(_) => Some(canonical_prefix(path)),
    }
}

/// A link in the way says where.
fn named(error: io::Error, path: &Path) -> io::Error {
    let is_link = |path: &&Path| fs::symlink_metadata(path).is_ok_and(|data| data.is_symlink());
    match path.ancestors().find(is_link) {
        Some(link) => io::Error::new(error.kind(), format!("{} is a link", link.display())),
        None => error,
    }
}

/// Makes a file in an open folder, where there is nothing of this name yet: no link either.
pub(crate) fn create_in(folder: &OwnedFd, name: &str) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::from_raw_mode(0o600))?.into())
}

/// The same by its path, with these permissions.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
    Ok(open(path, flags, Mode::from_raw_mode(mode))?.into())
}

/// Opens a regular file to write it, which is made where it is not there.
pub(crate) fn make_file(path: &Path) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NONBLOCK;
    let file = open(path, flags, Mode::from_raw_mode(0o666)).map_err(|error| named(error, path))?;
    regular(file.into())
}

/// Opens a regular file of the agent's own to write behind its end, and to read; `makes`: it is made where it is
/// not there.
pub(crate) fn append(path: &Path, makes: bool) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NONBLOCK;
    let file = if makes {
        open(path, flags | OFlags::CREATE, Mode::from_raw_mode(0o600))
    } else {
        open(path, flags, Mode::empty())
    };
    regular(file.map_err(|error| named(error, path))?.into())
}

/// Opens a regular file of the agent's own to read it.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    // NONBLOCK: a FIFO is not waited for.
    regular(open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty())?.into())
}

/// All of a file of the agent's own.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_file(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Puts these bytes in the place of a file of the agent's own, or of a link that somebody made there.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let folder = open_folder(parent)?;
    match rustix::fs::unlinkat(&folder, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    io::Write::write_all(&mut create_in(&folder, &name.to_string_lossy())?, bytes)
}

/// The bytes of a regular file with at most `limit` bytes, wherever a link leads to it: of a FIFO, a device and what
/// never ends nothing is read, and nobody waits for it.
pub(crate) fn read_small(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    at_most(open_wherever(path)?, limit)
}

/// The same of a longer one: its first bytes.
pub(crate) fn beginning(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_wherever(path)?.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn open_wherever(path: &Path) -> io::Result<File> {
    // To open a device may do something: what it is, is looked at first, and again when it is open.
    if !fs::metadata(path)?.is_file() {
        return Err(no_file());
    }
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    regular(rustix::fs::openat(CWD, path, flags, Mode::empty())?.into())
}

fn at_most(file: File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::other(format!("has more than {limit} bytes; make it shorter")));
    }
    Ok(bytes)
}

/// The same as text.
pub(crate) fn read_small_text(path: &Path) -> io::Result<String> {
    text(read_small(path, SMALL)?)
}

/// The same where no link leads to it.
pub(crate) fn read_small_text_without_links(path: &Path) -> io::Result<String> {
    text(at_most(open_file(path).map_err(|error| named(error, path))?, SMALL)?)
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is no UTF-8 text"))
}

fn regular(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(no_file()) }
}

fn no_file() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "is no regular file; take it away")
}

/// The way of a path, as far as nobody who writes in some places can lead it elsewhere: followed by whatever links until
/// it has come to one of the places, and from there on as it is written.
#[derive(Debug)]
pub(crate) struct Way {
    /// Where it ends; to be opened without links where that is inside.
    pub(crate) end: PathBuf,
    /// It ends in one of the places.
    pub(crate) is_inside: bool,
    /// What in a place it goes up from. Where a link stands there the system goes up from where that leads.
    up_from: Vec<PathBuf>,
    /// The links on it that were followed, each where it lies.
    links: Vec<PathBuf>,
}

impl Way {
    /// The places are canonical.
    pub(crate) fn of(path: &Path, places: &[PathBuf]) -> Self {
        // As many links as the kernel follows.
        const MOST_LINKS: usize = 40;
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let is_inside = |path: &Path| places.iter().any(|place| path.starts_with(place));
        let (mut end, mut up_from, mut links) = (PathBuf::from("/"), Vec::new(), Vec::new());
        let mut left: Vec<OsString> = whole.iter().rev().map(OsStr::to_owned).collect();
        while let Some(name) = left.pop() {
            if name == "/" {
                end = PathBuf::from("/");
            } else if name == ".." {
                // (A place itself is no link, but where it lies in another one.)
                if places.iter().any(|place| end != *place && end.starts_with(place)) {
                    up_from.push(end.clone());
                }
                end.pop();
            } else if name != "." {
                end.push(&name);
                if !is_inside(&end)
                    && links.len() < MOST_LINKS
                    && let Ok(target) = fs::read_link(&end)
                    && names_a_path(&end, &target)
                {
                    links.push(end.clone());
                    end.pop();
                    left.extend(target.iter().rev().map(OsStr::to_owned));
                }
            }
        }
        Self { is_inside: is_inside(&end), end, up_from, links }
    }

    /// It comes through one of the places: who writes there may lead it elsewhere, wherever it ends now.
    pub(crate) fn is_led(&self) -> bool {
        self.is_inside || !self.up_from.is_empty()
    }

    /// Opens what is at its end to write it from its beginning: a file that is made where it is not there. In a place that
    /// is a regular one, to which no link leads.
    pub(crate) fn open_to_write(&self) -> io::Result<File> {
        self.is_as_written()?;
        if self.is_inside {
            return make_file(&self.end);
        }
        File::options().write(true).create(true).truncate(false).open(&self.end)
    }

    /// Makes a file at its end, where there is nothing yet.
    pub(crate) fn create(&self) -> io::Result<File> {
        self.is_as_written()?;
        create(&self.end, 0o666)
    }

    /// Makes a folder at its end, where there is nothing yet.
    pub(crate) fn new_folder(&self) -> io::Result<()> {
        self.is_as_written()?;
        if self.is_inside {
            return new_folder(&self.end, 0o777).map_err(|error| named(error, &self.end));
        }
        fs::create_dir(&self.end)
    }

    /// The same with its parents, unless it is there.
    pub(crate) fn make_folder(&self) -> io::Result<()> {
        self.is_as_written()?;
        if self.is_inside {
            return make_folder(&self.end, 0o777).map(drop);
        }
        fs::create_dir_all(&self.end)
    }

    /// The system ends there now, too.
    fn is_as_written(&self) -> io::Result<()> {
        let is_folder = |path: &Path| look_at(path).is_ok_and(|data| data.is_dir());
        match self.up_from.iter().find(|folder| !is_folder(folder)) {
            None => Ok(()),
            Some(folder) => {
                let why = match folder.symlink_metadata() {
                    Ok(data) if data.is_symlink() => {
                        "is a link, which a command may have put there"
                    }
                    Ok(_) | Err(_) => "is no folder",
                };
                let folder = folder.display();
                Err(io::Error::other(format!(
                    "goes up (..) from {folder}, which {why}: name the file without `..`"
                )))
            }
        }
    }
}

/// What this link leads to is named by the path in it. In /proc that may be none (`pipe:[7]`), or one where something
/// else lies by now.
fn names_a_path(link: &Path, target: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let id = |path: &Path| fs::metadata(path).map(|data| (data.dev(), data.ino())).ok();
    let named = || link.parent().and_then(|folder| id(&folder.join(target)));
    !link.starts_with("/proc") || named().is_some() && id(link) == named()
}

/// The links by which a path is resolved, each where it lies.
pub(crate) fn links_on(path: &Path) -> Vec<PathBuf> {
    Way::of(path, &[]).links
}

/// Where the [`Way`] of this path ends.
pub(crate) fn settled(path: &Path, places: &[PathBuf]) -> PathBuf {
    Way::of(path, places).end
}

/// The way to it goes through one of these places.
pub(crate) fn is_below(path: &Path, places: &[PathBuf]) -> bool {
    Way::of(path, places).is_led()
}

/// Of a list of folders (`PATH`) those that are absolute and lie in none of these places; `None` where none is left.
pub(crate) fn without_places(list: &OsStr, places: &[PathBuf]) -> Option<OsString> {
    let is_kept = |folder: &PathBuf| folder.is_absolute() && !is_below(folder, places);
    let kept = std::env::join_paths(std::env::split_paths(list).filter(is_kept));
    kept.ok().filter(|kept| !kept.is_empty())
}

/// The system's folder for temporary files, or another one, that lies in none of these places.
pub(crate) fn temporary_folder(places: &[PathBuf]) -> PathBuf {
    let all = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
    let mut ways = all.iter().map(|folder| Way::of(folder, places));
    let usable = ways.find(|way| !way.is_led() && way.end.is_dir());
    usable.map_or_else(|| settled(&all[0], places), |way| way.end)
}

/// Resolves the links of many paths that lie in the same directories, like [`canonical_prefix`]: each directory is looked at
/// once.
#[derive(Debug, Default)]
pub(crate) struct Resolver(HashMap<PathBuf, PathBuf>);

impl Resolver {
    pub(crate) fn resolve(&mut self, path: &Path) -> PathBuf {
        if let Some(known) = self.0.get(path) {
            return known.clone();
        }
        let real = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) => {
                let plain = self.resolve(parent).join(name);
                if plain.is_symlink() { canonical_prefix(&plain) } else { plain }
            }
            // The root, or a path with `..` at its end.
            _ => canonical_prefix(path),
        };
        self.0.insert(path.to_owned(), real.clone());
        real
    }
}

/// The path with all of its links resolved, also where what they lead to is not there.
pub(crate) fn canonical_prefix(path: &Path) -> PathBuf {
    settled(path, &[])
}
