//! The optimistic lock: returns the bytes of a file for a change only if they are unchanged since the read.

use std::io::Read;

use super::diff::Diff;
use super::snapshot::{FileStat, Snapshot};
use super::text::plain;
use super::{Author, ProjectPath, Workspace, io_failure};
use agent_protocol::envelope::{ErrorCode, Failure};

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
    /// changed `CONFLICT`, unless only operations of the session changed them and the caller `accepts` that.
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
                return Err(self.change_conflict(path, seen, Some((&stat, &bytes))));
            }
        }
        Ok(FileContent { bytes, snapshot, changed_by })
    }

    /// `CONFLICT`, with the changes since the read if the old bytes are still available: if all are shown, they count as
    /// a read. Else the snapshot is dropped. `now`: `None` if the file was deleted.
    pub fn change_conflict(
        &self,
        path: &ProjectPath,
        seen: &Snapshot,
        now: Option<(&FileStat, &[u8])>,
    ) -> Failure {
        let old = self.snapshots.bytes(path.absolute());
        let was_shown = self.is_fully_shown(path);
        self.forget_snapshot(path);
        let Some((stat, new)) = now else {
            let message = format!("File changed since last read: {} was deleted", path.relative());
            return path
                .failure(ErrorCode::Conflict, message)
                .with_hint("if it is to be there again, create it with Write");
        };
        let mut failure = path.failure(ErrorCode::Conflict, "File changed since last read");
        let old = old.filter(|old| super::snapshot::hash(old) == seen.hash);
        if let Some(old) = old {
            let names = ("as you read it", "as it is now");
            let diff = Diff::between(&decode_lossily(&old), &decode_lossily(new), names);
            if diff.truncated {
                failure = failure.with_data("diff_truncated", true);
            } else if !diff.text.is_empty() {
                let snapshot = Snapshot::new(*stat, new);
                self.snapshots.record(path.absolute(), snapshot, Some(new.to_vec()));
                let is_whole = was_shown && diff.text.len() <= MAX_UNCUT;
                self.snapshots.set_shown(path.absolute(), is_whole);
            }
            failure = failure.with_data("diff_preview", diff.text);
        }
        failure
    }
}

fn decode_lossily(bytes: &[u8]) -> String {
    match super::Text::decode(bytes.to_vec(), "") {
        Ok(text) => text.plain().to_owned(),
        Err(_) => plain(&String::from_utf8_lossy(bytes)).into_owned(),
    }
}
