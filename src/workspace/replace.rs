//! Putting a new file in the place of an old one, or of none, so that nothing is lost.
//!
//! The new bytes are written beside the target and swapped with it in one step; then what came out
//! is looked at. If it is not what was read, the two are swapped back. A crash at any instant leaves
//! the old file or the new one, whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::open::is_read_only;
use super::snapshot::{FileStat, MAX_KEPT, Snapshot, hash};
use super::{ProjectPath, Workspace, io_failure};
use crate::disk;
use crate::protocol::envelope::{ErrorCode, Failure};

mod beside;
#[cfg(test)]
mod tests;
mod writers;

use beside::{Beside, Held, Temporary, WrittenInto};

/// How often another process may put a new file there while its last one is given back.
const MAX_SWAPS: usize = 1000;
/// So long a program may have a file open for writing until it is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a successful change leaves to be said.
#[derive(Clone, Debug)]
pub struct Change {
    /// The file as it is now; the ledger knows it already.
    pub snapshot: Snapshot,
    /// The old file had other names (hard links); they still lead to the old content.
    pub split_hard_link: bool,
}

/// What a file is to be, in pieces that stand one after the other: one that is large and changes in one
/// place is not put together anew.
pub(super) struct New<'a> {
    pub(super) pieces: &'a [&'a [u8]],
    hash: OnceLock<String>,
}

impl<'a> New<'a> {
    pub(super) fn of(pieces: &'a [&'a [u8]]) -> Self {
        Self { pieces, hash: OnceLock::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.len()).sum()
    }

    /// The hash of its bytes, made when it is first asked for.
    pub(super) fn hash(&self) -> &str {
        self.hash.get_or_init(|| hash(self.pieces))
    }
}

impl Workspace {
    /// Replaces the content of an existing file that is what was `seen` by these pieces, one after the
    /// other; else `CONFLICT`.
    pub fn replace(
        &self,
        path: &ProjectPath,
        seen: &Snapshot,
        pieces: &[&[u8]],
    ) -> Result<Change, Failure> {
        self.check_writable(path)?;
        self.swap(path, seen, &New::of(pieces))
    }

    /// Puts a file where there is none, with its missing parent folders; `CONFLICT` if there is one
    /// after all.
    pub fn create(&self, path: &ProjectPath, bytes: &[u8]) -> Result<Change, Failure> {
        self.check_writable(path)?;
        self.place(path, &New::of(&[bytes]))
    }

    /// The change itself.
    pub(super) fn swap(
        &self,
        path: &ProjectPath,
        seen: &Snapshot,
        new: &New<'_>,
    ) -> Result<Change, Failure> {
        let failed = |error: io::Error| io_failure(&error, "write", path.relative());
        let beside = Beside::open(path.absolute()).map_err(failed)?;
        if let Some(folder) = path.absolute().parent() {
            self.sweep_once(folder);
        }
        // Under the lock, so that agents of our own come one after the other.
        let (old, data) = self.open_file(path)?;
        if is_read_only(path.absolute(), &data) {
            let message = format!("{} is read-only", path.relative());
            return Err(Failure::new(ErrorCode::PermissionDenied, message)
                .hint("leave it as it is, or ask the user before you make it writable")
                .at(path.relative()));
        }
        // It moved; did its bytes? (One that looks as it did is looked at after the exchange.)
        if FileStat::of(&data) != seen.stat {
            self.content(path, Some(seen))?;
        }
        let mut file = beside.write(new, &seen.hash, Some((&old, &data))).map_err(failed)?;
        match beside.exchange(&file) {
            Ok(true) => {
                self.settle(path, seen, &beside, &mut file, new)?;
            }
            // Without an exchange: one more look, then a rename.
            Ok(false) => {
                self.content(path, Some(seen))?;
                beside.rename_over(&mut file).map_err(failed)?;
                beside.sync();
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.deleted(path, seen));
            }
            Err(error) => return Err(failed(error)),
        }
        self.changed(path, &file.file, new, data.nlink() > 1)
    }

    /// The creation itself.
    pub(super) fn place(&self, path: &ProjectPath, new: &New<'_>) -> Result<Change, Failure> {
        let mut made = Vec::new();
        let created = make_parents(path.absolute(), &mut made).and_then(|()| {
            let beside = Beside::open(path.absolute())?;
            if let Some(folder) = path.absolute().parent() {
                self.sweep_once(folder);
            }
            let mut file = beside.write(new, "", None)?;
            beside.place(&mut file)?;
            beside.sync();
            file.file.try_clone()
        });
        match created {
            Ok(file) => self.changed(path, &file, new, false),
            Err(error) => {
                for folder in made.iter().rev() {
                    unmake(folder);
                }
                if error.kind() == io::ErrorKind::AlreadyExists {
                    let message =
                        format!("{} appeared meanwhile; it was not replaced", path.relative());
                    return Err(Failure::new(ErrorCode::Conflict, message).at(path.relative()));
                }
                Err(io_failure(&error, "create", path.relative()))
            }
        }
    }

    /// After the exchange: the old file is in our hands. If it is what was seen, it may go; else it
    /// goes back, and whatever comes out for it, until nothing foreign is left in our hands.
    fn settle(
        &self,
        path: &ProjectPath,
        seen: &Snapshot,
        beside: &Beside,
        new: &mut Temporary<'_>,
        wanted: &New<'_>,
    ) -> Result<(), Failure> {
        // The file with the temporary name belongs to another process now.
        new.keep();
        let until = Instant::now() + PATIENCE;
        let mut in_hand = beside.look(new, until);
        if in_hand.as_ref().is_ok_and(|held| held.hash.as_ref() == Some(&seen.hash)) {
            new.give_up();
            return Ok(());
        }
        let ours = new.identity();
        let mut held_before: Vec<Held> = Vec::new();
        for _ in 0..MAX_SWAPS {
            match beside.exchange(new) {
                Ok(_) => {}
                // The target was deleted: what we hold takes its place.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if beside.place(new).is_ok() {
                        break;
                    }
                }
                Err(error) => return Err(self.left_behind(path, new, &error)),
            }
            held_before.extend(in_hand.ok());
            in_hand = beside.look(new, until);
            let Ok(held) = &in_hand else { continue };
            let is_ours = Some(held.identity) == ours;
            if is_ours && held.hash.as_deref() != Some(wanted.hash()) {
                return Err(self.written_into(path, seen, beside, new, wanted));
            }
            // What was in our hands before and comes back was replaced by its own author.
            if is_ours || held_before.contains(held) {
                new.give_up();
                beside.sync();
                return Err(self.lost_race(path, seen));
            }
        }
        if new.is_gone() {
            return Err(self.lost_race(path, seen));
        }
        Err(self.left_behind(path, new, &io::Error::other("it keeps changing")))
    }

    /// The other process's file is back in its place; ours, which was written to meanwhile, is in our hands.
    fn written_into(
        &self,
        path: &ProjectPath,
        seen: &Snapshot,
        beside: &Beside,
        new: &mut Temporary<'_>,
        wanted: &New<'_>,
    ) -> Failure {
        let result = match new.written_into(wanted) {
            // As if ours had never been there.
            Ok(WrittenInto::Appended(more)) => beside.append(&more),
            // Its author wanted nothing else to be there.
            Ok(WrittenInto::Replaced) => beside.exchange(new).map(drop),
            Ok(WrittenInto::Changed) => Err(io::Error::other("it was changed twice")),
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => {
                new.give_up();
                beside.sync();
                self.lost_race(path, seen)
            }
            Err(error) => self.left_behind(path, new, &error),
        }
    }

    fn lost_race(&self, path: &ProjectPath, seen: &Snapshot) -> Failure {
        match self.content(path, Some(seen)) {
            Err(failure) => failure,
            Ok(content) => {
                let now = Some((&content.snapshot.stat, content.bytes.as_slice()));
                let failure = self.conflict(path, seen, now);
                let message = format!("{}; a program has it open for writing", failure.message);
                Failure { message, ..failure }
            }
        }
    }

    fn left_behind(&self, path: &ProjectPath, new: &Temporary<'_>, error: &io::Error) -> Failure {
        self.snapshots.forget(path.absolute());
        let shown = self.display(&path.absolute().with_file_name(new.name()));
        let message = format!(
            "{} was changed by another process meanwhile ({error}); another version of it is in {shown}",
            path.relative()
        );
        Failure::new(ErrorCode::Conflict, message)
            .hint("Read both, and report it to the user")
            .at(path.relative())
    }

    fn changed(
        &self,
        path: &ProjectPath,
        file: &File,
        new: &New<'_>,
        split_hard_link: bool,
    ) -> Result<Change, Failure> {
        let data =
            file.metadata().map_err(|error| io_failure(&error, "look at", path.relative()))?;
        let snapshot = Snapshot { stat: FileStat::of(&data), hash: new.hash().to_owned() };
        let kept = (new.len() <= MAX_KEPT).then(|| new.pieces.concat());
        // A file that was new or empty is known as it is now, and one that was shown whole.
        let is_shown = self.snapshots.is_shown(path.absolute()).unwrap_or(true);
        self.snapshots.record(path.absolute(), snapshot.clone(), kept);
        self.snapshots.set_shown(path.absolute(), is_shown);
        Ok(Change { snapshot, split_hard_link })
    }
}

/// Makes the missing folders above a file, and says which it made. No symlink is followed that was put
/// in the way since the path was resolved.
fn make_parents(file: &Path, made: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut missing: Vec<&Path> =
        file.ancestors().skip(1).take_while(|dir| !dir.exists()).collect();
    let Some(first) = missing.last().and_then(|folder| folder.parent()) else { return Ok(()) };
    let mut parent = disk::open_folder(first)?;
    while let Some(folder) = missing.pop() {
        let Some(name) = folder.file_name() else { continue };
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => made.push(folder.to_owned()),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        parent = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
    }
    Ok(())
}

/// Removes a folder that was made for nothing. If it is not empty any more, it stays.
fn unmake(folder: &Path) {
    if let (Some(parent), Some(name)) = (folder.parent(), folder.file_name())
        && let Ok(parent) = disk::open_folder(parent)
    {
        let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
    }
}
