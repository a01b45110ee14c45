//! Finds programs that have a file open for writing: bytes that they write after the replacement would be lost. The open
//! files of all processes are checked, the youngest processes first, up to a limit.

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::Stat;

/// Limit of the open files that are checked. A time limit would make the result depend on the load.
const MAX_FILES: usize = 100_000;

/// Whether any program except this process (`own`) is known to have the file with this unique name open for writing.
pub(super) fn has_writers(name: &OsStr, stat: &Stat, own: &File) -> bool {
    let own = format!("/proc/{}/fd/{}", std::process::id(), own.as_raw_fd());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // The youngest process is the most probable.
    numbers.sort_unstable_by_key(|number| Reverse(*number));
    let files = numbers.into_iter().flat_map(|number| {
        let files = fs::read_dir(format!("/proc/{number}/fd")).into_iter().flatten().flatten();
        files.map(move |file| (number, file))
    });
    files.take(MAX_FILES).any(|(number, file)| {
        let opened = file.path();
        let is_same_file = fs::read_link(&opened).is_ok_and(|path| path.file_name() == Some(name))
            // The file was opened under another of its names.
            || (stat.st_nlink > 1
                && fs::metadata(&opened)
                    .is_ok_and(|other| (other.dev(), other.ino()) == (stat.st_dev, stat.st_ino)));
        is_same_file && opened != Path::new(&own) && is_for_writing(number, &file.file_name())
    })
}

/// The open flags are in octal after `flags:`.
fn is_for_writing(process: u32, descriptor: &OsStr) -> bool {
    let info = Path::new("/proc").join(process.to_string()).join("fdinfo").join(descriptor);
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 0o3 != 0)
}
