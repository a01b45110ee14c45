//! Finds programs that have a file open for writing: bytes that they write after the replacement would be lost. The open
//! files of all processes are checked, the youngest processes first, up to a limit.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Limit of the open files that are checked. A time limit would make the result depend on the load.
const MAX_FILES: usize = 100_000;

/// Whether any program except this process (`own`) is known to have the file with this unique name open for writing.
pub(super) fn has_writers(name: &OsStr, data: &Metadata, own: &File) -> bool {
    let mut left = MAX_FILES;
    let own = format!("{}/fd/{}", std::process::id(), own.as_raw_fd());
    let own = Path::new("/proc").join(own);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The youngest process is the most probable.
    numbers.sort_unstable_by(|number, other| other.cmp(number));
    numbers.iter().any(|number| {
        has_file_open(&Path::new("/proc").join(number.to_string()), name, data, (&own, &mut left))
    })
}

fn has_file_open(
    process: &Path,
    name: &OsStr,
    data: &Metadata,
    (own, left): (&Path, &mut usize),
) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files.into_iter().any(|file| {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return false;
        }
        let opened = file.path();
        let is_it = fs::read_link(&opened).is_ok_and(|path| path.file_name() == Some(name))
            // The file was opened under another of its names.
            || (data.nlink() > 1
                && fs::metadata(&opened)
                    .is_ok_and(|other| (other.dev(), other.ino()) == (data.dev(), data.ino())));
        is_it && opened != own && is_for_writing(&process.join("fdinfo").join(file.file_name()))
    })
}

/// The open flags are in octal after `flags:`.
fn is_for_writing(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 0o3 != 0)
}
