//! Where output goes that is too large to be shown: whole, as natural lines, without secrets.

use std::borrow::Cow;
use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::path::escape;
use crate::disk::{self, canonical_prefix};
use crate::protocol::mask::Masker;

/// A line may be this long before it is masked in pieces.
const MAX_LINE: usize = 256 * 1024;
/// A private key has fewer bytes than this between its first and its last line.
const MAX_KEY: usize = 64 * 1024;

/// After as many bytes it is looked whether the disk has room for more.
const LOOKED: u64 = 64 * 1024 * 1024;
/// So much of a disk is left to others.
const LEFT_FREE: u64 = 1024 * 1024 * 1024;

/// What the folder of a call without a session begins with.
const OF_A_CALL: &str = "agent-tool-output-";
/// So long what such a call left can be read.
const DAY: Duration = Duration::from_hours(24);

/// The folder `tool-output/` of a session. It is made when something is first written.
#[derive(Debug)]
pub struct Spill {
    folder: PathBuf,
    /// Paths below it are shown relative to it.
    root: PathBuf,
    masker: Option<Arc<Masker>>,
    number: AtomicU64,
    /// Nobody will look for it later.
    temporary: bool,
    /// Its like are removed when they are old.
    sweeps: bool,
}

impl Spill {
    /// A folder that stays. `root` is the project's.
    pub fn new(folder: PathBuf, root: &Path, masker: Arc<Masker>) -> Self {
        let root = canonical_prefix(root);
        let (number, temporary, sweeps) = (AtomicU64::new(1), false, false);
        Self { folder, root, masker: Some(masker), number, temporary, sweeps }
    }

    /// A folder in the system's place for temporary files that outlives this program: for a person's own calls,
    /// which belong to no session. Those that are older than a day go when it is made.
    pub fn for_a_day(masker: Arc<Masker>, places: &[PathBuf]) -> Self {
        let name = format!("{OF_A_CALL}{}", uuid::Uuid::now_v7());
        let folder = disk::temporary_folder(places).join(name);
        let mut spill = Self::new(folder, Path::new("/"), masker);
        // (It lies in no project: its names are whole.)
        spill.root = PathBuf::new();
        spill.sweeps = true;
        spill
    }

    /// A folder in the system's place for temporary files, which goes with this value: for calls
    /// that belong to no session.
    pub fn none(places: &[PathBuf]) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("agent-output-{}-{number}", std::process::id());
        Self {
            folder: disk::temporary_folder(places).join(name),
            root: PathBuf::new(),
            masker: None,
            number: AtomicU64::new(1),
            temporary: true,
            sweeps: false,
        }
    }

    /// The folder, whether it exists yet or not; see `Workspace::with_readable`.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a whole text, masked, and gives the path that the model can use.
    pub fn write(&self, tool: &str, text: &str) -> io::Result<String> {
        let (mut file, path) = self.create(tool)?;
        file.write_all(text.as_bytes())?;
        file.finish()?;
        Ok(path)
    }

    /// A file for output that comes bit by bit, and the path that the model can use.
    pub fn create(&self, tool: &str) -> io::Result<(SpillFile, String)> {
        let folder = self.make_folder()?;
        let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S").to_string();
        loop {
            let number = self.number.fetch_add(1, Ordering::Relaxed);
            let name = format!("tool_{time}_{number:03}_{tool}.txt");
            match disk::create_in(&folder, &name) {
                Ok(file) => {
                    let file = SpillFile {
                        file: BufWriter::new(file),
                        masker: self.masker.clone().or_else(well_known),
                        pending: Vec::new(),
                        until_look: LOOKED,
                    };
                    return Ok((file, self.shown(&self.folder.join(name))));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes it and opens it: a command may put a link in its place.
    fn make_folder(&self) -> io::Result<OwnedFd> {
        if self.sweeps
            && !self.folder.exists()
            && let Some(parent) = self.folder.parent()
        {
            sweep(parent);
        }
        if !self.temporary {
            return disk::make_folder(&self.folder, 0o700);
        }
        match DirBuilder::new().mode(0o700).create(&self.folder) {
            // Made by us before: in a place where everybody writes, an other's folder is not used.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let data = std::fs::symlink_metadata(&self.folder)?;
                let is_own = data.is_dir() && data.uid() == rustix::process::geteuid().as_raw();
                if !is_own {
                    return Err(error);
                }
            }
            made => made?,
        }
        disk::open_folder(&self.folder)
    }

    fn shown(&self, path: &Path) -> String {
        let real = canonical_prefix(path);
        match real.strip_prefix(&self.root) {
            Ok(inside) if !self.temporary => escape(inside),
            Ok(_) | Err(_) => escape(&real),
        }
    }
}

/// Removes what calls of this user left more than a day ago.
fn sweep(parent: &Path) {
    let own = rustix::process::geteuid().as_raw();
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        if !entry.file_name().to_string_lossy().starts_with(OF_A_CALL) {
            continue;
        }
        // (Of a link what that is itself.)
        let Ok(data) = entry.metadata() else { continue };
        let age = data.modified().ok().and_then(|time| time.elapsed().ok());
        if data.is_dir() && data.uid() == own && age.is_some_and(|age| age > DAY) {
            // What can not be removed is left to the system, which clears its temporary folder.
            let _ = disk::remove_folder(&entry.path());
        }
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        if self.temporary {
            let _ = disk::remove_folder(&self.folder);
        }
    }
}

/// Without a session nobody knows more than the shapes of well-known secrets.
fn well_known() -> Option<Arc<Masker>> {
    Masker::new([], &[]).ok().map(Arc::new)
}

/// A file that takes secrets out of what is written to it, line by line.
#[derive(Debug)]
pub struct SpillFile {
    file: BufWriter<File>,
    masker: Option<Arc<Masker>>,
    /// Bytes that are not masked yet: the beginning of a line, or of a private key.
    pending: Vec<u8>,
    /// So many more are written before it is looked whether there is room.
    until_look: u64,
}

impl SpillFile {
    /// Writes what is left. Dropping the file does so too, but cannot say whether it went well.
    pub fn finish(mut self) -> io::Result<()> {
        self.drain(true)?;
        self.file.flush()
    }

    /// Writes the pending bytes as far as they can be masked by now.
    fn drain(&mut self, all: bool) -> io::Result<()> {
        let mut end = match memchr::memrchr(b'\n', &self.pending) {
            _ if all => self.pending.len(),
            Some(last) => last + 1,
            None if self.pending.len() > MAX_LINE => self.pending.len(),
            None => return Ok(()),
        };
        if !all {
            end = end.min(open_key(&self.pending[..end]).unwrap_or(end));
        }
        let ready = &self.pending[..end];
        let written = match &self.masker {
            None => self.file.write_all(ready),
            Some(masker) => {
                // (To look whether it is text is quicker than to look for what is none.)
                let text = match std::str::from_utf8(ready) {
                    Ok(text) => Cow::Borrowed(text),
                    Err(_) => String::from_utf8_lossy(ready),
                };
                self.file.write_all(masker.mask(&text).as_bytes())
            }
        };
        self.pending.drain(..end);
        written
    }

    /// What a command prints may be as long as the disk is large: others need it too.
    fn look_for_room(&mut self, n: u64) -> io::Result<()> {
        self.until_look = self.until_look.saturating_sub(n);
        if self.until_look > 0 {
            return Ok(());
        }
        self.until_look = LOOKED;
        let disk = rustix::fs::fstatvfs(self.file.get_ref())?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < LEFT_FREE {
            let why = "less than 1 GiB is free on the disk where output is kept";
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        Ok(())
    }
}

/// Where a private key begins whose end is still to come.
fn open_key(bytes: &[u8]) -> Option<usize> {
    const MARK: &[u8] = b"-----BEGIN ";
    // Of most output nothing else has to be looked at. (Forwards, which is quicker than to look for the last.)
    memchr::memmem::find(bytes, MARK)?;
    let text = String::from_utf8_lossy(bytes);
    // Only ASCII is looked for, so a replaced byte before it would shift its place: look again.
    let begin = text.rfind("-----BEGIN ").filter(|_| text.contains("PRIVATE KEY-----"))?;
    if text[begin..].contains("-----END ") || text.len() - begin > MAX_KEY {
        return None;
    }
    memchr::memmem::rfind(bytes, MARK)
}

impl Write for SpillFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.look_for_room(bytes.len() as u64)?;
        self.pending.extend_from_slice(bytes);
        self.drain(false)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for SpillFile {
    fn drop(&mut self) {
        let _ = self.drain(true);
        let _ = self.file.flush();
    }
}
