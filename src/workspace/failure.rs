//! Converts I/O errors to failures of tools: the only place that reads `io::ErrorKind`.

use std::io;

use crate::protocol::envelope::{ErrorCode, Failure};

/// The failure of `doing` something ("read", "list") with `path`.
pub(crate) fn io_failure(error: &io::Error, doing: &str, path: &str) -> Failure {
    use io::ErrorKind as Kind;
    const LIST: &str = "list the directory with LS";
    const ANOTHER_PATH: &str = "use another path, or report it";
    const REPORT: &str = "report it, and do not try again";
    let (code, why, hint) = match error.kind() {
        Kind::NotFound => (ErrorCode::NotFound, "it does not exist", LIST),
        Kind::PermissionDenied => (ErrorCode::PermissionDenied, "permission denied", ANOTHER_PATH),
        Kind::ReadOnlyFilesystem => {
            (ErrorCode::PermissionDenied, "the file system is read-only", ANOTHER_PATH)
        }
        Kind::IsADirectory => (ErrorCode::IsDirectory, "it is a directory", LIST),
        Kind::NotADirectory => {
            (ErrorCode::NotADirectory, "a part of the path is not a directory", LIST)
        }
        Kind::InvalidFilename => {
            (ErrorCode::InvalidParam, "the name is too long or not allowed", "use another name")
        }
        Kind::StorageFull => (ErrorCode::ExecutionError, "the disk is full", REPORT),
        Kind::QuotaExceeded => (ErrorCode::ExecutionError, "the disk quota is used up", REPORT),
        // The path was resolved before: a link that occurs now was created since then.
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            (ErrorCode::AccessDenied, "a symlink appeared in its path", LIST)
        }
        _ => {
            let message = format!("could not {doing} {path}: {error}");
            return Failure::new(ErrorCode::ExecutionError, message).hint(ANOTHER_PATH).at(path);
        }
    };
    Failure::new(code, format!("could not {doing} {path}: {why}")).hint(hint).at(path)
}
