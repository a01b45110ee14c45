//! Converts I/O errors to failures of tools: the only place that reads `io::ErrorKind`.

use std::io;

use agent_protocol::disk;
use agent_protocol::envelope::{ErrorCode, Failure};

/// Converts an I/O error to a failure of `doing` something ("read", "list") with `path`.
pub fn io_failure(error: &io::Error, doing: &str, path: &str) -> Failure {
    use io::ErrorKind as Kind;
    const LIST: &str = "list the directory with LS";
    const ANOTHER_PATH: &str = "use another path, or report it";
    const REPORT: &str = "report it, and do not try again";
    let is_loop = error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error());
    let mut why = disk::in_words(error);
    let (code, hint) = match error.kind() {
        Kind::NotFound => (ErrorCode::NotFound, LIST),
        Kind::PermissionDenied | Kind::ReadOnlyFilesystem => {
            (ErrorCode::PermissionDenied, ANOTHER_PATH)
        }
        Kind::IsADirectory => (ErrorCode::IsDirectory, LIST),
        Kind::NotADirectory => (ErrorCode::NotADirectory, LIST),
        Kind::InvalidFilename => (ErrorCode::InvalidParam, "use another name"),
        Kind::StorageFull | Kind::QuotaExceeded => (ErrorCode::ExecutionError, REPORT),
        // The path was resolved before, so a link was created since then.
        _ if is_loop => {
            "a symlink appeared in its path".clone_into(&mut why);
            (ErrorCode::AccessDenied, LIST)
        }
        _ => {
            why = error.to_string();
            (ErrorCode::ExecutionError, ANOTHER_PATH)
        }
    };
    Failure::new(code, format!("could not {doing} {path}: {why}")).with_hint(hint).with_path(path)
}
