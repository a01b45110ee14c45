//! What commands may read where nothing is covered: with Landlock alone.
//!
//! Landlock only ever adds rights, so all that lies beside a hidden path is named: as root some 180 rules. They are a
//! layer of their own, apart from what a command may write, because they are the same for command after command:
//! they are made once, and again when something has changed beside what is hidden.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use landlock::{AccessFs, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};

use super::plan::{Bytes, FileId};
use crate::disk::without_links;

/// Two changes of a folder this close may have the same time (the coarsest clock of a file system, in seconds).
const COARSEST: i64 = 2;

/// What is not to be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Hidden {
    pub(super) paths: Vec<Bytes>,
    /// Files of those, by which they are known under other names.
    pub(super) files: Vec<FileId>,
    /// What lies in them and may be read all the same.
    pub(super) spared: Vec<PathBuf>,
    /// What commands work in: known to be there, also where the folders above can not be listed.
    pub(super) places: Vec<PathBuf>,
}

/// The layer, and what it holds for.
#[derive(Debug)]
pub(super) struct Readable {
    layer: Arc<OwnedFd>,
    hidden: Hidden,
    /// Folders in which something hidden lies: what is new there has no rule.
    above: Vec<Above>,
    spared: Vec<Option<FileId>>,
    /// Says when something was mounted: what a rule is for may lie below it then.
    mounts: File,
    /// No folder changed so shortly before that another change could look the same.
    is_settled: bool,
}

impl Readable {
    pub(super) fn of(hidden: Hidden) -> io::Result<Self> {
        let mounts = File::open("/proc/self/mountinfo")?;
        let spared = hidden.spared.iter().map(|path| id(path)).collect();
        let all = Path::new("/");
        let Carved { free, above } = carve(all, &hidden.paths, &hidden.files, &hidden.places);
        let free: Vec<&PathBuf> = free.iter().chain(&hidden.spared).collect();
        let layer = layer(all, &free, &hidden.files)
            .map_err(|error| io::Error::other(error.to_string()))?;
        let layer = layer.ok_or_else(|| io::Error::other("the kernel has no Landlock"))?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let now = i64::try_from(now).unwrap_or(i64::MAX);
        let is_settled = above.iter().all(|folder| folder.changed.0 < now - COARSEST);
        Ok(Self { layer: Arc::new(layer), hidden, above, spared, mounts, is_settled })
    }

    /// It would be made the same for these.
    pub(super) fn is_for(&self, hidden: &Hidden) -> bool {
        let is_same = |folder: &Above| Above::look(&folder.path).as_ref() == Some(folder);
        self.is_settled
            && self.hidden == *hidden
            && self.above.iter().all(is_same)
            && self.hidden.spared.iter().map(|path| id(path)).eq(self.spared.iter().copied())
            && !has_news(&self.mounts)
    }

    /// For a process to restrict itself by.
    pub(super) fn layer(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.layer)
    }
}

/// Since it was opened.
fn has_news(mounts: &File) -> bool {
    let mut one = [PollFd::from_borrowed_fd(mounts.as_fd(), PollFlags::PRI)];
    poll(&mut one, Some(&Timespec::default())).is_err()
        || one[0].revents().intersects(PollFlags::PRI | PollFlags::ERR)
}

fn layer(
    all: &Path,
    free: &[&PathBuf],
    hidden: &[FileId],
) -> Result<Option<OwnedFd>, Box<dyn std::error::Error>> {
    let read = AccessFs::ReadFile | AccessFs::Execute;
    // A layer that does not know of moves forbids them; that nothing is moved to where it can be read it sees to.
    let mut layer = Ruleset::default().handle_access(read | AccessFs::Refer)?.create()?;
    layer = layer.add_rule(PathBeneath::new(open(all)?, BitFlags::from(AccessFs::Refer)))?;
    for path in free {
        let Ok(descriptor) = open(path) else { continue };
        // What was looked at may have another name by now, and this one be that of a secret.
        let Ok(stat) = rustix::fs::fstat(&descriptor) else { continue };
        let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
        if !is_link && !hidden.contains(&(stat.st_dev, stat.st_ino)) {
            layer = layer.add_rule(PathBeneath::new(descriptor, read))?;
        }
    }
    Ok(layer.into())
}

/// To name it in a rule.
pub(super) fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(without_links::open(path, OFlags::PATH | OFlags::NOFOLLOW)?)
}

/// A folder without what is hidden in it.
#[derive(Default)]
pub(super) struct Carved {
    /// All the rest, in as few paths as there can be.
    pub(super) free: Vec<PathBuf>,
    /// The folders in which something hidden lies.
    pub(super) above: Vec<Above>,
}

/// A folder as it was before its entries were read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Above {
    pub(super) path: PathBuf,
    id: FileId,
    /// Seconds and nanoseconds; of all its times nobody can set this one.
    changed: (i64, i64),
}

impl Above {
    fn look(path: &Path) -> Option<Self> {
        let metadata = fs::symlink_metadata(path).ok()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Some(Self { path: path.to_owned(), id: id_of(&metadata), changed })
    }
}

/// What stands beside a hidden path is named, and the path itself is not. Of a hidden file no other name in the same
/// folder is, either.
pub(super) fn carve(
    folder: &Path,
    hidden: &[Bytes],
    files: &[FileId],
    known: &[PathBuf],
) -> Carved {
    let mut carved = Carved::default();
    carve_into(&mut carved, folder.to_owned(), hidden, files, known);
    carved
}

fn carve_into(
    carved: &mut Carved,
    folder: PathBuf,
    hidden: &[Bytes],
    files: &[FileId],
    known: &[PathBuf],
) {
    if !hidden.iter().any(|path| path.0.starts_with(&folder)) {
        carved.free.push(folder);
        return;
    }
    let Some(above) = Above::look(&folder) else { return };
    for path in inside(&folder, hidden, known) {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        // What is reached by a link is read where it lies, which has a rule or is hidden.
        let is_left_out = metadata.is_symlink()
            || hidden.iter().any(|hidden| hidden.0 == path)
            || files.contains(&id_of(&metadata));
        if !is_left_out {
            carve_into(carved, path, hidden, files, known);
        }
    }
    carved.above.push(above);
}

/// What is in a folder: of one that can not be listed (`/home`, say) what is known to lie there.
fn inside(folder: &Path, hidden: &[Bytes], known: &[PathBuf]) -> BTreeSet<PathBuf> {
    if let Ok(entries) = fs::read_dir(folder) {
        return entries.flatten().map(|entry| entry.path()).collect();
    }
    let known = hidden.iter().map(|path| &path.0).chain(known);
    let below = known.filter_map(|path| path.strip_prefix(folder).ok());
    below.filter_map(|path| Some(folder.join(path.components().next()?))).collect()
}

fn id(path: &Path) -> Option<FileId> {
    fs::symlink_metadata(path).ok().map(|metadata| id_of(&metadata))
}

fn id_of(metadata: &Metadata) -> FileId {
    (metadata.dev(), metadata.ino())
}
