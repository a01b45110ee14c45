//! How the stages of a pipeline ended: bash's own `PIPESTATUS`, told when the shell exits.
//!
//! A file that bash reads before the command (`BASH_ENV`) sets a trap on its exit, and the trap
//! appends what it saw to that same file, which exists only in memory. The command's text is not
//! touched, so its meaning, its line numbers and its messages stay bash's own. A command with an
//! EXIT trap of its own replaces ours, and nothing is known; `exec` ends the shell without it. What
//! a command can see of all this: `trap` lists it, `set -v` shows it, one more file is open.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;

/// Scripts use small numbers for files of their own; bash itself uses 10 and up, and 255.
const LOWEST_DESCRIPTOR: i32 = 200;
/// What is read of the report; a pipeline has a few stages.
const REPORT_SIZE: u64 = 64 * 1024;

/// The file that the shell reads at its beginning and writes to at its end.
#[derive(Debug)]
pub(super) struct Report {
    file: Arc<OwnedFd>,
    prelude_length: u64,
}

impl Report {
    pub(super) fn new() -> io::Result<Self> {
        let file = memfd_create("report", MemfdFlags::CLOEXEC)?;
        let file = fcntl_dupfd_cloexec(file, LOWEST_DESCRIPTOR)?;
        let prelude = prelude(file.as_raw_fd());
        File::from(file.try_clone()?).write_all(prelude.as_bytes())?;
        Ok(Self { file: Arc::new(file), prelude_length: prelude.len() as u64 })
    }

    /// Where the shell finds it.
    pub(super) fn path(&self) -> String {
        format!("/dev/fd/{}", self.file.as_raw_fd())
    }

    /// Its number in the shell.
    pub(super) fn number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// For the child, which is to inherit it under this very number.
    pub(super) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.file)
    }

    /// How the stages of the last pipeline ended that the shell with this number ran, if it had several.
    pub(super) fn stages(&self, shell: i32) -> Vec<i32> {
        let text = self.text().unwrap_or_default();
        // A subshell that dies of an error runs the trap too: its lines have other numbers.
        let shell = format!(" {shell} ");
        let Some(codes) = text.rsplit(':').find_map(|record| record.strip_prefix(&shell)) else {
            return Vec::new();
        };
        let codes: Vec<i32> = codes.split(' ').filter_map(|code| code.parse().ok()).collect();
        if codes.len() < 2 { Vec::new() } else { codes }
    }

    fn text(&self) -> io::Result<String> {
        let mut file = File::from(self.file.try_clone()?);
        let mut text = String::new();
        file.seek(SeekFrom::Start(self.prelude_length))?;
        file.take(REPORT_SIZE).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// What bash reads before the command. Whatever the command does to `printf`, IFS or `set -x` does
/// not change what the trap says, nor does the trap show in its output or status.
fn prelude(descriptor: i32) -> String {
    format!(
        "trap '{{ builtin printf \"%s \" : \"$BASHPID\" \"${{PIPESTATUS[@]-}}\" >&{descriptor} || :; \
         }} 2>/dev/null' EXIT; unset BASH_ENV\n"
    )
}
