//! The plan that the agent sends to a supervisor: the sandbox of one command.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Network;

/// The device and the number of a file.
pub(super) type FileId = (u64, u64);

/// The sandbox of one command.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    /// The command gets namespaces; without them Landlock and seccomp alone enforce the profile.
    pub(super) namespaces: bool,
    pub(super) network: Network,
    /// In this order.
    pub(super) mounts: Vec<Mount>,
    /// What covers hidden paths: an empty directory and an empty file.
    pub(super) empty: [OsString; 2],
    /// Where Landlock permits writing.
    pub(super) writable: Vec<OsString>,
    /// What Landlock does not permit to read; with namespaces it is covered instead.
    pub(super) hidden: Vec<OsString>,
    /// Identities of these: a command may have renamed or linked them.
    pub(super) hidden_ids: Vec<FileId>,
    /// Paths that exist also where the directory above them cannot be listed.
    pub(super) known: Vec<OsString>,
    /// What may be read although it lies in a hidden directory.
    pub(super) readable: Vec<OsString>,
    pub(super) run: Run,
}

/// A program, and how it is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::exec) struct Run {
    pub(super) program: OsString,
    pub(super) words: Vec<String>,
    /// All of its variables; the last one of a name counts.
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) directory: OsString,
    /// The descriptor number of the stages' report.
    pub(super) report: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Mount {
    Bind {
        from: OsString,
        to: OsString,
        access: Access,
    },
    /// Covers it with an empty directory or file.
    Hide(OsString),
}

/// What is permitted on a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Access {
    Read,
    Write,
    /// Opening a device file.
    Device,
}

impl Run {
    pub(in crate::exec) fn new(
        program: &Path,
        words: &[&str],
        variables: Vec<(OsString, OsString)>,
        directory: &Path,
        report: Option<i32>,
    ) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Self { program: program.into(), words, variables, directory: directory.into(), report }
    }
}

impl Plan {
    /// Writes its length, then itself.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let text = serde_json::to_vec(self)?;
        to.write_all(&text.len().to_le_bytes())?;
        to.write_all(&text)
    }

    /// Waits for it and reads it.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; size_of::<usize>()];
        from.read_exact(&mut length)?;
        let mut text = vec![0; usize::from_le_bytes(length)];
        from.read_exact(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }
}
