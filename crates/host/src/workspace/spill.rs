//! Spilled output: files for output that is too large to be shown, as plain lines with secrets masked.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::path::escape;
use agent_protocol::disk::{self, canonical_prefix};
use agent_protocol::mask::Masker;
use agent_protocol::redactor::Redactor;

/// Length in bytes above which a line is masked in pieces.
const MAX_LINE: usize = 256 * 1024;
const MAX_KEY: usize = 64 * 1024;

const SPACE_CHECK_BYTES: u64 = 64 * 1024 * 1024;
const MIN_FREE_BYTES: u64 = 1024 * 1024 * 1024;

const CALL_FOLDER_PREFIX: &str = "agent-tool-output-";
/// How long the output of such a call is stored.
const DAY: Duration = Duration::from_hours(24);

/// The folder `tool-output/` of a session, created with its first file.
#[derive(Debug)]
pub struct SpillFolder {
    folder: PathBuf,
    /// Displayed paths are relative to it; empty for a temporary folder, which is in no project.
    root: PathBuf,
    masker: Arc<Masker>,
    number: AtomicU64,
    is_removed_on_drop: bool,
}

impl SpillFolder {
    /// A permanent folder. `root` is the project's root.
    pub fn new(folder: PathBuf, root: &Path, masker: Arc<Masker>) -> Self {
        let (root, number) = (canonical_prefix(root), AtomicU64::new(1));
        Self { folder, root, masker, number, is_removed_on_drop: false }
    }

    /// A temporary folder that outlives this program: for calls without a session. Removes folders older than a day.
    pub fn kept_for_a_day(masker: Arc<Masker>, places: &[PathBuf]) -> Self {
        let name = format!("{CALL_FOLDER_PREFIX}{}", uuid::Uuid::now_v7());
        let folder = disk::temporary_folder(places).join(name);
        let (root, number) = (PathBuf::new(), AtomicU64::new(1));
        Self { folder, root, masker, number, is_removed_on_drop: false }
    }

    /// A temporary folder that is removed on drop: for a session that is not recorded. Masks only well-known secrets.
    pub fn temporary(places: &[PathBuf]) -> Self {
        let mut spill = Self::kept_for_a_day(Arc::default(), places);
        // A session may take longer than a day.
        spill.folder.set_file_name(format!("agent-output-{}", uuid::Uuid::now_v7()));
        spill.is_removed_on_drop = true;
        spill
    }

    /// The path of the folder, which may not exist yet; see `Workspace::with_readable`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a text, masked; returns the path that the model can use.
    pub fn write(&self, tool: &str, text: &str) -> io::Result<String> {
        let (mut file, path) = self.create(tool, Arc::default())?;
        file.write_all(text.as_bytes())?;
        file.finish()?;
        Ok(path)
    }

    /// Creates a file for streamed output, which is also redacted; returns the path that the model can use, too.
    pub fn create(&self, tool: &str, redactor: Arc<Redactor>) -> io::Result<(SpillFile, String)> {
        let folder = self.make_folder()?;
        let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S").to_string();
        loop {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            let name = format!("tool_{time}_{number:03}_{tool}.txt");
            match disk::create_file_in(&folder, &name) {
                Ok(file) => {
                    let file = SpillFile {
                        file: BufWriter::new(file),
                        masker: self.masker.clone(),
                        redactor,
                        pending: Vec::new(),
                        until_space_check: SPACE_CHECK_BYTES,
                    };
                    return Ok((file, self.display_path(&self.folder.join(name))));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Follows no links: a command may have created one.
    fn make_folder(&self) -> io::Result<OwnedFd> {
        if self.root.as_os_str().is_empty()
            && !self.folder.exists()
            && let Some(parent) = self.folder.parent()
        {
            remove_old_folders(parent);
        }
        disk::create_folder_all(&self.folder, 0o700)
    }

    fn display_path(&self, path: &Path) -> String {
        let real = canonical_prefix(path);
        escape(real.strip_prefix(&self.root).unwrap_or(&real))
    }
}

/// Only folders of this user that are older than a day.
fn remove_old_folders(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(CALL_FOLDER_PREFIX) {
            continue;
        }
        // Metadata of the link itself.
        let Ok(data) = entry.metadata() else { continue };
        let age = data.modified().ok().and_then(|time| time.elapsed().ok());
        if data.is_dir() && data.uid() == own && age.is_some_and(|age| age > DAY) {
            // If this fails, the system clears its temporary folder.
            let _ = disk::remove_folder(&entry.path());
        }
    }
}

impl Drop for SpillFolder {
    fn drop(&mut self) {
        if self.is_removed_on_drop {
            let _ = disk::remove_folder(&self.folder);
        }
    }
}

/// A file that masks secrets in its content, line by line.
#[derive(Debug)]
pub struct SpillFile {
    file: BufWriter<File>,
    masker: Arc<Masker>,
    redactor: Arc<Redactor>,
    /// Bytes that are not masked yet: an incomplete line or private key.
    pending: Vec<u8>,
    until_space_check: u64,
}

impl SpillFile {
    /// Writes the rest. A drop does so too, but cannot report errors.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_pending(true)?;
        self.file.flush()
    }

    fn write_pending(&mut self, all: bool) -> io::Result<()> {
        let mut end = match memchr::memrchr(b'\n', &self.pending) {
            _ if all => self.pending.len(),
            Some(last) => last + 1,
            None if self.pending.len() > MAX_LINE => self.pending.len(),
            None => return Ok(()),
        };
        if !all {
            end = end.min(unfinished_key_start(&self.pending[..end]).unwrap_or(end));
        }
        let ready = &self.pending[..end];
        // Checking for valid text is faster than searching for invalid bytes.
        let text = match std::str::from_utf8(ready) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(ready),
        };
        let text = self.redactor.redact(&text);
        let written = self.file.write_all(self.masker.mask(&text).as_bytes());
        self.pending.drain(..end);
        written
    }

    /// Fails if too little disk space would be left: output may be unlimited.
    fn check_free_space(&mut self, n: u64) -> io::Result<()> {
        self.until_space_check = self.until_space_check.saturating_sub(n);
        if self.until_space_check > 0 {
            return Ok(());
        }
        self.until_space_check = SPACE_CHECK_BYTES;
        let disk = rustix::fs::fstatvfs(self.file.get_ref())?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < MIN_FREE_BYTES {
            let why = "less than 1 GiB is free on the disk where output is kept";
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        Ok(())
    }
}

/// The offset of a private key whose end is still missing.
fn unfinished_key_start(bytes: &[u8]) -> Option<usize> {
    const MARK: &[u8] = b"-----BEGIN ";
    // The common case: no key. A forward search is faster than a backward one.
    memchr::memmem::find(bytes, MARK)?;
    let text = String::from_utf8_lossy(bytes);
    // A replaced byte would shift the position, so the bytes are searched again; the mark is ASCII.
    let begin = text.rfind("-----BEGIN ").filter(|_| text.contains("PRIVATE KEY-----"))?;
    if text[begin..].contains("-----END ") || text.len() - begin > MAX_KEY {
        return None;
    }
    memchr::memmem::rfind(bytes, MARK)
}

impl Write for SpillFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check_free_space(bytes.len() as u64)?;
        self.pending.extend_from_slice(bytes);
        self.write_pending(false)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        let _ = self.write_pending(true);
        let _ = self.file.flush();
    }
}
