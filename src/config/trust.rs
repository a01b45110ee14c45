//! Trusted folders: folders whose configuration counts in full, in the state in which the user trusted them.

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{SettingsDigest, Trust, UserDirs};
use agent_protocol::disk;

pub(super) const TRUSTED_FILE: &str = "trusted";

pub fn folder_trust(dirs: Option<&UserDirs>, root: &Path) -> Trust {
    let text = dirs.and_then(|dirs| fs::read(dirs.trusted_file()).ok()).unwrap_or_default();
    // The last entry counts: the user may have edited the file.
    let found = lines(&text).map(parse_line).filter(|(_, folder)| *folder == root).last();
    found.map_or(Trust::Never, |(seal, _)| Trust::WithSettings(SettingsDigest::parse(seal)))
}

pub fn trust_folder(dirs: &UserDirs, folder: &Path, seal: &SettingsDigest) -> io::Result<()> {
    let name = folder.as_os_str().as_bytes();
    // A path with a line break would be stored as two folders.
    if name.contains(&b'\n') {
        let message = "a folder with a line break in its name cannot be trusted";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    fs::create_dir_all(&dirs.state)?;
    let seal = seal.to_text();
    let blank = if seal.is_empty() { "" } else { " " };
    replace_line(dirs, folder, &[seal.as_bytes(), blank.as_bytes(), name, b"\n"].concat())
}

/// Atomic, so that no other folder's line is lost.
fn replace_line(dirs: &UserDirs, folder: &Path, line: &[u8]) -> io::Result<()> {
    let _lock = lock_state(dirs)?;
    // A command may have created a link, with any file as its target.
    let file = disk::canonical_prefix(&dirs.state).join(TRUSTED_FILE);
    let mut text = Vec::new();
    disk::open_for_append(&file, true)?.read_to_end(&mut text)?;
    let mut new = tempfile::NamedTempFile::new_in(file.parent().unwrap_or(&dirs.state))?;
    for other in lines(&text).filter(|line| parse_line(line).1 != folder) {
        new.write_all(&[other, b"\n"].concat())?;
    }
    new.write_all(line)?;
    new.persist(&file)?;
    Ok(())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
}

/// Returns the hashes, which contain no blank, and the folder: the bytes from the first slash on.
fn parse_line(line: &[u8]) -> (&str, &Path) {
    let blank = line.iter().position(|byte| *byte == b' ').filter(|_| line[0] != b'/');
    let (seal, folder) = blank.map_or((&b""[..], line), |at| (&line[..at], &line[at + 1..]));
    (str::from_utf8(seal).unwrap_or_default(), Path::new(OsStr::from_bytes(folder)))
}

/// One process writes the file at a time.
fn lock_state(dirs: &UserDirs) -> io::Result<File> {
    const LOCK_TIMEOUT: Duration = Duration::from_secs(1);
    let folder = File::open(&dirs.state)?;
    let begun = Instant::now();
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(folder),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begun.elapsed() > LOCK_TIMEOUT => {
                let message = format!("another process holds the lock of {}", dirs.state.display());
                return Err(io::Error::other(message));
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
