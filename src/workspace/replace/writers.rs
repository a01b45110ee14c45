//! Who has a file open for writing: what such a program writes after the file was replaced would be in
//! no file of the project.
//!
//! It is asked only where nothing is kept for an undo. The system has no such question: every open file of every
//! process is looked at, the youngest processes first, and where there are very many not all of them.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// So many open files are looked at. (No clock: a busy machine is no reason to see less.)
const MOST_FILES: usize = 100_000;

/// Whether any program has this file open for writing, besides ourselves in `own`. `name` is the one it
/// goes by now, which no other file has. Programs of other users, which we may not look at, go unseen,
/// as everywhere but on Linux.
pub(super) fn has_any(name: &OsStr, data: &Metadata, own: &File) -> bool {
    let mut left = MOST_FILES;
    let own = format!("{}/fd/{}", std::process::id(), own.as_raw_fd());
    let own = Path::new("/proc").join(own);
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    // Who began last is the likeliest.
    numbers.sort_unstable_by(|number, other| other.cmp(number));
    numbers.iter().any(|number| {
        writes(&Path::new("/proc").join(number.to_string()), name, data, (&own, &mut left))
    })
}

fn writes(process: &Path, name: &OsStr, data: &Metadata, (own, left): (&Path, &mut usize)) -> bool {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    files.into_iter().any(|file| {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return false;
        }
        let opened = file.path();
        let is_it = fs::read_link(&opened).is_ok_and(|path| path.file_name() == Some(name))
            // Opened by another of its names.
            || (data.nlink() > 1
                && fs::metadata(&opened)
                    .is_ok_and(|other| (other.dev(), other.ino()) == (data.dev(), data.ino())));
        is_it && opened != own && is_for_writing(&process.join("fdinfo").join(file.file_name()))
    })
}

/// What it was opened for stands in octal behind `flags:`.
fn is_for_writing(info: &Path) -> bool {
    let text = fs::read_to_string(info).unwrap_or_default();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
    flags.is_some_and(|flags| flags & 0o3 != 0)
}
