//! The database file: created, opened, upgraded, and set aside if it is damaged.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::StoreError;

/// `agmy`: in the file's header, to recognise our own databases.
const APPLICATION_ID: i32 = 0x6167_6D79;
pub const FILE_NAME: &str = "memory.db";

/// SQLite's `user_version`.
const VERSION: i64 = 5;
/// SQLite's cache. More makes no query faster: the system has the file in memory, too.
const CACHE_KIB: i64 = 1000;
const SCHEMA: &str = include_str!("schema.sql");

#[derive(Debug)]
pub(super) enum OpenFailure {
    /// The file may be damaged.
    Sqlite(rusqlite::Error),
    /// The file is not touched.
    Refused(StoreError),
}

impl From<rusqlite::Error> for OpenFailure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity(u64, u64);

impl FileIdentity {
    pub(super) fn from_path(path: &Path) -> Option<Self> {
        let metadata = std::fs::metadata(path).ok()?;
        Some(Self(metadata.dev(), metadata.ino()))
    }
}

/// Only the owner can read the file.
pub(super) fn create_if_missing(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A file of a newer version or of another program is not touched.
pub(super) fn open_database(path: &Path, patience: Duration) -> Result<Connection, OpenFailure> {
    // A link in its place may be the user's own, or created by a command in this folder.
    if path.is_symlink() && !has_our_header(path) {
        return Err(OpenFailure::Refused(foreign_file_error(path)));
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(patience)?;
    // A damaged file must not make us execute content of its schema.
    db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;")?;
    let version = schema_version(&db, path)?;
    if version != 0 && version != VERSION {
        let age = if version > VERSION { "a newer" } else { "an older" };
        return Err(OpenFailure::Refused(StoreError::Broken(format!(
            "{} was written by {age} version of agent; it is left as it is: update agent, move the file away, or name \
             another one in [learning] database",
            path.display()
        ))));
    }
    restrict_permissions(path);
    let required_mode = if is_on_network(path) { "truncate" } else { "wal" };
    let mode: String = db.query_row("PRAGMA journal_mode", [], |row| row.get(0))?;
    if mode != required_mode {
        db.query_row(&format!("PRAGMA journal_mode = {required_mode}"), [], |_| Ok(()))?;
    }
    // A power cut can lose the last commits, but not the file. Deleted data are overwritten.
    db.execute_batch(
        "PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON;",
    )?;
    db.pragma_update(None, "cache_size", -CACHE_KIB)?;
    if version == 0 {
        let creation = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // Another process may have created it meanwhile.
        if schema_version(&creation, path)? == 0 {
            creation.execute_batch(SCHEMA)?;
            creation.pragma_update(None, "application_id", APPLICATION_ID)?;
            creation.pragma_update(None, "user_version", VERSION)?;
        }
        creation.commit()?;
    }
    // Reads the whole schema, which detects a truncated or overwritten file.
    db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
    Ok(db)
}

/// 0: the file is empty.
fn schema_version(db: &Connection, path: &Path) -> Result<i64, OpenFailure> {
    // In one statement: another process may be creating the file.
    const STATE: &str = "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema) \
         FROM pragma_user_version, pragma_application_id";
    let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let (version, id, n_tables): (i64, i32, i64) = db.query_row(STATE, [], read)?;
    if id == APPLICATION_ID || (n_tables == 0 && version == 0) {
        return Ok(version);
    }
    Err(OpenFailure::Refused(foreign_file_error(path)))
}

fn foreign_file_error(path: &Path) -> StoreError {
    StoreError::Broken(format!(
        "{} is not a memory file of this program, and was not changed; name another file in [learning] database",
        path.display()
    ))
}

fn restrict_permissions(path: &Path) {
    if let Ok(metadata) = std::fs::metadata(path)
        && metadata.mode() & 0o077 != 0
    {
        // Without permission to change the mode, the file belongs to another user.
        _ = std::fs::set_permissions(path, Permissions::from_mode(0o600));
    }
}

/// There the shared memory of a write-ahead log does not work.
#[cfg(target_os = "linux")]
fn is_on_network(path: &Path) -> bool {
    // NFS, CIFS, SMB, SMB2, 9P, Ceph, AFS, Coda.
    const NETWORK: [u64; 8] = [
        0x6969,
        0xFF53_4D42,
        0x517B,
        0xFE53_4D42,
        0x0102_1997,
        0x00C3_6400,
        0x5346_414F,
        0x7375_7245,
    ];
    let kind = rustix::fs::statfs(path).map(|stat| stat.f_type.cast_unsigned() & 0xFFFF_FFFF);
    kind.is_ok_and(|kind| NETWORK.contains(&kind))
}

/// Not known on this system.
#[cfg(not(target_os = "linux"))]
fn is_on_network(_path: &Path) -> bool {
    false
}

/// Sets a damaged file aside that is ours by name or header, unless another process has.
pub(super) fn set_aside(
    path: &Path,
    damaged: Option<FileIdentity>,
) -> Result<Option<PathBuf>, StoreError> {
    let failed = |error: std::io::Error| {
        let path = path.display();
        StoreError::Broken(format!(
            "{path} is damaged and cannot be set aside: {error}; move it away by hand"
        ))
    };
    let folder = path.parent().unwrap_or(Path::new("."));
    // Of several processes that detect the damage one moves the file.
    let lock = File::open(folder).map_err(failed)?;
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
        .map_err(|error| failed(error.into()))?;
    if FileIdentity::from_path(path) != damaged {
        return Ok(None);
    }
    if path.file_name().is_none_or(|name| name != FILE_NAME) && !has_our_header(path) {
        return Err(foreign_file_error(path));
    }
    let when = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let mut aside = sibling(path, &format!(".broken-{when}"));
    let mut n = 1;
    while aside.exists() {
        n += 1;
        aside = sibling(path, &format!(".broken-{when}-{n}"));
    }
    // The log first: a remaining log would be applied to the next file of this name.
    for part in ["-wal", "-shm", ""] {
        match std::fs::rename(sibling(path, part), sibling(&aside, part)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(Some(aside))
}

fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn has_our_header(path: &Path) -> bool {
    let mut header = [0; 72];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut header));
    read.is_ok() && header[68..] == APPLICATION_ID.to_be_bytes()
}

/// Lessons as stored, read one by one, since each may be on an undamaged page.
pub(super) fn salvage(aside: &Path) -> Vec<String> {
    let read = || -> rusqlite::Result<Vec<String>> {
        let db = Connection::open_with_flags(aside, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let last: i64 =
            db.query_row("SELECT n FROM lessons ORDER BY n DESC LIMIT 1", [], |row| row.get(0))?;
        let mut select = db.prepare("SELECT body FROM lessons WHERE n = ?1")?;
        Ok((1..=last).filter_map(|n| select.query_row([n], |row| row.get(0)).ok()).collect())
    };
    read().unwrap_or_default()
}
