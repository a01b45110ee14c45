//! Recognises that a file or directory is as it was read, without reading it again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

/// File systems on which every change sets a new change time, which no program can choose (`statfs(2)`): ext4, XFS, Btrfs,
/// ZFS, F2FS, bcachefs. (On tmpfs, which overlayfs may use, a write through a mapping does not.)
const WITH_CHANGE_TIME: &[i64] =
    &[0xEF53, 0x5846_5342, 0x9123_683E, 0x2FC1_2FC1, 0xF2F5_2010, 0xCA45_1A4E];
/// A file that changed this shortly before it was read may change again without a new time.
const TICK: Duration = Duration::from_millis(20);
const COARSE_TICK_SECONDS: i64 = 2;
const COARSE_TICK: Duration = Duration::from_secs(COARSE_TICK_SECONDS.unsigned_abs());

static IS_TIMED: LazyLock<Mutex<HashMap<u64, bool>>> = LazyLock::new(Mutex::default);

/// What identifies the state of a path: device, inode, size, and change time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) path: PathBuf,
    pub(super) state: Option<(u64, u64, i64, i64, i64)>,
    pub(super) has_other_name: bool,
    /// A later change has another stamp.
    is_sure: bool,
}

impl Stamp {
    /// To be taken before the path is read.
    pub(super) fn take(path: &Path) -> Self {
        let Ok(stat) = rustix::fs::lstat(path) else {
            let (state, is_sure, has_other_name) = (None, false, false);
            return Self { path: path.to_owned(), state, has_other_name, is_sure };
        };
        let (seconds, fraction) = (stat.st_ctime, i64::try_from(stat.st_ctime_nsec).unwrap_or(0));
        let changed = Duration::new(
            u64::try_from(seconds).unwrap_or(0),
            u32::try_from(fraction).unwrap_or(0),
        );
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        // A file system without fractions of a second has a coarse clock.
        let tick = if fraction == 0 { COARSE_TICK } else { TICK };
        let is_sure = now > changed + tick && is_timed(path, stat.st_dev);
        let state = Some((stat.st_dev, stat.st_ino, stat.st_size, seconds, fraction));
        let has_other_name = stat.st_nlink > 1;
        Self { path: path.to_owned(), state, has_other_name, is_sure }
    }

    /// Whether the path existed, and did not change since this time.
    pub(super) fn is_older_than(&self, time: SystemTime) -> bool {
        let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(since_epoch.as_secs()).unwrap_or(0);
        // (The clock of a file system is coarse.)
        self.state.is_some_and(|(device, .., changed, _)| {
            changed + COARSE_TICK_SECONDS < seconds && is_timed(&self.path, device)
        })
    }

    pub(super) fn is_current(&self) -> bool {
        let current = || {
            let stat = rustix::fs::lstat(&self.path).ok()?;
            let fraction = i64::try_from(stat.st_ctime_nsec).unwrap_or(0);
            Some((stat.st_dev, stat.st_ino, stat.st_size, stat.st_ctime, fraction))
        };
        self.is_sure && current() == self.state
    }
}

fn is_timed(path: &Path, device: u64) -> bool {
    *IS_TIMED.lock().entry(device).or_insert_with(|| {
        rustix::fs::statfs(path).is_ok_and(|found| WITH_CHANGE_TIME.contains(&found.f_type))
    })
}
