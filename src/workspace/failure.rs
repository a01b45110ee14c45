//! What the operating system said, in the tools' words: the one place that reads `io::ErrorKind`.

use std::io;

use crate::protocol::envelope::{ErrorCode, Failure};

/// The failure of `doing` something ("read", "list") with `path`.
pub(crate) fn io_failure(error: &io::Error, doing: &str, path: &str) -> Failure {
    use io::ErrorKind as Kind;
    let (code, why) = match error.kind() {
        Kind::NotFound => (ErrorCode::NotFound, "it does not exist"),
        Kind::PermissionDenied => (ErrorCode::PermissionDenied, "permission denied"),
        Kind::ReadOnlyFilesystem => (ErrorCode::PermissionDenied, "the file system is read-only"),
        Kind::IsADirectory => (ErrorCode::IsDirectory, "it is a directory"),
        Kind::NotADirectory => (ErrorCode::NotADirectory, "a part of the path is no directory"),
        Kind::InvalidFilename => (ErrorCode::InvalidParam, "the name is too long or not allowed"),
        Kind::StorageFull => (ErrorCode::ExecutionError, "the disk is full"),
        Kind::QuotaExceeded => (ErrorCode::ExecutionError, "the disk quota is used up"),
        // Paths are resolved before: a link that is met later was put there meanwhile.
        _ if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            (ErrorCode::AccessDenied, "a symlink appeared in its path")
        }
        _ => {
            let message = format!("could not {doing} {path}: {error}");
            return Failure::new(ErrorCode::ExecutionError, message).at(path);
        }
    };
    Failure::new(code, format!("could not {doing} {path}: {why}")).at(path)
}
