//! The plan that the agent sends to a supervisor: the sandbox of one command.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read, Write};

use serde::{Deserialize, Serialize};

use super::{FileOwners, Network};

const BUFFER: usize = 64 * 1024;

pub(super) type FileId = (u64, u64);

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct SandboxPlan {
    /// If false, Landlock and seccomp alone enforce the profile.
    pub(super) namespaces: bool,
    pub(super) network: Network,
    pub(super) mounts: Vec<Mount>,
    /// An empty directory and an empty file that cover hidden paths.
    pub(super) empty: [OsString; 2],
    pub(super) writable: Vec<OsString>,
    /// Paths that Landlock does not permit to read; with namespaces they are covered instead.
    pub(super) hidden: Vec<OsString>,
    /// Identities of the hidden paths: a command may have renamed or linked them.
    pub(super) hidden_ids: Vec<FileId>,
    /// Existing paths in directories that cannot be listed.
    pub(super) known: Vec<OsString>,
    pub(super) readable: Vec<OsString>,
    pub(super) max_processes: u32,
    pub(super) owners: FileOwners,
    pub(super) run: ProgramInvocation,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(in crate::exec) struct ProgramInvocation {
    pub(in crate::exec) program: OsString,
    pub(in crate::exec) words: Vec<String>,
    /// All variables; the last one of a name counts.
    pub(in crate::exec) variables: Vec<(OsString, OsString)>,
    pub(in crate::exec) directory: OsString,
    pub(in crate::exec) report: Option<i32>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Mount {
    Bind { from: OsString, to: OsString, access: MountAccess },
    Hide(OsString),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum MountAccess {
    Read,
    Write,
    Device,
}

impl SandboxPlan {
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        to.write_all(&line)
    }

    /// Waits for the plan. Nothing may follow it.
    pub(super) fn read(from: impl Read) -> io::Result<Self> {
        let mut line = Vec::new();
        BufReader::with_capacity(BUFFER, from).read_until(b'\n', &mut line)?;
        Ok(serde_json::from_slice(&line)?)
    }
}
