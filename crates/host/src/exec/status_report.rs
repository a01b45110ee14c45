//! The exit statuses of pipeline stages: bash's `PIPESTATUS`, reported when the shell exits.
//!
//! A file that bash reads before the command (`BASH_ENV`) sets an EXIT trap, and the trap appends the statuses to
//! the same file, which exists only in memory. The command's text is not changed; if the command sets its own
//! EXIT trap, or calls `exec`, the statuses are unknown.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;

/// Scripts use small descriptor numbers; bash uses 10 and up, and 255.
const LOWEST_DESCRIPTOR: i32 = 200;
/// Size in bytes, with the prelude. The file has this size from the beginning and is sealed: a command cannot
/// fill the memory by writing.
const SIZE: usize = 8 * 1024;

/// The pipelines whose statuses are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedPipelines {
    Last,
    /// Also the previous pipeline before each command.
    Each,
}

/// The shell reads the file when it starts and writes it when it exits.
#[derive(Debug)]
pub(super) struct StatusReport {
    file: Arc<OwnedFd>,
    prelude_length: u64,
    wanted: ReportedPipelines,
}

impl StatusReport {
    pub(super) fn new(wanted: ReportedPipelines) -> io::Result<Self> {
        let file = memfd_create("report", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let file = fcntl_dupfd_cloexec(file, LOWEST_DESCRIPTOR)?;
        let prelude = prelude(file.as_raw_fd(), wanted);
        let prelude_length = prelude.len() as u64;
        let mut to = File::from(file.try_clone()?);
        // The rest of the file is a comment for the shell.
        to.write_all(format!("{prelude:#<SIZE$}").as_bytes())?;
        to.seek(SeekFrom::Start(prelude_length))?;
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Self { file: Arc::new(file), prelude_length, wanted })
    }

    pub(super) fn path(&self) -> String {
        format!("/dev/fd/{}", self.file.as_raw_fd())
    }

    pub(super) fn descriptor_number(&self) -> i32 {
        self.file.as_raw_fd()
    }

    pub(super) fn descriptor(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.file)
    }

    /// The statuses that the shell with this process id reported: before each command if requested, and last at its
    /// end. Empty without a report at the end.
    pub(super) fn statuses(&self, shell: i32) -> Vec<Vec<i32>> {
        let text = self.text().unwrap_or_default();
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
                if self.wanted == ReportedPipelines::Each {
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

    fn text(&self) -> io::Result<String> {
        let mut file = File::from(self.file.try_clone()?);
        let mut text = Vec::new();
        file.seek(SeekFrom::Start(self.prelude_length))?;
        file.read_to_end(&mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

const RECORD_START: char = '\u{1e}';
const AT_END: &str = "E";

/// Bash reads the script before the command. The traps work whatever the command does to `printf`, IFS or
/// `set -x`, and do not affect its output, its status or `$_`: the last word of the second trap's command is
/// the previous `$_`.
fn prelude(descriptor: i32, wanted: ReportedPipelines) -> String {
    let trap = |words: &str, signal: &str| {
        format!(
            "trap '{{ builtin printf \"%.8s \" {words} >&{descriptor} || :; }} 2>/dev/null' {signal}"
        )
    };
    let codes = "\"$BASHPID\" \"${PIPESTATUS[@]-}\"";
    let mut prelude = trap(&format!("{RECORD_START}{AT_END} {codes}"), "EXIT") + "; unset BASH_ENV";
    if wanted == ReportedPipelines::Each {
        prelude.push_str("; ");
        prelude.push_str(&trap(&format!("{RECORD_START}C {codes} _ \"$_\""), "DEBUG"));
    }
    prelude + "\n"
}
