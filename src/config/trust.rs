//! The folders of which the user has said that they may configure everything.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::UserDirs;
use crate::disk;

/// The file's name.
pub(super) const FILE: &str = "trusted";

/// All of them.
pub fn trusted(dirs: Option<&UserDirs>) -> Vec<PathBuf> {
    let bytes = dirs.and_then(|dirs| fs::read(dirs.trusted_file()).ok()).unwrap_or_default();
    lines(&bytes).map(PathBuf::from).collect()
}

/// This folder is one of them.
pub fn is_trusted(dirs: Option<&UserDirs>, root: &Path) -> bool {
    trusted(dirs).iter().any(|folder| folder == root)
}

/// This folder is one of them from now on.
pub fn trust(dirs: &UserDirs, folder: &Path) -> io::Result<()> {
    let name = folder.as_os_str().as_bytes();
    // It would be two folders.
    if name.contains(&b'\n') {
        let message = "a folder whose name holds a line break can not be trusted";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    fs::create_dir_all(&dirs.state)?;
    let _lock = locked(dirs)?;
    // (A link in its place may be a command's: what it leads to may be any file.)
    let file = disk::canonical_prefix(&dirs.state).join(FILE);
    let mut file = disk::append(&file, true)?;
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    // Who wrote in it may have left its last line open.
    let is_open = text.last().is_some_and(|last| *last != b'\n');
    let end = if is_open { &b"\n"[..] } else { b"" };
    file.write_all(&[end, name, b"\n"].concat())
}

/// This folder is none of them any more.
pub fn forget_trust(dirs: &UserDirs, folder: &Path) -> io::Result<()> {
    let _lock = locked(dirs)?;
    let file = disk::canonical_prefix(&dirs.state).join(FILE);
    let text = disk::read(&file)?;
    // At once, so that no other folder is lost with it.
    let mut new = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(&dirs.state))?;
    for line in lines(&text).filter(|line| Path::new(line) != folder) {
        new.write_all(&[line.as_bytes(), b"\n"].concat())?;
    }
    new.persist(&file)?;
    Ok(())
}

/// A name is bytes, up to the end of its line.
fn lines(text: &[u8]) -> impl Iterator<Item = &OsStr> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(OsStr::from_bytes)
}

/// One at a time writes who is trusted; nobody waits for long.
fn locked(dirs: &UserDirs) -> io::Result<File> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let folder = File::open(&dirs.state)?;
    let begun = Instant::now();
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(folder),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() > PATIENCE => {
                let message = format!("somebody holds {} locked", dirs.state.display());
                return Err(io::Error::other(message));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
