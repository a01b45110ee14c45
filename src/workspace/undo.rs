//! What files were before a turn changed them, so that the turn can be taken back, also outside git.
//!
//! Per session and turn a folder with a journal (`journal.jsonl`, written before the change) and the old
//! files themselves. Where it can be, an old file is kept by a link to it: no byte is copied, and what a
//! program that still has it open writes there late is found at the end of the turn.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD};
use serde::{Deserialize, Serialize};

use super::replace::{New, unmake};
use super::snapshot::{FileStat, Snapshot, hash, hash_of};
use super::{ProjectPath, Workspace, io_failure};
use crate::disk;
use crate::protocol::envelope::{ErrorCode, Failure};

const JOURNAL: &str = "journal.jsonl";
/// In place of a hash: the file is gone.
const GONE: &str = "";
/// Larger files are not copied because a command might change them.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// What of a mode comes back: no program is given its owner's rights by an undo.
const PERMISSIONS: u32 = 0o777;

/// The undo store of one session.
#[derive(Debug)]
pub(super) struct Undo {
    folder: PathBuf,
    turn: Mutex<Turn>,
}

/// The turn that is under way.
#[derive(Debug, Default)]
struct Turn {
    number: u32,
    /// What was kept, by path.
    kept: HashMap<String, Option<Before>>,
    next: u32,
}

/// An old file in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Before {
    /// Its name in the turn's folder.
    file: String,
    /// The hash of what it was.
    hash: String,
}

impl Before {
    fn is_in_its_folder(&self) -> bool {
        self.file.bytes().all(|byte| byte.is_ascii_digit())
    }
}

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum Line {
    /// A file is about to be changed for the first time in the turn; without `before` it is created.
    First { path: String, before: Option<Before>, after: String },
    /// A folder is about to be made for a file that is created.
    Folder { path: String },
    /// It is about to be changed again.
    Again { path: String, after: String },
    /// The change that was announced last for this path was not made.
    Void { path: String },
    /// The turn was undone.
    Undone,
}

/// What became of one file when its turn was undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    /// It is as it was before the turn.
    Restored,
    /// The turn had created it; it is gone.
    Removed,
    /// It already was as before the turn.
    AsBefore,
    /// It was left as it is; why.
    Refused(String),
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restored => f.write_str("restored"),
            Self::Removed => f.write_str("removed"),
            Self::AsBefore => f.write_str("already as before"),
            Self::Refused(why) => write!(f, "left as it is: {why}"),
        }
    }
}

/// A program wrote to an old file after it had been replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateWrite {
    /// The file that was replaced.
    pub path: String,
    /// Where its late bytes lie.
    pub kept: PathBuf,
}

/// Files that were kept before a command ran.
#[derive(Debug, Default)]
#[must_use]
pub struct Kept {
    files: Vec<KeptFile>,
}

impl Kept {
    /// Nothing had to be kept.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

#[derive(Debug)]
struct KeptFile {
    path: ProjectPath,
    /// The hash of what it was; `None` where there was nothing.
    before: Option<String>,
    was_first: bool,
}

/// What a turn did.
#[derive(Debug, Default)]
struct Deeds {
    /// By path.
    files: BTreeMap<String, Changed>,
    /// Those that it made for files of its own.
    folders: BTreeSet<String>,
}

/// What a turn did to one file.
#[derive(Debug)]
struct Changed {
    before: Option<Before>,
    /// The hashes that the file had after each change that was announced.
    after: Vec<String>,
}

impl Undo {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder, turn: Mutex::default() }
    }

    fn turn(&self) -> MutexGuard<'_, Turn> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder_of(&self, turn: u32) -> PathBuf {
        self.folder.join(format!("turn-{turn}"))
    }

    fn write(&self, turn: u32, line: &Line) -> io::Result<()> {
        let mut file = disk::append(&self.folder_of(turn).join(JOURNAL), true)?;
        file.write_all(format!("{}\n", serde_json::to_string(line)?).as_bytes())
    }

    /// Keeps what a file is before it is changed, and announces the change.
    fn keep(&self, path: &str, old: Option<Old<'_>>, after: String) -> io::Result<()> {
        let mut turn = self.turn();
        let number = turn.number;
        if turn.kept.contains_key(path) {
            return self.write(number, &Line::Again { path: path.to_owned(), after });
        }
        let folder = disk::make_folder(&self.folder_of(number), 0o700)?;
        let before = match old {
            None => None,
            Some(old) => {
                let file = loop {
                    turn.next += 1;
                    let file = format!("{:04}", turn.next);
                    match old.store(&folder, &file) {
                        // Whatever somebody put there is left alone.
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        stored => break stored.map(|()| file)?,
                    }
                };
                Some(Before { file, hash: old.hash.to_owned() })
            }
        };
        let line = Line::First { path: path.to_owned(), before: before.clone(), after };
        self.write(number, &line)?;
        turn.kept.insert(path.to_owned(), before);
        Ok(())
    }

    /// The change that was announced last was not made.
    fn void(&self, path: &str, was_first: bool) {
        let mut turn = self.turn();
        // Should this fail, an undo refuses the file: its bytes are not those that were announced.
        _ = self.write(turn.number, &Line::Void { path: path.to_owned() });
        if was_first && let Some(Some(before)) = turn.kept.remove(path) {
            _ = disk::open_folder(&self.folder_of(turn.number))
                .map(|folder| rustix::fs::unlinkat(folder, before.file, AtFlags::empty()));
        }
    }

    /// What the turn did; `None`: it changed no file, or is undone already.
    fn read(&self, turn: u32) -> io::Result<Option<Deeds>> {
        let text = match disk::read(&self.folder_of(turn).join(JOURNAL)) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut deeds = Deeds::default();
        let changed = &mut deeds.files;
        // A torn last line announced a change that never was.
        for line in text.lines().map_while(|line| serde_json::from_str(line).ok()) {
            match line {
                // Where the journal can be written by commands, it could name any file of the user's.
                Line::First { before: Some(before), .. } if !before.is_in_its_folder() => {}
                Line::First { path, before, after } => {
                    changed.insert(path, Changed { before, after: vec![after] });
                }
                Line::Folder { path } => {
                    deeds.folders.insert(path);
                }
                Line::Again { path, after } => {
                    changed.entry(path).and_modify(|file| file.after.push(after));
                }
                Line::Void { path } => {
                    if let Some(file) = changed.get_mut(&path) {
                        file.after.pop();
                        if file.after.is_empty() {
                            changed.remove(&path);
                        }
                    }
                }
                Line::Undone => return Ok(None),
            }
        }
        Ok((!deeds.files.is_empty()).then_some(deeds))
    }
}

/// A file that is about to be replaced, open: its name may lead elsewhere the next moment.
#[derive(Clone, Copy)]
pub(super) struct Old<'a> {
    pub(super) file: &'a File,
    pub(super) data: &'a Metadata,
    pub(super) hash: &'a str,
    /// It may be written in place: a link to it would change with it.
    pub(super) is_copied: bool,
}

/// The hash of a file that is there, in little memory.
fn hash_of_file(mut file: &File) -> Option<String> {
    hash_of(&mut file, &AtomicBool::new(false)).ok()
}

impl Old<'_> {
    fn store(&self, folder: &OwnedFd, name: &str) -> io::Result<()> {
        // Under another name of its own it could still be changed by honest means.
        let has_one_name = self.data.nlink() == 1;
        if has_one_name && !self.is_copied && self.link(folder, name).is_ok() {
            return Ok(());
        }
        let mut from = self.file;
        from.rewind()?;
        let mut to = disk::create_in(folder, name)?;
        io::copy(&mut from, &mut to)?;
        to.set_permissions(Permissions::from_mode(self.data.mode() & PERMISSIONS))
    }

    fn link(&self, folder: &OwnedFd, name: &str) -> rustix::io::Result<()> {
        let opened = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        rustix::fs::linkat(CWD, opened, folder, name, AtFlags::SYMLINK_FOLLOW)
    }
}

impl Workspace {
    /// Keeps what files were before a turn changes them, in this folder.
    #[must_use]
    pub fn with_undo(mut self, folder: PathBuf) -> Self {
        self.undo = Some(Undo::new(folder));
        self
    }

    /// From now on changes belong to this turn.
    pub fn begin_turn(&self, turn: u32) {
        if let Some(undo) = &self.undo {
            *undo.turn() = Turn { number: turn, ..Turn::default() };
        }
    }

    /// Looks once more at the files that the turn replaced: what a program that had one of them open
    /// wrote there late is in no file of the project.
    pub fn end_turn(&self) -> Vec<LateWrite> {
        let Some(undo) = &self.undo else { return Vec::new() };
        let turn = undo.turn();
        let folder = undo.folder_of(turn.number);
        let mut late: Vec<LateWrite> = turn
            .kept
            .iter()
            .filter_map(|(path, before)| {
                let before = before.as_ref()?;
                let kept = folder.join(&before.file);
                let now = hash_of_file(&disk::open_file(&kept).ok()?)?;
                (now != before.hash).then(|| LateWrite { path: path.clone(), kept })
            })
            .collect();
        late.sort_by(|a, b| a.path.cmp(&b.path));
        late
    }

    /// The very file that stands there is kept for the turn: what a program writes to it late is found.
    pub(super) fn keeps_itself(&self, path: &ProjectPath, data: &fs::Metadata) -> bool {
        let Some(undo) = &self.undo else { return false };
        let turn = undo.turn();
        let Some(Some(before)) = turn.kept.get(path.relative()) else { return false };
        let kept = disk::look_at(&undo.folder_of(turn.number).join(&before.file));
        kept.is_ok_and(|kept| (kept.dev(), kept.ino()) == (data.dev(), data.ino()))
    }

    /// Runs a change of an `old` file (`None`: of one that is created) with what is to be undone kept
    /// first; a change that fails is taken out again.
    pub(super) fn undoable<T>(
        &self,
        path: &ProjectPath,
        old: Option<Old<'_>>,
        after: &New<'_>,
        change: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(undo) = &self.undo else { return change() };
        let name = path.relative();
        let was_first = !undo.turn().kept.contains_key(name);
        let kept = undo.keep(name, old, after.hash().to_owned()).and_then(|()| {
            let folders = path.absolute().ancestors().skip(1).take_while(|folder| !folder.exists());
            let number = undo.turn().number;
            folders
                .map(|folder| Line::Folder { path: self.display(folder) })
                .try_for_each(|line| undo.write(number, &line))
        });
        kept.map_err(|error| {
            let failure = io_failure(&error, "keep the old content of", name);
            failure.hint("nothing was changed; make room, or run without keeping a session")
        })?;
        let changed = change();
        if changed.is_err() {
            undo.void(name, was_first);
        }
        changed
    }

    /// Keeps what these files are before a command runs that may take them away, overwrite or create
    /// them. Of a large file only the name is kept: that holds where it is taken away, and where it is
    /// overwritten in place an undo refuses it. What no undo may touch is not kept.
    pub fn keep(&self, paths: &[String]) -> Result<Kept, Failure> {
        let mut kept = Kept::default();
        let Some(undo) = &self.undo else { return Ok(kept) };
        for path in paths {
            let path = self.resolve(path)?;
            if self.check_writable(&path).is_err() {
                continue;
            }
            let before = if self.exists(&path) {
                let (mut file, data) = self.open_file(&path)?;
                let hash = hash_of(&mut file, &AtomicBool::new(false))
                    .map_err(|error| io_failure(&error, "read", path.relative()))?;
                Some((file, data, hash))
            } else {
                None
            };
            let was_first = !undo.turn().kept.contains_key(path.relative());
            let old = before.as_ref().map(|(file, data, hash)| {
                let is_copied = data.len() <= MOST_BYTES;
                Old { file, data, hash, is_copied }
            });
            undo.keep(path.relative(), old, GONE.to_owned()).map_err(|error| {
                let failure = io_failure(&error, "keep the old content of", path.relative());
                failure.hint("nothing was run; make room, or run without keeping a session")
            })?;
            let before = before.map(|(_, _, hash)| hash);
            kept.files.push(KeptFile { path, before, was_first });
        }
        Ok(kept)
    }

    /// Notes what became of them.
    pub fn release(&self, kept: Kept) {
        let Some(undo) = &self.undo else { return };
        for KeptFile { path, before, was_first } in kept.files {
            // What can no longer be read is taken to be gone: an undo then refuses to overwrite it.
            let now = self.open_file(&path).ok().and_then(|(file, _)| hash_of_file(&file));
            if now == before {
                undo.void(path.relative(), was_first);
            } else if let Some(after) = now {
                let number = undo.turn().number;
                // Should this fail, an undo refuses the file.
                let path = path.relative().to_owned();
                _ = undo.write(number, &Line::Again { path, after });
            }
        }
    }

    /// The latest turn that changed files and is not undone.
    pub fn last_changing_turn(&self) -> Option<u32> {
        let undo = self.undo.as_ref()?;
        disk::open_folder(&undo.folder).ok()?;
        let turns = fs::read_dir(&undo.folder).ok()?.flatten();
        let mut turns: Vec<u32> = turns
            .filter_map(|entry| entry.file_name().to_str()?.strip_prefix("turn-")?.parse().ok())
            .collect();
        turns.sort_unstable();
        turns.into_iter().rev().find(|turn| undo.read(*turn).is_ok_and(|files| files.is_some()))
    }

    /// Takes a turn back: file by file to what it was before. A file that somebody changed since is
    /// left alone, unless `force` insists.
    pub fn undo(&self, turn: u32, force: bool) -> Result<Vec<(String, Undone)>, Failure> {
        let nothing = || {
            Failure::new(ErrorCode::NotFound, format!("turn {turn} changed no file, or is undone"))
        };
        let undo = self.undo.as_ref().ok_or_else(nothing)?;
        let journal = undo.folder_of(turn);
        let shown = journal.display().to_string();
        let deeds = undo.read(turn).map_err(|error| io_failure(&error, "read", &shown))?;
        let deeds = deeds.ok_or_else(nothing)?;
        let mut done = Vec::new();
        for (name, changed) in deeds.files {
            let how = self
                .to_undo(&name)
                .and_then(|path| self.undo_one(&path, &changed, &journal, force))
                .unwrap_or_else(|failure| Undone::Refused(failure.message));
            done.push((name, how));
        }
        // The innermost first. What holds anything, is a link now or may not be touched stays.
        for name in deeds.folders.iter().rev() {
            if let Ok(folder) = self.to_undo(name)
                && folder.relative() == name
            {
                unmake(folder.absolute());
            }
        }
        if !done.iter().any(|(_, how)| matches!(how, Undone::Refused(_))) {
            let written = undo.write(turn, &Line::Undone);
            written.map_err(|error| io_failure(&error, "write", &shown))?;
        }
        Ok(done)
    }

    /// A path of the journal. Who can write that (a clone brings one, with Landlock alone a command writes it) could
    /// name anything: an undo changes what the file tools may change, and nothing else.
    fn to_undo(&self, name: &str) -> Result<ProjectPath, Failure> {
        let path = self.resolve(name)?;
        self.check_writable(&path)?;
        Ok(path)
    }

    fn undo_one(
        &self,
        path: &ProjectPath,
        changed: &Changed,
        folder: &Path,
        force: bool,
    ) -> Result<Undone, Failure> {
        let failed = |error: io::Error| io_failure(&error, "restore", path.relative());
        let now = if self.exists(path) {
            let (mut file, data) = self.open_file(path)?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(failed)?;
            Some(Snapshot::new(FileStat::of(&data), &bytes))
        } else {
            None
        };
        let now_hash = now.as_ref().map(|now| now.hash.as_str());
        let before_hash = changed.before.as_ref().map(|before| before.hash.as_str());
        if now_hash == before_hash {
            return Ok(Undone::AsBefore);
        }
        let is_ours = now_hash.unwrap_or(GONE) == changed.after.last().map_or(GONE, String::as_str);
        if !is_ours && !force {
            let what = if now.is_some() { "changed" } else { "deleted" };
            return Ok(Undone::Refused(format!("somebody {what} it since; --force insists")));
        }
        let Some(before) = &changed.before else {
            remove(path).map_err(failed)?;
            return Ok(Undone::Removed);
        };
        let kept = folder.join(&before.file);
        let mut old = disk::open_file(&kept).map_err(failed)?;
        let mut bytes = Vec::new();
        old.read_to_end(&mut bytes).map_err(failed)?;
        if hash(&[&bytes]) != before.hash {
            let kept = kept.display();
            return Ok(Undone::Refused(format!(
                "a program wrote to the old file after it was replaced; that lies in {kept}"
            )));
        }
        match now {
            Some(now) => drop(self.swap(path, &now, &New::of(&[&bytes]))?),
            None => {
                let mode = old.metadata().map_err(failed)?.mode() & PERMISSIONS;
                drop(self.place(path, &New::of(&[&bytes]), Some(mode))?);
            }
        }
        Ok(Undone::Restored)
    }
}

/// Takes away a file; not one behind a link that was put in the way meanwhile.
fn remove(path: &ProjectPath) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.absolute().parent(), path.absolute().file_name()) else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    Ok(rustix::fs::unlinkat(disk::open_folder(parent)?, name, AtFlags::empty())?)
}
