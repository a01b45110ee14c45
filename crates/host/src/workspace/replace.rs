//! Replaces or creates files atomically, without losing concurrent changes.
//!
//! The optimistic lock: a file is changed only if its bytes are those of a snapshot that was read ([`Workspace::read_unchanged`]).
//! A temporary file in the same folder is exchanged with the target; if the bytes of the old file changed since the
//! read, the exchange is reversed. A crash at any time leaves either the old or the new file complete.

use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::diff::Diff;
use super::open::is_read_only;
use super::snapshot::{FileStat, MAX_KEPT, Snapshot, hash};
use super::text::{Text, plain};
use super::{Author, ProjectPath, Workspace, io_failure};
use agent_protocol::disk;
use agent_protocol::envelope::{ErrorCode, Failure};

mod target_folder;
#[cfg(test)]
mod tests;

use target_folder::{ConcurrentWrite, ExchangedFile, TargetFolder, TemporaryFile, TemporaryState};

/// Limit of exchanges while another process replaces the target again and again, and its latest file is put back.
const MAX_SWAPS: usize = 1000;
/// For a program that has the file open for writing.
const WRITER_TIMEOUT: Duration = Duration::from_secs(1);
/// A text of this size in bytes is never cut in a result.
const MAX_UNCUT: usize = 1000;
/// Size limit in bytes: a changed file has to fit into memory several times.
pub(super) const MAX_CHANGED: u64 = 256 * 1024 * 1024;

/// The current bytes of a file with their snapshot.
#[derive(Clone, Debug)]
pub struct FileContent {
    pub bytes: Vec<u8>,
    pub snapshot: Snapshot,
    /// The authors of changes since the read that were accepted.
    pub changed_by: Vec<Author>,
}

impl Workspace {
    /// The bytes of a file that is to be changed. `NOT_READ` without `seen`, except for an empty file. If the bytes have
    /// changed, it fails with `CONFLICT`, unless only operations of the session changed them and the caller `accepts` that.
    pub fn read_unchanged(
        &self,
        path: &ProjectPath,
        seen: Option<&Snapshot>,
        accepts: impl FnOnce(&[u8]) -> bool,
    ) -> Result<FileContent, Failure> {
        let mut changed_by = Vec::new();
        let (mut file, data) = self.open_file(path)?;
        let stat = FileStat::of(&data);
        let Some(seen) = seen else {
            if stat.size == 0 {
                let (bytes, snapshot) = (Vec::new(), Snapshot::new(stat, &[]));
                return Ok(FileContent { bytes, snapshot, changed_by });
            }
            let message = "File not read. You must read before editing.";
            return Err(path.failure(ErrorCode::NotRead, message));
        };
        if stat.size > MAX_CHANGED {
            let (name, size) = (path.relative(), stat.size);
            let message =
                format!("{name} has {size} bytes; files over 256 MiB are not changed by tools");
            return Err(path
                .failure(ErrorCode::TooLarge, message)
                .with_hint("use a command that works on streams, such as sed"));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(stat.size).unwrap_or(0));
        file.read_to_end(&mut bytes)
            .map_err(|error| io_failure(&error, "read", path.relative()))?;
        let snapshot = Snapshot::new(stat, &bytes);
        if snapshot.hash != seen.hash {
            let checkpoints = self.checkpoints().filter(|_| accepts(&bytes));
            changed_by = checkpoints.map_or(Vec::new(), |checkpoints| {
                checkpoints.authors_of_change(path.absolute(), seen, &snapshot.hash)
            });
            if changed_by.is_empty() {
                return Err(self.conflict_and_new_snapshot(path, seen, Some((&stat, &bytes))));
            }
        }
        Ok(FileContent { bytes, snapshot, changed_by })
    }

    /// `CONFLICT`, with the changes since the read if the old bytes are still available: if all are shown, they count as
    /// a read. Else the snapshot is dropped. `now`: `None` if the file was deleted.
    pub fn conflict_and_new_snapshot(
        &self,
        path: &ProjectPath,
        seen: &Snapshot,
        now: Option<(&FileStat, &[u8])>,
    ) -> Failure {
        let old = self.snapshots.lock().bytes(path.absolute());
        let was_shown = self.is_fully_shown(path);
        self.forget_snapshot(path);
        let Some((stat, new)) = now else {
            let message = format!("File changed since last read: {} was deleted", path.relative());
            return path
                .failure(ErrorCode::Conflict, message)
                .with_hint("if it is to be there again, create it with Write");
        };
        let mut failure = path.failure(ErrorCode::Conflict, "File changed since last read");
        let old = old.filter(|old| hash(old) == seen.hash);
        if let Some(old) = old {
            let names = ("as you read it", "as it is now");
            let diff = Diff::between(&decode_lossily(&old), &decode_lossily(new), names);
            if diff.truncated {
                failure = failure.with_data("diff_truncated", true);
            } else if !diff.text.is_empty() {
                let snapshot = Snapshot::new(*stat, new);
                self.snapshots.lock().record(path.absolute(), snapshot, Some(new.to_vec()));
                let is_whole = was_shown && diff.text.len() <= MAX_UNCUT;
                self.snapshots.lock().set_shown(path.absolute(), is_whole);
            }
            failure = failure.with_data("diff_preview", diff.text);
        }
        failure
    }

    /// Replaces the content of an existing file that may be written, if it still matches `seen`; else `CONFLICT`. True if
    /// the old file had other names (hard links), which still have the old content.
    pub fn replace(
        &self,
        path: &ProjectPath,
        seen: &Snapshot,
        bytes: &[u8],
    ) -> Result<bool, Failure> {
        self.check_writable(path)?;
        self.replace_file(path, seen, bytes)
    }

    /// Creates a file that may be written, with its missing parent folders; `CONFLICT` if it exists.
    pub fn create(&self, path: &ProjectPath, bytes: &[u8]) -> Result<(), Failure> {
        self.check_writable(path)?;
        let mut folders = Vec::new();
        let created = make_parents(path.absolute(), &mut folders).and_then(|()| {
            let target_folder = TargetFolder::open(path.absolute())?;
            if let Some(folder) = path.absolute().parent() {
                self.remove_leftovers_once(folder);
            }
            let mut new = target_folder.write_temporary(bytes, "", None)?;
            target_folder.rename_if_absent(&mut new)?;
            target_folder.sync_folder();
            Ok(self.record_write(path, &new))
        });
        match created {
            Ok(recorded) => recorded,
            Err(error) => {
                for folder in folders.iter().rev() {
                    remove_created_folder(folder);
                }
                if error.kind() == io::ErrorKind::AlreadyExists {
                    let message =
                        format!("{} appeared meanwhile; it was not replaced", path.relative());
                    return Err(path.failure(ErrorCode::Conflict, message));
                }
                Err(io_failure(&error, "create", path.relative()))
            }
        }
    }

    pub(super) fn replace_file(
        &self,
        path: &ProjectPath,
        seen: &Snapshot,
        bytes: &[u8],
    ) -> Result<bool, Failure> {
        let failed = |error: io::Error| io_failure(&error, "write", path.relative());
        let target_folder = TargetFolder::open(path.absolute()).map_err(failed)?;
        if let Some(folder) = path.absolute().parent() {
            self.remove_leftovers_once(folder);
        }
        // The target folder is locked while it is open: several agents write one after the other.
        let (old, data) = self.open_file(path)?;
        if is_read_only(path.absolute(), &data) {
            let message = format!("{} is read-only", path.relative());
            return Err(path
                .failure(ErrorCode::PermissionDenied, message)
                .with_hint("leave it as it is, or ask the user before you make it writable"));
        }
        // The bytes are hashed only if the metadata changed. Else they are checked after the exchange.
        if FileStat::of(&data) != seen.stat {
            self.read_unchanged(path, Some(seen), |_| false)?;
        }
        let like = Some((&old, &data));
        let mut new = target_folder.write_temporary(bytes, &seen.hash, like).map_err(failed)?;
        match target_folder.exchange(&new) {
            Ok(true) => self.verify_exchange(path, seen, &target_folder, &mut new)?,
            // Without an exchange: one more check, then a rename.
            Ok(false) => {
                self.read_unchanged(path, Some(seen), |_| false)?;
                target_folder.rename_over(&mut new).map_err(failed)?;
                target_folder.sync_folder();
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.conflict_and_new_snapshot(path, seen, None));
            }
            Err(error) => return Err(failed(error)),
        }
        self.record_write(path, &new)?;
        Ok(data.nlink() > 1)
    }

    /// Checks the old file after the exchange. If it does not match `seen`, it is put back, and so is
    /// whatever that exchange returns, until no file of another process is left in the temporary place.
    fn verify_exchange(
        &self,
        path: &ProjectPath,
        seen: &Snapshot,
        target_folder: &TargetFolder,
        temporary: &mut TemporaryFile<'_>,
    ) -> Result<(), Failure> {
        // The temporary name now belongs to a file of another process.
        temporary.state = TemporaryState::Kept;
        let until = Instant::now() + WRITER_TIMEOUT;
        let mut exchanged = target_folder.inspect_after_writes(temporary, until);
        if exchanged.as_ref().is_ok_and(|held| held.hash.as_ref() == Some(&seen.hash)) {
            temporary.remove_file();
            return Ok(());
        }
        let ours = temporary.file.metadata().ok().map(|data| (data.dev(), data.ino()));
        let mut held_before: Vec<ExchangedFile> = Vec::new();
        for _ in 0..MAX_SWAPS {
            match target_folder.exchange(temporary) {
                Ok(_) => {}
                // The target was deleted: the file in the temporary place becomes the target.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if target_folder.rename_if_absent(temporary).is_ok() {
                        break;
                    }
                }
                Err(error) => return Err(self.left_behind_failure(path, temporary, &error)),
            }
            held_before.extend(exchanged.ok());
            exchanged = target_folder.inspect_after_writes(temporary, until);
            let Ok(held) = &exchanged else { continue };
            let is_ours = Some(held.identity) == ours;
            if is_ours && held.hash.as_ref() != Some(&temporary.hash) {
                return Err(self.recover_concurrent_write(path, seen, target_folder, temporary));
            }
            // A file that was in the temporary place before came from the target: its own author has replaced it.
            if is_ours || held_before.contains(held) {
                temporary.remove_file();
                target_folder.sync_folder();
                return Err(self.lost_race_failure(path, seen));
            }
        }
        if temporary.state == TemporaryState::Gone {
            return Err(self.lost_race_failure(path, seen));
        }
        Err(self.left_behind_failure(path, temporary, &io::Error::other("it keeps changing")))
    }

    /// The other process's file is back; the agent's file, which was written to meanwhile, is in the temporary place.
    fn recover_concurrent_write(
        &self,
        path: &ProjectPath,
        seen: &Snapshot,
        target_folder: &TargetFolder,
        temporary: &mut TemporaryFile<'_>,
    ) -> Failure {
        let result = match temporary.detect_concurrent_write() {
            // The appended bytes are moved to the other file.
            Ok(ConcurrentWrite::Appended(more)) => target_folder.append(&more),
            // The author of the file replaced the whole content.
            Ok(ConcurrentWrite::Replaced) => target_folder.exchange(temporary).map(drop),
            Ok(ConcurrentWrite::Changed) => Err(io::Error::other("it was changed twice")),
            Err(error) => Err(error),
        };
        match result {
            Ok(()) => {
                temporary.remove_file();
                target_folder.sync_folder();
                self.lost_race_failure(path, seen)
            }
            Err(error) => self.left_behind_failure(path, temporary, &error),
        }
    }

    fn lost_race_failure(&self, path: &ProjectPath, seen: &Snapshot) -> Failure {
        match self.read_unchanged(path, Some(seen), |_| false) {
            Err(failure) => failure,
            Ok(content) => {
                let now = Some((&content.snapshot.stat, content.bytes.as_slice()));
                let failure = self.conflict_and_new_snapshot(path, seen, now);
                let message = format!("{}; a program has it open for writing", failure.message);
                Failure { message, ..failure }
            }
        }
    }

    fn left_behind_failure(
        &self,
        path: &ProjectPath,
        temporary: &TemporaryFile<'_>,
        error: &io::Error,
    ) -> Failure {
        self.snapshots.lock().forget(path.absolute());
        let shown = self.display(&path.absolute().with_file_name(&temporary.name));
        let message = format!(
            "{} was changed by another process meanwhile ({error}); another version of it is in {shown}",
            path.relative()
        );
        path.failure(ErrorCode::Conflict, message).with_hint("Read both, and report it to the user")
    }

    fn record_write(&self, path: &ProjectPath, new: &TemporaryFile<'_>) -> Result<(), Failure> {
        let data = new.file.metadata();
        let data = data.map_err(|error| io_failure(&error, "look at", path.relative()))?;
        let snapshot = Snapshot { stat: FileStat::of(&data), hash: new.hash.clone() };
        let kept = (new.bytes.len() <= MAX_KEPT).then(|| new.bytes.to_owned());
        // A new or empty file counts as shown, and one that was shown completely.
        let is_shown = self.snapshots.lock().is_shown(path.absolute()).unwrap_or(true);
        self.snapshots.lock().record(path.absolute(), snapshot, kept);
        self.snapshots.lock().set_shown(path.absolute(), is_shown);
        Ok(())
    }
}

/// Returns the created folders. Follows no symlinks that were created since the path was resolved.
fn make_parents(file: &Path, created: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut missing: Vec<&Path> =
        file.ancestors().skip(1).take_while(|dir| !dir.exists()).collect();
    let Some(first) = missing.last().and_then(|folder| folder.parent()) else { return Ok(()) };
    let mut parent = disk::open_folder(first)?;
    while let Some(folder) = missing.pop() {
        let Some(name) = folder.file_name() else { continue };
        match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => created.push(folder.to_owned()),
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        parent = rustix::fs::openat(&parent, name, flags, Mode::empty())?;
    }
    Ok(())
}

fn remove_created_folder(folder: &Path) {
    if let (Some(parent), Some(name)) = (folder.parent(), folder.file_name())
        && let Ok(parent) = disk::open_folder(parent)
    {
        let _ = rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR);
    }
}

fn decode_lossily(bytes: &[u8]) -> String {
    match Text::decode(bytes.to_vec(), "") {
        Ok(text) => text.into_plain(),
        Err(_) => plain(&String::from_utf8_lossy(bytes)).into_owned(),
    }
}
