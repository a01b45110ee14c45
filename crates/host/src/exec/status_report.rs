//! The exit statuses of pipeline stages: bash's `PIPESTATUS`, which an EXIT trap appends to a file in memory.
//!
//! The file also sets the trap: bash reads it first (`BASH_ENV`). If the command sets its own EXIT trap, or calls `exec`,
//! the statuses are unknown.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;

/// Scripts use small descriptor numbers; bash uses 10 and up, and 255.
const LOWEST_DESCRIPTOR: i32 = 200;
/// Size in bytes, with the prelude. The file is sealed: a command cannot fill the memory by writing.
const SIZE: usize = 8 * 1024;

/// The shell reads the file when it starts and writes it when it exits.
#[derive(Debug)]
pub(super) struct StatusReport {
    pub(super) file: Arc<OwnedFd>,
    prelude_length: u64,
    /// Also the previous pipeline before each command.
    has_each: bool,
}

impl StatusReport {
    pub(super) fn new(has_each: bool) -> io::Result<Self> {
        let file = memfd_create("report", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let file = fcntl_dupfd_cloexec(file, LOWEST_DESCRIPTOR)?;
        let prelude = prelude(file.as_raw_fd(), has_each);
        let prelude_length = prelude.len() as u64;
        let mut to = File::from(file.try_clone()?);
        // The rest of the file is a comment for the shell.
        to.write_all(format!("{prelude:#<SIZE$}").as_bytes())?;
        to.seek(SeekFrom::Start(prelude_length))?;
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Self { file: Arc::new(file), prelude_length, has_each })
    }

    /// The reported statuses: before each command if requested, and last at the end. Empty without a report at the end.
    pub(super) fn statuses(&self, shell: i32) -> Vec<Vec<i32>> {
        let mut text = Vec::new();
        let read = self.file.try_clone().map(File::from).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.prelude_length))?;
            file.read_to_end(&mut text)
        });
        let text = read.map_or(String::new(), |_| String::from_utf8_lossy(&text).into_owned());
        let shell = shell.to_string();
        let (mut statuses, mut at_end) = (Vec::new(), Vec::new());
        for record in text.split(RECORD_START) {
            let mut words = record.split(' ');
            let kind = words.next();
            // A subshell that exits on an error runs the trap too: its records have another process id.
            if words.next() != Some(&shell) {
                continue;
            }
            let codes = words.map_while(|code| code.parse().ok()).collect();
            if kind == Some(AT_END) {
                // The EXIT trap is a command itself, before which the other trap reported the same.
                if self.has_each {
                    statuses.pop();
                }
                // The last report of bash comes after anything that the command wrote to the file.
                at_end.clone_from(&statuses);
                at_end.push(codes);
            } else {
                statuses.push(codes);
            }
        }
        at_end
    }
}

const RECORD_START: char = '\u{1e}';
const AT_END: &str = "E";

/// The traps work whatever the command does to `printf`, IFS or `set -x`, and do not affect its output, its status or
/// `$_`: the last word of the second trap's command is the previous `$_`.
fn prelude(descriptor: i32, has_each: bool) -> String {
    let trap = |words: &str, signal: &str| {
        format!(
            "trap '{{ builtin printf \"%.8s \" {words} >&{descriptor} || :; }} 2>/dev/null' {signal}"
        )
    };
    let codes = "\"$BASHPID\" \"${PIPESTATUS[@]-}\"";
    let mut prelude = trap(&format!("{RECORD_START}{AT_END} {codes}"), "EXIT") + "; unset BASH_ENV";
    if has_each {
        prelude.push_str("; ");
        prelude.push_str(&trap(&format!("{RECORD_START}C {codes} _ \"$_\""), "DEBUG"));
    }
    prelude + "\n"
}
