//! How the stages of a pipeline ended: bash's own `PIPESTATUS`, told when the shell exits.
//!
//! A file that bash reads before the command (`BASH_ENV`) sets a trap on its exit, and the trap
//! appends what it saw to that same file, which exists only in memory. The command's text is not
//! touched, so its meaning, its line numbers and its messages stay bash's own. A command with an
//! EXIT trap of its own replaces ours, and nothing is known; `exec` ends the shell without it. What
//! a command can see of all this: `trap` lists it, `set -v` shows it, one more file is open.
//!
//! Where the line is known to be a few plain pipelines one after the other, a second trap tells before
//! each command how the pipeline before it ended. (In a loop it would cost more than the loop. What each
//! stage says on stderr can not be told apart without giving each another stderr, which would change the
//! order of what is written, and what programs see there: it is left as it is.)

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::fcntl_dupfd_cloexec;

/// Scripts use small numbers for files of their own; bash itself uses 10 and up, and 255.
const LOWEST_DESCRIPTOR: i32 = 200;
/// The report with its prelude; a pipeline has a few stages. It has this size from the beginning, and is sealed:
/// a command that writes there can not fill the machine's memory.
const SIZE: usize = 8 * 1024;

/// Which statuses of a line's pipelines are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// Those of the last pipeline.
    AtTheEnd,
    /// Before each command those of the pipeline before it, too.
    BeforeEach,
}

/// The file that the shell reads at its beginning and writes to at its end.
#[derive(Debug)]
pub(super) struct Report {
    file: Arc<OwnedFd>,
    prelude_length: u64,
    wanted: Statuses,
}

impl Report {
    pub(super) fn new(wanted: Statuses) -> io::Result<Self> {
        let file = memfd_create("report", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let file = fcntl_dupfd_cloexec(file, LOWEST_DESCRIPTOR)?;
        let prelude = prelude(file.as_raw_fd(), wanted);
        let prelude_length = prelude.len() as u64;
        let mut to = File::from(file.try_clone()?);
        // To the shell what stands where the report will be is a comment.
        to.write_all(format!("{prelude:#<SIZE$}").as_bytes())?;
        to.seek(SeekFrom::Start(prelude_length))?;
        fcntl_add_seals(&file, SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
        Ok(Self { file: Arc::new(file), prelude_length, wanted })
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

    /// The statuses that the shell with this number knew of: before each command, where that was asked for,
    /// and last at its end. Empty where its end is not known.
    pub(super) fn statuses(&self, shell: i32) -> Vec<Vec<i32>> {
        let text = self.text().unwrap_or_default();
        let shell = shell.to_string();
        let (mut statuses, mut at_end) = (Vec::new(), Vec::new());
        for record in text.split(BEGIN) {
            let mut words = record.split(' ');
            let kind = words.next();
            // A subshell that dies of an error runs the trap too: its records have other numbers.
            if words.next() != Some(&shell) {
                continue;
            }
            let codes = words.map_while(|code| code.parse().ok()).collect();
            if kind == Some(AT_END) {
                // The trap at the end is a command, before which the other one told the same.
                if self.wanted == Statuses::BeforeEach {
                    statuses.pop();
                }
                // What a command wrote here itself stands before what bash says at its end.
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

/// Begins a record; what a command is called holds no such character.
const BEGIN: char = '\u{1e}';
const AT_END: &str = "E";

/// What bash reads before the command. Whatever the command does to `printf`, IFS or `set -x` does
/// not change what the traps say, nor do the traps show in its output or status, nor in `$_`: the last word
/// of the second one's command is what it was.
fn prelude(descriptor: i32, wanted: Statuses) -> String {
    let trap = |words: &str, signal: &str| {
        format!(
            "trap '{{ builtin printf \"%.8s \" {words} >&{descriptor} || :; }} 2>/dev/null' {signal}"
        )
    };
    let codes = "\"$BASHPID\" \"${PIPESTATUS[@]-}\"";
    let mut prelude = trap(&format!("{BEGIN}{AT_END} {codes}"), "EXIT") + "; unset BASH_ENV";
    if wanted == Statuses::BeforeEach {
        prelude.push_str("; ");
        prelude.push_str(&trap(&format!("{BEGIN}C {codes} _ \"$_\""), "DEBUG"));
    }
    prelude + "\n"
}
